"""The vectors that the packaged encoder, or a chosen model, makes of memories in the background."""

from __future__ import annotations

import os
import time

from ..embedding import EncoderDamaged
from ..embedding.reader import encoder
from . import model_vectors
from .cache import ENCODED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..embedding.encoder import Encoder
    from .cache import Cache
    from .embed import Embedder

THREADS = 2  # processors that the background takes at most
PORTION = 60.0  # seconds at a time that the background takes: other events wait for no more


def missing(cache: Cache) -> int:
    """How many memories wait for their vector."""
    return model_vectors.missing(cache, ENCODED[0])


def embedder(threads: int = THREADS) -> _Threads | None:
    """The encoder on some processors; None where it cannot be used. What it makes is stored, so
    the whole file must match its checksum.
    """
    found = encoder()
    try:
        if found:
            found.file.verify()
    except EncoderDamaged:
        return None
    return _Threads(found, threads) if found else None


def fill(
    cache: Cache,
    seconds: float | None = PORTION,
    progress: Callable[[int], None] = lambda n: None,
    model: Embedder | None = None,
) -> int:
    """Makes vectors of memories that have none, the newest first, for so many seconds (None: all of
    them), and finds the neighbours of each; returns how many were made. `model`: the one that the
    user chose, instead of the encoder; what it raises is raised.
    """
    # Whoever waits has all of them; the background leaves one for prompts.
    found = model or embedder(
        THREADS if seconds is None else max(1, min(THREADS, (os.cpu_count() or 1) - 1))
    )
    if not found:
        return 0
    until = None if seconds is None else time.monotonic() + seconds
    batch = 1 if model else model_vectors.BATCH  # a text may take a chosen model a minute
    wait = seconds or PORTION
    made = model_vectors.fill(cache, found, progress, until=until, wait=wait, batch=batch)
    from . import hubness

    hubness.refresh(cache, found.space)
    return made


class _Threads:
    """The encoder on some processors: numpy holds no lock while it multiplies."""

    def __init__(self, one: Encoder, threads: int) -> None:
        self._one, self._threads = one, threads
        self.space, self.dims = one.space, one.dims

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        from concurrent.futures import ThreadPoolExecutor

        # By turns, since texts beside each other are often of one length.
        threads = self._threads
        parts = [texts[part::threads] for part in range(threads)]
        with ThreadPoolExecutor(threads) as pool:
            made = list(pool.map(self._one.embed, parts))
        return [made[i % threads][i // threads] for i in range(len(texts))]
