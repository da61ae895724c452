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

import json
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any, NamedTuple

from ..anchors import (
    anchor_state,
    anchor_state_update,
    path_history,
    path_state,
    reinstate,
    snapshot_view,
)
from ..anchors.anchor_state import AnchorState
from ..core import lineanchor, record
from ..engine import anchor_state_store, filters, memory_rows, reinstated
from ..engine.cache import Cache
from ..engine.filters import Filter, above
from ..memory import misnamed, view
from ..store import Store
from .file_lines import Line, Target, Withheld, blamed, target

LINE, FILE, FORMER, COMMIT = "line", "file", "former name", "commit"
ABOVE, INSIDE = "directory", "inside"
# The surest reason first. Where lines are asked about, who wrote them tells more than the file.
_ORDER = (LINE, FILE, FORMER, COMMIT, INSIDE, ABOVE)
_ORDER_OF_LINES = (LINE, COMMIT, FILE, FORMER, INSIDE, ABOVE)
_KNOWN = (path_state.SAME, path_state.CHANGED, path_state.RENAMED)
_BRANCHES = 64  # that are looked at for a path which is not at HEAD

Items = list[dict[str, Any]]


class Why(NamedTuple):
    """Public objects, each with `why`, the surest first."""

    items: Items
    more: int  # beyond the limit
    folded: int  # only about commits that wrote lines of the file
    history: Filter  # which commits may say more: that changed the path, or wrote the lines


def why(store: Store, text: str, *, at: str, limit: int | None = None, all_hits: bool) -> Why:
    """What is known about PATH or FILE:LINES; `all_hits`: nothing is folded."""
    asked = target(store, text, at)
    fold = not asked.first and not all_hits
    return _ask(store, asked, at, limit, fold=fold)[0]


def blame(store: Store, text: str, *, at: str) -> tuple[list[Line], Why, str]:
    """(the lines with the ids of memories about them, what `why` says of them, the name of the
    file). Raises MemError where there is no such file.
    """
    found, lines, name = _ask(store, target(store, text, at), at, None, blaming=True)
    for item in found.items:
        spans = [span for reason in item["why"] for span in reason.get("lines", [])]
        numbers = {number for first, last in spans for number in range(first, last + 1)}
        for line in lines:
            if line.number in numbers:
                line.ids.append(item["id"])
    return lines, found, name


def _ask(
    store: Store,
    asked: Target,
    at: str,
    limit: int | None,
    *,
    blaming: bool = False,
    fold: bool = False,
) -> tuple[Why, list[Line], str]:
    """(what is known, the lines asked about, the name of the file now).

    `blaming`: raises MemError where nobody can tell who wrote the lines; else a partial clone only
    warns. `fold`: what is found by its commit alone is counted.
    """

    def read(cache: Cache) -> tuple[Why, list[Line], str]:
        with snapshot_view.opened(store, cache, at) if at else nullcontext() as past:
            if past and past.reason:
                store.warn(f"warning: {past.reason}")
            head = past.head if past else store.repo.head()
            names = _names(store, past or cache, head, asked)
            lines: list[Line] = []
            try:
                strict = blaming or bool(asked.first)
                lines = blamed(store, names, asked, head, bool(at), strict)
            except Withheld as e:
                if blaming:
                    raise
                store.warn(f"warning: {e.message}")
            if past:
                matches = Matches(store, past, head, asked, Filter())
                matches.find(names, lines)
                stands = dict(past.states)
            else:
                matches, stands = _at_head(store, cache, head, asked, lines, names)
            folded = matches.fold() if fold else 0
            rows = memory_rows.firsts(matches.cache, matches.ranked(stands))
            chosen = rows[:limit]
            items = view.objects(store, matches.cache, chosen, "", stands, matches.aged)
            for row, item in zip(chosen, items, strict=True):
                item["why"] = matches.why[row]
            if not past:
                anchor_state_update.update_later(store, cache, stands)
            history = Filter(paths=names.labels)
            if asked.first or blaming:
                history = Filter(anchors=[line.commit for line in lines if not line.older])
            found = Why(items, len(rows) - len(chosen), folded, history)
            return found, lines, names.now or asked.path

    return store.with_cache(read)[0]


def _names(store: Store, cache: Cache, head: str, asked: Target) -> path_history.Names:
    """The names that the file has had; warns where there may be more."""
    names = path_history.at(store.repo, cache, head, asked.path)
    if not names.whole:
        cut = f" ({names.cut})" if names.cut else ""
        cause = f"git cannot read the history of '{asked.path}'{cut}"
        if names.late:
            cause = f"the history of '{asked.path}' is long"
        store.warn(f"warning: {cause}: not all names that it had were found")
    return names


def _at_head(
    store: Store,
    cache: Cache,
    head: str,
    asked: Target,
    lines: list[Line],
    names: path_history.Names,
) -> tuple[Matches, dict[str, AnchorState]]:
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


# Memories about a path: rows of the cache, each with the reasons for which it was found.


class _Present:
    """Where the file at `path` of a memory, and its lines, are now."""

    def __init__(self, state: path_state.PathState, path: str, noted: str, asked: str) -> None:
        span = lineanchor.parse(noted.partition("@")[0])
        name = memory_rows.bare(record.clean(state.now or path))
        known = state.state in _KNOWN and not state.reason
        self.renamed = name if name != asked and known else ""  # its name now
        self.lined = span is not None  # whether the memory is about lines of it
        found = state.state in (path_state.SAME, path_state.RENAMED)
        # where these are now, None where they are not found
        self.lines = (lineanchor.parse(state.lines) or span) if found else None
        self.reason = {"reason": state.reason} if state.state == path_state.UNKNOWN else {}


class Matches:
    """`why`: {row: reasons}; `aged`: {row: present states of its paths} if it names the path."""

    def __init__(
        self, store: Store, cache: Cache, head: str, asked: Target, condition: Filter
    ) -> None:
        self.store = store
        self.cache = cache
        self.head = head
        self.asked = asked
        self.condition = condition
        self.only, self.args = condition.sql()
        self.why: dict[int, list[dict[str, Any]]] = {}
        self.order = _ORDER_OF_LINES if asked.first else _ORDER
        self.aged: dict[int, list[path_state.PathState]] = {}
        self._with_lines: set[int] = set()  # rows that say which lines they are about

    def _add(self, row: int, by: str, **more: Any) -> None:
        self.why.setdefault(row, []).append({"by": by, **more})

    def find(self, names: path_history.Names, lines: list[Line]) -> None:
        """Finds what names the path, a former name, a directory above, or something inside; and
        memories about the commits that wrote the lines, or about predecessors of them.
        """
        reasons = self._spellings(names)
        labels = self._labels("value IN (SELECT value FROM json_each(?))", json.dumps([*reasons]))
        whole = {(value, row) for value, row in labels if reasons[value] in (FILE, FORMER)}
        now = self._present(whole, record.clean(names.now or self.asked.path))
        for value, row in labels:
            here, by = now.get((value, row)), reasons[value]
            if here and here.lined and (here.lines or here.renamed):
                self._with_lines.add(row)
            if here and here.renamed:
                if here.renamed != value.rstrip("/"):  # else another file has this name now
                    self._add(row, FORMER, path=value, now=here.renamed)
            elif not here or not here.lined:
                self._add(row, by, path=value)
            elif here.lines is None:
                self._add(row, by, path=value, lines_unknown=True, **here.reason)
            elif self.asked.meets(*here.lines):
                self._add(row, LINE, path=value, lines=[list(here.lines)])
        if names.kind == "tree" or (not names.kind and not labels):
            for name in names.labels:
                first, end = ("", "\U0010ffff") if name == "." else (name + "/\0", name + "0")
                for value, row in self._labels("value >= ? AND value < ?", first, end):
                    self._add(row, INSIDE, path=value)
        if names.kind == "tree" and names.now != ".":
            self._moved_below(record.clean(names.now))
        self._by_commits(lines)

    def _moved_below(self, directory: str) -> None:
        """Finds memories about files that had another name before they came into a directory."""
        how = self.store.repo, self.cache, self.head, directory, self.condition
        for row, path, now in path_history.below(*how, without={*self.why}):
            self._add(row, INSIDE, path=path, now=now)

    def _spellings(self, names: path_history.Names) -> dict[str, str]:
        reasons: dict[str, str] = {}
        for name in names.labels:
            reasons.update(dict.fromkeys((*above(name), ".", "./"), ABOVE))
        present = (record.clean(self.asked.path), record.clean(names.now))
        for name in reversed(names.labels):
            reasons.update(dict.fromkeys((name, name + "/"), FILE if name in present else FORMER))
        return reasons

    def _labels(self, condition: str, *args: str) -> list[tuple[str, int]]:
        """(path as named, row)."""
        # The plus: else SQLite looks up each name with each row.
        return self.cache.db.execute(
            f"SELECT value, row FROM label WHERE kind = 'path' AND {condition}"
            f" AND +row IN ({self.only}) ORDER BY 2, 1",
            (*args, *self.args),
        ).fetchall()

    def _present(self, labels: set[tuple[str, int]], asked: str) -> dict[tuple[str, int], _Present]:
        rows = sorted({row for _, row in labels})
        self.aged = path_state.of_rows(self.store.repo, self.cache, rows, self.head) if rows else {}
        found: dict[tuple[str, int], _Present] = {}
        for row, (data, _, _) in zip(rows, memory_rows.load(self.cache, rows), strict=True):
            places = memory_rows.places(data)
            for (path, _, noted), state in zip(places, self.aged[row], strict=True):
                here = _Present(state, path, noted, asked)
                if (path, row) in labels and (here.lined or (path, row) not in found):
                    found[path, row] = here
        return found

    def _by_commits(self, lines: list[Line]) -> None:
        wrote: dict[str, list[list[int]]] = {}
        for line in lines:
            if line.commit and not line.older:
                spans = wrote.setdefault(line.commit, [])
                if spans and spans[-1][1] == line.number - 1:
                    spans[-1][1] = line.number
                else:
                    spans.append([line.number, line.number])
        writers = predecessors(self.cache, wrote)
        sql = (
            "SELECT row, anchor FROM memory WHERE status = 0 AND anchor IN {}"
            f" AND +row IN ({self.only}) ORDER BY row"
        )
        for row, anchor in self.cache.among(sql, writers, *self.args):
            if row not in self._with_lines:
                for commit in sorted(writers[anchor], key=lambda c: wrote[c]):
                    self._add(row, COMMIT, commit=commit, lines=wrote[commit])

    def fold(self) -> int:
        """Takes out what was found by its commit alone; of how many memories."""
        alone = [row for row, found in self.why.items() if {r["by"] for r in found} == {COMMIT}]
        for row in alone:
            del self.why[row]
        return len(memory_rows.firsts(self.cache, alone))

    def names_path(self) -> bool:
        found = {reason["by"] for reasons in self.why.values() for reason in reasons}
        return not found.isdisjoint({LINE, FILE, FORMER, INSIDE})

    def facts(self) -> list[tuple[int, str, str, str]]:
        """(row, anchor, time, id) of the memories."""
        return self.cache.among("SELECT row, anchor, at, id FROM memory WHERE row IN {}", self.why)

    def ranked(self, stands: dict[str, AnchorState]) -> list[int]:
        """The rows: memories of unmerged branches last, the surest first, then the newest."""
        for reasons in self.why.values():
            reasons.sort(key=lambda r: (self.order.index(r["by"]), -len(r.get("path", ""))))

        def place(fact: tuple[int, str, str, str]) -> tuple[bool, int, int]:
            row, anchor, _, _ = fact
            stand, first = stands.get(anchor), self.why[row][0]
            return (
                stand is not None and stand.state == anchor_state.UNMERGED,
                self.order.index(first["by"]),
                -len(first["path"]) if first["by"] == ABOVE else 0,
            )

        latest = filters.latest(self.cache)
        newest = sorted(self.facts(), key=lambda f: (record.when(f[2], latest), f[3]), reverse=True)
        return [row for row, *_ in sorted(newest, key=place)]


def predecessors(cache: Cache, commits: Iterable[str]) -> dict[str, set[str]]:
    """{commit of memories: those of `commits` that it is, or that stand for it}."""
    owners = {commit: {commit} for commit in commits}
    queue = set(owners)
    while queue:
        pairs = cache.among(
            "SELECT new, old FROM move WHERE new IN {} UNION"
            " SELECT other, commit_id FROM equivalent_commit WHERE other IN {}",
            queue,
        )
        queue = set()
        for new, old in pairs:
            known = owners.setdefault(old, set())
            if not owners[new] <= known:
                known |= owners[new]
                queue.add(old)
    return owners
