"""The process behind `prefork`: has loaded what a prompt's hook needs, and forks for each call.
The encoder is loaded, too.

It is started with an agent's MCP server and ends with it, however that ends. Promises: it answers
only processes of its own user, and only those of the same installation; a fork begins with nothing
of a former call; the newest session of a repository serves.
"""

from __future__ import annotations

import gc
import marshal
import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from .agents import prefork
from .git import memfile

_IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_LARGEST = 1 << 18  # bytes of a call: arguments and environment


@contextmanager
def beside(common_dir: str) -> Iterator[None]:
    """Serves the hooks of a repository, in a process of its own, until the end of the block or of
    this process. Call it before anything starts a thread.
    """
    if not hasattr(socket, "SCM_RIGHTS") or not os.path.isdir("/proc/self/fd"):
        yield
        return
    theirs, ours = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(ours)
        _process(common_dir, theirs)
    os.close(theirs)
    try:
        yield
    finally:
        os.close(ours)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _process(common_dir: str, parent: int) -> NoReturn:
    """`parent`: the reading end of a pipe that closes with the process that started this one."""
    try:
        quiet = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(quiet, fd)
        # The terminal's two: the pipe says when to end. No fork is waited for.
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        _load()
        path = os.path.join(memfile.make(common_dir), memfile.SOCKET)
        listener, inode = _listen(path)
        try:
            _serve(listener, parent)
        finally:
            with suppress(OSError):
                if os.stat(path).st_ino == inode:  # else that of a later session
                    os.unlink(path)
    finally:
        os._exit(0)


def _load() -> None:
    """What a prompt would load, and read, each time."""
    from .agents import context_item, events, hook, hook_cache, inject  # noqa: F401
    from .embedding import reader
    from .engine import encoding, nearness, path_state_store, search  # noqa: F401
    from .git import discover  # noqa: F401
    from .signing import trust  # noqa: F401

    hook_cache.table()
    reader.read("a question")
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page


def _listen(path: str) -> tuple[socket.socket, int]:
    """(the socket at that path, its inode); it takes the place of an older one."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    mine = f"{path}.{os.getpid()}"
    with suppress(FileNotFoundError):
        os.unlink(mine)
    mask = os.umask(0o177)
    listener.bind(prefork.reachable(mine))
    os.umask(mask)
    listener.listen(8)
    os.rename(mine, path)
    return listener, os.stat(path).st_ino


def _serve(listener: socket.socket, parent: int) -> None:
    """Until the parent ends."""
    while True:
        ready, _, _ = select.select([listener.fileno(), parent], [], [])
        if parent in ready:
            return
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                _take(connection)


def _take(connection: socket.socket) -> None:
    if prefork.peer(connection) != os.getuid():
        return
    connection.settimeout(prefork.WAIT)
    with suppress(ValueError, EOFError, TypeError):
        installed, argv, environ, cwd, begun = marshal.loads(connection.recv(_LARGEST))
        if installed == prefork.version() and not os.fork():
            _answer(connection, argv, environ, cwd, begun)


def _answer(
    connection: socket.socket,
    argv: list[str],
    environ: dict[str, str],
    cwd: str,
    begun: float,
) -> NoReturn:
    """In the fork: what the hook would have done."""
    try:
        for ignored in _IGNORED:
            signal.signal(ignored, signal.SIG_DFL)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environ)
        connection.send(prefork.READY)
        word, fds, _, _ = socket.recv_fds(connection, 1, 2)
        if word == prefork.GO:
            from .agents import hook

            for fd, number in zip(fds, (0, 1), strict=True):
                os.dup2(fd, number)
                os.close(fd)
            connection.send(prefork.READY)
            hook.run(argv, environ, begun)
    finally:
        os._exit(0)
