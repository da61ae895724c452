"""The worker: one at a time, started for whoever asks, no event lost, nothing kept of whoever
started it.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
from conftest import Lab, until

from gitmem import setup, worker
from gitmem.anchors import anchor_state_update
from gitmem.engine import cache, cache_lock
from gitmem.hooks import spool, worker_log
from gitmem.store import Store, open_store


def store_of(repo: pathlib.Path) -> str:
    return str(repo / ".git")


def test_a_worker_takes_new_memories_into_the_cache(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "the first")
    lab.mem(repo, "recall", "first")
    lab.mem(repo, "remember", "the second")
    worker.run(store_of(repo), lab.env, linger=0)
    opened = cache.open_cache(str(repo / ".git/mem"))
    assert opened is not None and opened.count() == 2
    opened.close()


def test_a_second_worker_goes_away_at_once(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "something")
    mem = str(repo / ".git/mem")
    spool.append(mem, b'{"event":"post-commit"}')
    with cache_lock.locked(spool.lock(mem), 0.0) as held:
        assert held
        worker.run(store_of(repo), lab.env, linger=0)
        assert spool.waiting(mem)
    worker.run(store_of(repo), lab.env, linger=0)
    assert not spool.waiting(mem)


def test_an_event_that_comes_while_the_worker_gives_up_its_lock_is_not_lost(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    mem = str(repo / ".git/mem")
    os.mkdir(mem)
    real, seen = spool.claim, []

    def claim(where: str, pid: int) -> None:
        real(where, pid)
        if not pid:  # the worker has just said that it is none any more, and still has the lock
            seen.append(spool.asleep(where))
            if len(seen) == 1:
                spool.append(where, b'{"event":"post-commit"}')
                worker.run(store_of(repo), lab.env, linger=0)  # whom it wakes finds the lock taken

    monkeypatch.setattr(spool, "claim", claim)
    worker.run(store_of(repo), lab.env, linger=0)
    assert seen == [True, True] and not spool.waiting(mem)


def test_one_worker_serves_what_follows_at_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = lab.repo()
    mem = str(repo / ".git/mem")
    os.mkdir(mem)
    handled: list[int] = []
    monkeypatch.setitem(
        worker.HANDLERS, "test", lambda store, events: handled.extend(e["n"] for e in events)
    )
    spool.append(mem, b'{"event":"test","n":1}')
    threading.Timer(0.3, lambda: spool.append(mem, b'{"event":"test","n":2}')).start()
    worker.run(store_of(repo), lab.env, linger=2)
    assert handled == [1, 2]


def test_a_setting_counts_for_the_events_that_come_after_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Capture is turned on, or git mem off, while a worker of before is still at it."""
    repo = lab.repo()
    mem = str(repo / ".git/mem")
    os.mkdir(mem)
    handled: list[object] = []

    def said(store: Store, events: list[dict[str, object]]) -> None:
        handled.append(store.settings["capture"])
        if len(handled) < 3:
            lab.git(
                repo,
                "config",
                *(("mem.capture", "all") if len(handled) == 1 else ("mem.enabled", "false")),
            )
            spool.append(mem, b'{"event":"test"}')

    monkeypatch.setitem(worker.HANDLERS, "test", said)
    spool.append(mem, b'{"event":"test"}')
    worker.run(store_of(repo), lab.env, linger=0)
    assert handled == ["false", "all"] and not spool.waiting(mem)


def test_lines_that_are_no_event_are_skipped(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = lab.repo()
    mem = str(repo / ".git/mem")
    os.mkdir(mem)
    handled: list[object] = []
    monkeypatch.setitem(worker.HANDLERS, "test", lambda store, events: handled.extend(events))
    for line in (
        b'{"event":"te',
        b"\xff\xfe",
        b"[" * 100_000,
        b"[1]",
        b"null",
        b'{"event":["test"]}',
        b'{"event":"of a newer git mem"}',
        b'{"event":"test"}',
    ):
        spool.append(mem, line)
    worker.run(store_of(repo), lab.env, linger=0)
    assert handled == [{"event": "test"}] and not spool.waiting(mem) and worker_log.lines(mem) == []


def test_a_handler_that_fails_stops_no_other_and_is_logged_without_its_text(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "something")
    mem = repo / ".git/mem"
    handled = []

    def fail(store: object, events: list[dict[str, object]]) -> None:
        raise RuntimeError(f"the prompt was {events[0]['text']}")

    monkeypatch.setitem(worker.HANDLERS, "bad", fail)
    monkeypatch.setitem(worker.HANDLERS, "good", lambda store, events: handled.append(len(events)))
    spool.append(str(mem), b'{"event":"bad","text":"Zanzibarium"}')
    spool.append(str(mem), b'{"event":"good"}')
    worker.run(store_of(repo), lab.env, linger=0)
    assert handled == [1]
    (line,) = worker_log.lines(str(mem))
    assert "bad: RuntimeError" in line and "Zanzibarium" not in "".join(
        p.read_text(errors="replace") for p in mem.iterdir() if p.name != "spool.later"
    )
    assert any(line in f["text"] for f in lab.json(repo, "doctor") if f["level"] == "warn")


def test_the_log_does_not_grow_for_ever(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = lab.repo()
    mem = repo / ".git/mem"
    mem.mkdir()
    monkeypatch.setitem(worker.HANDLERS, "bad", lambda store, events: 1 // 0)
    (mem / worker_log.LOG).write_text("x" * 70_000)
    spool.append(str(mem), b'{"event":"bad"}')
    worker.run(store_of(repo), lab.env, linger=0)
    assert len(worker_log.lines(str(mem))) == 1


def test_switched_off_the_worker_empties_the_spool_and_does_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "something")
    lab.git(repo, "config", "mem.enabled", "false")
    handled: list[object] = []
    monkeypatch.setitem(worker.HANDLERS, "test", lambda store, events: handled.extend(events))
    spool.append(str(repo / ".git/mem"), b'{"event":"test"}')
    worker.run(store_of(repo), lab.env, linger=0)
    assert handled == [] and not spool.waiting(str(repo / ".git/mem"))


def test_a_cache_that_decayed_unseen_is_found_and_made_anew_once_a_day(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "the cache holds this")
    lab.mem(repo, "recall", "cache")
    mem = repo / ".git/mem"
    opened = cache.open_cache(str(mem))
    assert opened is not None
    with opened.writing(1.0):
        opened.db.execute("UPDATE term SET df = 99")
    opened.close()
    (mem / "checked").write_text("")
    worker.run(store_of(repo), lab.env, linger=0)
    assert worker_log.lines(str(mem)) == []  # checked a moment ago
    os.utime(mem / "checked", (1, 1))
    worker.run(store_of(repo), lab.env, linger=0)
    assert any("the cache was damaged" in line for line in worker_log.lines(str(mem)))
    assert not any(f["level"] == "bad" for f in lab.json(repo, "doctor"))


def test_rewritten_commits_hand_their_memories_on_without_rewriteref(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "about the commit that is amended")
    ids = [lab.git(repo, "rev-parse", "HEAD").strip()]
    for text in ("once", "twice"):
        lab.git(repo, "commit", "-q", "--amend", "-m", text)
        ids.append(lab.git(repo, "rev-parse", "HEAD").strip())
    mem = str(repo / ".git/mem")
    for old, new in itertools.pairwise(ids):
        spool.append(mem, json.dumps({"event": "post-rewrite", "old": old, "new": new}).encode())
    for _ in range(2):  # a repeat adds nothing
        worker.run(store_of(repo), lab.env, linger=0)
        spool.append(
            mem, json.dumps({"event": "post-rewrite", "old": ids[0], "new": ids[2]}).encode()
        )
    assert worker_log.lines(mem) == []
    assert [json.loads(line)["op"] for line in lab.lines(repo)].count("move") == 1
    (hit,) = lab.json(repo, "recall", "the commit that is amended")["hits"]
    assert (hit["anchor"]["state"], hit["anchor"]["commit"]) == ("reachable", ids[2])


def test_a_broken_pair_of_a_rewrite_does_no_harm(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "about a commit")
    mem = str(repo / ".git/mem")
    for event in (
        {"old": 1, "new": 2},
        {"old": "x" * 40},
        {"old": "a" * 40, "new": "a" * 40},
        {"old": "a" * 40, "new": "b" * 40},
        {"old": "b" * 40, "new": "a" * 40},
    ):
        spool.append(mem, json.dumps({"event": "post-rewrite", **event}).encode())
    worker.run(store_of(repo), lab.env, linger=0)
    assert worker_log.lines(mem) == [] and len(lab.lines(repo)) == 1


def test_pushing_shares_memories_only_where_autosync_says_so(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(lab.root, "init", "-q", "--bare", "hub.git")
    lab.git(repo, "remote", "add", "origin", str(lab.root / "hub.git"))
    lab.mem(repo, "remember", "the team knows this")
    mem = str(repo / ".git/mem")
    refs = []
    for value in ("false", "true"):
        lab.git(repo, "config", "mem.autoSync", value)
        spool.append(mem, b'{"event":"pre-push","remote":"origin"}')
        worker.run(store_of(repo), lab.env, linger=0)
        refs.append(lab.git(repo, "ls-remote", "origin"))
    assert refs[0] == "" and "refs/notes/mem/team" in refs[1]
    assert worker_log.lines(mem) == []


# --- waking it --------------------------------------------------------------


def test_a_worker_is_started_once_however_often_it_is_asked_for(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "something")
    store = open_store(lab.env, str(repo))
    try:
        path = cache.path_of(store.repo.mem_dir)
        with cache_lock.locked(path, 5.0) as held:  # nobody can write the cache: the worker waits
            assert held
            lab.mem(repo, "remember", "something new for it")
            spool.ask(store.repo.common_dir)
            number = (repo / ".git/mem/worker.pid").read_text()
            for _ in range(5):
                spool.ask(store.repo.common_dir)
            assert (repo / ".git/mem/worker.pid").read_text() == number
            assert not spool.wake(store_of(repo))
    finally:
        store.close()
    until(lambda: spool.asleep(store.repo.mem_dir) and not spool.waiting(store.repo.mem_dir))


def test_a_worker_works_although_the_directory_it_was_started_in_is_gone(lab: Lab) -> None:
    """A hook in a worktree starts it, and a script removes the worktree right behind its commit."""
    repo = lab.repo()
    (repo / ".git/mem").mkdir()
    spool.append(str(repo / ".git/mem"), b'{"event":"post-commit"}')
    gone = repo.parent / "gone"
    gone.mkdir()
    call = f'rmdir "{gone}"; exec "{sys.executable}" -EP -m gitmem worker "{store_of(repo)}"'
    started = subprocess.Popen(["sh", "-c", call], cwd=gone, env=lab.env)
    until(lambda: not spool.waiting(str(repo / ".git/mem")))
    started.kill()  # it stays for what else may come
    started.wait()


@pytest.mark.parametrize("number", ["", "nonsense", "999999999", "99999999999999999999"])
def test_a_worker_that_died_is_replaced(lab: Lab, number: str) -> None:
    repo = lab.repo()
    mem = repo / ".git/mem"
    mem.mkdir()
    (mem / "worker.pid").write_text(number)
    assert spool.asleep(str(mem))


def test_a_number_that_became_another_process_is_not_believed_for_ever(lab: Lab) -> None:
    repo = lab.repo()
    mem = repo / ".git/mem"
    mem.mkdir()
    (mem / "worker.pid").write_text(str(os.getpid()))
    assert not spool.asleep(str(mem))
    for when in (1, time.time() + 3600):  # also one of the future: the clock was set back
        os.utime(mem / "worker.pid", (when, when))
        assert spool.asleep(str(mem))


def test_any_command_wakes_the_worker_for_lines_that_wait_too_long(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "something")
    mem = repo / ".git/mem"
    spool.append(str(mem), b'{"event":"post-commit"}')
    lab.mem(repo, "recall", "something")
    assert spool.waiting(str(mem))
    os.utime(mem / "spool", (time.time() - 120, time.time() - 120))
    lab.mem(repo, "recall", "something")
    until(lambda: not spool.waiting(str(mem)) and spool.asleep(str(mem)))


def test_a_worker_keeps_no_descriptor_of_whoever_started_it_and_gives_way(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "something")
    lab.mem(repo, "recall", "something")
    path = cache.path_of(str(repo / ".git/mem"))
    read, write = os.pipe()
    with cache_lock.locked(path, 5.0) as held:  # so that the worker cannot end
        assert held
        lab.mem(repo, "remember", "something new for it")
        process = subprocess.Popen(
            [sys.executable, "-EP", "-m", "gitmem", "worker", store_of(repo)],
            env=lab.env,
            pass_fds=(write,),
        )
        os.close(write)
        assert os.read(read, 1) == b""  # the end of the pipe: nobody has its other end any more
        before = os.getpriority(os.PRIO_PROCESS, 0)
        until(lambda: os.getpriority(os.PRIO_PROCESS, process.pid) == min(19, before + 10))
        group = pathlib.Path(f"/proc/{process.pid}/autogroup")  # not in every kernel
        assert not group.exists() or group.read_text().endswith("nice 19\n")
        assert process.poll() is None
    os.close(read)
    assert process.wait() == 0


def test_the_worker_imports_nothing_from_the_working_tree(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "something")
    for name in ("json.py", "sitecustomize.py", "gitmem.py"):
        (repo / name).write_text(f"open({str(lab.root / 'imported')!r}, 'w')\n")
    spool.append(str(repo / ".git/mem"), b'{"event":"post-commit"}')
    before = os.getcwd()
    os.chdir(repo)
    os.environ["PYTHONPATH"] = "."
    try:
        assert spool.wake(store_of(repo))
    finally:
        os.chdir(before)
        del os.environ["PYTHONPATH"]
    until(lambda: spool.asleep(str(repo / ".git/mem")))
    assert not (lab.root / "imported").exists() and not spool.waiting(str(repo / ".git/mem"))


def test_a_worker_in_a_repository_without_a_cache_directory_creates_nothing(lab: Lab) -> None:
    repo = lab.repo()
    worker.run(store_of(repo), lab.env, linger=0)
    assert not (repo / ".git/mem").exists()


def test_a_worker_in_a_broken_repository_logs_it_and_ends(lab: Lab) -> None:
    repo = lab.repo()
    mem = repo / ".git/mem"
    mem.mkdir()
    spool.append(str(mem), b'{"event":"post-commit"}')
    (repo / ".git/HEAD").write_text("nonsense\n")
    worker.run(store_of(repo), lab.env, linger=0)
    assert any("worker: " in line for line in worker_log.lines(str(mem))) and spool.asleep(str(mem))


def test_uninstall_beside_a_worker_leaves_nothing(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "something")
    mem = repo / ".git/mem"
    spool.append(str(mem), b'{"event":"post-commit"}')
    process = subprocess.Popen(
        [sys.executable, "-EP", "-m", "gitmem", "worker", store_of(repo)], env=lab.env
    )
    until(lambda: (mem / "worker.pid").exists() or process.poll() is not None)
    lab.mem(repo, "uninstall")
    process.wait()
    assert not mem.exists()


def test_uninstall_leaves_the_cache_of_a_busy_worker_and_says_so(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "something")
    mem = repo / ".git/mem"
    monkeypatch.setattr(setup, "PATIENCE", 0.1)
    said: list[str] = []
    with closing(open_store(lab.env, str(repo), said.append)) as store:
        with cache_lock.locked(spool.lock(str(mem)), 1.0) as held:
            assert held and setup.uninstall(store)[-1].startswith("the cache stays")
            assert list(mem.glob("index-*.db"))
            assert said == ["note: waiting for a busy worker, 0.1 seconds at most"]
        assert setup.uninstall(store)[-1] == "removed the cache" and len(said) == 1
    assert not mem.exists()


def test_anchors_are_looked_up_for_the_next_answer(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "something")
    asked = []
    monkeypatch.setattr(
        anchor_state_update, "update", lambda store: asked.append(store.repo.head())
    )
    worker.run(store_of(repo), lab.env, linger=0)
    assert asked == [lab.git(repo, "rev-parse", "HEAD").strip()]
