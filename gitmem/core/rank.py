"""From two candidate lists to one answer: fusion and priors.

Owns: the score of a hit, which vector hits are admitted, and what a prior may do. Whether the
answer fits at all is for `verdict`. Pure functions over numbers.

Promises:

* No rank inversion: a document that is at least as good on both routes, and whose text holds as
  much of the question, never ranks below. Scores are parts of the best candidate's, never ranks, so
  a list cut shorter moves nobody.
* A prior may reorder hits, by at most the factor PRIOR_MAX, never admit or drop one.
* Ties go to the lower row, unless the caller orders them (`Search` does, by id).

Measured on eval/dev, nDCG@10 of 200 candidates a route: `tools/eval_retrieval.py`.
"""

from __future__ import annotations

from math import exp, log

# Mean nDCG@10 with the static table: words alone 0.512, meaning alone 0.410, this 0.532, w = 0.6
# and power 1 0.532, reciprocal ranks 0.486. Power 2 because half of the best BM25 is mostly one
# common word: a memory that only meaning finds then passes documents that merely hold "time" (place
# 162 -> 28 among 3,000 in one case).
WEIGHT = 0.6
POWER = 2
# The first REREAD hits are ranked again by their own text: half of what words say is then how much
# of the question this memory holds (cover), since BM25 also likes one word said often; and PHRASES
# of the score is how many of the question's neighbouring words stand side by side. Mean nDCG@10
# with the encoder 0.579 -> 0.586 (cover alone 0.582), with the table 0.529 -> 0.535; 10 hits 0.583,
# 50 hits 0.585. Feedback from the vectors of the first hits gave nothing.
REREAD = 20
COVER = 0.5
PHRASES = 0.16
# BM25 counts as a part of the best one, or of this share of what all terms of the query together
# could give: in a small store the only document with one of six words is no full match. 20
# memories, questions sharing at most a third of their words: first place right 0.522 -> 0.552.
LEXICAL_SHARE = 0.4
PRIOR_MAX = 2.0  # 1.5 held back what use has taught: of 14 % that it adds to MRR@10 2 (decision 28)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class Space:
    """What the cosines of one space of vectors mean.

    `scale`: a cosine counts as a part of the best one or of this, so that noise is not stretched to
    1. `floor`: without a word in common a hit needs that much, and `share` of the best cosine.
    `weight`: of the words against the meaning, by how well the best words cover the question and by
    what part of the best cosine the memory has that they found."""

    def __init__(
        self, scale: float, floor: float, share: float, weight: Callable[[float, float], float]
    ) -> None:
        self.scale = scale
        self.floor = floor
        self.share = share
        self.weight = weight


# The packaged table: nine of ten foreign pairs are below 0.2. At 0.7 of the best recall loses
# nothing, and nDCG gains 0.0005 on the mean.
TABLE = Space(0.4, 0.15, 0.7, lambda cover, agreed: WEIGHT)
# The encoder, by `nearness`. It finds what shares no word with the question, so words count as far
# as they cover the question and the encoder agrees with what they found. Learned on eval/dev, mean
# nDCG@10 of the five sets and reworded questions among 500 and 3,000 others in the first three:
# 0.586, 0.50, 0.31; before the second reading, with half a weight for words whatever they find
# 0.562, 0.33, 0.19; without words 0.51, 0.52, 0.32. Two more features, length and the best
# nearness, gave nothing.
ENCODER = Space(
    0.45, 0.05, 0.5, lambda cover, agreed: 0.45 / (1 + exp(10 - 18 * cover - 6.3 * agreed))
)


class Hit:
    """One document of the answer.

    `bm25` and `cosine` are raw (None: not known), `score` is in [0, 1].
    """

    def __init__(self, row: int, bm25: float | None, cosine: float | None) -> None:
        self.row = row
        self.bm25 = bm25
        self.cosine = cosine
        self.lexical = 0.0
        self.semantic = 0.0
        self.phrases = 0.0
        self.weight = WEIGHT
        self.fused = 0.0
        self.prior = 1.0
        self.score = 0.0
        self.retrieval = ""

    def parts(self) -> dict[str, float | None]:
        """What --explain shows. score = min(1, fused * prior), and of the first REREAD hits
        fused = (1 - PHRASES) * (weight * lexical + (1 - weight) * semantic) + PHRASES * phrases.
        """
        names = ("bm25", "cosine", "lexical", "semantic", "weight", "phrases", "fused", "prior")
        return {name: getattr(self, name) for name in names}


def ceiling(wanted: Sequence[str], df: Mapping[str, int], n: int) -> float:
    """BM25 of a document of average length with each of the terms once."""
    return sum([max(1e-6, log((n - df.get(t, 0) + 0.5) / (df.get(t, 0) + 0.5))) for t in wanted])


def fuse(
    lexical: Iterable[tuple[int, float]],
    vector: Iterable[tuple[int, float]],
    cosines: Mapping[int, float] | None = None,
    ceiling: float = 0.0,
    space: Space = TABLE,
    cover: float = 0.0,
) -> list[Hit]:
    """Hits, best first.

    `lexical` holds (row, bm25) with FTS5's own sign, lower is better; `vector` (row, cosine) of the
    nearest documents; `cosines` those of further rows, above all of every lexical row that has a
    vector: without them a document found by words alone gets nothing for its meaning (0.002 less
    on the mean). `ceiling` is `ceiling()` of all terms of the query, also
    of unknown ones. `cover`: of the query by the best lexical hits (`overlap.cover`).
    Tag: "hybrid" is what both routes would have found alone.
    """
    words: dict[int, float] = {}
    for row, bm25 in lexical:
        words[row] = min(bm25, words.get(row, bm25))
    meaning = dict(cosines or ())
    meaning.update(vector)
    rows = set(words)
    best = max(meaning.values(), default=0.0)
    floor = max(space.floor, space.share * best)
    near = {row for row, cosine in meaning.items() if cosine >= floor}
    top = min(min(words.values(), default=0.0), -LEXICAL_SHARE * ceiling)
    scale = max(best, space.scale)
    lead = min(words.values(), default=0.0)
    agreed = max(
        [0.0, *(meaning.get(row, 0.0) / scale for row, bm25 in words.items() if bm25 == lead)]
    )
    weight = space.weight(cover, agreed)
    hits = []
    for row in rows | near:
        hit = Hit(row, words.get(row), meaning.get(row))
        if hit.bm25 is not None:
            hit.lexical = max(0.0, hit.bm25 / top) ** POWER if top < 0 else 1.0
        if hit.cosine is not None:
            hit.semantic = max(0.0, hit.cosine / scale)
        hit.weight = weight
        hit.fused = hit.score = min(1.0, weight * hit.lexical + (1 - weight) * hit.semantic)
        hit.retrieval = "vector" if row not in rows else "hybrid" if row in near else "bm25"
        hits.append(hit)
    hits.sort(key=_order)
    return hits


def reread(hits: Sequence[Hit], held: Mapping[int, tuple[float, float]]) -> list[Hit]:
    """The same hits, those that `held` names ranked again by their text, the others after them.

    `held`: {row: (share of the question's terms that it holds, share of its pairs)}."""
    last = 1.0
    for hit in hits:
        if hit.row in held:
            cover, hit.phrases = held[hit.row]
            hit.lexical = (1 - COVER) * hit.lexical + COVER * cover
            both = hit.weight * hit.lexical + (1 - hit.weight) * hit.semantic
            hit.fused = hit.score = (1 - PHRASES) * both + PHRASES * hit.phrases
            last = min(last, hit.fused)
    for hit in hits:
        if hit.row not in held:
            hit.fused = hit.score = min(hit.fused, last)
    return sorted(hits, key=lambda hit: (hit.row not in held, *_order(hit)))


def apply_priors(hits: Sequence[Hit], priors: Mapping[int, float]) -> list[Hit]:
    """The same hits in a new order: score = fused * prior, held within 1/PRIOR_MAX .. PRIOR_MAX.

    A row without a prior, or with NaN, counts as 1. The bound is for all priors of a row together.
    """
    for hit in hits:
        prior = priors.get(hit.row, 1.0)
        hit.prior = min(PRIOR_MAX, max(1 / PRIOR_MAX, prior)) if prior == prior else 1.0
        hit.score = min(1.0, hit.fused * hit.prior)
    # ties stay in the order in which they came
    return sorted(hits, key=lambda hit: (-hit.fused * hit.prior, -hit.fused))


def _order(hit: Hit) -> tuple[float, int]:
    return (-hit.fused, hit.row)
