"""The rules: a marker counts where its author speaks in their own name, and what can be no memory
ends early.
"""

from __future__ import annotations

import time

import pytest

from gitmem.capture import markers, signals


def kind(text: str, role: str = "user") -> str:
    found = signals.read(role, text)
    return found.kind if found else ""


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("Remember this: the staging database is wiped every Sunday.", "learning"),
        ("Thanks. Please remember that invoices are numbered per year.", "learning"),
        ("Remember: always squash before merging", "preference"),
        ("#remember the CI runner has two cores", "learning"),
        ("For future reference, the API key lives in the vault.", "learning"),
        ("From now on never commit generated files.", "preference"),
        ("Looks good. Also, going forward use tabs in makefiles.", "preference"),
        ("In future please ask before you delete a branch", "preference"),
        ("Fix the import.\n\nDecision: keep SQLite, the wheel is smaller", "decision"),
        ("**Gotcha:** the mock clock is never reset", "gotcha"),
        ("Convention: one module a command", "convention"),
        ("Root cause: the lock file was left behind", "bugfix"),
        ("- Learned: amounts come in cents", "learning"),
    ],
)
def test_an_explicit_marker_is_sure_and_names_the_type(text: str, type: str) -> None:
    assert signals.read("user", text) == signals.Signal("explicit", type, signals.EXPLICIT)


@pytest.mark.parametrize(
    "text",
    [
        "Do you remember that bug with the lock file?",
        "Remember to run the tests",
        "don't forget to push the branch when you are done",
        "What if we remember this: every query twice?",
        'The README says "Remember this: never use root", is it outdated?',
        "> Decision: use Redis\n\nwho wrote this line in the log?",
        "```\nDecision: use Redis\n```\nexplain this output to me",
        "the field `remember: true` is not read by the form",
        "In the future we could look at sharding",
        "Decision?",
        "the note: prefix is printed twice in the log of the server",
    ],
)
def test_a_question_an_errand_a_quotation_or_code_marks_nothing(text: str) -> None:
    assert kind(text) != "explicit"


def test_advice_of_an_assistant_is_not_a_marker() -> None:
    assert kind("Remember: always restart the server after changing the port.", "assistant") == ""


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "Option B",
        "ok thanks",
        "looks good, go ahead",
        "git status",
        "npm run build",
        "What does this function return?",
        "should we use Redis here?",
        "Don't forget to run the linter",
        "I'll open the file and look at the imports.",
        "👍",
    ],
)
def test_a_turn_without_content_is_empty(text: str) -> None:
    assert kind(text) == "empty"


@pytest.mark.parametrize(
    "text",
    [
        "We use argon2id for passwords.",
        "no, the cache must survive a restart",
        "make the header sticky on small screens only",
        "git notes are not fetched by default, which is why the team saw nothing.",
        "使用中文",
    ],
)
def test_a_turn_with_content_is_left_to_the_model(text: str) -> None:
    assert kind(text) != "empty"


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("We decided to drop Windows 7 because nobody runs it.", "decision"),
        ("After a long talk, we settled on nightly builds only.", "decision"),
        ("ok, let's stick with Postgres for the queue as well", "decision"),
        ("It turned out that the proxy strips the header.", "learning"),
        ("The bug was caused by two threads sharing one cursor.", "bugfix"),
        ("Never log the request body in production.", "preference"),
    ],
)
def test_a_statement_is_likely(text: str, type: str) -> None:
    assert signals.read("user", text) == signals.Signal("stated", type, signals.STATED)


@pytest.mark.parametrize(
    "text",
    [
        "Let's go with option 2 for this one please",
        "let's go with your recommended approach then",
        "have we decided to drop Windows 7 or not?",
        "if we decided to drop it, what would break",
    ],
)
def test_a_choice_without_its_content_and_a_hypothesis_are_no_statements(text: str) -> None:
    assert kind(text) != "stated"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\0",
        "\ud800",
        "'" * 50_000,
        '"a' * 50_000,
        "`" * 50_000,
        "(" * 50_000,
        "the " * 20_000,
        "we " * 20_000 + "decided to go",
        ">" * 50_000,
        "```\ncode\n```\nDecision: use Postgres for all orders that we keep",
        "a ```b``` ~~~c~~~ Remember this: we number orders per warehouse",
    ],
)
def test_any_text_is_read(text: str) -> None:
    assert signals.read("user", text) is None or kind(text) in ("empty", "stated", "explicit")


@pytest.mark.parametrize("fence", ["", "```\ncode\n```\n", "see ```a``` and ~~~\nb\n\n~~~\n"])
@pytest.mark.parametrize(
    ("before", "after", "sure"),
    [
        ("We looked at it.", "", True),
        ("We looked at it.", "\nWe go on.", True),
        ("The log says:", "\nWe go on.", False),
        ("We looked at it.", "\nreporter: nobody", False),
    ],
)
def test_a_marker_behind_a_code_fence_is_judged_by_its_own_line(
    fence: str, before: str, after: str, sure: bool
) -> None:
    text = f"{fence}{before}\nDecision: use Postgres for all orders that we keep{after}"
    assert markers.find(text) == ("decision", sure)


@pytest.mark.parametrize(
    "text", ["from now on" + ":" * 60_000, "so " * 10_000 + "remember:\n" + "1.\n" * 10_000]
)
def test_what_leads_to_a_marker_costs_no_square(text: str) -> None:
    begun = time.process_time()
    markers.find(text)
    assert time.process_time() - begun < 2.0
