"""A cache that is built, healed, killed in the middle and deleted by one process while others have
it open.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import shops
from conftest import Lab
from shops import COUNT, QUERIES, Shop, change, drafts

from gitmem.cli import common
from gitmem.engine import cache as cache_file
from gitmem.engine import cache_check, cache_lock, index, update
from gitmem.engine.filters import Filter
from gitmem.memory import listing, recall, remember
from gitmem.store import open_store


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[shops.Shop]:
    yield from shops.opened(tmp_path_factory)


# Several processes


def test_cache_directory_deleted_between_open_and_read(shop: Shop) -> None:
    shop.restore()
    assert shop.answers() == shop.right
    shutil.rmtree(shop.mem)
    assert shop.answers() == shop.right  # same store, its file is gone
    assert shop.said == [] and shop.db.exists()


def test_cache_directory_deleted_within_a_read(shop: Shop) -> None:
    shop.restore()
    calls = 0

    def act(cache: cache_file.Cache) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            shutil.rmtree(shop.mem)
        return len(cache.db.execute("SELECT raw FROM line").fetchall())

    assert shop.store.with_cache(act)[0] > COUNT
    assert shop.answers() == shop.right and len(shop.said) <= 1


def test_cache_deleted_while_an_update_is_written(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.restore()
    shop.store.discard()
    real = update.Update.take

    def take(self: Any, lines: Any) -> int:
        shutil.rmtree(shop.mem, ignore_errors=True)
        return real(self, lines)

    with monkeypatch.context() as patch:
        patch.setattr(update.Update, "take", take)
        shop.answers()
    shop.store.close_cache()
    shop.said.clear()
    assert shop.answers() == shop.right and shop.said == []


def test_a_process_with_the_old_file_sees_the_healed_one(shop: Shop) -> None:
    shop.restore()
    other = shop.open()
    assert shop.answers(other) == shop.right
    change(shop.db, 4096, bytes(4096 * 3))
    assert shop.must_heal("damage")
    assert shop.answers(other) == shop.right
    assert other._cache and not other._cache.moved()
    other.close()


def test_two_who_find_the_same_damage_rebuild_it_once(shop: Shop) -> None:
    shop.restore()
    first = shop.open()
    shop.answers(first)
    inode = os.stat(shop.db).st_ino
    shop.store.close_cache()
    change(shop.db, 4096, bytes(4096))
    cache_file.discard(str(shop.mem), inode)
    shop.answers()
    healed = os.stat(shop.db).st_ino
    if healed != inode:
        cache_file.discard(str(shop.mem), inode)  # the second one, late
        assert os.stat(shop.db).st_ino == healed
    first.close()


def start(shop: Shop, *argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "gitmem", *argv],
        cwd=shop.repo,
        env=shop.lab.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_processes_that_build_at_once_from_nothing_all_answer(shop: Shop) -> None:
    for _ in range(2):
        shop.restore()
        shutil.rmtree(shop.mem)
        running = [start(shop, "recall", QUERIES[1], "-n", "8", "--json") for _ in range(4)]
        for process in running:
            out, err = process.communicate(timeout=60)
            assert process.returncode == 0 and err == "", err
            assert [h["id"] for h in json.loads(out)["hits"]] == [
                h[0] for h in shop.right[0][1] if isinstance(h, tuple)
            ]
        opened = cache_file.open_cache(str(shop.mem))
        assert opened and cache_check.check_all(opened, shop.store.table) == ""
        opened.close()


def test_a_killed_builder_leaves_nothing_behind(shop: Shop) -> None:
    rng = random.Random(11)
    for _ in range(6):
        shop.restore()
        shutil.rmtree(shop.mem)
        process = start(shop, "index")
        end = time.monotonic() + 5
        while not shop.db.exists() and time.monotonic() < end:
            time.sleep(0.0005)
        time.sleep(rng.uniform(0, 0.06))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        shop.must_heal("killed builder")
        opened = cache_file.open_cache(str(shop.mem))
        assert opened and cache_check.check_all(opened, shop.store.table) == ""
        opened.close()


@pytest.mark.parametrize("step", ["wal_checkpoint(PASSIVE)", "wal_checkpoint(TRUNCATE)", "COMMIT"])
def test_a_writer_killed_at_each_step_costs_no_rebuild(lab: Lab, step: str) -> None:
    """The child dies by its own hand right after the step."""
    repo = lab.repo()
    lab.mem(repo, "remember", "the first memory about invoices")
    lab.mem(repo, "list")
    lab.mem(repo, "remember", "the second memory about invoices")
    code = f"""
import os, signal
from gitmem.store import open_store
step = {step!r}
def die(): os.kill(os.getpid(), signal.SIGKILL)
store = open_store({{"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}}, ".")
class Db:
    def __init__(self, db): self.db = db
    def execute(self, sql, *args):
        out = self.db.execute(sql, *args)
        if step in sql:
            out.fetchall(); die()
        return out
    def __getattr__(self, name): return getattr(self.db, name)
opened = store._open()
opened.db = Db(opened.db)
store.with_cache(lambda c: None)
"""
    done = lab.run(repo, sys.executable, "-c", code)
    assert done.returncode == -signal.SIGKILL, done.stderr
    done = lab.run(repo, sys.executable, "-m", "gitmem", "list", "--json")
    assert done.returncode == 0 and done.stderr == "" and len(json.loads(done.stdout)) == 2
    done = lab.run(repo, sys.executable, "-m", "gitmem", "doctor")
    assert "damaged" not in done.stdout


def test_a_new_cache_takes_the_place_of_older_layouts_and_of_no_newer_one(lab: Lab) -> None:
    repo = lab.repo()
    mem = repo / ".git" / "mem"
    mem.mkdir()
    old, newer = (mem / f"index-{n}.db" for n in (cache_file.SCHEMA - 1, cache_file.SCHEMA + 1))
    for path in (old, newer):
        for suffix in ("", "-wal", "-shm", ".lock"):
            (mem / (path.name + suffix)).write_text("x")
    lab.mem(repo, "remember", "the clock is monotonic")
    assert sorted(p.name for p in mem.iterdir() if p.name.startswith(old.name)) == []
    assert len([p for p in mem.iterdir() if p.name.startswith(newer.name)]) == 4


def test_a_reader_keeps_its_answer_while_a_writer_updates(shop: Shop) -> None:
    shop.restore()
    reader = shop.open()
    cache = reader._open()
    cache.db.execute("BEGIN")
    (before,) = cache.db.execute("SELECT count(*) FROM line").fetchone()
    with (opened := shop.store._open()).writing(1.0) as held:
        assert held
        opened.db.execute("INSERT INTO move SELECT 'x', 'y', n FROM line")
    assert cache.db.execute("SELECT count(*) FROM line").fetchone() == (before,)
    assert cache.db.execute("SELECT count(*) FROM move WHERE old = 'x'").fetchone() == (0,)
    cache.db.execute("COMMIT")
    assert cache.db.execute("SELECT count(*) FROM move WHERE old = 'x'").fetchone()[0] > 0
    shop.store.close_cache()
    reader.close()
    assert not cache_lock.has_log(str(shop.db))


def test_readers_and_writers_together_never_call_the_cache_damaged(lab: Lab) -> None:
    repo = lab.repo()
    store = open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo))
    remember.remember(store, drafts(10))
    store.close()
    said: list[str] = []
    wrong: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in range(8):
                s = open_store(
                    {"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo), said.append
                )
                if seed % 2:
                    remember.remember(
                        s,
                        [
                            {
                                "body": f"writer {seed} says {i} about invoices",
                                "source": f"{seed}:{i}",
                            }
                        ],
                    )
                assert recall.recall(s, "invoices", Filter(), limit=3)["hits"]
                s.close()
        except BaseException as e:
            wrong.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == [] and said == []
    store = open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo))
    assert len(listing.list_memories(store, Filter(), all_branches=True)[0]) == 26
    assert store._cache and cache_check.check_all(store._cache, store.table) == ""
    store.close()


def test_a_busy_cache_answers_as_it_is(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.restore()
    shop.answers()  # other tests moved the ref and back: the reflog is looked at once
    shop.store.close_cache()
    monkeypatch.setattr(index, "_PATIENCE", 0.1)
    opened = cache_file.open_cache(str(shop.mem))
    assert opened
    with opened.writing(1.0):
        opened.set_meta("tip:" + shop.store.team.ref, "")  # not committed yet
        assert shop.answers() == shop.right
    shop.store.close_cache()
    with opened.writing(1.0):
        answer = recall.recall(shop.store, QUERIES[1], Filter(), limit=3)
        assert answer["degraded"] and answer["hits"]
    opened.close()
    assert shop.said == []


def test_a_command_says_that_it_could_not_wait_for_another_to_fill_the_cache(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.restore()
    shop.store.close_cache()
    shop.store.discard()
    monkeypatch.setattr(index, "_PATIENCE", 0.1)
    monkeypatch.chdir(shop.repo)
    opened = cache_file.open_cache(str(shop.mem))
    assert opened
    with opened.writing(1.0), common.opened() as store:
        assert listing.list_memories(store, Filter()).items == []
    assert "the memory cache is behind the notes" in capsys.readouterr().err
    opened.close()
    with common.opened() as store:
        assert listing.list_memories(store, Filter(), all_branches=True).items
    assert capsys.readouterr().err == ""
