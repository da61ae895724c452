"""The encoder's file: vocabulary and int8 weights in one mapped file.

Opening reads the header only; the system pages in what is used later. Standard library only.

File format 1, little-endian: the header; the end of each token's text, after one zero, as u32; the
texts in UTF-8, sorted by their bytes, so a token's number is its place in this order; then the
arrays of `arrays`. Every part begins at a multiple of 64 bytes.
"""

from __future__ import annotations

import mmap
import os
import struct
from binascii import crc32
from itertools import chain
from math import prod

from . import EncoderDamaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Spec = tuple[str, str, tuple[int, ...]]  # name, kind, shape of an array
    Places = dict[str, tuple[str, tuple[int, ...], int]]

_DATA = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data")
ENCODER_PATH = os.path.join(_DATA, "encoder.bin")
# One more layer, for turns of chats: the arrays of `layer_numbers` and `layer_matrices`.
TURN_PATH = os.path.join(_DATA, "turn_layer.bin")

# magic; tokens, dims, layers, heads, inner dims, positions, letters of the longest
# token without "##", bytes of text, bytes in all; name; SHA-256 of what follows the
# header; CRC-32 of the header before it.
HEADER = struct.Struct("<8s9I32s32sI")
MAGIC = b"gmemenc\x01"
ALIGN = 64

# Raise when the code turns the same text and file into other vectors.
ENCODING = 1


def arrays(tokens: int, dims: int, layers: int, inner: int, positions: int) -> Iterator[Spec]:
    """Name, kind (f: float32, b: int8) and shape of every array, in the order of the file.

    Linear layers are (inputs, outputs), with a scale and a bias for each output: y = (x @ weights)
    * scale + bias. A word's vector is its row times the row's scale.
    """
    yield "words.scale", "f", (tokens,)
    yield "positions", "f", (positions, dims)  # with the embedding of token type 0
    yield "norm.weight", "f", (dims,)
    yield "norm.bias", "f", (dims,)
    for layer in range(layers):
        yield from layer_numbers(f"{layer}", dims, inner)
    for layer in range(layers):
        yield from layer_matrices(f"{layer}", dims, inner)
    yield "words", "b", (tokens, dims)


def layer_numbers(layer: str, dims: int, inner: int) -> Iterator[Spec]:
    """What one layer has beside its matrices."""
    for name, _, (_, outputs) in layer_matrices(layer, dims, inner):
        yield f"{name}.scale", "f", (outputs,)
        yield f"{name}.bias", "f", (outputs,)
        if name.endswith(("out", "down")):
            yield f"{name}.norm.weight", "f", (dims,)
            yield f"{name}.norm.bias", "f", (dims,)


def layer_matrices(layer: str, dims: int, inner: int) -> Iterator[Spec]:
    yield f"{layer}.qkv", "b", (dims, 3 * dims)
    yield f"{layer}.out", "b", (dims, dims)
    yield f"{layer}.up", "b", (dims, inner)
    yield f"{layer}.down", "b", (inner, dims)


def places(arrays: Iterable[Spec], at: int) -> tuple[Places, int]:
    """Kind, shape and place of each array by its name, where the first begins at `at`; the end."""
    found = {}
    for name, kind, shape in arrays:
        found[name] = (kind, shape, at)
        at += aligned(bytes_of(kind, shape))
    return found, at


def bytes_of(kind: str, shape: tuple[int, ...]) -> int:
    return prod(shape) * (4 if kind == "f" else 1)


def aligned(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


class EncoderFile:
    """Sizes, `space`, tokens by text, arrays by name. Safe to share between threads."""

    def __init__(self, path: str = ENCODER_PATH) -> None:
        """Raises `EncoderDamaged`."""
        self.map = _mapped(path)
        self.path = path
        self._read_header()

    def _read_header(self) -> None:
        size = len(self.map)
        header = self.map[: HEADER.size].ljust(HEADER.size)
        magic, *sizes, name, self.digest, crc = HEADER.unpack(header)
        damaged = f"'{self.path}' ({size} bytes) is no whole encoder of format 1"
        if (magic, crc) != (MAGIC, crc32(header[:-4])):
            raise EncoderDamaged(damaged)
        self.tokens, self.dims, self.layers, self.heads, self.inner, self.positions, *sizes = sizes
        self.longest, text, total = sizes
        self._ends = aligned(HEADER.size)
        self._text = self._ends + aligned(4 * self.tokens + 4)
        at = self._text + aligned(text)
        known = (self.tokens, self.dims, self.layers, self.inner, self.positions)
        self.places, end = places(arrays(*known), at)
        if not end == total == size:
            raise EncoderDamaged(damaged)
        self.space = space_id(name.rstrip(b"\0").decode("ascii", "replace"), self.digest)

    def find(self, token: str) -> int:
        """A token's number, or -1: by bisection, 4 µs."""
        wanted = token.encode("utf-8", "surrogatepass")
        low, high = 0, self.tokens
        while low < high:
            middle = (low + high) // 2
            start, end = _TWO_U32(self.map, self._ends + 4 * middle)
            found = self.map[self._text + start : self._text + end]
            if found == wanted:
                return int(middle)
            if found < wanted:
                low = middle + 1
            else:
                high = middle
        return -1

    def verify(self) -> None:
        """Read the whole file (20 ms) and raise `EncoderDamaged` if a bit has changed."""
        from hashlib import sha256

        with memoryview(self.map) as whole, whole[HEADER.size :] as body:
            digest = sha256(body).digest()
        if digest != self.digest:
            raise EncoderDamaged(f"encoder '{self.path}' does not match its checksum")


def layer_file(path: str, layer: str, dims: int, inner: int) -> tuple[mmap.mmap, Places]:
    """The file of one layer, and where its arrays are. Raises `EncoderDamaged`."""
    arrays = chain(layer_numbers(layer, dims, inner), layer_matrices(layer, dims, inner))
    found, end = places(arrays, 0)
    file = _mapped(path)
    if len(file) != end:
        raise EncoderDamaged(f"'{path}' ({len(file)} bytes) is no whole layer")
    return file, found


def _mapped(path: str) -> mmap.mmap:
    try:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: an empty file
        raise EncoderDamaged(f"cannot open '{path}': {error}") from None


def space_id(name: str, digest: bytes) -> str:
    """The name of a space: the encoder, its content, and how the code uses it."""
    return f"{name}-{digest[:4].hex()}-e{ENCODING}"


_TWO_U32 = struct.Struct("<2I").unpack_from
