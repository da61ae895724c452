"""A second space of vectors in the cache: the encoder's, or those of a model the user chose.

The table `model_vector` has CHUNK vectors a row, the one of memory row n at n % CHUNK; `held` says
which places have one, the others are zeros. `codes` has their sign codes, for stores so large that
not all vectors are read.

Promises. A vector is found only by the name of its space. `fill` is resumable: what a batch has
made stays, and a row that changed meanwhile gets none. Vectors go with their memory's row
(`leave`). What is read is checked by its checksum, also before a chunk is written anew.
"""

from __future__ import annotations

import os
import time
import zlib
from itertools import islice

from . import cache_lock, hamming
from .cache import Cache, Connection, Damaged
from .document import vector_text
from .embed import sign_code
from .memory_rows import TEXT, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from .embed import Embedder

BATCH = 32  # texts the model gets at a time
_EVERY = 5.0  # seconds of work between two writes
_WAIT = 30.0
CHUNK = 128  # vectors a row: 54 KiB of the encoder's, written anew when one comes or goes


def missing(cache: Cache, space: str) -> int:
    """How many memories have no vector in the space."""
    return len(_lacking(cache, space))


def _lacking(cache: Cache, space: str) -> list[tuple[int, int]]:
    """(row, line) of the memories that have no vector in the space, the newest first."""
    sql = "SELECT row, line FROM memory WHERE status = 0 ORDER BY row DESC"
    lines = dict(cache.db.execute(sql))
    return [(row, lines[row]) for row in without(cache, space, lines)]


def without(cache: Cache, space: str, rows: Iterable[int]) -> list[int]:
    """Those of the rows that have no vector in the space. No vector is read for it."""
    sql = "SELECT chunk, held FROM model_vector WHERE space = ?"
    held = dict(cache.db.execute(sql, (space,)))
    if any(len(marks) != CHUNK for marks in held.values()):
        raise Damaged("vectors fail their checksum")
    none = bytes(CHUNK)
    return [row for row in rows if not held.get(row // CHUNK, none)[row % CHUNK]]


def missing_by_prefix(cache: Cache, start: str) -> int:
    """The same for the space whose name begins so: its model is not asked for the rest."""
    for (space,) in cache.db.execute("SELECT DISTINCT space FROM model_vector"):
        if space.startswith(start):
            return missing(cache, space)
    return cache.count()


def fill(
    cache: Cache,
    embedder: Embedder,
    progress: Callable[[int], None] = lambda n: None,
    most: int | None = None,
    until: float | None = None,
    wait: float = 0.0,
) -> int:
    """Makes the vectors that are missing, the newest memories first, at most `most` and up to
    `until` (monotonic); returns how many were made. Waits for another process that makes
    some, `wait` seconds: two would make the same ones.

    When none is missing any more, vectors of other spaces are dropped. Raises
    what the embedder raises; what was made before is kept.
    """
    space, done = embedder.space, 0
    made: list[tuple[tuple[int, int], bytes]] = []
    lock = cache.path and os.path.join(os.path.dirname(cache.path), "vectors")
    with cache_lock.locked(lock, wait):
        wanted = _lacking(cache, space)[:most]
        since = time.monotonic()
        try:
            for i in range(0, len(wanted), BATCH):
                found = [(pair, _text(cache, *pair)) for pair in wanted[i : i + BATCH]]
                part = {pair: text for pair, text in found if text is not None}
                made += zip(part, embedder.embed(list(part.values())), strict=True)
                progress(len(part))
                if until is not None and time.monotonic() > until:
                    break
                if time.monotonic() - since > _EVERY:
                    done += _keep(cache, space, made)
                    made, since = [], time.monotonic()
        finally:
            done += _keep(cache, space, made)
    others = "FROM model_vector WHERE space <> ?"
    if not missing(cache, space) and cache.db.execute(f"SELECT 1 {others}", (space,)).fetchone():
        cache.keep(_WAIT, lambda db: db.execute(f"DELETE {others}", (space,)))
    return done


def _text(cache: Cache, row: int, line: int) -> str | None:
    """What the vector is made of; None where the memory was edited or forgotten meanwhile."""
    sql = f"SELECT {TEXT} WHERE m.row = ? AND m.line = ? AND m.status = 0"
    found = cache.db.execute(sql, (row, line)).fetchone()
    return vector_text(parsed(found[0]).data) if found else None


def _keep(cache: Cache, space: str, made: Sequence[tuple[tuple[int, int], bytes]]) -> int:
    """Stores vectors of rows that are still what was embedded."""

    def write(db: Connection) -> None:
        same = "SELECT 1 FROM memory WHERE row = ? AND line = ? AND status = 0"
        new: dict[int, dict[int, bytes]] = {}
        for (row, line), v in made:
            if db.execute(same, (row, line)).fetchone():
                new.setdefault(row // CHUNK, {})[row % CHUNK] = v
        for chunk, vectors in new.items():
            put(db, space, chunk, vectors)

    return len(made) if made and cache.keep(_WAIT, write) else 0


def leave(db: Connection, rows: Iterable[int]) -> None:
    """Takes the vectors of these rows out of all spaces. Raises Damaged."""
    gone: dict[int, dict[int, bytes]] = {}
    for row in rows:
        gone.setdefault(row // CHUNK, {})[row % CHUNK] = b""
    for chunk, places in gone.items():
        sql = "SELECT space FROM model_vector WHERE chunk = ?"
        for (space,) in db.execute(sql, (chunk,)).fetchall():
            put(db, space, chunk, places)


def put(db: Connection, space: str, chunk: int, vectors: dict[int, bytes]) -> None:
    """Writes a chunk with the vectors of some places anew; an empty one takes a vector away.

    Raises Damaged.
    """
    sql = "SELECT held, codes, signs, v, crc FROM model_vector WHERE space = ? AND chunk = ?"
    found = db.execute(sql, (space, chunk)).fetchone()
    if found:
        held, codes, signs, data, crc = found
        _check(chunk, held, codes, signs)
        _check(chunk, held, data, crc)
    else:
        dims = len(next(iter(vectors.values())))
        held, codes, data = (bytes(CHUNK * width) for width in (1, (dims + 7) // 8, dims))
    new = bytearray(held), bytearray(codes), bytearray(data)
    for place, v in vectors.items():
        for block, value in zip(new, (bytes([bool(v)]), sign_code(v), v), strict=True):
            width = len(block) // CHUNK
            block[place * width : (place + 1) * width] = value or bytes(width)
    if new == (held, codes, data):
        return
    if any(new[0]):
        held, codes, data = map(bytes, new)
        signs, crc = _crc(chunk, held, codes), _crc(chunk, held, data)
        db.execute(
            "INSERT OR REPLACE INTO model_vector(space, chunk, held, codes, signs, v, crc)"
            " VALUES(?, ?, ?, ?, ?, ?, ?)",
            (space, chunk, held, codes, signs, data, crc),
        )
    else:
        db.execute("DELETE FROM model_vector WHERE space = ? AND chunk = ?", (space, chunk))


def _crc(chunk: int, held: bytes, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(held, chunk))


def _check(chunk: int, held: bytes, data: bytes, crc: int, width: int = 0) -> None:
    """Raises Damaged where vectors or codes are not as stored; `width`: of one, 0 for any."""
    wide = len(data) == CHUNK * (width or len(data) // CHUNK)
    if not wide or len(held) != CHUNK or _crc(chunk, held, data) != crc:
        raise Damaged("vectors fail their checksum")


def read(
    cache: Cache, space: str, dims: int, chunks: Iterable[int] | None = None
) -> Iterator[tuple[int, bytes, bytes]]:
    """(row of its first place, which places have a vector, all places end to end) of each chunk.

    By row, all of them or those of `chunks`, which ascend. Raises Damaged.
    """
    sql = "SELECT chunk, held, v, crc FROM model_vector WHERE space = ?"
    return _read(cache, sql, space, dims, chunks)


def codes(cache: Cache, space: str, dims: int) -> Iterator[tuple[int, bytes, bytes]]:
    """The same with the sign codes of the vectors."""
    sql = "SELECT chunk, held, codes, signs FROM model_vector WHERE space = ?"
    return _read(cache, sql, space, (dims + 7) // 8)


def _read(
    cache: Cache, sql: str, space: str, width: int, chunks: Iterable[int] | None = None
) -> Iterator[tuple[int, bytes, bytes]]:
    left = None if chunks is None else iter(chunks)
    only = ""
    while left is None or (only := ",".join(map(str, islice(left, 500)))):
        some = f" AND chunk IN ({only})" if only else ""
        for chunk, held, data, crc in cache.db.execute(f"{sql}{some} ORDER BY chunk", (space,)):
            _check(chunk, held, data, crc, width)
            yield chunk * CHUNK, held, data
        if left is None:
            return


def cosines(
    cache: Cache, space: str, question: bytes, rows: Sequence[int] | None = None
) -> list[tuple[float, int]]:
    """Exact cosines of all memories, or of `rows`, as (cosine, row), best first, without numpy.

    Raises Damaged.
    """
    width = len(question)
    places: dict[int, tuple[bytes, int]] = {}
    for first, held, data in read(cache, space, width):
        places.update({first + n: (data, n * width) for n, there in enumerate(held) if there})

    def vector(row: int) -> bytes:
        data, at = places[row]
        return data[at : at + width]

    wanted = sorted(places if rows is None else places.keys() & set(rows))
    return hamming.rescore(vector, question, wanted)


def wrong(cache: Cache, active: Iterable[int]) -> str:
    """What the full check finds wrong, "" for nothing."""
    rows = set(active)
    sql = "SELECT chunk, held, codes, signs, v, crc FROM model_vector"
    for chunk, held, codes, signs, data, crc in cache.db.execute(sql):
        try:
            _check(chunk, held, codes, signs)
            _check(chunk, held, data, crc)
        except Damaged:
            return "vectors of the encoder or of the chosen model are damaged"
        dims, width = len(data) // CHUNK, len(codes) // CHUNK
        for place, there in enumerate(held):
            mine = data[place * dims : (place + 1) * dims]
            if chunk * CHUNK + place not in rows if there else any(mine):
                return "a vector of the encoder or of the chosen model is of no memory"
            if codes[place * width : (place + 1) * width] != sign_code(mine):
                return "a sign code of the encoder or of the chosen model is not its vector's"
    return ""
