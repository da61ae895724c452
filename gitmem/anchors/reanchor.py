"""`git mem reanchor`: a person says which commit replaced another; lists anchors that were lost.

Promise: nothing is guessed. A move is written only where somebody says which commit took the place
of which; lost anchors are listed, with commits that carry the same change as an offer.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..core import record
from ..core.errors import MemError
from ..engine.anchor_state_store import WAITING
from ..engine.cache import Cache
from ..engine.memory_rows import SCOPE_BITS
from ..store import Store
from . import anchor_state
from .patch_id import PatchIds, main_lines, marks_of
from .reachability import present, unreferenced

OFFER = 2.0  # seconds doctor looks for commits with the same change
_OFFERED = 2_000  # commits of other branches looked at for an offer


class Moved:
    """What became of a list of moves. `moved`: (old, new, number of memories); `refused`: (new,
    old) where the new commit is not here.
    """

    def __init__(self) -> None:
        self.moved: list[tuple[str, str, int]] = []
        self.known = 0
        self.dropped: list[str] = []
        self.refused: list[tuple[str, str]] = []


def commit_of(store: Store, name: str) -> str:
    """The commit with memories that `name` means: a revision, or the begin of an id, also of a
    commit that is gone. Raises MemError.
    """
    word = name.strip().lower()
    known = store.with_cache(_movable)[0]
    found = word if word in known else store.repo.commit(name)
    if found in known:
        return str(found)
    candidates = sorted(c for c in known if len(word) >= 4 and c.startswith(word))
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise MemError(
            f"'{name[:80]}' is ambiguous: {', '.join(c[:12] for c in candidates[:5])}",
            hint="type more digits",
        )
    raise MemError(
        f"no memory is about a commit '{name[:80]}'",
        hint="`git mem list --all --json` shows the commits of all memories",
    )


def reanchor(store: Store, pairs: Iterable[tuple[str, str]]) -> Moved:
    """Says of old commits (full ids) which new ones took their place, in one commit of the notes.
    Commits without memories are passed over; a new id of zeros means that the commit was dropped.
    """
    out = Moved()
    known = store.with_cache(_movable)[0]
    asked = {old: new for old, new in pairs if old in known and old != new}
    out.dropped = sorted(old for old, new in asked.items() if not new.strip("0"))
    asked = {old: new for old, new in asked.items() if new.strip("0")}
    revisions = [f"{new}^{{commit}}" for new in asked.values()]
    ids = store.repo.git.ids(revisions)
    moved = set(store.with_cache(lambda cache: anchor_state.steps(cache, asked))[0])
    lines: dict[str, list[tuple[str, bytes]]] = {scope: [] for scope, _ in store.sources}
    for (old, new), id in zip(asked.items(), ids, strict=True):
        if not id:
            out.refused.append((new, old))
        elif (old, id) in moved:
            out.known += 1
        else:
            scopes, memories = known[old]
            line = record.dump(record.move(old, id, author=store.author))
            for scope, batch in lines.items():
                if scopes & SCOPE_BITS[scope]:
                    batch.append((id, line))
            out.moved.append((old, id, memories))
    for scope, batch in lines.items():
        if batch:
            plural = "s" * (len(batch) != 1)
            store.append(scope, batch, f"git mem: move {len(batch)} commit{plural}")
    if out.moved:
        store.with_cache(lambda cache: None)
    return out


def _movable(cache: Cache) -> dict[str, tuple[int, int]]:
    """{commit that a memory is about or moved to: (scopes, number of its memories)}."""
    rows = cache.db.execute(
        "SELECT anchor, max(scope & 1) | max(scope & 2), count(DISTINCT id) FROM memory WHERE"
        " status < 2 AND anchor <> '' GROUP BY anchor"
    )
    counts = {a: (scopes, n) for a, scopes, n in rows if record.object_id(a)}
    out: dict[str, tuple[int, int]] = {}
    for anchor, chain in anchor_state.moves(cache, counts).items():
        for commit in chain:
            scopes, memories = out.get(commit, (0, 0))
            out[commit] = scopes | counts[anchor][0], memories + counts[anchor][1]
    return out


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
    squashed; those with most memories first. Empty in a shallow clone: nobody can tell there.
    """
    repo = store.repo
    if not repo.head() or anchor_state.shallow(repo):
        return []

    def read(cache: Cache) -> list[Lost]:
        rows = cache.db.execute(
            "SELECT anchor, count(DISTINCT id) FROM memory WHERE status = 0 AND anchor <> ''"
            " GROUP BY anchor"
        )
        counts = {a: n for a, n in rows if record.object_id(a)}
        chains = anchor_state.moves(cache, counts)
        here = present(repo.git, {c for chain in chains.values() for c in chain})
        held = here - unreferenced(repo.git, here, [repo.head()])
        left = {a for a, chain in chains.items() if not held.intersection(chain)}
        beside = (anchor_state.UNMERGED, anchor_state.UNKNOWN)
        for head in dict.fromkeys([repo.head(), *main_lines(repo)]):
            states = anchor_state.states(repo, cache, left, head, seconds)
            left = {a for a, s in states.items() if s.state in beside and s.reason != WAITING}
        out = [Lost(a, counts[a], a in here) for a in sorted(left, key=lambda a: (-counts[a], a))]
        if out:
            _offer(store, cache, out, seconds)
        return out

    return store.with_cache(read)[0]


def _offer(store: Store, cache: Cache, found: list[Lost], seconds: float) -> None:
    """Adds to each lost anchor the commits that carry its own change and that a ref holds."""
    git = store.repo.git
    ids = PatchIds(store.repo, cache, seconds)
    refs = ("--branches", "--remotes", "--not", "HEAD")
    ids.learn(git.text("rev-list", f"--max-count={_OFFERED}", *refs).split())
    ids.learn(lost.commit for lost in found if lost.here)
    stated = marks_of(cache, [lost.commit for lost in found])
    own = ids.of_commits(stated)
    wanted = {c: {own.get(c, ""), *(patch for patch, *_ in stated[c])} for c in stated}
    holders = ids.holders(set().union(*wanted.values()))
    ids.save()
    here = present(git, {c for commits in holders.values() for c in commits})
    held = here - unreferenced(git, here, [store.repo.head()])
    for lost in found:
        same = {c for id in wanted[lost.commit] for c in holders.get(id, ())}
        lost.same = sorted(same & held)
