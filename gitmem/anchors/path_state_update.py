"""Keeps what became of the paths of memories, for the HEAD of each worktree (`path_state_store`).

Which object lies under each name at HEAD is kept (`entry`), and says of most
paths what became of them without a word about any memory: the same object or
another one. Beside it is kept what that does not say (`pathstate`): of names
that are not there any more, or were removed at some time, and of lines.

Promise: what is kept is what `path_state.states` would say of every path, which a
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

from ..core.errors import GitFailed
from ..engine import path_state_store
from ..engine.cache import Cache
from ..engine.memory_rows import bare
from ..engine.path_state_store import CHANGED, RENAMED, SAME, UNKNOWN, WAITING
from ..git.repository import Repo
from . import deletion_index, patch_id, path_state, slots
from .reachability import Ways

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    Spot = tuple[int, path_state.Wanted]  # (number of a path as memories name it, what is asked)

_PATIENCE = 0.5  # seconds to wait for another process that writes the cache
_INSIDE = "SELECT value FROM json_each(?)"
# in the cache's `meta`: where history ended, and what was put in the place of what, when these
# states were made
_GROUND = "ground:paths"


def keep_up(
    repo: Repo, cache: Cache, heads: Sequence[str], seconds: float, ways: Ways | None = None
) -> bool:
    """Keeps the states of all paths of active memories for these HEADs, each in turn; False where
    something is left to be done. `ways`: those that the anchors went.
    """
    end = time.monotonic() + seconds
    ground = cache.meta("ground")  # as `anchor_state_update` found it
    if cache.meta(_GROUND) != ground:

        def anew(_: object) -> None:
            _forget(cache, *_slots(cache).values())
            for table in ("removal", "renamed"):
                cache.db.execute(f"DELETE FROM {table}")
            cache.set_meta(_GROUND, ground)

        if not cache.keep(_PATIENCE, anew):
            return False
    left = slots.left(cache)
    whole = [_keep_up(repo, cache, {*heads, *left}, head, end, ways or Ways()) for head in heads]
    gone = [
        slot for commit, slot in _slots(cache).items() if commit not in heads and commit not in left
    ]
    if gone:
        cache.keep(_PATIENCE, lambda _: _forget(cache, *gone))
    return all(whole)


def look_again(cache: Cache, anchors: Collection[str]) -> None:
    """Of these commits it came to be known what took their place, or carries their change: where
    paths noted there went is open until `keep_up` looked. The caller owns the transaction.
    """
    if anchors:
        sql = (
            "INSERT OR REPLACE INTO pathstate SELECT h.slot, p.spot, ?, '', '', ? FROM spot p JOIN"
            " pathhead h ON p.spot < h.spots JOIN entry e ON e.slot = h.slot AND e.name = p.name"
            f" WHERE p.anchor IN ({_INSIDE}) AND p.blob <> '' AND e.id <> p.blob AND (e.id = '' OR"
            " EXISTS (SELECT 1 FROM removal r WHERE r.path = p.name))"
        )
        cache.db.execute(sql, (UNKNOWN, WAITING, json.dumps(sorted(anchors))))


def _slots(cache: Cache) -> dict[str, int]:
    return {
        commit: int(slot)
        for slot, commit in cache.db.execute("SELECT slot, commit_id FROM pathhead ORDER BY slot")
    }


def _forget(cache: Cache, *numbers: int) -> None:
    for table in ("entry", "pathstate", "pathvia", "pathhead"):
        cache.db.executemany(f"DELETE FROM {table} WHERE slot = ?", [(slot,) for slot in numbers])


def _keep_up(
    repo: Repo, cache: Cache, stay: Collection[str], head: str, end: float, ways: Ways
) -> bool:
    """`stay`: the HEADs whose states are kept as they are."""
    had = _slots(cache)
    # From the states of this HEAD, else from where the anchors went, else of one that nobody has
    # any more, else of any.
    base = next(
        (
            c
            for c in (head, ways.base.get(head, ""), *(c for c in had if c not in stay), *had)
            if c in had
        ),
        "",
    )
    known, whole = (
        cache.db.execute(
            "SELECT spots, whole FROM pathhead WHERE slot = ?", (had[base],)
        ).fetchone()
        if base
        else (0, 0)
    )
    upto = int(cache.meta("spots", "0"))
    waiting = (
        bool(base)
        and cache.db.execute(
            "SELECT 1 FROM pathstate WHERE slot = ? AND reason = ? LIMIT 1", (had[base], WAITING)
        ).fetchone()
        is not None
    )
    short = _short(repo)
    if base == head and known == upto and (whole or short) and not waiting:
        return True
    move = _Move(repo, cache, base, head, had.get(base, -1), upto, end)
    if base and not move.walk(bool(whole), ways):
        base, move = "", _Move(repo, cache, "", head, -1, upto, end)
    names = move.names(int(known) if base else 0)
    scanned = move.scan(bool(whole))
    numbers = (
        {n for n in move.spots(int(known)) if n < upto} if base else move.all_spots(names, scanned)
    )
    beyond = move.beyond() if base else set()
    spots = _asked(cache, numbers - beyond)
    there = move.followed(spots)
    found = path_state.states(
        repo,
        cache,
        [asked for _, asked in spots],
        head,
        max(end - time.monotonic(), 0.05),
        scanned=scanned,
        known=there,
        beside=False,
        outside=move.lost.keys(),
    )
    slot = (
        had[base]
        if base and (base not in stay or base == head)
        else (
            had[head]
            if head in had
            else next(n for n in range(len(had) + 1) if n not in had.values())
        )
    )

    written = False

    def write(_: object) -> None:
        nonlocal written
        if _slots(cache) != had:
            return  # another process was there first
        if not base:
            _forget(cache, slot)
        elif slot != had[base]:
            _copy(cache, had[base], slot)
        # What was purged meanwhile leaves no name here.
        cache.db.executemany(
            "INSERT OR REPLACE INTO entry SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM spot WHERE"
            " name = ?2)",
            [(slot, name, id) for name, id in sorted(names.items())],
        )
        _leave(cache, slot, beyond)
        _write(cache, slot, spots, found, {n for n, asked in spots if asked in there})
        cache.db.execute(
            "INSERT OR REPLACE INTO pathhead VALUES(?, ?, ?, ?)",
            (slot, head, upto, int(scanned and not short)),
        )
        written = True

    return (
        cache.keep(_PATIENCE, write)
        and written
        and scanned
        and not any(s.reason == WAITING for s in found)
    )


def _copy(cache: Cache, old: int, new: int) -> None:
    _forget(cache, new)
    cache.db.execute("INSERT INTO entry SELECT ?, name, id FROM entry WHERE slot = ?", (new, old))
    cache.db.execute(
        "INSERT INTO pathstate SELECT ?, spot, state, now, lines, reason FROM pathstate WHERE"
        " slot = ?",
        (new, old),
    )
    cache.db.execute(
        "INSERT INTO pathvia SELECT ?, name, spot FROM pathvia WHERE slot = ?", (new, old)
    )


def _short(repo: Repo) -> bool:
    """Whether this clone lacks a part of its history, or its files."""
    return patch_id.partial(repo) or os.path.exists(os.path.join(repo.common_dir, "shallow"))


def _asked(cache: Cache, numbers: set[int]) -> list[Spot]:
    """What is to be asked of these spots."""
    sql = (
        f"SELECT spot, anchor, name, dir, blob, asked FROM spot WHERE spot IN ({_INSIDE}) ORDER BY"
        " spot"
    )
    return [
        (n, (anchor, name + "/" * dir, blob, lines))
        for n, anchor, name, dir, blob, lines in cache.db.execute(
            sql, (json.dumps(sorted(numbers)),)
        )
    ]


def _leave(cache: Cache, slot: int, numbers: set[int]) -> None:
    """Takes back what was said of spots at commits that HEAD left behind: of such the objects under
    their names say all, and of a name without one nothing is said.
    """
    if numbers:
        db, asked = cache.db, json.dumps(sorted(numbers))
        db.execute(f"DELETE FROM pathstate WHERE slot = ? AND spot IN ({_INSIDE})", (slot, asked))
        via = [
            (slot, *key)
            for key in db.execute(
                "SELECT name, spot FROM pathvia WHERE slot = ?", (slot,)
            ).fetchall()
            if key[1] in numbers
        ]
        db.executemany("DELETE FROM pathvia WHERE slot = ? AND name = ? AND spot = ?", via)


def _write(
    cache: Cache,
    slot: int,
    spots: Sequence[Spot],
    found: Sequence[path_state.State],
    again: set[int],
) -> None:
    """Writes what the objects under the names do not say of these spots, where it is another than
    before; `again`: those that were not followed anew.
    """
    db = cache.db
    numbers = json.dumps([n for n, _ in spots])
    here = {
        n for (n,) in db.execute(f"SELECT spot FROM spot WHERE spot IN ({_INSIDE})", (numbers,))
    }
    ids = dict(
        db.execute(
            f"SELECT name, id FROM entry WHERE slot = ? AND name IN ({_INSIDE})",
            (slot, json.dumps(sorted({bare(path) for _, (_, path, _, _) in spots}))),
        )
    )
    new = {
        n: s.row()
        for (n, asked), s in zip(spots, found, strict=True)
        if n in here and not _plain(asked, ids, s)
    }
    kept = {
        n: tuple(rest)
        for n, *rest in db.execute(
            "SELECT spot, state, now, lines, reason FROM pathstate WHERE slot = ? AND spot IN"
            f" ({_INSIDE})",
            (slot, numbers),
        )
    }
    db.executemany(
        "DELETE FROM pathstate WHERE slot = ? AND spot = ?",
        [(slot, n) for n in sorted(kept.keys() - new.keys())],
    )
    db.executemany(
        "INSERT OR REPLACE INTO pathstate VALUES(?, ?, ?, ?, ?, ?)",
        [(slot, n, *value) for n, value in sorted(new.items()) if kept.get(n) != value],
    )
    via = {(name, n) for (n, _), s in zip(spots, found, strict=True) for name in s.via if n in here}
    looked = {n for n, _ in spots}
    # By names, as they are stored: there are few, and none of most spots.
    had = {
        (name, n)
        for name, n in db.execute("SELECT name, spot FROM pathvia WHERE slot = ?", (slot,))
        if n in looked
    }
    db.executemany(
        "DELETE FROM pathvia WHERE slot = ? AND name = ? AND spot = ?",
        [(slot, *key) for key in sorted(had - via) if key[1] not in again],
    )
    db.executemany(
        "INSERT OR IGNORE INTO pathvia VALUES(?, ?, ?)", [(slot, *key) for key in sorted(via - had)]
    )


def _plain(asked: path_state.Wanted, ids: dict[str, str], state: path_state.State) -> bool:
    """Whether the object under the name says it, as `path_state_store` reads it.

    Of lines it does not: another object may hold them.
    """
    _, path, blob, lines = asked
    id = ids[bare(path)]
    if not blob or not id:
        return state == path_state.State(
            UNKNOWN, reason=path_state_store.BESIDE if blob else path_state_store.why_nothing(path)
        )
    return not lines and state == path_state.State(SAME if id == blob else CHANGED)


class _Move:
    """HEAD went from `base`, whose states are kept under `slot` ("" for none), to `head`; both may
    be the same, where only memories came.

    Of spots with a number of `upto` or above, which came meanwhile, nothing is asked.
    """

    def __init__(
        self, repo: Repo, cache: Cache, base: str, head: str, slot: int, upto: int, end: float
    ) -> None:
        self.repo, self.cache, self.base, self.head, self.slot, self.upto = (
            repo,
            cache,
            base,
            head,
            slot,
            upto,
        )
        self.tree = path_state.Tree(repo, head)
        self.history = deletion_index.History(repo, cache, head, max(0.0, end - time.monotonic()))
        self.between: Mapping[
            str, None
        ] = {}  # commits that only one of both contains, and those that not all of these contain
        self.lost: Mapping[str, None] = {}  # those of `base`
        self.gained: Mapping[str, None] = {}  # those of `head`
        self._removed: set[str] = set()  # names that these removed
        self._new: dict[
            str, str
        ] = {}  # {name that differs between both: its object at HEAD, "" for none}
        self._was: dict[str, str] = {}  # {the same: its object at the base}
        self._other: set[str] = set()  # those of them that came, went, or are something else now

    def walk(self, whole: bool, ways: Ways) -> bool:
        """Finds what is between both HEADs; False where one cannot go from one to the other.

        `whole`: what the history of `base` removed is known.
        """
        if self.base == self.head:
            return True
        try:
            found = ways.between(self.repo, self.cache, self.base, self.head)
            # there nobody asks, and where history ends git says of a commit that it removed nothing
            if not _short(self.repo):
                self.history.learn([*([] if whole else found.lost), *reversed(found.gained)])
            self._compare()  # fails where `base` is not here any more
        except (GitFailed, deletion_index.Open):
            return False
        self.lost, self.gained = found.lost, found.gained
        # Where a branch began before what lies between, a name may live on there that was removed
        # beside it.
        self.between = {**found.both, **found.knots} if found.knots else found.both
        self._removed = deletion_index.of(self.cache, self.between)
        return True

    def _compare(self) -> None:
        tokens = iter(
            self.repo.git.run(
                "diff-tree",
                "-r",
                "-t",
                "--no-renames",
                "--raw",
                "--no-abbrev",
                "-z",
                self.base,
                self.head,
            )
            .decode("utf-8", "replace")
            .split("\0")
        )
        for token in tokens:
            if token:
                _, _, old, id, status = token.split(" ")
                name = next(tokens)
                if status != "A":
                    self._was[name] = old  # a file that became a directory comes twice
                if status != "M":
                    self._other.add(name)
                if status == "D":
                    self._new.setdefault(name, "")
                else:
                    self._new[name] = id

    def names(self, known: int) -> dict[str, str]:
        """{name of a path: its object at HEAD, "" for none}, of those that differ, and those that
        no spot with a number below `known` has.
        """
        db = self.cache.db
        came = [
            name
            for (name,) in db.execute(
                "SELECT DISTINCT name FROM spot WHERE spot >= ? AND spot < ? AND name NOT IN"
                " (SELECT name FROM entry WHERE slot = ?)",
                (known, self.upto, self.slot),
            )
        ]
        if (
            self.base != self.head
            and self.base
            and db.execute(
                "SELECT 1 FROM entry WHERE slot = ? AND name = '.'", (self.slot,)
            ).fetchone()
        ):
            came.append(".")
        self.tree.ask(came)
        kept = {
            name
            for (name,) in db.execute(
                f"SELECT name FROM entry WHERE slot = ? AND name IN ({_INSIDE})",
                (self.slot, json.dumps(sorted(self._new))),
            )
        }
        return {
            **{name: self._new[name] for name in kept},
            **{name: self.tree.id(name) for name in came},
        }

    def all_spots(self, names: dict[str, str], scanned: bool) -> set[int]:
        """The spots of which the objects under their names do not say all, where nothing is kept.

        `names`: those objects; `scanned`: whether all is known that was removed.
        """
        sure = scanned and not _short(self.repo)
        removed = deletion_index.everywhere(self.cache, names) if sure else names
        out = set()
        for n, name, blob, lines in self.cache.db.execute(
            "SELECT spot, name, blob, asked FROM spot WHERE spot < ?", (self.upto,)
        ):
            if lines or (blob and names[name] != blob and (name in removed or not names[name])):
                out.add(n)
        return out

    def spots(self, known: int) -> set[int]:
        """Those of which something else may be to be kept now, beside the objects under their
        names.
        """
        db = self.cache.db
        out = {n for (n,) in db.execute("SELECT spot FROM spot WHERE spot >= ?", (known,))}
        out |= {
            n
            for (n,) in db.execute(
                "SELECT spot FROM pathstate WHERE slot = ? AND reason = ?", (self.slot, WAITING)
            )
        }
        if self.base == self.head:
            return out
        # What was kept beside them: of names that came or went, there, now or on the way; of lines,
        # and of an object that came or went; and where following begins elsewhere.
        hard, ids = self._other | self._removed, {*self._new.values(), *self._was.values()}
        sql = (
            "SELECT spot, p.name, s.now, p.blob, p.asked, s.state, p.anchor FROM pathstate s CROSS"
            " JOIN spot p USING(spot) WHERE s.slot = ?"
        )
        for n, name, now, blob, lines, state, anchor in db.execute(sql, (self.slot,)):
            now = now and bare(now)
            if (
                name in hard
                or now in hard
                or (lines and (now or name) in self._new)
                or (state != SAME and (blob in ids or anchor in self.between))
            ):
                out.add(n)
        out |= {
            n
            for name, n in db.execute("SELECT name, spot FROM pathvia WHERE slot = ?", (self.slot,))
            if name in hard
        }
        # Of the others: names that are not there any more, or that a commit between removed, as by
        # a rename. Of names that any commit ever removed, also what was the same until now, and
        # what a rewrite or a merge took elsewhere: for both it matters from where they are
        # followed.
        gone = {name for name, id in self._new.items() if not id} | self._removed
        out |= {
            n
            for (n,) in db.execute(
                f"SELECT spot FROM spot WHERE name IN ({_INSIDE})", (json.dumps(sorted(gone)),)
            )
        }
        removed = deletion_index.everywhere(
            self.cache,
            [name for (name,) in db.execute("SELECT name FROM entry WHERE slot = ?", (self.slot,))],
        )
        for name in removed.keys() & self._was.keys():
            out.update(
                n
                for (n,) in db.execute(
                    "SELECT spot FROM spot WHERE name = ? AND blob = ?", (name, self._was[name])
                )
            )
        # What HEAD had neither of, and has the commit of now; of lines, what another object may
        # hold now.
        nothing = (
            "SELECT spot, anchor, name, p.asked FROM spot p JOIN entry e USING(name) WHERE e.slot ="
            " ? AND e.id = ''"
        )
        out |= {
            n
            for n, anchor, name, lines in db.execute(nothing, (self.slot,))
            if anchor in self.gained or (lines and name in self._new)
        }
        taken = {c for c in self._taken() if c in self.between}
        if taken and removed:
            out |= {
                n
                for n, name in db.execute(
                    f"SELECT spot, name FROM spot WHERE anchor IN ({_INSIDE})",
                    (json.dumps(sorted(taken)),),
                )
                if name in removed
            }
        return out

    def _taken(self) -> set[str]:
        """The commits that have another one in their place, or that carries their change."""
        return {
            c
            for (c,) in self.cache.db.execute(
                "SELECT commit_id FROM twin UNION SELECT old FROM move"
            )
        }

    def beyond(self) -> set[int]:
        """The spots at commits which HEAD left behind, but for those of lines: of them no history
        has to be asked.
        """
        lost = self.lost
        if not lost or patch_id.partial(self.repo):
            return set()
        taken = self._taken()
        return {
            n
            for n, anchor in self.cache.db.execute("SELECT spot, anchor FROM spot WHERE asked = ''")
            if anchor in lost and anchor not in taken
        }

    def followed(self, spots: Sequence[Spot]) -> dict[path_state.Wanted, str]:
        """{what is asked: its name now}, where it was followed before, and no commit since has to
        do with its anchor or its names.
        """
        if not self.base:
            return {}
        via: dict[int, set[str]] = {}
        for name, n in self.cache.db.execute(
            "SELECT name, spot FROM pathvia WHERE slot = ?", (self.slot,)
        ):
            via.setdefault(n, set()).add(name)
        kept = path_state_store.of_spots(self.cache, [n for n, _ in spots], self.base)
        out = {}
        for n, asked in spots:
            state = kept.get(n)
            if (
                state is None
                or state.reason
                or state.state not in (CHANGED, RENAMED)
                or asked[0] in self.between
            ):
                continue
            name = bare(state.now or asked[1])
            if (
                name not in self._removed
                and bare(asked[1]) not in self._removed
                and self._removed.isdisjoint(via.get(n, ()))
            ):
                out[asked] = name
        return out

    def scan(self, whole: bool) -> bool:
        """Sees to it that all is known that this history removed; whether it is.

        `whole`: it was, at the base.
        """
        if _short(self.repo):
            return True  # nobody asks for it there
        try:
            if not (whole and self.base):
                self.history.scan([""])
        except deletion_index.Open:
            return False
        return True
