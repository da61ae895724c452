"""Draws the plugin's icon, `.claude-plugin/icon.png`: a branch of commits, and a note hanging on
one.

    python tools/build_icon.py [FILE]

Needs the standard library only. The same code writes the same bytes with one
version of zlib. 512 x 512 pixels, drawn four times as large and averaged.
"""

from __future__ import annotations

import pathlib
import struct
import sys
import zlib

SIZE, FINE = 512, 4
GROUND, LINE, NOTE, INK = (24, 33, 51), (240, 100, 66), (255, 214, 102), (122, 92, 18)


def inside_round(
    x: float, y: float, left: float, top: float, right: float, bottom: float, radius: float
) -> bool:
    """Whether a point lies in a rectangle with round corners."""
    dx = max(left + radius - x, x - right + radius, 0.0)
    dy = max(top + radius - y, y - bottom + radius, 0.0)
    return left <= x <= right and top <= y <= bottom and dx * dx + dy * dy <= radius * radius


def near_line(
    x: float, y: float, a: tuple[float, float], b: tuple[float, float], width: float
) -> bool:
    """Whether a point lies within half a width of a stroke."""
    vx, vy = b[0] - a[0], b[1] - a[1]
    t = max(0.0, min(1.0, ((x - a[0]) * vx + (y - a[1]) * vy) / (vx * vx + vy * vy)))
    return (x - a[0] - t * vx) ** 2 + (y - a[1] - t * vy) ** 2 <= width * width / 4


def colour(x: float, y: float) -> tuple[int, int, int, int]:
    """The colour of a point; coordinates from 0 to 1."""
    for top in (0.33, 0.43, 0.53):
        if near_line(x, y, (0.58, top), (0.80 if top < 0.5 else 0.72, top), 0.028):
            return (*INK, 255)
    if inside_round(x, y, 0.51, 0.24, 0.87, 0.62, 0.05):
        return (*NOTE, 255)
    for cx, cy in ((0.28, 0.2), (0.28, 0.5), (0.28, 0.8)):
        distance = (x - cx) ** 2 + (y - cy) ** 2
        if distance <= 0.045**2:
            return (*GROUND, 255)
        if distance <= 0.085**2:
            return (*LINE, 255)
    if near_line(x, y, (0.28, 0.2), (0.28, 0.8), 0.05) or near_line(
        x, y, (0.28, 0.5), (0.55, 0.43), 0.035
    ):
        return (*LINE, 255)
    return (*GROUND, 255) if inside_round(x, y, 0.0, 0.0, 1.0, 1.0, 0.18) else (*GROUND, 0)


def draw(size: int = SIZE, fine: int = FINE) -> bytes:
    """A PNG file."""
    rows = bytearray()
    count = fine * fine
    steps = [(i + 0.5) / fine for i in range(fine)]
    for py in range(size):
        rows.append(0)
        for px in range(size):
            points = [colour((px + dx) / size, (py + dy) / size) for dy in steps for dx in steps]
            alpha = sum(p[3] for p in points)
            rows += bytes(
                sum(p[c] * p[3] for p in points) // alpha if alpha else 0 for c in range(3)
            )
            rows.append(alpha // count)
    head = struct.pack(">IIBBBBB", size, size, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, data)
        for kind, data in (
            (b"IHDR", head),
            (b"IDAT", zlib.compress(bytes(rows), 9)),
            (b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


if __name__ == "__main__":
    target = (
        pathlib.Path(sys.argv[1])
        if len(sys.argv) > 1
        else pathlib.Path(__file__).resolve().parent.parent / ".claude-plugin" / "icon.png"
    )
    target.write_bytes(draw())
    print(f"{target}: {target.stat().st_size} bytes")
