#!/usr/bin/env python3
"""Measures the capture classifier as `git mem` uses it, on turns of repositories that it was not
trained on.

Every figure is of whole judgements (rules, linear model, tiers), without and with the packaged
encoder. `across`: each repository is judged by a model trained and calibrated on the others.
`packaged`: the file in the package on the evaluation's turns, of which it has seen none.

    python tools/eval_capture.py --turns turns.jsonl --layer OUT [--eval EVALUATION]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import train_capture as train

from gitmem.capture import classify, linear

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
    return float(
        sum(
            (place == b).mean() * abs(shares[place == b].mean() - wanted[place == b].mean())
            for b in range(BINS)
            if (place == b).any()
        )
    )


def reliability(wanted: Any, shares: Any) -> list[tuple[int, float, float]]:
    """(turns, mean confidence, share kept) of each bin."""
    place = np.minimum((shares * BINS).astype(int), BINS - 1)
    return [
        (
            int((place == b).sum()),
            float(shares[place == b].mean()),
            float(wanted[place == b].mean()),
        )
        for b in range(BINS)
        if (place == b).any()
    ]


def macro_f1(named: list[tuple[str, str]]) -> float:
    """The mean F1 of the types of (true, said) that are the true one at least once."""
    scores = []
    for name in sorted({true for true, _ in named}):
        both = sum(true == said == name for true, said in named)
        of = sum((true == name) + (said == name) for true, said in named)
        scores.append(2 * both / of)
    return float(np.mean(scores)) if scores else float("nan")


def judged(rows: list[train.Row], model: linear.Model) -> list[classify.Judgement]:
    return [classify.judge(r.role, r.text, model=model) for r in rows]


def figures(rows: list[train.Row], got: list[classify.Judgement]) -> dict[str, Any]:
    """The measures of some judged rows; what the readers are not sure of is left out."""
    pairs = [(r, j) for r, j in zip(rows, got, strict=True) if r.keep is not None]
    wanted, shares = (
        np.array([r.keep for r, _ in pairs]),
        np.array([j.confidence for _, j in pairs]),
    )
    auto, offered = (
        np.array([j.tier == classify.AUTO for _, j in pairs]),
        np.array([j.keep for _, j in pairs]),
    )
    named = [(r.type, j.type) for r, j in pairs if r.keep and r.type]
    right = [true == said for true, said in named]
    return {
        "turns": len(pairs),
        "base": wanted.mean(),
        "ap": average_precision(wanted, shares),
        "r90": recall_at(wanted, shares, 0.9),
        "r70": recall_at(wanted, shares, 0.7),
        "ece": calibration_error(wanted, shares),
        "auto": int(auto.sum()),
        "auto_p": wanted[auto].mean() if auto.any() else float("nan"),
        "auto_c": shares[auto].mean() if auto.any() else float("nan"),
        "auto_r": wanted[auto].sum() / wanted.sum(),
        "offered_p": wanted[offered].mean() if offered.any() else float("nan"),
        "offered_r": wanted[offered].sum() / wanted.sum(),
        "type": np.mean(right) if right else float("nan"),
        "f1": macro_f1(named),
        "bins": reliability(wanted, shares),
    }


HEAD = (
    "| judged | turns | kept | average precision | recall at 0.9 | at 0.7 | ECE | AUTO | precision"
    " | its confidence | recall | AUTO+SUGGEST precision | recall | type right | macro-F1"
    " |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def line(name: str, f: dict[str, Any]) -> str:
    return (
        f"| {name} | {f['turns']} | {f['base']:.2f} | {f['ap']:.3f} | {f['r90']:.2f} |"
        f" {f['r70']:.2f} | {f['ece']:.3f} | {f['auto']} | {f['auto_p']:.3f} | {f['auto_c']:.3f} |"
        f" {f['auto_r']:.2f} | {f['offered_p']:.2f} | {f['offered_r']:.2f} | {f['type']:.2f} |"
        f" {f['f1']:.2f} |"
    )


def trained_without(data: train.Data, mask: Any) -> linear.Model:
    """A model, without the encoder, that saw nothing of the rows outside the mask."""
    packaged = json.loads(Path(linear.PATH).read_text(encoding="utf-8"))
    made = json.loads(json.dumps(train.build(data, mask)))
    return linear.Model({**made, "encoded": packaged["encoded"]})


class Unseen(linear.Model):
    """Judges turns by given scores."""

    def __init__(self, rows: list[train.Row], scores: Any, types: Any, curves: Any) -> None:
        super().__init__(json.loads(Path(linear.PATH).read_text(encoding="utf-8")))
        self._by_encoder.curves = curves
        known = zip(rows, scores, types, strict=True)
        self._known = {(r.role, r.text): (float(s), t) for r, s, t in known}

    def _usable_encoder(self, role: str) -> Any:
        return self

    def score(self, role: str, text: str) -> float:
        return self._known[role, text][0]

    def types(self, role: str, text: str) -> dict[str, float]:
        return dict(zip(linear.TYPES, map(float, self._known[role, text][1]), strict=True))


def roles(name: str, rows: list[train.Row], got: list[classify.Judgement]) -> None:
    print(line(name, figures(rows, got)))
    for role in ("user", "assistant"):
        of = [i for i, r in enumerate(rows) if r.role == role]
        print(line(f"  {role}s", figures([rows[i] for i in of], [got[i] for i in of])), flush=True)


def across(data: train.Data, layer: train.Layer) -> list[list[classify.Judgement]]:
    """Every turn judged (without, with the encoder) by a model that did not see its repository.

    With the encoder the curve that makes a confidence of a score was fitted on other repositories,
    whose scores come from nets that did see this one.
    """
    out: list[list[Any]] = [[None] * len(data.rows) for _ in (False, True)]
    whole = np.ones(len(data.rows), bool)
    scores = train.unseen(data, whole, layer)[1]
    for part in train.folds(data, whole):
        rest = whole.copy()
        rest[part] = False
        rows = [data.rows[i] for i in part]
        told = rest & (data.keep >= 0) & data.open
        curves = train.calibrate(data, scores, told)
        made = train.fit_types(data, rest, True)
        types = np.array([train.score(data, made[name])[part] for name in linear.TYPES]).T
        types += train.LAYER_TYPES * layer.unseen_types[part]
        models = (trained_without(data, rest), Unseen(rows, scores[part], types, curves))
        for judgements, model in zip(out, models, strict=True):
            for i, judgement in zip(part, judged(rows, model), strict=True):
                judgements[i] = judgement
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=Path, required=True)
    parser.add_argument("--layer", type=Path, help="where tools/train_turn_layer.py wrote")
    parser.add_argument("--eval", type=Path, default=os.environ.get("GIT_MEM_EVAL_ROOT"))
    parser.add_argument("--parts", default="packaged,across", help="which measurements")
    args = parser.parse_args()
    if "across" in args.parts and not args.layer:
        parser.error("across needs --layer")
    print(HEAD)
    if "packaged" in args.parts and args.eval:
        dev = train.dev_turns(args.eval)
        for encoder in (False, True):
            start = time.process_time()
            got = judged(dev, linear.load(encoder))
            spent = (time.process_time() - start) / len(got) * 1000
            name = "packaged, evaluation's" + ", encoder" * encoder
            roles(f"{name} ({spent:.1f} ms a turn)", dev, got)
            if encoder:
                bins(figures(dev, got))
    if "across" in args.parts:
        data = train.Data(train.turns(args.turns))
        for encoder, got in enumerate(across(data, train.layer(args.layer, data))):
            roles("across all repositories" + ", encoder" * encoder, data.rows, got)
            for name in sorted({r.repo for r in data.rows}):
                of = [i for i, r in enumerate(data.rows) if r.repo == name]
                if sum(data.rows[i].keep == 1 for i in of) >= 20:
                    print(
                        line(f"  {name}", figures([data.rows[i] for i in of], [got[i] for i in of]))
                    )
            bins(figures(data.rows, got))
            pairs = [
                (r.keep, j.confidence)
                for r, j in zip(data.rows, got, strict=True)
                if r.keep is not None
            ]
            for floor in (0.45, 0.5, 0.55, 0.6, 0.65, 0.7):
                taken = [k for k, c in pairs if c >= floor]
                print(
                    f"from {floor}: precision {np.mean(taken):.3f}, recall"
                    f" {sum(taken) / sum(k for k, _ in pairs):.3f}"
                )


def bins(found: dict[str, Any]) -> None:
    print("\n| turns | confidence | worth keeping |\n|---|---|---|")
    for turns, said, true in found["bins"]:
        print(f"| {turns} | {said:.2f} | {true:.2f} |")


if __name__ == "__main__":
    main()
