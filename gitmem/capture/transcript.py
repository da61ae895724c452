"""Reads the file in which a client keeps a conversation: what its user and its model said.

The formats are the clients' own and change by release, so the reader knows few things and skips the
rest. Two shapes are known:

* Claude Code: `{"type": "user"|"assistant", "message": {"role", "content"}}`, an assistant's
  message in as many lines as it has blocks. Lines of subagents (`isSidechain`), of the client
  itself and results of tools are nobody's words.
* Codex: `{"type": "response_item", "payload": {"type": "message", "role", "content": [{"type":
  "input_text"|"output_text", "text"}]}}`.

Promise: never raises; reads at most MOST bytes, the last ones; follows no link and waits for no
pipe. What programs injected, `<private>` and `#skip` are cut by `strip` as they are in a hook, and
what was said in another repository is left out, as hooks there would not have told it us: a session
may move (seen in Claude Code 2.1.330, started in a directory above several repositories).

Owns `mem/sessions.read`: which files were read, and how long they were then. Whatever is lost of it
is read again, and adds nothing.
"""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from ..core import fastjson
from ..git import memfile
from . import sources, strip
from .candidates import Candidate, said

MOST = 20_000_000  # bytes of one file
TURNS = 2_000  # of one file, the last ones
_CLIENTS_OWN = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_FOREIGN = ("isSidechain", *_CLIENTS_OWN)
SUBAGENT, INJECTED, LONG = "of subagents", "injected by programs or kept back", "pasted"
ELSEWHERE = "said outside of this repository"
_READ, _MOST_READ = "sessions.read", 10_000  # files
_TEXTS = ("text", "input_text", "output_text")
_NOISE = (
    "[Request interrupted",
    "Caveat: The messages below",
    "API Error",
    "No response requested",
)


class _Message(NamedTuple):
    id: str
    role: str
    text: str
    at: str


def candidates(
    path: str,
    where: Sequence[str] = ("", "", "", ""),
    left: Counter[str] | None = None,
    trees: Sequence[str] = (),
) -> list[Candidate]:
    """What was said in a conversation, in its order; empty for a file that is none. `where` as in
    `candidates.said`; `left` counts the turns that are left out, by reason; `trees`: those
    of the repository (`Repo.trees`), () for any place.
    """
    inside = cache(lambda cwd: not trees or below(cwd, trees))
    found = [*_turns(_lines(path), Counter() if left is None else left, inside)][-TURNS:]
    return [said(m.role, m.text, where)._replace(at=m.at) for m in found]


def _turns(
    lines: Iterable[bytes], left: Counter[str], inside: Callable[[str], bool]
) -> Iterator[_Message]:
    """Each message with words of its own."""
    messages: list[_Message] = []
    for m in (_message(line, left, inside) for line in lines):
        if m and m.id and messages and messages[-1][:2] == m[:2]:
            m = m._replace(text=f"{messages.pop().text}\n\n{m.text}")
        if m:
            messages.append(m)
    for m in messages:
        text = strip.cleaned(m.text) if len(m.text) <= sources.LONGEST else ""
        if text and not text.startswith(_NOISE):
            yield m._replace(text=fastjson.whole(text))
        else:
            left[LONG if len(m.text) > sources.LONGEST else INJECTED] += 1


def _message(line: bytes, left: Counter[str], inside: Callable[[str], bool]) -> _Message | None:
    """What is said in a line, None where nobody speaks in it."""
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
    if role not in (sources.USER, sources.ASSISTANT):
        return None
    if not isinstance(inner, dict) or inner.get("role", role) != role:
        return None
    text = _text(inner.get("content"))
    if any(data.get(mark) is True for mark in _FOREIGN):
        left[SUBAGENT if data.get("isSidechain") is True else INJECTED] += bool(text)
        return None
    cwd = data.get("cwd")
    if text and isinstance(cwd, str) and not inside(cwd):
        left[ELSEWHERE] += 1
        return None
    id, at = inner.get("id"), data.get("timestamp")
    words = [word if isinstance(word, str) else "" for word in (id, at)]
    return _Message(words[0], role, text, words[1][:40]) if text else None


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
        with open(path, "rb", opener=opened) as f:
            facts = os.fstat(f.fileno())
            if not stat.S_ISREG(facts.st_mode):
                return []
            if facts.st_size > MOST:
                f.seek(facts.st_size - MOST)
                f.readline()
            return f.read(MOST).split(b"\n")
    except (OSError, ValueError):
        return []


def below(cwd: str, trees: Sequence[str]) -> bool:
    """Whether a directory lies in one of these trees, and in no other repository inside of it."""
    try:
        at = os.path.realpath(cwd)
    except ValueError:  # a zero byte, half of a surrogate pair
        return False
    if not os.path.isabs(cwd):
        return False
    while at not in trees:
        if os.path.lexists(os.path.join(at, ".git")) or at == os.path.dirname(at):
            return False
        at = os.path.dirname(at)
    return True


def opened(path: str, flags: int) -> int:
    """For `open`: follows no link, waits for no pipe."""
    return os.open(path, flags | memfile.SAFE)


def read_before(mem_dir: str) -> dict[str, int]:
    """{file: its size when it was read}."""
    try:
        rows = os.fsdecode(memfile.read(os.path.join(mem_dir, _READ))).split("\n")
    except OSError:
        return {}
    pairs = [row.partition(" ") for row in rows]
    return {path: int(size) for size, _, path in pairs if path and size.isdigit()}


def note_read(mem_dir: str, sizes: Mapping[str, int]) -> None:
    """Notes files that were read; a disk that takes nothing costs a second reading."""
    known = {**read_before(mem_dir), **sizes}
    rows = [f"{size} {path}" for path, size in known.items() if "\n" not in path]
    try:
        memfile.write(os.path.join(mem_dir, _READ), os.fsencode("\n".join(rows[-_MOST_READ:])))
    except OSError:
        pass
