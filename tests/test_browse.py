"""`git mem browse` on a terminal: what its screen shows after each key."""

from __future__ import annotations

import fcntl
import os
import pathlib
import pty
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pyte  # reads a screen as a terminal would
import pytest
from conftest import Lab

DATABASE = "Use PostgreSQL, not MongoDB: orders and invoices share a transaction"
EVIL = "Evil \x1b[31mred\x1b]0;title\x07 text, 日本語 and \u202ereversed"


class Terminal:
    """A terminal of 80 by 24 cells on which `git mem browse` runs."""

    def __init__(self, lab: Lab, repo: pathlib.Path, *words: str, **env: str) -> None:
        self.screen = pyte.Screen(80, 24)
        self.stream = pyte.ByteStream(self.screen)
        self.raw, self.status = b"", -1
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(repo)
            argv = [sys.executable, "-m", "gitmem", "browse", *words]
            given = {**lab.env, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **env}
            for name in ("COLUMNS", "LINES"):
                given.pop(name, None)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            os.execvpe(sys.executable, argv, given)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    def until(self, fits: Callable[[list[str]], bool]) -> list[str]:
        """The screen, as soon as it is as it should be, and nothing follows."""
        end = time.monotonic() + 60
        while select.select([self.fd], [], [], 0.1)[0] or not fits(self.lines):
            assert time.monotonic() < end and self._read(), "\n".join(self.lines)
        return self.lines

    def press(self, keys: str, until: str = "") -> list[str]:
        os.write(self.fd, keys.encode())
        return self.until(lambda lines: until in "\n".join(lines))

    def ends(self, keys: str) -> str:
        """What it writes until it has ended."""
        os.write(self.fd, keys.encode())
        end = time.monotonic() + 60
        while self._read() and time.monotonic() < end:
            pass
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.raw.decode()

    def resize(self, width: int, height: int) -> None:
        self.screen.resize(height, width)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)

    def _read(self) -> bool:
        """False where the program has ended."""
        if select.select([self.fd], [], [], 0.2)[0]:
            data = b""
            with suppress(OSError):
                data = os.read(self.fd, 65536)
            self.raw += data
            self.stream.feed(data)
            return bool(data)
        return True

    def vanish(self) -> None:
        """Takes the terminal away, and waits for the program."""
        os.close(self.fd)
        self.fd = os.open(os.devnull, os.O_RDONLY)
        end = time.monotonic() + 20
        while time.monotonic() < end and self.status < 0:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else -1
            time.sleep(0.05)

    def close(self) -> None:
        if self.status < 0:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    repo = lab.repo(commits=1)
    lab.mem(repo, "remember", DATABASE, "--type", "decision", "--path", "f0.txt")
    (repo / "f0.txt").write_text("changed\n")
    lab.git(repo, "commit", "-qam", "Change it")
    return repo


@pytest.fixture
def browse(lab: Lab, repo: pathlib.Path) -> Iterator[Any]:
    begun: list[Terminal] = []

    def begin(*words: str, **env: str) -> Terminal:
        begun.append(Terminal(lab, repo, *words, **env))
        return begun[-1]

    yield begin
    for terminal in begun:
        terminal.close()


def fill(lab: Lab, repo: pathlib.Path) -> None:
    lines = "".join('{"body": "Note %d of the worker"}\n' % n for n in range(100))  # noqa: UP031
    (lab.root / "notes.jsonl").write_text(lines)
    lab.mem(repo, "remember", "--jsonl", str(lab.root / "notes.jsonl"))


def test_keys_search_open_and_go_back(lab: Lab, repo: pathlib.Path, browse: Any) -> None:
    fill(lab, repo)
    terminal = browse()
    first = terminal.press("", "q quit")
    assert first[0] == "git mem  101 memories"
    assert sum(": Note " in line for line in first) >= 21
    terminal.press("/which database do we us", "HIT: 1")
    found = terminal.lines
    assert found[0].startswith("/ which database do we us")
    assert "decision: Use PostgreSQL" in found[1] and found[2] == ""
    whole = "\n".join(terminal.press("\r", "q back"))
    assert DATABASE in whole and "f0.txt (changed)" in whole and "state:           reach" in whole
    terminal.press("q", "Enter show   Esc all   q quit")
    assert "101 memories" in terminal.press("\x1b", "Enter show   q quit")[0]
    assert terminal.ends("q") and terminal.status == 0


def test_in_tmux_a_split_pane_shows_it_and_gives_the_shell_back(
    lab: Lab, repo: pathlib.Path
) -> None:
    if not shutil.which("tmux"):
        pytest.skip("no tmux here")
    socket = str(lab.root / "tmux")
    env = {**lab.env, "LC_ALL": "C.UTF-8", "SHELL": "/bin/sh", "PS1": "$ "}
    env |= {"COLUMNS": "80", "LINES": "24"}  # a shell may have exported them

    def tmux(*words: str) -> str:
        argv = ["tmux", "-f", os.devnull, "-S", socket, *words]
        return subprocess.run(argv, cwd=repo, env=env, capture_output=True, text=True).stdout

    def until(*told: str) -> str:
        end = time.monotonic() + 60
        while not all(one in (screen := tmux("capture-pane", "-p")) for one in told):
            assert time.monotonic() < end, screen
            time.sleep(0.1)
        return screen

    tmux("new-session", "-d", "-x", "80", "-y", "24", "/bin/sh")
    try:
        until("$")
        tmux(
            "send-keys", f"{shlex.quote(sys.executable)} -m gitmem browse; echo go''ne $?", "Enter"
        )
        assert until("1 memory", "q quit").count("Use PostgreSQL") == 1
        tmux("split-window", "-h", "-d", "/bin/sh")  # half the width: 39 columns
        until("decision: Use P", "q qu…")
        tmux("send-keys", "/")
        tmux("send-keys", "-l", "which database")
        until("WEAK: 1")
        tmux("send-keys", "Enter")
        until("q back", "f0.txt")
        tmux("send-keys", "C-c")
        assert "Use PostgreSQL" not in until("gone 0\n")
    finally:
        tmux("kill-server")


def test_half_a_word_finds_what_has_its_letters(browse: Any) -> None:
    terminal = browse()
    terminal.press("", "q quit")
    terminal.press("/Postg", "1 with these letters")
    assert "Use PostgreSQL" in terminal.lines[1]
    terminal.press("\x15xyzzy", "nothing has these words")


def test_the_chosen_line_moves_and_the_list_with_it(
    lab: Lab, repo: pathlib.Path, browse: Any
) -> None:
    fill(lab, repo)
    terminal = browse()
    before = terminal.press("", "q quit")

    def chosen(line: str) -> int:
        """The row that is shown in reverse, once it shows this line."""
        rows: list[int] = []

        def fits(lines: list[str]) -> bool:
            rows[:] = [n for n in range(1, 23) if terminal.screen.buffer[n][0].reverse]
            return len(rows) == 1 and (not line or lines[rows[0]] == line)

        terminal.until(fits)
        return rows[0]

    assert chosen(before[1]) == 1
    terminal.press("jj\x1bOB\x1bOAk")  # down three times, up twice
    assert chosen(before[2]) == 2
    terminal.press("G")
    terminal.until(lambda lines: lines[1] != before[1])
    assert chosen("") == 22
    terminal.press("g")
    assert chosen(before[1]) == 1


def test_no_text_of_a_memory_steers_the_terminal(lab: Lab, repo: pathlib.Path, browse: Any) -> None:
    lab.mem(repo, "remember", f"{EVIL}\n\nand below {EVIL}", "--type", "gotcha")
    terminal = browse("--type", "gotcha")
    terminal.press("", "Evil <1b>[31mred<1b>]0;title<07>")
    whole = "\n".join(terminal.press("\r", "q back"))
    assert "and below Evil <1b>" in whole and "<U+202E>" in whole
    raw = terminal.ends("qq")
    assert "\x1b]0;" not in raw and "\u202e" not in raw


def test_a_terminal_that_changes_its_size_is_drawn_anew(browse: Any) -> None:
    terminal = browse()
    terminal.press("", "q quit")
    for width, height in ((40, 8), (12, 3), (132, 40)):
        terminal.resize(width, height)
        bottom = "/ search   j k move   Enter show   q quit"
        cut = bottom if width > len(bottom) else bottom[: width - 1].rstrip()
        terminal.until(lambda lines, cut=cut: lines[-1].rstrip("…").rstrip() == cut)
        assert max(map(len, terminal.lines)) <= width
    assert DATABASE in terminal.lines[1]


@pytest.mark.parametrize("no_color", ["", "1"])
def test_colours_are_those_of_list(browse: Any, no_color: str) -> None:
    terminal = browse(NO_COLOR=no_color)
    terminal.press("", "q quit")
    colours = {terminal.screen.buffer[1][n].fg for n in range(80)}
    assert (colours == {"default"}) == bool(no_color)


def test_of_a_line_too_narrow_for_all_the_title_stays(browse: Any) -> None:
    terminal = browse()
    terminal.press("", "q quit")
    terminal.resize(20, 5)
    terminal.until(lambda lines: lines[1][8:].startswith(" Use Pos"))
    terminal.press("\r", "memory: ")


@pytest.mark.parametrize("key", ["\x03", "\x1c"])
def test_ctrl_c_and_ctrl_backslash_end_it_and_leave_the_terminal_as_it_was(
    browse: Any, key: str
) -> None:
    terminal = browse()
    terminal.press("", "q quit")
    assert terminal.ends(key).endswith(("\x1b[?1l\x1b>", "\x1b[23;0;0t\r\x1b[?1l\x1b>"))
    assert terminal.status == 0


def test_it_ends_with_its_terminal_where_nobody_hangs_it_up(browse: Any) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        terminal = browse()
    finally:
        signal.signal(signal.SIGHUP, before)
    terminal.press("", "q quit")
    terminal.vanish()
    assert terminal.status >= 0


@pytest.mark.parametrize("term", ["dumb", "no-such-terminal"])
def test_a_terminal_that_cannot_place_text_is_refused(browse: Any, term: str) -> None:
    terminal = browse(TERM=term)
    said = terminal.ends("")
    assert "error: this terminal cannot place text" in said and terminal.status == 1


def test_without_a_terminal_it_says_what_to_use(lab: Lab, repo: pathlib.Path) -> None:
    for words in ((), ("--json",)):
        done = lab.run(repo, "git-mem", "browse", *words)
        assert done.returncode == 1 and done.stdout == ""
        assert "browse needs a terminal" in done.stderr and "git mem list" in done.stderr
