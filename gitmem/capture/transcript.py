"""Reads the file in which a client keeps a conversation: what its user and its model said.

The formats are the clients' own and change by release, so the reader knows few things and skips the
rest. Two shapes are known:

* Claude Code: `{"type": "user"|"assistant", "message": {"role", "content"}}`, an assistant's
  message in as many lines as it has blocks. Lines of subagents (`isSidechain`), of the client
  itself and results of tools are nobody's words.
* Codex: `{"type": "response_item", "payload": {"type": "message", "role", "content": [{"type":
  "input_text"|"output_text", "text"}]}}`.

Promise: never raises; reads at most MOST bytes, the last ones; follows no link and waits for no
pipe. What programs injected, `<private>` and `#skip` are cut by `strip` as they are in a hook.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Any

from . import sources, strip
from .candidates import Candidate, said

MOST = 20_000_000  # bytes of one file
TURNS = 2_000  # of one file, the last ones
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # no link, no waiting
_CLIENTS_OWN = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_FOREIGN = ("isSidechain", *_CLIENTS_OWN)
_TEXTS = ("text", "input_text", "output_text")
_NOISE = (
    "[Request interrupted",
    "Caveat: The messages below",
    "API Error",
    "No response requested",
)


def candidates(
    path: str, session: str = "", agent: str = "", head: str = "", branch: str = ""
) -> list[Candidate]:
    """What was said in a conversation, in its order; empty for a file that is none."""
    found = [*turns(_lines(path))][-TURNS:]
    return [said(role, text, session, agent, head, branch) for role, text in found]


def turns(lines: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """(role, text) of each message with words of its own."""
    messages: list[tuple[str, str, str]] = []  # message id, role, text
    for id, role, text in filter(None, map(_message, lines)):
        if id and messages and messages[-1][:2] == (id, role):
            text = f"{messages.pop()[2]}\n\n{text}"
        messages.append((id, role, text))
    for _, role, text in messages:
        text = strip.cleaned(text) if len(text) <= sources.LONGEST else ""
        if text and not text.startswith(_NOISE):
            yield role, text


def _message(line: bytes) -> tuple[str, str, str] | None:
    """(message id, role, text) of a line, None where nobody speaks in it."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    role, inner = data.get("type"), data.get("message")
    if role == "response_item":
        inner = data.get("payload")
        if not isinstance(inner, dict) or inner.get("type") != "message":
            return None
        role = inner.get("role")
    elif any(data.get(mark) is True for mark in _FOREIGN):
        return None
    if role not in (sources.USER, sources.ASSISTANT):
        return None
    if not isinstance(inner, dict) or inner.get("role", role) != role:
        return None
    id, text = inner.get("id"), _text(inner.get("content"))
    return (id if isinstance(id, str) else "", role, text) if text else None


def _text(content: Any) -> str:
    """The words of a message: results of tools, pictures and thoughts have none."""
    if isinstance(content, str):
        return content
    parts = [p for p in content if isinstance(p, dict)] if isinstance(content, list) else []
    texts = [p.get("text") for p in parts if p.get("type") in _TEXTS]
    return "\n\n".join(t for t in texts if isinstance(t, str) and t.strip())


def _lines(path: str) -> list[bytes]:
    """The whole lines of the last MOST bytes of a plain file."""
    try:
        with open(path, "rb", opener=_opened) as f:
            facts = os.fstat(f.fileno())
            if not stat.S_ISREG(facts.st_mode):
                return []
            if facts.st_size > MOST:
                f.seek(facts.st_size - MOST)
                f.readline()
            return f.read(MOST).split(b"\n")
    except (OSError, ValueError):
        return []


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | _SAFE)
