"""What is read from the working tree: regular files that lie in it, and no more of them than is
needed.
"""

from __future__ import annotations

import json
import os
import pathlib

import pytest
from conftest import Lab
from hook_world import make

from gitmem.agents import automemory
from gitmem.core.errors import MemError
from gitmem.git import config_read, worktree_file
from gitmem.memory import adr

RECORD = "# 1. Use PostgreSQL\n\n## Decision\n\nOrders and invoices share a transaction.\n"


def put(path: pathlib.Path, kind: str, text: str = "x") -> None:
    """Something of this kind at a path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    elsewhere = path.parent / (path.name + ".elsewhere")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "link":
        elsewhere.write_text(text)
        path.symlink_to(elsewhere.name)
    elif kind == "linked pipe":
        os.mkfifo(elsewhere)
        path.symlink_to(elsewhere.name)
    else:
        path.write_text(text)


KINDS = ["pipe", "directory", "device", "link", "linked pipe"]


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_regular_file_is_read(tmp_path: pathlib.Path, kind: str) -> None:
    put(tmp_path / "f", kind)
    with pytest.raises(MemError, match=r"is a link|is no regular file"):
        worktree_file.read(str(tmp_path), "f", 100)


def test_a_file_is_read_up_to_its_bound_and_below_the_real_top(tmp_path: pathlib.Path) -> None:
    top = tmp_path / "top"
    (top / "docs").mkdir(parents=True)
    (top / ".git").mkdir()
    (tmp_path / "outside").mkdir()
    for place in (top / "docs", top / ".git", tmp_path / "outside"):
        (place / "f").write_text("0123456789")
    (top / "inner").symlink_to("docs")
    (top / "outer").symlink_to("../outside")
    (top / "meta").symlink_to(".git")
    (tmp_path / "other name").symlink_to("top")
    for name in ("docs/f", "inner/f"):
        assert worktree_file.read(str(tmp_path / "other name"), name, 10) == b"0123456789"
        assert worktree_file.read(str(top), name, 9, cut=True) == b"012345678"
    with pytest.raises(MemError, match="more than 9 bytes"):
        worktree_file.read(str(top), "docs/f", 9)
    for name in ("outer/f", "meta/f", "../outside/f", ".git/f"):
        with pytest.raises(MemError, match="leads out of the working tree"):
            worktree_file.read(str(top), name, 10)
    for name in ("docs/none", "none/f", "docs/f/f"):
        assert worktree_file.read(str(top), name, 10) is None


# The policy file

WORST = {
    "a dotted key": "a" + ".a" * 40 + " = 1\n",
    "64 KB": "# " + "x" * 64_000 + "\nlimit = 3\n",
    "deep": "limit = " + "[" * 4_000 + "\n",
    "broken": "limit = \n",
    "no UTF-8": "\udcff = 1\nlimit = 3\n",
}


@pytest.mark.parametrize("kind", [*WORST, *KINDS])
def test_a_policy_file_that_cannot_be_used_counts_as_absent_and_is_named(
    lab: Lab, kind: str
) -> None:
    hooks = make(lab)
    path = hooks.repo / ".gitmem.toml"
    if kind in WORST:
        path.write_bytes(os.fsencode(WORST[kind]))
    else:
        put(path, kind, "limit = 3\n")
    assert config_read.policy(str(hooks.repo)) == {}
    named = [
        f["text"] for f in lab.json(hooks.repo, "doctor", rc=(0, 1)) if ".gitmem.toml" in f["text"]
    ]
    assert len(named) == 1 and named[0].endswith("so it counts as absent")
    assert "memory_context" in hooks.call("SessionStart", source="startup")
    assert hooks.failures() == 0


def test_a_policy_file_at_its_bounds_counts(tmp_path: pathlib.Path) -> None:
    line = "a.b.c.d.e.f.g.h.i = 1\nlimit = 3\n"
    (tmp_path / ".gitmem.toml").write_text("#" * (8192 - len(line) - 1) + "\n" + line)
    assert config_read.policy(str(tmp_path)) == {"limit": "3"}
    (tmp_path / ".gitmem.toml").write_text("#" * (8192 - len(line)) + "\n" + line)
    assert config_read.policy(str(tmp_path)) == {}


# Decision records


def test_decision_records_outside_of_the_tree_are_not_imported(lab: Lab) -> None:
    repo = lab.repo()
    outside = lab.root / "outside" / "adr"
    outside.mkdir(parents=True)
    (outside / "0001-theirs.md").write_text(RECORD)
    hint = "no directory with decision records"
    (repo / "docs").symlink_to(outside.parent)
    assert adr.directories(str(repo)) == []
    for text in (
        "docs/adr\n",
        "far\n",
        "docs/../docs/adr",
        "../outside/adr",
        str(outside),
        ".git",
        "\0",
    ):
        (repo / ".adr-dir").write_text(text)
        (repo / "far").unlink(missing_ok=True)
        (repo / "far").symlink_to(outside)
        assert adr.directories(str(repo)) == [], text
    for name in ("docs/adr", "far"):
        assert lab.run(repo, "git-mem", "import", "adr", name).returncode == 1
    assert hint in lab.run(repo, "git-mem", "import", "adr").stderr
    assert not lab.lines(repo)


def test_what_is_no_regular_file_among_decision_records_is_refused_and_stops_no_other(
    lab: Lab,
) -> None:
    repo = lab.repo()
    for kind in KINDS:
        put(repo / "docs" / "adr" / f"0002-{kind.replace(' ', '-')}.md", kind)
    put(repo / "docs" / "adr" / "0001-good.md", "file", RECORD)
    put(repo / "docs" / "adr" / "0003-long.md", "file", RECORD + "x" * adr.LARGEST)
    for kind in ("device", "pipe"):
        put(repo / ".adr-dir", kind)
        found = lab.json(repo, "import", "adr", rc=(1,))
        (repo / ".adr-dir").unlink()
        assert {i["path"]: i["status"] for i in found["files"]} == {
            "docs/adr/0001-good.md": "stored" if kind == "device" else "known",
            "docs/adr/0002-pipe.md": "refused",
            "docs/adr/0003-long.md": "refused",
        }
    assert len(lab.lines(repo)) == 1


@pytest.mark.parametrize(
    "bait",
    [
        "<!--" * 60_000,
        "# " + " " * 200_000 + "x",
        " " * 200_000 + "x",
        "status:" + " " * 200_000 + "x",
        "* " * 100_000,
        "#" * 200_000 + " x",
        "\n=" * 90_000,
    ],
)
def test_no_text_makes_the_reader_of_decision_records_slow(bait: str) -> None:
    """By the square of its length each of these took minutes."""
    assert len(bait) < adr.LARGEST
    adr.parse(RECORD + bait)
    adr.parse(bait + "\n" + RECORD)


# Others that read, or write, below the top


@pytest.mark.parametrize("target", ["agents-md", "claude"])
def test_a_committed_link_does_not_have_us_write_outside_of_the_tree(lab: Lab, target: str) -> None:
    repo = lab.repo()
    theirs = lab.root / "theirs.json"
    theirs.write_text("{}\n")
    (repo / "AGENTS.md").symlink_to(theirs)
    (repo / ".claude").mkdir()
    (repo / ".claude" / "settings.json").symlink_to(theirs)
    done = lab.run(
        repo, "git-mem", "install", target, *(["--project"] if target == "claude" else [])
    )
    assert done.returncode == 1 and "leads out of the working tree" in done.stderr
    assert theirs.read_text() == "{}\n"


def test_a_link_inside_of_the_tree_is_written_through(lab: Lab) -> None:
    repo = lab.repo()
    (repo / "CLAUDE.md").write_text("# Words\n")
    (repo / "AGENTS.md").symlink_to("CLAUDE.md")
    lab.mem(repo, "install", "agents-md")
    assert "git mem" in (repo / "CLAUDE.md").read_text() and (repo / "AGENTS.md").is_symlink()


def test_committed_settings_that_lead_out_of_the_tree_name_no_directory(lab: Lab) -> None:
    repo = lab.repo()
    (repo / "notes").mkdir()
    theirs = lab.root / "theirs.json"
    theirs.write_text(json.dumps({"autoMemoryDirectory": str(repo / "notes")}))
    (repo / ".claude").mkdir()
    (repo / ".claude" / "settings.json").write_text(theirs.read_text())
    git = str(repo / ".git")
    assert automemory.Sight(git, git, str(repo), lab.env).origin == "project"
    (repo / ".claude" / "settings.json").unlink()
    (repo / ".claude" / "settings.json").symlink_to(theirs)
    assert automemory.Sight(git, git, str(repo), lab.env).origin == "default"


def test_local_settings_that_are_committed_name_no_directory_outside_of_the_tree(lab: Lab) -> None:
    repo = lab.repo()
    theirs = lab.root / "theirs"
    theirs.mkdir()
    (repo / ".claude").mkdir()
    local = repo / ".claude" / "settings.local.json"
    local.write_text(json.dumps({"autoMemoryDirectory": str(theirs)}))
    git = str(repo / ".git")
    assert automemory.Sight(git, git, str(repo), lab.env).path == str(theirs)
    lab.git(repo, "add", "-f", ".claude")
    found = automemory.Sight(git, git, str(repo), lab.env)
    assert (found.path, found.refused) == ("", str(theirs))


@pytest.mark.parametrize("kind", ["pipe", "device", "linked pipe"])
def test_why_of_a_file_that_became_something_else_answers_from_head(lab: Lab, kind: str) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "The first line is read by the installer", "--path", "f0.txt:1")
    (repo / "f0.txt").unlink()
    put(repo / "f0.txt", kind)
    assert [m["title"] for m in lab.json(repo, "why", "f0.txt:1")] == [
        "The first line is read by the installer"
    ]


@pytest.mark.parametrize("line", ["contextBudget = 1", "maxBody = 1", "limit = 1"])
def test_a_policy_file_cannot_make_limits_so_small_that_nothing_works(lab: Lab, line: str) -> None:
    repo = lab.repo()
    (repo / ".gitmem.toml").write_text(line + "\n")
    lab.mem(
        repo, "remember", "Blocked: the staging certificate expires on Friday", "--type", "blocker"
    )
    assert "certificate" in lab.mem(repo, "context")
    name = line.split()[0]
    assert f"mem.{name}" in lab.mem(repo, "doctor", rc=(0, 1))
    assert lab.json(repo, "config", name)
