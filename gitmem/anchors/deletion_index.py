"""What the commits of a history removed and renamed, as git says, kept in the cache.

Promise: git looks at a commit once in the life of a cache, at many commits in
few processes, and for at most `seconds`; the next call goes on where time ran
out (`Open`). Of a merge all counts that one of its parents still had.
"""

from __future__ import annotations

import json
import time

from ..core.errors import GitFailed
from ..engine.cache import Cache
from ..git.repository import Repo
from . import lineage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from typing import Any

# seconds for one commit: rename detection is quadratic up to git's own limit (diff.renameLimit)
LIMIT = 20.0
_FIRST, _MOST = 64, 4_000  # commits of one process: few at first, more while they are quick
_QUICK = 0.2  # seconds of a process below which the next one gets twice as many
_SCAN = 50_000  # commits asked about from which all that are known are read
_PATIENCE = 0.5  # seconds to wait for another process that writes the cache
_TOO_LARGE = "?"


class Open(Exception):
    """Not all that is needed could be looked at in time."""


class History:
    """The commits of a revision, and what they removed.

    Its commits are named by their places in `line`, parents before children.
    """

    def __init__(self, repo: Repo, cache: Cache, revision: str, seconds: float) -> None:
        self.repo = repo
        self.cache = cache
        self.revision = revision
        self.end = time.monotonic() + seconds
        self._asked: Sequence[str] = ()
        self._line: lineage.Lineage | None = None
        self._inside = bytearray()
        self._removed: dict[str, list[str]] = {}
        self._pairs: dict[str, dict[str, str]] = {}
        self.too_large: set[str] = (
            set()
        )  # commits of which git could not say in time what they renamed

    def left(self) -> float:
        return self.end - time.monotonic()

    def only_for(self, commits: Sequence[str]) -> None:
        """Nothing will be asked of commits below these: where no history is kept the walk ends
        there. To be called before any other question.
        """
        if self._line is None:
            self._asked = commits

    @property
    def line(self) -> lineage.Lineage:
        """How all commits hang together, those of the revision among them.

        Raises Open where time runs out.
        """
        if self._line is None:
            line = lineage.of(self.repo, self.cache)
            try:
                # The oldest mostly has the others above it.
                oldest = (
                    self.repo.git.run(
                        "rev-list",
                        "--no-walk=sorted",
                        "--stdin",
                        stdin="".join(f"{c}\n" for c in self._asked).encode(),
                    )
                    .decode()
                    .split()[-1:]
                    if self._asked and not line.first
                    else []
                )
                whole = line.cover(self.cache, [self.revision], max(self.left(), 0.05), oldest)
                if whole and any(c not in line for c in self._asked):
                    line = lineage.Lineage(self.repo, self.cache)
                    whole = line.cover(self.cache, [self.revision], max(self.left(), 0.05))
            except GitFailed as e:
                raise Open from e
            if not whole:
                raise Open
            self._inside = line.below(self.revision)
            self._line = line
        return self._line

    @property
    def last(self) -> int:
        """The place of the revision itself: none of its commits has a higher one."""
        return self.line.place(self.revision)

    # What commits removed

    def scan(self, since: Iterable[str]) -> None:
        """Sees to it that the removals of all descendants of these commits ("" means: of all
        commits) are known. Raises Open where time runs out.
        """
        line, roots = self.line, set(since)
        needed = [n for n, inside in enumerate(self._inside) if inside]
        if "" not in roots:
            marked = bytearray(self.last + 1)
            for c in roots:
                marked[line.place(c)] = 1
            below = []
            for n in needed:
                if any(marked[p] for p in line.parents(n)):
                    marked[n] = 1
                    below.append(n)
            needed = below
        self.learn(line.commits(needed))

    def learn(self, commits: Sequence[str]) -> None:
        """Sees to it that the removals of these commits are known, the last ones first.

        Raises Open where time runs out.
        """
        known = self._scanned(commits)
        missing = [c for c in reversed(commits) if c not in known]
        found: list[tuple[str, str]] = []
        at, size = 0, _FIRST
        try:
            while at < len(missing):
                part = missing[at : at + size]
                left = self.left()
                begun = time.monotonic()
                out, whole = (
                    self.repo.git.limited(
                        left,
                        "diff-tree",
                        "--stdin",
                        "-r",
                        "-t",
                        "-m",
                        "--no-renames",
                        "--diff-filter=D",
                        "--name-only",
                        "-z",
                        stdin="".join(f"{c}\n" for c in part).encode(),
                    )
                    if left > 0
                    else (b"", False)
                )
                if not whole:
                    raise Open
                found += _names(out, set(part))
                found += [("", c) for c in part]
                at += len(part)
                size = (
                    min(_MOST, size * 2)
                    if time.monotonic() - begun < _QUICK
                    else max(_FIRST, size // 2)
                )
        finally:
            self._keep("removal", found)

    def _scanned(self, commits: Sequence[str]) -> set[str]:
        sql = "SELECT commit_id FROM removal WHERE path = ''"
        out = set(self._removed.get("", ()))
        for part in parts(commits) if len(commits) < _SCAN else ([],):
            out.update(
                c.hex()
                for (c,) in self.cache.db.execute(
                    sql + (f" AND commit_id IN ({','.join('?' * len(part))})" if part else ""), part
                )
            )
        return out

    def _keep(self, table: str, rows: Sequence[tuple[str, ...]]) -> None:
        """Writes what was found; where that is not possible it stays for this call only."""
        if table == "removal":
            for path, commit in rows:
                self._removed.setdefault(path, []).append(commit)
            made: list[tuple[object, ...]] = [
                (path, bytes.fromhex(commit)) for path, commit in rows
            ]
        else:
            made = [(bytes.fromhex(commit), old, new) for commit, old, new in rows]
        if not made:
            return
        looked = sum(not row[0] for row in rows) if table == "removal" else 0

        def write(db: Any) -> None:
            db.executemany(
                f"INSERT OR REPLACE INTO {table} VALUES({', '.join('?' * len(made[0]))})", made
            )
            if looked:
                self.cache.set_meta("looked", str(looked_at(self.cache) + looked))

        self.cache.keep(_PATIENCE, write)

    def removals(self, paths: Iterable[str]) -> dict[str, list[int]]:
        """{path: places of the commits of this history that removed it, in their order}."""
        names = sorted(set(paths))
        out: dict[str, set[str]] = {p: set(self._removed.get(p, ())) for p in names}
        for path, commit in self.cache.db.execute(
            "SELECT path, commit_id FROM removal WHERE path IN (SELECT value FROM json_each(?))",
            (json.dumps(names),),
        ):
            out[path].add(commit.hex())
        line, inside, last = (
            self.line,
            self._inside,
            self.last,
        )  # what came to be known since has higher places
        return {
            p: sorted(n for c in found if c in line and (n := line.place(c)) <= last and inside[n])
            for p, found in out.items()
        }

    # What they renamed

    def renamed(self, commits: Iterable[str]) -> None:
        """Sees to it that the renames of these commits are known.

        Raises Open where time runs out.
        """
        missing = [c for c in dict.fromkeys(commits) if c not in self._pairs]
        for commit, old, new in self._stored(missing):
            self._take(commit, old, new)
        missing = [c for c in missing if c not in self._pairs]
        at, size = 0, 8
        while at < len(missing):
            part = missing[at : at + size]
            left = self.left()
            if left <= 0:
                raise Open
            begun = time.monotonic()
            out, whole = self.repo.git.limited(
                min(left, LIMIT) if len(part) == 1 else left,
                *_RENAMES,
                "-m",
                stdin="".join(f"{c}\n" for c in part).encode(),
            )
            took = time.monotonic() - begun
            if not whole and len(part) > 1 and self.left() > 0:
                size = 1  # one of them lacks a file, or takes too long
                continue
            if not whole and took < LIMIT and self.left() <= 0:
                raise Open
            rows = [(c, "", "" if whole else _TOO_LARGE) for c in part]
            rows += [
                (c, old, new)
                for c, pairs in (_renames(out, set(part)) if whole else {}).items()
                for old, new in pairs.items()
            ]
            self._keep("renamed", rows)
            for row in rows:
                self._take(*row)
            at += len(part)
            size = min(256, size * 2) if took < _QUICK else max(1, size // 2)

    def _stored(self, commits: Sequence[str]) -> list[tuple[str, str, str]]:
        out: list[tuple[str, str, str]] = []
        for part in parts(commits):
            rows = self.cache.db.execute(
                "SELECT commit_id, old, now FROM renamed WHERE commit_id IN"
                f" ({','.join('?' * len(part))})",
                part,
            )
            out += [(c.hex(), old, new) for c, old, new in rows]
        return out

    def _take(self, commit: str, old: str, new: str) -> None:
        if old:
            self._pairs.setdefault(commit, {})[old] = new
        elif new == _TOO_LARGE:
            self.too_large.add(commit)
            self._pairs[commit] = {}
        else:
            self._pairs.setdefault(commit, {})

    def target(self, commit: str, path: str) -> str:
        """What a commit renamed a path to, "" for nothing.

        A directory went where most of its renamed files went. Raises Open where git could not say.
        """
        pairs = self._pairs.get(commit)
        if pairs is None or commit in self.too_large:
            raise Open
        return pairs.get(path) or directory(pairs, path)


_RENAMES = ("diff-tree", "--stdin", "-r", "-M", "--diff-filter=R", "--name-status", "-z")


def directory(pairs: dict[str, str], path: str) -> str:
    """Where a directory went: to the place of more than half of its files that were renamed; ""
    where there is none.
    """
    votes: dict[str, int] = {}
    inside = path + "/"
    total = 0
    for old, new in pairs.items():
        if old.startswith(inside):
            total += 1
            rest = old[len(path) :]
            if new.endswith(rest) and len(new) > len(rest):
                votes[new[: -len(rest)]] = votes.get(new[: -len(rest)], 0) + 1
    best = min(votes, key=lambda p: (-votes[p], p), default="")
    return best if best and votes[best] * 2 > total else ""


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")  # as a record has it, which holds no other bytes


def _names(out: bytes, commits: set[str]) -> list[tuple[str, str]]:
    """[(path, commit)] of `diff-tree --stdin --name-only -z`: a commit's id, for each parent, then
    what it removed.
    """
    found: dict[tuple[str, str], None] = {}
    commit = ""
    for token in out.split(b"\0"):
        name = _text(token)
        if name in commits:
            commit = name
        elif name:
            found[name, commit] = None
    return list(found)


def _renames(out: bytes, commits: set[str]) -> dict[str, dict[str, str]]:
    """{commit: {old: new}} of `diff-tree --stdin --name-status -z`; of a merge's parents the first
    that says something about a path.
    """
    found: dict[str, dict[str, str]] = {}
    commit = ""
    tokens = iter(out.split(b"\0"))
    for token in tokens:
        word = token.decode("utf-8", "replace")
        while "\n" in word:  # the names of two trees end so, not with a NUL
            commit, _, word = word.partition("\n")
        if word in commits:
            commit = word
        elif word:
            old, new = _text(next(tokens)), _text(next(tokens))
            found.setdefault(commit, {}).setdefault(old, new)
    return found


def parts(commits: Sequence[str]) -> Iterator[list[bytes]]:
    """The ids as the tables have them, in portions for one SQL condition."""
    for i in range(0, len(commits), 500):
        yield [bytes.fromhex(c) for c in commits[i : i + 500]]


def of(cache: Cache, commits: Collection[str]) -> set[str]:
    """The names that any of these commits removed, as far as they were looked at."""
    if len(commits) < _SCAN // 10:
        out: set[str] = set()
        for part in parts(sorted(commits)):
            out.update(
                p
                for (p,) in cache.db.execute(
                    f"SELECT path FROM removal WHERE commit_id IN ({','.join('?' * len(part))}) AND"
                    " path <> ''",
                    part,
                )
            )
        return out
    return {
        path
        for path, commit in cache.db.execute("SELECT path, commit_id FROM removal WHERE path > ''")
        if commit.hex() in commits
    }


def looked_at(cache: Cache) -> int:
    """How often a commit was looked at in the life of the cache: counted as they are kept, since
    reading them all takes 5 ms. One that was forgotten counts again.
    """
    return int(cache.meta("looked", "0"))


def everywhere(cache: Cache, paths: Iterable[str]) -> dict[str, set[str]]:
    """{path: all commits known to have removed it, of whatever history}; absent where there is
    none.
    """
    out: dict[str, set[str]] = {}
    for path, commit in cache.db.execute(
        "SELECT path, commit_id FROM removal WHERE path IN (SELECT value FROM json_each(?))",
        (json.dumps(sorted(set(paths))),),
    ):
        out.setdefault(path, set()).add(commit.hex())
    return out


_PAIRS = 64  # comparisons of two commits by one process


def across(
    repo: Repo, pairs: Sequence[tuple[str, str]], seconds: float
) -> dict[tuple[str, str], dict[str, str]]:
    """{(older, newer): {old: new}}: the renames between two commits, whatever lies between; absent
    where time ran out.
    """
    end = time.monotonic() + seconds
    out: dict[tuple[str, str], dict[str, str]] = {}
    trees = repo.git.ids([f"{c}^{{tree}}" for pair in pairs for c in pair]) if pairs else []
    for i in range(0, len(pairs), _PAIRS):
        left = end - time.monotonic()
        asked = {
            f"{trees[2 * n]} {trees[2 * n + 1]}": n
            for n in range(i, min(i + _PAIRS, len(pairs)))
            if trees[2 * n] and trees[2 * n + 1]
        }
        if left <= 0 or not asked:
            break
        text, whole = repo.git.limited(
            left, *_RENAMES, stdin="".join(f"{names}\n" for names in asked).encode()
        )
        found = _renames(text, set(asked)) if whole else {}
        out.update(
            (pairs[n], found.get(f"{trees[2 * n]} {trees[2 * n + 1]}", {}))
            for n in range(i, min(i + _PAIRS, len(pairs)))
            if whole
        )
    return out
