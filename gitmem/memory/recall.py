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
from ..core import common_words
from ..embedding import reader
from ..engine import anchor_state_store, encoding, model_vectors, path_state_store, unread
from ..engine.cache import Cache
from ..engine.filters import Filter
from ..engine.index import ON_THE_SPOT
from ..engine.search import Search
from ..hooks import spool
from ..signing import trust
from ..store import Store
from . import commit_hits, view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..models.llamavec import LlamaVectors

_NO_ENCODER = "the encoder cannot be used: `git mem doctor` says why"
ONLY = ("", "memories", "history")  # what may be searched alone
_AT_ONCE = 32  # memories that get their vector of the chosen model while a question waits


class Searcher(Search):
    """A search that asks git where memories stand.

    `hot`: reads what the worker has found instead. `vectors`: the model that the user chose, which
    ranks if every memory has a vector of it. `encoder`: what reads the question, if not this
    process. `without`: why the answer is less than it could be.
    """

    def __init__(
        self,
        store: Store,
        cache: Cache,
        *,
        all_branches: bool = False,
        hot: bool = False,
        vectors: LlamaVectors | None = None,
        encoder: reader.Read | None = None,
    ) -> None:
        past = cache if isinstance(cache, Snapshot) else None
        reasons = [past.reason if past else "", store.reduced, unread.remark(cache)]
        self.without = [reason for reason in reasons if reason]
        super().__init__(
            cache,
            store.table.vector,
            None if all_branches else self.stands_of,
            aged=self._worst,
            encoder=(encoder or reader.read) if store.settings.flag("encoder") else None,
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


def _model(
    cache: Cache, vectors: LlamaVectors | None, without: list[str]
) -> Callable[[str, float], tuple[str, bytes] | None] | None:
    """Lets the chosen model rank, until it fails; `without` says why it does not."""
    if vectors is None:
        return None
    from ..models.llamavec import NoVectors

    try:
        space = vectors.space
        if model_vectors.missing(cache, space) <= _AT_ONCE:
            encoding.fill(cache, None, model=vectors)
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

    def ask(query: str, until: float) -> tuple[str, bytes] | None:
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


def recall(store: Store, query: str, wanted: Filter, **how: Any) -> dict[str, Any]:
    """The answer to one question; `how` as for `answers`."""
    return answers(store, [query], wanted, **how)[0]


def batch(
    store: Store, queries: Sequence[tuple[str, str]], wanted: Filter, **how: Any
) -> list[tuple[str, list[dict[str, Any]]]]:
    """[(query id, [{"id", "kind", "source", "score", "retrieval"}])], by the search of `recall`;
    what an answer lacks is said once. `how` as for `answers`.
    """
    found = answers(store, [query for _, query in queries], wanted, **how)
    for reason in dict.fromkeys(answer["degraded_reason"] for answer in found):
        if reason:
            store.warn(f"warning: {reason}")
    shown = ("id", "kind", "source", "score", "retrieval")
    return [
        (id, [{name: hit[name] for name in shown} for hit in answer["hits"]])
        for (id, _), answer in zip(queries, found, strict=True)
    ]


def answers(
    store: Store,
    queries: Sequence[str],
    wanted: Filter,
    *,
    limit: int,
    at: str = "",
    all_branches: bool = False,
    hot: bool = False,
    only: str = "",
    vectors: LlamaVectors | None = None,
) -> list[dict[str, Any]]:
    """Each answer as the JSON object of `recall --json`; each hit has its parts in `explain`.

    `only`: "memories" or "history"; commits are no part of a `hot` answer, and as of a revision
    only those that it reaches. `hot`: as the prompt hook, which takes in at most ON_THE_SPOT new
    records (with more, the answer is degraded) and leaves out what `mem.trust` does not let be
    injected. `vectors`: the model that the user chose, which ranks then.
    """
    encoder = history = None
    if len(queries) == 1 and only != "history":
        encoder = reader.begun(common_words.asked(queries[0]))  # as `_answer` asks it
    if not hot and commit_hits.searchable(store, wanted, only):  # while the encoder reads
        history = commit_hits.answers(store, queries, wanted, limit, at, all_branches)

    def read(cache: Cache) -> list[dict[str, Any]]:
        with view.seen(store, cache, wanted, at, hot) as (seen, chosen):
            how: Any = {"vectors": vectors, "encoder": encoder}
            searcher = Searcher(store, seen, all_branches=all_branches, hot=hot, **how)
            if hot:
                chosen = _injectable(searcher, chosen)
            made = [_answer(searcher, query, chosen, limit) for query in queries]
            anchor_state_update.update_later(store, seen, searcher.stands, searcher.ages)
            if searcher.behind and not at and store.settings.encodes:
                spool.ask(store.repo.common_dir)
            return made

    if only == "history":
        found = [_shown(query, [], "MISS", 0.0) for query in queries]
    else:
        found, fresh = store.with_cache(read, most=ON_THE_SPOT if hot else None)
        if not fresh:
            for answer in found:
                answer.update(degraded=True, degraded_reason="new memories wait to be indexed")
        if hot and any(answer["degraded"] for answer in found):
            spool.ask(store.repo.common_dir)
    if history:
        _add_commits(found, history, limit)
    return found


def _answer(searcher: Searcher, query: str, chosen: Filter, limit: int) -> dict[str, Any]:
    store, cache = searcher.store, searcher.cache
    hits, verdict, sure = searcher.ask(common_words.asked(query), chosen, limit)
    rows = [hit.row for hit in hits]
    searcher.stands_of(anchor for anchor, _, _ in cache.standings(rows).values())
    objects = view.objects(store, cache, rows, stands=searcher.stands, aged=searcher.ages)
    commit_hits.add_scores(searcher, hits, objects)
    reasons = [*searcher.without, *[_NO_ENCODER] * searcher.reduced, ""]
    return _shown(query, objects, verdict, sure, reasons[0], chosen.count(cache))


def _shown(
    query: str, hits: list[Any], verdict: str, sure: float, reason: str = "", searched: int = 0
) -> dict[str, Any]:
    return {
        "query": query,
        "verdict": verdict,
        "probability": round(sure, 4),
        "degraded": bool(reason),
        "degraded_reason": reason,
        "searched": searched,
        "hits": hits,
    }


def _add_commits(answers: list[dict[str, Any]], history: commit_hits.Answers, limit: int) -> None:
    """Puts what the history answers into answers."""
    for answer, found in zip(answers, history.found, strict=True):
        own = commit_hits.Answer(answer["hits"], answer["verdict"], answer["probability"])
        both = commit_hits.merged(own, found, limit)
        answer.update(verdict=both.verdict, probability=round(both.sure, 4), hits=both.hits)
        answer["history"] = {"searched": history.searched, "waiting": history.waiting}
        if history.unsearched and not answer["degraded"]:
            answer.update(degraded=True, degraded_reason=history.unsearched)


def _injectable(searcher: Searcher, chosen: Filter) -> Filter:
    """What may be told unasked; `without` says where a signature was not checked for it."""
    store, cache = searcher.store, searcher.cache
    past = isinstance(cache, Snapshot)
    if not past and not store.trust.catch_up(cache, trust.AT_ONCE):
        searcher.without.insert(0, "signatures wait to be checked")
    store.trust.most = 0
    return store.trust.injectable(cache, chosen)
