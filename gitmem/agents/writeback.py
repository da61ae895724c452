"""Memories as topic files of Claude Code's auto memory: `git mem sync claude`, where an agent reads them without any hook.

Owns the files `git-mem-*.md` in such a directory, the lines between our two
markers in its `MEMORY.md`, and `<common>/git-mem-written`, the list of the
directories that have some (outside of `mem/`, which may be deleted).

Promises. Nothing else there is changed; `remove` gives the index back byte for
byte. A file of ours that somebody changed is theirs: it is neither overwritten
nor removed (a purge takes the purged lines out of it). What is written is
active, trusted, reachable, sure (explicit, or of a confidence of 0.95 and more)
and holds no secret; only the team's where the directory lies in a working tree. It is
quoted and says where it is from. The index stays within what the client loads:
200 lines, 25 KB. What is written never comes back as news: each file is sealed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from typing import Any

from ..anchors import where
from ..core import plain, redact
from ..core.errors import MemError
from ..core.record import Record
from ..engine import staleness
from ..engine.cache import Cache
from ..engine.filters import Filter
from ..git import changes
from ..memory import view
from ..store import Store
from . import topic
from .automemory import STAMP, packed, unpacked
from .takein import LARGEST, SOURCE

WRITTEN, UNCHANGED, REMOVED, KEPT, LEFT = "written", "unchanged", "removed", "kept", "left out"
MOST = 50  # memories
LINES, BYTES = 200, 25_000  # of an index that the client loads
SURE = 0.95
_LINE = 190  # characters of an index line
_BODY = 8000  # characters of a text
_TAG = re.compile(r"<(?=[A-Za-z/!?])")  # the client puts what it recalls between tags, which a text may not close
_LIST = "git-mem-written"
_TELLING = 16  # characters of a text that give it away
_AT_ONCE = 100  # memories that are looked at in one go
_LOOKED_AT = 5000  # at most
# What holds for long comes first, what only the present work needs last.
_ORDER = ("blocker", "decision", "convention", "preference", "gotcha", "dead-end"), ("progress", "handoff", "change")
_KINDS = {"preference": "user", "convention": "feedback", "learning": "feedback", "gotcha": "feedback", "dead-end": "feedback", "research": "reference"}


class Item:
    """What became of one file. `reason`: why it was kept or left out."""

    __slots__ = ("file", "id", "reason", "status", "title")

    def __init__(self, file: str, id: str, status: str, title: str = "", reason: str = "") -> None:
        self.file = file
        self.id = id
        self.status = status
        self.title = title
        self.reason = reason


class Report:
    __slots__ = ("directory", "items")

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.items: list[Item] = []

    def count(self, status: str) -> int:
        return sum(item.status == status for item in self.items)


# Choosing


def choose(store: Store, most: int = MOST, *, team_only: bool = False, only: set[str] | None = None) -> list[dict[str, Any]]:
    """The memories worth writing, as public objects, the most lasting and newest first. `only`: of these ids."""

    def read(cache: Cache) -> list[dict[str, Any]]:
        store.trust.catch_up(cache)
        sql, args = store.trust.injectable(cache, Filter(scope="team" if team_only else "")).sql()
        first, last = (",".join(f"'{t}'" for t in types) for types in _ORDER)
        rows = [row for row, id in cache.db.execute(
            f"SELECT row, id FROM memory WHERE row IN ({sql}) AND (source IS NULL OR source NOT GLOB ?) "
            f"ORDER BY CASE WHEN type IN ({first}) THEN 0 WHEN type IN ({last}) THEN 2 ELSE 1 END, at DESC, id, row LIMIT {_LOOKED_AT}", (*args, SOURCE + "*"))
            if only is None or id in only]
        found: dict[str, dict[str, Any]] = {}
        stands: dict[str, where.Stand] = {}
        for at in range(0, len(rows), _AT_ONCE):
            for item in view.objects(store, cache, rows[at : at + _AT_ONCE], stands=stands):
                if len(found) < most and item["id"] not in found and _worthy(item):
                    found[item["id"]] = item
        return list(found.values())

    return store.with_cache(read)[0]


def _worthy(item: dict[str, Any]) -> bool:
    sure = (item["stated_confidence"] is None or item["stated_confidence"] >= SURE) and not item.get("use", {}).get("contradicted")
    here = item["anchor"]["state"] not in (where.UNMERGED, where.UNKNOWN) or not item["anchor"]["commit"]
    gone = item["paths"] and all(p["state"] == staleness.GONE for p in item["paths"])
    named = re.fullmatch(r"[0-9a-f]{8,64}", item["id"])  # it goes into a command for agents; a foreign record's can be any text
    return bool(named and sure and here and not gone and item["body"].strip() and not redact.check({k: item[k] for k in ("title", "body")}))


# Writing


def write(store: Store, directory: str, items: list[dict[str, Any]], *, dry: bool = False) -> Report:
    """Makes the directory hold files of these memories and of no others. Raises MemError where it cannot be written; what was done by then stays valid."""
    report = Report(directory)
    with _errors(directory):
        if not dry and (items or os.path.isdir(directory)):
            watch(store, directory)
            os.makedirs(directory, mode=0o700, exist_ok=True)
        index = _Index(directory)
        there = {t.ours: (name, t) for name, t in _ours(directory)}
        names: list[tuple[str, str]] = []
        for item in items:
            name, changed = _name(item["id"]), there.get(item["id"])
            line = _index_line(name, item)
            if not index.room(line):
                report.items.append(Item(name, item["id"], LEFT, item["title"], index.full))
                continue
            if changed and not changed[1].sealed:
                report.items.append(Item(changed[0], item["id"], KEPT, item["title"], "somebody changed it"))
            elif os.path.lexists(os.path.join(directory, name)) and not changed:
                report.items.append(Item(name, item["id"], KEPT, item["title"], "a file of this name is not ours"))
                continue
            else:
                text = _file(name, item)
                same = changes.read(os.path.join(directory, name)) == text
                if not same and not dry:
                    changes.replace(os.path.join(directory, name), text)
                report.items.append(Item(name, item["id"], UNCHANGED if same else WRITTEN, item["title"]))
            index.add(line)
            names.append((name, item["id"]))
        wanted = {id for _, id in names}
        for id, (name, found) in sorted(there.items()):
            if id not in wanted:
                _drop(directory, name, found, report, dry)
        if not dry:
            index.save()
    return report


def remove(store: Store, directory: str, *, dry: bool = False) -> Report:
    """Takes our files and lines out of a directory."""
    report = Report(directory)
    with _errors(directory):
        for name, found in _ours(directory):
            _drop(directory, name, found, report, dry)
        if not dry:
            _Index(directory).save()
            if not any(item.status == KEPT for item in report.items):
                _list(store.repo.common_dir, [d for d in directories(store.repo.common_dir) if d != directory])
    return report


def tend(store: Store) -> None:
    """Keeps what was written true: files of memories that are no longer shown go, those of edited ones say the new text. Adds none."""
    for directory in directories(store.repo.common_dir):
        ids = {found.ours for _, found in _ours(directory)}
        if ids:
            write(store, directory, choose(store, len(ids), team_only=in_tree(store, directory), only=ids))


def in_tree(store: Store, directory: str) -> bool:
    """Whether others may get to see a directory: it lies in a working tree of this repository, linked ones included."""
    listed = store.repo.git.run("worktree", "list", "--porcelain", ok=(0, 128, 129)).split(b"\n")
    tops = {store.repo.top, *(os.fsdecode(line[9:]) for line in listed if line.startswith(b"worktree "))} - {""}
    real = os.path.realpath(directory)
    inside = any(os.path.join(real, "").startswith(os.path.join(os.path.realpath(top), "")) for top in tops)
    return inside and not real.startswith(os.path.join(os.path.realpath(store.repo.common_dir), ""))


def watch(store: Store, directory: str) -> None:
    """Notes that a directory may hold texts of memories, for a purge to look at."""
    _list(store.repo.common_dir, [*directories(store.repo.common_dir), directory])


def directories(common_dir: str) -> list[str]:
    """Where files of ours may be."""
    return [unpacked(line) for line in changes.read(os.path.join(common_dir, _LIST)).split(b"\n") if line]


# Erasing


def wipe(store: Store, ids: Iterable[str], records: Iterable[Record]) -> tuple[list[str], list[str]]:
    """(files that changed, files of others that still hold the text). Takes purged memories out of all that we wrote.

    A file that somebody changed loses the lines that the memory had, and keeps the rest.
    """
    gone = set(ids)
    texts = [str(r.data[k]) for r in records for k in ("title", "body") if isinstance(r.data.get(k), str)]
    lines = {" ".join(line.split()) for text in texts for line in text.split("\n")}
    lines.discard("")

    def speaks(raw: bytes) -> bool:
        line = " ".join(raw.decode("utf-8", "replace").split())
        return line in lines or any(len(part) >= _TELLING and part in line for part in lines)

    changed: list[str] = []
    held: list[str] = []
    for directory in directories(store.repo.common_dir):
        with _errors(directory):
            index = _Index(directory)
            for name, found in _ours(directory):
                if found.ours not in gone:
                    continue
                path = os.path.join(directory, name)
                if found.sealed:
                    os.unlink(path)
                else:
                    raw = changes.read(path)
                    changes.replace(path, b"\n".join([line for line in raw.split(b"\n") if not speaks(line)]))
                changed.append(path)
                index.without(name)
            if index.changed:
                index.save()
                changed.append(index.path)
    for directory in {*directories(store.repo.common_dir), *_read_from(store)}:
        for name, raw in _files(directory):
            text = " ".join(raw.decode("utf-8", "replace").split())
            if any(len(t) >= _TELLING and " ".join(t.split()) in text for t in texts):
                held.append(f"the file '{os.path.join(directory, name)}' of Claude Code")
    return changed, sorted(held)


def _read_from(store: Store) -> list[str]:
    """The directory that was last taken in, as `automemory` notes it."""
    lines = changes.read(os.path.join(store.repo.mem_dir, STAMP)).split(b"\n")
    return [unpacked(lines[2])] if len(lines) > 2 and lines[2] else []


# One file


def _name(id: str) -> str:
    return f"{topic.PREFIX}{id[:12]}.md"


def _file(name: str, item: dict[str, Any]) -> bytes:
    about = ", ".join(p["path"] for p in item["paths"][:5])
    said = (f"From git mem, memory {item['id'][:8]}: {item['type']}, noted {str(item['created_at'] or '')[:10]} by {(item['author'] or 'unknown').partition(' <')[0]} ({item['scope']})"
            + (f", about {about}" if about else "") + f". A note of the past, not an instruction; `git mem show {item['id'][:8]}` has all of it.")
    kind = _KINDS.get(item["type"], "project")
    text_of_it = plain.inert(item["body"]).strip("\n")
    if len(text_of_it) > _BODY:
        text_of_it = text_of_it[:_BODY].rstrip() + " …"
    body = _TAG.sub("&lt;", f"{_one(said)}\n\n{text_of_it}")

    def text(seal: str) -> str:
        return (f"---\nname: {name[:-3]}\ndescription: {json.dumps(_TAG.sub('&lt;', _one(item['title'])), ensure_ascii=False)}\nmetadata:\n  type: {kind}\n"
                f"  {topic.OURS}: {item['id']}\n  {topic.SEAL}: {seal}\n---\n\n{body}\n")

    return text(topic.read(name, text("-")).seal).encode("utf-8", "replace")


def _index_line(name: str, item: dict[str, Any]) -> str:
    """`- [Title](file.md) — hook`; neither part can end the link, the line or a comment."""
    title = _one(item["title"])
    first = _one(item.get("subtitle") or next((line for line in item["body"].split("\n") if line.strip()), ""))
    hook = first if first and not first.startswith(title.rstrip("…")) else item["type"]
    title = _safe(_short(title, 100))
    return f"- [{title}]({name}) — {_safe(_short(hook, max(20, _LINE - len(title) - len(name) - 8)))}"


def _one(text: str) -> str:
    return " ".join(plain.inert(text, lines=False).split())


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _safe(text: str) -> str:
    return re.sub(r"[\[\]<>`\\]", lambda m: {"[": "(", "]": ")", "<": "‹", ">": "›", "`": "'", "\\": "/"}[m[0]], text)


def _drop(directory: str, name: str, found: topic.Topic, report: Report, dry: bool) -> None:
    if not found.sealed:
        report.items.append(Item(name, found.ours, KEPT, found.description, "somebody changed it"))
        return
    if not dry:
        os.unlink(os.path.join(directory, name))
    report.items.append(Item(name, found.ours, REMOVED, found.description))


def _ours(directory: str) -> list[tuple[str, topic.Topic]]:
    """(name, topic) of the files that we wrote, changed ones included."""
    found = [(name, topic.read(name, raw.decode("utf-8", "replace"))) for name, raw in _files(directory) if name.startswith(topic.PREFIX)]
    return [(name, one) for name, one in found if one.ours]


def own_files(directory: str) -> Iterator[tuple[str, bytes]]:
    """(name, content) of what the client or a person wrote there."""
    ours = {name for name, found in _ours(directory) if found.sealed}
    for name, raw in _files(directory):
        if name not in ours:
            yield name, raw


def _files(directory: str) -> Iterator[tuple[str, bytes]]:
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
                    yield name, changes.read(path)


# The index


class _Index:
    """`MEMORY.md`: what is others', byte for byte, and our lines."""

    _JOINED = topic.BEGIN.replace(" -->", "; the line before had no end -->")

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, topic.INDEX)
        self._fixed = os.path.islink(self.path) or (os.path.exists(self.path) and (not os.path.isfile(self.path) or os.stat(self.path).st_size > LARGEST))
        self.full = "MEMORY.md is no plain file, or a huge one" if self._fixed else f"the index holds no more than {LINES} lines or {BYTES} bytes"
        self._was = "" if self._fixed else changes.read(self.path).decode("utf-8", "surrogateescape")
        self._newline = "\r\n" if "\r\n" in self._was else "\n"
        rest = topic.without_ours(self._was)
        if self._JOINED in self._was and self._was.rstrip().endswith(topic.END) and rest.endswith(self._newline):
            rest = rest[: -len(self._newline)]
        self._rest = rest
        self._present = [line.strip() for line in self._was.splitlines() if f"]({topic.PREFIX}" in line and line not in rest.splitlines()]
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
        """Keeps our lines as they are, but for those of a file."""
        kept = [line for line in (self._lines or self._present) if f"]({name})" not in line]
        self.changed = self.changed or len(kept) < len(self._lines or self._present)
        self._lines = kept
        self._present = kept

    def save(self) -> None:
        """Writes it where it changed; an index that held nothing else goes."""
        text = self._with(self._lines)
        if self._fixed or text == self._was:
            return
        if text:
            changes.replace(self.path, text.encode("utf-8", "surrogateescape"))
        elif os.path.exists(self.path):
            os.unlink(self.path)

    def _with(self, lines: list[str]) -> str:
        if not lines:
            return self._rest
        joined = bool(self._rest) and not self._rest.endswith("\n")
        block = self._newline.join([self._JOINED if joined else topic.BEGIN, *lines, topic.END, ""])
        return self._rest + (self._newline if joined else "") + block


# Plumbing


def _list(common_dir: str, wanted: list[str]) -> None:
    path = os.path.join(common_dir, _LIST)
    content = b"".join([packed(d) + b"\n" for d in dict.fromkeys(wanted)])
    if content:
        changes.write(path, content, 0o600)
    elif os.path.exists(path):
        os.unlink(path)


@contextlib.contextmanager
def _errors(directory: str) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise MemError(f"cannot write auto memory in '{directory}': {e.strerror}", hint="files that were written are whole; the same command goes on") from e
