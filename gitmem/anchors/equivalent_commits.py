"""Commits that carry the change of another: what a squash merge, a cherry-pick or a rebase
elsewhere leaves behind.

A commit is a twin of another if its patch-id is that of the other, or that of
a branch which held the other when a memory was made, or holds it now. It must
lie in the history of the revision that is asked about, and not in the history
of the other: what was there before the branch began is no merge of it.

Promise: what was found stays found, also when the branch is gone; what was
sought in vain is not sought again for the same revision, unless new marks
arrive or branches move. Where time ran out nothing is concluded.
"""

from __future__ import annotations

import json

from ..engine.cache import Cache
from ..git import refs_mtime
from ..git.repository import Repo
from . import patch_id
from .patch_id_cache import Patches
from .reachability import Ancestry, floor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any

RECENT = 2_000  # commits looked at for a commit that is not here and came without its base
_TIPS = 2_000  # branches an answer waits for
# former positions of HEAD that count as tips: a branch may have been deleted right after its merge
_REFLOG = 64
_HEX, _EXPRESSION = frozenset("0123456789abcdef"), frozenset("~^:@")
_UNSTATED = "unstated"  # in the cache's `meta`
_PAIRS = 200  # pairs whose order takes a git process each


def known(cache: Cache, commits: Iterable[str]) -> dict[str, list[str]]:
    """{commit: its twins, wherever they are} as earlier searches found them."""
    out: dict[str, list[str]] = {}
    for commit, other in cache.db.execute(
        "SELECT commit_id, other FROM twin WHERE commit_id IN (SELECT value FROM json_each(?))"
        " ORDER BY 1, 2",
        (json.dumps(sorted(commits)),),
    ):
        out.setdefault(commit, []).append(other)
    return out


def search(
    repo: Repo,
    cache: Cache,
    wanted: Iterable[str],
    line: Ancestry,
    patches: Patches,
    again: bool = False,
    main: Collection[str] = (),
) -> tuple[dict[str, str], set[str]]:
    """({commit: its twin in the history of the revision}, commits for which time did not suffice).

    `line` was asked about the commits; those that the revision contains are no use here. `again`:
    also what was sought in vain. `main`: commits that are known to be on a main line. What was
    found is noted in `patches`, which the caller saves."""
    names = sorted(wanted)
    if again:
        return (
            _Search(repo, cache, line, patches, note=False).run(names, main)
            if names
            else ({}, set())
        )
    vain = (
        set()
        if _moved(repo, cache)
        else {
            c
            for (c,) in cache.db.execute(
                "SELECT commit_id FROM sought WHERE head = ? AND commit_id IN (SELECT value FROM"
                " json_each(?))",
                (line.heads[0], json.dumps(names)),
            )
        }
    )
    left = [c for c in names if c not in vain]
    if patches.left() <= 0:
        return {}, set(left)
    return _Search(repo, cache, line, patches).run(left) if left else ({}, set())


def _moved(repo: Repo, cache: Cache) -> bool:
    """Whether branches moved since something was sought in vain: one that a fetch brought may have
    grown out of an anchor. It is forgotten then.
    """
    if refs_mtime.same(repo.common_dir, cache.meta("sought")):
        return False
    now = refs_mtime.stamp(repo.common_dir, wait=False)

    def write(db: Any) -> None:
        db.execute("DELETE FROM sought")
        cache.set_meta("sought", now)

    cache.keep(0.05, write)
    return True


def to_state(cache: Cache, patches: Patches, seen: set[tuple[str, str, str, str]]) -> None:
    """Notes marks (commit, patch, base, branch_patch) by which twins were found and which no record
    has.

    Only this clone knows them, and for as long as it keeps the branch: the worker writes them down.
    """
    if seen:
        rows = seen.union(map(tuple, unstated(cache)))
        patches.note(
            "INSERT OR REPLACE INTO meta VALUES(?, ?)", _UNSTATED, json.dumps(sorted(rows))
        )


def unstated(cache: Cache) -> list[list[str]]:
    """The marks that `to_state` noted, each [commit, patch, base, branch_patch]."""
    found: list[list[str]] = json.loads(cache.meta(_UNSTATED) or "[]")
    return found


def stated(cache: Cache) -> None:
    """The noted marks are in the notes now."""
    cache.keep(0.5, lambda _: cache.set_meta(_UNSTATED, ""))


class _Search:
    def __init__(
        self, repo: Repo, cache: Cache, line: Ancestry, patches: Patches, note: bool = True
    ) -> None:
        self.note = note  # what was sought in vain; the worker keeps that as states
        self.repo = repo
        self.cache = cache
        self.line = line
        (self.head,) = line.heads
        self.patches = patches
        # of the commits of the revision's history since the first branch began, the newest first
        self.places: dict[str, int] = {}
        self.floor = ""  # what that history was read down to, "" for all of it
        self.recent: set[str] = set()
        self.points: dict[str, set[str]] = {}
        self.known: dict[str, list[str]] = {}
        self._pairs = _PAIRS

    def run(self, left: list[str], main: Collection[str] = ()) -> tuple[dict[str, str], set[str]]:
        ids = marks_of(self.cache, left)
        self.known = known(self.cache, left)
        self.points = self._points(left, ids)
        self._history(left)
        if not self.places and not self.recent and self.note:
            return self._finish(left, {}, set())
        # The worker learns about branches also where nothing can carry them yet: later it compares
        # new commits only.
        whole = self.patches.learn([*self.places, *self.recent])
        unmarked = [
            c for c in left if c in self.line.here and not any(patch for patch, _, _ in ids[c])
        ]
        whole = self.patches.learn(unmarked) and whole
        for commit, id in self.patches.own(unmarked).items():
            ids[commit].add((id, "", ""))
        found = self._match(
            {
                c: {id for patch, _, combined in ids[c] for id in (patch, combined) if id}
                for c in left
            }
        )
        seen = {(c, patch, "", "") for c in unmarked if c in found for patch, _, _ in ids[c]}
        rest = [c for c in left if c not in found and c in self.line.here and c not in main]
        grown, all_of_it = grown_branches(self.repo, self.patches, rest, self.line, needed=True)
        found.update(self._match({c: {id for _, _, id in rows} for c, rows in grown.items()}))
        changes = self.patches.own(found.values())
        for commit in found.keys() & grown.keys():
            seen |= {
                (commit, "", base, id)
                for _, base, id in grown[commit]
                if id == changes[found[commit]]
            }
        to_state(self.cache, self.patches, seen)
        unsure = {
            c for c in left if c not in found and (not whole or not all_of_it or self._pairs <= 0)
        }
        return self._finish(left, found, unsure)

    def _finish(
        self, left: list[str], found: dict[str, str], unsure: set[str]
    ) -> tuple[dict[str, str], set[str]]:
        for commit in left:
            if self.note and commit not in found and commit not in unsure:
                self.patches.note("INSERT OR REPLACE INTO sought VALUES(?, ?)", commit, self.head)
        return found, unsure

    def _points(
        self, left: list[str], ids: dict[str, set[tuple[str, str, str]]]
    ) -> dict[str, set[str]]:
        """{commit: where its branch began}, from git, else from its marks; commits for which
        neither is known are left out.
        """
        out = {c: set(self.line.forks(c)) for c in left if c in self.line.here}
        gone = {c: {base for _, base, _ in ids[c] if base} for c in left if c not in out}
        bases = sorted(set().union(*gone.values()))
        there = (
            {
                b
                for b, id in zip(
                    bases, self.repo.git.ids([f"{b}^{{commit}}" for b in bases]), strict=True
                )
                if id
            }
            if bases
            else set()
        )
        out.update({c: found & there for c, found in gone.items() if found & there})
        return out

    def _history(self, left: list[str]) -> None:
        """Reads the part of the revision's history in which twins can lie."""
        git = self.repo.git
        if self.points:
            began = sorted(set().union(*self.points.values()))
            if all(self.points.values()):
                self.floor = floor(self.repo.git, self.head, began)
            if self.floor != self.head:
                listed = git.text(
                    "rev-list",
                    "--topo-order",
                    self.head,
                    *(["^" + self.floor] if self.floor else []),
                    "--",
                ).split()
                self.places = {c: i for i, c in enumerate(listed)}
        if any(c not in self.points for c in left):
            self.recent = set(
                git.text("rev-list", f"--max-count={RECENT}", self.head, "--").split()
            )

    def _match(self, wanted: dict[str, set[str]]) -> dict[str, str]:
        """{commit: its first twin}, of {commit: patch-ids a twin may have}."""
        holders = self.patches.holders(set().union(*wanted.values())) if wanted else {}
        # Once for each patch-id: all the amended forms of a commit have the same one.
        holders = {
            id: [c for c in found if c in self.places or c in self.recent]
            for id, found in holders.items()
        }
        out = {}
        for commit, ids in wanted.items():
            candidates = {c for id in ids for c in holders.get(id, ())} - {commit}
            later = [c for c in candidates if self._later(commit, c)]
            if later:
                out[commit] = max(later, key=lambda c: (self.places.get(c, 0), c))
        return out

    def _later(self, commit: str, other: str) -> bool:
        """Whether a commit with the same change lies in the revision's history, and not in that of
        `commit`.
        """
        if commit not in self.points:
            later = other in self.recent
        elif other not in self.places or self.head in self.points[commit]:
            return False  # the whole history of the revision is in that of the commit
        else:
            later = all(self._beside(other, point) for point in self.points[commit])
        if later and other not in self.known.get(commit, ()):
            self.patches.note("INSERT OR REPLACE INTO twin VALUES(?, ?)", commit, other)
        return later

    def _beside(self, commit: str, point: str) -> bool:
        """Whether `point` does not contain a commit of the history that was read."""
        place = self.places.get(point)
        # In topological order no commit stands before one that contains it.
        if point == self.floor or (place is not None and self.places[commit] < place):
            return True
        self._pairs -= 1
        return (
            self._pairs >= 0
            and self.repo.git.run_status("merge-base", "--is-ancestor", commit, point, ok=(0, 1))[1]
            == 1
        )


def grown_branches(
    repo: Repo, patches: Patches, commits: list[str], line: Ancestry, needed: bool = False
) -> tuple[dict[str, list[tuple[str, str, str]]], bool]:
    """({commit: [(tip, base, patch-id)]} of the branches that hold these commits now, whether time
    sufficed).

    A branch that grew after a memory was made is merged with all it became. Tips are those of
    branches here and on remotes, and where HEAD was lately. A branch is what neither the revision
    nor a main line contains: else, from an old revision, each branch would be all of the main line
    since, and itself. Who is in a hurry looks at the newest `_TIPS` only, and has not seen all.
    `needed`: only those that a commit of the revision could carry, which is none of a branch that
    contains it."""
    if not commits or patches.left() <= 0:
        return {}, not commits
    git = repo.git
    tips = git.text(
        "for-each-ref",
        "--sort=-committerdate",
        "--format=%(objectname)",
        "refs/heads",
        "refs/remotes",
    ).split()
    whole = not patches.hurried or len(tips) <= _TIPS
    tips = tips if whole else tips[:_TIPS]
    tips += _lately(repo)
    main = patch_id.main_lines(repo)
    around = Ancestry(
        git,
        list(dict.fromkeys([*(line.heads if line.within not in main else ()), *main])),
        [*tips, *commits],
        line.line,
    )
    tips = [t for t in dict.fromkeys(tips) if t in around.beyond]
    rows = {c: found or [c] for c, found in around.containing(tips, commits).items()}
    bases = {
        t: _base(repo, around, t)
        for t in dict.fromkeys(t for found in rows.values() for t in found)
    }
    if needed:
        for tip in [t for t, base in bases.items() if base in line.heads]:
            patches.later(tip, bases.pop(tip))
    ids = patches.branches((t, base) for t, base in bases.items() if base)
    out = {
        c: [
            (t, bases[t], ids[t, bases[t]])
            for t in found
            if (t, bases.get(t, "")) in ids and ids[t, bases[t]]
        ]
        for c, found in rows.items()
    }
    return out, whole and all((t, base) in ids for t, base in bases.items() if base)


def _lately(repo: Repo) -> list[str]:
    """Where HEAD was lately, less the single commits that a bisection or a look at an old release
    goes to.
    """
    rows = [
        row.split(" ")
        for row in repo.git.text(
            "log", "-g", f"--max-count={_REFLOG}", "--format=%H %gs", "HEAD", "--", ok=(0, 128)
        ).splitlines()
    ]
    return [
        row[0]
        for row in rows
        if row[1] != "checkout:"
        or not (_HEX.issuperset(row[-1]) or _EXPRESSION.intersection(row[-1]))
    ]


def _base(repo: Repo, around: Ancestry, tip: str) -> str:
    """Where a branch left the histories of the revision and of the main lines, for the last time if
    it took some of them in.
    """
    began = around.forks(tip)
    return (
        next(iter(began))
        if len(began) == 1
        else repo.git.text("merge-base", tip, *around.heads, ok=(0, 1))
        if began
        else ""
    )


def marks_of(cache: Cache, commits: Iterable[str]) -> dict[str, set[tuple[str, str, str]]]:
    """{commit: {(patch, base, branch_patch)}} as records say it."""
    out: dict[str, set[tuple[str, str, str]]] = {c: set() for c in commits}
    asked = json.dumps(list(out))
    for commit, patch, base, combined in cache.db.execute(
        "SELECT commit_id, patch, base, branch_patch FROM anchor WHERE commit_id IN (SELECT value"
        " FROM json_each(?))",
        (asked,),
    ):
        out[commit].add((patch, base, combined))
    return out
