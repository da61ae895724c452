"""Fusion and priors: no rank inversion, no admission by a prior."""

import math
from itertools import pairwise

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
            assert hit.cosine >= max(rank.TABLE.floor, rank.TABLE.share * best)


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


@given(lexical, vector, st.floats(0, 60), st.floats(0, 1))
def test_in_the_space_of_the_encoder_neither_route_is_turned_round(words, meaning, ceiling, cover):
    hits = rank.fuse(words.items(), meaning.items(), None, ceiling, rank.ENCODER, cover)
    for upper, lower in pairwise(hits):
        low, up = lower.bm25 or 0.0, upper.bm25 or 0.0
        near, far = lower.cosine or 0.0, upper.cosine or 0.0
        assert not (low < up and near > far and near > 0), (upper, lower)


def test_words_that_cover_nothing_give_way_to_the_encoder():
    """One word in common with a memory about something else, and one that means what was asked."""
    words, meaning = [(1, -4.0)], [(2, 0.4), (1, 0.05)]
    assert [hit.row for hit in rank.fuse(words, meaning, None, 40.0, rank.ENCODER, 0.1)] == [2, 1]
    covered = rank.fuse([(1, -30.0)], [(2, 0.4), (1, 0.35)], None, 40.0, rank.ENCODER, 0.9)
    assert [hit.row for hit in covered] == [1, 2] and covered[0].weight > 0.3


def test_which_of_two_equal_lexical_hits_the_encoder_agrees_with_does_not_depend_on_their_rows():
    one = rank.fuse([(1, -9.0), (2, -9.0)], [(1, 0.1), (2, 0.5)], None, 20.0, rank.ENCODER, 0.5)
    two = rank.fuse([(2, -9.0), (1, -9.0)], [(2, 0.1), (1, 0.5)], None, 20.0, rank.ENCODER, 0.5)
    assert [hit.score for hit in one] == [hit.score for hit in two]


texts = st.dictionaries(rows, st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=20)


@given(lexical, vector, st.floats(0, 60), texts)
def test_a_second_reading_keeps_every_hit_and_turns_no_route_round(words, meaning, ceiling, held):
    before = {h.row for h in rank.fuse(words.items(), meaning.items(), None, ceiling)}
    hits = rank.reread(rank.fuse(words.items(), meaning.items(), None, ceiling), held)
    assert {h.row for h in hits} == before and len(hits) == len(before)
    for upper, lower in pairwise(hits):
        assert 0 <= lower.score <= upper.score + 1e-9 <= 1 + 2e-9
        assert (upper.row in held) >= (lower.row in held)
        if lower.row in held:
            more = [a > b for a, b in zip(held[lower.row], held[upper.row], strict=True)]
            low, up = lower.bm25 or 0.0, upper.bm25 or 0.0
            near, far = lower.cosine or 0.0, upper.cosine or 0.0
            assert not (low < up and near > far and near > 0 and all(more)), (upper, lower)


def test_a_memory_that_holds_the_words_of_a_question_side_by_side_comes_first():
    hits = rank.fuse([(1, -5.0), (2, -4.9)], [])
    assert [h.row for h in rank.reread(hits, {1: (0.5, 0.0), 2: (0.5, 0.5)})] == [2, 1]
