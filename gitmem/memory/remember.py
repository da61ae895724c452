"""Storing memories: check, anchor, skip what is known, append in one commit.

Promise: every text passes the size and secret checks before it reaches git; one bad draft never
stops the others; a known `source` or text adds nothing. What is answered as stored is in the notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from time import monotonic
from typing import Any, NamedTuple

from ..anchors import anchor_state, patch_id
from ..core import fold, record, record_fields, redact
from ..core.errors import MemError, Refused
from ..engine import index
from ..engine.ahead import Ahead
from ..engine.cache import Cache
from ..engine.document import content_digest, scope_name
from ..engine.sql import select_in
from ..store import Store
from . import pathnotes, write_gate

STORED, DUPLICATE, REFUSED = "stored", "duplicate", "refused"
OTHER_TEXT = "this source is known, with another text"
_EDITED = "this memory was edited since"

FIELDS = record_fields.DRAFT | {"commit", "created_at", "scope"}


class Result(NamedTuple):
    status: str
    id: str = ""  # "" where it was refused
    reason: str = ""  # why it was refused, or what of a stored one was left out
    title: str = ""
    scope: str = ""
    hint: str = ""
    usage: bool = False  # refused for words that make no sense, not for what they say


class _Ready(NamedTuple):
    place: int
    fields: dict[str, Any]
    anchor: str
    at: str
    scope: str
    note: str  # what was left out of it
    digest: bytes


_Line = tuple[str, str, bytes]  # (scope, anchor, line)


class Known:
    """What is stored already, by source and by text; grows with what several calls add."""

    def __init__(self, store: Store, *, single: bool = False) -> None:
        self._store = store
        self._most = index.ON_THE_SPOT if single else None
        self._fresh = False
        self.ahead = Ahead(store.table)
        self.sources: dict[str, tuple[str, str]] = {}  # (id, scope)
        self.digests: dict[bytes, tuple[str, str]] = {}
        self.ids: dict[str, tuple[str, str]] = {}
        self.texts: set[tuple[str, bytes]] = set()  # (source, digest)
        self.commits: set[str] = set()  # full ids of some that are here
        self.purged: set[str] = set()  # ids that no clone may hold again

    def look_up(self, sources: set[str], digests: set[bytes], ids: Iterable[str] = ()) -> None:
        """Fetches what the cache knows of these. Forgotten texts count as new, sources do not."""
        by_source = "SELECT source, id, scope, digest FROM memory WHERE source IN {}"
        active = "FROM memory WHERE status = 0 AND row NOT IN (SELECT row FROM reinstated) AND"
        by_digest = f"SELECT digest, id, scope, digest {active} digest IN {{}}"
        by_id = f"SELECT id, id, scope, digest {active} id IN {{}}"

        def read(cache: Cache) -> None:
            for known, sql, keys in (
                (self.sources, by_source, sources - self.sources.keys()),
                (self.digests, by_digest, digests - self.digests.keys()),
                (self.ids, by_id, ids),
            ):
                for key, id, bits, digest in select_in(cache.db, sql, sorted(keys)):
                    known[key] = (id, scope_name(bits))
                    self.texts.add((key, digest))
            lines = cache.db.execute("SELECT raw FROM line WHERE op = 'purge'")
            self.purged = fold.purged([r for (raw,) in lines if (r := record.parse(raw))])[0]

        self._store.with_cache(read, most=self._most, refresh=not self._fresh)
        self._fresh = True


def remember(
    store: Store,
    drafts: Iterable[dict[str, Any]],
    *,
    allow_secret: bool = False,
    sign: bool = True,
) -> list[Result]:
    """Stores drafts (the keys of FIELDS; `scope` defaults to the setting) in one commit; one result
    each, in order. Raises only for what concerns all drafts.

    `sign` false: a worker, which can ask nobody for a passphrase.
    """
    results, lines = _prepare(store, list(drafts), None, allow_secret, sign, dry=False)
    _append(store, lines)
    return results


_PORTION = 1_000  # drafts checked before the second process gets them
_BLOCK = 10_000  # drafts a commit: bounds memory
_LATEST = 2.0  # seconds of work that a crash or Ctrl-C may lose


def remember_many(
    store: Store,
    items: Iterable[dict[str, Any] | str],
    *,
    total: int | None = None,
    allow_secret: bool = False,
    dry: bool = False,
) -> Iterator[Result]:
    """Stores drafts in commits of about two seconds of work each; a result each, in order, once it
    is in the notes. A string in the place of a draft says why it is none. `total`: how many there
    are, where that is known. `dry`: nothing is written, the results are those of a call that would.
    """
    known, size, rest = Known(store), _PORTION, iter(items)
    store.expected = total
    try:
        with store.progress("remembering", total) as advance:
            results: list[Result] = []
            lines: list[_Line] = []
            since = -_LATEST  # the first portion is stored at once: the input may pause
            while portion := list(islice(rest, size)):
                start = monotonic()
                drafts = [item for item in portion if not isinstance(item, str)]
                found, more = _prepare(store, drafts, known, allow_secret, True, dry)
                lines += more
                of_draft = iter(found)
                results += [
                    Result(REFUSED, reason=item) if isinstance(item, str) else next(of_draft)
                    for item in portion
                ]
                advance(len(portion))
                # Fewer where a program signs them one by one.
                size = max(1, min(_PORTION, int(size * _LATEST / (monotonic() - start))))
                if len(results) >= _BLOCK or monotonic() - since > _LATEST:
                    _append(store, lines)
                    yield from results
                    results, lines, since = [], [], monotonic()
            _append(store, lines)
            yield from results
        store.with_cache(lambda cache: None, ahead=known.ahead)
    finally:
        known.ahead.close()


def _prepare(
    store: Store,
    drafts: list[dict[str, Any]],
    known: Known | None,
    allow_secret: bool,
    sign: bool,
    dry: bool,
) -> tuple[list[Result], list[_Line]]:
    """A result each, and the lines to append; `known` begins on what the cache wants of them."""
    results: list[Result | None] = [None] * len(drafts)
    ready: list[_Ready] = []
    commits = known.commits if known else set()
    named = {str(draft.get("commit")) for draft in drafts}
    commits |= store.repo.commits(named - commits)  # one at a time they take twice as long

    @cache
    def anchor_of(revision: str) -> tuple[str, str]:
        """(the commit, the branch to note); "" for none."""
        commit = revision if revision in commits else store.repo.commit(revision) or ""
        if commit == revision:  # a full id: it names the same in the next call
            commits.add(commit)
        return commit, branch_to_note(store) if commit and revision == "HEAD" else ""

    for place, draft in enumerate(drafts):
        try:
            ready.append(_check(store, draft, place, allow_secret, anchor_of))
        except MemError as e:
            results[place] = Result(REFUSED, reason=e.message, hint=e.hint)
    if ready:
        ready = _drop_known(ready, results, known or Known(store, single=len(ready) == 1))
    if ready:
        ready = _anchor_facts(store, ready, results)
    for r in ready:
        id = "" if dry else r.fields["id"]
        results[r.place] = Result(STORED, id, r.note, record.title_of(r.fields), r.scope)
    if dry:
        ready = []
    made = [record.envelope("create", r.fields, r.at, {"commit": r.anchor}) for r in ready]
    lines = store.lines(made) if sign and made else [record.dump(data) for data in made]
    if known:
        known.ahead.add([(record.version_of(line), d) for line, d in zip(lines, made, strict=True)])
    placed = [(r.scope, r.anchor, line) for r, line in zip(ready, lines, strict=True)]
    return [r for r in results if r is not None], placed


def _check(
    store: Store,
    draft: dict[str, Any],
    place: int,
    allow_secret: bool,
    anchor_of: Callable[[str], tuple[str, str]],
) -> _Ready:
    given = {**draft, "author": _given(draft, "author", store.settings.author)}
    draft = write_gate.admit(store, given, allow_secret)
    if unknown := set(draft) - FIELDS:
        raise Refused(f"unknown field '{min(unknown)}'")
    fields = write_gate.checked(store, draft, draft, allow_secret)
    scope = _given(draft, "scope", store.settings["scope"])
    if scope not in ("team", "private"):
        raise Refused("'scope' is neither team nor private")
    wanted, created = _given(draft, "commit", "HEAD"), draft.get("created_at")
    for name, value in (("commit", wanted), ("created_at", created)):
        if value is not None and not isinstance(value, str):
            raise Refused(f"'{name}' is not a text")
    anchor, branch = anchor_of(wanted)
    if not anchor and wanted != "HEAD":
        hint = anchor_state.hint(store.repo)
        raise Refused(f"no commit '{wanted[:80]}' in this repository", hint=hint)
    if branch and "branch" not in draft:
        fields["branch"] = branch
    at = record.timestamp(created) if created else ""
    note = write_gate.LEFT_OUT if draft != given else ""
    digest = content_digest(fields.get("title", ""), fields["body"])
    return _Ready(place, fields, anchor, at, scope, note, digest)


def _given(draft: dict[str, Any], name: str, default: str) -> Any:
    value = draft.get(name)
    return default if value is None or value == "" else value


def _drop_known(ready: list[_Ready], results: list[Result | None], known: Known) -> list[_Ready]:
    """Answers the drafts whose source or text is known, also from this call; ids for the others."""
    sources = {r.fields["source"] for r in ready if r.fields.get("source")}
    plain = [r for r in ready if not r.fields.get("source")]
    for r in ready:
        record.identify(r.fields)
    ids = {r.fields["id"] for r in plain if "salt" not in r.fields}
    known.look_up(sources, {r.digest for r in plain}, ids)
    left: list[_Ready] = []
    for r in ready:
        source, id = r.fields.get("source"), r.fields["id"]
        found = known.sources.get(source) if source else known.digests.get(r.digest)
        reason = "this source is known" if source else "the same text is known"
        if source and (source, r.digest) not in known.texts:
            reason = OTHER_TEXT
        if not found and (found := known.ids.get(id)):
            reason = _EDITED  # a second `create` would stand beside the text it has now
        if found:
            title = record.title_of(r.fields)
            results[r.place] = Result(DUPLICATE, found[0], reason, title, found[1])
            continue
        if id in known.purged:  # a line of it would be gone again with the next sync
            hint = "other words make another memory"
            results[r.place] = Result(REFUSED, reason="this memory was purged", hint=hint)
            continue
        left.append(r)
        if source:
            known.sources[source] = (id, r.scope)
            known.texts.add((source, r.digest))
        known.digests[r.digest] = (id, r.scope)
    return left


def _anchor_facts(store: Store, ready: list[_Ready], results: list[Result | None]) -> list[_Ready]:
    """Adds blob ids of paths and patch-ids of anchors; refuses drafts with lines not there."""
    noted = [(r, path) for r in ready for path in r.fields.get("paths", ())]
    problems = pathnotes.note(store.repo, [(r.anchor, path) for r, path in noted])
    hint = "lines are FILE:10 or FILE:10-20, counted at the commit that the memory is about"
    for (r, _), problem in zip(noted, problems, strict=True):
        if problem:
            results[r.place] = Result(REFUSED, reason=problem, hint=hint, usage=True)
    ready = [r for r in ready if results[r.place] is None]
    anchors = {r.anchor for r in ready if r.anchor}
    if len(anchors) <= patch_id.MANY:
        facts, _ = store.with_cache(
            lambda cache: patch_id.fields(store.repo, cache, anchors), refresh=False
        )
        for r in ready:
            r.fields.update(facts.get(r.anchor, {}))
    return ready


def branch_to_note(store: Store) -> str:
    """The branch as a record names it; "" for none, or if it looks like it holds a secret."""
    branch = store.repo.branch()[: record.MAX_WORD * 5]
    return "" if store.settings["secrets"] == "refuse" and redact.holds(branch) else branch


def _append(store: Store, lines: list[_Line]) -> None:
    for scope in ("team", "private"):
        batch = [(anchor, line) for one, anchor, line in lines if one == scope]
        if batch:
            noun = "memory" if len(batch) == 1 else "memories"
            store.append(scope, batch, f"git mem: remember {len(batch)} {noun}")


def session_facts(environ: Mapping[str, str]) -> dict[str, str]:
    """Which agent is speaking, where the environment says so."""
    session = environ.get("CLAUDE_CODE_SESSION_ID", "")
    facts = {"agent": "claude", **({"session": session} if session else {})}
    return facts if environ.get("CLAUDECODE") else {}
