"""`--at REV`: what was known at a revision, with the text and the status of then, for recall, list
and context.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import pytest
from conftest import Lab
from places import commit, head, opened, squash, tell

from gitmem.anchors import snapshot_view
from gitmem.core import record
from gitmem.engine.filters import Filter
from gitmem.memory import listing, memories, recall


def bodies(repo: pathlib.Path, at: str = "", **conditions: Any) -> dict[str, str]:
    """{body: what became of it since} of a list as of a revision."""
    with opened(repo) as store:
        items = listing.list_memories(store, Filter(**conditions), at=at).items
        return {m["body"]: m.get("since", "") for m in items}


def first(repo: pathlib.Path, query: str, at: str) -> list[str]:
    with opened(repo) as store:
        return [h["body"] for h in recall.recall(store, query, Filter(), limit=8, at=at)["hits"]]


def told(lab: Lab, repo: pathlib.Path, at: str) -> str:
    return lab.mem(repo, "context", "--at", at, "--format", "md", rc=(0, 1))


def test_a_text_that_was_edited_later_is_the_former_one(lab: Lab) -> None:
    repo = lab.repo()
    id = tell(repo, "the cache lives for an hour, as measured in March")
    commit(lab, repo, "a.txt", "one")
    lab.mem(repo, "edit", id, "-m", "entries expire after a day")
    assert bodies(repo, "HEAD~1") == {"the cache lives for an hour, as measured in March": "edited"}
    assert bodies(repo, "HEAD") == bodies(repo) == {"entries expire after a day": ""}
    assert first(repo, "how long does the cache live", "HEAD~1") == [
        "the cache lives for an hour, as measured in March"
    ]
    assert first(repo, "how long does the cache live", "HEAD") != first(
        repo, "how long does the cache live", "HEAD~1"
    )
    assert "March" in told(lab, repo, "HEAD~1") and "March" not in told(lab, repo, "HEAD")


def test_what_was_superseded_later_counts(lab: Lab) -> None:
    repo = lab.repo()
    id = tell(repo, "we use MongoDB for the orders")
    commit(lab, repo, "a.txt", "one")
    new = lab.json(repo, "supersede", id, "PostgreSQL holds the orders")["id"]
    assert bodies(repo, "HEAD~1") == {"we use MongoDB for the orders": "superseded"}
    (hit,) = lab.json(repo, "recall", "mongodb", "--at", "HEAD~1")["hits"]
    assert (hit["status"], hit["since"], hit["superseded_by"]) == ("active", "superseded", [new])
    assert bodies(repo, "HEAD") == {"PostgreSQL holds the orders": ""}
    assert set(bodies(repo, "HEAD", superseded=True)) == {
        "we use MongoDB for the orders",
        "PostgreSQL holds the orders",
    }
    assert "superseded since" in lab.mem(repo, "list", "--at", "HEAD~1")


def test_a_supersede_on_another_branch_does_not_count_here(lab: Lab) -> None:
    repo = lab.repo()
    id = tell(repo, "we use MongoDB for the orders")
    lab.git(repo, "checkout", "-q", "-b", "topic")
    commit(lab, repo, "a.txt", "one")
    lab.mem(repo, "supersede", id, "PostgreSQL holds the orders")
    lab.git(repo, "checkout", "-q", "main")
    commit(lab, repo, "b.txt", "two")
    assert set(bodies(repo, "main")) == {"we use MongoDB for the orders"}
    assert set(bodies(repo, "topic")) == {"PostgreSQL holds the orders"}
    squash(lab, repo)
    assert set(bodies(repo, "main")) == {"PostgreSQL holds the orders"} and set(
        bodies(repo, "main~1")
    ) == {"we use MongoDB for the orders"}


def test_only_the_supersedes_before_a_revision_count_in_a_chain(lab: Lab) -> None:
    repo = lab.repo()
    id = tell(repo, "first")
    for i, text in enumerate(["second", "third", "fourth"]):
        commit(lab, repo, "a.txt", str(i))
        id = lab.json(repo, "supersede", id, text)["id"]
    assert [set(bodies(repo, f"HEAD~{n}")) for n in range(4)] == [
        {"fourth"},
        {"third"},
        {"second"},
        {"first"},
    ]


def test_what_was_forgotten_later_was_known_and_says_so(lab: Lab) -> None:
    repo = lab.repo()
    id = tell(repo, "the staging server has no clock")
    commit(lab, repo, "a.txt", "one")
    lab.mem(repo, "forget", id)
    assert (
        bodies(repo, "HEAD~1") == {"the staging server has no clock": "forgotten"}
        and bodies(repo, "HEAD") == {}
    )
    assert first(repo, "clock of staging", "HEAD~1") == ["the staging server has no clock"]


def test_what_was_purged_is_nowhere(lab: Lab) -> None:
    repo = lab.repo()
    id = tell(repo, "the staging server has no clock")
    commit(lab, repo, "a.txt", "one")
    lab.mem(repo, "edit", id, "-m", "it has one now")
    lab.mem(repo, "purge", id, "--force")
    assert bodies(repo, "HEAD~1") == {}


def test_records_without_head_show_the_present_text(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    id, gone = tell(repo, "before"), tell(repo, "forgotten long ago")
    commit(lab, repo, "a.txt", "one")
    made = record.envelope
    monkeypatch.setattr(
        record,
        "envelope",
        lambda op, data, at, extra: made(
            op, data, at, {k: v for k, v in extra.items() if k != "head"}
        ),
    )
    with opened(repo) as store:
        memories.edit(store, id, {"body": "after"})
        memories.forget(store, gone)
    assert bodies(repo, "HEAD~1") == {"after": ""}


def test_an_edit_counts_although_its_head_was_amended_away(lab: Lab) -> None:
    repo = lab.repo(commits=2)
    id = tell(repo, "before")
    commit(lab, repo, "a.txt", "one")
    lab.mem(repo, "edit", id, "-m", "after")
    (repo / "a.txt").write_text("another text\n")
    lab.git(repo, "commit", "-q", "-a", "--amend", "-m", "amended")
    commit(lab, repo, "a.txt", "two")
    assert [set(bodies(repo, f"HEAD~{n}")) for n in range(3)] == [{"after"}, {"after"}, {"before"}]


def test_an_edit_on_an_unmerged_branch_does_not_count_on_another(lab: Lab) -> None:
    repo = lab.repo()
    id = tell(repo, "before")
    lab.git(repo, "checkout", "-q", "-b", "topic")
    commit(lab, repo, "a.txt", "one")
    lab.mem(repo, "edit", id, "-m", "after")
    lab.git(repo, "checkout", "-q", "main")
    commit(lab, repo, "b.txt", "two")
    assert set(bodies(repo, "main")) == {"before"} and set(bodies(repo, "topic")) == {"after"}
    squash(lab, repo)
    assert set(bodies(repo, "main")) == {"after"}


def test_a_reanchoring_is_not_read_out_of_an_edit(lab: Lab) -> None:
    repo = lab.repo()
    id = tell(repo, "before")
    at = head(lab, repo)
    commit(lab, repo, "a.txt", "one")
    lab.mem(repo, "edit", id, "-m", "after")
    (item,) = lab.json(repo, "list")
    assert item["anchor"] == {"commit": at, "branch": "main", "state": "reachable"}


def test_filters_hold_for_the_text_of_then(lab: Lab) -> None:
    repo = lab.repo()
    id = lab.json(
        repo,
        "remember",
        "the export runs at six",
        "--type",
        "decision",
        "--tag",
        "old",
        "--path",
        "old.py",
    )["id"]
    commit(lab, repo, "a.txt", "one")
    lab.mem(repo, "edit", id, "--type", "gotcha", "--tag", "new", "--path", "new.py")
    for conditions, now in (
        ({"types": ["decision"]}, False),
        ({"types": ["gotcha"]}, True),
        ({"tags": ["old"]}, False),
        ({"tags": ["new"]}, True),
        ({"paths": ["old.py"]}, False),
        ({"paths": ["new.py"]}, True),
    ):
        assert bool(bodies(repo, "HEAD", **conditions)) is now, conditions
        assert bool(bodies(repo, "HEAD~1", **conditions)) is not now, conditions
    assert (
        lab.json(
            repo, "recall", "when does the export run", "--at", "HEAD~1", "--type", "decision"
        )["searched"]
        == 1
    )


def test_paths_are_seen_from_the_revision(lab: Lab) -> None:
    repo = lab.repo(commits=2)
    lab.mem(repo, "remember", "the parser must not recurse", "--path", "f0.txt")
    commit(lab, repo, "f0.txt", "another line")
    for at, state in (("HEAD~1", "same"), ("HEAD", "changed")):
        (item,) = lab.json(repo, "list", "--at", at)
        assert item["paths"][0]["state"] == state
    assert (
        lab.json(repo, "list", "--stale", "--at", "HEAD~1") == []
        and len(lab.json(repo, "list", "--stale", "--at", "HEAD")) == 1
    )


def test_nothing_of_then_stays_in_the_cache(lab: Lab) -> None:
    repo = lab.repo()
    id = tell(repo, "before")
    commit(lab, repo, "a.txt", "one")
    lab.mem(repo, "edit", id, "-m", "after")
    with opened(repo) as store:
        for _ in range(2):
            assert [
                h["body"]
                for h in recall.recall(store, "before", Filter(), limit=3, at="HEAD~1")["hits"]
            ] == ["before"]
            assert [m["body"] for m in listing.list_memories(store, Filter())[0]] == ["after"]
            assert (
                store.with_cache(
                    lambda cache: cache.db.execute(
                        "SELECT count(*) FROM temp.sqlite_master"
                    ).fetchone()[0]
                )[0]
                == 0
            )


def test_a_revision_that_is_none_is_an_error_that_says_so(lab: Lab) -> None:
    repo = lab.repo()
    tell(repo, "one")
    for command in (["recall", "one"], ["list"], ["context"]):
        for at in ("nonsense", "-x", "HEAD:f0.txt", "", " "):
            done = lab.run(repo, sys.executable, "-m", "gitmem", *command, f"--at={at}")
            assert done.returncode == (2 if at == "" else 1), (command, at, done.stderr)
            assert ("is empty" if at == "" else "no commit") in done.stderr
    unborn = lab.repo("unborn", 0)
    assert (
        "no commit"
        in lab.run(unborn, sys.executable, "-m", "gitmem", "list", "--at", "HEAD").stderr
    )


def test_a_detached_head_a_tag_and_a_bare_clone_answer_alike(lab: Lab) -> None:
    repo = lab.repo()
    id = tell(repo, "before")
    lab.git(repo, "tag", "-a", "-m", "one", "v1")
    commit(lab, repo, "a.txt", "one")
    lab.mem(repo, "edit", id, "-m", "after")
    lab.git(repo, "checkout", "-q", "--detach", "v1")
    lab.git(lab.root, "clone", "-q", "--mirror", str(repo), "bare.git")
    for place in (repo, lab.root / "bare.git"):
        assert set(bodies(place, "v1")) == {"before"} and set(bodies(place, "main")) == {"after"}


def test_a_shallow_clone_says_what_it_leaves_out(lab: Lab) -> None:
    repo = lab.repo()
    tell(repo, "the parser must not recurse")
    commit(lab, repo, "a.txt", "one")
    tell(repo, "the export runs at six")
    lab.git(lab.root, "clone", "-q", "--depth", "1", f"file://{repo}", "shallow")
    place = lab.root / "shallow"
    lab.git(place, "fetch", "-q", "origin", "refs/notes/mem/team:refs/notes/mem/team")
    answer = lab.json(place, "recall", "may the parser recurse", "--at", "HEAD", rc=(0, 1))
    assert (
        answer["degraded"]
        and "shallow clone" in answer["degraded_reason"]
        and "1 memory" in answer["degraded_reason"]
    )
    listed = lab.run(place, sys.executable, "-m", "gitmem", "list", "--at", "HEAD", "--json")
    assert (
        "shallow clone" in listed.stderr
        and "six" in listed.stdout
        and "parser" not in listed.stdout
    )
    assert (
        "fetch --unshallow"
        in lab.run(place, sys.executable, "-m", "gitmem", "list", "--at", "HEAD~1").stderr
    )


def test_memories_made_before_the_first_commit_are_known_everywhere(lab: Lab) -> None:
    repo = lab.repo("unborn", 0)
    tell(repo, "before anything")
    commit(lab, repo, "a.txt", "one")
    assert set(bodies(repo, "HEAD")) == {"before anything"}


def test_unsigned_texts_of_then_are_not_injected_under_a_strict_policy(lab: Lab) -> None:
    repo = lab.repo()
    tell(repo, "nobody signed this")
    lab.git(repo, "config", "mem.trust", "signed")
    assert "nobody signed" not in told(lab, repo, "HEAD")


def test_a_context_of_then_counts_the_memories_of_then(lab: Lab) -> None:
    repo = lab.repo()
    id = tell(repo, "the export runs at six")
    commit(lab, repo, "a.txt", "one")
    lab.mem(repo, "edit", id, "-m", "the export runs at seven")
    for i in range(3):
        tell(repo, f"memory {i} of later")
    told = lab.json(repo, "context", "--at", "HEAD~1")
    assert (
        told["memories"] == 1 and "six" in str(told) and told["head"] == head(lab, repo, "HEAD~1")
    ), told


@pytest.mark.parametrize("value", [5, None, "", "zz", "HEAD", ["a" * 40], "f" * 40, "F" * 40])
def test_a_head_of_another_shape_counts_everywhere(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, value: object
) -> None:
    repo = lab.repo()
    id = tell(repo, "before")
    commit(lab, repo, "a.txt", "one")
    made = record.edit
    monkeypatch.setattr(
        record, "edit", lambda *args, **extra: {**made(*args, **extra), "head": value}
    )
    with opened(repo) as store:
        memories.edit(store, id, {"body": "after"})
    assert bodies(repo, "HEAD~1") == bodies(repo, "HEAD") == {"after": ""}


def test_a_context_of_then_says_what_became_of_paths_until_then(lab: Lab) -> None:
    repo = lab.repo(commits=2)
    lab.mem(
        repo, "remember", "the parser must not recurse", "--path", "f0.txt", "--type", "decision"
    )
    commit(lab, repo, "f0.txt", "another line")
    commit(lab, repo, "f1.txt", "another line")
    assert (
        "changed" in told(lab, repo, "HEAD")
        and "changed" in told(lab, repo, "HEAD~1")
        and "changed" not in told(lab, repo, "HEAD~2")
    )
    assert "unknown" not in lab.mem(repo, "context", "--at", "HEAD~1", "--format", "xml")


def test_an_edit_after_a_revision_is_known_by_ancestry_where_patch_ids_still_wait(lab: Lab) -> None:
    repo = lab.repo()
    id = tell(repo, "before")
    commit(lab, repo, "a.txt", "one")
    lab.mem(repo, "edit", id, "-m", "after")
    with opened(repo) as store:
        known = store.with_cache(
            lambda cache: snapshot_view.known_at(store.repo, cache, head(lab, repo, "HEAD~1"), 0)
        )[0]
        assert [r.op for r in known.later.values()] == ["edit"]


def test_nothing_to_search_says_why(lab: Lab) -> None:
    repo = lab.repo("repo", 3)
    assert "no memories here yet" in lab.mem(repo, "recall", "alpha", rc=(1,))
    lab.mem(repo, "remember", "alpha is first", "--commit", "HEAD~2")
    told = lab.mem(repo, "recall", "alpha", "--path", "nowhere", rc=(1,))
    assert told.startswith("MISS: nothing passes this filter")
    lab.git(lab.root, "clone", "-q", "--depth", "1", f"file://{repo}", "shallow")
    shallow = lab.root / "shallow"
    lab.git(shallow, "fetch", "-q", "origin", "refs/notes/mem/team:refs/notes/mem/team")
    told = lab.mem(shallow, "recall", "alpha", "--at", "HEAD", rc=(1,))
    assert (
        told.startswith("MISS")
        and "no memories here yet" not in told
        and "1 memory was left out" in told
    )


def test_a_commit_may_be_named_by_its_message(lab: Lab) -> None:
    repo = lab.repo("repo", 3)
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "zebra crossing")
    wanted = lab.git(repo, "rev-parse", ":/zebra").strip()
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "later")
    id = lab.json(repo, "remember", "about it", "--commit", ":/zebra")["id"]
    assert lab.json(repo, "show", id)["anchor"]["commit"] == wanted
    assert [m["id"] for m in lab.json(repo, "list", "--at", ":/zebra c")] == [id]
    assert lab.json(repo, "diff", ":/zebra")["base"]["commit"] == wanted
    lab.mem(repo, "list", "--at", ":/no such message", rc=(1,))
