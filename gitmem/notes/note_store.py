"""One notes ref: the truth. Reads every line that was ever in it, appends lines, unites it with
another clone's.

Promises. A write is in the ref when it returns, or raises and changed
nothing: the new commit is made on the tip that was read, and git moves the
ref only if it still holds that tip (else we read again and retry). Nothing
but a purge removes a line: what stock git's `notes prune`, `notes remove`, an
edit or a blind ref update took away is read back from the ref's history and
reflog, and the next write puts it there again.

A commit with the trailer `Mem-Complete: 1` holds every line of its whole
history, and no line (there or before) that a purge record in it names. Ours
carry it, unless part of the history could not be read (a shallow clone) or
others moved the ref so often that there was no time to look.

`docs/format.md` specifies all of this; `treeedit` decides where a line goes,
`history` finds what is missing.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterable, Iterator

from ..core import record
from ..core.errors import GitFailed, MemError, RefMoved
from ..core.fold import Tombstones
from ..git import config, reflock, refs_mtime
from ..git.gitcmd import Git
from . import notetree, plans, rescue
from .history import COMPLETE, MOVED, Commit, History
from .plans import Plan, Written
from .treeedit import TreeEdit

PATIENCE = 30.0  # seconds a writer retries while others move the ref
CAREFUL = 3  # attempts that also look for lost lines

Item = tuple[str, bytes]  # (anchor commit, "" for none or notetree.PURGED; line)


class Notes:
    """The lines of one notes ref in one repository."""

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

    def back_up(self) -> None:
        """Notes where others took the ref, if that goes on from what the backup holds."""
        tip, noted = self.history.tip(), self.history.commit(self.history.backed_up())
        if tip and (noted is None or (noted.id != tip.id and self.history.contains(tip, noted))):
            reflock.back_up(self.git, self.ref, tip.id)

    def keeps(self, key: str) -> bool:
        """Whether the tree at the tip keeps a continuation's key alive."""
        commit = self.history.tip()
        return commit is not None and notetree.NoteTree(
            self.git, commit.tree, self.hex_len
        ).has_key(key)

    # Reading

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
        graves = Tombstones(self.purges_of(tip))
        left = [line for _, line in self.absent(tip, lost) if not graves.doom(line)]
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
        graves = Tombstones(self.purges_of(tip))
        return sum(not graves.doom(line) for _, line in self.absent(tip, lost))

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

    # Writing

    def append(self, items: list[Item], message: str, identity: str, former: str = "") -> str:
        """Adds lines in one commit; returns the new tip.

        `identity`: `Name <email>` of the committer. `former`: a tip the caller
        remembers, whose lines count as lost where the ref was deleted since.
        Raises RefMoved when other writers kept moving the ref for PATIENCE
        seconds; nothing is written then.
        """
        return self._write(items, message, identity, former).tip

    def settle(self, message: str, identity: str, former: str = "") -> Written:
        """Puts back what foreign commits took out, and leaves behind a history into which they
        brought purged text. Usually nothing is to do.
        """
        return self._write([], message, identity, former)

    def unite(self, theirs: str, message: str, identity: str, former: str = "") -> Written:
        """Brings in every line of another clone's notes commit, which is in this repository.

        Moves the ref forward where that says it all, commits a union
        otherwise. Text that either side purged does not come in; if our own
        history holds some, the ref gets a new one (`Written.replaced`).
        """
        found = self.history.commit(theirs)
        if found is None:
            raise GitFailed(
                f"cannot read notes commit {theirs}",
                hint="the repository is damaged or partial; `git fsck` names what is missing",
            )
        return self._write([], message, identity, former, theirs=found)

    def tidy(self, message: str, identity: str) -> Written:
        """Leaves one path of each note that stock git left under several, and puts back what was
        taken out, also behind a trailer that says otherwise.
        """
        return self._write([], message, identity, tidy=True)

    def doubled(self, tip: str) -> list[str]:
        """Keys whose note lies under several paths of a notes commit (mixed fan-out)."""
        seen: dict[str, int] = {}
        for key, _ in notetree.all_notes(self.git, tip, self.hex_len):
            seen[key] = seen.get(key, 0) + 1
        return [key for key, n in seen.items() if n > 1]

    def replant(self, items: list[Item], message: str, identity: str) -> Written:
        """Gives the ref a history of one commit: all lines, `items` with them, less what purge
        records (also in `items`) name.
        """
        return self._write(items, message, identity, fresh=True)

    def _write(
        self,
        items: list[Item],
        message: str,
        identity: str,
        former: str = "",
        theirs: Commit | None = None,
        fresh: bool = False,
        tidy: bool = False,
    ) -> Written:
        return rescue.writing(
            self,
            items,
            lambda lines, mended: self._try(
                lines, message, identity, "" if mended else former, theirs, fresh, tidy
            ),
        )

    def _try(
        self,
        items: list[Item],
        message: str,
        identity: str,
        former: str,
        theirs: Commit | None,
        fresh: bool,
        tidy: bool,
    ) -> Written:
        start = time.monotonic()
        attempt, pause, held = 0, 0.002, 0.0
        while True:
            attempt += 1
            # Looking for lost lines takes longer than a loop of `git commit --amend` leaves us (in
            # 20 s one memory got through): after some failures the commit goes without the mark,
            # and the next reader or writer looks.
            plan = plans.make(self, items, former, theirs, fresh, attempt <= CAREFUL, deep=tidy)
            plan.doubled = self.doubled(plan.base.id) if tidy and plan.base else []
            if plan.idle and not plan.doubled:
                if (
                    plan.tip and self.history.backed_up() != plan.tip.id
                ):  # all of what others did was looked at
                    reflock.back_up(self.git, self.ref, plan.tip.id)
                return Written(self.tip(), refused=plan.refused)
            tip, refused = self._carry_out(plan, message, identity)
            if not refused:
                return Written(tip, len(plan.found), plan.replaced, plan.refused)
            waited = time.monotonic() - start
            lock = reflock.met(self.git.common_dir, refused)
            held = (held or waited) if lock and not reflock.recover(self.git, self.ref) else 0.0
            if held and waited - held > reflock.patience(lock):
                why = f"it is locked by '{lock}'"
                raise MemError(f"cannot write '{self.ref}': {why}", hint=reflock.LEFT)
            if waited > PATIENCE:
                raise RefMoved(
                    f"memories changed while writing '{self.ref}'",
                    hint="run the command again; nothing was written",
                )
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, 0.02)

    def _carry_out(self, plan: Plan, message: str, identity: str) -> tuple[str, str]:
        """(the new tip, ""), or ("", git's words) where somebody else moved or holds the ref."""
        if plan.forward:
            return self._move(plan.forward.id, plan.tip, f"{MOVED}: fast-forward")
        if plan.replaced and plan.base:
            edit = TreeEdit(self.git, None, self.hex_len, keep=plan.base.id)
            missing: list[str] = []
            unread: dict[str, int] = {}
            lines = [
                (edit.anchor_of(key), line)
                for key, line in self.contents(plan.base, missing, unread)
            ]
            tree = notetree.NoteTree(self.git, plan.base.tree, self.hex_len)
            plan.carried += [(key, blob) for key in unread for _, blob in tree.notes(key)]
            if missing:
                raise notetree.unreadable(missing[0])  # the history that has them is left behind
            lines = list(self._kept(lines, plan))
        else:
            edit = TreeEdit(self.git, plan.base.tree if plan.base else None, self.hex_len)
            lines = []
        for key in plan.doubled:
            edit.tidy(key)
        for anchor, group in _grouped(
            [*lines, *plan.items, *((edit.anchor_of(key), line) for key, line in plan.found)]
        ):
            edit.add(anchor, group)
        for key, blob in plan.carried:
            edit.carry(key, blob)
        return self._commit(edit, plan, message, identity)

    def _kept(self, lines: list[Item], plan: Plan) -> Iterator[Item]:
        """The lines of a history that is left behind: all but purged ones, and the moves that
        copies of these stated.
        """
        for anchor, line in lines:
            if plan.graves and plan.graves.doom(line):
                line = record.copied_to(line, anchor)
            if line:
                yield anchor, line

    def _commit(self, edit: TreeEdit, plan: Plan, message: str, identity: str) -> tuple[str, str]:
        """Commits an edit through `git fast-import`, then moves the ref if it still holds what was
        read.
        """
        text = (
            message.encode("utf-8", "replace")
            + b"\n"
            + (b"\n" + COMPLETE + b"\n" if plan.whole else b"")
        )
        out = [
            b"commit %s\nmark :1\ncommitter %s %d +0000\ndata %d\n%s\n"
            % (
                self.ref.encode(),
                identity.encode("utf-8", "replace"),
                int(time.time()),
                len(text),
                text,
            )
        ]
        if plan.parents:
            out.append(b"from %s\n" % plan.parents[0].id.encode())
            out.extend(b"merge %s\n" % other.id.encode() for other in plan.parents[1:])
            if plan.replaced:
                out.append(b"deleteall\n")
        out.append(edit.commands())
        # Only tells the new commit: its ref and the backup of it move together, which fast-import
        # cannot do.
        out.append(b"reset %s\n\nget-mark :1\ndone\n" % self.ref.encode())
        moved = self._move(
            self._imported(b"".join(out)),
            plan.tip,
            f"{MOVED}: {'purge' if plan.replaced else 'write'}",
        )
        # Its entries keep the old history alive. Where somebody moved the ref meanwhile, theirs is
        # needed: the next write looks.
        if plan.replaced and moved[0] and self.history.logged(moved[0]):
            self.history.drop_reflog()
        return moved

    def _imported(self, commands: bytes) -> str:
        """The commit that `git fast-import` made. Its objects are on the disk then."""
        words = [*reflock.SYNCED, "fast-import", "--quiet", "--done", "--date-format=raw"]
        process = self.git.start(words, stdin=-1, stdout=-1, stderr=-1)
        answer, err = process.communicate(commands)
        if process.returncode:
            # Where fast-import dies it leaves a report of its last commands in the repository; our
            # error says what matters.
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.git.git_dir, f"fast_import_crash_{process.pid}"))
            raise self._failed(err.decode("utf-8", "replace").strip(), process.returncode, "")
        return answer.decode().strip()

    def _move(self, new: str, old: Commit | None, why: str) -> tuple[str, str]:
        """Points the ref and its backup to a commit, only if the ref holds `old` now."""
        status, _, err, _ = reflock.move(self.git, self.ref, new, old.id if old else "", why)
        text = err.decode("utf-8", "replace").strip()
        if status == 0:
            return new, ""
        if "reference broken" in text:  # a power cut emptied the backup; the ref itself was read
            reflock.drop_broken(self.git.common_dir, config.backup_of(self.ref))
            return "", text
        # git 2.30 to 2.50 say in these ways that somebody else moved, deleted or holds the ref. The
        # last one: a clean-up beside us took the new objects.
        words = (
            "but expected",
            "reference already exists",
            "unable to resolve reference",
            "nonexistent object",
        )
        if any(word in text for word in words) or reflock.met(self.git.common_dir, text):
            return "", text
        raise self._failed(text, status, new)

    def _failed(self, text: str, status: int, made: str) -> MemError:
        first = next(
            (row for row in text.splitlines() if row.startswith(("fatal:", "error:"))),
            text or "git failed",
        )
        reason = first.split(": ", 1)[-1]
        if "exists; cannot create" in text:
            return MemError(
                f"cannot write '{self.ref}': a ref of the same name stands in its way",
                hint="choose another namespace, for example `git config mem.ref memory`",
            )
        hint = "nothing was written"
        if made and (status < 0 or self.history.logged(made)):
            hint = "`git mem list` shows whether it was stored"
        return GitFailed(
            f"cannot write '{self.ref}':"
            f" {reason if status > 0 else f'git was ended by signal {-status}'}",
            hint=hint,
            status=status,
            stderr=text,
        )


def _grouped(items: Iterable[Item]) -> Iterable[tuple[str, list[bytes]]]:
    groups: dict[str, list[bytes]] = {}
    for anchor, line in items:
        groups.setdefault(anchor, []).append(line)
    return groups.items()
