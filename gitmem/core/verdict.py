"""How sure one can be of an answer: HIT, WEAK or MISS, and whether an agent is told unasked.

`recall` was asked, so it shows what may fit (HIT, WEAK) and says where nothing does (MISS). A
prompt asked for nothing: it is told something from TELL_FROM on, else only a memory that alone has
a name of it.

One figure decides both: the probability that the right memory is among the first hits, by a
logistic regression over FEATURES, a careful one, since wrong answers and large stores weighed more
when `tools/calibrate_verdict.py` made the coefficients. Nothing in the features is tied to
one corpus or to the scale of BM25. Pure functions over numbers.
"""

from __future__ import annotations

from math import exp, log

from . import common_words
from .overlap import rarity
from .rank import REREAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from .rank import Hit

LOOKED_AT = 3  # hits whose text counts: the answer is among them or the verdict hardly matters

# What speaks for and against an answer: its weight without vectors, with the table's cosines, with
# the encoder's.
_WEIGHTS = {
    "bias": (-9.00, -6.41, -8.07),
    "rare": (2.47, 0.88, 1.65),  # how rare the terms are that a hit shares with it, in sum
    "cosine": (0.00, 2.78, 5.82),  # of the nearest hit
    "first": (0.00, 1.93, 0.63),  # the cosine of the first hit
    "gap": (0.00, 3.24, 0.00),  # by which the nearest stands out from the other candidates
    "matched": (3.33, 2.26, 0.42),  # how many terms a hit shares, up to six
    "rarest": (2.29, 0.36, 0.24),  # of the shared terms
    "length": (-5.06, -6.88, -4.22),  # of the question, up to twenty terms
    "specific": (1.39, 3.42, 2.31),  # how much of it few projects say, up to eight terms
    "size": (3.62, 1.26, 1.36),  # of the store
    "unknown": (-0.47, 0.76, 1.86),  # share of the terms that no memory holds
    "score": (2.99, 0.15, 3.06),  # of the first hit
    "phrases": (2.39, 2.11, 1.16),  # share of the question's pairs of words that a hit holds
    "rivals": (-1.58, -1.70, -1.31),  # hits with at least half of the first one's score
}
FEATURES = tuple(_WEIGHTS)
WORDS, TABLE, ENCODER = zip(*_WEIGHTS.values(), strict=True)
# With the encoder: from 0.16 on 87 of 100 questions whose answer is among the first five are a HIT
# and 2 of 100 of other projects; below 0.06 are 4 and 91.
HIT_FROM = 0.16
MISS_BELOW = 0.06
# Among 3,000 commit messages, where all ask the encoder, 1 of 150 everyday prompts is told
# anything, and of 150 questions 113, 103 of them the right memory; at 0.2: 2, 118 and 104; at 0.3:
# 0, 94 and 86.
TELL_FROM = 0.22
# From here on words alone are sure enough for a prompt while memories lack vectors, which the
# encoder would have to read with it: 72 of 303 questions among 3,000 commit messages, 67 rightly;
# of everyday prompts and questions in other words none. Not where all vectors are there: that took
# 0.0015 of nDCG@10.
SETTLED = 0.75
# Terms beside small talk and the numbers of steps from which on the encoder is asked.
FEWEST = 3
LARGEST = 3000  # the largest store of the calibration; what is larger counts as this large


def features(
    wanted: Sequence[str],
    df: Mapping[str, int],
    n: int,
    hits: Sequence[Hit],
    held: Sequence[Collection[str]],
    nearest: Sequence[float],
    cosines: Mapping[int, float],
) -> list[float]:
    """The values of FEATURES, each in the order of 1; the best that one of the first LOOKED_AT hits
    has.

    `wanted` are all terms of the query (`text.query_terms`), not only the rare ones; what is not
    `said` is no evidence. `df` theirs among `n` documents; `hits` best first, before priors;
    `held` the terms (`text.terms` of title and body) of the first LOOKED_AT hits in that order;
    `nearest` how near the vector candidates are; `cosines` those of the hits with the question, by
    row: what puts hubs back ranks better, what leaves them is the surer sign."""
    length = len(wanted)
    unknown = sum([not df.get(term) for term in wanted]) / max(1, length)
    wanted = common_words.said(wanted)
    first = hits[:LOOKED_AT]
    shared = [[term for term in wanted if term in terms] for terms in held[:LOOKED_AT]] or [[]]
    rarities = {term: rarity(term, df, n) for term in wanted}
    near = max([hit.cosine or 0.0 for hit in first], default=0.0)
    ranked = sorted(nearest, reverse=True)[9:60]
    # where fewer than ten documents are near there is no background: 0.1 is what foreign pairs have
    background = sum(ranked) / len(ranked) if len(ranked) >= 10 else 0.1
    size = log(2 + n)
    return [
        1.0,
        max([sum([rarities[term] for term in terms]) for terms in shared]) / size / 6,
        max([cosines.get(hit.row, 0.0) for hit in first], default=0.0),
        cosines.get(first[0].row, 0.0) if first else 0.0,
        near - background,
        min(max(map(len, shared)), 6) / 6,
        max([rarities[term] for terms in shared for term in terms], default=0.0) / size,
        min(length, 20) / 20,
        min(common_words.specificity(wanted), 8) / 8,
        log(2 + min(n, LARGEST)) / 10,
        unknown,
        first[0].fused if first else 0.0,
        max([hit.phrases for hit in first], default=0.0),
        sum([2 * hit.fused >= hits[0].fused for hit in hits[:REREAD]]) / REREAD,
    ]


def probability(values: Sequence[float], coefficients: Sequence[float]) -> float:
    """That the right memory is among the first hits."""
    total = sum([a * b for a, b in zip(coefficients, values, strict=True)])
    return 1 / (1 + exp(-max(-30.0, min(30.0, total))))


def name(sure: float, covered: bool = False) -> str:
    """HIT, WEAK or MISS. `covered`: one of the first hits holds every term."""
    return "HIT" if sure >= HIT_FROM else "WEAK" if covered or sure >= MISS_BELOW else "MISS"


def enough(wanted: Sequence[str]) -> bool:
    """Whether there is enough to ask the encoder about."""
    return len(common_words.said(wanted)) >= FEWEST
