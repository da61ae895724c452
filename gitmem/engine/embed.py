"""Text to vectors from the packaged static table, in plain Python.

Promises. Every agent prompt waits for this import: few modules of the standard library. A question
reads some rows of 256 bytes, never the 8 MB. Integer arithmetic from the first row to the finished
vector, so `vectors` (numpy) and every machine give the same bytes. Any `str` is accepted, and the
work is bounded by `MAX_CHARS` and `MAX_WORDS`. Vectors may be compared only within one `space`. A
text without any known word gives the zero vector, which matches nothing.
"""

from __future__ import annotations

import mmap
import os
import struct
from binascii import crc32
from itertools import chain, pairwise

from .int8_vectors import quantise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Protocol

    class Embedder(Protocol):
        """`embed` gives one vector of `dims` signed bytes a text."""

        @property
        def space(self) -> str: ...
        @property
        def dims(self) -> int: ...
        def embed(self, texts: Sequence[str]) -> list[bytes]: ...


# A text counts up to here, whichever comes first. What stands first says most (a title, a
# docstring), so the sum is that of the first 16, the first 64 and the first 256 words. nDCG@10,
# mean of five sets, vectors alone and fused with BM25: 0.411 and 0.523; 512 words alike 0.387 and
# 0.517; 32 words alone 0.377 and 0.521; (32, 128, 512) 0.404 and 0.520.
HEADS = (16, 64, 256)
MAX_CHARS = 8192
MAX_WORDS = HEADS[-1]
# A word of more letters or pieces is a hash or base64 and is skipped (+0.003).
MAX_WORD_CHARS = 100
MAX_PIECES_ASCII, MAX_PIECES = 6, 24

TABLE_PATH = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "static.tbl")

# File format 1, little-endian: this header; a hash table of u32 slots (15 bits of the CRC-32 << 17
# | row + 1, zero is empty, linear probing); the end offset of each token's text, after one zero, as
# u32; the texts in UTF-8; the rows, `dims` bytes each, every value plus 128: bytes without a sign.
HEADER = struct.Struct("<8s9I32s32sI")
MAGIC = b"gmemtbl\x01"
ROW_BITS = 17


class TableDamaged(Exception):
    """The static table is missing, cut short or not a table."""


ENCODING = 1  # raise it when the code turns the same text and table into other vectors


def space_id(name: str, digest: bytes) -> str:
    """The name of a space: the table, its content, and how this module uses it."""
    return f"{name}-{digest[:4].hex()}-e{ENCODING}"


# HTTPServer2 parse_row utf8 -> HTTP Server2 parse row utf8. Punctuation is dropped (nDCG@10 of
# vectors alone 0.27 with it, 0.34 without; splitting camelCase adds 0.002 to 0.005). Without `re`,
# which costs a prompt 6 ms; the pattern would be [a-z0-9]+|[A-Z][a-z0-9]+|[A-Z]+(?![a-z])[0-9]*
_SPACED = "".join([c if c.isalnum() else " " for c in map(chr, range(128))])


def _ascii_words(text: str) -> list[str]:
    out: list[str] = []
    for run in text.translate(_SPACED).split():
        rest = run[1:]
        if (
            not rest
            or run.islower()
            or run.isdigit()
            or rest.islower()
            or (rest.isdigit() and run[0] < "a")
        ):
            out.append(run)
        else:
            out += _humps(run)
    return out


def _humps(run: str) -> list[str]:
    """The words of letters and digits that stand together."""
    out: list[str] = []
    start, length = 0, len(run)
    while start < length:
        at = start + 1
        if "A" <= run[start] <= "Z" and (at == length or "A" <= run[at] <= "Z"):
            while at < length and "A" <= run[at] <= "Z":
                at += 1
            if at < length and run[at] >= "a":
                at -= 1
            else:
                while at < length and run[at] <= "9":
                    at += 1
        else:
            while at < length and not "A" <= run[at] <= "Z":
                at += 1
        out.append(run[start:at])
        start = at
    return out


# BERT treats each of these characters as a word of its own.
_CJK = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f"  # noqa: E501


def _any_words(text: str) -> list[str]:
    """Like `_ascii_words` for every script: accents off, CJK one by one."""
    global _findall
    import re
    from unicodedata import category, normalize

    if _findall is None:  # 1 ms to compile, and most prompts are ASCII
        _findall = re.compile(
            f"[^\\W_A-Z{_CJK}]+|[A-Z][^\\W_A-Z{_CJK}]+|[A-Z]+(?![a-z])[0-9]*|[{_CJK}]"
        ).findall
    text = normalize("NFD", text)
    for char in sorted(set(text)):
        if char > "\u02ff" and category(char) == "Mn":
            text = text.replace(char, "")
    return _findall(text)


_findall: Callable[[str], list[str]] | None = None


def words(text: str) -> list[str]:
    """The words that count, in order, in their own case."""
    text = text.lstrip()[:MAX_CHARS]
    found = _ascii_words(text) if text.isascii() else _any_words(text)
    return found[:MAX_WORDS]


def damp(rows: list[int]) -> list[int]:
    """Of n repeats keep n.bit_length(), in any order: the 1st, 2nd, 4th, 8th … count.

    This took nDCG@10 of vectors alone from 0.372 to 0.391; square roots, which are no integers,
    gave 0.395, counting each word once 0.363.
    """
    counts = dict.fromkeys(rows, 0)
    if len(counts) == len(rows):
        return rows
    for row in rows:
        counts[row] += 1
    more = [(row, n.bit_length() - 1) for row, n in counts.items() if n > 1]
    return [*counts, *[row for row, n in more for _ in range(n)]]


class _Kept(dict[str, "tuple[Any, ...]"]):
    """What `make` makes of a text; asking for a new one adds it."""

    def __init__(self, make: Callable[[str], tuple[Any, ...]]) -> None:
        self._make = make

    def __missing__(self, text: str) -> tuple[Any, ...]:
        made = self._make(text)
        if len(text) <= MAX_WORD_CHARS:
            if len(self) >= 100_000:  # about 20 MB
                self.clear()
            self[text] = made
        return made


class StaticTable:
    """Token vectors in a mapped file; an embedder. Safe to share between threads."""

    def __init__(self, path: str = TABLE_PATH) -> None:
        try:
            with open(path, "rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: an empty file
            raise TableDamaged(f"cannot open static table '{path}': {error}") from None
        self.path = path
        self._read_header()
        self._words = _Kept(lambda word: self._split(word.lower()))
        # Letters and digits that stand together, and the rows of each word in them.
        self._runs = _Kept(lambda run: tuple([self._words[word] for word in _ascii_words(run)]))

    def _read_header(self) -> None:
        size = len(self._map)
        header = self._map[: HEADER.size].ljust(HEADER.size)
        (magic, self.dims, self.rows, self._slots, at_slots, self._ends, self._text, self._at_rows,
         total, self._longest, name, self.digest, crc) = HEADER.unpack(header)  # fmt: skip
        rows = self.rows * self.dims
        if (magic, crc) != (MAGIC, crc32(header[:-4])) or not total == size == self._at_rows + rows:
            raise TableDamaged(f"'{self.path}' ({size} bytes) is no whole static table of format 1")
        self.space = space_id(name.rstrip(b"\0").decode("ascii", "replace"), self.digest)
        self._at_slots = at_slots
        self._mask = self._slots - 1

    def _find(self, token: bytes) -> int:
        """The row of a token, or -1."""
        data = self._map
        crc = crc32(token)
        tag = crc >> ROW_BITS
        slot = crc & self._mask
        for _ in range(self._slots):
            (entry,) = _U32(data, self._at_slots + 4 * slot)
            if not entry:
                return -1
            if entry >> ROW_BITS == tag:
                row = (entry & ((1 << ROW_BITS) - 1)) - 1
                if row >= self.rows:
                    break
                start, end = _TWO_U32(data, self._ends + 4 * row)
                if data[self._text + start : self._text + end] == token:
                    return int(row)
            slot = (slot + 1) & self._mask
        raise TableDamaged(f"static table '{self.path}' has a damaged index")

    def _split(self, word: str) -> tuple[int, ...]:
        """Rows of one lower-case word: greedy longest match, as WordPiece; none where a part is
        unknown.
        """
        length = len(word)
        if length > MAX_WORD_CHARS:
            return ()
        most = MAX_PIECES_ASCII if word.isascii() else MAX_PIECES
        rows: list[int] = []
        start = 0
        while start < length:
            if len(rows) == most:
                return ()
            prefix = "##" if start else ""
            for end in range(min(length, start + self._longest), start, -1):
                row = self._find((prefix + word[start:end]).encode("utf-8", "surrogatepass"))
                if row >= 0:
                    rows.append(row)
                    start = end
                    break
            else:
                return ()
        return tuple(rows)

    def counted(self, text: str) -> list[int]:
        """The rows that make a text's vector, with repeats: those of the pieces in each of `HEADS`,
        once for a text within the first head, since three equal heads would give the same vector.
        """
        text = text.lstrip()[:MAX_CHARS]
        if text.isascii():
            runs = text.translate(_SPACED).split()[:MAX_WORDS]
            pieces = list(chain.from_iterable(map(self._runs.__getitem__, runs)))[:MAX_WORDS]
        else:
            pieces = list(map(self._words.__getitem__, words(text)))
        found = [damp(list(chain.from_iterable(pieces[: HEADS[0]])))]
        for before, head in pairwise(HEADS) if len(pieces) > HEADS[0] else ():
            longer = len(pieces) > before
            found.append(damp(list(chain.from_iterable(pieces[:head]))) if longer else found[-1])
        return list(chain.from_iterable(found))

    def vector(self, text: str) -> bytes:
        """One text's vector; zero if no word of it is known."""
        rows = self.counted(text)
        dims, data, base = self.dims, self._map, self._at_rows
        if not rows:
            return bytes(dims)
        # All dimensions at once, each a 32-bit lane of one long integer (at most 3 * 8192 pieces of
        # 255): twice as fast as sum() over zip(*rows).
        lanes = bytearray(4 * dims)
        total = 0
        for row in rows:
            at = base + row * dims
            lanes[::4] = data[at : at + dims]
            total += int.from_bytes(lanes, "little")
        bias = 128 * len(rows)
        sums = struct.unpack(f"<{dims}I", total.to_bytes(4 * dims, "little"))
        return quantise([x - bias for x in sums])

    def embed(self, texts: Iterable[str]) -> list[bytes]:
        """One vector a text. For thousands of texts use `vectors.embed_many`."""
        return [self.vector(text) for text in texts]

    def raw_rows(self) -> bytes:
        return self._map[self._at_rows :]

    def verify(self) -> None:
        """Read the whole file (10 ms) and raise `TableDamaged` if a bit has changed."""
        from hashlib import sha256

        if sha256(self._map[HEADER.size :]).digest() != self.digest:
            raise TableDamaged(f"static table '{self.path}' does not match its checksum")


_U32 = struct.Struct("<I").unpack_from
_TWO_U32 = struct.Struct("<2I").unpack_from
