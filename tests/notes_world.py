"""The team's notes of a repository, without a cache over them."""

from __future__ import annotations

import pathlib

from gitmem.git import repository
from gitmem.notes import note_store

REF, ADA = "refs/notes/mem/team", "Ada <ada@example.org>"


def opened(path: pathlib.Path) -> tuple[repository.Repo, note_store.Notes]:
    repo = repository.open_repo(str(path))
    return repo, note_store.Notes(repo.git, REF, repo.hex_len)
