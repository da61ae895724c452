"""Deletes the objects that hold purged lines from this repository, by name, and says what it could
not delete.

Promise: afterwards no note in the object store has a doomed line, no tree or
commit names one that is gone, and every other object, ref and reflog is as it
was: no `gc`, no expiry. Objects that nobody reaches are found too (a writer
that failed, a merge by stock git), and files that a killed git left. What a
ref, a reflog, an index or an object of the user's still leads to stays and is
named in `held`: deleting it would damage the repository.

What is read: every blob, in a repository of up to `MANY` objects and `MUCH`
bytes. In a larger one those that only usual branches and tags lead to are
passed over (`Erased.partly`), so a note that somebody committed to a branch as
a file is not found there. Blobs above `LARGEST` bytes are read in the history of
notes only. A line that is no record may stand in any file of the user's, so it
counts only in a note: where a tree names the blob as one, or records stand
beside it. The proof is a list of all objects, asked of git afterwards.
"""

from __future__ import annotations

import contextlib
import os
import re
import time

from ..core import record
from ..git import gc_roots
from ..git.odb import Odb, sole_cleaner
from ..notes.notetree import KEYS, is_hex, split_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..git.repository import Repo

MANY, MUCH = (
    300_000,
    1 << 30,
)  # reading these takes some seconds, finding out what branches lead to takes no less
LARGEST = 32 * 1024 * 1024  # bytes of a blob nobody reaches that may still be a note
_ROUNDS = 5  # others may write while we delete
_TELLING = (
    16  # bytes of a line that is no record; files of a killed git are not taken for a shorter one
)
_SHORTEST = 20  # hex digits a note's name keeps below its directories
# lines found harmless that are remembered: the same ones stand in every state of a note
_KNOWN = 200_000
_ORDER = ("tag", "commit", "tree", "blob")  # who names another goes first


class Erased:
    """What became of the objects. `held`: who still leads to some; empty where nothing is left
    here.

    `deleted`: {object id: type}. `files`: leftovers of killed processes that
    went too. `ids`: the memories whose lines were found. `partly`: files of
    branches were not searched.
    """

    __slots__ = ("deleted", "files", "held", "ids", "partly")

    def __init__(self) -> None:
        self.deleted: dict[str, str] = {}
        self.files: list[str] = []
        self.held: list[str] = []
        self.ids: set[str] = set()
        self.partly = False


def erase(
    repo: Repo,
    doom: Callable[[bytes], bool],
    hints: Iterable[bytes] = (),
    progress: Callable[[int], None] = lambda n: None,
    let_go: Callable[[list[str]], bool] = lambda names: False,
    others: bool = False,
) -> Erased:
    """Deletes every object that holds a line for which `doom` holds, and what names those objects.

    `hints`: one of them stands in every such line; without any, each line of
    each blob is judged, which takes longer. `progress` is told how many more
    objects were read. `let_go` hears who leads to doomed objects (as in `held`)
    and may change that; it returns whether it did. `others`: `doom` may hold for
    lines that are no records. Raises MemError while git's own clean-up is at work,
    GitFailed or OSError where a file cannot be written; running again goes on
    from there.
    """
    odb = Odb(repo.git, repo.hex_len)
    repo.git.close()  # an open reader would keep old packs
    try:
        with sole_cleaner(repo.common_dir):
            return _Eraser(odb, repo.hex_len, doom, list(hints), progress, others).run(let_go)
    finally:
        odb.git.close()


class _Eraser:
    def __init__(
        self,
        odb: Odb,
        hex_len: int,
        doom: Callable[[bytes], bool],
        hints: list[bytes],
        progress: Callable[[int], None],
        others: bool = False,
    ) -> None:
        self.odb = odb
        self.git = odb.git
        self.hex_len = hex_len
        self.doom = doom
        self.hints = hints
        self.progress = progress
        self.others = others
        self.notes: set[bytes] = (
            set()
        )  # blobs that a tree names as notes, looked for where `others`
        self.strange: set[bytes] = set()  # doomed lines found that are no records
        self.doomed: dict[bytes, str] = {}  # object id: type
        self.foreign: list[
            bytes
        ] = []  # doomed, but no part of notes history: the user's, so it stays
        self.shared: set[str] = set()  # that usual refs and notes both lead to
        self.usual: list[tuple[str, str]] = []
        self.harmless: set[bytes] = set()
        self.ids: set[str] = set()  # of the memories found
        self.note = re.compile(
            rb"100[0-7]{3} [0-9a-f]{%d,%d}\0(.{%d})" % (_SHORTEST, hex_len, hex_len // 2), re.DOTALL
        )
        self.entry = re.compile(rb"([0-7]+) ([^\0]+)\0(.{%d})" % (hex_len // 2), re.DOTALL)

    def run(self, let_go: Callable[[list[str]], bool]) -> Erased:
        out = Erased()
        begun, packs = time.time() - 2, set(self.odb.packs())
        wanted = self._everything()
        out.partly = bool(self.usual)
        for n in range(_ROUNDS + 1):
            found = self._find(wanted)
            if not found:
                break
            held, out.held = self._held()
            if out.held and let_go(out.held):
                held, out.held = self._held()
            if n == _ROUNDS:
                out.held.append("a process that keeps writing them")
            if n == _ROUNDS or found <= held:
                break
            order = self._in_order(found - held)
            made = self.odb.remove(order, lambda held=held: self._held()[0] <= held)  # type: ignore[misc]
            self.git.close()
            if made is None:
                continue  # a ref came to name one meanwhile
            packs |= made
            left = self.odb.present(order)
            borrowed = left - self.odb.own(left)
            out.deleted.update(
                {id: self.doomed[bytes.fromhex(id)] for id in order if id not in left}
            )
            if borrowed:
                out.held += [
                    f"the object store '{path}' that this one borrows from"
                    for path in self.odb.alternates()
                ]
            # Whoever had read the old notes before may have left objects meanwhile.
            fresh = {
                *self.odb.loose(begun),
                *(
                    id
                    for pack in self.odb.packs()
                    if pack not in packs
                    for id in self.odb.pack_ids(pack)
                ),
            }
            wanted = self._typed(id for id in fresh if bytes.fromhex(id) not in held)
        out.ids = self.ids
        out.files, busy = self.odb.remove_leftovers(
            {*self.hints, *map(str.encode, self.ids), *self.strange}
        )
        out.files += self._unlink_copies(out.deleted)
        out.held += [f"a running git process ('{path}')" for path in busy]
        out.held += [
            f"the unfinished edit or merge '{path}'"
            for path in gc_roots.drafts(self.git)
            if self._draft_holds(path)
        ]
        return out

    # Finding

    def _everything(self) -> dict[str, list[str]]:
        """{type: ids} of all objects to look at, in the order of the packs."""
        found: dict[str, dict[str, None]] = {kind: {} for kind in _ORDER}
        much = 0
        for row in self.odb.listing("%(objecttype) %(objectsize) %(objectname)"):
            kind, _, rest = row.partition(" ")
            size, _, id = rest.partition(" ")
            if kind in found and (kind != "blob" or int(size) <= LARGEST):
                found[kind][id] = None
                much += int(size) if kind == "blob" else 0
        if much <= MUCH and sum(map(len, found.values())) <= MANY:
            return {kind: list(ids) for kind, ids in found.items()}
        self.usual, others = gc_roots.history_of(
            self.git, gc_roots.refs(self.git), self._is_notes_commit
        )
        for id in self.odb.reachable(id for _, id in self.usual):
            for ids in found.values():
                ids.pop(id, None)
        # What both kinds of refs lead to went with them; and here no note is too large.
        self.shared = {
            id
            for id in self.odb.reachable(id for _, id in others)
            if not any(id in ids for ids in found.values())
        }
        for kind, more in self._typed(self.shared).items():
            found[kind].update(dict.fromkeys(more))
        return {kind: list(ids) for kind, ids in found.items()}

    def _typed(self, ids: Iterable[str]) -> dict[str, list[str]]:
        out: dict[str, list[str]] = {kind: [] for kind in _ORDER}
        stdin = "".join(id + "\n" for id in ids).encode()
        for row in (
            self.git.run("cat-file", "--batch-check=%(objecttype) %(objectname)", stdin=stdin)
            .decode()
            .splitlines()
            if stdin
            else ()
        ):
            kind, _, id = row.partition(" ")
            if kind in out:
                out[kind].append(id)
        return out

    def _read(self, ids: Iterable[str]) -> Iterator[tuple[bytes, bytes]]:
        for found in self.git.objects.get_many(ids):
            if found:
                yield bytes.fromhex(found[0]), found[2]

    def _holds(self, blob: bytes, note: bool) -> bool:
        """Whether a blob has a doomed line. `note`: lines that are no records count."""
        if self.hints and not any(h in blob for h in self.hints):
            return False
        for line in split_lines(blob):
            if line in self.harmless or not (note or line.startswith(b"{")):
                continue
            if self.doom(line):
                if record.parse(line):
                    self.ids.update(
                        id.decode() for id in re.findall(rb'"id":"([0-9a-f]{32})"', line)
                    )
                    return True
                if note:
                    self.strange.update([line] if len(line) >= _TELLING else [])
                    return True
            elif len(self.harmless) < _KNOWN:
                self.harmless.add(line)
        return False

    def _is_ours(self, id: bytes, blob: bytes) -> bool:
        """Whether lines of a blob that are no records count: it is a note, or one that was never
        finished.
        """
        return self.others and (
            id in self.notes or (b'"v":1' in blob and any(map(record.parse, split_lines(blob))))
        )

    def _find(self, wanted: dict[str, list[str]]) -> set[bytes]:
        """The doomed ones: blobs with a doomed line and, upwards, what names a doomed object;
        `doomed` has all so far.
        """
        for _, content in self._read(wanted["tree"]) if self.others else ():
            self.notes.update(self.note.findall(content))
        for n, (id, content) in enumerate(self._read(wanted["blob"])):
            if id not in self.doomed and self._holds(content, self._is_ours(id, content)):
                self.doomed[id] = "blob"
            if n % 1000 == 999:
                self.progress(1000)
        if self.doomed:
            self._find_trees(wanted["tree"])
            self._find_commits(wanted["commit"])
            for id, content in self._read(wanted["tag"]):
                if any(link in self.doomed for link in self._links(content)):
                    self.doomed[id] = "tag"
                    self.foreign.append(id)
        return {
            raw
            for ids in wanted.values()
            for id in ids
            if (raw := bytes.fromhex(id)) in self.doomed
        }

    def _find_trees(self, ids: list[str]) -> None:
        """Each is read once; those with directories again for each level below them."""
        while ids:
            again, before = [], len(self.doomed)
            for id, content in self._read(ids):
                entries = self.entry.findall(content)
                named = [(mode, name) for mode, name, child in entries if child in self.doomed]
                if named:
                    self.doomed[id] = "tree"
                    if not all(self._is_note(mode, name) for mode, name in named):
                        self.foreign.append(id)
                elif any(mode[:1] == b"4" for mode, _, _ in entries):
                    again.append(id.hex())
            ids = again if len(self.doomed) > before else []

    def _find_commits(self, ids: list[str]) -> None:
        children: dict[bytes, list[bytes]] = {}
        queue: list[bytes] = []
        for id, content in self._read(ids):
            links = self._links(content)
            if any(link in self.doomed for link in links):
                queue.append(id)
            for parent in links[1:]:
                children.setdefault(parent, []).append(id)
        done: set[bytes] = set()
        while queue:
            id = queue.pop()
            if id not in done:
                done.add(id)
                queue += children.get(id, ())
                if id not in self.doomed:
                    self.doomed[id] = "commit"
                    if not self._is_notes_commit(id.hex(), empty=True):
                        self.foreign.append(id)

    @staticmethod
    def _links(content: bytes) -> list[bytes]:
        """Of a commit its tree and parents, of a tag what it names."""
        head = content.partition(b"\n\n")[0].split(b"\n")
        return [
            bytes.fromhex(row.split(b" ")[1].decode())
            for row in head
            if row.startswith((b"tree ", b"parent ", b"object "))
        ]

    def _in_order(self, ids: set[bytes]) -> list[str]:
        """Whoever names another comes before it."""
        kinds: dict[str, list[str]] = {kind: [] for kind in _ORDER}
        for id, kind in self.doomed.items():
            if id in ids:
                kinds[kind].append(id.hex())
        commits = set(kinds["commit"])
        stdin = "".join(id + "\n" for id in kinds["commit"]).encode()
        if stdin:
            kinds["commit"] = [
                id
                for id in self.odb.rows(
                    "rev-list",
                    "--topo-order",
                    "--ignore-missing",
                    "--stdin",
                    stdin=stdin,
                    ok=(0, 128),
                )
                if id in commits
            ]
            kinds["commit"] += sorted(
                commits.difference(kinds["commit"])
            )  # git shows none whose parent is missing
        kinds["tree"].reverse()  # they were found from below
        return [id for kind in _ORDER for id in kinds[kind]]

    # Whose it is

    def _is_note(self, mode: bytes, name: bytes) -> bool:
        """Whether a tree entry can be part of a notes tree: two hex digits of a directory, or what
        is left of an object id.
        """
        plain = name.decode("ascii", "replace")
        return is_hex(plain) and (
            len(plain) == 2
            if mode[:1] == b"4"
            else _SHORTEST <= len(plain) <= self.hex_len and len(plain) % 2 == 0
        )

    def _is_notes_commit(self, id: str, empty: bool = False) -> bool:
        """Whether most of a commit's tree is notes; `empty`: what an empty one is, or one that is
        not here.
        """
        found = self.git.objects.get(id + "^{tree}")
        entries = self.entry.findall(found[2]) if found else []
        notes = sum(self._is_note(mode, name) or name == KEYS.encode() for mode, name, _ in entries)
        # Of a commit whose tree is gone, as where a clean-up was killed, nothing can be read any
        # more: it keeps nothing for anybody.
        return 2 * notes >= len(entries) if entries else empty

    def _held(self) -> tuple[set[bytes], list[str]]:
        """(doomed objects that must stay, who leads to them)."""
        names: dict[str, None] = {}
        held: set[bytes] = set()
        for source in (
            gc_roots.refs(self.git),
            gc_roots.reflogs(self.git),
            gc_roots.unfinished(self.git),
            gc_roots.indexed(self.git),
        ):
            for name, id in source:
                with contextlib.suppress(ValueError):
                    if bytes.fromhex(id) in self.doomed:
                        names[name] = None
                        held.add(bytes.fromhex(id))
        # A branch that has a note as a file: its trees were not read, so ask for its objects.
        both = {id for id in self.shared if bytes.fromhex(id) in self.doomed}
        for name, id in (
            self.usual if both.intersection(self.odb.reachable(id for _, id in self.usual)) else ()
        ):
            leads_to = both.intersection(self.odb.reachable([id]))
            if leads_to:
                names[name] = None
                held.update(map(bytes.fromhex, leads_to))
        self._descend(held)
        for raw in self.foreign:
            if raw not in held:
                names[f"the {self.doomed[raw]} {raw.hex()}, which is no part of notes"] = None
                held.add(raw)
                self._descend(held)
        return held, list(names)

    def _descend(self, held: set[bytes]) -> None:
        """Adds the doomed objects that held ones lead to."""
        queue = held
        while queue:
            below: set[bytes] = set()
            for id, content in self._read(
                [raw.hex() for raw in queue if self.doomed[raw] != "blob"]
            ):
                links = (
                    [child for _, _, child in self.entry.findall(content)]
                    if self.doomed[id] == "tree"
                    else self._links(content)
                )
                below.update(link for link in links if link in self.doomed)
            queue = below - held
            held |= queue

    # Files

    def _draft_holds(self, path: str) -> bool:
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as f:
            return self._holds(f.read(), True)
        return False

    def _unlink_copies(self, ids: Iterable[str]) -> list[str]:
        """Removes what `git fsck --lost-found` copied of deleted objects; it names copies by their
        ids.
        """
        gone = []
        for _, directory in gc_roots.git_dirs(self.git):
            for folder in ("other", "commit"):
                there = os.path.join(directory, "lost-found", folder)
                names = set(os.listdir(there)) if os.path.isdir(there) else set()
                for name in names.intersection(ids):
                    os.unlink(os.path.join(there, name))
                    gone.append(os.path.join(there, name))
        return gone
