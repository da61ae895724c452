"""`git mem install AGENT --mcp`: our server stands where the agent looks for servers, and goes
again byte for byte; what others have there stays.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest
from conftest import Lab
from install_world import files, problems, put

from gitmem.agents import install_log, mcp_entry, targets

USERS = list(targets.AGENTS)
OTHER = {"command": "other", "args": ["x"]}
OWN = {"command": "git-mem", "args": ["mcp", "--of-mine"]}


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    return lab.repo()


def place(lab: Lab, repo: pathlib.Path, agent: str, scope: str = "user") -> pathlib.Path:
    return pathlib.Path(mcp_entry.file(lab.env, str(repo), targets.AGENTS[agent], scope))


def written(path: pathlib.Path) -> dict[str, Any]:
    """The servers in a file, of whatever shape."""
    text = path.read_text("utf-8")
    if path.suffix == ".toml":
        return dict(tomllib.loads(text)["mcp_servers"])
    return dict(json.loads(text)["mcpServers"])


def refused(lab: Lab, repo: pathlib.Path, *words: str) -> str:
    done = lab.run(repo, sys.executable, "-m", "gitmem", "install", *words)
    assert done.returncode
    return done.stderr


def text_of(path: pathlib.Path, name: str, server: dict[str, Any]) -> str:
    """A file of somebody with one server and a setting beside it."""
    if path.suffix == ".toml":
        rows = "".join(f"{key} = {json.dumps(value)}\n" for key, value in server.items())
        return f'model = "o" # mine\n\n[mcp_servers.{name}]\n{rows}'
    return json.dumps({"theme": "dark", "mcpServers": {name: server}}, indent=4)


@pytest.mark.parametrize("agent", USERS)
def test_the_server_is_entered_where_the_agent_looks_and_goes_again(
    lab: Lab, repo: pathlib.Path, agent: str
) -> None:
    before = files(lab.root)
    said = lab.mem(repo, "install", agent, "--mcp")
    path = place(lab, repo, agent)
    assert f"MCP server in '{path}'" in said
    server = written(path)["git-mem"]
    assert (server["command"], server["args"]) == ("git-mem", ["mcp"])
    assert "nothing had to change" in lab.mem(repo, "install", agent, "--mcp")
    lab.mem(repo, "install", agent)  # the hooks alone: the server stays
    assert written(path)["git-mem"] == server
    lab.mem(repo, "uninstall", agent)
    assert files(lab.root) == before


@pytest.mark.parametrize("agent", USERS)
def test_servers_of_others_stay_byte_for_byte(lab: Lab, repo: pathlib.Path, agent: str) -> None:
    path = place(lab, repo, agent)
    put(path, text_of(path, "other", OTHER))
    before = files(lab.root)
    lab.mem(repo, "install", agent, "--mcp")
    assert written(path)["other"] == OTHER and len(written(path)) == 2
    lab.mem(repo, "uninstall", agent)
    assert files(lab.root) == before


@pytest.mark.parametrize("agent", USERS)
def test_what_others_write_meanwhile_stays_when_ours_goes(
    lab: Lab, repo: pathlib.Path, agent: str
) -> None:
    path = place(lab, repo, agent)
    lab.mem(repo, "install", agent, "--mcp")
    text = path.read_text("utf-8")
    if path.suffix == ".toml":
        new = f'{text}\n[mcp_servers.other]\ncommand = "other"\nargs = ["x"]\n'
    else:
        new = text.replace(
            '"mcpServers": {', '"mcpServers": {\n"other": ' + json.dumps(OTHER) + ","
        )
    path.write_text(new, "utf-8")
    lab.mem(repo, "uninstall", agent)
    assert written(path) == {"other": OTHER}


@pytest.mark.parametrize("agent", USERS)
def test_an_entry_that_the_user_made_is_neither_changed_nor_taken_out(
    lab: Lab, repo: pathlib.Path, agent: str
) -> None:
    path = place(lab, repo, agent)
    put(path, text_of(path, "git-mem", OWN))
    lab.mem(repo, "install", agent, "--mcp")
    assert written(path) == {"git-mem": OWN}
    lab.mem(repo, "uninstall", agent)
    assert written(path) == {"git-mem": OWN}


@pytest.mark.parametrize("agent", targets.AGENTS)
def test_a_project_has_it_in_a_file_that_can_be_committed(
    lab: Lab, repo: pathlib.Path, agent: str
) -> None:
    before = files(lab.root)
    lab.mem(repo, "install", agent, "--project", "--mcp")
    path = place(lab, repo, agent, "project")
    assert path.is_relative_to(repo) and written(path)["git-mem"]["command"] == "git-mem"
    lab.mem(repo, "uninstall", agent, "--project")
    assert files(lab.root) == before


@pytest.mark.parametrize("agent", targets.AGENTS)
def test_a_dry_run_shows_what_each_file_would_get_and_writes_nothing(
    lab: Lab, repo: pathlib.Path, agent: str
) -> None:
    words = ("install", agent, "--project", "--mcp")
    path = place(lab, repo, agent, "project")
    put(path, text_of(path, "other", OTHER))
    before = files(lab.root)
    said = lab.mem(repo, *words, "--dry-run")
    texts = lab.json(repo, *words, "-n")["texts"]
    assert files(lab.root) == before and not (lab.root / ".local").exists()
    assert "nothing was written" in said and '"git-mem"' in texts[str(path)]
    lab.mem(repo, *words)
    for name, text in texts.items():
        assert f"'{name}' would get" in said and text.strip("\n").splitlines()[-1] in said
        now = pathlib.Path(name).read_text("utf-8")
        assert all(line.strip(", ") in now for line in text.splitlines())
    assert "nothing had to change" in lab.mem(repo, *words, "-n")


def test_a_dry_run_changes_no_setting_of_git(lab: Lab, repo: pathlib.Path) -> None:
    before = files(lab.root)
    for target in ("claude", "agents-md"):
        lab.mem(repo, "install", target, "--project", "-n")
    said = lab.mem(repo, "install", "claude", "-n")
    assert "promptContext = true" in said and files(lab.root) == before


@pytest.mark.parametrize("target", ["git", "completion"])
def test_a_dry_run_of_what_is_no_agent_is_refused(
    lab: Lab, repo: pathlib.Path, target: str
) -> None:
    assert "--dry-run goes with the name of an agent" in refused(lab, repo, target, "--dry-run")


def test_doctor_says_where_the_server_is_and_who_has_none(lab: Lab, repo: pathlib.Path) -> None:
    for agent in USERS:
        lab.mem(repo, "install", agent)
        title = targets.AGENTS[agent].title
        assert f"{title} has no MCP server of git mem" in problems(lab, repo)
        lab.mem(repo, "install", agent, "--mcp")
        assert f"{title}: MCP server in '{place(lab, repo, agent)}'" in lab.mem(repo, "doctor")
    assert "MCP" not in problems(lab, repo)


@pytest.mark.parametrize("agent", USERS)
def test_what_doctor_advises_enters_the_server_beside_the_hooks(
    lab: Lab, repo: pathlib.Path, agent: str
) -> None:
    lab.mem(repo, "install", agent, "--project")
    hints = " ".join(str(f.get("hint")) for f in lab.json(repo, "doctor", rc=(0, 1)))
    (command,) = re.findall(r"`git mem (install [^`]*--mcp)`", hints)
    lab.mem(repo, *command.split())
    assert "MCP" not in problems(lab, repo)


def test_what_was_made_for_one_file_and_then_another_goes_with_the_last(
    lab: Lab, repo: pathlib.Path
) -> None:
    before = files(lab.root)
    for words in (["copilot"], ["copilot", "--mcp"]):
        lab.mem(repo, "install", *words)
    lab.mem(repo, "uninstall", "copilot")
    assert files(lab.root) == before and not (lab.root / "home" / ".copilot").exists()


@pytest.mark.parametrize("agent", USERS)
def test_doctor_names_a_server_whose_program_is_gone_and_what_mends_it(
    lab: Lab, repo: pathlib.Path, agent: str
) -> None:
    path = place(lab, repo, agent)
    lab.mem(repo, "install", agent, "--mcp")
    text = path.read_text("utf-8")
    broken = text.replace('= "git-mem"', '= "/gone/git-mem"').replace(
        '": "git-mem"', '": "/gone/git-mem"'
    )
    path.write_text(broken, "utf-8")
    found = [f for f in lab.json(repo, "doctor") if "cannot start" in f["text"]]
    assert [f["level"] for f in found] == ["warn"] and "no '/gone/git-mem'" in found[0]["text"]
    command = f"git mem install {agent} --user --mcp"
    assert f"`{command}`" in found[0]["hint"]
    lab.mem(repo, *command.split()[2:])
    assert "cannot start" not in problems(lab, repo)


def test_doctor_leaves_the_entry_of_a_user_to_its_user(lab: Lab, repo: pathlib.Path) -> None:
    server = {"command": "/gone/git-mem", "args": ["mcp"]}
    text = json.dumps({"projects": {str(repo): {"mcpServers": {"git-mem": server}}}})
    path = put(place(lab, repo, "claude"), text)  # as `claude mcp add` does
    (found,) = [f for f in lab.json(repo, "doctor") if "cannot start" in f["text"]]
    assert str(path) in found["text"] and "by hand" in found["hint"]
    put(path, text.replace("/gone/git-mem", "${PROGRAM}"))
    assert f"MCP server in '{path}'" in lab.mem(repo, "doctor")
    put(path, text[:-1])
    assert f"'{path}' is not judged" in problems(lab, repo)


def test_unasked_no_server_is_entered(lab: Lab, repo: pathlib.Path) -> None:
    for agent in USERS:
        lab.mem(repo, "install", agent)
        path = place(lab, repo, agent)
        assert not path.exists() or "mcp" not in path.read_text("utf-8").lower()


def test_what_is_no_toml_is_left_alone_and_no_hook_is_entered(lab: Lab, repo: pathlib.Path) -> None:
    for text in ("[broken", 'mcp_servers = "none"\n', "mcp_servers = {}\n"):
        put(place(lab, repo, "codex"), text)
        before = files(lab.root)
        assert "cannot understand" in refused(lab, repo, "codex", "--mcp")
        assert files(lab.root) == before


def test_toml_too_deep_to_read_is_left_alone(lab: Lab, repo: pathlib.Path) -> None:
    path = put(place(lab, repo, "codex"), f"a = {'[' * 5000}{']' * 5000}\n")
    assert "cannot understand" in refused(lab, repo, "codex", "--mcp")
    assert path.read_text().startswith("a = [[")


@pytest.mark.parametrize("agent", ["claude", "codex", "cursor"])
def test_where_the_hooks_cannot_be_entered_no_server_is(
    lab: Lab, repo: pathlib.Path, agent: str
) -> None:
    hooks = put(pathlib.Path(targets.AGENTS[agent].file(lab.env, "", "user")), '{"a": ')
    for said in ("cannot understand", "is read-only"):
        before = files(lab.root)
        assert said in refused(lab, repo, agent, "--mcp")
        assert files(lab.root) == before and not place(lab, repo, agent).exists()
        hooks.write_text("{}")
        hooks.chmod(0o444)


@pytest.mark.parametrize("agent", USERS)
def test_a_server_of_somebody_else_under_our_name_is_told(
    lab: Lab, repo: pathlib.Path, agent: str
) -> None:
    path = put(place(lab, repo, agent), text_of(place(lab, repo, agent), "git-mem", OTHER))
    for words in (("install", agent, "--mcp", "-n"), ("install", agent, "--mcp")):
        assert f"'{path}' has another program's server named 'git-mem'" in lab.mem(repo, *words)
    assert f"kept: MCP server in '{path}'" in lab.mem(repo, "uninstall", agent)


def test_a_large_file_of_the_agent_without_our_server_is_not_read(
    lab: Lab, repo: pathlib.Path
) -> None:
    before = files(lab.root)
    lab.mem(repo, "install", "claude")
    path = put(place(lab, repo, "claude"), '{"a": "' + "x" * install_log.LARGEST + '"}')
    lab.mem(repo, "uninstall", "claude")
    assert path.stat().st_size > install_log.LARGEST
    path.unlink()
    assert files(lab.root) == before


def test_what_the_user_put_into_our_table_goes_with_it(lab: Lab, repo: pathlib.Path) -> None:
    path = put(place(lab, repo, "codex"), 'model = "o"\n')
    lab.mem(repo, "install", "codex", "--mcp")
    own = 'enabled = false\nx = [\n["a"],\n]\n\n[mcp_servers.git-mem.env]\nA = "1"\n'
    other = '\n# mine\n[mcp_servers.other]\ncommand = "other"\n'
    path.write_text(path.read_text() + own + other)
    lab.mem(repo, "uninstall", "codex")
    assert path.read_text() == 'model = "o"\n' + other


def test_a_link_out_of_the_working_tree_is_not_followed(lab: Lab, repo: pathlib.Path) -> None:
    outside = put(lab.root / "outside.json", "{}")
    (repo / ".mcp.json").symlink_to(outside)
    said = refused(lab, repo, "claude", "--project", "--mcp")
    assert "leads out of the working tree" in said and outside.read_text() == "{}"


@pytest.mark.parametrize("words", [["git", "--mcp"], ["agents-md", "--mcp"]])
def test_where_no_server_is_read_it_is_refused(
    lab: Lab, repo: pathlib.Path, words: list[str]
) -> None:
    assert "--mcp goes with the name of an agent" in refused(lab, repo, *words)


@pytest.mark.process
def test_without_the_package_it_says_what_to_install(lab: Lab, repo: pathlib.Path) -> None:
    program = "import sys; sys.modules['mcp'] = None; from gitmem.__main__ import main; sys.argv = ['git-mem', 'install', 'claude', '--mcp']; sys.exit(main())"  # noqa: E501
    before = files(lab.root)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=repo, env=lab.env, capture_output=True, text=True
    )
    assert done.returncode == 1 and "pip install 'mcp>=2,<3'" in done.stderr
    assert files(lab.root) == before
