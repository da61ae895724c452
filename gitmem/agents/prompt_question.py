"""What a prompt asks, and the encoder that reads it while the memories are opened."""

from __future__ import annotations

import os

from ..embedding import reader
from ..git import memfile
from . import prefork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..engine.search import Chosen
    from ..models.warm_vectors import WarmVectors
    from .call import Call

_ASKED = "encoder-asked"  # a file in `mem/`: the last prompt was one that may ask the encoder


def of(prompt: str) -> str:
    """The text to search for: what the prompt asks, without a command's name."""
    from ..core import common_words  # not before the encoder has begun to load

    text = prompt.strip()
    if text.startswith("/"):
        command, _, rest = text.partition(" ")
        if command.startswith("/mem:"):
            return ""  # our own commands search themselves
        if "/" not in command[1:] and "." not in command:  # else a path
            text = rest
    return common_words.asked(text)


_prepared: list[reader.Beside] = []


def prepare(mem_dir: str, text: str, until: float) -> bytes:
    """In a process that waits for its call: begins what `encoder` will give it, and has it read a
    text until then (monotonic). The text's vector, b"" where the last prompt did not ask.
    """
    made = reader.beside() if os.path.exists(os.path.join(mem_dir, _ASKED)) else None
    if not made:
        return b""
    if vector := made.rehearse(text, until):
        _prepared.append(made)
    else:
        made.end()
    return vector


def encoder(event: str, environ: Mapping[str, str]) -> reader.Beside | None:
    """The encoder in a process beside, which loads it before anybody knows prompt and settings;
    None where the last prompt did not ask for it, and where a worker is at work: it takes the
    processor that this one would need.
    """
    prepared = _prepared.pop() if _prepared else None
    if _worth(event, environ):
        return prepared or reader.beside()
    if prepared:
        prepared.end()
    return None


def _worth(event: str, environ: Mapping[str, str]) -> bool:
    if event not in prefork.PROMPTS or environ.get("GIT_MEM_DISABLE", "") not in ("", "0"):
        return False
    try:
        mem_dir = prefork.mem_dir(environ)
        return os.path.exists(os.path.join(mem_dir, _ASKED)) and not _working(mem_dir)
    except (OSError, ValueError):
        return False


def _working(mem_dir: str) -> bool:
    if not os.path.exists(os.path.join(mem_dir, memfile.WORKER)):
        return False
    from ..hooks import spool  # takes a millisecond to load

    return not spool.asleep(mem_dir)


def reads(call: Call) -> reader.Read | None:
    """What makes the question's vector, None where the settings forbid it."""
    allowed = call.here.settings.flag("encoder")
    call.asks_encoder = allowed and not chosen(call)
    if not allowed:
        return None
    return call.encoder.read if call.encoder else reader.read


warm: list[WarmVectors] = []  # in a fork, the model that `prefork_server` keeps loaded


def chosen(call: Call) -> Chosen | None:
    """What asks the model that the user chose, where it is loaded."""
    for model in warm:
        if model.serves(call.here.settings):
            return model.question
    return None


def end(call: Call, environ: Mapping[str, str]) -> None:
    """Ends the process beside, and notes for the next prompt whether it is worth one."""
    if call.encoder:
        call.encoder.end()
    if call.asks_encoder == bool(call.encoder):
        return
    try:
        if call.asks_encoder:
            path = os.path.join(call.here.mem_dir, _ASKED)
            os.close(memfile.opened(path, os.O_WRONLY | os.O_CREAT))
        else:
            os.unlink(os.path.join(prefork.mem_dir(environ), _ASKED))
    except (OSError, ValueError):
        pass  # the next prompt loads it itself, or for nothing
