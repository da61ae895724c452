"""Proposals: what consolidation found about stored memories, until a person decides.

A proposal is one record of op `suggest` with a `kind` in the private notes, a decision one of op
`verdict` with the same id (`review_records`, `verdicts`); `docs/format.md` has the fields. Neither
holds a text: ids and a few fixed words.

Promises. Nothing is merged without a person. A pair of memories is proposed once, whatever became
of the proposal and whichever clone found it: its id is made of theirs. A proposal that does not
hold any more (a memory was forgotten, superseded, purged, or edited so that the finding is gone) is
not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..core import fold, id_mentions, record
from ..core.digest import sha256
from ..engine.cache import Cache
from ..engine.memory_rows import made_at
from ..hooks import announce
from ..store import Store
from . import consolidate, memories, review_records, similarity
from .consolidate import CITES, CONTRADICTION, KINDS, MERGE, SHARE, SUPERSEDE, VERSIONS, Finding
from .memories import Found
from .review_records import ACCEPTED, DECLINED, WAITING, Item

HELD = 50  # that wait at a time; more are found again when there is room
PAIRS = (CONTRADICTION, SUPERSEDE, MERGE)
_SIZES = {MERGE: 2, SUPERSEDE: 2, CONTRADICTION: 2, VERSIONS: 1, SHARE: 2, CITES: 3}
_MADE = frozenset(
    ["captured", "from-prompt", "from-answer", "from-commit", "from-tool", "title-by-model"]
)  # tags that say how one memory came to be


class Proposal(Item):
    """One proposal and what became of it. `found`: the memories it is about, where the finding
    still holds; only `waiting` and `find` read them.
    """

    __slots__ = ("found", "ids")

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data)
        self.ids = [i for i in data["memories"] if isinstance(i, str)]
        self.found: dict[str, Found] = {}

    @property
    def kind(self) -> str:
        return str(self.data["kind"])

    @property
    def why(self) -> str:
        return str(self.data["why"]) if self.data.get("why") in consolidate.WHYS else ""

    @property
    def keep(self) -> str:
        """The id of the memory that would stay, "" where only a person can say."""
        return str(self.data["keep"]) if self.data.get("keep") in self.ids else ""

    @property
    def near(self) -> float:
        return self.number("near") or 0.0

    @property
    def team(self) -> bool:
        """Whether accepting it may change the team's notes."""
        stays = self.keep if self.kind in PAIRS else ""
        about = self.ids[:1] if self.kind == CITES else self.ids
        return self.kind == SHARE or any(self.found[i].scope == "team" for i in about if i != stays)


# --- writing ----------------------------------------------------------------


def id_of(finding: Finding, heads: Iterable[str] = ()) -> str:
    """The id of a proposal: made of the pair, whatever is proposed about it. `heads`: the versions
    that stand beside each other, part of the id of a VERSIONS proposal.
    """
    kind = "pair" if finding.kind in PAIRS else finding.kind
    words = [kind, *(sorted(finding.ids) if kind == "pair" else finding.ids), *sorted(heads)]
    return sha256(
        ("git mem proposal 1\n" + "\n".join(words)).encode("utf-8", "replace")
    ).hexdigest()[:32]


def propose(
    store: Store, findings: Iterable[Finding], most: int, *, write: bool = True
) -> list[Proposal]:
    """Keeps findings that were not proposed before, the gravest first, in one commit; at most
    `most`, and so many that HELD wait.
    """
    gravest_first = sorted(findings, key=lambda f: (KINDS.index(f.kind), -f.near, f.ids))
    ids = [i for f in gravest_first for i in f.ids]
    known, found = store.with_cache(lambda cache: (stored(cache), _present(cache, ids)))[0]
    room = min(most, HELD - len(_in_force(store, _undecided(known))))
    made: list[Proposal] = []
    for finding in gravest_first:
        if len(made) >= room:
            break
        members = [found[i] for i in finding.ids if i in found]
        if len(members) < len(finding.ids):
            continue
        heads = members[0].memory.heads if finding.kind == VERSIONS else ()
        proposal = _proposal(finding, members, id_of(finding, heads))
        if proposal.id not in known:
            known[proposal.id] = proposal
            made.append(proposal)
    if write:
        review_records.write(store, "proposal", [p.data for p in made])
    return made


def _proposal(finding: Finding, members: list[Found], id: str) -> Proposal:
    data = {
        "id": id,
        "kind": finding.kind,
        "memories": list(finding.ids),
        "keep": finding.keep,
        "why": finding.why,
        "near": round(min(finding.near, 1.0), 3),
        "seen": [f.record.version for f in members],
    }
    filled = {k: v for k, v in data.items() if v != ""}
    proposal = Proposal(record.envelope("suggest", filled, "", {}))
    proposal.found = dict(zip(finding.ids, members, strict=True))
    return proposal


# --- reading ----------------------------------------------------------------


def stored(cache: Cache) -> dict[str, Proposal]:
    """{id: proposal}, decided ones included."""
    found: dict[str, Proposal] = {}
    for r in review_records.records(cache, "suggest", with_kind=True):
        if _sound(r.data):
            found.setdefault(r.id, Proposal(r.data))
    verdicts = review_records.records(cache, "verdict", with_kind=True)
    review_records.apply_verdicts(found, verdicts, (ACCEPTED, DECLINED))
    return found


def _sound(data: dict[str, Any]) -> bool:
    """Whether a record is a proposal about as many memories as its kind has."""
    ids, kind = data.get("memories"), data.get("kind")
    if kind not in KINDS or not isinstance(ids, list) or not all(isinstance(i, str) for i in ids):
        return False
    return len(set(ids)) == len(ids) == _SIZES[kind]


def _undecided(known: dict[str, Proposal]) -> list[Proposal]:
    return [p for p in known.values() if p.state == WAITING]


def waiting(store: Store) -> list[Proposal]:
    """The undecided proposals that still hold, the gravest kind first, then the nearest."""
    return _in_force(store, _undecided(store.with_cache(stored)[0]))


def find(store: Store, prefix: str) -> Proposal | None:
    """The proposal an id prefix names, decided ones included, None for none. Raises Ambiguous."""
    found = review_records.find(store.with_cache(stored)[0].values(), prefix)
    if found and found.state == WAITING:
        _in_force(store, [found])
    return found


def _in_force(store: Store, given: list[Proposal]) -> list[Proposal]:
    """The proposals whose finding still holds, with their memories."""
    ids = [i for p in given for i in p.ids]
    present = store.with_cache(lambda cache: _present(cache, ids))[0] if given else {}
    for p in given:
        members = {i: present[i] for i in p.ids if i in present}
        if len(members) == len(p.ids) and _holds(store, p, members):
            p.found = members
    holding = [p for p in given if p.found]
    return sorted(holding, key=lambda p: (KINDS.index(p.kind), -p.near, p.id))


def _present(cache: Cache, ids: list[str]) -> dict[str, Found]:
    """{id: memory} of the memories that are still here."""
    sql = "SELECT DISTINCT id FROM memory WHERE id IN"
    rows = review_records.select_in(cache, sql, sorted(set(ids)))
    return memories.load_many(cache, [id for (id,) in rows])


def _holds(store: Store, p: Proposal, found: dict[str, Found]) -> bool:
    """Whether the finding would be made again."""
    members = [found[i] for i in p.ids]
    first, last = members[0], members[-1]
    status = [f.memory.status for f in members]
    if p.kind == SHARE:
        return status == [fold.SUPERSEDED, fold.ACTIVE] and last.scope != "team"
    if status[0] != fold.ACTIVE or status[-1] != fold.ACTIVE:
        return False
    if p.kind == VERSIONS:
        versions = first.memory.versions
        same = p.id == id_of(Finding(VERSIONS, (first.memory.id,)), first.memory.heads)
        return len(versions) > 1 and same
    if p.kind == CITES:
        return bool(id_mentions.named(str(first.record.data["body"]), [p.ids[1]]))
    if p.data.get("seen") == [f.record.version for f in members]:
        return True
    a, b = (
        consolidate.Memory(n, f.record.data, f.scope == "team", record.latest())
        for n, f in enumerate(members)
    )
    return consolidate.judge(a, b, similarity.near(store.table, a.text, b.text)) is not None


# --- looking ----------------------------------------------------------------


_AFTER_A_SESSION = 5  # new proposals at most: nobody asked for them
# Key of the cache's `meta`: the row up to which everything was compared, and whether the last look
# was complete. A new cache begins again; the notes know what was proposed.
_MARK = "consolidated"
# Of comparing new memories after a session. 1,000 memories take a tenth of a second, 100,000 one or
# two seconds.
_SECONDS = 5.0


def tend(store: Store) -> None:
    """Compares what is new after a session and leaves proposals for the next session's start to
    tell of; only where capture is on and `mem.consolidate` is not off.
    """
    if store.settings["capture"] == "false" or not store.settings.flag("consolidate"):
        return

    def compared(cache: Cache) -> bool:
        return cache.meta(_MARK, "0 0") == f"{cache.meta('rows', '0')} 1"

    if not store.with_cache(compared)[0] and len(waiting(store)) < HELD:
        looked = look(store, most=_AFTER_A_SESSION, seconds=_SECONDS, again=False)
        announce.add(store.repo.mem_dir, [], [], [p.id for p in looked.made])


class Looked(NamedTuple):
    """What one look did: `made` are the new proposals, `before` waited already; `compared` memories
    were compared with all before them; `whole`: none is left; `cut`: see `consolidate`.
    """

    made: list[Proposal]
    before: list[Proposal]
    compared: int
    whole: bool
    cut: bool


def look(
    store: Store,
    *,
    most: int = 20,
    seconds: float = 60.0,
    again: bool = True,
    write: bool = True,
    progress: Callable[[int], None] = lambda n: None,
) -> Looked:
    """Looks for new proposals: among all memories (`again`; after a look that was broken off, from
    there), or among those that are new since the last look.
    """

    def read(cache: Cache) -> tuple[consolidate.Looked, dict[str, Proposal], int]:
        row, ended = cache.meta(_MARK, "0 0").split()
        since = int(row)
        if since > int(cache.meta("rows", "0")) or (again and ended == "1") or not write:
            since = 0
        known = stored(cache)

        def proposed(finding: Finding) -> bool:
            heads: Iterable[str] = ()
            if finding.kind == VERSIONS:
                heads = memories.load_many(cache, finding.ids)[finding.ids[0]].memory.heads
            return id_of(finding, heads) in known

        return consolidate.find(cache, since, seconds, proposed, most, progress), known, since

    looked, known, since = store.with_cache(read)[0]
    made = propose(store, looked.found, most, write=write)
    before = _in_force(store, _undecided(known))
    if write:
        new = {p.id for p in made}
        # Pairs for which there was no room are found again.
        left = [f.row for f in looked.found if f.kind in PAIRS and id_of(f) not in new]
        upto = max(since, min([looked.upto, *left]))
        mark = f"{upto} {int(looked.whole and upto == looked.upto)}"
        store.with_cache(lambda cache: cache.keep(1.0, lambda db: cache.set_meta(_MARK, mark)))
    return Looked(made, before, looked.compared, looked.whole, looked.cut)


# --- showing ----------------------------------------------------------------


def title(found: Found) -> str:
    return record.clean(record.title_of(found.record.data))


def both(versions: list[record.Record]) -> dict[str, Any]:
    """Tags and paths of the first version, then what the others add."""
    tags: dict[str, None] = {}
    paths: dict[str, Any] = {}
    for n, r in enumerate(versions):
        given = Item(r.data).words("tags")
        tags.update(dict.fromkeys(t for t in given if n == 0 or t not in _MADE))
        listed = r.data.get("paths")
        for p in listed if isinstance(listed, list) else ():
            if isinstance(p, dict) and isinstance(p.get("path"), str):
                paths.setdefault(p["path"], p)
    return {
        "tags": list(tags)[: record.MAX_ITEMS],
        "paths": list(paths.values())[: record.MAX_ITEMS],
    }


def public(p: Proposal) -> dict[str, Any]:
    """A proposal as `git mem review --json` prints it."""
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


_WHY_IN_WORDS = {
    consolidate.SAME: "they say the same",
    consolidate.ALL: "one says all of the other",
    consolidate.WORDING: "one is a later wording of the other",
    consolidate.AGAINST: "one speaks against the other",
    consolidate.VALUE: "they differ in one value",
    consolidate.EDITED: "edited in two places at the same time",
    consolidate.YOURS: "only your private memory has taken the place of the team's",
    consolidate.REPLACED: "its text names a memory that was superseded",
}


def _member(p: Proposal, id: str) -> dict[str, Any]:
    found = p.found.get(id)
    if found is None:
        return {"id": record.clean(id)}
    data = found.record.data
    shown = {
        "id": id,
        "title": record.clean(record.title_of(data)),
        "body": record.clean(str(data["body"])),
        "type": record.clean(str(data.get("type", ""))),
        "scope": found.scope,
        "status": found.memory.status,
        "author": record.clean(str(data.get("author", ""))),
        "created_at": made_at(data),
        **both([found.record]),
    }
    shown["paths"] = [record.clean(str(x["path"])) for x in shown["paths"]]
    if p.kind == VERSIONS:
        shown["versions"] = [
            {
                "version": r.version,
                "title": record.clean(record.title_of(r.data)),
                "body": record.clean(str(r.data["body"])),
                "author": record.clean(str(r.data.get("author", ""))),
                "created_at": record.moment(r.data.get("at")),
            }
            for r in found.memory.versions
        ]
    return shown
