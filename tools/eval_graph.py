#!/usr/bin/env python3
"""What the graph's prior does to ranking: nDCG@10, MRR@10 and recall@10 with and without it, on
histories of real projects.

Each project is a store of its own: its commits (or sections of decisions) are memories with their
paths, times and authors, its questions have known answers. Nothing is tuned here: `--grid` prints
other strengths beside the one in use, for projects that may be looked at (CHOOSE); all others were
only ever judged. Reads sets in BEIR form from --eval, and clones given as NAME=DIR for paths,
authors and further questions; says what is missing and goes on.

    python tools/eval_graph.py --eval EVAL jj=CLONE pip=CLONE uv=CLONE restic=CLONE pre-commit=CLONE
    ...
"""

from __future__ import annotations

import argparse
import bisect
import math
import random
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tools"))

import eval_retrieval  # noqa: E402

from gitmem.core import record, text  # noqa: E402
from gitmem.engine import cache as cache_file  # noqa: E402
from gitmem.engine import embed, priors  # noqa: E402
from gitmem.engine.filters import Filter  # noqa: E402
from gitmem.engine.search import Search  # noqa: E402
from gitmem.engine.update import Update  # noqa: E402
from gitmem.graph import edges, graphing  # noqa: E402

CHOOSE = {("commits", "uv"), ("commits", "restic"), ("topics", "restic"), ("decisions", "rfcs")}
LIMIT = 10
TRAILER = re.compile(r"^[A-Z][A-Za-z-]+-by: |^Change-Id: |^(Closes|Fixes|References)[: ]", re.M)


Factors = Callable[["Shop", list[int]], list[float]]


class Shop:
    """One project's memories in a cache, its questions, and for each the hits before priors."""

    def __init__(
        self,
        name: str,
        docs: list[dict[str, Any]],
        asked: list[tuple[str, dict[str, int]]],
        table: embed.StaticTable,
    ) -> None:
        self.name = name
        self.cache = cache_file.open_in_memory()
        update = Update(self.cache, table, None)
        lines = []
        for doc in docs:
            fields = record.content(
                {
                    "title": doc.get("title", "")[:300],
                    "body": doc["text"] or doc.get("title") or "-",
                    "source": doc["_id"],
                    "author": doc.get("author", "x"),
                    "paths": doc.get("paths", [])[:256],
                }
            )
            at = (
                time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(doc["ts"]))
                if doc.get("ts")
                else "unknown"
            )
            lines.append(("", record.dump(record.create(fields, at=at)), 1))
        update.take(lines)
        update.finish()
        began = time.monotonic()
        graphing.catch_up(self.cache, 1e6)
        self.seconds = time.monotonic() - began
        names = dict(self.cache.db.execute("SELECT row, source FROM memory").fetchall())
        search = Search(self.cache, table)
        self.questions = []
        for query, relevant in asked:
            hits, _, _ = search.ask(
                query, Filter(), LIMIT * 3
            )  # priors see three times what is shown
            hits.sort(key=lambda h: (-h.fused, h.row))
            self.questions.append(
                (hits[: LIMIT * 3], [names[h.row] for h in hits[: LIMIT * 3]], relevant)
            )
        rows = sorted({h.row for hits, _, _ in self.questions for h in hits})
        self.ranks = {
            row: (value, community)
            for row, value, community in self.cache.db.execute(
                "SELECT row, value, community FROM rank"
            )
        }
        self.sorted_ranks = sorted(value for value, _ in self.ranks.values())
        self.links: dict[int, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
        wanted = set(rows)
        for a, b, kind, weight in self.cache.db.execute("SELECT a, b, kind, weight FROM edge"):
            if a in wanted and b in wanted:
                self.links[a][b][kind] = self.links[b][a][kind] = weight


def scores(order: list[str], relevant: dict[str, int]) -> tuple[float, float, float]:
    """(nDCG@10, MRR@10, recall@10)."""
    gain = sum(1 / math.log2(i + 2) for i, d in enumerate(order[:LIMIT]) if relevant.get(d))
    best = sum(1 / math.log2(i + 2) for i in range(min(LIMIT, len(relevant))))
    first = next((1 / (i + 1) for i, d in enumerate(order[:LIMIT]) if relevant.get(d)), 0.0)
    return gain / best, first, len([d for d in order[:LIMIT] if relevant.get(d)]) / len(relevant)


# --- data ------------------------------------------------------------------


def short(repo: str) -> str:
    return repo.rpartition("/")[2]


def history(clone: str) -> dict[str, dict[str, Any]]:
    """{commit: time, author, paths, subject, body} of every commit that is no merge."""
    raw = subprocess.run(
        [
            "git",
            "-C",
            clone,
            "log",
            "--no-merges",
            "--name-only",
            "--no-renames",
            "-z",
            "--format=%x01%H%x02%ct%x02%an <%ae>%x02%s%x02%b%x03",
        ],
        capture_output=True,
        check=True,
    ).stdout
    out = {}
    for item in raw.decode("utf-8", "replace").split("\x01")[1:]:
        head, _, names = item.partition("\x03")
        words = head.split("\x02", 4)
        if len(words) < 5:  # a message that holds the byte by which commits are parted
            continue
        commit, ts, author, subject, body = words
        out[commit] = {
            "ts": int(ts),
            "author": author,
            "paths": [n for n in names.replace("\n", "").split("\0") if n],
            "subject": subject,
            "body": body.strip(),
        }
    return out


def beir(folder: Path, clones: dict[str, str], known: dict[str, dict[str, dict[str, Any]]]) -> Any:
    """(set, project, documents, [(question, relevant)]) of the sets that have structure."""
    for name in ("commits", "topics", "decisions"):
        docs, queries, relevant = eval_retrieval.load(folder, name)
        for repo in sorted({d["metadata"]["repo"] for d in docs}):
            own = [d for d in docs if d["metadata"]["repo"] == repo]
            asked = [
                (q["text"], relevant[q["_id"]])
                for q in queries
                if q["metadata"]["repo"] == repo and q["_id"] in relevant
            ]
            if len(asked) < 30:
                continue
            project = short(repo)
            if project in clones and name != "decisions":
                known.setdefault(project, history(clones[project]))
            for d in own:
                facts = known.get(project, {}).get(d["metadata"].get("commit", ""), {})
                d["ts"] = d["metadata"].get("ts")
                d["paths"] = facts.get("paths") or [p for p in [d["metadata"].get("path")] if p]
                d["author"] = facts.get("author", "x")
            yield name, project, own, asked


def subjects(
    commits: dict[str, dict[str, Any]], most: int = 4_000, questions: int = 200
) -> tuple[list[dict[str, Any]], list[tuple[str, dict[str, int]]]]:
    """Bodies of commits as memories, subjects as questions, as the set `commits` has it: bodies of
    25 words or more, subjects of four that are not all in them.
    """
    rng = random.Random(6)
    docs, asked = [], []
    for commit, c in commits.items():
        body = "\n".join(line for line in c["body"].splitlines() if not TRAILER.match(line)).strip()
        if len(body.split()) >= 25:
            docs.append(
                {"_id": commit, "text": body, **{k: c[k] for k in ("ts", "author", "paths")}}
            )
            words, held = set(text.terms(c["subject"])), set(text.terms(body))
            if (
                len(words) >= 4
                and len(words & held) < 0.95 * len(words)
                and c["subject"].lower() not in body.lower()
            ):
                asked.append((c["subject"], commit))
    docs = docs[:most]
    kept = {d["_id"] for d in docs}
    asked = [a for a in asked if a[1] in kept]
    return docs, [
        (subject, {commit: 1}) for subject, commit in rng.sample(asked, min(questions, len(asked)))
    ]


def changelog(
    clone: str, commits: dict[str, dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[tuple[str, dict[str, int]]]]:
    """Entries of CHANGELOG.md that name a pull request as questions, its commits as answers; all
    commits are memories.
    """
    git = ["git", "-C", clone]
    merges = subprocess.run(
        [*git, "log", "--merges", "--format=%H%x02%P%x02%s"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    of: dict[str, list[str]] = {}
    for line in merges.splitlines():
        _, parents, subject = line.split("\x02")
        number = re.match(r"Merge pull request #(\d+) ", subject)
        if number and len(parents.split()) == 2:
            first, second = parents.split()
            of[number[1]] = subprocess.run(
                [*git, "rev-list", "--no-merges", f"{first}..{second}"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()
    said = subprocess.run(
        [*git, "show", "HEAD:CHANGELOG.md"], capture_output=True, text=True, check=False
    ).stdout
    asked = []
    for entry in re.split(r"\n- ", said):
        numbers = re.findall(r"#(\d+) PR", entry)
        words = " ".join(re.split(r"\n\s+- ", entry)[0].split())
        relevant = {c: 1 for n in numbers for c in of.get(n, ()) if c in commits}
        if relevant and len(relevant) <= 15 and len(text.terms(words)) >= 4:
            asked.append((words, relevant))
    return [
        {
            "_id": c,
            "title": v["subject"],
            "text": v["body"],
            **{k: v[k] for k in ("ts", "author", "paths")},
        }
        for c, v in commits.items()
    ], asked


# --- judging ---------------------------------------------------------------


def company(strength: float, core: int = priors.CORE) -> Factors:
    """The prior in use (`priors.COMPANY`), at any strength."""

    def factors(shop: Shop, rows: list[int]) -> list[float]:
        found = [shop.ranks[row][1] for row in rows]
        return [
            1 + strength * (found[:core].count(name) - (i < core)) / (core - 1)
            for i, name in enumerate(found)
        ]

    return factors


def central(strength: float) -> Factors:
    """PageRank as a prior: by its place among all ranks, from 1 - strength to 1 + strength."""

    def factors(shop: Shop, rows: list[int]) -> list[float]:
        return [
            1
            + strength
            * (
                2
                * bisect.bisect_left(shop.sorted_ranks, shop.ranks[row][0])
                / len(shop.sorted_ranks)
                - 1
            )
            for row in rows
        ]

    return factors


def linked(strength: float, kinds: set[int]) -> Factors:
    """A hit is lifted by the hits among the first ten that it has an edge with."""

    def factors(shop: Shop, rows: list[int]) -> list[float]:
        out = []
        for row in rows:
            near = shop.links.get(row, {})
            out.append(
                1
                + strength
                * min(
                    1.0,
                    sum(
                        max([w for kind, w in near[o].items() if kind in kinds], default=0.0)
                        for o in rows[:LIMIT]
                        if o != row and o in near
                    ),
                )
            )
        return out

    return factors


IN_USE = {f"company {priors.COMPANY}": company(priors.COMPANY)}
OTHERS = {
    "rank lifts 0.1": central(0.1),
    "rank lowers 0.1": central(-0.1),
    "time 0.2": linked(0.2, {edges.TIME}),
    "file 0.1": linked(0.1, {edges.FILE}),
    "like 0.1": linked(0.1, {edges.SIMILAR, edges.NEARBY}),
    "all edges 0.1": linked(0.1, set(range(len(edges.KINDS)))),
}
GRID = {f"company {g}": company(g) for g in (0.05, 0.15, 0.2, 0.3)}


def judge(shop: Shop, factors: Factors | None) -> list[tuple[float, float, float]]:
    out = []
    for hits, names, relevant in shop.questions:
        weights = factors(shop, [h.row for h in hits]) if factors else [1.0] * len(hits)
        order = sorted(
            range(len(hits)),
            key=lambda i: (-hits[i].fused * weights[i], -hits[i].fused, hits[i].row),
        )
        out.append(scores([names[i] for i in order], relevant))
    return out


def interval(by_shop: list[list[float]]) -> tuple[float, float, float]:
    """The mean over projects of their mean gains, and where 95 of 100 resamples of their questions
    lie.
    """
    rng = random.Random(1)

    def mean(some: list[list[float]]) -> float:
        return sum(sum(v) / len(v) for v in some) / len(some)

    drawn = sorted(mean([rng.choices(v, k=len(v)) for v in by_shop]) for _ in range(1_000))
    return mean(by_shop), drawn[25], drawn[974]


def report(title: str, shops: list[Shop], variants: dict[str, Factors]) -> None:
    if not shops:
        return
    base = {shop.name: judge(shop, None) for shop in shops}
    print(
        f"\n{title}\n\n| | memories | questions | nDCG@10 | MRR@10 | recall@10 | "
        + " | ".join(variants)
        + " |\n"
        + "|---" * (6 + len(variants))
        + "|"
    )
    gains = {
        name: [
            [a[0] - b[0] for a, b in zip(judge(shop, factors), base[shop.name], strict=True)]
            for shop in shops
        ]
        for name, factors in variants.items()
    }
    for place, shop in enumerate(shops):
        n = len(shop.questions)
        means = [sum(s[k] for s in base[shop.name]) / n for k in range(3)]
        print(
            f"| {shop.name} | {shop.cache.count():,} | {n} | "
            + " | ".join(f"{m:.3f}" for m in means)
            + " | "
            + " | ".join(f"{sum(gains[v][place]) / n:+.4f}" for v in variants)
            + " |"
        )
    found = {name: interval(some) for name, some in gains.items()}
    print(
        "| **mean of the projects** | | | | | | "
        + " | ".join(f"**{m:+.4f}** ({low:+.4f} to {high:+.4f})" for m, low, high in found.values())
        + " |"
    )
    print(
        "| questions better / worse | | | | | | "
        + " | ".join(
            f"{sum(g > 1e-9 for v in some for g in v)} / {sum(g < -1e-9 for v in some for g in v)}"
            for some in gains.values()
        )
        + " |",
        flush=True,
    )


def cosines(shop: Shop) -> None:
    """How often a cosine is reached by two memories of a store drawn by chance, and by two answers
    of one question.
    """
    rng = random.Random(1)
    row_of = {
        source: row for row, source in shop.cache.db.execute("SELECT row, source FROM memory")
    }
    rows = sorted(row_of.values())
    kept = shop.cache.vectors(rows)
    chance = [
        embed.cosine(kept[a], kept[b]) for a, b in (rng.sample(rows, 2) for _ in range(20_000))
    ]
    pairs = [
        (row_of[a], row_of[b])
        for _, _, relevant in shop.questions
        for a in relevant
        for b in relevant
        if a < b and a in row_of and b in row_of
    ]
    together = [embed.cosine(kept[a], kept[b]) for a, b in pairs]
    for floor in (0.5, 0.6, 0.65, 0.7, 0.8):
        print(
            f"{shop.name}: cosine {floor}: {sum(c >= floor for c in chance) / len(chance):.5f} by"
            f" chance, {sum(c >= floor for c in together) / max(1, len(together)):.3f} of"
            f" {len(together)} pairs of one topic"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", nargs="*", metavar="NAME=DIR")
    parser.add_argument("--eval", default=str(ROOT.parent / "shared" / "eval"))
    parser.add_argument(
        "--grid", action="store_true", help="other strengths, for the projects to choose on only"
    )
    parser.add_argument(
        "--cosines",
        action="store_true",
        help="how far apart pairs are, for one project to choose on, and nothing else",
    )
    args = parser.parse_args()
    clones = dict(item.split("=", 1) for item in args.clones)
    known: dict[str, dict[str, dict[str, Any]]] = {}
    table = embed.StaticTable()
    chosen: list[Shop] = []
    judged: list[Shop] = []
    folder = eval_retrieval.dev_folder(args.eval)
    for name, project, docs, asked in beir(folder, clones, known) if folder else ():
        to_choose = (name, project) in CHOOSE
        if to_choose or not (args.grid or args.cosines):
            (chosen if to_choose else judged).append(Shop(f"{name}/{project}", docs, asked, table))
    for project, clone in clones.items() if not (args.grid or args.cosines) else ():
        if project in known:
            continue
        commits = history(clone)
        for kind, (docs, asked) in (
            ("subjects", subjects(commits)),
            ("changelog", changelog(clone, commits)),
        ):
            if len(asked) >= 30:
                judged.append(Shop(f"{kind}/{project}", docs, asked, table))
    if args.cosines:
        cosines(next(shop for shop in chosen if shop.name.startswith("topics")))
        return 0
    report("To choose on", chosen, {**IN_USE, **OTHERS, **(GRID if args.grid else {})})
    report("Not used to choose anything", judged, {**IN_USE, **OTHERS})
    return 0


if __name__ == "__main__":
    sys.exit(main())
