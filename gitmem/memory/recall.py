"""Answering a question: filters, both routes, fusion, priors, verdict.

Promises. Filters come before candidates. The answer is the same on a fresh and on a rebuilt cache.
It says how each hit was found and where it stands, and `degraded` when not everything was searched,
or the encoder could not be asked. A prior reorders what was hit and never admits anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..anchors import anchor_state, anchor_state_update, path_state
from ..anchors.snapshot_view import Snapshot
from ..core import record
from ..embedding import reader
from ..engine import anchor_state_store, memory_rows, model_vectors, path_state_store, unread
from ..engine.cache import Cache
from ..engine.filters import Filter
from ..engine.index import ON_THE_SPOT
from ..engine.search import Search
from ..hooks import spool
from ..models.llamavec import LlamaVectors, NoVectors
from ..signing import trust
from ..store import Store
from . import commit_hits, view

Chosen = Callable[[str], tuple[str, bytes] | None]
_NO_ENCODER = "the encoder cannot be used: `git mem doctor` says why"
ONLY = ("", "memories", "history")  # what may be searched alone
_AT_ONCE = 32  # memories that get their vector of the chosen model while a question waits


class Searcher(Search):
    """A search that asks git where memories stand.

    `hot`: reads what the worker has found instead. `vectors`: the model that the user chose, which
    ranks if every memory has a vector of it. `without`: why the answer is less than it could be.
    """

    def __init__(
        self,
        store: Store,
        cache: Cache,
        *,
        all_branches: bool = False,
        hot: bool = False,
        vectors: LlamaVectors | None = None,
    ) -> None:
        past = cache if isinstance(cache, Snapshot) else None
        reasons = [past.reason if past else "", store.reduced, unread.remark(cache)]
        self.without = [reason for reason in reasons if reason]
        super().__init__(
            cache,
            store.table.vector,
            None if all_branches else self.stands_of,
            aged=self._worst,
            encoder=reader.read if store.settings.flag("encoder") else None,
            unasked=hot and not past,
            chosen=_model(cache, vectors, self.without),
        )
        self.store = store
        self.hot = hot and not past
        self.head = past.head if past else store.repo.head()
        self.stands: dict[str, anchor_state.AnchorState] = dict(past.states) if past else {}
        self.ages: dict[int, list[path_state.PathState]] = {}

    def stands_of(self, anchors: Iterable[str]) -> dict[str, anchor_state.AnchorState]:
        """States of all anchors seen so far, these among them."""
        asked = {a for a in anchors if a and a not in self.stands}
        if asked and self.hot:
            self.stands.update(anchor_state_store.read(self.cache, asked, self.head))
        elif asked:
            repo = self.store.repo
            self.stands.update(anchor_state.states(repo, self.cache, asked, self.head))
        return self.stands

    def _worst(self, rows: Sequence[int]) -> dict[int, str]:
        new = [row for row in rows if row not in self.ages]
        self.ages.update(
            path_state.of_rows(self.store.repo, self.cache, new, self.head, kept=self.hot)
        )
        return {row: path_state_store.worst(self.ages[row]) for row in rows}


def _model(cache: Cache, vectors: LlamaVectors | None, without: list[str]) -> Chosen | None:
    """Lets the chosen model rank, until it fails; `without` says why it does not."""
    if vectors is None:
        return None
    try:
        space = vectors.space
        if model_vectors.missing(cache, space) <= _AT_ONCE:
            model_vectors.fill(cache, vectors)
        if left := model_vectors.missing(cache, space):
            without.append(
                f"{left} memories have no vector of the chosen model yet: `git mem index --all`"
                " makes them"
            )
            return None
    except NoVectors as e:
        without.append(e.message)
        return None
    failed = False

    def ask(query: str) -> tuple[str, bytes] | None:
        nonlocal failed
        if failed:
            return None
        try:
            return space, vectors.question(query)
        except NoVectors as e:
            failed = True
            without.append(e.message)
            return None

    return ask


def recall(
    store: Store,
    query: str,
    wanted: Filter,
    *,
    limit: int,
    at: str = "",
    all_branches: bool = False,
    hot: bool = False,
    only: str = "",
    vectors: LlamaVectors | None = None,
) -> dict[str, Any]:
    """The answer as the JSON object of `recall --json`; each hit has its parts in `explain`.

    `only`: "memories" or "history"; commits are no part of a `hot` answer, and as of a revision
    only those that it reaches. `hot`: as the prompt hook, which takes in at most ON_THE_SPOT new
    records (with more, the answer is degraded) and leaves out what `mem.trust` does not let be
    injected. `vectors`: the model that the user chose, which ranks then.
    """

    beside = not hot and commit_hits.searchable(store, wanted, only)

    def read(cache: Cache) -> dict[str, Any]:
        with view.seen(store, cache, wanted, at, hot) as (seen, chosen):
            searcher = Searcher(store, seen, all_branches=all_branches, hot=hot, vectors=vectors)
            return _answer(searcher, query, chosen, limit, hot)

    answer, fresh = _EMPTY | {"query": query, "hits": []}, True
    if only != "history":
        answer, fresh = store.with_cache(read, most=ON_THE_SPOT if hot else None)
    if not fresh:
        answer["degraded"] = True
        answer["degraded_reason"] = _UNREAD
    if hot and answer["degraded"]:
        spool.ask(store.repo.common_dir)
    if beside:
        _add_commits(store, answer, wanted, limit, at, all_branches)
    return answer


_UNREAD = "new memories wait to be indexed"
_UNCHECKED = "signatures wait to be checked"
_EMPTY = {
    "query": "",
    "verdict": "MISS",
    "probability": 0.0,
    "degraded": False,
    "degraded_reason": "",
    "searched": 0,
    "hits": [],
}


def _add_commits(
    store: Store, answer: dict[str, Any], wanted: Filter, limit: int, at: str, all_branches: bool
) -> None:
    """Puts what the history answers into an answer of `recall`."""

    def read(cache: Cache) -> tuple[commit_hits.Answer, int]:
        commits = commit_hits.Commits(store, cache, wanted, at, all_branches)
        return commits.ask(answer["query"], limit), commits.wanted.count(cache)

    found, waiting = commit_hits.with_history(store, read)
    history, searched = found or (commit_hits.NOTHING, 0)
    memories = commit_hits.Answer(answer["hits"], answer["verdict"], answer["probability"])
    both = commit_hits.merged(memories, history, limit)
    answer.update(verdict=both.verdict, probability=round(both.sure, 4), hits=both.hits)
    answer["history"] = {"searched": searched, "waiting": waiting}
    if (found is None or waiting) and not answer["degraded"]:
        answer["degraded"] = True
        answer["degraded_reason"] = commit_hits.unsearched(waiting)


def _answer(
    searcher: Searcher, query: str, chosen: Filter, limit: int, hot: bool
) -> dict[str, Any]:
    store, cache, without = searcher.store, searcher.cache, searcher.without
    past = isinstance(cache, Snapshot)
    if hot:
        chosen = _injectable(searcher, chosen)
    hits, verdict, probability = searcher.ask(query, chosen, limit)
    if searcher.reduced:
        without.append(_NO_ENCODER)
    if searcher.behind and not past and store.settings.encodes:
        spool.ask(store.repo.common_dir)
    rows = [hit.row for hit in hits]
    searcher.stands_of(memory_rows.commit_of(data) for data, _, _ in memory_rows.load(cache, rows))
    objects = view.objects(store, cache, rows, stands=searcher.stands, aged=searcher.ages)
    anchor_state_update.update_later(store, cache, searcher.stands, searcher.ages)
    for hit, item in zip(hits, objects, strict=True):
        item["score"] = round(hit.score, 4)
        item["retrieval"] = hit.retrieval
        item["explain"] = {**hit.parts(), **searcher.parts[hit.row]}
    return {
        "query": query,
        "verdict": verdict,
        "probability": round(probability, 4),
        "degraded": bool(without),
        "degraded_reason": "".join(without[:1]),
        "searched": chosen.count(cache),
        "hits": objects,
    }


def _injectable(searcher: Searcher, chosen: Filter) -> Filter:
    """What may be told unasked; `without` says where a signature was not checked for it."""
    store, cache = searcher.store, searcher.cache
    past = isinstance(cache, Snapshot)
    if not past and not store.trust.catch_up(cache, trust.AT_ONCE):
        searcher.without.insert(0, _UNCHECKED)
    store.trust.most = 0
    return store.trust.injectable(cache, chosen)


def batch(
    store: Store,
    queries: list[tuple[str, str]],
    wanted: Filter,
    *,
    limit: int,
    at: str = "",
    all_branches: bool = False,
    hot: bool = False,
    only: str = "",
    vectors: LlamaVectors | None = None,
) -> list[tuple[str, list[dict[str, Any]]]]:
    """[(query id, [{"id", "kind", "source", "score", "retrieval"}])], by the same search as
    `recall`.
    """
    beside = not hot and commit_hits.searchable(store, wanted, only)

    def read(cache: Cache) -> list[commit_hits.Answer]:
        with view.seen(store, cache, wanted, at, hot) as (seen, chosen):
            searcher = Searcher(store, seen, all_branches=all_branches, hot=hot, vectors=vectors)
            chosen = _injectable(searcher, chosen) if hot else chosen
            out = []
            for _, query in queries:
                hits, verdict, sure = searcher.ask(query, chosen, limit)
                loaded = memory_rows.load(seen, [hit.row for hit in hits])
                found = [
                    {
                        "kind": "memory",
                        "score": round(hit.score, 4),
                        "retrieval": hit.retrieval,
                        "title": record.title_of(data),
                        **{name: data.get(name) for name in ("id", "source", "body")},
                    }
                    for hit, (data, _, _) in zip(hits, loaded, strict=True)
                ]
                out.append(commit_hits.Answer(found, verdict, sure))
        reasons = [*searcher.without, *[_NO_ENCODER] * searcher.reduced]
        for reason in reasons[:1]:
            store.warn(f"warning: {reason}")
        if hot and (reasons or (searcher.behind and store.settings.encodes)):
            spool.ask(store.repo.common_dir)
        return out

    def read_commits(cache: Cache) -> list[commit_hits.Answer]:
        commits = commit_hits.Commits(store, cache, wanted, at, all_branches)
        return [commits.ask(query, limit) for _, query in queries]

    nothing = [commit_hits.NOTHING] * len(queries)
    memories, fresh = nothing, True
    if only != "history":
        memories, fresh = store.with_cache(read, most=ON_THE_SPOT if hot else None)
    if not fresh:
        store.warn(f"warning: {_UNREAD}")
        spool.ask(store.repo.common_dir)
    history, waiting = commit_hits.with_history(store, read_commits) if beside else (nothing, 0)
    if history is None or waiting:
        store.warn(f"warning: {commit_hits.unsearched(waiting)}")
    answers = [
        commit_hits.merged(*pair, limit).hits
        for pair in zip(memories, history or nothing, strict=True)
    ]
    shown = ("id", "kind", "source", "score", "retrieval")
    return [
        (id, [{name: item[name] for name in shown} for item in hits])
        for (id, _), hits in zip(queries, answers, strict=True)
    ]
