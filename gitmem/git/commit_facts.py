"""Who made a commit, when, and what its first line says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
