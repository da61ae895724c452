#!/usr/bin/env python3
"""Measures the capture classifier as `git mem` uses it, on turns of repositories that it was not trained on.

Every figure is of whole judgements (rules, linear model, tiers). `across`: each repository is judged by a model
trained and calibrated on the others. `other chats`: trained on what `build_capture_data.py` makes, judged on the
evaluation's two projects, and each of those by a model that saw the other. `packaged`: the file in the package,
which has seen these turns: to be compared with bars, not believed.

    python tools/eval_capture.py --turns turns.jsonl [--eval ../shared/eval] [--markdown]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import train_capture as train

from gitmem.capture import linear, stages

np = train.np
BINS = 10


def average_precision(wanted: Any, scores: Any) -> float:
    order = np.argsort(-scores, kind="stable")
    hits = wanted[order]
    return float((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits == 1].mean())


def recall_at(wanted: Any, scores: Any, precision: float) -> float:
    order = np.argsort(-scores, kind="stable")
    found = np.cumsum(wanted[order])
    good = found / np.arange(1, len(found) + 1) >= precision
    return float(found[good].max() / wanted.sum()) if good.any() else 0.0


def calibration_error(wanted: Any, shares: Any) -> float:
    """Expected calibration error over ten equal bins."""
    place = np.minimum((shares * BINS).astype(int), BINS - 1)
    return float(sum((place == b).mean() * abs(shares[place == b].mean() - wanted[place == b].mean()) for b in range(BINS) if (place == b).any()))


def reliability(wanted: Any, shares: Any) -> list[tuple[int, float, float]]:
    """(turns, mean confidence, share kept) of each bin."""
    place = np.minimum((shares * BINS).astype(int), BINS - 1)
    return [(int((place == b).sum()), float(shares[place == b].mean()), float(wanted[place == b].mean())) for b in range(BINS) if (place == b).any()]


def judged(rows: list[train.Row], model: linear.Model) -> list[stages.Judgement]:
    return [stages.judge(r.role, r.text, model=model) for r in rows]


def figures(rows: list[train.Row], got: list[stages.Judgement]) -> dict[str, Any]:
    """The measures of some judged rows; what the readers are not sure of is left out."""
    pairs = [(r, j) for r, j in zip(rows, got, strict=True) if r.keep is not None]
    wanted, shares = np.array([r.keep for r, _ in pairs]), np.array([j.confidence for _, j in pairs])
    auto, offered = np.array([j.tier == stages.AUTO for _, j in pairs]), np.array([j.keep for _, j in pairs])
    right = [r.type == j.type for r, j in pairs if r.keep and r.type]
    return {"turns": len(pairs), "base": wanted.mean(), "ap": average_precision(wanted, shares), "r90": recall_at(wanted, shares, 0.9), "r70": recall_at(wanted, shares, 0.7),
            "ece": calibration_error(wanted, shares), "auto": int(auto.sum()), "auto_p": wanted[auto].mean() if auto.any() else float("nan"),
            "auto_c": shares[auto].mean() if auto.any() else float("nan"), "auto_r": wanted[auto].sum() / wanted.sum(),
            "offered_p": wanted[offered].mean() if offered.any() else float("nan"), "offered_r": wanted[offered].sum() / wanted.sum(),
            "type": np.mean(right) if right else float("nan"), "bins": reliability(wanted, shares)}


HEAD = ("| judged | turns | kept | average precision | recall at 0.9 | at 0.7 | ECE | AUTO | precision | its confidence | recall | AUTO+SUGGEST precision | recall | type right |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")


def line(name: str, f: dict[str, Any]) -> str:
    return (f"| {name} | {f['turns']} | {f['base']:.2f} | {f['ap']:.3f} | {f['r90']:.2f} | {f['r70']:.2f} | {f['ece']:.3f} | {f['auto']} | {f['auto_p']:.3f} | {f['auto_c']:.3f} | {f['auto_r']:.2f} "
            f"| {f['offered_p']:.2f} | {f['offered_r']:.2f} | {f['type']:.2f} |")


def trained_without(data: train.Data, more: train.Data | None, mask: Any) -> linear.Model:
    """A model that saw nothing of the rows outside the mask: weights, types, calibration."""
    return linear.Model(json.loads(json.dumps(train.build(data, more, mask))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=Path, required=True)
    parser.add_argument("--eval", type=Path, default=os.environ.get("GIT_MEM_EVAL_ROOT"))
    parser.add_argument("--parts", default="packaged,other,across", help="which measurements")
    args = parser.parse_args()
    rows = train.turns(args.turns)
    dev = train.dev_turns(args.eval) if args.eval else []
    data = train.Data(rows + dev)
    extra = train.typed(args.eval) if args.eval else []
    more = train.Data(extra) if extra else None
    whole, foreign = np.ones(len(data.rows), bool), np.arange(len(data.rows)) < len(rows)
    print(HEAD)
    if "packaged" in args.parts:
        start = time.process_time()
        got = judged(data.rows, linear.load())
        spent = (time.process_time() - start) / len(got) * 1000
        print(line(f"packaged ({spent:.2f} ms a turn)", figures(data.rows, got)))
        print(line("packaged, evaluation's", figures(data.rows[len(rows) :], got[len(rows) :])), flush=True)
    if "other" in args.parts and dev:
        print(line("evaluation's, by other chats", figures(dev, judged(dev, trained_without(data, None, foreign)))), flush=True)
        for name in sorted({r.repo for r in dev}):
            mine = [r for r in dev if r.repo == name]
            print(line(f"{name}, by all others", figures(mine, judged(mine, trained_without(data, more, whole & (data.repo != name))))), flush=True)
    if "across" in args.parts:
        got = [None] * len(data.rows)
        for part in train.folds(data, whole):
            mask = whole.copy()
            mask[part] = False
            for i, j in zip(part, judged([data.rows[i] for i in part], trained_without(data, more, mask)), strict=True):
                got[i] = j
        all_figures = figures(data.rows, got)
        print(line("across all repositories", all_figures))
        for role in ("user", "assistant"):
            of = [i for i, r in enumerate(data.rows) if r.role == role]
            print(line(f"  {role}s", figures([data.rows[i] for i in of], [got[i] for i in of])))
        of = list(range(len(rows), len(data.rows)))
        print(line("  evaluation's", figures([data.rows[i] for i in of], [got[i] for i in of])))
        for name in sorted({r.repo for r in data.rows}):
            of = [i for i, r in enumerate(data.rows) if r.repo == name]
            if sum(data.rows[i].keep == 1 for i in of) >= 20:
                print(line(f"  {name}", figures([data.rows[i] for i in of], [got[i] for i in of])))
        print("\n| turns | confidence | worth keeping |\n|---|---|---|")
        for turns, said, true in all_figures["bins"]:
            print(f"| {turns} | {said:.2f} | {true:.2f} |")
        for floor in (0.45, 0.5, 0.55, 0.6, 0.65, 0.7):
            pairs = [(r.keep, j.confidence) for r, j in zip(data.rows, got, strict=True) if r.keep is not None]
            taken = [k for k, c in pairs if c >= floor]
            print(f"from {floor}: precision {np.mean(taken):.3f}, recall {sum(taken) / sum(k for k, _ in pairs):.3f}")


if __name__ == "__main__":
    main()
