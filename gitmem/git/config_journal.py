"""What git mem added to the repository's configuration file, so that it can be taken back; and
files written whole or not at all.

Promise: `undo` restores the file byte for byte if nobody has changed it since;
otherwise it takes away our own entries and nothing else. The list of what was
added lies beside the cache directory, which may be deleted; where it is gone
all the same, the callers know what they would have added.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
from typing import Any

from ..core.errors import GitFailed, MemError
from . import memfile
from .repository import Repo

_STATE = "git-mem-install.json"
_BEFORE = "install.json"  # in `mem/`, where it was at first


def lacks(repo: Repo, key: str, value: str) -> bool:
    """Whether no configuration file that counts here has this entry."""
    return value not in repo.git.text("config", "--get-all", key, ok=(0, 1)).split("\n")


def add(repo: Repo, step: str, entries: list[tuple[str, str]]) -> None:
    """Adds entries to the repository's own file. `step` names them for `undo`."""
    if not entries:
        return
    path = _config(repo)
    before = read(path)
    memfile.make(repo.common_dir)
    for key, value in entries:
        repo.git.run("config", "--local", "--add", key, value)
    done = {
        "step": step,
        "before": base64.b64encode(before).decode(),
        "after": _digest(read(path)),
        "entries": entries,
    }
    _keep(repo, [*_steps(repo), done])


def undo(repo: Repo, names: set[str], fallback: list[tuple[str, str]]) -> list[str]:
    """Takes back the steps of these names; one line for each thing done.

    `fallback`: entries of steps that nothing is known of.
    """
    path = _config(repo)
    steps = _steps(repo)
    known = {step["step"] for step in steps}
    done = []
    while steps and steps[-1]["step"] in names and steps[-1]["after"] == _digest(read(path)):
        before = base64.b64decode(steps.pop()["before"])
        replace(path, before)
        done = ["git configuration restored as it was before"]
    rest = [(str(k), str(v)) for step in steps if step["step"] in names for k, v in step["entries"]]
    rest += [] if known & names else fallback
    for key, value in rest:
        if value in repo.git.text("config", "--local", "--get-all", key, ok=(0, 1)).split("\n"):
            try:
                repo.git.run("config", "--local", "--fixed-value", "--unset-all", key, value)
                done.append(f"removed {key} = {value}")
            except GitFailed as e:
                done.append(f"could not remove {key} = {value}: {e.message}")
    if known & names:
        _keep(repo, [step for step in steps if step["step"] not in names])
    return done


def _steps(repo: Repo) -> list[dict[str, Any]]:
    try:
        state = json.loads(read(os.path.join(repo.common_dir, _STATE)) or read(_before(repo)))
        steps = state["steps"]
        # All or nothing: a file that is not as we write it says nothing.
        return [
            step
            for step in steps
            if all(isinstance(step[k], str) for k in ("step", "before", "after"))
            and all(len(e) == 2 for e in step["entries"])
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _keep(repo: Repo, steps: list[dict[str, Any]]) -> None:
    path, before = os.path.join(repo.common_dir, _STATE), _before(repo)
    try:
        if steps:
            if os.path.islink(path):
                os.unlink(path)  # planted: `replace` would write where it leads to
            replace(path, json.dumps({"steps": steps}).encode())
        for old in [before] if steps else [path, before]:
            if os.path.lexists(old):
                os.unlink(old)
    except OSError as e:
        raise MemError(
            f"what was added to git's configuration cannot be noted in '{path}': {e.strerror}"
        ) from e


def _before(repo: Repo) -> str:
    return os.path.join(memfile.directory(repo.common_dir), _BEFORE)


def _config(repo: Repo) -> str:
    return os.path.join(repo.common_dir, "config")


def replace(path: str, content: bytes, mode: int = 0o600) -> None:
    """Writes a file so that it is either the old or the new one, with the old one's mode; `mode` is
    that of a new file.
    """
    real = os.path.realpath(path)
    if os.path.exists(real):
        mode = os.stat(real).st_mode & 0o7777
    temporary = f"{real}.git-mem-{os.getpid()}"
    try:
        with open(temporary, "wb") as f:
            f.write(content)
            f.flush()
            os.fsync(f.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, real)
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def write(path: str, content: bytes, mode: int = 0o666) -> bool:
    """Writes a file unless it is there already; whether it did.

    `mode` is that of a new file, less the umask.
    """
    if read(path) == content:
        return False
    replace(path, content, mode & ~umask())
    return True


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read(path: str) -> bytes:
    """The content of a file, empty where there is none, or something else (a named pipe would be
    waited for).
    """
    try:
        with open(
            os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)), "rb"
        ) as f:
            return f.read() if stat.S_ISREG(os.fstat(f.fileno()).st_mode) else b""
    except OSError:
        return b""


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
