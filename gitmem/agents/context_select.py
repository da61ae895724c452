"""Chooses the memories of a context block, within a budget of tokens.
Scores come from paths, words and time; blockers and decisions go first, then the rest by score.
Pure.

Promises. What is chosen fits the budget of tokens and the limit of one hook's output, tags and all.
Blockers and decisions have a share of their own that they may use up and not exceed; what they
leave goes to the rest. No author has more than half of the places while a memory of another one
waits. Of memories that say the same one is told; the others count as omitted, and JSON names them
with it. The same candidates give the same choice, in whatever order they came.

The weights were chosen by `tools/eval_context.py`; decision 21 has the figures.
"""

from __future__ import annotations

from math import log

from ..core import confidence
from ..engine import anchor_state_store, path_state_store
from .context_item import BLOCKERS, DECISIONS, LONG, RELEVANT, SECTIONS, SHORT, Item, size
from .context_render import Block

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeVar

    T = TypeVar("T")

TIERS = (500, 1_000, 2_000, 3_000)
_STEPS = (10, 50, 100)  # memories from which the next tier counts
_WIDE = 8  # files changed on a branch from which its work is wide
_BUSY = 40  # commits in the month before HEAD
SHARES = {BLOCKERS: 0.3, DECISIONS: 0.35}  # of the budget, at most
MOST = 40  # memories of one block: a longer list is read by nobody
_ALIKE = 0.8  # share of words in common from which two texts say the same
_LEAST = 30  # characters of a text that are still worth showing

# Shares of a score: files of recent commits, files of the branch and of the session, words of the
# branch and of recent commits, age.
PATHS, HAND, BRANCH, RECENT, AGE = 0.7, 0.7, 1.0, 0.05, 0.3
TOUCHED, OWN = 1.0, 0.5  # of the files at hand: those of the session, those of the branch
HALF = 30.0  # days after which age has lost half of its share


def path_scores(
    weights: Mapping[str, float], holders: Mapping[str, Iterable[int]], total: int
) -> dict[int, float]:
    """{row: 0 to 1} from weights of paths and the rows of each; a common path says little."""
    out: dict[int, float] = {}
    for path in sorted(holders):
        rows = list(holders[path])
        rarity = log(1 + total / (1 + len(rows)))
        for row in rows:
            out[row] = out.get(row, 0.0) + weights.get(path, 0.0) * rarity
    return _scaled(out)


def word_scores(found: Iterable[tuple[int, float]]) -> dict[int, float]:
    """{row: 0 to 1} from BM25 as FTS5 gives it (lower is better)."""
    return _scaled({row: -score for row, score in found if score < 0})


def _scaled(scores: dict[int, float]) -> dict[int, float]:
    most = max(scores.values(), default=0.0)
    return {row: score / most for row, score in scores.items()} if most > 0 else {}


def score(paths: float, hand: float, branch: float, recent: float, age: float) -> float:
    return PATHS * paths + HAND * hand + BRANCH * branch + RECENT * recent + AGE * age


def prior(
    state: str, stated: object, learned: float | None = None, stale: str = "", reason: str = ""
) -> float:
    """What a score is multiplied by: the branch it stands on, what its writer thought of it, what
    use has taught (0 to 1, None for nothing), what became of its files.
    """
    out = (
        anchor_state_store.weight(state, reason, anchor_state_store.UNASKED)
        * path_state_store.FACTORS.get(stale, 1.0)
        * confidence.doubted(stated)
    )
    return out if learned is None else out * confidence.factor(learned)


def tier(memories: int, changed: int, commits: int | None) -> tuple[int, str]:
    """(tokens, why): the budget where none is fixed.

    `changed`: files changed on the branch beside the main line; `commits`: in the month before
    HEAD, None where nobody has counted yet.
    """
    step = sum(memories > s if s == _STEPS[-1] else memories >= s for s in _STEPS)
    change, why = 0, ""
    if changed >= _WIDE:
        change, why = 1, f", {changed} files changed on this branch"
    elif commits is not None and commits >= _BUSY and step > 0:
        change, why = 1, f", {commits} commits in a month"
    if step + change >= len(TIERS):
        change, why = 0, ""
    return TIERS[step + change], f"{memories} memories{why}"


def section_of(type: str) -> str:
    return BLOCKERS if type == "blocker" else DECISIONS if type == "decision" else RELEVANT


def choose(frame: Block, candidates: Iterable[tuple[float, Item]]) -> None:
    """Fills `frame.items` from (score, item): by score, then the newest, then by id."""
    pairs = sorted(candidates, key=lambda pair: pair[1].id)
    pairs.sort(key=lambda pair: pair[1].when, reverse=True)
    pairs.sort(key=lambda pair: -pair[0])
    ranked = [item for _, item in pairs]
    places = Places(map(_speaker, ranked))
    room = _Room(frame)

    def tell(item: Item, section: str, share: float) -> bool:
        taken = room.take(item, section, share)
        if taken:
            places.give(_speaker(item))
        return taken

    for section, share in SHARES.items():
        for item in ranked:
            if section_of(item.type) != section or not item.when:
                continue
            if places.crowded(_speaker(item)) or room.repeats(item):
                continue
            if not tell(item, section, share):
                break
    for item in places.turns([item for item in ranked if item not in room.chosen], _speaker):
        section = section_of(item.type)
        if room.repeats(item) or (section in SHARES and tell(item, section, SHARES[section])):
            continue
        if not tell(item, BLOCKERS if section == BLOCKERS else RELEVANT, 1.0):
            break
    room.chosen.sort(key=ranked.index)
    room.lengthen()
    frame.items = [item for name in SECTIONS for item in room.chosen if item.section == name]
    frame.shrink()


def _speaker(item: Item) -> str | None:
    return item.author if item.when else None


class Places:
    """Who may have the next place: else whoever writes the most memories pushes out all others.

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
        """All of `ranked`, in its order as far as that crowds nobody; the caller gives places."""
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
    """The space of a block, and what is in it, measured as it will be written."""

    def __init__(self, frame: Block) -> None:
        self.frame = frame
        self.used = 0  # bytes of the memories
        self.chosen: list[Item] = []
        self._around: dict[frozenset[str], int] = {}
        self._said: list[tuple[frozenset[str], Item]] = []
        self._repeats: dict[str, bool] = {}

    def repeats(self, item: Item) -> bool:
        """Whether a text says what an earlier one says; the earlier memory names it then."""
        if item.id not in self._repeats:
            words = frozenset(item.whole.casefold().split())
            first = next((other for said, other in self._said if alike(words, said)), None)
            if first:
                first.similar.append(item.id)
            else:
                self._said.append((words, item))
            self._repeats[item.id] = first is not None
        return self._repeats[item.id]

    def left(self, section: str = "") -> int:
        """Bytes that are free, were one of the memories in this section too."""
        sections = frozenset([i.section for i in self.chosen] + [section] * bool(section))
        if sections not in self._around:
            self.frame.items = [Item("", name, "", section=name) for name in sections]
            placeholders = sum([size(item.xml()) for item in self.frame.items])
            whole = size(self.frame.render())
            self._around[sections] = whole - placeholders + 2  # counts of two digits
            self.frame.items = []
        return self.frame.limit - self._around[sections] - self.used

    def take(self, item: Item, section: str, share: float) -> bool:
        """Adds an item where there is room; whether there may be room for another."""
        if len(self.chosen) >= MOST:
            return False
        item.section = section
        item.most = SHORT
        left = self.left(section)
        least = SHORT // 2 if self.chosen else _LEAST  # one in part rather than none
        while item.most > least and size(item.xml()) > left:
            item.most //= 2
        more, before = size(item.xml()), 0
        if share < 1:
            before = sum([size(i.xml()) for i in self.chosen if i.section == section])
        full = before and before + more > self.frame.limit * share
        if more > left or full:
            return False
        self.used += more
        self.chosen.append(item)
        return True

    def lengthen(self) -> None:
        """Gives what is left to texts that were cut, the first ones first."""
        for item in self.chosen:
            if item.cut:
                short, before, left = item.most, size(item.xml()), self.left()
                item.most = min(LONG, short + max(0, left))
                if size(item.xml()) - before > left:
                    item.most = short  # characters that take more than one byte
                self.used += size(item.xml()) - before


def alike(a: frozenset[str], b: frozenset[str]) -> bool:
    """Whether two sets of words have so much in common that one text is enough."""
    if min(len(a), len(b)) < _ALIKE * max(len(a), len(b)):
        return False
    both = len(a & b)
    return both >= _ALIKE * (len(a) + len(b) - both)
