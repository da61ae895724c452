"""git's hooks in a temporary repository, with a program of ours that sleeps where the worker would
run.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import sys
from collections.abc import Iterator

from conftest import Lab

EVENTS = ["post-commit", "post-merge", "post-checkout", "post-rewrite"]


def fake_program(lab: Lab, text: str = "exec sleep 300\n") -> str:
    path = lab.root / "fake program"
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)
    return str(path)


def hire(lab: Lab, repo: pathlib.Path, text: str = "exec sleep 300\n", where: str = ".git") -> None:
    """Hooks that are installed start this instead of the worker."""
    script = repo / where / "git-mem-hooks/event.sh"
    script.write_text(
        re.sub(
            r"(?m)^( *python=)'.*'$",
            lambda m: f"{m[1]}'{fake_program(lab, text)}'",
            script.read_text(),
        )
    )


@contextlib.contextmanager
def installation(lab: Lab) -> Iterator[pathlib.Path]:
    """A repository with hooks whose worker sleeps until the test is over, so that what they append
    stays to be looked at.
    """
    repo = lab.repo()
    lab.mem(repo, "remember", "something to begin with")
    lab.mem(repo, "install", "git", "--pre-push")
    hire(lab, repo)
    yield repo
    dismiss(repo)


def number(repo: pathlib.Path, where: str = ".git") -> int:
    """The process that a hook started; waits for the hook to have written it."""
    return int((repo / where / "mem/worker.pid").read_text())


def dismiss(repo: pathlib.Path, where: str = ".git") -> None:
    try:
        os.kill(number(repo, where), 9)
    except (OSError, ValueError):
        pass


def events(repo: pathlib.Path, where: str = ".git") -> list[dict[str, str]]:
    path = repo / where / "mem/spool"
    return (
        [json.loads(line) for line in path.read_text().split("\n") if line] if path.exists() else []
    )


def forget(repo: pathlib.Path, where: str = ".git") -> None:
    (repo / where / "mem/spool").unlink(missing_ok=True)


def head(lab: Lab, repo: pathlib.Path) -> str:
    return lab.git(repo, "rev-parse", "HEAD").strip()


def tree(path: pathlib.Path) -> dict[str, object]:
    """Everything below a directory, by content, mode and link."""
    found: dict[str, object] = {}
    for p in sorted(path.rglob("*")):
        if "objects" not in p.parts and "logs" not in p.parts:
            found[str(p.relative_to(path))] = (
                os.readlink(p)
                if p.is_symlink()
                else (p.stat().st_mode, p.read_bytes() if p.is_file() else b"")
            )
    return found


def hook(
    repo: pathlib.Path, name: str, text: str, directory: str = ".git/hooks", mode: int = 0o755
) -> pathlib.Path:
    path = repo / directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


PYTHON = (
    f"#!{sys.executable}\nimport sys\nprint('theirs', sys.argv[1:],"
    " sys.stdin.read().split())\nsys.exit(4)\n"
)
SHELL = '#!/bin/sh\n# theirs\nread -r line\necho "theirs $0 $* [$line]"\nexit 4\n'


def others(lab: Lab, kind: str) -> pathlib.Path:  # noqa: C901
    """A repository whose hooks are of this kind; each prints `theirs` after a commit, and refuses a
    commit with `bad` in its message.
    """
    repo = lab.repo()
    post, check = "#!/bin/sh\necho theirs\n", '#!/bin/sh\n! grep -q bad "$1"\n'
    if kind == "python":
        hook(repo, "post-commit", f"#!{sys.executable}\nprint('theirs')\n")
        hook(
            repo,
            "commit-msg",
            f"#!{sys.executable}\nimport sys\nsys.exit('bad' in open(sys.argv[1]).read())\n",
        )
    elif kind == "link":
        hook(repo, "post-commit", post, "scripts")
        hook(repo, "commit-msg", check, "scripts")
        for name in ("post-commit", "commit-msg"):
            (repo / ".git/hooks" / name).symlink_to(f"../../scripts/{name}")
    elif kind == "hard link":
        os.link(hook(repo, "post-commit", post, "scripts"), repo / ".git/hooks/post-commit")
        hook(repo, "commit-msg", check)
    elif kind == "one script for all, by its name":
        hook(
            repo,
            "all-hooks",
            '#!/bin/sh\ncase ${0##*/} in post-commit) echo theirs ;; commit-msg) ! grep -q bad "$1"'
            " ;; *) exit 9 ;; esac\n",
        )
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
        hook(
            repo,
            "husky.sh",
            'if [ -z "$husky_skip_init" ]; then\n  export husky_skip_init=1\n  sh -e "$0" "$@"\n '
            " exit $?\nfi\n",
            ".husky/_",
            0o644,
        )
        for name, text in (("post-commit", post), ("commit-msg", check)):
            hook(
                repo,
                name,
                '#!/usr/bin/env sh\n. "$(dirname -- "$0")/_/husky.sh"\n' + text.partition("\n")[2],
                ".husky",
            )
        lab.git(repo, "config", "core.hooksPath", ".husky")
    elif kind == "husky 4":
        hook(
            repo,
            "husky.sh",
            'hookName="$(basename "$0")"\ncase $hookName in post-commit) echo theirs ;; commit-msg)'
            ' ! grep -q bad "$1" ;; *) exit 9 ;; esac\n',
            mode=0o644,
        )
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


KINDS = [
    "python",
    "link",
    "hard link",
    "one script for all, by its name",
    "not executable",
    "linked directory",
    "absolute hooksPath",
    "global hooksPath with ~",
    "tracked hooksPath",
    "husky 9",
    "husky 8",
    "husky 4",
    "pre-commit",
    "lefthook",
]
FORWARDED = {
    "python",
    "link",
    "hard link",
    "one script for all, by its name",
    "not executable",
    "linked directory",
    "absolute hooksPath",
    "global hooksPath with ~",
    "tracked hooksPath",
    "husky 9",
    "husky 8",
}


def husky9(lab: Lab, repo: pathlib.Path, post: str, check: str) -> None:
    """What `husky` 9.1.7 writes when it runs, and the user's own two scripts."""
    (repo / ".husky").mkdir(exist_ok=True)
    (repo / ".husky/post-commit").write_text(post)
    (repo / ".husky/commit-msg").write_text(check)
    hook(repo, ".gitignore", "*", ".husky/_", 0o644)
    hook(
        repo,
        "h",
        '#!/usr/bin/env sh\nn=$(basename "$0")\ns=$(dirname "$(dirname "$0")")/$n\n[ ! -f "$s" ] &&'
        ' exit 0\nsh -e "$s" "$@"\nc=$?\nexit $c\n',
        ".husky/_",
    )
    for name in (
        "pre-commit",
        "pre-merge-commit",
        "prepare-commit-msg",
        "commit-msg",
        "post-commit",
        "applypatch-msg",
        "pre-applypatch",
        "post-applypatch",
        "pre-rebase",
        "post-rewrite",
        "post-checkout",
        "post-merge",
        "pre-push",
        "pre-auto-gc",
    ):
        hook(repo, name, '#!/usr/bin/env sh\n. "$(dirname "$0")/h"', ".husky/_")
    lab.git(repo, "config", "core.hooksPath", ".husky/_")


def pre_commit(
    lab: Lab, repo: pathlib.Path, names: tuple[str, ...] = ("post-commit", "commit-msg")
) -> None:
    """`pre-commit install`, 4.5: a file that is not its own is moved aside and run first."""
    program = lab.root / "pre-commit"
    program.write_text(
        "#!/bin/sh\n# stands for the program: hook type, directory, and the arguments of"
        ' git\ntype=$1 dir=$2; shift 2\nif [ -n "$PRE_COMMIT_RUNNING_LEGACY" ]; then echo "bug:'
        ' migration mode"; exit 3; fi\nif [ -x "$dir/$type.legacy" ]; then'
        ' PRE_COMMIT_RUNNING_LEGACY=1 "$dir/$type.legacy" "$@" || exit; fi\ncase $type in'
        ' post-commit) echo theirs ;; commit-msg) ! grep -q bad "$1" ;; esac\n'
    )
    program.chmod(0o755)
    for name in names:
        path = repo / ".git/hooks" / name
        if path.exists() and "138fd403232d2ddd5efb44317e38bf03" not in path.read_text():
            path.rename(f"{path}.legacy")
        hook(
            repo,
            name,
            f"#!/usr/bin/env bash\n# File generated by pre-commit: https://pre-commit.com\n# ID:"
            f" 138fd403232d2ddd5efb44317e38bf03\n\n"
            f'HERE="$(cd "$(dirname "$0")" && pwd)"\nexec "{program}" {name} "$HERE" "$@"\n',
        )


def lefthook(name: str, text: str) -> str:
    return (
        '#!/bin/sh\n\nif [ "$LEFTHOOK" = "0" ]; then\n  exit 0\nfi\n\ncall_lefthook()\n{\nshift'
        f' 2\n{text.partition(chr(10))[2]}}}\n\ncall_lefthook run "{name}" "$@"\n'
    )


def runs_theirs(lab: Lab, repo: pathlib.Path) -> None:
    good = lab.run(repo, "git", "commit", "-q", "--allow-empty", "-m", "good")
    assert (good.returncode, (good.stdout + good.stderr).strip()) == (0, "theirs")
    assert lab.run(repo, "git", "commit", "-q", "--allow-empty", "-m", "bad").returncode == 1
    amended = lab.run(repo, "git", "commit", "-q", "--amend", "--allow-empty", "-m", "amended")
    assert (amended.returncode, (amended.stdout + amended.stderr).strip()) == (0, "theirs")
