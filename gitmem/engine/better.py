"""A second space of vectors in the cache, beside those of the packaged table: the encoder's, or those of a model the user chose.

Owns the table `better`. Promises: a vector is found only by the name of its space,
so switching models never mixes two. `fill` is resumable:
what a batch has made stays, and a row that changed meanwhile gets none. Vectors
go with their memory's row, so forgetting and purging take them too.

No numpy for a chosen model: exact cosines of all rows are one pass of `scan.rescore`.
"""

from __future__ import annotations

import time
import zlib

from ..core import record
from . import scan
from .cache import Damaged
from .document import vector_text
from .stored import TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .cache import Cache, Connection
    from .embed import Embedder

BATCH = 32  # texts the model gets at a time
_EVERY = 5.0  # seconds of work between two writes: each costs a pass over the page sums
_WAIT = 30.0


def missing(cache: Cache, space: str) -> int:
    """How many memories have no vector in the space."""
    row = cache.db.execute("SELECT count(*) FROM memory WHERE status = 0 AND row NOT IN (SELECT row FROM better WHERE space = ?)", (space,)).fetchone()
    return int(row[0])


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
    wanted = cache.db.execute("SELECT row, line FROM memory WHERE status = 0 AND row NOT IN (SELECT row FROM better WHERE space = ?) ORDER BY row DESC LIMIT ?",
                              (space, -1 if most is None else most)).fetchall()
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
        db.executemany("INSERT OR REPLACE INTO better(row, space, v, crc) SELECT row, ?2, ?3, ?4 FROM memory WHERE row = ?1 AND line = ?5 AND status = 0",
                       [(row, space, v, zlib.crc32(v, row), line) for row, line, v in made])

    return len(made) if made and cache.keep(_WAIT, write) else 0


def cosines(cache: Cache, space: str, question: bytes, rows: Sequence[int] | None = None) -> list[tuple[float, int]]:
    """Exact cosines of all memories, or of `rows`, as (cosine, row), best first. Raises Damaged on a checksum that fails."""
    numbers, data = read(cache, space, len(question))
    width = len(question)
    place = {row: at * width for at, row in enumerate(numbers)}
    wanted = sorted(place if rows is None else place.keys() & set(rows))
    return scan.rescore(lambda row: bytes(data[place[row] : place[row] + width]), question, wanted)


def read(cache: Cache, space: str, dims: int) -> tuple[list[int], bytearray]:
    """(rows, their vectors end to end) of a space. Raises Damaged on a checksum that fails."""
    rows: list[int] = []
    data = bytearray()
    crc32 = zlib.crc32
    for row, v, crc in cache.db.execute("SELECT row, v, crc FROM better WHERE space = ?", (space,)):
        if crc32(v, row) != crc or len(v) != dims:
            raise Damaged("a vector fails its checksum")
        rows.append(row)
        data += v
    return rows, data
