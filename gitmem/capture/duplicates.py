"""Whether a text that capture would keep is known: as a memory, a suggestion, in the same run.

Also which memory a new decision takes the place of. What was forgotten is known.

Words decide (`memory/similarity`); vectors only choose the memories to compare with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..core import id_mentions, record
from ..engine.cache import Cache
from ..engine.document import content_digest
from ..engine.memory_rows import FORGOTTEN
from ..engine.sql import select_in
from ..memory import similarity
from ..memory.review_records import WAITING
from ..store import Store
from . import suggestions

_SUGGESTIONS = 300  # the last ones, among which a repeat is looked for
_FORGOTTEN_TEXTS = 5_000  # the last ones, among which the same text is looked for ...
_FORGOTTEN_REWORDED = 500  # ... and the same in other words
_SAME_RUN = 50  # candidates of one run among which a repeat in other words is looked for
_RETOLD = 2  # memories from which on an answer that names them may but tell of them


def known_sources(store: Store, sources: Iterable[str]) -> dict[str, str]:
    """{source: id} of the sources that a memory or suggestion came from, whatever became of it."""
    asked = sorted(set(sources))

    def read(cache: Cache) -> dict[str, str]:
        found = dict(select_in(cache.db, "SELECT source, id FROM memory WHERE source IN {}", asked))
        suggested = {s.text("source"): s.id for s in suggestions.stored(cache).values()}
        return {**found, **{source: suggested[source] for source in asked if source in suggested}}

    return store.with_cache(read)[0] if asked else {}


def retold(store: Store, answers: Iterable[str]) -> set[str]:
    """Those of an agent's answers that name several memories. One that was asked for them tells of
    all together, so no single memory says the same; another one decides something because of them.
    """
    named = {a: id_mentions.words(re.findall(r"[^\W_]+", a.lower())) for a in answers}

    def read(cache: Cache) -> set[str]:
        sql = "SELECT EXISTS (SELECT 1 FROM memory WHERE id >= ?1 AND id < ?1 || 'g')"
        known = {
            w for w in set().union(*named.values()) if cache.db.execute(sql, (w,)).fetchone()[0]
        }
        few = id_mentions.LEAST
        return {a for a, w in named.items() if len({id[:few] for id in w & known}) >= _RETOLD}

    return store.with_cache(read)[0] if any(named.values()) else set()


class Comparison(NamedTuple):
    """`known`: the id of what has the text, with the `reason`. `replaces`: the id of the memory
    that the text takes the place of; `changes`: the place in the run of the text that it does,
    -1 for none. All empty for a new text.
    """

    known: str = ""
    reason: str = ""
    replaces: str = ""
    changes: int = -1


class Known:
    """What texts of one run are compared with; grows with each text that is new."""

    def __init__(self, store: Store, texts: list[str]) -> None:
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
        self._new: list[tuple[str, str, int]] = []  # text, type, place
        self._unsure: set[int] = set()  # places

    def compare(self, text: str, type: str, place: int, sure: bool = False) -> Comparison:
        """Compares one of the texts; a new one counts as known from then on. `place`: in the run,
        in which only later texts change earlier ones. `sure`: it will be stored, so a text that
        only waits for a decision is no reason against it.
        """
        if content_digest("", text) in self._forgotten_digests or any(
            similarity.repeats(text, old) for old in self._forgotten
        ):
            return Comparison(reason="it was forgotten")
        for near, data in self._nearest[text]:
            if near >= similarity.NEAR and similarity.repeats(text, str(data["body"])):
                return Comparison(str(data["id"]), "a memory says it already")
        for s in self._suggestions:
            # One that would take a memory's place was asked about, however sure it is.
            passes = sure and s.state == WAITING and not s.words("supersedes")
            if similarity.repeats(text, s.body) and not passes:
                return Comparison(s.id, f"it was proposed, and is {s.state}")
        recent = self._new[-_SAME_RUN:]
        weaker = self._unsure if sure else ()
        if any(similarity.repeats(text, other) for other, _, at in recent if at not in weaker):
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
                found = Comparison(changes=self._changed(text, recent))
        self._new.append((text, type, place))
        if not sure:
            self._unsure.add(place)
        return found

    def _changed(self, text: str, recent: Sequence[tuple[str, str, int]]) -> int:
        """The place of the nearest text that this one changes, -1 for none."""
        found = []
        for other, type, place in recent:
            if type in similarity.STANDING and similarity.changes(text, other, 1.0):  # by words
                near = similarity.near(self._table, text, other)
                if similarity.changes(text, other, near):
                    found.append((near, place))
        return max(found, default=(0.0, -1))[1]
