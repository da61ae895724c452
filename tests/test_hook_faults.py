"""Hooks of agents when something is wrong: with the input, the surroundings, the cache, the time.

Exit 0, a whole answer or none, and a count.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import Lab
from hook_world import PROMPT, SLOW, UTC, Hooks, make, poll

from gitmem.agents import failures, protocol


@pytest.fixture
def hooks(lab: Lab) -> Hooks:
    return make(lab)


BAD = [
    "",
    "   ",
    "{",
    "[]",
    "null",
    "7",
    '"text"',
    '{"cwd": 7, "prompt": 7, "session_id": [], "tool_input": 3, "tool_name": {}}',
    '{"cwd": "/nonexistent", "session_id": "x"}',
    '{"prompt": "' + "x" * 200_000 + '"}',
    '{"prompt": "' + "why " * 100_000 + '"}',
    "{" * 100_000,
    '{"a":' * 5_000 + "1" + "}" * 5_000,
    '{"session_id": "' + "s" * 100_000 + '"}',
    '{"session_id": "../../../etc", "cwd": "\\u0000", "prompt": "\\ud800 lone"}',
    '\ufeff{"cwd": "/"}',
    '{"prompt": "a"}{"prompt": "b"}',
    '{"tool_input": {"file_path": "\\u0000/' + "a/" * 5000 + '"}, "tool_name": "Edit"}',
    (
        '{"agent_id": {}, "agent_type": 3, "source": {}, "workspace_roots": [7], "tool_response":'
        ' {"exit_code": "x", "error": [1]}, "tool_name": "\\u202e"}'
    ),
]


@pytest.mark.parametrize("agent", protocol.AGENTS)
def test_bad_input_breaks_no_hook(hooks: Hooks, agent: str) -> None:
    """Called in one process: a process each would take minutes."""
    code = """
import json, os, sys, time
from gitmem.agents import call, hook
out = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
call.Call.watch = lambda call: None
for event in json.loads(sys.argv[3]):
    for text in json.loads(open(sys.argv[2]).read()):
        read, write = os.pipe()
        if os.fork() == 0:
            os.close(read)
            try:
                data = text.encode("utf-8", "surrogatepass")
                while data:
                    data = data[os.write(write, data):]
            finally:
                os._exit(0)
        os.close(write)
        hook.run([event, "--agent", sys.argv[4]], {**os.environ, "GIT_MEM_PATIENCE": "1000"}, time.monotonic(), read, out)
        os.close(read)
        os.wait()
"""  # noqa: E501
    inputs = hooks.lab.root / "inputs.json"
    inputs.write_text(json.dumps(BAD))
    done = hooks.lab.run(
        hooks.repo,
        sys.executable,
        "-P",
        "-c",
        code,
        str(hooks.lab.root / "out"),
        str(inputs),
        json.dumps([*protocol.EVENTS, "Unheard", ""]),
        agent,
    )
    assert (done.returncode, done.stderr) == (0, "")
    _, last = failures.count(hooks.mem_dir)
    errors = [
        line
        for line in pathlib.Path(hooks.mem_dir, failures.LOG).read_text().splitlines()
        if "Error" in line
    ]
    assert not errors, last


def test_bytes_that_are_no_utf8_are_read_as_far_as_they_are_text(hooks: Hooks) -> None:
    payload = (
        json.dumps({"session_id": "s1", "cwd": str(hooks.repo), "prompt": PROMPT + " @"})
        .encode()
        .replace(b"@", b"\xff\xfe")
    )
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gitmem", "hook", "UserPromptSubmit"],
        input=payload,
        capture_output=True,
        timeout=60,
        cwd=hooks.repo,
        env={**hooks.lab.env, **SLOW},
        check=True,
    )
    assert b"UTC" in done.stdout


@pytest.mark.parametrize(
    ("event", "stdin", "what"),
    [
        ("UserPromptSubmit", "{", "no JSON object"),
        ("UserPromptSubmit", '{"prompt": ["blocks"]}', "no prompt"),
        ("Unheard", "{}", "unknown event"),
        ("PostToolUse", '{"tool_name": 7}', "no tool"),
    ],
)
def test_a_call_that_could_not_be_answered_is_counted_and_doctor_says_so(
    hooks: Hooks, event: str, stdin: str, what: str
) -> None:
    assert hooks.run(event, stdin=stdin).stdout == ""
    count, last = failures.count(hooks.mem_dir)
    assert count == 1 and what in last
    told = hooks.lab.json(hooks.repo, "doctor", rc=(0, 1))
    assert any(
        "1 call of agents' hooks failed" in finding["text"] and what in finding["text"]
        for finding in told
    ), told


def test_an_unknown_agent_is_counted(hooks: Hooks) -> None:
    assert hooks.run("SessionStart", {}, "hal9000").stdout == ""
    assert hooks.failures() == 1


def test_a_prompt_without_words_is_no_failure(hooks: Hooks) -> None:
    hooks.call("UserPromptSubmit", prompt="")  # of a picture alone: seen in Claude Code 2.1.330
    assert hooks.failures() == 0
    hooks.call("UserPromptSubmit")
    hooks.call("UserPromptSubmit", prompt=[{"type": "text", "text": "which database do we use?"}])
    assert hooks.failures() == 2  # of another shape: doctor has to say that nobody is told


def test_what_gemini_puts_before_a_prompt_is_not_asked_about(hooks: Hooks) -> None:
    """As Gemini CLI 0.61.0 hands over the prompt of `gemini -p`."""

    def told(prompt: str) -> str:
        payload = {"session_id": prompt, "cwd": str(hooks.repo), "prompt": prompt}
        return hooks.run("BeforeAgent", payload, agent="gemini").stdout

    before = f"<hook_context>&lt;memory>{UTC}&lt;/memory>\n{PROMPT}</hook_context>\n\n"
    assert UTC in told(PROMPT) and UTC in told(before + PROMPT)
    assert told(before + "please write the file") == told(before) == ""
    assert hooks.failures() == 0


def test_the_count_of_failures_outlives_the_log(tmp_path: pathlib.Path) -> None:
    for n in range(2500):
        assert failures.note(str(tmp_path), "Stop", f"deadline {n} \n\x1b[2J")
    count, last = failures.count(str(tmp_path))
    assert count == 2500 and "deadline 2499" in last and "\x1b" not in last
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) < 2 * failures.MOST and [
        p.name for p in tmp_path.iterdir()
    ] == [failures.LOG]
    assert not failures.note(str(tmp_path / "missing"), "Stop", "deadline") and failures.count(
        str(tmp_path / "missing")
    ) == (0, "")


def test_an_answer_that_could_not_be_written_was_not_shown(hooks: Hooks) -> None:
    read, write = os.pipe()
    os.close(read)
    payload = json.dumps({"session_id": "s1", "cwd": str(hooks.repo), "prompt": PROMPT})
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gitmem", "hook", "UserPromptSubmit"],
        input=payload,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        cwd=hooks.repo,
        env={**hooks.lab.env, **SLOW},
        check=True,
    )
    os.close(write)
    assert done.stderr == "" and hooks.noted()["shown"] == [] and hooks.failures() == 1
    assert "UTC" in hooks.call("UserPromptSubmit", prompt=PROMPT)


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_descriptors_hurt_nothing(hooks: Hooks, closed: str) -> None:
    """Without care the next opened file would have number 1, and the answer would go into the
    cache.
    """
    command = f'"$0" -P -m gitmem hook SessionStart {closed}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable],
        input=json.dumps({"session_id": "s1", "cwd": str(hooks.repo)}),
        capture_output=True,
        text=True,
        timeout=60,
        cwd=hooks.repo,
        env={**hooks.lab.env, **SLOW},
        check=False,
    )
    assert done.returncode == 0 and done.stderr == ""
    assert bool(done.stdout) == ("1>&-" not in closed)
    assert [
        f for f in hooks.lab.json(hooks.repo, "doctor", rc=(0, 1)) if "damaged" in f["text"]
    ] == []


def test_a_directory_that_is_gone_is_no_place(hooks: Hooks) -> None:
    gone = hooks.lab.root / "gone"
    gone.mkdir()
    command = 'cd "$1" && rmdir "$1" && "$0" -P -m gitmem hook SessionStart'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, str(gone)],
        input=json.dumps({"cwd": str(gone)}),
        capture_output=True,
        text=True,
        timeout=60,
        env={**hooks.lab.env, **SLOW},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_place_is_where_the_session_is_not_where_the_hook_runs(hooks: Hooks) -> None:
    (hooks.repo / "a" / "b").mkdir(parents=True)
    hooks.lab.git(hooks.repo, "worktree", "add", "-q", str(hooks.lab.root / "linked"))
    for cwd in (hooks.repo / "a" / "b", hooks.lab.root / "linked"):
        assert "UTC" in hooks.run("SessionStart", {"cwd": str(cwd)}, cwd=hooks.lab.root).stdout
    assert hooks.run("SessionStart", {"cwd": str(hooks.lab.root)}).stdout == ""


def test_a_session_that_moves_into_a_repository_that_was_not_set_up_stays_that_of_the_project(
    hooks: Hooks,
) -> None:
    lab, inner = hooks.lab, hooks.repo / "vendor" / "inner"
    lab.git(hooks.repo, "init", "-q", str(inner))
    lab.git(hooks.repo, "config", "mem.capture", "all")

    def told(session: str) -> bool:
        fields = {"session_id": session, "cwd": str(inner), "prompt": PROMPT}
        env = {"CLAUDE_PROJECT_DIR": str(hooks.repo)}
        done = hooks.run("UserPromptSubmit", fields, env=env)
        hooks.run("SessionEnd", fields, env=env)
        return "UTC" in done.stdout

    assert told("s1") and hooks.noted()["end"] == ["other"]
    waits = [path.read_bytes() for path in pathlib.Path(hooks.mem_dir).glob("spool*")]
    assert PROMPT.encode() not in b"".join(waits), "what is said elsewhere is not captured"
    env = {"CLAUDE_PROJECT_DIR": str(hooks.repo)}
    block = hooks.run("SessionStart", {"cwd": str(inner), "source": "compact"}, env=env).stdout
    assert "UTC" in block and "git mem remember" not in block, "it would write into the inner one"
    lab.git(inner, "config", "mem.enabled", "false")
    assert not told("s2")
    lab.git(inner, "config", "--unset", "mem.enabled")
    lab.mem(inner, "init", "--offline")
    assert not told("s3")


@pytest.mark.parametrize("env", [{}, {"PYTHONPATH": "."}])
def test_files_of_the_working_tree_are_not_imported(hooks: Hooks, env: dict[str, str]) -> None:
    program = shutil.which("git-mem", path=hooks.lab.env["PATH"])
    if program is None:
        pytest.skip("git-mem is not installed")
    for name in (
        "json",
        "sqlite3",
        "_sqlite3",
        "os",
        "gitmem",
        "typing",
        "collections",
        "time",
        "zlib",
    ):
        (hooks.repo / f"{name}.py").write_text(
            "import sys\nsys.stdout.write('executed'); sys.stdout.flush(); raise SystemExit(9)\n"
        )
    for event in ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"):
        done = hooks.lab.run(
            hooks.repo,
            program,
            "hook",
            event,
            stdin=json.dumps(
                {
                    "cwd": str(hooks.repo),
                    "prompt": PROMPT,
                    "tool_name": "Edit",
                    "tool_input": {"file_path": "f0.txt"},
                }
            ),
            env={**env, **SLOW},
        )
        assert done.returncode == 0 and "executed" not in done.stdout + done.stderr, done.stderr
        assert ("UTC" in done.stdout) == (event in ("SessionStart", "UserPromptSubmit"))


# --- the deadline ------------------------------------------------------------


def test_at_the_deadline_a_hook_is_silent_and_ends(hooks: Hooks) -> None:
    """The git that it has to ask hangs.

    The limit of the test is far from that of the hook: nothing is timed.
    """
    fake = hooks.lab.root / "fake"
    fake.mkdir()
    (fake / "git").write_text("#!/bin/sh\nsleep 100\n")
    (fake / "git").chmod(0o755)
    for path in pathlib.Path(hooks.mem_dir).glob("settings-*"):
        path.unlink()
    (hooks.repo / ".git" / "config").touch()
    done = hooks.run(
        "SessionStart",
        {"cwd": str(hooks.repo)},
        env={"PATH": f"{fake}:{hooks.lab.env['PATH']}", "GIT_MEM_PATIENCE": "1"},
    )
    assert done.stdout == "" and "deadline" in failures.count(hooks.mem_dir)[1]


def test_input_that_never_ends_is_not_waited_for(hooks: Hooks) -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "gitmem", "hook", "SessionStart"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=hooks.repo,
        env=hooks.lab.env,
    )
    try:
        assert process.wait(60) == 0
        assert process.stdout is not None and process.stdout.read() == b""
    finally:
        process.kill()
        process.communicate()


def test_a_stopped_process_that_has_the_cache_locked_takes_no_answer_away(hooks: Hooks) -> None:
    """New memories have come, which cannot be taken in: the answer comes from what is there.

    At the real deadline what comes is whole or nothing.
    """
    lab, repo = hooks.lab, hooks.repo
    lab.git(lab.root, "clone", "-q", str(repo), "other")
    lab.git(lab.root / "other", "fetch", "-q", "origin", "refs/notes/mem/team:refs/notes/mem/team")
    lab.mem(lab.root / "other", "remember", "the otter sleeps on its back")
    holder = lab.root / "holder.py"
    holder.write_text(
        "import sys, time\nfrom gitmem.engine import cache\nc = cache.open_cache(sys.argv[1])\nwith"
        " c.writing(30):\n    print('held', flush=True)\n    time.sleep(300)\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(holder), hooks.mem_dir],
        stdout=subprocess.PIPE,
        text=True,
        env={**lab.env, "PYTHONPATH": str(pathlib.Path(__file__).parent.parent)},
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        process.send_signal(signal.SIGSTOP)
        lab.git(
            repo, "fetch", "-q", str(lab.root / "other"), "refs/notes/mem/team:refs/notes/mem/team"
        )
        assert "UTC" in hooks.call("UserPromptSubmit", prompt=PROMPT) and "UTC" in hooks.call(
            "SessionStart"
        )
        for event in protocol.EVENTS:
            fields = {
                "prompt": PROMPT,
                "tool_name": "Edit",
                "tool_input": {"file_path": "f0.txt"},
                "agent_id": "a",
            }
            out = hooks.run(
                event,
                {"cwd": str(repo), "session_id": event, **fields},
                env={"GIT_MEM_PATIENCE": "1"},
            ).stdout
            assert not out or event == "PreCompact" or json.loads(out)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("damage", ["garbage", "empty", "gone", "a byte"])
def test_a_ruined_cache_costs_no_answer_at_a_start(hooks: Hooks, damage: str) -> None:
    for path in pathlib.Path(hooks.mem_dir).glob("index-*.db"):
        if damage == "garbage":
            path.write_bytes(b"garbage" * 50)
        elif damage == "empty":
            path.write_bytes(b"")
        elif damage == "gone":
            path.unlink()
        else:
            whole = bytearray(path.read_bytes())
            whole[len(whole) // 2] ^= 255
            path.write_bytes(whole)
    assert "UTC" in hooks.call("SessionStart") and not hooks.failures()
    assert "UTC" in poll(
        lambda: hooks.call("UserPromptSubmit", prompt=PROMPT, session_id=f"s{time.time()}"), bool
    )
