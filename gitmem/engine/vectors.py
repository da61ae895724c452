"""Vectors in bulk: the home of numpy.

Promise: a text's vector is the one that `embed` makes in plain Python, bit for bit. numpy costs 50
to 100 ms to import, so no hook comes here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..embedding.numpy_core import OneThread
from .embed import HEADS, ROW_BITS, StaticTable

with OneThread():
    import numpy as np

Array = np.ndarray[Any, Any]

_CHUNK = 512  # texts at a time: their sums stay in the second-level cache
_ONE_HEAD = [0] * (len(HEADS) - 1)  # before the only number of a short text: empty heads
_PAIRED = 128  # rows of `near_pairs` at a time
_FLUSH = 256  # 256 rows of at most 127 fit in 16 bits


def embed_many(table: StaticTable, texts: Iterable[str]) -> list[bytes]:
    """`table.embed(texts)`, some ten times as fast; in order, any number of texts."""
    out: list[bytes] = []
    dims = table.dims
    for part in embed_chunks(table, texts):
        data = part.tobytes()
        out += [data[at : at + dims] for at in range(0, len(data), dims)]
    return out


def embed_chunks(table: StaticTable, texts: Iterable[str]) -> Iterable[Array]:
    """The same as int8 arrays of up to 512 rows."""
    table.vocabulary()
    raw = np.frombuffer(table.raw_rows(), np.uint8).reshape(table.rows, table.dims)
    weights = raw.astype(np.int16)
    weights -= 128
    rows: list[int] = []
    ends: list[list[int]] = []
    for text in texts:
        found, heads = table.token_rows(text)
        rows += found
        ends.append(heads if len(heads) == len(HEADS) else _ONE_HEAD + heads)
        if len(ends) == _CHUNK:
            yield quantise_rows(_sums(weights, *_damp(rows, ends)))
            rows, ends = [], []
    if ends:
        yield quantise_rows(_sums(weights, *_damp(rows, ends)))


def _sums(weights: Array, flat: Array, sizes: Array) -> Array:
    """Sum of rows for each text; `flat` holds `sizes[0]` rows of the first, and so on.

    Longest texts first; step j adds the j-th row of every text that has one.
    """
    count = len(sizes)
    order = np.argsort(-sizes, kind="stable")
    starts = (np.cumsum(sizes) - sizes)[order]
    alive = np.searchsorted(-sizes[order], -np.arange(sizes.max(initial=0)), side="left")
    total = np.zeros((count, weights.shape[1]), np.int32)
    small = np.zeros((count, weights.shape[1]), np.int16)
    gathered = np.empty_like(small)
    for j, m in enumerate(alive.tolist()):
        np.take(weights, flat[starts[:m] + j], axis=0, out=gathered[:m], mode="clip")
        small[:m] += gathered[:m]
        if j % _FLUSH == _FLUSH - 1:
            total[:m] += small[:m]
            small[:m] = 0
    total += small
    out = np.empty_like(total)
    out[order] = total
    return out


def _damp(rows: list[int], ends: list[list[int]]) -> tuple[Array, Array]:
    """`embed.damp` for every head of every text, and how many rows each text then has.

    One sort by (text, row, first head that has it): the repeats of a row in each head are runs.
    """
    heads = np.array(ends)
    lengths = heads[:, -1]
    if not rows:
        return np.empty(0, np.int64), lengths
    text = np.repeat(np.arange(len(heads)), lengths)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    head = (place[:, None] >= heads[text, :-1]).sum(axis=1)
    keys = ((text << ROW_BITS) | np.array(rows, np.int64)) << 2 | head
    keys.sort()
    pairs, head = keys >> 2, keys & 3
    first = np.flatnonzero(np.diff(pairs, prepend=-1))
    pairs = pairs[first]
    copies = np.zeros(len(first), np.int64)
    for number in range(heads.shape[1]):
        repeats = np.add.reduceat(head <= number, first, dtype=np.int64)
        copies += np.frexp(repeats)[1]  # the exponent is the bit length
    sizes = np.bincount(pairs >> ROW_BITS, weights=copies, minlength=len(heads)).astype(np.int64)
    return np.repeat(pairs & ((1 << ROW_BITS) - 1), copies), sizes


def quantise_rows(sums: Array) -> Array:
    """`int8_vectors.quantise` for every row; 254 times the largest sum, 3 * 8192 * 127, fits in 32
    bits."""
    top = np.maximum(sums.max(axis=1), -sums.min(axis=1))[:, None]
    top[top == 0] = 1
    out: Array = ((254 * sums + top) // (2 * top)).astype(np.int8)
    return out


def near_pairs(
    vectors: Sequence[bytes], dims: int, first: int, floor: float, most: int
) -> Iterator[tuple[int, list[tuple[int, int, float]]]]:
    """Pairs of one list that lie near each other, block by block: (up to which place was looked,
    [(place, an earlier place, cosine)]).

    Each place from `first` on has at most `most` pairs, its nearest earlier places of `floor` and
    more. A block takes 50 MB for 100,000 vectors.
    """
    units = np.frombuffer(b"".join(vectors), np.int8).reshape(-1, dims).astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", units, units))
    lengths[lengths == 0] = np.inf
    units /= lengths[:, None]
    for start in range(first, len(units), _PAIRED):
        end = min(start + _PAIRED, len(units))
        cosines = units[start:end] @ units[:end].T
        cosines[:, start:end][np.triu_indices(end - start)] = -1.0  # itself, and what comes later
        out = []
        for i in np.flatnonzero((cosines >= floor).any(axis=1)).tolist():
            line = cosines[i]
            near = np.flatnonzero(line >= floor)
            best = near[np.lexsort((near, -line[near]))[:most]]
            out += [
                (start + i, j, cosine)
                for j, cosine in zip(best.tolist(), line[best].tolist(), strict=True)
            ]
        yield end, out


def cosines(pairs: Sequence[tuple[bytes, bytes]], dims: int) -> list[float]:
    """The cosine of each pair; 0 where one is all zeros."""
    if not pairs:
        return []
    a, b = (
        np.frombuffer(b"".join([p[side] for p in pairs]), np.int8)
        .reshape(-1, dims)
        .astype(np.float32)
        for side in (0, 1)
    )
    lengths = np.sqrt(np.einsum("ij,ij->i", a, a) * np.einsum("ij,ij->i", b, b))
    lengths[lengths == 0] = np.inf
    return [float(c) for c in np.einsum("ij,ij->i", a, b) / lengths]
