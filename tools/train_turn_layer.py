#!/usr/bin/env python3
"""Trains the layer of the encoder that reads turns of chats, for the capture classifier.

The packaged encoder's first EARLY layers stay as they are. One layer more, begun from the encoder's
own next one, learns with two heads: whether a turn is worth keeping (one head for users, one for
others), and its type. A head sees the mean and the maximum over the tokens before and after that
layer, and the numbers of `gitmem.capture.features`. `train_capture.py` adds the n-grams.

Each part is one net: parts 0 to 7 leave out the repositories of that fold and score them, the last
has seen all. Needs torch (2.13, CPU): six minutes a part and processor; parts may run side by side,
and those that OUT has are not made again.

    python tools/train_turn_layer.py --turns turns.jsonl --out OUT [--parts 0,1,2]

With all parts it writes `OUT/turn_layer.bin` and `OUT/turn_heads.npz`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found,unused-ignore]
import train_capture as train
from build_encoder import rounded
from torch import nn

from gitmem.capture import features, linear
from gitmem.embedding import encoder_file
from gitmem.embedding.encoder import EARLY, TURN, Encoder

Array = np.ndarray[Any, Any]
HEADS, DIMS = 12, 384
MATRICES = ("qkv", "out", "up", "down")
# Chosen on parts 0 and 1 by average precision, of six tries.
EPOCHS, RATE, HEAD_RATE, DECAY, DROPOUT, BATCH = 4, 2e-4, 1e-3, 0.05, 0.15, 32
# How strong the pooled states are beside `features.NUMBERS` numbers, as in `train_capture`.
POOLED = 6.0
# A turn that is not worth keeping, a borderline one, and a borderline one's type, against a kept
# one; the types' loss against that of keeping.
AGAINST, BORDERLINE, BORDERLINE_TYPE, TYPES = 2.0, 0.5, 0.3, 1.0
WHOLE = train.FOLDS  # the part that leaves nothing out


class Layer(nn.Module):
    """The encoder's layer EARLY (counted from 0), to be trained on."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        weights = encoder._array

        def number(name: str) -> torch.Tensor:
            return torch.tensor(np.array(weights[f"{EARLY}.{name}"], np.float32))

        for name in MATRICES:
            matrix = number(name) * number(f"{name}.scale")
            linear_ = nn.Linear(*matrix.shape)
            linear_.weight.data = matrix.T.contiguous()
            linear_.bias.data = number(f"{name}.bias")
            self.add_module(name, linear_)
        for name in ("out", "down"):
            norm = nn.LayerNorm(DIMS, 1e-12)
            norm.weight.data = number(f"{name}.norm.weight")
            norm.bias.data = number(f"{name}.norm.bias")
            self.add_module(f"{name}_norm", norm)
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        rows, length, _ = x.shape
        split = self.qkv(x).view(rows, length, 3, HEADS, DIMS // HEADS)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        # the file's queries are scaled
        mixed = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask[:, None, None, :], scale=1.0
        )
        mixed = mixed.transpose(1, 2).reshape(rows, length, DIMS)
        x = self.out_norm(x + self.drop(self.out(mixed)))
        return self.down_norm(x + self.drop(self.down(F.gelu(self.up(x)))))


def pooled(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean and maximum over the tokens, each of length 1."""
    x, there = x.float(), mask[..., None]
    mean = (x * there).sum(1) / there.sum(1)
    most = x.masked_fill(~there, -1e4).max(1).values
    return torch.cat([F.normalize(mean, dim=-1), F.normalize(most, dim=-1)], 1)


class Net(nn.Module):
    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.layer = Layer(encoder)
        self.keep = nn.Linear(4 * DIMS + features.NUMBERS, 2)  # users, others
        self.types = nn.Linear(4 * DIMS + features.NUMBERS, len(linear.TYPES))
        nn.init.zeros_(self.keep.weight)
        nn.init.zeros_(self.types.weight)
        self.drop = nn.Dropout(DROPOUT)

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor, user: torch.Tensor, numbers: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        before, after = pooled(x, mask), pooled(self.layer(x, mask), mask)
        seen = torch.cat([self.drop(before) * POOLED, self.drop(after) * POOLED, numbers], 1)
        both = self.keep(seen)
        return torch.where(user, both[:, 0], both[:, 1]), self.types(seen)


class Turns:
    """Labelled turns with their states after EARLY layers, which are kept in OUT as float16."""

    def __init__(self, data: train.Data, encoder: Encoder, out: Path) -> None:
        self.data = data
        names = np.array([r.type for r in data.rows])
        self.types = np.array([[*linear.TYPES, n].index(n) for n in names])
        self.types[~np.isin(names, linear.TYPES)] = -1
        if not (out / "states.npy").exists():
            made = [states(encoder, row) for row in data.rows]
            save(out / "ends.npy", np.cumsum([0] + [len(x) for x in made]))
            save(out / "states.npy", np.concatenate(made))
        self.states = np.load(out / "states.npy", mmap_mode="r")
        self.ends = np.load(out / "ends.npy")
        self.length = np.diff(self.ends)

    def batches(self, rows: Array, size: int) -> Iterator[Array]:
        """Rows of like length go together."""
        ordered = rows[np.argsort(self.length[rows], kind="stable")]
        for at in range(0, len(rows), size):
            yield ordered[at : at + size]

    def shuffled(self, rows: Array, random: np.random.Generator) -> Iterator[Array]:
        rows = rows[random.permutation(len(rows))]
        made: list[Array] = []
        for at in range(0, len(rows), 16 * BATCH):
            made += self.batches(rows[at : at + 16 * BATCH], BATCH)
        for place in random.permutation(len(made)):
            yield made[place]

    def inputs(self, rows: Array) -> tuple[torch.Tensor, ...]:
        x = np.zeros((len(rows), self.length[rows].max(), DIMS), np.float32)
        for place, row in enumerate(rows):
            x[place, : self.length[row]] = self.states[self.ends[row] : self.ends[row + 1]]
        mask = np.arange(x.shape[1]) < self.length[rows][:, None]
        numbers = self.data.numbers[rows].astype(np.float32)
        parts = (x, mask, self.data.user[rows], numbers)
        return tuple(torch.tensor(part) for part in parts)


def prose(row: train.Row) -> str:
    """What the encoder reads of a turn, as in `linear.TurnFeatures`."""
    return features.features(row.role, row.text)[2].strip()[: features.ENCODED]


def states(encoder: Encoder, row: train.Row) -> Array:
    found = encoder._states(prose(row), EARLY)
    return np.zeros((1, DIMS), np.float16) if found is None else found.astype(np.float16)


def trained(turns: Turns, rows: Array, encoder: Encoder) -> Net:
    torch.manual_seed(1)
    random = np.random.default_rng(1)
    net = Net(encoder)
    heads = [*net.keep.parameters(), *net.types.parameters()]
    groups = [
        {"params": net.layer.parameters(), "lr": RATE},
        {"params": heads, "lr": HEAD_RATE},
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=DECAY)
    keep, types = torch.tensor(turns.data.keep), torch.tensor(turns.types)
    # the root of rarity: between counting each turn and each type alike
    clear = torch.bincount(types[(types >= 0) & (keep == 1)], minlength=len(linear.TYPES))
    rare = (clear.sum() / len(clear) / clear.clamp(min=1)).sqrt()
    total = EPOCHS * -(-len(rows) // BATCH)
    step = 0
    for epoch in range(EPOCHS):
        net.train()
        lost = 0.0
        for batch in turns.shuffled(rows, random):
            # up in a tenth of the steps, then down to zero
            speed = min(1.0, step / (0.1 * total + 1)) * (1 - step / total)
            step += 1
            for group, rate in zip(optimizer.param_groups, (RATE, HEAD_RATE), strict=True):
                group["lr"] = rate * speed
            with torch.autocast("cpu", dtype=torch.bfloat16):
                kept, typed = net(*turns.inputs(batch))
            k, t = keep[batch], types[batch]
            wanted = torch.where(k < 0, 0.5, (k == 1).float())
            weight = torch.where(k == 1, 1.0, torch.where(k == 0, AGAINST, BORDERLINE))
            loss = (
                F.binary_cross_entropy_with_logits(kept.float(), wanted, reduction="none") * weight
            ).mean()
            known = (t >= 0) & (k != 0)
            if known.any():
                each = F.cross_entropy(typed.float()[known], t[known], reduction="none")
                share = torch.where(k[known] == 1, 1.0, BORDERLINE_TYPE) * rare[t[known]]
                loss = loss + TYPES * (each * share).sum() / len(batch)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            lost += loss.item()
        print(f"epoch {epoch}: loss {lost * EPOCHS / total:.4f}", flush=True)
    return net


def scored(net: Net, turns: Turns, rows: Array) -> tuple[Array, Array]:
    """Log odds of keeping, and the types' scores, of some rows."""
    net.eval()
    keep, types = np.zeros(len(turns.length)), np.zeros((len(turns.length), len(linear.TYPES)))
    with torch.no_grad():
        for batch in turns.batches(rows, 64):
            kept, typed = net(*turns.inputs(batch))
            keep[batch], types[batch] = kept.numpy(), typed.numpy()
    return keep[rows], types[rows]


def layer_bytes(net: Net) -> bytes:
    """The layer as `encoder_file.layer_file` reads it: int8, a scale for each output."""
    arrays: dict[str, Array] = {}
    for name in MATRICES:
        part = getattr(net.layer, name)
        small, scale = rounded(part.weight.detach().numpy())
        arrays[name], arrays[f"{name}.scale"] = small.T, scale
        arrays[f"{name}.bias"] = part.bias.detach().numpy()
    for name in ("out", "down"):
        norm = getattr(net.layer, f"{name}_norm")
        arrays[f"{name}.norm.weight"] = norm.weight.detach().numpy()
        arrays[f"{name}.norm.bias"] = norm.bias.detach().numpy()
    whole = bytearray()
    inner = net.layer.up.out_features
    order = [
        *encoder_file.layer_numbers(TURN, DIMS, inner),
        *encoder_file.layer_matrices(TURN, DIMS, inner),
    ]
    for name, kind, shape in order:
        array = arrays[name.removeprefix(f"{TURN}.")]
        assert array.shape == shape, name
        part = array.astype("i1" if kind == "b" else "<f4").tobytes()
        whole += part.ljust(encoder_file.aligned(len(part)), b"\0")
    return bytes(whole)


def head(part: nn.Linear) -> Array:
    """A row an output: the bias, the numbers' weights, those of the four pooled parts."""
    weight = part.weight.detach().numpy()
    vector, numbers = weight[:, : 4 * DIMS] * POOLED, weight[:, 4 * DIMS :]
    return np.hstack([part.bias.detach().numpy()[:, None], numbers, vector])


def save(path: Path, *array: Array, **arrays: Array) -> None:
    """One array as .npy, named ones as .npz; never half a file."""
    with path.with_suffix(".new").open("wb") as file:
        (np.savez if arrays else np.save)(file, *array, **arrays)
    path.with_suffix(".new").replace(path)


def check(net: Net, turns: Turns, path: Path) -> None:
    """The layer's file gives the packaged code the vectors that the net has, but for rounding."""
    encoder = Encoder()
    encoder.add_turn_layer(str(path))
    rows = np.arange(0, len(turns.length), 400)
    net.eval()
    for row in rows:
        x, mask, *_ = turns.inputs(rows[rows == row])
        with torch.no_grad():
            wanted = torch.cat([pooled(x, mask), pooled(net.layer(x, mask), mask)], 1)[0].numpy()
        text = turns.data.rows[row]
        found = encoder.turn_vector(prose(text))
        assert np.abs(found - wanted).max() < 0.02, (row, np.abs(found - wanted).max())


def make(part: int, turns: Turns, encoder: Encoder, out: Path) -> None:
    everything = np.arange(len(turns.length))
    left = train.folds(turns.data, everything >= 0)[part] if part != WHOLE else everything[:0]
    net = trained(turns, np.setdiff1d(everything, left), encoder)
    if part == WHOLE:
        (out / "turn_layer.bin").write_bytes(layer_bytes(net))
        check(net, turns, out / "turn_layer.bin")
        made = {"keep": head(net.keep), "types": head(net.types)}
    else:
        keep, types = scored(net, turns, left)
        made = {"rows": left, "keep": keep, "types": types}
    save(out / f"part-{part}.npz", **made)


def assemble(turns: Turns, out: Path) -> None:
    count = len(turns.length)
    keep, types = np.full(count, np.nan), np.full((count, len(linear.TYPES)), np.nan)
    for part in range(WHOLE):
        found = np.load(out / f"part-{part}.npz")
        keep[found["rows"]], types[found["rows"]] = found["keep"], found["types"]
    assert not np.isnan(keep).any()
    whole = np.load(out / f"part-{WHOLE}.npz")
    save(
        out / "turn_heads.npz",
        ids=np.array([r.id for r in turns.data.rows]),
        unseen_keep=keep,
        unseen_types=types,
        keep=whole["keep"],
        types=whole["types"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", default=",".join(map(str, range(WHOLE + 1))))
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(args.threads)
    encoder = Encoder()
    rows = train.turns(args.turns)
    seen = json.dumps([encoder.space, EARLY, rows], ensure_ascii=False)
    digest = sha256(seen.encode("utf-8", "surrogatepass")).hexdigest()
    mark = args.out / "made-from"
    if mark.exists() and mark.read_text() != digest:
        parser.error(f"{args.out} has parts that were made from other turns")
    mark.write_text(digest)
    turns = Turns(train.Data(rows), encoder, args.out)
    for part in map(int, args.parts.split(",")):
        if not (args.out / f"part-{part}.npz").exists():
            print(f"part {part}", flush=True)
            make(part, turns, encoder, args.out)
    if all((args.out / f"part-{part}.npz").exists() for part in range(WHOLE + 1)):
        assemble(turns, args.out)


if __name__ == "__main__":
    sys.exit(main())
