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
from ..engine import contradictions, filters, memory_rows
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

PATIENCE = 60.0  # seconds git may look for renames
# Unknown, and no wonder: nobody ever knew what was there, there is no history, or the memory is not
# about this one as far as anybody knows.
_HARMLESS = (path_state.NO_BLOB, path_state.NO_NAME, anchor_state.UNBORN, anchor_state.ABSENT)
Places = list[tuple[int, path_state.Noted]]  # rows of memories, and paths as they noted them
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
        items = _objects(store, cache, set(against))
        pairs = {(a, b) for a in items for b in against.get(a, ()) if a < b and b in items}
        for one, other in sorted(pairs):
            text = f"{_named(items[one])} contradicts {_named(items[other])}"
            yield _finding(CONTRADICTION, text, items[one], against=other)
    if UNSIGNED in asked and store.trust.strict:
        failed = [item for item in verify.verify(store, []) if item["id"] and verify.failed(item)]
        items = _objects(store, cache, {item["id"] for item in failed})
        for item in failed:
            shown = items.get(item["id"], {**item, "type": item["op"], "paths": []})
            below = f"signature {item['state']}, below mem.trust={store.trust.policy}"
            yield _finding(UNSIGNED, f"{_named(shown)}: {below}", shown, version=item["version"])


def _objects(store: Store, cache: Cache, ids: Iterable[str]) -> dict[str, Object]:
    """{id: public object} of active memories, newest first."""
    sql = "SELECT row FROM memory WHERE status = 0 AND id IN {} ORDER BY row DESC"
    rows = memory_rows.firsts(cache, [row for (row,) in cache.among(sql, ids)])
    return {item["id"]: item for item in view.objects(store, cache, rows)}


# Which memories are stale


def stale(store: Store, since: str = "") -> Object:
    """What the JSON object of `git mem check` says of stale memories; `complete`: whether all notes
    could be read.

    Raises MemError where there is no such revision.
    """
    repo = store.repo
    head = repo.head()
    before = snapshot_view.commit_of(store, since) if since else ""

    def read(cache: Cache) -> Object:
        rows = _rows(cache)
        found = path_state.of_rows(store.repo, cache, rows, head, PATIENCE)
        places: Places = []
        for row, (data, _, _) in zip(rows, memory_rows.load(cache, rows), strict=True):
            anchor = memory_rows.commit_of(data)
            places += [(row, (anchor, *place)) for place in memory_rows.places(data)]
        states = [state for row in rows for state in found[row]]
        anchors = {asked[0] for _, asked in places}
        stands = anchor_state.states(repo, cache, anchors, head, PATIENCE)
        stale: Places = []
        unknown: set[int] = set()
        never: set[int] = set()
        for (row, asked), state in zip(places, states, strict=True):
            stand = stands.get(asked[0])
            if stand and stand.state == anchor_state.UNMERGED:
                continue
            if state.state == path_state.UNKNOWN:
                unknown.update({row} if state.reason not in _HARMLESS else ())
                never.update({row} if state.reason == path_state.NO_NAME else ())
            elif state.state in path_state.STALE and _doubtful(stand):
                unknown.add(row)
            elif state.state in path_state.STALE:
                stale.append((row, asked))
        shown = {row for row, _ in stale}
        if before:
            shown, unsure = _since(store, cache, stale, before)
            unknown |= unsure
        unknown -= shown
        return {
            "since": {"name": since, "commit": before} if since else None,
            "head": head or None,
            "checked": len(rows),
            "shallow": anchor_state.shallow(repo),
            "stale": _sorted_objects(store, cache, shown, stands),
            "unknown": _sorted_objects(store, cache, unknown, stands),
            "not_compared": _sorted_objects(store, cache, never - shown - unknown, stands),
        }

    found, fresh = store.with_cache(read)
    return {**found, "complete": fresh and not any(notes.missing for _, notes in store.sources)}


def _doubtful(stand: AnchorState | None) -> bool:
    return bool(stand and stand.state == anchor_state.UNKNOWN and stand.reason not in _HARMLESS)


def _rows(cache: Cache) -> list[int]:
    sql = (
        "SELECT row FROM memory WHERE status = 0 AND row IN"
        " (SELECT row FROM label WHERE kind = 'path') ORDER BY row"
    )
    return [row for (row,) in cache.db.execute(sql)]


def _since(store: Store, cache: Cache, stale: Places, before: str) -> tuple[set[int], set[int]]:
    """(rows that were not stale or not there at a revision, rows of which nobody can tell)."""
    anchors = {asked[0] for _, asked in stale if asked[0]}
    stands = anchor_state.states(store.repo, cache, anchors, before, PATIENCE)
    states = path_state.states(store.repo, cache, [asked for _, asked in stale], before, PATIENCE)
    became: set[int] = set()
    unsure: set[int] = set()
    for (row, asked), state in zip(stale, states, strict=True):
        stand = stands.get(asked[0])
        if stand and stand.state not in snapshot_view.INSIDE and not _doubtful(stand):
            became.add(row)
        elif state.state == path_state.UNKNOWN:
            unsure.add(row)
        elif state.state not in path_state.STALE:
            became.add(row)
        elif _doubtful(stand):
            unsure.add(row)
    return became, unsure - became


def _sorted_objects(
    store: Store, cache: Cache, rows: set[int], stands: dict[str, AnchorState]
) -> list[Object]:
    latest = filters.latest(cache)
    items = view.objects(store, cache, sorted(rows), stands=stands)
    return sorted(
        items, key=lambda m: (record.when(m["created_at"], latest), m["id"]), reverse=True
    )
