"""Memories as readers see them: the JSON objects of `recall`, `list`, `show`.

Promise: the text comes from the stored line, after the line was hashed against the version it is
stored under, so a damaged cache cannot show changed text.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import contextmanager
from typing import Any

from ..anchors import anchor_state, path_state, reinstate, snapshot_view
from ..core import confidence, record
from ..core.record_fields import CONTENT, ENTRIES, FIELDS
from ..engine import contradictions, memory_rows, reinstated, usage_store
from ..engine.cache import Cache
from ..engine.document import confidence_of, scope_name
from ..engine.filters import Filter, newest_first
from ..engine.memory_rows import FORGOTTEN, SUPERSEDED, TEAM, commit_of, load, places, word, words
from ..store import Store

_STATUS = {0: "active", SUPERSEDED: "superseded", FORGOTTEN: "forgotten"}


def at_head(store: Store, cache: Cache, wanted: Filter, hot: bool = False) -> Filter:
    """The conditions as they are at HEAD (`reinstate`); `hot`: as the worker found it."""
    if not hot:
        reinstate.settle(store.repo, cache, store.table)
    return reinstated.seen_from(cache, wanted, store.repo.head())


@contextmanager
def seen(
    store: Store, cache: Cache, wanted: Filter, at: str, hot: bool = False
) -> Iterator[tuple[Cache, Filter]]:
    """The cache as of the revision `at`, "" for HEAD, and the conditions there."""
    if not at:
        yield cache, at_head(store, cache, wanted, hot)
        return
    with snapshot_view.opened(store, cache, at) as past:
        yield past, past.filter(wanted)


def active(cache: Cache, column: str, values: Set[Any]) -> list[int]:
    """One row of each active memory whose column has one of these values, newest first."""
    order = f"{newest_first(cache)}, row"
    sql = f"SELECT row FROM memory WHERE status = 0 AND {column} IN {{}} ORDER BY {order}"
    return memory_rows.firsts(cache, [row for (row,) in cache.among(sql, values)])


def objects(
    store: Store,
    cache: Cache,
    rows: list[int],
    at: str = "",
    stands: dict[str, anchor_state.AnchorState] | None = None,
    aged: dict[int, list[path_state.PathState]] | None = None,
) -> list[dict[str, Any]]:
    """The public object of each memory row, as seen from the revision `at`: by default that of a
    snapshot, else HEAD. `stands`, `aged`: states that are known; those they lack are added.
    """
    loaded = load(cache, rows)
    past = cache if isinstance(cache, snapshot_view.Snapshot) else None
    head = past.head if past else store.repo.head()
    if at:
        head = store.repo.commit(at) or ""
    if stands is None:
        stands = dict(past.states) if past else {}
    asked = {commit_of(data) for data, _, _ in loaded} - {"", *stands}
    stands.update(anchor_state.states(store.repo, cache, asked, head))
    ages = {} if aged is None else aged
    unknown = [row for row in rows if row not in ages]
    ages.update(path_state.of_rows(store.repo, cache, unknown, head))
    use = usage_store.evidence(cache, (str(data["id"]) for data, _, _ in loaded))
    signed = ["signature" in data for data, _, _ in loaded]
    signatures = store.trust.public(cache, rows, signed)
    items = [
        {
            **_object(data, scope, status, use.get(str(data["id"]), confidence.Evidence())),
            "anchor": _anchor(stands.get(commit_of(data)), data.get("branch")),
            "paths": _paths(data, ages[row]),
            **({"signature": said} if said else {}),
        }
        for row, (data, scope, status), said in zip(rows, loaded, signatures, strict=True)
    ]
    _add_others(cache, rows, items, head)
    return past.tell(items) if past else items


def of_record(data: dict[str, Any]) -> dict[str, Any]:
    """The public object of a team's memory by its record alone, without what only a clone knows."""
    anchor = {"commit": commit_of(data) or None, "branch": word(data.get("branch"))}
    unknown = anchor_state.UNKNOWN
    named = [(path, lines.partition("@")[0]) for path, _, lines in places(data)]
    return {
        **_object(data, TEAM, 0, confidence.Evidence()),
        "anchor": {**anchor, "state": unknown},
        "paths": [
            {"path": path, "state": unknown, **({"lines": lines} if lines else {})}
            for path, lines in named
        ],
    }


def _add_others(cache: Cache, rows: list[int], items: list[dict[str, Any]], head: str) -> None:
    """Adds what took the place of memories, contradicts them, or stands beside them."""
    elsewhere = reinstated.elsewhere(cache, rows, head)
    named = zip(rows, items, strict=True)
    gone = {row for row, item in named if item["status"] == _STATUS[SUPERSEDED]}
    replaced = reinstated.told(cache, rows) | reinstated.replaced(cache, gone)
    against = contradictions.of(cache, [item["id"] for item in items])
    beside = memory_rows.beside(cache, [item["id"] for item in items])
    versions = {id: _alternatives(cache, others) for id, others in beside.items()}
    for row, item in zip(rows, items, strict=True):
        if row in replaced:
            item["superseded_by"], branch, commit = replaced[row]
            if row in elsewhere:
                item["status"] = _STATUS[SUPERSEDED]
            elif row not in gone:
                item["superseded_on"] = {"branch": branch or None, "commit": commit}
        if item["id"] in against:
            item["contradicts"] = against[item["id"]]
        others = versions.get(item["id"], {})
        if row in others:
            item["alternatives"] = [text for other, text in others.items() if other != row]


def _alternatives(cache: Cache, rows: list[int]) -> dict[int, dict[str, Any]]:
    """What each version says of a memory that was edited in two places, the newest first."""
    return {
        row: {
            **text_of(data),
            "paths": memory_rows.paths(data),
            "created_at": record.moment(data.get("at")) or None,
            **{
                name: data[name]
                for name in CONTENT
                if name not in ("title", "body", "type")
                and isinstance(data.get(name), (str, int, float))
            },
        }
        for row, (data, _, _) in zip(rows, load(cache, rows), strict=True)
    }


def text_of(data: dict[str, Any]) -> dict[str, Any]:
    return {
        "title": record.clean(record.title_of(data)),
        "body": record.clean(data["body"]),
        "type": word(data.get("type")) or record.DEFAULT_TYPE,
        "tags": words(data.get("tags")),
        "author": word(data.get("author")),
    }


def _paths(data: dict[str, Any], states: list[path_state.PathState]) -> list[dict[str, str]]:
    out = []
    for (path, _, lines), state in zip(places(data), states, strict=True):
        item = {
            "now": state.now,
            "lines": lines.partition("@")[0],
            "lines_now": state.lines,
            "reason": state.reason if state.state == path_state.UNKNOWN else "",
        }
        known = {name: value for name, value in item.items() if value}
        out.append({"path": path, "state": state.state, **known})
    return out


def _anchor(stand: anchor_state.AnchorState | None, branch: Any) -> dict[str, Any]:
    stand = stand or anchor_state.AnchorState(anchor_state.UNKNOWN, "", reason=anchor_state.NOWHERE)
    out = {"commit": stand.commit or None, "branch": word(branch), "state": stand.state}
    if stand.into:
        out["squashed_into"] = stand.into
    if stand.reason:
        out["reason"] = stand.reason
    return out


def _object(
    data: dict[str, Any], scope: int, status: int, found: confidence.Evidence
) -> dict[str, Any]:
    """What one record says by itself, and the confidence in it."""
    stated = confidence_of(data)
    out: dict[str, Any] = {
        "kind": "memory",
        "id": record.clean(data["id"]),
        **text_of(data),
        "source": word(data.get("source")),
        "provenance": word(data.get("provenance")),
        "confidence": _confidence(data, stated, found, status),
        "stated_confidence": stated,
        "created_at": memory_rows.made_at(data) or None,
        "scope": scope_name(scope),
        "status": _STATUS[status],
    }
    for field in FIELDS:
        value = data.get(field.name)
        shown = words(value) if field.kind in ENTRIES else word(value)
        if shown and field.name not in (*out, "paths", "branch", "reason"):
            out[field.name] = shown
    if found:
        out["use"] = {
            "used": round(found.used, 2),
            "ignored": found.vain,
            "contradicted": found.against,
        }
    return out


def _confidence(
    data: dict[str, Any], stated: float | None, found: confidence.Evidence, status: int
) -> float | None:
    """The confidence that lives; None where nobody stated one and nothing was counted."""
    gone = status == SUPERSEDED
    if not found and (stated is None or not gone):
        return stated
    lived = confidence.Evidence(found.used, found.ignored, max(found.against, int(gone)))
    return round(confidence.confidence(confidence.start(stated, data.get("provenance")), lived), 4)
