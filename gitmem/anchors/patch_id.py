"""Patch-ids: what lets a memory find its commit again after a squash or cherry-pick.

A fresh clone lacks the branch a memory was made on, so the record itself carries the patch-id of
its commit and, on a branch, of the branch's combined change since it left the main line. Diffs have
no context: it would let neighbouring changes on the main line hide a clean squash.

Promise: the same change gives the same id whatever the user's diff settings; what cannot be
computed in time, or lacks an object, is left out. A commit is diffed once in the life of a cache. A
partial clone is never diffed: its missing files would come over the network.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..engine.cache import Cache
from ..git import commit_reader
from ..git.gitcmd import NO_FETCH, feed
from ..git.repository import Repo

LIMIT = 2.0  # seconds; a commit of a million lines is not worth the wait
MANY = 50  # commits in one import from which marks are left to a later repair
HURRY = 30.0  # seconds below which somebody waits for the answer
CHUNK = 250  # commits of one pipeline: about 0.1 s
_SAVE = 5_000  # new patch-ids after which they are written
_BRANCH = "INSERT OR IGNORE INTO branch_patch_id VALUES(?, ?, ?)"
_PATIENCE = 0.5  # seconds to wait for another process that writes the cache

_DIFF = (
    "diff-tree -p --root -U0 --no-renames --diff-algorithm=myers --no-indent-heuristic"
    " --no-textconv --no-ext-diff --no-color --full-index --src-prefix=a/ --dst-prefix=b/"
)
# A patch-id says what a commit changed when it was made: what `git replace` or a graft puts in its
# place is this clone's own, and may be gone tomorrow.
_AS_MADE = {**NO_FETCH, "GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}


def patch_ids(repo: Repo, wanted: Sequence[str], seconds: float) -> tuple[dict[str, str], int]:
    """({commit: patch-id}, how many of `wanted` were looked at) in one pipeline.

    A line of `wanted` is `COMMIT`, or `COMMIT BASE` for all that changed since
    the base; no commit may begin two lines. What was looked at and is absent
    has no patch. Fewer are looked at where time runs out or an object is missing.
    """
    from subprocess import DEVNULL, PIPE, TimeoutExpired  # what is known needs no process

    diff = [*_DIFF.split(), "--stdin"]
    first = repo.git.start(diff, _AS_MADE, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
    make = repo.git.start(["patch-id", "--stable"], stdin=first.stdout, stdout=PIPE, stderr=DEVNULL)
    assert first.stdin is not None and first.stdout is not None
    first.stdout.close()
    lines = "".join(f"{line}\n" for line in wanted).encode()
    feed(first.stdin, lines)
    try:
        out, _ = make.communicate(timeout=seconds)
        ended, late = first.wait() == 0 and make.returncode == 0, False
    except TimeoutExpired:
        # before the other: at the end of its input it would print the id of half a diff
        make.kill()
        first.kill()
        out, _ = make.communicate()
        first.wait()
        ended, late = False, True
    rows = [line.split() for line in out.decode().split("\n")[:-1]]
    found = {commit: id for id, commit in rows}
    if ended:
        return found, len(wanted)
    if rows and not late:
        del found[rows.pop()[1]]  # git ended early: its last diff may lack its end
    places = {line.split(" ", 1)[0]: i for i, line in enumerate(wanted)}
    return found, places[rows[-1][1]] + 1 if rows else 0


def main_lines(repo: Repo) -> list[str]:
    """The branches that others start from and are merged into. All that exist: a branch begun on
    a `main` that is not pushed yet left that, not the remote's.
    """
    names = ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master")
    return list(dict.fromkeys(c for c in map(repo.commit, names) if c))


def base_of(repo: Repo, commit: str) -> str:
    """Where a commit's branch left the nearest main line; "" where all of them contain it."""
    lines = [line for line in main_lines(repo) if line != commit]

    def fork(*others: str) -> str:
        return repo.git.text("merge-base", commit, *others, ok=(0, 1)) if others else ""

    base = fork(*lines)
    if base != commit:
        return base
    # Some contain it.
    return fork(*(line for line in lines if len(lines) > 1 and fork(line) != commit))


class PatchIds:
    """Patch-ids that are known, or can be made within `seconds`; `save` keeps the new ones."""

    def __init__(self, repo: Repo, cache: Cache, seconds: float) -> None:
        self.repo = repo
        self.cache = cache
        self.allow(seconds)
        self.hurried = seconds < HURRY
        self._new: dict[str, str] = {}
        self._branches: dict[tuple[str, str], str] = {}  # patch-ids that are not saved yet
        self._notes: list[tuple[str, tuple[object, ...]]] = []

    def allow(self, seconds: float) -> None:
        """So much time is left from now on."""
        self.end = time.monotonic() + seconds

    def left(self) -> float:
        return self.end - time.monotonic()

    def learn(self, commits: Iterable[str]) -> bool:
        """Sees to it that the patch-ids of these commits are known; False where time ran out."""
        asked = list(dict.fromkeys(commits))
        sql = "SELECT commit_id FROM patch_id WHERE commit_id IN {}"
        rows = self.cache.among(sql, map(bytes.fromhex, asked))
        known = self._new.keys() | {commit.hex() for (commit,) in rows}
        missing = [c for c in asked if c not in known]
        done = 0
        for done, (commit, id) in enumerate(self._make(missing), 1):
            self._new[commit] = id
            if done % _SAVE == 0:
                self.save()
        return done == len(missing)

    def of_branches(self, bases: Mapping[str, str]) -> dict[str, str]:
        """{tip: patch-id of all that changed since its base, "" for none}, as time allows."""
        sql = "SELECT tip, base, id FROM branch_patch_id WHERE tip IN {}"
        rows = self.cache.among(sql, map(bytes.fromhex, bases))
        known = {(tip.hex(), base.hex()): id.hex() for tip, base, id in rows} | self._branches
        missing = [f"{tip} {base}" for tip, base in bases.items() if (tip, base) not in known]
        for line, id in self._make(missing):
            tip, base = line.split(" ")
            known[tip, base] = self._branches[tip, base] = id
            self.note(_BRANCH, *map(bytes.fromhex, (tip, base, id)))
        return {tip: known[tip, base] for tip, base in bases.items() if (tip, base) in known}

    def _make(self, wanted: list[str]) -> Iterator[tuple[str, str]]:
        """(line, patch-id) of lines as `patch_id.patch_ids` takes them, as far as time allows."""
        at = 0
        if wanted and self.repo.git.promised:
            return
        while at < len(wanted) and (left := self.left()) > 0:
            ids, done = patch_ids(self.repo, wanted[at : at + CHUNK], left)
            if not done:
                # The first is too large for the time there was, or lacks a file.
                if self.left() < LIMIT:
                    return
                ids, _ = patch_ids(self.repo, wanted[at : at + 1], LIMIT)
                done = 1
            for line in wanted[at : at + done]:
                yield line, ids.get(line.split(" ", 1)[0], "")
            at += done

    def of_commits(self, commits: Iterable[str]) -> dict[str, str]:
        """{commit: patch-id} of those whose patch-id is known and not empty."""
        asked = list(commits)
        sql = "SELECT commit_id, id FROM patch_id WHERE id <> x'' AND commit_id IN {}"
        rows = self.cache.among(sql, map(bytes.fromhex, asked))
        out = {c.hex(): id.hex() for c, id in rows}
        out.update((c, id) for c in asked if (id := self._new.get(c)))
        return out

    def holders(self, ids: Iterable[str]) -> dict[str, list[str]]:
        """{patch-id: commits known to have it}."""
        wanted = {id for id in ids if id}
        sql = "SELECT commit_id, id FROM patch_id WHERE id <> x'' AND id IN {}"
        rows = self.cache.among(sql, map(bytes.fromhex, sorted(wanted)))
        known = [(commit.hex(), id.hex()) for commit, id in rows]
        out: dict[str, list[str]] = {}
        for commit, id in (*self._new.items(), *known):
            if id in wanted:
                out.setdefault(id, []).append(commit)
        return out

    def note(self, sql: str, *values: object) -> None:
        self._notes.append((sql, values))

    def save(self) -> None:
        """Writes what is new into the cache; else it stays for this call."""
        if not (self._new or self._notes):
            return

        def write(db: Any) -> None:
            ids = [(bytes.fromhex(c), bytes.fromhex(id)) for c, id in self._new.items()]
            db.executemany("INSERT OR REPLACE INTO patch_id VALUES(?, ?)", ids)
            for sql, values in self._notes:
                db.execute(sql, values)

        if self.cache.keep(0.05 if self.hurried else _PATIENCE, write):
            self._new.clear()
            self._branches.clear()
            self._notes.clear()


def fields(repo: Repo, cache: Cache, commits: Iterable[str]) -> dict[str, dict[str, str]]:
    """{commit: the fields `patch`, and on an unmerged branch `base` and `branch_patch`, of a record
    about it}. Each diff has LIMIT for itself: one that fails or is slow costs no other.
    """
    if repo.git.promised:
        return {}
    cut = commit_reader.ends(repo.git)
    found: dict[str, dict[str, str]] = {}
    known = PatchIds(repo, cache, LIMIT)
    for commit in commits:
        whole = [commit] if commit not in cut else []  # else it seems to add every file
        known.allow(LIMIT)
        known.learn(whole)
        patch = known.of_commits(whole).get(commit)
        found[commit] = {"patch": patch} if patch else {}
        if base := base_of(repo, commit) if not cut else "":
            known.allow(LIMIT)
            if id := known.of_branches({commit: base}).get(commit):
                found[commit].update(base=base, branch_patch=id)
    known.save()
    return found


def marks_of(cache: Cache, commits: Iterable[str]) -> dict[str, set[tuple[str, str, str]]]:
    """{commit: {(patch, base, branch_patch)}} as records state them."""
    out: dict[str, set[tuple[str, str, str]]] = {c: set() for c in commits}
    sql = "SELECT commit_id, patch, base, branch_patch FROM patch_mark WHERE commit_id IN {}"
    for commit, *mark in cache.among(sql, out):
        out[commit].add(tuple(mark))
    return out
