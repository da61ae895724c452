"""Inbox of the worker: one line an event in `<git-common-dir>/mem/spool`, and the worker's start.

Promise: a line is in the file before `append` returns, by one write. `drain` renames the file
before it reads it, so whoever appends meanwhile begins a new one; after a crash it may hand a line
out twice, so what is made of an event must bear a repeat. What a killed drain left is handed out
line by line: only a line that was at work alone when a drain was killed is dropped, and that is
told. Lines whose work failed wait in a file of their own, up to `TRIES` times. The files have mode
0600 and hold at most 5 MB and 24 hours: what is older goes first. Hooks in `sh` (hooks/event.sh)
append and wake by the same rules.

Imports only `os`, `errno` and what Python has loaded anyway: every prompt waits for it.
"""

from __future__ import annotations

import errno
import os
import sys
import time

from ..git import memfile

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Handle = Callable[[list[bytes]], list[bytes] | None]

MOST = 5_000_000  # bytes of both files
OLDEST = 24 * 3600  # seconds
LONGEST = 1_000_000  # bytes of one line
LIFETIME = 900  # seconds after which a worker is dead, whoever has its number now

# The present file and the one before it: whole files are dropped, nothing is ever rewritten.
_NOW, _OLD = "spool", "spool.old"
_SINCE = "spool.since"  # its mtime is the begin of the present file
_TAKEN = "spool.taken"  # in work
_AGAIN = "spool.again"  # in work line by line, after a crash or on a full disk
_LATER = "spool.later"  # what failed: a disk may be full, a ref locked
TRIES = 10  # times that an event may fail before it is given up
_AT_WORK = b"\0"  # the first byte of a line while it is at work alone
_SKEW = 60  # seconds by which a file may be of the future: clocks differ
_PATIENCE = 600  # seconds after which a hook starts a worker for what failed
_SETTLE = 0.05  # seconds in which a writer that opened the file before it was renamed has written


def append(mem_dir: str, line: bytes) -> None:
    """One event without a newline. Raises OSError (not stored), ValueError (cannot be a line)."""
    if b"\n" in line or len(line) > LONGEST:
        raise ValueError("an event is one line of at most a megabyte")
    path = os.path.join(mem_dir, _NOW)
    while True:
        mine = put(path, b"\n" + line + b"\n")  # the first ends what a full disk may have torn
        now = _stat(path)
        if now and now.st_ino == mine.st_ino:
            _bound(mem_dir, mine.st_size)
            return
        # Taken by a worker in between, which may have read it already: a repeat is harmless.


def put(path: str, data: bytes, most: int = 0) -> os.stat_result:
    """Adds to a file by one write. Raises OSError, also where it would have over `most` bytes."""
    fd = memfile.opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        if most and os.fstat(fd).st_size + len(data) > most:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        _whole(os.write(fd, data), len(data))
        return os.fstat(fd)
    finally:
        os.close(fd)


def drain(
    mem_dir: str,
    handle: Handle,
    later: bool = True,
    log: Callable[[str], object] = lambda text: None,
) -> None:
    """Hands all waiting lines to `handle`, in their order. One process at a time.

    The lines that `handle` returns failed, and are kept for a later drain (`later`: this is one),
    as far as there is room. `log` is told of lines that are given up. Raises OSError where failed
    lines cannot be kept: everything waits for the next drain then.
    """
    expire(mem_dir)
    taken, again, kept = (os.path.join(mem_dir, name) for name in (_TAKEN, _AGAIN, _LATER))
    lost = 0

    def keep(failed: list[bytes] | None) -> None:
        nonlocal lost
        lost += _keep(kept, failed or [])

    try:
        if os.path.lexists(again):
            _alone(again, handle, keep, log)
        if _move(taken, again):
            _alone(again, handle, keep, log)
        for name in (*((_LATER,) if later else ()), _OLD, _NOW):
            if _move(os.path.join(mem_dir, name), taken):
                _read(taken, handle, keep)
    finally:
        if lost:
            log(f"{lost} events given up: too many that failed wait for another try")
    _unlink(os.path.join(mem_dir, _SINCE))


def waiting(mem_dir: str) -> bool:
    """Whether lines wait to be drained."""
    return any(_size(os.path.join(mem_dir, name)) for name in (_NOW, _OLD, _TAKEN, _AGAIN))


def unfinished(mem_dir: str) -> bool:
    """Whether lines wait, be it for another try."""
    return waiting(mem_dir) or _size(os.path.join(mem_dir, _LATER)) > 0


def expire(mem_dir: str) -> None:
    """Removes files that nobody has written to for 24 hours."""
    now = time.time()
    for name in (_NOW, _OLD, _TAKEN, _AGAIN, _LATER):
        path = os.path.join(mem_dir, name)
        if now - _mtime(path, now) > OLDEST:
            _unlink(path)


# the cache lacks something: whatever follows an event brings it up to date
BEHIND = b'{"event":"behind"}'


def ask(common_dir: str, line: bytes = BEHIND) -> bool:
    """Leaves an event and starts the worker, unless one is there; False where it cannot."""
    try:
        append(memfile.directory(common_dir), line)
        wake(common_dir)
    except (OSError, ValueError):
        return False
    return True


def wake(common_dir: str) -> bool:
    """Starts one worker, detached, unless one is alive; whether it did. Append first."""
    mem_dir = memfile.directory(common_dir)
    if not asleep(mem_dir) or not hasattr(os, "posix_spawn"):
        return False
    try:
        fd = memfile.opened(os.path.join(mem_dir, "worker.start"), os.O_WRONLY | os.O_CREAT)
    except OSError:
        return False
    try:
        if fcntl:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not asleep(mem_dir):
            return False
        # Isolated: what PYTHONPATH or the working tree holds is not imported.
        argv = [sys.executable, "-EP", "-m", "gitmem", "worker", common_dir]
        closed = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, 0, 2),
        ]
        claim(mem_dir, os.posix_spawn(sys.executable, argv, os.environ, file_actions=closed))
        return True
    except OSError:
        return False  # another is starting it at this moment
    finally:
        os.close(fd)


def rescue(common_dir: str) -> None:
    """Starts the worker where lines have waited for a minute: it may have been killed, and its
    number be another process's by now. What failed waits longer.
    """
    now = time.time()
    for name, seconds in ((_NOW, 60), (_LATER, _PATIENCE)):
        age = now - _mtime(os.path.join(common_dir, "mem", name), now)
        if not -_SKEW <= age <= seconds:
            wake(common_dir)
            return


def asleep(mem_dir: str) -> bool:
    """Whether no worker is on its way or at work.

    A worker takes its number away before it looks at the spool for the last time: whoever appended
    before finding a living number is served.
    """
    path = os.path.join(mem_dir, memfile.WORKER)
    try:
        os.kill(int(memfile.read(path, 20)), 0)
        # A clock that was set back would have it live for ever.
        return not -_SKEW <= time.time() - _mtime(path, 0.0) <= LIFETIME
    except (OSError, ValueError, OverflowError):
        return True


def lock(mem_dir: str) -> str:
    """What `cache_lock.locked` takes for the one worker of a repository."""
    return os.path.join(mem_dir, "worker")


def claim(mem_dir: str, pid: int) -> None:
    """Says that this process is the worker; 0: that there is none."""
    path = os.path.join(mem_dir, memfile.WORKER)
    if pid:
        memfile.write(path, b"%d\n" % pid)
    else:
        _unlink(path)


def refuse(common_dir: str) -> None:
    """Says that this process is no worker, where whoever started it said so."""
    path = os.path.join(memfile.directory(common_dir), memfile.WORKER)
    try:
        if int(memfile.read(path, 20)) == os.getpid():
            _unlink(path)
    except (OSError, ValueError):
        pass


def _read(path: str, handle: Handle, keep: Callable[[list[bytes] | None], None]) -> None:
    """Hands out the lines of a renamed file, also those that still come; removes it."""
    renamed = time.monotonic()
    rest = b""
    with open(memfile.opened(path), "rb") as f:
        while True:
            *whole, rest = (rest + f.read()).split(b"\n")
            lines = [line for line in whole if line]
            if lines:
                keep(handle(lines))
            left = renamed + _SETTLE - time.monotonic()
            if left > 0:
                time.sleep(left)
            elif not lines:
                break
    _unlink(path)


def _alone(
    path: str,
    handle: Handle,
    keep: Callable[[list[bytes] | None], None],
    log: Callable[[str], object],
) -> None:
    """Hands out the lines of a file one by one, and removes it. How far it came stands in the file
    itself, in bytes that are there already: a full disk has no others.
    """
    with open(memfile.opened(path, os.O_RDWR), "r+b", buffering=0) as f:
        facts = os.fstat(f.fileno())

        def write(at: int, data: bytes) -> None:
            f.seek(at)
            _whole(f.write(data) or 0, len(data))
            # No younger by that: see `expire`.
            os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))

        lines: list[bytes] = (f.read() or b"").split(b"\n")
        killers = sum(line.startswith(_AT_WORK) for line in lines)
        if killers:
            log(f"{killers} events given up: a worker was killed twice at each")
        at = 0
        for line in lines:
            if line and not line.startswith(_AT_WORK):
                write(at, _AT_WORK)
                try:
                    failed = handle([line])
                except Exception:
                    raise  # as if killed
                except BaseException:  # interrupted: not its fault
                    write(at, line[:1])
                    raise
                try:
                    keep(failed)
                except OSError:
                    write(at, line[:1])
                    raise
            if line:
                write(at, b"\n" * len(line))
            at += len(line) + 1
    _unlink(path)


def _keep(path: str, lines: list[bytes]) -> int:
    """Adds lines that failed; returns how many found no place. Raises OSError: then adds none."""
    if not lines or _size(path) >= MOST // 2:
        return len(lines)
    data = b"\n" + b"\n".join(lines) + b"\n"
    fd = memfile.opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        before = os.fstat(fd).st_size
        try:
            _whole(os.write(fd, data), len(data))
        except OSError:
            os.ftruncate(fd, before)  # nobody else writes here
            raise
    finally:
        os.close(fd)
    return 0


def _whole(written: int, length: int) -> None:
    """Raises OSError where a full disk, or a file at its limit, took a part and said nothing."""
    if written < length:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _bound(mem_dir: str, size: int) -> None:
    """Begins a new file where the present one is half as large or half as old as both may be."""
    since, now = os.path.join(mem_dir, _SINCE), time.time()
    begun = _mtime(since, 0.0)
    if begun and size < MOST // 2 and now - begun < OLDEST / 2:
        return
    if begun:
        _move(os.path.join(mem_dir, _NOW), os.path.join(mem_dir, _OLD))
        _unlink(since)
    os.close(memfile.opened(since, os.O_WRONLY | os.O_CREAT))


def _move(source: str, target: str) -> bool:
    try:
        os.replace(source, target)
        return True
    except FileNotFoundError:
        return False


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _size(path: str) -> int:
    found = _stat(path)
    return found.st_size if found else 0


def _mtime(path: str, default: float) -> float:
    found = _stat(path)
    return found.st_mtime if found else default
