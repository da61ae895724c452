"""Marks: records that state patch-ids of commits and branches, for clones that lack these.

Promise: a mark states what git computes, so two clones write the same line. With nothing to mark it
costs two git processes.
"""

from __future__ import annotations

from ..core import record
from ..core.digest import sha256
from ..engine.cache import Cache
from ..engine.memory_rows import SCOPE_BITS
from ..store import Store
from . import anchor_state, equivalent_commits
from .patch_id import PatchIds, main_lines, marks_of
from .reachability import Reachability

Marks = list[tuple[str, bytes]]  # commits, and lines of marks about them

PUBLISH = 5.0  # seconds a sync spends on marks; the next one goes on


def publish(store: Store) -> int:
    """Writes the marks that other clones lack, for `sync` to take along; returns how many."""
    scopes = [scope for scope, notes in store.sources if notes.tip()]
    return write_found(store) + sum(_append(store, s, missing(store, s)) for s in scopes)


def write_found(store: Store) -> int:
    """Writes the marks by which this clone saw that commits were merged; returns how many."""

    def read(cache: Cache) -> dict[str, Marks]:
        seen = equivalent_commits.unstated(cache)
        known = marks_of(cache, {commit for commit, *_ in seen})
        lacking = [row for row in seen if tuple(row[1:]) not in known[row[0]]]
        out: dict[str, Marks] = {}
        for scope, _ in store.sources if lacking else ():
            anchors = anchor_state.of_memories(cache, SCOPE_BITS[scope], most=1)
            chains = anchor_state.moves(cache, anchors).values()
            about = {commit for chain in chains for commit in chain}
            out[scope] = [(r[0], record.dump(record.mark(*r))) for r in lacking if r[0] in about]
        return out

    found = store.with_cache(read, refresh=False)[0]
    written = sum(_append(store, scope, marks) for scope, marks in found.items())
    if found:
        store.with_cache(equivalent_commits.stated)
    return written


def _append(store: Store, scope: str, marks: Marks) -> int:
    if marks:
        store.append(scope, marks, f"git mem: mark {len(marks)} commit{'s' * (len(marks) != 1)}")
    return len(marks)


def missing(store: Store, scope: str) -> Marks:
    """The marks that no record states yet, of commits and branches beside the main lines.

    A branch is marked when its tip is on a remote, or was squashed: until then it may grow.
    """
    repo = store.repo
    main = main_lines(repo)
    if not main or anchor_state.shallow(repo):
        return []
    shape = "--format=%(refname) %(objectname)"
    branches = repo.git.text("for-each-ref", shape, "refs/heads", "refs/remotes").splitlines()
    stamp = sha256(repr((store.notes(scope).tip(), branches)).encode()).hexdigest()
    pushed = {row.partition(" ")[2] for row in branches if row.startswith("refs/remotes/")}

    def read(cache: Cache) -> Marks:
        if cache.meta("marks:" + scope) == stamp:
            return []
        anchors = anchor_state.of_memories(cache, SCOPE_BITS[scope])
        chains = anchor_state.moves(cache, anchors).values()
        reached = Reachability(repo.git, main, {c for chain in chains for c in chain})
        # What a rewrite brought to a main line is found by its moves: of N amends of a commit none
        # needs a mark.
        beside = [chain for chain in chains if not any(map(reached.contains, chain))]
        commits = sorted({c for chain in beside for c in chain})
        for head in main:  # learns which branches were squashed, of those that are not on a remote
            anchor_state.states(repo, cache, commits, head, PUBLISH, kept=False)
        ids = PatchIds(repo, cache, PUBLISH)
        stated = marks_of(cache, commits)
        commits = [c for c in commits if c in reached.beyond]
        grown, whole = equivalent_commits.grown_branches(repo, ids, commits, main)
        # {commit: {branch_patch: base}}
        lacking: dict[str, dict[str, str]] = {c: {} for c in commits if not stated[c]}
        for commit, rows in grown.items():
            said = {combined for _, _, combined in stated[commit]}
            for tip, base, id in rows:
                if id not in said and (tip == commit or tip in pushed or ids.holders([id])):
                    lacking.setdefault(commit, {})[id] = base
        whole = ids.learn(lacking) and whole
        own = ids.of_commits(lacking)
        ids.save()
        found = [
            (commit, record.dump(record.mark(commit, own.get(commit, ""), base, id)))
            for commit, bases in lacking.items()
            for id, base in sorted(bases.items()) or ([("", "")] if commit in own else [])
        ]
        if whole and not found:
            cache.keep(0.5, lambda db: cache.set_meta("marks:" + scope, stamp))
        return found

    return store.with_cache(read)[0]
