"""`git mem consolidate`: what could become one is found and proposed; only a person does it."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Any

import pytest
from conftest import Lab
from consolidate_world import AGAIN, COOKIES, MONDAY, POSTGRES, REDIS, WIPED, Place

from gitmem import worker
from gitmem.hooks import announce
from gitmem.memory import consolidate, proposals


@pytest.fixture
def place(lab: Lab) -> Place:
    return Place(lab)


def test_three_kinds_are_found_and_nothing_is_changed(place: Place) -> None:
    place.add(WIPED, MONDAY, POSTGRES, AGAIN, REDIS, COOKIES, "The build needs a clean tree")
    before = place.lines("team")
    found = place.look()
    assert {(f["kind"], *(m["body"] for m in f["memories"])) for f in found} == {
        ("contradiction", WIPED, MONDAY),
        ("merge", POSTGRES, AGAIN),
        ("supersede", REDIS, COOKIES),
    }
    assert [f["kind"] for f in found] == ["contradiction", "supersede", "merge"]
    assert {f["kind"]: f["keep"] for f in found} == {
        "contradiction": None,
        "supersede": found[1]["memories"][1]["id"],
        "merge": found[2]["memories"][0]["id"],
    }
    assert place.lines("team") == before
    assert len(place.bodies()) == 7


def test_a_proposal_holds_ids_and_no_text(place: Place) -> None:
    place.add(WIPED, MONDAY)
    place.look()
    (line,) = place.lines()
    assert line["op"] == "suggest" and line["kind"] == "contradiction"
    assert "staging" not in json.dumps(line) and "Sunday" not in json.dumps(line)


def test_dry_run_writes_nothing(place: Place) -> None:
    place.add(WIPED, MONDAY)
    assert [f["new"] for f in place.look("--dry-run")] == [True]
    assert place.lines() == []
    assert place.review(rc=(1,)) == []
    assert "nothing was written" in place.lab.mem(place.repo, "consolidate", "--dry-run")


def test_a_pair_is_proposed_once_also_after_the_cache_was_deleted(place: Place) -> None:
    place.add(WIPED, MONDAY)
    (first,) = place.look()
    shutil.rmtree(place.mem)
    (again,) = place.look()
    assert (again["id"], again["new"]) == (first["id"], False)
    assert len(place.lines()) == 1


def test_nothing_found_says_so_and_ends_with_1(place: Place) -> None:
    place.add("Tabs are four wide", "The build needs a clean tree")
    assert "nothing that repeats" in place.lab.mem(place.repo, "consolidate", rc=(1,))


def test_five_memories_that_say_the_same_make_four_proposals(place: Place) -> None:
    texts = [POSTGRES, AGAIN, POSTGRES + ".", "Decision: " + POSTGRES, POSTGRES.replace(",", "")]
    place.add(*texts, scope="private")
    found = place.look()
    assert [f["kind"] for f in found] == ["merge"] * 4
    for f in found:
        place.lab.mem(place.repo, "review", "--accept", f["id"], "--json", rc=(0, 1))
    while found := place.lab.json(place.repo, "consolidate", rc=(0, 1))["found"]:
        place.review("--accept", found[0]["id"])
    assert len(place.bodies()) == 1


def test_a_list_is_no_contradiction(place: Place) -> None:
    place.add(
        *(
            f"Retry failed uploads of kind {kind} 3 times before giving up"
            for kind in ("a1", "b2", "c3", "d4")
        )
    )
    assert place.look(rc=(1,)) == []


def test_three_days_for_one_thing_are_three_contradictions_at_most(place: Place) -> None:
    place.add(WIPED, MONDAY, WIPED.replace("Sunday", "Tuesday"))
    assert {f["kind"] for f in place.look()} == {"contradiction"}


def test_two_events_in_the_same_words_are_two_memories(place: Place) -> None:
    place.add("The crash came from a stale lock in the upload queue", type="bugfix")
    place.lab.git(place.repo, "commit", "-q", "--allow-empty", "-m", "later")
    place.add("The crash came from a stale lock in the upload queue", type="bugfix")
    assert place.look(rc=(1,)) == []


def test_show_and_list_say_what_contradicts_a_memory_until_it_is_decided(place: Place) -> None:
    a, b = place.add(WIPED, MONDAY, scope="private")
    assert "contradicts" not in place.show(a)
    (found,) = place.look()
    assert (place.show(a)["contradicts"], place.show(b)["contradicts"]) == ([b], [a])
    assert f"contradicted by {b[:8]}" in place.lab.mem(
        place.repo, "recall", "when is the staging database wiped"
    )
    place.review("--reject", found["id"])
    assert "contradicts" not in place.show(a)


def test_the_id_of_a_pair_does_not_depend_on_its_order() -> None:
    one, other = (consolidate.Finding(consolidate.MERGE, ids) for ids in (("a", "b"), ("b", "a")))
    assert one.id == other.id == one._replace(kind=consolidate.CONTRADICTION).id


def test_odd_proposals_of_others_stop_nobody(place: Place) -> None:
    place.add(WIPED, MONDAY)
    odd: list[dict[str, Any]] = [
        {"kind": "merge"},
        {"kind": "merge", "memories": "ab"},
        {"kind": "merge", "memories": [1, 2]},
        {"kind": "merge", "memories": []},
        {"kind": 3, "memories": ["a", "b"]},
        {"kind": "merge", "memories": ["a", "b"], "near": "x", "keep": 5, "why": []},
        {"kind": "contradiction", "memories": ["a", "a"], "why": "against it"},
    ]
    store = place.store()
    try:
        store.append(
            "private",
            [
                (
                    "",
                    json.dumps(
                        {"v": 1, "op": "suggest", "id": f"{n:032x}", **o},
                        separators=(",", ":"),
                        sort_keys=True,
                    ).encode(),
                )
                for n, o in enumerate(odd)
            ],
            "odd",
        )
    finally:
        store.close()
    assert len(place.look()) == 1
    assert len(place.review()) == 1
    assert place.lab.json(place.repo, "status")["proposals"] == 1


def test_a_proposal_of_one_memory_with_itself_is_none(place: Place) -> None:
    (id,) = place.add(WIPED)
    store = place.store()
    try:
        for n, kind in enumerate(("merge", "supersede", "contradiction")):
            line = {
                "v": 1,
                "op": "suggest",
                "id": f"{n:08x}".ljust(32, "1"),
                "kind": kind,
                "keep": id,
                "memories": [id, id],
                "why": "same",
                "at": "2026-01-01T00:00:00Z",
                "n": "1",
            }
            store.append(
                "private",
                [("", json.dumps(line, separators=(",", ":"), sort_keys=True).encode())],
                "odd",
            )
    finally:
        store.close()
    assert place.review(rc=(1,)) == []
    done = place.lab.run(
        place.repo, sys.executable, "-m", "gitmem", "review", "--accept", "00000000", "--team"
    )
    assert done.returncode == 1 and "bug" not in done.stderr


def test_a_look_that_broke_off_goes_on_where_it_ended(place: Place) -> None:
    place.add(*(f"{WIPED} on cluster {n:03d}x" for n in range(3)))
    store = place.store()
    try:
        cut = store.with_cache(lambda cache: consolidate.find(cache, 0, 0.0))[0]
        assert cut.upto <= 3
        whole = store.with_cache(lambda cache: consolidate.find(cache, cut.upto, 60.0))[0]
        assert whole.whole
    finally:
        store.close()


def test_after_a_session_the_worker_looks_only_where_capture_is_on(place: Place) -> None:
    place.add(WIPED, MONDAY)
    for settings, told in (
        ({}, ""),
        ({"mem.capture": "commits", "mem.consolidate": "false"}, ""),
        (
            {"mem.capture": "commits", "mem.consolidate": "true"},
            "1 proposal waits: `git mem review`",
        ),
    ):
        for name, value in settings.items():
            place.lab.git(place.repo, "config", name, value)
        store = place.store()
        try:
            proposals.tend(store)
        finally:
            store.close()
        assert told in announce.message(str(place.mem))
        assert bool(place.lines()) == bool(told)
    announce.told(str(place.mem))
    store = place.store()
    try:
        proposals.tend(store)
    finally:
        store.close()
    assert announce.message(str(place.mem)) == ""


def test_a_session_that_ends_makes_proposals_and_the_next_start_tells_of_them(place: Place) -> None:
    place.add(WIPED, MONDAY)
    place.lab.git(place.repo, "config", "mem.capture", "commits")
    payload = {"session_id": "s1", "cwd": str(place.repo), "transcript_path": ""}
    place.lab.mem(
        place.repo,
        "hook",
        "SessionEnd",
        stdin=json.dumps({"hook_event_name": "SessionEnd", "reason": "exit", **payload}),
    )
    worker.run(str(place.repo / ".git"), place.lab.env, linger=0.0, wait=60.0)
    (found,) = place.review()
    assert found["kind"] == "contradiction"
    told = place.lab.mem(
        place.repo,
        "hook",
        "SessionStart",
        stdin=json.dumps(
            {"hook_event_name": "SessionStart", "source": "startup", **payload, "session_id": "s2"}
        ),
    )
    assert "1 proposal waits: `git mem review`" in json.loads(told)["systemMessage"]
    again = place.lab.mem(
        place.repo,
        "hook",
        "SessionStart",
        stdin=json.dumps(
            {"hook_event_name": "SessionStart", "source": "startup", **payload, "session_id": "s3"}
        ),
    )
    assert "proposal" not in json.loads(again).get("systemMessage", "")


def test_a_prompt_is_told_that_a_memory_is_contradicted(place: Place) -> None:
    a, b = place.add(WIPED, MONDAY)
    place.look()
    place.lab.git(place.repo, "config", "mem.promptContext", "true")
    payload = json.dumps(
        {
            "hook_event_name": "UserPromptSubmit",
            "session_id": "s",
            "cwd": str(place.repo),
            "prompt": "On which day is the staging database wiped?",
        }
    )
    told = place.lab.mem(place.repo, "hook", "UserPromptSubmit", stdin=payload)
    assert f'contradicted_by=\\"{b[:8]}' in told and f'contradicted_by=\\"{a[:8]}' in told
    block = place.lab.mem(place.repo, "context")
    assert f'contradicted_by="{b[:8]}"' in block and f'contradicted_by="{a[:8]}"' in block
    assert f"contradicted_by {b[:8]}" in place.lab.mem(place.repo, "context", "--format", "md")
    listed = {
        m["id"]: m
        for section in json.loads(place.lab.mem(place.repo, "context", "--format", "json"))[
            "working_memory"
        ].values()
        for m in section
    }
    listed.update(
        {
            m["id"]: m
            for m in json.loads(place.lab.mem(place.repo, "context", "--format", "json"))[
                "relevant_memories"
            ]
        }
    )
    assert listed[a]["contradicts"] == [b]
    place.lab.mem(place.repo, "edit", a, "-m", "The staging database is kept for a month")
    assert "contradicted_by" not in place.lab.mem(place.repo, "context")
