"""One notes ref, read: every line that was ever in it.

Nothing but a purge removes a line: `lines` also reads back what stock git's `notes prune`,
`notes remove`, an edit or a blind ref update took away, from the ref's history and reflog.
`history` finds what is missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..core import record
from ..core.errors import GitFailed
from ..core.fold import Tombstones
from ..git import gc_roots, ref_files, refs_mtime
from ..git.gitcmd import Git
from . import notetree, ref_repair
from .history import Commit, History
from .treeedit import TreeEdit

Item = tuple[str, bytes]  # (anchor commit, "" for none or notetree.PURGED; line)


class NoteReader:
    """The lines of one notes ref in one repository. Of the last `lines`: `missing` has the notes
    that it named and could not read; `unread` {key: bytes} those that were too large (0: is so no
    more); `listed` says whether it listed all notes, so that no others are too large.
    """

    def __init__(self, git: Git, ref: str, hex_len: int) -> None:
        self.git = git
        self.ref = ref
        self.hex_len = hex_len
        self.history = History(git, ref, hex_len)
        self.missing: list[str] = []
        self.unread: dict[str, int] = {}
        self.listed = False

    def tip(self, former: str = "") -> str:
        """The commit the ref points to, "" while there is none. `former`: a tip to which a ref that
        is gone goes back if nothing newer is known.
        """
        found = self._whole()
        if found or (found is not None and not former):
            return found
        commit = self.history.tip([former] if former else [])
        return commit.id if commit else ""

    def _whole(self) -> str | None:
        """The tip as files name it; "" where no ref, backup or reflog names one. None where they do
        not tell, or the commit is not here.
        """
        common = self.git.common_dir
        if gc_roots.in_tables(self.git) or os.path.islink(os.path.join(common, self.ref)):
            return None
        packed = ref_files.Packed(common)
        try:
            id = ref_files.ref_of(common, self.ref, packed, self.hex_len)
            if not id and not ref_files.notes_ref(common, self.ref, packed, self.hex_len)[0]:
                return ""
        except (OSError, ref_files.Unsure):
            return None
        return id if id and self.history.here(id) else None

    def waiting(self) -> bool:
        """Whether there is no ref although lines of one that broke wait for the next write."""
        return bool(ref_repair.debts(self.git, self.ref)) and not self.tip()

    def time(self, tip: str) -> str:
        """When a commit of the ref was made, "" where that cannot be said."""
        commit = self.history.commit(tip)
        return commit.time if commit else ""

    def keeps(self, key: str) -> bool:
        commit = self.history.tip()
        return commit is not None and self._tree(commit).has_key(key)

    def _tree(self, commit: Commit) -> notetree.NoteTree:
        return notetree.NoteTree(self.git, commit.tree, self.hex_len)

    def lines(self, tip: str, since: str = "", deep: bool = False) -> Iterator[tuple[str, bytes]]:
        """(key, line) of every line reachable from `tip` that may be new since the commit `since`,
        at least once each. `deep` distrusts the trailers and reads the whole history and reflog.
        """
        if not tip:
            return
        new = self.history.commit(tip)
        if new is None:
            why = f"cannot read '{self.ref}': its commit {tip} is not here"
            raise GitFailed(
                why, hint="`git mem doctor --repair` takes it back to its last whole state"
            )
        old = self.history.commit(since) if since else None
        self.unread.clear()
        self.missing.clear()
        self.listed = old is None
        if old:
            pairs = [(new.tree, old.tree)]
            try:
                yield from notetree.lines_gone(self.git, pairs, strict=True, unread=self.unread)
            except GitFailed:  # a part of either is not here
                self.listed = True
        if self.listed:
            yield from self.contents(new, self.missing, self.unread)
        yield from self.history.all_lost(new, {since} if old else (), deep)

    def contents(
        self, commit: Commit, missing: list[str] | None = None, unread: dict[str, int] | None = None
    ) -> Iterator[tuple[str, bytes]]:
        """(key, line) of every note of a commit; `missing` and `unread` as of `lines`."""
        notes = notetree.all_notes(self.git, commit.id)
        return notetree.contents(self.git, notes, missing, unread)

    def gained(self, tip: str, other: str) -> Iterator[tuple[str, bytes]]:
        """(key, line) that a notes commit has and `other` ("" for none) lacks, in whatever note of
        the same commit.
        """
        mine, theirs = self.history.commit(tip), self.history.commit(other) if other else None
        if mine is None:
            return
        try:
            pairs = [(mine.tree, theirs.tree)] if theirs else []
            came = list(notetree.lines_gone(self.git, pairs, strict=True))
            if theirs:
                came = TreeEdit(self.git, theirs.tree, self.hex_len).unknown(came)
        except GitFailed:  # a part of either is not here
            theirs = None
        yield from came if theirs else self.contents(mine)

    def owed(self, other: str = "") -> list[bytes]:
        """Lines of the history that the tip and the notes commit `other` lack."""
        left = self.taken_out()
        found = self.history.commit(other) if left and other else None
        there = {line for _, line in self.contents(found)} if found else set()
        return [line for line in left if line not in there]

    def taken_out(self, deep: bool = False) -> list[bytes]:
        """Lines that are in the history and not in the tip (`deep`: also behind marks)."""
        tip = self.history.tip()
        if tip is None:
            return []
        lost = self.history.all_lost(tip, deep=deep)
        doom = self.tombstones(tip).doom
        return [line for _, line in self.absent(tip, lost) if not doom(line)]

    def absent(self, tip: Commit, lost: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        """What is to come back of lost lines: those that are nowhere in the tip. Of a line that
        stands elsewhere, only the move that the lost copy stated: copies need not pile up.
        """
        if not lost:
            return []
        present: dict[bytes, set[str]] = {}
        for key, line in self.contents(tip):
            present.setdefault(line, set()).add(key)
        edit = TreeEdit(self.git, tip.tree, self.hex_len)
        back: dict[tuple[str, bytes], None] = {}
        for key, line in lost:
            if line in present and key not in present[line]:
                key = edit.anchor_of(key)
                line = record.copied_to(line, key)
            if line and line not in present:
                back[key, line] = None
        return list(back)

    def tombstones(self, commit: Commit | None) -> Tombstones:
        """What the purge records of a notes commit name; nothing for None."""
        return Tombstones(self.purges_of(commit) if commit else [])

    def purges(self) -> list[record.Record]:
        tip = self.history.tip()
        return self.purges_of(tip) if tip else []

    def purges_of(self, commit: Commit) -> list[record.Record]:
        tree = self._tree(commit)
        notes = [note for key in tree.continuations(notetree.PURGED) for note in tree.notes(key)]
        lines = notetree.contents(self.git, notes)
        return [r for _, line in lines if (r := record.parse(line))]

    def reflog_size(self) -> str:
        """What changes whenever the ref moves (`refs_mtime.log_size`)."""
        return refs_mtime.log_size(self.git.common_dir, self.ref)
