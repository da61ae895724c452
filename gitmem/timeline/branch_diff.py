"""What lies between two revisions: what a branch teaches, changes, contradicts and makes stale.

`A..B` compares what is known at A with what is known at B, as `git log A..B` does
with commits; `A...B` begins where B left A. What is known at A is read as of A, what is
new as of B (`then`), so both have their texts and states of then.

- teaches: memories about commits that B has and A has not, by whatever way (a
  branch that was squashed into A has nothing new for it);
- changes, forgets: edits and forgets made on the way;
- contradicts: what supersedes a memory of A, or by its words speaks against one
  (as `consolidate` finds it: a proposal to look at, no verdict);
- makes stale: memories of A whose paths were as they said, and are not after
  what B did since it left A. What A did since then is not B's doing, and what B
  itself superseded or edited is not stale.

Promise: git decides what lies between. A bounded number of processes.
"""

from __future__ import annotations

import json
from typing import Any

from ..anchors import anchor_state, patch_id, path_state, records_at, snapshot_view
from ..core.errors import MemError, UsageError
from ..engine import filters, memory_rows
from ..engine.cache import Cache
from ..engine.document import TEAM, embed_texts, vector_text
from ..engine.filters import newest_first
from ..memory import consolidate, view
from ..store import Store

SUPERSEDES = "supersedes"


class Range:
    """Two commits: `base` and `tip` by their full ids, `fork` where the tip's history left that of
    the base ("" where they have none in common).
    """

    def __init__(self, store: Store, words: list[str]) -> None:
        if not words or len(words) > 2 or not all(words):
            raise UsageError("no range", hint="write A..B, A...B, or one revision for REV..HEAD")
        one, dots, other = (words[0], "..", words[1]) if len(words) == 2 else self._split(words[0])
        self.names = one or "HEAD", other or "HEAD"
        base, self.tip = (snapshot_view.commit_of(store, name) for name in self.names)
        self.fork = store.repo.git.text("merge-base", base, self.tip, ok=(0, 1))
        if dots == "..." and not self.fork:
            raise MemError(
                f"'{self.names[0]}' and '{self.names[1]}' have no commit in common",
                hint="A..B compares them all the same",
            )
        self.base = self.fork if dots == "..." else base

    @staticmethod
    def _split(text: str) -> tuple[str, str, str]:
        for dots in ("...", ".."):
            one, found, other = text.partition(dots)
            if found:
                return one, dots, other
        return text, "..", "HEAD"


def diff(store: Store, words: list[str]) -> dict[str, Any]:
    """The JSON object of `git mem diff`."""
    span = Range(store, words)

    def read(cache: Cache) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "base": {"name": span.names[0], "commit": span.base},
            "tip": {"name": span.names[1], "commit": span.tip},
        }
        base, tip = (
            records_at.known(store.repo, cache, commit) for commit in (span.base, span.tip)
        )
        with snapshot_view.opened(store, cache, span.base, base) as past:
            before = _Before(store, cache, past, span, tip)
        with snapshot_view.opened(store, cache, span.tip, tip) as past:
            reason = past.reason
            fresh = _rows(past, "anchor", tip.inside - base.inside)
            edited = [row for row in _rows(past, "id", before.edited) if row not in set(fresh)]
            objects = past.tell(view.objects(store, past, fresh, span.tip, past.states))
            answer["teaches"] = objects
            after = past.tell(view.objects(store, past, edited, span.tip, past.states))
            answer["changes"] = [
                {"before": old, "after": new} for new in after for old in before.objects(new["id"])
            ]
            made = _loaded(past, [*fresh, *edited])
            vectors = [
                v
                for v, _ in embed_texts(
                    store.table,
                    [vector_text(data) for data, _, _ in memory_rows.load(past, [*fresh, *edited])],
                )
            ]
        answer["forgets"] = [item for id in sorted(before.forgotten) for item in before.objects(id)]
        answer["contradicts"] = [
            {"memory": new, "against": old, "by": SUPERSEDES}
            for new in [*objects, *after]
            for id in sorted(before.superseded.get(new["id"], ()))
            for old in before.objects(id)
        ]
        shown = {new["id"]: new for new in [*objects, *after]}
        with snapshot_view.opened(store, cache, span.base, base) as past:
            done = {(pair["memory"]["id"], pair["against"]["id"]) for pair in answer["contradicts"]}
            answer["contradicts"] += [
                {"memory": shown[id], "against": old, "by": why}
                for id, old, why in _against(store, past, span, made, vectors, before)
                if (id, old["id"]) not in done
            ]
            answer["stale"] = _stale(store, past, span, before)
        if reason:
            store.warn(f"warning: {reason}")
        return answer

    return store.with_cache(read)[0]


class _Before:
    """What B did to the memories of A: ids that it edited, forgot, and superseded ({new id: old
    ids}).
    """

    def __init__(
        self,
        store: Store,
        cache: Cache,
        past: snapshot_view.Snapshot,
        span: Range,
        tip: records_at.Known,
    ) -> None:
        self.known = past.known
        self.edited: set[str] = set()
        self.forgotten: set[str] = set()
        self.superseded: dict[str, set[str]] = {}
        between = {n: r for n, r in past.known.later.items() if n not in tip.later}
        asked = json.dumps(sorted(between))
        rows = cache.db.execute(
            "SELECT c.by, l.memory FROM cover c CROSS JOIN line l ON l.version = c.version WHERE"
            " +c.by IN (SELECT value FROM json_each(?)) ORDER BY 1, 2",
            (asked,),
        )
        covered: dict[int, set[str]] = {}
        for by, memory in rows.fetchall():
            covered.setdefault(by, set()).add(bytes(memory).decode("utf-8", "replace"))
        for n, r in between.items():
            others = covered.get(n, set()) - {r.id}
            if others and r.op != "forget":
                self.superseded.setdefault(r.id, set()).update(others)
            if r.op == "edit":
                self.edited.add(r.id)
            elif r.op == "forget":
                self.forgotten.add(r.id)
        gone = self.forgotten.union(*self.superseded.values())
        wanted = _rows(past, "id", {*self.edited, *gone})
        self._objects: dict[str, list[dict[str, Any]]] = {}
        for item in past.tell(view.objects(store, past, wanted, span.base, past.states)):
            self._objects.setdefault(item["id"], []).append(item)
        self.handled = {*self.edited, *gone}

    def objects(self, id: str) -> list[dict[str, Any]]:
        """The versions of a memory as of A; none where it was not known or not active there."""
        return self._objects.get(id, [])


def _rows(past: snapshot_view.Snapshot, column: str, values: set[str]) -> list[int]:
    """Active rows with one of the values, the newest first."""
    sql = (
        f"SELECT row FROM memory WHERE status = 0 AND {column} IN (SELECT value FROM json_each(?))"
        f" ORDER BY {newest_first(past)}, row"
    )
    return memory_rows.firsts(
        past, [row for (row,) in past.db.execute(sql, (json.dumps(sorted(values)),))]
    )


def _loaded(past: snapshot_view.Snapshot, rows: list[int]) -> list[consolidate.Memory]:
    latest = filters.latest(past)
    return [
        consolidate.Memory(row, data, bool(scope & TEAM), latest)
        for row, (data, scope, _) in zip(rows, memory_rows.load(past, rows), strict=True)
    ]


# Contradictions


def _against(
    store: Store,
    past: snapshot_view.Snapshot,
    span: Range,
    made: list[consolidate.Memory],
    vectors: list[bytes],
    before: _Before,
) -> list[tuple[str, dict[str, Any], str]]:
    """[(id of a new memory, object of one of A, why)] where the words of the two speak against each
    other.
    """
    if not made:
        return []
    from ..engine import vectors as many

    rows = [
        row for (row,) in past.db.execute("SELECT row FROM memory WHERE status = 0 ORDER BY row")
    ]
    known = past.vectors(rows)
    dims = len(vectors[0])
    every = [known.get(row, bytes(dims)) for row in rows] + vectors
    near: dict[tuple[int, int], float] = {}
    for _, pairs in many.near_pairs(every, dims, len(rows), consolidate.NEAREST, consolidate.MOST):
        near.update({(i - len(rows), rows[j]): cosine for i, j, cosine in pairs if j < len(rows)})
    beside = {(i, row) for i, m in enumerate(made) for row in _naming(past, m.paths)} - near.keys()
    place = {row: i for i, row in enumerate(rows)}
    some = sorted((i, row) for i, row in beside if row in place)
    near.update(
        zip(
            some,
            many.cosines([(vectors[i], every[place[row]]) for i, row in some], dims),
            strict=True,
        )
    )
    found: list[tuple[str, int, str]] = []
    looked_at = sorted({row for _, row in near})
    old_ones = dict(zip(looked_at, _loaded(past, looked_at), strict=True))
    for (i, row), cosine in sorted(near.items()):
        old = old_ones[row]
        said = (
            consolidate.judge(old, made[i], cosine)
            if old.id not in before.handled and old.id != made[i].id
            else None
        )
        if said and (
            said.kind == consolidate.CONTRADICTION
            or (said.kind == consolidate.SUPERSEDE and said.why == consolidate.AGAINST)
        ):
            found.append((made[i].id, row, said.why))
    shown = sorted({row for _, row, _ in found})
    objects = dict(
        zip(
            shown,
            past.tell(view.objects(store, past, shown, span.base, past.states)),
            strict=True,
        )
    )
    return [(id, objects[row], why) for id, row, why in found]


def _naming(past: snapshot_view.Snapshot, paths: frozenset[str]) -> list[int]:
    """Rows that name one of the paths, of paths that are not named by a crowd."""
    out: list[int] = []
    for path in sorted(paths):
        rows = past.db.execute(
            "SELECT row FROM label WHERE kind = 'path' AND value = ? LIMIT ?",
            (path, consolidate.CROWD + 1),
        ).fetchall()
        out += [row for (row,) in rows] if len(rows) <= consolidate.CROWD else []
    return out


# Staleness


def _stale(
    store: Store, past: snapshot_view.Snapshot, span: Range, before: _Before
) -> list[dict[str, Any]]:
    """Memories of A whose paths B changed, renamed or removed, with the states of these paths at
    B."""
    out, whole = store.repo.git.limited(
        None,
        "diff-tree",
        "-r",
        "-t",
        "-z",
        "--no-renames",
        "--name-only",
        span.fork or span.base,
        span.tip,
    )
    if not whole:
        partial = patch_id.partial(store.repo)
        reason = anchor_state.PARTIAL if partial else "git cannot compare the two"
        store.warn(f"warning: what the branch made stale is not known: {reason}")
        return []
    touched = {name.decode("utf-8", "replace") for name in out.split(b"\0") if name}
    if not touched:
        return []
    asked = json.dumps(sorted({*touched, *(name + "/" for name in touched), ".", "./"}))
    rows = [
        row
        for (row,) in past.db.execute(
            "SELECT DISTINCT row FROM label WHERE kind = 'path' AND value IN (SELECT value FROM"
            " json_each(?)) AND row IN (SELECT row FROM memory WHERE status = 0) ORDER BY row",
            (asked,),
        )
    ]
    wanted: list[tuple[str, str, str, str]] = []
    whose: list[int] = []
    for row, (data, _, _) in zip(rows, memory_rows.load(past, rows), strict=True):
        if str(data["id"]) not in before.handled:
            for path, blob, lines in memory_rows.places(data):
                if path.rstrip("/") in touched or path.rstrip("/") == ".":
                    wanted.append((memory_rows.commit_of(data), path, blob, lines))
                    whose.append(row)
    if not wanted:
        return []
    was, now = (
        path_state.states(store.repo, past, wanted, commit) for commit in (span.base, span.tip)
    )
    hit = {
        row
        for row, a, b in zip(whose, was, now, strict=True)
        if a.state in (path_state.SAME, path_state.RENAMED)
        and (
            b.state in path_state.STALE
            or (b.state == path_state.RENAMED and (a.state, a.now) != (b.state, b.now))
        )
    }
    sql = (
        "SELECT row FROM memory WHERE row IN (SELECT value FROM json_each(?)) ORDER BY"
        f" {newest_first(past)}, row"
    )
    chosen = [row for (row,) in past.db.execute(sql, (json.dumps(sorted(hit)),))]
    chosen = memory_rows.firsts(past, chosen)
    return past.tell(view.objects(store, past, chosen, span.tip, past.states))
