"""Shares as an SVG bar chart, each with its interval. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_SIDE, _EDGE = 320, 44
_COLOUR = "#1f6feb"

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
        figures = f"{value:.3f} ({low:.3f} to {high:.3f})"
        whisker = f"M{x(low)} {y}H{x(high)}M{x(low)} {y - 5}v10M{x(high)} {y - 5}v10"
        bar = f'x="{x(0)}" y="{y - 9}" width="{round(value * _SIDE, 1)}" height="18"'
        out += [
            f'<text x="{_NAME}" y="{y + 4}" text-anchor="end">{_escaped(name)}</text>',
            f'<rect {bar} fill="{_COLOUR}"><title>{_escaped(name)}: {figures}</title></rect>',
            f'<path d="{whisker}" stroke="#24292f" stroke-width="1.5" fill="none"/>',
            f'<text x="{x(1) + 10}" y="{y + 4}">{figures}</text>',
        ]
    return "\n".join([*out, "</svg>", ""])


def _page(width: int, height: int, title: str) -> list[str]:
    """The beginning of a picture: a white page with its title."""
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
