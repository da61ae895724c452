"""Agents' settings: what was there stays, what we add goes again byte for byte, nothing is
installed twice, nothing is written unasked.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys

import pytest
from conftest import Lab
from install_world import commands, files, noted, put, user_file

from gitmem.agents import install_log, installed, targets
from gitmem.core.errors import MemError

AGENTS = list(targets.AGENTS)

SETTINGS = {
    "plain": (
        '{\n  "model": "opus",\n  "hooks": {\n    "Stop": [\n      {"hooks": [{"type": "command",'
        ' "command": "say done"}]}\n    ]\n  }\n}\n'
    ),
    "empty object": "{}",
    "empty object in lines": "{\n}\n",
    "empty file": "",
    "no newline at the end": '{"model": "opus"}',
    "tabs and CRLF": (
        '{\r\n\t"model": "opus",\r\n\t"permissions": {\r\n\t\t"allow": ["Bash(ls)"]\r\n\t}\r\n}\r\n'
    ),
    "comments and commas": (
        '// mine\n{\n  "model": "opus", // the big one\n  "hooks": {\n    // none yet\n  },\n}\n'
    ),
    "a mark at the begin": '\ufeff{"model": "opus"}\n',
    "minified": '{"model":"opus","hooks":{"Stop":[],"PreToolUse":[{"matcher":"Bash","hooks":[]}]}}',
}


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    return lab.repo()


# --- there and back ---------------------------------------------------------


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("agent", AGENTS)
def test_settings_that_exist_are_kept_and_given_back_byte_for_byte(
    lab: Lab, repo: pathlib.Path, agent: str, name: str
) -> None:
    path = put(user_file(lab, agent), SETTINGS[name])
    path.chmod(0o640)
    before = files(lab.root)
    lab.mem(repo, "install", agent)
    now = installed._look(agent, "user", str(path))
    assert (
        now
        and not now.problem
        and set(now.commands) == set(targets.AGENTS[agent].events)
        and path.stat().st_mode & 0o777 == 0o640
    )
    text = path.read_bytes().decode()
    for line in SETTINGS[name].splitlines() if name != "minified" else ():
        assert line.strip().rstrip("{}[],\r") in text
    lab.mem(repo, "uninstall", agent)
    assert files(lab.root) == before


@pytest.mark.parametrize("agent", AGENTS)
def test_where_nothing_was_nothing_is_left(lab: Lab, repo: pathlib.Path, agent: str) -> None:
    before = files(lab.root)
    lab.mem(repo, "install", agent)
    assert lab.git(repo, "status", "--porcelain") == ""
    assert set(files(lab.root)) - set(before) == {
        ".gitconfig",
        *(
            str(p.relative_to(lab.root))
            for p in (user_file(lab, agent), *user_file(lab, agent).parents)
            if p.is_relative_to(lab.root) and p != lab.root
        ),
    }
    lab.mem(repo, "uninstall", agent)
    assert files(lab.root) == before


@pytest.mark.parametrize("agent", targets.AGENTS)
def test_a_project_file_is_written_only_when_asked_for(
    lab: Lab, repo: pathlib.Path, agent: str
) -> None:
    before = files(lab.root)
    lab.mem(repo, "install", agent, "--project")
    assert (
        lab.git(repo, "status", "--porcelain", "-uall") == f"?? {targets.AGENTS[agent].project}\n"
    )
    assert (
        "gitconfig" not in " ".join(files(lab.root))
        and lab.git(repo, "config", "--local", "mem.promptContext") == "true\n"
    )
    lab.mem(repo, "uninstall", agent, "--project")
    assert files(lab.root) == before


def test_a_second_install_changes_nothing(lab: Lab, repo: pathlib.Path) -> None:
    put(user_file(lab), SETTINGS["plain"])
    lab.mem(repo, "install", "claude")
    before = files(lab.root)
    assert lab.mem(repo, "install", "claude") == "nothing had to change\n"
    assert files(lab.root) == before


def test_a_linked_settings_file_stays_a_link(lab: Lab, repo: pathlib.Path) -> None:
    real = put(lab.root / "dotfiles/claude.json", SETTINGS["plain"])
    user_file(lab).parent.mkdir()
    user_file(lab).symlink_to(real)
    before = files(lab.root)
    lab.mem(repo, "install", "claude")
    assert user_file(lab).is_symlink() and "git-mem" in real.read_text()
    lab.mem(repo, "uninstall", "claude")
    assert files(lab.root) == before


def test_the_users_own_settings_need_no_repository(lab: Lab) -> None:
    lab.mem(lab.root, "install", "claude")
    assert commands(user_file(lab))
    lab.mem(lab.root, "uninstall", "claude")
    assert not user_file(lab).exists()
    assert (
        "no working tree"
        in lab.run(
            lab.root, sys.executable, "-m", "gitmem", "install", "claude", "--project"
        ).stderr
    )


# --- others write too -------------------------------------------------------


@pytest.mark.parametrize("known", [True, False], ids=["noted", "nothing known"])
@pytest.mark.parametrize("name", [n for n in SETTINGS if n != "empty file"])
def test_only_our_entries_go_where_others_changed_the_file_since(
    lab: Lab, repo: pathlib.Path, name: str, known: bool
) -> None:
    path = put(user_file(lab), SETTINGS[name])
    lab.mem(repo, "install", "claude")
    text = path.read_bytes().decode()
    at = text.index("{") + 1
    path.write_bytes((text[:at] + '"theirs": [1, 2],' + text[at:]).encode())
    if not known:
        shutil.rmtree(lab.root / ".local")
    lab.mem(repo, "uninstall", "claude")
    left = path.read_bytes().decode()
    assert "git-mem" not in left and '"theirs": [1, 2]' in left
    expected = SETTINGS[name] or ""
    assert "".join(
        left.replace('"theirs": [1, 2],', "").replace('"theirs": [1, 2]', "").split()
    ) == "".join(expected.split()) or (
        not known and name == "minified" and '"Stop":[]' not in left
    )  # an empty list of theirs cannot be told from one of ours


def test_a_handler_that_others_put_beside_ours_stays(lab: Lab, repo: pathlib.Path) -> None:
    lab.mem(repo, "install", "claude")
    data = json.loads(user_file(lab).read_text())
    data["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "say done"})
    user_file(lab).write_text(json.dumps(data))
    lab.mem(repo, "uninstall", "claude")
    assert json.loads(user_file(lab).read_text()) == {
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}
    }


def test_an_older_installation_is_renewed_in_place(lab: Lab, repo: pathlib.Path) -> None:
    path = put(
        user_file(lab),
        '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "\'/old/git-mem\' hook Stop'
        ' --agent claude"}]}], "Gone": []}}',
    )
    lab.mem(repo, "install", "claude")
    assert {event: len(found) for event, found in commands(path).items()} == dict.fromkeys(
        targets.AGENTS["claude"].events, 1
    )
    assert "/old/" not in path.read_text()


def test_what_somebody_writes_meanwhile_is_not_lost(lab: Lab, tmp_path: pathlib.Path) -> None:
    path = put(tmp_path / "settings.json", "two")
    with install_log.opened(lab.env) as book:
        with pytest.raises(MemError, match="changed while git mem"):
            book.write(str(path), "test", "one", "one ours", [[3, 8]])
        assert path.read_text() == "two" and not book.files
        assert book.write(str(path), "test", "two", "two ours", [[3, 8]])
        assert book.original(str(path), "two ours") == "two"


@pytest.mark.parametrize("text", [None, SETTINGS["comments and commas"], "{}"])
def test_a_crash_after_the_note_and_before_the_file_leaves_nothing_behind(
    lab: Lab, repo: pathlib.Path, text: str | None
) -> None:
    if text is not None:
        put(user_file(lab), text)
    before = files(lab.root)
    lab.mem(repo, "install", "claude")
    (
        user_file(lab).unlink() if text is None else put(user_file(lab), text)
    )  # as it was when the note was written
    assert lab.mem(repo, "uninstall", "claude").startswith("mem.promptContext")
    lab.mem(repo, "install", "claude")
    user_file(lab).unlink() if text is None else put(user_file(lab), text)
    lab.mem(repo, "install", "claude")
    lab.mem(repo, "uninstall", "claude")
    assert not noted(lab)
    if text is None:  # nobody knows any more who made the directory
        user_file(lab).parent.rmdir() if user_file(lab).parent.exists() else None
    assert files(lab.root) == before


def test_a_note_that_cannot_be_read_counts_as_none(lab: Lab, repo: pathlib.Path) -> None:
    put(user_file(lab), SETTINGS["plain"])
    lab.mem(repo, "install", "claude")
    for text in (
        "garbage",
        '{"files": {"/x": {}}}',
        '{"files": []}',
        '{"files": {"/x": {"target": "a", "before": "", "after": "", "spans": [["a", 1]]}}}',
    ):
        pathlib.Path(install_log.place(lab.env)).write_text(text)
        assert noted(lab) == {}
    lab.mem(repo, "uninstall", "claude")
    assert user_file(lab).read_text() == SETTINGS["plain"]


def test_installations_at_the_same_time_are_all_noted(lab: Lab, repo: pathlib.Path) -> None:
    before = files(lab.root)
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "gitmem", "install", agent],
            cwd=repo,
            env=lab.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        for agent in AGENTS
    ]
    assert [process.wait(120) for process in running] == [0] * len(AGENTS)
    assert {note["target"] for note in noted(lab).values()} == {
        *AGENTS,
        "git-config",
    }
    for agent in AGENTS:
        lab.mem(repo, "uninstall", agent)
    assert files(lab.root) == before


def test_the_note_of_what_was_done_is_private_and_holds_no_text_of_the_user(
    lab: Lab, repo: pathlib.Path
) -> None:
    put(user_file(lab), '{"env": {"API_KEY": "sk-very-secret"}}')
    lab.mem(repo, "install", "claude")
    note = pathlib.Path(install_log.place(lab.env))
    assert note.stat().st_mode & 0o777 == 0o600 and "very-secret" not in note.read_text()


# --- what cannot be done ----------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"hooks": {', "in line 1"),
        ('{\n  "a": 1\n  "b": 2\n}', "in line 3"),
        ('{"hooks": []}', "'hooks' is no object"),
        ('{"hooks": {"Stop": {}}}', "'hooks.Stop' is no array"),
        ("[]", "holds no object"),
        ("{} {}", "extra data"),
        ("\x00\xff", "expecting value"),
    ],
)
def test_a_file_that_cannot_be_understood_stays_as_it_is(
    lab: Lab, repo: pathlib.Path, text: str, said: str
) -> None:
    put(user_file(lab), text)
    before = files(lab.root)
    done = lab.run(repo, sys.executable, "-m", "gitmem", "install", "claude")
    assert (
        done.returncode == 1
        and said in done.stderr
        and str(user_file(lab)) in done.stderr
        and "nothing was changed" in done.stderr
    )
    assert files(lab.root) == before
    assert lab.mem(repo, "uninstall", "claude") == "nothing was installed\n"


def test_a_file_that_is_no_text_stays_as_it_is(lab: Lab, repo: pathlib.Path) -> None:
    path = put(user_file(lab), "")
    path.write_bytes('{"a": 1}'.encode("utf-16"))
    before = files(lab.root)
    lab.mem(repo, "install", "claude", rc=(1,))
    assert files(lab.root) == before


def test_a_read_only_file_is_not_replaced(lab: Lab, repo: pathlib.Path) -> None:
    put(user_file(lab), "{}").chmod(0o444)
    assert (
        "is read-only" in lab.run(repo, sys.executable, "-m", "gitmem", "install", "claude").stderr
    )
    assert user_file(lab).read_text() == "{}" and not noted(lab)


def test_a_directory_that_cannot_be_made_is_said(lab: Lab, repo: pathlib.Path) -> None:
    (lab.root / ".claude").write_text("a file")
    done = lab.run(repo, sys.executable, "-m", "gitmem", "install", "claude")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False) and not noted(lab)


@pytest.mark.parametrize(
    "words",
    [
        ["claude", "--user", "--project"],
        ["git", "--user"],
        ["agents-md", "--user"],
        ["emacs"],
        ["codex", "--allow"],
        ["git", "--allow"],
        ["claude", "--pre-push"],
    ],
)
def test_words_that_do_not_fit_are_refused(lab: Lab, repo: pathlib.Path, words: list[str]) -> None:
    before = files(lab.root)
    lab.mem(repo, "install", *words, rc=(2,))
    assert files(lab.root) == before


def test_a_device_in_the_place_of_a_file_is_left_alone(lab: Lab, repo: pathlib.Path) -> None:
    device = lab.root / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        device.read_bytes()
    except OSError:
        pytest.skip("devices cannot be made here")
    told = lab.mem(repo, "install", "claude", env={"GIT_CONFIG_GLOBAL": str(device)})
    assert "there is no global git configuration" in told and device.is_char_device()
    lab.mem(repo, "uninstall", "claude")
    user_file(lab).parent.mkdir()
    user_file(lab).symlink_to(device)
    assert (
        "is no regular file"
        in lab.run(repo, sys.executable, "-m", "gitmem", "install", "claude").stderr
        and device.is_char_device()
    )
