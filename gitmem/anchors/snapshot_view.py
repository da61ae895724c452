"""The cache as it would be at a revision, for everybody who reads caches.

Temporary tables and views of one connection stand before those of the file: the
table `memory` has the memories that `records_at` says are known there, those whose
text or status was another one in the version of then. So search, lists, filters
and the context of a session answer as of then without knowing of it.

Promise: nothing is written to the file, and nothing stays when the block ends.
What it costs grows with what came later (a text that was another one is indexed
again), not with what is there; rows are looked at once, in SQL. Scores are those
of a cache that was built from the records of then, but for how rare words are:
that is counted among all memories of today.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import log
from typing import Any

from ..core import fold, record
from ..core.errors import MemError
from ..core.record import Record
from ..engine.cache import CODE, Cache, Damaged
from ..engine.document import (
    ACTIVE,
    FORGOTTEN,
    SUPERSEDED,
    columns,
    labels,
    prepare,
    shown_rows,
    union_of,
)
from ..engine.filters import Filter
from ..store import Store
from . import records_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..engine.document import Prepared

SLOT = -1  # of the states in the place of a worktree's: no worktree has this number
_K1, _B = 1.2, 0.75  # FTS5's own


class Row:
    """A version of then: its record, status and scope; `since`: what became of it after the
    revision, `by`: ids of those that took its place.
    """

    __slots__ = ("by", "line", "nth", "record", "scope", "since", "status")

    def __init__(
        self, line: int, found: Record, status: int, scope: int, since: str, by: list[str], nth: int
    ) -> None:
        self.nth = nth
        self.line = line
        self.record = found
        self.status = status
        self.scope = scope
        self.since = since
        self.by = by


class Then(Cache):
    """A cache whose readers see the memories of then. Not writable."""

    def __init__(self, cache: Cache, known: records_at.Known, reason: str) -> None:
        super().__init__(cache.db, "immutable", cache.path, cache.inode)
        self.blind = cache.blind
        self.known = known
        self.head = known.head
        self.stands = known.stands
        self.reason = reason  # why some memories are left out, "" where none is
        self.first = int(
            cache.meta("rows", "0")
        )  # number of the first row that only this cache has
        self.rows: list[Row] = []
        self._codes = b""
        self._counts: dict[
            int, tuple[list[dict[str, int]], int]
        ] = {}  # {row: (terms of each field, how many in all)}
        self._average = 0.0

    def filter(self, wanted: Filter) -> Filter:
        """The same conditions, on the memories of then."""
        narrowed = wanted.copy()
        narrowed.table = "then_active"
        return narrowed

    def tell(self, rows: list[int], objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The objects of these rows, each with what became of it since: edited, superseded or
        forgotten.
        """
        for row, item in zip(rows, objects, strict=True):
            found = self.rows[row - self.first] if row >= self.first else None
            if found and found.since and found.status == ACTIVE:
                item["since"] = found.since
                if found.by:
                    item["superseded_by"] = found.by
        return objects

    # What a cache says of itself

    def count(self) -> int:
        """Memories among which words are counted: those of today, and the versions that only this
        cache has.
        """
        return super().count() + len(self._counts)

    def frequencies(self, words: list[str]) -> dict[str, int]:  # type: ignore[override]
        found = super().frequencies(words)
        for word in words:
            here = sum(
                any(word in field for field in fields) for fields, _ in self._counts.values()
            )
            if here:
                found[word] = found.get(word, 0) + here
        return found

    def lexical(
        self,
        match: str,
        weights: tuple[float, float, float],
        limit: int,
        rows: str = "",
        args: Any = (),
    ) -> list[tuple[int, float]]:
        rows, args = (rows, args) if rows else ("SELECT row FROM then_active", ())
        found = super().lexical(match, weights, limit, rows, args)
        if self._counts:
            allowed = {
                row
                for (row,) in self.db.execute(
                    f"SELECT row FROM ({rows}) WHERE row >= ?", (*args, self.first)
                )
            }
            words = [word.replace('""', '"') for word in match[1:-1].split('" OR "')]
            found += self._scores(words, weights, allowed)
            found.sort(key=lambda pair: (pair[1], pair[0]))
        return found[:limit]

    def _scores(
        self, words: list[str], weights: tuple[float, ...], allowed: set[int]
    ) -> list[tuple[int, float]]:
        """BM25 as FTS5 computes it, of the versions that are not in its table."""
        df, n = self.frequencies(words), self.count()
        out = []
        for row in allowed & self._counts.keys():
            fields, size = self._counts[row]
            total = 0.0
            for word in words:
                often = sum(
                    weight * field.get(word, 0)
                    for weight, field in zip(weights, fields, strict=True)
                )
                if often:
                    rarity = max(1e-6, log((n - df[word] + 0.5) / (df[word] + 0.5)))
                    total += (
                        rarity
                        * often
                        * (_K1 + 1)
                        / (often + _K1 * (1 - _B + _B * size / self._average))
                    )
            if total:
                out.append((row, -total))
        return out

    def codes(self) -> bytes:
        return super().codes()[: self.first * CODE] + self._codes

    # Making it

    def fill(self, store: Store, later: list[Row], hidden: list[int]) -> None:
        """Puts the tables of then before those of the file.

        Within a transaction that is rolled back.
        """
        db = self.db
        self.rows = later
        data = [found.record.data for found in later]
        made = iter(
            prepare(
                store.table,
                [d for d, found in zip(data, later, strict=True) if found.status == ACTIVE],
            )
        )
        for name, shape in _TABLES.items():
            db.execute(f"CREATE TEMP TABLE {name}({shape})")
        db.executemany(
            "INSERT INTO then_anchor VALUES(?)", [(a,) for a in sorted(self.known.inside)]
        )
        db.executemany("INSERT INTO then_hidden VALUES(?)", [(row,) for row in hidden])
        db.execute(
            "INSERT INTO then_row SELECT row, status FROM main.memory WHERE coalesce(anchor, '') IN"
            " (SELECT id FROM then_anchor) AND row NOT IN (SELECT row FROM then_hidden)"
        )
        for row, (found, content) in enumerate(zip(later, data, strict=True), self.first):
            values = (
                row,
                found.nth,
                found.record.id,
                found.line,
                found.status,
                found.scope,
                *columns(content),
            )
            parts, digest = union_of(found.record)
            if parts:
                db.execute(
                    "INSERT INTO then_united VALUES(?, '[]', ?, ?)",
                    (row, digest, found.record.line),
                )
            db.execute(f"INSERT INTO then_memory VALUES({', '.join('?' * len(values))})", values)
            db.executemany(
                "INSERT INTO then_label VALUES(?, ?, ?)",
                [(kind, value, row) for kind, value in sorted(labels(content))],
            )
            self._index(row, next(made) if found.status == ACTIVE else None)
        overrides = {
            "rows": str(self.first + len(later)),
            "checked": "",
        }  # which signatures were looked at says nothing of these versions
        db.executemany("INSERT INTO then_meta VALUES(?, ?)", overrides.items())
        for name, view in _VIEWS.items():
            db.execute(f"CREATE TEMP VIEW {name} AS {view}")
        db.execute("INSERT INTO then_active SELECT row FROM then_row WHERE status = ?", (ACTIVE,))
        db.executemany("INSERT INTO then_active VALUES(?)", [(row,) for row in self._counts])
        self._average = _average(db) if self._counts else 0.0

    def _index(self, row: int, made: Prepared | None) -> None:
        fields, vector, code = made or ((), b"", bytes(CODE))
        self._codes += bytes(CODE) if self.blind else code
        if made:
            counts: list[dict[str, int]] = []
            for field in fields:
                counts.append({})
                for word in field.split():
                    counts[-1][word] = counts[-1].get(word, 0) + 1
            self._counts[row] = counts, sum(sum(field.values()) for field in counts)
            self.db.execute(
                "INSERT INTO then_vector VALUES(?, ?, ?)", (row, vector, zlib.crc32(vector, row))
            )

    def serve(self, key: str, value: str) -> None:
        """Readies it for readers that never ask git: where all anchors stand, and another value of
        `meta`.
        """
        self.db.execute("INSERT OR REPLACE INTO then_meta VALUES(?, ?)", (key, value))
        for name, shape in _FOR_HOOKS.items():
            self.db.execute(f"CREATE TEMP TABLE {name}({shape})")
        self.db.execute("INSERT INTO head VALUES(?, ?)", (SLOT, self.head))
        self.db.executemany(
            "INSERT INTO stand VALUES(?, ?, ?, ?, ?, ?)",
            [(SLOT, *s.row(anchor)) for anchor, s in self.stands.items()],
        )


_TABLES = {
    "then_anchor": "id TEXT PRIMARY KEY",
    "then_hidden": "row INTEGER PRIMARY KEY",
    "then_row": "row INTEGER PRIMARY KEY, status INTEGER",
    "then_active": "row INTEGER PRIMARY KEY",
    "then_memory": (
        "row INTEGER PRIMARY KEY, nth INTEGER, id TEXT, line INTEGER, status INTEGER, scope"
        " INTEGER, type TEXT, at TEXT, author TEXT, phase TEXT, source TEXT, anchor TEXT, digest"
        " BLOB, confidence REAL"
    ),
    "then_label": "kind TEXT, value TEXT, row INTEGER, PRIMARY KEY(kind, value, row)",
    "then_vector": "row INTEGER PRIMARY KEY, v BLOB, crc INTEGER",
    "then_united": "row INTEGER PRIMARY KEY, lines TEXT, digest BLOB, raw BLOB",
    "then_meta": "key TEXT PRIMARY KEY, value TEXT",
}
_FOR_HOOKS = {
    "head": "slot INTEGER, commit_id TEXT",
    "stand": (
        "slot INTEGER, anchor TEXT, state TEXT, commit_id TEXT, into_commit TEXT, reason TEXT,"
        " PRIMARY KEY(slot, anchor)"
    ),
}
# The plus: else SQLite takes each row of then in turn for what an index finds at once, 30 ms
# instead of 0.2 among 100,000.
_VIEWS = {
    "memory": (
        "SELECT row, nth, id, line, status, scope, type, at, author, phase, source, anchor, digest,"
        " confidence FROM main.memory WHERE +row IN (SELECT row FROM then_row) UNION ALL SELECT *"
        " FROM then_memory"
    ),
    "label": (
        "SELECT kind, value, row FROM main.label WHERE +row IN (SELECT row FROM then_row) UNION ALL"
        " SELECT * FROM then_label"
    ),
    "united": "SELECT row, lines, digest, raw FROM main.united UNION ALL SELECT * FROM then_united",
    "vector": "SELECT row, v, crc FROM main.vector UNION ALL SELECT * FROM then_vector",
    "meta": (
        "SELECT key, value FROM main.meta WHERE key NOT IN (SELECT key FROM then_meta) UNION ALL"
        " SELECT * FROM then_meta"
    ),
}


def _average(db: Any) -> float:
    """Mean number of terms of a row of FTS5's table, from its record of averages
    (https://sqlite.org/fts5.html#the_structure_record).
    """
    numbers: list[int] = []
    value = 0
    for byte in bytes(db.execute("SELECT block FROM fts_data WHERE id = 1").fetchone()[0]):
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(value)
            value = 0
    return max(1.0, sum(numbers[1:]) / numbers[0]) if numbers and numbers[0] else 1.0


@contextmanager
def opened(
    store: Store, cache: Cache, revision: str, known: records_at.Known | None = None
) -> Iterator[Then]:
    """The cache as of a revision, for as long as the block lasts.

    `known`: where the caller has asked already. Raises MemError where there is no such commit.
    """
    store.trust.catch_up(cache, store.trust.most)
    known = known or records_at.known(store.repo, cache, commit_of(store, revision))
    reason = records_at.reason_of(cache, known)
    cache.db.execute("PRAGMA temp_store = MEMORY")  # a full disk stops no answer
    with cache.snapshot():
        then = Then(cache, known, reason)
        then.fill(store, *_changed(cache, known))
        yield then


def commit_of(store: Store, revision: str) -> str:
    """The full id of the commit that a revision names. Raises MemError."""
    found = store.repo.commit(revision)
    if not found:
        raise MemError(
            f"no commit '{revision[:80]}' in this repository", hint=records_at.hint(store.repo)
        )
    return found


def _changed(cache: Cache, known: records_at.Known) -> tuple[list[Row], list[int]]:
    """(versions of then, rows of today that they stand for) of the memories whose text or status
    was another one.
    """
    ids = {r.id for r in known.later.values() if r.op != "create"}
    lines = json.dumps(sorted(known.later))
    ids |= {
        m.decode()
        for (m,) in cache.db.execute(
            # Few covers, many lines: in the other order a thousand edits among 100,000 memories
            # take a minute.
            "SELECT DISTINCT l.memory FROM cover c CROSS JOIN line l ON l.version = c.version WHERE"
            " +c.by IN (SELECT value FROM json_each(?))",
            (lines,),
        )
    }
    # What came back at today's HEAD is a matter of that HEAD: here it is as of then.
    back = {
        id
        for (id,) in cache.db.execute(
            "SELECT id FROM memory WHERE row IN (SELECT row FROM revived)"
        )
    }
    ids |= back
    asked = json.dumps(sorted(ids))
    read = cache.db.execute(
        "SELECT n, scope, raw FROM line WHERE memory IN (SELECT CAST(value AS BLOB) FROM"
        " json_each(?))",
        (asked,),
    ).fetchall()
    read += cache.db.execute(
        "SELECT n, scope, raw FROM line WHERE n IN (SELECT by FROM cover WHERE version IN (SELECT"
        " version FROM line WHERE memory IN (SELECT CAST(value AS BLOB) FROM json_each(?))))",
        (asked,),
    ).fetchall()
    records: dict[str, tuple[int, int, Record]] = {}
    for n, scope, raw in read:
        parsed = record.parse(raw)
        if parsed is None:
            raise Damaged("a stored record cannot be read")
        if n not in known.later:
            records[parsed.version] = n, scope, parsed
    today: dict[str, list[tuple[int, int, int, bytes]]] = {}
    sql = (
        "SELECT m.row, m.id, m.line, m.status, coalesce(u.digest, x'') FROM memory m LEFT JOIN"
        " united u ON u.row = m.row WHERE m.id IN (SELECT value FROM json_each(?)) ORDER BY m.row"
    )
    for row, id, line, status, digest in cache.db.execute(sql, (asked,)):
        today.setdefault(id, []).append((row, line, SUPERSEDED if id in back else status, digest))
    later: list[Row] = []
    hidden: list[int] = []
    memories = fold.fold([r for _, _, r in records.values()])
    scopes = {v: scope for v, (_, scope, _) in records.items()}
    for id in sorted(ids & memories.keys() & today.keys()):
        shown = [
            (*records[r.version][:2], r, status)
            for r, status in shown_rows(memories[id], scopes)
            if known.holds(str(r.data.get("commit") or ""))
        ]
        then_said = {(n, status, union_of(r)[1]) for n, _, r, status in shown}
        same = then_said == {found[1:] for found in today[id]}
        if not shown or (id not in back and same):
            continue
        state = min(status for _, _, status, _ in today[id])
        since = (
            "forgotten" if state == FORGOTTEN else "superseded" if state == SUPERSEDED else "edited"
        )
        by = (
            sorted(
                {
                    r.id
                    for r in known.later.values()
                    if r.id != id and set(r.after) & {s.version for _, _, s, _ in shown}
                }
            )
            if state == SUPERSEDED
            else []
        )
        hidden += [row for row, *_ in today[id]]
        later += [
            Row(n, r, status, scope, since, by, nth)
            for nth, (n, scope, r, status) in enumerate(shown)
        ]
    return later, hidden
