"""A prompt that names what only one memory has is told that memory, whatever else it says."""

from __future__ import annotations

import json

import pytest
from conftest import Lab
from hook_world import Hooks

from gitmem.core import text


@pytest.fixture
def hooks(lab: Lab) -> Hooks:
    repo = lab.repo()
    lines = [f"Note {i} on how invoices of customer group {i} are rounded" for i in range(30)]
    given = "".join(json.dumps({"body": line}) + "\n" for line in lines)
    lab.mem(repo, "remember", "--jsonl", "-", stdin=given)
    lab.git(repo, "config", "mem.promptContext", "true")
    return Hooks(lab, repo)


PROMPT = (
    "add a test for {}, in the style of the others in that folder, run the whole suite, and then"
    " tidy up the landing page: the carousel flickers for visitors with slow phones"
)


@pytest.mark.parametrize(
    "name", ["#48213", "JIRA-482", "retryBudget", "db/orders.sql", "--drop-old", "EX_TEMPFAIL"]
)
def test_the_only_memory_with_a_name_of_the_prompt_is_told_alone(hooks: Hooks, name: str) -> None:
    prompt = PROMPT.format(name)
    hooks.lab.mem(hooks.repo, "remember", "The carousel of the landing page is lazy")
    hooks.lab.mem(hooks.repo, "remember", f"The queue drops old mail, see {name}")
    told = hooks.call("UserPromptSubmit", prompt=prompt)
    assert "The queue drops old mail" in told and "carousel" not in told
    for other in ("mail", "3.2", "e.g.", "and/or", "2026"):
        other = prompt.replace(name, other)
        assert "queue" not in hooks.call("UserPromptSubmit", prompt=other, session_id="s2")


def test_a_name_that_two_memories_have_says_nothing(hooks: Hooks) -> None:
    for body in ("The queue drops old mail", "Bounced mail is counted"):
        hooks.lab.mem(hooks.repo, "remember", f"{body}, see retryBudget")
    assert hooks.call("UserPromptSubmit", prompt=PROMPT.format("retryBudget")) == ""


@pytest.mark.parametrize(
    ("said", "noted"),
    [
        ("package.json", "package.json"),
        ("ci.yml", "ci.yml"),
        ("console.log", "console.log"),
        ("macOS", "macOS"),
        ("GitHub", "GitHub"),
        ("60 kB", "60 kB"),
        ("non-English", "non-English"),
        ("backend/API", "backend/API"),
        ("UTF-8", "UTF-8"),
        ("99.99 %", "99.99"),
        ("jo@gmail.com", "gmail.com"),
        ("prices.ts—urgent", "urgent"),
        ("请修复prices.ts问题", "问题"),
    ],
)
def test_what_any_project_says_is_no_name(hooks: Hooks, said: str, noted: str) -> None:
    hooks.lab.mem(hooks.repo, "remember", f"The queue drops old mail: {noted}")
    assert hooks.call("UserPromptSubmit", prompt=PROMPT.format(said)) == ""


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("see readTimeout, upload_chunk and `core/db.py:12`.", "readtimeout uploadchunk coredbpi"),
        ("fixes #1234 (JIRA-12), 4f0d2c1 with --max-retries", "1234 jira12 4f0d2c1 maxretri"),
        ('src/engine/cache in v2.31.4 as getCollection("blog")', "srcenginecach 2·31·4 getcollect"),
        (
            "and/or, e.g. N/A, 2026 rows of 500MB as UTF-x: defaced plus:free commit/push -- no-op",
            "",
        ),
    ],
)
def test_what_is_written_as_a_name(said: str, found: str) -> None:
    assert text.names(said).keys() == set(found.split())
