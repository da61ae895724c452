"""The files of one object store: deletes single objects from it, by name.

Promise: every other object stays, also an unreachable one, with the age that git goes by. A pack is
written anew before the old one goes; the multi-pack-index and the commit-graph, which name objects,
are deleted before and written anew afterwards. So a crash at any instant leaves every other object
readable, and running again finishes. Nothing is fetched, nothing in alternates is touched.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import socket
import time
import zlib
from collections.abc import Callable, Iterable, Iterator

from ..core.errors import GitFailed, MemError
from . import reflock
from .gitcmd import NO_FETCH, Git

PATIENCE = 30.0  # seconds to wait for another clean-up
_SETTLED = 2.0  # seconds without a write: a temporary file belongs to a crashed process
_LOCKED = 10.0  # seconds: git holds `gc.pid.lock` for an instant, so an older one was left behind
_FOREIGN_HOST = 12 * 3600  # seconds git itself believes a clean-up on another machine


class Odb:
    """The object store of one repository and all its worktrees, without its alternates.

    `git` is a git of its own, which fetches nothing and ignores replace refs; the caller closes it.
    """

    def __init__(self, git: Git, hex_len: int) -> None:
        self.git = Git(git.git_dir)
        self.git.common_dir = git.common_dir
        # A partial clone must not ask its remote for what was just deleted.
        self.git.env.update(NO_FETCH, GIT_NO_REPLACE_OBJECTS="1")
        self._hex_len = hex_len
        self.dir = git.text("rev-parse", "--path-format=absolute", "--git-path", "objects")
        self._packs = os.path.join(self.dir, "pack")

    def alternates(self) -> list[str]:
        """Paths of the object stores that this one borrows from."""
        rows = self.git.text("count-objects", "-v").splitlines()
        return [row.removeprefix("alternate: ") for row in rows if row.startswith("alternate: ")]

    def packs(self) -> set[str]:
        """Paths of the packs that git uses, without suffix."""
        names = os.listdir(self._packs) if os.path.isdir(self._packs) else []
        used = [n for n in names if n.endswith(".idx") and not n.startswith("tmp_")]
        return {os.path.join(self._packs, n[:-4]) for n in used}

    def pack_ids(self, pack: str) -> set[str]:
        """The ids of all objects in a pack; none where it is gone meanwhile."""
        format = "sha256" if self._hex_len == 64 else "sha1"
        try:
            with open(pack + ".idx", "rb") as f:
                rows = self.rows("show-index", f"--object-format={format}", stdin=f.read())
                return {row.split()[1] for row in rows}
        except FileNotFoundError:
            return set()

    def loose(self, since: float) -> Iterator[str]:
        """Ids of loose objects that were written, or asked to be written, since a time."""
        for level in range(256):
            folder = os.path.join(self.dir, f"{level:02x}")
            for entry in os.scandir(folder) if os.path.isdir(folder) else ():
                with contextlib.suppress(FileNotFoundError):
                    if len(entry.name) == self._hex_len - 2 and entry.stat().st_mtime >= since:
                        yield f"{level:02x}{entry.name}"

    def present(self, ids: Iterable[str]) -> set[str]:
        """Which of the ids git finds, here or in an alternate; a listing fetches nothing."""
        return set(ids).intersection(self.listing("%(objectname)"))

    def own(self, ids: Iterable[str]) -> set[str]:
        """Which of the ids lie in this store itself."""
        asked = set(ids)
        packed = [asked & self.pack_ids(pack) for pack in self.packs()] if asked else []
        return {id for id in asked if os.path.exists(self._loose(id))}.union(*packed)

    def listing(self, format: str) -> Iterator[str]:
        """One line about every object here and in alternates, in the order of the packs."""
        check = f"--batch-check={format}"
        return self.rows("cat-file", "--batch-all-objects", "--unordered", check)

    def reachable(self, ids: Iterable[str]) -> Iterator[str]:
        """Ids of all objects that can be reached from these, as far as they are here."""
        start = "".join(id + "\n" for id in dict.fromkeys(ids)).encode()
        words = ["--objects", "--no-object-names", "--ignore-missing", "--missing=allow-any"]
        if start:
            yield from self.rows("rev-list", *words, "--stdin", stdin=start, ok=(0, 128))

    def rows(self, *args: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> Iterator[str]:
        """The lines that a git command prints, as it prints them."""
        for row in self.git.stream(*args, stdin=stdin, cut=b"\n", ok=ok):
            yield row.decode("ascii", "replace")

    def _loose(self, id: str) -> str:
        return os.path.join(self.dir, id[:2], id[2:])

    def remove(self, ids: list[str], free: Callable[[], bool]) -> set[str] | None:
        """Deletes objects, loose and packed; returns the packs that were made for it.

        In `ids` an object that names another comes before it, so a crash leaves no loose object
        that names a missing one. `free` is asked when everything else is ready; where it says no,
        nothing is deleted and the answer is None. Raises GitFailed or OSError where a pack cannot
        be written anew; nothing is deleted then either.
        """
        old: set[str] = set()
        new: set[str] = set()
        for pack in sorted(self.packs()):
            held = self.pack_ids(pack)
            kept = held.difference(ids)
            if kept != held:
                old.add(pack)
                new.update([self._rewritten(pack, kept)] if kept else [])
        reflock.sync_directory(self._packs)  # the new names, before the old ones go
        if not free():
            for pack in new - old:
                _unlink_pack(pack)
            return None
        dropped = self._drop_derived()
        for id in ids:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._loose(id))
        for pack in old - new:
            _unlink_pack(pack)
        self._write_derived(dropped)
        return new

    def _rewritten(self, pack: str, kept: set[str]) -> str:
        """The path of a new pack with these objects of `pack`, written and checked."""
        words = ["-c", "pack.packSizeLimit=0", "pack-objects", "--quiet", "--delta-base-offset"]
        stdin = "".join(id + "\n" for id in sorted(kept)).encode()
        name = self.git.run(*words, os.path.join(self._packs, "pack"), stdin=stdin)
        made = os.path.join(self._packs, f"pack-{name.decode().strip()}")
        if self.pack_ids(made) != kept:
            raise GitFailed(
                f"'{made}.pack' lacks objects of '{pack}.pack'",
                hint="nothing was deleted; `git fsck` shows whether the repository is damaged",
            )
        # A pack from a promisor may name objects that are not here. A pack that the user keeps from
        # repacking stays so, but not by the mark of a running fetch. Unreachable objects live until
        # git finds their pack old enough, so the age stays.
        for suffix in (".promisor", ".keep"):
            with contextlib.suppress(FileNotFoundError), open(pack + suffix, "rb") as f:
                mark = f.read()
                if not mark.startswith((b"fetch-pack ", b"receive-pack ")):
                    with open(made + suffix, "wb") as copy:
                        copy.write(mark)
        was = os.stat(pack + ".pack")
        os.utime(made + ".pack", ns=(was.st_atime_ns, was.st_mtime_ns))
        return made

    def _drop_derived(self) -> set[str]:
        """Deletes the multi-pack-index and the commit-graph; returns which of them there were."""
        dropped = set()
        for kind, folder in (("multi-pack-index", "pack"), ("commit-graph", "info")):
            at = os.path.join(self.dir, folder)
            for name in os.listdir(at) if os.path.isdir(at) else ():
                if not name.startswith(kind):
                    continue
                dropped.add(kind)
                path = os.path.join(at, name)
                if not os.path.isdir(path):
                    os.unlink(path)
                    continue
                # The list of layers before the layers, which are ignored without it.
                for layer in sorted(os.listdir(path), key=lambda n: not n.endswith("-chain")):
                    os.unlink(os.path.join(path, layer))
        return dropped

    def _write_derived(self, dropped: set[str]) -> None:
        """Writes them anew; where git cannot, it works without."""
        if "multi-pack-index" in dropped:
            self.git.run("multi-pack-index", "write", "--no-progress", ok=(0, 1, 128, 255))
        if "commit-graph" in dropped:
            self.git.run("commit-graph", "write", "--reachable", "--no-progress", ok=(0, 1, 128))
        if os.path.exists(os.path.join(self.dir, "info", "packs")):
            self.git.run("update-server-info", ok=(0, 1, 128))

    def remove_leftovers(self, needles: Iterable[bytes]) -> tuple[list[str], list[str]]:
        """(temporary files removed, temporary files that a process is writing), of those that hold
        one of the needles: a killed writer leaves packs and objects that no command of git lists.
        A delta may cut a whole id, so its middle is searched for.
        """
        words = [n[6:-6] if len(n) >= 32 else n for n in needles]
        gone: list[str] = []
        busy: list[str] = []
        pattern = re.compile(b"|".join(map(re.escape, words)))
        for path in self._leftovers() if words else ():
            try:
                parts = inflated(path, self._hex_len // 2)
                if not any(pattern.search(part) for part in parts):
                    continue
                time.sleep(min(_SETTLED, max(0.0, os.stat(path).st_mtime + _SETTLED - time.time())))
                if os.stat(path).st_mtime + _SETTLED > time.time():
                    busy.append(path)
                else:
                    os.unlink(path)
                    gone.append(path)
            except (FileNotFoundError, ValueError):
                continue  # finished meanwhile, or empty
        return gone, busy

    def _leftovers(self) -> Iterator[str]:
        for at, _, names in os.walk(self.dir):
            inside = os.path.relpath(at, self.dir).startswith(("tmp_", "incoming-"))
            for name in names:
                orphan = name.endswith(".pack") and name[:-5] + ".idx" not in names
                if inside or name.startswith("tmp_") or orphan:
                    yield os.path.join(at, name)


def inflated(path: str, width: int) -> Iterator[bytes]:
    """The inflated content of a loose object, or of the objects and deltas of a pack, up to where
    the file ends or is damaged; `width`: bytes of an object id. Raises ValueError for an empty one.
    """
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        packed = data[:4] == b"PACK"
        at = 12 if packed else 0
        try:
            while at < len(data):
                if packed:
                    kind = (data[at] >> 4) & 7
                    at = _after_number(data, at)
                    if kind == 6:  # a delta, by the distance of its base
                        at = _after_number(data, at)
                    elif kind == 7:  # a delta, by the id of its base
                        at += width
                stream, tail = zlib.decompressobj(), b""
                while not stream.eof and at < len(data):
                    block = data[at : at + 65536]
                    part = tail + stream.decompress(block)
                    at += len(block) - len(stream.unused_data)
                    yield part
                    tail = part[-64:]
        except (zlib.error, IndexError):
            return


def _after_number(data: mmap.mmap, at: int) -> int:
    while data[at] & 0x80:
        at += 1
    return at + 1


def _unlink_pack(pack: str) -> None:
    """In git's own order: without the index nobody looks for the pack."""
    for suffix in (".idx", ".pack", ".rev", ".keep", ".bitmap", ".promisor", ".mtimes"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(pack + suffix)


@contextlib.contextmanager
def sole_cleaner(common_dir: str) -> Iterator[None]:
    """Keeps `git gc` from starting meanwhile, by git's own lock: it could pack again what it had
    read before the deletion. Raises MemError where one is at work for PATIENCE seconds.
    """
    path = os.path.join(common_dir, "gc.pid")
    end = time.monotonic() + PATIENCE
    while not _take(path):
        if time.monotonic() > end:
            raise MemError(
                "git's own clean-up is at work in this repository",
                hint=f"wait for it and run this again; '{path}' names its process",
            )
        time.sleep(0.1)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _take(path: str) -> bool:
    """Writes our process into `gc.pid` as git does, unless a living one stands there."""
    lock = path + ".lock"
    try:
        with open(lock, "x", encoding="ascii", errors="replace") as f:
            f.write(f"{os.getpid()} {socket.gethostname()}")
    except FileExistsError:
        with contextlib.suppress(FileNotFoundError):
            if time.time() - os.stat(lock).st_mtime > _LOCKED:
                os.unlink(lock)
        return False
    if _at_work(path):
        os.unlink(lock)
        return False
    os.replace(lock, path)
    return True


def _at_work(path: str) -> bool:
    """Whether the process that a `gc.pid` file names still runs, as far as one can know."""
    try:
        with open(path, encoding="ascii", errors="replace") as f:
            pid, _, host = f.read().partition(" ")
        if time.time() - os.stat(path).st_mtime > _FOREIGN_HOST or not pid.isdigit():
            return False
        if host.strip() != socket.gethostname() or os.name == "nt":
            return True
        os.kill(int(pid), 0)
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return True
    return True
