"""git mem dies at calls that change a file: nothing acknowledged is lost, nothing half-written is
seen.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
from crash_world import (
    AFTER,
    BULK,
    NEW,
    OLD,
    SECRET,
    THEIRS,
    pass_time,
    records,
    sound,
)
from faults.harness import MEM, Bench, Run

from gitmem.core import record

pytest_plugins = ["crash_world"]


def test_a_remember_killed_at_any_call(bench: Bench) -> None:
    seen: set[bool] = set()

    def one(run: Run, at: int) -> None:
        there = sound(
            bench.lab, run, [*OLD, SECRET], [NEW], acknowledged="remembered" in run.answer
        )
        seen.add(bool(there))
        if at % 3:
            return
        # And by the executable itself, which also says nothing.
        done = bench.lab.run(run.repo, *MEM, "recall", AFTER, "--json")
        assert (
            done.returncode == 0
            and done.stderr == ""
            and json.loads(done.stdout)["hits"][0]["body"] == AFTER
        )

    bench.each([*MEM, "remember", NEW], one, share=8)
    assert seen == {False, True}  # some runs died before the ref moved and some after


def test_the_first_remember_killed_at_any_call(empty: Bench) -> None:
    empty.each(
        [*MEM, "remember", NEW],
        lambda run, at: (
            sound(empty.lab, run, [], [NEW], acknowledged="remembered" in run.answer) and None
        ),
        share=5,
    )


@pytest.mark.parametrize("command", ["edit", "forget", "supersede", "share"])
def test_a_change_killed_at_any_call(bench: Bench, command: str) -> None:
    lab = bench.lab
    first = next(
        m["id"]
        for m in lab.json(bench.template, "list")
        if m["body"] == (SECRET if command == "share" else OLD[0])
    )
    argv = {"edit": ["edit", first, "-m", NEW], "supersede": ["supersede", first, NEW]}.get(
        command, [command, first]
    )

    def one(run: Run, at: int) -> None:
        there = sound(
            lab,
            run,
            [*OLD, SECRET],
            [NEW] if command in ("edit", "supersede") else [],
            acknowledged=bool(run.answer),
        )
        shown = {m["body"] for m in lab.json(run.repo, "list")}
        assert shown >= {OLD[1], SECRET, AFTER}
        if command == "forget":
            assert not run.answer or OLD[0] not in shown
        elif command == "share":
            assert not run.answer or sum(r.op == "share" for r in records(lab, run.repo)) == 1
        else:
            assert (OLD[0] in shown) == (NEW not in there)

    bench.each([*MEM, *argv], one, share=4)


@pytest.mark.parametrize("limit", [2, 100], ids=["pack", "loose"])
def test_a_bulk_import_killed_at_any_call(bench: Bench, limit: int) -> None:
    """Blocks of six lines: each is there whole or not at all, in order; what the answer names is
    there. As a pack that stays, and as loose objects.
    """
    lab = bench.lab
    lab.git(bench.template, "config", "fastimport.unpackLimit", str(limit))
    texts = [f"invoice number {i} of the import " + "x" * 200 for i in range(18)]
    lines = "".join(json.dumps({"body": t}) + "\n" for t in texts)
    seen: set[int] = set()

    def one(run: Run, at: int) -> None:
        there = sound(lab, run, [*OLD, SECRET], texts)
        seen.add(len(there))
        assert there == set(texts[: len(there)]) and len(there) % 6 == 0
        ids = {json.loads(row)["id"] for row in run.answer.splitlines() if row.endswith("}")}
        assert ids <= {r.id for r in records(lab, run.repo)}

    bench.each(
        [sys.executable, "-c", BULK, "remember", "--jsonl", "-", "--json"],
        one,
        share=4,
        stdin=lines,
    )
    assert seen & {6, 12}, "no block was there without the next"


def test_an_index_killed_at_any_call(bench: Bench) -> None:
    shutil.rmtree(bench.template / ".git" / "mem")
    bench.each(
        [*MEM, "index"], lambda run, at: sound(bench.lab, run, [*OLD, SECRET], []) and None, share=4
    )


def test_one_process_of_a_remember_killed_at_any_call(bench: Bench) -> None:
    """The kernel ends a single process when memory is short: git dies and we say so, or we die and
    git goes on.
    """

    def one(run: Run, at: int) -> None:
        assert (
            run.status in (0, 1, -signal.SIGKILL)
            and "Traceback" not in run.error
            and "bug:" not in run.error
        )
        there = sound(
            bench.lab, run, [*OLD, SECRET], [NEW], acknowledged=run.status == 0, quiet=False
        )
        assert not (there and "nothing was written" in run.error)

    bench.each([*MEM, "remember", NEW], one, share=4, env={"FAULT_ALONE": "1"})


@pytest.mark.parametrize("before", [False, True], ids=["first", "again"])
def test_a_sync_killed_at_any_call(shared: Bench, before: bool) -> None:
    """Here and at the remote all is whole; the next sync brings both together."""
    lab = shared.lab
    if before:  # the tracking copy is there, and both sides went on
        lab.mem(shared.template, "sync")
        lab.mem(shared.template, "remember", NEW)

    def one(run: Run, at: int) -> None:
        hub = run.root / "hub.git"
        lab.git(hub, "fsck", "--strict", "--no-dangling")
        sound(
            lab,
            run,
            [*OLD, SECRET, *([NEW, THEIRS] if before else [])],
            [] if before else [THEIRS],
            quiet=False,
        )
        done = lab.run(run.repo, *MEM, "sync")
        assert done.returncode == 0, done.stderr
        there = {
            str(r.data["body"]) for line in lab.lines(hub) if (r := record.parse(line.encode()))
        }
        assert there == {*OLD, THEIRS, AFTER, *([NEW] if before else [])}
        assert there <= {m["body"] for m in lab.json(run.repo, "list")}

    shared.each([*MEM, "sync"], one, share=4)


def test_a_purge_killed_at_any_call(bench: Bench) -> None:
    """Said to be done, it is: no object here has the text.

    Cut off, it is finished by the same call, or by the next sync; nothing else is lost.
    """
    lab = bench.lab
    id = next(m["id"] for m in lab.json(bench.template, "list") if m["body"] == OLD[0])

    def here(repo: pathlib.Path) -> bool:
        out = subprocess.run(
            ["sh", "-c", "git cat-file --batch-all-objects --batch"],
            cwd=repo,
            env=lab.env,
            capture_output=True,
            check=True,
        ).stdout
        return OLD[0].encode() in out or any(
            OLD[0].encode() in p.read_bytes() for p in (repo / ".git" / "mem").iterdir()
        )

    def one(run: Run, at: int) -> None:
        if run.answer:
            assert not here(run.repo)
        sound(lab, run, [OLD[1], SECRET], [OLD[0]], quiet=False)
        pass_time(run.repo)
        done = lab.run(run.repo, *MEM, "purge", id, "--force")
        assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stderr
        assert done.returncode == 0 or "no memory" in done.stderr, done.stderr
        assert not here(run.repo), done.stdout + done.stderr
        assert {m["body"] for m in lab.json(run.repo, "list")} == {OLD[1], SECRET, AFTER}

    bench.each([*MEM, "purge", id, "--force"], one, share=4)
