"""What a session is told at its start: the same block for hooks, after compaction, for subagents
and for `git mem context`.

Gathers candidates through indexes of the cache (never all memories), scores
them (`relevance`), chooses (`context_select`) and frames them (`context_render`).

Promises. No git process of its own, no file but the cache. The same notes, HEAD and session give
the same block: its time is that of the newest memory. The clock is asked for one thing: whether the
time of a record can be true (`record.when`). What the policy `mem.trust` does not let be injected
is not in it. Text comes from stored lines that were hashed against their version."""

from __future__ import annotations

import os

from ..core import record, text
from ..engine import (
    anchor_state_store,
    filters,
    memory_rows,
    path_state_store,
    reinstated,
    unread,
    usage_store,
)
from ..engine.filters import Filter
from ..signing import trust
from . import context_item, context_select, head_facts, relevance
from .context_item import Item
from .context_render import Block

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..engine.cache import Cache
    from ..git.discover import Here

    Look = Callable[[Sequence[str]], Mapping[str, anchor_state_store.AnchorState]]
    Ages = Callable[
        [Cache, Iterable[int], str], Mapping[int, Mapping[int, path_state_store.PathState]]
    ]

SOURCES = {
    "start": "SessionStart",
    "subagent": "SubagentStart",
    "compact": "SessionStart:compact",
    "cli": "git mem context",
}
NEWEST, OF_A_KIND, BY_WORDS, BY_PATHS = 300, 20, 100, 300  # candidates of each route
# Where one author has most of the newest memories: other authors asked, and memories of each.
AUTHORS, OF_EACH = 32, 100
# Paths asked for; memories from which a path says nothing; memories that paths bring at most.
PATHS, COMMON, HELD = 120, 1_000, 8_000
LOADED = 60  # candidates whose text is read
TERMS, POSTINGS = 12, 6_000  # of one question to the lexical index: about 5 ms
_TRUNKS = frozenset(["main", "master", "trunk", "develop", "dev", "head"])
_PREFIXES = frozenset(
    text.terms(
        "feature feat fix bugfix hotfix chore wip user users topic branch issue pr dev release"
    )
)
AGAIN = 10.0  # what puts a memory that was told before in front of all others


def build(
    cache: Cache,
    here: Here,
    *,
    budget: int | None = None,
    purpose: str = "start",
    session_lines: Mapping[str, Sequence[str]] | None = None,
    only: Filter | None = None,
    aged: Ages = path_state_store.read,
    look: Look | None = None,
) -> Block:
    """The block for this repository and HEAD. `budget`: tokens, None for the setting or the tier;
    `only`: of these memories; `aged`: what became of paths.

    `session_lines`: what `session.read` gives; its touched files count as work
    at hand, and after compaction what was shown comes first again. `look` says where
    anchors stand of which the cache does not know it for this HEAD.
    """
    known = head_facts.read(cache, here.head)
    session = session_lines or {}
    wanted = reinstated.seen_from(
        cache,
        trust.Trust(here.settings, here.home).injectable(cache, only or Filter()),
        "" if only else here.head,
    )
    total = wanted.count(cache)
    tokens, tier = _budget(here, budget, total, known)
    frame = Block(
        source=SOURCES.get(purpose, purpose),
        project=project(here),
        branch=here.branch,
        head=here.head,
        total=total,
        budget=tokens,
        tier=tier,
    )
    frame.current = known.current or not here.head
    found = _Candidates(cache, wanted, aged)
    newest = found.newest_time()
    frame.timestamp = (newest if record.days(newest) is not None else known.time)[:20]
    if total:
        again = (
            list(session.get("shown", ()))[-context_select.MOST :] if purpose == "compact" else []
        )
        found.gather(known, _branch_terms(here.branch), session.get("touched", ()), again)
        items = found.items(here, frame.timestamp, set(again), look)
        frame.waiting, frame.unaged = found.waiting, found.unaged
        frame.current = frame.current and not found.waiting and not found.unaged
        context_select.choose(frame, items)
    if remark := unread.remark(cache):
        frame.degrade(remark)
    return frame


def project(here: Here) -> str:
    """The repository's directory name; that of the main working tree in a linked one."""
    beside, name = os.path.split(here.common_dir.rstrip("/"))
    return record.clean(
        os.path.basename(beside)
        if name == ".git"
        else (os.path.basename(here.top) or name.removesuffix(".git"))
    )


def _budget(here: Here, budget: int | None, total: int, known: head_facts.Facts) -> tuple[int, str]:
    if budget is not None:
        return max(1, budget), "--budget"
    fixed = here.settings["contextBudget"]
    if fixed != "auto":
        return int(fixed), "mem.contextBudget"
    return context_select.tier(total, known.changed, known.commits)


def _branch_terms(branch: str) -> list[str]:
    """Words of a branch's name; none of a trunk."""
    return (
        []
        if branch.lower() in _TRUNKS
        else [
            t for t in dict.fromkeys(text.terms(branch)) if t not in _PREFIXES and not t.isdigit()
        ]
    )


class _Candidates:
    """Rows that may be told, with what speaks for each."""

    def __init__(self, cache: Cache, wanted: Filter, aged: Ages = path_state_store.read) -> None:
        self.cache = cache
        self.aged = aged
        self.only, self.args = ("", []) if wanted.plain else wanted.sql()
        self.latest = filters.latest(cache)
        self.at: dict[int, str] = {}  # the time that counts, "" for none
        self.author: dict[int, str] = {}
        self.paths: dict[int, float] = {}
        self.hand: dict[int, float] = {}
        self.branch: dict[int, float] = {}
        self.recent: dict[int, float] = {}
        # Rows whose text is read in any case: blockers, decisions, memories told before.
        self.wanted: set[int] = set()
        self.waiting = False  # whether the states of some are not known yet
        self.unaged = False  # whether the states of some paths are not known yet

    def _rows(self, condition: str, limit: int, *args: object) -> list[int]:
        """Rows of active memories, the newest first; `at` and `author` know them then.

        Where one author has more than half of them, half as many of others come with them.
        """
        only = f" AND row IN ({self.only})" if self.only else ""
        of = f"SELECT row, at, author FROM memory WHERE status = 0{condition}{only}"
        by_time, impossible = (
            f"{of} AND at {sign} '{self.latest}' ORDER BY" for sign in ("<=", ">")
        )
        values = (*args, *self.args)
        execute = self.cache.db.execute
        rows = execute(f"{by_time} at DESC, id LIMIT ?", (*values, limit)).fetchall()
        if len(rows) < limit:  # SQLite's index has these first
            rows += execute(f"{impossible} id LIMIT ?", (*values, limit - len(rows))).fetchall()
        counts: dict[str, int] = {}
        for _, _, author in rows:
            counts[author] = counts.get(author, 0) + 1
        most = max(counts, key=lambda author: counts[author]) if 1 < len(rows) == limit else None
        if most is not None and 2 * counts[most] > limit:
            rows += self._others(condition + only, values, most, limit // 2)
        self._know(rows)
        return list(dict.fromkeys(row for row, _, _ in rows))

    def _others(
        self, condition: str, args: tuple[object, ...], most: str, limit: int
    ) -> list[tuple[int, str, str]]:
        """The newest rows of other authors than `most`, by an index: it may have any number before
        them.
        """
        execute = self.cache.db.execute
        rows: list[tuple[str, str, int, str]] = []
        (author,) = execute("SELECT min(author) FROM memory WHERE status = 0").fetchone()
        for _ in range(AUTHORS):
            if author is None:
                break
            if author != most:
                newest = (
                    "SELECT * FROM memory WHERE status = 0 AND author = ? AND at <="
                    f" '{self.latest}' ORDER BY at DESC, id LIMIT {OF_EACH}"
                )
                rows += execute(
                    f"SELECT at, id, row, author FROM ({newest}) WHERE status = 0{condition}"
                    " LIMIT ?",
                    (author, *args, limit),
                ).fetchall()
            (author,) = execute(
                "SELECT min(author) FROM memory WHERE status = 0 AND author > ?", (author,)
            ).fetchone()
        rows.sort(key=lambda found: found[1])
        rows.sort(key=lambda found: found[0], reverse=True)
        return [(row, at, author) for at, _, row, author in rows[:limit]]

    def _know(self, rows: Iterable[tuple[int, str, str]]) -> None:
        for row, at, author in rows:
            self.at[row] = at if at <= self.latest else ""
            self.author[row] = author

    def newest_time(self) -> str:
        first = self._rows("", 1)
        return self.at[first[0]] if first else ""

    def gather(
        self,
        known: head_facts.Facts,
        branch: list[str],
        touched: Iterable[str],
        again: Sequence[str] = (),
    ) -> None:
        """`again`: ids of memories that are candidates in any case."""
        self._rows("", NEWEST)
        for kind in ("blocker", "decision"):
            self.wanted.update(self._rows(" AND type = ?", OF_A_KIND, kind))
        if again:
            self.wanted.update(
                self._rows(f" AND id IN ({','.join('?' * len(again))})", len(again) * 2, *again)
            )
        hand = dict.fromkeys(known.own, relevance.OWN)
        hand.update(dict.fromkeys(touched, relevance.TOUCHED))
        self.paths = self._by_paths(known.paths)
        self.hand = self._by_paths(hand)
        self.branch = self._by_words([*branch, *_first(known.branch)])
        self.recent = self._by_words(_first(known.recent))
        missing = sorted({*self.paths, *self.hand, *self.branch, *self.recent} - set(self.at))
        for i in range(0, len(missing), 500):
            part = ",".join(map(str, missing[i : i + 500]))
            self._know(
                self.cache.db.execute(
                    f"SELECT row, at, author FROM memory WHERE status = 0 AND row IN ({part})"
                )
            )

    def _by_paths(self, weights: dict[str, float]) -> dict[int, float]:
        holders: dict[str, list[int]] = {}
        held = 0
        only = f" AND row IN ({self.only})" if self.only else ""
        for path in sorted(weights, key=lambda p: (-weights[p], p))[:PATHS]:
            rows = self.cache.db.execute(
                f"SELECT row FROM label WHERE kind = 'path' AND value = ?{only} LIMIT ?",
                (path, *self.args, COMMON + 1),
            ).fetchall()
            if 0 < len(rows) <= COMMON:
                holders[path] = [row for (row,) in rows]
                held += len(rows)
                if held > HELD:
                    break
        return _best(relevance.path_scores(weights, holders, self.cache.count()), BY_PATHS)

    def _by_words(self, terms: list[str]) -> dict[int, float]:
        if not terms:
            return {}
        df = self.cache.frequencies(terms)
        count = self.cache.count()
        known = sorted(
            [
                t
                for t in dict.fromkeys(terms)
                if df.get(t, 0) > 0 and (count < 50 or 4 * df[t] <= count)
            ],
            key=lambda t: df[t],
        )
        used: list[str] = []
        postings = 0
        for term in known[:TERMS]:
            postings += df[term]
            if postings > POSTINGS and used:
                break
            used.append(term)
        if not used:
            return {}
        return relevance.word_scores(
            self.cache.lexical(
                text.match_expression(used), (1.5, 1.0, 1.0), BY_WORDS, self.only, self.args
            )
        )

    def items(
        self, here: Here, newest: str, again: set[str], look: Look | None = None
    ) -> list[tuple[float, Item]]:
        """(score, item) of the best candidates; what was told before (`again`) first."""
        fresh = record.freshness(self.at.values(), newest, relevance.HALF)
        paths, hand, branch, recent = (
            self.paths.get,
            self.hand.get,
            self.branch.get,
            self.recent.get,
        )
        scores = {
            row: relevance.score(
                paths(row, 0.0), hand(row, 0.0), branch(row, 0.0), recent(row, 0.0), fresh[at[:10]]
            )
            for row, at in self.at.items()
        }
        rough = sorted(sorted(scores), key=self.at.__getitem__, reverse=True)
        rough.sort(key=lambda row: -scores[row])
        best = context_select.shared(
            rough, lambda row: self.author[row] if self.at[row] else None, LOADED
        )
        best += sorted(self.wanted.difference(best), key=rough.index)
        best = memory_rows.firsts(self.cache, best)
        loaded = memory_rows.load(self.cache, best)
        commits = [memory_rows.commit_of(data) for data, _, _ in loaded]
        stands = anchor_state_store.read(self.cache, commits, here.head)
        self.waiting = anchor_state_store.waiting(stands)
        if look and self.waiting:
            unknown = [a for a, s in stands.items() if s.reason == anchor_state_store.WAITING]
            stands.update(look(unknown))
        aged = self.aged(self.cache, best, here.head)
        learnt = usage_store.values(self.cache, best)
        out = []
        for item in context_item.of(self.cache, best, loaded, stands, aged):
            self.unaged = self.unaged or any(
                s.reason == path_state_store.WAITING for s in item.aged
            )
            item.why = self._why(item.row)
            item.when = self.at[item.row]
            worst = path_state_store.worst(item.aged)
            prior = relevance.prior(
                item.state, item.confidence, learnt.get(item.row), worst, item.reason
            )
            out.append((scores[item.row] * prior + AGAIN * (item.id in again), item))
        return out

    def _why(self, row: int) -> list[str]:
        found = [
            ("files of this branch or session", self.hand),
            ("files of recent commits", self.paths),
            ("words of this branch", self.branch),
            ("words of recent commits", self.recent),
        ]
        out = [words for words, scores in found if scores.get(row, 0.0) > 0]
        return out or ["recent"]


def _best(scores: dict[int, float], most: int) -> dict[int, float]:
    """The highest scores, and all that equal the last of them: which row came first decides
    nothing.
    """
    if len(scores) <= most:
        return scores
    least = sorted(scores.values(), reverse=True)[most - 1]
    return {row: score for row, score in scores.items() if score >= least}


def _first(weights: Mapping[str, float]) -> list[str]:
    return sorted(weights, key=lambda t: (-weights[t], t))
