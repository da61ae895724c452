"""What git itself says of lines of a file, asked slowly and plainly. For `eval_where.py`.

Nothing here imports the package.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from where_reference import CHANGED, SAME, Reference


class Lines:
    """What became of lines of a file, by a plain search for their text and by `git blame`."""

    def __init__(self, ask: Reference) -> None:
        self.ask = ask
        self._rows: dict[str, list[bytes]] = {}
        self.blamed = 0

    def rows(self, id: str) -> list[bytes]:
        if id not in self._rows:
            self._rows[id] = self.ask.raw("cat-file", "blob", id).split(b"\n")
        return self._rows[id]

    def state(
        self, then: str, lines: tuple[int, int], now: str
    ) -> tuple[str, list[tuple[int, int]]]:
        """(SAME with the places of the very lines, CHANGED where not even their letters and digits
        are there, "" where a text search does not decide).
        """
        first, last = lines
        text, there = self.rows(then)[first - 1 : last], self.rows(now)
        places = [
            (n + 1, n + len(text))
            for n in range(len(there) - len(text) + 1)
            if there[n : n + len(text)] == text
        ]
        if places:
            return SAME, places
        return ("" if _letters(text) in _letters(there) else CHANGED), []

    def blame(
        self, base: str, path: str, lines: tuple[int, int], revision: str, name: str
    ) -> tuple[int, int] | None:
        """Where `git blame` finds all of these lines of the commit `base`, in their order and
        together; None where it does not.
        """
        self.blamed += 1
        said = self.ask.raw("blame", "--porcelain", f"{base}..{revision}", "--", name, ok=(0, 128))
        files: dict[bytes, bytes] = {}
        commit = b""
        held: list[tuple[bytes, int, int]] = []
        for row in said.split(b"\n"):
            if head := re.match(rb"([0-9a-f]{40,64}) (\d+) (\d+)", row):
                commit = head[1]
                held.append((commit, int(head[2]), int(head[3])))
            elif row.startswith(b"filename ") and held:
                files[commit] = row[9:]
        name_then = path.encode("utf-8", "surrogateescape")
        found = {
            was: is_
            for commit, was, is_ in held
            if commit.decode() == base and files.get(commit) == name_then
        }
        at = [found.get(n, 0) for n in range(lines[0], lines[1] + 1)]
        return (at[0], at[-1]) if at[0] and at == list(range(at[0], at[0] + len(at))) else None


def _letters(rows: Sequence[bytes]) -> bytes:
    return re.sub(rb"[^A-Za-z0-9_\x80-\xff]", b"", b"".join(rows))
