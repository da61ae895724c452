"""Where lines go in a notes tree: the notes to write, as commands for `git fast-import`.

Promise: a line goes to the last note of its anchor; a note that reached `BOUND` bytes is continued
under keys of its own (`notetree.continuation`), so the ten-thousandth memory on a commit costs what
the first did. Lines already there are kept byte for byte; two paths of one note become one.
"""

from __future__ import annotations

import bisect
from collections.abc import Container, Mapping

from ..git.gitcmd import Git
from ..git.object_reader import TooLarge
from . import notetree
from .notetree import PURGED, note_key, split_lines

BOUND = 32 * 1024  # bytes of a note before it is continued
_TOGETHER = 256  # anchors at a time: their notes take 16 MB at most


class TreeEdit:
    """Changes to the tree of one notes commit; nothing is written until `commands` are run."""

    def __init__(self, git: Git, tree: str | None, hex_len: int, keep: str = "") -> None:
        """`keep`: a commit whose entries that are no notes and no keys of ours are kept."""
        self._git = git
        self._hex_len = hex_len
        self._tree = notetree.NoteTree(git, tree, hex_len)
        self._kept = notetree.strangers(git, keep) if keep else []
        if keep:
            count = sum(1 for _ in notetree.all_notes(git, keep))
            self._tree.fanned = count >= notetree.SPLIT
        self._together: dict[str, bytes] = {}  # {blob id: content} of notes of a part of `add_all`
        self._here: dict[str, bool] = {}  # {anchor: whether the repository has it}
        self._writes: dict[str, bytes] = {}
        self._drops: dict[str, None] = {}
        self._moves: dict[str, str] = {}
        self._anchors: dict[str, str] = {}  # what `anchor_of` has found

    def commands(self) -> bytes:
        """The changes as fast-import commands. Once."""
        for old, new in self._moves.items():
            paths = self._tree.notes(old.replace("/", ""))
            if old in self._writes:
                self._writes[new] = self._writes.pop(old)
            elif len(paths) == 1 and new not in self._writes:
                self._kept.append((b"100644", paths[0][1].encode(), new.encode()))
            else:
                continue  # of several paths each stays where it is: readers accept that
            self._drops[old] = None
        out = [b"M %s %s %s\n" % entry for entry in self._kept]
        out += [b"D %s\n" % path.encode() for path in self._drops if path not in self._writes]
        out += [
            b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(content), content)
            for path, content in self._writes.items()
        ]
        return b"".join(out)

    def anchor_of(self, key: str) -> str:
        """The anchor of a note's key: of a continuation its commit, "" or PURGED, else the key."""
        if key not in self._anchors:
            # A commit that a partial clone does not have is not fetched for its name; the key of a
            # continuation that this tree keeps alive is.
            most = self._git.largest
            found = self._git.local.get(key, most)
            if not found and self._tree.has_key(key):
                found = self._git.objects.get(key, most)
            blob = found[2] if found and found[1] == "blob" else b""
            anchor = notetree.continued(blob, self._hex_len)
            self._anchors[key] = key if anchor is None else anchor
        return self._anchors[key]

    def has_note(self, commit: str) -> bool:
        return bool(self._tree.notes(commit))

    def add_all(self, groups: Mapping[str, list[bytes]], noted: Container[str] = ()) -> None:
        """`add` for each anchor. What git has of them is asked for together: in half the time.
        `noted`: another clone has lines in the notes of these commits, where they stay, also if a
        commit is not here: two clones that lack each other's would else go on uniting for ever.
        """
        anchors = list(groups)
        for start in range(0, len(anchors), _TOGETHER):
            part = anchors[start : start + _TOGETHER]
            commits = [anchor for anchor in part if anchor not in ("", PURGED)]
            found = self._git.local.get_many(commits)
            self._here = {
                anchor: bool(one) or anchor in noted
                for anchor, one in zip(commits, found, strict=True)
            }
            self._read_together([blob for anchor in part for _, blob in self._tree.notes(anchor)])
            for anchor in part:
                self.add(anchor, groups[anchor])

    def _read_together(self, blobs: list[str]) -> None:
        """Reads notes, but for those that are longer than twice BOUND."""
        most = min(2 * BOUND, self._git.largest or 2 * BOUND)
        found = zip(blobs, self._git.objects.get_many(blobs, most), strict=True)
        self._together = {
            blob: one[2] for blob, one in found if one and not isinstance(one[2], TooLarge)
        }

    def add(self, anchor: str, lines: list[bytes]) -> None:
        """Appends lines to the last note of an anchor (a full id, "" or PURGED) and, past BOUND, to
        continuations. Once for each anchor.
        """
        if anchor not in ("", PURGED) and note_key(anchor, self._hex_len) is None:
            raise ValueError(f"'{anchor}' is no object id")
        n = self._last(anchor)
        at = 0
        while at < len(lines):
            key, content = self._place(anchor, n)
            have = self._lines(key)
            if have is None:
                n += 1  # it is full, whatever it holds
                continue
            if n and not self._tree.has_key(key):
                self._writes[notetree.key_path(key)] = content
            size = sum(map(len, have)) + len(have)
            start = at
            while at < len(lines) and (size < BOUND or not have):
                have[lines[at]] = None
                size += len(lines[at]) + 1
                at += 1
            if at > start:
                self._write(key, have)
            n += 1

    def _place(self, anchor: str, n: int) -> tuple[str, bytes]:
        """(key, content of the key blob) of an anchor's note, or of its n-th continuation."""
        return notetree.continuation(anchor, n, self._hex_len) if n else (anchor, b"")

    def carry(self, key: str, blob: str) -> None:
        """Puts a note that is too large to be read where its anchor has a place. After `add`."""
        anchor = self.anchor_of(key)
        n = 0 if anchor == key and self._git.local.get(anchor) is not None else 1
        while True:
            at, content = self._place(anchor, n)
            there = self._tree.notes(at)
            if any(id == blob for _, id in there):
                return
            path, moves = self._tree.place(at)
            if not there and path not in self._writes:
                break
            n += 1
        if content and not self._tree.has_key(at):
            self._writes[notetree.key_path(at)] = content
        self._kept.append((b"100644", blob.encode(), path.encode()))
        self._moves.update(moves)

    def unknown(self, found: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        """Those of the (key, line) that no note of the key's anchor has: two clones may have put
        one line into different continuations.
        """
        have: dict[str, set[bytes]] = {}
        out = []
        for key, line in found:
            anchor = self.anchor_of(key)
            if anchor not in have:
                own = [anchor] if anchor not in ("", PURGED) else []
                keys = [*own, *self._tree.continuations(anchor)]
                have[anchor] = {line for key in keys for line in self._lines(key) or ()}
            if line not in have[anchor]:
                have[anchor].add(line)
                out.append((key, line))
        return out

    def _lines(self, key: str) -> dict[bytes, None] | None:
        """The lines of a note, under all of its paths; None where it is too large to be read: it is
        kept as it is, and continued. Raises GitFailed where one is not here.
        """
        have: dict[bytes, None] = {}
        for _, blob in self._tree.notes(key):
            content = self._together.get(blob)
            if content is None:
                found = self._git.objects.get(blob, self._git.largest)
                if found is None:
                    raise notetree.unreadable(blob)
                content = found[2]
            if isinstance(content, TooLarge):
                return None
            have.update(dict.fromkeys(split_lines(content)))
        return have

    def _write(self, key: str, lines: dict[bytes, None]) -> None:
        path, moves = self._tree.place(key)
        self._writes[path] = b"".join(line + b"\n" for line in lines)
        self._drops.update(dict.fromkeys(p for p, _ in self._tree.notes(key) if p != path))
        self._moves.update(moves)

    def _last(self, anchor: str) -> int:
        """The last continuation that an anchor has: any one may be appended to."""
        # A commit that is not here cannot keep a note through `git notes prune`.
        if anchor not in self._here:
            here = anchor not in ("", PURGED) and self._git.local.get(anchor) is not None
            self._here[anchor] = here
        low = 0 if self._here[anchor] else 1

        def absent(n: int) -> bool:
            return not self._tree.notes(notetree.continuation(anchor, low + n, self._hex_len)[0])

        step = 1
        while not absent(step):
            step *= 2
        return low + bisect.bisect_left(range(step), True, lo=step // 2 + 1, key=absent) - 1
