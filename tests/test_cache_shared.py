"""One cache, several processes: read, written, checked and removed at the same time, and never
called damaged for it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest
from conftest import Lab, until

from gitmem.doctor import OK, memory_checks
from gitmem.engine import cache as cache_file
from gitmem.engine import cache_check, cache_lock, index
from gitmem.engine.filters import Filter
from gitmem.hooks import spool
from gitmem.memory import listing, recall, remember
from gitmem.store import Store, open_store

ROUNDS = 8
# Who finds it removed again and again answers from memory, and says so.
AWAY = "warning: the memory cache cannot be read while others write it, answering without it"


def write(store: Store, name: str, n: int) -> None:
    remember.remember(store, [{"body": f"{name} says {n} about invoices", "source": f"{name}:{n}"}])
    store.with_cache(lambda cache: None)


def beside(
    repo: pathlib.Path, *work: Callable[[Store, int], list[str]], until: int = 0
) -> list[str]:
    """Runs each in a process of its own, ROUNDS times or, from number `until` on, for as long as
    the others work; returns all that was said.
    """
    fork = multiprocessing.get_context("fork")
    answers, done = fork.Queue(), fork.Event()

    def go(at: int) -> None:
        said: list[str] = []
        try:
            n = 0
            while n < ROUNDS if at < until or not until else not done.is_set():
                store = open_store(
                    {"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo), said.append
                )
                said += work[at](store, n)
                store.close()
                n += 1
        except BaseException as e:
            said.append(f"{type(e).__name__}: {e}")
        answers.put(said)

    processes = [fork.Process(target=go, args=(i,)) for i in range(len(work))]
    for p in processes:
        p.start()
    said: list[str] = []
    for i in range(len(work)):
        said += answers.get(timeout=120)
        if i + 1 >= until:
            done.set()
    for p in processes:
        p.join()
    return said


def writer(name: str) -> Callable[[Store, int], list[str]]:
    def work(store: Store, n: int) -> list[str]:
        write(store, name, n)
        return []

    return work


def reader(store: Store, n: int) -> list[str]:
    return (
        [] if recall.recall(store, "invoices", Filter(), limit=3)["hits"] else ["nothing was found"]
    )


def sound(repo: pathlib.Path, texts: int) -> None:
    """All is there, and the cache that is left is what one made anew would be."""
    store = open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo))
    assert len(listing.list_memories(store, Filter(), all_branches=True)[0]) == texts
    assert store._cache and cache_check.check_all(store._cache, store.table) == ""
    store.close()


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    path = lab.repo()
    lab.mem(path, "remember", "the first word about invoices")
    lab.mem(path, "list")
    return path


def test_a_cache_in_use_is_not_called_damaged_by_the_full_check(repo: pathlib.Path) -> None:
    def doctors(store: Store, n: int) -> list[str]:
        return [f.text for f in memory_checks.cached(store) if f.level != OK]

    assert beside(repo, writer("a"), writer("b"), doctors, until=2) == []
    sound(repo, 1 + 2 * ROUNDS)


def test_the_full_check_sees_one_state_while_another_process_writes(
    repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its two looks at the tables somebody else commits."""
    opened = cache_file.open_cache(str(repo / ".git" / "mem"))
    assert opened
    real = cache_check._made_again

    def made_again(*args: object) -> object:
        other = open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo))
        write(other, "other", 1)
        other.close()
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(cache_check, "_made_again", made_again)
    assert cache_check.check_all(opened) == ""
    assert opened.count() == 2
    opened.close()


def test_a_writer_that_holds_the_lock_is_no_damage(repo: pathlib.Path) -> None:
    store = open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo))
    opened = cache_file.open_cache(str(repo / ".git" / "mem"))
    assert opened
    with opened.writing(1.0) as held:
        assert held
        (found,) = memory_checks.cached(store)
        assert found.level == OK
    (found,) = memory_checks.cached(store)
    assert found.level == OK and "1 memory" in found.text
    opened.close()
    store.close()


def test_the_directory_may_be_removed_beside_writers_and_readers(repo: pathlib.Path) -> None:
    def remover(store: Store, n: int) -> list[str]:
        shutil.rmtree(store.repo.mem_dir, ignore_errors=True)
        time.sleep(0.2)
        return []

    assert set(beside(repo, writer("a"), writer("b"), reader, remover, until=2)) <= {AWAY}
    sound(repo, 1 + 2 * ROUNDS)


def test_the_file_alone_may_be_removed_or_replaced_beside_writers_and_readers(
    repo: pathlib.Path,
) -> None:
    def remover(store: Store, n: int) -> list[str]:
        path = cache_file.path_of(store.repo.mem_dir)
        if n % 2:
            cache_file.discard(store.repo.mem_dir)
        elif os.path.exists(path):
            os.unlink(path)
        time.sleep(0.2)
        return []

    assert set(beside(repo, writer("a"), writer("b"), reader, remover, until=2)) <= {AWAY}
    sound(repo, 1 + 2 * ROUNDS)


def test_a_file_that_was_away_for_a_moment_is_opened(
    repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removed and made anew it may have the inode that it had."""
    path = cache_file.path_of(str(repo / ".git" / "mem"))
    connect, calls = cache_file.connect, []

    def late(name: str) -> cache_file.Connection:
        calls.append(name)
        if len(calls) > 1:
            return connect(name)
        os.rename(path, path + ".away")
        try:
            return connect(name)
        finally:
            os.rename(path + ".away", path)

    monkeypatch.setattr(cache_file, "connect", late)
    opened = cache_file.open_cache(os.path.dirname(path))
    assert opened and opened.how == "file" and len(calls) == 2
    opened.close()


def test_a_writer_whose_file_was_replaced_leaves_the_new_one_alone(repo: pathlib.Path) -> None:
    mem = repo / ".git" / "mem"
    old = cache_file.open_cache(str(mem))
    assert old
    with old.writing(1.0) as held:
        assert held
        old.set_meta("filler", "x" * 40_000)
        shutil.rmtree(mem)
        other = open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo))
        other.with_cache(lambda cache: None)
        other.close()
    with pytest.raises(cache_lock.Moved), old.writing(1.0):
        pass
    old.close()
    sound(repo, 1)


def test_a_lock_on_a_removed_file_counts_for_nothing(tmp_path: pathlib.Path) -> None:
    """Who waited for it goes on to the file that others lock by now."""
    path = str(tmp_path / "index.db")
    got: list[bool] = []

    def wait() -> None:
        with cache_lock.locked(path, 30.0) as held:
            got.append(held and os.path.exists(path + ".lock"))
            with cache_lock.locked(path, 0.0) as again:
                got.append(again)

    with cache_lock.locked(path, 0.0) as held:
        assert held
        waiting = threading.Thread(target=wait)
        waiting.start()
        os.unlink(path + ".lock")
    waiting.join()
    assert got == [True, False]


@pytest.mark.parametrize("what", ["directory", "lock"])
def test_who_makes_a_cache_while_it_is_removed_leaves_that_of_another_whole(
    repo: pathlib.Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mem = repo / ".git" / "mem"
    real, other = (
        cache_file._with_tables,
        open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo)),
    )

    def make(name: str) -> cache_file.Connection:
        monkeypatch.setattr(cache_file, "_with_tables", real)
        made = real(name)
        made.close()
        if what == "directory":
            shutil.rmtree(mem)
        else:
            next(mem.glob("*.lock")).unlink()
        other.with_cache(lambda cache: None)
        return made

    shutil.rmtree(mem)
    monkeypatch.setattr(cache_file, "_with_tables", make)
    said: list[str] = []
    store = open_store(
        {"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo), said.append
    )
    assert store.with_cache(lambda cache: (cache.how, cache.count())) == (("file", 1), True)
    assert other.with_cache(lambda cache: cache.moved()) == (False, True) and said == []
    store.close()
    other.close()
    sound(repo, 1)
    assert not list(mem.glob("*.new*"))


def locks(inode: int) -> list[str]:
    rows = pathlib.Path("/proc/locks").read_text().splitlines()
    return [
        row.partition(": ")[2] for row in rows if f":{inode} " in row and f" {os.getpid()} " in row
    ]  # less its place in the list


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="no /proc/locks here")
@pytest.mark.parametrize(
    "what",
    ["check", "second connection", "writing", "looks"],
)
def test_nothing_that_reads_the_file_drops_sqlites_locks(repo: pathlib.Path, what: str) -> None:
    """Closing any descriptor of a file drops a process's POSIX locks on it; another would remove
    the log, and give out our row numbers again.
    """
    opened = cache_file.open_cache(str(repo / ".git" / "mem"))
    assert opened
    opened.db.execute("BEGIN")
    opened.db.execute("SELECT count(*) FROM line").fetchone()
    held = locks(opened.inode)
    assert held
    if what == "check":
        other = cache_file.open_cache(str(repo / ".git" / "mem"))
        assert other and cache_check.check_all(other) == ""
        other.close()
    elif what == "second connection":
        other = cache_file.open_cache(str(repo / ".git" / "mem"))
        assert other and other.count() == 1
        other.close()
    elif what == "writing":
        other = cache_file.open_cache(str(repo / ".git" / "mem"))
        assert other
        insert = "INSERT INTO equivalent_commit VALUES('x', 'y')"
        assert other.keep(1.0, lambda db: db.execute(insert))
        other.close()
    else:
        assert cache_lock.lockable(str(repo / ".git" / "mem")) and cache_lock.size(opened.path)
    assert locks(opened.inode) == held
    opened.db.execute("ROLLBACK")
    opened.close()
    assert not locks(opened.inode)


def test_row_numbers_are_given_out_once_while_many_write(repo: pathlib.Path) -> None:
    def checking(store: Store, n: int) -> list[str]:
        opened = store._open()
        assert cache_check.check_all(opened) == ""
        write(store, f"checker {os.getpid()}", n)
        return []

    assert beside(repo, checking, checking, writer("a")) == []
    sound(repo, 1 + 3 * ROUNDS)
    db = sqlite3.connect(cache_file.path_of(str(repo / ".git" / "mem")))
    assert db.execute("SELECT count(*), max(row) FROM memory").fetchone() == (
        1 + 3 * ROUNDS,
        3 * ROUNDS,
    )
    db.close()


def test_what_another_process_took_in_meanwhile_is_not_taken_in_again(
    repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (
        open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo)),
        open_store({}, str(repo)),
    )
    remember.remember(first, [{"body": "a second word about invoices"}])
    cache = first._open()
    real = cache.writing

    def writing(wait: float) -> object:
        second.with_cache(lambda cache: None)
        monkeypatch.setattr(index, "Update", None)  # nothing is left to update
        return real(wait)

    monkeypatch.setattr(cache, "writing", writing)
    assert first.with_cache(lambda cache: cache.count()) == (2, True)
    first.close()
    second.close()


def test_of_many_that_find_no_worker_one_starts_it(lab: Lab, repo: pathlib.Path) -> None:
    """Prompts beside each other: an interpreter each would be worse than the work."""
    common = str(repo / ".git")
    fork = multiprocessing.get_context("fork")
    ready, answers = fork.Barrier(8), fork.Queue()

    def go() -> None:
        spool.append(common + "/mem", b'{"event":"behind"}')
        ready.wait()
        answers.put(spool.wake(common))

    processes = [fork.Process(target=go) for _ in range(8)]
    # Nobody can write the cache: the worker waits for the last of them to ask, however late.
    with cache_lock.locked(cache_file.path_of(common + "/mem"), 5.0) as held:
        assert held
        lab.mem(repo, "remember", "a second word about invoices")
        for p in processes:
            p.start()
        started = [answers.get(timeout=30) for _ in processes]
        for p in processes:
            p.join()
    assert started.count(True) == 1
    until(lambda: spool.asleep(common + "/mem") and not spool.waiting(common + "/mem"))


def test_show_and_recall_answer_beside_a_removal_as_processes_do(
    lab: Lab, repo: pathlib.Path
) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "gitmem", "recall", "invoices", "--json"],
            cwd=repo,
            env=lab.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for _ in range(6):
        shutil.rmtree(repo / ".git" / "mem", ignore_errors=True)
        time.sleep(0.05)
    for p in running:
        out, err = p.communicate(timeout=60)
        assert p.returncode == 0 and err == "" and len(json.loads(out)["hits"]) == 1, err
