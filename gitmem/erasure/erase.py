"""Deletes the objects that hold purged lines from this repository, by name.

Promise: afterwards no note in the object store has a doomed line, no tree or commit names a deleted
object, and every other object, ref and reflog is as it was: no `gc`, no expiry. Unreachable objects
are found too (of a writer that failed, of a merge by stock git), and files that a killed git left.
What a ref, a reflog, an index or an object of the user's still leads to stays, and its holder is
named in `held`. The proof is a list of all objects, asked of git afterwards.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from ..core.progress import Unseen
from ..git import gc_roots
from ..git.odb import Odb, sole_cleaner
from ..git.repository import Repo
from .doomed_objects import DoomedObjects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.progress import Progress

_ROUNDS = 5  # others may write while we delete


@dataclass
class Report:
    """The outcome of a purge; `erase` leaves the last three to `purge`."""

    deleted: dict[str, str] = field(default_factory=dict)  # {object id: type}
    files: list[str] = field(default_factory=list)  # deleted leftovers of killed processes
    # The names of what still leads to doomed objects, empty where none is left.
    held: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)  # of the memories whose lines were found
    partly: bool = False  # files of branches were not searched
    lines: int = 0
    tombstones: list[str] = field(default_factory=list)  # versions of records that keep it out
    remotes: list[str] = field(default_factory=list)  # that may still have it
    cache: str = ""  # "scrubbed", or "removed" where that was necessary


def erase(
    repo: Repo,
    doom: Callable[[bytes], bool],
    hints: Iterable[bytes] = (),
    progress: Progress = Unseen,
    let_go: Callable[[list[str]], bool] = lambda names: False,
    others: bool = False,
) -> Report:
    """Deletes the objects that `DoomedObjects` finds, which has `doom`, `hints`, `progress` and
    `others`.

    `let_go` is given the names that lead to doomed objects and may change that; it returns whether
    it did. Raises MemError while git's own clean-up is at work, GitFailed or OSError where a file
    cannot be written; running again goes on from there.
    """
    odb = Odb(repo.git, repo.hex_len)
    repo.git.close()  # an open reader would keep old packs
    try:
        with sole_cleaner(repo.common_dir):
            doomed = DoomedObjects(odb, repo.hex_len, doom, list(hints), progress, others)
            out = Report()
            _delete(doomed, out, let_go)
            _remove_files(doomed, out)
            return out
    finally:
        odb.git.close()


def _delete(doomed: DoomedObjects, out: Report, let_go: Callable[[list[str]], bool]) -> None:
    odb = doomed.odb
    begun, packs = time.time() - 2, odb.packs()
    wanted = doomed.everything()
    out.partly = bool(doomed.usual)
    for n in range(_ROUNDS + 1):
        found = doomed.find(wanted)
        if not found:
            return
        held, out.held = doomed.held()
        if out.held and let_go(out.held):
            held, out.held = doomed.held()
        if n == _ROUNDS:
            out.held.append("a process that keeps writing them")
        if n == _ROUNDS or found <= held:
            return
        order = doomed.in_order(found - held)
        made = odb.remove(order, lambda held=held: doomed.held()[0] <= held)  # type: ignore[misc]
        odb.git.close()
        if made is None:
            continue  # a ref came to name one meanwhile
        packs |= made
        left = odb.present(order)
        gone = [id for id in order if id not in left]
        out.deleted.update({id: doomed.types[bytes.fromhex(id)] for id in gone})
        if left - odb.own(left):
            for path in odb.alternates():
                out.held.append(f"the object store '{path}' that this one borrows from")
        # A process that had read the old notes before may have left objects meanwhile.
        fresh = set(odb.loose(begun))
        for pack in odb.packs() - packs:
            fresh |= odb.pack_ids(pack)
        wanted = doomed.types_of(id for id in fresh if bytes.fromhex(id) not in held)


def _remove_files(doomed: DoomedObjects, out: Report) -> None:
    out.ids = doomed.ids
    needles = {*doomed.hints, *map(str.encode, doomed.ids), *doomed.strange}
    out.files, busy = doomed.odb.remove_leftovers(needles)
    out.files += _unlink_copies(doomed, out.deleted)
    out.held += [f"a running git process ('{path}')" for path in busy]
    for path in gc_roots.drafts(doomed.git):
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as f:
            if doomed.holds(f.read(), True):
                out.held.append(f"the unfinished edit or merge '{path}'")


def _unlink_copies(doomed: DoomedObjects, ids: Iterable[str]) -> Iterator[str]:
    """Removes the copies that `git fsck --lost-found` made of deleted objects."""
    for _, directory in gc_roots.git_dirs(doomed.git):
        for folder in ("other", "commit"):
            there = os.path.join(directory, "lost-found", folder)
            names = set(os.listdir(there)) if os.path.isdir(there) else set()
            for name in names.intersection(ids):
                os.unlink(os.path.join(there, name))
                yield os.path.join(there, name)
