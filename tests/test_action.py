"""The GitHub Action and the hook of pre-commit: their own commands, run as a runner runs them."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess

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
