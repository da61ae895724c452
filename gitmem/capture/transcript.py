"""Reads the file in which a client keeps a conversation: what its user and its model said, nothing
else.

The formats are the clients' own and change by release, so the reader knows few
things and skips the rest: a line that is no JSON, a type it does not know, a
field of another shape. Two shapes are known:

* Claude Code: `{"type": "user"|"assistant", "message": {"role", "content"}}`,
  an assistant's message in as many lines as it has blocks. Lines of subagents
  (`isSidechain`), of the client itself (`isMeta`, summaries of a compaction,
  errors of the API) and results of tools are nobody's words.
* Codex: `{"type": "response_item", "payload": {"type": "message", "role",
  "content": [{"type": "input_text"|"output_text", "text"}]}}`.

Promise: never raises; reads at most MOST bytes, the last ones; follows no link
and waits for no pipe. What programs injected, `<private>` and `#skip` are cut
by `strip` as they are in a hook.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from typing import Any

from . import sources, strip
from .sources import Candidate

MOST = 20_000_000  # bytes of one file
TURNS = 2_000  # of one file, the last ones
_FOREIGN = (
    "isSidechain",
    "isMeta",
    "isCompactSummary",
    "isVisibleInTranscriptOnly",
    "isApiErrorMessage",
)
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
    found = [
        Candidate(
            role,
            text,
            commit=head,
            branch=branch,
            session=session,
            agent=agent,
            source=sources.source_of(session, role, text),
        )
        for role, text in turns(_lines(path))
    ]
    return found[-TURNS:]


def turns(lines: Iterator[bytes]) -> Iterator[tuple[str, str]]:
    """(role, text) of each message with words of its own."""
    last: tuple[str, str, str] | None = None  # message id, role, text
    for line in lines:
        got = _message(line)
        if got is None:
            continue
        id, role, text = got
        if last and id and last[:2] == (id, role):
            last = (id, role, f"{last[2]}\n\n{text}")
            continue
        if last:
            yield from _said(*last[1:])
        last = got
    if last:
        yield from _said(*last[1:])


def _said(role: str, text: str) -> Iterator[tuple[str, str]]:
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
    kind, inner = data.get("type"), data.get("message")
    if kind == "response_item":
        inner = data.get("payload")
        if not isinstance(inner, dict) or inner.get("type") != "message":
            return None
        kind = inner.get("role")
    elif any(data.get(mark) is True for mark in _FOREIGN):
        return None
    if (
        kind not in (sources.USER, sources.ASSISTANT)
        or not isinstance(inner, dict)
        or inner.get("role", kind) != kind
    ):
        return None
    text = _text(inner.get("content"))
    id = inner.get("id")
    return (id if isinstance(id, str) else "", kind, text) if text else None


def _text(content: Any) -> str:
    """The words of a message: results of tools, pictures and thoughts have none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [
        part["text"]
        for part in content
        if isinstance(part, dict)
        and part.get("type") in _TEXTS
        and isinstance(part.get("text"), str)
    ]
    return "\n\n".join(part for part in parts if part.strip())


def _lines(path: str) -> Iterator[bytes]:
    """The whole lines of the last MOST bytes of a plain file."""
    try:
        fd = os.open(
            path,
            os.O_RDONLY
            | getattr(os, "O_NOFOLLOW", 0)
            | getattr(os, "O_NONBLOCK", 0)
            | getattr(os, "O_CLOEXEC", 0),
        )
    except (OSError, ValueError):
        return
    try:
        with open(fd, "rb") as f:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode):
                return
            if facts.st_size > MOST:
                f.seek(facts.st_size - MOST)
                f.readline()
            left = MOST
            while left > 0 and (line := f.readline(left)):
                left -= len(line)
                yield line
    except OSError:
        return
