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
from .context_render import MAX_UNITS, Block

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
# Where one author has most of the newest memories: newest ones among which others are looked for.
SEARCHED = 5_000
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
    room: int = MAX_UNITS,
) -> Block:
    """The block for this repository and HEAD.

    `budget`: tokens, None for the setting or the tier. `session_lines`: as `session.read` gives
    them; files touched in the session count as work at hand, and after a compaction the memories
    shown before come first again. `only`: chooses among these memories. `aged`: reads the states of
    paths; `look`: gives the states of anchors that the cache does not know at this HEAD. `room`:
    UTF-16 units that the agent takes.
    """
    facts = head_facts.read(cache, here.head)
    session = session_lines or {}
    policy = trust.Trust(here.settings, here.home).injectable(cache, only or Filter())
    eligible = reinstated.seen_from(cache, policy, "" if only else here.head)
    total = eligible.count(cache)
    tokens, tier = _budget(here, budget, total, facts)
    candidates = _Candidates(cache, eligible, aged)
    newest = candidates.newest_time()
    block = Block(
        source=SOURCES.get(purpose, purpose),
        timestamp=(newest if record.days(newest) is not None else facts.time)[:20],
        project=project(here),
        branch=here.branch,
        head=here.head,
        total=total,
        budget=tokens,
        tier=tier,
        room=min(room, MAX_UNITS),
    )
    if total:
        shown = list(session.get("shown", ())) if purpose == "compact" else []
        repeated = shown[-context_select.MOST :]
        candidates.gather(facts, _branch_terms(here.branch), session.get("touched", ()), repeated)
        items = candidates.items(here, block.timestamp, set(repeated), look)
        block.waiting, block.unaged = candidates.waiting, candidates.unaged
        context_select.choose(block, items)
    known = facts.current or not here.head
    block.current = known and not block.waiting and not block.unaged
    if remark := unread.remark(cache):
        block.degrade(remark)
    return block


def project(here: Here) -> str:
    """The repository's directory name; that of the main working tree in a linked one."""
    above, name = os.path.split(here.common_dir.rstrip("/"))
    if name == ".git":
        return record.clean(os.path.basename(above))
    return record.clean(os.path.basename(here.top) or name.removesuffix(".git"))


def _budget(here: Here, budget: int | None, total: int, facts: head_facts.Facts) -> tuple[int, str]:
    """(tokens, why)"""
    if budget is not None:
        return max(1, budget), "--budget"
    fixed = here.settings["contextBudget"]
    if fixed != "auto":
        return int(fixed), "mem.contextBudget"
    return context_select.tier(total, facts.changed, facts.commits)


def _branch_terms(branch: str) -> list[str]:
    """Words of a branch's name; none of a trunk."""
    if branch.lower() in _TRUNKS:
        return []
    terms = dict.fromkeys(text.terms(branch))
    return [term for term in terms if term not in _PREFIXES and not term.isdigit()]


class _Candidates:
    """Rows that may be told, with what speaks for each."""

    def __init__(self, cache: Cache, eligible: Filter, aged: Ages) -> None:
        self.cache = cache
        self.aged = aged
        self.only, self.args = ("", []) if eligible.plain else eligible.sql()
        self.latest = filters.latest(cache)
        self.at: dict[int, str] = {}  # the time that counts, "" for none
        self.author: dict[int, str] = {}
        self.paths: dict[int, float] = {}
        self.hand: dict[int, float] = {}
        self.branch: dict[int, float] = {}
        self.recent: dict[int, float] = {}
        # Rows whose text is read in any case: blockers, decisions, memories told before.
        self.always: set[int] = set()
        self.waiting = False  # whether the states of some are not known yet
        self.unaged = False  # whether the states of some paths are not known yet

    def _rows(self, condition: str, limit: int, *args: object) -> list[int]:
        """Rows of active memories, the newest first; adds them to `at` and `author`."""
        only = f" AND row IN ({self.only})" if self.only else ""
        active = f"SELECT row, at, author FROM memory WHERE status = 0{condition}{only} AND at"
        values = (*args, *self.args)
        sql = f"{active} <= '{self.latest}' ORDER BY at DESC, id LIMIT ?"
        rows = self.cache.db.execute(sql, (*values, limit)).fetchall()
        if len(rows) < limit:  # impossible times come last; SQLite's index has them first
            sql = f"{active} > '{self.latest}' ORDER BY id LIMIT ?"
            rows += self.cache.db.execute(sql, (*values, limit - len(rows))).fetchall()
        self._add(rows)
        return [row for row, _, _ in rows]

    def _add_others(self) -> None:
        """Where one author has more than half of the newest memories, half as many of others."""
        authors = list(self.author.values())
        most = max(set(authors), key=authors.count, default="")
        if len(authors) < NEWEST or 2 * authors.count(most) <= NEWEST:
            return
        execute = self.cache.db.execute
        end = "(SELECT {}(author) FROM memory WHERE status = 0)"  # from the index of authors
        first, last = execute(f"SELECT {end.format('min')}, {end.format('max')}").fetchone()
        if first != last:
            only = f" AND row IN ({self.only})" if self.only else ""
            newest = (
                f"SELECT row, at, author FROM memory WHERE status = 0{only}"
                f" AND at <= '{self.latest}' ORDER BY at DESC, id LIMIT {SEARCHED}"
            )
            sql = f"SELECT * FROM ({newest}) WHERE author <> ? LIMIT ?"
            self._add(execute(sql, (*self.args, most, NEWEST // 2)))

    def _add(self, rows: Iterable[tuple[int, str, str]]) -> None:
        for row, at, author in rows:
            self.at[row] = at if at <= self.latest else ""
            self.author[row] = author

    def newest_time(self) -> str:
        first = self._rows("", 1)
        return self.at[first[0]] if first else ""

    def gather(
        self,
        facts: head_facts.Facts,
        branch: list[str],
        touched: Iterable[str],
        repeated: Sequence[str],
    ) -> None:
        """`repeated`: ids of memories that are candidates in any case."""
        self._rows("", NEWEST)
        self._add_others()
        for kind in ("blocker", "decision"):
            self.always.update(self._rows(" AND type = ?", OF_A_KIND, kind))
        if repeated:
            condition = f" AND id IN ({','.join('?' * len(repeated))})"
            self.always.update(self._rows(condition, len(repeated) * 2, *repeated))
        hand = dict.fromkeys(facts.own, relevance.OWN)
        hand.update(dict.fromkeys(touched, relevance.TOUCHED))
        self.paths = self._by_paths(facts.paths)
        self.hand = self._by_paths(hand)
        self.branch = self._by_words([*branch, *_first(facts.branch)])
        self.recent = self._by_words(_first(facts.recent))
        missing = sorted({*self.paths, *self.hand, *self.branch, *self.recent} - set(self.at))
        for i in range(0, len(missing), 500):
            part = ",".join(map(str, missing[i : i + 500]))
            sql = f"SELECT row, at, author FROM memory WHERE status = 0 AND row IN ({part})"
            self._add(self.cache.db.execute(sql))

    def _by_paths(self, weights: dict[str, float]) -> dict[int, float]:
        holders: dict[str, list[int]] = {}
        held = 0
        only = f" AND row IN ({self.only})" if self.only else ""
        sql = f"SELECT row FROM label WHERE kind = 'path' AND value = ?{only} LIMIT ?"
        for path in _first(weights)[:PATHS]:
            rows = self.cache.db.execute(sql, (path, *self.args, COMMON + 1)).fetchall()
            if 0 < len(rows) <= COMMON:
                holders[path] = [row for (row,) in rows]
                held += len(rows)
                if held > HELD:
                    break
        return _best(relevance.path_scores(weights, holders, self.cache.count()), BY_PATHS)

    def _by_words(self, terms: list[str]) -> dict[int, float]:
        """Scores by the rarest of the terms, as many as POSTINGS allows, none of common ones."""
        frequency = self.cache.frequencies(terms)
        count = self.cache.count()
        most = float("inf") if count < 50 else count / 4
        known = [t for t in dict.fromkeys(terms) if 0 < frequency.get(t, 0) <= most]
        rare: list[str] = []
        postings = 0
        for term in sorted(known, key=frequency.__getitem__)[:TERMS]:
            postings += frequency[term]
            if postings <= POSTINGS or not rare:
                rare.append(term)
        if not rare:
            return {}
        match, weights = text.match_expression(rare), (1.5, 1.0, 1.0)
        return relevance.word_scores(
            self.cache.lexical(match, weights, BY_WORDS, self.only, self.args)
        )

    def items(
        self, here: Here, newest: str, repeated: set[str], look: Look | None = None
    ) -> list[tuple[float, Item]]:
        """(score, item) of the best candidates; those told before (`repeated`) first."""
        fresh = record.freshness(self.at.values(), newest, relevance.HALF)
        parts = [part.get for part in (self.paths, self.hand, self.branch, self.recent)]
        scores = {}
        for row, at in self.at.items():
            paths, hand, branch, recent = [get(row, 0.0) for get in parts]
            scores[row] = relevance.score(paths, hand, branch, recent, fresh[at[:10]])
        rough = sorted(sorted(scores), key=self.at.__getitem__, reverse=True)
        rough.sort(key=lambda row: -scores[row])
        speaker = {row: self.author[row] if at else None for row, at in self.at.items()}
        best = context_select.shared(rough, speaker.__getitem__, LOADED)
        best += sorted(self.always.difference(best), key=rough.index)
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
            self.unaged |= any(s.reason == path_state_store.WAITING for s in item.aged)
            item.why = self._why(item.row)
            item.when = self.at[item.row]
            worst = path_state_store.worst(item.aged)
            prior = relevance.prior(
                item.state, item.confidence, learnt.get(item.row), worst, item.reason
            )
            out.append((scores[item.row] * prior + AGAIN * (item.id in repeated), item))
        return out

    def _why(self, row: int) -> list[str]:
        reasons = {
            "files of this branch or session": self.hand,
            "files of recent commits": self.paths,
            "words of this branch": self.branch,
            "words of recent commits": self.recent,
        }
        return [why for why, rows in reasons.items() if rows.get(row, 0.0) > 0] or ["recent"]


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
