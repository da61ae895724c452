"""Which commits a revision contains, and how those it does not contain hang together.

Promise: git decides, in one walk however many commits are asked about; what lies
between two HEADs is read from what is known of all commits (`lineage`).
"""

from __future__ import annotations

import os

from . import lineage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from ..engine.cache import Cache
    from ..git.gitcmd import Git
    from ..git.repository import Repo


FAR = 1_000  # commits between two HEADs: from here on one is far from the other
# commits asked about from which reading the whole history is faster: 20,000 in one of 20,000 take
# 0.2 s, one by one 0.7
_MANY = 10_000
_STEPS = 8  # commits read one by one before a walk
_POINTS = 4  # commits whose common base git is asked for


class Between:
    """The commits that only one of two revisions contains, children first: those of `head` are
    `gained`, those of `base` are `lost`, and both together `both`: dicts, for their order and for
    quick questions.

    `knots`: those that not all of them contain, where they do not all begin at one commit. `line`:
    what is known of all commits, where that had to be read."""

    def __init__(
        self, base: str, lost: Iterable[str], gained: Iterable[str], knots: Iterable[str] = ()
    ) -> None:
        self.base = base
        self.lost, self.gained, self.knots = (
            dict.fromkeys(lost),
            dict.fromkeys(gained),
            dict.fromkeys(knots),
        )
        self.both = (
            {**self.lost, **self.gained} if self.lost and self.gained else self.lost or self.gained
        )
        self._forks: Callable[[str], frozenset[str]] | None = None
        self._met: frozenset[str] = frozenset()
        self.line: lineage.Lineage | None = None
        self.above: Collection[str] = ()  # the lost ones that contain `head`

    @classmethod
    def walk(
        cls, repo: Repo, cache: Cache, base: str, head: str, tips: Iterable[str] = ()
    ) -> Between:
        """Raises GitFailed where one of both is not here.

        `tips`: of branches that will be asked about.
        """
        if base == head:
            return cls(base, (), ())
        line = lineage.of(repo, cache)
        line.cover(cache, [base, head], also=tips)
        lost, gained = line.apart(base, head)
        out = cls(
            base,
            line.commits(lost),
            line.commits(gained),
            line.commits(line.knots([*lost, *gained])),
        )
        forks: dict[int, frozenset[int]] = {}
        named: dict[frozenset[int], frozenset[str]] = {}  # most begin at the same few

        def meet(commit: str) -> frozenset[str]:
            if not forks:
                forks.update(line.forks(lost))
            found = forks[line.place(commit)]
            if found not in named:
                named[found] = frozenset(line.commits(found))
            return named[found]

        out.line, out._forks = line, meet
        if not gained:
            out.above = set(line.commits(line.over(head, lost)))
        return out

    @classmethod
    def step(cls, repo: Repo, base: str, head: str) -> Between | None:
        """The same for a commit, an amend, a few commits back: without all that is known of other
        commits; None where it takes more to see.
        """
        if any(
            os.path.exists(os.path.join(repo.common_dir, name))
            for name in ("shallow", "info/grafts")
        ):
            return None
        ways = [base], [head]
        for _ in range(_STEPS):
            for way, other in (ways, ways[::-1]):
                if way[-1] in other:
                    lost, gained = (w[: w.index(way[-1])] if way[-1] in w else w for w in ways)
                    out = cls(base, lost, gained)
                    out._met = frozenset([way[-1]])
                    out.above = () if gained else out.lost
                    return out
            for way in ways:
                above = _parents(repo, way[-1])
                way += above if len(above) == 1 else []
        return None

    @property
    def far(self) -> bool:
        """Whether the states of the former HEAD are worth keeping (`slots`): a nearer one is looked
        at again as fast.
        """
        return len(self.both) >= FAR

    def forks(self, commit: str) -> frozenset[str]:
        """Where the history of a lost commit meets that of `head`; empty where it never does."""
        return self._forks(commit) if self._forks else self._met


class Ways:
    """The moves of HEAD that are looked at together: each way is walked once.

    `base`: {HEAD: from whose states its own were made}. `left`: from where HEAD went far away.
    `tips`: of branches that will be asked about."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Between] = {}
        self.base: dict[str, str] = {}
        self.left: set[str] = set()
        self.tips: Collection[str] = ()

    def between(self, repo: Repo, cache: Cache, base: str, head: str) -> Between:
        """Raises GitFailed where one of both is not here."""
        found = self._found.get((base, head))
        if found is None:
            found = self._found[base, head] = Between.step(repo, base, head) or Between.walk(
                repo, cache, base, head, self.tips
            )
        return found


def _parents(repo: Repo, commit: str) -> list[str]:
    """As git gives them; none where the commit is not here."""
    found = repo.git.local.get(commit)
    head = found[2].partition(b"\n\n")[0].split(b"\n") if found and found[1] == "commit" else []
    return [row[7:].decode("ascii", "replace") for row in head if row.startswith(b"parent ")]


def near(repo: Repo, cache: Cache, one: str, other: str) -> bool:
    """Whether few commits lie between two. Raises GitFailed where one is not here."""
    line = lineage.of(repo, cache)
    line.cover(cache, [one, other])
    return sum(map(len, line.apart(one, other, FAR))) < FAR


class Ancestry:
    """`commits` as seen from revisions: `here` are those in this repository, `beyond` what lies
    between them and the revisions' history.
    """

    def __init__(
        self,
        git: Git,
        heads: list[str],
        commits: Iterable[str],
        line: lineage.Lineage | None = None,
    ) -> None:
        """`line`: what is known of all commits, where the caller has it: git need not walk
        there."""
        self.heads = heads
        self.line = line
        names = sorted(set(commits) - {*heads, ""})
        inside: set[str] = set()
        if len(names) > _MANY:
            inside = set(git.text("rev-list", *heads, "--").split())
            names = [c for c in names if c not in inside]
        found = git.ids([f"{c}^{{commit}}" for c in names]) if names else []
        there = [c for c, id in zip(names, found, strict=True) if id == c]
        self.here = {*heads, *there, *inside}
        self.beyond: dict[str, list[str]] = {}  # {commit: its parents}, children before parents
        self._forks: dict[str, frozenset[str]] | None = None
        self._lost: Between | None = None  # beyond, too
        self.within = ""  # a commit that is known to contain the revisions
        if line and all(c in line for c in (*heads, *there)):
            for n in line.only(there, heads):
                self.beyond[line.commit(n)] = line.commits(line.parents(n))
        elif there:
            stdin = "".join(f"{c}\n" for c in [*there, *("^" + head for head in heads)]).encode()
            for row in (
                git.run("rev-list", "--topo-order", "--parents", "--stdin", stdin=stdin)
                .decode()
                .splitlines()
            ):
                commit, *parents = row.split()
                self.beyond[commit] = parents

    @classmethod
    def below(cls, git: Git, head: str, commits: Iterable[str], between: Between) -> Ancestry:
        """The same, where it is known already what another revision has more than this one: that is
        not in `beyond`.
        """
        # An old revision beside a new one makes git walk down to it.
        within = between.base if not between.gained else ""
        out = cls(
            git,
            [within] if within else [head, between.base],
            [c for c in commits if c not in between.lost],
            between.line,
        )
        out.heads, out.within = [head], within
        out.here.add(head)
        out.here.update(between.lost)
        out._lost = between
        return out

    def contains(self, commit: str) -> bool:
        """Whether a revision contains a commit; False also for one that is not here."""
        return (
            commit in self.here
            and commit not in self.beyond
            and not (self._lost and commit in self._lost.lost)
        )

    def forks(self, commit: str) -> frozenset[str]:
        """Where the history of a commit beyond the revisions meets theirs; empty where it never
        does.
        """
        lost = self._lost
        if lost and commit in lost.lost:
            return lost.forks(commit)
        if self._forks is None:
            forks: dict[str, frozenset[str]] = {}
            for child in reversed(self.beyond):
                found = [
                    forks[p] if p in forks else lost.forks(p) if lost and p in lost.lost else (p,)
                    for p in self.beyond[child]
                ]
                forks[child] = frozenset().union(*found)
            self._forks = forks
        return self._forks.get(commit, frozenset())

    def containing(self, tips: list[str], commits: Iterable[str]) -> dict[str, list[str]]:
        """{commit: those of `tips` that contain it}, in their order, of commits beyond the
        revisions.
        """
        bits = {tip: 1 << i for i, tip in enumerate(tips)}
        masks = dict.fromkeys(self.beyond, 0)
        for commit, parents in self.beyond.items():
            masks[commit] |= bits.get(commit, 0)
            for parent in parents:
                if parent in masks:
                    masks[parent] |= masks[commit]
        out: dict[str, list[str]] = {}
        for commit in commits:
            mask = masks.get(commit)
            if mask is not None:
                out[commit] = []
            while mask:
                out[commit].append(tips[(mask & -mask).bit_length() - 1])
                mask &= mask - 1
        return out


def floor(git: Git, head: str, commits: Sequence[str]) -> str:
    """A commit that all of these contain, no far one; "" where there is none. `head` contains all
    of them.

    Mostly the oldest is in all others, which one walk shows: git's own search for
    the base of 64 commits walks the history between them 63 times.
    """
    left = list(commits)
    if len(commits) > _POINTS:
        stdin = "".join(f"{c}\n" for c in commits).encode()
        oldest = (
            git.run("rev-list", "--no-walk=sorted", "--stdin", stdin=stdin).decode().split()[-1]
        )
        above = {oldest}
        rows = [
            row.split()
            for row in git.text(
                "rev-list", "--topo-order", "--parents", head, "^" + oldest, "--"
            ).splitlines()
        ]
        for commit, *parents in reversed(rows):
            if not above.isdisjoint(parents):
                above.add(commit)
        left = [oldest, *(c for c in commits if c not in above)]
    if len(left) == 1:
        return left[0]
    found = git.text("merge-base", "--octopus", *left, ok=(0, 1)).split() if left else []
    return found[0] if found else ""
