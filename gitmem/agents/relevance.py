"""How much a memory has to do with the work at hand: numbers from paths, words and time. Pure.

The work at hand is what `facts` knows of HEAD (paths and words of its recent
commits), the name of the branch, and the files a session has touched.

Promise: the same input gives the same score, in whatever order it came; a
memory without any clue has the score of its age alone. The weights were chosen
by `tools/eval_context.py`; decision 21 has the figures.
"""

from __future__ import annotations

from math import exp, log

from ..core import credit
from ..engine import staleness, standing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Shares of a score: files of recent commits, files of the branch and of the session, words of the branch and of recent commits, age.
PATHS, HAND, BRANCH, RECENT, AGE = 0.7, 0.7, 1.0, 0.05, 0.3
TOUCHED, OWN = 1.0, 0.5  # of the files at hand: those of the session, those of the branch
HALF = 30.0  # days after which age has lost half of its share


def path_scores(weights: Mapping[str, float], holders: Mapping[str, Iterable[int]], total: int) -> dict[int, float]:
    """{row: 0 to 1} from the weight of each path and the rows that name it. A path that many memories name says little."""
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


def days(stamp: str) -> float | None:
    """Days since 1970 of a stored time or date (UTC, ISO 8601), without `datetime`; None for what is none."""
    try:
        year, month, day = int(stamp[0:4]), int(stamp[5:7]), int(stamp[8:10])
        hour = int(stamp[11:13]) + int(stamp[14:16]) / 60 if len(stamp) >= 16 else 0.0
    except ValueError:
        return None
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    # Howard Hinnant's days_from_civil.
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468 + hour / 24


def freshness(stamps: Iterable[str], newest: str) -> dict[str, float]:
    """{date: 1 for the day of the newest memory, half of it HALF days before}; a stamp that is no time counts as old."""
    now = days(newest[:10])
    out: dict[str, float] = {}
    for date in {stamp[:10] for stamp in stamps}:
        then = days(date)
        out[date] = 0.0 if then is None or now is None else exp(-0.6931 * max(0.0, now - then) / HALF)
    return out


def score(paths: float, hand: float, branch: float, recent: float, age: float) -> float:
    return PATHS * paths + HAND * hand + BRANCH * branch + RECENT * recent + AGE * age


def prior(state: str, confidence: object, learned: float | None = None, stale: str = "", reason: str = "") -> float:
    """What a score is multiplied by: the branch it stands on, what its writer thought of it, what use has taught (0 to 1, None where nothing is known), what became of its files."""
    out = standing.weight(state, reason, standing.UNASKED) * staleness.FACTORS.get(stale, 1.0) * credit.doubted(confidence)
    return out if learned is None else out * credit.factor(learned)
