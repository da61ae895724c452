"""Writes every part of the documents that can be derived from the product.

    python tools/generate_docs.py            rewrites what is out of date
    python tools/generate_docs.py --check    writes nothing; exit 1 and the names if something is

Owns `docs/commands.md`, `docs/pictures`, `man/git-mem.1` and the table of completion whole, and in
docs/format.md and docs/migration.md what stands between `<!-- NAME:begin -->` and
`<!-- NAME:end -->`: the worked example (`worked_examples`), the formats that `import` reads.

Needs git, rich and the package installed (or a checkout on the path).
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

from completion_table import table
from pictures import pictures
from worked_examples import example

ROOT = pathlib.Path(__file__).resolve().parent.parent

# --- the commands, as typer has them --------------------------------------


class Option:
    """One option or argument of a command."""

    def __init__(self, param: Any) -> None:
        self.field: str = str(param.name)
        self.is_argument: bool = param.param_type_name == "argument"
        self.help: str = (param.help or "").strip()
        self.flag: bool = bool(getattr(param, "is_flag", False))
        self.names: list[str] = [] if self.is_argument else [*param.opts, *param.secondary_opts]
        name = (param.metavar or str(param.name).upper()).strip("[]{}")
        self.value: str = "" if self.flag else name.removesuffix("...").strip("[]")
        self.many: bool = bool(
            param.nargs == -1 or getattr(param, "multiple", False) or name.endswith("...")
        )
        self.required: bool = bool(param.required)

    @property
    def synopsis(self) -> str:
        text = self.value + ("..." if self.many else "")
        return text if self.required else f"[{text}]"


class Command:
    """One command: its name, help and options, in the order of `--help`. Of a part of a command
    (`model fetch`) the summary is the first sentence of its help.
    """

    def __init__(self, name: str, command: Any, summary: str = "", daily: bool = False) -> None:
        self.name = name
        self.daily = daily
        self.help: str = " ".join((command.help or "").split())
        self.summary = summary or self.help.split(". ")[0].removesuffix(".")
        options = [Option(p) for p in command.params if not getattr(p, "hidden", False)]
        self.arguments = [o for o in options if o.is_argument]
        self.options = [o for o in options if not o.is_argument and "--help" not in o.names]

    @property
    def synopsis(self) -> str:
        return " ".join(
            [
                f"git mem {self.name}",
                *(["[OPTIONS]"] if self.options else []),
                *[a.synopsis for a in self.arguments],
            ]
        )


def commands() -> tuple[dict[str, list[Command]], list[Option]]:
    """(the commands in the groups of `cli/commands.py`, options of `git mem` itself)."""
    from typer.main import get_command

    from gitmem import cli
    from gitmem.cli.commands import GROUPS

    root: Any = get_command(cli.load())
    groups: dict[str, list[Command]] = {}
    for title, group in GROUPS.items():
        groups[title] = []
        for row in group:
            command = root.commands[row.name]
            parts = getattr(command, "commands", {})  # `git mem model fetch`
            groups[title].append(Command(row.name, command, row.summary, row.daily))
            groups[title] += [Command(f"{row.name} {n}", p) for n, p in sorted(parts.items())]
    return groups, [Option(p) for p in root.params]


def settings() -> list[tuple[str, str, str, bool, str]]:
    """(name, values, default, whether .gitmem.toml may set it, meaning) of every setting."""
    from gitmem.git.config import SETTINGS

    words = {
        "bool": "true or false",
        "int": "a positive number",
        "tokens": "auto or a positive number",
        "share": "a number from 0 to 1",
        "text": "a name",
    }
    return [
        (
            f"mem.{name}",
            words[kind] if isinstance(kind, str) else " or ".join(kind),
            default,
            policy,
            meaning,
        )
        for name, (kind, default, policy, meaning) in SETTINGS.items()
    ]


# --- docs/commands.md ------------------------------------------------------


def markdown(text: str) -> str:
    """Text with what Markdown would take for HTML or a table made harmless, outside of code."""
    parts = text.split("`")
    parts[::2] = [
        p.replace("<", "&lt;").replace(">", "&gt;").replace("|", "\\|").replace("*", "\\*")
        for p in parts[::2]
    ]
    return "`".join(parts)


def settings_table() -> list[str]:
    out = [
        "`.gitmem.toml` may set those marked ¹.",
        "",
        "| setting | values (`default`) | meaning |",
        "|---|---|---|",
    ]
    for name, values, default, policy, meaning in settings():
        words = values.split(" or ")
        if default in words:  # the default goes first
            known = ", ".join([f"`{default}`", *(w for w in words if w != default)])
        else:
            known = f"{values} (`{default}`)" if default else values
        out.append(f"| `{name}`{' ¹' if policy else ''} | {known} | {markdown(meaning)} |")
    return out


def commands_page() -> str:
    groups, root = commands()
    out = [
        "# Commands",
        "",
        (
            "For users who look up a command or option. Generated by `tools/generate_docs.py`"
            " from the program itself; the manual page `git-mem(1)` says the same."
        ),
        "",
        (
            "`git mem -h` lists the commands for every day, `git mem help -a` all; `git mem COMMAND"
            " -h` explains one, `git mem --help` opens the manual page."
        ),
        (
            "Every `ID` may be shortened to a unique prefix of at least four digits."
            " `--json` prints JSON."
        ),
    ]
    for title, listed in groups.items():
        names = ", ".join(f"[`{c.name}`](#{c.name})" for c in listed if " " not in c.name)
        out += ["", f"**{title[:1].upper() + title[1:]}**: {names}"]
    out += ["", "## Settings", "", *settings_table()]
    out += ["", "## Options of `git mem`", "", *_rows(root)]
    known = [c for listed in groups.values() for c in listed]
    filters = _filters(known)
    out += ["", "## Filters", "", "They choose the memories.", "", *_rows(filters)]
    told = {_what(o): "[Filters](#filters)" for o in filters}
    every = "- [Filters](#filters): " + ", ".join(f"`{n}`" for o in filters for n in o.names)
    for c in known:
        shown = [o for o in c.options if o.help != "Print JSON."]  # said once, at the top
        synopsis = c.synopsis if shown else c.synopsis.replace(" [OPTIONS]", "")
        if len(shown) < len(c.options):
            synopsis = synopsis.replace(c.name, f"{c.name} [--json]", 1)
        out += ["", f"## {c.name}", "", f"`{synopsis}`", "", markdown(c.help)]
        if c.arguments or shown:
            rows = [*_rows(c.arguments), *_rows(shown, told)]
            out += ["", *("- All [filters](#filters)" if row == every else row for row in rows)]
        for o in shown:
            told.setdefault(_what(o), f"As for [`{c.name}`](#{c.name.replace(' ', '-')})")
    return "\n".join(out) + "\n"


def _what(o: Option) -> tuple[object, ...]:
    """Equal for two options that are the same in all that is told of them."""
    return (tuple(o.names), o.value, o.help)


def _filters(known: list[Command]) -> list[Option]:
    """The options that `list` and other commands take as one set."""
    from gitmem.cli.options import Filters

    (listing,) = (c for c in known if c.name == "list")
    return [o for o in listing.options if o.field in Filters._fields]


def _rows(options: list[Option], told: Mapping[tuple[object, ...], str] | None = None) -> list[str]:
    """A row for each option; those `told` at another place are named together, with a link."""
    out, elsewhere = [], dict[str, list[str]]()
    for o in options:
        if told and _what(o) in told:
            elsewhere.setdefault(told[_what(o)], []).extend(f"`{n}`" for n in o.names)
            continue
        names = ", ".join(f"`{n}`" for n in o.names) or f"`{o.synopsis}`"
        out.append(f"- {names}{f' `{o.value}`' if o.value and o.names else ''}: {markdown(o.help)}")
    return [*out, *(f"- {place}: {', '.join(names)}" for place, names in elsewhere.items())]


# --- man/git-mem.1 ---------------------------------------------------------


def roff(text: str) -> str:
    """One paragraph of text as roff: code in bold, hyphens and backslashes as themselves."""
    out = []
    for i, part in enumerate(text.split("`")):
        part = part.replace("\\", "\\e").replace("-", "\\-") if i % 2 else part.replace("\\", "\\e")
        out.append(f"\\fB{part}\\fR" if i % 2 else part)
    joined = "".join(out)
    return "\\&" + joined if joined.startswith((".", "'")) else joined


def _bold(text: str) -> str:
    return "\\fB" + text.replace("\\", "\\e").replace("-", "\\-") + "\\fR"


def _items(rows: list[tuple[str, str]]) -> list[str]:
    """Tagged paragraphs of (roff of the tag, text)."""
    out = []
    for tag, text in rows:
        out += [".TP", tag, roff(text)]
    return out


def _options(options: list[Option]) -> list[str]:
    rows = []
    for o in options:
        tag = ", ".join(_bold(n) for n in o.names) if o.names else f"\\fI{o.value}\\fR"
        rows.append((tag + (f" \\fI{o.value}\\fR" if o.value and o.names else ""), o.help))
    return _items(rows)


DESCRIPTION = (
    (
        "`git mem` keeps what people and coding agents learn about a project in the project's own"
        " git notes: why a library was chosen, which fix failed, what broke last time. There is no"
        " server, no daemon and no file in the working tree."
    ),
    (
        "A memory is a short text with a type, tags and paths, anchored to a commit. It is one line"
        " of JSON in the note of that commit. `git mem recall` finds memories by their words and by"
        " their meaning, offline, with a sentence encoder that comes with the program."
    ),
    (
        "Memories of the team live in `refs/notes/mem/team`, private ones in"
        " `refs/notes/mem/private`. `git mem sync` unites the first with those of a remote; git mem"
        " never pushes the second, unless `git mem push --private-to` names a remote. `git push"
        " origin 'refs/notes/*'` and `git push --mirror` publish them, too."
    ),
)
EXIT = (
    ("0", "Done, or something was found."),
    ("1", "Refused with a reason, or nothing was found."),
    ("2", "The words of the call do not fit together."),
    ("3", "A bug of git mem. The traceback is in the file that the message names."),
    ("128", "Not a git repository."),
)


def environment() -> list[tuple[str, str]]:
    from gitmem.git.config import variable_of

    out = [
        (
            "GIT_MEM_DISABLE",
            (
                "Any value but `0` switches git mem off; `status`, `doctor`, `config` and"
                " `uninstall` still work."
            ),
        )
    ]
    out += [
        (variable_of(name.removeprefix("mem.")), f"Goes before the setting `{name}`.")
        for name, *_ in settings()
    ]
    out += [
        (
            "GIT_AUTHOR_NAME, GIT_AUTHOR_EMAIL, EMAIL",
            "The author of a memory; otherwise `author.*`, `user.*` or the login name.",
        ),
        ("GIT_EDITOR, VISUAL, EDITOR", "The editor, chosen as git chooses it."),
        ("GIT_DIR", "The repository, as for every git command."),
        ("GIT_PAGER, PAGER, LESS", "The pager of a terminal, chosen as git chooses it."),
        ("NO_COLOR", "If set, no colour, unless `color.ui` is `always`."),
        (
            "CLAUDECODE, CLAUDE_CODE_SESSION_ID",
            "If set, `remember` stores that an agent spoke, and in which session.",
        ),
    ]
    return out


def files() -> list[tuple[str, str]]:
    from gitmem.engine import cache

    index = os.path.basename(cache.path_of("mem"))
    return [
        ("refs/notes/mem/team", "The shared memories."),
        ("refs/notes/mem/private", "The private ones."),
        (
            "refs/notes/remotes/REMOTE/mem/team",
            "What the last `git fetch` saw of a remote's memories, if `init` has been run.",
        ),
        (
            f".git/mem/{index}",
            (
                "The cache. It may be deleted at any moment; the next command builds it again from"
                " the notes."
            ),
        ),
        (".git/git-mem-install.json", "What `init` changed, for `uninstall`."),
        (
            "~/.local/state/git-mem/installed.json",
            (
                "What `install` added to settings of agents, for `uninstall`: places and digests,"
                " no text."
            ),
        ),
        (
            ".gitmem.toml",
            (
                "Team policy at the top of the working tree, only if you write one: `name ="
                ' "value"` for the settings that allow it.'
            ),
        ),
    ]


def man_page() -> str:
    from gitmem import __version__

    groups, root = commands()
    daily = [c for listed in groups.values() for c in listed if c.daily]
    out = [
        '.\\" Generated by tools/generate_docs.py.',
        f'.TH GIT\\-MEM 1 "" "git\\-mem {__version__}" "Git Manual"',
        ".SH NAME",
        "git\\-mem \\- memory for coding agents and people, kept in git notes",
        ".SH SYNOPSIS",
        ".nf",
    ]
    out += [roff(c.synopsis).replace("-", "\\-") for c in daily]
    out += ["git mem \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]"]
    out += [".fi", ".SH DESCRIPTION"]
    for i, paragraph in enumerate(DESCRIPTION):
        out += [".PP"] * bool(i) + [roff(paragraph)]
    out += [
        ".SH OPTIONS",
        *_options(root),
        ".SH COMMANDS",
        "Every \\fIID\\fR may be shortened to a unique prefix of at least four digits.",
    ]
    for title, listed in groups.items():
        out += [f'.SS "{title[:1].upper() + title[1:]}"']
        out += _items([(_bold(c.name), c.summary + ".") for c in listed])
    for title, listed in groups.items():
        out += [f'.SH "{title.upper()}"']
        for c in listed:
            out += [f'.SS "{c.synopsis}"'.replace("-", "\\-"), roff(c.help)]
            out += _options([*c.arguments, *c.options])
    out += [
        ".SH SETTINGS",
        (
            "Settings are read with \\fBgit config\\fR; \\fBgit mem config\\fR lists and changes"
            " them. The environment goes first, then git's"
        ),
        "configuration, then \\fB.gitmem.toml\\fR, then the default.",
    ]
    rows = []
    for name, values, default, policy, meaning in settings():
        sentence = (
            meaning
            if meaning.startswith(("true ", "false "))
            else meaning[:1].upper() + meaning[1:]
        )
        rows.append(
            (
                _bold(name),
                f"{sentence}. Values: {values}; default `{default}`. "
                + ("`.gitmem.toml` may set it." if policy else ""),
            )
        )
    out += _items([(tag, text.strip()) for tag, text in rows])
    for title, pairs in (
        ("ENVIRONMENT", environment()),
        ("FILES", files()),
        ("EXIT STATUS", list(EXIT)),
    ):
        out += [f".SH {title}", *_items([(_bold(tag), text) for tag, text in pairs])]
    out += [
        ".SH SEE ALSO",
        (
            "\\fBgit\\-notes\\fR(1), \\fBgit\\-fetch\\fR(1), \\fBgit\\-push\\fR(1),"
            " \\fBgit\\-config\\fR(1)"
        ),
        ".PP",
        "The format of the notes is specified in \\fBdocs/format.md\\fR of the source.",
    ]
    return "\n".join(out) + "\n"


def formats() -> str:
    """The formats of other tools, as a table."""
    from gitmem.migration.formats import FORMATS

    rows = [
        f"| `{name}` | {f.what} | {f'`{f.place}`' if f.place else 'a path'} |"
        f" {'yes' if f.private else 'no'} |"
        for name, f in FORMATS.items()
    ]
    return "\n".join(["| format | what is read | from | private |", "|---|---|---|---|", *rows])


# --- putting it together ---------------------------------------------------


def between(text: str, name: str, content: str) -> str:
    """`text` with what stands between the markers of `name` replaced."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"error: no markers '{begin}' and '{end}'")
    return f"{head}{begin}\n{content}\n{end}{tail}"


def generate() -> dict[str, str]:
    """{file, relative to the root: its whole text}."""
    form = (ROOT / "docs/format.md").read_text(encoding="utf-8")
    migration = (ROOT / "docs/migration.md").read_text(encoding="utf-8")
    return {
        "docs/commands.md": commands_page(),
        "man/git-mem.1": man_page(),
        "gitmem/data/completion/table.tsv": table(*commands()),
        "docs/format.md": between(form, "example", example()),
        "docs/migration.md": between(migration, "formats", formats()),
        **pictures(),
    }


def main(argv: list[str]) -> int:
    if argv not in ([], ["--check"]):
        print("usage: generate_docs.py [--check]", file=sys.stderr)
        return 2
    stale = []
    for name, text in generate().items():
        path = ROOT / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not argv:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"out of date: {name}" if argv else f"written: {name}", file=sys.stderr)
    if stale and argv:
        print("hint: run `python tools/generate_docs.py`", file=sys.stderr)
    return 1 if stale and argv else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
