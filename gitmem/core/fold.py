"""From a set of records to memories. Pure: no clock, no order, no storage.

Promise: the result depends only on the *set* of records, so folding commutes, is associative and
idempotent, and every clone that holds the same lines shows the same memories.

A record covers the versions in its `after`. A content version that nothing covers is visible; two
of them are concurrent edits, shown as one where they do not contradict each other (`unite`), else
both, until one record covers them. A memory whose versions are all covered is forgotten, or
superseded where content of another memory did it. Purge records remove every record of the memory,
or the lines, they name. Records about commits and sessions are no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from .record import (
    APART_OPS,
    COMMIT_OPS,
    CONTENT_OPS,
    COVER_OPS,
    Record,
    moment,
    newer,
    parse,
    version_of,
)

ACTIVE, SUPERSEDED, FORGOTTEN = "active", "superseded", "forgotten"


class Memory:
    """What the records say of one id.

    `versions`: visible content records (for a superseded memory the last ones), the one to show
    first, united where they do not contradict each other (`unite`); more than one are alternatives.
    `apart`: all of them as their lines say them, the oldest first. `heads`: every version an edit
    or forget of this memory must name in `after`.
    """

    __slots__ = ("apart", "heads", "id", "records", "status", "superseded_by", "versions")

    def __init__(self, id: str, records: list[Record]) -> None:
        self.id = id
        self.records = records
        self.versions: list[Record] = []
        self.apart: list[Record] = []
        self.heads: list[str] = []
        self.status = FORGOTTEN
        self.superseded_by: list[str] = []


def purged(records: Iterable[Record]) -> tuple[set[str], set[str]]:
    """(memory ids, versions) that purge records name."""
    ids: set[str] = set()
    lines: set[str] = set()
    for r in records:
        if r.op == "purge":
            # A tombstone of a guessable text names only its lines and has a random id.
            if r.data.get("lines") is None or r.data.get("all"):
                ids.add(r.id)
            named = r.data.get("lines")
            if isinstance(named, list):
                lines.update(v for v in named if isinstance(v, str))
    return ids, lines


class Tombstones:
    """What purge records name, to be asked of a line. False where they name nothing."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.ids, self.versions = purged(records)
        # An id of ours stands in a line as it is; another's may be written with escapes.
        self._needles = (
            [i.encode("utf-8", "replace") for i in self.ids]
            if all(i.isalnum() and i.isascii() for i in self.ids)
            else [b""]
        )

    def __bool__(self) -> bool:
        return bool(self.ids or self.versions)

    def doom(self, line: bytes) -> bool:
        """Whether a line may not be anywhere: named by its version, or a record by its memory."""
        line = line.strip()
        named = bool(self.versions and line) and version_of(line) in self.versions
        if not named and not any(n in line for n in self._needles):
            return False
        found = parse(line)
        return mortal(line, found) and (named or (found is not None and found.id in self.ids))


def mortal(line: bytes, parsed: Record | None) -> bool:
    """Whether a purge can take a line: all but purge records, also those of newer formats."""
    return parsed.op != "purge" if parsed else not (b'"op":"purge"' in line and newer(line))


def fold(records: Iterable[Record]) -> dict[str, Memory]:
    """Every memory the records name, forgotten ones included; records of one version count once."""
    unique = {r.version: r for r in records}
    ids, lines = purged(unique.values())
    if ids or lines:
        unique = {
            v: r
            for v, r in unique.items()
            if r.op == "purge" or (r.id not in ids and v not in lines)
        }
    covered: dict[str, list[Record]] = {}
    groups: dict[str, list[Record]] = {}
    for r in unique.values():
        if r.op == "purge" or r.op in COMMIT_OPS or r.op in APART_OPS:
            continue
        groups.setdefault(r.id, []).append(r)
        if r.op in COVER_OPS:
            for v in r.after:
                if v != r.version:
                    covered.setdefault(v, []).append(r)
    return {id: _memory(id, group, covered) for id, group in groups.items()}


def _memory(id: str, records: list[Record], covered: dict[str, list[Record]]) -> Memory:
    records.sort(key=lambda r: r.version)
    memory = Memory(id, records)
    contents = [r for r in records if r.op in CONTENT_OPS]
    memory.heads = [r.version for r in records if r.op in COVER_OPS and r.version not in covered]
    visible = [r for r in contents if r.version not in covered]
    if visible:
        memory.status = ACTIVE
    else:
        # Superseded: only content of other memories took the last versions away.
        visible = [
            r
            for r in contents
            if all(c.op in CONTENT_OPS and c.id != id for c in covered[r.version])
        ]
        if visible:
            memory.status = SUPERSEDED
            memory.superseded_by = sorted({c.id for r in visible for c in covered[r.version]})
    memory.versions = memory.apart = visible
    if len(visible) > 1:
        from . import unite  # of few memories there are several

        memory.apart = sorted(visible, key=_by_time)
        memory.versions = unite.united(once(memory.apart), records)
    return memory


def once(versions: Iterable[Record]) -> list[Record]:
    """Of versions that look alike the first; the newest by its own claim stands first."""
    from . import unite

    shown: dict[tuple[object, ...], Record] = {}
    for r in versions:
        shown.setdefault(unite.same_content(r), r)
    return sorted(shown.values(), key=_by_time, reverse=True)


def _by_time(record: Record) -> tuple[str, str]:
    """By the time that a record claims, with no look at a clock: two clones show one order."""
    return moment(record.data.get("at")), record.version
