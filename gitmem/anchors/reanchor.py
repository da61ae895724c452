"""What becomes of anchors: marks for other clones, moves after a rewrite, and those that were lost.

Promise: nothing is guessed. A mark states what git computes, so two clones
write the same line; a move is written only where somebody says which commit
took the place of which; what nobody knows is listed, with commits that carry
the same change as an offer. With nothing to do it costs two git processes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..core import record
from ..core.digest import sha256
from ..core.errors import MemError
from ..engine import anchor_state_store, cache_lock, path_state_store
from ..engine.cache import Cache
from ..engine.document import SCOPE_BITS
from ..git import commitgraph
from ..git.repository import Repo
from ..hooks import spool
from ..store import Store
from . import (
    anchor_state,
    anchor_state_update,
    deletion_index,
    equivalent_commits,
    lineage,
    patch_id,
    patch_id_cache,
    path_state_update,
    reinstate,
    slots,
)
from .patch_id_cache import Patches
from .reachability import Ancestry, Ways

PUBLISH = 5.0  # seconds a sync spends on marks; the next one goes on
OFFER = 2.0  # seconds doctor looks for commits with the same change
BACKGROUND = 200.0  # seconds a search in the background goes on: some 500,000 commits
_OFFERED = 2_000  # commits of other branches looked at for an offer


# Searching on


def _lock(store: Store) -> str:
    return os.path.join(store.repo.mem_dir, "anchors")


def go_on_later(
    store: Store,
    cache: Cache,
    stands: dict[str, anchor_state.Stand],
    ages: Mapping[int, Sequence[path_state_store.State]] | None = None,
) -> None:
    """Starts a process that finishes the search of which an answer did not see the end, writes down
    what it found out, or looks at branches which moved since it last did, unless one is running."""
    waits = anchor_state.waiting(stands) or path_state_store.waiting(ages or {})
    if (
        waits
        or equivalent_commits.unstated(cache)
        or anchor_state_store.may_have_moved(cache, store.repo.common_dir)
    ):
        with cache_lock.locked(_lock(store), 0) as free:
            pass
        if free:
            spool.ask(store.repo.common_dir)


def finish(store: Store, seconds: float = BACKGROUND) -> None:
    """Searches the history of every worktree's HEAD for all anchors, and keeps where they stand
    (`anchor_state_store`) and what became of their paths (`path_state_store`).

    Every few seconds what was found is kept, so the next call goes on there.
    """
    if not os.path.isdir(store.repo.mem_dir):
        return
    repo = store.repo
    ways = Ways()  # the anchors and the paths go the same ones

    def search(cache: Cache) -> None:
        ground = anchor_state_update.Ground(repo, cache)
        ways.tips = ground.tips
        heads = repo.heads()
        fresh = dict(cache.db.execute("SELECT commit_id, n FROM fresh").fetchall())
        if (
            ground.kept
            and not fresh
            and set(heads) == set(anchor_state_store.slots(cache))
            and not anchor_state_store.any_for(cache, anchor_state_store.WAITING)
        ):
            if cache.meta(anchor_state_store.REFS) == ground.refs:
                return
            # refs were packed, or are back where they were; with `git gc` commits that nothing
            # holds go, too
            if not anchor_state_store.any_for(cache, anchor_state_store.ABANDONED):
                cache.keep(0.5, lambda _: cache.set_meta(anchor_state_store.REFS, ground.refs))
                return

        def settled() -> None:
            again = anchor_state.joined(cache, fresh)
            slots.leave(cache, heads, ways.left & (ground.before | ground.tags_before))
            slots.look_again(cache, again.union(fresh))
            ground.keep()
            cache.db.executemany(
                "DELETE FROM fresh WHERE commit_id = ? AND n IS ?", list(fresh.items())
            )
            path_state_update.look_again(cache, again)

        whole = True
        for head in heads:
            whole = (
                _stand(
                    repo,
                    cache,
                    ground,
                    heads,
                    head,
                    set(fresh),
                    seconds,
                    settled if whole and head == heads[-1] else None,
                    ways,
                )
                and whole
            )

    with cache_lock.locked(_lock(store), 0) as free:
        if free:
            end = time.monotonic() + seconds
            with commitgraph.used(repo):
                store.with_cache(search, refresh=False)
                store.with_cache(
                    lambda cache: reinstate.settle(
                        repo, cache, store.table, end - time.monotonic(), True
                    ),
                    refresh=False,
                )
                store.with_cache(
                    lambda cache: path_state_update.keep_up(
                        repo, cache, repo.heads(), end - time.monotonic(), ways
                    ),
                    refresh=False,
                )
                store.with_cache(
                    lambda cache: patch_id_cache.keep_up(repo, cache, end - time.monotonic()),
                    refresh=False,
                )
                store.with_cache(
                    lambda cache: lineage.ahead(cache, ways.tips, end - time.monotonic()),
                    refresh=False,
                )
            commitgraph.keep(repo, store.with_cache(deletion_index.looked_at, refresh=False)[0])


def _stand(
    repo: Repo,
    cache: Cache,
    ground: anchor_state_update.Ground,
    heads: list[str],
    head: str,
    fresh: set[str],
    seconds: float,
    also: Callable[[], None] | None,
    ways: Ways,
) -> bool:
    """Keeps the states of all anchors for a HEAD, and does `also` in the same transaction; False
    where nothing could be written.
    """
    begun = anchor_state_update.begin(repo, cache, ground, heads, head, ways)
    if begun is None:

        def anew() -> None:
            slots.forget(cache)
            if also is not None:
                also()

        return slots.keep(
            cache,
            head,
            anchor_state.stands(
                repo, cache, anchors(cache) | covering(cache) | fresh, head, seconds, again=True
            ),
            heads,
            anew,
        )
    base, slot, ground = begun
    move = anchor_state_update.Move(repo, cache, ground, base, slot, head, seconds, ways)
    changed = move.changes(fresh)
    carried = (
        [a for a, s in changed.items() if s.state == anchor_state.SQUASHED] if base == head else []
    )

    def follow() -> None:
        path_state_update.look_again(cache, carried)
        if also is not None:
            also()

    stays = base != head and (
        base in heads or (base in ways.left and base in ground.before | ground.tags_before)
    )
    return slots.change(cache, slot, head, changed, stays, follow if carried else also)


def anchors(cache: Cache, bits: int = 3, most: int = 0) -> set[str]:
    """The commits that memories are about: of these scopes, up to this status (0: the active
    ones)."""
    rows = cache.db.execute(
        "SELECT DISTINCT anchor FROM memory WHERE status <= ? AND scope & ? > 0 AND anchor <> ''",
        (most, bits),
    )
    return {a for (a,) in rows if record.object_id(a)}


def covering(cache: Cache) -> set[str]:
    """The commits from which on memories are superseded."""
    return {at for (at,) in cache.db.execute("SELECT DISTINCT at FROM cover WHERE at <> ''")}


# Marks


def publish(store: Store) -> int:
    """Writes the marks that other clones lack, for `sync` to take along; returns how many."""
    return state(store) + sum(
        _mark(store, scope, missing(store, scope)) for scope, notes in store.sources if notes.tip()
    )


def state(store: Store) -> int:
    """Writes the marks by which this clone saw that a commit was merged, before it forgets the
    branch; returns how many.
    """

    def read(cache: Cache) -> dict[str, list[tuple[str, bytes]]]:
        seen = equivalent_commits.unstated(cache)
        known = equivalent_commits.marks_of(cache, {commit for commit, *_ in seen})
        lacking = [row for row in seen if tuple(row[1:]) not in known[row[0]]]
        out = {}
        for scope, _ in store.sources if lacking else ():
            ways = anchor_state.moves(cache, anchors(cache, SCOPE_BITS[scope], most=1))
            about = {commit for way in ways.values() for commit in way}
            out[scope] = [
                (row[0], record.dump(record.mark(*row))) for row in lacking if row[0] in about
            ]
        return out

    found = store.with_cache(read, refresh=False)[0]
    written = sum(_mark(store, scope, items) for scope, items in found.items())
    if found:
        store.with_cache(equivalent_commits.stated)
    return written


def _mark(store: Store, scope: str, items: list[tuple[str, bytes]]) -> int:
    if items:
        store.append(scope, items, f"git mem: mark {len(items)} commit{'s' * (len(items) != 1)}")
    return len(items)


def missing(store: Store, scope: str, seconds: float = PUBLISH) -> list[tuple[str, bytes]]:
    """[(anchor, line of a mark)]: what records do not say yet about commits beside the main line,
    and about the branches they are on.

    A branch is told of when its tip is on a remote, or was squashed: before
    that each new commit would change it.
    """
    repo = store.repo
    main = patch_id.main_lines(repo)
    if not main or os.path.exists(os.path.join(repo.common_dir, "shallow")):
        return []
    branches = repo.git.text(
        "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/remotes"
    ).splitlines()
    stamp = sha256(repr((store.notes(scope).tip(), branches)).encode()).hexdigest()
    pushed = {row.partition(" ")[2] for row in branches if row.startswith("refs/remotes/")}

    def read(cache: Cache) -> list[tuple[str, bytes]]:
        if cache.meta("marks:" + scope) == stamp:
            return []
        ways = anchor_state.moves(cache, anchors(cache, SCOPE_BITS[scope]))
        line = Ancestry(repo.git, main, {c for way in ways.values() for c in way})
        # What a rewrite brought to a main line is found by its moves: of N amends of a commit none
        # needs a mark.
        commits = sorted(
            {c for way in ways.values() if not any(map(line.contains, way)) for c in way}
        )
        for head in main:  # learns which branches were squashed, for what is not on a remote
            anchor_state.stands(repo, cache, commits, head, seconds)
        patches = Patches(repo, cache, seconds)
        found, whole = _marks(
            store, cache, patches, [c for c in commits if c in line.beyond], line, pushed
        )
        patches.save()
        if whole and not found:
            cache.keep(0.5, lambda db: cache.set_meta("marks:" + scope, stamp))
        return found

    return store.with_cache(read)[0]


def _marks(
    store: Store,
    cache: Cache,
    patches: Patches,
    beside: list[str],
    line: Ancestry,
    pushed: set[str],
) -> tuple[list[tuple[str, bytes]], bool]:
    stated = equivalent_commits.marks_of(cache, beside)
    grown, whole = equivalent_commits.grown_branches(store.repo, patches, beside, line)
    lacking: dict[str, dict[str, str]] = {
        c: {} for c in beside if not stated[c]
    }  # {commit: {branch_patch: base}}
    for commit, rows in grown.items():
        said = {combined for _, _, combined in stated[commit]}
        for tip, base, id in rows:
            if id not in said and (tip == commit or tip in pushed or patches.holders([id])):
                lacking.setdefault(commit, {})[id] = base
    whole = patches.learn(lacking) and whole
    own = patches.own(lacking)
    out = []
    for commit, branches in lacking.items():
        for id, base in sorted(branches.items()) or ([("", "")] if commit in own else []):
            out.append((commit, record.dump(record.mark(commit, own.get(commit, ""), base, id))))
    return out, whole


# Moves


class Moved:
    """What became of a list of moves; `moved`: (old, new, memories)."""

    def __init__(self) -> None:
        self.moved: list[tuple[str, str, int]] = []
        self.known = 0
        self.dropped: list[str] = []
        self.refused: list[
            tuple[str, str]
        ] = []  # new commits that are not here, with the old ones they were to replace


def commit_of(store: Store, name: str) -> str:
    """The commit with memories that `name` means: an id or its unique begin, also of a commit that
    is gone, or a revision. Raises MemError.
    """
    word = name.strip().lower()
    known = store.with_cache(_movable)[0]
    if word in known:
        return word
    found = store.repo.commit(name)
    if found in known:
        return str(found)
    some = sorted(c for c in known if len(word) >= 4 and c.startswith(word))
    if len(some) == 1:
        return some[0]
    if some:
        raise MemError(
            f"'{name[:80]}' is ambiguous: {', '.join(c[:12] for c in some[:5])}",
            hint="type more digits",
        )
    raise MemError(
        f"no memory is about a commit '{name[:80]}'",
        hint="`git mem list --all --json` shows the commits of all memories",
    )


def reanchor(store: Store, pairs: Iterable[tuple[str, str]]) -> Moved:
    """Says of old commits (full ids) which new ones took their place; commits without memories are
    passed over.

    A new id of zeros means that the commit was dropped. One commit of the notes for all.
    """
    out = Moved()
    known = store.with_cache(_movable)[0]
    wanted = {old: new for old, new in pairs if old in known and old != new}
    out.dropped = sorted(old for old, new in wanted.items() if not new.strip("0"))
    asked = [(old, new) for old, new in wanted.items() if new.strip("0")]
    items: dict[str, list[tuple[str, bytes]]] = {scope: [] for scope, _ in store.sources}
    for (old, new), id in zip(
        asked,
        store.repo.git.ids([f"{new}^{{commit}}" for _, new in asked]) if asked else [],
        strict=True,
    ):
        scopes, memories, before = known[old]
        if not id:
            out.refused.append((new, old))
        elif id in before:
            out.known += 1
        else:
            line = record.dump(record.move(old, id, author=store.author))
            for scope in items:
                if scopes & SCOPE_BITS[scope]:
                    items[scope].append((id, line))
            out.moved.append((old, id, memories))
    for scope, batch in items.items():
        if batch:
            store.append(
                scope, batch, f"git mem: move {len(batch)} commit{'s' * (len(batch) != 1)}"
            )
    if out.moved:
        store.with_cache(lambda cache: None)
    return out


def _movable(cache: Cache) -> dict[str, tuple[int, int, set[str]]]:
    """{commit: (scopes of its memories, how many, commits it moved to)} of every commit that a
    memory is about or moved to.
    """
    counts = {
        a: (bits, n)
        for a, bits, n in cache.db.execute(
            "SELECT anchor, max(scope & 1) | max(scope & 2), count(DISTINCT id) FROM memory WHERE"
            " status < 2 AND anchor <> '' GROUP BY anchor"
        )
        if record.object_id(a)
    }
    out: dict[str, tuple[int, int, set[str]]] = {}
    ways = anchor_state.moves(cache, counts)
    for anchor, way in ways.items():
        for commit in way:
            bits, n, _ = out.get(commit, (0, 0, set()))
            out[commit] = bits | counts[anchor][0], n + counts[anchor][1], set()
    for old, new in cache.db.execute("SELECT DISTINCT old, new FROM move"):
        if old in out:
            out[old][2].add(new)
    return out


# Lost anchors


class Lost:
    """A commit with memories that no branch, tag or remote holds; `same`: commits on them with the
    same change.
    """

    def __init__(self, commit: str, memories: int, here: bool) -> None:
        self.commit = commit
        self.memories = memories
        self.here = here
        self.same: list[str] = []


def lost(store: Store, seconds: float = OFFER) -> list[Lost]:
    """Anchors of active memories that are gone or held by no ref, and were neither moved nor
    squashed; those with most memories first.

    Empty in a shallow clone, where nobody can tell.
    """
    repo = store.repo
    if not repo.head() or os.path.exists(os.path.join(repo.common_dir, "shallow")):
        return []

    def read(cache: Cache) -> list[Lost]:
        counts: dict[str, int] = dict(
            cache.db.execute(
                "SELECT anchor, count(DISTINCT id) FROM memory WHERE status = 0 AND anchor <> ''"
                " GROUP BY anchor"
            ).fetchall()
        )
        ways = anchor_state.moves(cache, [a for a in counts if record.object_id(a)])
        held, here = _held(repo, {c for way in ways.values() for c in way})
        left = {a for a, way in ways.items() if not held.intersection(way)}
        for head in dict.fromkeys([repo.head(), *patch_id.main_lines(repo)]):
            stands = anchor_state.stands(repo, cache, left, head, seconds) if head and left else {}
            left = (
                {
                    a
                    for a in left
                    if stands[a].state in (anchor_state.UNMERGED, anchor_state.UNKNOWN)
                    and stands[a].reason != anchor_state.WAITING
                }
                if stands
                else left
            )
        out = [Lost(a, counts[a], a in here) for a in sorted(left, key=lambda a: (-counts[a], a))]
        _offer(store, cache, out, seconds)
        return out

    return store.with_cache(read)[0]


def _held(repo: Any, commits: set[str]) -> tuple[set[str], set[str]]:
    """(those of the commits that a branch, tag, remote or HEAD holds, those that are here)."""
    names = sorted(commits)
    here = (
        {
            c
            for c, id in zip(names, repo.git.ids([f"{c}^{{commit}}" for c in names]), strict=True)
            if id
        }
        if names
        else set()
    )
    if not here:
        return set(), set()
    stdin = "".join(f"{c}\n" for c in sorted(here)).encode()
    loose = set(
        repo.git.run(
            "rev-list", "--stdin", "--not", "HEAD", "--branches", "--tags", "--remotes", stdin=stdin
        )
        .decode()
        .split()
    )
    return here - loose, here


def _offer(store: Store, cache: Cache, found: list[Lost], seconds: float) -> None:
    """Adds to each lost anchor the commits that carry its own change and that a ref holds."""
    if not found:
        return
    patches = Patches(store.repo, cache, seconds)
    patches.learn(
        store.repo.git.text(
            "rev-list", f"--max-count={_OFFERED}", "--branches", "--remotes", "--not", "HEAD"
        ).split()
    )
    patches.learn(lost.commit for lost in found if lost.here)
    stated = equivalent_commits.marks_of(cache, [lost.commit for lost in found])
    own = patches.own(lost.commit for lost in found)
    ids = {
        lost.commit: (
            {own.get(lost.commit, ""), *(patch for patch, _, _ in stated[lost.commit])} - {""}
        )
        for lost in found
    }
    holders = patches.holders(set().union(*ids.values()))
    patches.save()
    held, _ = _held(store.repo, {c for some in holders.values() for c in some})
    for lost in found:
        lost.same = sorted({c for id in ids[lost.commit] for c in holders.get(id, ())} & held)
