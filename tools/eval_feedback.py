#!/usr/bin/env python3
"""What feedback does to ranking, in simulated sessions whose usage is known.

A world is one LoCoMo conversation, one repository of the sets `commits`,
`topics` and `decisions`, or the commit messages of a clone. Twenty sessions ask
its questions: each prompt is answered as the prompt hook does (only a HIT; at
most five memories of at least 0.5 of the best; none twice a session). What was
used becomes feedback records, and these go through `confidence.rows`,
`confidence.count`, `confidence.in_vain` and `confidence.lift`, as the cache does it. Then
later questions are ranked without and with what was learned.

No question is ever asked twice. Four ways to go on. In the first three the user
of a session names a relevant memory that was shown with probability P, an
irrelevant one with Q:

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
- `history`: nothing is drawn. A session is a day on which one author made three
  commits or more, its prompts are their subjects, the memories are what `git mem
  import git-log` would take from the commits before (at most 2,000 older than the
  first session, and those that came since). What was shown and names a file that
  the session's commits then changed was used, as the product counts it. Twenty
  such days in a row, then the next twenty ask; relevant is what is about a
  file that the commit changed. Commits of more than ten files are about none, as in
  the import, and a file that was renamed as it was is the same file. For the two
  authors of a clone with most such days: the newest forty, and forty in the middle.

Reported beside MRR@10: questions whose memories nobody used before (they pay
for what the others gain), how many irrelevant memories a prompt is told, and
how many are told for questions of other worlds, or where nothing is relevant.
In brackets: 95 of 100 resamples of the worlds.

`--recency` leaves feedback out: a hit loses up to a part of its score with age, by days before the
newest memory; reported is the change of MRR@10. All forty days of a span ask; sets take part whole.

    python tools/eval_feedback.py [--eval ../shared/eval] [--part fit|test|none] [--fit] [--recency]
                                  [--seeds 5] [NAME=CLONE ...]

Worlds of --eval are divided by a hash of their name; constants are chosen on
`fit`, and on the clones CHOSEN, alone.

**The one confirmation.** Written down before any of them was fetched: JUDGED are
repositories of which nothing was used in this project. Constants, ways and this
file stay as they are in the commit that adds these lines; each is fetched at its
newest state, those that cannot be had are named; one run, `--part none`,
5 seeds, with `kept`, `work` (the messages of the newest 4,000 commits that have a body,
200 subjects as questions: `feedback_worlds.subjects`) and `history`. What counts is
`work`, all repositories together: 10 % or more is reached, less is not, and
irrelevant memories told a prompt must not rise. The other ways are reported
beside it, whatever they show. Nothing is chosen after that run.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from feedback_history import Lived, lived, relive  # noqa: E402
from feedback_sessions import SESSIONS, Learnt, learn, plan, ranked, told  # noqa: E402
from feedback_worlds import Hits, World, load, part_of, told_by_clones  # noqa: E402

from gitmem.core import confidence, rank  # noqa: E402
from gitmem.engine import embed  # noqa: E402

CHOSEN = ("jj-vcs/jj", "pypa/pip", "restic/restic", "astral-sh/uv")
JUDGED = (
    "libgit2/libgit2",
    "mpv-player/mpv",
    "swaywm/sway",
    "mesonbuild/meson",
    "fish-shell/fish-shell",
    "borgbackup/borg",
    "jgm/pandoc",
    "tmux/tmux",
    "redis/redis",
    "NixOS/nix",
    "tigerbeetle/tigerbeetle",
    "rust-lang/cargo",
)
P, Q = 0.8, 0.03
WAYS = ("own", "kept", "work", "history")
RESAMPLES = 2_000
HALF_LIVES, MOST = (0.25, 1.0, 2.0), (0.05, 0.1, 0.2)  # of --recency
Sums = dict[str, dict[str, dict[str, float]]]  # {way and part of the questions: {world: sums}}


def reciprocal(order: list[rank.Hit], relevant: set[int]) -> float:
    return next((1 / (i + 1) for i, hit in enumerate(order[:10]) if hit.row in relevant), 0.0)


def judge(
    sums: Sums,
    way: str,
    world: str,
    learnt: Learnt,
    later: list[tuple[Hits, set[int]]],
    strangers: list[Hits],
) -> None:
    for hits, relevant in later:
        before, after = told(hits, None, set()), told(hits, learnt, set())
        if not relevant:
            strangers = [*strangers, hits]
            continue
        row = {
            "n": 1,
            "before": reciprocal(ranked(hits, None), relevant),
            "after": reciprocal(ranked(hits, learnt), relevant),
            "wrong before": len(set(before) - relevant),
            "wrong after": len(set(after) - relevant),
            "right before": len(set(before) & relevant),
            "right after": len(set(after) & relevant),
        }
        for name in (
            way,
            f"{way}, used before" if relevant & learnt.helped else f"{way}, not used before",
        ):
            for key, n in row.items():
                sums[name][world][key] += n
    for hits in strangers:
        found = sums[f"{way}, nothing answers"][world]
        found["n"] += 1
        found["wrong before"] += len(told(hits, None, set()))
        found["wrong after"] += len(told(hits, learnt, set()))


def sums_of() -> Sums:
    return defaultdict(lambda: defaultdict(lambda: defaultdict(float)))


def measure(worlds: list[World], seeds: int, sums: Sums, uses: float, noise: float) -> None:
    for place, world in enumerate(worlds):
        for way, seed in itertools.product(
            ("own",) if world.natural else ("kept", "work"), range(seeds)
        ):
            rng = random.Random(f"{world.name} {way} {seed}")
            sessions, later = plan(world, rng, way)
            learnt = learn(world, sessions, rng, uses, noise)
            strangers = (
                [
                    world.ask(question)
                    for question, _ in worlds[(place + 1) % len(worlds)].questions[:40]
                ]
                if len(worlds) > 1
                else []
            )
            judge(
                sums,
                way,
                world.name,
                learnt,
                [(world.ask(question), relevant) for question, relevant in later],
                strangers,
            )


def measure_lived(spans: Lived, sums: Sums) -> None:
    for name, sessions, files in spans:
        learnt = relive(sessions[:SESSIONS], files)
        later = [prompt[:2] for session in sessions[SESSIONS:] for prompt in session]
        judge(sums, "history", name, learnt, later, [])


Aged = tuple[Hits, set[int], dict[int, float]]  # a question with the age in days of each hit


class Recent(Learnt):
    """A score loses at most the part `most` with age, half of that in `years`."""

    def __init__(self, ages: dict[int, float], years: float, most: float) -> None:
        super().__init__()
        self.ages, self.years, self.most = ages, years, most

    def factors(self, hits: Hits) -> dict[int, float]:
        old = {row: 1 - 2 ** (-self.ages[row] / 365.25 / self.years) for row, _ in hits[0]}
        return {row: 1 - self.most * part for row, part in old.items()}


def recency(groups: dict[str, list[list[Aged]]]) -> None:
    """MRR@10 without and with recency; 95 of 100 resamples of a group's parts."""
    for (name, parts), years, most in itertools.product(sorted(groups.items()), HALF_LIVES, MOST):
        sums = sums_of()
        for at, part in enumerate(parts):
            for hits, relevant, ages in part:
                judge(sums, "", str(at), Recent(ages, years, most), [(hits, relevant)], [])
        m = total(sums[""], list(sums[""]))
        right = (m["right after"] - m["right before"]) / m["n"]
        print(
            f"{name}, {m['n']:.0f} questions, MRR@10 {m['before'] / m['n']:.4f}; half-life "
            f"{years:5.2f} years, at most {most:4.0%}: {more(m):+.4f} {between(sums[''], more)}; "
            f"told right {right:+.3f}, wrong {wrong(m):+.3f}",
            flush=True,
        )


def total(found: dict[str, dict[str, float]], names: list[str]) -> dict[str, float]:
    out: dict[str, float] = defaultdict(float)
    for name in names:
        for key, value in found[name].items():
            out[key] += value
    return out


def gain(m: dict[str, float]) -> float:
    return 100 * (m["after"] / m["before"] - 1) if m["before"] else 0.0


def more(m: dict[str, float]) -> float:
    return (m["after"] - m["before"]) / m["n"] if m["n"] else 0.0


def wrong(m: dict[str, float]) -> float:
    return (m["wrong after"] - m["wrong before"]) / m["n"]


def between(found: dict[str, dict[str, float]], what: Any) -> str:
    """Where 95 of 100 resamples of the worlds lie."""
    rng = random.Random(6)
    names = sorted(found)
    drawn = sorted(what(total(found, rng.choices(names, k=len(names)))) for _ in range(RESAMPLES))
    return f"({drawn[RESAMPLES // 40]:+.3g} to {drawn[-RESAMPLES // 40]:+.3g})"


def show(sums: Sums) -> None:
    for name, found in sorted(sums.items()):
        m = total(found, list(found))
        n = m["n"]
        rises = (
            f"wrong {m['wrong before'] / n:.3f} -> {m['wrong after'] / n:.3f}"
            f" {between(found, wrong)}"
        )
        if "before" not in m:
            print(f"{name:26} n {n:6.0f}  {rises}")
            continue
        print(
            f"{name:26} n {n:6.0f}  MRR@10 {m['before'] / n:.4f} -> {m['after'] / n:.4f} "
            f" {gain(m):+.1f} % {between(found, gain)}  told right {m['right before'] / n:.3f} ->"
            f" {m['right after'] / n:.3f}  {rises}"
        )
    for way in WAYS:
        for name, m in sorted(sums[way].items()):
            print(
                f"  {way:8} {name:36} n {m['n']:5.0f}  {m['before'] / m['n']:.3f} ->"
                f" {m['after'] / m['n']:.3f}  {gain(m):+.1f} %  wrong {wrong(m):+.3f}"
            )


def fit(worlds: list[World], spans: Lived, seeds: int, uses: float, noise: float) -> None:
    """Every combination on the grid: what each way gains, and what questions of memories pay that
    nobody used before.
    """
    for rise, fall, most in itertools.product(
        (0.25, 0.3, 0.33, 0.36, 0.4), (0.0, 0.15, 0.25, 0.35), (1.5, 2.0)
    ):
        confidence.RISE, confidence.FALL, confidence.MOST = rise, fall, most
        sums = sums_of()
        measure(worlds, seeds, sums, uses, noise)
        measure_lived(spans, sums)
        said = []
        for way in WAYS:
            if way in sums:
                m, new = (
                    total(sums[name], list(sums[name])) for name in (way, f"{way}, not used before")
                )
                said.append(
                    f"{way} {gain(m):+.1f} % (new {gain(new):+.1f} %, wrong {wrong(m):+.3f})"
                )
        print(f"RISE {rise} FALL {fall} MOST {most}: {'; '.join(said)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--eval", type=Path, default=ROOT.parent / "shared" / "eval")
    parser.add_argument("--part", choices=("fit", "test", "none"), default="test")
    parser.add_argument(
        "--fit",
        action="store_true",
        help="seek constants on the worlds of `fit` and the histories of the clones",
    )
    parser.add_argument("--recency", action="store_true", help="what age does to ranking")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--uses",
        type=float,
        default=P,
        help="how probably a relevant memory that was shown is named",
    )
    parser.add_argument("--noise", type=float, default=Q, help="how probably an irrelevant one is")
    parser.add_argument("clones", nargs="*", metavar="NAME=CLONE")
    args = parser.parse_args()
    table = embed.StaticTable()
    clones = dict(given.split("=", 1) for given in args.clones)
    worlds: list[World] = []
    if args.part != "none" and not (args.eval / "dev").is_dir():
        print(f"no evaluation sets at {args.eval}")
    elif args.part != "none":
        worlds = [
            w
            for w in load(args.eval, table)
            if args.recency or part_of(w) == ("fit" if args.fit else args.part)
        ]
    spans = lived(clones, table)
    if args.recency:
        groups: dict[str, list[list[Aged]]] = defaultdict(list)
        for name, sessions, _ in spans:
            days = [[(hits, relevant, ages) for hits, relevant, _, ages in day] for day in sessions]
            groups[name] += days
            groups["all clones"] += days
        for world in worlds if args.part != "none" else []:
            ages = world.ages()
            asked = [(world.ask(text), relevant, ages) for text, relevant in world.questions]
            groups[world.name.partition(":")[0]].append(asked)
        recency(groups)
        return 0
    if args.fit:
        fit(worlds, spans, args.seeds, args.uses, args.noise)
        return 0
    if args.part == "none":
        worlds = told_by_clones(clones, table)
    print(
        f"{len(worlds)} worlds:"
        f" {', '.join(f'{w.name} ({len(w.docs)}, {len(w.questions)})' for w in worlds)};"
        f" {len(spans)} spans of history"
    )
    sums = sums_of()
    measure(worlds, args.seeds, sums, args.uses, args.noise)
    measure_lived(spans, sums)
    show(sums)
    return 0


if __name__ == "__main__":
    sys.exit(main())
