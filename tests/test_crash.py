"""git mem dies, its disk fills up, its power fails, at every call that changes a file: nothing acknowledged is lost, nothing half-written is seen.

`GIT_MEM_FAULTS=all` fails at every call, else at a fixed choice of them (GIT_MEM_FAULTS_SEED chooses another). docs/reliability.md says what is promised.
"""

from __future__ import annotations

import json
import os
import pathlib

import pytest
from conftest import Lab
from faults.harness import MEM, Bench, Run, Unavailable, build

from gitmem import check, record
from gitmem.store import open_store

REF = "refs/notes/mem/team"
OLD = ["the first invoice is stored in cents", "the second invoice is stored in euros"]
SECRET = "the third invoice is private"
NEW = "the fourth invoice arrives now"


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    try:
        return build(tmp_path_factory.mktemp("shim"))
    except Unavailable as e:
        pytest.skip(f"no faults can be injected here: {e}")


@pytest.fixture
def empty(lab: Lab, library: pathlib.Path) -> Bench:
    """A repository without any memory."""
    return Bench(lab, library)


@pytest.fixture
def bench(empty: Bench) -> Bench:
    """Two memories of the team and a private one, all of them acknowledged; the cache knows two of them."""
    lab, repo = empty.lab, empty.template
    for text in (OLD[0], OLD[1]):
        lab.mem(repo, "remember", text)
    lab.mem(repo, "list")
    lab.mem(repo, "remember", "--private", SECRET)
    return empty


def bodies(lab: Lab, repo: pathlib.Path, ref: str = "mem/team") -> dict[str, list[str]]:
    """{operation: bodies}, read with stock git; every line must be a whole record."""
    out: dict[str, list[str]] = {}
    for line in lab.lines(repo, ref):
        parsed = record.parse(line.encode())
        assert parsed is not None, f"half a record: {line[:80]}"
        out.setdefault(parsed.op, []).append(str(parsed.data.get("body", parsed.id)))
    return out


def age_locks(repo: pathlib.Path) -> None:
    """A minute passes: a writer waits two seconds before it judges a lock."""
    for path in (repo / ".git" / "refs").rglob("*.lock"):
        past = path.stat().st_mtime - 60
        os.utime(path, (past, past))
    for path in (repo / ".git" / "mem").glob("writing-*"):
        rows = [row.split(" ") for row in path.read_text().splitlines()]
        path.write_text("".join(" ".join([str(int(at) - 60), *rest]) + "\n" for at, *rest in rows))


def sound(lab: Lab, run: Run, kept: list[str], new: list[str], *, acknowledged: bool, quiet: bool = True, strict: bool = False) -> set[str]:
    """What must hold after any fault; returns which of the `new` texts are there.

    The repository is valid, every text in `kept` is there, of `new` whole texts or none, all of them if the answer was given; the next write and the next
    question succeed at once; the cache is right.
    """
    fsck = lab.run(run.repo, "git", "fsck", "--no-dangling", *(["--strict"] if strict else ["--connectivity-only"]))
    assert fsck.returncode == 0 and "error" not in fsck.stderr, fsck.stderr + fsck.stdout
    age_locks(run.repo)
    after = lab.run(run.repo, *MEM, "remember", "the last invoice is written afterwards")
    assert after.returncode == 0, after.stderr
    assert not quiet or after.stderr == "", after.stderr
    found = {*bodies(lab, run.repo).get("create", ()), *bodies(lab, run.repo).get("edit", ()), *bodies(lab, run.repo, "mem/private").get("create", ())}
    assert set(kept) <= found, "acknowledged and lost"
    assert found - {*kept, *new} == {"the last invoice is written afterwards"}, "something nobody wrote"
    assert not acknowledged or set(new) <= found, "the answer was given and the memory is lost"
    answer = lab.run(run.repo, *MEM, "recall", "which invoice", "-n", "200", "--json")
    assert answer.returncode == 0, answer.stderr
    assert not quiet or answer.stderr == "", answer.stderr
    said = json.loads(answer.stdout)
    assert not said["degraded"] and "the last invoice is written afterwards" in {h["body"] for h in said["hits"]}
    store = open_store({}, str(run.repo))
    try:
        wrong, fresh = store.with_cache(lambda cache: check.check_all(cache, store.table))
        assert (wrong, fresh) == ("", True)
    finally:
        store.close()
    return found & set(new)


# Killed at every call


def test_a_remember_killed_at_any_call(bench: Bench) -> None:
    def check_one(run: Run, at: int) -> None:
        sound(bench.lab, run, [*OLD, SECRET], [NEW], acknowledged="remembered" in run.answer)

    bench.each([*MEM, "remember", NEW], check_one, share=36)
