"""A tiny Qwen3-architecture model with random weights, as GGUF: it knows nothing and proves
loading, template and parsing.

Needs the PyPI package `gguf` (in the extra `dev`), which writes the file format.
"""

from __future__ import annotations

import itertools
import pathlib
import re

from gitmem.models import promptform

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
WIDTH, HEADS, KEY, LAYERS = 32, 2, 16, 2

# What Qwen3's own template does with tools and thinking, shortened.
TEMPLATE = """{%- if tools %}{{- '<|im_start|>system\\n' + messages[0].content + '\\n\\n<tools>' }}{%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}{{- '\\n</tools><|im_end|>\\n' }}
{%- else %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{%- endif %}
{%- for message in messages[1:] %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}{%- endif %}"""  # noqa: E501


def _letters() -> dict[int, str]:
    """GPT-2's printable stand-ins of the 256 bytes."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    out = {b: chr(b) for b in own}
    for b in range(256):
        if b not in out:
            out[b] = chr(256 + len(out) - len(own))
    return out


def vocabulary(merges: int = 500) -> tuple[list[str], list[str]]:
    """(tokens, merges) of a byte-pair vocabulary learned from the prompt itself."""
    letters = _letters()
    text = "\n".join(str(m["content"]) for m in promptform.messages())
    words: dict[tuple[str, ...], int] = {}
    for piece in re.findall(r" ?[A-Za-z]+| ?[^A-Za-z\s]+|\s+", text):
        key = tuple(letters[b] for b in piece.encode())
        words[key] = words.get(key, 0) + 1
    tokens, rules = list(letters.values()), []
    for _ in range(merges):
        pairs: dict[tuple[str, str], int] = {}
        for word, n in words.items():
            for pair in itertools.pairwise(word):
                pairs[pair] = pairs.get(pair, 0) + n
        if not pairs:
            break
        best = max(sorted(pairs), key=lambda p: pairs[p])
        rules.append(" ".join(best))
        if "".join(best) not in tokens:
            tokens.append("".join(best))
        merged: dict[tuple[str, ...], int] = {}
        for word, n in words.items():
            out: list[str] = []
            for letter in word:
                if out and (out[-1], letter) == best:
                    out[-1] += letter
                else:
                    out.append(letter)
            merged[tuple(out)] = merged.get(tuple(out), 0) + n
        words = merged
    return tokens, rules


def write(
    path: pathlib.Path, *, template: str = TEMPLATE, seed: int = 1, architecture: str = "qwen3"
) -> pathlib.Path:
    """Writes the model; the same arguments give the same answers."""
    import gguf
    import numpy as np

    tokens, merges = vocabulary()
    names = [*tokens, *SPECIAL]
    w = gguf.GGUFWriter(str(path), architecture)
    w.add_name("tiny")
    w.add_context_length(8192)
    w.add_embedding_length(WIDTH)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(64)
    w.add_head_count(HEADS)
    w.add_head_count_kv(1)
    w.add_key_length(KEY)
    w.add_value_length(KEY)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_rope_freq_base(1e6)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(names)
    w.add_token_types(
        [gguf.TokenType.NORMAL] * len(tokens) + [gguf.TokenType.CONTROL] * len(SPECIAL)
    )
    w.add_token_merges(merges)
    w.add_eos_token_id(len(tokens) + 2)
    w.add_pad_token_id(len(tokens))
    w.add_add_bos_token(False)
    if template:
        w.add_chat_template(template)
    random = np.random.default_rng(seed)

    def tensor(name: str, *shape: int) -> None:
        w.add_tensor(name, (random.standard_normal(shape) * 0.3).astype(np.float32))

    def ones(name: str, n: int) -> None:
        w.add_tensor(name, np.ones(n, np.float32))

    tensor("token_embd.weight", len(names), WIDTH)
    ones("output_norm.weight", WIDTH)
    for i in range(LAYERS):
        ones(f"blk.{i}.attn_norm.weight", WIDTH)
        tensor(f"blk.{i}.attn_q.weight", HEADS * KEY, WIDTH)
        tensor(f"blk.{i}.attn_k.weight", KEY, WIDTH)
        tensor(f"blk.{i}.attn_v.weight", KEY, WIDTH)
        tensor(f"blk.{i}.attn_output.weight", WIDTH, HEADS * KEY)
        ones(f"blk.{i}.attn_q_norm.weight", KEY)
        ones(f"blk.{i}.attn_k_norm.weight", KEY)
        ones(f"blk.{i}.ffn_norm.weight", WIDTH)
        tensor(f"blk.{i}.ffn_gate.weight", 64, WIDTH)
        tensor(f"blk.{i}.ffn_up.weight", 64, WIDTH)
        tensor(f"blk.{i}.ffn_down.weight", WIDTH, 64)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path
