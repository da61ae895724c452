"""The Claude Code plugin in the repository: the client accepts it, it says what the package does,
and it is harmless without git mem.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from client.harness import VERSIONS, Client, binary
from conftest import Lab, sampled

import gitmem
from gitmem.agents import installed, targets

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = (".claude-plugin", "commands", "skills", "hooks", ".mcp.json", "README.md", "LICENSE")


def read(name: str) -> Any:
    return json.loads((ROOT / name).read_text(encoding="utf-8"))


def copied(lab: Lab) -> pathlib.Path:
    """The plugin by itself: a checkout may have gigabytes of environments beside it."""
    plugin = lab.root / "plugin"
    plugin.mkdir()
    for name in PARTS:
        copy: Any = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, plugin / name)
    return plugin


@pytest.mark.parametrize("version", sampled(VERSIONS, len(VERSIONS)))
@pytest.mark.parametrize("options", [[], ["--profile", "directory"]], ids=["plain", "directory"])
def test_the_client_finds_nothing_wrong_with_the_plugin(
    lab: Lab, version: str, options: list[str]
) -> None:
    client = binary(version)
    if client is None:
        pytest.skip(f"no client {version}: tools/fetch_clients.sh fetches it")
    if options and version == "2.1.197":
        pytest.skip("this release knows no profiles")
    copied(lab)
    env = {
        "HOME": str(lab.root),
        "PATH": "/usr/bin:/bin",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    for what in (".", ".claude-plugin/plugin.json"):
        done = subprocess.run(
            [str(client), "plugin", "validate", "--strict", *options, what],
            cwd=lab.root / "plugin",
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (
            done.returncode == 0
            and "Validation passed" in done.stdout
            and "warning" not in done.stdout
        ), done.stdout + done.stderr


def test_the_manifest_goes_with_the_package() -> None:
    plugin, market = read(".claude-plugin/plugin.json"), read(".claude-plugin/marketplace.json")
    assert (plugin["name"], plugin["version"], plugin["license"]) == (
        targets.PLUGIN,
        gitmem.__version__,
        "MIT",
    )
    assert [(p["name"], p["source"]) for p in market["plugins"]] == [(plugin["name"], "./")]
    server = read(".mcp.json")["mcpServers"]["git-mem"]
    assert (server["command"], server["args"]) == ("git-mem", ["mcp"])


def test_the_hooks_of_the_plugin_are_those_of_an_installation() -> None:
    events = targets.AGENTS["claude"].events
    assert read("hooks/hooks.json")["hooks"] == {
        event: [
            {
                **({"matcher": targets.FILES} if event == "PreToolUse" else {}),
                "hooks": [
                    {
                        "type": "command",
                        "command": "${CLAUDE_PLUGIN_ROOT}/hooks/agent.sh",
                        "args": [event],
                        "timeout": targets.seconds(event),
                    }
                ],
            }
        ]
        for event in events
    }
    assert (ROOT / "hooks/agent.sh").stat().st_mode & 0o111 == 0o111


def test_nothing_of_ours_is_put_on_the_path_of_the_clients_shell() -> None:
    assert not (ROOT / "bin").exists()


def test_the_icon_is_the_one_that_the_tool_draws() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import build_icon
    finally:
        sys.path.pop(0)
    data = (ROOT / ".claude-plugin/icon.png").read_bytes()
    assert (
        data[:8] == b"\x89PNG\r\n\x1a\n"
        and struct.unpack(">II", data[16:24]) == (build_icon.SIZE, build_icon.SIZE)
        and 512 <= build_icon.SIZE <= 2048
    )
    pixels = zlib.decompress(data[data.index(b"IDAT") + 4 : data.index(b"IEND") - 8])
    for x, y in ((0, 0), (143, 102), (300, 220), (256, 30), (380, 260)):
        at = y * (1 + 4 * 512) + 1 + 4 * x
        red, green, blue, alpha = build_icon.colour((x + 0.5) / 512, (y + 0.5) / 512)
        assert tuple(pixels[at : at + 4]) == ((red, green, blue, alpha) if alpha else (0, 0, 0, 0))


# --- agent.sh ---------------------------------------------------------------


def shim(lab: Lab, first: str, text: str) -> pathlib.Path:
    path = lab.root / "a bin/git-mem"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!{first}\n{text}")
    path.chmod(0o755)
    return path


def start(lab: Lab, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "hooks/agent.sh"), *words],
        env={"PATH": f"{lab.root}/a bin:/usr/bin:/bin", **env},
        input="{}\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_plugin_starts_the_git_mem_that_is_installed(lab: Lab) -> None:
    shim(lab, "/bin/sh", 'read -r line; echo "$* $line [$PYTHONPATH]"\n')
    assert start(lab, "Stop", PYTHONPATH=".").stdout == "hook Stop --agent claude {} []\n"
    (lab.root / ".local/bin").mkdir(parents=True)
    shutil.move(lab.root / "a bin/git-mem", lab.root / ".local/bin")
    assert start(lab, "Stop", HOME=str(lab.root)).stdout == "hook Stop --agent claude {} []\n"


def test_a_file_of_the_working_tree_is_not_executed_on_the_way(lab: Lab) -> None:
    shim(
        lab,
        sys.executable,
        "import os, sys; print(sys.argv[1:], sys.flags.ignore_environment, sys.flags.safe_path)\n",
    )
    (lab.root / "sitecustomize.py").write_text("print('executed')\n")
    assert (
        start(lab, "Stop", PYTHONPATH=str(lab.root)).stdout
        == "['hook', 'Stop', '--agent', 'claude'] 1 True\n"
    )
    shim(lab, f"/usr/bin/env {sys.executable}", "import sys; print(sys.argv[1:])\n")
    assert (
        start(lab, "Stop", PYTHONPATH=str(lab.root)).stdout
        == "['hook', 'Stop', '--agent', 'claude']\n"
    )


@pytest.mark.parametrize("env", [{"HOME": "/nonexistent"}, {}, {"HOME": ""}])
def test_without_git_mem_the_plugin_is_silent(lab: Lab, env: dict[str, str]) -> None:
    done = start(lab, "SessionStart", **env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    shim(lab, "/bin/sh", "exit 7\n")
    assert start(lab).returncode == 0  # no event, nothing to do


# --- the real client --------------------------------------------------------


@pytest.fixture(params=sampled(VERSIONS, len(VERSIONS)))
def client(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Client]:
    """A client whose git-mem notes how it was called and says nothing."""
    if binary(request.param) is None:
        pytest.skip(f"no client {request.param}: tools/fetch_clients.sh fetches it")
    made = Client(request.param, lab.root)
    (lab.root / "bin/git-mem").write_text(f'#!/bin/sh\necho "$*" >>"{lab.root}/called"\n')
    yield made
    made.close()


def called(lab: Lab) -> list[str]:
    path = lab.root / "called"
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return sorted(line for line in lines if line != "mcp")  # the plugin's server


A_SESSION = sorted(
    f"hook {event} --agent claude"
    for event in (
        "SessionStart",
        "UserPromptSubmit",
        "PostToolUse",
        "Stop",
        "SessionEnd",
    )
)
REPLIES: list[dict[str, Any]] = [
    {"tool": "Bash", "input": {"command": "echo one"}},
    {"tool": "Bash", "input": {"command": "exit 3"}},
    {"text": "done"},
]


def session(client: Client, cwd: pathlib.Path, *options: str) -> None:
    client.prompt(
        cwd, "go", "--allowedTools", "Bash", *options, replies=[dict(reply) for reply in REPLIES]
    )


def test_the_client_runs_each_hook_once_however_it_was_installed(lab: Lab, client: Client) -> None:
    repo, env = lab.repo(), {"HOME": str(client.home)}
    lab.mem(repo, "install", "claude", env=env)
    session(client, repo)
    assert called(lab) == A_SESSION
    lab.mem(repo, "install", "claude", "--project", env=env)
    session(client, repo)
    assert called(lab) == A_SESSION  # equal commands of two files are run once
    (repo / "below").mkdir()
    session(client, repo / "below")
    assert called(lab) == A_SESSION
    lab.mem(repo, "uninstall", "claude", env=env)
    session(client, repo)
    assert called(lab) == []
    session(client, repo, "--plugin-dir", str(ROOT))
    assert called(lab) == A_SESSION


def test_a_session_goes_on_where_git_mem_is_gone(lab: Lab, client: Client) -> None:
    repo, env = lab.repo(), {"HOME": str(client.home)}
    lab.mem(repo, "install", "claude", env=env)
    (lab.root / "bin/git-mem").unlink()
    for options in ([], ["--plugin-dir", str(ROOT)]):
        messages = client.talk(repo, "go", options=tuple(options))
        assert messages[-1]["is_error"] is False
        assert not [
            m
            for m in messages
            if "hook" in json.dumps(m).lower() and "error" in str(m.get("outcome", ""))
        ]


def test_the_plugin_comes_from_a_marketplace_in_a_directory_and_doctor_sees_it(
    lab: Lab, client: Client
) -> None:
    repo = lab.repo()
    client.run(repo, "plugin", "marketplace", "add", str(copied(lab)))
    client.run(repo, "plugin", "install", "mem@git-mem")
    session(client, repo)
    assert called(lab) == A_SESSION
    env = {"HOME": str(client.home)}
    assert [key for key, _ in installed.plugins(env, str(repo))] == ["mem@git-mem"]
    assert (
        "already has git mem: plugin"
        in lab.run(repo, sys.executable, "-m", "gitmem", "install", "claude", env=env).stderr
    )


# --- commands and skill -----------------------------------------------------

PAGES = [*sorted((ROOT / "commands").glob("*.md")), ROOT / "skills/recall-first/SKILL.md"]


def surface() -> dict[str, set[str]]:
    from typer.main import get_command

    from gitmem import cli

    root: Any = get_command(cli.load())
    return {
        name: {o for p in command.params if p.param_type_name == "option" for o in p.opts}
        for name, command in root.commands.items()
    }


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.stem)
def test_every_command_that_an_agent_is_told_to_run_exists(path: pathlib.Path) -> None:
    text, commands = path.read_text(encoding="utf-8"), surface()
    told = re.findall(
        r"git mem ([a-z]+)([^`\n)]*)",
        text.partition("\n---\n")[2]
        .replace("`git mem` is not found, git mem is", "")
        .replace("git mem has to be", ""),
    )
    assert told
    for name, rest in told:
        assert name in commands, name
        assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", rest)) <= commands[name]
    head = text.partition("\n---\n")[0]
    assert "description: " in head and ("name: recall-first" in head) == (path.name == "SKILL.md")
    assert "!`" not in text  # the user's words would be put into a shell


def test_the_commands_are_named_as_the_documents_say() -> None:
    assert [p.stem for p in PAGES[:-1]] == ["recall", "remember", "review"] and "/mem:recall" in (
        ROOT / "docs/agents.md"
    ).read_text(encoding="utf-8")
