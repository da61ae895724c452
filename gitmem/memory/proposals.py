"""Proposals: what consolidation found about stored memories, until a person decides.

A proposal is one record of op `suggest` with a `kind` in the private notes, a decision one of op
`verdict` with the same id (`review_records`, `verdicts`). Neither holds a text: ids and a few fixed
words, as `docs/format.md` has them.

Promises. Nothing is merged without a person. A pair is proposed once, whatever became of it and
whichever clone found it: its id is made of theirs. A proposal that does not hold any more (a memory
was forgotten, superseded, purged, or edited so that the finding is gone) is not shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ..core import fold, id_mentions, record
from ..engine import memory_rows
from ..engine.cache import Cache
from ..hooks import announce
from ..store import Store
from . import consolidate, memories, review_records, similarity
from .consolidate import CITES, KINDS, PAIRS, SHARE, VERSIONS, Finding
from .memories import Found
from .review_records import ACCEPTED, DECLINED, WAITING, Item

HELD = 50  # that wait at a time; more are found again when there is room
_AFTER_A_SESSION = 5  # new proposals at most: nobody asked for them
_SECONDS = 5.0  # of comparing new memories then; with 100,000 memories it takes one or two
# Key of the cache's `meta`: the row up to which everything was compared, and whether the last look
# was complete. A new cache begins again; the notes know what was proposed.
_MARK = "consolidated"
_WHY_IN_WORDS = {
    consolidate.SAME: "they say the same",
    consolidate.ALL: "one says all of the other",
    consolidate.WORDING: "one is a later wording of the other",
    consolidate.AGAINST: "one speaks against the other",
    consolidate.VALUE: "they differ in one value",
    consolidate.EDITED: "edited in two places at the same time",
    consolidate.YOURS: "only your private memory has taken the place of the team's",
    consolidate.REPLACED_NAME: "its text names a memory that was superseded",
}
# Tags that say how one memory came to be.
_MADE = {"captured", "from-prompt", "from-answer", "from-commit", "from-tool"}


class Proposal(Item):
    def __init__(self, data: dict[str, Any], found: dict[str, Found] | None = None) -> None:
        super().__init__(data)
        self.kind = str(data["kind"])
        self.ids: list[str] = data["memories"]
        # The id of the memory that would stay, "" where only a person can say.
        self.keep = self.text("keep") if self.text("keep") in self.ids else ""
        self.why = self.text("why") if self.text("why") in _WHY_IN_WORDS else ""
        self.near = self.number("near") or 0.0
        # Its memories, where the finding still holds; only `waiting` and `find` read them.
        self.found = found or {}

    @property
    def team(self) -> bool:
        """Whether accepting it may change the team's notes."""
        stays = self.keep if self.kind in PAIRS else ""
        about = self.ids[:1] if self.kind == CITES else self.ids
        return self.kind == SHARE or any(self.found[i].scope == "team" for i in about if i != stays)


def _proposal(finding: Finding, found: dict[str, Found]) -> Proposal:
    data: dict[str, Any] = {
        "id": finding.id,
        "kind": finding.kind,
        "memories": list(finding.ids),
        "why": finding.why,
        "near": round(min(finding.near, 1.0), 3),
        "seen": [found[i].record.version for i in finding.ids],
    }
    kept = {"keep": finding.keep}  # left out where it is empty
    return Proposal(record.envelope("suggest", data, "", kept), found)


# Reading


def stored(cache: Cache) -> dict[str, Proposal]:
    """{id: proposal}, decided ones included."""
    return review_records.stored(cache, _sound, (ACCEPTED, DECLINED), with_kind=True)


def _sound(data: dict[str, Any]) -> Proposal | None:
    """A proposal about as many memories as its kind has; None for another record."""
    ids, kind = data.get("memories"), data.get("kind")
    if kind not in KINDS or not isinstance(ids, list) or not all(isinstance(i, str) for i in ids):
        return None
    size = {VERSIONS: 1, CITES: 3}.get(kind, 2)
    return Proposal(data) if len(set(ids)) == len(ids) == size else None


def waiting(store: Store) -> list[Proposal]:
    """The undecided proposals that still hold, the gravest first."""
    return store.with_cache(lambda cache: _in_force(store, cache, stored(cache).values()))[0]


def find(store: Store, prefix: str) -> Proposal | None:
    """The proposal an id prefix names, decided ones included, None for none. Raises Ambiguous."""

    def read(cache: Cache) -> Proposal | None:
        found = review_records.find(stored(cache).values(), prefix)
        _in_force(store, cache, [found] if found else [])
        return found

    return store.with_cache(read)[0]


def _in_force(store: Store, cache: Cache, given: Iterable[Proposal]) -> list[Proposal]:
    """The undecided ones whose finding still holds, with their memories, the gravest first."""
    holding = []
    for p in given:
        found = memories.load_many(cache, p.ids) if p.state == WAITING else {}
        if len(found) == len(p.ids) and _holds(store, p, [found[i] for i in p.ids]):
            p.found = found
            holding.append(p)
    return sorted(holding, key=lambda p: (KINDS.index(p.kind), -p.near, p.id))


def _holds(store: Store, p: Proposal, members: list[Found]) -> bool:
    """Whether the finding would be made again."""
    first, last = members[0], members[-1]
    status = [f.memory.status for f in members]
    if p.kind == SHARE:
        return status == [fold.SUPERSEDED, fold.ACTIVE] and last.scope != "team"
    if status[0] != fold.ACTIVE or status[-1] != fold.ACTIVE:
        return False
    if p.kind == VERSIONS:
        heads = tuple(first.memory.heads)
        again = Finding(VERSIONS, (first.memory.id,), heads=heads)
        return len(first.memory.versions) > 1 and p.id == again.id
    if p.kind == CITES:
        return bool(id_mentions.named(str(first.record.data["body"]), [p.ids[1]]))
    if p.data.get("seen") == [f.record.version for f in members]:
        return True
    a, b = (
        consolidate.Memory(n, f.record.data, f.scope == "team", record.latest())
        for n, f in enumerate(members)
    )
    return consolidate.judge(a, b, similarity.near(store.table, a.text, b.text)) is not None


# Looking


def tend(store: Store) -> None:
    """Compares what is new after a session, for the next session's start to tell of."""
    if store.settings["capture"] == "false" or not store.settings.flag("consolidate"):
        return
    mark, rows = store.with_cache(lambda cache: (cache.meta(_MARK), cache.meta("rows", "0")))[0]
    if mark != f"{rows} 1" and len(waiting(store)) < HELD:
        looked = look(store, most=_AFTER_A_SESSION, seconds=_SECONDS, again=False)
        announce.add(store.repo.mem_dir, [], [], [p.id for p in looked.made])


class Looked(NamedTuple):
    made: list[Proposal]  # new ones
    before: list[Proposal]  # those that waited already
    compared: int  # memories that were compared with all before them
    whole: bool  # none is left


def look(
    store: Store,
    *,
    most: int = 20,
    seconds: float = 60.0,
    again: bool = True,
    write: bool = True,
) -> Looked:
    """Looks for new proposals, the gravest first, until HELD wait: among all memories (`again`),
    going on after a look that was broken off, or among those that are new since the last look.
    """

    def read(cache: Cache) -> tuple[Looked, str]:
        row, ended = cache.meta(_MARK, "0 0").split()
        since = int(row)
        if since > int(cache.meta("rows", "0")) or (again and ended == "1") or not write:
            since = 0
        known = stored(cache)
        with store.progress("comparing", int(cache.meta("rows", "0")) - since) as advance:
            looked = consolidate.find(cache, since, seconds, known, most, advance)
        before = _in_force(store, cache, known.values())
        room = max(0, min(most, HELD - len(before)))
        found = sorted(looked.found, key=lambda f: (KINDS.index(f.kind), -f.near, f.ids))
        found = [*{f.id: f for f in found}.values()]
        made = [_proposal(f, memories.load_many(cache, f.ids)) for f in found[:room]]
        # Pairs for which there was no room are found again.
        left = [f.row for f in found[room:] if f.kind in PAIRS]
        upto = max(since, min([looked.upto, *left]))
        mark = f"{upto} {int(looked.whole and upto == looked.upto)}"
        return Looked(made, before, looked.compared, looked.whole), mark

    looked, mark = store.with_cache(read)[0]
    if write:
        review_records.write(store, "proposal", [p.data for p in looked.made])
        store.with_cache(lambda cache: cache.keep(1.0, lambda db: cache.set_meta(_MARK, mark)))
    return looked


# Showing


def both(versions: list[record.Record]) -> dict[str, Any]:
    """Tags and paths of the first version, then what the others add."""
    tags: dict[str, None] = {}
    paths: dict[str, Any] = {}
    for n, r in enumerate(versions):
        given = memory_rows.words(r.data.get("tags"))
        tags.update(dict.fromkeys(t for t in given if n == 0 or t not in _MADE))
        for entry in memory_rows.entries(r.data.get("paths")):
            paths.setdefault(entry["path"], entry)
    most = record.MAX_ITEMS
    return {"tags": list(tags)[:most], "paths": list(paths.values())[:most]}


def public(p: Proposal) -> dict[str, Any]:
    return {
        "id": p.id,
        "state": p.state,
        "kind": p.kind,
        "title": _WHY_IN_WORDS.get(p.why, ""),
        "why": p.why,
        "near": p.near,
        "keep": p.keep or None,
        "memory": p.memory or None,
        "created_at": record.moment(p.data.get("at")),
        "memories": [_member(p, i) for i in p.ids],
        "team": bool(p.found) and p.team,
    }


def _member(p: Proposal, id: str) -> dict[str, Any]:
    found = p.found.get(id)
    if found is None:
        return {"id": record.clean(id)}
    data = found.record.data
    shown: dict[str, Any] = {
        "id": id,
        **_text_of(found.record),
        "type": record.clean(str(data.get("type", ""))),
        "scope": found.scope,
        "status": found.memory.status,
        "created_at": memory_rows.made_at(data),
        "tags": memory_rows.words(data.get("tags")),
        "paths": [path for path, _ in memory_rows.paths(data)],
    }
    if p.kind == VERSIONS:
        shown["versions"] = [
            {"version": r.version, **_text_of(r), "created_at": record.moment(r.data.get("at"))}
            for r in found.memory.versions
        ]
    return shown


def _text_of(r: record.Record) -> dict[str, str]:
    return {
        "title": record.clean(record.title_of(r.data)),
        "body": record.clean(str(r.data["body"])),
        "author": record.clean(str(r.data.get("author", ""))),
    }
