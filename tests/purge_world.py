"""Clones from which a text is purged, and where it could still be."""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Iterator
from typing import Any

from conftest import Lab
from erase_world import holding

from gitmem.store import Store, open_store

WORD = "Zanzibarium"
TEXT = f"the customer is called {WORD}"
LONG = (
    f"{WORD} "
    + "and its forty-two warehouses keep their stock lists in one table, which is why the nightly"
    " import takes so long; " * 3
)


class Clone:
    def __init__(self, lab: Lab, path: pathlib.Path) -> None:
        self.lab, self.path = lab, path

    def remember(self, text: str, *options: str) -> str:
        return str(self.lab.json(self.path, "remember", text, *options)["id"])

    def mem(self, *argv: str, rc: tuple[int, ...] = (0,)) -> str:
        return self.lab.mem(self.path, *argv, rc=rc)

    def purge(self, id: str, rc: int = 0) -> dict[str, Any]:
        return dict(json.loads(self.mem("purge", id, "--force", "--json", rc=(rc,))))

    def git(self, *argv: str, stdin: str | None = None) -> str:
        return self.lab.git(self.path, *argv, stdin=stdin)

    def bodies(self) -> set[str]:
        return {m["body"] for m in self.lab.json(self.path, "list", "--all")}

    def lines(self, ref: str = "mem/team") -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lab.lines(self.path, ref)]

    def tombstones(self, ref: str = "mem/team") -> list[dict[str, Any]]:
        return [line for line in self.lines(ref) if line["op"] == "purge"]

    def objects(self) -> set[str]:
        return set(
            self.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
        )

    def clean(self, word: str = WORD) -> None:
        """The text is nowhere below the git directory, git is content, and the next search
        works."""
        assert holding(self.path, word) == []
        mem = self.path / ".git/mem" if (self.path / ".git").is_dir() else self.path / "mem"
        for file in mem.rglob("*"):
            assert not file.is_file() or word.lower().encode() not in file.read_bytes().lower(), (
                file
            )
        done = self.lab.run(self.path, "git", "fsck", "--strict", "--full")
        assert done.returncode == 0 and "error" not in done.stderr, done.stdout + done.stderr
        assert word not in "".join(self.bodies())

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        opened = open_store(self.lab.env, str(self.path))
        try:
            yield opened
        finally:
            opened.close()


def one(lab: Lab) -> Clone:
    """A repository with a memory that stays."""
    made = Clone(lab, lab.repo("repo", 2))
    made.remember("stays, before")
    return made


def two(lab: Lab) -> tuple[Clone, Clone]:
    """Two clones of a hub, at one after a sync."""
    lab.repo("seed", 2)
    lab.git(lab.root, "clone", "-q", "--bare", "seed", "hub.git")
    out = []
    for name in "ab":
        lab.git(lab.root, "clone", "-q", "hub.git", name)
        out.append(Clone(lab, lab.root / name))
        out[-1].mem("init")
        out[-1].remember(f"{name} stays")
        out[-1].mem("sync")
    return out[0], out[1]


def loose(clone: Clone) -> None:
    pass


def packed(clone: Clone) -> None:
    clone.git("gc", "-q")


def packed_with_everything(clone: Clone) -> None:
    clone.git("repack", "-q", "-a", "-d", "-b")
    clone.git("commit-graph", "write", "--reachable", "--changed-paths")
    clone.git("multi-pack-index", "write")
    clone.remember("loose beside the packs")


class Killed(BaseException):
    pass
