"""Receipts: which memories a session was given, at which tips and HEAD; one private record for each
part of a session.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import Any

import pytest
from conftest import Lab, until

from gitmem import worker
from gitmem.agents import receipts, session
from gitmem.core import fold, record, redact, short
from gitmem.hooks import spool, worker_log
from gitmem.store import Store, open_store

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"


class Place:
    """A repository with two memories and hands to play hooks and worker."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.repo = lab.repo()
        self.mem = str(self.repo / ".git" / "mem")
        (self.repo / "db").mkdir()
        self.ids = [
            lab.json(self.repo, "remember", text, "--path", path)["id"]
            for text, path in (
                ("Orders and invoices share a transaction", "db/"),
                ("The parser keeps comments", "src/parser.py"),
            )
        ]
        self.head = lab.git(self.repo, "rev-parse", "HEAD").strip()
        self.tip = lab.git(self.repo, "rev-parse", "refs/notes/mem/team").strip()

    def shown(self, name: str, ids: list[str], route: str = "prompt") -> None:
        assert session.Notes(self.mem, name).add_shown(
            ids,
            route,
            "claude",
            self.head,
            {"refs/notes/mem/team": self.tip, "refs/notes/mem/private": ""},
        )

    def store(self) -> Store:
        return open_store(self.lab.env, str(self.repo))

    def tend(self, now: float | None = None) -> int:
        store = self.store()
        try:
            return receipts.tend(store, now)
        finally:
            store.close()

    def records(self) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.lab.lines(self.repo, "mem/private")]
        return [r for r in found if r["op"] == "receipt"]

    def listed(self, *argv: str) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = self.lab.json(self.repo, "receipts", *argv, rc=(0, 1))
        return out


@pytest.fixture
def place(lab: Lab) -> Place:
    return Place(lab)


def test_a_session_that_ended_gets_one_private_record_with_ids_tips_head_and_counts(
    place: Place,
) -> None:
    a, b = place.ids
    session.Notes(place.mem, UUID).add("start", ["startup"])
    place.shown(UUID, [a], "start")
    place.shown(UUID, [b])
    session.Notes(place.mem, UUID).add("touched", ["db/orders.sql", "db/new.sql", "README.md"])
    session.Notes(place.mem, UUID).add("end", ["prompt_input_exit"])
    assert place.tend() == 1
    (found,) = place.records()
    assert record.object_id(found["head"]) == place.head
    assert found | {"id": "", "at": "", "started": ""} == {
        "v": 1,
        "op": "receipt",
        "id": "",
        "at": "",
        "started": "",
        "session": UUID,
        "agent": "claude",
        "source": "startup",
        "end": "prompt_input_exit",
        "head": place.head,
        "tips": {"refs/notes/mem/team": place.tip},
        "shown": {"prompt": short.pack([b]), "start": short.pack([a])},
        "files": 3,
        "use": {short.pack([a]): [0, 2, 1]},
    }
    (said,) = place.listed()
    assert (said["shown"], said["used"]) == ({"prompt": [b], "start": [a]}, {a: 2})
    assert place.lab.git(place.repo, "log", "--notes=mem/private", "-1").count("receipt") == 0


def test_a_receipt_holds_no_path_and_no_word_that_a_hook_or_an_agent_made_up(place: Place) -> None:
    name = "my secret project"
    session.Notes(place.mem, name).add("start", ["a source with words"])
    place.shown(name, [*place.ids, "not an id", "secret=word"])
    session.Notes(place.mem, name).add("touched", ["db/secret.sql"])
    session.Notes(place.mem, name).add("end", ["a reason with words"])
    assert place.tend() == 1
    assert not [
        line
        for line in place.lab.lines(place.repo, "mem/private")
        if "secret" in line or "words" in line or "not an id" in line
    ]
    (found,) = place.records()
    assert (found["session"], found["source"], found["end"]) == (
        session.key(name),
        "other",
        "other",
    )


def test_what_was_ended_twice_or_tended_twice_has_one_receipt(place: Place) -> None:
    place.shown("s1", place.ids)
    session.Notes(place.mem, "s1").add("end", ["other"])
    session.Notes(place.mem, "s1").add("end", ["other"])
    assert [place.tend(), place.tend()] == [1, 0]
    assert len(place.records()) == 1


def test_a_resumed_session_gets_a_second_receipt_for_what_came_then(place: Place) -> None:
    a, b = place.ids
    place.shown(UUID, [a])
    session.Notes(place.mem, UUID).add("end", ["other"])
    place.tend()
    session.Notes(place.mem, UUID).add("start", ["resume"])
    place.shown(UUID, [b])
    session.Notes(place.mem, UUID).add("touched", ["db/orders.sql"])
    session.Notes(place.mem, UUID).add("end", ["logout"])
    assert place.tend() == 1
    old, new = sorted(
        place.listed(), key=lambda r: str(r["source"])
    )  # both may be of the same second
    assert (old["shown"], old["used"], old["session"]) == ({"prompt": [a]}, {}, UUID)
    assert (new["shown"], new["used"], new["source"], new["session"]) == (
        {"prompt": [b]},
        {a: 1},
        "resume",
        UUID,
    )


def test_a_worker_that_comes_after_the_resumption_writes_what_two_workers_would_have_written(
    place: Place,
) -> None:
    a, b = place.ids
    place.shown("s1", [a])
    session.Notes(place.mem, "s1").add("end", ["clear"])
    place.shown("s1", [b])
    assert place.tend() == 1
    session.Notes(place.mem, "s1").add("end", ["other"])
    assert place.tend() == 1
    assert sorted(r["shown"]["prompt"] for r in place.listed()) == sorted([[a], [b]])


def test_several_sessions_are_one_commit_and_a_prompt_is_none(place: Place) -> None:
    for i in range(5):
        place.shown(f"s{i}", place.ids)
    assert place.tend() == 0 and place.records() == []
    for i in range(5):
        session.Notes(place.mem, f"s{i}").add("end", ["other"])
    assert place.tend() == 5
    assert place.lab.git(place.repo, "rev-list", "--count", "refs/notes/mem/private").strip() == "1"


def test_a_session_without_an_end_gets_its_receipt_after_a_day_and_another_one_when_it_goes_on(
    place: Place,
) -> None:
    a, b = place.ids
    place.shown("s1", [a])
    now = time.time()
    assert place.tend(now + receipts.IDLE - 60) == 0
    assert place.tend(now + receipts.IDLE + 60) == 1
    assert place.records()[0]["end"] == "idle"
    place.shown("s1", [b])
    session.Notes(place.mem, "s1").add("end", ["other"])
    assert place.tend() == 1
    assert sorted(r["shown"]["prompt"] for r in place.listed()) == sorted([[a], [b]])


def test_a_worker_killed_before_it_marked_the_file_makes_no_second_receipt(place: Place) -> None:
    path = session.path_of(place.mem, "s1")
    place.shown("s1", place.ids[:1])
    with open(path, "rb") as f:
        before = f.read()
    now = time.time() + receipts.IDLE + 60
    assert place.tend(now) == 1
    with open(path, "wb") as f:
        f.write(before)
    assert place.tend(now) == 1
    assert len(place.records()) == 1
    with open(path, "wb") as f:
        f.write(before)
    place.shown("s1", place.ids[1:])
    session.Notes(place.mem, "s1").add("end", ["other"])
    place.tend()
    assert len({r["id"] for r in place.records()}) == 1
    (found,) = place.listed()
    assert (found["shown"], found["end"]) == ({"prompt": place.ids}, "other")


def test_a_session_that_was_shown_nothing_leaves_no_receipt_and_is_not_looked_at_again(
    place: Place,
) -> None:
    session.Notes(place.mem, "s1").add("start", ["startup"])
    session.Notes(place.mem, "s1").add("touched", ["db/orders.sql"])
    session.Notes(place.mem, "s1").add("end", ["other"])
    assert place.tend() == 0 and not session.pending(session.path_of(place.mem, "s1"))
    assert (
        place.lab.run(
            place.repo, "git", "rev-parse", "-q", "--verify", "refs/notes/mem/private"
        ).returncode
        == 1
    )


def test_receipts_survive_the_loss_of_the_cache(place: Place) -> None:
    place.shown(UUID, place.ids)
    session.Notes(place.mem, UUID).add("end", ["other"])
    place.tend()
    before = place.listed()
    shutil.rmtree(place.mem)
    assert place.listed() == before and before[0]["state"] == "stored"


def test_a_receipt_is_no_memory(place: Place) -> None:
    def view() -> list[object]:
        numbers = place.lab.json(place.repo, "stats")
        facts = place.lab.json(place.repo, "status")
        listed = place.lab.json(place.repo, "list", "--all")
        for memory in listed:  # what was told in vain is counted: `test_feedback`
            memory.pop("confidence")
            memory.pop("use", None)
        hits = place.lab.json(place.repo, "recall", "receipt session claude", rc=(0, 1))["hits"]
        return [
            listed,
            place.lab.mem(place.repo, "export", "--scope", "all"),
            [hit["id"] for hit in hits],
            {
                k: numbers[k]
                for k in (
                    "memories",
                    "private",
                    "superseded",
                    "forgotten",
                    "types",
                    "authors",
                    "months",
                    "vectors",
                )
            },
            facts["memories"],
            facts["private"],
            facts["forgotten"],
        ]

    before = view()
    place.shown(UUID, place.ids)
    session.Notes(place.mem, UUID).add("end", ["other"])
    place.tend()
    assert view() == before
    (found,) = place.records()
    assert "no memory" in place.lab.run(place.repo, "git", "mem", "show", found["id"]).stderr
    assert place.lab.mem(place.repo, "doctor").count("bad:") == 0
    assert fold.fold([r for r in [record.parse(record.dump(found))] if r]) == {}


def test_a_receipt_does_not_look_like_a_secret(place: Place) -> None:
    place.shown(UUID, [f"{i * 7919:032x}" for i in range(30)] + place.ids)
    session.Notes(place.mem, UUID).add("end", ["other"])
    place.tend()
    assert redact.check(place.records()[0]) == []
    assert "secret" not in place.lab.mem(place.repo, "doctor")


def test_after_a_purge_the_receipt_may_keep_the_id_and_the_session_file_does_not(
    place: Place,
) -> None:
    a, b = place.ids
    place.shown("s1", [a])
    session.Notes(place.mem, "s1").add("end", ["other"])
    place.tend()
    place.shown("s1", [b])
    place.lab.mem(place.repo, "purge", a, "--force")
    assert session.Notes(place.mem, "s1").shown() == {b}
    session.Notes(place.mem, "s1").add("end", ["other"])
    assert place.tend() == 1
    assert sorted(r["shown"]["prompt"] for r in place.listed()) == sorted([[short.of(a)], [b]])
    assert "(no longer here)" in place.lab.mem(place.repo, "receipts", "--session", "s1")


def test_a_receipt_can_be_purged_like_any_line_by_its_version(place: Place) -> None:
    place.shown("s1", place.ids)
    session.Notes(place.mem, "s1").add("end", ["other"])
    place.tend()
    (line,) = [line for line in place.lab.lines(place.repo, "mem/private") if '"receipt"' in line]
    place.lab.mem(place.repo, "purge", record.version_of(line.encode()), "--force")
    assert place.records() == [] and place.listed() == []


def test_the_worker_writes_receipts_when_a_session_ends(place: Place) -> None:
    place.shown("s1", place.ids)
    session.Notes(place.mem, "s1").add("end", ["clear"])
    spool.append(place.mem, b'{"event":"session-end"}')
    worker.run(str(place.repo / ".git"), place.lab.env, linger=0.0)
    assert len(place.records()) == 1 and worker_log.lines(place.mem) == []
    assert not spool.waiting(place.mem)


def test_hooks_of_a_session_leave_what_its_receipt_tells(place: Place) -> None:
    def hook(event: str, **fields: object) -> str:
        said = {"session_id": UUID, "cwd": str(place.repo), "hook_event_name": event, **fields}
        return place.lab.mem(
            place.repo, "hook", event, stdin=json.dumps(said), env={"GIT_MEM_PATIENCE": "1000"}
        )

    assert "share a transaction" in hook("SessionStart", source="startup")
    hook(
        "PostToolUse",
        tool_name="Edit",
        tool_input={"file_path": str(place.repo / "src" / "parser.py")},
        tool_response={},
    )
    assert hook("SessionEnd", reason="logout") == ""
    until(place.records)
    (found,) = place.records()
    assert (found["session"], found["agent"], found["source"], found["end"]) == (
        UUID,
        "claude",
        "startup",
        "logout",
    )
    assert sorted(short.unpack(found["shown"]["start"])) == sorted(map(short.of, place.ids))
    assert place.listed()[0]["used"] == {place.ids[1]: 1}
    assert (found["head"], found["tips"]) == (place.head, {"refs/notes/mem/team": place.tip})


def test_the_worker_removes_files_of_old_sessions_after_it_wrote_their_receipts(
    place: Place,
) -> None:
    place.shown("s1", place.ids)
    path = session.path_of(place.mem, "s1")
    os.utime(path, (time.time() - session.OLDEST - 60,) * 2)
    assert place.tend() == 1
    os.utime(path, (time.time() - session.OLDEST - 60,) * 2)
    assert place.tend() == 0 and not os.path.exists(path)
    assert len(place.records()) == 1


def test_receipts_lists_the_newest_first_also_sessions_that_go_on(place: Place) -> None:
    a, b = place.ids
    assert place.listed() == []
    place.shown(UUID, [a], "start")
    session.Notes(place.mem, UUID).add("end", ["clear"])
    assert [r["state"] for r in place.listed()] == ["waiting"]
    place.tend()
    place.shown("open", [b], "subagent")
    going, done = place.listed()
    assert (going["state"], going["ended"], going["end"], going["shown"]) == (
        "open",
        None,
        None,
        {"subagent": [b]},
    )
    assert (done["state"], done["end"], done["head"]) == ("stored", "clear", place.head)
    assert [r["id"] for r in place.listed("-n", "1")] == [going["id"]]
    assert place.listed("--session", UUID[:8]) == [done] and place.listed("--session", "open") == [
        going
    ]
    text = place.lab.mem(place.repo, "receipts", "--session", UUID)
    assert (
        f"{a[:8]}  Orders and invoices share a transaction  [start]" in text
        and f"refs/notes/mem/team at {place.tip[:12]}" in text
    )
    missing = place.lab.run(place.repo, "git", "mem", "receipts", "--session", "nobody")
    assert missing.returncode == 1 and "no receipt of session 'nobody'" in missing.stderr


def test_receipts_of_another_shape_are_read_as_far_as_they_go(place: Place) -> None:
    odd = {
        "v": 1,
        "op": "receipt",
        "id": "e" * 32,
        "shown": {"prompt": [1, "a" * 32], "start": 5},
        "tips": [],
        "used": {"x": "y"},
        "files": "many",
        "agent": "\u202e\ud800",
    }
    place.lab.git(place.repo, "notes", "--ref=mem/private", "add", "-m", json.dumps(odd), "HEAD")
    (found,) = place.listed()
    assert (found["shown"], found["files"], found["used"], found["tips"], found["ended"]) == (
        {"prompt": ["a" * 32]},
        0,
        {},
        {},
        None,
    )
    place.lab.mem(place.repo, "receipts")


def test_stats_count_sessions_and_what_they_were_shown_by_route(place: Place) -> None:
    a, b = place.ids
    place.shown("s1", [a, b], "start")
    place.shown("s1", [b])
    session.Notes(place.mem, "s1").add("touched", ["src/parser.py"])
    session.Notes(place.mem, "s1").add("end", ["other"])
    place.shown("s2", [a])
    session.Notes(place.mem, "s2").add("end", ["other"])
    place.tend()
    numbers = place.lab.json(place.repo, "stats")
    assert (numbers["sessions"], numbers["shown"], numbers["agents"], numbers["used"]) == (
        2,
        {"start": 2, "prompt": 2},
        {"claude": 2},
        1,
    )


def test_doctor_names_sessions_that_go_on_and_mends_receipts_that_nobody_wrote(
    place: Place,
) -> None:
    assert "session" not in place.lab.mem(place.repo, "doctor").replace("said in sessions", "")
    place.shown("s1", place.ids)
    assert "1 agent session of the last days, 1 not ended yet" in place.lab.mem(
        place.repo, "doctor"
    )
    os.utime(session.path_of(place.mem, "s1"), (time.time() - receipts.IDLE - 7200,) * 2)
    found = place.lab.json(place.repo, "doctor")
    assert [f for f in found if "without a receipt" in f["text"] and f["repairable"]]
    assert "mended: 1 receipt written" in place.lab.mem(place.repo, "doctor", "--repair")
    assert len(place.records()) == 1
