"""Commits beside memories: what the history answers, merged into what people remembered.

Promise: beside memories that answer, commits are shown only where the history has an answer, too
(no MISS), and behind a memory that says the same. Where the history cannot be searched, the answer
of the memories stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from ..anchors import snapshot_view
from ..core import common_words, rank, record, text
from ..core.errors import GitFailed, MemError, UsageError
from ..core.plural import many
from ..engine import cache as cache_file
from ..engine import commit_index, error_kinds, memory_rows
from ..engine.anchor_state_store import UNMERGED
from ..engine.cache import Cache
from ..engine.filters import Filter
from ..engine.search import Search
from ..git import commit_reader
from ..hooks import spool
from ..store import Store

T = TypeVar("T")

_AT_ONCE = 2_000  # new commits that a question takes in before it is answered
_SECONDS = 2.0  # ... or what it finds in that time; the worker takes in the rest
_SAME = 0.8  # share of the terms of the shorter text from which two texts say the same
_FEWEST = 4  # terms below which a text says too little to be compared
_FEW = 3  # commits that explain a path or lines: they stand below memories
_ABOUT = 10  # files of a commit from which on a memory made of it names none


class Answer(NamedTuple):
    """Public objects of hits with their `score`, best first, and how sure they are."""

    hits: list[dict[str, Any]]
    verdict: str
    sure: float


class Answers(NamedTuple):
    """What the history answers to some questions, out of how many commits; how many wait to be
    taken in, and why something may be missing ("": nothing is).
    """

    found: list[Answer]
    searched: int
    waiting: int
    unsearched: str


def searchable(store: Store, wanted: Filter, only: str = "") -> bool:
    """Whether commits can meet these conditions here. Raises UsageError where nothing else can."""
    on = store.settings["history"] != "false"
    of_memories = (wanted.types, wanted.tags, wanted.phase, wanted.scope, wanted.superseded)
    if only == "history" and not on:
        raise UsageError("mem.history is false, so commits are not searchable here")
    if only == "history" and any(of_memories):
        raise UsageError("commits have no type, tag, phase or scope")
    return on and only != "memories" and not any(of_memories)


def as_of(store: Store, cache: Cache, wanted: Filter, at: str) -> Filter:
    """The same conditions, on the commits that the revision `at` reaches; "": on all. Those that
    name their commits are left as they are. Raises MemError where there is no such revision.
    """
    if not at or wanted.anchors is not None:
        return wanted
    tip, limit = snapshot_view.commit_of(store, at), store.settings.number("historyLimit")
    reached = set(commit_index.listed(store.repo.git, [tip], [], limit))
    known = cache.db.execute("SELECT id FROM memory")
    return wanted.but(without=[id for (id,) in known if id not in reached])


def with_history(
    store: Store,
    action: Callable[[Cache], T],
    *,
    most: int | None = _AT_ONCE,
    seconds: float | None = _SECONDS,
) -> tuple[T | None, int]:
    """(the action's answer on the cache of commits, how many commits wait to be taken in); None
    where it cannot be read or made. A damaged one is made anew.
    """
    for attempt in range(2):
        cache: Cache | None = None
        try:
            cache = store.history()
            if cache is None:
                return None, 0
            left = commit_index.update(
                store.repo.git,
                cache,
                store.table,
                store.repo.head(),
                store.settings.number("historyLimit"),
                most=most,
                until=None if seconds is None else time.monotonic() + seconds,
                progress=store.progress,
            )
            if left:
                spool.ask(store.repo.common_dir)
            return action(cache), left
        except GitFailed:
            return None, 0
        except MemError:
            raise
        except Exception as e:
            kind = error_kinds.kind(e, cache)
            inode = cache.inode if cache else 0
            store.close_history()
            if kind == error_kinds.OURS:
                raise
            if attempt or kind in (error_kinds.BUSY, error_kinds.FULL):
                return None, 0
            if kind == error_kinds.DAMAGED:
                cache_file.discard(store.repo.mem_dir, inode, cache_file.HISTORY)
    return None, 0


def take_in(store: Store, seconds: float | None = None) -> dict[str, int]:
    """Makes commits searchable, for so many seconds at most; {"commits", "of", "waiting"}."""
    if store.settings["history"] == "false":
        return {"commits": 0, "of": 0, "waiting": 0}
    found, left = with_history(store, commit_index.counts, most=None, seconds=seconds)
    return {**(found or {"commits": 0, "of": 0}), "waiting": left}


def counts(store: Store) -> dict[str, int]:
    """{"commits": how many are searchable, "of": how many there are}, as far as they are known;
    takes nothing in."""
    cache = None
    try:
        cache = cache_file.open_cache(store.repo.mem_dir, create=False, name=cache_file.HISTORY)
        if cache is not None and store.settings["history"] != "false":
            return commit_index.counts(cache)
    except Exception as e:  # damaged or moved: the next question makes it anew
        if error_kinds.kind(e, cache) == error_kinds.OURS:
            raise
    finally:
        if cache is not None:
            cache.close()
    return {"commits": 0, "of": 0}


def answers(
    store: Store, queries: Sequence[str], wanted: Filter, limit: int, at: str, all_branches: bool
) -> Answers:
    """What the commits answer that meet some conditions as of a revision."""

    def read(cache: Cache) -> tuple[list[Answer], int]:
        conditions, states = as_of(store, cache, wanted, at), commit_index.states(cache, at)
        search = Search(cache, store.table.vector, None if all_branches else states)
        found = []
        for query in queries:
            hits, verdict, sure = search.ask(common_words.asked(query), conditions, limit)
            items = public(cache, [hit.row for hit in hits], states)
            add_scores(search, hits, items)
            found.append(Answer(items, verdict, sure))
        return found, conditions.count(cache)

    found, waiting = with_history(store, read)
    if found is None:
        return Answers([Answer([], "MISS", 0.0)] * len(queries), 0, waiting, unsearched(waiting))
    return Answers(*found, waiting, unsearched(waiting) if waiting else "")


def add_scores(search: Search, hits: Sequence[rank.Hit], items: list[dict[str, Any]]) -> None:
    """Says in the public objects of hits how each was found."""
    for hit, item in zip(hits, items, strict=True):
        item["score"] = round(hit.score, 4)
        item["retrieval"] = hit.retrieval
        item["explain"] = {**hit.parts(), **search.parts[hit.row]}


def find(store: Store, name: str) -> dict[str, Any] | None:
    """The searchable commit that `name` names as git takes it, or by the beginning of its id; None
    where there is none or several. Raises MemError for a commit that is not searchable.
    """
    from . import memories  # brings `write_gate`, which a search does without

    commit = store.repo.commit(name)
    prefix = commit or (name.lower() if memories.is_prefix(name) else "")
    on = store.settings["history"] != "false"

    def read(cache: Cache) -> list[dict[str, Any]]:
        sql = "SELECT row FROM memory WHERE id >= ? AND id < ? LIMIT 2"
        rows = [row for (row,) in cache.db.execute(sql, (prefix, prefix + "g"))]
        return public(cache, rows, commit_index.states(cache)) if len(rows) == 1 else []

    found = next(iter(_read(store, read) if on and prefix else []), None)
    if commit and not found:
        why = "" if on else ", since mem.history is false"
        raise MemError(f"'{name}' is a commit that is not searchable{why}", "`git show` shows it")
    return found


def explaining(
    store: Store, wanted: Filter, at: str, beside: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """A few newest commits that meet these conditions, have a body and no memory `beside`; those
    of unmerged branches last, as of memories.
    """
    if store.settings["history"] == "false":
        return []

    def read(cache: Cache) -> list[dict[str, Any]]:
        sql, args = as_of(store, cache, wanted, at).sql()
        newest = f"SELECT row FROM memory WHERE row IN ({sql}) ORDER BY at DESC, id LIMIT ?"
        rows = [row for (row,) in cache.db.execute(newest, (*args, 10 * _FEW))]
        found = public(cache, rows, commit_index.states(cache, at))
        told = [item for item in _others(found, beside) if item["body"]]
        return sorted(told, key=lambda item: item["anchor"]["state"] == UNMERGED)[:_FEW]

    return _read(store, read)


def among(
    store: Store, commits: list[str], paths: Sequence[str], most: int | None
) -> list[dict[str, Any]]:
    """The searchable ones of these commits that changed one of `paths`, in their order."""
    wanted = Filter(anchors=commits, paths=paths)
    searchable(store, wanted, "history")
    order = {commit: n for n, commit in enumerate(commits)}

    def read(cache: Cache) -> list[dict[str, Any]]:
        sql, args = wanted.sql()
        rows = cache.db.execute(f"SELECT id, row FROM memory WHERE row IN ({sql})", args).fetchall()
        rows.sort(key=lambda found: order[found[0]])
        return public(cache, [row for _, row in rows[:most]], commit_index.states(cache))

    return _read(store, read)


def _read(store: Store, action: Callable[[Cache], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    found, waiting = with_history(store, action)
    if found is None or waiting:
        store.warn(f"warning: {unsearched(waiting)}")
    return found or []


def unsearched(waiting: int) -> str:
    """Why an answer lacks commits."""
    if waiting:
        return f"{many(waiting, 'commit')} not indexed yet"
    return "the commits cannot be searched"


def draft(store: Store, revision: str) -> dict[str, Any]:
    """A commit as `remember` wants it: what its message says, about its files. Raises MemError."""
    from ..core import commit_message  # its patterns take 3 ms, and a question needs none

    id = store.repo.commit(revision)
    if not id:
        raise MemError(f"no commit '{revision}' in this repository")
    read = commit_reader.read(store.repo.git, [id], [], 1, walk=False)
    if not read:
        raise MemError(f"'{revision}' is a merge: it has no message of its own to promote")
    subject, body = commit_message.split(read[0].message)
    if not subject:
        raise MemError(f"the commit '{revision}' has no message")
    paths = read[0].paths if len(read[0].paths) <= _ABOUT else []
    return {
        "title": subject[: record.MAX_TITLE] if body else "",
        "body": body or subject,
        "paths": paths,
        "commit": id,
        "created_at": read[0].at,
        "source": f"commit:{id}",
        "type": commit_message.type_of(subject),
    }


def public(cache: Cache, rows: list[int], states: commit_index.States) -> list[dict[str, Any]]:
    """Commits as hits are shown; the fields that only memories have are empty."""
    loaded = [data for data, _, _ in memory_rows.load(cache, rows)]
    stands = states(data["id"] for data in loaded)
    return [
        {
            "kind": "commit",
            **{name: data[name] for name in ("id", "title", "body", "author")},
            **dict.fromkeys(("type", "source", "provenance", "confidence", "scope")),
            "tags": [],
            "created_at": record.moment(data["at"]) or None,
            "anchor": {"commit": data["id"], "branch": None, "state": stands[data["id"]].state},
            "paths": [{"path": path} for path in memory_rows.paths(data)],
        }
        for data in loaded
    ]


def merged(own: Answer, commits: Answer, limit: int) -> Answer:
    """Both, best first: each score counts as far as its answer is sure. A memory takes the place of
    a commit that says the same, and stands before it, or for it if it was made of it.
    Where memories answer, commits that do not are left out.
    """
    if commits.verdict == "MISS" != own.verdict:
        return own
    weights = [item["score"] * own.sure for item in own.hits]
    said = [_terms(item) for item in own.hits] if commits.hits else []
    behind = []
    for item in _others(commits.hits, own.hits):
        weight, words = item["score"] * commits.sure, _terms(item)
        for n, others in enumerate(said):
            fewest = min(len(words), len(others))
            if fewest >= _FEWEST and len(words & others) >= _SAME * fewest:
                weights[n] = max(weights[n], weight)
        behind.append((weight, item))
    both = [*zip(weights, own.hits, strict=True), *behind]
    both.sort(key=lambda pair: -pair[0])  # stable: memories first
    order = ("MISS", "WEAK", "HIT")
    best = max(own.verdict, commits.verdict, key=order.index)
    return Answer([item for _, item in both[:limit]], best, max(own.sure, commits.sure))


def _others(
    commits: list[dict[str, Any]], beside: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The commits of which none of these memories was made (`draft`, `import`) as a whole."""
    made = {item["source"]: _terms(item) for item in beside if item["source"]}
    others = []
    for item in commits:
        words, said = _terms(item), made.get(f"commit:{item['id']}")
        if said is None or len(words & said) < _SAME * len(words):
            others.append(item)
    return others


def _terms(item: dict[str, Any]) -> set[str]:
    return set(text.terms(f"{item['title']} {item['body']}"))
