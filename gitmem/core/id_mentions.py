"""Which memories a text names. Pure.

The one rule: a memory is named by the first eight digits of its id, as all output shows it, or by
more of them, as a word of its own, in any case. A commit is named the same way, so a word means a
memory only where one has that id. The end of every answer waits for this module.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LEAST = 8  # digits by which an id is shown (`context_render.ID`); fewer name nothing


def named(text: str, ids: Iterable[str]) -> list[str]:
    low = _lower(text)
    return [id for id in ids if next(_places(low, id), None) is not None]


def words(terms: Iterable[str]) -> set[str]:
    return {w for w in terms if LEAST <= len(w) <= 32 and _HEX.issuperset(w)}


def renamed(text: str, old: str, new: str) -> str:
    """The text with one id in the place of another, as long as it was written."""
    for begin, end in sorted(_places(_lower(text), old), reverse=True):
        text = text[:begin] + new[: end - begin] + text[end:]
    return text


_HEX = frozenset("0123456789abcdef")


def _lower(text: str) -> str:
    """In lower case, each character in its place."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join([c if len(c.lower()) > 1 else c.lower() for c in text])


def _places(low: str, id: str) -> Iterator[tuple[int, int]]:
    """Where a text names an id; one that another tool made of other characters has no name."""
    whole = id.lower()
    begin = whole[:LEAST]
    if len(begin) < LEAST or not whole.isalnum():
        return
    at = low.find(begin)
    while at >= 0:
        end = at + LEAST
        while end < len(low) and low[end].isalnum():
            end += 1
        if whole.startswith(low[at:end]) and not (at and low[at - 1].isalnum()):
            yield at, end
        at = low.find(begin, end)
