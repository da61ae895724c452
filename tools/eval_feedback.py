#!/usr/bin/env python3
"""What feedback does to ranking, in simulated sessions whose usage is known.

A world is one LoCoMo conversation or one repository of the sets `commits`,
`topics` and `decisions`. Half of its questions are kept for later. Twenty
sessions ask others: each prompt is answered as the prompt hook does (only a
HIT; at most five memories of at least 0.6 of the best; none twice a session).
The user of a session names a relevant memory that was shown with probability P,
an irrelevant one with Q; the feedback records of these sessions go through
`credit.rows` and `credit.count`, as the cache does it. Then the kept questions
are ranked without and with what was learned.

No question is ever asked twice. Three ways to go on:

- `own`: LoCoMo, whose questions are people's own. Half of them, drawn at random,
  come in the sessions, the others later: what they share is what the data has.
- `kept`: the other sets have one question a memory. About half of these
  memories come up in a session, by a sentence of theirs, and as many others do;
  later come the questions of the authors, all of them.
- `work`: what people ask about follows Zipf's law, before and after: few memories come
  up again and again, most never. Each time by another question: the author's
  own, or two content words of the memory and one of another, drawn at random:
  about as hard as the authors' own (MRR@10 of 0.46 and 0.45 on `fit`; with four
  words of the memory it is 0.86). Twenty sessions of eight prompts, then as many
  prompts later.

Reported beside MRR@10: questions whose memories nobody used before (they pay
for what the others gain), how many irrelevant memories a prompt is told, and
how many are told for questions of other worlds (nothing there answers them).

    python tools/eval_feedback.py [--eval ../shared/eval] [--part fit|test] [--fit] [--seeds 5]

Worlds are divided by a hash of their name: constants are chosen on `fit` alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import sys
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from eval_retrieval import Store  # noqa: E402

from gitmem.agents import inject  # noqa: E402
from gitmem.core import credit, rank, text  # noqa: E402
from gitmem.engine import embed  # noqa: E402

SESSIONS, PROMPTS, P, Q = 20, 8, 0.8, 0.03  # 115 real sessions (capture_turns) have 8.5 prompts of a user on average
WAYS = ("own", "kept", "work")
LEAST = 12  # kept questions from which a repository is a world
SEEN = 24  # hits that priors may reorder: 8 asked for, three times as many looked at
Hits = tuple[list[tuple[int, float]], bool]  # (row, fused score), and whether it is a HIT


class World:
    def __init__(self, name: str, table: embed.StaticTable, docs: list[dict[str, Any]], questions: list[tuple[str, set[int]]], natural: bool) -> None:
        self.name, self.docs, self.questions, self.natural = name, docs, questions, natural
        self.store = Store(table, docs)
        self.store.double = True
        self.known: dict[str, Hits] = {}

    def ask(self, question: str) -> Hits:
        if question not in self.known:
            found = self.store.search(question)
            self.known[question] = [(h.row, h.fused) for h in found["hits"][:SEEN]], found["verdict"][0] == "HIT"
        return self.known[question]

    def words(self, row: int, rng: random.Random) -> str:
        """A question of two content words of a memory and one of another; "" where it has hardly any."""
        own, other = self._content(row), self._content(rng.randrange(len(self.docs)))
        if len(own) < 8 or not other:
            return ""
        chosen = [*rng.sample(own, 2), rng.choice(other)]
        rng.shuffle(chosen)
        return " ".join(chosen)

    def _content(self, row: int) -> list[str]:
        return sorted({w for w in re.findall(r"[A-Za-z][A-Za-z_-]{3,}", self.docs[row]["text"]) if text.query_terms(w)})

    def sentence(self, row: int, rng: random.Random, not_this: str) -> str:
        """A question made of a sentence of a memory; "" where it has none long enough."""
        found = [s for s in re.split(r"(?<=[.!?])\s+|\n\n", self.docs[row]["text"]) if 6 <= len(s.split()) <= 40 and s.strip() not in not_this]
        return rng.choice(found) if found else ""


def ranked(hits: Hits, values: dict[int, float]) -> list[rank.Hit]:
    """The hits as `rank.apply_priors` orders them."""
    made = []
    for row, fused in hits[0]:
        hit = rank.Hit(row, None, None)
        hit.fused = fused
        made.append(hit)
    return rank.apply_priors(made, {row: credit.factor(v) for row, v in values.items()})


def told(hits: Hits, values: dict[int, float], shown: set[int]) -> list[int]:
    """What the prompt hook says."""
    if not hits[1] or not hits[0]:
        return []
    return [hit.row for hit in inject.worth_telling(ranked(hits, values)[:8]) if hit.row not in shown][: inject.FEW]


def plan(world: World, rng: random.Random, way: str) -> tuple[list[list[tuple[str, set[int]]]], list[tuple[str, set[int]]]]:
    """(questions of each session, questions for later)."""
    questions = world.questions[:]
    rng.shuffle(questions)
    if way == "own":
        half = len(questions) // 2
        asked, later = questions[:half], questions[half:]
    elif way == "kept":
        later, asked = questions, []
        wanted = {row for _, rows in later for row in rows}
        others = [row for row in range(len(world.docs)) if row not in wanted]
        for text, rows in later[: len(later) // 2]:
            for row in [rng.choice(sorted(rows)), rng.choice(others)]:
                for _ in range(rng.choice((1, 2, 3))):  # work comes back to what it was about
                    said = world.sentence(row, rng, text)
                    if said and not any(said == other for other, _ in asked):
                        asked.append((said, {row}))
        rng.shuffle(asked)
    else:
        order = list(range(len(world.docs)))
        rng.shuffle(order)
        weights = [1 / (place + 1) for place in range(len(order))]
        left = {row: [text for text, rows in questions if row in rows] for row in order}
        drawn: list[tuple[str, set[int]]] = []
        said_before: set[str] = set()
        while len(drawn) < 2 * SESSIONS * PROMPTS:
            row = rng.choices(order, weights)[0]
            said = left[row].pop() if left[row] and rng.random() < 0.5 else world.words(row, rng)
            if said and said not in said_before:
                said_before.add(said)
                drawn.append((said, {row} | next((rows for text, rows in questions if text == said), set())))
        asked, later = drawn[: SESSIONS * PROMPTS], drawn[SESSIONS * PROMPTS :]
    return [asked[i::SESSIONS] for i in range(SESSIONS)], later


def learn(world: World, sessions: list[list[tuple[str, set[int]]]], rng: random.Random) -> tuple[dict[int, float], set[int]]:
    """({row: value}, rows that a relevant use was counted for) after all sessions, through feedback records."""
    rows: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
    values: dict[int, float] = {}
    used: set[int] = set()
    for number, session in enumerate(sessions):
        shown: set[int] = set()
        cited: dict[str, int] = {}
        for question, relevant in session:
            for row in told(world.ask(question), values, shown):
                shown.add(row)
                if rng.random() < (P if row in relevant else Q):
                    cited[f"{row:032x}"] = 1
                    used.update({row} & relevant)
        record = {"op": "feedback", "id": "", "session": f"{number:032x}", "shown": {"prompt": [f"{row:032x}" for row in sorted(shown)]}, "cited": cited}
        for id, name, how, n in credit.rows(record):
            rows[id][name, how] = n
        values = {int(id, 16): credit.value(credit.count([(s, h, n) for (s, h), n in found.items()])) for id, found in rows.items()}
    return values, used


def reciprocal(order: list[rank.Hit], relevant: set[int]) -> float:
    return next((1 / (i + 1) for i, hit in enumerate(order[:10]) if hit.row in relevant), 0.0)


def measure(worlds: list[World], seeds: int, ways: tuple[str, ...] = WAYS) -> dict[str, dict[str, float]]:
    """{kind of world and part of the questions: means before and after}."""
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for place, world in enumerate(worlds):
        for way, seed in itertools.product(ways, range(seeds)):
            if (way == "own") != world.natural:
                continue
            rng = random.Random(f"{world.name} {way} {seed}")
            sessions, later = plan(world, rng, way)
            values, used = learn(world, sessions, rng)
            strangers = [question for question, _ in worlds[(place + 1) % len(worlds)].questions[:40]] if len(worlds) > 1 else []
            for question, relevant in later:
                hits = world.ask(question)
                before, after = told(hits, {}, set()), told(hits, values, set())
                row = {"n": 1, "before": reciprocal(ranked(hits, {}), relevant), "after": reciprocal(ranked(hits, values), relevant),
                       "wrong before": len(set(before) - relevant), "wrong after": len(set(after) - relevant),
                       "right before": len(set(before) & relevant), "right after": len(set(after) & relevant)}
                for name in (way, f"{way}: {world.name}", f"{way}, memory used before" if relevant & used else f"{way}, not used before"):
                    for key, n in row.items():
                        sums[name][key] += n
            for question in strangers:
                hits = world.ask(question)
                sums[f"{way}, questions of other worlds"]["n"] += 1
                sums[f"{way}, questions of other worlds"]["wrong before"] += len(told(hits, {}, set()))
                sums[f"{way}, questions of other worlds"]["wrong after"] += len(told(hits, values, set()))
    return {name: {key: value / found["n"] if key != "n" else value for key, value in found.items()} for name, found in sums.items()}


def load(root: Path, table: embed.StaticTable) -> list[World]:
    out = []
    for name in ("locomo", "commits", "topics", "decisions"):
        base = root / "dev" / name
        docs = [json.loads(line) for line in (base / "corpus.jsonl").open(encoding="utf-8")]
        texts = {q["_id"]: q["text"] for q in map(json.loads, (base / "queries.jsonl").open(encoding="utf-8"))}
        relevant: dict[str, set[str]] = defaultdict(set)
        for line in (base / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
            query, doc, score = line.split("\t")
            if int(score) > 0:
                relevant[query].add(doc)
        groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for doc in docs:
            groups[doc["metadata"].get("group") or doc["metadata"].get("repo") or ""].append(doc)
        for group, members in sorted(groups.items()):
            place = {doc["_id"]: i for i, doc in enumerate(members)}
            asked = [(texts[q], {place[d] for d in found}) for q, found in sorted(relevant.items()) if found <= set(place)]
            if len(asked) >= LEAST:
                out.append(World(f"{name}:{group}", table, members, asked, name == "locomo"))
    return out


def part_of(world: World) -> str:
    return "fit" if zlib.crc32(world.name.encode()) % 2 else "test"


def show(found: dict[str, dict[str, float]]) -> None:
    for name, m in sorted(found.items()):
        if "before" in m:
            print(f"{name:34} n {m['n']:6.0f}  MRR@10 {m['before']:.4f} -> {m['after']:.4f} ({_gain(m):+.1f} %)  told right {m['right before']:.3f} -> {m['right after']:.3f}"
                  f"  wrong {m['wrong before']:.3f} -> {m['wrong after']:.3f}")
        else:
            print(f"{name:34} n {m['n']:6.0f}  told {m['wrong before']:.3f} -> {m['wrong after']:.3f}")


def fit(worlds: list[World], seeds: int) -> None:
    """Every combination on the grid: what each way gains, and what questions of memories pay that nobody used before."""
    for weight, neglect, gain in itertools.product((0.2, 0.5, 1.0, 2.0), (0.05, 0.5), (0.3, 0.4, 0.5)):
        credit.WEIGHT, credit.GAIN = weight, gain
        credit.NEGLECT["prompt"] = neglect
        m = measure(worlds, seeds)
        told = [f"{way} {_gain(m[way]):+.1f} % (new {_gain(m[f'{way}, not used before']):+.1f} %, wrong {m[way]['wrong after'] - m[way]['wrong before']:+.3f})" for way in WAYS]
        print(f"WEIGHT {weight} NEGLECT {neglect} GAIN {gain}: {'; '.join(told)}", flush=True)


def _gain(m: dict[str, float]) -> float:
    return 100 * (m["after"] / m["before"] - 1) if m["before"] else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eval", type=Path, default=ROOT.parent / "shared" / "eval")
    parser.add_argument("--part", choices=("fit", "test"), default="test")
    parser.add_argument("--fit", action="store_true", help="seek constants on the worlds of `fit`")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    if not (args.eval / "dev").is_dir():
        print(f"no evaluation sets at {args.eval}")
        return 0
    worlds = [w for w in load(args.eval, embed.StaticTable()) if part_of(w) == ("fit" if args.fit else args.part)]
    print(f"{len(worlds)} worlds: {', '.join(w.name for w in worlds)}")
    if args.fit:
        fit(worlds, args.seeds)
    else:
        show(measure(worlds, args.seeds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
