"""Pictures of figures. Pure.

How far confidences can be believed: bins, the error over them, and the picture of both, as
text and as SVG. And shares as bars with their intervals.

A reliability plot has, for each bin of confidence, the share of what was
right. What is calibrated lies on the diagonal. ECE is the mean distance
from it, weighted by how many fell into each bin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

BINS = 10

Pair = tuple[float, bool]  # confidence, whether it was right


class Bin(NamedTuple):
    """`low` to `high`; how many, their mean confidence, the share that was right."""

    low: float
    high: float
    n: int
    confidence: float
    share: float


def bins(pairs: Iterable[Pair], n: int = BINS) -> list[Bin]:
    """The bins that something fell into, in order; 1.0 belongs to the last."""
    held: dict[int, list[Pair]] = {}
    for p, right in pairs:
        held.setdefault(min(int(p * n), n - 1), []).append((p, right))
    return [
        Bin(
            i / n,
            (i + 1) / n,
            len(got),
            sum(p for p, _ in got) / len(got),
            sum(r for _, r in got) / len(got),
        )
        for i, got in sorted(held.items())
    ]


def error(pairs: Sequence[Pair], n: int = BINS) -> float:
    """The expected calibration error; 0 for none."""
    return (
        sum(b.n * abs(b.confidence - b.share) for b in bins(pairs, n)) / len(pairs)
        if pairs
        else 0.0
    )


_WIDTH = 40


def text(pairs: Sequence[Pair], n: int = BINS) -> list[str]:
    """Lines: a bar for the share that was right, `|` where it should end."""
    out = ["confidence   n  right"]
    for b in bins(pairs, n):
        bar = list("#" * round(b.share * _WIDTH) + " " * (_WIDTH - round(b.share * _WIDTH)) + " ")
        bar[round(b.confidence * _WIDTH)] = "|"
        out.append(f"{b.low:.2f}-{b.high:.2f} {b.n:4d}   {b.share:.2f} {''.join(bar).rstrip()}")
    return out


_SIDE, _EDGE = 320, 44
_COLOURS = ("#888888", "#1f6feb")


def svg(curves: Sequence[tuple[str, Sequence[Pair]]], title: str, n: int = BINS) -> str:
    """A picture of one or two curves: a point a bin, as large as the bin; the diagonal is what
    should be.
    """
    size = _SIDE + 2 * _EDGE

    def x(v: float) -> float:
        return round(_EDGE + v * _SIDE, 1)

    def y(v: float) -> float:
        return round(_EDGE + (1 - v) * _SIDE, 1)

    out = _page(size, size + 20 * len(curves), title)
    for i in range(0, 11, 2):
        v = i / 10
        out.append(
            f'<path d="M{x(v)} {y(0)}V{y(1)}M{x(0)} {y(v)}H{x(1)}" stroke="#e5e5e5"/><text'
            f' x="{x(v)}" y="{y(0) + 14}" text-anchor="middle">{v:.1f}</text><text x="{x(0) - 6}"'
            f' y="{y(v) + 4}" text-anchor="end">{v:.1f}</text>'
        )
    out.append(f'<path d="M{x(0)} {y(0)}L{x(1)} {y(1)}" stroke="#bbbbbb" stroke-dasharray="4 3"/>')
    out.append(
        f'<text x="{x(0.5)}" y="{y(0) + 30}" text-anchor="middle">confidence</text><text'
        f' transform="translate(14 {y(0.5)}) rotate(-90)" text-anchor="middle">share that was'
        " right</text>"
    )
    for k, (name, pairs) in enumerate(curves):
        colour = _COLOURS[k % len(_COLOURS)]
        found = bins(pairs, n)
        if found:
            out.append(
                f'<polyline points="{" ".join(f"{x(b.confidence)},{y(b.share)}" for b in found)}"'
                f' fill="none" stroke="{colour}" stroke-width="1.5"/>'
            )
        out += [
            f'<circle cx="{x(b.confidence)}" cy="{y(b.share)}"'
            f' r="{2 + 6 * (b.n / len(pairs)) ** 0.5:.1f}" fill="{colour}"><title>{b.n}:'
            f" {b.share:.2f} right at {b.confidence:.2f}</title></circle>"
            for b in found
        ]
        out.append(
            f'<circle cx="{_EDGE + 5}" cy="{size + 20 * k}" r="4" fill="{colour}"/><text'
            f' x="{_EDGE + 15}" y="{size + 4 + 20 * k}">{_escaped(name)}: ECE'
            f" {error(pairs, n):.3f}, n = {len(pairs)}</text>"
        )
    return "\n".join([*out, "</svg>", ""])


Bar = tuple[str, float, float, float]  # name, value and the interval around it, each 0 to 1

_NAME, _ROW = 200, 34


def bars(rows: Sequence[Bar], title: str) -> str:
    """A picture of shares: a bar a row, its interval as a whisker, the figures beside it."""
    left, top, bottom = _NAME + 10, 44, 44 + _ROW * len(rows)

    def x(v: float) -> float:
        return round(left + v * _SIDE, 1)

    out = _page(left + _SIDE + 150, bottom + 30, title)
    for i in range(0, 11, 2):
        v = i / 10
        out.append(
            f'<path d="M{x(v)} {top}V{bottom}" stroke="#e5e5e5"/>'
            f'<text x="{x(v)}" y="{bottom + 16}" text-anchor="middle">{v:.1f}</text>'
        )
    for k, (name, value, low, high) in enumerate(rows):
        y = top + _ROW * k + _ROW // 2
        said = f"{value:.3f} ({low:.3f} to {high:.3f})"
        whisker = f"M{x(low)} {y}H{x(high)}M{x(low)} {y - 5}v10M{x(high)} {y - 5}v10"
        bar = f'x="{x(0)}" y="{y - 9}" width="{round(value * _SIDE, 1)}" height="18"'
        out += [
            f'<text x="{_NAME}" y="{y + 4}" text-anchor="end">{_escaped(name)}</text>',
            f'<rect {bar} fill="{_COLOURS[1]}"><title>{_escaped(name)}: {said}</title></rect>',
            f'<path d="{whisker}" stroke="#24292f" stroke-width="1.5" fill="none"/>',
            f'<text x="{x(1) + 10}" y="{y + 4}">{said}</text>',
        ]
    return "\n".join([*out, "</svg>", ""])


def _page(width: int, height: int, title: str) -> list[str]:
    """The begin of a picture that needs no other file: white, with its title."""
    return [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
            f' viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">'
        ),
        f"<title>{_escaped(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_EDGE}" y="24" font-size="14">{_escaped(title)}</text>',
    ]


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
