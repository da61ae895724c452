"""One call of a hook: what it was asked, how long it may take, and its one answer.

Promise: on stdout there is one whole answer or nothing. `say` writes it once;
at the deadline `watch`, a thread of its own, lets a write that has begun end,
silences whatever comes later, counts that, wakes the worker and ends the
process with status 0, wherever the rest of it hangs. A memory counts as shown
to a session only after it was written.

Standard library only, no import that costs: every prompt waits for it.
"""

from __future__ import annotations

import _thread
import os
import time

from ..git import memfile
from ..hooks import spool
from . import failures, protocol, session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ..git.discover import Here

# Seconds of our own time: a prompt is not sent before its hook has answered, a session does not
# begin.
LIMITS = {"UserPromptSubmit": 0.3, "SessionStart": 1.0}
LIMIT = 0.2  # of the other events
INPUT = 5.0  # seconds in which the agent has to say what it wants; they are not ours
# seconds in which a write that has begun must end: only a reader that takes nothing needs them
_GRACE = 2.0


class Call:
    """`here` is set once the repository is known; `out` is where the answer goes; `message` goes
    with it to the user, and is gone then.
    """

    def __init__(
        self,
        agent: str,
        event: str,
        payload: Mapping[str, Any],
        environ: Mapping[str, str],
        begun: float,
        out: int = 1,
    ) -> None:
        self.agent = agent
        self.event = event
        self.payload = payload
        self.environ = environ
        self.out = out
        self.until = begun + INPUT
        self.here: Here | None = None
        self.cwd = ""
        self.session = protocol.session(payload)
        self.message = ""
        self.spoken = False
        self.silent = False
        self._lock = _thread.allocate_lock()
        self._bell = _thread.allocate_lock()

    # --- time ---------------------------------------------------------------

    @property
    def limit(self) -> float:
        """Seconds of our own time; GIT_MEM_PATIENCE multiplies them, for slow machines."""
        try:
            patience = float(self.environ.get("GIT_MEM_PATIENCE", "1"))
        except ValueError:
            patience = 1.0
        return LIMITS.get(self.event, LIMIT) * min(
            max(1.0, patience), 1000.0
        )  # in this order "nan" counts as 1

    @property
    def half(self) -> float:
        """The moment at which half of our time is gone: what can be left out is left out then."""
        return self.until - self.limit / 2

    def take(self, payload: Mapping[str, Any], event: str) -> None:
        """What the agent says."""
        self.payload, self.event, self.session = payload, event, protocol.session(payload)

    def start(self, own: float) -> None:
        """The input is here: from now on it is our time, of which `own` seconds are gone."""
        self.until = time.monotonic() + self.limit - own
        if self._bell.locked():
            self._bell.release()

    def watch(self) -> None:
        """Starts the thread that ends this process at the deadline."""
        self._bell.acquire()
        try:
            _thread.start_new_thread(self._watch, ())
        except RuntimeError:
            pass  # no thread to be had: the agent's own limit remains

    def _watch(self) -> None:
        try:
            while True:
                left = self.until - time.monotonic()
                if left <= 0:
                    break
                self._bell.acquire(True, left)
            if not self._lock.acquire(True, _GRACE):
                self.failed("nobody takes the answer")
            elif not self.spoken:
                self.silent = True
                self.failed("deadline" if self.here else "no repository within the deadline")
                self.behind()
        finally:
            os._exit(0)

    # --- answer -------------------------------------------------------------

    @property
    def asked(self) -> bool:
        """Whether the agent takes context from this event."""
        return protocol.injects(self.agent, self.event)

    @property
    def room(self) -> int:
        """UTF-16 units that it takes."""
        return protocol.room(self.agent)

    def say(self, context: str, ids: Iterable[str] = (), route: str = "") -> bool:
        """Gives the model this context, and notes the ids of what is in it; whether it was written.

        Once in a call, and never after the deadline.
        """
        data = protocol.envelope(self.agent, self.event, context, self.message)
        if not data:
            return False
        with self._lock:
            if self.silent or self.spoken or time.monotonic() > self.until:
                return False
            self.spoken = True
            try:
                _write(self.out, data)
            except OSError as e:
                self.failed(f"cannot write the answer: {type(e).__name__}")
                return False
            self.message = ""
            if self.here and route:
                subagent = self.subagent
                told = [subagent, *ids] if subagent else ids
                session.injected(
                    self.here.mem_dir,
                    self.session,
                    told,
                    "subagent" if subagent else route,
                    self.agent,
                    self.here.head,
                    self.here.refs,
                )
        return True

    # --- session ------------------------------------------------------------

    @property
    def subagent(self) -> str:
        """A word for the subagent that calls, "" for the session itself: neither sees what the
        other was shown.
        """
        id = protocol.text(self.payload, "agent_id")
        return f"subagent={session.key(id)[:12]}" if id else ""

    def shown(self) -> set[str]:
        """Ids that the model has before it."""
        if not self.here:
            return set()
        subagent = self.subagent
        if not subagent:
            return session.shown(self.here.mem_dir, self.session)
        lines = (
            session.entries(session.path_of(self.here.mem_dir, self.session))
            if self.session
            else []
        )
        return {
            value
            for kind, _, values, _ in lines
            if kind == "shown" and subagent in values
            for value in values
            if "=" not in value
        }

    def note(self, kind: str, values: Iterable[str]) -> None:
        if self.here:
            session.note(self.here.mem_dir, self.session, kind, values)

    # --- what is left for others ---------------------------------------------

    def failed(self, what: str) -> None:
        """Counts a failure, where there is a place for it; the agent is not told."""
        mem_dir = self.here.mem_dir if self.here else _above(self.cwd)
        if mem_dir:
            failures.note(mem_dir, self.event, what)

    def behind(self) -> None:
        """Asks the worker to bring everything up to date."""
        self.ask(spool.BEHIND)

    def ask(self, line: bytes) -> None:
        """Leaves an event for the worker and starts it, unless one is there."""
        if self.here and not spool.ask(self.here.common_dir, line):
            self.failed("cannot ask the worker")


def _above(cwd: str) -> str:
    """`.git/mem` above a directory, where it is there: the best guess while nobody has said which
    repository this is.
    """
    while cwd and cwd != os.path.dirname(cwd):
        mem_dir = memfile.directory(os.path.join(cwd, ".git"))
        if os.path.isdir(mem_dir):
            return mem_dir
        cwd = os.path.dirname(cwd)
    return ""


def _write(fd: int, data: bytes) -> None:
    """All of it. A pipe that takes nothing now is waited for: the watchdog ends that."""
    at = 0
    while at < len(data):
        try:
            at += os.write(fd, data[at:])
        except BlockingIOError:
            time.sleep(0.001)
