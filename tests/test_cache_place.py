"""Another file in the place of the cache, and disks that are read-only, full, limited or
unreadable: the answer still comes.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import shops
from conftest import Lab
from shops import QUERIES, Shop, change, drafts, left_log

from gitmem.engine import cache as cache_file
from gitmem.engine.filters import Filter
from gitmem.git import config
from gitmem.memory import recall, remember
from gitmem.store import open_store


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[shops.Shop]:
    yield from shops.opened(tmp_path_factory)


# Something else at the path


def _foreign(path: pathlib.Path, version: int) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE theirs(x)")
    db.execute(f"PRAGMA user_version={version}")
    db.commit()
    db.close()


@pytest.mark.parametrize(
    "what",
    [
        "older",
        "newer",
        "foreign",
        "foreign with our version",
        "text",
        "empty",
        "symlink",
        "dangling symlink",
        "another repository's",
    ],
)
def test_another_file_in_the_place_of_the_cache(
    shop: Shop, what: str, tmp_path: pathlib.Path
) -> None:
    shop.restore()
    if what in ("older", "newer"):
        db = sqlite3.connect(shop.db)
        db.execute(f"PRAGMA user_version={cache_file.SCHEMA + (1 if what == 'newer' else -1)}")
        db.close()
    else:
        for p in shop.mem.iterdir():
            p.unlink()
        if what.startswith("foreign"):
            _foreign(shop.db, cache_file.SCHEMA if "version" in what else 0)
        elif what == "text":
            shop.db.write_text("dear diary\n" * 1000)
        elif what == "empty":
            shop.db.touch()
        elif what == "symlink":
            _foreign(tmp_path / "theirs.db", 3)
            shop.db.symlink_to(tmp_path / "theirs.db")
        elif what == "dangling symlink":
            shop.db.symlink_to(tmp_path / "nowhere.db")
        else:
            other = shop.lab.repo(f"other-{tmp_path.name}")
            store = open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(other))
            remember.remember(store, drafts(5, 99))
            store.with_cache(lambda cache: None)
            store.close()
            for p in (other / ".git" / "mem").iterdir():
                shutil.copy(p, shop.mem / p.name)
            # Sound in itself; its tips are unknown here, so all lines are read again. What it holds
            # beside them stays visible.
            found = {m[0] for m in shop.answers()[1]}
            assert found >= {m[0] for m in shop.right[1]}
            return
    shop.must_heal(what)
    if what == "symlink":
        db = sqlite3.connect(tmp_path / "theirs.db")
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
        db.close()


def test_a_directory_in_the_place_of_the_cache_answers_from_memory(shop: Shop) -> None:
    shop.restore()
    for p in shop.mem.iterdir():
        p.unlink()
    (shop.db / "precious").mkdir(parents=True)
    assert shop.answers() == shop.right
    assert all(s.startswith("warning: the memory cache cannot be") for s in shop.said)
    assert len(shop.said) == 1
    assert (shop.db / "precious").is_dir()


def test_a_file_in_the_place_of_the_directory_answers_from_memory(shop: Shop) -> None:
    shop.restore()
    shutil.rmtree(shop.mem)
    shop.mem.write_text("not a directory")
    try:
        assert shop.answers() == shop.right
        assert len(shop.said) <= 1
    finally:
        shop.store.close_cache()
        shop.mem.unlink()


# Disks


class Disk:
    """A tmpfs of its own below a repository's cache directory."""

    def __init__(self, where: pathlib.Path, size: str) -> None:
        self.where = where
        where.mkdir(exist_ok=True)
        if subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(where)], capture_output=True
        ).returncode:
            pytest.skip("cannot mount a tmpfs here (not root?)")

    def read_only(self) -> None:
        subprocess.run(
            ["mount", "-o", "remount,ro", str(self.where)], check=True, capture_output=True
        )

    def end(self) -> None:
        subprocess.run(["umount", "-l", str(self.where)], check=True)


@pytest.fixture
def disk(shop: Shop) -> Iterator[Callable[[str], Disk]]:
    made: list[Disk] = []

    def make(size: str) -> Disk:
        shop.store.close_cache()
        shutil.rmtree(shop.mem, ignore_errors=True)
        made.append(Disk(shop.mem, size))
        return made[0]

    yield make
    shop.store.close_cache()
    for d in made:
        d.end()
    shop.restore()


def test_read_only_disk_with_a_fresh_cache(shop: Shop, disk: Callable[[str], Disk]) -> None:
    d = disk("16m")
    for name, content in shop.files.items():
        (shop.mem / name).write_bytes(content)
    d.read_only()
    assert shop.answers() == shop.right and shop.said == []
    assert shop.store._cache and shop.store._cache.how == "immutable"


def test_read_only_disk_with_a_damaged_cache_answers_from_memory(
    shop: Shop, disk: Callable[[str], Disk]
) -> None:
    d = disk("16m")
    for name, content in shop.files.items():
        (shop.mem / name).write_bytes(content)
    change(shop.db, 4096, bytes(shop.db.stat().st_size - 4096))
    d.read_only()
    assert shop.answers() == shop.right
    assert len(shop.said) == 1


def test_read_only_disk_with_a_log_beside_the_cache_answers_from_memory(
    shop: Shop, disk: Callable[[str], Disk]
) -> None:
    files = left_log(shop)
    d = disk("16m")
    for name, content in files.items():
        (shop.mem / name).write_bytes(content)
    d.read_only()
    assert shop.answers() == shop.right and shop.said == []


def test_read_only_disk_without_a_cache_answers_from_memory_also_hot(
    shop: Shop, disk: Callable[[str], Disk]
) -> None:
    disk("1m").read_only()
    assert shop.answers() == shop.right and shop.said == []
    shop.store.close_cache()
    answer = recall.recall(shop.store, QUERIES[1], Filter(), limit=3, hot=True)
    assert answer["hits"] and not answer["degraded"]


def test_read_only_disk_with_a_stale_cache_answers_degraded(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "invoices are stored in cents")
    lab.mem(repo, "list")
    mem, kept = repo / ".git" / "mem", lab.root / "kept"
    mem.rename(kept)
    d = Disk(mem, "16m")
    try:
        for p in kept.iterdir():
            shutil.copy2(p, mem / p.name)
        d.read_only()
        lab.mem(repo, "remember", "orders are stored in euros")
        answer = lab.json(repo, "recall", "invoices stored cents", rc=(0, 1))
        assert answer["degraded"] and answer["hits"][0]["body"] == "invoices are stored in cents"
        d.end()
        answer = lab.json(repo, "recall", "orders stored euros", rc=(0, 1))
        assert not answer["degraded"] and answer["hits"][0]["body"] == "orders are stored in euros"
    finally:
        if mem.is_mount():
            d.end()


@pytest.mark.parametrize("size", ["0", "8k", "64k", "200k", "300k", "400k"])
def test_full_disk_stores_the_note_and_answers(
    shop: Shop, disk: Callable[[str], Disk], size: str
) -> None:
    disk("512k")
    # The tmpfs is filled up to what the case leaves free.
    free = int(size.rstrip("k")) * 1024
    ballast = shop.mem / "ballast"
    ballast.write_bytes(b"x" * (512 * 1024 - free) if free else b"x" * 512 * 1024)
    assert shop.answers() == shop.right
    assert len(shop.said) <= 5 and all(
        s.startswith("warning: the memory cache cannot be written") for s in shop.said
    ), shop.said
    before = shop.store.team.tip()
    result = remember.remember(
        shop.store, [{"body": "stored on a full disk", "source": f"full:{size}"}]
    )[0]
    try:
        assert result.status == remember.STORED
        assert (
            recall.recall(shop.store, "stored on a full disk", Filter(), limit=1)["hits"][0]["id"]
            == result.id
        )
    finally:
        for ref in (shop.store.team.ref, config.backup_of(shop.store.team.ref)):
            shop.store.repo.git.run("update-ref", ref, before)
        reflog = shop.repo / ".git" / "logs" / shop.store.team.ref
        reflog.write_text(
            "".join(line for line in reflog.read_text().splitlines(True)[:1])
            if reflog.exists()
            else ""
        )
        reflog.unlink()
        shop.store.repo.git.close()


def test_file_size_limit_stores_the_note_and_answers(lab: Lab) -> None:
    repo = lab.repo()
    lines = "".join(json.dumps(d) + "\n" for d in drafts(60))
    (lab.root / "in.jsonl").write_text(lines)
    done = lab.run(
        repo,
        "sh",
        "-c",
        f'ulimit -f 200; exec "{sys.executable}" -m gitmem remember --jsonl ../in.jsonl',
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr and "60 stored" in done.stdout, (
        done.stderr
    )
    assert len(lab.lines(repo)) == 60
    done = lab.run(
        repo,
        "sh",
        "-c",
        f'ulimit -f 200; exec "{sys.executable}" -m gitmem recall "invoice payment order" --json',
    )
    assert done.returncode == 0 and json.loads(done.stdout)["hits"]
    assert len(done.stderr.splitlines()) <= 1, done.stderr
    assert not lab.json(repo, "recall", "invoice payment order")["degraded"]


def test_unreadable_cache_answers_from_memory(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """We may be root, who reads everything: SQLite's refusal is played."""
    shop.restore()

    def refuse(name: str) -> sqlite3.Connection:
        if name == ":memory:":
            return real(name)
        return real("file:/nowhere/at/all.db")

    real = cache_file.connect
    monkeypatch.setattr(cache_file, "connect", refuse)
    assert shop.answers() == shop.right
    assert len(shop.said) == 1
