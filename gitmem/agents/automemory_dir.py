"""Our files in the directories of Claude Code's auto memory: found, listed in its index, removed.

Owns the files `git-mem-*.md` there (`automemory_export` writes them), the lines between our two
markers in `MEMORY.md`, and `<common>/git-mem-written`, the list of the directories that have some
(outside of `mem/`, which may be deleted).

Promises. Nothing else there is changed; `remove` gives the index back byte for byte. A file
of ours that somebody changed belongs to them: it is not removed (a purge takes the purged
lines out of it). The index stays within what the client loads: 200 lines, 25 KB.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ..core.errors import MemError
from ..core.record import Record
from ..git import config_journal, worktree_file
from ..store import Store
from . import automemory_note
from .automemory import packed, read_from, unpacked
from .automemory_note import LARGEST

WRITTEN, UNCHANGED, REMOVED, KEPT, LEFT = "written", "unchanged", "removed", "kept", "left out"
LINES, BYTES = 200, 25_000  # of an index that the client loads
_LIST = "git-mem-written"
_TELLING = 16  # characters of a text that give it away


@dataclass
class Item:
    """What became of one file. `id`: of its memory, "" for none. `reason`, `hint`: why so."""

    file: str
    id: str
    status: str
    title: str = ""
    reason: str = ""
    hint: str = ""


@dataclass
class Report:
    """`missing`: files that the index names and that are not there, as an import finds them."""

    directory: str
    items: list[Item] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def count(self, status: str) -> int:
        return sum(item.status == status for item in self.items)


def watch(store: Store, directory: str) -> None:
    """Notes that a directory may hold texts of memories, for a purge to look at."""
    _list(store.repo.common_dir, [*directories(store.repo.common_dir), directory])


def directories(common_dir: str) -> list[str]:
    """Where files of ours may be."""
    lines = config_journal.read(os.path.join(common_dir, _LIST)).split(b"\n")
    return [unpacked(line) for line in lines if line]


def _list(common_dir: str, names: list[str]) -> None:
    path = os.path.join(common_dir, _LIST)
    content = b"".join([packed(name) + b"\n" for name in dict.fromkeys(names)])
    if content:
        config_journal.write(path, content, 0o600)
    elif os.path.exists(path):
        os.unlink(path)


def ours(directory: str) -> list[tuple[str, automemory_note.Topic]]:
    """(name, topic) of the files that we wrote, changed ones included."""
    found = []
    for name, raw in files(directory):
        if name.startswith(automemory_note.PREFIX):
            topic = automemory_note.read(name, raw.decode("utf-8", "replace"))
            if topic.ours:
                found.append((name, topic))
    return found


def files(directory: str) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the Markdown files, links left out."""
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return
    for name in names:
        if name.endswith(".md"):
            with contextlib.suppress(MemError):
                if raw := worktree_file.read(directory, name, LARGEST):
                    yield name, raw


def drop(
    directory: str, name: str, topic: automemory_note.Topic, report: Report, dry: bool
) -> None:
    """Removes a file of ours, unless somebody changed it."""
    if not topic.sealed:
        report.items.append(Item(name, topic.ours, KEPT, topic.description, "somebody changed it"))
        return
    if not dry:
        os.unlink(os.path.join(directory, name))
    report.items.append(Item(name, topic.ours, REMOVED, topic.description))


def remove(store: Store, directory: str, *, dry: bool = False) -> Report:
    """Takes our files and lines out of a directory."""
    report = Report(directory)
    with errors(directory):
        for name, topic in ours(directory):
            drop(directory, name, topic, report, dry)
        if not dry:
            index = Index(directory)
            index.lines = []
            index.save()
            if not report.count(KEPT):
                common_dir = store.repo.common_dir
                _list(common_dir, [d for d in directories(common_dir) if d != directory])
    return report


def leave(store: Store) -> list[str]:
    """Takes our files and lines out of all directories; a line for each thing done or kept."""
    done = []
    for directory in directories(store.repo.common_dir):
        report = remove(store, directory)
        if removed := report.count(REMOVED):
            done.append(f"removed {removed} files of memories from '{directory}'")
        for item in report.items:
            if item.status == KEPT:
                done.append(f"kept '{os.path.join(directory, item.file)}': {item.reason}")
    return done


def wipe(
    store: Store, ids: Iterable[str], records: Iterable[Record]
) -> tuple[list[str], list[str]]:
    """(files that changed, files of others that still hold the text). Takes purged memories out of
    all that we wrote; a file that somebody changed loses their lines alone.
    """
    gone = set(ids)
    said = [r.data.get(name) for r in records for name in ("title", "body")]
    texts = [text for text in said if isinstance(text, str)]
    lines = {_joined(line) for text in texts for line in text.split("\n")} - {""}
    telling = [line for line in lines if len(line) >= _TELLING]

    def speaks(raw: bytes) -> bool:
        line = _joined(raw.decode("utf-8", "replace"))
        return line in lines or any(part in line for part in telling)

    changed: list[str] = []
    watched = directories(store.repo.common_dir)
    for directory in watched:
        with errors(directory):
            index = Index(directory)
            for name, topic in ours(directory):
                if topic.ours not in gone:
                    continue
                path = os.path.join(directory, name)
                if topic.sealed:
                    os.unlink(path)
                else:
                    present = config_journal.read(path).split(b"\n")
                    rest = [line for line in present if not speaks(line)]
                    config_journal.replace(path, b"\n".join(rest))
                changed.append(path)
                if index.drop(name):
                    index.save()
                    changed.append(index.path)
    whole = [_joined(text) for text in texts if len(text) >= _TELLING]
    held = [
        f"the file '{os.path.join(directory, name)}' of Claude Code"
        for directory in {*watched, read_from(store.repo.mem_dir)}
        for name, raw in files(directory)
        if any(text in _joined(raw.decode("utf-8", "replace")) for text in whole)
    ]
    return list(dict.fromkeys(changed)), sorted(held)


def _joined(text: str) -> str:
    return " ".join(text.split())


class Index:
    """`MEMORY.md`: the text of others, byte for byte, and our `lines`, those that stand there."""

    _JOINED = automemory_note.BEGIN.replace(" -->", "; the line before had no end -->")

    def __init__(self, directory: str) -> None:
        self.path = path = os.path.join(directory, automemory_note.INDEX)
        plain = os.path.isfile(path) and os.stat(path).st_size <= LARGEST
        self._fixed = os.path.islink(path) or (os.path.exists(path) and not plain)
        self.full = f"the index holds no more than {LINES} lines or {BYTES} bytes"
        if self._fixed:
            self.full = "MEMORY.md is no plain file, or a huge one"
        raw = b"" if self._fixed else config_journal.read(path)
        self._was = raw.decode("utf-8", "surrogateescape")
        self._newline = "\r\n" if "\r\n" in self._was else "\n"
        self._rest = automemory_note.without_ours(self._was)
        others = self._rest.splitlines()
        mark = f"]({automemory_note.PREFIX}"
        present = [line for line in self._was.splitlines() if mark in line and line not in others]
        self.lines = [line.strip() for line in present]
        if self._JOINED in self._was and self._was.rstrip().endswith(automemory_note.END):
            self._rest = self._rest.removesuffix(self._newline)

    def room(self, line: str) -> bool:
        """Whether the client would load one more line."""
        text = self._with([*self.lines, line])
        size = len(text.encode("utf-8", "surrogateescape"))
        return not self._fixed and text.count("\n") <= LINES and size <= BYTES

    def drop(self, name: str) -> bool:
        """Takes out the line of one file; whether there was one."""
        before = self.lines
        self.lines = [line for line in before if f"]({name})" not in line]
        return self.lines != before

    def save(self) -> None:
        """Writes it where it changed; an index that held nothing else goes."""
        text = self._with(self.lines)
        if self._fixed or text == self._was:
            return
        if text:
            config_journal.replace(self.path, text.encode("utf-8", "surrogateescape"))
        elif os.path.exists(self.path):
            os.unlink(self.path)

    def _with(self, lines: list[str]) -> str:
        if not lines:
            return self._rest
        joined = bool(self._rest) and not self._rest.endswith("\n")
        begin = self._newline + self._JOINED if joined else automemory_note.BEGIN
        return self._rest + self._newline.join([begin, *lines, automemory_note.END, ""])


@contextlib.contextmanager
def errors(directory: str) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise MemError(
            f"cannot write auto memory in '{directory}': {e.strerror}",
            hint="files that were written are whole; the same command goes on",
        ) from e
