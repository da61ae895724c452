"""Who made a commit, when, and what its first line says; what decides which commits there are."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ..core.digest import sha256
from .gitcmd import Git

_LOG = (
    "log --stdin --ignore-missing --no-walk=unsorted -z --no-show-signature --no-color --no-notes"
    " --no-mailmap --encoding=UTF-8 --date=short"
)
_SHAPE = "--format=%H%x01%an <%ae>%x01%ad%x01%s"
_FIELDS = ("commit", "author", "date", "subject")


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
