#!/usr/bin/env python3
"""Does a language model earn its place in capture? Measures what its label probabilities add.

The linear model here has seen nothing of the evaluation's turns (it is trained on the other chats
alone); how much the language model counts beside it is fitted on one of the evaluation's
repositories and judged on the others. Answers are kept in a file, so a long run can be broken off:
what is there is measured.

    python tools/eval_llm.py --turns turns.jsonl --eval ../shared/eval --model FILE.gguf --answers
    answers.jsonl
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import eval_capture as measure  # noqa: E402
import train_capture as train  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402

from gitmem.capture import classify, linear, signals  # noqa: E402
from gitmem.models import llama, promptform  # noqa: E402

np = train.np


def answers(
    path: Path, rows: list[train.Row], model: str, threads: int, most: int
) -> dict[str, dict[str, Any]]:
    """{id: {"p": label probabilities, "s": seconds}}; what the file lacks is asked, in random
    order.
    """
    found = (
        {a["id"]: a for a in map(json.loads, path.read_text(encoding="utf-8").splitlines())}
        if path.exists()
        else {}
    )
    left = [r for r in rows if r.id not in found and r.keep is not None]
    random.Random(1).shuffle(left)
    if left[:most] and model:
        asked = llama.Language(model, "", threads)
        with path.open("a", encoding="utf-8") as f:
            if "leaning" not in found:
                found["leaning"] = {"id": "leaning", "p": asked.leaning()}
                print(json.dumps(found["leaning"]), file=f, flush=True)
            for r in left[:most]:
                start = time.perf_counter()
                p = asked.probabilities(r.role, r.text)
                found[r.id] = {"id": r.id, "p": p, "s": round(time.perf_counter() - start, 3)}
                print(json.dumps(found[r.id]), file=f, flush=True)
    return found


def logit(x: Any) -> Any:
    x = np.clip(x, 0.002, 0.99)
    return np.log(x / (1 - x))


def report(name: str, wanted: Any, shares: Any) -> None:
    auto = shares >= 0.95
    print(
        f"| {name} | {len(wanted)} | {wanted.mean():.2f} |"
        f" {measure.average_precision(wanted, shares):.3f} |"
        f" {measure.recall_at(wanted, shares, 0.9):.2f} |"
        f" {measure.recall_at(wanted, shares, 0.7):.2f} |"
        f" {measure.calibration_error(wanted, shares):.3f} | {int(auto.sum())} |"
        f" {wanted[auto].mean() if auto.any() else float('nan'):.3f} |"
    )


def keep_or_not(
    rows: list[train.Row], model: linear.Model, told: dict[str, dict[str, Any]]
) -> None:
    rows = [
        r
        for r in rows
        if r.keep is not None
        and r.id in told
        and (s := signals.read(r.role, r.text), s is None or s.kind == "stated")[1]
    ]
    wanted, repo = np.array([r.keep for r in rows]), np.array([r.repo for r in rows])
    own = np.array([model.confidence(model.score(r.role, r.text), r.role, r.text) for r in rows])
    said = np.array([1 - told[r.id]["p"][promptform.SKIP] for r in rows])
    print(
        f"\nturns that the rules leave open: {len(rows)};"
        f" {np.mean([told[r.id]['s'] for r in rows]):.2f} s an answer on this machine as it was\n"
    )
    print(
        "| judged by | turns | kept | average precision | recall at 0.9 | at 0.7 | ECE | at least"
        " 0.95 | right of them |\n|---|---|---|---|---|---|---|---|---|"
    )
    report("linear model alone", wanted, own)
    report("language model alone", wanted, said)
    both, without = np.zeros(len(rows)), np.zeros(len(rows))
    for name in sorted(set(repo)):
        test, rest = repo == name, repo != name
        for out, columns in (
            (both, np.c_[logit(own), logit(said)]),
            (without, logit(own)[:, None]),
        ):
            fitted = LogisticRegression(C=1.0).fit(columns[rest], wanted[rest])
            out[test] = fitted.predict_proba(columns[test])[:, 1]
            if columns.shape[1] == 2:
                print(
                    f"  (judged on {name}: weights {fitted.coef_[0][0]:.2f} and"
                    f" {fitted.coef_[0][1]:.2f}, {test.sum()} turns)",
                    file=sys.stderr,
                )
    report("linear, recalibrated on the other repository", wanted, without)
    report("both, fitted on the other repository", wanted, both)
    for low, high in ((0.2, 0.95), (0.2, 0.6)):
        some = (own >= low) & (own < high)
        if 0 < wanted[some].sum() < some.sum():
            report(f"unsure ({low} to {high}): linear", wanted[some], own[some])
            report(f"unsure ({low} to {high}): language model", wanted[some], said[some])
            report(f"unsure ({low} to {high}): both", wanted[some], both[some])
    rng = np.random.default_rng(1)
    gains = []
    for _ in range(1000):
        pick = rng.integers(0, len(rows), len(rows))
        gains.append(
            measure.average_precision(wanted[pick], both[pick])
            - measure.average_precision(wanted[pick], without[pick])
        )
    print(
        f"\naverage precision gained by asking: {np.mean(gains):+.3f}, 95 % of resamples between"
        f" {np.quantile(gains, 0.025):+.3f} and {np.quantile(gains, 0.975):+.3f}"
    )


def types(rows: list[train.Row], model: linear.Model, told: dict[str, dict[str, Any]]) -> None:
    kept = [r for r in rows if r.type in linear.TYPES and r.id in told]
    own = [max(t := model.types(r.role, r.text), key=t.__getitem__) for r in kept]
    said = [max(promptform.TYPES, key=told[r.id]["p"].__getitem__) for r in kept]
    leaning = told.get("leaning", {}).get("p")
    both = (
        [
            classify._likeliest_by_both(
                model.types(r.role, r.text), promptform.types(told[r.id]["p"], leaning)
            )
            for r in kept
        ]
        if leaning
        else own
    )
    right = {
        name: np.array([a == r.type for a, r in zip(got, kept, strict=True)])
        for name, got in (("linear model", own), ("language model", said), ("both", both))
    }
    print(
        f"\ntype of {len(kept)} turns worth keeping: "
        + ", ".join(f"{name} right {np.mean(x):.3f}" for name, x in right.items())
    )
    print(
        f"by both: {int((right['both'] & ~right['linear model']).sum())} became right,"
        f" {int((right['linear model'] & ~right['both']).sum())} wrong"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--turns",
        type=Path,
        help="chats to train the linear model on, as tools/build_capture_data.py writes them",
    )
    parser.add_argument("--eval", type=Path, default=os.environ.get("GIT_MEM_EVAL_ROOT"))
    parser.add_argument(
        "--model",
        default="",
        help="the GGUF to ask; without it only what --answers holds is measured",
    )
    parser.add_argument("--answers", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--most", type=int, default=1 << 30)
    args = parser.parse_args()
    dev = train.dev_turns(args.eval)
    told = answers(args.answers, dev, args.model, args.threads, args.most)
    rows = train.turns(args.turns)
    data = train.Data(rows)
    model = measure.trained_without(data, np.ones(len(rows), bool))
    keep_or_not(dev, model, told)
    types(dev, model, told)


if __name__ == "__main__":
    main()
