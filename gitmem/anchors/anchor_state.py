"""Anchor states: how the commits that memories are about relate to a revision.

An anchor is reachable (the revision contains it, or a commit that a rewrite put in its place),
squashed (a commit of the revision carries its change), unmerged (ABANDONED where no branch holds it
any more), or unknown. Every caller asks `states`.

Promise: git decides (ancestry, patch-ids), in a bounded number of processes however many anchors
are asked about. What cannot be known (a shallow clone, a commit that is not here, no time to look)
is `unknown`, with the reason, never guessed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

from ..core import record
from ..engine import anchor_state_store
from ..engine.anchor_state_store import ABANDONED as ABANDONED
from ..engine.anchor_state_store import ABSENT as ABSENT
from ..engine.anchor_state_store import REACHABLE as REACHABLE
from ..engine.anchor_state_store import SQUASHED as SQUASHED
from ..engine.anchor_state_store import UNBORN as UNBORN
from ..engine.anchor_state_store import UNKNOWN as UNKNOWN
from ..engine.anchor_state_store import UNMERGED as UNMERGED
from ..engine.anchor_state_store import WAITING as WAITING
from ..engine.anchor_state_store import AnchorState as AnchorState
from ..engine.anchor_state_store import waiting as waiting
from ..engine.cache import Cache
from ..git.repository import Repo
from . import equivalent_commits
from .patch_id import PatchIds
from .reachability import Reachability, set_bits, unreferenced

ON_THE_SPOT = 1.0  # seconds an answer waits for patch-ids: about 3,000 commits, once for each
SHALLOW, PARTIAL = "shallow clone", "partial clone"
NOWHERE = "it is about no commit"


def states(
    repo: Repo,
    cache: Cache,
    anchors: Iterable[str],
    head: str,
    seconds: float = ON_THE_SPOT,
    kept: bool = True,
) -> dict[str, AnchorState]:
    """{anchor: its state} as seen from the commit `head` ("" while there is none).

    `seconds`: how long new patch-ids may take; `kept`: whether the worker's states may be taken.
    """
    names = {a for a in anchors if a}
    if not head:
        return {a: AnchorState(UNKNOWN, a, reason=UNBORN) for a in names}
    out = anchor_state_store.certain(cache, names, head, repo.common_dir) if kept else {}
    names -= out.keys()
    if not names:
        return out
    successors = moves(cache, names)
    commits = {c for chain in successors.values() for c in chain}
    carried = equivalent_commits.known(cache, commits) if names != {head} else {}
    reached = Reachability(repo.git, [head], commits.union(*carried.values()))
    left: dict[str, list[str]] = {}
    for anchor, chain in successors.items():
        held = next((c for c in chain if reached.contains(c)), "")
        others = (other for c in chain for other in carried.get(c, ()))
        if held:
            out[anchor] = AnchorState(REACHABLE, held)
        elif other := next((other for other in others if reached.contains(other)), ""):
            out[anchor] = AnchorState(SQUASHED, anchor, other)
        else:
            left[anchor] = chain
    if left:
        out.update(_not_contained(repo, cache, left, carried, reached, head, seconds))
    return out


def _not_contained(
    repo: Repo,
    cache: Cache,
    left: dict[str, list[str]],
    carried: dict[str, list[str]],
    reached: Reachability,
    head: str,
    seconds: float,
) -> dict[str, AnchorState]:
    if shallow(repo):
        # Behind a shallow boundary ancestry is cut off, so "not reachable" proves nothing, and the
        # first commits that are here begin with whole files.
        return {a: AnchorState(UNKNOWN, a, reason=SHALLOW) for a in left}
    ids = PatchIds(repo, cache, seconds)
    commits = {c for chain in left.values() for c in chain}
    try:
        found, late = equivalent_commits.search(repo, cache, commits, reached, ids, head)
    finally:  # also where git fails: what was found until then is not made again
        ids.save()
    why_late = PARTIAL if repo.git.promised else WAITING
    out: dict[str, AnchorState] = {}
    unmerged: dict[str, list[str]] = {}  # {anchor: its places that are here, the farthest first}
    for anchor, chain in left.items():
        here = next((c for c in reversed(chain) if c in reached.here), "")
        if other := next((found[c] for c in chain if c in found), ""):
            out[anchor] = AnchorState(SQUASHED, anchor, other)
        elif late.intersection(chain) or not here:
            why = why_late if late.intersection(chain) else ABSENT
            out[anchor] = AnchorState(UNKNOWN, anchor, reason=why)
        else:
            unmerged[anchor] = [c for c in reversed(chain) if c in reached.here]
    carriers = {
        a: [other for c in left[a] for other in carried.get(c, ()) if other in reached.here]
        for a in unmerged
    }
    abandoned = unreferenced(repo.git, set().union(*unmerged.values(), *carriers.values()))
    for anchor, stood in unmerged.items():
        # A rewrite of a rewrite makes two places equally near; a branch may also be set back.
        held = next((c for c in stood if c not in abandoned), "")
        # A squash merge into another branch keeps the change where its own branch is gone.
        given_up = not held and abandoned.issuperset(carriers[anchor])
        reason = ABANDONED if given_up else ""
        out[anchor] = AnchorState(UNMERGED, held or stood[0], reason=reason)
    return out


def shallow(repo: Repo) -> bool:
    return os.path.exists(os.path.join(repo.common_dir, "shallow"))


def hint(repo: Repo) -> str:
    """What helps where a commit is not here; "" where nothing is known to."""
    if not shallow(repo):
        return ""
    return "this is a shallow clone: `git fetch --unshallow` brings the rest of the history"


def of_memories(cache: Cache, bits: int = 3, most: int = 0) -> set[str]:
    """The anchors of memories of these scopes, up to this status (0: of active ones)."""
    # Every anchor once from the index, then one row of it: a tenth of the time.
    rows = cache.db.execute(
        "SELECT anchor FROM (SELECT DISTINCT anchor FROM memory WHERE anchor <> '') a WHERE EXISTS"
        " (SELECT 1 FROM memory m WHERE m.anchor = a.anchor AND status <= ? AND scope & ? > 0)",
        (most, bits),
    )
    return {a for (a,) in rows if record.object_id(a)}


def moves(cache: Cache, anchors: Iterable[str]) -> dict[str, list[str]]:
    """{anchor: itself and the commits that took its place, the nearest first}.

    By commit, not by line: a rewrite copies the first note of a commit only.
    """
    successors: dict[str, set[str]] = {}
    names = set(anchors)
    asked = names
    while asked:
        found = steps(cache, asked)
        for old, new in found:
            successors.setdefault(old, set()).add(new)
        asked = {new for _, new in found} - successors.keys()
    # Sets as bits: after a thousand amends each of a thousand commits leads to every later one.
    ordered = sorted(successors.keys() | set().union(*successors.values()))
    bit = {commit: 1 << i for i, commit in enumerate(ordered)}
    reach = {commit: sum(bit[new] for new in news) for commit, news in successors.items()}

    def chain(anchor: str) -> list[str]:
        out, seen, level = [anchor], bit.get(anchor, 0), [anchor]
        while level:
            reached = 0
            for commit in level:
                reached |= reach.get(commit, 0)
            fresh = reached & ~seen
            level = [ordered[i] for i in set_bits(fresh)]
            seen |= fresh
            out += level
        return out

    return {a: chain(a) for a in names}


def steps(cache: Cache, commits: Collection[str]) -> list[tuple[str, str]]:
    """[(old, new)] of the moves that begin at these commits, in order."""
    return cache.among("SELECT DISTINCT old, new FROM move WHERE old IN {} ORDER BY 1, 2", commits)


def places(cache: Cache, anchors: Iterable[str]) -> dict[str, list[str]]:
    """{anchor: itself, what took its place, and what carries its change}."""
    found = moves(cache, anchors)
    carried = equivalent_commits.known(cache, {c for chain in found.values() for c in chain})
    return {
        a: [*chain, *(other for c in chain for other in carried.get(c, ()))]
        for a, chain in found.items()
    }
