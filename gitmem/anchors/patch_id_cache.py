"""Patch-ids of many commits: read from the cache, made where it lacks them.

Promise: a commit is diffed once in the life of a cache. Whoever asks says how long it may take,
and the next call goes on from there. Where the cache cannot be written, only speed is lost. A
partial clone is never diffed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..engine.cache import Cache
from ..git.repository import Repo
from . import patch_id

HURRY = 30.0  # seconds below which somebody waits for the answer
CHUNK = 250  # commits of one pipeline: about 0.1 s
_SAVE = 5_000  # new patch-ids after which they are written
_BRANCH = "INSERT OR IGNORE INTO branch_patch_id VALUES(?, ?, ?)"
_PATIENCE = 0.5  # seconds to wait for another process that writes the cache


class PatchIds:
    """Patch-ids that are known, or can be made within `seconds`; `save` keeps the new ones."""

    def __init__(self, repo: Repo, cache: Cache, seconds: float) -> None:
        self.repo = repo
        self.cache = cache
        self.end = time.monotonic() + seconds
        self.hurried = seconds < HURRY
        self._new: dict[str, str] = {}
        self._branches: dict[tuple[str, str], str] = {}  # patch-ids that are not saved yet
        self._notes: list[tuple[str, tuple[object, ...]]] = []

    def left(self) -> float:
        return self.end - time.monotonic()

    def learn(self, commits: Iterable[str]) -> bool:
        """Sees to it that the patch-ids of these commits are known; False where time ran out."""
        asked = list(dict.fromkeys(commits))
        rows = self._select("SELECT commit_id FROM patch_id WHERE commit_id", asked)
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
        sql = "SELECT tip, base, id FROM branch_patch_id WHERE tip"
        rows = self._select(sql, sorted(bases))
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
            ids, done = patch_id.patch_ids(self.repo, wanted[at : at + CHUNK], left)
            if not done:
                # The first is too large for the time there was, or lacks a file.
                if self.left() < patch_id.LIMIT:
                    return
                ids, _ = patch_id.patch_ids(self.repo, wanted[at : at + 1], patch_id.LIMIT)
                done = 1
            for line in wanted[at : at + done]:
                yield line, ids.get(line.split(" ", 1)[0], "")
            at += done

    def of_commits(self, commits: Iterable[str]) -> dict[str, str]:
        """{commit: patch-id} of those whose patch-id is known and not empty."""
        asked = list(commits)
        sql = "SELECT commit_id, id FROM patch_id WHERE id <> x'' AND commit_id"
        out = {c.hex(): id.hex() for c, id in self._select(sql, asked)}
        out.update((c, id) for c in asked if (id := self._new.get(c)))
        return out

    def holders(self, ids: Iterable[str]) -> dict[str, list[str]]:
        """{patch-id: commits known to have it}."""
        wanted = {id for id in ids if id}
        sql = "SELECT commit_id, id FROM patch_id WHERE id <> x'' AND id"
        known = [(commit.hex(), id.hex()) for commit, id in self._select(sql, sorted(wanted))]
        out: dict[str, list[str]] = {}
        for commit, id in (*self._new.items(), *known):
            if id in wanted:
                out.setdefault(id, []).append(commit)
        return out

    def _select(self, sql: str, ids: list[str]) -> Iterator[tuple[Any, ...]]:
        """Rows of a query that ends with a column of ids, for any number of them."""
        for i in range(0, len(ids), 500):
            part = [bytes.fromhex(id) for id in ids[i : i + 500]]
            yield from self.cache.db.execute(f"{sql} IN ({','.join('?' * len(part))})", part)

    def note(self, sql: str, *values: object) -> None:
        """A row to be written with the next `save`."""
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


def marks_of(cache: Cache, commits: Iterable[str]) -> dict[str, set[tuple[str, str, str]]]:
    """{commit: {(patch, base, branch_patch)}} as records state them."""
    out: dict[str, set[tuple[str, str, str]]] = {c: set() for c in commits}
    sql = "SELECT commit_id, patch, base, branch_patch FROM patch_mark WHERE commit_id IN {}"
    for commit, *mark in cache.among(sql, out):
        out[commit].add(tuple(mark))
    return out
