"""The paths that memories name, in the cache: a path as it was noted at a commit is one spot,
however many memories name it there.

What became of a spot (`path_state_store`) is said of all of them at once. Promise: a
number is given once, so that those below a limit are those that were looked
at; with the last memory that named it a spot goes, and all that was said of it.
"""

from __future__ import annotations

from . import memory_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from .cache import Connection

    Spot = tuple[
        str, str, int, str, str
    ]  # (anchor, name, slashes at its end, blob, lines) as the table has them

_SAME = " AND ".join(f"{column} = ?" for column in ("anchor", "name", "dir", "blob", "asked"))


def of(data: dict[str, Any]) -> list[Spot]:
    """The spots of a record, in the order of its paths."""
    return [
        (
            memory_rows.commit_of(data),
            memory_rows.bare(path),
            len(path) - len(path.rstrip("/")),
            blob,
            asked,
        )
        for path, blob, asked in memory_rows.places(data)
    ]


def add(db: Connection, shown: Iterable[tuple[int, dict[str, Any]]], first: int) -> int:
    """Takes in the paths of new memories, (row, record); new spots are numbered from `first` on.

    Returns the next number.
    """
    number: dict[Spot, int] = {}
    rows = []
    for row, data in shown:
        for n, spot in enumerate(of(data)):
            if spot not in number:
                found = db.execute(f"SELECT spot FROM spot WHERE {_SAME}", spot).fetchone()
                if found is None:
                    db.execute(
                        "INSERT INTO spot(spot, anchor, name, dir, blob, asked) VALUES(?, ?, ?, ?,"
                        " ?, ?)",
                        (first, *spot),
                    )
                    first += 1
                number[spot] = found[0] if found else first - 1
            rows.append((row, n, number[spot]))
    db.executemany("INSERT INTO place VALUES(?, ?, ?)", rows)
    return first


def leave(db: Connection, rows: Sequence[object]) -> None:
    """Takes away the paths of some memories, a few hundred at most, and what was said of those that
    no other memory names.
    """
    inside = f"row IN ({','.join('?' * len(rows))})"
    left = db.execute(
        f"SELECT DISTINCT spot, name FROM place JOIN spot USING(spot) WHERE {inside}", rows
    ).fetchall()
    db.execute(f"DELETE FROM place WHERE {inside}", rows)
    gone = [
        (spot,)
        for spot, _ in left
        if not db.execute("SELECT 1 FROM place WHERE spot = ? LIMIT 1", (spot,)).fetchone()
    ]
    for table in ("pathstate", "pathvia"):
        db.executemany(
            f"DELETE FROM {table} WHERE slot IN (SELECT slot FROM pathhead) AND spot = ?", gone
        )
    db.executemany("DELETE FROM spot WHERE spot = ?", gone)
    unnamed = [
        (name,)
        for name in {name for _, name in left}
        if not db.execute("SELECT 1 FROM spot WHERE name = ? LIMIT 1", (name,)).fetchone()
    ]
    db.executemany(
        "DELETE FROM entry WHERE slot IN (SELECT slot FROM pathhead) AND name = ?", unnamed
    )
