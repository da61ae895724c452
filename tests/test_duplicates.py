"""What capture takes for a repeat, for a change of an older memory, and for neither."""

from __future__ import annotations

import itertools
import pathlib

import pytest
from capture_world import heard, listed, waits
from conftest import Lab

from gitmem.capture import pipeline
from gitmem.memory import similarity
from gitmem.store import Store


def test_a_changed_decision_proposes_to_supersede_the_old_one(
    lab: Lab, repo: pathlib.Path, store: Store
) -> None:
    lab.mem(repo, "remember", "Decision: we use SQLite for the index", "--type", "decision")
    (old,) = listed(lab, repo)
    (outcome,) = pipeline.keep(
        store, heard("Decision: we switched from SQLite to PostgreSQL for the index")
    )
    assert (outcome.status, outcome.old) == (pipeline.SUGGESTED, old["id"])
    (one,) = waits(store)
    assert one.words("supersedes") == [old["id"]]
    assert [m["id"] for m in listed(lab, repo)] == [old["id"]]


def test_a_decision_changed_in_the_same_session_proposes_it_too(store: Store) -> None:
    first, second = pipeline.keep(
        store,
        heard(
            "Decision: we use tabs for indentation",
            "Decision: from now on we use spaces for indentation, not tabs",
        ),
    )
    assert first.status == pipeline.KEPT and (second.status, second.old) == (
        pipeline.SUGGESTED,
        first.id,
    )


CHAIN = [
    "Decision: we use SQLite for the index",
    "Decision: we switched from SQLite to PostgreSQL for the index",
    "Decision: we switched from PostgreSQL to MySQL for the index",
    "Decision: we switched from MySQL to DuckDB for the index",
]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (CHAIN, {1: 0, 3: 2}),
        (
            [
                "Decision: we switched from MongoDB to MySQL for the index",
                "Decision: we switched from SQLite to MySQL for the index",
                "Decision: we use SQLite for the index",
            ],
            {1: 0},
        ),
    ],
)
def test_no_decision_is_to_take_the_place_of_a_later_one(
    store: Store, said: list[str], expected: dict[int, int]
) -> None:
    dry = pipeline.keep(store, heard(*said), dry=True)
    done = pipeline.keep(store, heard(*said))
    places = {outcome.id: place for place, outcome in enumerate(done)}
    found = {place: places[outcome.old] for place, outcome in enumerate(done) if outcome.old}
    assert all(old < place for place, old in found.items()) and found == expected
    assert not any(one.old for one in dry), "nothing is stored that could have an id"
    assert [one.status for one in dry] == [one.status for one in done], "it says what would be"


def test_comparing_a_run_makes_few_vectors(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    near = similarity.near
    words = "cache queue proxy shell index store drive socket".split()
    pairs = itertools.permutations(words, 2)
    monkeypatch.setattr(similarity, "near", lambda *of: (made.append(1), near(*of))[1])
    pipeline.keep(store, heard(*(f"Decision: {one} holds {other}" for one, other in pairs)))
    assert len(made) < 60, "of 1,770 pairs few look as if one changes the other"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "We decided to use SQLite instead of DuckDB because the wheel is smaller.",
            "We decided to use DuckDB instead of SQLite because it is faster.",
        ),
        (
            "the staging database is wiped every Sunday",
            "the staging database is wiped every Monday",
        ),
        ("Always commit generated files", "Never commit generated files"),
        (
            "Use PostgreSQL, not MongoDB: orders and invoices share a transaction",
            "We moved to MongoDB after all: orders are archived documents",
        ),
        ("the timeout is 30 seconds", "the timeout is 60 seconds"),
    ],
)
def test_what_says_the_opposite_is_no_repeat(old: str, new: str) -> None:
    assert not similarity.repeats(new, old) and not similarity.repeats(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "Remember this: the staging database is wiped every Sunday.",
            "the staging database gets wiped every Sunday",
        ),
        ("Decision: use SQLite.", "we decided to use SQLite"),
        ("We use SQLite for the index because the wheel is small", "we use SQLite for the index"),
    ],
)
def test_what_says_no_more_is_a_repeat(old: str, new: str) -> None:
    assert similarity.repeats(new, old)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("use C for the driver", "use C++ for the driver"),
        ("use C# for the driver", "use C for the driver"),
        ("x needs replicas >= 5", "x needs replicas <= 5"),
        ("the pool size is -1", "the pool size is 1"),
        ("a seat costs $5", "a seat costs \u20ac5"),
        ("the share is 5%", "the share is 5"),
        ("the ratio is .5 of it", "the ratio is 5 of it"),
        ("pin the parser to ~1.2", "pin the parser to ^1.2"),
    ],
)
def test_a_sign_that_means_something_is_no_mark(old: str, new: str) -> None:
    assert (
        not similarity.repeats(new, old)
        and not similarity.repeats(old, new)
        and similarity.normal(new) != similarity.normal(old)
    )


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("A to B", "B to A"),
        ("copy a to b", "copy b to a"),
        ("replicate A to B every night", "replicate B to A every night"),
        ("plan A, then B", "plan B, then A"),
        ("the proxy sends A -> B", "the proxy sends B -> A"),
        ("service A calls service B", "service B calls service A"),
        ("move the queue from Redis to Kafka", "move the queue from Kafka to Redis"),
        ("service A speaks gRPC", "service speaks gRPC"),
    ],
)
def test_the_other_way_round_is_no_repeat(new: str, old: str) -> None:
    assert not similarity.repeats(new, old)


def test_an_article_is_no_name() -> None:
    assert similarity.repeats(
        "A cache speeds up the parser", "a cache speeds up the parser"
    ) and similarity.repeats("Use a cache for the parser", "use the cache for a parser")


def test_the_same_about_another_thing_is_neither_repeat_nor_change() -> None:
    assert not similarity.repeats(
        "service beta speaks gRPC", "service alpha speaks gRPC"
    ) and not similarity.changes("service beta speaks gRPC", "service alpha speaks gRPC", 0.95)
    assert similarity.changes(
        "the timeout is 60 seconds", "the timeout is 30 seconds", 0.95
    ) and similarity.changes(
        "the staging database is wiped every Monday",
        "the staging database is wiped every Sunday",
        0.97,
    )


def test_what_says_more_is_no_repeat() -> None:
    assert not similarity.repeats(
        "we use SQLite for the index, rebuilt nightly by the janitor on the second host",
        "we use SQLite for the index",
    )


SERVED = (
    "Remember this: the billing service writes its export files to the shared bucket of the finance"
    " team every working day at noon"
)


@pytest.mark.parametrize(
    "more",
    [
        " except staging",
        " in Frankfurt",
        " only",
        " until March",
        " but not on Mondays",
        " before the backup",
    ],
)
def test_a_word_more_is_never_lost(lab: Lab, repo: pathlib.Path, store: Store, more: str) -> None:
    assert [o.status for o in pipeline.keep(store, heard(SERVED))] == [pipeline.KEPT]
    assert [o.status for o in pipeline.keep(store, heard(SERVED + more))] in (
        [pipeline.KEPT],
        [pipeline.SUGGESTED],
    )
    assert any(SERVED + more in line for line in lab.lines(repo, "mem/private"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("migrations run before the deploy", "migrations run after the deploy"),
        ("the cache is on when tests run", "the cache is off when tests run"),
        ("use SQLite for tests only", "use SQLite for tests"),
        ("a key or a token", "a key and a token"),
    ],
)
def test_a_small_word_makes_another_text(old: str, new: str) -> None:
    assert not similarity.repeats(new, old) and not similarity.repeats(old, new)
