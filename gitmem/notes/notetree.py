"""The tree behind a notes ref: which path holds the note of which object.

Promise: notes are found at every fan-out, also where two tools left mixed ones, and a note that is
written ends up under exactly one path. Trees are read as they are needed, so one write costs the
same however many notes exist.

Paths follow stock git: 40 (or 64) hex digits, split into directories of two. A level with
directories gets more of them; a flat level that reaches `SPLIT` notes is split once (libgit2 finds
no note beside a directory of the same two digits). Entries that are no notes are left alone.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from itertools import tee

from ..core.digest import sha256
from ..core.errors import GitFailed
from ..git.gitcmd import Git
from ..git.object_reader import TREE, TooLarge, parse_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import sha1
else:
    try:
        from _sha1 import sha1  # as `digest`: a hook may come here
    except ImportError:
        from hashlib import sha1

_COMPARE = "diff-tree --stdin -r -z --raw --no-renames"
SPLIT = 256  # git itself starts to fan out at about 70 to 250 notes
_HEX = frozenset("0123456789abcdef")

KEYS = "keys"  # the directory of continuations' key blobs, to stock git "non-notes"
PURGED = "purged"  # stands for a commit in the continuations that hold purge records

Level = dict[str, tuple[bool, str]]  # entries of a tree: {name: (whether it is a tree, object id)}

_CONTINUED = b"git mem continuation\n"  # begins the content of a key blob


def split_lines(blob: bytes) -> list[bytes]:
    """The lines of a note, without blank ones (`git notes append` puts them between records)."""
    return [line for line in (part.strip() for part in blob.split(b"\n")) if line]


def is_hex(text: str) -> bool:
    return _HEX.issuperset(text)


GITLINK = b"160000"  # the mode of a commit of another repository: to git and to us it is no note


def note_key(path: str, hex_len: int) -> str | None:
    """The object a path in a notes tree annotates, None for entries that are no notes."""
    key = path.replace("/", "")
    return key if len(key) == hex_len and is_hex(key) else None


def continuation(anchor: str, n: int, hex_len: int) -> tuple[str, bytes]:
    """(key, content) of the n-th continuation (from 1) of the note of an anchor, "" or PURGED.

    The key is the id of a blob with this content, so every clone computes the same one, and
    `git notes prune` keeps the note while the blob exists.
    """
    content = _CONTINUED + b"%s %d\n" % (anchor.encode() or b"none", n)
    digest = sha1 if hex_len == 40 else sha256
    return digest(b"blob %d\0" % len(content) + content).hexdigest(), content


def continued(content: bytes, hex_len: int) -> str | None:
    """The anchor that a key blob of this content continues, None where it is no key blob."""
    shape = _CONTINUED + rb"(none|purged|[0-9a-f]{%d}) [0-9]+\n" % hex_len
    found = re.fullmatch(shape, content)
    if found is None:
        return None
    return "" if found[1] == b"none" else found[1].decode()


def key_path(key: str) -> str:
    return f"{KEYS}/{key[:2]}/{key[2:]}"


class NoteTree:
    """The notes of one tree, read lazily through `git cat-file`."""

    def __init__(self, git: Git, tree: str | None, hex_len: int) -> None:
        self._git = git
        self._hex_len = hex_len
        self._loaded: dict[str, Level] = {}
        self.fanned = False  # a new tree for many notes: the first level gets directories at once
        self._split: set[str] = set()  # levels that get directories: their notes move once
        self.root = self._load(tree) if tree else {}

    def _load(self, tree: str) -> Level:
        if tree not in self._loaded:
            found = self._git.objects.get(tree)
            if found is None or found[1] != "tree":
                raise unreadable(tree)
            self._loaded[tree] = {
                name.decode("utf-8", "surrogateescape"): (mode == TREE, id)
                for name, (mode, id) in parse_tree(found[2], self._hex_len // 2).items()
                if mode != GITLINK
            }
        return self._loaded[tree]

    def _walk(self, key: str) -> tuple[list[tuple[str, str]], str, str, Level]:
        """(notes of a key; deepest level on its way: path, what of the key is left, entries)."""
        found: list[tuple[str, str]] = []
        prefix, rest, level = "", key, self.root
        while True:
            entry = level.get(rest)
            if entry and not entry[0]:
                found.append((prefix + rest, entry[1]))
            below = level.get(rest[:2]) if len(rest) > 2 else None
            if below is None or not below[0]:
                return found, prefix, rest, level
            prefix, rest, level = prefix + rest[:2] + "/", rest[2:], self._load(below[1])

    def notes(self, key: str) -> list[tuple[str, str]]:
        """[(path, blob id)] of every note of a key; several only in a mixed tree."""
        return self._walk(key)[0]

    def continuations(self, anchor: str) -> Iterator[str]:
        """The keys of an anchor's continuations that have notes here."""
        n = 1
        while self.notes(key := continuation(anchor, n, self._hex_len)[0]):
            yield key
            n += 1

    def place(self, key: str) -> tuple[str, dict[str, str]]:
        """(where a key's note is written, {old path: new path} of notes that must move first)."""
        found, prefix, rest, level = self._walk(key)
        if found:
            return found[-1][0], {}
        if len(rest) <= 2 or rest[:2] in level:
            return prefix + rest, {}
        if prefix in self._split or (self.fanned and not prefix):
            return _deeper(prefix, rest), {}
        names = [name for name in level if is_hex(name)]
        flat = [name for name in names if not level[name][0] and len(name) == len(rest)]
        fanned = any(level[name][0] and len(name) == 2 for name in names)
        if not fanned and len(flat) < SPLIT:
            return prefix + rest, {}
        self._split.add(prefix)
        moves = {prefix + name: _deeper(prefix, name) for name in flat}
        return _deeper(prefix, rest), moves if len(flat) >= SPLIT else {}

    def has_key(self, key: str) -> bool:
        """Whether a continuation's key blob is kept alive by this tree."""
        level = self.root
        *dirs, name = key_path(key).split("/")
        for d in dirs:
            tree, id = level.get(d, (False, ""))
            if not tree:
                return False
            level = self._load(id)
        return not level.get(name, (True, ""))[0]


def _deeper(prefix: str, rest: str) -> str:
    return f"{prefix}{rest[:2]}/{rest[2:]}"


def entries(git: Git, tip: str) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(mode, object id, path) of all that is no tree in a commit or tree."""
    for entry in git.stream("ls-tree", "-r", "-z", "--full-tree", tip):
        meta, tab, path = entry.partition(b"\t")
        if tab:
            mode, _, id = meta.split()
            yield mode, id, path


def all_notes(git: Git, tip: str) -> Iterator[tuple[str, str]]:
    """(key, blob id) of every note of a commit, each path of a mixed tree."""
    for mode, id, path in entries(git, tip):
        key = note_key(path.decode("utf-8", "surrogateescape"), len(tip))
        if key and mode != GITLINK:
            yield key, id.decode()


def strangers(git: Git, tip: str) -> list[tuple[bytes, bytes, bytes]]:
    """(mode, id, path for fast-import) of a commit's entries that are neither notes nor keys."""
    out = []
    for mode, id, path in entries(git, tip):
        note = note_key(path.decode("utf-8", "surrogateescape"), len(tip))
        if mode == GITLINK or not (note or path.startswith(KEYS.encode() + b"/")):
            quoted = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
            out.append((mode, id, b'"' + quoted + b'"'))
    return out


def changed_notes(git: Git, pairs: list[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """(key, old blob id, new blob id) of every note that differs between the trees of each pair.

    An absent side has an id of zeros. One process for many pairs.
    """
    if not pairs:
        return
    none = "0" * len(pairs[0][0])
    stdin = "".join(f"{old} {new}\n" for old, new in pairs).encode()
    fields = git.stream(*_COMPARE.split(), stdin=stdin)
    for field in fields:
        # "<tree> <tree>\n" precedes the first difference of each pair, and may be all there is.
        change = field.rpartition(b"\n")[2].split(b" ")
        key = note_key(next(fields, b"").decode("utf-8", "surrogateescape"), len(none))
        if key and len(change) == 5:
            old_mode, new_mode, old_id, new_id, _ = change
            old = none if old_mode.endswith(GITLINK) else old_id.decode()
            yield key, old, none if new_mode == GITLINK else new_id.decode()


def contents(
    git: Git,
    notes: Iterable[tuple[str, str]],
    missing: list[str] | None = None,
    unread: dict[str, int] | None = None,
) -> Iterator[tuple[str, bytes]]:
    """(key, line) of (key, blob id) notes. Passed over are blobs that are not here, named in
    `missing`, and those of more than `git.largest` bytes: `unread` has their sizes.
    """
    pairs, again = tee(notes)
    answers = git.objects.get_many((blob for _, blob in again), git.largest)
    for (key, blob), found in zip(pairs, answers, strict=True):
        if found is None and missing is not None:
            missing.append(blob)
        elif found and isinstance(found[2], TooLarge) and unread is not None:
            unread[key] = found[2].size
        for line in split_lines(found[2]) if found else ():
            yield key, line


def unreadable(id: str) -> GitFailed:
    """A tree or note is named and not here: writing on without it would lose its lines."""
    hint = (
        "the repository is damaged or partial, or a disk it borrows from is away; `git fsck` names"
        " what is missing, `git mem doctor --repair` goes on with what can be read until it is back"
    )
    return GitFailed(f"cannot read notes object {id}", hint=hint)


def lines_gone(
    git: Git,
    pairs: list[tuple[str, str]],
    strict: bool = False,
    unread: dict[str, int] | None = None,
    whole: list[tuple[str, str]] | None = None,
) -> Iterator[tuple[str, bytes]]:
    """(key, line) that the first tree of a pair has in a note and the second has not in that note.

    What is not here counts as empty (if `strict`: GitFailed). So do notes of more than
    `git.largest` bytes: `unread` has the size of those of the first tree, 0 of those that only the
    second had so; `whole` has (key, blob id) of the former.
    """
    unread = {} if unread is None else unread
    whole = [] if whole is None else whole
    for tree in dict.fromkeys(tree for pair in pairs for tree in pair) if strict else ():
        if git.objects.get(tree, git.largest) is None:
            raise unreadable(tree)  # `git diff-tree` takes a missing root for an empty answer
    changed, again = tee(changed_notes(git, pairs))
    answers = git.objects.get_many((id for _, *ids in again for id in ids), git.largest)
    for key, *ids in changed:
        found = [next(answers) for _ in ids]
        absent = [id for id, got in zip(ids, found, strict=True) if got is None and id.strip("0")]
        if strict and absent:
            raise unreadable(absent[0])
        one, other = (got[2] if got else b"" for got in found)
        if isinstance(one, TooLarge):
            unread[key] = one.size
            whole.append((key, ids[0]))
        elif isinstance(other, TooLarge):
            unread.setdefault(key, 0)
        for line in _only_in(one, other):
            yield key, line


def all_gone(
    git: Git,
    pairs: list[tuple[str, str]],
    strict: bool = False,
    whole: list[tuple[str, str]] | None = None,
) -> tuple[list[tuple[str, bytes]], bool]:
    """(the lines of `lines_gone`, each once; whether all of them could be read: else GitFailed if
    `strict`). What is not here now may be away for a moment: whoever looks later finds it, if
    nobody claims to have seen all.
    """
    try:
        return list(dict.fromkeys(lines_gone(git, pairs, True, whole=whole))), True
    except GitFailed:
        if strict:
            raise
    found: dict[tuple[str, bytes], None] = {}
    for pair in pairs:
        with contextlib.suppress(GitFailed):
            found.update(dict.fromkeys(lines_gone(git, [pair])))
    return list(found), False


def _only_in(one: bytes, other: bytes) -> list[bytes]:
    """The lines of a note that another state of it lacks."""
    # What we write grows at its end: nothing more to compare.
    if one.startswith(other) and (not other or other.endswith(b"\n")):
        return split_lines(one[len(other) :])
    if other.startswith(one) and (not one or one.endswith(b"\n")):
        return []
    there = set(split_lines(other))
    return [line for line in split_lines(one) if line not in there]
