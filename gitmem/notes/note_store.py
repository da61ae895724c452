"""One notes ref, written: appends lines and unites the ref with another clone's.

Promise: a write is in the ref when it returns, or raises and changed nothing. The new commit
is made on the tip that was read, and git moves the ref only if it still holds that tip (else we
read again and retry). A line that anything but a purge removed is put back by the next write.

A commit with the trailer `Mem-Complete: 1` holds every line of its whole history, and no line
that a purge record in it names. Ours carry it, unless part of the history could not be read or
others left no time to look. `docs/format.md` specifies all of this; `treeedit` places lines.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from ..core import record
from ..core.errors import GitFailed, MemError, RefMoved
from ..git import config, reflock
from . import notetree, plans, ref_repair, rescue
from .history import COMPLETE, MOVED, Commit
from .note_reader import Item, NoteReader
from .plans import Plan, Task, Written
from .treeedit import TreeEdit

PATIENCE = 30.0  # seconds a writer retries while others move the ref
# Bytes of a write from which git compresses little and compares no versions: a third less time,
# 3 % more bytes until the next `git gc`.
_BULK = 1 << 20
CAREFUL = 3  # attempts that also look for lost lines
# git 2.30 to 2.50 say in these ways that somebody else moved, deleted or holds the ref. The last
# one: a clean-up beside us took the new objects.
_TAKEN = (
    "but expected",
    "reference already exists",
    "unable to resolve reference",
    "nonexistent object",
)


class Notes(NoteReader):
    """The lines of one notes ref in one repository, to read and to write.

    `identity`: `Name <email>` of the committer. `former`: a tip whose lines count as lost where the
    ref was deleted since. A write raises RefMoved, and wrote nothing, where others kept moving the
    ref for PATIENCE seconds.
    """

    def back_up(self) -> None:
        """Notes where others took the ref, if that goes on from what the backup holds."""
        tip, noted = self.history.tip(), self.history.commit(self.history.backed_up())
        if tip and (noted is None or (noted.id != tip.id and self.history.contains(tip, noted))):
            reflock.back_up(self.git, self.ref, tip.id)

    def append(self, items: list[Item], message: str, identity: str, former: str = "") -> str:
        """Adds lines in one commit; returns the new tip."""
        return self._write(Task(items, former), message, identity).tip

    def settle(self, message: str, identity: str, former: str = "", deep: bool = False) -> Written:
        """Puts back what foreign commits took out (`deep`: also behind a trailer that says
        otherwise), and leaves behind a history into which they brought purged text.
        """
        return self._write(Task([], former, deep=deep), message, identity)

    def unite(self, theirs: str, message: str, identity: str, former: str = "") -> Written:
        """Brings in every line of another clone's notes commit, which is in this repository, by a
        fast-forward or a union. Text that either side purged does not come in; if our own history
        holds some, the ref gets a new one.
        """
        found = self.history.commit(theirs)
        if found is None:
            raise GitFailed(
                f"cannot read notes commit {theirs}",
                hint="the repository is damaged or partial; `git fsck` names what is missing",
            )
        return self._write(Task([], former, theirs=found), message, identity)

    def replant(self, items: list[Item], message: str, identity: str) -> Written:
        """Begins the history anew: one commit with all lines and `items`, less purged ones."""
        return self._write(Task(items, fresh=True), message, identity)

    def _write(self, task: Task, message: str, identity: str) -> Written:
        if task.former in ref_repair.left(self.git, self.ref):
            task = task._replace(former="")
        self._owe(task)
        lost = rescue.lost_lines(self)
        try:
            done = self._try(task.plus(lost.lines), message, identity)
        except GitFailed:
            mended = ref_repair.mend(self.git, self.ref)
            self.git.close()  # it has read the ref as it was
            if not self._owe(task) and mended is None:
                raise
            lost = rescue.lost_lines(self)
            done = self._try(task.plus(lost.lines)._replace(former=""), message, identity)
        rescue.settle(self, task.items, lost)
        return done

    def _owe(self, task: Task) -> bool:
        """Leaves former tips that lack objects to `rescue`; whether there are new ones."""
        tip = self.history.tip()
        former = self.history.former(tip.id, task.deep) if tip else ()
        return bool(tip and former and ref_repair.owe(self.git, self.ref, tip.id, former))

    def _try(self, task: Task, message: str, identity: str) -> Written:
        start = time.monotonic()
        attempt, pause, held = 0, 0.002, 0.0
        while True:
            attempt += 1
            # Looking for lost lines takes longer than a loop of `git commit --amend` leaves us:
            # after some failures the commit goes without the mark, and the next one looks.
            plan = plans.make(self, task, careful=attempt <= CAREFUL)
            if plan.idle:
                if plan.tip and self.history.backed_up() != plan.tip.id:
                    reflock.back_up(self.git, self.ref, plan.tip.id)
                return Written(self.tip(), refused=plan.refused)
            tip, lock = self._carry_out(plan, message, identity)
            if tip:
                came = {line for _, line in plan.found}  # a rebase leaves copies
                return Written(tip, len(came), plan.replaced, plan.refused)
            # Who holds a lock mostly moves the ref: waiting for it would try in vain.
            waited = time.monotonic() - start
            held = (held or waited) if lock and not reflock.recover(self.git, self.ref) else 0.0
            if held and waited - held > reflock.STALE:
                why = f"it is locked by '{lock}'"
                raise MemError(f"cannot write '{self.ref}': {why}", hint=reflock.LEFT)
            if waited > PATIENCE:
                raise RefMoved(
                    f"memories changed while writing '{self.ref}'",
                    hint="run the command again; nothing was written",
                )
            from random import uniform  # takes 0.8 ms to load

            time.sleep(pause * uniform(0.5, 1.5))
            pause = min(pause * 2, 0.02)

    def _carry_out(self, plan: Plan, message: str, identity: str) -> tuple[str, str]:
        """(the new tip, "" where somebody else moved or holds the ref; the lock that is held)."""
        if plan.forward:
            return self._move(plan.forward.id, plan.tip, f"{MOVED}: fast-forward")
        items: list[Item] = []
        if plan.replaced and plan.base:
            edit = TreeEdit(self.git, None, self.hex_len, keep=plan.base.id)
            items += self._kept(edit, plan, plan.base)
        else:
            edit = TreeEdit(self.git, plan.base.tree if plan.base else None, self.hex_len)
        items += [*plan.items, *((edit.anchor_of(key), line) for key, line in plan.found)]
        groups: dict[str, list[bytes]] = {}
        for anchor, line in items:
            groups.setdefault(anchor, []).append(line)
        edit.add_all(groups, {key for key, _ in plan.found if edit.anchor_of(key) == key})
        for key, blob in plan.carried:
            edit.carry(key, blob)
        return self._commit(edit, plan, message, identity)

    def _kept(self, edit: TreeEdit, plan: Plan, base: Commit) -> Iterator[Item]:
        """The lines of a history that is left behind: all but purged ones, and the moves that
        copies of these stated. Notes that are too large to be read are carried.
        """
        missing: list[str] = []
        unread: dict[str, int] = {}
        lines = list(self.contents(base, missing, unread))
        if missing:
            raise notetree.unreadable(missing[0])  # the history that has them is left behind
        tree = notetree.NoteTree(self.git, base.tree, self.hex_len)
        plan.carried += [(key, blob) for key in unread for _, blob in tree.notes(key)]
        for key, line in lines:
            anchor = edit.anchor_of(key)
            if plan.tombstones.doom(line):
                line = record.copied_to(line, anchor)
            if line:
                yield anchor, line

    def _commit(self, edit: TreeEdit, plan: Plan, message: str, identity: str) -> tuple[str, str]:
        """Commits an edit, then moves the ref if it still holds what was read."""
        ref, author = self.ref.encode(), identity.encode("utf-8", "replace")
        text = message.encode("utf-8", "replace") + b"\n"
        text += b"\n" + COMPLETE + b"\n" if plan.whole else b""
        out = [
            b"commit %s\nmark :1\n" % ref,
            b"committer %s %d +0000\n" % (author, int(time.time())),
            b"data %d\n%s\n" % (len(text), text),
        ]
        for i, parent in enumerate(plan.parents):
            out.append(b"%s %s\n" % (b"merge" if i else b"from", parent.id.encode()))
        if plan.parents and plan.replaced:
            out.append(b"deleteall\n")
        out.append(edit.commands())
        # Only tells the new commit: fast-import cannot move the ref and its backup together.
        out.append(b"reset %s\n\nget-mark :1\ndone\n" % ref)
        why = f"{MOVED}: {'purge' if plan.replaced else 'write'}"
        moved = self._move(self._imported(b"".join(out)), plan.tip, why)
        # Its entries keep the old history alive. Where somebody moved the ref meanwhile, theirs is
        # needed: the next write looks.
        if plan.replaced and moved[0] and self.history.logged(moved[0]):
            self.history.drop_reflog()
        return moved

    def _imported(self, commands: bytes) -> str:
        """The commit that `git fast-import` made. Its objects are on the disk then."""
        words = [*reflock.SYNCED, "fast-import", "--quiet", "--done", "--date-format=raw"]
        if len(commands) > _BULK:
            words = ["-c", "core.compression=1", *words, "--depth=0"]
        process = self.git.start(words, stdin=-1, stdout=-1, stderr=-1)
        answer, err = process.communicate(commands)
        if process.returncode:
            # It leaves a report with its last commands in the repository.
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.git.git_dir, f"fast_import_crash_{process.pid}"))
            raise self._failed(err.decode("utf-8", "replace").strip(), process.returncode, "")
        return answer.decode().strip()

    def _move(self, new: str, old: Commit | None, why: str) -> tuple[str, str]:
        """Points the ref and its backup to a commit, only if the ref holds `old` now."""
        done = reflock.move(self.git, self.ref, new, old.id if old else "", why)
        status, text = done[0], done[2].decode("utf-8", "replace").strip()
        if status == 0:
            return new, ""
        if "reference broken" in text:  # a power cut emptied the backup; the ref itself was read
            reflock.drop_broken(self.git.common_dir, config.backup_of(self.ref))
            return "", ""
        lock = reflock.met(self.git, done)
        if lock or any(word in text for word in _TAKEN):
            return "", lock
        raise self._failed(text, status, new)

    def _failed(self, text: str, status: int, made: str) -> MemError:
        if "exists; cannot create" in text:
            return MemError(
                f"cannot write '{self.ref}': a ref of the same name stands in its way",
                hint="choose another namespace, for example `git config mem.ref memory`",
            )
        rows = [row for row in text.splitlines() if row.startswith(("fatal:", "error:"))]
        reason = [*rows, text or "git failed"][0].split(": ", 1)[-1]
        if status < 0:
            reason = f"git was ended by signal {-status}"
        hint = "nothing was written"
        if made and (status < 0 or self.history.logged(made)):
            hint = "`git mem list` shows whether it was stored"
        message = f"cannot write '{self.ref}': {reason}"
        return GitFailed(message, hint=hint, status=status, stderr=text)
