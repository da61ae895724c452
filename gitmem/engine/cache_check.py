"""The full check of a cache: all that its stored lines give, made again and compared.

For `doctor` and workers: it costs about what a rebuild does, and judges a copy in memory, so that
writers neither wait nor disturb it. Promise: it finds every row that differs from what the stored
lines give: memories, labels, paths, terms, full-text index, vectors, sign codes, counts, marks,
moves and use, and damage to the structure of the file. Whether all lines are there is for
`index.pending` to say. Not compared is what git said about commits and paths and about signatures:
no line gives it, and asking git again would take minutes.
"""

from __future__ import annotations

from contextlib import closing

from ..core import record
from ..core.progress import Unseen
from . import model_vectors
from .cache import SPACE, Cache, Connection, Moved, copied_in_memory, open_in_memory
from .embed import StaticTable
from .embed import TableDamaged as TableDamaged
from .memory_rows import ACTIVE, SUPERSEDED, parsed
from .sql import BUSY, failure
from .update import BATCH, Update, batch_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.progress import Progress

# Row and line numbers differ in a cache made again: a row is named by the version of its line.
_OF_ROW = "LEFT JOIN memory m USING(row) LEFT JOIN line l ON l.n = m.line"
_COMPARED = {
    "a record has changed": "SELECT version, memory, op, scope, raw FROM line",
    "the links between records differ from the records": (
        "SELECT c.version, l.version, c.at FROM cover c LEFT JOIN line l ON l.n = c.by"
    ),
    "the marks of commits differ from the records": "SELECT * FROM patch_mark",
    "the row of a memory differs from its record": (
        "SELECT l.version, m.id, m.nth, m.status, m.scope, type, m.at, author, source, anchor,"
        " m.digest, confidence FROM memory m LEFT JOIN line l ON l.n = m.line"
    ),
    "a united text differs from its records": (
        "SELECT l.version, u.digest, u.raw, (SELECT group_concat(hex(version)) FROM (SELECT version"
        " FROM line WHERE n IN (SELECT value FROM json_each(u.lines)) ORDER BY 1)) FROM united u "
        + _OF_ROW
    ),
    "tags or paths differ from the records": (
        f"SELECT l.version, kind, value FROM label {_OF_ROW}"
    ),
    "paths differ from the records": (
        "SELECT l.version, place, p.anchor, name, slashes, blob, lines FROM noted_path p"
        f" LEFT JOIN memory_path USING(number) {_OF_ROW}"
    ),
    "term frequencies differ from the texts": "SELECT word, df FROM term",
    "the terms of a memory differ from its text": (
        "SELECT l.version, title, body, extra FROM fts LEFT JOIN memory m ON m.row = fts.rowid"
        " LEFT JOIN line l ON l.n = m.line"
    ),
    "a vector differs from its text": (
        f"SELECT l.version, v FROM model_vector {_OF_ROW} WHERE space = '{SPACE}'"
    ),
    "what is known of use differs from the feedback records": "SELECT * FROM usage_record",
    "confidence differs from the feedback records": "SELECT * FROM confidence",
}


class NotChecked(Exception):
    """Why a cache cannot be judged now; it says nothing about damage."""


def check_all(cache: Cache, table: StaticTable | None = None, progress: Progress = Unseen) -> str:
    """The first thing wrong with a cache, "" where nothing is.

    Raises NotChecked, and Moved where the cache was removed or replaced meanwhile; TableDamaged.
    """
    table = table or StaticTable()
    try:
        with closing(Cache(copied_in_memory(cache), "memory", "")) as copy:
            wrong = _wrong(copy, table, progress)
    except Exception as e:  # a value of any shape may stand in a damaged file
        if failure(e) == BUSY:
            raise NotChecked("it is being written at this moment") from e
        if isinstance(e, MemoryError):  # also where SQLite has none
            raise NotChecked("memory is too short for a copy") from e
        wrong = str(e) or type(e).__name__
    if wrong and cache.moved():
        raise Moved("the cache was removed or replaced while it was checked")
    return wrong


def _wrong(cache: Cache, table: StaticTable, progress: Progress) -> str:
    (answer,) = cache.db.execute("PRAGMA integrity_check(1)").fetchone()
    if answer != "ok":
        return str(answer)
    with closing(_made_again(cache, table, progress)) as made:
        return _difference(cache, made)


def _difference(cache: Cache, made: Cache) -> str:
    db = cache.db
    active = [row for (row,) in db.execute("SELECT row FROM memory WHERE status = 0")]
    if found := model_vectors.wrong(cache, active):
        return found
    for wrong, sql in _COMPARED.items():
        if _sum(db, sql) != _sum(made.db, sql):
            return wrong
    if cache.count() != made.count():
        return f"{made.count()} memories are indexed, {cache.count()} were counted"
    if _moves_differ(db, made.db):
        return "the moves of commits differ from the records"
    # Postings and lengths of texts, against the texts.
    db.execute("INSERT INTO fts(fts) VALUES('integrity-check')")
    return ""


def _made_again(cache: Cache, table: StaticTable, progress: Progress) -> Cache:
    """A cache of the same lines; what is reinstated there is so here."""
    made = open_in_memory()
    stored = cache.db.execute("SELECT raw, scope FROM line ORDER BY n")
    (total,) = cache.db.execute("SELECT count(*) FROM line").fetchone()
    with made.writing(0), progress("comparing the cache", total) as advance:
        update = Update(made, table, None)
        while lines := stored.fetchmany(BATCH):
            update.take(batch_of(("", raw, scope) for raw, scope in lines))
            advance(len(lines))
        of_version = "SELECT {} FROM memory m JOIN line l ON l.n = m.line WHERE m.status = ? AND "
        back = of_version.format("DISTINCT l.version") + "m.row IN (SELECT row FROM reinstated)"
        for version in cache.db.execute(back, (ACTIVE,)):
            superseded = of_version.format("m.row") + "l.version = ?"
            for (row,) in made.db.execute(superseded, (SUPERSEDED, *version)).fetchall():
                update.memories.again(row, ACTIVE)
        update.finish()
    return made


def _sum(db: Connection, sql: str) -> int:
    """The same for the same rows, in whatever order."""
    return sum(hash(row) for row in db.execute(sql))


def _moves_differ(db: Connection, made: Connection) -> bool:
    sql = "SELECT old, new, version, raw FROM move LEFT JOIN line USING(n)"
    stored, stated = (set(some.execute(sql)) for some in (db, made))
    # Where a line was found beside its own commit only the notes know.
    return not stated <= stored or any(
        raw is None or record.object_id(parsed(raw).data.get("commit")) != old
        for old, _, _, raw in stored - stated
    )
