"""The spool and the worker: no event is lost while somebody asks for a worker, nothing lies about for long, one worker at a time."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest
from conftest import Lab, until

from gitmem import worker
from gitmem.anchors import reanchor
from gitmem.engine import cache, guard
from gitmem.hooks import spool
from gitmem.store import open_store


def drained(mem: pathlib.Path) -> list[bytes]:
    out: list[bytes] = []
    spool.drain(str(mem), out.extend)
    return out


def texts(mem: pathlib.Path) -> str:
    return "".join(p.read_text(encoding="utf-8", errors="replace") for p in mem.glob("spool*"))


# --- the file ---------------------------------------------------------------


def test_lines_come_out_in_their_order_and_the_spool_is_empty_then(tmp_path: pathlib.Path) -> None:
    for i in range(5):
        spool.append(str(tmp_path), b'{"n":%d}' % i)
    assert spool.waiting(str(tmp_path))
    assert drained(tmp_path) == [b'{"n":%d}' % i for i in range(5)]
    assert not spool.waiting(str(tmp_path)) and drained(tmp_path) == []
    assert list(tmp_path.glob("spool*")) == []


def test_the_spool_is_for_its_owner_alone(tmp_path: pathlib.Path) -> None:
    before = os.umask(0)
    try:
        spool.append(str(tmp_path), b"x")
    finally:
        os.umask(before)
    assert [p.stat().st_mode & 0o777 for p in tmp_path.glob("spool*")] == [0o600, 0o600]


def test_an_append_is_one_write(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: written.append(data) or real(fd, data))
    spool.append(str(tmp_path), b"whole")
    assert written == [b"\nwhole\n"]


def test_many_writers_lose_no_line_to_a_worker_that_drains_meanwhile(tmp_path: pathlib.Path) -> None:
    code = "import sys\nsys.path.insert(0, sys.argv[1])\nfrom gitmem.hooks import spool\nfor i in range(300): spool.append(sys.argv[2], b'%s %d' % (sys.argv[3].encode(), i))"
    root = str(pathlib.Path(spool.__file__).parent.parent.parent)
    writers = [subprocess.Popen([sys.executable, "-c", code, root, str(tmp_path), name]) for name in "abcd"]
    found: list[bytes] = []
    while any(w.poll() is None for w in writers) or spool.waiting(str(tmp_path)):
        spool.drain(str(tmp_path), found.extend)
    assert set(found) == {b"%s %d" % (name, i) for name in (b"a", b"b", b"c", b"d") for i in range(300)}


def test_a_line_written_into_the_file_after_it_was_taken_is_handed_out_too(tmp_path: pathlib.Path) -> None:
    late = os.open(tmp_path / "spool", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(late, b"early\n")
    found: list[bytes] = []

    def handle(lines: list[bytes]) -> None:
        if not found:
            os.write(late, b"late\n")
        found.extend(lines)

    spool.drain(str(tmp_path), handle)
    os.close(late)
    assert found == [b"early", b"late"]


def test_a_line_appended_to_a_file_that_is_gone_is_appended_again(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, taken = os.write, []

    def write(fd: int, data: bytes) -> int:
        done = real(fd, data)
        if not taken:
            taken.append(1)
            os.unlink(tmp_path / "spool")
        return done

    monkeypatch.setattr(os, "write", write)
    spool.append(str(tmp_path), b"mine")
    assert drained(tmp_path) == [b"mine"]


def test_a_drain_that_was_killed_hands_its_lines_out_once_more_and_then_drops_them(tmp_path: pathlib.Path) -> None:
    spool.append(str(tmp_path), b"poison")
    for left in ("poison", "\0oison"):
        with pytest.raises(ZeroDivisionError):
            spool.drain(str(tmp_path), lambda lines: 1 // 0)
        assert left in texts(tmp_path) and spool.waiting(str(tmp_path))
    spool.append(str(tmp_path), b"next")
    dropped: list[int] = []
    found: list[bytes] = []
    spool.drain(str(tmp_path), found.extend, dropped=dropped.append)
    assert found == [b"next"] and dropped == [1]
    assert texts(tmp_path) == ""


def test_a_line_that_kills_costs_no_other(tmp_path: pathlib.Path) -> None:
    for line in (b"a", b"poison", b"b", b"c"):
        spool.append(str(tmp_path), line)
    os.utime(tmp_path / "spool", (time.time() - 3600, time.time() - 3600))
    found: list[bytes] = []

    def handle(lines: list[bytes]) -> None:
        if b"poison" in lines:
            raise ZeroDivisionError
        found.extend(lines)

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            spool.drain(str(tmp_path), handle)
    assert found == [b"a"] and time.time() - (tmp_path / "spool.again").stat().st_mtime > 3000
    spool.drain(str(tmp_path), handle)
    assert found == [b"a", b"b", b"c"] and texts(tmp_path) == ""


def test_two_kills_at_any_moment_drop_one_line_at_most(tmp_path: pathlib.Path) -> None:
    """By SIGKILL, not by an exception: nothing is there to tidy up."""
    for i in range(5):
        spool.append(str(tmp_path), b"%d" % i)
    code = "import os, signal, sys\nsys.path.insert(0, sys.argv[1])\nfrom gitmem.hooks import spool\nspool.drain(sys.argv[2], lambda lines: os.kill(os.getpid(), signal.SIGKILL))"
    for name in ("spool.taken", "spool.again"):
        assert subprocess.run([sys.executable, "-c", code, str(pathlib.Path(spool.__file__).parent.parent.parent), str(tmp_path)], check=False).returncode < 0
        assert (tmp_path / name).exists()
    dropped: list[int] = []
    found: list[bytes] = []
    spool.drain(str(tmp_path), found.extend, dropped=dropped.append)
    assert found == [b"1", b"2", b"3", b"4"] and dropped == [1]


def test_whoever_interrupts_a_drain_loses_nothing(tmp_path: pathlib.Path) -> None:
    spool.append(str(tmp_path), b"mine")

    def interrupted(lines: list[bytes]) -> None:
        raise KeyboardInterrupt

    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            spool.drain(str(tmp_path), interrupted)
    assert drained(tmp_path) == [b"mine"]


@pytest.mark.parametrize("short", [True, False])
def test_what_failed_stays_where_it_is_while_the_disk_is_full(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, short: bool) -> None:
    lines = [b"%d" % i for i in range(30)]
    for line in lines:
        spool.append(str(tmp_path), line)
    real = os.write

    def full(fd: int, data: bytes) -> int:
        if short:
            return real(fd, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    for _ in range(4):
        with monkeypatch.context() as m:
            m.setattr(os, "write", full)
            with pytest.raises(OSError, match="No space"):
                spool.drain(str(tmp_path), lambda lines: lines)
        assert spool.waiting(str(tmp_path)) and not (tmp_path / "spool.later").read_bytes()
    spool.drain(str(tmp_path), lambda lines: lines, later=False)
    assert drained(tmp_path) == lines


def test_an_append_that_was_cut_short_says_so(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    with monkeypatch.context() as m:
        m.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
        with pytest.raises(OSError, match="No space"):
            spool.append(str(tmp_path), b"torn")
    spool.append(str(tmp_path), b"whole")
    assert drained(tmp_path) == [b"to", b"whole"]


def test_a_torn_line_costs_only_itself(tmp_path: pathlib.Path) -> None:
    (tmp_path / "spool").write_bytes(b'{"whole":1}\n{"torn":')
    spool.append(str(tmp_path), b'{"whole":2}')
    assert drained(tmp_path) == [b'{"whole":1}', b'{"torn":', b'{"whole":2}']


@pytest.mark.parametrize("line", [b"two\nlines", b"x" * (spool.LONGEST + 1)])
def test_what_is_no_line_is_refused(tmp_path: pathlib.Path, line: bytes) -> None:
    with pytest.raises(ValueError, match="one line"):
        spool.append(str(tmp_path), line)
    assert not spool.waiting(str(tmp_path))


def test_the_spool_never_grows_past_its_bound_and_keeps_the_newest(tmp_path: pathlib.Path) -> None:
    line = b"x" * 100_000
    for i in range(120):
        spool.append(str(tmp_path), line + b"%d" % i)
        assert sum(p.stat().st_size for p in tmp_path.glob("spool*")) <= spool.MOST + len(line) + 10
    found = [int(x[100_000:]) for x in drained(tmp_path)]
    assert found == list(range(found[0], 120)) and len(found) >= 25


def test_nothing_is_older_than_a_day_while_others_append(tmp_path: pathlib.Path) -> None:
    def later(hours: float) -> None:
        for p in tmp_path.glob("spool*"):
            os.utime(p, (time.time() - hours * 3600, time.time() - hours * 3600))

    spool.append(str(tmp_path), b"first")
    later(13)
    spool.append(str(tmp_path), b"second")  # begins a new file after its line
    later(13)
    spool.append(str(tmp_path), b"third")
    assert b"first" not in drained(tmp_path)


def test_what_nobody_has_touched_for_a_day_is_dropped(tmp_path: pathlib.Path) -> None:
    spool.append(str(tmp_path), b"old")
    os.utime(tmp_path / "spool", (1, 1))
    assert drained(tmp_path) == []


# --- the worker -------------------------------------------------------------


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
    with guard.locked(spool.lock(mem), 0.0) as held:
        assert held
        worker.run(store_of(repo), lab.env, linger=0)
        assert spool.waiting(mem)
    worker.run(store_of(repo), lab.env, linger=0)
    assert not spool.waiting(mem)


def test_an_event_that_comes_while_the_worker_gives_up_its_lock_is_not_lost(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.setitem(worker.HANDLERS, "test", lambda store, events: handled.extend(e["n"] for e in events))
    spool.append(mem, b'{"event":"test","n":1}')
    threading.Timer(0.3, lambda: spool.append(mem, b'{"event":"test","n":2}')).start()
    worker.run(store_of(repo), lab.env, linger=5)
    assert handled == [1, 2]


def test_lines_that_are_no_event_are_skipped(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = lab.repo()
    mem = str(repo / ".git/mem")
    os.mkdir(mem)
    handled: list[object] = []
    monkeypatch.setitem(worker.HANDLERS, "test", lambda store, events: handled.extend(events))
    for line in (b'{"event":"te', b"\xff\xfe", b"[" * 100_000, b"[1]", b"null", b'{"event":["test"]}', b'{"event":"of a newer git mem"}', b'{"event":"test"}'):
        spool.append(mem, line)
    worker.run(store_of(repo), lab.env, linger=0)
    assert handled == [{"event": "test"}] and not spool.waiting(mem) and worker.failures(mem) == []


def test_a_handler_that_fails_stops_no_other_and_is_logged_without_its_text(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
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
    (line,) = worker.failures(str(mem))
    assert "bad: RuntimeError" in line and "Zanzibarium" not in "".join(p.read_text(errors="replace") for p in mem.iterdir() if p.name != "spool.later")
    assert any(line in f["text"] for f in lab.json(repo, "doctor") if f["level"] == "warn")


def test_the_log_does_not_grow_for_ever(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = lab.repo()
    mem = repo / ".git/mem"
    mem.mkdir()
    monkeypatch.setitem(worker.HANDLERS, "bad", lambda store, events: 1 // 0)
    (mem / worker.LOG).write_text("x" * 70_000)
    spool.append(str(mem), b'{"event":"bad"}')
    worker.run(store_of(repo), lab.env, linger=0)
    assert len(worker.failures(str(mem))) == 1


def test_switched_off_the_worker_empties_the_spool_and_does_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert worker.failures(str(mem)) == []  # checked a moment ago
    os.utime(mem / "checked", (1, 1))
    worker.run(store_of(repo), lab.env, linger=0)
    assert any("the cache was damaged" in line for line in worker.failures(str(mem)))
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
        spool.append(mem, json.dumps({"event": "post-rewrite", "old": ids[0], "new": ids[2]}).encode())
    assert worker.failures(mem) == []
    assert [json.loads(line)["op"] for line in lab.lines(repo)].count("move") == 1
    (hit,) = lab.json(repo, "recall", "the commit that is amended")["hits"]
    assert (hit["anchor"]["state"], hit["anchor"]["commit"]) == ("reachable", ids[2])


def test_a_broken_pair_of_a_rewrite_does_no_harm(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "about a commit")
    mem = str(repo / ".git/mem")
    for event in ({"old": 1, "new": 2}, {"old": "x" * 40}, {"old": "a" * 40, "new": "a" * 40}, {"old": "a" * 40, "new": "b" * 40}, {"old": "b" * 40, "new": "a" * 40}):
        spool.append(mem, json.dumps({"event": "post-rewrite", **event}).encode())
    worker.run(store_of(repo), lab.env, linger=0)
    assert worker.failures(mem) == [] and len(lab.lines(repo)) == 1


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
    assert worker.failures(mem) == []


# --- waking it --------------------------------------------------------------


def test_a_worker_is_started_once_however_often_it_is_asked_for(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "something")
    store = open_store(lab.env, str(repo))
    try:
        path = cache.path_of(store.repo.mem_dir)
        with guard.locked(path, 5.0) as held:  # nobody can write the cache: the worker waits
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


def test_a_worker_keeps_no_descriptor_of_whoever_started_it(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "something")
    lab.mem(repo, "recall", "something")
    path = cache.path_of(str(repo / ".git/mem"))
    read, write = os.pipe()
    with guard.locked(path, 5.0) as held:  # so that the worker cannot end
        assert held
        lab.mem(repo, "remember", "something new for it")
        process = subprocess.Popen([sys.executable, "-EP", "-m", "gitmem", "worker", store_of(repo)], env=lab.env, pass_fds=(write,))
        os.close(write)
        assert os.read(read, 1) == b""  # the end of the pipe: nobody has its other end any more
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
    assert any("worker: " in line for line in worker.failures(str(mem))) and spool.asleep(str(mem))


def test_uninstall_beside_a_worker_leaves_nothing(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "something")
    mem = repo / ".git/mem"
    spool.append(str(mem), b'{"event":"post-commit"}')
    process = subprocess.Popen([sys.executable, "-EP", "-m", "gitmem", "worker", store_of(repo)], env=lab.env)
    until(lambda: (mem / "worker.pid").exists() or process.poll() is not None)
    lab.mem(repo, "uninstall")
    process.wait()
    assert not mem.exists()


def test_anchors_are_looked_up_for_the_next_answer(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "something")
    asked = []
    monkeypatch.setattr(reanchor, "finish", lambda store: asked.append(store.repo.head()))
    worker.run(store_of(repo), lab.env, linger=0)
    assert asked == [lab.git(repo, "rev-parse", "HEAD").strip()]
