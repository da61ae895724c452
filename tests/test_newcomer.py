"""What a newcomer stumbled over at a terminal of 80 columns (docs/ten-tasks.md)."""

from __future__ import annotations

import io
import os
import pathlib
from typing import Any

import pytest
from conftest import Lab
from test_history import QUESTION, SUBJECT, commit

from gitmem.capture import review, suggestions
from gitmem.cli import admin, common
from gitmem.core.errors import Refused
from gitmem.memory import write_gate
from gitmem.render import memory_text, terminal
from gitmem.store import open_store

WHY = f"{SUBJECT}\n\nElse a replica that slept resurrects deleted rows."


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    lab.env["GIT_MEM_HISTORY"] = "recall"
    repo = lab.repo(commits=1)
    commit(lab, repo, WHY, "compact.py")
    return repo


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "width", lambda: 40)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("short", ["short"]),
        (
            "  set notes.rewriteRef = refs/notes/mem/*  (memories follow)",
            ["  set notes.rewriteRef =", "      refs/notes/mem/*  (memories", "      follow)"],
        ),
    ],
)
def test_a_terminal_breaks_a_line_between_words_and_indents_what_follows(
    line: str,
    shown: list[str],
    narrow: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    common.write(line)
    assert capsys.readouterr().out.splitlines() == shown
    piped = io.StringIO()
    terminal.say(line, piped)
    assert piped.getvalue() == line + "\n"


@pytest.mark.quick
def test_a_long_value_stays_in_its_column(narrow: None, capsys: pytest.CaptureFixture[str]) -> None:
    terminal.pairs([("cache", "0.4 MB, up to date, 3 memories without a vector"), ("tags", "")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("cache:           0.4 MB")
    assert lines[1:3] == [" " * 17 + "memories without a", " " * 17 + "vector"]


def _answer(verdict: str, hits: int, memories: int) -> dict[str, Any]:
    history = {"searched": 9, "waiting": 0}
    return {
        "verdict": verdict, "hits": [{}] * hits, "searched": memories, "history": history,
        "degraded": False,
    }  # fmt: skip


@pytest.mark.quick
def test_the_last_line_counts_hits_among_what_was_searched() -> None:
    assert memory_text.verdict(_answer("HIT", 8, 3)) == "HIT: 8 among 3 memories and 9 commits"
    weak = memory_text.verdict(_answer("WEAK", 4, 3))
    assert weak == "WEAK: 4 among 3 memories and 9 commits, perhaps no answer"
    assert memory_text.verdict(_answer("MISS", 0, 3)).startswith("MISS: nothing among 3 memories")


@pytest.mark.quick
def test_a_text_that_holds_a_secret_is_called_the_text() -> None:
    token = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    with pytest.raises(Refused, match="the text looks like it holds a secret"):
        write_gate._refuse({"body": f"the token is {token}"})


def test_edit_takes_the_new_text_as_supersede_does(lab: Lab, repo: pathlib.Path) -> None:
    id = lab.json(repo, "remember", "imports take 180 ms")["id"]
    lab.mem(repo, "edit", id, "imports take 90 ms")
    assert lab.json(repo, "list")[0]["title"] == "imports take 90 ms"
    assert lab.run(repo, "git-mem", "edit", id, "x", "-m", "y").returncode == 2


def test_edit_without_a_change_says_where_all_its_options_are(lab: Lab, repo: pathlib.Path) -> None:
    done = lab.run(repo, "git-mem", "edit", "12345678")
    assert done.returncode == 2 and "`git mem edit -h`" in done.stderr


def test_a_review_names_memories_near_a_suggestion_and_no_commits(
    lab: Lab, repo: pathlib.Path
) -> None:
    store = open_store(os.environ | lab.env, str(repo))
    draft = {"body": f"{SUBJECT}, for replicas", "type": "decision", "confidence": 0.8}
    (made,) = suggestions.propose(store, [{**draft, "score": 0.8, "stage": "rules"}])
    assert lab.json(repo, "recall", QUESTION)["hits"]  # the commit would be near
    assert review.near(store, review.find(store, made.id)) == []
    store.close()


def test_a_dry_run_of_an_import_says_would(lab: Lab, repo: pathlib.Path) -> None:
    text = "# Use uv\n\n## Status\n\nAccepted\n\n## Decision\n\nIt locks and installs.\n"
    (repo / "docs" / "adr").mkdir(parents=True)
    (repo / "docs" / "adr" / "0001-use-uv.md").write_text(text)
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-qm", "records")
    assert "would be stored docs/adr/0001-use-uv.md: Use uv" in lab.mem(repo, "import", "adr", "-n")
    assert " stored docs/adr/0001-use-uv.md: Use uv" in lab.mem(repo, "import", "adr")


def test_a_dry_run_of_an_export_says_would(lab: Lab, repo: pathlib.Path) -> None:
    lab.mem(repo, "remember", "Use uv", "--type", "decision")
    for dry, would in ((["-n"], "would be "), ([], "")):
        assert lab.mem(repo, "export", "claude", *dry).startswith(f"{would}written git-mem-")
    assert lab.mem(repo, "export", "claude", "--remove", "-n").startswith("would be removed ")


def test_install_says_what_to_look_at_and_how_to_take_it_back(lab: Lab, repo: pathlib.Path) -> None:
    said = lab.mem(repo, "install", "claude", "--allow")
    assert "\nClaude Code: permission Bash(git mem *) in '" in said
    assert "`git mem context` shows what a session is told" in said
    assert "`git mem uninstall claude` takes this back" in said
    said = lab.mem(repo, "install", "agents-md")  # whose agent runs no hook, and is told nothing
    assert said.endswith("\n`git mem uninstall agents-md` takes this back\n"), said


@pytest.mark.quick
def test_a_hit_shows_its_last_line_instead_of_one_that_counts_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    item = {
        "kind": "memory", "id": "a" * 32, "title": "Title", "type": "gotcha", "created_at": "",
        "author": "", "tags": [], "paths": [], "provenance": "", "scope": "team",
        "anchor": {"state": "reachable"},
    }  # fmt: skip
    for lines, last in ((7, "line 6"), (8, "… 2 more lines: git mem show aaaaaaaa")):
        memory_text.hit(
            {**item, "body": "\n".join(["Title", *(f"line {n}" for n in range(lines))])}
        )
        assert capsys.readouterr().out.splitlines()[-1].strip() == last


def test_nothing_found_is_said_of_what_was_asked_for(lab: Lab, repo: pathlib.Path) -> None:
    lab.mem(repo, "remember", "a fact")
    assert lab.mem(repo, "list", "--stale") == "no stale memories\n"
    assert lab.mem(repo, "list", "--at", "HEAD~1") == "no memories at HEAD~1\n"
    said = lab.mem(repo, "recall", "rows", "--only", "history", "--until", "2001-01-01", rc=(1,))
    assert said == "MISS: nothing passes this filter\n"
    assert lab.mem(repo, "review", "--decided", rc=(1,)) == "nothing waits, nothing was decided\n"


def test_the_first_memory_is_one_memory(lab: Lab, repo: pathlib.Path) -> None:
    lab.mem(repo, "remember", "The staging server loses its clock after a reboot")
    assert lab.mem(repo, "index").startswith("1 memory indexed, ")
    assert "cache: 1 memory, " in lab.mem(repo, "doctor", rc=(0, 1))
    assert lab.mem(repo, "bench").startswith("1 memory, 1 question, 60 everyday prompts\n")


@pytest.mark.quick
def test_status_says_what_a_memory_is_without() -> None:
    names = "memories team private superseded forgotten not_shared without_vectors"
    facts = {**dict.fromkeys(names.split(), 0), "repository": "", "hooks": [], "refs": {}}
    facts |= {"history": {"of": 0}, "cache": __file__, "without_better_vectors": 1}
    assert "up to date, 1 memory without a better vector" in dict(admin._pairs(facts))["cache"]
