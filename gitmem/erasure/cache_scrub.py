"""Takes purged text out of `<git-common-dir>/mem/`: the cache, caches of other versions, receipts,
the spool.

Promise: afterwards no file there has a doomed line, nor its text, also not in
free pages or in the write-ahead log; where a reader or a full disk keeps the
cache from being rewritten, it is removed and made anew. Files that are no
cache lose the lines that speak of a purged memory, and keep the others.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time

from ..core.fold import Tombstones
from ..core.record import Record, parse
from ..engine import cache as cache_file
from ..engine import cache_lock
from ..git import memfile
from ..store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..engine.cache import Cache

_PIECE = 32  # bytes of text that give it away
_WHOLE = 16  # of a line that is no record; shorter ones stand in any file
_STRIDE = 1000  # a page of the cache holds several pieces of a text that runs through it
_PATIENCE = 2.0  # seconds to wait for readers of the cache
_FAMILY = re.compile(r"index-[0-9]+\.db")


def doomed_lines(store: Store, graves: Tombstones) -> list[Record]:
    """The records that the cache still has and may not; none where it cannot be read."""

    def read(cache: Cache) -> list[Record]:
        rows = cache.db.execute("SELECT raw FROM line WHERE op <> 'purge'")
        return [r for (raw,) in rows if graves.doom(raw) and (r := parse(raw))]

    return store.with_cache(read, refresh=False)[0]


def needles(records: Iterable[Record], other: bytes = b"") -> list[bytes]:
    """Bytes that stand in a file that has one of the records: its random digits, and pieces of its
    text as JSON has it.

    `other`: a line that is no record, to be found whole.
    """
    out: dict[bytes, None] = {}
    if len(other) >= _WHOLE:
        said = other.decode("utf-8", "replace")
        out.update(
            dict.fromkeys(
                [
                    other,
                    *(
                        json.dumps(said, ensure_ascii=ascii)[1:-1].encode("utf-8", "replace")
                        for ascii in (False, True)
                    ),
                ]
            )
        )
    for r in records:
        if isinstance(r.data.get("n"), str) and len(r.data["n"]) >= 16:
            out[b'"n":"%s"' % r.data["n"].encode("utf-8", "replace")] = None
        for text in (r.data.get("title"), r.data.get("body")):
            for ascii in (False, True) if isinstance(text, str) else ():
                raw = json.dumps(text, ensure_ascii=ascii)[1:-1].encode("utf-8", "replace")
                out.update(
                    (raw[at : at + _PIECE], None)
                    for at in range(0, len(raw), _STRIDE)
                    if len(raw) - at >= _PIECE
                )
    return list(out)


def cache(store: Store, pieces: list[bytes]) -> str:
    """Brings the cache in line with the tombstones and looks at its bytes; "scrubbed", or "removed"
    where that did not do.
    """
    _other_caches(store.repo.mem_dir)
    path = cache_file.path_of(store.repo.mem_dir)
    end = time.monotonic() + _PATIENCE
    while True:
        (how, waiting), fresh = store.with_cache(lambda cache: (cache.how, cache.meta("scrub")))
        store.close_cache()
        if how == "memory" and not os.path.exists(path):
            return "scrubbed"
        if (
            fresh
            and not waiting
            and how == "file"
            and not cache_lock.has_log(path)
            and not _has(path, pieces)
        ):
            return "scrubbed"
        if time.monotonic() > end:
            store.discard()
            return "removed"
        time.sleep(0.05)


def _has(path: str, pieces: list[bytes]) -> bool:
    if not pieces:
        return False
    pattern = re.compile(b"|".join(map(re.escape, pieces)))
    for name in (path, path + "-wal", path + "-shm"):
        with contextlib.suppress(FileNotFoundError), open(name, "rb") as f:
            if pattern.search(f.read()):
                return True
    return False


def _other_caches(mem_dir: str) -> None:
    """Removes the caches of other versions of git mem: only that version could scrub one."""
    own = os.path.basename(cache_file.path_of(mem_dir))
    for name in os.listdir(mem_dir) if os.path.isdir(mem_dir) else ():
        if _FAMILY.fullmatch(name) and name != own:
            path = os.path.join(mem_dir, name)
            with cache_lock.locked(path, _PATIENCE):
                cache_lock.unlink(path)


def files(mem_dir: str, words: list[bytes], doom: Callable[[bytes], bool]) -> list[str]:
    """Takes each line that holds one of the words, or is a doomed line, out of the files that are
    no cache; returns the files that changed.
    """
    pattern = re.compile(b"|".join(map(re.escape, words)) or b"(?!)")

    def goes(line: bytes) -> bool:
        return pattern.search(line) is not None or any(
            map(doom, (line, line.partition(b"\t")[2], line[line.find(b"{") :]))
        )

    changed = []
    for at, _, names in os.walk(mem_dir):
        for name in names:
            path = os.path.join(at, name)
            if _FAMILY.match(name) or os.path.islink(path):
                continue
            with contextlib.suppress(FileNotFoundError):
                if memfile.wrong(path):  # not to be read as it is: a copy of ours, or nothing
                    memfile.clear(path)
                if not os.path.lexists(path):
                    continue
                lines = memfile.read(path).split(b"\n")
                kept = [line for line in lines if not goes(line)]
                if len(kept) < len(lines):
                    _replace(path, b"\n".join(kept))
                    changed.append(path)
    return changed


def _replace(path: str, content: bytes) -> None:
    """Whoever appended to the old one sees by its inode that it must do so again
    (`spool.append`)."""
    temporary = f"{path}.{os.getpid()}.new"
    fd = memfile.opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(fd, "wb") as f:
        f.write(content)
    os.replace(temporary, path)
