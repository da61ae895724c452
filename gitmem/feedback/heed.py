"""Feedback: what became of the memories that were told, as private records of op `feedback`.

One for each part of a session, made by the worker beside its receipt, in the
same commit (`receipts.tend`): no commit a prompt. It has the ids of what was
told by which route, how many answers named each, and what the files changed
afterwards speak for. `docs/format.md` has the fields: ids and counts, no text,
no path. `credit` says what follows from them.

Promise: a repeat adds nothing. A record is named as its receipt is, by its
session and its first line, and a session counts once however many records
speak of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ..core import record
from ..core.digest import sha256
from ..engine.cache import Cache
from ..engine.document import ACTIVE
from ..engine.filters import above
from ..store import Store
from . import credit, usage

_PART = 500  # values in one SQL condition
_MOST = 2_000  # memories named in one record: a note's line stays far below its bound


def draft(session: str, first: bytes, at: str, shown: dict[str, list[str]], cited: Iterable[Iterable[str]], touched: dict[str, set[str]]) -> dict[str, Any] | None:
    """The record of one part of a session, None where nothing was told or used. `cited`: the ids each answer named; `touched`: what `usage.changed_after` gives."""
    answers = [set(ids) for ids in cited if ids]
    named: dict[str, int] = {}
    for ids in answers:
        for id in ids:
            named[id] = named.get(id, 0) + 1
    if not shown and not named and not touched:
        return None
    digest = sha256(b"git mem feedback\n" + session.encode() + b"\n" + first).hexdigest()
    fields = {"session": session, "shown": {route: ids[:_MOST] for route, ids in shown.items()}, "cited": dict(sorted(named.items())),
              "touched": dict(sorted(usage.shares(touched).items())), "answers": len(answers)}
    return {"v": record.FORMAT, "op": "feedback", "id": digest[:32], "n": digest[32:48], "at": at, **{k: v for k, v in fields.items() if v}}


def naming(store: Store, paths: Iterable[str], told: set[str]) -> dict[str, set[str]]:
    """{memory told: those of the paths, as they are given, that it names itself or by a directory above}."""
    given: dict[str, set[str]] = {}
    for path in paths:
        inside = os.path.relpath(path, store.home) if os.path.isabs(path) else os.path.normpath(path)
        if inside.startswith(".."):
            continue
        for name in above(inside.replace(os.sep, "/")):
            given.setdefault(name.encode("utf-8", "replace").decode(), set()).add(path)

    def read(cache: Cache) -> dict[str, set[str]]:
        named: dict[str, set[str]] = {}
        values = list(given)
        for at in range(0, len(values), _PART):
            part = values[at : at + _PART]
            sql = f"SELECT DISTINCT id, value FROM label JOIN memory USING(row) WHERE kind = 'path' AND status = {ACTIVE} AND value IN ({','.join('?' * len(part))})"
            for id, value in cache.db.execute(sql, part):
                if id in told:
                    named.setdefault(id, set()).update(given[value])
        return named

    return store.with_cache(read)[0] if given and told else {}


def contradict(store: Store, ids: Iterable[str]) -> int:
    """Notes that memories, as they read now or read last, were found to be wrong: their confidence falls at once. Returns how many.

    For whoever has a person's word for it: of a contradiction that was accepted
    it is the one that did not stay, should it ever come back. It counts until
    the memory is edited, which is the answer to it; said twice it counts once.
    Memories that are not here are left out.
    """
    wanted = sorted({id for id in ids if credit.is_id(id)})

    def read(cache: Cache) -> dict[str, list[str]]:
        out: dict[str, list[str]] = {}
        for id in wanted:
            rows = cache.db.execute("SELECT l.version FROM memory m JOIN line l ON l.n = m.line WHERE m.id = ?", (id,))
            versions = sorted(version.hex() for (version,) in rows)
            if versions:
                out[id] = versions
        return out

    found = store.with_cache(read)[0] if wanted else {}
    if found:
        name = sha256(b"git mem feedback\n" + record.dump(found)).hexdigest()
        data = record.envelope("feedback", {"id": name[:32], "contradicted": found, "author": store.settings.author}, "", {})
        store.append("private", [("", record.dump(data))], "git mem: 1 contradiction")
    return len(found)
