"""One notes ref, read: every line that was ever in it.

Nothing but a purge removes a line: `lines` also reads back what stock git's `notes prune`,
`notes remove`, an edit or a blind ref update took away, from the ref's history and reflog.
`history` finds what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..core import record
from ..core.errors import GitFailed
from ..core.fold import Tombstones
from ..git import refs_mtime
from ..git.gitcmd import Git
from . import notetree
from .history import Commit, History
from .treeedit import TreeEdit

Item = tuple[str, bytes]  # (anchor commit, "" for none or notetree.PURGED; line)


class NoteReader:
    """The lines of one notes ref in one repository, to read."""

    def __init__(self, git: Git, ref: str, hex_len: int) -> None:
        self.git = git
        self.ref = ref
        self.hex_len = hex_len
        self.history = History(git, ref, hex_len)
        self.missing: list[str] = []  # notes that the last `lines` named and could not read
        self.unread: dict[
            str, int
        ] = {}  # {key: bytes} of those that were too large for it; 0: is so no more
        self.listed = False  # whether it listed all notes, so that no others are too large

    def tip(self, former: str = "") -> str:
        """The commit the ref points to, "" while there is none.

        `former`: a tip the caller remembers; a ref that is gone goes back there if nothing newer is
        known.
        """
        commit = self.history.tip([former] if former else [])
        return commit.id if commit else ""

    def time(self, tip: str) -> str:
        """When a commit of the ref was made, by its committer; "" where that cannot be said."""
        commit = self.history.commit(tip)
        return commit.time if commit else ""

    def keeps(self, key: str) -> bool:
        """Whether the tree at the tip keeps a continuation's key alive."""
        commit = self.history.tip()
        return commit is not None and notetree.NoteTree(
            self.git, commit.tree, self.hex_len
        ).has_key(key)

    def lines(self, tip: str, since: str = "", deep: bool = False) -> Iterator[tuple[str, bytes]]:
        """(key, line) of every line reachable from `tip` that may be new since the commit `since`.

        Lines come at least once each, in no order. `deep` distrusts the
        completeness marks and reads the whole history and reflog.
        """
        new = self.history.commit(tip)
        if new is None:
            return
        old = self.history.commit(since) if since else None
        self.unread.clear()
        self.missing.clear()
        self.listed = old is None
        if old:
            try:
                yield from notetree.lines_gone(
                    self.git, [(new.tree, old.tree)], self.hex_len, strict=True, unread=self.unread
                )
            except GitFailed:  # a part of either is not here
                self.listed = True
        if self.listed:
            yield from self.contents(new, self.missing, self.unread)
        strays = self.history.strays(new.id, deep)
        # A blind ref update (stock git beside us) left the strays behind: all they held counts.
        yield from self.history.lost(
            [new, *strays], [(s.tree, new.tree) for s in strays], {since} if old else (), deep
        )[0]

    def contents(
        self, commit: Commit, missing: list[str] | None = None, unread: dict[str, int] | None = None
    ) -> Iterator[tuple[str, bytes]]:
        """(key, line) of every note of a commit; blobs that are not here are named in `missing`,
        keys of too large ones in `unread`.
        """
        return notetree.contents(
            self.git, notetree.all_notes(self.git, commit.id, self.hex_len), missing, unread
        )

    def gained(self, tip: str, other: str) -> Iterator[tuple[str, bytes]]:
        """(key, line) that the notes commit `tip` has and `other` ("" for none) lacks: what a push
        would give away.
        """
        mine, theirs = self.history.commit(tip), self.history.commit(other) if other else None
        if mine is None:
            return
        if theirs is None:
            yield from self.contents(mine)
        else:
            came = notetree.difference(self.git, mine.tree, theirs.tree, self.hex_len)
            yield from self.contents(mine) if came is None else came

    def owed(self, other: str = "") -> list[bytes]:
        """Lines that are in the history and not in the tip, and that the notes commit `other`
        lacks: the next write puts them back.
        """
        tip = self.history.tip()
        if tip is None:
            return []
        strays = self.history.strays(tip.id)
        lost, _ = self.history.lost([tip, *strays], [(s.tree, tip.tree) for s in strays])
        tombstones = Tombstones(self.purges_of(tip))
        left = [line for _, line in self.absent(tip, lost) if not tombstones.doom(line)]
        found = self.history.commit(other) if left and other else None
        there = {line for _, line in self.contents(found)} if found else set()
        return [line for line in left if line not in there]

    def lost_lines(self, deep: bool = False) -> int:
        """How many lines are in the history and not in the tip; the next write puts them back
        (`deep`: also behind marks).
        """
        tip = self.history.tip()
        if tip is None:
            return 0
        strays = self.history.strays(tip.id, deep)
        lost, _ = self.history.lost([tip, *strays], [(s.tree, tip.tree) for s in strays], deep=deep)
        tombstones = Tombstones(self.purges_of(tip))
        return sum(not tombstones.doom(line) for _, line in self.absent(tip, lost))

    def absent(self, tip: Commit, lost: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        """What is to come back of lost lines: those that are nowhere in the tip.

        Of a line that stands elsewhere, only the move comes back that the lost copy stated
        (`record.copied_to`): the copies of a note that was amended often need not pile up.
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

    def tombstones(self, tip: str = "") -> Tombstones:
        """What the purge records of a notes commit (the ref's own for "") name."""
        commit = self.history.commit(tip) if tip else self.history.tip()
        return Tombstones(self.purges_of(commit) if commit else [])

    def purges(self) -> list[record.Record]:
        """The purge records at the ref's tip."""
        tip = self.history.tip()
        return self.purges_of(tip) if tip else []

    def purges_of(self, commit: Commit) -> list[record.Record]:
        tree = notetree.NoteTree(self.git, commit.tree, self.hex_len)
        out: list[record.Record] = []
        n = 1
        while notes := tree.notes(notetree.continuation(notetree.PURGED, n, self.hex_len)[0]):
            out += [
                r for _, line in notetree.contents(self.git, notes) if (r := record.parse(line))
            ]
            n += 1
        return out

    def reflog_size(self) -> str:
        """What changes whenever the ref moves (`refs_mtime.log_size`)."""
        return refs_mtime.log_size(self.git.common_dir, self.ref)

    def doubled(self, tip: str) -> list[str]:
        """Keys whose note lies under several paths of a notes commit (mixed fan-out)."""
        seen: dict[str, int] = {}
        for key, _ in notetree.all_notes(self.git, tip, self.hex_len):
            seen[key] = seen.get(key, 0) + 1
        return [key for key, n in seen.items() if n > 1]
