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

import json
import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..anchors import (
    anchor_state,
    patch_id,
    path_history,
    path_state,
    reanchor,
    reinstate,
    snapshot_view,
)
from ..core import lineanchor, record
from ..core.errors import GitFailed, MemError, UsageError
from ..engine import anchor_state_store, filters, memory_rows, reinstated
from ..engine.cache import Cache
from ..engine.filters import Filter, above
from ..git import worktree_file
from ..git.gitcmd import NO_FETCH
from ..memory import view
from ..store import Store

T = TypeVar("T")

LINE, FILE, FORMER, COMMIT, ABOVE, INSIDE = (
    "line",
    "file",
    "former name",
    "commit",
    "directory",
    "inside",
)
_ORDER = (LINE, FILE, FORMER, COMMIT, INSIDE, ABOVE)
_OF_LINES = (
    LINE,
    COMMIT,
    FILE,
    FORMER,
    INSIDE,
    ABOVE,
)  # where lines are asked about, who wrote them tells more than the file
_BINARY = 8000  # bytes in which git looks for a NUL
_LARGE = 4_000_000  # bytes of a file that is blamed whole
_BRANCHES = 64  # that are looked at for a path which is not at HEAD


class Line:
    """One line of a file.

    `commit`: who wrote it, "" where it is not committed yet; `older`: that commit or an earlier
    one, history ends there; `ids`: memories about it.
    """

    __slots__ = ("commit", "ids", "number", "older", "text")

    def __init__(self, number: int, commit: str, text: str) -> None:
        self.number = number
        self.commit = commit
        self.text = text
        self.older = False
        self.ids: list[str] = []


class _Withheld(MemError):
    """A partial clone does not have what tells who wrote the lines."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"who wrote the lines of '{name}' is not known (partial clone)",
            hint="`git blame` of the file fetches what it needs; then it can be asked again",
        )


class Target:
    """What is asked about: a path from the top of the tree, and lines of it ((0, 0): all)."""

    def __init__(self, path: str, first: int = 0, last: int = 0) -> None:
        self.path = path
        self.first = first
        self.last = last


def target(store: Store, text: str, at: str = "") -> Target:
    """PATH, PATH:LINE, PATH:FIRST-LAST or PATH:LINE:COLUMN as people and compilers write it; a file
    whose name ends so wins.

    Raises MemError for what lies outside of the tree, UsageError for lines that no file can have.
    """
    revision = at or "HEAD"

    def is_there(name: str) -> bool:
        try:
            path = store.repo.path_in_tree(name).rstrip("/") or "."
        except MemError:
            return False
        return (
            path == "."
            or bool(store.repo.top and os.path.lexists(os.path.join(store.repo.top, path)))
            or bool(store.repo.git.entries([(revision, path)])[0])
        )

    name, lines = lineanchor.split(text)
    if lines and not is_there(text):
        before, column = lineanchor.split(name)
        if column and not is_there(name):
            name, lines = before, column  # the second number is a column
        first, last = lineanchor.parse(lines) or (0, 0)
        return Target(store.repo.path_in_tree(name).rstrip("/") or ".", first, last)
    name, colon, meant = text.rpartition(":")
    said = lineanchor.wrong(meant) if colon and name and not lines else ""
    if said and not is_there(text):
        raise UsageError(
            f"'{name[:200]}:{meant[:40]}' {said}", hint="lines are FILE:10 or FILE:10-20"
        )
    return Target(store.repo.path_in_tree(text).rstrip("/") or ".")


def why(
    store: Store, text: str, *, at: str = "", limit: int | None = None
) -> tuple[list[dict[str, Any]], int]:
    """(public objects, each with `why`, the surest first; how many more there are)."""
    asked = target(store, text, at)
    return _with_past(
        store,
        at,
        lambda cache, past: _answer(store, cache, past, asked, at, limit, strict=bool(asked.first))[
            :2
        ],
    )


def blame(store: Store, text: str, *, at: str = "") -> tuple[list[Line], list[dict[str, Any]], str]:
    """(the lines with the ids of memories about them, those memories as `why` gives them, the name
    of the file). Raises MemError where there is no such file.
    """
    asked = target(store, text, at)

    def read(
        cache: Cache, past: snapshot_view.Then | None
    ) -> tuple[list[Line], list[dict[str, Any]], str]:
        objects, _, lines, name = _answer(
            store, cache, past, asked, at, None, strict=True, lines_too=True
        )
        for item in objects:
            for reason in item["why"]:
                for first, last in reason.get("lines", []):
                    for line in lines[max(0, first - lines[0].number) : last - lines[0].number + 1]:
                        if item["id"] not in line.ids:
                            line.ids.append(item["id"])
        return lines, objects, name

    return _with_past(store, at, read)


def _with_past(store: Store, at: str, action: Callable[[Cache, snapshot_view.Then | None], T]) -> T:
    def read(cache: Cache) -> T:
        if not at:
            return action(cache, None)
        with snapshot_view.opened(store, cache, at) as past:
            if past.reason:
                store.warn(f"warning: {past.reason}")
            return action(past, past)

    return store.with_cache(read)[0]


def _answer(
    store: Store,
    cache: Cache,
    past: snapshot_view.Then | None,
    asked: Target,
    at: str,
    limit: int | None,
    strict: bool,
    lines_too: bool = False,
) -> tuple[list[dict[str, Any]], int, list[Line], str]:
    repo = store.repo
    head = past.head if past else repo.head()
    named = path_history.at(repo, cache, head, asked.path)
    if not named.whole:
        why_ = (
            f"the history of '{asked.path}' is long"
            if named.late
            else f"git cannot read the history of '{asked.path}'"
            + (f" ({named.cut})" if named.cut else "")
        )
        store.warn(f"warning: {why_}: not all names that it had were found")
    try:
        lines = _blamed(store, named, asked, head, bool(at), strict)
    except _Withheld as e:
        if lines_too:
            raise
        store.warn(f"warning: {e.message}")
        lines = []
    if not past:
        reinstate.settle(repo, cache, store.table)
    found = _Found(
        store, cache, head, asked, Filter() if past else reinstated.seen_from(cache, Filter(), head)
    )
    found.by_paths(named)
    if lines and not past and anchor_state_store.slot_of(cache, head) is None:
        anchor_state.stands(
            repo, cache, reanchor.anchors(cache), head
        )  # finds what was squashed into the commits that wrote the lines
    found.by_commits(lines)
    if (
        not named.kind
        and not past
        and not found.names_it()
        and (branch := _branch_with(store, asked.path))
    ):
        store.warn(
            f"hint: '{asked.path}' is not at HEAD, and on '{branch}': `--at {branch}` asks there"
        )
    stands = dict(past.stands) if past else anchor_state.stands(repo, cache, found.anchors(), head)
    rows = memory_rows.firsts(cache, found.ranked(stands))
    chosen = rows[:limit]
    objects = view.objects(store, cache, chosen, at or "HEAD", stands, aged=found.aged)
    if past:
        past.tell(chosen, objects)
    else:
        reanchor.go_on_later(store, cache, stands)
    for row, item in zip(chosen, objects, strict=True):
        item["why"] = found.why[row]
    return objects, len(rows) - len(chosen), lines, named.now or asked.path


class _Found:
    """Rows and by what each was found."""

    def __init__(
        self, store: Store, cache: Cache, head: str, asked: Target, wanted: Filter
    ) -> None:
        self.store = store
        self.cache = cache
        self.head = head
        self.asked = asked
        self.only, self.args = wanted.sql()
        self.why: dict[int, list[dict[str, Any]]] = {}
        self.order = _OF_LINES if asked.first else _ORDER
        self.aged: dict[int, list[path_state.State]] = {}  # what became of the paths of some
        self._told: set[int] = (
            set()
        )  # those that say themselves which lines of the file they are about

    def _add(self, row: int, how: str, **more: Any) -> None:
        self.why.setdefault(row, []).append({"by": how, **more})

    def by_paths(self, named: path_history.Names) -> None:  # noqa: C901
        """What names the path, one of its former names, a directory above, or something inside."""
        ways: dict[str, str] = {}
        for name in named.labels:
            for spelled in (*above(name), ".", "./"):
                ways.setdefault(spelled, ABOVE)
        for name in reversed(named.labels):
            now = name in (record.clean(self.asked.path), record.clean(named.now))
            ways.update(dict.fromkeys((name, name + "/"), FILE if now else FORMER))
        rows = self.cache.db.execute(
            "SELECT value, row FROM label WHERE kind = 'path' AND value IN (SELECT value FROM"
            f" json_each(?)) AND row IN ({self.only}) ORDER BY 2, 1",
            (json.dumps(sorted(ways)), *self.args),
        ).fetchall()
        whole = [(value, row) for value, row in rows if ways[value] in (FILE, FORMER)]
        kept, elsewhere = self._become(
            {row for _, row in whole},
            {value for value, _ in whole},
            {record.clean(named.now or self.asked.path)},
        )
        for value, row in rows:
            if became := elsewhere.get((row, value)):
                if (row, value) in kept:
                    self._told.add(row)
                if became != value.rstrip("/"):  # else another file, which has this name now
                    self._add(row, FORMER, path=value, now=became)
            elif (row, value) not in kept:
                self._add(row, ways[value], path=value)
            elif (span := kept[row, value]) is None:
                self._add(
                    row, ways[value], path=value, lines_unknown=True, **self._reason(row, value)
                )
            else:
                self._told.add(row)
                if self._meets(*span):
                    self._add(row, LINE, path=value, lines=[list(span)])
        if named.kind == "tree" or (not named.kind and not rows):
            for name in named.labels:
                sql = (
                    "SELECT value, row FROM label WHERE kind = 'path' AND value >= ? AND value < ?"
                    f" AND row IN ({self.only}) ORDER BY 2, 1"
                )
                between = ("", "\U0010ffff") if name == "." else (name + "/\0", name + "0")
                for value, row in self.cache.db.execute(sql, (*between, *self.args)).fetchall():
                    self._add(row, INSIDE, path=value)

    def _reason(self, row: int, path: str) -> dict[str, str]:
        """Why nobody can tell where the lines are; nothing where they are known to be gone."""
        ((data, _, _),) = memory_rows.load(self.cache, [row])
        found = [
            s.reason
            for (name, _, _), s in zip(memory_rows.places(data), self.aged[row], strict=True)
            if name == path and s.state == path_state.UNKNOWN
        ]
        return {"reason": found[0]} if found else {}

    def _meets(self, first: int, last: int) -> bool:
        return not self.asked.first or (first <= self.asked.last and last >= self.asked.first)

    def _become(
        self, rows: set[int], labels: set[str], here: set[str]
    ) -> tuple[dict[tuple[int, str], tuple[int, int] | None], dict[tuple[int, str], str]]:
        """({(row, path as it names it): where its lines are now, None where they are not found} of
        memories about lines, {the same: its name now} of what is not `here`).
        """
        lines: dict[tuple[int, str], tuple[int, int] | None] = {}
        elsewhere: dict[tuple[int, str], str] = {}
        order = sorted(rows)
        self.aged = view.path_states(self.store, self.cache, order, self.head) if order else {}
        for row, (data, _, _) in zip(order, memory_rows.load(self.cache, order), strict=True):
            for (path, _, noted), state in zip(
                memory_rows.places(data), self.aged[row], strict=True
            ):
                if path not in labels:
                    continue
                if noted and lineanchor.parse(noted.partition("@")[0]):
                    held = state.state in (path_state.SAME, path_state.RENAMED)
                    lines[row, path] = (
                        lineanchor.parse(state.lines or noted.partition("@")[0]) if held else None
                    )
                now = memory_rows.bare(record.clean(state.now or path))
                if (
                    now not in here
                    and state.state in (path_state.SAME, path_state.CHANGED, path_state.RENAMED)
                    and not state.reason
                ):
                    elsewhere[row, path] = now
        return lines, elsewhere

    def by_commits(self, lines: list[Line]) -> None:
        """What is about the commits that wrote the lines, or was moved or squashed into one of
        them.
        """
        wrote: dict[str, list[list[int]]] = {}
        for line in lines:
            if line.commit and not line.older:
                spans = wrote.setdefault(line.commit, [])
                if spans and spans[-1][1] == line.number - 1:
                    spans[-1][1] = line.number
                else:
                    spans.append([line.number, line.number])
        owners = standing_at(self.cache, wrote)
        asked = json.dumps(sorted(owners))
        sql = (
            "SELECT row, anchor FROM memory WHERE status = 0 AND anchor IN (SELECT value FROM"
            f" json_each(?)) AND +row IN ({self.only}) ORDER BY row"
        )
        rows = self.cache.db.execute(sql, (asked, *self.args)).fetchall()
        for row, anchor in rows:
            for commit in (
                () if row in self._told else sorted(owners[anchor], key=lambda c: wrote[c])
            ):
                self._add(row, COMMIT, commit=commit, lines=wrote[commit])

    def names_it(self) -> bool:
        """Whether some of it names the path itself, or what is in it."""
        return any(
            reason["by"] in (LINE, FILE, FORMER, INSIDE)
            for reasons in self.why.values()
            for reason in reasons
        )

    def anchors(self) -> set[str]:
        """The commits that what was found is about."""
        rows = self.cache.db.execute(
            "SELECT DISTINCT anchor FROM memory WHERE row IN (SELECT value FROM json_each(?))",
            (json.dumps(sorted(self.why)),),
        )
        return {a for (a,) in rows if record.object_id(a)}

    def ranked(self, stands: dict[str, anchor_state.Stand]) -> list[int]:
        """The surest first, then the newest."""
        asked = json.dumps(sorted(self.why))
        sql = "SELECT row, anchor, at, id FROM memory WHERE row IN (SELECT value FROM json_each(?))"
        latest = filters.latest(self.cache)
        facts = {
            row: (anchor, record.when(at, latest), id)
            for row, anchor, at, id in self.cache.db.execute(sql, (asked,))
        }
        newest = sorted(self.why, key=lambda row: (facts[row][1], facts[row][2]), reverse=True)

        def place(row: int) -> tuple[bool, int, int]:
            stand = stands.get(facts[row][0])
            first = self.why[row][0]
            return (
                stand is not None and stand.state == anchor_state.UNMERGED,
                self.order.index(first["by"]),
                -len(first["path"]) if first["by"] == ABOVE else 0,
            )

        for row in newest:
            self.why[row].sort(
                key=lambda reason: (self.order.index(reason["by"]), -len(reason.get("path", "")))
            )
        return sorted(newest, key=place)


def standing_at(cache: Cache, commits: Iterable[str]) -> dict[str, set[str]]:
    """{commit that memories may be about: those of the commits that took its place, carry its
    change, or are itself}.
    """
    owners = {c: {c} for c in commits}
    ask = set(owners)
    while ask:
        asked = json.dumps(sorted(ask))
        pairs = cache.db.execute(
            "SELECT new, old FROM move WHERE new IN (SELECT value FROM json_each(?1)) UNION SELECT"
            " other, commit_id FROM twin WHERE other IN (SELECT value FROM json_each(?1))",
            (asked,),
        ).fetchall()
        ask = set()
        for new, old in pairs:
            found = owners.setdefault(old, set())
            if not owners[new] <= found:
                found |= owners[new]
                ask.add(old)
    return owners


def _branch_with(store: Store, path: str) -> str:
    """The branch with the newest commit that has the path, "" where none has."""
    git = store.repo.git
    rows = [
        row.split(" ")
        for row in git.text(
            "for-each-ref",
            f"--count={_BRANCHES}",
            "--sort=-committerdate",
            "--format=%(objectname) %(refname:short) %(symref)",
            "refs/heads",
            "refs/remotes",
        ).splitlines()
    ]
    ids = git.entries([(tip, path) for tip, _, _ in rows])
    return next(
        (name for (_, name, other), id in zip(rows, ids, strict=True) if id and not other), ""
    )


# Who wrote the lines


def _blamed(  # noqa: C901
    store: Store, named: path_history.Names, asked: Target, head: str, past: bool, strict: bool
) -> list[Line]:
    """The lines asked about, with their commits; none for what is no text.

    `strict`: raises MemError where there are no such lines.
    """
    repo = store.repo
    name = named.now or asked.path
    content = _content(repo.top, name) if repo.top and not past else None
    in_tree = content is not None
    if named.kind != "blob":
        if strict and not named.kind and named.cut == anchor_state.PARTIAL:
            raise _Withheld(name)
        if strict:
            what = (
                f"'{asked.path}' is a directory"
                if named.kind == "tree"
                else (
                    f"'{asked.path}' is not committed"
                    if in_tree
                    else f"no file '{asked.path}' at {'this revision' if past else 'HEAD'}"
                )
            )
            raise MemError(
                what,
                hint=(
                    f"`git mem why -- {asked.path}` shows what is known about the path"
                    if named.kind or not in_tree
                    else ""
                ),
            )
        return []
    if content is None:
        text, whole = repo.git.limited(None, "cat-file", "blob", f"{head}:{name}")
    else:
        text, whole = content, True
    if b"\0" in text[:_BINARY] or (len(text) > _LARGE and not asked.first):
        if strict:
            raise MemError(
                (
                    f"'{name}' is no text"
                    if b"\0" in text[:_BINARY]
                    else f"'{name}' is too large to be looked at whole"
                ),
                hint="" if b"\0" in text[:_BINARY] else "name lines of it",
            )
        return []
    part = [f"-L{asked.first},{asked.last}"] if asked.first else []
    words = ["blame", "--porcelain", "--no-textconv", *part]
    if in_tree:
        words = ["-C", repo.top, f"--work-tree={repo.top}", *words, "--", name]
    else:
        words = [*words, head, "--", name]
    try:
        lines = (
            _parsed(repo.git.run(*words, env=NO_FETCH))
            if whole or not patch_id.partial(repo)
            else None
        )
    except GitFailed as e:
        if "has only" in e.message:
            raise MemError(
                f"'{name}' has {e.message.rpartition('only ')[2]}, so there is no line"
                f" {asked.first}"
            ) from e
        if not patch_id.partial(repo):
            raise
        lines = None
    if lines is None:
        raise _Withheld(name)
    cut = patch_id.ends(repo)
    for line in lines:
        line.older = line.commit in cut
    return lines


def _content(top: str, name: str) -> bytes | None:
    """The begin of a file as it stands in the working tree; None where there is no regular one."""
    try:
        return worktree_file.read(top, name, _LARGE + 1, cut=True)
    except MemError:
        return None


def _parsed(out: bytes) -> list[Line]:
    """The lines of `git blame --porcelain`."""
    lines: list[Line] = []
    commit, number = "", 0
    for row in out.split(b"\n"):
        if row.startswith(b"\t"):
            lines.append(
                Line(
                    number, commit if commit.strip("0") else "", row[1:].decode("utf-8", "replace")
                )
            )
        else:
            words = row.split(b" ")
            if (
                len(words) in (3, 4)
                and len(words[0]) in (40, 64)
                and all(w.isdigit() for w in words[1:])
            ):
                commit, number = words[0].decode(), int(words[2])
    return lines
