"""Installing where things are not as usual: homes, settings, git's configuration.

What cannot be done is said, and what was done stands.
"""

from __future__ import annotations

import os
import pathlib
import sys

import pytest
from conftest import Lab
from install_world import commands, files, noted, problems, put, user_file

from gitmem.agents import install_log, targets
from gitmem.git import config_journal


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    return lab.repo()


def install(lab: Lab, repo: pathlib.Path, *words: str, **env: str) -> tuple[int, str]:
    done = lab.run(
        repo,
        sys.executable,
        "-m",
        "gitmem",
        "install",
        *(words or ("claude",)),
        env={**lab.env, **env} if env else None,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "text",
    [
        '// mine\n{\n  "a": 1\n}\n',
        '{\n  "a": 1, /* one */\n}\n',
        '{"a": "x\x01y"}',
        "// nothing yet\n",
    ],
)
def test_a_file_that_the_client_ignores_is_edited_and_the_user_is_told(
    lab: Lab, repo: pathlib.Path, text: str
) -> None:
    lab.mem(repo, "init")
    put(user_file(lab), text)
    code, said = install(lab, repo)
    assert code == 0 and "cannot read" in said and "runs no hook" in said
    assert "cannot read" in problems(lab, repo)
    lab.mem(repo, "uninstall", "claude")
    assert user_file(lab).read_text() == text


@pytest.mark.parametrize("text", ["", "{}", '\ufeff{"a": 1}', '{"a": 1}\r\n'])
def test_of_a_file_that_the_client_reads_nothing_is_said(
    lab: Lab, repo: pathlib.Path, text: str
) -> None:
    lab.mem(repo, "init")
    put(user_file(lab), text)
    assert "cannot read" not in install(lab, repo)[1] + problems(lab, repo)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_in_the_place_of_a_file_is_not_waited_for(
    lab: Lab, repo: pathlib.Path
) -> None:
    user_file(lab).parent.mkdir()
    os.mkfifo(user_file(lab))
    code, said = install(lab, repo)
    assert code == 1 and "no regular file" in said
    assert "cannot be judged" in problems(lab, repo)
    lab.run(repo, sys.executable, "-m", "gitmem", "uninstall", "claude")


def test_a_huge_file_is_left_alone(lab: Lab, repo: pathlib.Path) -> None:
    path = put(user_file(lab), '{"a": "' + "x" * install_log.LARGEST + '"}')
    code, said = install(lab, repo)
    assert (
        code == 1
        and "nothing was changed" in said
        and path.stat().st_size > install_log.LARGEST
        and not noted(lab)
    )


@pytest.mark.parametrize("home", ["", " ", "relative"])
def test_without_a_home_that_is_one_nothing_is_written(
    lab: Lab, repo: pathlib.Path, home: str
) -> None:
    before = files(lab.root)
    code, said = install(lab, repo, HOME=home)
    assert code == 1 and "no home directory" in said and files(lab.root) == before


def test_the_clients_own_directory_needs_no_home(lab: Lab, repo: pathlib.Path) -> None:
    env = {
        "HOME": "",
        "CLAUDE_CONFIG_DIR": str(lab.root / "own"),
        "XDG_STATE_HOME": str(lab.root / ".local/state"),
    }
    code, said = install(lab, repo, **env)
    assert code == 0 and "no global git configuration" in said
    assert set(commands(lab.root / "own/settings.json")) == set(targets.AGENTS["claude"].events)
    lab.mem(repo, "uninstall", "claude", env=env)
    assert not (lab.root / "own").exists()


def test_an_uninstall_names_the_file_that_another_variable_or_working_tree_leads_to(
    lab: Lab, repo: pathlib.Path
) -> None:
    own = {"COPILOT_HOME": str(lab.root / "own")}
    hooks = str(lab.root / "own/hooks/git-mem.json")
    lab.mem(repo, "install", "copilot", env=own)
    said = lab.mem(repo, "uninstall", "copilot")
    assert hooks in said and "COPILOT_HOME" in said and "nothing" not in said
    assert lab.json(repo, "uninstall", "copilot")["kept"] == [hooks]
    assert lab.json(repo, "uninstall", "copilot", env=own)["kept"] == []
    assert not os.path.exists(hooks)
    lab.mem(repo, "install", "copilot", "--project")
    said = lab.mem(lab.repo("other"), "uninstall", "copilot")
    assert str(repo / ".github/hooks/git-mem.json") in said


@pytest.mark.parametrize("broken", [b"[user\n", None])
def test_hooks_stand_where_gits_configuration_cannot_be_written_and_the_user_is_told(
    lab: Lab, repo: pathlib.Path, broken: bytes | None
) -> None:
    path = lab.root / ".gitconfig"
    path.write_bytes(broken) if broken else path.mkdir()
    plain = lab.root / "plain"
    plain.mkdir()
    code, said = install(lab, plain)
    assert (
        code == 0
        and "promptContext could not be set" in said
        and "nothing was changed" not in said
        and commands(user_file(lab))
    )
    lab.mem(plain, "uninstall", "claude")
    assert not user_file(lab).exists() and (
        path.read_bytes() == broken if broken else path.is_dir()
    )


@pytest.mark.parametrize("value", ["", " = yes", " = on", " = 1"])
def test_every_way_to_say_true_counts_as_true(lab: Lab, repo: pathlib.Path, value: str) -> None:
    path = put(lab.root / ".gitconfig", f"[mem]\n\tpromptContext{value}\n")
    before = path.read_bytes()
    assert "promptContext" not in install(lab, repo)[1] and path.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    ["[alias]\n\tx = y\\", "[alias]\n\tx = y\\\n", "[alias]\n\tx = y\\\n\n", "[alias]\n\tx = y"],
)
def test_a_value_that_goes_on_in_the_next_line_does_not_take_ours_to_it(
    lab: Lab, repo: pathlib.Path, text: str
) -> None:
    path = put(lab.root / ".gitconfig", text)
    install(lab, repo)
    assert (
        lab.git(repo, "config", "alias.x").strip(),
        lab.git(repo, "config", "mem.promptContext").strip(),
    ) == ("y", "true")
    lab.mem(repo, "uninstall", "claude")
    assert path.read_text() == text


@pytest.mark.parametrize(
    "env",
    [
        {"HOME": ""},
        {"HOME": "relative"},
        {"CLAUDE_CONFIG_DIR": "~/own"},
        {"CLAUDE_CONFIG_DIR": "relative"},
    ],
)
@pytest.mark.parametrize("words", [["export", "claude"], ["import", "claude"]])
def test_auto_memory_of_a_home_that_is_none_is_not_written_into_the_working_tree(
    lab: Lab, repo: pathlib.Path, env: dict[str, str], words: list[str]
) -> None:
    lab.mem(repo, "remember", "The kettle is behind the blue door")
    before = files(lab.root)
    done = lab.run(repo, sys.executable, "-m", "gitmem", *words, env={**lab.env, **env})
    assert done.returncode == 1 and "absolute path" in done.stderr and files(lab.root) == before


def test_where_notes_of_what_is_changed_cannot_be_kept_nothing_is_changed(
    lab: Lab, repo: pathlib.Path
) -> None:
    pathlib.Path(install_log.place(lab.env)).mkdir(parents=True)
    code, said = install(lab, repo)
    assert code == 1 and "no regular file" in said and not user_file(lab).exists()


def test_a_file_is_for_its_owner_alone_also_while_it_is_written(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, fsync, seen = tmp_path / "claude.json", os.fsync, []

    def watched(fd: int) -> None:
        seen.append(os.fstat(fd).st_mode & 0o777)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", watched)
    path.write_text("{}")
    for mode in (0o600, 0o644):
        path.chmod(mode)
        config_journal.replace(str(path), b'{"key": "x"}', 0o666)
        assert seen.pop() == 0o600 and path.stat().st_mode & 0o777 == mode
