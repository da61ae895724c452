"""Hook calls that failed: one line each in `<git-common-dir>/mem/hooks.log`, for `git mem doctor`.

The agent is never told, so the user has to be: nothing else would show that a hook has been silent
for a week. A line holds the time, the event and the reason (words of ours, a class of error or a
place in our code), no text of a prompt, a memory or a command.

Promise: the file is bounded, the count is not. A full file is renamed, which only one of several
processes can do, and its number of lines goes into the new one as `+n`. Writing never raises; where
nothing can be written nothing is counted.

Imports only `os` and `time`: every prompt waits for it.
"""

from __future__ import annotations

import os
import time

from ..git import memfile

LOG = "hooks.log"
MOST = 32 * 1024  # bytes
_LONGEST = 200  # characters of a reason


def note(mem_dir: str, event: str, reason: str) -> bool:
    """Counts one failure; whether it could be. Nothing where the directory is missing."""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    words = f"{event[:40] or '?'} {reason[:_LONGEST]}"
    printable = "".join([c if c.isascii() and c.isprintable() else "?" for c in words])
    return _append(mem_dir, f"{when} {printable}\n".encode())


def count(mem_dir: str) -> tuple[int, str]:
    """(failures since the file was made, the last of them); 0 and "" for none."""
    total, last = 0, ""
    try:
        names = os.listdir(mem_dir)
    except OSError:
        return 0, ""
    names = sorted(name for name in names if name == LOG or name.startswith(LOG + "."))
    # The log, and files renamed by a process that died before it counted their lines.
    for name in names:
        lines = _lines(os.path.join(mem_dir, name))
        total += _sum(lines)
        last = next((line for line in reversed(lines) if not line.startswith("+")), last)
    return total, last


def where(error: BaseException) -> str:
    """Class and place of an error, without its message, which may hold the text of a memory."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error).__name__
    file = os.path.basename(trace.tb_frame.f_code.co_filename)
    return f"{type(error).__name__} in {file}:{trace.tb_lineno}"


def _append(mem_dir: str, line: bytes) -> bool:
    path = os.path.join(mem_dir, LOG)
    try:
        fd = memfile.opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(fd, line)
            size = os.fstat(fd).st_size
        finally:
            os.close(fd)
        if size > MOST:
            _turn(mem_dir, path)
    except OSError:
        return False
    return True


def _turn(mem_dir: str, path: str) -> None:
    """Begins a new file that knows how many lines the old one had."""
    old = f"{path}.{os.getpid()}"
    os.rename(path, old)  # of two processes one finds nothing to rename
    total = _sum(_lines(old))
    if _append(mem_dir, b"+%d\n" % total):
        os.unlink(old)


def _lines(path: str) -> list[str]:
    try:
        content = memfile.read(path, 4 * MOST).decode("ascii", "replace")
        return [line for line in content.split("\n") if line]
    except OSError:
        return []


def _sum(lines: list[str]) -> int:
    """A line is one failure, `+n` is n."""
    return sum(int(line[1:]) if line[:1] == "+" and line[1:].isdigit() else 1 for line in lines)
