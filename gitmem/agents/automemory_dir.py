"""Our files in the directories of Claude Code's auto memory: found again, listed in its index,
removed.

Owns the files `git-mem-*.md` there, the lines between our two markers in `MEMORY.md`, and
`<common>/git-mem-written`, the list of the directories that have some (outside of `mem/`,
which may be deleted). `automemory_export` writes the files.

Promises. Nothing else there is changed; `remove` gives the index back byte for byte. A file
of ours that somebody changed belongs to them: it is not removed (a purge takes the purged
lines out of it). The index stays within what the client loads: 200 lines, 25 KB.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator

from ..core.errors import MemError
from ..core.record import Record
from ..git import config_journal, memfile
from ..store import Store
from . import automemory_note
from .automemory import STAMP, packed, unpacked
from .automemory_note import LARGEST

WRITTEN, UNCHANGED, REMOVED, KEPT, LEFT = "written", "unchanged", "removed", "kept", "left out"
LINES, BYTES = 200, 25_000  # of an index that the client loads
_LIST = "git-mem-written"
_TELLING = 16  # characters of a text that give it away


class Item:
    """What became of one file. `id`: of its memory, "" for none. `reason` and `hint`: why it was
    kept, left out or refused.
    """

    __slots__ = ("file", "hint", "id", "reason", "status", "title")

    def __init__(self, file: str, id: str, status: str, title: str = "", reason: str = "") -> None:
        self.file = file
        self.id = id
        self.status = status
        self.title = title
        self.reason = reason
        self.hint = ""


class Report:
    """`missing`: files that the index names and that are not there, as an import finds them."""

    __slots__ = ("directory", "items", "missing")

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.items: list[Item] = []
        self.missing: list[str] = []

    def count(self, status: str) -> int:
        return sum(item.status == status for item in self.items)


# The directories


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


# What is in one


def ours(directory: str) -> list[tuple[str, automemory_note.Topic]]:
    """(name, topic) of the files that we wrote, changed ones included."""
    topics = [
        (name, automemory_note.read(name, raw.decode("utf-8", "replace")))
        for name, raw in files(directory)
        if name.startswith(automemory_note.PREFIX)
    ]
    return [(name, topic) for name, topic in topics if topic.ours]


def files(directory: str) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the Markdown files, links left out."""
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return
    for name in names:
        path = os.path.join(directory, name)
        if name.endswith(".md"):
            with contextlib.suppress(OSError):
                facts = os.lstat(path)
                if stat.S_ISREG(facts.st_mode) and facts.st_size <= LARGEST:
                    yield name, config_journal.read(path)


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
            Index(directory).save()
            if not report.count(KEPT):
                common_dir = store.repo.common_dir
                _list(common_dir, [d for d in directories(common_dir) if d != directory])
    return report


def leave(store: Store) -> list[str]:
    """Takes our files and lines out of all directories, for `uninstall`; one line for each thing
    done or kept.
    """
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
    all that we wrote.

    A file that somebody changed loses the lines that the memory had, and keeps the rest.
    """
    gone = set(ids)
    texts = [
        str(r.data[k]) for r in records for k in ("title", "body") if isinstance(r.data.get(k), str)
    ]
    lines = {" ".join(line.split()) for text in texts for line in text.split("\n")}
    lines.discard("")

    def speaks(raw: bytes) -> bool:
        line = " ".join(raw.decode("utf-8", "replace").split())
        return line in lines or any(len(part) >= _TELLING and part in line for part in lines)

    changed: list[str] = []
    held: list[str] = []
    for directory in directories(store.repo.common_dir):
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
                index.without(name)
            if index.changed:
                index.save()
                changed.append(index.path)
    for directory in {*directories(store.repo.common_dir), *_read_from(store)}:
        for name, raw in files(directory):
            text = " ".join(raw.decode("utf-8", "replace").split())
            if any(len(t) >= _TELLING and " ".join(t.split()) in text for t in texts):
                held.append(f"the file '{os.path.join(directory, name)}' of Claude Code")
    return changed, sorted(held)


def _read_from(store: Store) -> list[str]:
    """The directory that was last taken in, as `automemory` notes it."""
    lines: list[bytes] = []
    with contextlib.suppress(OSError):
        lines = memfile.read(os.path.join(store.repo.mem_dir, STAMP)).split(b"\n")
    return [unpacked(lines[2])] if len(lines) > 2 and lines[2] else []


class Index:
    """`MEMORY.md`: what is others', byte for byte, and our lines."""

    _JOINED = automemory_note.BEGIN.replace(" -->", "; the line before had no end -->")

    def __init__(self, directory: str) -> None:
        self.path = path = os.path.join(directory, automemory_note.INDEX)
        plain = os.path.isfile(path) and os.stat(path).st_size <= LARGEST
        self._fixed = os.path.islink(path) or (os.path.exists(path) and not plain)
        self.full = f"the index holds no more than {LINES} lines or {BYTES} bytes"
        self._was = ""
        if self._fixed:
            self.full = "MEMORY.md is no plain file, or a huge one"
        else:
            self._was = config_journal.read(path).decode("utf-8", "surrogateescape")
        self._newline = "\r\n" if "\r\n" in self._was else "\n"
        rest = automemory_note.without_ours(self._was)
        if self._JOINED in self._was and self._was.rstrip().endswith(automemory_note.END):
            rest = rest.removesuffix(self._newline)
        self._rest = rest
        self._present = [
            line.strip()
            for line in self._was.splitlines()
            if f"]({automemory_note.PREFIX}" in line and line not in rest.splitlines()
        ]
        self._lines: list[str] = []
        self.changed = False

    def room(self, line: str) -> bool:
        """Whether the client would load one more line."""
        if self._fixed:
            return False
        text = self._with([*self._lines, line])
        return text.count("\n") <= LINES and len(text.encode("utf-8", "surrogateescape")) <= BYTES

    def add(self, line: str) -> None:
        self._lines.append(line)

    def without(self, name: str) -> None:
        """Keeps our lines as they are, except those of a file."""
        lines = self._lines or self._present
        rest = [line for line in lines if f"]({name})" not in line]
        self.changed = self.changed or len(rest) < len(lines)
        self._lines = self._present = rest

    def save(self) -> None:
        """Writes it where it changed; an index that held nothing else goes."""
        text = self._with(self._lines)
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
