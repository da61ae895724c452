"""`git mem check`: what is wrong with the memories of a repository, for people and for CI.

Kinds of findings, each with a rule: `stale`, `broken` (lines of notes that are no record, and notes
that cannot be read), `secret`, `contradiction` (marks of `consolidate`) and `unsigned` (below
`mem.trust`, where that asks for signatures).

Stale is a memory of which a path says something else than when it was noted, or is gone. With a
revision, only what became so since. Memories of branches that HEAD does not contain are not asked
about.

Promise: it fails closed. What nobody can tell (where a path went, in a shallow clone), or read, is
a finding. A path that never can be compared (its name is not UTF-8) is told and stops nobody. No
message repeats a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Any, NamedTuple

from ..anchors import anchor_state, path_state, snapshot_view
from ..anchors.anchor_state import AnchorState
from ..core import record, redact
from ..core.errors import GitFailed
from ..core.progress import counted
from ..engine import contradictions, memory_rows
from ..engine.cache import Cache
from ..memory import verify, view
from ..signing import trust
from ..store import Store

STALE, BROKEN, SECRET = "stale", "broken", "secret"
CONTRADICTION, UNSIGNED = "contradiction", "unsigned"


class Rule(NamedTuple):
    """What the findings of a kind have in common. `level`: as SARIF and GitHub name it."""

    level: str
    name: str
    help: str


RULES = {
    STALE: Rule(
        "warning",
        "stale memory",
        "`git mem bisect ID` names the commit; `edit --path` or `supersede` says what holds now,"
        " `forget` what does not",
    ),
    BROKEN: Rule(
        "error",
        "broken record",
        "broken lines are kept, and shown to nobody; `git mem doctor` says more",
    ),
    SECRET: Rule(
        "error",
        "secret",
        "change the credential; `git mem purge` takes a memory or a line out for good",
    ),
    CONTRADICTION: Rule(
        "warning",
        "contradiction",
        "`git mem review` decides; `git mem supersede` or `forget` leaves one of the two",
    ),
    UNSIGNED: Rule(
        "error",
        "unsigned record",
        "`git mem verify` says who signed; `git mem sign ID` vouches for it",
    ),
}

# What a place is at a revision, beside STALE; never: no name there can be compared.
_UNKNOWN, _NEVER, _FINE = "unknown", "never", "fine"
PATIENCE = 60.0  # seconds git may look for renames
# Unknown, and no wonder: nobody ever knew what was there, there is no history, or the memory is not
# about this one as far as anybody knows.
_HARMLESS = (path_state.NO_BLOB, path_state.NO_NAME, anchor_state.UNBORN, anchor_state.ABSENT)
Place = tuple[int, path_state.Noted]  # the row of a memory, and a path as it noted it
Object = dict[str, Any]


def check(store: Store, since: str = "", only: Iterable[str] = ()) -> Object:
    """The JSON object of `git mem check`: `complete` (whether all notes could be read), `findings`
    and, where `stale` is asked for, what `stale` says. `only`: kinds; none for all.
    `since` narrows the stale ones.

    A finding: `kind`, `level`, `message`, and `path`, `line`, `id`, each None where there is none.
    Raises MemError where there is no such revision.
    """
    asked = set(only or RULES)
    found = stale(store, since) if STALE in asked else {}
    findings = list(_stale(found)) if found else []
    unreadable: dict[str, None] = {}
    if not asked.isdisjoint((BROKEN, SECRET)):
        try:
            findings += _of_lines(store, asked)
        except GitFailed as e:
            unreadable[e.message] = None
    active, fresh = store.with_cache(lambda cache: list(_of_active(store, cache, asked)))
    findings += active
    for _, notes in store.sources:
        if notes.missing:
            unreadable[f"'{notes.ref}' has notes that cannot be read"] = None
    if not unreadable and not (fresh and found.get("complete", True)):
        unreadable["notes could not be read"] = None
    findings += [_finding(BROKEN, f"{why}: what they hold is not known") for why in unreadable]
    return {**found, "complete": not unreadable, "findings": findings}


def _finding(kind: str, message: str, item: Object | None = None, **more: Any) -> Object:
    """`item`: the memory's public object, which says where."""
    place: Object = next(iter(item["paths"]), {}) if item else {}
    return {
        "kind": kind,
        "level": RULES[kind].level,
        "message": message,
        "path": place.get("now") or place.get("path") or None,
        "line": _first(place.get("lines_now") or place.get("lines")),
        "id": item["id"] if item else None,
        **more,
    }


def _first(lines: str | None) -> int | None:
    number = (lines or "").partition("-")[0]
    # A larger one would have GitHub refuse the whole log, and Python raise.
    return int(number) if number.isdecimal() and len(number) < 10 else None


def _named(item: Object) -> str:
    title = "its title may be a secret" if redact.holds(item["title"]) else item["title"]
    return f"memory {item['id'][:8]} ({item['type']}: {title})"


def _stale(found: Object) -> Iterator[Object]:
    """One finding a stale path; one a memory of which nobody can tell."""
    for item in found["stale"]:
        for place in item["paths"]:
            if place["state"] in path_state.STALE:
                gone = place["state"] == path_state.GONE
                said = "is gone" if gone else "changed since it was noted"
                text = f"{_named(item)}: {place['path']} {said}"
                yield _finding(STALE, text, {**item, "paths": [place]})
    for item in found["unknown"]:
        reasons = [p.get("reason") for p in item["paths"]] + [item["anchor"].get("reason")]
        because = next(filter(None, reasons), "no reason is known")
        text = f"{_named(item)}: nobody can tell whether it is stale: {because}"
        yield _finding(STALE, text, item)


def _of_lines(store: Store, asked: Set[str]) -> Iterator[Object]:
    for scope, notes in store.sources:
        keys = {line: key for key, line in notes.lines(notes.tip())}
        for line, key in keys.items() if BROKEN in asked else ():
            kind, version = record.kind_of(line), record.version_of(line)
            where = f"line {version[:8]} of the note of {key[:12]} ({scope})"
            if kind == "broken":
                yield _finding(BROKEN, f"{where} begins as a record and is none", version=version)
            elif kind == "forged":
                yield _finding(BROKEN, f"{where} has not the id of its text", version=version)
        for key, size in notes.unread.items() if BROKEN in asked else ():
            if size:
                text = f"the note of {key[:12]} ({scope}) is too large to be read"
                yield _finding(BROKEN, text)
        if SECRET in asked:
            with store.progress("looking for secrets", len(keys)) as advance:
                found = trust.secrets(counted(keys, advance))
            lines = {record.version_of(line.strip()): line for line in keys}
            for version, id, field, rule in found:
                where = f" in {field}" if field else ""
                yield _secret(scope, lines[version], version, id, f"{where}: {rule}")


def _secret(scope: str, line: bytes, version: str, id: str, what: str) -> Object:
    name = f"memory {id[:8]}" if id else f"line {version[:8]}"
    parsed = record.parse(line)
    places = memory_rows.places(parsed.data) if parsed else []
    path, _, lines = places[0] if places else ("", "", "")
    text = f"{name} ({scope}) looks like it holds a secret{what}"
    item = {"id": id or None, "paths": [{"path": path, "lines": lines.partition("@")[0]}]}
    return _finding(SECRET, text, item, version=version)


def _of_active(store: Store, cache: Cache, asked: Set[str]) -> Iterator[Object]:
    """What is said about active memories: that two contradict each other, or who vouches."""
    if CONTRADICTION in asked:
        against = contradictions.all_of(cache)
        items = _by_id(store, cache, against.keys())
        pairs = {(a, b) for a in items for b in against.get(a, ()) if a < b and b in items}
        for one, other in sorted(pairs):
            text = f"{_named(items[one])} contradicts {_named(items[other])}"
            yield _finding(CONTRADICTION, text, items[one], against=other)
    if UNSIGNED in asked and store.trust.strict:
        failed = [item for item in verify.verify(store, []) if item["id"] and verify.failed(item)]
        items = _by_id(store, cache, {item["id"] for item in failed})
        for item in failed:
            shown = items.get(item["id"], {**item, "type": item["op"], "paths": []})
            below = f"signature {item['state']}, below mem.trust={store.trust.policy}"
            yield _finding(UNSIGNED, f"{_named(shown)}: {below}", shown, version=item["version"])


def _by_id(store: Store, cache: Cache, ids: Set[str]) -> dict[str, Object]:
    return {m["id"]: m for m in view.objects(store, cache, view.active(cache, "id", ids))}


# Which memories are stale


def stale(store: Store, since: str = "") -> Object:
    """What the JSON object of `git mem check` says of stale memories; `complete`: whether all notes
    could be read.

    Raises MemError where there is no such revision.
    """
    head = store.repo.head()
    before = snapshot_view.commit_of(store, since) if since else ""

    def read(cache: Cache) -> Object:
        sql = (
            "SELECT row FROM memory WHERE status = 0 AND row IN"
            " (SELECT row FROM label WHERE kind = 'path')"
        )
        rows = [row for (row,) in cache.db.execute(sql)]
        places: list[Place] = []
        for row, (data, _, _) in zip(rows, memory_rows.load(cache, rows), strict=True):
            anchor = memory_rows.commit_of(data)
            places += [(row, (anchor, *place)) for place in memory_rows.places(data)]
        by_row = path_state.of_rows(store.repo, cache, rows, head, PATIENCE)
        states = [state for row in rows for state in by_row[row]]
        stands = anchor_state.states(store.repo, cache, _anchors(places), head, PATIENCE)
        found = _judged(places, states, stands)
        if before:
            changed = [noted for _, noted in found[STALE]]
            states = path_state.states(store.repo, cache, changed, before, PATIENCE)
            anchors = _anchors(found[STALE])
            stood = anchor_state.states(store.repo, cache, anchors, before, PATIENCE)
            was = _judged(found[STALE], states, stood)
            found[_UNKNOWN] += was[_UNKNOWN]
            found[STALE] = was[_FINE]
        shown: dict[str, list[Object]] = {}
        told: set[int] = set()
        for kind in (STALE, _UNKNOWN, _NEVER):
            new = {row for row, _ in found[kind]} - told
            told |= new
            chosen = view.active(cache, "row", new)
            shown[kind] = view.objects(store, cache, chosen, stands=stands)
        return {
            "since": {"name": since, "commit": before} if since else None,
            "head": head or None,
            "checked": len(rows),
            "shallow": anchor_state.shallow(store.repo),
            "stale": shown[STALE],
            "unknown": shown[_UNKNOWN],
            "not_compared": shown[_NEVER],
        }

    found, fresh = store.with_cache(read)
    return {**found, "complete": fresh and not any(notes.missing for _, notes in store.sources)}


def _anchors(places: list[Place]) -> set[str]:
    return {anchor for _, (anchor, *_) in places}


def _judged(
    places: list[Place], states: list[path_state.PathState], stands: dict[str, AnchorState]
) -> dict[str, list[Place]]:
    """{STALE, _UNKNOWN, _NEVER or _FINE: the places that are so}. A place is fine where the memory
    is not about this history.
    """
    out: dict[str, list[Place]] = {STALE: [], _UNKNOWN: [], _NEVER: [], _FINE: []}
    nowhere = AnchorState(anchor_state.REACHABLE, "")
    for place, state in zip(places, states, strict=True):
        stand, kind = stands.get(place[1][0], nowhere), _FINE
        if stand.state == anchor_state.UNMERGED:
            kind = _FINE
        elif state.state in path_state.STALE:
            unsure = stand.state == anchor_state.UNKNOWN and stand.reason not in _HARMLESS
            kind = _UNKNOWN if unsure else STALE
        elif state.state == path_state.UNKNOWN and state.reason not in _HARMLESS:
            kind = _UNKNOWN
        elif state.reason == path_state.NO_NAME:
            kind = _NEVER
        out[kind].append(place)
    return out
