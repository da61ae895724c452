"""The team's notes of a repository, without a cache over them."""

from __future__ import annotations

import pathlib

from gitmem.git import layout
from gitmem.truth import notes

REF, ADA = "refs/notes/mem/team", "Ada <ada@example.org>"


def opened(path: pathlib.Path) -> tuple[layout.Repo, notes.Notes]:
    repo = layout.open_repo(str(path))
    return repo, notes.Notes(repo.git, REF, repo.hex_len)
