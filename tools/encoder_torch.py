"""all-MiniLM-L6-v2 in torch, for training: tokens to unit vectors.

Only `train_encoder.py` and `train_static_table.py` use it. The weights keep the
names of the carrier's safetensors file.
"""

from __future__ import annotations

import torch  # type: ignore[import-not-found,unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found,unused-ignore]
from safetensors.torch import load_file  # type: ignore[import-not-found,unused-ignore]
from tokenizers import Tokenizer  # type: ignore[import-not-found,unused-ignore]

HEADS, LAYERS = 12, 6
Weights = dict[str, torch.Tensor]


def load_weights(path: str) -> Weights:
    return {name: x for name, x in load_file(path).items() if x.dtype == torch.float32}


def load_tokenizer(path: str) -> Tokenizer:
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def token_ids(tokenizer: Tokenizer, texts: list[str], most: int) -> list[list[int]]:
    return [
        [*e.ids[: most - 1], 102] if len(e.ids) > most else e.ids
        for e in tokenizer.encode_batch(texts)
    ]


def encode(weights: Weights, ids: list[list[int]]) -> torch.Tensor:
    """Mean of the last states over the tokens, normalised."""
    length = max(map(len, ids))
    batch = torch.tensor([row + [0] * (length - len(row)) for row in ids])
    mask = torch.tensor([[1.0] * len(row) + [0.0] * (length - len(row)) for row in ids])

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.layer_norm(
            x, x.shape[-1:], weights[name + ".weight"], weights[name + ".bias"], 1e-12
        )

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(x, weights[name + ".weight"], weights[name + ".bias"])

    x = F.embedding(batch, weights["embeddings.word_embeddings.weight"])
    x = x + weights["embeddings.position_embeddings.weight"][:length]
    x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    bias = ((1 - mask) * -1e9)[:, None, None, :]
    rows, _, width = x.shape
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}."
        query, key, value = (
            linear(x, f"{layer}attention.self.{part}")
            .view(rows, length, HEADS, width // HEADS)
            .transpose(1, 2)
            for part in ("query", "key", "value")
        )
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=bias.to(query.dtype))
        mixed = mixed.transpose(1, 2).reshape(rows, length, width)
        x = norm(
            x + linear(mixed, layer + "attention.output.dense"),
            layer + "attention.output.LayerNorm",
        )
        inner = F.gelu(linear(x, layer + "intermediate.dense"))
        x = norm(x + linear(inner, layer + "output.dense"), layer + "output.LayerNorm")
    mean = (x.float() * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    return F.normalize(mean, dim=-1)


def embed(
    weights: Weights, tokenizer: Tokenizer, texts: list[str], most: int = 128, batch: int = 64
) -> torch.Tensor:
    """Vectors of many texts, without gradients; texts of like length go together."""
    ids = token_ids(tokenizer, texts, most)
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    out = torch.empty(len(ids), 384)
    with torch.inference_mode():
        for start in range(0, len(order), batch):
            part = order[start : start + batch]
            out[part] = encode(weights, [ids[i] for i in part])
    return out
