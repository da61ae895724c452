"""A person's decision about a suggestion: accept, edit, reject, merge. `calibrate` learns from it.

Promises. Accepting stores the text through `remember`, which checks size, secrets, duplicates and
tombstones. An accepted memory says VERIFIED and has the person's name; it is private unless they
share it. The memory is in the notes before the verdict is written, so a crash in between leaves a
suggestion that waits, and accepting it again finds its memory. The memory has the id of its
suggestion, also if it was edited: `git mem purge` takes both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from ..core import record
from ..core.errors import MemError, Refused
from ..core.record_fields import ENTRIES, FIELDS, LINE, LIST, SET, WORD
from ..engine import memory_rows
from ..engine.filters import Filter
from ..memory import memories, recall, remember, review_records, similarity, write_gate
from ..memory.memories import SHORTEST
from ..memory.review_records import ACCEPTED, MERGED, REJECTED, WAITING
from ..store import Store
from . import suggestions
from .suggestions import Suggestion

SURE = 0.98  # confidence of what a person accepted


class Outcome(NamedTuple):
    """What became of one suggestion.

    `known`: the text was a memory before. `replaced`: ids of memories whose place it took.
    """

    suggestion: Suggestion
    status: str
    title: str
    scope: str = ""
    known: bool = False
    replaced: Sequence[str] = ()


def find(store: Store, prefix: str) -> Suggestion:
    """The suggestion an id prefix names. Raises MemError for none or several."""
    # One, not all: whoever decides about many of thousands would have them read each time.
    found = store.with_cache(lambda cache: suggestions.stored(cache, prefix))[0]
    if suggestion := review_records.find(found.values(), prefix):
        return suggestion
    hint = f"`git mem review --list` shows them; {SHORTEST} digits are the least"
    raise MemError(f"no suggestion '{prefix.strip()[:40]}'", hint=hint)


def accept(
    store: Store,
    suggestion: Suggestion,
    changes: dict[str, Any] | None = None,
    *,
    scope: str = "private",
    allow_secret: bool = False,
) -> Outcome:
    """Makes a memory of it, with `changes` (body, title, type, tags) if there are any.

    Raises MemError where it cannot be stored; then nothing is decided.
    """
    changes = write_gate.admit(store, changes or {}, allow_secret)
    # A rejected one may be accepted after all.
    review_records.check_undecided(suggestion, "suggestion", (WAITING, REJECTED))
    body = changes.get("body")
    if body is not None and not str(body).strip():
        raise Refused("the memory has no text", hint="rejecting a suggestion takes it off the list")
    id, title, scope, known, replaced = _store(store, suggestion, scope, allow_secret)
    if changes and known:
        raise Refused(
            f"memory '{id[:8]}' says that already",
            hint=f"`git mem review --merge {suggestion.id[:8]} {id[:8]} -m TEXT` changes that one",
        )
    if changes:
        if body not in (None, suggestion.body):
            changes.setdefault("title", "")  # one that was made for the old text goes with it
        title = _edited(store, id, changes, allow_secret) or title
    suggestions.decide(store, [(suggestion, ACCEPTED, id)])
    return Outcome(suggestion, ACCEPTED, title, scope, known, replaced)


def accept_new(
    store: Store, many: Iterable[Suggestion], *, scope: str = "private", allow_secret: bool = False
) -> list[Outcome]:
    """Accepts those that only have to be stored, with one commit for all. The others are left to
    `accept`, which says why one is refused.
    """
    texts, new = remember.Known(store), []
    for suggestion in many:
        own = suggestions.digests(suggestion)
        texts.look_up(set(), {*own})
        waits = suggestion.state == WAITING and not _replaceable(store, suggestion)
        if waits and texts.digests.keys().isdisjoint(own):
            new.append(suggestion)
        # Of one that is left, too: what has the same text waits for it.
        texts.digests.update(dict.fromkeys(own, (suggestion.id, scope)))
    drafts = [{**_dated(store, s, _fields(s)), "scope": scope} for s in new]
    results = remember.remember(store, drafts, allow_secret=allow_secret)
    both = zip(new, results, strict=True)
    stored = [(s, r.title) for s, r in both if (r.status, r.id) == (remember.STORED, s.id)]
    suggestions.decide(store, [(s, ACCEPTED, s.id) for s, _ in stored])
    return [Outcome(s, ACCEPTED, title, scope) for s, title in stored]


def _fields(suggestion: Suggestion) -> dict[str, Any]:
    """The memory to make of it. Whatever shapes another tool's line has, a person's word makes a
    sound memory of it.
    """
    fields: dict[str, Any] = {
        f.name: suggestion.words(f.name) if f.kind in ENTRIES else suggestion.text(f.name)
        for f in FIELDS
        if f.draft and f.kind in (LINE, WORD, SET, LIST) and f.name not in ("author", "branch")
    }
    fields.update(body=suggestion.body, paths=suggestion.paths)
    fields.update(provenance="VERIFIED", confidence=SURE)
    return fields


def _dated(store: Store, suggestion: Suggestion, fields: dict[str, Any]) -> dict[str, Any]:
    """The same at the commit, and of the time, at which it was said."""
    head = record.object_id(suggestion.data.get("head"))
    if head and store.repo.commit(head):
        fields["commit"] = head
    with suppress(Refused):
        fields["created_at"] = record.timestamp(suggestion.text("at"))
    return fields


def _store(
    store: Store, suggestion: Suggestion, scope: str, allow_secret: bool
) -> tuple[str, str, str, bool, list[str]]:
    """(id, title, scope, whether it was known, ids replaced) of the memory with its own text."""
    fields, older = _fields(suggestion), _replaceable(store, suggestion)[:1]
    sql = "SELECT id FROM memory WHERE id = ?"
    if older and not store.with_cache(lambda c: c.db.execute(sql, (suggestion.id,)).fetchone())[0]:
        id = memories.supersede(store, older[0], fields, scope=scope, allow_secret=allow_secret)
        return id, suggestion.title, scope, False, older
    digests = suggestions.digests(suggestion)
    texts = remember.Known(store, single=True)
    texts.look_up(set(), {*digests})
    for same in filter(None, map(texts.digests.get, digests)):
        if same[0] != suggestion.id:  # remembered since: it has no source, or another one
            return same[0], suggestion.title, same[1], True, []
    draft = {**_dated(store, suggestion, fields), "scope": scope}
    result = remember.remember(store, [draft], allow_secret=allow_secret)[0]
    if result.status == remember.REFUSED:
        raise Refused(result.reason, hint=result.hint)
    known = result.status == remember.DUPLICATE and result.id != suggestion.id
    return result.id, result.title or suggestion.title, result.scope, known, []


def _edited(store: Store, id: str, changes: dict[str, Any], allow_secret: bool) -> str:
    """The title after an edit; "" where the memory says it already."""
    try:
        after = memories.edit(store, id, changes, allow_secret=allow_secret)
    except MemError as e:
        if e.message != "nothing to change":
            raise
        return ""
    return record.title_of(after.record.data)


def _replaceable(store: Store, suggestion: Suggestion) -> list[str]:
    """Of the memories whose place it would take, those that are still active."""
    out = []
    for id in suggestion.words("supersedes"):
        try:
            if memories.find(store, id).counts:
                out.append(id)
        except MemError:
            continue
    return out


def rejection(suggestion: Suggestion) -> review_records.Decision:
    """Not worth keeping; its text is not proposed again."""
    review_records.check_undecided(suggestion, "suggestion")
    return suggestions.verdict(suggestion, REJECTED)


def merge(
    store: Store,
    suggestion: Suggestion,
    prefix: str,
    text: str = "",
    *,
    team: bool = False,
    allow_secret: bool = False,
) -> Outcome:
    """Adds it to a memory, or gives that memory the text `text` instead.

    A memory of the team is only touched where `team` says so.
    """
    text = str(write_gate.admit(store, {"body": text}, allow_secret)["body"])
    review_records.check_undecided(suggestion, "suggestion", (WAITING, REJECTED))
    into = memories.find(store, prefix)
    id, data = into.memory.id, into.record.data
    if into.scope == "team" and not team:
        raise Refused(
            f"memory '{id[:8]}' is the team's, and the suggestion is private",
            hint="--team merges it, for everybody to see",
        )
    changes: dict[str, Any] = {"body": text or merged(str(data["body"]), suggestion.body)}
    have = {p["path"]: p for p in memory_rows.entries(data.get("paths"))}
    if new := [p for p in suggestion.paths if p not in have]:
        changes["paths"] = [*have.values(), *new]
    title = _edited(store, id, changes, allow_secret) or record.title_of(data)
    suggestions.decide(store, [(suggestion, MERGED, id)])
    return Outcome(suggestion, MERGED, title, into.scope)


def merged(old: str, new: str) -> str:
    """Both texts; the old one where it says the new one already."""
    if similarity.normal(new) in similarity.normal(old):
        return old
    return f"{old.rstrip()}\n\n{new.strip()}"


# --- looking ----------------------------------------------------------------


def near(store: Store, suggestion: Suggestion, most: int = 3) -> list[dict[str, Any]]:
    """Memories that say something like it, those before all whose place it would take."""
    first = _replaceable(store, suggestion)
    question = f"{suggestion.title} {suggestion.body}"[:2000]
    limit = most + len(first)
    how: dict[str, Any] = {"limit": limit, "all_branches": True, "only": "memories"}
    answer = recall.recall(store, question, Filter(), **how)
    hits = [h for h in answer["hits"] if answer["verdict"] != "MISS" and h["id"] not in first]
    replaced = []
    for id, found in memories.find_many(store, first).items():
        data = found.record.data
        about = {"title": record.title_of(data), "type": data.get("type", "")}
        replaced.append({"id": id, **about, "scope": found.scope, "replaces": True})
    return [*replaced, *hits][:most]


def public(suggestion: Suggestion, like: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A suggestion as `git mem review --json` prints it."""
    text = suggestion.text
    out: dict[str, Any] = {
        "id": suggestion.id,
        "state": suggestion.state,
        "queued": suggestion.queued,
        "title": suggestion.title,
        "body": suggestion.body,
        "confidence": suggestion.number("confidence"),
        **{name: text(name) for name in ("type", "stage", "role", "source")},
        **{name: text(name) or None for name in ("session", "agent")},
        "created_at": record.moment(suggestion.data.get("at")),
        "commit": record.object_id(suggestion.data.get("head")) or None,
        "paths": suggestion.paths,
        **{name: suggestion.words(name) for name in ("tags", "supersedes")},
        "memory": suggestion.memory or None,
    }
    if like is not None:
        shown = ("id", "title", "type", "scope")
        out["near"] = [
            {**{name: hit[name] for name in shown}, "replaces": bool(hit.get("replaces"))}
            for hit in like
        ]
    return out
