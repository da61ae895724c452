"""Finds memories that say the same, replace or contradict each other; `proposals` writes them down.

Pairs are compared that have near vectors (the MOST nearest earlier memories with a cosine of
NEAREST or more), equal texts, or a path that both name. Then the words decide (`relation`), for few
false proposals.

Promise: no pair is found by its vectors alone. Comparing stops when its time is over and goes on
there the next time; a new memory is compared with all that were there before it.

Not found: the same in quite other words, a memory whose MOST nearest are others, paths and texts
that more than CROWD memories have, and two events in nearly the same words (two fixes of two bugs
are two memories).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from ..core import record
from ..core.digest import sha256
from ..engine import contradictions, filters, memory_rows, model_vectors
from ..engine.cache import SPACE, Cache
from ..engine.document import vector_text
from ..engine.memory_rows import TEAM
from . import relation, similarity

MERGE = "merge"
SUPERSEDE, CONTRADICTION = contradictions.SUPERSEDE, contradictions.CONTRADICTION
# In the order in which they are put before a person.
KINDS = (CONTRADICTION, SUPERSEDE, MERGE)

SAME, ALL, WORDING = "same", "all of it", "later wording"
AGAINST, VALUE = contradictions.AGAINST, contradictions.VALUE

NEAREST = 0.6  # cosine from which a pair of vectors is looked at
MOST = 8  # pairs of one memory by its vector
CROWD = 40  # memories that name one path; of more, they are not about it
_KEPT = 20_000  # memories whose texts are kept while one call compares
# What happened once, at one commit: the same words about another commit are another event.
_EVENTS = frozenset(["bugfix", "feature", "refactor", "change", "progress", "handoff"])


class Memory:
    """One visible version, as far as comparing needs it. `latest`: the latest time that counts."""

    def __init__(self, row: int, data: dict[str, Any], team: bool, latest: str) -> None:
        self.row = row
        self.id = str(data["id"])
        self.team = team
        self.text = record.clean(vector_text(data))
        self.type = memory_rows.word(data.get("type")) or record.DEFAULT_TYPE
        self.at = record.when(data.get("created"), latest) or record.when(data.get("at"), latest)
        self.paths = frozenset(memory_rows.paths(data))
        self.anchor = memory_rows.commit_of(data)
        self.session = memory_rows.word(data.get("session")) or ""


class Finding(NamedTuple):
    kind: str
    ids: tuple[str, str]  # the older first
    keep: str = ""  # which would stay, "" where only a person can say
    why: str = ""
    near: float = 1.0
    row: int = 0  # the later one
    slot: relation.Slot | None = None

    @property
    def id(self) -> str:
        """Names the pair, whatever is proposed about it."""
        text = "\n".join(["git mem proposal 1", "pair", *sorted(self.ids)])
        return sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


class Looked(NamedTuple):
    found: list[Finding]
    compared: int
    upto: int  # the row before which everything was compared
    whole: bool  # nothing is left to compare


def find(
    cache: Cache,
    since: int = 0,
    seconds: float = 60.0,
    known: Container[str] = (),
    most: int = 1000,
    progress: Callable[[int], None] = lambda n: None,
) -> Looked:
    """Compares the rows from `since` on with all before them; ends at `most` or after `seconds`.
    `known`: ids of findings to leave out.
    """
    end = time.monotonic() + seconds
    latest = filters.latest(cache)

    @lru_cache(_KEPT)
    def memory(row: int) -> Memory:
        data, scope, _ = memory_rows.load(cache, [row])[0]
        return Memory(row, data, bool(scope & TEAM), latest)

    found: list[Finding] = []
    rows = int(cache.meta("rows", "0"))
    upto, compared = since, 0
    same: dict[str, set[str]] = {}
    values: dict[str, set[str]] = defaultdict(set)
    taken: set[frozenset[str]] = set()
    for place, done, pairs in _candidates(cache, since):
        for a, b, near in pairs:
            one, other = memory(a), memory(b)
            pair = frozenset((one.id, other.id))
            finding = judge(one, other, near) if len(pair) == 2 and pair not in taken else None
            if finding is None:
                continue
            taken.add(pair)
            if finding.slot:
                values[finding.slot.frame].update(finding.slot[1:])
            if finding.id not in known and (finding.kind != MERGE or _joined(same, *finding.ids)):
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
    return Looked(kept, compared, upto, upto >= rows)


def _joined(same: dict[str, set[str]], one: str, other: str) -> bool:
    """Unites the sets of two memories that say the same; False where they were one already."""
    mine, theirs = same.get(one, {one}), same.get(other, {other})
    if other in mine:
        return False
    both = mine | theirs
    same.update(dict.fromkeys(both, both))
    return True


# Judging


def judge(one: Memory, other: Memory, near: float) -> Finding | None:
    """What there is between two memories whose vectors have the cosine `near`. Pure."""
    old, new = sorted((one, other), key=lambda m: (m.at, m.row))
    ids = (old.id, new.id)
    if _EVENTS & {old.type, new.type}:
        # What happened twice is two memories: the same words about one commit or session are one.
        same = similarity.normal(old.text) == similarity.normal(new.text)
        once = old.anchor == new.anchor or (old.session and old.session == new.session)
        return _merge(old, new, True, True, near) if same and once else None
    forth, back = relation.holds(old.text, new.text, near), relation.holds(new.text, old.text, near)
    if forth or back:
        return _merge(old, new, forth, back, near)
    if found := relation.slot(old.text, new.text, near):
        if relation.differs(found, near, bool(old.paths & new.paths)):
            return Finding(CONTRADICTION, ids, "", VALUE, near, slot=found)
        return None
    if relation.denies(new.text, old.text, near):
        return Finding(CONTRADICTION, ids, "", AGAINST, near)
    # The newer one stays, except where it is private and the other the team's: a person says.
    keep = "" if old.team and not new.team else new.id
    if relation.replaces(new.text, old.text, near):
        return Finding(SUPERSEDE, ids, keep, AGAINST, near)
    if relation.rewords(old.text, new.text, near):
        return Finding(SUPERSEDE, ids, keep, WORDING, near)
    return None


def _merge(old: Memory, new: Memory, forth: bool, back: bool, near: float) -> Finding | None:
    """The team's stays where it says enough; then the richer, then the older one."""
    keep = old if forth else new
    if old.team != new.team:
        keep = old if old.team else new
        if not (forth if old.team else back):
            return None
    why = SAME if forth and back else ALL
    return Finding(MERGE, (old.id, new.id), keep.id, why, near)


# Candidates


def _candidates(
    cache: Cache, since: int
) -> Iterator[tuple[int, int, list[tuple[int, int, float]]]]:
    """(row before which all was given, number of new rows taken, [(row, row, cosine)]), by rows."""
    sql = "SELECT row FROM memory WHERE status = 0 ORDER BY row"
    rows = [row for (row,) in cache.db.execute(sql)]
    first = next((i for i, row in enumerate(rows) if row >= since), len(rows))
    if first == len(rows):
        return
    from ..engine import vectors

    known = model_vectors.of(cache, SPACE, rows)[0]
    dims = len(next(iter(known.values()), b"")) or 1
    vector = {row: known.get(row, bytes(dims)) for row in rows}
    beside = _beside(cache, rows[first])
    done = first
    for end, pairs in vectors.near_pairs([*vector.values()], dims, first, NEAREST, MOST):
        block = [(rows[j], rows[i], near) for i, j, near in pairs]
        seen = {(a, b) for a, b, _ in block}
        more = sorted({(a, b) for b in rows[done:end] for a in beside[b]} - seen)
        cosines = vectors.cosines([(vector[a], vector[b]) for a, b in more], dims)
        block += [(a, b, near) for (a, b), near in zip(more, cosines, strict=True)]
        block.sort(key=lambda p: (p[1], -p[2], p[0]))
        yield (rows[end] if end < len(rows) else rows[-1] + 1), end - done, block
        done = end


def _beside(cache: Cache, since: int) -> dict[int, set[int]]:
    """{new row: earlier rows with an equal text, or that name a common path}."""
    sql = (
        "SELECT hex(digest), row FROM memory WHERE status = 0 AND digest IN (SELECT digest"
        " FROM memory WHERE status = 0 GROUP BY digest HAVING count(*) > 1) UNION ALL"
        " SELECT '/' || value, row FROM label JOIN memory USING (row)"
        " WHERE kind = 'path' AND status = 0 ORDER BY 2"
    )
    groups: dict[str, list[int]] = defaultdict(list)
    for key, row in cache.db.execute(sql):
        groups[key].append(row)
    out: dict[int, set[int]] = defaultdict(set)
    for rows in groups.values():
        if len(rows) <= CROWD:
            for i, row in enumerate(rows):
                if row >= since:
                    out[row].update(rows[:i])
    return out
