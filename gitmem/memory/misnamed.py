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

_MOST = 5_000  # names that are compared with one that is nowhere, each 20 to 50 microseconds
_SECONDS = 1.0  # for their list
_TYPED = 5  # paths that are nowhere; whoever gives more has typed none, and each takes 0.2 seconds
_ALIKE = 0.7  # similarity (difflib) from which on another name may have been meant


def notes(store: Store, paths: Iterable[str], types: Iterable[str], at: str = "HEAD") -> list[str]:
    """One line for each path (from the top of the tree, perhaps with lines) and each type."""
    paths = [path for path in paths if path != "."]
    commit = (paths and store.repo.commit(at)) or ""
    absent = _absent(store, commit, paths) if commit else []
    unusual = [t for t in map(str.lower, types) if t and t not in record.TYPES]
    if not absent and not unusual:
        return []
    below = "value IN (?1, ?1 || '/') OR (value > ?1 || '/' AND value < ?1 || '0')"
    named = f"SELECT 1 FROM label WHERE kind = 'path' AND ({below}) LIMIT 1"
    typed = "SELECT 1 FROM memory WHERE type = ? LIMIT 1"

    def read(cache: Cache) -> tuple[list[str], list[str]]:
        def known(sql: str, word: str) -> bool:  # as records have a name that is no UTF-8
            return cache.db.execute(sql, (record.clean(word),)).fetchone() is not None

        paths = [path for path in absent if not known(named, path)]
        return paths, [word for word in unusual if not known(typed, word)]

    absent, unusual = store.with_cache(read, most=index.ON_THE_SPOT)[0]
    listed = files(store, commit) if 0 < len(absent) <= _TYPED else []
    out = [f"'{path}' is not at {at}{_meant(nearest_path(path, listed))}" for path in absent]
    for name in unusual:
        usual = f" ({', '.join(record.TYPES)})"
        said = _meant(_nearest(name, record.TYPES)) or usual
        out.append(f"'{name}' is none of the usual types{said}")
    return out


def nearest_path(path: str, files: Sequence[str]) -> str:
    """Of these the file or directory that was meant, "" for none: one of the same name elsewhere,
    else one that is spelled much the same.
    """
    parts = [file.split("/") for file in files]
    names = list(dict.fromkeys("/".join(p[:n]) for p in parts for n in range(1, len(p) + 1)))
    last = path.rpartition("/")[2].lower()
    same = [name for name in names if name.rpartition("/")[2].lower() == last]
    return _nearest(path, same, 0.0) if same else _nearest(path, names)


def _nearest(word: str, known: Sequence[str], alike: float = _ALIKE) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, known[:_MOST], 1, alike)), "")


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


def files(store: Store, commit: str) -> list[str]:
    """The names that a commit has, as far as they come in a second; nothing is fetched for them."""
    listed = ("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
    raw, _ = store.repo.git.limited(_SECONDS, *listed)
    return [record.clean(name) for name in raw.decode("utf-8", "replace").split("\0") if name]
