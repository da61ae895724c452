"""Whether the chosen model can be used, for doctor, `model list` and `capture`.

Owns `mem/model.failed`: why the language model gave no answer when it was asked last. It counts
for the unchanged file that failed; the next answer removes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
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
    instead = _INSTEAD[kind]
    listed = f"{instead}; `git mem model list` names what is here"
    try:
        found = chosen.choice(kind, setting, environ)
    except OSError as e:
        why = f"the model '{setting}' cannot be used: {e}"
        return State(Choice("", setting, "", why), why, listed)
    if found.reason:
        return State(found, found.reason, listed)
    if found.path and not llamaproc.available():
        return State(
            found,
            f"the model '{found.name}' is here, but not llama.cpp",
            f"{instead}; `pip install 'git-mem[llm]'` adds it",
        )
    why = _failed(mem_dir, found.path) if found.path and kind == registry.LANGUAGE else ""
    return State(found, failure(found.name, why) if why else "", listed)


def failure(name: str, why: str) -> str:
    said = " ".join(why.split())[:_LONGEST]
    return f"the model '{name}' gave no answer when it was asked last: {said}"


def remarks(settings: Config, environ: Mapping[str, str], mem_dir: str) -> list[tuple[str, str]]:
    """(problem, hint) for doctor, of each model that a setting names."""
    out = []
    for kind, name in SETTING.items():
        found = state(kind, settings[name], environ, mem_dir)
        if found.problem:
            out.append((f"mem.{name}: {found.problem}", found.hint))
    return out


def note(mem_dir: str, path: str, why: str) -> None:
    """Keeps why the model gave no answer; "" says that it did. Best effort."""
    kept = os.path.join(mem_dir, FAILED)
    try:
        if why:
            facts = {"path": path, "stamp": list(chosen.stamp(path)), "reason": why}
            memfile.write(kept, json.dumps(facts).encode())
        elif os.path.lexists(kept):
            os.unlink(kept)
    except OSError:
        pass


def _failed(mem_dir: str, path: str) -> str:
    try:
        found = json.loads(memfile.read(os.path.join(mem_dir, FAILED), 1 << 16))
        if (found["path"], found["stamp"]) == (path, list(chosen.stamp(path))):
            return str(found["reason"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        pass
    return ""
