"""One notes ref: the truth. Reads every line that was ever in it, appends lines.

Promises. An append is in the ref when it returns, or raises and changed
nothing: the new commit is made on the tip that was read, and `git
fast-import` moves the ref only if it still holds that tip (else we read again
and retry). Nothing but a purge removes a line: what stock git's `notes
prune`, `notes remove`, an edit or a blind ref update took away is read back
from the ref's history and reflog, and the next append writes it again.

A commit with the trailer `Mem-Complete: 1` holds every line of its whole
history, so a reader looks no further back. Ours carry it, unless part of the
history could not be read (a shallow clone) or others moved the ref so often
that there was no time to look.

`docs/format.md` specifies all of this; `treeedit` decides where a line goes.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterable, Iterator

from . import notetree
from .errors import GitFailed, MemError, RefMoved
from .gitcmd import Git
from .treeedit import TreeEdit, split_lines

COMPLETE = b"Mem-Complete: 1"
PATIENCE = 30.0  # seconds a writer retries while others move the ref
STALE = 2.0  # seconds after which a lock file is named: git holds one for milliseconds
CAREFUL = 3  # attempts that also look for lost lines


class Commit:
    """What we need of a notes commit."""

    __slots__ = ("complete", "id", "parents", "tree")

    def __init__(self, id: str, content: bytes) -> None:
        head, _, message = content.partition(b"\n\n")
        self.id = id
        self.tree = ""
        self.parents: list[str] = []
        for row in head.split(b"\n"):
            if row.startswith(b"tree "):
                self.tree = row[5:].decode()
            elif row.startswith(b"parent "):
                self.parents.append(row[7:].decode())
        self.complete = COMPLETE in message.split(b"\n")


class Notes:
    """The lines of one notes ref in one repository."""

    def __init__(self, git: Git, ref: str, hex_len: int) -> None:
        self.git = git
        self.ref = ref
        self.hex_len = hex_len

    def tip(self) -> str:
        """The commit the ref points to, "" while there is none."""
        commit = self._commit(self.ref + "^{commit}")
        return commit.id if commit else ""

    def _commit(self, name: str) -> Commit | None:
        found = self.git.objects.get(name)
        return Commit(found[0], found[2]) if found and found[1] == "commit" else None

    # Reading

    def lines(self, tip: str, since: str = "", deep: bool = False) -> Iterator[tuple[str, bytes]]:
        """(key, line) of every line reachable from `tip` that may be new since the commit `since`.

        Lines come at least once each, in no order. `deep` distrusts the
        completeness marks and reads the whole history and reflog.
        """
        new = self._commit(tip)
        if new is None:
            return
        old = self._commit(since) if since else None
        if old is not None:
            yield from self._difference(old.tree, new.tree)
        else:
            yield from self._contents(notetree.all_notes(self.git, tip, self.hex_len))
        yield from self.lost(new, self._strays(new.id, deep), known={since} if old else set(), deep=deep)[0]

    def _contents(self, notes: Iterable[tuple[str, str]]) -> Iterator[tuple[str, bytes]]:
        pairs = list(notes)
        for (key, _), found in zip(pairs, self.git.objects.get_many([blob for _, blob in pairs]), strict=True):
            for line in split_lines(found[2]) if found else ():
                yield key, line

    def _difference(self, old_tree: str, new_tree: str) -> Iterator[tuple[str, bytes]]:
        changed = list(notetree.changed_notes(self.git, [(old_tree, new_tree)], self.hex_len))
        blobs = self._blobs(b for _, old, new in changed for b in (old, new))
        for key, old, new in changed:
            yield from ((key, line) for line in _added(blobs.get(old, b""), blobs.get(new, b"")))

    def _blobs(self, ids: Iterable[str]) -> dict[str, bytes]:
        wanted = [i for i in dict.fromkeys(ids) if i.strip("0")]
        return {name: found[2] for name, found in zip(wanted, self.git.objects.get_many(wanted), strict=True) if found}

    def lost(self, tip: Commit, strays: list[Commit], known: set[str] | None = None, deep: bool = False) -> tuple[list[tuple[str, bytes]], bool]:
        """([(key, line)] that a foreign commit took out of the history of `tip`, whether all of that history could be read).

        Walks back from `tip` and `strays` through commits without our mark, to
        commits in `known` or marked ones; usually that is one commit, already
        in memory. A shallow repository lacks commits to walk to.
        """
        # A blind ref update (stock git beside us) left the strays behind: all they held counts.
        pairs = [(stray.tree, tip.tree) for stray in strays]
        queue, seen = [tip, *strays], set(known or ())
        whole = True
        while queue:
            commit = queue.pop()
            if commit.id in seen or (commit.complete and not deep):
                continue
            seen.add(commit.id)
            for parent in map(self._commit, commit.parents):
                if parent is None:
                    whole = False
                    continue
                pairs.append((parent.tree, commit.tree))
                queue.append(parent)
        changed = list(notetree.changed_notes(self.git, sorted(set(pairs)), self.hex_len))
        blobs = self._blobs(b for _, old, new in changed for b in (old, new))
        taken: dict[tuple[str, bytes], None] = {}
        for key, old, new in changed:
            taken.update({(key, line): None for line in _added(blobs.get(new, b""), blobs.get(old, b""))})
        return list(taken), whole

    def _strays(self, tip: str, deep: bool = False) -> list[Commit]:
        """Former tips, by the reflog, that are no ancestors of `tip`.

        An append checks this before it writes, so only entries since our last
        one here count: usually none, seen from the end of the reflog file.
        """
        former: set[str] = set()
        for entry, ours in self._reflog():
            commit = self._commit(entry)
            former.add(entry)
            if ours and commit and commit.complete and not deep:
                break
        else:
            # The oldest entry also names what the ref held before it, which no entry has as its new value.
            oldest = self.git.run("rev-parse", "-q", "--verify", f"{self.ref}@{{{len(former)}}}", ok=(0, 1, 128)) if former else b""
            former.update(oldest.decode().split())
        former.discard(tip)
        if not former:
            return []
        ids = "\n".join(sorted(former))
        out = self.git.run("rev-list", "--ignore-missing", "--stdin", stdin=f"{ids}\n^{tip}\n".encode())
        left = former.intersection(out.decode().split())
        return [c for c in map(self._commit, sorted(left)) if c]

    def _reflog(self) -> Iterator[tuple[str, bool]]:
        """(former tip, whether an append here made it), newest first; nothing where no reflog is kept."""
        text = self.git.run("log", "-g", "-z", "--format=%H %gs", "-n", "1", self.ref, "--", ok=(0, 128))
        most = 1
        while True:
            rows = [row.decode("utf-8", "replace").split(" ", 1) for row in text.split(b"\0") if row]
            for row in rows[most // 64 :]:
                yield row[0], row[1:] == ["fast-import"]
            if len(rows) < most:
                return
            most = max(64, most * 64)
            text = self.git.run("log", "-g", "-z", "--format=%H %gs", "-n", str(most), self.ref, "--", ok=(0, 128))

    # Writing

    def append(self, items: list[tuple[str, bytes]], message: str, identity: str, former: str = "") -> str:
        """Adds (anchor commit or "", line) items in one commit; returns the new tip.

        `identity`: `Name <email>` of the committer. `former`: a tip the caller
        remembers, whose lines count as lost where the ref was deleted since.
        Raises RefMoved when other writers kept moving the ref for PATIENCE
        seconds; nothing is written then.
        """
        start = time.monotonic()
        attempt, pause, held = 0, 0.002, 0.0
        while True:
            attempt += 1
            tip = self._commit(self.ref + "^{commit}")
            base = tip
            strays: list[Commit] = []
            # Looking for lost lines takes longer than a loop of `git commit --amend` leaves us (in 20 s one memory got
            # through): after some failures the commit goes without the mark, and the next reader or writer looks.
            whole = attempt <= CAREFUL
            again: list[tuple[str, bytes]] = []
            if whole:
                base, strays = self._base(tip, former)
                if base and (strays or not base.complete):
                    again, whole = self._restored(base, strays)
            edit = TreeEdit(self.git, base.tree if base else None, self.hex_len)
            for anchor, lines in _grouped([*items, *((edit.anchor_of(key), line) for key, line in again)]):
                edit.add(anchor, lines)
            refused = self._commit_edit(edit, base, strays, message, identity, whole)
            if not refused:
                return self.tip()
            waited = time.monotonic() - start
            held = (held or waited) if "File exists" in refused else 0.0
            if held and waited - held > STALE:
                lock = refused.partition("Unable to create '")[2].partition("'")[0]
                raise MemError(f"cannot write '{self.ref}': it is locked by '{lock}'",
                               hint="another git process holds it, or one crashed; when none is running, that file may be removed")
            if waited > PATIENCE:
                raise RefMoved(f"memories changed while writing '{self.ref}'", hint="run the command again; nothing was written")
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, 0.02)

    def _base(self, tip: Commit | None, former: str) -> tuple[Commit | None, list[Commit]]:
        """(the commit to build on, former tips to unite with it). A deleted ref goes on from the tip that is remembered."""
        strays = self._strays(tip.id) if tip else []
        remembered = self._commit(former) if former and (tip is None or not tip.complete) else None
        if remembered is None or (tip and remembered.id == tip.id):
            return tip, strays
        if tip is None:
            return remembered, []
        _, status = self.git.run_status("merge-base", "--is-ancestor", remembered.id, tip.id, ok=(0, 1))
        return tip, strays if status == 0 or remembered.id in [s.id for s in strays] else [*strays, remembered]

    def _commit_edit(self, edit: TreeEdit, tip: Commit | None, others: list[Commit], message: str, identity: str, whole: bool) -> str:
        """Commits an edit onto `tip` (with `others` as further parents) and moves the ref; git's words where somebody else moved or holds it, else ""."""
        text = message.encode("utf-8", "replace") + b"\n" + (b"\n" + COMPLETE + b"\n" if whole else b"")
        out = [b"commit %s\ncommitter %s %d +0000\ndata %d\n%s\n" % (self.ref.encode(), identity.encode("utf-8", "replace"), int(time.time()), len(text), text)]
        if tip:
            out.append(b"from %s\n" % tip.id.encode())
            out.extend(b"merge %s\n" % other.id.encode() for other in others)
        process = self.git.start(["fast-import", "--quiet", "--done", "--date-format=raw"], stdin=-1, stdout=-1, stderr=-1)
        _, err = process.communicate(b"".join(out) + edit.commands() + b"\ndone\n")
        if process.returncode == 0:
            return ""
        # Where it dies it leaves a report of its last commands in the repository; our error says what matters.
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.git.git_dir, f"fast_import_crash_{process.pid}"))
        reason = err.decode("utf-8", "replace").strip()
        if self._moved(reason):
            return reason
        raise self._failure(reason, process.returncode)

    @staticmethod
    def _moved(text: str) -> bool:
        """Whether git refused because somebody else moved or holds the ref (git 2.30 to 2.50 say it in these ways)."""
        if "ot updating" in text or "but expected" in text or "reference already exists" in text:
            return True
        return "cannot lock ref" in text and "File exists" in text

    def _failure(self, text: str, status: int) -> MemError:
        first = next((row for row in text.splitlines() if row.startswith(("fatal:", "error:"))), text or "git fast-import failed")
        reason = first.split(": ", 1)[-1]
        if "exists; cannot create" in text:
            return MemError(f"cannot write '{self.ref}': a ref of the same name stands in its way",
                            hint="choose another namespace, for example `git config mem.ref memory`")
        return GitFailed(f"cannot write '{self.ref}': {reason}", hint="nothing was written", status=status, stderr=text)

    def lost_lines(self, deep: bool = False) -> int:
        """How many lines are in the history and not in the tip; the next append puts them back (`deep`: also behind marks)."""
        tip = self._commit(self.ref + "^{commit}")
        return len(self._restored(tip, self._strays(tip.id, deep), deep)[0]) if tip else 0

    def _restored(self, tip: Commit, strays: list[Commit], deep: bool = False) -> tuple[list[tuple[str, bytes]], bool]:
        """(lost lines that really are nowhere in the tip, whether all history could be read): a line may have moved to another key."""
        lost, whole = self.lost(tip, strays, deep=deep)
        if not lost:
            return [], whole
        present = {line for _, line in self._contents(notetree.all_notes(self.git, tip.id, self.hex_len))}
        return [(key, line) for key, line in lost if line not in present], whole

    def reflog_size(self) -> str:
        """Bytes of the reflog file, "" where there is none."""
        try:
            return str(os.stat(os.path.join(self.git.common_dir, "logs", self.ref)).st_size)
        except OSError:
            return ""


def _added(old: bytes, new: bytes) -> list[bytes]:
    """The lines of a note that another state of it lacks."""
    if new.startswith(old) and (not old or old.endswith(b"\n")):
        return split_lines(new[len(old) :])  # what we write grows at its end: nothing more to compare
    before = set(split_lines(old))
    return [line for line in split_lines(new) if line not in before]


def _grouped(items: Iterable[tuple[str, bytes]]) -> Iterable[tuple[str, list[bytes]]]:
    groups: dict[str, list[bytes]] = {}
    for anchor, line in items:
        groups.setdefault(anchor, []).append(line)
    return groups.items()
