"""`doctor` names what is wrong and mends, on request, what needs nobody's decision."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

from conftest import Lab

REF = "refs/notes/mem/team"


def findings(lab: Lab, repo: pathlib.Path, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lab.json(repo, "doctor", *options, rc=(0, 1))
    return found


def warned(lab: Lab, repo: pathlib.Path) -> str:
    return "\n".join(f["text"] for f in findings(lab, repo) if f["level"] in ("warn", "bad"))


def commit_tree(lab: Lab, repo: pathlib.Path, rows: str) -> None:
    """Puts a tree made by hand on top of the notes, as another tool would."""
    lab.git(
        repo,
        "update-ref",
        REF,
        lab.git(
            repo,
            "commit-tree",
            "-m",
            "foreign",
            "-p",
            REF,
            lab.git(repo, "mktree", stdin=rows).strip(),
        ).strip(),
    )


def test_a_repair_that_cannot_write_says_so(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "--", "some text")
    (repo / ".git" / "git-mem-install.json").mkdir()
    told = lab.mem(repo, "doctor", "--repair")
    assert (
        "not mended: what was added to git's configuration cannot be noted" in told
        and "not mended" not in lab.mem(repo, "doctor", "--repair")
    )


def test_a_healthy_repository_has_nothing_to_mend(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    lab.mem(repo, "remember", "all is well")
    assert warned(lab, repo) == ""
    before = lab.git(repo, "for-each-ref")
    assert "mended" not in lab.mem(repo, "doctor", "--repair")
    assert lab.git(repo, "for-each-ref") == before


def test_settings_that_went_are_put_back(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    lab.git(repo, "config", "--unset-all", "notes.rewriteRef")
    assert "notes.rewriteRef lacks" in warned(lab, repo)
    assert "mended: notes.rewriteRef" in lab.mem(repo, "doctor", "--repair")
    assert lab.git(repo, "config", "notes.rewriteRef").strip() == "refs/notes/mem/*"


def test_a_commit_annotated_under_two_paths_gets_one_with_the_next_write_and_keeps_every_line(
    lab: Lab,
) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    lab.mem(repo, "remember", "the first")
    head = lab.git(repo, "rev-parse", "HEAD").strip()
    blob = lab.git(repo, "hash-object", "-w", "--stdin", stdin="a line elsewhere\n").strip()
    below = lab.git(repo, "mktree", stdin=f"100644 blob {blob}\t{head[2:]}\n").strip()
    commit_tree(lab, repo, lab.git(repo, "ls-tree", REF) + f"040000 tree {below}\t{head[:2]}\n")
    lab.mem(repo, "remember", "the second")
    paths = [
        p
        for p in lab.git(repo, "ls-tree", "-r", "--name-only", REF).splitlines()
        if p.replace("/", "") == head
    ]
    assert len(paths) == 1
    note = lab.git(repo, "notes", "--ref=mem/team", "show", "HEAD")
    assert "the first" in note and "a line elsewhere" in note


def test_lines_that_stock_git_took_out_are_put_back(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    lab.mem(repo, "remember", "the first")
    lab.git(repo, "notes", "--ref=mem/team", "remove", "HEAD")
    assert "1 line taken out" in warned(lab, repo)
    assert "1 line put back" in lab.mem(repo, "doctor", "--repair")
    assert "the first" in lab.git(repo, "notes", "--ref=mem/team", "show", "HEAD")


def test_broken_lines_are_named_and_kept(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    lab.mem(repo, "remember", "whole")
    lab.git(
        repo, "notes", "--ref=mem/team", "append", "-m", '{"v":1,"op":"create","id":"ab', "HEAD"
    )
    assert "1 line that began as a record and cannot be read" in warned(lab, repo)
    lab.mem(repo, "doctor", "--repair")
    assert '{"v":1,"op":"create","id":"ab' in lab.git(
        repo, "notes", "--ref=mem/team", "show", "HEAD"
    )


def test_a_secret_that_came_in_is_flagged_and_not_repeated(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    secret = "AKIA" + "Q7RT2WXYZ3LMNOP4"
    lab.git(repo, "notes", "--ref=mem/team", "append", "-m", f"aws key {secret}", "HEAD")
    assert "1 text that may hold a secret" in warned(lab, repo) and secret not in warned(lab, repo)


def test_a_damaged_cache_is_built_anew(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    lab.mem(repo, "remember", "kept in the notes")
    lab.mem(repo, "recall", "kept")
    for path in (repo / ".git" / "mem").glob("index-*.db"):
        path.write_bytes(b"garbage" * 1000)
    done = lab.run(repo, sys.executable, "-m", "gitmem", "doctor", "--repair")
    assert done.returncode == 0 and "the cache was built anew: 1 text" in done.stdout
    assert warned(lab, repo) == ""


def test_hooks_that_went_are_put_back(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    lab.mem(repo, "install", "git")
    (repo / ".git" / "hooks" / "post-commit").unlink()
    assert "hooks" in warned(lab, repo)
    lab.mem(repo, "doctor", "--repair")
    assert (repo / ".git" / "hooks" / "post-commit").exists() and warned(lab, repo) == ""


def test_a_second_git_mem_on_the_path_is_named(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    paths = []
    for name in ("one", "two"):
        (lab.root / name).mkdir()
        program = lab.root / name / "git-mem"
        program.write_text(f"#!/bin/sh\n# {name}\n")
        program.chmod(0o755)
        paths.append(str(lab.root / name))
    lab.env["PATH"] = ":".join([*paths, lab.env["PATH"]])
    assert "git mem are on PATH" in warned(lab, repo)


def test_a_commit_that_nothing_holds_is_listed_and_left_to_the_user(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    lab.git(repo, "checkout", "-q", "-b", "topic")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "lost")
    lab.mem(repo, "remember", "about a lost commit")
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "branch", "-q", "-D", "topic")
    before = lab.git(repo, "rev-parse", REF)
    assert "no branch holds" in warned(lab, repo)
    lab.mem(repo, "doctor", "--repair")
    assert "no branch holds" in warned(lab, repo) and lab.git(repo, "rev-parse", REF) == before


def test_a_ref_whose_commit_is_gone_is_no_empty_store_and_is_mended(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    lab.mem(repo, "remember", "the first")
    lab.mem(repo, "remember", "the second")
    tip = lab.git(repo, "rev-parse", REF).strip()
    (repo / ".git" / "objects" / tip[:2] / tip[2:]).unlink()
    found = findings(lab, repo)
    assert any(f["level"] == "warn" and "could not be read" in f["text"] for f in found)
    assert not any("no memories yet" in f["text"] and f["text"].startswith("team") for f in found)
    (repo / ".git" / REF).write_text(tip + "\n")
    assert "the ref is whole again" in lab.mem(repo, "doctor", "--repair")
    assert {m["body"] for m in lab.json(repo, "list", "--all")} == {"the first", "the second"}
    lab.git(repo, "fsck", "--strict", "--no-reflogs")


def test_a_model_that_is_set_and_not_there_is_named(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init", "--offline")
    assert "mem.model" not in lab.mem(repo, "doctor", rc=(0, 1))
    lab.git(repo, "config", "mem.model", "/nowhere/a.gguf")
    lab.git(repo, "config", "mem.embedModel", "no-such-model")
    done = lab.mem(repo, "doctor", rc=(0, 1))
    assert (
        "mem.model: '/nowhere/a.gguf' is not there" in done
        and "mem.embedModel: the model 'no-such-model' is neither known nor a path" in done
    )
    lab.git(repo, "config", "mem.model", "none")
    lab.git(repo, "config", "--unset", "mem.embedModel")
    assert "mem.model" not in lab.mem(repo, "doctor", rc=(0, 1))
