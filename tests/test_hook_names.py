"""Names of tools and files that look like secrets stay out of `.git/mem`; ordinary names are
cheap."""

from __future__ import annotations

import os
import pathlib
import random
from typing import Any

import hook_world
import pytest
from conftest import Lab
from hook_world import Hooks
from test_redact import SHAPES, build

from gitmem.agents import events
from gitmem.core import redact

# Made at run time: a scanner that reads this file finds none.
TOKEN = (
    "gh"
    + "p_"
    + "".join(
        random.Random(5).choices("abcdefghjkmnpqrstuvwxyzABCDEFGHJKMNPQRSTUVWXYZ23456789", k=36)
    )
)
URL = "postgres://svc:" + "Tr0ub" + "4dor9" + "@db.corp/shop"


@pytest.fixture
def hooks(lab: Lab) -> Hooks:
    return hook_world.make(lab)


def edit(path: str) -> dict[str, Any]:
    return {"tool_name": "Edit", "tool_input": {"file_path": path}, "tool_response": {}}


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("PostToolUse", edit(f"conf/{TOKEN}.txt")),
    ("PostToolUse", edit(URL)),
    (
        "PostToolUse",
        {"tool_name": f"mcp__{TOKEN}", "tool_input": {}, "tool_response": {"exit_code": 1}},
    ),
    ("PostToolUse", {**edit(TOKEN), "tool_response": {"success": False}}),
    (
        "PostToolUse",
        {
            "tool_name": "apply_patch",
            "tool_response": {},
            "tool_input": {"input": f"*** Begin Patch\n*** Update File: {TOKEN}\n*** End Patch"},
        },
    ),
    ("SessionEnd", {"reason": TOKEN}),
    ("SessionStart", {"source": TOKEN}),
]


@pytest.mark.parametrize("capture", ["false", "all"])
def test_a_secret_as_a_name_is_in_no_file_below_mem(hooks: Hooks, capture: str) -> None:
    hooks.lab.git(hooks.repo, "config", "mem.capture", capture)
    if capture == "all":  # the last worker had a language model, so tools are described to it
        pathlib.Path(hooks.mem_dir, "model.ready").write_text("")
    pathlib.Path(hooks.mem_dir, "worker.pid").write_text(str(os.getpid()))
    for event, given in CALLS:
        hooks.call(event, **given)
    hooks.call("PostToolUse", **edit("src/plain.py"))
    assert hooks.noted()["touched"] == ["src/plain.py"]
    assert hooks.noted()["start"] == ["startup"] and hooks.noted()["end"] == ["other"]
    for path in pathlib.Path(hooks.mem_dir).rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        for part in (TOKEN[:24], "Tr0ub" + "4dor9"):
            assert part.encode() not in content, path
    assert hooks.failures() == 0


@pytest.mark.parametrize("rule,shape", SHAPES)
def test_no_token_of_a_documented_shape_passes_for_an_ordinary_name(rule: str, shape: str) -> None:
    for seed in range(5):
        token = build(shape, seed)
        for name in (token, f"conf/{token}", f"conf/{token}.txt", f"a_{token}"):
            if redact.holds(name):
                assert events._secret([name]), name


@pytest.mark.parametrize("name", [
    "src/gitmem/agents/events.py", "AbstractSingletonProxyFactoryBean.java", "mcp__github__create_issue",  # noqa: E501
    "tests/test_a_long_name_of_a_test.py", "web/components/NavigationBar.test.tsx", "f0.txt", ".env.local",  # noqa: E501
])  # fmt: skip
def test_an_ordinary_name_is_told_without_loading_the_rules(name: str) -> None:
    assert not events._doubtful(name)


@pytest.mark.parametrize("name", [
    "docs/2026-11-23-release-notes.md", "db/20261123120000_add_users.sql", "notes/My Plan v2.md",
    "src/SHA256DigestCalculatorFactory.java", "packages/@scope/name/index.ts",
    "3f786850e387550fdab836ed7e6dc881de23001b", "4f0c9d3e-8f3a-4b6e-9a51-0d7f4c2b9e10.json",
])  # fmt: skip
def test_a_doubtful_name_that_is_no_secret_is_noted(hooks: Hooks, name: str) -> None:
    assert events._doubtful(name)
    hooks.call("PostToolUse", **edit(name))
    assert hooks.noted()["touched"] == [name]
