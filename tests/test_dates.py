"""Dates that make no sense are refused, whoever gives them."""

from __future__ import annotations

import json
import pathlib
import sys

import pytest
from conftest import Lab
from places import opened

from gitmem.cli.common import when
from gitmem.core import record
from gitmem.core.errors import Refused, UsageError

NONSENSE = [
    "tomorrowish", "2026-13-45", "2026-02-31", "2026/13/45", "13/45/2026", "10 blorp ago",
    "2 wekes ago", "foo 2 weeks ago", "25:99", "2026-08-22 25:61", "2026-8-32", "0/0/2026",
]  # fmt: skip
SENSE = [
    "2026-8-1", "2026/08/22", "22/8/2026", "8/22/2026", "2 weeks ago", "3.weeks.ago", "noon",
    "1 year 2 months ago", "last friday", "Jan 5 2025", "yesterday 17:30", "two days ago",
    "Sat, 22 Aug 2026 10:00:00 +0200", "2026-08-22T10:00:00Z", "1700000000", "@1700000000",
]  # fmt: skip


def test_a_date_that_no_calendar_has_or_git_reads_in_part_is_refused(lab: Lab) -> None:
    with opened(lab.repo()) as store:
        for text in NONSENSE:
            with pytest.raises(UsageError, match="cannot read '--since"):
                when(store, text, "--since")
        for text in SENSE:
            assert record.moment(when(store, text, "--since")), text


def test_since_later_than_until_is_refused(lab: Lab) -> None:
    repo = lab.repo()
    for command in (["list"], ["recall", "why"]):
        span = ["--since", "2026-03-01", "--until", "2026-02-01"]
        done = lab.run(repo, sys.executable, "-m", "gitmem", *command, *span)
        assert done.returncode == 2
        assert "error: --since 2026-03-01 is later than --until 2026-02-01" in done.stderr
    assert lab.json(repo, "list", "--since", "2026-03-01", "--until", "2026-03-01") == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("9999-01-01", "is in the future"), ("3026-01-01T00:00:00Z", "is in the future"),
        ("1969-12-31T23:59:59Z", "is before 1970"), ("0001-01-01", "is before 1970"),
        ("2026-13-45", "cannot read the time"), ("tomorrowish", "cannot read the time"),
    ],
)  # fmt: skip
def test_a_memory_is_not_made_at_a_time_that_cannot_be(text: str, wrong: str) -> None:
    with pytest.raises(Refused, match=wrong):
        record.timestamp(text)
    assert record.timestamp("1970-01-01") == "1970-01-01T00:00:00Z"


def test_a_line_with_such_a_time_is_named_and_the_others_are_stored(
    lab: Lab, tmp_path: pathlib.Path
) -> None:
    repo = lab.repo()
    drafts = [
        {"body": "a good one", "created_at": "2025-05-06T07:08:09Z"},
        {"body": "made by a broken clock", "created_at": "9999-01-01T00:00:00Z"},
        {"body": "made before git", "created_at": "1901-01-01"},
        {"body": "another good one"},
    ]
    rows = "".join(json.dumps(draft) + "\n" for draft in drafts)
    words = ("remember", "--jsonl", "-")
    done = lab.run(repo, sys.executable, "-m", "gitmem", *words, stdin=rows)
    assert done.returncode == 1 and "2 stored, 0 known, 2 refused" in done.stdout
    assert "line 2: the time '9999-01-01T00:00:00Z' is in the future" in done.stderr
    assert "line 3: the time '1901-01-01' is before 1970" in done.stderr
    assert {m["body"] for m in lab.json(repo, "list")} == {"a good one", "another good one"}


def test_what_a_commit_of_a_wrong_clock_says_is_captured_all_the_same(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.env["GIT_COMMITTER_DATE"] = "2050-01-01T00:00:00Z"
    text = "Orders live in PostgreSQL, since invoices share a transaction with them"
    words = ("commit", "-q", "--allow-empty", "-m", f"Move the orders\n\nDecision: {text}")
    lab.git(repo, *words)
    lab.mem(repo, "capture", "--now")
    (item,) = lab.json(repo, "list")
    assert item["body"] == text and item["created_at"] < "2050"
