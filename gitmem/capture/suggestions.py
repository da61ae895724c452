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
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ..core import record, record_content
from ..core.errors import MemError
from ..engine import memory_rows
from ..engine.cache import Cache
from ..engine.document import content_digest
from ..memory import remember, review_records, similarity, write_gate
from ..memory.remember import DUPLICATE, REFUSED, STORED, Result
from ..memory.review_records import ACCEPTED, MERGED, REJECTED, WAITING, Item
from ..notes.notetree import is_hex
from ..store import Store

VERDICTS = (ACCEPTED, MERGED, REJECTED)  # of several, the first counts
_WORDS = ("stage", "role")
_NUMBERS = ("score", "p_skip")
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
        return memory_rows.paths(self.data)

    @property
    def group(self) -> str:
        """Whose share it counts for: its session, or, where there was none, its day."""
        return self.text("session") or self.text("at")[:10]


# --- writing ----------------------------------------------------------------


def propose(store: Store, drafts: Iterable[dict[str, Any]]) -> list[Result]:
    """Keeps drafts as suggestions, in one commit; one result each, in order: STORED, DUPLICATE
    (`id` names the memory or suggestion that has the text) or REFUSED.

    A draft has the fields of a memory, and `stage`, `role`, `score` (the packaged model's
    confidence), `p_skip` (a language model's, where it was asked), `commit` (a full id),
    `created_at` (in stored form) and `supersedes` (ids of memories whose place it would take).
    """
    known: _Known | None = None
    results: list[Result] = []
    new: list[dict[str, Any]] = []
    for draft in drafts:
        try:
            data = _checked(store, draft)
        except MemError as e:
            results.append(Result(REFUSED, reason=e.message, hint=e.hint))
            continue
        known = known or _Known(store)
        refused = known.reason_against(data)
        if refused is None:
            new.append(data)
        stored = Result(STORED, data["id"], "", record.title_of(data), "private")
        results.append(refused or stored)
    review_records.write(store, "suggestion", new)
    return results


def _checked(store: Store, draft: dict[str, Any]) -> dict[str, Any]:
    """The record of a draft. Raises MemError where it is not acceptable."""
    author = draft.get("author") or store.settings.author
    draft = write_gate.admit(store, {**draft, "author": author})
    # With a source the id needs no salt, so the memory made of it has the same one.
    source = draft.get("source") or f"capture:{os.urandom(8).hex()}"
    fields = record_content.checked({**draft, "source": source}, store.settings.number("maxBody"))
    item = Item(draft)
    words = {name: " ".join(item.text(name).split())[: record.MAX_WORD] for name in _WORDS}
    numbers = {name: round(n, 4) for name in _NUMBERS if (n := item.number(name)) is not None}
    supersedes = sorted({id for id in item.words("supersedes") if is_hex(id)})
    write_gate.stored(store, draft, fields)
    extra = {
        **{name: word for name, word in words.items() if word},
        **numbers,
        # Not `commit`: a line with that name in a note of another commit would say that this one
        # was rewritten.
        "head": record.object_id(draft.get("commit")),
        "supersedes": supersedes[: record.MAX_ITEMS],
    }
    return record.envelope("suggest", record.identify(fields), item.text("created_at"), extra)


class _Known:
    """What was suggested or is a memory already; grows with what one call adds."""

    def __init__(self, store: Store) -> None:
        self._memories = remember.Known(store)
        self._ids = store.with_cache(stored)[0]
        self._texts = {similarity.normal(s.body): s for s in self._ids.values()}
        self._waiting = Counter(s.group for s in self._ids.values() if s.state == WAITING)
        self._most_of_a_session = store.settings.number("suggestions") * HELD

    def reason_against(self, data: dict[str, Any]) -> Result | None:
        """Why a draft is not stored; None for a new one, which counts as known from then on."""
        title = record.title_of(data)
        new = Suggestion(data)
        text = similarity.normal(new.body)
        before = self._ids.get(new.id) or self._texts.get(text)
        if before:
            waits = before.state == WAITING
            reason = "it waits already" if waits else f"it was {before.state} before"
            return Result(DUPLICATE, before.memory or before.id, reason, title, "private")
        known, source = self._memories, new.text("source")
        texts = digests(new)
        known.look_up({source}, {*texts})
        found = [*map(known.digests.get, texts), known.sources.get(source)]
        if memory := next(filter(None, found), None):
            return Result(DUPLICATE, memory[0], "the same text is known", title)
        if new.id in known.purged:
            return Result(REFUSED, reason="this memory was purged")
        count = self._waiting[new.group]
        if count >= self._most_of_a_session:
            return Result(REFUSED, reason=f"{count} suggestions of this session wait already")
        self._waiting[new.group] += 1
        self._texts[text] = self._ids[new.id] = new
        return None


def digests(suggestion: Suggestion) -> list[bytes]:
    """By which `remember` knows its text, with and without its title."""
    return [content_digest(title, suggestion.body) for title in (suggestion.text("title"), "")]


def decide(store: Store, verdicts: Iterable[tuple[Suggestion, str, str]]) -> None:
    """Writes what became of suggestions (see `verdict`), in one commit."""
    review_records.decide(store, [verdict(*one) for one in verdicts])


def verdict(s: Suggestion, said: str, memory: str = "") -> review_records.Decision:
    """What became of a suggestion: one of VERDICTS, the id of the memory or "". A verdict has what
    calibration needs, no text of the suggestion.
    """
    texts = {k: s.data[k] for k in ("stage", "role", "session", "type") if s.text(k)}
    numbers = {k: s.number(k) for k in (*_NUMBERS, "confidence")}
    return s, said, memory, {**texts, **{k: n for k, n in numbers.items() if n is not None}}


# --- reading ----------------------------------------------------------------


def stored(cache: Cache, prefix: str = "") -> dict[str, Suggestion]:
    """{id: suggestion}, decided ones included."""

    def made(data: dict[str, Any]) -> Suggestion | None:
        body = data.get("body")
        return Suggestion(data) if isinstance(body, str) and body.strip() else None

    return review_records.stored(cache, made, VERDICTS, prefix=prefix)


def waiting(store: Store) -> list[Suggestion]:
    """The undecided suggestions, the surest first; each session's share before the queue."""
    share = store.settings.number("suggestions")
    found = store.with_cache(stored)[0].values()
    left = sorted(
        (s for s in found if s.state == WAITING),
        key=lambda s: (-(s.number("confidence") or 0.0), s.text("at"), s.id),
    )
    counts: Counter[str] = Counter()
    for s in left:
        counts[s.group] += 1
        s.queued = counts[s.group] > share
    return sorted(left, key=lambda s: s.queued)
