"""`why FILE` answers about that file: what only shares a commit with it is one line."""

from __future__ import annotations

import pathlib

import pytest
from conftest import Lab
from places import head, tell

NAMED = "the parser must not recurse"
FOLDED = "… and 2 memories about commits that wrote lines of it: git mem why parser.py --all-hits"


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    """`parser.py`, whose only commit three memories are about; one of them names it."""
    path = lab.repo()
    (path / "parser.py").write_text("def rule(x):\n    return x\n")
    lab.git(path, "add", "-A")
    lab.git(path, "commit", "-q", "-m", "parser")
    lab.mem(path, "remember", NAMED, "--path", "parser.py")
    tell(path, "lunch is at noon")
    lab.mem(path, "remember", "the first file stays empty", "--path", "f0.txt")
    return path


def bodies(lab: Lab, repo: pathlib.Path, *words: str, rc: tuple[int, ...] = (0,)) -> list[str]:
    return [m["body"] for m in lab.json(repo, "why", *words, rc=rc)]


def test_memories_that_only_share_the_commit_of_a_file_are_one_line(
    lab: Lab, repo: pathlib.Path
) -> None:
    told = lab.mem(repo, "why", "parser.py")
    assert NAMED in told and "lunch" not in told and "stays empty" not in told
    assert told.splitlines()[-1] == FOLDED
    assert bodies(lab, repo, "parser.py") == [NAMED]
    assert "why parser.py --at HEAD --all-hits" in lab.mem(repo, "why", "parser.py", "--at", "HEAD")


def test_all_hits_shows_them_last_and_says_how_they_were_found(
    lab: Lab, repo: pathlib.Path
) -> None:
    items = lab.json(repo, "why", "parser.py", "--all-hits")
    assert items[0]["body"] == NAMED and len(items) == 3
    alone = [{"by": "commit", "commit": head(lab, repo), "lines": [[1, 2]]}]
    assert [item["why"] for item in items[1:]] == [alone, alone]
    assert "…" not in lab.mem(repo, "why", "parser.py", "--all-hits")


def test_of_lines_the_commit_that_wrote_them_is_an_answer(lab: Lab, repo: pathlib.Path) -> None:
    assert "lunch is at noon" in bodies(lab, repo, "parser.py:1")
    assert "lunch is at noon" in {
        m["body"] for m in lab.json(repo, "blame", "parser.py")["memories"]
    }


def test_a_file_that_no_memory_names_is_not_known(lab: Lab, repo: pathlib.Path) -> None:
    (repo / "my file.py").write_text("x = 1\n")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "another")
    tell(repo, "the cache is cold on Mondays")
    assert lab.mem(repo, "why", "my file.py", rc=(1,)).splitlines() == [
        "nothing is known about 'my file.py'",
        "… 1 memory about commits that wrote lines of it: git mem why 'my file.py' --all-hits",
    ]
    assert bodies(lab, repo, "my file.py", rc=(1,)) == []
