"""Choosing what a context block tells: blockers and decisions first, the rest by relevance, within
a budget. Pure.

Promises. What is chosen fits the budget of tokens and the limit of one hook's
output, tags and all. Blockers and decisions have a share of their own that
they may use up and not exceed; what they leave goes to the rest. No author has
more than half of the places while a memory of another one waits. Of memories
that say the same one is told; the others count as omitted, and JSON names them
with it. The same candidates give the same choice.
"""

from __future__ import annotations

from .context_item import (
    BLOCKERS,
    BYTES,
    DECISIONS,
    LONG,
    RELEVANT,
    SECTIONS,
    SHORT,
    Item,
    size,
    units,
)
from .context_render import MAX_UNITS, Block

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeVar

    T = TypeVar("T")

TIERS = (500, 1_000, 2_000, 3_000)
_STEPS = (10, 50, 100)  # memories from which the next tier counts
_WIDE = 8  # files changed on a branch from which its work is wide
_BUSY, _QUIET = 40, 2  # commits in the month before HEAD
SHARES = {BLOCKERS: 0.3, DECISIONS: 0.35}  # of the budget, at most
MOST = 40  # memories of one block: a longer list is read by nobody
FIRST = 240  # characters of a blocker or a decision where space is scarce
_ALIKE = 0.8  # share of words in common from which two texts say the same
_LEAST = 30  # characters of a text that are still worth showing


def tier(memories: int, changed: int, commits: int | None) -> tuple[int, str]:
    """(tokens, why): the budget where none is fixed, from facts of git.

    `changed`: files changed on the branch beside the main line; `commits`: in
    the month before HEAD, None where nobody has counted yet.
    """
    step = sum(memories > s if s == _STEPS[-1] else memories >= s for s in _STEPS)
    why = f"{memories} memories"
    if changed >= _WIDE and step < 3:
        step += 1
        why += f", {changed} files changed on this branch"
    elif commits is not None and commits >= _BUSY and 0 < step < 3:
        step += 1
        why += f", {commits} commits in a month"
    elif commits is not None and commits < _QUIET and not changed and step > 1:
        step -= 1
        why += ", hardly a commit in a month"
    return TIERS[step], why


def section_of(type: str) -> str:
    return BLOCKERS if type == "blocker" else DECISIONS if type == "decision" else RELEVANT


def choose(frame: Block, candidates: Iterable[tuple[float, Item]]) -> None:
    """Fills `frame.items` from (score, item) within `frame.budget`.

    The order in a section: by score, then the newest, then by id.
    """
    pairs = sorted(candidates, key=lambda pair: (-pair[0], _reversed(pair[1].when), pair[1].id))
    ranked = [item for _, item in pairs]
    places = Places(map(_speaker, ranked))
    room = _Room(frame)
    told = _Told()

    def tell(item: Item, section: str, share: float) -> bool:
        taken = room.take(item, section, share)
        if taken:
            places.give(_speaker(item))
        return taken

    for section, share in SHARES.items():
        for item in ranked:
            if section_of(item.type) != section or not item.when:
                continue
            if places.crowded(_speaker(item)) or told.repeats(item):
                continue
            if not tell(item, section, share):
                break
    for item in places.turns([item for item in ranked if item not in room.chosen], _speaker):
        section = section_of(item.type)
        if told.repeats(item) or (section in SHARES and tell(item, section, SHARES[section])):
            continue
        if not tell(item, BLOCKERS if section == BLOCKERS else RELEVANT, 1.0):
            break
    room.chosen.sort(key=ranked.index)
    room.lengthen()
    frame.items = [item for name in SECTIONS for item in room.chosen if item.section == name]
    while frame.items and (
        units(text := frame.render()) > MAX_UNITS or size(text) > frame.budget * BYTES
    ):
        frame.items.pop()


def _speaker(item: Item) -> str | None:
    return item.author if item.when else None


def _reversed(stamp: str) -> tuple[int, ...]:
    return tuple([-ord(c) for c in stamp])


class Places:
    """Who may have the next place. No author gets more than half of them, rounded up, while a
    memory of another one waits: else whoever writes the most memories pushes out all others.

    A memory whose time is malformed or impossible has no author here (None): it waits for all
    others, and nobody waits for it.
    """

    def __init__(self, authors: Iterable[str | None]) -> None:
        self._alone = len({author for author in authors if author is not None}) < 2
        self._given: dict[str | None, int] = {}
        self._all = 0

    def give(self, author: str | None) -> None:
        self._given[author] = self._given.get(author, 0) + 1
        self._all += 1

    def crowded(self, author: str | None) -> bool:
        """Whether one place more would be too many for an author."""
        return not self._alone and 2 * self._given.get(author, 0) > self._all

    def turns(self, ranked: Iterable[T], author: Callable[[T], str | None]) -> Iterator[T]:
        """All of `ranked`, in its order as far as that crowds nobody; the caller gives the
        places."""
        held: list[T] = []
        last: list[T] = []
        for one in ranked:
            while held and not self.crowded(author(held[0])):
                yield held.pop(0)
            if author(one) is None:
                last.append(one)
            elif self.crowded(author(one)):
                held.append(one)
            else:
                yield one
        yield from held
        yield from last


def shared(ranked: Sequence[T], author: Callable[[T], str | None], most: int) -> list[T]:
    """The first `most` by `Places`."""
    places = Places(map(author, ranked))
    out: list[T] = []
    for one in places.turns(ranked, author):
        if len(out) == most:
            break
        places.give(author(one))
        out.append(one)
    return out


class _Room:
    """The space of a block, and what is in it. Everything is measured as it will be written."""

    def __init__(self, frame: Block) -> None:
        self.frame = frame
        self.bytes = frame.budget * BYTES
        self.items = Size("")
        self.chosen: list[Item] = []
        self._frames: dict[frozenset[str], Size] = {}

    def around(self, sections: frozenset[str]) -> Size:
        """The size of all but the memories, with these sections."""
        if sections not in self._frames:
            kept = self.frame.items
            self.frame.items = [Item("", name, "", section=name) for name in sections]
            whole = Size(self.frame.render())
            for item in self.frame.items:
                whole -= Size(item.xml())
            self.frame.items = kept
            self._frames[sections] = whole + Size("12")  # counts of two digits
        return self._frames[sections]

    def fits(self, items: Size, sections: frozenset[str]) -> bool:
        whole = items + self.around(sections)
        return whole.bytes <= self.bytes and whole.units <= MAX_UNITS

    def take(self, item: Item, section: str, share: float) -> bool:
        """Adds an item where there is room; whether there may be room for another."""
        if len(self.chosen) >= MOST:
            return False
        sections = frozenset([section, *(i.section for i in self.chosen)])
        item.section = section
        item.most = SHORT if section == RELEVANT else FIRST
        more = Size(item.xml())
        while not self.chosen and item.most > _LEAST and not self.fits(more, sections):
            item.most //= 2  # one memory in part rather than none
            more = Size(item.xml())
        if not self.fits(self.items + more, sections):
            return False
        if share < 1:
            before = sum([Size(i.xml()).bytes for i in self.chosen if i.section == section])
            if before and before + more.bytes > self.bytes * share:
                return False
        self.items += more
        self.chosen.append(item)
        return True

    def lengthen(self) -> None:
        """Gives what is left to texts that were cut, the first ones first."""
        sections = frozenset([i.section for i in self.chosen])
        for item in self.chosen:
            if item.cut:
                short, before = item.most, Size(item.xml())
                whole = self.items + self.around(sections)
                left = min(int(self.bytes - whole.bytes), MAX_UNITS - whole.units)
                item.most = min(LONG, short + max(0, left))
                after = Size(item.xml())
                if self.fits(self.items - before + after, sections):
                    self.items = self.items - before + after
                else:
                    item.most = short  # characters that take more than one byte


class Size:
    """Of a text: UTF-8 bytes, UTF-16 units."""

    __slots__ = ("bytes", "units")

    def __init__(self, text: str) -> None:
        self.bytes = size(text)
        self.units = units(text)

    def __add__(self, other: Size) -> Size:
        return self._of(self.bytes + other.bytes, self.units + other.units)

    def __sub__(self, other: Size) -> Size:
        return self._of(self.bytes - other.bytes, self.units - other.units)

    def _of(self, bytes: int, units: int) -> Size:
        out = Size("")
        out.bytes, out.units = bytes, units
        return out


class _Told:
    """The memories told so far, by the words of their texts."""

    def __init__(self) -> None:
        self._words: list[tuple[frozenset[str], Item]] = []
        self._repeats: dict[str, bool] = {}

    def repeats(self, item: Item) -> bool:
        """Whether a text says what an earlier one says; the earlier memory names it then."""
        if item.id not in self._repeats:
            words = frozenset(item.whole.casefold().split())
            first = next((other for said, other in self._words if alike(words, said)), None)
            if first:
                first.similar.append(item.id)
            else:
                self._words.append((words, item))
            self._repeats[item.id] = first is not None
        return self._repeats[item.id]


def alike(a: frozenset[str], b: frozenset[str]) -> bool:
    """Whether two sets of words have so much in common that one text is enough."""
    small, large = (a, b) if len(a) <= len(b) else (b, a)
    if not small or len(small) < _ALIKE * len(large):
        return a == b
    both = len(small & large)
    return both >= _ALIKE * (len(a) + len(b) - both)
