"""What hooks say beside memories: to the agent that it may write, to its user what was told."""

from __future__ import annotations

import html
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import Lab
from hook_world import Hooks, make
from test_signals_exact import LOOKALIKES, MARKED

from gitmem import worker
from gitmem.agents import keep_request
from gitmem.capture import markers, word_lists


@pytest.fixture
def hooks(lab: Lab) -> Hooks:
    return make(lab)


def stored(hooks: Hooks) -> list[tuple[str, str]]:
    return [(item["body"], item["type"]) for item in hooks.lab.json(hooks.repo, "list")]


def test_the_command_in_the_block_works_as_it_stands(hooks: Hooks) -> None:
    block = hooks.call("SessionStart", source="startup")
    [command] = re.findall(r"git mem (remember .*TEXT\")", html.unescape(block))
    text = "we talk to the broker over TLS only"
    program = f"{sys.executable} -m gitmem {command.replace('TEXT', text)}"
    subprocess.run(["sh", "-c", program], cwd=hooks.repo, env=hooks.lab.env, check=True)
    assert (text, "decision") in stored(hooks)


def test_an_initialised_repository_without_memories_says_how_the_first_is_kept(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init", "--offline")
    hooks = Hooks(lab, repo)
    block = hooks.call("SessionStart", source="startup")
    assert block.count("\n") == 1 and len(block) < 250
    assert "no memories here yet" in block and "git mem remember" in block
    assert hooks.call("SubagentStart", agent_id="a1") == ""


def test_the_user_sees_how_many_memories_were_given_and_how_many_are_stale(hooks: Hooks) -> None:
    hooks.lab.git(hooks.repo, "config", "mem.capture", "false")
    assert hooks.shown() == "git mem: 3 memories"
    (hooks.repo / "f0.txt").write_text("other\n")
    hooks.lab.git(hooks.repo, "commit", "-q", "-a", "-m", "change it")
    worker.run(str(hooks.repo / ".git"), os.environ, 0.0)
    for agent in ("claude", "codex", "gemini"):
        assert hooks.shown("resume", agent) == "git mem: 3 memories, 1 stale"
    hooks.lab.git(hooks.repo, "config", "mem.contextBudget", "200")
    assert re.fullmatch(r"git mem: [12] of 3 memories(, 1 stale)?", hooks.shown("clear"))
    assert hooks.shown("compact") == hooks.shown(agent="cursor") == ""


def test_that_capture_is_off_is_said_once_in_a_repository(hooks: Hooks) -> None:
    assert hooks.shown(agent="copilot") == hooks.shown("compact") == ""  # nobody would see it
    first = hooks.shown()
    assert first.startswith("git mem: 3 memories; capture is off: `git mem config capture all`")
    assert [hooks.shown(session=name) for name in ("s1", "s2")] == ["git mem: 3 memories"] * 2
    [command] = re.findall("`git mem (config capture all)`", first)
    hooks.lab.mem(hooks.repo, *command.split())
    assert hooks.lab.git(hooks.repo, "config", "mem.capture").strip() == "all"


@pytest.mark.parametrize("value", ["false", "commits", "all"])
def test_who_has_decided_about_capture_is_told_nothing_of_it(hooks: Hooks, value: str) -> None:
    hooks.lab.git(hooks.repo, "config", "mem.capture", value)
    assert hooks.shown() == "git mem: 3 memories"


def test_a_directory_that_takes_nothing_has_no_session_repeat_that_capture_is_off(
    hooks: Hooks,
) -> None:
    (pathlib.Path(hooks.mem_dir) / "capture-off.told").mkdir()
    assert hooks.shown() == "git mem: 3 memories"


def prompt(hooks: Hooks, text: str) -> str:
    return hooks.call("UserPromptSubmit", prompt=text)


ASKED = "Remember this: never commit generated files"


@pytest.mark.parametrize("setting", ["false", "commits"])
@pytest.mark.parametrize("injects", ["true", "false"])
def test_a_prompt_to_keep_something_tells_its_agent_how_where_capture_does_not(
    hooks: Hooks, setting: str, injects: str
) -> None:
    hooks.lab.git(hooks.repo, "config", "mem.capture", setting)
    hooks.lab.git(hooks.repo, "config", "mem.promptContext", injects)
    said = prompt(hooks, ASKED)
    assert f"mem.capture is {setting}" in said
    [command] = re.findall(r"git mem (remember .*\")</note>", said)
    text = "never commit generated files"
    program = f"{sys.executable} -m gitmem {command.replace('TEXT', text)}"
    subprocess.run(["sh", "-c", program], cwd=hooks.repo, env=hooks.lab.env, check=True)
    assert (text, "preference") in stored(hooks)


def test_a_prompt_to_keep_something_is_left_to_capture_where_it_is_on(hooks: Hooks) -> None:
    hooks.lab.git(hooks.repo, "config", "mem.capture", "all")
    assert prompt(hooks, ASKED) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Remember this function and rename it to parse_header",
        "#skip Remember this: never commit generated files",
        "<private>Remember this: never commit generated files</private>",
        f"/mem:remember {ASKED}",
        ASKED + " or files that somebody made by hand" * 100,
    ],
)
def test_a_prompt_that_capture_would_not_keep_unasked_is_left_alone(
    hooks: Hooks, text: str
) -> None:
    assert prompt(hooks, text) == ""


def test_a_prompt_to_keep_what_is_known_brings_that_memory_too(hooks: Hooks) -> None:
    said = prompt(hooks, "Remember that we store all timestamps as UTC and convert in the UI.")
    assert said.count("<memory_context") == 2 and "time zone of the user" in said
    assert said.index("git mem remember") < said.index("time zone of the user")
    assert len(said) <= 2_000


@pytest.mark.parametrize("agent", ["codex", "gemini", "cursor", "copilot"])
def test_every_agent_that_takes_context_with_a_prompt_is_told(hooks: Hooks, agent: str) -> None:
    payload = {"session_id": "s1", "cwd": str(hooks.repo), "prompt": ASKED}
    out = hooks.run("UserPromptSubmit", payload, agent=agent).stdout
    assert "git mem remember --type preference" in str(json.loads(out))


@pytest.mark.quick
def test_every_sure_marker_has_a_word_by_which_a_hook_knows_to_look() -> None:
    texts = [line.partition(" | ")[2] or line for line in [*MARKED, *LOOKALIKES]]
    sure = [text for text in texts if (found := markers.find(text)) and found[1]]
    assert len(sure) > 50
    assert [text for text in sure if not keep_request.likely(text)] == []
    assert [
        label for label in word_lists.TRAILERS if not keep_request.likely(f"**{label}**: x")
    ] == []
    assert not keep_request.likely("which rules does the decision follow: ours?")
