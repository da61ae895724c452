"""The words of a call as they are read without typer: never otherwise than typer reads them."""

from __future__ import annotations

import os
from typing import Any

import pytest
import typer
from conftest import Lab
from hypothesis import given, settings
from hypothesis import strategies as st

from gitmem import cli
from gitmem.cli import plain, typer_app
from gitmem.cli.options import DECLARED, Declared, Option

cli.load()
NAMES = sorted(DECLARED)
WORDS = ["", "-", "--", "x", "a b", "é", "-5", "5", "0", "007", "x=y", "team", "memories", "HEAD"]
BEHIND = ["", "=", "=5", "=x", "=--json", "5", "x"]


def by_typer(command: Declared, words: list[str]) -> dict[str, Any] | None:
    """What typer makes of the words; None where it refuses them, or shows the help."""
    kept: list[dict[str, Any]] = []

    def keep(**values: Any) -> int:
        kept.append(values)
        return 0

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    last: Any = {"cls": typer_app._PathsLast} if command.more.get("paths_last") else {}
    app.command(**last)(typer_app._function(command._replace(run=keep)))
    try:
        app(words, standalone_mode=False)
    except Exception:
        return None
    return kept[0] if kept else None


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, list[str]]:
    name = draw(st.sampled_from(NAMES))
    options = [o for _, o in DECLARED[name].options.values() if isinstance(o, Option)]
    names = sorted({name for option in options for name in option.names} | {"-h", "--none"})
    option = st.builds("".join, st.tuples(st.sampled_from(names), st.sampled_from(BEHIND)))
    word = st.one_of(st.sampled_from(names), option, st.sampled_from(WORDS))
    return name, draw(st.lists(word, max_size=6))


@settings(max_examples=400, deadline=None)
@given(calls())
def test_what_is_read_is_what_typer_reads(call: tuple[str, list[str]]) -> None:
    name, words = call
    if (found := plain.parse(DECLARED[name], words)) is not None:
        assert repr(found) == repr(by_typer(DECLARED[name], words)), (name, words)


PLAIN = (
    "recall which database",
    "recall --json -n 5 which --type decision database",
    "recall -k5 x -- --json",
    "search x",
    "list",
    "list -n20 --all",
    "list --since yesterday --scope team --path a --paths b",
    "show 0a1b 2c --json",
    "remember -m one -mtwo --type=decision --tag a --path src/x.py:3",
    "remember words of it --private",
    "remember --jsonl -",
    "forget 0a1b --reason wrong",
    "edit 0a1b --title= --type fix",
    "why src/x.py:10",
    "log v1..v2 --only history",
    "status --json",
    "sync -q",
    "hook Stop --agent codex",
)


@pytest.mark.parametrize("line", PLAIN)
def test_daily_calls_are_read_without_typer(line: str) -> None:
    name, *words = line.split(" ")
    found = plain.parse(DECLARED[name], words)
    assert found is not None and repr(found) == repr(by_typer(DECLARED[name], words))


LEFT = (
    "recall -h",
    "recall x --unknown",
    "recall x --limit 0",
    "recall x --limit",
    "recall x --title --json",
    "list -an5",
    "list --since=",
    "list --scope all",
    "list extra",
    "show",
    "log -- path",
    "list --json --json",
    "review --merge a b",
)


@pytest.mark.parametrize("line", LEFT)
def test_what_is_wrong_or_odd_is_left_to_typer(line: str) -> None:
    name, *words = line.split(" ")
    assert plain.parse(DECLARED[name], words) is None


@pytest.mark.process
@pytest.mark.parametrize(
    "words", [["list", "-n5"], ["recall", "x"], ["log"], ["--version"], ["remember", "x"]]
)
def test_a_daily_command_loads_no_typer(lab: Lab, words: list[str]) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "a first one")  # else it says what a clone without memories needs
    code = (
        "import sys; from gitmem.cli import run; run(sys.argv[1:]);"
        " print(sorted({'typer', 'inspect', 'ast'} & set(sys.modules)))"
    )
    done = lab.run(repo, "python", "-c", code, *words)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


@pytest.mark.process
@pytest.mark.parametrize("words", [["list", "-n5"], ["recall", "retries"]])
def test_where_nothing_changed_no_git_is_started(lab: Lab, words: list[str]) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "uploads are sent again: retries")
    past = [repo / ".git" / "config", *(repo / ".git" / "refs").rglob("*")]
    for path in past:  # of what was written just now nobody knows whether it was read
        os.utime(path, ns=(10**18, 10**18))
    history = {"GIT_MEM_HISTORY": "recall"}
    lab.mem(repo, *words, env=history)
    code = (
        "import sys; from gitmem.cli import run; run(sys.argv[1:]);"
        " print(sorted({'subprocess', 'threading', 'json', 'shutil'} & set(sys.modules)))"
    )
    done = lab.run(repo, "python", "-P", "-c", code, *words, env=history)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_a_call_that_its_user_ends_is_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C, and the end of the input where a question is asked."""
    for error, said in ((KeyboardInterrupt, ""), (EOFError, "\n")):

        def ends(error: type[BaseException] = error, **_: Any) -> int:
            raise error

        monkeypatch.setitem(DECLARED, "list", DECLARED["list"]._replace(run=ends))
        assert cli.run(["list"]) == 130
        assert capsys.readouterr().err == said


@pytest.mark.parametrize("words", ["list", "--no-pager list"])
def test_an_output_that_nobody_reads_ends_a_command_as_git_ends(lab: Lab, words: str) -> None:
    """However its words are read."""
    repo = lab.repo()
    lab.mem(repo, "remember", "a memory")
    script = f"git-mem {words} | (exec <&-; sleep 1); exit ${{PIPESTATUS[0]}}"
    assert lab.run(repo, "bash", "-c", script).returncode == 141
