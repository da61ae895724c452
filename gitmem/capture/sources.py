"""What is said and done in an agent's session, on its way from a hook to the keeper.

Owns the lines of the spool that hold text, the only ones: a hook makes one with
`heard` or `done`, the worker reads them with `candidates`. Promise: what
`strip` cuts (injected blocks, `<private>`, `#skip`) never reaches the disk, a
tool's file is cut to its first characters, and a text longer than LONGEST is no
memory and is left out whole. A text's `source` names its session and what was
said, so an event that is handed out twice, or that the transcript tells again,
makes nothing twice. Halves of surrogate pairs, which no table and no note can
hold, do not come in.

Standard library only and without its slow parts: prompts wait for it.
"""

from __future__ import annotations

from ..core import fastjson
from ..core.digest import sha256
from . import strip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

EVENT = "heard"  # the kind of a spool line with text
READY = "model.ready"  # a file in the cache directory: the last worker had a language model to ask
USER, ASSISTANT, COMMIT, TOOL = "user", "assistant", "commit", "tool"
LONGEST = 24_000  # characters of a turn; what is longer is pasted
_MOST_PATHS = 10  # of one memory: more say that it is about none of them
_WORD = 200  # characters of a session's id, a branch, an agent's name


class Candidate:
    """A text that may be worth keeping, with what is known of it for certain.

    `commit`: where it was said ("" for HEAD), `branch`: on which branch, "" where nobody knows;
    `source`: its name for ever; `type`: where its form says it (a trailer), else ""; `explicit`:
    its author marked it as worth keeping; `at`: when, in stored form, "" for now."""

    __slots__ = (
        "agent",
        "at",
        "author",
        "branch",
        "commit",
        "explicit",
        "paths",
        "role",
        "session",
        "source",
        "text",
        "title",
        "type",
    )

    def __init__(
        self,
        role: str,
        text: str,
        *,
        paths: Iterable[str] = (),
        commit: str = "",
        session: str = "",
        agent: str = "",
        source: str = "",
        type: str = "",
        title: str = "",
        explicit: bool = False,
        at: str = "",
        author: str = "",
        branch: str = "",
    ) -> None:
        self.role = role
        self.text = text
        self.paths = list(paths)[:_MOST_PATHS]
        self.commit = commit
        self.session = session
        self.agent = agent
        self.source = source
        self.type = type
        self.title = title
        self.explicit = explicit
        self.at = at
        self.author = author
        self.branch = branch


def heard(role: str, text: str, session: str, agent: str, head: str, branch: str = "") -> bytes:
    """The line of a prompt or an answer; b"" where nothing of it may be kept."""
    if len(text) > LONGEST:
        return b""
    said = strip.cleaned(text)
    return (
        _line(
            {
                "event": EVENT,
                "role": role,
                "text": said,
                "session": session[:_WORD],
                "agent": agent,
                "head": head,
                "branch": branch[:_WORD],
            }
        )
        if said
        else b""
    )


def ended(transcript: str, session: str, agent: str, head: str, branch: str = "") -> bytes:
    """The line of a session's end; `transcript` is the file in which its client keeps the
    conversation, "" for none.
    """
    return _line(
        {
            "event": "session-end",
            "transcript": transcript[:4096],
            "session": session[:_WORD],
            "agent": agent,
            "head": head,
            "branch": branch[:_WORD],
        }
    )


def done(
    text: str, paths: list[str], session: str, agent: str, head: str, branch: str = ""
) -> bytes:
    """The line of a tool that changed files; `text` says how (`toolcalls`), "" where nobody will
    judge that.
    """
    return _line(
        {
            "event": EVENT,
            "role": TOOL,
            "text": strip.cleaned(text),
            "paths": paths[:_MOST_PATHS],
            "session": session[:_WORD],
            "agent": agent,
            "head": head,
            "branch": branch[:_WORD],
        }
    )


def _line(event: dict[str, Any]) -> bytes:
    sound = {
        k: fastjson.whole(v) if isinstance(v, str) else [fastjson.whole(path) for path in v]
        for k, v in event.items()
    }
    # ASCII: a line feed of any alphabet would end the line.
    return fastjson.encoder(ensure_ascii=True)(sound).encode()


def candidates(events: Iterable[Mapping[str, Any]]) -> list[Candidate]:
    """The texts of these events in their order.

    An answer is about the files that were changed since the prompt before it; events of another
    shape are passed over.
    """
    found: list[Candidate] = []
    touched: dict[str, dict[str, None]] = {}
    for event in events:
        role, text, session, agent, head, branch = (
            v if isinstance(v := event.get(k), str) else ""
            for k in ("role", "text", "session", "agent", "head", "branch")
        )
        given = event.get("paths")
        paths = [p for p in given if isinstance(p, str) and p] if isinstance(given, list) else []
        if role not in (USER, ASSISTANT, TOOL) or not (text.strip() or paths):
            continue
        files = touched.setdefault(session, {})
        if role == USER:
            files.clear()
        elif role == TOOL:
            files.update(dict.fromkeys(paths))
        if not text.strip():
            continue
        about = {USER: [], ASSISTANT: list(files), TOOL: paths}[role]
        found.append(
            Candidate(
                role,
                text,
                paths=about if len(about) <= _MOST_PATHS else (),
                commit=head,
                branch=branch,
                session=session,
                agent=agent,
                source=source_of(session, role, text),
            )
        )
    return found


def source_of(session: str, role: str, text: str) -> str:
    """The name of what was said in a session; whoever hears of it again, from whatever side, gives
    the same.
    """
    digest = sha256(" ".join(fastjson.whole(text).split()).encode()).hexdigest()[:16]
    return f"session:{fastjson.whole(session[:_WORD])}#{role}-{digest}"
