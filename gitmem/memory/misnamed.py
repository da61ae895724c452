"""Paths and types that were probably mistyped, with the nearest that there is.

Promise: what a memory names already, or the tree or the work tree has, is never taken for a
mistake; nothing is refused for it. Costs a look at the cache and, for a path that is nowhere, a
list of the revision's files, for which nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..core import lineanchor, record
from ..engine import index
from ..engine.cache import Cache
from ..engine.memory_rows import bare
from ..store import Store
from . import pathnotes

_MOST = 2_000  # names that are compared with one that is nowhere, each 20 to 50 microseconds
_SECONDS = 1.0  # for their list
_ALIKE = 0.7  # similarity (difflib) from which on another name may have been meant


def notes(store: Store, paths: Iterable[str], types: Iterable[str], at: str = "HEAD") -> list[str]:
    """One line for each path (from the top of the tree, perhaps with lines) and each type."""
    paths = [path for path in paths if path != "."]
    commit = (paths and store.repo.commit(at)) or ""
    absent = _absent(store, commit, paths) if commit else []
    unusual = [t for t in map(str.lower, types) if t and t not in record.TYPES]
    if not absent and not unusual:
        return []

    def read(cache: Cache) -> tuple[list[str], list[str]]:
        found = [path for path in absent if not _named(cache, path)]
        sql = "SELECT 1 FROM memory WHERE type = ? LIMIT 1"
        return found, [t for t in unusual if not cache.db.execute(sql, (t,)).fetchone()]

    absent, unusual = store.with_cache(read, most=index.ON_THE_SPOT)[0]
    listed = files(store, commit) if absent else []
    out = [f"'{path}' is not at {at}{_meant(nearest_path(path, listed))}" for path in absent]
    for name in unusual:
        usual = f" ({', '.join(record.TYPES)})"
        said = _meant(_nearest(name, record.TYPES)) or usual
        out.append(f"'{name}' is none of the usual types{said}")
    return out


def nearest_path(path: str, files: Sequence[str]) -> str:
    """Of these the file or directory that was meant, "" for none: one of the same name elsewhere,
    else what is reached by going down, where no name fits, into the one spelled most like it.
    """
    wanted = f"/{path.rpartition('/')[2]}/".lower()
    found = [(file, f"/{file}/".lower().find(wanted)) for file in files]
    same = sorted({file[: at + len(wanted) - 2] for file, at in found if at >= 0})
    if same:
        return _nearest(path, same[:_MOST], 0.0)
    at = ""
    for part in path.split("/"):
        files = [file for file in files if file.startswith(at)]
        inside = {file[len(at) :].partition("/")[0] for file in files}
        name = part if part in inside else _nearest(part, sorted(inside)[:_MOST])
        if not name:
            return ""
        at += name + "/"
    return at[:-1]


def _nearest(word: str, known: Sequence[str], alike: float = _ALIKE) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, known, 1, alike)), "")


def _meant(name: str) -> str:
    return f"; did you mean {name}?" if name else ""


def _absent(store: Store, commit: str, paths: Sequence[str]) -> list[str]:
    """Those, without their lines, that neither the commit nor the work tree has."""
    spellings: dict[str, set[str]] = {}
    for path in paths:
        name = lineanchor.split(path)[0]
        spellings[path] = {path, name, lineanchor.split(name)[0]}  # FILE:LINE:COLUMN, too
    every = sorted(set().union(*spellings.values()))
    there = pathnotes.exist(store.repo, [(commit, name) for name in every])
    known = {name for name, is_there in zip(every, there, strict=True) if is_there}
    return [bare(min(names, key=len)) for names in spellings.values() if not names & known]


def _named(cache: Cache, path: str) -> bool:
    """Whether a memory names the path, or something below it."""
    path = record.clean(path)  # as records have a name that is no UTF-8
    sql = (
        "SELECT 1 FROM label WHERE kind = 'path'"
        " AND (value IN (?, ?) OR (value > ? AND value < ?)) LIMIT 1"
    )
    return bool(cache.db.execute(sql, (path, path + "/", path + "/", path + "0")).fetchone())


def files(store: Store, commit: str) -> list[str]:
    """The names that a commit has, as far as they come in a second; nothing is fetched for them."""
    listed = ("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
    raw, _ = store.repo.git.limited(_SECONDS, *listed)
    return [record.clean(name) for name in raw.decode("utf-8", "replace").split("\0") if name]
