"""What a path was called before, and what it is called now, as `git log --follow` says.

Promise: git decides, in three processes for a file that is there, two more for each rename of one
that is not, and for at most PATIENCE. Where time ran out, or an object is not here, `whole` is
false.

`path_removals` follows many paths forwards from commits that are known to have them; here one path
is asked about that may never have been in a memory.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterable

from ..core import record
from ..engine import anchor_state_store
from ..engine.cache import Cache
from ..engine.filters import Filter
from ..engine.memory_rows import bare, load, places
from ..git import commit_reader
from ..git.repository import Repo
from . import anchor_state, path_removals, path_state

PATIENCE = 5.0  # seconds: `git log --follow` reads some 30,000 commits in that time
_HOPS = 32  # names in a row that are looked for
_REMOVED = "log -1 --format=%H --diff-filter=D --no-renames"
_FOLLOW = "log --follow -M --diff-filter=R --name-status --format= -z"
_RENAMES = "diff-tree --no-commit-id -m -r -M -z --diff-filter=R --name-status"


class Names:
    """One path at a revision. `asked`: as the caller wrote it; `now`: its name there, "" where it
    is not; `kind`: blob, tree or "". `former`: other names that were its own; `whole`: whether all
    of them are known; else `late` where time ran out, or `cut` says what is not here.
    """

    def __init__(self, asked: str) -> None:
        self.asked = asked
        self.now = ""
        self.kind = ""
        self.former: list[str] = []
        self.whole = True
        self.late = False
        self.cut = ""

    @property
    def labels(self) -> list[str]:
        """Every name as records have it, the asked one first."""
        names = (self.asked, self.now, *self.former)
        return list(dict.fromkeys(record.clean(name) for name in names if name))


def at(repo: Repo, cache: Cache, revision: str, path: str) -> Names:
    """The names of a path (from the top of the tree, "." for it) at a commit, "" for none."""
    found = Names(path)
    if path == ".":
        found.now, found.kind = path, "tree"
        return found
    if not revision:
        return found
    end = time.monotonic() + PATIENCE
    found.kind = _kind_of(repo, revision, path)
    if found.kind:
        found.now = path
    else:
        _onwards(repo, revision, found, end)
    if found.kind == "blob":
        out, whole = repo.git.limited(_left(end), *_FOLLOW.split(), revision, "--", spec(found.now))
        found.former += [old for old, _ in _pairs(out)]
        found.whole &= whole
    elif found.kind == "tree":
        _of_directory(repo, cache, revision, found, end)
    ends = commit_reader.ends(repo.git)
    if found.kind and ends:
        oldest = found.former[-1] if found.kind == "blob" and found.former else found.now
        found.whole &= not any(repo.git.entries([(commit, oldest) for commit in sorted(ends)]))
    if not found.whole:
        found.late = time.monotonic() >= end
        if not found.late and (repo.git.promised or ends):
            found.cut = anchor_state.PARTIAL if repo.git.promised else anchor_state.SHALLOW
    names = dict.fromkeys([*found.former, *_kept(cache, revision, found.now or path)])
    found.former = [name for name in names if name not in (path, found.now)]
    return found


def _kind_of(repo: Repo, revision: str, path: str) -> str:
    """Blob, tree or "" (nothing, or a submodule)."""
    out, _ = repo.git.limited(None, "ls-tree", "-z", "--full-tree", revision, "--", spec(path))
    kind = out.split(b" ", 2)[1].decode() if out else ""
    return kind if kind in ("blob", "tree") else ""


def _onwards(repo: Repo, revision: str, found: Names, end: float) -> None:
    name, seen = found.asked, {found.asked}
    for _ in range(_HOPS):
        asked = (*_REMOVED.split(), revision, "--", spec(name))
        removed, whole = repo.git.limited(_left(end), *asked)
        commit = removed.decode().strip()
        found.whole &= whole
        if not commit:
            return
        went, whole = renamed(repo, commit, [name], _left(end))
        found.whole &= whole
        name = went.get(name, "")
        if not name or name in seen:
            return
        seen.add(name)
        found.former.append(name)
        found.kind = _kind_of(repo, revision, name)
        if found.kind:
            found.now = name
            return


def _of_directory(repo: Repo, cache: Cache, revision: str, found: Names, end: float) -> None:
    """Adds the names that memories have for a directory, where `_kept` does not know them."""
    if revision in anchor_state_store.slots(cache):
        return
    sql = "SELECT anchor, name || '/', blob, lines FROM noted_path WHERE slashes > 0"
    noted = cache.db.execute(sql).fetchall()
    states = path_state.states(repo, cache, noted, revision, _left(end)) if noted else []
    for (_, path, _, _), state in zip(noted, states, strict=True):
        if state.now and bare(state.now) == record.clean(found.now):
            found.former.append(bare(path))
        never = (path_state.NO_BLOB, path_state.NO_NAME, path_state.BESIDE)
        found.whole &= state.state != path_state.UNKNOWN or state.reason in never


def _kept(cache: Cache, revision: str, name: str) -> list[str]:
    """Names that memories have for what is called so at a HEAD that the worker has looked at."""
    label = record.clean(name)
    rows = cache.db.execute(
        "SELECT DISTINCT p.name FROM head h JOIN path_state s USING(slot) JOIN noted_path p"
        " USING(number) WHERE h.commit_id = ? AND s.now IN (?, ?) ORDER BY 1",
        (revision, label, label + "/"),
    )
    return [old for (old,) in rows]


def below(
    repo: Repo,
    cache: Cache,
    revision: str,
    directory: str,
    wanted: Filter,
    without: Container[int] = (),
) -> list[tuple[int, str, str]]:
    """[(row, path, its name now)] of what memories name that is in a directory at a revision,
    whatever it was called before; not of the rows `without`.
    """
    only, args = wanted.sql()
    sql = "SELECT DISTINCT row FROM label WHERE kind = 'path'"
    if revision in anchor_state_store.slots(cache):
        # Else git is asked about every path, which takes long in a large store.
        sql = (
            "SELECT DISTINCT row FROM head JOIN path_state USING(slot)"
            " JOIN memory_path USING(number) WHERE commit_id = ? AND now >= ? AND now < ?"
        )
        args = [revision, directory + "/", directory + "0", *args]
    found = cache.db.execute(f"{sql} AND +row IN ({only})", args)
    rows = [row for (row,) in found if row not in without]
    states = path_state.of_rows(repo, cache, rows, revision) if rows else {}
    loaded = zip(rows, load(cache, rows), strict=True)
    placed = (
        (row, path, state.now)
        for row, (data, _, _) in loaded
        for (path, _, _), state in zip(places(data), states[row], strict=True)
    )
    return [(row, p, bare(now)) for row, p, now in placed if now.startswith(directory + "/")]


def renamed(
    repo: Repo, commit: str, names: Iterable[str], seconds: float
) -> tuple[dict[str, str], bool]:
    """({name: what a commit renamed it to, itself or with its directory}, whether git ended)."""
    out, whole = repo.git.limited(seconds, *_RENAMES.split(), commit)
    pairs = dict(_pairs(out))
    went = {name: pairs.get(name) or path_removals.directory(pairs, name) for name in names}
    return {name: new for name, new in went.items() if new}, whole


def _pairs(out: bytes) -> list[tuple[str, str]]:
    """[(old name, new name)] of `--name-status -z` with renames alone."""
    words = [word.decode("utf-8", "surrogateescape") for word in out.split(b"\0")]
    triples = zip(words[::3], words[1::3], words[2::3], strict=False)
    return [(old, new) for status, old, new in triples if status.startswith("R")]


def spec(path: str) -> str:
    """A path for git's command line that means this name and nothing else, from wherever."""
    return f":(top,literal){path}" if path != "." else ":(top)"


def _left(end: float) -> float:
    return max(0.05, end - time.monotonic())
