"""Which models are on this machine, and which of them are in use.

Owns the model directory (`GIT_MEM_MODEL_DIR`, else `~/.local/share/git-mem/models`)
and its list `models.json`: name, path, size, checksum and stamp of every file that
was fetched or added. A file that the user added stays where it is and is
never deleted here. A fetched file has its checksum in its name, so no model's
file takes the place of another's, and it goes with the last name it has.

What is in use: `GIT_MEM_MODEL` and `GIT_MEM_EMBED_MODEL`, else the settings
`mem.model` and `mem.embedModel`; each a name or a path. Empty means, for the
language model, the default one if it was fetched, and for vectors none; `none`
means none. Promise: what this answers is a file that looks like a GGUF and
still has the size and time it had when its checksum was taken, or None with a reason.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..core.errors import MemError
from . import fetch, registry

MAGIC = b"GGUF"
_LIST = "models.json"
_SUM = 16  # digits of the checksum in a file's name
_STEM = 80  # characters of the address in it


class Installed(NamedTuple):
    """One file. `ours`: it lies in the model directory because `fetch` put it there."""

    name: str
    kind: str
    path: str
    size: int
    sha256: str
    ours: bool


def directory(environ: Mapping[str, str]) -> str:
    """Where fetched models lie."""
    given = environ.get("GIT_MEM_MODEL_DIR")
    if given:
        return os.path.abspath(os.path.expanduser(given))
    return os.path.join(
        environ.get("XDG_DATA_HOME")
        or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local", "share"),
        "git-mem",
        "models",
    )


def cache_directory(environ: Mapping[str, str]) -> str:
    """Where what was computed from models may lie; deleting it costs time only."""
    return os.path.join(
        environ.get("XDG_CACHE_HOME")
        or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".cache"),
        "git-mem",
    )


def is_gguf(path: str) -> bool:
    try:
        with open(path, "rb") as f:
            return f.read(4) == MAGIC
    except OSError:
        return False


# --- the list -------------------------------------------------------------------


def installed(where: str) -> list[Installed]:
    """What was fetched or added and is still there, by name."""
    return [
        Installed(
            name,
            str(e.get("kind", "")),
            str(e["path"]),
            int(e["size"]),
            str(e["sha256"]),
            bool(e.get("ours")),
        )
        for name, e in sorted(_read(where).items())
        if os.path.isfile(str(e["path"]))
    ]


def _read(where: str) -> dict[str, dict[str, Any]]:
    try:
        with open(os.path.join(where, _LIST), encoding="utf-8") as f:
            found = json.load(f)
    except (OSError, ValueError):
        return {}
    return (
        {
            str(k): v
            for k, v in found.items()
            if isinstance(v, dict) and {"path", "size", "sha256", "stamp"} <= set(v)
        }
        if isinstance(found, dict)
        else {}
    )


def _write(where: str, entries: dict[str, dict[str, Any]]) -> None:
    path = os.path.join(where, _LIST)
    new = f"{path}.new{os.getpid()}"
    try:
        os.makedirs(where, mode=0o700, exist_ok=True)
        with open(new, "w", encoding="utf-8") as f:
            json.dump(entries, f, indent=1, sort_keys=True)
        os.replace(new, path)
    except OSError as e:
        raise MemError(
            f"cannot write '{path}': {e.strerror}", hint="GIT_MEM_MODEL_DIR names another directory"
        ) from None


def _stamp(path: str) -> list[int]:
    found = os.stat(path)
    return [found.st_size, found.st_mtime_ns]


def file_of(url: str) -> str:
    """What the file at an address is called: the end of its path, in plain letters."""
    last = re.split("[?#]", url)[0].rsplit("/", 1)[-1]
    stem = re.sub(r"[^A-Za-z0-9_.+-]", "_", last.removesuffix(".gguf"))[:_STEM].strip("._-")
    return f"{stem or 'model'}.gguf"


def place(where: str, name: str, file: str, sha256: str) -> str:
    """Where the file of a model with this checksum belongs.

    Raises MemError where the name is that of another file.
    """
    other = registry.find(name)
    entries = _read(where)
    entry = entries.get(name)
    if (other is not None and other.sha256 and other.sha256 != sha256) or (
        entry is not None and os.path.isfile(str(entry["path"])) and entry["sha256"] != sha256
    ):
        raise MemError(
            f"'{name}' is the name of another file",
            hint=f"give this one another with --name, or `git mem model remove {name}` first",
        )
    if (
        entry is not None
        and entry.get("ours")
        and entry["sha256"] == sha256
        and not any(e["path"] == entry["path"] and e["sha256"] != sha256 for e in entries.values())
    ):
        return str(entry["path"])  # also where an older git mem put it
    stem, end = os.path.splitext(file)
    return os.path.join(where, f"{stem}-{sha256[:_SUM]}{end}")


def sound(where: str, name: str, path: str) -> bool:
    """Whether the file of this name lies there as it was when its checksum was taken."""
    entry = _read(where).get(name)
    return (
        entry is not None
        and entry["path"] == path
        and os.path.isfile(path)
        and _stamp(path) == entry["stamp"]
    )


def note(where: str, name: str, path: str, sha256: str, kind: str, ours: bool) -> Installed:
    """Puts a file whose checksum was just taken on the list."""
    entries = _read(where)
    entries[name] = {
        "path": path,
        "size": os.path.getsize(path),
        "sha256": sha256,
        "kind": kind,
        "ours": ours,
        "stamp": _stamp(path),
    }
    _write(where, entries)
    return Installed(name, kind, path, os.path.getsize(path), sha256, ours)


def add(where: str, path: str, name: str, kind: str, sha256: str) -> Installed:
    """Puts a file of the user's on the list; its name is the registry's where it is that very file.

    Raises MemError for what is no model.
    """
    path = os.path.abspath(os.path.expanduser(path))
    if not os.path.isfile(path):
        raise MemError(f"no file '{path}'")
    if not is_gguf(path):
        raise MemError(
            f"'{path}' is no GGUF file", hint="git mem uses models in llama.cpp's format"
        )
    found = fetch.digest(path)
    if sha256 and found != sha256.lower():
        raise MemError(f"'{path}' has the SHA-256 {found}, not {sha256.lower()}")
    known = registry.by_digest(found)
    name = name or (known.name if known else os.path.splitext(os.path.basename(path))[0].lower())
    other = registry.find(name)
    if other is not None and other.sha256 and other.sha256 != found:
        raise MemError(
            f"'{path}' is not the file that is known as '{other.name}'",
            hint="give it another name with --name",
        )
    entry = _read(where).get(name)
    if (
        entry is not None
        and entry.get("ours")
        and entry["path"] != path
        and os.path.isfile(str(entry["path"]))
    ):
        raise MemError(
            f"'{name}' is the name of a file that was fetched",
            hint=f"give this one another with --name, or `git mem model remove {name}` first",
        )
    return note(where, name, path, found, kind or (known.kind if known else ""), False)


def remove(where: str, name: str) -> Installed:
    """Takes a model off the list; deletes its file (then `ours` of the answer) only where `fetch`
    put it there and no other name has it.
    """
    entries = _read(where)
    found = next((m for m in installed(where) if m.name == name.lower() or m.name == name), None)
    if name not in entries and found is None:
        raise MemError(f"no model '{name}' here", hint="`git mem model list` names them")
    entry = entries.pop(found.name if found else name)
    path = str(entry["path"])
    alone = (
        bool(entry.get("ours"))
        and os.path.dirname(path) == where
        and not any(e["path"] == path for e in entries.values())
    )
    if alone:
        for file in (path, path + ".part", path + ".part.json"):
            try:
                os.unlink(file)
            except OSError:
                pass
    _write(where, entries)
    return (found or Installed(name, "", path, 0, "", alone))._replace(ours=alone)


# --- what is in use ---------------------------------------------------------------


class Choice(NamedTuple):
    """`path` "" with a `reason` where there is no usable model; an empty reason where none is
    wanted. `name`: as the user knows it.
    """

    path: str
    name: str
    sha256: str
    reason: str


def choice(kind: str, setting: str, environ: Mapping[str, str]) -> Choice:
    """The model in use for "language" or "embedding".

    `setting` is the value of `mem.model` or `mem.embedModel`.
    """
    wanted = (
        environ.get("GIT_MEM_MODEL" if kind == registry.LANGUAGE else "GIT_MEM_EMBED_MODEL")
        or setting
    )
    if wanted.lower() == "none" or (not wanted and kind != registry.LANGUAGE):
        return Choice("", "", "", "")
    where = directory(environ)
    entries = _read(where)
    name = (wanted or registry.DEFAULT).lower()
    entry = entries.get(wanted) or entries.get(name)
    if entry is None:
        if not wanted:
            return Choice("", "", "", "")
        if os.sep in wanted or wanted.endswith(".gguf"):
            return _file(os.path.abspath(os.path.expanduser(wanted)))
        hint = "was not fetched" if registry.find(name) else "is neither known nor a path"
        return Choice("", wanted, "", f"the model '{wanted}' {hint}")
    path = str(entry["path"])
    if not is_gguf(path):
        return Choice("", name, "", f"the model '{name}' is not at '{path}' any more")
    if _stamp(path) != entry["stamp"]:
        return Choice(
            "",
            name,
            "",
            f"the file '{path}' of the model '{name}' has changed since its checksum was taken",
        )
    return Choice(path, name, str(entry["sha256"]), "")


def _file(path: str) -> Choice:
    if is_gguf(path):
        return Choice(path, path, "", "")
    return Choice(
        "", path, "", f"'{path}' is " + ("no GGUF file" if os.path.exists(path) else "not there")
    )
