"""Which memories take part in a search or a list: conditions as SQL over the cache.

Promise: filters come before candidates, so a filtered search with ten answers
gives ten, however rare they are. Every value is a bound parameter.
"""

from __future__ import annotations

from ..core import fastjson, record
from ..core.record import clean
from .document import ACTIVE, PRIVATE, SUPERSEDED, TEAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .cache import Cache


def above(path: str) -> list[str]:
    """A path and the directories above it, in every spelling that a memory may name them by."""
    parts = path.rstrip("/").split("/")
    return ["/".join(parts[:i]) + end for i in range(1, len(parts) + 1) for end in ("", "/")]


def latest(cache: Cache) -> str:
    """The latest time of a record that counts (`record.latest`), by the commits of the notes that
    the cache was made from.
    """
    (newest,) = cache.db.execute(
        "SELECT max(value) FROM meta WHERE key > 'time:' AND key < 'time;'"
    ).fetchone()
    return record.latest(newest or "")


def newest_first(cache: Cache, table: str = "memory") -> str:
    """Terms of an ORDER BY: the newest first, last the malformed times and those that cannot be
    (`latest`); ties by id.
    """
    return f"{table}.at > '{latest(cache)}', {table}.at DESC, {table}.id"


class Filter:
    """Conditions that must all hold; empty ones do not restrict. Times are stored ones (UTC, ISO
    8601).

    A malformed time of a record is before every `since` and every `until`.
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
        self.types = [t.lower() for t in types]
        self.tags = list(tags)
        self.paths = [clean(path) for path in paths]  # as records name them
        self.phase = phase
        self.since = since
        self.until = until
        self.author = author
        self.scope = scope
        self.anchors = anchors  # only memories of these commits ("" = made before the first commit)
        self.without = without  # no memories of these commits
        self.superseded = superseded
        self.signatures: Sequence[str] | None = (
            None  # only memories whose signature was found to be in such a state
        )
        # without what came back for other HEADs than this one (`reinstated.seen_from`)
        self.head = ""
        self.table = ""  # of the rows there are, where `memory` is narrowed itself (`then`)

    @property
    def empty(self) -> bool:
        return self.plain and not self.table

    @property
    def plain(self) -> bool:
        """Whether every active row that the table `memory` shows meets them."""
        return not (
            self.types
            or self.tags
            or self.paths
            or self.phase
            or self.since
            or self.until
            or self.author
            or self.scope
            or self.anchors is not None
            or self.without
            or self.superseded
            or self.signatures is not None
            or self.head
        )

    def copy(self) -> Filter:
        other = Filter()
        other.__dict__.update(self.__dict__)
        return other

    def leaving_out(self, commits: Sequence[str]) -> Filter:
        """The same conditions, and no memories of these commits."""
        other = self.copy()
        other.without = commits
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

    def sql(self) -> tuple[str, list[object]]:  # noqa: C901
        """(SELECT of the allowed rows, its parameters)."""
        where = ["status = ?" if not self.superseded else "status <= ?"]
        args: list[object] = [SUPERSEDED if self.superseded else ACTIVE]
        if self.types:
            where.append(f"type IN ({_marks(self.types)})")
            args += self.types
        if self.tags:  # set overlap, as seed 003 has it
            where.append(
                "row IN (SELECT row FROM label WHERE kind = 'tag' AND value IN"
                f" ({_marks(self.tags)}))"
            )
            args += self.tags
        if self.paths:
            one = []
            for path in self.paths:
                bare, names = path.rstrip("/"), above(path)
                one.append(f"value IN ({_marks(names)}) OR (value >= ? AND value < ?)")
                args += [*names, bare + "/", bare + "0"]  # "0" follows "/" in ASCII
            where.append(
                f"row IN (SELECT row FROM label WHERE kind = 'path' AND ({' OR '.join(one)}))"
            )
        if self.phase:
            where.append("phase = ?")
            args.append(self.phase)
        if self.since:
            where.append("at >= ?")
            args.append(self.since)
        if self.until:
            where.append("at <= ?")
            args.append(self.until)
        if self.author:
            where.append("instr(casefold(author), ?) > 0")
            args.append(self.author.casefold())
        if self.scope:
            where.append("scope & ? > 0" if self.scope == "team" else "scope = ?")
            args.append(TEAM if self.scope == "team" else PRIVATE)
        if self.anchors is not None:
            where.append("coalesce(anchor, '') IN (SELECT value FROM json_each(?))")
            args.append(fastjson.dumps(list(self.anchors)))
        if self.without:
            where.append("coalesce(anchor, '') NOT IN (SELECT value FROM json_each(?))")
            args.append(fastjson.dumps(list(self.without)))
        if self.signatures is not None:
            # A text that is united from several lines is signed by nobody.
            where.append(
                f"line IN (SELECT n FROM signature WHERE state IN ({_marks(self.signatures)}))"
                " AND row NOT IN (SELECT row FROM united)"
            )
            args += self.signatures
        if self.head and not self.superseded:  # else they are wanted as what they are here
            where.append(
                "row NOT IN (SELECT row FROM revived WHERE row NOT IN (SELECT row FROM revived"
                " WHERE head = ?))"
            )
            args.append(self.head)
        if self.table and where == ["status = ?"]:
            return f"SELECT row FROM {self.table}", []
        return "SELECT row FROM memory WHERE " + " AND ".join(where), args


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))
