"""Commits as `git log` tells them: message, author, time, changed files.

Promise: one call, however many commits (a second where a partial clone lacks directories; one for
each 500 in `read_counted`), and nothing is fetched for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from ..core import record
from ..core.digest import sha256
from ..core.errors import GitFailed, Refused
from .gitcmd import NO_FETCH, Git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.progress import Progress

_LOG = (  # --ignore-missing counts only for what is named after it
    "log --ignore-missing --stdin --no-walk=unsorted -z --no-show-signature --no-color --no-notes"
    " --no-mailmap --encoding=UTF-8 --date=short"
)
_SHAPE = "--format=%H%x01%an <%ae>%x01%ad%x01%s"
_FIELDS = ("commit", "author", "date", "subject")
_PORTION = 500  # commits that one `git log` reads, where each portion is counted


class Commit(NamedTuple):
    """One commit as git tells it; `at`: its time as records have it, "" for one that they refuse
    (a commit may claim any); `paths`: the files it changed.
    """

    id: str
    at: str
    author: str
    message: str
    paths: list[str]


def read(
    git: Git,
    revisions: list[str],
    known: list[str],
    most: int,
    walk: bool = True,
    as_given: bool = False,
) -> list[Commit]:
    """The newest `most` commits of these revisions that are not in the history of `known`, oldest
    first; no merges. `walk` false: only those named; `as_given`: in the reverse of their order, and
    not by their times. Raises GitFailed for what is no revision.

    Without the paths where a partial clone would fetch directories for them, and of a commit at
    which a shallow clone ends: git would name the whole tree.
    """
    # A message may hold any byte but NUL, so what parts commits is nothing it can foresee.
    mark = os.urandom(8).hex()
    words = ["log", "--no-merges", "--no-show-signature", "--no-color", "--no-ext-diff"]
    words += ["--encoding=UTF-8"]  # else as i18n.logOutputEncoding says
    # --max-count would take --no-walk back.
    no_walk = "--no-walk=unsorted" if as_given else "--no-walk"
    words += ["--no-notes", "-z", f"--max-count={most}" if walk else no_walk]
    words += [f"--format={mark}%H%x00%cI%x00%aN <%aE>%x00%B{mark}"]
    which = ["--end-of-options", *revisions, *(f"^{k}" for k in known), "--"]
    try:
        raw = git.run(*words, "--name-only", "--no-renames", *which, env=NO_FETCH)
    except GitFailed:
        if not git.partial:
            raise
        raw = git.run(*words, *which, env=NO_FETCH)
    parts = raw.decode("utf-8", "replace").split(mark)
    found, cut = [], ends(git)
    for about, files in zip(parts[1::2], parts[2::2], strict=False):
        facts = about.split("\0")
        if len(facts) == 4:
            id, at, author, message = facts
            paths = [name.strip("\n") for name in files.split("\0")]
            paths = [path for path in paths if path and id not in cut]
            found.append(Commit(id, _time(at), author, message, paths))
    return found[::-1]


def read_counted(git: Git, revision: str, most: int, progress: Progress) -> list[Commit]:
    """`read` of a revision or range, a portion at a time, for somebody who waits."""
    words = ["rev-list", "--no-merges", f"--max-count={most}", "--end-of-options", revision, "--"]
    ids = git.run(*words, env=NO_FETCH).decode().split()
    found: list[Commit] = []
    with progress("reading commits", len(ids)) as advance:
        for end in range(len(ids), 0, -_PORTION):
            part = ids[max(0, end - _PORTION) : end]
            found += read(git, part, [], len(part), walk=False, as_given=True)
            advance(len(part))
    return found


def _time(text: str) -> str:
    with suppress(Refused):
        return record.timestamp(text)
    return ""


def ends(git: Git) -> set[str]:
    """The commits at which the history of a shallow clone ends."""
    try:
        with open(os.path.join(git.common_dir, "shallow"), encoding="ascii") as f:
            return set(f.read().split())
    except FileNotFoundError:
        return set()


def facts(git: Git, commits: Iterable[str]) -> dict[str, dict[str, Any]]:
    """{commit: its id, author, date (YYYY-MM-DD) and subject}, of those that are here."""
    asked = "".join(f"{commit}\n" for commit in dict.fromkeys(commits)).encode()
    if not asked:
        return {}  # without a name git would take HEAD
    raw = git.run(*_LOG.split(), _SHAPE, stdin=asked)
    rows = [row.decode("utf-8", "replace").split("\x01", 3) for row in raw.split(b"\0") if row]
    return {row[0]: dict(zip(_FIELDS, row, strict=True)) for row in rows}


def shape(git: Git) -> str:
    """Digest of what decides, beside the refs, which commits this clone has and which parents:
    where a shallow clone ends, grafts, replaced commits, whether files are missing.
    """
    said = [git.promised, git.text("for-each-ref", "refs/replace"), *boundaries(git)]
    return sha256(repr(said).encode()).hexdigest()


def boundaries(git: Git) -> list[bytes | str]:
    """Of it what are files of their own: where a shallow clone ends, and grafts."""
    said: list[bytes | str] = []
    for name in ("shallow", "info/grafts"):
        try:
            with open(os.path.join(git.common_dir, name), "rb") as f:
                said.append(f.read())
        except OSError:
            said.append("")
    return said
