"""How much of a question a text holds: its terms, and pairs of them side by side.

Pure functions over terms as `text.terms` gives them.
"""

from __future__ import annotations

from itertools import pairwise
from math import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

FEWEST_PAIRS = 6


def cover(wanted: Collection[str], held: Collection[str], df: Mapping[str, int], n: int) -> float:
    """Share of the query's terms that a document holds, each weighted by its rarity, 0 to 1.

    A term that no document holds weighs most: "cherry recipe" is not answered by a memory about
    recipes."""
    total = found = 0.0
    for term in wanted:
        weight = rarity(term, df, n)
        total += weight
        if term in held:
            found += weight
    return found / total if total else 0.0


def rarity(term: str, df: Mapping[str, int], n: int) -> float:
    """What a term says: the log of how few of the `n` documents, and of a hundred others, hold it:
    where twelve of twenty say "deployment", the word still says something."""
    return log((n + 100) / (df.get(term, 0) + 1))


def pairs(terms: Sequence[str]) -> set[tuple[str, str]]:
    return set(pairwise(terms))


def phrases(asked: Collection[tuple[str, str]], held: Sequence[str]) -> float:
    """Share of the question's pairs that stand side by side in a text, too, 0 to 1.

    A question of fewer than FEWEST_PAIRS counts as if it had as many: one in common says little.
    """
    return len(pairs(held).intersection(asked)) / max(FEWEST_PAIRS, len(asked))
