"""What capture does not read again because a memory that came from it was purged.

A tombstone of a short text cannot say which text it keeps out: whoever has it could find the text
by trying. So `<git-common-dir>/git-mem-closed` names where purged memories came from: a line of a
commit by its number, a conversation as a whole.

Promise: each line is a salt and a digest under it, so the file names no session and no commit to
whoever does not know it already; mode 0600; it never leaves this clone. It lies beside `mem/`,
which may be deleted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..core.digest import sha256
from ..core.errors import MemError
from ..core.record import Record
from ..git import config_journal, memfile

_FILE = "git-mem-closed"
_COMMIT, _SESSION = "commit:", "session:"


def origin(source: object) -> str:
    """What of a source is closed, of a conversation all; "" for what capture does not read."""
    if not isinstance(source, str):
        return ""
    if source.startswith(_SESSION):
        found = source.rpartition("#")[0]
        return found if found > _SESSION else ""
    return source if source.startswith(_COMMIT) else ""


def close(common_dir: str, records: Iterable[Record]) -> None:
    """Closes where these records came from. Raises MemError where that cannot be written."""
    path = os.path.join(common_dir, _FILE)
    before = Closed(common_dir)
    lines = []
    for name in sorted({origin(r.data.get("source")) for r in records} - {""}):
        if not before.has(name):
            salt = os.urandom(16).hex()
            lines.append(f"{salt} {_digest(salt, name)}\n")
    if not lines:
        return
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | memfile.SAFE, 0o600)
        with open(fd, "a", encoding="ascii") as f:
            f.write("\n" + "".join(lines))  # whatever a crash left of the line before
            f.flush()
            os.fsync(fd)
    except OSError as e:
        raise MemError(
            f"cannot write '{path}': {e.strerror}",
            hint="capture would read the purged text again; nothing was purged",
        ) from None


class Closed:
    """The closed origins of one repository, as they are now."""

    def __init__(self, common_dir: str) -> None:
        content = config_journal.read(os.path.join(common_dir, _FILE)).decode("ascii", "replace")
        rows = [line.split() for line in content.splitlines()]
        self._marks = [(words[0], words[1]) for words in rows if len(words) == 2]

    def has(self, name: str) -> bool:
        """Whether an `origin` is closed."""
        return bool(name) and any(_digest(salt, name) == mark for salt, mark in self._marks)


def _digest(salt: str, name: str) -> str:
    return sha256(f"{salt} {name}".encode("utf-8", "replace")).hexdigest()
