"""A notes ref that is gone or cannot be read: whoever comes next puts it back, and nothing
acknowledged is lost.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import time

import hook_world
import pytest
from conftest import Lab
from lost_refs_world import (
    ALL,
    DAMAGES,
    OWN,
    OWN_UNREAD,
    PRIVATE,
    READ,
    READERS,
    TEAM,
    UNREAD,
    deleted,
    kept,
    made,
    remembered,
    shown,
    started,
    worked,
)

from gitmem import setup, worker
from gitmem.git.config import BACKUPS, backup_of
from gitmem.store import open_store


@pytest.mark.parametrize("cache", ["with the cache", "without it"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_notes_ref_that_is_gone_or_unreadable_is_back_with_the_next_command(
    lab: Lab, damage: str, cache: str
) -> None:
    repo = made(lab)
    DAMAGES[damage](lab, repo)
    if cache == "without it":
        shutil.rmtree(repo / ".git/mem")
    lab.mem(repo, "recall", "receipts", rc=(0, 1))
    assert kept(lab, repo) == ALL
    remembered(lab, repo)
    assert shown(lab, repo) >= ALL | {"written afterwards", "privately afterwards"}
    assert lab.run(repo, "git", "fsck", "--strict").returncode == 0


@pytest.mark.parametrize("damage", ["prune", "empty"])
@pytest.mark.parametrize("reader", READERS)
def test_every_way_to_the_memories_puts_a_lost_ref_back(lab: Lab, reader: str, damage: str) -> None:
    repo = made(lab)
    if reader in (
        "started",
        "prompted",
    ):  # so that the settings are kept, and files alone are looked at
        hook_world.Hooks(lab, repo).call("SessionStart", source="startup")
    DAMAGES[damage](lab, repo)
    if reader == "worked":
        shutil.rmtree(repo / ".git/mem")
        (repo / ".git/mem").mkdir()
    READERS[reader](lab, repo)
    assert kept(lab, repo) == ALL


@pytest.mark.parametrize("damage", ["prune", "empty"])
def test_a_first_session_without_a_cache_is_told_what_a_lost_ref_held(
    lab: Lab, damage: str
) -> None:
    repo = made(lab)
    shutil.rmtree(repo / ".git/mem")
    DAMAGES[damage](lab, repo)
    started(lab, repo)


def test_a_hook_that_finds_nothing_new_starts_no_git(lab: Lab) -> None:
    repo = made(lab)
    hooks = hook_world.Hooks(lab, repo)
    lab.mem(repo, "list")
    hooks.call("SessionStart", source="startup")
    first = "import subprocess\nsubprocess.Popen = None"
    assert (
        READ
        in hooks.call(
            "UserPromptSubmit",
            prompt="are invoices settled with PostgreSQL?",
            session_id="s2",
            first=first,
        )
        and hooks.failures() == 0
    )


def test_a_tombstone_is_back_before_anything_is_shown(lab: Lab) -> None:
    repo = made(lab)
    lab.mem(repo, "sync")
    id = next(m["id"] for m in lab.json(repo, "list") if m["body"] == READ)
    lab.mem(repo, "purge", id, "--force")
    deleted(lab, repo)
    shutil.rmtree(repo / ".git/mem")
    lab.git(repo, "fetch", "-q")  # the remote still has the text
    assert READ not in lab.mem(repo, "list", "--all") + lab.mem(repo, "recall", READ, rc=(0, 1))
    deleted(lab, repo)
    lab.mem(repo, "sync")
    assert READ not in lab.mem(repo, "list", "--all")
    assert READ not in lab.git(lab.root / "hub.git", "log", "-p", TEAM)


def test_a_purge_leaves_nothing_in_the_backup(lab: Lab) -> None:
    repo = made(lab)
    lab.git(repo, "config", "core.logAllRefUpdates", "always")
    lab.mem(repo, "remember", "one more, with a reflog wherever git would keep one")
    for body in (READ, OWN):
        id = next(m["id"] for m in lab.json(repo, "list") if m["body"] == body)
        lab.mem(repo, "purge", id, "--force")
    for ref in (TEAM, PRIVATE):
        assert lab.git(repo, "rev-parse", ref) == lab.git(repo, "rev-parse", backup_of(ref))
    assert not (repo / ".git/logs" / BACKUPS).exists()
    objects = lab.git(repo, "cat-file", "--batch", "--batch-all-objects", "--unordered")
    assert READ not in objects and OWN not in objects and UNREAD in objects


def test_a_purge_reaches_a_backup_that_stands_apart(lab: Lab) -> None:
    """A forced fetch takes the ref away from it; then a tombstone comes from elsewhere, and the
    ref's own reflog is gone.
    """
    repo = made(lab)
    lab.mem(repo, "sync")
    lab.git(lab.root, "clone", "-q", "hub.git", "other")
    other = lab.root / "other"
    lab.mem(other, "sync")
    id = next(m["id"] for m in lab.json(other, "list") if m["body"] == READ)
    lab.mem(other, "purge", id, "--force")
    lab.mem(other, "sync")
    lab.git(repo, "fetch", "-q", "origin", f"+{TEAM}:{TEAM}")
    lab.git(repo, "reflog", "expire", "--expire=all", TEAM)
    lab.mem(repo, "sync")
    assert READ not in lab.git(repo, "cat-file", "--batch", "--batch-all-objects", "--unordered")


def test_what_a_forced_fetch_took_away_is_back_in_a_repository_without_reflogs(lab: Lab) -> None:
    repo = made(lab)
    lab.git(repo, "config", "core.logAllRefUpdates", "false")
    empty = lab.git(
        repo,
        "commit-tree",
        "-m",
        "somebody's",
        lab.git(repo, "hash-object", "-t", "tree", "-w", "/dev/null").strip(),
    ).strip()
    shutil.rmtree(repo / ".git/logs/refs/notes")
    shutil.rmtree(repo / ".git/mem")
    lab.git(repo, "update-ref", TEAM, empty)
    assert shown(lab, repo) == ALL
    lab.mem(repo, "remember", "written afterwards")
    assert kept(lab, repo) == ALL


def test_in_a_bare_repository(lab: Lab) -> None:
    lab.git(lab.root, "clone", "-q", "--bare", str(lab.repo("seed")), "bare.git")
    bare = lab.root / "bare.git"
    lab.mem(bare, "remember", READ)
    lab.mem(bare, "remember", OWN, "--private")
    deleted(lab, bare)
    shutil.rmtree(bare / "mem")
    assert shown(lab, bare) == {READ, OWN}


def test_in_a_linked_worktree_and_under_another_name(lab: Lab) -> None:
    repo = lab.repo(commits=2)
    lab.git(repo, "config", "mem.ref", "team/memory")
    lab.git(repo, "worktree", "add", "-q", str(lab.root / "side"))
    lab.mem(lab.root / "side", "remember", READ)
    lab.git(lab.root / "side", "update-ref", "-d", "refs/notes/team/memory/team")
    assert shown(lab, repo) == {READ}


def test_a_ref_that_stock_git_moved_is_backed_up_by_the_worker(lab: Lab) -> None:
    repo = made(lab)
    lab.git(repo, "notes", "--ref=mem/team", "append", "-m", '{"a line of": "somebody"}')
    worker.run(str(repo / ".git"), os.environ, linger=0.0)
    deleted(lab, repo)
    shutil.rmtree(repo / ".git/mem")
    assert shown(lab, repo) == ALL
    assert '{"a line of": "somebody"}' in lab.lines(repo)


def test_the_cache_brings_back_a_ref_of_a_git_mem_that_kept_no_backup(lab: Lab) -> None:
    repo = made(lab)
    lab.mem(repo, "list")
    for ref in (backup_of(TEAM), backup_of(PRIVATE)):
        lab.git(repo, "update-ref", "-d", ref)
    deleted(lab, repo)
    assert shown(lab, repo) == ALL
    shutil.rmtree(repo / ".git/mem")
    assert shown(lab, repo) == ALL


def test_a_disk_that_takes_nothing_is_read_all_the_same(lab: Lab) -> None:
    repo = made(lab)
    deleted(lab, repo)
    shutil.rmtree(repo / ".git/mem")
    if os.geteuid() == 0:
        lock = (
            repo / ".git" / f"{TEAM}.lock"
        )  # root may write everywhere: a lock of somebody's says no
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
        (repo / ".git" / f"{PRIVATE}.lock").touch()
    else:
        (repo / ".git/refs").chmod(0o500)
    assert shown(lab, repo) == ALL


def test_uninstall_takes_the_backups_along_and_leaves_the_memories(lab: Lab) -> None:
    repo = made(lab)
    deleted(lab, repo)
    lab.mem(repo, "uninstall")
    assert kept(lab, repo) == ALL
    assert lab.git(repo, "for-each-ref", "refs/git-mem") == ""
    deleted(lab, repo)
    assert shown(lab, repo) == set(), "who removes everything after that has removed it"


def test_an_emptied_backup_stops_nobody(lab: Lab) -> None:
    for content in (b"", b"\0" * 41, b"garbage\n"):
        repo = made(lab)
        for ref in (TEAM, PRIVATE):
            (repo / ".git" / backup_of(ref)).write_bytes(content)
        remembered(lab, repo)
        assert shown(lab, repo) >= ALL
        assert lab.git(repo, "rev-parse", TEAM) == lab.git(repo, "rev-parse", backup_of(TEAM))
        shutil.rmtree(repo)
        shutil.rmtree(lab.root / "hub.git")


@pytest.mark.parametrize("content", [b"", b"\0" * 500])
def test_an_emptied_reflog_stops_nobody(lab: Lab, content: bytes) -> None:
    repo = made(lab)
    for ref in (TEAM, PRIVATE):
        (repo / ".git/logs" / ref).write_bytes(content)
    remembered(lab, repo)
    assert shown(lab, repo) >= ALL
    for ref in (TEAM, PRIVATE):
        (repo / ".git/logs" / ref).write_bytes(content)
    DAMAGES["empty"](lab, repo)
    assert shown(lab, repo) >= ALL


def test_ref_and_backup_emptied_together_come_back_by_the_reflog(lab: Lab) -> None:
    repo = made(lab)
    shutil.rmtree(repo / ".git/mem")
    for ref in (TEAM, PRIVATE):
        (repo / ".git" / ref).write_bytes(b"")
        (repo / ".git" / backup_of(ref)).write_bytes(b"")
    started(lab, repo)
    assert shown(lab, repo) == ALL and kept(lab, repo) == ALL
    remembered(lab, repo)


def newest_object(lab: Lab, repo: pathlib.Path, what: str) -> pathlib.Path:
    id = lab.git(repo, "rev-parse", f"{TEAM}{what}").strip()
    return repo / ".git/objects" / id[:2] / id[2:]


@pytest.mark.parametrize("purged", [False, True])
@pytest.mark.parametrize("names", [[TEAM], [TEAM, backup_of(TEAM)]])
def test_an_older_packed_value_does_not_take_the_place_of_an_emptied_file(
    lab: Lab, names: list[str], purged: bool
) -> None:
    """`packed-refs` keeps what the ref held when it was packed; a purge deletes that commit."""
    repo = made(lab)
    gone = lab.json(repo, "remember", "a word that goes")["id"]
    lab.git(repo, "pack-refs", "--all")
    if purged:
        lab.mem(repo, "purge", "--force", gone)
    lab.mem(repo, "remember", "the newest")
    tip = lab.git(repo, "rev-parse", TEAM)
    for name in names:
        (repo / ".git" / name).write_bytes(b"")
    assert "the newest" in lab.mem(repo, "list")
    assert lab.git(repo, "rev-parse", TEAM) == tip
    lab.git(repo, "gc", "-q")


@pytest.mark.parametrize("what", ["", "^{tree}"])
@pytest.mark.parametrize("cache", ["with the cache", "without it"])
def test_a_power_cut_that_took_the_newest_objects_leaves_what_was_before_and_says_so(
    lab: Lab, what: str, cache: str
) -> None:
    repo = made(lab)
    newest_object(lab, repo, what).unlink()
    if cache == "without it":
        shutil.rmtree(repo / ".git/mem")
    done = lab.run(repo, "git-mem", "list", "--all", "--json")
    assert READ in done.stdout and OWN_UNREAD in done.stdout, done.stderr
    if cache == "without it" or not what:  # else the cache has all, and nobody has looked
        assert TEAM in done.stderr
    assert (UNREAD in done.stdout) == (cache == "with the cache")
    remembered(lab, repo)
    assert {READ, OWN, OWN_UNREAD} <= kept(lab, repo)
    lab.git(repo, "rev-list", "--objects", TEAM)


@pytest.mark.parametrize("form", ["symbolic", "upper case", "words behind it"])
def test_a_ref_that_only_git_can_read_is_asked_of_git(lab: Lab, form: str) -> None:
    """In a clone that keeps no backup, no reflog and no cache of it."""
    repo = made(lab)
    tip = lab.git(repo, "rev-parse", TEAM).strip()
    ref = repo / ".git" / TEAM
    lab.git(repo, "update-ref", "-d", backup_of(TEAM))
    (repo / ".git" / "logs" / TEAM).unlink()
    shutil.rmtree(repo / ".git/mem")
    if form == "symbolic":
        lab.git(repo, "update-ref", "refs/worktree/notes", tip)
        ref.write_text("ref: refs/worktree/notes\n")
    else:
        ref.write_text(tip.upper() + "\n" if form == "upper case" else f"{tip} more\n")
    assert lab.git(repo, "rev-parse", TEAM).strip() == tip
    assert {READ, UNREAD} <= shown(lab, repo)


def test_a_torn_tip_is_told_and_what_it_held_comes_back_with_it(lab: Lab) -> None:
    repo = made(lab)
    tip = newest_object(lab, repo, "")
    whole = tip.read_bytes()
    tip.chmod(0o644)
    tip.write_bytes(whole[:40])
    shutil.rmtree(repo / ".git/mem")
    done = lab.run(repo, "git-mem", "list", "--all", "--json")
    assert READ in done.stdout and TEAM in done.stderr
    tip.write_bytes(whole)
    remembered(lab, repo)
    assert {READ, UNREAD, OWN, OWN_UNREAD} <= kept(lab, repo)


def test_an_emptied_ref_whose_newest_objects_are_gone_goes_back_further(lab: Lab) -> None:
    repo = made(lab)
    newest_object(lab, repo, "").unlink()
    DAMAGES["empty"](lab, repo)
    shutil.rmtree(repo / ".git/mem")
    assert shown(lab, repo) == {READ, OWN, OWN_UNREAD}
    remembered(lab, repo)


@pytest.mark.parametrize("name", ["refs/heads/side", "refs/heads/main", "refs/tags/v1"])
@pytest.mark.parametrize("content", [b"", b"\0" * 41])
def test_a_broken_ref_of_the_users_ends_nothing_of_ours(
    lab: Lab, name: str, content: bytes
) -> None:
    repo = made(lab)
    (repo / ".git" / name).write_bytes(content)
    remembered(lab, repo)
    assert shown(lab, repo) >= ALL
    lab.mem(repo, "doctor", rc=(0, 1))
    lab.mem(repo, "sync")
    hook_world.Hooks(lab, repo).call("SessionStart", source="startup")
    worked(lab, repo)


@pytest.mark.parametrize("content", [b"", b"\0" * 21])
def test_an_empty_head_is_refused_in_words_and_hooks_stay_silent(lab: Lab, content: bytes) -> None:
    repo = made(lab)
    (repo / ".git/HEAD").write_bytes(content)
    done = lab.run(repo, "git-mem", "list")
    assert done.returncode == 128 and "HEAD" in done.stderr and "bug:" not in done.stderr, (
        done.stderr
    )
    assert hook_world.Hooks(lab, repo).call("SessionStart", source="startup") == ""


@pytest.mark.parametrize("content", [b"", b"\0" * 64])
def test_a_lock_of_the_packed_refs_that_a_power_cut_left_stops_no_command(
    lab: Lab, content: bytes
) -> None:
    repo = made(lab)
    (repo / ".git/packed-refs.lock").write_bytes(content)
    os.utime(repo / ".git/packed-refs.lock", (time.time() - 60, time.time() - 60))
    DAMAGES["empty"](lab, repo)
    remembered(lab, repo)
    assert shown(lab, repo) >= ALL
    assert "team: 3 records" in lab.mem(repo, "doctor", rc=(0, 1))


@pytest.mark.parametrize("content", [b"", b"\0" * 4096])
def test_emptied_files_of_the_cache_cost_speed_alone(lab: Lab, content: bytes) -> None:
    repo = made(lab)
    lab.mem(repo, "list")
    hook_world.Hooks(lab, repo).call("SessionStart", source="startup")
    for path in (repo / ".git/mem").rglob("*"):
        if path.is_file():
            path.write_bytes(content)
    started(lab, repo)
    assert shown(lab, repo) == ALL
    remembered(lab, repo)
    lab.mem(repo, "sync")


@pytest.mark.parametrize(
    "spec, prune, verb",
    [
        ("+refs/notes/*:refs/notes/*", "true", "overwrites and deletes"),
        ("refs/notes/*:refs/notes/*", "true", "deletes"),
        ("+refs/notes/*:refs/notes/*", "false", "overwrites"),
        ("+refs/*:refs/*", "false", "overwrites"),
    ],
)
def test_a_refspec_that_reaches_the_notes_is_named_by_init_and_doctor_and_can_be_mended(
    lab: Lab, spec: str, prune: str, verb: str
) -> None:
    repo = made(lab)
    lab.git(repo, "config", "--add", "remote.origin.fetch", spec)
    lab.git(repo, "config", "fetch.prune", prune)
    for command in ("init", "doctor"):
        done = lab.run(repo, "git-mem", command)
        assert f"`git fetch origin` {verb} {TEAM} and {PRIVATE}, by '{spec}'" in done.stdout, (
            done.stdout
        )
    lab.git(
        repo, "config", "--add", "remote.origin.fetch", "^refs/notes/mem/*"
    )  # what the hint says
    assert "git fetch origin" not in lab.mem(repo, "doctor", rc=(0, 1))
    lab.git(lab.root / "hub.git", "update-ref", PRIVATE, "HEAD")
    if spec != "+refs/*:refs/*":  # git refuses that one beside a branch that is checked out
        lab.git(repo, "fetch", "-q")
    assert kept(lab, repo) == ALL
    lab.mem(repo, "sync")


@pytest.mark.parametrize(
    "spec",
    [
        "+refs/heads/*:refs/remotes/origin/*",
        "refs/notes/*:refs/notes/*",
        "+refs/notes/*:refs/notes/remotes/origin/*",
        "+refs/notes/commits:refs/notes/commits",
        "^refs/notes/mem/*",
    ],
)
def test_a_refspec_that_does_no_harm_is_not_named(lab: Lab, spec: str) -> None:
    repo = made(lab)
    lab.git(repo, "config", "--add", "remote.origin.fetch", spec)
    assert setup.threats(open_store(os.environ, str(repo))) == []


def test_a_ref_that_is_gone_with_its_commits_is_no_ok_while_the_cache_has_memories(
    lab: Lab,
) -> None:
    repo = made(lab)
    lab.mem(repo, "list")
    for ref in (TEAM, backup_of(TEAM)):
        lab.git(repo, "update-ref", "-d", ref)
    lab.git(repo, "reflog", "expire", "--expire=all", "--all")
    lab.git(repo, "prune", "--expire=now")
    assert f"team: '{TEAM}' is gone" in lab.mem(repo, "doctor", rc=(1,))
    assert f"'{TEAM}' is gone, the cache still has 2" in lab.mem(repo, "status")
    assert READ in lab.mem(repo, "export")


def test_nothing_is_lost_while_somebody_deletes_the_ref_again_and_again(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "the first")
    loop = f"while :; do git update-ref -d {TEAM} 2>/dev/null; done"
    deleter = subprocess.Popen(["sh", "-c", loop], cwd=repo, env=lab.env, start_new_session=True)
    try:
        program = (
            "import sys\nfrom gitmem.store import open_store\nfrom gitmem.memory import"
            " remember\nimport os\nfor n in range(8):\n    s = open_store(os.environ)\n    r, ="
            " remember.remember(s, [{'body': f'{sys.argv[1]} {n}'}])\n    assert r.status =="
            " 'stored', r.reason\n    s.close()\n"
        )
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", program, name], cwd=repo, env=lab.env, stderr=subprocess.PIPE
            )
            for name in ("ada", "bob")
        ]
        for one in writers:
            assert one.wait(240) == 0, one.stderr and one.stderr.read().decode()
    finally:
        os.killpg(deleter.pid, 9)
        deleter.wait()
        for one in writers:
            one.stderr.close() if one.stderr else None
    (repo / ".git" / f"{TEAM}.lock").unlink(missing_ok=True)
    (repo / ".git/packed-refs.lock").unlink(missing_ok=True)
    shutil.rmtree(repo / ".git/mem")
    assert shown(lab, repo) == {
        "the first",
        *(f"{name} {n}" for name in ("ada", "bob") for n in range(8)),
    }
    assert len(lab.lines(repo)) == 17
