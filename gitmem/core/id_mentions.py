"""Which memories a text names. Pure.

The one rule: a memory is named by the first eight digits of its id, as all output shows it, or by
more of them, as a word of its own, in any case. A commit is named the same way, so a word means a
memory only where one has that id. The end of every answer waits for this module.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LEAST = 8  # digits by which an id is shown (`context_item.ID`); fewer name nothing


def named(text: str, ids: Iterable[str]) -> list[str]:
    """Those of the ids; one that another tool made of other characters has no name."""
    low = text.lower()
    return [id for id in ids if len(id) >= LEAST and id.isalnum() and _stands(low, id.lower())]


def words(terms: Iterable[str]) -> set[str]:
    return {w for w in terms if LEAST <= len(w) <= 32 and _HEX.issuperset(w)}


_HEX = frozenset("0123456789abcdef")


def _stands(low: str, id: str) -> bool:
    at = low.find(id[:LEAST])
    while at >= 0:
        end = at + LEAST
        while end < len(low) and low[end].isalnum():
            end += 1
        if id.startswith(low[at:end]) and not (at and low[at - 1].isalnum()):
            return True
        at = low.find(id[:LEAST], end)
    return False
