"""Where memories stand against a revision: their anchors. What became of their paths is
`path_state`.

An anchor is reachable (the revision contains it, or a commit that a rewrite put in its place),
squashed (a commit of the revision carries its change), unmerged (with a word where no branch holds
it any more), or unknown. Every caller asks `stands`; nobody else works it out.

Promise: git decides (ancestry, patch-ids, blob ids), in a bounded number of
processes however many memories are asked about. What cannot be known (a
shallow clone, a commit that is not here, no time to look) is `unknown`, with
the reason, never guessed. Where the revision contains every anchor nothing is
paid for the rest.
"""

from __future__ import annotations

import json
import os

from ..engine import anchor_state_store
from ..engine.anchor_state_store import ABANDONED as ABANDONED
from ..engine.anchor_state_store import ABSENT as ABSENT
from ..engine.anchor_state_store import REACHABLE as REACHABLE
from ..engine.anchor_state_store import SQUASHED as SQUASHED
from ..engine.anchor_state_store import UNBORN as UNBORN
from ..engine.anchor_state_store import UNKNOWN as UNKNOWN
from ..engine.anchor_state_store import UNMERGED as UNMERGED
from ..engine.anchor_state_store import WAITING as WAITING
from ..engine.anchor_state_store import Stand as Stand
from ..engine.anchor_state_store import waiting as waiting
from ..engine.cache import Cache
from ..git.repository import Repo
from . import equivalent_commits, patch_id
from .patch_id_cache import Patches
from .reachability import Ancestry, Between

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

ON_THE_SPOT = 1.0  # seconds an answer waits for patch-ids: about 3,000 commits, once for each
SHALLOW, PARTIAL = "shallow clone", "partial clone"
NOWHERE = "it is about no commit"
_FEW = 500  # commits asked about above which all moves are read


def stands(
    repo: Repo,
    cache: Cache,
    anchors: Iterable[str],
    head: str,
    seconds: float = ON_THE_SPOT,
    again: bool = False,
    main: Collection[str] = (),
    beyond: Between | None = None,
    patches: Patches | None = None,
) -> dict[str, Stand]:
    """{anchor: its state} as seen from the commit `head` ("" while there is none).

    `seconds`: how long new patch-ids may take; 0 answers from what is known. `again`: take nothing
    from what is kept for this revision, and seek also what was sought in vain, for branches that
    came with a fetch. `main`: commits that the caller knows to be on a main line. `beyond`: what
    lies between another revision and this one, where that is known. `patches`: those of the caller,
    who saves them; they say how long it may take, then."""
    names = {a for a in anchors if a}
    if not head:
        return {a: Stand(UNKNOWN, a, reason=UNBORN) for a in names}
    kept = {} if again else anchor_state_store.certain(cache, names, head, repo.common_dir)
    names -= kept.keys()
    if not names:
        return kept
    ways = moves(cache, names)
    carried = (
        equivalent_commits.known(cache, {c for way in ways.values() for c in way})
        if names != {head}
        else {}
    )
    commits = {c for way in ways.values() for c in way}.union(*carried.values())
    line = (
        Ancestry.below(repo.git, head, commits, beyond)
        if beyond
        else Ancestry(repo.git, [head], commits)
    )
    out: dict[str, Stand] = kept
    open_: dict[str, list[str]] = {}
    for anchor, way in ways.items():
        held = next((c for c in way if line.contains(c)), "")
        twin = (
            next((t for c in way for t in carried.get(c, ()) if line.contains(t)), "")
            if not held
            else ""
        )
        if held:
            out[anchor] = Stand(REACHABLE, held)
        elif twin:
            out[anchor] = Stand(SQUASHED, anchor, twin)
        else:
            open_[anchor] = way
    if open_:
        made = patches or Patches(repo, cache, seconds)
        try:
            out.update(_sought(repo, cache, open_, line, made, again, main))
        finally:  # where git fails, too: what was found until then is not made again
            if patches is None:
                made.save()
    return out


def _sought(
    repo: Repo,
    cache: Cache,
    open_: dict[str, list[str]],
    line: Ancestry,
    patches: Patches,
    again: bool,
    main: Collection[str],
) -> dict[str, Stand]:
    """The states of anchors whose commits the revision does not contain."""
    if os.path.exists(os.path.join(repo.common_dir, "shallow")):
        # Behind a shallow boundary ancestry is cut off, so "not reachable" proves nothing, and what
        # is there begins with whole files.
        return {a: Stand(UNKNOWN, a, reason=SHALLOW) for a in open_}
    found, unsure = equivalent_commits.search(
        repo, cache, {c for way in open_.values() for c in way}, line, patches, again, main
    )
    late = (PARTIAL if patch_id.partial(repo) else WAITING) if unsure else ""
    out = {}
    for anchor, way in open_.items():
        twin = next((found[c] for c in way if c in found), "")
        if twin:
            out[anchor] = Stand(SQUASHED, anchor, twin)
        elif unsure.intersection(way):
            out[anchor] = Stand(UNKNOWN, anchor, reason=late)
        else:
            here = next((c for c in reversed(way) if c in line.here), "")
            out[anchor] = Stand(UNMERGED, here) if here else Stand(UNKNOWN, anchor, reason=ABSENT)
    return abandoned(repo, out, main)


def abandoned(repo: Repo, stands: dict[str, Stand], held: Collection[str] = ()) -> dict[str, Stand]:
    """The same states, with the reason where an unmerged commit is held by no branch and no tag;
    `held`: commits that are.
    """
    open_ = {s.commit for s in stands.values() if s.state == UNMERGED and s.commit not in held}
    if open_:
        stdin = "".join(f"{c}\n" for c in sorted(open_)).encode()
        loose = set(
            repo.git.run("rev-list", "--stdin", "--not", *_HOLDERS, stdin=stdin).decode().split()
        )
        for stand in stands.values():
            if stand.commit in open_ and stand.state == UNMERGED:
                stand.reason = ABANDONED if stand.commit in loose else ""
    return stands


_HOLDERS = (
    "--branches",
    "--tags",
    "--remotes",
)  # no HEAD: what the revision contains is not unmerged, and each worktree has its own


def moves(cache: Cache, anchors: Iterable[str]) -> dict[str, list[str]]:
    """{anchor: itself and the commits that took its place, the nearest first}: where rewrites and
    `git mem reanchor` took memories.

    By commit, not by line: a rewrite copies the first note of a commit only,
    and its continuations moved with it. A cycle ends where it began.
    """
    ways = {a: [a] for a in anchors}
    step: dict[str, list[str]] = {}
    ask, seen = set(ways), set(ways)
    while ask:
        found = steps(cache, ask)
        ask = set()
        for old, new in found:
            step.setdefault(old, []).append(new)
            ask |= {new} - seen
            seen.add(new)
    for part in parts(step):
        _follow(step, part, ways)
    return ways


def steps(cache: Cache, commits: Collection[str]) -> list[tuple[str, str]]:
    """[(old, new)] of the moves that begin at these commits, in order."""
    inside = "SELECT value FROM json_each(?)"
    return cache.db.execute(
        f"SELECT DISTINCT old, new FROM move WHERE old IN ({inside}) ORDER BY 1, 2",
        (json.dumps(sorted(commits)),),
    ).fetchall()


def joined(cache: Cache, commits: Collection[str]) -> set[str]:
    """The commits that moves join with one of these, themselves included."""
    inside = "SELECT value FROM json_each(?)"
    if len(commits) < _FEW:
        asked = json.dumps(sorted(commits))
        if not cache.db.execute(
            f"SELECT 1 FROM move WHERE old IN ({inside}) OR new IN ({inside}) LIMIT 1",
            (asked, asked),
        ).fetchone():
            return set()
    step: dict[str, list[str]] = {}
    for old, new in cache.db.execute("SELECT DISTINCT old, new FROM move"):
        step.setdefault(old, []).append(new)
    return {c for part in parts(step) if any(c in commits for c in part) for c in part}


def parts(step: dict[str, list[str]]) -> Iterator[list[str]]:
    """The commits that moves join, one list for each part that hangs together, in order."""
    beside: dict[str, list[str]] = {}
    for old, found in step.items():
        for new in found:
            beside.setdefault(old, []).append(new)
            beside.setdefault(new, []).append(old)
    left = set(beside)
    for first in sorted(beside):
        if first in left:
            left.discard(first)
            part = [first]
            for commit in part:  # grows while it is read
                fresh = left.intersection(beside[commit])
                left -= fresh
                part += fresh
            yield sorted(part)


def _follow(step: dict[str, list[str]], part: list[str], ways: dict[str, list[str]]) -> None:
    """Adds to the ways that begin in a part what is reached from there, by steps, in the order of
    ids.

    Sets of commits are bits of one number: after N amends of a commit with N
    memories every commit leads to every later one, and each of the N ways would
    look at all of these pairs.
    """
    number = {commit: i for i, commit in enumerate(part)}
    after = [0] * len(part)
    for old in part:
        for new in step.get(old, ()):
            after[number[old]] |= 1 << number[new]
    for anchor in part:
        if anchor in ways:
            seen = level = 1 << number[anchor]
            while level:
                reached = 0
                while level:
                    lowest = level & -level
                    reached |= after[lowest.bit_length() - 1]
                    level ^= lowest
                level = reached & ~seen
                seen |= level
                ways[anchor] += [part[i] for i in _bits(level)]


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


def places(cache: Cache, anchors: Iterable[str]) -> dict[str, list[str]]:
    """{anchor: every commit it is known to stand at}: itself, what took its place, and what carries
    its change.
    """
    ways = moves(cache, anchors)
    carried = equivalent_commits.known(cache, {c for way in ways.values() for c in way})
    return {a: [*way, *(t for c in way for t in carried.get(c, ()))] for a, way in ways.items()}
