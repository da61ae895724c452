"""Memories that consolidation found contradicted, while no person has decided.

Promise: a mark stands while both memories are active and say what they said when they were
compared. Only private records count: a teammate's notes neither mark a memory nor take a mark away.
Standard library only, so hooks may ask.
"""

from __future__ import annotations

from ..core import record
from .memory_rows import PRIVATE, versions_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .cache import Cache

# Kinds of proposals (`consolidate` has the others), and the `why` of those in which one memory
# speaks against the other.
CONTRADICTION, SUPERSEDE = "contradiction", "supersede"
AGAINST, VALUE = "against it", "another value"
# The kind is named in the statement: texts that capture suggests are not read.
_MINE = f"SELECT raw FROM line WHERE op = '%s' AND scope & {PRIVATE}"
_PROPOSED = (
    f"{_MINE % 'suggest'} AND ("
    + " OR ".join(
        f'instr(raw, CAST(\'"kind":"{kind}"\' AS BLOB)) > 0' for kind in (CONTRADICTION, SUPERSEDE)
    )
    + ")"
)
_DECIDED = f"{_MINE % 'verdict'} AND instr(raw, CAST('\"kind\":' AS BLOB)) > 0"


def all_of(cache: Cache) -> dict[str, list[str]]:
    """{id: ids of active memories that contradict it}."""
    pairs: dict[str, tuple[list[str], list[str]]] = {}
    for (raw,) in cache.db.execute(_PROPOSED):
        found = record.parse(raw)
        if found and found.data.get("why") in (AGAINST, VALUE):
            listed, seen = _two(found.data.get("memories")), _two(found.data.get("seen"))
            if listed and seen and listed[0] != listed[1]:
                pairs[found.id] = listed, seen
    if not pairs:
        return {}
    for (raw,) in cache.db.execute(_DECIDED):
        found = record.parse(raw)
        if found:
            pairs.pop(found.id, None)
    ids = sorted({i for listed, _ in pairs.values() for i in listed})
    shown = versions_of(cache.db, ids, "m.status = 0")
    out: dict[str, list[str]] = {}
    for (a, b), seen in pairs.values():
        if seen[0] in shown.get(a, ()) and seen[1] in shown.get(b, ()):
            out.setdefault(a, []).append(b)
            out.setdefault(b, []).append(a)
    return {id: sorted(set(others)) for id, others in out.items()}


def _two(listed: object) -> list[str]:
    if isinstance(listed, list) and len(listed) == 2 and all(isinstance(i, str) for i in listed):
        return listed
    return []


def of(cache: Cache, ids: Iterable[str]) -> dict[str, list[str]]:
    """The same for some ids."""
    found = all_of(cache)
    return {id: found[id] for id in ids if id in found}
