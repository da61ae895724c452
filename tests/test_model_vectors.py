"""Vectors of a chosen model beside the packaged ones: made in batches, never mixed, gone with their
memory.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from conftest import Lab

from gitmem import worker
from gitmem.engine import cache_check, encoding, hubness, model_vectors, nearness
from gitmem.engine.cache import SPACE, Cache, Connection, Damaged
from gitmem.engine.filters import Filter
from gitmem.engine.int8_vectors import sign_code
from gitmem.memory import memories, recall
from gitmem.models import chosen, llamavec
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
"""  # noqa: E501


def vectors(name: str = "animals", pooling: int = 1) -> llamavec.LlamaVectors:
    return llamavec.LlamaVectors(
        __file__,
        name,
        "ab" * 32,
        argv=[sys.executable, "-c", MODEL.replace("POOLING", str(pooling))],
    )


@pytest.fixture
def store(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    repo = lab.repo()
    for text in (
        "the cat sleeps on the router",
        "invoices are rounded to cents",
        "tests run in parallel",
    ):
        lab.mem(repo, "remember", text)
    monkeypatch.chdir(repo)
    opened = open_store(lab.env)
    yield opened
    opened.close()


def fill(store: Store, model: llamavec.LlamaVectors, **how: int) -> tuple[int, int]:
    return store.with_cache(
        lambda cache: (
            model_vectors.fill(cache, model, **how),
            model_vectors.missing(cache, model.space),
        )
    )[0]


def cosines(cache: Cache, space: str, question: bytes) -> dict[int, float]:
    """{row: cosine}."""
    return nearness.Vectors(cache, space, len(question), None, []).nearest(question, {})[1]


def held(store: Store) -> dict[str, int]:
    """How many vectors each space has, beside the packaged table's."""
    sql = f"SELECT space, held FROM model_code WHERE space <> '{SPACE}'"
    out: dict[str, int] = {}
    for space, marks in store.with_cache(lambda cache: cache.db.execute(sql).fetchall())[0]:
        out[space] = out.get(space, 0) + sum(marks)
    return out


def test_the_backfill_goes_on_where_it_ended(store: Store) -> None:
    told: list[int] = []
    with vectors() as model:
        assert fill(store, model, until=0.0, batch=2) == (2, 1)
        assert store.with_cache(lambda cache: model_vectors.fill(cache, model, told.append))[0] == 1
        assert fill(store, model) == (0, 0)
    assert sum(told) == 1


def test_what_was_made_before_a_crash_is_kept(store: Store, lab: Lab) -> None:
    lab.mem(store.repo.top, "remember", "a crash of the model")
    lab.mem(store.repo.top, "remember", "the newest is taken first")
    with vectors() as model, pytest.raises(llamavec.NoVectors, match="does not answer"):
        fill(store, model, batch=1)
    with vectors() as model:
        assert store.with_cache(lambda cache: model_vectors.missing(cache, model.space))[0] == 4


def test_the_chosen_model_ranks_and_the_answer_is_not_degraded(store: Store) -> None:
    with vectors() as model:
        found = recall.recall(store, "hound", Filter(), limit=3, vectors=model)
        assert found["degraded"] is False
        assert (
            found["hits"][0]["title"].startswith("the cat")
            and found["hits"][0]["retrieval"] == "vector"
        )
        ((_, hits),) = recall.batch(store, [("q", "hound")], Filter(), limit=3, vectors=model)
        assert hits[0]["id"] == found["hits"][0]["id"]
        assert (
            recall.recall(store, "hound", Filter(types=["bugfix"]), limit=3, vectors=model)["hits"]
            == []
        ), "filters hold here too"


def test_a_note_that_is_not_read_keeps_no_chosen_model_away(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall.unread, "remark", lambda cache: "a note is not read")
    asked: list[str] = []
    with vectors() as model:
        question = model.question

        def counted(text: str) -> bytes:
            asked.append(text)
            return question(text)

        monkeypatch.setattr(model, "question", counted)
        found = recall.recall(store, "hound", Filter(), limit=3, vectors=model)
    assert asked == ["hound"]
    assert found["degraded_reason"] == "a note is not read"


def test_while_vectors_are_missing_the_packaged_table_answers_and_says_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        assert store.with_cache(lambda cache: model_vectors.missing(cache, two.space))[0] == 3
        fill(store, two, until=0.0, batch=1)
        assert held(store) == {one.space: 3, two.space: 1}
        question = one.question("cat")
        assert len(store.with_cache(lambda cache: cosines(cache, two.space, question))[0]) == 1
        fill(store, two)
        assert held(store) == {two.space: 3}, "a finished space replaces the others"


def test_a_vector_goes_with_its_memory(store: Store) -> None:
    with vectors() as model:
        fill(store, model)
        ids = [m["id"] for m in recall.recall(store, "cat", Filter(), limit=1)["hits"]]
        memories.forget(store, ids[0], "")
        left = store.with_cache(lambda cache: model_vectors.missing(cache, model.space))[0]
    assert (held(store), left) == ({model.space: 2}, 0)


class Numbered:
    """An embedder in this process. Each text has a vector of its own, to be looked for in files."""

    space, dims = "numbered", 16

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.texts: list[str] = []
        self.meanwhile = meanwhile

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        self.texts += texts
        self.meanwhile()
        return [hashlib.md5(text.encode()).digest() for text in texts]


def lines(count: int) -> str:
    return "".join(json.dumps({"body": f"the number {n} is drawn"}) + "\n" for n in range(count))


@pytest.fixture
def many(lab: Lab, store: Store) -> Store:
    """Memories in two chunks of codes."""
    lab.mem(store.repo.top, "remember", "--jsonl", "-", stdin=lines(model_vectors.CHUNK + 5))
    return store


def test_portions_fill_from_the_newest_and_codes_lie_in_chunks(many: Store) -> None:
    model, count = Numbered(), model_vectors.CHUNK + 8

    def rows() -> list[int]:
        found = many.with_cache(
            lambda cache: (
                dict(model_vectors.read(cache, model.space)),
                model_vectors.codes(cache, model.space, model.dims),
            )
        )[0]
        vectors, stored = found
        held = [row for row, there in enumerate(stored.held) if there]
        assert held == list(vectors) and stored.count == len(held)
        assert stored.codes[-2:] == sign_code(vectors[held[-1]])
        return held

    assert (
        many.with_cache(lambda cache: model_vectors.fill(cache, model, until=0.0, batch=10))[0]
        == 10
    )
    assert rows() == list(range(count - 10, count))
    assert many.with_cache(
        lambda cache: model_vectors.without(cache, model.space, [count - 11, count - 10, 0])
    )[0] == [count - 11, 0]
    assert many.with_cache(
        lambda cache: (model_vectors.fill(cache, model), model_vectors.missing(cache, model.space))
    )[0] == (count - 10, 0)
    assert rows() == list(range(count)) and len(model.texts) == count
    assert many.with_cache(
        lambda cache: cache.db.execute("SELECT count(*) FROM model_code").fetchone()
    )[0] == (4,), "reading all codes of a space is two rows"
    asked = hashlib.md5(model.texts[70].encode()).digest()
    found = many.with_cache(lambda cache: cosines(cache, model.space, asked))[0]
    best = max(found, key=found.__getitem__)
    assert (found[best], best) == (pytest.approx(1.0), rows()[-71])


def test_what_was_forgotten_while_the_model_worked_gets_no_vector(many: Store, lab: Lab) -> None:
    ids = {m["body"]: m["id"] for m in lab.json(many.repo.top, "list")}

    def meanwhile() -> None:
        if len(model.texts) == model_vectors.BATCH:
            id = next(id for body, id in ids.items() if body in model.texts[3])
            lab.mem(many.repo.top, "forget", id)
            lab.mem(many.repo.top, "index")  # the cache knows it before the vectors are written

    model = Numbered(meanwhile)
    many.with_cache(lambda cache: model_vectors.fill(cache, model))
    assert len(model.texts) == model_vectors.CHUNK + 8
    assert held(many) == {model.space: model_vectors.CHUNK + 7}
    assert many.with_cache(lambda cache: cache_check.check_all(cache, many.table))[0] == ""


def test_no_byte_of_a_purged_memorys_vector_stays(many: Store, lab: Lab) -> None:
    model = Numbered()
    many.with_cache(lambda cache: model_vectors.fill(cache, model))
    doomed = next(m["id"] for m in lab.json(many.repo.top, "list") if "number 100 " in m["body"])
    vector, beside = (
        hashlib.md5(text.encode()).digest()
        for number in (100, 101)
        for text in model.texts
        if f"number {number} " in text
    )
    many.close()

    def files() -> bytes:
        return b"".join(
            f.read_bytes() for f in pathlib.Path(many.repo.top, ".git/mem").glob("index-*")
        )

    assert vector in files() and beside in files()
    lab.mem(many.repo.top, "purge", doomed, "--force")
    assert vector not in files() and beside in files()


def test_a_space_that_lost_its_last_vector_leaves_nothing(store: Store, lab: Lab) -> None:
    store.with_cache(lambda cache: model_vectors.fill(cache, Numbered()))
    for memory in lab.json(store.repo.top, "list"):
        lab.mem(store.repo.top, "forget", memory["id"])
    assert held(store) == {}


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE model_vector SET v = CAST(x'01' || substr(v, 2) AS BLOB)",
        "UPDATE model_vector SET row = row + 100",
        "UPDATE model_vector SET v = x''",
    ],
)
def test_a_damaged_vector_is_never_read(store: Store, sql: str) -> None:
    model = Numbered()
    store.with_cache(lambda cache: model_vectors.fill(cache, model))

    def damaged(cache: Cache) -> None:
        assert cache.keep(5, lambda db: db.execute(sql))
        with pytest.raises(Damaged):
            cosines(cache, model.space, bytes(range(16)))
        with pytest.raises(Damaged):
            model_vectors.of(cache, model.space, [0, 1, 2, 100])
        assert "checksum" in cache_check.check_all(cache, store.table)

    store.with_cache(damaged)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE model_code SET held = CAST(x'00' || substr(held, 2) AS BLOB)",
        "UPDATE model_code SET codes = zeroblob(length(codes))",
        "UPDATE model_code SET company = CAST(x'01' || substr(company, 2) AS BLOB)",
        "UPDATE model_code SET held = x'', codes = x'', company = x''",
        "UPDATE model_code SET chunk = chunk + 1",
    ],
)
def test_damaged_codes_are_never_read_and_never_signed_anew(store: Store, sql: str) -> None:
    model = Numbered()
    store.with_cache(lambda cache: model_vectors.fill(cache, model))

    def damaged(cache: Cache) -> None:
        assert model_vectors.codes(cache, model.space, model.dims).count == 3
        assert cache.keep(5, lambda db: db.execute(sql))
        with pytest.raises(Damaged):
            model_vectors.codes(cache, model.space, model.dims)
        if "chunk" not in sql:
            with pytest.raises(Damaged):
                cache.keep(5, lambda db: model_vectors.leave(db, [0]))
        assert "checksum" in cache_check.check_all(cache, store.table)

    store.with_cache(damaged)


def test_the_full_check_finds_codes_and_vectors_that_do_not_belong_together(store: Store) -> None:
    model = Numbered()
    store.with_cache(lambda cache: model_vectors.fill(cache, model))

    def damaged(cache: Cache) -> None:
        def write(db: Connection) -> None:
            held, codes, company = model_vectors._chunk(db, model.space, 0) or (b"", b"", b"")
            model_vectors._write(db, model.space, 0, held, bytes(len(codes)), company)

        assert cache.keep(5, write)
        assert "sign code" in cache_check.check_all(cache, store.table)
        assert cache.keep(5, lambda db: model_vectors.put(db, model.space, {70: bytes(16)}))
        assert "of no memory" in cache_check.check_all(cache, store.table)

    store.with_cache(damaged)


def test_two_processes_do_not_make_the_same_vectors(store: Store, lab: Lab) -> None:
    """As the worker and `index --all` did after an import."""
    begun, made = threading.Event(), []

    class Slow(Numbered):
        def embed(self, texts: Sequence[str]) -> list[bytes]:
            begun.set()
            time.sleep(0.3)
            return super().embed(texts)

    def worker() -> None:
        other = open_store(lab.env, str(store.repo.top))
        made.append(other.with_cache(lambda cache: model_vectors.fill(cache, Slow()))[0])
        other.close()

    beside = threading.Thread(target=worker)
    beside.start()
    begun.wait(10)
    made.append(store.with_cache(lambda cache: model_vectors.fill(cache, Numbered(), wait=10))[0])
    beside.join()
    assert made == [3, 0]


def test_what_another_process_has_made_meanwhile_is_not_stored_again(
    store: Store, lab: Lab
) -> None:
    """Its neighbours were unknown again then, and what a question found was another."""

    def meanwhile() -> None:
        other = open_store(lab.env, str(store.repo.top))
        other.with_cache(lambda cache: model_vectors.fill(cache, Numbered()))
        other.with_cache(lambda cache: hubness.refresh(cache, Numbered.space))
        other.close()

    store.with_cache(lambda cache: model_vectors.fill(cache, Numbered(meanwhile)))
    key = model_vectors.HUBS + Numbered.space
    assert store.with_cache(lambda cache: cache.meta(key))[0] == "done"


def test_an_edited_memory_is_embedded_anew(store: Store, lab: Lab) -> None:
    with vectors() as model:
        fill(store, model)
        id = recall.recall(store, "invoices", Filter(), limit=1)["hits"][0]["id"]
        lab.mem(store.repo.top, "edit", id, "-m", "the dog keeps the invoices")
        assert fill(store, model) == (1, 0)
        assert id in [
            hit["id"]
            for hit in recall.recall(store, "hound", Filter(), limit=3, vectors=model)["hits"][:2]
        ], "beside the cat, which is as near"


def test_the_full_check_sees_a_damaged_vector(store: Store) -> None:
    with vectors() as model:
        fill(store, model)
    assert store.with_cache(lambda cache: cache_check.check_all(cache, store.table))[0] == ""
    sql = "UPDATE model_vector SET v = zeroblob(length(v))"
    store.with_cache(lambda cache: cache.keep(5, lambda db: db.execute(sql)))
    assert (
        "checksum" in store.with_cache(lambda cache: cache_check.check_all(cache, store.table))[0]
    )


def test_a_portion_of_a_slow_model_ends_in_time(store: Store) -> None:
    """It looked at the time after 32 texts only, which may take longer than the worker lives."""
    with vectors() as model:
        assert store.with_cache(lambda cache: encoding.fill(cache, 0.0, model=model))[0] == 1


def test_the_worker_loads_no_model_for_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo, started = lab.repo(), []
    lab.mem(repo, "remember", "the cat sleeps on the router")
    lab.git(repo, "config", "mem.embedModel", "animals")

    def of(choice: chosen.Choice) -> llamavec.LlamaVectors:
        model = vectors()
        start = model._start
        monkeypatch.setattr(model, "_start", lambda: (started.append(1), start()))
        return model

    choice = chosen.Choice(__file__, "animals", "ab" * 32)
    monkeypatch.setattr(chosen, "choice", lambda *_: choice)
    monkeypatch.setattr(llamavec, "of", of)
    for text in ("a hound", "a dog"):
        lab.mem(repo, "remember", text, env={"GIT_MEM_EMBED_MODEL": "none"})
        worker.run(str(repo / ".git"), lab.env, linger=0)
        assert started.pop() and not started
        worker.run(str(repo / ".git"), lab.env, linger=0)
        assert not started, "every memory has its vector"
    store = open_store(lab.env, str(repo))
    left = {1: bytes([1] * 8)}
    store.with_cache(lambda cache: cache.keep(1, lambda db: model_vectors.put(db, "old", left)))
    worker.run(str(repo / ".git"), lab.env, linger=0)
    assert "old" not in held(store), "nobody asks it any more"
    store.close()


def test_index_all_without_the_encoder_says_so(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "one")
    assert "the encoder is off" in lab.mem(repo, "index", "--all")
    assert lab.json(repo, "status")["without_better_vectors"] is None
    said = lab.run(
        repo, "git-mem", "recall", "one", env={"GIT_MEM_EMBED_MODEL": "all-minilm-l6-v2"}
    )
    assert said.returncode == 0 and "was not fetched; using the packaged table" in said.stderr
