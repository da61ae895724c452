"""Many at once: writers in every kind of place, stock git working on the same notes beside them,
wrong clocks, objects that somebody deletes.

What was acknowledged is there afterwards, and no writer waits for ever. Races are random; what is
claimed holds for every order."""

from __future__ import annotations

import json
import shutil

import pytest
from conftest import Lab
from crowd import EACH, Crowd, texts, valid
from faults.harness import MEM, Bench, Unavailable, build
from notes_world import REF

from gitmem.core import record
from gitmem.git.config import backup_of


def test_writers_in_worktrees_links_and_containers_lose_nothing(lab: Lab) -> None:
    """One repository under four paths and, where the kernel permits, in two containers with a host
    name and process ids of their own.
    """
    repo = lab.repo()
    lab.git(repo, "worktree", "add", "-q", "-b", "side", "../tree")
    (lab.root / "link").symlink_to(repo)
    (repo / "deep" / "er").mkdir(parents=True)
    crowd = Crowd(lab, repo)
    places = {
        "main": repo,
        "worktree": lab.root / "tree",
        "link": lab.root / "link",
        "directory": repo / "deep" / "er",
    }
    writers = [crowd.writer(name, path) for name, path in places.items()]
    for name in ("one", "two"):
        inside = lab.root / f"container-{name}"
        inside.mkdir()
        box = [
            "unshare",
            "--mount",
            "--uts",
            "--pid",
            "--fork",
            "--mount-proc",
            "sh",
            "-c",
            f'hostname {name} && mount --bind "{repo}" "{inside}" && cd "{inside}" && exec "$@"',
            "sh",
        ]
        if crowd.run(lab.root, *box, "true").returncode == 0:
            writers.append(crowd.writer(f"container {name}", lab.root, *box))
    crowd.go(writers, [])
    assert len(crowd.acknowledged) == len(writers) * EACH
    valid(lab, repo, crowd.acknowledged)


def test_writers_beside_stock_git_lose_nothing(lab: Lab) -> None:
    """amend with rewriteRef, notes append, remove and prune, pack-refs, gc and fetch, all in loops
    of their own.
    """
    repo = lab.repo(commits=3)
    lab.git(lab.root, "clone", "-q", "--bare", str(repo), "hub.git")
    lab.git(repo, "remote", "add", "origin", str(lab.root / "hub.git"))
    lab.git(
        repo,
        "config",
        "remote.origin.fetch",
        "+refs/notes/mem/team*:refs/notes/remotes/origin/mem/team*",
    )
    lab.git(repo, "config", "notes.rewriteRef", "refs/notes/mem/*")
    lab.git(repo, "config", "gc.auto", "0")
    lab.mem(repo, "remember", "the first invoice", "--commit", "HEAD~1")
    lab.git(repo, "push", "-q", "origin", REF)
    crowd = Crowd(lab, repo)
    crowd.acknowledged.add("the first invoice")
    by_hand = json.dumps(
        {
            "v": 1,
            "op": "create",
            "id": "ab" * 16,
            "at": "2026-01-01T00:00:00Z",
            "body": "written by hand",
        }
    )
    crowd.go(
        [crowd.writer("a", repo), crowd.writer("b", repo)],
        [
            crowd.bystander("amend", "commit", "-q", "--amend", "--allow-empty", "-m", "again"),
            crowd.bystander("append", "notes", "--ref=mem/team", "append", "-m", by_hand, "HEAD~2"),
            crowd.bystander("remove", "notes", "--ref=mem/team", "remove", "HEAD~1"),
            crowd.bystander("prune", "notes", "--ref=mem/team", "prune"),
            crowd.bystander("pack-refs", "pack-refs", "--all"),
            crowd.bystander("gc", "gc", "-q"),
            crowd.bystander("fetch", "fetch", "-q", "origin"),
        ],
    )
    assert (
        min(
            crowd.rounds[name]
            for name in ("amend", "append", "remove", "prune", "pack-refs", "gc", "fetch")
        )
        > 0
    )
    valid(lab, repo, crowd.acknowledged)
    assert "written by hand" in texts(lab, repo)


def test_amends_in_a_loop_starve_no_writer(lab: Lab) -> None:
    """Each amend copies the notes and moves the ref without looking; a writer still gets through
    where they leave it a moment. `docs/reliability.md` says what happens where they do not.
    """
    repo = lab.repo()
    lab.git(repo, "config", "notes.rewriteRef", "refs/notes/mem/*")
    lab.mem(repo, "remember", "the first invoice")
    crowd = Crowd(lab, repo)
    crowd.acknowledged.add("the first invoice")
    crowd.go(
        [crowd.writer("a", repo)],
        [
            crowd.bystander("amend", "commit", "-q", "--amend", "--allow-empty", "-m", "again"),
        ],
    )
    assert crowd.rounds["amend"] > EACH
    valid(lab, repo, crowd.acknowledged)


def test_a_remember_during_a_gc_that_prunes_everything_afterwards(lab: Lab) -> None:
    """`git gc --prune=now` between writes takes nothing that the ref or its reflog reaches, not
    even what a blind update left behind.
    """
    repo = lab.repo()
    lab.git(repo, "config", "gc.reflogExpire", "never")
    lab.git(
        repo, "config", "gc.reflogExpireUnreachable", "never"
    )  # the lab's clock stands in the past
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
    """Machines ten years ahead and ten behind write, edit and forget one after the other; the later
    act holds, whatever its time says.
    """
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
            assert not found["degraded"] and {h["body"] for h in found["hits"]} == {
                "the invoice is sent on Tuesday",
                "the invoice is sent from Oslo",
            }
    assert texts(lab, repo) == {"the invoice is sent on Tuesday", "the invoice is sent from Oslo"}


def test_what_changes_while_the_clock_stands_or_goes_back_is_seen(bench: Bench) -> None:
    """Freshness compares tips, never times: a cache made in the future takes in what is written in
    the past.
    """
    root = bench.copy()
    for i, years in enumerate((+5, -5, 0, -5)):
        assert (
            bench.run(
                [*MEM, "remember", f"invoice number {i}"], clock=years * YEAR, root=root
            ).status
            == 0
        )
        listed = bench.run([*MEM, "list", "--json"], clock=-years * YEAR, root=root)
        assert len(json.loads(listed.answer)) == i + 1 and listed.error == ""


def test_the_probe_finds_a_lost_update(lab: Lab) -> None:
    """A writer that does not compare, in a repository that keeps neither reflog nor backup of
    it."""
    path = lab.repo()
    lab.mem(path, "remember", "the first invoice")
    tip = lab.git(path, "rev-parse", REF).strip()
    lab.mem(path, "remember", "the second invoice")
    lab.git(path, "update-ref", REF, tip)
    lab.git(path, "update-ref", "-d", backup_of(REF))
    lab.git(path, "reflog", "expire", "--expire=all", "--all")
    with pytest.raises(AssertionError):
        valid(lab, path, {"the first invoice", "the second invoice"})


# Objects that somebody deletes


@pytest.mark.parametrize("gone", ["commit", "tree", "note", "all three"])
def test_a_ref_whose_newest_objects_were_pruned_goes_on_from_the_state_before(
    lab: Lab, gone: str
) -> None:
    """What `git gc --prune=now` beside a writer leaves: the ref names objects that are not here.

    The next write mends it, and loses nothing.
    """
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
        assert texts(lab, path) == {
            "the first invoice",
            "the second invoice",
            "the third invoice",
            "the fourth invoice",
        }
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
    """`git prune --expire=now` deletes what a writer has made and not named yet. git warns of it;
    ours is mended by the next write.
    """
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
