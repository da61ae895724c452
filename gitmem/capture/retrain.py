"""Words that a person turns down: a weight of their own for n-grams, beside the packaged model's.
Pure, plain Python.

The packaged model stays as it is; what is learned here is added to its log odds
(`linear.Model.adjusted`). Weights are never above 0: verdicts exist only on what
was suggested, so they can say which of it is unwanted, and nothing about what
was left out. That is why nothing becomes AUTO by them either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

LEAST = 60  # verdicts with a text
MOST = 400  # weights that are kept, the heaviest
_ROUNDS = 30
_RATE = 0.5
_HOLD = 0.02  # of a weight goes in each round, however much speaks for it


class Sample(NamedTuple):
    """A decided suggestion: its log odds by what is in force without these weights, its n-grams
    (`features`), whether it was kept.
    """

    odds: float
    grams: Sequence[int]
    kept: bool


def trained(samples: Sequence[Sample]) -> dict[int, float]:
    """{n-gram: weight, below 0}.

    A turn's share is the sum over its n-grams, divided by the root of their number.
    """
    weights: dict[int, float] = {}
    for turn in range(_ROUNDS):
        rate = _RATE / (1 + turn / 10)
        # All at once, not one after the other: the same verdicts give the same weights in any
        # order.
        steps: dict[int, float] = {}
        for s in samples:
            length = math.sqrt(len(s.grams) or 1)
            wrong = s.kept - _sigmoid(s.odds + sum([weights.get(g, 0.0) for g in s.grams]) / length)
            push = wrong / length
            for g in s.grams:
                steps[g] = steps.get(g, 0.0) + push
        for g, step in steps.items():
            weights[g] = min(0.0, (1 - _HOLD) * weights.get(g, 0.0) + rate * step)
    heavy = sorted((w, g) for g, w in weights.items() if w < -1e-3)[:MOST]
    return {g: round(w, 4) for w, g in sorted(heavy, key=lambda pair: pair[1])}


def odds(sample: Sample, weights: Mapping[int, float]) -> float:
    """With the weights."""
    return sample.odds + sum([weights.get(g, 0.0) for g in sample.grams]) / math.sqrt(
        len(sample.grams) or 1
    )


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))
