"""The tombstones of one repository: which there are, which refs are ours, and whether all that they
name is known to be gone.

A search of all objects takes seconds, so `<git-common-dir>/mem/purged` says up
to where the last one looked: the tombstones, and tip and reflog size of each
ref. Promise: `settled` is true only if nothing that a tombstone names can have
come into these refs since, or ever. Deleting the file costs a search.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from typing import Any

from ..core import record
from ..core.errors import GitFailed
from ..core.fold import Tombstones
from ..core.record import Record
from ..git import gc_roots, memfile
from ..notes.history import Commit
from ..notes.note_store import Notes
from ..store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_STATE = "purged"
# bytes in which the last row of a reflog lies: two ids, who and when, and a line of message
_ROW = 8192
_ID = re.compile(rb"[0-9a-f]{40,64}")


def ours(store: Store) -> dict[str, Notes]:
    """{ref: its notes} of the team's, the private and the tracking refs.

    A tracking copy that names nothing that is here, or no commit, holds nothing.
    """
    out = {notes.ref: notes for _, notes in store.sources}
    team = re.compile(f"refs/notes/remotes/.+/{re.escape(store.settings['ref'])}/team[^/]*")
    for ref in store.repo.git.text(
        "for-each-ref", "--format=%(refname)", "refs/notes/remotes/"
    ).splitlines():
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
    return os.path.join(store.repo.mem_dir, _STATE)


def _digest(graves: Tombstones) -> str:
    return record.version_of(
        "\n".join([*sorted(graves.ids), "", *sorted(graves.versions)]).encode("utf-8", "replace")
    )


def forget(store: Store) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(_state_path(store))


def remember(store: Store, graves: Tombstones) -> None:
    refs = {ref: [notes.tip(), notes.reflog_size()] for ref, notes in ours(store).items()}
    with contextlib.suppress(OSError):
        os.makedirs(store.repo.mem_dir, mode=0o700, exist_ok=True)
        state = {"graves": _digest(graves), "refs": refs}
        memfile.write(_state_path(store), json.dumps(state).encode())


def settled(store: Store, graves: Tombstones, note: bool = True) -> bool:
    """Whether nothing that the tombstones name can be here, by what the refs did since the last
    search, or since they were made.

    `note`: remember up to where they were looked at.
    """
    if not graves:
        return True
    state: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        state = json.loads(memfile.read(_state_path(store)))
    refs = state.get("refs", {}) if state.get("graves") == _digest(graves) else {}
    if not refs and _has_local_remote(store):
        return False
    moved = False
    for ref, notes in ours(store).items():
        tip, size = notes.tip(), notes.reflog_size()
        seen = refs.get(ref)
        if not tip or seen == [tip, size]:
            continue
        moved = True
        if gc_roots.in_tables(store.repo.git):
            former = _logged(store, ref, seen[0] if seen else "")
        else:
            since = int(seen[1] or 0) if seen else None
            former = _entries(store, ref, since, seen[0] if seen else "")
        if former is None and not (seen and size == seen[1] == ""):
            return False
        if not all(
            _clean(notes, commit, graves, seen[0] if seen else "")
            for commit in _heads(
                notes, tip, {*(former or ()), *filter(None, [notes.history.backed_up()])}
            )
        ):
            return False
    if moved and note:
        remember(store, graves)
    return True


def _has_local_remote(store: Store) -> bool:
    """Whether this may be a clone by a path: git links all objects then, also those that no ref of
    the other names any more.
    """
    urls = store.repo.git.text(
        "config", "--get-regexp", r"^remote\..*\.url$", ok=(0, 1)
    ).splitlines()
    return any(
        os.path.isdir(
            os.path.join(
                store.repo.top or store.repo.common_dir,
                row.partition(" ")[2].removeprefix("file://"),
            )
        )
        for row in urls
    )


def _entries(store: Store, ref: str, since: int | None, last: str) -> set[str] | None:
    """Former tips that a reflog has behind its first `since` bytes, or all; None where it does not
    reach back to there, or to the ref's first commit.

    Also None where no row ends there that brought the tip `last`: git has expired rows, and the log
    has grown past its old size since."""
    try:
        with open(os.path.join(store.repo.common_dir, "logs", ref), "rb") as f:
            f.seek(0, os.SEEK_END)
            if f.tell() < (since or 0):
                return None
            f.seek(max((since or 0) - _ROW, 0))
            before = f.read(min(since or 0, _ROW))
            if since and not (
                before.endswith(b"\n")
                and before[:-1].rpartition(b"\n")[2].split(b" ", 2)[1:2] == [last.encode()]
            ):
                return None
            rows = f.read().splitlines()
    except OSError:
        return None
    if since is None and (not rows or rows[0].split(b" ")[0].strip(b"0")):
        return None
    return {
        word.decode()
        for row in rows
        for word in row.split(b" ", 2)[:2]
        if word.strip(b"0") and _ID.fullmatch(word)
    }


def _logged(store: Store, ref: str, last: str) -> set[str] | None:
    """The same for a reftable, where entries are not counted: all, if they reach back to `last`."""
    found = gc_roots.logged(store.repo.git, ref)
    return set(found) if last in found else None


def _heads(notes: Notes, tip: str, former: set[str]) -> Iterator[Commit]:
    """The tip, and former tips that it does not contain. What is gone is clean."""
    wanted = former - {tip}
    stdin = "".join(f"{id}\n" for id in sorted(wanted)).encode() + f"^{tip}\n".encode()
    left = (
        wanted.intersection(
            notes.git.run("rev-list", "--ignore-missing", "--stdin", stdin=stdin).decode().split()
        )
        if wanted
        else set()
    )
    for id in [tip, *sorted(left)]:
        found = notes.history.commit(id)
        if found:
            yield found


def _clean(notes: Notes, commit: Commit, graves: Tombstones, known: str) -> bool:
    """Whether neither a commit nor its history has a doomed line.

    `known`: a commit that is clean.
    """
    there = notes.tombstones(commit.id)
    from_here = notes.history.commit(known) is not None
    if not from_here and not (
        commit.complete and graves.ids <= there.ids and graves.versions <= there.versions
    ):
        return False
    # The trailer is no proof: a merge that brings everything back may have a copy of it.
    return not notes.history.holds(commit.id, [known] if from_here else [], graves.doom)
