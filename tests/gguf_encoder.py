"""The packaged encoder as a GGUF file: an embedding model for llama.cpp without a download."""

from __future__ import annotations

import pathlib
import struct
from itertools import pairwise

import gguf
import numpy as np

from gitmem.embedding.encoder import Encoder

_MEAN = 1  # llama.cpp's number of the pooling
_NAMES = {"out": "attn_output", "up": "ffn_up", "down": "ffn_down"}
_NORMS = {"out": "attn_output_norm", "down": "layer_output_norm"}


def write(path: pathlib.Path) -> pathlib.Path:
    encoder = Encoder()
    file, array = encoder.file, encoder._array
    w = gguf.GGUFWriter(str(path), "bert")
    w.add_block_count(file.layers)
    w.add_context_length(file.positions)
    w.add_embedding_length(file.dims)
    w.add_feed_forward_length(array["0.up"].shape[1])
    w.add_head_count(file.heads)
    w.add_layer_norm_eps(1e-12)
    w.add_causal_attention(False)
    w.add_pooling_type(gguf.PoolingType(_MEAN))
    w.add_tokenizer_model("bert")
    w.add_token_type_count(1)
    ends = struct.unpack_from(f"<{file.tokens + 1}I", file.map, file._ends)
    text = file.map[file._text : file._text + ends[-1]]
    tokens = [text[a:b].decode() for a, b in pairwise(ends)]
    w.add_token_list([_spelled(token) for token in tokens])
    w.add_token_types([3 if token[0] + token[-1] == "[]" else 1 for token in tokens])
    for add, token in (
        (w.add_bos_token_id, "[CLS]"),
        (w.add_sep_token_id, "[SEP]"),
        (w.add_eos_token_id, "[SEP]"),
        (w.add_unk_token_id, "[UNK]"),
        (w.add_pad_token_id, "[PAD]"),
        (w.add_mask_token_id, "[MASK]"),
    ):
        if (number := file.find(token)) >= 0:
            add(number)

    def put(name: str, values: np.ndarray, kind: type = np.float32) -> None:
        w.add_tensor(name, np.ascontiguousarray(values, kind))

    put("token_embd.weight", array["words"] * array["words.scale"][:, None], np.float16)
    put("position_embd.weight", array["positions"])
    put("token_types.weight", np.zeros((1, file.dims)))
    for part in ("weight", "bias"):
        put(f"token_embd_norm.{part}", array[f"norm.{part}"])
    for n in range(file.layers):
        matrix = (array[f"{n}.qkv"] * array[f"{n}.qkv.scale"]).T
        bias = array[f"{n}.qkv.bias"].copy()
        for at, name in enumerate(("attn_q", "attn_k", "attn_v")):
            part = slice(at * file.dims, (at + 1) * file.dims)
            # The file has the factor of attention in the scale of the query.
            factor = (file.dims / file.heads) ** 0.5 if name == "attn_q" else 1
            put(f"blk.{n}.{name}.weight", matrix[part] * factor, np.float16)
            put(f"blk.{n}.{name}.bias", bias[part] * factor)
        for ours, name in _NAMES.items():
            scaled = (array[f"{n}.{ours}"] * array[f"{n}.{ours}.scale"]).T
            put(f"blk.{n}.{name}.weight", scaled, np.float16)
            put(f"blk.{n}.{name}.bias", array[f"{n}.{ours}.bias"])
        for ours, name in _NORMS.items():
            for part in ("weight", "bias"):
                put(f"blk.{n}.{name}.{part}", array[f"{n}.{ours}.norm.{part}"])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


def _spelled(token: str) -> str:
    """As llama.cpp has WordPiece: a mark before what begins a word, none before the rest."""
    if token[0] + token[-1] == "[]" and len(token) > 2:
        return token
    return token[2:] if token.startswith("##") else "\u2581" + token
