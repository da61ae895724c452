"""Which directory is Claude Code's auto memory: by the client's names, worktrees and settings."""

from __future__ import annotations

import json

import pytest
from automemory_world import fill, memory, start, write
from conftest import Lab

from gitmem.agents import automemory


@pytest.mark.parametrize(
    ("path", "slug"),
    [  # as the clients 2.1.197 and 2.1.330 named them
        ("/srv/my.proj_1", "-srv-my-proj-1"),
        ("/tmp/proj \u00e9\U0001f389", "-tmp-proj----"),
        (
            "/tmp/x/e/" + "a.b_c" * 30 + "/" + "x y" * 40,
            "-tmp-x-e-" + "a-b-c" * 30 + "-" + "x-y" * 13 + "x-ssn3g9",
        ),
        (
            "/tmp/x/e/" + "a.b_c" * 30 + "/" + "x y" * 40 + "/sub",
            "-tmp-x-e-" + "a-b-c" * 30 + "-" + "x-y" * 13 + "x-7x7jt4",
        ),
    ],
)
def test_the_directory_is_named_as_the_client_names_it(path: str, slug: str) -> None:
    assert automemory.slug(path) == slug


def test_linked_worktrees_and_subdirectories_share_the_main_ones(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(repo, "worktree", "add", "-q", str(lab.root / "other"))
    (repo / "sub").mkdir()
    fill(memory(lab, repo))
    assert lab.json(lab.root / "other", "import", "claude")["stored"] == 3
    assert lab.json(repo / "sub", "import", "claude")["known"] == 3


def test_worktrees_of_a_bare_repository_share_the_one_of_the_repository(lab: Lab) -> None:
    lab.git(lab.root, "clone", "-q", "--bare", str(lab.repo()), "bare.git")
    lab.git(lab.root / "bare.git", "worktree", "add", "-q", str(lab.root / "tree"))
    fill(memory(lab, lab.root / "bare.git"))
    assert lab.json(lab.root / "tree", "import", "claude")["stored"] == 3


def test_the_clients_own_directory_can_be_elsewhere(lab: Lab) -> None:
    repo = lab.repo()
    fill(memory(lab, repo, lab.root / "config"))
    assert (
        lab.json(repo, "import", "claude", env={"CLAUDE_CONFIG_DIR": str(lab.root / "config")})[
            "stored"
        ]
        == 3
    )


def test_settings_name_the_directory_the_nearest_first(lab: Lab) -> None:
    repo = lab.repo()
    fill(memory(lab, repo))
    (repo / ".claude").mkdir()
    for origin, path in (
        ("user", lab.root / ".claude" / "settings.json"),
        ("project", repo / ".claude" / "settings.json"),
        ("local", repo / ".claude" / "settings.local.json"),
    ):
        directory = repo / "docs" / origin if origin == "project" else lab.root / origin
        directory.mkdir(parents=True)
        write(directory, "only", f"Noted in the {origin} directory.")
        path.write_text(
            json.dumps(
                {
                    "autoMemoryDirectory": f"~/{origin}" if origin == "user" else str(directory),
                    "x": 1,
                }
            )
        )
        said = lab.json(repo, "import", "claude")
        assert (said["directory"], said["stored"] + said["edited"]) == (str(directory), 1)


@pytest.mark.parametrize(
    "text",
    [
        '{"autoMemoryDirectory": "relative"}',
        '{"autoMemoryDirectory": 5}',
        '["autoMemoryDirectory"]',
        '{"autoMemoryDirectory": "',
        '{"autoMemoryDirectory": "/"}',
    ],
)
def test_a_setting_that_the_client_ignores_is_ignored(lab: Lab, text: str) -> None:
    repo = lab.repo()
    fill(memory(lab, repo))
    (repo / ".claude").mkdir()
    (repo / ".claude" / "settings.local.json").write_text(text)
    assert lab.json(repo, "import", "claude")["stored"] == 3


def test_a_committed_file_cannot_have_a_folder_of_the_user_read(lab: Lab) -> None:
    repo = lab.repo()
    write(lab.root, "diary", "A private thought.")
    (repo / ".claude").mkdir()
    for target in (lab.root, repo / "link", repo / ".git" / "x", repo / ".." / "elsewhere"):
        (repo / ".claude" / "settings.json").write_text(
            json.dumps({"autoMemoryDirectory": str(target)})
        )
        if target.name == "link":
            target.symlink_to(lab.root)
        done = lab.run(repo, "git", "mem", "import", "claude")
        assert (
            done.returncode == 1
            and "outside the repository" in done.stderr
            and "--from" in done.stderr
        )
        assert start(lab, repo) is None
    assert lab.lines(repo, "mem/private") == []
    assert lab.json(repo, "import", "claude", "--from", str(lab.root))["stored"] == 1
