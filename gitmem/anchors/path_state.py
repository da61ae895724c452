"""Path states: what became of the paths that memories are about, as seen from a revision.

A path is same, changed, renamed, gone or unknown; `now` is its name there where that is another
one. The object under the old name decides first. Otherwise the path is followed from the commit it
was noted at (`path_removals`), and one that leads nowhere is looked for by its very content.

Promise: git decides, in a bounded number of processes and seconds however many paths are asked
about. Lines of a file are the same while what they say is still somewhere in it (`lineanchor`).
What cannot be known is `unknown`, with the reason, never guessed.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from ..core import lineanchor
from ..core.errors import GitFailed
from ..engine import memory_rows, path_state_store
from ..engine.anchor_state_store import UNBORN, WAITING
from ..engine.anchor_state_store import UNKNOWN as UNKNOWN
from ..engine.cache import Cache
from ..engine.memory_rows import bare
from ..engine.path_state_store import BESIDE as BESIDE
from ..engine.path_state_store import CHANGED as CHANGED
from ..engine.path_state_store import GONE as GONE
from ..engine.path_state_store import NO_BLOB as NO_BLOB
from ..engine.path_state_store import NO_NAME as NO_NAME
from ..engine.path_state_store import ODD as ODD
from ..engine.path_state_store import RENAMED as RENAMED
from ..engine.path_state_store import SAME as SAME
from ..engine.path_state_store import STALE as STALE
from ..engine.path_state_store import PathState as PathState
from ..engine.path_state_store import why_nothing
from ..git.repository import Repo
from . import anchor_state, path_removals
from .anchor_state import AnchorState

Noted = tuple[str, str, str, str]  # commit, path, blob and lines as a memory noted them

ON_THE_SPOT = 1.0  # seconds an answer waits for what git has to look up in the history
ODD_NOW = "its name there is not UTF-8, so no memory can hold it"
LONG = "the text its lines were taken from is not here, and the file is too long to look for them"
_MANY = 2_000  # names asked about from which reading the whole tree is faster
_EMPTY = (
    "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
)


def states(
    repo: Repo,
    cache: Cache,
    noted: Sequence[Noted],
    revision: str,
    seconds: float = ON_THE_SPOT,
    anchors: Mapping[str, AnchorState] | None = None,
    finder: Finder | None = None,
) -> list[PathState]:
    """The state of each (anchor, path, blob, lines) at the commit `revision` ("" while there is
    none), in their order.

    `anchor`: the commit the path was noted at, "" for none; `blob`: its object id then, "" where it
    was not there; `lines`: "" for all of it, else as `memory_rows.places` gives them. `seconds`:
    how long git may search the history; `anchors`: their states, where they are known.
    """
    if not revision:
        return [PathState(UNKNOWN, reason=UNBORN)] * len(noted)
    tree = Tree(repo, revision)
    tree.ask(path for _, path, blob, _ in noted if blob)
    out: dict[Noted, PathState] = {}
    other: list[Noted] = []
    for item in dict.fromkeys(noted):
        _, path, blob, _ = item
        if not blob:
            out[item] = PathState(UNKNOWN, reason=why_nothing(path))
        elif tree.id(path) == blob:
            out[item] = PathState(SAME)
        else:
            other.append(item)
    if other:
        names = _Names(repo, cache, tree, other, seconds, anchors)
        finder = finder or Finder(repo)
        out.update((item, _state(item, tree, names, finder)) for item in other)
    return [out[item] for item in noted]


def of_rows(
    repo: Repo,
    cache: Cache,
    rows: Iterable[int],
    head: str,
    seconds: float = ON_THE_SPOT,
    kept: bool = False,
) -> dict[int, list[PathState]]:
    """{memory row: the states of its paths at the commit `head`}: as kept, else (not with `kept`)
    as git says now, of all of them together.
    """
    wanted = list(dict.fromkeys(rows))
    known = path_state_store.read(cache, wanted, head)
    out: dict[int, list[PathState]] = {}
    asked: dict[int, list[Noted]] = {}
    for row, (data, _, _) in zip(wanted, memory_rows.load(cache, wanted), strict=True):
        places = memory_rows.places(data)
        out[row] = path_state_store.of(known.get(row), len(places))
        if not kept and path_state_store.waiting({row: out[row]}):
            anchor = memory_rows.commit_of(data)
            asked[row] = [(anchor, *place) for place in places]
    noted = [item for items in asked.values() for item in items]
    answers = iter(states(repo, cache, noted, head, seconds) if noted else [])
    out.update((row, [next(answers) for _ in items]) for row, items in asked.items())
    return out


def _state(item: Noted, tree: Tree, names: _Names, finder: Finder) -> PathState:
    """The state of a path that has another object under its name, or none."""
    _, path, blob, lines = item
    now = names.now.get(item, "")
    if not now:
        why = names.why.get(item, "")
        return PathState(UNKNOWN, reason=why) if why else PathState(GONE)
    new = "" if now == bare(path) else now + "/" * path.endswith("/")
    if tree.id(now) == blob:
        return PathState(RENAMED if new else SAME, new)
    if lines and names.partial:  # its text would come over the network
        return PathState(UNKNOWN, new, anchor_state.PARTIAL)
    state = finder.state(item, tree.id(now), new) if lines else PathState(CHANGED, new)
    if names.why.get(item) == WAITING:  # another file may have this name now
        state.reason = WAITING
    return state


class Tree:
    """What lies under which name at a revision. A name may end in `/`; "." is the top."""

    def __init__(self, repo: Repo, revision: str) -> None:
        self.repo = repo
        self.revision = revision
        self._ids: dict[str, str] = {}
        self._all: dict[str, list[str]] | None = None

    def ask(self, paths: Iterable[str]) -> None:
        names = [n for n in dict.fromkeys(map(bare, paths)) if n not in self._ids]
        if len(names) > _MANY:
            self._load()
        names = [n for n in names if n not in self._ids]
        if names and self._all is not None:
            self._ids.update(dict.fromkeys(names, ""))
        elif names:
            found = self.repo.git.entries([(self.revision, n) for n in names])
            self._ids.update(zip(names, found, strict=True))

    def id(self, path: str) -> str:
        """The object id of a name, "" where there is none."""
        name = bare(path)
        if name not in self._ids:
            self.ask([name])
        return self._ids[name]

    def named(self, ids: Collection[str]) -> dict[str, list[str]]:
        """{object id: its names here}."""
        found = self._load()
        return {id: found.get(id, []) for id in ids}

    def _load(self) -> dict[str, list[str]]:
        if self._all is not None:
            return self._all
        self._all = {}
        words = ("ls-tree", "-r", "-t", "-z", "--full-tree", self.revision)
        out, whole = self.repo.git.limited(None, *words)
        if not whole and not self.repo.git.promised:
            raise GitFailed(
                f"git cannot list the files of {self.revision[:12]}",
                hint="`git fsck` shows whether the repository is damaged",
            )
        for row in out[: out.rfind(b"\0") + 1].split(b"\0")[:-1]:
            head, _, path = row.partition(b"\t")
            id, name = head.rpartition(b" ")[2].decode(), path_removals.text(path)
            if ODD not in name or name.encode() == path:
                self._ids[name] = id
            self._all.setdefault(id, []).append(name)
        return self._all


class _Names:
    """What paths are called at a revision that has no object as noted under their names. `now`: the
    name of those that are there; `why`: the reason why nobody knows it of another one.
    """

    def __init__(
        self,
        repo: Repo,
        cache: Cache,
        tree: Tree,
        noted: Sequence[Noted],
        seconds: float,
        anchors: Mapping[str, AnchorState] | None,
    ) -> None:
        self.repo = repo
        self.tree = tree
        self.partial = repo.git.promised
        self.now = {item: bare(item[1]) for item in noted if tree.id(item[1])}
        self.why: dict[Noted, str] = {}
        self._bases: dict[Noted, str] = {}  # from which commits of the history paths are followed
        if self.partial or anchor_state.shallow(repo):
            why = anchor_state.PARTIAL if self.partial else anchor_state.SHALLOW
            self.why.update(dict.fromkeys(noted, why))
            return
        end = time.monotonic() + seconds
        if anchors is None:
            asked = {item[0] for item in noted if item[0]}
            anchors = anchor_state.states(repo, cache, asked, tree.revision, seconds)
        for item in noted:
            anchor = anchors.get(item[0])
            if anchor and anchor.state in (anchor_state.REACHABLE, anchor_state.SQUASHED):
                self._bases[item] = anchor.into or anchor.commit
            elif anchor:
                self.why[item] = anchor.reason if anchor.state == UNKNOWN else BESIDE
            else:
                self.why[item] = anchor_state.NOWHERE
        if self._bases:
            self._follow(cache, end - time.monotonic())
        self._by_content([item for item in noted if item not in self.now])

    def _follow(self, cache: Cache, seconds: float) -> None:
        keys = {item: (base, bare(item[1])) for item, base in self._bases.items()}
        try:
            removals = path_removals.Removals(self.repo, cache, self.tree.revision, seconds)
            found = removals.follow(keys.values())
        except path_removals.Incomplete as e:
            self.why.update(dict.fromkeys(keys, e.reason or WAITING))
            return
        self.tree.ask(name for names in found.values() for name in names)
        for item, key in keys.items():
            there = [name for name in found[key] if self.tree.id(name)]
            if there:
                self.now[item] = there[0]
            elif item not in self.now and found[key]:
                # It was renamed to a name that no text can hold, or its base never had it.
                odd = any(ODD in name for name in found[key])
                self.why[item] = ODD_NOW if odd else BESIDE

    def _by_content(self, lost: Sequence[Noted]) -> None:
        """Finds those whose very content has a name that it did not have at their commit."""
        whys = ("", BESIDE, anchor_state.NOWHERE)  # else nobody knows which names it had there
        lost = [i for i in lost if i[2] not in _EMPTY and self.why.get(i, "") in whys]
        named = self.tree.named({item[2] for item in lost}) if lost else {}
        asked = [(item, name) for item in lost for name in named[item[2]] if ODD not in name]
        where = [(self._bases.get(item) or item[0] or self.tree.revision, n) for item, n in asked]
        ids = self.repo.git.entries(where) if where else []
        found: dict[Noted, list[str]] = {}
        for (item, name), id in zip(asked, ids, strict=True):
            if id != item[2] or not item[0]:
                found.setdefault(item, []).append(name)
        for item, names in found.items():
            own = os.path.basename(bare(item[1]))
            self.now[item] = min(names, key=lambda name: (os.path.basename(name) != own, name))


class Finder:
    """Finds the lines of files again. Of lines that follow each other each file is read once.

    `known`: {what was noted: (its name, the object there, the state)} of an earlier answer.
    """

    def __init__(
        self, repo: Repo, known: Mapping[Noted, tuple[str, str, PathState]] | None = None
    ) -> None:
        self.repo = repo
        self.known = known or {}
        self.blobs: dict[Noted, str] = {}  # the object in which the lines were sought
        self._layout = functools.lru_cache(maxsize=4)(self._read)

    def state(self, item: Noted, id: str, new: str) -> PathState:
        """The state of lines whose file is the blob `id` now, with the name `new` if changed."""
        self.blobs[item] = id
        if item in self.known and self.known[item][:2] == (new, id):
            return self.known[item][2]
        lines, _, content = item[3].partition("@")
        found = None
        try:
            old, now = self._layout(item[2]), self._layout(id)
            if now is not None and (old is not None or content):
                found = lineanchor.find(now, lines, content, old)
        except KeyError:  # it is no blob
            pass
        except lineanchor.TooLong:
            return PathState(UNKNOWN, reason=LONG)
        if found is None:
            return PathState(CHANGED, new)
        first, last = found
        where = f"{first}-{last}" if first != last else str(first)
        moved = found != lineanchor.parse(lines)
        return PathState(RENAMED if new else SAME, new, lines=where if moved else "")

    def _read(self, id: str) -> lineanchor.Layout | None:
        """The text of a blob, None where it is not here; raises KeyError where that is no blob."""
        found = self.repo.git.objects.get(id) if id else None
        if found is not None and found[1] != "blob":
            raise KeyError(id)
        return lineanchor.Layout(found[2]) if found is not None else None
