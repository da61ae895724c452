"""What a person decides about proposals of `git mem consolidate`, and what is done then."""

from __future__ import annotations

import shutil
from contextlib import closing
from typing import Any

import pytest
from conftest import Lab
from consolidate_world import AGAIN, COOKIES, MONDAY, POSTGRES, REDIS, WIPED, Place
from test_review_terminal import terminal

from gitmem.capture import suggestions


@pytest.fixture
def place(lab: Lab) -> Place:
    return Place(lab)


def test_a_rejected_pair_never_comes_back(place: Place) -> None:
    place.add(WIPED, MONDAY)
    (found,) = place.look()
    place.review("--reject", found["id"][:8])
    assert place.review("--reject", found["id"], rc=(1,))[0]["reason"].endswith(
        "was rejected already"
    )
    shutil.rmtree(place.mem)
    assert place.look(rc=(1,)) == []
    assert place.bodies() == {WIPED, MONDAY}
    assert [p["state"] for p in place.review("--decided")] == ["rejected"]


def test_a_merge_keeps_one_memory_with_tags_and_paths_of_both_and_supersedes_the_other(
    place: Place,
) -> None:
    (a,) = place.add(
        POSTGRES, scope="private", tags=["db"], paths=["f0.txt"], created_at="2026-03-01"
    )
    (b,) = place.add(
        AGAIN,
        scope="private",
        tags=["orders", "captured"],
        paths=["g.txt"],
        created_at="2026-03-02",
    )
    (found,) = place.look()
    (done,) = place.review("--accept", found["id"])
    assert (done["status"], done["memory"]) == ("accepted", a)
    (left,) = place.lab.json(place.repo, "list", "--all")
    assert (left["id"], left["body"], left["tags"]) == (a, POSTGRES, ["db", "orders"])
    assert {p["path"] for p in left["paths"]} == {"f0.txt", "g.txt"}
    gone = place.show(b)
    assert (gone["status"], gone["superseded_by"]) == ("superseded", [a])
    assert "ok" in place.lab.mem(place.repo, "doctor")
    assert place.review(rc=(1,)) == []


def test_among_many_that_are_accepted_each_other_one_is_decided_as_if_alone(place: Place) -> None:
    (into, _) = place.add(POSTGRES, AGAIN, scope="private")
    (proposal,) = place.look()
    drafts: list[dict[str, Any]] = [{"body": text} for text in ("Tests run offline", "Retry twice")]
    drafts.append({"body": "Rows are locked", "paths": ["f0.txt:900"]})
    with closing(place.store()) as store:
        plain, merged, wrong = [result.id for result in suggestions.propose(store, drafts)]
    place.review("--merge", merged, into)
    ids = [plain, proposal["id"], wrong, merged]
    done = place.review(*(word for id in ids for word in ("--accept", id)), rc=(1,))
    assert [d["status"] for d in done] == ["accepted", "accepted", "refused", "refused"]
    assert "900" in done[2]["reason"] and done[3]["reason"].endswith("was merged already")
    assert len(place.bodies()) == 2 and "Tests run offline" in place.bodies()


def test_the_team_s_notes_change_only_where_the_person_says_so(place: Place) -> None:
    place.add(POSTGRES, AGAIN)
    (found,) = place.look()
    assert found["team"]
    before = place.lines("team")
    assert "team" in place.review("--accept", found["id"], rc=(1,))[0]["reason"]
    assert place.lines("team") == before
    place.review("--accept", found["id"], "--team")
    assert place.bodies() == {POSTGRES}


def test_a_private_copy_of_what_the_team_says_is_forgotten_without_touching_the_team(
    place: Place,
) -> None:
    (a,) = place.add(POSTGRES)
    (b,) = place.add(AGAIN, scope="private", created_at="2026-03-05")
    (found,) = place.look()
    assert (found["keep"], found["team"]) == (a, False)
    before = place.lines("team")
    place.review("--accept", found["id"])
    assert place.lines("team") == before
    assert place.show(b)["status"] == "forgotten"


def test_a_private_memory_in_the_place_of_the_team_s_is_shared_first(place: Place) -> None:
    (a,) = place.add(REDIS)
    (b,) = place.add(COOKIES, scope="private", created_at="2026-03-05")
    (found,) = place.look()
    assert found["keep"] is None
    assert place.review("--accept", found["id"], "--keep", b, rc=(1,))[0]["status"] == "refused"
    assert place.review("--accept", found["id"], "--keep", b, "--team")[0]["scope"] == "team"
    assert place.bodies() == {COOKIES}
    assert place.show(a)["superseded_by"] == [b]


def test_a_contradiction_is_settled_by_naming_what_holds(place: Place) -> None:
    a, b = place.add(WIPED, MONDAY, scope="private")
    (found,) = place.look()
    assert "only you" in place.review("--accept", found["id"], rc=(1,))[0]["reason"]
    assert (
        place.review("--accept", found["id"], "--keep", "deadbeef", rc=(1,))[0]["status"]
        == "refused"
    )
    place.review("--accept", found["id"], "--keep", b[:8])
    assert place.bodies() == {MONDAY}
    assert place.show(a)["status"] == "superseded"


def test_one_text_for_both_goes_into_the_one_that_stays(place: Place) -> None:
    a, _ = place.add(WIPED, MONDAY, scope="private")
    (found,) = place.look()
    place.review("--edit", found["id"], "-m", "Staging is wiped on Sunday and Monday nights")
    (left,) = place.lab.json(place.repo, "list", "--all")
    assert (left["id"], left["body"]) == (a, "Staging is wiped on Sunday and Monday nights")


def test_a_secret_in_the_new_text_is_refused_and_nothing_is_decided(place: Place) -> None:
    place.add(WIPED, MONDAY, scope="private")
    (found,) = place.look()
    assert (
        place.review(
            "--edit",
            found["id"],
            "-m",
            "token ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8",
            rc=(1,),
        )[0]["status"]
        == "refused"
    )
    assert len(place.review()) == 1


def test_what_only_a_suggestion_can_do_is_refused_for_a_proposal(place: Place) -> None:
    a, _ = place.add(WIPED, MONDAY, scope="private")
    (found,) = place.look()
    place.lab.mem(place.repo, "review", "--merge", found["id"], a, rc=(2,))
    place.lab.mem(place.repo, "review", "--keep", a, rc=(0, 2))
    place.lab.mem(place.repo, "review", "--edit", found["id"], "--title", "t", rc=(2,))
    assert len(place.review()) == 1


@pytest.mark.parametrize("how", ["forget", "purge", "edit", "supersede"])
def test_a_proposal_goes_when_its_memories_change(place: Place, how: str) -> None:
    a, _ = place.add(WIPED, MONDAY)
    (found,) = place.look()
    argv = {
        "forget": ["forget", a],
        "purge": ["purge", a, "--force"],
        "edit": ["edit", a, "-m", "Nobody may touch the staging cluster"],
        "supersede": ["supersede", a, "Nobody may touch it"],
    }[how]
    place.lab.mem(place.repo, *argv)
    assert place.review(rc=(1,)) == []
    answer = place.review("--accept", found["id"], "--keep", a, "--team", rc=(1,))
    assert "does not hold any more" in answer[0]["reason"] or how == "purge"
    assert place.look(rc=(1,)) == []


def test_an_edit_that_changes_nothing_about_it_leaves_a_proposal(place: Place) -> None:
    a, _ = place.add(WIPED, MONDAY)
    place.look()
    place.lab.mem(place.repo, "edit", a, "--tag", "db")
    assert len(place.review()) == 1


def test_two_clones_that_choose_differently_lose_neither(place: Place) -> None:
    a, b = place.add(REDIS, COOKIES)
    place.lab.git(place.lab.root, "clone", "-q", str(place.repo), "other")
    other = place.lab.root / "other"
    place.lab.git(other, "fetch", "-q", "origin", "refs/notes/mem/team:refs/notes/mem/team")
    place.lab.mem(other, "init")
    for repo, keep in ((place.repo, a), (other, b)):
        (found,) = place.lab.json(repo, "consolidate")["found"]
        place.lab.mem(repo, "review", "--accept", found["id"], "--keep", keep, "--team")
    place.lab.git(
        place.repo, "fetch", "-q", str(other), "refs/notes/mem/team:refs/notes/remotes/o/team"
    )
    place.lab.unite(place.repo, "refs/notes/remotes/o/team")
    assert place.bodies() == {REDIS, COOKIES}


def test_on_a_terminal_both_texts_are_shown_and_one_key_decides(place: Place) -> None:
    place.add(WIPED, MONDAY, POSTGRES, AGAIN, scope="private")
    place.look()
    shown = terminal(place, [("quit", "2"), ("quit", "a")])  # type: ignore[arg-type]
    assert "Sunday" in shown and "Monday" in shown
    assert "2 accepted, nothing waits any more" in shown
    assert place.bodies() == {MONDAY, POSTGRES}


def test_the_list_of_what_was_decided_says_what_stayed(place: Place) -> None:
    one, other = place.add(POSTGRES, AGAIN, scope="private")
    (proposed,) = place.look()
    assert proposed["keep"] == one
    place.review("--accept", proposed["id"], "--keep", other)
    told = place.lab.mem(place.repo, "review", "--decided")
    assert f"2 {other[:8]} (stayed)" in told and f"1 {one[:8]}\n" in told


def test_on_a_terminal_a_key_that_is_not_offered_decides_nothing(place: Place) -> None:
    place.add(MONDAY, WIPED)  # which of them holds only a person can say: no key `a`
    place.look()
    shown = terminal(place, [("quit", "a"), ("quit", "q")])  # type: ignore[arg-type]
    assert "everybody" not in shown and "1 still waits" in shown


def test_on_a_terminal_a_change_of_the_team_s_notes_is_asked_for(place: Place) -> None:
    place.add(WIPED, MONDAY)
    place.look()
    keys = [("quit", "1"), ("everybody", "n\n"), ("quit", "1"), ("everybody", "y\n")]
    assert "1 accepted, nothing waits any more" in terminal(place, keys)  # type: ignore[arg-type]
    assert place.bodies() == {WIPED}
