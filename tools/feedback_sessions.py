"""Sessions: what they are told, what they use of it, and what this teaches.

For `eval_feedback.py`, which says how questions are drawn.
"""

from __future__ import annotations

import random
from collections import defaultdict

from feedback_worlds import Hits, World

from gitmem.agents import inject
from gitmem.core import confidence, rank, short

SESSIONS, PROMPTS = 20, 8  # 115 real sessions (capture_turns) have 8.5 prompts of a user on average


class Learnt:
    """What sessions have taught, from their feedback records."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
        self.counted: dict[int, confidence.Evidence] = {}
        self.told: dict[int, dict[str, bool]] = {}
        self.helped: set[int] = set()  # memories that were used where they were relevant

    def take(self, number: int, shown: set[int], cited: set[int], touched: dict[int, int]) -> None:
        ids = {row: f"{row:012x}" + 20 * "0" for row in shown}
        record = {
            "op": "feedback",
            "id": "",
            "session": f"{number:032x}",
            "shown": {"prompt": [ids[row] for row in sorted(shown)]},
            "cited": {ids[row]: 1 for row in cited},
            "touched": {ids[row]: n for row, n in touched.items()},
        }
        for id, name, how, n in confidence.rows(record):
            self.rows[id][name, how] = n
        for row in shown:
            found = self.rows[short.of(ids[row])]
            self.counted[row] = confidence.count([(s, h, n) for (s, h), n in found.items()])
            used = {s for s, h in found if h in (confidence.CITED, confidence.TOUCHED)}
            self.told[row] = {s: s in used for s, h in found if h in confidence.MEANT}

    def factors(self, hits: Hits) -> dict[int, float]:
        near = dict(hits[0])
        vain = confidence.in_vain(near, {row: self.told[row] for row in near if row in self.told})
        return {
            row: confidence.lift(self.counted[row].used, vain[row], self.counted[row].against)
            for row in near
            if row in self.counted
        }


def ranked(hits: Hits, learnt: Learnt | None) -> list[rank.Hit]:
    """The hits as `rank.apply_priors` orders them."""
    made = []
    for row, fused in hits[0]:
        hit = rank.Hit(row, None, None)
        hit.fused = fused
        made.append(hit)
    return rank.apply_priors(made, learnt.factors(hits) if learnt else {})


def told(hits: Hits, learnt: Learnt | None, shown: set[int]) -> list[int]:
    """What the prompt hook says."""
    if not hits[1] or not hits[0]:
        return []
    return [
        hit.row for hit in inject.worth_telling(ranked(hits, learnt)[:8]) if hit.row not in shown
    ][: inject.FEW]


def plan(
    world: World, rng: random.Random, way: str
) -> tuple[list[list[tuple[str, set[int]]]], list[tuple[str, set[int]]]]:
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
                drawn.append(
                    (said, {row} | next((rows for text, rows in questions if text == said), set()))
                )
        asked, later = drawn[: SESSIONS * PROMPTS], drawn[SESSIONS * PROMPTS :]
    return [asked[i::SESSIONS] for i in range(SESSIONS)], later


def learn(
    world: World,
    sessions: list[list[tuple[str, set[int]]]],
    rng: random.Random,
    uses: float,
    noise: float,
) -> Learnt:
    """What is known after all sessions in which a relevant memory that was shown is named with
    probability `uses`, an irrelevant one with `noise`.
    """
    learnt = Learnt()
    for number, session in enumerate(sessions):
        shown: set[int] = set()
        cited: set[int] = set()
        for question, relevant in session:
            for row in told(world.ask(question), learnt, shown):
                shown.add(row)
                if rng.random() < (uses if row in relevant else noise):
                    cited.add(row)
                    learnt.helped.update({row} & relevant)
        learnt.take(number, shown, cited, {})
    return learnt
