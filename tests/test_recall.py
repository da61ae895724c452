"""Recall: both routes contribute, filters come first, priors never admit, the answer is honest."""

from __future__ import annotations

import json
import math
import pathlib
import shutil
import time
from collections.abc import Iterable
from typing import Any

import pytest
from conftest import EVAL, Lab

from gitmem.core import rank, record
from gitmem.engine import embed, search
from gitmem.engine.filters import Filter
from gitmem.memory import listing, recall, remember
from gitmem.store import Store, open_store

PAIRS = [  # hardly a word in common
    (
        "Passwords are hashed with argon2id, old accounts keep bcrypt",
        "how do we protect login credentials",
    ),
    ("The nightly export moved to six o'clock in the morning", "when does the daily dump run"),
    (
        "Release notes are written by hand, never generated from commits",
        "who composes the changelog",
    ),
    (
        "The office printer needs its toner replaced every quarter",
        "ink cartridge maintenance schedule",
    ),
    ("Dogs are welcome in the garden but not in the kitchen", "may I bring my puppy inside"),
]


class ByIds:
    """A cache that knows the order of ids alone: the highest row has the lowest."""

    def by_id(self, rows: Iterable[int]) -> list[int]:
        return sorted(rows, reverse=True)


@pytest.mark.parametrize(
    ("most", "rows"),
    [
        (1, [1, 2, 3, 4, 5, 6, 7]),
        (2, [1, 5, 4, 3, 2, 6, 7]),
        (6, [1, 5, 4, 3, 2, 7, 6]),
        (9, [1, 5, 4, 3, 2, 7, 6]),
        (0, [1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_equal_hits_stand_by_id_as_far_as_they_are_looked_at(most: int, rows: list[int]) -> None:
    hits = [rank.Hit(row, None, None) for row in range(1, 8)]
    for hit, score in zip(hits, [0.9, 0.5, 0.5, 0.5, 0.5, 0.2, 0.2], strict=True):
        hit.fused = score
    cache: Any = ByIds()
    found = search.Search(cache, lambda text: b"")._in_order(hits, most)
    assert [hit.row for hit in found] == rows


def store_with(lab: Lab, drafts: list[dict[str, object]], name: str = "repo") -> Store:
    store = open_store(
        {"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(lab.repo(name))
    )
    assert all(r.status == remember.STORED for r in remember.remember(store, drafts))
    return store


def ask(store: Store, query: str, limit: int = 8) -> list[dict[str, object]]:
    return recall.recall(store, query, Filter(), limit=limit)["hits"]  # type: ignore[no-any-return]


def test_meaning_finds_what_words_do_not(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_with(
        lab, [{"body": memory, "source": str(i)} for i, (memory, _) in enumerate(PAIRS)]
    )
    found = [[h["source"] for h in ask(store, query)][:1] for _, query in PAIRS]
    assert sum(f == [str(i)] for i, f in enumerate(found)) >= 4
    assert all(
        h["retrieval"] in ("vector", "hybrid", "bm25")
        for _, query in PAIRS
        for h in ask(store, query)
    )
    # The probe: without vectors the same questions find next to nothing, so the route is what
    # answered.
    monkeypatch.setattr(embed.StaticTable, "vector", lambda self, text: bytes(self.dims))
    without = [[h["source"] for h in ask(store, query)][:1] for _, query in PAIRS]
    assert sum(f == [str(i)] for i, f in enumerate(without)) <= 1
    store.close()


def ndcg(relevant: dict[str, int], ranked: list[str]) -> float:
    gain = sum((2 ** relevant.get(d, 0) - 1) / math.log2(i + 2) for i, d in enumerate(ranked[:10]))
    best = sum(
        (2**g - 1) / math.log2(i + 2)
        for i, g in enumerate(sorted(relevant.values(), reverse=True)[:10])
    )
    return gain / best


@pytest.mark.nightly
def test_on_real_commits_the_hybrid_beats_words_alone(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder: pathlib.Path = EVAL / "dev" / "commits"
    if not folder.is_dir():
        pytest.skip("no evaluation texts here (GIT_MEM_EVAL_ROOT names them)")
    drafts = [
        {"body": d["text"], "title": d.get("title") or "", "source": d["_id"]}
        for d in map(json.loads, (folder / "corpus.jsonl").open(encoding="utf-8"))
    ]
    store = open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(lab.repo()))
    remember.remember(store, drafts)
    relevant: dict[str, dict[str, int]] = {}
    for row in (folder / "qrels.tsv").read_text().splitlines()[1:]:
        query, document, grade = row.split("\t")
        relevant.setdefault(query, {})[document] = int(grade)
    queries = [
        (q["_id"], q["text"])
        for q in map(json.loads, (folder / "queries.jsonl").open(encoding="utf-8"))
    ]

    def score() -> float:
        answers = dict(recall.batch(store, queries, Filter(), limit=10))
        return sum(
            ndcg(relevant[id], [str(h["source"]) for h in answers[id]]) for id in relevant
        ) / len(relevant)

    hybrid = score()
    monkeypatch.setattr(embed.StaticTable, "vector", lambda self, text: bytes(self.dims))
    words = score()
    assert hybrid >= 0.63, f"nDCG@10 {hybrid:.4f}, FTS5 alone gives 0.63"
    assert hybrid > words, (
        f"hybrid {hybrid:.4f}, words alone {words:.4f}: the vector route adds nothing"
    )
    store.close()


def test_a_prior_reorders_and_never_admits(lab: Lab) -> None:
    store = store_with(
        lab,
        [
            {"body": "the retry budget is three attempts", "confidence": 0.1},
            {"body": "the retry budget is five attempts", "confidence": 1.0},
            {"body": "lunch is at noon", "confidence": 1.0},
        ],
    )
    hits = ask(store, "retry budget attempts")
    assert [h["body"] for h in hits] == [
        "the retry budget is five attempts",
        "the retry budget is three attempts",
    ]
    store.close()


def test_of_two_that_answer_alike_the_newer_comes_first(lab: Lab) -> None:
    times = {"a": "2024-05-01T10:00:00Z", "b": "2025-05-01T10:00:00Z", "c": "2022-05-02T10:00:00Z"}
    drafts: list[dict[str, object]] = [
        {"body": f"the retry budget is three attempts {name}", "created_at": at}
        for name, at in times.items()
    ]
    lunch = {"body": "lunch is at noon", "created_at": "2025-05-01T08:00:00Z"}
    store = store_with(lab, [*drafts, {**lunch}])
    hits = ask(store, "retry budget attempts")
    assert [h["body"][-1] for h in hits] == ["b", "a", "c"]  # type: ignore[index]
    recent = [h["explain"]["recent"] for h in hits]  # type: ignore[index]
    assert recent == [1.0, pytest.approx(0.9), pytest.approx(0.825, abs=1e-3)]
    store.close()


def test_an_answer_is_the_same_years_later(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    years = range(2015, 2026)
    drafts = [{"body": f"the budget is {n}", "created_at": f"{n}-01-01T00:00:00Z"} for n in years]
    store = store_with(lab, [{**draft} for draft in drafts])
    before = ask(store, "retry budget")
    assert len({h["score"] for h in before}) > 2
    later = time.time() + 5 * 365 * 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    assert ask(store, "retry budget") == before
    store.close()


def test_batch_single_and_rebuilt_answers_are_the_same(lab: Lab) -> None:
    store = store_with(
        lab,
        [
            {"body": f"{memory} ({i})", "source": f"{i}-{j}"}
            for j in range(40)
            for i, (memory, _) in enumerate(PAIRS)
        ],
    )
    queries = [(str(i), query) for i, (_, query) in enumerate(PAIRS)]
    batch = recall.batch(store, queries, Filter(), limit=10)
    single = [
        (
            id,
            [
                {k: h[k] for k in ("id", "kind", "source", "score", "retrieval")}
                for h in ask(store, query, 10)
            ],
        )
        for id, query in queries
    ]
    assert batch == single
    parts = [[h["explain"] for h in ask(store, query, 10)] for _, query in queries]
    store.discard()
    again = recall.batch(store, queries, Filter(), limit=10)
    assert [[h["explain"] for h in ask(store, query, 10)] for _, query in queries] == parts
    assert [[h["score"] for h in hits] for _, hits in again] == [
        [h["score"] for h in hits] for _, hits in batch
    ]
    store.close()


def test_explain_shows_every_part(lab: Lab) -> None:
    store = store_with(lab, [{"body": "timestamps are UTC"}])
    (hit,) = ask(store, "timestamps UTC")
    explain = hit["explain"]
    assert isinstance(explain, dict)
    assert {"bm25", "cosine", "lexical", "semantic", "fused", "prior"} <= set(explain) and hit[
        "score"
    ] == round(explain["fused"] * explain["prior"], 4)
    store.close()


def test_hot_answers_as_the_rest(lab: Lab) -> None:
    store = store_with(lab, [{"body": f"{memory} ({i})"} for i in range(30) for memory, _ in PAIRS])
    for _, query in PAIRS:
        plain, hot = (
            recall.recall(store, query, Filter(), limit=8, hot=hot) for hot in (False, True)
        )
        assert hot == plain
    store.close()


def test_of_more_equal_memories_than_a_search_looks_at_a_rebuilt_cache_finds_the_same(
    lab: Lab,
) -> None:
    """Row numbers settled ties, and they are others in a cache that took the memories in another
    order.
    """
    repo = lab.repo(commits=6)
    for n in range(
        6
    ):  # the newest commit first: a rebuilt cache reads notes in the order of their commits' ids
        lines = [
            json.dumps(
                {"body": f"the retry budget is three {'abcdef'[n]}{i:03}", "commit": f"HEAD~{n}"}
            )
            for i in range(60)
        ]
        lab.mem(repo, "remember", "--jsonl", "-", stdin="\n".join(lines))
        lab.mem(repo, "index")

    def answers() -> list[object]:
        found = [
            lab.json(repo, "recall", query, "-n", "20", "--explain")
            for query in ("retry budget", "retry")
        ]
        return [[(h["id"], h["score"], h["explain"]) for h in answer["hits"]] for answer in found]

    kept = answers()
    shutil.rmtree(repo / ".git/mem")
    assert answers() == kept


@pytest.mark.parametrize("option", ["--tag", "--phase", "--path"])
def test_a_word_that_stands_in_no_text_but_in_a_field_is_found(lab: Lab, option: str) -> None:
    repo = lab.repo()
    for n in range(9):
        lab.mem(repo, "remember", f"invoices are rounded to cents, rule {n}")
    lab.mem(repo, "remember", "the nightly job sends letters", option, "quokka")
    found = lab.json(repo, "recall", "quokka")
    assert found["verdict"] != "MISS"
    assert found["hits"][0]["body"] == "the nightly job sends letters"


def test_more_paths_than_an_expression_of_sqlite_may_have_filter_as_one_does(lab: Lab) -> None:
    repo = lab.repo("r", 1)
    lab.mem(repo, "remember", "Retries stop after a minute", "--path", "net/retry.py")
    many = [word for n in range(400) for word in ("--path", f"gone/{n}.py")]
    for path in ("net", "net/retry.py", "net/retry.py/part"):
        wanted = (*many, "--path", path)
        assert len(lab.json(repo, "recall", "when do retries stop", *wanted)["hits"]) == 1
        assert len(lab.json(repo, "list", *wanted)) == 1
    assert lab.json(repo, "list", *many) == []


@pytest.mark.parametrize(
    "name, asked",
    [("phase", " Milestone  2 "), ("tags", [" data  base"]), ("types", ["Dead   end\n"])],
)
def test_a_filter_finds_words_with_the_blanks_they_were_written_with(
    store: Store, name: str, asked: Any
) -> None:
    written = {"type": asked[0]} if name == "types" else {name: asked}
    (stored,) = remember.remember(store, [{"body": "the pool", **written}])
    remember.remember(store, [{"body": "another pool"}])
    found = listing.list_memories(store, Filter(**{name: asked}))
    assert [item["id"] for item in found.items] == [stored.id]


def test_another_tool_s_blanks_are_found_as_they_are(store: Store) -> None:
    data = {"id": "f" * 32, "body": "the pool", "phase": "Milestone  2"}
    line = record.dump(record.envelope("create", data, "", {}))
    store.append("team", [("", line)], "another tool's")
    found = listing.list_memories(store, Filter(phase="Milestone  2"))
    assert [item["id"] for item in found.items] == [data["id"]]


def test_a_question_beside_a_batch_is_refused(lab: Lab) -> None:
    done = lab.run(lab.repo(), "git-mem", "recall", "--batch", "-", "a", "question")
    assert done.returncode == 2 and "--batch" in done.stderr


def test_a_bare_answer_asks_nothing(lab: Lab) -> None:
    """ "y" would be found in a memory about an axis; words of small talk find it by meaning."""
    repo = lab.repo()
    lab.mem(repo, "remember", "The y axis of the plot points up, not down")
    for prompt in ("y", "yes", "go ahead"):
        assert lab.json(repo, "recall", prompt, rc=(0, 1))["probability"] == 0
    assert lab.json(repo, "recall", "axis of the plot")["probability"] > 0


def test_a_question_of_small_numbers_shows_the_memory_that_has_one(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "The proxy listens on 443 alone")
    lab.mem(repo, "remember", "Invoices are stored in cents")
    answer = lab.json(repo, "recall", "80 or 443?", rc=(0, 1))
    assert (answer["verdict"], answer["probability"]) == ("WEAK", 0)
    assert "443" in answer["hits"][0]["title"]


@pytest.mark.parametrize(
    "name", ["#48213", "retryBudget", "db/orders.sql", "v2.31.4", "EX_TEMPFAIL"]
)
def test_a_name_that_only_one_memory_has_shows_it(lab: Lab, name: str) -> None:
    repo = lab.repo()
    lines = [f"Note {i} on how invoices of customer group {i} are rounded" for i in range(30)]
    lab.mem(
        repo,
        "remember",
        "--jsonl",
        "-",
        stdin="".join(json.dumps({"body": line}) + "\n" for line in lines),
    )
    lab.mem(repo, "remember", f"The queue drops old mail, see {name}")
    question = (
        f"was there trouble with {name} before the release, when the carousel of the landing page"
        " flickered for visitors with slow phones, ancient browsers and a German keyboard?"
    )
    answer = lab.json(repo, "recall", question, rc=(0, 1))
    assert name in answer["hits"][0]["title"] and answer["verdict"] != "MISS"
    lab.mem(repo, "remember", "Mail of step 3.2 is dropped, e.g. for bots and/or crawlers")
    for other in ("it", "3.2", "e.g.", "and/or"):  # these are no names
        other = question.replace(name, other)
        assert lab.json(repo, "recall", other, rc=(0, 1))["verdict"] == "MISS"
    lab.mem(repo, "remember", f"Bounced mail is counted, see {name}")
    if name in ("#48213", "v2.31.4"):  # the others' parts speak for an answer as well
        assert lab.json(repo, "recall", question, rc=(0, 1))["verdict"] == "MISS"
