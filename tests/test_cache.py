"""The cache changed by somebody else: no changed text is shown and no call fails; what a call does
not see the full check does.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
import shops
from conftest import Lab
from faults.harness import ALL
from places import opened
from shops import Shop, change, left_log, pages

from gitmem.engine import cache_lock

STRIDE = 1 if ALL else 9  # which pages, and of the other places how many


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[shops.Shop]:
    yield from shops.opened(tmp_path_factory)


def test_a_sound_cache_and_a_copied_one_are_not_called_damaged(shop: Shop) -> None:
    shop.restore()  # new inodes, new times
    assert not shop.must_heal("copied")


@pytest.mark.parametrize("kind", ["truncate", "zero", "garbage"])
def test_damage_at_every_page_shows_no_changed_text_and_is_seen(shop: Shop, kind: str) -> None:
    rng = random.Random(kind)
    seen = []
    for page in range(0, pages(shop), STRIDE):
        shop.restore()
        if kind == "truncate":
            with open(shop.db, "r+b") as f:
                f.truncate(page * 4096 + rng.choice([0, 0, 1, 2000]))
        else:
            change(shop.db, page * 4096, bytes(4096) if kind == "zero" else rng.randbytes(4096))
        seen.append(shop.must_survive(f"{kind} of page {page + 1}"))
    assert "call" in seen
    if kind != "truncate":  # an empty file counts as none
        assert "check" in seen


def test_a_changed_byte_anywhere_shows_no_changed_text(shop: Shop) -> None:
    rng = random.Random(5)
    for _ in range(180 // STRIDE):
        shop.restore()
        at = rng.randrange(len(shop.files[shop.db.name]))
        change(shop.db, at, bytes([shop.files[shop.db.name][at] ^ 1 << rng.randrange(8)]))
        shop.must_survive(f"bit in byte {at}")


def test_damage_under_an_open_connection_is_survived(shop: Shop) -> None:
    rng = random.Random(6)
    for page in range(0, pages(shop), STRIDE):
        shop.restore()
        shop.answers()
        change(shop.db, page * 4096, rng.randbytes(4096))
        shop.store.close_cache()
        shop.must_survive(f"page {page + 1} under an open connection")


def test_a_removed_lock_costs_nothing(shop: Shop) -> None:
    shop.restore()
    (shop.mem / (shop.db.name + ".lock")).unlink(missing_ok=True)
    assert not shop.must_heal("lock")


def test_damage_to_a_log_that_a_killed_writer_left_is_survived(shop: Shop) -> None:
    files, rng = left_log(shop), random.Random(7)
    wal = shop.db.name + "-wal"
    assert len(files[wal]) > 4096
    for case in range(108 // STRIDE):
        shop.restore()
        for name, content in files.items():
            (shop.mem / name).write_bytes(content)
        at = rng.randrange(len(files[wal]))
        if case % 3 == 0:
            os.truncate(shop.mem / wal, at)
        elif case % 3 == 1:
            change(shop.mem / wal, at, rng.randbytes(1))
        else:
            change(shop.mem / wal, at // 4120 * 4120, rng.randbytes(4120))
        shop.must_heal(f"log, case {case} at {at}")
    for page in range(0, pages(shop), STRIDE):
        shop.restore()
        for name, content in files.items():
            (shop.mem / name).write_bytes(content)
        change(shop.db, page * 4096, rng.randbytes(4096))
        shop.must_survive(f"page {page + 1} beside a log")


def test_a_log_is_cut_after_each_write_and_a_scrub_gives_space_back(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "one")
    sizes = []
    with opened(repo) as store:
        cache = store.with_cache(lambda cache: cache)[0]
        many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)"
        for statement in (
            "CREATE TABLE filler(x)",
            f"INSERT INTO filler {many} SELECT randomblob(4000) FROM n",
            "DROP TABLE filler",
        ):
            with cache.writing(1.0) as held:
                assert held
                cache.db.execute(statement)
            assert not cache_lock.has_log(cache.path)
            cache.scrub(1.0)
            assert not cache_lock.has_log(cache.path)
            sizes.append(cache_lock.size(cache.path))
    assert max(sizes[0], sizes[2]) < sizes[1]
