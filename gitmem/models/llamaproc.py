"""A language model in a process of its own: started when it is first needed, killed when it hangs.

Owns what may go wrong on that side: no llama-cpp-python, no such model, a crash,
a hang, too much memory. Promise: `ask` returns within its deadline, raises
nothing, and None means "go on without"; after `_LIVES` failures in a row it stops
trying. The process is niced, has a bound on its memory and an alarm of its own,
and ends with its pipe, on Linux also in the middle of an answer. It gets no setting and no path of
the repository, only the turn.

    with Asker(choice, cache_directory) as asker:
        asker.ask("user", text)   # {"decision": 0.1, ..., "skip": 0.7} or None
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from . import promptform

START = 180.0  # seconds for loading a model and, once, reading the prompt
DEADLINE = 20.0  # seconds for one answer
_LIVES = 2
_MOST = 64 << 20  # bytes of one answer
_CODE = "import sys; sys.path.append({root!r}); from gitmem.models.llama import main; main()"


def available() -> bool:
    """Whether llama-cpp-python is installed; does not load it."""
    try:
        return find_spec("llama_cpp") is not None
    except (ImportError, ValueError):
        return False


def command(kind: str, path: str, states: str, seconds: float) -> list[str]:
    """How the process is started. Isolated from PYTHON* variables and the current directory."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    size = os.path.getsize(path)
    cores = os.cpu_count() or 1
    # llama.cpp's threads wait for each other in a loop: one too many on a busy machine made an
    # answer twenty times as slow.
    threads = max(
        1, min(4, cores - int(os.getloadavg()[0]) if hasattr(os, "getloadavg") else cores)
    )
    # Weights may be held twice (mapped, and repacked for the processor); the rest is context,
    # buffers, libraries.
    return [
        sys.executable,
        "-EP",
        "-c",
        _CODE.format(root=root),
        kind,
        path,
        states,
        str(threads),
        str(int(seconds) + 5),
        str(2 * size + (3 << 30)),
    ]


class Child:
    """One such process; every call has its deadline. Not for several threads."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.argv = list(argv)
        self.process: subprocess.Popen[bytes] | None = None
        self.failures = 0
        self.reason = ""  # of the last failure
        self._rest = b""

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
            answer = self._exchange(
                json.dumps(request).encode() + b"\n", time.monotonic() + seconds
            )
            if "error" in answer:
                raise OSError(answer["error"])
        except (OSError, ValueError, TimeoutError) as e:
            self.reason = str(e) or type(e).__name__
            self.failures += 1
            self.kill()
            return None
        self.failures = 0
        return answer

    def _start(self) -> None:
        self._rest = b""
        self.process = subprocess.Popen(
            self.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        assert self.process.stdin and self.process.stdout
        os.set_blocking(self.process.stdin.fileno(), False)

    def _exchange(self, line: bytes, end: float) -> dict[str, Any]:
        assert self.process and self.process.stdin and self.process.stdout
        into, out = self.process.stdin.fileno(), self.process.stdout.fileno()
        got = bytearray(self._rest)
        while b"\n" not in got:
            left = end - time.monotonic()
            ready = select.select([out], [into] if line else [], [], max(0.0, left))
            if left <= 0 or not (ready[0] or ready[1]):
                raise TimeoutError("no answer in time")
            if ready[1]:
                line = line[os.write(into, line[:65536]) :]
            if ready[0]:
                chunk = os.read(out, 1 << 20)
                if not chunk:
                    raise OSError(f"the process ended with status {self.process.wait()}")
                got += chunk
                if len(got) > _MOST:
                    raise OSError("the answer is too long")
        text, _, rest = bytes(got).partition(b"\n")
        self._rest = rest
        answer = json.loads(text)
        if not isinstance(answer, dict):
            raise ValueError("the answer is no object")
        return answer

    def kill(self) -> None:
        """Ends the process at once, whatever it does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe:
                    pipe.close()
            self.process = None


class Asker:
    """The language model of `chosen.choice`, asked about turns.

    `until`: monotonic time after which nothing is asked any more.
    """

    def __init__(
        self,
        path: str,
        cache: str = "",
        *,
        deadline: float = DEADLINE,
        until: float = float("inf"),
        argv: Sequence[str] | None = None,
    ) -> None:
        self.deadline = deadline
        self.until = until
        self._leaning: dict[str, float] | None = None
        self.child = Child(
            argv
            or command(
                "language",
                path,
                os.path.join(cache, "prompts") if cache else "",
                max(deadline, START),
            )
        )

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def reason(self) -> str:
        """Why the last question had no answer."""
        return self.child.reason

    def ask(self, role: str, text: str) -> dict[str, float] | None:
        """{label: probability} over `promptform.LABELS`, or None."""
        return self._labels({"op": "labels", "role": role, "text": promptform.shortened(text)})

    def _labels(self, request: dict[str, Any]) -> dict[str, float] | None:
        answer = self._call(request)
        labels = answer.get("labels") if answer else None
        if not isinstance(labels, dict) or set(labels) != set(promptform.LABELS):
            return None
        return {label: float(labels[label]) for label in promptform.LABELS}

    def opinion(self, role: str, text: str) -> tuple[float, str, str, dict[str, float]] | None:
        """(probability that the turn is worth keeping, its likeliest type, "", share of each type)
        as `classify.Opinion` takes it, or None.
        """
        if self._leaning is None:
            self._leaning = self._labels({"op": "leaning"})
        found = self.ask(role, text) if self._leaning else None
        if found is None or self._leaning is None:
            return None
        shares = promptform.types(found, self._leaning)
        return 1.0 - found[promptform.SKIP], max(shares, key=shares.__getitem__), "", shares

    def title(self, role: str, text: str, label: str) -> str:
        """A title in the model's words, "" for none."""
        answer = self._call(
            {"op": "title", "role": role, "text": promptform.shortened(text), "label": label}
        )
        found = answer.get("title") if answer else ""
        return found if isinstance(found, str) else ""

    def _call(self, request: dict[str, Any]) -> dict[str, Any] | None:
        left = self.until - time.monotonic()
        return (
            self.child.call(request, min(self.deadline, left), min(START, left))
            if left > 0
            else None
        )

    def close(self) -> None:
        self.child.kill()
