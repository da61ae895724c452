"""Tells the user, once, at the start of their next session, what capture stored and suggests, and
how many proposals about stored memories wait.

Owns `mem/captured`: a line, kind and id, for each memory stored, suggestion and proposal made since
it was last told of. The worker appends; a session's start reads, and takes the lines away once its
answer is written, so a hook that was killed tells again. Where the directory was deleted, `fill`
makes the file anew from the notes of the last day.
"""

from __future__ import annotations

import os
import time

from ..git import memfile
from . import spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..engine.cache import Cache
    from ..store import Store

FILE = "captured"
_TELLING = "captured.telling"  # what a hook has read and may not have said yet
TAG = "captured"  # of memories that were stored unasked
STORED, SUGGESTED, PROPOSED = "stored", "suggested", "proposed"
_MOST = 100_000  # bytes that are kept
_NAMED = 3  # ids in the message
_RECENT = 24 * 3600  # seconds


def add(
    mem_dir: str, stored: Iterable[str], suggested: Iterable[str] = (), proposed: Iterable[str] = ()
) -> None:
    """Notes ids to tell of. A disk that takes nothing costs the announcement."""
    kinds = ((STORED, stored), (SUGGESTED, suggested), (PROPOSED, proposed))
    lines = [f"{kind} {id}\n" for kind, ids in kinds for id in ids]
    if lines:
        _append(os.path.join(mem_dir, FILE), "".join(lines))


def fill(store: Store) -> None:
    """Makes the file from the notes where there is none; the worker does so where capture is on."""
    path = os.path.join(store.repo.mem_dir, FILE)
    if os.path.exists(path) or os.path.exists(os.path.join(store.repo.mem_dir, _TELLING)):
        return
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - _RECENT))

    def read(cache: Cache) -> list[str]:
        sql = (
            "SELECT DISTINCT m.id FROM label l JOIN memory m ON m.row = l.row WHERE l.kind = 'tag'"
            " AND l.value = ? AND m.status = 0 AND m.scope = 2 AND m.at > ? AND NOT EXISTS (SELECT"
            " 1 FROM line s WHERE s.memory = CAST(m.id AS BLOB) AND s.op = 'suggest') ORDER BY"
            " m.at, m.id"
        )
        return [id for (id,) in cache.db.execute(sql, (TAG, since))]

    found = store.with_cache(read)[0]
    _append(path, "".join(f"{STORED} {id}\n" for id in found))


def message(mem_dir: str) -> str:
    """What to tell, "" for nothing; `told` must follow once it was said."""
    now, telling = os.path.join(mem_dir, FILE), os.path.join(mem_dir, _TELLING)
    try:
        if not os.path.exists(telling):
            if not os.stat(now).st_size:
                return ""
            os.rename(now, telling)
        lines = memfile.read(telling, _MOST).decode("ascii", "replace").split("\n")
    except OSError:
        return ""
    ids: dict[str, dict[str, None]] = {STORED: {}, SUGGESTED: {}, PROPOSED: {}}
    for line in lines:
        kind, _, id = line.partition(" ")
        if kind in ids and id.isalnum() and len(id) <= 64:
            ids[kind][id] = None
    return _words(list(ids[STORED]), len(ids[SUGGESTED]), len(ids[PROPOSED]))


def told(mem_dir: str) -> None:
    """What `message` gave has reached the user."""
    try:
        os.unlink(os.path.join(mem_dir, _TELLING))
        _append(os.path.join(mem_dir, FILE), "")
    except OSError:
        pass  # told again, rather than the session held up


def _words(stored: list[str], suggested: int, proposed: int) -> str:
    parts = []
    if stored:
        names = ", ".join(id[:8] for id in stored[:_NAMED]) + ", …" * (len(stored) > _NAMED)
        were = "memory was" if len(stored) == 1 else "memories were"
        parts.append(
            f"{len(stored)} {were} captured ({names}): `git mem list --scope private` shows,"
            " `git mem forget ID` takes back"
        )
    counts = ((suggested, "suggestion"), (proposed, "proposal"))
    waiting = [f"{n} {what}{'s' * (n > 1)}" for n, what in counts if n]
    if waiting:
        wait = "waits" if suggested + proposed == 1 else "wait"
        parts.append(f"{' and '.join(waiting)} {wait}: `git mem review`")
    return "git mem: " + "; ".join(parts) if parts else ""


def _append(path: str, text: str) -> None:
    try:
        spool.put(path, text.encode(), _MOST)
    except OSError:
        pass
