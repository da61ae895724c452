"""git's hooks: they cost nothing that is noticed and never decide anything."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
from conftest import Lab, until
from githook_world import (
    EVENTS,
    dismiss,
    events,
    fake_program,
    forget,
    head,
    hire,
    hook,
    installation,
    number,
    others,
    runs_theirs,
)

from gitmem.hooks import githooks, spool

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture
def installed(lab: Lab) -> Iterator[pathlib.Path]:
    with installation(lab) as repo:
        yield repo


# --- what a hook does -------------------------------------------------------


def test_commit_through_a_pipe_returns_before_the_worker_ends(
    lab: Lab, installed: pathlib.Path
) -> None:
    done = lab.run(installed, "sh", "-c", "git commit -q --allow-empty -m one 3>&1 7>&1 | cat")
    assert done.returncode == 0
    os.kill(number(installed), 0)  # it still runs


def test_a_commit_prints_nothing_of_ours_and_notes_its_id(
    lab: Lab, installed: pathlib.Path
) -> None:
    done = lab.run(installed, "git", "commit", "-q", "--allow-empty", "-m", "one")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert events(installed) == [
        {"event": "post-commit", "head": head(lab, installed), "dir": str(installed / ".git")}
    ]
    assert (installed / ".git/mem/spool").stat().st_mode & 0o777 == 0o600
    assert lab.git(installed, "status", "--porcelain") == ""


def test_hook_in_linked_worktree_spools_to_common_dir(lab: Lab, installed: pathlib.Path) -> None:
    lab.git(installed, "worktree", "add", "-q", "../linked")
    forget(installed)
    linked = lab.root / "linked"
    (linked / "below").mkdir()
    lab.git(linked / "below", "commit", "-q", "--allow-empty", "-m", "one")
    assert events(installed) == [
        {
            "event": "post-commit",
            "head": head(lab, linked),
            "dir": str(installed / ".git/worktrees/linked"),
        }
    ]


def test_hook_in_a_submodule_spools_to_its_own_repository(lab: Lab) -> None:
    inner, outer = lab.repo("inner"), lab.repo("outer")
    lab.git(
        outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub"
    )
    lab.mem(outer / "sub", "remember", "about the inner one")
    lab.mem(outer / "sub", "install", "git")
    hire(lab, outer, where=".git/modules/sub")
    lab.git(outer / "sub", "commit", "-q", "--allow-empty", "-m", "one")
    (event,) = events(outer, ".git/modules/sub")
    dismiss(outer, ".git/modules/sub")
    assert event["head"] == head(lab, outer / "sub") and not (outer / ".git/mem").exists()


def test_merge_checkout_and_rewrite_are_noted(lab: Lab, installed: pathlib.Path) -> None:
    lab.git(installed, "checkout", "-q", "-b", "topic")
    lab.git(installed, "commit", "-q", "--allow-empty", "-m", "one")
    one = head(lab, installed)
    lab.git(installed, "commit", "-q", "--amend", "--allow-empty", "-m", "one, amended")
    two = head(lab, installed)
    lab.git(installed, "checkout", "-q", "main")
    lab.git(installed, "merge", "-q", "--no-ff", "--no-edit", "topic")
    lab.git(installed, "checkout", "-q", "--", "f0.txt")  # a file, not a branch
    assert [e["event"] for e in events(installed)] == [
        "post-checkout",
        "post-commit",
        "post-commit",
        "post-rewrite",
        "post-checkout",
        "post-merge",
    ]
    assert {"event": "post-rewrite", "old": one, "new": two} in events(installed)
    assert events(installed)[-1]["head"] == head(lab, installed)


def test_a_rebase_of_many_commits_starts_one_worker_and_notes_every_pair(
    lab: Lab, installed: pathlib.Path
) -> None:
    started = lab.root / "started"
    dismiss(installed)
    hire(lab, installed, f"echo started >>'{started}'\nexec sleep 300\n")
    lab.git(installed, "checkout", "-q", "-b", "topic")
    for i in range(20):
        lab.git(installed, "commit", "-q", "--allow-empty", "-m", f"commit {i}")
    before = lab.git(installed, "rev-list", "main..topic").split()
    lab.git(
        installed,
        "rebase",
        "-q",
        "--force-rebase",
        "--keep-empty",
        "--committer-date-is-author-date",
        "-x",
        "true",
        "main",
    )
    lab.git(installed, "-c", "user.name=Bob", "rebase", "-q", "--no-ff", "--keep-empty", "main")
    pairs = {e["old"]: e["new"] for e in events(installed) if e["event"] == "post-rewrite"}
    assert len(pairs) >= 20 and set(before) & set(pairs)
    assert started.read_text() == "started\n"


@pytest.mark.parametrize(
    "text",
    [
        "exit 1\n",
        "kill -9 $$\n",
        "echo out; echo err >&2; exec sleep 300\n",
        "exec /nonexistent\n",
        "(",
        "",
    ],
)
def test_a_program_that_fails_hangs_or_talks_never_shows_in_a_commit(
    lab: Lab, installed: pathlib.Path, text: str
) -> None:
    hire(lab, installed, text)
    done = lab.run(installed, "git", "commit", "-q", "--allow-empty", "-m", "one")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "breakage",
    [
        "no script",
        "broken script",
        "empty script",
        "mem is a file",
        "spool is a directory",
        "pid is a directory",
        "mem is read-only",
        "no program",
    ],
)
def test_whatever_is_broken_a_commit_is_as_without_us(
    lab: Lab, installed: pathlib.Path, breakage: str
) -> None:
    mem, script = installed / ".git/mem", installed / ".git/git-mem-hooks/event.sh"
    {
        "no script": script.unlink,
        "broken script": lambda: script.write_text("exit 3; (((\n"),
        "empty script": lambda: script.write_text(""),
        "mem is a file": lambda: (shutil.rmtree(mem), mem.write_text("")),
        "spool is a directory": lambda: (mem / "spool").mkdir(),
        "pid is a directory": lambda: (mem / "worker.pid").mkdir(),
        "mem is read-only": lambda: mem.chmod(0o500),
        "no program": lambda: script.write_text(
            re.sub(r"(?m)^( *package=)'.*'$", r"\1'/nonexistent'", script.read_text())
        ),
    }[breakage]()
    quiet = {"PATH": f"{lab.root / 'bin'}:/usr/bin:/bin"}  # no git-mem there
    for command in (
        ("git", "commit", "-q", "--allow-empty", "-m", "one"),
        ("git", "commit", "-q", "--amend", "--allow-empty", "-m", "two"),
        ("git", "checkout", "-q", "-b", "new"),
    ):
        done = lab.run(installed, *command, env=quiet)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert breakage == "broken script" or done.stderr == ""
    mem.chmod(0o700)


def test_without_its_interpreter_the_program_on_path_is_started(
    lab: Lab, installed: pathlib.Path
) -> None:
    script = installed / ".git/git-mem-hooks/event.sh"
    script.write_text(re.sub(r"(?m)^( *python=)'.*'$", r"\1'/nonexistent'", script.read_text()))
    (lab.root / "bin").mkdir()
    shutil.copy(fake_program(lab, f"echo \"$@\" >'{lab.root}/called'\n"), lab.root / "bin/git-mem")
    done = lab.run(
        installed,
        "git",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "one",
        env={"PATH": f"{lab.root / 'bin'}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0
    until(lambda: (lab.root / "called").exists() and (lab.root / "called").read_text() != "")
    word, path = (lab.root / "called").read_text().split()
    assert word == "worker" and os.path.realpath(path) == str(installed / ".git")


@pytest.mark.parametrize(("value", "count"), [("1", 0), ("true", 0), ("0", 1), ("", 1)])
def test_the_environment_switches_hooks_off(
    lab: Lab, installed: pathlib.Path, value: str, count: int
) -> None:
    lab.run(
        installed,
        "git",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "one",
        env={"GIT_MEM_DISABLE": value},
    )
    assert len(events(installed)) == count


def test_a_deleted_cache_directory_comes_back_only_where_there_are_memories(
    lab: Lab, installed: pathlib.Path
) -> None:
    shutil.rmtree(installed / ".git/mem")
    lab.git(installed, "pack-refs", "--all")
    lab.git(installed, "commit", "-q", "--allow-empty", "-m", "one")
    assert len(events(installed)) == 1 and (installed / ".git/mem").stat().st_mode & 0o777 == 0o700
    dismiss(installed)
    shutil.rmtree(installed / ".git/mem")
    for ref in ("team", "private"):
        lab.git(installed, "update-ref", "-d", f"refs/notes/mem/{ref}")
        lab.git(installed, "update-ref", "-d", f"refs/git-mem/backup/mem/{ref}")
    lab.git(installed, "commit", "-q", "--allow-empty", "-m", "two")
    assert not (installed / ".git/mem").exists()


def test_a_commit_ends_in_a_fresh_cache_and_an_empty_spool(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "something")
    lab.mem(repo, "install", "git")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "one")
    mem = str(repo / ".git/mem")
    until(lambda: spool.asleep(mem) and not spool.waiting(mem))
    assert (repo / ".git/mem/checked").exists() and not (repo / ".git/mem/worker.log").exists()


@pytest.mark.parametrize("name", ["wei rd'; touch x #", 'quo"te\\', "new\nline", "ünï"])
def test_odd_names_of_directories_break_nothing(lab: Lab, name: str) -> None:
    repo = lab.repo(name)
    lab.mem(repo, "remember", "something")
    lab.mem(repo, "install", "git")
    hire(lab, repo)
    done = lab.run(repo, "git", "commit", "-q", "--allow-empty", "-m", "one")
    assert (done.returncode, done.stderr) == (0, "")
    (event,) = events(repo)
    dismiss(repo)
    assert event["head"] == head(lab, repo) and event["dir"] in ("", str(repo / ".git"))


def test_with_reftable_or_a_detached_head_hooks_work(lab: Lab, installed: pathlib.Path) -> None:
    lab.git(installed, "checkout", "-q", "--detach")
    forget(installed)
    lab.git(installed, "commit", "-q", "--allow-empty", "-m", "one")
    assert events(installed)[0]["head"] == head(lab, installed)
    made = lab.run(
        lab.root,
        "git",
        "init",
        "-q",
        "-b",
        "main",
        "--ref-format=reftable",
        str(lab.root / "reftable"),
    )
    if made.returncode:
        pytest.skip("this git knows no reftable")
    repo = lab.root / "reftable"
    lab.mem(repo, "install", "git")
    hire(lab, repo)
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "one")
    assert events(repo)[0]["head"] == ""
    dismiss(repo)


# --- what doctor sees -------------------------------------------------------


def warned(lab: Lab, repo: pathlib.Path) -> list[str]:
    return [
        f["text"]
        for f in lab.json(repo, "doctor", rc=(0, 1))
        if f["level"] == "warn" and ("hook" in f["text"] or "install" in f["text"])
    ]


def test_doctor_names_stale_and_double_installations(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    lab.mem(repo, "install", "git")
    script = repo / ".git/git-mem-hooks/event.sh"
    good = script.read_text()
    assert warned(lab, repo) == []
    cases = {
        "another copy": (
            re.sub(r"(?m)^( *package=)'.*'$", rf"\1'{lab.root}/gitmem'", good),
            "double installation",
        ),
        "gone": (re.sub(r"(?m)^( *package=)'.*'$", r"\1'/nonexistent'", good), "nor on PATH"),
        "older": (good + "# older\n", "another version"),
        "emptied": ("", "script is gone"),
    }
    (lab.root / "gitmem").mkdir()
    (lab.root / "gitmem/__main__.py").write_text("")
    lab.env["PATH"] = "/usr/bin:/bin"
    for name, (text, expected) in cases.items():
        script.write_text(text)
        assert [expected in line for line in warned(lab, repo)] == [True], name
    lab.mem(repo, "install", "git")
    assert script.read_text() == good


def test_a_hook_that_is_there_twice_is_named_and_mended(lab: Lab, installed: pathlib.Path) -> None:
    ours = (installed / ".git/hooks/post-commit").read_text()
    hook(
        installed,
        "post-commit",
        "#!/usr/bin/env bash\n# File generated by pre-commit: https://pre-commit.com\n"
        + ours.partition("\n")[2],
    )
    hook(installed, "post-commit.legacy", ours)
    assert any("installed twice" in line for line in warned(lab, installed))
    lab.mem(installed, "install", "git")
    assert warned(lab, installed) == []
    assert not (installed / ".git/hooks/post-commit.legacy").exists()


def test_an_unknown_target_names_the_known_ones(lab: Lab) -> None:
    repo = lab.repo()
    for command in ("install", "uninstall"):
        done = lab.run(repo, sys.executable, "-m", "gitmem", command, "emacs")
        assert done.returncode == 2 and "'emacs'" in done.stderr and "targets: git" in done.stderr
    assert not (repo / ".git/git-mem-hooks").exists()


def test_init_asks_about_hooks_only_on_a_terminal(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    assert lab.json(repo, "status")["hooks"] == []
    import pty

    for answer, hooks in (("\n", []), ("y\n", EVENTS)):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "gitmem", "init"],
            cwd=repo,
            env=lab.env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        said = b""
        while b"[y/N]" not in said:
            said += os.read(ours, 4096)
        os.write(ours, answer.encode() + b"\n")  # Enter for what else it asks
        try:
            while os.read(ours, 4096):
                pass
        except OSError:
            pass  # the terminal is gone
        assert process.wait() == 0
        os.close(ours)
        assert lab.json(repo, "status")["hooks"] == hooks


# --- the scripts themselves -------------------------------------------------


def sources() -> list[pathlib.Path]:
    return sorted((ROOT / "hooks").glob("*.sh"))


OTHERS = (ROOT / "install.sh", ROOT / "tools" / "action.sh")


def test_the_scripts_pass_shellcheck() -> None:
    checker = shutil.which(
        "shellcheck", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    )
    if not checker:
        pytest.skip("no shellcheck here")
    done = subprocess.run(
        [checker, "-x", "-P", str(ROOT), *map(str, (*OTHERS, *sources()))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.each
@pytest.mark.parametrize("shell", ["dash", "bash --posix", "bash", "busybox sh", "ksh", "mksh"])
@pytest.mark.parametrize("kind", ["lefthook", "tracked hooksPath"])
def test_the_scripts_run_in_every_shell(lab: Lab, shell: str, kind: str) -> None:
    program = shutil.which(shell.split()[0])
    if not program:
        pytest.skip(f"no {shell.split()[0]} here")
    repo = others(lab, kind)
    lab.git(lab.root, "init", "-q", "--bare", "hub.git")
    lab.git(repo, "remote", "add", "origin", str(lab.root / "hub.git"))
    lab.mem(repo, "remember", "a private thought", "--private")
    lab.mem(repo, "install", "git", "--pre-push")
    hire(lab, repo)
    line = f"#!{program}{shell[len(shell.split()[0]) :]}\n"
    for directory in (".git/hooks", ".git/git-mem-hooks"):
        for path in (repo / directory).iterdir():
            text = path.read_text()
            if text.startswith("#!/bin/sh\n"):
                path.write_text(line + text.partition("\n")[2])
    (repo / ".git/git-mem-hooks/former").unlink(missing_ok=True)
    runs_theirs(lab, repo)
    assert "private memories" in lab.run(repo, "git", "push", "-q", "origin", "refs/notes/*").stderr
    dismiss(repo)
    assert [e["event"] for e in events(repo)] == [
        "post-commit",
        "post-commit",
        "post-rewrite",
        "pre-push",
    ]
    assert events(repo)[1]["head"] == head(lab, repo)


def test_the_package_carries_the_scripts_of_the_repository() -> None:
    for path in sources():
        assert githooks._source(path.name) == path.read_text(encoding="utf-8")
