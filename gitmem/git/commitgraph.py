"""git's commit-graph, kept in the cache where a repository has none of its own.

`git gc` writes one; a clone that was never packed again has none, and every walk
over its history reads commit by commit, five times as long. git takes it from
any object directory it is told of, so ours lies in the cache, where it disturbs
nobody and is lost with it, and only the calls inside `used` see it.

Promise: git makes it and git reads it; what somebody wrote since is not read
before its digest was found right.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..core.errors import GitFailed
from . import memfile
from .gitcmd import Git
from .repository import Repo

NEW = 5_000  # commits that ours may lack: walking over them costs 20 ms
LIMIT = 60.0  # seconds git may take to make it: some ten million commits
_ALTERNATES = "GIT_ALTERNATE_OBJECT_DIRECTORIES"


@contextmanager
def used(repo: Repo) -> Iterator[None]:
    """Within this git reads ours, if there is a whole one."""
    git, before = repo.git, repo.git.env
    if _whole(repo):
        git.env = _told(git, repo)
    try:
        yield
    except GitFailed:
        if git.env is not before:
            drop(repo)  # perhaps it is what git fell over
        raise
    finally:
        git.env = before


def keep(repo: Repo, seen: int) -> bool:
    """Makes it where walks would be long without; True where it was made.

    `seen`: how many commits were ever looked at, which is noted beside it.
    """
    if _has_own(repo):
        drop(repo)  # git would never look at ours
        return False
    if (
        seen - _noted(repo) < NEW
        or repo.git.text("config", "--type=bool", "core.commitGraph", ok=(0, 1, 128)) == "false"
    ):
        return False
    try:
        os.makedirs(os.path.dirname(_file(repo)), mode=0o700, exist_ok=True)
        process = Git(repo.git_dir)
        process.env = _told(repo.git, repo)
        _, whole = process.limited(
            LIMIT,
            "commit-graph",
            "write",
            "--reachable",
            "--no-progress",
            "--object-dir",
            _directory(repo),
        )
        if whole:
            _write_note(repo, seen)
        memfile.mend(repo.common_dir)  # git makes it readable for all
        return whole
    except OSError:
        return False  # no place to write: walks take longer


def drop(repo: Repo) -> None:
    shutil.rmtree(_directory(repo), ignore_errors=True)


def _directory(repo: Repo) -> str:
    return os.path.join(repo.mem_dir, "graph")


def _file(repo: Repo) -> str:
    return os.path.join(_directory(repo), "info", "commit-graph")


def _note(repo: Repo) -> str:
    return os.path.join(_directory(repo), "seen")


def _noted(repo: Repo) -> int:
    return sum(_read_note(repo)[:1])


def _read_note(repo: Repo) -> list[int]:
    """[how many commits were looked at when it was made, and its size, times and inode as they were
    when it was found whole].
    """
    try:
        return [int(word) for word in memfile.read(_note(repo)).split()]
    except (OSError, ValueError):
        return []


def _write_note(repo: Repo, seen: int, stamp: Sequence[int] = ()) -> None:
    memfile.write(_note(repo), " ".join(map(str, (seen, *stamp))).encode())


def _told(git: Git, repo: Repo) -> dict[str, str]:
    own = (
        '"' + _directory(repo).replace("\\", "\\\\").replace('"', '\\"') + '"'
    )  # quoted: a path may hold the separator
    return {
        **git.env,
        _ALTERNATES: os.pathsep.join(filter(None, [git.env.get(_ALTERNATES, ""), own])),
    }


def _has_own(repo: Repo) -> bool:
    info = os.path.join(repo.common_dir, "objects", "info")
    return os.path.exists(os.path.join(info, "commit-graph")) or os.path.exists(
        os.path.join(info, "commit-graphs", "commit-graph-chain")
    )


def _whole(repo: Repo) -> bool:
    """Whether the file ends with the digest of what is before, or is the one that did: git itself
    does not look.
    """
    note, size = _read_note(repo), repo.hex_len // 2
    try:
        with open(memfile.opened(_file(repo)), "rb") as f:
            found = os.fstat(f.fileno())
            stamp = [
                found.st_size,
                found.st_mtime_ns,
                found.st_ctime_ns,
                found.st_ino,
            ]  # its own time can be put back
            if note[1:] == stamp:
                return True
            data = f.read()
        whole = (
            len(data) > size
            and hashlib.new("sha1" if size == 20 else "sha256", data[:-size]).digest()
            == data[-size:]
        )
    except OSError:
        return False
    if whole and note:
        try:
            _write_note(repo, note[0], stamp)
        except OSError:
            pass  # not ours to write, or no room: it is looked at again the next time
    return whole
