"""The embedding model that the user chose, kept loaded beside a session for prompts.

`prefork_server` starts it; forks ask it. It is a process of its own, since a model takes longer to
load than a prompt may take. Promises: an answer comes within its time or not at all, and no late
one is taken for another's: each question brings the pipe for its answer. It ends with the process
that started it.
"""

from __future__ import annotations

import marshal
import os
import select
import socket
import threading
import time
from collections.abc import Mapping
from typing import NoReturn

from ..git.config import Config
from . import chosen, llamavec, registry

_LARGEST = 1 << 16  # bytes of a question, and of an answer


def start(settings: Config, environ: Mapping[str, str]) -> WarmVectors | None:
    """Begins to load the model that is in use; None where none is. Call it before anything starts a
    thread.
    """
    choice = chosen.choice(registry.EMBEDDING, settings["embedModel"], environ)
    if not choice.path or choice.problem:
        return None
    return WarmVectors(choice, settings["embedModel"])


class WarmVectors:
    """The model of one choice; forks of the process that made it may ask, too."""

    def __init__(self, choice: chosen.Choice, wanted: str) -> None:
        self._name = wanted
        # Records, so that questions of several forks do not mix.
        self._ask, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if not os.fork():
            self._ask.close()
            _process(choice, theirs)
        theirs.close()
        self._ask.setblocking(False)

    def serves(self, settings: Config) -> bool:
        """Whether this is the model that these settings name, and its process lives."""
        return settings["embedModel"] == self._name and not _closed(self._ask.fileno())

    def question(self, text: str, until: float) -> tuple[str, bytes] | None:
        """(space, vector of the question); None where it does not come until then (monotonic)."""
        ours, theirs = os.pipe()
        try:
            data = text.encode("utf-8", "replace")[:_LARGEST]
            socket.send_fds(self._ask, [data], [theirs])
            os.close(theirs)
            theirs = -1
            wait = max(0.0, until - time.monotonic())
            if not select.select([ours], [], [], wait)[0]:
                return None
            found = os.read(ours, _LARGEST)
            return marshal.loads(found) if found else None
        except (OSError, ValueError, EOFError):
            return None
        finally:
            os.close(ours)
            if theirs >= 0:
                os.close(theirs)


def _process(choice: chosen.Choice, asked: socket.socket) -> NoReturn:
    """Answers until the last process that could ask has ended."""
    threading.Thread(target=_ends, args=(asked.fileno(),), daemon=True).start()
    try:
        with llamavec.of(choice) as model:
            model.question("a question")  # loads it
            while fds := (received := socket.recv_fds(asked, _LARGEST, 1))[1]:
                try:
                    if _closed(fds[0]):
                        continue
                    vector = model.question(received[0].decode("utf-8", "replace"))
                    os.write(fds[0], marshal.dumps((model.space, vector)))
                except BrokenPipeError:
                    pass  # it has gone on without
                finally:
                    os.close(fds[0])
    finally:
        os._exit(0)


def _ends(asked: int) -> NoReturn:
    """Ends this process, with which the model ends, when nobody can ask any more; else it would
    first go on loading.
    """
    _closed(asked, None)
    os._exit(0)


def _closed(fd: int, wait: int | None = 0) -> bool:
    """Whether the other end of a pipe or socket is closed; `wait`: None until it is."""
    poll = select.poll()
    poll.register(fd, 0)  # that is told unasked
    return bool(poll.poll(wait))
