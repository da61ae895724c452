"""`why` and `blame`: what is known about a path and its lines, on odd paths and in odd
repositories.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import pytest
from conftest import Lab
from places import clone, commit, head, hub, opened, publish, squash, tell
from why_world import CODE, about, found, make, refused

from gitmem.anchors import path_history


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    return make(lab)


def test_a_path_is_known_by_its_name_and_the_directories_above(
    lab: Lab, repo: pathlib.Path
) -> None:
    about(lab, repo, "of the file", "src/parser.py", commit="HEAD~1")
    about(lab, repo, "of the directory", "src/", commit="HEAD~1")
    about(lab, repo, "of the whole", ".", commit="HEAD~1")
    about(lab, repo, "of another", "f0.txt", commit="HEAD~1")
    assert list(found(repo, "src/parser.py").items()) == [
        ("of the file", ["file"]),
        ("of the directory", ["directory"]),
        ("of the whole", ["directory"]),
    ]
    assert (
        set(found(repo, "src"))
        == set(found(repo, "src/"))
        == {"of the file", "of the directory", "of the whole"}
    )
    assert set(found(repo, ".")) == {
        "of the file",
        "of the directory",
        "of the whole",
        "of another",
    }
    assert "of another" not in found(repo, "src/parser.py") and found(repo, "src/parser.pyx") == {
        "of the directory": ["directory"],
        "of the whole": ["directory"],
    }


def test_it_is_an_array_of_what_recall_calls_hits(lab: Lab, repo: pathlib.Path) -> None:
    about(lab, repo, "the parser must not recurse", "src/parser.py")
    (item,) = lab.json(repo, "why", "src/parser.py")
    (hit,) = lab.json(repo, "recall", "may the parser recurse")["hits"]
    assert (
        item["why"][0] == {"by": "file", "path": "src/parser.py"}
        and item["why"][1]["by"] == "commit"
    )
    assert {k: v for k, v in item.items() if k != "why"} == {
        k: v for k, v in hit.items() if k not in ("score", "retrieval")
    }
    told = lab.mem(repo, "why", "src/parser.py")
    assert "the parser must not recurse" in told and "about src/parser.py; its commit" in told
    assert "\x1b" not in told


def test_nothing_known_is_exit_1_and_says_so(lab: Lab, repo: pathlib.Path) -> None:
    assert lab.json(repo, "why", "f0.txt", rc=(1,)) == []
    assert "nothing is known about 'f0.txt'" in lab.mem(repo, "why", "f0.txt", rc=(1,))
    assert lab.json(repo, "why", "no/such/file", rc=(1,)) == []


def test_the_commit_that_wrote_a_line_brings_its_memories(lab: Lab, repo: pathlib.Path) -> None:
    text = CODE.replace("x + 7\n", "x * 7\n")
    (repo / "src" / "parser.py").write_text(text)
    lab.git(repo, "commit", "-q", "-am", "change")
    tell(repo, "seven must be multiplied")
    assert found(repo, "src/parser.py:16") == {"seven must be multiplied": ["commit"]}
    assert found(repo, "src/parser.py:15") == {} and "seven must be multiplied" in found(
        repo, "src/parser.py:14-16"
    )
    assert found(repo, "src/parser.py") == {"seven must be multiplied": ["commit"]}
    (item,) = lab.json(repo, "why", "src/parser.py:16")
    assert item["why"] == [{"by": "commit", "commit": head(lab, repo), "lines": [[16, 16]]}]
    assert found(repo, "src/parser.py:16:5") == found(
        repo, "src/parser.py:16"
    )  # as compilers write it


def test_a_file_is_known_under_its_former_and_its_later_names(lab: Lab, repo: pathlib.Path) -> None:
    about(lab, repo, "first", "src/parser.py", commit="HEAD~1")
    lab.git(repo, "mv", "src/parser.py", "src/grammar.py")
    lab.git(repo, "commit", "-q", "-m", "rename")
    about(lab, repo, "second", "src/grammar.py", commit="HEAD~2")
    lab.git(repo, "mv", "src/grammar.py", "rules.py")
    lab.git(repo, "commit", "-q", "-m", "again")
    about(lab, repo, "third", "rules.py", commit="HEAD~3")
    assert found(repo, "rules.py") == {
        "third": ["file"],
        "second": ["former name"],
        "first": ["former name"],
    }
    assert (
        set(found(repo, "src/parser.py"))
        == set(found(repo, "src/grammar.py"))
        == {"first", "second", "third"}
    )
    assert found(repo, "src/parser.py", at="HEAD~2") == {
        "first": ["file"]
    }  # nobody knew of the later names


def test_a_name_given_to_another_file_brings_no_memories_of_the_first(
    lab: Lab, repo: pathlib.Path
) -> None:
    about(lab, repo, "of the parser", "src/parser.py", commit="HEAD~1")
    lab.git(repo, "mv", "src/parser.py", "rules.py")
    (repo / "other.py").write_text("nothing in common\n" * 30)
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "rename")
    assert found(repo, "other.py") == {} and found(repo, "rules.py") == {
        "of the parser": ["former name"]
    }


def test_a_commit_that_was_amended_or_squashed_away_still_counts(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.git(repo, "config", "notes.rewriteRef", "refs/notes/mem/*")
    lab.git(repo, "checkout", "-q", "-b", "topic")
    (repo / "src" / "parser.py").write_text(CODE.replace("x + 7\n", "x * 7\n"))
    lab.git(repo, "commit", "-q", "-am", "change")
    tell(repo, "seven must be multiplied")
    lab.git(repo, "commit", "-q", "--amend", "-m", "better words")
    assert found(repo, "src/parser.py:16") == {"seven must be multiplied": ["commit"]}
    squash(lab, repo)
    lab.git(repo, "branch", "-q", "-D", "topic")
    assert found(repo, "src/parser.py:16") == {"seven must be multiplied": ["commit"]}


def test_memories_of_unmerged_branches_come_last_and_say_so(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "checkout", "-q", "-b", "topic")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "topic")
    about(lab, repo, "on the branch", "src/parser.py")
    lab.git(repo, "checkout", "-q", "main")
    about(lab, repo, "of the directory", "src", commit="HEAD~1")
    items = lab.json(repo, "why", "src/parser.py")
    assert [(m["body"], m["anchor"]["state"]) for m in items] == [
        ("of the directory", "reachable"),
        ("on the branch", "unmerged"),
    ]
    assert found(repo, "src/parser.py", at="HEAD") == {"of the directory": ["directory"]}


def test_as_of_a_revision_lines_and_memories_are_those_of_then(
    lab: Lab, repo: pathlib.Path
) -> None:
    id = about(lab, repo, "before", "src/parser.py")
    (repo / "src" / "parser.py").write_text("# a new first line\n" + CODE)
    lab.git(repo, "commit", "-q", "-am", "change")
    about(lab, repo, "later", "src/parser.py")
    lab.mem(repo, "edit", id, "-m", "after")
    assert list(found(repo, "src/parser.py", at="HEAD~1")) == ["before"] and set(
        found(repo, "src/parser.py", at="HEAD")
    ) == {"after", "later"}
    assert "lines" in refused(lab, repo, "why", "src/parser.py:41", "--at", "HEAD~1") and found(
        repo, "src/parser.py:41", at="HEAD"
    )


ODD = [
    "a b.py",
    "ünï☃.py",
    "-x.py",
    "a:1",
    "[a]*.py",
    "tab\there.py",
    "'quote\".py",
    "back\\slash.py",
    ":(top)x.py",
]


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_names(lab: Lab, name: str) -> None:
    repo = lab.repo()
    (repo / name).write_text("one\ntwo\n")
    (repo / "beside.py").write_text("one\ntwo\n")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "odd")
    about(lab, repo, "of the odd one", name, commit="HEAD~1")
    done = lab.mem(repo, "why", "--", name)
    assert "of the odd one" in done
    assert found(repo, name) == found(repo, f"{name}:2") == {"of the odd one": ["file"]}
    assert found(repo, str(repo / name)) == found(repo, name)  # absolute
    assert "2  two" in lab.mem(repo, "blame", "--", f"{name}:2")
    assert found(repo, "beside.py") == {}


def test_a_name_with_a_line_end_makes_no_line_of_its_own(lab: Lab) -> None:
    repo = lab.repo()
    (repo / "a\nHIT: 9 memories.py").write_text("one\n")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "odd")
    about(lab, repo, "of the odd one", "a\nHIT: 9 memories.py")
    assert "\nHIT" not in lab.mem(repo, "why", ".")


def test_a_path_is_read_from_where_the_caller_stands(lab: Lab, repo: pathlib.Path) -> None:
    about(lab, repo, "of the file", "src/parser.py", commit="HEAD~1")
    assert "of the file" in lab.mem(repo / "src", "why", "parser.py") and "of the file" in lab.mem(
        repo / "src", "why", "../src/parser.py:3"
    )
    assert "rule_1" in lab.mem(repo / "src", "blame", "parser.py:3")
    for path in ("../../elsewhere", "/etc/passwd"):
        assert "is outside the repository" in refused(lab, repo / "src", "why", path)
        assert "is outside the repository" in refused(lab, repo / "src", "blame", path)


def test_what_has_no_lines_says_so(lab: Lab, repo: pathlib.Path) -> None:
    (repo / "image.png").write_bytes(b"\x89PNG\0\1\2\n" * 50)
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "binary")
    (repo / "new.py").write_text("x\n")
    about(lab, repo, "of the image", "image.png")
    assert found(repo, "image.png") == {"of the image": ["file"]}
    for path, words in (
        ("image.png", "is no text"),
        ("src", "is a directory"),
        ("new.py", "is not committed"),
        ("nothing.py", "no file 'nothing.py' at HEAD"),
    ):
        assert words in refused(lab, repo, "blame", path)
        assert words in refused(lab, repo, "why", f"{path}:1")
    assert "has 40 lines" in refused(lab, repo, "why", "src/parser.py:41")


def test_a_deleted_file_is_known_by_its_name(lab: Lab, repo: pathlib.Path) -> None:
    about(lab, repo, "of the file", "src/parser.py", commit="HEAD~1")
    lab.git(repo, "rm", "-q", "src/parser.py")
    lab.git(repo, "commit", "-q", "-m", "gone")
    (item,) = lab.json(repo, "why", "src/parser.py")
    assert item["why"] == [{"by": "file", "path": "src/parser.py"}]
    assert "no file" in refused(lab, repo, "blame", "src/parser.py")
    assert "rule_1" in lab.mem(repo, "blame", "src/parser.py:3", "--at", "HEAD~1", rc=(0, 1))


def test_unborn_detached_bare_and_shallow_repositories_answer(lab: Lab, repo: pathlib.Path) -> None:
    unborn = lab.repo("unborn", 0)
    lab.mem(unborn, "remember", "before anything", "--path", "a.py")
    assert found(unborn, "a.py") == {"before anything": ["file"]} and "no file" in refused(
        lab, unborn, "blame", "a.py"
    )
    about(lab, repo, "of the file", "src/parser.py")
    lab.git(repo, "checkout", "-q", "--detach")
    assert found(repo, "src/parser.py:1") == {"of the file": ["commit", "file"]}
    lab.git(lab.root, "clone", "-q", "--mirror", str(repo), "bare.git")
    assert found(lab.root / "bare.git", "src/parser.py:1") == {"of the file": ["commit", "file"]}
    assert "rule_0" in lab.mem(lab.root / "bare.git", "blame", "src/parser.py:1")
    lab.git(lab.root, "clone", "-q", "--depth", "1", f"file://{repo}", "shallow")
    lab.git(
        lab.root / "shallow", "fetch", "-q", "origin", "refs/notes/mem/team:refs/notes/mem/team"
    )
    assert "of the file" in found(lab.root / "shallow", "src/parser.py:1")


def test_an_unknown_revision_is_an_error(lab: Lab, repo: pathlib.Path) -> None:
    for command in ("why", "blame"):
        assert "no commit 'nonsense'" in refused(
            lab, repo, command, "src/parser.py", "--at", "nonsense"
        )


def test_a_teammates_squash_is_seen_in_a_fresh_clone(lab: Lab) -> None:
    hub(lab)
    one = clone(lab, "one")
    lab.git(one, "checkout", "-q", "-b", "topic")
    commit(lab, one, "a.py", "seven = 7")
    tell(one, "seven is the number")
    squash(lab, one)
    lab.git(one, "push", "-q", "origin", "main")
    publish(lab, one)
    two = clone(lab, "two")
    assert found(two, "a.py:1") == {"seven is the number": ["commit"]}


def test_names_are_found_in_few_processes(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(repo) as store:
        started: list[Any] = []
        start = store.repo.git.start
        monkeypatch.setattr(
            store.repo.git,
            "start",
            lambda args, *a, **k: started.append(args) or start(args, *a, **k),
        )
        store.with_cache(
            lambda cache: path_history.at(store.repo, cache, store.repo.head(), "src/parser.py")
        )
        assert len(started) <= 6


def move_sources(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "mv", "src", "lib")
    lab.git(repo, "commit", "-q", "-m", "moved")


def test_a_directory_is_known_under_its_former_names(lab: Lab, repo: pathlib.Path) -> None:
    about(lab, repo, "of the directory", "src/")
    about(lab, repo, "of a file in it", "src/parser.py")
    move_sources(lab, repo)
    for _ in range(2):
        assert found(repo, "lib") == {
            "of the directory": ["former name"],
            "of a file in it": ["inside"],
        }
        assert {m["body"] for m in lab.json(repo, "log", "--path", "lib")} == {
            "of the directory",
            "of a file in it",
        }
        assert found(repo, "f0.txt") == {}
        lab.mem(repo, "index")


def test_a_directory_has_what_was_moved_into_it(lab: Lab, repo: pathlib.Path) -> None:
    (repo / "alone.py").write_text("alone = 1\n" * 9)
    (repo / "old").mkdir()
    for name in ("one", "two"):
        (repo / "old" / f"{name}.py").write_text(f"{name} = 1\n" * 9)
    lab.git(repo, "add", ".")
    lab.git(repo, "commit", "-q", "-m", "a file at the top")
    about(lab, repo, "of a moved file", "src/parser.py")
    about(lab, repo, "of a file from the top", "alone.py")
    about(lab, repo, "of a file that stays", "f0.txt")
    about(lab, repo, "of a directory that stays", "old")
    about(lab, repo, "of a file moved out of it", "old/one.py")
    lab.git(repo, "mv", "alone.py", "old/one.py", "src")
    move_sources(lab, repo)
    (repo / "alone.py").write_text("another = 1\n")
    lab.git(repo, "add", ".")
    lab.git(repo, "commit", "-q", "-m", "another file of the same name")
    about(lab, repo, "of another file at the top", "alone.py")
    moved = {"of a moved file", "of a file from the top", "of a file moved out of it"}
    for _ in range(2):
        assert found(repo, "lib") == {body: ["inside"] for body in moved}
        assert {m["body"] for m in lab.json(repo, "log", "--path", "lib")} == moved
        lab.mem(repo, "index")


def test_a_name_that_only_another_branch_has_is_said_to_be_there(
    lab: Lab, repo: pathlib.Path
) -> None:
    about(lab, repo, "of the directory", "src/")
    lab.git(repo, "checkout", "-q", "-b", "topic")
    lab.git(repo, "mv", "src", "lib")
    lab.git(repo, "commit", "-q", "-m", "moved")
    lab.git(repo, "checkout", "-q", "main")
    for path in ("lib", "lib/parser.py"):
        done = lab.run(repo, sys.executable, "-m", "gitmem", "why", path)
        assert (
            done.returncode == 1
            and f"'{path}' is not at HEAD, and on 'topic': `--at topic` asks there" in done.stderr
        )
        assert found(repo, path, at="topic")
    for argv in (["src"], ["no/such"], ["lib", "--at", "topic"]):
        assert (
            "asks there" not in lab.run(repo, sys.executable, "-m", "gitmem", "why", *argv).stderr
        )
    about(lab, repo, "of a directory to come", "lib/")
    assert "asks there" not in lab.run(repo, sys.executable, "-m", "gitmem", "why", "lib").stderr


def test_what_cannot_be_known_is_said_with_its_reason(lab: Lab, repo: pathlib.Path) -> None:
    unborn = lab.repo("unborn", 0)
    (unborn / "a.py").write_text(CODE)
    lab.mem(unborn, "remember", "before anything", "--path", "a.py:2-3")
    told = lab.mem(unborn, "why", "a.py", rc=(0, 1))
    assert (
        "before anything" in told
        and "changed or removed" not in told
        and "not known where its lines are" in told
    )
    lab.git(repo, "config", "diff.orderFile", "/nonexistent")
    done = lab.run(repo, sys.executable, "-m", "gitmem", "why", "src/parser.py")
    assert (
        "is long" not in done.stderr
        and "git cannot read the history of 'src/parser.py'" in done.stderr
    )
