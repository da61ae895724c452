"""A bare hub and clones of it."""

from __future__ import annotations

import pathlib

from conftest import Lab

from gitmem.store import Store, open_store

REF, TRACK = "refs/notes/mem/team", "refs/notes/remotes/origin/mem/team"
SECRET = "AKIA" + "Q7RT2WXYZ3LMNOP4"  # looks like a key


class Team:
    """A bare hub and clones of it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        seed = lab.repo("seed", 2)
        self.hub = lab.root / "hub.git"
        lab.git(lab.root, "clone", "-q", "--bare", str(seed), str(self.hub))

    def clone(self, name: str, *options: str, url: str = "") -> pathlib.Path:
        self.lab.git(self.lab.root, "clone", "-q", *options, url or str(self.hub), name)
        return self.lab.root / name

    def hook(self, name: str, script: str) -> None:
        path = self.hub / "hooks" / name
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)

    def bodies(self, repo: pathlib.Path) -> set[str]:
        return {m["body"] for m in self.lab.json(repo, "list", "--all")}

    def on_hub(self) -> str:
        return "\n".join(self.lab.lines(self.hub))


def store_of(path: pathlib.Path, warnings: list[str] | None = None) -> Store:
    return open_store(
        {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org"},
        str(path),
        warn=(warnings if warnings is not None else []).append,
    )
