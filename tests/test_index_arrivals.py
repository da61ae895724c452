"""With git: memories that it brought are found at once, purged ones are in no file of the cache,
and a cache of another table is made anew.
"""

from __future__ import annotations

import json
import pathlib
from contextlib import closing
from typing import Any

import pytest
from conftest import Lab, until

from gitmem.core import record
from gitmem.engine import cache as cache_file
from gitmem.engine import cache_check, index
from gitmem.engine.cache import Cache
from gitmem.engine.filters import Filter
from gitmem.memory import listing, recall, remember
from gitmem.store import open_store


def drafts(count: int, word: str = "invoice") -> str:
    return "".join(
        json.dumps({"body": f"{word} number {i} is stored in cents", "source": f"{word}:{i}"})
        + "\n"
        for i in range(count)
    )


def push(lab: Lab, clone: pathlib.Path) -> None:
    lab.git(clone, "push", "-q", "origin", "refs/notes/mem/team")


def pull(lab: Lab, clone: pathlib.Path) -> None:
    lab.git(
        clone, "fetch", "-q", "origin", "+refs/notes/mem/team:refs/notes/remotes/origin/mem/team"
    )
    lab.unite(clone, "refs/notes/remotes/origin/mem/team")


def pair(lab: Lab) -> tuple[pathlib.Path, pathlib.Path]:
    seed = lab.repo("seed", 1)
    lab.git(lab.root, "clone", "-q", "--bare", str(seed), "hub.git")
    for name in "ab":
        lab.git(lab.root, "clone", "-q", "hub.git", name)
    return lab.root / "a", lab.root / "b"


def test_fifty_memories_that_stock_git_brought_a_second_ago_are_found_by_meaning(lab: Lab) -> None:
    ours, theirs = pair(lab)
    lab.mem(ours, "remember", "the retry worker uses a monotonic clock")
    push(lab, ours)
    lab.mem(ours, "list")
    pull(lab, theirs)
    lab.mem(theirs, "remember", "--jsonl", "-", stdin=drafts(49, "ledger"))
    lab.mem(theirs, "remember", "the physician prescribed antibiotics against the infection")
    push(lab, theirs)
    pull(lab, ours)
    answer = lab.json(ours, "recall", "doctor gave medicine", "--hot", rc=(0, 1))
    assert not answer["degraded"] and answer["searched"] == 51
    assert (
        answer["hits"][0]["body"].startswith("the physician")
        and answer["hits"][0]["retrieval"] == "vector"
    )


def test_more_than_two_hundred_answer_degraded_while_a_process_catches_up(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "the retry worker uses a monotonic clock")
    lab.mem(repo, "list")
    clone = lab.root / "clone"
    lab.git(lab.root, "clone", "-q", str(repo), "clone")
    lab.git(clone, "fetch", "-q", "origin", "refs/notes/mem/team:refs/notes/mem/team")
    lab.mem(clone, "remember", "--jsonl", "-", stdin=drafts(201))
    lab.git(repo, "fetch", "-q", str(clone), "refs/notes/mem/team:refs/notes/mem/team")
    answer = lab.json(repo, "recall", "which clock does the worker use", "--hot", rc=(0, 1))
    assert (
        answer["degraded"]
        and answer["degraded_reason"]
        and answer["searched"] == 1
        and answer["hits"]
    )

    def count() -> int:
        opened = cache_file.open_cache(str(repo / ".git" / "mem"), create=False)
        assert opened
        with closing(opened):
            return opened.count()

    until(lambda: count() == 202)
    answer = lab.json(repo, "recall", "which clock does the worker use", "--hot", rc=(0, 1))
    assert not answer["degraded"] and answer["searched"] == 202


def test_exactly_two_hundred_are_taken_in_on_the_spot(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "the retry worker uses a monotonic clock")
    lab.mem(repo, "list")
    store = open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo))
    remember.remember(store, [json.loads(line) for line in drafts(200).splitlines()])
    store.close()
    answer = lab.json(repo, "recall", "invoice cents", "--hot", rc=(0, 1))
    assert not answer["degraded"] and answer["searched"] == 201


def files_with(repo: pathlib.Path, *needles: bytes) -> list[str]:
    return [
        p.name
        for p in (repo / ".git" / "mem").iterdir()
        for needle in needles
        if needle in p.read_bytes().lower()
    ]


def test_after_a_purge_record_the_text_is_in_no_file_of_the_cache(lab: Lab) -> None:
    repo = lab.repo()
    store = open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo))
    secret = "xylophone zanzibar quetzalcoatl"
    id = remember.remember(
        store,
        [
            {
                "body": secret + " is the codename",
                "tags": ["wolpertinger"],
                "paths": ["vault/kryptonite.txt"],
            }
        ],
    )[0].id
    remember.remember(store, [json.loads(line) for line in drafts(120).splitlines()])
    listing.list_memories(store, Filter())
    remember.remember(store, [json.loads(line) for line in drafts(30, "order").splitlines()])
    listing.list_memories(store, Filter())
    needles = (b"xylophon", b"zanzibar", b"quetzalcoatl", b"wolpertinger", b"kryptonit")
    assert files_with(repo, *needles)
    store.team.append(
        [("", record.dump({"v": 1, "op": "purge", "id": id, "at": record.now(), "n": "0"}))],
        "purge",
        "A <a@b>",
    )
    found = recall.recall(store, "xylophone zanzibar", Filter(), limit=5)
    assert id not in [h["id"] for h in found["hits"]]
    assert files_with(repo, *needles) == []
    assert store._cache and cache_check.check_all(store._cache, store.table) == ""
    # Built anew, the line is still in the notes: it stays out.
    store.discard()
    assert id not in [m["id"] for m in listing.list_memories(store, Filter(), all_branches=True)[0]]
    assert files_with(repo, *needles) == []
    store.close()
    assert files_with(repo, *needles) == []


def test_a_purge_whose_scrub_failed_is_scrubbed_by_the_next_call(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    store = open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo))
    id = remember.remember(store, [{"body": "xylophone zanzibar"}, {"body": "something else"}])[
        0
    ].id
    listing.list_memories(store, Filter())
    store.team.append(
        [("", record.dump({"v": 1, "op": "purge", "id": id, "at": record.now(), "n": "0"}))],
        "purge",
        "A <a@b>",
    )
    with monkeypatch.context() as patch:
        patch.setattr(Cache, "scrub", lambda self, wait: None)
        listing.list_memories(store, Filter())
    listing.list_memories(store, Filter())
    store.close()
    assert files_with(repo, b"zanzibar") == []


def test_an_update_that_waited_for_a_newer_one_leaves_nothing_to_be_read_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "the retry worker uses a monotonic clock")
    read = index._read

    def slow(*how: Any) -> list[tuple[str, bytes, int]] | None:
        monkeypatch.setattr(index, "_read", read)
        lines = read(*how)
        lab.mem(repo, "remember", "invoices are stored in cents")
        lab.mem(repo, "list")
        return lines

    monkeypatch.setattr(index, "_read", slow)
    with closing(open_store(lab.env, str(repo))) as store:
        store.with_cache(lambda cache: None)
        cache = store.with_cache(lambda cache: cache, refresh=False)[0]
        assert index.pending(cache, store.sources) == []
        assert len(listing.list_memories(store, Filter())[0]) == 2


def test_a_cache_of_another_embedding_table_is_made_anew(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, environ = str(lab.repo()), {"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}
    with closing(open_store(environ, repo)) as store:
        remember.remember(store, [json.loads(line) for line in drafts(30).splitlines()])
        listing.list_memories(store, Filter())
        assert store._cache
        store._cache.db.execute(
            "UPDATE model_vector SET crc = -1"
        )  # reading one of them would raise
    monkeypatch.setattr(cache_file, "LAYOUT", cache_file.LAYOUT + 1)
    with closing(open_store(environ, repo)) as store:
        answer = recall.recall(store, "invoice 7 cents", Filter(), limit=3)
        assert answer["hits"][0]["explain"]["cosine"] is not None and not answer["degraded"]
