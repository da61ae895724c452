"""Runs `git mem` for the tests by a fork instead of a cold start.

A cold start of Python with our modules costs 0.2 s of processor, a fork 0.03. So each
test process keeps one server, the zygote: it imports git mem's modules once, runs none of
their functions, and forks for each call. The child gets the descriptors, directory and
environment of the call, runs `gitmem.__main__.main` and exits as Python would.

`Lab.run` comes here by itself. A real process is started instead

- in a test marked `process`, where the process is the claim: what is imported, how the
  interpreter is started, signals to it, limits it inherits;
- where the environment changes how Python or the loader starts (`STARTUP`);
- everywhere with GIT_MEM_TEST_PROCESS=1, as `make nightly` does.
"""

from __future__ import annotations

import os
import pickle
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import Any, NoReturn

# A process reads these before our code runs; a fork would come too late for another value.
STARTUP = ("PYTHON", "LD_", "DYLD_", "LC_", "LANG")
REAL = bool(os.environ.get("GIT_MEM_TEST_PROCESS")) or not hasattr(socket, "send_fds")
FLAGS = {"-E", "-I", "-P", "-s", "-EP"}  # their effect on sys.path `main` has by itself


class Zygote:
    """The client: one server, started at the first call with `env`, ended with this process."""

    def __init__(self, env: dict[str, str]) -> None:
        self._env = env
        self._server: socket.socket | None = None

    def command(self, argv: list[str], env: dict[str, str]) -> list[str] | None:
        """The arguments of git mem if the zygote can run this command line, else None."""
        if REAL or _startup(env) != _startup(self._env):
            return None
        if argv[0] == "git-mem":
            program = shutil.which("git-mem", path=env.get("PATH"))
            return argv[1:] if program == _LAUNCHER else None
        at = 1
        while at < len(argv) and argv[at] in FLAGS:
            at += 1
        ours = argv[0] == sys.executable and argv[at : at + 2] == ["-m", "gitmem"]
        return argv[at + 2 :] if ours else None

    def run(
        self, words: list[str], cwd: str, env: dict[str, str], stdin: bytes, timeout: float
    ) -> tuple[int, bytes, bytes]:
        """The exit status as `subprocess` tells it, stdout and stderr."""
        if self._server is None:
            self._start()
        assert self._server
        call, theirs = socket.socketpair()
        in_read, in_write = os.pipe()
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        passed = [theirs.detach(), in_read, out_write, err_write]
        socket.send_fds(self._server, [b"."], passed)
        for fd in passed:
            os.close(fd)
        with call:
            answer = call.makefile("rb")
            call.sendall(pickle.dumps((words, cwd, env)))
            call.shutdown(socket.SHUT_WR)
            pid = int(answer.readline())
            try:
                out, err = _communicate(in_write, stdin, [out_read, err_read], timeout)
            except subprocess.TimeoutExpired:
                os.kill(pid, signal.SIGKILL)
                raise
            return int(answer.readline()), out, err

    def _start(self) -> None:
        self._server, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(theirs.fileno())],
            env=self._env,
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()


_LAUNCHER = shutil.which("git-mem", path=os.path.dirname(sys.executable))


def _startup(env: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(STARTUP)}


def _communicate(stdin: int, data: bytes, outputs: list[int], timeout: float) -> list[bytes]:
    """Writes and reads at the same time until both outputs are closed, as `subprocess` does."""
    end = time.monotonic() + timeout
    found = dict.fromkeys(outputs, b"")
    os.set_blocking(stdin, False)
    with selectors.DefaultSelector() as waiting:
        for fd in outputs:
            waiting.register(fd, selectors.EVENT_READ)
        waiting.register(stdin, selectors.EVENT_WRITE)
        while waiting.get_map():
            ready = waiting.select(max(0.0, end - time.monotonic()))
            if not ready and time.monotonic() >= end:
                raise subprocess.TimeoutExpired("git-mem", timeout)
            for key, _ in ready:
                if key.fd == stdin:
                    try:
                        data = data[os.write(stdin, data) :] if data else b""
                    except BrokenPipeError:
                        data = b""
                    more = bool(data)
                else:
                    part = os.read(key.fd, 1 << 16)
                    found[key.fd] += part
                    more = bool(part)
                if not more:
                    waiting.unregister(key.fd)
                    os.close(key.fd)
    return [found[fd] for fd in outputs]


# What follows runs in the server.


def _load() -> None:
    """Imports all that a command may import."""
    import importlib
    import pkgutil

    import gitmem

    for module in pkgutil.walk_packages(gitmem.__path__, "gitmem."):
        if not any(name in module.name for name in ("llama", "mcp_server", "organisation")):
            importlib.import_module(module.name)


def _serve(server: socket.socket) -> tuple[socket.socket, list[int]]:
    """Forks for each request and reports how the children ended; returns in each child."""
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    running: dict[int, socket.socket] = {}
    while True:
        with selectors.DefaultSelector() as waiting:
            waiting.register(server, selectors.EVENT_READ)
            waiting.register(reader, selectors.EVENT_READ)
            ready = {key.fileobj for key, _ in waiting.select()}
        if reader in ready:
            reader.recv(4096)
            _reap(running)
        if server in ready:
            data, fds, _, _ = socket.recv_fds(server, 1, 4)
            if not data:
                os._exit(0)  # the test process has ended
            call = socket.socket(fileno=fds[0])
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                return call, fds[1:]
            running[pid] = call
            _tell(call, pid)
            for fd in fds[1:]:
                os.close(fd)


def _reap(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with running.pop(pid) as call:
            _tell(call, os.waitstatus_to_exitcode(status))


def _tell(call: socket.socket, number: int) -> None:
    try:
        call.sendall(b"%d\n" % number)
    except OSError:
        pass  # nobody waits for it any more


def _become(call: socket.socket, fds: list[int]) -> None:
    """Makes this child what a cold start with these arguments would be."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with call, call.makefile("rb") as request:
        words, cwd, env = pickle.loads(request.read())
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    os.closerange(3, 1024)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    import gitmem.__main__

    sys.argv = [gitmem.__main__.__file__, *words]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        mode = "w" if number else "r"
        new = open(number, mode, encoding=old.encoding, errors=old.errors)  # noqa: SIM115
        new.reconfigure(line_buffering=number == 2)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


def _main() -> NoReturn:
    """Runs git mem in this child and ends it as the interpreter would."""
    import atexit
    import threading
    import traceback

    from gitmem.__main__ import main

    status: Any
    try:
        status = main()
    except SystemExit as e:
        status = e.code
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            status = 120
    os._exit(status if isinstance(status, int) else 0 if status is None else 1)


if __name__ == "__main__":
    _load()
    import gc

    gc.collect()
    gc.freeze()  # a collection in a child would copy the pages of all these modules
    listening = socket.socket(fileno=int(sys.argv[1]))
    try:
        _become(*_serve(listening))
    except KeyboardInterrupt:
        os._exit(130)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(70)
    _main()
