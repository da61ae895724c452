"""The roots that keep objects alive, of every worktree: refs, HEADs, reflogs, indexes, merges.

Promise: all that `git gc` respects are named: not FETCH_HEAD and ORIG_HEAD.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from .gitcmd import Git
from .ref_files import log_rows

Root = tuple[str, str]  # (name for the user, object id)

_OWN = ("refs/bisect/", "refs/worktree/", "refs/rewritten/")  # each worktree has its own
_LOGGED = 500  # entries of a reflog asked for at a time
_NO_ROOTS = ("FETCH_HEAD", "ORIG_HEAD")
_UNFINISHED = ("NOTES_MERGE_PARTIAL", "AUTO_MERGE")


def git_dirs(git: Git) -> Iterator[tuple[str, str]]:
    """(prefix of names, git directory) of the main worktree, with "" first, and each linked one."""
    yield "", git.common_dir
    linked = os.path.join(git.common_dir, "worktrees")
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for name in sorted(os.listdir(linked)):
            if os.path.isdir(os.path.join(linked, name)):
                yield f"worktrees/{name}/", os.path.join(linked, name)


def refs(git: Git) -> list[Root]:
    out: list[Root] = []
    for prefix, directory in git_dirs(git):
        at = f"--git-dir={directory}"
        for row in git.text(at, "for-each-ref", "--format=%(objectname) %(refname)").splitlines():
            id, _, name = row.partition(" ")
            if not prefix or name.startswith(_OWN):
                out.append((prefix + name, id))
        if not git.text(at, "symbolic-ref", "-q", "HEAD", ok=(0, 1, 128)):
            id = git.text(at, "rev-parse", "-q", "--verify", "HEAD", ok=(0, 1, 128))
            out += [(prefix + "HEAD", id)] if id else []
    return out


def reflogs(git: Git) -> Iterator[Root]:
    """Every entry of every reflog, old and new side."""
    for prefix, directory in git_dirs(git):
        logs = os.path.join(directory, "logs")
        for at, _, names in os.walk(logs):
            for name in names:
                path = os.path.join(at, name)
                label = f"the reflog of {prefix}{os.path.relpath(path, logs).replace(os.sep, '/')}"
                yield from ((label, id) for id in _ids(path))
    if in_tables(git):
        for name in git.text("reflog", "list", ok=(0, 128, 129)).splitlines():
            yield from ((f"the reflog of {name}", id) for id in logged(git, name))


def _ids(path: str) -> list[str]:
    """The ids in a reflog's file, newest first."""
    ids = (id for old, new, _ in log_rows(path) for id in (new, old) if id.strip("0"))
    return list(dict.fromkeys(ids))


def in_tables(git: Git) -> bool:
    """Whether refs and reflogs are in a reftable, which only git reads."""
    return os.path.isdir(os.path.join(git.common_dir, "reftable"))


def logged(git: Git, ref: str) -> list[str]:
    """Former tips of a ref, newest first, also missing ones."""
    if not in_tables(git):
        return _ids(os.path.join(git.common_dir, "logs", ref))
    ids: list[str] = []
    while len(ids) % _LOGGED == 0:
        names = [f"{ref}@{{{len(ids) + i}}}" for i in range(_LOGGED)]
        more = git.text("rev-parse", *names, ok=(0, 128)).split()
        if not more:
            break
        ids += more
    return ids


def begins(git: Git, ref: str) -> bool:
    """Whether a reflog goes back to where its ref was made."""
    if in_tables(git):  # behind its rows git names what the ref held before the oldest one
        count = len(git.text("log", "-g", "--format=%H", ref, "--", ok=(0, 128)).split())
        return count > 0 and not git.resolve(f"{ref}@{{{count}}}")
    rows = list(log_rows(os.path.join(git.common_dir, "logs", ref)))
    return bool(rows) and not rows[-1][0].strip("0")


def unfinished(git: Git) -> Iterator[Root]:
    """Commits of unfinished merges, cherry-picks and rebases."""
    for prefix, directory in git_dirs(git):
        for name in sorted(os.listdir(directory)):
            kept = name in _UNFINISHED or (name.endswith("_HEAD") and name.isupper())
            if not kept or name in _NO_ROOTS:
                continue
            path = os.path.join(directory, name)
            with contextlib.suppress(OSError), open(path, "rb") as f:
                rows = f.read().decode("ascii", "replace").splitlines()
                yield from ((prefix + name, row.split()[0]) for row in rows if row.strip())


def indexed(git: Git) -> Iterator[Root]:
    objects = ("rev-list", "--objects", "--no-object-names", "--missing=allow-any")
    for id in git.run(*objects, "--indexed-objects", ok=(0, 128)).decode().split():
        yield "an index", id


def drafts(git: Git) -> Iterator[str]:
    """The files in which git keeps the text of a note while somebody edits or merges it."""
    for _, directory in git_dirs(git):
        path = os.path.join(directory, "NOTES_EDITMSG")
        if os.path.isfile(path):
            yield path
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            folder = os.path.join(directory, "NOTES_MERGE_WORKTREE")
            yield from sorted(os.path.join(folder, n) for n in os.listdir(folder))
