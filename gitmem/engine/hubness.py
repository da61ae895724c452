"""How near an encoder's vectors lie to each other, for `nearness`; made in the background.

A memory's company is its mean cosine with its NEIGHBOURS of a sample of the store: SAMPLE vectors,
chosen by their bytes, so that a rebuilt cache has the same. Comes after `model_vectors.fill`. All
vectors are read; where the sample is as before, only new ones are compared with it.
"""

from __future__ import annotations

import os
import zlib
from heapq import nsmallest

from ..embedding import numpy_core
from . import model_vectors
from .cache import CHUNK
from .nearness import BACKGROUND, FEW, LEAST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from .cache import Cache, Connection

np = numpy_core.load()
_I1, _I8, _F4 = np.dtype("i1"), np.dtype("i8"), np.dtype("<f4")

NEIGHBOURS = 10
SAMPLE = 1000  # with 300, reworded questions among 3,000 others are found 0.27 instead of 0.30
ALIKE = 0.8  # from this cosine on two memories say the same: releases, updates of dependencies
_BEFORE = model_vectors.HUBS + "sample:"  # in `meta`: the checksum of the sample that was used
_WAIT = 30.0


def refresh(cache: Cache, space: str) -> None:
    """Brings the company of all vectors up to date. What changes meanwhile is left to a later
    call. Raises Damaged.
    """
    key, before = model_vectors.HUBS + space, _BEFORE + space
    if cache.meta(key) == "done":
        return
    token = ""

    def begin(db: Connection) -> None:
        # A vector that comes or goes takes the token away; others who look meanwhile share it.
        nonlocal token
        token = cache.meta(key) or os.urandom(8).hex()
        cache.set_meta(key, token)

    if not cache.keep(_WAIT, begin) or token == "done":
        return
    chosen = nsmallest(SAMPLE, ((v, row) for row, v in model_vectors.read(cache, space)))
    sample = list(dict.fromkeys([v for v, _ in chosen]))
    digest = str(zlib.crc32(b"".join(sample)))
    every = digest != cache.meta(before)
    made = list(_made(cache, space, sample, every)) if len(sample) >= FEW else []
    scale = _scale(chosen)

    def write(db: Connection) -> None:
        if cache.meta(key) == token:
            for chunk, company in made:
                model_vectors.put_company(db, space, chunk, company)
            cache.set_meta(model_vectors.SCALE + space, scale)
            cache.set_meta(before, digest)
            cache.set_meta(key, "done")

    cache.keep(_WAIT, write)


def _made(
    cache: Cache, space: str, sample: Sequence[bytes], every: bool
) -> Iterator[tuple[int, bytes]]:
    """(chunk, the company of its rows) where a row has none yet, or of all chunks."""
    wide, places = _wide(sample), {v: n for n, v in enumerate(sample)}
    stored = model_vectors.codes(cache, space, len(sample[0]))
    for first in range(0, len(stored.held), CHUNK):
        held = stored.held[first : first + CHUNK]
        company = np.zeros(CHUNK, _F4)
        company[: len(held)] = np.frombuffer(stored.company[first : first + CHUNK], _F4)
        wanted = [n for n, there in enumerate(held) if there and (every or not company[n])]
        found, _ = model_vectors.of(cache, space, [first + n for n in wanted])
        wanted = [n for n in wanted if first + n in found]
        if wanted:
            vectors = [found[first + n] for n in wanted]
            company[np.array(wanted, _I8)] = _company(vectors, wide, places)
            yield first // CHUNK, company.tobytes()


def _company(vectors: Sequence[bytes], sample: Any, places: Mapping[bytes, int]) -> Any:
    """The mean cosine of each vector with its NEIGHBOURS of the sample; its own like is none.

    Products of signed bytes are exact in float32, so they do not depend on what else is multiplied.
    """
    chosen = _wide(vectors)
    near = chosen @ sample.T
    near /= _lengths(chosen).reshape(-1, 1)
    near /= _lengths(sample)
    for n, v in enumerate(vectors):
        if v in places:
            near[n, places[v]] = -1.0
    near.partition(len(sample) - NEIGHBOURS, axis=1)
    return np.add.reduce(near[:, -NEIGHBOURS:], 1) / NEIGHBOURS


def _scale(chosen: Sequence[tuple[bytes, int]]) -> str:
    """Median cosine of a vector with the others, how far these are spread around it (1.4826 times
    the median distance, which for a normal distribution is the standard deviation), and the rows
    that tell it: of memories that say the same one, at most BACKGROUND. "" for fewer than LEAST.
    """
    if len(chosen) < LEAST:
        return ""
    wide = _wide([v for v, _ in chosen])
    cosines = wide @ wide.T
    cosines /= _lengths(wide).reshape(-1, 1)
    cosines /= _lengths(wide)
    apart: list[int] = []
    for n in range(len(chosen)):
        if len(apart) < BACKGROUND and not any((cosines[n, apart] > ALIKE).tolist()):
            apart.append(n)
    if len(apart) < LEAST:
        return ""
    cosines = cosines[apart][:, apart]
    middles = _medians(cosines)
    away = _medians(np.absolute(cosines - middles.reshape(-1, 1)))
    middle, spread = (float(np.add.reduce(part)) / len(apart) for part in (middles, away))
    rows = " ".join([str(chosen[n][1]) for n in apart])
    return f"{middle:.4f} {1.4826 * spread:.4f} {rows}"


def _medians(rows: Any) -> Any:
    rows = rows.copy()
    rows.sort(axis=1)
    return rows[:, rows.shape[1] // 2]


def _wide(vectors: Sequence[bytes]) -> Any:
    return np.frombuffer(b"".join(vectors), _I1).reshape(len(vectors), -1).astype(_F4)


def _lengths(wide: Any) -> Any:
    lengths = np.sqrt(np.vecdot(wide, wide))
    lengths[lengths == 0] = 1.0
    return lengths
