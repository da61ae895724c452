"""Hook calls that failed: one line each in `<git-common-dir>/mem/hooks.log`, for `git mem doctor`.

The agent is never told, so the user has to be: nothing else would show that a hook has been silent
for a week. A line holds the time, the event and the reason (words of ours, a class of error or a
place in our code), no text of a prompt, a memory or a command.

Promise: the file is bounded, the count is not: a full file begins anew with its number of lines, as
`+n`, and its last one (of other processes' lines of that moment some may be missed). Writing never
raises; where nothing can be written nothing is counted.

Imports only `os` and `time`: every prompt waits for it.
"""

from __future__ import annotations

import os
import time

from ..git import memfile
from ..hooks import spool

LOG = "hooks.log"
MOST = 32 * 1024  # bytes
_LONGEST = 200  # characters of a reason


def note(mem_dir: str, event: str, reason: str) -> bool:
    """Counts one failure; whether it could be. Nothing where the directory is missing."""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    words = f"{event[:40] or '?'} {reason[:_LONGEST]}"
    printable = "".join([c if c.isascii() and c.isprintable() else "?" for c in words])
    path = os.path.join(mem_dir, LOG)
    try:
        if spool.put(path, f"{when} {printable}\n".encode()).st_size > MOST:
            total, last = count(mem_dir)
            memfile.write(path, f"+{total - 1}\n{last}\n".encode())
    except OSError:
        return False
    return True


def count(mem_dir: str) -> tuple[int, str]:
    """(failures since the file was made, the last of them); 0 and "" for none."""
    try:
        content = memfile.read(os.path.join(mem_dir, LOG), 4 * MOST).decode("ascii", "replace")
    except OSError:
        return 0, ""
    total, last = 0, ""
    for line in filter(None, content.split("\n")):
        if line[0] == "+" and line[1:].isdigit():
            total += int(line[1:])
        else:
            total, last = total + 1, line
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
