#!/usr/bin/env python3
"""What capture makes of commits: how many of each stage, how sure, whether the types are their
authors', and what of real histories is offered.

Needs nothing but the package, and what training needs with `--turns`. Texts of others are read from
the evaluation's directory and from clones, and never printed but into the file that `--sample`
names, for a person to read and to label ("label": 1 worth keeping, 0 not); `--labels` counts such a
file.

    python tools/eval_commits.py --eval ../shared/eval [--turns turns.jsonl] [--repos CLONE ...]
    [--each 200] [--sample FILE] [--labels FILE ...]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from gitmem.capture import classify, commitlog, linear, pipeline, signals, strip  # noqa: E402
from gitmem.capture.candidates import Candidate  # noqa: E402
from gitmem.capture.sources import COMMIT  # noqa: E402
from gitmem.core import commit_message  # noqa: E402
from gitmem.git import commit_reader, repository  # noqa: E402

AUTO, SUGGEST = 0.9, 0.5
BANDS = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.01)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def judged(candidates: Iterable[Candidate]) -> list[classify.Judgement]:
    """As the keeper judges them, without a language model."""
    return [pipeline._judge(c, None, None, AUTO, SUGGEST) for c in candidates]


def message(row: dict[str, Any]) -> str:
    return f"{row['type']}: {row['subject']}\n\n{row['text']}"


def table(head: str, lines: Iterable[Iterable[object]]) -> None:
    names = head.split("|")
    print(f"\n| {' | '.join(n.strip() for n in names)} |\n|{'---|' * len(names)}")
    for line in lines:
        print(
            "| " + " | ".join(f"{v:.2f}" if isinstance(v, float) else str(v) for v in line) + " |"
        )


def _shares(got: list[classify.Judgement]) -> list[object]:
    tiers, ended = Counter(j.tier for j in got), Counter(j.stage for j in got)
    n = len(got) or 1
    return [
        len(got),
        ended["rules"] / n,
        ended["linear"] / n,
        *[tiers[t] / n for t in (classify.AUTO, classify.SUGGEST, classify.SKIP)],
    ]


def authors(items: list[dict[str, Any]]) -> None:
    """capture_commits: by the prefix that the author gave, with it and, for the type alone, without
    it.
    """
    kinds = sorted({r["type"] for r in items}, key=lambda t: -sum(r["type"] == t for r in items))
    out = []
    for kind in kinds:
        mine = [r for r in items if r["type"] == kind]
        found = [
            c
            for r in mine
            for c in commitlog.candidates(
                [commit_reader.Commit("c" * 40, "", "A <a@example.org>", message(r), [])]
            )
        ]
        got = judged(found)
        right = (
            sum(
                (c.type or j.type) == commit_message.TYPES.get(kind, "")
                for c, j in zip(found, got, strict=True)
            )
            / len(found)
            if found
            else 0.0
        )
        bare = Counter(classify.judge(COMMIT, r["text"]).type for r in mine).most_common(2)
        out.append(
            [
                kind,
                len(mine),
                *_shares(got),
                right,
                ", ".join(f"{t} {n / len(mine):.2f}" for t, n in bare),
            ]
        )
    table(
        "prefix | commits | candidates | ended by rules | by the linear model | AUTO | SUGGEST |"
        " SKIP | type right | types without the prefix",
        out,
    )


def entries(items: list[dict[str, Any]]) -> None:
    """capture_typed: what people filed as a decision, a learning …, as if a user had said it, and
    as a commit's body.
    """
    out = []
    for kind in sorted({r["label"] for r in items}):
        mine = [r for r in items if r["label"] == kind]
        said = [classify.judge("user", r["text"]) for r in mine]
        wrote = judged([Candidate(COMMIT, r["text"]) for r in mine])
        out.append(
            [
                kind,
                *_shares(said),
                sum(j.type == kind for j in said) / len(mine),
                sum(j.keep for j in wrote) / len(mine),
            ]
        )
    table(
        "filed as | entries | ended by rules | by the linear model | AUTO | SUGGEST | SKIP | type"
        " right | offered as a commit",
        out,
    )


def foreign(path: Path) -> linear.Model:
    """The linear model trained on other chats alone, as `build_capture_data.py` writes them."""
    import eval_capture as measure
    import train_capture as train

    data = train.Data(train.turns(path))
    return measure.trained_without(data, train.np.ones(len(data.rows), bool))


def turns(items: list[dict[str, Any]], model: linear.Model) -> None:
    """capture_turns: which stage ends how many, and how many of these are right.

    With the packaged model the rows of the linear model are no measurement: it has seen these
    turns.
    """
    clear = [r for r in items if r["keep"] != "unclear"]
    all_kept = sum(r["keep"] == "keep" for r in clear)
    groups: dict[str, list[tuple[bool, bool]]] = {}
    for r in clear:
        text = strip.cleaned(r["text"])
        signal = signals.read(r["role"], text) if text else None
        judgement = classify.judge(r["role"], r["text"], model=model)
        stage = (
            "strip"
            if not text
            else (
                {
                    "empty": "rules: empty",
                    "explicit": "rules: marker",
                    "stated": "rules: statement",
                }[signal.kind]
                if signal
                else f"linear: {judgement.tier}"
            )
        )
        groups.setdefault(stage, []).append((judgement.keep, r["keep"] == "keep"))
    out = []
    for stage, pairs in sorted(groups.items()):
        right = sum(kept == wanted for kept, wanted in pairs) / len(pairs)
        out.append(
            [
                stage,
                len(pairs),
                right,
                sum(kept and wanted for kept, wanted in pairs) / all_kept,
                sum(wanted and not kept for kept, wanted in pairs) / all_kept,
            ]
        )
    table(
        "stage | turns it ends | right | share of what is worth keeping that it keeps | that it"
        " loses",
        out,
    )


def history(paths: list[str], each: int, sample: str) -> None:
    """Commits of real repositories: how many are candidates, how sure the judgement is, how many
    are offered.
    """
    out, picked = [], []
    for path in paths:
        found = commit_reader.read(repository.open_repo(path).git, ["HEAD"], [], 5_000)
        rnd = random.Random(1)
        commits = rnd.sample(found, min(each, len(found)))
        candidates = commitlog.candidates(commits)
        got = judged(candidates)
        bands = Counter(
            next(b for b in range(len(BANDS) - 1) if j.confidence < BANDS[b + 1]) for j in got
        )
        out.append(
            [
                len(commits),
                len(candidates),
                *[sum(j.tier == t for j in got) for t in (classify.AUTO, classify.SUGGEST)],
                *[bands[b] for b in range(len(BANDS) - 1)],
            ]
        )
        picked += [
            {
                "repo": len(out),
                "confidence": round(j.confidence, 3),
                "raw": round(
                    linear.load().confidence(linear.load().score(COMMIT, c.text), COMMIT), 3
                ),
                "tier": j.tier,
                "stage": j.stage,
                "type": j.type,
                "given": c.type,
                "text": c.text,
            }
            for c, j in zip(candidates, got, strict=True)
        ]
    out.append([sum(line[i] for line in out) for i in range(len(out[0]))])
    table(
        "commits | candidates | AUTO | SUGGEST | "
        + " | ".join(f"from {low}" for low in BANDS[:-1]),
        out,
    )
    if sample:
        random.Random(2).shuffle(picked)
        Path(sample).write_text(
            "".join(json.dumps(p, ensure_ascii=False) + "\n" for p in picked), encoding="utf-8"
        )


def labels(paths: list[str]) -> None:
    """Precision of what is offered, by the floor, in files that somebody labelled."""
    for path in paths:
        read = [r for r in rows(Path(path)) if "label" in r]
        out = []
        for floor in (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9):
            taken = [r["label"] for r in read if r["raw"] >= floor]
            out.append(
                [
                    floor,
                    len(taken),
                    sum(taken) / (len(taken) or 1),
                    sum(taken) / (sum(r["label"] for r in read) or 1),
                ]
            )
        table("floor | offered | worth it | recall of what is worth it", out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--eval", type=Path, default=os.environ.get("GIT_MEM_EVAL_ROOT"))
    parser.add_argument(
        "--turns",
        type=Path,
        help=(
            "chats to train the linear model on that judges the evaluation's turns; without it the"
            " packaged one does, which has seen them"
        ),
    )
    parser.add_argument("--repos", nargs="*", default=[], help="git directories")
    parser.add_argument(
        "--each", type=int, default=200, help="commits of each, by chance, of the newest 5,000"
    )
    parser.add_argument("--sample", default="", help="file for candidates to read and label")
    parser.add_argument(
        "--labels", nargs="*", default=[], help="files that --sample wrote and somebody labelled"
    )
    args = parser.parse_args()
    if args.eval:
        dev = Path(args.eval) / "dev"
        authors(rows(dev / "capture_commits" / "items.jsonl"))
        entries(rows(dev / "capture_typed" / "items.jsonl"))
        turns(
            rows(dev / "capture_turns" / "labelled.jsonl"),
            foreign(args.turns) if args.turns else linear.load(),
        )
    if args.repos:
        history(args.repos, args.each, args.sample)
    labels(args.labels)


if __name__ == "__main__":
    main()
