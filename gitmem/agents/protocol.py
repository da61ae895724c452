"""How each agent calls a hook and what it reads from one: names of events, fields of stdin, the
envelope on stdout.

Ours are Claude Code's words; the other agents' are turned into them here, so
no other module knows that there are five. What an agent sends is whatever its
next version sends: every field may be missing or of another type, then it
counts as absent.

Claude Code's part was tried with its releases 2.1.197 and 2.1.330; the others
are from their documentation and sources of 2026: Codex CLI (the same JSON, and
the older `notify`, whose JSON is an argument), Gemini CLI (hook names of its
own, `hookSpecificOutput`, stdout JSON only), Cursor (camel case,
`conversation_id`, `additional_context`), Copilot CLI (camel case, `sessionId`,
`toolArgs` as JSON in a string, `additionalContext`).
"""

from __future__ import annotations

import os

from ..core import fastjson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

AGENTS = ("claude", "codex", "gemini", "cursor", "copilot")
EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "SessionEnd",
)

# In lower case and without `-` and `_`: what a settings file says is not always what the agent's
# manual says.
_NAMES = {event.lower(): event for event in EVENTS} | {
    "beforeagent": "UserPromptSubmit",
    "beforesubmitprompt": "UserPromptSubmit",
    "userpromptsubmitted": "UserPromptSubmit",
    "beforetool": "PreToolUse",
    "aftertool": "PostToolUse",
    "afterfileedit": "PostToolUse",
    "afteragent": "Stop",
    "agentstop": "Stop",
    "notify": "Stop",
    "agentturncomplete": "Stop",
    "precompress": "PreCompact",
}
# (agent, event): how context is handed over. What is not here cannot be handed anything.
# "hook": hookSpecificOutput; "plain": text; "snake", "camel": one key beside others.
_ENVELOPES = {
    **{
        ("claude", event): "hook"
        for event in ("SessionStart", "UserPromptSubmit", "PreToolUse", "SubagentStart")
    },
    ("claude", "PreCompact"): "plain",
    **{("codex", event): "hook" for event in ("SessionStart", "UserPromptSubmit", "SubagentStart")},
    ("gemini", "SessionStart"): "hook",
    ("gemini", "UserPromptSubmit"): "hook",
    ("cursor", "SessionStart"): "snake",
    ("cursor", "UserPromptSubmit"): "snake",
    ("copilot", "SessionStart"): "camel",
    ("copilot", "UserPromptSubmit"): "camel",
}
_GEMINI = {"UserPromptSubmit": "BeforeAgent"}
# UTF-16 units of one value: beyond 10,000 Claude Code and Cursor hand over a file's name instead;
# Codex at about 2,500 tokens.
_ROOM = {"codex": 7000}
ROOM = 9000

_SESSION = ("session_id", "conversation_id", "sessionId", "thread-id", "thread_id")
_FILES = ("file_path", "notebook_path", "absolute_path", "filePath", "path", "target_file")
_EDITS = frozenset(
    [
        "edit",
        "write",
        "multiedit",
        "notebookedit",
        "write_file",
        "writefile",
        "replace",
        "edit_file",
        "create",
        "create_file",
        "str_replace",
        "str_replace_editor",
        "search_replace",
        "apply_patch",
        "delete",
        "delete_file",
    ]
)
_READS = frozenset(["read", "read_file", "readfile", "view", "notebookread"])
_PATCHED = ("*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: ")
_MANY = 50  # files of one call


def event_of(name: object) -> str:
    """Our name of an event in any agent's words, "" for one we have nothing to do with."""
    return (
        _NAMES.get(name.replace("-", "").replace("_", "").lower(), "")
        if isinstance(name, str)
        else ""
    )


def parse(data: bytes) -> dict[str, Any] | None:
    """The JSON object on stdin, `{}` for nothing at all, None for anything else.

    Bytes that are no UTF-8 become U+FFFD.
    """
    if not data.strip(b" \t\r\n\0"):
        return {}
    try:
        found = fastjson.loads(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def text(payload: Mapping[str, Any], *names: str) -> str:
    """The first of these fields that is a text with something in it."""
    for name in names:
        value = payload.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def session(payload: Mapping[str, Any]) -> str | None:
    """The session's id as it can be stored."""
    return fastjson.whole(text(payload, *_SESSION)) or None


def directories(payload: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Where the session may be, the likeliest first."""
    roots = payload.get("workspace_roots")
    found = [
        text(payload, "cwd"),
        *(r for r in (roots if isinstance(roots, list) else ())[:1] if isinstance(r, str)),
        environ.get("CLAUDE_PROJECT_DIR", ""),
        environ.get("CURSOR_PROJECT_DIR", ""),
        environ.get("GEMINI_PROJECT_DIR", ""),
    ]
    return [path for path in found if path and "\0" not in path]


def source(payload: Mapping[str, Any]) -> str:
    """Why a session starts, in Claude Code's words."""
    word = text(payload, "source", "trigger")
    return "startup" if word in ("", "new") else word


# --- tools ------------------------------------------------------------------


def tool(payload: Mapping[str, Any]) -> str:
    """The name of a tool as it may be kept: a word."""
    name = text(payload, "tool_name", "toolName") or (
        "edit" if isinstance(payload.get("edits"), list) else ""
    )
    return "".join([c for c in name[:64] if c.isascii() and (c.isalnum() or c in "_-.:")])


def edits(name: str) -> bool:
    """Whether a tool of this name changes files."""
    return name.lower() in _EDITS


def reads(name: str) -> bool:
    return name.lower() in _READS


def given(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a tool was given, by name: an object, an object written as a text, or, of Cursor, fields
    of the event itself; a bare text is `input`.
    """
    found = payload.get("tool_input", payload.get("toolArgs", payload))
    if isinstance(found, str):
        found = _object(found) or {"input": found}
    return found if isinstance(found, dict) else {}


def files(payload: Mapping[str, Any]) -> list[str]:
    """The files that a tool was given, as it was given them."""
    values = given(payload)
    name = text(values, *_FILES)
    if name:
        return [name]
    patch = text(values, "input", "patch", "command") if tool(payload) == "apply_patch" else ""
    return [
        line[len(mark) :].strip()
        for line in patch.splitlines()
        for mark in _PATCHED
        if line.startswith(mark)
    ][:_MANY]


def failed(payload: Mapping[str, Any]) -> bool:
    """Whether the tool's answer says that it failed.

    Where the agent has an event of its own for that, this says nothing.
    """
    answer = payload.get("tool_response", payload.get("toolResult", payload.get("tool_output")))
    if isinstance(answer, str):
        answer = _object(answer)
    if not isinstance(answer, dict):
        return False
    code = next(
        (
            answer[name]
            for name in ("exit_code", "exitCode", "returncode")
            if isinstance(answer.get(name), int)
        ),
        0,
    )
    return (
        bool(code)
        or answer.get("success") is False
        or answer.get("is_error") is True
        or bool(answer.get("error"))
        or answer.get("resultType") in ("failure", "denied")
    )


def _object(given: str) -> dict[str, Any] | None:
    if given[:1] != "{":
        return None
    try:
        found = fastjson.loads(given)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def inside(top: str, cwd: str, path: str) -> str:
    """A file as git names it, from the top of the working tree; "" for one outside."""
    if not top or "\0" in path or len(path) > 4096:
        return ""
    whole = os.path.normpath(os.path.join(cwd, path))
    for place in (
        whole,
        os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole)),
    ):
        if place.startswith(top.rstrip("/") + "/"):
            return place[len(top.rstrip("/")) + 1 :]
    return ""


# --- stdout -----------------------------------------------------------------


def injects(agent: str, event: str) -> bool:
    """Whether an agent takes context from this event."""
    return (agent, event) in _ENVELOPES


def room(agent: str) -> int:
    """UTF-16 units that one value may have."""
    return _ROOM.get(agent, ROOM)


def envelope(agent: str, event: str, context: str, message: str = "") -> bytes:
    """What to print so that the agent's model reads `context`; nothing where there is no way. All
    ASCII, but for plain text.

    `message` is for the user's eyes; only Claude Code has a place for it, and only beside JSON.
    """
    kind = _ENVELOPES.get((agent, event), "")
    if message and agent == "claude" and kind == "hook":
        said: dict[str, Any] = {"systemMessage": message}
        if context:
            said["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": context}
        return fastjson.encoder(ensure_ascii=True)(said).encode()
    if not kind or not context:
        return b""
    if kind == "plain":
        return context.encode("utf-8", "replace")
    if kind == "hook":
        name = _GEMINI.get(event, event) if agent == "gemini" else event
        answer: dict[str, Any] = {
            "hookSpecificOutput": {"hookEventName": name, "additionalContext": context}
        }
    elif kind == "snake":
        answer = (
            {"continue": True, "additional_context": context}
            if event == "UserPromptSubmit"
            else {"additional_context": context}
        )
    else:
        answer = {"additionalContext": context}
    return fastjson.encoder(ensure_ascii=True)(answer).encode()
