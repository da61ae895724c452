"""What one agent session was shown and did: a file in `<git-common-dir>/mem/sessions/`.

Hooks of one session run side by side and each lives for milliseconds, so the file is only ever
appended to, one write a call: no line of another hook is lost, and a line that a full disk tore is
skipped. It is named by a hash of the session's id, which comes from outside and may be any text.
Mode 0600, bounded, gone after a week; the worker makes receipts of it (`agents/receipts`). It holds
ids, digests, ref tips, paths and words that hooks choose, no text of a memory or a prompt. Lost
with the cache; then a memory may be shown once more.

Imports nothing that costs: every prompt waits for it.
"""

from __future__ import annotations

import os
import time

from ..core import fastjson
from ..core.digest import sha256
from ..git import memfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# "shown": `name=value` words about the call, then ids of memories and their marks, `id=digest`, for
# one that was edited since counts as new; "touched": paths from the top of
# the tree; "cited": ids that an answer named; "start": its source (startup, resume ...); "context":
# the model's context was emptied (compact, clear); "end": the reason; "receipt": the last line that
# receipts tell of; "id": the session's id, in the first line.
KINDS = ("shown", "touched", "cited", "start", "context", "end", "receipt", "id")
ROUTES = ("start", "prompt", "subagent", "compact", "tool")

DIR = "sessions"
OLDEST = 7 * 24 * 3600  # seconds without a line after which a file goes
MOST = 512 * 1024  # bytes of a file; beyond them nothing is noted
_LESS = MOST // 2  # beyond them no "touched": there is always room for "shown"
_VALUE = 4096  # characters of a value; a longer one is left out
_VALUES = 128  # of one call: a block names 40 memories with their marks, a tool 50 files at most
_ABOUT = ("route=", "agent=", "head=", "subagent=", "refs/")  # words about a call

Entry = tuple[str, float, list[str], bytes]  # kind, time, values, the line


def key(session: str) -> str:
    """The name of a session's file: 32 hex digits."""
    return sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def path_of(mem_dir: str, session: str) -> str:
    return os.path.join(mem_dir, DIR, key(session))


class Notes:
    """One session's file, as one call of a hook sees it; nothing is noted where `session` is "".

    `subagent`: its id, where it calls: it does not see what its session was shown, nor the other
    way round. Nothing here raises OSError.
    """

    def __init__(self, mem_dir: str, session: str, subagent: str = "") -> None:
        self.session = session
        self._mem_dir = mem_dir
        self._path = path_of(mem_dir, session)
        self._subagent = f"subagent={key(subagent)[:12]}" if subagent else ""

    def add(self, kind: str, values: Iterable[str]) -> bool:
        """Adds one line; whether it is in the file: not where that is full or `mem_dir` lacks."""
        if not self.session or kind not in KINDS:
            return False
        most = _LESS if kind == "touched" else MOST
        return _append(self._path, _line("id", [self.session]), _line(kind, values), most)

    def add_shown(
        self, ids: Iterable[str], route: str, agent: str, head: str, refs: Mapping[str, str]
    ) -> bool:
        """Notes ids that reached the model, with the route (one of ROUTES), HEAD and notes refs."""
        if self._subagent:
            route, ids = "subagent", [self._subagent, *ids]
        about = [f"route={route}", f"agent={agent}", f"head={head}"]
        tips = [f"{ref}={tip}" for ref, tip in sorted(refs.items()) if tip]
        return self.add("shown", [*about, *tips, *ids])

    def shown(self) -> set[str]:
        """Ids and marks of memories in the model's context: those shown since it was emptied, of
        each id the last mark.
        """
        found: dict[str, str] = {}
        for kind, _, values, _ in entries(self._path):
            if kind == "context" and not self._subagent:
                found.clear()
            elif kind == "shown":
                subagents = "route=subagent" in values
                if self._subagent in values if self._subagent else not subagents:
                    told = [v for v in values if not v.startswith(_ABOUT)]
                    found.update({v[: v.rfind("=") + 1] or v: v for v in told})
        return set(found.values())

    def read(self) -> dict[str, list[str]]:
        """Kind -> values in the order they came, each once, for every kind; of "shown" the ids."""
        found: dict[str, dict[str, None]] = {kind: {} for kind in KINDS}
        for kind, _, values, _ in entries(self._path):
            found[kind].update((v, None) for v in values if kind != "shown" or "=" not in v)
        return {kind: list(values) for kind, values in found.items()}


def entries(path: str) -> list[Entry]:
    """The lines of a file, in their order; torn and foreign ones are skipped."""
    try:
        data = memfile.read(path, 2 * MOST)
    except OSError:
        return []
    return [entry for line in data.split(b"\n") if line and (entry := _parse(line))]


def pending(path: str) -> list[Entry]:
    """What no receipt tells of yet: the lines after the one that the last mark names."""
    found = entries(path)
    marks = [i for i, entry in enumerate(found) if entry[0] == "receipt"]
    if not marks:
        return found
    last = marks[-1]
    # A purge may have taken the named line out; then the mark's own place is what is left.
    named = [i for i in range(last) if found[last][2][:1] == [sha256(found[i][3]).hexdigest()[:32]]]
    return [entry for entry in found[(named or marks)[-1] + 1 :] if entry[0] != "receipt"]


def mark(path: str, entry: Entry) -> bool:
    """Says that receipts tell of everything up to this line."""
    line = _line("receipt", [sha256(entry[3]).hexdigest()[:32]])
    return _append(path, b"", line, 2 * MOST)  # there is room in a full file, too


def files(mem_dir: str) -> list[tuple[str, float]]:
    """(path, time of the last line) of every session's file, the oldest first."""
    found: list[tuple[float, str]] = []
    try:
        names = os.listdir(os.path.join(mem_dir, DIR))
    except OSError:
        return []
    for name in names:
        path = os.path.join(mem_dir, DIR, name)
        # Other names are those of a purge at work. What is no regular file is none of ours.
        if len(name) == 32 and os.path.isfile(path) and not os.path.islink(path):
            try:
                found.append((os.lstat(path).st_mtime, path))
            except OSError:
                continue
    return [(path, when) for when, path in sorted(found)]


def evict(mem_dir: str, now: float, keep: int = 2000) -> int:
    """Removes files without a line for a week, and the oldest beyond `keep`; returns how many."""
    found = files(mem_dir)
    extra = len(found) - keep
    old = [path for i, (path, at) in enumerate(found) if now - at > OLDEST or i < extra]
    for path in old:
        try:
            os.unlink(path)
        except OSError:
            pass
    return len(old)


def _line(kind: str, values: Iterable[str]) -> bytes:
    """One JSON array: kind, time, and the first values that are not too long."""
    kept = [value for value in values if len(value) <= _VALUE][:_VALUES]
    text = fastjson.dumps([kind, round(time.time(), 3), *kept])
    return text.encode("utf-8", "surrogatepass") + b"\n"


def _parse(line: bytes) -> Entry | None:
    try:
        kind, at, *values = fastjson.loads(line)
        if kind in KINDS and 0 <= at < 1e11 and all(isinstance(v, str) for v in values):
            return kind, at, values, line
    except (ValueError, TypeError, RecursionError):
        pass
    return None


def _append(path: str, first: bytes, line: bytes, most: int) -> bool:
    """One write; `first` stands before it in a new file (in two, where two hooks are the first)."""
    directory = os.path.dirname(path)
    try:
        if not os.path.isdir(directory) and os.path.isdir(os.path.dirname(directory)):
            os.makedirs(directory, 0o700, exist_ok=True)  # another hook may be first
        for _ in range(5):
            fd = memfile.opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                here = os.fstat(fd)
                if here.st_size + len(line) > most:
                    return False
                # The first newline ends what a full disk may have torn.
                data = b"\n" + line if here.st_size else first + line
                whole = os.write(fd, data) == len(data)
                if os.stat(path).st_ino == here.st_ino:
                    return whole
            finally:
                os.close(fd)
            # Replaced by a purge, or evicted, in between: into the new one.
    except OSError:
        pass
    return False
