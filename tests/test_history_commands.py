"""What `log`, `why`, `blame`, `show` and `recall --at` say of commits, wherever git runs."""

from __future__ import annotations

import json
import pathlib

import pytest
from conftest import Lab
from history_world import BODY, QUESTION, SUBJECT, commit, found, made

SHAPE = {"kind", "id", "title", "body", "author", "created_at", "paths", "anchor", "tags"}
UPLOADS = "Uploads are retried five times"
QUOTAS = "Zanzibar quotas are counted twice"
ASKED = "why are zanzibar quotas counted twice by the relay"
SILENT = "mem.history is false, so commits are not searchable here"


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    return made(lab)


def listed(lab: Lab, repo: pathlib.Path, *words: str) -> list[str]:
    said = lab.mem(repo, "log", "--json", "--only", "history", *words)
    return [item["title"] for item in json.loads(said)]


def side_branch(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "checkout", "-q", "-b", "side")
    commit(lab, repo, f"{QUOTAS}\n\nThe relay sums them again.", "quotas.py")
    lab.git(repo, "checkout", "-q", "main")


# --- log --------------------------------------------------------------------


def test_log_lists_the_commits_of_a_range_in_the_order_of_git_log(
    lab: Lab, repo: pathlib.Path
) -> None:
    commit(lab, repo, "wip")
    assert listed(lab, repo) == [UPLOADS, SUBJECT, "commit 1", "commit 0"]
    assert listed(lab, repo, "HEAD~3..HEAD~1") == [UPLOADS, SUBJECT]
    assert listed(lab, repo, "-n", "1") == [UPLOADS]
    said = lab.mem(repo, "log", "--only", "history", "-n1")
    assert said.endswith(f" commit: {UPLOADS}\n") and said.count("\n") == 1


def test_log_lists_the_commits_that_changed_a_path_under_any_name(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.git(repo, "mv", "db/compact.py", "db/merge.py")
    lab.git(repo, "commit", "-q", "-m", "Compaction is called merging")
    assert listed(lab, repo, "--", "db/merge.py") == ["Compaction is called merging", SUBJECT]
    assert listed(lab, repo, "--path", "up.py") == [UPLOADS]
    assert listed(lab, repo, "HEAD~3", "--", "up.py") == []
    said = lab.mem(repo, "log", "--only", "history", "HEAD~3", "--", "up.py")
    assert said == "no searchable commits in this range about this path\n"


def test_log_lists_memories_where_nothing_else_is_asked_for(lab: Lab, repo: pathlib.Path) -> None:
    lab.json(repo, "remember", "Replicas sleep for an epoch at most")
    for words in ([], ["--only", "memories"]):
        (item,) = lab.json(repo, "log", *words)
        assert item["kind"] == "memory"
    assert "--only is 'notes'" in lab.run(repo, "git-mem", "log", "--only", "notes").stderr


def test_log_says_which_commits_of_a_range_are_unmerged(lab: Lab, repo: pathlib.Path) -> None:
    side_branch(lab, repo)
    (item,) = lab.json(repo, "log", "--only", "history", "main..side")
    assert item["anchor"]["state"] == "unmerged"


# --- why and blame ----------------------------------------------------------


def test_why_names_commits_that_say_why_a_file_changed(lab: Lab, repo: pathlib.Path) -> None:
    said = lab.mem(repo, "why", "db/compact.py", rc=(1,))
    assert said.startswith("no memory is about 'db/compact.py'\ncommits that say why:\n")
    assert SUBJECT in said and BODY in said and "Uploads" not in said
    (item,) = lab.json(repo, "why", "db/compact.py", rc=(1,))
    assert (item["kind"], item["title"]) == ("commit", SUBJECT)
    assert item["why"] == [{"by": "commit", "commit": item["id"]}]


def test_why_names_commits_of_unmerged_branches_below_those_of_this_history(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.git(repo, "checkout", "-q", "-b", "release")
    lab.env["GIT_COMMITTER_DATE"] = "2026-01-09T00:00:00Z"
    commit(lab, repo, "Newer, on the release branch\n\nThe relay asked for it.", "db/compact.py")
    lab.git(repo, "checkout", "-q", "main")
    found = lab.json(repo, "why", "db/compact.py", rc=(1,))
    assert [c["title"] for c in found] == [SUBJECT, "Newer, on the release branch"]


def test_why_follows_a_renamed_file_to_the_commits_that_explain_it(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.git(repo, "mv", "db/compact.py", "db/merge.py")
    lab.git(repo, "commit", "-q", "-m", "Compaction is called merging")
    assert [c["title"] for c in lab.json(repo, "why", "db/merge.py", rc=(1,))] == [SUBJECT]


def test_blame_names_the_newest_commits_that_wrote_the_lines_and_say_why(
    lab: Lab, repo: pathlib.Path
) -> None:
    for n in range(5):
        lab.env["GIT_COMMITTER_DATE"] = f"2026-01-0{n + 3}T00:00:00Z"
        commit(lab, repo, f"Round {n}\n\nThe relay asked for it.", "db/compact.py")
    commit(lab, repo, "No reason is given", "db/compact.py")
    found = lab.json(repo, "blame", "db/compact.py", rc=(1,))
    assert [c["title"] for c in found["commits"]] == ["Round 4", "Round 3", "Round 2"]
    (only,) = lab.json(repo, "blame", "db/compact.py:1", rc=(1,))["commits"]
    assert only["title"] == SUBJECT
    said = lab.mem(repo, "blame", "db/compact.py:1", rc=(1,))
    assert "no memory is about these lines\ncommits that say why:\n" in said and BODY in said
    assert lab.json(repo, "why", "db/compact.py:1", rc=(1,))[0]["title"] == SUBJECT


def test_blame_puts_commits_below_memories_and_then_ends_well(lab: Lab, repo: pathlib.Path) -> None:
    lab.json(repo, "remember", "Replicas sleep for an epoch at most", "--path", "db/compact.py:1")
    said = lab.mem(repo, "blame", "db/compact.py")
    assert said.index("Replicas sleep") < said.index("commits that say why") < said.rindex(BODY)


def test_lines_that_nobody_explained_or_committed_have_no_commits(
    lab: Lab, repo: pathlib.Path
) -> None:
    assert lab.json(repo, "blame", "f0.txt", rc=(1,))["commits"] == []
    assert lab.mem(repo, "blame", "f0.txt", rc=(1,)).endswith(
        "nothing is known about these lines\n"
    )
    (repo / "f0.txt").write_text("new\n")
    assert lab.json(repo, "blame", "f0.txt", rc=(1,))["commits"] == []


def test_a_commit_that_became_a_memory_is_not_named_beside_it(lab: Lab, repo: pathlib.Path) -> None:
    lab.json(repo, "promote", "HEAD~1")
    (item,) = lab.json(repo, "why", "db/compact.py")
    assert item["kind"] == "memory"
    assert lab.json(repo, "blame", "db/compact.py")["commits"] == []


# --- as of a revision -------------------------------------------------------


def test_as_of_a_revision_only_the_commits_that_it_reaches_answer(
    lab: Lab, repo: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    side_branch(lab, repo)
    assert found(lab, repo, ASKED, "--at", "HEAD~2") == []
    assert found(lab, repo, QUESTION, "--at", "HEAD~2") == []
    assert found(lab, repo, QUESTION, "--at", "HEAD~1")[0]["title"] == SUBJECT
    hits = found(lab, repo, ASKED, "--at", "side", "--only", "history")
    assert (hits[0]["title"], hits[0]["anchor"]["state"]) == (QUOTAS, "reachable")
    answer = lab.json(repo, "recall", QUESTION, "--at", "HEAD~1", "--only", "history")
    assert answer["history"] == {"searched": 3, "waiting": 0}
    assert [hit["title"] for hit in answer["hits"]].count(UPLOADS) == 0
    (tmp_path / "q.jsonl").write_text(json.dumps({"_id": "1", "text": QUESTION}))
    for at, expected in (("HEAD~2", 0), ("HEAD", 1)):
        row = lab.json(repo, "recall", "--batch", str(tmp_path / "q.jsonl"), "--at", at, "-n", "1")
        id = lab.git(repo, "rev-parse", "HEAD~1").strip()
        assert [h["id"] for h in row["hits"]].count(id) == expected


def test_as_of_a_revision_that_is_not_here_is_refused(lab: Lab, repo: pathlib.Path) -> None:
    for words in (["--only", "history"], []):
        done = lab.run(repo, "git-mem", "recall", QUESTION, "--at", "nosuch", *words)
        assert done.returncode == 1 and "no commit 'nosuch'" in done.stderr


def test_why_as_of_a_revision_names_only_commits_that_it_reaches(
    lab: Lab, repo: pathlib.Path
) -> None:
    commit(lab, repo, "Epochs last a day\n\nThe relay restarts at night.", "db/compact.py")
    later = [c["title"] for c in lab.json(repo, "why", "db/compact.py", rc=(1,))]
    assert sorted(later) == [SUBJECT, "Epochs last a day"]
    then = lab.json(repo, "why", "db/compact.py", "--at", "HEAD~1", rc=(1,))
    assert [c["title"] for c in then] == [SUBJECT]
    assert lab.json(repo, "why", "db/compact.py", "--at", "HEAD~3", rc=(1,)) == []


# --- every kind of repository -----------------------------------------------


def answers(lab: Lab, repo: pathlib.Path) -> None:
    """All commands name the commit, in one shape."""
    id = lab.git(repo, "rev-parse", "HEAD~1").strip()
    items = [
        found(lab, repo, QUESTION)[0],
        lab.json(repo, "show", id[:10]),
        lab.json(repo, "log", "--only", "history", "HEAD")[1],
        lab.json(repo, "why", "db/compact.py", "--at", "HEAD", rc=(1,))[0],
        lab.json(repo, "blame", "db/compact.py", "--at", "HEAD", rc=(1,))["commits"][0],
    ]
    for item in items:
        assert item.keys() >= SHAPE
        assert (item["kind"], item["id"], item["title"]) == ("commit", id, SUBJECT)
        assert item["body"] == BODY and item["paths"] == [{"path": "db/compact.py"}]
        assert item["anchor"] == {"commit": id, "branch": None, "state": "reachable"}
    for name in SHAPE:
        assert len({json.dumps(item[name]) for item in items}) == 1


def test_all_commands_name_a_commit_in_one_shape(lab: Lab, repo: pathlib.Path) -> None:
    answers(lab, repo)


def test_in_a_bare_repository(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "clone", "-q", "--bare", str(repo), "../bare.git")
    answers(lab, repo.parent / "bare.git")


def test_in_a_linked_worktree_with_a_detached_head(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "worktree", "add", "-q", "--detach", "../linked", "main")
    answers(lab, repo.parent / "linked")
    assert len(list((repo / ".git" / "mem").glob("history-*.db"))) == 1


def test_in_a_repository_of_sha256(lab: Lab) -> None:
    repo = made(lab, "--object-format=sha256")
    answers(lab, repo)
    assert len(found(lab, repo, QUESTION)[0]["id"]) == 64


def test_a_commit_that_no_branch_holds_answers_while_head_is_there(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.git(repo, "checkout", "-q", "--detach")
    commit(lab, repo, f"{QUOTAS}\n\nThe relay sums them again.")
    assert found(lab, repo, ASKED)[0]["title"] == QUOTAS
    lab.git(repo, "checkout", "-q", "main")
    assert all(hit["title"] != QUOTAS for hit in found(lab, repo, ASKED))


def test_in_a_repository_without_a_commit(lab: Lab) -> None:
    lab.env["GIT_MEM_HISTORY"] = "recall"
    repo = lab.root / "empty"
    lab.git(lab.root, "init", "-q", str(repo))
    assert found(lab, repo, QUESTION) == []
    assert lab.mem(repo, "log", "--only", "history") == "no searchable commits in this range\n"
    assert lab.json(repo, "why", "x.py", rc=(1,)) == []
    for words in (["blame", "x.py"], ["show", "abcdef12"], ["promote", "HEAD"]):
        done = lab.run(repo, "git-mem", *words)
        assert done.returncode == 1 and done.stderr.startswith("error: no ")


def test_switched_off_every_command_says_so_or_leaves_commits_out(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.env["GIT_MEM_HISTORY"] = "false"
    for words in (["log"], ["recall", "x"]):
        done = lab.run(repo, "git-mem", *words, "--only", "history")
        assert done.returncode == 2 and SILENT in done.stderr
    assert lab.json(repo, "why", "db/compact.py", rc=(1,)) == []
    assert lab.json(repo, "blame", "db/compact.py", rc=(1,))["commits"] == []
    id = lab.git(repo, "rev-parse", "HEAD~1").strip()
    done = lab.run(repo, "git-mem", "show", id)
    assert done.returncode == 1 and "not searchable, since mem.history is false" in done.stderr


def test_show_says_of_a_merge_that_it_is_a_commit(lab: Lab, repo: pathlib.Path) -> None:
    side_branch(lab, repo)
    lab.git(repo, "merge", "-q", "--no-ff", "-m", "Merge side", "side")
    id = lab.git(repo, "rev-parse", "HEAD").strip()
    done = lab.run(repo, "git-mem", "show", id[:12])
    assert done.returncode == 1 and f"'{id[:12]}' is a commit that is not" in done.stderr


# --- a memory made of a commit ----------------------------------------------


def test_a_promoted_commit_answers_once_as_the_memory(lab: Lab, repo: pathlib.Path) -> None:
    made = lab.json(repo, "promote", "HEAD~1", "--type", "decision")
    hits = found(lab, repo, QUESTION)
    assert (hits[0]["kind"], hits[0]["id"]) == ("memory", made["id"])
    assert [hit["title"] for hit in hits].count(SUBJECT) == 1
    only = found(lab, repo, QUESTION, "--only", "history")
    assert (only[0]["kind"], only[0]["body"]) == ("commit", BODY)


def test_promoting_a_known_commit_says_that_another_type_changes_nothing(
    lab: Lab, repo: pathlib.Path
) -> None:
    id = lab.json(repo, "promote", "HEAD~1", "--type", "decision")["id"]
    assert lab.said(repo, "promote", "HEAD~1") == ""
    note = f"note: nothing was changed; `git mem edit {id[:8]}` changes what is known\n"
    assert lab.said(repo, "promote", "HEAD~1", "--type", "gotcha") == note
    assert lab.said(repo, "promote", "HEAD~1", "--tag", "db") == note


def test_an_unusual_type_is_noted_when_a_commit_is_promoted(lab: Lab, repo: pathlib.Path) -> None:
    said = lab.said(repo, "promote", "HEAD~1", "--type", "decsion")
    assert said == "note: 'decsion' is none of the usual types; did you mean decision?\n"


def test_an_imported_commit_answers_once_as_the_memory(lab: Lab, repo: pathlib.Path) -> None:
    reason = "We chose tombstones instead of locks because a replica that slept comes back."
    id = commit(lab, repo, f"Compaction decides by tombstones\n\n{reason}")
    suggested = lab.json(repo, "import", "git-log")["memories"]
    question = "why did we choose tombstones instead of locks"
    assert found(lab, repo, question)[0]["kind"] == "commit"
    lab.mem(repo, "review", "--accept", next(s["id"] for s in suggested if s["commit"] == id))
    hits = found(lab, repo, question)
    assert (hits[0]["kind"], hits[0]["source"]) == ("memory", f"commit:{id}")
    assert id not in [hit["id"] for hit in hits]


def test_a_commit_that_says_more_than_its_trailer_answers_beside_the_memory(
    lab: Lab, repo: pathlib.Path
) -> None:
    reason = "The relay sums them again, since it restarts at night and forgets the epoch."
    trailer = "Decision: quotas are counted twice by the relay"
    id = commit(lab, repo, f"{QUOTAS}\n\n{reason}\n\n{trailer}")
    assert lab.json(repo, "import", "git-log")["kept"] == 1
    hits = found(lab, repo, ASKED)
    assert hits[0]["kind"] == "memory" and id in [hit["id"] for hit in hits]
