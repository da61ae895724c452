"""Two users of one repository that a group shares: both remember and recall, one has no cache."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Lab, clean_env

NOBODY = 65534
ROOT = pathlib.Path(__file__).resolve().parent.parent
# The other user may not enter the home in which this Python lies.
PYTHONS = [sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"]
CODE = (
    "import os, sys\n"
    f"sys.path += {[str(ROOT), *(p for p in sys.path if 'site-packages' in p)]!r}\n"
    "os.umask(0o002)\n"
    "from gitmem.__main__ import main\n"
    "main()\n"
)

pytestmark = [
    pytest.mark.usefixtures("tmp_path"),  # not pytest's, but `make quick` is to know of directories
    pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0,
        reason="only root can give a file to another user",
    ),
]


class Pair:
    """A repository of root and of the group of `nobody`; `mem` is one command of one of them."""

    lab: Lab  # of root

    def __init__(self, root: pathlib.Path) -> None:
        self.root, self.repo = root, root / "repo"
        self.env = {user: clean_env(root / str(user)) for user in (0, NOBODY)}
        for user in self.env:
            (root / str(user)).mkdir()
            (root / str(user) / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
            shutil.chown(root / str(user), user)
        self.python = next((p for p in PYTHONS if os.path.exists(p) and self._works(p)), "")

    def _run(self, user: int, *argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        where = self.repo if self.repo.exists() else self.root
        return subprocess.run(
            argv,
            cwd=where,
            env=self.env[user],
            input=stdin,
            text=True,
            capture_output=True,
            check=False,
            user=user,
            group=NOBODY,
            extra_groups=[],
        )

    def _works(self, python: str) -> bool:
        code = CODE.replace("main()", "import typer")
        try:
            return self._run(NOBODY, python, "-c", code).returncode == 0
        except OSError:
            return False

    def run(self, user: int, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        done = self._run(user, self.python, "-c", CODE, *words, stdin=stdin)
        assert "Traceback" not in done.stderr and "bug:" not in done.stderr, done
        return done

    def mem(self, user: int, *words: str, stdin: str = "") -> str:
        done = self.run(user, *words, stdin=stdin)
        assert done.returncode == 0, (user, words, done)
        return done.stdout

    def json(self, user: int, *words: str) -> Any:
        return json.loads(self.mem(user, *words, "--json"))


@pytest.fixture
def pair() -> Iterator[Pair]:
    root = pathlib.Path(
        tempfile.mkdtemp(prefix="git-mem-pair-")
    )  # pytest's own directory is closed
    try:
        root.chmod(0o755)
        made = Pair(root)
        if not made.python:
            pytest.skip("only root can run this Python")
        lab = made.lab = Lab(root / "0")
        before = os.umask(0o002)
        try:
            lab.git(root, "init", "-q", "--shared=group", str(made.repo))
            lab.git(made.repo, "commit", "-q", "--allow-empty", "-m", "first")
            for path in (made.repo, *made.repo.rglob("*")):
                shutil.chown(path, 0, NOBODY)
                path.chmod(path.stat().st_mode | (0o2070 if path.is_dir() else 0o060))
        finally:
            os.umask(before)
        yield made
    finally:
        shutil.rmtree(root, ignore_errors=True)  # a worker may be at it


@pytest.mark.parametrize(("first", "second"), [(0, NOBODY), (NOBODY, 0)])
def test_both_users_of_a_shared_repository_remember_and_recall(
    pair: Pair, first: int, second: int
) -> None:
    told = []
    for n, user in enumerate((first, second, first, second)):
        told.append(f"invoices are kept in cents, said user {user}, {n}")
        pair.mem(user, "remember", told[-1])
        assert {m["body"] for m in pair.json(user, "list", "--all")} == set(told)
        assert pair.json(user, "recall", "invoices in cents")["hits"]
    mem = pair.repo / ".git" / "mem"
    assert (mem.stat().st_uid, mem.stat().st_mode & 0o077) == (first, 0)
    for user in (first, second):
        pair.mem(user, "doctor")
        pair.mem(user, "status")
        for event in ("SessionStart", "UserPromptSubmit", "Stop"):
            given = {"session_id": "s1", "cwd": str(pair.repo), "prompt": "invoices in cents"}
            pair.mem(user, "hook", event, stdin=json.dumps(given))


def test_who_may_not_open_the_cache_is_told_that_a_purge_has_to_be_anothers(pair: Pair) -> None:
    for text in ("The zebra is the code word", "Invoices are kept in cents"):
        pair.mem(0, "remember", text)
    zebra, cents = sorted(pair.json(0, "list"), key=lambda m: "zebra" not in m["body"])
    done = pair.run(NOBODY, "purge", zebra["id"], "--force")
    assert "nothing was taken out" in done.stderr, done
    pair.mem(0, "purge", zebra["id"], "--force")
    hub = pair.root / "hub.git"
    pair.lab.git(pair.root, "init", "-q", "--bare", str(hub))
    pair.lab.git(pair.repo, "remote", "add", "origin", str(hub))
    (remark,) = pair.json(NOBODY, "pull")["remarks"]
    assert remark.startswith("purged text is still here: cannot look into")
    assert pair.json(NOBODY, "list") == [cents]
