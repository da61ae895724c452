"""What a hook leaves for the worker where capture is on, and what it does not."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from capture_world import WIPED
from conftest import Lab
from hook_world import Hooks

from gitmem.capture import candidates, sources, toolcalls
from gitmem.hooks import spool


@pytest.fixture
def hooks(lab: Lab) -> Hooks:
    made = make(lab)
    lab.git(made.repo, "config", "mem.capture", "all")
    return made


def make(lab: Lab) -> Hooks:
    repo = lab.repo()
    lab.mem(repo, "init", "--offline")
    return Hooks(lab, repo)


def waiting(hooks: Hooks) -> list[dict[str, Any]]:
    """The events with text in the spool."""
    path = pathlib.Path(hooks.mem_dir) / "spool"
    lines = (
        [json.loads(line) for line in path.read_bytes().splitlines() if line]
        if path.exists()
        else []
    )
    return [line for line in lines if line["event"] == sources.EVENT]


def raw(hooks: Hooks) -> bytes:
    return b"".join(p.read_bytes() for p in pathlib.Path(hooks.mem_dir).rglob("*") if p.is_file())


def park(hooks: Hooks) -> None:
    """A worker that is always there and does nothing: what hooks leave stays to be looked at."""
    import os

    spool.claim(hooks.mem_dir, os.getpid())


def test_with_capture_off_no_text_touches_the_disk(lab: Lab) -> None:
    hooks = make(lab)
    park(hooks)
    hooks.call("UserPromptSubmit", prompt="zebra one")
    hooks.call("Stop", last_assistant_message="zebra two")
    hooks.call(
        "PostToolUse",
        tool_name="Edit",
        tool_input={
            "file_path": str(hooks.repo / "f0.txt"),
            "old_string": "zebra three",
            "new_string": "zebra four",
        },
    )
    hooks.call("SessionEnd", reason="other", transcript_path="/zebra.jsonl")
    lab.git(hooks.repo, "config", "mem.capture", "commits")
    hooks.call("UserPromptSubmit", prompt="zebra five")
    assert b"zebra" not in raw(hooks)


def test_a_prompt_waits_with_its_session_and_commit(lab: Lab, hooks: Hooks) -> None:
    park(hooks)
    hooks.call("UserPromptSubmit", prompt=WIPED)
    head = lab.git(hooks.repo, "rev-parse", "HEAD").strip()
    assert waiting(hooks) == [
        {
            "event": "heard",
            "role": "user",
            "text": WIPED,
            "session": "s1",
            "agent": "claude",
            "head": head,
            "branch": "main",
        }
    ]


def test_the_spool_is_for_its_owner_alone(hooks: Hooks) -> None:
    park(hooks)
    hooks.call("UserPromptSubmit", prompt=WIPED)
    assert (pathlib.Path(hooks.mem_dir) / "spool").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "said",
    [
        "<private>zebra</private>",
        "a <private>zebra",
        "zebra #skip",
        "/mem:remember zebra",
        "<system-reminder>zebra</system-reminder>",
        "<memory_context><memory>zebra</memory></memory_context>",
        "<claude-mem-context>zebra</claude-mem-context>",
    ],
)
def test_what_may_not_be_kept_is_cut_before_the_append(hooks: Hooks, said: str) -> None:
    park(hooks)
    hooks.call("UserPromptSubmit", prompt=f"{said}")
    hooks.call("Stop", last_assistant_message=said)
    hooks.call(
        "PostToolUse",
        tool_name="Write",
        tool_input={"file_path": str(hooks.repo / "f0.txt"), "content": said},
    )
    assert b"zebra" not in raw(hooks)


def test_an_answer_wakes_the_worker_and_prints_nothing(hooks: Hooks) -> None:
    assert hooks.call("Stop", last_assistant_message="Decision: use SQLite") == ""
    import time

    for _ in range(600):
        if not spool.waiting(hooks.mem_dir):
            return
        time.sleep(0.05)
    raise AssertionError("nobody drained the spool")


def judged(hooks: Hooks) -> None:
    """As where the last worker had a language model."""
    pathlib.Path(hooks.mem_dir, sources.READY).touch()


def test_a_tool_leaves_file_change_and_result(hooks: Hooks) -> None:
    park(hooks)
    judged(hooks)
    hooks.call(
        "PostToolUse",
        tool_name="Edit",
        tool_response={"filePath": "x"},
        tool_input={
            "file_path": str(hooks.repo / "src" / "token.ts"),
            "old_string": "const token = getToken()",
            "new_string": "const token = await getToken()",
        },
    )
    (event,) = waiting(hooks)
    assert event["paths"] == ["src/token.ts"]
    assert (
        event["text"]
        == "Tool: Edit\nFile: src/token.ts\nChange: `const token = getToken()` → `const token ="
        " await getToken()`\nResult: applied"
    )


def test_a_tool_that_only_reads_failed_or_worked_outside_leaves_no_text(hooks: Hooks) -> None:
    park(hooks)
    judged(hooks)
    hooks.call(
        "PostToolUse", tool_name="Read", tool_input={"file_path": str(hooks.repo / "f0.txt")}
    )
    hooks.call("PostToolUse", tool_name="Bash", tool_input={"command": "echo zebra"})
    hooks.call(
        "PostToolUse",
        tool_name="Edit",
        tool_input={"file_path": str(hooks.repo / "f0.txt"), "new_string": "zebra"},
        tool_response={"success": False},
    )
    hooks.call(
        "PostToolUse",
        tool_name="Write",
        tool_input={"file_path": "/elsewhere/f", "content": "zebra"},
    )
    assert waiting(hooks) == []


def test_of_a_large_file_the_beginning_waits(hooks: Hooks) -> None:
    park(hooks)
    judged(hooks)
    hooks.call(
        "PostToolUse",
        tool_name="Write",
        tool_input={"file_path": str(hooks.repo / "f0.txt"), "content": "word " * 200_000},
    )
    (event,) = waiting(hooks)
    assert toolcalls.CHARS < len(event["text"]) < 2 * toolcalls.CHARS


def test_a_pasted_text_is_left_out_whole(hooks: Hooks) -> None:
    park(hooks)
    hooks.call("UserPromptSubmit", prompt="zebra " * 10_000)
    assert b"zebra" not in raw(hooks)


def test_a_prompt_is_captured_with_and_without_context(lab: Lab, hooks: Hooks) -> None:
    park(hooks)
    for wanted in ("false", "true"):
        lab.git(hooks.repo, "config", "mem.promptContext", wanted)
        assert hooks.call("UserPromptSubmit", prompt=WIPED) == ""
    assert [e["text"] for e in waiting(hooks)] == [WIPED, WIPED]


def test_other_agents_are_captured_by_their_own_words(hooks: Hooks) -> None:
    park(hooks)
    hooks.run(
        "BeforeAgent",
        {"session_id": "g", "cwd": str(hooks.repo), "prompt": "Decision: of Gemini"},
        agent="gemini",
    )
    hooks.run(
        "AfterAgent",
        {"session_id": "g", "cwd": str(hooks.repo), "prompt_response": "It is decided."},
        agent="gemini",
    )
    hooks.run(
        "notify",
        {
            "type": "agent-turn-complete",
            "thread-id": "t",
            "cwd": str(hooks.repo),
            "last-assistant-message": "Done by Codex.",
        },
        agent="codex",
    )
    assert [(e["agent"], e["role"], e["text"]) for e in waiting(hooks)] == [
        ("gemini", "user", "Decision: of Gemini"),
        ("gemini", "assistant", "It is decided."),
        ("codex", "assistant", "Done by Codex."),
    ]


def test_strange_text_is_one_line(hooks: Hooks) -> None:
    park(hooks)
    said = "line one\nline two\u2028three \x85 four \U0001f600 fünf"
    hooks.call("UserPromptSubmit", prompt=said)
    assert [e["text"] for e in waiting(hooks)] == [said]
    assert hooks.failures() == 0


def test_an_answer_is_about_the_files_changed_since_the_prompt() -> None:
    def event(role: str, text: str, *paths: str) -> dict[str, Any]:
        return {"role": role, "text": text, "session": "s", "paths": list(paths)}

    found = candidates.from_events(
        [
            event("user", "one"),
            event("tool", "Tool: Edit", "a.py"),
            event("tool", "Tool: Edit", "b.py"),
            event("assistant", "done"),
            event("user", "two"),
            event("assistant", "yes"),
        ]
    )
    assert [(c.text, c.paths) for c in found if c.role == "assistant"] == [
        ("done", ["a.py", "b.py"]),
        ("yes", []),
    ]


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"role": "user"},
        {"role": 1, "text": "x"},
        {"role": "system", "text": "x"},
        {"role": "user", "text": ["x"]},
        {"role": "user", "text": " "},
    ],
)
def test_events_of_another_shape_are_passed_over(event: dict[str, Any]) -> None:
    assert candidates.from_events([event]) == []


def test_the_record_of_a_session_in_a_submodule_is_read(lab: Lab, tmp_path: pathlib.Path) -> None:
    inner, outer = lab.repo("inner"), lab.repo("outer")
    lab.git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner))
    repo = outer / "inner"
    lab.mem(repo, "init", "--offline")
    lab.git(repo, "config", "mem.capture", "all")
    message = {"role": "user", "content": WIPED}
    turn = {"type": "user", "cwd": str(repo), "message": message}
    record = tmp_path / "s1.jsonl"
    record.write_text(json.dumps(turn) + "\n")
    payload = {"session_id": "s1", "cwd": str(repo), "transcript_path": str(record)}
    Hooks(lab, repo).run("SessionEnd", payload)
    lab.mem(repo, "capture", "--now")
    assert [m["body"] for m in lab.json(repo, "list", "--all")] == [WIPED]
