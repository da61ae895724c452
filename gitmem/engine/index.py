"""Brings the cache up to date with the notes: lines in, folded memories out.

Promises. The cache stores the tips it was built from, so it is fresh or not, and never expires by
age. Work grows with what changed; the result equals a rebuild from nothing. A line once taken in
stays, also when stock git removed it from the ref: only a purge record takes lines away. One update
is one transaction. A deadline commits the part that is done, without the tips, so the next update
goes on there.
"""

from __future__ import annotations

import os
from time import monotonic

from ..core.errors import GitFailed
from ..core.progress import Unseen
from ..core.record import MAX_LINE, anchor_of, dump, move, parse
from ..notes import ref_repair
from ..notes.notetree import PURGED
from . import error_kinds, unread
from .ahead import Ahead
from .cache import Cache, open_cache
from .memory_rows import SCOPE_BITS
from .update import BATCH, Update, batch_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from ..core.progress import Progress
    from ..notes.note_store import Notes
    from .embed import StaticTable

    T = TypeVar("T")
    Line = tuple[str, bytes, int]  # (anchor, line, scope bits)

ON_THE_SPOT = 200  # new records a search takes in before it answers
_SPOT_BYTES = 16 << 20  # bytes of new lines that such a search takes in
_LOOKS = 256  # lines read between two looks at the clock
_PORTION = 16  # lines taken in between two looks at the clock
# A second process prepares so much of the first batch, when this one has nothing else to do, and of
# those after it.
_AT_FIRST, _AFTER = 0.5, 0.85
_PATIENCE = 30.0  # seconds to wait for another process that updates the cache
_LITTLE = 0.5  # the same where somebody waits for an answer


def known_tip(mem_dir: str, ref: str) -> str:
    """The tip of a notes ref as the cache has it; "" where there is none, or a damaged one."""
    return _ask(mem_dir, lambda cache: cache.meta("tip:" + ref), "")


def known_count(mem_dir: str, scope: str) -> int:
    """How many memories of a scope the cache has; 0 where there is none, or a damaged one."""
    sql = f"SELECT count(DISTINCT id) FROM memory WHERE scope & {SCOPE_BITS[scope]}"
    return _ask(mem_dir, lambda cache: int(cache.db.execute(sql).fetchone()[0]), 0)


def _ask(mem_dir: str, read: Callable[[Cache], T], default: T) -> T:
    opened = None
    try:
        opened = open_cache(mem_dir, create=False)
        return default if opened is None else read(opened)
    except Exception as e:
        if error_kinds.kind(e, opened) == error_kinds.OURS:
            raise
        return default
    finally:
        if opened is not None:
            opened.close()


def items_of(cache: Cache, scope: str, hex_len: int) -> list[tuple[str, bytes]]:
    """What the cache has of a notes ref, as `Notes.append` takes it: each line at the commit that
    it names, and what copied notes said by their places (`record.copied_to`).
    """
    sql = "SELECT raw, version FROM line WHERE scope & ? ORDER BY n"
    rows = cache.db.execute(sql, (SCOPE_BITS[scope],))
    found = [r for raw, version in rows if (r := parse(raw)) and r.version == version.hex()]
    lines = [(PURGED if r.op == "purge" else anchor_of(r.data, hex_len), r.line) for r in found]
    sql = (
        "SELECT DISTINCT old, new FROM move JOIN line USING(n) WHERE op <> 'move' AND scope & ?"
        " ORDER BY 1, 2"
    )
    moves = cache.db.execute(sql, (SCOPE_BITS[scope],)).fetchall()
    return lines + [(new, dump(move(old, new))) for old, new in moves]


def pending(
    cache: Cache, sources: Iterable[tuple[str, Notes]]
) -> list[tuple[str, Notes, str, str]]:
    """(scope, notes, indexed tip, present tip) of every ref that moved since the cache was
    written."""
    out = []
    for scope, notes in sources:
        seen = cache.meta("tip:" + notes.ref)
        tip = notes.tip(seen)
        # The reflog grows when the ref moves, also away and back.
        if tip and (tip != seen or notes.reflog_size() != cache.meta("log:" + notes.ref)):
            out.append((scope, notes, seen, tip))
    return out


class _Limits:
    """How much a refresh may take in, and until when: a rebuild has no limit, a hook has both."""

    def __init__(self, most: int | None, until: float | None) -> None:
        self.most = most
        self.until = until

    def late(self) -> bool:
        return self.until is not None and monotonic() > self.until

    def exceeded(self, lines: int, size: int) -> bool:
        return self.most is not None and (lines > self.most or size > _SPOT_BYTES)

    @property
    def batch(self) -> int:
        return BATCH if self.until is None else _PORTION

    @property
    def wait(self) -> float:
        if self.most is None:
            return _PATIENCE
        if self.until is None:
            return _LITTLE
        return max(0.0, min(_LITTLE, self.until - monotonic()))


def refresh(
    cache: Cache,
    sources: list[tuple[str, Notes]],
    table: StaticTable,
    *,
    most: int | None = None,
    progress: Progress = Unseen,
    deep: bool = False,
    ahead: Ahead | None = None,
    until: float | None = None,
) -> int | None:
    """Takes in what is new; returns the number of new records, or None where the cache stays behind
    the notes: more than `most` lines wait, or too many bytes, the disk is read-only, another
    process keeps the cache, or it is `until` (monotonic).

    `deep` reads the whole history and reflog of each ref instead of the change. `ahead` holds
    documents that were prepared before. Raises Damaged or sqlite3.Error for a file that must be
    rebuilt.
    """
    limits = _Limits(most, until)
    try:
        moved = (
            [(scope, notes, "", tip) for scope, notes in sources if (tip := notes.tip())]
            if deep
            else pending(cache, sources)
        )
    except GitFailed:
        return None  # a ref names an object that is not here; the next write mends it
    # Before reading: the next call sees what comes later.
    sizes = {notes.ref: notes.reflog_size() for _, notes, _, _ in moved}
    scrub = cache.meta("scrub") != ""
    if not moved and (not scrub or until is not None):
        return None if scrub else 0
    if not cache.writable:
        return None
    try:
        lines = _read(moved, limits, deep)
    except _Mended:
        return refresh(cache, sources, table, most=most, progress=progress, deep=deep, ahead=ahead)
    if lines is None:
        return None
    with cache.writing(limits.wait) as held:
        if not held:
            return None
        overtaken = any(cache.meta("tip:" + notes.ref) != seen for _, notes, seen, _ in moved)
        try:
            if overtaken and not (deep or scrub) and not pending(cache, sources):
                return 0  # another process took the same in, or more, while we read or waited
        except GitFailed:
            return None
        with ahead or Ahead(table) as ahead:
            update = Update(cache, table, moved[0][1] if moved else None, ahead)
            added, whole = _take(update, lines, limits, progress)
        if whole:
            _note_tips(cache, moved, sizes)
        scrub = update.finish() or scrub
    if scrub and until is not None:
        return None  # the whole file is rewritten, which nobody may wait for
    if scrub:
        ref_repair.drop_lines(os.path.dirname(cache.path))
        cache.scrub(limits.wait)
    return added if whole else None


class _Mended(Exception):
    """Objects of a notes ref were not here; the ref was taken back to a commit that is."""


def _read(
    moved: list[tuple[str, Notes, str, str]], limits: _Limits, deep: bool
) -> list[Line] | None:
    """The new lines of all refs; None where they are too many or not all here, or the time is up.
    Raises _Mended where the time is not limited.
    """
    lines: list[Line] = []
    size = 0
    for scope, notes, seen, tip in moved:
        try:
            for number, (key, line) in enumerate(notes.lines(tip, since=seen, deep=deep)):
                if not number % _LOOKS and limits.late():
                    return None
                if len(line) > MAX_LINE or not line.startswith(b"{"):
                    continue  # no record: it stays in the notes, and need not fill our memory
                lines.append((key, line, SCOPE_BITS[scope]))
                size += len(line)
                if limits.exceeded(len(lines), size):
                    return None
        except GitFailed as e:
            if limits.until is None and ref_repair.mend(notes.git, notes.ref):
                notes.history.mended = notes.tip()
                raise _Mended from e
            notes.missing = [tip]
            return None
    if limits.until is not None:
        # Lines taken in without the rest must not show a text that was purged.
        lines.sort(key=lambda item: b'"purge"' not in item[1])
    return lines


def _note_tips(
    cache: Cache, moved: list[tuple[str, Notes, str, str]], sizes: dict[str, str]
) -> None:
    for _, notes, _, tip in moved:
        if not notes.missing:  # objects that are away may come back: the next call looks again
            cache.set_meta("tip:" + notes.ref, tip)
            cache.set_meta("log:" + notes.ref, sizes[notes.ref])
            cache.set_meta("time:" + notes.ref, notes.time(tip))
            unread.keep(cache, notes.ref, notes.unread, all=notes.listed)


def _take(
    update: Update, lines: list[Line], limits: _Limits, progress: Progress
) -> tuple[int, bool]:
    """(how many records were new, whether all lines were taken in before the time was up)."""
    added, size = 0, limits.batch
    following = batch_of(lines[:size])
    update.begin(following, _AT_FIRST)
    with progress("indexing", len(lines)) as advance:
        for end in range(size, len(lines) + size, size):
            if limits.late():
                return added, False
            update.collect()
            batch, following = following, batch_of(lines[end : end + size])
            update.begin(following, _AFTER)
            added += update.take(batch)
            advance(min(size, len(lines) - end + size))
    return added, True
