"""How far a fetch or push is: git's own lines on stderr, told as a progress of ours."""

from __future__ import annotations

import contextlib
import re
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..core.progress import Progress

# `Receiving objects:  45% (450/1000), 1.20 MiB | 2.00 MiB/s`, or a count without a total.
_LINE = re.compile(rb"(?:remote: )?([A-Z][a-z -]+): +(?:\d+% \((\d+)/(\d+)\)|(\d+)(?:, done)?)")


def communicate(process: Any, progress: Progress) -> tuple[bytes, bytes]:
    """(stdout, stderr without its lines of progress) of a running git, a `Popen` that was started
    with `--progress` and reads nothing.
    """
    process.stdin.close()
    said: list[bytes] = []
    stdout = process.stdout
    reader = threading.Thread(target=lambda: said.append(stdout.read()), daemon=True)
    reader.start()
    kept: list[bytes] = []
    shown, before, part = b"", 0, b""
    with contextlib.ExitStack() as line:
        advance: Callable[[int], None] = lambda more: None  # noqa: E731
        while block := process.stderr.read1(4096):
            *whole, part = (part + block).replace(b"\r", b"\n").split(b"\n")
            for text in whole:
                if not (found := _LINE.match(text)):
                    kept.append(text + b"\n")
                    continue
                if found[1] != shown:
                    line.close()
                    total = int(found[3]) if found[3] else None
                    shown, before = found[1], 0
                    advance = line.enter_context(progress(shown.decode().lower(), total))
                done = int(found[2] or found[4])
                advance(done - before)
                before = done
    kept.append(part)
    reader.join()
    process.stdout.close()
    process.stderr.close()
    process.wait()
    return said[0], b"".join(kept)
