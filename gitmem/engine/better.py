"""A second space of vectors in the cache, beside those of the packaged table: the encoder's, or those of a model the user chose.

Owns the table `better`: CHUNK vectors a row, the one of memory row n at n % CHUNK; `held` says
which places have one, the others are zeros. Reading is a few blobs, not a row a memory.

Promises. A vector is found only by the name of its space,
so switching models never mixes two. `fill` is resumable:
what a batch has made stays, and a row that changed meanwhile gets none. Vectors
go with their memory's row (`leave`), so forgetting and purging take them too. What is read is
checked by its chunk's checksum, also before a chunk is written anew.

No numpy for a chosen model: exact cosines of all rows are one pass of `scan.rescore`.
"""

from __future__ import annotations

import time
import zlib
from itertools import islice

from ..core import record
from . import scan
from .cache import Damaged
from .document import vector_text
from .stored import TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from .cache import Cache, Connection
    from .embed import Embedder

BATCH = 32  # texts the model gets at a time
_EVERY = 5.0  # seconds of work between two writes: each costs a pass over the page sums
_WAIT = 30.0
CHUNK = 128  # vectors a row: 48 KiB of the encoder's, which is what writing or forgetting one costs


def missing(cache: Cache, space: str) -> int:
    """How many memories have no vector in the space."""
    return sum(1 for _ in _lacking(cache, space))


def _lacking(cache: Cache, space: str) -> Iterator[tuple[int, int]]:
    """(row, line) of the memories that have no vector in the space, the newest first."""
    held = _held(cache, space)
    none = bytes(CHUNK)
    for row, line in cache.db.execute("SELECT row, line FROM memory WHERE status = 0"
                                      " ORDER BY row DESC"):
        if not held.get(row // CHUNK, none)[row % CHUNK]:
            yield row, line


def without(cache: Cache, space: str, rows: Iterable[int]) -> list[int]:
    """Those of the rows that have no vector in the space."""
    held = _held(cache, space)
    none = bytes(CHUNK)
    return [row for row in rows if not held.get(row // CHUNK, none)[row % CHUNK]]


def _held(cache: Cache, space: str) -> dict[int, bytes]:
    """{chunk: for each of its places 1 where it has a vector}. No vector is read for it."""
    found = dict(cache.db.execute("SELECT chunk, held FROM better WHERE space = ?", (space,)))
    if any(len(held) != CHUNK for held in found.values()):
        raise Damaged("vectors fail their checksum")
    return found


def missing_by_prefix(cache: Cache, start: str) -> int:
    """The same for the space whose name begins so, without asking its model for the rest of the name."""
    for (space,) in cache.db.execute("SELECT DISTINCT space FROM better"):
        if space.startswith(start):
            return missing(cache, space)
    return cache.count()


def fill(cache: Cache, embedder: Embedder, progress: Callable[[int], None] = lambda n: None, most: int | None = None,
         until: float | None = None) -> int:
    """Makes the vectors that are missing, the newest memories first, at most `most` and up to `until`
    (monotonic); returns how many were made.

    When none is missing any more, vectors of other spaces are dropped. Raises
    what the embedder raises; what was made before is kept.
    """
    space, done = embedder.space, 0
    made: list[tuple[int, int, bytes]] = []
    wanted = list(islice(_lacking(cache, space), most))
    since = time.monotonic()
    try:
        for i in range(0, len(wanted), BATCH):
            part = [(row, line, text) for row, line in wanted[i : i + BATCH] if (text := _text(cache, row, line)) is not None]
            vectors = embedder.embed([text for _, _, text in part])
            made += [(row, line, vector) for (row, line, _), vector in zip(part, vectors, strict=True)]
            progress(len(part))
            if until is not None and time.monotonic() > until:
                break
            if time.monotonic() - since > _EVERY:
                done += _keep(cache, space, made)
                made, since = [], time.monotonic()
    finally:
        done += _keep(cache, space, made)
    if not missing(cache, space) and cache.db.execute("SELECT 1 FROM better WHERE space <> ?", (space,)).fetchone():
        cache.keep(_WAIT, lambda db: db.execute("DELETE FROM better WHERE space <> ?", (space,)))
    return done


def _text(cache: Cache, row: int, line: int) -> str | None:
    sql = f"SELECT {TEXT} WHERE m.row = ? AND m.line = ? AND m.status = 0"
    found = cache.db.execute(sql, (row, line)).fetchone()
    if found is None:
        return None  # edited or forgotten meanwhile
    parsed = record.parse(bytes(found[0]))
    if parsed is None:
        raise Damaged("a record in the cache cannot be read")
    return vector_text(parsed.data)


def _keep(cache: Cache, space: str, made: Sequence[tuple[int, int, bytes]]) -> int:
    """Stores vectors of rows that are still what was embedded."""
    def write(db: Connection) -> None:
        same = "SELECT 1 FROM memory WHERE row = ? AND line = ? AND status = 0"
        new: dict[int, dict[int, bytes]] = {}
        for row, line, v in made:
            if db.execute(same, (row, line)).fetchone():
                new.setdefault(row // CHUNK, {})[row % CHUNK] = v
        for chunk, vectors in new.items():
            sql = "SELECT held, v, crc FROM better WHERE space = ? AND chunk = ?"
            found = db.execute(sql, (space, chunk)).fetchone()
            dims = len(next(iter(vectors.values())))
            empty = bytes(CHUNK), bytes(CHUNK * dims)
            stored = _checked(chunk, found, dims) if found else empty
            _put(db, space, chunk, stored, vectors)

    return len(made) if made and cache.keep(_WAIT, write) else 0


def leave(db: Connection, rows: Iterable[int]) -> None:
    """Takes the vectors of these rows out of all spaces. Raises Damaged."""
    gone: dict[int, dict[int, bytes]] = {}
    for row in rows:
        gone.setdefault(row // CHUNK, {})[row % CHUNK] = b""
    for chunk, places in gone.items():
        sql = "SELECT space, held, v, crc FROM better WHERE chunk = ?"
        for space, held, data, crc in db.execute(sql, (chunk,)).fetchall():
            _put(db, space, chunk, _checked(chunk, (held, data, crc)), places)


def _put(db: Connection, space: str, chunk: int, stored: tuple[bytes, bytes],
         vectors: dict[int, bytes]) -> None:
    """Writes (held, vectors) of a chunk with those of some places anew; an empty one takes a vector away."""
    held, data = map(bytearray, stored)
    dims = len(data) // CHUNK
    for place, v in vectors.items():
        held[place] = bool(v)
        data[place * dims : (place + 1) * dims] = v or bytes(dims)
    if (bytes(held), bytes(data)) == stored:
        return
    if any(held):
        db.execute("INSERT OR REPLACE INTO better(space, chunk, held, v, crc) VALUES(?, ?, ?, ?, ?)",
                   (space, chunk, bytes(held), bytes(data), _crc(chunk, held, data)))
    else:
        db.execute("DELETE FROM better WHERE space = ? AND chunk = ?", (space, chunk))


def _crc(chunk: int, held: bytes | bytearray, data: bytes | bytearray) -> int:
    return zlib.crc32(data, zlib.crc32(held, chunk))


def _checked(chunk: int, stored: tuple[bytes, bytes, int], dims: int = 0) -> tuple[bytes, bytes]:
    """(held, vectors) of a chunk as `stored` with its checksum; `dims`: of a vector, 0 for any. Raises Damaged."""
    held, data, crc = stored
    wide = len(data) == CHUNK * (dims or len(data) // CHUNK)
    if not wide or len(held) != CHUNK or _crc(chunk, held, data) != crc:
        raise Damaged("vectors fail their checksum")
    return held, data


def read(cache: Cache, space: str, dims: int) -> Iterator[tuple[int, bytes, bytes]]:
    """(row of its first place, which places have a vector, all places end to end) of each chunk, by row. Raises Damaged."""
    sql = "SELECT chunk, held, v, crc FROM better WHERE space = ? ORDER BY chunk"
    for chunk, held, data, crc in cache.db.execute(sql, (space,)):
        yield (chunk * CHUNK, *_checked(chunk, (held, data, crc), dims))


def cosines(cache: Cache, space: str, question: bytes, rows: Sequence[int] | None = None) -> list[tuple[float, int]]:
    """Exact cosines of all memories, or of `rows`, as (cosine, row), best first. Raises Damaged on a checksum that fails."""
    width = len(question)
    places: dict[int, tuple[bytes, int]] = {}
    for first, held, data in read(cache, space, width):
        places.update({first + n: (data, n * width) for n, there in enumerate(held) if there})

    def vector(row: int) -> bytes:
        data, at = places[row]
        return data[at : at + width]

    wanted = sorted(places if rows is None else places.keys() & set(rows))
    return scan.rescore(vector, question, wanted)


def wrong(cache: Cache, active: Iterable[int]) -> str:
    """What the full check finds wrong: a checksum, or a vector of no memory; "" where nothing is."""
    rows = set(active)
    for chunk, held, data, crc in cache.db.execute("SELECT chunk, held, v, crc FROM better"):
        try:
            _checked(chunk, (held, data, crc))
        except Damaged:
            return "vectors of the encoder or of the chosen model are damaged"
        dims = len(data) // CHUNK
        for place, there in enumerate(held):
            mine = data[place * dims : (place + 1) * dims]
            if chunk * CHUNK + place not in rows if there else any(mine):
                return "a vector of the encoder or of the chosen model is of no memory"
    return ""
