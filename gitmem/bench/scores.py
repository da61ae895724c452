"""What a ranked answer is worth, and how far a mean of such figures can be trusted. Pure.

Definitions are those of BEIR and trec_eval: nDCG with the gain 2^grade - 1 and the discount
log2(place + 1), recall over all relevant documents. Intervals hold 95 of 100: for means by
bootstrap over the questions (percentiles, fixed seed), for shares by Wilson's score (1927).
"""

from collections.abc import Mapping, Sequence
from math import log2, sqrt
from random import Random
from typing import NamedTuple

METRICS = ("ndcg@10", "recall@5", "recall@10", "mrr@10")
DEPTH = 10
RESAMPLES = 1_000
_SEED = 0
_Z = 1.959964  # of the normal distribution, 95 of 100 within


class Estimate(NamedTuple):
    """A mean over `n` questions, and the interval around it."""

    mean: float
    low: float
    high: float
    n: int


def of_question(ranked: Sequence[str], grades: Mapping[str, int]) -> dict[str, float]:
    """{one of METRICS: its value} of ids in the order they were found. `grades`: of the relevant
    documents, at least one.
    """
    first = ranked[:DEPTH]
    ideal = sorted(grades.values(), reverse=True)[:DEPTH]
    hits = [id in grades for id in first]
    return {
        "ndcg@10": _gain([grades.get(id, 0) for id in first]) / _gain(ideal),
        "recall@5": sum(hits[:5]) / len(grades),
        "recall@10": sum(hits) / len(grades),
        "mrr@10": 1 / (1 + hits.index(True)) if True in hits else 0.0,
    }


def _gain(grades: Sequence[int]) -> float:
    return sum((float(2**grade) - 1) / log2(place + 2) for place, grade in enumerate(grades))


def mean(values: Sequence[float]) -> Estimate:
    """The mean with its bootstrap interval; not of none."""
    n = len(values)
    found = sum(values) / n
    random = Random(_SEED)
    means = sorted(sum(random.choices(values, k=n)) / n for _ in range(RESAMPLES))
    cut = RESAMPLES // 40
    return Estimate(found, min(found, means[cut]), max(found, means[-1 - cut]), n)


def share(hits: int, n: int) -> Estimate:
    """`hits` of `n` with Wilson's interval; `n` at least 1."""
    found, z = hits / n, _Z**2 / n
    middle = (found + z / 2) / (1 + z)
    half = sqrt(found * (1 - found) * z + z**2 / 4) / (1 + z)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return Estimate(found, min(found, low), max(found, high), n)


def public(figure: Estimate) -> dict[str, float | int]:
    return {name: round(value, 4) for name, value in figure._asdict().items()}
