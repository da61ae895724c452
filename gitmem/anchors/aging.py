"""Keeps what became of the paths of memories, for the HEAD of each worktree (`staleness`).

Which object lies under each name at HEAD is kept (`entry`), and says of most
paths what became of them without a word about any memory: the same object or
another one. Beside it is kept what that does not say (`pathstate`): of names
that are not there any more, or were removed at some time, and of lines.

Promise: what is kept is what `drift.states` would say of every path, which a
test compares over generated histories; what it would compare whole trees for is
left to whoever asks (`BESIDE`). A move of HEAD costs what changed: the difference
of the two trees, the removals of the commits between, and the few paths that
these decide about. Where time runs out, what is open is kept as such and asked
for again.
"""

from __future__ import annotations

import json
import os
import time

from ..core import record
from ..core.errors import GitFailed
from ..engine import staleness
from ..engine.cache import Cache
from ..engine.staleness import CHANGED, RENAMED, SAME, UNKNOWN, WAITING
from ..engine.stored import bare
from ..git.layout import Repo
from . import drift, marks, removals
from .ancestry import Between

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from .ancestry import Walks

    Place = tuple[int, int, drift.Wanted]  # (memory row, place of the path in its record, what is asked)

_PATIENCE = 0.5  # seconds to wait for another process that writes the cache
_INSIDE = "SELECT value FROM json_each(?)"
_GROUND = "ground:paths"  # in the cache's `meta`: where history ended, and what was put in the place of what, when these states were made


def keep_up(repo: Repo, cache: Cache, heads: Sequence[str], seconds: float, walks: Walks | None = None) -> bool:
    """Keeps the states of all paths of active memories for these HEADs, each in turn; False where something is left to be done. `walks`: made before."""
    end = time.monotonic() + seconds
    ground = cache.meta("ground")  # as `headmove` found it
    if cache.meta(_GROUND) != ground:
        def anew(_: object) -> None:
            _forget(cache, *_slots(cache).values())
            for table in ("removal", "renamed"):
                cache.db.execute(f"DELETE FROM {table}")
            cache.set_meta(_GROUND, ground)

        if not cache.keep(_PATIENCE, anew):
            return False
    whole = [_keep_up(repo, cache, heads, head, end, walks) for head in heads]
    gone = [slot for commit, slot in _slots(cache).items() if commit not in heads]
    if gone:
        cache.keep(_PATIENCE, lambda _: _forget(cache, *gone))
    return all(whole)


def look_again(cache: Cache, anchors: Collection[str]) -> None:
    """Of these commits it came to be known what took their place, or carries their change: where paths noted there went is open until `keep_up` looked. The caller owns the transaction."""
    if anchors:
        sql = (f"INSERT OR REPLACE INTO pathstate SELECT h.slot, p.row, p.place, ?, '', '', ? FROM memory m CROSS JOIN place p USING(row) JOIN pathhead h ON p.row < h.rows"
               f" JOIN entry e ON e.slot = h.slot AND e.name = p.name WHERE m.anchor IN ({_INSIDE}) AND p.blob <> '' AND e.id <> p.blob"
               " AND (e.id = '' OR EXISTS (SELECT 1 FROM removal r WHERE r.path = p.name))")
        cache.db.execute(sql, (UNKNOWN, WAITING, json.dumps(sorted(anchors))))


def _slots(cache: Cache) -> dict[str, int]:
    return {commit: int(slot) for slot, commit in cache.db.execute("SELECT slot, commit_id FROM pathhead ORDER BY slot")}


def _forget(cache: Cache, *slots: int) -> None:
    for table in ("entry", "pathstate", "pathvia", "pathhead"):
        cache.db.executemany(f"DELETE FROM {table} WHERE slot = ?", [(slot,) for slot in slots])


def _keep_up(repo: Repo, cache: Cache, heads: Sequence[str], head: str, end: float, walks: Walks | None) -> bool:
    slots = _slots(cache)
    # From the states of this HEAD, else of one that no worktree has any more, else of any.
    base = next((c for c in (head, *(c for c in slots if c not in heads), *slots) if c in slots), "")
    known, whole = cache.db.execute("SELECT rows, whole FROM pathhead WHERE slot = ?", (slots[base],)).fetchone() if base else (0, 0)
    upto = int(cache.meta("rows", "0"))
    waiting = bool(base) and cache.db.execute("SELECT 1 FROM pathstate WHERE slot = ? AND reason = ? LIMIT 1", (slots[base], WAITING)).fetchone() is not None
    short = _short(repo)
    if base == head and known == upto and (whole or short) and not waiting:
        return True
    move = _Move(repo, cache, base, head, slots.get(base, -1), upto, end)
    if base and not move.walk(bool(whole), walks):
        base, move = "", _Move(repo, cache, "", head, -1, upto, end)
    names = move.names(int(known) if base else 0)
    scanned = move.scan(bool(whole))
    rows = {row for row in move.rows(int(known)) if row < upto} if base else move.all_rows(names, scanned)
    beyond = move.beyond(rows) if base else set()
    rows -= beyond
    places = _places(cache, rows)
    there = move.followed(places)
    found = drift.states(repo, cache, [asked for _, _, asked in places], head, max(end - time.monotonic(), 0.05), scanned=scanned, known=there, beside=False, outside=move.lost)
    slot = slots[base] if base and (base not in heads or base == head) else slots[head] if head in slots else next(n for n in range(len(slots) + 1) if n not in slots.values())

    written = False

    def write(_: object) -> None:
        nonlocal written
        if _slots(cache) != slots:
            return  # another process was there first
        if not base:
            _forget(cache, slot)
        elif slot != slots[base]:
            _copy(cache, slots[base], slot)
        # What was purged meanwhile leaves no name here.
        cache.db.executemany("INSERT OR REPLACE INTO entry SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM place WHERE name = ?2)", [(slot, name, id) for name, id in sorted(names.items())])
        _leave(cache, slot, beyond)
        _write(cache, slot, rows, places, found, {row for row, _, asked in places if asked in there})
        cache.db.execute("INSERT OR REPLACE INTO pathhead VALUES(?, ?, ?, ?)", (slot, head, upto, int(scanned and not short)))
        written = True

    return cache.keep(_PATIENCE, write) and written and scanned and not any(s.reason == WAITING for s in found)


def _copy(cache: Cache, old: int, new: int) -> None:
    _forget(cache, new)
    cache.db.execute("INSERT INTO entry SELECT ?, name, id FROM entry WHERE slot = ?", (new, old))
    cache.db.execute("INSERT INTO pathstate SELECT ?, row, place, state, now, lines, reason FROM pathstate WHERE slot = ?", (new, old))
    cache.db.execute("INSERT INTO pathvia SELECT ?, name, row FROM pathvia WHERE slot = ?", (new, old))


def _short(repo: Repo) -> bool:
    """Whether this clone lacks a part of its history, or its files."""
    return marks.partial(repo) or os.path.exists(os.path.join(repo.common_dir, "shallow"))


def _places(cache: Cache, rows: set[int]) -> list[Place]:
    """What is to be asked of the paths of these memories."""
    sql = f"SELECT p.row, p.place, m.anchor, p.name, p.dir, p.blob, p.asked FROM place p JOIN memory m USING(row) WHERE p.row IN ({_INSIDE}) ORDER BY p.row, p.place"
    return [(row, place, (record.object_id(anchor), name + "/" * dir, blob, lines)) for row, place, anchor, name, dir, blob, lines in cache.db.execute(sql, (json.dumps(sorted(rows)),))]


def _leave(cache: Cache, slot: int, rows: set[int]) -> None:
    """Writes of memories about commits that HEAD left behind what `drift` says of such: what is not there under its name is not looked for."""
    db, asked = cache.db, json.dumps(sorted(rows))
    if rows:
        db.execute(f"DELETE FROM pathstate WHERE slot = ? AND row IN ({_INSIDE})", (slot, asked))
        via = [(slot, *key) for key in db.execute("SELECT name, row FROM pathvia WHERE slot = ?", (slot,)).fetchall() if key[1] in rows]
        db.executemany("DELETE FROM pathvia WHERE slot = ? AND name = ? AND row = ?", via)
        db.execute("INSERT INTO pathstate SELECT ?1, p.row, p.place, ?2, '', '', ?3 FROM place p JOIN entry e ON e.slot = ?1 AND e.name = p.name WHERE p.row IN (SELECT value FROM json_each(?4)) AND e.id = '' AND p.blob <> ''",
                   (slot, UNKNOWN, drift.BESIDE, asked))


def _write(cache: Cache, slot: int, rows: set[int], places: Sequence[Place], found: Sequence[drift.State], again: set[int]) -> None:
    """Writes what the objects under the names do not say, where it is another than before; `rows`: the memories that were asked about; `again`: those that were not followed anew."""
    db = cache.db
    asked = json.dumps(sorted(rows))
    here = {row for (row,) in db.execute(f"SELECT DISTINCT row FROM place WHERE row IN ({_INSIDE})", (asked,))}
    ids = dict(db.execute(f"SELECT name, id FROM entry WHERE slot = ? AND name IN ({_INSIDE})", (slot, json.dumps(sorted({bare(path) for _, _, (_, path, _, _) in places})))))
    new = {(row, place): s.row() for (row, place, one), s in zip(places, found, strict=True) if row in here and not _plain(one, ids, s)}
    kept = {(row, place): tuple(rest) for row, place, *rest in db.execute(f"SELECT row, place, state, now, lines, reason FROM pathstate WHERE slot = ? AND row IN ({_INSIDE})", (slot, asked))}
    db.executemany("DELETE FROM pathstate WHERE slot = ? AND row = ? AND place = ?", [(slot, *key) for key in sorted(kept.keys() - new.keys())])
    db.executemany("INSERT OR REPLACE INTO pathstate VALUES(?, ?, ?, ?, ?, ?, ?)", [(slot, *key, *value) for key, value in sorted(new.items()) if kept.get(key) != value])
    via = {(name, row) for (row, _, _), s in zip(places, found, strict=True) for name in s.via if row in here}
    # By names, as they are stored: there are few, and none of most memories.
    had = {(name, row) for name, row in db.execute("SELECT name, row FROM pathvia WHERE slot = ?", (slot,)) if row in rows}
    db.executemany("DELETE FROM pathvia WHERE slot = ? AND name = ? AND row = ?", [(slot, *key) for key in sorted(had - via) if key[1] not in again])
    db.executemany("INSERT OR IGNORE INTO pathvia VALUES(?, ?, ?)", [(slot, *key) for key in sorted(via - had)])


def _plain(asked: drift.Wanted, ids: dict[str, str], state: drift.State) -> bool:
    """Whether the object under the name says it (`staleness.PLAIN`). Of lines it does not: another object may hold them."""
    _, path, blob, lines = asked
    id = ids[bare(path)]
    return not lines and state == (drift.State(UNKNOWN, reason=drift.NO_BLOB) if not blob else drift.State(SAME) if id == blob else drift.State(CHANGED) if id else None)


class _Move:
    """HEAD went from `base`, whose states are kept under `slot` ("" for none), to `head`; both may be the same, where only memories came.

    Of memories with a row of `upto` or above, which came meanwhile, nothing is asked.
    """

    def __init__(self, repo: Repo, cache: Cache, base: str, head: str, slot: int, upto: int, end: float) -> None:
        self.repo, self.cache, self.base, self.head, self.slot, self.upto = repo, cache, base, head, slot, upto
        self.tree = drift.Tree(repo, head)
        self.history = removals.History(repo, cache, head, max(0.0, end - time.monotonic()))
        self.between: set[str] = set()  # commits that only one of both contains
        self.lost: set[str] = set()  # those of `base`
        self._removed: set[str] = set()  # names that these removed
        self._new: dict[str, str] = {}  # {name that differs between both: its object at HEAD, "" for none}
        self._old: set[str] = set()  # objects that these had before
        self._other: set[str] = set()  # those of them that came, went, or are something else now

    def walk(self, whole: bool, walks: Walks | None) -> bool:
        """Finds what is between both HEADs; False where one cannot go from one to the other. `whole`: what the history of `base` removed is known."""
        if self.base == self.head:
            return True
        try:
            found = Between.walk(self.repo.git, self.base, self.head, walks)
            if not _short(self.repo):  # there nobody asks, and where history ends git says of a commit that it removed nothing
                self.history.learn([*([] if whole else found.lost), *reversed(found.gained)])
        except (GitFailed, removals.Open):
            return False
        self.lost = set(found.lost)
        self.between = self.lost.union(found.gained)
        self._removed = removals.of(self.cache, self.between)
        self._compare()
        return True

    def _compare(self) -> None:
        tokens = iter(self.repo.git.run("diff-tree", "-r", "-t", "--no-renames", "--raw", "--no-abbrev", "-z", self.base, self.head).decode("utf-8", "replace").split("\0"))
        for token in tokens:
            if token:
                _, _, old, id, status = token.split(" ")
                name = next(tokens)
                self._old.add(old)
                if status != "M":
                    self._other.add(name)
                if status == "D":
                    self._new.setdefault(name, "")  # a file that became a directory comes twice
                else:
                    self._new[name] = id

    def names(self, known: int) -> dict[str, str]:
        """{name of a path: its object at HEAD, "" for none}, of those that differ, and those that no memory with a row below `known` has."""
        db = self.cache.db
        came = [name for (name,) in db.execute("SELECT DISTINCT name FROM place WHERE row >= ? AND row < ? AND name NOT IN (SELECT name FROM entry WHERE slot = ?)", (known, self.upto, self.slot))]
        if self.base != self.head and self.base and db.execute("SELECT 1 FROM entry WHERE slot = ? AND name = '.'", (self.slot,)).fetchone():
            came.append(".")
        self.tree.ask(came)
        kept = {name for (name,) in db.execute(f"SELECT name FROM entry WHERE slot = ? AND name IN ({_INSIDE})", (self.slot, json.dumps(sorted(self._new))))}
        return {**{name: self._new[name] for name in kept}, **{name: self.tree.id(name) for name in came}}

    def all_rows(self, names: dict[str, str], scanned: bool) -> set[int]:
        """The memories of which the objects under their names do not say all, where nothing is kept. `names`: those objects; `scanned`: whether all is known that was removed."""
        sure = scanned and not _short(self.repo)
        removed = removals.everywhere(self.cache, names) if sure else names
        out = set()
        for row, name, blob, lines in self.cache.db.execute("SELECT row, name, blob, asked FROM place WHERE row < ?", (self.upto,)):
            if lines or (blob and names[name] != blob and (name in removed or not names[name])):
                out.add(row)
        return out

    def rows(self, known: int) -> set[int]:
        """The memories of which something else may be to be kept now, beside the objects under their names."""
        db = self.cache.db
        out = {row for (row,) in db.execute("SELECT DISTINCT row FROM place WHERE row >= ?", (known,))}
        out |= {row for (row,) in db.execute("SELECT row FROM pathstate WHERE slot = ? AND reason = ?", (self.slot, WAITING))}
        if self.base == self.head:
            return out
        # What was kept beside them: of names that came or went, there, now or on the way; of lines, and of an object that came or went; and where following begins elsewhere.
        hard, ids = self._other | self._removed, {*self._new.values(), *self._old}
        moved = {row for (row,) in db.execute(f"SELECT row FROM memory WHERE anchor IN ({_INSIDE})", (json.dumps(sorted(self.between)),))}
        sql = "SELECT s.row, p.name, s.now, p.blob, p.asked, s.state FROM pathstate s CROSS JOIN place p USING(row, place) WHERE s.slot = ?"
        for row, name, now, blob, lines, state in db.execute(sql, (self.slot,)):
            now = now and bare(now)
            if name in hard or now in hard or (lines and (now or name) in self._new) or (state != SAME and (blob in ids or row in moved)):
                out.add(row)
        out |= {row for name, row in db.execute("SELECT name, row FROM pathvia WHERE slot = ?", (self.slot,)) if name in hard}
        # Of the others: names that are not there any more, or that a commit between removed, as by a rename. Of names that any commit ever removed, also what was
        # the same until now, and what a rewrite or a merge took elsewhere: for both it matters from where they are followed.
        gone = {name for name, id in self._new.items() if not id} | self._removed
        out |= {row for (row,) in db.execute(f"SELECT row FROM place WHERE name IN ({_INSIDE})", (json.dumps(sorted(gone)),))}
        removed = removals.everywhere(self.cache, [name for (name,) in db.execute("SELECT name FROM entry WHERE slot = ?", (self.slot,))])
        was = f"SELECT row FROM place WHERE name IN ({_INSIDE}) AND blob IN ({_INSIDE})"
        out |= {row for (row,) in db.execute(was, (json.dumps(sorted(removed.keys() & self._new.keys())), json.dumps(sorted(self._old))))}
        taken = self.between & self._taken()
        if taken and removed:
            sql = f"SELECT p.row, p.name FROM place p JOIN memory m USING(row) WHERE m.anchor IN ({_INSIDE})"
            out |= {row for row, name in db.execute(sql, (json.dumps(sorted(taken)),)) if name in removed}
        return out

    def _taken(self) -> set[str]:
        """The commits that have another one in their place, or that carries their change."""
        return {c for (c,) in self.cache.db.execute("SELECT commit_id FROM twin UNION SELECT old FROM move")}

    def beyond(self, rows: set[int]) -> set[int]:
        """Those of the memories that are about a commit which HEAD left behind, and about no lines: of them no history has to be asked."""
        lost = self.lost - self._taken() if self.lost and not marks.partial(self.repo) else set()
        if not lost or not rows:
            return set()
        db, asked = self.cache.db, json.dumps(sorted(rows))
        inside = {row for (row,) in db.execute(f"SELECT row FROM memory WHERE anchor IN ({_INSIDE})", (json.dumps(sorted(lost)),))}
        return (rows & inside) - {row for (row,) in db.execute(f"SELECT row FROM place WHERE row IN ({_INSIDE}) AND asked <> ''", (asked,))}

    def followed(self, places: Sequence[Place]) -> dict[drift.Wanted, str]:
        """{what is asked: its name now}, where it was followed before, and no commit since has to do with its anchor or its names."""
        if not self.base:
            return {}
        via: dict[int, set[str]] = {}
        for name, row in self.cache.db.execute("SELECT name, row FROM pathvia WHERE slot = ?", (self.slot,)):
            via.setdefault(row, set()).add(name)
        kept = staleness.read(self.cache, {row for row, _, _ in places}, self.base)
        out = {}
        for row, place, asked in places:
            state = kept.get(row, {}).get(place)
            if state is None or state.reason or state.state not in (CHANGED, RENAMED) or asked[0] in self.between:
                continue
            name = bare(state.now or asked[1])
            if name not in self._removed and bare(asked[1]) not in self._removed and self._removed.isdisjoint(via.get(row, ())):
                out[asked] = name
        return out

    def scan(self, whole: bool) -> bool:
        """Sees to it that all is known that this history removed; whether it is. `whole`: it was, at the base."""
        if _short(self.repo):
            return True  # nobody asks for it there
        try:
            if not (whole and self.base):
                self.history.scan([""])
        except removals.Open:
            return False
        return True
