"""Where paths went between a commit and a revision, as git's rename detection says, commit by
commit.

A path is followed forwards: a name lives on from commit to commit until one
removes it; there it goes where `-M` says it was renamed to. A merge keeps what
it has of its parents' names. So gradual renames, names given back and names
given to another file come out as in `git log --follow`, which looks from the
other end, and branches as if each were followed.

Promise: for many paths in few processes and at most the history's `seconds`;
what could not be looked at in time is said to be open, never guessed. Names of
one path that somebody asks about, also those before, are `names`.
"""

from __future__ import annotations

from itertools import groupby

from .deletion_index import History, Open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Key = tuple[str, str]
    Edge = tuple[Key, int, str]  # (what was asked, the place of a commit, the name it has there)

_HOPS = 64  # names a path may have had
_AT_ONCE = 4_096  # names that are followed in one walk over the history


class Trace:
    """Follows paths through one history. `there` says which names are at the revision."""

    def __init__(
        self, history: History, there: Callable[[Sequence[str]], set[str]], last: int | None = None
    ) -> None:
        self.history = history
        self.there = there
        self._until = (
            last  # the place of another commit of this history up to which names are followed
        )
        self.via: dict[Key, set[str]] = {}  # all names that decided about an answer
        self._ends: dict[Key, list[str]] = {}
        self._merged: dict[Key, list[tuple[int, str]]] = {}  # what merges removed
        self._open: set[Key] = set()
        self._lost: dict[tuple[Key, int], bool] = {}

    def follow(self, wanted: Sequence[Key], scanned: bool = False) -> dict[Key, str | None]:
        """{(since, path): its name at the revision, "" where it is not there any more, None where
        time ran out}.

        `since`: the commit it had that name at, part of the history. Where branches
        gave it several names, one that was kept comes first, then the others by name.
        `scanned`: all that was removed since is known.
        """
        history = self.history
        self.via = {key: {key[1]} for key in wanted}
        self._ends = {key: [] for key in wanted}
        try:
            if not scanned:
                history.scan({since for since, _ in wanted})
            self._run([(key, history.line.place(key[0]), key[1]) for key in wanted], [])
            self._run_merges([key for key, found in self._ends.items() if not found])
        except Open:
            self._open.update(key for key, found in self._ends.items() if not found)
        names = {name for found in self._ends.values() for name in found}
        there = self.there(sorted(names)) if names else set()
        return {
            key: next((n for n in found if n in there), None if key in self._open else "")
            for key, found in self._ends.items()
        }

    def _run_merges(self, keys: Iterable[Key]) -> None:
        """Follows what a merge alone renamed: as when git took a new file along with its renamed
        directory.
        """
        self._run(
            [], [(key, *hit) for key in keys for hit in self._merged.pop(key, ())], merges=True
        )

    def _all_lost(self, keys: Sequence[Key], merge: int) -> set[Key]:
        """The paths, of those that had a name which a merge removed, of which it has no other: else
        it kept one, and renamed nothing. Lower merges were looked at.
        """
        several = [
            key
            for key in dict.fromkeys(keys)
            if len(self.via[key]) > 1 and (key, merge) not in self._lost
        ]
        if several:
            if self.history.left() <= 0:
                raise Open
            before = Trace(self.history, self.there, merge)
            before.via, before._ends, before._lost = (
                {key: set() for key in several},
                {key: [] for key in several},
                self._lost,
            )
            before._run([(key, self.history.line.place(key[0]), key[1]) for key in several], [])
            before._run_merges([key for key in several if not before._ends[key]])
            self._open |= before._open
            self._lost.update(((key, merge), not before._ends[key]) for key in several)
        return {key for key in keys if len(self.via[key]) == 1 or self._lost[key, merge]}

    def _run(self, edges: list[Edge], hits: list[Edge], merges: bool = False) -> None:
        """Follows names from commits that have them, and from commits that removed them (`hits`),
        until they end.
        """
        seen: set[Edge] = set()
        for _ in range(_HOPS):
            edges = [
                e for e in dict.fromkeys([*edges, *self._renamed(hits, merges)]) if e not in seen
            ]
            if not edges:
                return
            seen.update(edges)
            for key, _, name in edges:
                self.via[key].add(name)
            hits = self._walk(edges)
        self._open.update(key for key, _, _ in edges)

    def _renamed(self, hits: list[Edge], merges: bool) -> list[Edge]:
        """Where commits that removed names renamed them to; merges only on request."""
        history, line = self.history, self.history.line
        hits = [hit for hit in hits if hit[1] != self._until]
        for key, place, name in hits:
            if place in line.more and not merges:
                self._merged.setdefault(key, []).append((place, name))
        asked = sorted((hit for hit in hits if merges or hit[1] not in line.more), key=_place)
        history.renamed(line.commit(place) for _, place, _ in asked)
        out = []
        for place, found in groupby(asked, _place):
            names = [(key, name) for key, _, name in found]
            lost = self._all_lost([key for key, _ in names], place) if place in line.more else None
            for key, name in names:
                try:
                    target = (
                        history.target(line.commit(place), name)
                        if lost is None or key in lost
                        else ""
                    )
                except Open:
                    self._open.add(key)
                    continue
                if target:
                    self.via[key].add(target)
                    out.append((key, place, target))
        return out

    def _walk(self, edges: Sequence[Edge]) -> list[Edge]:
        """Follows names as long as they live: those that reach the revision are ends of their keys;
        returns which commits removed the others.
        """
        removed = self.history.removals(name for _, _, name in edges)
        keys: dict[tuple[int, str], list[Key]] = {}
        for key, place, name in edges:
            keys.setdefault((place, name), []).append(key)
        out: list[Edge] = []
        mortal = []
        for start, found in keys.items():
            if self._until is not None or (removed[start[1]] and removed[start[1]][-1] > start[0]):
                mortal.append(start)
            else:
                self._live(found, start[1])
        mortal.sort()
        for i in range(0, len(mortal), _AT_ONCE):
            part = mortal[i : i + _AT_ONCE]
            alive, hits = self._lives(part, removed)
            for start in alive:
                self._live(keys[start], start[1])
            out += [(key, place, start[1]) for start, place in hits for key in keys[start]]
        return out

    def _live(self, keys: Iterable[Key], name: str) -> None:
        for key in keys:
            if name not in self._ends[key]:
                self._ends[key] = sorted(
                    [*self._ends[key], name],
                    key=lambda n, own=key[1]: (n != own, n),  # type: ignore[misc]
                )

    def _lives(
        self, starts: Sequence[tuple[int, str]], removed: dict[str, list[int]]
    ) -> tuple[list[tuple[int, str]], list[tuple[tuple[int, str], int]]]:
        """(those of the names that live until the revision, [(name, place of a commit that removed
        it)]): one walk, a bit for each name.
        """
        begin: dict[int, int] = {}
        kill: dict[int, int] = {}
        for bit, (place, name) in enumerate(starts):
            begin[place] = begin.get(place, 0) | 1 << bit
            for n in removed[name]:
                kill[n] = kill.get(n, 0) | 1 << bit
        first, more = self.history.line.first, self.history.line.more
        last = self.history.last if self._until is None else self._until
        lives = [0] * (last + 2)  # one more for what has no parent
        hits = []
        special = {*begin, *kill, *more}
        for n, p in enumerate(first[starts[0][0] : last + 1], starts[0][0]):
            mask = lives[p]
            if n in special:
                for p in more.get(n, ()):
                    mask |= lives[p]
                if mask and n in kill:
                    hits += [(starts[bit], n) for bit in _bits(mask & kill[n])]
                    mask &= ~kill[n]
                mask |= begin.get(n, 0)
            lives[n] = mask
        return [starts[bit] for bit in _bits(lives[last])], hits


def _place(edge: Edge) -> int:
    return edge[1]


def _bits(number: int) -> list[int]:
    out = []
    while number:
        lowest = number & -number
        out.append(lowest.bit_length() - 1)
        number ^= lowest
    return out
