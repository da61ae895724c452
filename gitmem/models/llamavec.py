"""Vectors by an embedding model, with the interface of the packaged table.
`space`, `dims`, `embed(texts) -> list[bytes]`.

The model runs in the process that `llamaproc` keeps. Promise: `space` names the model's file, how
it pools, and this module's arithmetic, so vectors of another model are never compared with these;
none come from a file that was written over. They are scaled and rounded as `int8_vectors.quantise`
does, so the same code searches them.
Raises NoVectors, and nothing else, where the model gives none.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from zlib import crc32

from ..core.errors import MemError
from ..engine import int8_vectors, model_vectors
from ..engine.cache import Cache
from . import chosen, llamaproc

_VERSION = 2
_SECONDS = 60.0  # for a text
_SCALE = 1 << 20


class NoVectors(MemError):
    """The embedding model did not answer."""


class LlamaVectors(llamaproc.Child):
    """An embedder, until its context ends; `name` and `sha256` as `chosen.choice` gives them."""

    def __init__(
        self, path: str, name: str, sha256: str, *, argv: Sequence[str] | None = None
    ) -> None:
        super().__init__(argv or llamaproc.command("embedding", path, ""))
        self._name = name.rsplit("/", 1)[-1]
        self._path, self._stamp = path, chosen.stamp(path)
        self._prefix = prefix(path, name, sha256)
        self._about: tuple[int, int] | None = None

    @property
    def space(self) -> str:
        return f"{self._prefix}{self._known()[1]}"

    @property
    def dims(self) -> int:
        return self._known()[0]

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """One vector a text; zeros for an empty one."""
        # Each with time of its own: a batch of long ones may take minutes.
        return [self._made({"op": "embed", "texts": [text]}) for text in texts]

    def question(self, text: str) -> bytes:
        """The vector of a question: some models want to be told that it is one."""
        return self._made({"op": "embed", "texts": [text], "query": True})

    def _known(self) -> tuple[int, int]:
        """(length of a vector, how the model pools)."""
        if self._about is None:
            answer = self._answer({"op": "about"})
            try:
                self._about = int(answer["dims"]), int(answer["pooling"])
            except (KeyError, TypeError, ValueError):
                raise NoVectors("the embedding model gave a broken answer") from None
        return self._about

    def _made(self, request: dict[str, object]) -> bytes:
        answer = self._answer(request).get("vectors")
        try:
            (vector,) = [
                int8_vectors.quantise([round(_SCALE * x) for x in v]) for v in answer or ()
            ]
        except (TypeError, ValueError, OverflowError):
            raise NoVectors("the embedding model gave a vector that is none") from None
        if len(vector) != self.dims:
            raise NoVectors("the embedding model gave a broken answer")
        return vector

    def _answer(self, request: dict[str, object]) -> dict[str, Any]:
        for _ in range(2):  # once more, should it have crashed
            answer = self.call(request, _SECONDS)
            if answer is not None:
                self._check_file()
                return answer
        raise NoVectors(
            f"the embedding model '{self._name}' does not answer: {self.reason}",
            hint="`git mem model use none --embed` goes back to the packaged table",
        )

    def _check_file(self) -> None:
        """What it answers from a file that was written over belongs to no space."""
        with suppress(OSError):
            if chosen.stamp(self._path) == self._stamp:
                return
        raise NoVectors(f"the file of the embedding model '{self._name}' has changed")


def of(choice: chosen.Choice) -> LlamaVectors:
    """The embedder of a choice that has a file."""
    return LlamaVectors(choice.path, choice.name, choice.sha256)


def made(cache: Cache, choice: chosen.Choice) -> str:
    """The space that a choice has in a cache, "" for none: known without asking its model."""
    return model_vectors.named(cache, prefix(choice.path, choice.name, choice.sha256))


def prefix(path: str, name: str, sha256: str) -> str:
    """How the names of a model's spaces begin."""
    found = os.stat(path)
    stamp = f"{os.path.abspath(path)} {found.st_size} {found.st_mtime_ns}"
    mark = sha256[:12] or f"{crc32(stamp.encode()):08x}"
    return f"{name.rsplit('/', 1)[-1]}-{mark}-v{_VERSION}-p"
