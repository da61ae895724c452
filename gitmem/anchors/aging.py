"""Keeps what became of the paths of memories, for the HEAD of each worktree (`staleness`).

Promise: what is kept is what `drift.states` would say of every path, which a
test compares over generated histories. A move of HEAD costs what changed: the
difference of the two trees, the removals of the commits between, and the few
paths that these name. Where time runs out, what is open is kept as such and
asked for again.
"""

from __future__ import annotations

import json
import os
import time

from ..core import record
from ..engine import stored
from ..engine.cache import Cache
from ..engine.staleness import SAME, WAITING
from ..git.layout import Repo
from . import drift, marks, removals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Place = tuple[int, int, drift.Wanted]  # (memory row, place of the path in its record, what is asked)

_PATIENCE = 0.5  # seconds to wait for another process that writes the cache
_FAR = 20_000  # commits between two HEADs from which all is looked at anew


def keep_up(repo: Repo, cache: Cache, heads: Sequence[str], seconds: float) -> bool:
    """Keeps the states of all paths of active memories for these HEADs, each in turn; False where something is left to be done."""
    end = time.monotonic() + seconds
    whole = [_keep_up(repo, cache, heads, head, end) for head in heads]
    gone = [slot for commit, slot in _slots(cache).items() if commit not in heads]
    if gone:
        cache.keep(_PATIENCE, lambda _: _forget(cache, *gone))
    return all(whole)


def _slots(cache: Cache) -> dict[str, int]:
    return {commit: int(slot) for slot, commit in cache.db.execute("SELECT slot, commit_id FROM pathhead ORDER BY slot")}


def _forget(cache: Cache, *slots: int) -> None:
    for table in ("pathstate", "pathvia", "pathhead"):
        cache.db.executemany(f"DELETE FROM {table} WHERE slot = ?", [(slot,) for slot in slots])


def _keep_up(repo: Repo, cache: Cache, heads: Sequence[str], head: str, end: float) -> bool:
    slots = _slots(cache)
    # From the states of this HEAD, else of one that no worktree has any more, else of any.
    base = next((c for c in (head, *(c for c in slots if c not in heads), *slots) if c in slots), "")
    known, whole = cache.db.execute("SELECT rows, whole FROM pathhead WHERE slot = ?", (slots[base],)).fetchone() if base else (0, 0)
    upto = int(cache.meta("rows", "0"))
    waiting = bool(base) and cache.db.execute("SELECT 1 FROM pathstate WHERE slot = ? AND reason = ? LIMIT 1", (slots[base], WAITING)).fetchone() is not None
    if base == head and known == upto and whole and not waiting:
        return True
    move = _Move(repo, cache, base, head, slots.get(base, -1), end)
    affected = move.rows(int(known)) if base else None
    places = _known_places(cache, slots[base], {row for row in affected if row < known}) + _places(cache, {row for row in affected if row >= known}) if affected is not None else _places(cache, None)
    scanned = move.scan(bool(whole))
    found = drift.states(repo, cache, [asked for _, _, asked in places], head, max(end - time.monotonic(), 0.05), scanned=scanned, known=move.names(places))
    slot = slots[base] if base and (base not in heads or base == head) else next(n for n in range(len(slots) + 1) if n not in slots.values())

    def write(_: object) -> None:
        if base and slot != slots[base]:
            _copy(cache, slots[base], slot)
        _write(cache, slot, affected, places, found)
        cache.db.execute("INSERT OR REPLACE INTO pathhead VALUES(?, ?, ?, ?)", (slot, head, upto, int(scanned)))

    return cache.keep(_PATIENCE, write) and scanned and not any(s.reason == WAITING for s in found)


def _copy(cache: Cache, old: int, new: int) -> None:
    _forget(cache, new)
    cache.db.execute("INSERT INTO pathstate SELECT ?, row, place, state, now, lines, reason, path, blob, asked FROM pathstate WHERE slot = ?", (new, old))
    cache.db.execute("INSERT INTO pathvia SELECT ?, name, row FROM pathvia WHERE slot = ?", (new, old))


def _write(cache: Cache, slot: int, affected: set[int] | None, places: Sequence[Place], found: Sequence[drift.State]) -> None:
    """Writes the states that are others than those kept; `affected`: the rows they stand for, None for all."""
    db = cache.db
    if affected is None:
        _forget(cache, slot)
    kept = {} if affected is None else {(row, place): rest for row, place, *rest in _kept(cache, slot, affected)}
    new = {(row, place): [s.state, s.now, s.lines, s.reason, *asked[1:]] for (row, place, asked), s in zip(places, found, strict=True)}
    db.executemany("DELETE FROM pathstate WHERE slot = ? AND row = ? AND place = ?", [(slot, *key) for key in sorted(kept.keys() - new.keys())])
    db.executemany("INSERT OR REPLACE INTO pathstate VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                   [(slot, *key, *value) for key, value in sorted(new.items()) if kept.get(key) != value])
    via = {(name, row) for (row, _, _), s in zip(places, found, strict=True) for name in s.via}
    if affected:
        asked = json.dumps(sorted(affected))
        had = set(db.execute("SELECT name, row FROM pathvia WHERE slot = ? AND row IN (SELECT value FROM json_each(?))", (slot, asked)))
        db.executemany("DELETE FROM pathvia WHERE slot = ? AND name = ? AND row = ?", [(slot, *key) for key in sorted(had - via)])
    db.executemany("INSERT OR IGNORE INTO pathvia VALUES(?, ?, ?)", [(slot, *key) for key in sorted(via)])


def _kept(cache: Cache, slot: int, rows: Iterable[int]) -> list[tuple[int, int, str, str, str, str, str, str, str]]:
    sql = "SELECT row, place, state, now, lines, reason, path, blob, asked FROM pathstate WHERE slot = ? AND row IN (SELECT value FROM json_each(?))"
    return cache.db.execute(sql, (slot, json.dumps(sorted(rows)))).fetchall()


def _known_places(cache: Cache, slot: int, rows: set[int]) -> list[Place]:
    """The same of memories that were asked about before: reading and hashing 10,000 records again would take half a second."""
    sql = "SELECT p.row, p.place, m.anchor, p.path, p.blob, p.asked FROM pathstate p JOIN memory m USING(row) WHERE p.slot = ? AND p.row IN (SELECT value FROM json_each(?))"
    return [(row, place, (record.object_id(anchor), path, blob, lines)) for row, place, anchor, path, blob, lines in cache.db.execute(sql, (slot, json.dumps(sorted(rows))))]


def _places(cache: Cache, rows: set[int] | None) -> list[Place]:
    """What is to be asked: the paths of these active memories, None for all."""
    only = "" if rows is None else " AND m.row IN (SELECT value FROM json_each(?))"
    sql = f"SELECT m.row FROM memory m WHERE m.status = 0{only} AND m.row IN (SELECT row FROM label WHERE kind = 'path') ORDER BY m.row"
    chosen = [row for (row,) in cache.db.execute(sql, () if rows is None else (json.dumps(sorted(rows)),))]
    out: list[Place] = []
    for row, (data, _, _) in zip(chosen, stored.load(cache, chosen), strict=True):
        anchor = stored.commit_of(data)
        out += [(row, place, (anchor, *where)) for place, where in enumerate(stored.places(data))]
    return out


class _Move:
    """HEAD went from `base`, whose states are kept under `slot` ("" for none), to `head`; both may be the same, where only memories came."""

    def __init__(self, repo: Repo, cache: Cache, base: str, head: str, slot: int, end: float) -> None:
        self.repo, self.cache, self.base, self.head, self.slot = repo, cache, base, head, slot
        self.history = removals.History(repo, cache, head, max(0.0, end - time.monotonic()))
        self.gained: list[str] = []
        self._lost: list[str] = []
        self._far = False
        self._removed: set[str] = set()  # names that commits between both removed

    def rows(self, known: int) -> set[int] | None:
        """The memories of which a path may have another state now; None for all."""
        out = {row for (row,) in self.cache.db.execute("SELECT row FROM memory WHERE row >= ? AND status = 0", (known,))}
        out |= self._select("reason = ?", WAITING)
        if self.base == self.head:
            return out
        if not self._walk():
            self._far = True
            return None
        touched, added = self._touched()
        names = json.dumps(sorted(touched | {t + "/" for t in touched if t}))
        inside = "SELECT value FROM json_each(?)"
        out |= {row for (row,) in self.cache.db.execute(f"SELECT row FROM label WHERE kind = 'path' AND value IN ({inside})", (names,))}
        out |= self._select(f"now <> '' AND now IN ({inside})", names)
        out |= self._select(f"state <> 'same' AND blob IN ({inside})", json.dumps(sorted(added)))
        out |= {row for (row,) in self.cache.db.execute(f"SELECT row FROM pathvia WHERE slot = ? AND name IN ({inside})", (self.slot, names))}
        between = json.dumps([*self.gained, *self._lost])
        moved = {row for (row,) in self.cache.db.execute(f"SELECT row FROM memory WHERE status = 0 AND anchor IN ({inside})", (between,))}
        return out | (moved & self._select("state <> ?", SAME) if moved else moved)

    def names(self, places: Sequence[Place]) -> dict[drift.Wanted, str]:
        """{what is asked: its name now}, where it was followed before, and no commit since has to do with its anchor or its names."""
        if not self.base or self._far:
            return {}
        between = {*self.gained, *self._lost}
        via: dict[int, set[str]] = {}
        for name, row in self.cache.db.execute("SELECT name, row FROM pathvia WHERE slot = ?", (self.slot,)):
            via.setdefault(row, set()).add(name)
        kept = {(row, place): (state, drift.bare(now)) for row, place, state, now, _, reason, *_ in _kept(self.cache, self.slot, {row for row, _, _ in places}) if not reason}
        out = {}
        for row, place, asked in places:
            state, now = kept.get((row, place), ("", ""))
            name = now if now != "." else drift.bare(asked[1])
            if state in (drift.CHANGED, drift.RENAMED) and asked[0] not in between and drift.ANY not in via.get(row, ()) and self._removed.isdisjoint({drift.bare(asked[1]), name, *via.get(row, ())}):
                out[asked] = name
        return out

    def _select(self, condition: str, value: str) -> set[int]:
        return {row for (row,) in self.cache.db.execute(f"SELECT DISTINCT row FROM pathstate WHERE slot = ? AND {condition}", (self.slot, value))}

    def _walk(self) -> bool:
        """Finds the commits that only one of both HEADs contains; False where they are too far apart to go from one to the other."""
        out, status = self.repo.git.run_status("rev-list", "--left-right", f"--max-count={_FAR}", f"{self.base}...{self.head}", "--", ok=(0, 128))
        if status or out.count(b"\n") >= _FAR:
            return False
        for row in out.decode().split():
            (self._lost if row[0] == "<" else self.gained).append(row[1:])
        try:
            if not marks.partial(self.repo):
                self.history.learn([*self._lost, *reversed(self.gained)])
        except removals.Open:
            return False
        return True

    def _touched(self) -> tuple[set[str], set[str]]:
        """(names whose content differs between both HEADs, or that a commit between them removed; object ids that are new under a name)."""
        names, added = {"."}, set()
        tokens = iter(self.repo.git.run("diff-tree", "-r", "-t", "--no-renames", "--raw", "--no-abbrev", "-z", self.base, self.head).decode("utf-8", "replace").split("\0"))
        for token in tokens:
            if token:
                _, _, _, id, status = token.split(" ")
                name = next(tokens)
                names.add(name)
                if status == "A":
                    names.add(drift.ANY)
                added.add(id)
        between = [*self.gained, *self._lost]
        for i in range(0, len(between), 500):
            part = [bytes.fromhex(c) for c in between[i : i + 500]]
            self._removed.update(p for (p,) in self.cache.db.execute(f"SELECT path FROM removal WHERE commit_id IN ({','.join('?' * len(part))})", part))
        return names | self._removed, added

    def scan(self, whole: bool) -> bool:
        """Sees to it that all is known that this history removed; whether it is. `whole`: it was, at the base."""
        if marks.partial(self.repo) or os.path.exists(os.path.join(self.repo.common_dir, "shallow")):
            return True  # nobody asks for it there
        try:
            if not (whole and self.base) or self._far:
                self.history.scan([""])
        except removals.Open:
            return False
        return True
