"""Notes that are too large to be read: sizes come first, the rest is answered, and nothing of them
is lost.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sys
import zlib

import hook_world
import pytest
from conftest import Lab
from notes_world import ADA, REF, opened
from test_time_order import NO_WORKER
from test_unite import Clone, two

from gitmem.core import record, record_content
from gitmem.engine import index
from gitmem.git.object_reader import LARGEST, TooLarge
from gitmem.notes import notetree
from gitmem.store import open_store

KEPT = "Orders live in PostgreSQL because invoices share a transaction"
SMALL = 3_000  # bytes that are too many, where a test sets the bound


def line_of(text: str, **fields: object) -> bytes:
    return record.dump(record.create(record_content.checked({"body": text, **fields})))


def blob(lab: Lab, repo: pathlib.Path, content: bytes) -> str:
    path = lab.root / "content"
    path.write_bytes(content)
    return lab.git(repo, "hash-object", "-w", str(path)).strip()


def attach(lab: Lab, repo: pathlib.Path, content: bytes, commit: str = "HEAD~1") -> str:
    """Puts a note at a commit, whatever was there, as stock git does."""
    made = blob(lab, repo, content)
    lab.git(repo, "notes", "--ref=mem/team", "add", "-f", "-C", made, commit)
    return made


@pytest.fixture
def hooks(lab: Lab) -> hook_world.Hooks:
    repo = lab.repo(commits=2)
    lab.mem(repo, "init", "--offline")
    lab.mem(repo, "remember", KEPT, "--type", "decision")
    return hook_world.Hooks(lab, repo)


def records(count: int) -> bytes:
    data = record.create(record_content.checked({"body": "x", "type": "decision"}))
    return b"".join(
        record.dump({**data, "id": f"{n:032x}", "n": f"{n:016x}", "body": f"many words {n} " * 8})
        + b"\n"
        for n in range(count)
    )


CONTENTS = {
    "zeros": lambda: bytes(LARGEST + 1),
    "records": lambda: records(LARGEST // 200),
    "one line": lambda: b"{" + b"x" * LARGEST + b"}",
}


@pytest.mark.parametrize("what", CONTENTS)
@pytest.mark.parametrize("packed", [False, True])
def test_a_session_starts_with_what_is_there_and_says_degraded(
    hooks: hook_world.Hooks, what: str, packed: bool
) -> None:
    lab, repo = hooks.lab, hooks.repo
    attach(lab, repo, CONTENTS[what]())
    if packed:
        lab.git(repo, "gc", "-q")
    commit = lab.git(repo, "rev-parse", "HEAD~1").strip()
    for way in ("first", "again", "without a cache"):
        if way != "again":
            shutil.rmtree(hooks.mem_dir, ignore_errors=True)
        told = hooks.call(
            "SessionStart", source="startup", first=NO_WORKER if way == "without a cache" else ""
        )
        assert KEPT in told and "<degraded>" in told and commit[:12] in told, way
    answer = lab.json(repo, "recall", "where do orders live")
    assert (
        answer["degraded"] is True
        and commit[:12] in answer["degraded_reason"]
        and answer["hits"][0]["body"] == KEPT
    )
    said = lab.run(repo, sys.executable, "-m", "gitmem", "list")
    assert KEPT in said.stdout and commit[:12] in said.stderr
    assert f"the note of {commit} has " in lab.mem(repo, "doctor", rc=(0, 1))


def test_once_the_note_is_gone_nothing_is_degraded(hooks: hook_world.Hooks) -> None:
    attach(hooks.lab, hooks.repo, bytes(LARGEST + 1))
    assert hooks.lab.json(hooks.repo, "recall", "where do orders live")["degraded"] is True
    hooks.lab.git(hooks.repo, "notes", "--ref=mem/team", "remove", "HEAD~1")
    assert hooks.lab.json(hooks.repo, "recall", "where do orders live")["degraded"] is False
    assert "<degraded>" not in hooks.call("SessionStart", source="startup")


def test_a_note_of_many_short_lines_is_no_reason_to_be_silent(hooks: hook_world.Hooks) -> None:
    attach(hooks.lab, hooks.repo, b"".join(b"%d\n" % n for n in range(300_000)))
    shutil.rmtree(hooks.mem_dir)
    assert KEPT in hooks.call("SessionStart", source="startup")
    assert hooks.lab.json(hooks.repo, "recall", "where do orders live")["degraded"] is False


def test_what_the_note_held_before_comes_back_and_is_read(hooks: hook_world.Hooks) -> None:
    """A teammate's stock git appends too much to the note that has our memory."""
    lab, repo = hooks.lab, hooks.repo
    had = lab.lines(repo)
    large = attach(lab, repo, had[0].encode() + b"\n" + bytes(LARGEST + 1), "HEAD")
    shutil.rmtree(hooks.mem_dir)
    assert [m["body"] for m in lab.json(repo, "list")] == [KEPT]
    lab.mem(repo, "remember", "A second thing")
    shutil.rmtree(hooks.mem_dir)
    assert {m["body"] for m in lab.json(repo, "list")} == {KEPT, "A second thing"}
    assert large in lab.git(repo, "notes", "--ref=mem/team", "list")


@pytest.fixture
def bounded(lab: Lab) -> tuple[Clone, Clone]:
    made = two(lab)
    for clone in made:
        clone.notes.git.largest = SMALL
    return made


def ids(clone: Clone) -> set[str]:
    return {id for _, id in notetree.all_notes(clone.notes.git, clone.notes.tip())}


def test_a_writer_goes_on_behind_a_large_note_without_reading_it(
    bounded: tuple[Clone, Clone], lab: Lab
) -> None:
    one, _ = bounded
    large = attach(lab, one.path, bytes(SMALL + 1), "HEAD")
    for n in range(3):
        one.remember(f"memory {n}")
    assert one.bodies() == {"memory 0", "memory 1", "memory 2"} and large in ids(one)
    assert [key for key, size in one.notes.unread.items() if size] == [one.head]


def test_two_clones_unite_and_both_have_the_large_note(
    bounded: tuple[Clone, Clone], lab: Lab
) -> None:
    one, other = bounded
    one.remember("of one")
    other.remember("of the other")
    large = attach(lab, other.path, bytes(SMALL + 1), "HEAD")
    one.take(other)
    assert one.bodies() == {"of one", "of the other"} and large in ids(one)
    other.take(one)
    assert (
        other.bodies() == one.bodies()
        and large in ids(other)
        and other.notes.tip() == one.notes.tip()
    )
    tip = one.notes.tip()
    one.take(other)
    assert one.notes.tip() == tip


def test_of_two_large_notes_of_one_commit_both_stay(bounded: tuple[Clone, Clone], lab: Lab) -> None:
    one, other = bounded
    larges = {
        attach(lab, one.path, b"a" * (SMALL + 1), "HEAD"),
        attach(lab, other.path, b"b" * (SMALL + 1), "HEAD"),
    }
    one.take(other)
    assert larges <= ids(one)
    other.take(one)
    assert larges <= ids(other) and other.notes.tip() == one.notes.tip()
    lab.git(one.path, "notes", "--ref=mem/team", "prune")
    assert larges <= ids(one)  # its place is kept alive as any continuation's


def test_a_level_that_is_split_takes_a_large_note_along(
    bounded: tuple[Clone, Clone], lab: Lab
) -> None:
    one, _ = bounded
    tree = lab.git(one.path, "rev-parse", "HEAD^{tree}").strip()
    commits = [
        lab.git(one.path, "commit-tree", tree, "-m", str(n)).strip()
        for n in range(notetree.SPLIT + 2)
    ]
    large = attach(lab, one.path, bytes(SMALL + 1), commits[0])
    one.notes.append(
        [(commit, line_of(f"memory {n}")) for n, commit in enumerate(commits[1:])], "m", ADA
    )
    one.remember("one more")
    assert large in ids(one) and len(one.bodies()) == len(commits)


def test_a_purge_reads_notes_of_any_size(lab: Lab) -> None:
    repo = lab.repo(commits=2)
    lab.mem(repo, "init", "--offline")
    lab.mem(repo, "remember", "the code name is heron, tell nobody")
    lab.mem(repo, "remember", KEPT)
    id = next(m["id"] for m in lab.json(repo, "list") if "heron" in m["body"])
    line = next(line for line in lab.lines(repo) if "heron" in line)
    attach(lab, repo, line.encode() + b"\n" + bytes(LARGEST + 1), "HEAD~1")
    lab.mem(repo, "purge", id, "--force")
    for row in lab.git(repo, "cat-file", "--batch-all-objects", "--batch-check").splitlines():
        if " blob " in row:
            assert "heron" not in lab.git(repo, "cat-file", "blob", row.split()[0])
    assert [m["body"] for m in lab.json(repo, "list")] == [KEPT]


def test_a_rewritten_history_keeps_what_could_not_be_read(
    bounded: tuple[Clone, Clone], lab: Lab
) -> None:
    one, _ = bounded
    line = one.remember("to be purged")
    one.remember("to stay")
    large = attach(lab, one.path, bytes(SMALL + 1), "HEAD~1")
    one.purge(line)
    assert one.bodies() == {"to stay"} and large in ids(one)


def test_sizes_come_before_contents(lab: Lab) -> None:
    repo, notes = opened(lab.repo())
    path = pathlib.Path(repo.top)
    small, large, delta = b"small\n", os.urandom(9_000), b""
    names = [
        blob(lab, path, content) for content in (small, large, large + b"and more", small + b"2")
    ]
    for packed in (False, True):
        if packed:
            for n, name in enumerate(names):
                lab.git(path, "tag", f"t{n}", name)
            lab.git(path, "repack", "-adq", "-f")
        found = list(repo.git.objects.get_many([*names, "0" * 40], 5_000))
        assert [got and (got[2], getattr(got[2], "size", 0)) for got in found] == [
            (small, 0),
            (b"", 9_000),
            (b"", 9_008),
            (small + b"2", 0),
            None,
        ]
        assert [isinstance(got[2], TooLarge) for got in found if got] == [False, True, True, False]
        repo.git.close()
    assert delta == b"" and notes.tip() == ""


@pytest.mark.parametrize("said", [10, 5_000_000])
def test_an_object_whose_header_lies_counts_as_missing(lab: Lab, said: int) -> None:
    repo, _ = opened(lab.repo())
    path = pathlib.Path(repo.top)
    good = blob(lab, path, b"good\n")
    bomb = "ab" + "cd" * 19
    os.makedirs(path / ".git/objects/ab", exist_ok=True)
    (path / ".git/objects/ab" / bomb[2:]).write_bytes(
        zlib.compress(b"blob %d\0" % said + bytes(50_000_000))
    )
    found = list(repo.git.objects.get_many([good, bomb, good], LARGEST))
    assert found[0] == found[2] == (good, "blob", b"good\n")
    assert found[1] is None or (
        isinstance(found[1][2], TooLarge) if said > LARGEST else len(found[1][2]) <= said
    )


def test_what_a_search_takes_in_at_once_is_bounded_in_bytes(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lab.repo()
    lab.mem(path, "remember", KEPT)
    monkeypatch.setattr(index, "_SPOT_BYTES", 10)
    store = open_store(os.environ, str(path))
    answer, fresh = store.with_cache(lambda cache: cache.count(), most=200)
    assert (answer, fresh) == (0, False)
    assert store.with_cache(lambda cache: cache.count()) == (1, True)
    store.close()


def test_reading_stops_with_who_asks(lab: Lab) -> None:
    """A tree of very many notes: the first ones come before git has told all."""
    repo, _ = opened(lab.repo())
    path = pathlib.Path(repo.top)
    note = blob(lab, path, b"text\n")
    rows = "".join(f"100644 blob {note}\t{n:040x}\n" for n in range(50_000))
    tree = lab.git(path, "mktree", stdin=rows).strip()
    commit = lab.git(path, "commit-tree", tree, "-m", "many").strip()
    found = notetree.all_notes(repo.git, commit)
    assert next(found) == ("0" * 40, note)
    found.close()  # type: ignore[attr-defined]
    lab.git(path, "update-ref", REF, commit)
    shutil.rmtree(path / ".git/mem", ignore_errors=True)
    told = lab.mem(
        path,
        "hook",
        "SessionStart",
        stdin=json.dumps(
            {
                "session_id": "s",
                "cwd": str(path),
                "hook_event_name": "SessionStart",
                "source": "startup",
            }
        ),
        env=hook_world.SLOW,
    )
    assert "additionalContext" in told


def test_where_nothing_could_be_read_in_time_a_session_start_says_so(
    hooks: hook_world.Hooks,
) -> None:
    told = hooks.call(
        "SessionStart",
        source="startup",
        first=(
            "from gitmem.agents import hook_cache\nhook_cache.with_memories = lambda *a, **k:"
            " (None, False)"
        ),
    )
    assert "could not be read in time" in told and KEPT not in told
    assert hooks.failures() == 1


def test_a_search_that_reads_garbage_looks_at_the_clock(lab: Lab) -> None:
    path = lab.repo()
    lab.mem(path, "remember", KEPT)
    attach(lab, path, b"".join(b"%d\n" % n for n in range(5_000)), "HEAD")
    store = open_store(os.environ, str(path))
    store.with_cache(lambda cache: None, refresh=False)
    assert store._cache is not None
    assert index.refresh(store._cache, store.sources, store.table, most=200, until=0.0) is None
    store.close()


def test_a_name_longer_than_one_read_comes_whole(lab: Lab) -> None:
    repo, _ = opened(lab.repo())
    path = pathlib.Path(repo.top)
    long, note = "n" * 100_000, blob(lab, path, b"text\n")
    tree = lab.git(
        path,
        "mktree",
        "-z",
        stdin="".join(f"100644 blob {note}\t{name}\0" for name in ("a", long, "z")),
    ).strip()
    rows = list(repo.git.stream("ls-tree", "-z", tree))
    assert [row.partition(b"\t")[2].decode() for row in rows] == ["a", long, "z"]
