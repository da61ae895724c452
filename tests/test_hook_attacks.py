"""Attacks on the hooks of agents: odd input, many at once, signals. Whole processes."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from conftest import Lab, until
from hook_world import PROMPT, SLOW, Hooks, make

from gitmem.agents import failures, protocol, session

HOOK = [sys.executable, "-P", "-m", "gitmem", "hook"]
TEXTS = [
    None,
    True,
    -1,
    10**30,
    1e308,
    "",
    "\0",
    "\ud800",
    f"{PROMPT} \ud83d",
    "\u202e",
    "a\nb\tc\\d",
    '{"a":',
    "../../../etc/passwd",
    "/" * 5000,
    "😀" * 3000,
    [],
    {},
    [[["a"]]],
    {"a": {"b": 1}},
]


@pytest.fixture
def hooks(lab: Lab) -> Hooks:
    return make(lab)


def log(hooks: Hooks) -> str:
    path = pathlib.Path(hooks.mem_dir, failures.LOG)
    return path.read_text() if path.exists() else ""


def settled(hooks: Hooks) -> None:
    left = [os.path.join(hooks.mem_dir, name) for name in ("worker.pid", "spool")]
    until(lambda: not any(map(os.path.exists, left)))


# --- input -------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_no_value_of_any_field_makes_a_hook_fail(hooks: Hooks, seed: int) -> None:
    rng = random.Random(seed)
    for n in range(15):
        event = rng.choice(protocol.EVENTS)
        payload: dict[str, Any] = {
            "session_id": f"s{n}",
            "cwd": str(hooks.repo),
            "hook_event_name": event,
            "prompt": PROMPT,
            "tool_name": "Edit",
            "tool_input": {"file_path": "f0.txt"},
        }
        for field in rng.sample(
            [
                "session_id",
                "cwd",
                "hook_event_name",
                "prompt",
                "source",
                "tool_name",
                "tool_input",
                "tool_response",
                "agent_id",
                "reason",
                "workspace_roots",
                "trigger",
            ],
            3,
        ):
            payload[field] = rng.choice(TEXTS)
        out = hooks.run(
            event, payload, rng.choice(protocol.AGENTS), env={"GIT_MEM_READCONTEXT": "true"}
        ).stdout
        if out and event != "PreCompact":
            json.loads(out)
    assert ".py" not in log(hooks) and "deadline" not in log(hooks), log(hooks)


def test_a_name_of_a_session_is_never_a_path(hooks: Hooks) -> None:
    for name in ("../../../../x", "/abs", "..", "a" * 10_000, "\0", "\ud800"):
        assert "UTC" in hooks.call("UserPromptSubmit", prompt=PROMPT, session_id=name)
        assert "UTC" not in hooks.call("UserPromptSubmit", prompt=PROMPT, session_id=name)
    names = os.listdir(os.path.join(hooks.mem_dir, session.DIR))
    assert len(names) == 6 and all(len(name) == 32 and name.isalnum() for name in names)


def test_no_text_of_an_agent_is_on_the_disk_afterwards(hooks: Hooks) -> None:
    word = "Zebraquux, and more"
    env = {"TMPDIR": str(hooks.lab.root / "tmp")}
    os.mkdir(env["TMPDIR"])
    fields: list[tuple[str, dict[str, Any]]] = [
        ("UserPromptSubmit", {"prompt": f"{PROMPT} {word}"}),
        (
            "PostToolUse",
            {
                "tool_name": "Bash",
                "tool_input": {"command": word},
                "tool_response": {"stdout": word, "exit_code": 1},
            },
        ),
        (
            "PostToolUse",
            {"tool_name": "Edit", "tool_input": {"file_path": "f0.txt", "new_string": word}},
        ),
        ("PostToolUseFailure", {"tool_name": word, "tool_input": {}, "error": word}),
        ("Stop", {"last_assistant_message": word}),
        ("SubagentStart", {"agent_id": word, "agent_type": word}),
        ("PreCompact", {"custom_instructions": word}),
        ("SessionEnd", {"reason": "other"}),
    ]
    for event, given in fields:
        hooks.call(event, env=env, **given)
    hooks.run("UserPromptSubmit", stdin='{"prompt":"' + word, env=env)
    settled(hooks)
    for path in hooks.lab.root.rglob("*"):
        if path.is_file():
            assert b"Zebraquux" not in path.read_bytes(), path


def test_what_reading_the_input_costs_is_our_time(hooks: Hooks) -> None:
    code = (
        "import os, time\nfrom gitmem.agents import hook, protocol\nparsed = protocol.parse\n"
        "def slowly(data):\n    time.sleep(0.5)\n    return parsed(data)\n"
        "protocol.parse = slowly\nhook.main(['UserPromptSubmit'], os.environ)"
    )
    payload = json.dumps({"session_id": "s1", "cwd": str(hooks.repo), "prompt": PROMPT})
    for patience, said in (("1", False), ("100", True)):
        done = hooks.lab.run(
            hooks.repo,
            sys.executable,
            "-P",
            "-c",
            code,
            stdin=payload,
            env={"GIT_MEM_PATIENCE": patience},
        )
        assert (done.returncode, done.stderr, "UTC" in done.stdout) == (0, "", said)


@pytest.mark.parametrize("patience", ["nan", "inf", "-1", "x", "9" * 400])
def test_no_value_of_patience_takes_the_deadline_away_or_the_answer(
    hooks: Hooks, patience: str
) -> None:
    from gitmem.agents.call import Deadline

    deadline = Deadline({"GIT_MEM_PATIENCE": patience}, 0.0)
    assert 0.5 <= deadline.limit("UserPromptSubmit") <= 500


def test_input_that_is_not_waited_for_by_the_system_is_waited_for(hooks: Hooks) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with subprocess.Popen(
        [*HOOK, "SessionStart"],
        cwd=hooks.repo,
        env={**hooks.lab.env, **SLOW},
        stdin=reading,
        stdout=subprocess.PIPE,
    ) as process:
        time.sleep(0.3)
        os.write(writing, json.dumps({"session_id": "s1", "cwd": str(hooks.repo)}).encode())
        os.close(writing)
        out, _ = process.communicate(timeout=60)
    os.close(reading)
    assert b"UTC" in out


@pytest.mark.parametrize("blocking", [True, False])
def test_an_answer_that_nobody_takes_ends_the_hook_and_is_counted(
    hooks: Hooks, blocking: bool
) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, blocking)
    payload = json.dumps({"session_id": "s1", "cwd": str(hooks.repo)})
    done = subprocess.run(
        [*HOOK, "SessionStart"],
        cwd=hooks.repo,
        env={**hooks.lab.env, "GIT_MEM_PATIENCE": "2"},
        input=payload.encode(),
        stdout=writing,
        timeout=60,
        check=False,
    )
    os.close(reading)
    os.close(writing)
    assert (
        done.returncode == 0
        and "nobody takes the answer" in log(hooks)
        and not hooks.noted()["shown"]
    )


# --- many at once -------------------------------------------------------------


def test_many_sessions_at_once_have_their_answers_and_few_workers(hooks: Hooks) -> None:
    events = ("SessionStart", "UserPromptSubmit", "PostToolUse", "SessionEnd")
    workers: set[str] = set()

    def one(n: int) -> str:
        payload = {
            "session_id": f"s{n}",
            "cwd": str(hooks.repo),
            "prompt": PROMPT,
            "source": "startup",
            "tool_name": "Edit",
            "tool_input": {"file_path": f"g{n}.txt"},
        }
        out = hooks.run(events[n % 4], payload).stdout
        workers.update(_workers(str(hooks.repo)))
        return events[n % 4] + (" UTC" if "UTC" in out else "")

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        found = list(pool.map(one, range(60)))
        list(
            pool.map(
                lambda n: hooks.run(
                    "PostToolUse",
                    {
                        "session_id": "one",
                        "cwd": str(hooks.repo),
                        "tool_name": "Edit",
                        "tool_input": {"file_path": f"h{n}.txt"},
                    },
                ),
                range(20),
            )
        )
    assert {name: found.count(name) for name in found} == {
        "SessionStart UTC": 15,
        "UserPromptSubmit UTC": 15,
        "PostToolUse": 15,
        "SessionEnd": 15,
    }
    assert sorted(hooks.noted("one")["touched"]) == sorted(f"h{n}.txt" for n in range(20))
    assert not hooks.failures() and len(workers) < 20


def _workers(repo: str) -> set[str]:
    """Numbers of the worker processes of a repository, where the system shows them."""
    found = set()
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        try:
            words = (
                pathlib.Path("/proc", name, "cmdline").read_bytes().split(b"\0")
                if name.isdigit()
                else []
            )
        except OSError:
            continue
        if b"worker" in words and any(repo.encode() in word for word in words):
            found.add(name)
    return found


def test_a_hook_that_is_killed_leaves_an_answer_or_none_and_hurts_no_other(hooks: Hooks) -> None:
    rng = random.Random(1)
    for n in range(24):
        payload = json.dumps(
            {"session_id": f"k{n}", "cwd": str(hooks.repo), "prompt": PROMPT}
        ).encode()
        with subprocess.Popen(
            [*HOOK, ("SessionStart", "UserPromptSubmit")[n % 2]],
            cwd=hooks.repo,
            env={**hooks.lab.env, **SLOW},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdin and process.stdout
            process.stdin.write(payload)
            process.stdin.close()
            time.sleep(rng.random() * 0.15)
            process.send_signal(rng.choice([signal.SIGTERM, signal.SIGHUP, signal.SIGKILL]))
            out = process.stdout.read()
        assert not out or json.loads(out)
    assert "UTC" in hooks.call("UserPromptSubmit", prompt=PROMPT) and not hooks.failures()
