"""What a prompt says of its own is asked; what is said to an agent in every project is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmem.core import common_words, text

ORDER = "add retries to the upload step"


@pytest.mark.parametrize(
    "prompt",
    [
        ORDER,
        f"ok great. Can you please {ORDER}? I think we need this, let me know what you think",
        f"Yes, please {ORDER}! Make sure that all tests still pass before you commit.",
        f"Thanks, that looks good!\n{ORDER}\nMake sure that it works before you continue.",
        f"I would like to {ORDER}.",
    ],
)
def test_however_politely_an_order_is_wrapped_the_same_is_asked(prompt: str) -> None:
    assert common_words.asked(prompt).rstrip("?.!") == ORDER


@pytest.mark.parametrize(
    "prompt", ["go on", "ok, what's next?", "Fix the error. Run it again.", ""]
)
def test_a_prompt_without_a_word_of_its_own_stays_whole(prompt: str) -> None:
    assert common_words.asked(prompt) == prompt
    assert common_words.specificity(common_words.said(text.query_terms(prompt))) < 1.5


@pytest.mark.parametrize(
    "question", ["who are we", "how do we run the tests?", "80 or 443?", "はい"]
)
def test_a_plain_question_is_asked_as_it_is(question: str) -> None:
    assert common_words.asked(question) == question


def test_of_small_talk_around_a_rare_word_nothing_is_left() -> None:
    assert common_words.asked("Siemens asked. Let me know what you think.") == "Siemens asked."


@pytest.mark.parametrize(
    "prompt",
    [
        "Siemens complained yesterday.\nDo we still need the old API version?",
        "The zebra container dies.\nExit code 137.",
        "numpy broke.\n2.0.1",
        "compare redis vs. our current default",
        "Great Expectations fails",
        "Siemens is done.\nAdd input validation to the form.",
        "Siemens asked.\nTell me whether we still need the old API version.",
        "Siemens asked.\n**Do we still need the old API version?**",
    ],
)
def test_what_a_memory_may_answer_is_not_taken_for_small_talk(prompt: str) -> None:
    assert common_words.asked(prompt.replace("\n", " ")) == prompt


def test_a_sentence_goes_on_in_the_next_line() -> None:
    asked = common_words.asked(
        "I opened the calendar of our Berlin team and then wanted to\nadd a user"
    )
    assert asked == "I opened the calendar of our Berlin team and then wanted to add a user"


@given(
    st.text() | st.lists(st.sampled_from([*ORDER.split(), ", ", ". ", "ok", "we"])).map(" ".join)
)
def test_nothing_is_asked_that_was_not_said(prompt: str) -> None:
    asked = common_words.asked(prompt)
    assert bool(asked.strip()) == bool(prompt.strip())
    assert all(word.strip(",") in prompt for word in asked.split())


def test_a_word_of_every_project_counts_less_than_a_rare_one() -> None:
    assert common_words.specificity(["upload"]) == 1.0 > common_words.specificity(["file"]) >= 0.0
    assert common_words.specificity(["thank"]) == 0.0
