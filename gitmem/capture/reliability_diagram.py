"""How far confidences can be believed, as a few lines of text. Pure.

For each bin of confidence the diagram shows the share that was right. Calibrated confidences lie on
the diagonal; the expected calibration error (ECE) is the mean distance from it, weighted by how
many fell into each bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_BINS = 10
_WIDTH = 40

Pair = tuple[float, bool]  # confidence, whether it was right


class Bin(NamedTuple):
    """From `low` to `high`: the mean confidence and the share that was right."""

    low: float
    high: float
    n: int
    confidence: float
    right: float


def bins(pairs: Sequence[Pair]) -> list[Bin]:
    """The bins that something fell into, in order; 1.0 belongs to the last."""
    out = []
    for i in range(_BINS):
        inside = [(p, right) for p, right in pairs if min(int(p * _BINS), _BINS - 1) == i]
        if n := len(inside):
            mean, share = (sum(values) / n for values in zip(*inside, strict=True))
            out.append(Bin(i / _BINS, (i + 1) / _BINS, n, mean, share))
    return out


def error(pairs: Sequence[Pair]) -> float:
    """The expected calibration error; 0 for no pairs."""
    distances = sum(b.n * abs(b.confidence - b.right) for b in bins(pairs))
    return distances / len(pairs) if pairs else 0.0


def text(pairs: Sequence[Pair]) -> list[str]:
    """Lines: a bar for the share that was right, `|` where it should end."""
    out = ["confidence   n  right"]
    for b in bins(pairs):
        bar = list(("#" * round(b.right * _WIDTH)).ljust(_WIDTH + 1))
        bar[round(b.confidence * _WIDTH)] = "|"
        drawn = "".join(bar).rstrip()
        out.append(f"{b.low:.2f}-{b.high:.2f} {b.n:4d}   {b.right:.2f} {drawn}")
    return out
