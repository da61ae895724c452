"""Which memories are contradicted by another one, as far as consolidation found it and no person has decided.

Promise: one look at the cache, no text, no vector: what a proposal of a
contradiction names, while both memories are active and nobody said that both
hold. Standard library only, so hooks may ask.
"""

from __future__ import annotations

from ..core import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .cache import Cache

_AGAINST = ("another value", "against it")  # `why` of proposals in which one memory speaks against the other
# The kind is named in the statement: texts that capture suggests are not read.
_PROPOSED = "SELECT raw FROM line WHERE op = 'suggest' AND (instr(raw, CAST('\"kind\":\"contradiction\"' AS BLOB)) > 0 OR instr(raw, CAST('\"kind\":\"supersede\"' AS BLOB)) > 0)"
_DECIDED = "SELECT raw FROM line WHERE op = 'verdict' AND instr(raw, CAST('\"kind\":' AS BLOB)) > 0"


def all_of(cache: Cache) -> dict[str, list[str]]:
    """{id: ids of active memories that contradict it}."""
    pairs: dict[str, tuple[str, str]] = {}
    for (raw,) in cache.db.execute(_PROPOSED):
        found = record.parse(raw)
        listed = found.data.get("memories") if found else None
        if found and found.data.get("why") in _AGAINST and isinstance(listed, list) and len(listed) == 2 and all(isinstance(i, str) for i in listed):
            pairs[found.id] = (listed[0], listed[1])
    if not pairs:
        return {}
    for (raw,) in cache.db.execute(_DECIDED):
        found = record.parse(raw)
        if found:
            pairs.pop(found.id, None)
    ids = sorted({i for pair in pairs.values() for i in pair})
    active: set[str] = set()
    for at in range(0, len(ids), 500):
        part = ids[at : at + 500]
        active.update(i for (i,) in cache.db.execute(f"SELECT id FROM memory WHERE status = 0 AND id IN ({','.join('?' * len(part))})", part))
    out: dict[str, list[str]] = {}
    for a, b in pairs.values():
        if a in active and b in active and a != b:
            out.setdefault(a, []).append(b)
            out.setdefault(b, []).append(a)
    return {id: sorted(set(others)) for id, others in out.items()}


def of(cache: Cache, ids: Iterable[str]) -> dict[str, list[str]]:
    """The same for some ids."""
    found = all_of(cache)
    return {id: found[id] for id in ids if id in found}
