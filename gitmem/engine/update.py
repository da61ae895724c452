"""The rows of one cache update: what a batch of lines changes in the tables.

Promise: rows depend on the set of lines taken so far, not on their order or
portions, up to row numbers (rows of one memory stand in the order in which
they are shown). The caller owns the transaction.

What is indexed: every visible version of every memory. Forgotten and
superseded ones keep a row (an import must not add them again), but no terms
and no vector, so no search can return them.
"""

from __future__ import annotations

from ..core import fold, record
from ..core.record import Record
from . import anchor_state_store, noted_paths, usage_store
from .cache import CODE, Damaged
from .document import (
    ACTIVE,
    columns,
    embed_texts,
    labels,
    prepare,
    shown_rows,
    union_of,
    vector_text,
)
from .memory_rows import TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..notes.note_store import Notes
    from .cache import Cache
    from .document import Ahead, Prepared
    from .embed import StaticTable

    _Wanted = tuple[Record, int, int]  # status, place among the versions shown


class Update:
    """One transaction's worth of changes."""

    def __init__(
        self, cache: Cache, table: StaticTable, notes: Notes | None, ahead: Ahead | None = None
    ) -> None:
        self.cache = cache
        self.ahead = ahead
        self.db = cache.db
        self.table = table
        self.notes = notes
        self.next_row = int(cache.meta("rows", "0"))
        self.count = cache.count()
        self.erased = False
        self._places: dict[str, str] = {}  # of the keys of notes: `_place`

    def reset_vectors(self) -> None:
        """Another table is another space: its vectors share nothing with the old ones."""
        self.db.execute("DELETE FROM vector")
        self.db.execute("DELETE FROM code")
        self.cache.set_meta("space", self.table.space)
        codes = dict.fromkeys(range(self.next_row), bytes(CODE))
        sql = f"SELECT m.row, {TEXT} WHERE m.status = 0 ORDER BY m.row"
        shown = self.db.execute(sql).fetchall()
        made = embed_texts(self.table, [vector_text(_parsed(raw).data) for _, raw in shown])
        codes.update({row: code for (row, _), (_, code) in zip(shown, made, strict=True)})
        self._vectors(
            [(row, vector) for (row, _), (vector, _) in zip(shown, made, strict=True)], codes
        )

    def finish(self) -> bool:
        """Writes the totals; returns whether purged text must still be scrubbed from the file."""
        for key, value in (
            ("rows", self.next_row),
            ("count", self.count),
            ("dead", self.next_row - self.count),
            ("space", self.table.space),
        ):
            self.cache.set_meta(key, str(value))
        if self.erased:
            # A removed row's words stay in its full-text block until blocks are merged.
            self.db.execute("INSERT INTO fts(fts) VALUES('optimize')")
            self.cache.set_meta(
                "scrub", "1"
            )  # the file itself can only be rewritten outside of the transaction
        return self.erased

    def take(self, lines: list[tuple[str, bytes, int]]) -> int:
        """Folds a batch of lines into the tables; returns how many records were new."""
        scopes: dict[str, int] = {}
        records: dict[str, Record] = {}
        keys: dict[str, set[str]] = {}
        for key, line, scope in lines:
            parsed = record.parse(line)
            if parsed is None or not _storable(parsed.id):
                continue
            records[parsed.version] = parsed
            scopes[parsed.version] = scopes.get(parsed.version, 0) | scope
            anchor = parsed.data.get("commit")
            if key != anchor:
                keys.setdefault(parsed.version, set()).add(key)
        known = self._known(list(records))
        fresh = [r for v, r in records.items() if v not in known]
        purges = [r for r in fresh if r.op == "purge"]
        ids, versions = fold.purged(purges)
        old_ids, old_versions = fold.purged(self._old_purges())
        fresh = [
            r
            for r in fresh
            if r.op == "purge"
            or (r.id not in ids | old_ids and r.version not in versions | old_versions)
        ]
        affected = {
            r.id
            for r in fresh
            if r.op != "purge" and r.op not in record.COMMIT_OPS + record.APART_OPS
        }
        affected |= self._memories_of(
            [v for r in fresh if r.op in record.COVER_OPS for v in r.after]
        )
        for v, (n, scope, memory) in known.items():
            if scope | scopes[v] != scope:
                self.db.execute("UPDATE line SET scope = scope | ? WHERE n = ?", (scopes[v], n))
                affected.add(memory)
        doomed = self._doomed(ids, versions) if ids or versions else []
        if doomed:
            # What a purged record covered comes back.
            affected |= (
                ids
                | self._memories_of(list(versions))
                | self._memories_of(self._covered_by(doomed))
            )
        present = self._having_lines(affected)
        self._store(fresh, scopes)
        self._moves(records, keys)
        self._fold(affected, present, fresh, purges, scopes)
        self._erase(doomed)
        gone = ids | old_ids
        if doomed or ids:
            usage_store.again(self.db, gone)
        else:
            # A line that was the team's alone and is private now speaks from now on.
            spoken = [
                records[v]
                for v, (_, scope, _) in known.items()
                if scopes[v] & ~scope & usage_store.PRIVATE
            ] + [r for r in fresh if scopes[r.version] & usage_store.PRIVATE]
            usage_store.take(self.db, spoken, affected, gone)
        return len(fresh)

    # Lines

    def _known(self, versions: list[str]) -> dict[str, tuple[int, int, str]]:
        out: dict[str, tuple[int, int, str]] = {}
        for part in _parts([bytes.fromhex(v) for v in versions]):
            for n, version, scope, memory in self.db.execute(
                f"SELECT n, version, scope, memory FROM line WHERE version IN ({_marks(part)})",
                part,
            ):
                out[version.hex()] = (n, scope, memory.decode())
        return out

    def _memories_of(self, versions: list[str]) -> set[str]:
        out: set[str] = set()
        for part in _parts([v for v in map(_bytes, versions) if v]):
            out.update(
                m.decode()
                for (m,) in self.db.execute(
                    f"SELECT memory FROM line WHERE version IN ({_marks(part)})", part
                )
            )
        return out

    def _having_lines(self, memories: set[str]) -> set[str]:
        """Those of the ids that had lines before this batch."""
        out: set[str] = set()
        for part in _parts([m.encode() for m in memories]):
            out.update(
                m.decode()
                for (m,) in self.db.execute(
                    f"SELECT DISTINCT memory FROM line WHERE memory IN ({_marks(part)})", part
                )
            )
        return out

    def _old_purges(self) -> list[Record]:
        return [
            _parsed(raw) for (raw,) in self.db.execute("SELECT raw FROM line WHERE op = 'purge'")
        ]

    def _doomed(self, ids: set[str], versions: set[str]) -> list[int]:
        """The stored lines that purge records name."""
        out: list[int] = []
        for column, names in (
            ("memory", [i.encode("utf-8", "replace") for i in ids]),
            ("version", [v for v in map(_bytes, versions) if v]),
        ):
            for part in _parts(names):
                out += [
                    n
                    for (n,) in self.db.execute(
                        f"SELECT n FROM line WHERE {column} IN ({_marks(part)}) AND op <> 'purge'",
                        part,
                    )
                ]
        return list(dict.fromkeys(out))

    def _covered_by(self, lines: list[int]) -> list[str]:
        out: list[str] = []
        for part in _parts(lines):
            raws = self.db.execute(
                f"SELECT raw FROM line WHERE n IN ({_marks(part)})", part
            ).fetchall()
            out += [v for (raw,) in raws for v in _parsed(raw).after]
        return out

    def _store(self, fresh: list[Record], scopes: dict[str, int]) -> None:
        self.db.executemany(
            "INSERT INTO line(version, memory, op, scope, raw) VALUES(?, ?, ?, ?, ?)",
            [
                (bytes.fromhex(r.version), r.id.encode(), r.op, scopes[r.version], r.line)
                for r in fresh
            ],
        )
        covers = [
            (b, _counts_from(r), bytes.fromhex(r.version))
            for r in fresh
            if r.op in record.COVER_OPS
            for b in map(_bytes, r.after)
            if b
        ]
        self.db.executemany(
            "INSERT OR IGNORE INTO cover SELECT ?, n, ? FROM line WHERE version = ?", covers
        )
        said = [
            (r.id, to, bytes.fromhex(r.version))
            for r in fresh
            if r.op == "move"
            and record.object_id(r.id)
            and (to := record.object_id(r.data.get("commit"))) not in ("", r.id)
        ]
        self.db.executemany(
            "INSERT OR IGNORE INTO move SELECT ?, ?, n FROM line WHERE version = ?", said
        )
        marks = _patch_marks(fresh)
        known = {
            mark
            for commit in {commit for commit, *_ in marks}
            for mark in self.db.execute(
                "SELECT commit_id, patch, base, branch_patch FROM patch_mark WHERE commit_id = ?",
                (commit,),
            )
        }
        self.db.executemany(
            "INSERT INTO patch_mark VALUES(?, ?, ?, ?, 1) ON CONFLICT(commit_id, patch, base,"
            " branch_patch) DO UPDATE SET uses = uses + 1",
            marks,
        )
        anchor_state_store.forget(self.db, [mark[0] for mark in marks if mark not in known])
        anchor_state_store.forget(self.db, [old for old, *_ in said], moved=True)

    def _moves(self, records: dict[str, Record], keys: dict[str, set[str]]) -> None:
        """Remembers the other commits a line was found at, in their notes or in continuations of
        these.
        """
        rows = []
        for v, found in keys.items():
            old = record.object_id(records[v].data.get("commit"))
            places = {self._place(key) for key in found} if old else set()
            rows += [(old, place, bytes.fromhex(v)) for place in sorted(places - {"", old})]
        self.db.executemany(
            "INSERT OR IGNORE INTO move SELECT ?, ?, n FROM line WHERE version = ?", rows
        )
        anchor_state_store.forget(self.db, [old for old, _, _ in rows], moved=True)

    def _place(self, key: str) -> str:
        """The commit that a note's key stands for, "" for none."""
        if key not in self._places and self.notes:
            from ..notes import (
                notetree,
            )  # loads `subprocess`, and a prompt that asks without notes waits for it

            git = self.notes.git
            # A commit that a partial clone does not have is not fetched for its name; what the
            # notes keep alive is.
            found = git.local.get(key, git.largest)
            if not found and git.promised and self.notes.keeps(key):
                found = git.objects.get(key, git.largest)
            blob = found[2] if found and found[1] == "blob" else None
            self._places[key] = (
                key if blob is None else record.object_id(notetree.continued(blob, len(key)))
            )
        return self._places.get(key, key)

    # Memories

    def _fold(
        self,
        affected: set[str],
        present: set[str],
        fresh: list[Record],
        purges: list[Record],
        scopes: dict[str, int],
    ) -> None:
        """Folds the affected memories from all their lines and replaces their rows where they
        changed.
        """
        subset = {r.version: r for r in fresh if r.id in affected and r.op != "purge"}
        bits = dict(scopes)
        for part in _parts([m.encode() for m in present]):
            for raw, scope in self.db.execute(
                f"SELECT raw, scope FROM line WHERE memory IN ({_marks(part)}) AND op <> 'purge'",
                part,
            ):
                r = _parsed(raw)
                subset[r.version] = r
                bits[r.version] = scope
        # Records of other memories that cover these versions: supersedes.
        for part in _parts([bytes.fromhex(v) for v in subset]):
            for (raw,) in self.db.execute(
                "SELECT DISTINCT l.raw FROM cover c JOIN line l ON l.n = c.by WHERE c.version IN"
                f" ({_marks(part)})",
                part,
            ):
                r = _parsed(raw)
                subset.setdefault(r.version, r)
        memories = fold.fold([*subset.values(), *purges])
        old: dict[str, list[tuple[int, str, int, bytes]]] = {}
        for part in _parts(sorted(affected)):
            # What came back at some HEAD (-1) says active without its records, and is hidden at
            # others: it is made anew as they say it.
            sql = (
                "SELECT m.row, m.id, m.status, l.version, m.row IN (SELECT row FROM reinstated),"
                " coalesce(u.digest, x'') FROM memory m LEFT JOIN line l ON l.n = m.line LEFT JOIN"
                f" united u ON u.row = m.row WHERE m.id IN ({_marks(part)})"
            )
            for row, id, status, version, back, digest in self.db.execute(sql, part):
                version = version.hex() if version else ""
                old.setdefault(id, []).append((row, version, -1 if back else status, digest))
        removed: list[int] = []
        wanted: list[_Wanted] = []
        for id in sorted(affected):
            memory = memories.get(id)
            rows = shown_rows(memory, bits) if memory else []
            # All rows of a changed memory are made anew, so that their order never tells what came
            # first.
            new = [(r.version, status, union_of(r)[1]) for r, status in rows]
            if new != [found[1:] for found in sorted(old.get(id, []))]:
                removed += [row for row, *_ in old.get(id, [])]
                wanted += [(r, status, nth) for nth, (r, status) in enumerate(rows)]
        self._remove(removed)
        self._add(wanted)
        self._rescope(affected & present)

    def take_out(self, ids: set[str], lines: list[int]) -> None:
        """Takes lines away and folds the memories that they changed anew (`snapshot_view`)."""
        rows: list[int] = []
        for part in _parts(sorted(ids)):
            found = self.db.execute(f"SELECT row FROM memory WHERE id IN ({_marks(part)})", part)
            rows += [row for (row,) in found]
        self._remove(rows)
        for part in _parts(lines):
            for table, column in (("line", "n"), ("cover", "by")):
                self.db.execute(f"DELETE FROM {table} WHERE {column} IN ({_marks(part)})", part)
        self._fold(ids, ids, [], [], {})

    def _erase(self, lines: list[int]) -> None:
        """Purged lines leave no text here: their rows went with the fold, these go now, the file is
        scrubbed after.
        """
        for part in _parts(lines):
            marks = _marks(part)
            gone = [
                _parsed(raw)
                for (raw,) in self.db.execute(f"SELECT raw FROM line WHERE n IN ({marks})", part)
            ]
            named = "commit_id = ? AND patch = ? AND base = ? AND branch_patch = ?"
            marks_gone = _patch_marks(gone)
            self.db.executemany(f"UPDATE patch_mark SET uses = uses - 1 WHERE {named}", marks_gone)
            self.db.executemany(f"DELETE FROM patch_mark WHERE {named} AND uses <= 0", marks_gone)
            for table, column in (
                ("cover", "by"),
                ("move", "n"),
                ("signature", "n"),
                ("line", "n"),
            ):
                self.db.execute(f"DELETE FROM {table} WHERE {column} IN ({marks})", part)
            # Their numbers may be given again: no line counts as looked at by `trust` for its
            # number alone.
            self.db.execute("DELETE FROM meta WHERE key = 'checked'")
            for table in ("head", "anchor_state", "path_state"):  # they may rest on its moves
                self.db.execute(f"DELETE FROM {table}")
            self.erased = True

    def _remove(self, rows: list[int]) -> None:
        shown: list[tuple[int, str]] = []
        for part in _parts(rows):
            shown += self.db.execute(
                "SELECT rowid, title || ' ' || body || ' ' || extra FROM fts"
                f" WHERE rowid IN ({_marks(part)})",
                part,
            )
        self.db.executemany("DELETE FROM fts WHERE rowid = ?", [(row,) for row, _ in shown])
        words = [(w,) for _, held in shown for w in set(held.split())]
        self.db.executemany("UPDATE term SET df = df - 1 WHERE word = ?", words)
        self.db.executemany("DELETE FROM term WHERE word = ? AND df <= 0", words)
        self.db.executemany("DELETE FROM vector WHERE row = ?", [(row,) for row, _ in shown])
        if rows:
            from . import (
                model_vectors,  # only where rows go: hooks that take in new ones wait for it
            )

            model_vectors.leave(self.db, rows)
        self.cache.set_codes({row: bytes(CODE) for row, _ in shown})
        self.count -= len(shown)
        for part in _parts(rows):
            noted_paths.leave(self.db, part)
            for table, column in (
                ("reinstated", "row"),
                ("label", "row"),
                ("united", "row"),
                ("memory", "row"),
            ):
                self.db.execute(f"DELETE FROM {table} WHERE {column} IN ({_marks(part)})", part)

    def _add(self, wanted: list[_Wanted]) -> None:
        first = self.next_row
        memory_rows = [
            (row, r.id, status, *columns(r.data), bytes.fromhex(r.version), nth)
            for row, (r, status, nth) in enumerate(wanted, first)
        ]
        tagged = [
            (kind, value, row)
            for row, (r, *_) in enumerate(wanted, first)
            for kind, value in labels(r.data)
        ]
        self.next_row += len(wanted)
        self.db.executemany(
            "INSERT INTO memory(row, id, line, status, scope, type, at, author, phase, source,"
            " anchor, digest, confidence, nth) SELECT ?1, ?2, n, ?3, scope, ?4, ?5, ?6, ?7, ?8, ?9,"
            " ?10, ?11, ?13 FROM line WHERE version = ?12",
            memory_rows,
        )
        for row, (r, *_) in enumerate(wanted, first):
            parts, digest = union_of(r)
            if parts:
                self._unite(row, parts, digest, r.line)
        self.db.executemany("INSERT OR IGNORE INTO label VALUES(?, ?, ?)", tagged)
        shown = [
            (row, r.data) for row, (r, status, _) in enumerate(wanted, first) if status == ACTIVE
        ]
        noted_paths.add(self.db, shown)
        self.count += len(shown)
        made = self._prepared([r for r, status, _ in wanted if status == ACTIVE])
        self.db.executemany(
            "INSERT INTO fts(rowid, title, body, extra) VALUES(?, ?, ?, ?)",
            [(row, *fields) for (row, _), (fields, _, _) in zip(shown, made, strict=True)],
        )
        frequency: dict[str, int] = {}
        for fields, _, _ in made:
            for w in set(" ".join(fields).split()):
                frequency[w] = frequency.get(w, 0) + 1
        self.db.executemany(
            "INSERT INTO term VALUES(?, ?) ON CONFLICT(word) DO UPDATE SET df = df + excluded.df",
            sorted(frequency.items()),
        )
        codes = dict.fromkeys(range(first, self.next_row), bytes(CODE))
        codes.update({row: code for (row, _), (_, _, code) in zip(shown, made, strict=True)})
        self._vectors(
            [(row, vector) for (row, _), (_, vector, _) in zip(shown, made, strict=True)], codes
        )

    def _unite(self, row: int, parts: tuple[str, ...], digest: bytes, raw: bytes) -> None:
        versions = [bytes.fromhex(v) for v in parts]
        self.db.execute(
            "INSERT INTO united SELECT ?, json_group_array(n), ?, ? FROM"
            f" (SELECT n FROM line WHERE version IN ({_marks([*versions])}) ORDER BY n)",
            (row, digest, raw, *versions),
        )

    def again(self, row: int, status: int) -> int:
        """Makes a row anew with another status, whatever its records say (`reinstate`); returns its
        new number.
        """
        sql = f"SELECT m.nth, l.version, u.lines, {TEXT} WHERE m.row = ?"
        nth, version, lines, raw = self.db.execute(sql, (row,)).fetchone()
        found = _parsed(raw)
        if lines:
            from ..core.unite import United

            of = "SELECT version FROM line WHERE n IN (SELECT value FROM json_each(?))"
            parts = self.db.execute(of, (lines,))
            found = United(found.data, version.hex(), tuple(sorted(v.hex() for (v,) in parts)))
        self._remove([row])
        self._add([(found, status, nth)])
        return self.next_row - 1

    def _prepared(self, shown: list[Record]) -> list[Prepared]:
        done = self.ahead.results() if self.ahead else {}
        done = {
            r.version: done[r.version] for r in shown if r.version in done and not union_of(r)[0]
        }
        left = [r for r in shown if r.version not in done]
        made = dict(
            zip([r.version for r in left], prepare(self.table, [r.data for r in left]), strict=True)
        )
        return [done.get(r.version) or made[r.version] for r in shown]

    def _vectors(self, vectors: list[tuple[int, bytes]], codes: dict[int, bytes]) -> None:
        self.cache.set_vectors(vectors)
        self.cache.set_codes(codes)

    def _rescope(self, memories: set[str]) -> None:
        """A memory is the team's as soon as one of its shown lines is."""
        for part in _parts(sorted(memories)):
            self.db.execute(
                "UPDATE memory SET scope = (SELECT scope FROM line WHERE n = memory.line) WHERE id"
                f" IN ({_marks(part)})",
                part,
            )


def _parsed(raw: bytes) -> Record:
    parsed = record.parse(raw)
    if parsed is None:
        raise Damaged("a stored record cannot be read")
    return parsed


def _patch_marks(records: list[Record]) -> list[tuple[str, str, str, str]]:
    return [m for m in (record.marks_of(r.data) for r in records) if m]


def _counts_from(r: Record) -> str:
    """The commit from which on a record takes another memory's versions away, as `records_at` has
    it; an edit of one version takes none."""
    named = (
        r.data.get("commit")
        if r.op == "create"
        else r.data.get("head")
        if r.op == "edit" and len(r.after) > 1
        else ""
    )
    return record.object_id(named)


def _storable(id: str) -> bool:
    """Whether an id is proper text; no tool of ours writes another."""
    try:
        id.encode()
        return True
    except UnicodeEncodeError:
        return False


def _bytes(version: str) -> bytes:
    try:
        return bytes.fromhex(version)
    except ValueError:
        return b""


def _parts(
    items: list[object] | list[bytes] | list[str] | list[int], size: int = 500
) -> Iterator[list[object]]:
    for i in range(0, len(items), size):
        yield list(items[i : i + size])


def _marks(part: list[object]) -> str:
    return ",".join("?" * len(part))
