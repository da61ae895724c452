"""The GitHub Action and the hook of pre-commit: their own commands, run as a runner runs them."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from conftest import Lab
from places import commit

ROOT = pathlib.Path(__file__).resolve().parent.parent


def field(name: str, file: str) -> str:
    """The value of the one field of this name in a YAML file of ours."""
    (value,) = re.findall(rf"(?m)^[ -]*{name}: (.+)$", (ROOT / file).read_text())
    return str(value)


@pytest.fixture
def clone(lab: Lab) -> pathlib.Path:
    """A runner's checkout, without notes, of a branch that made a memory stale and taught one."""
    repo = lab.repo()
    commit(lab, repo, "a.py", "one")
    lab.mem(repo, "remember", "The parser must not recurse", "--path", "a.py")
    lab.git(repo, "checkout", "-q", "-b", "topic")
    commit(lab, repo, "a.py", "two")
    lab.mem(repo, "remember", "The lexer is a table")
    lab.git(lab.root, "clone", "-q", f"file://{repo}", "work")
    return lab.root / "work"


def action(lab: Lab, clone: pathlib.Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    for name in ("output", "summary"):
        (lab.root / name).write_text("")
    files = {"GITHUB_OUTPUT": lab.root / "output", "GITHUB_STEP_SUMMARY": lab.root / "summary"}
    given = {**{k: str(v) for k, v in files.items()}, "GITHUB_ACTION_PATH": str(ROOT), **inputs}
    return lab.run(clone, "sh", "-e", "-c", field("run", "action.yml"), env=given)


def test_the_action_annotates_writes_sarif_and_sums_up_what_the_branch_teaches(
    lab: Lab, clone: pathlib.Path
) -> None:
    base = lab.git(clone, "rev-parse", "origin/main").strip()
    done = action(lab, clone, SINCE=base, SARIF="out.sarif")
    assert done.returncode == 1 and done.stdout.count("\n") == 1, done.stderr
    assert done.stdout.startswith("::warning file=a.py,title=git mem%3A stale::memory ")
    assert (lab.root / "output").read_text() == "sarif=out.sarif\n"
    log = json.loads((clone / "out.sarif").read_text())
    assert [r["ruleId"] for r in log["runs"][0]["results"]] == ["stale"]
    summary = (lab.root / "summary").read_text()
    assert "1 taught, 1 made stale" in summary and "`The lexer is a table`" in summary
    again = action(lab, clone, SINCE=base, ONLY="broken secret")
    assert (again.returncode, again.stdout) == (0, "")
    assert json.loads((clone / "git-mem.sarif").read_text())["runs"][0]["results"] == []


# `gh api` as the script calls it, with the comments of one pull request in a file.
GH = """#!{python}
import json, pathlib, sys
comments = pathlib.Path("{root}/comments.json")
known = json.loads(comments.read_text())
argv = sys.argv[1:]
assert argv.pop(0) == "api"
if "{refused}":
    sys.exit("gh: Resource not accessible by integration (HTTP 403)")
if argv[:2] == ["--paginate", "repos/o/r/issues/7/comments"]:
    assert argv[2] == "--jq" and 'startswith("{mark}")' in argv[3]
    for id, (kind, body) in known.items():
        if kind == "Bot" and body.startswith("{mark}"):
            print(id)
    sys.exit()
assert argv.pop(0) == "--silent" and argv[-2] == "-F" and argv[-1].startswith("body=@")
body = pathlib.Path(argv[-1].removeprefix("body=@")).read_text()
if argv[:2] == ["--method", "PATCH"]:
    known[argv[2].removeprefix("repos/o/r/issues/comments/")][1] = body
else:
    assert argv[0] == "repos/o/r/issues/7/comments", argv
    known[str(len(known) + 1)] = ["Bot", body]
comments.write_text(json.dumps(known))
"""
MARK = "<!-- git mem -->"


def test_the_action_keeps_one_comment_under_the_pull_request_up_to_date(
    lab: Lab, clone: pathlib.Path
) -> None:
    file, gh = lab.root / "comments.json", lab.root / "bin" / "gh"
    others = {"1": ["User", f"{MARK} a reader's"], "2": ["Bot", "another action's"]}
    file.write_text(json.dumps(others))
    gh.parent.mkdir(exist_ok=True)

    def run(since: str, refused: str = "") -> subprocess.CompletedProcess[str]:
        gh.write_text(GH.format(python=sys.executable, root=lab.root, mark=MARK, refused=refused))
        gh.chmod(0o755)
        path = f"{gh.parent}{os.pathsep}{lab.env['PATH']}"
        return action(lab, clone, PATH=path, PULL="7", GITHUB_REPOSITORY="o/r", SINCE=since)

    assert run("HEAD").returncode == 0 and json.loads(file.read_text()) == others  # nothing taught
    base = lab.git(clone, "rev-parse", "origin/main").strip()
    assert run(base).returncode == 1
    known = json.loads(file.read_text())
    assert known.pop("3")[1] == (lab.root / "summary").read_text() and known == others
    assert "1 taught" in (lab.root / "summary").read_text()
    assert run("HEAD").returncode == 0  # what it had taught is gone
    known = json.loads(file.read_text())
    assert "nothing new" in known.pop("3")[1] and known == others
    refused = run("HEAD", "yes")
    assert refused.returncode == 0 and "::warning title=git mem::" in refused.stdout
    assert "HTTP 403" in refused.stderr


def test_without_git_mem_the_action_installs_the_one_beside_it(
    lab: Lab, clone: pathlib.Path
) -> None:
    place = lab.root / "action"
    (place / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "action.sh", place / "tools")
    git_mem = shutil.which("git-mem", path=lab.env["PATH"])
    stub = f'mkdir -p "$PREFIX/bin"\nln -s {git_mem} "$PREFIX/bin/git-mem"\n'
    (place / "install.sh").write_text(stub)
    bare = lab.root / "bare"
    bare.mkdir()
    for name in "git sh dirname mktemp rm cat mkdir ln".split():
        (bare / name).symlink_to(shutil.which(name) or name)
    inputs = {"GITHUB_ACTION_PATH": str(place), "RUNNER_TEMP": str(lab.root / "temp")}
    done = action(lab, clone, PATH=str(bare), SINCE="origin/main", **inputs)
    assert done.returncode == 1 and "::group::installing git mem" in done.stdout, done.stderr
    assert (lab.root / "temp" / "git-mem" / "bin" / "git-mem").exists()
    assert "1 taught" in (lab.root / "summary").read_text()


def test_the_action_passes_where_the_remote_has_no_memories(lab: Lab) -> None:
    lab.repo()
    lab.git(lab.root, "clone", "-q", "repo", "work")
    done = action(lab, lab.root / "work")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert (lab.root / "summary").read_text() == ""


def test_the_action_runs_no_input_as_code_and_says_what_is_wrong(
    lab: Lab, clone: pathlib.Path
) -> None:
    hostile = "$(touch pwned); touch pwned"
    done = action(lab, clone, SINCE=hostile)
    assert done.returncode == 1 and "no commit" in done.stderr
    assert action(lab, clone, ONLY=hostile).returncode == 2
    assert not (clone / "pwned").exists() and not (clone / "git-mem.sarif").exists()


def test_the_hook_of_pre_commit_runs_check_without_file_names(
    lab: Lab, clone: pathlib.Path
) -> None:
    name = ".pre-commit-hooks.yaml"
    assert field("id", name) == "git-mem-check" and field("pass_filenames", name) == "false"
    argv = field("entry", name).split()
    assert argv == ["git-mem", "check"] and lab.run(clone, *argv).returncode == 0
    lab.git(clone, "fetch", "-q", "origin", "refs/notes/*:refs/notes/*")
    assert lab.run(clone, *argv).returncode == 1
    assert lab.run(clone, *argv, "--only", "secret").returncode == 0
