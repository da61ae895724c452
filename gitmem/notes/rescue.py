"""A notes ref whose newest objects are not here any more: goes on from its last whole state.

How it comes about: `git gc --prune=now` and `git prune --expire=now` delete
objects that a writer beside them has just made and not yet named (git warns of
it); a power cut takes objects that were never synced. Every git command then
stops at the ref.

Promise: nothing that can be read is left behind. Only after a write failed and
the ref was found to lack objects, `mend` moves it to the newest former tip of its
reflog of which every object is here; the write that follows brings back
what can be read of the newer state, and the lines in a file of recent ones in
`<git-common-dir>/mem`. Where a missing object may only be elsewhere (a partial
clone, alternates), nothing is done unasked. Elsewhere it may be away for a moment too (a
disk that is not mounted): what was left behind is owed to the ref until all of
it was read, and each write looks whether that can be done by now.
"""

from __future__ import annotations

import contextlib
import os
import re

from ..core import record
from ..core.errors import GitFailed, MemError
from ..core.fold import Tombstones
from ..git import config, gc_roots, memfile, reflock
from . import notetree
from .treeedit import TreeEdit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from ..git.gitcmd import Git
    from .note_store import Notes

    Item = tuple[str, bytes]  # (anchor, line)
    T = TypeVar("T")

_MOST = (
    64 * 1024
)  # bytes of an append that is kept: a larger one is a pack, which git keeps while it is made
_FULL = 512 * 1024  # bytes of the file, which then begins anew
_FORMER = 50  # former tips that are tried
_ROW = re.compile(
    rb"([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) "
)  # a power cut may leave others
# no "git mem: ...": whoever reads the reflog must not take it for a write that looked at all there
# was
RESTORED = "put back by git mem"
_NAMED = 1000  # objects that were away, looked for by each write


def _path(common_dir: str, ref: str) -> str:
    return os.path.join(
        memfile.directory(common_dir), "recent-" + ref.removeprefix("refs/notes/").replace("/", "-")
    )


def writing(notes: Notes, items: list[Item], write: Callable[[list[Item], bool], T]) -> T:
    """Runs `write(items, mended)`; where it fails because objects of the ref are gone, mends that
    and runs it again with what was lost.
    """
    path = _path(notes.git.common_dir, notes.ref)
    try:
        owed, paid, left = _owed(notes, path)
        done = write([*items, *owed], False)
    except GitFailed:
        if mend(notes.git, notes.ref) is None:
            raise
        notes.git.close()  # it has read the ref as it was
        owed, paid, left = _owed(notes, path)
        done = write([*items, *owed], True)
    _keep(path, items)
    if paid != left:
        _write_debts(path, [*(row for row in _debts(path) if row not in paid), *left])
    return done


def _debts(path: str) -> list[str]:
    """Rows `<commit the ref was taken back from> <id of an object that was not here>...`."""
    try:
        return [
            row for row in memfile.read(path + ".due").decode("ascii", "replace").split("\n") if row
        ]
    except OSError:
        return []


def _write_debts(path: str, rows: list[str]) -> None:
    """Raises OSError where they cannot be kept."""
    if not rows:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + ".due")
        return
    with contextlib.suppress(MemError):
        memfile.make(os.path.dirname(os.path.dirname(path)))
    content = "".join(row + "\n" for row in rows).encode("ascii", "replace")
    memfile.write(path + ".due", content, sync=True)


def _keep(path: str, items: list[Item]) -> None:
    """Notes lines that were just written; a line that cannot be kept is only in the ref."""
    content = b"".join(b"%s\t%s\n" % (anchor.encode(), line) for anchor, line in items)
    if not content or len(content) > _MOST:
        return
    with contextlib.suppress(OSError):
        fd = memfile.opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            if os.fstat(fd).st_size > _FULL:
                os.ftruncate(fd, 0)
            os.write(fd, content)
        finally:
            os.close(fd)


def _kept(path: str) -> list[Item]:
    try:
        rows = [row.partition(b"\t") for row in memfile.read(path).split(b"\n")]
    except OSError:
        return []
    # A last line may be cut short, as by a full disk.
    return [
        (anchor.decode("ascii", "replace"), line)
        for anchor, tab, line in rows[:-1]
        if tab and line.startswith(b"{") and line.endswith(b"}")
    ]


def drop(mem_dir: str) -> None:
    """Removes the recent lines: some of them are to be here no more."""
    with contextlib.suppress(OSError):
        for name in os.listdir(mem_dir):
            if name.startswith("recent-") and not name.endswith(".due"):  # that one has no text
                os.unlink(os.path.join(mem_dir, name))


def mend(git: Git, ref: str, asked: bool = False, more: Iterable[str] = ()) -> str | None:
    """Takes a ref that is gone, or that names what is not whole, to the newest whole commit that
    `former` names; what it held since is then owed to it.

    Returns that commit, "" where the ref begins anew with what can be read, None where it is whole
    or nothing older is. A ref that is gone is not left so for the sake of what is missing: then its
    newest commit that is here will do. And what it was put back to is returned also where the disk
    takes nothing. `asked`: the user knows of it, so also where objects are borrowed from another
    store, which may have lost them for good."""
    backup = git.text(
        "rev-parse", "-q", "--verify", config.backup_of(ref), ok=(0, 1, 128)
    )  # first: it is verified last
    held = git.text("rev-parse", "-q", "--verify", ref, ok=(0, 1, 128))
    held = held if held.strip("0") else ""
    elsewhere = git.partial or (
        not asked and os.path.exists(os.path.join(git.common_dir, "objects", "info", "alternates"))
    )
    if held and (elsewhere or not missing(git, held)):
        return None
    ids = [id for id in former(git, ref, more) if id != held]
    whole = "" if elsewhere else next((id for id in ids if not missing(git, id)), "")
    to = whole or ("" if held else next((id for id in ids if git.local.get(id)), ""))
    path = _path(git.common_dir, ref)
    if not to and not (
        held and ((_only_write(git, ref) and _kept(path)) or (asked and git.objects.get(held)))
    ):
        return None
    # First the debt: whoever is killed, or fails once more, leaves it to the next writer.
    lost = held or ids[0]
    if lost != to:
        try:
            _write_debts(path, [*(row for row in _debts(path) if row.split(" ")[0] != lost), lost])
        except OSError:
            if held:
                return None
    if held:
        broken = backup if backup.strip("0") and missing(git, backup) else ""
        return to if reflock.take_back(git, ref, to, held, broken) else None
    reflock.put_back(git, ref, to, backup, RESTORED)
    return to


def _owed(notes: Notes, path: str) -> tuple[list[Item], list[str], list[str]]:
    """(what a ref lost when it was mended and has not got back, less what was purged since; the
    debts that are paid by it; what of them is left).
    """
    paid, left, found = [], [], _kept(path)
    for row in _debts(path):
        held, *away = row.split(" ")
        if away and not all(notes.git.ids(away)):
            continue  # as before: all else of it was read then
        paid.append(row)
        gone: dict[str, None] = {}
        for id in away or [held]:  # the commit itself may be gone, by a purge
            found += _readable(notes, id)
            gone.update(dict.fromkeys(missing(notes.git, id)))
        left += [" ".join([held, *list(gone)[:_NAMED]])] if gone else []
    if not paid:
        return [], [], []
    tip = notes.tip()
    there = {line for _, line in _readable(notes, tip)} if tip else set()
    graves = Tombstones(notes.purges())
    return (
        [
            item
            for item in dict.fromkeys(found)
            if item[1] not in there and not graves.doom(item[1])
        ],
        paid,
        left,
    )


def _readable(notes: Notes, id: str) -> list[Item]:
    """The lines of a notes commit, or of a tree or note of one, as far as they are here, with the
    commits they are about; and the moves that copies state.
    """
    out = []
    edit = TreeEdit(notes.git, None, notes.hex_len)
    with contextlib.suppress(GitFailed):
        for key, line in notetree.contents(notes.git, _notes_below(notes, id)):
            parsed = record.parse(line)
            anchor = parsed.data.get("commit", "") if parsed else key
            out.append(
                (
                    anchor
                    if isinstance(anchor, str)
                    and (not anchor or (len(anchor) == notes.hex_len and notetree.is_hex(anchor)))
                    else key,
                    line,
                )
            )
            place = edit.anchor_of(key) if key else ""
            if stated := record.copied_to(line, place):
                out.append((place, stated))
    return out


def _notes_below(notes: Notes, id: str) -> list[tuple[str, str]]:
    """(key, blob id) of the notes in a commit; with the key "" where only a tree or a note of one
    is left.
    """
    found = notes.git.objects.get(id)
    if found and found[1] == "commit":
        return list(notetree.all_notes(notes.git, id, notes.hex_len))
    below = [id] if found and found[1] == "blob" else []
    if found and found[1] == "tree":
        rows = [
            row.split(b"\t")[0].split()
            for row in notes.git.run("ls-tree", "-r", "-z", "--full-tree", id).split(b"\0")
        ]
        below = [row[2].decode() for row in rows if row and row[1] == b"blob"]
    read = zip(below, notes.git.objects.get_many(below, notes.git.largest), strict=True)
    return [
        ("", blob)
        for blob, found in read
        if found and notetree.continued(found[2], notes.hex_len) is None
    ]


def former(git: Git, ref: str, more: Iterable[str] = (), tables: bool = True) -> list[str]:
    """Commits that a ref may go back to: by its reflog, newest first, the one in its backup, then
    `more`.

    `tables`: also a reflog in a reftable, which takes a git process.
    """
    noted = git.objects.get(config.backup_of(ref) + "^{commit}")
    if gc_roots.in_tables(git):
        ids = gc_roots.logged(git, ref, _FORMER) if tables else []
    else:
        ids = [
            id.decode()
            for row in reversed(_logged(git, ref))
            for id in reversed(row.split(b" ", 2)[:2])
        ]
    ids = [id for id in ids if id.strip("0")][:_FORMER]
    return [id for id in dict.fromkeys([*ids, *([noted[0]] if noted else []), *more]) if id]


def _logged(git: Git, ref: str) -> list[bytes]:
    """The rows of the reflog's file, as it is: `git log -g` stops at a ref that names nothing."""
    try:
        with open(os.path.join(git.common_dir, "logs", ref), "rb") as f:
            rows = f.read().split(b"\n")
    except OSError:
        return []
    return [row for row in rows if _ROW.match(row)]


def _only_write(git: Git, ref: str) -> bool:
    """Whether a single write of ours is all there ever was.

    With reftable nothing says who wrote an entry, so a single one counts as ours.
    """
    if gc_roots.in_tables(git):
        return len(set(gc_roots.logged(git, ref, _FORMER))) == 1
    rows = _logged(git, ref)
    return (
        len(rows) == 1
        and not rows[0].split(b" ")[0].strip(b"0")
        and rows[0].endswith((b"\tfast-import", b"\tgit mem: write"))
    )


def missing(git: Git, id: str) -> list[str]:
    """Ids of what a notes commit (or a tree, or a note) and all in it are and is not here, [] where
    it is whole; what a commit's parents have is not looked at.
    """
    if git.objects.get(id) is None:
        return [id]
    rows = git.text(
        "rev-list",
        "--objects",
        "--no-object-names",
        "--missing=print",
        "--no-walk",
        id,
        ok=(0, 128),
    ).split("\n")
    return [row[1:] for row in rows if row.startswith("?")] or ([] if id in rows else [id])
