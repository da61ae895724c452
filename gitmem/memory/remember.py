"""Storing memories: check, anchor, skip what is known, append in one commit.

Promise: every text passes the size and secret checks before it reaches git;
one bad draft never stops the others; a `source` or text that is known adds
nothing. What is answered as stored is in the notes ref.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..anchors import patch_id, records_at
from ..core import fold, record, record_content, record_fields, redact
from ..core.errors import MemError, Refused
from ..engine import index
from ..engine.cache import Cache
from ..engine.document import Ahead, content_digest, scope_name
from ..store import Store
from . import pathnotes, write_gate

STORED, DUPLICATE, REFUSED = "stored", "duplicate", "refused"

FIELDS = record_fields.DRAFT | {"commit", "created_at", "scope"}


class Result:
    """What became of one draft. `id` is "" where it was refused; `reason` is why, or what of a
    stored one was left out; `usage`: for words that make no sense, not for what they say."""

    __slots__ = ("hint", "id", "reason", "scope", "status", "title", "usage")

    def __init__(
        self,
        status: str,
        id: str = "",
        reason: str = "",
        title: str = "",
        scope: str = "",
        hint: str = "",
        usage: bool = False,
    ) -> None:
        self.hint = hint
        self.usage = usage
        self.status = status
        self.id = id
        self.reason = reason
        self.title = title
        self.scope = scope


class _Ready:
    """A checked draft on its way into the notes."""

    __slots__ = ("anchor", "at", "digest", "extra", "fields", "note", "place", "scope")

    def __init__(
        self, place: int, fields: dict[str, Any], anchor: str, at: str, scope: str, note: str
    ) -> None:
        self.note = note
        self.place = place
        self.fields = fields
        self.anchor = anchor
        self.at = at
        self.scope = scope
        self.digest = content_digest(fields.get("title", ""), fields["body"])
        self.extra: dict[str, Any] = {}


class Known:
    """What is stored already, by source and by text; grows with what one run of several calls adds.

    The cache is brought up to date once, at the first look, not between calls.
    """

    def __init__(self, store: Store, *, single: bool = False) -> None:
        self._store = store
        self._most = index.ON_THE_SPOT if single else None
        self._fresh = False
        self.ahead = Ahead(store.table)
        self.sources: dict[str, tuple[str, str]] = {}  # (id, scope)
        self.digests: dict[bytes, tuple[str, str]] = {}
        self.purged: set[str] = set()  # ids that no clone may hold again

    def look_up(self, ready: list[_Ready]) -> None:
        """Fetches what the cache knows of these drafts; forgotten memories count for sources, not
        for texts (saying it again revives it).
        """
        sources = sorted({r.fields["source"] for r in ready if r.fields.get("source")})
        digests = sorted({r.digest for r in ready if not r.fields.get("source")})

        def read(
            cache: Cache,
        ) -> tuple[dict[str, tuple[str, str]], dict[bytes, tuple[str, str]], set[str]]:
            tombstones = [
                r
                for (raw,) in cache.db.execute("SELECT raw FROM line WHERE op = 'purge'")
                if (r := record.parse(raw))
            ]
            return (
                _select(cache, "SELECT source, id, scope FROM memory WHERE source IN", sources),
                _select(
                    cache,
                    "SELECT digest, id, scope FROM memory WHERE status = 0 AND row NOT IN (SELECT"
                    " row FROM reinstated) AND digest IN",
                    digests,
                ),
                fold.purged(tombstones)[0],
            )

        (by_source, by_digest, self.purged), _ = self._store.with_cache(
            read, most=self._most, refresh=not self._fresh
        )
        self._fresh = True
        self.sources = {**by_source, **self.sources}
        self.digests = {**by_digest, **self.digests}


def _select(cache: Cache, sql: str, wanted: list[Any]) -> dict[Any, tuple[str, str]]:
    out: dict[Any, tuple[str, str]] = {}
    for i in range(0, len(wanted), 500):
        part = wanted[i : i + 500]
        out.update(
            {
                key: (id, scope_name(bits))
                for key, id, bits in cache.db.execute(f"{sql} ({','.join('?' * len(part))})", part)
            }
        )
    return out


def remember(
    store: Store,
    drafts: Iterable[dict[str, Any]],
    *,
    allow_secret: bool = False,
    known: Known | None = None,
    sign: bool = True,
) -> list[Result]:
    """Stores drafts (the keys of FIELDS; `scope` defaults to the setting) in one commit; one result
    each, in order.

    `known`: one object for several calls in a row, whose `ahead` the caller hands to the cache or
    cancels. `sign` false: a worker, which can ask nobody for a passphrase. Raises only for what
    concerns all drafts: no repository, the ref cannot be written."""
    results: list[Result | None] = []
    ready: list[_Ready] = []
    commits: dict[str, str | None] = {}
    for draft in drafts:
        results.append(None)
        try:
            ready.append(_check(store, draft, len(results) - 1, allow_secret, commits))
        except MemError as e:
            results[-1] = Result(REFUSED, reason=e.message, hint=e.hint)
    if ready:
        ready = _drop_known(ready, results, known or Known(store, single=len(ready) == 1))
    if ready:
        ready = _anchor_facts(store, ready, results)
    if ready:
        _append(store, ready, results, known.ahead if known else None, sign)
    return [r for r in results if r is not None]


def _check(
    store: Store,
    draft: dict[str, Any],
    place: int,
    allow_secret: bool,
    commits: dict[str, str | None],
) -> _Ready:
    given = {**draft, "author": draft.get("author") or store.settings.author}
    draft = write_gate.admit(store, given, allow_secret)
    unknown = set(draft) - FIELDS
    if unknown:
        raise Refused(f"unknown field '{min(unknown)}'")
    record_content.refuse_no_text(draft)
    fields = record_content.checked(draft, store.settings.number("maxBody"))
    write_gate.stored(store, draft, fields, allow_secret)
    scope = draft.get("scope") or store.settings["scope"]
    if scope not in ("team", "private"):
        raise Refused("'scope' is neither team nor private")
    wanted = draft.get("commit") or "HEAD"
    if not isinstance(wanted, str):
        raise Refused("'commit' is not a text")
    if wanted not in commits:
        commits[wanted] = store.repo.commit(wanted)
    anchor = commits[wanted]
    if anchor is None:
        if wanted != "HEAD":
            raise Refused(
                f"no commit '{wanted[:80]}' in this repository", hint=records_at.hint(store.repo)
            )
        anchor = ""  # no commit yet
    created = draft.get("created_at")
    if created is not None and not isinstance(created, str):
        raise Refused("'created_at' is not a text")
    if anchor and wanted == "HEAD" and "branch" not in draft:
        if "branch" not in commits:
            commits["branch"] = branch_to_note(store)
        if commits["branch"]:
            fields["branch"] = commits["branch"]
    at = record.timestamp(created) if created else ""
    return _Ready(place, fields, anchor, at, scope, write_gate.LEFT_OUT if draft != given else "")


def _drop_known(ready: list[_Ready], results: list[Result | None], known: Known) -> list[_Ready]:
    """Answers the drafts whose source or text is there already, also within this call; gives the
    others their ids.
    """
    known.look_up(ready)
    left: list[_Ready] = []
    for r in ready:
        source = r.fields.get("source")
        found = known.sources.get(source) if source else known.digests.get(r.digest)
        if found:
            reason = "this source is known" if source else "the same text is known"
            results[r.place] = Result(
                DUPLICATE, found[0], reason, record.title_of(r.fields), found[1]
            )
            continue
        id = record.identify(r.fields)["id"]
        if id in known.purged:  # a line of it would be gone again with the next sync
            results[r.place] = Result(
                REFUSED, reason="this memory was purged", hint="other words make another memory"
            )
            continue
        left.append(r)
        if source:
            known.sources[source] = (id, r.scope)
        known.digests[r.digest] = (id, r.scope)
    return left


def _anchor_facts(store: Store, ready: list[_Ready], results: list[Result | None]) -> list[_Ready]:
    """Adds blob ids of the paths as they are at the anchor, and the patch-ids of a few anchors;
    answers and leaves out drafts with lines that are not there.
    """
    noted = [(r, p) for r in ready for p in r.fields.get("paths", ())]
    for (r, _), wrong in zip(
        noted, pathnotes.note(store.repo, [(r.anchor, p) for r, p in noted]), strict=True
    ):
        if wrong:
            results[r.place] = Result(
                REFUSED,
                reason=wrong,
                hint=(
                    "lines are FILE:10 or FILE:10-20, counted at the commit that the memory is"
                    " about"
                ),
                usage=True,
            )
    ready = [r for r in ready if results[r.place] is None]
    anchors = {r.anchor for r in ready if r.anchor}
    if len(anchors) <= patch_id.MANY:
        facts = {anchor: patch_id.of_commit(store.repo, anchor) for anchor in anchors}
        for r in ready:
            r.extra = facts.get(r.anchor, {})
    return ready


def branch_to_note(store: Store) -> str:
    """The branch as a record names it; "" for none, or for a name that looks like it holds a
    secret.
    """
    branch = store.repo.branch()[: record.MAX_WORD * 5]
    return "" if store.settings["secrets"] == "refuse" and redact.holds(branch) else branch


def _append(
    store: Store, ready: list[_Ready], results: list[Result | None], ahead: Ahead | None, sign: bool
) -> None:
    items: dict[str, list[tuple[str, bytes]]] = {"team": [], "private": []}
    made = [
        record.envelope("create", r.fields, r.at, {"commit": r.anchor, **r.extra}) for r in ready
    ]
    lines = store.lines(made) if sign else [record.dump(data) for data in made]
    for r, data, line in zip(ready, made, lines, strict=True):
        items[r.scope].append((r.anchor, line))
        results[r.place] = Result(STORED, data["id"], r.note, record.title_of(data), r.scope)
    if ahead:
        ahead.begin(
            [(record.version_of(line), data) for line, data in zip(lines, made, strict=True)]
        )
    for scope, batch in items.items():
        if batch:
            store.append(
                scope,
                batch,
                f"git mem: remember {len(batch)} {'memory' if len(batch) == 1 else 'memories'}",
            )


def session_facts(environ: Mapping[str, str]) -> dict[str, str]:
    """Which agent is speaking, where the environment says so."""
    if environ.get("CLAUDECODE"):
        return {
            k: v
            for k, v in (
                ("agent", "claude"),
                ("session", environ.get("CLAUDE_CODE_SESSION_ID", "")),
            )
            if v
        }
    return {}
