"""Lines of a file: which of them a person asks about, and which commit wrote each.

Promise: git decides who wrote a line; a partial clone that cannot tell says so.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ..anchors import anchor_state, path_history
from ..core import lineanchor
from ..core.errors import GitFailed, MemError, UsageError
from ..git import commit_reader, worktree_file
from ..git.gitcmd import NO_FETCH
from ..memory import misnamed
from ..store import Store

_BINARY = 8000  # bytes in which git looks for a NUL
_LARGE = 4_000_000  # bytes of a file that is blamed whole


class Line:
    def __init__(self, number: int, commit: str, text: str) -> None:
        self.number = number
        self.commit = commit  # who wrote it, "" where it is not committed yet
        self.text = text
        self.older = False  # that commit or an earlier one: history ends there
        self.ids: list[str] = []  # memories about it


class Withheld(MemError):
    """A partial clone does not have what tells who wrote the lines."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"who wrote the lines of '{name}' is not known (partial clone)",
            hint="`git blame` of the file fetches what it needs; then it can be asked again",
        )


class Target(NamedTuple):
    """A path from the top of the tree, and lines of it ((0, 0): all)."""

    path: str
    first: int = 0
    last: int = 0

    def meets(self, first: int, last: int) -> bool:
        return not self.first or (first <= self.last and last >= self.first)


def target(store: Store, text: str, at: str = "") -> Target:
    """PATH, PATH:LINE, PATH:FIRST-LAST or PATH:LINE:COLUMN as people and compilers write it; a file
    whose name ends so wins.

    Raises MemError for a path outside of the tree, UsageError for lines that no file can have.
    """
    name, lines = lineanchor.split(text)
    if lines and not _exists(store, text, at):
        before, column = lineanchor.split(name)
        if column and not _exists(store, name, at):
            name, lines = before, column  # the second number is a column
        first, last = lineanchor.parse(lines) or (0, 0)
        return Target(_in_tree(store, name), first, last)
    name, _, number = text.rpartition(":")
    wrong = lineanchor.wrong(number) if name and not lines else ""
    if wrong and not _exists(store, text, at):
        message = f"'{name[:200]}:{number[:40]}' {wrong}"
        raise UsageError(message, hint="lines are FILE:10 or FILE:10-20")
    return Target(_in_tree(store, text))


def _in_tree(store: Store, name: str) -> str:
    return store.repo.path_in_tree(name).rstrip("/") or "."


def _exists(store: Store, name: str, at: str) -> bool:
    try:
        path = _in_tree(store, name)
    except MemError:
        return False
    top = store.repo.top
    if path == "." or (top and os.path.lexists(os.path.join(top, path))):
        return True
    return bool(store.repo.git.entries([(at or "HEAD", path)])[0])


def blamed(
    store: Store, names: path_history.Names, asked: Target, head: str, past: bool, strict: bool
) -> list[Line]:
    """The lines asked about, with their commits; none for what is no text.

    `past`: the working tree does not count. `strict`: raises MemError where there are no such
    lines. Raises Withheld in a partial clone.
    """
    repo = store.repo
    name = names.now or asked.path
    content = _content(repo.top, name) if repo.top and not past else None
    if names.kind != "blob":
        if strict:
            nearest = ""
            if head and not names.kind and content is None:
                nearest = misnamed.nearest_path(asked.path, misnamed.files(store, head))
            raise _no_file(names, asked, content is not None, past, nearest)
        return []
    text, whole = content or b"", True
    if content is None:
        text, whole = repo.git.limited(None, "cat-file", "blob", f"{head}:{name}")
    binary = b"\0" in text[:_BINARY]
    if binary or (len(text) > _LARGE and not asked.first):
        if not strict:
            return []
        if binary:
            raise MemError(f"'{name}' is no text")
        raise MemError(f"'{name}' is too large to be looked at whole", hint="name lines of it")
    if not whole and repo.git.promised:
        raise Withheld(name)
    lines = _blame(store, name, asked, head if content is None else "")
    ends = commit_reader.ends(repo.git)
    for line in lines:
        line.older = line.commit in ends
    return lines


def _blame(store: Store, name: str, asked: Target, revision: str) -> list[Line]:
    """What `git blame` says; of the working tree where `revision` is empty."""
    repo = store.repo
    command = ["blame", "--porcelain", "--no-textconv"]
    command += [f"-L{asked.first},{asked.last}"] if asked.first else []
    if revision:
        command.append(revision)
    else:
        command = ["-C", repo.top, f"--work-tree={repo.top}", *command]
    try:
        return _parsed(repo.git.run(*command, "--", name, env=NO_FETCH))
    except GitFailed as e:
        _, short, count = e.message.rpartition("has only ")
        if short:
            raise MemError(f"'{name}' has {count}, so there is no line {asked.first}") from e
        if repo.git.promised:
            raise Withheld(name) from e
        raise


def _no_file(
    names: path_history.Names, asked: Target, in_tree: bool, past: bool, nearest: str
) -> MemError:
    path = asked.path
    if not names.kind and names.cut == anchor_state.PARTIAL:
        return Withheld(names.now or path)
    hint = f"`git mem why -- {path}` shows what is known about the path"
    if names.kind == "tree":
        return MemError(f"'{path}' is a directory", hint=hint)
    if in_tree:
        return MemError(f"'{path}' is not committed", hint=hint if names.kind else "")
    where = f"at {'this revision' if past else 'HEAD'}"
    return MemError(f"no file '{path}' {where}", f"did you mean {nearest}?" if nearest else hint)


def _content(top: str, name: str) -> bytes | None:
    try:
        return worktree_file.read(top, name, _LARGE + 1, cut=True)
    except MemError:
        return None


def _parsed(porcelain: bytes) -> list[Line]:
    lines: list[Line] = []
    commit, number = "", 0
    for row in porcelain.split(b"\n"):
        if row.startswith(b"\t"):
            text = row[1:].decode("utf-8", "replace")
            lines.append(Line(number, commit if commit.strip("0") else "", text))
            continue
        words = row.split(b" ")
        numbers = len(words) in (3, 4) and all(word.isdigit() for word in words[1:])
        if numbers and len(words[0]) in (40, 64):
            commit, number = words[0].decode(), int(words[2])
    return lines
