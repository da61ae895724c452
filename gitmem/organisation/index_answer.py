"""`git mem recall --from`: a question to the organisation's index.

The server finds candidates, by the words that say most and, with pgvector, by meaning; they are
ranked and judged here, by the code that answers from a repository's own cache. Promise: the work
is bounded whatever the size of the index, since words that are too common choose no candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from typing import Any

from ..core import common_words, rank, text, verdict
from ..core.overlap import rarity
from ..engine import int8_vectors
from ..engine.document import fts_fields, vector_text
from ..engine.embed import StaticTable
from ..engine.search import WEIGHTS, Question
from .postgres import Found, Index

CANDIDATES = 100  # of the words; of the meaning half of it
POSTINGS = 2_000  # rows that the words of a question may find in all: 10 µs each in PostgreSQL
COUNTED = 1_000  # of a word that is not among the most common ones: how many rows are counted
_K1, _B = 1.2, 0.75  # as in FTS5


class _Documents:
    """The candidates, as `Question` reads a cache."""

    def __init__(self, index: Index, found: list[Found]) -> None:
        self._index, self._count = index, index.count()
        self.df: dict[str, int] = {}
        self.add(found)

    def add(self, found: Iterable[Found]) -> None:
        self.found = list({(hit.repository, hit.data["id"]): hit for hit in found}.values())
        self.fields = [fts_fields(hit.data) for hit in self.found]

    def count(self) -> int:
        return self._count

    def frequencies(self, words: Sequence[str]) -> dict[str, int]:
        self.df = self._index.frequencies(words, self._count, COUNTED)
        return self.df

    def texts(self, rows: Iterable[int]) -> list[tuple[int, str, str, str]]:
        named = [(row, self.fields[row]) for row in rows]
        return [(row, title, body, extra) for row, (title, body, extra) in named]

    def bm25(self, words: Sequence[str]) -> list[tuple[int, float]]:
        """[(row, BM25 with the sign of FTS5)] of the candidates that hold one of these words."""
        cut = [[field.split() for field in fields] for fields in self.fields]
        lengths = [sum(map(len, fields)) for fields in cut]
        usual = sum(lengths) / max(1, len(lengths)) or 1
        idf = {
            word: max(1e-6, log((self._count - self.df[word] + 0.5) / (self.df[word] + 0.5)))
            for word in words
        }
        out = []
        for row, (fields, length) in enumerate(zip(cut, lengths, strict=True)):
            score = 0.0
            for word in words:
                often = sum(
                    weight * field.count(word)
                    for weight, field in zip(WEIGHTS, fields, strict=True)
                )
                score += (
                    idf[word] * often * (_K1 + 1) / (often + _K1 * (1 - _B + _B * length / usual))
                )
            if score:
                out.append((row, -score))
        return sorted(out, key=lambda pair: pair[1])

    def cosines(self, table: StaticTable, vector: bytes, best: Sequence[int]) -> dict[int, float]:
        """{row: cosine}, of those that the server has no vector of only for the first of `best`."""
        known = {row: hit.cosine for row, hit in enumerate(self.found) if hit.cosine is not None}
        for row in best[: rank.REREAD]:
            if row not in known:
                known[row] = int8_vectors.cosine(
                    vector, table.vector(vector_text(self.found[row].data))
                )
        return known


def recall(
    index: Index, table: StaticTable, query: str, conditions: dict[str, Any], limit: int
) -> dict[str, Any]:
    """The answer as `recall --json` gives it; each hit has its `repository`."""
    documents = _Documents(index, [])
    question = Question(common_words.asked(query), documents)
    words = _rare(question)
    weights = {word: rarity(word, question.df, question.count) for word in words}
    vector = table.vector(f"{question.query} {text.content(question.query)}")
    found = index.by_words(weights, vector, conditions, CANDIDATES, 2 * POSTINGS) if words else []
    if any(vector) and not index.meaning:
        found += index.by_meaning(vector, conditions, CANDIDATES // 2)
    documents.add(found)
    lexical = documents.bm25(words)
    cosines = documents.cosines(table, vector, [row for row, _ in lexical])
    fused = rank.fuse(lexical, [], cosines, question.ceiling)
    first = [hit.row for hit in fused[: rank.REREAD]]
    hits = rank.reread(fused, question.held(first))
    sure = question.sure(hits, list(cosines.values()), cosines, verdict.TABLE)
    covered = question.covered(hits)
    shown = hits[:limit]
    return {
        "query": query,
        "verdict": verdict.name(sure, covered) if shown else "MISS",
        "probability": round(sure, 4),
        "degraded": bool(index.meaning),
        "degraded_reason": index.meaning,
        "searched": question.count,
        "hits": [
            {
                **documents.found[hit.row].data,
                "repository": documents.found[hit.row].repository,
                "score": round(hit.score, 4),
                "retrieval": hit.retrieval,
            }
            for hit in shown
        ],
    }


def _rare(question: Question) -> list[str]:
    """The words that choose candidates, rarest first: one, and more as long as they find few."""
    known = [word for word in question.terms if question.df.get(word)]
    known.sort(key=question.df.__getitem__)
    out: list[str] = []
    left = POSTINGS
    for word in known[: text.MAX_RARE]:
        left -= question.df[word]
        if out and left < 0:
            break
        out.append(word)
    return out
