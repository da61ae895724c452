"""git's hooks: they cost nothing that is noticed, never decide anything, and leave what others put there as it was."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
from conftest import Lab, until

from gitmem.hooks import githooks, spool

ROOT = pathlib.Path(__file__).resolve().parent.parent
EVENTS = ["post-commit", "post-merge", "post-checkout", "post-rewrite"]


def fake_program(lab: Lab, text: str = "exec sleep 300\n") -> str:
    path = lab.root / "fake program"
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)
    return str(path)


def hire(lab: Lab, repo: pathlib.Path, text: str = "exec sleep 300\n", where: str = ".git") -> None:
    """Hooks that are installed start this instead of the worker."""
    script = repo / where / "git-mem-hooks/event.sh"
    script.write_text(re.sub(r"(?m)^( *python=)'.*'$", lambda m: f"{m[1]}'{fake_program(lab, text)}'", script.read_text()))


def number(repo: pathlib.Path, where: str = ".git") -> int:
    """The process that a hook started; waits for the hook to have written it."""
    return int((repo / where / "mem/worker.pid").read_text())


@pytest.fixture
def installed(lab: Lab) -> Iterator[pathlib.Path]:
    """A repository with hooks whose worker sleeps until the test is over, so that what they append stays to be looked at."""
    repo = lab.repo()
    lab.mem(repo, "remember", "something to begin with")
    lab.mem(repo, "install", "git", "--pre-push")
    hire(lab, repo)
    yield repo
    dismiss(repo)


def dismiss(repo: pathlib.Path, where: str = ".git") -> None:
    try:
        os.kill(number(repo, where), 9)
    except (OSError, ValueError):
        pass


def events(repo: pathlib.Path, where: str = ".git") -> list[dict[str, str]]:
    path = repo / where / "mem/spool"
    return [json.loads(line) for line in path.read_text().split("\n") if line] if path.exists() else []


def forget(repo: pathlib.Path, where: str = ".git") -> None:
    (repo / where / "mem/spool").unlink(missing_ok=True)


def head(lab: Lab, repo: pathlib.Path) -> str:
    return lab.git(repo, "rev-parse", "HEAD").strip()


def tree(path: pathlib.Path) -> dict[str, object]:
    """Everything below a directory, by content, mode and link."""
    found: dict[str, object] = {}
    for p in sorted(path.rglob("*")):
        if "objects" not in p.parts and "logs" not in p.parts:
            found[str(p.relative_to(path))] = os.readlink(p) if p.is_symlink() else (p.stat().st_mode, p.read_bytes() if p.is_file() else b"")
    return found


def hook(repo: pathlib.Path, name: str, text: str, directory: str = ".git/hooks", mode: int = 0o755) -> pathlib.Path:
    path = repo / directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


# --- what a hook does -------------------------------------------------------


def test_commit_through_a_pipe_returns_before_the_worker_ends(lab: Lab, installed: pathlib.Path) -> None:
    done = lab.run(installed, "sh", "-c", "git commit -q --allow-empty -m one 3>&1 7>&1 | cat")
    assert done.returncode == 0
    os.kill(number(installed), 0)  # it still runs


def test_a_commit_prints_nothing_of_ours_and_notes_its_id(lab: Lab, installed: pathlib.Path) -> None:
    done = lab.run(installed, "git", "commit", "-q", "--allow-empty", "-m", "one")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert events(installed) == [{"event": "post-commit", "head": head(lab, installed), "dir": str(installed / ".git")}]
    assert (installed / ".git/mem/spool").stat().st_mode & 0o777 == 0o600
    assert lab.git(installed, "status", "--porcelain") == ""


def test_hook_in_linked_worktree_spools_to_common_dir(lab: Lab, installed: pathlib.Path) -> None:
    lab.git(installed, "worktree", "add", "-q", "../linked")
    forget(installed)
    linked = lab.root / "linked"
    (linked / "below").mkdir()
    lab.git(linked / "below", "commit", "-q", "--allow-empty", "-m", "one")
    assert events(installed) == [{"event": "post-commit", "head": head(lab, linked), "dir": str(installed / ".git/worktrees/linked")}]


def test_hook_in_a_submodule_spools_to_its_own_repository(lab: Lab) -> None:
    inner, outer = lab.repo("inner"), lab.repo("outer")
    lab.git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
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
    assert [e["event"] for e in events(installed)] == ["post-checkout", "post-commit", "post-commit", "post-rewrite", "post-checkout", "post-merge"]
    assert {"event": "post-rewrite", "old": one, "new": two} in events(installed)
    assert events(installed)[-1]["head"] == head(lab, installed)


def test_a_rebase_of_many_commits_starts_one_worker_and_notes_every_pair(lab: Lab, installed: pathlib.Path) -> None:
    started = lab.root / "started"
    dismiss(installed)
    hire(lab, installed, f"echo started >>'{started}'\nexec sleep 300\n")
    lab.git(installed, "checkout", "-q", "-b", "topic")
    for i in range(20):
        lab.git(installed, "commit", "-q", "--allow-empty", "-m", f"commit {i}")
    before = lab.git(installed, "rev-list", "main..topic").split()
    lab.git(installed, "rebase", "-q", "--force-rebase", "--keep-empty", "--committer-date-is-author-date", "-x", "true", "main")
    lab.git(installed, "-c", "user.name=Bob", "rebase", "-q", "--no-ff", "--keep-empty", "main")
    pairs = {e["old"]: e["new"] for e in events(installed) if e["event"] == "post-rewrite"}
    assert len(pairs) >= 20 and set(before) & set(pairs)
    assert started.read_text() == "started\n"


@pytest.mark.parametrize("text", ["exit 1\n", "kill -9 $$\n", "echo out; echo err >&2; exec sleep 300\n", "exec /nonexistent\n", "(", ""])
def test_a_program_that_fails_hangs_or_talks_never_shows_in_a_commit(lab: Lab, installed: pathlib.Path, text: str) -> None:
    hire(lab, installed, text)
    done = lab.run(installed, "git", "commit", "-q", "--allow-empty", "-m", "one")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("breakage", ["no script", "broken script", "empty script", "mem is a file", "spool is a directory", "pid is a directory", "mem is read-only", "no program"])
def test_whatever_is_broken_a_commit_is_as_without_us(lab: Lab, installed: pathlib.Path, breakage: str) -> None:
    mem, script = installed / ".git/mem", installed / ".git/git-mem-hooks/event.sh"
    {"no script": script.unlink,
     "broken script": lambda: script.write_text("exit 3; (((\n"),
     "empty script": lambda: script.write_text(""),
     "mem is a file": lambda: (shutil.rmtree(mem), mem.write_text("")),
     "spool is a directory": lambda: (mem / "spool").mkdir(),
     "pid is a directory": lambda: (mem / "worker.pid").mkdir(),
     "mem is read-only": lambda: mem.chmod(0o500),
     "no program": lambda: script.write_text(re.sub(r"(?m)^( *package=)'.*'$", r"\1'/nonexistent'", script.read_text()))}[breakage]()
    quiet = {"PATH": f"{lab.root / 'bin'}:/usr/bin:/bin"}  # no git-mem there
    for command in (("git", "commit", "-q", "--allow-empty", "-m", "one"), ("git", "commit", "-q", "--amend", "--allow-empty", "-m", "two"), ("git", "checkout", "-q", "-b", "new")):
        done = lab.run(installed, *command, env=quiet)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert breakage == "broken script" or done.stderr == ""
    mem.chmod(0o700)


def test_without_its_interpreter_the_program_on_path_is_started(lab: Lab, installed: pathlib.Path) -> None:
    script = installed / ".git/git-mem-hooks/event.sh"
    script.write_text(re.sub(r"(?m)^( *python=)'.*'$", r"\1'/nonexistent'", script.read_text()))
    (lab.root / "bin").mkdir()
    shutil.copy(fake_program(lab, f"echo \"$@\" >'{lab.root}/called'\n"), lab.root / "bin/git-mem")
    done = lab.run(installed, "git", "commit", "-q", "--allow-empty", "-m", "one", env={"PATH": f"{lab.root / 'bin'}:{os.environ['PATH']}"})
    assert done.returncode == 0
    until(lambda: (lab.root / "called").exists() and (lab.root / "called").read_text() != "")
    word, path = (lab.root / "called").read_text().split()
    assert word == "worker" and os.path.realpath(path) == str(installed / ".git")


@pytest.mark.parametrize(("value", "count"), [("1", 0), ("true", 0), ("0", 1), ("", 1)])
def test_the_environment_switches_hooks_off(lab: Lab, installed: pathlib.Path, value: str, count: int) -> None:
    lab.run(installed, "git", "commit", "-q", "--allow-empty", "-m", "one", env={"GIT_MEM_DISABLE": value})
    assert len(events(installed)) == count


def test_a_deleted_cache_directory_comes_back_only_where_there_are_memories(lab: Lab, installed: pathlib.Path) -> None:
    shutil.rmtree(installed / ".git/mem")
    lab.git(installed, "pack-refs", "--all")
    lab.git(installed, "commit", "-q", "--allow-empty", "-m", "one")
    assert len(events(installed)) == 1 and (installed / ".git/mem").stat().st_mode & 0o777 == 0o700
    dismiss(installed)
    shutil.rmtree(installed / ".git/mem")
    for ref in ("team", "private"):
        lab.git(installed, "update-ref", "-d", f"refs/notes/mem/{ref}")
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
    made = lab.run(lab.root, "git", "init", "-q", "-b", "main", "--ref-format=reftable", str(lab.root / "reftable"))
    if made.returncode:
        pytest.skip("this git knows no reftable")
    repo = lab.root / "reftable"
    lab.mem(repo, "install", "git")
    hire(lab, repo)
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "one")
    assert events(repo)[0]["head"] == ""
    dismiss(repo)


# --- before a push ----------------------------------------------------------


@pytest.fixture
def hub(lab: Lab, installed: pathlib.Path) -> pathlib.Path:
    lab.git(lab.root, "init", "-q", "--bare", "hub.git")
    lab.git(installed, "remote", "add", "origin", str(lab.root / "hub.git"))
    lab.mem(installed, "remember", "a private thought", "--private")
    return lab.root / "hub.git"


@pytest.mark.parametrize("what", [["refs/notes/*"], ["--mirror"], ["refs/notes/mem/private"], ["refs/notes/mem/private:refs/heads/x"]])
def test_a_push_of_private_memories_is_warned_about_and_not_stopped(lab: Lab, installed: pathlib.Path, hub: pathlib.Path, what: list[str]) -> None:
    done = lab.run(installed, "git", "push", "-q", "--mirror", "origin") if what == ["--mirror"] else lab.run(installed, "git", "push", "-q", "origin", *what)
    assert done.returncode == 0
    assert done.stderr.count("warning: this push publishes private memories") == 1
    assert lab.git(hub, "for-each-ref") != ""


@pytest.mark.parametrize("what", [["main"], ["refs/notes/mem/team"], ["--all"]])
def test_a_push_of_anything_else_says_nothing_and_wakes_the_worker(lab: Lab, installed: pathlib.Path, hub: pathlib.Path, what: list[str]) -> None:
    done = lab.run(installed, "git", "push", "-q", "origin", *what)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {"event": "pre-push", "remote": "origin"} in events(installed)


def test_taking_private_memories_off_a_remote_is_no_publication(lab: Lab, installed: pathlib.Path, hub: pathlib.Path) -> None:
    lab.git(installed, "push", "-q", "--no-verify", "origin", "refs/notes/mem/private")
    assert lab.run(installed, "git", "push", "-q", "origin", ":refs/notes/mem/private").stderr == ""


def test_a_url_with_a_password_does_not_go_into_the_spool(lab: Lab, installed: pathlib.Path, hub: pathlib.Path) -> None:
    lab.run(installed, "git", "push", "-q", f"file://user:hunter2@{hub}", "main")
    lab.git(installed, "push", "-q", str(hub), "main")
    assert "hunter2" not in (installed / ".git/mem/spool").read_text()
    assert events(installed)[-1] == {"event": "pre-push", "remote": ""}


def test_our_own_pushes_are_no_event(lab: Lab, installed: pathlib.Path, hub: pathlib.Path) -> None:
    forget(installed)
    lab.mem(installed, "sync", "--atomic")
    assert events(installed) == []


# --- hooks of others --------------------------------------------------------

PYTHON = f"#!{sys.executable}\nimport sys\nprint('theirs', sys.argv[1:], sys.stdin.read().split())\nsys.exit(4)\n"
SHELL = '#!/bin/sh\n# theirs\nread -r line\necho "theirs $0 $* [$line]"\nexit 4\n'


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
    assert (after.stdout, after.stderr) == (before.stdout, before.stderr) and "theirs .git/hooks/pre-push ../hub.git ../hub.git [refs/heads/main " in before.stdout + before.stderr
    assert [e["event"] for e in events(repo)] == ["pre-push"]


def test_a_hook_that_reads_nothing_and_one_that_gets_nothing_run_as_before(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(lab.root, "init", "-q", "--bare", "hub.git")
    hook(repo, "pre-push", '#!/bin/sh\nn=$(wc -c)\necho "bytes: $n" >&2\n')
    hook(repo, "post-rewrite", "#!/bin/sh\necho rewritten >&2\n")
    said = []
    for _ in range(2):
        said.append([lab.run(repo, "git", "push", "../hub.git", "main").stderr.count("bytes: 0"), lab.run(repo, "git", "commit", "-q", "--amend", "-m", "x").stderr])
        lab.git(repo, "push", "-q", "--no-verify", "--force", "../hub.git", "main")
        lab.git(repo, "push", "-q", "--no-verify", "../hub.git", "main")
        lab.mem(repo, "install", "git", "--pre-push")
        hire(lab, repo)
    up_to_date = lab.run(repo, "git", "push", "../hub.git", "main").stderr
    dismiss(repo)
    assert said[0][1] == said[1][1] == "rewritten\n"
    assert "bytes: 0" in up_to_date and "bytes: 1" not in up_to_date


@pytest.mark.parametrize("text", ["#!/bin/sh -eu\necho theirs; exit 0\n", "#!/usr/bin/env bash\nset -euo pipefail\necho theirs\nexit 0\n", "#!/bin/bash\necho theirs"])
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


def others(lab: Lab, kind: str) -> pathlib.Path:
    """A repository whose hooks are of this kind; each prints `theirs` after a commit, and refuses a commit with `bad` in its message."""
    repo = lab.repo()
    post, check = "#!/bin/sh\necho theirs\n", '#!/bin/sh\n! grep -q bad "$1"\n'
    if kind == "python":
        hook(repo, "post-commit", f"#!{sys.executable}\nprint('theirs')\n")
        hook(repo, "commit-msg", f"#!{sys.executable}\nimport sys\nsys.exit('bad' in open(sys.argv[1]).read())\n")
    elif kind == "link":
        hook(repo, "post-commit", post, "scripts")
        hook(repo, "commit-msg", check, "scripts")
        for name in ("post-commit", "commit-msg"):
            (repo / ".git/hooks" / name).symlink_to(f"../../scripts/{name}")
    elif kind == "hard link":
        os.link(hook(repo, "post-commit", post, "scripts"), repo / ".git/hooks/post-commit")
        hook(repo, "commit-msg", check)
    elif kind == "one script for all, by its name":
        hook(repo, "all-hooks", '#!/bin/sh\ncase ${0##*/} in post-commit) echo theirs ;; commit-msg) ! grep -q bad "$1" ;; *) exit 9 ;; esac\n')
        for name in ("post-commit", "commit-msg"):
            (repo / ".git/hooks" / name).symlink_to("all-hooks")
    elif kind == "not executable":
        hook(repo, "post-rewrite", "#!/bin/sh\necho must not run\n", mode=0o644)
        lab.git(repo, "config", "advice.ignoredHook", "false")
        hook(repo, "post-commit", post)
        hook(repo, "commit-msg", check)
    elif kind == "linked directory":
        shutil.rmtree(repo / ".git/hooks")
        hook(repo, "post-commit", post, "tracked")
        hook(repo, "commit-msg", check, "tracked")
        (repo / ".git/hooks").symlink_to("../tracked")
    elif kind == "absolute hooksPath":
        hook(repo, "post-commit", post, "../for all")
        hook(repo, "commit-msg", check, "../for all")
        lab.git(repo, "config", "core.hooksPath", str(lab.root / "for all"))
    elif kind == "global hooksPath with ~":
        hook(repo, "post-commit", post, "../.githooks")
        hook(repo, "commit-msg", check, "../.githooks")
        lab.git(repo, "config", "--global", "core.hooksPath", "~/.githooks")
    elif kind == "tracked hooksPath":
        hook(repo, "post-commit", post, ".githooks")
        hook(repo, "commit-msg", check, ".githooks")
        lab.git(repo, "config", "core.hooksPath", ".githooks")
    elif kind == "husky 9":
        husky9(lab, repo, post.partition("\n")[2], check.partition("\n")[2])
    elif kind == "husky 8":
        hook(repo, "husky.sh", 'if [ -z "$husky_skip_init" ]; then\n  export husky_skip_init=1\n  sh -e "$0" "$@"\n  exit $?\nfi\n', ".husky/_", 0o644)
        for name, text in (("post-commit", post), ("commit-msg", check)):
            hook(repo, name, '#!/usr/bin/env sh\n. "$(dirname -- "$0")/_/husky.sh"\n' + text.partition("\n")[2], ".husky")
        lab.git(repo, "config", "core.hooksPath", ".husky")
    elif kind == "husky 4":
        hook(repo, "husky.sh", 'hookName="$(basename "$0")"\ncase $hookName in post-commit) echo theirs ;; commit-msg) ! grep -q bad "$1" ;; *) exit 9 ;; esac\n', mode=0o644)
        for name in ("post-commit", "commit-msg"):
            hook(repo, name, '#!/bin/sh\n# husky\n\n. "$(dirname "$0")/husky.sh"\n')
    elif kind == "pre-commit":
        pre_commit(lab, repo)
    elif kind == "lefthook":
        for name, text in (("post-commit", post), ("commit-msg", check)):
            hook(repo, name, lefthook(name, text))
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "--allow-empty", "--no-verify", "-m", "with hooks")
    return repo


KINDS = ["python", "link", "hard link", "one script for all, by its name", "not executable", "linked directory", "absolute hooksPath", "global hooksPath with ~",
         "tracked hooksPath", "husky 9", "husky 8", "husky 4", "pre-commit", "lefthook"]
FORWARDED = {"python", "link", "hard link", "one script for all, by its name", "not executable", "linked directory", "absolute hooksPath", "global hooksPath with ~",
             "tracked hooksPath", "husky 9", "husky 8"}


def husky9(lab: Lab, repo: pathlib.Path, post: str, check: str) -> None:
    """What `husky` 9.1.7 writes when it runs, and the user's own two scripts."""
    (repo / ".husky").mkdir(exist_ok=True)
    (repo / ".husky/post-commit").write_text(post)
    (repo / ".husky/commit-msg").write_text(check)
    hook(repo, ".gitignore", "*", ".husky/_", 0o644)
    hook(repo, "h", '#!/usr/bin/env sh\nn=$(basename "$0")\ns=$(dirname "$(dirname "$0")")/$n\n[ ! -f "$s" ] && exit 0\nsh -e "$s" "$@"\nc=$?\nexit $c\n', ".husky/_")
    for name in ("pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit", "applypatch-msg", "pre-applypatch", "post-applypatch", "pre-rebase",
                 "post-rewrite", "post-checkout", "post-merge", "pre-push", "pre-auto-gc"):
        hook(repo, name, '#!/usr/bin/env sh\n. "$(dirname "$0")/h"', ".husky/_")
    lab.git(repo, "config", "core.hooksPath", ".husky/_")


def pre_commit(lab: Lab, repo: pathlib.Path, names: tuple[str, ...] = ("post-commit", "commit-msg")) -> None:
    """`pre-commit install`, 4.5: a file that is not its own is moved aside and run first."""
    program = lab.root / "pre-commit"
    program.write_text('#!/bin/sh\n# stands for the program: hook type, directory, and the arguments of git\ntype=$1 dir=$2; shift 2\n'
                       'if [ -n "$PRE_COMMIT_RUNNING_LEGACY" ]; then echo "bug: migration mode"; exit 3; fi\n'
                       'if [ -x "$dir/$type.legacy" ]; then PRE_COMMIT_RUNNING_LEGACY=1 "$dir/$type.legacy" "$@" || exit; fi\n'
                       'case $type in post-commit) echo theirs ;; commit-msg) ! grep -q bad "$1" ;; esac\n')
    program.chmod(0o755)
    for name in names:
        path = repo / ".git/hooks" / name
        if path.exists() and "138fd403232d2ddd5efb44317e38bf03" not in path.read_text():
            path.rename(f"{path}.legacy")
        hook(repo, name, f'#!/usr/bin/env bash\n# File generated by pre-commit: https://pre-commit.com\n# ID: 138fd403232d2ddd5efb44317e38bf03\n\n'
                         f'HERE="$(cd "$(dirname "$0")" && pwd)"\nexec "{program}" {name} "$HERE" "$@"\n')


def lefthook(name: str, text: str) -> str:
    return f'#!/bin/sh\n\nif [ "$LEFTHOOK" = "0" ]; then\n  exit 0\nfi\n\ncall_lefthook()\n{{\nshift 2\n{text.partition(chr(10))[2]}}}\n\ncall_lefthook run "{name}" "$@"\n'


def runs_theirs(lab: Lab, repo: pathlib.Path) -> None:
    good = lab.run(repo, "git", "commit", "-q", "--allow-empty", "-m", "good")
    assert (good.returncode, (good.stdout + good.stderr).strip()) == (0, "theirs")
    assert lab.run(repo, "git", "commit", "-q", "--allow-empty", "-m", "bad").returncode == 1
    amended = lab.run(repo, "git", "commit", "-q", "--amend", "--allow-empty", "-m", "amended")
    assert (amended.returncode, (amended.stdout + amended.stderr).strip()) == (0, "theirs")


@pytest.mark.parametrize("kind", KINDS)
def test_hooks_of_others_are_kept_run_and_restored_byte_for_byte(lab: Lab, kind: str) -> None:
    repo = others(lab, kind)
    runs_theirs(lab, repo)
    shutil.rmtree(repo / ".git/mem", ignore_errors=True)
    skip = {"COMMIT_EDITMSG", "refs", "index", "HEAD", "ORIG_HEAD"}

    def state() -> dict[str, object]:
        return {k: v for k, v in {**tree(repo / ".git"), **{f"top/{k}": v for k, v in tree(lab.root).items() if not k.startswith("repo/.git/")}}.items()
                if not skip & set(pathlib.Path(k).parts[:2])}

    before = state()
    lab.mem(repo, "install", "git")
    assert lab.json(repo, "status")["hooks"] == EVENTS
    assert [f["text"] for f in lab.json(repo, "doctor") if "hook" in f["text"] and f["level"] == "warn"] == []
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


@pytest.mark.parametrize("kind", ["husky 9", "tracked hooksPath", "python", "global hooksPath with ~"])
def test_hooks_of_others_run_when_the_repository_was_moved_or_copied_or_ours_deleted(lab: Lab, kind: str) -> None:
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
    assert "theirs" in done.stdout + done.stderr and ("of the copy" in done.stdout + done.stderr) == (kind == "python")
    assert len(events(repo)) == noted  # a commit of the copy is none of the original's
    moved = lab.root / "moved"
    repo.rename(moved)
    runs_theirs(lab, moved)
    assert [f["hint"] for f in lab.json(moved, "doctor") if f["level"] == "warn" and "git does not run our hooks" in f["text"]] == ["run `git mem install git`"]
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


def test_a_hook_that_does_something_by_being_there_is_forwarded_when_we_know_of_it(lab: Lab) -> None:
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
    assert any("git does not run our hooks" in f["text"] and "'.husky/_'" in f["text"] for f in lab.json(repo, "doctor"))
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
    assert sorted(p.name for p in (repo / ".git/hooks").iterdir() if p.suffix != ".sample") == ["commit-msg", "post-commit"]
    runs_theirs(lab, repo)


def test_pre_commit_installed_again_over_our_lines_is_named_and_does_not_go_in_circles(lab: Lab) -> None:
    repo = others(lab, "pre-commit")
    lab.mem(repo, "install", "git")
    pre_commit(lab, repo)
    runs_theirs(lab, repo)
    assert any("git does not run our hooks post-commit" in f["text"] for f in lab.json(repo, "doctor"))
    lab.mem(repo, "install", "git")
    assert lab.json(repo, "status")["hooks"] == EVENTS
    runs_theirs(lab, repo)


def test_lefthook_installed_over_us_is_named_and_survives_our_uninstall(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "install", "git")
    (repo / ".git/hooks/post-commit").rename(repo / ".git/hooks/post-commit.old")
    theirs = hook(repo, "post-commit", lefthook("post-commit", "#!/bin/sh\necho theirs\n"))
    before = theirs.read_bytes()
    assert any("git does not run our hooks post-commit" in f["text"] for f in lab.json(repo, "doctor"))
    lab.mem(repo, "uninstall", "git")
    assert theirs.read_bytes() == before and not (repo / ".git/hooks/post-commit.old").exists()


def test_what_another_tool_wrote_into_our_directory_is_kept(lab: Lab) -> None:
    repo = others(lab, "tracked hooksPath")
    lab.mem(repo, "install", "git")
    theirs = hook(repo, "pre-commit", "#!/bin/sh\ngit lfs pre-commit\n", ".git/git-mem-hooks")
    said = lab.mem(repo, "uninstall", "git")
    assert theirs.exists() and [p.name for p in theirs.parent.iterdir()] == ["pre-commit"] and "kept" in said


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
    assert "include" not in text and "nickname" in text and "rewriteRef" in text and "hooksPath = .githooks" in text
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


# --- what doctor sees -------------------------------------------------------


def warned(lab: Lab, repo: pathlib.Path) -> list[str]:
    return [f["text"] for f in lab.json(repo, "doctor", rc=(0, 1)) if f["level"] == "warn" and ("hook" in f["text"] or "install" in f["text"])]


def test_doctor_names_stale_and_double_installations(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    lab.mem(repo, "install", "git")
    script = repo / ".git/git-mem-hooks/event.sh"
    good = script.read_text()
    assert warned(lab, repo) == []
    cases = {
        "another copy": (re.sub(r"(?m)^( *package=)'.*'$", rf"\1'{lab.root}/gitmem'", good), "double installation"),
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
    hook(installed, "post-commit", "#!/usr/bin/env bash\n# File generated by pre-commit: https://pre-commit.com\n" + ours.partition("\n")[2])
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
        process = subprocess.Popen([sys.executable, "-m", "gitmem", "init"], cwd=repo, env=lab.env, stdin=theirs, stdout=theirs, stderr=theirs)
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


def test_the_scripts_pass_shellcheck() -> None:
    checker = shutil.which("shellcheck", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    if not checker:
        pytest.skip("no shellcheck here")
    done = subprocess.run([checker, "-x", "-P", str(ROOT), *map(str, sources())], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


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
    line = f"#!{program}{shell[len(shell.split()[0]):]}\n"
    for directory in (".git/hooks", ".git/git-mem-hooks"):
        for path in (repo / directory).iterdir():
            text = path.read_text()
            if text.startswith("#!/bin/sh\n"):
                path.write_text(line + text.partition("\n")[2])
    (repo / ".git/git-mem-hooks/former").unlink(missing_ok=True)
    runs_theirs(lab, repo)
    assert "private memories" in lab.run(repo, "git", "push", "-q", "origin", "refs/notes/*").stderr
    dismiss(repo)
    assert [e["event"] for e in events(repo)] == ["post-commit", "post-commit", "post-rewrite", "pre-push"]
    assert events(repo)[1]["head"] == head(lab, repo)


def test_the_package_carries_the_scripts_of_the_repository() -> None:
    for path in sources():
        assert githooks._source(path.name) == path.read_text(encoding="utf-8")
