"""`git mem restore`: a record that takes a forget back; `list --forgotten`; what `forget` says."""

from __future__ import annotations

import json
import pathlib

import pytest
from conftest import Lab
from test_fold import create, edit, forget, made, restore, taken_back

from gitmem.core import fold, record
from gitmem.core.errors import RefMoved, Refused
from gitmem.core.record import Record
from gitmem.memory import memories, remember
from gitmem.store import Store

# ---- the fold


def status(records: list[Record], id: str) -> str:
    return fold.fold(records)[id].status


def bodies(records: list[Record], id: str) -> list[str]:
    return [str(r.data["body"]) for r in fold.fold(records)[id].versions]


@pytest.mark.quick
def test_a_restore_makes_a_memory_what_it_was_before_the_forget() -> None:
    one = create("first words")
    two = edit(one.id, "second words", [one.version])
    gone = forget(one.id, [two.version])
    records = [one, two, gone]
    assert status(records, one.id) == fold.FORGOTTEN
    records.append(taken_back(records, one.id))
    assert (status(records, one.id), bodies(records, one.id)) == (fold.ACTIVE, ["second words"])


@pytest.mark.quick
def test_versions_beside_each_other_come_back_beside_each_other() -> None:
    one = create("a")
    x, y = edit(one.id, "x", [one.version]), edit(one.id, "y", [one.version])
    records = [one, x, y, forget(one.id, [x.version, y.version])]
    records.append(taken_back(records, one.id))
    assert sorted(bodies(records, one.id)) == ["x", "y"]


@pytest.mark.quick
def test_a_restore_that_arrives_before_the_forget_holds() -> None:
    one = create("a")
    gone = forget(one.id, [one.version])
    back = restore(one.id, [gone.version])
    assert status([one, back], one.id) == fold.ACTIVE
    assert status([back, gone, one], one.id) == fold.ACTIVE


@pytest.mark.quick
def test_a_forget_that_the_restore_did_not_see_stays() -> None:
    one = create("a")
    gone = forget(one.id, [one.version])
    back = taken_back([one, gone], one.id)
    again = forget(one.id, fold.fold([one, gone, back])[one.id].heads)
    other = taken_back([one, gone], one.id)  # in a clone that has not seen `back` and `again`
    assert status([one, gone, back, again, other], one.id) == fold.FORGOTTEN


@pytest.mark.quick
def test_after_every_forget_a_restore_brings_the_last_text_back_alone() -> None:
    one = create("a")
    records = [one]
    for n in range(4):
        records.append(forget(one.id, fold.fold(records)[one.id].heads))
        assert status(records, one.id) == fold.FORGOTTEN
        records.append(taken_back(records, one.id))
        assert status(records, one.id) == fold.ACTIVE
        records.append(edit(one.id, f"text {n}", fold.fold(records)[one.id].heads))
        assert bodies(records, one.id) == [f"text {n}"]


@pytest.mark.quick
def test_a_restore_undoes_the_later_of_two_forgets_and_not_the_earlier() -> None:
    one = create("a")
    two = edit(one.id, "b", [one.version])
    first = forget(one.id, [two.version])
    anew = made({**one.data, "n": "0" * 16})  # remembered again, in its first words
    second = forget(one.id, [first.version, anew.version])
    records = [one, two, first, anew, second]
    records.append(taken_back(records, one.id))
    assert bodies(records, one.id) == ["a"]


@pytest.mark.quick
def test_what_was_superseded_and_forgotten_comes_back_in_two_steps() -> None:
    old = create("use mongo")
    new = create("use postgres", after=[old.version], supersedes=[old.id])
    records = [old, new, forget(old.id, [old.version])]
    assert status(records, old.id) == fold.FORGOTTEN
    records.append(taken_back(records, old.id))
    assert status(records, old.id) == fold.SUPERSEDED
    records.append(taken_back(records, old.id))
    assert status(records, old.id) == status(records, new.id) == fold.ACTIVE


@pytest.mark.quick
def test_a_restore_of_one_memory_leaves_others_that_the_record_covers() -> None:
    stays, gone, other = create("s"), create("g"), create("o")
    merged = edit(stays.id, "all", [stays.version, gone.version, other.version])
    records = [stays, gone, other, merged]
    records.append(taken_back(records, gone.id))
    assert status(records, gone.id) == fold.ACTIVE
    assert status(records, other.id) == fold.SUPERSEDED
    assert bodies(records, stays.id) == ["all"]


@pytest.mark.quick
def test_no_restore_undoes_a_purge() -> None:
    one = create("a")
    purge = made(record.envelope("purge", {"id": one.id}, "", {}))
    back = restore(one.id, [purge.version, one.version])
    assert one.id not in fold.fold([one, purge, back])
    lines = made(record.envelope("purge", {"id": "0" * 32}, "", {"lines": [one.version]}))
    memory = fold.fold([one, lines, restore(one.id, [lines.version])])[one.id]
    assert memory.versions == []


@pytest.mark.quick
def test_a_program_that_does_not_know_restore_keeps_the_line_and_shows_the_rest_as_before() -> None:
    one = create("a")
    gone = forget(one.id, [one.version])
    unknown = made({**restore(one.id, [gone.version]).data, "op": "a later invention"})
    assert record.parse(unknown.line) is not None
    assert status([one, gone, unknown], one.id) == fold.FORGOTTEN
    anew = edit(one.id, "b", fold.fold([one, gone, restore(one.id, [gone.version])])[one.id].heads)
    assert bodies([one, gone, unknown, anew], one.id) == ["b"]  # it sees what is said afterwards


# ---- the commands


OLD, NEW = "Sessions live in Redis", "Sessions live in signed cookies"


def tell(lab: Lab, repo: pathlib.Path, text: str, *more: str) -> str:
    return str(lab.json(repo, "remember", text, *more)["id"])


def listed(lab: Lab, repo: pathlib.Path, *more: str) -> list[str]:
    return sorted(m["body"] for m in lab.json(repo, "list", *more))


def test_what_forget_prints_brings_the_memory_back(lab: Lab, repo: pathlib.Path) -> None:
    id = tell(lab, repo, OLD, "--type", "decision", "--tag", "web")
    before = lab.json(repo, "show", id)
    said = lab.mem(repo, "forget", id, "--reason", "we moved on")
    undo = f"git mem restore {id[:8]}"
    assert f"undo: {undo}\n" in said and listed(lab, repo) == []
    assert lab.mem(repo, *undo.split()[2:]) == f"restored {id[:8]} {OLD}\n"
    after = lab.json(repo, "show", id)
    assert [h["op"] for h in after.pop("history")] == ["create", "forget", "restore"]
    before.pop("history")
    assert after == before  # its author, text, tags and time, and its signature if it had one
    assert lab.json(repo, "recall", "where do sessions live")["verdict"] == "HIT"


def test_forget_and_restore_say_so_in_json(lab: Lab, repo: pathlib.Path) -> None:
    id = tell(lab, repo, OLD)
    assert lab.json(repo, "forget", id) == {
        "id": id,
        "status": "forgotten",
        "undo": f"git mem restore {id[:8]}",
    }
    assert lab.json(repo, "restore", id[:6]) == {"id": id, "status": "restored"}


def test_only_what_is_hidden_can_be_restored(lab: Lab, repo: pathlib.Path) -> None:
    id = tell(lab, repo, OLD)
    done = lab.run(repo, "git-mem", "restore", id)
    assert done.returncode == 1 and f"memory '{id[:8]}' is not forgotten" in done.stderr
    before = lab.lines(repo)
    lab.mem(repo, "purge", id, "--force")
    done = lab.run(repo, "git-mem", "restore", id)
    assert done.returncode == 1 and f"no memory '{id}'" in done.stderr
    assert OLD in before[0] and not any(OLD in line for line in lab.lines(repo))


def test_the_forgotten_ones_are_listed_with_who_and_when(lab: Lab, repo: pathlib.Path) -> None:
    assert lab.json(repo, "list", "--forgotten") == []
    assert lab.mem(repo, "list", "--forgotten") == "no forgotten memories\n"
    first, second, kept = (tell(lab, repo, text) for text in (NEW, OLD, "Redis is run by us"))
    lab.mem(repo, "edit", first, "-m", NEW + ", always")
    lab.mem(repo, "forget", second)
    env = {"GIT_AUTHOR_NAME": "Bea", "GIT_AUTHOR_EMAIL": "bea@example.org"}
    lab.mem(repo, "forget", first, "--reason", "too vague", env=env)
    found = {m["id"]: m for m in lab.json(repo, "list", "--forgotten")}
    assert found.keys() == {first, second} and kept not in found
    said = found[first]
    assert (said["status"], said["body"]) == ("forgotten", NEW + ", always")
    assert said["forgotten"]["author"].startswith("Bea") and said["forgotten"]["at"] is not None
    assert said["forgotten"]["reason"] == "too vague"
    text = lab.mem(repo, "list", "--forgotten")
    assert "forgotten by Bea, " in text and "too vague" in text and second[:8] in text
    assert listed(lab, repo, "--forgotten", "--type", "bugfix") == []
    lab.mem(repo, "restore", first, second)
    assert lab.json(repo, "list", "--forgotten") == []


def test_forgetting_what_took_the_place_of_another_says_how_to_get_that_back(
    lab: Lab, repo: pathlib.Path
) -> None:
    old = tell(lab, repo, OLD)
    new = lab.json(repo, "supersede", old, "-m", NEW)["id"]
    done = lab.run(repo, "git-mem", "forget", new)
    assert f"'{OLD}', whose place it had taken, stays superseded" in done.stderr
    assert f"`git mem restore {old[:8]}` brings it back" in done.stderr
    assert listed(lab, repo) == []
    lab.mem(repo, "restore", old)
    assert listed(lab, repo) == [OLD]
    lab.mem(repo, "restore", new)
    assert listed(lab, repo) == sorted([OLD, NEW])
    assert lab.json(repo, "forget", new).get("left_superseded") is None  # the old one counts


def test_a_restore_travels_with_the_notes(lab: Lab) -> None:
    one, hub = lab.repo("one"), lab.root / "hub.git"
    lab.git(lab.root, "init", "-q", "--bare", "hub.git")
    lab.git(one, "remote", "add", "origin", str(hub))
    lab.git(one, "push", "-q", "origin", "main")
    id = tell(lab, one, OLD)
    lab.mem(one, "sync")
    lab.git(lab.root, "clone", "-q", str(hub), "two")
    two = lab.root / "two"
    lab.mem(two, "sync")
    lab.mem(two, "forget", id)
    lab.mem(two, "sync")
    lab.mem(one, "sync")
    assert listed(lab, one) == []
    # One takes it back; two takes it back as well, and forgets it anew.
    lab.mem(one, "restore", id)
    lab.mem(two, "restore", id)
    lab.mem(two, "forget", id)
    for clone in (one, two, one):
        lab.mem(clone, "sync")
    assert listed(lab, one) == listed(lab, two) == []
    lab.mem(one, "restore", id)
    for clone in (one, two):
        lab.mem(clone, "sync")
    assert listed(lab, one) == listed(lab, two) == [OLD]


def test_a_restored_private_memory_can_be_shared(lab: Lab, repo: pathlib.Path) -> None:
    id = tell(lab, repo, OLD, "--private")
    lab.mem(repo, "forget", id)
    lab.mem(repo, "restore", id)
    lab.mem(repo, "share", id)
    team = [r for r in map(record.parse, (s.encode() for s in lab.lines(repo))) if r]
    assert fold.fold(team)[id].status == fold.ACTIVE


@pytest.mark.parametrize("text", [OLD, OLD + " of the outer wall" * 20])
def test_a_memory_does_not_take_the_place_of_one_with_its_text(
    lab: Lab, repo: pathlib.Path, text: str
) -> None:
    id = tell(lab, repo, text)
    done = lab.run(repo, "git-mem", "supersede", id, text)
    assert done.returncode == 1 and "the new text is the old one" in done.stderr
    assert listed(lab, repo) == [text]


def test_a_memory_does_not_take_its_own_place_with_the_text_before_an_edit(
    lab: Lab, repo: pathlib.Path
) -> None:
    text = OLD + " of the outer wall" * 20  # so long that the id has no salt
    id = tell(lab, repo, text)
    lab.mem(repo, "edit", id, NEW)
    done = lab.run(repo, "git-mem", "supersede", id, text)
    assert done.returncode == 1 and "the new text is its first one" in done.stderr
    assert listed(lab, repo) == [NEW]
    lab.mem(repo, "edit", id, text)
    assert listed(lab, repo) == [text]


def test_what_is_known_by_its_source_and_forgotten_is_said_to_be(
    lab: Lab, repo: pathlib.Path
) -> None:
    id = lab.json(repo, "promote", "HEAD")["id"]
    lab.mem(repo, "forget", id)
    for words in (["promote", "HEAD"], ["promote", "HEAD", "--type", "bugfix"]):
        assert f"note: it is forgotten; `git mem restore {id[:8]}`" in lab.said(repo, *words)
    lab.mem(repo, "restore", id)
    assert "note:" not in lab.said(repo, "promote", "HEAD")


def test_a_private_memory_that_was_superseded_is_not_given_to_the_team(
    lab: Lab, repo: pathlib.Path
) -> None:
    """The team would have it as one that holds: what took its place is private."""
    old = lab.json(repo, "remember", "the gate opens at six", "--private")["id"]
    new = lab.json(repo, "supersede", old, "the gate opens at seven")["id"]
    refused = lab.run(repo, "git-mem", "share", old)
    assert refused.returncode == 1 and f"'{old[:8]}' is superseded" in refused.stderr
    assert "git mem show" in refused.stderr and not lab.lines(repo, "mem/team")
    lab.mem(repo, "restore", old)
    lab.mem(repo, "share", old, new)


def test_one_command_about_many_memories_makes_one_commit_a_scope(
    lab: Lab, repo: pathlib.Path
) -> None:
    ids = {
        scope: [tell(lab, repo, f"{scope} {word}", f"--{scope}") for word in ("north", "south")]
        for scope in ("team", "private")
    }

    def commits(scope: str) -> int:
        return int(lab.git(repo, "rev-list", "--count", f"refs/notes/mem/{scope}"))

    both = [*ids["team"], *ids["private"]]
    for command, done, scopes in (
        ("forget", "forgot", ("team", "private")),
        ("restore", "restored", ("team", "private")),
        ("share", "shared", ("team",)),
    ):
        given = both if command != "share" else ids["private"]
        before = {scope: commits(scope) for scope in ("team", "private")}
        said = lab.run(repo, "git-mem", command, given[0], "dead", *given[1:])
        assert said.returncode == 1 and "no memory 'dead'" in said.stderr
        named = [line.split()[1] for line in said.stdout.splitlines() if line.startswith(done)]
        assert named == [id[:8] for id in given]
        now = {scope: commits(scope) - before[scope] for scope in before}
        assert now == {scope: int(scope in scopes) for scope in before}
    tip = lab.git(repo, "log", "-1", "--format=%s", "refs/notes/mem/team")
    assert tip.strip() == "git mem: share 2 memories"


def test_a_memory_named_twice_is_changed_once_and_then_refused(
    lab: Lab, repo: pathlib.Path
) -> None:
    one, two = (tell(lab, repo, f"{word} gate", "--private") for word in ("north", "south"))
    for command, why in (
        ("forget", "is already forgotten"),
        ("restore", "is not forgotten"),
        ("share", "is the team's already"),
    ):
        done = lab.run(repo, "git-mem", command, one, two, one[:9], "--json")
        assert done.returncode == 1 and f"'{one[:8]}' {why}" in done.stderr
        assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [one, two]


def test_one_memory_that_the_notes_refuse_does_not_stop_the_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [{"body": f"{word} gate"} for word in ("north", "south", "east")]
    one, two, three = (done.id for done in remember.remember(store, texts))
    append = Store.append

    def picky(store: Store, scope: str, items: list[tuple[str, bytes]], message: str) -> None:
        if any(two.encode() in line for _, line in items):
            raise Refused("this text was purged")
        append(store, scope, items, message)

    monkeypatch.setattr(Store, "append", picky)
    done = memories.each(store, [one, two, three], memories.forgetting)
    assert [isinstance(found, Refused) for found in done] == [False, True, False]
    now = [memories.find(store, id).memory.status for id in (one, two, three)]
    assert now == [fold.FORGOTTEN, fold.ACTIVE, fold.FORGOTTEN]


def test_notes_that_cannot_be_written_are_tried_once_for_many_memories(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try may wait for half a minute."""
    ids = [done.id for done in remember.remember(store, [{"body": "north"}, {"body": "south"}])]
    tries: list[str] = []

    def busy(store: Store, scope: str, *_: object) -> None:
        tries.append(scope)
        raise RefMoved("memories changed while writing")

    monkeypatch.setattr(Store, "append", busy)
    done = memories.each(store, ids, memories.forgetting)
    assert [type(one) for one in done] == [RefMoved, RefMoved] and tries == ["team"]


def test_a_restore_counts_from_the_commit_it_was_made_at(lab: Lab, repo: pathlib.Path) -> None:
    id = tell(lab, repo, OLD)
    for command in ("forget", "restore"):
        lab.git(repo, "commit", "-q", "--allow-empty", "-m", command)
        lab.mem(repo, command, id)
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "later")
    seen = [listed(lab, repo, "--at", f"HEAD~{n}") for n in range(4)]
    assert seen == [[OLD], [OLD], [], [OLD]]
    assert [m["body"] for m in lab.json(repo, "diff", "HEAD~2..HEAD")["teaches"]] == [OLD]
    whole = lab.json(repo, "diff", "HEAD~3..HEAD")
    assert whole["forgets"] == [] == whole["teaches"]


def test_what_was_superseded_can_be_forgotten_again_after_a_restore(
    lab: Lab, repo: pathlib.Path
) -> None:
    id = tell(lab, repo, OLD)
    lab.mem(repo, "supersede", id, NEW)
    for _ in range(2):
        lab.mem(repo, "forget", id)
        assert lab.json(repo, "show", id)["status"] == "forgotten"
        lab.mem(repo, "restore", id)
        assert lab.json(repo, "show", id)["status"] == "superseded"


def test_what_a_branch_superseded_counts_elsewhere_after_a_forget_and_a_restore(
    lab: Lab, repo: pathlib.Path
) -> None:
    id = tell(lab, repo, OLD)
    lab.git(repo, "checkout", "-q", "-b", "topic")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "two")
    lab.mem(repo, "supersede", id, "-m", NEW)
    lab.git(repo, "checkout", "-q", "main")
    before = lab.json(repo, "list")
    assert [m["superseded_on"]["branch"] for m in before] == ["topic"]
    lab.mem(repo, "forget", id)
    assert listed(lab, repo) == []
    lab.mem(repo, "restore", id)
    assert lab.json(repo, "list") == before


def test_what_a_branch_superseded_counts_elsewhere_after_its_forerunner_came_back(
    lab: Lab, repo: pathlib.Path
) -> None:
    first = tell(lab, repo, OLD)
    second = lab.json(repo, "supersede", first, NEW)["id"]
    lab.mem(repo, "restore", first)
    lab.git(repo, "checkout", "-q", "-b", "topic")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "two")
    lab.mem(repo, "supersede", second, "Sessions live in PostgreSQL")
    lab.git(repo, "checkout", "-q", "main")
    assert listed(lab, repo) == [OLD, NEW]
