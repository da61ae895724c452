"""Answering a question: filters, both routes, fusion, priors, verdict.

Promises. Filters come before candidates. The answer is the same with and
without numpy, on a fresh and on a rebuilt cache. It says how each hit was
found and where it stands, and `degraded` when not everything was searched.
A prior reorders what was hit and never admits anything.

The path is plain Python over SQLite: no numpy, because importing it costs more
than the whole search (10,000 memories: 1 ms for the vectors).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from ..anchors import reanchor, where
from ..core import rank, text
from ..engine import scan
from ..engine.cache import Cache
from ..engine.document import ACTIVE, SUPERSEDED, lexical_fields
from ..engine.embed import sign_code
from ..engine.filters import Filter
from ..engine.index import ON_THE_SPOT
from ..signing import trust
from ..store import Store
from . import view

CANDIDATES = 200  # of each route, before fusion
WEIGHTS = (1.5, 1.0, 1.0)  # BM25 of title, body, extra; title measured on eval/dev: 1 to 3 are close, 1.5 is best
_UNMERGED = 0.8  # prior of a memory from a branch that HEAD does not contain
_CONFIDENCE = 0.2  # how much of a score full doubt can take away
_SEEN = 3  # times the asked number of hits that priors may reorder


class Searcher:
    """One cache, many questions: sign codes and anchor states are read once."""

    def __init__(self, store: Store, cache: Cache, at: str = "", all_branches: bool = False, patience: float = where.ON_THE_SPOT) -> None:
        self.store = store
        self.cache = cache
        self.all_branches = all_branches
        self.head = (store.repo.commit(at or "HEAD") or "")
        self.at = at
        self._codes: bytes | None = None
        self.patience = patience  # seconds to look for squash merges
        self.stands: dict[str, where.Stand] = {}

    @property
    def codes(self) -> bytes:
        if self._codes is None:
            self._codes = self.cache.codes()
        return self._codes

    def search(self, query: str, wanted: Filter, limit: int) -> tuple[list[rank.Hit], str, float]:
        """(hits best first, verdict, probability that the answer is among the first hits)."""
        cache = self.cache
        count = cache.count()
        rows_sql, rows_args = ("", []) if wanted.empty else wanted.sql()
        terms = text.query_terms(query)
        df = cache.frequencies(terms) if terms else {}
        rare = text.rare(terms, df, count)
        lexical = cache.lexical(text.match_expression(rare), WEIGHTS, CANDIDATES, rows_sql, rows_args) if rare else []
        # Content words count double: "how do we store times" is about times, not about how.
        vector = self.store.table.vector(f"{text.ends(query)} {text.content(query)}")
        nearest, cosines = self._near(vector, [row for row, _ in lexical], rows_sql, rows_args)
        hits = rank.fuse(lexical, nearest, cosines, rank.ceiling(terms, df, count))
        first = hits[: rank.LOOKED_AT]
        held = [self._terms(hit.row) for hit in first]
        verdict, probability = rank.verdict(terms, df, count, hits, held, [c for _, c in nearest])
        seen = hits[: limit * _SEEN]
        hits = rank.apply_priors(seen, self._priors([hit.row for hit in seen]))
        return hits[:limit], verdict, probability

    def _near(self, vector: bytes, lexical: list[int], rows_sql: str, rows_args: list[object]) -> tuple[list[tuple[int, float]], dict[int, float]]:
        """([(row, cosine)] of the nearest rows, {row: cosine} of the lexical ones)."""
        if not any(vector):
            return [], {}
        allowed = [row for (row,) in self.cache.db.execute(rows_sql + " ORDER BY row", rows_args)] if rows_sql else None
        total = int(self.cache.meta("rows", "0"))
        # Rows of hidden versions are zeros, each as far as the next one; they must not take the place of candidates.
        code = sign_code(vector)
        zero, width = bytes(len(code)), len(code)
        codes = self.codes[: total * width]
        found = scan.nearest(codes, code, CANDIDATES + int(self.cache.meta("dead", "0")), allowed)
        near = [row for _, row in found if codes[row * width : (row + 1) * width] != zero][:CANDIDATES]
        vectors = self.cache.vectors({*near, *lexical})
        scored = {row: cosine for cosine, row in scan.rescore(vectors, vector, sorted(vectors))}
        nearest = sorted(((row, scored[row]) for row in near if row in scored), key=lambda item: (-item[1], item[0]))[:CANDIDATES]
        return nearest, {row: scored[row] for row in lexical if row in scored}

    def _terms(self, row: int) -> set[str]:
        data = view.load(self.cache, [row])[0][0]
        title, body, _ = lexical_fields(data)
        return set(text.terms(f"{title}\n{body}"))

    def _priors(self, rows: list[int]) -> dict[int, float]:
        """Confidence, and the branch unless all branches count alike."""
        loaded = view.load(self.cache, rows)
        out = {}
        if not self.all_branches:
            self.stand([view.commit_of(data) for data, _, _ in loaded])
        for row, (data, _, _) in zip(rows, loaded, strict=True):
            confidence = data.get("confidence")
            prior = 1 - _CONFIDENCE * (1 - confidence) if isinstance(confidence, (int, float)) and 0 <= confidence <= 1 else 1.0
            stand = self.stands.get(view.commit_of(data))
            if stand and stand.state == where.UNMERGED and not self.all_branches:
                prior *= _UNMERGED
            out[row] = prior
        return out

    def stand(self, anchors: Iterable[str]) -> None:
        """Sees to it that `stands` has the states of these anchors."""
        asked = {a for a in anchors if a and a not in self.stands}
        if asked:
            self.stands.update(where.stands(self.store.repo, self.cache, asked, self.head, self.patience))


def _count(cache: Cache, wanted: Filter) -> int:
    """How many memories took part."""
    if wanted.empty:
        return cache.count()
    sql, args = wanted.sql()
    return int(cache.db.execute(f"SELECT count(*) FROM ({sql})", args).fetchone()[0])


def _as_of(searcher: Searcher, wanted: Filter, at: str) -> Filter:
    """The filter narrowed to memories that stand in the history of the revision."""
    from ..core.errors import MemError

    if not searcher.head:
        raise MemError(f"no commit '{at[:80]}' in this repository")
    searcher.stand(reanchor.anchors(searcher.cache, most=SUPERSEDED if wanted.superseded else ACTIVE))
    inside = sorted(a for a, stand in searcher.stands.items() if stand.state in (where.REACHABLE, where.SQUASHED))
    narrowed = copy.copy(wanted)
    narrowed.anchors = ["", *inside]  # "": made before the first commit
    return narrowed


def recall(store: Store, query: str, wanted: Filter, *, limit: int, at: str = "", all_branches: bool = False, hot: bool = False) -> dict[str, Any]:
    """The answer as the JSON object of DESIGN 10; every hit carries its parts under `explain`.

    `hot`: take in at most ON_THE_SPOT new records, as the prompt hook does; more
    than that makes the answer degraded while a detached process catches up. It
    leaves out what the policy `mem.trust` does not let be injected.
    """

    def ask(cache: Cache) -> dict[str, Any]:
        searcher = Searcher(store, cache, at, all_branches, 0 if hot else where.ON_THE_SPOT)
        chosen = _as_of(searcher, wanted, at) if at else wanted
        checked = True
        if hot:
            checked = store.trust.catch_up(cache, trust.AT_ONCE)
            store.trust.most = 0
            chosen = store.trust.injectable(cache, chosen)
        hits, verdict, probability = searcher.search(query, chosen, limit)
        objects = view.objects(store, cache, [hit.row for hit in hits], at or "HEAD", searcher.stands, searcher.patience)
        reanchor.go_on_later(store, searcher.stands)
        for hit, item in zip(hits, objects, strict=True):
            item["score"], item["retrieval"], item["explain"] = round(hit.score, 4), hit.retrieval, hit.parts()
        return {"query": query, "verdict": verdict, "probability": round(probability, 4), "degraded": not checked,
                "degraded_reason": "" if checked else "signatures wait to be checked",
                "searched": _count(cache, chosen), "hits": objects}

    answer, fresh = store.with_cache(ask, most=ON_THE_SPOT if hot else None)
    if not fresh:
        answer["degraded"] = True
        answer["degraded_reason"] = "new memories wait to be indexed"
    if hot and answer["degraded"]:
        store.catch_up()
    return answer


def batch(store: Store, queries: list[tuple[str, str]], wanted: Filter, *, limit: int, at: str = "", all_branches: bool = False) -> list[tuple[str, list[dict[str, Any]]]]:
    """[(query id, [{"id", "source", "score", "retrieval"}])], by the same search as `recall`."""

    def ask(cache: Cache) -> list[tuple[str, list[dict[str, Any]]]]:
        searcher = Searcher(store, cache, at, all_branches)
        chosen = _as_of(searcher, wanted, at) if at else wanted
        out = []
        for id, query in queries:
            hits, _, _ = searcher.search(query, chosen, limit)
            found = view.load(cache, [hit.row for hit in hits])
            out.append((id, [{"id": data["id"], "source": data.get("source"), "score": round(hit.score, 4), "retrieval": hit.retrieval}
                             for hit, (data, _, _) in zip(hits, found, strict=True)]))
        return out

    return store.with_cache(ask)[0]


