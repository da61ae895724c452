"""Finds memories that say the same, of which one takes the place of the other, or that contradict
each other. `proposals` writes what is found.

Three ways lead to a pair: equal texts (by their digest), vectors (the MOST nearest earlier memories
with a cosine of NEAREST or more), and a path that both name. Then the words decide
(`graph/relation`); the rules were chosen on real memories, for few false proposals
(`docs/evaluation.md`).

Promise: no pair is found by its vectors alone. Comparing stops when its time is over (a block of
rows is finished) and goes on there the next time; a new memory is compared with all that were there
before it. `superseded` has half of that time; `cut` says that it was not enough.

Not found: the same in quite other words (a cosine below NEAREST), texts without a word that the
table knows unless they are equal, a memory whose MOST nearest are others, paths that more than
CROWD memories name, and two events in nearly the same words (two fixes of two bugs are two
memories).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from ..core import record
from ..engine import contradictions, filters, memory_rows
from ..engine.cache import Cache
from ..engine.document import TEAM
from . import relation, similarity, superseded

MERGE, SUPERSEDE, CONTRADICTION, VERSIONS, SHARE, CITES = (
    "merge",
    contradictions.SUPERSEDE,
    contradictions.CONTRADICTION,
    "versions",
    "share",
    "cites",
)
KINDS = (
    CONTRADICTION,
    SUPERSEDE,
    VERSIONS,
    CITES,
    MERGE,
    SHARE,
)  # in the order in which they are put before a person

SAME, ALL, WORDING, AGAINST, VALUE = (
    "same",
    "all of it",
    "later wording",
    contradictions.AGAINST,
    contradictions.VALUE,
)
EDITED, YOURS, REPLACED = "edited twice", "yours alone", "names a replaced one"
WHYS = (SAME, ALL, WORDING, AGAINST, VALUE, EDITED, YOURS, REPLACED)

NEAREST = 0.6  # cosine from which a pair of vectors is looked at
MOST = 8  # pairs of one memory by its vector
CROWD = 40  # memories that name one path; of more, they are not about it
_KEPT = 20_000  # memories whose texts are kept while one call compares
# What happened once, at one commit: the same words about another commit are another event.
_EVENTS = frozenset(["bugfix", "feature", "refactor", "change", "progress", "handoff"])


class Memory:
    """One visible version, as far as comparing needs it. `latest`: the latest time that counts."""

    __slots__ = ("anchor", "at", "author", "id", "paths", "row", "scope", "session", "text", "type")

    def __init__(self, row: int, data: dict[str, Any], scope: int, latest: str) -> None:
        self.row = row
        self.id = str(data["id"])
        self.scope = scope
        body = record.clean(data["body"])
        title = memory_rows.word(data.get("title")) or ""
        made = "title-by-model" in memory_rows.words(data.get("tags"))
        self.text = (
            body if made or not title or body.lstrip().startswith(title) else f"{title}\n{body}"
        )
        self.type = memory_rows.word(data.get("type")) or record.DEFAULT_TYPE
        self.at = record.when(data.get("created"), latest) or record.when(data.get("at"), latest)
        self.paths = frozenset(p for p, _ in memory_rows.paths(data))
        self.anchor = memory_rows.commit_of(data)
        self.session = memory_rows.word(data.get("session")) or ""
        self.author = memory_rows.word(data.get("author")) or ""

    @property
    def team(self) -> bool:
        return bool(self.scope & TEAM)


class Finding(NamedTuple):
    """What a person may want to do something about.

    `ids`: the memories concerned, the older first; of VERSIONS the one; of SHARE (the old one of
    the team, the private one that replaces it); of CITES (the one that cites, the superseded one,
    the one in its place). `keep`: which would stay, "" where only a person can say. `why`: one of a
    few words."""

    kind: str
    ids: tuple[str, ...]
    keep: str = ""
    why: str = ""
    near: float = 0.0
    row: int = 0
    slot: relation.Slot | None = None


class Looked(NamedTuple):
    """`upto`: the row before which everything was compared; `rows`: how many there are; `cut`:
    there was no time for all that was replaced.
    """

    found: list[Finding]
    compared: int
    upto: int
    rows: int
    cut: bool = False

    @property
    def whole(self) -> bool:
        return self.upto >= self.rows


def find(
    cache: Cache,
    since: int = 0,
    seconds: float = 60.0,
    skip: Callable[[Finding], bool] = lambda finding: False,
    most: int = 1000,
    progress: Callable[[int], None] = lambda n: None,
) -> Looked:
    """Compares the memories in rows from `since` on with all before them, for `seconds`, until
    `most` findings that `skip` does not take.
    """
    begun = time.monotonic()
    end, half = begun + seconds, superseded.TimeLimit(begun + seconds / 2)
    pool = _Pool(cache)
    found = [f for f in _without_comparing(cache, half) if not skip(f)][:most]
    rows = int(cache.meta("rows", "0"))
    upto, compared = since, 0
    merged = _Clusters()
    values: dict[str, set[str]] = {}
    taken: set[frozenset[str]] = set()
    for place, done, pairs in _candidates(cache, since):
        for a, b, near in pairs:
            one, other = pool.get(a), pool.get(b)
            pair = frozenset((one.id, other.id))
            finding = judge(one, other, near) if len(pair) == 2 and pair not in taken else None
            if finding is None:
                continue
            taken.add(pair)
            if finding.slot:
                values.setdefault(finding.slot.frame, set()).update(finding.slot[1:])
            if not skip(finding) and (finding.kind != MERGE or merged.join(*finding.ids)):
                found.append(finding._replace(row=max(a, b)))
        upto, compared = place, compared + done
        progress(done)
        if len(found) >= most or time.monotonic() > end:
            break
    else:
        upto = rows
    # A sentence with three values is a list, whose items do not contradict each other. Three
    # numbers or days may be two changes.
    kept = [
        f
        for f in found
        if not f.slot or len(values[f.slot.frame]) <= 2 + relation.of_a_kind(f.slot)
    ]
    return Looked(kept, compared, upto, rows, half.cut)


def _without_comparing(cache: Cache, limit: superseded.TimeLimit) -> Iterator[Finding]:
    """What the records themselves say."""
    for id, row in superseded.edited_twice(cache):
        yield Finding(VERSIONS, (id,), id, EDITED, 1.0, row)
    for id, by, row in superseded.replaced_privately(cache, limit):
        yield Finding(SHARE, (id, by), by, YOURS, 1.0, row)
    for id, old, by, row in superseded.citing_replaced(cache, limit):
        yield Finding(CITES, (id, old, by), by, REPLACED, 1.0, row)


# --- judging ----------------------------------------------------------------


def judge(one: Memory, other: Memory, near: float) -> Finding | None:
    """What there is between two memories whose vectors have the cosine `near`. Pure."""
    old, new = sorted((one, other), key=lambda m: (m.at, m.row))
    ids = (old.id, new.id)
    forth, back = relation.holds(old.text, new.text, near), relation.holds(new.text, old.text, near)
    event = bool(_EVENTS & {old.type, new.type})
    if forth or back:
        return _merge(old, new, forth, back, near) if not event or _one_event(old, new) else None
    if event:
        return None
    if found := relation.slot(old.text, new.text, near):
        beside = bool(old.paths & new.paths)
        return (
            Finding(CONTRADICTION, ids, "", VALUE, near, 0, found)
            if relation.differs(found, near, beside)
            else None
        )
    if relation.denies(new.text, old.text, near):
        return Finding(CONTRADICTION, ids, "", AGAINST, near)
    if relation.replaces(new.text, old.text, near):
        return _newer(old, new, AGAINST, near)
    return _newer(old, new, WORDING, near) if relation.rewords(old.text, new.text, near) else None


def _one_event(old: Memory, new: Memory) -> bool:
    """Whether two alike texts are about one event: what happened twice is two memories."""
    return similarity.normal(old.text) == similarity.normal(new.text) and (
        old.anchor == new.anchor or bool(old.session and old.session == new.session)
    )


def _newer(old: Memory, new: Memory, why: str, near: float) -> Finding:
    """The newer one stays, except where it is private and the other the team's: then a person
    says."""
    return Finding(
        SUPERSEDE, (old.id, new.id), "" if old.team and not new.team else new.id, why, near
    )


def _merge(old: Memory, new: Memory, forth: bool, back: bool, near: float) -> Finding | None:
    """`forth`: the old one says all of the new one, `back`: the new one all of the old one.

    The team's stays where it says enough; then the richer, then the older one.
    """
    if old.team != new.team:
        ours, enough = (old, forth) if old.team else (new, back)
        return (
            Finding(MERGE, (old.id, new.id), ours.id, SAME if forth and back else ALL, near)
            if enough
            else None
        )
    keep = old if forth else new
    return Finding(MERGE, (old.id, new.id), keep.id, SAME if forth and back else ALL, near)


class _Clusters:
    """Memories that say the same, so that five of them make four proposals and not ten."""

    def __init__(self) -> None:
        self._root: dict[str, str] = {}

    def join(self, one: str, other: str) -> bool:
        """Whether they were apart until now."""
        a, b = self._find(one), self._find(other)
        self._root[a] = b
        return a != b

    def _find(self, id: str) -> str:
        while (up := self._root.get(id, id)) != id:
            id = up
        return id


# --- candidates -------------------------------------------------------------


class _Pool:
    """Memories by row, read once."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._have: dict[int, Memory] = {}
        self._latest = filters.latest(cache)

    def get(self, row: int) -> Memory:
        if row not in self._have:
            if len(self._have) >= _KEPT:
                self._have.clear()
            data, scope, _ = memory_rows.load(self._cache, [row])[0]
            self._have[row] = Memory(row, data, scope, self._latest)
        return self._have[row]


def _candidates(
    cache: Cache, since: int
) -> Iterator[tuple[int, int, list[tuple[int, int, float]]]]:
    """(row before which all was given, how many new rows it took, [(row, row, cosine)]), in the
    order of the rows.
    """
    rows = [
        row for (row,) in cache.db.execute("SELECT row FROM memory WHERE status = 0 ORDER BY row")
    ]
    first = next((i for i, row in enumerate(rows) if row >= since), len(rows))
    if first == len(rows):
        return
    from ..engine import vectors

    known = cache.vectors(rows)
    dims = len(next(iter(known.values()), b"")) or 1
    zero = bytes(dims)
    all_vectors = [known.get(row, zero) for row in rows]
    place = {row: i for i, row in enumerate(rows)}
    beside = _beside(cache, rows[first])
    done = first
    for end, pairs in vectors.near_pairs(all_vectors, dims, first, NEAREST, MOST):
        block = [(rows[j], rows[i], near) for i, j, near in pairs]
        seen = {(a, b) for a, b, _ in block}
        more = {(min(a, b), max(a, b)) for b in rows[done:end] for a in beside.get(b, ())} - seen
        cosines = vectors.cosines(
            [(all_vectors[place[a]], all_vectors[place[b]]) for a, b in sorted(more)], dims
        )
        block += [(a, b, near) for (a, b), near in zip(sorted(more), cosines, strict=True)]
        block.sort(key=lambda p: (p[1], -p[2], p[0]))
        yield (rows[end] if end < len(rows) else rows[-1] + 1), end - done, block
        done = end


def _beside(cache: Cache, since: int) -> dict[int, set[int]]:
    """{new row: earlier rows with an equal text, or that name a common path}."""
    out: dict[int, set[int]] = {}
    groups: dict[object, list[int]] = {}
    sql = (
        "SELECT digest, row FROM memory WHERE status = 0 AND digest IN (SELECT digest FROM memory"
        " WHERE status = 0 GROUP BY digest HAVING count(*) > 1)"
    )
    for digest, row in cache.db.execute(sql):
        groups.setdefault(digest, []).append(row)
    for path, row in cache.db.execute(
        "SELECT l.value, l.row FROM label l JOIN memory m ON m.row = l.row WHERE l.kind = 'path'"
        " AND m.status = 0"
    ):
        groups.setdefault(path, []).append(row)
    for key, rows in groups.items():
        if isinstance(key, bytes):
            rows = sorted(rows)
            pairs: Iterable[tuple[int, int]] = pairwise(rows)  # a chain says it all
        elif len(rows) <= CROWD:
            pairs = ((a, b) for b in rows if b >= since for a in rows if a < b)
        else:
            continue
        for a, b in pairs:
            if b >= since:
                out.setdefault(b, set()).add(a)
    return out
