"""The files of one object store: takes single objects out of it, by name.

Promise: what is not named stays, also objects that nobody reaches, with the
age git goes by. A pack is written anew before the old one goes, and what git
derives from packs and commits (multi-pack-index, commit-graph) names nothing
that is gone; so a crash at any instant leaves every other object readable, and
running again finishes. Readers beside it do what they do beside `git repack
-d`: look once more. Nothing is fetched, nothing in alternates is touched.

Bitmaps go with their packs; git makes them anew at its next clean-up.
"""

from __future__ import annotations

import contextlib
import os
import re
import time

from ..core.errors import GitFailed, MemError
from . import packfile
from .gitcmd import NO_FETCH, Git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from mmap import mmap

PATIENCE = 30.0  # seconds to wait for another clean-up
_SETTLED = 2.0  # seconds after which a temporary file that nobody writes to is a crashed process's
_FOREIGN_HOST = 12 * 3600  # seconds git itself believes a clean-up on another machine


class Odb:
    """The object store of one repository, all its worktrees included; alternates are others'.

    `git`: a git of its own, which fetches nothing and reads every object as it is stored. Close it.
    """

    def __init__(self, git: Git, hex_len: int) -> None:
        self.git = Git(git.git_dir)
        self.git.common_dir = git.common_dir
        # A partial clone must not ask its remote for what was just deleted.
        self.git.env.update(NO_FETCH, GIT_NO_REPLACE_OBJECTS="1")
        self._hex_len = hex_len
        self._width = hex_len // 2
        self.dir = git.text("rev-parse", "--path-format=absolute", "--git-path", "objects")
        self._packs = os.path.join(self.dir, "pack")

    # What is here

    def alternates(self) -> list[str]:
        """Object stores this one borrows from."""
        rows = self.git.text("count-objects", "-v").splitlines()
        return [row.removeprefix("alternate: ") for row in rows if row.startswith("alternate: ")]

    def packs(self) -> list[str]:
        """Paths of the packs that git uses, without suffix."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(
                os.path.join(self._packs, n[:-4])
                for n in os.listdir(self._packs)
                if n.endswith(".idx") and not n.startswith("tmp_")
            )
        return []

    def pack_ids(self, pack: str) -> set[str]:
        with packfile.mapped(pack + ".idx") as data:
            return {id.hex() for id in packfile.pack_index(data, self._width)}

    def loose(self, since: float = 0.0) -> Iterator[str]:
        """Ids of loose objects that were written, or wished for again, since a time."""
        for level in range(256):
            try:
                entries = list(os.scandir(os.path.join(self.dir, f"{level:02x}")))
            except OSError:
                continue
            for entry in entries:
                with contextlib.suppress(OSError):
                    if len(entry.name) == self._hex_len - 2 and (
                        not since or entry.stat().st_mtime >= since
                    ):
                        yield f"{level:02x}{entry.name}"

    def present(self, wanted: Iterable[str]) -> set[str]:
        """Those of the ids that git finds, here or in an alternate: asked by listing everything,
        which fetches nothing.
        """
        left = set(wanted)
        return left.intersection(self.listing("%(objectname)")) if left else left

    def own(self, wanted: Iterable[str]) -> set[str]:
        """Those of the ids that lie in this store itself."""
        left = set(wanted)
        found = {id for id in left if os.path.exists(self._loose(id))}
        for pack in self.packs() if left else ():
            found |= {
                id
                for id in left - found
                if self._names(pack + ".idx", packfile.pack_index, [bytes.fromhex(id)])
            }
        return found

    def listing(self, what: str) -> Iterator[str]:
        """One line about every object here and in alternates, in the order of the packs."""
        yield from self.rows(
            "cat-file", "--batch-all-objects", "--unordered", f"--batch-check={what}"
        )

    def reachable(self, ids: Iterable[str]) -> Iterator[str]:
        """Ids of all objects that some lead to, as far as they are here."""
        start = "".join(id + "\n" for id in dict.fromkeys(ids)).encode()
        if start:
            yield from self.rows(
                "rev-list",
                "--objects",
                "--no-object-names",
                "--ignore-missing",
                "--missing=allow-any",
                "--stdin",
                stdin=start,
                ok=(0, 128),
            )

    def rows(self, *args: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> Iterator[str]:
        """The lines that a git command prints, while it does; it must read all of `stdin` first."""
        process = self.git.start(args, stdin=-1, stdout=-1, stderr=-3)
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(stdin)
            process.stdin.close()
            for row in process.stdout:
                yield row.decode("ascii", "replace").rstrip("\n")
        finally:
            process.stdout.close()
            status = process.wait()
        if status not in ok:
            raise GitFailed(
                f"git {args[0]} failed", hint="`git fsck` names what is damaged", status=status
            )

    def _loose(self, id: str) -> str:
        return os.path.join(self.dir, id[:2], id[2:])

    # Taking out

    def remove(self, ids: list[str], free: Callable[[], bool]) -> set[str] | None:
        """Deletes objects from this store, loose and packed; those of alternates stay. The packs
        that were made for it.

        In the order given (who names another before the one that is named): a
        crash between leaves no loose object that names a missing one. `free` is
        asked at the last moment, when all else is ready, and where it says no,
        nothing is deleted: None. Raises GitFailed or OSError where a pack cannot
        be written anew; nothing is deleted then either.
        """
        raw = [bytes.fromhex(i) for i in ids]
        hit = [
            pack for pack in self.packs() if self._names(pack + ".idx", packfile.pack_index, raw)
        ]
        graphs = self._graphs()
        graph_options = (
            self._graph_options(graphs)
            if any(self._names(path, packfile.commit_graph, raw) for path in graphs)
            else None
        )
        doomed = set(raw)
        new = {made for pack in hit if (made := self._rewritten(pack, doomed))}
        self._sync_directory()
        if not free():
            for pack in new.difference(hit):
                _unlink_pack(pack)
            return None
        if graph_options is not None:
            for path in graphs:
                os.unlink(path)
        for id in ids:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._loose(id))
        midx = self._drop_midx() if hit else None
        for pack in hit:
            if pack not in new:
                _unlink_pack(pack)
        self._derive(midx, graph_options, bool(hit))
        return new

    def _names(
        self, path: str, table: Callable[[mmap, int], packfile.Ids], ids: list[bytes]
    ) -> bool:
        """Whether a file of sorted ids names one of them; one that is gone meanwhile, or not what
        it should be, names none.
        """
        try:
            with packfile.mapped(path) as data:
                names = table(data, self._width)
                return any(id in names for id in ids)
        except (OSError, ValueError, IndexError):
            return False

    def _rewritten(self, pack: str, doomed: set[bytes]) -> str:
        """A pack like `pack` without the doomed objects, written and checked; its path, "" where
        nothing is left.
        """
        with packfile.mapped(pack + ".idx") as data:
            kept = [id for id in packfile.pack_index(data, self._width) if id not in doomed]
        if not kept:
            return ""
        out = self.git.run(
            "-c",
            "pack.packSizeLimit=0",
            "pack-objects",
            "--quiet",
            "--delta-base-offset",
            os.path.join(self._packs, "pack"),
            stdin=b"".join(id.hex().encode() + b"\n" for id in kept),
        )
        made = os.path.join(self._packs, "pack-" + out.decode().strip())
        with packfile.mapped(made + ".idx") as data:
            names = packfile.pack_index(data, self._width)
            if len(names) != len(kept) or any(id not in names for id in kept):
                raise GitFailed(
                    f"'{made}.pack' lacks objects of '{pack}.pack'",
                    hint="nothing was deleted; `git fsck` shows whether the repository is damaged",
                )
        # Objects from a promisor may name some that are not here; what was kept from repacking
        # stays so, but not a fetch's own mark. Objects nobody reaches live until git's clean-up
        # finds the pack old enough: it keeps its age.
        for suffix in (".promisor", ".keep"):
            with contextlib.suppress(FileNotFoundError), open(pack + suffix, "rb") as f:
                mark = f.read()
                if not mark.startswith((b"fetch-pack ", b"receive-pack ")):
                    with open(made + suffix, "wb") as copy:
                        copy.write(mark)
        was = os.stat(pack + ".pack")
        os.utime(made + ".pack", ns=(was.st_atime_ns, was.st_mtime_ns))
        return made

    def _sync_directory(self) -> None:
        """The new names are on the disk before the old ones go."""
        with contextlib.suppress(OSError):
            fd = os.open(self._packs, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def _drop_midx(self) -> list[str] | None:
        """Takes the multi-pack-index away, which names old packs; the options to write it anew,
        None where there is none.
        """
        found = [
            n
            for n in os.listdir(self._packs)
            if n.startswith("multi-pack-index") and not n.endswith(".d")
        ]
        chain = os.path.join(self._packs, "multi-pack-index.d")
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            # The list of layers first: without it the layers are ignored.
            found += sorted(
                (os.path.join("multi-pack-index.d", n) for n in os.listdir(chain)),
                key=lambda n: not n.endswith("-chain"),
            )
        for name in found:
            os.unlink(os.path.join(self._packs, name))
        if not found:
            return None
        return ["--bitmap"] if any(n.endswith(".bitmap") for n in found) else []

    def _graphs(self) -> list[str]:
        """Commit-graph files, the list of a split one first."""
        info = os.path.join(self.dir, "info")
        single, split = os.path.join(info, "commit-graph"), os.path.join(info, "commit-graphs")
        out = [single] if os.path.exists(single) else []
        with contextlib.suppress(FileNotFoundError):
            out += sorted(
                (os.path.join(split, n) for n in os.listdir(split)),
                key=lambda n: not n.endswith("commit-graph-chain"),
            )
        return out

    def _graph_options(self, graphs: list[str]) -> list[str]:
        """How to write the commit-graph as it was: split, with changed paths."""
        out = ["--split=replace"] if any(g.endswith("-chain") for g in graphs) else []
        for path in graphs:
            with contextlib.suppress(OSError), open(path, "rb") as f:
                if b"BIDX" in f.read(256):
                    return [*out, "--changed-paths"]
        return out

    def _derive(self, midx: list[str] | None, graph: list[str] | None, packs: bool) -> None:
        """Writes anew what git derives; where git cannot, it works without."""
        if midx is not None:
            for options in [midx, []] if midx else [[]]:
                if (
                    self.git.run_status(
                        "multi-pack-index", "write", "--no-progress", *options, ok=(0, 1, 128, 255)
                    )[1]
                    == 0
                ):
                    break
        if graph is not None:
            self.git.run(
                "commit-graph", "write", "--reachable", "--no-progress", *graph, ok=(0, 1, 128)
            )
        if packs and os.path.exists(os.path.join(self.dir, "info", "packs")):
            self.git.run("update-server-info", ok=(0, 1, 128))

    # What crashed processes left

    def remove_leftovers(self, needles: Iterable[bytes]) -> tuple[list[str], list[str]]:
        """(temporary files removed, those that a process is writing) of the files that hold one of
        the needles.

        A writer that was killed leaves a pack without index or a half-written object, which no
        command of git lists. A whole id as needle may be cut by a delta's edges, so its middle is
        sought."""
        words = [n[6:-6] if len(n) >= 32 else n for n in needles]
        gone, busy = [], []
        pattern = re.compile(b"|".join(map(re.escape, words))) if words else None
        for path in self._leftovers() if pattern else ():
            try:
                with packfile.mapped(path) as data:
                    held = (
                        any(pattern.search(part) for part in packfile.inflated(data, self._width))
                        if pattern
                        else False
                    )
                if not held:
                    continue
                time.sleep(min(_SETTLED, max(0.0, os.stat(path).st_mtime + _SETTLED - time.time())))
                if os.stat(path).st_mtime + _SETTLED > time.time():
                    busy.append(path)
                    continue
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


def _unlink_pack(pack: str) -> None:
    """In git's own order: without the index nobody looks for the pack."""
    for suffix in (".idx", ".pack", ".rev", ".keep", ".bitmap", ".promisor", ".mtimes"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(pack + suffix)


@contextlib.contextmanager
def sole_cleaner(common_dir: str) -> Iterator[None]:
    """Keeps `git gc` from starting meanwhile, by git's own lock: it could pack again what it had
    read before the deletion.

    Raises MemError where one is at work for PATIENCE seconds.
    """
    path, end = os.path.join(common_dir, "gc.pid"), time.monotonic() + PATIENCE
    lock, own = path + ".lock", f"{path}.{os.getpid()}"
    while True:
        try:
            # A lock appears with its content: one that is empty could never be told from that of a
            # living process.
            with open(own, "w", encoding="ascii", errors="replace") as f:
                f.write(f"{os.getpid()} {_host()}")
            _link(own, lock)
            if not _at_work(path):
                os.replace(lock, path)
                break
            os.unlink(lock)
        except FileExistsError:
            if _left_behind(lock):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(lock)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(own)
        if time.monotonic() > end:
            raise MemError(
                "git's own clean-up is at work in this repository",
                hint=(
                    f"wait for it and run this again; '{path}', or '{path}.lock' while it begins,"
                    " is its lock"
                ),
            )
        time.sleep(0.1)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _link(own: str, lock: str) -> None:
    try:
        os.link(own, lock)
    except FileExistsError:
        raise
    except OSError:  # a disk without hard links
        with open(own, "rb") as f, open(lock, "xb") as g:
            g.write(f.read())


def _host() -> str:
    import socket

    return socket.gethostname()


def _left_behind(lock: str) -> bool:
    """Whether whoever made a lock says so in it and is dead: a purge, or a gc, that was killed
    before it had its `gc.pid`.
    """
    try:
        with open(lock, encoding="ascii", errors="replace") as f:
            pid, _, host = f.read().partition(" ")
        if pid.isdigit() and host.strip() == _host() and os.name != "nt":
            os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _at_work(path: str) -> bool:
    """Whether the clean-up that a `gc.pid` file names still runs, as far as one can know."""
    try:
        with open(path, encoding="ascii", errors="replace") as f:
            pid, _, host = f.read().partition(" ")
        if time.time() - os.stat(path).st_mtime > _FOREIGN_HOST or not pid.isdigit():
            return False
        if host.strip() != _host() or os.name == "nt":
            return True
        os.kill(int(pid), 0)
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return True
    return True
