"""Writers and stock git beside each other in one repository, and what must be there afterwards."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import threading
from collections.abc import Callable

from conftest import Lab
from faults.harness import ALL, MEM

EACH = 8 if ALL else 3  # memories a writer writes


def texts(lab: Lab, repo: pathlib.Path) -> set[str]:
    return {m["body"] for m in lab.json(repo, "list", "--all", rc=(0, 1))}


def valid(lab: Lab, repo: pathlib.Path, acknowledged: set[str]) -> None:
    """All is there, in the cache and without it, and by a look at the whole history."""
    assert acknowledged <= texts(lab, repo)
    shutil.rmtree(repo / ".git" / "mem")
    assert acknowledged <= texts(lab, repo)
    lab.git(repo, "fsck", "--strict", "--no-dangling")


class Crowd:
    """Writers and bystanders beside each other, in one repository."""

    def __init__(self, lab: Lab, repo: pathlib.Path) -> None:
        self.lab = lab
        self.repo = repo
        self.acknowledged: set[str] = set()
        self.wrong: list[str] = []
        self.rounds: dict[str, int] = {}
        self._done = threading.Event()
        # Dates of today: a reflog entry of long ago would be expired by `git gc`.
        self.env = {k: v for k, v in lab.env.items() if not k.endswith("_DATE")}

    def run(self, cwd: pathlib.Path, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            cwd=cwd,
            env=self.env,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )

    def writer(self, name: str, cwd: pathlib.Path, *before: str) -> Callable[[], None]:
        """Remembers texts in a place; `before` the command stands what takes it there."""

        def work() -> None:
            for i in range(EACH):
                text = f"invoice {i} by {name}"
                done = self.run(cwd, *before, *MEM, "remember", text)
                if done.returncode == 0 and "remembered" in done.stdout:
                    self.acknowledged.add(text)
                else:
                    self.wrong.append(f"{name}: {done.returncode} {done.stderr}{done.stdout}")

        return work

    def bystander(self, name: str, *argv: str, pause: float = 0.03) -> Callable[[], None]:
        """Stock git, again and again; it may lose its own races."""

        def work() -> None:
            while not self._done.wait(pause):
                self.run(self.repo, "git", *argv)
                self.rounds[name] = self.rounds.get(name, 0) + 1

        return work

    def go(self, writers: list[Callable[[], None]], bystanders: list[Callable[[], None]]) -> None:
        beside = [threading.Thread(target=b) for b in bystanders]
        working = [threading.Thread(target=w) for w in writers]
        for t in [*beside, *working]:
            t.start()
        for t in working:
            t.join()
        self._done.set()
        for t in beside:
            t.join()
        assert not self.wrong, self.wrong
