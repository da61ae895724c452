"""Documents that a second process prepares: none is prepared twice, and the rows are the same."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from conftest import Lab
from places import opened

from gitmem.engine import ahead as ahead_module
from gitmem.engine import document, index
from gitmem.engine.ahead import Ahead
from gitmem.engine.cache import Cache
from gitmem.engine.embed import StaticTable
from gitmem.memory import commit_hits, remember
from gitmem.store import open_store


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many documents this process prepares, call by call; a second one pays from four on, on
    two processors.
    """
    counts: list[int] = []
    prepare = document.prepare

    def counted(table: Any, documents: list[Any]) -> Any:
        counts.append(len(documents))
        return prepare(table, documents)

    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(ahead_module, "prepare", counted)
    monkeypatch.setattr(ahead_module, "_PAYS", 4)
    monkeypatch.setattr(index, "BATCH", 5)
    return counts


def words(cache: Cache) -> list[Any]:
    found = cache.db.execute("SELECT title, body, extra FROM fts ORDER BY title, body")
    return [*found, *cache.db.execute("SELECT word, df FROM term ORDER BY word")]


def test_what_is_begun_is_written_as_it_was_prepared(
    lab: Lab, repo: pathlib.Path, here: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(13):
        lab.mem(repo, "remember", f"invoice {n} is rounded to whole cents")
    with opened(repo) as store:
        store.discard()
        ahead = store.with_cache(words)[0]
        assert sum(here) == 3 + 1 + 1  # of 5, 5 and 3
        here.clear()
        monkeypatch.setattr(ahead_module, "_PAYS", 1000)
        store.discard()
        assert store.with_cache(words)[0] == ahead and sum(here) == 13


def test_commits_are_prepared_once(lab: Lab, here: list[int]) -> None:
    repo = lab.repo()
    for n in range(6):
        subject = f"Round invoice {n} to whole cents, as the ledger does"
        lab.git(repo, "commit", "-q", "--allow-empty", "-m", subject)
    store = open_store({"GIT_MEM_HISTORY": "recall"}, str(repo))
    assert commit_hits.take_in(store)["commits"] == 7
    store.close()
    assert sum(here) == 4


def test_a_bulk_is_prepared_while_its_drafts_are_checked(
    lab: Lab, here: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remember, "_PORTION", 5)
    begun: list[tuple[int, int]] = []
    begin = Ahead.begin

    def noted(self: Ahead, records: list[Any], share: float = 1.0) -> None:
        begun.append((len(records), len(lab.lines(repo))))
        begin(self, records, share)

    monkeypatch.setattr(Ahead, "begin", noted)
    repo = lab.repo()
    drafts = [
        {"body": f"invoice {n} is rounded to whole cents", "source": str(n)} for n in range(43)
    ]
    drafts[7]["body"] = ""
    with opened(repo) as store:
        found = [*remember.remember_many(store, [*drafts, drafts[0], "no JSON"])]
        assert [r.status for r in found].count(remember.STORED) == 42
        assert [i for i, r in enumerate(found) if r.status != remember.STORED] == [7, 43, 44]
        assert begun[0] == (5, 0), "the others are not checked yet, none is stored"
        assert sum(here) < 42
        assert lab.git(repo, "rev-list", "--count", "refs/notes/mem/team").strip() == "2"
        ahead = store.with_cache(words)[0]
        monkeypatch.setattr(ahead_module, "_PAYS", 1000)
        store.discard()
        assert store.with_cache(words)[0] == ahead


def test_a_bulk_that_is_signed_slowly_is_stored_in_smaller_commits(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remember, "_PORTION", 20)
    monkeypatch.setattr(remember, "_LATEST", 0.1)
    stored: list[int] = []
    with opened(lab.repo()) as store:
        lines, append = store.lines, store.append

        def slowly(records: list[dict[str, Any]]) -> list[bytes]:
            time.sleep(0.05 * len(records))
            return lines(records)

        def noted(scope: str, items: list[tuple[str, bytes]], message: str) -> None:
            stored.append(len(items))
            append(scope, items, message)

        monkeypatch.setattr(store, "lines", slowly)
        monkeypatch.setattr(store, "append", noted)
        drafts = [{"body": f"invoice {n} is rounded to whole cents"} for n in range(24)]
        assert len([*remember.remember_many(store, drafts)]) == 24
    assert stored[0] == 20 and max(stored[1:]) <= 2, stored


RECORDS: list[tuple[str, dict[str, object]]] = [
    (f"{n:064x}", {"title": f"invoice {n}", "body": "rounded to whole cents\udc80" * 20})
    for n in range(2000)
]


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Ahead:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    return Ahead(StaticTable())


def prepared(ahead: Ahead) -> list[document.Prepared]:
    with ahead:
        ahead.collect()
        return ahead.documents(RECORDS)


def plain() -> list[document.Prepared]:
    return document.prepare(StaticTable(), [data for _, data in RECORDS])


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_one_process_prepares_every_list(ahead: Ahead, share: float) -> None:
    for part in (RECORDS[:1000], [], RECORDS[1000:1001], RECORDS[1001:]):
        ahead.begin(part, share)
    first = ahead._process
    assert first and first.poll() is None, "it did not give up"
    assert prepared(ahead) == plain()
    assert first.poll() is not None and ahead._process is None


def test_what_is_added_waits_for_the_second_process_not_this_one(ahead: Ahead) -> None:
    ahead._start()
    assert ahead._process
    pid = ahead._process.pid
    os.kill(pid, signal.SIGSTOP)
    end = threading.Timer(20, os.kill, (pid, signal.SIGCONT))  # for one that waits here
    end.start()
    for at in range(0, 2000, 100):  # a pipe holds the first hundred
        ahead.add(RECORDS[at : at + 100])
    left = len(ahead._begun), len(ahead._waiting)
    end.cancel()
    os.kill(pid, signal.SIGCONT)
    assert left == (100, 1900), "this process did not wait for the first ones"
    assert prepared(ahead) == plain() and not ahead._waiting


def test_what_is_added_is_bounded(ahead: Ahead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead_module, "_MOST", 600)
    for at in range(0, 2000, 100):
        ahead.add(RECORDS[at : at + 100])
        assert len(ahead._waiting) < 1000
    assert prepared(ahead) == plain()
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    ahead.add(RECORDS)
    assert not ahead._waiting, "no second process will ever get them"


def test_without_a_process_everything_is_prepared_here(
    ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*words: object, **more: object) -> None:
        raise BlockingIOError

    monkeypatch.setattr(subprocess, "Popen", none_left)
    ahead.begin(RECORDS)
    assert ahead._process is None and prepared(ahead) == plain()


def test_an_interpreter_without_an_executable_prepares_everything_itself(
    ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", None)  # embedded in another program
    ahead.begin(RECORDS)
    assert ahead._process is None and prepared(ahead) == plain()


@pytest.mark.parametrize("code", ["raise SystemExit(1)", "print('said by a sitecustomize')"])
def test_a_process_that_cannot_work_is_started_once(
    ahead: Ahead, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr(ahead_module, "_CODE", code)
    started = []
    start = ahead._start
    monkeypatch.setattr(ahead, "_start", lambda: started.append(start()))
    for _ in range(3):
        ahead.begin(RECORDS)
        ahead.collect()
    assert len(started) == 1 and prepared(ahead) == plain()


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_killed_process_is_replaced_by_this_one(ahead: Ahead, when: str) -> None:
    ahead.begin(RECORDS[:1000])
    assert ahead._process
    if when == "before":
        ahead.collect()
    os.kill(ahead._process.pid, signal.SIGKILL)
    ahead.begin(RECORDS[1000:])
    assert prepared(ahead) == plain()


def test_the_process_ends_with_the_one_that_started_it() -> None:
    code = (
        "import os, signal\n"
        "from gitmem.engine import embed\nfrom gitmem.engine.ahead import Ahead\n"
        "os.cpu_count = lambda: 2\nahead = Ahead(embed.StaticTable())\n"
        "ahead.begin([(str(n), {'title': 'x'}) for n in range(2000)])\n"
        "print(ahead._process.pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=60)
    assert done.returncode == -signal.SIGKILL
    for _ in range(600):
        state = pathlib.Path(f"/proc/{int(done.stdout)}/stat")
        if not state.exists() or ") Z " in state.read_text():
            return
        time.sleep(0.1)
    pytest.fail("it lives on")
