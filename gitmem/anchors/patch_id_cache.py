"""Patch-ids of many commits: kept in the cache, made where it lacks them.

Promise: a commit is diffed once in the life of a cache; whoever asks says how
long it may take, gets what there was time for, and the next call goes on from
there. Where the cache cannot be written, only speed is lost. A partial clone
is never diffed (`patch_id.partial`).
"""

from __future__ import annotations

import os
import time
from typing import Any

from ..core import record
from ..engine.cache import Cache
from ..engine.document import ACTIVE
from ..git.repository import Repo
from . import patch_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HURRY = 30.0  # seconds below which somebody waits for the answer
CHUNK = 250  # commits of one pipeline: about 0.1 s
_KEEP = 5_000  # new patch-ids after which they are written down
AHEAD = 64  # commits of memories that are worth two processes of git before anybody asks
# in the place of a branch's patch-id: it is to be made as soon as HEAD has something that the
# branch has not
LATER = b"\0"
_PATIENCE = 0.5  # seconds to wait for another process that writes the cache


def keep_up(repo: Repo, cache: Cache, seconds: float) -> None:
    """Makes the patch-ids of the commits that memories are about, before a move of HEAD leaves
    thousands of them behind and asks for all; of few a move can make them as well.
    """
    upto, done = cache.meta("rows", "0"), cache.meta("patched", "0")
    sql = (
        f"SELECT DISTINCT anchor FROM memory m WHERE row >= ? AND status = {ACTIVE} AND anchor <>"
        " '' AND NOT EXISTS (SELECT 1 FROM anchor a WHERE a.commit_id = m.anchor AND a.patch"
        " <> '')"
    )
    anchors = (
        [a for (a,) in cache.db.execute(sql, (int(done),)) if record.object_id(a)]
        if done != upto
        else []
    )
    if (
        len(anchors) < AHEAD
        or patch_id.partial(repo)
        or os.path.exists(os.path.join(repo.common_dir, "shallow"))
    ):
        return
    patches = Patches(repo, cache, seconds)
    missing = patches.missing(anchors)
    found = repo.git.ids([f"{c}^{{commit}}" for c in missing]) if missing else []
    if patches.learn([c for c, id in zip(missing, found, strict=True) if id == c]):
        patches.note("INSERT OR REPLACE INTO meta VALUES(?, ?)", "patched", upto)
    patches.save()


class Patches:
    """What git says about changes, for at most `seconds`; `save` keeps it."""

    def __init__(self, repo: Repo, cache: Cache, seconds: float) -> None:
        self.repo = repo
        self.cache = cache
        self.end = time.monotonic() + seconds
        self.hurried = seconds < HURRY
        self._partial: bool | None = None
        self._new: dict[str, str] = {}
        self._new_branches: dict[tuple[str, str], str] = {}
        self._later: list[tuple[str, tuple[object, ...]]] = []

    def left(self) -> float:
        return self.end - time.monotonic()

    def learn(self, commits: Iterable[str]) -> bool:
        """Sees to it that the patch-ids of these commits are known; False where time ran out."""
        missing = self.missing(list(dict.fromkeys(commits)))
        done = 0
        for line, id in self._make(missing):
            self._new[line] = id
            done += 1
            if done % _KEEP == 0:
                self.save()
        return done == len(missing)

    def missing(self, commits: list[str]) -> list[str]:
        """Those of the commits whose patch-id is not known yet."""
        known = set(self._new)
        for i in range(0, len(commits), 500):
            part = [bytes.fromhex(c) for c in commits[i : i + 500]]
            known.update(
                c.hex()
                for (c,) in self.cache.db.execute(
                    f"SELECT commit_id FROM patch WHERE commit_id IN ({','.join('?' * len(part))})",
                    part,
                )
            )
        return [c for c in commits if c not in known]

    def branches(self, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """{(tip, base): patch-id of all that changed between them, "" for none}; absent where time
        ran out.
        """
        out: dict[tuple[str, str], str] = {}
        missing: dict[str, str] = {}
        again: list[tuple[str, str]] = []
        for tip, base in dict.fromkeys(wanted):
            if (tip, base) in self._new_branches:
                out[tip, base] = self._new_branches[tip, base]
                continue
            row = self.cache.db.execute(
                "SELECT id FROM branch WHERE tip = ? AND base = ?",
                (bytes.fromhex(tip), bytes.fromhex(base)),
            ).fetchone()
            if row and row[0] != LATER:
                out[tip, base] = row[0].hex()
            elif tip in missing:
                again.append((tip, base))  # a pipeline names each difference by its tip
            else:
                missing[tip] = base
        for line, id in self._make([f"{tip} {base}" for tip, base in missing.items()]):
            tip, base = line.split(" ")
            self._new_branches[tip, base] = out[tip, base] = id
        return {**out, **self.branches(again)} if again else out

    def later(self, tip: str, base: str) -> None:
        """Notes that a branch's patch-id is not needed while its base is HEAD."""
        key = bytes.fromhex(tip), bytes.fromhex(base)
        if not self.cache.db.execute(
            "SELECT 1 FROM branch WHERE tip = ? AND base = ?", key
        ).fetchone():
            self.note("INSERT OR IGNORE INTO branch VALUES(?, ?, ?)", *key, LATER)

    def _make(self, wanted: list[str]) -> Iterator[tuple[str, str]]:
        """(line, patch-id) of lines as `patch_id.patch_ids` takes them, as far as time allows."""
        if wanted and self._partial is None:
            self._partial = patch_id.partial(self.repo)
        at = 0
        while at < len(wanted) and not self._partial and (left := self.left()) > 0:
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

    def own(self, commits: Iterable[str]) -> dict[str, str]:
        """{commit: patch-id} of those whose patch-id is known and not empty."""
        asked = list(commits)
        out: dict[str, str] = {}
        for i in range(0, len(asked), 500):
            part = [bytes.fromhex(c) for c in asked[i : i + 500]]
            out.update(
                (c.hex(), id.hex())
                for c, id in self.cache.db.execute(
                    "SELECT commit_id, id FROM patch WHERE id <> x'' AND commit_id IN"
                    f" ({','.join('?' * len(part))})",
                    part,
                )
            )
        out.update((c, id) for c in asked if (id := self._new.get(c)))
        return out

    def holders(self, ids: Iterable[str]) -> dict[str, list[str]]:
        """{patch-id: commits known to have it}."""
        wanted = {id for id in ids if id}
        out: dict[str, list[str]] = {}
        for commit, id in self._new.items():
            if id in wanted:
                out.setdefault(id, []).append(commit)
        asked = [bytes.fromhex(id) for id in wanted]
        for i in range(0, len(asked), 500):
            part = asked[i : i + 500]
            for commit, id in self.cache.db.execute(
                f"SELECT commit_id, id FROM patch WHERE id IN ({','.join('?' * len(part))}) AND id"
                " <> x''",
                part,
            ):
                out.setdefault(id.hex(), []).append(commit.hex())
        return out

    def note(self, sql: str, *values: object) -> None:
        """A row to be written with the next `save`."""
        self._later.append((sql, values))

    def save(self) -> None:
        """Writes what is new into the cache; where that is not possible now it stays for this call
        only.
        """
        if not (self._new or self._new_branches or self._later):
            return

        def write(db: Any) -> None:
            db.executemany(
                "INSERT OR REPLACE INTO patch VALUES(?, ?)",
                [(bytes.fromhex(c), bytes.fromhex(id)) for c, id in self._new.items()],
            )
            db.executemany(
                "INSERT OR REPLACE INTO branch VALUES(?, ?, ?)",
                [
                    (bytes.fromhex(t), bytes.fromhex(b), bytes.fromhex(id))
                    for (t, b), id in self._new_branches.items()
                ],
            )
            for sql, values in self._later:
                db.execute(sql, values)

        if self.cache.keep(0.05 if self.hurried else _PATIENCE, write):
            self._new.clear()
            self._new_branches.clear()
            self._later.clear()
