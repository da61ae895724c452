"""Capture where something fails: nothing is lost, and nothing is tried for ever."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time
from typing import Any

import pytest
from capture_world import TRAILER, WIPED, listed
from conftest import Lab
from test_capture_again import mem

from gitmem import cli, worker
from gitmem.agents import protocol
from gitmem.capture import (
    pipeline,
    sources,
    worker_tasks,
)
from gitmem.capture.candidates import Candidate
from gitmem.cli import capture
from gitmem.core.errors import MemError
from gitmem.git import reflock
from gitmem.hooks import spool, worker_log
from gitmem.models import llamaproc
from gitmem.store import Store


@pytest.fixture
def locked(repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The lock of the private notes, held by another program; this process waits for it shortly."""
    lock = repo / ".git" / "refs" / "notes" / "mem" / "private.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text("of another program")
    monkeypatch.setattr(reflock, "STALE", 0.2)
    monkeypatch.setenv("GIT_MEM_ENCODER", "false")
    monkeypatch.chdir(repo)
    return lock


def test_what_cannot_be_stored_now_is_stored_later_and_now_says_so(
    lab: Lab, repo: pathlib.Path, locked: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spool.append(mem(repo), sources.heard("user", WIPED, "s1", "claude", ""))
    assert cli.run(["capture", "--now", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["failed"] and "staging" not in out + err
    assert (
        listed(lab, repo) == []
        and WIPED.encode() in (pathlib.Path(mem(repo)) / "spool.later").read_bytes()
    )
    locked.unlink()
    assert len(lab.json(repo, "capture", "--now")["kept"]) == 1
    assert [m["body"] for m in listed(lab, repo)] == [WIPED] and list(
        pathlib.Path(mem(repo)).glob("spool*")
    ) == []


def test_an_event_that_always_fails_is_given_up(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []
    monkeypatch.setitem(
        worker.HANDLERS, sources.EVENT, lambda store, events: tries.append(len(events)) or 1 // 0
    )
    spool.append(mem(repo), sources.heard("user", WIPED, "s1", "claude", ""))
    for _ in range(spool.TRIES + 3):
        worker.run(str(repo / ".git"), os.environ, linger=0.0)
    assert tries == [1] * spool.TRIES and list(pathlib.Path(mem(repo)).glob("spool*")) == []
    log = worker_log.lines(mem(repo))
    assert any("1 events given up" in line for line in log) and not any(
        "staging" in line for line in log
    )


def test_an_event_that_failed_a_day_ago_is_given_up(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(worker.HANDLERS, sources.EVENT, lambda store, events: 1 // 0)
    old = json.loads(sources.heard("user", WIPED, "s1", "claude", "")) | {
        "tried": 1,
        "since": int(time.time()) - spool.OLDEST - 1,
    }
    spool.append(mem(repo), json.dumps(old).encode())
    worker.run(str(repo / ".git"), os.environ, linger=0.0)
    assert list(pathlib.Path(mem(repo)).glob("spool*")) == []


def test_one_kind_of_event_that_fails_holds_no_other(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(worker.HANDLERS, "post-rewrite", lambda store, events: 1 // 0)
    spool.append(mem(repo), b'{"event":"post-rewrite","old":"x","new":"y"}')
    spool.append(mem(repo), sources.heard("user", WIPED, "s1", "claude", ""))
    worker.run(str(repo / ".git"), os.environ, linger=0.0)
    assert [m["body"] for m in listed(lab, repo)] == [WIPED] and [
        p.name for p in pathlib.Path(mem(repo)).glob("spool*")
    ] == ["spool.later"]


def test_half_a_surrogate_pair_in_a_line_of_an_older_version_harms_nobody(
    lab: Lab, repo: pathlib.Path
) -> None:
    said = {
        "s1": "Remember this: the export runs at six.",
        "s\ud800x": "Remember this: the cache is never warm.",
        "s3": "Remember this: the mirror is read-only.",
    }
    for session, text in said.items():
        spool.append(
            mem(repo),
            json.dumps(
                json.loads(sources.heard("user", text, "", "claude", "")) | {"session": session}
            ).encode(),
        )
    worker.run(str(repo / ".git"), os.environ, linger=0.0)
    assert (
        set(said.values()) == {m["body"] for m in listed(lab, repo)}
        and worker_log.lines(mem(repo)) == []
    )


def test_events_that_fail_together_are_tried_one_by_one(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[list[int]] = []

    def handle(store: Store, events: list[dict[str, Any]]) -> None:
        tries.append([e["n"] for e in events])
        if 2 in tries[-1]:
            raise RuntimeError

    monkeypatch.setitem(worker.HANDLERS, "test", handle)
    for n in (1, 2, 3):
        spool.append(mem(repo), b'{"event":"test","n":%d}' % n)
    worker.run(str(repo / ".git"), os.environ, linger=0.0)
    assert tries == [[1, 2, 3], [1], [2], [3]]
    assert [
        json.loads(line)["n"]
        for line in (pathlib.Path(mem(repo)) / "spool.later").read_bytes().split(b"\n")
        if line
    ] == [2]
    assert len(worker_log.lines(mem(repo))) == 1  # each reason once


def test_where_events_fail_slowly_not_each_is_waited_for(
    repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []
    monkeypatch.setitem(
        worker.HANDLERS, "test", lambda store, events: tries.append(len(events)) or 1 // 0
    )
    monkeypatch.setattr(worker, "_ALONE", 0.0)
    for n in range(5):
        spool.append(mem(repo), b'{"event":"test","n":%d}' % n)
    worker.run(str(repo / ".git"), os.environ, linger=0.0)
    assert (
        tries == [5] and (pathlib.Path(mem(repo)) / "spool.later").read_bytes().count(b'"n"') == 5
    )


def test_a_text_that_cannot_be_kept_takes_no_other_along_and_answers_keep_their_files(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[tuple[str, list[str]]] = []

    def keep(store: Store, candidates: list[Candidate], **options: Any) -> list[pipeline.Outcome]:
        if any(c.text == "broken" for c in candidates):
            raise RuntimeError
        kept.extend((c.text, c.paths) for c in candidates)
        return [pipeline.Outcome(pipeline.SKIPPED) for _ in candidates]

    monkeypatch.setattr(pipeline, "keep", keep)
    lines = [
        sources.heard("user", "broken", "s", "claude", ""),
        sources.done("", ["a.py"], "s", "claude", ""),
        sources.heard("assistant", "It was the lock.", "s", "claude", ""),
    ]
    with pytest.raises(RuntimeError):
        worker_tasks.from_events(store, [json.loads(line) for line in lines])
    assert kept == [("It was the lock.", ["a.py"])]


def test_a_worker_that_was_killed_twice_at_an_event_says_so(lab: Lab, repo: pathlib.Path) -> None:
    heard = sources.heard("user", WIPED, "s1", "claude", "")
    (pathlib.Path(mem(repo)) / "spool.again").write_bytes(b"\0" + heard[1:] + b"\n" + heard + b"\n")
    worker.run(str(repo / ".git"), os.environ, linger=0.0)
    assert [m["body"] for m in listed(lab, repo)] == [WIPED]
    assert any(
        "1 events given up: a worker was killed twice" in line
        for line in worker_log.lines(mem(repo))
    )


@pytest.mark.usefixtures("locked")
def test_now_says_each_time_that_something_fails(repo: pathlib.Path) -> None:
    """Also twice in one second, with a log that is full, and where not even the log can be
    written."""
    line = "2026-01-02T03:04:05Z heard: RuntimeError in keeper.py:1"
    assert (
        capture._added([], [line]) == [line]
        and capture._added([line], [line, line]) == [line]
        and capture._added([line, line], [line, line]) == []
    )
    assert capture._added(["old", "older"], [line]) == [line]
    log = pathlib.Path(mem(repo)) / worker_log.LOG
    log.mkdir()
    spool.append(mem(repo), sources.heard("user", WIPED, "s1", "claude", ""))
    with pytest.raises(MemError, match="not all could be worked off"):
        cli.run(["capture", "--now"])


@pytest.mark.parametrize("half", ["\ud800", "\udfff"])
def test_half_a_surrogate_pair_stays_outside(lab: Lab, repo: pathlib.Path, half: str) -> None:
    odd = f"s{half}x"
    for line in (
        sources.heard("user", f"{WIPED} {odd}", odd, "claude", "", odd),
        sources.done("", [odd], odd, "claude", "", odd),
        sources.ended("", odd, "claude", "", odd),
    ):
        assert [
            v.encode()
            for e in [json.loads(line)]
            for v in (e["session"], e["branch"], *e.get("paths", ()))
        ]
    assert (
        protocol.session({"session_id": odd})
        == "s\ufffdx"
        == protocol.session({"session_id": "s\ufffdx"})
    )
    assert sources.source_of(odd, "user", odd) == sources.source_of("s\ufffdx", "user", "s\ufffdx")
    assert protocol.session({"session_id": "s\ud83d\ude00"}) == "s\U0001f600"
    event = {"session_id": odd, "cwd": str(repo), "prompt": f"{WIPED} {odd}"}
    lab.run(repo, "git-mem", "hook", "UserPromptSubmit", stdin=json.dumps(event))
    assert len(lab.json(repo, "capture", "--now")["kept"]) == 1


def hanging(seconds: float) -> list[str]:
    return [sys.executable, "-c", f"import time; time.sleep({seconds})"]


def test_a_model_that_hangs_costs_one_run_its_share_and_no_event(
    lab: Lab, repo: pathlib.Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it loads, at every question, in all of events, conversations and commits: together not
    more than SECONDS.
    """
    started: list[llamaproc.Asker] = []

    class Hangs(worker_tasks.Model):
        def __init__(self, store: Store, environ: object, until: float = float("inf")) -> None:
            super().__init__(store, os.environ, until)
            self._asker = llamaproc.Asker("", until=until, argv=hanging(60))
            started.append(self._asker)

    monkeypatch.setattr(worker_tasks, "Model", Hangs)
    monkeypatch.setattr(worker_tasks, "SECONDS", 1.0)
    sure = [
        f"we decided to use {tool} for the index because its wheel is smaller than that of the"
        " others"
        for tool in ("SQLite", "DuckDB", "Redis")
    ]
    for text in (WIPED, *sure):
        spool.append(mem(repo), sources.heard("user", text, "s1", "claude", ""))
    log = repo.parent / "s2.jsonl"
    log.write_text(
        json.dumps(
            {
                "type": "user",
                "message": {"role": "user", "content": "Remember this: the export runs at six."},
            }
        )
        + "\n"
    )
    spool.append(mem(repo), sources.ended(str(log), "s2", "claude", ""))
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", f"Move it\n\n{TRAILER}")
    begun = time.monotonic()
    worker.run(str(repo / ".git"), os.environ, linger=0.0)
    assert len(started) == 1 and started[0].process is None and started[0].failures > 0
    assert time.monotonic() - begun < 45  # one minute a question, were it waited for
    assert {WIPED, "Remember this: the export runs at six."} < {
        m["body"] for m in listed(lab, repo)
    } and not spool.waiting(mem(repo))
