"""Brings the cache up to date with the notes: lines in, folded memories out.

Promises. Exact freshness: the cache stores the tips it was built from, so it
is fresh or not, and no time limit is ever needed. Incremental: work grows with
what changed, by the difference of two notes trees; the result equals a rebuild
from nothing. A line once taken in stays, also when stock git removed it from
the ref: only a purge record takes lines away. All of one update is one
transaction: a crash leaves the state before it.
"""

from __future__ import annotations

import os
from time import monotonic

from ..core.errors import GitFailed
from ..core.record import MAX_LINE
from ..notes import rescue
from . import error_kinds, unread
from .cache import open_cache
from .document import SCOPE_BITS
from .update import Update

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..notes.note_store import Notes
    from .cache import Cache
    from .document import Ahead
    from .embed import StaticTable

    Progress = Callable[[int], None]

ON_THE_SPOT = 200  # new records a search takes in before it answers (P8)
_RE_EMBED = 2_000  # vectors of another space that such a search replaces before it answers
_SPOT_BYTES = 16 << 20  # bytes of new lines that such a search takes in
_LOOKS = 256  # lines read between two looks at the clock
_PORTION = 16  # lines taken in between two looks at the clock
_BATCH = 20_000  # lines folded and written at a time: bounds memory, not the transaction
_PATIENCE = 30.0  # seconds to wait for another process that updates the cache
_LITTLE = 0.5  # and where an answer is waited for


def known(mem_dir: str, scope: str, ref: str) -> tuple[str, int]:
    """(tip, number of memories) of a notes ref as the cache has them, which is left as it is; ("",
    0) where there is none, or a damaged one.
    """
    opened = None
    try:
        opened = open_cache(mem_dir, create=False)
        if opened is None:
            return "", 0
        sql = f"SELECT count(DISTINCT id) FROM memory WHERE scope & {SCOPE_BITS[scope]}"
        return opened.meta("tip:" + ref), int(opened.db.execute(sql).fetchone()[0])
    except Exception as e:
        if error_kinds.kind(e, opened) == error_kinds.OURS:
            raise
        return "", 0
    finally:
        if opened is not None:
            opened.close()


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


def refresh(  # noqa: C901
    cache: Cache,
    sources: list[tuple[str, Notes]],
    table: StaticTable,
    *,
    most: int | None = None,
    progress: Progress | None = None,
    deep: bool = False,
    ahead: Ahead | None = None,
    until: float | None = None,
) -> int | None:
    """Takes in what is new; returns the number of new records, or None where the cache stays behind
    the notes.

    None: more than `most` lines wait, or too many bytes, the disk is read-only, another process
    keeps the cache, or time was up: at `until` (monotonic) what has been taken in stays, and the
    next call goes on there. `deep` reads the whole history and reflog of each ref instead of the
    change. `ahead` holds documents that were prepared before. Raises Damaged or sqlite3.Error for a
    file that must be rebuilt."""
    try:
        moved = (
            [(s, n, "", n.tip()) for s, n in sources if n.tip()]
            if deep
            else pending(cache, sources)
        )
    except GitFailed:
        # a ref names what is not here: we answer with what we have, and the next write mends it
        # (`rescue`)
        return None
    sizes = {
        n.ref: n.reflog_size() for _, n, _, _ in moved
    }  # before reading: what comes later is seen by the next call
    # An empty cache takes any table: it gets the space with its first record.
    cache.blind = cache.meta("space", table.space) != table.space
    scrub = cache.meta("scrub") != ""
    if not moved and not cache.blind and (not scrub or until is not None):
        return None if scrub else 0
    if not cache.writable or (
        cache.blind
        and most is not None
        and cache.count() > (_RE_EMBED if until is None else ON_THE_SPOT)
    ):
        return None
    lines: list[tuple[str, bytes, int]] = []
    size = 0
    for scope, notes, seen, tip in moved:
        try:
            for number, (key, line) in enumerate(notes.lines(tip, since=seen, deep=deep)):
                if until is not None and not number % _LOOKS and monotonic() > until:
                    return None
                if len(line) > MAX_LINE or not line.startswith(b"{"):
                    continue  # no record: it stays in the notes, and need not fill our memory
                lines.append((key, line, SCOPE_BITS[scope]))
                size += len(line)
                if most is not None and (len(lines) > most or size > _SPOT_BYTES):
                    return None
        except GitFailed:
            if until is None and rescue.mend(notes.git, notes.ref):
                notes.history.mended = notes.tip()
                return refresh(
                    cache, sources, table, most=most, progress=progress, deep=deep, ahead=ahead
                )
            notes.missing = [tip]
            # objects of the ref are not here: we answer with what we have, and the next write mends
            # it (`rescue`)
            return None
    added = 0
    wait = (
        _PATIENCE
        if most is None
        else _LITTLE
        if until is None
        else max(0.0, min(_LITTLE, until - monotonic()))
    )
    batch, whole = _BATCH if until is None else _PORTION, True
    if until is not None:  # what is taken in without the rest must not show what was purged
        lines.sort(key=lambda item: b'"purge"' not in item[1])
    with cache.writing(wait) as held:
        if not held:
            return None
        if (
            moved
            and not deep
            and not cache.blind
            and not scrub
            and all(
                cache.meta("tip:" + n.ref) == tip and cache.meta("log:" + n.ref) == sizes[n.ref]
                for _, n, _, tip in moved
            )
        ):
            return 0  # another process took the same in while we read or waited
        update = Update(cache, table, moved[0][1] if moved else None, ahead)
        if cache.meta("space", table.space) != table.space:
            update.reset_vectors()
        for i in range(0, len(lines), batch):
            if until is not None and monotonic() > until:
                whole = False
                break
            added += update.take(lines[i : i + batch])
            if progress:
                progress(min(i + batch, len(lines)))
        for _, notes, _, tip in moved:
            if notes.missing or not whole:
                continue  # what is away may come back: the next call looks again
            cache.set_meta("tip:" + notes.ref, tip)
            cache.set_meta("log:" + notes.ref, sizes[notes.ref])
            cache.set_meta("time:" + notes.ref, notes.time(tip))
            unread.keep(cache, notes.ref, notes.unread, all=notes.listed)
        scrub = update.finish() or scrub
    cache.blind = False
    if scrub and until is not None:
        return None  # the whole file is rewritten, which nobody may wait for
    if scrub:
        rescue.drop(os.path.dirname(cache.path))
        cache.scrub(wait)
    return added if whole else None
