"""What each vector has with its neighbours: by its definition, and kept so by little work."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from test_nearness import SPACE, cache_of, some

from gitmem.engine import hubness, model_vectors
from gitmem.engine.cache import CHUNK, Cache


def companies(cache: Cache) -> dict[int, float]:
    stored = model_vectors.codes(cache, SPACE, 64)
    return {row: stored.company[row] for row, there in enumerate(stored.held) if there}


def by_definition(vectors: dict[int, bytes]) -> dict[int, float]:
    rows = sorted(vectors)
    raw = np.array([np.frombuffer(vectors[row], np.int8) for row in rows], float)
    units = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    sample = sorted(range(len(rows)), key=lambda at: vectors[rows[at]])[: hubness.SAMPLE]
    out = {}
    for at, row in enumerate(rows):
        others = sorted((units[at] @ units[o] for o in sample if o != at), reverse=True)
        out[row] = sum(others[: hubness.NEIGHBOURS]) / hubness.NEIGHBOURS
    return out


def test_it_is_what_the_definition_says_over_several_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hubness, "SAMPLE", 300)
    vectors = some(CHUNK + 300)
    for row in range(700, 900):
        del vectors[row]
    assert companies(cache_of(vectors)) == pytest.approx(by_definition(vectors), abs=1e-5)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """The vectors whose company was computed."""
    found: list[bytes] = []
    company = hubness._company

    def noted(chosen: list[bytes], *more: object) -> object:
        found.extend(chosen)
        return company(chosen, *more)

    monkeypatch.setattr(hubness, "_company", noted)
    return found


def put(cache: Cache, vectors: dict[int, bytes]) -> None:
    assert cache.keep(1, lambda db: model_vectors.put(db, SPACE, vectors))


def test_a_second_look_that_has_begun_leaves_the_first_its_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`index --all` beside a worker, which yields to everything."""
    vectors = some(200)
    last = dict([vectors.popitem()])
    cache = cache_of(vectors)
    put(cache, last)
    scale = hubness._scale

    def stopped(chosen: list[tuple[bytes, int]]) -> str:
        raise KeyboardInterrupt

    def beside(chosen: list[tuple[bytes, int]]) -> str:
        monkeypatch.setattr(hubness, "_scale", stopped)
        with pytest.raises(KeyboardInterrupt):
            hubness.refresh(cache, SPACE)
        return scale(chosen)

    monkeypatch.setattr(hubness, "_scale", beside)
    hubness.refresh(cache, SPACE)
    assert all(companies(cache).values()) and cache.meta(model_vectors.HUBS + SPACE) == "done"


def test_only_new_vectors_are_looked_at_while_the_sample_is_the_same(
    looked_at: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubness, "SAMPLE", 100)
    vectors = some(400)
    cache = cache_of(vectors)
    assert sorted(looked_at) == sorted(vectors.values())
    looked_at.clear()
    hubness.refresh(cache, SPACE)
    assert not looked_at, "nothing has changed"

    last = max(vectors.values())  # beside it: no sample has it
    new = {2000: last[:-1] + bytes([last[-1] ^ 1])}
    put(cache, new)
    hubness.refresh(cache, SPACE)
    assert looked_at == list(new.values())
    assert companies(cache) == pytest.approx(by_definition(vectors | new), abs=1e-5)


def test_a_sample_that_changed_is_asked_anew_for_all(
    looked_at: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubness, "SAMPLE", 100)
    vectors = some(400)
    cache = cache_of(vectors)
    looked_at.clear()
    first = min(vectors, key=vectors.__getitem__)
    put(cache, {first: b""})
    del vectors[first]
    hubness.refresh(cache, SPACE)
    assert sorted(looked_at) == sorted(vectors.values())
    assert companies(cache) == pytest.approx(by_definition(vectors), abs=1e-5)


def test_what_changed_meanwhile_is_left_to_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = some(200)
    cache = cache_of(vectors)
    new, other = some(2, seed=3).values()
    made = hubness._made

    def slowly(*given: object, **more: object) -> Iterator[tuple[int, bytes]]:
        found = list(made(*given, **more))  # type: ignore[arg-type]
        put(cache, {6: new})
        return iter(found)

    put(cache, {700: other})
    monkeypatch.setattr(hubness, "_made", slowly)
    hubness.refresh(cache, SPACE)
    assert companies(cache)[6] == companies(cache)[700] == 0, "of other vectors than these"
    monkeypatch.setattr(hubness, "_made", made)
    hubness.refresh(cache, SPACE)
    wanted = by_definition({**vectors, 6: new, 700: other})
    assert companies(cache) == pytest.approx(wanted, abs=1e-5)


def test_few_vectors_have_no_neighbours_to_speak_of() -> None:
    assert set(companies(cache_of(some(20))).values()) == {0.0}


def test_it_needs_no_more_than_the_core_of_numpy() -> None:
    code = (
        "import sys, random; from gitmem.engine import hubness, model_vectors; from"
        " gitmem.engine.cache import open_in_memory; c = open_in_memory(); r = random.Random(1);"
        " model_vectors.put(c.db, 's', {n: r.randbytes(64) for n in range(200)});"
        " hubness.refresh(c, 's'); assert model_vectors.codes(c, 's', 64).company[7] != 0;"
        " print(len([m for m in sys.modules if m.startswith('numpy')]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20


def test_it_does_not_depend_on_rows_or_on_what_is_looked_at_together() -> None:
    """A rebuilt cache has other rows, and was filled in other portions. Two vectors are alike."""
    vectors = some(300)
    vectors[900] = vectors[7]
    turned = {1000 - row: v for row, v in vectors.items()}
    whole, late = cache_of(vectors), cache_of(dict(list(turned.items())[:250]))
    put(late, dict(list(turned.items())[250:]))
    hubness.refresh(late, SPACE)
    assert companies(whole) == {1000 - row: own for row, own in companies(late).items()}


def test_median_and_spread_of_their_cosines_are_those_of_the_definition() -> None:
    vectors = some(150)
    cache = cache_of(vectors)
    raw = np.array([np.frombuffer(v, np.int8) for v in vectors.values()], float)
    units = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    cosines = units @ units.T
    middles = np.sort(cosines, axis=1)[:, 75]
    away = np.sort(abs(cosines - middles[:, None]), axis=1)[:, 75]
    found = [float(n) for n in cache.meta(model_vectors.SCALE + SPACE).split()[:2]]
    assert found == pytest.approx([middles.mean(), 1.4826 * away.mean()], abs=1e-3)
    assert cache_of(some(10)).meta(model_vectors.SCALE + SPACE) == ""
