"""git's binary files as far as deleting needs them: which ids a pack or a commit-graph names, what
the streams of a pack hold.

Promise: nothing is written, and a file is mapped, never read as a whole: packs have gigabytes.
"""

from __future__ import annotations

import contextlib
import mmap
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Ids:
    """Sorted object ids behind a table of 256 counts, as pack indexes and commit-graphs have
    them."""

    def __init__(
        self, data: bytes | mmap.mmap, counts: int, ids: int, step: int, width: int
    ) -> None:
        self._data = data
        self._counts = counts
        self._ids = ids
        self._step = step
        self._width = width

    def __len__(self) -> int:
        return self._count(255)

    def _count(self, first: int) -> int:
        at = self._counts + 4 * first
        return int.from_bytes(self._data[at : at + 4], "big")

    def _id(self, n: int) -> bytes:
        at = self._ids + n * self._step
        return self._data[at : at + self._width]

    def __contains__(self, id: bytes) -> bool:
        low, high = self._count(id[0] - 1) if id[0] else 0, self._count(id[0])
        while low < high:
            middle = (low + high) // 2
            found = self._id(middle)
            if found == id:
                return True
            low, high = (middle + 1, high) if found < id else (low, middle)
        return False

    def __iter__(self) -> Iterator[bytes]:
        return map(self._id, range(len(self)))


@contextlib.contextmanager
def mapped(path: str) -> Iterator[mmap.mmap]:
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def pack_index(data: mmap.mmap, width: int) -> Ids:
    if data[:4] == b"\xfftOc":
        return Ids(data, 8, 8 + 1024, width, width)
    return Ids(data, 0, 1024 + 4, width + 4, width)


def commit_graph(data: mmap.mmap, width: int) -> Ids:
    """Raises ValueError for a file that is none."""
    chunks = {
        data[at : at + 4]: int.from_bytes(data[at + 4 : at + 12], "big")
        for at in range(8, 8 + 12 * data[6], 12)
    }
    if data[:4] != b"CGPH" or not {b"OIDF", b"OIDL"} <= set(chunks):
        raise ValueError("no commit-graph")
    return Ids(data, chunks[b"OIDF"], chunks[b"OIDL"], width, width)


def inflated(data: mmap.mmap, width: int) -> Iterator[bytes]:
    """What a loose object or the objects and deltas of a pack hold, up to where the file ends or is
    damaged.
    """
    packed = data[:4] == b"PACK"
    at = 12 if packed else 0
    try:
        while at < len(data):
            if packed:
                kind = (data[at] >> 4) & 7
                while data[at] & 0x80:
                    at += 1
                at += 1
                if kind == 6:
                    while data[at] & 0x80:
                        at += 1
                    at += 1
                elif kind == 7:
                    at += width
            stream, tail = zlib.decompressobj(), b""
            while not stream.eof and at < len(data):
                block = data[at : at + 65536]
                part = tail + stream.decompress(block)
                at += len(block) - len(stream.unused_data)
                yield part
                tail = part[-64:]
    except (zlib.error, IndexError):
        return
