"""Makes `gitmem/data/completion/table.tsv`: each command with its options and operands, and what
may stand for the value of each (`completion/complete.py` reads it).

First the options of `git mem` itself. A line of a command: its name, `-` if it is not offered, its
summary. Below it, after a tab, one for each option and operand: its names, the kind of its value
(nothing for a flag), its help. The settings are parts of `config`, as `fetch` is one of `model`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# What stands for the value in a synopsis, and what a shell may offer for it: see `complete._KINDS`.
KINDS = {
    "ID": "<id>",
    "TYPE": "<type>",
    "TAG": "<tag>",
    "REV": "<rev>",
    "RANGE": "<rev>",
    "OLD": "<rev>",
    "NEW": "<rev>",
    "REMOTE": "<remote>",
    "COMMAND": "<command>",
    "FILE": "<file>",
    "PATH": "<file>",
    "DIR": "<file>",
    "FOLDER": "<file>",
    "MEMORY": "<id>",
}
TEXT = "<text>"  # nothing can be offered


def exact() -> dict[str, str]:
    """Kinds of single options and operands, where the synopsis does not tell."""
    from gitmem.agents import targets
    from gitmem.completion import shells
    from gitmem.migration import formats as migration
    from gitmem.models import registry

    places = "|".join((*targets.TARGETS, shells.TARGET))
    formats = "|".join(migration.FORMATS)
    names = "|".join(model.name for model in registry.MODELS)
    suggestions = {f"review --{option}": TEXT for option in ("accept", "reject", "edit")}
    return {
        "install TARGET": places,
        "uninstall TARGET": places,
        "import FILE": f"claude|sessions|git-log|adr|{formats}|<file>",
        "import --from": f"{formats}|<file>",
        "import --project": TEXT,
        "import WHERE": "<where>",
        "share ID": "<private>",
        "restore ID": "<forgotten>",
        "receipts --session": TEXT,
        **suggestions,
        "export claude|DIR": "claude|<file>",
        "hook --agent": "|".join(targets.AGENTS),
        **{f"{command} --remote": "<remote>" for command in ("sync", "push", "pull")},
        **{f"model {part} NAME": names for part in ("fetch", "use", "path", "remove")},
    }


def kind(command: str, option: Any, known: Mapping[str, str]) -> str:
    if option.flag:
        return ""
    for name in option.names or [option.value]:
        if found := known.get(f"{command} {name}"):
            return found
    if "|" in option.value:
        return str(option.value)
    return KINDS.get(option.value, TEXT)


def table(groups: Mapping[str, Iterable[Any]], root: Iterable[Any]) -> str:
    """`groups`, `root`: as `generate_docs.commands` gives them."""
    from gitmem.cli.commands import ALIASES, LOW_LEVEL
    from gitmem.completion.complete import HIDDEN
    from gitmem.git.config import SETTINGS

    known = exact()
    names: dict[str, list[str]] = {}
    for alias, name in ALIASES.items():
        names.setdefault(name, []).append(alias)
    lines = [("\t" + " ".join(o.names), "", o.help) for o in root]
    for title, group in groups.items():
        for command in group:
            for name in [command.name, *names.get(command.name, [])]:
                listed = name == command.name and title != LOW_LEVEL
                lines.append((name, "" if listed else HIDDEN, command.summary))
                for o in [*command.arguments, *command.options]:
                    shown = " ".join(o.names) or o.value + ("..." if o.many else "")
                    lines.append(("\t" + shown, kind(command.name, o, known), o.help))
    for setting, (values, default, _, meaning) in SETTINGS.items():
        words = {"bool": "true|false", "tokens": "auto", "text": TEXT}
        choices = words.get(values, TEXT) if isinstance(values, str) else "|".join(values)
        lines.append((f"config mem.{setting}", "", f"{meaning} (default {default or 'none'})"))
        lines.append(("\tVALUE", choices, ""))
    return "".join(f"{name}\t{kind}\t{_line(about)}\n" for name, kind, about in lines)


def _line(help: str) -> str:
    """The first sentence, without the marks of code."""
    first = help.replace("`", "").split(". ")[0].split("; ")[0].removesuffix(".")
    return first.replace("\t", " ")
