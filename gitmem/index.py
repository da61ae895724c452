"""Brings the cache up to date with the notes: lines in, folded memories out.

Promises. Exact freshness: the cache stores the tips it was built from, so it
is fresh or not, and no time limit is ever needed. Incremental: work grows with
what changed, by the difference of two notes trees; the result equals a rebuild
from nothing. A line once taken in stays, also when stock git removed it from
the ref: only a purge record takes lines away. All of one update is one
transaction: a crash leaves the state before it.

What is indexed: every visible version of every memory. Forgotten and
superseded ones keep a row (an import must not add them again), but no terms
and no vector, so no search can return them.
"""

from __future__ import annotations

import sqlite3

from . import embed, fold, record, text
from .cache import CODE, Cache, Damaged
from .digest import sha256
from .record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .notes import Notes

    Progress = Callable[[int], None]

TEAM, PRIVATE = 1, 2
SCOPE_BITS = {"team": TEAM, "private": PRIVATE}
ACTIVE, SUPERSEDED, FORGOTTEN = 0, 1, 2
_STATUS = {fold.ACTIVE: ACTIVE, fold.SUPERSEDED: SUPERSEDED, fold.FORGOTTEN: FORGOTTEN}

ON_THE_SPOT = 200  # new records a search takes in before it answers (P8)
_BATCH = 20_000  # lines folded and written at a time: bounds memory, not the transaction
_NUMPY_PAYS = 150  # texts from which importing numpy is cheaper than plain Python
_FORK_PAYS = 1000  # documents from which a second process is


def scope_name(bits: int) -> str:
    return "team" if bits & TEAM else "private"


def lexical_fields(data: dict[str, object]) -> tuple[str, str, str]:
    """(title, body, extra) as written into the full-text table."""
    extra: list[str] = []
    for name in ("subtitle", "phase"):
        if isinstance(data.get(name), str):
            extra.append(str(data[name]))
    for name in ("tags", "facts", "concepts"):
        extra.extend(str(v) for v in _list(data.get(name)))
    extra.extend(paths_of(data))
    return str(data.get("title") or ""), str(data.get("body") or ""), " ".join(extra)


def vector_text(data: dict[str, object]) -> str:
    """What a memory's vector is made of."""
    title, body, _ = lexical_fields(data)
    return f"{title}\n{body}" if title and not body.startswith(title) else body


def fts_fields(data: dict[str, object]) -> tuple[str, ...]:
    """The terms of each lexical field, joined by spaces."""
    return tuple([" ".join(text.terms(field)) for field in lexical_fields(data)])


def embed_texts(table: embed.StaticTable, texts: list[str]) -> list[tuple[bytes, bytes]]:
    """[(vector, sign code)]; a text without a known word gets zeros, which match nothing."""
    if len(texts) >= _NUMPY_PAYS:
        from . import vectors

        made = vectors.embed_many(table, texts)
    else:
        made = table.embed(texts)
    return [(v, embed.sign_code(v) if any(v) else bytes(CODE)) for v in made]


def prepare(table: embed.StaticTable, documents: list[dict[str, object]]) -> list[tuple[tuple[str, ...], bytes, bytes]]:
    """[(lexical fields, vector, sign code)] of records: all the work that needs no database, on two processors where it pays."""

    def work(part: list[dict[str, object]]) -> list[tuple[tuple[str, ...], bytes, bytes]]:
        embedded = embed_texts(table, [vector_text(d) for d in part])
        return [(fts_fields(d), vector, code) for d, (vector, code) in zip(part, embedded, strict=True)]

    if len(documents) < _FORK_PAYS:
        return work(documents)
    from . import parallel

    return parallel.halves(work, documents)


def paths_of(data: dict[str, object]) -> list[str]:
    return [str(p["path"]) for p in _list(data.get("paths")) if isinstance(p, dict) and isinstance(p.get("path"), str)]


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def content_digest(title: str, body: str) -> bytes:
    """Names a text for finding duplicates, whatever its salt: 16 bytes."""
    return sha256(" ".join(f"{title}\n{body}".split()).encode("utf-8", "replace")).digest()[:16]


def pending(cache: Cache, sources: Iterable[tuple[str, Notes]]) -> list[tuple[str, Notes, str, str]]:
    """(scope, notes, indexed tip, present tip) of every ref that moved since the cache was written."""
    out = []
    for scope, notes in sources:
        tip = notes.tip()
        seen = cache.meta("tip:" + notes.ref)
        if tip != seen and tip:
            out.append((scope, notes, seen, tip))
    return out


def refresh(cache: Cache, sources: list[tuple[str, Notes]], table: embed.StaticTable, *, most: int | None = None, progress: Progress | None = None,
            deep: bool = False) -> int | None:
    """Takes in what is new; returns the number of new lines, or None where there were more than `most`.

    `deep` reads the whole history and reflog of each ref instead of the change.
    Raises Damaged or sqlite3.DatabaseError for a file that must be rebuilt.
    """
    moved = [(s, n, "", n.tip()) for s, n in sources if n.tip()] if deep else pending(cache, sources)
    stale_space = cache.meta("space") != table.space
    if not moved and not stale_space:
        return 0
    lines: list[tuple[str, bytes, int]] = []
    for scope, notes, seen, tip in moved:
        for key, line in notes.lines(tip, since=seen, deep=deep):
            lines.append((key, line, SCOPE_BITS[scope]))
        if most is not None and len(lines) > most:
            return None
    if not cache.writable:
        return None
    cache.db.execute("BEGIN IMMEDIATE")
    try:
        update = _Update(cache, table, moved[0][1] if moved else None)
        if stale_space:
            update.reset_vectors()
        added = 0
        for i in range(0, len(lines), _BATCH):
            added += update.take(lines[i : i + _BATCH])
            if progress:
                progress(min(i + _BATCH, len(lines)))
        for _, notes, _, tip in moved:
            cache.set_meta("tip:" + notes.ref, tip)
        update.finish()
        cache.db.execute("COMMIT")
        return added
    except BaseException:
        if cache.db.in_transaction:
            cache.db.execute("ROLLBACK")
        raise


class _Update:
    """One transaction's worth of changes."""

    def __init__(self, cache: Cache, table: embed.StaticTable, notes: Notes | None) -> None:
        self.cache = cache
        self.db = cache.db
        self.table = table
        self.notes = notes
        self.next_row = int(cache.meta("rows", "0"))
        self.count = cache.count()
        self.dead = int(cache.meta("dead", "0"))
        self._continuations: dict[str, bool] = {}

    def reset_vectors(self) -> None:
        """Another table is another space: its vectors share nothing with the old ones."""
        self.db.execute("DELETE FROM vector")
        self.db.execute("DELETE FROM code")
        self.cache.set_meta("space", self.table.space)
        codes = dict.fromkeys(range(self.next_row), bytes(CODE))
        shown = self.db.execute("SELECT m.row, l.raw FROM memory m JOIN line l ON l.n = m.line WHERE m.status = 0 ORDER BY m.row").fetchall()
        made = embed_texts(self.table, [vector_text(_data(raw)) for _, raw in shown])
        codes.update({row: code for (row, _), (_, code) in zip(shown, made, strict=True)})
        self._vectors([(row, vector) for (row, _), (vector, _) in zip(shown, made, strict=True)], codes)

    def finish(self) -> None:
        for key, value in (("rows", self.next_row), ("count", self.count), ("dead", self.dead), ("space", self.table.space)):
            self.cache.set_meta(key, str(value))

    def take(self, lines: list[tuple[str, bytes, int]]) -> int:
        """Folds a batch of lines into the tables; returns how many records were new."""
        scopes: dict[str, int] = {}
        records: dict[str, Record] = {}
        keys: dict[str, set[str]] = {}
        for key, line, scope in lines:
            parsed = record.parse(line)
            if parsed is None:
                continue
            records[parsed.version] = parsed
            scopes[parsed.version] = scopes.get(parsed.version, 0) | scope
            anchor = parsed.data.get("commit")
            if key != anchor:
                keys.setdefault(parsed.version, set()).add(key)
        known = self._known(list(records))
        fresh = [r for v, r in records.items() if v not in known]
        affected = {r.id for r in fresh}
        covered = [v for r in fresh if r.op in record.COVER_OPS for v in r.after]
        affected |= self._memories_of(covered)
        for v, (n, scope, memory) in known.items():
            if scope | scopes[v] != scope:
                self.db.execute("UPDATE line SET scope = scope | ? WHERE n = ?", (scopes[v], n))
                affected.add(memory)
        purges = self._purges(fresh)
        purged_ids, purged_lines = fold.purged(purges)
        if purged_ids or purged_lines:
            affected |= purged_ids | self._memories_of(list(purged_lines))
            fresh = [r for r in fresh if r.op == "purge" or (r.id not in purged_ids and r.version not in purged_lines)]
        present = self._having_lines(affected)
        self._store(fresh, scopes)
        self._places(keys)
        self._fold(affected, present, fresh, purges)
        self._erase(purged_ids, purged_lines)
        return len(fresh)

    # Lines

    def _known(self, versions: list[str]) -> dict[str, tuple[int, int, str]]:
        out: dict[str, tuple[int, int, str]] = {}
        for part in _parts([bytes.fromhex(v) for v in versions]):
            for n, version, scope, memory in self.db.execute(f"SELECT n, version, scope, memory FROM line WHERE version IN ({_marks(part)})", part):
                out[version.hex()] = (n, scope, memory.decode())
        return out

    def _memories_of(self, versions: list[str]) -> set[str]:
        out: set[str] = set()
        for part in _parts([v for v in map(_bytes, versions) if v]):
            out.update(m.decode() for (m,) in self.db.execute(f"SELECT memory FROM line WHERE version IN ({_marks(part)})", part))
        return out

    def _having_lines(self, memories: set[str]) -> set[str]:
        """Those of the ids that had lines before this batch."""
        out: set[str] = set()
        for part in _parts([m.encode("utf-8", "replace") for m in memories]):
            out.update(m.decode() for (m,) in self.db.execute(f"SELECT DISTINCT memory FROM line WHERE memory IN ({_marks(part)})", part))
        return out

    def _purges(self, fresh: list[Record]) -> list[Record]:
        old = [record.parse(raw) for (raw,) in self.db.execute("SELECT raw FROM line WHERE op = 'purge'")]
        return [r for r in fresh if r.op == "purge"] + [r for r in old if r]

    def _store(self, fresh: list[Record], scopes: dict[str, int]) -> None:
        self.db.executemany("INSERT INTO line(version, memory, op, scope, raw) VALUES(?, ?, ?, ?, ?)",
                            [(bytes.fromhex(r.version), r.id.encode("utf-8", "replace"), r.op, scopes[r.version], r.line) for r in fresh])
        covers = [(b, bytes.fromhex(r.version)) for r in fresh if r.op in record.COVER_OPS for b in map(_bytes, r.after) if b]
        self.db.executemany("INSERT OR IGNORE INTO cover SELECT ?, n FROM line WHERE version = ?", covers)

    def _places(self, keys: dict[str, set[str]]) -> None:
        """Remembers the other commits a line was found at. A continuation is no commit."""
        rows = [(key, bytes.fromhex(v)) for v, found in keys.items() for key in found if not self._is_continuation(key)]
        self.db.executemany("INSERT OR IGNORE INTO place SELECT n, ? FROM line WHERE version = ?", rows)

    def _is_continuation(self, key: str) -> bool:
        if key not in self._continuations:
            found = self.notes.git.objects.get(key) if self.notes else None
            self._continuations[key] = bool(found and found[1] == "blob")
        return self._continuations[key]

    # Memories

    def _fold(self, affected: set[str], present: set[str], fresh: list[Record], purges: list[Record]) -> None:
        """Folds the affected memories from all their lines and replaces their rows where they changed."""
        subset = {r.version: r for r in fresh if r.id in affected and r.op != "purge"}
        for part in _parts([m.encode("utf-8", "replace") for m in present]):
            for (raw,) in self.db.execute(f"SELECT raw FROM line WHERE memory IN ({_marks(part)})", part):
                parsed = record.parse(raw)
                if parsed is None:
                    raise Damaged("a stored record cannot be read")
                subset[parsed.version] = parsed
        # Records of other memories that cover these versions: supersedes.
        for part in _parts([bytes.fromhex(v) for v in subset]):
            for (raw,) in self.db.execute(f"SELECT l.raw FROM cover c JOIN line l ON l.n = c.by WHERE c.version IN ({_marks(part)})", part):
                parsed = record.parse(raw)
                if parsed and parsed.version not in subset:
                    subset[parsed.version] = parsed
        memories = fold.fold([*subset.values(), *purges])
        old: dict[str, list[tuple[int, str, int]]] = {}
        for part in _parts(sorted(affected)):
            for row, id, status, version in self.db.execute(f"SELECT m.row, m.id, m.status, l.version FROM memory m LEFT JOIN line l ON l.n = m.line WHERE m.id IN ({_marks(part)})", part):
                old.setdefault(id, []).append((row, version.hex() if version else "", status))
        removed: list[int] = []
        wanted: list[tuple[Record, int]] = []
        for id in sorted(affected):
            memory = memories.get(id)
            rows = self._rows_of(memory) if memory else []
            keep = {(r.version, status) for r, status in rows}
            have = {(version, status) for _, version, status in old.get(id, [])}
            removed += [row for row, version, status in old.get(id, []) if (version, status) not in keep]
            wanted += [(r, status) for r, status in rows if (r.version, status) not in have]
        self._remove(removed)
        self._add(wanted)
        self._rescope(affected & present)

    @staticmethod
    def _rows_of(memory: fold.Memory) -> list[tuple[Record, int]]:
        status = _STATUS[memory.status]
        if status == FORGOTTEN:
            contents = [r for r in memory.records if r.op in record.CONTENT_OPS]
            return [(contents[0], FORGOTTEN)] if contents else []
        return [(r, status) for r in memory.versions]

    def _erase(self, ids: set[str], versions: set[str]) -> None:
        """Purged lines leave no text here."""
        doomed = [(id.encode("utf-8", "replace"), b"") for id in ids] + [(b"", v) for v in map(_bytes, versions)]
        for key in doomed:
            self.db.execute("DELETE FROM cover WHERE by IN (SELECT n FROM line WHERE (memory = ? OR version = ?) AND op <> 'purge')", key)
            self.db.execute("DELETE FROM line WHERE (memory = ? OR version = ?) AND op <> 'purge'", key)

    def _remove(self, rows: list[int]) -> None:
        for row in rows:
            status, raw = self.db.execute("SELECT m.status, l.raw FROM memory m LEFT JOIN line l ON l.n = m.line WHERE m.row = ?", (row,)).fetchone()
            if status == ACTIVE:
                if raw is None:
                    raise Damaged("a memory has lost its record")
                fields = fts_fields(_data(raw))
                self.db.execute("INSERT INTO fts(fts, rowid, title, body, extra) VALUES('delete', ?, ?, ?, ?)", (row, *fields))
                self.db.executemany("UPDATE term SET df = df - 1 WHERE word = ?", [(w,) for w in set(" ".join(fields).split())])
                self.db.execute("DELETE FROM vector WHERE row = ?", (row,))
                self.cache.set_codes({row: bytes(CODE)})
                self.count -= 1
            self.dead += 1
        for part in _parts(rows):
            self.db.execute(f"DELETE FROM label WHERE row IN ({_marks(part)})", part)
            self.db.execute(f"DELETE FROM memory WHERE row IN ({_marks(part)})", part)

    def _add(self, wanted: list[tuple[Record, int]]) -> None:
        memory_rows: list[tuple[object, ...]] = []
        labels: list[tuple[str, str, int]] = []
        first = self.next_row
        for row, (r, status) in enumerate(wanted, first):
            d = r.data
            memory_rows.append((row, r.id, status, _text(d, "type"), _text(d, "at"), _text(d, "author"), _text(d, "phase"), _text(d, "source") or None,
                                _text(d, "commit"), content_digest(_text(d, "title"), _text(d, "body")), bytes.fromhex(r.version)))
            labels += [("tag", str(t), row) for t in set(map(str, _list(d.get("tags"))))]
            labels += [("path", p, row) for p in set(paths_of(d))]
        self.next_row += len(wanted)
        self.db.executemany("INSERT INTO memory(row, id, line, status, scope, type, at, author, phase, source, anchor, digest)"
                            " SELECT ?1, ?2, n, ?3, scope, ?4, ?5, ?6, ?7, ?8, ?9, ?10 FROM line WHERE version = ?11", memory_rows)
        self.db.executemany("INSERT OR IGNORE INTO label VALUES(?, ?, ?)", labels)
        shown = [(row, r.data) for row, (r, status) in enumerate(wanted, first) if status == ACTIVE]
        self.count += len(shown)
        made = prepare(self.table, [data for _, data in shown])
        self.db.executemany("INSERT INTO fts(rowid, title, body, extra) VALUES(?, ?, ?, ?)",
                            [(row, *fields) for (row, _), (fields, _, _) in zip(shown, made, strict=True)])
        frequency: dict[str, int] = {}
        for fields, _, _ in made:
            for w in set(" ".join(fields).split()):
                frequency[w] = frequency.get(w, 0) + 1
        self.db.executemany("INSERT INTO term VALUES(?, ?) ON CONFLICT(word) DO UPDATE SET df = df + excluded.df", sorted(frequency.items()))
        codes = dict.fromkeys(range(first, self.next_row), bytes(CODE))
        codes.update({row: code for (row, _), (_, _, code) in zip(shown, made, strict=True)})
        self._vectors([(row, vector) for (row, _), (_, vector, _) in zip(shown, made, strict=True)], codes)

    def _vectors(self, vectors: list[tuple[int, bytes]], codes: dict[int, bytes]) -> None:
        self.db.executemany("INSERT OR REPLACE INTO vector VALUES(?, ?)", vectors)
        self.cache.set_codes(codes)

    def _rescope(self, memories: set[str]) -> None:
        """A memory is the team's as soon as one of its shown lines is."""
        for part in _parts(sorted(memories)):
            self.db.execute(f"UPDATE memory SET scope = (SELECT scope FROM line WHERE n = memory.line) WHERE id IN ({_marks(part)})", part)


def _data(raw: bytes) -> dict[str, object]:
    parsed = record.parse(raw)
    if parsed is None:
        raise Damaged("a stored record cannot be read")
    return parsed.data


def _text(data: dict[str, object], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


def _bytes(version: str) -> bytes:
    try:
        return bytes.fromhex(version)
    except ValueError:
        return b""


def _parts(items: list[object] | list[bytes] | list[str] | list[int], size: int = 500) -> Iterator[list[object]]:
    for i in range(0, len(items), size):
        yield list(items[i : i + size])


def _marks(part: list[object]) -> str:
    return ",".join("?" * len(part))


def check_all(cache: Cache) -> str:
    """The first thing wrong with a cache, "" where nothing is: the full check of doctor and worker."""
    try:
        (answer,) = cache.db.execute("PRAGMA quick_check(1)").fetchone()
        if answer != "ok":
            return str(answer)
        for version, raw in cache.db.execute("SELECT version, raw FROM line"):
            if record.version_of(raw) != version.hex():
                return f"the record {version.hex()[:8]} has changed"
        cache.codes()
        (rows,) = cache.db.execute("SELECT count(*) FROM memory WHERE status = 0").fetchone()
        if rows != cache.count():
            return f"{rows} memories are indexed, {cache.count()} were counted"
    except (Damaged, sqlite3.DatabaseError) as e:
        return str(e)
    return ""
