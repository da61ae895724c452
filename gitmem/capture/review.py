"""A person's decision about a suggestion: accept, edit, reject, merge. `calibrate` learns from it.

Promises. Accepting stores the text through `remember`, which checks size, secrets, duplicates and
tombstones. An accepted memory says VERIFIED and has the person's name; it is private unless they
share it. The memory is in the notes before the verdict is written, so a crash in between leaves a
suggestion that waits, and accepting it again finds its memory. The memory has the id of its
suggestion, also if it was edited: `git mem purge` takes both.
"""

from __future__ import annotations

from typing import Any

from ..core import record
from ..core.errors import MemError, Refused
from ..core.record_fields import ENTRIES, FIELDS, LINE, LIST, SET, WORD
from ..engine.filters import Filter
from ..memory import memories, recall, remember, review_records, write_gate
from ..memory.review_records import ACCEPTED, MERGED, REJECTED, WAITING
from ..store import Store
from . import suggestions
from .suggestions import Suggestion

SURE = 0.98  # confidence of what a person accepted
_CHANGES = ("body", "title", "type", "tags")


class Outcome:
    """What became of one suggestion.

    `known`: the text was a memory before. `replaced`: ids of memories whose place it took.
    """

    __slots__ = ("known", "replaced", "scope", "status", "suggestion", "title")

    def __init__(
        self,
        suggestion: Suggestion,
        status: str,
        title: str = "",
        scope: str = "",
        known: bool = False,
        replaced: list[str] | None = None,
    ) -> None:
        self.suggestion = suggestion
        self.status = status
        self.title = title or suggestion.title
        self.scope = scope
        self.known = known
        self.replaced = replaced or []


def find(store: Store, prefix: str) -> Suggestion:
    """The suggestion an id prefix names, decided ones included."""
    return suggestions.find(store.with_cache(suggestions.stored)[0], prefix)


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
    changes = {k: v for k, v in (changes or {}).items() if k in _CHANGES}
    changes = write_gate.admit(store, changes, allow_secret)
    _check_open(suggestion, ACCEPTED)
    body = changes.get("body")
    if body is not None and not str(body).strip():
        raise Refused("the memory has no text", hint="rejecting a suggestion takes it off the list")
    id, title, known, replaced = _store(store, suggestion, scope, allow_secret)
    if changes and known:
        raise Refused(
            f"memory '{id[:8]}' says that already",
            hint=f"`git mem review --merge {suggestion.id[:8]} {id[:8]} -m TEXT` changes that one",
        )
    if changes:
        try:
            title = record.title_of(
                memories.edit(
                    store, id, _fresh_title(suggestion, changes), allow_secret=allow_secret
                ).record.data
            )
        except MemError as e:
            if e.message != "nothing to change":
                raise
    suggestions.decide(store, [(suggestion, ACCEPTED, id, "")])
    return _settled(Outcome(suggestion, ACCEPTED, title, scope, known, replaced), id)


def _fresh_title(suggestion: Suggestion, changes: dict[str, Any]) -> dict[str, Any]:
    """A title that was made for the old text goes with it."""
    return (
        {**changes, "title": ""}
        if changes.get("body") not in (None, suggestion.body) and "title" not in changes
        else changes
    )


def _store(
    store: Store, suggestion: Suggestion, scope: str, allow_secret: bool
) -> tuple[str, str, bool, list[str]]:
    """(id, title, whether it was known, ids replaced) of the memory made of a suggestion's own
    text.
    """
    # Whatever shapes another tool's line has, a person's word makes a sound memory of it.
    fields: dict[str, Any] = {
        f.name: suggestion.words(f.name) if f.kind in ENTRIES else suggestion.text(f.name)
        for f in FIELDS
        if f.draft and f.kind in (LINE, WORD, SET, LIST) and f.name not in ("author", "branch")
    }
    fields.update(body=suggestion.body, paths=suggestion.paths)
    fields.update(provenance="VERIFIED", confidence=SURE)
    older = _replaceable(store, suggestion)
    if older:
        mine = store.with_cache(
            lambda cache: cache.db.execute(
                "SELECT id FROM memory WHERE id = ?", (suggestion.id,)
            ).fetchone()
        )[0]
        if not mine:
            id = memories.supersede(store, older[0], fields, scope=scope, allow_secret=allow_secret)
            return id, suggestion.title, False, older[:1]
    head = record.object_id(suggestion.data.get("head"))
    if head and store.repo.commit(head):
        fields["commit"] = head
    result = remember.remember(store, [{**fields, "scope": scope}], allow_secret=allow_secret)[0]
    if result.status == remember.REFUSED:
        raise Refused(result.reason, hint=result.hint)
    return (
        result.id,
        result.title,
        result.status == remember.DUPLICATE and result.id != suggestion.id,
        [],
    )


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


def reject(store: Store, found: list[Suggestion], reason: str = "") -> list[Outcome]:
    """None of these is worth keeping; their texts are not proposed again. All in one commit."""
    reason = str(write_gate.admit(store, {"reason": reason})["reason"])
    for suggestion in found:
        _check_open(suggestion, REJECTED)
    reason = review_records.one_line(reason)
    suggestions.decide(store, [(s, REJECTED, "", reason) for s in found])
    return [_settled(Outcome(s, REJECTED), "") for s in found]


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
    _check_open(suggestion, MERGED)
    into = memories.find(store, prefix)
    id = into.memory.id
    if into.scope == "team" and not team:
        raise Refused(
            f"memory '{id[:8]}' is the team's, and the suggestion is private",
            hint="--team merges it, for everybody to see",
        )
    old = str(into.record.data["body"])
    paths = into.record.data.get("paths")
    changes: dict[str, Any] = {"body": text or merged(old, suggestion.body)}
    have = (
        {p["path"]: p for p in paths if isinstance(p, dict) and isinstance(p.get("path"), str)}
        if isinstance(paths, list)
        else {}
    )
    if any(p not in have for p in suggestion.paths):
        changes["paths"] = [*have.values(), *(p for p in suggestion.paths if p not in have)]
    try:
        after = memories.edit(store, id, changes, allow_secret=allow_secret)
    except MemError as e:
        if e.message != "nothing to change":  # a memory that says it already: that is merged, too
            raise
        after = into
    suggestions.decide(store, [(suggestion, MERGED, id, "")])
    return _settled(Outcome(suggestion, MERGED, record.title_of(after.record.data), into.scope), id)


def merged(old: str, new: str) -> str:
    """Both texts; the old one where it says the new one already."""
    return (
        old
        if suggestions.same({"body": new}) in suggestions.same({"body": old})
        else f"{old.rstrip()}\n\n{new.strip()}"
    )


def _check_open(suggestion: Suggestion, verdict: str) -> None:
    """Raises where a suggestion is decided already; a rejected one may still be accepted."""
    states = (WAITING,) if verdict == REJECTED else (WAITING, REJECTED)
    review_records.check_undecided(suggestion, "suggestion", states)


def _settled(outcome: Outcome, memory: str) -> Outcome:
    outcome.suggestion.state, outcome.suggestion.memory = outcome.status, memory
    return outcome


# --- looking ----------------------------------------------------------------


def near(store: Store, suggestion: Suggestion, most: int = 3) -> list[dict[str, Any]]:
    """Memories that say something like it, the nearest first, as `recall` gives them; and those
    whose place it would take, before all.
    """
    first = _replaceable(store, suggestion)
    answer = recall.recall(
        store,
        f"{suggestion.title} {suggestion.body}"[:2000],
        Filter(),
        limit=most + len(first),
        all_branches=True,
    )
    hits = [h for h in answer["hits"] if answer["verdict"] != "MISS" and h["id"] not in first]
    if first:
        found = memories.find_many(store, first)
        hits = [
            {
                "id": id,
                "title": record.title_of(f.record.data),
                "type": f.record.data.get("type", ""),
                "scope": f.scope,
                "replaces": True,
            }
            for id, f in found.items()
        ] + hits
    return hits[:most]


def public(suggestion: Suggestion, like: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A suggestion as `git mem review --json` prints it."""
    out: dict[str, Any] = {
        "id": suggestion.id,
        "state": suggestion.state,
        "queued": suggestion.queued,
        "title": suggestion.title,
        "body": suggestion.body,
        "type": suggestion.text("type"),
        "confidence": suggestion.number("confidence"),
        "stage": suggestion.text("stage"),
        "role": suggestion.text("role"),
        "source": suggestion.text("source"),
        "session": suggestion.text("session") or None,
        "agent": suggestion.text("agent") or None,
        "created_at": record.moment(suggestion.data.get("at")),
        "commit": record.object_id(suggestion.data.get("head")) or None,
        "paths": suggestion.paths,
        "tags": suggestion.words("tags"),
        "supersedes": suggestion.words("supersedes"),
        "memory": suggestion.memory or None,
    }
    if like is not None:
        out["near"] = [
            {
                "id": h["id"],
                "title": h["title"],
                "type": h["type"],
                "scope": h["scope"],
                "replaces": bool(h.get("replaces")),
            }
            for h in like
        ]
    return out
