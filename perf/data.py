"""Memories and questions for the benchmarks, from real texts, the same for the same seed.

The texts are those of `eval/dev` (not part of this repository: GIT_MEM_EVAL_ROOT
or ../shared/eval). There are about 26,000; more are made by joining the
sentences of two of them, so that every text is new and its words are real.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
from collections.abc import Iterator, Sequence

ROOT = (
    pathlib.Path(
        os.environ.get(
            "GIT_MEM_EVAL_ROOT",
            pathlib.Path(__file__).resolve().parent.parent.parent / "shared" / "eval",
        )
    )
    / "dev"
)
SETS = ("commits", "topics", "decisions", "cosqa", "locomo")
TYPES = ("decision", "bugfix", "gotcha", "discovery", "learning", "convention")


def _rows(path: pathlib.Path) -> Iterator[dict[str, str]]:
    with open(path, encoding="utf-8") as f:
        yield from map(json.loads, f)


def memories(n: int, seed: int = 1, commits: Sequence[str] = ()) -> Iterator[dict[str, object]]:
    """n drafts for `remember --jsonl`, each about one of the commits; every third names a path."""
    rng = random.Random(seed)
    texts = [
        (d.get("title") or "", d["text"] or d["title"])
        for name in SETS
        for d in _rows(ROOT / name / "corpus.jsonl")
    ]
    rng.shuffle(texts)
    for i in range(n):
        title, body = texts[i % len(texts)]
        if i >= len(texts):
            other = rng.choice(texts)[1]
            ours, theirs = (re.split(r"(?<=[.!?])\s+|\n+", t) for t in (body, other))
            body = (
                "\n".join(
                    rng.sample(ours, (len(ours) + 1) // 2)
                    + rng.sample(theirs, (len(theirs) + 1) // 2)
                )
                + f"\n({i})"
            )
            title = ""
        draft: dict[str, object] = {
            "body": body[:8000],
            "title": title[:200],
            "type": rng.choice(TYPES),
            "source": f"perf:{seed}:{i}",
        }
        if commits:
            draft["commit"] = rng.choice(commits)
        if i % 3 == 0:
            draft["paths"] = [f"f{i % 7}.txt"]
        yield draft


def everyday(n: int) -> list[str]:
    """n prompts of other projects ("go on", "fix the failing test"), which no memory answers."""
    return [row["text"] for row in _rows(ROOT / "everyday.jsonl")][:n]


def questions(n: int, seed: int = 1) -> list[str]:
    """n different real questions."""
    texts = [q["text"] for name in SETS for q in _rows(ROOT / name / "queries.jsonl")]
    random.Random(seed).shuffle(texts)
    return list(dict.fromkeys(texts))[:n]
