"""`git mem review` on a terminal: one key decides one suggestion."""

from __future__ import annotations

import os
import pathlib
import pty
import select
import sys
import termios
import time

import pytest
from conftest import Lab
from places import opened
from review_world import Place

from gitmem.cli.common import from_editor


@pytest.fixture
def place(lab: Lab) -> Place:
    return Place(lab)


def terminal(place: Place, keys: list[tuple[str, str]], **env: str) -> str:
    """What `git mem review` shows on a terminal: each answer is typed once the text before it has
    appeared.
    """
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(place.repo)
        os.execvpe(
            sys.executable,
            [sys.executable, "-m", "gitmem", "review"],
            {**place.lab.env, "TERM": "xterm", **env},
        )
    shown = b""
    at = 0
    try:
        for until, answer in [*keys, ("\0", "")]:
            end = time.monotonic() + 60
            while until.encode() not in shown[at:] and time.monotonic() < end:
                if select.select([fd], [], [], 0.2)[0]:
                    try:
                        new = os.read(fd, 65536)
                    except OSError:  # it ended
                        new = b""
                    if not new:
                        break
                    shown += new
            if answer:
                assert until.encode() in shown[at:], shown.decode()
                at = shown.index(until.encode(), at) + len(until)
                _typed(fd, answer)
    finally:
        os.close(fd)
        os.waitpid(pid, 0)
    return shown.decode()


def _typed(fd: int, answer: str) -> None:
    """After the program has begun to read: what was typed before it asked, it drops."""
    end = time.monotonic() + 30
    while len(answer) == 1 and termios.tcgetattr(fd)[3] & termios.ICANON and time.monotonic() < end:
        time.sleep(0.01)
    os.write(fd, answer.encode())


def test_on_a_terminal_one_key_decides_one_suggestion(place: Place) -> None:
    texts = [
        "Use SQLite, not DuckDB",
        "Never commit generated files",
        "Amounts are in cents",
        "Tabs are four wide",
        "The crash came from a stale lock",
    ]
    ids = [place.one(text, confidence=0.9 - i / 50) for i, text in enumerate(texts)]
    shown = terminal(place, [("quit", key) for key in "xarteq"], GIT_EDITOR="sed -i s/four/two/")
    assert "0.90" in shown
    assert "3 accepted, 1 rejected, 1 still waits" in shown
    assert {(m["body"], m["scope"]) for m in place.memories()} == {
        ("Use SQLite, not DuckDB", "private"),
        ("Amounts are in cents", "team"),
        ("Tabs are two wide", "private"),
    }
    assert [s["id"] for s in place.review()] == [ids[4]]


def test_a_merge_on_a_terminal_asks_before_it_changes_the_team_s_memory(place: Place) -> None:
    place.lab.mem(place.repo, "remember", "SQLite is the cache, in WAL mode")
    place.one("The cache of SQLite in WAL mode needs a checkpoint")
    keys = [
        ("quit", "m"),
        ("into which", "1\n"),
        ("everybody", "n\n"),
        ("quit", "m"),
        ("into which", "1\n"),
        ("everybody", "y\n"),
    ]
    assert "1 merged, nothing waits any more" in terminal(place, keys, GIT_EDITOR="true")
    assert [m["body"] for m in place.memories()] == [
        "SQLite is the cache, in WAL mode\n\nThe cache of SQLite in WAL mode needs a checkpoint"
    ]


def test_an_end_of_the_terminal_or_an_interrupt_leaves_what_was_decided(place: Place) -> None:
    place.one("Use SQLite, not DuckDB", confidence=0.9)
    left = place.one("Amounts are in cents", confidence=0.8)
    assert "1 accepted, 1 still waits" in terminal(place, [("quit", "a"), ("quit", "\x03")])
    assert [s["id"] for s in place.review()] == [left]


def test_an_editor_is_started_as_git_starts_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = lab.repo()
    monkeypatch.setenv("GIT_EDITOR", 'sed -i s/four/two/ "$1" # the user\'s own')
    with opened(repo) as store:
        assert from_editor(store, "Wait four seconds") == "Wait two seconds"


def test_the_editor_of_an_edit_names_no_other_command(
    lab: Lab, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_EDITOR", f'cp "$1" {tmp_path}/seen #')
    with opened(lab.repo()) as store:
        assert from_editor(store, "Wait") == "Wait"
    assert "git mem remember" not in (tmp_path / "seen").read_text()
