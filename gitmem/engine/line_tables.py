"""The tables of lines: what records say, which versions they cover, where they were found.
The caller owns the transaction.
"""

from __future__ import annotations

from ..core import record
from ..core.record import Record
from . import anchor_state_store
from .memory_rows import parsed
from .sql import select_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .sql import Connection


def known(db: Connection, versions: Iterable[str]) -> dict[str, tuple[int, int, str]]:
    """{version: (number of the line, scope bits, id)} of those that are stored."""
    sql = "SELECT n, version, scope, memory FROM line WHERE version IN {}"
    found = select_in(db, sql, map(bytes.fromhex, versions))
    return {version.hex(): (n, scope, id.decode()) for n, version, scope, id in found}


def memories_of(db: Connection, versions: Iterable[str]) -> set[str]:
    """The ids of the memories that have one of these versions."""
    sql = "SELECT memory FROM line WHERE version IN {}"
    return {id.decode() for (id,) in select_in(db, sql, proper(versions))}


def having_lines(db: Connection, ids: Iterable[str]) -> set[str]:
    sql = "SELECT DISTINCT memory FROM line WHERE memory IN {}"
    return {id.decode() for (id,) in select_in(db, sql, [id.encode() for id in ids])}


def purges(db: Connection) -> list[Record]:
    return [parsed(raw) for (raw,) in db.execute("SELECT raw FROM line WHERE op = 'purge'")]


def doomed(db: Connection, ids: set[str], versions: set[str]) -> list[int]:
    """The stored lines that purge records name."""
    sql = "SELECT n FROM line WHERE {} IN {{}} AND op <> 'purge'"
    names = [id.encode("utf-8", "replace") for id in ids]
    found = select_in(db, sql.format("memory"), names)
    found += select_in(db, sql.format("version"), proper(versions))
    return list(dict.fromkeys(n for (n,) in found))


def covered_by(db: Connection, lines: list[int]) -> list[str]:
    raws = select_in(db, "SELECT raw FROM line WHERE n IN {}", lines)
    return [v for (raw,) in raws for v in parsed(raw).after]


def of_memories(db: Connection, ids: Iterable[str]) -> list[tuple[Record, int]]:
    """(record, scope bits) of the lines of these memories, without purges."""
    sql = "SELECT raw, scope FROM line WHERE memory IN {} AND op <> 'purge'"
    found = select_in(db, sql, [id.encode() for id in ids])
    return [(parsed(raw), scope) for raw, scope in found]


def covering(db: Connection, versions: Iterable[str]) -> list[Record]:
    """The records that cover one of these versions, also those of other memories: supersedes."""
    sql = "SELECT DISTINCT l.raw FROM cover c JOIN line l ON l.n = c.by WHERE c.version IN {}"
    return [parsed(raw) for (raw,) in select_in(db, sql, map(bytes.fromhex, versions))]


def store(db: Connection, fresh: list[Record], scopes: Mapping[str, int]) -> None:
    """Stores new lines, and what they say of versions, moves and patch-ids."""
    db.executemany(
        "INSERT INTO line(version, memory, op, scope, raw) VALUES(?, ?, ?, ?, ?)",
        [(bytes.fromhex(r.version), r.id.encode(), r.op, scopes[r.version], r.line) for r in fresh],
    )
    covers = [
        (version, _counts_from(r), bytes.fromhex(r.version))
        for r in fresh
        if r.op in record.FOLD_OPS
        for version in proper(r.after)
    ]
    db.executemany("INSERT OR IGNORE INTO cover SELECT ?, n, ? FROM line WHERE version = ?", covers)
    moves = [
        (r.id, to, bytes.fromhex(r.version))
        for r in fresh
        if r.op == "move"
        and record.object_id(r.id)
        and (to := record.object_id(r.data.get("commit"))) not in ("", r.id)
    ]
    add_moves(db, moves)
    marks = _patch_marks(fresh)
    sql = "SELECT commit_id, patch, base, branch_patch FROM patch_mark WHERE commit_id IN {}"
    stored = set(select_in(db, sql, {commit for commit, *_ in marks}))
    db.executemany(
        "INSERT INTO patch_mark VALUES(?, ?, ?, ?, 1) ON CONFLICT(commit_id, patch, base,"
        " branch_patch) DO UPDATE SET uses = uses + 1",
        marks,
    )
    anchor_state_store.forget(db, [mark[0] for mark in marks if mark not in stored])


def add_moves(db: Connection, moves: list[tuple[str, str, bytes]]) -> None:
    """(old commit, new one, version of the line that says so)."""
    db.executemany("INSERT OR IGNORE INTO move SELECT ?, ?, n FROM line WHERE version = ?", moves)
    anchor_state_store.forget(db, [old for old, _, _ in moves], moved=True)


def erase(db: Connection, lines: list[int]) -> None:
    """Takes purged lines away, and all that rests on them."""
    sql = "SELECT raw FROM line WHERE n IN {}"
    marks = _patch_marks([parsed(raw) for (raw,) in select_in(db, sql, lines)])
    named = "commit_id = ? AND patch = ? AND base = ? AND branch_patch = ?"
    db.executemany(f"UPDATE patch_mark SET uses = uses - 1 WHERE {named}", marks)
    db.executemany(f"DELETE FROM patch_mark WHERE {named} AND uses <= 0", marks)
    for table, column in (("cover", "by"), ("move", "n"), ("signature", "n"), ("line", "n")):
        select_in(db, f"DELETE FROM {table} WHERE {column} IN {{}}", lines)
    # Their numbers may be given again: no line counts as looked at by `trust` for its number alone.
    db.execute("DELETE FROM meta WHERE key = 'checked'")
    for table in ("head", "anchor_state", "path_state"):  # they may rest on the lines' moves
        db.execute(f"DELETE FROM {table}")


def _patch_marks(records: list[Record]) -> list[tuple[str, str, str, str]]:
    return [m for m in (record.marks_of(r.data) for r in records) if m]


def _counts_from(r: Record) -> str:
    """The commit from which on a record takes another memory's versions away, as `snapshot_view`
    has it; an edit of one version takes none."""
    if r.op == "create":
        return record.object_id(r.data.get("commit"))
    merges = r.op == "edit" and len(r.after) > 1
    return record.object_id(r.data.get("head")) if merges else ""


def proper(versions: Iterable[str]) -> list[bytes]:
    """The versions without those that are no hexadecimal text."""
    out = []
    for version in versions:
        try:
            out.append(bytes.fromhex(version))
        except ValueError:
            continue
    return list(filter(None, out))
