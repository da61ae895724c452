"""Memories as readers see them: the JSON objects of `recall`, `list`, `show`.

Promise: the text comes from the stored line, after the line was hashed against
the version it is stored under, so a damaged cache cannot show changed text.
Every object says where its memory stands: scope, anchor, paths.
"""

from __future__ import annotations

from typing import Any

from ..anchors import where
from ..core import record
from ..engine import disputes
from ..engine.cache import Cache
from ..engine.document import FORGOTTEN, SUPERSEDED, scope_name
from ..engine.stored import commit_of, load, paths, word, words
from ..feedback import credit, learned
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
    use = learned.evidence(cache, (str(data["id"]) for data, _, _ in loaded))
    items = [_object(data, scope, status, states.get(commit_of(data)), [{"path": p, "state": next(path_states)} for p, _ in paths(data)], use.get(str(data["id"]), credit.Evidence()))
             for data, scope, status in loaded]
    against = disputes.of(cache, [item["id"] for item in items])
    for item in items:
        if item["id"] in against:
            item["contradicts"] = against[item["id"]]
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


def _object(data: dict[str, Any], scope: int, status: int, stand: where.Stand | None, states: list[dict[str, str]], found: credit.Evidence) -> dict[str, Any]:
    stated = data.get("confidence")
    sound = float(stated) if isinstance(stated, (int, float)) and not isinstance(stated, bool) and 0 <= stated <= 1 else None
    out: dict[str, Any] = {
        "id": record.clean(data["id"]), "title": record.clean(record.title_of(data)), "body": record.clean(data["body"]),
        "type": word(data.get("type")) or record.DEFAULT_TYPE, "tags": words(data.get("tags")), "source": word(data.get("source")),
        "provenance": word(data.get("provenance")),
        "confidence": _confidence(data, sound, found, status), "stated_confidence": sound,
        "created_at": word(data.get("created")) or word(data.get("at")), "author": word(data.get("author")), "scope": scope_name(scope),
        "status": _STATUS[status], "anchor": _anchor(stand, data.get("branch")), "paths": states,
    }
    for name in ("phase", "subtitle", "agent", "session"):
        if word(data.get(name)):
            out[name] = word(data[name])
    for name in ("facts", "concepts", "supersedes"):
        if words(data.get(name)):
            out[name] = words(data[name])
    if found:
        out["use"] = {"used": round(found.used, 2), "ignored": round(found.ignored, 2), "contradicted": found.against}
    return out


def _confidence(data: dict[str, Any], stated: float | None, found: credit.Evidence, status: int) -> float | None:
    """The confidence that lives (`credit`): to be superseded is to be contradicted. None where nobody stated one and nothing was counted: no number is made up."""
    gone = status == SUPERSEDED
    if not found and (stated is None or not gone):
        return stated
    lived = credit.Evidence(found.used, found.ignored, found.against + gone)
    return round(credit.confidence(credit.start(stated, data.get("provenance")), lived), 4)
