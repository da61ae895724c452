"""The commit that made a memory stale.
It is the first after which one of its paths never again had the noted content.

Git names the commits between the memory's own and HEAD that touched the path, under each of its
names, and one look at the objects says in which of them the path had the noted content. The search
goes from HEAD back through commits without it, to one all of whose parents had it. So of a change
that was reverted and made again the second one counts.

The whole history between is looked at, not the first parents alone: the merge that brought the
commit is named beside it. Where a merge took the change from a side that does not descend from the
memory's own commit, the merge is the answer, and `brought` has the commits of that side.

Promise: git decides. Processes grow with the renames, not with the commits.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from ..anchors import anchor_state, path_state
from ..anchors.path_history import renamed, spec
from ..anchors.reachability import Reachability
from ..core import record
from ..core.errors import MemError
from ..engine import memory_rows
from ..engine.cache import Cache
from ..git import commit_reader
from ..memory import memories
from ..store import Store

PATIENCE = 60.0  # seconds git may look for renames
_HOPS = 32  # names a path may have had
_BROUGHT = 5  # commits of a merged side that are named
_WALK = "rev-list --topo-order --full-history --parents --ancestry-path"


def bisect(
    store: Store, prefix: str, paths: list[str] | None = None
) -> tuple[str, str, list[dict[str, Any]], list[dict[str, str]]]:
    """(id, title, an object for each path that is stale, {path, state} of the others).

    `paths`: only these. Raises MemError where nobody can tell.
    """
    found = memories.find(store, prefix)
    data = found.record.data
    head = store.repo.head()
    if not head:
        raise MemError("there is no commit here yet")
    places = memory_rows.places(data)
    asked = {p.rstrip("/") for p in paths or []}
    wanted = [place for place in places if not paths or place[0].rstrip("/") in asked]
    if not wanted:
        names = ", ".join(f"'{path}'" for path, _, _ in places[:5])
        raise MemError(
            f"memory '{found.memory.id[:8]}' names {'no path' if not places else 'other paths'}",
            hint=f"it names {names}" if names else "`git mem edit ID --path` adds one",
        )
    anchor, edited = memory_rows.commit_of(data), record.object_id(data.get("head"))

    def read(cache: Cache) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
        stale: list[dict[str, Any]] = []
        fine: list[dict[str, str]] = []
        noted = [(anchor, *place) for place in wanted]
        states = path_state.states(store.repo, cache, noted, head, PATIENCE)
        for place, state in zip(wanted, states, strict=True):
            said = {"path": place[0], "state": state.state}
            if state.state in path_state.STALE:
                search = _Search(store, cache, [c for c in (anchor, edited) if c], place, head)
                stale.append({**said, "now": state.now or None, **search.run()})
            else:
                more = {"now": state.now, "reason": state.reason}
                fine.append({**said, **{name: text for name, text in more.items() if text}})
        return stale, fine

    return found.memory.id, str(record.title_of(data)), *store.with_cache(read)[0]


class _Search:
    """One path of one memory: where it stopped to be what it was."""

    def __init__(
        self, store: Store, cache: Cache, anchors: list[str], place: tuple[str, str, str], head: str
    ) -> None:
        self.repo, self.git = store.repo, store.repo.git
        self.cache = cache
        self.anchors = anchors  # the commit it is about, and the one it was edited at
        self.path, self.blob, self.lines = place[0].rstrip("/") or ".", place[1], place[2]
        self.head = head
        self.names = [self.path]
        self.end = time.monotonic() + PATIENCE
        self._ids: dict[tuple[str, str], str] = {}
        self._held: dict[str, bool] = {self.blob: True, "": False}
        self._finder = path_state.Finder(store.repo)

    def run(self) -> dict[str, Any]:
        base = self._base()
        graph = self._graph(base)
        if not self._good([base])[base]:
            # What carries its commit's change brought other ones along.
            return self._answer(base, base)
        good = self._good(graph)
        here = next(iter(graph), base)
        if good.get(here, True):
            raise MemError(
                f"git names no commit since {base[:12]} that changed '{self.path}'",
                hint="it may have been renamed in a way that git does not see",
            )
        while bad := [p for p in graph[here] if p in graph and not good[p]]:
            here = bad[0]
        return {**self._answer(here, base), "looked_at": len(graph)}

    def _base(self) -> str:
        """The memory's commit in this history, or what stands for it; one with the path first."""
        stands = anchor_state.states(self.repo, self.cache, self.anchors, self.head)
        places = anchor_state.places(self.cache, self.anchors)
        reached = Reachability(self.git, [self.head], {c for some in places.values() for c in some})

        def inside(commits: list[str]) -> list[str]:
            """What stands for these in this history."""
            stood = (c for a in commits for c in (stands[a].into or stands[a].commit, *places[a]))
            return [c for c in dict.fromkeys(stood) if reached.contains(c)]

        found = inside(self.anchors)
        good = self._good(found) if found else {}
        # Where the path was otherwise when the text was edited, that commit tells nothing.
        if base := next((c for c in found if good[c]), next(iter(inside(self.anchors[:1])), "")):
            return base
        reasons = [stands[a].reason or stands[a].state for a in self.anchors]
        why = next(iter(reasons), anchor_state.NOWHERE)
        message = f"this history does not have the commit the memory is about ({why})"
        raise MemError(message, hint=anchor_state.hint(self.repo))

    def _graph(self, base: str) -> dict[str, list[str]]:
        """{commit: parents} of what touched the path, by any name, after `base`, and of merges."""
        walk = (*_WALK.split(), f"{base}..{self.head}", "--")
        graph: dict[str, list[str]] = {}
        for _ in range(_HOPS):
            out, whole = self.git.limited(None, *walk, *map(spec, self.names))
            if not whole:
                why = f" ({anchor_state.PARTIAL})" if self.git.promised else ""
                raise MemError(
                    f"git cannot say which commits since {base[:12]} changed '{self.path}'{why}",
                    hint="a clone without `--filter` has what it takes" if why else "",
                )
            graph = {row.split()[0]: row.split()[1:] for row in out.decode().splitlines()}
            if not (new := self._renamed(graph)):
                break
            self.names += new
        return graph

    def _renamed(self, graph: dict[str, list[str]]) -> list[str]:
        """Names that commits gave to what had one of the known names."""
        self._look({*graph, *(p for parents in graph.values() for p in parents)})
        lost: dict[str, list[str]] = {}
        for commit, parents in graph.items():
            for name in self.names:
                if not self._ids[commit, name] and any(self._ids[p, name] for p in parents):
                    lost.setdefault(commit, []).append(name)
        found: list[str] = []
        for commit, names in lost.items():
            left = max(0.1, self.end - time.monotonic())
            went, whole = renamed(self.repo, commit, names, left)
            if not whole:
                raise MemError(f"git takes too long to say what {commit[:12]} renamed")
            found += went.values()
        return [name for name in dict.fromkeys(found) if name not in self.names]

    def _look(self, commits: Iterable[str]) -> None:
        asked = [(c, name) for c in commits for name in self.names if (c, name) not in self._ids]
        ids = self.git.entries(asked) if asked else []
        self._ids.update(zip(asked, ids, strict=True))

    def _good(self, commits: Iterable[str]) -> dict[str, bool]:
        """Whether the path, under one of its names, says in each commit what it said."""
        commits = list(commits)
        self._look(commits)
        ids = {c: [self._ids[c, name] for name in self.names] for c in commits}
        for id in {id for some in ids.values() for id in some} - self._held.keys():
            self._held[id] = bool(self.lines) and self._has_lines(id)
        return {c: any(self._held[id] for id in some) for c, some in ids.items()}

    def _has_lines(self, id: str) -> bool:
        state = self._finder.state(("", self.path, self.blob, self.lines), id, "")
        if state.state == path_state.UNKNOWN:
            raise MemError(
                f"the lines {self.lines.partition('@')[0]} cannot be looked for: {state.reason}",
                hint="`git fetch --unshallow` brings the text they were taken from",
            )
        return state.state == path_state.SAME

    def _answer(self, culprit: str, base: str) -> dict[str, Any]:
        parents = self._listed("--parents", "-n1", culprit, "--")[1:]
        brought: list[str] = []
        if len(parents) > 1 and culprit != base:
            between = f"{base}..{culprit}"
            after = set(self._listed("--ancestry-path", between, "--"))
            side = self._listed("--no-merges", between, "--", *map(spec, self.names))
            brought = [c for c in side if c not in after][:_BROUGHT]
        merge = self._merged_by(culprit, base)
        said = commit_reader.facts(self.git, [culprit, *brought, *([merge] if merge else [])])
        out = {"brought": [said[c] for c in brought], "merged_by": said.get(merge)}
        return {**said[culprit], **{name: value for name, value in out.items() if value}}

    def _listed(self, *asked: str) -> list[str]:
        return self.git.text("rev-list", *asked).split()

    def _merged_by(self, culprit: str, base: str) -> str:
        """The merge that brought a commit to the first parents, "" where it was made there."""
        line = self._listed("--first-parent", f"{base}..{self.head}", "--")
        if culprit in line or culprit == base:
            return ""
        after = set(self._listed("--ancestry-path", f"{culprit}..{self.head}", "--"))
        return next((c for c in reversed(line) if c in after), "")
