#!/usr/bin/env python3
"""Fits the verdict: prints COEFFICIENTS for `gitmem/core/rank.py` and how they do on sets they have not seen.

Positives: a set's own questions with an answer among the first eight hits.
Negatives: questions of another set (not between commits and topics, which
share repositories), also against stores of 1 to 300 memories. Own questions
whose answer was not found, and questions whose answer was taken out of the
store, count 0.3: they look alike, and the verdict is about what is there.
Newton's method with a small ridge in numpy; fixed seed; about a minute.

    python tools/calibrate_verdict.py [--eval ../shared/eval]
"""

from __future__ import annotations

import argparse
import random
import sys
from typing import Any

import numpy as np
from eval_retrieval import ROOT, SETS, Store, dev_folder, group_of, load, stores

from gitmem.core import rank, text
from gitmem.engine import embed

Array = np.ndarray[Any, Any]
AMBIGUOUS = 0.3
SIBLINGS = {"commits", "topics"}


def far(query: dict[str, Any], relevant: dict[str, dict[str, int]], by_id: dict[str, dict[str, Any]]) -> bool:
    """The question's first answer holds at most a third of its terms."""
    wanted = text.query_terms(query["text"])
    answer = by_id.get(next(iter(relevant.get(query["_id"], {})), ""))
    if answer is None or not wanted:
        return False
    held = set(text.terms(f"{answer.get('title') or ''}\n{answer['text']}"))
    return sum(term in held for term in wanted) <= len(wanted) / 3


def sample(folder: Any, seed: int) -> list[tuple[str, str, list[float], int, float]]:
    """(kind, set, features, answered, weight) of every question that got hits."""
    table, rnd = embed.StaticTable(), random.Random(seed)
    data = {name: load(folder, name) for name in SETS}
    out: list[tuple[str, str, list[float], int, float]] = []

    def ask(kind: str, name: str, store: Store, query: dict[str, Any], relevant: dict[str, int]) -> None:
        found = store.search(query["text"])
        if found["features"] is None:
            return
        answered = any(store.docs[hit.row]["_id"] in relevant for hit in found["hits"][:8])
        doubtful = kind.endswith(("own", "near")) and not answered
        out.append((kind, name, found["features"], int(answered), AMBIGUOUS if doubtful else 1.0))

    for name in SETS:
        docs, queries, relevant = data[name]
        whole = stores(table, docs)
        foreign = [other for other in SETS if other != name and {other, name} != SIBLINGS]
        for query in rnd.sample(queries, min(400, len(queries))):
            if query["_id"] in relevant:
                ask("own", name, whole[group_of(query)], query, relevant[query["_id"]])
        for other in foreign:
            for query in rnd.sample(data[other][1], 100):
                ask(f"{other} questions", name, rnd.choice(list(whole.values())), query, {})
        by_id = {doc["_id"]: doc for doc in docs}
        for n in (1, 3, 20, 50, 300):
            for _ in range(30 if n == 1 else 10):
                store = Store(table, rnd.sample(docs, n))
                for _ in range(3 if n == 1 else 6):
                    ask(f"{n} memories, foreign", name, store, rnd.choice(data[rnd.choice(foreign)][1]), {})
            # a third of them share at most a third of their words with the answer: meaning alone must count
            chosen = rnd.sample(queries, 40) + rnd.sample([q for q in queries if far(q, relevant, by_id)], 20)
            for query in chosen:
                answers = [by_id[d] for d in relevant.get(query["_id"], {}) if d in by_id]
                others = [doc for doc in rnd.sample(docs, n + 5) if doc not in answers]
                if answers:
                    mine = relevant[query["_id"]]
                    ask(f"{n} memories, own", name, Store(table, answers[:1] + others[: n - 1]), query, mine)
                    if n > 1:
                        ask(f"{n} memories, near", name, Store(table, others[:n]), query, {})
    return out


def fit(x: Array, y: Array, weight: Array) -> Array:
    """Logistic regression: ridge 1 on all but the bias."""
    ridge = np.array([1e-6] + [1.0] * (x.shape[1] - 1))
    beta = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ beta))
        slope = x.T @ (weight * (p - y)) + ridge * beta
        curve = (x * (weight * p * (1 - p))[:, None]).T @ x + np.diag(ridge)
        step = np.linalg.solve(curve, slope)
        beta -= step
        if np.abs(step).max() < 1e-9:
            break
    return beta


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eval", default=str(ROOT.parent / "shared" / "eval"))
    parser.add_argument("--double", action="store_true", help="as in eval_retrieval")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    Store.double = args.double
    folder = dev_folder(args.eval)
    if folder is None:
        return 0
    rows = sample(folder, args.seed)
    kinds, names = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    x, y, weight = (np.array([r[i] for r in rows], float) for i in (2, 3, 4))
    p = np.zeros(len(y))
    for name in SETS:  # each set is judged by coefficients fitted on the four others
        seen = names != name
        p[~seen] = 1 / (1 + np.exp(-x[~seen] @ fit(x[seen], y[seen], weight[seen])))
    print(f"{len(rows)} questions; fitted on four sets, reported on the fifth: share HIT, share MISS")
    for name in SETS:
        for kind in sorted(set(kinds[names == name])):
            q = p[(names == name) & (kinds == kind)]
            print(f"  {name:10} {kind:24} n {len(q):4}  HIT {(q >= rank.HIT_FROM).mean():.2f}"
                  f"  MISS {(q < rank.MISS_BELOW).mean():.2f}")  # fmt: skip
    print("calibration, own questions of unseen sets: predicted -> answered among the first eight")
    own = kinds == "own"
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        band = own & (p >= low) & (p < low + 0.2)
        if band.any():
            print(f"  {p[band].mean():.2f} -> {y[band].mean():.2f}  ({band.sum()})")
    print(f"FEATURES = {rank.FEATURES}")
    print(f"COEFFICIENTS = ({', '.join(f'{b:.2f}' for b in fit(x, y, weight))})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
