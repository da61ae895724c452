"""Shares as an SVG bar chart, each with its interval. Pure."""

from collections.abc import Sequence
from html import escape

_SIDE, _NAME, _ROW, _TOP = 320, 200, 34, 44  # pixels

Bar = tuple[str, float, float, float]  # name, value and the interval around it, each 0 to 1


def bars(rows: Sequence[Bar], title: str) -> str:
    """A picture of shares: a bar a row, its interval as a whisker, the figures beside it."""
    left, bottom = _NAME + 10, _TOP + _ROW * len(rows)
    width, height, title = left + _SIDE + 150, bottom + 30, escape(title, quote=False)

    def x(share: float) -> float:
        return round(left + share * _SIDE, 1)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f"<title>{title}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="44" y="24" font-size="14">{title}</text>',
    ]
    for share in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        out += [
            f'<path d="M{x(share)} {_TOP}V{bottom}" stroke="#e5e5e5"/>',
            f'<text x="{x(share)}" y="{bottom + 16}" text-anchor="middle">{share}</text>',
        ]
    for k, (name, value, low, high) in enumerate(rows):
        y, name = _TOP + _ROW * k + _ROW // 2, escape(name, quote=False)
        figures = f"{value:.3f} ({low:.3f} to {high:.3f})"
        whisker = f"M{x(low)} {y}H{x(high)}M{x(low)} {y - 5}v10M{x(high)} {y - 5}v10"
        bar = f'x="{x(0)}" y="{y - 9}" width="{round(value * _SIDE, 1)}" height="18"'
        out += [
            f'<text x="{_NAME}" y="{y + 4}" text-anchor="end">{name}</text>',
            f'<rect {bar} fill="#1f6feb"><title>{name}: {figures}</title></rect>',
            f'<path d="{whisker}" stroke="#24292f" stroke-width="1.5" fill="none"/>',
            f'<text x="{x(1) + 10}" y="{y + 4}">{figures}</text>',
        ]
    return "\n".join([*out, "</svg>", ""])
