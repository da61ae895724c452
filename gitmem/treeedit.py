"""Where lines go in a notes tree: the notes to write, as commands for `git fast-import`.

Promise: a line goes to the last note of its anchor; a note that reached
`BOUND` bytes is continued under keys of its own (`notetree.continuation`), so
the ten-thousandth memory on a commit costs what the first did. Lines already
there are kept byte for byte; two paths of one note become one.
"""

from __future__ import annotations

from . import notetree
from .gitcmd import Git

BOUND = 32 * 1024  # bytes of a note before it is continued


def split_lines(blob: bytes) -> list[bytes]:
    """The lines of a note; blank ones (`git notes append` puts them between records) are dropped."""
    return [line for line in (part.strip() for part in blob.split(b"\n")) if line]


class TreeEdit:
    """Changes to the tree of one notes commit; nothing is written until `commands` are run."""

    def __init__(self, git: Git, tree: str | None, hex_len: int) -> None:
        self._git = git
        self._hex_len = hex_len
        self._tree = notetree.NoteTree(git, tree, hex_len)
        self._writes: dict[str, bytes] = {}
        self._drops: dict[str, None] = {}

    def commands(self) -> bytes:
        """The changes as fast-import commands: deletions first, so that a note may move."""
        out = [b"D %s\n" % path.encode() for path in self._drops if path not in self._writes]
        out += [b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(content), content) for path, content in self._writes.items()]
        return b"".join(out)

    def anchor_of(self, key: str) -> str:
        """The anchor a note's key stands for: of a continuation its commit ("" for none), else the key itself."""
        found = self._git.objects.get(key)
        if found and found[1] == "blob" and found[2].startswith(b"git mem continuation\n"):
            anchor = found[2].split(b"\n")[1].split()[0].decode()
            return "" if anchor == "none" else anchor
        return key

    def add(self, anchor: str, lines: list[bytes]) -> None:
        """Appends lines to the last note of an anchor and, past BOUND, to continuations. Once for each anchor."""
        n = self._last(anchor)
        at = 0
        while at < len(lines):
            key, content = (anchor, b"") if n == 0 else notetree.continuation(anchor, n, self._hex_len)
            if n and not self._tree.has_key(key):
                self._writes[notetree.key_path(key)] = content
            have = self._lines(key)
            size = sum(map(len, have)) + len(have)
            start = at
            while at < len(lines) and (size < BOUND or not have):
                have[lines[at]] = None
                size += len(lines[at]) + 1
                at += 1
            if at > start:
                self._write(key, have)
            n += 1

    def _lines(self, key: str) -> dict[bytes, None]:
        """The lines of a note; of two paths in a mixed tree both, as `git notes show` would print them."""
        have: dict[bytes, None] = {}
        for _, blob in self._tree.notes(key):
            found = self._git.objects.get(blob)
            have.update(dict.fromkeys(split_lines(found[2]) if found else []))
        return have

    def _write(self, key: str, lines: dict[bytes, None]) -> None:
        found, path, moves = self._tree.locate(key)
        self._writes[path] = b"".join(line + b"\n" for line in lines)
        self._drops.update(dict.fromkeys(p for p, _ in found if p != path))
        for old, new in moves.items():
            if new not in self._writes:
                moved = self._git.objects.get(self._tree.blob_at(old) or "")
                self._writes[new] = moved[2] if moved else b""
            self._drops[old] = None

    def _last(self, anchor: str) -> int:
        """The last continuation an anchor has, by doubling and halving: any one may be appended to."""
        known = anchor and self._git.objects.get(anchor) is not None
        low = 0 if known else 1  # a commit that is not here cannot keep a note through `git notes prune`

        def there(n: int) -> bool:
            return bool(self._tree.notes(notetree.continuation(anchor, n, self._hex_len)[0]))

        step = 1
        while there(low + step):
            step *= 2
        high = low + step
        low = low + step // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if there(middle) else (low, middle)
        return low
