"""Whether the chosen model can be used, for doctor, `model list` and `capture`.

Owns `mem/model.failed`: why the language model gave no answer when it was asked last. It counts
for the unchanged file that failed; the next answer removes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from ..git import memfile
from ..git.config import Config
from . import chosen, llamaproc, registry
from .chosen import Choice

FAILED = "model.failed"
_LONGEST = 400  # characters of a reason
SETTING = {registry.LANGUAGE: "model", registry.EMBEDDING: "embedModel"}
_INSTEAD = {
    registry.LANGUAGE: "capture goes on with rules alone",
    registry.EMBEDDING: "recall goes on with the packaged table",
}


class State(NamedTuple):
    """`problem`: why `choice` is not used, "" where it is used or none is wanted."""

    choice: Choice
    problem: str
    hint: str


def state(kind: str, setting: str, environ: Mapping[str, str], mem_dir: str) -> State:
    """The model in use and its problem; loads nothing."""
    hint = f"{_INSTEAD[kind]}; `git mem model list` names what is here"
    try:
        found = chosen.choice(kind, setting, environ)
    except OSError as e:
        found = Choice("", setting, "", f"the model '{setting}' cannot be used: {e}")
    if not found.path:
        return State(found, found.reason, hint)
    if not llamaproc.available():
        problem = f"the model '{found.name}' is here, but not llama.cpp"
        return State(found, problem, f"{_INSTEAD[kind]}; `pip install 'git-mem[llm]'` adds it")
    why = _failed(mem_dir, found.path) if kind == registry.LANGUAGE else ""
    return State(found, failure(found.name, why) if why else "", hint)


def failure(name: str, why: str) -> str:
    said = " ".join(why.split())[:_LONGEST]
    return f"the model '{name}' gave no answer when it was asked last: {said}"


def remarks(settings: Config, environ: Mapping[str, str], mem_dir: str) -> list[tuple[str, str]]:
    """(problem, hint) for doctor, of each model that a setting names."""
    found = {name: state(k, settings[name], environ, mem_dir) for k, name in SETTING.items()}
    return [(f"mem.{name}: {s.problem}", s.hint) for name, s in found.items() if s.problem]


def note(mem_dir: str, path: str, why: str) -> None:
    """Keeps why the model gave no answer; "" says that it did. Best effort."""
    kept = os.path.join(mem_dir, FAILED)
    with suppress(OSError):
        if why:
            facts = {"path": path, "stamp": chosen.stamp(path), "reason": why}
            memfile.write(kept, json.dumps(facts).encode())
        elif os.path.lexists(kept):
            os.unlink(kept)


def _failed(mem_dir: str, path: str) -> str:
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        found = json.loads(memfile.read(os.path.join(mem_dir, FAILED), 1 << 16))
        if (found["path"], tuple(found["stamp"])) == (path, chosen.stamp(path)):
            return str(found["reason"])
    return ""
