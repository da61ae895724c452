"""Whether a new text repeats what a stored memory says, or changes it.

A vector cannot tell: with the packaged table "the staging database is wiped every Sunday" and
"every Monday" have a cosine of 0.97, while true paraphrases lie at 0.81 to 0.85. So the vector only
finds candidates, and the words decide: a repeat has no term of its own, its terms in the same
order, the same small words that turn a meaning ("except", "only", "before"), the same signs ("C++",
">=", "$"), and rejects the same things.

Clauses tell what a sentence supports from what it rejects: "never commit X" rejects all of it,
"Y, not X" and "from X to Y" reject X.

Promise: a text is called a repeat only where nothing it says would be lost; a doubtful text counts
as new. A change is only ever proposed to a person. Pure, but for `neighbours`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any, NamedTuple

from ..core import text as words_of
from ..engine import hamming, memory_rows, model_vectors, nearness
from ..engine.cache import SPACE, Cache
from ..engine.embed import StaticTable
from ..engine.int8_vectors import cosine

NEAR = 0.72  # cosine from which a repeat is looked for; measured repeats have 0.81 and more
RELATED = 0.45  # ... and a change, which may share one name only
_FEW = 2  # terms in which a corrected text differs
STATEMENT = 60  # words; in longer texts some word contradicts every other text
_NEIGHBOURS = 8

# Decided types: only they are changed by a later word.
STANDING = frozenset(["decision", "preference", "convention", "learning", "gotcha"])


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_LEAD = re.compile(
    r"^\W*(?:(?:please )?(?:remember|note|keep in mind|for the record)(?:"
    r" (?:this|that))?|#remember|fyi|important|decision|decided|learned|learning|lesson|gotcha"
    r"|convention|preference|finding|(?:so )?(?:we|i) (?:have )?(?:decided|agreed|chose)"
    r"(?: to| that| on)?|from now on|going forward|let's go with"
    r"|turns out(?: that)?)\b\s*[:,–—-]?\s*",
    re.IGNORECASE,
)
_SAID = frozenset(
    words_of.terms(
        "remember note decided decision agreed learned gotcha convention preference gets got always"
        " really just now go let let's forward from"
    )
)
# Words that are no terms, or common ones, and without which a text says something else.
_TURNS = word_set(
    "except excluding besides unless until till but only without if when while once before after "
    "above below under over or nor not no never cannot off out all any both each few more most "
    "less least same other through during"
)
# What is no word and means something: C++ and C#, <= and >=, -1, $ and €, 5%, ~1.2, a || b.
_SIGN = (
    r"(?<=\w)(?:\+{1,2}|#)(?!\w)|[<>=!]=|[<>=≤≥≠±]|&&|\|\||[$€£¥₹%‰°]"
    r"|(?<![\w.)])[-+−~^](?=[\d./])|(?<!\w)\.(?=\d)"
)
_TOKEN = re.compile(r"\w+|" + _SIGN)
_CLAUSE = re.compile(
    r"[.,;:!?()\n–—→]|\s-\s|\b(?:because|since|so|but|while|which|that|unless|if|when|as)\b"
)
_VERBAL = re.compile(
    r"\b(?:never|cannot|no longer|not any"
    r" ?more|(?:do|does|did|must|should|may|can|could|will|would|shall|is|are|was|were|be)"
    r" not|\w+n't|dont)\b"
)
_NOMINAL = re.compile(
    r"\b(?:not|instead of|rather"
    r" than|without|avoid(?:s|ed|ing)?|dropped|drop|replaces?|replaced|replacing|stop(?:ped)?"
    r"|(?:moved?|moving|switch(?:ed|ing)?|migrat\w+) (?:away )?from)\b"
)
_TO = re.compile(r"\b(?:to|with|by|in favou?r of)\b")
_REVISES = re.compile(
    r"\b(?:instead|no longer|any ?more|switch(?:ed|ing)?|mov(?:e|ed|ing) (?:to|from|away)|after"
    r" all|from now on|rather than|replac\w+|changed (?:our|my) minds?|drop(?:ped)?|"
    r"supersedes?|reverse[ds]?|let's go with|we now|now use)\b",
    re.IGNORECASE,
)


@lru_cache(4096)
def normal(text: str) -> str:
    """A text in lower case, without punctuation and without an opening like "Remember that"."""
    text = text.replace("’", "'")
    while (found := _LEAD.match(text)) and found.end() < len(text):
        text = text[found.end() :]
    return " ".join(_TOKEN.findall(text.casefold()))


# "A" where it is the name of something and no article: "copy a to b", "plan A, then B".
_NAME = re.compile(
    r"(?i:\ba(?=\s*(?:$|[.,;:!?)\]\n]|[-=]?>|(?:to|into|from|and|or|nor|but|with|before|after|"
    r"over|then|as|is|are|was|in|on|at|by|for)\b)))|(?<!^)(?<![.!?:\n]"
    r" )\bA(?= )"
)


@lru_cache(4096)
def terms(text: str) -> tuple[str, ...]:
    found = dict.fromkeys(words_of.terms(_NAME.sub("theletter", text)))
    return tuple([t for t in found if t not in _SAID])


class Stance(NamedTuple):
    """The terms of a text that it supports, and those that it rejects."""

    pro: frozenset[str]
    con: frozenset[str]


@lru_cache(8192)
def stance(text: str) -> Stance:
    pro: list[str] = []
    con: list[str] = []
    for clause in _CLAUSE.split(text.replace("’", "'").casefold()):
        if _VERBAL.search(clause):
            con.append(_VERBAL.sub(" ", clause))
        elif found := _NOMINAL.search(clause):
            gone, *instead = _TO.split(clause[found.end() :], maxsplit=1)
            pro += [clause[: found.start()], *instead]
            con.append(gone)
        else:
            pro.append(clause)
    against = frozenset(terms(" ".join(con)))
    return Stance(frozenset(terms(" ".join(pro))) - against, against)


def repeats(new: str, old: str) -> bool:
    """Whether `old` says all that `new` says."""
    if normal(new) == normal(old):
        return True
    mine, theirs = terms(new), terms(old)
    if not mine or list(mine) != [t for t in theirs if t in mine]:
        return False
    return turns(new) == turns(old) and signs(new) == signs(old) and not opposed(new, old)


@lru_cache(4096)
def turns(text: str) -> frozenset[str]:
    """The words of a text that limit or turn what it says."""
    return _TURNS.intersection(normal(text).split())


@lru_cache(4096)
def signs(text: str) -> tuple[str, ...]:
    """The meaningful signs of a text, in their order: the "++" of C++, ">=", "$"."""
    return tuple(t for t in normal(text).split() if not (t[0].isalnum() or t[0] == "_"))


def opposed(new: str, old: str) -> bool:
    """Whether one rejects a term that the other supports."""
    a, b = stance(new), stance(old)
    return bool(a.con & b.pro or b.con & a.pro)


def changes(new: str, old: str, near: float) -> bool:
    """Whether `new` replaces something that `old` says; `near` is the cosine of both."""
    if near < RELATED or max(len(new.split()), len(old.split())) > STATEMENT:
        return False
    mine, theirs = set(terms(new)), set(terms(old))
    shared = mine & theirs
    revises = bool(_REVISES.search(new))
    if revises and opposed(new, old):
        return True
    if revises and near >= 0.6 and len(shared) >= 2 and 2 * len(shared) >= len(stance(new).pro):
        return True  # the same subject, and something new about it
    # The same sentence with another number, or another end: "every Sunday" has become "every
    # Monday". Another beginning is about another thing.
    own = [(at / len(mine), t) for at, t in enumerate(terms(new)) if t not in theirs]
    few = 0 < len(own) <= _FEW and 0 < len(theirs - mine) <= _FEW and len(shared) >= 2
    late = all(at >= 0.5 or t[0].isdigit() for at, t in own)
    if not few or not late or near < 0.8:
        return False
    return SequenceMatcher(None, normal(new).split(), normal(old).split()).ratio() >= 0.7


def neighbours(
    cache: Cache, table: StaticTable, texts: Sequence[str]
) -> list[list[tuple[float, dict[str, Any]]]]:
    """For each text [(cosine, record)] of the nearest visible memories, the nearest first."""
    stored = model_vectors.codes(cache, SPACE, table.dims)
    out: list[list[tuple[float, dict[str, Any]]]] = []
    for vector in table.embed(texts):
        near = nearness.close(cache, stored, vector, 4 * _NEIGHBOURS, None) if any(vector) else []
        vectors, squares = model_vectors.of(cache, SPACE, near)
        scored = hamming.rescore(vectors, vector, list(vectors), squares)
        best = [(c, row) for c, row in scored if c >= RELATED][:_NEIGHBOURS]
        loaded = memory_rows.load(cache, [row for _, row in best])
        out.append([(c, data) for (c, _), (data, _, _) in zip(best, loaded, strict=True)])
    return out


def near(table: StaticTable, one: str, other: str) -> float:
    """The cosine of two texts, 0 where one has no known word."""
    a, b = table.embed([one, other])
    return cosine(a, b) if any(a) and any(b) else 0.0
