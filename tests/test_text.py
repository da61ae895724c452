"""Cutting text into terms: what is found, what is bounded, and what FTS5 sees of it."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gitmem.core import stem, text

ROOT = Path(__file__).resolve().parent.parent
anything = st.text(st.characters(), max_size=200)


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("getUserName", "user name"),
        ("getUserName", "get_user_name"),
        ("foo_bar", "fooBar"),
        ("read-timeout", "readTimeout"),
        ("src/foo_bar.py", "foo_bar.py"),
        ("src/foo_bar.py", "src/foo_bar.py"),
        ("std::collections::HashMap", "hash map"),
        ("HTTPServer2 restarts", "http server"),
        ("failed with E1234", "e1234"),
        ("failed with E1234", "error 1234"),
        ("sqlite-3.40.1", "3.40"),
        ("released v1.2.3", "1.2.3"),
        ("in deadbeef1234567890", "deadbee"),
        ("C++ templates", "c++"),
        ("F# and C#", "c#"),
        ("adoption of databases", "adopt the database"),
        ("Café déjà vu", "cafe"),
        ("cafe\u0301", "CAFÉ"),
        ("Straße", "STRASSE"),
        ("ＦＵＬＬ width", "full"),
        ("データベースを選ぶ", "データベース"),
        ("使用PostgreSQL数据库", "postgresql"),
        ("使用PostgreSQL数据库", "数据库"),
        ("데이터베이스를", "데이터베이스"),
        ("猫", "猫"),
        ("हिन्दी में", "हिन्दी"),
        ("“quoted”—dash", "quoted"),
        ("the user’s name", "user"),
        ("who are we", "who are we"),
        ("nul\x00byte", "byte"),
    ],
)
def test_what_is_written_so_is_found_when_asked_so(written, asked):
    assert set(text.terms(written)) & set(text.terms(asked))


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("v1.2.3", "v3.2.1"),
        ("C++", "C#"),
        ("what is it", "who are we"),
        ("organ", "orange"),
        ("数据", "据数"),
    ],
)
def test_what_differs_stays_apart(written, asked):
    assert not set(text.terms(written)) & set(text.terms(asked))


def test_stop_words_go_unless_nothing_else_is_there():
    assert text.terms("how is the cache kept") == ["cach", "kept"]
    assert text.terms("what is it") == ["what", "is", "it"]
    assert text.terms("what — is it?") == ["what", "is", "it"]


@pytest.mark.parametrize(
    "nothing", ["", " \n\t", "?!", "😀", "\x00", "\ud800", "__", "-/-", "+#", "\u200f", "\u0301"]
)
def test_text_without_letters_or_digits_has_no_terms(nothing):
    assert text.terms(nothing) == []
    assert text.query_terms(nothing) == []
    assert text.match_expression([]) == ""


@given(anything)
@example("\ud800\udfff surrogates")
@example('" OR * NEAR( ) : ^ - + {a b}')
@example("ŉ ΐ ǰ İ ẞ ﬃ ½ ² ① ಠ_ಠ ไทย")
def test_every_term_is_one_fts5_token_and_never_syntax(written):
    terms = text.terms(written)
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE fts USING fts5(title, body, content='', tokenize='ascii')")
    db.execute("CREATE VIRTUAL TABLE vocabulary USING fts5vocab(fts, 'row')")
    db.execute("INSERT INTO fts(rowid, title, body) VALUES (1, '', ?)", (" ".join(terms),))
    assert {term for (term,) in db.execute("SELECT term FROM vocabulary")} == set(terms)
    for term in terms:
        assert 0 < len(term) <= text.MAX_WORD
        found = db.execute(
            "SELECT rowid FROM fts WHERE fts MATCH ?", (text.match_expression([term]),)
        ).fetchall()
        assert found == [(1,)]
    db.close()


def test_a_tokenizer_that_splits_terms_would_be_noticed():
    """The probe above can fail: unicode61 cuts a version at its dots."""
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE fts USING fts5(body, tokenize='unicode61')")
    db.execute("CREATE VIRTUAL TABLE vocabulary USING fts5vocab(fts, 'row')")
    db.execute("INSERT INTO fts VALUES (?)", (" ".join(text.terms("v1.2.3")),))
    assert {term for (term,) in db.execute("SELECT term FROM vocabulary")} != set(
        text.terms("v1.2.3")
    )


@given(anything)
def test_the_cache_changes_nothing(written):
    first = text.terms(written)
    text._WORDS.clear()
    assert text.terms(written) == first == text.terms(written)


def test_the_cache_is_bounded(monkeypatch):
    monkeypatch.setattr(text, "_CACHE_WORDS", 50)
    text._WORDS.clear()
    text.terms(" ".join(f"word{i}x" for i in range(500)))
    assert len(text._WORDS) <= 50
    text.terms("x" * 100_000)
    assert max(map(len, text._WORDS)) <= text.MAX_WORD


@pytest.mark.parametrize(
    "big",
    ["x" * 3_000_000, "日本" * 700_000, "a.b/" * 400_000, "é" * 1_500_000, "\ufdfa" * 1_200_000,
     "ab_" * 500_000, "word " * 300_000, "1." * 600_000, "aB" * 600_000],
)  # fmt: skip
def test_hostile_sizes_are_bounded(big):
    terms = text.terms(big)
    assert len(terms) <= text.MAX_TEXT
    assert all(len(term) <= text.MAX_WORD for term in terms)
    assert len(text.query_terms(big)) <= text.MAX_QUERY_TERMS


def test_a_question_after_a_long_log_is_read():
    log = " ".join(f"line{i}" for i in range(5000))
    assert "xylophon" in text.query_terms(log + " why does the xylophone fail")
    assert "xylophon" in text.query_terms("why does the xylophone fail " + log)


@given(
    st.lists(st.sampled_from("abcdefgh"), max_size=12),
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 90)),
)
def test_rare_takes_the_rarest_known_terms(wanted, df):
    got = text.rare(wanted, df, 100, 3)
    assert len(got) <= 3
    assert len(set(got)) == len(got)
    assert all(term in wanted and df[term] > 0 for term in got)
    assert [df[term] for term in got] == sorted(df[term] for term in got)
    known = [df[term] for term in set(wanted) if df.get(term, 0) > 0]
    if known:
        assert got
        assert df[got[0]] == min(known)


def test_rare_keeps_within_the_posting_budget_but_leaves_five():
    df = {f"t{i}": 9_000 for i in range(20)}
    assert len(text.rare(list(df), df, 100_000)) == text.MIN_RARE
    assert len(text.rare(list(df), dict.fromkeys(df, 900), 100_000)) == 20
    assert text.rare(["often", "seldom"], {"often": 60, "seldom": 1}, 100) == ["seldom"]
    assert text.rare(["often"], {"often": 60}, 100) == ["often"]
    assert text.rare(["often", "seldom"], {"often": 3, "seldom": 1}, 3) == ["seldom", "often"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [("caresses", "caress"), ("ponies", "poni"), ("agreed", "agre"), ("hopping", "hop"), ("filing", "file"),  # noqa: E501
     ("happy", "happi"), ("relational", "relat"), ("conditional", "condit"), ("generalizations", "gener"),  # noqa: E501
     ("oscillators", "oscil"), ("adoption", "adopt"), ("sky", "sky"), ("is", "is"), ("naïve", "naïve"), ("x1s", "x1s")],  # noqa: E501
)  # fmt: skip
def test_stems_are_porters(word, expected):
    assert stem.stem(word) == expected


@given(st.text("abcdefghijklmnopqrstuvwxyz", max_size=30))
def test_a_stem_is_short_and_not_empty(word):
    assert bool(stem.stem(word)) == bool(word)
    assert len(stem.stem(word)) <= len(word) + 1


def test_stems_agree_with_fts5_porter():
    words = [
        "running",
        "connection",
        "relational",
        "hopeful",
        "databases",
        "migrating",
        "caches",
        "settings",
    ]
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE fts USING fts5(body, tokenize='porter ascii')")
    db.execute("CREATE VIRTUAL TABLE vocabulary USING fts5vocab(fts, 'row')")
    db.execute("INSERT INTO fts VALUES (?)", (" ".join(words),))
    assert {term for (term,) in db.execute("SELECT term FROM vocabulary")} == {
        stem.stem(word) for word in words
    }


def test_content_leaves_the_stop_words_out():
    assert text.content("How do we store times, and where?") == "store times,"
    assert text.content("what is it?") == ""


@settings(deadline=None, max_examples=5)
@given(st.just("getUserName src/foo_bar.py v1.2.3 データ naïve"))
def test_terms_are_the_same_in_every_process(written):
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from gitmem.core import text;"
        f" print(ascii(text.terms({written!r})))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
        ).stdout
        for _ in "ab"
    }
    assert seen == {ascii(text.terms(written)) + "\n"}


@pytest.mark.parametrize("module", ["text", "stem", "rank"])
def test_importing_costs_no_other_module(module):
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); before = set(sys.modules); import"
        f" gitmem.core.{module} as m\nif hasattr(m, 'terms'): m.terms('plain ASCII text v1.2.3"
        " getUserName')\nprint(*sorted(set(sys.modules) - before))"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert set(run.stdout.split()) <= {
        "gitmem",
        "gitmem.core",
        "gitmem.core.text",
        "gitmem.core.stem",
        "gitmem.core.rank",
        "itertools",
        "math",
        "__future__",
    }
