"""Nearness by vectors: sign codes choose, cosines rank, hubs are put back; the same in a rebuilt
cache, and without numpy.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from gitmem.engine import hamming, hubness, model_vectors, nearness
from gitmem.engine.cache import Cache, open_in_memory

SPACE = "some-space"


def some(count: int, dims: int = 64, seed: int = 1) -> dict[int, bytes]:
    """Vectors around forty middles, as those of texts are, from row 5 on."""
    rng = np.random.default_rng(seed)
    middles = np.random.default_rng(9).normal(size=(40, dims))
    made = middles[rng.integers(0, 40, count)] + 0.9 * rng.normal(size=(count, dims))
    packed = np.round(made * 127 / np.abs(made).max(axis=1, keepdims=True)).astype(np.int8)
    return {row: vector.tobytes() for row, vector in enumerate(packed, 5)}


def cache_of(vectors: dict[int, bytes], count: int = 0) -> Cache:
    """A cache of these vectors, as if it had so many memories; their company is known."""
    cache = open_in_memory()
    model_vectors.put(cache.db, SPACE, vectors)
    cache.set_meta("count", str(count or len(vectors)))
    cache.db.executemany(
        "INSERT INTO memory(row, nth, id, line, status, scope) VALUES(?, 0, ?, ?, 0, 1)",
        [(row, v.hex(), row) for row, v in vectors.items()],
    )
    hubness.refresh(cache, SPACE)
    return cache


QUESTION = some(1, seed=2)[5]


def ask(
    cache: Cache,
    question: bytes = QUESTION,
    allowed: list[int] | None = None,
    lexical: tuple[int, ...] = (),
    beside: dict[int, bytes] | None = None,
) -> tuple[dict[int, float], dict[int, float]]:
    vectors = nearness.Vectors(cache, SPACE, len(question), allowed, lexical)
    return vectors.nearest(question, beside or {})


def exact(vectors: dict[int, bytes], question: bytes = QUESTION) -> dict[int, float]:
    return {row: c for c, row in hamming.rescore(vectors, question, sorted(vectors))}


def test_in_a_store_of_few_nearness_is_the_cosine_of_all() -> None:
    vectors = some(40)
    near, cosines = ask(cache_of(vectors))
    assert near == cosines == exact(vectors)
    assert list(near.values()) == sorted(near.values(), reverse=True)


def test_of_many_the_codes_choose_and_what_they_choose_is_ranked_exactly() -> None:
    vectors = some(3000)
    wanted = exact(vectors)
    _, cosines = ask(cache_of(vectors))
    assert len(cosines) == nearness.CLOSEST
    assert cosines == {row: wanted[row] for row in cosines}
    assert set(list(wanted)[:10]) <= set(cosines)


def test_it_keeps_to_the_rows_that_are_allowed_and_scores_those_asked_for() -> None:
    vectors = some(3000)
    wanted = exact(vectors)
    last = list(wanted)[-1]
    cache = cache_of(vectors)
    near, _ = ask(cache, QUESTION, sorted({5, 6, 7, last, 9999}), (6, last))
    assert set(near) == {5, 6, 7, last}
    _, cosines = ask(cache, QUESTION, None, (last,))
    assert cosines[last] == wanted[last] and len(cosines) == nearness.CLOSEST + 1


def test_vectors_beside_take_part_where_they_are_allowed() -> None:
    cache = cache_of(some(150))
    near, cosines = ask(cache, QUESTION, None, (), {9000: QUESTION})
    assert next(iter(near)) == 9000 and cosines[9000] == pytest.approx(1)
    assert near[9000] == pytest.approx(1 - nearness.HUB * nearness.COMPANY)
    assert 9000 not in ask(cache, QUESTION, [5, 6], (), {9000: QUESTION})[0]


def test_a_question_without_a_known_word_is_near_nothing() -> None:
    assert ask(cache_of(some(5)), bytes(64)) == ({}, {})


def test_it_is_the_same_whatever_the_rows_are_called() -> None:
    vectors = some(2000)
    turned = {3000 - row: vectors[row] for row in sorted(vectors, reverse=True)}
    one, two = (ask(cache_of(v))[0] for v in (vectors, turned))
    assert {3000 - row: score for row, score in two.items()} == pytest.approx(one, abs=1e-6)


def test_of_codes_as_far_as_the_last_ids_decide_not_row_numbers() -> None:
    """All codes are alike, their cosines are not: a rebuilt cache chooses the same."""
    ups = [bytes(np.roll(range(1, 65), n).astype(np.int8)) for n in range(64)]
    texts = [up[:n] + bytes([100]) + up[n + 1 :] for up in ups for n in range(0, 64, 6)]
    vectors = dict(enumerate(texts, 5))
    turned = {1000 - row: v for row, v in vectors.items()}
    found = [[v[row] for row in ask(cache_of(v), ups[0])[0]] for v in (vectors, turned)]
    assert found[0] == found[1] and len(found[0]) == nearness.CLOSEST < len(texts)


def test_memories_whose_neighbours_are_not_known_have_what_most_have() -> None:
    few = some(20)
    cache = open_in_memory()
    model_vectors.put(cache.db, SPACE, few)
    cache.set_meta("count", "3000")
    near, cosines = ask(cache)
    taken = nearness.HUB * nearness.COMPANY
    assert near == pytest.approx({row: c - taken for row, c in cosines.items()}, abs=1e-6)


def test_what_a_hub_has_with_everything_is_taken_off() -> None:
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

    vectors = {row: packed(v) for row, v in enumerate([middle, alone, *crowd])}
    found, cosines = ask(cache_of(vectors), packed(question))
    assert next(iter(found)) == 1
    assert abs(cosines[0] - cosines[1]) < 0.02, (
        "only what they have with the others sets them apart"
    )


def test_it_loads_no_numpy() -> None:
    code = (
        "import sys; from gitmem.engine import model_vectors, nearness; from gitmem.engine.cache"
        " import open_in_memory; c = open_in_memory(); v = bytes(range(1, 65));"
        " model_vectors.put(c.db, 's', {1: v}); assert nearness.Vectors(c, 's', 64, None,"
        " ()).nearest(v, {})[0];"
        " print([m for m in sys.modules if m.startswith('numpy')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_cosines_of_a_chosen_model_are_brought_to_the_scale_of_the_encoder() -> None:
    """A model whose vectors all lie close together ranks and measures like one without the lean."""
    plain = some(400)

    def lean(v: bytes) -> bytes:
        return (np.frombuffer(v, np.int8) // 2 + 10).astype(np.int8).tobytes()

    leaning, question = {row: lean(v) for row, v in plain.items()}, lean(QUESTION)

    def chosen(vectors: dict[int, bytes], asked: bytes) -> dict[int, float]:
        near = nearness.Vectors(cache_of(vectors), SPACE, len(asked), None, [], chosen=True)
        assert near.comparable
        return near.nearest(asked, {})[1]

    assert np.median(list(exact(leaning, question).values())) > 0.1, "as they come"
    best = sorted(chosen(plain, QUESTION).items(), key=lambda pair: -pair[1])[:10]
    found = chosen(leaning, question)
    assert [found[row] for row, _ in best] == pytest.approx([c for _, c in best], abs=0.1)
    other = chosen({row: v[::-1] for row, v in plain.items()}, QUESTION)
    assert max(other.values()) < 0.5 < best[0][1], "a question that nothing answers"


def test_memories_that_say_the_same_are_one_for_the_scale_of_a_chosen_model() -> None:
    """Releases are as far from every question and as near to each other: by their median and
    spread any other memory would stand out as the answer.
    """
    rng = np.random.default_rng(3)
    release = rng.normal(size=64)
    near = np.round(60 * release / np.abs(release).max() + 2 * rng.normal(size=(300, 64)))
    releases = {row: v.tobytes() for row, v in enumerate(near.astype(np.int8), 1000)}

    def asked(vectors: dict[int, bytes]) -> tuple[bool, dict[int, float]]:
        found = nearness.Vectors(cache_of(vectors), SPACE, 64, None, [], chosen=True)
        return found.comparable, found.nearest(QUESTION, {})[1]

    alone, plain = asked(some(150))
    both, found = asked({**some(150), **releases})
    assert alone and both
    best = list(plain)[:10]
    assert [found[row] for row in best] == pytest.approx([plain[row] for row in best], abs=0.05)
    few, _ = asked({**some(nearness.LEAST - 5), **releases})
    assert not few, "too few memories remain to compare with"


def test_in_a_store_of_few_a_chosen_models_cosines_are_only_moved() -> None:
    vectors = some(nearness.LEAST - 1)
    near = nearness.Vectors(cache_of(vectors), SPACE, 64, None, [], chosen=True)
    assert not near.comparable
    found, own = near.nearest(QUESTION, {})[1], exact(vectors)
    moved = [found[row] - own[row] for row in own]
    assert list(found) == list(own) and moved == pytest.approx([moved[0]] * len(moved))
