"""The verdict: sane answers in any store, more evidence never counts against, everyday prompts are
told nothing.
"""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmem.core import overlap, rank, verdict

rows = st.integers(0, 30)
lexical = st.dictionaries(rows, st.floats(-30, -1e-6), max_size=20)
vector = st.dictionaries(rows, st.floats(-1, 1), max_size=20)
terms = st.lists(st.sampled_from("abcdefgh"), max_size=8, unique=True)
AGAINST = ("bias", "length", "size", "unknown", "rivals")
SPEAKS = [name for name in verdict.FEATURES if name not in AGAINST]


def judge(wanted, df, n, hits, held, cosines, coefficients=verdict.TABLE):
    values = verdict.features(wanted, df, n, hits, held, list(cosines.values()), cosines)
    sure = verdict.probability(values, coefficients)
    return verdict.name(sure), sure


@given(terms, st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 10**6)), st.integers(0, 10**6),  # noqa: E501
       lexical, vector, st.lists(st.frozensets(st.sampled_from("abcdefgh")), max_size=9), st.booleans())  # fmt: skip  # noqa: E501
def test_it_never_raises_and_is_a_probability(wanted, df, n, words, meaning, held, encoder):
    n = max([n, *df.values()])
    space = rank.ENCODER if encoder else rank.TABLE
    hits = rank.fuse(words.items(), meaning.items(), None, rank.ceiling(wanted, df, n), space)
    name, sure = judge(
        wanted, df, n, hits, held, meaning, verdict.ENCODER if encoder else verdict.TABLE
    )
    assert name in ("HIT", "WEAK", "MISS") and 0 <= sure <= 1
    assert 0 <= overlap.cover(wanted, held[0] if held else (), df, n) <= 1 + 1e-9


def ask(cosine, held, n, wanted=("databas", "choos"), df=None, bm25=None):
    hits = rank.fuse(
        [(1, bm25)] if bm25 else [], [(1, cosine)], None, rank.ceiling(wanted, df or {}, n)
    )
    return judge(wanted, df or {}, n, hits, [held], {1: cosine})[0]


def test_nonsense_in_a_small_store_is_a_miss():
    assert ask(0.16, {"postgresql", "mongodb"}, 3) == "MISS"
    assert ask(0.17, {"postgresql", "mongodb"}, 1) == "MISS"


def test_all_words_of_the_question_make_a_hit_in_any_store():
    for n in (3, 100, 100_000):
        assert (
            ask(0.6, {"databas", "choos"}, n, df={"databas": 1, "choos": 1}, bm25=-20.0) == "HIT"
        ), n


@pytest.mark.parametrize("coefficients", [verdict.TABLE, verdict.ENCODER])
def test_a_probability_never_falls_with_evidence(coefficients):
    rnd = random.Random(1)
    base = [1.0] + [rnd.random() for _ in verdict.FEATURES[1:]]
    for name in SPEAKS:
        more = list(base)
        more[verdict.FEATURES.index(name)] += 0.1
        assert verdict.probability(more, coefficients) >= verdict.probability(base, coefficients), (
            name
        )


def test_whoever_looks_for_a_word_is_shown_where_it_stands():
    assert verdict.name(0.0, covered=True) == "WEAK" and verdict.name(0.0) == "MISS"


def test_to_be_told_unasked_takes_more_than_to_be_shown():
    assert verdict.MISS_BELOW < verdict.HIT_FROM < verdict.TELL_FROM


@pytest.mark.parametrize("n", [0, 1, 2, 10])
def test_rarer_terms_weigh_more(n):
    df = {"often": n, "seldom": 0}
    assert overlap.cover(["often", "seldom"], {"seldom"}, df, n) >= overlap.cover(
        ["often", "seldom"], {"often"}, df, n
    )


def test_small_talk_and_the_number_of_a_step_are_no_evidence():
    """ "let's move on to 3.2" beside a memory about version 3.2."""
    asked, held, df = ["let", "move", "3·2"], {"3·2", "move", "let"}, {"3·2": 1, "move": 3}
    assert verdict.enough(["cach", "lock", "3·2", "wait"])
    assert not verdict.enough(["move", "3·2", "11·2", "4", "let"])
    hits = rank.fuse([(1, -9.0)], [(1, 0.3)], None, rank.ceiling(asked, df, 20))
    with_number = judge(asked, df, 20, hits, [held], {1: 0.3})[1]
    assert with_number <= judge(asked[:2], df, 20, hits, [{"move"}], {1: 0.3})[1]


def test_a_store_beyond_the_calibration_counts_as_the_largest_in_it():
    at = verdict.FEATURES.index("size")
    sizes = [verdict.features(["lock"], {}, n, [], [], [], {})[at] for n in (500, 3000, 100_000)]
    assert sizes[0] < sizes[1] == sizes[2]
