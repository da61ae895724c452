"""One rule for which memories a text names, and everybody keeps it."""

from __future__ import annotations

import pytest

from gitmem.core import id_mentions
from gitmem.feedback import usage

ID = "deadbeef" + "0" * 24
NAMED = [
    "deadbeef",
    "see [deadbeef], thrice",
    "`deadbeef0000`",
    ID,
    "DeadBeef",
    "xdeadbeef deadbeef000",
    "_deadbeef_",
    "İ deadbeef",
]
NOT = [
    "",
    "deadbee",
    "deadbeef1",
    "xdeadbeef",
    "0deadbeef",
    "deadbeefs",
    ID + "0",
    "dead beef",
    "deadbeefé",
]


@pytest.mark.parametrize("text", NAMED)
def test_named(text: str) -> None:
    assert id_mentions.named(text, ["cafebabe" + "1" * 24, ID]) == [ID] == usage.cited(text, [ID])


@pytest.mark.parametrize("text", NOT)
def test_not_named(text: str) -> None:
    assert id_mentions.named(text, [ID]) == [] == usage.cited(text, [ID])


def test_ids_of_other_tools_are_named_whole_words_only() -> None:
    assert id_mentions.named(
        "as jira123456 says", ["jira1234567", "jira123456", "jira-123456", "jira"]
    ) == ["jira1234567", "jira123456"]


def test_words_that_may_be_ids() -> None:
    assert id_mentions.words(["deadbeef", "deadbee", "deadbeefs", ID, ID + "0"]) == {"deadbeef", ID}
