"""Suggestions: texts that capture is not sure enough of to store; a person decides (`review`).

A suggestion is one record of op `suggest` in the private notes, a decision one of op `verdict` with
the same id (`memory/review_records`). Neither is a memory: nothing recalls them, no agent is given
them.

Promises. A text is suggested once: a text that waits, that was accepted, merged or rejected, and
one that is a memory already, comes back as a duplicate. No secret is kept. The id of a suggestion
is the one that its text has as a memory, so that `git mem purge` of either takes both. Of one agent
session only the best `mem.suggestions` are put before a person; the rest waits in a queue. What was
accepted once stays accepted, and then what was merged, whatever else was said of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ..core import record, record_content, record_fields
from ..core.errors import MemError, Refused
from ..engine.cache import Cache
from ..engine.document import content_digest
from ..engine.memory_rows import select_in
from ..memory import review_records, write_gate
from ..memory.memories import SHORTEST
from ..memory.remember import DUPLICATE, REFUSED, STORED, Result, purged
from ..memory.review_records import ACCEPTED, MERGED, REJECTED, WAITING, Item
from ..notes.notetree import is_hex
from ..store import Store

VERDICTS = (ACCEPTED, MERGED, REJECTED)  # of several, the first counts
_OWN_WORDS = ("stage", "role")
_OWN_NUMBERS = ("score", "p_skip")
FIELDS = (record_fields.DRAFT - {"provenance"}) | {
    "commit",
    "supersedes",
    *_OWN_WORDS,
    *_OWN_NUMBERS,
}
HELD = 10  # times `mem.suggestions`: how many of one session may wait, queue included


class Suggestion(Item):
    """One suggestion and what became of it. `queued`: beyond its session's share."""

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data)
        self.queued = False

    @property
    def body(self) -> str:
        return record.clean(self.data["body"])

    @property
    def title(self) -> str:
        return record.title_of(self.data)

    @property
    def paths(self) -> list[str]:
        value = self.data.get("paths")
        items = [p for p in value if isinstance(p, dict)] if isinstance(value, list) else []
        return [record.clean(p["path"]) for p in items if isinstance(p.get("path"), str)]

    @property
    def group(self) -> str:
        """Whose share it counts for: its session, or, where there was none, its day."""
        return self.text("session") or self.text("at")[:10]


# --- writing ----------------------------------------------------------------


def propose(
    store: Store, drafts: Iterable[dict[str, Any]], *, allow_secret: bool = False
) -> list[Result]:
    """Keeps drafts (keys of FIELDS) as suggestions, in one commit; one result each, in order:
    STORED, DUPLICATE (`id` names the memory or suggestion that has the text) or REFUSED.

    `score` is the packaged model's confidence, `p_skip` a language model's P(skip), where it was
    asked; `commit` a full id; `supersedes` names memories whose place it would take.
    """
    results: list[Result | None] = []
    checked: list[tuple[int, dict[str, Any]]] = []
    for draft in drafts:
        results.append(None)
        try:
            checked.append((len(results) - 1, _checked(store, draft, allow_secret)))
        except MemError as e:
            results[-1] = Result(REFUSED, reason=e.message, hint=e.hint)
    new: list[dict[str, Any]] = []
    if checked:
        known = _Known(store, [data for _, data in checked])
        for place, data in checked:
            results[place] = known.reason_against(data)
            if results[place] is None:
                new.append(data)
                results[place] = Result(STORED, data["id"], "", record.title_of(data), "private")
    review_records.write(store, "suggestion", new)
    return [r for r in results if r is not None]


def _checked(store: Store, draft: dict[str, Any], allow_secret: bool) -> dict[str, Any]:
    """The record of a draft. Raises MemError where it is not acceptable."""
    draft = write_gate.admit(store, {"author": store.settings.author, **draft}, allow_secret)
    unknown = set(draft) - FIELDS
    if unknown:
        raise Refused(f"unknown field '{min(unknown)}'")
    # With a source the id needs no salt, so the memory made of it has the same one.
    source = draft.get("source") or f"capture:{os.urandom(8).hex()}"
    author = draft.get("author") or store.settings.author
    fields = record_content.checked(
        {**draft, "source": source, "author": author}, store.settings.number("maxBody")
    )
    item = Item(draft)
    extra: dict[str, Any] = {}
    for name in _OWN_WORDS:
        word = " ".join(item.text(name).split())
        if word and len(word) <= record.MAX_WORD:
            extra[name] = word
    for name in _OWN_NUMBERS:
        if (number := item.number(name)) is not None:
            extra[name] = round(number, 4)
    # Not `commit`: a line with that name in a note of another commit would say that this one was
    # rewritten.
    extra["head"] = record.object_id(draft.get("commit"))
    supersedes = {id for id in item.words("supersedes") if is_hex(id)}
    extra["supersedes"] = sorted(supersedes)[: record.MAX_ITEMS]
    write_gate.stored(store, draft, fields, allow_secret)
    return record.envelope("suggest", record.identify(fields), "", extra)


class _Known:
    """What was suggested or is a memory already; grows with what one call adds."""

    def __init__(self, store: Store, drafts: list[dict[str, Any]]) -> None:
        digests = sorted({d for data in drafts for d in _digests(data)})
        sources = sorted({str(data["source"]) for data in drafts})

        def read(cache: Cache) -> tuple[dict[str, Suggestion], set[str]]:
            by_digest = "SELECT digest, id FROM memory WHERE status = 0 AND digest IN"
            self._digests = dict(select_in(cache, by_digest, digests))
            by_source = "SELECT source, id FROM memory WHERE source IN"
            self._sources = dict(select_in(cache, by_source, sources))
            return stored(cache), purged(cache)

        (found, self._purged), _ = store.with_cache(read)
        self._most_of_a_session = store.settings.number("suggestions") * HELD
        self._texts = {same(s.data): s for s in found.values()}
        self._ids = dict(found)
        self._waiting: dict[str, int] = {}
        for s in found.values():
            self._waiting[s.group] = self._waiting.get(s.group, 0) + (s.state == WAITING)

    def reason_against(self, data: dict[str, Any]) -> Result | None:
        """Why a draft is not stored; None for a new one, which counts as known from then on."""
        title = record.title_of(data)
        before = self._ids.get(data["id"]) or self._texts.get(same(data))
        if before:
            waits = before.state == WAITING
            reason = "it waits already" if waits else f"it was {before.state} before"
            return Result(DUPLICATE, before.memory or before.id, reason, title, "private")
        by_digest = (self._digests[d] for d in _digests(data) if d in self._digests)
        memory = next(by_digest, "") or self._sources.get(data["source"], "")
        if memory:
            return Result(DUPLICATE, memory, "the same text is known", title)
        if data["id"] in self._purged:
            return Result(REFUSED, reason="this memory was purged")
        new = Suggestion(data)
        count = self._waiting.get(new.group, 0)
        if count >= self._most_of_a_session:
            return Result(REFUSED, reason=f"{count} suggestions of this session wait already")
        self._waiting[new.group] = count + 1
        self._texts[same(data)] = self._ids[new.id] = new
        return None


def _digests(data: dict[str, Any]) -> tuple[bytes, bytes]:
    return content_digest(data.get("title", ""), data["body"]), content_digest("", data["body"])


def same(data: dict[str, Any]) -> str:
    """The words of a suggestion, whatever their case and the spaces between: equal for two
    suggestions that say the same.
    """
    return " ".join(record.clean(data["body"]).casefold().split()).strip(" .!")


def decide(store: Store, verdicts: Iterable[tuple[Suggestion, str, str, str]]) -> None:
    """Writes what became of suggestions: (suggestion, one of VERDICTS, id of the memory or "",
    reason), in one commit. A verdict has what calibration needs, no text of the suggestion.
    """
    lines = []
    for s, word, memory, reason in verdicts:
        texts = {k: s.data[k] for k in ("stage", "role", "session", "type") if s.text(k)}
        numbers = {k: s.number(k) for k in (*_OWN_NUMBERS, "confidence")}
        about = {**texts, **{k: n for k, n in numbers.items() if n is not None}}
        lines.append(review_records.verdict(store, s, word, memory, reason, about))
    review_records.write(store, "verdict", lines)


# --- reading ----------------------------------------------------------------


def stored(cache: Cache) -> dict[str, Suggestion]:
    """{id: suggestion}, decided ones included.

    Of several lines with one id, which two workers may have written, the one with the smallest
    version counts.
    """
    found: dict[str, Suggestion] = {}
    for r in review_records.records(cache, "suggest"):
        if isinstance(r.data.get("body"), str) and r.data["body"].strip():
            found.setdefault(r.id, Suggestion(r.data))
    review_records.apply_verdicts(found, review_records.records(cache, "verdict"), VERDICTS)
    return found


def waiting(store: Store) -> list[Suggestion]:
    """The undecided suggestions: the share of each session first, the surest first; then the
    queue.
    """
    return order(store.with_cache(stored)[0].values(), store.settings.number("suggestions"))


def order(found: Iterable[Suggestion], share: int) -> list[Suggestion]:
    left = sorted(
        (s for s in found if s.state == WAITING),
        key=lambda s: (-(s.number("confidence") or 0.0), s.text("at"), s.id),
    )
    counts: dict[str, int] = {}
    for s in left:
        counts[s.group] = counts.get(s.group, 0) + 1
        s.queued = counts[s.group] > share
    return sorted(left, key=lambda s: s.queued)


def find(found: dict[str, Suggestion], prefix: str) -> Suggestion:
    """The one suggestion whose id starts with `prefix`. Raises MemError for none or several."""
    suggestion = review_records.find(found.values(), prefix)
    if suggestion:
        return suggestion
    low = prefix.strip().lower()
    if len(low) < SHORTEST or not is_hex(low):
        raise MemError(
            f"'{prefix[:40]}' is no id of a suggestion",
            hint=f"`git mem review --list` shows them; {SHORTEST} digits are the least",
        )
    raise MemError(f"no suggestion '{low[:40]}'", hint="`git mem review --list` shows what waits")
