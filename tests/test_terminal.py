"""What a person sees: on a terminal the pipe's lines, coloured and cut to its width, through the
user's pager; in a pipe plain and whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from conftest import Lab, until

from gitmem.cli import run
from gitmem.cli.common import opened
from gitmem.core import record
from gitmem.memory import commit_hits
from gitmem.render import memory_text, progress, terminal

LONG = (
    "Use PostgreSQL, not MongoDB: orders and invoices share a transaction, and the two-phase"
    " commit that was tried lost three orders in one week of testing"
)
SGR = re.compile(r"\x1b\[[0-9;]*[mK]")


def seen(
    lab: Lab,
    cwd: pathlib.Path,
    *argv: str,
    columns: int = 80,
    env: dict[str, str] | None = None,
    typed: str = "",
) -> str:
    """What git mem writes to a terminal of so many columns, with its escapes."""
    ours, theirs = pty.openpty()
    os.write(ours, typed.encode())
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    given = {**lab.env, "TERM": "xterm", "GIT_PAGER": "cat", **(env or {})}
    given = {k: v for k, v in given.items() if v and k != "COLUMNS"}
    process = subprocess.Popen(
        [sys.executable, "-m", "gitmem", *argv],
        cwd=cwd,
        env=given,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal is gone with its process
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    process.wait()
    return shown.decode().replace("\r\n", "\n")


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    path = lab.repo(commits=2)
    lab.mem(path, "remember", LONG, "--type", "decision", "--path", "f0.txt")
    lab.mem(path, "remember", "the clock is wrong after a reboot", "--private")
    return path


COLOUR = {"NO_COLOR": ""}


def test_a_terminal_shows_the_lines_of_the_pipe_cut_to_its_width(
    lab: Lab, repo: pathlib.Path
) -> None:
    piped = lab.mem(repo, "list").splitlines()
    for columns in (60, 80, 200):
        shown = seen(lab, repo, "list", columns=columns).splitlines()
        assert len(shown) == len(piped) == 2
        assert all(terminal.cells(line) <= columns for line in shown)
        assert [line.split("…")[0] for line in shown] == [
            line[: len(cut.split("…")[0])] for line, cut in zip(piped, shown, strict=True)
        ]
    assert sum(line.endswith("(private)") for line in shown) == 1


def test_colours_follow_git_and_no_color(lab: Lab, repo: pathlib.Path) -> None:
    plain, coloured = lab.mem(repo, "list"), seen(lab, repo, "list", columns=200, env=COLOUR)
    assert "\x1b[33m" in coloured and SGR.sub("", coloured) == plain
    assert not SGR.search(seen(lab, repo, "list", env={"NO_COLOR": "1"}))
    assert not SGR.search(seen(lab, repo, "list", env={**COLOUR, "TERM": "dumb"}))
    lab.git(repo, "config", "color.ui", "false")
    assert not SGR.search(seen(lab, repo, "list", env=COLOUR))
    lab.git(repo, "config", "color.ui", "always")
    assert SGR.search(lab.mem(repo, "list")), "always means a pipe, too"
    assert SGR.sub("", lab.mem(repo, "list")) == plain


@pytest.mark.parametrize("command", ["list", "log", "show", "blame", "diff", "recall"])
def test_long_output_goes_through_the_pager_that_git_names(
    lab: Lab, repo: pathlib.Path, command: str
) -> None:
    id = lab.json(repo, "list")[0]["id"]
    words = {"show": [id], "blame": ["f0.txt"], "diff": ["HEAD~1"], "recall": ["reboot", "clock"]}
    argv = [command, *words.get(command, [])]
    pager = {"GIT_PAGER": "sed 's/^/paged: /'"}
    shown = seen(lab, repo, *argv, env=pager).splitlines()
    assert shown and all(line.startswith("paged: ") for line in shown)
    assert "paged" not in seen(lab, repo, *argv)
    assert "paged" not in lab.mem(repo, *argv, env=pager), "a pipe has none"
    assert "paged" not in seen(lab, repo, "--no-pager", *argv, env=pager)


def test_the_pager_of_the_configuration_is_used_and_gets_gits_options(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.git(repo, "config", "core.pager", "echo LESS=$LESS; cat")
    shown = seen(lab, repo, "list", env={"GIT_PAGER": "", "LESS": ""})
    assert shown.startswith("LESS=FRX\n") and "clock" in shown
    missing = seen(lab, repo, "list", env={"GIT_PAGER": "no-such-pager"})
    assert "clock" in missing, "without the program there is no pager"
    (repo / "no-program").write_text("")
    assert "clock" in seen(lab, repo, "list", env={"GIT_PAGER": "./no-program"})


def test_a_pager_that_is_left_early_ends_the_command_quietly(lab: Lab, repo: pathlib.Path) -> None:
    lines = "\n".join(f'{{"body": "memory number {i} of many"}}' for i in range(3000))
    lab.mem(repo, "remember", "--jsonl", "-", stdin=lines)
    shown = seen(lab, repo, "list", "-n", "3000", env={"GIT_PAGER": "head -n 2"})
    assert shown.count("\n") == 2 and "rror" not in shown


def test_a_list_on_a_terminal_is_as_long_as_in_a_pipe(lab: Lab, repo: pathlib.Path) -> None:
    lines = "\n".join(f'{{"body": "memory number {i} of many"}}' for i in range(70))
    lab.mem(repo, "remember", "--jsonl", "-", stdin=lines)
    assert len(seen(lab, repo, "list").splitlines()) == 72
    assert "22 more" in seen(lab, repo, "list", "-n", "50")


def test_what_was_found_before_an_error_is_shown_without_a_pager(
    lab: Lab, repo: pathlib.Path
) -> None:
    id = next(m["id"] for m in lab.json(repo, "list") if m["body"] != LONG)
    shown = seen(lab, repo, "show", id, "ffffffff", env={"GIT_PAGER": "sed s/^/paged:/"})
    assert "clock" in shown and "no memory 'ffffffff'" in shown and "paged" not in shown


def test_log_names_commits_with_date_and_subject(lab: Lab, repo: pathlib.Path) -> None:
    head = lab.git(repo, "rev-parse", "HEAD").strip()
    first = lab.mem(repo, "log").splitlines()[0]
    assert first == f"commit {head[:12]} 2026-01-02 commit 1"
    lab.git(repo, "switch", "-qc", "topic")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "topic: with \x1b[31mred")
    lab.mem(repo, "remember", "on a branch")
    assert "topic: with <1b>[31mred" in lab.mem(repo, "log")


def test_a_derived_title_never_stands_beside_its_text(lab: Lab, repo: pathlib.Path) -> None:
    id = next(m["id"] for m in lab.json(repo, "list") if m["body"] == LONG)
    for said in (
        lab.mem(repo, "show", id),
        lab.mem(repo, "recall", "PostgreSQL or MongoDB"),
        lab.mem(repo, "why", "f0.txt"),
        seen(lab, repo, "recall", "PostgreSQL or MongoDB"),
        seen(lab, repo, "show", id),
    ):
        assert said.count("orders and") == 1 and "lost three orders in one week" in " ".join(
            said.split()
        )
    lab.mem(repo, "edit", id, "--title", "One database")
    assert "title:           One database" in lab.mem(repo, "show", id)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("title", "body", "told"),
    [
        ("short", "short", ("short", "")),
        ("short", "\n short \nand more", ("short", "and more")),
        ("given", "short\nand more", ("given", "short\nand more")),
        ("", "", ("", "")),
    ],
)
def test_a_headline_is_the_title_or_the_line_it_was_derived_from(
    title: str, body: str, told: tuple[str, str]
) -> None:
    assert record.headline(title, body) == told
    derived = record.title_of({"body": LONG})
    assert derived.endswith("…") and record.headline(derived, LONG) == (LONG, "")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "flowing"),
    [
        ("a line that was\nbroken\n\nnext", "a line that was broken\n\nnext"),
        ("the ways:\n- one\n  way\n- two\n1. x", "the ways:\n- one\n  way\n- two\n1. x"),
        (
            "# Title\n**Decision.** x\n> said\n    code",
            "# Title\n**Decision.** x\n> said\n    code",
        ),
        ("", ""),
    ],
)
def test_a_paragraph_flows_and_lists_and_code_keep_their_lines(text: str, flowing: str) -> None:
    assert terminal.flowing(text) == flowing


@pytest.mark.quick
@pytest.mark.parametrize("text", ["plain words in a row", "数据库连接池的大小", "e\u0301" * 30, ""])
def test_no_line_is_wider_than_it_may_be(text: str) -> None:
    for most in range(3, 40):
        assert terminal.cells(terminal.cut(text, most)) <= most
        lines = terminal.folded(text, most)
        assert all(terminal.cells(line) <= most for line in lines)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@pytest.mark.quick
def test_a_long_text_without_spaces_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text, count = "数据库连接池的大小" * 500, terminal._cells
    asked: list[str] = []
    monkeypatch.setattr(terminal, "_cells", lambda char: asked.append(char) or count(char))
    assert "".join(terminal.folded(text, 76)) == text
    assert len(asked) < 4 * len(text)


@pytest.mark.quick
def test_what_stands_below_a_hit_is_no_wider_than_the_terminal_and_steers_it_nowhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    anchor = {"commit": None, "branch": None, "state": "reachable"}
    item = {"id": "\x1b[1m" * 9, "kind": "commit", "title": "t", "body": "b\n\n" * 9, "type": None}
    item |= {"author": None, "created_at": None, "tags": [], "paths": [], "scope": None}
    note = "about src/a.py under the name " + "src/" * 12 + "\x1b[31mb.py; about its directory src"
    memory_text.hit({**item, "anchor": anchor, "provenance": None}, note)
    text = capsys.readouterr().out
    assert all(terminal.cells(line) <= 40 for line in text.splitlines()) and "\x1b" not in text
    told = "".join(text.split())
    assert "<1b>[31mb.py" in told and "gitmemshow<1b>[1m" in told


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.quick
def test_progress_has_a_share_of_the_total_comes_late_and_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for patience, told in ((60.0, ""), (0.0, "\rindexing:  25% (1,000/4,000)\x1b[K\r\x1b[K")):
        monkeypatch.setattr(sys.modules["gitmem.render.progress_line"], "_PATIENCE", patience)
        screen = _Screen()
        monkeypatch.setattr(sys, "stderr", screen)
        with progress("indexing", 4000) as advance:
            advance(1000)
        assert screen.getvalue() == told
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with progress("indexing", 4000) as advance:
        advance(1000)
    assert pipe.getvalue() == ""


def test_counts_have_separators_wherever_they_are_said(lab: Lab) -> None:
    repo = lab.repo()
    lines = "".join(f'{{"body": "the parser keeps token {i}"}}\n' for i in range(1200))
    assert "1,200 stored, 0 known, 0 refused" in lab.mem(
        repo, "remember", "--jsonl", "-", stdin=lines
    )
    assert "memories:        1,200 (1,200 team, 0 private);" in lab.mem(repo, "status")
    assert "among 1,200 memories" in lab.mem(repo, "recall", "which token does the parser keep")


@pytest.mark.parametrize(
    ("wrote", "expected", "told"),
    [
        (312, 2000, "stored 312 of 2,000; run it again: what is there is not taken twice"),
        (312, None, "stored 312; run it again: what is there is not taken twice"),
        (0, 2000, "stored 0 of 2,000; run it again: what is there is not taken twice"),
        (0, None, ""),
    ],
)
def test_ctrl_c_says_what_was_stored(
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wrote: int,
    expected: int | None,
    told: str,
) -> None:
    monkeypatch.chdir(lab.repo())
    with pytest.raises(KeyboardInterrupt), opened() as store:
        store.wrote, store.expected = wrote, expected
        raise KeyboardInterrupt
    assert capsys.readouterr().err == (f"\n{told}\n" if told else "")


@pytest.mark.parametrize("command", ["init", "index"])
def test_ctrl_c_says_that_what_stores_nothing_can_be_run_again(
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(lab.repo())
    monkeypatch.setattr(commit_hits, "take_in", stop)
    with contextlib.suppress(KeyboardInterrupt):
        assert run([command]) == 130
    assert capsys.readouterr().err == "\nstopped; run it again: it makes what is missing\n"


@pytest.mark.process
def test_ctrl_c_in_a_long_import_keeps_what_is_stored_and_exits_130(lab: Lab) -> None:
    path = lab.repo()
    process = subprocess.Popen(
        [sys.executable, "-m", "gitmem", "remember", "--jsonl", "-"],
        cwd=path,
        env=lab.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    for i in range(1001):
        process.stdin.write(f'{{"body": "memory number {i}", "source": "s:{i}"}}\n')
    process.stdin.flush()
    until(lambda: len(lab.lines(path)) >= 1000)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    found = re.search(r"stored ([0-9,]+); run it again", said)
    assert found and int(found[1].replace(",", "")) <= len(lab.lines(path)) == 1000


def test_promote_asks_for_type_and_tags(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "fix: uploads are retried\n\nA proxy.")
    assert "type [bugfix]: " in seen(lab, repo, "promote", "HEAD", typed="gotcha\nproxy, upload\n")
    item = next(m for m in lab.json(repo, "list") if m["title"] == "fix: uploads are retried")
    assert (item["type"], item["tags"]) == ("gotcha", ["proxy", "upload"])


def test_nothing_is_lost_in_a_pipe_that_does_not_block(lab: Lab) -> None:
    """As a caller may leave it; Python threw away what did not fit, and the exit code was 0."""
    path = lab.repo()
    lines = [json.dumps({"body": f"number {n}: " + "long " * 3_000}) for n in range(8)]
    lab.mem(path, "remember", "--jsonl", "-", stdin="\n".join(lines))
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    argv = [sys.executable, "-m", "gitmem", "list", "--json"]
    process = subprocess.Popen(argv, cwd=path, env=lab.env, stdout=writing)
    os.close(writing)
    time.sleep(1)  # until the pipe is full
    with open(reading, encoding="utf-8") as f:
        assert len(json.load(f)) == 8
    assert process.wait() == 0


@pytest.mark.quick
def test_a_long_name_keeps_a_space_before_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.pairs([("types", "a"), ("suggestions accepted", 1)])
    assert capsys.readouterr().out == "types:           a\nsuggestions accepted: 1\n"
