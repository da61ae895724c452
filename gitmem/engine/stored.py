"""Memory rows as the records they were made of.

Promise: what comes out was hashed against the version it is stored under, so a
damaged cache cannot show changed text: it raises Damaged. Hooks and commands
read memories through `load` alone. Standard library only: every prompt waits for it.
"""

from __future__ import annotations

from ..core import record
from .cache import Damaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .cache import Cache


def load(cache: Cache, rows: Sequence[int]) -> list[tuple[dict[str, Any], int, int]]:
    """(record data, scope bits, status) of memory rows, in their order. Raises Damaged."""
    out = []
    execute = cache.db.execute
    for row in rows:
        found = execute("SELECT l.version, l.raw, m.scope, m.status FROM memory m JOIN line l ON l.n = m.line WHERE m.row = ?", (row,)).fetchone()
        if found is None:
            raise Damaged("a memory has lost its record")
        version, raw, scope, status = found
        parsed = record.parse(raw)
        if parsed is None or parsed.version != version.hex():
            raise Damaged("a stored record has changed")
        out.append((parsed.data, scope, status))
    return out


def commit_of(data: dict[str, Any]) -> str:
    """The commit a record names by its full id, "" for none."""
    return record.object_id(data.get("commit"))


def word(value: Any) -> str | None:
    """A text of a record whoever wrote it; None for other shapes."""
    return record.clean(value) if isinstance(value, str) else None


def words(value: Any) -> list[str]:
    return [record.clean(v) for v in value if isinstance(v, str)] if isinstance(value, list) else []


def paths(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(path, blob id seen then, "" for none) of a record."""
    found = data.get("paths")
    return [(record.clean(p["path"]), str(p.get("blob", ""))) for p in found if isinstance(p, dict) and isinstance(p.get("path"), str)] if isinstance(found, list) else []


def places(data: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(path, blob id seen then or "", lines or "") of a record; lines as "10-20", with "@" and their content anchor where the record has one."""
    found = data.get("paths")
    return [(record.clean(p["path"]), record.object_id(p.get("blob")), _lines(p)) for p in found
            if isinstance(p, dict) and isinstance(p.get("path"), str)] if isinstance(found, list) else []


def bare(path: str) -> str:
    """The name under which git has a path: without the slash at the end of a directory; "." is the top."""
    return path.rstrip("/") or "."


def _lines(entry: Mapping[str, Any]) -> str:
    lines, content = word(entry.get("lines")) or "", word(entry.get("content")) or ""
    return f"{lines}@{content}" if lines and content else lines
