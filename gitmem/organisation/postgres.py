"""The organisation's index: its tables in PostgreSQL, and every statement that reaches the server.

The one home of `psycopg` (extra `postgres`). Promises: values travel as parameters, never in the
text of a statement; no message holds a password; a repository is written in one transaction, so
whoever asks meanwhile sees it as it was before, and by one run at a time. The schema carries a
version in its name: another layout is another schema, and nothing is migrated, since all of it can
be made anew from the notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import psycopg

from ..core.errors import MemError, UsageError

SCHEMA = "git_mem_1"
DIMS = 256  # of the packaged table's vectors
_TIMEOUT = 10  # seconds to connect
_LEXEMES = 1_000_000  # bytes: a tsvector of PostgreSQL holds a MiB
_TABLES = (
    f"CREATE SCHEMA {SCHEMA}",
    # tip: the notes commit that the rows were made of, and by which version of git mem; space: of
    # their vectors, "" for none
    f"CREATE TABLE {SCHEMA}.repository(name text PRIMARY KEY, tip text NOT NULL, space text"
    " NOT NULL, memories integer NOT NULL, indexed timestamptz NOT NULL DEFAULT now())",
    # words: the terms that `git mem recall` looks up, not PostgreSQL's own: the same stems, parts
    # of identifiers and versions, in every language of the server
    f"CREATE TABLE {SCHEMA}.memory(repository text NOT NULL REFERENCES {SCHEMA}.repository ON"
    " DELETE CASCADE, id text NOT NULL, digest bytea NOT NULL, data jsonb NOT NULL, words tsvector"
    " NOT NULL, PRIMARY KEY(repository, id))",
    # beside the text, so that weighing ten thousand rows opens none of them
    f"ALTER TABLE {SCHEMA}.memory ALTER words SET STORAGE MAIN",
    # the shares of the 3,000 most common words; among a million memories, others are in few
    f"ALTER TABLE {SCHEMA}.memory ALTER words SET STATISTICS 300",
    f"CREATE INDEX memory_words ON {SCHEMA}.memory USING gin(words)",
)
# How often a lexeme occurs, where the server's statistics know: of the most common ones.
_COMMON = (
    "SELECT word, share FROM pg_stats, unnest(most_common_elems::text::text[],"
    " most_common_elem_freqs) AS common(word, share) WHERE schemaname = %s AND tablename = 'memory'"
    " AND attname = 'words' AND word = ANY(%s)"
)
_COUNT = (
    f"SELECT word, (SELECT count(*) FROM (SELECT FROM {SCHEMA}.memory WHERE words @@ query::tsquery"
    " LIMIT %s) AS found) FROM unnest(%s::text[], %s::text[]) AS asked(word, query)"
)
# An address whose password nobody can take for a host, a path or an option.
_ADDRESS = re.compile(r"\w+://(?:[^@/?#]*@)?[^@?#]*(?:\?[^@#]*)?")
_FILTERS = {
    "type": "data->>'type' = ANY(%s)",
    "tag": "data->'tags' ?| %s",
    "author": "strpos(lower(data->>'author'), lower(%s)) > 0",
}


class Row(NamedTuple):
    """A memory as it is written: its object as JSON, its terms, its vector ("" for none)."""

    id: str
    digest: bytes
    data: str
    words: Iterable[str]
    vector: bytes


class Found(NamedTuple):
    """`cosine`: None where the server has no vector."""

    repository: str
    data: dict[str, Any]
    cosine: float | None


class Index:
    """An open index. `there`: whether it has tables; `meaning`: why it has no vectors, "" where it
    has them. Each space of vectors has a column of its own: two are never compared.
    """

    def __init__(self, connection: Any, space: str) -> None:
        self._db = connection
        self._column = "meaning_" + "".join(c if c.isalnum() else "_" for c in space.lower())
        self.meaning = ""
        self.there = self._one("SELECT to_regclass(%s)", f"{SCHEMA}.memory") is not None
        if self.there:
            self._look()

    def prepare(self) -> None:
        """Makes the tables where they are not there, and the vectors where the server can."""
        with self._db.transaction():
            self._db.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (SCHEMA,))
            if self._one("SELECT to_regclass(%s)", f"{SCHEMA}.memory") is None:
                for statement in _TABLES:
                    self._db.execute(statement)
        self.there = True
        self._look()
        if self.meaning:
            self.meaning = self._add_meaning()

    def _look(self) -> None:
        """Finds out whether the index has vectors."""
        column = (
            "SELECT 1 FROM pg_attribute WHERE attrelid = %s::regclass AND attname = %s"
            " AND NOT attisdropped"
        )
        there = self._one(column, f"{SCHEMA}.memory", self._column)
        self.meaning = (
            "" if there else "words alone: the index has no vectors, for want of pgvector"
        )

    def _add_meaning(self) -> str:
        """Adds the vectors; returns why there are none."""
        try:
            with self._db.transaction():
                self._db.execute("CREATE EXTENSION IF NOT EXISTS vector")
                added = f"{self._column} halfvec({DIMS})"  # a type of pgvector from 0.7 on
                self._db.execute(f"ALTER TABLE {SCHEMA}.memory ADD COLUMN {added}")
                using = f"hnsw({self._column} halfvec_cosine_ops)"
                self._db.execute(f"CREATE INDEX ON {SCHEMA}.memory USING {using}")
        except psycopg.Error as e:
            return f"words alone: pgvector 0.7 cannot be used: {_first(str(e))}"
        return ""

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """A transaction in which no other run writes this repository. Raises MemError where the
        server refuses something.
        """
        try:
            with self._db.transaction():
                lock = "SELECT pg_advisory_xact_lock(hashtext(%s), hashtext(%s))"
                self._db.execute(lock, (SCHEMA, name))
                yield
        except psycopg.Error as e:
            if self._db.broken:
                raise
            raise MemError(_first(str(e))) from e

    def indexed(self, name: str) -> tuple[str, str]:
        """(tip, space) of a repository as it was last written, each "" where it was not."""
        sql = f"SELECT tip, space FROM {SCHEMA}.repository WHERE name = %s"
        return (self.there and self._db.execute(sql, (name,)).fetchone()) or ("", "")

    def digests(self, name: str) -> dict[str, bytes]:
        if not self.there:
            return {}
        sql = f"SELECT id, digest FROM {SCHEMA}.memory WHERE repository = %s"
        return {id: bytes(digest) for id, digest in self._db.execute(sql, (name,))}

    def write(
        self, name: str, tip: str, space: str, rows: Iterable[Row], gone: Sequence[str]
    ) -> None:
        """Puts `rows` in the place of those named in `gone`, all or nothing."""
        with self._db.transaction():
            self._db.execute(
                f"INSERT INTO {SCHEMA}.repository(name, tip, space, memories) VALUES(%s, %s, %s, 0)"
                " ON CONFLICT(name) DO UPDATE SET tip = excluded.tip, space = excluded.space,"
                " indexed = now()",
                (name, tip, space),
            )
            self._db.execute(
                f"DELETE FROM {SCHEMA}.memory WHERE repository = %s AND id = ANY(%s)",
                (name, list(gone)),
            )
            columns = "repository, id, digest, data, words" + (
                "" if self.meaning else f", {self._column}"
            )
            with (
                self._db.cursor() as cursor,
                cursor.copy(f"COPY {SCHEMA}.memory({columns}) FROM STDIN") as copy,
            ):
                for row in rows:
                    values = [name, row.id, row.digest, row.data, _lexemes(row.words)]
                    copy.write_row(values if self.meaning else [*values, _vector(row.vector)])
            self._db.execute(
                f"UPDATE {SCHEMA}.repository SET memories = (SELECT count(*) FROM {SCHEMA}.memory"
                " WHERE repository = %s) WHERE name = %s",
                (name, name),
            )

    def finish(self) -> None:
        """Lets the server count its lexemes: a question leaves out what is too common."""
        self._db.execute(f"ANALYZE {SCHEMA}.memory")

    def count(self) -> int:
        return int(self._one(f"SELECT coalesce(sum(memories), 0) FROM {SCHEMA}.repository"))

    def frequencies(self, words: Sequence[str], count: int, most: int) -> dict[str, int]:
        """In how many of `count` memories each word is; from `most` on an estimate."""
        shares = self._db.execute(_COMMON, (SCHEMA, list(words))).fetchall()
        found = {word: max(1, round(share * count)) for word, share in shares}
        rest = [word for word in words if word not in found]
        if rest:
            found |= dict(self._db.execute(_COUNT, (most, rest, [*map(_quoted, rest)])).fetchall())
        # The server's statistics outlive the last rows of a table.
        return {word: min(often, count) for word, often in found.items()}

    def by_words(
        self,
        weights: dict[str, float],
        vector: bytes,
        conditions: dict[str, Any],
        limit: int,
        most: int,
    ) -> list[Found]:
        """The memories that hold the heaviest of these words, among `most` that hold one."""
        held = "CASE WHEN words @@ %s::tsquery THEN %s::float8 ELSE 0 END"
        weighed = [value for word, weight in weights.items() for value in (_quoted(word), weight)]
        where, values = _where("words @@ %s::tsquery", conditions)
        sql = (
            f"SELECT repository, data, {self._near} FROM (SELECT * FROM {SCHEMA}.memory {where}"
            f" LIMIT %s) AS held ORDER BY {' + '.join([held] * len(weights))} DESC, id LIMIT %s"
        )
        asked = " | ".join(map(_quoted, weights))
        return self._found(sql, vector, [asked, *values, most, *weighed, limit])

    def by_meaning(self, vector: bytes, conditions: dict[str, Any], limit: int) -> list[Found]:
        """The memories nearest to a vector, as its index finds them."""
        where, values = _where(f"{self._column} IS NOT NULL", conditions)
        # as many as are asked for, where its own default finds 40
        self._db.execute("SELECT set_config('hnsw.ef_search', %s, false)", (str(2 * limit),))
        sql = (
            f"SELECT repository, data, {self._near} FROM {SCHEMA}.memory {where}"
            f" ORDER BY {self._column} <=> %s::halfvec({DIMS}) LIMIT %s"
        )
        return self._found(sql, vector, [*values, _vector(vector), limit])

    @property
    def _near(self) -> str:
        return "NULL" if self.meaning else f"1 - ({self._column} <=> %s::halfvec({DIMS}))"

    def _found(self, sql: str, vector: bytes, values: list[Any]) -> list[Found]:
        asked = values if self.meaning else [_vector(vector), *values]
        return [Found(*row) for row in self._db.execute(sql, asked)]

    def _one(self, sql: str, *args: Any) -> Any:
        row = self._db.execute(sql, args).fetchone()
        return row[0] if row else None


def _where(condition: str, conditions: dict[str, Any]) -> tuple[str, list[Any]]:
    """(the clause, its values) for rows that fulfil all."""
    given = {name: value for name, value in conditions.items() if value}
    return f"WHERE {' AND '.join([condition, *(_FILTERS[n] for n in given)])}", [*given.values()]


def _quoted(word: str) -> str:
    """A lexeme as `tsvector` and `tsquery` read it."""
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


def _lexemes(words: Iterable[str]) -> str:
    """The terms of a memory as a `tsvector`; the last ones of a very long text are left out."""
    out, left = [], _LEXEMES
    for word in dict.fromkeys(words):
        left -= len(word.encode())
        if left < 0:
            break
        out.append(_quoted(word))
    return " ".join(out)


def _vector(vector: bytes) -> str | None:
    """None for a text of which no word is known: it is near to nothing."""
    return str(list(memoryview(vector).cast("b"))) if any(vector) else None


@contextmanager
def opened(url: str, space: str) -> Iterator[Index]:
    """The index at an address, with the vectors of a space; closed at the end. Raises UsageError,
    MemError.
    """
    if not url.startswith(("postgresql://", "postgres://")):
        raise UsageError("no address of a PostgreSQL server", hint="postgresql://HOST/DATABASE")
    if not _ADDRESS.fullmatch(url):
        hint = "write @ / ? # of a name or password as %40 %2F %3F %23, or set PGPASSWORD"
        raise UsageError("nobody can tell the host in this address", hint=hint)
    more: dict[str, Any] = {"application_name": "git mem", "client_encoding": "UTF8"}
    if "connect_timeout" not in url:
        more["connect_timeout"] = _TIMEOUT
    try:
        with psycopg.connect(url, autocommit=True, **more) as db:
            if (encoding := db.info.parameter_status("server_encoding")) != "UTF8":
                hint = "CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0"
                raise MemError(f"the database's encoding is {encoding}, not UTF8", hint=hint)
            yield Index(db, space)
    except psycopg.Error as e:
        said = _first(str(e))
        for secret in _secrets(url):
            said = said.replace(secret, "***")
        raise MemError(f"PostgreSQL at {shown(url)}: {said}") from None


def shown(url: str) -> str:
    """An address without password and options."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return f"postgresql://{host}{parts.path}"
    except ValueError:
        return "postgresql://…"


def _secrets(url: str) -> list[str]:
    """What may not be in a message: the address itself, its passwords as written and as read."""
    rest = url.partition("://")[2]
    before, at, _ = rest.rpartition("@")
    password = before.partition(":")[2] if at else ""
    asked = parse_qs(url.partition("?")[2]).get("password", [])
    found = {url, before, password, unquote(password), *asked}
    return sorted(found - {""}, key=len, reverse=True)


def _first(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[0]
