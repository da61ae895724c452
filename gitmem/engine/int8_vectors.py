"""Vectors of signed bytes: rounding to them, cosine, sign code.

Promise: integer arithmetic, so every machine gives the same bytes and the same double.
"""

from __future__ import annotations

from math import sqrt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_SIGNS = bytes(49 if 0 < i < 128 else 48 for i in range(256))  # "1" above zero, "0" else
_SQUARE_LOW = bytes((i - 256 * (i > 127)) ** 2 & 255 for i in range(256))
_SQUARE_HIGH = bytes((i - 256 * (i > 127)) ** 2 >> 8 for i in range(256))


def quantise(sums: Sequence[int]) -> bytes:
    """Scale so that the largest magnitude is 127, rounding halves up, exactly."""
    top = max(max(sums), -min(sums))
    if not top:
        return bytes(len(sums))
    twice = 2 * top
    return bytes([(254 * x + top) // twice & 255 for x in sums])


def square(vector: bytes) -> int:
    """Sum of squares; two sums over bytes are three times as fast as products."""
    return sum(vector.translate(_SQUARE_LOW)) + 256 * sum(vector.translate(_SQUARE_HIGH))


def cosine(a: bytes, b: bytes) -> float:
    """Cosine of two vectors of one space, the same double on every machine; 0.0 if either is
    zero.
    """
    if len(a) != len(b):
        raise ValueError(f"vectors of {len(a)} and {len(b)} dimensions")
    product = square(a) * square(b)
    if not product:
        return 0.0
    from operator import mul  # a prompt needs no cosine of two

    dot: int = sum(map(mul, memoryview(a).cast("b"), memoryview(b).cast("b")))
    return dot / sqrt(product)


def sign_code(vector: bytes) -> bytes:
    """One bit a dimension, set where it is above zero; dimension 0 is the top bit."""
    if not vector:
        return b""
    return int(vector.translate(_SIGNS), 2).to_bytes((len(vector) + 7) // 8, "big")
