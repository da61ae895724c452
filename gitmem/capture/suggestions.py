"""Suggestions: what capture found and is not sure enough of to store; a person decides (`review`).

A suggestion is one record of op `suggest` in the private notes, a decision one
of op `verdict` with the same id. Neither is a memory: nothing recalls them, no
agent is given them. `docs/format.md` has their fields.

Promises. A text is proposed once: what waits, what was accepted, merged or
rejected, and what is a memory already, comes back as a duplicate. No secret is
kept. The id of a suggestion is the one that its text has as a memory, so that
`git mem purge` of either takes both. Of one agent session only the best
`mem.suggestions` are put before a person; the rest waits in a queue.

Which verdict counts does not depend on order or clock: what was accepted once
stays accepted, and then what was merged, whatever else was said of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ..core import fold, record, record_content, record_fields
from ..core.errors import Ambiguous, MemError, Refused
from ..engine.cache import Cache
from ..engine.document import PRIVATE, content_digest
from ..memory import write_gate
from ..memory.memories import SHORTEST
from ..memory.remember import DUPLICATE, REFUSED, STORED, Result
from ..notes.notetree import is_hex
from ..store import Store

WAITING, ACCEPTED, MERGED, REJECTED = "waiting", "accepted", "merged", "rejected"
VERDICTS = (ACCEPTED, MERGED, REJECTED)  # of several, the first counts
FIELDS = record_fields.DRAFT - {"provenance"} | {"commit", "score", "stage", "role", "supersedes"}
HELD = 10  # times the cap: what one session can leave at all
_PART = 500  # values in one SQL condition


class Suggestion:
    """One suggestion and what became of it.

    `memory`: the id of the memory it is in now, "" for none. `queued`: beyond its session's share.
    """

    __slots__ = ("data", "memory", "queued", "state", "verdict")

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.state = WAITING
        self.memory = ""
        self.queued = False
        self.verdict: dict[str, Any] = {}

    @property
    def id(self) -> str:
        return str(self.data["id"])

    @property
    def body(self) -> str:
        return record.clean(self.data["body"])

    @property
    def title(self) -> str:
        return record.title_of(self.data)

    def text(self, name: str) -> str:
        """A field that is a text, "" where it is none."""
        value = self.data.get(name)
        return record.clean(value) if isinstance(value, str) else ""

    def number(self, name: str) -> float | None:
        """A field that is a number from 0 to 1."""
        value = self.data.get(name)
        return (
            float(value)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
            else None
        )

    def words(self, name: str) -> list[str]:
        value = self.data.get(name)
        return (
            [record.clean(v) for v in value if isinstance(v, str)]
            if isinstance(value, list)
            else []
        )

    @property
    def paths(self) -> list[str]:
        value = self.data.get("paths")
        return (
            [
                record.clean(p["path"])
                for p in value
                if isinstance(p, dict) and isinstance(p.get("path"), str)
            ]
            if isinstance(value, list)
            else []
        )

    @property
    def group(self) -> str:
        """Whose share it counts for: its session, or, where there was none, its day."""
        return self.text("session") or self.text("at")[:10]


# --- writing ----------------------------------------------------------------


def propose(
    store: Store, drafts: Iterable[dict[str, Any]], *, allow_secret: bool = False
) -> list[Result]:
    """Keeps drafts (keys of FIELDS) as suggestions, in one commit of the private notes; one result
    each, in order: STORED, DUPLICATE (`id` names what has the text) or REFUSED.

    `score` is the packaged model's confidence, without it the one that `confidence` came from by
    the calibration in force; `commit` a full id; `supersedes` names memories whose place it would
    take. The worker calls this: nothing is signed, because nobody is there to be asked for a
    passphrase."""
    from . import calibrate

    results: list[Result | None] = []
    ready: list[tuple[int, dict[str, Any]]] = []
    now = calibrate.load(store)
    for draft in drafts:
        results.append(None)
        try:
            data = _checked(store, draft, allow_secret)
            if "score" not in data and "confidence" in data:
                data["score"] = round(
                    now.packaged(
                        data.get("stage", ""),
                        data["confidence"],
                        data.get("role", ""),
                        data["body"],
                    ),
                    4,
                )
            ready.append((len(results) - 1, data))
        except MemError as e:
            results[-1] = Result(REFUSED, reason=e.message, hint=e.hint)
    lines: list[bytes] = []
    if ready:
        known = _Known(store, [data for _, data in ready])
        for place, data in ready:
            results[place] = known.answer(data)
            if results[place] is None:
                lines.append(record.dump(data))
                results[place] = Result(STORED, data["id"], "", record.title_of(data), "private")
    if lines:
        store.append(
            "private",
            [("", line) for line in lines],
            f"git mem: {len(lines)} suggestion{'s' * (len(lines) != 1)}",
        )
    return [r for r in results if r is not None]


def _checked(store: Store, draft: dict[str, Any], allow_secret: bool) -> dict[str, Any]:
    draft = write_gate.admit(store, {"author": store.settings.author, **draft}, allow_secret)
    unknown = set(draft) - FIELDS
    if unknown:
        raise Refused(f"unknown field '{min(unknown)}'")
    # With a source the id needs no salt, so the memory made of it has the same one.
    source = draft.get("source") or f"capture:{os.urandom(8).hex()}"
    fields = record_content.checked(
        {**draft, "source": source, "author": draft.get("author") or store.settings.author},
        store.settings.number("maxBody"),
    )
    extra: dict[str, Any] = {}
    for name in ("stage", "role"):
        word = draft.get(name)
        if isinstance(word, str) and len(word) <= record.MAX_WORD:
            extra[name] = " ".join(record.clean(word).split())
    score = draft.get("score")
    if isinstance(score, (int, float)) and not isinstance(score, bool) and 0 <= score <= 1:
        extra["score"] = round(float(score), 4)
    # Not `commit`: a line with that name in a note of another commit would say that this one was
    # rewritten.
    extra["head"] = record.object_id(draft.get("commit"))
    supersedes = draft.get("supersedes")
    extra["supersedes"] = (
        sorted({i for i in supersedes if isinstance(i, str) and is_hex(i)})[: record.MAX_ITEMS]
        if isinstance(supersedes, (list, tuple))
        else []
    )
    write_gate.stored(store, draft, fields, allow_secret)
    return record.envelope("suggest", record.identify(fields), "", extra)


class _Known:
    """What has been proposed or is a memory; grows with what one call adds."""

    def __init__(self, store: Store, drafts: list[dict[str, Any]]) -> None:
        digests = sorted({d for data in drafts for d in _digests(data)})
        sources = sorted({str(data["source"]) for data in drafts})

        def read(
            cache: Cache,
        ) -> tuple[dict[str, Suggestion], dict[bytes, str], dict[str, str], set[str]]:
            tombstones = [
                r
                for (raw,) in cache.db.execute("SELECT raw FROM line WHERE op = 'purge'")
                if (r := record.parse(raw))
            ]
            return (
                stored(cache),
                _select(
                    cache, "SELECT digest, id FROM memory WHERE status = 0 AND digest IN", digests
                ),
                _select(cache, "SELECT source, id FROM memory WHERE source IN", sources),
                fold.purged(tombstones)[0],
            )

        (found, self._digests, self._sources, self._purged), _ = store.with_cache(read)
        self._most = store.settings.number("suggestions") * HELD
        self._texts = {same(s.data): s for s in found.values()}
        self._ids = dict(found)
        self._counts: dict[str, int] = {}
        for s in found.values():
            self._counts[s.group] = self._counts.get(s.group, 0) + (s.state == WAITING)

    def answer(self, data: dict[str, Any]) -> Result | None:
        """Why a draft is not stored; None where it is new, which it is not any more after that."""
        title = record.title_of(data)
        before = self._ids.get(data["id"]) or self._texts.get(same(data))
        if before:
            return Result(
                DUPLICATE,
                before.memory or before.id,
                "it waits already" if before.state == WAITING else f"it was {before.state} before",
                title,
                "private",
            )
        memory = next(
            (self._digests[d] for d in _digests(data) if d in self._digests), ""
        ) or self._sources.get(data["source"], "")
        if memory:
            return Result(DUPLICATE, memory, "the same text is known", title)
        if data["id"] in self._purged:
            return Result(REFUSED, reason="this memory was purged")
        new = Suggestion(data)
        count = self._counts.get(new.group, 0)
        if count >= self._most:
            return Result(REFUSED, reason=f"{count} suggestions of this session wait already")
        self._counts[new.group] = count + 1
        self._texts[same(data)] = self._ids[new.id] = new
        return None


def _select(cache: Cache, sql: str, wanted: list[Any]) -> dict[Any, str]:
    out: dict[Any, str] = {}
    for at in range(0, len(wanted), _PART):
        part = wanted[at : at + _PART]
        out.update(cache.db.execute(f"{sql} ({','.join('?' * len(part))})", part))
    return out


def _digests(data: dict[str, Any]) -> tuple[bytes, bytes]:
    return content_digest(data.get("title", ""), data["body"]), content_digest("", data["body"])


def same(data: dict[str, Any]) -> str:
    """What two suggestions have in common that say the same: the words, whatever their case and the
    spaces between.
    """
    return " ".join(record.clean(data["body"]).casefold().split()).strip(" .!")


def decide(store: Store, verdicts: Iterable[tuple[Suggestion, str, str, str]]) -> None:
    """Writes what became of suggestions: (suggestion, one of VERDICTS, id of the memory or "",
    reason), in one commit. Holds what calibration needs, no text of the suggestion.
    """
    lines = []
    for suggestion, word, memory, reason in verdicts:
        about = {
            k: suggestion.data[k]
            for k in ("stage", "role", "session", "type")
            if isinstance(suggestion.data.get(k), str)
        }
        for name in ("score", "confidence"):
            if (number := suggestion.number(name)) is not None:
                about[name] = number
        data = {
            "id": suggestion.id,
            "verdict": word,
            "memory": memory,
            "reason": reason,
            "author": store.author,
            **about,
        }
        lines.append(
            record.dump(
                record.envelope("verdict", {k: v for k, v in data.items() if v != ""}, "", {})
            )
        )
    if lines:
        store.append(
            "private",
            [("", line) for line in lines],
            f"git mem: {len(lines)} verdict{'s' * (len(lines) != 1)}",
        )


# --- reading ----------------------------------------------------------------


def stored(cache: Cache) -> dict[str, Suggestion]:
    """{id: suggestion}, decided ones included.

    Of several lines with one id, which two workers may have written, the one with the smallest
    version counts.
    """
    found: dict[str, Suggestion] = {}
    for r in sorted(_records(cache, "suggest"), key=lambda r: r.version):
        if isinstance(r.data.get("body"), str) and r.data["body"].strip():
            found.setdefault(r.id, Suggestion(r.data))
    for r in verdicts(cache):
        s = found.get(r.id)
        if s and (
            s.state == WAITING or VERDICTS.index(r.data["verdict"]) < VERDICTS.index(s.state)
        ):
            s.state, s.verdict = r.data["verdict"], r.data
            s.memory = r.data["memory"] if isinstance(r.data.get("memory"), str) else ""
    return found


def verdicts(cache: Cache) -> list[record.Record]:
    """Every verdict, in the order of their versions; also of suggestions that were purged since."""
    return sorted(
        (r for r in _records(cache, "verdict") if r.data.get("verdict") in VERDICTS),
        key=lambda r: r.version,
    )


def _records(cache: Cache, op: str) -> list[record.Record]:
    # The word stands in the statement, so that the partial index serves. Private lines only: a
    # teammate's notes propose and decide nothing here.
    assert op in record.APART_OPS
    return [
        r
        for (raw,) in cache.db.execute(
            f"SELECT raw FROM line WHERE op = '{op}' AND scope & {PRIVATE}"
        )
        if (r := record.parse(raw))
    ]


def waiting(store: Store) -> list[Suggestion]:
    """What a person has not decided yet: the share of each session first, the surest first; then
    the queue.
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
    """The one suggestion whose id starts with `prefix`.

    Raises MemError where none or several do.
    """
    low = prefix.strip().lower()
    if len(low) < SHORTEST or not is_hex(low):
        raise MemError(
            f"'{prefix[:40]}' is no id of a suggestion",
            hint=f"`git mem review --list` shows them; {SHORTEST} digits are the least",
        )
    ids = [id for id in sorted(found) if id.startswith(low)]
    if not ids:
        raise MemError(
            f"no suggestion '{low[:40]}'", hint="`git mem review --list` shows what waits"
        )
    if len(ids) > 1:
        raise Ambiguous(
            f"'{low}' is ambiguous: {', '.join(i[: len(low) + 4] for i in ids[:5])}",
            hint="type more digits",
        )
    return found[ids[0]]
