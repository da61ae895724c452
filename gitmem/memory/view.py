"""Memories as readers see them: the JSON objects of `recall`, `list`, `show`.

Promise: the text comes from the stored line, after the line was hashed against
the version it is stored under, so a damaged cache cannot show changed text.
Every object says where its memory stands: scope, anchor, paths.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..anchors import anchor_state, path_state
from ..core import confidence, record
from ..core.record_fields import CONTENT, ENTRIES, FIELDS
from ..engine import contradictions, memory_rows, path_state_store, reinstated, usage_store
from ..engine.cache import Cache
from ..engine.document import FORGOTTEN, SUPERSEDED, scope_name
from ..engine.memory_rows import commit_of, load, places, word, words
from ..store import Store

_STATUS = {0: "active", SUPERSEDED: "superseded", FORGOTTEN: "forgotten"}


def objects(
    store: Store,
    cache: Cache,
    rows: list[int],
    at: str = "HEAD",
    stands: dict[str, anchor_state.AnchorState] | None = None,
    patience: float = anchor_state.ON_THE_SPOT,
    aged: dict[int, list[path_state_store.PathState]] | None = None,
) -> list[dict[str, Any]]:
    """The public object of each memory row, as seen from the revision `at`.

    `stands`, `aged`: states of anchors and of each row's paths that the caller
    knows; those they lack are added, which may take `patience` seconds each.
    """
    loaded = load(cache, rows)
    head = store.repo.commit(at) or ""
    states = {} if stands is None else stands
    asked = {c for data, _, _ in loaded for c in [commit_of(data)] if c and c not in states}
    if asked:
        states.update(anchor_state.states(store.repo, cache, asked, head, patience))
    ages = {} if aged is None else aged
    ages.update(path_states(store, cache, [row for row in rows if row not in ages], head, patience))
    use = usage_store.evidence(cache, (str(data["id"]) for data, _, _ in loaded))
    items = [
        _object(
            data,
            scope,
            status,
            states.get(commit_of(data)),
            _paths(data, ages[row]),
            use.get(str(data["id"]), confidence.Evidence()),
        )
        for row, (data, scope, status) in zip(rows, loaded, strict=True)
    ]
    gone = reinstated.elsewhere(cache, rows, head)
    for place, (ids, branch, commit) in _back(cache, rows).items():
        here = (
            {"status": _STATUS[SUPERSEDED]}
            if rows[place] in gone
            else {"superseded_on": {"branch": branch or None, "commit": commit}}
        )
        items[place].update(superseded_by=ids, **here)
    against = contradictions.of(cache, [item["id"] for item in items])
    for item in items:
        if item["id"] in against:
            item["contradicts"] = against[item["id"]]
    disputed = memory_rows.beside(cache, [item["id"] for item in items])
    texts = {id: _alternatives(cache, others) for id, others in disputed.items()}
    for row, item in zip(rows, items, strict=True):
        others = disputed.get(item["id"], [])
        if row in others:
            item["alternatives"] = [
                text for other, text in zip(others, texts[item["id"]], strict=True) if other != row
            ]
    for item, said in zip(
        items,
        store.trust.public(cache, rows, ["signature" in data for data, _, _ in loaded]),
        strict=True,
    ):
        if said:
            item["signature"] = said
    return items


def _alternatives(cache: Cache, rows: list[int]) -> list[dict[str, Any]]:
    """What each version says of a memory that was edited in two places, the newest first."""
    return [
        {
            "title": record.clean(record.title_of(data)),
            "body": record.clean(data["body"]),
            "type": word(data.get("type")) or record.DEFAULT_TYPE,
            "tags": words(data.get("tags")),
            "paths": [path for path, _ in memory_rows.paths(data)],
            "author": word(data.get("author")),
            "created_at": record.moment(data.get("at")) or None,
            **{
                name: data[name]
                for name in CONTENT
                if name not in ("title", "body", "type")
                and isinstance(data.get(name), (str, int, float))
            },
        }
        for data, _, _ in load(cache, rows)
    ]


def _back(cache: Cache, rows: list[int]) -> dict[int, tuple[list[str], str, str]]:
    """{place in the list: what took its place, the branch and the commit} of those that were
    superseded where HEAD is not (`reinstated`).
    """
    found = reinstated.told(cache, rows)
    return {i: found[row] for i, row in enumerate(rows) if row in found}


def path_states(
    store: Store,
    cache: Cache,
    rows: Iterable[int],
    head: str,
    patience: float = anchor_state.ON_THE_SPOT,
    kept: bool = False,
) -> dict[int, list[path_state_store.PathState]]:
    """{memory row: the states of its paths at the commit `head`}: as kept, else (not with `kept`)
    as git says now, of all of them together.
    """
    wanted = list(dict.fromkeys(rows))
    known = path_state_store.read(cache, wanted, head)
    out: dict[int, list[path_state_store.PathState]] = {}
    asked: list[path_state.Noted] = []
    left: list[tuple[int, int]] = []
    for row, (data, _, _) in zip(wanted, load(cache, wanted), strict=True):
        found = places(data)
        states = path_state_store.of(known.get(row), len(found))
        if not kept and path_state_store.waiting({row: states}):
            asked += [(commit_of(data), *place) for place in found]
            left.append((row, len(found)))
        out[row] = states
    answers = iter(path_state.states(store.repo, cache, asked, head, patience) if asked else [])
    out.update((row, [next(answers) for _ in range(count)]) for row, count in left)
    return out


def _paths(data: dict[str, Any], states: list[path_state_store.PathState]) -> list[dict[str, str]]:
    out = []
    for (path, _, lines), state in zip(places(data), states, strict=True):
        item = {
            "path": path,
            "state": state.state,
            "now": state.now,
            "lines": lines.partition("@")[0],
            "lines_now": state.lines,
            "reason": state.reason if state.state == path_state_store.UNKNOWN else "",
        }
        out.append(
            {name: value for name, value in item.items() if value or name in ("path", "state")}
        )
    return out


def _anchor(stand: anchor_state.AnchorState | None, branch: Any) -> dict[str, Any]:
    if stand is None:
        return {
            "commit": None,
            "branch": word(branch),
            "state": anchor_state.UNKNOWN,
            "reason": anchor_state.NOWHERE,
        }
    out = {"commit": stand.commit, "branch": word(branch), "state": stand.state}
    if stand.into:
        out["squashed_into"] = stand.into
    if stand.reason:
        out["reason"] = stand.reason
    return out


def _object(
    data: dict[str, Any],
    scope: int,
    status: int,
    stand: anchor_state.AnchorState | None,
    states: list[dict[str, str]],
    found: confidence.Evidence,
) -> dict[str, Any]:
    stated = data.get("confidence")
    sound = (
        float(stated)
        if isinstance(stated, (int, float)) and not isinstance(stated, bool) and 0 <= stated <= 1
        else None
    )
    out: dict[str, Any] = {
        "id": record.clean(data["id"]),
        "title": record.clean(record.title_of(data)),
        "body": record.clean(data["body"]),
        "type": word(data.get("type")) or record.DEFAULT_TYPE,
        "tags": words(data.get("tags")),
        "source": word(data.get("source")),
        "provenance": word(data.get("provenance")),
        "confidence": _confidence(data, sound, found, status),
        "stated_confidence": sound,
        "created_at": memory_rows.made_at(data) or None,
        "author": word(data.get("author")),
        "scope": scope_name(scope),
        "status": _STATUS[status],
        "anchor": _anchor(stand, data.get("branch")),
        "paths": states,
    }
    for field in FIELDS:
        if field.name not in (*out, "branch", "reason"):
            value = data.get(field.name)
            shown = words(value) if field.kind in ENTRIES else word(value)
            if shown:
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
    """The confidence that lives (`confidence`): to be superseded is to be contradicted, once.

    None where nobody stated one and nothing was counted: no number is made up.
    """
    gone = status == SUPERSEDED
    if not found and (stated is None or not gone):
        return stated
    lived = confidence.Evidence(found.used, found.ignored, max(found.against, int(gone)))
    return round(confidence.confidence(confidence.start(stated, data.get("provenance")), lived), 4)
