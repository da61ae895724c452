"""Memories as readers see them: the JSON objects of `recall`, `list`, `show`.

Promise: the text comes from the stored line, after the line was hashed against
the version it is stored under, so a damaged cache cannot show changed text.
Every object says where its memory stands: scope, anchor, paths.
"""

from __future__ import annotations

from typing import Any

from ..anchors import where
from ..core import record
from ..engine.cache import Cache
from ..engine.document import FORGOTTEN, SUPERSEDED, scope_name
from ..engine.stored import commit_of, load, paths, word, words
from ..store import Store

_STATUS = {0: "active", SUPERSEDED: "superseded", FORGOTTEN: "forgotten"}


def objects(store: Store, cache: Cache, rows: list[int], at: str = "HEAD", stands: dict[str, where.Stand] | None = None,
            patience: float = where.ON_THE_SPOT) -> list[dict[str, Any]]:
    """The public object of each memory row, as seen from the revision `at`.

    `stands`: states the caller knows; those it lacks are added, which may take `patience` seconds.
    """
    loaded = load(cache, rows)
    head = store.repo.commit(at) or ""
    states = {} if stands is None else stands
    asked = {c for data, _, _ in loaded for c in [commit_of(data)] if c and c not in states}
    if asked:
        states.update(where.stands(store.repo, cache, asked, head, patience))
    pairs = [(p, b) for data, _, _ in loaded for p, b in paths(data)]
    path_states = iter(where.paths(store.repo, pairs, head) if pairs else [])
    items = [_object(data, scope, status, states.get(commit_of(data)), [{"path": p, "state": next(path_states)} for p, _ in paths(data)])
             for data, scope, status in loaded]
    for item, said in zip(items, store.trust.public(cache, rows, ["signature" in data for data, _, _ in loaded]), strict=True):
        if said:
            item["signature"] = said
    return items


def _anchor(stand: where.Stand | None, branch: Any) -> dict[str, Any]:
    if stand is None:
        return {"commit": None, "branch": word(branch), "state": where.UNKNOWN, "reason": where.NOWHERE}
    out = {"commit": stand.commit, "branch": word(branch), "state": stand.state}
    if stand.into:
        out["squashed_into"] = stand.into
    if stand.reason:
        out["reason"] = stand.reason
    return out


def _object(data: dict[str, Any], scope: int, status: int, stand: where.Stand | None, states: list[dict[str, str]]) -> dict[str, Any]:
    confidence = data.get("confidence")
    out: dict[str, Any] = {
        "id": record.clean(data["id"]), "title": record.clean(record.title_of(data)), "body": record.clean(data["body"]),
        "type": word(data.get("type")) or record.DEFAULT_TYPE, "tags": words(data.get("tags")), "source": word(data.get("source")),
        "provenance": word(data.get("provenance")),
        "confidence": confidence if isinstance(confidence, (int, float)) and not isinstance(confidence, bool) and 0 <= confidence <= 1 else None,
        "created_at": word(data.get("created")) or word(data.get("at")), "author": word(data.get("author")), "scope": scope_name(scope),
        "status": _STATUS[status], "anchor": _anchor(stand, data.get("branch")), "paths": states,
    }
    for name in ("phase", "subtitle", "agent", "session"):
        if word(data.get(name)):
            out[name] = word(data[name])
    for name in ("facts", "concepts", "supersedes"):
        if words(data.get(name)):
            out[name] = words(data[name])
    return out
