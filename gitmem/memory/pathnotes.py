"""What a record notes of a path: its blob at the commit it is about, and of lines what they say.

A path may be written "FILE:10-20" or "FILE:10"; a file or directory whose real name ends so wins.
Promise: what was noted before stays as it is; one path with lines that are not there stops no
other. Two git processes however many paths, and one more where there are lines; of a file that a
partial clone does not have the blob is noted, and nothing fetched for what its lines say. Of a path
that is not there nothing is wrong: a memory may be about what is gone, or yet to come; a range that
no file can have is."""

from __future__ import annotations

import os
import re

from ..anchors import path_state
from ..core import lineanchor
from ..core.errors import GitFailed
from ..engine.cache import Cache
from ..engine.memory_rows import commit_of, places
from ..git.repository import Repo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def note(repo: Repo, paths: Sequence[tuple[str, dict[str, str]]]) -> list[str]:
    """Adds to each (commit, path entry) what it has there, where that was not noted before; what is
    wrong with each, "" for nothing.
    """
    wrong = _split(repo, paths)
    missing = [
        i for i, (commit, p) in enumerate(paths) if commit and not p.get("blob") and not wrong[i]
    ]
    names = [(paths[i][0], paths[i][1]["path"].rstrip("/") or ".") for i in missing]
    for i, blob in zip(missing, repo.git.entries(names), strict=True):
        if blob:
            paths[i][1]["blob"] = blob
    lined = [
        i
        for i in missing
        if paths[i][1].get("blob") and lineanchor.parse(paths[i][1].get("lines", ""))
    ]
    for i, found in zip(
        lined,
        repo.git.local.get_many([paths[i][1]["blob"] for i in lined]) if lined else [],
        strict=True,
    ):
        entry = paths[i][1]
        if found is not None:
            wrong[i] = _content(entry, found[1], found[2])
    return wrong


def _split(repo: Repo, paths: Sequence[tuple[str, dict[str, str]]]) -> list[str]:
    """Turns "FILE:10-20" (a compiler's "FILE:10:4", too) into a path and its lines, where no file
    has that very name; what is wrong with each.
    """
    wrong = ["" if p.get("blob") else _range(p["path"], p.get("lines", "")) for _, p in paths]
    open_ = [
        i
        for i, (_, p) in enumerate(paths)
        if ":" in p["path"] and not p.get("blob") and not p.get("lines")
    ]
    parts = {i: paths[i][1]["path"].rsplit(":", 2) for i in open_}
    # Each name that the text may mean, the whole text first.
    asked = [(i, ":".join(parts[i][:n])) for i in open_ for n in range(len(parts[i]), 0, -1)]
    there = dict(zip(asked, _there(repo, [(paths[i][0], name) for i, name in asked]), strict=True))
    for i in open_:
        entry = paths[i][1]
        if there[i, entry["path"]]:
            continue
        name, lines = lineanchor.split(entry["path"])
        before, first = lineanchor.split(name)
        if lines and first and not there[i, name]:
            entry["path"], entry["lines"] = before, first  # the second number is a column
        elif lines:
            entry["path"], entry["lines"] = name, lines
        else:
            name, _, last = entry["path"].rpartition(":")
            wrong[i] = _range(name, last) or (
                f"'{entry['path'][:200]}' is neither a file nor lines of one"
                if there.get((i, name))
                else ""
            )
    return wrong


def _range(name: str, lines: str) -> str:
    said = lineanchor.wrong(lines)
    return f"'{name[:200]}:{lines[:40]}' {said}" if said else ""


def _there(repo: Repo, names: Sequence[tuple[str, str]]) -> list[bool]:
    """Whether each (commit, name) is a file or a directory, there or in the work tree."""
    found = iter(
        repo.git.entries(
            [(commit, name.rstrip("/") or ".") for commit, name in names if commit and name]
        )
    )
    return [
        bool(name)
        and (
            bool(next(found) if commit else "")
            or bool(repo.top and os.path.lexists(os.path.join(repo.top, name)))
        )
        for commit, name in names
    ]


def _content(entry: dict[str, str], kind: str, raw: bytes) -> str:
    """Adds the content anchor of the lines of a file; what is wrong with them."""
    if kind != "blob":
        return f"'{entry['path'][:200]}' is a directory and has no lines"
    _, last = lineanchor.parse(entry["lines"]) or (0, 0)
    count = raw.count(b"\n") + (not raw.endswith(b"\n") and bool(raw))
    if last > count:
        return (
            f"'{entry['path'][:200]}' has {count} {'line' if count == 1 else 'lines'}, not"
            f" {entry['lines']}"
        )
    content = lineanchor.anchor(raw, entry["lines"])
    if content:
        entry["content"] = content
    return ""


def inherited(repo: Repo, cache: Cache, data: dict[str, Any], head: str) -> list[dict[str, str]]:
    """The paths of a record for one that takes its place at the commit `head`: under the names they
    have there, noted anew, lines where they stand there.

    Lines that say something else by now are those between what stood around them.
    What is not there keeps the lines it had; where the file has no such lines they are left out.
    """
    found = places(data)
    states = path_state.states(repo, cache, [(commit_of(data), *place) for place in found], head)
    out = []
    for (path, blob, noted), state in zip(found, states, strict=True):
        entry = {"path": state.now or path}
        lines = state.lines or noted.partition("@")[0]
        if lines and state.state == path_state.CHANGED:
            lines = _across(repo, blob, f"{head}:{entry['path']}", lines)
        out.append({**entry, "lines": lines} if lines else entry)
    wrong = note(repo, [(head, entry) for entry in out])
    return [
        {"path": entry["path"]} if said else entry for entry, said in zip(out, wrong, strict=True)
    ]


_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.M)


def _across(repo: Repo, old: str, new: str, lines: str) -> str:
    """Where lines of one blob are in another, by git's own diff of the two; "" where nothing is
    left of them, or nobody can tell.
    """
    first, last = lineanchor.parse(lines) or (0, 0)
    ids = repo.git.ids([old, new]) if first else []
    if not ids or not all(ids):
        return ""
    try:
        diff = repo.git.run(
            "diff",
            "-U0",
            "--inter-hunk-context=0",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            *ids,
        )
    except GitFailed:  # one of them is no file
        return ""
    begin, end = first, last
    for found in _HUNK.finditer(diff):
        at, count, now, more = (1 if text is None else int(text) for text in found.groups())
        at, now = at + (not count), now + (not more)  # an empty side is named by the line before it
        after, then = at + count, now + more
        if after <= first:
            begin = first + then - after
        elif at <= first:
            begin = now
        if after <= last:
            end = last + then - after
        elif at <= last:
            end = then - 1
    found_ = f"{begin}-{end}" if begin != end else str(begin)
    return found_ if lineanchor.parse(found_) else ""
