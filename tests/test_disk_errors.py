"""The disk is full, broken or read-only: a write is done, or refused in words that are true."""

from __future__ import annotations

import json
import os
import pathlib
import random
import resource
import subprocess
from collections.abc import Iterator

import pytest
from conftest import Lab
from crash_world import AFTER, NEW, OLD, SECRET, refused_or_stored, sound
from faults.harness import MEM, SEED, Bench, Run

pytest_plugins = ["crash_world"]


@pytest.mark.parametrize(
    ("mode", "once", "share"),
    [("enospc", False, 4), ("eio", False, 4), ("eio", True, 4), ("short", True, 4)],
    ids=["full", "broken", "broken once", "short write"],
)
def test_a_remember_whose_disk_fails_at_any_call(
    bench: Bench, mode: str, once: bool, share: int
) -> None:
    bench.each(
        [*MEM, "remember", NEW],
        lambda run, at: refused_or_stored(bench, run),
        share=share,
        mode=mode,
        once=once,
    )


def test_on_a_full_disk_nothing_is_written_and_recall_answers(bench: Bench) -> None:
    run = bench.run([*MEM, "remember", NEW], at=1, mode="enospc")
    assert (
        run.status == 1
        and "error: cannot write 'refs/notes/mem/team'" in run.error
        and "No space left" in run.error
    ), run.error
    asked = bench.run(
        [*MEM, "recall", "which invoice is stored in cents", "--json"],
        at=1,
        mode="enospc",
        root=run.root,
    )
    assert asked.status == 0 and json.loads(asked.answer)["hits"][0]["body"] == OLD[0]
    assert (
        asked.error.count("\n") <= 1
        and "warning: the memory cache cannot be written" in asked.error
    )
    assert sound(bench.lab, run, [*OLD, SECRET], [NEW]) == set()


def mounted(where: pathlib.Path, *options: str) -> None:
    done = subprocess.run(
        ["mount", *options, str(where)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no file system may be mounted here: {done.stderr.strip()}")


@pytest.fixture
def small_disk(lab: Lab) -> Iterator[pathlib.Path]:
    """A file system of 2 MiB."""
    where = lab.root / "disk"
    where.mkdir()
    if os.getuid() != 0:
        pytest.skip("only root may mount a small disk")
    mounted(where, "-t", "tmpfs", "-o", "size=2m", "tmpfs")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


def test_a_disk_that_really_fills_up(lab: Lab, small_disk: pathlib.Path) -> None:
    """Memories of growing size until nothing more goes in; then space comes back."""
    lab.git(lab.root, "init", "-q", "--template=", "-b", "main", str(small_disk / "repo"))
    repo = small_disk / "repo"
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "c")
    rng = random.Random(SEED)
    ballast = small_disk / "ballast"
    stored: list[str] = []
    refusals = 0
    for i in range(40):
        if i == 3:
            ballast.write_bytes(bytes(1_000_000))
        text = f"invoice {i} " + rng.randbytes(1000 * i).hex()
        done = lab.run(repo, *MEM, "remember", "--stdin", "--allow-secret", stdin=text)
        assert (
            done.returncode in (0, 1)
            and "Traceback" not in done.stderr
            and "bug:" not in done.stderr
        ), done.stderr
        if done.returncode == 0:
            stored.append(text)
        else:
            refusals += 1
            assert "space" in done.stderr and "nothing was written" in done.stderr, done.stderr
            asked = lab.run(repo, *MEM, "recall", "invoice 1", "--json")
            assert asked.returncode == 0 and json.loads(asked.stdout)["hits"], asked.stderr
            if refusals == 3:
                break
    assert stored and refusals == 3
    ballast.unlink()
    lab.mem(repo, "remember", AFTER)
    assert {m["body"] for m in lab.json(repo, "list")} == {*stored, AFTER}
    lab.git(repo, "fsck", "--strict")


def test_a_limit_on_the_size_of_files(bench: Bench) -> None:
    """As a quota does: the process that writes past it is ended by a signal, or gets an error."""
    text = "x y " + random.Random(SEED).randbytes(20_000).hex()
    run = bench.copy()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    done = subprocess.run(
        [*MEM, "remember", "--stdin", "--allow-secret"],
        cwd=run / "repo",
        env=bench.lab.env,
        input=text,
        text=True,
        capture_output=True,
        preexec_fn=limit,
        check=False,
    )
    assert done.returncode == 1 and "error: cannot write 'refs/notes/mem/team'" in done.stderr, (
        done.stderr
    )
    left = Run(run, 1, "", done.stderr, 0, 0, [])
    assert sound(bench.lab, left, [*OLD, SECRET], [text], quiet=False) == set()


@pytest.mark.process
@pytest.mark.parametrize("most", [6, 10, 15])
def test_a_limit_on_open_files_is_named(lab: Lab, most: int) -> None:
    done = lab.run(
        lab.repo(), "sh", "-c", f'ulimit -n {most}; exec "$@"', "-", *MEM, "remember", NEW
    )
    assert done.returncode == 1 and "error: cannot go on: Too many open files" in done.stderr
    assert "ulimit -n" in done.stderr and "bug" not in done.stderr


def test_a_read_only_repository_is_read_and_refuses_to_be_written(bench: Bench) -> None:
    repo = bench.copy() / "repo"
    if os.getuid() == 0:
        mounted(repo, "--bind", str(repo))
        mounted(repo, "-o", "remount,ro,bind")
    else:
        subprocess.run(["chmod", "-R", "a-w", str(repo)], check=True)
    try:
        done = bench.lab.run(repo, *MEM, "remember", NEW)
        assert (
            done.returncode == 1
            and "error: cannot write 'refs/notes/mem/team'" in done.stderr
            and "Traceback" not in done.stderr
        ), done.stderr
        asked = bench.lab.run(repo, *MEM, "recall", "which invoice is stored in cents", "--json")
        assert asked.returncode == 0 and json.loads(asked.stdout)["hits"][0]["body"] == OLD[0], (
            asked.stderr
        )
    finally:
        if os.getuid() == 0:
            subprocess.run(["umount", "-l", str(repo)], check=True)
        else:
            subprocess.run(["chmod", "-R", "u+w", str(repo)], check=True)
    assert (
        sound(bench.lab, Run(repo.parent, 1, "", "", 0, 0, []), [*OLD, SECRET], [NEW], quiet=False)
        == set()
    )
