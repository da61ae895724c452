#!/usr/bin/env python3
"""Trains the capture classifier: writes `gitmem/data/capture.json` from labelled turns of chats.

Two logistic regressions on the numbers of `gitmem.capture.features` are added up: one on n-grams
and the forms of sentences, one on those forms and a vector: that of the packaged table, and for
turns that the packaged encoder reads that of the encoder. Calibration: a curve through scores of
turns whose repository took no part in the training of the model that scored them. Types: a softmax
over the turns worth keeping, each type weighing as much as another, without and with the encoder's
vector beside the table's. scikit-learn is needed here and nowhere else. The evaluation's turns take
no part.

    python tools/build_capture_data.py --out turns.jsonl OWNER/NAME=CLONE ...
    python tools/train_capture.py --turns turns.jsonl
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # threads of matrices this small wait for each other longer than they work

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gitmem.capture import features, linear, signals, strip
from gitmem.embedding import reader
from gitmem.engine import cache as cache_file
from gitmem.engine import embed

Array = np.ndarray[Any, Any]
FOLDS = 8
# Strength of the dense blocks against the n-grams, and share of the second model: chosen on pooled
# folds, flat around these.
NUMBERS, MEANING, SECOND = 0.5, 4.0, 0.5
# Strength of the encoder's early vector, and share of the model that has it; layer, strength and
# length of the text were chosen on folds over 57 repositories.
ENCODED, THIRD = 6.0, 1.0
# The types' models: buckets without and with the encoder, strengths of the table's and of the
# encoder's vector, and how much of a label a borderline turn is. Chosen on folds over 57
# repositories by macro-F1; the other constants were flat there and stayed.
TYPE_BUCKETS, ENCODED_TYPE_BUCKETS = 4096, 2048
TYPE_MEANING, TYPE_BORDERLINE = 2.0, 0.3
# A turn kept for nothing costs more than one that is missed, so what is not worth keeping weighs
# more; a borderline turn is so much of a label on either side. Both, like the form of the
# calibration and features that differ for users and others, were chosen on 26 repositories
# without a look at how the evaluation's two come out.
AGAINST, BORDERLINE = 4.0, 0.25
STEPS = 33  # points of the calibration's curve


class Row(NamedTuple):
    """A turn: `keep` is None where the readers do not agree or call it borderline; `type` only
    where it is worth keeping.
    """

    id: str
    repo: str
    role: str
    text: str
    keep: int | None
    type: str


class Data:
    """All rows as matrices, in the order of `rows`."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        table = embed.StaticTable()
        seen = [linear.TurnFeatures(r.role, r.text, table) for r in rows]
        ends = np.cumsum([0] + [len(s.hashed) for s in seen])
        places = np.concatenate([s.hashed for s in seen]).astype(np.int32)
        self.hashed = sp.csr_matrix(
            (np.ones(len(places)), places, ends), shape=(len(rows), features.HASHED)
        )
        self.even = sp.diags(1 / np.sqrt(np.maximum(1, np.diff(ends))))
        self.numbers = np.array([s.numbers for s in seen])
        self.vectors = np.array([s.vector for s in seen])
        self.user = np.array([r.role == "user" for r in rows])
        encoder = reader.encoder()
        if encoder is None:
            raise SystemExit("the packaged encoder cannot be used")
        self.encoded = np.array([s.encoded(encoder) for s in seen])
        self.by_role = np.hstack([self.encoded, self.encoded * self.user[:, None]])
        self.repo = np.array([r.repo for r in rows])
        self.keep = np.array([-1 if r.keep is None else r.keep for r in rows])
        self.rule = [signals.read(r.role, r.text) for r in rows]
        # what the rules settle never gets a calibrated score
        self.open = np.array([s is None or s.kind == "stated" for s in self.rule])


def turns(path: Path) -> list[Row]:
    """Rows that `build_capture_data` made; strength 1 is borderline."""
    out = []
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        kept = row["label"] not in (None, "none")
        out.append(
            Row(
                row["id"],
                row["repo"],
                row["role"],
                strip.cleaned(row["text"]),
                None if row["label"] is None or row["strength"] == 1 else int(kept),
                row["label"] if kept else "",
            )
        )
    return out


def dev_turns(root: Path) -> list[Row]:
    """The evaluation's turns."""
    path = root / "dev" / "capture_turns" / "labelled.jsonl"
    rows = (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if path.exists()
        else []
    )
    return [
        Row(
            r["id"],
            r["repo"],
            r["role"],
            strip.cleaned(r["text"]),
            {"keep": 1, "none": 0}.get(r["keep"]),
            r["label"] if r["keep"] == "keep" and r["label"] else "",
        )
        for r in rows
    ]


class Weights(NamedTuple):
    """One logistic model: of buckets, numbers, dimensions; `encoded` where these are the
    encoder's."""

    hashed: Array
    numbers: Array
    vector: Array
    bias: float
    encoded: bool = False


def fit(data: Data, train: Array) -> tuple[Weights, Weights]:
    """(without, with the encoder) from the rows in the mask; a borderline one is a little of
    both."""
    sure, unsure = np.flatnonzero(train & (data.keep >= 0)), np.flatnonzero(train & (data.keep < 0))
    rows = np.concatenate([sure, unsure, unsure])
    wanted = np.repeat([0, 1, 0], [len(sure), len(unsure), len(unsure)])
    wanted[: len(sure)] = data.keep[sure]
    weight = np.concatenate(
        [np.where(data.keep[sure] == 1, 1.0, AGAINST), np.full(2 * len(unsure), BORDERLINE)]
    )
    often = np.asarray(data.hashed[train].sum(0)).ravel()
    rarity = np.where(often < 2, 0.0, np.log((train.sum() + 1) / (often + 1)))
    first = LogisticRegression(C=1.0, max_iter=400)
    grams = sp.hstack(
        [data.even @ data.hashed @ sp.diags(rarity), sp.csr_matrix(data.numbers * NUMBERS)]
    )
    first.fit(grams.tocsr()[rows], wanted, sample_weight=weight)
    a, n = first.coef_[0], features.NUMBERS

    def added(vectors: Array, strength: float, share: float, encoded: bool) -> Weights:
        other = LogisticRegression(C=1.0, max_iter=600)
        other.fit(np.hstack([data.numbers, vectors * strength])[rows], wanted, sample_weight=weight)
        b = other.coef_[0] * share
        bias = float(first.intercept_[0] + share * other.intercept_[0])
        numbers = a[features.HASHED :] * NUMBERS + b[:n]
        return Weights(a[: features.HASHED] * rarity, numbers, b[n:] * strength, bias, encoded)

    return added(data.vectors, MEANING, SECOND, False), added(data.by_role, ENCODED, THIRD, True)


def score(data: Data, model: Weights) -> Array:
    vectors = data.by_role if model.encoded else data.vectors
    dense = data.numbers @ model.numbers + vectors @ model.vector
    return np.asarray(data.even @ data.hashed @ model.hashed + dense + model.bias)


def folds(data: Data, mask: Array, count: int = FOLDS) -> list[Array]:
    """Rows of the mask in parts that share no repository."""
    rows = np.flatnonzero(mask)
    return [
        rows[part]
        for _, part in GroupKFold(min(count, len(set(data.repo[rows])))).split(
            rows, groups=data.repo[rows]
        )
    ]


def unseen(data: Data, mask: Array) -> Array:
    """Scores (without, with the encoder) of the mask's rows by models that saw nothing of the
    repository.
    """
    out = np.full((2, len(data.rows)), np.nan)
    for part in folds(data, mask):
        rest = mask.copy()
        rest[part] = False
        for i, model in enumerate(fit(data, rest)):
            out[i, part] = score(data, model)[part]
    return out


def calibrate(scores: Array, wanted: Array, users: Array) -> dict[str, list[tuple[float, float]]]:
    """Knots (score, share worth keeping), rising in both, for users' turns and all others: a beta
    calibration (log odds that bend, one slope far up and one far down).

    The bend is shared, since either kind alone has too few turns at the top; each has a slope and
    an offset of its own."""

    def bent(at: Array, of: Array) -> Array:
        return np.c_[np.logaddexp(0, at), -np.logaddexp(0, -at), of, at * of]

    whole = bent(scores, users)
    middle, spread = whole.mean(0), whole.std(0)
    fitted = LogisticRegression(C=1e3, max_iter=2000).fit((whole - middle) / spread, wanted)
    out = {}
    for who, kind in (("user", True), ("other", False)):
        at = np.linspace(scores[users == kind].min(), scores[users == kind].max(), STEPS)
        shares = fitted.predict_proba((bent(at, np.full(STEPS, kind)) - middle) / spread)[:, 1]
        out[who] = [
            (round(float(a), 3), round(float(p), 4))
            for a, p in zip(at, np.maximum.accumulate(shares), strict=True)
        ]
    return out


def fit_types(data: Data, train: Array, encoded: bool) -> dict[str, Weights]:
    """The softmax of types; a borderline turn counts a little."""
    names = np.array([r.type for r in data.rows])
    rows = np.flatnonzero(train & (data.keep != 0) & np.isin(names, linear.TYPES))
    buckets = ENCODED_TYPE_BUCKETS if encoded else TYPE_BUCKETS
    fold = sp.csr_matrix(
        (
            np.ones(features.HASHED),
            (np.arange(features.HASHED), np.arange(features.HASHED) % buckets),
        )
    )
    many = ((data.even @ data.hashed)[rows] @ fold).tocsr()
    often = np.asarray((many > 0).sum(0)).ravel()
    rarity = np.where(often < 2, 0.0, np.log((len(rows) + 1) / (often + 1)))
    strength = ENCODED if encoded else TYPE_MEANING
    vectors = (data.encoded if encoded else data.vectors)[rows] * strength
    wanted = names[rows]
    weight = np.where(data.keep[rows] == 1, 1.0, TYPE_BORDERLINE)
    mass = {name: weight[wanted == name].sum() for name in set(wanted)}
    weight *= np.array([weight.sum() / len(mass) / mass[name] for name in wanted])
    model = LogisticRegression(C=2.0, max_iter=400)
    model.fit(
        sp.hstack(
            [
                many @ sp.diags(rarity),
                sp.csr_matrix(np.hstack([data.numbers[rows] * NUMBERS, vectors])),
            ]
        ).tocsr(),
        wanted,
        sample_weight=weight,
    )
    n = buckets + features.NUMBERS
    return {
        str(name): Weights(c[:buckets] * rarity, c[buckets:n] * NUMBERS, c[n:] * strength, float(b))
        for name, c, b in zip(model.classes_, model.coef_, model.intercept_, strict=True)
    }


def block(name: str, values: Array) -> dict[str, Any]:
    """Eight bits a weight."""
    scale = float(np.abs(values).max()) / 127 or 1.0
    bits = np.clip(np.round(values / scale), -127, 127).astype(np.int8).tobytes()
    return {name: base64.b64encode(bits).decode(), name + "_scale": float(f"{scale:.6g}")}


def plain(model: Weights) -> dict[str, Any]:
    return {"bias": round(model.bias, 5), "numbers": [round(float(v), 4) for v in model.numbers]}


def packed(model: Weights) -> dict[str, Any]:
    """As `linear` reads it."""
    return {**plain(model), **block("hashed", model.hashed), **block("vector", model.vector)}


def packed_encoded(model: Weights) -> dict[str, Any]:
    """What differs from the model without the encoder; the second half of the vector is of users
    alone.
    """
    whole, more = np.split(model.vector, 2)
    vectors = {"user": block("vector", whole + more), "other": block("vector", whole)}
    return {"space": cache_file.ENCODED[0], "keep": plain(model), "vectors": vectors}


def build(data: Data, mask: Array) -> dict[str, Any]:
    """Everything that `linear.Model` needs, from the rows in the mask."""
    scores = unseen(data, mask)
    told = mask & (data.keep >= 0) & data.open
    curves = [calibrate(one[told], data.keep[told], data.user[told]) for one in scores]
    without, encoded = fit(data, mask)
    return {
        "features": features.VERSION,
        "trained": (
            f"{int((mask & (data.keep >= 0)).sum())} turns of {len(set(data.repo[mask]))}"
            " repositories"
        ),
        "calibration": curves[0],
        "keep": packed(without),
        "encoded": {
            **packed_encoded(encoded),
            "calibration": curves[1],
            "types": {name: packed(m) for name, m in fit_types(data, mask, True).items()},
        },
        "types": {name: packed(m) for name, m in fit_types(data, mask, False).items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--turns", type=Path, required=True, help="what tools/build_capture_data.py wrote"
    )
    parser.add_argument("--out", type=Path, default=Path(linear.PATH))
    args = parser.parse_args()
    rows = turns(args.turns)
    made = build(Data(rows), np.ones(len(rows), bool))
    if args.out.exists() and "llm" in (before := json.loads(args.out.read_text(encoding="utf-8"))):
        made["llm"] = before["llm"]  # measured elsewhere
    args.out.write_text(json.dumps(made, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{args.out}: {args.out.stat().st_size} bytes, {made['trained']}")
    for name, curves in (("", made["calibration"]), (", encoder", made["encoded"]["calibration"])):
        for who, knots in curves.items():
            print(f"calibration, {who}{name}:", *[f"{a:+.2f}:{b:.3f}" for a, b in knots])


if __name__ == "__main__":
    main()
