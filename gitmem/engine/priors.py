"""What a hit's score is multiplied with: numbers that reorder what was found and admit nothing.

Each prior is one function from memory rows to factors, read from the cache
alone. `rank.apply_priors` bounds their product. Standard library only: every
prompt waits for it.
"""

from __future__ import annotations

from math import prod

from ..anchors.standing import UNMERGED
from ..feedback import credit, learned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..anchors.standing import Stand
    from .cache import Cache

    Standing = Callable[[Iterable[str]], Mapping[str, Stand]]

BRANCH = 0.8  # of a memory from a branch that HEAD does not contain
DOUBT = 0.2  # how much of a score full doubt can take away


def factors(cache: Cache, rows: Sequence[int], stand: Standing | None) -> dict[int, float]:
    """{row: the product of all priors}. `stand` gives the states of anchors; None where all branches count alike."""
    return {row: prod(found.values()) for row, found in parts(cache, rows, stand).items()}


def parts(cache: Cache, rows: Sequence[int], stand: Standing | None) -> dict[int, dict[str, float]]:
    """{row: {name of a prior: its factor}}, for `--explain`."""
    known = cache.standings(rows)
    stands = stand([anchor for anchor, _ in known.values() if anchor]) if stand else {}
    credits = _credit(cache, rows)
    return {row: {"stated": _stated(confidence), "branch": _branch(stands.get(anchor)), "credit": credits.get(row, 1.0)} for row in rows for anchor, confidence in [known[row]]}


def _branch(stand: Stand | None) -> float:
    return BRANCH if stand is not None and stand.state == UNMERGED else 1.0


def _stated(confidence: float | None) -> float:
    """What its writer thought of it."""
    return 1.0 if confidence is None else 1 - DOUBT * (1 - confidence)


def _credit(cache: Cache, rows: Sequence[int]) -> dict[int, float]:
    """What use has taught; rows of which nothing is known are left out."""
    return {row: credit.factor(value) for row, value in learned.values(cache, rows).items()}
