"""Answering a question: filters, both routes, fusion, priors, verdict.

Promises. Filters come before candidates. The answer is the same on a fresh and
on a rebuilt cache. It says how each hit was found and where it stands, and
`degraded` when not everything was searched, or the encoder could not be asked.
A prior reorders what was hit and never admits anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..anchors import anchor_state, anchor_state_update, reinstate, snapshot_view
from ..engine import (
    anchor_state_store,
    memory_rows,
    model_vectors,
    path_state_store,
    reinstated,
    unread,
)
from ..engine.cache import Cache
from ..engine.filters import Filter
from ..engine.index import ON_THE_SPOT
from ..engine.search import Search
from ..hooks import spool
from ..models.llamavec import LlamaVectors, NoVectors
from ..signing import trust
from ..store import Store
from . import view


class Searcher(Search):
    """A search that asks git where memories stand; each anchor once.

    `hot`: as the prompt hook, which reads what the worker has found for HEAD.
    """

    def __init__(
        self,
        store: Store,
        cache: Cache,
        at: str = "",
        all_branches: bool = False,
        hot: bool = False,
    ) -> None:
        super().__init__(cache, store.table, None if all_branches else self.stands_of)
        self.store = store
        self.hot = hot
        self.head = store.repo.commit(at or "HEAD") or ""
        self.stands: dict[str, anchor_state.AnchorState] = {}
        self.ages: dict[int, list[path_state_store.PathState]] = {}
        self.aged = self._aged
        self.encoder = store.settings.flag("encoder")

    def stands_of(self, anchors: Iterable[str]) -> dict[str, anchor_state.AnchorState]:
        """States of all anchors seen so far, these among them."""
        asked = {a for a in anchors if a and a not in self.stands}
        if asked:
            self.stands.update(
                anchor_state_store.read(self.cache, asked, self.head)
                if self.hot
                else anchor_state.states(self.store.repo, self.cache, asked, self.head)
            )
        return self.stands

    def _aged(self, rows: Sequence[int]) -> dict[int, str]:
        self.ages.update(
            view.path_states(
                self.store,
                self.cache,
                [row for row in rows if row not in self.ages],
                self.head,
                kept=self.hot,
            )
        )
        return {row: path_state_store.worst(self.ages[row]) for row in rows}


_NO_ENCODER = "the encoder cannot be used: `git mem doctor` says why"
_AT_ONCE = 32  # memories that get their vector of the chosen model while a question waits


def _with_model(searcher: Searcher, vectors: LlamaVectors | None, failed: list[str]) -> None:
    """Lets the chosen model's vectors rank, if every memory has one; else the packaged table's do,
    and why is added to `failed`.
    """
    if vectors is None:
        return
    try:
        space = vectors.space
        if model_vectors.missing(searcher.cache, space) <= _AT_ONCE:
            model_vectors.fill(searcher.cache, vectors)
        left = model_vectors.missing(searcher.cache, space)
        if left:
            failed.append(
                f"{left} memories have no vector of the chosen model yet: `git mem index --all`"
                " makes them"
            )
            return
    except NoVectors as e:
        failed.append(e.message)
        return

    def ask(query: str) -> tuple[str, bytes] | None:
        try:
            return None if failed else (space, vectors.question(query))
        except NoVectors as e:
            failed.append(e.message)
            return None

    searcher.chosen = ask


def _prepared(
    searcher: Searcher, past: snapshot_view.Snapshot | None, vectors: LlamaVectors | None
) -> list[str]:
    """Readies the search for a revision and a chosen model; returns why the answer is less than it
    could be.
    """
    without = [past.reason] if past and past.reason else []
    without += [searcher.store.reduced] if searcher.store.reduced else []
    if large := unread.remark(searcher.cache):
        without.append(large)
    if past:
        searcher.stands.update(past.states)
    _with_model(searcher, vectors, without)
    return without


def _seen(store: Store, cache: Cache, wanted: Filter, hot: bool = False) -> Filter:
    """The conditions as they are at HEAD: what was superseded on a branch that is not merged
    counts. `hot`: as the worker found it.
    """
    head = store.repo.head()
    if not hot:
        reinstate.settle(store.repo, cache, store.table)
    return reinstated.seen_from(cache, wanted, head)


def recall(
    store: Store,
    query: str,
    wanted: Filter,
    *,
    limit: int,
    at: str = "",
    all_branches: bool = False,
    hot: bool = False,
    vectors: LlamaVectors | None = None,
) -> dict[str, Any]:
    """The answer as the JSON object of `recall --json`; each hit has its parts in `explain`.

    `hot`: take in at most ON_THE_SPOT new records, as the prompt hook does; more
    than that makes the answer degraded while a detached process catches up. It
    leaves out what the policy `mem.trust` does not let be injected. `vectors`: the
    embedding model that the user chose, which ranks then.
    """

    def ask(cache: Cache) -> dict[str, Any]:
        if not at:
            return answered(cache, _seen(store, cache, wanted, hot), None)
        with snapshot_view.opened(store, cache, at) as found:
            return answered(found, found.filter(wanted), found)

    def answered(
        cache: Cache, chosen: Filter, past: snapshot_view.Snapshot | None
    ) -> dict[str, Any]:
        searcher = Searcher(store, cache, at, all_branches, hot and not past)
        without = _prepared(searcher, past, vectors)
        checked = True
        if hot:
            checked = bool(past) or store.trust.catch_up(cache, trust.AT_ONCE)
            store.trust.most = 0
            chosen = store.trust.injectable(cache, chosen)
        hits, verdict, probability = searcher.ask(query, chosen, limit)
        without += [_NO_ENCODER] * searcher.reduced
        if searcher.behind and not past and store.settings.encodes:
            spool.ask(store.repo.common_dir)
        rows = [hit.row for hit in hits]
        searcher.stands_of(
            memory_rows.commit_of(data) for data, _, _ in memory_rows.load(cache, rows)
        )
        objects = view.objects(
            store, cache, rows, at or "HEAD", searcher.stands, aged=searcher.ages
        )
        anchor_state_update.update_later(store, cache, searcher.stands, searcher.ages)
        for hit, item in zip(hits, objects, strict=True):
            item["score"], item["retrieval"], item["explain"] = (
                round(hit.score, 4),
                hit.retrieval,
                {**hit.parts(), **searcher.parts[hit.row]},
            )
        if past:
            past.tell(objects)
        return {
            "query": query,
            "verdict": verdict,
            "probability": round(probability, 4),
            "degraded": not checked or bool(without),
            "degraded_reason": "".join(without[:1]) if checked else "signatures wait to be checked",
            "searched": chosen.count(cache),
            "hits": objects,
        }

    answer, fresh = store.with_cache(ask, most=ON_THE_SPOT if hot else None)
    if not fresh:
        answer["degraded"] = True
        answer["degraded_reason"] = "new memories wait to be indexed"
    if hot and answer["degraded"]:
        spool.ask(store.repo.common_dir)
    return answer


def batch(
    store: Store,
    queries: list[tuple[str, str]],
    wanted: Filter,
    *,
    limit: int,
    at: str = "",
    all_branches: bool = False,
    vectors: LlamaVectors | None = None,
) -> list[tuple[str, list[dict[str, Any]]]]:
    """[(query id, [{"id", "source", "score", "retrieval"}])], by the same search as `recall`."""

    def ask(cache: Cache) -> list[tuple[str, list[dict[str, Any]]]]:
        if not at:
            return answered(cache, _seen(store, cache, wanted), None)
        with snapshot_view.opened(store, cache, at) as found:
            return answered(found, found.filter(wanted), found)

    def answered(
        cache: Cache, chosen: Filter, past: snapshot_view.Snapshot | None
    ) -> list[tuple[str, list[dict[str, Any]]]]:
        searcher = Searcher(store, cache, at, all_branches)
        without = _prepared(searcher, past, vectors)
        out = []
        reduced = False
        for id, query in queries:
            hits, _, _ = searcher.ask(query, chosen, limit)
            reduced = reduced or searcher.reduced
            found = memory_rows.load(cache, [hit.row for hit in hits])
            out.append(
                (
                    id,
                    [
                        {
                            "id": data["id"],
                            "source": data.get("source"),
                            "score": round(hit.score, 4),
                            "retrieval": hit.retrieval,
                        }
                        for hit, (data, _, _) in zip(hits, found, strict=True)
                    ],
                )
            )
        for reason in [*without, *[_NO_ENCODER] * reduced][:1]:
            store.warn(f"warning: {reason}")
        return out

    return store.with_cache(ask)[0]
