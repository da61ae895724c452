"""What one attempt to write a notes ref does: which commit it builds on, which lines come in, which
histories become part of it.

Promise: nothing is written here. A line that others took out is put back, one that a purge record
names comes in from nowhere, and a history that holds one does not become part of ours. The trailer
`Mem-Complete` is trusted only on a commit that our own reflog entry moved the ref to. Commits of
others may have it by a copy, a rebase or a lie: after a purge everything they bring is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..core import record
from ..core.errors import GitFailed, Refused
from ..core.fold import Tombstones
from . import notetree
from .history import Commit
from .note_reader import Item, NoteReader
from .treeedit import TreeEdit


class Task(NamedTuple):
    """What a writer wants. `items`: (anchor, line) to add. `former`: the tip that the caller
    remembers, "" for none. `theirs`: the tip of another clone to unite with. `fresh`: the history
    so far is left behind. `deep`: no trailer is trusted, and each note gets one path.
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
    """One attempt: what to build on, what to add."""

    def __init__(self, tip: Commit | None, base: Commit | None) -> None:
        self.tip = tip  # what the ref holds
        self.base = base  # whose tree is edited
        self.parents: list[Commit] = [base] if base else []
        self.items: list[Item] = []
        self.found: list[tuple[str, bytes]] = []  # (key, line) of other histories
        # (key, blob id) of their notes that are too large to be read
        self.carried: list[tuple[str, str]] = []
        self.whole = True  # whether the commit may carry the trailer `Mem-Complete`
        self.forward: Commit | None = None  # only the ref has to move, to this commit
        self.replaced = False
        self.refused = False
        self.idle = False  # nothing is left to do
        self.doubled: list[str] = []  # keys of notes that are to have one path
        self.tombstones: Tombstones | None = None


def make(notes: NoteReader, task: Task, careful: bool) -> Plan:
    """What to do to the ref as it is now. `careful`: lines that a history lost are put back."""
    tip, theirs, fresh = notes.history.tip(), task.theirs, task.fresh
    base, others = _base(notes, tip, task) if careful or fresh else (tip, [])
    plan = Plan(tip, base)
    plan.items = task.items
    tombstones = Tombstones(notes.purges_of(base) if base else [])
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
        union = _Union(notes, plan, base, careful=careful or fresh, deep=task.deep)
        union.run(others, theirs, fresh, doubted)
    else:
        plan.whole = careful
    # A foreign tip that lost nothing is as good as ours: no commit only to mark it.
    plan.idle = not (
        plan.items or plan.found or plan.carried or plan.replaced or len(plan.parents) > 1
    )
    return plan


def _base(notes: NoteReader, tip: Commit | None, task: Task) -> tuple[Commit | None, list[Commit]]:
    """(the commit to build on, former tips to unite with it).

    A deleted ref goes on from the tip that is remembered.
    """
    strays = notes.history.strays(tip.id, task.deep) if tip else []
    asked = task.former and (tip is None or not tip.complete)
    remembered = notes.history.commit(task.former) if asked else None
    if remembered is None or tip is None:
        return tip or remembered, strays
    known = remembered.id in [s.id for s in strays] or notes.history.contains(tip, remembered)
    return tip, strays if known else [*strays, remembered]


def _doubtful(notes: NoteReader, base: Commit, thorough: bool) -> bool:
    """Whether somebody else moved the ref to a commit with the trailer.

    Where no reflog is kept, only who is `thorough` must assume so.
    """
    own = notes.history.own_entry()
    return thorough if own is None else own != base.id


def _already_checked(notes: NoteReader, id: str, tombstones: Tombstones) -> list[str]:
    """[id] where that commit knew all that was purged, and so need not be read again."""
    found = notes.history.commit(id) if id else None
    knew = Tombstones(notes.purges_of(found)) if found else None
    if knew and tombstones.ids <= knew.ids and tombstones.versions <= knew.versions:
        return [id]
    return []


def _follow(
    notes: NoteReader, tip: Commit | None, base: Commit | None, theirs: Commit
) -> Plan | None:
    """Where their history goes on from ours the ref only has to move; None where it may not: they
    hold purged text, or took lines out and say that they did not.
    """
    plan = Plan(tip, theirs)
    arrived = list(notes.gained(theirs.id, base.id if base else ""))
    tombstones = Tombstones(notes.purges_of(theirs))
    forged = False
    if tombstones and theirs.complete:
        known = _already_checked(notes, base.id, tombstones) if base else []
        forged = notes.history.holds(theirs.id, known, tombstones.doom)
    if theirs.complete and base:
        pairs = [(base.tree, theirs.tree)]
        gone = list(notetree.lines_gone(notes.git, pairs, strict=True))
        left = [(key, line) for key, line in gone if not tombstones.doom(line)]
        # A clone that lacks a commit has its lines in continuations; who has it keeps its note.
        edit = TreeEdit(notes.git, theirs.tree, notes.hex_len)
        own = any(edit.anchor_of(key) == key and notes.git.local.get(key) for key, _ in left)
        if forged or own or edit.unknown(left):
            return None
    elif forged or not theirs.complete:
        union = _Union(notes, plan, theirs, careful=True, deep=False)
        union.run([], None, fresh=False, doubted=forged)
        if plan.replaced and base:
            return None
    if plan.found or plan.replaced:
        plan.refused = plan.replaced
    else:
        plan.found, plan.forward = arrived, theirs
    return plan


class _Union:
    """Unites the histories of one attempt into its plan.

    The steps, in order: which texts were purged, on any side; which lines the base's own history
    lost; whether the base holds purged text; what each other tip has and the base lacks.
    """

    def __init__(
        self, notes: NoteReader, plan: Plan, base: Commit, *, careful: bool, deep: bool
    ) -> None:
        self.notes = notes
        self.history = notes.history
        self.plan = plan
        self.base = base
        self.careful = careful  # whether lines are sought that the histories lost
        self.deep = deep
        self.tombstones = Tombstones([])
        self.unknown_purges = False  # whether the writer of the base did not know all of them
        self.base_is_dirty = False  # whether the base holds purged text

    def run(self, others: list[Commit], theirs: Commit | None, fresh: bool, doubted: bool) -> None:
        """`theirs`: which of `others` is another clone's tip. `fresh`: the history before goes.
        `doubted`: the base may lie about what is in its history.
        """
        plan, notes = self.plan, self.notes
        self._collect_purges(others)
        plan.tombstones = self.tombstones
        lost, plan.whole = (
            self.history.lost([self.base], deep=self.deep) if self.careful else ([], False)
        )
        self.base_is_dirty = self._holds_purged(lost) or (doubted and self._holds_purged_before())
        plan.found = self._allowed(notes.absent(self.base, lost))
        kept = [other for other in others if self._take(other, other is theirs)]
        plan.found = TreeEdit(notes.git, self.base.tree, notes.hex_len).unknown(plan.found)
        plan.refused = theirs is not None and theirs in others and theirs not in kept
        plan.replaced = fresh or self.base_is_dirty
        plan.parents = [] if fresh else kept if self.base_is_dirty else [self.base, *kept]

    def _collect_purges(self, others: list[Commit]) -> None:
        """Collects the purge records of the base, of the other tips and of the new lines."""
        own = {r.version for r in self.notes.purges_of(self.base)}
        purges = {r.version: r for c in (self.base, *others) for r in self.notes.purges_of(c)}
        new = (record.parse(line) for _, line in self.plan.items)
        purges.update({r.version: r for r in new if r and r.op == "purge"})
        self.tombstones = Tombstones(purges.values())
        self.unknown_purges = len(purges) > len(own)

    def _allowed(self, lines: Iterable[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        return [(key, line) for key, line in lines if not self.tombstones.doom(line)]

    def _holds_purged(self, lost: list[tuple[str, bytes]]) -> bool:
        """Whether the base or what it lost has text that its writer did not know to be purged."""
        if not self.tombstones or (self.base.complete and not self.unknown_purges):
            return False
        lines = (*lost, *self.notes.contents(self.base))
        return any(self.tombstones.doom(line) for _, line in lines)

    def _holds_purged_before(self) -> bool:
        known = _already_checked(self.notes, self.history.own_entry() or "", self.tombstones)
        return self.history.holds(self.base.id, known, self.tombstones.doom)

    def _take(self, other: Commit, strict: bool) -> bool:
        """Adds the lines that another tip has and the base lacks; whether its history may become
        part of ours. `strict`: raises GitFailed where it cannot be read.
        """
        plan = self.plan
        known = [] if self.base_is_dirty else [self.base.id]
        found, readable = self._difference(other, strict)
        lost, whole = (
            self.history.lost([other], known=known) if self.careful or strict else ([], False)
        )
        plan.whole = plan.whole and whole and readable
        plan.found += self._allowed([*found, *self.notes.absent(self.base, lost)])
        if self.base_is_dirty and self.history.contains(other, self.base):
            return False
        # A clean base holds nothing that was purged: then what is new to it tells.
        return not self.tombstones or (
            readable
            and not any(self.tombstones.doom(line) for _, line in [*lost, *found])
            and not self.history.holds(other.id, known, self.tombstones.doom)
        )

    def _difference(self, other: Commit, strict: bool) -> tuple[list[tuple[str, bytes]], bool]:
        """(the (key, line) that another commit has and the base lacks, whether all of it could be
        read); its notes that are too large to be read are carried. If `strict`, raises GitFailed
        where it could not.
        """
        git, pairs = self.notes.git, [(other.tree, self.base.tree)]
        carried = self.plan.carried
        try:
            return list(notetree.lines_gone(git, pairs, strict=True, whole=carried)), True
        except GitFailed:
            if strict:
                raise
        try:
            return list(notetree.lines_gone(git, pairs)), False
        except GitFailed:
            return [], False
