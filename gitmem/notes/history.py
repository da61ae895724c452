"""What others did to a notes ref: former tips it left behind, lines that were taken out of it.

A commit with the trailer `Mem-Complete: 1` holds every line of its whole history, so a walk ends
there; usually the tip has it, and the walk is over before it began.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from ..core import record
from ..core.errors import GitFailed
from ..git import config, gc_roots, ref_files, reflock
from ..git.gitcmd import Git
from ..git.object_reader import TooLarge
from . import notetree, ref_repair

Lines = list[tuple[str, bytes]]  # [(key of a note, line)]

_LOOKS = 3  # at a ref that others delete and put back while we look
COMPLETE = b"Mem-Complete: 1"
_OBJECTS = "rev-list --objects --no-object-names --ignore-missing --missing=allow-any --stdin"
MOVED = "git mem"  # begins the reflog message of a ref we moved by `update-ref`


class Commit:
    """What we need of a notes commit. `time`: of its committer, as records hold times, or ""."""

    def __init__(self, id: str, content: bytes) -> None:
        head, _, message = content.partition(b"\n\n")
        self.id = id
        self.tree = ""
        self.parents: list[str] = []
        self.time = ""
        for row in head.split(b"\n"):
            if row.startswith(b"tree "):
                self.tree = row[5:].decode()
            elif row.startswith(b"parent "):
                self.parents.append(row[7:].decode())
            elif row.startswith(b"committer ") and (seconds := row.split(b" ")[-2]).isdigit():
                self.time = record.stored(int(seconds))
        self.complete = COMPLETE in message.split(b"\n")


class History:
    def __init__(self, git: Git, ref: str, hex_len: int) -> None:
        self.git = git
        self.ref = ref
        self.hex_len = hex_len
        self.mended = ""  # the tip that a reader here put the ref back to
        self._seen: dict[str, Commit] = {}  # by id: one call walks the same commits several times
        self._compared: tuple[set[tuple[str, str]], Lines] = (set(), [])  # the last pairs, lines

    def commit(self, name: str) -> Commit | None:
        """The commit a name stands for, None where it is not here."""
        if name in self._seen:
            return self._seen[name]
        # A hook takes in no commit of any length either.
        found = self.git.objects.get(name, self.git.largest if self.git.until is not None else 0)
        if not found or found[1] != "commit" or isinstance(found[2], TooLarge):
            return None
        self._seen[found[0]] = commit = Commit(found[0], found[2])
        return commit

    def here(self, id: str) -> bool:
        """Whether a commit is here now, whatever was read before. Of one in a pack git is asked
        once, until `Git.present` is emptied.
        """
        if self.git.has_commit(id):
            return True
        self._seen.pop(id, None)
        if not self.commit(id):
            return False
        self.git.present.add(id)
        return True

    def tip(self, more: Iterable[str] = ()) -> Commit | None:
        """The commit the ref points to, None where there is no ref. One that is gone or cannot be
        read is put back first (`ref_repair`; `more`: former tips that others remember). Raises
        GitFailed where that cannot be done: it does not mean "no memories".
        """
        name = self.ref + "^{commit}"
        for _ in range(_LOOKS):
            found = self.commit(name)
            if found:
                return found
            if not self._exists() and not ref_repair.former(self.git, self.ref, more, tables=False):
                return None
            mended = ref_repair.mend(self.git, self.ref, more=more)
            # Another process may have been faster, or nothing can be written: it is read anyway.
            found = self.commit(name) or self.commit(mended or "")
            if found:
                self.mended = found.id if mended else self.mended
                return found
        if self._exists():
            raise GitFailed(
                f"cannot read '{self.ref}': the commit it names is not here",
                hint=(
                    "`git mem doctor --repair` takes it back to its last whole state and writes"
                    " again what came after"
                ),
            )
        return None

    def backed_up(self) -> str:
        """The commit that the ref's backup holds, "" for none that is here."""
        found = self.commit(config.backup_of(self.ref) + "^{commit}")
        return found.id if found else ""

    def _exists(self) -> bool:
        """Whether there is such a ref, mostly without a git process: every search asks."""
        if gc_roots.in_tables(self.git):
            return bool(self.git.resolve(self.ref))
        common = self.git.common_dir
        try:
            id = ref_files.ref_of(common, self.ref, ref_files.Packed(common), self.hex_len)
        except ref_files.Unsure:
            return False
        except OSError:
            return True
        return bool(id.strip("0"))

    def contains(self, commit: Commit, other: Commit) -> bool:
        """Whether `other` is an ancestor of `commit`, or the same."""
        if commit.id == other.id or other.id in commit.parents:
            return True
        return self.git.is_ancestor(other.id, commit.id)

    def all_lost(self, tip: Commit, known: Iterable[str] = (), deep: bool = False) -> Lines:
        """`lost` of a tip and of the former tips that a blind ref update left behind."""
        strays = self.strays(tip.id, deep)
        pairs = [(stray.tree, tip.tree) for stray in strays]
        return self.lost([tip, *strays], pairs, known, deep)[0]

    def lost(
        self,
        heads: Iterable[Commit],
        pairs: Iterable[tuple[str, str]] = (),
        known: Iterable[str] = (),
        deep: bool = False,
    ) -> tuple[Lines, bool]:
        """(the lines that a foreign commit in the history of `heads` took out, whether all of that
        history could be read), back to commits in `known` or with our mark. `pairs`: (former tree,
        present tree) that count too.
        """
        wanted = set(pairs)
        queue, seen = list(heads), set(known)
        whole = True
        while queue:
            commit = queue.pop()
            if commit.id in seen or (commit.complete and not deep):
                continue
            seen.add(commit.id)
            for parent in map(self.commit, commit.parents):
                if parent is None:
                    whole = False
                    continue
                wanted.add((parent.tree, commit.tree))
                queue.append(parent)
        if wanted == self._compared[0]:
            return self._compared[1], whole
        gone, readable = notetree.all_gone(self.git, sorted(wanted))
        if readable:
            self._compared = wanted, gone
        return gone, whole and readable

    def holds(self, head: str, known: Iterable[str], doom: Callable[[bytes], bool]) -> bool:
        """Whether a note of `head` or its history has a doomed line, whatever its trailers say;
        what commits in `known` lead to is not read.
        """
        stdin = "".join([f"{head}\n", *(f"^{id}\n" for id in known if id)]).encode()
        listed = self.git.run(*_OBJECTS.split(), stdin=stdin, ok=(0, 128)).decode().split()
        seen: set[bytes] = set()  # one line stands in every later state of its note
        for found in self.git.objects.get_many(listed, self.git.largest):
            if found and found[1] == "blob":
                lines = [line for line in notetree.split_lines(found[2]) if line not in seen]
                if any(map(doom, lines)):
                    return True
                seen.update(lines)
        return False

    def own_entry(self) -> str | None:
        """The newest commit that a write here, which had looked, moved the ref to; "" where others
        made every move, None where no reflog is kept.
        """
        none = None
        for entry, ours in self._reflog():
            if ours:
                return entry
            none = ""
        return none

    def former(self, tip: str, deep: bool = False) -> set[str]:
        """Ids that the ref held before `tip`, by the reflog, and that no write has looked at. A
        write looks before it moves the ref, so only entries since our last one count: usually none.
        """
        # Others may have moved the ref away from its backup, where no reflog tells.
        former = {self.backed_up()}
        for entry, ours in self._reflog():
            commit = self.commit(entry)
            former.add(entry)
            if ours and commit and commit.complete and not deep:
                break
        return former - {tip, ""}

    def strays(self, tip: str, deep: bool = False) -> list[Commit]:
        """Those of `former` that are here and no ancestors of `tip`, but what `rescue` reads."""
        if former := self.former(tip, deep):
            former -= ref_repair.left(self.git, self.ref)
        if not former:
            return []
        stdin = "".join([*(f"{id}\n" for id in sorted(former)), f"^{tip}\n"]).encode()
        out = self.git.run("rev-list", "--ignore-missing", "--stdin", stdin=stdin)
        left = former.intersection(out.decode().split())
        return [c for c in map(self.commit, sorted(left)) if c]

    def _reflog(self) -> Iterator[tuple[str, bool]]:
        """(former tip, whether a write here made it), newest first, at last what the ref held
        before its oldest entry; nothing without a reflog.
        """
        if gc_roots.in_tables(self.git):
            yield from self._reflog_in_tables()
            return
        path, before = os.path.join(self.git.common_dir, "logs", self.ref), ""
        for before, new, why in ref_files.log_rows(path):  # noqa: B007
            if new.strip("0"):
                yield new, why == "fast-import" or why.startswith(MOVED)
        if before.strip("0"):
            yield before, False

    def _reflog_in_tables(self) -> Iterator[tuple[str, bool]]:
        count = 0
        try:
            for row in self.git.stream("log", "-g", "-z", "--format=%H %gs", self.ref, "--"):
                id, _, why = row.decode("utf-8", "replace").partition(" ")
                count += 1
                yield id, why == "fast-import" or why.startswith(MOVED)
        except GitFailed as e:
            if e.status != 128:  # else there is no such ref
                raise
        if count and (before := self.git.resolve(f"{self.ref}@{{{count}}}")):
            yield before, False

    def logged(self, commit: str) -> bool:
        """Whether the reflog's last entry names a commit. git writes it before it moves the ref;
        where the move then fails, the commit is a stray.
        """
        return next((entry for entry, _ in self._reflog()), "") == commit

    def drop_reflog(self) -> None:
        words = ["reflog", "expire", "--expire=all", "--expire-unreachable=all", self.ref]
        reflock.patiently(self.git, self.ref, lambda: reflock.run(self.git, self.ref, words))
