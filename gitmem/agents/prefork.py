"""A prompt's hook, answered by a fork of a process that has everything loaded already.

Where an agent's session runs `git mem mcp`, `prefork_server` listens beside it on a socket of its
own in `.git/mem`. The hook hands over its stdin, stdout, arguments and environment; the fork does
what the hook would have done here, so an answer is the same. Promise: no fork within WAIT, or
anything unexpected, and the hook answers by itself, for a fork does nothing before it is told to go
on. Only a process of the same user is asked. Imports only what the interpreter has loaded: this
must cost less than it saves.
"""

from __future__ import annotations

import os
import sys
import time

from ..git import memfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Mapping, Sequence

PROMPTS = ("UserPromptSubmit", "BeforeAgent", "beforeSubmitPrompt", "userPromptSubmitted")
WAIT = 0.05  # seconds until the fork has to be there
READY, GO = b"r", b"g"
_LONGEST = 30.0  # seconds; the fork ends at its own deadline long before
_PATH = 100  # bytes; the kernel takes 107


def answered(argv: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether a fork took this call and has ended."""
    if not set(PROMPTS).intersection(argv):
        return False
    begun = time.monotonic()
    try:
        mem = mem_dir(environ)
        sockets = [os.path.join(mem, n) for n in os.listdir(mem) if n.startswith(memfile.SOCKET)]
        for left, path in zip(range(len(sockets), 0, -1), sockets, strict=True):
            now = time.monotonic()  # one that hangs leaves the others their share
            if _handed_over(path, argv, environ, begun, now + (begun + WAIT - now) / left):
                return True
        return False
    except Exception:
        return False  # no fork was told to go on


def _handed_over(
    path: str, argv: Sequence[str], environ: Mapping[str, str], begun: float, until: float
) -> bool:
    import _socket
    import marshal

    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        call = marshal.dumps((version(), list(argv), dict(environ), os.getcwd(), begun))
        try:
            listener.settimeout(max(until - time.monotonic(), 0.001))
            listener.connect(reachable(path))
            if peer(listener) != os.getuid():
                return False
            listener.send(call)
            listener.settimeout(max(until - time.monotonic(), 0.001))
            if listener.recv(1) != READY:
                return False
        except OSError:
            return False  # of a session that was killed, or hangs
        # Not before: in the queue of a process that hangs they would keep the agent's pipe open.
        fds = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (0, 1))
        listener.sendmsg([GO], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
        listener.settimeout(_LONGEST)
        try:
            if listener.recv(1) != READY:
                return False  # it was gone before it could be told
        except TimeoutError:
            return True  # it may go on at any time
        try:
            listener.recv(1)  # until it has ended
        except OSError:
            pass  # killed: the answer was its own
        return True
    finally:
        listener.close()


def version() -> str:
    """What both sides have to run, and where: in a container a path means another file."""
    from .. import __version__

    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return f"{__version__} {package} {os.readlink('/proc/self/ns/mnt')}"


def peer(connection: socket) -> int:
    """The user id of the process at the other end."""
    import _socket

    credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder)


def reachable(path: str) -> str:
    """A name that fits into a socket's address."""
    if len(os.fsencode(path)) <= _PATH:
        return path
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)  # as long as we live
    return f"/proc/self/fd/{directory}/{os.path.basename(path)}"


def mem_dir(environ: Mapping[str, str]) -> str:
    """The `mem/` that is probably the repository's, there or not. A wrong guess costs nothing:
    whoever answers looks for the repository as the hook would.
    """
    at = os.path.abspath(environ.get("CLAUDE_PROJECT_DIR") or os.getcwd())
    while not os.path.exists(os.path.join(at, ".git")) and at != os.path.dirname(at):
        at = os.path.dirname(at)
    git_dir = os.path.join(at, ".git")
    return os.path.join(_common_dir(git_dir) if os.path.isfile(git_dir) else git_dir, "mem")


def _common_dir(dot: str) -> str:
    """Of a linked worktree, by its `.git` file."""
    with open(dot, "rb") as f:
        line = os.fsdecode(f.read(4096))
    git_dir = os.path.join(os.path.dirname(dot), line.removeprefix("gitdir:").strip())
    try:
        with open(os.path.join(git_dir, "commondir"), "rb") as f:
            return os.path.join(git_dir, os.fsdecode(f.read(4096)).strip())
    except FileNotFoundError:
        return git_dir  # a submodule
