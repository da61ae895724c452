"""How an agent calls a hook: names of events, fields of stdin, the envelope on stdout.
`targets` has the other half, the agents' settings files.

We use Claude Code's names; those of other agents are turned into them here, so no other module
knows of them. An agent's next version may send anything: a field that is missing or of another type
counts as absent.

The tests run Claude Code, Codex CLI, Gemini CLI and Copilot CLI (docs/agents.md). Cursor, and
Codex's older `notify`, whose JSON is an argument, are from their documentation and sources of 2026.
"""

from __future__ import annotations

import os

from ..core import fastjson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

EVENTS = tuple(
    "SessionStart UserPromptSubmit PreToolUse PostToolUse Stop SubagentStart SubagentStop"
    " PreCompact SessionEnd".split()
)
IGNORED = "Ignored"  # an event that entries of earlier versions still tell

# Our name of an event by each agent's name, in lower case and without `-` and `_`: settings files
# and manuals of one agent do not always agree on them.
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
    "posttoolusefailure": IGNORED,
}
_SESSION = ("session_id", "conversation_id", "sessionId", "thread-id", "thread_id")
PROMPTS = ("prompt", "user_prompt")
_CONTEXT = "<hook_context>"
REPLIES = ("last_assistant_message", "last-assistant-message", "prompt_response")
_FILES = ("file_path", "notebook_path", "absolute_path", "filePath", "path", "target_file")
# Names of tools, in lower case.
_EDITS = (
    "edit write multiedit notebookedit write_file writefile replace edit_file create create_file"
    " str_replace str_replace_editor search_replace apply_patch delete delete_file"
).split()
_READS = "read read_file readfile view notebookread".split()
_PATCHED = ("*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: ")
_MANY = 50  # files of one call


def event_of(name: object) -> str:
    """Our name of an event by any agent's name of it, "" for events that we do not handle."""
    if not isinstance(name, str):
        return ""
    return _NAMES.get(name.replace("-", "").replace("_", "").lower(), "")


def parse(data: bytes) -> dict[str, Any] | None:
    """The JSON object on stdin, `{}` for nothing at all, None for anything else."""
    if not data.strip(b" \t\r\n\0"):
        return {}
    return _object(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"))


def _object(json: str) -> dict[str, Any] | None:
    try:
        value = fastjson.loads(json)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def text(payload: Mapping[str, Any], *names: str) -> str:
    """The first of these fields that is a text with something in it."""
    for name in names:
        value = payload.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def prompt(payload: Mapping[str, Any]) -> str:
    """What the user asks, "" for none."""
    asked = text(payload, *PROMPTS)
    if asked.startswith(_CONTEXT):  # `gemini -p` puts what its session's start was given before it
        _, end, rest = asked.partition(_CONTEXT.replace("<", "</"))
        return rest.lstrip() if end else asked
    return asked


def session(payload: Mapping[str, Any]) -> str:
    """The session's id as it can be stored, "" for none."""
    return fastjson.whole(text(payload, *_SESSION))


def directories(payload: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Where the session may be, the likeliest first."""
    roots = payload.get("workspace_roots")
    root = roots[0] if isinstance(roots, list) and roots else ""
    variables = ("CLAUDE_PROJECT_DIR", "CURSOR_PROJECT_DIR", "GEMINI_PROJECT_DIR")
    found = [payload.get("cwd"), root, *map(environ.get, variables)]
    return [path for path in found if isinstance(path, str) and path and "\0" not in path]


def source(payload: Mapping[str, Any]) -> str:
    """Why a session starts, in Claude Code's words."""
    word = text(payload, "source", "trigger")
    return "startup" if word in ("", "new") else word


def tool(payload: Mapping[str, Any]) -> str:
    """The name of a tool as it may be kept: a word."""
    name = text(payload, "tool_name", "toolName")
    if not name and isinstance(payload.get("edits"), list):
        name = "edit"
    return "".join([c for c in name[:64] if c.isascii() and (c.isalnum() or c in "_-.:")])


def edits(name: str) -> bool:
    """Whether a tool of this name changes files."""
    return name.lower() in _EDITS


def reads(name: str) -> bool:
    """Whether a tool of this name reads files."""
    return name.lower() in _READS


def given(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tool's input: an object, a text with one, or fields of the event; else {"input": text}."""
    value = payload.get("tool_input", payload.get("toolArgs", payload))
    if isinstance(value, str):
        value = (value.startswith("{") and _object(value)) or {"input": value}
    return value if isinstance(value, dict) else {}


def files(payload: Mapping[str, Any]) -> list[str]:
    """The files in a tool's input, as they are named there."""
    values = given(payload)
    name = text(values, *_FILES)
    if name or tool(payload) != "apply_patch":
        return [name] if name else []
    patch = text(values, "input", "patch", "command").splitlines()
    names = [line.removeprefix(m) for line in patch for m in _PATCHED if line.startswith(m)]
    return [name.strip() for name in names][:_MANY]


def answer(payload: Mapping[str, Any]) -> Any:
    """What a tool answered, None where the event does not say."""
    return payload.get("tool_response", payload.get("toolResult", payload.get("tool_output")))


def failed(payload: Mapping[str, Any]) -> bool:
    """Whether the tool's answer says that it failed."""
    said = answer(payload)
    if isinstance(said, str) and said.startswith("{"):
        said = _object(said)
    if not isinstance(said, dict):
        return False
    codes = [said.get(name) for name in ("exit_code", "exitCode", "returncode")]
    return (
        bool(next((code for code in codes if isinstance(code, int)), 0))
        or said.get("success") is False
        or said.get("is_error") is True
        or bool(said.get("error"))
        or said.get("resultType") in ("failure", "denied")
    )


def inside(top: str, cwd: str, path: str) -> str:
    """A file as git names it, from the top of the working tree; "" for one outside."""
    if not top or "\0" in path or len(path) > 4096:
        return ""
    top = top.rstrip("/") + "/"
    whole = os.path.normpath(os.path.join(cwd, path))
    if whole.startswith(top):
        return whole[len(top) :]
    directory, name = os.path.split(whole)
    whole = os.path.join(os.path.realpath(directory), name)
    return whole[len(top) :] if whole.startswith(top) else ""


# --- stdout -----------------------------------------------------------------


# Each agent: the events from which it takes context.
_START, _PROMPT = "SessionStart", "UserPromptSubmit"
_TAKES = {
    "claude": (_START, _PROMPT, "PreToolUse", "SubagentStart", "PreCompact"),
    "codex": (_START, _PROMPT, "SubagentStart"),
    "gemini": (_START, _PROMPT),
    "cursor": (_START, _PROMPT),
    "copilot": (_START, _PROMPT),
}
AGENTS = tuple(_TAKES)
# Those that show their user `systemMessage`; Cursor and Copilot CLI have no such field.
SHOWS = ("claude", "codex", "gemini")

# UTF-16 units of one value: beyond 10,000 Claude Code and Cursor hand over a file's name instead;
# Codex does at about 2,500 tokens.
ROOM = 9000
_ROOM = {"codex": 7000}


def injects(agent: str, event: str) -> bool:
    """Whether an agent takes context from this event."""
    return event in _TAKES.get(agent, ())


def room(agent: str) -> int:
    """UTF-16 units that one value may have."""
    return _ROOM.get(agent, ROOM)


def envelope(agent: str, event: str, context: str, message: str = "") -> bytes:
    """What to print so that the agent's model reads `context`, "" for nothing; b"" where the agent
    takes none. All ASCII, but for the plain text that Claude Code takes before a compaction.

    `message` is for the user's eyes: left out where the agent is none of SHOWS.
    """
    if not injects(agent, event):
        return b""
    if event == "PreCompact":
        return context.encode("utf-8", "replace")
    prompt = event == _PROMPT
    answer: dict[str, Any] = {}
    if context and agent == "copilot":
        answer = {"additionalContext": context}
    elif context and agent == "cursor":
        goes_on = {"continue": True} if prompt else {}
        answer = {**goes_on, "additional_context": context}
    elif context:
        name = "BeforeAgent" if agent == "gemini" and prompt else event
        answer = {"hookSpecificOutput": {"hookEventName": name, "additionalContext": context}}
    if message and agent in SHOWS:
        answer = {"systemMessage": message, **answer}
    return fastjson.encoder(ensure_ascii=True)(answer).encode() if answer else b""
