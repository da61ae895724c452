"""How sure one can be of an answer: HIT, WEAK or MISS, and whether an agent is told unasked.

Two questions, two thresholds. `recall` was asked, so it shows what may fit (HIT,
WEAK) and says where nothing does (MISS). A prompt asked for nothing: it is told
something only from TELL_FROM on, so acknowledgements, errands and questions about
other things stay unanswered.

One probability decides both: that the right memory is among the first hits. It is
a logistic regression over FEATURES; coefficients are made by
`tools/calibrate_verdict.py`, one set for the cosines of the packaged table and one
for the encoder's. Nothing in the features is tied to one corpus or to the scale of
BM25. Pure functions over numbers.
"""

from __future__ import annotations

from math import exp, log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from .rank import Hit

LOOKED_AT = 3  # hits whose text counts: the answer is among them or the verdict hardly matters

FEATURES = (
    "bias",
    "cover",
    "rare",
    "cosine",
    "first",
    "gap",
    "matched",
    "rarest",
    "length",
    "agree",
    "size",
    "unknown",
    "score",
    "lead",
)
TABLE = (-5.52, 0.61, 0.78, 0.00, 2.29, 5.16, 3.67, 0.12, -3.14, 0.42, 0.08, 1.74, 0.00, 0.79)
ENCODER = (-7.44, 0.60, 1.50, 4.88, 4.22, 0.00, 0.00, 0.09, -1.55, 0.00, 0.11, 2.47, 2.12, 0.36)
# On questions that the coefficients have not seen, with the encoder: from 0.3 on 84 of 100
# questions that have an answer are a HIT and 2 of other projects; below 0.12 are 5 and 90.
HIT_FROM = 0.3
MISS_BELOW = 0.12
# Of 1,000 everyday prompts 22 are told anything, of 100 questions that have an answer 79, and 91 of
# 100 of these have the right memory among the first five. At 0.3: 37, 84 and 90; at 0.5: 10, 70 and
# 93.
TELL_FROM = 0.38
# Words and table that are this sure need no encoder: a process that asks it takes about twice as
# long. Nor do prompts of fewer terms beside small talk: there is nothing to ask about.
SETTLED = 0.45
FEWEST = 3
SMALL_TALK = frozenset(
    [
        "alright",
        "cool",
        "continu",
        "get",
        "go",
        "good",
        "great",
        "hello",
        "hi",
        "let",
        "next",
        "nice",
        "ok",
        "okai",
        "perfect",
        "please",
        "proce",
        "sure",
        "thank",
        "ye",
        "yeah",
        "yep",
        "yup",
    ]
)


def cover(wanted: Collection[str], held: Collection[str], df: Mapping[str, int], n: int) -> float:
    """Share of the query's terms that a document holds, each weighted by its rarity, 0 to 1.

    A term that no document holds weighs most: "cherry recipe" is not answered by a memory about
    recipes."""
    total = found = 0.0
    for term in wanted:
        weight = rarity(term, df, n)
        total += weight
        if term in held:
            found += weight
    return found / total if total else 0.0


def rarity(term: str, df: Mapping[str, int], n: int) -> float:
    """What a term says: the log of how few of the `n` documents hold it.

    As if a hundred other documents were there: in a store of twenty, where twelve say
    "deployment", the word still says something.
    """
    return log((n + 100) / (df.get(term, 0) + 1))


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

    `wanted` are all terms of the query (`text.query_terms`), not only the rare ones; `df` theirs
    among `n` documents; `hits` best first, before priors; `held` the terms (`text.terms` of title
    and body) of the first LOOKED_AT hits in that order; `nearest` how near the vector candidates
    are; `cosines` those of the hits with the question, by row: what puts hubs back ranks better,
    what leaves them is the surer sign."""
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
        max([cover(wanted, terms, df, n) for terms in held[:LOOKED_AT]], default=0.0),
        max([sum([rarities[term] for term in terms]) for terms in shared]) / size / 6,
        max([cosines.get(hit.row, 0.0) for hit in first], default=0.0),
        cosines.get(first[0].row, 0.0) if first else 0.0,
        near - background,
        min(max(map(len, shared)), 6) / 6,
        max([rarities[term] for terms in shared for term in terms], default=0.0) / size,
        min(len(wanted), 20) / 20,
        max([min(hit.lexical, hit.semantic) for hit in first], default=0.0),
        size / 10,
        sum([not df.get(term) for term in wanted]) / max(1, len(wanted)),
        first[0].fused if first else 0.0,
        first[0].fused - first[1].fused if len(first) > 1 else 0.0,
    ]


def probability(values: Sequence[float], coefficients: Sequence[float]) -> float:
    """That the right memory is among the first hits."""
    total = sum([a * b for a, b in zip(coefficients, values, strict=True)])
    return 1 / (1 + exp(-max(-30.0, min(30.0, total))))


def name(sure: float, covered: bool = False) -> str:
    """HIT, WEAK or MISS.

    `covered`: one of the first hits holds every term, so whoever looked for a word is shown where
    it stands.
    """
    return "HIT" if sure >= HIT_FROM else "WEAK" if covered or sure >= MISS_BELOW else "MISS"


def settled(sure: float, wanted: Sequence[str]) -> bool:
    """Whether words and table alone say enough, or there is too little to ask about."""
    return sure >= SETTLED or sum([term not in SMALL_TALK for term in wanted]) < FEWEST
