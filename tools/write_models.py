"""Writes the files of the packaged models: the static table and the encoder."""

from __future__ import annotations

import struct
import sys
from binascii import crc32
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import accumulate, pairwise
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gitmem.embedding import encoder_file
from gitmem.engine import embed


def tokens_of(file: mmap, count: int, ends: int, text: int) -> list[str]:
    """The tokens of a mapped file by their numbers; `ends`, `text`: where its two tables are."""
    places = struct.unpack_from(f"<{count + 1}I", file, ends)
    return [file[text + a : text + b].decode("utf-8") for a, b in pairwise(places)]


def write_table(path: str, name: str, tokens: Sequence[str], rows: np.ndarray[Any, Any]) -> str:
    """Write a table file as `embed.StaticTable` reads it, and return its space id.

    `rows` is int8 without -128, one row a token; `tokens` are unique, with "##" before those that
    continue a word, frequent ones first: then a question touches few pages.
    """
    count, dims = rows.shape
    texts = [token.encode("utf-8") for token in tokens]
    if len(set(texts)) != count or not 0 < count < (1 << embed.ROW_BITS) - 1:
        raise ValueError(f"{len(set(texts))} different tokens for {count} rows")
    if rows.dtype != np.int8 or rows.min() < -127:
        raise ValueError("rows are not int8 from -127 to 127")
    slots = 1 << (2 * count - 1).bit_length()  # at most half full
    table = [0] * slots
    for row, text in enumerate(texts):
        crc = crc32(text)
        slot = crc & (slots - 1)
        while table[slot]:
            slot = (slot + 1) & (slots - 1)
        table[slot] = (crc >> embed.ROW_BITS) << embed.ROW_BITS | (row + 1)
    ends = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
    text = b"".join(texts)
    text += bytes(-len(text) % 4)
    parts = [
        np.array(table, "<u4").tobytes(),
        ends.astype("<u4").tobytes(),
        text,
        (rows.astype(np.int16) + 128).astype(np.uint8).tobytes(),
    ]
    at = [embed.HEADER.size]
    for part in parts:
        at.append(at[-1] + len(part))
    body = b"".join(parts)
    longest = max(len(token.removeprefix("##")) for token in tokens)
    fields = (embed.MAGIC, dims, count, slots, at[0], at[1], at[2], at[3], at[4], longest)
    digest = sha256(body).digest()
    head = embed.HEADER.pack(*fields, name.encode("ascii"), digest, 0)[:-4]
    with open(path, "wb") as file:
        file.write(head + crc32(head).to_bytes(4, "little") + body)
    return embed.space_id(name, digest)


def write_encoder(
    path: str, name: str, vocabulary: Sequence[str], heads: int, parts: Mapping[str, bytes]
) -> str:
    """Write an encoder's file and return its space id.

    `vocabulary` is sorted by UTF-8 bytes. `parts` has every array of `arrays`, as
    little-endian bytes; their sizes say how many dimensions and layers there are.
    """
    texts = [token.encode("utf-8") for token in vocabulary]
    if texts != sorted(set(texts)):
        raise ValueError("the vocabulary is not sorted, or has a token twice")
    dims = len(parts["norm.bias"]) // 4
    inner = len(parts["0.up.bias"]) // 4
    layers = sum(part.endswith(".qkv") for part in parts)
    positions = len(parts["positions"]) // (4 * dims)
    places = list(encoder_file.arrays(len(texts), dims, layers, inner, positions))
    for part, kind, shape in places:
        if len(parts[part]) != encoder_file.bytes_of(kind, shape):
            raise ValueError(
                f"'{part}' has {len(parts[part])} bytes, not {encoder_file.bytes_of(kind, shape)}"
            )
    ends = list(accumulate(map(len, texts), initial=0))
    pieces = [struct.pack(f"<{len(ends)}I", *ends), b"".join(texts)]
    pieces += [parts[part] for part, _, _ in places]
    body = bytes(encoder_file.aligned(encoder_file.HEADER.size) - encoder_file.HEADER.size)
    body += b"".join([piece.ljust(encoder_file.aligned(len(piece)), b"\0") for piece in pieces])
    digest = sha256(body).digest()
    longest = max(len(token.removeprefix("##")) for token in vocabulary)
    sizes = (len(texts), dims, layers, heads, inner, positions, longest)
    total = encoder_file.HEADER.size + len(body)
    head = encoder_file.HEADER.pack(
        encoder_file.MAGIC, *sizes, ends[-1], total, name.encode("ascii"), digest, 0
    )[:-4]
    with open(path, "wb") as file:
        file.write(head + crc32(head).to_bytes(4, "little") + body)
    return encoder_file.space_id(name, digest)
