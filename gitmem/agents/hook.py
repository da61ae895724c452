"""The door of agents: `git mem hook EVENT [--agent AGENT]`.

Promise: exit status 0, whatever happens; on stdout one JSON object (for
PreCompact plain text) or nothing; nothing on stderr; an end within the
deadline (`call.LIMITS`). What goes wrong is counted in `mem/hooks.log` and
shown by `git mem doctor`. In a repository without `git mem init` and without
memories nothing is printed and nothing is made; `mem.enabled=false` and
GIT_MEM_DISABLE=1 switch everything off.

`__main__` comes here before anything else is imported. Standard library only,
nothing from the working tree, no git process where files tell enough.
"""

from __future__ import annotations

import os
import sys
import time

from . import protocol
from .call import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

_MOST = 16_000_000  # bytes of stdin; a tool's answer can be as long as a file


def main(argv: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Answers one call and ends the process: what Python does at its end costs a millisecond."""
    try:
        begun = time.monotonic()
        readable, writable = _descriptors()
        run(argv, environ, begun, 0 if readable else -1, 1 if writable else -1)
    finally:
        os._exit(0)


def run(
    argv: Sequence[str], environ: Mapping[str, str], begun: float, stdin: int = 0, stdout: int = 1
) -> None:
    """One call. Everything that may fail is in here; nothing is raised."""
    agent, name, given = _words(argv)
    call = Call(agent, protocol.event_of(name) or "?", {}, environ, begun, stdout)
    call.watch()
    try:
        waited = time.monotonic()
        data, whole = (given, True) if given else _read(stdin)
        own = waited - begun - time.monotonic()
        payload = _parsed(data) if whole else None
        call.take(payload or {}, protocol.event_of(name or (payload or {}).get("hook_event_name")))
        call.start(own + time.monotonic())
        _answer(call, payload is not None)
    except BaseException as e:
        from . import failures

        call.failed(failures.where(e))


def _parsed(data: bytes) -> dict[str, Any] | None:
    try:
        return protocol.parse(data)
    except Exception:
        return None  # counted as input that is no JSON, once it is known where


def _answer(call: Call, understood: bool) -> None:
    if _off(call.environ):
        return
    from ..git import discover

    call.cwd = _directory(call)
    found = discover.find(call.cwd, call.environ) if call.cwd else None
    if found is None or not found.initialised or not found.settings.flag("enabled"):
        return
    call.here = found
    if not understood:
        call.failed("stdin holds no JSON object")
    elif not call.event or call.agent not in protocol.AGENTS:
        call.failed("unknown event" if not call.event else "unknown agent")
    else:
        from .events import HANDLERS

        HANDLERS[call.event](call)


def _off(environ: Mapping[str, str]) -> bool:
    return environ.get("GIT_MEM_DISABLE", "") not in ("", "0")


def _directory(call: Call) -> str:
    """Where the session is: what the agent says, where that is a directory; else where we are; ""
    where that is gone.
    """
    for path in protocol.directories(call.payload, call.environ):
        try:
            if os.path.isdir(path):
                return os.path.abspath(path)
        except (OSError, ValueError):
            continue
    try:
        return os.getcwd()
    except OSError:
        return ""


def _words(argv: Sequence[str]) -> tuple[str, str, bytes]:
    """(agent, event, JSON that came as an argument) of the command line.

    A word we do not know is passed over: a hook never fails.
    """
    agent, name, given = "claude", "", b""
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--agent" and words:
            agent = words.pop(0)
        elif word.startswith("--agent="):
            agent = word[8:]
        elif word.startswith("{"):
            given = os.fsencode(word)
        elif not word.startswith("-") and not name:
            name = word
    return agent.lower(), name, given


def _read(fd: int) -> tuple[bytes, bool]:
    """(stdin up to its end, whether that is all of it).

    What is too long is read all the same: an agent may not bear a closed pipe.
    """
    if fd < 0 or os.isatty(fd):
        return b"", True
    parts: list[bytes] = []
    size = 0
    while True:
        try:
            part = os.read(fd, 1 << 20)
        except BlockingIOError:  # the other end has set our end not to wait
            time.sleep(0.001)
            continue
        if not part:
            return b"".join(parts), size <= _MOST
        size += len(part)
        if size <= _MOST:
            parts.append(part)


def _descriptors() -> tuple[bool, bool]:
    """Whether stdin and stdout were open.

    Where one was not, its number is taken: else the next file we open would get it, and our answer.
    """
    readable, writable = sys.stdin is not None, sys.stdout is not None
    if not readable or not writable or sys.stderr is None:
        while True:
            fd = os.open(os.devnull, os.O_RDWR)
            if fd > 2:
                os.close(fd)
                break
    return readable, writable
