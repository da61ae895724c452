"""A session's start says, once, what capture stored and suggests."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest
from conftest import Lab
from review_world import Place

from gitmem.hooks import announce, spool


@pytest.fixture
def place(lab: Lab) -> Place:
    return Place(lab)


def start(place: Place, source: str = "startup", agent: str = "claude") -> dict[str, Any]:
    payload = json.dumps(
        {
            "session_id": "s",
            "cwd": str(place.repo),
            "hook_event_name": "SessionStart",
            "source": source,
        }
    )
    out = place.lab.mem(
        place.repo,
        "hook",
        "SessionStart",
        "--agent",
        agent,
        stdin=payload,
        env={"GIT_MEM_PATIENCE": "50"},
    )
    found: dict[str, Any] = json.loads(out) if out else {}
    return found


def test_what_was_captured_is_announced_once_at_the_next_start(place: Place) -> None:
    id = place.lab.json(
        place.repo, "remember", "Captured sentence", "--private", "--tag", "captured"
    )["id"]
    announce.add(str(place.mem), [id], ["e" * 32, "f" * 32])
    assert "systemMessage" not in start(place, "compact")
    said = start(place)
    assert f"; 1 memory was captured ({id[:8]}): " in said["systemMessage"]
    assert "2 suggestions wait" in said["systemMessage"]
    assert "Captured sentence" in said["hookSpecificOutput"]["additionalContext"]
    assert re.fullmatch("git mem: [0-9 of]*(memory|memories)", start(place)["systemMessage"])


def test_an_announcement_comes_also_where_there_is_nothing_else_to_say(place: Place) -> None:
    announce.add(str(place.mem), [], ["e" * 32])
    assert "1 suggestion waits: `git mem review`" in start(place)["systemMessage"]
    assert start(place).get("systemMessage") is None


def test_an_agent_that_shows_its_user_nothing_leaves_the_announcement_to_one_that_does(
    place: Place,
) -> None:
    announce.add(str(place.mem), ["e" * 32])
    assert "systemMessage" not in start(place, agent="cursor")
    assert "systemMessage" in start(place)


def test_a_hook_that_was_killed_before_it_spoke_loses_no_announcement(tmp_path: Any) -> None:
    announce.add(str(tmp_path), ["a" * 32])
    first = announce.message(str(tmp_path))
    announce.add(str(tmp_path), ["b" * 32])
    assert announce.message(str(tmp_path)) == first
    announce.told(str(tmp_path))
    assert "bbbbbbbb" in announce.message(str(tmp_path))


def test_what_was_decided_before_the_next_start_is_not_announced(place: Place) -> None:
    start(place)  # says once that capture is off
    kept = place.lab.json(place.repo, "remember", "Captured sentence", "--private")["id"]
    waits = place.one("We keep the exports for a year, because the auditors ask for them")
    announce.add(str(place.mem), [kept], [waits])
    place.review("--reject", waits)
    place.lab.mem(place.repo, "forget", kept)
    assert "systemMessage" not in start(place)
    announce.add(str(place.mem), [], ["e" * 32])
    assert "1 suggestion waits" in start(place)["systemMessage"]


def test_what_was_decided_after_a_hook_was_killed_is_not_announced(tmp_path: Any) -> None:
    announce.add(str(tmp_path), ["a" * 32, "b" * 32])
    assert announce.message(str(tmp_path))
    announce.decided(str(tmp_path), ["a" * 32])
    assert announce.message(str(tmp_path)).startswith("1 memory was captured (bbbbbbbb)")
    announce.decided(str(tmp_path), ["b" * 32, "c\nstored " + "d" * 32])
    assert announce.message(str(tmp_path)) == "" and not os.listdir(tmp_path)


def test_a_foreign_line_in_the_file_says_nothing(tmp_path: Any) -> None:
    (tmp_path / announce.FILE).write_bytes(
        b"stored \x1b[2J\nrun me\nstored \xff\xfe\n\nstored " + b"a" * 32 + b"\n"
    )
    assert announce.message(str(tmp_path)).startswith("1 memory was captured (aaaaaaaa)")
    assert os.stat(tmp_path / "captured.telling").st_size
    assert not spool.waiting(str(tmp_path))
