"""The objects of a repository that hold purged lines, and who keeps them alive.

Every blob is read, in a repository of up to `MANY` objects and `MUCH` bytes. In a larger one what
only refs reach whose newest commit is none of notes is skipped (`usual`), so notes that somebody
merged or committed as a file into a branch are not found there. Of blobs above `LARGEST` bytes only
those are read that a tree names as notes. A line that is no record may stand in any file of the
user's, so it counts only in a note: where a tree names the blob as one, or records stand beside it.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from ..core import record
from ..core.progress import counted
from ..git import gc_roots
from ..git.odb import Odb
from ..notes.notetree import KEYS, is_hex, split_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.progress import Progress

# Reading these takes some seconds; finding out what branches reach takes no less.
MANY, MUCH = 300_000, 1 << 30
LARGEST = 32 * 1024 * 1024  # bytes of a blob that is read whole, whatever names it
TELLING = 16  # bytes of a line that is no record; a shorter one may stand in any file
_SHORTEST = 20  # hex digits a note's name keeps below its directories
_KNOWN = 200_000  # harmless lines that are remembered: each stands in every state of a note
_ROW = "%(objecttype) %(objectsize) %(objectname)"
_ORDER = ("tag", "commit", "tree", "blob")  # an object that names another goes first


@dataclass
class DoomedObjects:
    """Blobs with a line for which `doom` holds, and every object that names one of them."""

    odb: Odb
    hex_len: int
    doom: Callable[[bytes], bool]
    # One of them stands in every such line; without any, each line of each blob is judged, which
    # takes longer.
    hints: list[bytes]
    progress: Progress
    others: bool = False  # `doom` may hold for lines that are no records

    notes: set[bytes] = field(default_factory=set)  # blobs that a tree names as notes, if `others`
    strange: set[bytes] = field(default_factory=set)  # doomed lines that are no records
    types: dict[bytes, str] = field(default_factory=dict)  # {doomed object: its type}
    foreign: list[bytes] = field(default_factory=list)  # doomed objects of the user's, which stay
    large: set[bytes] = field(default_factory=set)  # blobs above `LARGEST` bytes
    shared: set[str] = field(default_factory=set)  # objects that both usual refs and notes reach
    usual: list[gc_roots.Root] = field(default_factory=list)
    children: dict[bytes, list[bytes]] = field(default_factory=dict)  # of the commits read
    harmless: set[bytes] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)  # of the memories found

    def __post_init__(self) -> None:
        self.git = self.odb.git
        digits, width = self.hex_len, self.hex_len // 2
        note = rb"100[0-7]{3} [0-9a-f]{%d,%d}\0(.{%d})" % (_SHORTEST, digits, width)
        self.note = re.compile(note, re.DOTALL)
        self.entry = re.compile(rb"([0-7]+) ([^\0]+)\0(.{%d})" % width, re.DOTALL)

    def everything(self) -> dict[str, str]:
        """{id: type} of all objects to read, in the order of the packs, but for `large`."""
        with self.progress("listing objects", None) as advance:
            found, much = self._listed(counted(self.odb.listing(_ROW), advance))
        if much <= MUCH and len(found) <= MANY:
            return found
        others: list[gc_roots.Root] = []
        for root in gc_roots.refs(self.git):
            ours = root[0].startswith("refs/notes/") or self.is_notes_commit(root[1])
            (others if ours else self.usual).append(root)
        for id in self.odb.reachable(id for _, id in self.usual):
            found.pop(id, None)
        # Objects that both kinds of refs reach went with them.
        self.shared = {id for id in self.odb.reachable(id for _, id in others) if id not in found}
        return found | self.types_of(self.shared)

    def types_of(self, ids: Iterable[str]) -> dict[str, str]:
        """{id: type} of those that are here, but for `large`."""
        stdin = "".join(id + "\n" for id in ids).encode()
        rows = self.git.run("cat-file", f"--batch-check={_ROW}", stdin=stdin)
        return self._listed(rows.decode().splitlines())[0]

    def _listed(self, rows: Iterable[str]) -> tuple[dict[str, str], int]:
        """({id: type}, bytes of blobs) of what git lists; puts others into `large`."""
        found: dict[str, str] = {}
        much = 0
        for row in rows:
            kind, _, rest = row.partition(" ")  # of a damaged object: "<id> missing"
            size, _, id = rest.partition(" ")
            if kind == "blob" and int(size) > LARGEST:
                self.large.add(bytes.fromhex(id))
            elif kind in _ORDER:
                found[id] = kind
                much += int(size) if kind == "blob" else 0
        return found, much

    def _read(self, ids: list[str]) -> Iterator[tuple[bytes, bytes]]:
        with self.progress("searching objects", len(ids)) as advance:
            for found in counted(self.git.objects.get_many(ids), advance):
                if found:
                    yield bytes.fromhex(found[0]), found[2]

    def holds(self, blob: bytes, note: bool) -> bool:
        """Whether a blob has a doomed line. `note`: lines that are no records count."""
        if self.hints and not any(h in blob for h in self.hints):
            return False
        for line in split_lines(blob):
            if line in self.harmless or not (note or line.startswith(b"{")):
                continue
            if not self.doom(line):
                if len(self.harmless) < _KNOWN:
                    self.harmless.add(line)
            elif record.parse(line):
                ids = re.findall(rb'"id":"([0-9a-f]{32})"', line)
                self.ids.update(id.decode() for id in ids)
                return True
            elif note:
                self.strange.update([line] if len(line) >= TELLING else [])
                return True
        return False

    def _is_ours(self, id: bytes, blob: bytes) -> bool:
        """Whether lines of a blob that are no records count: it is a note, or an unfinished one."""
        unfinished = self.others and b'"v":1' in blob
        return id in self.notes or (unfinished and any(map(record.parse, split_lines(blob))))

    def find(self, wanted: dict[str, str]) -> set[bytes]:
        """The doomed objects among these; `types` has all that were found so far."""
        ids: dict[str, list[str]] = {kind: [] for kind in _ORDER}
        for id, kind in wanted.items():
            ids[kind].append(id)
        named: set[bytes] = set()
        for _, content in self._read(ids["tree"]) if self.others or self.large else ():
            named.update(self.note.findall(content))
        self.notes |= named if self.others else set()
        for raw, content in self._read(ids["blob"]):
            if raw not in self.types and self.holds(content, self._is_ours(raw, content)):
                self.types[raw] = "blob"
        large = named & self.large
        self.types.update((raw, "blob") for raw in large if self._large_holds(raw))
        if self.types:
            self._find_trees(ids["tree"])
            self._find_commits(ids["commit"])
            for raw, content in self._read(ids["tag"]):
                if self.types.keys() & self._links(content):
                    self.types[raw] = "tag"
                    self.foreign.append(raw)
        return self.types.keys() & {*map(bytes.fromhex, wanted), *large}

    def _large_holds(self, id: bytes) -> bool:
        """The same as `holds`, line by line: a user's file of any size may be named like a note."""
        lines = self.git.stream("cat-file", "blob", id.hex(), cut=b"\n", ok=(0, 128))
        return any(self.holds(line, self.others) for line in lines)

    def _find_trees(self, ids: list[str]) -> None:
        """Each is read once, a tree with directories once more for each level below it."""
        while ids:
            left, before = [], len(self.types)
            for id, content in self._read(ids):
                entries = self.entry.findall(content)
                named = [(mode, name) for mode, name, child in entries if child in self.types]
                if named:
                    self.types[id] = "tree"
                    if not all(self._is_note(mode, name) for mode, name in named):
                        self.foreign.append(id)
                elif any(mode[:1] == b"4" for mode, _, _ in entries):
                    left.append(id.hex())
            ids = left if len(self.types) > before else []

    def _find_commits(self, ids: list[str]) -> None:
        """Those with a doomed tree, and all that have one of them behind them."""
        queue: list[bytes] = []
        for id, content in self._read(ids):
            links = self._links(content)
            if self.types.keys() & links:
                queue.append(id)
            for parent in links[1:]:
                self.children.setdefault(parent, []).append(id)
        done: set[bytes] = set()
        while queue:
            id = queue.pop()
            if id in done:
                continue
            done.add(id)
            queue += self.children.get(id, ())
            if id not in self.types:
                self.types[id] = "commit"
                if not self.is_notes_commit(id.hex()):
                    self.foreign.append(id)

    @staticmethod
    def _links(content: bytes) -> list[bytes]:
        """The tree and parents of a commit, the object of a tag."""
        rows = content.partition(b"\n\n")[0].split(b"\n")
        links = [row for row in rows if row.startswith((b"tree ", b"parent ", b"object "))]
        return [bytes.fromhex(row.split(b" ")[1].decode()) for row in links]

    def in_order(self, ids: set[bytes]) -> list[str]:
        """An object that names another comes before it."""
        kinds: dict[str, list[str]] = {kind: [] for kind in _ORDER}
        for id, kind in self.types.items():
            if id in ids:
                kinds[kind].append(id.hex())
        kinds["tree"].reverse()  # they were found from below
        commits = map(bytes.fromhex, kinds["commit"])
        later = {id: ids.intersection(self.children.get(id, ())) for id in commits}
        kinds["commit"] = [id.hex() for id in TopologicalSorter(later).static_order()]
        return [id for kind in _ORDER for id in kinds[kind]]

    # Who keeps it

    def _is_note(self, mode: bytes, name: bytes) -> bool:
        """Whether a tree entry can be part of notes: two hex digits, or the rest of an id."""
        plain = name.decode("ascii", "replace")
        if not is_hex(plain) or mode[:1] == b"4":
            return is_hex(plain) and len(plain) == 2
        return _SHORTEST <= len(plain) <= self.hex_len and len(plain) % 2 == 0

    def is_notes_commit(self, id: str) -> bool:
        """Whether most of a commit's tree is notes; a commit without entries counts as notes."""
        found = self.git.objects.get(id + "^{tree}")
        entries: list[tuple[bytes, ...]] = self.entry.findall(found[2]) if found else []
        notes = sum(self._is_note(mode, name) or name == KEYS.encode() for mode, name, _ in entries)
        # One whose tree is gone, as after a killed clean-up, keeps nothing for anybody either.
        return 2 * notes >= len(entries)

    def held(self) -> tuple[set[bytes], list[str]]:
        """(doomed objects that must stay, the names of what leads to them)."""
        names: dict[str, None] = {}
        held: set[bytes] = set()
        sources = (gc_roots.refs, gc_roots.reflogs, gc_roots.unfinished, gc_roots.indexed)
        for name, id in itertools.chain.from_iterable(source(self.git) for source in sources):
            with contextlib.suppress(ValueError):
                if bytes.fromhex(id) in self.types:
                    names[name] = None
                    held.add(bytes.fromhex(id))
        # A branch that has a note as a file: its trees were not read, so ask for its objects.
        both = {id for id in self.shared if bytes.fromhex(id) in self.types}
        if both.intersection(self.odb.reachable(id for _, id in self.usual)):
            for name, id in self.usual:
                if leads_to := both.intersection(self.odb.reachable([id])):
                    names[name] = None
                    held.update(map(bytes.fromhex, leads_to))
        self._descend(held)
        for raw in self.foreign:
            if raw not in held:
                names[f"the {self.types[raw]} {raw.hex()}, which is no part of notes"] = None
                held.add(raw)
                self._descend(held)
        return held, list(names)

    def _descend(self, held: set[bytes]) -> None:
        queue = held
        while queue:
            below: set[bytes] = set()
            named = [raw.hex() for raw in queue if self.types[raw] != "blob"]
            for id, content in self._read(named):
                links = self._links(content)
                if self.types[id] == "tree":
                    links = [child for _, _, child in self.entry.findall(content)]
                below.update(link for link in links if link in self.types)
            queue = below - held
            held |= queue
