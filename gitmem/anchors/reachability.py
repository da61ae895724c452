"""Which commits revisions contain, and where the history of the others left theirs.

Promise: git decides, in one walk however many commits are asked about.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ..git.gitcmd import Git


class Reachability:
    """`commits` as seen from the commits `heads`. `here`: those in this repository; `beyond`:
    {commit: its parents} of all commits between them and the history of `heads`, children first.
    """

    def __init__(self, git: Git, heads: Collection[str], commits: Iterable[str]) -> None:
        self.here = {*heads, *present(git, {*commits} - {*heads, ""})}
        self.beyond: dict[str, list[str]] = {}
        self._forks: dict[str, frozenset[str]] = {}
        if len(self.here) > len(set(heads)):
            stdin = "".join(
                [*(f"{c}\n" for c in sorted(self.here)), *(f"^{head}\n" for head in heads)]
            )
            walk = git.run("rev-list", "--topo-order", "--parents", "--stdin", stdin=stdin.encode())
            for row in walk.decode().splitlines():
                commit, *parents = row.split()
                self.beyond[commit] = parents

    def contains(self, commit: str) -> bool:
        """Whether a revision contains a commit; False also for one that is not here."""
        return commit in self.here and commit not in self.beyond

    def forks(self, commit: str) -> frozenset[str]:
        """Where the history of a commit beyond the revisions meets theirs; empty where it never
        does.
        """
        if not self._forks:
            for child in reversed(self.beyond):
                self._forks[child] = frozenset[str]().union(
                    *(self._forks.get(p, (p,)) for p in self.beyond[child])
                )
        return self._forks.get(commit, frozenset())

    def containing(self, tips: list[str], commits: Iterable[str]) -> dict[str, list[str]]:
        """{commit: those of `tips` that contain it}, in their order, of commits beyond."""
        masks = dict.fromkeys(self.beyond, 0)
        bits = {tip: 1 << i for i, tip in enumerate(tips)}
        for commit, parents in self.beyond.items():
            masks[commit] |= bits.get(commit, 0)
            for parent in parents:
                if parent in masks:
                    masks[parent] |= masks[commit]
        return {
            commit: [tips[i] for i in set_bits(masks[commit])]
            for commit in commits
            if commit in masks
        }


def present(git: Git, names: Iterable[str]) -> set[str]:
    """Those of the full ids that are commits of this repository."""
    asked = sorted(names)
    found = git.ids([f"{c}^{{commit}}" for c in asked]) if asked else []
    return {c for c, id in zip(asked, found, strict=True) if id == c}


def unreferenced(git: Git, commits: Collection[str], without: Iterable[str] = ()) -> set[str]:
    """Those of the commits that no branch, tag, remote branch or commit of `without` contains."""
    if not commits:
        return set()
    stdin = "".join([*(f"{c}\n" for c in sorted(commits)), *(f"^{c}\n" for c in without)]).encode()
    refs = ("--branches", "--tags", "--remotes")
    found = git.run("rev-list", "--stdin", "--not", *refs, stdin=stdin).decode().split()
    return set(found).intersection(commits)


def set_bits(number: int) -> list[int]:
    """The places of the bits that are set, in their order."""
    out = []
    while number:
        lowest = number & -number
        out.append(lowest.bit_length() - 1)
        number ^= lowest
    return out
