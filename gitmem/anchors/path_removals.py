"""Where paths went: which commits of a history removed them, and what they renamed them to.

A path is followed forwards until a commit removes it; there it goes where `git diff-tree -M` says,
a directory where more than half of its renamed files went. A merge removes what one of its parents
had and it has not; its renames count only where nothing else leads on.

Promise: git looks at a commit once in the life of a cache, and for at most `seconds`; the next call
goes on where time ran out (`Incomplete`).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Sequence
from typing import Any

from ..engine.cache import Cache
from ..git.repository import Repo
from .reachability import set_bits

Key = tuple[str, str]  # a commit, and a path as it was called there
Names = dict[str, int]  # {a name at a commit: the keys whose path it is, a bit for each}

UNREADABLE = "git cannot read a part of the history"
# Rename detection compares each removed file with each added one. With more than so many on both
# sides only files with the same content are found: a mass rename must not take minutes.
_RENAME_LIMIT = 400
_DIFF_TREE = f"diff-tree --stdin -r -t -m -M -l{_RENAME_LIMIT} --diff-filter=DR --name-status -z"
_PORTION = 250  # commits of one process, some 0.1 s
_PATIENCE = 0.5  # seconds to wait for another process that writes the cache


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
        self._unsaved: dict[tuple[str, str], str] = {}
        self._renames: dict[str, dict[str, str]] = {}

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

        All keys are followed in one walk: bit i of a number stands for key i. Asked for `a` at one
        commit (bit 0) and `b` at a later one (bit 1), where `a` was renamed to `b` and then `b` to
        `c`, `alive` has {"b": 0b11} between the two renames and {"c": 0b11} in the end.
        """
        keys = list(dict.fromkeys(wanted))
        first = min((self.place[commit] for commit, _ in keys), default=len(self.commits))
        self._learn(self.commits[first + 1 :])
        went = self._went({path for _, path in keys})
        removed = {path for paths in went.values() for path in paths}
        begin: dict[int, Names] = {}
        for i, (commit, path) in enumerate(keys):
            if path in removed:
                begin.setdefault(self.place[commit], {})[path] = 1 << i
        alive: list[Names] = [{}] * len(self.commits)
        for at in range(first, len(self.commits)):
            above = [alive[parent] for parent in self._parents[at]] or [{}]
            alive[at] = above[0]
            if at in went or at in begin or any(names is not above[0] for names in above):
                alive[at] = _following(above, went.get(at, {}))
                _add(alive[at], begin.get(at, {}))
        out = {key: [key[1]] if key[1] not in removed else [] for key in keys}
        for name, bits in alive[-1].items():
            for i in set_bits(bits):
                out[keys[i]].append(name)
        return {k: sorted(names, key=lambda n: (n != k[1], n)) for k, names in out.items()}

    def _went(self, names: set[str]) -> dict[int, dict[str, str]]:
        """{place of a commit: {name that it removed: the new one, or ""}}, of these names and of
        all that they were given.
        """
        out: dict[int, dict[str, str]] = {}
        known, new = set(names), names
        while new:
            given: set[str] = set()
            for name, places in self._removals(new).items():
                for at in places:
                    now = self._target(self.commits[at], name)
                    out.setdefault(at, {})[name] = now
                    given.add(now)
            new = given - known - {""}
            known |= new
        return out

    def _removals(self, names: set[str]) -> dict[str, list[int]]:
        """{name: places of the commits of this history that removed it}."""
        sql = "SELECT path, lower(hex(commit_id)) FROM path_removal WHERE path IN {}"
        found = set(self.cache.among(sql, names))
        out: dict[str, list[int]] = {}
        for path, commit in found.union(key for key in self._unsaved if key[0] in names):
            if commit in self.place:
                out.setdefault(path, []).append(self.place[commit])
        return out

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
        try:
            for at in range(0, len(missing), _PORTION):
                part = missing[at : at + _PORTION]
                if time.monotonic() >= self.end:
                    raise Incomplete
                stdin = "".join(f"{c}\n" for c in part).encode()
                out = self._asked(*_DIFF_TREE.split(), stdin=stdin)
                self._unsaved.update(_parse(out, set(part)))
                self._unsaved.update({("", c): "" for c in part})
        finally:
            self._save()

    def _save(self) -> None:
        """Writes what git said; else it stays for this call."""
        rows = [(p, bytes.fromhex(commit), now) for (p, commit), now in self._unsaved.items()]

        def write(db: Any) -> None:
            db.executemany("INSERT OR REPLACE INTO path_removal VALUES(?, ?, ?)", rows)

        if rows and self.cache.keep(_PATIENCE, write):
            self._unsaved.clear()


def _add(names: Names, more: Names) -> None:
    for name, bits in more.items():
        names[name] = names.get(name, 0) | bits


def _following(above: list[Names], went: dict[str, str]) -> Names:
    here: Names = {}
    for names in above:
        _add(here, names)
    lost = {name: here.pop(name) for name in here.keys() & went.keys()}
    kept = functools.reduce(int.__or__, here.values(), 0) if len(above) > 1 else 0
    for name, bits in lost.items():
        if went[name]:
            _add(here, {went[name]: bits & ~kept})
    return here


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
