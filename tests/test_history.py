"""Commit messages answer questions, before anybody remembered anything, and write no note."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import sqlite3

import pytest
from conftest import Lab
from history_world import BODY, QUESTION, SUBJECT, commit, found, made

from gitmem.core import commit_message
from gitmem.engine import commit_index
from gitmem.git import commit_reader, refs_mtime
from gitmem.store import open_store


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    return made(lab)


def titles(lab: Lab, repo: pathlib.Path) -> set[str]:
    """What the cache of commits holds."""
    (file,) = (repo / ".git" / "mem").glob("history-*.db")
    db = sqlite3.connect(file)
    rows = db.execute("SELECT m.id FROM memory m").fetchall()
    db.close()
    log = lab.git(repo, "log", "--all", "--reflog", "--format=%H %s").splitlines()
    subjects = dict(line.split(" ", 1) for line in log)
    return {subjects[id] for (id,) in rows}


def test_a_commit_answers_and_says_what_it_is(lab: Lab, repo: pathlib.Path) -> None:
    hit = found(lab, repo, QUESTION)[0]
    assert (hit["kind"], hit["title"], hit["body"]) == ("commit", SUBJECT, BODY)
    assert hit["id"] == lab.git(repo, "rev-parse", "HEAD~1").strip()
    assert hit["author"] == "Ada <ada@example.org>" and hit["created_at"] == "2026-01-02T03:04:05Z"
    assert hit["paths"] == [{"path": "db/compact.py"}]
    assert hit["anchor"]["state"] == "reachable"
    assert not lab.git(repo, "for-each-ref", "refs/notes")


def test_small_talk_around_a_question_changes_no_score(lab: Lab, repo: pathlib.Path) -> None:
    around = f"ok great. {QUESTION}. Make sure that all tests still pass before you commit."
    assert found(lab, repo, around)[0]["score"] == found(lab, repo, QUESTION)[0]["score"]


def test_a_new_commit_is_found_and_one_that_went_is_not(lab: Lab, repo: pathlib.Path) -> None:
    found(lab, repo, QUESTION)
    commit(lab, repo, "Zanzibar quotas are counted twice\n\nThe relay sums them again.")
    question = "why are zanzibar quotas counted twice by the relay"
    assert found(lab, repo, question)[0]["title"].startswith("Zanzibar")
    lab.git(repo, "reset", "-q", "--hard", "HEAD~1")
    assert all(not h["title"].startswith("Zanzibar") for h in found(lab, repo, question))
    assert titles(lab, repo) == {SUBJECT, "Uploads are retried five times", "commit 0", "commit 1"}


def test_a_commit_of_an_open_branch_is_found_and_says_so(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "checkout", "-q", "-b", "side")
    commit(lab, repo, "Zanzibar quotas are counted twice\n\nThe relay sums them again.")
    lab.git(repo, "checkout", "-q", "main")
    hit = found(lab, repo, "why are zanzibar quotas counted twice by the relay")[0]
    assert hit["anchor"]["state"] == "unmerged"


def test_what_was_noted_of_the_refs_counts_for_the_tips_of_then(
    lab: Lab, repo: pathlib.Path
) -> None:
    """Another worktree, or an older git mem, may have written other tips since."""
    lab.git(repo, "checkout", "-q", "-b", "side")
    commit(lab, repo, "Zanzibar quotas are counted twice\n\nThe relay sums them again.")
    lab.git(repo, "checkout", "-q", "main")
    for path in (repo / ".git" / "refs").rglob("*"):
        os.utime(path, ns=(10**18, 10**18))

    def noted(*new: str) -> str:
        (file,) = (repo / ".git" / "mem").glob("history-*.db")
        with contextlib.closing(sqlite3.connect(file)) as db, db:
            if new:
                db.execute("UPDATE meta SET value = ? WHERE key = 'refs'", new)
            return str(db.execute("SELECT value FROM meta WHERE key = 'refs'").fetchone()[0])

    question = "why are zanzibar quotas counted twice by the relay"
    assert found(lab, repo, question)[0]["anchor"]["state"] == "unmerged"
    assert (before := noted())
    lab.git(repo, "checkout", "-q", "side")
    assert found(lab, repo, question)[0]["anchor"]["state"] == "reachable"
    assert noted(before) == before
    lab.git(repo, "checkout", "-q", "main")
    assert found(lab, repo, question)[0]["anchor"]["state"] == "unmerged"


def test_of_more_directories_than_are_looked_at_nothing_is_noted(
    repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (repo / ".git" / "refs").rglob("*"):
        os.utime(path, ns=(10**18, 10**18))
    monkeypatch.setenv("GIT_MEM_HISTORY", "recall")
    with contextlib.closing(open_store(os.environ, str(repo))) as store:
        cache = store.history()
        assert cache is not None
        for most, noted in ((1, False), (1_000, True)):
            monkeypatch.setattr(refs_mtime, "MOST", most)
            commit_index.update(store.repo.git, cache, store.table, store.repo.head(), 100)
            assert bool(cache.meta("refs")) == noted


def test_a_tip_that_git_removed_is_no_obstacle(lab: Lab, repo: pathlib.Path) -> None:
    commit(lab, repo, "Zanzibar quotas are counted twice")
    found(lab, repo, QUESTION)
    lab.git(repo, "reset", "-q", "--hard", "HEAD~1")
    lab.git(repo, "reflog", "expire", "--expire=now", "--all")
    lab.git(repo, "gc", "-q", "--prune=now")
    assert found(lab, repo, QUESTION)[0]["title"] == SUBJECT


def test_a_memory_stands_before_the_commit_that_says_the_same(lab: Lab, repo: pathlib.Path) -> None:
    id = lab.json(repo, "remember", f"{SUBJECT}\n\n{BODY}", "--type", "decision")["id"]
    hits = found(lab, repo, QUESTION)
    assert [(h["kind"], h["id"] == id) for h in hits[:2]] == [("memory", True), ("commit", False)]


def test_commits_that_do_not_fit_are_not_put_beside_memories(lab: Lab, repo: pathlib.Path) -> None:
    lab.json(repo, "remember", "We deploy on fridays, since the cluster is empty then.")
    hits = found(lab, repo, "why do we deploy on fridays when the cluster is empty")
    assert [h["kind"] for h in hits] == ["memory"]


def test_only_one_kind_where_that_is_wanted(lab: Lab, repo: pathlib.Path) -> None:
    lab.json(repo, "remember", f"{SUBJECT}\n\n{BODY}")
    assert {h["kind"] for h in found(lab, repo, QUESTION, "--only", "memories")} == {"memory"}
    assert {h["kind"] for h in found(lab, repo, QUESTION, "--only", "history")} == {"commit"}
    done = lab.run(repo, "git-mem", "recall", "x", "--only", "notes")
    assert done.returncode == 2 and "memories or history" in done.stderr
    typed = lab.run(repo, "git-mem", "recall", "x", "--only", "history", "--type", "gotcha")
    assert typed.returncode == 2 and "no type" in typed.stderr


def test_a_filter_that_only_memories_meet_leaves_commits_out(lab: Lab, repo: pathlib.Path) -> None:
    for option in (("--type", "gotcha"), ("--tag", "x"), ("--scope", "team")):
        assert found(lab, repo, QUESTION, *option) == []


def test_filters_of_path_author_and_time_hold_for_commits(lab: Lab, repo: pathlib.Path) -> None:
    assert found(lab, repo, QUESTION, "--path", "db")[0]["title"] == SUBJECT
    assert all(h["title"] != SUBJECT for h in found(lab, repo, QUESTION, "--path", "up.py"))
    assert found(lab, repo, QUESTION, "--author", "grace") == []
    assert found(lab, repo, QUESTION, "--since", "2026-02-01") == []


def test_batch_mixes_both_and_names_the_kind(
    lab: Lab, repo: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    lab.json(repo, "remember", f"{SUBJECT}\n\n{BODY}")
    (tmp_path / "q.jsonl").write_text(json.dumps({"_id": "1", "text": QUESTION}))
    row = lab.json(repo, "recall", "--batch", str(tmp_path / "q.jsonl"))
    assert [h["kind"] for h in row["hits"]][:2] == ["memory", "commit"]
    assert set(row["hits"][0]) == {"id", "kind", "source", "score", "retrieval"}


def test_switched_off_it_reads_and_makes_nothing(lab: Lab, repo: pathlib.Path) -> None:
    lab.env["GIT_MEM_HISTORY"] = ""
    lab.git(repo, "config", "mem.history", "false")
    assert found(lab, repo, QUESTION) == []
    assert not list((repo / ".git" / "mem").glob("history-*"))
    assert lab.json(repo, "status")["history"] == {"commits": 0, "of": 0}


def test_init_and_index_say_how_many_commits_are_searchable(lab: Lab, repo: pathlib.Path) -> None:
    assert "  searchable: 4 commits" in lab.mem(repo, "init").splitlines()
    assert lab.json(repo, "status")["history"] == {"commits": 4, "of": 4}
    assert "4 of 4 commits are searchable" in lab.mem(repo, "index", "--rebuild")


def test_the_newest_commits_up_to_the_limit(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "config", "mem.historyLimit", "1")
    lab.mem(repo, "index")
    assert lab.json(repo, "status")["history"] == {"commits": 1, "of": 4}
    commit(lab, repo, "Zanzibar quotas are counted twice")
    lab.mem(repo, "index")
    assert len(titles(lab, repo)) == 1


def test_a_damaged_cache_of_commits_is_made_anew(lab: Lab, repo: pathlib.Path) -> None:
    found(lab, repo, QUESTION)
    (file,) = (repo / ".git" / "mem").glob("history-*.db")
    data = bytearray(file.read_bytes())
    data[4096:12288] = os.urandom(8192)
    file.write_bytes(data)
    assert found(lab, repo, QUESTION)[0]["title"] == SUBJECT


def test_show_knows_a_commit(lab: Lab, repo: pathlib.Path) -> None:
    found(lab, repo, QUESTION)
    id = lab.git(repo, "rev-parse", "HEAD~1").strip()
    said = lab.mem(repo, "show", id[:8])
    assert SUBJECT in said and BODY in said and f"git mem promote {id[:8]}" in said
    assert lab.json(repo, "show", id)["kind"] == "commit"
    assert lab.json(repo, "show", "HEAD~1")["id"] == id  # as git names it
    assert lab.run(repo, "git-mem", "show", "abcdef123").returncode == 1


def test_promote_makes_a_commit_a_memory(lab: Lab, repo: pathlib.Path) -> None:
    id = lab.git(repo, "rev-parse", "HEAD~1").strip()
    made = lab.json(repo, "promote", "HEAD~1", "--type", "decision", "--tag", "db")
    (item,) = lab.json(repo, "list")
    assert made["status"] == "stored" and item["id"] == made["id"]
    assert (item["title"], item["body"], item["type"]) == (SUBJECT, BODY, "decision")
    assert item["tags"] == ["db"] and item["source"] == f"commit:{id}"
    assert item["anchor"]["commit"] == id and item["paths"][0]["path"] == "db/compact.py"
    assert lab.json(repo, "promote", id)["status"] == "duplicate"
    assert lab.run(repo, "git-mem", "promote", "nosuch").returncode == 1


def test_reading_named_commits_reads_no_others(lab: Lab, repo: pathlib.Path) -> None:
    ids = [lab.git(repo, "rev-parse", name).strip() for name in ("HEAD", "HEAD~2")]
    store = open_store(os.environ, str(repo))
    read = commit_reader.read(store.repo.git, ids, [], len(ids), walk=False)
    store.close()
    assert {one.id for one in read} == set(ids)


def test_a_prompt_gets_commits_only_where_the_setting_says_so(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "config", "mem.promptContext", "true")
    lab.mem(repo, "init")
    for n in range(60):  # in a store of a few commits no word is rare enough to be sure
        commit(lab, repo, f"Step {n} of the long migration of tables to the other region {n}")
    lab.mem(repo, "index")
    event = (
        '{"hook_event_name": "UserPromptSubmit", "session_id": "s1", "cwd": "%s", "prompt": "%s"}'
    )
    asked = event % (repo, QUESTION)
    assert lab.mem(repo, "hook", "UserPromptSubmit", stdin=asked) == ""
    told = lab.mem(
        repo, "hook", "UserPromptSubmit", stdin=asked, env={"GIT_MEM_HISTORY": "prompts"}
    )
    assert SUBJECT in told and 'type=\\"commit\\"' in told
    other = event % (repo, "go on")
    assert not lab.mem(
        repo, "hook", "UserPromptSubmit", stdin=other, env={"GIT_MEM_HISTORY": "prompts"}
    )


@pytest.mark.quick
@pytest.mark.parametrize(
    ("author", "message", "informs"),
    [
        ("Ada <a@b>", "Keep the tombstones", True),
        ("Ada <a@b>", "Bump ruff to 0.5.1", False),
        ("Ada <a@b>", "Bump ruff to 0.5.1\n\nThe new rule finds unused arguments.", True),
        ("dependabot[bot] <support@github.com>", "Bump x from 1 to 2\n\nRelease notes", False),
        ("Ada <a@b>", "fixup! Keep the tombstones", False),
        ("Ada <a@b>", "wip\n\nSigned-off-by: Ada <a@b>", False),
    ],
)
def test_machines_and_upkeep_inform_nobody(author: str, message: str, informs: bool) -> None:
    assert commit_message.informs(author, *commit_message.split(message)) is informs
