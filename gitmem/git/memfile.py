"""Files in `<git-common-dir>/mem/`: how they are opened, and who may read them.

What stands there may have been planted: a link would have us truncate what it leads to, a named
pipe would have us wait for ever.

Promise: `opened` gives a regular file of ours, with one name and mode 0600, or raises OSError.
Where a writer finds anything else, it removes that name, never what the name leads to, and makes
the file anew. `mem/` itself must be a directory of ours and no link, else nothing in it is used.

Ours: of the user, or of the owner of the directory above (root in a container works in the clone
of a user). Imports only `os`: every prompt waits for it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

NOWHERE = os.path.join(os.devnull, "mem")  # nothing is found or made below it
_WRITES = os.O_WRONLY | os.O_RDWR
SAFE = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"))
# `stat` is an import
_KIND, _FILE, _DIRECTORY, _LINK, _SOCKET = 0o170000, 0o100000, 0o040000, 0o120000, 0o140000
SOCKET = "prefork.sock"  # begins the names that are sockets, of `prefork`
WORKER = "worker.pid"  # there while a worker is at work, or was killed: `spool.asleep`
_OTHERS = 0o077
MOST = 8_000_000  # bytes of a file that is copied; a spool has at most five million
_MODE = "has mode"
CLOSED = "is another user's and closed to you"  # in a repository that a group shares


def directory(common_dir: str) -> str:
    """`mem/` of a repository, there or not; NOWHERE where it may not be used."""
    path = os.path.join(common_dir, "mem")
    return NOWHERE if wrong(path, _DIRECTORY) else path


def make(common_dir: str) -> str:
    """`mem/`, made where it is missing. Raises MemError where it may not be used, OSError."""
    path = os.path.join(common_dir, "mem")
    if why := wrong(path, _DIRECTORY):
        from ..core.errors import MemError

        raise MemError(f"'{path}' {why}", hint="git mem keeps its cache there; move it away")
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    return path


def opened(path: str, flags: int = os.O_RDONLY) -> int:
    """A descriptor, as `os.open` gives it. Raises OSError, also for a file that is not ours."""
    above = os.path.dirname(path)
    if why := wrong(above, _DIRECTORY):
        raise NotADirectoryError(20, why, above)
    if flags & _WRITES:
        _close_to_others(above, os.lstat(above))
        clear(path)
    fd = os.open(path, flags & ~os.O_TRUNC | SAFE, 0o600)
    try:
        found = os.fstat(fd)
        if why := _unfit(path, found, _FILE):
            raise FileNotFoundError(2, why, path)
        if flags & os.O_TRUNC and found.st_size:
            os.ftruncate(fd, 0)
    except BaseException:
        os.close(fd)
        raise
    return fd


def read(path: str, most: int = -1) -> bytes:
    """The content, at most so many bytes of it. Raises OSError."""
    with open(opened(path), "rb") as f:
        return f.read(most)


def write(path: str, content: bytes, sync: bool = False) -> None:
    """Replaces a file: afterwards it is the old or the new one, whole. Raises OSError."""
    new = f"{path}.{os.getpid()}"
    try:
        with open(opened(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as f:
            f.write(content)
            if sync:
                f.flush()
                os.fsync(f.fileno())
        os.replace(new, path)
    except OSError:
        try:
            os.unlink(new)
        except OSError:
            pass
        raise


def clear(path: str) -> None:
    """Makes a name fit for a writer: none, or a file of ours closed to others. Raises OSError."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not _unfit(path, found, _FILE):
        _close_to_others(path, found)
    elif found.st_mode & _KIND != _DIRECTORY:  # what is in one is somebody's
        _part(path, found)


def _part(path: str, found: os.stat_result) -> None:
    """Removes a name. A file of ours that has another one (`cp -al`) is replaced by a copy: what
    waits in the spool stands nowhere else. Parts of a cache go: they fit only each other.
    """
    cache = os.path.basename(path).startswith(("index-", "history-"))
    mine = found.st_mode & _KIND == _FILE and found.st_uid == _user(found)
    if not mine or cache or found.st_size > MOST:
        os.unlink(path)
        return
    with open(os.open(path, os.O_RDONLY | SAFE), "rb") as f:
        if os.fstat(f.fileno()).st_ino != found.st_ino:
            return  # somebody did so meanwhile
        write(path, f.read(MOST))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))  # no younger by that


def wrong(path: str, kind: int = _FILE) -> str:
    """Why what stands there may not be used, "" for nothing there and for ours."""
    try:
        return _unfit(path, os.lstat(path), kind)
    except OSError:
        return ""


def _unfit(path: str, found: os.stat_result, kind: int) -> str:
    listens = found.st_mode & _KIND == _SOCKET and os.path.basename(path).startswith(SOCKET)
    if found.st_mode & _KIND != kind and not listens:
        if found.st_mode & _KIND == _LINK:
            return "is a link"
        return "is no directory" if kind == _DIRECTORY else "is no regular file"
    if kind == _FILE and found.st_nlink > 1:
        return "has another name"  # what we write would appear there, too
    if found.st_uid not in (_user(found), os.stat(os.path.dirname(path)).st_uid):
        return "belongs to another user"
    return ""


def _user(found: os.stat_result) -> int:
    return os.geteuid() if hasattr(os, "geteuid") else found.st_uid


def _close_to_others(path: str, found: os.stat_result) -> None:
    if found.st_mode & _OTHERS:
        try:
            os.chmod(path, found.st_mode & 0o700)
        except OSError:
            pass  # not ours, or a file system without modes


def odd(common_dir: str) -> Iterator[tuple[str, str]]:
    """(path, what is wrong with it) of `mem/` and everything in it."""
    path = os.path.join(common_dir, "mem")
    if why := wrong(path, _DIRECTORY):
        yield path, why
    elif os.path.isdir(path) and not os.access(path, os.R_OK | os.X_OK):
        yield path, CLOSED
    elif os.path.isdir(path):
        yield from _odd(path)


def _odd(path: str) -> Iterator[tuple[str, str]]:
    found = os.lstat(path)
    folder = found.st_mode & _KIND == _DIRECTORY
    if why := _unfit(path, found, _DIRECTORY if folder else _FILE):
        yield path, why
        return
    if found.st_mode & _OTHERS:
        yield path, f"{_MODE} {found.st_mode & 0o777:04o}"
    for entry in os.listdir(path) if folder else ():
        try:
            yield from _odd(os.path.join(path, entry))
        except OSError:
            continue  # gone meanwhile


def mend(common_dir: str) -> None:
    """Closes `mem/` to others and removes what is not ours in it."""
    odd_ones = [] if directory(common_dir) == NOWHERE else list(odd(common_dir))
    for path, why in odd_ones:  # of NOWHERE nothing: a person put it there
        try:
            if why.startswith(_MODE):
                os.chmod(path, os.lstat(path).st_mode & 0o700)
            elif why != CLOSED:
                _part(path, os.lstat(path))
        except OSError:
            continue
