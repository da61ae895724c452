"""Proposals: what consolidation found, until a person decides. Nothing is merged without one.

A proposal is one record of op `suggest` with a `kind` in the private notes, a
decision one of op `verdict` with the same id (`verdicts`); `docs/format.md` has
the fields. Neither holds a text: ids and a few fixed words.

Promises. A pair of memories is proposed once, whatever became of it and
whichever clone found it: the id is made of theirs. One that is not in force any
more (a memory was forgotten, superseded, purged, or edited so that the finding
does not hold) is not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..core import fold, id_mentions, record
from ..core.digest import sha256
from ..core.errors import Ambiguous
from ..engine.cache import Cache
from ..engine.document import PRIVATE
from ..engine.memory_rows import made_at
from ..hooks import announce
from ..notes.notetree import is_hex
from ..store import Store
from . import consolidate, memories, similarity
from .consolidate import CITES, CONTRADICTION, KINDS, MERGE, SHARE, SUPERSEDE, VERSIONS, Finding
from .memories import Found

WAITING, ACCEPTED, REJECTED = "waiting", "accepted", "rejected"
# of a record: that both memories hold says nothing against either, as a rejected suggestion would
DECLINED = "declined"
HELD = 50  # that wait at a time; more are found again when there is room
PAIRS = (CONTRADICTION, SUPERSEDE, MERGE)
_SIZES = {MERGE: 2, SUPERSEDE: 2, CONTRADICTION: 2, VERSIONS: 1, SHARE: 2, CITES: 3}
_MADE = frozenset(
    ["captured", "from-prompt", "from-answer", "from-commit", "from-tool", "title-by-model"]
)  # tags that say how one memory came to be
# a teammate's notes propose and decide nothing here
_RECORDS = (
    f"SELECT raw FROM line WHERE op = '%s' AND scope & {PRIVATE} AND instr(raw, CAST('\"kind\":' AS"
    " BLOB)) > 0"
)


class Proposal:
    """One proposal and what became of it; `found`: the memories it is about, where `waiting` or
    `find` read them. `memory`: which one stayed.
    """

    __slots__ = ("data", "found", "ids", "memory", "state")

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.state = WAITING
        self.memory = ""
        self.ids = [i for i in data["memories"] if isinstance(i, str)]
        self.found: dict[str, Found] = {}

    @property
    def id(self) -> str:
        return str(self.data["id"])

    @property
    def kind(self) -> str:
        return str(self.data["kind"])

    @property
    def why(self) -> str:
        return str(self.data["why"]) if self.data.get("why") in consolidate.WHYS else ""

    @property
    def keep(self) -> str:
        """Which one would stay, "" where only a person can say."""
        return str(self.data["keep"]) if self.data.get("keep") in self.ids else ""

    @property
    def near(self) -> float:
        value = self.data.get("near")
        return (
            float(value)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
            else 0.0
        )

    @property
    def team(self) -> bool:
        """Whether accepting it may change the team's notes."""
        stays = self.keep if self.kind in PAIRS else ""
        about = self.ids[:1] if self.kind == CITES else self.ids
        return self.kind == SHARE or any(self.found[i].scope == "team" for i in about if i != stays)


# --- writing ----------------------------------------------------------------


def name(finding: Finding, heads: Iterable[str] = ()) -> str:
    """The id of a proposal: that of the pair, whatever is proposed about it; of the very versions,
    where they are the matter.
    """
    kind = "pair" if finding.kind in PAIRS else finding.kind
    words = [kind, *(sorted(finding.ids) if kind == "pair" else finding.ids), *sorted(heads)]
    return sha256(
        ("git mem proposal 1\n" + "\n".join(words)).encode("utf-8", "replace")
    ).hexdigest()[:32]


def propose(
    store: Store, findings: Iterable[Finding], most: int, *, write: bool = True
) -> list[Proposal]:
    """Keeps findings that nobody was asked about before, the gravest first, in one commit; at most
    `most`, and HELD in all. The worker calls this: nothing is signed.
    """
    given = sorted(findings, key=lambda f: (KINDS.index(f.kind), -f.near, f.ids))
    known, found = store.with_cache(
        lambda cache: (stored(cache), _present(cache, [i for f in given for i in f.ids]))
    )[0]
    room = min(
        most, HELD - len(_in_force(store, [p for p in known.values() if p.state == WAITING]))
    )
    made: list[Proposal] = []
    for finding in given:
        if len(made) >= room:
            break
        there = [found[i] for i in finding.ids if i in found]
        id = name(finding, there[0].memory.heads if finding.kind == VERSIONS and there else ())
        if len(there) < len(finding.ids) or id in known:
            continue
        data = {
            "id": id,
            "kind": finding.kind,
            "memories": list(finding.ids),
            "keep": finding.keep,
            "why": finding.why,
            "near": round(min(finding.near, 1.0), 3),
            "seen": [f.record.version for f in there],
        }
        proposal = Proposal(
            record.envelope("suggest", {k: v for k, v in data.items() if v != ""}, "", {})
        )
        proposal.found = {i: found[i] for i in finding.ids}
        known[id] = proposal
        made.append(proposal)
    if made and write:
        store.append(
            "private",
            [("", record.dump(p.data)) for p in made],
            f"git mem: {len(made)} proposal{'s' * (len(made) != 1)}",
        )
    return made


# --- reading ----------------------------------------------------------------


def stored(cache: Cache) -> dict[str, Proposal]:
    """{id: proposal}, decided ones included; accepted counts before rejected, whatever came
    first."""
    found: dict[str, Proposal] = {}
    for r in _records(cache, "suggest"):
        listed = r.data.get("memories")
        if (
            r.data.get("kind") in KINDS
            and isinstance(listed, list)
            and listed
            and all(isinstance(i, str) for i in listed)
            and len({*listed}) == len(listed) == _SIZES[r.data["kind"]]
        ):
            found.setdefault(r.id, Proposal(r.data))
    for r in _records(cache, "verdict"):
        p = found.get(r.id)
        if p and r.data.get("verdict") in (ACCEPTED, DECLINED) and p.state != ACCEPTED:
            p.state = ACCEPTED if r.data["verdict"] == ACCEPTED else REJECTED
            p.memory = r.data["memory"] if isinstance(r.data.get("memory"), str) else ""
    return found


def _records(cache: Cache, op: str) -> list[record.Record]:
    found = [r for (raw,) in cache.db.execute(_RECORDS % op) if (r := record.parse(raw))]
    return sorted(found, key=lambda r: r.version)


def waiting(store: Store) -> list[Proposal]:
    """What is in force and undecided, the gravest kind first, then the nearest."""
    return _in_force(store, [p for p in store.with_cache(stored)[0].values() if p.state == WAITING])


def find(store: Store, prefix: str) -> Proposal | None:
    """The proposal an id prefix names, decided ones included, None for none. Raises Ambiguous."""
    low = prefix.strip().lower()
    if len(low) < memories.SHORTEST or not is_hex(low):
        return None
    found = [p for p in store.with_cache(stored)[0].values() if p.id.startswith(low)]
    if len(found) > 1:
        raise Ambiguous(
            f"'{low}' is ambiguous: {', '.join(sorted(p.id[: len(low) + 4] for p in found)[:5])}",
            hint="type more digits",
        )
    if found and found[0].state == WAITING:
        _in_force(store, found)
    return found[0] if found else None


def _in_force(store: Store, given: list[Proposal]) -> list[Proposal]:
    """Those whose finding still holds, with their memories."""
    there = (
        store.with_cache(lambda cache: _present(cache, [i for p in given for i in p.ids]))[0]
        if given
        else {}
    )
    for p in given:
        found = {i: there[i] for i in p.ids if i in there}
        if len(found) == len(set(p.ids)) and _holds(store, p, found):
            p.found = found
    order = {kind: n for n, kind in enumerate(KINDS)}
    return sorted([p for p in given if p.found], key=lambda p: (order[p.kind], -p.near, p.id))


def _present(cache: Cache, ids: list[str]) -> dict[str, Found]:
    wanted = sorted(set(ids))
    here: list[str] = []
    for at in range(0, len(wanted), 500):
        part = wanted[at : at + 500]
        here += [
            i
            for (i,) in cache.db.execute(
                f"SELECT DISTINCT id FROM memory WHERE id IN ({','.join('?' * len(part))})", part
            )
        ]
    return memories.load_many(cache, here)


def _holds(store: Store, p: Proposal, found: dict[str, Found]) -> bool:
    one = found[p.ids[0]]
    if p.kind == SHARE:
        other = found[p.ids[1]]
        return (
            one.memory.status == fold.SUPERSEDED
            and other.memory.status == fold.ACTIVE
            and other.scope != "team"
        )
    if one.memory.status != fold.ACTIVE:
        return False
    if p.kind == VERSIONS:
        return len(one.memory.versions) > 1 and p.id == name(
            Finding(VERSIONS, (one.memory.id,)), one.memory.heads
        )
    if p.kind == CITES:
        return found[p.ids[2]].memory.status == fold.ACTIVE and bool(
            id_mentions.named(str(one.record.data["body"]), [p.ids[1]])
        )
    other = found[p.ids[1]]
    if other.memory.status != fold.ACTIVE:
        return False
    if p.data.get("seen") == [one.record.version, other.record.version]:
        return True
    a, b = (
        consolidate.Memory(n, f.record.data, f.scope == "team", record.latest())
        for n, f in enumerate((one, other))
    )
    return consolidate.judge(a, b, similarity.near(store.table, a.text, b.text)) is not None


# --- looking ----------------------------------------------------------------


_AT_END = 5  # new proposals that the end of a session makes at most: nobody asked
# row of the cache up to which all was compared; a cache that is made anew begins again, and what
# was proposed is known by the notes
_MARK = "consolidated"
# that the worker compares for, of what is new; with 1,000 memories it needs a tenth of one, with
# 100,000 one or two
_SECONDS = 5.0


def tend(store: Store) -> None:
    """After a session, where capture is on and `mem.consolidate` does not say no: a look at what is
    new, of which the next session's start tells.
    """
    if store.settings["capture"] == "false" or not store.settings.flag("consolidate"):
        return
    fresh = store.with_cache(
        lambda cache: cache.meta(_MARK, "0 0") != f"{cache.meta('rows', '0')} 1"
    )[0]
    if fresh and len(waiting(store)) < HELD:
        announce.add(
            store.repo.mem_dir,
            [],
            [],
            [p.id for p in look(store, most=_AT_END, seconds=_SECONDS, again=False).made],
        )


class Looked(NamedTuple):
    """What one look did: `made` are new, `before` waited already; `compared` memories were compared
    with all before them; `whole`: none is left; `cut`: see `consolidate`.
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
    """One look for what could become one: over everything (`again`; where a look broke off, from
    there), or what is new since the last one.
    """

    def read(cache: Cache) -> tuple[consolidate.Looked, dict[str, Proposal], int]:
        mark = cache.meta(_MARK, "0 0").split()
        rows = int(cache.meta("rows", "0"))
        since, ended = int(mark[0]), mark[1] == "1"
        if since > rows or (again and ended) or not write:
            since = 0
        known = stored(cache)
        return (
            consolidate.find(cache, since, seconds, _asked(cache, known), most, progress),
            known,
            since,
        )

    looked, known, since = store.with_cache(read)[0]
    made = propose(store, looked.found, most, write=write)
    before = _in_force(store, [p for p in known.values() if p.state == WAITING])
    if write:
        new = {p.id for p in made}
        left = [
            f.row for f in looked.found if f.kind in PAIRS and name(f) not in new
        ]  # there was no room for them
        upto = max(since, min([looked.upto, *left]))
        ended = looked.whole and upto == looked.upto
        store.with_cache(
            lambda cache: cache.keep(1.0, lambda db: cache.set_meta(_MARK, f"{upto} {int(ended)}"))
        )
    return Looked(made, before, looked.compared, looked.whole, looked.cut)


def _asked(cache: Cache, known: dict[str, Proposal]) -> Callable[[Finding], bool]:
    """Whether somebody was asked about a finding before."""

    def asked(finding: Finding) -> bool:
        heads = (
            memories.load_many(cache, finding.ids)[finding.ids[0]].memory.heads
            if finding.kind == VERSIONS
            else ()
        )
        return name(finding, heads) in known

    return asked


def title(found: Found) -> str:
    return record.clean(record.title_of(found.record.data))


def both(versions: list[record.Record]) -> dict[str, Any]:
    """Tags and paths of the first version, and what the others have beside them."""
    tags: dict[str, None] = {}
    paths: dict[str, Any] = {}
    for n, r in enumerate(versions):
        given, listed = r.data.get("tags"), r.data.get("paths")
        tags.update(
            (t, None)
            for t in (given if isinstance(given, list) else ())
            if isinstance(t, str) and (n == 0 or t not in _MADE)
        )
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
        "title": _SAID.get(p.why, ""),
        "why": p.why,
        "near": p.near,
        "keep": p.keep or None,
        "memory": p.memory or None,
        "created_at": record.moment(p.data.get("at")),
        "memories": [_member(p, i) for i in p.ids],
        "team": bool(p.found) and p.team,
    }


_SAID = {
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
