"""Notices that the cache file was changed by anyone but us: page sums beside it.

`<cache>.sums` holds a stamp (size, inode, times of the cache file as we left
it) and a CRC-32 of each page. While the stamp holds, nothing was written since
and a reader pays one `stat` and a read of 52 bytes. Where it does not (another
program, a copied repository, a crash between two steps of ours) all pages are
summed: 13 ms for 10,000 memories (20 MB). SQLite itself misses a changed byte
in an index, a term frequency or a full-text block; this does not.

Promise: the cache file changes only under the writer lock, and the sums follow
within the same lock: pages go from the write-ahead log to the file nowhere but
in `settle`. So whoever judges pages holds that lock too. Pages that a log still
holds are not judged, SQLite reads those from the log and checks them itself.
A lock, or sums, of a file that was removed meanwhile count for nothing.

What stays unseen until a full check (`wrong`, run by worker and doctor):
bytes that change under an unchanged stamp, which is decay of the medium.
"""

from __future__ import annotations

import os
import struct
import time
import zlib

from ..git import memfile

try:
    import fcntl
except ImportError:  # Windows: SQLite's own locks remain
    fcntl = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_HEAD = struct.Struct(
    "<8s5QI"
)  # magic, page size, size, mtime, ctime, inode, CRC of what stands before and of the sums
_MAGIC = b"gmsums1\n"
_FRAME = 24  # bytes of a frame's head in SQLite's write-ahead log


class Damaged(Exception):
    """The cache file cannot be trusted; it holds nothing that the notes do not."""


class Unsummed(Damaged):
    """There are no page sums: somebody removes the files one by one, or removed these.

    To be made anew, and no damage to speak of.
    """


class Moved(Exception):
    """The open file is no longer the cache of this repository; opening again helps."""


class locked:
    """The writer lock of a cache file, held by one process at a time; False where it was not free
    within `wait` seconds.

    Also True where no lock can be kept (no flock on this system or disk, no directory).
    """

    __slots__ = ("_end", "_fd", "_path")

    def __init__(self, path: str, wait: float) -> None:
        self._path = path + ".lock"
        self._end = time.monotonic() + wait
        self._fd = -1

    def __enter__(self) -> bool:
        while True:
            try:
                self._fd = memfile.opened(self._path, os.O_RDWR | os.O_CREAT) if fcntl else -1
            except OSError:
                self._fd = -1
            if self._fd < 0:
                return True
            try:
                held = _flock(self._fd, self._end)
                if not held or os.fstat(self._fd).st_ino == inode(self._path):
                    return held
            except BaseException:
                os.close(self._fd)
                raise
            os.close(self._fd)  # removed while we waited: others lock another file by now

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def _flock(fd: int, end: float) -> bool:
    pause = 0.001
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
        except OSError:
            return True


def _stamp(path: str) -> tuple[int, int, int, int]:
    s = os.stat(path)
    return s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino


def unchanged(path: str) -> bool:
    """Whether the cache file is as we left it, by its stamp."""
    try:
        found = _HEAD.unpack(memfile.read(path + ".sums", _HEAD.size))
        return found[0] == _MAGIC and found[2:6] == _stamp(path)
    except (OSError, struct.error):
        return False


def _read(path: str) -> tuple[int, memoryview] | None:
    """(page size, sums) as stored, None where they are absent or damaged themselves.

    In the machine's own order of bytes: on another one no page is right.
    """
    try:
        raw = memfile.read(path + ".sums")
        magic, page, *_, crc = _HEAD.unpack_from(raw)
    except (OSError, struct.error):
        return None
    body = raw[_HEAD.size :]
    if magic != _MAGIC or len(body) % 4 or zlib.crc32(body, zlib.crc32(raw[:16])) != crc:
        return None
    return page, memoryview(body).cast("I")


def _write(
    path: str, page: int, sums: memoryview, fresh: dict[int, int], count: int, of: int = 0
) -> None:
    """Stores the sums of `count` pages with the file's present stamp: of some of them new ones.

    Raises Moved where the path does not name the file `of` (0: any).
    """
    body = bytearray(sums.tobytes()[: 4 * count]).ljust(4 * count, b"\0")
    view = memoryview(body).cast("I")
    for n in fresh:
        if n <= count:
            view[n - 1] = fresh[n]
    start = _MAGIC + struct.pack("<Q", page)
    temporary = f"{path}.sums.{os.getpid()}"
    try:
        with os.fdopen(memfile.opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as f:
            f.write(
                _HEAD.pack(_MAGIC, page, *_stamp(path), zlib.crc32(body, zlib.crc32(start))) + body
            )
        _still(path, of)
        os.replace(temporary, path + ".sums")
    except (OSError, Moved):
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise


def _still(path: str, of: int) -> None:
    if of and inode(path) != of:
        raise Moved("the cache was removed or replaced meanwhile")


def log_pages(path: str, page: int) -> set[int]:
    """Numbers of the pages that the write-ahead log holds; may name too many, never too few."""
    out: set[int] = set()
    try:
        fd = memfile.opened(path + "-wal")
    except OSError:
        return out
    try:
        salt = os.pread(fd, 32, 0)[16:24]
        at = 32
        while True:
            head = os.pread(fd, _FRAME, at)
            if len(head) < _FRAME or head[8:16] != salt:
                return out
            out.add(int.from_bytes(head[:4], "big"))
            at += _FRAME + page
    finally:
        os.close(fd)


def has_log(path: str) -> bool:
    try:
        return os.stat(path + "-wal").st_size > 0
    except OSError:
        return False


# {inode of a cache file that SQLite has open in this process: [connections, descriptors to read it
# by]}
_open: dict[int, list[int]] = {}


def attach(inode: int) -> None:
    """Says that SQLite opens a cache file here. Until `detach`, no other descriptor of it is
    closed.

    Closing any one drops the POSIX locks that SQLite holds on the file in this
    process (sqlite.org/howtocorrupt.html, 2.2): another process would take
    itself for the last one and remove the log under us.
    """
    _open.setdefault(inode, [0])[0] += 1


def detach(inode: int) -> None:
    """Says that a connection of this process has been closed."""
    entry = _open.get(inode)
    if entry is None:
        return
    entry[0] -= 1
    if entry[0] <= 0:
        del _open[inode]
        for fd in entry[1:]:
            os.close(fd)


class _reading:
    """A descriptor to read a cache file by; closed at once only where SQLite does not have the file
    open.
    """

    __slots__ = ("_fd", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def __enter__(self) -> int:
        entry = _open.get(inode(self._path))
        if entry and len(entry) > 1:
            return entry[1]
        self._fd = memfile.opened(self._path)
        return self._fd

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            # By what was opened, not by the name: that may mean another file by now.
            entry = _open.get(os.fstat(self._fd).st_ino)
            if entry is None:
                os.close(self._fd)
            else:
                entry.append(self._fd)


def _sum_pages(path: str, page: int, wanted: set[int] | None = None) -> dict[int, int]:
    """{page number: CRC} of the file; a last page that is not whole counts as such."""
    out: dict[int, int] = {}
    with _reading(path) as fd:
        if wanted is not None:
            for n in sorted(wanted):
                if data := os.pread(fd, page, (n - 1) * page):
                    out[n] = zlib.crc32(data)
            return out
        n = 0
        while block := os.pread(fd, page * 256, n * page):
            for i in range(0, len(block), page):
                n += 1
                out[n] = zlib.crc32(block[i : i + page])
    return out


def wrong(path: str, wait: float) -> str | None:
    """What is wrong with the first page that is not as we left it, "" where none is; None where a
    writer keeps the lock. Reads the whole file.
    """
    with locked(path, wait) as held:
        return wrong_page(path) if held else None


def wrong_page(path: str) -> str:
    """The same for the holder of the writer lock."""
    known = _read(path)
    if known is None:
        return "its page sums are missing"
    page, sums = known
    loose = log_pages(path, page)
    found = _sum_pages(path, page)
    for n in range(1, max(len(sums), len(found)) + 1):
        if n not in loose and found.get(n) != (sums[n - 1] if n <= len(sums) else None):
            return f"page {n} has changed"
    return ""


def settle(db: sqlite3.Connection, path: str, of: int = 0) -> None:
    """Takes the log into the file and brings the sums after it. The caller holds the writer lock.

    Where a reader is in the way the log stays, and a later call finishes. Raises Moved where the
    path no longer names the file `of`, which `db` has open: its sums would be those of another."""
    try:
        _settle(db, path, of)
    except FileNotFoundError:
        _still(path, of)
        raise


def _settle(db: sqlite3.Connection, path: str, of: int) -> None:
    (page,) = db.execute("PRAGMA page_size").fetchone()
    pages = log_pages(path, page)
    known = _read(path)
    sums = known[1] if known and known[0] == page else memoryview(b"").cast("I")
    _, log, done = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    size = os.stat(path).st_size // page
    _write(path, page, sums, _sum_pages(path, page, pages if sums else None), size, of)
    if log == done:
        # Nothing more goes into the file now; only the log is cut, so that it keeps no text.
        db.execute("PRAGMA busy_timeout=200")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("PRAGMA busy_timeout=5000")


def restamp(path: str) -> None:
    """Accepts the file as it is: its pages were found right. The caller holds the writer lock."""
    known = _read(path)
    if known:
        page, sums = known
        _write(path, page, sums, _sum_pages(path, page, log_pages(path, page)), len(sums))


def verify(path: str, wait: float) -> None:
    """Checks every page of a file whose stamp does not hold; raises Damaged.

    Waits for the writer lock, as the file may be in motion.
    """
    with locked(path, wait) as held:
        if held:  # else one of ours is writing at this moment
            verify_locked(path)


def verify_locked(path: str) -> None:
    """The same for the holder of the writer lock."""
    if unchanged(path):  # by now: another process was at work
        return
    what = wrong_page(path)
    if what:
        raise Damaged(what) if os.path.lexists(path + ".sums") else Unsummed(what)
    try:
        restamp(path)
    except OSError:
        pass


def lockable(mem_dir: str) -> bool:
    """Whether the file system keeps POSIX locks: without them SQLite waits as if another process
    held one.

    Asked of a file of its own, since closing any descriptor of the cache drops SQLite's locks.
    """
    try:
        fd = memfile.opened(os.path.join(mem_dir, "locks"), os.O_RDWR | os.O_CREAT) if fcntl else -1
    except OSError:
        return True  # what is wrong shows when the cache is opened
    try:
        if fd >= 0:
            fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True
    except (BlockingIOError, PermissionError):
        return True  # another holds it
    except OSError:
        return False
    finally:
        if fd >= 0:
            os.close(fd)


def inode(path: str) -> int:
    """Which file a path names, 0 for none."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def unlink(path: str) -> None:
    """Removes the files of a cache; the lock stays."""
    # The database first: whoever comes between then finds none, and waits for the lock to make one.
    for suffix in ("", "-wal", "-shm", ".sums"):
        try:
            os.unlink(path + suffix)
        except OSError:
            pass
