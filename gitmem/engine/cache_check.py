"""The full check of a cache: everything that its stored lines give, made again and compared.

For `doctor` and workers: it costs about what a rebuild does, and judges one state of the cache,
beside its writers. Promise: it finds every row that differs from what the stored lines give:
memories, labels, paths, term frequencies, full-text postings and lengths, vectors, sign codes,
counts, marks, moves and use, and damage to the structure of the file. Whether all lines are there
is for `index.pending` to say. Not compared is what git said about commits and paths and about
signatures: no line gives it, and asking git again would take minutes.
"""

from __future__ import annotations

from collections import Counter

from ..core import fastjson, fold, record
from . import document, embed, line_tables, model_vectors, noted_paths, usage_store
from .cache import CODE, Cache, Moved


class Busy(Exception):
    """Others write to the cache and let nobody look; it says nothing about damage."""


def check_all(cache: Cache, table: embed.StaticTable | None = None) -> str:
    """The first thing wrong with a cache, "" where nothing is. `table`: to make the vectors again.

    Raises Busy, and Moved where the cache was removed or replaced meanwhile.
    """
    try:
        cache.db.execute("BEGIN")  # all reads see one state, whatever others write meanwhile
        try:
            wrong = _stored(cache, table)
        finally:
            if cache.db.in_transaction:
                cache.db.execute("ROLLBACK")
    except Exception as e:  # a value of any shape may stand in a damaged file
        if getattr(e, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise Busy from e
        wrong = str(e) or type(e).__name__
    if wrong and cache.moved():
        raise Moved("the cache was removed or replaced while it was checked")
    return wrong


def _stored(cache: Cache, table: embed.StaticTable | None) -> str:
    (answer,) = cache.db.execute("PRAGMA integrity_check(1)").fetchone()
    return _lines(cache, table) if answer == "ok" else str(answer)


def _lines(cache: Cache, table: embed.StaticTable | None) -> str:  # noqa: C901
    db = cache.db
    records: list[record.Record] = []
    scopes: dict[str, int] = {}
    covers: set[tuple[bytes, int]] = set()
    marks: Counter[tuple[str, str, str, str]] = Counter()
    moved: dict[int, tuple[str, str]] = {}
    for n, version, memory, op, scope, raw in db.execute(
        "SELECT n, version, memory, op, scope, raw FROM line"
    ):
        parsed = record.parse(raw)
        if (
            parsed is None
            or parsed.version != version.hex()
            or parsed.id.encode() != memory
            or parsed.op != op
        ):
            return f"the record {version.hex()[:8]} has changed"
        records.append(parsed)
        scopes[parsed.version] = scope
        if op in record.COVER_OPS:
            covers.update((v, n) for v in line_tables.proper(parsed.after))
        marks.update(m for m in [record.marks_of(parsed.data)] if m)
        moved[n] = record.object_id(parsed.data.get("commit")), parsed.id if op == "move" else ""
    if covers != set(db.execute("SELECT version, by FROM cover")):
        return "the links between records differ from the records"
    sql = "SELECT commit_id, patch, base, branch_patch, uses FROM patch_mark"
    if dict(marks) != {tuple(mark): uses for *mark, uses in db.execute(sql)}:
        return "the marks of commits differ from the records"
    moves = db.execute("SELECT old, new, n FROM move").fetchall()
    stated = {
        (id, to, n)
        for n, (to, id) in moved.items()
        if id and to not in ("", id) and record.object_id(id)
    }
    # Where a line was found beside its own commit only the notes know.
    if not stated <= set(moves) or any(
        n not in moved or old != moved[n][0] for old, _, n in set(moves) - stated
    ):
        return "the moves of commits differ from the records"
    wanted = {
        (r.version, status): (r, nth)
        for m in fold.fold(records).values()
        for nth, (r, status) in enumerate(document.shown_rows(m, scopes))
    }
    rows: dict[int, record.Record] = {}
    # Their rows say active although they are superseded.
    back = {row for (row,) in db.execute("SELECT row FROM reinstated")}
    unions = {
        row: tuple(rest) for row, *rest in db.execute("SELECT row, lines, digest, raw FROM united")
    }
    numbers = dict(db.execute("SELECT lower(hex(version)), n FROM line"))
    for row, id, version, status, nth, scope, *columns in db.execute(
        "SELECT m.row, m.id, l.version, m.status, m.nth, m.scope, m.type, m.at, m.author, m.phase,"
        " m.source, m.anchor, m.digest, m.confidence FROM memory m LEFT JOIN line l ON l.n = m.line"
    ):
        said = document.SUPERSEDED if row in back and status == document.ACTIVE else status
        r, place = wanted.pop(((version or b"").hex(), said), (None, 0))
        if r is None or place != nth or unions.pop(row, None) != _union(r, numbers):
            return f"the row of memory {str(id)[:8]} differs from its record"
        if r.id != id or scopes[r.version] != scope or document.columns(r.data) != tuple(columns):
            return f"the row of memory {str(id)[:8]} differs from its record"
        rows[row] = r
    if wanted:
        return f"memory {next(iter(wanted.values()))[0].id[:8]} has no row"
    if unions:
        return "a united text belongs to no memory"
    if {(k, v, row) for row, r in rows.items() for k, v in document.labels(r.data)} != set(
        db.execute("SELECT kind, value, row FROM label")
    ):
        return "tags or paths differ from the records"
    active = {row: rows[row] for (row,) in db.execute("SELECT row FROM memory WHERE status = 0")}
    if {
        (row, place, *noted)
        for row, r in active.items()
        for place, noted in enumerate(noted_paths.of(r.data))
    } != set(
        db.execute(
            "SELECT row, place, anchor, name, slashes, blob, lines FROM noted_path"
            " LEFT JOIN memory_path USING(number)"
        )
    ):
        return "paths differ from the records"
    if len(active) != cache.count():
        return f"{len(active)} memories are indexed, {cache.count()} were counted"
    return (
        usage_store.wrong(cache, fold.purged(records)[0])
        or _words(cache, active)
        or _vectors(cache, active, table)
    )


def _union(r: record.Record, numbers: dict[str, int]) -> tuple[str, bytes, bytes] | None:
    """The row of `united` for a text, None for one that a line says as it is."""
    parts, digest = document.union_of(r)
    lines = fastjson.dumps(sorted(numbers[v] for v in parts)).replace(" ", "")
    return (lines, digest, r.line) if parts else None


def _words(cache: Cache, active: dict[int, record.Record]) -> str:
    """Term frequencies, the terms of every memory, and every posting of the full-text index."""
    db = cache.db
    df: Counter[str] = Counter()
    lengths: dict[int, list[int]] = {}
    texts: dict[int, tuple[str, ...]] = {}
    sums: dict[int, int] = {}  # of the hashes of a row's postings
    for row, r in active.items():
        texts[row] = document.fts_fields(r.data)
        fields = [f.split() for f in texts[row]]
        df.update({w for words in fields for w in words})
        lengths[row] = [len(words) for words in fields]
        sums[row] = sum(
            hash((word, column, at))
            for column, words in enumerate(fields)
            for at, word in enumerate(words)
        )
    if dict(df) != dict(db.execute("SELECT word, df FROM term")):
        return "term frequencies differ from the texts"
    if texts != {row: tuple(terms) for row, *terms in db.execute("SELECT rowid, * FROM fts")}:
        return "the terms of a memory differ from its text"
    if lengths != {row: _varints(sz) for row, sz in db.execute("SELECT id, sz FROM fts_docsize")}:
        return "text lengths differ from the texts"
    db.execute("DROP TABLE IF EXISTS temp.posting")
    db.execute("CREATE VIRTUAL TABLE temp.posting USING fts5vocab(main, fts, instance)")
    column_of = {"title": 0, "body": 1, "extra": 2}
    found = dict.fromkeys(sums, 0)
    for term, doc, col, at in db.execute("SELECT term, doc, col, offset FROM temp.posting"):
        found[doc] = found.get(doc, 0) + hash((term, column_of[col], at))
    db.execute("DROP TABLE temp.posting")
    return "" if found == sums else "the full-text index differs from the texts"


def _varints(blob: bytes) -> list[int]:
    """SQLite's variable-length integers, as far as lengths need them."""
    out, value = [], 0
    for byte in blob:
        value = value << 7 | byte & 127
        if byte < 128:
            out.append(value)
            value = 0
    return out


def _vectors(
    cache: Cache, active: dict[int, record.Record], table: embed.StaticTable | None
) -> str:
    codes = cache.codes()
    vectors = cache.vectors(active)
    if set(vectors) != set(active) or cache.db.execute("SELECT count(*) FROM vector").fetchone()[
        0
    ] != len(active):
        return "memories and vectors do not match"
    if found := model_vectors.wrong(cache, active):
        return found
    for at in range(0, len(codes), CODE):
        v = vectors.get(at // CODE)
        if codes[at : at + CODE] != (embed.sign_code(v) if v and any(v) else bytes(CODE)):
            return f"the sign code of row {at // CODE} differs from its vector"
    if table is None or cache.meta("space") != table.space:
        return ""
    order = list(active)
    made = document.embed_texts(table, [document.vector_text(active[row].data) for row in order])
    wrong = [row for row, (v, _) in zip(order, made, strict=True) if vectors[row] != v]
    return f"the vector of memory {active[wrong[0]].id[:8]} differs from its text" if wrong else ""
