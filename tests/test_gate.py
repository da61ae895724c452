"""`git mem check` for CI and `git mem bisect`: which memories are stale, and which commit made them
so.
"""

from __future__ import annotations

import pathlib
import shutil
import sys
from typing import Any

import pytest
from conftest import Lab
from places import commit, head, opened, squash, tell

from gitmem.memory import remember

CODE = "".join(f"def rule_{i}(x):\n    return x + {i}\n" for i in range(20))


def check(lab: Lab, repo: pathlib.Path, since: str = "") -> tuple[int, list[str], list[str]]:
    """(exit code, stale ones, unknown ones)."""
    done = lab.run(
        repo,
        sys.executable,
        "-m",
        "gitmem",
        "check",
        "--json",
        *(["--since", since] if since else []),
    )
    import json

    found = json.loads(done.stdout)
    return (
        done.returncode,
        [m["body"] for m in found["stale"]],
        [m["body"] for m in found["unknown"]],
    )


def write(lab: Lab, repo: pathlib.Path, name: str, text: str, message: str = "change") -> str:
    (repo / name).parent.mkdir(exist_ok=True)
    (repo / name).write_text(text)
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", message)
    return head(lab, repo)


def about(lab: Lab, repo: pathlib.Path, text: str, *paths: str) -> str:
    return str(lab.json(repo, "remember", text, *[f"--path={p}" for p in paths])["id"])


def culprits(lab: Lab, repo: pathlib.Path, id: str, *argv: str) -> dict[str, Any]:
    return {item["path"]: item["commit"] for item in lab.json(repo, "bisect", id, *argv)["stale"]}


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    path = lab.repo()
    write(lab, path, "parser.py", CODE, "parser")
    return path


# --- check --------------------------------------------------------------------


def test_check_fails_where_a_path_changed_or_went_and_not_where_it_was_renamed(
    lab: Lab, repo: pathlib.Path
) -> None:
    assert check(lab, repo) == (0, [], [])
    about(lab, repo, "must not recurse", "parser.py")
    tell(repo, "about no path")
    assert check(lab, repo) == check(lab, repo, "HEAD~1") == (0, [], [])
    lab.git(repo, "mv", "parser.py", "grammar.py")
    lab.git(repo, "commit", "-q", "-m", "rename")
    assert check(lab, repo) == (0, [], [])
    base = head(lab, repo)
    write(lab, repo, "grammar.py", CODE.replace("x + 7", "x * 7"))
    assert check(lab, repo) == check(lab, repo, base) == (1, ["must not recurse"], [])
    assert check(lab, repo, "HEAD") == (0, [], [])
    lab.git(repo, "rm", "-q", "grammar.py")
    lab.git(repo, "commit", "-q", "-m", "gone")
    assert check(lab, repo) == (1, ["must not recurse"], []) and check(lab, repo, "HEAD~1") == (
        0,
        [],
        [],
    )
    told = lab.mem(repo, "check", rc=(1,))
    assert "1 stale memory" in told and "must not recurse" in told and "git mem bisect" in told


def test_what_was_mended_passes_again(lab: Lab, repo: pathlib.Path) -> None:
    id = about(lab, repo, "must not recurse", "parser.py")
    base = head(lab, repo)
    write(lab, repo, "parser.py", "another\n")
    assert check(lab, repo, base)[0] == 1
    lab.mem(repo, "supersede", id, "may recurse now")
    assert check(lab, repo, base) == (0, [], [])
    assert "no memory became stale" in lab.mem(repo, "check", "--since", base)


def test_a_revert_makes_it_hold_again(lab: Lab, repo: pathlib.Path) -> None:
    about(lab, repo, "must not recurse", "parser.py")
    write(lab, repo, "parser.py", "another\n")
    lab.git(repo, "revert", "--no-edit", "HEAD")
    assert check(lab, repo, "HEAD~1") == check(lab, repo) == (0, [], [])


def test_a_memory_younger_than_the_revision_counts(lab: Lab, repo: pathlib.Path) -> None:
    base = head(lab, repo)
    write(lab, repo, "new.py", CODE)
    about(lab, repo, "the new file is short", "new.py")
    write(lab, repo, "new.py", "long\n")
    assert check(lab, repo, base) == (1, ["the new file is short"], [])


def test_memories_of_unmerged_branches_are_not_asked_about(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "checkout", "-q", "-b", "topic")
    write(lab, repo, "parser.py", "another\n")
    about(lab, repo, "on the branch", "parser.py")
    lab.git(repo, "checkout", "-q", "main")
    assert check(lab, repo) == (0, [], [])


def test_a_shallow_clone_says_that_it_cannot_know_and_fails(lab: Lab, repo: pathlib.Path) -> None:
    about(lab, repo, "must not recurse", "parser.py")
    about(lab, repo, "one line", "f0.txt")
    write(lab, repo, "parser.py", "another\n")
    lab.git(lab.root, "clone", "-q", "--depth", "1", f"file://{repo}", "shallow")
    shallow = lab.root / "shallow"
    lab.git(shallow, "fetch", "-q", "origin", "refs/notes/mem/team:refs/notes/mem/team")
    assert check(lab, shallow) == (1, [], ["must not recurse"])
    done = lab.run(shallow, sys.executable, "-m", "gitmem", "check")
    assert (
        done.returncode == 1
        and "cannot check 1 memory" in done.stderr
        and "fetch-depth: 0" in done.stderr
        and done.stdout.startswith("1 memory of which nobody can tell in a shallow clone:\n")
    )
    missing = lab.run(shallow, sys.executable, "-m", "gitmem", "check", "--since", "HEAD~1")
    assert (
        missing.returncode == 1
        and "no commit 'HEAD~1'" in missing.stderr
        and "unshallow" in missing.stderr
    )
    lab.git(shallow, "fetch", "-q", "--unshallow")
    assert check(lab, shallow) == (1, ["must not recurse"], [])


def test_notes_that_cannot_be_read_do_not_pass(lab: Lab, repo: pathlib.Path) -> None:
    about(lab, repo, "must not recurse", "parser.py")
    lab.git(repo, "config", "uploadpack.allowFilter", "true")
    lab.git(
        lab.root, "clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{repo}", "partial"
    )
    partial = lab.root / "partial"
    lab.git(partial, "fetch", "-q", "origin", "refs/notes/*:refs/notes/*")
    assert lab.json(repo, "check")["complete"] is True
    repo.rename(lab.root / "away")
    found = lab.json(partial, "check", rc=(1,))
    assert found["complete"] is False and found["stale"] == found["unknown"] == []
    done = lab.run(partial, sys.executable, "-m", "gitmem", "check", "--since", "HEAD")
    assert (
        done.returncode == 1
        and "cannot check all memories" in done.stderr
        and "no memory" not in done.stdout
    )
    (lab.root / "away").rename(repo)
    assert lab.json(partial, "check", rc=(0, 1))["complete"] is True


@pytest.mark.parametrize("kind", ["commit", "tree", "blob"])
def test_a_damaged_note_does_not_pass(lab: Lab, repo: pathlib.Path, kind: str) -> None:
    before = {p for p in (repo / ".git/objects").rglob("*") if p.is_file()}
    about(lab, repo, "must not recurse", "parser.py")
    shutil.rmtree(repo / ".git/mem")
    for path in {p for p in (repo / ".git/objects").rglob("*") if p.is_file()} - before:
        if lab.git(repo, "cat-file", "-t", path.parent.name + path.name).strip() == kind:
            path.unlink()
    for _ in range(2):
        assert lab.json(repo, "check", rc=(1,))["complete"] is False


def test_check_answers_in_odd_repositories(lab: Lab, repo: pathlib.Path) -> None:
    unborn = lab.repo("unborn", 0)
    lab.mem(unborn, "remember", "before anything", "--path", "a.py")
    assert check(lab, unborn) == (0, [], [])
    about(lab, repo, "must not recurse", "parser.py")
    write(lab, repo, "parser.py", "another\n")
    lab.git(repo, "checkout", "-q", "--detach")
    lab.git(lab.root, "clone", "-q", "--mirror", str(repo), "bare.git")
    assert check(lab, repo) == check(lab, lab.root / "bare.git") == (1, ["must not recurse"], [])
    assert (
        lab.run(repo, sys.executable, "-m", "gitmem", "check", "--since", "nonsense").returncode
        == 1
    )
    outside = lab.run(lab.root, sys.executable, "-m", "gitmem", "check")
    assert outside.returncode == 128


# --- bisect -------------------------------------------------------------------


def test_the_commit_that_changed_the_file_is_named(lab: Lab, repo: pathlib.Path) -> None:
    id = about(lab, repo, "must not recurse", "parser.py")
    assert lab.json(repo, "bisect", id, rc=(1,))["stale"] == []
    assert "is not stale" in lab.mem(repo, "bisect", id, rc=(1,))
    commit(lab, repo, "beside.txt", "one")
    bad = write(lab, repo, "parser.py", "another\n", "break it")
    commit(lab, repo, "beside.txt", "two")
    write(lab, repo, "parser.py", "yet another\n")
    assert culprits(lab, repo, id) == {"parser.py": bad}
    told = lab.mem(repo, "bisect", id[:8])
    assert (
        "parser.py: changed" in told and bad[:12] in told and "break it" in told and "Ada" in told
    )


def test_a_rename_is_followed_and_not_blamed(lab: Lab, repo: pathlib.Path) -> None:
    id = about(lab, repo, "must not recurse", "parser.py")
    lab.git(repo, "mv", "parser.py", "grammar.py")
    lab.git(repo, "commit", "-q", "-m", "rename")
    (found,) = lab.json(repo, "bisect", id, rc=(1,))["others"]
    assert (found["state"], found["now"]) == ("renamed", "grammar.py")
    lab.git(repo, "mv", "grammar.py", "rules.py")
    lab.git(repo, "commit", "-q", "-m", "again")
    bad = write(lab, repo, "rules.py", CODE.replace("x + 7", "x * 7"))
    assert culprits(lab, repo, id) == {"parser.py": bad}
    lab.git(repo, "rm", "-q", "rules.py")
    lab.git(repo, "commit", "-q", "-m", "gone")
    assert culprits(lab, repo, id) == {"parser.py": bad}


def test_of_a_change_that_was_reverted_and_made_again_the_second_counts(
    lab: Lab, repo: pathlib.Path
) -> None:
    id = about(lab, repo, "must not recurse", "parser.py")
    write(lab, repo, "parser.py", "another\n")
    lab.git(repo, "revert", "--no-edit", "HEAD")
    bad = write(lab, repo, "parser.py", "another\n")
    assert culprits(lab, repo, id) == {"parser.py": bad}


def test_the_commit_of_a_branch_is_named_and_the_merge_beside_it(
    lab: Lab, repo: pathlib.Path
) -> None:
    id = about(lab, repo, "must not recurse", "parser.py")
    lab.git(repo, "checkout", "-q", "-b", "topic")
    bad = write(lab, repo, "parser.py", "another\n", "on the branch")
    lab.git(repo, "checkout", "-q", "main")
    commit(lab, repo, "beside.txt", "one")
    lab.git(repo, "merge", "-q", "--no-ff", "-m", "merge topic", "topic")
    (found,) = lab.json(repo, "bisect", id)["stale"]
    assert (
        found["commit"] == bad
        and found["merged_by"]["commit"] == head(lab, repo)
        and "brought" not in found
    )
    assert "merged by" in lab.mem(repo, "bisect", id)


def test_a_merge_that_took_the_change_from_an_older_branch_is_named_with_its_commits(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.git(repo, "checkout", "-q", "-b", "old")
    side = write(lab, repo, "parser.py", CODE + "# the end\n", "on the old branch")
    lab.git(repo, "checkout", "-q", "main")
    write(lab, repo, "parser.py", "# the begin\n" + CODE)
    id = about(lab, repo, "must not recurse", "parser.py")
    lab.git(repo, "merge", "-q", "--no-ff", "-m", "merge old", "old")
    (found,) = lab.json(repo, "bisect", id)["stale"]
    assert found["commit"] == head(lab, repo) and [c["commit"] for c in found["brought"]] == [side]


def test_a_branch_that_never_had_what_the_memory_says_is_no_candidate(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.git(repo, "checkout", "-q", "-b", "old")
    commit(lab, repo, "old.txt", "one")
    lab.git(repo, "checkout", "-q", "main")
    write(lab, repo, "parser.py", "# the begin\n" + CODE)
    id = about(lab, repo, "must not recurse", "parser.py")
    lab.git(repo, "merge", "-q", "--no-ff", "-m", "merge old", "old")
    bad = write(lab, repo, "parser.py", "another\n")
    assert culprits(lab, repo, id) == {"parser.py": bad}


def test_several_paths_and_a_chosen_one(lab: Lab, repo: pathlib.Path) -> None:
    (repo / "dir").mkdir()
    first = write(lab, repo, "dir/a b.py", "one\n")
    id = about(lab, repo, "of three", "parser.py", "dir/", "f0.txt")
    one = write(lab, repo, "parser.py", "another\n")
    two = write(lab, repo, "dir/new.py", "new\n")
    assert first and culprits(lab, repo, id) == {"parser.py": one, "dir/": two}
    assert (
        culprits(lab, repo, id, "--path", "dir")
        == culprits(lab, repo, id, "--path", "dir/")
        == {"dir/": two}
    )
    assert lab.json(repo, "bisect", id, "--path", "f0.txt", rc=(1,))["others"][0]["state"] == "same"
    done = lab.run(repo, sys.executable, "-m", "gitmem", "bisect", id, "--path", "no.py")
    assert (
        done.returncode == 1 and "names other paths" in done.stderr and "parser.py" in done.stderr
    )


def test_a_squashed_memory_is_followed_from_where_it_was_merged(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.git(repo, "checkout", "-q", "-b", "topic")
    write(lab, repo, "parser.py", CODE + "# the end\n", "on the branch")
    id = about(lab, repo, "it has an end", "parser.py")
    squash(lab, repo)
    lab.git(repo, "branch", "-q", "-D", "topic")
    bad = write(lab, repo, "parser.py", CODE)
    assert culprits(lab, repo, id) == {"parser.py": bad}


def test_what_cannot_be_told_is_an_error_with_a_reason(lab: Lab, repo: pathlib.Path) -> None:
    id = about(lab, repo, "must not recurse", "parser.py")
    none = tell(repo, "about no path")
    write(lab, repo, "parser.py", "another\n")

    def refused(place: pathlib.Path, id: str) -> str:
        done = lab.run(place, sys.executable, "-m", "gitmem", "bisect", id)
        assert done.returncode == 1 and "Traceback" not in done.stderr
        return done.stderr

    assert "names no path" in refused(repo, none) and "no memory" in refused(repo, "0" * 32)
    lab.git(lab.root, "clone", "-q", "--depth", "1", f"file://{repo}", "shallow")
    lab.git(
        lab.root / "shallow", "fetch", "-q", "origin", "refs/notes/mem/team:refs/notes/mem/team"
    )
    told = refused(lab.root / "shallow", id)
    assert "shallow clone" in told and "unshallow" in told
    # A commit at which only the text was edited, and which the clone has, is not the culprit.
    lab.mem(lab.root / "shallow", "edit", id, "must never recurse")
    assert refused(lab.root / "shallow", id) == told


def test_lines_that_moved_are_not_stale_and_changed_ones_are(lab: Lab, repo: pathlib.Path) -> None:
    with opened(repo) as store:
        (made,) = remember.remember(
            store,
            [{"body": "seven is special", "paths": [{"path": "parser.py", "lines": "15-16"}]}],
        )
    id = made.id
    write(lab, repo, "parser.py", "# new\n" + CODE)
    write(lab, repo, "parser.py", "# new\n" + CODE.replace("x + 3", "x * 3"))
    assert check(lab, repo) == (0, [], []) and culprits_none(lab, repo, id)
    bad = write(
        lab,
        repo,
        "parser.py",
        "# new\n" + CODE.replace("x + 3", "x * 3").replace("x + 7\n", "x * 7\n"),
    )
    write(
        lab,
        repo,
        "parser.py",
        "# newer\n" + CODE.replace("x + 3", "x * 3").replace("x + 7\n", "x * 7\n"),
    )
    assert check(lab, repo)[0] == 1 and culprits(lab, repo, id) == {"parser.py": bad}


def culprits_none(lab: Lab, repo: pathlib.Path, id: str) -> bool:
    return lab.json(repo, "bisect", id, rc=(1,))["stale"] == []


def test_what_no_search_can_tell_is_not_called_fine_and_no_search_is_advised(
    lab: Lab, repo: pathlib.Path
) -> None:
    odd = "bad\udcff"
    write(lab, repo, odd, "text\n")
    id = about(lab, repo, "about a name that is no text", odd)
    for argv in (["check"], ["check", "--since", "HEAD~1"]):
        done = lab.run(repo, sys.executable, "-m", "gitmem", *argv)
        assert (
            done.returncode == 0
            and not done.stderr
            and "1 not compared" in done.stdout
            and id[:8] in done.stdout
            and "edit ID --path" in done.stdout
        )
    assert "nobody can tell" in lab.mem(repo, "bisect", id, rc=(1,))
    found = lab.json(repo, "check")
    assert (
        [m["id"] for m in found["not_compared"]] == [id]
        and not found["unknown"]
        and not found["stale"]
    )
    lab.mem(repo, "edit", id, "--path", ".")
    assert lab.json(repo, "check")["not_compared"] == []


def test_what_was_renamed_to_a_name_that_is_no_text_does_not_pass_until_the_memory_names_something_else(  # noqa: E501
    lab: Lab, repo: pathlib.Path
) -> None:
    id = about(lab, repo, "about the parser", "parser.py")
    lab.git(repo, "mv", "parser.py", "bad\udcff")
    lab.git(repo, "commit", "-q", "-m", "odd")
    done = lab.run(repo, sys.executable, "-m", "gitmem", "check")
    assert (
        done.returncode == 1
        and "cannot check 1 memory" in done.stderr
        and "edit ID --path" in done.stderr
        and "goes on" not in done.stderr
    )
    lab.mem(repo, "edit", id, "--path", ".")
    assert check(lab, repo) == (0, [], [])
