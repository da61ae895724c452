"""Partial and shallow clones: no question asks the remote for an object, and what is not here is
unknown, not something else.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sys

import pytest
from conftest import Lab
from places import head

OLD_GIT = "git that knows no GIT_NO_LAZY_FETCH"


def commit(lab: Lab, repo: pathlib.Path, message: str) -> str:
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", message)
    return head(lab, repo)


def about(lab: Lab, repo: pathlib.Path, text: str, *paths: str, at: str = "HEAD") -> str:
    return str(
        lab.json(repo, "remember", text, "--commit", at, *[f"--path={p}" for p in paths])["id"]
    )


@pytest.fixture
def seed(lab: Lab) -> pathlib.Path:
    """Six commits: `src/a.py` grows with each, `src/copy.py` stays, its twin `src/twin.py` goes
    with the last; a branch `topic` of one more.
    """
    repo = lab.repo("seed", 1)
    (repo / "src").mkdir()
    (repo / "src/copy.py").write_text("the same\ntext\n")
    (repo / "src/twin.py").write_text("the same\ntext\n")
    for i in range(4):
        with open(repo / "src/a.py", "a") as f:
            f.write(f"def rule_{i}(x):\n    return x + {i}\n")
        commit(lab, repo, f"rule {i}")
    about(lab, repo, "rule one is special", "src/a.py:3-4", at="HEAD~2")
    about(lab, repo, "the directory is flat", "src/", at="HEAD~2")
    about(lab, repo, "twins must be kept alike", "src/twin.py", at="HEAD~2")
    lab.git(repo, "rm", "-q", "src/twin.py")
    commit(lab, repo, "one twin is enough")
    lab.git(repo, "checkout", "-q", "-b", "topic", "HEAD~3")
    (repo / "src/topic.py").write_text("topic\n")
    commit(lab, repo, "topic")
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "config", "uploadpack.allowFilter", "true")
    lab.git(repo, "config", "uploadpack.allowAnySHA1InWant", "true")
    return repo


def cloned(lab: Lab, seed: pathlib.Path, *options: str) -> pathlib.Path:
    """A clone that has the memories."""
    repo = lab.root / "clone"
    lab.git(lab.root, "clone", "-q", *options, f"file://{seed}", str(repo))
    lab.mem(repo, "pull")
    return repo


def objects(lab: Lab, repo: pathlib.Path) -> set[str]:
    return set(
        lab.git(repo, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    )


def paths(lab: Lab, repo: pathlib.Path, *argv: str) -> dict[str, tuple[str, str]]:
    """{path: (state, reason)} of what `list` shows."""
    return {
        p["path"]: (p["state"], p.get("reason", ""))
        for m in lab.json(repo, "list", *argv)
        for p in m["paths"]
    }


QUESTIONS = [
    ["list", "--at", "HEAD~3"],
    ["list", "--stale", "--at", "origin/topic"],
    ["recall", "--at", "HEAD~3", "is a rule special"],
    ["context", "--at", "HEAD~3"],
    ["why", "src/a.py"],
    ["why", "src/a.py:3"],
    ["why", "src/a.py", "--at", "HEAD~1"],
    ["why", "src"],
    ["why", "src", "--at", "HEAD~3"],
    ["blame", "src/a.py"],
    ["blame", "src/a.py:1", "--at", "HEAD~3"],
    ["log", "--", "src/a.py"],
    ["diff", "HEAD~2..HEAD"],
    ["diff", "main...origin/topic"],
    ["check"],
    ["check", "--since", "HEAD~3"],
    ["index"],
]


@pytest.mark.parametrize("kept", ["blob:none", "tree:0", "tree:0 " + OLD_GIT])
def test_no_question_fetches_from_the_remote(lab: Lab, seed: pathlib.Path, kept: str) -> None:
    repo = cloned(lab, seed, f"--filter={kept.split()[0]}")
    if OLD_GIT in kept:
        (lab.root / "bin").mkdir()
        (lab.root / "bin/git").write_text(
            f"#!/bin/sh\nunset GIT_NO_LAZY_FETCH\nexec {shutil.which('git', path=lab.env['PATH'])}"
            ' "$@"\n'
        )
        (lab.root / "bin/git").chmod(0o755)
        lab.env["PATH"] = f"{lab.root}/bin{os.pathsep}{lab.env['PATH']}"
    before = objects(lab, repo)
    ids = [m["id"] for m in lab.json(repo, "list")]
    assert len(ids) == 3
    for argv in (*QUESTIONS, *(["bisect", id] for id in ids)):
        done = lab.run(repo, sys.executable, "-m", "gitmem", *argv)
        assert done.returncode in (0, 1) and "Traceback" not in done.stderr, (argv, done.stderr)
        assert objects(lab, repo) == before, argv
    lab.git(repo, "blame", "src/a.py")
    assert objects(lab, repo) > before, "the probe sees what git fetches"


def test_without_directories_the_states_of_then_are_unknown(lab: Lab, seed: pathlib.Path) -> None:
    repo = cloned(lab, seed, "--filter=tree:0")
    assert paths(lab, repo, "--at", "HEAD~1") == dict.fromkeys(
        ["src/a.py", "src/", "src/twin.py"], ("unknown", "partial clone")
    )
    # HEAD is checked out; whether the copy was beside its twin, or is the twin under another name,
    # only the former directory says.
    assert paths(lab, repo)["src/twin.py"] == ("unknown", "partial clone") and paths(lab, seed)[
        "src/twin.py"
    ] == ("gone", "")
    (flat,) = [m["id"] for m in lab.json(repo, "list") if m["body"] == "the directory is flat"]
    done = lab.run(repo, sys.executable, "-m", "gitmem", "bisect", flat)
    assert done.returncode == 1 and not done.stdout and "(partial clone)" in done.stderr
    done = lab.run(repo, sys.executable, "-m", "gitmem", "check", "--since", "HEAD~1")
    assert (
        done.returncode == 1
        and "became stale" not in done.stdout
        and "this is a partial clone" in done.stderr
    )
    assert (
        "what the branch made stale is not known"
        in lab.run(repo, sys.executable, "-m", "gitmem", "diff", "HEAD~2..HEAD").stderr
    )


def test_who_wrote_lines_is_not_guessed_where_a_partial_clone_has_no_files(
    lab: Lab, seed: pathlib.Path
) -> None:
    repo = cloned(lab, seed, "--filter=blob:none")
    for argv in (["blame", "src/a.py:3"], ["blame", "src/a.py:3", "--at", "HEAD~2"]):
        done = lab.run(repo, sys.executable, "-m", "gitmem", *argv)
        assert (
            done.returncode == 1
            and "who wrote the lines of 'src/a.py' is not known (partial clone)" in done.stderr
        ), done.stderr
    done = lab.run(repo, sys.executable, "-m", "gitmem", "why", "src/a.py:3")
    assert (
        done.returncode == 0
        and "rule one is special" in done.stdout
        and "is not known (partial clone)" in done.stderr
    )
    lab.git(repo, "blame", "src/a.py")  # as the hint says
    done = lab.run(repo, sys.executable, "-m", "gitmem", "why", "src/a.py:3")
    assert "its commit" in done.stdout and "who wrote" not in done.stderr
    assert "rule_1" in lab.mem(repo, "blame", "src/a.py:3")


@pytest.mark.parametrize(("kept", "state"), [("blob:none", "same"), ("tree:0", "unknown")])
def test_many_memories_about_what_a_partial_clone_lacks_end_no_command(
    lab: Lab, seed: pathlib.Path, kept: str, state: str
) -> None:
    rows = []
    for text in ("first", "second"):
        for i in range(40):
            (seed / f"src/m{i}.py").write_text(f"{text} {i}\n")
        written = commit(lab, seed, text)
        rows += [
            json.dumps(
                {"body": f"{text} of number {i}", "paths": [f"src/m{i}.py"], "commit": written}
            )
            for i in range(40)
        ]
    lab.git(seed, "checkout", "-q", "topic")
    for i in range(40):
        (seed / "t.py").write_text(f"{i}\n")
        rows.append(
            json.dumps(
                {
                    "body": f"number {i} of the topic",
                    "paths": ["t.py"],
                    "commit": commit(lab, seed, f"t{i}"),
                }
            )
        )
    lab.mem(seed, "remember", "--jsonl", "-", stdin="\n".join(rows))
    lab.git(seed, "checkout", "-q", "main")
    repo = cloned(lab, seed, f"--filter={kept}", "--single-branch")
    before = objects(lab, repo)
    assert len(lab.json(repo, "list")) == 123
    then = {m["body"]: m["paths"][0]["state"] for m in lab.json(repo, "list", "--at", "HEAD~1")}
    assert {then[f"first of number {i}"] for i in range(40)} == {state}
    assert lab.json(repo, "check", rc=(1,))["complete"] is True
    assert objects(lab, repo) == before


def test_lines_are_not_said_to_be_by_the_commit_at_which_a_shallow_history_ends(
    lab: Lab, seed: pathlib.Path
) -> None:
    about(lab, seed, "about a commit that is the last one here", at="HEAD~1")
    assert "its commit" in lab.mem(seed, "why", "src/a.py:7")
    repo = cloned(lab, seed, "--depth=2")
    assert "about a commit" not in lab.mem(repo, "why", "src/a.py:1", rc=(0, 1))
    told = lab.json(repo, "blame", "src/a.py:1-8", rc=(0, 1))
    assert all(
        line["older"] for line in told["lines"]
    ) and "about a commit that is the last one here" not in {m["body"] for m in told["memories"]}
    assert f"^{head(lab, repo, 'HEAD~1')[:7]}" in lab.mem(repo, "blame", "src/a.py:1", rc=(0, 1))


def test_a_message_is_captured_without_paths_where_directories_would_be_fetched(
    lab: Lab, seed: pathlib.Path
) -> None:
    (seed / "src/b.py").write_text("b\n")
    commit(lab, seed, "b beside a\n\nDecision: b is kept beside a because the importer reads both")
    repo = cloned(lab, seed, "--filter=tree:0")
    lab.git(repo, "config", "mem.capture", "commits")
    before = objects(lab, repo)
    lab.mem(repo, "capture", "--now")
    assert objects(lab, repo) == before | set(
        lab.git(
            repo, "rev-list", "--objects", "--no-object-names", "refs/notes/mem/private"
        ).split()
    )
    (item,) = [m for m in lab.json(repo, "list") if "importer" in m["body"]]
    assert item["paths"] == []


def test_a_commit_that_is_not_here_is_none(lab: Lab, seed: pathlib.Path) -> None:
    topic = head(lab, seed, "topic")
    repo = cloned(lab, seed, "--filter=tree:0", "--single-branch")
    before = objects(lab, repo)
    for argv in (
        ["list", "--at", topic],
        ["diff", topic],
        ["check", "--since", topic],
        ["remember", "text", "--commit", topic],
    ):
        done = lab.run(repo, sys.executable, "-m", "gitmem", *argv)
        assert done.returncode == 1 and f"no commit '{topic}'" in done.stderr, (argv, done.stderr)
        assert objects(lab, repo) == before, argv


def test_changing_a_memory_fetches_no_commit_that_it_is_about(lab: Lab, seed: pathlib.Path) -> None:
    about(lab, seed, "tried on the branch", at="topic")
    rows = "\n".join(
        json.dumps({"body": f"number {i} " + "long " * 400, "commit": head(lab, seed, "topic")})
        for i in range(80)
    )
    lab.mem(seed, "remember", "--jsonl", "-", stdin=rows)  # more than one note holds
    repo = cloned(lab, seed, "--filter=blob:none", "--single-branch")
    before = objects(lab, repo)
    ids = {m["body"].split(" long")[0]: m["id"] for m in lab.json(repo, "list", "--all")}
    lab.mem(repo, "edit", ids["tried on the branch"], "-m", "tried there")
    lab.mem(repo, "supersede", ids["number 1"], "another one")
    lab.mem(repo, "forget", ids["number 70"])
    written = set(
        lab.git(repo, "rev-list", "--objects", "--no-object-names", "refs/notes/mem/team").split()
    )
    assert objects(lab, repo) == before | written
    lab.mem(repo, "sync")
    lab.mem(seed, "list")  # the other side reads what was written there
    assert {"tried there", "another one"} <= {m["body"] for m in lab.json(seed, "list", "--all")}


def test_notes_that_moved_to_a_commit_which_is_not_here_fetch_none(
    lab: Lab, seed: pathlib.Path
) -> None:
    lab.git(seed, "config", "notes.rewriteRef", "refs/notes/mem/*")
    lab.git(seed, "checkout", "-q", "topic")
    about(lab, seed, "topics are short")
    lab.git(seed, "commit", "-q", "--amend", "-m", "topic, amended")
    amended = head(lab, seed)
    lab.git(seed, "checkout", "-q", "main")
    repo = cloned(lab, seed, "--filter=blob:none", "--single-branch")
    lab.mem(repo, "index")
    assert amended not in objects(lab, repo)
    assert "topics are short" in lab.mem(repo, "list", "--all")


def test_a_revision_that_a_shallow_clone_lacks_is_refused_with_the_way_to_it(
    lab: Lab, seed: pathlib.Path
) -> None:
    repo = cloned(lab, seed, "--depth=2")
    (id,) = [m["id"] for m in lab.json(seed, "list") if m["body"] == "the directory is flat"]
    for argv in (
        ["log", "HEAD~3..HEAD"],
        ["remember", "text", "--commit", "HEAD~3"],
        ["list", "--at", "HEAD~3"],
        ["bisect", id],
    ):
        done = lab.run(repo, sys.executable, "-m", "gitmem", *argv)
        assert (
            done.returncode == 1
            and "this is a shallow clone: `git fetch --unshallow`" in done.stderr
        ), (argv, done.stderr)


def test_decisions_are_noted_at_head_where_directories_would_be_fetched(
    lab: Lab, seed: pathlib.Path
) -> None:
    (seed / "docs/adr").mkdir(parents=True)
    (seed / "docs/adr/0001-b.md").write_text(
        "# 1. Keep b\n\n## Status\n\nAccepted\n\n## Decision\n\nWe keep b beside a because the"
        " importer reads both.\n"
    )
    decided = commit(lab, seed, "decided")
    (seed / "later").write_text("x\n")
    commit(lab, seed, "later")
    for kept, known in (("blob:none", True), ("tree:0", False)):
        shutil.rmtree(lab.root / "clone", ignore_errors=True)
        repo = cloned(lab, seed, f"--filter={kept}")
        before = objects(lab, repo)
        done = lab.run(repo, sys.executable, "-m", "gitmem", "import", "adr")
        assert done.returncode == 0, done.stderr
        (item,) = [m for m in lab.json(repo, "list") if "importer" in m["body"]]
        assert item["anchor"]["commit"] == (decided if known else head(lab, repo))
        assert objects(lab, repo) == before | set(
            lab.git(
                repo, "rev-list", "--objects", "--no-object-names", "refs/notes/mem/team"
            ).split()
        )


def test_names_from_before_the_begin_of_a_shallow_history_are_said_to_be_missing(
    lab: Lab, seed: pathlib.Path
) -> None:
    lab.git(seed, "mv", "src/a.py", "src/b.py")
    commit(lab, seed, "another name")
    (seed / "new.py").write_text("new\n")
    commit(lab, seed, "a new file")
    assert "rule one is special" in lab.mem(seed, "why", "src/b.py")
    repo = cloned(lab, seed, "--depth=2")
    for argv, said in ((["src/b.py"], True), (["src"], True), (["new.py"], False)):
        done = lab.run(repo, sys.executable, "-m", "gitmem", "why", *argv)
        assert (
            f"git cannot read the history of '{argv[0]}' (shallow clone)" in done.stderr
        ) is said and done.stderr.count("\n") == said, done.stderr


def test_names_are_known_where_only_the_files_are_not_here(lab: Lab, seed: pathlib.Path) -> None:
    """A clone without files has every directory, so it knows which content a name has."""
    lab.mem(seed, "remember", "of a whole file", "--commit", "HEAD~2", "--path", "src/a.py")
    (seed / "odd:1").write_text("one\n")
    commit(lab, seed, "a name that looks like lines")
    repo = cloned(lab, seed, "--filter=blob:none", "--no-checkout")
    before = objects(lab, repo)
    (whole,) = [
        m for m in lab.json(repo, "list", "--at", "HEAD~3") if m["body"] == "of a whole file"
    ]
    assert whole["paths"][0]["state"] == "same"
    for path in ("src/a.py", "src/a.py:2", "odd:1"):
        about(
            lab, repo, f"noted here about {path}", path, at="HEAD" if path == "odd:1" else "HEAD~3"
        )
    about(lab, seed, "noted there", "src/a.py:2", at="HEAD~3")
    notes = [json.loads(line) for line in lab.lines(repo)]
    noted = {r["body"]: r["paths"][0] for r in notes if str(r.get("body")).startswith("noted here")}
    (there,) = [json.loads(line)["paths"][0] for line in lab.lines(seed) if "noted there" in line]
    assert (
        noted["noted here about src/a.py:2"] == {k: v for k, v in there.items() if k != "content"}
        and there["content"]
    )
    assert (
        noted["noted here about src/a.py"]["blob"] == there["blob"]
        and noted["noted here about odd:1"]["path"] == "odd:1"
    )
    written = set(
        lab.git(repo, "rev-list", "--objects", "--no-object-names", "refs/notes/mem/team").split()
    )
    assert objects(lab, repo) == before | written
