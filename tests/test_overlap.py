"""How much of a question a text holds: terms by their rarity, and pairs of neighbours."""

from hypothesis import given
from hypothesis import strategies as st

from gitmem.core import overlap, text

words = st.lists(st.sampled_from("abcdef"), max_size=12)


@given(words, words, st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 50)))
def test_shares_lie_between_nothing_and_all(asked, held, df):
    assert 0 <= overlap.cover(asked, set(held), df, 50) <= 1 + 1e-9
    assert 0 <= overlap.phrases(overlap.pairs(asked), held) <= 1
    assert overlap.cover(asked, set(asked), df, 50) in (0.0, 1.0)


def test_words_side_by_side_count_more_than_the_same_words_apart():
    asked = overlap.pairs(text.terms("why does the cache lock time out"))
    near = text.terms("the cache lock timed out after ten seconds")
    apart = text.terms("the lock of the page store; out of time, so we emptied the cache")
    assert overlap.phrases(asked, near) > overlap.phrases(asked, apart)


def test_one_pair_in_common_with_a_short_question_says_little():
    assert overlap.phrases(overlap.pairs(["cach", "lock"]), ["cach", "lock"]) < 0.2
