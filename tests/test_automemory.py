"""`git mem import claude`: Claude Code's auto memory read into git notes by command."""

from __future__ import annotations

import json
import os

from automemory_world import SECRET, fill, memory, start, write, write_role
from conftest import Lab


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
    write_role(directory)
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
