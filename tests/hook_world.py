"""A repository with memories, and hooks called in it as an agent calls them."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from conftest import Lab

from gitmem.agents import failures, session

UTC = (
    "Decision: all timestamps are stored as UTC, the UI converts them to the time zone of the user"
)
PROMPT = "how do we store times and time zones?"
SLOW = {"GIT_MEM_PATIENCE": "100"}  # another load on the machine must not silence what is tested


class Hooks:
    """Calls hooks of one repository."""

    def __init__(self, lab: Lab, repo: pathlib.Path) -> None:
        self.lab = lab
        self.repo = repo

    @property
    def mem_dir(self) -> str:
        return str(self.repo / ".git" / "mem")

    def run(
        self,
        event: str,
        payload: Any = None,
        agent: str = "",
        env: dict[str, str] | None = None,
        cwd: pathlib.Path | None = None,
        stdin: str | None = None,
        first: str = "",
    ) -> subprocess.CompletedProcess[str]:
        """`first`: Python that is run in the hook's process before it."""
        program = (
            ["-c", f"{first}\nfrom gitmem.__main__ import main\nmain()"]
            if first
            else ["-m", "gitmem"]
        )
        words = ["hook", event, *(["--agent", agent] if agent else [])]
        text = json.dumps(payload) if stdin is None else stdin
        done = self.lab.run(
            cwd or self.repo,
            sys.executable,
            "-P",
            *program,
            *words,
            stdin=text,
            env={**SLOW, **(env or {})},
        )
        assert done.returncode == 0 and done.stderr == "", (
            f"{event}: rc {done.returncode}: {done.stderr[-500:]}"
        )
        return done

    def call(
        self, event: str, *, env: dict[str, str] | None = None, first: str = "", **fields: Any
    ) -> str:
        """What Claude Code's model is given."""
        out = self.run(
            event,
            {"session_id": "s1", "cwd": str(self.repo), "hook_event_name": event, **fields},
            env=env,
            first=first,
        ).stdout
        if event == "PreCompact" or not out:
            return out
        answer = json.loads(out)
        assert set(answer) - {"systemMessage"} == {"hookSpecificOutput"}
        assert answer["hookSpecificOutput"]["hookEventName"] == event
        return str(answer["hookSpecificOutput"]["additionalContext"])

    def shown(self, source: str = "startup", agent: str = "", session: str = "s1") -> str:
        """What a session's start shows its user."""
        payload = {"session_id": session, "cwd": str(self.repo), "source": source}
        out = self.run("SessionStart", payload, agent=agent).stdout
        return str(json.loads(out).get("systemMessage", "")) if out else ""

    def failures(self) -> int:
        return failures.count(self.mem_dir)[0]

    def noted(self, name: str = "s1") -> dict[str, list[str]]:
        return session.Notes(self.mem_dir, name).read()


def make(lab: Lab) -> Hooks:
    """Three memories, in the cache; prompts are answered."""

    def three(path: pathlib.Path) -> None:
        lab._made(path, 2)
        lab.mem(path, "init", "--offline")
        lab.git(path, "config", "mem.promptContext", "true")
        raw = "The pager leaves the terminal raw after Ctrl+C; restoring it in atexit fixed that"
        lab.mem(path, "remember", UTC, "--type", "decision", "--path", "f0.txt")
        blocked = "Blocked: the staging certificate expires on Friday"
        lab.mem(path, "remember", blocked, "--type", "blocker")
        lab.mem(path, "remember", raw, "--type", "bugfix")
        lab.mem(path, "index")

    return Hooks(lab, lab.copied("repo", "three memories", three))


def poll(look: Callable[[], str], good: Callable[[str], bool]) -> str:
    end = time.monotonic() + 300  # as `conftest.until`
    while True:
        found = look()
        if good(found) or time.monotonic() > end:
            assert good(found), found
            return found
        time.sleep(0.2)
