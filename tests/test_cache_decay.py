"""Rows that a mistake of ours made wrong: the full check finds them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import shops
from shops import Shop

from gitmem import worker
from gitmem.doctor import memory_checks
from gitmem.engine import cache as cache_file
from gitmem.engine import cache_check, model_vectors


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[shops.Shop]:
    yield from shops.opened(tmp_path_factory)


TAMPER = {
    "memory type": "UPDATE memory SET type = 'other' WHERE row = 3",
    "memory status": "UPDATE memory SET status = 1 WHERE row = 3",
    "memory at": "UPDATE memory SET at = '1999' WHERE row = 3",
    "memory scope": "UPDATE memory SET scope = 2 WHERE row = 3",
    "memory digest": "UPDATE memory SET digest = x'00' WHERE row = 3",
    "memory gone": "DELETE FROM memory WHERE row = 3",
    "label": "UPDATE label SET value = value || 'x' WHERE row = 3",
    "term": "UPDATE term SET df = df + 1 WHERE word = 'invoic' OR word = 'invoice'",
    "term gone": "DELETE FROM term WHERE word = (SELECT max(word) FROM term)",
    "fts missing": "DELETE FROM fts_docsize WHERE id = 3",
    "fts more": "INSERT INTO fts(rowid, title, body, extra) VALUES(9999, 'a', 'b', 'c')",
    "vector": "UPDATE model_vector SET v = zeroblob(length(v)), crc = 0 WHERE row = 3",
    "vector gone": "DELETE FROM model_vector WHERE row = 3",
    "code": "UPDATE model_code SET codes = zeroblob(length(codes))",
    "cover": "DELETE FROM cover",
    "line": (
        "UPDATE line SET raw = CAST(replace(CAST(raw AS TEXT), 'number', 'bumber') AS BLOB) WHERE"
        " n = 3"
    ),
    "line of another kind": "UPDATE line SET raw = 'text' WHERE n = 3",
    "line op": "UPDATE line SET op = 'forget' WHERE n = 3",
    "count": "UPDATE meta SET value = '7' WHERE key = 'count'",
}


@pytest.mark.parametrize("what", sorted(TAMPER))
def test_the_full_check_finds_rows_that_differ_from_their_lines(shop: Shop, what: str) -> None:
    shop.restore()
    opened = cache_file.open_cache(str(shop.mem))
    assert opened and cache_check.check_all(opened, shop.store.table) == ""
    with opened.writing(1.0):
        assert opened.db.execute(TAMPER[what]).rowcount > 0
    assert cache_check.check_all(opened, shop.store.table) != ""
    opened.close()


def test_vector_with_a_right_checksum_but_of_another_text_is_found_with_the_table(
    shop: Shop,
) -> None:
    shop.restore()
    opened = cache_file.open_cache(str(shop.mem))
    assert opened
    with opened.writing(1.0):
        space = cache_file.SPACE
        model_vectors.put(opened.db, space, {3: model_vectors.of(opened, space, [4])[0][4]})
    assert "differs from its text" in cache_check.check_all(opened, shop.store.table)
    opened.close()


def test_a_cache_too_large_for_a_copy_is_not_called_damaged(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker, which has a limit, would throw a sound one away every day."""

    tried = []

    def short_of_memory(cache: object) -> None:
        tried.append(cache)
        raise MemoryError

    shop.restore()
    monkeypatch.setattr(cache_check, "copied_in_memory", short_of_memory)
    before = shop.db.stat().st_ino
    worker._check(shop.store)
    assert len(tried) == 1
    assert (shop.mem / "checked").exists() and shop.db.stat().st_ino == before
    (finding,) = memory_checks.cached(shop.store)
    assert finding.level == "ok" and "memory is too short" in finding.text
