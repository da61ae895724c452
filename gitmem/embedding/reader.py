"""A question's vector from the packaged encoder, made in this process or in one beside it.

Promises. `read` and `Beside.read` answer alike; [] stands for an encoder that cannot be used, or
that was too slow. A process beside ends at `end`, or when the one that started it ends: at once
where it waits for a text, else after _SECONDS at most.
"""

from __future__ import annotations

import os
from itertools import chain
from time import monotonic

from . import EncoderDamaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import NoReturn

    from .encoder import Encoder

    # (question, texts, until) -> the vector of the question, then those of the texts: as many as
    # there is time for until then (monotonic; 0: for all).
    Read = Callable[[str, Iterable[str], float], list[bytes]]

_SECONDS = 10  # of loading, or of one text, after which a process beside ends itself
_KILL = 9  # `signal` takes 3 ms to load
_LONGEST = 1 << 16  # bytes of an answer: those of one vector
_QUESTION = 400  # characters of a question that are read, at its ends: 60 ms, of 2,000 180 ms
_opened: list[Encoder | None] = []


def encoder() -> Encoder | None:
    """The packaged encoder, opened once a process; None where numpy or its file is broken."""
    if not _opened:
        try:
            from .encoder import Encoder

            _opened.append(Encoder())
        except (ImportError, EncoderDamaged):
            _opened.append(None)
    return _opened[0]


def pack() -> None:
    """For a process that reads many questions, and its forks (`Encoder.pack`)."""
    if found := encoder():
        found.pack()


def read(question: str, texts: Iterable[str] = (), until: float = 0.0) -> list[bytes]:
    """A `Read` in this process. Raises `EncoderDamaged`."""
    made: list[bytes] = []
    for text in chain([_cut(question)], texts):
        if until and monotonic() >= until:
            break
        if not (found := encoder()):
            break
        made += found.embed([text])
    return made


def _cut(question: str) -> str:
    from ..core.text import ends  # not before a process beside has begun

    return ends(question, _QUESTION)


_begun: list[Beside] = []


def begin() -> None:
    """Begins to load the encoder beside a process that will ask questions: `begun` has it."""
    import atexit

    if made := beside():
        made.lasting = True
        _begun.append(made)
        atexit.register(made.end)


def begun(question: str) -> Read | None:
    """What reads a question, and begins to; None where nothing began.

    A process beside that gives no vector within _SECONDS, for whatever reason, is ended, and this
    one reads from then on.
    """
    if not _begun:
        return None
    made = _begun[0]
    made.begin(question)

    def once(question: str, texts: Iterable[str] = (), until: float = 0.0) -> list[bytes]:
        if found := made.read(question, texts, until or monotonic() + _SECONDS):
            return found
        made.end()
        _begun.clear()
        return read(question, texts, until)

    return once


def beside() -> Beside | None:
    """Begins to load the encoder in a fork. None where no process is left, or the system has none.

    Call it before anything starts a thread or opens a database.
    """
    try:
        return Beside() if hasattr(os, "fork") else None
    except OSError:
        return None


class Beside:
    """The encoder in a process of its own: loading it, and reading a question, take as long as
    everything else that a prompt needs, and go on meanwhile.
    """

    def __init__(self) -> None:
        self._question: str | None = None
        self._made, self._lives = b"", True
        self.lasting = False  # whether more questions come after one was read
        pipes: list[int] = []
        try:
            pipes += os.pipe()
            pipes += os.pipe()
            self._pid = os.fork()
        except OSError:
            for fd in pipes:
                os.close(fd)
            raise
        theirs, self._to, self._from, ours = pipes
        if not self._pid:
            _answer(theirs, ours)
        os.close(theirs)
        os.close(ours)

    def rehearse(self, text: str, until: float) -> bytes:
        """Has it read a text before there is a question, which makes the question's vector sooner;
        the text's vector, b"" where it does not come until then (monotonic).
        """
        self._send(text)
        return self._next(until)

    def begin(self, question: str) -> None:
        """The question that `read` will be asked for: one for each process, unless it lasts."""
        if self._question is not None and not self._made:
            self._next(monotonic() + _SECONDS)  # nobody wanted the last one's vector
        self._question, self._made = question, b""
        self._send(_cut(question))

    def read(self, question: str, texts: Iterable[str] = (), until: float = 0.0) -> list[bytes]:
        """A `Read`; what takes longer than `until` is given up, too. Nothing where another question
        was begun, whose vector would come.
        """
        if question != self._question:
            if self._question is not None:
                return []
            self.begin(question)
        self._made = self._made or self._next(until)
        made = [self._made] if self._made else []
        for text in texts if made else ():
            if not until or monotonic() < until:
                self._send(text)
                made.append(self._next(until))
        if not self.lasting:
            self._hang_up()  # it ends while we go on
        return made[: made.index(b"")] if b"" in made else made

    def stop(self) -> None:
        """Nothing more is asked: the process ends while we go on."""
        self._hang_up()
        try:
            self._lives = self._lives and os.waitpid(self._pid, os.WNOHANG) == (0, 0)
            if self._lives:
                os.kill(self._pid, _KILL)
        except OSError:  # who started us ignores the end of children: the system has taken it
            self._lives = False

    def end(self) -> None:
        """Stops the process, and leaves no zombie to a first process that looks after none."""
        self.stop()
        try:
            if self._lives:
                os.waitpid(self._pid, 0)
        except OSError:
            pass  # the deadline's thread was first

    def _hang_up(self) -> None:
        if self._to >= 0:
            os.close(self._to)
        self._to = -1

    def _send(self, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")
        try:
            os.write(self._to, len(data).to_bytes(4, "little") + data)
        except OSError:
            pass  # it has ended: nothing comes

    def _next(self, until: float) -> bytes:
        """One vector; b"" where it does not come until then, and from then on: a late one would be
        taken for the next.
        """
        if self._from < 0:
            return b""
        import select

        waiting = select.poll()
        waiting.register(self._from, select.POLLIN)
        wait = max(0.0, until - monotonic()) * 1000 if until else None
        found = os.read(self._from, _LONGEST) if waiting.poll(wait) else b""
        if not found:
            os.close(self._from)
            self._from = -1
        return found


def _answer(asked: int, made: int) -> NoReturn:
    """In the fork. It must keep nobody waiting for an end of our input or output, nor of a socket
    (`prefork`); `asked` is the lower number.
    """
    try:
        import _signal  # type: ignore[import-not-found]  # `signal` takes 3 ms to load

        _signal.alarm(_SECONDS)
        quiet = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(quiet, fd)
        for first, end in ((3, asked), (asked + 1, made), (made + 1, 1 << 16)):
            os.closerange(first, end)
        from . import numpy_core

        numpy_core.alone()
        found = encoder()
        _signal.alarm(0)
        while found and (text := _text(asked)) is not None:
            _signal.alarm(_SECONDS)
            os.write(made, found.embed([text])[0])
            _signal.alarm(0)
    finally:
        os._exit(0)


def _text(fd: int) -> str | None:
    """The next text, None at the end."""
    size = _exactly(fd, 4)
    if not size:
        return None
    return _exactly(fd, int.from_bytes(size, "little")).decode("utf-8", "surrogatepass")


def _exactly(fd: int, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := os.read(fd, size - len(data))):
        data += part
    return data
