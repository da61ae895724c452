"""SQL over lists of any length: SQLite bounds how many parameters one statement may have."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_AT_ONCE = 500


def select_in(db: Any, sql: str, values: Iterable[object]) -> list[tuple[Any, ...]]:
    """All rows of a statement whose `IN {}` means these values. For changes, too.

    `db`: a `cache_db.Connection`, which imports this."""
    asked = list(values)
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(asked), _AT_ONCE):
        part = asked[start : start + _AT_ONCE]
        found += db.execute(sql.format(f"({','.join('?' * len(part))})"), part)
    return found
