"""A language model in a process of its own: started when it is first needed, killed when it hangs.

Promise: an answer comes within its deadline; None means "go on without", nothing is raised; after
`_LIVES` failures in a row (a crash, a hang, too much memory, no model) the process is not started
again. It is niced, has a bound on its memory and an alarm of its own, and ends with its pipe, on
Linux also in the middle of an answer. It gets no setting and no path of the repository, only the
turn.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Self

from . import promptform
from .promptform import Opinion

INSTALL = f"{sys.executable} -m pip install llama-cpp-python"
START = 180.0  # seconds for loading a model and, once, reading the prompt
DEADLINE = 20.0  # seconds for one answer
_LIVES = 2
_MOST = 64 << 20  # bytes of one answer
_CODE = "import sys; sys.path.append({root!r}); from gitmem.models.llama import main; main()"


def available() -> bool:
    try:
        return find_spec("llama_cpp") is not None
    except (ImportError, ValueError):
        return False


def command(kind: str, path: str, states: str) -> list[str]:
    """How the process is started. Isolated from PYTHON* variables and the current directory."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    # llama.cpp's threads wait for each other in a loop: one too many on a busy machine made an
    # answer twenty times as slow.
    idle = os.cpu_count() or 1
    if hasattr(os, "getloadavg"):
        idle -= int(os.getloadavg()[0])
    threads = max(1, min(4, idle))
    seconds = int(START) + 5
    # Weights may be held twice (mapped, and repacked for the processor); the rest is context,
    # buffers, libraries.
    memory = 2 * os.path.getsize(path) + (3 << 30)
    process = [sys.executable, "-EP", "-c", _CODE.format(root=root)]
    return [*process, kind, path, states, str(threads), str(seconds), str(memory)]


class Child:
    """One such process, until its context ends; every call has its deadline. Not for several
    threads.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        self.argv = list(argv)
        self.process: subprocess.Popen[bytes] | None = None
        self.failures = 0
        self.reason = ""  # why the last call had no answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def call(
        self, request: dict[str, Any], seconds: float, start: float = START
    ) -> dict[str, Any] | None:
        """The answer, or None: then the process was killed, and the next call starts another,
        `_LIVES` times in a row at most.
        """
        if self.failures >= _LIVES:
            return None
        try:
            if self.process is None:
                self._start()
                seconds = max(seconds, start)
            line = json.dumps(request).encode() + b"\n"
            answer = json.loads(self._exchange(line, time.monotonic() + seconds))
            if not isinstance(answer, dict):
                raise ValueError("the answer is no object")
            if "error" in answer:
                raise OSError(answer["error"])
        except (OSError, ValueError) as e:
            self.reason = str(e) or type(e).__name__
            self.failures += 1
            self.kill()
            return None
        self.failures = 0
        return answer

    def _start(self) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            self.argv,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        assert self.process.stdin
        os.set_blocking(self.process.stdin.fileno(), False)

    def _exchange(self, line: bytes, end: float) -> bytes:
        """Writes a line, however little the process reads at once, and reads one."""
        assert self.process and self.process.stdin and self.process.stdout
        into, out = self.process.stdin.fileno(), self.process.stdout.fileno()
        got = [b""]
        while b"\n" not in got[-1]:
            left = max(0.0, end - time.monotonic())
            readable, writable, _ = select.select([out], [into] if line else [], [], left)
            if not left or not (readable or writable):
                raise TimeoutError("no answer in time")
            if writable:
                line = line[os.write(into, line[:65536]) :]
            if readable:
                chunk = os.read(out, 1 << 20)
                if not chunk:
                    raise OSError(f"the process ended with status {self.process.wait()}")
                got.append(chunk)
                if sum(map(len, got)) > _MOST:
                    raise OSError("the answer is too long")
        return b"".join(got).partition(b"\n")[0]

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe:
                    pipe.close()
            self.process = None


class Asker(Child):
    """The language model at `path`, asked about turns.

    `cache`: the directory for the state of the prompt, "" for none; `until`: monotonic time after
    which nothing is asked any more.
    """

    def __init__(
        self,
        path: str,
        cache: str = "",
        *,
        until: float = float("inf"),
        argv: Sequence[str] | None = None,
    ) -> None:
        states = os.path.join(cache, "prompts") if cache else ""
        super().__init__(argv or command("language", path, states))
        self.answered = False
        self._until = until
        self._leaning: dict[str, float] | None = None

    def ask(self, role: str, text: str) -> dict[str, float] | None:
        """{label: probability} over `promptform.LABELS`, or None."""
        return self._labels({"op": "labels", "role": role, "text": promptform.shortened(text)})

    def opinion(self, role: str, text: str) -> Opinion | None:
        if self._leaning is None:
            self._leaning = self._labels({"op": "leaning"})
        said = self.ask(role, text) if self._leaning else None
        if said is None or self._leaning is None:
            return None
        self.answered = True
        return promptform.opinion(said, self._leaning)

    def _labels(self, request: dict[str, Any]) -> dict[str, float] | None:
        left = self._until - time.monotonic()
        if left <= 0:
            return None
        answer = self.call(request, min(DEADLINE, left), min(START, left))
        labels = answer.get("labels") if answer else None
        if not isinstance(labels, dict) or set(labels) != set(promptform.LABELS):
            return None
        return {label: float(labels[label]) for label in promptform.LABELS}
