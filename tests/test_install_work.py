"""Installations at work: none runs twice, each starts git mem or is silent, permission and settings
are the user's choice.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from conftest import Lab
from install_world import commands, files, problems, put, user_file

from gitmem.agents import protocol, targets
from gitmem.hooks.githooks import PACKAGE


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    return lab.repo()


# --- twice ------------------------------------------------------------------


def plugin(lab: Lab) -> pathlib.Path:
    return put(user_file(lab), '{"enabledPlugins": {"mem@git-mem": true, "other@x": true}}')


def test_the_plugin_and_settings_are_not_installed_together(lab: Lab, repo: pathlib.Path) -> None:
    lab.mem(repo, "init")
    plugin(lab)
    for scope in ("--user", "--project"):
        done = lab.run(repo, sys.executable, "-m", "gitmem", "install", "claude", scope)
        assert done.returncode == 1 and "already has git mem: plugin" in done.stderr
    user_file(lab).unlink()
    lab.mem(repo, "install", "claude", "--project")
    plugin(lab)
    assert "installed 2 times" in problems(lab, repo)
    put(
        repo / ".claude/settings.local.json", '{"enabledPlugins": {"mem@git-mem": false}}'
    )  # off in this project
    assert "installed 2 times" not in problems(lab, repo)


def test_user_and_project_settings_of_claude_have_equal_commands_which_run_once(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.mem(repo, "init")
    lab.mem(repo, "install", "claude")
    lab.mem(repo, "install", "claude", "--project")
    assert commands(user_file(lab)) == commands(repo / ".claude/settings.json")
    assert "times" not in problems(lab, repo)
    lab.mem(repo, "uninstall", "claude", "--user")
    assert not user_file(lab).exists() and (repo / ".claude/settings.json").exists()


def test_other_agents_would_run_both_so_the_second_is_refused(lab: Lab, repo: pathlib.Path) -> None:
    lab.mem(repo, "install", "codex")
    assert (
        "already has git mem"
        in lab.run(repo, sys.executable, "-m", "gitmem", "install", "codex", "--project").stderr
    )
    assert not (repo / ".codex").exists()


def test_doctor_names_what_is_wrong_with_hooks(lab: Lab, repo: pathlib.Path) -> None:
    lab.mem(repo, "init")
    assert "no agent gets memories by itself" in problems(lab, repo)
    lab.mem(repo, "install", "claude")
    assert "agent" not in problems(lab, repo) and "prompts" not in problems(lab, repo)
    lab.git(repo, "config", "mem.promptContext", "false")
    assert "prompts get no memories" in problems(lab, repo)
    assert "read or edited brings no memories" in problems(lab, repo)
    lab.git(repo, "config", "mem.readContext", "true")
    assert "read or edited" not in problems(lab, repo)
    path, text = user_file(lab), user_file(lab).read_text()
    data = json.loads(text)
    data["hooks"]["Stop"] *= 2
    del data["hooks"]["SessionEnd"]
    path.write_text(json.dumps({**data, "disableAllHooks": True}))
    told = problems(lab, repo)
    assert (
        "more than once at Stop" in told
        and "no hook of git mem at SessionEnd" in told
        and "switched off by 'disableAllHooks'" in told
    )
    path.write_text(
        text.replace("git-mem hook Stop", "git-mem hook Stop", 1).replace('"hooks"', '"hooks" ', 1)[
            :-3
        ]
    )
    assert "cannot be judged" in problems(lab, repo)


# --- the commands -----------------------------------------------------------

SHELLS = [shell for shell in ("sh", "bash", "dash", "zsh", "fish") if shutil.which(shell)]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_command_starts_git_mem_and_is_silent_without_it(lab: Lab, shell: str) -> None:
    directory = lab.root / "a bin"
    directory.mkdir()
    (directory / "git-mem").write_text('#!/bin/sh\nread -r line\necho "$* [$line] [$PYTHONPATH]"\n')
    (directory / "git-mem").chmod(0o755)
    program = str(shutil.which(shell))
    command = targets.command("claude", "Stop")
    with_it = {**lab.env, "PATH": f"{directory}:/usr/bin:/bin", "PYTHONPATH": "."}
    assert (
        lab.run(lab.root, program, "-c", command, stdin="{}\n", env=with_it).stdout
        == "hook Stop --agent claude [{}] []\n"
    )
    done = lab.run(lab.root, program, "-c", command, stdin="{}\n", env={"PATH": "/usr/bin:/bin"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    package = str(lab.root / "it's here")
    own = targets.command("claude", "Stop", sys.executable, package)
    done = lab.run(lab.root, program, "-c", own, stdin="{}\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert targets.program(own) == package and targets.ours(own) and targets.ours(command)


def test_without_git_mem_on_path_the_installation_itself_is_started(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.mem(repo, "install", "claude", env={"PATH": "/usr/bin:/bin"})
    command = commands(user_file(lab))["Stop"][0]
    assert (
        command.startswith(f"[ -x {sys.executable} ]")
        and "-EP -m gitmem hook Stop --agent claude" in command
    )
    lab.mem(repo, "init")
    assert "agent" not in problems(lab, repo)
    user_file(lab).write_text(user_file(lab).read_text().replace(PACKAGE, "/gone"))
    assert "git mem is gone from '/gone'" in problems(lab, repo)


@pytest.mark.parametrize("agent", targets.AGENTS)
def test_every_event_of_an_agent_is_one_that_the_hook_knows(agent: str) -> None:
    events = list(targets.AGENTS[agent].events)
    assert all(protocol.event_of(event) for event in events)
    # Nothing else comes of it, and Gemini CLI waits for it at each call of its model.
    steers = protocol.injects(agent, "PreCompact")
    assert ("PreCompact" in map(protocol.event_of, events)) == steers
    assert protocol.event_of(events[0]) == "SessionStart" and "UserPromptSubmit" in map(
        protocol.event_of, events
    )
    entry = json.dumps(targets.AGENTS[agent].entry(events[0], "x"))
    assert ("10000" in entry) == (agent == "gemini") and "matcher" not in entry


# --- permission and setting -------------------------------------------------


def test_the_permission_is_added_only_when_asked_for_and_only_ours_is_taken_back(
    lab: Lab, repo: pathlib.Path
) -> None:
    path = put(user_file(lab), '{\n  "permissions": {\n    "allow": ["Bash(ls)"]\n  }\n}\n')
    lab.mem(repo, "install", "claude")
    assert json.loads(path.read_text())["permissions"] == {"allow": ["Bash(ls)"]}
    lab.mem(repo, "install", "claude", "--allow")
    assert json.loads(path.read_text())["permissions"] == {"allow": ["Bash(ls)", "Bash(git mem *)"]}
    path.write_text(path.read_text().replace("{", '{"theirs": 1,', 1))
    lab.mem(repo, "uninstall", "claude")
    assert json.loads(path.read_text()) == {"theirs": 1, "permissions": {"allow": ["Bash(ls)"]}}
    path.write_text('{"permissions": {"allow": ["Bash(git mem *)"]}}')
    lab.mem(repo, "install", "claude", "--allow")
    lab.mem(repo, "uninstall", "claude")
    assert path.read_text() == '{"permissions": {"allow": ["Bash(git mem *)"]}}'


def test_prompts_get_memories_once_an_agent_is_there_and_a_choice_of_the_user_stays(
    lab: Lab, repo: pathlib.Path
) -> None:
    config = put(lab.root / ".gitconfig", "[user]\n\tname = Ada")
    lab.mem(repo, "install", "claude")
    lab.mem(repo, "install", "codex")
    assert lab.git(repo, "config", "mem.promptContext") == "true\n"
    lab.mem(repo, "uninstall", "claude")
    assert lab.git(repo, "config", "mem.promptContext") == "true\n"  # codex is still there
    lab.git(repo, "config", "--global", "user.email", "ada@example.org")
    lab.mem(repo, "uninstall", "codex")
    assert config.read_text() == "[user]\n\tname = Ada\n\temail = ada@example.org\n"
    lab.git(repo, "config", "--global", "mem.promptContext", "false")
    before = config.read_bytes()
    assert "prompts get no memories" in lab.mem(repo, "install", "claude")
    lab.mem(repo, "uninstall", "claude")
    assert config.read_bytes() == before


def test_uninstall_of_everything_takes_out_of_the_working_tree_what_was_installed_from_here(
    lab: Lab, repo: pathlib.Path
) -> None:
    put(
        repo / ".codex/hooks.json",
        json.dumps(
            {
                "hooks": {
                    "Stop": [
                        targets.AGENTS["codex"].entry("Stop", targets.command("codex", "Stop"))
                    ]
                }
            }
        ),
    )  # of a colleague
    before = files(repo)
    lab.mem(repo, "init")
    lab.mem(repo, "install", "claude", "--project")
    lab.mem(repo, "install", "agents-md")
    lab.mem(repo, "install", "gemini")
    told = lab.mem(repo, "uninstall")
    assert files(repo) == before
    assert "kept: gemini" in told and "kept: codex" in told and user_file(lab, "gemini").exists()


# --- on a terminal ----------------------------------------------------------


def on_a_terminal(lab: Lab, cwd: pathlib.Path, *words: str, typed: str) -> str:
    """What a command prints to somebody who types these answers."""
    mine, its = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "gitmem", *words],
        cwd=cwd,
        env=lab.env,
        stdin=its,
        stdout=its,
        stderr=its,
    ) as process:
        os.close(its)
        os.write(mine, typed.encode())
        seen = b""
        while True:
            try:
                part = os.read(mine, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            seen += part
        os.close(mine)
        assert process.wait(120) == 0, seen
    return seen.decode("utf-8", "replace")


def test_init_asks_for_each_agent_that_is_there_and_takes_no_for_an_answer(
    lab: Lab, repo: pathlib.Path
) -> None:
    user_file(lab).parent.mkdir()
    user_file(lab, "gemini").parent.mkdir()
    told = on_a_terminal(
        lab, repo, "init", "--offline", typed="n\ny\n\n\n"
    )  # git hooks: no; Claude Code: yes; Gemini and capture: what Enter means
    assert (
        "Give Claude Code memories" in told
        and "Give Gemini CLI memories" in told
        and "Codex" not in told
    )
    assert user_file(lab).exists() and not user_file(lab, "gemini").exists()
    assert "Claude Code memories" not in on_a_terminal(
        lab, repo, "init", "--offline", typed="n\nn\ny\n"
    )
    assert lab.git(repo, "config", "mem.capture") == "commits\n"
    assert "Keep what commit" not in on_a_terminal(lab, repo, "init", "--offline", typed="n\nn\n")


def test_the_permission_is_offered_on_a_terminal(lab: Lab, repo: pathlib.Path) -> None:
    assert "without asking each time?" in on_a_terminal(lab, repo, "install", "claude", typed="y\n")
    assert json.loads(user_file(lab).read_text())["permissions"] == {"allow": [targets.PERMISSION]}
    on_a_terminal(lab, repo, "install", "claude", typed="\n")  # Enter leaves it as it is
    assert "permissions" in json.loads(user_file(lab).read_text())
