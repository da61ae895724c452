"""What connects two memories, and how strongly: edges between rows of the cache.

| kind | between | weight | |---|---|---| | supersedes | a memory and the one whose place it took |
1 | | mentions | a memory and one whose id stands in its text | 1 | | session | memories of one
agent's session | 1 | | file | memories that name the same file | common paths as a share of all
paths of both, from FILES_FROM | | similar | texts with common runs of three words | the share of
common runs (Jaccard), above 0.3 | | near | a text and the NEAR nearest in meaning of those before
it | the cosine of the packaged table's vectors, from NEAR_FROM | | time | what one author wrote
within half an hour | 1 falling to 0 |

Promises. A weight depends on the two memories alone, so neither the order in
which they came nor what else is stored changes it. Every memory has at most
some 2 * WINDOW edges for each of its files, for its session and for each entry
of its sketch, two in time, and NEAR that it chose by meaning (others may choose
it, too): a file that 10,000 memories name makes 40,000 edges, not 50 million.
No pair of texts is compared but for a reason; only vectors of many new rows
are all compared with those before them (numpy, 0.9 ms a row among 100,000).

What is missed. Of a file, a session or a run of words that more than WINDOW
memories share: all but WINDOW on either side, the nearest in time. Of texts at a
Jaccard of exactly 0.3: 6 % (0.7 ** 8: none of the eight smallest hashes of both
together is common), at 0.5: 0.4 %. Of meaning: all but the NEAR best, and with
few new rows what is not among the 64 nearest sign codes.
"""

from __future__ import annotations

import datetime
from array import array
from collections import OrderedDict
from functools import cached_property
from zlib import crc32

from ..core import id_mentions, text
from ..core.digest import sha256
from ..engine import document, hamming
from ..engine.cache import CODE, Damaged
from ..engine.document import ACTIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..core.record import Record
    from ..engine.cache import Cache

    Edges = dict[tuple[int, int, int], float]

KINDS = ("supersedes", "mentions", "session", "file", "similar", "near", "time")
SUPERSEDES, MENTIONS, SESSION, FILE, SIMILAR, NEARBY, TIME = range(len(KINDS))

WINDOW = 4  # memories before and behind, in the order of time
# Less is a commit that went over the whole tree, beside one that touched a file of it.
FILES_FROM = 0.1
JACCARD = 0.3  # of seed 002
RUN = 3  # words
SKETCH = 8  # smallest hashes that stand for a text
# Commits of one topic (restic, 960 pairs) reach it in 15 of 100 pairs, two drawn by chance from its
# history in 8 of 10,000; 0.6: 22 and 22, 0.7: 9 and 3.
NEAR_FROM = 0.65
NEAR = 5
# After half an hour without a sign the next thing somebody does is commonly counted as another
# visit; commits of one piece of work are closer.
CLOSE = 30 * 60
# More memories of one second than a person writes were imported: that they came together says
# nothing.
TYPED = 3
# comparisons from which the import of numpy pays: plain Python takes 1 microsecond each
_PAIRS = 500_000
_BESIDE = 64  # memories looked at on either side in time, of all authors
_LOOKED_AT = 64  # nearest sign codes whose cosines are computed
_MANY = 1_000  # new rows from which reading all times once is cheaper than asking for each path
_TEXTS = 5_000  # sets of runs kept in memory
_HEX = frozenset("0123456789abcdef")


def _versions(names: Iterable[str]) -> list[bytes]:
    return [bytes.fromhex(v) for v in names if len(v) == 32 and _HEX.issuperset(v)]


class Node:
    """One row as edges need it."""

    def __init__(
        self, row: int, id: str, line: int, status: int, at: str, author: str, record: Record
    ) -> None:
        self.row, self.id, self.line, self.status, self.at, self.author = (
            row,
            id,
            line,
            status,
            at,
            author,
        )
        self.data = record.data
        self.after = _versions(record.after)
        self.paths = frozenset(document.storable(p) for p in document.paths_of(self.data))
        self.session = session_key(self.data.get("session"))

    @cached_property
    def words(self) -> list[str]:
        return text.terms(document.vector_text(self.data))

    def names(self, id: str) -> bool:
        return bool(id_mentions.named(document.vector_text(self.data), [id]))


class Finder:
    """The edges of some rows with all rows of a cache; nothing is written but their sketches
    (`sketches`), which the caller keeps.
    """

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self._runs: OrderedDict[int, frozenset[int]] = OrderedDict()
        self._paths: dict[int, frozenset[str]] = {}

    def edges(self, rows: Sequence[int]) -> tuple[Edges, list[tuple[int, bytes, int]]]:
        """({(a, b, kind): weight}, [(row, sketch, session key)] of those rows). a < b, but of
        `supersedes` a is the newer one.
        """
        nodes = list(self._nodes(rows))
        out: Edges = {}
        active = [n for n in nodes if n.status == ACTIVE]
        sketches = self._sketches(active)
        for node in nodes:
            self._supersedes(node, out)
        self._mentions(active, out)
        self._files(active, out)
        self._sessions(active, out)
        self._similar(active, sketches, out)
        self._near(active, out)
        for node in active:
            self._time(node, out)
        return out, [(n.row, sketches[n.row].tobytes(), n.session) for n in active]

    def _nodes(self, rows: Sequence[int]) -> Iterator[Node]:
        from ..core import record

        for part in _parts(rows):
            sql = (
                "SELECT m.row, m.id, m.line, m.status, m.at, m.author, l.raw FROM memory m JOIN"
                f" line l ON l.n = m.line WHERE m.status < 2 AND m.row IN ({part})"
            )
            for row, id, line, status, at, author, raw in self.cache.db.execute(sql):
                parsed = record.parse(raw)
                if parsed is None:
                    raise Damaged("a stored record cannot be read")
                yield Node(row, id, line, status, at, author, parsed)

    # Stated

    def _supersedes(self, node: Node, out: Edges) -> None:
        """What it replaces, and what replaced it: either may have come later."""
        db = self.cache.db
        # By the memory, not by its line: an edit since has another one. CROSS: from this row on,
        # not from all memories.
        sql = (
            "SELECT m.row, m.id FROM line l CROSS JOIN cover c ON c.version = l.version CROSS JOIN"
            " line b ON b.n = c.by CROSS JOIN memory m ON m.id = CAST(b.memory AS TEXT) WHERE l.n ="
            " ? AND m.status < 2"
        )
        out.update(
            {
                (row, node.row, SUPERSEDES): 1.0
                for row, id in db.execute(sql, (node.line,))
                if id != node.id
            }
        )
        for version in {*node.after, *self._covered(node)}:
            found = db.execute(
                "SELECT m.row, m.id FROM line l JOIN memory m ON m.line = l.n WHERE l.version = ?"
                " AND m.status < 2",
                (version,),
            )
            out.update({(node.row, row, SUPERSEDES): 1.0 for row, id in found if id != node.id})

    def _covered(self, node: Node) -> Iterator[bytes]:
        """The versions that earlier lines of the same memory cover."""
        from ..core import record

        for (raw,) in self.cache.db.execute(
            "SELECT raw FROM line WHERE memory = ? AND n <> ? AND op IN ('create', 'edit')",
            (node.id.encode("utf-8", "replace"), node.line),
        ):
            parsed = record.parse(raw)
            yield from _versions(parsed.after) if parsed else ()

    def _mentions(self, nodes: Sequence[Node], out: Edges) -> None:
        db = self.cache.db
        for node in nodes:
            for word in id_mentions.words(node.words):
                found = db.execute(
                    "SELECT row, id FROM memory WHERE id >= ? AND id < ? AND status = 0 LIMIT 3",
                    (word, word + "g"),
                ).fetchall()
                if (
                    len({id for _, id in found}) == 1
                    and found[0][1] != node.id
                    and node.names(found[0][1])
                ):
                    out[(*_pair(node.row, found[0][0]), MENTIONS)] = 1.0
        # And those who named it before it came: the full-text index has the first seven digits of
        # each such word.
        named = {n.id[:7]: n for n in nodes}
        for part in _parts(list(named), quote=True):
            for (word,) in db.execute(f"SELECT word FROM term WHERE word IN ({part})").fetchall():
                node = named[word]
                for other in self._nodes(
                    [
                        row
                        for (row,) in db.execute(
                            "SELECT rowid FROM fts WHERE fts MATCH ? LIMIT 20", (f'"{word}"',)
                        )
                    ]
                ):
                    if other.id != node.id and other.names(node.id):
                        out[(*_pair(node.row, other.row), MENTIONS)] = 1.0

    # Together

    def _files(self, nodes: Sequence[Node], out: Edges) -> None:
        asked: dict[str, set[int]] = {}
        for node in nodes:
            self._paths[node.row] = node.paths
            for path in node.paths:
                asked.setdefault(path, set()).add(node.row)
        pairs: set[tuple[int, int]] = set()
        whole = self._times() if len(nodes) >= _MANY else {}
        for path, new in asked.items():
            if whole:
                found = [
                    row
                    for (row,) in self.cache.db.execute(
                        "SELECT row FROM label WHERE kind = 'path' AND value = ?", (path,)
                    )
                    if row in whole
                ]
                members = sorted(found, key=lambda row: (whole[row], row))
            else:
                sql = (
                    "SELECT m.row FROM label b JOIN memory m ON m.row = b.row WHERE b.kind = 'path'"
                    " AND b.value = ? AND m.status = 0 ORDER BY m.at, m.row"
                )
                members = [row for (row,) in self.cache.db.execute(sql, (path,))]
            pairs.update(_windows(members, new))
        ids = self._ids({row for pair in pairs for row in pair})
        self._read_paths(sorted({row for pair in pairs for row in pair} - self._paths.keys()))
        for a, b in pairs:
            one, other = self._paths[a], self._paths[b]
            share = len(one & other) / len(one | other)
            if share >= FILES_FROM and ids.get(a) != ids.get(
                b
            ):  # two versions of one memory are no two memories
                out[a, b, FILE] = share
        if len(self._paths) > 20 * _TEXTS:
            self._paths.clear()

    def _times(self) -> dict[int, str]:
        return dict(self.cache.db.execute("SELECT row, at FROM memory WHERE status = 0").fetchall())

    def _read_paths(self, rows: Sequence[int]) -> None:
        for node in self._nodes(rows):
            self._paths[node.row] = node.paths

    def _sessions(self, nodes: Sequence[Node], out: Edges) -> None:
        asked: dict[int, list[tuple[str, int]]] = {}
        for node in nodes:
            if node.session:
                asked.setdefault(node.session, []).append((node.at, node.row))
        for key, new in asked.items():
            kept = self.cache.db.execute(
                "SELECT m.at, m.row FROM sketch s JOIN memory m ON m.row = s.row WHERE s.session ="
                " ? AND s.session > 0 AND m.status = 0",
                (key,),
            ).fetchall()
            out.update(
                {
                    (a, b, SESSION): 1.0
                    for a, b in _windows(
                        [row for _, row in sorted({*kept, *new})], {row for _, row in new}
                    )
                }
            )

    def _time(self, node: Node, out: Edges) -> None:
        here = seconds(node.at)
        if here is None:
            return
        db = self.cache.db
        for order, limit in (
            ("at <= ?1 AND at >= ?2 ORDER BY at DESC, id", here - CLOSE),
            ("at >= ?1 AND at <= ?2 ORDER BY at, id DESC", here + CLOSE),
        ):
            # In the order of the index, and no further than it pays: many authors may have been
            # imported in one second.
            beside = (
                f"SELECT row, at, author FROM memory WHERE status = 0 AND {order} LIMIT {_BESIDE}"
            )
            found = db.execute(
                f"SELECT row, at FROM ({beside}) WHERE author = ?3 LIMIT {TYPED + 2}",
                (node.at, _stored(limit), node.author),
            ).fetchall()
            if sum(at == node.at for _, at in found) > TYPED:
                return
            near = [
                (row, abs(there - here))
                for row, at in found
                if row != node.row and (there := seconds(at)) is not None
            ]
            out.update(
                {
                    (*_pair(node.row, row), TIME): 1 - gap / CLOSE
                    for row, gap in near[:1]
                    if gap < CLOSE
                }
            )

    # Alike

    def _sketches(self, nodes: Sequence[Node]) -> dict[int, array[int]]:
        out = {}
        for node in nodes:
            found = runs(node.words)
            self._keep(node.row, found)
            out[node.row] = sketch(found)
        return out

    def _keep(self, row: int, found: frozenset[int]) -> frozenset[int]:
        self._runs[row] = found
        self._runs.move_to_end(row)
        while len(self._runs) > _TEXTS:
            self._runs.popitem(last=False)
        return found

    def _runs_of(self, row: int) -> frozenset[int]:
        known = self._runs.get(row)
        if known is None:
            known = self._keep(row, next((runs(n.words) for n in self._nodes([row])), frozenset()))
        return known

    def _similar(self, nodes: Sequence[Node], sketches: dict[int, array[int]], out: Edges) -> None:
        """Those with an entry of the sketch in common are compared."""
        asked: dict[int, set[int]] = {}
        for node in nodes:
            for entry in sketches[node.row]:
                asked.setdefault(entry, set()).add(node.row)
        having: dict[int, list[int]] = {entry: list(new) for entry, new in asked.items()}
        wanted = asked.keys()
        for row, blob in self.cache.db.execute("SELECT row, grams FROM sketch"):
            if row not in sketches:
                for entry in wanted & array("I", blob):
                    having[entry].append(row)
        compared: set[tuple[int, int]] = set()
        for entry, members in having.items():
            # In a crowd any will do, and the order of rows costs no look-up.
            compared.update(_windows(sorted(members), asked[entry]))
        ids = self._ids({row for pair in compared for row in pair})
        for a, b in compared:
            if ids.get(a) != ids.get(b):  # two versions of one memory are no two memories
                share = jaccard(self._runs_of(a), self._runs_of(b))
                if share > JACCARD:
                    out[a, b, SIMILAR] = share

    def _ids(self, rows: Iterable[int]) -> dict[int, str]:
        return {
            row: id
            for part in _parts(list(rows))
            for row, id in self.cache.db.execute(
                f"SELECT row, id FROM memory WHERE row IN ({part})"
            )
        }

    def _near(self, nodes: Sequence[Node], out: Edges) -> None:
        """Each memory chooses among those that came before it: so what it chose stands, whatever
        comes.
        """
        if self.cache.blind or not nodes:
            return
        new = sorted(n.row for n in nodes)
        found = self._near_many(new) if len(new) * new[-1] > _PAIRS else self._near_few(new)
        ids = self._ids({row for pair in found for row in pair[:2]})
        out.update(
            {(*_pair(a, b), NEARBY): cosine for a, b, cosine in found if ids.get(a) != ids.get(b)}
        )

    def _near_few(self, new: Sequence[int]) -> list[tuple[int, int, float]]:
        codes = self.cache.codes()
        found = []
        for row, vector in sorted(self.cache.vectors(new).items()):
            if any(vector):
                # A zero code, of a row that is hidden, is as far as any foreign one: it takes no
                # place.
                near = [
                    other
                    for _, other in hamming.nearest(
                        codes[: row * CODE], codes[row * CODE : (row + 1) * CODE], _LOOKED_AT
                    )
                ]
                vectors = self.cache.vectors(near)
                found += [
                    (row, other, cosine)
                    for cosine, other in hamming.rescore(vectors, vector, sorted(vectors))[:NEAR]
                    if cosine >= NEAR_FROM
                ]
        return found

    def _near_many(self, new: Sequence[int]) -> list[tuple[int, int, float]]:
        from ..engine import vectors

        rows = [
            row
            for (row,) in self.cache.db.execute(
                "SELECT row FROM vector WHERE row <= ? ORDER BY row", (new[-1],)
            )
        ]
        kept = self.cache.vectors(rows)
        first = next((i for i, row in enumerate(rows) if row >= new[0]), len(rows))
        if first == len(rows):
            return []
        blocks = vectors.near_pairs(
            [kept[row] for row in rows], len(kept[rows[0]]), first, NEAR_FROM, NEAR
        )
        return [(rows[i], rows[j], cosine) for _, pairs in blocks for i, j, cosine in pairs]


# --- pure parts ---------------------------------------------------------------


def runs(words: Sequence[str]) -> frozenset[int]:
    """Hashes of all runs of three words, stop words being gone; a shorter text is one run."""
    if len(words) < RUN:
        return frozenset([_hash(" ".join(words))]) if words else frozenset()
    return frozenset([_hash(" ".join(words[i : i + RUN])) for i in range(len(words) - RUN + 1)])


def _hash(words: str) -> int:
    # A CRC of like texts is alike; the product spreads it, so that the smallest are a fair sample.
    return crc32(words.encode("utf-8", "replace")) * 0x9E3779B1 & 0xFFFFFFFF


def sketch(found: frozenset[int]) -> array[int]:
    return array("I", sorted(found)[:SKETCH])


def jaccard(a: frozenset[int], b: frozenset[int]) -> float:
    common = len(a & b)
    return common / (len(a) + len(b) - common) if common else 0.0


def session_key(session: object) -> int:
    """A number for a session's name, 0 for none; the name itself is not needed."""
    return (
        int.from_bytes(sha256(session.encode("utf-8", "replace")).digest()[:7], "big") + 1
        if isinstance(session, str) and session.strip()
        else 0
    )


def seconds(at: str) -> int | None:
    """Seconds since 1970 of a stored time; None where somebody wrote another one."""
    try:
        return (
            int(datetime.datetime.fromisoformat(at).timestamp())
            if len(at) == 20 and at[19] == "Z"
            else None
        )
    except (ValueError, OverflowError):
        return None


def _stored(seconds: int) -> str:
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        return ""


def _windows(members: Sequence[int], new: set[int]) -> Iterator[tuple[int, int]]:
    """Pairs of a new member and the WINDOW before and behind it."""
    for at, row in enumerate(members):
        if row in new:
            for other in (*members[max(0, at - WINDOW) : at], *members[at + 1 : at + 1 + WINDOW]):
                yield _pair(row, other)


def _pair(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _parts(items: Sequence[object], size: int = 500, quote: bool = False) -> Iterator[str]:
    """Lists of numbers, or of words of hexadecimal digits, as SQL has them."""
    for i in range(0, len(items), size):
        yield ",".join([f"'{x}'" if quote else str(x) for x in items[i : i + size]])
