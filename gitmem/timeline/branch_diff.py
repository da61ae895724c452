"""What lies between two revisions: what a branch teaches, changes, contradicts and makes stale.

`A..B` compares what is known at A with what is known at B, as `git log A..B` does with commits;
`A...B` begins where B left A. Memories of A are shown as of A, new ones as of B (`snapshot_view`).

- teaches: memories about commits that B has and A has not, by whatever way (a branch that was
  squashed into A has nothing new for it);
- changes, forgets: edits and forgets made on the way;
- contradicts: what supersedes a memory of A, or by its words speaks against one (as `consolidate`
  finds it: a proposal, no verdict);
- makes stale: memories of A whose paths were as they said, and are not after what B did since it
  left A; not those that B itself superseded or edited.
"""

from __future__ import annotations

from typing import Any

from ..anchors import anchor_state, path_state, snapshot_view
from ..anchors.snapshot_view import Snapshot
from ..core.errors import MemError, UsageError
from ..engine import filters, memory_rows, model_vectors
from ..engine.cache import SPACE, Cache
from ..engine.memory_rows import TEAM
from ..memory import consolidate, view
from ..store import Store

SUPERSEDES = "supersedes"
_COMPARE = "diff-tree -r -t -z --no-renames --name-only"

Objects = list[dict[str, Any]]


class Range:
    """Two commits by their full ids, and `fork`, where the tip's history left that of the base
    ("" for nowhere)."""

    def __init__(self, store: Store, words: list[str]) -> None:
        if not words or len(words) > 2 or not all(words):
            raise UsageError("no range", hint="write A..B, A...B, or one revision for REV..HEAD")
        dots = "..." if len(words) == 1 and "..." in words[0] else ".."
        one, _, other = words[0].partition(dots) if len(words) == 1 else (words[0], "", words[1])
        self.names = one or "HEAD", other or "HEAD"
        base, self.tip = (snapshot_view.commit_of(store, name) for name in self.names)
        self.fork = store.repo.git.text("merge-base", base, self.tip, ok=(0, 1))
        if dots == "..." and not self.fork:
            raise MemError(
                f"'{self.names[0]}' and '{self.names[1]}' have no commit in common",
                hint="A..B compares them all the same",
            )
        self.base = self.fork if dots == "..." else base


def diff(store: Store, words: list[str]) -> dict[str, Any]:
    """The JSON object of `git mem diff`."""
    span = Range(store, words)

    def read(cache: Cache) -> dict[str, Any]:
        with (
            snapshot_view.opened(store, cache, span.base) as before,
            snapshot_view.opened(store, cache, span.tip) as after,
        ):
            if after.reason:
                store.warn(f"warning: {after.reason}")
            return _Comparison(store, cache, span, before, after).answer()

    return store.with_cache(read)[0]


class _Comparison:
    """What B (`after`) did to the memories of A (`before`): ids that it edited, forgot,
    restored, and superseded ({new id: old ids}).
    """

    def __init__(
        self, store: Store, cache: Cache, span: Range, before: Snapshot, after: Snapshot
    ) -> None:
        self.store = store
        self.span = span
        self.before = before
        self.after = after
        self.superseded: dict[str, set[str]] = {}
        between = {n: r for n, r in before.known.later.items() if n not in after.known.later}
        rows = cache.among(
            "SELECT c.by, l.memory FROM cover c CROSS JOIN line l ON l.version = c.version"
            " WHERE +c.by IN {}",
            between,
        )
        covered: dict[int, set[str]] = {}
        for by, memory in rows:
            covered.setdefault(by, set()).add(bytes(memory).decode("utf-8", "replace"))
        for n, r in between.items():
            others = covered.get(n, set()) - {r.id}
            if others and r.op != "forget":
                self.superseded.setdefault(r.id, set()).update(others)
        self.edited, self.forgotten, self.restored = (
            {r.id for r in between.values() if r.op == op} for op in ("edit", "forget", "restore")
        )
        self.handled = self.edited.union(self.forgotten, *self.superseded.values())
        # The versions of these memories as of A; none of those that were not active there.
        self._olds: dict[str, Objects] = {}
        for item in view.objects(
            store, before, view.active(before, "id", self.handled | self.restored)
        ):
            self._olds.setdefault(item["id"], []).append(item)

    def answer(self) -> dict[str, Any]:
        span, after = self.span, self.after
        fresh = view.active(after, "anchor", after.known.inside - self.before.known.inside)
        back = view.active(after, "id", self.restored - self._olds.keys())
        fresh = list(dict.fromkeys([*fresh, *back]))
        taught = set(fresh)
        edited = [row for row in view.active(after, "id", self.edited) if row not in taught]
        teaches, changed = (view.objects(self.store, after, rows) for rows in (fresh, edited))
        news = [*teaches, *changed]
        contradicts: Objects = [
            {"memory": new, "against": old, "by": SUPERSEDES}
            for new in news
            for id in sorted(self.superseded.get(new["id"], ()))
            for old in self._olds.get(id, [])
        ]  # `_against` leaves these out: they were handled
        contradicts += [
            {"memory": news[place], "against": old, "by": why}
            for place, old, why in self._against([*fresh, *edited])
        ]
        return {
            "base": {"name": span.names[0], "commit": span.base},
            "tip": {"name": span.names[1], "commit": span.tip},
            "teaches": teaches,
            "changes": [
                {"before": old, "after": new}
                for new in changed
                for old in self._olds.get(new["id"], [])
            ],
            "forgets": [
                old
                for id in sorted(self.forgotten)
                if not view.active(after, "id", {id})
                for old in self._olds.get(id, [])
            ],
            "contradicts": contradicts,
            "stale": self._stale(),
        }

    def _against(self, rows: list[int]) -> list[tuple[int, dict[str, Any], str]]:
        """[(place in `rows`, object of a memory of A, why)] whose words contradict each other."""
        made = _loaded(self.after, rows)
        if not made:
            return []
        near = self._near(rows)
        looked_at = sorted({row for _, row in near})
        olds = dict(zip(looked_at, _loaded(self.before, looked_at), strict=True))
        found: list[tuple[int, int, str]] = []
        for (i, row), cosine in sorted(near.items()):
            old, new = olds[row], made[i]
            if old.id in self.handled or old.id == new.id:
                continue
            said = consolidate.judge(old, new, cosine)
            if said and said.why in (consolidate.AGAINST, consolidate.VALUE):
                found.append((i, row, said.why))
        shown = sorted({row for _, row, _ in found})
        items = view.objects(self.store, self.before, shown)
        objects = dict(zip(shown, items, strict=True))
        return [(i, objects[row], why) for i, row, why in found]

    def _near(self, rows: list[int]) -> dict[tuple[int, int], float]:
        """{(place in `rows`, row of A): cosine} of those that are near each other."""
        from ..engine import vectors as many

        dims = self.store.table.dims
        sql = "SELECT row FROM memory WHERE status = 0 ORDER BY row"
        olds = [row for (row,) in self.before.db.execute(sql)]
        known = model_vectors.of(self.before, SPACE, olds)[0]
        news = model_vectors.of(self.after, SPACE, rows)[0]
        every = [known.get(row, bytes(dims)) for row in olds]
        every += [news.get(row, bytes(dims)) for row in rows]
        first = len(olds)
        blocks = many.near_pairs(every, dims, first, consolidate.NEAREST, consolidate.MOST)
        return {
            (i - first, olds[j]): cosine
            for _, pairs in blocks
            for i, j, cosine in pairs
            if j < first
        }

    def _stale(self) -> Objects:
        """Memories of A whose paths B changed, renamed or removed, with their states at B."""
        past, repo = self.before, self.store.repo
        touched = self._touched()
        if not touched:
            return []
        touched.add(".")
        # The plus: else SQLite looks up each name with each active memory, 26 s for 5,000 files and
        # 10,000 memories.
        found = past.among(
            "SELECT DISTINCT row FROM label WHERE kind = 'path' AND value IN {}"
            " AND +row IN (SELECT row FROM memory WHERE status = 0) ORDER BY row",
            [*touched, *(name + "/" for name in touched)],
        )
        rows = [row for (row,) in found]
        wanted: list[path_state.Noted] = []
        whose: list[int] = []
        for row, (data, _, _) in zip(rows, memory_rows.load(past, rows), strict=True):
            if str(data["id"]) not in self.handled:
                for place in memory_rows.places(data):
                    if memory_rows.bare(place[0]) in touched:
                        wanted.append((memory_rows.commit_of(data), *place))
                        whose.append(row)
        was, now = (
            path_state.states(repo, past, wanted, commit)
            for commit in (self.span.base, self.span.tip)
        )
        hit = {row for row, a, b in zip(whose, was, now, strict=True) if _became_stale(a, b)}
        chosen = view.active(past, "row", hit)
        return view.objects(self.store, past, chosen, self.span.tip, past.states)

    def _touched(self) -> set[str]:
        """The paths that B changed since it left A; warns where nobody can tell."""
        repo, since = self.store.repo, self.span.fork or self.span.base
        out, whole = repo.git.limited(None, *_COMPARE.split(), since, self.span.tip)
        if whole:
            return {name.decode("utf-8", "replace") for name in out.split(b"\0") if name}
        reason = anchor_state.PARTIAL if repo.git.promised else "git cannot compare the two"
        self.store.warn(f"warning: what the branch made stale is not known: {reason}")
        return set()


def _became_stale(was: path_state.PathState, now: path_state.PathState) -> bool:
    if was.state not in (path_state.SAME, path_state.RENAMED):
        return False
    if now.state == path_state.RENAMED:
        return (was.state, was.now) != (now.state, now.now)
    return now.state in path_state.STALE


def _loaded(past: Snapshot, rows: list[int]) -> list[consolidate.Memory]:
    latest = filters.latest(past)
    loaded = zip(rows, memory_rows.load(past, rows), strict=True)
    return [
        consolidate.Memory(row, data, bool(scope & TEAM), latest)
        for row, (data, scope, _) in loaded
    ]
