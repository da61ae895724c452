"""What a record notes of a path: its blob at the commit it is about, and of lines what they say.

A path may be written "FILE:10-20" or "FILE:10"; a file or directory whose real
name ends so wins. Promise: what was noted before stays as it is; one path with
lines that are not there stops no other. Two git processes however many paths,
and one more where there are lines.
"""

from __future__ import annotations

import os

from ..core import lineanchor
from ..git.layout import Repo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def note(repo: Repo, paths: Sequence[tuple[str, dict[str, str]]]) -> list[str]:
    """Adds to each (commit, path entry) what it has there, where that was not noted before; what is wrong with each, "" for nothing."""
    _split(repo, paths)
    missing = [i for i, (commit, p) in enumerate(paths) if commit and not p.get("blob")]
    names = [(paths[i][0], paths[i][1]["path"].rstrip("/") or ".") for i in missing]
    for i, blob in zip(missing, repo.git.entries(names), strict=True):
        if blob:
            paths[i][1]["blob"] = blob
    wrong = [""] * len(paths)
    lined = [i for i in missing if paths[i][1].get("blob") and lineanchor.parse(paths[i][1].get("lines", ""))]
    for i, found in zip(lined, repo.git.objects.get_many([paths[i][1]["blob"] for i in lined]) if lined else [], strict=True):
        entry = paths[i][1]
        if found is not None:
            wrong[i] = _content(entry, found[1], found[2])
    return wrong


def _split(repo: Repo, paths: Sequence[tuple[str, dict[str, str]]]) -> None:
    """Turns "FILE:10-20" into a path and its lines, where no file has that very name."""
    found = [(commit, p, *lineanchor.split(p["path"])) for commit, p in paths if ":" in p["path"] and not p.get("blob") and not p.get("lines")]
    found = [row for row in found if row[3]]
    names = [f"{commit}:{p['path']}" for commit, p, _, _ in found if commit]
    ids = iter(repo.git.ids(names) if names else [])
    for commit, p, name, lines in found:
        real = bool(next(ids) if commit else "") or bool(repo.top and os.path.lexists(os.path.join(repo.top, p["path"])))
        if not real:
            p["path"], p["lines"] = name, lines


def _content(entry: dict[str, str], kind: str, raw: bytes) -> str:
    """Adds the content anchor of the lines of a file; what is wrong with them."""
    if kind != "blob":
        return f"'{entry['path'][:200]}' is a directory and has no lines"
    first, _ = lineanchor.parse(entry["lines"]) or (0, 0)
    count = raw.count(b"\n") + (not raw.endswith(b"\n") and bool(raw))
    if first > count:
        return f"'{entry['path'][:200]}' has {count} lines, not {entry['lines']}"
    content = lineanchor.anchor(raw, entry["lines"])
    if content:
        entry["content"] = content
    return ""
