"""git's hooks of others, before us and after us: they run as before and are restored byte for
byte."""

from __future__ import annotations

import os
import pathlib
import shutil

import pytest
from conftest import Lab
from githook_world import (
    EVENTS,
    FORWARDED,
    KINDS,
    SHELL,
    dismiss,
    events,
    forget,
    hire,
    hook,
    husky9,
    lefthook,
    others,
    pre_commit,
    runs_theirs,
    tree,
)


def test_the_lines_in_a_shell_hook_leave_everything_else_to_it(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(lab.root, "init", "-q", "--bare", "hub.git")
    hook(repo, "pre-push", SHELL)
    before = lab.run(repo, "git", "push", "-q", "../hub.git", "main")
    lab.mem(repo, "install", "git", "--pre-push")
    hire(lab, repo)
    after = lab.run(repo, "git", "push", "-q", "../hub.git", "main")
    dismiss(repo)
    assert after.returncode == before.returncode != 0
    assert (
        (after.stdout, after.stderr) == (before.stdout, before.stderr)
        and "theirs .git/hooks/pre-push ../hub.git ../hub.git [refs/heads/main "
        in before.stdout + before.stderr
    )
    assert [e["event"] for e in events(repo)] == ["pre-push"]


def test_a_hook_that_reads_nothing_and_one_that_gets_nothing_run_as_before(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(lab.root, "init", "-q", "--bare", "hub.git")
    hook(repo, "pre-push", '#!/bin/sh\nn=$(wc -c)\necho "bytes: $n" >&2\n')
    hook(repo, "post-rewrite", "#!/bin/sh\necho rewritten >&2\n")
    said = []
    for _ in range(2):
        said.append(
            [
                lab.run(repo, "git", "push", "../hub.git", "main").stderr.count("bytes: 0"),
                lab.run(repo, "git", "commit", "-q", "--amend", "-m", "x").stderr,
            ]
        )
        lab.git(repo, "push", "-q", "--no-verify", "--force", "../hub.git", "main")
        lab.git(repo, "push", "-q", "--no-verify", "../hub.git", "main")
        lab.mem(repo, "install", "git", "--pre-push")
        hire(lab, repo)
    up_to_date = lab.run(repo, "git", "push", "../hub.git", "main").stderr
    dismiss(repo)
    assert said[0][1] == said[1][1] == "rewritten\n"
    assert "bytes: 0" in up_to_date and "bytes: 1" not in up_to_date


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/sh -eu\necho theirs; exit 0\n",
        "#!/usr/bin/env bash\nset -euo pipefail\necho theirs\nexit 0\n",
        "#!/bin/bash\necho theirs",
    ],
)
def test_lines_stand_in_every_kind_of_shell_hook(lab: Lab, text: str) -> None:
    repo = lab.repo()
    hook(repo, "post-commit", text)
    lab.mem(repo, "install", "git")
    hire(lab, repo)
    done = lab.run(repo, "git", "commit", "-q", "--allow-empty", "-m", "one")
    dismiss(repo)
    assert (done.returncode, (done.stdout + done.stderr).strip()) == (0, "theirs")
    assert len(events(repo)) == 1
    lab.mem(repo, "uninstall", "git")
    assert (repo / ".git/hooks/post-commit").read_text() == text


@pytest.mark.parametrize("kind", KINDS)
def test_hooks_of_others_are_kept_run_and_restored_byte_for_byte(lab: Lab, kind: str) -> None:
    repo = others(lab, kind)
    runs_theirs(lab, repo)
    shutil.rmtree(repo / ".git/mem", ignore_errors=True)
    skip = {"COMMIT_EDITMSG", "refs", "index", "HEAD", "ORIG_HEAD"}

    def state() -> dict[str, object]:
        return {
            k: v
            for k, v in {
                **tree(repo / ".git"),
                **{
                    f"top/{k}": v
                    for k, v in tree(lab.root).items()
                    if not k.startswith("repo/.git/")
                },
            }.items()
            if not skip & set(pathlib.Path(k).parts[:2])
        }

    before = state()
    lab.mem(repo, "install", "git")
    assert lab.json(repo, "status")["hooks"] == EVENTS
    assert [
        f["text"] for f in lab.json(repo, "doctor") if "hook" in f["text"] and f["level"] == "warn"
    ] == []
    assert "nothing had to change" in lab.mem(repo, "install", "git")
    hire(lab, repo)
    assert (repo / ".git/git-mem-hooks/former").exists() == (kind in FORWARDED)
    runs_theirs(lab, repo)
    assert [e["event"] for e in events(repo)] == ["post-commit", "post-commit", "post-rewrite"]
    dismiss(repo)
    (lab.root / "fake program").unlink()
    assert lab.git(repo, "status", "--porcelain") == ""
    lab.mem(repo, "uninstall", "git")
    shutil.rmtree(repo / ".git/mem")
    assert state() == before
    runs_theirs(lab, repo)


@pytest.mark.parametrize("kind", KINDS)
def test_uninstall_restores_also_without_its_own_list(lab: Lab, kind: str) -> None:
    repo = others(lab, kind)
    before = tree(repo / ".git/hooks"), (repo / ".git/config").read_bytes()
    lab.mem(repo, "install", "git")
    shutil.rmtree(repo / ".git/mem")  # P1
    lab.mem(repo, "uninstall")
    assert (tree(repo / ".git/hooks"), (repo / ".git/config").read_bytes()) == before
    assert not (repo / ".git/git-mem-hooks").exists()
    runs_theirs(lab, repo)


@pytest.mark.parametrize(
    "kind", ["husky 9", "tracked hooksPath", "python", "global hooksPath with ~"]
)
def test_hooks_of_others_run_when_the_repository_was_moved_or_copied_or_ours_deleted(
    lab: Lab, kind: str
) -> None:
    repo = others(lab, kind)
    lab.mem(repo, "install", "git")
    hire(lab, repo)
    copy = lab.root / "a copy"
    shutil.copytree(repo, copy, symlinks=True)
    (copy / ".git/hooks/pre-commit").write_text("#!/bin/sh\necho of the copy\n")
    (copy / ".git/hooks/pre-commit").chmod(0o755)
    runs_theirs(lab, repo)
    dismiss(repo)
    noted = len(events(repo))
    done = lab.run(copy, "git", "commit", "-q", "--allow-empty", "-m", "good")
    assert "theirs" in done.stdout + done.stderr and (
        "of the copy" in done.stdout + done.stderr
    ) == (kind == "python")
    assert len(events(repo)) == noted  # a commit of the copy is none of the original's
    moved = lab.root / "moved"
    repo.rename(moved)
    runs_theirs(lab, moved)
    assert [
        f["hint"]
        for f in lab.json(moved, "doctor")
        if f["level"] == "warn" and "git does not run our hooks" in f["text"]
    ] == ["run `git mem install git`"]
    lab.mem(moved, "install", "git")
    assert lab.json(moved, "status")["hooks"] == EVENTS
    shutil.rmtree(moved / ".git/git-mem-hooks")
    runs_theirs(lab, moved)


def test_forwarding_follows_the_configuration(lab: Lab) -> None:
    repo = others(lab, "tracked hooksPath")
    lab.mem(repo, "install", "git")
    hire(lab, repo)
    lab.git(repo, "config", "core.hooksPath", "elsewhere")
    hook(repo, "post-commit", "#!/bin/sh\necho from elsewhere\n", "elsewhere")
    os.utime(repo / ".git/git-mem-hooks/former", (1, 1))  # clocks of disks are coarse
    done = lab.run(repo, "git", "commit", "-q", "--allow-empty", "-m", "one")
    assert (done.stdout + done.stderr).strip() == "from elsewhere"
    lab.git(repo, "config", "--unset", "core.hooksPath")
    hook(repo, "post-commit", "#!/bin/sh\necho from the usual place\n")
    os.utime(repo / ".git/git-mem-hooks/former", (1, 1))
    done = lab.run(repo, "git", "commit", "-q", "--allow-empty", "-m", "one")
    assert (done.stdout + done.stderr).strip() == "from the usual place"
    dismiss(repo)


@pytest.mark.parametrize("name", ["pre-commit", "prepare-commit-msg", "commit-msg"])
def test_a_hook_that_is_added_later_is_forwarded_too(lab: Lab, name: str) -> None:
    repo = lab.repo()
    hook(repo, "post-merge", "#!/bin/sh\n", ".githooks")
    lab.git(repo, "config", "core.hooksPath", ".githooks")
    lab.mem(repo, "install", "git")
    hire(lab, repo)
    assert lab.run(repo, "git", "commit", "-q", "--allow-empty", "-m", "one").returncode == 0
    hook(repo, name, "#!/bin/sh\nexit 1\n", ".githooks")
    assert lab.run(repo, "git", "commit", "-q", "--allow-empty", "-m", "two").returncode == 1
    (repo / ".githooks" / name).unlink()
    assert lab.run(repo, "git", "commit", "-q", "--allow-empty", "-m", "three").returncode == 0
    dismiss(repo)
    lab.mem(repo, "uninstall", "git")
    assert not (repo / ".git/git-mem-hooks").exists()


def test_a_hook_that_does_something_by_being_there_is_forwarded_when_we_know_of_it(
    lab: Lab,
) -> None:
    repo = others(lab, "tracked hooksPath")
    lab.mem(repo, "install", "git")
    hook(repo, "reference-transaction", "#!/bin/sh\nexit 0\n", ".githooks")
    assert any("came later" in f["text"] for f in lab.json(repo, "doctor"))
    lab.mem(repo, "install", "git")
    assert (repo / ".git/git-mem-hooks/reference-transaction").exists()
    assert not any("came later" in f["text"] for f in lab.json(repo, "doctor"))


def test_forwarded_hooks_work_in_linked_worktrees(lab: Lab) -> None:
    repo = others(lab, "tracked hooksPath")
    lab.mem(repo, "install", "git")
    hire(lab, repo)
    lab.git(repo, "worktree", "add", "-q", "../linked")
    forget(repo)
    runs_theirs(lab, lab.root / "linked")
    dismiss(repo)
    assert [e["event"] for e in events(repo)] == ["post-commit", "post-commit", "post-rewrite"]
    assert lab.json(lab.root / "linked", "status")["hooks"] == EVENTS


# --- other tools come after us ----------------------------------------------


def test_husky_run_again_keeps_both_and_husky_run_first_after_us_is_named(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "install", "git")
    husky9(lab, repo, "echo theirs\n", '! grep -q bad "$1"\n')
    runs_theirs(lab, repo)
    assert any(
        "git does not run our hooks" in f["text"] and "'.husky/_'" in f["text"]
        for f in lab.json(repo, "doctor")
    )
    lab.mem(repo, "install", "git")
    husky9(lab, repo, "echo theirs\n", '! grep -q bad "$1"\n')  # as `npm install` does every time
    hire(lab, repo)
    runs_theirs(lab, repo)
    dismiss(repo)
    assert len(events(repo)) == 3 and "hooksPath = .husky/_" in (repo / ".git/config").read_text()
    lab.mem(repo, "uninstall")
    assert "git-mem" not in (repo / ".git/config").read_text()
    runs_theirs(lab, repo)


def test_pre_commit_installed_over_us_runs_us_and_survives_our_uninstall(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "install", "git")
    hire(lab, repo)
    pre_commit(lab, repo)
    assert lab.json(repo, "status")["hooks"] == EVENTS  # through post-commit.legacy
    assert "nothing had to change" in lab.mem(repo, "install", "git")
    runs_theirs(lab, repo)
    dismiss(repo)
    assert [e["event"] for e in events(repo)] == ["post-commit", "post-commit", "post-rewrite"]
    lab.mem(repo, "uninstall", "git")
    assert sorted(p.name for p in (repo / ".git/hooks").iterdir() if p.suffix != ".sample") == [
        "commit-msg",
        "post-commit",
    ]
    runs_theirs(lab, repo)


def test_pre_commit_installed_again_over_our_lines_is_named_and_does_not_go_in_circles(
    lab: Lab,
) -> None:
    repo = others(lab, "pre-commit")
    lab.mem(repo, "install", "git")
    pre_commit(lab, repo)
    runs_theirs(lab, repo)
    assert any(
        "git does not run our hooks post-commit" in f["text"] for f in lab.json(repo, "doctor")
    )
    lab.mem(repo, "install", "git")
    assert lab.json(repo, "status")["hooks"] == EVENTS
    runs_theirs(lab, repo)


def test_lefthook_installed_over_us_is_named_and_survives_our_uninstall(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "install", "git")
    (repo / ".git/hooks/post-commit").rename(repo / ".git/hooks/post-commit.old")
    theirs = hook(repo, "post-commit", lefthook("post-commit", "#!/bin/sh\necho theirs\n"))
    before = theirs.read_bytes()
    assert any(
        "git does not run our hooks post-commit" in f["text"] for f in lab.json(repo, "doctor")
    )
    lab.mem(repo, "uninstall", "git")
    assert theirs.read_bytes() == before and not (repo / ".git/hooks/post-commit.old").exists()


def test_what_another_tool_wrote_into_our_directory_is_kept(lab: Lab) -> None:
    repo = others(lab, "tracked hooksPath")
    lab.mem(repo, "install", "git")
    theirs = hook(repo, "pre-commit", "#!/bin/sh\ngit lfs pre-commit\n", ".git/git-mem-hooks")
    said = lab.mem(repo, "uninstall", "git")
    assert (
        theirs.exists()
        and [p.name for p in theirs.parent.iterdir()] == ["pre-commit"]
        and "kept" in said
    )


def test_what_the_user_wrote_beside_our_lines_stays(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "install", "git")
    path = repo / ".git/hooks/post-commit"
    path.write_text(path.read_text() + "echo mine\n")
    lab.mem(repo, "uninstall", "git")
    assert path.read_text().endswith("echo mine\n") and "git-mem-hooks" not in path.read_text()
    done = lab.run(repo, "git", "commit", "-q", "--allow-empty", "-m", "one")
    assert (done.stdout + done.stderr).strip() == "mine"


def test_a_configuration_that_was_changed_since_loses_only_our_entry(lab: Lab) -> None:
    repo = others(lab, "tracked hooksPath")
    lab.mem(repo, "init")
    lab.mem(repo, "install", "git")
    lab.git(repo, "config", "user.nickname", "ada")
    lab.mem(repo, "uninstall", "git")
    text = (repo / ".git/config").read_text()
    assert (
        "include" not in text
        and "nickname" in text
        and "rewriteRef" in text
        and "hooksPath = .githooks" in text
    )
    lab.mem(repo, "uninstall")
    assert "rewriteRef" not in (repo / ".git/config").read_text()


def test_init_and_install_in_any_order_are_undone_whole(lab: Lab) -> None:
    repo = others(lab, "tracked hooksPath")
    before = (repo / ".git/config").read_bytes()
    for steps in (["init", "install"], ["install", "init"]):
        for step in steps:
            lab.mem(repo, step, *(["git"] if step == "install" else []))
        lab.git(repo, "remote", "add", "origin", "x")
        lab.git(repo, "remote", "remove", "origin")
        lab.mem(repo, "uninstall")
        assert (repo / ".git/config").read_bytes() == before
