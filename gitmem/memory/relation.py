"""How two stored memories relate: they say the same, one rewords or contradicts the other.

Stricter than `similarity`, which may leave a doubtful new text out: here a person is asked to give
a memory up. Each rule was kept for the share of its proposals that were right on instructions that
real projects wrote and rewrote; `docs/evaluation.md` has the figures.

The words are English; in other languages only nearly equal texts are found. Pure: texts, and the
cosine of their vectors.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from ..core import text as words_of
from . import similarity
from .similarity import STATEMENT, opposed, stance, word_set

# The cosine from which
SAME = 0.72  # two texts may be the same
NEAR = 0.7  # one may speak against the other
CHANGED = 0.8  # one may do away with what the other is for
CLOSE = 0.93  # one may be a later wording of the other: six of seven such pairs were
VALUE = 0.95  # another word in one place is another value, not another thing
_PLACE = 0.85  # the same, of two memories about one file
_FEW = 4  # terms: what says less repeats any text that has them
_LONG = 20  # terms of a text that may have a word of its own and still repeat another

_NAME = re.compile(r"[\w@$#][\w./:@$#-]*[\w/]|\w")
_QUOTED = re.compile(r"""[`'"]([^`'"\s]+)[`'"]""")
_CODE = re.compile(r"`([^`\n]+)`")


def _pairs(words: str) -> list[frozenset[str]]:
    return [frozenset(pair.split("/")) for pair in words.split()]


_APART = _pairs(
    "good/bad correct/wrong correct/incorrect right/wrong true/false yes/no on/off enable/disable "
    "enabled/disabled allow/deny allow/forbid allowed/forbidden always/never before/after "
    "first/last min/max minimum/maximum add/remove with/without start/stop start/end input/output "
    "read/write public/private success/failure success/error sync/async old/new client/server "
    "frontend/backend local/remote up/down left/right open/close include/exclude required/optional "
    "internal/external more/less above/below dev/prod development/production staging/production "
    "test/production get/set push/pull upload/download import/export encode/decode ahead/behind "
    "reading/editing reading/creating editing/creating reading/writing"
)
_NUMBERS = word_set(
    "one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty "
    "sixty hundred"
)
# Sets of words of which only one can hold.
_KINDS = [
    word_set("monday tuesday wednesday thursday friday saturday sunday"),
    word_set(
        "january february march april may june july august september october november december"
    ),
    *_pairs(
        "true/false on/off enabled/disabled enable/disable allowed/forbidden required/optional"
        " yes/no always/never tabs/spaces"
    ),
]

_SAMPLE = re.compile(
    r"[❌✅✓✗🚫]|^\W*(?:good|bad|wrong|right|correct|incorrect|error|example|e\.g|problem|"
    r"solution|before|after|todo|\[["
    r" x]\])\b",
    re.IGNORECASE,
)
_ORDERED = word_set("to from before after over than into by via instead")


@lru_cache(8192)
def names(text: str) -> frozenset[str]:
    """Names of things: words in quotes, and words with a digit, a capital or a mark inside."""
    found = {word.strip("*_.,:;()[]{}/-").casefold() for word in _QUOTED.findall(text)}
    for word in _NAME.findall(text.replace("’", "'")):
        bare = word.strip("`'\"*_.,:;()[]{}/-")
        if any(c in "./_-:@$#" or c.isdigit() for c in bare) or any(map(str.isupper, bare[1:])):
            found.add(bare.casefold())
    return frozenset(found - {""})


@lru_cache(8192)
def _words(text: str) -> tuple[str, ...]:
    return tuple(similarity.normal(text).split())


def _said(*texts: str) -> bool:
    """Whether all are statements: short, no samples, no entries of a list of tasks."""
    return all(len(t.split()) <= STATEMENT and not _SAMPLE.search(t) for t in texts)


# The same


def holds(rich: str, poor: str, near: float) -> bool:
    """Whether `rich` says everything that `poor` says."""
    if similarity.normal(rich) == similarity.normal(poor):
        return True
    if near < SAME or not _named(rich, poor) or _apart(rich, poor):
        return False
    mine, held = similarity.terms(poor), set(similarity.terms(rich))
    own = [t for t in mine if t not in held]
    if len(mine) < (_FEW if len(held) > len(mine) else _FEW - 1):
        return False
    if len(own) > (len(mine) >= _LONG) or any(c.isdigit() for t in own for c in t):
        return False
    return not opposed(rich, poor) and _in_order(rich, poor)


def _named(rich: str, poor: str) -> bool:
    codes = (re.escape(code) for code in _CODE.findall(poor) if code.strip())
    return names(poor) <= names(rich) and all(
        re.search(rf"(?<!\w){code}(?!\w)", rich) for code in codes
    )


def _in_order(one: str, other: str) -> bool:
    """Whether their common terms have one order, or no word like "to" makes the order matter."""
    mine, theirs = similarity.terms(one), similarity.terms(other)
    common = set(mine) & set(theirs)
    same = [t for t in mine if t in common] == [t for t in theirs if t in common]
    return same or not _ORDERED.intersection(_words(one) + _words(other))


def _apart(one: str, other: str) -> bool:
    a, b = set(_words(one)), set(_words(other))
    return any(pair & (a - b) and pair & (b - a) for pair in _APART)


def rewords(one: str, other: str, near: float) -> bool:
    """Whether they are two wordings of one statement, each with some terms of its own."""
    if near < CLOSE or _apart(one, other) or not _in_order(one, other):
        return False
    if _SAMPLE.search(one) or _SAMPLE.search(other):
        return False
    long = max(len(one.split()), len(other.split())) > STATEMENT
    if long and not _akin(names(one) - names(other), names(other) - names(one)):
        return False  # two sections of one form, about two things
    a, b = set(similarity.terms(one)), set(similarity.terms(other))
    return len(a & b) >= _FEW and 10 * len(a & b) >= 7 * len(a | b)


def _akin(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether these may be two names of one thing: a side has none, or they share a part."""
    parts = [
        {part for name in side for part in re.split(r"[/.:]", name) if len(part) > 3}
        for side in (one, other)
    ]
    return not one or not other or bool(parts[0] & parts[1])


# Against each other


def replaces(new: str, old: str, near: float) -> bool:
    """Whether `new` rejects what `old` supports, and supports something else instead."""
    if near < CHANGED or not _said(new, old):
        return False
    now, was = stance(new), stance(old)
    if was.con or not now.pro:
        return False
    gone = now.con & was.pro
    left = was.pro - gone
    shared = left & (now.pro | now.con)
    most = len(shared) >= 2 and 3 * len(shared) >= 2 * len(left)
    return bool(gone) and most and names(old) <= names(new)


def denies(one: str, other: str, near: float) -> bool:
    """Whether one rejects what the other supports, in nearly the same words, or each does."""
    if near < NEAR or not _said(one, other):
        return False
    a, b = stance(one), stance(other)
    if a.con & b.pro and a.pro & b.con:
        return 2 * len((a.pro | a.con) & (b.pro | b.con)) >= len(a.pro | a.con | b.pro | b.con)
    against, positive = (a, b) if a.con else (b, a)
    if positive.con or near < _PLACE:
        return False
    said = against.con & positive.pro
    return len(said) >= 2 and 3 * len(said) >= 2 * len(against.con | positive.pro)


class Slot(NamedTuple):
    """One sentence with another value in one place: the words around it, and what stands there."""

    frame: str
    one: str
    other: str


def slot(one: str, other: str, near: float) -> Slot | None:
    """None where the two differ in more than one place."""
    if near < _PLACE or not _said(one, other):
        return None
    a, b = _words(one), _words(other)
    opcodes = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    changed = [op for op in opcodes if op[0] != "equal"]
    if len(changed) != 1:
        return None
    kind, i, i2, j, j2 = changed[0]
    if kind != "replace" or i2 - i > 2 or j2 - j > 2:
        return None
    rest = (*a[:i], "_", *a[i2:])
    if len([t for t in words_of.terms(" ".join(rest)) if not t.isdigit()]) < 2:
        return None
    return Slot(" ".join(rest), " ".join(a[i:i2]), " ".join(b[j:j2]))


def of_a_kind(found: Slot) -> bool:
    """Whether only one of the two values can hold: two numbers, two days, on and off."""
    a, b = found.one.split(), found.other.split()
    return len(a) == len(b) and all(x == y or _kind(x, y) for x, y in zip(a, b, strict=True))


def differs(found: Slot, near: float, beside: bool) -> bool:
    """Whether two values cannot both hold. `beside`: the texts are about one file."""
    if of_a_kind(found):
        return True
    if len(found.frame.split()) < 6 or frozenset((found.one, found.other)) in _APART:
        return False  # "before" and "after" are two cases
    return near >= VALUE or (beside and near >= _PLACE)


def _kind(x: str, y: str) -> bool:
    if (x[0].isdigit() or x in _NUMBERS) and (y[0].isdigit() or y in _NUMBERS):
        return True
    return any({x, y} <= kind for kind in _KINDS)
