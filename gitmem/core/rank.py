"""From two candidate lists to one answer: fusion, priors, and the verdict.

Owns: the score of a hit, which vector hits are admitted, what a prior may do,
and when an answer is HIT, WEAK or MISS. Pure functions over numbers; the
caller filters first (type, paths, scope ...), fetches the candidates and
shows the result.

Promises:

* No rank inversion: a document that is at least as good on both routes never
  ranks below. Scores are parts of the best candidate's, never ranks, so a list
  cut shorter moves nobody.
* A prior may reorder hits, by at most the factor PRIOR_MAX, never admit or drop one.
* The same input gives the same output; ties go to the lower row, unless the caller orders them (`Search` does, by id).

Measured on eval/dev, nDCG@10 of 200 candidates a route: `tools/eval_retrieval.py`.
"""

from __future__ import annotations

from math import exp, log

# Mean nDCG@10 with the static table: words alone 0.512, meaning alone 0.410, this 0.532, w = 0.6 and power 1 0.532,
# reciprocal ranks 0.486. Power 2 because half of the best BM25 is mostly one common word: a memory that only meaning
# finds then passes documents that merely hold "time" (place 162 -> 28 among 3,000 in one case).
WEIGHT = 0.5
POWER = 2
# BM25 counts as a part of the best one, or of this share of what all terms of the query together could give: in a
# small store the only document with one of six words is no full match. 20 memories, questions sharing at most a
# third of their words: first place right 0.522 -> 0.552.
LEXICAL_SHARE = 0.4
# A cosine counts as a part of the best one or of this, so that noise around 0.1 is not stretched to 1.
COSINE_SCALE = 0.4
# Without a word in common a hit needs a cosine of 0.15 (nine of ten foreign pairs are below 0.2) and 0.7 of the
# best: recall loses nothing, nDCG gains 0.0005 on the mean.
VECTOR_FLOOR = 0.15
VECTOR_SHARE = 0.7
PRIOR_MAX = 2.0  # 1.5 held back what use has taught: of 14 % that it adds to MRR@10 2 (decision 28)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence


class Hit:
    """One document of the answer. `bm25` and `cosine` are raw (None: not known), `score` is in [0, 1]."""

    __slots__ = ("bm25", "cosine", "fused", "lexical", "prior", "retrieval", "row", "score", "semantic")

    def __init__(self, row: int, bm25: float | None, cosine: float | None) -> None:
        self.row = row
        self.bm25 = bm25
        self.cosine = cosine
        self.lexical = 0.0
        self.semantic = 0.0
        self.fused = 0.0
        self.prior = 1.0
        self.score = 0.0
        self.retrieval = ""

    def parts(self) -> dict[str, float | None]:
        """What --explain shows: score = min(1, (WEIGHT * lexical + (1 - WEIGHT) * semantic) * prior)."""
        return {"bm25": self.bm25, "cosine": self.cosine, "lexical": self.lexical,
                "semantic": self.semantic, "fused": self.fused, "prior": self.prior}  # fmt: skip

    def __repr__(self) -> str:
        return f"Hit({self.row}, {self.retrieval}, {self.score:.4f})"


def ceiling(wanted: Sequence[str], df: Mapping[str, int], n: int) -> float:
    """Sum of FTS5's weights of the terms: BM25 of a document of average length with each of them once."""
    return sum([max(1e-6, log((n - df.get(t, 0) + 0.5) / (df.get(t, 0) + 0.5))) for t in wanted])


def fuse(
    lexical: Iterable[tuple[int, float]],
    vector: Iterable[tuple[int, float]],
    cosines: Mapping[int, float] | None = None,
    ceiling: float = 0.0,
) -> list[Hit]:
    """Hits, best first.

    `lexical` holds (row, bm25) with FTS5's own sign, lower is better; `vector`
    (row, cosine) of the nearest documents. `cosines` should hold the cosine of
    every lexical row that has a vector, also of those that are not among the
    nearest (exact, and cheap: 200 vectors): without them a document found by
    words alone gets nothing for its meaning (0.002 less on the mean).
    `ceiling` is `ceiling()` of all terms of the query, also of unknown ones.
    Tag: "hybrid" is what both routes would have found alone.
    """
    words: dict[int, float] = {}
    for row, bm25 in lexical:
        words[row] = min(bm25, words.get(row, bm25))
    meaning = dict(cosines or ())
    meaning.update(vector)
    rows = set(words)
    best = max(meaning.values(), default=0.0)
    floor = max(VECTOR_FLOOR, VECTOR_SHARE * best)
    near = {row for row, cosine in meaning.items() if cosine >= floor}
    top = min(min(words.values(), default=0.0), -LEXICAL_SHARE * ceiling)
    scale = max(best, COSINE_SCALE)
    hits = []
    for row in rows | near:
        hit = Hit(row, words.get(row), meaning.get(row))
        if hit.bm25 is not None:
            hit.lexical = max(0.0, hit.bm25 / top) ** POWER if top < 0 else 1.0
        if hit.cosine is not None:
            hit.semantic = max(0.0, hit.cosine / scale)
        hit.fused = hit.score = min(1.0, WEIGHT * hit.lexical + (1 - WEIGHT) * hit.semantic)
        hit.retrieval = "vector" if row not in rows else "hybrid" if row in near else "bm25"
        hits.append(hit)
    hits.sort(key=_order)
    return hits


def apply_priors(hits: Sequence[Hit], priors: Mapping[int, float]) -> list[Hit]:
    """The same hits in a new order: score = fused * prior, each prior held within 1/PRIOR_MAX .. PRIOR_MAX.

    `priors` names rows; a row without one, or with NaN, counts as 1. Multiply
    recency, confidence, branch and staleness before: the bound is for all of
    them together. Rows that are no hits are ignored.
    """
    for hit in hits:
        prior = priors.get(hit.row, 1.0)
        hit.prior = min(PRIOR_MAX, max(1 / PRIOR_MAX, prior)) if prior == prior else 1.0
        hit.score = min(1.0, hit.fused * hit.prior)
    return sorted(hits, key=_order_with_prior)


def _order(hit: Hit) -> tuple[float, int]:
    return (-hit.fused, hit.row)


def _order_with_prior(hit: Hit) -> tuple[float, float]:
    return (-hit.fused * hit.prior, -hit.fused)  # ties stay in the order in which they came


# --- verdict -------------------------------------------------------------

LOOKED_AT = 3  # hits whose text counts: the answer is among them or the verdict hardly matters

# The probability that one of the first eight hits answers: logistic regression by tools/calibrate_verdict.py on
# eval/dev (own questions against foreign ones, whole sets and stores of 1 to 300), with the static table's cosines.
# Another vector space needs coefficients of its own.
FEATURES = ("bias", "cover", "cosine", "margin", "matched", "size", "unknown", "agree")
COEFFICIENTS = (-2.92, 2.81, 4.39, 5.20, 2.00, -3.95, -3.24, 0.79)
# Three of five own questions rated 0.3 on unseen sets are answered: foreign ones, the larger part of the sample, pull
# the number down. At 0.36 none of 100 LoCoMo questions is a HIT among commits; at 0.15 a twentieth of the answerable
# ones is a MISS. Lower than 0.5 also because a small store's paraphrase reaches 0.4 by meaning alone.
HIT_FROM = 0.36
MISS_BELOW = 0.15


def cover(wanted: Collection[str], held: Collection[str], df: Mapping[str, int], n: int) -> float:
    """Share of the query's terms that a document holds, each weighted by its rarity, 0 to 1.

    A term that no document holds weighs most: "cherry recipe" is not answered by a memory about recipes.
    """
    total = found = 0.0
    for term in wanted:
        weight = log((n + 10) / (df.get(term, 0) + 1))
        total += weight
        if term in held:
            found += weight
    return found / total if total else 0.0


def features(
    wanted: Sequence[str],
    df: Mapping[str, int],
    n: int,
    hits: Sequence[Hit],
    held: Sequence[Collection[str]],
    nearest: Sequence[float],
) -> list[float]:
    """What the verdict looks at; nothing in it is tied to one corpus or to the scale of BM25."""
    covers = [cover(wanted, terms, df, n) for terms in held[:LOOKED_AT]] or [0.0]
    cosine = max([hit.cosine or 0.0 for hit in hits[:LOOKED_AT]], default=0.0)
    matched = max([len(set(wanted).intersection(terms)) for terms in held[:LOOKED_AT]], default=0)
    ranked = sorted(nearest, reverse=True)[9:60]
    # where fewer than ten documents are near there is no background: 0.1 is what foreign pairs have
    background = sum(ranked) / len(ranked) if len(ranked) >= 10 else 0.1
    size = log(1 + n) / 10
    unknown = sum([not df.get(term) for term in wanted]) / max(1, len(wanted))
    agree = min(hits[0].lexical, hits[0].semantic) if hits else 0.0
    return [1.0, max(covers), cosine, cosine - background, min(matched, 6) / 6, size, unknown * size, agree]


def verdict(
    wanted: Sequence[str],
    df: Mapping[str, int],
    n: int,
    hits: Sequence[Hit],
    held: Sequence[Collection[str]],
    nearest: Sequence[float],
    coefficients: Sequence[float] = COEFFICIENTS,
) -> tuple[str, float]:
    """("HIT" | "WEAK" | "MISS", probability that the answer is among the first hits).

    `wanted` are all terms of the query (`text.query_terms`), not only the rare
    ones; `df` theirs among `n` documents; `hits` best first, before priors;
    `held` the terms (`text.terms` of title and body) of the first LOOKED_AT
    hits in that order; `nearest` the cosines of the vector candidates. No hits:
    MISS.
    """
    if not hits:
        return "MISS", 0.0
    values = features(wanted, df, n, hits, held, nearest)
    total = sum([a * b for a, b in zip(coefficients, values, strict=True)])
    probability = 1 / (1 + exp(-max(-30.0, min(30.0, total))))
    if probability >= HIT_FROM:
        return "HIT", probability
    return ("MISS" if probability < MISS_BELOW else "WEAK"), probability
