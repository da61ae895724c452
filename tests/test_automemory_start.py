"""Claude Code's auto memory read at a session's start, and by the worker after it."""

from __future__ import annotations

import json

import pytest
from automemory_world import SECRET, fill, memory, start, write
from conftest import Lab, until

from gitmem.agents import events
from gitmem.hooks import spool


def test_a_session_start_takes_in_what_changed_and_then_only_looks(lab: Lab) -> None:
    repo = lab.repo()
    directory = memory(lab, repo)
    fill(directory)
    assert start(lab, repo) is None
    assert len(lab.lines(repo, "mem/private")) == 3
    tip = lab.git(repo, "rev-parse", "refs/notes/mem/private")
    assert start(lab, repo, seconds=0) is None, "nothing changed, so no time is needed"
    write(directory, "late", "The release train leaves on Tuesdays.")
    assert start(lab, repo) is None
    assert (
        lab.json(repo, "recall", "on which day do we release")["hits"][0]["body"]
        == "The release train leaves on Tuesdays."
    )
    (directory / "late.md").unlink()
    assert start(lab, repo) is None
    assert (
        len(lab.lines(repo, "mem/private")) == 4
        and lab.git(repo, "rev-parse", "refs/notes/mem/private") != tip
    )


def test_an_unchanged_directory_starts_no_process_and_loads_nothing(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    fill(memory(lab, repo))
    assert start(lab, repo) is None
    code = (
        "import os, sys, time\nfrom gitmem.agents import automemory, events\nfrom gitmem.git import"
        " discover\nh"
        " = discover.find(os.getcwd(), os.environ)\nbefore = set(sys.modules)\ndef forbid(event,"
        " args):\n    assert not event.startswith(('os.posix_spawn', 'subprocess', 'os.exec',"
        " 'os.fork')), event\nsys.addaudithook(forbid)\nassert events.take_notes(h, os.environ,"
        " time.monotonic()) is None\nprint(sorted(set(sys.modules) - before))"
    )
    done = lab.run(repo, "python3", "-c", code)
    assert done.stdout.strip() == "[]", done.stderr


def test_what_does_not_fit_into_a_session_start_is_the_workers(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    directory = memory(lab, repo)
    fill(directory)
    event = start(lab, repo, seconds=0)
    assert (
        event
        and json.loads(event)["event"] == "auto-memory"
        and lab.lines(repo, "mem/private") == []
    )
    for i in range(events.NOTES):
        write(directory, f"fact_{i}", f"Widget {i} is driven by motor {i * 7}.")
    event = start(lab, repo)
    assert event and b"Widget" not in event
    spool.append(str(repo / ".git" / "mem"), event)
    lab.mem(repo, "worker", str(repo / ".git"))
    assert len(lab.lines(repo, "mem/private")) == 3 + events.NOTES
    assert not (repo / ".git" / "mem" / "worker.log").exists()
    assert start(lab, repo, seconds=0) is None, "the worker has noted what it read"


def test_the_worker_takes_notes_of_a_linked_worktree_as_about_its_commit(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    first = lab.git(repo, "rev-parse", "HEAD").strip()
    linked = lab.root / "linked"
    lab.git(repo, "worktree", "add", "-q", "-b", "older", str(linked))
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "later")
    fill(memory(lab, repo))  # one directory for all worktrees
    event = start(lab, linked, seconds=0)
    assert event
    spool.append(str(repo / ".git" / "mem"), event)
    lab.mem(repo, "worker", str(repo / ".git"))
    noted = [json.loads(line)["commit"] for line in lab.lines(repo, "mem/private")]
    assert noted == [first] * 3


def test_fifty_topics_are_found_by_meaning_at_the_next_prompt(lab: Lab) -> None:
    repo = lab.repo()
    directory = memory(lab, repo)
    for i in range(50):
        write(
            directory, f"fact_{i}", f"Room {i} of the archive holds the papers of year {1900 + i}."
        )
    write(
        directory,
        "coffee",
        "The espresso machine on the third floor is broken, use the one downstairs.",
    )
    assert start(lab, repo) is None
    answer = lab.json(repo, "recall", "where can I get coffee")
    assert "espresso" in answer["hits"][0]["body"] and not answer["degraded"]


@pytest.mark.parametrize(
    "env", [{"CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1"}, {"GIT_MEM_AUTOMEMORY": "false"}]
)
def test_it_can_be_switched_off(lab: Lab, env: dict[str, str]) -> None:
    repo = lab.repo()
    fill(memory(lab, repo))
    assert start(lab, repo, env=env) is None
    assert lab.lines(repo, "mem/private") == []


def test_a_secret_costs_a_session_start_nothing_but_itself(lab: Lab) -> None:
    repo = lab.repo()
    fill(memory(lab, repo))
    (memory(lab, repo) / "secret.md").write_text(f"deploy with {SECRET}\n")
    assert start(lab, repo) is None
    assert len(lab.lines(repo, "mem/private")) == 3 and SECRET not in "".join(
        lab.lines(repo, "mem/private")
    )
    assert start(lab, repo, seconds=0) is None


def test_notes_that_cannot_be_written_leave_the_work_to_the_worker(lab: Lab) -> None:
    repo = lab.repo()
    fill(memory(lab, repo))
    (repo / ".git" / "refs" / "notes").mkdir(exist_ok=True)
    (repo / ".git" / "refs" / "notes" / "mem").write_text(lab.git(repo, "rev-parse", "HEAD"))
    assert start(lab, repo), "a ref of that name is in the way"


def test_a_key_that_may_ask_for_its_passphrase_is_the_workers(lab: Lab) -> None:
    repo = lab.repo()
    fill(memory(lab, repo))
    lab.git(repo, "config", "mem.sign", "true")
    assert start(lab, repo) and lab.lines(repo, "mem/private") == []


def test_the_prompt_after_a_session_start_is_answered_from_what_the_client_noted(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    lab.git(repo, "config", "mem.promptContext", "true")
    for i in range(60):
        write(
            memory(lab, repo),
            f"fact_{i}",
            f"Room {i} of the archive holds the papers of year {1900 + i}.",
        )
    write(
        memory(lab, repo),
        "coffee",
        "The espresso machine on the third floor is broken, use the one downstairs.",
    )

    def hook(event: str, **more: str) -> str:
        return lab.mem(
            repo,
            "hook",
            event,
            "--agent",
            "claude",
            stdin=json.dumps(
                {"session_id": "s", "cwd": str(repo), "hook_event_name": event, **more}
            ),
        )

    hook("SessionStart", source="startup")
    until(lambda: len(lab.lines(repo, "mem/private")) == 61)  # a slow machine leaves some to it
    until(
        lambda: (
            "espresso machine"
            in hook("UserPromptSubmit", prompt="where can I get an espresso coffee now?")
        )
    )
