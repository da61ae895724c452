"""Claude Code's auto memory read into git notes: by command, at a session's start, by the worker.

Real directories, laid out as the client does.
"""

from __future__ import annotations

import json
import os
import pathlib
import time
from collections.abc import Mapping

import pytest
from conftest import Lab

from gitmem.agents import automemory, events
from gitmem.git import discover as git_here
from gitmem.hooks import spool

SECRET = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"


def memory(lab: Lab, repo: pathlib.Path, config: pathlib.Path | None = None) -> pathlib.Path:
    """The auto memory directory of a repository, made."""
    path = (
        (config or lab.root / ".claude")
        / "projects"
        / "".join(c if c.isascii() and c.isalnum() else "-" for c in str(repo))
        / "memory"
    )
    path.mkdir(parents=True, exist_ok=True)
    return path


def write(
    directory: pathlib.Path, name: str, body: str, kind: str = "project", description: str = ""
) -> pathlib.Path:
    path = directory / f"{name}.md"
    path.write_text(
        f"---\nname: {name.replace('_', '-')}\ndescription:"
        f" {description or name.replace('_', ' ')}\nmetadata:\n  type: {kind}\n---\n\n{body}\n"
    )
    return path


def fill(directory: pathlib.Path) -> None:
    write(
        directory,
        "testing_real_db",
        "Integration tests must hit a real database.\n\n**Why:** mocked tests passed while the"
        " production migration failed, see [[release-freeze]].\n**How to apply:** every test under"
        " tests/db.",
        "feedback",
        "Integration tests hit a real database, not mocks",
    )
    write(
        directory,
        "user_role",
        "The user is a data scientist: ten years of Go, first time with React.",
        "user",
        "Who the user is",
    )
    write(
        directory,
        "linear_ingest",
        "Pipeline bugs are tracked in the Linear project INGEST.",
        "reference",
        "Where bugs are tracked",
    )
    (directory / "MEMORY.md").write_text(
        "- [Integration tests](testing_real_db.md) — hit a real database\n- [Role of the"
        " user](user_role.md) — data scientist\n- [Bug tracker](linear_ingest.md) — Linear\n-"
        " [Gone](gone.md) — was deleted\n"
    )


def start(
    lab: Lab, repo: pathlib.Path, seconds: float = 60.0, env: Mapping[str, str] | None = None
) -> bytes | None:
    """A session start's step, as the hook runs it."""
    environ = {**lab.env, **(env or {})}
    found = git_here.find(str(repo), environ)
    assert found
    return events.take_notes(found, environ, time.monotonic() + seconds)


def test_what_was_imported_is_found_by_meaning_at_once(lab: Lab) -> None:
    repo = lab.repo()
    fill(memory(lab, repo))
    said = lab.json(repo, "import", "claude")
    assert (said["stored"], said["refused"], said["missing"]) == (3, 0, ["gone.md"])
    answer = lab.json(repo, "recall", "may a test use a mock instead of the database")
    hit = answer["hits"][0]
    assert answer["verdict"] == "HIT"
    assert (hit["title"], hit["type"], hit["scope"], hit["provenance"], hit["tags"]) == (
        "Integration tests",
        "convention",
        "private",
        "CACHED",
        ["auto-memory", "feedback"],
    )
    assert (
        hit["source"].startswith("claude-memory:testing_real_db.md@") and hit["agent"] == "claude"
    )
    assert hit["subtitle"] == "Integration tests hit a real database, not mocks" and hit[
        "concepts"
    ] == ["release-freeze"]


def test_a_second_import_adds_nothing(lab: Lab) -> None:
    repo = lab.repo()
    fill(memory(lab, repo))
    lab.mem(repo, "import", "claude")
    lines = lab.lines(repo, "mem/private")
    os.utime(memory(lab, repo) / "user_role.md")
    said = lab.json(repo, "import", "claude")
    assert (said["stored"], said["edited"], said["known"]) == (0, 0, 3)
    assert lab.lines(repo, "mem/private") == lines


def test_an_edited_topic_is_one_new_version_and_a_removed_one_stays(lab: Lab) -> None:
    repo = lab.repo()
    directory = memory(lab, repo)
    fill(directory)
    lab.mem(repo, "import", "claude")
    write(directory, "user_role", "The user leads the data team now.", "user", "Who the user is")
    (directory / "linear_ingest.md").unlink()
    said = lab.json(repo, "import", "claude")
    assert (said["stored"], said["edited"], said["known"]) == (0, 1, 1)
    found = {m["title"]: m for m in lab.json(repo, "list")}
    assert (
        len(found) == 3 and found["Role of the user"]["body"] == "The user leads the data team now."
    )
    records = [json.loads(line) for line in lab.lines(repo, "mem/private")]
    (create,) = [
        r
        for r in records
        if r["op"] == "create" and r["source"].startswith("claude-memory:user_role.md@")
    ]
    (edit,) = [r for r in records if r["op"] == "edit"]
    assert edit["id"] == create["id"] and len(edit["after"]) == 1
    write(
        directory,
        "user_role",
        "The user is a data scientist: ten years of Go, first time with React.",
        "user",
        "Who the user is",
    )
    assert lab.json(repo, "import", "claude")["edited"] == 1, (
        "what was taken back is a new version, too"
    )


def test_a_forgotten_memory_does_not_come_back(lab: Lab) -> None:
    repo = lab.repo()
    directory = memory(lab, repo)
    path = write(directory, "old_habit", "First text of the habit.")
    lab.mem(repo, "import", "claude")
    write(directory, "old_habit", "Second text of the habit.")
    lab.mem(repo, "import", "claude")
    (one,) = lab.json(repo, "list")
    lab.mem(repo, "forget", one["id"])
    for text in ("Second text of the habit.", "First text of the habit."):
        write(directory, "old_habit", text)
        assert lab.json(repo, "import", "claude")["known"] == 1
    assert lab.json(repo, "list", rc=(0, 1)) == []
    path.write_text("Something else about it.\n")
    assert lab.json(repo, "import", "claude")["stored"] == 1, (
        "a forget hides what it saw, not what is said later"
    )


def test_a_purged_memory_does_not_come_back(lab: Lab) -> None:
    repo = lab.repo()
    directory = memory(lab, repo)
    write(
        directory,
        "old_habit",
        "A text that must go for good, and is long enough to be told by its id. " * 5,
    )
    lab.mem(repo, "import", "claude")
    (one,) = lab.json(repo, "list")
    lab.mem(repo, "purge", one["id"], "--force", rc=(1,))  # the client's file still has the text
    said = lab.json(repo, "import", "claude", rc=(1,))
    assert said["stored"] == 0 and "purged" in said["topics"][0]["reason"]


def test_a_text_that_a_person_edited_is_not_covered(lab: Lab) -> None:
    repo = lab.repo()
    directory = memory(lab, repo)
    write(directory, "habit", "What the client noted.")
    lab.mem(repo, "import", "claude")
    (one,) = lab.json(repo, "list")
    lab.mem(repo, "edit", one["id"], "-m", "What the person made of it.", "--type", "gotcha")
    assert lab.json(repo, "import", "claude")["known"] == 1
    write(directory, "habit", "What the client noted later.")
    assert lab.json(repo, "import", "claude")["stored"] == 1
    assert {m["body"] for m in lab.json(repo, "list")} == {
        "What the person made of it.",
        "What the client noted later.",
    }


def test_type_and_tags_of_a_person_stay_when_the_topic_changes(lab: Lab) -> None:
    repo = lab.repo()
    directory = memory(lab, repo)
    write(directory, "habit", "What the client noted.")
    lab.mem(repo, "import", "claude")
    (one,) = lab.json(repo, "list")
    lab.mem(repo, "edit", one["id"], "--type", "gotcha", "--tag", "project", "--tag", "mine")
    write(directory, "habit", "What the client noted later.")
    assert lab.json(repo, "import", "claude")["edited"] == 1
    (one,) = lab.json(repo, "list")
    assert (one["type"], one["tags"], one["body"]) == (
        "gotcha",
        ["mine", "project"],
        "What the client noted later.",
    )


def test_private_unless_the_team_is_named(lab: Lab) -> None:
    repo = lab.repo()
    directory = memory(lab, repo)
    fill(directory)
    lab.git(repo, "config", "mem.scope", "team")
    lab.mem(repo, "import", "claude")
    assert lab.lines(repo, "mem/team") == []
    write(directory, "shared", "The staging cluster is rebuilt every night.")
    said = lab.json(repo, "import", "claude", "--team")
    assert said["stored"] == 1 and len(lab.lines(repo, "mem/team")) == 1


def test_a_colleagues_topic_of_the_same_name_is_another_memory(lab: Lab) -> None:
    repo = lab.repo()
    directory = memory(lab, repo)
    write(directory, "habit", "What Ada's client noted.")
    lab.mem(repo, "import", "claude", "--team")
    write(directory, "habit", "What Bob's client noted.")
    bob = {"GIT_AUTHOR_NAME": "Bob", "GIT_AUTHOR_EMAIL": "bob@example.org"}
    assert lab.json(repo, "import", "claude", "--team", env=bob)["stored"] == 1
    assert len(lab.json(repo, "list")) == 2


def test_two_machines_of_one_author_do_not_take_turns(lab: Lab) -> None:
    repo = lab.repo()
    here, there = lab.root / "here", lab.root / "there"
    for path, text in ((here, "Noted on this machine."), (there, "Noted on that machine.")):
        path.mkdir()
        write(path, "habit", text)
    for path in (here, there, here, there):
        lab.mem(repo, "import", "claude", "--team", "--from", str(path))
    assert len(lab.lines(repo, "mem/team")) == 2


def test_what_cannot_be_a_topic_is_named_and_stops_no_other(lab: Lab) -> None:
    repo = lab.repo()
    directory = memory(lab, repo)
    fill(directory)
    (directory / "secret.md").write_text(f"deploy with {SECRET}\n")
    (directory / "large.md").write_text("x" * 300_000)
    (directory / "longer_than_a_memory.md").write_text("word " * 20_000)
    (directory / "binary.md").write_bytes(b"\x7fELF\0\0")
    (directory / "latin.md").write_bytes("Über Käse und Öl: fünf Äpfel".encode("latin-1"))
    (directory / "garbage.md").write_bytes(bytes(range(128, 256)))
    (directory / "empty.md").write_text("---\nname: empty\n---\n")
    (lab.root / "outside.txt").write_text("root:x:0:0\n")
    (directory / "link.md").symlink_to(lab.root / "outside.txt")
    (directory / "folder.md").mkdir()
    os.mkfifo(directory / "pipe.md")
    said = lab.json(repo, "import", "claude", rc=(1,))
    reasons = {t["file"]: t["reason"] for t in said["topics"] if t["status"] == "refused"}
    assert said["stored"] == 3
    assert set(reasons) == {
        "secret.md",
        "large.md",
        "longer_than_a_memory.md",
        "binary.md",
        "latin.md",
        "garbage.md",
        "empty.md",
        "link.md",
        "folder.md",
        "pipe.md",
    }
    assert (
        "secret" in reasons["secret.md"]
        and reasons["link.md"] == "it is a link"
        and reasons["binary.md"].startswith("holds a NUL byte at offset ")
    )
    assert SECRET not in "".join(lab.lines(repo, "mem/private"))


def test_a_topic_with_a_broken_character_is_refused_with_its_place(lab: Lab) -> None:
    repo = lab.repo()
    (memory(lab, repo) / "latin.md").write_bytes(
        b"The caf\xe9 is where the team meets on Friday.\r\n"
    )
    (topic,) = lab.json(repo, "import", "claude", rc=(1,))["topics"]
    assert topic["reason"] == "is not UTF-8: byte 0xe9 at offset 7" and not lab.lines(
        repo, "mem/private"
    )


def test_a_file_name_that_is_no_text_is_bearable(lab: Lab) -> None:
    repo = lab.repo()
    with open(os.path.join(os.fsencode(memory(lab, repo)), b"b\xff\n.md"), "wb") as f:
        f.write(b"The text is fine.\n")
    assert lab.json(repo, "import", "claude")["stored"] == 1
    assert lab.json(repo, "import", "claude")["known"] == 1
    assert start(lab, repo) is None


def test_dry_run_says_all_and_stores_nothing(lab: Lab) -> None:
    repo = lab.repo()
    fill(memory(lab, repo))
    (memory(lab, repo) / "secret.md").write_text(f"deploy with {SECRET}\n")
    said = lab.json(repo, "import", "claude", "--dry-run", rc=(1,))
    assert (said["stored"], said["refused"], said["dry_run"]) == (3, 1, True)
    assert lab.lines(repo, "mem/private") == []
    assert lab.json(repo, "import", "claude", rc=(1,))["stored"] == 3


def test_without_auto_memory_the_error_names_the_directory(lab: Lab) -> None:
    repo = lab.repo()
    done = lab.run(repo, "git", "mem", "import", "claude")
    assert (
        done.returncode == 1
        and "no auto memory in '" in done.stderr
        and "-repo/memory'" in done.stderr
    )
    assert lab.run(repo, "git", "mem", "import", "x.jsonl", "--dry-run").returncode == 2
    assert lab.run(repo, "git", "mem", "import", "claude", "--team", "--private").returncode == 2


def test_a_file_that_is_called_claude_can_still_be_imported(lab: Lab) -> None:
    repo = lab.repo()
    (repo / "claude").write_text('{"body": "from a file"}\n')
    assert lab.json(repo, "import", "./claude")["stored"] == 1


def test_memories_hold_on_every_branch(lab: Lab) -> None:
    repo = lab.repo(commits=2)
    lab.git(repo, "switch", "-q", "-c", "topic")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "on the branch")
    fill(memory(lab, repo))
    lab.mem(repo, "import", "claude")
    lab.git(repo, "switch", "-q", "main")
    assert {m["anchor"]["state"] for m in lab.json(repo, "list")} == {"reachable"} and len(
        lab.json(repo, "list")
    ) == 3


def test_before_the_first_commit_it_works_too(lab: Lab) -> None:
    repo = lab.repo(commits=0)
    fill(memory(lab, repo))
    assert lab.json(repo, "import", "claude")["stored"] == 3


# --- where it is ------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "slug"),
    [  # as the clients 2.1.197 and 2.1.330 named them
        ("/srv/my.proj_1", "-srv-my-proj-1"),
        ("/tmp/proj \u00e9\U0001f389", "-tmp-proj----"),
        (
            "/tmp/x/e/" + "a.b_c" * 30 + "/" + "x y" * 40,
            "-tmp-x-e-" + "a-b-c" * 30 + "-" + "x-y" * 13 + "x-ssn3g9",
        ),
        (
            "/tmp/x/e/" + "a.b_c" * 30 + "/" + "x y" * 40 + "/sub",
            "-tmp-x-e-" + "a-b-c" * 30 + "-" + "x-y" * 13 + "x-7x7jt4",
        ),
    ],
)
def test_the_directory_is_named_as_the_client_names_it(path: str, slug: str) -> None:
    assert automemory.slug(path) == slug


def test_linked_worktrees_and_subdirectories_share_the_main_ones(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(repo, "worktree", "add", "-q", str(lab.root / "other"))
    (repo / "sub").mkdir()
    fill(memory(lab, repo))
    assert lab.json(lab.root / "other", "import", "claude")["stored"] == 3
    assert lab.json(repo / "sub", "import", "claude")["known"] == 3


def test_worktrees_of_a_bare_repository_share_the_one_of_the_repository(lab: Lab) -> None:
    lab.git(lab.root, "clone", "-q", "--bare", str(lab.repo()), "bare.git")
    lab.git(lab.root / "bare.git", "worktree", "add", "-q", str(lab.root / "tree"))
    fill(memory(lab, lab.root / "bare.git"))
    assert lab.json(lab.root / "tree", "import", "claude")["stored"] == 3


def test_the_clients_own_directory_can_be_elsewhere(lab: Lab) -> None:
    repo = lab.repo()
    fill(memory(lab, repo, lab.root / "config"))
    assert (
        lab.json(repo, "import", "claude", env={"CLAUDE_CONFIG_DIR": str(lab.root / "config")})[
            "stored"
        ]
        == 3
    )


def test_settings_name_the_directory_the_nearest_first(lab: Lab) -> None:
    repo = lab.repo()
    fill(memory(lab, repo))
    (repo / ".claude").mkdir()
    for origin, path in (
        ("user", lab.root / ".claude" / "settings.json"),
        ("project", repo / ".claude" / "settings.json"),
        ("local", repo / ".claude" / "settings.local.json"),
    ):
        directory = repo / "docs" / origin if origin == "project" else lab.root / origin
        directory.mkdir(parents=True)
        write(directory, "only", f"Noted in the {origin} directory.")
        path.write_text(
            json.dumps(
                {
                    "autoMemoryDirectory": f"~/{origin}" if origin == "user" else str(directory),
                    "x": 1,
                }
            )
        )
        said = lab.json(repo, "import", "claude")
        assert (said["directory"], said["stored"] + said["edited"]) == (str(directory), 1)


@pytest.mark.parametrize(
    "text",
    [
        '{"autoMemoryDirectory": "relative"}',
        '{"autoMemoryDirectory": 5}',
        '["autoMemoryDirectory"]',
        '{"autoMemoryDirectory": "',
        '{"autoMemoryDirectory": "/"}',
    ],
)
def test_a_setting_that_the_client_ignores_is_ignored(lab: Lab, text: str) -> None:
    repo = lab.repo()
    fill(memory(lab, repo))
    (repo / ".claude").mkdir()
    (repo / ".claude" / "settings.local.json").write_text(text)
    assert lab.json(repo, "import", "claude")["stored"] == 3


def test_a_committed_file_cannot_have_a_folder_of_the_user_read(lab: Lab) -> None:
    repo = lab.repo()
    write(lab.root, "diary", "A private thought.")
    (repo / ".claude").mkdir()
    for target in (lab.root, repo / "link", repo / ".git" / "x", repo / ".." / "elsewhere"):
        (repo / ".claude" / "settings.json").write_text(
            json.dumps({"autoMemoryDirectory": str(target)})
        )
        if target.name == "link":
            target.symlink_to(lab.root)
        done = lab.run(repo, "git", "mem", "import", "claude")
        assert (
            done.returncode == 1
            and "outside the repository" in done.stderr
            and "--from" in done.stderr
        )
        assert start(lab, repo) is None
    assert lab.lines(repo, "mem/private") == []
    assert lab.json(repo, "import", "claude", "--from", str(lab.root))["stored"] == 1


# --- at a session's start ---------------------------------------------------


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
    limit = time.monotonic() + 30
    while (
        len(lab.lines(repo, "mem/private")) < 61 and time.monotonic() < limit
    ):  # a slow machine leaves it to the worker
        time.sleep(0.1)
    answer = ""
    while "espresso" not in answer and time.monotonic() < limit:
        answer = hook("UserPromptSubmit", prompt="where can I get an espresso coffee now?")
    assert "espresso machine" in answer
