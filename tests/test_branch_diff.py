"""`git mem diff A..B`: what a branch teaches, changes, contradicts and makes stale."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import pytest
from conftest import Lab
from places import commit, opened, squash, tell

from gitmem.engine import cache as cache_file
from gitmem.memory import memories, remember
from gitmem.timeline import branch_diff

KINDS = ("teaches", "changes", "contradicts", "forgets", "stale")


def diff(lab: Lab, repo: pathlib.Path, *words: str) -> dict[str, Any]:
    """{kind: bodies} of what is there."""
    found = lab.json(repo, "diff", *words)
    out: dict[str, Any] = {}
    for kind in KINDS:
        if found[kind]:
            out[kind] = [
                (m["before"]["body"], m["after"]["body"])
                if kind == "changes"
                else (m["memory"]["body"], m["against"]["body"], m["by"])
                if kind == "contradicts"
                else m["body"]
                for m in found[kind]
            ]
    return out


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    """A memory about `a.py` and one about nothing on main; on `topic`."""
    path = lab.repo()
    commit(lab, path, "a.py", "one")
    lab.mem(
        path,
        "remember",
        "The staging database is wiped every Sunday at noon",
        "--path",
        "a.py",
        "--type",
        "decision",
    )
    tell(path, "the export runs at six")
    lab.git(path, "checkout", "-q", "-b", "topic")
    commit(lab, path, "b.py", "two")
    return path


def test_a_branch_teaches_what_is_about_its_commits(lab: Lab, repo: pathlib.Path) -> None:
    assert diff(lab, repo, "main..topic") == {}
    assert "nothing about memories between main and topic" in lab.mem(repo, "diff", "main..topic")
    tell(repo, "the queue needs a dead letter table")
    for words in (
        ["main..topic"],
        ["main...topic"],
        ["main"],
        ["main.."],
        ["main", "topic"],
        ["main..HEAD"],
    ):
        assert diff(lab, repo, *words) == {"teaches": ["the queue needs a dead letter table"]}, (
            words
        )
    assert (
        diff(lab, repo, "topic..main")
        == {}
        == diff(lab, repo, "..topic")
        == diff(lab, repo, "topic")
    )
    told = lab.mem(repo, "diff", "main..topic")
    assert "taught: 1" in told and "dead letter" in told and "export" not in told


def test_a_branch_that_was_squashed_has_nothing_new(lab: Lab, repo: pathlib.Path) -> None:
    tell(repo, "the queue needs a dead letter table")
    squash(lab, repo)
    assert diff(lab, repo, "main..topic") == {}
    assert diff(lab, repo, "main~1..main") == {"teaches": ["the queue needs a dead letter table"]}
    assert diff(lab, repo, "main...topic") == {"teaches": ["the queue needs a dead letter table"]}


def test_what_supersedes_a_memory_contradicts_it(lab: Lab, repo: pathlib.Path) -> None:
    id = next(m["id"] for m in lab.json(repo, "list") if "export" in m["body"])
    lab.mem(repo, "supersede", id, "exports are gone")
    assert diff(lab, repo, "main..topic") == {
        "teaches": ["exports are gone"],
        "contradicts": [("exports are gone", "the export runs at six", "supersedes")],
    }
    assert "supersedes" in lab.mem(repo, "diff", "main..topic")


def test_a_merge_of_memories_contradicts_the_one_it_took_away(lab: Lab, repo: pathlib.Path) -> None:
    with opened(repo) as store:
        stay, gone = (
            memories.find(store, m["id"])
            for m in sorted(lab.json(repo, "list"), key=lambda m: m["body"])
        )
        memories.replace(
            store,
            stay,
            gone,
            {"body": "The staging database is wiped on Sundays and exports are gone"},
        )
    commit(lab, repo, "b.py", "three")
    found = diff(lab, repo, "main..topic")
    assert (found["changes"][0][1], "the export runs at six", "supersedes") in found["contradicts"]


def test_what_speaks_against_a_memory_is_found_by_its_words(lab: Lab, repo: pathlib.Path) -> None:
    lab.mem(
        repo,
        "remember",
        "The staging database is wiped every Monday at noon",
        "--path",
        "a.py",
        "--type",
        "decision",
    )
    (found,) = diff(lab, repo, "main..topic")["contradicts"]
    assert found[:2] == (
        "The staging database is wiped every Monday at noon",
        "The staging database is wiped every Sunday at noon",
    )
    assert "may contradict" in lab.mem(repo, "diff", "main..topic")


def test_edits_and_forgets_on_the_way_are_told(lab: Lab, repo: pathlib.Path) -> None:
    one, two = (m["id"] for m in sorted(lab.json(repo, "list"), key=lambda m: m["body"]))
    lab.mem(repo, "edit", two, "-m", "the export runs at seven")
    lab.mem(repo, "forget", one)
    assert diff(lab, repo, "main..topic") == {
        "changes": [("the export runs at six", "the export runs at seven")],
        "forgets": ["The staging database is wiped every Sunday at noon"],
    }
    commit(lab, repo, "b.py", "three")
    assert diff(lab, repo, "HEAD~1") == {}


def test_memories_whose_files_a_branch_changed_are_made_stale(lab: Lab, repo: pathlib.Path) -> None:
    commit(lab, repo, "a.py", "another")
    found = lab.json(repo, "diff", "main..topic")["stale"]
    assert [(m["body"], m["paths"][0]["state"]) for m in found] == [
        ("The staging database is wiped every Sunday at noon", "changed")
    ]
    lab.git(repo, "checkout", "-q", "main")
    assert (
        diff(lab, repo, "main..topic")
        == diff(lab, repo, "main...topic")
        == {"stale": ["The staging database is wiped every Sunday at noon"]}
    )


def test_what_the_base_did_is_not_the_branchs_doing(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "checkout", "-q", "main")
    commit(lab, repo, "a.py", "on main")
    lab.mem(repo, "remember", "a second line is needed", "--path", "a.py")
    assert diff(lab, repo, "main..topic") == {} and diff(lab, repo, "topic..main")["stale"] == [
        "The staging database is wiped every Sunday at noon"
    ]


def test_what_a_branch_superseded_is_not_stale_by_it(lab: Lab, repo: pathlib.Path) -> None:
    commit(lab, repo, "a.py", "another")
    id = next(m["id"] for m in lab.json(repo, "list") if "Sunday" in m["body"])
    lab.mem(repo, "supersede", id, "There is no staging database any more")
    assert set(diff(lab, repo, "main..topic")) == {"teaches", "contradicts"}


def test_a_removed_and_a_renamed_file_are_told(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "mv", "a.py", "c.py")
    lab.git(repo, "commit", "-q", "-m", "rename")
    (found,) = lab.json(repo, "diff", "main..topic")["stale"]
    assert found["paths"][0]["state"] in ("renamed", "gone")
    lab.git(repo, "rm", "-q", "c.py")
    lab.git(repo, "commit", "-q", "-m", "remove")
    (found,) = lab.json(repo, "diff", "main..topic")["stale"]
    assert found["paths"][0]["state"] == "gone"


def test_impossible_ranges_are_errors(lab: Lab, repo: pathlib.Path) -> None:
    def refused(*argv: str) -> tuple[int, str]:
        done = lab.run(repo, sys.executable, "-m", "gitmem", "diff", *argv)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr

    for words in (["nonsense"], ["main..nonsense"], ["main", "nonsense"], ["--", "-x"]):
        status, told = refused(*words)
        assert status == 1 and "no commit" in told, words
    assert refused()[0] == 2 and refused("a", "b", "c")[0] == 2
    lab.git(repo, "checkout", "-q", "--orphan", "other")
    lab.git(repo, "commit", "-q", "-m", "root")
    assert "no commit in common" in refused("main...other")[1] and refused("main..other")[0] == 0
    assert refused("other..main")[0] == 0


def test_work_grows_with_files_and_memories_and_not_with_their_product(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, connect = 400, cache_file.connect
    lab.git(repo, "checkout", "-q", "main")
    names = [f"f{number}.py" for number in range(count)]
    for text in ("one", "two"):
        for name in names:
            (repo / name).write_text(f"{text} {name}")
        lab.git(repo, "add", "-A")
        lab.git(repo, "commit", "-q", "-m", text)
    drafts = [{"body": f"of {name}", "paths": [name], "commit": "HEAD~1"} for name in names]
    steps = 0

    def counted(name: str) -> cache_file.Connection:
        def step() -> int:
            nonlocal steps
            steps += 1
            return 0

        made = connect(name)
        made.set_progress_handler(step, 100)
        return made

    with opened(repo) as store:
        remember.remember(store, drafts)
        store.with_cache(lambda cache: None)
        monkeypatch.setattr(cache_file, "connect", counted)
        assert len(branch_diff.diff(store, ["HEAD~1", "HEAD"])["stale"]) == count
    assert steps < 5 * count
