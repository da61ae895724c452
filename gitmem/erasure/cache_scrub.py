"""Takes purged text out of `<git-common-dir>/mem/`: caches, receipts, the spool.

Promise: afterwards no file there has a doomed line, nor its text, also not in free pages or in the
write-ahead log; a cache that cannot be rewritten is removed. Files that are no cache lose the lines
that speak of a purged memory, and keep the others.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable

from ..core.fold import Tombstones
from ..core.record import Record, parse
from ..engine import cache as cache_file
from ..engine import cache_lock
from ..engine.cache import Cache
from ..git import memfile
from ..store import Store
from .doomed_objects import TELLING

_PIECE = 32  # bytes of text that give it away
_STRIDE = 1000  # a page of the cache holds several pieces of a text that runs through it
_PATIENCE = 2.0  # seconds to wait for readers of the cache
_FAMILY = re.compile(r"(?:index|history)-[0-9]+\.db")


def doomed_lines(store: Store, graves: Tombstones) -> list[Record]:
    """The records that the cache still has and may not; none where it cannot be read."""

    def read(cache: Cache) -> list[Record]:
        rows = cache.db.execute("SELECT raw FROM line WHERE op <> 'purge'")
        return [r for (raw,) in rows if graves.doom(raw) and (r := parse(raw))]

    return store.with_cache(read, refresh=False)[0]


def needles(records: Iterable[Record], other: bytes = b"") -> list[bytes]:
    """Bytes that stand in a file that has one of the records: its random digits, and pieces of its
    text as JSON has it. `other`: a line that is no record, to be found whole.
    """
    out: set[bytes] = set()
    if len(other) >= TELLING:
        out.update([other, *as_json(other.decode("utf-8", "replace"))])
    for r in records:
        if isinstance(r.data.get("n"), str) and len(r.data["n"]) >= 16:
            out.add(b'"n":"%s"' % r.data["n"].encode("utf-8", "replace"))
        texts = [r.data[k] for k in ("title", "body") if isinstance(r.data.get(k), str)]
        for raw in [raw for text in texts for raw in as_json(text)]:
            starts = range(0, len(raw) - _PIECE + 1, _STRIDE)
            out.update(raw[at : at + _PIECE] for at in starts)
    return sorted(out)


def as_json(text: str) -> list[bytes]:
    """A text as a record may have it, without the quotation marks."""
    forms = [json.dumps(text, ensure_ascii=ascii)[1:-1] for ascii in (False, True)]
    return [form.encode("utf-8", "replace") for form in forms]


def cache(store: Store, pieces: list[bytes]) -> str:
    """Takes doomed lines out of the cache; "scrubbed", or "removed" where that did not do."""
    _remove_other_caches(store.repo.mem_dir)
    path = cache_file.path_of(store.repo.mem_dir)
    end = time.monotonic() + _PATIENCE
    while True:
        (how, waiting), fresh = store.with_cache(lambda cache: (cache.how, cache.meta("scrub")))
        store.close_cache()
        if how == "memory" and not os.path.exists(path):
            return "scrubbed"
        written = fresh and not waiting and how == "file" and not cache_lock.has_log(path)
        if written and not _has(path, pieces):
            return "scrubbed"
        if time.monotonic() > end:
            store.discard()
            return "removed"
        time.sleep(0.05)


def _has(path: str, pieces: list[bytes]) -> bool:
    pattern = _any_of(pieces)
    for name in (path, path + "-wal", path + "-shm"):
        with contextlib.suppress(FileNotFoundError), open(name, "rb") as f:
            if pattern.search(f.read()):
                return True
    return False


def _any_of(words: list[bytes]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(map(re.escape, words)) or b"(?!)")


def _remove_other_caches(mem_dir: str) -> None:
    """Removes the caches of other versions of git mem, which only they could scrub, and that of
    commits, which is made anew."""
    own = os.path.basename(cache_file.path_of(mem_dir))
    for name in os.listdir(mem_dir) if os.path.isdir(mem_dir) else ():
        if _FAMILY.fullmatch(name) and name != own:
            path = os.path.join(mem_dir, name)
            with cache_lock.locked(path, _PATIENCE):
                cache_lock.unlink(path)


def files(mem_dir: str, words: list[bytes], doom: Callable[[bytes], bool]) -> list[str]:
    """Takes lines with a word, and doomed ones, out of other files; returns those changed."""
    pattern = _any_of(words)

    def goes(line: bytes) -> bool:
        return pattern.search(line) is not None or any(
            map(doom, (line, line.partition(b"\t")[2], line[line.find(b"{") :]))
        )

    changed = []
    for at, _, names in os.walk(mem_dir):
        for name in names:
            path = os.path.join(at, name)
            if _FAMILY.match(name) or name.startswith(memfile.SOCKET) or os.path.islink(path):
                continue
            with contextlib.suppress(FileNotFoundError):
                if memfile.wrong(path):  # not to be read as it is: a copy of ours, or nothing
                    memfile.clear(path)
                if not os.path.lexists(path):
                    continue
                lines = memfile.read(path).split(b"\n")
                kept = [line for line in lines if not goes(line)]
                if len(kept) < len(lines):
                    # Whoever appended to the old one sees by its inode that it must do so again
                    # (`spool.append`).
                    memfile.write(path, b"\n".join(kept))
                    changed.append(path)
    return changed
