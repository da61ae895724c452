"""What a record notes of a path: its blob at the commit it is about, and of lines what they say.

A path may be written "FILE:10-20" or "FILE:10"; a file or directory whose real name ends so wins.
What is not there may be named, since a memory may be about what is gone or yet to come; a range
that no file can have may not.

Promise: what was noted before stays; one path that is wrong stops no other. Two git processes
however many paths, and one more where there are lines; nothing is fetched into a partial clone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ..anchors import path_state
from ..core import lineanchor
from ..engine.cache import Cache
from ..engine.memory_rows import bare, commit_of, places
from ..git.repository import Repo


def note(repo: Repo, paths: Sequence[tuple[str, dict[str, str]]]) -> list[str]:
    """Adds to each (commit, path entry) what it lacks; what is wrong with each, "" for nothing."""
    wrong = ["" if p.get("blob") else _range(p["path"], p.get("lines", "")) for _, p in paths]
    _split(repo, paths, wrong)
    missing = [
        i for i, (commit, p) in enumerate(paths) if commit and not p.get("blob") and not wrong[i]
    ]
    blobs = repo.git.entries([(paths[i][0], bare(paths[i][1]["path"])) for i in missing])
    for i, blob in zip(missing, blobs, strict=True):
        if blob:
            paths[i][1]["blob"] = blob
    blobbed = [(i, paths[i][1].get("lines", "")) for i in missing if "blob" in paths[i][1]]
    lined = [i for i, lines in blobbed if lineanchor.parse(lines)]
    texts = repo.git.local.get_many([paths[i][1]["blob"] for i in lined]) if lined else []
    for i, found in zip(lined, texts, strict=True):
        if found is not None:
            wrong[i] = _content(paths[i][1], found[1], found[2])
    return wrong


def _split(repo: Repo, paths: Sequence[tuple[str, dict[str, str]]], wrong: list[str]) -> None:
    """Turns "FILE:10-20" (a compiler's "FILE:10:4", too) into a path and its lines, where no file
    has that very name; adds what is wrong with each.
    """
    texts = {
        i: p["path"]
        for i, (_, p) in enumerate(paths)
        if ":" in p["path"] and not p.get("blob") and not p.get("lines")
    }
    asked = [(i, name) for i, text in texts.items() for name in (text, text.rpartition(":")[0])]
    found = exist(repo, [(paths[i][0], name) for i, name in asked])
    there = {one for one, is_there in zip(asked, found, strict=True) if is_there}
    for i, text in texts.items():
        entry = paths[i][1]
        if (i, text) in there:
            continue
        name, lines = lineanchor.split(text)
        before, first = lineanchor.split(name)
        if lines and first and (i, name) not in there:
            entry.update(path=before, lines=first)  # the second number is a column
        elif lines:
            entry.update(path=name, lines=lines)
        else:
            name, _, last = text.rpartition(":")
            wrong[i] = _range(name, last)
            if not wrong[i] and (i, name) in there:
                wrong[i] = f"'{text[:200]}' is neither a file nor lines of one"


def _range(name: str, lines: str) -> str:
    said = lineanchor.wrong(lines)
    return f"'{name[:200]}:{lines[:40]}' {said}" if said else ""


def exist(repo: Repo, names: Sequence[tuple[str, str]]) -> list[bool]:
    """Whether each (commit, name) is a file or a directory, there or in the work tree."""
    asked = [(commit, name) for commit, name in names if commit and name]
    ids = repo.git.entries([(commit, bare(name)) for commit, name in asked])
    known = {one for one, id in zip(asked, ids, strict=True) if id}

    def in_work_tree(name: str) -> bool:
        return bool(repo.top and name) and os.path.lexists(os.path.join(repo.top, name))

    return [(commit, name) in known or in_work_tree(name) for commit, name in names]


def _content(entry: dict[str, str], kind: str, raw: bytes) -> str:
    """Adds the content anchor of the lines of a file; what is wrong with them."""
    if kind != "blob":
        return f"'{entry['path'][:200]}' is a directory and has no lines"
    _, last = lineanchor.parse(entry["lines"]) or (0, 0)
    count = raw.count(b"\n") + (not raw.endswith(b"\n") and bool(raw))
    if last > count:
        noun = "line" if count == 1 else "lines"
        return f"'{entry['path'][:200]}' has {count} {noun}, not {entry['lines']}"
    content = lineanchor.anchor(raw, entry["lines"])
    if content:
        entry["content"] = content
    return ""


def inherited(repo: Repo, cache: Cache, data: dict[str, Any], head: str) -> list[dict[str, str]]:
    """The paths of a record for one that takes its place at `head`, under their names there, noted
    anew. Lines that say something else by now are left out.
    """
    found = places(data)
    states = path_state.states(repo, cache, [(commit_of(data), *place) for place in found], head)
    out = []
    for (path, _, noted), state in zip(found, states, strict=True):
        entry = {"path": state.now or path}
        lines = state.lines or noted.partition("@")[0]
        if lines and state.state != path_state.CHANGED:
            entry["lines"] = lines
        out.append(entry)
    wrong = note(repo, [(head, entry) for entry in out])
    return [
        {"path": entry["path"]} if said else entry for entry, said in zip(out, wrong, strict=True)
    ]
