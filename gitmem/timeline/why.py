"""Why lines are as they are: what is known about a path, by path, by line, and by the commits that
wrote it.

Four ways lead to a memory: its lines are these (a content anchor, found again
wherever they stand now), it names the file (also under a name that it had
before, or has now), its commit wrote these lines (`git blame`; also one that was
moved, or squashed into such a commit), it names a directory above. The surest
comes first, memories of unmerged branches last.

Promise: git decides who wrote what and what was renamed; `blame` names the
commits that `git blame` names. Each object says by what it was found (`why`). A
bounded number of processes, however many memories there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ..anchors import (
    anchor_state,
    anchor_state_update,
    path_history,
    reinstate,
    snapshot_view,
)
from ..engine import anchor_state_store, memory_rows, reinstated
from ..engine.cache import Cache
from ..engine.filters import Filter
from ..memory import view
from ..store import Store
from .file_lines import Line, Target, Withheld, blamed, target
from .path_memories import Matches

T = TypeVar("T")

_BRANCHES = 64  # that are looked at for a path which is not at HEAD


class Answer(NamedTuple):
    """`items`: public objects, each with `why`, the surest first; `more`: how many were left out.

    `name`: that of the file now; `lines`: those asked about.
    """

    items: list[dict[str, Any]]
    more: int
    lines: list[Line]
    name: str


def why(
    store: Store, text: str, *, at: str = "", limit: int | None = None
) -> tuple[list[dict[str, Any]], int]:
    """(public objects, each with `why`, the surest first; how many more there are)."""
    asked = target(store, text, at)

    def read(cache: Cache, past: snapshot_view.Snapshot | None) -> Answer:
        lines, names = _lines(store, cache, past, asked, at, strict=bool(asked.first))
        return _answer(store, cache, past, asked, at, limit, lines, names)

    answer = _with_past(store, at, read)
    return answer.items, answer.more


def blame(store: Store, text: str, *, at: str = "") -> tuple[list[Line], list[dict[str, Any]], str]:
    """(the lines with the ids of memories about them, those memories as `why` gives them, the name
    of the file). Raises MemError where there is no such file.
    """
    asked = target(store, text, at)

    def read(cache: Cache, past: snapshot_view.Snapshot | None) -> Answer:
        lines, names = _lines(store, cache, past, asked, at, strict=True, needed=True)
        return _answer(store, cache, past, asked, at, None, lines, names)

    items, _, lines, name = _with_past(store, at, read)
    for item in items:
        for first, last in (span for reason in item["why"] for span in reason.get("lines", [])):
            for line in lines[max(0, first - lines[0].number) : last - lines[0].number + 1]:
                if item["id"] not in line.ids:
                    line.ids.append(item["id"])
    return lines, items, name


def _with_past(
    store: Store, at: str, action: Callable[[Cache, snapshot_view.Snapshot | None], T]
) -> T:
    """Runs the action on the cache, or on the cache as of the revision `at`."""

    def read(cache: Cache) -> T:
        if not at:
            return action(cache, None)
        with snapshot_view.opened(store, cache, at) as past:
            if past.reason:
                store.warn(f"warning: {past.reason}")
            return action(past, past)

    return store.with_cache(read)[0]


def _lines(
    store: Store,
    cache: Cache,
    past: snapshot_view.Snapshot | None,
    asked: Target,
    at: str,
    *,
    strict: bool,
    needed: bool = False,
) -> tuple[list[Line], path_history.Names]:
    """(the lines and who wrote them, the names that the file has had).

    `needed`: raises MemError where a partial clone cannot tell who wrote them; else warns.
    """
    head = past.head if past else store.repo.head()
    names = path_history.at(store.repo, cache, head, asked.path)
    if not names.whole:
        cause = f"git cannot read the history of '{asked.path}'"
        if names.late:
            cause = f"the history of '{asked.path}' is long"
        elif names.cut:
            cause += f" ({names.cut})"
        store.warn(f"warning: {cause}: not all names that it had were found")
    try:
        return blamed(store, names, asked, head, bool(at), strict), names
    except Withheld as e:
        if needed:
            raise
        store.warn(f"warning: {e.message}")
        return [], names


def _answer(
    store: Store,
    cache: Cache,
    past: snapshot_view.Snapshot | None,
    asked: Target,
    at: str,
    limit: int | None,
    lines: list[Line],
    names: path_history.Names,
) -> Answer:
    repo = store.repo
    head = past.head if past else repo.head()
    condition = Filter()
    if not past:
        reinstate.settle(repo, cache, store.table)
        condition = reinstated.seen_from(cache, condition, head)
    matches = Matches(store, cache, head, asked, condition)
    matches.by_paths(names)
    if lines and not past and anchor_state_store.slot_of(cache, head) is None:
        # Finds what was squashed into the commits that wrote the lines.
        anchor_state.states(repo, cache, anchor_state.of_memories(cache), head)
    matches.by_commits(lines)
    unknown = not names.kind and not past and not matches.names_path()
    if unknown and (branch := _branch_with(store, asked.path)):
        store.warn(
            f"hint: '{asked.path}' is not at HEAD, and on '{branch}': `--at {branch}` asks there"
        )
    anchors = matches.anchors()
    stands = dict(past.states) if past else anchor_state.states(repo, cache, anchors, head)
    rows = memory_rows.firsts(cache, matches.ranked(stands))
    chosen = rows[:limit]
    items = view.objects(store, cache, chosen, at or "HEAD", stands, aged=matches.aged)
    if past:
        past.tell(items)
    else:
        anchor_state_update.update_later(store, cache, stands)
    for row, item in zip(chosen, items, strict=True):
        item["why"] = matches.why[row]
    return Answer(items, len(rows) - len(chosen), lines, names.now or asked.path)


def _branch_with(store: Store, path: str) -> str:
    """The branch with the newest commit that has the path, "" where none has."""
    git = store.repo.git
    listed = git.text(
        "for-each-ref",
        f"--count={_BRANCHES}",
        "--sort=-committerdate",
        "--format=%(objectname) %(refname:short) %(symref)",
        "refs/heads",
        "refs/remotes",
    )
    rows = [row.split(" ") for row in listed.splitlines()]
    ids = git.entries([(tip, path) for tip, _, _ in rows])
    for (_, name, other), id in zip(rows, ids, strict=True):
        if id and not other:
            return name
    return ""
