"""Fusion, priors and verdict: no rank inversion, no admission by a prior, sane answers in any store."""

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmem.core import rank

rows = st.integers(0, 30)
bm25s = st.floats(-30, -1e-6)
cosines = st.floats(-1, 1)
lexical = st.dictionaries(rows, bm25s, max_size=20)
vector = st.dictionaries(rows, cosines, max_size=20)


@given(lexical, vector, st.floats(0, 60))
def test_better_on_both_routes_never_ranks_below(words, meaning, ceiling):
    hits = rank.fuse(words.items(), meaning.items(), None, ceiling)
    for upper, lower in pairwise(hits):
        low, up = lower.bm25 or 0.0, upper.bm25 or 0.0
        near, far = lower.cosine or 0.0, upper.cosine or 0.0
        assert not (low < up and near > far and near > 0), (upper, lower)


def test_reciprocal_rank_like_inversion_would_be_noticed():
    """The probe above can fail: 1 - similarity, as seed 003 has it, turns the order round."""
    hits = rank.fuse([(1, -9.0), (2, -1.0)], [(1, 0.9), (2, 0.3)])
    inverted = hits[::-1]
    assert [hit.row for hit in hits] == [1, 2]
    assert inverted[1].bm25 < inverted[0].bm25
    assert inverted[1].cosine > inverted[0].cosine


@given(lexical, vector, st.floats(0, 60))
def test_hits_are_lexical_rows_and_near_ones_and_no_other(words, meaning, ceiling):
    hits = rank.fuse(words.items(), meaning.items(), None, ceiling)
    found = [hit.row for hit in hits]
    assert len(set(found)) == len(found)
    assert set(words) <= set(found) <= set(words) | set(meaning)
    best = max(meaning.values(), default=0)
    for hit in hits:
        assert 0 <= hit.score <= 1
        assert 0 <= hit.lexical <= 1
        assert hit.retrieval in ("bm25", "vector", "hybrid")
        assert (hit.retrieval == "vector") == (hit.row not in words)
        if hit.retrieval != "bm25":
            assert hit.cosine >= max(rank.VECTOR_FLOOR, rank.VECTOR_SHARE * best)


@given(lexical, vector, st.randoms())
def test_the_order_of_candidates_changes_nothing(words, meaning, rnd):
    first = [(h.row, h.score) for h in rank.fuse(words.items(), meaning.items())]
    shuffled_words, shuffled_meaning = list(words.items()), list(meaning.items())
    rnd.shuffle(shuffled_words)
    rnd.shuffle(shuffled_meaning)
    assert [(h.row, h.score) for h in rank.fuse(shuffled_words, shuffled_meaning)] == first


def test_ties_go_to_the_lower_row():
    assert [h.row for h in rank.fuse([(5, -2.0), (3, -2.0), (4, -2.0)], [])] == [3, 4, 5]


def test_a_lexical_hit_gets_its_meaning_from_the_cosines_passed():
    hits = rank.fuse([(1, -5.0), (2, -5.0)], [], {2: 0.6, 1: 0.1})
    assert [(h.row, h.retrieval) for h in hits] == [(2, "hybrid"), (1, "bm25")]


def test_noise_is_no_vector_hit():
    assert rank.fuse([], [(1, 0.14), (2, 0.1)]) == []
    assert [h.row for h in rank.fuse([], [(1, 0.6), (2, 0.3)])] == [1]
    assert rank.fuse([], []) == []


def test_one_common_word_of_six_does_not_beat_the_meaning():
    wanted = ["a", "b", "c", "d", "e", "time"]
    ceiling = rank.ceiling(wanted, {"time": 1}, 20)
    hits = rank.fuse([(1, -2.5)], [(2, 0.5), (1, 0.1)], None, ceiling)
    assert [h.row for h in hits] == [2, 1]


@given(lexical, vector, st.dictionaries(rows, st.floats() | st.just(math.inf)))
def test_a_prior_reorders_and_never_admits_or_drops(words, meaning, priors):
    hits = rank.fuse(words.items(), meaning.items())
    before = [h.row for h in hits]
    after = rank.apply_priors(hits, priors)
    assert sorted(h.row for h in after) == sorted(before)
    for hit in after:
        assert 1 / rank.PRIOR_MAX <= hit.prior <= rank.PRIOR_MAX
        assert 0 <= hit.score <= 1
    for upper, lower in pairwise(after):
        assert lower.fused <= upper.fused * rank.PRIOR_MAX**2 * (1 + 1e-9)
    assert [h.row for h in rank.apply_priors(hits, {})] == before


def test_a_prior_does_reorder():
    hits = rank.fuse([(1, -5.0), (2, -4.8)], [])
    assert [h.row for h in rank.apply_priors(hits, {2: 1.3})] == [2, 1]
    assert hits[0].parts()["prior"] == 1.0


wanted_terms = st.lists(st.sampled_from("abcdefgh"), max_size=8, unique=True)


@given(wanted_terms, st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 10**6)), st.integers(0, 10**6),
       lexical, vector, st.lists(st.frozensets(st.sampled_from("abcdefgh")), max_size=9))  # fmt: skip
def test_verdict_never_raises_and_is_a_probability(wanted, df, n, words, meaning, held):
    n = max([n, *df.values()])
    hits = rank.fuse(words.items(), meaning.items(), None, rank.ceiling(wanted, df, n))
    name, probability = rank.verdict(wanted, df, n, hits, held, list(meaning.values()))
    assert name in ("HIT", "WEAK", "MISS")
    assert 0 <= probability <= 1
    assert 0 <= rank.cover(wanted, held[0] if held else (), df, n) <= 1 + 1e-9
    if not hits:
        assert (name, probability) == ("MISS", 0.0)


def ask(cosine, held, n, wanted=("databas", "choos"), df=None, bm25=None):
    words = [(1, bm25)] if bm25 else []
    df = df or {}
    hits = rank.fuse(words, [(1, cosine)], None, rank.ceiling(wanted, df, n))
    return rank.verdict(wanted, df, n, hits, [held], [cosine])[0]


def test_small_store_meaning_alone_is_no_miss_and_nonsense_is():
    assert ask(0.46, {"postgresql", "mongodb"}, 3) != "MISS"
    assert ask(0.14, {"postgresql", "mongodb"}, 3) == "MISS"
    assert ask(0.17, {"postgresql", "mongodb"}, 1) == "MISS"


def test_all_words_of_the_question_make_a_hit_in_any_store():
    for n in (1, 3, 100, 100_000):
        assert ask(0.6, {"databas", "choos"}, n, df={"databas": 1, "choos": 1}, bm25=-20.0) == "HIT"


def test_a_probability_rises_with_each_kind_of_evidence():
    rnd = random.Random(1)
    for _ in range(200):
        base = [1.0] + [rnd.random() for _ in rank.FEATURES[1:]]
        score = sum(a * b for a, b in zip(rank.COEFFICIENTS, base, strict=True))
        for name in ("cover", "cosine", "margin", "matched", "agree"):
            more = list(base)
            more[rank.FEATURES.index(name)] += 0.1
            assert sum(a * b for a, b in zip(rank.COEFFICIENTS, more, strict=True)) > score


@pytest.mark.parametrize("n", [0, 1, 2, 10])
def test_rarer_terms_weigh_more(n):
    df = {"often": n, "seldom": 0}
    assert rank.cover(["often", "seldom"], {"seldom"}, df, n) >= rank.cover(["often", "seldom"], {"often"}, df, n)
