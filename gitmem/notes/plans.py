"""One attempt to write a notes ref: the commit it builds on, lines and histories that come in.

Promise: nothing is written here. A line that others took out is put back, one that a purge record
names comes in from nowhere, and a history that holds one does not become part of ours. The trailer
`Mem-Complete` is trusted only on a commit that our own reflog entry moved the ref to. Commits of
others may have it by a copy, a rebase or a lie: after a purge everything they bring is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..core import record
from ..core.errors import Refused
from ..core.fold import Tombstones
from . import notetree
from .history import Commit
from .note_reader import Item, NoteReader
from .treeedit import TreeEdit


class Task(NamedTuple):
    """What a writer wants. `items`: (anchor, line) to add. `former`: a tip that the caller
    remembers. `theirs`: the tip of another clone to unite with. `fresh`: the history so far is left
    behind. `deep`: no trailer is trusted.
    """

    items: list[Item]
    former: str = ""
    theirs: Commit | None = None
    fresh: bool = False
    deep: bool = False

    def plus(self, items: list[Item]) -> Task:
        return self._replace(items=[*self.items, *items])


class Written(NamedTuple):
    """What a write did. `lines`: how many it brought in from elsewhere; `replaced`: the history
    before it was left behind, because it held purged text (its objects are still there); `refused`:
    the other clone's history was not made part of ours, for the same reason.
    """

    tip: str
    lines: int = 0
    replaced: bool = False
    refused: bool = False


class Plan:
    def __init__(self, notes: NoteReader, tip: Commit | None, base: Commit | None) -> None:
        self.notes = notes
        self.tip = tip  # what the ref holds
        self.base = base  # whose tree is edited
        self.parents: list[Commit] = [base] if base else []
        self.items: list[Item] = []
        self.found: list[tuple[str, bytes]] = []  # (key, line) of other histories
        self.carried: list[tuple[str, str]] = []  # (key, blob id) of their notes of any length
        self.whole = True  # whether the commit may carry the trailer `Mem-Complete`
        self.forward: Commit | None = None  # only the ref has to move, to this commit
        self.replaced = False
        self.refused = False
        self.idle = False  # nothing is left to do
        self.tombstones = Tombstones([])  # of all sides, where histories were united
        self._unknown_purges = False  # whether the writer of the base did not know all of them
        self._dirty = False  # whether the base holds purged text

    def unite(
        self, base: Commit, others: list[Commit], task: Task, *, careful: bool, doubted: bool
    ) -> None:
        """Unites other tips with the base. `careful`: lines that the histories lost are sought;
        `doubted`: the base may lie about what is in its history.
        """
        notes = self.notes
        self._collect_purges(base, others)
        lost, self.whole = notes.history.lost([base], deep=task.deep) if careful else ([], False)
        self._dirty = self._holds_purged(base, lost)
        self._dirty = self._dirty or (doubted and self._holds_purged_before(base))
        self.found = self._allowed(notes.absent(base, lost))
        kept = [c for c in others if self._take(base, c, careful, strict=c is task.theirs)]
        self.found = TreeEdit(notes.git, base.tree, notes.hex_len).unknown(self.found)
        self.refused = task.theirs in others and task.theirs not in kept
        self.replaced = task.fresh or self._dirty
        self.parents = [] if task.fresh else kept if self._dirty else [base, *kept]

    def _collect_purges(self, base: Commit, others: list[Commit]) -> None:
        own = {r.version for r in self.notes.purges_of(base)}
        purges = {r.version: r for c in (base, *others) for r in self.notes.purges_of(c)}
        new = (record.parse(line) for _, line in self.items)
        purges.update({r.version: r for r in new if r and r.op == "purge"})
        self.tombstones = Tombstones(purges.values())
        self._unknown_purges = len(purges) > len(own)

    def _allowed(self, lines: Iterable[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        return [(key, line) for key, line in lines if not self.tombstones.doom(line)]

    def _holds_purged(self, base: Commit, lost: list[tuple[str, bytes]]) -> bool:
        """Whether the base or what it lost has text that its writer did not know to be purged."""
        if not self.tombstones or (base.complete and not self._unknown_purges):
            return False
        lines = (*lost, *self.notes.contents(base))
        return any(self.tombstones.doom(line) for _, line in lines)

    def _holds_purged_before(self, base: Commit) -> bool:
        history = self.notes.history
        known = _already_checked(self.notes, history.own_entry() or "", self.tombstones)
        return history.holds(base.id, known, self.tombstones.doom)

    def _take(self, base: Commit, other: Commit, careful: bool, strict: bool) -> bool:
        """Adds the lines that another tip has and the base lacks; whether its history may become
        part of ours. `strict`: raises GitFailed where it cannot be read.
        """
        history = self.notes.history
        known = [] if self._dirty else [base.id]
        pairs = [(other.tree, base.tree)]
        found, readable = notetree.all_gone(self.notes.git, pairs, strict, self.carried)
        lost, whole = history.lost([other], known=known) if careful or strict else ([], False)
        self.whole = self.whole and whole and readable
        self.found += self._allowed([*found, *self.notes.absent(base, lost)])
        if self._dirty and history.contains(other, base):
            return False
        # A clean base holds nothing that was purged: then what is new to it tells.
        return not self.tombstones or (
            readable
            and not any(self.tombstones.doom(line) for _, line in [*lost, *found])
            and not history.holds(other.id, known, self.tombstones.doom)
        )


def make(notes: NoteReader, task: Task, careful: bool) -> Plan:
    """What to do to the ref as it is now. `careful`: lines that a history lost are put back.

    Mostly the new commit is the tip with `items`, and its one parent is the tip. Say somebody's
    fetch moved the ref from B to C, which lacks B (a stray): the commit is C with the items and
    what B has more, and has both as parents. Where a purge record of B names a line of C, C is left
    behind: the commit has C's other lines, and only B as parent. Where another clone's history goes
    on from ours and has nothing of that, there is no commit, and the ref moves to it (`_follow`).
    """
    tip, theirs, fresh = notes.history.tip(), task.theirs, task.fresh
    base, others = _base(notes, tip, task) if careful or fresh else (tip, [])
    plan = Plan(notes, tip, base)
    plan.items = task.items
    tombstones = notes.tombstones(base)
    if tombstones and any(tombstones.doom(line) for _, line in task.items):
        raise Refused("this text was purged; it is not taken in again")
    if theirs and not (base and notes.history.contains(base, theirs)):
        if not others and (base is None or notes.history.contains(theirs, base)):
            followed = _follow(notes, tip, base, theirs)
            if followed:
                return followed
        others = [*others, theirs]
    doubted = bool(
        careful and base and base.complete and tombstones and _doubtful(notes, base, not task.items)
    )
    must_unite = fresh or others or doubted or task.deep or (base and not base.complete)
    may_unite = careful or fresh or theirs
    if base and must_unite and may_unite:
        plan.unite(base, others, task, careful=careful or fresh, doubted=doubted)
    else:
        plan.whole = careful
    # A foreign tip that lost nothing is as good as ours: no commit only to mark it.
    plan.idle = not (
        plan.items or plan.found or plan.carried or plan.replaced or len(plan.parents) > 1
    )
    return plan


def _base(notes: NoteReader, tip: Commit | None, task: Task) -> tuple[Commit | None, list[Commit]]:
    """(the commit to build on, former tips to unite with it)."""
    strays = notes.history.strays(tip.id, task.deep) if tip else []
    asked = task.former and (tip is None or not tip.complete)
    remembered = notes.history.commit(task.former) if asked else None
    if remembered is None or tip is None:
        return tip or remembered, strays
    known = remembered.id in [s.id for s in strays] or notes.history.contains(tip, remembered)
    return tip, strays if known else [*strays, remembered]


def _doubtful(notes: NoteReader, base: Commit, thorough: bool) -> bool:
    """Whether somebody else moved the ref to a commit with the trailer. Where no reflog is kept,
    only who is `thorough` must assume so.
    """
    own = notes.history.own_entry()
    return thorough if own is None else own != base.id


def _already_checked(notes: NoteReader, id: str, tombstones: Tombstones) -> list[str]:
    """[id] where that commit knew all that was purged, and so need not be read again."""
    knew = notes.tombstones(notes.history.commit(id) if id else None)
    known = tombstones.ids <= knew.ids and tombstones.versions <= knew.versions
    return [id] if knew and known else []


def _follow(
    notes: NoteReader, tip: Commit | None, base: Commit | None, theirs: Commit
) -> Plan | None:
    """Where their history goes on from ours the ref only has to move; None where it may not: they
    hold purged text, or took lines out and say that they did not.
    """
    plan = Plan(notes, tip, theirs)
    arrived = list(notes.gained(theirs.id, base.id if base else ""))
    tombstones = notes.tombstones(theirs)
    forged = False
    if tombstones and theirs.complete:
        known = _already_checked(notes, base.id, tombstones) if base else []
        forged = notes.history.holds(theirs.id, known, tombstones.doom)
    if theirs.complete and base:
        pairs = [(base.tree, theirs.tree)]
        gone = list(notetree.lines_gone(notes.git, pairs, strict=True))
        left = [(key, line) for key, line in gone if not tombstones.doom(line)]
        # Who lacks a commit may have its lines in continuations; who has it keeps its note.
        edit = TreeEdit(notes.git, theirs.tree, notes.hex_len)
        bare = [key for key, _ in left if edit.anchor_of(key) == key and not edit.has_note(key)]
        own = any(map(notes.git.local.get, bare))
        if forged or own or edit.unknown(left):
            return None
    elif forged or not theirs.complete:
        plan.unite(theirs, [], Task([]), careful=True, doubted=forged)
        if plan.replaced and base:
            return None
    if plan.found or plan.replaced:
        plan.refused = plan.replaced
    else:
        plan.found, plan.forward = arrived, theirs
    return plan
