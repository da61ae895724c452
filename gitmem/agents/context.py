"""The block that a session is told: at its start, after compaction, to subagents, by `context`.

Gathers candidates through indexes of the cache (never all memories); `context_select` scores and
chooses them, `context_render` frames them.

Promises. No git process of its own, no file but the cache. The same notes, HEAD and session give
the same block: its time is that of the newest memory, and the clock only says whether the time of a
record can be true (`record.when`). What the policy `mem.trust` does not let be injected is not in
it. Text comes from stored lines that were hashed against their version.
"""

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
from ..engine.sql import select_in
from ..signing import trust
from . import context_item, context_select, head_facts, unfetched
from .context_item import Item
from .context_render import MAX_UNITS, Block

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

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
    wanted = only or Filter()
    policy = trust.Trust(here.settings, here.home).injectable(cache, wanted)
    eligible = reinstated.seen_from(cache, policy, "" if only else here.head)
    total = eligible.count(cache)
    tokens, tier = _budget(here, budget, total, facts)
    candidates = _Candidates(cache, eligible)
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
        items = candidates.items(here, block, set(repeated), aged, look)
        context_select.choose(block, items)
    elif policy is not wanted and wanted.count(cache):
        block.absent = f"no memory here passes mem.trust ({here.settings['trust']})"
    else:
        block.absent = unfetched.message(here) or block.absent
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

    def __init__(self, cache: Cache, eligible: Filter) -> None:
        self.cache = cache
        self.only, self.args = ("", []) if eligible.plain else eligible.sql()
        self.and_only = f" AND row IN ({self.only})" if self.only else ""
        self.latest = filters.latest(cache)
        self.at: dict[int, str] = {}  # the time that counts, "" for none
        self.author: dict[int, str] = {}
        self.paths: dict[int, float] = {}
        self.hand: dict[int, float] = {}
        self.branch: dict[int, float] = {}
        self.recent: dict[int, float] = {}
        # Rows whose text is read in any case: blockers, decisions, memories told before.
        self.always: set[int] = set()

    def _rows(self, condition: str, limit: int, *args: object) -> list[int]:
        """Rows of active memories, the newest first; adds them to `at` and `author`."""
        active = "SELECT row, at, author FROM memory WHERE status = 0"
        active += f"{condition}{self.and_only} AND at"
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
            newest = (
                f"SELECT row, at, author FROM memory WHERE status = 0{self.and_only}"
                f" AND at <= '{self.latest}' ORDER BY at DESC, id LIMIT {SEARCHED}"
            )
            sql = f"SELECT * FROM ({newest}) WHERE author <> ? LIMIT ?"
            self._add(execute(sql, (*self.args, most, NEWEST // 2)))

    def _add(self, rows: Iterable[tuple[Any, ...]]) -> None:
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
        hand = dict.fromkeys(facts.own, context_select.OWN)
        hand.update(dict.fromkeys(touched, context_select.TOUCHED))
        self.paths = self._by_paths(facts.paths)
        self.hand = self._by_paths(hand)
        self.branch = self._by_words([*branch, *_first(facts.branch)])
        self.recent = self._by_words(_first(facts.recent))
        missing = sorted({*self.paths, *self.hand, *self.branch, *self.recent} - set(self.at))
        sql = "SELECT row, at, author FROM memory WHERE status = 0 AND row IN {}"
        self._add(select_in(self.cache.db, sql, missing))

    def _by_paths(self, weights: dict[str, float]) -> dict[int, float]:
        holders: dict[str, list[int]] = {}
        held = 0
        sql = f"SELECT row FROM label WHERE kind = 'path' AND value = ?{self.and_only} LIMIT ?"
        for path in _first(weights)[:PATHS]:
            rows = self.cache.db.execute(sql, (path, *self.args, COMMON + 1)).fetchall()
            if 0 < len(rows) <= COMMON:
                holders[path] = [row for (row,) in rows]
                held += len(rows)
                if held > HELD:
                    break
        return _best(context_select.path_scores(weights, holders, self.cache.count()), BY_PATHS)

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
        found = self.cache.lexical(match, weights, BY_WORDS, self.only, self.args)
        return context_select.word_scores(found)

    def items(
        self, here: Here, block: Block, repeated: set[str], aged: Ages, look: Look | None
    ) -> list[tuple[float, Item]]:
        """(score, item) of the best candidates; the block learns what nobody knows of them."""
        fresh = record.freshness(self.at.values(), block.timestamp, context_select.HALF)
        reasons = {
            "files of this branch or session": self.hand,
            "files of recent commits": self.paths,
            "words of this branch": self.branch,
            "words of recent commits": self.recent,
        }
        scores = {}
        for row, at in self.at.items():
            hand, paths, branch, recent = [rows.get(row, 0.0) for rows in reasons.values()]
            scores[row] = context_select.score(paths, hand, branch, recent, fresh[at[:10]])
        rough = sorted(sorted(scores), key=self.at.__getitem__, reverse=True)
        rough.sort(key=lambda row: -scores[row])
        speaker = {row: self.author[row] if at else None for row, at in self.at.items()}
        best = context_select.shared(rough, speaker.__getitem__, LOADED)
        best += sorted(self.always.difference(best), key=rough.index)
        best = memory_rows.firsts(self.cache, best)
        loaded = memory_rows.load(self.cache, best)
        commits = [memory_rows.commit_of(data) for data, _, _ in loaded]
        stands = anchor_state_store.read(self.cache, commits, here.head)
        block.waiting = anchor_state_store.waiting(stands)
        if look and block.waiting:
            unknown = [a for a, s in stands.items() if s.reason == anchor_state_store.WAITING]
            stands.update(look(unknown))
        learnt = usage_store.values(self.cache, best)
        states = aged(self.cache, best, here.head)
        out = []
        for item in context_item.of(self.cache, best, loaded, stands, states):
            block.unaged |= any(s.reason == path_state_store.WAITING for s in item.aged)
            why = [reason for reason, rows in reasons.items() if rows.get(item.row, 0.0) > 0]
            item.why = why or ["recent"]
            item.when = self.at[item.row]
            worst = path_state_store.worst(item.aged)
            prior = context_select.prior(
                item.state, item.confidence, learnt.get(item.row), worst, item.reason
            )
            out.append((scores[item.row] * prior + AGAIN * (item.id in repeated), item))
        return out


def _best(scores: dict[int, float], most: int) -> dict[int, float]:
    """The highest scores, and all that equal the last: which row came first decides nothing."""
    if len(scores) <= most:
        return scores
    least = sorted(scores.values(), reverse=True)[most - 1]
    return {row: score for row, score in scores.items() if score >= least}


def _first(weights: Mapping[str, float]) -> list[str]:
    return sorted(weights, key=lambda t: (-weights[t], t))
