"""Moves a notes ref that is gone or lacks its newest objects back to its last whole state.

`git gc --prune=now` deletes objects that a writer beside it has just made and not yet named; a
power cut takes objects that were never synced. Every git command then stops at the ref. `mend`
moves it to the newest former tip of which every object is here, and notes the commit that it left
as a debt, so that each write can look whether the objects are here by now (`rescue`). The lines of
recent writes are kept in `<git-common-dir>/mem`. Where a missing object may be elsewhere (a partial
clone, alternates), nothing is done unasked.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from ..core.errors import GitFailed, MemError
from ..git import config, gc_roots, memfile, reflock
from ..git.gitcmd import Git

Item = tuple[str, bytes]  # (anchor, line)

_MOST = 64 * 1024  # bytes of an append that is kept; a larger one is a pack, which git keeps
_FULL = 512 * 1024  # bytes of the file of recent lines, which then begins anew
_FORMER = 50  # former tips that are tried
# No "git mem: ...": readers of the reflog must not take it for a write that looked at everything.
RESTORED = "put back by git mem"


def mend(git: Git, ref: str, asked: bool = False, more: Iterable[str] = ()) -> str | None:
    """Moves a broken ref to the newest whole commit of `former`, and notes what it held as a debt.

    Returns that commit; "" where the ref begins anew with the lines that can be read; None where
    the ref is whole, or no older commit is. A ref that is gone goes to its newest commit that is
    here, whole or not, also where the disk takes nothing; never to one of `left`. `asked`: the user
    knows of it, so alternates stop nothing.
    """
    # The backup first: it is verified last.
    backup, held = _held(git, config.backup_of(ref)), _held(git, ref)
    alternates = os.path.join(git.common_dir, "objects", "info", "alternates")
    elsewhere = git.partial or (not asked and os.path.exists(alternates))
    if held and (elsewhere or not missing(git, held)):
        return None
    ids = [id for id in former(git, ref, more) if id != held]
    whole = "" if elsewhere else next((id for id in ids if not missing(git, id)), "")
    past = left(git, ref)
    here = (id for id in ids if id not in past and git.local.get(id))
    to = whole or ("" if held else next(here, ""))
    if not to and not held:
        return None
    if not to and not asked and not _has_every_write(git, ref):
        return None
    # First the debts: a process that is killed, or fails once more, leaves them to the next writer.
    lost = [held or ids[0]] if to else [held, *ids]
    if lost != [to]:
        others = [row for row in debts(git, ref) if row.split(" ")[0] not in lost]
        try:
            write_debts(git, ref, [*others, *lost])
        except OSError:
            if held:
                return None
    if held:
        broken = backup if backup and missing(git, backup) else ""
        return to if reflock.take_back(git, ref, to, held, broken) else None
    reflock.put_back(git, ref, to, backup, RESTORED)
    return to


def owe(git: Git, ref: str, tip: str, ids: Iterable[str]) -> bool:
    """Notes as debts those former tips that bring missing objects beside what `tip` has: with one
    as its parent no push of the ref would end well. Whether there are new ones.

    In a partial clone objects are missing without a fault.
    """
    past = left(git, ref)
    asked = [] if git.partial else [id for id in ids if id not in past]
    if not asked or not _lacks(git, asked, tip):
        return False
    broken = [id for id in asked if _lacks(git, [id], tip)]
    try:
        write_debts(git, ref, [*debts(git, ref), *broken])
    except OSError:
        return False
    return bool(broken)


def _lacks(git: Git, ids: list[str], tip: str) -> bool:
    words = ("rev-list", "--objects", "--no-object-names", "--missing=print", "--stdin")
    stdin = "".join(f"{id}\n" for id in [*ids, f"^{tip}"]).encode()
    try:
        return any(row.startswith(b"?") for row in git.run(*words, stdin=stdin).split(b"\n"))
    except GitFailed:  # a commit is missing
        return True


def _held(git: Git, ref: str) -> str:
    id = git.resolve(ref)
    return id if id.strip("0") else ""


def former(git: Git, ref: str, more: Iterable[str] = (), tables: bool = True) -> list[str]:
    """Commits that a ref may go back to: of its reflog, newest first, of its backup, then `more`.

    `tables`: also of a reflog in a reftable, which takes a git process.
    """
    noted = git.objects.get(config.backup_of(ref) + "^{commit}")
    asked = tables or not gc_roots.in_tables(git)
    ids = gc_roots.logged(git, ref)[:_FORMER] if asked else []
    return [id for id in dict.fromkeys([*ids, *([noted[0]] if noted else []), *more]) if id]


def missing(git: Git, id: str) -> list[str]:
    """The missing objects of a notes commit (or tree, or note), itself included; no parents."""
    if git.objects.get(id) is None:
        return [id]
    options = ("--objects", "--no-object-names", "--missing=print", "--no-walk")
    rows = git.text("rev-list", *options, id, ok=(0, 128)).split("\n")
    return [row[1:] for row in rows if row.startswith("?")] or ([] if id in rows else [id])


def _path(git: Git, ref: str, suffix: str = "") -> str:
    name = ref.removeprefix("refs/notes/").replace("/", "-")
    return os.path.join(memfile.directory(git.common_dir), f"recent-{name}{suffix}")


def debts(git: Git, ref: str) -> list[str]:
    """Rows `<former tip> <id of a missing object>...`."""
    try:
        raw = memfile.read(_path(git, ref, ".due"))
    except OSError:
        return []
    return [row for row in raw.decode("ascii", "replace").split("\n") if row]


def left(git: Git, ref: str) -> set[str]:
    """Former tips that still lack an object, of themselves or of their history."""
    return {row.split(" ")[0] for row in debts(git, ref)}


def write_debts(git: Git, ref: str, rows: list[str]) -> None:
    """Raises OSError where they cannot be kept."""
    path = _path(git, ref, ".due")
    if not rows:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    with contextlib.suppress(MemError):
        memfile.make(git.common_dir)
    content = "".join(row + "\n" for row in rows).encode("ascii", "replace")
    memfile.write(path, content, sync=True)


def keep_lines(git: Git, ref: str, items: list[Item]) -> None:
    """Notes lines that were just written; a line that cannot be kept is only in the ref."""
    content = b"".join(b"%s\t%s\n" % (anchor.encode(), line) for anchor, line in items)
    if not content or len(content) > _MOST:
        return
    with contextlib.suppress(OSError):
        fd = memfile.opened(_path(git, ref), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            if os.fstat(fd).st_size > _FULL:
                os.ftruncate(fd, 0)
            os.write(fd, content)
        finally:
            os.close(fd)


def recent_lines(git: Git, ref: str) -> list[Item]:
    try:
        rows = [row.partition(b"\t") for row in memfile.read(_path(git, ref)).split(b"\n")]
    except OSError:
        return []
    # A last line may be cut short, as by a full disk.
    return [
        (anchor.decode("ascii", "replace"), line)
        for anchor, tab, line in rows[:-1]
        if tab and line.startswith(b"{") and line.endswith(b"}")
    ]


def _has_every_write(git: Git, ref: str) -> bool:
    """Whether the recent lines are as many as the ref's states since it began here."""
    states = gc_roots.logged(git, ref)
    return gc_roots.begins(git, ref) and 0 < len(states) <= len(recent_lines(git, ref))


def drop_lines(mem_dir: str) -> None:
    """Removes the recent lines of all refs: some of them were purged."""
    with contextlib.suppress(OSError):
        for name in os.listdir(mem_dir):
            if name.startswith("recent-") and not name.endswith(".due"):  # debts have no text
                os.unlink(os.path.join(mem_dir, name))
