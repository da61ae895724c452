"""The memories nearest to a question by their vectors: sign codes choose, exact cosines rank.

Every space of the cache is searched so, in plain Python: loading numpy takes longer than comparing
10,000 vectors. By an encoder's vectors hubs are put back: some texts lie near every question
(Radovanović et al., JMLR 2010), so nearness is the cosine less HUB of what a memory has with its
own neighbours in the store (`hubness`), the correction of CSLS (Conneau et al., ICLR 2018).

Ranking and verdict know the cosines of the packaged encoder. Those of a model that the user chose
are brought to its scale: by the median of the question with a BACKGROUND, memories of which nearly
none answers it, and by how far those of memories among each other are spread.
"""

from __future__ import annotations

from math import isqrt

from . import hamming, model_vectors
from .cache_lock import Damaged
from .int8_vectors import sign_code, square

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .cache import Cache
    from .model_vectors import Codes

# With the encoder before it was tuned, reworded questions among 3,000 others, found in the first
# three by vectors alone: 0.23 without, 0.28 with 0.25, 0.30 with 0.4 and 0.5; commits by subject
# 0.535, 0.535, 0.537, 0.527 nDCG@10. Of the tuned one, fused with words, 0.48 to 0.5 is best.
HUB = 0.5
# What most memories have with their neighbours, for those of which it is not known yet: of 3,000
# commits nine of ten have 0.34 to 0.58.
COMPANY = 0.45
FEW = 100  # vectors from which a store has neighbours to speak of
# Whose cosines are looked at: so many, and in larger stores GROWTH times the root of their number.
# Of 12,000 real texts the 300 closest have 0.997 of the exact first ten, 200 have 0.989; of a
# million (real texts, and mixtures of two) the 2,000 closest have 0.996.
CLOSEST, GROWTH = 200, 2
WORDS = 100  # of the hits by words, whose cosines are looked at too
BACKGROUND = 200  # memories
LEAST = 20  # so many have a median that answers do not move
# The encoder's cosines. Their median with a question: 0.10 to 0.11 where its answer is among 400
# texts of the sets commits, decisions, topics or cosqa, 0.06 to 0.07 among 500 of other projects.
# Median and spread (`hubness`) among 200 memories: 0.12 and 0.094.
_QUESTION, _MEMORY, _SPREAD = 0.085, 0.12, 0.094


class Vectors:
    """The encoder's vectors as one question needs them. Making it reads what does not depend on the
    question's vector, which another process may still be working on. Raises Damaged.
    """

    def __init__(
        self,
        cache: Cache,
        space: str,
        dims: int,
        allowed: list[int] | None,
        lexical: Sequence[int],
        chosen: bool = False,
    ) -> None:
        """`allowed`: the rows that take part, ascending, None for all. `lexical`: what words found,
        best first, the first WORDS of which are compared, too. `chosen`: the space is that of a
        model that the user chose.
        """
        self._cache, self._space, self._allowed = cache, space, allowed
        scale = cache.meta(model_vectors.SCALE + space).split() if chosen else []
        self._middle, self._spread = map(float, scale[:2] or (0, 0))
        rows = list(map(int, scale[2:]))
        if chosen and not rows:
            sql = "SELECT row FROM memory WHERE status = 0 AND nth = 0 ORDER BY id LIMIT ?"
            rows = [row for (row,) in cache.db.execute(sql, (BACKGROUND,))]
        self._background = model_vectors.of(cache, space, rows)
        self._stored = model_vectors.codes(cache, space, dims)
        self._vectors, self._squares = model_vectors.of(cache, space, lexical[:WORDS])

    def nearest(
        self, question: bytes, beside: Mapping[int, bytes]
    ) -> tuple[dict[int, float], dict[int, float]]:
        """({row: nearness}, best first, {row: cosine}) of the closest rows and those of the words.

        `beside`: vectors of rows that the store has none of.
        """
        stored, vectors, squares = self._stored, self._vectors, self._squares
        if self._allowed is not None:
            known = set(self._allowed)
            beside = {row: v for row, v in beside.items() if row in known}
        most = max(CLOSEST, GROWTH * isqrt(stored.count))
        rows = close(self._cache, stored, question, most, self._allowed)
        more = model_vectors.of(self._cache, self._space, set(rows).difference(vectors))
        vectors = {**vectors, **more[0], **beside}
        squares = {**squares, **more[1], **{row: square(v) for row, v in beside.items()}}
        if rows and not vectors:
            raise Damaged(model_vectors.DAMAGED)
        scored = hamming.rescore(vectors, question, sorted(vectors), squares)
        factor, shift, company_shift = self._scale(question)
        found = {row: cosine * factor + shift for cosine, row in scored}
        if self._cache.count() < FEW:
            return found, found
        company = stored.company
        near = []
        for row, cosine in found.items():
            own = company[row] if row < len(company) else 0.0
            own = own * factor + company_shift if own else COMPANY
            near.append((HUB * own - cosine, row))
        near.sort()
        return {row: -negative for negative, row in near}, found

    @property
    def comparable(self) -> bool:
        """Whether cosines of a chosen model can be brought to the encoder's scale."""
        return self._spread > 0 and len(self._background[0]) >= LEAST

    def _scale(self, question: bytes) -> tuple[float, float, float]:
        """What brings cosines to the encoder's scale: a factor, and what is added to those of the
        question and to those of memories among each other.
        """
        vectors, squares = self._background
        scored = hamming.rescore(vectors, question, sorted(vectors), squares)
        if not scored:  # the encoder's own
            return 1.0, 0.0, 0.0
        middle = scored[len(scored) // 2][0]
        factor = _SPREAD / self._spread if self.comparable else 1.0
        return factor, _QUESTION - middle * factor, _MEMORY - self._middle * factor


def close(
    cache: Cache, stored: Codes, question: bytes, most: int, allowed: list[int] | None
) -> list[int]:
    """The `most` rows whose codes are nearest to the question's, nearest first; of those as far as
    the last, the lowest ids. `allowed`: the rows that take part, None for all.
    """
    held = stored.held
    empty = len(held) - stored.count  # their codes are zeros, and must not take places
    if allowed is not None or empty > stored.count // 3:
        some = range(len(held)) if allowed is None else allowed
        allowed = [row for row in some if row < len(held) and held[row]]
        empty = 0
    near = hamming.nearest(stored.codes, sign_code(question), most + empty, allowed)
    found = [(distance, row) for distance, row in near if held[row]]
    if len(found) <= most:
        return [row for _, row in found]
    last = found[most - 1][0]
    rows = [row for distance, row in found if distance < last]
    tied = cache.by_id([row for distance, row in found if distance == last])
    return (rows + tied)[:most]
