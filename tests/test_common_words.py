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


QUESTION = "which database do orders and invoices use?"
CODE = "\n".join(f"def f{i}(x):\n    return x + {i}  # one more" for i in range(10))
BRACES = """import { retry } from "./retry"

export default async (job) => {

  try {
    await send(job)

  } catch (e) {
    retry(job)
  }
}"""
LOG = "\n".join(f"2026-11-30T07:00:{i} ERROR request {i} took {i}{i} ms" for i in range(10, 50))


@pytest.mark.parametrize(
    "prompt",
    [
        f"{QUESTION}\n\n```py\n{CODE}\n```",
        f"```py\n{CODE}\n```\n{QUESTION}",
        f"{QUESTION}\n{CODE}",
        f"{QUESTION}\n\n" + CODE.replace("\ndef", "\n\n\ndef"),
        f"{QUESTION}\n\n{BRACES}",
        f"{BRACES}\n\n{QUESTION}",
        f"{LOG}\n{QUESTION}",
        f"{LOG * 50}\n\n{QUESTION}",
    ],
)
def test_code_and_logs_that_are_pasted_beside_a_question_are_not_asked(prompt: str) -> None:
    assert common_words.asked(prompt).strip() == QUESTION


def test_a_few_pasted_lines_and_those_with_nothing_beside_them_are_asked() -> None:
    names = "\n".join(
        f"- {name}" for name in ("orders", "rows", "taxes", "users", "items", "rates")
    )
    assert "- taxes" in common_words.asked(f"{QUESTION}\n{names}\r\n")
    for item in ("- ", "  * ", "3. "):
        listed = names.replace("- ", f"{item}what a customer sees of ").replace("\n", ";\n")
        assert "of taxes;" in common_words.asked(f"{QUESTION}\n{listed}.")
    error = "ValueError: row 17 has no 'account'"
    assert error in common_words.asked(f"why does this happen?\n```\n{error}\n```")
    assert error in common_words.asked(f"```\n{CODE}\n{error}\n```\nok, go on")
    assert error in common_words.asked(f"{QUESTION}\n```\n{error}"), "a fence that nothing closes"


def test_code_within_a_line_fences_nothing_off() -> None:
    said = "```npm test``` fails." + "\nThe ledger of invoices rounds to cents." * 4
    assert common_words.asked(f"{said}\n```\nAssertionError\n```\nThe tax is missing.").startswith(
        "```npm test``` fails.\nThe ledger"
    )


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
