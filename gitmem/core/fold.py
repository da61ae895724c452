"""From a set of records to memories. Pure: no clock, no order, no storage.

Promise: the result depends only on the *set* of records, so folding commutes, is associative and
idempotent, and every clone that holds the same lines shows the same memories.

A record covers the versions in its `after`, until a `restore` of the memory names that record: then
it covers no version of this memory any more. A content version that nothing covers is visible; two
of them are concurrent edits, shown as one where they do not contradict each other (`unite`), else
both, until one record covers them. A memory whose versions are all covered is forgotten, or
superseded where content of another memory did it. Purge records remove every record of the memory,
or the lines, they name. Records about commits and sessions are no part of it.
"""

from __future__ import annotations

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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

ACTIVE, SUPERSEDED, FORGOTTEN = "active", "superseded", "forgotten"


class Memory:
    """What the records say of one id.

    `versions`: visible content records (of a memory that is not active the last ones), the one to
    show first, united where they do not contradict each other (`unite`); more than one are
    alternatives.
    `apart`: all of them as their lines say them, the oldest first. `heads`: every version an edit
    or forget of this memory must name in `after`. `hidden_by`: the records that a restore must name
    to take one step back, forgets first; empty for an active memory.
    """

    __slots__ = (
        *("apart", "heads", "hidden_by", "id", "records", "status", "superseded_by"),
        "versions",
    )

    def __init__(self, id: str, records: list[Record]) -> None:
        self.id = id
        self.records = records
        self.versions: list[Record] = []
        self.apart: list[Record] = []
        self.heads: list[str] = []
        self.status = FORGOTTEN
        self.superseded_by: list[str] = []
        self.hidden_by: list[Record] = []


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
    groups: dict[str, list[Record]] = {}
    for r in unique.values():
        if r.op != "purge" and r.op not in COMMIT_OPS and r.op not in APART_OPS:
            groups.setdefault(r.id, []).append(r)
    covers = Covers(unique.values())
    return {id: _memory(id, group, covers) for id, group in groups.items()}


class Covers:
    """Which records cover a version, less those that a restore takes back."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._by: dict[str, list[Record]] = {}
        self._back: dict[str, set[str]] = {}  # {memory: versions that its restores name}
        for r in records:
            if r.op in COVER_OPS:
                for v in r.after:
                    if v != r.version:
                        self._by.setdefault(v, []).append(r)
            elif r.op == "restore":
                self._back.setdefault(r.id, set()).update(r.after)

    def of(self, record: Record) -> list[Record]:
        found = self._by.get(record.version, [])
        back = self._back.get(record.id)
        return [c for c in found if c.version not in back] if back else found


def _memory(id: str, records: list[Record], covers: Covers) -> Memory:
    records.sort(key=lambda r: r.version)
    memory = Memory(id, records)
    contents = [r for r in records if r.op in CONTENT_OPS]
    memory.heads = [r.version for r in records if r.op in COVER_OPS and not covers.of(r)]
    visible = [r for r in contents if not covers.of(r)]
    if visible:
        memory.status = ACTIVE
    else:
        # The last texts are those that no other text of the memory took the place of. Superseded:
        # only content of other memories took one of them away.
        last = {r: found for r in contents if not _edited(id, found := covers.of(r))}
        visible = [r for r, found in last.items() if all(c.op in CONTENT_OPS for c in found)]
        hidden_by = {c.version: c for found in last.values() for c in found}
        forgets = [c for c in hidden_by.values() if c.op == "forget"]
        # A forget that a later one covers hid an earlier text.
        memory.hidden_by = [c for c in forgets if not covers.of(c)] or [*hidden_by.values()]
        if visible:
            memory.status = SUPERSEDED
            memory.superseded_by = sorted({c.id for r in visible for c in last[r]})
        visible = visible or [*last]
    memory.versions = memory.apart = visible
    if len(visible) > 1:
        from . import unite  # of few memories there are several

        memory.apart = sorted(visible, key=_by_time)
        memory.versions = unite.united(once(memory.apart), records)
    return memory


def _edited(id: str, covers: list[Record]) -> bool:
    return any(c.op in CONTENT_OPS and c.id == id for c in covers)


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
