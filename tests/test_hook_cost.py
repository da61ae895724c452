"""What a hook does behind its answer: processes it starts (none), files it opens (few), modules it
loads (none that is slow).
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from conftest import Lab
from test_architecture import PACKAGE
from test_architecture import SLOW as SLOW_MODULES

from gitmem.agents import protocol

# Runs one hook, and writes what the interpreter was asked to do once our code began, and what is
# loaded at the end.
PROBE = """
import os, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
before = set(sys.modules)
def audit(event, args):
    if event in ("open", "sqlite3.connect", "os.listdir", "os.scandir"):
        name = args[0] if event != "open" or not isinstance(args[0], int) else ""
        name = os.fsdecode(name) if isinstance(name, bytes) else str(name)
        if name and not name.endswith((".pyc", ".py", ".so")):
            os.write(log, f"{event} {name}\\n".encode())
    elif event.startswith(("subprocess.", "os.fork", "os.posix_spawn", "os.exec", "os.system", "os.startfile", "socket.connect", "socket.getaddrinfo")):
        os.write(log, f"process {event} {args!r}\\n".encode())
leave = os._exit
def end(status):
    os.write(log, ("modules " + " ".join(sorted(set(sys.modules) - before)) + "\\n").encode())
    leave(status)
os._exit = end
sys.argv[1:] = sys.argv[2:]
from gitmem.__main__ import main
sys.addaudithook(audit)
main()
"""  # noqa: E501
FIELDS: dict[str, dict[str, Any]] = {
    "SessionStart": {"source": "startup"},
    "UserPromptSubmit": {"prompt": "how do we store times and time zones?"},
    "PreToolUse": {"tool_name": "Read", "tool_input": {"file_path": "f0.txt"}},
    "PostToolUse": {
        "tool_name": "Edit",
        "tool_input": {"file_path": "f0.txt"},
        "tool_response": {},
    },
    "SubagentStart": {"agent_id": "a1", "agent_type": "general-purpose"},
    "SessionEnd": {"reason": "other"},
}
# Files of the repository and the machine that an event opens at most. A file that is looked for and
# not there counts. Two of them are the backup and the reflog of a notes ref that is not there
# (private memories, mostly).
FILES = {
    "SessionStart": 23,
    "UserPromptSubmit": 16,
    "PreToolUse": 16,
    "PostToolUse": 12,
    "Stop": 10,
    "SubagentStart": 16,
    "SubagentStop": 10,
    "PreCompact": 15,
    "SessionEnd": 15,
}


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    path = lab.repo()
    lab.mem(path, "init", "--offline")
    lab.git(path, "config", "mem.promptContext", "true")
    lab.git(path, "config", "mem.readContext", "true")
    lab.mem(
        path,
        "remember",
        "Decision: all timestamps are stored as UTC, the UI converts them to the time zone of the"
        " user",
        "--type",
        "decision",
        "--path",
        "f0.txt",
    )
    lab.mem(path, "index")
    lab.run(
        path, sys.executable, "-m", "gitmem", "worker", str(path / ".git")
    )  # where memories stand is known, as after any commit with our hooks
    os.utime(
        path / ".git" / "config", ns=(10**18, 10**18)
    )  # settings are kept once their files have been quiet
    ask(lab, path, "Stop", "warm")
    return path


def ask(lab: Lab, repo: pathlib.Path, event: str, session: str = "s1") -> tuple[str, list[str]]:
    """(stdout, lines of the probe)."""
    log = lab.root / "probe.log"
    payload = {
        "session_id": session,
        "cwd": str(repo),
        "hook_event_name": event,
        **FIELDS.get(event, {}),
    }
    done = lab.run(
        repo,
        sys.executable,
        "-P",
        "-c",
        PROBE,
        str(log),
        "hook",
        event,
        stdin=json.dumps(payload),
        env={"GIT_MEM_PATIENCE": "100"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, log.read_text().splitlines()


@pytest.mark.parametrize("event", protocol.EVENTS)
def test_a_hook_starts_no_process_opens_few_files_and_loads_nothing_slow(
    lab: Lab, repo: pathlib.Path, event: str
) -> None:
    if (
        event == "SessionEnd"
    ):  # a worker is there already: starting one is the only process a hook may ever start
        (repo / ".git" / "mem" / "worker.pid").write_text(str(os.getpid()))
    out, lines = ask(lab, repo, event)
    assert bool(out) == (
        event in ("SessionStart", "UserPromptSubmit", "PreToolUse", "SubagentStart", "PreCompact")
    )
    assert [line for line in lines if line.startswith("process")] == []
    opened = [
        line
        for line in lines
        if not line.startswith(("process", "modules"))
        and not line.partition(" ")[2].startswith((str(PACKAGE), sys.prefix, sys.base_prefix))
    ]
    assert len(opened) <= FILES[event], "\n".join([str(len(opened)), *opened])
    assert not [
        line
        for line in opened
        if str(repo) in line
        and str(repo / ".git") not in line
        and not line.endswith("/.git")
        and "/.claude/settings" not in line
    ], opened
    loaded = {
        name.partition(".")[0]
        for line in lines
        if line.startswith("modules ")
        for name in line.split()[1:]
    }
    assert (
        loaded
        & (
            SLOW_MODULES
            | {
                "json",
                "re",
                "datetime",
                "sqlite3",
                "contextlib",
                "enum",
                "threading",
                "typer",
                "traceback",
                "tokenize",
            }
        )
        == set()
    )
    ours = {
        name
        for line in lines
        if line.startswith("modules ")
        for name in line.split()[1:]
        if name.startswith("gitmem.")
    }
    assert not {
        name
        for name in ours
        if name.startswith(
            (
                "gitmem.cli",
                "gitmem.store",
                "gitmem.memory",
                "gitmem.notes.note_store",
                "gitmem.git.gitcmd",
            )
        )
    }
    if event in ("Stop", "SubagentStop", "PostToolUse", "SessionEnd"):
        assert (
            not {name for name in ours if name.startswith(("gitmem.engine", "gitmem.signing"))}
            and "_sqlite3" not in loaded
        )


def test_the_end_of_a_session_starts_the_worker_and_nothing_else(
    lab: Lab, repo: pathlib.Path
) -> None:
    ask(lab, repo, "PostToolUse")
    _, lines = ask(lab, repo, "SessionEnd")
    started = [line for line in lines if line.startswith("process")]
    assert len(started) == 1 and "os.posix_spawn" in started[0] and "'worker'" in started[0]


def test_the_probe_can_fail(lab: Lab) -> None:
    log = lab.root / "log"
    code = PROBE.replace(
        "from gitmem.__main__ import main\n",
        "import subprocess, json\ndef main():\n    open('/etc/passwd').close();"
        " subprocess.run(['true']); os._exit(0)\n",
    )
    lab.run(lab.root, sys.executable, "-P", "-c", code, str(log))
    text = log.read_text()
    assert "open /etc/passwd" in text and "process subprocess.Popen" in text and " json" in text


@pytest.mark.quick
def test_the_driver_of_sqlite_loads_neither_functools_nor_datetime() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); known = set(sys.modules)\n"
        "from gitmem.engine.sql import sqlite3\n"
        "assert not {'functools', 'collections', 'datetime'} & (set(sys.modules) - known)\n"
        "db = sqlite3.connect(':memory:')\n"
        "for _ in range(300): assert db.execute('SELECT ?', (1,)).fetchone() == (1,)\n"
        "import functools\n"
        "assert functools.lru_cache(len).cache_info().currsize == 0\n"
    )
    run = [sys.executable, "-S", "-c", program]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
