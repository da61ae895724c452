"""Our server in the files where agents look for MCP servers: which file, and what stands in it.

Promise: pure data and text; nothing is read or written here. Three shapes: JSON with `mcpServers`,
the same as a part of an agent's settings (Gemini), and TOML (Codex), where our table stands at the
end. An entry of somebody else under our name is not ours.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from .jsonedit import Doc
from .targets import PROJECT, Agent

NAME = "git-mem"
_MORE: dict[str, dict[str, Any]] = {
    "claude": {"type": "stdio", "alwaysLoad": True},
    "copilot": {"type": "local", "tools": ["*"]},
}


def file(environ: Mapping[str, str], top: str, agent: Agent, scope: str) -> str:
    """The file of a scope, "" where there is none."""
    project, user = agent.servers
    if scope == PROJECT:
        return os.path.join(top, project) if top else ""
    home, chosen = environ.get("HOME", ""), environ.get(agent.variable, "")
    path = os.path.join(chosen, os.path.basename(user)) if chosen else os.path.join(home, user)
    return path if user and os.path.isabs(path) else ""


def entry(agent: Agent, python: str = "") -> dict[str, Any]:
    """What starts the server: by name, or with this `python`."""
    start = {"command": python, "args": ["-EP", "-m", "gitmem", "mcp"]}
    return {
        **(start if python else {"command": NAME, "args": ["mcp"]}),
        **_MORE.get(agent.name, {}),
    }


def ours(found: Any) -> bool:
    """Whether an entry starts a server of git mem, of whatever installation."""
    args = found.get("args") if isinstance(found, dict) else None
    if not isinstance(args, list) or args[-1:] != ["mcp"]:
        return False
    return args[-2:-1] == ["gitmem"] or os.path.basename(str(found.get("command"))) == NAME


def same(found: Any, new: dict[str, Any]) -> bool:
    """Whether an entry starts what `new` does, perhaps with more that the user has chosen."""
    return isinstance(found, dict) and all(
        found.get(key) == new[key] for key in ("command", "args")
    )


def found(path: str, text: str, top: str) -> Any:
    """The entry of our name in a file, None for none. Raises ValueError for what is not understood.

    Claude Code has servers of one working tree in the user's file, too: `claude mcp add` does so.
    """
    if path.endswith(".toml"):
        return _taken(text)[0]
    doc = Doc(text)
    return doc.value("projects", top, "mcpServers", NAME) or doc.value("mcpServers", NAME)


def _taken(text: str) -> tuple[Any, dict[str, Any]]:
    """(the entry of our name in a text of TOML, all that it says beside it)."""
    try:
        data = tomllib.loads(text.removeprefix("\ufeff"))
    except RecursionError as e:
        raise ValueError("too many levels") from e
    servers = data.get("mcp_servers")
    entry = servers.pop(NAME, None) if isinstance(servers, dict) else None
    return entry, data if servers else {**data, "mcp_servers": {}}


def with_table(text: str, new: dict[str, Any]) -> tuple[str, list[list[int]]]:
    """The text with an entry as its last table, and the places added; an entry of somebody else
    stays. Raises ValueError for what is no TOML, or cannot have it.
    """
    if _taken(text)[0] is not None:
        return text, []
    # Strings and lists of JSON are those of TOML.
    rows = [f"{key} = {json.dumps(value)}" for key, value in new.items()]
    unended, blank = "\n" * bool(text and not text.endswith("\n")), "\n" * bool(text.strip())
    piece = f"{unended}{blank}[mcp_servers.{NAME}]\n" + "\n".join(rows) + "\n"
    if _taken(text + piece)[0] != new:
        raise ValueError("'mcp_servers' takes no table")
    return text + piece, [[len(text), len(text) + len(piece)]]


def without_table(text: str) -> str:
    """The text without our table and what the user has put into it, and the blank line before it;
    a table that does not begin as we write it stays.
    """
    entry, others = _taken(text)
    lines = text.splitlines(keepends=True)
    heads = [n for n, line in enumerate(lines) if line.strip() == f"[mcp_servers.{NAME}]"]
    for at in heads if ours(entry) else ():
        before = lines[: at - 1] if at and not lines[at - 1].strip() else lines[:at]
        for end in range(at + 1, len(lines) + 1):
            left = "".join([*before, *lines[end:]])
            with suppress(ValueError):
                if _taken(left) == (None, others):
                    return left
    return text
