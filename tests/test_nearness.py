"""Nearness by the encoder's vectors: exact, hubs put back, the same in a rebuilt cache, and with
numpy's core alone.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from gitmem.engine import encoding, hamming, model_vectors, nearness
from gitmem.engine.cache import Cache, open_in_memory


def some(count: int, dims: int = 32, seed: int = 1) -> dict[int, bytes]:
    made = np.random.default_rng(seed).integers(-127, 128, (count, dims), np.int8)
    return {row: vector.tobytes() for row, vector in enumerate(made, 5)}


def ask(
    store: dict[int, bytes],
    question: bytes,
    allowed: set[int] | None,
    always: tuple[int, ...] | list[int],
    most: int,
) -> dict[int, float]:
    return nearness.nearest(chunks(store), question, allowed, always, most)[0]


def chunks(store: dict[int, bytes]) -> Iterator[tuple[int, bytes, bytes]]:
    """As the cache has them, with places that are empty."""
    zeros = bytes(len(next(iter(store.values()))))
    for first in range(0, max(store) + 1, model_vectors.CHUNK):
        rows = range(first, first + model_vectors.CHUNK)
        yield (
            first,
            bytes(row in store for row in rows),
            b"".join(store.get(row, zeros) for row in rows),
        )


def test_nearest_of_a_small_store_are_plain_cosines() -> None:
    store, question = some(40), some(1, seed=2)[5]
    found = ask(store, question, None, (), 10)
    exact = hamming.rescore(store, question, sorted(store))[: len(found)]
    assert len(found) == 20 and [row for _, row in exact] == list(found)
    assert all(abs(found[row] - cosine) < 1e-6 for cosine, row in exact)


def test_nearest_takes_off_what_a_hub_has_with_everything() -> None:
    """A vector in the middle of many others goes behind one that is as near to the question and to
    nothing else.
    """
    rng = np.random.default_rng(3)
    middle = rng.normal(size=64)
    crowd = [middle + rng.normal(size=64) * 0.5 for _ in range(200)]
    question = middle + 0.3 * rng.normal(size=64)
    question /= np.linalg.norm(question)
    side = rng.normal(size=64)
    side -= question * (side @ question)
    near = float(middle @ question / np.linalg.norm(middle))
    alone = near * question + (1 - near**2) ** 0.5 * side / np.linalg.norm(side)

    def packed(vector: np.ndarray) -> bytes:
        return bytes(np.round(vector * 127 / np.abs(vector).max()).astype(np.int8))

    store = {row: packed(v) for row, v in enumerate([middle, alone, *crowd])}
    assert next(iter(ask(store, packed(question), None, (), 10))) == 1
    plain = {row: cosine for cosine, row in hamming.rescore(store, packed(question), [0, 1])}
    assert abs(plain[0] - plain[1]) < 0.02, "only what they have with the others sets them apart"


def test_nearest_keeps_to_the_rows_that_are_allowed_and_names_those_asked_for() -> None:
    store, question = some(150), some(1, seed=2)[5]
    found = ask(store, question, {5, 6, 7, 150}, [7, 9], 1)
    assert set(found) <= {5, 6, 7, 150} and 7 in found


def test_nearest_is_the_same_whatever_the_rows_are_called() -> None:
    store, question = some(300), some(1, seed=2)[5]
    turned = {1000 - row: store[row] for row in sorted(store, reverse=True)}
    one, two = (ask(s, question, None, (), 20) for s in (store, turned))
    assert {1000 - row: score for row, score in two.items()} == pytest.approx(one, abs=1e-6)


def test_nearest_says_the_cosines_before_hubs_are_put_back_too() -> None:
    store, question = some(150), some(1, seed=2)[5]
    near, cosines = nearness.nearest(chunks(store), question, None, (), 10)
    exact = {row: cosine for cosine, row in hamming.rescore(store, question, list(near))}
    assert cosines == pytest.approx(exact, abs=1e-6) and near != pytest.approx(exact, abs=1e-3)


def test_nearest_of_few_vectors_of_a_large_store_are_as_near_as_among_all() -> None:
    """Their neighbours have no vector yet: what most memories have with theirs is taken off."""
    store, question = some(5), some(1, seed=2)[5]
    small, large = (
        nearness.nearest(chunks(store), question, None, (), 5, count=count)[0]
        for count in (5, 3000)
    )
    taken = nearness.HUB * nearness.COMPANY
    assert large == pytest.approx({row: near - taken for row, near in small.items()}, abs=1e-6)


def all_at_once(
    store: dict[int, bytes], question: bytes, allowed: set[int] | None, always: list[int], most: int
) -> tuple[dict[int, float], dict[int, float]]:
    """The definition, with all vectors in one array."""
    rows = sorted(store)
    raw = np.frombuffer(b"".join(store[row] for row in rows), np.int8).reshape(len(rows), -1)
    units = raw / np.linalg.norm(raw.astype(float), axis=1, keepdims=True)
    asked = np.frombuffer(question, np.int8).astype(float)
    cosines = units @ (asked / np.linalg.norm(asked))
    order = [
        at for at in np.argsort(-cosines, kind="stable") if allowed is None or rows[at] in allowed
    ]
    chosen = order[: 2 * most] + [at for at in order[2 * most :] if rows[at] in always]
    sample = sorted(range(len(rows)), key=lambda at: store[rows[at]][:8])[: nearness.SAMPLE]
    near = {}
    for at in chosen:
        beside = sorted((units[at] @ units[other] for other in sample if other != at), reverse=True)
        near[rows[at]] = (
            cosines[at] - nearness.HUB * sum(beside[: nearness.NEIGHBOURS]) / nearness.NEIGHBOURS
        )
    return near, {rows[at]: cosines[at] for at in chosen}


@pytest.mark.parametrize("part", [1, nearness._PART])
@pytest.mark.parametrize("few", [False, True])
def test_nearest_by_chunks_is_what_all_at_once_would_be(
    part: int, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many chunks, some places empty, some vectors beside the store's, a sample of the store."""
    monkeypatch.setattr(nearness, "_PART", part)
    monkeypatch.setattr(nearness, "SAMPLE", 300)
    store, question = some(2600), some(1, seed=2)[5]
    for row in [*range(700, 1100), 5, 9, 2000]:
        del store[row]
    beside = {row: some(1, seed=row)[5] for row in (800, 9)}
    allowed = {row for row in {**store, **beside} if row % 7 < 3 or row == 9} if few else None
    always = [row for row in (6, 9, 800, 2100) if allowed is None or row in allowed] + [100_000]
    found = nearness.nearest(chunks(store), question, allowed, always, 15, beside)
    wanted = all_at_once({**store, **beside}, question, allowed, always, 15)
    for one, two in zip(found, wanted, strict=True):
        assert one == pytest.approx(two, abs=1e-5)
    assert list(found[0].values()) == sorted(found[0].values(), reverse=True)
    assert set(always) - {100_000} <= set(found[0])


def test_nearest_of_equal_cosines_takes_the_lower_rows() -> None:
    one = some(1)[5]
    store = dict.fromkeys(range(2000), one)
    _, cosines = nearness.nearest(chunks(store), one, None, (), 10)
    assert list(cosines) == list(range(20)) and len(set(cosines.values())) == 1


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> tuple[Cache, np.ndarray]:
    """A cache that counts as too large for all vectors to be compared, and these: forty crowds."""
    rng = np.random.default_rng(7)
    made = rng.normal(size=(40, 384))[rng.integers(0, 40, 3000)] + 0.9 * rng.normal(
        size=(3000, 384)
    )
    packed = np.round(made * 127 / np.abs(made).max(axis=1, keepdims=True)).astype(np.int8)
    cache = open_in_memory()
    for first in range(0, len(packed), model_vectors.CHUNK):
        vectors = [vector.tobytes() for vector in packed[first : first + model_vectors.CHUNK]]
        model_vectors.put(
            cache.db, encoding.space()[0], first // model_vectors.CHUNK, dict(enumerate(vectors))
        )
    monkeypatch.setattr(encoding, "EXACT", 2999)
    monkeypatch.setattr(nearness, "SAMPLE", 200)
    monkeypatch.setattr(nearness, "CLOSEST", 300)
    cache.set_meta("count", "3000")
    return cache, packed


def test_in_a_very_large_store_sign_codes_choose_and_cosines_rank(
    large: tuple[Cache, np.ndarray],
) -> None:
    cache, packed = large
    company: dict[int, float] = {}
    seen = 0
    for of in range(0, 3000, 100):
        question = packed[of].tobytes()
        near, cosines = encoding.nearest(cache, question, None, (), 50, {})
        scored = hamming.rescore(lambda row: packed[row].tobytes(), question, range(3000))
        exact = {row: cosine for cosine, row in scored}
        no_guess = {row: exact[row] for row in cosines}
        assert cosines == pytest.approx(no_guess, abs=1e-6)
        assert set(list(exact)[:10]) <= set(cosines)
        assert set(near) == set(cosines) and len(near) == 100
        for row, cosine in cosines.items():
            seen += row in company
            same = company.setdefault(row, cosine - near[row])
            assert cosine - near[row] == pytest.approx(same, abs=1e-5), "told by one sample"
    assert seen > 100


def test_in_a_very_large_store_conditions_hold_and_lexical_hits_are_scored(
    large: tuple[Cache, np.ndarray],
) -> None:
    cache, packed = large
    question = packed[5].tobytes()
    allowed = set(range(0, 3000, 3))
    near, cosines = encoding.nearest(
        cache, question, allowed, [9, 10, 2997], 20, {3001: question, 3003: question}
    )
    assert set(near) <= allowed and {9, 2997} <= set(near)
    near, cosines = encoding.nearest(
        cache, question, allowed | {3003}, [9, 10, 2997], 20, {3001: question, 3003: question}
    )
    assert next(iter(cosines)) == 3003 and 3001 not in near
    exact = {
        row: cosine
        for cosine, row in hamming.rescore(
            lambda row: packed[row].tobytes(), question, sorted(allowed)
        )
    }
    assert set(list(exact)[:10]) <= set(near)


def test_it_needs_no_more_than_the_core_of_numpy() -> None:
    code = (
        "import sys, random; from gitmem.engine import nearness; r = random.Random(1); d ="
        " r.randbytes(384 * 300).replace(b'\\x80', b'a');q = d[:384]; parts = [(0, b'\\1' * 300,"
        " d)];assert all(nearness.nearest(parts, q, {1, 2}, [7], 5, {400: q}));assert"
        " nearness.sifted([(0, b'\\1' * 128, d[:48 * 128])], d[:48], {1, 2, 3},"
        " [7])[1];print(len([m for m in sys.modules if m.startswith('numpy')]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20
