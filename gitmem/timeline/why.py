"""Why lines are as they are: what is known about a path, by path, by line, and by the commits that
wrote it.

Four ways lead to a memory: its lines are these (a content anchor, found again wherever they stand
now), it names the file (under any name that it had), its commit wrote these lines (`git blame`;
also one that was moved, or squashed into such a commit), it names a directory above. The surest
comes first, memories of unmerged branches last.

Promise: git decides who wrote what and what was renamed. Each object says by what it was found
(`why`). A bounded number of processes, however many memories there are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..anchors import anchor_state, anchor_state_update, path_history, reinstate, snapshot_view
from ..core import record
from ..engine import anchor_state_store, memory_rows, reinstated
from ..engine.cache import Cache
from ..engine.filters import Filter
from ..memory import view
from ..store import Store
from .file_lines import Line, Target, Withheld, blamed, target
from .path_memories import Matches

_BRANCHES = 64  # that are looked at for a path which is not at HEAD


class Answer(NamedTuple):
    """`items`: public objects, each with `why`, the surest first; `more`: how many were left out;
    `lines`: those asked about; `name`: that of the file now.
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
    answer = _ask(store, asked, at, limit, strict=bool(asked.first))
    return answer.items, answer.more


def blame(store: Store, text: str, *, at: str = "") -> tuple[list[Line], list[dict[str, Any]], str]:
    """(the lines with the ids of memories about them, those memories as `why` gives them, the name
    of the file). Raises MemError where there is no such file.
    """
    items, _, lines, name = _ask(store, target(store, text, at), at, None, strict=True, needed=True)
    for item in items:
        for first, last in (span for reason in item["why"] for span in reason.get("lines", [])):
            for line in lines[max(0, first - lines[0].number) : last - lines[0].number + 1]:
                if item["id"] not in line.ids:
                    line.ids.append(item["id"])
    return lines, items, name


def _ask(
    store: Store, asked: Target, at: str, limit: int | None, *, strict: bool, needed: bool = False
) -> Answer:
    """`strict`: raises MemError where there are no such lines. `needed`: and where a partial clone
    cannot tell who wrote them; else warns.
    """

    def read(cache: Cache) -> Answer:
        if not at:
            return answer(cache, None)
        with snapshot_view.opened(store, cache, at) as past:
            if past.reason:
                store.warn(f"warning: {past.reason}")
            return answer(past, past)

    def answer(cache: Cache, past: snapshot_view.Snapshot | None) -> Answer:
        head = past.head if past else store.repo.head()
        names = _names(store, cache, head, asked)
        lines: list[Line] = []
        try:
            lines = blamed(store, names, asked, head, bool(at), strict)
        except Withheld as e:
            if needed:
                raise
            store.warn(f"warning: {e.message}")
        items, more = _items(store, cache, past, head, asked, at, limit, lines, names)
        return Answer(items, more, lines, names.now or asked.path)

    return store.with_cache(read)[0]


def _names(store: Store, cache: Cache, head: str, asked: Target) -> path_history.Names:
    """The names that the file has had; warns where there may be more."""
    names = path_history.at(store.repo, cache, head, asked.path)
    if not names.whole:
        cause = f"git cannot read the history of '{asked.path}'"
        if names.late:
            cause = f"the history of '{asked.path}' is long"
        elif names.cut:
            cause += f" ({names.cut})"
        store.warn(f"warning: {cause}: not all names that it had were found")
    return names


def _items(
    store: Store,
    cache: Cache,
    past: snapshot_view.Snapshot | None,
    head: str,
    asked: Target,
    at: str,
    limit: int | None,
    lines: list[Line],
    names: path_history.Names,
) -> tuple[list[dict[str, Any]], int]:
    repo = store.repo
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
    if past:
        stands = dict(past.states)
    else:
        anchors = {anchor for _, anchor, _, _ in matches.facts() if record.object_id(anchor)}
        stands = anchor_state.states(repo, cache, anchors, head)
    rows = memory_rows.firsts(cache, matches.ranked(stands))
    chosen = rows[:limit]
    items = view.objects(store, cache, chosen, at or "HEAD", stands, aged=matches.aged)
    if past:
        past.tell(items)
    else:
        anchor_state_update.update_later(store, cache, stands)
    for row, item in zip(chosen, items, strict=True):
        item["why"] = matches.why[row]
    return items, len(rows) - len(chosen)


def _branch_with(store: Store, path: str) -> str:
    """The branch with the newest commit that has the path, "" where none has."""
    git = store.repo.git
    order = (f"--count={_BRANCHES}", "--sort=-committerdate")
    shape = "--format=%(objectname) %(refname:short) %(symref)"
    listed = git.text("for-each-ref", *order, shape, "refs/heads", "refs/remotes")
    rows = [row.split(" ") for row in listed.splitlines()]
    ids = git.entries([(tip, path) for tip, _, _ in rows])
    found = (name for (_, name, symref), id in zip(rows, ids, strict=True) if id and not symref)
    return next(found, "")
