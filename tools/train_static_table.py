#!/usr/bin/env python3
"""Train a static token table towards an encoder's vectors and write it as `static.tbl`.

    python tools/train_static_table.py --weights encoder.safetensors --tokenizer tokenizer.json \\
        --pairs pairs.jsonl --cache vectors.pt --out FOLDER

The table lies in the encoder's own space (384 dimensions), so a question without the encoder can be
compared with documents that have its vectors. It starts from the encoder's vector of each token
alone; then every row learns, by cosine to the encoder's vector of short texts (the questions,
sentences and documents of `tools/build_pairs.py`) and by telling the right document of a question
from the others in a batch. A text is the same bag here as at run time: `gitmem/engine/embed.py`
splits, damps and counts.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found,unused-ignore]
from build_pairs import HELD_OUT
from encoder_torch import embed, load_tokenizer, load_weights
from write_models import tokens_of, write_table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gitmem.engine.embed import StaticTable  # noqa: E402

SEED, FIRST_WORD = 7, 1996


def short_texts(rows: list[dict[str, str]], most: int) -> list[str]:
    """Questions, and first and later sentences of the documents, at most 24 words each."""
    dice = random.Random(SEED)
    found: dict[str, None] = {}
    for row in rows:
        found[row["q"]] = None
        sentences = [s for s in re.split(r"(?<=[.!?])\s+", row["d"]) if 4 <= len(s.split()) <= 24]
        for sentence in dice.sample(sentences, min(1, len(sentences))):
            found[sentence] = None
    texts = list(found)
    dice.shuffle(texts)
    return texts[:most]


class Bags:
    """Texts as rows of the table, each with how often the arithmetic at run time counts it."""

    def __init__(self, table: StaticTable, texts: list[str]) -> None:
        self.rows, self.counts = [], []
        for text in texts:
            counted: dict[int, int] = {}
            for row in table.counted(text):
                counted[row] = counted.get(row, 0) + 1
            self.rows.append(torch.tensor(list(counted), dtype=torch.long))
            self.counts.append(torch.tensor([float(n) for n in counted.values()]))

    def vectors(self, weight: torch.Tensor, which: list[int]) -> torch.Tensor:
        offsets = torch.tensor([0] + [len(self.rows[i]) for i in which[:-1]]).cumsum(0)
        flat, counts = (
            torch.cat([self.rows[i] for i in which]),
            torch.cat([self.counts[i] for i in which]),
        )
        return F.normalize(
            F.embedding_bag(flat, weight, offsets, mode="sum", per_sample_weights=counts),
            dim=-1,
            eps=1e-6,
        )


def to_int8(weight: torch.Tensor) -> np.ndarray:
    scale = float(np.quantile(weight.abs().numpy(), 0.9997)) / 127
    rows: np.ndarray = np.clip(np.rint(weight.numpy() / scale), -127, 127).astype(np.int8)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("weights", "tokenizer", "pairs", "cache", "out"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--name", default="git-mem-static-2")
    parser.add_argument("--texts", type=int, default=90_000)
    parser.add_argument(
        "--minutes",
        type=float,
        default=60,
        help="for the encoder; what it has not read by then is left out",
    )
    parser.add_argument("--documents", type=int, default=9_000)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--rate", type=float, default=2e-3)
    arguments = parser.parse_args()
    torch.manual_seed(SEED)
    torch.set_num_threads(2)

    old = StaticTable()
    tokens = tokens_of(old._map, old.rows, old._ends, old._text)
    rows = [
        json.loads(line) for line in Path(arguments.pairs).read_text(encoding="utf-8").splitlines()
    ]
    rows = [row for row in rows if row["repo"] not in HELD_OUT]
    texts = short_texts(rows, arguments.texts)
    paired = random.Random(SEED + 1).sample(
        [r for r in rows if r["kind"] != "tldr"], min(arguments.documents, len(rows))
    )
    documents = [r["d"] for r in paired]
    cache = Path(arguments.cache)
    if cache.exists():
        words, teacher, teacher_d = torch.load(cache)
    else:
        weights, tokenizer = load_weights(arguments.weights), load_tokenizer(arguments.tokenizer)
        begin = time.time()
        with torch.autocast("cpu", torch.bfloat16):
            # One row a token: its text alone (a continuation without its "##").
            words = embed(weights, tokenizer, [t.removeprefix("##") for t in tokens], 8, 256)
            teacher_d = embed(weights, tokenizer, documents, 72, 64)
            parts: list[torch.Tensor] = []
            for first in range(0, len(texts), 4096):
                parts.append(embed(weights, tokenizer, texts[first : first + 4096], 40, 128))
                print(
                    f"{first + 4096} of {len(texts)} texts ({time.time() - begin:.0f} s)",
                    flush=True,
                )
                if time.time() - begin > arguments.minutes * 60:
                    break
            teacher = torch.cat(parts)
        torch.save((words, teacher, teacher_d), cache)
    texts = texts[: len(teacher)]

    # The component that all tokens share says nothing; rarer words say more.
    start = F.normalize(words - words.mean(0), dim=-1)
    ids = {
        t: i
        for i, t in enumerate(
            Path(arguments.tokenizer).with_name("vocab.txt").read_text(encoding="utf-8").split("\n")
        )
    }
    rank = torch.tensor(
        [float(max(ids[t] - FIRST_WORD + 1, 1)) if ids[t] >= FIRST_WORD else 500.0 for t in tokens]
    )
    weight = (start * (torch.log1p(rank) ** 0.75 / 6)[:, None]).clone().requires_grad_()
    bags, bags_d, bags_q = (
        Bags(old, texts),
        Bags(old, documents),
        Bags(old, [r["q"] for r in paired]),
    )
    optimiser = torch.optim.Adam([weight], lr=arguments.rate)
    known = [i for i in range(len(texts)) if len(bags.rows[i])]
    pairs = [i for i in range(len(documents)) if len(bags_d.rows[i]) and len(bags_q.rows[i])]
    dice = random.Random(SEED)
    held = set(dice.sample(known, min(2000, len(known) // 10)))
    test = sorted(held)
    train = [i for i in known if i not in held]
    steps = arguments.rounds * (len(train) // 512)
    step, begin = 0, time.time()
    for turn in range(arguments.rounds):
        dice.shuffle(train)
        dice.shuffle(pairs)
        at = 0
        for first in range(0, len(train) - 511, 512):
            step += 1
            optimiser.param_groups[0]["lr"] = (
                arguments.rate * min(1, step / 50) * (1 - step / (steps + 1))
            )
            which = train[first : first + 512]
            loss = (1 - (bags.vectors(weight, which) * teacher[which]).sum(1)).mean()
            if at + 128 > len(pairs):
                at = 0
            part = pairs[at : at + 128]
            at += 128
            q, d, td = bags_q.vectors(weight, part), bags_d.vectors(weight, part), teacher_d[part]
            target = torch.arange(len(part))
            loss = loss + 0.5 * (1 - (d * td).sum(1)).mean()
            loss = loss + 0.1 * (
                F.cross_entropy(q @ td.T / 0.05, target) + F.cross_entropy(q @ d.T / 0.05, target)
            )
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
        with torch.no_grad():
            cosine = (bags.vectors(weight, test) * teacher[test]).sum(1).mean().item()
        print(
            f"round {turn + 1} loss {loss.item():.3f} "
            f"cosine of held-out texts {cosine:.4f} ({time.time() - begin:.0f} s)",
            flush=True,
        )

    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    space = write_table(str(out / "static.tbl"), arguments.name, tokens, to_int8(weight.detach()))
    done = sha256((out / "static.tbl").read_bytes()).hexdigest()
    print(f"{space} sha256 {done}")
    for path in (arguments.weights, arguments.pairs):
        print(f"{path} sha256 {sha256(Path(path).read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
