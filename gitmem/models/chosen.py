"""Which models are on this machine, which of them are in use, and why one that is wanted is not.

Owns the model directory (`GIT_MEM_MODEL_DIR`, else `~/.local/share/git-mem/models`) and its list
`models.json` of every file that was fetched or added. A file that the user added stays where it is
and is never deleted here. A fetched file has its checksum in its name, so no file takes the place
of another, and is deleted with its last name.

In use is the model of `GIT_MEM_MODEL` or `mem.model` (language), `GIT_MEM_EMBED_MODEL` or
`mem.embedModel` (vectors): a name or a path. Empty means the default language model if it was
fetched, and no model for vectors; `none` means none.

Owns `mem/model.failed` too: why the language model gave no answer when it was asked last. It counts
for the unchanged file that failed; the next answer removes it.
"""

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from ..core.errors import MemError
from ..git import memfile
from ..git.config import Config
from . import llamaproc, registry
from .registry import EMBEDDING, LANGUAGE

FAILED = "model.failed"
SETTING = {LANGUAGE: "model", EMBEDDING: "embedModel"}
_INSTEAD = {
    LANGUAGE: "capture goes on with rules alone",
    EMBEDDING: "recall goes on with the packaged table",
}
_LONGEST = 400  # characters of a reason


class Installed(NamedTuple):
    """One file on the list. `ours`: `fetch` put it there. `stamp`: of the time of its checksum."""

    name: str
    kind: str
    path: str
    sha256: str
    ours: bool
    stamp: tuple[int, int]

    @property
    def unchanged(self) -> bool:
        return os.path.isfile(self.path) and stamp(self.path) == self.stamp


def stamp(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def _home(environ: Mapping[str, str], variable: str, default: str) -> str:
    home = environ.get("HOME") or os.path.expanduser("~")
    return os.path.join(environ.get(variable) or os.path.join(home, default), "git-mem")


def directory(environ: Mapping[str, str]) -> str:
    if given := environ.get("GIT_MEM_MODEL_DIR"):
        return _absolute(given)
    return os.path.join(_home(environ, "XDG_DATA_HOME", ".local/share"), "models")


def cache_directory(environ: Mapping[str, str]) -> str:
    """Where results computed from models may lie; deleting it costs time only."""
    return _home(environ, "XDG_CACHE_HOME", ".cache")


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def is_gguf(path: str) -> bool:
    try:
        with open(path, "rb") as f:
            return f.read(4) == b"GGUF"
    except OSError:
        return False


# The list


def installed(where: str) -> dict[str, Installed]:
    return {name: m for name, m in sorted(_read(where).items()) if os.path.isfile(m.path)}


def _read(where: str) -> dict[str, Installed]:
    """{name: file}; a damaged list counts as empty."""
    try:
        with open(os.path.join(where, "models.json"), encoding="utf-8") as f:
            entries = json.load(f)
        return {e["name"]: Installed(**{**e, "stamp": tuple(e["stamp"])}) for e in entries}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def _write(where: str, entries: dict[str, Installed]) -> None:
    path = os.path.join(where, "models.json")
    new = f"{path}.new{os.getpid()}"
    try:
        os.makedirs(where, mode=0o700, exist_ok=True)
        with open(new, "w", encoding="utf-8") as f:
            json.dump([m._asdict() for m in entries.values()], f, indent=1)
        os.replace(new, path)
    except OSError as e:
        from . import fetch

        raise MemError(f"cannot write '{path}': {e.strerror}", hint=fetch.ELSEWHERE) from None


def _check_free(where: str, name: str, path: str, sha256: str) -> None:
    known, other = registry.find(name), _read(where).get(name)
    if known is not None and known.sha256 != sha256:
        message = f"'{path}' is not the file that is known as '{known.name}'"
    elif other is not None and other.path != path and os.path.isfile(other.path):
        message = f"'{name}' is the name of another file, '{other.path}'"
    else:
        return
    raise MemError(message, hint="give this one another name with --name")


def present(where: str, name: str, sha256: str) -> str:
    """The path of the unchanged file of this name and checksum, "" where there is none."""
    found = _read(where).get(name)
    return found.path if found and found.sha256 == sha256 and found.unchanged else ""


def place(where: str, name: str, url: str, sha256: str) -> str:
    """Where the file from this address belongs. Raises MemError where the name is taken."""
    path = os.path.join(where, f"{stem_of(url)}-{sha256[:16]}.gguf")
    _check_free(where, name, path, sha256)
    return path


def stem_of(url: str) -> str:
    """A name for the file at an address: the end of its path, in plain letters."""
    last = re.split("[?#]", url)[0].rsplit("/", 1)[-1].removesuffix(".gguf")
    return re.sub(r"[^A-Za-z0-9_.+-]", "_", last)[:80].strip("._-") or "model"


def note(where: str, name: str, path: str, sha256: str, kind: str, ours: bool) -> Installed:
    """Puts a file whose checksum was just taken on the list."""
    made = Installed(name, kind, path, sha256, ours, stamp(path))
    _write(where, {**_read(where), name: made})
    return made


def add(where: str, path: str, name: str, kind: str, sha256: str) -> Installed:
    """Puts a file of the user's on the list, by default under the name that the registry has for
    this very file. Raises MemError for a file that is no model.
    """
    path = _absolute(path)
    if not os.path.isfile(path):
        raise MemError(f"no file '{path}'")
    if not is_gguf(path):
        raise MemError(f"'{path}' is no GGUF file", hint="llama.cpp reads models of this format")
    from . import fetch  # takes 20 ms to load

    found = fetch.digest(path)
    if sha256 and found != sha256.lower():
        raise MemError(f"'{path}' has the SHA-256 {found}, not {sha256.lower()}")
    known = next((m for m in registry.MODELS if m.sha256 == found), None)
    name = name or (known.name if known else os.path.splitext(os.path.basename(path))[0].lower())
    _check_free(where, name, path, found)
    return note(where, name, path, found, kind or (known.kind if known else ""), False)


def remove(where: str, name: str) -> Installed:
    """Takes a model off the list; deletes its file (then `ours` of the answer) only where `fetch`
    put it there and no other name has it.
    """
    entries = _read(where)
    found = entries.pop(name, None) or entries.pop(name.lower(), None)
    if found is None:
        raise MemError(f"no model '{name}' here", hint="`git mem model list` names them")
    shared = any(m.path == found.path for m in entries.values())
    delete = found.ours and os.path.dirname(found.path) == where and not shared
    if delete:
        with suppress(OSError):
            os.unlink(found.path)
    _write(where, entries)
    return found._replace(ours=delete)


# The model in use


class Choice(NamedTuple):
    """`path` is "" where there is no usable file. `problem`: why the model is not used, "" where it
    is used or none is wanted. `name`: as the user knows it.
    """

    path: str = ""
    name: str = ""
    sha256: str = ""
    problem: str = ""


def choice(kind: str, setting: str, environ: Mapping[str, str], mem_dir: str = "") -> Choice:
    """The model in use; loads nothing. `setting` is the value of `mem.model` or `mem.embedModel`;
    with `mem_dir` the last failure counts as a problem.
    """
    found = _wanted(kind, setting, environ)
    if found.path and not llamaproc.available():
        return found._replace(problem=f"the model '{found.name}' is here, but not llama.cpp")
    why = _failed(mem_dir, found.path) if found.path and mem_dir and kind == LANGUAGE else ""
    return found._replace(problem=failure(found.name, why)) if why else found


def _wanted(kind: str, setting: str, environ: Mapping[str, str]) -> Choice:
    language = kind == LANGUAGE
    asked = environ.get("GIT_MEM_MODEL" if language else "GIT_MEM_EMBED_MODEL") or setting
    name = asked or (registry.DEFAULT if language else "none")
    if name.lower() == "none":
        return Choice()
    entries = _read(directory(environ))
    if found := entries.get(name) or entries.get(name.lower()):
        if found.unchanged:
            return Choice(found.path, found.name, found.sha256)
        why = f"the file '{found.path}' of the model '{found.name}' is not there, or has changed"
        return Choice(name=found.name, problem=why)
    if not asked:
        return Choice()
    if os.sep in name or name.endswith(".gguf"):
        path = _absolute(name)
        state = "no GGUF file" if os.path.exists(path) else "not there"
        return Choice(path, path) if is_gguf(path) else Choice("", path, "", f"'{path}' is {state}")
    why = "was not fetched" if registry.find(name) else "is neither known nor a path"
    return Choice(name=name, problem=f"the model '{name}' {why}")


def remarks(settings: Config, environ: Mapping[str, str], mem_dir: str) -> list[tuple[str, str]]:
    """(problem, hint) for doctor, of each model that a setting names."""
    out = []
    for kind, name in SETTING.items():
        found = choice(kind, settings[name], environ, mem_dir)
        hint = "`git mem model list` names what is here"
        if found.path and not llamaproc.available():
            hint = f"`{llamaproc.INSTALL}` adds it"
        if found.problem:
            out.append((f"mem.{name}: {found.problem}", f"{_INSTEAD[kind]}; {hint}"))
    return out


def failure(name: str, why: str) -> str:
    said = " ".join(why.split())[:_LONGEST]
    return f"the model '{name}' gave no answer when it was asked last: {said}"


def note_failure(mem_dir: str, path: str, why: str) -> None:
    """Keeps why the model gave no answer; "" says that it did. Best effort."""
    kept = os.path.join(mem_dir, FAILED)
    with suppress(OSError):
        if why:
            facts = {"path": path, "stamp": stamp(path), "reason": why}
            memfile.write(kept, json.dumps(facts).encode())
        elif os.path.lexists(kept):
            os.unlink(kept)


def _failed(mem_dir: str, path: str) -> str:
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        found = json.loads(memfile.read(os.path.join(mem_dir, FAILED), 1 << 16))
        if (found["path"], tuple(found["stamp"])) == (path, stamp(path)):
            return str(found["reason"])
    return ""
