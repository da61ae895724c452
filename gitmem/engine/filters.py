"""Which memories take part in a search or a list: conditions as SQL over the cache.

Filters come before candidates, so a filtered search with ten answers gives ten, however rare they
are. Every value is a bound parameter.
"""

from __future__ import annotations

from ..core import fastjson, record
from ..core.record import clean
from .memory_rows import ACTIVE, FORGOTTEN, PRIVATE, SUPERSEDED, TEAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .cache import Cache


def above(path: str) -> list[str]:
    """A path and the directories above it, in every spelling that a memory may name them by."""
    parts = path.rstrip("/").split("/")
    return ["/".join(parts[:i]) + end for i in range(1, len(parts) + 1) for end in ("", "/")]


def latest(cache: Cache) -> str:
    """The latest time of a record that counts (`record.latest`), by the notes' commits."""
    (newest,) = cache.db.execute(
        "SELECT max(value) FROM meta WHERE key > 'time:' AND key < 'time;'"
    ).fetchone()
    return record.latest(newest or "")


def newest_first(cache: Cache, table: str = "memory") -> str:
    """Terms of an ORDER BY: the newest first, times that cannot be (`latest`) last; ties by id."""
    return f"{table}.at > '{latest(cache)}', {table}.at DESC, {table}.id"


class Filter:
    """Conditions that must all hold; empty ones do not restrict. Times are stored ones; a malformed
    time of a record is before every `since` and every `until`.
    """

    def __init__(
        self,
        *,
        types: Sequence[str] = (),
        tags: Sequence[str] = (),
        paths: Sequence[str] = (),
        phase: str = "",
        since: str = "",
        until: str = "",
        author: str = "",
        scope: str = "",
        anchors: Sequence[str] | None = None,
        without: Sequence[str] = (),
        superseded: bool = False,
    ) -> None:
        self.types = [t.lower() for t in _spellings(types)]
        self.tags = _spellings(tags)
        self.paths = [clean(path) for path in paths]  # as records name them
        self.phase = phase
        self.since = since
        self.until = until
        self.author = author
        self.scope = scope
        self.anchors = anchors  # only memories of these commits ("" = made before the first commit)
        self.without = without  # no memories of these commits
        self.superseded = superseded
        self.forgotten = False  # whether only these are searched (`listing.list_forgotten`)
        # Only memories whose signature was found to be in such a state.
        self.signatures: Sequence[str] | None = None
        # without what came back for other HEADs than this one (`reinstated.seen_from`)
        self.head = ""
        self.hidden = False  # whether rows are searched that are not active (`snapshot_view`)

    @property
    def empty(self) -> bool:
        return self.plain and not self.hidden

    @property
    def plain(self) -> bool:
        """Whether every active row that the table `memory` shows meets them."""
        others = self.superseded or self.forgotten
        return not (others or any(applies for applies, *_ in self._conditions()))

    def but(self, **changed: object) -> Filter:
        """The same conditions, with some attributes changed."""
        other = Filter()
        other.__dict__.update(self.__dict__, **changed)
        return other

    def count(self, cache: Cache) -> int:
        """How many memories meet them; alternatives of one count once."""
        beside = (
            "SELECT count(*) FROM memory m WHERE nth > 0 AND status = 0 AND EXISTS"
            " (SELECT 1 FROM memory o WHERE o.id = m.id AND o.status = 0 AND o.nth < m.nth)"
        )
        more = cache.db.execute(beside).fetchone()[0]
        if self.empty:
            return cache.count() - int(more)
        sql, args = self.sql()
        counted = f"SELECT count(*) FROM ({sql})"
        if more or self.superseded:
            counted = f"SELECT count(DISTINCT id) FROM memory WHERE row IN ({sql})"
        return int(cache.db.execute(counted, args).fetchone()[0])

    def sql(self) -> tuple[str, list[object]]:
        """(SELECT of the allowed rows, its parameters)."""
        status = FORGOTTEN if self.forgotten else ACTIVE
        # As a number: SQLite takes an index of the active rows for no parameter.
        where = [f"status <= {SUPERSEDED}" if self.superseded else f"status = {status}"]
        args: list[object] = []
        for applies, condition, values in self._conditions():
            if applies:
                where.append(condition)
                args += values
        return "SELECT row FROM memory WHERE " + " AND ".join(where), args

    def _conditions(self) -> Iterator[tuple[object, str, Sequence[object]]]:
        """(whether it applies, SQL, its parameters) of every condition."""
        yield self.types, f"type IN ({_marks(self.types)})", self.types
        yield self.tags, _labelled("tag", f"value IN ({_marks(self.tags)})"), self.tags
        yield self.paths, *self._below()
        phases = _spellings([self.phase])
        yield self.phase, _labelled("phase", f"value IN ({_marks(phases)})"), phases
        yield self.since, "at >= ?", [self.since]
        yield self.until, "at <= ?", [self.until]
        yield self.author, "instr(casefold(author), ?) > 0", [self.author.casefold()]
        yield self.scope == "team", "scope & ? > 0", [TEAM]
        yield self.scope not in ("", "team"), "scope = ?", [PRIVATE]
        anchors = "coalesce(anchor, '') {} (SELECT value FROM json_each(?))"
        some = fastjson.dumps(list(self.anchors or ()))
        yield self.anchors is not None, anchors.format("IN"), [some]
        yield self.without, anchors.format("NOT IN"), [fastjson.dumps(list(self.without))]
        # A text that is united from several lines is signed by nobody.
        signed = self.signatures or ()
        yield (
            self.signatures is not None,
            f"line IN (SELECT n FROM signature WHERE state IN ({_marks(signed)}))"
            " AND row NOT IN (SELECT row FROM united)",
            signed,
        )
        # With the superseded ones, memories are wanted as what they are here.
        yield (
            self.head and not self.superseded,
            "row NOT IN (SELECT row FROM reinstated WHERE row NOT IN"
            " (SELECT row FROM reinstated WHERE head = ?))",
            [self.head],
        )

    def _below(self) -> tuple[str, list[str]]:
        """The condition of `paths`: a memory names one of them, or something above or below. As
        two lists: an expression for each path is too deep for SQLite from 200 on.
        """
        bare = [path.rstrip("/") for path in self.paths]
        names = [name for path in bare for name in above(path)]
        below = (
            "SELECT row FROM json_each(?) p CROSS JOIN label l ON kind = 'path'"
            " AND l.value >= p.value || '/' AND l.value < p.value || '0'"  # "0" follows "/"
        )
        exactly = _labelled("path", "value IN (SELECT value FROM json_each(?))")
        return f"({exactly} OR row IN ({below}))", [fastjson.dumps(names), fastjson.dumps(bare)]


def _spellings(words: Sequence[str]) -> list[str]:
    """Words as given, which another tool may have written, and with the single blanks of ours."""
    return [*dict.fromkeys([*words, *(" ".join(word.split()) for word in words)])]


def _labelled(kind: str, condition: str) -> str:
    return f"row IN (SELECT row FROM label WHERE kind = '{kind}' AND {condition})"


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))
