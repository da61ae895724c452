"""Tells the user once, as their next session starts, what capture stored and what waits.
Suggestions and proposals about stored memories wait; also told is that capture is off.

Owns `mem/captured`: a line, kind and id, for each memory stored, suggestion and proposal made since
it was last told of, and for each that a person has decided about since. The worker and commands
append; a session's start reads, and takes the lines away once its answer is written, so a hook that
was killed tells again. And `mem/capture-off.told`: empty, there once the user was told.
"""

from __future__ import annotations

import os

from ..git import memfile
from . import spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FILE = "captured"
_TELLING = "captured.telling"  # what a hook has read and may not have said yet
_OFF = "capture-off.told"
STORED, SUGGESTED, PROPOSED, DECIDED = "stored", "suggested", "proposed", "decided"
_MOST = 100_000  # bytes that are kept
_NAMED = 3  # ids in the message


def add(
    mem_dir: str, stored: Iterable[str], suggested: Iterable[str] = (), proposed: Iterable[str] = ()
) -> None:
    """Notes ids to tell of. A disk that takes nothing costs the announcement."""
    _append(mem_dir, {STORED: stored, SUGGESTED: suggested, PROPOSED: proposed})


def decided(mem_dir: str, ids: Iterable[str]) -> None:
    """A person has rejected, accepted or forgotten these: they are not told of any more."""
    ours = [id for id in ids if id.isalnum()]  # another tool's may hold a line's end
    for name in (FILE, _TELLING):
        if os.path.exists(os.path.join(mem_dir, name)):
            _append(mem_dir, {DECIDED: ours}, name)


def _append(mem_dir: str, kinds: Mapping[str, Iterable[str]], name: str = FILE) -> None:
    lines = [f"{kind} {id}\n" for kind, ids in kinds.items() for id in ids]
    try:
        if lines:
            spool.put(os.path.join(mem_dir, name), "".join(lines).encode(), _MOST)
    except OSError:
        pass


def message(mem_dir: str) -> str:
    """What capture did, "" for nothing; `told` must follow once it was said."""
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
        elif kind == DECIDED:
            for waiting in ids.values():
                waiting.pop(id, None)
    if not any(ids.values()):
        told(mem_dir)
    return _words(list(ids[STORED]), len(ids[SUGGESTED]), len(ids[PROPOSED]))


def told(mem_dir: str) -> None:
    """What `message` gave has reached the user."""
    try:
        os.unlink(os.path.join(mem_dir, _TELLING))
    except OSError:
        pass  # told again, rather than the session held up


def capture_off(mem_dir: str) -> str:
    """How capture is turned on: once in this repository, then "".

    Not once a session: who has read it and leaves capture off has decided. Noted before it is said:
    a hook that is killed loses it, but a disk that takes nothing has no session repeat it.
    """
    path = os.path.join(mem_dir, _OFF)
    if os.path.exists(path):
        return ""
    try:
        os.close(memfile.opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    except OSError:
        return ""
    return (
        "capture is off: `git mem config capture all` turns it on (`commits`: for commit messages"
        " alone)"
    )


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
    return "; ".join(parts)
