"""How much a memory has to do with the work at hand: numbers from paths, words and time. Pure.

The work at hand is what `head_facts` knows of HEAD (paths and words of its recent
commits), the name of the branch, and the files a session has touched.

Promise: the same input gives the same score, in whatever order it came; a
memory without any clue has the score of its age alone. The weights were chosen
by `tools/eval_context.py`; decision 21 has the figures.
"""

from __future__ import annotations

from math import log

from ..core import confidence
from ..engine import anchor_state_store, path_state_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Shares of a score: files of recent commits, files of the branch and of the session, words of the
# branch and of recent commits, age.
PATHS, HAND, BRANCH, RECENT, AGE = 0.7, 0.7, 1.0, 0.05, 0.3
TOUCHED, OWN = 1.0, 0.5  # of the files at hand: those of the session, those of the branch
HALF = 30.0  # days after which age has lost half of its share


def path_scores(
    weights: Mapping[str, float], holders: Mapping[str, Iterable[int]], total: int
) -> dict[int, float]:
    """{row: 0 to 1} from the weight of each path and the rows that name it.

    A path that many memories name says little.
    """
    out: dict[int, float] = {}
    for path in sorted(holders):
        rows = list(holders[path])
        rarity = log(1 + total / (1 + len(rows)))
        for row in rows:
            out[row] = out.get(row, 0.0) + weights.get(path, 0.0) * rarity
    return _scaled(out)


def word_scores(found: Iterable[tuple[int, float]]) -> dict[int, float]:
    """{row: 0 to 1} from BM25 as FTS5 gives it (lower is better)."""
    return _scaled({row: -score for row, score in found if score < 0})


def _scaled(scores: dict[int, float]) -> dict[int, float]:
    most = max(scores.values(), default=0.0)
    return {row: score / most for row, score in scores.items()} if most > 0 else {}


def score(paths: float, hand: float, branch: float, recent: float, age: float) -> float:
    return PATHS * paths + HAND * hand + BRANCH * branch + RECENT * recent + AGE * age


def prior(
    state: str, stated: object, learned: float | None = None, stale: str = "", reason: str = ""
) -> float:
    """What a score is multiplied by: the branch it stands on, what its writer thought of it, what
    use has taught (0 to 1, None where nothing is known), what became of its files.
    """
    out = (
        anchor_state_store.weight(state, reason, anchor_state_store.UNASKED)
        * path_state_store.FACTORS.get(stale, 1.0)
        * confidence.doubted(stated)
    )
    return out if learned is None else out * confidence.factor(learned)
