#!/usr/bin/env python3
"""Trains the capture classifier: writes `gitmem/data/capture.json` from labelled turns of chats.

A logistic regression on n-grams and the forms of sentences is added to one of two others. Without
the encoder: one on those forms and the vector of the packaged table. With it: the heads of the
layer that `train_turn_layer.py` trained, on those forms and the states of the encoder.
Calibration: a curve through scores of turns whose repository took no part in the training of the
models that scored them. Types: a softmax over the turns worth keeping, each type weighing as much
as another; with the encoder the layer's head is added. scikit-learn is needed here and nowhere
else. The evaluation's turns take no part.

    python tools/build_capture_data.py --out turns.jsonl OWNER/NAME=CLONE ...
    python tools/train_turn_layer.py --turns turns.jsonl --out OUT
    python tools/train_capture.py --turns turns.jsonl --layer OUT
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
from gitmem.core.digest import sha256
from gitmem.engine import cache as cache_file
from gitmem.engine import embed

Array = np.ndarray[Any, Any]
FOLDS = 8
# Strength of the dense blocks against the n-grams, and share of the second model: chosen on pooled
# folds, flat around these.
NUMBERS, MEANING, SECOND = 0.5, 4.0, 0.5
# Shares of the layer's heads beside the n-grams' models, for keeping and for the type: flat around
# these on folds over 104 repositories.
LAYER, LAYER_TYPES = 1.5, 1.5
# The types' models: buckets without and with the encoder, strength of the table's vector, and how
# much of a label a borderline turn is. Chosen on folds over 57 repositories by macro-F1.
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
        self.non_ascii = np.array([features.non_ascii(r.text) for r in rows])
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
    """One logistic model: of buckets, numbers, dimensions."""

    hashed: Array
    numbers: Array
    vector: Array
    bias: float


class Layer(NamedTuple):
    """What `train_turn_layer.py` made, its rows in the order of the data's.

    `keep` (users, others) and `types`: heads as rows of a bias, the numbers' weights and the
    vector's. `unseen_keep`, `unseen_types`: scores by nets that did not see a turn's repository.
    """

    keep: Array
    types: Array
    unseen_keep: Array
    unseen_types: Array
    digest: str


def layer(folder: Path, data: Data) -> Layer:
    made = np.load(folder / "turn_heads.npz")
    if made["ids"].tolist() != [r.id for r in data.rows]:
        raise SystemExit(f"{folder} was made from other turns")
    digest = sha256((folder / "turn_layer.bin").read_bytes()).hexdigest()
    return Layer(*(made[name] for name in Layer._fields[:4]), digest)


def grams(data: Data, train: Array) -> Weights:
    """From the rows in the mask; a borderline one is a little of both."""
    rows, wanted, weight = examples(data, train)
    often = np.asarray(data.hashed[train].sum(0)).ravel()
    rarity = np.where(often < 2, 0.0, np.log((train.sum() + 1) / (often + 1)))
    model = LogisticRegression(C=1.0, max_iter=400)
    both = sp.hstack(
        [data.even @ data.hashed @ sp.diags(rarity), sp.csr_matrix(data.numbers * NUMBERS)]
    )
    model.fit(both.tocsr()[rows], wanted, sample_weight=weight)
    a, n = model.coef_[0], features.HASHED
    return Weights(a[:n] * rarity, a[n:] * NUMBERS, np.zeros(0), float(model.intercept_[0]))


def with_table(data: Data, train: Array, first: Weights) -> Weights:
    """`first` and a model of the numbers and the table's vector."""
    rows, wanted, weight = examples(data, train)
    model = LogisticRegression(C=1.0, max_iter=600)
    model.fit(np.hstack([data.numbers, data.vectors * MEANING])[rows], wanted, sample_weight=weight)
    b, n = model.coef_[0] * SECOND, features.NUMBERS
    bias = first.bias + SECOND * float(model.intercept_[0])
    return Weights(first.hashed, first.numbers + b[:n], b[n:] * MEANING, bias)


def with_head(first: Weights, head: Array, share: float) -> Weights:
    """`first` and a head of the layer."""
    bias, numbers, vector = np.split(head * share, [1, 1 + features.NUMBERS])
    return Weights(first.hashed, first.numbers + numbers, vector, first.bias + float(bias[0]))


def examples(data: Data, train: Array) -> tuple[Array, Array, Array]:
    """Rows, what they are worth, how much they weigh."""
    sure, unsure = np.flatnonzero(train & (data.keep >= 0)), np.flatnonzero(train & (data.keep < 0))
    rows = np.concatenate([sure, unsure, unsure])
    wanted = np.repeat([0, 1, 0], [len(sure), len(unsure), len(unsure)])
    wanted[: len(sure)] = data.keep[sure]
    weight = np.concatenate(
        [np.where(data.keep[sure] == 1, 1.0, AGAINST), np.full(2 * len(unsure), BORDERLINE)]
    )
    return rows, wanted, weight


def score(data: Data, model: Weights) -> Array:
    """By n-grams and numbers, and the table's vector where the model has weights for it."""
    dense = data.numbers @ model.numbers + model.bias
    if len(model.vector):
        dense = dense + data.vectors @ model.vector
    hashed = data.hashed @ folded(len(model.hashed))
    return np.asarray(data.even @ hashed @ model.hashed + dense)


def folds(data: Data, mask: Array, count: int = FOLDS) -> list[Array]:
    """Rows of the mask in parts that share no repository."""
    rows = np.flatnonzero(mask)
    return [
        rows[part]
        for _, part in GroupKFold(min(count, len(set(data.repo[rows])))).split(
            rows, groups=data.repo[rows]
        )
    ]


def unseen(data: Data, mask: Array, layer: Layer | None) -> Array:
    """Scores (without and, given a layer, with the encoder) of the mask's rows by models that saw
    nothing of the repository.
    """
    out = np.full((2 if layer else 1, len(data.rows)), np.nan)
    for part in folds(data, mask):
        rest = mask.copy()
        rest[part] = False
        first = grams(data, rest)
        out[0, part] = score(data, with_table(data, rest, first))[part]
        if layer:
            out[1, part] = (score(data, first) + LAYER * layer.unseen_keep)[part]
    return out


def calibrate(data: Data, scores: Array, told: Array) -> dict[str, list[tuple[float, float]]]:
    """Knots (score, share worth keeping), rising in both, by who speaks and in which letters: a
    beta calibration (log odds that bend, one slope far up and one far down) on the told rows.

    The bend is shared, since no kind alone has enough turns at the top; each has a slope and an
    offset of its own."""

    def bent(at: Array, user: Array, other: Array) -> Array:
        return np.c_[np.logaddexp(0, at), -np.logaddexp(0, -at), user, at * user, other, at * other]

    at, user, other = scores[told], data.user[told], data.non_ascii[told]
    whole = bent(at, user, other)
    middle, spread = whole.mean(0), whole.std(0)
    fitted = LogisticRegression(C=1e3, max_iter=2000).fit(
        (whole - middle) / spread, data.keep[told]
    )
    out = {}
    for who in (True, False):
        for letters in (False, True):
            knots = np.linspace(at[user == who].min(), at[user == who].max(), STEPS)
            of = bent(knots, np.full(STEPS, who), np.full(STEPS, letters))
            shares = np.maximum.accumulate(fitted.predict_proba((of - middle) / spread)[:, 1])
            out[("user" if who else "other") + ", non-ASCII" * letters] = [
                (round(float(a), 3), round(float(p), 4)) for a, p in zip(knots, shares, strict=True)
            ]
    return out


def fit_types(data: Data, train: Array, encoded: bool) -> dict[str, Weights]:
    """The softmax of types, with the table's vector or to be joined by the layer's heads; a
    borderline turn counts a little.
    """
    names = np.array([r.type for r in data.rows])
    rows = np.flatnonzero(train & (data.keep != 0) & np.isin(names, linear.TYPES))
    buckets = ENCODED_TYPE_BUCKETS if encoded else TYPE_BUCKETS
    many = (data.even @ data.hashed)[rows] @ folded(buckets)
    often = np.asarray((many > 0).sum(0)).ravel()
    rarity = np.where(often < 2, 0.0, np.log((len(rows) + 1) / (often + 1)))
    vectors = data.vectors[rows] * TYPE_MEANING
    wanted = names[rows]
    weight = np.where(data.keep[rows] == 1, 1.0, TYPE_BORDERLINE)
    mass = {name: weight[wanted == name].sum() for name in set(wanted)}
    weight *= np.array([weight.sum() / len(mass) / mass[name] for name in wanted])
    dense = [data.numbers[rows] * NUMBERS] + [vectors] * (not encoded)
    model = LogisticRegression(C=2.0, max_iter=400)
    model.fit(
        sp.hstack([many @ sp.diags(rarity), sp.csr_matrix(np.hstack(dense))]).tocsr(),
        wanted,
        sample_weight=weight,
    )
    n = buckets + features.NUMBERS
    return {
        str(name): Weights(
            c[:buckets] * rarity, c[buckets:n] * NUMBERS, c[n:] * TYPE_MEANING, float(b)
        )
        for name, c, b in zip(model.classes_, model.coef_, model.intercept_, strict=True)
    }


def folded(buckets: int) -> Any:
    """The n-grams' buckets into fewer, as `linear` counts them."""
    places = np.arange(features.HASHED)
    return sp.csr_matrix((np.ones(features.HASHED), (places, places % buckets)))


def block(name: str, values: Array) -> dict[str, Any]:
    """Eight bits a weight."""
    scale = float(np.abs(values).max()) / 127 or 1.0
    bits = np.clip(np.round(values / scale), -127, 127).astype(np.int8).tobytes()
    return {name: base64.b64encode(bits).decode(), name + "_scale": float(f"{scale:.6g}")}


def plain(model: Weights) -> dict[str, Any]:
    return {"bias": round(model.bias, 5), **block("numbers", model.numbers)}


def packed(model: Weights) -> dict[str, Any]:
    """As `linear` reads it."""
    return {**plain(model), **block("hashed", model.hashed), **block("vector", model.vector)}


def packed_encoded(first: Weights, layer: Layer, types: dict[str, Weights]) -> dict[str, Any]:
    """What differs from the model without the encoder."""
    keep = {}
    for who, head in zip(("user", "other"), layer.keep, strict=True):
        joined = with_head(first, head, LAYER)
        keep[who] = {**plain(joined), **block("vector", joined.vector)}
    heads = dict(zip(linear.TYPES, layer.types, strict=True))
    joined_types = {n: packed(with_head(m, heads[n], LAYER_TYPES)) for n, m in types.items()}
    return {
        "space": cache_file.ENCODED[0],
        "layer": layer.digest,
        "keep": keep,
        "types": joined_types,
    }


def build(data: Data, mask: Array, layer: Layer | None = None) -> dict[str, Any]:
    """Everything that `linear.Model` needs, from the rows in the mask; with a layer, which has seen
    all rows, also what judges with the encoder.
    """
    scores = unseen(data, mask, layer)
    told = mask & (data.keep >= 0) & data.open
    curves = [calibrate(data, one, told) for one in scores]
    first = grams(data, mask)
    made = {
        "features": features.VERSION,
        "trained": (
            f"{int((mask & (data.keep >= 0)).sum())} turns of {len(set(data.repo[mask]))}"
            " repositories"
        ),
        "calibration": curves[0],
        "keep": packed(with_table(data, mask, first)),
        "types": {name: packed(m) for name, m in fit_types(data, mask, False).items()},
    }
    if layer:
        types = fit_types(data, mask, True)
        made["encoded"] = {"calibration": curves[1], **packed_encoded(first, layer, types)}
    return made


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--turns", type=Path, required=True, help="what tools/build_capture_data.py wrote"
    )
    parser.add_argument(
        "--layer", type=Path, required=True, help="where tools/train_turn_layer.py wrote"
    )
    parser.add_argument("--out", type=Path, default=Path(linear.PATH))
    args = parser.parse_args()
    data = Data(turns(args.turns))
    made = build(data, np.ones(len(data.rows), bool), layer(args.layer, data))
    fresh = args.out.with_name("turn_layer.new")
    fresh.write_bytes((args.layer / "turn_layer.bin").read_bytes())
    fresh.replace(args.out.with_name("turn_layer.bin"))  # a process may have mapped the old one
    args.out.write_text(json.dumps(made, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{args.out}: {args.out.stat().st_size} bytes, {made['trained']}")
    for name, curves in (("", made["calibration"]), (", encoder", made["encoded"]["calibration"])):
        for who, knots in curves.items():
            print(f"calibration, {who}{name}:", *[f"{a:+.2f}:{b:.3f}" for a, b in knots])


if __name__ == "__main__":
    main()
