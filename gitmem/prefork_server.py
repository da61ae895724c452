"""The process behind `prefork`: keeps a fork ready that answers the next prompt.

It has loaded what a prompt's hook needs, the encoder too; it is started with an agent's MCP server
and ends with it, however that ends. Promises: it answers only processes of its own user, and only
those of the same installation; a fork takes one call, and begins with nothing of a former one.
"""

from __future__ import annotations

import gc
import marshal
import os
import select
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import NoReturn

from .agents import prefork
from .git import memfile

_IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_LARGEST = 1 << 18  # bytes of a call: arguments and environment
_PATIENCE = 2.0  # seconds for the encoder's process to be ready before a call
_NEW = ".new"  # ends the name of a socket on which nobody listens yet
_STARTS = 60  # seconds after which nobody ever will
_REST = 1.0  # seconds after a fork that took no call
_REHEARSED = "why does the upload step retry twice before it fails"  # any question will do

_Call = tuple[list[str], dict[str, str], str, float]  # arguments, environment, directory, begin


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
        _load_model(common_dir)
        mem_dir = memfile.make(common_dir)
        path = os.path.join(mem_dir, f"{memfile.SOCKET}.{os.urandom(4).hex()}{_NEW}")
        path = prefork.reachable(path).removesuffix(_NEW)
        _sweep(os.path.dirname(path))
        try:
            _serve(_listen(path), parent, mem_dir)
        finally:
            with suppress(OSError):
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


def _load_model(common_dir: str) -> None:
    """Begins to load the embedding model that the settings name: forks ask it."""
    from .agents import prompt_question
    from .core.errors import MemError
    from .git import discover

    top, name = os.path.split(common_dir)
    with suppress(OSError, MemError):  # prompts go on without it
        here = discover.find(top if name == ".git" else common_dir, os.environ)
        if here and here.settings.replaced:
            from .models import warm_vectors

            if model := warm_vectors.start(here.settings, os.environ):
                prompt_question.warm.append(model)


def _sweep(mem_dir: str) -> None:
    """Removes the sockets of sessions that were killed."""
    for name in os.listdir(mem_dir):
        if not name.startswith(memfile.SOCKET):
            continue
        path = os.path.join(mem_dir, name)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked, suppress(OSError):
            if name.endswith(_NEW) and time.time() - os.lstat(path).st_mtime < _STARTS:
                continue
            asked.setblocking(False)
            try:
                asked.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)


def _listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    mask = os.umask(0o177)
    listener.bind(path + _NEW)
    os.umask(mask)
    listener.listen(8)
    os.rename(path + _NEW, path)
    return listener


def _serve(listener: socket.socket, parent: int, mem_dir: str) -> None:
    """Until the parent ends: one fork after the other."""
    while True:
        spare = _spare(listener, parent, mem_dir)
        if parent in _ready(spare, parent):
            return
        # After one that took a call the next is made when that one ends, or another call waits;
        # after one that died, perhaps for want of memory, when a call waits, but not at once: that
        # call may be the one that it died of.
        followed = [spare] if os.read(spare, 1) else []
        if not followed and select.select([parent], [], [], _REST)[0]:
            return
        if parent in _ready(*followed, listener.fileno(), parent):
            return
        os.close(spare)


def _ready(*fds: int) -> list[int]:
    return select.select(fds, [], [])[0]


def _spare(listener: socket.socket, parent: int, mem_dir: str) -> int:
    """A fork that waits for a call. Returns the reading end of a pipe that gets a byte when it
    takes one, and closes when it ends: at once where the system has no process left.
    """
    ours, theirs = os.pipe()
    with suppress(OSError):
        if not os.fork():
            _wait(listener, parent, mem_dir, theirs)
    os.close(theirs)
    return ours


def _wait(listener: socket.socket, parent: int, mem_dir: str, taken: int) -> NoReturn:
    """In the fork: until a call comes, or the parent ends."""
    try:
        if not select.select([listener], [], [], 0)[0]:
            with suppress(Exception):  # what is wrong with the cache the call will see
                _rehearse(mem_dir)
        while parent not in _ready(listener.fileno(), parent):
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                if call := _call(connection):
                    connection.send(prefork.READY)  # an error: the hook has given up
                    os.write(taken, b"t")
                    _answer(connection, *call)
    finally:
        os._exit(0)


def _rehearse(mem_dir: str) -> None:
    """Searches as a prompt does, for nobody. A fork gets its own copy of each page of memory that
    it writes to, and a prompt writes to so many that this takes 12 ms of it.
    """
    from .agents import hook_cache, inject, prompt_question
    from .engine import cache as cache_file
    from .engine.filters import Filter
    from .engine.search import Search

    vector = prompt_question.prepare(mem_dir, _REHEARSED, time.monotonic() + _PATIENCE)
    cache = cache_file.open_cache(mem_dir, create=False)
    if cache is not None:
        with closing(cache):
            encoder = (lambda *_: [vector]) if vector else None
            chosen = prompt_question.warm[0].question if prompt_question.warm else None
            until = time.monotonic() + _PATIENCE
            search = Search(
                cache, hook_cache.vector, encoder=encoder, unasked=True, chosen=chosen, until=until
            )
            search.ask(_REHEARSED, Filter(), inject.FEW)


def _call(connection: socket.socket) -> _Call | None:
    """What a hook hands over; None for what is no call to us."""
    if prefork.peer(connection) != os.getuid():
        return None
    connection.settimeout(prefork.WAIT)
    try:
        installed, *call = marshal.loads(connection.recv(_LARGEST))
    except (ValueError, EOFError, TypeError):
        return None
    return tuple(call) if installed == prefork.version() else None


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
