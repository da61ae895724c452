"""Why lines are as they are: what is known by path, by line, and by the commits that wrote it.

Four ways lead to a memory: its lines are these (a content anchor, found again wherever they stand
now), it names the file (under any name that it had), its commit wrote these lines (`git blame`;
also one that was moved, or squashed into such a commit), it names a directory above. The surest
comes first, memories of unmerged branches last. To be found by its commit alone is an answer about
lines; asked about a whole file, such memories are only counted (`Why.folded`).

Promise: git decides who wrote what and what was renamed. Each object says by what it was found
(`why`). A bounded number of processes, however many memories there are.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NamedTuple

from ..anchors import anchor_state, anchor_state_update, path_history, reinstate, snapshot_view
from ..core import record
from ..engine import anchor_state_store, memory_rows, reinstated
from ..engine.cache import Cache
from ..engine.filters import Filter
from ..memory import misnamed, view
from ..store import Store
from .file_lines import Line, Target, Withheld, blamed, target
from .path_memories import Matches

_BRANCHES = 64  # that are looked at for a path which is not at HEAD

Items = list[dict[str, Any]]


class Why(NamedTuple):
    """Public objects, each with `why`, the surest first."""

    items: Items
    more: int  # beyond the limit
    folded: int  # only about commits that wrote lines of the file
    history: Filter  # which commits may say more: that changed the path, or wrote the lines


def why(
    store: Store, text: str, *, at: str = "", limit: int | None = None, all_hits: bool = False
) -> Why:
    """What is known about PATH or FILE:LINES; `all_hits`: nothing is folded."""
    asked = target(store, text, at)
    fold = not asked.first and not all_hits
    return _ask(store, asked, at, limit, strict=bool(asked.first), fold=fold)[0]


def blame(store: Store, text: str, *, at: str = "") -> tuple[list[Line], Why, str]:
    """(the lines with the ids of memories about them, what `why` says of them, the name of the
    file). Raises MemError where there is no such file.
    """
    found, lines, name = _ask(store, target(store, text, at), at, None, strict=True, needed=True)
    items = found.items
    for item in items:
        for first, last in (span for reason in item["why"] for span in reason.get("lines", [])):
            for line in lines[max(0, first - lines[0].number) : last - lines[0].number + 1]:
                if item["id"] not in line.ids:
                    line.ids.append(item["id"])
    return lines, found, name


def _ask(
    store: Store,
    asked: Target,
    at: str,
    limit: int | None,
    *,
    strict: bool,
    needed: bool = False,
    fold: bool = False,
) -> tuple[Why, list[Line], str]:
    """(what is known, the lines asked about, the name of the file now).

    `strict`: raises MemError where there are no such lines. `needed`: and where a partial clone
    cannot tell who wrote them; else warns. `fold`: what is found by its commit alone is counted.
    """

    def read(cache: Cache) -> tuple[Why, list[Line], str]:
        with snapshot_view.opened(store, cache, at) if at else nullcontext() as past:
            if past and past.reason:
                store.warn(f"warning: {past.reason}")
            head = past.head if past else store.repo.head()
            names = _names(store, past or cache, head, asked)
            lines: list[Line] = []
            try:
                lines = blamed(store, names, asked, head, bool(at), strict)
            except Withheld as e:
                if needed:
                    raise
                store.warn(f"warning: {e.message}")
            if past:
                matches = Matches(store, past, head, asked, Filter())
                matches.find(names, lines)
                stands = dict(past.states)
            else:
                matches, stands = _at_head(store, cache, head, asked, lines, names)
            folded = matches.fold() if fold else 0
            items, more = _objects(store, matches, stands, at, limit)
            if past:
                past.tell(items)
            else:
                anchor_state_update.update_later(store, cache, stands)
            history = Filter(paths=names.labels)
            if asked.first or needed:
                history = Filter(anchors=[line.commit for line in lines if not line.older])
            return Why(items, more, folded, history), lines, names.now or asked.path

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


def _at_head(
    store: Store,
    cache: Cache,
    head: str,
    asked: Target,
    lines: list[Line],
    names: path_history.Names,
) -> tuple[Matches, dict[str, anchor_state.AnchorState]]:
    repo = store.repo
    reinstate.settle(repo, cache, store.table)
    matches = Matches(store, cache, head, asked, reinstated.seen_from(cache, Filter(), head))
    if lines and head not in anchor_state_store.slots(cache):
        # Finds what was squashed into the commits that wrote the lines.
        anchor_state.states(repo, cache, anchor_state.of_memories(cache), head)
    matches.find(names, lines)
    if not names.kind and not matches.names_path():
        _tell_absent(store, asked.path)
    anchors = {anchor for _, anchor, _, _ in matches.facts() if record.object_id(anchor)}
    return matches, anchor_state.states(repo, cache, anchors, head)


def _tell_absent(store: Store, path: str) -> None:
    """Where else to ask about a path that is not at HEAD and that no memory names."""
    if branch := _branch_with(store, path):
        store.warn(f"hint: '{path}' is not at HEAD, and on '{branch}': `--at {branch}` asks there")
        return
    for line in misnamed.notes(store, [path], ()):
        store.warn(f"note: {line}")


def _objects(
    store: Store,
    matches: Matches,
    stands: dict[str, anchor_state.AnchorState],
    at: str,
    limit: int | None,
) -> tuple[Items, int]:
    rows = memory_rows.firsts(matches.cache, matches.ranked(stands))
    chosen = rows[:limit]
    items = view.objects(store, matches.cache, chosen, at or "HEAD", stands, aged=matches.aged)
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
