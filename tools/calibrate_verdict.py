#!/usr/bin/env python3
"""Fits the verdict: prints the coefficients of `gitmem/core/verdict.py` and how they do on
questions they have not seen.

Stores of 20, 500 and 3,000 documents of a set, and many of 2 to 9, are asked their own questions,
those of the other sets (not between commits and topics, which share repositories) and everyday
prompts that nothing can answer; memories among commits are asked for in other words and by orders
of work, which also ask where these memories are absent. Right is an answer among the first five
hits. Own questions whose answer was not found, or is not in the store, count four times: they look
like those that are answered, and there are few of them. Questions to stores of thousands, where a
wrong answer is easiest to find, count six times, everyday prompts twice.
Logistic regression with a small ridge; what speaks for an answer may not weigh against it. Five
parts, each judged by the other four; no question in two of them.

    python tools/calibrate_verdict.py words|table|encoder [--eval ../shared/eval] [--vectors DIR]

`--vectors` keeps the encoder's vectors between runs: a text takes it some 40 ms.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
import random
import sqlite3
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from eval_retrieval import ROOT, SETS, dev_folder, load
from scipy.optimize import minimize  # type: ignore[import-untyped]

from gitmem.core import common_words, overlap, rank, text, verdict
from gitmem.engine import embed, encoding, hubness, model_vectors, nearness, vectors
from gitmem.engine.cache import Cache, open_in_memory
from gitmem.engine.search import CANDIDATES, WEIGHTS

Array = np.ndarray[Any, Any]
SIZES = (20, 500, 3000)
SMALL, STORES = (2, 4, 9), 60
DOUBTFUL, LARGE, EVERYDAY = 4.0, 6.0, 2.0
KINDS = ("own", "near", "foreign", "absent", "everyday", "reworded", "order")
SIBLINGS = {"commits", "topics"}
# The other features may only speak for an answer.
AGAINST = ("bias", "length", "size", "unknown", "rivals")


class Words:
    """No vectors."""

    space, coefficients = rank.TABLE, ()

    def documents(self, texts: list[str]) -> None:
        """Nothing is kept."""

    def near(
        self, data: None, query: str, lexical: list[int]
    ) -> tuple[dict[int, float], dict[int, float]]:
        return {}, {}


class Table:
    """Cosines of the packaged table."""

    space, coefficients = rank.TABLE, verdict.TABLE

    def __init__(self) -> None:
        self.table = embed.StaticTable()

    def documents(self, texts: list[str]) -> bytes:
        return b"".join(vectors.embed_many(self.table, texts))

    def near(
        self, data: bytes, query: str, lexical: list[int]
    ) -> tuple[dict[int, float], dict[int, float]]:
        asked = self.table.vector(f"{text.ends(query)} {text.content(query)}")
        matrix, one = (np.frombuffer(d, np.int8).astype(float) for d in (data, asked))
        matrix = matrix.reshape(-1, len(asked))
        lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(one)
        cosines = matrix @ one / np.maximum(lengths, 1e-9)
        rows = [*np.argsort(-cosines, kind="stable")[:CANDIDATES].tolist(), *lexical]
        near = dict(sorted(((row, float(cosines[row])) for row in rows), key=lambda pair: -pair[1]))
        return near, near


class Encoder:
    """Nearness by the encoder; vectors are kept in a folder."""

    space, coefficients = rank.ENCODER, verdict.ENCODER

    def __init__(self, folder: Path) -> None:
        found = encoding.embedder()
        if found is None:
            sys.exit("error: there is no encoder")
        self.encoder = found
        self.path = folder / f"{found.space}.pickle"
        self.known: dict[bytes, bytes] = (
            pickle.loads(self.path.read_bytes()) if self.path.exists() else {}
        )

    def of(self, texts: list[str]) -> list[bytes]:
        keys = [hashlib.md5(t.encode("utf-8", "replace")).digest() for t in texts]
        missing = list(
            {key: t for key, t in zip(keys, texts, strict=True) if key not in self.known}.items()
        )
        for start in range(0, len(missing), 64):
            part = missing[start : start + 64]
            self.known.update(
                zip([key for key, _ in part], self.encoder.embed([t for _, t in part]), strict=True)
            )
        if missing:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_bytes(pickle.dumps(self.known))
        return [self.known[key] for key in keys]

    def documents(self, texts: list[str]) -> Cache:
        """A cache with their vectors, as the background makes it."""
        cache = open_in_memory()
        made = dict(enumerate(self.of(texts)))
        model_vectors.put(cache.db, self.encoder.space, made)
        cache.db.executemany(
            "INSERT INTO memory(row, nth, id, line, status, scope) VALUES(?, 0, ?, ?, 0, 1)",
            [(row, str(row), row) for row in made],
        )
        cache.set_meta("count", str(len(made)))
        hubness.refresh(cache, self.encoder.space)
        return cache

    def near(
        self, data: Cache, query: str, lexical: list[int]
    ) -> tuple[dict[int, float], dict[int, float]]:
        (asked,) = self.of([query])
        vectors = nearness.Vectors(data, self.encoder.space, len(asked), None, lexical)
        return vectors.nearest(asked, {})


Space = Words | Table | Encoder


class Store:
    """Documents with both indexes in memory, searched as `engine.search` does."""

    def __init__(self, space: Space, docs: list[dict[str, Any]]) -> None:
        self.space, self.docs = space, docs
        full = [f"{d.get('title') or ''}\n{d['text']}".strip() for d in docs]
        self.data = space.documents(full)
        self.said = [text.terms(t) for t in full]
        self.db = sqlite3.connect(":memory:")
        self.db.execute(
            "CREATE VIRTUAL TABLE fts USING fts5(title, body, content='', tokenize='ascii')"
        )
        self.db.executemany(
            "INSERT INTO fts(rowid, title, body) VALUES (?, ?, ?)",
            [
                (i, " ".join(text.terms(d.get("title") or "")), " ".join(text.terms(d["text"])))
                for i, d in enumerate(docs)
            ],
        )
        self.db.execute("CREATE VIRTUAL TABLE vocabulary USING fts5vocab(fts, 'row')")
        self.df: dict[str, int] = dict(self.db.execute("SELECT term, doc FROM vocabulary"))

    def ask(self, query: str) -> tuple[list[rank.Hit], list[float]] | None:
        """(hits, features); None where nothing was found."""
        n = len(self.docs)
        query = common_words.asked(query)
        wanted = text.query_terms(query)
        rare = text.rare(wanted, self.df, n)
        sql = (
            "SELECT rowid, bm25(fts, ?, ?) AS b FROM fts WHERE fts MATCH ? ORDER BY b, rowid"
            " LIMIT ?"
        )
        lexical = (
            self.db.execute(sql, (*WEIGHTS[:2], text.match_expression(rare), CANDIDATES)).fetchall()
            if rare
            else []
        )
        near, cosines = self.space.near(self.data, query, [row for row, _ in lexical])
        pairs = overlap.pairs(text.terms(query))

        def held(row: int) -> tuple[float, float]:
            said = self.said[row]
            return overlap.cover(wanted, set(said), self.df, n), overlap.phrases(pairs, said)

        cover = max([held(row)[0] for row, _ in lexical[: verdict.LOOKED_AT]], default=0.0)
        nearest = list(near.items())[:CANDIDATES]
        of_words = {row: near[row] for row, _ in lexical if row in near}
        ceiling = rank.ceiling(wanted, self.df, n)
        hits = rank.fuse(lexical, nearest, of_words, ceiling, self.space.space, cover)
        hits = rank.reread(hits, {hit.row: held(hit.row) for hit in hits[: rank.REREAD]})
        first = [set(self.said[hit.row]) for hit in hits[: verdict.LOOKED_AT]]
        return (
            (
                hits,
                verdict.features(
                    wanted, self.df, n, hits, first, [value for _, value in nearest], cosines
                ),
            )
            if hits
            else None
        )


def sample(
    folder: Path, space: Space, seed: int
) -> list[tuple[str, str, str, list[float], int, float]]:
    """(kind, set and size, question, features, right, weight) of every question that got hits."""
    rnd = random.Random(seed)
    everyday = [
        json.loads(line)["text"]
        for line in (folder / "everyday.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    pairs = [
        json.loads(line)
        for line in (folder / "paraphrases.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    absent = [("absent", pair["prompt"], ()) for pair in pairs]
    data = {name: load(folder, name) for name in SETS}
    asked = {
        name: rnd.sample([q for q in data[name][1] if q["_id"] in data[name][2]], 150)
        for name in SETS
    }
    out: list[tuple[str, str, str, list[float], int, float]] = []

    def ask(name: str, store: Store, questions: list[tuple[str, str, Collection[str]]]) -> None:
        for kind, query, right in questions:
            if found := store.ask(query):
                hits, values = found
                good = int(any(store.docs[hit.row]["_id"] in right for hit in hits[:5]))
                weight = DOUBTFUL if kind == "near" or (right and not good) else 1.0
                weight *= LARGE if len(store.docs) > 1000 else 1.0
                weight *= EVERYDAY if kind == "everyday" else 1.0
                out.append((kind, f"{name} {len(store.docs)}", query, values, good, weight))
        if len(store.docs) > SMALL[-1]:
            print(f"  {name} {len(store.docs)}", file=sys.stderr, flush=True)

    for name in SETS:
        docs, _, relevant = data[name]
        by_id = {d["_id"]: d for d in docs}
        foreign = [
            ("foreign", q["text"], ())
            for other in SETS
            if other != name and {other, name} != SIBLINGS
            for q in asked[other][:30]
        ]
        for size in SIZES:
            answers = sorted(
                {
                    d
                    for q in asked[name][: max(5, size // 10)]
                    for d in relevant[q["_id"]]
                    if d in by_id
                }
            )[:size]
            others = [
                d["_id"]
                for d in rnd.sample(docs, min(len(docs), 2 * size))
                if d["_id"] not in answers
            ]
            store = Store(space, [by_id[d] for d in answers + others[: size - len(answers)]])
            there = {d["_id"] for d in store.docs}
            own = [
                (
                    "own" if there & set(relevant[q["_id"]]) else "near",
                    q["text"],
                    relevant[q["_id"]],
                )
                for q in asked[name]
            ]
            some = [("everyday", prompt, ()) for prompt in everyday]
            ask(name, store, [*own, *foreign, *absent, *some])
    # Memories of fourteen projects among commits of others, asked for in other words and by orders
    # of work.
    crowd = rnd.sample(data["commits"][0], SIZES[-1])
    for size in SIZES[1:]:
        store = Store(
            space,
            [{"_id": f"p{i}", "text": pair["memory"]} for i, pair in enumerate(pairs)]
            + crowd[: size - len(pairs)],
        )
        reworded = [
            (kind, pair[field], {f"p{i}"})
            for i, pair in enumerate(pairs)
            for kind, field in (("reworded", "query"), ("order", "prompt"))
        ]
        ask("memories", store, [*reworded, *(("everyday", prompt, ()) for prompt in everyday)])
    # The first days: a few memories, each asked for by its own question, and by others.
    for size in SMALL:
        for _ in range(STORES):
            some = rnd.sample(range(len(pairs)), size)
            name = rnd.choice(SETS[:3] + SETS[4:])
            docs, questions, relevant = data[name]
            by_id = {d["_id"]: d for d in docs}
            known = rnd.sample(
                [q for q in questions if any(d in by_id for d in relevant.get(q["_id"], ()))], size
            )
            strange = [("foreign", rnd.choice(data["locomo"][1])["text"], ()) for _ in range(3)]
            strange += [("everyday", prompt, ()) for prompt in rnd.sample(everyday, 8)]
            memories = Store(space, [{"_id": f"p{i}", "text": pairs[i]["memory"]} for i in some])
            ask(
                "memories",
                memories,
                [("reworded", pairs[i]["query"], {f"p{i}"}) for i in some[:3]] + strange,
            )
            answers = [by_id[next(d for d in relevant[q["_id"]] if d in by_id)] for q in known]
            ask(
                name,
                Store(space, answers),
                [("own", q["text"], relevant[q["_id"]]) for q in known[:3]] + strange,
            )
    return out


def fit(x: Array, y: Array, weight: Array) -> Array:
    """Ridge 1 on all but the bias."""
    ridge = np.array([0.0] + [1.0] * (x.shape[1] - 1))

    def loss(beta: Array) -> tuple[float, Array]:
        z = x @ beta
        value = float((weight * (np.logaddexp(0, z) - y * z)).sum() + (ridge * beta**2).sum() / 2)
        return value, x.T @ (weight * (1 / (1 + np.exp(-z)) - y)) + ridge * beta

    bounds = [(None, None) if name in AGAINST else (0, None) for name in verdict.FEATURES]
    found: Array = minimize(
        loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds
    ).x
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("space", choices=("words", "table", "encoder"))
    parser.add_argument("--eval", default=str(ROOT.parent / "shared" / "eval"))
    parser.add_argument("--vectors", default=str(Path.home() / ".cache" / "git-mem-vectors"))
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    folder = dev_folder(args.eval)
    if folder is None:
        return 0
    space: Space = {"words": Words, "table": Table}.get(
        args.space, lambda: Encoder(Path(args.vectors))
    )()
    rows = sample(folder, space, args.seed)
    kinds = np.array([r[0] for r in rows])
    names = np.array([r[1] for r in rows])
    x, y, weight = (np.array([r[i] for r in rows], float) for i in (3, 4, 5))
    part = np.array([random.Random(r[2]).randrange(5) for r in rows])
    p = np.zeros(len(y))
    for i in range(5):
        p[part == i] = 1 / (
            1 + np.exp(-x[part == i] @ fit(x[part != i], y[part != i], weight[part != i]))
        )
    print(f"{len(rows)} questions, each judged by coefficients that have not seen it")
    for floor in (0.15, 0.25, 0.36, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9):
        line = f"  from {floor:.2f}:"
        for kind in KINDS:
            line += f"  {kind} {(p[kinds == kind] >= floor).mean():.3f}"
        told = (kinds == "own") & (p >= floor)
        print(line + f"  own, right among the first five {y[told].mean():.3f}")
    right, others = (kinds == "own") & (y > 0), kinds == "foreign"
    for name, at in (("HIT_FROM", verdict.HIT_FROM), ("MISS_BELOW", verdict.MISS_BELOW)):
        rates = ", ".join(f"{(p[some] >= at).mean():.3f}" for some in (right, others))
        print(f"  from {name} on: own whose answer was found, foreign: {rates}")
    for kind in ("reworded", "order"):
        print(
            f"  {kind}: right among the first five {y[kinds == kind].mean():.3f}, of what is told"
            f" {y[(kinds == kind) & (p >= verdict.TELL_FROM)].mean():.3f}"
        )
    for name in sorted(set(names)):
        here = names == name
        line = "".join(
            f"  {kind} {(p[here & (kinds == kind)] >= verdict.TELL_FROM).mean():.3f}"
            for kind in KINDS
            if (here & (kinds == kind)).any()
        )
        print(f"  {name:16} told{line}")
    print("calibration, own questions: predicted -> right")
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        band = (kinds == "own") & (p >= low) & (p < low + 0.2)
        if band.any():
            print(f"  {p[band].mean():.2f} -> {y[band].mean():.2f}  ({band.sum()})")
    print(f"{args.space.upper()} = ({', '.join(f'{b:.2f}' for b in fit(x, y, weight))})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
