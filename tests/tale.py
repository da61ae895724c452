"""One repository, told commit by commit, and what became of the paths in it."""

from __future__ import annotations

import pathlib

from conftest import Lab
from places import head, opened

from gitmem.anchors import path_state
from gitmem.anchors.path_state import PathState as State

TEXT = "".join(f"line {i} of the text\n" for i in range(40))


class Tale:
    """One repository, told commit by commit."""

    def __init__(self, lab: Lab, repo: pathlib.Path) -> None:
        self.lab = lab
        self.repo = repo

    def git(self, *argv: str) -> str:
        return self.lab.git(self.repo, *argv).strip()

    def write(self, path: str, text: str) -> Tale:
        (self.repo / path).parent.mkdir(parents=True, exist_ok=True)
        (self.repo / path).write_text(text)
        return self

    def commit(self, message: str = "next") -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return head(self.lab, self.repo)

    def move(self, old: str, new: str) -> Tale:
        (self.repo / new).parent.mkdir(parents=True, exist_ok=True)
        self.git("mv", old, new)
        return self

    def wanted(self, path: str, at: str = "HEAD", lines: str = "") -> tuple[str, str, str, str]:
        blob = self.lab.run(
            self.repo, "git", "rev-parse", "-q", "--verify", f"{at}:{path.rstrip('/')}"
        ).stdout.strip()
        return head(self.lab, self.repo, at), path, blob, lines

    def state(
        self, wanted: tuple[str, str, str, str], at: str = "HEAD", seconds: float = 60.0
    ) -> State:
        return self.states([wanted], at, seconds)[0]

    def states(
        self, wanted: list[tuple[str, str, str, str]], at: str = "HEAD", seconds: float = 60.0
    ) -> list[State]:
        with opened(self.repo) as store:
            return store.with_cache(
                lambda cache: path_state.states(
                    store.repo, cache, wanted, store.repo.commit(at) or "", seconds
                )
            )[0]

    @classmethod
    def begun(cls, lab: Lab) -> Tale:
        made = cls(lab, lab.repo())
        made.write("a.txt", TEXT).write("b.txt", "another\n" * 9).write(
            "src/net/x.py", TEXT.upper()
        ).write("src/net/y.py", "y\n" * 20).commit()
        return made
