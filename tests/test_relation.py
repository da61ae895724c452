"""Two texts of memories: the same, a later wording, against each other, or just alike."""

from __future__ import annotations

import pytest

from gitmem.engine.embed import StaticTable
from gitmem.engine.int8_vectors import cosine
from gitmem.memory import relation

TABLE = StaticTable()


def near(a: str, b: str) -> float:
    one, other = TABLE.embed([a, b])
    return cosine(one, other)


def holds(a: str, b: str) -> bool:
    return relation.holds(a, b, near(a, b))


def against(a: str, b: str, beside: bool = False) -> bool:
    """Whether `b`, the newer one, is found to speak against `a`."""
    c = near(a, b)
    slot = relation.slot(a, b, c)
    return (
        relation.differs(slot, c, beside)
        if slot
        else relation.denies(b, a, c) or relation.replaces(b, a, c)
    )


SAME = [
    (
        "Use PostgreSQL, not MongoDB: orders and invoices share a transaction",
        "We use PostgreSQL and not MongoDB because orders and invoices share a transaction",
    ),
    (
        "Use PostgreSQL, not MongoDB: orders and invoices share a transaction",
        "Use PostgreSQL rather than MongoDB, since orders and invoices share one transaction",
    ),
    (
        "The staging database is wiped every Sunday",
        "Remember: the staging database gets wiped every Sunday",
    ),
    ("Never commit generated files", "Generated files must never be committed"),
    ("All timestamps are stored in UTC", "Timestamps are always stored in UTC"),
    (
        "Retry the payment webhook three times with exponential backoff",
        "Payment webhooks are retried three times with exponential backoff",
    ),
]
OPPOSED = [
    ("The staging database is wiped every Sunday", "The staging database is wiped every Monday"),
    ("Use SQLite for the cache, not DuckDB", "Use DuckDB for the cache, not SQLite"),
    ("We use PostgreSQL for orders", "Use MySQL instead of PostgreSQL for orders"),
    ("Always squash commits before merging", "Never squash commits before merging"),
    ("Deploy on Fridays", "Never deploy on Fridays"),
    ("Tabs are four wide", "Tabs are two wide"),
    ("Lines are at most 100 characters", "Lines are at most 120 characters"),
    ("Sessions are kept in Redis", "Sessions are kept in signed cookies, not in Redis"),
    ("Sessions are kept in Redis", "We dropped Redis; sessions are kept in signed cookies now"),
]
# Alike, and two memories all the same; each of these was proposed by an earlier rule.
TWO = [
    ("Use SQLite for the cache", "Use SQLite for the test database"),
    ("Run the unit tests with make test", "Run the linter with make lint"),
    (
        "Good: function processItems takes a const type parameter",
        "Bad: function processItems takes a const type parameter",
    ),
    (
        "Cannot find module 'react' or its corresponding type declarations.",
        "Cannot find module 'react-router-dom' or its corresponding type declarations.",
    ),
    (
        "Take a screenshot before the changes with the browser tool",
        "Take a screenshot after the changes with the browser tool",
    ),
    (
        "Run tests once without watch mode: bun run test:run",
        "Run tests in watch mode: bun run test:watch",
    ),
    ("Move invoices to archive", "Move archive to invoices"),
    (
        "Store frontend test results in the knowledge base",
        "Store security test results in the knowledge base",
    ),
    ("Use SQLite for the cache, not DuckDB", "Use DuckDB for the cache, not SQLite"),
    ("The staging database is wiped every Sunday", "The staging database is wiped every Monday"),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_the_same_in_other_words_is_found(a: str, b: str) -> None:
    assert holds(a, b) or holds(b, a)
    assert not against(a, b)


@pytest.mark.parametrize(("a", "b"), TWO)
def test_what_is_only_alike_is_not_the_same(a: str, b: str) -> None:
    assert not holds(a, b) and not holds(b, a)


@pytest.mark.parametrize(("a", "b"), TWO[:8])
def test_what_is_only_alike_is_no_contradiction(a: str, b: str) -> None:
    assert not against(a, b) and not against(b, a)


@pytest.mark.parametrize(("a", "b"), OPPOSED)
def test_what_speaks_against_a_memory_is_found(a: str, b: str) -> None:
    assert against(a, b)


def test_a_richer_text_holds_a_poorer_one_and_not_the_other_way() -> None:
    rich = (
        "The parser must not recurse: deeply nested input overflowed the stack in production on"
        " 3 May"
    )
    poor = "The parser must not recurse, nested input overflowed the stack"
    assert holds(rich, poor) and not holds(poor, rich)


def test_a_number_or_a_name_of_its_own_is_never_lost() -> None:
    assert not holds(
        "Retry failed uploads with exponential backoff and jitter",
        "Retry failed uploads 5 times with exponential backoff and jitter",
    )
    assert not holds(
        "Install dependencies with the package manager before the build starts",
        "Install dependencies with `pnpm-lock.yaml` and the package manager before the build"
        " starts",
    )


def test_another_word_in_one_place_is_another_value_only_about_one_file() -> None:
    a, b = (
        "Use PostgreSQL for the order store of the shop",
        "Use MySQL for the order store of the shop",
    )
    assert against(a, b, beside=True)


def test_two_wordings_of_one_statement_are_told_from_two_statements() -> None:
    a = (
        "`src/domain/` has the core business logic in pure TypeScript, without framework"
        " dependencies"
    )
    b = (
        "`packages/domain/src/` has the core business logic in pure TypeScript, without framework"
        " dependencies"
    )
    assert relation.rewords(a, b, near(a, b))
    c = "`src/adapters/` has the database access in TypeScript with the framework's query builder"
    assert not relation.rewords(a, c, near(a, c))


def test_two_long_sections_of_one_form_are_about_two_things() -> None:
    form = (
        "The {0} interface has two sides: the server side, and the application side. The server"
        " side invokes a callable object that is provided by the application side. The specifics of"
        " how that object is provided are up to the server; some servers will require the deployer"
        " of an application to write a short script that makes an instance of the server, and hands"
        " it the application object of `{0}`, as the section before has it."
    )
    a, b = form.format("WSGI"), form.format("ASGI-2")
    assert near(a, b) > relation.CLOSE and not relation.rewords(a, b, near(a, b))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n",
        "not",
        "never",
        "instead of",
        "x",
        "日本語のテキスト",
        "a" * 70_000,
        "never " * 500,
    ],
)
def test_odd_texts_are_compared_without_a_crash(text: str) -> None:
    other = "Use SQLite for the cache, not DuckDB"
    for a, b in ((text, other), (other, text), (text, text)):
        relation.holds(a, b, 0.99)
        relation.denies(a, b, 0.99)
        relation.replaces(a, b, 0.99)
        relation.rewords(a, b, 0.99)
        relation.slot(a, b, 0.99)
