"""Texts that may be worth keeping, with their facts; also made of the spool's lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .sources import ASSISTANT, MOST_PATHS, TOOL, USER, source_of


class Candidate(NamedTuple):
    """One text. `commit`: where it was said ("" for HEAD), `branch`: on which branch, "" where
    nobody knows; `source`: its name for ever; `type`: where its form says it (a trailer), else "";
    `explicit`: its author marked it as worth keeping; `at`: when (ISO 8601), "" for now.
    """

    role: str
    text: str
    paths: Sequence[str] = ()
    commit: str = ""
    session: str = ""
    agent: str = ""
    source: str = ""
    type: str = ""
    explicit: bool = False
    at: str = ""
    author: str = ""
    branch: str = ""


def said(role: str, text: str, where: Sequence[str], paths: Sequence[str] = ()) -> Candidate:
    """A text of a session. `where`: the session, its agent, its HEAD and branch."""
    session, agent, head, branch = where
    source = source_of(session, role, text)
    return Candidate(role, text, paths, head, session, agent, source, branch=branch)


def from_events(events: Iterable[Mapping[str, Any]]) -> list[Candidate]:
    """The texts of these events in their order.

    An answer is about the files that were changed since the prompt before it; events of another
    shape are passed over.
    """
    found: list[Candidate] = []
    touched: dict[str, dict[str, None]] = {}
    for event in events:
        role, text = strings(event, "role", "text")
        where = strings(event, "session", "agent", "head", "branch")
        given = event.get("paths")
        paths = [p for p in given if isinstance(p, str) and p] if isinstance(given, list) else []
        if role not in (USER, ASSISTANT, TOOL):
            continue
        files = touched.setdefault(where[0], {})
        if role == USER and text.strip():
            files.clear()
        elif role == TOOL:
            files.update(dict.fromkeys(paths))
        if text.strip():
            about = {USER: [], ASSISTANT: list(files), TOOL: paths}[role]
            about = about if len(about) <= MOST_PATHS else []
            found.append(said(role, text, where, about))
    return found


def strings(event: Mapping[str, Any], *names: str) -> list[str]:
    """These fields, "" for one that is no text."""
    return [v if isinstance(v := event.get(name), str) else "" for name in names]
