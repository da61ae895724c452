"""An open cache: transactions, settings, and what a search reads of its rows.

Promise: a row that is lost raises `Damaged`. Standard library only, without slow imports:
every prompt waits for it.
"""

from __future__ import annotations

from ..core.record import object_id
from . import cache_lock
from .cache_lock import Damaged, Moved
from .sql import BUSY, FULL, Connection, failure, select_in, sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeVar

    T = TypeVar("T")

CHUNK = 1024  # sign codes per stored block


class Cache:
    """An open cache. `how`: "file", "immutable" (read-only disk) or "memory"."""

    def __init__(self, db: Connection, how: str, path: str, inode: int = 0) -> None:
        self.db = db
        self.how = how
        self.path = path
        self.inode = inode
        self._kept: dict[str, tuple[tuple[int, int], Any]] = {}

    @property
    def writable(self) -> bool:
        return self.how != "immutable"

    def moved(self) -> bool:
        """Whether another process has removed or replaced the open file."""
        return self.how != "memory" and cache_lock.inode(self.path) != self.inode

    def writing(self, wait: float) -> Writing:
        return Writing(self, wait)

    def keep(self, wait: float, write: Callable[[Connection], object]) -> bool:
        """`write` as one transaction; False where nothing can be written now."""
        if not self.writable:
            return False
        try:
            with self.writing(wait) as held:
                if held:
                    write(self.db)
                return held
        except sqlite3.OperationalError as e:
            if failure(e) in (BUSY, FULL):
                return False
            raise

    def scrub(self, wait: float) -> None:
        """Leaves nothing of deleted rows in the file, its free pages or its log."""
        if self.how != "file":
            return
        with cache_lock.locked(self.path, wait) as held:
            if held and not self.moved():
                self.db.execute("VACUUM")
                self.set_meta("scrub", "")
                cache_lock.take_log(self.db)

    def among(self, sql: str, values: Iterable[Any], *more: object) -> list[tuple[Any, ...]]:
        return select_in(self.db, sql, values, *more)

    def meta(self, key: str, default: str = "") -> str:
        row = self.db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(row[0]) if row else default

    def set_meta(self, key: str, value: str) -> None:
        self.db.execute(
            "INSERT INTO meta VALUES(?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value",
            (key, value),
        )

    def kept(self, name: str, make: Callable[[], T]) -> T:
        """What `make` reads of the file, kept while nobody writes to it."""
        if self.db.in_transaction:  # what it has changed may be taken back
            return make()
        others = self.db.execute("PRAGMA data_version").fetchone()[0]
        version = others, self.db.total_changes
        if name not in self._kept or self._kept[name][0] != version:
            self._kept[name] = version, make()
        value: T = self._kept[name][1]
        return value

    def count(self) -> int:
        """Memories (versions) that recall searches."""
        return int(self.meta("count", "0"))

    def embedded(self, space: str) -> int:
        """How many vectors there are in a space of `model_vectors`."""
        sql = "SELECT held FROM model_code WHERE space = ?"
        return sum([marks.count(1) for (marks,) in self.db.execute(sql, (space,))])

    def close(self) -> None:
        """Ends the connection. SQLite takes in a log that a killed writer left."""
        if self.how == "file":
            # The last one to close removes the log, by its name: under the lock, so that it is not
            # that of a new cache.
            wait = 1.0 if cache_lock.has_log(self.path) else 0.0
            try:
                with cache_lock.locked(self.path, wait):
                    self.db.close()
            except (sqlite3.Error, OSError):
                pass
        self.db.close()

    def standings(self, rows: Sequence[int]) -> dict[int, tuple[str, float | None, str]]:
        """{row: (commit or "", stated confidence, claimed time)}; Damaged where a row is gone."""
        sql = "SELECT row, anchor, confidence, at FROM memory WHERE row IN {}"
        found = select_in(self.db, sql, rows)
        out = {row: (object_id(anchor), stated, at) for row, anchor, stated, at in found}
        if len(out) != len(set(rows)):
            raise Damaged("a memory has lost its row")
        return out

    def frequencies(self, words: Sequence[str]) -> dict[str, int]:
        """{term: number of memories that hold it}; absent terms are left out."""
        return dict(select_in(self.db, "SELECT word, df FROM term WHERE word IN {}", words))

    def lexical(
        self,
        match: str,
        weights: tuple[float, float, float],
        limit: int,
        rows: str,
        args: Sequence[object],
    ) -> list[tuple[int, float]]:
        """[(row, BM25 as FTS5 gives it: lower is better)], best first.

        `rows`: SQL that selects the allowed rows, "" for all.
        """
        # The plus: else SQLite asks FTS5 for each allowed row by itself, 235 ms instead of 12 where
        # all of 10,000 are allowed.
        only = f" AND +rowid IN ({rows})" if rows else ""
        sql = f"SELECT rowid, bm25(fts, ?, ?, ?) AS b FROM fts WHERE fts MATCH ?{only} ORDER BY b"
        values = (*weights, match, *args)
        found: list[tuple[int, float]] = self.db.execute(
            sql + " LIMIT ?", (*values, limit + 1)
        ).fetchall()
        if len(found) <= limit or found[limit][1] != found[limit - 1][1]:
            return found[:limit]
        # More than fit score the same: ids decide, since row numbers differ in a rebuilt cache.
        last = found[limit][1]
        tied = [row for row, score in self.db.execute(sql, values) if score == last]
        better = [pair for pair in found if pair[1] < last]
        return better + [(row, last) for row in self.by_id(tied)[: limit - len(better)]]

    def texts(self, rows: Iterable[int]) -> list[tuple[int, str, str, str]]:
        """[(row, title, body, extra)] of active memories: the terms of each field, joined by
        spaces. Raises Damaged where one has none.
        """
        asked = list(rows)
        sql = "SELECT rowid, title, body, extra FROM fts WHERE rowid IN {}"
        found = select_in(self.db, sql, asked)
        if len(found) != len(asked):
            raise Damaged("a memory has lost its text")
        return found

    def by_id(self, rows: Iterable[int]) -> list[int]:
        """These rows in the order of their ids, alternatives in theirs: the same in every cache of
        the same notes.
        """
        sql = "SELECT row FROM memory WHERE row IN {} ORDER BY id, nth"
        return [row for (row,) in self.among(sql, rows)]


class Writing(cache_lock.locked):
    """One transaction under the writer lock; False, and none, where another process keeps the lock
    for `wait` seconds. Raises Moved where the open file is no longer the cache.
    """

    def __init__(self, cache: Cache, wait: float) -> None:
        super().__init__(cache.path if cache.how != "memory" else "", wait)
        self._cache = cache
        self._begun = False

    def __enter__(self) -> bool:
        try:
            if super().__enter__():
                if self._cache.moved():
                    raise Moved("another process replaced the cache")
                self._cache.db.execute("BEGIN IMMEDIATE")
                self._begun = True
        except BaseException:
            self.close()
            raise
        return self._begun

    def __exit__(self, kind: object = None, *_: object) -> None:
        db = self._cache.db
        try:
            if self._begun and kind is None:
                db.execute("COMMIT")
                if self._cache.how != "memory":
                    cache_lock.take_log(db)
        finally:
            try:
                if self._begun and db.in_transaction:
                    db.execute("ROLLBACK")
            finally:
                self.close()
