#!/usr/bin/env python3
"""nDCG@10 of recall's own parts on the evaluation sets: text, FTS5, static vectors, fusion.

Owns: the in-memory search that experiments share (`calibrate_verdict` uses
it). No index, no notes, no hooks: what it measures is `text`, `rank` and the
table. Reads sets in BEIR form from --eval; says so and exits 0 where they are
missing, since they are not part of this repository.

    python tools/eval_retrieval.py [--eval ../shared/eval] [--sets commits,topics] [--postings 0.2]
"""

from __future__ import annotations

import argparse
import json
import math
import sqlite3
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from gitmem.core import rank, text, verdict  # noqa: E402
from gitmem.engine import embed, vectors  # noqa: E402

SETS = ("commits", "cosqa", "decisions", "locomo", "topics")
CANDIDATES = 200
TITLE_WEIGHT = 1.5


class Store:
    """Documents with both indexes in memory; a document is {"_id", "title", "text"}."""

    double = False  # content words of the question twice: `text.content`

    def __init__(self, table: embed.StaticTable, docs: list[dict[str, Any]]) -> None:
        self.table, self.docs = table, docs
        full = [f"{d.get('title') or ''}\n{d['text']}".strip() for d in docs]
        array = np.frombuffer(b"".join(vectors.embed_many(table, full)), np.int8)
        self.matrix = array.reshape(len(docs), -1).astype(np.float32)
        self.matrix /= np.maximum(1e-9, np.linalg.norm(self.matrix, axis=1, keepdims=True))
        self.db = sqlite3.connect(":memory:")
        self.db.execute(
            "CREATE VIRTUAL TABLE fts USING fts5(title, body, content='', tokenize='ascii')"
        )
        rows = ((i, " ".join(text.terms(d.get("title") or "")), " ".join(text.terms(d["text"])))
                for i, d in enumerate(docs))  # fmt: skip
        self.db.executemany("INSERT INTO fts(rowid, title, body) VALUES (?, ?, ?)", rows)
        self.db.execute("CREATE VIRTUAL TABLE vocabulary USING fts5vocab(fts, 'row')")
        self.df: dict[str, int] = dict(self.db.execute("SELECT term, doc FROM vocabulary"))

    def search(self, query: str, postings: float | None = None) -> dict[str, Any]:
        """Candidates, hits and verdict.

        `postings`: as if the budget were that share of the store.
        """
        n = len(self.docs)
        wanted = text.query_terms(query)
        used = text.rare(wanted, self.df, n)
        if postings is not None:
            kept: list[str] = []
            total = 0
            for term in used:
                total += self.df[term]
                if total > postings * n and len(kept) >= text.MIN_RARE:
                    break
                kept.append(term)
            used = kept
        lexical: list[tuple[int, float]] = []
        if used:
            lexical = self.db.execute(
                "SELECT rowid, bm25(fts, ?, 1.0) AS b FROM fts WHERE fts MATCH ? ORDER BY b, rowid"
                " LIMIT ?",
                (TITLE_WEIGHT, text.match_expression(used), CANDIDATES),
            ).fetchall()
        sentence = f"{query} {text.content(query)}" if self.double else query
        asked = np.frombuffer(self.table.vector(sentence), np.int8).astype(np.float32)
        cosines = self.matrix @ (asked / (np.linalg.norm(asked) or 1))
        near = np.argsort(-cosines, kind="stable")[:CANDIDATES].tolist()
        vector = [(row, float(cosines[row])) for row in near if cosines[row] > 0]
        of_words = {row: float(cosines[row]) for row, _ in lexical}
        hits = rank.fuse(lexical, vector, of_words, rank.ceiling(wanted, self.df, n))
        held = [set(text.terms(f"{self.docs[h.row].get('title') or ''}\n{self.docs[h.row]['text']}"))  # noqa: E501
                for h in hits[: verdict.LOOKED_AT]]  # fmt: skip
        nearest = [cosine for _, cosine in vector]
        near = {**of_words, **dict(vector)}
        values = verdict.features(wanted, self.df, n, hits, held, nearest, near)
        sure = verdict.probability(values, verdict.TABLE) if hits else 0.0
        covered = bool(wanted) and any(terms.issuperset(wanted) for terms in held)
        return {
            "hits": hits, "lexical": lexical, "vector": vector, "n": n,
            "verdict": (verdict.name(sure, covered) if hits else "MISS", sure),
        }  # fmt: skip


def load(
    folder: Path, name: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, dict[str, int]]]:
    def lines(file: str) -> list[dict[str, Any]]:
        with open(folder / name / file, encoding="utf-8") as stream:
            return [json.loads(line) for line in stream]

    relevant: dict[str, dict[str, int]] = {}
    with open(folder / name / "qrels.tsv", encoding="utf-8") as stream:
        for line in stream:
            query, doc, grade = line.split("\t")
            if grade.strip().isdigit() and int(grade):
                relevant.setdefault(query, {})[doc] = int(grade)
    return lines("corpus.jsonl"), lines("queries.jsonl"), relevant


def group_of(item: dict[str, Any]) -> Any:
    return (item.get("metadata") or {}).get("group")


def stores(table: embed.StaticTable, docs: list[dict[str, Any]]) -> dict[Any, Store]:
    """One store a group: a LoCoMo question is asked of its own conversation only."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for doc in docs:
        groups.setdefault(group_of(doc), []).append(doc)
    return {group: Store(table, members) for group, members in groups.items()}


def ndcg(relevant: dict[str, int], order: list[str]) -> float:
    gain: float = sum(
        (2 ** relevant.get(d, 0) - 1) / math.log2(i + 2) for i, d in enumerate(order[:10])
    )
    best = sorted(relevant.values(), reverse=True)[:10]
    return gain / math.fsum((2**g - 1) / math.log2(i + 2) for i, g in enumerate(best))


def dev_folder(argument: str) -> Path | None:
    """The folder of the sets, or None with a line on stderr."""
    for folder in (Path(argument) / "dev", Path(argument)):
        if (folder / "commits" / "corpus.jsonl").exists():
            return folder
    print(f"skipped: no evaluation data under '{argument}'", file=sys.stderr)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--eval", default=str(ROOT.parent / "shared" / "eval"))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument(
        "--postings", type=float, help="posting budget as a share of the store, e.g. 0.2 = 100,000"
    )
    parser.add_argument(
        "--double", action="store_true", help="count the question's content words twice"
    )
    args = parser.parse_args()
    Store.double = args.double
    folder = dev_folder(args.eval)
    if folder is None:
        return 0
    table = embed.StaticTable()
    means: dict[str, list[float]] = {"lexical": [], "vector": [], "hybrid": []}
    print(
        f"space {table.space}\n{'':10} lexical  vector  hybrid   HIT  WEAK  MISS (answerable"
        " questions)"
    )
    for name in args.sets.split(","):
        docs, queries, relevant = load(folder, name)
        searched = stores(table, docs)
        total = dict.fromkeys(means, 0.0)
        verdicts = dict.fromkeys(("HIT", "WEAK", "MISS"), 0)
        asked = [q for q in queries if q["_id"] in relevant]
        for query in asked:
            store = searched[group_of(query)]
            found = store.search(query["text"], args.postings)
            orders = {"lexical": [row for row, _ in found["lexical"]], "vector": [row for row, _ in found["vector"]],  # noqa: E501
                      "hybrid": [hit.row for hit in found["hits"]]}  # fmt: skip
            for route, order in orders.items():
                total[route] += ndcg(
                    relevant[query["_id"]], [store.docs[row]["_id"] for row in order[:10]]
                )
            verdicts[found["verdict"][0]] += 1
        scores = [total[route] / len(asked) for route in means]
        for route, score in zip(means, scores, strict=True):
            means[route].append(score)
        shares = "  ".join(f"{count / len(asked):.2f}" for count in verdicts.values())
        print(
            f"{name:10}" + "".join(f"{score:8.4f}" for score in scores) + f"   {shares}", flush=True
        )
    print(f"{'mean':10}" + "".join(f"{sum(v) / len(v):8.4f}" for v in means.values()))
    pairs_file = Path(args.eval) / "paraphrases.jsonl"
    if pairs_file.exists():
        pairs = [json.loads(line) for line in pairs_file.read_text(encoding="utf-8").splitlines()]
        store = Store(
            table, [{"_id": str(i), "text": pair["memory"]} for i, pair in enumerate(pairs)]
        )
        found_all = [store.search(pair["query"]) for pair in pairs]
        at = [
            sum(i in [h.row for h in f["hits"][:k]] for i, f in enumerate(found_all)) / len(pairs)
            for k in (1, 3)
        ]
        missed = sum(f["verdict"][0] == "MISS" for f in found_all)
        print(
            f"paraphrases (reported, never tuned on): recall@1 {at[0]:.2f}  recall@3 {at[1]:.2f} "
            f" MISS {missed}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
