"""Vectors of memories by their space: of the packaged table, the encoder, or a chosen model.

The table `model_vector` has a vector a row. `model_code` has what is read of all of them, CHUNK
memories a row, that of memory row n at n % CHUNK: `held` says which have a vector, `codes` are
their sign codes, `company` is how near each lies to its neighbours (`hubness`; 0: not known, as
everywhere in the table's space).

Promises. A vector is found only by the name of its space. `fill` is resumable: what a batch has
made stays, and a row that changed meanwhile gets none. Vectors go with their memory's row
(`leave`). What is compared is checked by its checksum, and a chunk before it is written anew.
"""

from __future__ import annotations

import os
import time
import zlib

from . import cache_lock
from .cache import CHUNK, SPACE, Cache, Connection, Damaged
from .int8_vectors import sign_code, square
from .memory_rows import TEXT, parsed
from .sql import select_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from .embed import Embedder

BATCH = 32  # texts the model gets at a time
_EVERY = 5.0  # seconds of work between two writes
_WAIT = 30.0
_FLOAT = 4  # bytes of a `company`
HUBS = "hubness:"  # of a space, in `meta`: what `hubness` has seen of its vectors
SCALE = HUBS + "scale:"  # the same: median and spread of their cosines


def missing(cache: Cache, space: str) -> int:
    """How many memories have no vector in the space."""
    rows = cache.db.execute("SELECT row FROM memory WHERE status = 0")
    return len(without(cache, space, (row for (row,) in rows)))


def _lacking(cache: Cache, space: str) -> list[tuple[int, int]]:
    """(row, line) of the memories that have no vector in the space, the newest first."""
    sql = "SELECT row, line FROM memory WHERE status = 0 ORDER BY row DESC"
    lines = dict(cache.db.execute(sql))
    return [(row, lines[row]) for row in without(cache, space, lines)]


def without(cache: Cache, space: str, rows: Iterable[int]) -> list[int]:
    """Those of the rows that have no vector in the space. No vector is read for it."""
    sql = "SELECT chunk, held FROM model_code WHERE space = ?"
    held = dict(cache.db.execute(sql, (space,)))
    if any(len(marks) != CHUNK for marks in held.values()):
        raise Damaged(DAMAGED)
    none = bytes(CHUNK)
    return [row for row in rows if not held.get(row // CHUNK, none)[row % CHUNK]]


def named(cache: Cache, start: str) -> str:
    """The space whose name begins so, "" where it has no vector: its model is not asked."""
    names = [space for (space,) in cache.db.execute("SELECT DISTINCT space FROM model_code")]
    return next((space for space in names if space.startswith(start)), "")


def fill(
    cache: Cache,
    embedder: Embedder,
    progress: Callable[[int], None] = lambda n: None,
    until: float | None = None,
    wait: float = 0.0,
    batch: int = BATCH,
) -> int:
    """Makes the vectors that are missing, the newest memories first, up to `until` (monotonic);
    returns how many were made. Waits for another process that makes some, `wait` seconds: two would
    make the same ones. `batch`: how many texts at a time, between which it looks at the time.

    When none is missing any more, vectors of other models are dropped. Raises what the embedder
    raises; what was made before is kept.
    """
    space, done = embedder.space, 0
    made: list[tuple[tuple[int, int], bytes]] = []
    lock = cache.path and os.path.join(os.path.dirname(cache.path), "vectors")
    with cache_lock.locked(lock, wait):
        wanted = _lacking(cache, space)
        since = time.monotonic()
        try:
            for i in range(0, len(wanted), batch):
                found = [(pair, _text(cache, *pair)) for pair in wanted[i : i + batch]]
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
    if not missing(cache, space):
        drop_others(cache, space)
    return done


def drop_others(cache: Cache, space: str) -> None:
    """Removes the vectors of all other spaces but the packaged table's."""
    others = f"FROM {{}} WHERE space NOT IN (?, '{SPACE}')"
    if cache.db.execute(f"SELECT 1 {others.format('model_code')}", (space,)).fetchone():

        def write(db: Connection) -> None:
            for table in ("model_code", "model_vector"):
                db.execute(f"DELETE {others.format(table)}", (space,))
            found = "substr(key, 1, length(?)) = ? AND substr(key, -length(?)) <> ?"
            db.execute(f"DELETE FROM meta WHERE {found}", (HUBS, HUBS, space, space))

        cache.keep(_WAIT, write)


def _text(cache: Cache, row: int, line: int) -> str | None:
    """What the vector is made of; None where the memory was edited or forgotten meanwhile."""
    from .document import vector_text

    sql = f"SELECT {TEXT} WHERE m.row = ? AND m.line = ? AND m.status = 0"
    found = cache.db.execute(sql, (row, line)).fetchone()
    return vector_text(parsed(found[0]).data) if found else None


def _keep(cache: Cache, space: str, made: Sequence[tuple[tuple[int, int], bytes]]) -> int:
    """Stores vectors of rows that are still what was embedded, and have none: another process may
    have made it meanwhile, and `hubness` would have to look at the row again.
    """

    def write(db: Connection) -> None:
        same = (
            "SELECT 1 FROM memory WHERE row = ?1 AND line = ?2 AND status = 0 AND NOT EXISTS"
            " (SELECT 1 FROM model_vector WHERE space = ?3 AND row = ?1)"
        )
        new = {row: v for (row, line), v in made if db.execute(same, (row, line, space)).fetchone()}
        put(db, space, new)

    return len(made) if made and cache.keep(_WAIT, write) else 0


def leave(db: Connection, rows: Iterable[int]) -> None:
    """Takes the vectors of these rows out of all spaces. Raises Damaged."""
    gone = dict.fromkeys(rows, b"")
    for (space,) in db.execute("SELECT DISTINCT space FROM model_code").fetchall():
        put(db, space, gone)


def put(db: Connection, space: str, vectors: Mapping[int, bytes]) -> None:
    """Stores vectors by row; an empty one takes a row's vector away. Raises Damaged."""
    chunks: dict[int, list[int]] = {}
    for row in vectors:
        chunks.setdefault(row // CHUNK, []).append(row)
    changed = False
    for chunk, rows in chunks.items():
        new = [(row, vectors[row]) for row in rows]
        changed = _put_codes(db, space, chunk, new) or changed
    if changed:
        taken = [row for row, v in vectors.items() if not v]
        select_in(db, "DELETE FROM model_vector WHERE row IN {} AND space = ?2", taken, space)
        db.executemany(
            "INSERT OR REPLACE INTO model_vector VALUES(?, ?, ?, ?, ?)",
            [
                (space, row, v, own := square(v), _vector_crc(row, v, own))
                for row, v in vectors.items()
                if v
            ],
        )
        db.execute("DELETE FROM meta WHERE key = ?", (HUBS + space,))


def _put_codes(
    db: Connection, space: str, chunk: int, vectors: Sequence[tuple[int, bytes]]
) -> bool:
    """The same for one chunk's codes; False where it has none of these and gets none."""
    found = _chunk(db, space, chunk)
    if found is None:
        dims = len(max([v for _, v in vectors], key=len))
        if not dims:
            return False
        found = bytes(CHUNK), bytes(CHUNK * code_size(dims)), bytes(CHUNK * _FLOAT)
    held, codes, company = map(bytearray, found)
    width = len(codes) // CHUNK
    for row, v in vectors:
        at = row % CHUNK
        held[at] = bool(v)
        codes[at * width : (at + 1) * width] = sign_code(v) or bytes(width)
        company[at * _FLOAT : (at + 1) * _FLOAT] = bytes(_FLOAT)
    _write(db, space, chunk, bytes(held), bytes(codes), bytes(company))
    return True


def put_company(db: Connection, space: str, chunk: int, company: bytes) -> None:
    """Stores what `hubness` found of a chunk. Raises Damaged."""
    if found := _chunk(db, space, chunk):
        held, codes, _ = found
        _write(db, space, chunk, held, codes, company)


def _chunk(db: Connection, space: str, chunk: int) -> tuple[bytes, bytes, bytes] | None:
    sql = "SELECT held, codes, company, crc FROM model_code WHERE space = ? AND chunk = ?"
    found = db.execute(sql, (space, chunk)).fetchone()
    return _whole(chunk, *found) if found else None


def _write(
    db: Connection, space: str, chunk: int, held: bytes, codes: bytes, company: bytes
) -> None:
    if any(held):
        crc = _crc(chunk, held, codes, company)
        sql = "INSERT OR REPLACE INTO model_code VALUES(?, ?, ?, ?, ?, ?)"
        db.execute(sql, (space, chunk, held, codes, company, crc))
    else:
        db.execute("DELETE FROM model_code WHERE space = ? AND chunk = ?", (space, chunk))


def code_size(dims: int) -> int:
    """Bytes of a sign code."""
    return (dims + 7) // 8


def _crc(chunk: int, *blocks: bytes) -> int:
    crc = chunk
    for block in blocks:
        crc = zlib.crc32(block, crc)
    return crc


DAMAGED = "vectors fail their checksum"


def _whole(
    chunk: int, held: bytes, codes: bytes, company: bytes, crc: int, width: int = 0
) -> tuple[bytes, bytes, bytes]:
    """The three blocks of a chunk; raises Damaged where they are not as stored. `width`: of one
    code, 0 for any.
    """
    sizes = len(held), len(codes), len(company)
    right = CHUNK, CHUNK * (width or len(codes) // CHUNK), CHUNK * _FLOAT
    if sizes != right or _crc(chunk, held, codes, company) != crc:
        raise Damaged(DAMAGED)
    return held, codes, company


class Codes:
    """What is read of all vectors of a space, by row: which rows have one (a byte each, 1 or 0),
    their sign codes end to end, and the company of each.
    """

    def __init__(self, held: bytes, codes: bytes, company: bytes) -> None:
        self.held, self.codes = held, codes
        self.company = memoryview(company).cast("f")
        self.count = held.count(1)


def codes(cache: Cache, space: str, dims: int) -> Codes:
    """Raises Damaged."""
    return cache.kept("codes of " + space, lambda: _codes(cache, space, code_size(dims)))


def _codes(cache: Cache, space: str, width: int) -> Codes:
    empty = bytes(CHUNK), bytes(CHUNK * width), bytes(CHUNK * _FLOAT)
    parts: list[tuple[bytes, bytes, bytes]] = []
    sql = "SELECT chunk, held, codes, company, crc FROM model_code WHERE space = ? ORDER BY chunk"
    for chunk, held, codes, company, crc in cache.db.execute(sql, (space,)):
        parts += [empty] * (chunk - len(parts))
        parts.append(_whole(chunk, held, codes, company, crc, width))
    if parts:  # the last one is cut before they are joined: another copy of 100,000 takes 2 ms
        held, codes, company = parts.pop()
        rows = held.rfind(1) + 1
        parts.append((held[:rows], codes[: rows * width], company[: rows * _FLOAT]))
    return Codes(*(b"".join([part[n] for part in parts]) for n in range(3)))


def of(cache: Cache, space: str, rows: Iterable[int]) -> tuple[dict[int, bytes], dict[int, int]]:
    """({row: vector}, {row: its sum of squares}); rows without one are left out. Raises Damaged."""
    sql = "SELECT row, v, square, crc FROM model_vector WHERE row IN {} AND space = ?2"
    found = select_in(cache.db, sql, rows, space)
    if any(_vector_crc(row, v, square) != crc for row, v, square, crc in found):
        raise Damaged(DAMAGED)
    return {row: v for row, v, _, _ in found}, {row: square for row, _, square, _ in found}


def read(cache: Cache, space: str) -> Iterator[tuple[int, bytes]]:
    """(row, vector) of all, by row. Raises Damaged."""
    sql = "SELECT row, v, square, crc FROM model_vector WHERE space = ? ORDER BY row"
    for row, v, own, crc in cache.db.execute(sql, (space,)):
        if _vector_crc(row, v, own) != crc:
            raise Damaged(DAMAGED)
        yield row, v


def _vector_crc(row: int, v: bytes, square: int) -> int:
    return zlib.crc32(v, row + square)


def wrong(cache: Cache, active: Iterable[int]) -> str:
    """What the full check finds wrong, "" for nothing."""
    rows = set(active)
    for (space,) in cache.db.execute(
        "SELECT DISTINCT space FROM model_vector UNION SELECT space FROM model_code"
    ).fetchall():
        try:
            vectors = dict(read(cache, space))
            size = code_size(len(next(iter(vectors.values()), b"")))
            stored = _codes(cache, space, size)
        except Damaged as e:
            return str(e)
        if not vectors.keys() <= rows:
            return "a vector is of no memory"
        codes = [stored.codes[at : at + size] for at in range(0, len(stored.codes), size or 1)]
        mine = {row: codes[row] for row, held in enumerate(stored.held) if held}
        if mine != {row: sign_code(v) for row, v in vectors.items()}:
            return "a sign code differs from its vector"
    return ""
