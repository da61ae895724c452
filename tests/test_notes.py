"""The notes store against real git: nothing is lost, stock git reads and writes the same notes."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from conftest import Lab
from notes_world import ADA, REF, opened

from gitmem.core import record, record_content
from gitmem.core.errors import MemError
from gitmem.notes import history, note_store, notetree, treeedit


def line(text: str) -> bytes:
    return record.dump(record.create(record_content.checked({"body": text})))


def all_lines(store: note_store.Notes, deep: bool = False) -> set[bytes]:
    return {content for _, content in store.lines(store.tip(), deep=deep)}


def test_what_is_appended_is_read_by_stock_git(lab: Lab) -> None:
    path = lab.repo()
    repo, store = opened(path)
    first, second = line("one"), line("zwei ü 😀")
    store.append([(repo.head(), first)], "m", ADA)
    store.append([(repo.head(), second)], "m", ADA)
    assert (
        lab.git(path, "notes", "--ref=mem/team", "show", "HEAD").encode()
        == first + b"\n" + second + b"\n"
    )
    assert all_lines(store) == {first, second}
    lab.git(path, "fsck", "--strict")


def test_what_stock_git_appends_is_read(lab: Lab) -> None:
    path = lab.repo()
    repo, store = opened(path)
    one = line("one")
    store.append([(repo.head(), one)], "m", ADA)
    lab.git(
        path, "notes", "--ref=mem/team", "append", "-m", "a remark by hand", "HEAD"
    )  # leaves a blank line between
    two = line("two")
    store.append([(repo.head(), two)], "m", ADA)
    assert all_lines(store) == {one, b"a remark by hand", two}


def test_every_fan_out_is_read_and_extended(lab: Lab) -> None:
    path = lab.repo()
    repo, _ = opened(path)
    blobs = [
        lab.git(path, "hash-object", "-w", "--stdin", stdin=f"object {i}").strip()
        for i in range(300)
    ]
    stream = "".join(f"note {i}\n" for i in range(300)).splitlines()
    for depth in (0, 1, 2):
        name = f"refs/notes/fan{depth}"
        out = f"commit {name}\ncommitter {ADA} 0 +0000\ndata 1\nx\n"
        for key, text in zip(blobs, stream, strict=True):
            split = "/".join([key[2 * i : 2 * i + 2] for i in range(depth)] + [key[2 * depth :]])
            out += f"M 100644 inline {split}\ndata {len(text)}\n{text}\n"
        lab.git(path, "fast-import", "--quiet", stdin=out + "\n")
        own = note_store.Notes(repo.git, name, repo.hex_len)
        assert {content.decode() for content in all_lines(own)} == set(stream)
        own.append([(blobs[7], b"added")], "m", ADA)
        own.append([(repo.head(), b"new")], "m", ADA)
        assert lab.git(path, "notes", f"--ref={name}", "show", blobs[7]) == "note 7\nadded\n"
        assert len(lab.git(path, "notes", f"--ref={name}", "list").splitlines()) == 301
        assert len(all_lines(own)) == 302


def test_a_note_under_two_paths_becomes_one(lab: Lab) -> None:
    path = lab.repo()
    repo, store = opened(path)
    key = repo.head()
    out = f"commit {REF}\ncommitter {ADA} 0 +0000\ndata 1\nx\n"
    out += (
        f"M 100644 inline {key}\ndata 5\nflat\n\nM 100644 inline {key[:2]}/{key[2:]}\ndata"
        " 5\nfans\n\n"
    )
    lab.git(path, "fast-import", "--quiet", stdin=out)
    assert all_lines(store) == {b"flat", b"fans"}
    store.append([(key, b"more")], "m", ADA)
    assert [k for k, _ in notetree.all_notes(repo.git, store.tip())] == [key]
    assert all_lines(store) == {b"flat", b"fans", b"more"}


def test_a_flat_tree_is_split_once_it_is_large(lab: Lab) -> None:
    path = lab.repo()
    repo, store = opened(path)
    keys = [
        lab.git(path, "hash-object", "-w", "--stdin", stdin=f"o{i}").strip()
        for i in range(notetree.SPLIT + 5)
    ]
    store.append([(k, b"x" + k.encode()) for k in keys[: notetree.SPLIT]], "m", ADA)
    for k in keys[notetree.SPLIT :]:
        store.append([(k, b"x" + k.encode())], "m", ADA)
    tree = notetree.NoteTree(
        repo.git, lab.git(path, "rev-parse", f"{REF}^{{tree}}").strip(), repo.hex_len
    )
    assert all(is_tree for is_tree, _ in tree.root.values())
    assert {k for k, _ in notetree.all_notes(repo.git, store.tip())} == set(keys)


def test_a_full_note_is_continued_and_nothing_of_it_is_pruned(lab: Lab) -> None:
    path = lab.repo()
    repo, store = opened(path)
    wanted = {line(f"{i} " + "x" * 3000) for i in range(60)}
    for part in sorted(wanted):
        store.append([(repo.head(), part)], "m", ADA)
    sizes = [
        len(lab.git(path, "cat-file", "blob", blob))
        for _, blob in notetree.all_notes(repo.git, store.tip())
    ]
    assert len(sizes) >= 5 and max(sizes) < treeedit.BOUND + 4000
    lab.git(path, "gc", "-q", "--prune=now")
    lab.git(path, "notes", "--ref=mem/team", "prune")
    assert len(list(notetree.all_notes(repo.git, store.tip()))) == len(sizes)
    assert all_lines(store) == wanted
    repo.git.close()


def test_a_bulk_append_fills_continuations_in_one_commit(lab: Lab) -> None:
    path = lab.repo()
    repo, store = opened(path)
    wanted = [line(f"{i} " + "y" * 500) for i in range(400)]
    store.append([(repo.head(), w) for w in wanted], "m", ADA)
    assert lab.git(path, "rev-list", "--count", REF).strip() == "1"
    assert all_lines(store) == set(wanted)


def test_continuations_survive_a_stock_merge_and_a_prune_in_another_clone(lab: Lab) -> None:
    path = lab.repo()
    lab.git(lab.root, "clone", "-q", str(path), "other")
    other = lab.root / "other"
    for where, name in ((path, "here"), (other, "there")):
        repo, store = opened(where)
        store.append(
            [(repo.head(), line(f"{name} {i} " + "z" * 3000)) for i in range(30)], "m", ADA
        )
        repo.git.close()
    lab.git(path, "fetch", "-q", str(other), f"{REF}:refs/notes/remotes/other/team")
    lab.unite(path, "refs/notes/remotes/other/team")
    lab.git(path, "gc", "-q", "--prune=now")
    lab.git(path, "notes", "--ref=mem/team", "prune")
    _, store = opened(path)
    assert len(all_lines(store)) == 60


@pytest.mark.parametrize("how", ["remove", "prune", "edit", "blind update"])
def test_what_stock_git_takes_away_comes_back(lab: Lab, how: str) -> None:
    path = lab.repo(commits=2)
    repo, store = opened(path)
    gone, kept = line("the line that is taken"), line("kept")
    doomed = repo.commit("HEAD~1") or ""
    store.append([(repo.head(), kept)], "m", ADA)
    before = store.tip()
    if how == "prune":
        lab.git(path, "checkout", "-q", "--orphan", "side")
        lab.git(path, "commit", "-q", "-m", "side")
        doomed = lab.git(path, "rev-parse", "HEAD").strip()
    store.append([(doomed, gone)], "m", ADA)
    if how == "remove":
        lab.git(path, "notes", "--ref=mem/team", "remove", doomed)
    elif how == "edit":
        lab.git(path, "notes", "--ref=mem/team", "add", "-f", "-m", "something else", doomed)
    elif how == "blind update":
        lab.git(path, "update-ref", REF, before)
    else:
        lab.git(path, "checkout", "-q", "main")
        lab.git(path, "branch", "-q", "-D", "side")
        lab.git(path, "reflog", "expire", "--expire=now", "--all")
        repo.git.close()
        lab.git(path, "gc", "-q", "--prune=now")
        lab.git(path, "notes", "--ref=mem/team", "prune")
    assert gone.decode() not in lab.lines(path)
    _, store = opened(path)
    assert gone in all_lines(store)
    assert len(store.taken_out()) == 1
    store.append([(repo.head(), line("the next write"))], "m", ADA)
    assert gone.decode() in lab.lines(path)
    assert store.taken_out() == []


def test_a_read_since_a_tip_gives_what_is_new(lab: Lab) -> None:
    path = lab.repo()
    repo, store = opened(path)
    store.append([(repo.head(), line("old"))], "m", ADA)
    since = store.tip()
    new = line("new")
    store.append([(repo.head(), new)], "m", ADA)
    assert {content for _, content in store.lines(store.tip(), since=since)} == {new}
    assert list(store.lines(store.tip(), since=store.tip())) == []


WRITER = """
import sys; sys.path.insert(0, {package!r})
from gitmem.git import repository
from gitmem.notes import note_store
from gitmem.core import record
from gitmem.core import record_content
repo = repository.open_repo({path!r})
store = note_store.Notes(repo.git, "refs/notes/mem/team", repo.hex_len)
for i in range({count}):
    store.append([(repo.head(), record.dump(record.create(record_content.checked({{"body": "{name} %d" % i}}))))], "m", "Ada <a@b>")
    print(i, flush=True)
"""  # noqa: E501


def writer(path: pathlib.Path, name: str, count: int) -> subprocess.Popen[str]:
    package = str(pathlib.Path(note_store.__file__).parent.parent.parent)
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            WRITER.format(package=package, path=str(path), name=name, count=count),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_three_writers_at_once_lose_nothing(lab: Lab) -> None:
    path = lab.repo()
    writers = [writer(path, name, 12) for name in "abc"]
    assert [w.wait(60) for w in writers] == [0, 0, 0]
    for w in writers:
        assert w.stdout is not None
        w.stdout.close()
    assert len(lab.lines(path)) == 36
    lab.git(path, "fsck", "--strict")


def test_the_first_writer_may_come_while_another_one_looks(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git said that there is no ref; when we looked whether that is damage there was one."""
    path = lab.repo()
    (repo, store), (_, other) = opened(path), opened(path)
    commit = history.History.commit

    def late(self: history.History, name: str) -> history.Commit | None:
        found = commit(self, name)
        if name.startswith(REF) and found is None:
            monkeypatch.setattr(history.History, "commit", commit)
            other.append([(repo.head(), line("from the first writer"))], "m", ADA)
        return found

    monkeypatch.setattr(history.History, "commit", late)
    store.append([(repo.head(), line("from the second"))], "m", ADA)
    assert len(lab.lines(path)) == 2


def test_a_killed_writer_leaves_a_valid_ref_and_all_it_acknowledged(lab: Lab) -> None:
    path = lab.repo()
    acknowledged = 0
    for delay in range(6):
        process = writer(path, f"w{delay}", 1000)
        assert process.stdout is not None
        for _ in range(delay + 1):
            acknowledged += bool(process.stdout.readline())
        process.kill()
        acknowledged += len(process.stdout.read().splitlines())
        process.wait()
        process.stdout.close()
    assert len(lab.lines(path)) >= acknowledged > 5
    lab.git(path, "fsck", "--strict")
    repo, store = opened(path)
    for lock in (path / ".git" / "refs" / "notes" / "mem").glob("*.lock"):
        # git tells the user to do this; a kill between two system calls can leave one
        lock.unlink()
    store.append([(repo.head(), line("after"))], "m", ADA)


def test_a_ref_in_the_way_is_named_with_a_way_out(lab: Lab) -> None:
    path = lab.repo()
    lab.git(path, "notes", "--ref=mem", "add", "-m", "an old note", "HEAD")
    repo, store = opened(path)
    with pytest.raises(MemError, match="stands in its way") as caught:
        store.append([(repo.head(), line("x"))], "m", ADA)
    assert "mem.ref" in caught.value.hint
    assert not list((path / ".git").glob("fast_import_crash*"))


# Surroundings


def remember_and_recall(
    lab: Lab, where: pathlib.Path | str, env: dict[str, str] | None = None
) -> dict[str, object]:
    lab.mem(where, "remember", "the build needs four gigabytes of memory", env=env)
    answer = lab.run(
        where,
        sys.executable,
        "-m",
        "gitmem",
        "recall",
        "how much memory does the build need",
        "--json",
        env=env,
    )
    assert answer.returncode == 0, answer.stderr
    import json

    hit = json.loads(answer.stdout)["hits"][0]
    assert "four gigabytes" in hit["body"]
    return dict(hit)


def test_in_a_sha256_repository(lab: Lab) -> None:
    path = lab.repo("sha256", 1, "--object-format=sha256")
    hit = remember_and_recall(lab, path)
    assert len(hit["anchor"]["commit"]) == 64  # type: ignore[index]
    assert len(lab.lines(path)) == 1


def test_in_a_reftable_repository(lab: Lab) -> None:
    if lab.run(lab.root, "git", "init", "-q", "--ref-format=reftable", "probe").returncode:
        pytest.skip("this git has no reftable")
    path = lab.repo("reftable", 1, "--ref-format=reftable")
    assert remember_and_recall(lab, path)["anchor"]["branch"] == "main"  # type: ignore[index]


def test_before_the_first_commit(lab: Lab) -> None:
    path = lab.repo(commits=0)
    hit = remember_and_recall(lab, path)
    assert {k: hit["anchor"][k] for k in ("commit", "branch", "state")} == {
        "commit": None,
        "branch": None,
        "state": "unknown",
    }
    lab.git(path, "gc", "-q", "--prune=now")
    lab.git(path, "notes", "--ref=mem/team", "prune")
    assert len(lab.lines(path)) == 1


def test_with_a_detached_head(lab: Lab) -> None:
    path = lab.repo(commits=2)
    lab.git(path, "checkout", "-q", "HEAD~1")
    anchor = remember_and_recall(lab, path)["anchor"]
    assert anchor == {
        "commit": lab.git(path, "rev-parse", "HEAD").strip(),
        "branch": None,
        "state": "reachable",
    }


def test_in_a_bare_repository(lab: Lab) -> None:
    lab.repo()
    lab.git(lab.root, "clone", "-q", "--bare", "repo", "bare.git")
    remember_and_recall(lab, lab.root / "bare.git")


def test_in_a_linked_worktree_the_store_is_shared(lab: Lab) -> None:
    path = lab.repo()
    lab.git(path, "worktree", "add", "-q", "-b", "side", "../tree")
    tree = lab.root / "tree"
    assert remember_and_recall(lab, tree)["anchor"]["branch"] == "side"  # type: ignore[index]
    assert len(lab.json(path, "list", "--all")) == 1
    assert (path / ".git" / "mem").is_dir() and not (
        path / ".git" / "worktrees" / "tree" / "mem"
    ).exists()


def test_in_a_submodule(lab: Lab) -> None:
    lab.repo("inner")
    path = lab.repo("outer")
    lab.git(
        path,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        str(lab.root / "inner"),
        "sub",
    )
    remember_and_recall(lab, path / "sub")
    assert lab.json(path, "list", "--all") == []


def test_in_a_subdirectory_paths_are_those_of_the_tree(lab: Lab) -> None:
    path = lab.repo()
    (path / "a" / "b").mkdir(parents=True)
    (path / "a" / "b" / "c.txt").write_text("x")
    lab.git(path, "add", "-A")
    lab.git(path, "commit", "-q", "-m", "c")
    lab.mem(path / "a", "remember", "about c", "--path", "b/c.txt", "--path", "../f0.txt")
    assert {p["path"]: p["state"] for p in lab.json(path, "list")[0]["paths"]} == {
        "a/b/c.txt": "same",
        "f0.txt": "same",
    }
    assert (
        lab.run(
            path, sys.executable, "-m", "gitmem", "remember", "x", "--path", "../outside"
        ).returncode
        == 1
    )


def test_when_an_outer_hook_sets_git_dir(lab: Lab) -> None:
    path = lab.repo()
    remember_and_recall(
        lab,
        path,
        {"GIT_DIR": str(path / ".git"), "GIT_INDEX_FILE": str(path / ".git" / "index.lock")},
    )
    elsewhere = lab.root / "elsewhere"
    elsewhere.mkdir()
    assert lab.json(elsewhere, "list", "--all", env={"GIT_DIR": str(path / ".git")})[0][
        "body"
    ].startswith("the build")


def test_without_any_identity(lab: Lab) -> None:
    path = lab.repo()
    for name in (
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    ):
        del lab.env[name]
    lab.env["LOGNAME"] = "nobody"
    assert remember_and_recall(lab, path)["author"] == "nobody <>"


def test_a_repository_of_someone_else_is_refused_as_git_does(lab: Lab) -> None:
    path = lab.repo()
    if os.getuid() != 0:
        pytest.skip("needs root to change the owner")
    subprocess.run(["chown", "-R", "12345", str(path)], check=True)
    done = lab.run(path, sys.executable, "-m", "gitmem", "status")
    assert done.returncode == 128 and "ownership" in done.stderr and "Traceback" not in done.stderr


def test_outside_a_repository_the_exit_code_is_gits(lab: Lab) -> None:
    done = lab.run(lab.root, sys.executable, "-m", "gitmem", "list")
    assert done.returncode == 128 and len(done.stderr.splitlines()) <= 2
