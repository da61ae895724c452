"""A second implementation of git, libgit2, reads notes of ours and writes notes that we read.

In SHA-1 repositories whose refs are files: it opens no others (decision 10).
"""

from __future__ import annotations

import pathlib

import pygit2
import pytest
from conftest import Lab
from notes_world import ADA, REF, opened

from gitmem.notes import notetree, treeedit

WHO = pygit2.Signature("Bob", "bob@example.org", 1767323045, 0)


@pytest.fixture
def path(lab: Lab) -> pathlib.Path:
    return lab.repo("repo", 2, "--object-format=sha1")


def line(text: str) -> bytes:
    return b'{"text":"%s"}' % text.encode()


def read(path: pathlib.Path) -> dict[str, set[bytes]]:
    """{object: the lines of its note}, read by libgit2 alone."""
    repo = pygit2.Repository(str(path))
    ids = [str(id) for id in repo.odb if repo[id].type_str in ("commit", "blob")]
    found = {}
    for id in ids:
        try:
            found[id] = {
                row.encode() for row in repo.lookup_note(id, REF).message.splitlines() if row
            }
        except KeyError:
            pass
    return found


def note(path: pathlib.Path, object: str, text: str) -> None:
    """Writes the note of an object with libgit2, over one that is there."""
    pygit2.Repository(str(path)).create_note(text, WHO, WHO, object, REF, True)


def test_a_memory_is_read_by_the_other(lab: Lab, path: pathlib.Path) -> None:
    head = lab.git(path, "rev-parse", "HEAD").strip()
    lab.mem(path, "remember", "amounts are in cents")
    (mine,) = lab.lines(path)
    assert read(path) == {head: {mine.encode()}}


def test_notes_under_a_fan_out_are_read_by_the_other(lab: Lab, path: pathlib.Path) -> None:
    repo, store = opened(path)
    keys = [
        lab.git(path, "hash-object", "-w", "--stdin", stdin=f"o{i}").strip()
        for i in range(notetree.SPLIT + 2)
    ]
    store.append([(key, line(key)) for key in keys[:-1]], "m", ADA)
    store.append([(keys[-1], line(keys[-1]))], "m", ADA)
    tree = pygit2.Repository(str(path)).revparse_single(REF).peel(pygit2.Tree)
    assert all(len(entry.name) == 2 for entry in tree), "the tree is split"
    assert read(path) == {key: {line(key)} for key in keys}
    repo.git.close()


def test_continuations_are_notes_of_their_keys_to_the_other(path: pathlib.Path) -> None:
    repo, store = opened(path)
    wanted = [line(f"{i} " + "x" * 3000) for i in range(3 * treeedit.BOUND // 3000)]
    store.append([(repo.head(), one) for one in wanted], "m", ADA)
    found = read(path)
    keys = [notetree.continuation(repo.head(), n, 40)[0] for n in range(1, len(found))]
    assert set(found) == {repo.head(), *keys} and len(keys) >= 2
    assert set().union(*found.values()) == set(wanted)
    repo.git.close()


def test_a_note_of_the_other_is_read_and_a_line_it_overwrote_comes_back(
    lab: Lab, path: pathlib.Path
) -> None:
    first = lab.json(path, "remember", "amounts are in cents")["id"]
    (mine,) = lab.lines(path)
    elsewhere = lab.repo("elsewhere", 1, "--object-format=sha1")
    second = lab.json(elsewhere, "remember", "retries give up after five")["id"]
    (theirs,) = lab.lines(elsewhere)
    head = lab.git(path, "rev-parse", "HEAD").strip()
    note(path, head, theirs + "\n")  # `force`: the line that was there is gone
    assert read(path) == {head: {theirs.encode()}}
    assert {m["id"] for m in lab.json(path, "list", "--all")} == {first, second}
    lab.mem(path, "remember", "and a third one")
    assert {mine.encode(), theirs.encode()} <= read(path)[head]


def test_many_notes_of_the_other_are_read_here(lab: Lab, path: pathlib.Path) -> None:
    """It fans out by a rule of its own, if at all; new lines go beside its own."""
    keys = [
        lab.git(path, "hash-object", "-w", "--stdin", stdin=f"o{i}").strip() for i in range(300)
    ]
    for key in keys:
        note(path, key, line(key).decode())
    repo, store = opened(path)
    lines = list(store.lines(store.tip()))
    assert sorted(lines) == sorted((key, line(key)) for key in keys)
    store.append([(keys[0], line("more"))], "m", ADA)
    assert read(path) == {
        key: {line(key), *([line("more")] if key == keys[0] else [])} for key in keys
    }
    repo.git.close()


def test_what_both_wrote_in_two_clones_is_united(lab: Lab, path: pathlib.Path) -> None:
    lab.git(lab.root, "clone", "-q", "--bare", str(path), "hub.git")
    for name in ("a", "b"):
        lab.git(lab.root, "clone", "-q", "hub.git", name)
    a, b = lab.root / "a", lab.root / "b"
    head = lab.git(a, "rev-parse", "HEAD").strip()
    mine = lab.json(a, "remember", "amounts are in cents")["id"]
    lab.mem(a, "sync")
    elsewhere = lab.repo("elsewhere", 1, "--object-format=sha1")
    theirs = lab.json(elsewhere, "remember", "retries give up after five")["id"]
    note(b, head, lab.lines(elsewhere)[0] + "\n")  # a history of its own, without ours
    lab.mem(b, "sync")
    lab.mem(a, "sync")
    for clone in (a, b):
        assert {m["id"] for m in lab.json(clone, "list", "--all")} == {mine, theirs}
    assert read(a) == read(b) and len(read(a)[head]) == 2


def test_a_memory_follows_a_commit_that_the_other_amended(lab: Lab, path: pathlib.Path) -> None:
    """libgit2 runs no hook and copies no note: the patch-id says that it is the same change."""
    id = lab.json(path, "remember", "amounts are in cents")["id"]
    repo = pygit2.Repository(str(path))
    old = repo.head.target
    new = repo.amend_commit(repo[old], "HEAD", message="other words\n")
    assert new != old and id in {m["id"] for m in lab.json(path, "list")}


def test_a_note_that_git_moved_with_an_amended_commit_is_read_by_the_other(
    lab: Lab, path: pathlib.Path
) -> None:
    lab.mem(path, "init", "--offline")
    lab.mem(path, "remember", "amounts are in cents")
    (mine,) = lab.lines(path)
    lab.git(path, "commit", "-q", "--amend", "-m", "other words")
    assert read(path)[lab.git(path, "rev-parse", "HEAD").strip()] == {mine.encode()}
