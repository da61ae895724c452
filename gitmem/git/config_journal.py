"""What git mem added to the repository's configuration file, to be taken back.
Also writes files whole or not at all.

Promise: `undo` restores the file byte for byte if nobody has changed it since; otherwise it takes
away our own entries alone. The list of what was added lies beside `mem/`, which may be deleted.
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


def lacks(repo: Repo, key: str, value: str) -> bool:
    """Whether no configuration file that counts here has this entry."""
    return value not in repo.git.text("config", "--get-all", key, ok=(0, 1)).split("\n")


def add(repo: Repo, step: str, entries: list[tuple[str, str]]) -> None:
    """Adds entries to the repository's own file. `step` names them for `undo`."""
    if not entries:
        return
    path = os.path.join(repo.common_dir, "config")
    before = read(path)
    memfile.make(repo.common_dir)
    for key, value in entries:
        repo.git.run("config", "--local", "--add", key, value)
    done = {"step": step, "before": base64.b64encode(before).decode(), "entries": entries}
    _keep(repo, [*_steps(repo), {**done, "after": _digest(read(path))}])


def undo(repo: Repo, names: set[str], fallback: list[tuple[str, str]]) -> list[str]:
    """Takes steps back, a line for each; `fallback`: entries of steps that nothing is known of."""
    path = os.path.join(repo.common_dir, "config")
    steps = _steps(repo)
    known = names & {step["step"] for step in steps}
    done = []
    while steps and steps[-1]["step"] in names and steps[-1]["after"] == _digest(read(path)):
        replace(path, base64.b64decode(steps.pop()["before"]))
        done = ["git configuration restored as it was before"]
    rest = [entry for step in steps if step["step"] in names for entry in step["entries"]]
    for key, value in rest if known else fallback:
        if value in repo.git.text("config", "--local", "--get-all", key, ok=(0, 1)).split("\n"):
            try:
                repo.git.run("config", "--local", "--fixed-value", "--unset-all", key, value)
                done.append(f"removed {key} = {value}")
            except GitFailed as e:
                done.append(f"could not remove {key} = {value}: {e.message}")
    if known:
        _keep(repo, [step for step in steps if step["step"] not in names])
    return done


def _steps(repo: Repo) -> list[dict[str, Any]]:
    """What was added; nothing where the file is not as we write it."""
    try:
        steps: list[dict[str, Any]] = json.loads(read(_state(repo)))["steps"]
        words = [step[k] for step in steps for k in ("step", "before", "after")]
        words += [word for step in steps for key, value in step["entries"] for word in (key, value)]
        return steps if all(isinstance(word, str) for word in words) else []
    except (ValueError, KeyError, TypeError):
        return []


def _keep(repo: Repo, steps: list[dict[str, Any]]) -> None:
    path = _state(repo)
    try:
        if os.path.islink(path) or (not steps and os.path.lexists(path)):
            os.unlink(path)  # a link is planted: `replace` would write where it leads to
        if steps:
            replace(path, json.dumps({"steps": steps}).encode())
    except OSError as e:
        raise MemError(
            f"what was added to git's configuration cannot be noted in '{path}': {e.strerror}"
        ) from e


def _state(repo: Repo) -> str:
    return os.path.join(repo.common_dir, "git-mem-install.json")


def replace(path: str, content: bytes, mode: int = 0o600) -> None:
    """Makes a file the old or the new one, whole. `mode`: of one not there yet, less the umask."""
    real = os.path.realpath(path)
    temporary = f"{real}.git-mem-{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    before = os.stat(real).st_mode & 0o7777 if os.path.exists(real) else None
    try:
        # For nobody else while it is written: settings may hold keys.
        with open(os.open(temporary, flags, mode if before is None else 0o600), "wb") as f:
            f.write(content)
            f.flush()
            os.fsync(f.fileno())
        if before is not None:
            os.chmod(temporary, before)
        os.replace(temporary, real)
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def write(path: str, content: bytes, mode: int = 0o666) -> bool:
    """Writes a file where it differs, as `replace` does; whether it did."""
    if read(path) == content:
        return False
    replace(path, content, mode)
    return True


def read(path: str) -> bytes:
    """The content of a regular file, else empty. A named pipe is not waited for."""
    flags = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)
    try:
        with open(os.open(path, flags), "rb") as f:
            return f.read() if stat.S_ISREG(os.fstat(f.fileno()).st_mode) else b""
    except OSError:
        return b""


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
