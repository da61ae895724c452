"""A memory that was superseded on another branch: it is there until that branch is merged."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from conftest import Lab
from places import Count, commit, opened, squash, tell

from gitmem.anchors import anchor_state_update, reinstate
from gitmem.engine import cache_check
from gitmem.engine.filters import Filter
from gitmem.memory import listing, memories, recall

OLD, NEW = "The export runs at six in the morning", "The export runs at nine in the evening"


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    """OLD on main; on `topic`, NEW in its place; back on main."""
    path = lab.repo()
    id = tell(path, OLD)
    lab.git(path, "checkout", "-q", "-b", "topic")
    commit(lab, path, "b.py", "two")
    lab.mem(path, "supersede", id, "-m", NEW)
    lab.git(path, "checkout", "-q", "main")
    return path


def listed(lab: Lab, repo: pathlib.Path, *more: str) -> list[str]:
    return sorted(m["body"] for m in lab.json(repo, "list", *more))


def work(repo: pathlib.Path) -> None:
    """What the worker does about commits; the cache is sound after it."""
    with opened(repo) as store:
        store.with_cache(lambda cache: None)
        anchor_state_update.update(store, patience=60)
        assert store.with_cache(lambda cache: cache_check.check_all(cache, store.table))[0] == ""


def hot(repo: pathlib.Path) -> list[str]:
    with opened(repo) as store:
        return sorted(
            h["body"]
            for h in recall.recall(store, "when does the export run", Filter(), limit=5, hot=True)[
                "hits"
            ]
        )


def everywhere(lab: Lab, repo: pathlib.Path) -> None:
    (found,) = lab.json(repo, "list")
    assert (found["body"], found["status"], found["superseded_on"]["branch"]) == (
        OLD,
        "active",
        "topic",
    ) and len(found["superseded_by"]) == 1
    assert "superseded on" in lab.mem(repo, "list")
    hits = lab.json(repo, "recall", "when does the export run")["hits"]
    assert hits[0]["body"] == OLD and hits[0]["superseded_on"]["branch"] == "topic"
    told = lab.mem(repo, "context")
    assert OLD in told and 'superseded_on="topic"' in told
    work(repo)
    assert OLD in hot(repo) and listed(lab, repo) == listed(lab, repo, "--at", "HEAD") == [OLD]


def test_what_a_branch_superseded_is_there_until_it_is_merged(lab: Lab, repo: pathlib.Path) -> None:
    everywhere(lab, repo)
    lab.git(repo, "checkout", "-q", "topic")
    assert listed(lab, repo) == [NEW] == listed(lab, repo, "--at", "topic")
    work(repo)
    assert hot(repo) == [NEW]
    assert listed(lab, repo, "--at", "main") == [OLD]
    lab.git(repo, "checkout", "-q", "main")
    everywhere(lab, repo)
    assert listed(lab, repo, "--at", "topic") == [NEW]
    lab.git(repo, "merge", "-q", "--no-ff", "--no-edit", "topic")
    assert listed(lab, repo) == [NEW]
    work(repo)
    assert hot(repo) == [NEW]


def test_a_deleted_branch_takes_nothing_away(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "branch", "-q", "-D", "topic")
    everywhere(lab, repo)
    commit(lab, repo, "c.py", "three")
    everywhere(lab, repo)
    lab.git(repo, "reflog", "expire", "--expire=now", "--all")
    lab.git(repo, "gc", "-q", "--prune=now")
    assert OLD in listed(lab, repo)


def test_a_squashed_branch_counts(lab: Lab, repo: pathlib.Path) -> None:
    work(repo)
    squash(lab, repo)
    assert listed(lab, repo) == [NEW]


def test_the_worker_alone_is_enough_for_hooks(lab: Lab, repo: pathlib.Path) -> None:
    work(repo)
    assert OLD in hot(repo)


def test_forgotten_stays_forgotten(lab: Lab) -> None:
    repo = lab.repo()
    id = tell(repo, OLD)
    lab.git(repo, "checkout", "-q", "-b", "topic")
    commit(lab, repo, "b.py", "two")
    lab.mem(repo, "forget", id)
    lab.git(repo, "checkout", "-q", "main")
    work(repo)
    assert listed(lab, repo) == [] == hot(repo)


def test_a_supersede_on_the_same_branch_counts_at_once(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "supersede", tell(repo, OLD), "-m", NEW)
    work(repo)
    assert listed(lab, repo) == [NEW] and hot(repo) == [NEW]


def test_each_worktree_sees_its_own(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "worktree", "add", "-q", "../other", "topic")
    other = lab.root / "other"
    work(repo)
    for _ in range(2):
        assert listed(lab, repo) == [OLD] and listed(lab, other) == [NEW]
        assert OLD in hot(repo) and hot(other) == [NEW]
        assert OLD not in lab.mem(other, "context") and OLD in lab.mem(repo, "context")
        id = the_old(lab, repo)
        assert [lab.json(place, "show", id)["status"] for place in (repo, other)] == [
            "active",
            "superseded",
        ]
        every = {m["body"]: m for m in lab.json(other, "list", "--include-superseded")}
        assert (
            every[OLD]["status"] == "superseded"
            and every[OLD]["superseded_by"] == [every[NEW]["id"]]
            and "superseded_on" not in every[OLD]
        )


def test_why_log_and_stats_tell_worktrees_apart(lab: Lab) -> None:
    repo = lab.repo()
    commit(lab, repo, "a.py", "one")
    id = lab.json(repo, "remember", OLD, "--path", "a.py", "--tag", "old", "--type", "gotcha")["id"]
    lab.git(repo, "checkout", "-q", "-b", "topic")
    commit(lab, repo, "b.py", "two")
    lab.mem(repo, "supersede", id, "-m", NEW, "--tag", "new")
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "worktree", "add", "-q", "../other", "topic")
    other = lab.root / "other"
    work(repo)
    for place, there, gone in ((repo, OLD, NEW), (other, NEW, OLD)):
        for question in (["why", "a.py"], ["why", "a.py:1"], ["why", "."]):
            bodies = [m["body"] for m in lab.json(place, *question)]
            assert there in bodies and (gone not in bodies or place is repo), (question, place)
        assert OLD not in [m["body"] for m in lab.json(other, "log")] and OLD in [
            m["body"] for m in lab.json(repo, "log")
        ]
    stats = lab.json(repo, "stats"), lab.json(other, "stats")
    assert [(s["memories"], s["superseded"], s["types"], s["tags"]) for s in stats] == [
        (2, 0, {"gotcha": 2}, {"new": 1, "old": 1}),
        (1, 1, {"gotcha": 1}, {"new": 1}),
    ]


def test_what_is_written_back_goes_by_the_worktree_and_stays_while_one_has_it(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.git(repo, "worktree", "add", "-q", "../other", "topic")
    other = lab.root / "other"
    work(repo)
    id = the_old(lab, repo)

    def written(place: pathlib.Path) -> list[str]:
        found = lab.json(place, "export", "claude")
        return sorted(f.read_text() for f in pathlib.Path(found["directory"]).glob("git-mem-*.md"))

    (text,) = written(repo)
    assert OLD in text and "superseded on topic, which is not merged" in text
    lab.mem(
        other, "forget", tell(other, "Something else")
    )  # tends what was written, from another HEAD
    assert [OLD in t for t in written(repo)] == [True]
    (text,) = written(other)
    assert NEW in text and id not in text
    lab.mem(repo, "forget", tell(repo, "Something else again"))
    directory = pathlib.Path(lab.json(other, "export", "claude", "--dry-run")["directory"])
    assert [NEW in f.read_text() for f in directory.glob("git-mem-*.md")] == [True]


def test_a_merge_of_two_memories_on_a_branch(lab: Lab) -> None:
    """An edit that covers another memory, as `consolidate` makes it, counts from the HEAD it was
    made at.
    """
    repo = lab.repo()
    ids = [tell(repo, OLD), tell(repo, OLD + ", sharp")]
    lab.git(repo, "checkout", "-q", "-b", "topic")
    commit(lab, repo, "b.py", "two")
    with opened(repo) as store:
        one, other = (memories.find(store, id) for id in ids)
        memories.replace(store, one, other, {"body": NEW})
    assert listed(lab, repo) == [NEW]
    lab.git(repo, "checkout", "-q", "main")
    work(repo)
    found = {m["body"]: m for m in lab.json(repo, "list")}
    assert (
        found[OLD + ", sharp"]["superseded_by"] == [ids[0]]
        and found[OLD + ", sharp"]["superseded_on"]["branch"] is None
    )


def test_what_stands_costs_no_more_git(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(repo)
    count = Count(monkeypatch)
    with opened(repo) as store:
        store.repo.head()
        before = count.of(
            lambda: store.with_cache(
                lambda cache: reinstate.settle(store.repo, cache, store.table), refresh=False
            )
        )
        assert before == [] and listing.list_memories(store, Filter())[1] == 0


def scored(repo: pathlib.Path, hot: bool = False) -> list[Any]:
    """What a question finds, with every part of each score, to the last bit."""
    with opened(repo) as store:
        query = "when does the export run, and the import"
        answer = recall.recall(store, query, Filter(), limit=9, hot=hot)
        hits = [(h["id"], h["score"], h["explain"]) for h in answer["hits"]]
        return [answer["probability"], answer["searched"], hits]


@pytest.mark.parametrize("linked", [False, True])
def test_scores_do_not_depend_on_where_somebody_asked_before(
    lab: Lab, repo: pathlib.Path, linked: bool
) -> None:
    """What had come back for a HEAD that was left stayed in the index, so words seemed common."""
    for text in ("The import runs at four", "Nobody runs it by hand", "It is idle on Sundays"):
        tell(repo, text)
    five = tell(repo, "The import runs at five")
    if linked:
        lab.git(repo, "worktree", "add", "-q", "../other", "topic")
    lab.git(repo, "checkout", "-q", "-b", "side", "main")
    commit(lab, repo, "c.py", "three")
    lab.mem(repo, "supersede", five, "-m", "The import runs at six")
    if not linked:
        for branch in ("main", "topic"):
            lab.git(repo, "checkout", "-q", branch)
            scored(repo)
        lab.git(repo, "checkout", "-q", "side")
        lab.git(repo, "merge", "-q", "--no-edit", "topic")
    places = [repo, lab.root / "other"] if linked else [repo]
    scored(places[-1])
    grown = [scored(place) for place in places]
    work(repo)
    hot = [scored(place, hot=True) for place in places]
    with opened(repo) as store:
        store.discard()
    assert [scored(place) for place in places] == grown
    work(repo)
    assert [scored(place, hot=True) for place in places] == hot


def test_a_new_edit_of_what_came_back(lab: Lab, repo: pathlib.Path) -> None:
    """Records that change such a memory are folded as ever."""
    work(repo)
    found: list[dict[str, Any]] = lab.json(repo, "list")
    new = found[0]["superseded_by"][0]
    lab.git(repo, "checkout", "-q", "topic")
    lab.mem(repo, "edit", new, "-m", NEW + ", at last")
    lab.git(repo, "checkout", "-q", "main")
    work(repo)
    assert listed(lab, repo) == [OLD]
    lab.mem(repo, "forget", new)  # what was forgotten takes nothing's place back: its records stay
    work(repo)
    assert listed(lab, repo) == [OLD]


def test_why_finds_what_came_back(lab: Lab) -> None:
    repo = lab.repo()
    commit(lab, repo, "a.py", "one")
    lab.mem(repo, "remember", OLD, "--path", "a.py")
    lab.git(repo, "checkout", "-q", "-b", "topic")
    commit(lab, repo, "b.py", "two")
    lab.mem(repo, "supersede", lab.json(repo, "list")[0]["id"], "-m", NEW)
    lab.git(repo, "checkout", "-q", "main")
    assert OLD in lab.mem(repo, "why", "a.py")


def test_remembered_again_it_stays(lab: Lab, repo: pathlib.Path) -> None:
    work(repo)
    tell(repo, OLD)
    work(repo)
    assert set(listed(lab, repo)) == {OLD}
    lab.git(repo, "merge", "-q", "--no-ff", "--no-edit", "topic")
    assert listed(lab, repo) == sorted([OLD, NEW])


def test_what_is_active_again_since_a_purge_is_so_everywhere(lab: Lab, repo: pathlib.Path) -> None:
    """It had come back on one branch only, and was hidden on the other for good."""
    assert listed(lab, repo) == [OLD]
    lab.git(repo, "checkout", "-q", "topic")
    (new,) = lab.json(repo, "list")
    assert new["body"] == NEW
    lab.mem(repo, "purge", new["id"], "--force")
    assert listed(lab, repo) == [OLD]
    lab.git(repo, "checkout", "-q", "main")
    assert listed(lab, repo) == [OLD] and "superseded_on" not in lab.json(repo, "list")[0]
    work(repo)


EDITED, THIRD = "The export runs at six in the morning, in UTC", "The export runs at noon"


def the_old(lab: Lab, repo: pathlib.Path) -> str:
    (found,) = lab.json(repo, "list")
    assert found["body"] == OLD
    return str(found["id"])


@pytest.mark.parametrize("deleted", [False, True])
def test_what_came_back_can_be_edited_and_takes_nothing_from_the_branch(
    lab: Lab, repo: pathlib.Path, deleted: bool
) -> None:
    if deleted:
        lab.git(repo, "tag", "kept", "topic")
        lab.git(repo, "branch", "-q", "-D", "topic")
    id = the_old(lab, repo)
    lab.mem(repo, "edit", id, "-m", EDITED)
    (found,) = lab.json(repo, "list")
    assert (found["id"], found["body"], found["status"]) == (
        id,
        EDITED,
        "active",
    ) and "superseded_on" not in found
    work(repo)
    assert EDITED in hot(repo) and OLD not in hot(repo)
    topic = "kept" if deleted else "topic"
    lab.git(repo, "checkout", "-q", topic)
    work(repo)
    assert listed(lab, repo) == sorted(
        [EDITED, NEW]
    )  # as two edits at the same time: both are there
    assert listed(lab, repo, "--at", "main") == [EDITED] and listed(lab, repo, "--at", topic) in (
        [NEW],
        sorted([EDITED, NEW]),
    )
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "merge", "-q", "--no-ff", "--no-edit", topic)
    assert listed(lab, repo) == sorted([EDITED, NEW])
    lab.mem(repo, "forget", id)
    work(repo)
    assert listed(lab, repo) == [NEW]


def test_what_came_back_can_be_superseded_here_too(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "branch", "-q", "side")
    commit(lab, repo, "c.py", "three")
    id = the_old(lab, repo)
    lab.mem(repo, "supersede", id, "-m", THIRD)
    for branch, there in (("main", THIRD), ("topic", NEW), ("side", OLD)):
        lab.git(repo, "checkout", "-q", branch)
        assert listed(lab, repo) == [there] == listed(lab, repo, "--at", branch), branch
        work(repo)
        assert there in hot(repo)
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "merge", "-q", "--no-ff", "--no-edit", "topic")
    assert listed(lab, repo) == sorted([NEW, THIRD])


def test_where_it_was_superseded_it_cannot_be_changed(lab: Lab, repo: pathlib.Path) -> None:
    id = the_old(lab, repo)
    lab.git(repo, "checkout", "-q", "topic")
    for command in ("edit", "supersede"):
        assert "is superseded" in lab.run(repo, "git-mem", command, id, "-m", THIRD).stderr
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "merge", "-q", "--no-ff", "--no-edit", "topic")
    assert "is superseded" in lab.run(repo, "git-mem", "edit", id, "-m", THIRD).stderr


def test_an_edit_of_what_came_back_means_the_same_in_every_clone(
    lab: Lab, repo: pathlib.Path
) -> None:
    """One topic supersedes, another edits: whoever unites first, with stock git."""
    id = the_old(lab, repo)
    lab.mem(repo, "edit", id, "-m", EDITED)
    lines = lab.lines(repo)
    seen = []
    for name, order in (("one", lines), ("two", list(reversed(lines)))):
        clone = lab.root / name
        lab.git(lab.root, "clone", "-q", str(repo), name)
        for line in order:
            lab.git(clone, "notes", "--ref=mem/team", "append", "-m", line)
        seen.append(sorted((m["id"], m["body"]) for m in lab.json(clone, "list", "--all")))
    assert seen[0] == seen[1] and {body for _, body in seen[0]} == {EDITED, NEW}


def test_two_that_became_one_where_one_had_come_back(lab: Lab, repo: pathlib.Path) -> None:
    id = the_old(lab, repo)
    other = tell(repo, THIRD)
    with opened(repo) as store:
        memories.replace(
            store, memories.find(store, other), memories.find(store, id), {"body": THIRD + " UTC"}
        )
    work(repo)
    assert listed(lab, repo) == [THIRD + " UTC"]
