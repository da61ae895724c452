"""A throw-away directory with repositories, in which real `git mem` commands run.

Promises. Nobody's repository and nobody's settings take part: HOME is inside the directory,
no variable `GIT_*` is handed on. When the block ends, also by Ctrl-C or SIGTERM, no process
and no file is left: each command has a process group of its own, which is killed with it, and
none starts the background worker, because this process stands in its place.
"""

import os
import signal
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..core.errors import MemError
from ..hooks import spool


class Sandbox:
    """`root` holds it all."""

    def __init__(self, root: str, environ: Mapping[str, str]) -> None:
        self.root = root
        self._env = _clean(root, environ)

    def repo(self, name: str) -> str:
        """An empty repository with one commit; returns its path."""
        path = os.path.join(self.root, name)
        self._run(self.root, "git", "init", "-q", path)
        self._run(path, "git", "commit", "-q", "--allow-empty", "-m", "bench")
        os.mkdir(os.path.join(path, ".git", "mem"), 0o700)
        return path

    def mem(self, repo: str, *argv: str, allowed: tuple[int, ...] = (0,)) -> str:
        """What one command prints. Raises MemError where its exit code is not `allowed`."""
        return self._run(repo, sys.executable, "-m", "gitmem", *argv, allowed=allowed)

    def write(self, name: str, text: str) -> str:
        """A file outside of the repositories; returns its path."""
        path = os.path.join(self.root, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def _run(self, cwd: str, *argv: str, allowed: tuple[int, ...] = (0,)) -> str:
        with subprocess.Popen(
            argv, cwd=cwd, env=self._env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace",
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                out, err = _waited(process, os.path.join(cwd, ".git", "mem"))
            except BaseException:
                _kill(process)
                raise
        if process.returncode not in allowed:
            said = err.strip().split("\n")[-1]
            name = " ".join(argv[3:5] if argv[0] == sys.executable else argv[:2])
            raise MemError(f"`{name}` failed in a throw-away repository: {said}")
        return out


def _waited(process: subprocess.Popen[str], mem_dir: str) -> tuple[str, str]:
    """What a command prints. Until it ends this process counts as the background worker."""
    while True:
        if os.path.isdir(mem_dir):
            spool.claim(mem_dir, os.getpid())
        try:
            return process.communicate(timeout=spool.LIFETIME / 3)
        except subprocess.TimeoutExpired:
            continue


def _kill(process: subprocess.Popen[Any]) -> None:
    """Ends a command and the git processes that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (AttributeError, OSError):
        process.kill()


def _clean(root: str, environ: Mapping[str, str]) -> dict[str, str]:
    env = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    for name in ("CONFIG", "CACHE", "STATE", "DATA"):
        env[f"XDG_{name}_HOME"] = os.path.join(root, name.lower())
    for name in ("AUTHOR", "COMMITTER"):
        env[f"GIT_{name}_NAME"], env[f"GIT_{name}_EMAIL"] = "bench", "bench@localhost"
    env.update(
        HOME=root, GIT_CONFIG_NOSYSTEM="1", GIT_TERMINAL_PROMPT="0", PYTHONIOENCODING="utf-8"
    )
    if base := site.getuserbase():
        env["PYTHONUSERBASE"] = base  # packages that `pip install --user` put below the real HOME
    return env


@contextmanager
def opened(environ: Mapping[str, str]) -> Iterator[Sandbox]:
    """The directory, gone when the block ends."""
    prefix = "git-mem-bench-"
    # `timeout` and CI end a process by this signal: it ends the block instead, as Ctrl-C does.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as root:
        yield Sandbox(os.path.realpath(root), environ)
    signal.signal(signal.SIGTERM, before)
