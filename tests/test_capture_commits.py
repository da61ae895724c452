"""What commits say, looked at without any agent, and what a project has said before git mem
came."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest
from capture_world import TRAILER, listed
from conftest import Lab
from hook_world import poll

from gitmem import worker
from gitmem.capture import commitlog, pipeline, worker_tasks
from gitmem.git import commit_reader
from gitmem.hooks import worker_log
from gitmem.store import open_store


@pytest.fixture
def repo(lab: Lab, repo: pathlib.Path) -> pathlib.Path:
    lab.git(repo, "config", "mem.capture", "commits")
    return repo


def commit(lab: Lab, repo: pathlib.Path, message: str, *files: str) -> str:
    for name in files:
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(message)
        lab.git(repo, "add", name)
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", message)
    return lab.git(repo, "rev-parse", "HEAD").strip()


def texts(message: str) -> list[tuple[str, str]]:
    """(type, text) of what a message gives."""
    return [
        (c.type, c.text)
        for c in commitlog.candidates(
            [
                commit_reader.Commit(
                    "c" * 40, "2026-01-02T03:04:05Z", "Ada <ada@example.org>", message, []
                )
            ]
        )
    ]


# --- messages ----------------------------------------------------------------


def test_trailers_are_memories_of_their_types() -> None:
    found = texts(
        "Move the orders\n\nLong ago they lay elsewhere.\n\nDecision: orders stay in"
        " PostgreSQL\nLearned: the driver pools by user\n  and by database\nGotcha: its pool is"
        " never drained\nSigned-off-by: A <a@b>"
    )
    assert found == [
        ("decision", "orders stay in PostgreSQL"),
        ("learning", "the driver pools by user\nand by database"),
        ("gotcha", "its pool is never drained"),
    ]


def test_a_message_of_fences_alone_takes_no_longer_than_another() -> None:
    """Such a commit kept the worker busy until it was killed: 40 KB took a minute."""
    assert texts("```\n" * 49_000) == []


def test_a_trailer_that_was_wrapped_goes_on() -> None:
    found = texts(
        "Subject\n\nDecision: use PostgreSQL and not MongoDB, because orders and\ninvoices share a"
        " transaction\nReviewed-by: B <b@c>"
    )
    assert found == [
        (
            "decision",
            "use PostgreSQL and not MongoDB, because orders and\ninvoices share a transaction",
        )
    ]


def test_a_word_counts_to_the_length_of_the_line_it_begins() -> None:
    told = "`pr-files`'s projection of `previous_filename`"
    found = texts(f"Subject\n\nRoot cause: {told}\n(`null`) runs on every entry")
    assert len(told) < 50 and found == [("bugfix", f"{told}\n(`null`) runs on every entry")]


def test_bold_words_behind_a_marker_stay_bold() -> None:
    assert texts("Subject\n\nDecision: **remove** the postinstall script") == [
        ("decision", "**remove** the postinstall script")
    ]
    assert texts("Subject\n\n**Decision:** remove the script") == [
        ("decision", "remove the script")
    ]


def test_a_revert_with_a_reason_is_a_dead_end_one_without_is_nothing() -> None:
    bare = (
        'Revert "Cache the tokens"\n\nThis reverts commit 1234567890123456789012345678901234567890.'
    )
    assert texts(bare) == []
    assert texts(
        bare + "\n\nThe cache outlived the session, and users saw the data of others."
    ) == [
        (
            "dead-end",
            (
                'Revert "Cache the tokens"\n\nThe cache outlived the session, and users saw the'
                " data of others."
            ),
        )
    ]


@pytest.mark.parametrize(
    "message",
    [
        (
            'Revert "Cache the tokens" (#12)\n\nThis reverts commit 1234567890.\n\n(#11) due to'
            " failure in https://example.org/a/b/c"
        ),
        'Revert "Revert "Cache the tokens""\n\nThis reverts commit 1234567890.',
    ],
)
def test_a_revert_that_only_refers_is_nothing(message: str) -> None:
    assert texts(message) == []


def test_a_revert_that_says_why_is_suggested(lab: Lab, repo: pathlib.Path) -> None:
    (found,) = commitlog.candidates(
        [
            commit_reader.Commit(
                "c" * 40,
                "",
                "A <a@b>",
                'Revert "x"\n\nThis reverts commit 1234567890.\n\nOur parser of addresses takes no'
                " plus signs as blanks.",
                [],
            )
        ]
    )
    store = open_store(os.environ, str(repo))
    (outcome,) = pipeline.keep(store, [found], dry=True)
    store.close()
    assert (outcome.status, outcome.type) == (pipeline.SUGGESTED, "dead-end")


def test_a_repair_names_what_it_repairs_and_is_a_bugfix() -> None:
    ((kind, text),) = texts(
        "Drain the pool\n\nIt was never drained, so the hundredth client hung.\n\nFixes:"
        ' 1234567890ab ("Add a pool")\nSigned-off-by: A <a@b>'
    )
    assert (
        kind == "bugfix"
        and text == "Drain the pool\n\nIt was never drained, so the hundredth client hung."
    )


@pytest.mark.parametrize(
    "message",
    [
        "fixup! Drain the pool\n\nsome body here",
        "Subject alone",
        "Bump left-pad from 1 to 2\n\nBumps left-pad.\n\nmore text",
        "WIP\n\nsome body here",
        "Subject\n\n#skip\n\nDecision: use x",
        "Subject\n\n<private>Decision: use x</private>",
    ],
)
def test_what_says_nothing_is_nothing(message: str) -> None:
    assert texts(message) == []


def test_the_trailers_of_a_fixup_count() -> None:
    for word in ("fixup", "squash", "amend"):
        assert texts(
            f"{word}! Drain the pool\n\nIt was full.\n\nLearned: the pool is drained by its owner"
            " only"
        ) == [("learning", "the pool is drained by its owner only")]


@pytest.mark.parametrize(
    "subject",
    [
        "Release the lock before the callback, else it deadlocks",
        "Format dates in UTC everywhere",
        "Merge the two caches",
        "Version the cache schema",
        "Bump the stack of the parser to hold deep nests",
    ],
)
def test_a_verb_alone_makes_no_routine(subject: str) -> None:
    assert texts(f"{subject}\n\nBecause it was not so.") == [
        ("", f"{subject}\n\nBecause it was not so.")
    ]


@pytest.mark.parametrize(
    "subject",
    [
        "Release 1.2",
        "v2.0.1",
        "Bump actions/checkout from 3 to 4",
        "chore(deps): update x",
        "chore: release v1.2.3",
        "Merge branch 'main' into x",
        "Merge pull request #3 from a/b",
        "typo",
        "Lint",
        "Initial commit",
        "Update changelog",
        "Bump version",
    ],
)
def test_routine_is_nothing(subject: str) -> None:
    assert texts(f"{subject}\n\nSome more words about it, because of that.") == []


@pytest.mark.parametrize(
    "message",
    [
        "Speed it up\n\nTime: 3 s -> 1 s\nMemory: 120 MB -> 80 MB",
        "Add a template\n\nIt begins with these lines:\n\nDecision: one sentence",
        "Add a form\n\nDecision: TBD",
        "Scan it\n\nFinding: 3 warnings",
        "Show it\n\n    Decision: use Redis for it",
        "Record it\n\nADR: docs/development/adrs/smart-model-failover.md",
        "Record it\n\nRoot cause: see docs/incidents/2025-11-10.md",
        "Wait for it\n\nThe bounded wait is right here, and fire-and-forget was\n"
        "rejected: the process may end before the promise resolves.",
    ],
)
def test_what_only_looks_like_a_trailer_marks_nothing(message: str) -> None:
    assert not [
        c
        for c in commitlog.candidates([commit_reader.Commit("c" * 40, "", "A <a@b>", message, [])])
        if c.explicit
    ]


def test_a_long_squash_merge_keeps_its_trailers() -> None:
    assert texts(
        "Squash it\n\n" + "* a step of it\n\n" * 2000 + "Decision: use PostgreSQL for orders"
    ) == [("decision", "use PostgreSQL for orders")]


@pytest.mark.parametrize(
    "line",
    [
        "🤖 Generated with [Claude Code](https://claude.ai/code)",
        "Co-Authored-By: Claude <noreply@anthropic.com>",
        "Made with Cursor",
        "Generated by GitHub Copilot",
    ],
)
def test_what_a_program_wrote_under_a_message_is_no_body(line: str) -> None:
    assert texts(f"Drain the pool\n\n{line}") == []
    assert texts(
        f"Drain the pool\n\nIt was never drained.\n\n{line}\n\nGotcha: the pool is never"
        f" drained\n\n{line}"
    ) == [("gotcha", "the pool is never drained")]


@pytest.mark.parametrize(
    ("prefix", "type"),
    [
        ("feat", "feature"),
        ("fix(db)", "bugfix"),
        ("refactor!", "refactor"),
        ("perf(core)", "change"),
        ("other", ""),
    ],
)
def test_a_conventional_prefix_names_the_type(prefix: str, type: str) -> None:
    assert [
        kind
        for kind, _ in texts(
            f"{prefix}: drain the pool\n\nIt was never drained, because nobody owned it."
        )
    ] == [type]


@pytest.mark.parametrize(
    "message",
    [
        "docs: drain the pool\n\nIt was never drained, because nobody owned it.",
        "chore(x): drain\n\nBecause nobody owned it.",
        "fix: address review findings\n\nThe pool was never drained.",
        "fix: R2 - drain the pool\n\nIt was never drained.",
        "feat: pools\n\n- add a pool\n- drain it\n- test it",
    ],
)
def test_upkeep_rounds_of_a_review_and_lists_are_nothing(message: str) -> None:
    assert texts(message) == []


def test_a_machine_says_nothing() -> None:
    assert (
        commitlog.candidates(
            [
                commit_reader.Commit(
                    "c" * 40, "", "dependabot[bot] <support@github.com>", "x\n\nDecision: use y", []
                )
            ]
        )
        == []
    )


def test_a_message_cannot_forge_another_commit(lab: Lab, repo: pathlib.Path) -> None:
    id = commit(
        lab,
        repo,
        "evil\n\n\x01" + "f" * 40 + "\x02x\x02y\x02\n\nDecision: forged\x03\n\nmore",
        "a b.txt",
        "tab\tname.txt",
    )
    store = open_store(os.environ, str(repo))
    found = commit_reader.read(store.repo.git, ["HEAD"], [], 10)
    store.close()
    assert (
        [c.id for c in found][-1] == id
        and len(found) == 3
        and found[-1].paths == ["a b.txt", "tab\tname.txt"]
    )


# --- the worker --------------------------------------------------------------


def test_a_commit_with_a_trailer_becomes_a_private_memory(lab: Lab, repo: pathlib.Path) -> None:
    id = commit(lab, repo, f"Move the orders\n\n{TRAILER}", "db/orders.py")
    lab.mem(repo, "capture", "--now")
    (item,) = listed(lab, repo)
    assert (
        item["body"] == TRAILER.removeprefix("Decision: ")
        and item["type"] == "decision"
        and item["scope"] == "private"
        and item["provenance"] == "CITED"
    )
    assert (
        item["source"] == f"commit:{id}#0"
        and item["anchor"]["commit"] == id
        and [(p["path"], p["state"]) for p in item["paths"]] == [("db/orders.py", "same")]
    )
    assert lab.lines(repo, "mem/team") == []


def test_the_hook_of_git_is_enough(lab: Lab, repo: pathlib.Path) -> None:
    lab.mem(repo, "install", "git")
    commit(lab, repo, f"First\n\n{TRAILER}")
    poll(lambda: json.dumps(listed(lab, repo)), lambda found: "orders stay" in found)
    commit(lab, repo, "Second\n\nGotcha: the pool is never drained")
    poll(
        lambda: json.dumps(listed(lab, repo)),
        lambda found: "never drained" in found and found.count('"id"') == 2,
    )


def test_every_commit_since_the_last_look_is_looked_at_once(lab: Lab, repo: pathlib.Path) -> None:
    lab.mem(repo, "capture", "--now")
    for i, word in enumerate(("alpha", "beta", "gamma")):
        commit(lab, repo, f"commit {i}\n\nLearned: service {word} listens on its own port {i}")
    for _ in range(2):
        lab.mem(repo, "capture", "--now")
    assert len(listed(lab, repo)) == 3


def test_new_is_what_is_committed_after_capture_was_switched_on(lab: Lab) -> None:
    repo = lab.repo(commits=1)
    commit(lab, repo, "Old\n\nLearned: service alpha listens on its own port 1")
    lab.mem(repo, "config", "capture", "commits")
    for word in ("beta", "gamma"):
        commit(lab, repo, f"{word}\n\nLearned: service {word} listens on its own port 2")
    lab.mem(repo, "capture", "--now")
    assert {m["body"].split()[1] for m in listed(lab, repo)} == {"beta", "gamma"}


def test_an_amended_and_a_rebased_commit_say_it_once(lab: Lab, repo: pathlib.Path) -> None:
    commit(lab, repo, f"First\n\n{TRAILER}")
    lab.mem(repo, "capture", "--now")
    lab.git(repo, "commit", "-q", "--amend", "--allow-empty", "-m", f"Better first\n\n{TRAILER}")
    lab.mem(repo, "capture", "--now")
    (item,) = listed(lab, repo)
    assert item["anchor"]["state"] == "reachable"


def test_what_was_there_before_is_left_to_import(lab: Lab, repo: pathlib.Path) -> None:
    commit(lab, repo, f"Old\n\n{TRAILER}")
    commit(lab, repo, "New and plain")
    lab.mem(repo, "capture", "--now")
    assert listed(lab, repo) == []


def test_with_capture_off_commits_are_not_looked_at(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "config", "mem.capture", "false")
    commit(lab, repo, f"First\n\n{TRAILER}")
    lab.mem(repo, "capture", "--now")
    assert listed(lab, repo) == [] and not (repo / ".git" / "mem" / commitlog.SEEN).exists()


def test_capture_of_commits_hears_no_session(lab: Lab, repo: pathlib.Path) -> None:
    store = open_store(os.environ, str(repo))
    assert (
        worker_tasks.from_events(
            store, [{"role": "user", "text": "Remember this: x", "session": "s"}]
        )
        == []
    )
    store.close()


def test_a_repository_without_a_commit_is_none_of_it(lab: Lab) -> None:
    path = lab.repo("empty", 0)
    lab.mem(path, "init", "--offline")
    lab.git(path, "config", "mem.capture", "commits")
    worker.run(str(path / ".git"), os.environ, linger=0.0)
    assert worker_log.lines(str(path / ".git" / "mem")) == []


# --- import ------------------------------------------------------------------


def test_import_git_log_is_dry_first_and_idempotent(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "config", "mem.capture", "false")
    id = commit(lab, repo, f"Move the orders\n\n{TRAILER}", "orders.py")
    commit(lab, repo, "plain")
    dry = lab.json(repo, "import", "git-log", "--dry-run")
    assert (
        dry["kept"] == 1
        and dry["commits"] == 4
        and dry["memories"][0]["commit"] == id
        and listed(lab, repo) == []
    )
    assert lab.json(repo, "import", "git-log")["kept"] == 1
    again = lab.json(repo, "import", "git-log")
    assert again["kept"] == 0 and again["known"] == 1
    assert [m["scope"] for m in listed(lab, repo)] == ["private"]


def test_import_git_log_takes_a_range_and_refuses_what_is_none(
    lab: Lab, repo: pathlib.Path
) -> None:
    commit(lab, repo, f"One\n\n{TRAILER}")
    commit(lab, repo, "Two\n\nGotcha: the pool is never drained")
    assert lab.json(repo, "import", "git-log", "HEAD~1..HEAD")["kept"] == 1
    done = lab.run(repo, "git-mem", "import", "git-log", "nosuch..HEAD")
    assert done.returncode == 2 and "nosuch..HEAD" in done.stderr
    assert lab.run(repo, "git-mem", "import", "git-log", "--", "--output=x").returncode == 2


def test_a_commit_that_always_fails_is_passed_over_in_the_end_and_doctor_says_so(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(os.environ, str(repo))
    worker_tasks.from_commits(store)
    begun = commitlog.seen(store.repo.mem_dir)
    bad = commit(
        lab,
        repo,
        "One\n\nDecision: the importer reads the tables of the east in one go, since they are"
        " small",
    )
    real = pipeline.keep

    def keep(store: Any, candidates: Any, **kw: Any) -> Any:
        if any(c.commit == bad for c in candidates):
            raise RuntimeError("no")
        return real(store, candidates, **kw)

    monkeypatch.setattr(pipeline, "keep", keep)
    for n in range(commitlog.TRIES):
        assert commitlog.given_up(store.repo.mem_dir) == []
        if n == 5:
            commit(lab, repo, "Two\n\n" + TRAILER)
        with pytest.raises(RuntimeError):
            worker_tasks.from_commits(store)
    assert (
        commitlog.given_up(store.repo.mem_dir) == [bad]
        and commitlog.seen(store.repo.mem_dir) == begun
    )
    worker_tasks.from_commits(store)
    assert commitlog.seen(store.repo.mem_dir) == [lab.git(repo, "rev-parse", "HEAD").strip()]
    assert worker_tasks.from_hooks(store, [{"head": bad}]) == []
    store.close()
    assert [m["body"] for m in listed(lab, repo)] == [TRAILER.removeprefix("Decision: ")]
    said = lab.mem(repo, "doctor", rc=(0, 1))
    assert f"capture passes over 1 commit, the first is {bad[:12]}" in said
