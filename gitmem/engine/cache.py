"""The disposable cache: one SQLite file, `<git-common-dir>/mem/index-<schema>.db`.

`cache_db` reads and writes it, `tables` has the schema. Promise: damage that is seen raises
`Damaged` or sqlite3.Error, and the caller rebuilds the file from the notes. Damage is seen

* at every opening: a file of another program or layout;
* at every read: a text that is shown, by its id (`view`); sign codes and vectors, by their
  CRC; whatever SQLite finds malformed;
* by the full check alone (`cache_check.check_all`; doctor, and the worker once a day): a
  changed filter column, label, term frequency or posting. Until then it may hide a hit.

A read-only disk is opened `immutable`; where no file can be made the cache lives in memory
for one process. Standard library only, without slow imports: every prompt waits for it.
"""

from __future__ import annotations

import os
import time
from zlib import crc32

from ..git import memfile
from . import cache_lock
from .cache_db import CHUNK as CHUNK
from .cache_db import Cache as Cache
from .cache_lock import Damaged as Damaged
from .cache_lock import Moved as Moved
from .sql import Connection as Connection
from .sql import sqlite3

# The version of the cache file. Raise it with every change of `tables`, or of what `document` makes
# of a record; older files are then made anew.
SCHEMA = 26
APPLICATION = 0x676D656D  # "gmem"
# The vector spaces of the packaged table, and of the packaged encoder with its dimensions. A prompt
# compares these names instead of opening the two files.
SPACE = "minilm-plain-1-c1e43c0a-e1"
ENCODED = ("minilm-field-1-6c9f769a-e1", 384)
# In the file: one whose vectors are of another table is of another layout.
LAYOUT = crc32(f"{SCHEMA} {SPACE}".encode()) >> 1
INDEX, HISTORY = "index", "history"  # of memories, and of commits (`commit_index`): one layout
_ATTEMPTS = 20  # others may remove or replace the file while we open it


def path_of(mem_dir: str, name: str = INDEX) -> str:
    return os.path.join(mem_dir, f"{name}-{SCHEMA}.db")


def inode_of(mem_dir: str) -> int:
    """The inode of a repository's cache, 0 for none: what `discard` may remove."""
    return cache_lock.inode(path_of(mem_dir))


def open_cache(
    mem_dir: str, *, create: bool = True, wait: float = 30.0, name: str = INDEX
) -> Cache | None:
    """The cache of a repository; None where there is none and `create` is false.

    `wait`: seconds to wait for another process that makes the file. Raises Damaged for a
    file of another layout, Moved where others remove it again and again; sqlite3.Error may also
    come later, from any read.
    """
    path = path_of(mem_dir, name)
    end = time.monotonic() + wait
    try:
        for suffix in cache_lock.FILES:  # SQLite opens them by name
            memfile.clear(path + suffix)
    except OSError:
        return open_in_memory()
    for attempt in range(_ATTEMPTS):
        if attempt >= _ATTEMPTS // 4 and time.monotonic() > end:
            break
        if not cache_lock.size(path):
            if not create:
                return None
            opened = _create(mem_dir, path, wait)
        else:
            opened = _open_file(mem_dir, path, attempt == 0)
        if opened is not None:
            return opened
    raise Moved("the cache file changes all the time")


def _open_file(mem_dir: str, path: str, again: bool) -> Cache | None:
    """The cache in an existing file; None where it was removed or replaced while it was opened:
    file and log may be of two databases. `again`: also where it was not found, as a new file may
    have the inode of the removed one.
    """
    writable = os.access(mem_dir, os.W_OK) and os.access(path, os.W_OK)
    if not writable and cache_lock.has_log(path):
        return open_in_memory()  # `immutable` would leave out what only the log holds
    if writable and not cache_lock.lockable(mem_dir):
        return open_in_memory()
    inode = cache_lock.inode(path)
    db: Connection | None = None
    opened = None
    try:
        db = connect(f"file:{quoted(path)}?" + ("mode=rw" if writable else "immutable=1"))
        layout = [
            db.execute(f"PRAGMA {key}").fetchone() for key in ("user_version", "application_id")
        ]
        if layout != [(LAYOUT,), (APPLICATION,)]:
            raise Damaged("the cache file has another layout")
        if cache_lock.inode(path) == inode:
            opened = Cache(db, "file" if writable else "immutable", path, inode)
    except (sqlite3.Error, OSError, Damaged) as e:
        gone = again and getattr(e, "sqlite_errorname", "") == "SQLITE_CANTOPEN"
        if cache_lock.inode(path) == inode and not gone:
            raise
    finally:
        if db is not None and opened is None:
            db.close()
    return opened


def _create(mem_dir: str, path: str, wait: float) -> Cache | None:
    """Makes a new, empty cache file, for the caller to open: whole or not at all, and perhaps gone
    again when this returns. Returns a cache in memory where no file can be made.
    """
    try:
        os.mkdir(mem_dir, 0o700)  # without its parents: a repository that is gone stays gone
    except OSError:
        if not os.path.isdir(mem_dir):
            return open_in_memory()
    if not cache_lock.lockable(mem_dir):
        return open_in_memory()
    if not os.access(mem_dir, os.W_OK):
        return open_in_memory() if os.path.isdir(mem_dir) else None
    # Under another name, since a removed lock lets two processes make one.
    new = f"{path}.new{os.urandom(4).hex()}"
    directory = cache_lock.inode(mem_dir)
    with cache_lock.locked(path, wait) as held:
        if not held or cache_lock.size(path):
            return None
        try:
            for name in os.listdir(mem_dir):
                if name.startswith(os.path.basename(path) + ".new"):
                    os.unlink(os.path.join(mem_dir, name))  # of a killed process
            cache_lock.unlink(path)  # an orphaned log would be applied to the new file
            _with_tables(f"file:{quoted(new)}").close()  # takes SQLite's log in
            os.chmod(new, 0o600)
            os.replace(new, path)
        except Exception as e:
            # Removed under us, with its directory or by another who makes one: no failed disk.
            gone = isinstance(e, FileNotFoundError) or cache_lock.inode(mem_dir) != directory
            word = getattr(e, "sqlite_errorname", "SQLITE_CANTOPEN")
            gone = gone or (not os.path.lexists(new) and word != "SQLITE_CANTOPEN")
            cache_lock.unlink(new)
            if not gone:
                raise
            return None
        _remove_older(mem_dir)
    return None


def _remove_older(mem_dir: str) -> None:
    """Removes the caches of older layouts; a newer one may belong to a newer git mem in use."""
    for name in (INDEX, HISTORY):
        for old in range(1, SCHEMA):
            path = os.path.join(mem_dir, f"{name}-{old}.db")
            if os.path.lexists(path):
                cache_lock.unlink(path, (*cache_lock.FILES, ".lock"))


def open_in_memory() -> Cache:
    """A cache for one process, where no file can be kept."""
    return Cache(_with_tables(":memory:"), "memory", "")


def _with_tables(name: str) -> Connection:
    from . import tables  # only where a cache is made

    db = connect(name)
    try:
        db.execute("PRAGMA journal_mode=WAL")  # memory has none
        tables.make(db, APPLICATION, LAYOUT)
    except BaseException:
        db.close()
        raise
    return db


def copied_in_memory(cache: Cache) -> Connection:
    """A copy for one process, which it may change as it likes; 0.3 s for 100,000 memories."""
    db = connect(":memory:")
    cache.db.backup(db)
    return db


def quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def connect(name: str) -> Connection:
    db = sqlite3.connect(name, timeout=5.0, isolation_level=None, uri=name.startswith("file:"))
    try:
        db.execute("PRAGMA cache_size=-16000")
    except UnicodeDecodeError as e:  # SQLite quotes a decayed schema in its message
        db.close()
        raise Damaged("the cache file's layout cannot be read") from e
    # SQLite's own lower() knows ASCII only, and it has unhex() from 3.41 on.
    db.create_function("casefold", 1, _casefold, deterministic=True)
    db.create_function("unhexed", 1, bytes.fromhex, deterministic=True)
    # Only `cache_lock.take_log` moves the log. NORMAL: what a power cut takes is in the notes.
    db.execute("PRAGMA wal_autocheckpoint=0")
    db.execute("PRAGMA synchronous=NORMAL")
    return db


def _casefold(text: object) -> str:
    return text.casefold() if isinstance(text, str) else ""


def discard(mem_dir: str, inode: int = 0, name: str = INDEX) -> None:
    """Removes the cache files; whoever has them open keeps reading the old ones.

    `inode`: only if the cache is still this file, not one that another process has made since.
    """
    path = path_of(mem_dir, name)
    if not os.path.lexists(path):
        return
    with cache_lock.locked(path, 10.0):
        if not inode or cache_lock.inode(path) in (inode, 0):
            cache_lock.unlink(path)
