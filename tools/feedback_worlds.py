"""Memories and questions that are known to be about them, searched as the product does.

For `eval_feedback.py`, which says what a world is.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import zlib
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

from eval_retrieval import Store

from gitmem.core import text
from gitmem.engine import embed

TRAILER = re.compile(r"^[A-Z][A-Za-z-]+-by: |^Change-Id: |^(Closes|Fixes|References)[: ]", re.M)
LEAST = 12  # kept questions from which a repository is a world
SEEN = 24  # hits that priors may reorder: 8 asked for, three times as many looked at
Hits = tuple[list[tuple[int, float]], bool]  # (row, fused score), and whether it is a HIT


class World:
    def __init__(
        self,
        name: str,
        table: embed.StaticTable,
        docs: list[dict[str, Any]],
        questions: list[tuple[str, set[int]]],
        natural: bool,
    ) -> None:
        self.name, self.docs, self.questions, self.natural = name, docs, questions, natural
        self.store = Store(table, docs)
        self.store.double = True
        self.known: dict[str, Hits] = {}

    def ask(self, question: str) -> Hits:
        if question not in self.known:
            found = self.store.search(question)
            self.known[question] = (
                [(h.row, h.fused) for h in found["hits"][:SEEN]],
                found["verdict"][0] == "HIT",
            )
        return self.known[question]

    def ages(self) -> dict[int, float]:
        """How many days older than the newest memory each is; 0 for all of a set without dates."""
        about = [doc.get("metadata") or {} for doc in self.docs]
        times = [one.get("ts") or _moment(one.get("date", "")) for one in about]
        return {row: (max(times) - at) / 86_400 for row, at in enumerate(times)}

    def words(self, row: int, rng: random.Random) -> str:
        """A question of two content words of a memory and one of another; "" where it has hardly
        any.
        """
        own, other = self._content(row), self._content(rng.randrange(len(self.docs)))
        if len(own) < 8 or not other:
            return ""
        chosen = [*rng.sample(own, 2), rng.choice(other)]
        rng.shuffle(chosen)
        return " ".join(chosen)

    def _content(self, row: int) -> list[str]:
        return sorted(
            {
                w
                for w in re.findall(r"[A-Za-z][A-Za-z_-]{3,}", self.docs[row]["text"])
                if text.query_terms(w)
            }
        )

    def sentence(self, row: int, rng: random.Random, not_this: str) -> str:
        """A question made of a sentence of a memory; "" where it has none long enough."""
        found = [
            s
            for s in re.split(r"(?<=[.!?])\s+|\n\n", self.docs[row]["text"])
            if 6 <= len(s.split()) <= 40 and s.strip() not in not_this
        ]
        return rng.choice(found) if found else ""


def _moment(date: str) -> float:
    """Seconds of a date as LoCoMo writes it ("1:56 pm on 8 May, 2023"); 0 for anything else."""
    try:
        return datetime.strptime(date, "%I:%M %p on %d %B, %Y").timestamp()
    except ValueError:
        return 0.0


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


def told_by_clones(clones: dict[str, str], table: embed.StaticTable) -> list[World]:
    """A world of each clone's commit messages: bodies as memories, subjects as questions."""
    out = []
    for name, clone in clones.items():
        docs, asked = subjects(history(clone))
        place = {doc["_id"]: i for i, doc in enumerate(docs)}
        if len(asked) >= LEAST:
            out.append(
                World(
                    f"clone:{name}",
                    table,
                    docs,
                    [(question, {place[id] for id in found}) for question, found in asked],
                    False,
                )
            )
    return out


def load(root: Path, table: embed.StaticTable) -> list[World]:
    out = []
    for name in ("locomo", "commits", "topics", "decisions"):
        base = root / "dev" / name
        docs = [json.loads(line) for line in (base / "corpus.jsonl").open(encoding="utf-8")]
        texts = {
            q["_id"]: q["text"]
            for q in map(json.loads, (base / "queries.jsonl").open(encoding="utf-8"))
        }
        relevant: dict[str, set[str]] = defaultdict(set)
        for line in (base / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
            query, doc, score = line.split("\t")
            if int(score) > 0:
                relevant[query].add(doc)
        groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for doc in docs:
            groups[doc["metadata"].get("group") or doc["metadata"].get("repo") or ""].append(doc)
        for group, members in sorted(groups.items()):
            place = {doc["_id"]: i for i, doc in enumerate(members)}
            asked = [
                (texts[q], {place[d] for d in found})
                for q, found in sorted(relevant.items())
                if found <= set(place)
            ]
            if len(asked) >= LEAST:
                out.append(World(f"{name}:{group}", table, members, asked, name == "locomo"))
    return out


def part_of(world: World) -> str:
    return "fit" if zlib.crc32(world.name.encode()) % 2 else "test"
