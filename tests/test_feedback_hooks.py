"""What hooks note of a session's answers, and the loop from a prompt to the ranking."""

from __future__ import annotations

import pytest
from conftest import Lab
from hook_world import Hooks, make

from gitmem.agents import session


@pytest.fixture
def hooks(lab: Lab) -> Hooks:
    return make(lab)


def test_an_answer_that_names_a_memory_it_was_shown_is_noted_by_id_alone(hooks: Hooks) -> None:
    told = hooks.call("UserPromptSubmit", prompt="how do we store times and time zones?")
    id = told.split(' id="')[1][:8]
    assert (
        hooks.call(
            "Stop", last_assistant_message=f"We store UTC, says memory {id}. Top secret words."
        )
        == ""
    )
    (full,) = hooks.noted()["cited"]
    assert full.startswith(id) and len(full) == 32
    with open(session.path_of(hooks.mem_dir, "s1"), encoding="utf-8") as f:
        assert "secret" not in f.read()


def test_an_answer_that_names_a_memory_nobody_showed_it_is_not_noted(hooks: Hooks) -> None:
    (blocker,) = [m["id"] for m in hooks.lab.json(hooks.repo, "list", "--type", "blocker")]
    hooks.call("UserPromptSubmit", prompt="how do we store times and time zones?")
    assert hooks.call("Stop", last_assistant_message=f"See {blocker} and {blocker[:8]}.") == ""
    assert hooks.call("Stop") == ""
    assert hooks.call("Stop", last_assistant_message=5) == ""
    assert hooks.noted()["cited"] == []


def test_a_subagents_answer_counts_for_its_session(hooks: Hooks) -> None:
    told = hooks.call("SubagentStart", agent_id="a1", agent_type="Explore")
    id = told.split(' id="')[1][:8]
    assert (
        hooks.call(
            "SubagentStop",
            agent_id="a1",
            agent_type="Explore",
            last_assistant_message=f"By {id}: yes",
        )
        == ""
    )
    assert [full[:8] for full in hooks.noted()["cited"]] == [id]


def test_the_session_end_hook_alone_makes_the_loop_whole(hooks: Hooks) -> None:
    from gitmem import worker

    told = hooks.call("UserPromptSubmit", prompt="how do we store times and time zones?")
    id = told.split(' id="')[1][:8]
    hooks.call("Stop", last_assistant_message=f"UTC ({id}).")
    hooks.call("SessionEnd", reason="other", env={"GIT_MEM_NO_WORKER": "1"})
    worker.run(str(hooks.repo / ".git"), hooks.lab.env, linger=0.0, wait=30.0)
    (used,) = [m for m in hooks.lab.json(hooks.repo, "list") if m.get("use")]
    assert used["id"].startswith(id) and used["use"]["used"] == 1
