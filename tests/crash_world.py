"""A repository in which git mem dies at calls that change a file, and what must hold afterwards.

`GIT_MEM_FAULTS=all` fails at every call, else at a fixed choice of them (GIT_MEM_FAULTS_SEED
chooses another). docs/reliability.md says what is promised.
"""

from __future__ import annotations

import os
import pathlib
import shutil

import pytest
from conftest import Lab
from faults.harness import Bench, Run, Unavailable, build

from gitmem.core import record
from gitmem.engine import cache_check
from gitmem.engine.filters import Filter
from gitmem.memory import recall, remember
from gitmem.store import open_store

REF = "refs/notes/mem/team"
OLD = ["the first invoice is stored in cents", "the second invoice is stored in euros"]
SECRET = "the third invoice is private"
NEW = "the fourth invoice arrives now"
AFTER = "the last invoice is written afterwards"


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    try:
        return build(tmp_path_factory.mktemp("shim"))
    except Unavailable as e:
        pytest.skip(f"no faults can be injected here: {e}")


@pytest.fixture(scope="session")
def first(library: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Two memories of the team and a private one, all of them acknowledged; the cache knows two of
    them.
    """
    made = Bench(Lab(tmp_path_factory.mktemp("first")), library)
    for text in OLD:
        made.lab.mem(made.template, "remember", text)
    made.lab.mem(made.template, "list")
    made.lab.mem(made.template, "remember", "--private", SECRET)
    return made


@pytest.fixture
def bench(lab: Lab, library: pathlib.Path, first: Bench) -> Bench:
    return Bench(lab, library, first)


@pytest.fixture
def empty(lab: Lab, library: pathlib.Path) -> Bench:
    """A repository without any memory."""
    return Bench(lab, library)


def records(lab: Lab, repo: pathlib.Path) -> list[record.Record]:
    """All records of both refs, read with stock git; every line must be a whole one."""
    out = []
    for ref in ("mem/team", "mem/private"):
        for line in lab.lines(repo, ref):
            parsed = record.parse(line.encode())
            assert parsed is not None, f"half a record: {line[:80]}"
            out.append(parsed)
    return out


def pass_time(repo: pathlib.Path) -> None:
    """A minute passes: a writer waits ten seconds before it judges a lock."""
    places = [repo / ".git" / place for place in ("refs", "logs", "reftable")]
    found = [lock for place in places for lock in place.rglob("*.lock")]
    for path in [*found, *(repo / ".git").glob("packed-refs.*")]:
        past = path.stat().st_mtime - 60
        os.utime(path, (past, past))


def sound(
    lab: Lab,
    run: Run,
    kept: list[str],
    new: list[str],
    *,
    acknowledged: bool = False,
    quiet: bool = True,
) -> set[str]:
    """What must hold after any fault; returns which of the `new` texts are there.

    The repository is valid; every text in `kept` is there; of the `new` ones each is there whole or
    not at all, and all of them if the answer was given. The next write and the next question
    succeed at once and without a word (if `quiet`), and the cache is right."""
    fsck = lab.run(run.repo, "git", "fsck", "--strict", "--no-dangling")
    assert fsck.returncode == 0 and "error" not in fsck.stderr, fsck.stderr + fsck.stdout
    pass_time(run.repo)
    said: list[str] = []
    store = open_store(
        {"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(run.repo), said.append
    )
    try:
        assert remember.remember(store, [{"body": AFTER}])[0].status == remember.STORED
        found = {str(r.data["body"]) for r in records(lab, run.repo) if r.op in record.CONTENT_OPS}
        assert set(kept) <= found, "acknowledged and lost"
        assert found - {*kept, *new} == {AFTER}, "something nobody wrote"
        assert not acknowledged or set(new) <= found, "the answer was given and the memory is lost"
        answer = recall.recall(store, "which invoice", Filter(), limit=500)
        assert not answer["degraded"] and AFTER in {h["body"] for h in answer["hits"]}
        assert store.with_cache(lambda cache: cache_check.check_all(cache, store.table)) == (
            "",
            True,
        )
    finally:
        store.close()
    assert not quiet or not said, said
    return found & set(new)


BULK = (
    "import sys, gitmem.memory.remember as r; r._PORTION = r._BLOCK = 6; sys.argv[0] = 'git-mem';"
    " from gitmem.__main__ import main; sys.exit(main())"
)


# Killed while it talks to a remote

THEIRS = "the fifth invoice comes from a colleague"


@pytest.fixture
def shared(bench: Bench) -> Bench:
    """The repository of `bench`, two memories ahead of a remote that is one memory ahead of it.

    Nobody kills the remote's own processes: they are of another machine.
    """
    lab, root = bench.lab, bench.root / "template"
    lab.git(root, "clone", "-q", "--bare", "repo", "hub.git")
    lab.git(root, "clone", "-q", "hub.git", "colleague")
    lab.mem(root / "colleague", "remember", THEIRS)
    lab.git(root / "colleague", "push", "-q", "origin", REF)
    shutil.rmtree(root / "colleague")
    for key, value in {
        "url": "../hub.git",
        "fetch": "+refs/heads/*:refs/remotes/origin/*",
        "uploadpack": "setsid -w git-upload-pack",
        "receivepack": "setsid -w git-receive-pack",
    }.items():
        lab.git(bench.template, "config", f"remote.origin.{key}", value)
    return bench


# The disk is full, broken or read-only


def refused_or_stored(bench: Bench, run: Run, *, disk_works_again: bool = True) -> None:
    """A write on a bad disk is done, or refused in words; the words are true."""
    assert run.status in (0, 1) and "Traceback" not in run.error and "bug:" not in run.error, (
        run.error
    )
    assert run.status == 0 or "error: " in run.error, run.error
    there = sound(bench.lab, run, [*OLD, SECRET], [NEW], acknowledged=run.status == 0, quiet=False)
    assert not (there and "nothing was written" in run.error), run.error
