"""The door of agents: `git mem hook EVENT [--agent AGENT]`.

Promise: exit status 0, whatever happens; on stdout one JSON object (for PreCompact plain text) or
nothing; nothing on stderr; an end within the deadline (`call.LIMITS`). Failures are counted in
`mem/hooks.log` and shown by `git mem doctor`. In a repository without `git mem init` and without
memories nothing is made, and nothing printed unless its own files say that memories should be here
(`unfetched`), or the session began in one around it; `mem.enabled=false` and GIT_MEM_DISABLE=1
switch all off.

`__main__` comes here before it imports anything else. Standard library only (a prompt's encoder is
loaded by a process beside), nothing from the working tree, no git process where files tell enough.
"""

from __future__ import annotations

import os
import sys
import time

from . import prefork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

    from ..git.discover import Here
    from .call import Call

LONGEST = 16_000_000  # bytes of stdin; a tool's answer can be as long as a file


def main(argv: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Answers one call and ends the process: Python's own clean-up costs a millisecond."""
    try:
        begun = time.monotonic()
        readable, writable = _descriptors()
        if not (readable and writable and prefork.answered(argv, environ)):
            run(argv, environ, begun, 0 if readable else -1, 1 if writable else -1)
    finally:
        os._exit(0)


def run(
    argv: Sequence[str], environ: Mapping[str, str], begun: float, stdin: int = 0, stdout: int = 1
) -> None:
    """One call. Whatever fails in it is counted; nothing is raised."""
    from . import prompt_question

    agent, name, argument = _words(argv)
    encoder = prompt_question.encoder(name, environ)
    from . import protocol  # not before: the encoder loads meanwhile
    from .call import Call

    call = Call(agent, protocol.event_of(name), environ, begun, stdout)
    call.encoder = encoder
    try:
        before = time.monotonic()
        data = argument or _read(stdin)
        waited = time.monotonic() - before  # for the agent
        payload = None if data is None else protocol.parse(data)
        call.payload = payload or {}
        if encoder:
            call.question = prompt_question.of(protocol.prompt(call.payload))
            if call.question:
                encoder.begin(call.question)
        call.event = protocol.event_of(name or call.payload.get("hook_event_name"))
        call.deadline.start(call.event, begun + waited)
        _answer(call, payload is not None)
    except BaseException as e:
        from . import failures

        call.failed(failures.where(e))
    finally:
        prompt_question.end(call, environ)


def _answer(call: Call, parsed: bool) -> None:
    if call.environ.get("GIT_MEM_DISABLE", "") not in ("", "0"):
        return
    from . import protocol

    here = _repository(call)
    if here is None or not here.settings.flag("enabled"):
        return
    if not here.initialised:
        if call.event == "SessionStart" and protocol.source(call.payload) == "startup":
            from . import unfetched

            call.message = unfetched.of_stranger(here, call.cwd, call.environ)
            call.say("")
        return
    call.enter(here)
    if not parsed:
        call.failed("stdin holds no JSON object")
    elif not call.event:
        call.failed("unknown event")
    elif call.agent not in protocol.AGENTS:
        call.failed("unknown agent")
    else:
        from .events import HANDLERS

        HANDLERS[call.event](call)


def _repository(call: Call) -> Here | None:
    """The one around the session's directory. Where that was never set up and lies in the one that
    the session began in, the latter: an agent's `cd` into a submodule stays (Claude Code 2.1.330).
    """
    from ..git import discover
    from . import protocol

    call.cwd = _directory(call)
    here = discover.find(call.cwd, call.environ) if call.cwd else None
    if here and not here.initialised and here.settings.flag("enabled"):
        for began in protocol.directories(call.payload, call.environ):
            if here.top.startswith(os.path.realpath(began).rstrip("/") + "/"):
                around = discover.find(began, call.environ)
                if around and around.initialised:
                    call.away = True
                    return around
    return here


def _directory(call: Call) -> str:
    """The directory that the agent names, where it exists; else ours; "" where that is gone."""
    from . import protocol

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
    """(agent, event, JSON given as an argument) of the command line; unknown words are ignored."""
    agent, name, argument = "claude", "", b""
    words = iter(argv)
    for word in words:
        if word == "--agent":
            agent = next(words, agent)
        elif word.startswith("--agent="):
            agent = word.removeprefix("--agent=")
        elif word.startswith("{"):
            argument = os.fsencode(word)
        elif not word.startswith("-") and not name:
            name = word
    return agent.lower(), name, argument


def _read(fd: int) -> bytes | None:
    """stdin to its end, for an agent may not bear a closed pipe; None beyond LONGEST."""
    if fd < 0 or os.isatty(fd):
        return b""
    data = bytearray()
    size = 0
    while True:
        try:
            part = os.read(fd, 1 << 20)
        except BlockingIOError:  # the other process has made our end non-blocking
            time.sleep(0.001)
            continue
        if not part:
            return bytes(data) if size <= LONGEST else None
        size += len(part)
        if size <= LONGEST:
            data += part


def _descriptors() -> tuple[bool, bool]:
    """Whether stdin and stdout were open. Takes the numbers of closed ones: else the next file that
    we open would get one of them, and our answer.
    """
    readable, writable = sys.stdin is not None, sys.stdout is not None
    fd = 0
    while fd <= 2 and not (readable and writable and sys.stderr):
        fd = os.open(os.devnull, os.O_RDWR)
    if fd > 2:
        os.close(fd)
    return readable, writable
