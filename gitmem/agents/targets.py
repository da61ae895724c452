"""What each agent reads: its settings file, its names of events, the shape of an entry, the command
in it.

Promise: pure data and text; nothing is read or written here. Claude Code was
run; the others are after their documentation (docs/agents.md says what that
means). A command ends with status 0 and prints nothing where git mem is gone,
in whatever shell the agent starts it: sh, bash, zsh or fish.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from typing import Any

PERMISSION = "Bash(git mem *)"
PLUGIN = "mem"  # the plugin's name in .claude-plugin/plugin.json
USER, PROJECT = "user", "project"
# tools of Claude Code before which something may be known of a file; the others wait for nothing
FILES = "Read|Edit|MultiEdit|Write|NotebookEdit"


class Agent:
    """One agent.

    `user`: (variable that names its directory, the directory below the home) and the file in it; ""
    where it has none.
    """

    def __init__(
        self,
        name: str,
        title: str,
        user: tuple[str, str, str],
        project: str,
        events: dict[str, int],
        shape: str,
        needs: str = "",
    ) -> None:
        self.name = name
        self.title = title
        self.project = project  # from the top of the working tree
        self.events = events  # event: seconds that the agent waits at most
        self.shape = shape
        self.needs = needs  # what the user has to do beside it
        self._user = user

    def file(self, environ: Mapping[str, str], top: str, scope: str) -> str:
        """The settings file of a scope, "" where there is none."""
        if scope == PROJECT:
            return os.path.join(top, self.project) if top else ""
        variable, below, name = self._user
        home = environ.get(variable, "") or (
            os.path.join(environ["HOME"], below) if environ.get("HOME") else ""
        )
        return os.path.join(home, name) if os.path.isabs(home) and name else ""

    @property
    def personal(self) -> bool:
        """Whether it reads settings of a user."""
        return bool(self._user[2])

    def entry(self, event: str, command: str) -> dict[str, Any]:
        """What stands in the array of an event."""
        seconds = self.events[event]
        if self.shape == "cursor":
            return {"command": command, "timeout": seconds}
        if self.shape == "copilot":
            return {"type": "command", "bash": command, "timeoutSec": seconds}
        if self.shape == "gemini":  # counts in milliseconds
            return {
                "hooks": [
                    {
                        "name": "git-mem",
                        "type": "command",
                        "command": command,
                        "timeout": seconds * 1000,
                    }
                ]
            }
        matcher = {"matcher": FILES} if event == "PreToolUse" else {}
        return {**matcher, "hooks": [{"type": "command", "command": command, "timeout": seconds}]}

    @property
    def version(self) -> bool:
        """Whether the file has to say `"version": 1`."""
        return self.shape in ("cursor", "copilot")


# Far above what a hook takes (its own deadline is at most a second): a machine under load must not
# lose the answer.
_START, _OTHER = 10, 5
AGENTS = {
    agent.name: agent
    for agent in (
        Agent(
            "claude",
            "Claude Code",
            ("CLAUDE_CONFIG_DIR", ".claude", "settings.json"),
            ".claude/settings.json",
            {
                "SessionStart": _START,
                **dict.fromkeys(
                    (
                        "UserPromptSubmit",
                        "PreToolUse",
                        "PostToolUse",
                        "PostToolUseFailure",
                        "Stop",
                        "SubagentStart",
                        "SubagentStop",
                        "PreCompact",
                        "SessionEnd",
                    ),
                    _OTHER,
                ),
            },
            "claude",
        ),
        Agent(
            "codex",
            "Codex CLI",
            ("CODEX_HOME", ".codex", "hooks.json"),
            ".codex/hooks.json",
            {
                "SessionStart": _START,
                **dict.fromkeys(
                    ("UserPromptSubmit", "PostToolUse", "Stop", "SubagentStart", "SubagentStop"),
                    _OTHER,
                ),
            },
            "claude",
            "Codex asks you to review and trust new hooks before it runs them",
        ),
        Agent(
            "gemini",
            "Gemini CLI",
            ("", ".gemini", "settings.json"),
            ".gemini/settings.json",
            {
                "SessionStart": _START,
                **dict.fromkeys(
                    ("BeforeAgent", "AfterTool", "AfterAgent", "PreCompress", "SessionEnd"), _OTHER
                ),
            },
            "gemini",
        ),
        Agent(
            "cursor",
            "Cursor",
            ("", ".cursor", "hooks.json"),
            ".cursor/hooks.json",
            {
                "sessionStart": _START,
                **dict.fromkeys(
                    ("beforeSubmitPrompt", "afterFileEdit", "stop", "sessionEnd"), _OTHER
                ),
            },
            "cursor",
        ),
        Agent(
            "copilot",
            "Copilot CLI",
            ("", "", ""),
            ".github/hooks/git-mem.json",
            {
                "sessionStart": _START,
                **dict.fromkeys(("userPromptSubmitted", "postToolUse", "sessionEnd"), _OTHER),
            },
            "copilot",
        ),
    )
}
SECTIONS = {"agents-md": "AGENTS.md", "claude-md": "CLAUDE.md"}
TARGETS = ("git", *AGENTS, *SECTIONS)


def command(agent: str, event: str, python: str = "", package: str = "") -> str:
    """The command of an entry.

    By name it is the same on every machine and in every settings file, and the
    client runs equal commands once. With `python` and `package` it starts this
    installation. PYTHONPATH is emptied: Python would run a `sitecustomize.py` of
    the working tree before any line of ours. Not `exec`, which costs as much: fish
    would not empty it, and a program that fails would have the last word.
    """
    words = f"hook {event} --agent {agent}"
    if python:
        python, module = shlex.quote(python), shlex.quote(os.path.join(package, "__main__.py"))
        return f"[ -x {python} ] && [ -r {module} ] && {python} -EP -m gitmem {words}; exit 0"
    return f"command -v git-mem >/dev/null 2>&1 && PYTHONPATH= git-mem {words}; exit 0"


_OURS = re.compile(r"(?:\bgit[- ]mem\b['\"]?|-m gitmem) hook (\w+)(?: --agent[ =](\w+))?")


def ours(text: object) -> bool:
    """Whether a command starts a hook of git mem, of whatever version."""
    return isinstance(text, str) and bool(_OURS.search(text))


def program(text: str) -> str:
    """The package that a command names, "" where it goes by the name."""
    found = re.search(r"\[ -r (.*?) \] && ", text)
    words = shlex.split(found[1]) if found else []
    return os.path.dirname(words[0]) if words else ""


def entries(hooks: Any) -> list[tuple[tuple[str | int, ...], str, str]]:
    """(path below `hooks`, event, command) of every entry of ours, in the shape of any agent."""
    found: list[tuple[tuple[str | int, ...], str, str]] = []
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for i, group in enumerate(groups) if isinstance(groups, list) else ():
            if not isinstance(group, dict):
                continue
            own: Any = group.get("command", group.get("bash"))
            if ours(own):
                found.append(((event, i), event, own))
            handlers = group.get("hooks")
            handlers = handlers if isinstance(handlers, list) else []
            mine = [
                j for j, h in enumerate(handlers) if isinstance(h, dict) and ours(h.get("command"))
            ]
            whole = len(handlers) == 1 and set(group) <= {"hooks", "matcher", "sequential"}
            found += [
                ((event, i) if whole else (event, i, "hooks", j), event, handlers[j]["command"])
                for j in mine
            ]
    return found
