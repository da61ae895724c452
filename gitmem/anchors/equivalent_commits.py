"""Commits with the change of another one: squash merges, cherry-picks, rebases elsewhere.

A commit is equivalent to an anchor if its patch-id is that of the anchor, or the combined one of a
branch which held the anchor when a memory was made, or holds it now. It must lie in the history of
the revision that is asked about and not in that of the anchor: what was there before the branch
began is no merge of it.

Promise: what was found stays found, also when the branch is gone. Where time ran out nothing is
concluded.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..core import fastjson
from ..engine.cache import Cache
from ..git.repository import Repo
from .patch_id import PatchIds, main_lines, marks_of
from .reachability import Reachability, present

RECENT = 2_000  # commits looked at for a commit that is not here and came without its base
_TIPS = 2_000  # branches that somebody who waits has looked at
_REFLOG = 64  # former positions of HEAD that count as tips: their branch may have been deleted
_HEX, _EXPRESSION = frozenset("0123456789abcdef"), frozenset("~^:@")
_UNSTATED = "unstated"  # in the cache's `meta`

Marks = dict[str, set[tuple[str, str, str]]]  # {commit: {(patch, base, branch_patch)}}
Forks = dict[str, frozenset[str]]  # {commit: where its branch began}
Grown = dict[str, list[tuple[str, str, str]]]  # {commit: [(tip, base, combined patch-id)]}


def known(cache: Cache, commits: Iterable[str]) -> dict[str, list[str]]:
    """{commit: its equivalents, wherever they are} as earlier searches found them."""
    out: dict[str, list[str]] = {}
    sql = "SELECT commit_id, other FROM equivalent_commit WHERE commit_id IN {} ORDER BY 1, 2"
    for commit, other in cache.among(sql, commits):
        out.setdefault(commit, []).append(other)
    return out


def search(
    repo: Repo,
    cache: Cache,
    commits: Iterable[str],
    reached: Reachability,
    ids: PatchIds,
    head: str,
) -> tuple[dict[str, str], set[str]]:
    """({commit: its equivalent in the history of `head`}, commits for which time did not suffice).

    `reached`: the commits as seen from `head`, which contains none of them. The caller saves `ids`.

    First by what was known when the memories were made, then by what the branches became. Say a
    memory is about A of the branch A-B-C, of which `head` has a squash S. The patch-id of A alone
    finds a cherry-pick of A, the combined one of the branch, which a mark noted when it ended at B,
    a squash of A-B. Neither finds S; that of the whole branch does, while a ref or HEAD's reflog
    holds C.
    """
    left = sorted(commits)
    marks = marks_of(cache, left)
    history = _History(repo, head, _forks(repo, left, marks, reached), left)
    whole = ids.learn([*history.places, *history.recent])
    unmarked = [c for c in left if c in reached.here and not any(p for p, _, _ in marks[c])]
    whole = ids.learn(unmarked) and whole
    for commit, id in ids.of_commits(unmarked).items():
        marks[commit].add((id, "", ""))
    wanted = {c: {id for patch, _, branch in marks[c] for id in (patch, branch)} for c in left}
    found = _match(wanted, history, ids)
    rest = [c for c in left if c not in found and c in reached.here]
    grown, looked_at_all = grown_branches(repo, ids, rest, [head])
    # Of what lies on HEAD nothing is merged.
    wanted = {c: {id for _, base, id in rows if base != head} for c, rows in grown.items()}
    found.update(_match(wanted, history, ids))
    _note(ids, found, marks, grown, unmarked)
    late = not whole or not looked_at_all
    return found, {c for c in left if c not in found} if late else set()


def _forks(repo: Repo, commits: list[str], marks: Marks, reached: Reachability) -> Forks:
    """{commit: where its branch began}, from git, else from its marks, as far as these say it."""
    out = {c: reached.forks(c) for c in commits if c in reached.here}
    stated = {c: {base for _, base, _ in marks[c] if base} for c in commits if c not in out}
    bases = present(repo.git, set().union(*stated.values()))
    out.update({c: frozenset(found & bases) for c, found in stated.items() if found & bases})
    return out


class _History:
    """The commits of `head` among which equivalents may lie. `places`: {commit: its place, the
    newest first} since the first branch began; `recent`: where that is not known.
    """

    def __init__(self, repo: Repo, head: str, forks: Forks, commits: list[str]) -> None:
        self.git = repo.git
        self.head = head
        self.forks = forks
        points = sorted(frozenset[str]().union(*forks.values()))
        floor = self._oldest(points) if all(forks.values()) else ""
        since = [head, *(["^" + floor] if floor else [])]
        listed = self._list("--topo-order", *since) if forks and floor != head else []
        self.places = {c: i for i, c in enumerate(listed)}
        unknown = any(c not in forks for c in commits)
        self.recent = set(self._list(f"--max-count={RECENT}", head) if unknown else [])

    def _list(self, *asked: str) -> list[str]:
        return self.git.text("rev-list", *asked, "--").split()

    def _oldest(self, points: list[str]) -> str:
        """The one of some commits of `head` that all others contain, else ""."""
        if len(points) < 2:
            return "".join(points)
        stdin = "".join(f"{c}\n" for c in points).encode()
        listed = self.git.run("rev-list", "--no-walk=sorted", "--stdin", stdin=stdin)
        oldest = listed.decode().split()[-1]
        above = self._list("--ancestry-path", f"{oldest}..{self.head}")
        return oldest if {oldest, *above}.issuperset(points) else ""

    def later(self, commit: str, other: str) -> bool:
        """Whether `other` lies in this history and not in that of `commit`."""
        if commit not in self.forks:
            return other in self.recent
        if other not in self.places:
            return False
        return not any(self._contains(fork, other) for fork in self.forks[commit])

    def _contains(self, fork: str, other: str) -> bool:
        if fork == self.head:
            return True
        # In topological order no commit stands before one that contains it.
        if fork not in self.places or self.places[other] < self.places[fork]:
            return False
        return self.git.is_ancestor(other, fork)


def _match(wanted: dict[str, set[str]], history: _History, ids: PatchIds) -> dict[str, str]:
    """{commit: its first equivalent}, of {commit: patch-ids that an equivalent may have}."""
    # Once for each patch-id: all the amended forms of a commit have the same one.
    holders = {
        id: [c for c in found if c in history.places or c in history.recent]
        for id, found in ids.holders(set().union(*wanted.values())).items()
    }
    out = {}
    for commit, some in wanted.items():
        candidates = {c for id in some for c in holders.get(id, ())} - {commit}
        later = [c for c in candidates if history.later(commit, c)]
        if later:
            out[commit] = max(later, key=lambda c: (history.places.get(c, 0), c))
            for other in later:
                ids.note("INSERT OR REPLACE INTO equivalent_commit VALUES(?, ?)", commit, other)
    return out


def grown_branches(
    repo: Repo, ids: PatchIds, commits: list[str], heads: list[str]
) -> tuple[Grown, bool]:
    """(the branches that hold these commits now, whether all of them were looked at).

    A branch that grew after a memory was made is merged with all it became. It is what neither
    `heads` nor a main line contains. Who is in a hurry looks at the newest `_TIPS` only.
    """
    if not commits or ids.left() <= 0:
        return {}, not commits
    order = ("--sort=-committerdate", "--format=%(objectname)")
    tips = repo.git.text("for-each-ref", *order, "refs/heads", "refs/remotes").split()
    whole = not ids.hurried or len(tips) <= _TIPS
    tips = list(dict.fromkeys([*(tips if whole else tips[:_TIPS]), *_former_heads(repo)]))
    heads = list(dict.fromkeys([*heads, *main_lines(repo)]))
    around = Reachability(repo.git, heads, [*tips, *commits])
    tips = [tip for tip in tips if tip in around.beyond]
    holding = {c: found or [c] for c, found in around.containing(tips, commits).items()}
    used = dict.fromkeys(tip for found in holding.values() for tip in found)
    bases = {tip: base for tip in used if (base := _base(repo, around, tip, heads))}
    combined = ids.of_branches(bases)
    rows = {tip: (tip, bases[tip], id) for tip, id in combined.items() if id}
    out = {c: [rows[tip] for tip in found if tip in rows] for c, found in holding.items()}
    return out, whole and len(combined) == len(bases)


def _former_heads(repo: Repo) -> list[str]:
    """Where HEAD was lately, without single commits that a bisection or a look goes to."""
    asked = (f"--max-count={_REFLOG}", "--format=%H %gs", "HEAD", "--")
    out = []
    for row in repo.git.text("log", "-g", *asked, ok=(0, 128)).splitlines():
        words = row.split(" ")
        single = _HEX.issuperset(words[-1]) or _EXPRESSION.intersection(words[-1])
        if words[1] != "checkout:" or not single:
            out.append(words[0])
    return out


def _base(repo: Repo, around: Reachability, tip: str, heads: list[str]) -> str:
    """Where a branch left the heads, for the last time if it took some of them in."""
    began = around.forks(tip)
    if len(began) == 1:
        return next(iter(began))
    return repo.git.text("merge-base", tip, *heads, ok=(0, 1)) if began else ""


def _note(
    ids: PatchIds, found: dict[str, str], marks: Marks, grown: Grown, unmarked: list[str]
) -> None:
    """Notes the marks by which equivalents were found and which no record states, for the worker
    to write into the notes: only this clone knows them, while it keeps the branch.
    """
    seen = {(c, patch, "", "") for c in unmarked if c in found for patch, _, _ in marks[c]}
    changes = ids.of_commits(found.values())
    seen |= {
        (commit, "", base, id)
        for commit in found.keys() & grown.keys()
        for _, base, id in grown[commit]
        if id == changes[found[commit]]
    }
    if seen:
        rows = fastjson.dumps(sorted(seen.union(map(tuple, unstated(ids.cache)))))
        ids.note("INSERT OR REPLACE INTO meta VALUES(?, ?)", _UNSTATED, rows)


def unstated(cache: Cache) -> list[list[str]]:
    """The noted marks, each [commit, patch, base, branch_patch]."""
    found: list[list[str]] = fastjson.loads(cache.meta(_UNSTATED) or "[]")
    return found


def stated(cache: Cache) -> None:
    """The noted marks are in the notes now."""
    cache.keep(0.5, lambda _: cache.set_meta(_UNSTATED, ""))
