"""Sentence vectors by a small transformer, in numpy's core.

The arithmetic of all-MiniLM-L6-v2 (BERT: six layers, twelve heads, 384 dimensions; mean over the
tokens; cosine compares) on int8 weights.

Promises:

* A text's vector depends on that text alone: each is run by itself, without padding. Another
  processor or numpy may round some values to their neighbour; cosines move by less than 0.001.
* A process that embeds one question takes 2.3 times as long as one that imports sqlite3, and
  40 MiB: a part of one matrix at a time is widened to float32. One that embeds many may `pack`.
* Any `str` is accepted; a text counts up to `MAX_TOKENS` tokens.
* A damaged file gives wrong vectors, or `EncoderDamaged` where no number comes out.
  `EncoderFile.verify` notices any changed bit.
"""

from __future__ import annotations

import warnings  # numpy's core loads it anyhow
from mmap import mmap

from . import EncoderDamaged
from .encoder_file import ENCODER_PATH, TURN_PATH, EncoderFile, layer_file
from .numpy_core import ROOM, load
from .wordpiece import WordPiece

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .encoder_file import Places

    Array = Any

np = load()
F4, I1 = np.dtype("<f4"), np.dtype("i1")

# The model was trained on 128 and declares 256; longer texts are cut.
MAX_TOKENS = 256
EARLY = 4  # layers of six before TURN; `tools/train_turn_layer.py` must run again where it changes
TURN = "turn"  # the name of the layer that reads turns of chats
# Weights that are widened and multiplied at a time, whole columns of a matrix. They fit in the
# second-level cache, and with up to 20 tokens OpenBLAS has at most a million products to make for
# them, which it does without copying them first (SKYLAKEX, `sgemm_small_matrix_permit`). By whole
# matrices a question takes half as long again; another number rounds some values otherwise.
_BLOCK = 384 * 128
_ROWS = 32  # tokens at a time in `_gelu`: what it reads and writes fits in the cache


class Encoder:
    """The encoder in a mapped file; an embedder. Safe to share between threads."""

    def __init__(self, path: str = ENCODER_PATH) -> None:
        """Raises `EncoderDamaged`."""
        self.file = EncoderFile(path)
        self.space, self.dims = self.file.space, self.file.dims
        self._pieces = WordPiece(self.file.find, self.file.longest)
        if min(self._pieces.without_meaning) < 0:
            raise EncoderDamaged(f"encoder '{path}' has a damaged vocabulary")
        warnings.simplefilter("ignore", RuntimeWarning)  # `vector` looks at what comes out
        self._array: dict[str, Array] = {}
        self._parts: dict[str, list[Array]] = {}
        self._map(self.file.map, self.file.places)
        self._turn_layer = ""

    def _map(self, file: mmap, places: Places) -> None:
        """The arrays of a file; matrices of layers also in the parts that are read at a time."""
        for name, (kind, shape, at) in places.items():
            self._array[name] = array = np.ndarray(shape, F4 if kind == "f" else I1, file, at)
            if array.ndim == 2 and "." in name:
                self._parts[name] = _parts(array, _BLOCK // len(array))

    def pack(self) -> None:
        """Copies the weights into the order in which they are read: 11 MB, and a question then
        takes a sixth less time. Not one bit of a vector differs. Where memory is short the file's
        stay.
        """
        try:
            mmap(-1, sum(self._array[name].size for name in self._parts) + ROOM).close()
            for name, parts in list(self._parts.items()):
                self._parts[name] = [part.copy("C") for part in parts]
        except (MemoryError, OSError):
            pass

    def embed(self, texts: Iterable[str]) -> list[bytes]:
        """One vector a text: signed bytes, the largest 127; zeros without any known token. Raises
        `EncoderDamaged`.
        """
        return [quantise(self.vector(text)) for text in texts]

    def vector(self, text: str) -> Array:
        """A text's vector before it is rounded: float32, of length 1 or 0."""
        x = self._states(text, self.file.layers)
        return np.zeros(self.dims, F4) if x is None else self._unit(np.add.reduce(x, 0))

    def turn_vector(self, text: str) -> Array:
        """What a turn of a chat is judged by: mean and maximum over its tokens after EARLY layers,
        and after the one of `add_turn_layer`, which has to be called first. float32, four parts of
        length 1; the first two are 0 where no token has a meaning. Raises `EncoderDamaged`.

        Middle layers tell what kind of sentence a text has, the last ones what it is about
        (Jawahar and others, "What does BERT learn about the structure of language?", 2019).
        """
        x = self._states(text, EARLY)
        before = np.zeros(2 * self.dims, F4) if x is None else self._pooled(x)
        if x is None:
            x = np.zeros((1, self.dims), F4)  # as in training
        self._layer(x, TURN, np.empty(_BLOCK, F4))
        return np.concatenate([before, self._pooled(x)])

    def add_turn_layer(self, path: str = TURN_PATH) -> str:
        """Maps the layer that reads turns, once; returns the SHA-256 of its file in hex. Raises
        `EncoderDamaged`.
        """
        if not self._turn_layer:
            from ..core.digest import sha256  # no prompt needs it

            file, places = layer_file(path, TURN, self.dims, self.file.inner)
            self._map(file, places)
            self._turn_layer = sha256(file).hexdigest()
        return self._turn_layer

    def _pooled(self, x: Array) -> Array:
        parts = (np.add.reduce(x, 0), np.maximum.reduce(x, 0))
        return np.concatenate([self._unit(part) for part in parts])

    def _unit(self, vector: Array) -> Array:
        length = np.sqrt(vector @ vector)
        if not 0 < length < float("inf"):
            raise EncoderDamaged(f"encoder '{self.file.path}' has damaged weights")
        return vector / length

    def _states(self, text: str, layers: int) -> Array | None:
        """A row a token after so many layers; None where no token has a meaning."""
        tokens = self._pieces.tokens(text, MAX_TOKENS)
        if self._pieces.without_meaning.issuperset(tokens):
            return None
        x = self._array["words"][tokens].astype(F4)
        x *= self._array["words.scale"][tokens][:, None]
        x += self._array["positions"][: len(tokens)]
        self._norm(x, "norm")
        buffer = np.empty(_BLOCK, F4)
        for layer in range(layers):
            self._layer(x, f"{layer}", buffer)
        return x

    def _layer(self, x: Array, layer: str, buffer: Array) -> None:
        """One layer, in place."""
        mixed = self._attention(self._linear(x, f"{layer}.qkv", buffer))
        x += self._linear(mixed, f"{layer}.out", buffer)
        self._norm(x, f"{layer}.out.norm")
        inner = _gelu(self._linear(x, f"{layer}.up", buffer))
        x += self._linear(inner, f"{layer}.down", buffer)
        self._norm(x, f"{layer}.down.norm")

    def _linear(self, x: Array, name: str, buffer: Array) -> Array:
        """A linear layer. The scales are applied to what comes out, which is the smaller side."""
        parts = self._parts[name]
        y = np.empty((len(x), self._array[name].shape[1]), F4)
        for weights, out in zip(parts, _parts(y, parts[0].shape[1]), strict=True):
            wide = buffer[: weights.size].reshape(weights.shape)
            np.copyto(wide, weights)
            np.matmul(x, wide, out=out)
        y *= self._array[name + ".scale"]
        y += self._array[name + ".bias"]
        return y

    def _attention(self, qkv: Array) -> Array:
        """Softmax of query and key (scaled in the file) over values, for each head."""
        count = len(qkv)
        query, key, value = qkv.reshape(count, 3, self.file.heads, -1).transpose(1, 2, 0, 3)
        weight = query @ key.transpose(0, 2, 1)
        weight -= np.maximum.reduce(weight, 2, keepdims=True)
        np.exp(weight, out=weight)
        mixed = weight @ value
        mixed /= np.add.reduce(weight, 2, keepdims=True)
        return mixed.transpose(1, 0, 2).reshape(count, self.dims)

    def _norm(self, x: Array, name: str) -> Array:
        """Layer normalisation, in place."""
        x -= np.add.reduce(x, 1, keepdims=True) / self.dims
        x /= np.sqrt(np.vecdot(x, x) / self.dims + 1e-12)[:, None]
        x *= self._array[name + ".weight"]
        x += self._array[name + ".bias"]
        return x


def _parts(matrix: Array, columns: int) -> list[Array]:
    """Its columns, so many at a time."""
    return [matrix[:, at : at + columns] for at in range(0, matrix.shape[1], columns)]


# erfc(x) = t (a1 + t (a2 + ...)) exp(-x^2), t = 1 / (1 + p x), for x >= 0, to 1.5e-7:
# Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
_P = 0.3275911
_A = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def _gelu(x: Array) -> Array:
    """x times the normal distribution function of x: max(x, 0) - |x| erfc(|x| / sqrt 2) / 2."""
    for start in range(0, len(x), _ROWS):
        part = x[start : start + _ROWS]
        size = np.absolute(part)
        t = size * (_P / 2**0.5)
        t += 1
        np.reciprocal(t, out=t)
        tail = t * _A[4]
        for a in _A[3::-1]:
            tail += a
            tail *= t
        np.multiply(part, part, out=t)
        t *= -0.5
        tail *= np.exp(t, out=t)
        tail *= size
        tail *= 0.5
        np.maximum(part, 0, out=part)
        part -= tail
    return x


def quantise(vector: Array) -> bytes:
    """Scaled so that the largest magnitude is 127, rounded to the nearest, halves up."""
    top = np.maximum.reduce(np.absolute(vector)) or 1
    made: bytes = np.floor(vector * (127 / top) + 0.5).astype(I1).tobytes()
    return made
