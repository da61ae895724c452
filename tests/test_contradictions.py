"""Marks of contradiction: how long they hold, whose word makes and ends them; and what comes back
where a memory that took another's place is purged.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from typing import Any

import pytest
from conftest import Lab
from consolidate_world import AGAIN, MONDAY, POSTGRES, REDIS, WIPED, Place

from gitmem.engine import contradictions
from gitmem.memory import consolidate, memories


@pytest.fixture
def place(lab: Lab) -> Place:
    return Place(lab)


def forged(place: Place, scope: str, op: str, **fields: Any) -> None:
    """A record as somebody may write it into notes."""
    store = place.store()
    try:
        store.append(
            scope,
            [
                (
                    "",
                    json.dumps(
                        {"v": 1, "op": op, "n": "0" * 16, "at": "2026-03-04T00:00:00Z", **fields},
                        separators=(",", ":"),
                        sort_keys=True,
                    ).encode(),
                )
            ],
            "forged",
        )
    finally:
        store.close()


def marks(place: Place) -> dict[str, list[str]]:
    return {
        m["id"]: m["contradicts"]
        for m in place.lab.json(place.repo, "list", "--all")
        if "contradicts" in m
    }


# How long a mark holds


def test_an_edit_to_something_else_takes_the_mark_away(place: Place) -> None:
    a, b = place.add(WIPED, MONDAY, scope="private")
    place.look()
    assert marks(place) == {a: [b], b: [a]}
    place.lab.mem(place.repo, "edit", a, "-m", "Nobody may touch the staging cluster")
    assert place.review(rc=(1,)) == []
    assert marks(place) == {}


def test_a_proposal_that_no_longer_holds_can_be_rejected_and_not_accepted(place: Place) -> None:
    a, _ = place.add(WIPED, MONDAY, scope="private")
    (found,) = place.look()
    place.lab.mem(place.repo, "edit", a, "-m", "Nobody may touch the staging cluster")
    assert (
        "does not hold any more"
        in place.review("--accept", found["id"], "--keep", a, rc=(1,))[0]["reason"]
    )
    assert place.review("--reject", found["id"])[0]["status"] == "rejected"
    place.lab.mem(place.repo, "edit", a, "-m", WIPED)
    assert place.review(rc=(1,)) == [] and marks(place) == {}


# Whose word counts


def test_a_teammate_s_notes_neither_make_a_proposal_nor_a_mark(place: Place) -> None:
    a, b = place.add(POSTGRES, REDIS)
    seen = [json.loads(line) for line in place.lab.lines(place.repo, "mem/team")]
    assert len(seen) == 2
    store = place.store()
    there = store.with_cache(lambda cache: memories.load_many(cache, [a, b]))[0]
    store.close()
    fields = {
        "id": "ab" * 16,
        "kind": "contradiction",
        "memories": [a, b],
        "why": "against it",
        "near": 1,
        "seen": [there[a].record.version, there[b].record.version],
    }
    forged(place, "team", "suggest", **fields)
    assert place.review(rc=(1,)) == [] and marks(place) == {}
    forged(place, "private", "suggest", **fields)
    assert len(place.review()) == 1 and marks(place) == {a: [b], b: [a]}


@pytest.mark.parametrize("word", ["declined", "accepted"])
def test_a_teammate_s_notes_silence_no_proposal(place: Place, word: str) -> None:
    a, b = place.add(WIPED, MONDAY)
    (found,) = place.look()
    forged(place, "team", "verdict", id=found["id"], kind="contradiction", verdict=word, memory=a)
    assert [p["id"] for p in place.review()] == [found["id"]]
    assert marks(place) == {a: [b], b: [a]}
    assert place.look()[0]["id"] == found["id"]


def test_the_words_of_a_mark_are_those_of_a_proposal(place: Place) -> None:
    place.add(WIPED, MONDAY)
    place.look()
    assert (
        consolidate.CONTRADICTION,
        consolidate.SUPERSEDE,
        consolidate.AGAINST,
        consolidate.VALUE,
    ) == (
        contradictions.CONTRADICTION,
        contradictions.SUPERSEDE,
        contradictions.AGAINST,
        contradictions.VALUE,
    )
    assert all(
        f'"kind":"{kind}"' in contradictions._PROPOSED.replace("\\", "")
        for kind in (consolidate.CONTRADICTION, consolidate.SUPERSEDE)
    )


# What a person called wrong


def test_what_a_person_called_wrong_is_counted_and_stays_so_if_it_comes_back(place: Place) -> None:
    a, b = place.add(WIPED, MONDAY, scope="private")
    (found,) = place.look()
    assert place.lab.json(place.repo, "stats")["feedback"]["contradicted"] == 0
    place.review("--accept", found["id"], "--keep", b)
    assert place.lab.json(place.repo, "stats")["feedback"]["contradicted"] == 1
    gone = place.show(a)
    assert (gone["status"], gone["use"]["contradicted"]) == ("superseded", 1)
    assert gone["confidence"] == 0.125  # once, though it is superseded, too
    place.lab.mem(place.repo, "purge", b, "--force")
    back = place.show(a)
    assert (back["status"], back["confidence"]) == ("active", 0.125)
    place.lab.mem(place.repo, "edit", a, "-m", "The staging database is wiped every first Sunday")
    assert place.show(a)["confidence"] is None


@pytest.mark.parametrize("how", ["reject", "one text", "merge"])
def test_who_keeps_both_or_writes_one_text_or_merges_calls_nothing_wrong(
    place: Place, how: str
) -> None:
    place.add(*((POSTGRES, AGAIN) if how == "merge" else (WIPED, MONDAY)), scope="private")
    (found,) = place.look()
    argv = {
        "reject": ["--reject", found["id"]],
        "one text": ["--edit", found["id"], "-m", "Staging is wiped on Sunday and Monday nights"],
        "merge": ["--accept", found["id"]],
    }[how]
    place.review(*argv)
    assert place.lab.json(place.repo, "stats")["feedback"]["contradicted"] == 0


# What comes back


def merged(place: Place, other: str) -> tuple[str, str]:
    """(the memory that stayed, the one whose place it took)."""
    place.add(POSTGRES, other, scope="private")
    (found,) = place.look()
    (done,) = place.review("--accept", found["id"])
    stays = str(done["memory"])
    return stays, next(m["id"] for m in found["memories"] if m["id"] != stays)


def test_a_purge_names_the_twin_that_it_brings_back(place: Place) -> None:
    stays, twin = merged(place, POSTGRES + ".")
    answer = place.lab.json(place.repo, "purge", stays, "--force")
    assert [(m["id"], m["alike"]) for m in answer["comes_back"]] == [(twin, True)]
    assert place.show(twin)["status"] == "active"


def test_people_are_told_what_comes_back_and_how_to_take_it_too(place: Place) -> None:
    stays, twin = merged(place, POSTGRES + ".")
    said = place.lab.mem(place.repo, "purge", stays, "--force")
    assert f"comes back: {twin[:8]}" in said and "`git mem purge` with this id takes it too" in said
    assert "no other note holds the text" not in said and "says nearly the same" in said


def test_a_terminal_shows_what_comes_back_before_it_asks(place: Place) -> None:
    stays, twin = merged(place, POSTGRES + ".")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "gitmem", "purge", stays[:8]],
        cwd=place.repo,
        env=place.lab.env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.write(ours, b"n\n")
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal is gone with its process
        while part := os.read(ours, 4096):
            shown += part
    assert process.wait() == 1
    told, asked = shown.index(f"comes back: {twin[:8]}".encode()), shown.index(b"purge it?")
    assert told < asked and b"nearly the same" in shown[:asked]
    assert place.show(twin)["status"] == "superseded"


def test_what_another_text_replaced_comes_back_and_is_not_called_alike(place: Place) -> None:
    (a,) = place.add(REDIS)
    new = place.lab.json(place.repo, "supersede", a, "Nobody may touch the staging cluster")["id"]
    answer = place.lab.json(place.repo, "purge", new, "--force")
    assert [(m["id"], m["alike"]) for m in answer["comes_back"]] == [(a, False)]
    assert "no other note holds the text" in place.lab.mem(
        place.repo, "purge", place.add("stays")[0], "--force"
    )


def test_what_something_else_covers_too_or_a_person_forgot_does_not_come_back(place: Place) -> None:
    a, b = place.add(REDIS, POSTGRES)
    one = place.lab.json(place.repo, "supersede", a, "Nobody may touch the staging cluster")["id"]
    two = place.lab.json(place.repo, "supersede", one, "The build needs a clean tree")["id"]
    place.lab.mem(place.repo, "forget", b)
    assert [m["id"] for m in place.lab.json(place.repo, "purge", two, "--force")["comes_back"]] == [
        one
    ]
    place.lab.mem(place.repo, "forget", a)
    assert place.lab.json(place.repo, "purge", one, "--force")["comes_back"] == []
    assert place.show(a)["status"] == "forgotten"
