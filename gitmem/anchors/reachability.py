"""Which commits revisions contain, and where the history of the others left theirs.

Promise: git decides, in one walk however many commits are asked about.
"""

from __future__ import annotations

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
            asked = [*sorted(self.here), *(f"^{head}" for head in heads)]
            stdin = "".join(f"{row}\n" for row in asked).encode()
            walk = git.run("rev-list", "--topo-order", "--parents", "--stdin", stdin=stdin)
            rows = [row.split() for row in walk.decode().splitlines()]
            self.beyond = {commit: parents for commit, *parents in rows}

    def contains(self, commit: str) -> bool:
        """Whether a revision contains a commit; False also for one that is not here."""
        return commit in self.here and commit not in self.beyond

    def forks(self, commit: str) -> frozenset[str]:
        """Where the history of a commit beyond leaves that of the revisions; empty for nowhere."""
        if not self._forks:
            for child in reversed(self.beyond):
                met = (self._forks.get(p, (p,)) for p in self.beyond[child])
                self._forks[child] = frozenset[str]().union(*met)
        return self._forks.get(commit, frozenset())

    def containing(self, tips: list[str], commits: Iterable[str]) -> dict[str, list[str]]:
        """{commit: those of `tips` that contain it}, in their order, of commits beyond."""
        masks = dict.fromkeys(self.beyond, 0)
        for i, tip in enumerate(tips):
            if tip in masks:
                masks[tip] |= 1 << i
        for commit, parents in self.beyond.items():
            for parent in parents:
                if parent in masks:
                    masks[parent] |= masks[commit]
        return {c: [tips[i] for i in set_bits(masks[c])] for c in commits if c in masks}


def present(git: Git, names: Iterable[str]) -> set[str]:
    """Those of the full ids that are commits of this repository."""
    asked = sorted(names)
    found = git.ids([f"{c}^{{commit}}" for c in asked])
    return {c for c, id in zip(asked, found, strict=True) if id == c}


def unreferenced(git: Git, commits: Collection[str], without: Iterable[str] = ()) -> set[str]:
    """Those of the commits that no branch, tag, remote branch or commit of `without` contains."""
    if not commits:
        return set()
    asked = [*sorted(commits), *(f"^{c}" for c in without)]
    stdin = "".join(f"{row}\n" for row in asked).encode()
    refs = ("--not", "--branches", "--tags", "--remotes")
    found = git.run("rev-list", "--stdin", *refs, stdin=stdin).decode().split()
    return set(found).intersection(commits)


def set_bits(number: int) -> list[int]:
    """The places of the bits that are set, in their order."""
    out = []
    while number:
        lowest = number & -number
        out.append(lowest.bit_length() - 1)
        number ^= lowest
    return out
