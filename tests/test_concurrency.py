"""Many at once: writers in every kind of place, stock git working on the same notes beside them, wrong clocks, locks that stay.

What was acknowledged is there afterwards, and no writer waits for ever. Races are random; what is claimed holds for every order.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from conftest import Lab
from faults.harness import ALL, MEM, Bench, Unavailable, build
from notes_world import ADA, REF, opened

from gitmem.core import record
from gitmem.core.errors import GitFailed, MemError
from gitmem.git import reflock
from gitmem.truth import notes

EACH = 8 if ALL else 3  # memories a writer writes


def texts(lab: Lab, repo: pathlib.Path) -> set[str]:
    return {m["body"] for m in lab.json(repo, "list", "--all", rc=(0, 1))}


def valid(lab: Lab, repo: pathlib.Path, acknowledged: set[str]) -> None:
    """All is there, in the cache and without it, and by a look at the whole history."""
    assert acknowledged <= texts(lab, repo)
    shutil.rmtree(repo / ".git" / "mem")
    assert acknowledged <= texts(lab, repo)
    lab.git(repo, "fsck", "--strict", "--no-dangling")


class Crowd:
    """Writers and bystanders beside each other, in one repository."""

    def __init__(self, lab: Lab, repo: pathlib.Path) -> None:
        self.lab = lab
        self.repo = repo
        self.acknowledged: set[str] = set()
        self.wrong: list[str] = []
        self.rounds: dict[str, int] = {}
        self._done = threading.Event()
        # Dates of today: a reflog entry of long ago would be expired by `git gc`.
        self.env = {k: v for k, v in lab.env.items() if not k.endswith("_DATE")}

    def run(self, cwd: pathlib.Path, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(argv, cwd=cwd, env=self.env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)

    def writer(self, name: str, cwd: pathlib.Path, *before: str) -> Callable[[], None]:
        """Remembers texts in a place; `before` the command stands what takes it there."""
        def work() -> None:
            for i in range(EACH):
                text = f"invoice {i} by {name}"
                done = self.run(cwd, *before, *MEM, "remember", text)
                if done.returncode == 0 and "remembered" in done.stdout:
                    self.acknowledged.add(text)
                else:
                    self.wrong.append(f"{name}: {done.returncode} {done.stderr}{done.stdout}")
        return work

    def bystander(self, name: str, *argv: str, pause: float = 0.03) -> Callable[[], None]:
        """Stock git, again and again; it may lose its own races."""
        def work() -> None:
            while not self._done.wait(pause):
                self.run(self.repo, "git", *argv)
                self.rounds[name] = self.rounds.get(name, 0) + 1
        return work

    def go(self, writers: list[Callable[[], None]], bystanders: list[Callable[[], None]]) -> None:
        beside = [threading.Thread(target=b) for b in bystanders]
        working = [threading.Thread(target=w) for w in writers]
        for t in [*beside, *working]:
            t.start()
        for t in working:
            t.join()
        self._done.set()
        for t in beside:
            t.join()
        assert not self.wrong, self.wrong


def test_writers_in_worktrees_links_and_containers_lose_nothing(lab: Lab) -> None:
    """One repository under four paths and, where the kernel permits, in two containers with a host name and process ids of their own."""
    repo = lab.repo()
    lab.git(repo, "worktree", "add", "-q", "-b", "side", "../tree")
    (lab.root / "link").symlink_to(repo)
    (repo / "deep" / "er").mkdir(parents=True)
    crowd = Crowd(lab, repo)
    places = {"main": repo, "worktree": lab.root / "tree", "link": lab.root / "link", "directory": repo / "deep" / "er"}
    writers = [crowd.writer(name, path) for name, path in places.items()]
    for name in ("one", "two"):
        inside = lab.root / f"container-{name}"
        inside.mkdir()
        box = ["unshare", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "sh", "-c",
               f'hostname {name} && mount --bind "{repo}" "{inside}" && cd "{inside}" && exec "$@"', "sh"]
        if crowd.run(lab.root, *box, "true").returncode == 0:
            writers.append(crowd.writer(f"container {name}", lab.root, *box))
    crowd.go(writers, [])
    assert len(crowd.acknowledged) == len(writers) * EACH
    valid(lab, repo, crowd.acknowledged)


def test_writers_beside_stock_git_lose_nothing(lab: Lab) -> None:
    """amend with rewriteRef, notes append, remove and prune, pack-refs, gc and fetch, all in loops of their own."""
    repo = lab.repo(commits=3)
    lab.git(lab.root, "clone", "-q", "--bare", str(repo), "hub.git")
    lab.git(repo, "remote", "add", "origin", str(lab.root / "hub.git"))
    lab.git(repo, "config", "remote.origin.fetch", "+refs/notes/mem/team*:refs/notes/remotes/origin/mem/team*")
    lab.git(repo, "config", "notes.rewriteRef", "refs/notes/mem/*")
    lab.git(repo, "config", "gc.auto", "0")
    lab.mem(repo, "remember", "the first invoice", "--commit", "HEAD~1")
    lab.git(repo, "push", "-q", "origin", REF)
    crowd = Crowd(lab, repo)
    crowd.acknowledged.add("the first invoice")
    by_hand = json.dumps({"v": 1, "op": "create", "id": "ab" * 16, "at": "2026-01-01T00:00:00Z", "body": "written by hand"})
    crowd.go([crowd.writer("a", repo), crowd.writer("b", repo)], [
        crowd.bystander("amend", "commit", "-q", "--amend", "--allow-empty", "-m", "again"),
        crowd.bystander("append", "notes", "--ref=mem/team", "append", "-m", by_hand, "HEAD~2"),
        crowd.bystander("remove", "notes", "--ref=mem/team", "remove", "HEAD~1"),
        crowd.bystander("prune", "notes", "--ref=mem/team", "prune"),
        crowd.bystander("pack-refs", "pack-refs", "--all"),
        crowd.bystander("gc", "gc", "-q"),
        crowd.bystander("fetch", "fetch", "-q", "origin"),
    ])
    assert min(crowd.rounds[name] for name in ("amend", "append", "remove", "prune", "pack-refs", "gc", "fetch")) > 0
    valid(lab, repo, crowd.acknowledged)
    assert "written by hand" in texts(lab, repo)


def test_amends_without_a_pause_starve_no_writer(lab: Lab) -> None:
    """Each amend copies the notes and moves the ref without looking; a writer still gets through in its patience."""
    repo = lab.repo()
    lab.git(repo, "config", "notes.rewriteRef", "refs/notes/mem/*")
    lab.mem(repo, "remember", "the first invoice")
    crowd = Crowd(lab, repo)
    crowd.acknowledged.add("the first invoice")
    crowd.go([crowd.writer("a", repo)], [crowd.bystander("amend", "commit", "-q", "--amend", "--allow-empty", "-m", "again", pause=0)])
    assert crowd.rounds["amend"] > EACH
    valid(lab, repo, crowd.acknowledged)


def test_a_remember_during_a_gc_that_prunes_everything_afterwards(lab: Lab) -> None:
    """`git gc --prune=now` between writes takes nothing that the ref or its reflog reaches, not even what a blind update left behind."""
    repo = lab.repo()
    lab.git(repo, "config", "gc.reflogExpire", "never")
    lab.git(repo, "config", "gc.reflogExpireUnreachable", "never")  # the lab's clock stands in the past
    acknowledged: set[str] = set()
    for i in range(3):
        before = lab.run(repo, "git", "rev-parse", "-q", "--verify", REF).stdout.strip()
        lab.mem(repo, "remember", f"invoice {i}")
        acknowledged.add(f"invoice {i}")
        if i == 1:
            lab.git(repo, "update-ref", REF, before)
        lab.run(repo, "git", "gc", "-q", "--prune=now")
        lab.git(repo, "pack-refs", "--all", "--prune")
    valid(lab, repo, acknowledged)


# Clocks


@pytest.fixture
def bench(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    try:
        return Bench(lab, build(tmp_path_factory.mktemp("shim")))
    except Unavailable as e:
        pytest.skip(f"no clock can be changed here: {e}")


YEAR = 365 * 24 * 3600


def test_a_wrong_clock_hides_nothing(bench: Bench) -> None:
    """Machines ten years ahead and ten behind write, edit and forget one after the other; the later act holds, whatever its time says."""
    lab, root = bench.lab, bench.copy()
    repo = root / "repo"

    def at(years: int, *argv: str) -> str:
        run = bench.run([*MEM, *argv], clock=years * YEAR, root=root)
        assert run.status == 0, run.error
        return run.answer

    made = json.loads(at(+10, "remember", "the invoice is sent on Monday", "--json"))["id"]
    other = json.loads(at(-10, "remember", "the invoice is sent from Bern", "--json"))["id"]
    at(-10, "edit", made, "-m", "the invoice is sent on Tuesday")
    at(+10, "edit", other, "-m", "the invoice is sent from Rome")
    at(-20, "edit", other, "-m", "the invoice is sent from Oslo")
    gone = json.loads(at(+30, "remember", "the invoice is sent by post", "--json"))["id"]
    at(-30, "forget", gone)
    times = {r.data["at"][:4] for line in lab.lines(repo) if (r := record.parse(line.encode()))}
    assert len(times) > 4  # the clocks were indeed wrong
    for years in (-10, 0, +10):
        for keep in (True, False):
            if not keep:
                shutil.rmtree(repo / ".git" / "mem")
            found = json.loads(at(years, "recall", "when and how is the invoice sent", "--json"))
            assert not found["degraded"] and {h["body"] for h in found["hits"]} == {"the invoice is sent on Tuesday", "the invoice is sent from Oslo"}
    assert texts(lab, repo) == {"the invoice is sent on Tuesday", "the invoice is sent from Oslo"}


def test_what_changes_while_the_clock_stands_or_goes_back_is_seen(bench: Bench) -> None:
    """Freshness compares tips, never times: a cache made in the future takes in what is written in the past."""
    root = bench.copy()
    for i, years in enumerate((+5, -5, 0, -5)):
        assert bench.run([*MEM, "remember", f"invoice number {i}"], clock=years * YEAR, root=root).status == 0
        listed = bench.run([*MEM, "list", "--json"], clock=-years * YEAR, root=root)
        assert len(json.loads(listed.answer)) == i + 1 and listed.error == ""


# Locks


@pytest.fixture
def locked(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[pathlib.Path, pathlib.Path, notes.Notes]]:
    """(repository, path of the ref's lock, store) with one memory; a lock counts as left behind at once."""
    monkeypatch.setattr(reflock, "STALE", 0.0)
    monkeypatch.setattr(notes, "STALE", 0.3)
    path = lab.repo()
    lab.mem(path, "remember", "the first invoice")
    repo, store = opened(path)
    yield path, path / ".git" / f"{REF}.lock", store
    repo.git.close()


def dead_writer(path: pathlib.Path) -> None:
    """What a writer leaves that is killed while git holds the lock."""
    code = (f"import os, signal\nfrom gitmem.git import reflock\nwith reflock.writing({str(path / '.git')!r}, {REF!r}):\n"
            f"    open({str(path / '.git' / (REF + '.lock'))!r}, 'a').close()\n    os.kill(os.getpid(), signal.SIGKILL)")
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL


def test_a_dead_writers_lock_goes(lab: Lab, locked: tuple[pathlib.Path, pathlib.Path, notes.Notes]) -> None:
    path, lock, store = locked
    tip = store.tip()
    gone = "1234567890" * 4  # a commit that `gc` has taken since
    for content in ("", tip[:17], tip, tip + "\n", "\0" * 41, gone + "\n"):
        lock.unlink(missing_ok=True)
        dead_writer(path)
        lock.write_text(content)
        store.append([("", b'{"a line of nobody"}')], "git mem: x", ADA)
        assert not lock.exists()
    assert not (path / ".git" / "mem-stale.lock").exists()
    assert all(p.stat().st_size == 0 for p in (path / ".git").glob("git-mem-writing-*"))


def test_a_dead_writers_lock_goes_also_where_the_cache_was_deleted(lab: Lab, locked: tuple[pathlib.Path, pathlib.Path, notes.Notes]) -> None:
    path, lock, store = locked
    dead_writer(path)
    shutil.rmtree(path / ".git" / "mem", ignore_errors=True)
    store.append([("", b'{"a line of nobody"}')], "git mem: x", ADA)
    assert not lock.exists()


def test_a_writer_that_moves_nothing_leaves_the_note_of_the_dead(lab: Lab, locked: tuple[pathlib.Path, pathlib.Path, notes.Notes]) -> None:
    """A purge first makes its commit and then moves the ref: the success of the first says nothing about a lock."""
    path, lock, store = locked
    dead_writer(path)
    status, *_ = reflock.run(store.git, str(path / ".git"), REF, ["version"])
    assert status == 0 and lock.exists()
    assert reflock.recover(store.git, REF) and not lock.exists()


def test_a_lock_that_may_be_somebody_elses_stays(lab: Lab, locked: tuple[pathlib.Path, pathlib.Path, notes.Notes]) -> None:
    path, lock, store = locked
    stock = lab.git(path, "commit-tree", "-m", "Notes added by 'git notes add'", f"{REF}^{{tree}}").strip()

    def refused() -> None:
        with pytest.raises(MemError, match=r"locked by .*team\.lock"):
            store.append([("", b"x")], "m", ADA)
        assert lock.exists()
        lock.unlink()

    lock.write_text("")  # no writer of ours died
    refused()
    dead_writer(path)
    lock.write_text(stock)  # one did, but this is a commit of stock git
    refused()
    dead_writer(path)
    lock.unlink()
    lock.symlink_to(path / "f0.txt")
    refused()
    dead_writer(path)
    os.utime(lock, (time.time() - 60, time.time() - 60))  # it was there before that writer began
    refused()
    (path / ".git" / "git-mem-writing-mem-team").write_text("who knows\n")
    lock.write_text("")
    refused()


def test_a_fresh_lock_stays(lab: Lab, locked: tuple[pathlib.Path, pathlib.Path, notes.Notes], monkeypatch: pytest.MonkeyPatch) -> None:
    path, lock, store = locked
    monkeypatch.setattr(reflock, "STALE", 60.0)
    dead_writer(path)
    assert not reflock.recover(store.git, REF) and lock.exists()


def test_a_living_writers_lock_stays(lab: Lab, locked: tuple[pathlib.Path, pathlib.Path, notes.Notes]) -> None:
    """Stopped in the middle, as a paused container is: its flock says that it lives, also after its parent died."""
    path, lock, store = locked
    dead_writer(path)
    code = f"import subprocess\nfrom gitmem.git import reflock\nwith reflock.writing({str(path / '.git')!r}, {REF!r}) as claim:\n    p = subprocess.Popen(['sleep', '60'], pass_fds=claim.fds, stdout=subprocess.DEVNULL)\n    print(p.pid, flush=True)\n    import os; os._exit(0)"
    child = int(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout)
    try:
        assert not reflock.recover(store.git, REF) and lock.exists()
    finally:
        os.kill(child, signal.SIGKILL)
    end = time.monotonic() + 60
    while not reflock.recover(store.git, REF) and time.monotonic() < end:
        time.sleep(0.01)
    assert not lock.exists()


def test_what_a_dead_writer_left_at_the_packed_refs_goes(lab: Lab, locked: tuple[pathlib.Path, pathlib.Path, notes.Notes], monkeypatch: pytest.MonkeyPatch) -> None:
    """All refs share them: as long as the lock stands nobody can delete a branch, and `packed-refs.new` stops them also after the lock was removed by hand."""
    path, lock, store = locked
    packed, new = path / ".git" / "packed-refs.lock", path / ".git" / "packed-refs.new"
    lab.git(path, "branch", "old")
    lab.git(path, "pack-refs", "--all")
    before = (path / ".git" / "packed-refs").read_text()

    def left(dead: bool, *files: pathlib.Path) -> None:
        if dead:
            lock.parent.mkdir(parents=True, exist_ok=True)  # `pack-refs` took it
            dead_writer(path)
        for file in files:
            file.write_text("")

    left(False, packed)
    assert not reflock.recover(store.git, REF) and packed.exists()  # no writer of ours died
    left(True)
    assert reflock.recover(store.git, REF) and packed.exists() and not lock.exists()  # one did, but another may hold this one for that long
    monkeypatch.setattr(reflock, "SHARED", 0.0)
    for files in ((packed,), (packed, new), (new,)):
        left(True, *files)
        with pytest.raises(GitFailed):
            store.git.run("update-ref", "-d", "refs/heads/old")
        reflock.delete(store.git, REF)
        assert not packed.exists() and not new.exists()
        lab.git(path, "update-ref", REF, lab.git(path, "rev-parse", "HEAD").strip())
        lab.git(path, "pack-refs", "--all")
    assert (path / ".git" / "packed-refs").read_text().count("refs/heads/") == before.count("refs/heads/")
    left(False, new)  # whoever left it: nobody writes it without the lock
    assert reflock.recover(store.git, REF) and not new.exists() and not packed.exists()
    left(False, packed, new)
    assert not reflock.recover(store.git, REF) and new.exists()


def test_a_look_aside_leaves_one_note_for_all(lab: Lab) -> None:
    """`push --dry-run` fetches to a ref with the number of its process: not one empty file for each in the repository."""
    hub = lab.root / "hub.git"
    lab.git(lab.root, "init", "-q", "--bare", str(hub))
    path = lab.repo()
    lab.git(path, "remote", "add", "origin", str(hub))
    lab.mem(path, "remember", "the first invoice")
    for _ in range(3):
        lab.mem(path, "push", "--dry-run")
    assert len(list((path / ".git").glob("git-mem-writing-*"))) <= 2


def test_a_lock_older_than_the_machines_start_goes(lab: Lab, locked: tuple[pathlib.Path, pathlib.Path, notes.Notes], monkeypatch: pytest.MonkeyPatch) -> None:
    _, lock, store = locked
    lock.write_text("")
    assert not reflock.recover(store.git, REF)
    monkeypatch.setattr(reflock, "_boot", lambda: time.time() + 60)
    assert reflock.recover(store.git, REF) and not lock.exists()


def test_a_lock_that_changes_hands_while_it_is_judged_goes_back(lab: Lab, locked: tuple[pathlib.Path, pathlib.Path, notes.Notes], monkeypatch: pytest.MonkeyPatch) -> None:
    path, lock, store = locked
    dead_writer(path)
    real = os.rename

    def rename(a: str, b: str) -> None:
        (path / "new").write_text("another process has it now")
        real(path / "new", lock)
        real(a, b)

    monkeypatch.setattr(reflock.os, "rename", rename)
    assert not reflock.recover(store.git, REF)
    assert lock.read_text() == "another process has it now"


def test_several_writers_behind_a_dead_ones_lock_all_get_through(lab: Lab, locked: tuple[pathlib.Path, pathlib.Path, notes.Notes]) -> None:
    path, lock, _ = locked
    dead_writer(path)
    os.utime(lock)
    crowd = Crowd(lab, path)
    crowd.go([crowd.writer(name, path) for name in "abc"], [])  # each waits until the lock is two seconds old
    valid(lab, path, crowd.acknowledged)


def test_where_no_note_can_be_kept_writing_goes_on(lab: Lab) -> None:
    path = lab.repo()
    repo, store = opened(path)
    (path / ".git" / "mem").write_text("a file in its place")
    store.append([(repo.head(), b"x")], "m", ADA)
    assert not reflock.recover(repo.git, REF)
    with contextlib.suppress(OSError):
        os.unlink(path / ".git" / "mem")
    repo.git.close()


def test_the_lock_of_a_dead_purge_or_gc_stops_no_purge(lab: Lab) -> None:
    repo = lab.repo()
    id = lab.json(repo, "remember", "the first invoice")["id"]
    dead = subprocess.Popen(["true"])
    dead.wait()
    lock = repo / ".git" / "gc.pid.lock"
    lock.write_text(f"{dead.pid} {socket.gethostname()}")
    lab.mem(repo, "purge", id, "--force")
    assert not lock.exists() and not list((repo / ".git").glob("gc.pid*"))


def test_the_probe_finds_a_lost_update(lab: Lab) -> None:
    """A writer that does not compare, in a repository that keeps no reflog of it."""
    path = lab.repo()
    lab.mem(path, "remember", "the first invoice")
    tip = lab.git(path, "rev-parse", REF).strip()
    lab.mem(path, "remember", "the second invoice")
    lab.git(path, "update-ref", REF, tip)
    lab.git(path, "reflog", "expire", "--expire=all", "--all")
    with pytest.raises(AssertionError):
        valid(lab, path, {"the first invoice", "the second invoice"})


# Objects that somebody deletes


@pytest.mark.parametrize("gone", ["commit", "tree", "note", "all three"])
def test_a_ref_whose_newest_objects_were_pruned_goes_on_from_the_state_before(lab: Lab, gone: str) -> None:
    """What `git gc --prune=now` beside a writer leaves: the ref names objects that are not here. The next write mends it, and loses nothing."""
    path = lab.repo()
    for text in ("the first invoice", "the second invoice"):
        lab.mem(path, "remember", text)
    before = lab.git(path, "rev-parse", REF).strip()
    lab.mem(path, "remember", "the third invoice")
    head = lab.git(path, "rev-parse", "HEAD").strip()
    names = {"commit": REF, "tree": f"{REF}^{{tree}}", "note": f"{REF}:{head}"}
    ids = {what: lab.git(path, "rev-parse", name).strip() for what, name in names.items()}
    for what, id in ids.items():
        if gone in (what, "all three"):
            (path / ".git" / "objects" / id[:2] / id[2:]).unlink()
    assert lab.run(path, "git", "fsck").returncode != 0
    lab.mem(path, "remember", "the fourth invoice")
    assert lab.run(path, "git", "merge-base", "--is-ancestor", before, REF).returncode == 0
    for _ in range(2):
        assert texts(lab, path) == {"the first invoice", "the second invoice", "the third invoice", "the fourth invoice"}
        shutil.rmtree(path / ".git" / "mem")
    lab.git(path, "fsck", "--strict", "--no-dangling", "--no-reflogs")


def test_a_missing_object_of_a_partial_clone_is_not_mended(lab: Lab) -> None:
    path = lab.repo()
    for text in ("the first invoice", "the second invoice"):
        lab.mem(path, "remember", text)
    lab.git(path, "config", "remote.origin.promisor", "true")
    tip = lab.git(path, "rev-parse", REF).strip()
    (path / ".git" / "objects" / tip[:2] / tip[2:]).unlink()
    lab.mem(path, "remember", "the third invoice", rc=(1,))
    assert (path / ".git" / REF).read_text().strip() == tip


def test_writers_beside_prunes_of_everything_lose_nothing(lab: Lab) -> None:
    """`git prune --expire=now` deletes what a writer has made and not named yet. git warns of it; ours is mended by the next write."""
    repo = lab.repo()
    crowd = Crowd(lab, repo)

    def work() -> None:
        for i in range(EACH * 2):
            text = f"invoice {i}"
            done = crowd.run(repo, *MEM, "remember", text)
            assert "Traceback" not in done.stderr and "bug:" not in done.stderr
            if done.returncode == 0:
                crowd.acknowledged.add(text)

    crowd.go([work], [crowd.bystander("prune", "prune", "--expire=now", pause=0)])
    lab.mem(repo, "remember", "the last invoice")
    assert crowd.acknowledged <= texts(lab, repo)
    shutil.rmtree(repo / ".git" / "mem")
    assert crowd.acknowledged <= texts(lab, repo)
