"""Turns and tool calls of an agent's session, on their way from a hook to the worker.

Owns the lines of the spool that hold text, the only ones. Promise: what `strip` cuts (injected
blocks, `<private>`, `#skip`) never reaches the disk, a tool's file is cut to its first characters,
and a text longer than LONGEST is no memory and is left out whole. A text's `source` names its
session and what was said, so an event that is handed out twice, or that the transcript tells again,
makes nothing twice. Halves of surrogate pairs, which no table and no note can hold, do not come in.

Standard library only and without its slow parts: prompts wait for it.
"""

from __future__ import annotations

from ..core import fastjson
from ..core.digest import sha256
from . import strip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

EVENT = "heard"  # the kind of a spool line with text
READY = "model.ready"  # a file in the cache directory: the last worker had a language model to ask
USER, ASSISTANT, COMMIT, TOOL = "user", "assistant", "commit", "tool"
LONGEST = 24_000  # characters of a turn; what is longer is pasted
MOST_PATHS = 10  # of one memory: more say that it is about none of them
_WORD = 200  # characters of a session's id, a branch, an agent's name
_WHERE = ("session", "agent", "head", "branch")


def heard(role: str, text: str, *where: str) -> bytes:
    """The line of a prompt or an answer; b"" where nothing of it may be kept. `where` of this and
    the next two: session, agent, HEAD, branch.
    """
    said = strip.cleaned(text) if len(text) <= LONGEST else ""
    return _line(EVENT, where, role=role, text=said) if said else b""


def ended(transcript: str, *where: str, top: str = "") -> bytes:
    """The line of a session's end; `transcript`: the file of the conversation, "" for none; `top`:
    of the working tree.
    """
    return _line("session-end", where, transcript=transcript[:4096], top=top)


def done(text: str, paths: list[str], *where: str) -> bytes:
    """The line of a tool that changed files; `text` says how, "" where nobody will judge that."""
    fields = {"role": TOOL, "text": strip.cleaned(text)}
    return _line(EVENT, where, **fields, paths=paths[:MOST_PATHS])


def _line(event: str, where: Iterable[str], **fields: str | list[str]) -> bytes:
    place = zip(_WHERE, [word[:_WORD] for word in where], strict=False)
    sound = {
        k: fastjson.whole(v) if isinstance(v, str) else [fastjson.whole(path) for path in v]
        for k, v in {"event": event, **fields, **dict(place)}.items()
    }
    # ASCII: a line feed of any alphabet would end the line.
    return fastjson.encoder(ensure_ascii=True)(sound).encode()


def source_of(session: str, role: str, text: str) -> str:
    """The name of what was said in a session, the same from whatever side it is heard."""
    digest = sha256(" ".join(fastjson.whole(text).split()).encode()).hexdigest()[:16]
    return f"session:{fastjson.whole(session[:_WORD])}#{role}-{digest}"
