"""Memories about a path: rows of the cache, each with the reasons for which it was found."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ..anchors import anchor_state, path_history, path_state
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

Label = tuple[int, str]  # a memory's row, and a path as the memory names it
Span = tuple[int, int]


class Matches:
    """`why`: {row: reasons}. `aged`: {row: present states of its paths} of those that name the
    path.
    """

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

    def by_paths(self, names: path_history.Names) -> None:
        """Finds what names the path, one of its former names, a directory above, or something
        inside.
        """
        reasons = self._spellings(names)
        labels = self._labels(
            "value IN (SELECT value FROM json_each(?))", json.dumps(list(reasons))
        )
        present = record.clean(names.now or self.asked.path)
        whole = {(row, value) for value, row in labels if reasons[value] in (FILE, FORMER)}
        lines, renamed = self._present(whole, present)
        for value, row in labels:
            label, by = (row, value), reasons[value]
            span = lines.get(label)
            if span or (label in lines and label in renamed):
                self._with_lines.add(row)
            if label in renamed:
                if renamed[label] != value.rstrip("/"):  # else another file has this name now
                    self._add(row, FORMER, path=value, now=renamed[label])
            elif label not in lines:
                self._add(row, by, path=value)
            elif span is None:
                self._add(row, by, path=value, lines_unknown=True, **self._unknown(row, value))
            elif self.asked.meets(*span):
                self._add(row, LINE, path=value, lines=[list(span)])
        if names.kind == "tree" or (not names.kind and not labels):
            for name in names.labels:
                first, end = ("", "\U0010ffff") if name == "." else (name + "/\0", name + "0")
                for value, row in self._labels("value >= ? AND value < ?", first, end):
                    self._add(row, INSIDE, path=value)

    def _spellings(self, names: path_history.Names) -> dict[str, str]:
        """{path as a memory may name it: the reason}."""
        reasons: dict[str, str] = {}
        for name in names.labels:
            for spelling in (*above(name), ".", "./"):
                reasons.setdefault(spelling, ABOVE)
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

    def _present(
        self, labels: set[Label], present: str
    ) -> tuple[dict[Label, Span | None], dict[Label, str]]:
        """({label of lines: where they are now, None where they are not found}, {label of another
        file than `present`: its name now}).
        """
        lines: dict[Label, Span | None] = {}
        renamed: dict[Label, str] = {}
        rows, paths = sorted({row for row, _ in labels}), {path for _, path in labels}
        self.aged = path_state.of_rows(self.store.repo, self.cache, rows, self.head) if rows else {}
        for row, (data, _, _) in zip(rows, memory_rows.load(self.cache, rows), strict=True):
            places = memory_rows.places(data)
            for (path, _, noted), state in zip(places, self.aged[row], strict=True):
                if path not in paths:
                    continue
                span = noted.partition("@")[0]
                if span and lineanchor.parse(span):
                    held = state.state in (path_state.SAME, path_state.RENAMED)
                    lines[row, path] = lineanchor.parse(state.lines or span) if held else None
                known = (path_state.SAME, path_state.CHANGED, path_state.RENAMED)
                name = memory_rows.bare(record.clean(state.now or path))
                if name != present and state.state in known and not state.reason:
                    renamed[row, path] = name
        return lines, renamed

    def _unknown(self, row: int, path: str) -> dict[str, str]:
        """Why nobody can tell where the lines are; nothing where they are known to be gone."""
        ((data, _, _),) = memory_rows.load(self.cache, [row])
        for (name, _, _), state in zip(memory_rows.places(data), self.aged[row], strict=True):
            if name == path and state.state == path_state.UNKNOWN:
                return {"reason": state.reason}
        return {}

    def by_commits(self, lines: list[Line]) -> None:
        """Finds what is about the commits that wrote the lines, or was moved or squashed into one
        of them.
        """
        wrote: dict[str, list[list[int]]] = {}
        for line in lines:
            if line.commit and not line.older:
                spans = wrote.setdefault(line.commit, [])
                if spans and spans[-1][1] == line.number - 1:
                    spans[-1][1] = line.number
                else:
                    spans.append([line.number, line.number])
        writers = predecessors(self.cache, wrote)
        rows = self.cache.db.execute(
            "SELECT row, anchor FROM memory WHERE status = 0 AND anchor IN (SELECT value FROM"
            f" json_each(?)) AND +row IN ({self.only}) ORDER BY row",
            (json.dumps(sorted(writers)), *self.args),
        ).fetchall()
        for row, anchor in rows:
            if row not in self._with_lines:
                for commit in sorted(writers[anchor], key=lambda c: wrote[c]):
                    self._add(row, COMMIT, commit=commit, lines=wrote[commit])

    def names_path(self) -> bool:
        """Whether a memory names the path itself, or something in it."""
        reasons = [reason["by"] for reasons in self.why.values() for reason in reasons]
        return not {LINE, FILE, FORMER, INSIDE}.isdisjoint(reasons)

    def anchors(self) -> set[str]:
        """The commits that the memories are about."""
        rows = self.cache.db.execute(
            "SELECT DISTINCT anchor FROM memory WHERE row IN (SELECT value FROM json_each(?))",
            (json.dumps(sorted(self.why)),),
        )
        return {anchor for (anchor,) in rows if record.object_id(anchor)}

    def ranked(self, stands: dict[str, anchor_state.AnchorState]) -> list[int]:
        """The rows: memories of unmerged branches last, the surest first, then the newest."""
        facts = self.cache.db.execute(
            "SELECT row, anchor, at, id FROM memory WHERE row IN (SELECT value FROM json_each(?))",
            (json.dumps(sorted(self.why)),),
        ).fetchall()
        latest = filters.latest(self.cache)
        anchors = {row: anchor for row, anchor, _, _ in facts}
        ages = {row: (record.when(at, latest), id) for row, _, at, id in facts}
        for reasons in self.why.values():
            reasons.sort(key=lambda r: (self.order.index(r["by"]), -len(r.get("path", ""))))

        def place(row: int) -> tuple[bool, int, int]:
            stand, first = stands.get(anchors[row]), self.why[row][0]
            return (
                stand is not None and stand.state == anchor_state.UNMERGED,
                self.order.index(first["by"]),
                -len(first["path"]) if first["by"] == ABOVE else 0,
            )

        newest = sorted(self.why, key=lambda row: ages[row], reverse=True)
        return sorted(newest, key=place)


def predecessors(cache: Cache, commits: Iterable[str]) -> dict[str, set[str]]:
    """{commit that memories may be about: those of `commits` that took its place, carry its change,
    or are itself}.
    """
    owners = {commit: {commit} for commit in commits}
    queue = set(owners)
    while queue:
        pairs = cache.db.execute(
            "SELECT new, old FROM move WHERE new IN (SELECT value FROM json_each(?1)) UNION"
            " SELECT other, commit_id FROM equivalent_commit"
            " WHERE other IN (SELECT value FROM json_each(?1))",
            (json.dumps(sorted(queue)),),
        ).fetchall()
        queue = set()
        for new, old in pairs:
            known = owners.setdefault(old, set())
            if not owners[new] <= known:
                known |= owners[new]
                queue.add(old)
    return owners
