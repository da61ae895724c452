"""`git mem tour` shows each step with its real answer, and leaves nothing behind."""

from __future__ import annotations

import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import time

import pytest
from conftest import Lab, until
from install_world import files

from gitmem.cli.tour import STEPS


@pytest.fixture
def temporary(lab: Lab) -> pathlib.Path:
    """Where the tour makes its directory: empty."""
    path = lab.root / "tmp"
    path.mkdir()
    lab.env["TMPDIR"] = str(path)
    return path


def test_the_tour_shows_every_command_with_its_answer_outside_of_a_repository(
    lab: Lab, temporary: pathlib.Path
) -> None:
    said = lab.mem(lab.root, "tour")
    (first, second) = re.findall(r"(?m)^remembered (\w{8})", said)
    for n, (why, command) in enumerate(STEPS, 1):
        typed = command.replace("{0}", first).replace("\n", "\n$ ")
        assert f"# {n}/{len(STEPS)} {why}\n$ {typed}\n" in said
    answers = [f"{first} 20", f"{second} 20", "MISS", "changed since: db/", 'stale="changed"']
    answers += [f'<memory id="{second}"', f"forgot {first}", f"restored {first}"]
    places = [said.find(answer) for answer in answers]
    assert -1 not in places and places == sorted(places), said
    assert "\x1b" not in said and list(temporary.iterdir()) == []


def test_the_tour_touches_neither_the_repository_nor_the_home_of_the_user(
    lab: Lab, temporary: pathlib.Path
) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "a memory of the user's")
    (lab.root / ".claude").mkdir()
    before, refs = files(lab.root), lab.git(repo, "for-each-ref")
    foreign = {
        "GIT_DIR": str(repo / ".git"),
        "GIT_MEM_DISABLE": "1",
        "CLAUDE_CONFIG_DIR": str(lab.root / ".claude"),
    }
    assert "restored" in lab.mem(repo, "tour", "--no-wait", env=foreign)
    assert (files(lab.root), lab.git(repo, "for-each-ref")) == (before, refs)


def on_a_terminal(lab: Lab, *argv: str) -> tuple[subprocess.Popen[bytes], int]:
    ours, theirs = pty.openpty()
    argv = (sys.executable, "-m", "gitmem", "tour", *argv)
    process = subprocess.Popen(
        argv, cwd=lab.root, env=lab.env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    return process, ours


def shown(terminal: int, until: bytes = b"") -> bytes:
    """What stands on the terminal, up to `until` or the end of the process."""
    said = b""
    try:
        while not (until and until in said):
            said += os.read(terminal, 4096)
    except OSError:  # the terminal is gone with its process
        assert not until, said
    return said


def test_on_a_terminal_each_step_waits_for_enter_and_q_ends(
    lab: Lab, temporary: pathlib.Path
) -> None:
    process, terminal = on_a_terminal(lab)
    assert b"# 2/" not in shown(terminal, b"q: end ")
    os.write(terminal, b"\n")
    assert b"# 2/" in shown(terminal, b"q: end ")
    os.write(terminal, b"q\n")
    assert b"# 3/" not in shown(terminal)
    assert process.wait() == 0 and list(temporary.iterdir()) == []


def test_with_no_wait_a_terminal_is_not_asked_and_ctrl_c_ends_a_step(
    lab: Lab, temporary: pathlib.Path
) -> None:
    process, terminal = on_a_terminal(lab, "--no-wait")
    assert b"Enter" not in shown(terminal, b"# 2/")
    process.send_signal(signal.SIGINT)
    shown(terminal)
    assert process.wait() == 130 and list(temporary.iterdir()) == []


def test_ctrl_c_at_the_question_removes_the_directory(lab: Lab, temporary: pathlib.Path) -> None:
    process, terminal = on_a_terminal(lab)
    shown(terminal, b"q: end ")
    assert len(list(temporary.iterdir())) == 1
    stat = pathlib.Path(f"/proc/{process.pid}/stat")
    until(lambda: not stat.exists() or " S " in stat.read_text())
    time.sleep(0.3)  # it reads now: a signal just before would not end that
    process.send_signal(signal.SIGINT)
    shown(terminal)
    assert process.wait() == 130 and list(temporary.iterdir()) == []
