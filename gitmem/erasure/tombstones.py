"""The tombstones of a repository, and whether all that they name is known to be gone.
Also which refs are ours.

A search of all objects takes seconds, so `mem/purged` says up to where the last one looked: the
tombstones, and tip and reflog size of each ref. Promise: `settled` is true only if nothing that a
tombstone names can have come into these refs since. Deleting the file costs a search.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator

from ..core import record
from ..core.errors import GitFailed, MemError
from ..core.fold import Tombstones
from ..core.record import Record
from ..git import gc_roots, memfile
from ..notes.history import Commit
from ..notes.note_store import Notes
from ..store import Store


def ours(store: Store) -> dict[str, Notes]:
    """{ref: its notes} of the team's, the private and the readable tracking refs."""
    out = {notes.ref: notes for _, notes in store.sources}
    team = re.compile(f"refs/notes/remotes/.+/{re.escape(store.settings['ref'])}/team[^/]*")
    there = ("for-each-ref", "--format=%(refname)", "refs/notes/remotes/")
    for ref in store.repo.git.text(*there).splitlines():
        notes = Notes(store.repo.git, ref, store.repo.hex_len)
        if team.fullmatch(ref) and store.repo.git.objects.get(ref + "^{commit}"):
            with contextlib.suppress(GitFailed):
                notes.purges()
                out[ref] = notes
    return out


def purges(store: Store) -> list[Record]:
    """Every purge record at the tips of our refs."""
    found = {r.version: r for notes in ours(store).values() for r in notes.purges()}
    return [found[v] for v in sorted(found)]


def _state_path(store: Store) -> str:
    return os.path.join(store.repo.mem_dir, "purged")


def _digest(graves: Tombstones) -> str:
    names = [*sorted(graves.ids), "", *sorted(graves.versions)]
    return record.version_of("\n".join(names).encode("utf-8", "replace"))


def forget(store: Store) -> None:
    """Raises MemError where the cache is another user's: its pages cannot be looked at either."""
    try:
        os.unlink(_state_path(store))
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as e:
        raise MemError(
            f"cannot look into '{store.repo.mem_dir}': {e.strerror}",
            hint="nothing was taken out; purge as the user who owns it, or in your own clone",
        ) from e


def remember(store: Store, graves: Tombstones) -> None:
    refs = {ref: [notes.tip(), notes.reflog_size()] for ref, notes in ours(store).items()}
    with contextlib.suppress(OSError):
        os.makedirs(store.repo.mem_dir, mode=0o700, exist_ok=True)
        state = {"graves": _digest(graves), "refs": refs}
        memfile.write(_state_path(store), json.dumps(state).encode())


def settled(store: Store, graves: Tombstones, note: bool = True) -> bool:
    """Whether nothing that the tombstones name can be here, by what the refs did since the last
    search.

    `note`: remember up to where they were looked at.
    """
    if not graves:
        return True
    try:
        state = json.loads(memfile.read(_state_path(store)))
        refs = {ref: (str(tip), str(size)) for ref, (tip, size) in state["refs"].items()}
        if state["graves"] != _digest(graves):
            return False
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    moved = False
    for ref, notes in ours(store).items():
        tip, size = notes.tip(), notes.reflog_size()
        seen, seen_size = refs.get(ref, ("", ""))
        if not tip or (seen, seen_size) == (tip, size):
            continue
        moved = True
        former = set(gc_roots.logged(store.repo.git, ref))
        # git may have expired rows. A ref that has no reflog has its history.
        if size + seen_size and (seen not in former if seen else not former):
            return False
        former.update(filter(None, [notes.history.backed_up()]))
        if not all(_clean(notes, head, graves, seen) for head in _heads(notes, tip, former)):
            return False
    if moved and note:
        remember(store, graves)
    return True


def _heads(notes: Notes, tip: str, former: set[str]) -> Iterator[Commit]:
    """The tip, and former tips that it does not contain. What is gone is clean."""
    left = former - {tip}
    if left:
        stdin = "".join(f"{id}\n" for id in sorted(left)).encode() + f"^{tip}\n".encode()
        rows = notes.git.run("rev-list", "--ignore-missing", "--stdin", stdin=stdin)
        left = left.intersection(rows.decode().split())
    return filter(None, map(notes.history.commit, [tip, *sorted(left)]))


def _clean(notes: Notes, commit: Commit, graves: Tombstones, known: str) -> bool:
    """Whether a commit and its history have no doomed line; `known`: a commit that is clean."""
    there = notes.tombstones(commit)
    from_here = notes.history.commit(known) is not None
    if not from_here and not (
        commit.complete and graves.ids <= there.ids and graves.versions <= there.versions
    ):
        return False
    # The trailer is no proof: a merge that brings everything back may have a copy of it.
    return not notes.history.holds(commit.id, [known] if from_here else [], graves.doom)
