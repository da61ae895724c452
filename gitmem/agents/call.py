"""One call of a hook: its `Deadline`, its one answer, the notes of its session.

Promise: stdout gets one whole answer or nothing. At the deadline a thread of its own lets a write
that has begun end, forbids later ones, counts the failure, wakes the worker and ends the process
with status 0, wherever the main thread hangs. A memory counts as shown to a session only after it
was written. Standard library only, no import that costs: every prompt waits for this module.
"""

from __future__ import annotations

import _thread
import os
import time

from ..git import memfile
from ..hooks import spool
from . import protocol, session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from ..embedding.reader import Beside
    from ..git.discover import Here

# Seconds of our own time: the agent waits for the hook before it sends a prompt or starts. Its
# model thinks longer than that about any prompt, and a quick machine needs a fifth of it.
LIMITS = {"UserPromptSubmit": 0.5, "SessionStart": 1.0}
LIMIT = 0.2  # of the other events
INPUT = 5.0  # seconds in which the agent has to send its input; they do not count as ours
# Of a prompt's time, where memories lack vectors: from then on none is read with the question, so
# that a busy machine answers by what it has (decision 33).
_SLOW = 0.3
_GRACE = 2.0  # seconds in which a write that has begun must end


class Deadline:
    """When a call must be over (`until`); from `half` on, whatever can be left out is left out, and
    from `slow` on what makes a good answer a little better. All as time.monotonic() gives them.
    """

    def __init__(self, environ: Mapping[str, str], begun: float) -> None:
        self.until = self.half = self.slow = begun + INPUT
        self._environ = environ
        self._waiting = _thread.allocate_lock()  # released when `until` changes

    def limit(self, event: str) -> float:
        """Seconds of our own time; GIT_MEM_PATIENCE multiplies them, for slow machines."""
        try:
            patience = float(self._environ.get("GIT_MEM_PATIENCE", "1"))
        except ValueError:
            patience = 1.0
        # in this order of `min` and `max` "nan" counts as 1
        return LIMITS.get(event, LIMIT) * min(max(1.0, patience), 1000.0)

    def start(self, event: str, begun: float) -> None:
        """The input was read; our own time runs since `begun`."""
        self.until = begun + self.limit(event)
        self.half = (begun + self.until) / 2
        self.slow = begun + _SLOW * self.limit(event)
        if self._waiting.locked():
            self._waiting.release()

    def watch(self, expired: Callable[[], None]) -> None:
        """Starts the thread that calls `expired` at the deadline and then ends this process."""
        self._waiting.acquire()
        try:
            _thread.start_new_thread(self._watch, (expired,))
        except RuntimeError:
            pass  # the system has no thread left: the agent's own limit remains

    def _watch(self, expired: Callable[[], None]) -> None:
        try:
            while (left := self.until - time.monotonic()) > 0:
                self._waiting.acquire(True, left)
            expired()
        finally:
            os._exit(0)


class Call:
    """`message` goes to the user with the answer, `note` to the model before it; both are "" once
    they went. `here` and `notes` exist from `enter` on. Making a call starts its watchdog.
    """

    here: Here
    notes: session.Notes
    encoder: Beside | None = None  # being loaded by another process
    question = ""  # what the prompt asks, where the encoder has begun to read it
    away = False  # whether it is in a repository that is not `here`: nothing of it is captured
    asks_encoder = False  # whether the settings let this call ask it

    def __init__(
        self, agent: str, event: str, environ: Mapping[str, str], begun: float, stdout: int = 1
    ) -> None:
        self.agent = agent
        self.event = event
        self.environ = environ
        self.deadline = Deadline(environ, begun)
        self.payload: Mapping[str, Any] = {}
        self.cwd = ""
        self.message = self.note = ""
        self._entered = False
        self._stdout = stdout
        self._answered = False
        # The writer takes it so that it is not ended while it writes, the watchdog so that nothing
        # is written after the deadline.
        self._lock = _thread.allocate_lock()
        self.deadline.watch(self._expired)

    def enter(self, here: Here) -> None:
        """The repository is known from now on."""
        self.here = here
        subagent = protocol.text(self.payload, "agent_id")
        self.notes = session.Notes(here.mem_dir, protocol.session(self.payload), subagent)
        self._entered = True

    @property
    def injects(self) -> bool:
        """Whether the agent takes context from this event."""
        return protocol.injects(self.agent, self.event)

    def say(self, context: str, ids: Iterable[str] = (), route: str = "") -> bool:
        """Gives the model this context, and notes the ids of the memories in it; whether it was
        written. Once in a call, and never after the deadline.
        """
        data = protocol.envelope(self.agent, self.event, self.note + context, self.message)
        if not data:
            return False
        with self._lock:
            if self._answered or time.monotonic() > self.deadline.until:
                return False
            self._answered = True
            try:
                _write(self._stdout, data)
            except OSError as e:
                self.failed(f"cannot write the answer: {type(e).__name__}")
                return False
            self.message = self.note = ""
            if route:
                self.notes.add_shown(ids, route, self.agent, self.here.head, self.here.refs)
        return True

    def failed(self, reason: str) -> None:
        """Counts a failure, where there is a place for it; the agent is not told."""
        mem_dir = self.here.mem_dir if self._entered else _mem_dir_above(self.cwd)
        if mem_dir:
            from . import failures

            failures.note(mem_dir, self.event, reason)

    def ask(self, line: bytes = spool.BEHIND) -> None:
        """Leaves an event for the worker, and starts it unless it runs."""
        if not spool.ask(self.here.common_dir, line):
            self.failed("cannot ask the worker")

    def _expired(self) -> None:
        """The deadline is over. Keeps the lock: nothing is written any more."""
        if not self._lock.acquire(True, _GRACE):
            self.failed("nobody takes the answer")
        elif not self._answered:
            self.failed("deadline" if self._entered else "no repository within the deadline")
            if self._entered:
                self.ask()
        if self.encoder:
            self.encoder.end()


def _write(fd: int, data: bytes) -> None:
    """Writes all. A pipe that takes nothing now is waited for: the watchdog ends that."""
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            time.sleep(0.001)


def _mem_dir_above(cwd: str) -> str:
    """The nearest `.git/mem` above a directory, "" for none: a guess, the repository is unknown."""
    while cwd and cwd != os.path.dirname(cwd):
        mem_dir = memfile.directory(os.path.join(cwd, ".git"))
        if os.path.isdir(mem_dir):
            return mem_dir
        cwd = os.path.dirname(cwd)
    return ""
