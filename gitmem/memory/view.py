"""Memories as readers see them: the JSON objects of `recall`, `list`, `show`.

Promise: the text comes from the stored line, after the line was hashed against
the version it is stored under, so a damaged cache cannot show changed text.
Every object says where its memory stands: scope, anchor, paths.
"""

from __future__ import annotations

from typing import Any

from ..anchors import where
from ..core import record
from ..engine.cache import Cache, Damaged
from ..engine.document import FORGOTTEN, SUPERSEDED, scope_name
from ..store import Store

_STATUS = {0: "active", SUPERSEDED: "superseded", FORGOTTEN: "forgotten"}


def load(cache: Cache, rows: list[int]) -> list[tuple[dict[str, Any], int, int]]:
    """(record data, scope bits, status) of memory rows, in order; every text was hashed first."""
    out = []
    for row in rows:
        found = cache.db.execute("SELECT l.version, l.raw, m.scope, m.status FROM memory m JOIN line l ON l.n = m.line WHERE m.row = ?", (row,)).fetchone()
        if found is None:
            raise Damaged("a memory has lost its record")
        version, raw, scope, status = found
        parsed = record.parse(raw)
        if parsed is None or parsed.version != version.hex():
            raise Damaged("a stored record has changed")
        out.append((parsed.data, scope, status))
    return out


def commit_of(data: dict[str, Any]) -> str:
    """The commit a record names by its full id, "" for none."""
    return record.object_id(data.get("commit"))


def _word(value: Any) -> str | None:
    """A text of a record whoever wrote it; None for other shapes."""
    return record.clean(value) if isinstance(value, str) else None


def _words(value: Any) -> list[str]:
    return [record.clean(v) for v in value if isinstance(v, str)] if isinstance(value, list) else []


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
    pairs = [(p, b) for data, _, _ in loaded for p, b in _paths(data)]
    path_states = iter(where.paths(store.repo, pairs, head) if pairs else [])
    items = [_object(data, scope, status, states.get(commit_of(data)), [{"path": p, "state": next(path_states)} for p, _ in _paths(data)])
             for data, scope, status in loaded]
    for item, said in zip(items, store.trust.public(cache, rows, ["signature" in data for data, _, _ in loaded]), strict=True):
        if said:
            item["signature"] = said
    return items


def _paths(data: dict[str, Any]) -> list[tuple[str, str]]:
    found = data.get("paths")
    return [(record.clean(p["path"]), str(p.get("blob", ""))) for p in found if isinstance(p, dict) and isinstance(p.get("path"), str)] if isinstance(found, list) else []


def _anchor(stand: where.Stand | None, branch: Any) -> dict[str, Any]:
    if stand is None:
        return {"commit": None, "branch": _word(branch), "state": where.UNKNOWN, "reason": where.NOWHERE}
    out = {"commit": stand.commit, "branch": _word(branch), "state": stand.state}
    if stand.into:
        out["squashed_into"] = stand.into
    if stand.reason:
        out["reason"] = stand.reason
    return out


def _object(data: dict[str, Any], scope: int, status: int, stand: where.Stand | None, paths: list[dict[str, str]]) -> dict[str, Any]:
    confidence = data.get("confidence")
    out: dict[str, Any] = {
        "id": record.clean(data["id"]), "title": record.clean(record.title_of(data)), "body": record.clean(data["body"]),
        "type": _word(data.get("type")) or record.DEFAULT_TYPE, "tags": _words(data.get("tags")), "source": _word(data.get("source")),
        "provenance": _word(data.get("provenance")),
        "confidence": confidence if isinstance(confidence, (int, float)) and not isinstance(confidence, bool) and 0 <= confidence <= 1 else None,
        "created_at": _word(data.get("created")) or _word(data.get("at")), "author": _word(data.get("author")), "scope": scope_name(scope),
        "status": _STATUS[status], "anchor": _anchor(stand, data.get("branch")), "paths": paths,
    }
    for name in ("phase", "subtitle", "agent", "session"):
        if _word(data.get(name)):
            out[name] = _word(data[name])
    for name in ("facts", "concepts", "supersedes"):
        if _words(data.get(name)):
            out[name] = _words(data[name])
    return out
