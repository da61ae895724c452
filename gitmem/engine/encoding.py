"""The packaged encoder, opened once a process, and the vectors that it has made of memories.

Promises. Nothing is loaded before the first question that needs it: numpy costs five times what a
process with SQLite costs. Nobody waits for the background: of the memories without a vector of the
encoder, those that words and table find first are read with the question.
"""

from __future__ import annotations

import time

from . import model_vectors
from .embed import sign_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ..embedding.encoder import Encoder
    from .cache import Cache

THREADS = 2  # processors that the background takes at most
AT_ONCE = 200  # characters of a memory that are read while a question waits: 10 ms
PORTION = 60.0  # seconds at a time that the background takes: other events wait for no more
EXACT = 100_000  # memories up to which every vector is compared

_opened: list[Encoder | None] = []


def encoder() -> Encoder | None:
    """The packaged encoder; None where it cannot be used: numpy or its file is broken."""
    if not _opened:
        from ..embedding.encoder_file import EncoderDamaged

        try:
            from ..embedding.encoder import Encoder

            _opened.append(Encoder())
        except (ImportError, EncoderDamaged):
            _opened.append(None)
    return _opened[0]


def read(question: str, texts: Iterable[str] = (), until: float = 0.0) -> list[bytes]:
    """The vector of a question, and of what it waits for by its first AT_ONCE characters: of the
    first texts only where it is `until` (monotonic; 0: never). [] where there is no encoder.
    """
    found = encoder()
    if not found:
        return []
    made = found.embed([question])
    for text in texts:
        if until and time.monotonic() >= until:
            break
        made += found.embed([text[:AT_ONCE]])
    return made


def space() -> tuple[str, int]:
    """Name and dimensions of the encoder's space, read from the head of its file; ("", 0) where
    there is none.
    """
    from ..embedding.encoder_file import EncoderDamaged, EncoderFile

    try:
        file = EncoderFile()
    except EncoderDamaged:
        return "", 0
    return file.space, file.dims


def nearest(
    cache: Cache,
    question: bytes,
    allowed: Collection[int] | None,
    always: Iterable[int],
    most: int,
    beside: Mapping[int, bytes],
) -> tuple[dict[int, float], dict[int, float]]:
    """What `nearness.nearest` finds among the vectors of the memories; in stores of more than EXACT
    among those that sign codes choose.
    """
    from . import nearness

    name, dims = space()
    count = cache.count()
    if count <= EXACT:
        parts = model_vectors.read(cache, name, dims)
        return nearness.nearest(parts, question, allowed, always, most, beside, count)
    codes = model_vectors.codes(cache, name, dims)
    places, sample = nearness.sifted(codes, sign_code(question), allowed, always)
    parts = nearness.only(model_vectors.read(cache, name, dims, sorted(places)), places)
    return nearness.nearest(parts, question, allowed, always, most, beside, count, sample)


def without(cache: Cache, rows: Sequence[int]) -> list[int]:
    """Those of the rows that have no vector yet."""
    return model_vectors.without(cache, space()[0], rows)


def missing(cache: Cache) -> int:
    """How many memories wait for their vector."""
    name, _ = space()
    return model_vectors.missing(cache, name) if name else 0


def embedder() -> _Threads | None:
    """The encoder on THREADS processors; None where it cannot be used. What it makes is stored, so
    the whole file must match its checksum.
    """
    from ..embedding.encoder_file import EncoderDamaged

    found = encoder()
    try:
        if found:
            found.file.verify()
    except EncoderDamaged:
        return None
    return _Threads(found) if found else None


def fill(cache: Cache, seconds: float = PORTION) -> int:
    """Makes vectors of memories that have none, the newest first; returns how many."""
    found = embedder()
    if not found:
        return 0
    return model_vectors.fill(cache, found, until=time.monotonic() + seconds, wait=seconds)


class _Threads:
    """The encoder on THREADS processors: numpy holds no lock while it multiplies."""

    def __init__(self, one: Encoder) -> None:
        self._one = one
        self.space, self.dims = one.space, one.dims

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        from concurrent.futures import ThreadPoolExecutor

        # By turns, since texts beside each other are often of one length.
        parts = [texts[part::THREADS] for part in range(THREADS)]
        with ThreadPoolExecutor(THREADS) as pool:
            made = list(pool.map(self._one.embed, parts))
        return [made[i % THREADS][i // THREADS] for i in range(len(texts))]
