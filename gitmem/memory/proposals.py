"""Proposals: what consolidation found about two stored memories, and what a person decides.

A proposal is one record of op `suggest` with a `kind` in the private notes, a decision one of op
`verdict` with the same id (`review_records`). Neither holds a text: ids and a few fixed words, as
`docs/format.md` has them.

Promises. Nothing is merged without a person. A pair is proposed once, whatever became of it and
whichever clone found it: its id is made of theirs. A proposal that does not hold any more (a memory
was forgotten, superseded, purged, or edited so that the finding is gone) is not shown. Accepting
writes first the memory's record and then the verdict, so a crash in between leaves a proposal that
waits. The memory that stays keeps its id, and its new version says that it supersedes the other.
Two clones that choose differently lose neither: each choice is a version the other had not seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ..core import fold, record
from ..core.errors import MemError, Refused
from ..engine import memory_rows
from ..engine.cache import Cache
from ..feedback import usage_records
from ..hooks import announce
from ..store import Store
from . import consolidate, memories, review_records, similarity, write_gate
from .consolidate import CONTRADICTION, KINDS, MERGE, Finding
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

    def team(self, stays: str) -> bool:
        """Whether accepting it changes the team's notes where this memory stays."""
        return any(found.scope == "team" for id, found in self.found.items() if id != stays)


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


def stored(cache: Cache, prefix: str = "") -> dict[str, Proposal]:
    """{id: proposal}, decided ones included."""
    ranked = (ACCEPTED, DECLINED)
    return review_records.stored(cache, _sound, ranked, with_kind=True, prefix=prefix)


def _sound(data: dict[str, Any]) -> Proposal | None:
    """A proposal about two memories; None for another record."""
    ids = data.get("memories")
    if data.get("kind") not in KINDS or not isinstance(ids, list) or len(ids) != 2:
        return None
    return Proposal(data) if all(isinstance(i, str) for i in ids) and ids[0] != ids[1] else None


def waiting(store: Store) -> list[Proposal]:
    """The undecided proposals that still hold, the gravest first."""
    return store.with_cache(lambda cache: _in_force(store, cache, stored(cache).values()))[0]


def find(store: Store, prefix: str) -> Proposal | None:
    """The proposal an id prefix names, decided ones included, None for none. Raises Ambiguous."""

    def read(cache: Cache) -> Proposal | None:
        found = review_records.find(stored(cache, prefix).values(), prefix)
        _in_force(store, cache, [found] if found else [])
        return found

    return store.with_cache(read)[0]


def _in_force(store: Store, cache: Cache, given: Iterable[Proposal]) -> list[Proposal]:
    """The undecided ones whose finding still holds, with their memories, the gravest first."""
    holding = []
    for p in given:
        found = memories.load_many(cache, p.ids) if p.state == WAITING else {}
        if len(found) == 2 and _holds(store, p, [found[i] for i in p.ids]):
            p.found = found
            holding.append(p)
    return sorted(holding, key=lambda p: (KINDS.index(p.kind), -p.near, p.id))


def _holds(store: Store, p: Proposal, pair: list[Found]) -> bool:
    """Whether the finding would be made again."""
    if any(f.memory.status != fold.ACTIVE for f in pair):
        return False
    if p.data.get("seen") == [f.record.version for f in pair]:
        return True
    a, b = (
        consolidate.Memory(n, f.record.data, f.scope == "team", record.latest())
        for n, f in enumerate(pair)
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
        made = [_proposal(f, memories.load_many(cache, f.ids)) for f in found[:room]]
        # Pairs for which there was no room are found again.
        upto = max(since, min([looked.upto, *(f.row for f in found[room:])]))
        mark = f"{upto} {int(looked.whole and upto == looked.upto)}"
        return Looked(made, before, looked.compared, looked.whole), mark

    looked, mark = store.with_cache(read)[0]
    if write:
        review_records.write(store, "proposal", [p.data for p in looked.made])
        store.with_cache(lambda cache: cache.keep(1.0, lambda db: cache.set_meta(_MARK, mark)))
    return looked


# Showing


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
        "memories": [_member(id, p.found.get(id)) for id in p.ids],
        "team": p.team(p.keep),
    }


def _member(id: str, found: Found | None) -> dict[str, Any]:
    if found is None:
        return {"id": record.clean(id)}
    data = found.record.data
    return {
        "id": id,
        "title": record.clean(record.title_of(data)),
        "body": record.clean(str(data["body"])),
        "author": record.clean(str(data.get("author", ""))),
        "type": record.clean(str(data.get("type", ""))),
        "scope": found.scope,
        "status": found.memory.status,
        "created_at": memory_rows.made_at(data),
        "tags": memory_rows.words(data.get("tags")),
        "paths": memory_rows.paths(data),
    }


# Deciding


def rejection(proposal: Proposal) -> review_records.Decision:
    """Both memories stay as they are, and the pair is not proposed again."""
    review_records.check_undecided(proposal, "proposal")
    return proposal, DECLINED, "", {"kind": proposal.kind}


def accept(
    store: Store,
    proposal: Proposal,
    keep: str = "",
    text: str = "",
    *,
    team: bool = False,
    allow_secret: bool = False,
) -> None:
    """Does what is proposed. `keep`: a prefix of the id of the memory that stays; `text`: its new
    text; `team`: the team's notes may change. Where it raises, nothing has changed.
    """
    text = str(write_gate.admit(store, {"body": text}, allow_secret)["body"])
    review_records.check_undecided(proposal, "proposal")
    if not proposal.found:
        raise MemError(
            f"proposal '{proposal.id[:8]}' does not hold any more: its memories have changed since",
            hint="`git mem consolidate` looks again; --reject lets it rest",
        )
    id = _chosen(proposal, keep, text)
    (other,) = (i for i in proposal.ids if i != id)
    stay, gone = proposal.found[id], proposal.found[other]
    changes: dict[str, Any] = {"body": text} if text else {}
    if not team and proposal.team("" if changes else id):
        raise Refused(
            "the team's notes would change, for everybody to see", hint="--team lets them change"
        )
    if stay.scope == "team" and gone.scope != "team":
        if changes:
            memories.edit(store, id, changes, allow_secret=allow_secret)
        memories.forget(store, other, f"memory {id} says it")
    else:
        if stay.scope != gone.scope:
            memories.share(store, id, allow_secret=allow_secret)
            stay = memories.find(store, id)
        if proposal.kind == MERGE or proposal.why == consolidate.WORDING:
            changes |= _both(stay.record, gone.record)
        memories.replace(store, stay, gone, changes, allow_secret=allow_secret)
    if proposal.kind == CONTRADICTION and not text:
        usage_records.contradict(store, [other])  # it is called wrong, also if it comes back
    review_records.decide(store, [(proposal, ACCEPTED, id, {"kind": proposal.kind})])


def _chosen(proposal: Proposal, keep: str, text: str) -> str:
    """The id of the memory that stays."""
    one, other = proposal.ids
    if keep:
        ids = [i for i in proposal.ids if i.startswith(keep.strip().lower())]
        if len(ids) != 1:
            raise Refused(
                f"'{keep[:40]}' is {'both' if ids else 'neither'} of its memories",
                hint=f"--keep {one[:8]} or --keep {other[:8]}",
            )
        return ids[0]
    if proposal.keep:
        return proposal.keep
    if text:  # the team's memory, else the older one, which others may have named
        return next((i for i in proposal.ids if proposal.found[i].scope == "team"), one)
    raise Refused(
        f"which of the two holds only you can say: {one[:8]} or {other[:8]}",
        hint="--keep ID says which stays; rejecting the proposal keeps both",
    )


def _both(stays: record.Record, gone: record.Record) -> dict[str, Any]:
    """Tags and paths of the one that stays, then what the other adds."""
    words, entries = memory_rows.words, memory_rows.entries
    added = [tag for tag in words(gone.data.get("tags")) if tag not in _MADE]
    tags = dict.fromkeys([*words(stays.data.get("tags")), *added])
    paths: dict[str, dict[str, Any]] = {}
    for entry in [*entries(stays.data.get("paths")), *entries(gone.data.get("paths"))]:
        paths.setdefault(entry["path"], entry)
    most = record.MAX_ITEMS
    return {"tags": list(tags)[:most], "paths": list(paths.values())[:most]}
