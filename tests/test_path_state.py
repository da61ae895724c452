"""What became of the paths of memories: each situation with real git, and what is kept for
hooks."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from conftest import Lab
from places import head, opened
from tale import TEXT, Tale

from gitmem.anchors import (
    anchor_state,
    anchor_state_update,
    path_state,
)
from gitmem.anchors.path_state import PathState as State
from gitmem.engine import path_state_store
from gitmem.engine.anchor_state_store import UNBORN, WAITING
from gitmem.engine.cache import Cache
from gitmem.memory import remember


@pytest.fixture
def tale(lab: Lab) -> Tale:
    return Tale.begun(lab)


def test_nothing_changed_and_changed(tale: Tale) -> None:
    a, b = tale.wanted("a.txt"), tale.wanted("b.txt")
    tale.write("b.txt", "new\n").commit()
    assert tale.states([a, b]) == [State("same"), State("changed")]
    assert tale.states([a, b], a[0]) == [State("same"), State("same")]


def test_a_rename_and_a_change_after_it(tale: Tale) -> None:
    a = tale.wanted("a.txt")
    tale.move("a.txt", "deep/c.txt").commit()
    assert tale.state(a) == State("renamed", "deep/c.txt")
    tale.write("deep/c.txt", TEXT + "more\n").commit()
    assert tale.state(a) == State("changed", "deep/c.txt")


def test_a_rename_and_a_change_in_one_commit(tale: Tale) -> None:
    a = tale.wanted("a.txt")
    tale.move("a.txt", "c.txt").write("c.txt", TEXT + "more\n").commit()
    assert tale.state(a) == State("changed", "c.txt")


def test_gradual_renames_that_no_direct_comparison_finds(tale: Tale) -> None:
    a = tale.wanted("a.txt")
    lines = TEXT.splitlines(keepends=True)
    name = "a.txt"
    for i in range(5):
        lines[i * 8 : i * 8 + 8] = [f"wholly other words {i} {j}\n" for j in range(8)]
        tale.move(name, f"step{i}.txt").write(f"step{i}.txt", "".join(lines)).commit()
        name = f"step{i}.txt"
    assert tale.git("diff", "-M", "--name-status", "--diff-filter=R", a[0], "HEAD") == ""
    assert tale.state(a) == State("changed", "step4.txt")


def test_renamed_back_is_same(tale: Tale) -> None:
    a = tale.wanted("a.txt")
    tale.move("a.txt", "c.txt").commit()
    tale.move("c.txt", "a.txt").commit()
    assert tale.state(a) == State("same")
    tale.write("a.txt", TEXT + "more\n").commit()
    assert tale.state(a) == State("changed")


def test_another_file_under_the_old_name_does_not_hide_where_it_went(tale: Tale) -> None:
    a = tale.wanted("a.txt")
    tale.move("a.txt", "c.txt").commit()
    tale.write("a.txt", "something else\n").commit()
    assert tale.state(a) == State("renamed", "c.txt")
    tale.write("c.txt", TEXT + "more\n").commit()
    assert tale.state(a) == State("changed", "c.txt")


def test_deleted_and_made_anew_is_changed(tale: Tale) -> None:
    a = tale.wanted("a.txt")
    tale.git("rm", "-q", "a.txt")
    tale.commit()
    assert tale.state(a) == State("gone")
    tale.write("a.txt", "something else\n").commit()
    assert tale.state(a) == State("changed")
    tale.write("a.txt", TEXT).commit()
    assert tale.state(a) == State("same")


def test_content_that_comes_back_under_another_name_is_a_rename(tale: Tale) -> None:
    a = tale.wanted("a.txt")
    tale.git("rm", "-q", "a.txt")
    tale.commit()
    tale.write("old/a.txt", TEXT).write("old/z.txt", TEXT).commit()
    assert tale.state(a) == State("renamed", "old/a.txt")


def test_a_copy_that_was_there_before_is_no_rename(tale: Tale) -> None:
    tale.write("copy.txt", TEXT).commit()
    a = tale.wanted("a.txt")
    tale.git("rm", "-q", "a.txt")
    tale.commit()
    assert tale.state(a) == State("gone")


def test_an_empty_file_goes_where_git_says_and_is_found_nowhere_else(tale: Tale) -> None:
    tale.write("empty", "").commit()
    empty = tale.wanted("empty")
    tale.git("rm", "-q", "empty")
    tale.commit()
    tale.write("other", "").commit()
    assert tale.state(empty) == State("gone")


def test_a_branch_that_renamed_is_merged(tale: Tale) -> None:
    a = tale.wanted("a.txt")
    tale.git("checkout", "-q", "-b", "topic")
    tale.move("a.txt", "c.txt").commit()
    tale.git("checkout", "-q", "main")
    tale.write("a.txt", TEXT + "main\n").commit()
    assert tale.state(a) == State("changed") and tale.state(a, "topic") == State("renamed", "c.txt")
    tale.git("merge", "-q", "--no-edit", "topic")
    assert tale.state(a) == State("changed", "c.txt")


def test_two_branches_renamed_it_differently(tale: Tale) -> None:
    a = tale.wanted("a.txt")
    tale.git("checkout", "-q", "-b", "topic")
    tale.move("a.txt", "topic.txt").commit()
    tale.git("checkout", "-q", "main")
    tale.move("a.txt", "main.txt").commit()
    tale.lab.run(tale.repo, "git", "merge", "-q", "--no-commit", "topic")
    tale.git("rm", "-q", "-f", "--ignore-unmatch", "main.txt", "a.txt")
    tale.write("topic.txt", TEXT).commit()
    assert tale.state(a) == State("renamed", "topic.txt")


def test_renamed_on_a_branch_and_kept_by_the_merge(tale: Tale) -> None:
    a = tale.wanted("a.txt")
    tale.git("checkout", "-q", "-b", "topic")
    tale.move("a.txt", "c.txt").commit()
    tale.git("checkout", "-q", "main")
    tale.write("a.txt", TEXT + "main\n").commit()
    tale.git("merge", "-q", "--no-commit", "topic")
    tale.git("rm", "-q", "-f", "--ignore-unmatch", "c.txt")
    tale.write("a.txt", TEXT + "main\n").write("c.txt", TEXT).commit()
    assert tale.state(a) == State("changed")


def test_a_directory_is_renamed_changed_and_gone(tale: Tale) -> None:
    net, bare = tale.wanted("src/net/"), tale.wanted("src/net")
    tale.move("src/net", "src/wire").commit()
    assert tale.states([net, bare]) == [State("renamed", "src/wire/"), State("renamed", "src/wire")]
    tale.write("src/wire/z.py", "z\n").commit()
    assert tale.state(net) == State("changed", "src/wire/")
    tale.git("rm", "-q", "-r", "src")
    tale.commit()
    assert tale.state(net) == State("gone")


def test_a_directory_that_was_renamed_and_changed_in_one_commit(tale: Tale) -> None:
    net = tale.wanted("src/net/")
    tale.move("src/net", "lib/net").write("lib/net/new.py", "new\n").write(
        "lib/net/x.py", TEXT.upper() + "more\n"
    ).commit()
    assert tale.state(net) == State("changed", "lib/net/")


def test_the_whole_tree_is_a_path(tale: Tale) -> None:
    top = (head(tale.lab, tale.repo), ".", tale.git("rev-parse", "HEAD^{tree}"), "")
    assert tale.state(top) == State("same")
    tale.write("a.txt", "x").commit()
    assert tale.state(top) == State("changed")


def test_an_older_revision_and_another_branch(tale: Tale) -> None:
    before = head(tale.lab, tale.repo, "HEAD~1")
    a = tale.wanted("a.txt")
    tale.git("checkout", "-q", "-b", "topic", before)
    tale.commit()
    beside = State("unknown", reason=path_state_store.BESIDE)  # neither the file nor its commit
    assert tale.states([a], before) == [beside] and tale.state(a, "topic") == beside
    tale.write("moved.txt", TEXT).commit()
    assert tale.state(a, "topic") == State("renamed", "moved.txt")


def test_after_a_squash_merge_it_is_followed_on_the_main_line(lab: Lab, tale: Tale) -> None:
    tale.git("checkout", "-q", "-b", "topic")
    tale.write("new.txt", TEXT + "new\n").commit()
    new = tale.wanted("new.txt")
    tale.git("checkout", "-q", "main")
    tale.git("merge", "-q", "--squash", "topic")
    tale.commit()
    tale.git("branch", "-q", "-D", "topic")
    tale.move("new.txt", "newer.txt").write("newer.txt", TEXT + "other\n").commit()
    assert tale.state(new) == State("changed", "newer.txt")


def test_no_blob_no_commit_and_no_revision_are_unknown_with_a_reason(tale: Tale) -> None:
    missing = tale.wanted("not-there")
    assert tale.state(missing) == State("unknown", reason=path_state.NO_BLOB)
    a = tale.wanted("a.txt")
    gone = ("d" * 40, "never-here.txt", "e" * 40, "")
    with opened(tale.repo) as store:
        assert store.with_cache(lambda cache: path_state.states(store.repo, cache, [a], ""))[0] == [
            State("unknown", reason=UNBORN)
        ]
    assert tale.state(gone) == State("unknown", reason=anchor_state.ABSENT)
    assert tale.state(("", "a.txt", a[2], "")) == State("same")


def test_odd_names(tale: Tale) -> None:
    names = [
        "sp ace.txt",
        "ümlaut.txt",
        "-dash",
        "a\nb",
        "star*.txt",
        ":colon",
        '"quoted"',
        "a" * 200,
    ]
    for name in names:
        tale.write(name, TEXT + name)
    tale.commit()
    wanted = [tale.wanted(name) for name in names]
    assert tale.states(wanted) == [
        (
            State("same")
            if "\n" not in name
            else State("unknown", reason=path_state.NO_BLOB)
            if not w[2]
            else tale.state(w)
        )
        for name, w in zip(names, wanted, strict=True)
    ]
    for i, name in enumerate(names):
        (tale.repo / name).rename(tale.repo / f"moved {i}")
    tale.commit()
    assert [s for s, n in zip(tale.states(wanted), names, strict=True) if "\n" not in n] == [
        State("renamed", f"moved {i}") for i, n in enumerate(names) if "\n" not in n
    ]


# --- what cannot be known ---------------------------------------------------


def test_a_shallow_clone_says_unknown_where_it_lacks_the_history(lab: Lab, tale: Tale) -> None:
    a, b, net = tale.wanted("a.txt"), tale.wanted("b.txt"), tale.wanted("src/net/")
    tale.write("b.txt", "new\n").move("a.txt", "c.txt").commit()
    tale.write("c.txt", "wholly other\n").commit()
    lab.git(lab.root, "clone", "-q", "--depth", "1", f"file://{tale.repo}", "shallow")
    shallow = Tale(lab, lab.root / "shallow")
    assert shallow.states([net, b, a]) == [
        State("same"),
        State("changed"),
        State("unknown", reason=anchor_state.SHALLOW),
    ]


def test_a_partial_clone_is_not_asked_for_files(lab: Lab, tale: Tale) -> None:
    a, b = tale.wanted("a.txt", lines="1-3"), tale.wanted("b.txt")
    tale.move("b.txt", "c.txt").write("a.txt", "x\n" + TEXT).commit()
    tale.write("c.txt", "wholly other\n").commit()
    tale.git("config", "uploadpack.allowFilter", "true")
    lab.git(
        lab.root,
        "clone",
        "-q",
        "--filter=blob:none",
        "--no-checkout",
        f"file://{tale.repo}",
        "partial",
    )
    partial = Tale(lab, lab.root / "partial")
    shutil.move(str(tale.repo), str(tale.repo) + ".away")
    assert partial.states([a, b]) == [
        State("unknown", reason=anchor_state.PARTIAL),
        State("unknown", reason=anchor_state.PARTIAL),
    ]


def test_in_a_partial_clone_any_number_of_names_is_found_directories_too(
    lab: Lab, tale: Tale
) -> None:
    tale.write("d/e/f.txt", TEXT).commit()
    long = [f"{n}/" + "/".join(["日" * 80] * 49) for n in range(300)]  # 12 kB each
    some = [f"{n}/{'x' * 200}" for n in range(10_000)]
    names = ["d", "d/e/f.txt", "d/e", *some, *long, "a.txt"]
    with opened(tale.repo) as store:
        store.repo.git.promised = True
        ids = store.repo.git.entries([("HEAD", name) for name in names])
    found = dict(zip(names, ids, strict=True))
    there = {name: id for name, id in found.items() if id}
    expected = {name: lab.git(tale.repo, "rev-parse", f"HEAD:{name}").strip() for name in there}
    assert there == expected and sorted(there) == ["a.txt", "d", "d/e", "d/e/f.txt"]


def test_no_time_is_unknown_and_the_next_call_goes_on(tale: Tale) -> None:
    a, b = tale.wanted("a.txt"), tale.wanted("b.txt")
    tale.move("a.txt", "c.txt").write("c.txt", TEXT + "more\n").write("b.txt", "new\n").commit()
    found = tale.states([a, b], seconds=0.0)
    assert found[0] == State("unknown", reason=WAITING) and found[1].state == "changed"
    assert tale.states([a, b]) == [State("changed", "c.txt"), State("changed")]


def test_what_git_said_is_asked_once(tale: Tale, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = tale.wanted("a.txt"), tale.wanted("b.txt")
    tale.move("a.txt", "c.txt").write("c.txt", TEXT + "more\n").write("b.txt", "new\n").commit()
    with opened(tale.repo) as store:
        asked: list[str] = []
        limited = store.repo.git.limited

        def count(seconds: float, *args: str, stdin: bytes = b"") -> tuple[bytes, bool]:
            asked.append(args[0])
            return limited(seconds, *args, stdin=stdin)

        monkeypatch.setattr(store.repo.git, "limited", count)

        def ask(cache: Cache) -> Any:
            return path_state.states(store.repo, cache, [a, b], store.repo.head(), 60.0)

        first = store.with_cache(ask)[0]
        assert asked == ["rev-list", "diff-tree"]
        assert store.with_cache(ask)[0] == first == [
            State("changed", "c.txt"),
            State("changed"),
        ] and asked[2:] == ["rev-list"]
        looked = "SELECT count(*) FROM path_removal WHERE path = ''"
        assert store.with_cache(lambda cache: cache.db.execute(looked).fetchone())[0] == (1,)


def test_the_partial_probe_can_fail(tale: Tale) -> None:
    with opened(tale.repo) as store:
        assert not store.repo.git.promised


# --- lines --------------------------------------------------------------------


def test_a_file_of_another_branch_is_unknown_until_its_very_content_is_here(tale: Tale) -> None:
    """What HEAD made of it nobody can say: HEAD has neither the file nor the commit it was noted
    at.
    """
    tale.git("checkout", "-q", "-b", "topic")
    text = TEXT.replace("text", "novel")
    tale.write("new.txt", text).commit()
    asked = tale.wanted("new.txt")
    with opened(tale.repo) as store:
        remember.remember(
            store, [{"body": "the novel is generated", "commit": asked[0], "paths": ["new.txt"]}]
        )
    tale.git("checkout", "-q", "main")
    beside = State("unknown", reason=path_state_store.BESIDE)
    for name, content, right in (
        ("b.txt", "b\n", beside),
        ("novel.txt", text + "more\n", beside),
        ("novel.txt", text, State("renamed", "novel.txt")),
    ):
        tale.write(name, content).commit()
        with opened(tale.repo) as store:
            store.with_cache(lambda cache: None)
            anchor_state_update.update(store, patience=60)
            kept = store.with_cache(
                lambda cache, store=store: path_state_store.read(cache, [0], store.repo.head())
            )[0]
        assert kept == {0: {0: right}} and tale.state(asked) == right
