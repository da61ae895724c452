"""What a prompt asks, and the encoder that reads it while the memories are opened."""

from __future__ import annotations

import os

from ..embedding import reader
from . import prefork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .call import Call

_LONG = 8_000  # characters of a prompt that are looked at: its begin and its end
# Stands in `mem/` where the encoder has made vectors of memories (`model_vectors.fill`).
_MADE = "vectors.lock"


def of(prompt: str) -> str:
    """The text to search for: the prompt without a command's name, of a long one begin and end."""
    text = prompt.strip()
    if text.startswith("/"):
        command, _, rest = text.partition(" ")
        if command.startswith("/mem:"):
            return ""  # our own commands search themselves
        if "/" not in command[1:] and "." not in command:  # else a path
            text = rest
    return text if len(text) <= _LONG else f"{text[: _LONG // 2]} {text[-_LONG // 2 :]}"


def encoder(event: str, environ: Mapping[str, str]) -> reader.Beside | None:
    """The encoder in a process beside, which loads it before anybody knows the prompt; None where
    it is hardly going to be asked.
    """
    off = environ.get("GIT_MEM_ENCODER", "true") == "false" or environ.get("GIT_MEM_DISABLE")
    if event not in prefork.PROMPTS or off:
        return None
    try:
        known = os.path.exists(os.path.join(prefork.mem_dir(environ), _MADE))
    except OSError:
        return None
    return reader.beside() if known else None


def begin(call: Call, question: str) -> reader.Read | None:
    """What will make the question's vector, and has begun to do so where it can."""
    if not call.here.settings.flag("encoder"):
        return None
    if call.encoder is None:
        return reader.read
    call.encoder.begin(question)
    return call.encoder.read
