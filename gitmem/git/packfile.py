"""The streams of git's object files: packs and loose objects.

Nothing is written, and a file is mapped, never read as a whole: packs have gigabytes.
"""

from __future__ import annotations

import contextlib
import mmap
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def mapped(path: str) -> Iterator[mmap.mmap]:
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def inflated(data: mmap.mmap, width: int) -> Iterator[bytes]:
    """The inflated content of a loose object, or of the objects and deltas of a pack, up to where
    the file ends or is damaged.
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
