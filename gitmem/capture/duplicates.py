"""Whether a text that capture would keep is known: as a memory, a suggestion, in the same run.

Also which memory a new decision takes the place of. What was forgotten is known.

Words decide (`memory/similarity`); vectors only choose the memories to compare with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..core import record
from ..engine.cache import Cache
from ..engine.document import content_digest
from ..engine.memory_rows import FORGOTTEN
from ..engine.sql import select_in
from ..memory import similarity
from ..store import Store
from . import suggestions

_SUGGESTIONS = 300  # the last ones, among which a repeat is looked for
_FORGOTTEN_TEXTS = 5_000  # the last ones, among which the same text is looked for ...
_FORGOTTEN_REWORDED = 500  # ... and the same in other words
_SAME_RUN = 50  # candidates of one run among which a repeat in other words is looked for


def known_sources(store: Store, sources: Iterable[str]) -> dict[str, str]:
    """{source: id} of the sources that a memory or suggestion came from, whatever became of it."""
    asked = sorted(set(sources))

    def read(cache: Cache) -> dict[str, str]:
        found = dict(select_in(cache.db, "SELECT source, id FROM memory WHERE source IN {}", asked))
        suggested = {s.text("source"): s.id for s in suggestions.stored(cache).values()}
        return {**found, **{source: suggested[source] for source in asked if source in suggested}}

    return store.with_cache(read)[0] if asked else {}


class Comparison(NamedTuple):
    """`known`: the id of what has the text, with the `reason`. `replaces`: the id of the memory
    that the text takes the place of, or its text where a dry run has kept that. `waits`: it changes
    another text of the run, which has to be stored first. All empty for a new text.
    """

    known: str = ""
    reason: str = ""
    replaces: str = ""
    waits: bool = False


class Known:
    """What texts of one run are compared with; grows with each text that is new."""

    def __init__(
        self, store: Store, texts: list[str], kept: Sequence[tuple[str, str]] = ()
    ) -> None:
        """`kept`: texts and types that a dry run would have stored by now."""

        def read(cache: Cache) -> list[list[tuple[float, dict[str, Any]]]]:
            # By the text alone: the title may be another.
            rows = cache.db.execute(
                "SELECT l.raw FROM memory m JOIN line l ON l.n = m.line"
                f" WHERE m.status = {FORGOTTEN} ORDER BY m.row DESC LIMIT {_FORGOTTEN_TEXTS}"
            )
            records = [r for (raw,) in rows if (r := record.parse(raw))]
            bodies = [b for r in records if isinstance(b := r.data.get("body"), str)]
            self._forgotten = bodies[:_FORGOTTEN_REWORDED]
            self._forgotten_digests = {content_digest("", body) for body in bodies}
            by_time = sorted(suggestions.stored(cache).values(), key=lambda s: s.text("at"))
            self._suggestions = by_time[-_SUGGESTIONS:]
            return similarity.neighbours(cache, store.table, texts)

        self._table = store.table
        self._nearest = dict(zip(texts, store.with_cache(read)[0], strict=True))
        self._kept = kept[-_SAME_RUN:]
        self._new: list[tuple[str, str]] = []  # text and type, of those that wait, too

    def compare(self, text: str, type: str) -> Comparison:
        """Compares one of the texts; a new one counts as known from then on."""
        if content_digest("", text) in self._forgotten_digests or any(
            similarity.repeats(text, old) for old in self._forgotten
        ):
            return Comparison(reason="it was forgotten")
        for near, data in self._nearest[text]:
            if near >= similarity.NEAR and similarity.repeats(text, str(data["body"])):
                return Comparison(str(data["id"]), "a memory says it already")
        for s in self._suggestions:
            if similarity.repeats(text, s.body):
                return Comparison(s.id, f"it was proposed, and is {s.state}")
        recent = self._new[-_SAME_RUN:]
        if any(similarity.repeats(text, other) for other, _ in recent):
            return Comparison(reason="it was said twice")
        found = Comparison()
        if type in similarity.STANDING:
            standing = [
                (n, m) for n, m in self._nearest[text] if m.get("type") in similarity.STANDING
            ]
            for near, data in standing:
                if similarity.changes(text, str(data["body"]), near):
                    found = Comparison(replaces=str(data["id"]))
                    break
            else:
                changed = [old for old, of in self._kept if self._changes(text, old, of)]
                if changed:
                    found = Comparison(replaces=changed[-1])
                elif any(self._changes(text, *other) for other in recent):
                    found = Comparison(waits=True)
        self._new.append((text, type))
        return found

    def _changes(self, text: str, other: str, type: str) -> bool:
        """Whether a text changes one that was said before it in the same run."""
        if type not in similarity.STANDING or not similarity.changes(text, other, 1.0):
            return False  # words say so without the vectors
        return similarity.changes(text, other, similarity.near(self._table, text, other))
