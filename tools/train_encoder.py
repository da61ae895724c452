#!/usr/bin/env python3
"""Train a copy of all-MiniLM-L6-v2 on pairs of this field, on two CPU cores.

    python tools/train_encoder.py --weights model.safetensors --tokenizer tokenizer.json \\
        --pairs pairs.jsonl --out encoder.safetensors --minutes 60
    python tools/train_encoder.py --weights model.safetensors --out encoder.safetensors \\
        --average 0.25:a.safetensors 0.75:b.safetensors --mix 1.35

Pairs come from `tools/build_pairs.py`. A step takes six groups of eight pairs, each of one
repository and kind, so that the wrong answers in a batch are near ones. The loss is cross entropy
over cosines / 0.05, both ways. Words that both sides share are mostly taken out of the document.
A leash holds every question and a third of the documents near the original encoder's vectors. The
embeddings and the two lowest layers stay as they are: steps cost a third less.

The second form ends a training that had no time for its rate to fall: it averages checkpoints and
moves from the original weights to that average and a part beyond (`--mix` above 1). How the
weights in use were made, with figures: `tools/data/ENCODER.md`.

Not the same bits twice: the rate falls with the clock, and two threads add floats in any order. The
result is pinned by its checksum.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections import defaultdict
from pathlib import Path

import torch  # type: ignore[import-not-found,unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found,unused-ignore]
from build_pairs import HELD_OUT, STOP
from encoder_torch import encode, load_tokenizer, load_weights, token_ids
from safetensors.torch import load_file, save_file  # type: ignore[import-not-found,unused-ignore]

TEMPERATURE, SEED = 0.05, 7
SHARES = {
    "written": 0.2,
    "commit": 0.22,
    "order": 0.1,
    "heading": 0.18,
    "changelog": 0.07,
    "why": 0.09,
    "docstring": 0.09,
    "tldr": 0.05,
}
VERB_WORDS = """
add allow avoid change check clean convert create delete disable document drop enable ensure
expose extract fix handle implement improve include introduce keep limit load make mark move
only prevent print provide reduce refactor remove rename replace report require reset return
reuse run send set show simplify skip split stop store support switch test track update use
validate wait warn write
"""
VERBS = set(VERB_WORDS.split())


def question(text: str, kind: str, dice: random.Random) -> str:
    """The same in the form of a question or an order, where the grammar is plain."""
    first, _, rest = text.partition(" ")
    verb = first.lower()
    singular = verb.removesuffix("s")
    if kind == "docstring" and (verb in VERBS or singular in VERBS):
        base = verb if verb in VERBS else singular
        return dice.choice(
            [text, f"how to {base} {rest}", f"python {base} {rest}", f"{base} {rest}"]
        ).rstrip(".")
    if kind in ("commit", "changelog", "order") and verb in VERBS:
        forms = [text] * 4 + [
            f"why did we {verb} {rest}",
            f"how do we {verb} {rest}",
            f"please {verb} {rest}",
            f"did we ever {verb} {rest}?",
        ]
        return text if kind == "order" and dice.random() < 0.7 else dice.choice(forms)
    return text


def without_shared(q: str, d: str, dice: random.Random) -> str:
    """The document without most of the words (by their first five letters) of the question."""
    asked = {w[:5] for w in re.findall(r"[a-z0-9]+", q.lower()) if w not in STOP and len(w) > 1}

    def keep(match: re.Match[str]) -> str:
        word = match[0]
        parts = {p.lower()[:5] for p in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", word)} | {
            word.lower()[:5]
        }
        return "" if parts & asked and dice.random() < 0.9 else word

    return re.sub(r"\w+", keep, d)


class Batches:
    def __init__(self, rows: list[dict[str, str]], size: int, group: int, seed: int) -> None:
        self.dice = random.Random(seed)
        self.size, self.group = size, group
        self.pools: dict[str, dict[str, list[dict[str, str]]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for row in rows:
            self.pools[row["kind"]][row["repo"] if row["kind"] != "written" else "all"].append(row)
        self.left: dict[tuple[str, str], list[dict[str, str]]] = {}
        self.shares = {k: v for k, v in SHARES.items() if k in self.pools}

    def take(self, kind: str) -> list[dict[str, str]]:
        repos = self.pools[kind]
        names = sorted(repos)
        repo = self.dice.choices(names, [min(len(repos[n]), 600) for n in names])[0]
        left = self.left.setdefault((kind, repo), [])
        if len(left) < self.group:
            left[:] = repos[repo]
            self.dice.shuffle(left)
        out, left[:] = left[: self.group], left[self.group :]
        return out

    def next(self) -> tuple[list[str], list[str]]:
        rows: list[dict[str, str]] = []
        while len(rows) < self.size:
            rows += self.take(self.dice.choices(list(self.shares), list(self.shares.values()))[0])
        qs, ds = [], []
        for row in rows[: self.size]:
            q, d = question(row["q"], row["kind"], self.dice), row["d"]
            if (
                row["kind"] in ("commit", "heading", "changelog", "why", "order")
                and self.dice.random() < 0.75
            ):
                d = without_shared(q, d, self.dice)
            qs.append(q)
            ds.append(d)
        return qs, ds


def average(weights: str, parts: list[str], mix: float, out: str) -> None:
    original = load_file(weights)
    loaded = [(float(part), load_file(path)) for part, _, path in (p.partition(":") for p in parts)]
    for name, x in original.items():
        if x.dtype == torch.float32:
            mean = sum(part * other[name] for part, other in loaded)
            original[name] = torch.lerp(x, mean, mix).contiguous()
    save_file(original, out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("weights", "out"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--tokenizer")
    parser.add_argument("--pairs")
    parser.add_argument(
        "--average", nargs="+", metavar="PART:FILE", help="no training: average these"
    )
    parser.add_argument(
        "--mix", type=float, default=1.0, help="of the average, against the original"
    )
    parser.add_argument(
        "--start", help="trained weights to go on from; the leash stays with --weights"
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--rate", type=float, default=3e-5)
    parser.add_argument("--leash", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--frozen", type=int, default=2, help="lowest layers that stay as they are")
    parser.add_argument("--save-every", type=int, default=50)
    arguments = parser.parse_args()
    if arguments.average:
        average(arguments.weights, arguments.average, arguments.mix, arguments.out)
        return
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(2)

    rows = [
        json.loads(line) for line in Path(arguments.pairs).read_text(encoding="utf-8").splitlines()
    ]
    batches = Batches(
        [r for r in rows if r["repo"] not in HELD_OUT],
        arguments.batch,
        arguments.group,
        arguments.seed,
    )
    original = load_weights(arguments.weights)
    begun = load_weights(arguments.start) if arguments.start else original
    weights = dict(original)
    trained = []
    for name in original:
        if name.startswith("encoder.layer.") and int(name.split(".")[2]) >= arguments.frozen:
            weights[name] = begun[name].clone().requires_grad_()
            trained.append(name)
    tokenizer = load_tokenizer(arguments.tokenizer)
    decay = [weights[n] for n in trained if weights[n].dim() > 1]
    plain = [weights[n] for n in trained if weights[n].dim() == 1]
    optimiser = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}],
        lr=arguments.rate,
        betas=(0.9, 0.98),
    )

    def save(path: str) -> None:
        save_file({n: weights[n].detach().contiguous() for n in original}, path)

    begin, shown = time.time(), [0.0, 0.0, 0.0]
    warm = max(10, arguments.steps // 20)
    for step in range(1, arguments.steps + 1):
        done = max(step / arguments.steps, (time.time() - begin) / 60 / arguments.minutes)
        if done > 1:
            break
        for part in optimiser.param_groups:
            part["lr"] = arguments.rate * min(step / warm, 1) * max(0.05, 1 - done)
        qs, ds = batches.next()
        qi, di = token_ids(tokenizer, qs, 40), token_ids(tokenizer, ds, 64)
        with torch.autocast("cpu", torch.bfloat16):
            q, d = encode(weights, qi), encode(weights, di)
            some = torch.randperm(len(ds))[: len(ds) // 3].tolist()
            with torch.no_grad():
                q0, d0 = encode(original, qi), encode(original, [di[i] for i in some])
        scores = q @ d.T / TEMPERATURE
        with torch.no_grad():  # another document that says nearly the same is no wrong answer
            same = (d @ d.T > 0.93) & ~torch.eye(len(d), dtype=torch.bool)
        scores = scores.masked_fill(same, -1e4)
        target = torch.arange(len(q))
        contrast = F.cross_entropy(scores, target) + 0.5 * F.cross_entropy(scores.T, target)
        leash = (1 - (q * q0).sum(1)).mean() + (1 - (d[some] * d0).sum(1)).mean()
        (contrast + arguments.leash * leash).backward()
        torch.nn.utils.clip_grad_norm_([weights[n] for n in trained], 1.0)
        optimiser.step()
        optimiser.zero_grad()
        right = (scores.argmax(1) == target).float().mean().item()
        shown = [
            0.9 * a + 0.1 * b if step > 1 else b
            for a, b in zip(shown, (contrast.item(), leash.item(), right), strict=True)
        ]
        if step % 10 == 0:
            print(
                f"step {step} {time.time() - begin:.0f} s loss {shown[0]:.3f} "
                f"leash {shown[1]:.4f} right {shown[2]:.3f}",
                flush=True,
            )
        if step % arguments.save_every == 0:
            save(f"{arguments.out}.{step}")
    save(arguments.out)


if __name__ == "__main__":
    main()
