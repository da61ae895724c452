"""What a hit's score is multiplied with: numbers that reorder what was found and admit nothing.

They are read from the cache alone; `rank.apply_priors` bounds their product. Standard library only:
every prompt waits for it.
"""

from __future__ import annotations

from math import prod

from ..core import confidence, record
from . import anchor_state_store, filters, path_state_store, usage_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .anchor_state_store import AnchorState
    from .cache import Cache

    Standing = Callable[[Iterable[str]], Mapping[str, AnchorState]]

# A score loses at most this part with age, half of that in HALF_LIFE days: decision 34.
AGE = 0.2
HALF_LIFE = 365.0


def factors(found: Mapping[int, Mapping[str, float]]) -> dict[int, float]:
    """{row: the product of all its parts}."""
    return {row: prod(some.values()) for row, some in found.items()}


def parts(
    cache: Cache,
    near: Mapping[int, float],
    stand: Standing | None,
    aged: Mapping[int, str],
) -> dict[int, dict[str, float]]:
    """{row: {name of a prior: its factor}} of hits in their order, `near` with their scores.

    `stand` gives the states of anchors; None where all branches count alike. `aged`: the
    worst state of the paths of a row (`path_state_store.worst`), where it has paths.
    """
    rows = list(near)
    known = cache.standings(rows)
    stands = stand([anchor for anchor, _, _ in known.values() if anchor]) if stand else {}
    credits = usage_store.lifts(cache, near)
    recent = _recent(cache, {row: at for row, (_, _, at) in known.items()})
    return {
        row: {
            "stated": confidence.doubted(known[row][1]),
            "branch": _branch(stands.get(known[row][0])),
            "credit": credits.get(row, 1.0),
            "stale": path_state_store.FACTORS.get(aged.get(row, ""), 1.0),
            "recent": recent[row],
        }
        for row in rows
    }


def _recent(cache: Cache, times: Mapping[int, str]) -> dict[int, float]:
    """{row: what age leaves of a score}, by whole days before the newest memory: the notes decide,
    and not the day of the question. A malformed time and one that cannot be yet
    (`filters.latest`) count as the oldest.
    """
    latest = filters.latest(cache)
    of_all = "SELECT max(at) FROM memory WHERE status = 0 AND at <= ?"
    (newest,) = cache.db.execute(of_all, (latest,)).fetchone()
    at = {row: record.when(time, latest) for row, time in times.items()}
    fresh = record.freshness(at.values(), record.when(newest, latest), HALF_LIFE)
    return {row: 1 - AGE * (1 - fresh[time[:10]]) for row, time in at.items()}


def _branch(stand: AnchorState | None) -> float:
    if stand is None:
        return 1.0
    return anchor_state_store.weight(stand.state, stand.reason, anchor_state_store.ASKED)
