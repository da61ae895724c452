"""Where paths went: which commits of a history removed them, and what they renamed them to.

A path is followed forwards until a commit removes it; there it goes where `git diff-tree -M` says,
a directory where more than half of its renamed files went. A merge removes what one of its parents
had and it has not; its renames count only where nothing else leads on.

Promise: git looks at a commit once in the life of a cache, and for at most `seconds`; the next call
goes on where time ran out (`Incomplete`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from ..engine.cache import Cache
from ..git.repository import Repo
from .reachability import set_bits

Key = tuple[str, str]  # a commit, and a path as it was called there
Edge = tuple[Key, int, str]  # a key, the place of a commit, and its name from there on

UNREADABLE = "git cannot read a part of the history"
# Rename detection compares each removed file with each added one. With more than so many on both
# sides only files with the same content are found: a mass rename must not take minutes.
_RENAME_LIMIT = 400
_DIFF_TREE = f"diff-tree --stdin -r -t -m -M -l{_RENAME_LIMIT} --diff-filter=DR --name-status -z"
_FIRST, _MOST = 64, 4_000  # commits of one process: few at first, more while they are quick
_QUICK = 0.2  # seconds of a process below which the next one gets twice as many
_PATIENCE = 0.5  # seconds to wait for another process that writes the cache
_HOPS = 64  # names a path may have had


class Incomplete(Exception):
    """Not all commits could be looked at; `reason`: "" where only time was lacking."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Removals:
    """A history, and what its commits removed. They are named by places: parents come first."""

    def __init__(self, repo: Repo, cache: Cache, revision: str, seconds: float) -> None:
        """Raises Incomplete."""
        self.repo = repo
        self.cache = cache
        self.end = time.monotonic() + seconds
        walk = ("rev-list", "--topo-order", "--reverse", "--parents", revision, "--")
        rows = [row.split() for row in self._asked(*walk).decode().splitlines()]
        self.commits = [row[0] for row in rows]
        self.place = {commit: i for i, commit in enumerate(self.commits)}
        self._parents = [[self.place[p] for p in row[1:] if p in self.place] for row in rows]
        self._merges = {i for i, row in enumerate(rows) if len(row) > 2}
        self._unsaved: dict[tuple[str, str], str] = {}
        self._renames: dict[str, dict[str, str]] = {}
        self._ends: dict[Key, set[str]] = {}

    def _asked(self, *words: str, stdin: bytes = b"") -> bytes:
        left = max(self.end - time.monotonic(), 0.05)
        out, whole = self.repo.git.limited(left, *words, stdin=stdin)
        if not whole:
            raise Incomplete("" if time.monotonic() >= self.end else UNREADABLE)
        return out

    def follow(self, wanted: Iterable[Key]) -> dict[Key, list[str]]:
        """{(commit of this history, path that it has): the names of that path at the revision}: its
        own name first, several where branches renamed it differently, none where it was removed.

        Raises Incomplete.
        """
        self._ends = {key: set() for key in wanted}
        start = [(key, self.place[key[0]], key[1]) for key in self._ends]
        if start:
            self._learn(self.commits[min(at for _, at, _ in start) + 1 :])
            by_merges = self._run(start, merges=False)
            lost = [edge for edge in by_merges if not self._ends[edge[0]]]
            self._run(self._renamed(lost), merges=True)
        return {
            key: sorted(names, key=lambda name: (name != key[1], name))
            for key, names in self._ends.items()
        }

    def _run(self, edges: list[Edge], merges: bool) -> list[Edge]:
        """Follows names until they end; returns those that merges removed, unless `merges`."""
        seen: set[Edge] = set()
        left: list[Edge] = []
        for _ in range(_HOPS):
            edges = [edge for edge in dict.fromkeys(edges) if edge not in seen]
            if not edges:
                break
            seen.update(edges)
            removed = self._walk(edges)
            if not merges:
                left += [edge for edge in removed if edge[1] in self._merges]
                removed = [edge for edge in removed if edge[1] not in self._merges]
            edges = self._renamed(removed)
        return left

    def _walk(self, edges: Sequence[Edge]) -> list[Edge]:
        """Follows names as long as they live: those that reach the revision are ends of their keys.
        Returns the others, each with the place of a commit that removed it. A bit for each name.
        """
        begin: dict[int, int] = {}
        kill: dict[int, int] = {}
        removals = self._removals({name for _, _, name in edges})
        mortal: list[Edge] = []
        for edge in edges:
            key, at, name = edge
            places = [place for place in removals.get(name, ()) if place > at]
            if not places:
                self._ends[key].add(name)
                continue
            bit = 1 << len(mortal)
            mortal.append(edge)
            begin[at] = begin.get(at, 0) | bit
            for place in places:
                kill[place] = kill.get(place, 0) | bit
        lives = [0] * len(self.commits)
        removed: list[Edge] = []
        for at in range(min(begin, default=len(lives)), len(lives)):
            mask = 0
            for parent in self._parents[at]:
                mask |= lives[parent]
            for i in set_bits(mask & kill.get(at, 0)):
                removed.append((mortal[i][0], at, mortal[i][2]))
            lives[at] = mask & ~kill.get(at, 0) | begin.get(at, 0)
        for i in set_bits(lives[-1]):
            self._ends[mortal[i][0]].add(mortal[i][2])
        return removed

    def _removals(self, names: set[str]) -> dict[str, list[int]]:
        """{name: places of the commits of this history that removed it}."""
        sql = "SELECT path, lower(hex(commit_id)) FROM path_removal WHERE path IN {}"
        found = set(self.cache.among(sql, names))
        out: dict[str, list[int]] = {}
        for path, commit in found.union(key for key in self._unsaved if key[0] in names):
            if commit in self.place:
                out.setdefault(path, []).append(self.place[commit])
        return out

    def _renamed(self, removed: Iterable[Edge]) -> list[Edge]:
        """The names that paths got from the commits that removed them."""
        targets = [(key, at, self._target(self.commits[at], name)) for key, at, name in removed]
        return [edge for edge in targets if edge[2]]

    def _target(self, commit: str, path: str) -> str:
        """What a commit renamed a path to, "" for nothing."""
        if commit not in self._renames:
            self._renames[commit] = {
                old: now for (old, where), now in self._unsaved.items() if where == commit and now
            }
            sql = "SELECT path, now FROM path_removal WHERE commit_id = ? AND now <> ''"
            self._renames[commit].update(self.cache.db.execute(sql, (bytes.fromhex(commit),)))
        renames = self._renames[commit]
        return renames.get(path) or directory(renames, path)

    def _learn(self, commits: Sequence[str]) -> None:
        """Asks git about the commits that it was not asked about yet, the newest first. A row with
        an empty path says that a commit was looked at.
        """
        sql = "SELECT lower(hex(commit_id)) FROM path_removal WHERE path = ''"
        known = {commit for (commit,) in self.cache.db.execute(sql)}
        known |= {commit for path, commit in self._unsaved if not path}
        missing = [c for c in reversed(commits) if c not in known]
        at, size = 0, _FIRST
        try:
            while at < len(missing):
                part = missing[at : at + size]
                begun = time.monotonic()
                if begun >= self.end:
                    raise Incomplete
                stdin = "".join(f"{c}\n" for c in part).encode()
                out = self._asked(*_DIFF_TREE.split(), stdin=stdin)
                self._unsaved.update(_parse(out, set(part)))
                self._unsaved.update({("", c): "" for c in part})
                at += len(part)
                quick = time.monotonic() - begun < _QUICK
                size = min(_MOST, size * 2) if quick else max(_FIRST, size // 2)
        finally:
            self._save()

    def _save(self) -> None:
        """Writes what git said; else it stays for this call."""
        rows = [(p, bytes.fromhex(commit), now) for (p, commit), now in self._unsaved.items()]

        def write(db: Any) -> None:
            db.executemany("INSERT OR REPLACE INTO path_removal VALUES(?, ?, ?)", rows)

        if rows and self.cache.keep(_PATIENCE, write):
            self._unsaved.clear()


def _parse(out: bytes, commits: set[str]) -> dict[tuple[str, str], str]:
    """{(path, commit): its new name or ""} of what `_DIFF_TREE` prints. Of a merge's parents the
    first with a rename counts.
    """
    found: dict[tuple[str, str], str] = {}
    commit = ""
    tokens = iter(out.split(b"\0"))
    for token in tokens:
        word = text(token)
        if word in commits:
            commit = word
        elif word:
            path = text(next(tokens))
            now = text(next(tokens)) if word.startswith("R") else ""
            found[path, commit] = found.get((path, commit)) or now
    return found


def text(name: bytes) -> str:
    """A name as records have it, which hold no other bytes than UTF-8."""
    return name.decode("utf-8", "replace")


def later_names(cache: Cache, path: str) -> set[str]:
    """This name and every one that a commit known so far gave to what had it."""
    rows = cache.db.execute(
        "WITH RECURSIVE names(name) AS (SELECT ? UNION SELECT now FROM path_removal"
        " JOIN names ON path = name WHERE now <> '') SELECT name FROM names",
        (path,),
    )
    return {name for (name,) in rows}


def directory(renames: dict[str, str], path: str) -> str:
    """Where more than half of the renamed files of a directory went; "" where there is none."""
    votes: dict[str, int] = {}
    inside = [(old[len(path) :], new) for old, new in renames.items() if old.startswith(path + "/")]
    for rest, new in inside:
        if new.endswith(rest) and len(new) > len(rest):
            place = new[: -len(rest)]
            votes[place] = votes.get(place, 0) + 1
    return next((place for place, count in votes.items() if count * 2 > len(inside)), "")
