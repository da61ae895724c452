"""What one agent session has been shown and has done: a private file in
`<git-common-dir>/mem/sessions/`.

Hooks of one session run side by side and each lives for milliseconds, so the
file is only ever appended to, one write a call: no line of another hook is
lost, and a line that a full disk tore is skipped. It is named by a hash of the
session's id, which comes from outside and may be any text. Mode 0600, bounded,
gone after a week; the worker makes receipts of it (`agents/receipts`).

It holds ids, ref tips, paths and words that hooks choose, no text of a memory
or a prompt. Lost with the cache; then a memory may be shown once more.

Imports only `os`, `time` and a digest: every prompt waits for it.
"""

from __future__ import annotations

import os
import time

from ..core.digest import sha256
from ..git import memfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# "shown": `name=value` words about the call, then ids of memories; "touched": paths from the top of
# the tree; "failed": a tool and its paths; "cited": ids that an answer named; "start": its source
# (startup, resume ...); "context": the model's context was emptied (compact, clear); "end": the
# reason; "receipt": the last line that receipts tell of; "id": the session's id, in the first line.
KINDS = ("shown", "touched", "failed", "cited", "start", "context", "end", "receipt", "id")
ROUTES = ("start", "prompt", "subagent", "compact", "tool")

DIR = "sessions"
OLDEST = 7 * 24 * 3600  # seconds without a line after which a file goes
MOST = 512 * 1024  # bytes of a file; beyond them nothing is noted
_LESS = MOST // 2  # beyond them no "touched" and "failed": there is always room for "shown"
_LONGEST = 64 * 1024  # bytes of one call
_TAIL = 8192  # bytes of the end of a file in which its last lines are looked for
_VALUE = 4096  # bytes of a value; a longer one is left out

Entry = tuple[str, float, list[str], bytes]  # kind, time, values, the line


def key(session: str | None) -> str:
    """The name of a session's file: 32 hex digits."""
    return sha256((session or "").encode("utf-8", "surrogatepass")).hexdigest()[:32]


def path_of(mem_dir: str, session: str | None) -> str:
    return os.path.join(mem_dir, DIR, key(session))


def note(mem_dir: str, session: str | None, kind: str, values: Iterable[str]) -> bool:
    """Adds one line; whether it is in the file.

    Nothing is noted without a session, without `mem_dir`, or where the file is full. Never raises
    OSError.
    """
    if not session or kind not in KINDS:
        return False
    most = _LESS if kind in ("touched", "failed") else MOST
    path = path_of(mem_dir, session)
    return _append(mem_dir, path, _line("id", [session]), _line(kind, values), most)


def injected(
    mem_dir: str,
    session: str | None,
    ids: Iterable[str],
    route: str,
    agent: str,
    head: str,
    refs: Mapping[str, str],
) -> bool:
    """Notes ids that reached the model, with the route (one of ROUTES), HEAD and notes refs."""
    about = [f"route={route}", f"agent={agent}", f"head={head}"]
    tips = [f"{ref}={tip}" for ref, tip in sorted(refs.items()) if tip]
    return note(mem_dir, session, "shown", [*about, *tips, *ids])


def shown(mem_dir: str, session: str | None) -> set[str]:
    """Ids in the context of the session's model: those shown since it was last emptied, without
    those that only subagents were shown.
    """
    found: set[str] = set()
    for kind, _, values, _ in lines(mem_dir, session):
        if kind == "shown" and "route=subagent" not in values:
            found.update(v for v in values if "=" not in v)
        elif kind == "context":
            found.clear()
    return found


def told(mem_dir: str, session: str | None) -> list[str]:
    """Ids that the session or one of its subagents was ever shown, each once."""
    shown = [values for kind, _, values, _ in lines(mem_dir, session) if kind == "shown"]
    return list(dict.fromkeys([v for values in shown for v in values if "=" not in v]))


def read(mem_dir: str, session: str | None) -> dict[str, list[str]]:
    """Kind -> values in the order they were first noted, each once; every kind has a list.

    `about` words of "shown" are left out.
    """
    found: dict[str, dict[str, None]] = {kind: {} for kind in KINDS}
    for kind, _, values, _ in lines(mem_dir, session):
        found[kind].update((v, None) for v in values if kind != "shown" or "=" not in v)
    return {kind: list(values) for kind, values in found.items()}


def lines(mem_dir: str, session: str | None) -> list[Entry]:
    """`entries` of a session's file."""
    return entries(path_of(mem_dir, session)) if session else []


def entries(path: str) -> list[Entry]:
    """The lines of a file, in their order; torn and foreign ones are skipped.

    Empty where there is no file.
    """
    try:
        fd = memfile.opened(path)
    except OSError:
        return []
    try:
        data = os.read(fd, MOST + 2 * _LONGEST)
    except OSError:
        return []
    finally:
        os.close(fd)
    return [entry for line in data.split(b"\n") if line and (entry := _parse(line))]


def pending(path: str) -> list[Entry]:
    """What no receipt tells of yet: the lines after the one that the last mark names, also those a
    hook wrote while the receipt was made.
    """
    found = entries(path)
    marks = [i for i, entry in enumerate(found) if entry[0] == "receipt"]
    if not marks:
        return found
    last = marks[-1]
    # A purge may have taken the named line out; then the mark's own place is what is left.
    named = [i for i in range(last) if found[last][2][:1] == [_digest(found[i][3])]]
    return [entry for entry in found[(named or marks)[-1] + 1 :] if entry[0] != "receipt"]


def mark(path: str, entry: Entry) -> bool:
    """Says that receipts tell of everything up to this line."""
    mem_dir = os.path.dirname(os.path.dirname(path))
    line = _line("receipt", [_digest(entry[3])])
    return _append(mem_dir, path, b"", line, MOST + _LONGEST)


def settled(path: str) -> bool:
    """Whether nothing is pending, as far as the end of the file tells: the last line is a mark, and
    it names the last line that is none.
    """
    try:
        with open(memfile.opened(path), "rb") as f:
            f.seek(-min(os.fstat(f.fileno()).st_size, _TAIL), os.SEEK_END)
            tail = f.read().split(b"\n")
    except OSError:
        return False
    last = [entry for line in tail[-20:] if (entry := _parse(line))]
    others = [entry for entry in last if entry[0] != "receipt"]
    return bool(others) and last[-1][0] == "receipt" and last[-1][2] == [_digest(others[-1][3])]


def files(mem_dir: str) -> list[tuple[str, float]]:
    """(path, time of the last line) of every session's file, the oldest first."""
    found: list[tuple[float, str]] = []
    try:
        names = os.listdir(os.path.join(mem_dir, DIR))
    except OSError:
        return []
    for name in names:
        if len(name) != 32:
            continue  # of a purge at work
        path = os.path.join(mem_dir, DIR, name)
        try:
            facts = os.lstat(path)
            # Only a regular file, by its number since `stat` is an import: opening a named pipe
            # would wait.
            if facts.st_mode & 0o170000 == 0o100000:
                found.append((facts.st_mtime, path))
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


# --- lines ------------------------------------------------------------------


def _line(kind: str, values: Iterable[str]) -> bytes:
    """kind, time and values between tabs; the dot at the end tells a whole line from a torn one."""
    parts = [kind.encode(), b"%.3f" % time.time()]
    size = 0
    for value in values:
        if not (value.isalnum() and value.isascii()):
            value = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
        part = value.encode("utf-8", "surrogatepass")
        size += len(part) + 1
        if len(part) > _VALUE:
            continue
        if size > _LONGEST - 256:
            break
        parts.append(part)
    return b"\t".join([*parts, b".\n"])


def _digest(line: bytes) -> str:
    return sha256(line).hexdigest()[:32]


def _parse(line: bytes) -> Entry | None:
    kind, _, rest = line.partition(b"\t")
    when, *values = rest.split(b"\t")
    if not values or values.pop() != b".":
        return None
    try:
        name, at = kind.decode("ascii"), float(when)
        if name in KINDS and 0 <= at < 1e11:
            return name, at, [_plain(v.decode("utf-8", "surrogatepass")) for v in values], line
    except ValueError:
        pass
    return None


def _plain(value: str) -> str:
    if "\\" not in value:
        return value
    return "\\".join(part.replace("\\n", "\n").replace("\\t", "\t") for part in value.split("\\\\"))


def _append(mem_dir: str, path: str, first: bytes, line: bytes, most: int) -> bool:
    """One write.

    `first` stands before it in a new file (in two, where two hooks are the first). Nothing where
    `mem_dir` is missing.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    try:
        for _ in range(5):
            try:
                fd = memfile.opened(path, flags)
            except FileNotFoundError:
                try:
                    os.mkdir(os.path.join(mem_dir, DIR), 0o700)
                except FileExistsError:
                    pass  # another hook was first
                fd = memfile.opened(path, flags)
            try:
                here = os.fstat(fd)
                if here.st_size + len(line) > most:
                    return False
                # The first newline ends what a full disk may have torn.
                data = b"\n" + line if here.st_size else first + line
                whole = os.write(fd, data) == len(data)
            finally:
                os.close(fd)
            if _inode(path) == here.st_ino:
                return whole
            # Replaced by a purge, or evicted, in between: into the new one.
    except OSError:
        pass
    return False


def _inode(path: str) -> int:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return 0
