"""The tables of memories: one row a version that is shown, its words, vector, labels and paths.

Forgotten and superseded versions keep a row (an import must not add them again), but no terms and
no vector, so no search returns them. The caller owns the transaction.
"""

from __future__ import annotations

from ..core.record import Record
from . import line_tables, model_vectors
from .ahead import Ahead
from .cache import SPACE, Cache
from .document import columns, labels, union_of
from .memory_rows import ACTIVE, TEXT, bare, commit_of, parsed, places
from .sql import select_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .embed import StaticTable

    Wanted = tuple[Record, int, int]  # (record, status, place among the versions shown)


class MemoryTables:
    """Adds rows and takes them away; `finish` writes the totals."""

    def __init__(self, cache: Cache, table: StaticTable, ahead: Ahead | None = None) -> None:
        self.cache, self.db, self.ahead = cache, cache.db, ahead or Ahead(table)
        self.next_row = int(cache.meta("rows", "0"))
        self.count = cache.count()

    def finish(self) -> None:
        self.cache.set_meta("rows", str(self.next_row))
        self.cache.set_meta("count", str(self.count))

    def remove(self, rows: list[int]) -> None:
        """Takes rows away, with all that was made of them."""
        terms = "rowid, title || ' ' || body || ' ' || extra"
        held = select_in(self.db, f"SELECT {terms} FROM fts WHERE rowid IN {{}}", rows)
        words = [(word,) for _, text in held for word in set(text.split())]
        self.db.executemany("UPDATE term SET df = df - 1 WHERE word = ?", words)
        self.db.executemany("DELETE FROM term WHERE word = ? AND df <= 0", words)
        self.db.executemany("DELETE FROM fts WHERE rowid = ?", [(row,) for row, _ in held])
        self.count -= len(held)
        model_vectors.leave(self.db, rows)
        self._leave_paths(rows)
        for table in ("reinstated", "label", "united", "memory"):
            select_in(self.db, f"DELETE FROM {table} WHERE row IN {{}}", rows)

    def add(self, wanted: list[Wanted]) -> None:
        first = self.next_row
        self.next_row += len(wanted)
        lines = line_tables.known(self.db, [r.version for r, *_ in wanted])
        # A statement without SELECT inserts in half the time.
        self.db.executemany(
            "INSERT INTO memory(row, id, nth, status, line, scope, type, at, author, source,"
            " anchor, digest, confidence) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (row, r.id, nth, status, *lines[r.version][:2], *columns(r.data))
                for row, (r, status, nth) in enumerate(wanted, first)
            ],
        )
        tagged = []
        for row, (r, *_) in enumerate(wanted, first):
            parts, digest = union_of(r)
            if parts:
                self._unite(row, parts, digest, r.line)
            tagged += [(kind, value, row) for kind, value in labels(r.data)]
        self.db.executemany("INSERT OR IGNORE INTO label VALUES(?, ?, ?)", tagged)
        shown = [(row, r) for row, (r, status, _) in enumerate(wanted, first) if status == ACTIVE]
        self.count += len(shown)
        self._add_paths(shown)
        # A united text has the version of one of its lines.
        texts = [("" if union_of(r)[0] else r.version, r.data) for _, r in shown]
        made = self.ahead.documents(texts)
        self.db.executemany(
            "INSERT INTO fts(rowid, title, body, extra) VALUES(?, ?, ?, ?)",
            [(row, *fields) for (row, _), (fields, _) in zip(shown, made, strict=True)],
        )
        frequency: dict[str, int] = {}
        for fields, _ in made:
            for word in set(" ".join(fields).split()):
                frequency[word] = frequency.get(word, 0) + 1
        self.db.executemany(
            "INSERT INTO term VALUES(?, ?) ON CONFLICT(word) DO UPDATE SET df = df + excluded.df",
            sorted(frequency.items()),
        )
        vectors = {row: v for (row, _), (_, v) in zip(shown, made, strict=True)}
        model_vectors.put(self.db, SPACE, vectors)

    def again(self, row: int, status: int) -> int:
        """Makes a row anew with another status (`reinstate`); returns its new number."""
        sql = f"SELECT m.nth, l.version, u.lines, {TEXT} WHERE m.row = ?"
        nth, version, lines, raw = self.db.execute(sql, (row,)).fetchone()
        found = parsed(raw)
        if lines:
            from ..core.unite import United

            of = "SELECT version FROM line WHERE n IN (SELECT value FROM json_each(?))"
            parts = sorted(v.hex() for (v,) in self.db.execute(of, (lines,)))
            found = United(found.data, version.hex(), tuple(parts))
        self.remove([row])
        self.add([(found, status, nth)])
        return self.next_row - 1

    def rescope(self, ids: set[str]) -> None:
        """A memory is the team's as soon as one of its shown lines is."""
        of_line = "(SELECT scope FROM line WHERE n = memory.line)"
        select_in(self.db, f"UPDATE memory SET scope = {of_line} WHERE id IN {{}}", sorted(ids))

    def _add_paths(self, shown: list[tuple[int, Record]]) -> None:
        """A path noted at the same commit by many memories is one row, so that its state is
        computed once.
        """
        paths = [
            (row, place, (commit_of(r.data), bare(path), len(path) - len(path.rstrip("/")), *rest))
            for row, r in shown
            for place, (path, *rest) in enumerate(places(r.data))
        ]
        self.db.executemany(
            "INSERT OR IGNORE INTO noted_path(anchor, name, slashes, blob, lines)"
            " VALUES(?, ?, ?, ?, ?)",
            dict.fromkeys(noted for _, _, noted in paths),
        )
        self.db.executemany(
            "INSERT INTO memory_path SELECT ?, ?, number FROM noted_path"
            " WHERE anchor = ? AND name = ? AND slashes = ? AND blob = ? AND lines = ?",
            [(row, place, *noted) for row, place, noted in paths],
        )

    def _leave_paths(self, rows: list[int]) -> None:
        """With the last memory that names it a path goes, and its states with it."""
        named = select_in(self.db, "SELECT DISTINCT number FROM memory_path WHERE row IN {}", rows)
        select_in(self.db, "DELETE FROM memory_path WHERE row IN {}", rows)
        used = "SELECT 1 FROM memory_path WHERE number = ? LIMIT 1"
        unused = [number for number in named if not self.db.execute(used, number).fetchone()]
        states = "DELETE FROM path_state WHERE slot IN (SELECT slot FROM head) AND number = ?"
        self.db.executemany(states, unused)
        self.db.executemany("DELETE FROM noted_path WHERE number = ?", unused)

    def _unite(self, row: int, parts: tuple[str, ...], digest: bytes, raw: bytes) -> None:
        sql = "SELECT n FROM line WHERE version IN {}"
        lines = select_in(self.db, sql, map(bytes.fromhex, parts))
        numbers = ",".join(str(n) for (n,) in sorted(lines))
        self.db.execute("INSERT INTO united VALUES(?, ?, ?, ?)", (row, f"[{numbers}]", digest, raw))
