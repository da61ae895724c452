"""The disposable cache: one SQLite file, `<git-common-dir>/mem/index-<schema>.db`.

Owns the schema, opening, and what happens to a damaged file. Promise: every
kind of damage SQLite can see raises `Damaged`, the caller rebuilds from the
notes and the answer still comes; text that is shown was hashed against the
version it was stored under, because SQLite's own check misses changed text.
A read-only disk is opened `immutable`; where no file can be made the cache
lives in memory for one process.

Standard library only, and no import that costs: every prompt waits for it.
"""

from __future__ import annotations

import os
import sqlite3
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SCHEMA = 1
CHUNK = 1024  # sign codes per stored block
CODE = 32  # bytes of one sign code
_APPLICATION = 0x676D656D  # "gmem"

_TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
-- Every record line we understand, byte for byte. scope: 1 team, 2 private, 3 both.
CREATE TABLE line(n INTEGER PRIMARY KEY, version BLOB NOT NULL UNIQUE, memory BLOB NOT NULL, op TEXT NOT NULL, scope INTEGER NOT NULL, raw BLOB NOT NULL);
CREATE INDEX line_memory ON line(memory);
CREATE INDEX line_purge ON line(op) WHERE op = 'purge';
CREATE TABLE cover(version BLOB NOT NULL, by INTEGER NOT NULL, PRIMARY KEY(version, by)) WITHOUT ROWID;
-- Commits a line was found at beside the one it names: where a rewrite took it.
CREATE TABLE place(n INTEGER NOT NULL, anchor TEXT NOT NULL, PRIMARY KEY(n, anchor)) WITHOUT ROWID;
-- One row per version shown, or one for a memory that is hidden. status: 0 active, 1 superseded, 2 forgotten.
CREATE TABLE memory(row INTEGER PRIMARY KEY, id TEXT NOT NULL, line INTEGER NOT NULL, status INTEGER NOT NULL, scope INTEGER NOT NULL,
  type TEXT, at TEXT, author TEXT, phase TEXT, source TEXT, anchor TEXT, digest BLOB);
CREATE INDEX memory_id ON memory(id);
CREATE INDEX memory_line ON memory(line);
CREATE INDEX memory_source ON memory(source) WHERE source IS NOT NULL;
CREATE INDEX memory_digest ON memory(digest);
CREATE INDEX memory_at ON memory(at);
CREATE INDEX memory_type ON memory(type, at);
CREATE INDEX memory_hidden ON memory(status) WHERE status > 0;
CREATE TABLE label(kind TEXT NOT NULL, value TEXT NOT NULL, row INTEGER NOT NULL, PRIMARY KEY(kind, value, row)) WITHOUT ROWID;
CREATE VIRTUAL TABLE fts USING fts5(title, body, extra, content='', tokenize='ascii');
CREATE TABLE term(word TEXT PRIMARY KEY, df INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE vector(row INTEGER PRIMARY KEY, v BLOB NOT NULL);
CREATE TABLE code(chunk INTEGER PRIMARY KEY, codes BLOB NOT NULL, crc INTEGER NOT NULL);
"""


class Damaged(Exception):
    """The cache file cannot be trusted; it holds nothing that the notes do not."""


class Cache:
    """An open cache. `how`: "file", "immutable" (read-only disk) or "memory"."""

    def __init__(self, db: sqlite3.Connection, how: str, path: str) -> None:
        self.db = db
        self.how = how
        self.path = path

    @property
    def writable(self) -> bool:
        return self.how != "immutable"

    def meta(self, key: str, default: str = "") -> str:
        row = self.db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(row[0]) if row else default

    def set_meta(self, key: str, value: str) -> None:
        self.db.execute("INSERT INTO meta VALUES(?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value", (key, value))

    def count(self) -> int:
        """Memories (versions) that recall searches."""
        return int(self.meta("count", "0"))

    def close(self) -> None:
        self.db.close()

    # Lexical

    def frequencies(self, words: Sequence[str]) -> dict[str, int]:
        """{term: number of memories that hold it}; absent terms are left out."""
        marks = ",".join("?" * len(words))
        return dict(self.db.execute(f"SELECT word, df FROM term WHERE word IN ({marks})", words))

    def lexical(self, match: str, weights: tuple[float, float, float], limit: int, rows: str = "", args: Sequence[object] = ()) -> list[tuple[int, float]]:
        """[(row, BM25 as FTS5 gives it: lower is better)], best first. `rows`: SQL that selects the allowed rows."""
        only = f" AND rowid IN ({rows})" if rows else ""
        sql = f"SELECT rowid, bm25(fts, ?, ?, ?) AS b FROM fts WHERE fts MATCH ?{only} ORDER BY b, rowid LIMIT ?"
        return self.db.execute(sql, (*weights, match, *args, limit)).fetchall()

    # Vectors

    def codes(self) -> bytes:
        """Sign codes of all rows, row n at n*CODE; dead rows are zeros. Raises Damaged on a checksum that fails."""
        parts: list[bytes] = []
        for chunk, blob, crc in self.db.execute("SELECT chunk, codes, crc FROM code ORDER BY chunk"):
            if chunk != len(parts) or zlib.crc32(blob) != crc or len(blob) != CHUNK * CODE:
                raise Damaged("sign codes fail their checksum")
            parts.append(blob)
        return b"".join(parts)

    def vectors(self, rows: Iterable[int]) -> dict[int, bytes]:
        """{row: int8 vector}; rows without one are left out."""
        get = self.db.execute
        out: dict[int, bytes] = {}
        wanted = list(rows)
        for i in range(0, len(wanted), 500):
            part = wanted[i : i + 500]
            out.update(get(f"SELECT row, v FROM vector WHERE row IN ({','.join(map(str, part))})"))
        return out

    def set_codes(self, new: dict[int, bytes]) -> None:
        """Stores codes by row. Rows are numbered without gaps, so blocks are too; each is stored whole."""
        blocks: dict[int, bytearray] = {}
        for row, code in new.items():
            chunk, at = divmod(row, CHUNK)
            if chunk not in blocks:
                found = self.db.execute("SELECT codes FROM code WHERE chunk = ?", (chunk,)).fetchone()
                blocks[chunk] = bytearray(found[0] if found else CHUNK * CODE)
            blocks[chunk][at * CODE : (at + 1) * CODE] = code
        self.db.executemany("INSERT INTO code VALUES(?, ?, ?) ON CONFLICT(chunk) DO UPDATE SET codes = excluded.codes, crc = excluded.crc",
                            [(chunk, bytes(block), zlib.crc32(block)) for chunk, block in sorted(blocks.items())])


def path_of(mem_dir: str) -> str:
    return os.path.join(mem_dir, f"index-{SCHEMA}.db")


def open_cache(mem_dir: str, *, create: bool = True, wait: float = 30.0) -> Cache | None:
    """The cache of a repository; None where there is none and `create` is false.

    `wait`: seconds to wait for another writer. Raises Damaged for a file that
    is no cache of ours; sqlite3.DatabaseError may also come later, from any read.
    """
    path = path_of(mem_dir)
    if not os.path.exists(path):
        if not create:
            return None
        try:
            os.makedirs(mem_dir, mode=0o700, exist_ok=True)
        except OSError:
            return open_in_memory()
    readable = os.path.exists(path)
    if not os.access(mem_dir, os.W_OK) or (readable and not os.access(path, os.W_OK)):
        return _prepare(_connect(f"file:{_quoted(path)}?immutable=1", wait), "immutable", path) if readable else open_in_memory()
    return _prepare(_connect(f"file:{_quoted(path)}", wait), "file", path)


def open_in_memory() -> Cache:
    """A cache for one process, where no file can be kept."""
    return _prepare(_connect(":memory:", 0), "memory", "")


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _connect(name: str, wait: float) -> sqlite3.Connection:
    db = sqlite3.connect(name, timeout=wait, isolation_level=None, uri=name.startswith("file:"))
    db.execute("PRAGMA cache_size=-16000")
    return db


def _prepare(db: sqlite3.Connection, how: str, path: str) -> Cache:
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version == SCHEMA:
            return Cache(db, how, path)
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if version or application or tables or how == "immutable":
            raise Damaged("the cache file has another layout")
        if how == "file":
            db.execute("PRAGMA journal_mode=WAL")
            os.chmod(path, 0o600)
        db.execute("BEGIN IMMEDIATE")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version != SCHEMA:  # else another process made it while we waited
            for statement in _TABLES.split(";\n"):
                db.execute(statement)
            db.execute("INSERT INTO fts(fts, rank) VALUES('automerge', 8)")
            db.execute(f"PRAGMA application_id={_APPLICATION}")
            db.execute(f"PRAGMA user_version={SCHEMA}")
        db.execute("COMMIT")
        return Cache(db, how, path)
    except BaseException:
        db.close()
        raise


def discard(mem_dir: str) -> None:
    """Removes the cache files; whoever has them open keeps reading the old ones."""
    for suffix in ("-wal", "-shm", ""):
        try:
            os.unlink(path_of(mem_dir) + suffix)
        except OSError:
            pass
