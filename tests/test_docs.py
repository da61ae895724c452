"""The documents say what is true: generated parts are current, commands and options are named,
links and names lead somewhere, the worked example can be recomputed, and no message holds a command
that destroys something."""

from __future__ import annotations

import ast
import functools
import json
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest
from conftest import Lab

from gitmem import cli
from gitmem.agents import install, installed, targets
from gitmem.cli import read
from gitmem.cli.options import Answer, Filters
from gitmem.core import fold, record
from gitmem.store import Store

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "gitmem"
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "gitmem/data").glob("*.md")),
]


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_generated_documents_are_current() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/generate_docs.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# --- commands and options --------------------------------------------------


def surface() -> list[tuple[str, list[str]]]:
    """(command, its options) of everything that `--help` shows."""
    from typer.main import get_command

    root: Any = get_command(cli.load())
    found = [
        (
            name,
            [o for p in c.params if p.param_type_name == "option" and not p.hidden for o in p.opts],
        )
        for name, c in root.commands.items()
        if not c.hidden
    ]
    return [("", [o for p in root.params for o in p.opts]), *found]


def undocumented(text: str, begin: str) -> list[str]:
    """What of the surface `text` lacks; the section of a command starts with `begin`, where {} is
    its name.
    """
    missing = []
    for name, options in surface():
        part = text
        if name:
            _, found, rest = text.partition(begin.format(name))
            if not found:
                missing.append(name)
                continue
            part = rest.partition(begin.format(""))[0]
            if "- All [filters](#filters)" in part:
                part += text.partition("\n## Filters\n")[2].partition("\n## ")[0]
        missing += [
            f"{name} {o}"
            for o in options
            if o != "--help" and not re.search(rf"(?<![\w-]){re.escape(o)}(?![\w-])", part)
        ]
    return missing


def test_every_command_and_option_is_documented() -> None:
    assert undocumented(page("docs/commands.md"), "\n## {}") == []


def test_every_command_and_option_is_in_the_manual_page() -> None:
    text = re.sub(r"\\f[BIR]", "", page("man/git-mem.1")).replace("\\-", "-")
    assert undocumented(text, '\n.SS "git mem {}') == []


def test_the_probe_for_options_can_fail() -> None:
    text = page("docs/commands.md")
    assert undocumented(text.replace("`--explain`", ""), "\n## {}") == ["recall --explain"]
    assert undocumented(text.replace("\n## forget", "\n## forgive"), "\n## {}") == ["forget"]


@pytest.mark.skipif(shutil.which("man") is None, reason="no man here")
def test_the_manual_page_has_no_warnings() -> None:
    done = subprocess.run(
        ["man", "--warnings", "-l", str(ROOT / "man/git-mem.1")],
        capture_output=True,
        text=True,
        check=False,
    )
    if "option" in done.stderr and done.returncode:
        pytest.skip("this man knows no --warnings")
    assert (done.returncode, done.stderr) == (0, "")
    for title in (
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "COMMANDS",
        "SETTINGS",
        "ENVIRONMENT",
        "FILES",
        "EXIT STATUS",
        "SEE ALSO",
    ):
        assert re.search(rf"(?m)^{title}$", done.stdout), title


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert "```sh\nsh tools/test.sh\n```" in page("README.md")
    assert "sh tools/test.sh" in page(".ci/run")


# --- links and names -------------------------------------------------------


def slug(heading: str) -> str:
    """The anchor of a heading, as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def prose(text: str) -> str:
    return re.sub(r"(?ms)^```.*?^```$", "", text)


def broken_links(path: pathlib.Path, text: str) -> list[str]:
    """Links of a page to files or headings that are not there."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        headings = (
            re.findall(r"(?m)^#+ (.*)$", there.read_text(encoding="utf-8"))
            if there.is_file()
            else []
        )
        if not there.exists() or (anchor and anchor not in map(slug, headings)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_documents_resolve(path: pathlib.Path) -> None:
    assert broken_links(path, path.read_text(encoding="utf-8")) == []


def test_the_probe_for_links_can_fail() -> None:
    text = (
        "[a](docs/format.md) [b](docs/none.md) [c](docs/format.md#no-such-heading)"
        " [d](#thirty-seconds)"
    )
    assert broken_links(ROOT / "README.md", text) == [
        "docs/none.md",
        "docs/format.md#no-such-heading",
    ]


@functools.cache
def names() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """({module: its names}, {class: its names}) of the package, read without importing it."""
    modules: dict[str, set[str]] = {}
    classes: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        if path.name == "__init__.py" and path.parent.name != "cli":
            continue  # a room has no names
        own = modules.setdefault("cli" if path.name == "__init__.py" else path.stem, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                own.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                own.add(node.id)
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, set()).update(
                    n.name for n in node.body if isinstance(n, ast.FunctionDef)
                )
    return modules, classes


@functools.cache
def known_tests() -> set[str]:
    return {
        t
        for path in (ROOT / "tests").glob("*.py")
        for t in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))
    }


# What documents name although it is not in this repository.
ELSEWHERE = {
    ".gitmem.toml",
    "json.py",
    "notes.rewriteRef",
    "notes.rewriteMode",
    "AGENTS.md",
    "CLAUDE.md",
    "MEMORY.md",
    "sitecustomize.py",
    "automemory.stamp",
    "prefork.sock.*",
}


def unknown_names(text: str) -> list[str]:
    """Code in a document that looks like a name or a file of ours and is none."""
    modules, classes = names()
    tests = known_tests()
    unknown = []
    for code in re.findall(r"`([^`\n]+)`", prose(text)):
        head, dot, tail = code.partition(".")
        if code in ELSEWHERE:
            continue
        if re.fullmatch(r"[\w./-]+\.(py|sh|md|toml|tbl)", code):
            known = any((base / code).exists() for base in (ROOT, ROOT / "docs", PACKAGE))
        elif re.fullmatch(r"test_\w+", code):
            known = code in tests
        elif dot and re.fullmatch(r"\w+", tail) and head in modules:
            known = tail in modules[head]
        elif dot and re.fullmatch(r"\w+", tail) and head in classes:
            known = tail in classes[head]
        else:
            known = True
        if not known:
            unknown.append(code)
    return unknown


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_documents_name_nothing_that_does_not_exist(path: pathlib.Path) -> None:
    assert unknown_names(path.read_text(encoding="utf-8")) == []


def test_the_probe_for_names_can_fail() -> None:
    text = (
        "`fold.fold` `fold.unfold` `Notes.append` `Notes.prepend` `tools/none.py`"
        " `test_no_such_thing` `tests/test_docs.py`"
    )
    assert unknown_names(text) == [
        "fold.unfold",
        "Notes.prepend",
        "tools/none.py",
        "test_no_such_thing",
    ]


def undescribed(source: str) -> bool:
    """Whether the first line of the module's docstring is not one whole sentence."""
    first = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    return not re.fullmatch(r"\S+(?: \S+){2,}\.", first)


@pytest.mark.quick
def test_the_first_line_of_every_module_says_what_it_is() -> None:
    sources = {p: p.read_text(encoding="utf-8") for p in PACKAGE.rglob("*.py")}
    assert [str(p) for p, source in sorted(sources.items()) if undescribed(source)] == []


@pytest.mark.quick
@pytest.mark.parametrize(
    "source", ["", "import os", '"""Sync."""', '"""A sentence that\ngoes on."""', "# A comment."]
)
def test_the_probe_for_first_lines_can_fail(source: str) -> None:
    assert undescribed(source)
    assert not undescribed(f'"""Lines of one note."""\n{source}')


@pytest.mark.quick
def test_the_pictures_fetch_nothing_and_hold_no_program() -> None:
    for path in sorted((ROOT / "docs/pictures").glob("*.svg")):
        text = path.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.findall(r"https?:|@import|@font-face|<script|href=", text), path.name
        assert "git" in text and f"docs/pictures/{path.name}" in page("README.md")


# --- the format page -------------------------------------------------------


def test_the_worked_example_can_be_recomputed(tmp_path: pathlib.Path) -> None:
    if not shutil.which("sha256sum"):
        pytest.skip("no sha256sum here")
    text = (
        page("docs/format.md")
        .partition("<!-- example:begin -->")[2]
        .partition("<!-- example:end -->")[0]
    )
    pairs = re.findall(r"(?m)^\$ (.*)\n(.*)$", text)
    assert len(pairs) == 3
    for command, answer in pairs:
        done = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, cwd=tmp_path, check=True
        )
        assert done.stdout.strip() == answer


def test_the_worked_example_folds_as_the_page_says() -> None:
    lines = re.findall(r"```json\n(.*)\n```", page("docs/format.md"))
    records = [r for r in (record.parse(line.encode()) for line in lines) if r]
    assert [r.op for r in records] == ["create", "edit", "forget"]
    assert record.id_holds(records[0].data) and all(record.dump(r.data) == r.line for r in records)
    for r in records:
        assert f"version `{r.version}`" in page("docs/format.md")
    made, changed, gone = records
    (whole,) = fold.fold([made, changed, gone]).values()
    (two,) = fold.fold([made, changed]).values()
    (blind,) = fold.fold([made, gone]).values()
    assert (whole.status, two.status, blind.status) == (fold.FORGOTTEN, fold.ACTIVE, fold.ACTIVE)
    assert (two.versions[0].data["tags"], blind.versions[0].data["tags"]) == (
        ["database", "orders"],
        ["database"],
    )


def test_the_command_of_the_recipe_counts_memories(
    lab: Lab, repo: pathlib.Path, store: Store
) -> None:
    lab.mem(repo, "remember", "All times are UTC")
    code = page("CONTRIBUTING.md").partition("```python\n")[2].partition("```")[0]
    given = {**vars(read), "Answer": Answer, "command": lambda _: lambda function: function}
    exec(code, given)
    nothing = Filters([], [], [], "", "", "", "", "", "")
    assert given["count_command"](store, nothing).value == 1


def test_the_agent_of_the_recipe_is_installed_named_by_doctor_and_removed(
    lab: Lab, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = re.search(r'`(Agent\("zed".*?\))`', page("CONTRIBUTING.md"))
    assert row
    monkeypatch.setitem(targets.AGENTS, "zed", eval(row[1], vars(targets)))
    install.install(lab.env, store.repo, "zed", mcp=True)
    assert "zed" in [one.target for one in installed.servers(lab.env, store.repo)]
    assert len(install.uninstall(lab.env, store.repo, "zed")) == 3


def test_the_diff_options_of_the_format_page_are_those_of_the_code() -> None:
    from gitmem.anchors import patch_id

    text = " ".join(page("docs/format.md").replace("\\\n", " ").split())
    assert f"git {patch_id._DIFF} COMMIT..." in text


def test_every_field_that_is_written_is_specified(lab: Lab) -> None:
    repo = lab.repo(commits=1)
    lab.git(repo, "checkout", "-q", "-b", "topic")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "empty")
    (repo / "f0.txt").write_text("new\n")
    lab.git(repo, "commit", "-q", "-am", "change")
    draft = {
        "body": "b",
        "title": "t",
        "subtitle": "s",
        "type": "gotcha",
        "tags": ["x"],
        "paths": ["f0.txt"],
        "facts": ["f"],
        "concepts": ["c"],
        "phase": "p",
        "provenance": "CITED",
        "confidence": 0.5,
        "agent": "a",
        "session": "s",
        "scope": "private",
    }
    lab.mem(repo, "remember", "--jsonl", "-", stdin=json.dumps(draft) + "\n")
    lab.mem(
        repo, "remember", "--jsonl", "-", stdin=json.dumps({"body": "c", "source": "s:1"}) + "\n"
    )
    private, team = (
        lab.json(repo, "list", "--all", "--scope", scope)[0]["id"] for scope in ("private", "team")
    )
    lab.mem(repo, "share", private)
    lab.mem(repo, "edit", private, "--title", "u")
    lab.mem(repo, "supersede", team, "-m", "d")
    lab.mem(repo, "forget", private, "--reason", "r")
    data = [json.loads(line) for line in lab.lines(repo)]
    assert {d["op"] for d in data} == {"create", "edit", "forget", "share"}
    specified = set(re.findall(r"`(\w+)`", page("docs/format.md")))
    assert sorted({key for d in data for key in d} - specified) == []


# --- messages --------------------------------------------------------------

DESTRUCTIVE = re.compile(
    r"\brm +-\w*[rf]|\bgit +[^`'\"]*(?:--force\b|--mirror\b|--hard\b|--prune=now)|\bgit"
    r" +(?:update-ref +(?:--\S+ +)*-d|push +(?:\S+ +)*-f|branch +-D|clean +-|reflog"
    r" +(?:expire|delete)"
    r"|filter-branch|filter-repo|notes +(?:--\S+ +)*(?:remove|prune)|checkout +(?:-f|--)|stash"
    r" +(?:drop|clear))|\bgit mem +purge +(?!\[)[^\s`'\"]"
)


def destructive(source: str) -> list[str]:
    """Texts of a module, other than docstrings, that hold a command which destroys something."""
    tree = ast.parse(source)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    texts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            texts.append(
                "".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values)
            )
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
        ):
            texts.append(node.value)
    return [t for t in texts if DESTRUCTIVE.search(t)]


def test_no_message_contains_a_runnable_destructive_command() -> None:
    assert {
        p.name: found
        for p in PACKAGE.rglob("*.py")
        if (found := destructive(p.read_text(encoding="utf-8")))
    } == {}


def test_the_command_line_help_contains_no_destructive_command() -> None:
    """Help is docstrings too, which the check of messages leaves out."""
    assert not DESTRUCTIVE.search(page("docs/commands.md"))


@pytest.mark.parametrize(
    "message",
    [
        "run `rm -rf .git/mem`",
        "git update-ref -d refs/notes/mem/team",
        "`git gc --prune=now`",
        "git push --force origin",
        "git push -f",
        "git reflog expire --all",
        "git reset --hard",
        "git notes --ref=mem/team remove",
        "git notes prune",
        "git mem purge 1a2b3c4d",
    ],
)
def test_the_probe_for_destructive_commands_can_fail(message: str) -> None:
    assert destructive(f"raise X(hint={message!r})") == [message]
    assert destructive(f"raise X(hint=f{message + ' {name}'!r})")
    assert destructive(f'def f():\n    """{message}"""') == []
