"""Documents that a second process prepares: none is prepared twice, and the rows are the same."""

from __future__ import annotations

import os
import pathlib
import threading
from typing import Any

import pytest
from conftest import Lab
from places import opened

from gitmem.engine import document, index
from gitmem.engine.cache import Cache
from gitmem.memory import commit_hits
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
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # another test may have left some
    monkeypatch.setattr(document, "prepare", counted)
    monkeypatch.setattr(document, "_FORK_PAYS", 4)
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
        monkeypatch.setattr(document, "_FORK_PAYS", 1000)
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
