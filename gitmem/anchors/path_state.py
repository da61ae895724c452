"""What became of the paths that memories are about, as seen from a revision.

A path is same, changed, renamed, gone or unknown; `now` is its name there where
that is another one. Every caller asks `states`; nobody else works it out.

Promise: git decides (blob ids, rename detection), in a bounded number of
processes and seconds however many paths are asked about. Lines of a file are
same while what they say is still somewhere in it (`lineanchor`). What cannot be
known (no content was recorded, a shallow or partial clone, no time to look) is
`unknown`, with the reason, never guessed. Where nothing changed it costs one
open process of git.
"""

from __future__ import annotations

import json
import os
import time

from ..core import lineanchor
from ..core.errors import GitFailed
from ..engine import anchor_state_store
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
from ..engine.path_state_store import State as State
from ..engine.path_state_store import why_nothing
from ..git.repository import Repo
from . import anchor_state, deletion_index, patch_id, renames
from .reachability import Ancestry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence, Set

    Wanted = tuple[str, str, str, str]

ON_THE_SPOT = 1.0  # seconds an answer waits for what git has to look up in the history
ODD_NOW = "its name there is not UTF-8, so no memory can hold it"
LONG = "the text its lines were taken from is not here, and the file is too long to look for them"
LARGE = "git takes too long to say what a commit renamed"
_MANY = 2_000  # names asked about from which reading the whole tree is faster
_SURE = 64  # entries of commits that are worth a write
_PATIENCE = 0.5  # seconds to wait for another process that writes the cache
_EMPTY = (
    "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
)


def states(
    repo: Repo,
    cache: Cache,
    wanted: Sequence[Wanted],
    revision: str,
    seconds: float = ON_THE_SPOT,
    scanned: bool | None = None,
    known: Mapping[Wanted, str] | None = None,
    beside: bool = True,
    outside: Set[str] = frozenset(),
) -> list[State]:
    """The state of each (anchor, path, blob, lines) at a commit `revision` ("" while there is
    none), in their order.

    `anchor`: the commit the path was noted at, "" for none; `blob`: its object id
    then, "" where it was not there; `lines`: "" for all of it, else as
    `memory_rows.places` gives them. `seconds`: how long git may search the history;
    `scanned`: whether the caller knows that nothing of it is left to be searched;
    `known`: the names that some have there, if they are there. `beside`: whether what
    the revision does not have, of a commit that its history does not have, is sought
    in the whole of it: a comparison of two trees for each such commit; else it is
    unknown, with the reason BESIDE. `outside`: commits known not to be in its history.
    """
    if not revision:
        return [State(UNKNOWN, reason=UNBORN)] * len(wanted)
    tree = Tree(repo, revision)
    tree.ask(path for _, path, blob, _ in wanted if blob)
    answers: dict[Wanted, State] = {}
    moved: list[Wanted] = []
    for item in dict.fromkeys(wanted):
        if not item[2]:
            answers[item] = State(UNKNOWN, reason=why_nothing(item[1]))
        elif tree.id(item[1]) == item[2]:
            answers[item] = State(SAME)
        else:
            moved.append(item)
    if moved:
        answers.update(
            _moved(repo, cache, moved, tree, seconds, scanned, known or {}, beside, outside)
        )
    return [answers[item] for item in wanted]


class Tree:
    """What lies under which name at a revision. A name may end in `/`; "." is the top."""

    def __init__(self, repo: Repo, revision: str) -> None:
        self.repo = repo
        self.revision = revision
        self._ids: dict[str, str] = {}
        self._all: dict[str, list[str]] | None = None

    def ask(self, paths: Iterable[str]) -> None:
        """Looks these names up, all in one go."""
        names = [n for n in dict.fromkeys(bare(p) for p in paths) if n not in self._ids]
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

    def there(self, paths: Collection[str]) -> set[str]:
        self.ask(paths)
        return {p for p in paths if self.id(p)}

    def named(self, ids: Collection[str]) -> dict[str, list[str]]:
        """{object id: its names here}."""
        found = self._load()
        return {id: found.get(id, []) for id in ids}

    def _load(self) -> dict[str, list[str]]:
        if self._all is None:
            self._all = {}
            out, whole = self.repo.git.limited(
                None, "ls-tree", "-r", "-t", "-z", "--full-tree", self.revision
            )
            if not whole and not patch_id.partial(self.repo):
                raise GitFailed(
                    f"git cannot list the files of {self.revision[:12]}",
                    hint="`git fsck` shows whether the repository is damaged",
                )
            for row in out[: out.rfind(b"\0") + 1].split(b"\0"):
                if row:
                    head, _, path = row.partition(b"\t")
                    id, name = head.rpartition(b" ")[2].decode(), path.decode("utf-8", "replace")
                    if ODD not in name or name.encode() == path:
                        self._ids[name] = id
                    self._all.setdefault(id, []).append(name)
        return self._all


def _moved(
    repo: Repo,
    cache: Cache,
    wanted: Sequence[Wanted],
    tree: Tree,
    seconds: float,
    scanned: bool | None,
    known: Mapping[Wanted, str],
    beside: bool,
    outside: Set[str],
) -> dict[Wanted, State]:
    """States of paths that are not as they were: changed in their place, or under another name, or
    gone.
    """
    end = time.monotonic() + seconds
    names = _Followed(repo, cache, wanted, tree, end, scanned, known, beside, outside)
    lost = [
        item
        for item in wanted
        if not names.now[item] and not tree.id(item[1]) and names.reason(item) != BESIDE
    ]
    elsewhere = _elsewhere(repo, tree, lost, names.bases)
    texts = _Texts(repo)
    out: dict[Wanted, State] = {}
    for item in wanted:
        _, path, blob, lines = item
        why = names.reason(item)
        now = names.now[item] or (bare(path) if tree.id(path) else elsewhere.get(item, ""))
        new = "" if now == bare(path) else now + "/" * (path.endswith("/") and bool(now))
        if (ODD in now and not tree.id(now)) or (
            not now and any(ODD in name for name in names.via.get(item, ()) if name != bare(path))
        ):
            out[item] = State(UNKNOWN, reason=ODD_NOW)
            now = ""
        elif not now:
            out[item] = State(UNKNOWN, reason=why) if why else State(GONE)
        elif tree.id(now) == blob:
            out[item] = State(RENAMED if new else SAME, new)
        elif lines and names.partial:
            out[item] = State(
                UNKNOWN, new, anchor_state.PARTIAL
            )  # its text would come over the network
        elif lines:
            out[item] = texts.state(item, tree.id(now), new)
        else:
            out[item] = State(CHANGED, new)
        if now and why == WAITING:
            out[item].reason = why
        out[item].via = frozenset(names.via.get(item, ())) - {bare(path), now}
    return out


class _Followed:
    """Where paths went. `now`: the name there, "" for none, None for not known; `bases`: the commit
    each was followed from.

    From the anchor, or a commit that took its place and has that name, where the
    history holds one; else the anchor itself is compared with the revision.
    """

    def __init__(
        self,
        repo: Repo,
        cache: Cache,
        wanted: Sequence[Wanted],
        tree: Tree,
        end: float,
        scanned: bool | None,
        known: Mapping[Wanted, str],
        beside: bool,
        outside: Set[str],
    ) -> None:
        self.repo = repo
        self.cache = cache
        self.now: dict[Wanted, str | None] = dict.fromkeys(wanted)
        self.bases: dict[Wanted, str] = {}
        self.via: dict[Wanted, set[str]] = {}
        self._why: dict[Wanted, str] = {}
        self.shallow = os.path.exists(os.path.join(repo.common_dir, "shallow"))
        self.partial = patch_id.partial(repo)
        self.history = deletion_index.History(
            repo, cache, tree.revision, max(0.0, end - time.monotonic())
        )
        if self.partial:
            return
        tree.ask(known[item] for item in wanted if item in known)
        self.now.update(
            (item, known[item])
            for item in wanted
            if item in known
            and tree.id(known[item])
            and (known[item] == bare(item[1]) or not tree.id(item[1]))
        )
        wanted = [item for item in wanted if self.now[item] is None]
        whole = not self.shallow and (self._scanned(tree.revision) if scanned is None else scanned)
        if whole:
            # What no commit of this history ever removed is what it was.
            removed = {
                name
                for name, commits in deletion_index.everywhere(
                    cache, {bare(item[1]) for item in wanted}
                ).items()
                if not commits <= outside
            }
            self.now.update(
                (item, bare(item[1]))
                for item in wanted
                if bare(item[1]) not in removed and tree.id(item[1])
            )
            wanted = [item for item in wanted if self.now[item] is None]
        if not wanted:
            return
        self.bases = _bases(repo, cache, wanted, tree.revision)
        asked = {item: (self.bases[item], bare(item[1])) for item in wanted if item in self.bases}
        if asked:
            self.history.only_for(sorted({since for since, _ in asked.values()}))
            trace = renames.Trace(self.history, tree.there)
            found = trace.follow(list(dict.fromkeys(asked.values())), scanned=whole)
            self.now.update((item, found[key]) for item, key in asked.items())
            self.via = {item: trace.via[key] for item, key in asked.items()}
        self.now.update(
            (item, bare(item[1])) for item in wanted if item not in asked and tree.id(item[1])
        )
        lost = [item for item in wanted if item not in asked and not tree.id(item[1])]
        self._why.update(dict.fromkeys(lost, BESIDE))
        if beside:
            self._beside(lost, tree.revision, end)

    def _scanned(self, revision: str) -> bool:
        """Whether all that matters was looked at for a HEAD that contains the revision."""
        heads = [
            c for (c,) in self.cache.db.execute("SELECT commit_id FROM pathhead WHERE whole = 1")
        ]
        if revision in heads or not heads:
            return bool(heads)
        out, status = self.repo.git.run_status(
            "rev-list", "-1", revision, "--not", *heads, "--", ok=(0, 128)
        )
        return not status and not out.strip()

    def _beside(self, lost: Sequence[Wanted], revision: str, end: float) -> None:
        """Compares the anchors that the history lacks with the revision itself, for paths that it
        does not have.
        """
        anchors = sorted({item[0] for item in lost if item[0]})
        here = {
            a
            for a, id in zip(
                anchors,
                self.repo.git.ids([f"{a}^{{commit}}" for a in anchors]) if anchors else [],
                strict=True,
            )
            if id
        }
        found = deletion_index.across(
            self.repo, [(a, revision) for a in sorted(here)], end - time.monotonic()
        )
        for item in lost:
            pairs = found.get((item[0], revision))
            if pairs is not None:
                self.now[item] = pairs.get(bare(item[1])) or deletion_index.directory(
                    pairs, bare(item[1])
                )
            elif item[0] not in here:
                self._why[item] = (
                    anchor_state.SHALLOW
                    if self.shallow
                    else anchor_state_store.ABSENT
                    if item[0]
                    else anchor_state.NOWHERE
                )

    def reason(self, item: Wanted) -> str:
        """Why it is not known where a path went, "" where it is."""
        if self.now[item] is not None:
            return ""
        if item in self._why or self.partial or (self.shallow and item not in self.bases):
            return self._why.get(item) or (
                anchor_state.PARTIAL if self.partial else anchor_state.SHALLOW
            )
        return LARGE if self.history.too_large else WAITING


def _bases(repo: Repo, cache: Cache, wanted: Sequence[Wanted], revision: str) -> dict[Wanted, str]:
    """{wanted: the anchor, or a commit in its place, in the revision's history, with this content
    under this name, else with another}; absent where there is none.
    """
    ways = anchor_state.places(cache, {item[0] for item in wanted if item[0]})
    asked = [(item, c) for item in wanted for c in ways.get(item[0], ())]
    ids = _entries(repo, cache, asked)
    found: dict[Wanted, list[str]] = {}
    for same in (True, False):
        for (item, commit), id in zip(asked, ids, strict=True):
            if id and (id == item[2]) == same:
                found.setdefault(item, []).append(commit)
    kept = anchor_state_store.certain(cache, {item[0] for item in found}, revision, repo.common_dir)
    out = {
        item: some[0]
        for item, some in found.items()
        if item[0] in kept
        and kept[item[0]].state == anchor_state_store.REACHABLE
        and kept[item[0]].commit == some[0]
    }
    # Of an unmerged one none of its places is in the history.
    left = {
        item: some
        for item, some in found.items()
        if item not in out
        and not (item[0] in kept and kept[item[0]].state == anchor_state_store.UNMERGED)
    }
    line = (
        Ancestry(repo.git, [revision], {c for some in left.values() for c in some})
        if left
        else None
    )
    for item, some in left.items():
        held = [c for c in some if line is not None and line.contains(c)]
        if held:
            out[item] = held[0]
    return out


def _entries(repo: Repo, cache: Cache, asked: Sequence[tuple[Wanted, str]]) -> list[str]:
    """The object under the name of each, at a commit; what git once said of the very commit it was
    noted at is kept (`noted_paths`), where it is much.
    """
    sql = (
        "SELECT anchor, name, blob FROM spot WHERE sure = 1 AND anchor IN (SELECT value FROM"
        " json_each(?))"
    )
    known = (
        set(cache.db.execute(sql, (json.dumps(sorted({item[0] for item, _ in asked})),)))
        if asked
        else set()
    )
    keys = [(c, bare(item[1]), item[2]) for item, c in asked]
    found = repo.git.entries([key[:2] for key in keys if key not in known])
    answers = iter(found)
    ids = [key[2] if key in known else next(answers) for key in keys]
    new = [
        key
        for (item, c), key, id in zip(asked, keys, ids, strict=True)
        if id == item[2] and c == item[0] and key not in known
    ]
    if len(new) >= _SURE:
        cache.keep(
            _PATIENCE,
            lambda db: db.executemany(
                "UPDATE spot SET sure = 1 WHERE anchor = ? AND name = ? AND blob = ?", new
            ),
        )
    return ids


def _elsewhere(
    repo: Repo, tree: Tree, lost: Sequence[Wanted], bases: dict[Wanted, str]
) -> dict[Wanted, str]:
    """{wanted: the name that its very content has now}, of what no commit is known to have renamed;
    not a name that it had beside the old one.
    """
    wanted = [item for item in lost if item[2] not in _EMPTY]
    if not wanted:
        return {}
    named = tree.named({item[2] for item in wanted})
    asked = [(item, name) for item in wanted for name in named[item[2]]]
    ids = (
        repo.git.entries(
            [(bases.get(item) or item[0] or tree.revision, name) for item, name in asked]
        )
        if asked
        else []
    )
    found: dict[Wanted, list[str]] = {}
    for (item, name), id in zip(asked, ids, strict=True):
        if not id and repo.git.withheld(bases.get(item) or item[0], name):
            continue  # nobody can tell whether it had that name beside the old one
        if id != item[2] or not (bases.get(item) or item[0]):
            found.setdefault(item, []).append(name)
    out = {}
    for item, some in found.items():
        kept = sorted(n for n in some if os.path.basename(n) == os.path.basename(bare(item[1])))
        out[item] = kept[0] if kept else min(some)
    return out


class _Texts:
    """Finds the lines of files again; of lines that follow each other each file is read and laid
    out once.
    """

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self._laid: dict[str, lineanchor.Layout | None] = {}

    def _layout(self, id: str) -> lineanchor.Layout | None:
        """The text of a blob, None where it is not here; raises KeyError where that is no blob."""
        if id not in self._laid:
            found = self.repo.git.objects.get(id) if id else None
            if found is not None and found[1] != "blob":
                raise KeyError(id)
            if len(self._laid) >= 4:
                del self._laid[next(iter(self._laid))]
            self._laid[id] = lineanchor.Layout(found[2]) if found is not None else None
        return self._laid[id]

    def state(self, item: Wanted, id: str, new: str) -> State:
        """The state of lines of a file whose content is another one now.

        `id`: of the file there; `new`: its name where that changed.
        """
        lines, _, content = item[3].partition("@")
        try:
            old, now = self._layout(item[2]), self._layout(id)
            if now is None or (old is None and not content):
                return State(CHANGED, new)
            found = lineanchor.find(now, lines, content, old)
        except KeyError:
            return State(CHANGED, new)
        except lineanchor.TooLong:
            return State(UNKNOWN, reason=LONG)
        if found is None:
            return State(CHANGED, new)
        where_ = f"{found[0]}-{found[1]}" if found[0] != found[1] else str(found[0])
        return State(
            RENAMED if new else SAME, new, lines="" if found == lineanchor.parse(lines) else where_
        )
