"""How near each vector of the encoder lies to its neighbours, for `nearness`; made in the
background.

A memory's company is its mean cosine with its NEIGHBOURS of a sample of the store: SAMPLE vectors,
chosen by their bytes, so that a rebuilt cache has the same. Comes after `model_vectors.fill`, and
costs as much for every new memory: where the sample is as before only new ones are looked at.
"""

from __future__ import annotations

import os
import zlib
from heapq import nsmallest

from ..embedding import numpy_core
from . import model_vectors
from .cache import CHUNK
from .nearness import FEW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from .cache import Cache, Connection

np = numpy_core.load()
_I1, _I8, _F4 = np.dtype("i1"), np.dtype("i8"), np.dtype("<f4")

NEIGHBOURS = 10
SAMPLE = 1000  # with 300, reworded questions among 3,000 others are found 0.27 instead of 0.30
_BEFORE = "sample:"  # of a space, in `meta`: the checksum of the sample that was used
_WAIT = 30.0


def refresh(cache: Cache, space: str) -> None:
    """Brings the company of all vectors up to date. What changes meanwhile is left to a later
    call. Raises Damaged.
    """
    key, before = model_vectors.HUBS + space, _BEFORE + space
    if cache.meta(key) == "done":
        return
    token = os.urandom(8).hex()  # a vector that comes or goes takes it away
    if not cache.keep(_WAIT, lambda db: cache.set_meta(key, token)):
        return
    # Of equal vectors either may stand in the sample: they have the same neighbours.
    sample = [
        (row, v)
        for v, row in nsmallest(SAMPLE, ((v, row) for row, v in model_vectors.read(cache, space)))
    ]
    if len(sample) < FEW:
        return
    digest = str(zlib.crc32(b"".join([v for _, v in sample])))
    made = list(_made(cache, space, sample, every=digest != cache.meta(before)))

    def write(db: Connection) -> None:
        if cache.meta(key) == token:
            for chunk, company in made:
                model_vectors.put_company(db, space, chunk, company)
            cache.set_meta(before, digest)
            cache.set_meta(key, "done")

    cache.keep(_WAIT, write)


def _made(
    cache: Cache, space: str, sample: Sequence[tuple[int, bytes]], every: bool
) -> Iterator[tuple[int, bytes]]:
    """(chunk, the company of its rows) where a row has none yet, or of all chunks."""
    others = np.array([row for row, _ in sample], _I8)
    units = _units([v for _, v in sample]).T
    stored = model_vectors.codes(cache, space, len(sample[0][1]))
    for first in range(0, len(stored.held), CHUNK):
        held = stored.held[first : first + CHUNK]
        company = np.zeros(CHUNK, _F4)
        company[: len(held)] = np.frombuffer(stored.company[first : first + CHUNK], _F4)
        wanted = [n for n, there in enumerate(held) if there and (every or not company[n])]
        if wanted:
            rows = [first + n for n in wanted]
            vectors, _ = model_vectors.of(cache, space, rows)
            found = _company(rows, _units([vectors[row] for row in rows]), others, units)
            company[np.array(wanted, _I8)] = found
            yield first // CHUNK, company.tobytes()


def _company(rows: Sequence[int], chosen: Any, others: Any, units: Any) -> Any:
    """The mean cosine of each chosen vector with its NEIGHBOURS of the sample."""
    near = chosen @ units
    near[np.array(rows, _I8).reshape(-1, 1) == others] = -1.0  # it is no neighbour of its own
    near.partition(len(others) - NEIGHBOURS, axis=1)
    return np.add.reduce(near[:, -NEIGHBOURS:], 1) / NEIGHBOURS


def _units(vectors: Sequence[bytes]) -> Any:
    """Signed bytes as rows of float32 of length 1; zeros stay zeros."""
    units = np.frombuffer(b"".join(vectors), _I1).reshape(len(vectors), -1).astype(_F4)
    lengths = np.sqrt(np.vecdot(units, units))
    lengths[lengths == 0] = 1.0
    units /= lengths.reshape(-1, 1)
    return units
