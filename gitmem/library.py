"""git mem for Python programs: `gitmem.open()`.

    with gitmem.open(".") as mem:
        mem.remember("Use PostgreSQL: orders and invoices share a transaction", type="decision")
        answer = mem.recall("which database do we use")
        print(answer["verdict"], [hit["title"] for hit in answer["hits"]])

Promise: values in, values out. Nothing is printed, no process ended, no stdin read; what the
command line would warn of is logged as `gitmem`. What it refuses is raised, a subclass of
`MemError`. Memories are the objects of `--json` (docs/commands.md).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, NotRequired, Self, TypedDict, Unpack

from .core import record
from .core.errors import MemError, Refused, UsageError
from .engine.filters import Filter
from .memory import commit_hits, listing, memories, recall, remember
from .opening import chosen_vectors, opened

_log = logging.getLogger("gitmem")
_log.addHandler(logging.NullHandler())

_LISTS = {"types", "tags", "paths"}
_SCOPES = ("team", "private")
Hit = dict[str, Any]  # a memory or a commit, as `recall --json` and `list --json` show it


class Answer(TypedDict):
    """What `recall --json` prints. `verdict`: HIT, WEAK or MISS; `probability` that the answer is
    among the first hits; `hits` best first; `searched` so many memories. `history`: how many
    commits were "searched" and how many are "waiting" to be.
    """

    query: str
    verdict: str
    probability: float
    degraded: bool
    degraded_reason: str
    searched: int
    history: NotRequired[dict[str, int]]
    hits: list[Hit]


class Stored(TypedDict):
    """`status`: "stored", or "duplicate" where the text or its source was known."""

    id: str
    status: str
    title: str
    scope: str


class _Content(TypedDict, total=False):
    """`provenance`: VERIFIED, CITED, ASSUMED or CACHED."""

    title: str
    type: str
    tags: list[str]
    paths: list[str]
    phase: str
    provenance: str


class Fields(_Content, total=False):
    """What a memory may have beside its text. `commit`: a revision, by default HEAD; `scope`:
    "team" or "private"; a known `source` adds nothing.
    """

    source: str
    commit: str
    created_at: str
    scope: str


class Changes(_Content, total=False):
    """What an edit may change; an empty value clears a field."""

    body: str


class Conditions(TypedDict, total=False):
    """Which memories take part: all of these must hold, of a list one entry. `superseded`: also
    those whose place another one took.
    """

    types: list[str]
    tags: list[str]
    paths: list[str]
    phase: str
    since: str
    until: str
    author: str
    scope: str
    superseded: bool


class Memories:
    """The memories of one repository. Not for several threads at a time.

    Paths are relative to the directory that was opened, ids are unique prefixes, times are ISO
    8601 in UTC. Every method sees what other processes wrote before it was called.
    """

    def __init__(self, path: str | os.PathLike[str] = ".") -> None:
        """Raises NotARepository."""
        self._open = ExitStack()
        self._store = self._open.enter_context(opened(os.environ, os.fspath(path), _log.warning))
        self._vectors = self._open.enter_context(chosen_vectors(self._store))

    def close(self) -> None:
        """Also the end of a `with`; asks the worker for vectors of what was written."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def recall(
        self,
        query: str,
        *,
        limit: int = 8,
        at: str = "",
        all_branches: bool = False,
        only: str = "",
        **conditions: Unpack[Conditions],
    ) -> Answer:
        """The memories and commits that answer a question; an empty list of hits for none.

        `only`: "memories" or "history" (commits). `at`: as of this revision.
        """
        if not query.strip():
            raise UsageError("nothing to look for")
        if only not in recall.ONLY:
            raise UsageError(f"only is '{only}', not memories or history")
        _at_least_one(limit)
        found = recall.recall(
            self._store,
            query,
            self._filter(conditions),
            limit=limit,
            at=at,
            all_branches=all_branches,
            only=only,
            vectors=self._vectors,
        )
        return found  # type: ignore[return-value]

    def list(
        self,
        *,
        limit: int | None = None,
        all_branches: bool = False,
        at: str = "",
        **conditions: Unpack[Conditions],
    ) -> list[Hit]:
        """Memories, newest first."""
        _at_least_one(limit)
        wanted = self._filter(conditions)
        return listing.list_memories(
            self._store, wanted, limit=limit, all_branches=all_branches, at=at
        ).items

    def show(self, id: str) -> Hit:
        """One memory with its `history` (records, oldest first), also a forgotten one; or a commit.
        Raises MemError where the prefix names none, Ambiguous where it names several.
        """
        item, history = listing.show_any(self._store, id)
        return item if item["kind"] == "commit" else {**item, "history": history}

    def remember(self, text: str, **fields: Unpack[Fields]) -> Stored:
        """Stores a memory. Raises Refused for a secret, an empty or too large text."""
        result = remember.remember(self._store, [self._placed({"body": text, **fields})])[0]
        if result.status == remember.REFUSED:
            raise (UsageError if result.usage else Refused)(result.reason, hint=result.hint)
        return _stored(result)

    def remember_many(self, drafts: Iterable[Mapping[str, Any]]) -> Iterator[Stored | MemError]:
        """Stores drafts (`body` and the fields of `remember`) as they come; an answer for each,
        in order. One that is refused does not stop the others: its answer is the error.
        """

        def placed() -> Iterator[dict[str, Any] | str]:
            for draft in drafts:
                try:
                    yield self._placed(draft)
                except MemError as e:
                    yield e.message

        for result in remember.remember_many(self._store, placed()):
            if result.status == remember.REFUSED:
                yield (UsageError if result.usage else Refused)(result.reason, hint=result.hint)
            else:
                yield _stored(result)

    def edit(self, id: str, **changes: Unpack[Changes]) -> Hit:
        """A new version of a memory."""
        if unknown := changes.keys() - Changes.__annotations__.keys():
            raise UsageError(f"no field that can be changed is named '{min(unknown)}'")
        memories.edit(self._store, id, self._placed(changes))
        return self.show(id)

    def supersede(self, id: str, text: str, **fields: Unpack[Fields]) -> Hit:
        """A new memory in the place of an old one, which stays readable; returns the new one."""
        return self.show(
            memories.supersede(self._store, id, self._placed({"body": text, **fields}))
        )

    def forget(self, id: str, reason: str = "") -> None:
        """Hides a memory, here and wherever the notes arrive; `restore` undoes it."""
        memories.forget(self._store, id, reason)

    def restore(self, id: str) -> None:
        """Brings back a forgotten or superseded memory. Raises MemError where it is neither."""
        memories.restore(self._store, id)

    def status(self) -> dict[str, Any]:
        """{"memories", "team", "private", "superseded", "forgotten": how many there are,
        "history": {"commits": how many are searchable, "of": how many there are}}.
        """
        found = self._store.with_cache(lambda cache: listing.totals(self._store, cache))[0]
        names = ("memories", "team", "private", "superseded", "forgotten")
        history = commit_hits.counts(self._store)
        return {**{name: found[name] for name in names}, "history": history}

    def _placed(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Fields with paths as the tree has them."""
        for name in _LISTS.intersection(fields):
            if isinstance(fields[name], str):
                raise UsageError(f"'{name}' is a list of texts, not a text")
        paths = [self._store.repo.path_in_tree(path) for path in fields.get("paths") or ()]
        return {**fields, **({"paths": paths} if "paths" in fields else {})}

    def _filter(self, conditions: Conditions) -> Filter:
        given = self._placed(conditions)
        if unknown := given.keys() - Conditions.__annotations__.keys():
            raise UsageError(f"no condition is named '{min(unknown)}'")
        if (scope := given.get("scope", "")) not in ("", *_SCOPES):
            raise UsageError(f"scope is '{scope}', not {' or '.join(_SCOPES)}")
        for name in ("since", "until"):
            given[name] = _moment(name, given.get(name, ""))
        paths = [path.rstrip("/") for path in given.get("paths", ()) if path != "."]
        return Filter(**{**given, "paths": paths})


def _at_least_one(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise UsageError(f"limit is {limit}, not 1 or more")


def _moment(name: str, text: str) -> str:
    """An ISO 8601 time as records have it."""
    try:
        when = datetime.fromisoformat(text) if text else None
        if when and when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return when.astimezone(UTC).strftime(record.STORED) if when else ""
    except (ValueError, OverflowError):
        raise UsageError(f"'{name}' is no ISO 8601 time: '{text}'") from None


def _stored(result: remember.Result) -> Stored:
    return {"id": result.id, "status": result.status, "title": result.title, "scope": result.scope}
