"""What capture is given to hear, and what it has kept."""

from __future__ import annotations

import pathlib
from typing import Any

from conftest import Lab

from gitmem.capture import sources, suggestions
from gitmem.capture.candidates import Candidate
from gitmem.store import Store

WIPED = "Remember this: the staging database is wiped every Sunday."
TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
TRAILER = "Decision: orders stay in PostgreSQL, because invoices share their transaction"


def listed(lab: Lab, repo: pathlib.Path) -> list[dict[str, Any]]:
    return list(lab.json(repo, "list", "--all"))


def heard(*texts: str, role: str = "user", session: str = "s1") -> list[Candidate]:
    return [
        Candidate(
            role,
            text,
            session=session,
            agent="claude",
            source=sources.source_of(session, role, text),
        )
        for text in texts
    ]


def waits(store: Store) -> list[suggestions.Suggestion]:
    return suggestions.waiting(store)
