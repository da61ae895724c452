"""`.git/mem`: what others planted there is never written through, waited for or left open to
them."""

from __future__ import annotations

import os
import pathlib
import shutil
import stat
import sys
import time

import pytest
from conftest import Lab, until
from hook_world import Hooks

from gitmem.git import memfile
from gitmem.hooks import spool

VICTIM = b"what its owner wrote\n" * 50
WRITES = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def busy(hooks: Hooks) -> None:
    """Everything that leaves a file in `mem/`: commands, hooks of agents and of git, capture, a
    purge, the worker.
    """
    lab, repo = hooks.lab, hooks.repo
    lab.mem(repo, "remember", f"invoices are kept in cents, {time.time_ns()}", "--path", "f0.txt")
    lab.mem(repo, "recall", "invoices in cents")
    for source in ("startup", "compact"):
        hooks.run(
            "SessionStart",
            {
                "session_id": "s1",
                "cwd": str(repo),
                "hook_event_name": "SessionStart",
                "source": source,
            },
        )
    hooks.call(
        "UserPromptSubmit",
        prompt="Decision: we keep all timestamps as UTC because clients live in many zones",
    )
    hooks.run(
        "PostToolUse",
        {
            "session_id": "s1",
            "cwd": str(repo),
            "hook_event_name": "PostToolUse",
            "tool_name": "Edit",
            "tool_input": {"file_path": str(repo / "f0.txt")},
            "tool_response": {},
        },
    )
    hooks.run("Stop", {"session_id": "s1", "cwd": str(repo), "hook_event_name": "Stop"})
    hooks.run("NoSuchEvent", stdin="no json")
    lab.git(
        repo,
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "Use cents, not floats\n\nDecision: amounts are integers, since floats lose cents",
    )
    lab.mem(repo, "capture", "--now", rc=(0, 1))
    id = lab.json(repo, "remember", f"a text that goes again {time.time_ns()}")["id"]
    lab.mem(repo, "purge", id, "--force")
    hooks.run(
        "SessionEnd",
        {"session_id": "s1", "cwd": str(repo), "hook_event_name": "SessionEnd", "reason": "clear"},
    )
    settle(repo)


def settle(repo: pathlib.Path) -> None:
    mem = memfile.directory(str(repo / ".git"))
    until(lambda: spool.asleep(mem) and not spool.waiting(mem))


@pytest.fixture
def hooks(lab: Lab) -> Hooks:
    def make(path: pathlib.Path) -> None:
        lab._made(path, 1)
        lab.mem(path, "init")
        lab.mem(path, "install", "git")
        lab.mem(path, "config", "capture", "all")
        lab.mem(path, "config", "promptContext", "true")
        busy(Hooks(lab, path))

    return Hooks(lab, lab.copied("repo", "with all that hooks leave", make))


def names(mem: pathlib.Path) -> list[str]:
    found = [
        str(p.relative_to(mem)) for p in mem.rglob("*") if p.is_file() and ".new" not in p.name
    ]
    known = [
        "spool",
        "spool.old",
        "spool.since",
        "spool.taken",
        "spool.again",
        "spool.later",
        "worker.pid",
        "worker.start",
        "worker.lock",
        "worker.log",
        "hooks.log",
        "checked",
        "captured",
        "model.ready",
        "recent-mem-team",
        "recent-mem-private",
        "automemory.stamp",
    ]
    index = next(name for name in found if name.startswith("index-") and name.endswith(".db"))
    return sorted({*found, *known, *(index + end for end in ("-wal", "-shm", ".lock"))})


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "second name"])
def test_nothing_planted_in_the_directory_is_written_to_or_waited_for(
    hooks: Hooks, kind: str
) -> None:
    mem, victims = hooks.repo / ".git" / "mem", hooks.lab.root / "victims"
    victims.mkdir()
    planted = names(mem)
    assert {"hooks.log", "recent-mem-team"} <= set(planted) and any(
        name.startswith("sessions/") for name in planted
    )
    for i, name in enumerate(planted):
        path, victim = mem / name, victims / str(i)
        path.unlink(missing_ok=True)
        if kind == "pipe":
            os.mkfifo(path)
            continue
        if kind != "dangling link":
            victim.write_bytes(VICTIM)
        if kind == "second name":
            os.link(victim, path)
        else:
            path.symlink_to(victim)
    busy(hooks)
    assert [p.read_bytes() for p in victims.iterdir()] == [VICTIM] * (
        0 if kind in ("pipe", "dangling link") else len(planted)
    )
    left = [
        str(p.relative_to(mem))
        for p in mem.rglob("*")
        if p.is_symlink() or p.is_fifo() or (p.is_file() and p.stat().st_nlink > 1)
    ]
    assert left == []
    assert hooks.lab.json(hooks.repo, "recall", "invoices in cents")["hits"]


def test_a_planted_link_is_not_written_through_before_any_worker_ran(lab: Lab) -> None:
    """The writer itself, not only the worker that tidies."""
    repo = lab.repo()
    lab.mem(repo, "remember", "invoices are kept in cents")
    victim = lab.root / "victim"
    victim.write_bytes(VICTIM)
    path = repo / ".git" / "mem" / "recent-mem-team"
    path.unlink()
    path.symlink_to(victim)
    lab.mem(repo, "remember", "amounts are integers")
    assert (
        victim.read_bytes() == VICTIM and not path.is_symlink() and b"amounts" in path.read_bytes()
    )


@pytest.mark.parametrize("where", ["spool", "worker.pid"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_the_shell_hook_writes_through_no_link_and_waits_for_no_pipe(
    lab: Lab, where: str, kind: str
) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    lab.mem(repo, "install", "git")
    script = repo / ".git/git-mem-hooks/event.sh"
    script.write_text(script.read_text().replace(sys.executable, "/bin/true"))
    victim = lab.root / "victim"
    victim.write_bytes(VICTIM)
    path = repo / ".git" / "mem" / where
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(victim)
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "x")  # `Lab.run` ends one that waits
    assert victim.read_bytes() == VICTIM and stat.S_ISREG(path.lstat().st_mode)
    assert b"post-commit" in (repo / ".git" / "mem" / "spool").read_bytes()


@pytest.mark.parametrize("where", ["mem", "mem/sessions"])
def test_a_link_in_the_place_of_a_directory_is_not_entered(hooks: Hooks, where: str) -> None:
    path, elsewhere = hooks.repo / ".git" / where, hooks.lab.root / "elsewhere"
    shutil.rmtree(path)
    elsewhere.mkdir()
    for name in ("a" * 32, "index-1.db", "spool"):
        (elsewhere / name).write_bytes(VICTIM)
        os.utime(elsewhere / name, (0, 0))  # as old as what is evicted
    path.symlink_to(elsewhere)
    mode = elsewhere.stat().st_mode
    busy(hooks)
    assert {p.name: p.read_bytes() for p in elsewhere.iterdir()} == dict.fromkeys(
        ("a" * 32, "index-1.db", "spool"), VICTIM
    )
    assert elsewhere.stat().st_mode == mode
    assert hooks.lab.json(hooks.repo, "recall", "invoices in cents")["hits"]
    if where == "mem":
        assert (
            path.is_symlink()
            and f"'{path}' is a link: answers come without a cache"
            in hooks.lab.mem(hooks.repo, "doctor")
        )
        done = hooks.lab.run(hooks.repo, sys.executable, "-m", "gitmem", "install", "git")
        assert done.returncode == 1 and done.stderr.startswith(f"error: '{path}' is a link\nhint: ")
    else:
        assert path.is_dir() and not path.is_symlink()


def test_what_is_open_to_others_is_named_and_the_next_writer_and_worker_close_it(
    hooks: Hooks,
) -> None:
    mem = hooks.repo / ".git" / "mem"

    def modes() -> dict[str, int]:
        return {
            str(p.relative_to(mem)): stat.S_IMODE(p.lstat().st_mode)
            for p in [mem, *mem.rglob("*")]
            if stat.S_IMODE(p.lstat().st_mode) & 0o077
        }

    assert modes() == {} and "has mode" not in hooks.lab.mem(hooks.repo, "doctor")
    for p in [mem, *mem.rglob("*")]:
        p.chmod(0o777 if p.is_dir() else 0o666)
    hooks.lab.mem(hooks.repo, "remember", "a write closes the directory and what it writes")
    assert stat.S_IMODE(mem.stat().st_mode) == 0o700 and "recent-mem-team" not in modes()
    hooks.lab.mem(hooks.repo, "capture", "--now")
    assert modes() == {} and "has mode" not in hooks.lab.mem(hooks.repo, "doctor")
    for p in (mem, mem / "sessions"):
        p.chmod(0o777)
    assert f"'{mem}' has mode 0777, and 1 more like it" in hooks.lab.mem(hooks.repo, "doctor")
    assert (
        f"mended: '{mem}' is ours alone" in hooks.lab.mem(hooks.repo, "doctor", "--repair")
        and modes() == {}
    )


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_all_files_are_made_private(lab: Lab, umask: int) -> None:
    repo = lab.repo()
    before = os.umask(umask)
    try:
        lab.mem(repo, "init")
        lab.mem(repo, "remember", "invoices are kept in cents")
        lab.mem(repo, "recall", "invoices")
        lab.mem(repo, "capture", "--now")
    finally:
        os.umask(before)
    assert (
        list(memfile.odd(str(repo / ".git"))) == []
        and len(list((repo / ".git" / "mem").iterdir())) > 5
    )


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0,
    reason="only root can give a file to another user",
)
def test_a_file_of_another_user_is_made_anew_and_a_directory_of_one_is_not_used(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "invoices are kept in cents")
    mem = repo / ".git" / "mem"
    (mem / "spool").write_bytes(VICTIM)
    os.chown(mem / "spool", 12345, 12345)
    fd = memfile.opened(str(mem / "spool"), WRITES)
    assert os.fstat(fd).st_uid == os.geteuid()
    os.close(fd)
    os.chown(mem, 12345, 12345)
    assert memfile.directory(str(repo / ".git")) == memfile.NOWHERE
    assert lab.json(repo, "recall", "invoices")["hits"]
    assert f"'{mem}' belongs to another user" in lab.mem(repo, "doctor")
    os.chown(repo / ".git", 12345, 12345)  # root in a container, in the clone of a user
    assert memfile.directory(str(repo / ".git")) == str(mem)


def test_a_file_with_a_second_name_keeps_what_waits_in_it(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    mem, copy = repo / ".git" / "mem", lab.root / "copy"
    for way in ("append", "mend"):
        (mem / "spool").unlink(missing_ok=True)
        copy.unlink(missing_ok=True)
        spool.append(str(mem), b'{"event":"first"}')
        os.link(mem / "spool", copy)
        before = copy.read_bytes()
        if way == "append":
            spool.append(str(mem), b'{"event":"second"}')
            assert b"second" in (mem / "spool").read_bytes()
        else:
            memfile.mend(str(repo / ".git"))
        assert b"first" in (mem / "spool").read_bytes() and copy.read_bytes() == before
        assert (mem / "spool").stat().st_nlink == 1
        assert stat.S_IMODE((mem / "spool").stat().st_mode) == 0o600
