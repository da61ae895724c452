"""Suggestions: kept as private records, each text once; a person accepts, edits, rejects or merges
them.
"""

from __future__ import annotations

import json
import shutil
from contextlib import closing

import pytest
from conftest import Lab
from review_world import Place

from gitmem.capture import review, suggestions
from gitmem.core import record
from gitmem.memory import review_records

SECRET = "token ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


@pytest.fixture
def place(lab: Lab) -> Place:
    return Place(lab)


def test_a_suggestion_is_a_private_record_and_no_memory(place: Place) -> None:
    id = place.one("Use SQLite, not DuckDB", paths=["db/"], source="claude:s1:3")
    (line,) = place.private()
    assert {
        k: line[k]
        for k in (
            "op",
            "id",
            "body",
            "type",
            "confidence",
            "score",
            "stage",
            "role",
            "session",
            "source",
        )
    } == {
        "op": "suggest",
        "id": id,
        "body": "Use SQLite, not DuckDB",
        "type": "decision",
        "confidence": 0.8,
        "score": 0.8,
        "stage": "linear",
        "role": "user",
        "session": "s1",
        "source": "claude:s1:3",
    }
    assert place.memories() == []
    assert place.lab.lines(place.repo, "mem/team") == []
    assert "MISS" in place.lab.mem(place.repo, "recall", "SQLite or DuckDB", rc=(1,))
    assert place.lab.mem(place.repo, "doctor")


def test_suggestions_and_verdicts_outlive_the_cache(place: Place) -> None:
    a, b = place.one("Use SQLite, not DuckDB"), place.one("Tabs are four wide")
    place.review("--reject", b)
    shutil.rmtree(place.mem)
    assert [s["id"] for s in place.review()] == [a]
    assert place.propose("Tabs are four wide")[0].status == "duplicate"


def test_what_is_accepted_is_a_private_memory_that_says_a_person_did_it(place: Place) -> None:
    head = place.lab.git(place.repo, "rev-parse", "HEAD").strip()
    id = place.one("Use SQLite, not DuckDB", paths=["f0.txt"], commit=head, tags=["db"])
    (done,) = place.review("--accept", id[:8])
    assert (done["status"], done["memory"], done["scope"]) == ("accepted", id, "private")
    (memory,) = place.memories()
    assert (
        memory["id"],
        memory["scope"],
        memory["provenance"],
        memory["author"],
        memory["type"],
        memory["tags"],
    ) == (id, "private", "VERIFIED", "Ada <ada@example.org>", "decision", ["db"])
    assert memory["confidence"] > 0.8
    assert memory["anchor"]["commit"] == head
    assert memory["paths"] == [{"path": "f0.txt", "state": "same"}]
    assert place.review(rc=(1,)) == []


def test_accepting_for_the_team_shares_the_memory_and_nothing_else(place: Place) -> None:
    place.review("--accept", place.one("Use SQLite, not DuckDB"), "--team")
    assert [m["scope"] for m in place.memories()] == ["team"]
    assert [json.loads(line)["op"] for line in place.lab.lines(place.repo, "mem/team")] == [
        "create"
    ]


def test_a_text_that_was_remembered_since_is_not_stored_again(place: Place) -> None:
    id = place.one("Use SQLite, not DuckDB")
    known = place.lab.json(place.repo, "remember", "Use SQLite, not DuckDB", "--private")["id"]
    (done,) = place.review("--accept", id, "--team")
    assert (done["status"], done["memory"], done["scope"]) == ("accepted", known, "private")
    assert [m["id"] for m in place.memories()] == [known]


def test_a_commit_that_is_gone_does_not_keep_a_suggestion_from_being_accepted(place: Place) -> None:
    id = place.one("Use SQLite, not DuckDB", commit="a" * 40)
    place.review("--accept", id)
    assert place.memories()[0]["anchor"]["state"] == "reachable"


@pytest.mark.parametrize("again", ["Use SQLite, not DuckDB", "use  SQLite,\nnot DuckDB."])
@pytest.mark.parametrize("decision", ["", "--accept", "--reject"])
def test_a_text_is_proposed_once_whatever_became_of_it(
    place: Place, again: str, decision: str
) -> None:
    id = place.one("Use SQLite, not DuckDB")
    if decision:
        place.review(decision, id)
    (result,) = place.propose(again, session="s2", source="another:1")
    assert (result.status, result.id) == ("duplicate", id)


def test_one_call_proposes_a_text_once_and_what_is_a_memory_not_at_all(place: Place) -> None:
    known = place.lab.json(place.repo, "remember", "Tabs are four wide")["id"]
    first, second, third = place.propose("Use SQLite", "Use SQLite", "Tabs are four wide")
    assert (first.status, second.status, second.id) == ("stored", "duplicate", first.id)
    assert (third.status, third.id) == ("duplicate", known)


def test_what_was_rejected_can_be_accepted_after_all_and_not_the_other_way(place: Place) -> None:
    id = place.one("Use SQLite, not DuckDB")
    assert place.review("--reject", id)[0]["status"] == "rejected"
    assert place.review("--reject", id, rc=(1,))[0]["reason"].endswith("was rejected already")
    assert place.review("--accept", id)[0]["status"] == "accepted"
    assert place.review("--reject", id, rc=(1,))[0]["status"] == "refused"
    assert [s["state"] for s in place.review("--decided")] == ["accepted"]


def test_an_edited_suggestion_is_a_memory_with_the_new_text_under_the_same_id(place: Place) -> None:
    id = place.one("we go with sqlite i guess", title="sqlite i guess")
    (done,) = place.review("--edit", id, "-m", "Use SQLite, not DuckDB", "--type", "convention")
    (memory,) = place.memories()
    assert (memory["id"], memory["body"], memory["title"], memory["type"]) == (
        id,
        "Use SQLite, not DuckDB",
        "Use SQLite, not DuckDB",
        "convention",
    )
    assert done["title"] == "Use SQLite, not DuckDB"


def test_a_merge_adds_to_a_memory_and_counts_as_decided(place: Place) -> None:
    into = place.lab.json(place.repo, "remember", "Use SQLite", "--private", "--path", "db/")["id"]
    id = place.one("SQLite runs in WAL mode", paths=["f0.txt"])
    (done,) = place.review("--merge", id, into[:8])
    (memory,) = place.memories()
    assert (done["status"], done["memory"], memory["body"]) == (
        "merged",
        into,
        "Use SQLite\n\nSQLite runs in WAL mode",
    )
    assert [p["path"] for p in memory["paths"]] == ["db/", "f0.txt"]
    assert place.review(rc=(1,)) == []
    assert place.propose("SQLite runs in WAL mode")[0].status == "duplicate"


def test_a_memory_of_the_team_is_changed_by_a_merge_only_if_told(place: Place) -> None:
    into = place.lab.json(place.repo, "remember", "Use SQLite")["id"]
    id = place.one("SQLite runs in WAL mode")
    assert "the team's" in place.review("--merge", id, into, rc=(1,))[0]["reason"]
    assert place.memories()[0]["body"] == "Use SQLite"
    place.review("--merge", id, into, "--team", "-m", "SQLite, in WAL mode")
    assert place.memories()[0]["body"] == "SQLite, in WAL mode"


def test_a_changed_decision_takes_the_place_of_the_old_one_when_it_is_accepted(
    place: Place,
) -> None:
    old = place.lab.json(place.repo, "remember", "Use DuckDB", "--private")["id"]
    id = place.one("Use SQLite instead of DuckDB", supersedes=[old])
    (waiting,) = place.review()
    assert waiting["near"][0] == {
        "id": old,
        "title": "Use DuckDB",
        "type": "discovery",
        "scope": "private",
        "replaces": True,
    }
    (done,) = place.review("--accept", id)
    assert done["memory"] == id
    assert [m["id"] for m in place.memories()] == [id]
    assert place.lab.json(place.repo, "show", old)["status"] == "superseded"


def test_where_the_old_decision_is_gone_the_new_one_is_accepted_as_it_is(place: Place) -> None:
    old = place.lab.json(place.repo, "remember", "Use DuckDB", "--private")["id"]
    id = place.one("Use SQLite instead of DuckDB", supersedes=[old, "f" * 32])
    place.lab.mem(place.repo, "forget", old)
    assert place.review("--accept", id)[0]["memory"] == id


def test_an_accept_that_was_cut_off_before_its_verdict_is_finished_by_the_next(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = place.one("Use SQLite, not DuckDB")
    store = place.store()
    with monkeypatch.context() as m:
        m.setattr(suggestions, "decide", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            review.accept(store, review.find(store, id), {"body": "SQLite"})
    store.close()
    assert [s["id"] for s in place.review()] == [id]
    place.review("--edit", id, "-m", "SQLite")
    assert [(m["id"], m["body"]) for m in place.memories()] == [(id, "SQLite")]


@pytest.mark.parametrize("field", ["body", "title", "source", "session", "stage", "tags"])
def test_a_suggestion_with_a_secret_is_not_kept(place: Place, field: str) -> None:
    (result,) = (
        place.propose("a text", **{field: [SECRET] if field == "tags" else SECRET})
        if field != "body"
        else place.propose(f"use {SECRET}")
    )
    assert result.status == "refused"
    assert place.private() == []


def test_a_secret_that_comes_in_by_an_edit_or_a_merge_is_refused_and_nothing_is_decided(
    place: Place,
) -> None:
    into = place.lab.json(place.repo, "remember", "Use SQLite", "--private")["id"]
    id = place.one("SQLite runs in WAL mode")
    for argv in (
        ["--edit", id, "-m", SECRET],
        ["--edit", id, "--title", SECRET],
        ["--merge", id, into, "-m", SECRET],
    ):
        assert "secret" in place.review(*argv, rc=(1,))[0]["reason"]
    assert [m["body"] for m in place.memories()] == ["Use SQLite"]
    assert [s["id"] for s in place.review()] == [id]
    assert not [line for line in place.lab.lines(place.repo, "mem/private") if "ghp_" in line]


def objects(place: Place, text: str) -> list[str]:
    """Every object of the repository, reachable or not, that holds the text; and the files of the
    cache.
    """
    ids = place.lab.git(
        place.repo, "cat-file", "--batch-check=%(objectname) %(objecttype)", "--batch-all-objects"
    ).splitlines()
    found = [
        i
        for i, kind in map(str.split, ids)
        if kind == "blob" and text in place.lab.git(place.repo, "cat-file", "blob", i)
    ]
    return found + [
        str(p) for p in place.mem.rglob("*") if p.is_file() and text.encode() in p.read_bytes()
    ]


@pytest.mark.parametrize("decision", [[], ["--reject"], ["--accept"], ["--edit", "-m", "harmless"]])
def test_a_purge_by_the_id_of_a_suggestion_takes_its_text_everywhere(
    place: Place, decision: list[str]
) -> None:
    text = "the door of the old mill opens at night"
    other = place.one("Use SQLite, not DuckDB")
    id = place.one(text)
    if decision:
        place.review(decision[0], id, *decision[1:])
    assert objects(place, text)
    done = place.lab.json(place.repo, "purge", id[:10], "--force")
    assert (done["id"], done["status"]) == (id, "purged")
    assert objects(place, text) == []
    assert id not in {line["id"] for line in place.private() if line["op"] != "purge"}
    assert other in {s["id"] for s in place.review()}


@pytest.mark.parametrize("text", ["", "harmless"])
def test_a_purge_of_a_memory_takes_the_suggestion_that_was_merged_into_it(
    place: Place, text: str
) -> None:
    said = "the door of the old mill opens at night"
    into = place.lab.json(place.repo, "remember", "The mill is in the north", "--private")["id"]
    id = place.one(said)
    place.review("--merge", id, into, *(["-m", text] if text else []))
    assert objects(place, said)
    assert place.lab.json(place.repo, "purge", into, "--force")["status"] == "purged"
    assert objects(place, said) == []
    assert not [line for line in place.private() if line["id"] == id]


def test_of_one_session_only_the_best_are_put_before_a_person_and_the_rest_is_queued(
    place: Place,
) -> None:
    place.lab.git(place.repo, "config", "mem.suggestions", "2")
    ids = [place.one(f"Use database number {n}", confidence=0.7 + n / 20) for n in range(4)]
    other = place.one("Tabs are four wide", session="s2", confidence=0.71)
    assert [s["id"] for s in place.review()] == [ids[3], ids[2], other]
    assert [(s["id"], s["queued"]) for s in place.review("--all")] == [
        (ids[3], False),
        (ids[2], False),
        (other, False),
        (ids[1], True),
        (ids[0], True),
    ]
    assert "2 more queued" in place.lab.mem(place.repo, "review")
    place.review("--reject", ids[3], "--accept", ids[2])
    assert [s["id"] for s in place.review()] == [ids[1], other, ids[0]]


def test_a_session_leaves_a_bounded_number_of_suggestions(place: Place) -> None:
    place.lab.git(place.repo, "config", "mem.suggestions", "1")
    results = place.propose(*(f"Use database number {n}" for n in range(suggestions.HELD + 2)))
    assert [r.status for r in results] == ["stored"] * suggestions.HELD + ["refused"] * 2
    assert place.propose("Tabs are four wide", session="s2")[0].status == "stored"


def test_one_refused_decision_stops_no_other(place: Place) -> None:
    a, b = place.one("Use SQLite, not DuckDB"), place.one("Tabs are four wide")
    done = place.review("--accept", "ffff", "--accept", a, "--reject", b, rc=(1,))
    assert [d["status"] for d in done] == ["refused", "accepted", "rejected"]


def test_whoever_decides_about_one_suggestion_does_not_read_the_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [result.id for result in place.propose(*(f"Use database number {n}" for n in range(20)))]
    store = place.store()
    suggestions.waiting(store)  # the cache has them
    read: list[bytes] = []
    parse = record.parse

    def noted(line: bytes) -> record.Record | None:
        read.append(line)
        return parse(line)

    monkeypatch.setattr(record, "parse", noted)
    assert review.find(store, ids[3].upper()).id == ids[3]
    assert len(read) == 1
    store.close()


def test_what_was_done_before_wrong_words_is_said(place: Place) -> None:
    a, b = place.one("Use SQLite, not DuckDB"), place.one("Tabs are four wide")
    (done,) = place.review("--accept", a, "--edit", b, rc=(2,))
    assert done["status"] == "accepted" and done["id"] == a


def test_what_was_accepted_somewhere_stays_accepted_in_whatever_order_the_verdicts_come(
    place: Place,
) -> None:
    id = place.one("Use SQLite, not DuckDB")
    store = place.store()
    before = review.find(store, id)
    suggestions.decide(
        store,
        [
            (before, suggestions.REJECTED, ""),
            (before, suggestions.ACCEPTED, id),
            (before, suggestions.REJECTED, ""),
        ],
    )
    assert review.find(store, id).state == suggestions.ACCEPTED
    store.close()


def test_odd_records_of_others_are_read_without_harm(place: Place) -> None:
    good = place.one("Use SQLite, not DuckDB")
    odd = [
        {"v": 1, "op": "suggest", "id": "e" * 32},
        {
            "v": 1,
            "op": "suggest",
            "id": "d" * 32,
            "body": "\u001b[2Jhi",
            "confidence": "much",
            "paths": 5,
            "tags": {},
            "supersedes": [1],
            "type": [],
        },
        {"v": 1, "op": "verdict", "id": good, "verdict": "maybe"},
        {"v": 1, "op": "verdict", "id": "d" * 32, "verdict": 5},
        {"v": 1, "op": "verdict", "id": "c" * 32, "verdict": "accepted", "memory": []},
    ]
    place.lab.git(
        place.repo,
        "notes",
        "--ref=mem/private",
        "add",
        "-f",
        "-m",
        "\n".join(record.dump(o).decode() for o in odd),
    )
    assert {s["id"] for s in place.review()} == {good, "d" * 32}
    assert "\x1b" not in place.lab.mem(place.repo, "review")
    assert place.review("--accept", "d" * 8)[0]["status"] == "accepted"


@pytest.mark.parametrize(
    "argv",
    [
        ["-m", "text"],
        ["--edit", "abcd", "--merge", "abcd", "abcd"],
        ["--merge", "abcd"],
        ["--edit", "abcd"],
        ["--title", "x"],
    ],
)
def test_wrong_words_are_a_usage_error_or_a_refusal(place: Place, argv: list[str]) -> None:
    done = place.lab.run(place.repo, "git", "mem", "review", *argv)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("error: ")


def test_a_title_is_not_left_out_of_a_merge_without_a_word(place: Place) -> None:
    into = place.lab.json(place.repo, "remember", "Use SQLite", "--private")["id"]
    argv = ["--merge", place.one("SQLite runs in WAL mode"), into, "--title", "Our database"]
    assert "go with --edit" in place.lab.run(place.repo, "git-mem", "review", *argv).stderr
    assert [m["body"] for m in place.memories()] == ["Use SQLite"]


def commits(place: Place) -> int:
    return int(place.lab.git(place.repo, "rev-list", "--count", "refs/notes/mem/private"))


def test_many_are_rejected_in_one_commit_and_one_that_is_refused_stops_none(place: Place) -> None:
    a, b, c = (place.one(text) for text in ("Use SQLite", "Retry twice", "Tests run offline"))
    place.review("--reject", c)
    before = commits(place)
    argv = [word for id in (a, "ffff", c, b, a[:9]) for word in ("--reject", id)]
    done = place.review(*argv, rc=(1,))
    assert [d["id"] for d in done] == [a, "ffff", c, b, a[:9]]
    status = [d["status"] for d in done]
    assert status == ["rejected", "refused", "refused", "rejected", "refused"]
    assert [d["reason"].rpartition("was ")[2] for d in done[2::2]] == ["rejected already"] * 2
    assert commits(place) == before + 1 and place.review(rc=(1,)) == []


def test_many_are_accepted_in_two_commits_and_one_that_is_refused_stops_none(place: Place) -> None:
    a, b = place.one("Use SQLite"), place.one("Retry twice")
    before = commits(place)
    argv = [word for id in (a[:9], "ffff", b, a) for word in ("--accept", id)]
    done = place.review(*argv, rc=(1,))
    assert [d["id"] for d in done] == [a, "ffff", b, a]
    assert [d["status"] for d in done] == ["accepted", "refused", "accepted", "refused"]
    assert done[3]["reason"].endswith("was accepted already")
    assert {(m["id"], m["provenance"]) for m in place.memories()} == {
        (a, "VERIFIED"),
        (b, "VERIFIED"),
    }
    assert commits(place) == before + 2 and place.review(rc=(1,)) == []


def test_what_was_accepted_with_others_is_told_though_the_words_for_one_make_no_sense(
    place: Place,
) -> None:
    old = place.lab.json(place.repo, "remember", "Use DuckDB", "--private")["id"]
    wrong = place.one("Use SQLite", supersedes=[old], paths=["f0.txt:900"])
    ids = [wrong, place.one("Retry twice"), place.one("Tests run offline")]
    argv = [word for id in ids for word in ("--accept", id)]
    done = place.review(*argv, rc=(2,))
    assert [(d["id"], d["status"]) for d in done] == [(id, "accepted") for id in ids[1:]]
    assert {m["id"] for m in place.memories()} == {old, *ids[1:]}


def test_many_are_accepted_as_each_would_be_alone(place: Place) -> None:
    """One takes a memory's place, the text of one is known, two and two have the same text."""
    old = place.lab.json(place.repo, "remember", "Use DuckDB", "--private")["id"]
    a, b = place.one("Use SQLite", supersedes=[old]), place.one("Retry twice")
    known = place.lab.json(place.repo, "remember", "Retry twice", "--private")["id"]
    with closing(place.store()) as store:  # as another clone proposed it
        texts = ["Tests run offline"] * 2 + ["Use SQLite"]
        same = [suggestions._checked(store, {"body": text}) for text in texts]
        review_records.write(store, "suggestion", same)
    c, d, e = (str(data["id"]) for data in same)
    done = place.review(*(word for id in (a, b, c, d, e) for word in ("--accept", id)))
    assert [d["memory"] for d in done] == [a, known, c, c, a]
    assert {m["id"] for m in place.memories()} == {a, known, c}


def test_with_nothing_to_decide_it_says_so(place: Place) -> None:
    assert place.lab.mem(place.repo, "review", rc=(1,)) == "nothing waits for a decision\n"
    assert place.review(rc=(1,)) == []


def test_status_says_how_many_wait(place: Place) -> None:
    assert "suggestion" not in place.lab.mem(place.repo, "status")
    place.one("Use SQLite, not DuckDB")
    assert "1 suggestion waits for you: git mem review" in place.lab.mem(place.repo, "status")
    assert place.lab.json(place.repo, "status")["suggestions"] == 1
