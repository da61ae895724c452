"""A second space of vectors in the cache: made by a model the user chose, beside those of the packaged table.

Owns the table `better`. Promises: a vector is found only by the name of its space,
so switching models never mixes two; a space takes part in a search only when
every memory has a vector in it, since cosines of two spaces cannot be ranked
together (until then the packaged table answers for all). `fill` is resumable:
what a batch has made stays, and a row that changed meanwhile gets none. Vectors
go with their memory's row, so forgetting and purging take them too.

No numpy: exact cosines of all rows are one pass of `scan.rescore`.
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

BATCH = 16  # texts the model gets at a time
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


def fill(cache: Cache, embedder: Embedder, progress: Callable[[int], None] = lambda n: None, most: int | None = None) -> int:
    """Makes the vectors that are missing, the newest memories first, at most `most`; returns how many were made.

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
    allowed = None if rows is None else set(rows)
    found: dict[int, bytes] = {}
    for row, v, crc in cache.db.execute("SELECT row, v, crc FROM better WHERE space = ?", (space,)):
        if allowed is None or row in allowed:
            if zlib.crc32(v, row) != crc or len(v) != len(question):
                raise Damaged("a vector fails its checksum")
            found[row] = v
    return scan.rescore(found, question, sorted(found))
