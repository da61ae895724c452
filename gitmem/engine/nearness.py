"""How near memories lie to a question by the encoder's vectors, hubs put back.

Some texts lie near every question (hubs: Radovanović et al., JMLR 2010). So nearness is the cosine
less HUB of what a memory has with its own neighbours in the store: the correction of CSLS (Conneau
et al., ICLR 2018). Only numpy's core is loaded, since a prompt waits (`numpy_core` says which names
may be used). `nearest` compares all vectors that it is given; `sifted` chooses those of a large
store.
"""

from __future__ import annotations

from itertools import chain, islice

from ..embedding import numpy_core
from .model_vectors import CHUNK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import Any

np = numpy_core.load()
_I1, _I8, _U8, _F4 = np.dtype("i1"), np.dtype("i8"), np.dtype("u8"), np.dtype("f4")

# With the encoder before it was tuned, reworded questions among 3,000 others, found in the first
# three by vectors alone: 0.23 without, 0.28 with 0.25, 0.30 with 0.4 and 0.5; commits by subject
# 0.535, 0.535, 0.537, 0.527 nDCG@10. Of the tuned one, fused with words, 0.48 to 0.5 is best. A
# sample of 300 in the place of 1,000: 0.27.
HUB = 0.5
NEIGHBOURS = 10
SAMPLE = 1000
# what most memories have with their neighbours: of 3,000 commits nine of ten have 0.34 to 0.58
COMPANY = 0.45
FEW = 100  # vectors from which a store has neighbours to speak of
# Of a million vectors, those of 34,960 real texts and mixtures of two of them, the 2,000 closest
# have 0.996 of the exact first ten; 1,000 have 0.991, 500 have 0.984.
CLOSEST = 2000
_ODD = 0x9E3779B97F4A7C15  # of Fibonacci hashing: the highest bits depend on all
_PART = 8 * 128 * 384  # bytes at a time: what is widened of them stays in the processor's cache


def nearest(
    parts: Iterable[tuple[int, bytes, bytes]],
    question: bytes,
    allowed: Collection[int] | None,
    always: Iterable[int],
    most: int,
    beside: Mapping[int, bytes] | None = None,
    count: int = 0,
    among: Iterable[int] | None = None,
) -> tuple[dict[int, float], dict[int, float]]:
    """({row: nearness}, best first, {row: cosine}) of the `most` nearest rows and those `always`.

    `parts`: the store's vectors as `model_vectors.read` gives them, read once, _PART bytes at a
    time. `beside`: vectors of rows that the store has none of. `allowed`: the rows that take part,
    None for all. Neighbours are looked for among SAMPLE vectors of the store, chosen by their bytes
    (a rebuilt cache chooses the same), or `among` these rows. Where fewer than FEW of `count`
    memories have a vector yet, COMPANY stands for their neighbours; in a store of few nothing is
    taken off."""
    if not any(question):
        return {}, {}
    width = len(question)
    asked = _units(np.frombuffer(question, _I1).reshape(1, -1))[0]
    wanted = _numbers(always)
    of = None if allowed is None else _numbers(allowed)
    some = None if among is None else _numbers(among)
    none = _numbers(())
    best = sample = np.zeros(0, _I8), np.zeros(0, _F4), np.zeros((0, width), _I1)
    known = 0
    later = [_beside(beside, width)] if beside else []
    for rows, raw in chain(_grouped(parts, width), later):
        known += len(rows)
        keys = raw[:, :8].copy().view(np.dtype(">u8")).reshape(-1).astype(_U8)
        mine = slice(None) if some is None else _among(rows, some)
        sample = _least(sample, (rows[mine], keys[mine], raw[mine]), SAMPLE, none)
        cosines = _cosines(raw, asked)
        if of is not None:
            part = _among(rows, of)
            rows, cosines, raw = rows[part], cosines[part], raw[part]
        best = _least(best, (rows, -cosines, raw), 2 * most, wanted)
    rows, scores, raw = best
    scores = -scores
    numbers = rows.tolist()
    found = dict(zip(numbers, scores.tolist(), strict=True))
    if known >= FEW and numbers:
        scores = scores - HUB * _company(rows, raw, sample[0], sample[2])
    elif count >= FEW:
        scores = scores - HUB * COMPANY
    near = dict(zip(numbers, scores.tolist(), strict=True))
    return dict(sorted(near.items(), key=lambda pair: (-pair[1], pair[0]))), found


def sifted(
    codes: Iterable[tuple[int, bytes, bytes]],
    question: bytes,
    allowed: Collection[int] | None,
    always: Iterable[int],
) -> tuple[dict[int, bytes], list[int]]:
    """({chunk: which of its places to read}, the rows of a sample), by sign codes.

    To read: the CLOSEST rows by the bits that differ from the question's code, those `always`
    asked for, and the sample: the SAMPLE rows of the lowest hashes of their codes.
    """
    asked = np.frombuffer(question, _U8)
    wanted, none = _numbers(always), _numbers(())
    of = None if allowed is None else _numbers(allowed)
    close = sample = np.zeros(0, _I8), np.zeros(0, _I8)
    for rows, raw in _grouped(codes, len(question)):
        words = raw.view(_U8)
        sample = _least(sample, (rows, words[:, 0] * _ODD), SAMPLE, none)
        apart = np.add.reduce(np.bitwise_count(words ^ asked), 1, _I8)
        part = slice(None) if of is None else _among(rows, of)
        close = _least(close, (rows[part], apart[part]), CLOSEST, wanted)
    places: dict[int, bytearray] = {}
    for row in np.concatenate([close[0], sample[0]]).tolist():
        places.setdefault(row // CHUNK, bytearray(CHUNK))[row % CHUNK] = 1
    return {chunk: bytes(marks) for chunk, marks in places.items()}, sample[0].tolist()


def only(
    parts: Iterable[tuple[int, bytes, bytes]], places: Mapping[int, bytes]
) -> Iterator[tuple[int, bytes, bytes]]:
    """The same parts without the vectors of other places."""
    for first, held, data in parts:
        both = int.from_bytes(held, "big") & int.from_bytes(places[first // CHUNK], "big")
        yield first, both.to_bytes(CHUNK, "big"), data


def _grouped(parts: Iterable[tuple[int, bytes, bytes]], width: int) -> Iterator[tuple[Any, Any]]:
    """(rows, vectors or codes of `width` bytes) of some chunks at a time."""
    left = iter(parts)
    while some := list(islice(left, max(1, _PART // (CHUNK * width)))):
        held = b"".join([held for _, held, _ in some])
        rows = np.concatenate([np.arange(first, first + len(held)) for first, held, _ in some])
        raw = np.frombuffer(b"".join([data for _, _, data in some]), _I1).reshape(-1, width)
        if b"\0" in held:
            there = np.frombuffer(held, np.dtype("?"))
            rows, raw = rows[there], raw[there]
        yield rows, raw


def _beside(vectors: Mapping[int, bytes], width: int) -> tuple[Any, Any]:
    data = b"".join([vectors[row] for row in sorted(vectors)])
    return _numbers(vectors), np.frombuffer(data, _I1).reshape(-1, width)


def _least(kept: Any, new: Any, most: int, always: Any) -> Any:
    """Of (rows, keys, vectors) the `most` of the lowest keys, lowest first, and the rows `always`.

    Of equal keys the earlier counts as lower.
    """
    if len(kept[0]) >= most:
        low = (new[1] < kept[1][most - 1]) | _among(new[0], always)
        new = tuple(column[low] for column in new)
    if not len(kept[0]):
        both = new  # keys of another type than those of nothing
    else:
        both = tuple(np.concatenate(pair) for pair in zip(kept, new, strict=True))
    order = both[1].argsort(kind="stable")
    stays = _among(both[0][order], always)
    stays[:most] = True
    return tuple(column[order[stays]] for column in both)


def _numbers(rows: Iterable[int]) -> Any:
    """Row numbers, ascending."""
    return np.array(sorted(rows), _I8)


def _among(rows: Any, of: Any) -> Any:
    """For each row whether it is among those of `of`, which ascend."""
    if not len(of):
        return np.zeros(len(rows), np.dtype("?"))
    return of[np.minimum(of.searchsorted(rows), len(of) - 1)] == rows


def _company(rows: Any, chosen: Any, others: Any, sample: Any) -> Any:
    """The mean cosine of each chosen vector with its NEIGHBOURS of the sample."""
    near = _units(chosen) @ _units(sample).T
    near[rows.reshape(-1, 1) == others] = -1.0  # it is no neighbour of its own
    near.partition(len(others) - NEIGHBOURS, axis=1)
    return np.add.reduce(near[:, -NEIGHBOURS:], 1) / NEIGHBOURS


def _cosines(raw: Any, asked: Any) -> Any:
    """Those of rows of signed bytes with a float32 vector of length 1.

    A row's is the same wherever it stands, as that of a matrix product is not.
    """
    wide = raw.astype(_F4)
    return np.vecdot(wide, asked) / _lengths(wide)


def _units(raw: Any) -> Any:
    """Rows of signed bytes as float32 of length 1; of zeros as zeros."""
    units = raw.astype(_F4)
    units /= _lengths(units).reshape(-1, 1)
    return units


def _lengths(wide: Any) -> Any:
    lengths = np.sqrt(np.vecdot(wide, wide))
    lengths[lengths == 0] = 1.0
    return lengths
