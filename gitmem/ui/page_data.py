"""What `git mem ui` shows, as one JSON value: memories with their history, their commits, counts.

Promise: a pure reading of the store. Forgotten memories are left out. A page of the team's memories
alone holds nothing that stands only in private notes, also no version, reason or author of them.
Hidden characters are shown as `<U+202E>`: no memory can reorder or steer the page.
"""

from __future__ import annotations

import os
from collections import defaultdict
from importlib.util import find_spec
from typing import Any

from .. import __version__
from ..capture import review, suggestions
from ..core import record, sanitize
from ..engine.cache import Cache
from ..engine.filters import Filter
from ..engine.memory_rows import SCOPE_BITS
from ..feedback import usage_stats
from ..git import commit_reader
from ..memory import graph, listing, proposals
from ..memory.review_records import REJECTED, WAITING
from ..store import Store

MOST_GRAPH = 3_000  # memories: communities take two seconds; 10,000 would take eight


def gather(store: Store, scope: str = "", served: bool = False) -> dict[str, Any]:
    """`scope`: "team" or "private", "" for both; `served`: with what waits for review, since there
    is a server that can decide.
    """
    wanted = Filter(scope=scope, superseded=True)
    items = listing.list_memories(store, wanted, all_branches=True).items
    ids = {item["id"] for item in items}
    histories = store.with_cache(lambda cache: _histories(cache, ids, scope))[0]
    for item in items:
        item.pop("kind")
        item["contradicts"] = [id for id in item.get("contradicts", ()) if id in ids]
        if scope:
            _narrow(item, ids)
        if history := histories.get(item["id"]):
            item["history"] = history
    anchors = (item["anchor"] for item in items)
    places = (a[name] for a in anchors for name in ("commit", "squashed_into") if a.get(name))
    head = store.repo.head()
    found: dict[str, Any] = {
        "repository": os.path.basename(store.home),
        "head": head,
        "branch": store.repo.branch(),
        "version": __version__,
        "scope": scope,
        "memories": items,
        "commits": commit_reader.facts(store.repo.git, [*places, *filter(None, [head])]),
        "communities": _communities(store, len(items)) if not scope else [],
        "feedback": {} if scope else store.with_cache(_feedback)[0],
    }
    if served and scope != "team":  # suggestions are private
        found |= {"served": True, "queue": _queue(store)}
    shown: dict[str, Any] = _shown(found)
    return shown


def _narrow(item: dict[str, Any], ids: set[str]) -> None:
    """Takes away what memories of the other scope, and private records of use, say of this one."""
    for name in ("alternatives", "use"):
        item.pop(name, None)
    item["confidence"] = item["stated_confidence"]
    if not ids.issuperset(item.get("superseded_by", ())):
        for name in ("superseded_by", "superseded_on"):
            item.pop(name, None)


def _histories(cache: Cache, ids: set[str], scope: str) -> dict[str, list[dict[str, Any]]]:
    """{id: what was said of it, the oldest first}, of memories with more than one record."""
    bits = SCOPE_BITS.get(scope, sum(SCOPE_BITS.values()))
    of_scope = "FROM line WHERE scope & ?"
    sql = (
        f"SELECT raw {of_scope} AND memory IN"
        f" (SELECT memory {of_scope} GROUP BY memory HAVING count(*) > 1)"
    )
    out: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (raw,) in cache.db.execute(sql, (bits, bits)):
        r = record.parse(raw)
        if r and r.op in record.FOLD_OPS and r.data.get("id") in ids:
            out[r.data["id"]].append(_said(r))
    for said in out.values():
        said.sort(key=lambda one: str(one["at"]))
    return {id: said for id, said in out.items() if len(said) > 1}


def _said(r: record.Record) -> dict[str, Any]:
    one = {"op": r.op, "at": record.moment(r.data.get("at")), "author": r.data.get("author")}
    if r.op in record.CONTENT_OPS:
        return {**one, "title": record.title_of(r.data), "body": r.data["body"]}
    return {**one, "reason": r.data.get("reason")}


def _communities(store: Store, count: int) -> list[dict[str, Any]]:
    if not (all(map(find_spec, ("networkx", "scipy"))) and 1 < count <= MOST_GRAPH):
        return []
    found: list[dict[str, Any]] = graph.overview(store, [], None)["communities"]
    return found


def _feedback(cache: Cache) -> dict[str, Any]:
    return {**usage_stats.counts(cache), "decided": _decided(cache)}


def _decided(cache: Cache) -> dict[str, dict[str, int]]:
    """What became of suggestions, by the confidence that capture had when it made them."""
    out = {name: {"accepted": 0, "rejected": 0} for name in (*usage_stats.BANDS, usage_stats.NONE)}
    for s in suggestions.stored(cache).values():
        if s.state != WAITING:
            said = "rejected" if s.state == REJECTED else "accepted"
            out[usage_stats.band(s.number("confidence"))][said] += 1
    return {name: counts for name, counts in out.items() if any(counts.values())}


def _queue(store: Store) -> list[dict[str, Any]]:
    about = [
        # `choose`: a person has to say which of two memories stays.
        {**proposals.public(p), "proposal": True, "choose": not p.keep}
        for p in proposals.waiting(store)
    ]
    return [review.public(s) for s in suggestions.waiting(store)] + about


def _shown(value: Any) -> Any:
    """The same for people to look at, without what is empty."""
    if isinstance(value, str):
        return sanitize.shown(value, lines=True)
    if isinstance(value, dict):
        return {k: _shown(v) for k, v in value.items() if v not in (None, "", [], {})}
    return [_shown(v) for v in value] if isinstance(value, (list, tuple)) else value
