"""Sessions that Claude Code and Codex keep on this disk become suggestions, and nothing more.

The lines have the shapes of `transcripts/claude-*.jsonl`, which the client wrote, and of Codex'
source (`SessionMeta`, `RolloutLine`)."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest
from capture_world import TOKEN, WIPED, listed
from conftest import Lab

from gitmem.agents import automemory, past_sessions
from gitmem.store import open_store

LATER = "Decision: orders stay in PostgreSQL, because invoices share their transaction"


class Disk:
    """What two clients have written under HOME."""

    def __init__(self, lab: Lab) -> None:
        self.home = lab.root
        self.age = 0

    def _write(self, path: pathlib.Path, lines: list[dict[str, Any] | str]) -> pathlib.Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        self.age += 1
        os.utime(path, (2_000_000_000 - self.age, 2_000_000_000 - self.age))  # the next is older
        return path

    def claude(
        self, cwd: pathlib.Path, session: str, *texts: str, top: str = ".claude", **more: Any
    ) -> pathlib.Path:
        about = {"isSidechain": False, "cwd": str(cwd), "sessionId": session, "gitBranch": "topic"}
        lines: list[dict[str, Any] | str] = [
            {"type": "queue-operation", "operation": "enqueue", "sessionId": session}
        ]
        for i, text in enumerate(texts):
            lines.append(
                {
                    **about,
                    "type": "user",
                    "uuid": f"u{i}",
                    "timestamp": "2026-03-04T05:06:07.891Z",
                    "message": {"role": "user", "content": text},
                    **more,
                }
            )
        slug = automemory.slug(os.path.realpath(cwd))
        return self._write(self.home / top / "projects" / slug / f"{session}.jsonl", lines)

    def codex(
        self, cwd: pathlib.Path, session: str, *texts: str, source: Any = "cli", head: str = ""
    ) -> pathlib.Path:
        meta = {
            "id": session,
            "timestamp": "2026-03-04T05:06:07.891Z",
            "cwd": str(cwd),
            "originator": "codex_cli_rs",
            "cli_version": "0.98.0",
            "source": source,
            "base_instructions": {"text": "You are Codex. " * 2000},
            "git": {"commit_hash": head, "branch": "main"},
        }
        lines: list[dict[str, Any] | str] = [{"type": "session_meta", "payload": meta}]
        agents = f"# AGENTS.md instructions for {cwd}\n\n<INSTRUCTIONS>\n{WIPED}\n</INSTRUCTIONS>"
        for text in (agents, *texts):
            content = [{"type": "input_text", "text": text}]
            payload = {"type": "message", "role": "user", "content": content}
            lines.append(
                {"timestamp": "2026-03-05T05:06:07Z", "type": "response_item", "payload": payload}
            )
        day = self.home / ".codex" / "sessions" / "2026" / "03" / "04"
        return self._write(day / f"rollout-2026-03-04T05-06-07-{session}.jsonl", lines)


@pytest.fixture
def disk(lab: Lab) -> Disk:
    return Disk(lab)


def test_past_sessions_become_suggestions_and_no_memory(lab: Lab, disk: Disk) -> None:
    repo = lab.repo()
    head = lab.git(repo, "rev-parse", "HEAD").strip()
    disk.claude(repo, "s1", "hello there", WIPED, "thanks")
    disk.codex(repo, "s2", LATER, head=head)
    dry = lab.json(repo, "import", "sessions", "--dry-run")
    assert (dry["suggested"], lab.json(repo, "review", "--list", rc=(1,))) == (2, [])
    done = lab.json(repo, "import", "sessions")
    assert (done["sessions"], done["turns"], done["suggested"]) == (2, 4, 2)
    assert done["left_out"]["turns"] == {"injected by programs or kept back": 1}
    assert listed(lab, repo) == [] and lab.lines(repo, "mem/team") == []
    waits = {s["body"]: s for s in lab.json(repo, "review", "--list")}
    assert set(waits) == {WIPED, LATER}
    claude, codex = waits[WIPED], waits[LATER]
    assert (claude["agent"], claude["session"], codex["agent"]) == ("claude", "s1", "codex")
    assert (claude["created_at"], codex["commit"]) == ("2026-03-04T05:06:07Z", head)
    lab.mem(repo, "review", "--accept", claude["id"])
    (memory,) = listed(lab, repo)
    assert (memory["scope"], memory["created_at"]) == ("private", "2026-03-04T05:06:07Z")


def test_what_a_session_said_in_another_repository_is_left_out(lab: Lab, disk: Disk) -> None:
    repo, other = lab.repo(), lab.repo("other")
    path = disk.claude(repo, "s1", WIPED)
    there = disk.claude(other, "s2", LATER).read_text()
    path.write_text(path.read_text() + there)
    done = lab.json(repo, "import", "sessions")
    assert [s["body"] for s in lab.json(repo, "review", "--list")] == [WIPED]
    assert done["left_out"]["turns"] == {"said outside of this repository": 1}


def test_a_suggestion_is_about_the_commit_of_the_time_when_it_was_said(
    lab: Lab, disk: Disk
) -> None:
    repo = lab.repo()
    first = lab.git(repo, "rev-parse", "HEAD").strip()

    def commit(day: str, branch: str) -> str:
        lab.git(repo, "switch", "-q", branch)
        env = {"GIT_COMMITTER_DATE": f"{day}T05:06:07Z"}
        assert lab.run(repo, "git", "commit", "-q", "--allow-empty", "-mx", env=env).returncode == 0
        return lab.git(repo, "rev-parse", "HEAD").strip()

    lab.git(repo, "branch", "topic")
    topic, _ = commit("2026-03-04", "topic"), commit("2026-03-06", "topic")
    main, later = commit("2026-03-03", "main"), commit("2026-03-07", "main")
    kept = disk.claude(repo, "on-a-branch", WIPED)  # of 2026-03-04, on topic
    kept.write_text(kept.read_text().replace("05:06:07.891Z", "06:06:07.891+01:00"))
    gone = disk.claude(repo, "branch-is-gone", "Remember: the attic key hangs on the attic door")
    gone.write_text(gone.read_text().replace("topic", "deleted"))
    old = disk.claude(repo, "older-than-all", "Remember: the cellar floods every single spring")
    old.write_text(old.read_text().replace("2026-03-04", "2025-01-01"))
    disk.codex(repo, "known", LATER, head=first)
    gate = "Remember: the garden gate sticks in a wet autumn"
    disk.codex(repo, "rebased-away", gate, head="1" * 40)
    lab.mem(repo, "import", "sessions")
    at = {s["session"]: s["commit"] for s in lab.json(repo, "review", "--list")}
    assert at == {
        "on-a-branch": topic,
        "branch-is-gone": main,
        "older-than-all": later,
        "known": first,
        "rebased-away": main,
    }


def test_what_was_read_before_is_read_again_only_when_it_grew(lab: Lab, disk: Disk) -> None:
    repo = lab.repo()
    path = disk.claude(repo, "s1", WIPED)
    assert lab.json(repo, "import", "sessions")["suggested"] == 1
    again = lab.json(repo, "import", "sessions")
    assert (again["sessions"], again["left_out"]["sessions"]) == (0, {"read before": 1})
    disk.claude(repo, "s1", WIPED, LATER)
    grown = lab.json(repo, "import", "sessions")
    assert (grown["sessions"], grown["suggested"], grown["known"]) == (1, 1, 1)
    path.write_text(path.read_text())
    (repo / ".git" / "mem" / "sessions.read").unlink()
    lost = lab.json(repo, "import", "sessions")
    assert (lost["sessions"], lost["suggested"], lost["known"]) == (1, 0, 2)


def test_only_sessions_of_this_repository_and_its_worktrees_are_read(lab: Lab, disk: Disk) -> None:
    repo, other = lab.repo(), lab.repo("other")
    lab.git(repo, "worktree", "add", "-q", str(lab.root / "far"))
    (repo / "src").mkdir()
    lab.git(repo, "clone", "-q", str(other), str(repo / "vendored"))
    disk.claude(repo / "src", "below", WIPED)
    disk.claude(lab.root / "far", "worktree", LATER)
    disk.claude(repo / "vendored", "vendored", "Remember: the vendored one")
    disk.claude(pathlib.Path(f"{repo}-twin"), "twin", "Remember: a twin's secret sauce")
    disk.claude(other, "other", "Remember: the other one")
    disk.codex(other, "codex-other", "Remember: the other one")
    done = lab.json(repo, "import", "sessions")
    assert (done["sessions"], done["suggested"]) == (2, 2)
    # Of Claude Code's, a directory with another name is not even looked into.
    assert done["left_out"]["sessions"] == {"of other repositories": 3}


def test_subagents_secrets_private_parts_and_skipped_turns_are_left_out(
    lab: Lab, disk: Disk
) -> None:
    repo = lab.repo()
    path = disk.claude(
        repo,
        "s1",
        WIPED,
        f"Remember: the token is {TOKEN}",
        "Remember: the door code <private>is 4711</private> <private>4712</private>",
        f"{LATER} #skip",
        f"<system-reminder>{LATER}</system-reminder>",
    )
    side = {"type": "user", "isSidechain": True, "message": {"role": "user", "content": LATER}}
    path.write_text(path.read_text() + json.dumps(side) + "\n")
    disk.claude(repo, "agent-1", LATER, isSidechain=True)
    disk.claude(repo, "sidechain", LATER, isSidechain=True)
    disk.codex(repo, "c1", LATER, source={"subagent": {"thread_spawn": {"depth": 1}}})
    below = path.parent / "s1" / "subagents"
    below.mkdir(parents=True)
    (below / "agent-2.jsonl").write_text("{}\n")
    done = lab.json(repo, "import", "sessions")
    assert (done["sessions"], done["refused"]) == (1, 1)
    assert WIPED in {s["body"] for s in done["suggestions"]}
    assert done["left_out"]["sessions"] == {"of subagents": 4}
    assert done["left_out"]["turns"] == {
        "of subagents": 1,
        "injected by programs or kept back": 2,
    }
    stored = "".join(lab.lines(repo, "mem/private"))
    assert not any(word in stored for word in (TOKEN, "4711", "4712", "PostgreSQL"))


def test_damaged_lines_and_files_stop_no_other(lab: Lab, disk: Disk) -> None:
    repo = lab.repo()
    whole = disk.claude(repo, "whole", "half of a pair \ud83d", WIPED)
    whole.write_text('{"type":"user","cwd":\n[]\nnull\n{"cwd": 7}\n' + whole.read_text())
    empty = disk.claude(repo, "empty")
    empty.write_bytes(b"\xff\xfe" + b"[" * 50_000)
    (empty.parent / "link.jsonl").symlink_to(whole)
    os.mkfifo(empty.parent / "pipe.jsonl")
    (empty.parent / "directory.jsonl").mkdir()
    (disk.codex(repo, "c1", LATER).parent / "rollout-x.jsonl.zst").write_bytes(b"(\xb5/\xfd")
    done = lab.json(repo, "import", "sessions")
    assert (done["sessions"], done["suggested"]) == (2, 2)
    assert done["left_out"]["sessions"] == {"compressed": 1, "unreadable": 1}


def test_the_newest_sessions_come_first_and_the_rest_the_next_time(lab: Lab, disk: Disk) -> None:
    repo = lab.repo()
    for name in ("newest", "middle", "oldest"):
        disk.claude(repo, name, f"Remember: the {name} of three databases is wiped every Sunday")
    first = lab.json(repo, "import", "sessions", "--limit", "1")
    assert [s["session"] for s in first["suggestions"]] == ["newest"]
    assert first["left_out"]["sessions"] == {"older": 2}
    second = lab.json(repo, "import", "sessions")
    assert [s["session"] for s in second["suggestions"]] == ["oldest", "middle"]


def test_of_one_session_the_surest_are_suggested(lab: Lab, disk: Disk) -> None:
    repo = lab.repo()
    lab.git(repo, "config", "mem.suggestions", "2")
    rooms = ("cellar", "attic", "garden", "kitchen")
    disk.claude(repo, "s1", *[f"Remember: the {r} key hangs on the {r} door" for r in rooms])
    done = lab.json(repo, "import", "sessions")
    assert (done["suggested"], done["left_out"]["less_sure"]) == (2, 2)


def test_a_session_of_a_purged_memory_is_not_read_again(lab: Lab, disk: Disk) -> None:
    repo = lab.repo()
    disk.claude(repo, "s1", WIPED)
    (suggestion,) = lab.json(repo, "import", "sessions")["suggestions"]
    lab.mem(repo, "review", "--accept", suggestion["id"])
    lab.mem(repo, "purge", suggestion["id"], "--force")
    (repo / ".git" / "mem" / "sessions.read").unlink(missing_ok=True)
    done = lab.json(repo, "import", "sessions")
    assert (done["sessions"], done["left_out"]["sessions"]) == (0, {"of a purged memory": 1})


def test_the_clients_own_variables_say_where_sessions_are(lab: Lab, disk: Disk) -> None:
    repo = lab.repo()
    disk.claude(repo, "s1", WIPED, top="elsewhere")
    disk.codex(repo, "s2", LATER)
    (disk.home / ".codex").rename(disk.home / "codex")
    done = lab.run(repo, "git-mem", "import", "sessions")
    assert done.returncode == 1 and f"{disk.home}/.claude/projects" in done.stderr
    env = {"CLAUDE_CONFIG_DIR": f"{disk.home}/elsewhere", "CODEX_HOME": f"{disk.home}/codex"}
    assert lab.json(repo, "import", "sessions", env=env)["suggested"] == 2


def test_sessions_are_suggested_only_so_nothing_can_go_to_the_team(lab: Lab) -> None:
    repo = lab.repo()
    assert lab.run(repo, "git-mem", "import", "sessions", "--team").returncode == 2
    assert lab.run(repo, "git-mem", "import", "adr", "--limit", "3").returncode == 2


def test_init_says_what_can_be_taken_in_and_how(lab: Lab, disk: Disk) -> None:
    repo = lab.repo()
    assert "taken in" not in lab.mem(repo, "init")
    (repo / "docs" / "adr").mkdir(parents=True)
    for name in ("0001-a", "0002-b", "README"):
        (repo / "docs" / "adr" / f"{name}.md").write_text(f"# {name}\n\n## Decision\n\n{name}\n")
    disk.claude(repo, "s1", WIPED)
    disk.codex(lab.repo("other"), "s2", LATER)
    assert (
        "  2 decision records (`git mem import adr`) and 1 past session"
        " (`git mem import sessions`) can be taken in\n"
    ) in lab.mem(repo, "init")
    assert lab.json(repo, "init")["takeable"] == {
        "git mem import adr": 2,
        "git mem import sessions": 1,
    }
    lab.mem(repo, "import", "adr")
    lab.mem(repo, "import", "sessions")
    assert lab.json(repo, "init")["takeable"] == {}


def test_looking_is_bounded(lab: Lab, disk: Disk) -> None:
    repo = lab.repo()
    for i in range(4):
        disk.claude(repo, f"s{i}", WIPED)
    found = past_sessions.find(open_store({"HOME": str(disk.home)}, str(repo)), lab.env, 3)
    assert [s.id for s in found.new] == ["s0", "s1", "s2"] and found.left["older"] == 1
