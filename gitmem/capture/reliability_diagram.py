"""How far confidences can be believed, as a few lines of text. Pure.

For each bin of confidence the diagram shows the share that was right. Calibrated confidences lie on
the diagonal; the expected calibration error (ECE) is the mean distance from it, weighted by how
many fell into each bin.
"""

from __future__ import annotations

from collections.abc import Sequence

_BINS = 10
_WIDTH = 40

Pair = tuple[float, bool]  # confidence, whether it was right
Bin = tuple[float, int, float, float]  # its lower bound, how many, mean confidence, share right


def bins(pairs: Sequence[Pair]) -> list[Bin]:
    """The bins that something fell into, in order; 1.0 belongs to the last."""
    out = []
    for i in range(_BINS):
        inside = [(p, right) for p, right in pairs if min(int(p * _BINS), _BINS - 1) == i]
        if n := len(inside):
            mean, share = (sum(values) / n for values in zip(*inside, strict=True))
            out.append((i / _BINS, n, mean, share))
    return out


def error(pairs: Sequence[Pair]) -> float:
    """The expected calibration error; 0 for no pairs."""
    distances = sum(n * abs(mean - share) for _, n, mean, share in bins(pairs))
    return distances / len(pairs) if pairs else 0.0


def text(pairs: Sequence[Pair]) -> list[str]:
    """Lines: a bar for the share that was right, `|` where it should end."""
    out = ["confidence   n  right"]
    for low, n, mean, share in bins(pairs):
        bar = list(("#" * round(share * _WIDTH)).ljust(_WIDTH + 1))
        bar[round(mean * _WIDTH)] = "|"
        out.append(f"{low:.2f}-{low + 1 / _BINS:.2f} {n:4d}   {share:.2f} {''.join(bar).rstrip()}")
    return out
