"""Vectors of a chosen model beside the packaged ones: made in batches, never mixed, gone with their memory."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

import pytest
from conftest import Lab

from gitmem.engine import better, check
from gitmem.engine.filters import Filter
from gitmem.memory import memories, recall
from gitmem.models import llamavec
from gitmem.store import Store, open_store

# An embedding model of two thoughts: animals and the rest; `crash` in a text ends it.
MODEL = """
import json, sys
for line in sys.stdin:
    r = json.loads(line)
    if r["op"] == "about": print(json.dumps({"dims": 8, "pooling": POOLING}), flush=True); continue
    if any("crash" in t for t in r["texts"]): sys.exit(1)
    one = lambda t: [1.0, 0, 0, 0, 0, 0, 0, 0.1] if any(w in t for w in ("cat", "dog", "hound")) else [0, 1.0, 0, 0, 0, 0, 0, 0.1]
    print(json.dumps({"vectors": [one(t) for t in r["texts"]]}), flush=True)
"""


def vectors(name: str = "animals", pooling: int = 1) -> llamavec.LlamaVectors:
    return llamavec.LlamaVectors(__file__, name, "ab" * 32, argv=[sys.executable, "-c", MODEL.replace("POOLING", str(pooling))])


@pytest.fixture
def store(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    repo = lab.repo()
    for text in ("the cat sleeps on the router", "invoices are rounded to cents", "tests run in parallel"):
        lab.mem(repo, "remember", text)
    monkeypatch.chdir(repo)
    opened = open_store(lab.env)
    yield opened
    opened.close()


def fill(store: Store, model: llamavec.LlamaVectors, most: int | None = None) -> tuple[int, int]:
    return store.with_cache(lambda cache: (better.fill(cache, model, most=most), better.missing(cache, model.space)))[0]


def test_the_backfill_goes_on_where_it_ended(store: Store) -> None:
    told: list[int] = []
    with vectors() as model:
        assert fill(store, model, most=2) == (2, 1)
        assert store.with_cache(lambda cache: better.fill(cache, model, told.append))[0] == 1
        assert fill(store, model) == (0, 0)
    assert sum(told) == 1


def test_what_was_made_before_a_crash_is_kept(store: Store, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(better, "BATCH", 1)
    lab.mem(store.repo.top, "remember", "a crash of the model")
    lab.mem(store.repo.top, "remember", "the newest is taken first")
    with vectors() as model, pytest.raises(llamavec.NoVectors, match="does not answer"):
        fill(store, model)
    with vectors() as model:
        assert store.with_cache(lambda cache: better.missing(cache, model.space))[0] == 4


def test_the_chosen_model_ranks_and_the_answer_is_not_degraded(store: Store) -> None:
    with vectors() as model:
        found = recall.recall(store, "hound", Filter(), limit=3, vectors=model)
        assert found["degraded"] is False
        assert found["hits"][0]["title"].startswith("the cat") and found["hits"][0]["retrieval"] == "vector"
        (_, hits), = recall.batch(store, [("q", "hound")], Filter(), limit=3, vectors=model)
        assert hits[0]["id"] == found["hits"][0]["id"]
        assert recall.recall(store, "hound", Filter(types=["bugfix"]), limit=3, vectors=model)["hits"] == [], "filters hold here too"


def test_while_vectors_are_missing_the_packaged_table_answers_and_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "_AT_ONCE", 1)
    with vectors() as model:
        found = recall.recall(store, "rounded invoices", Filter(), limit=3, vectors=model)
    assert found["degraded"] and "3 memories have no vector" in found["degraded_reason"]
    assert found["hits"][0]["title"].startswith("invoices")


def test_a_model_that_is_gone_costs_quality_and_no_answer(store: Store) -> None:
    dead = llamavec.LlamaVectors(__file__, "dead", "", argv=["/nonexistent"])
    found = recall.recall(store, "rounded invoices", Filter(), limit=3, vectors=dead)
    assert found["degraded"] and "does not answer" in found["degraded_reason"]
    assert found["hits"][0]["title"].startswith("invoices")
    with vectors() as model:
        fill(store, model)
        found = recall.recall(store, "crash of invoices", Filter(), limit=3, vectors=model)
    assert found["degraded"] and found["hits"][0]["title"].startswith("invoices")


def test_switching_models_never_mixes_vectors(store: Store) -> None:
    with vectors("one") as one, vectors("two", pooling=3) as two:
        assert one.space != two.space
        fill(store, one)
        assert store.with_cache(lambda cache: better.missing(cache, two.space))[0] == 3
        fill(store, two, most=1)
        spaces = lambda: store.with_cache(lambda cache: dict(cache.db.execute("SELECT space, count(*) FROM better GROUP BY space").fetchall()))[0]  # noqa: E731
        assert spaces() == {one.space: 3, two.space: 1}
        question = one.question("cat")
        assert len(store.with_cache(lambda cache: better.cosines(cache, two.space, question))[0]) == 1
        fill(store, two)
        assert spaces() == {two.space: 3}, "a finished space replaces the others"


def test_a_vector_goes_with_its_memory(store: Store) -> None:
    with vectors() as model:
        fill(store, model)
        ids = [m["id"] for m in recall.recall(store, "cat", Filter(), limit=1)["hits"]]
        memories.forget(store, ids[0], "")
        left = store.with_cache(lambda cache: (cache.db.execute("SELECT count(*) FROM better").fetchone()[0], better.missing(cache, model.space)))[0]
    assert left == (2, 0)


def test_an_edited_memory_is_embedded_anew(store: Store, lab: Lab) -> None:
    with vectors() as model:
        fill(store, model)
        id = recall.recall(store, "invoices", Filter(), limit=1)["hits"][0]["id"]
        lab.mem(store.repo.top, "edit", id, "-m", "the dog keeps the invoices")
        assert fill(store, model) == (1, 0)
        assert id in [hit["id"] for hit in recall.recall(store, "hound", Filter(), limit=3, vectors=model)["hits"][:2]], "beside the cat, which is as near"


def test_the_full_check_sees_a_damaged_vector(store: Store) -> None:
    with vectors() as model:
        fill(store, model)
    assert store.with_cache(lambda cache: check.check_all(cache, store.table))[0] == ""
    store.with_cache(lambda cache: cache.keep(5, lambda db: db.execute("UPDATE better SET v = zeroblob(8) WHERE row = 0")))
    assert "chosen model" in store.with_cache(lambda cache: check.check_all(cache, store.table))[0]


@pytest.mark.parametrize("answer", ['{"vectors": []}', '{"vectors": [[1, 2]]}', '{"vectors": [[1,2,3,4,5,6,7,"x"]]}', '{"vectors": [[1,2,3,4,5,6,7,NaN]]}', "{}"])
def test_a_broken_answer_is_told(answer: str, tmp_path: pathlib.Path) -> None:
    code = "import json, sys\nfor line in sys.stdin: print('{\"dims\": 8, \"pooling\": 1}' if '\"about\"' in line else %r, flush=True)" % answer  # noqa: UP031
    with llamavec.LlamaVectors(__file__, "m", "", argv=[sys.executable, "-c", code]) as model, pytest.raises(llamavec.NoVectors):
        model.embed(["one"])


def test_index_all_without_the_encoder_says_so(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "one")
    assert "the encoder is off" in lab.mem(repo, "index", "--all")
    assert lab.json(repo, "status")["without_better_vectors"] is None
    said = lab.run(repo, "git-mem", "recall", "one", env={"GIT_MEM_EMBED_MODEL": "all-minilm-l6-v2"})
    assert said.returncode == 0 and "was not fetched; using the packaged table" in said.stderr
