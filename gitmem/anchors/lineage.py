"""How the commits of a repository hang together, kept in the cache.

A commit's parents never change, so git is asked once for each commit; from then
on a walk over 100,000 of them is a loop over numbers: 10 ms where git needs 100,
and as much again for reading what it writes.

The commits stand in one order, parents before children, as they came to be
known; a number says where (`place`). Promise: git decides. Where something else
decides about parents, too (`git replace`), nothing is kept; where history ends
elsewhere than before (a shallow clone that was deepened, grafts), it is read anew.
"""

from __future__ import annotations

import json
import os
from array import array
from heapq import heapify, heappop, heappush
from weakref import WeakKeyDictionary

from ..core.digest import sha256
from ..core.errors import GitFailed
from ..engine.cache import Cache
from ..git.repository import Repo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_PART = 4_096  # commits of one row of the table: what a new commit writes anew
NEW = 500  # commits that are worth a write
_TIPS = 500  # commits that git is told we know, with all below them
_PATIENCE = 0.5  # seconds to wait for another process that writes the cache


class Lineage:
    """The commits known, and their parents by place.

    `first`: of the first one, -1 for none; `more`: of the others, where there are any.
    """

    def __init__(self, repo: Repo, cache: Cache) -> None:
        self.repo = repo
        self._size = repo.hex_len // 2
        self._commits: list[str] = []
        self.first = array("i")
        self.more: dict[int, list[int]] = {}
        self._place: dict[str, int] = {}
        self._tips: list[str] = []
        self._stamp = _stamp(repo)
        self._kept = 0
        self._partial = False  # whether it begins somewhere in a history
        if self._stamp and cache.meta("lineage") == self._stamp:
            self._read(cache)

    def _read(self, cache: Cache) -> None:
        for ids, first, more in cache.db.execute(
            "SELECT ids, first, more FROM lineage ORDER BY part"
        ):
            self._commits += ids.hex(" ", self._size).split(" ") if ids else []
            self.first.frombytes(first)
            pairs = array("i")
            pairs.frombytes(more)
            for place, parent in zip(pairs[::2], pairs[1::2], strict=True):
                self.more.setdefault(place, []).append(parent)
        self._place = dict(zip(self._commits, range(len(self._commits)), strict=True))
        self._kept = len(self.first)
        self._tips = cache.meta("lineage:tips").split()

    def __contains__(self, commit: str) -> bool:
        return commit in self._place

    def place(self, commit: str) -> int:
        """Raises KeyError."""
        return self._place[commit]

    def commit(self, place: int) -> str:
        return self._commits[place]

    def commits(self, places: Iterable[int]) -> list[str]:
        commits = self._commits
        return [commits[n] for n in places]

    def parents(self, place: int) -> list[int]:
        first = self.first[place]
        return [first, *self.more.get(place, ())] if first >= 0 else []

    def below(self, commit: str) -> bytearray:
        """For each place whether this commit contains that one."""
        end = self.place(commit)
        out = bytearray(len(self.first))
        out[end] = 1
        first, more = self.first, self.more
        for n in range(end, -1, -1):
            if out[n]:
                if first[n] >= 0:
                    out[first[n]] = 1
                if n in more:
                    for p in more[n]:
                        out[p] = 1
        return out

    def apart(self, one: str, other: str, most: int = 0) -> tuple[list[int], list[int]]:
        """(places of the commits that only the one contains, those that only the other does),
        children before parents. Costs what lies between.

        `most`: how many are enough, 0 for all.
        """
        first, more = self.first, self.more
        marks = bytearray(len(first))  # 1: the one contains it, 2: the other, 3: both
        a, b = self.place(one), self.place(other)
        marks[a] |= 1
        marks[b] |= 2
        found: tuple[list[int], list[int]] = ([], [])
        open_ = (
            2 if a != b else 0
        )  # places that only one of them is known to contain, and that were not reached yet
        n = max(a, b)
        while open_ and not 0 < most <= len(found[0]) + len(found[1]):
            if mark := marks[n]:
                if mark < 3:
                    open_ -= 1
                    found[mark - 1].append(n)
                for p in (first[n], *more[n]) if n in more else (first[n],):
                    if p >= 0 and (was := marks[p]) | mark != was:
                        marks[p] = was | mark
                        if not was:
                            open_ += mark < 3
                        else:
                            open_ -= 1
            n -= 1
        return found

    def only(self, names: Iterable[str], without: Iterable[str]) -> list[int]:
        """Places of the commits that some of these contain, and none of those, children before
        parents. Costs what lies between.
        """
        first, more = self.first, self.more
        marks = bytearray(len(first))  # 1: one of these contains it, 2: one of those does
        for commit in without:
            marks[self.place(commit)] = 2
        begin = {n for n in map(self.place, names) if not marks[n]}
        for n in begin:
            marks[n] = 1
        found = []
        open_ = len(begin)  # places marked with 1 that were not reached yet
        n = len(first) - 1
        while open_:
            if mark := marks[n]:
                if mark == 1:
                    open_ -= 1
                    found.append(n)
                for p in (first[n], *more[n]) if n in more else (first[n],):
                    if p >= 0 and marks[p] < mark:
                        open_ += 1 if mark == 1 else -marks[p]
                        marks[p] = mark
            n -= 1
        return found

    def knots(self, places: Collection[int]) -> list[int]:
        """The commits that some parents of these contain and others do not; `places`: what lies
        between two commits.

        Where all begin at one commit there is none: a branch that was merged began earlier than the
        others."""
        inside, first, more = {-1, *places}, self.first, self.more
        began = sorted(
            {first[n] for n in places}.union(*(more[n] for n in places if n in more)) - inside
        )
        full = (1 << len(began)) - 1
        marks = {p: 1 << i for i, p in enumerate(began)}
        found = []
        open_ = [-p for p in began] if len(began) > 1 else []  # a heap of places, the highest first
        left = len(open_)  # those of them that not all contain
        heapify(open_)
        while left:
            n = -heappop(open_)
            mark = marks[n]
            if mark != full:
                left -= 1
                found.append(n)
            for p in self.parents(n):
                was = marks.get(p, 0)
                if was | mark != was:
                    marks[p] = was | mark
                    if not was:
                        heappush(open_, -p)
                        left += mark != full
                    elif was | mark == full:
                        left -= 1
        return found

    def forks(self, places: Sequence[int]) -> dict[int, frozenset[int]]:
        """{place: where its history leaves these}; `places`: what only one of two commits contains,
        children before parents.
        """
        first, more = self.first, self.more
        out: dict[int, frozenset[int]] = {}
        for n in reversed(places):
            p = first[n]
            if n in more:
                out[n] = frozenset().union(*(out.get(q, (q,)) for q in (p, *more[n])))
            else:
                out[n] = out[p] if p in out else frozenset([p] if p >= 0 else ())
        return out

    def above(self, commit: str, tips: Iterable[str]) -> list[str]:
        """The commits of these tips, themselves among them, that contain this one."""
        first, more = self.first, self.more
        begin = self.place(commit)
        inside = bytearray(len(first))
        for tip in tips:
            inside[self.place(tip)] = 1
        found = []
        for n in range(len(first) - 1, begin, -1):
            if inside[n]:
                found.append(n)
                for p in (first[n], *more[n]) if n in more else (first[n],):
                    if p >= 0:
                        inside[p] = 1
        return self.commits(self.over(commit, found))

    def over(self, commit: str, places: Sequence[int]) -> list[int]:
        """Those of these places that contain a commit; with each stand those between both, children
        before parents.
        """
        first, more = self.first, self.more
        holds = bytearray(len(first) + 1)  # one more for what has no parent
        holds[self.place(commit)] = 1
        found = []
        for n in reversed(places):
            if holds[first[n]] or (n in more and any(holds[p] for p in more[n])):
                holds[n] = 1
                found.append(n)
        return found

    def cover(
        self,
        cache: Cache,
        revisions: Collection[str],
        seconds: float | None = None,
        above: Sequence[str] = (),
        also: Iterable[str] = (),
    ) -> bool:
        """Sees to it that these commits, and all below them, are known; False where time ran out.
        Raises GitFailed where one is not here.

        `also`: others that will be asked about, as far as they are here; they alone are no reason
        to ask git, but where no revision is given. `above`: nothing below the parents of these will
        be asked; only where nothing is kept that part is left out."""
        wanted = [c for c in dict.fromkeys(revisions) if c not in self]
        if not wanted and revisions:
            return True
        tips = [*wanted, *(c for c in also if c not in self)]
        if not tips:
            return True
        cut = list(above) if not self.first else []
        stdin = "".join(
            [
                *(f"{c}\n" for c in tips),
                *(f"^{c}\n" for c in self._tips),
                *(f"^{c}^@\n" for c in cut),
            ]
        ).encode()
        asked = (
            "rev-list",
            "--topo-order",
            "--reverse",
            "--parents",
            "--ignore-missing",
            "--stdin",
        )
        try:
            out, whole = (
                self.repo.git.limited(seconds, *asked, stdin=stdin)
                if seconds is not None
                else (self.repo.git.run(*asked, stdin=stdin), True)
            )
        except GitFailed:
            if len(tips) == len(wanted):
                raise
            return self.cover(
                cache, wanted, seconds, above
            )  # a branch that lacks a part of its history stops no other
        if not whole:
            return False
        self._partial = self._partial or bool(cut)
        self._take(out.decode())
        if missing := [c for c in wanted if c not in self]:
            raise GitFailed(f"no commit {missing[0]} here")
        self._save(cache, [c for c in tips if c in self])
        return True

    def _take(self, text: str) -> None:
        place, first = self._place, self.first
        for row in text.splitlines():
            commit, *parents = row.split(" ")
            if commit not in place:
                above = [n for p in parents if (n := place.get(p)) is not None]
                n = place[commit] = len(first)
                self._commits.append(commit)
                first.append(above[0] if above else -1)
                if len(parents) > 1:
                    # a merge stays one where a part of history is left out, and its parents with it
                    self.more[n] = above[1:]

    def _save(self, cache: Cache, tips: Sequence[str]) -> None:
        """Writes what is new, where it is much; a few hundred commits are asked for again as fast.

        Where that is not possible it stays for this process only.
        """
        self._tips = list(dict.fromkeys([*tips, *self._tips]))[:_TIPS]
        if self._partial or not self._stamp or len(self.first) - self._kept < NEW:
            return

        written = False

        def write(_: object) -> None:
            nonlocal written
            db = cache.db
            if cache.meta("lineage") != self._stamp:
                db.execute("DELETE FROM lineage")
                self._kept = 0
            elif int(cache.meta("lineage:commits", "0")) != self._kept:
                return  # another process was there first: what it has is as good
            for part in range(self._kept // _PART, len(self.first) // _PART + 1):
                begin, end = part * _PART, min((part + 1) * _PART, len(self.first))
                more = array(
                    "i",
                    [
                        n
                        for place, found in self.more.items()
                        if begin <= place < end
                        for p in found
                        for n in (place, p)
                    ],
                )
                db.execute(
                    "INSERT OR REPLACE INTO lineage VALUES(?, ?, ?, ?)",
                    (
                        part,
                        bytes.fromhex("".join(self._commits[begin:end])),
                        self.first[begin:end].tobytes(),
                        more.tobytes(),
                    ),
                )
            cache.set_meta("lineage", self._stamp)
            cache.set_meta("lineage:commits", str(len(self.first)))
            cache.set_meta("lineage:tips", " ".join(self._tips))
            written = True

        if cache.keep(_PATIENCE, write) and written:
            self._kept = len(self.first)


_open: WeakKeyDictionary[Cache, Lineage] = WeakKeyDictionary()


def of(repo: Repo, cache: Cache) -> Lineage:
    """What is known, read once for an open cache."""
    found = _open.get(cache)
    if found is None or found._stamp != _stamp(repo) or not found._stamp or found._partial:
        found = _open[cache] = Lineage(repo, cache)
    return found


def ahead(cache: Cache, tips: Iterable[str], seconds: float) -> None:
    """Where this process has read what is known: takes in the commits of branches, too, before HEAD
    goes there.
    """
    found = _open.get(cache)
    if found is not None and found.first and not found._partial:
        found.cover(cache, (), seconds, also=tips)


def _may_replace(common_dir: str) -> bool:
    """Whether refs may replace commits: git need not be asked of a repository whose files name
    none.
    """
    try:
        if os.path.isdir(os.path.join(common_dir, "reftable")) or os.listdir(
            os.path.join(common_dir, "refs", "replace")
        ):
            return True
    except FileNotFoundError:
        pass  # as in most repositories
    except OSError:
        return True
    try:
        with open(os.path.join(common_dir, "packed-refs"), "rb") as f:
            return b" refs/replace/" in f.read()
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _stamp(repo: Repo) -> str:
    """What decides where histories end; "" where commits are replaced by others."""
    if _may_replace(repo.common_dir) and repo.git.text(
        "for-each-ref", "--count=1", "refs/replace", ok=(0, 128)
    ):
        return ""
    said = []
    for name in ("shallow", "info/grafts"):
        try:
            with open(os.path.join(repo.common_dir, *name.split("/")), "rb") as f:
                said.append(f.read())
        except OSError:
            said.append(b"")
    return sha256(json.dumps([s.hex() for s in said]).encode()).hexdigest()
