"""Memories about a path: rows of the cache, each with the reasons for which it was found."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ..anchors import anchor_state, path_history, path_state
from ..anchors.anchor_state import AnchorState
from ..core import lineanchor, record
from ..engine import filters, memory_rows
from ..engine.cache import Cache
from ..engine.filters import Filter, above
from ..store import Store
from .file_lines import Line, Target

LINE, FILE, FORMER, COMMIT = "line", "file", "former name", "commit"
ABOVE, INSIDE = "directory", "inside"
# The surest reason first. Where lines are asked about, who wrote them tells more than the file.
_ORDER = (LINE, FILE, FORMER, COMMIT, INSIDE, ABOVE)
_ORDER_OF_LINES = (LINE, COMMIT, FILE, FORMER, INSIDE, ABOVE)
_KNOWN = (path_state.SAME, path_state.CHANGED, path_state.RENAMED)


class _Present:
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
        self._by_commits(lines)

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
        return self.cache.db.execute(
            f"SELECT value, row FROM label WHERE kind = 'path' AND {condition}"
            f" AND row IN ({self.only}) ORDER BY 2, 1",
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
