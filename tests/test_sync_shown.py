"""What leaves is what a dry run shows, and what comes in late is taken in first."""

from __future__ import annotations

import pathlib
import sys

import pytest
from conftest import Lab
from sync_world import REF, SECRET, TRACK, Team


@pytest.fixture
def team(lab: Lab) -> Team:
    return Team(lab)


def shown_and_sent(lab: Lab, repo: pathlib.Path) -> tuple[set[str], set[str]]:
    shown = {t["text"] for t in lab.json(repo, "sync", "--dry-run", "--allow-secret")["texts"]}
    return shown, {t["text"] for t in lab.json(repo, "sync", "--allow-secret")["texts"]}


def test_a_dry_run_shows_marks_of_a_branch_that_grew(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    lab.git(a, "checkout", "-q", "-b", "topic")
    for n in range(2):
        (a / "t.txt").write_text(f"{n}\n")
        lab.git(a, "add", "-A")
        lab.git(a, "commit", "-q", "-m", f"topic {n}")
        if not n:
            lab.mem(a, "remember", "about the first commit")
    lab.git(a, "push", "-q", "origin", "topic")
    shown, sent = shown_and_sent(lab, a)
    assert shown == sent and len(sent) == 2


def test_a_dry_run_shows_what_stock_git_took_out_and_sync_puts_back(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    lab.mem(a, "remember", "removed by hand")
    lab.git(a, "notes", "--ref=mem/team", "remove", "HEAD")
    shown, sent = shown_and_sent(lab, a)
    assert shown == sent and len(sent) == 1


def test_a_secret_does_not_leave_in_the_history_either(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    lab.git(a, "notes", "--ref=mem/team", "append", "-m", f"the key is {SECRET}", "HEAD")
    lab.git(a, "notes", "--ref=mem/team", "remove", "HEAD")
    lab.mem(a, "remember", "harmless")
    for command in ("sync", "push"):
        done = lab.run(a, sys.executable, "-m", "gitmem", command)
        assert done.returncode == 1 and "looks like it holds a secret" in done.stderr
    assert lab.git(team.hub, "for-each-ref", "refs/notes") == ""
    done = lab.run(a, sys.executable, "-m", "gitmem", "sync", "--dry-run")
    assert done.returncode == 1 and "harmless" in done.stdout, (
        "the texts first, then why they would not go"
    )


def test_a_dry_run_prints_every_field_and_the_branch_that_goes_along(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    lab.git(a, "commit", "-q", "--allow-empty", "-m", "work of today")
    lab.mem(
        a,
        "remember",
        "a text",
        "--tag",
        "database",
        "--path",
        "f0.txt",
        "--phase",
        "two",
        "--source",
        "meeting",
    )
    lab.mem(a, "remember", "another")
    lab.mem(a, "forget", lab.json(a, "list")[0]["id"], "--reason", "it was wrong")
    out = lab.mem(a, "sync", "--dry-run", "--atomic")
    for word in (
        "database",
        "f0.txt",
        "phase: two",
        "source: meeting",
        "author: Ada",
        "reason: it was wrong",
        "branch main: 1 commit",
        "work of today",
    ):
        assert word in out, word


def test_a_dry_run_loses_nothing_that_only_the_tracking_copy_has(team: Team, lab: Lab) -> None:
    a, b = team.clone("a"), team.clone("b")
    lab.mem(a, "init")
    lab.mem(b, "remember", "fetched, never merged")
    lab.mem(b, "sync")
    lab.git(a, "fetch", "-q")
    lab.git(team.hub, "update-ref", "-d", REF)
    before = lab.git(a, "for-each-ref")
    lab.mem(a, "sync", "--dry-run")
    assert lab.git(a, "for-each-ref") == before
    lab.mem(a, "sync")
    assert team.bodies(a) == {"fetched, never merged"}


def test_push_to_a_hub_that_lost_its_notes_gives_them_again(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    lab.mem(a, "remember", "from a")
    lab.mem(a, "sync")
    lab.git(team.hub, "update-ref", "-d", REF)
    assert "1 sent" in lab.mem(a, "push")
    assert "from a" in team.on_hub()


def test_a_refused_secret_does_not_keep_an_arriving_purge_from_being_carried_out(
    team: Team, lab: Lab
) -> None:
    a, b = team.clone("a"), team.clone("b")
    lab.mem(a, "remember", "the secret name is Zanzibarium")
    lab.mem(a, "sync")
    lab.mem(b, "sync")
    lab.mem(a, "purge", lab.json(a, "list")[0]["id"], "--force")
    lab.mem(a, "sync")
    lab.git(b, "notes", "--ref=mem/team", "append", "-m", f"the key is {SECRET}", "HEAD")
    assert lab.run(b, sys.executable, "-m", "gitmem", "sync").returncode == 1
    assert "Zanzibarium" not in lab.git(b, "cat-file", "--batch-all-objects", "--batch")


def test_in_a_fork_whose_branch_follows_upstream_memories_go_where_git_pushes(
    team: Team, lab: Lab
) -> None:
    fork = lab.root / "fork.git"
    lab.git(lab.root, "clone", "-q", "--bare", str(team.hub), str(fork))
    mine = team.clone("mine", url=str(fork))
    lab.git(mine, "remote", "add", "upstream", str(team.hub))
    lab.git(mine, "fetch", "-q", "upstream")
    lab.git(mine, "branch", "-q", "--set-upstream-to=upstream/main")
    lab.git(mine, "config", "remote.pushDefault", "origin")
    lab.mem(mine, "remember", "stays in the fork")
    assert lab.mem(mine, "sync").startswith("origin: ")
    assert team.on_hub() == ""


def test_purged_text_that_stock_git_merged_back_does_not_leave(team: Team, lab: Lab) -> None:
    a, b = team.clone("a"), team.clone("b")
    lab.mem(a, "remember", "the secret name is Zanzibarium")
    lab.mem(a, "sync")
    lab.mem(b, "sync")
    doomed = lab.json(a, "list")[0]["id"]
    lab.mem(a, "purge", doomed, "--force")
    lab.mem(a, "sync")
    lab.git(b, "fetch", "-q", "origin", f"+{REF}:{TRACK}")
    lab.git(b, "notes", "--ref=mem/team", "merge", "-q", "-s", "union", TRACK)
    lab.git(team.hub, "update-ref", "-d", REF)
    lab.mem(b, "push")
    objects = lab.git(team.hub, "rev-list", "--objects", REF)
    assert "Zanzibarium" not in lab.git(
        team.hub,
        "cat-file",
        "--batch",
        stdin="\n".join(row.split(" ")[0] for row in objects.splitlines()),
    )
    assert team.bodies(b) == set()
