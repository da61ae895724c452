"""Every kind of damage to the cache: seen, said in one line, healed, and the answer is the right one."""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import Lab

from gitmem.engine import cache as cache_file
from gitmem.engine import check, guard, index, update
from gitmem.engine.filters import Filter
from gitmem.memory import listing, memories, recall, remember
from gitmem.store import Store, open_store

COUNT = 60
WORDS = ("cache", "index", "retry", "clock", "schema", "token", "socket", "parser", "branch", "worker", "invoice", "order", "payment", "shard", "queue", "lock", "merge")
TYPES = ("decision", "bugfix", "gotcha")
QUERIES = ("which clock does the retry worker use", "invoice payment order", "memory number 17")


def drafts(count: int, seed: int = 1) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [{"body": f"memory number {i}: " + " ".join(rng.choices(WORDS, k=12)), "title": " ".join(rng.choices(WORDS, k=3)), "type": rng.choice(TYPES),
             "tags": rng.sample(WORDS, 2), "paths": [f"src/{rng.choice(WORDS)}.py"], "source": f"test:{seed}:{i}"} for i in range(count)]


class Shop:
    """One repository with memories, its cache as bytes, and the answers of the sound cache."""

    def __init__(self, lab: Lab, repo: pathlib.Path) -> None:
        self.lab = lab
        self.repo = repo
        self.mem = repo / ".git" / "mem"
        self.db = pathlib.Path(cache_file.path_of(str(self.mem)))
        self.said: list[str] = []
        self.store = self.open()
        self.right = self.answers()
        self.store.close_cache()
        assert not self.said
        self.files = {p.name: p.read_bytes() for p in self.mem.iterdir()}

    def open(self) -> Store:
        return open_store({}, str(self.repo), self.said.append)

    def answers(self, store: Store | None = None) -> Any:
        store = store or self.store
        found = [recall.recall(store, q, Filter(), limit=8) for q in QUERIES]
        found.append(recall.recall(store, QUERIES[1], Filter(types=["decision"], tags=WORDS[:8]), limit=8))
        listed, more = listing.list_memories(store, Filter(paths=["src/"]), all_branches=True)
        shown = [[(h["id"], h["title"], h["body"], h["score"], h["retrieval"]) for h in f["hits"]] + [f["verdict"], f["degraded"], f["searched"]] for f in found]
        return shown, [(m["id"], m["title"], m["body"], m["type"], m["tags"]) for m in listed], more

    def restore(self) -> None:
        self.store.close_cache()
        self.said.clear()
        shutil.rmtree(self.mem, ignore_errors=True)
        self.mem.mkdir()
        for name, content in self.files.items():
            (self.mem / name).write_bytes(content)

    def must_heal(self, what: str) -> bool:
        """The right answer now, at most one line, then silence; returns whether a line was said."""
        assert self.answers() == self.right, f"{what}: wrong answer"
        said = list(self.said)
        assert len(said) <= 1 and not any("Traceback" in s or "\n" in s for s in said), f"{what}: {said}"
        self.store.close_cache()
        self.said.clear()
        assert self.answers() == self.right, f"{what}: wrong answer after healing"
        assert self.said == [], f"{what}: not healed: {self.said}"
        self.store.close_cache()
        return bool(said)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    lab = Lab(tmp_path_factory.mktemp("shop"))
    patch = pytest.MonkeyPatch()
    for name in [n for n in os.environ if n.startswith("GIT_")]:
        patch.delenv(name)
    for name in ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_NOSYSTEM"):
        patch.setenv(name, lab.env[name])
    repo = lab.repo()
    store = open_store({}, str(repo))
    remember.remember(store, drafts(COUNT))
    some = remember.remember(store, [{"body": "a short one"}, {"body": "another short one"}])
    store.with_cache(lambda cache: None)
    memories.edit(store, some[0].id, {"body": "a short one, edited"})
    memories.forget(store, some[1].id)
    store.close()
    made = Shop(lab, repo)
    yield made
    made.store.close()
    patch.undo()


def pages(shop: Shop) -> int:
    return len(shop.files[shop.db.name]) // 4096


def change(path: pathlib.Path, at: int, new: bytes) -> None:
    with open(path, "r+b") as f:
        f.seek(at)
        f.write(new)


# Changed by somebody else: every byte counts


def test_a_sound_cache_and_a_copied_one_are_not_called_damaged(shop: Shop) -> None:
    shop.restore()  # new inodes, new times
    assert not shop.must_heal("copied")
    assert guard.unchanged(str(shop.db))


@pytest.mark.parametrize("kind", ["truncate", "zero", "garbage"])
def test_damage_at_every_page_is_healed(shop: Shop, kind: str) -> None:
    rng = random.Random(kind)
    unsaid = []
    for page in range(pages(shop)):
        shop.restore()
        old = shop.files[shop.db.name][page * 4096 : (page + 1) * 4096]
        if kind == "truncate":
            with open(shop.db, "r+b") as f:
                f.truncate(page * 4096 + rng.choice([0, 0, 1, 2000]))
        else:
            change(shop.db, page * 4096, bytes(4096) if kind == "zero" else rng.randbytes(4096))
        said = shop.must_heal(f"{kind} of page {page + 1}")
        if not said and kind != "truncate" and old.strip(b"\0"):
            unsaid.append(page + 1)
    assert unsaid == []


def test_a_changed_byte_anywhere_is_healed(shop: Shop) -> None:
    rng = random.Random(5)
    for _ in range(150):
        shop.restore()
        at = rng.randrange(len(shop.files[shop.db.name]))
        change(shop.db, at, bytes([shop.files[shop.db.name][at] ^ 1 << rng.randrange(8)]))
        assert shop.must_heal(f"bit in byte {at}"), f"byte {at} was not noticed"


def test_damage_under_an_open_connection_is_healed(shop: Shop) -> None:
    rng = random.Random(6)
    for page in range(0, pages(shop), 4):
        shop.restore()
        shop.answers()
        change(shop.db, page * 4096, rng.randbytes(4096))
        shop.store.close_cache()
        shop.must_heal(f"page {page + 1} under an open connection")


@pytest.mark.parametrize("name", ["sums", "sums-cut", "sums-garbage", "lock"])
def test_damaged_page_sums_cost_a_rebuild_at_most(shop: Shop, name: str) -> None:
    shop.restore()
    sums = shop.mem / (shop.db.name + ".sums")
    if name == "sums":
        sums.unlink()
    elif name == "sums-cut":
        sums.write_bytes(sums.read_bytes()[:70])
    elif name == "sums-garbage":
        sums.write_bytes(b"x" * 300)
    else:
        (shop.mem / (shop.db.name + ".lock")).unlink(missing_ok=True)
    shop.must_heal(name)


def left_log(shop: Shop) -> dict[str, bytes]:
    """The files that a writer leaves who is killed after his commit: the newest records are in the log only."""
    shop.restore()
    shop.store.close_cache()
    cache = shop.store._open()
    tip = shop.store.team.tip()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "settle", lambda *_: None)
        with cache.writing(1.0) as held:
            assert held
            cache.set_meta("filler", "x" * 40_000)  # several pages, so that damage has something to hit
            cache.set_meta("tip:" + shop.store.team.ref, tip)
    files = {p.name: p.read_bytes() for p in shop.mem.iterdir() if not p.name.endswith("-shm")}
    shop.store.close_cache()
    return files


def test_damage_to_a_log_that_a_killed_writer_left_is_healed(shop: Shop) -> None:
    files, rng = left_log(shop), random.Random(7)
    wal = shop.db.name + "-wal"
    assert len(files[wal]) > 4096
    for case in range(60):
        shop.restore()
        for name, content in files.items():
            (shop.mem / name).write_bytes(content)
        at = rng.randrange(len(files[wal]))
        if case % 3 == 0:
            os.truncate(shop.mem / wal, at)
        elif case % 3 == 1:
            change(shop.mem / wal, at, rng.randbytes(1))
        else:
            change(shop.mem / wal, at // 4120 * 4120, rng.randbytes(4120))
        shop.must_heal(f"log, case {case} at {at}")
    for page in range(0, pages(shop), 3):
        shop.restore()
        for name, content in files.items():
            (shop.mem / name).write_bytes(content)
        change(shop.db, page * 4096, rng.randbytes(4096))
        shop.must_heal(f"page {page + 1} beside a log")


# Decay: the byte changes, the stamp does not


def decay(shop: Shop, at: int, new: bytes) -> None:
    change(shop.db, at, new)
    known = guard._read(str(shop.db))
    assert known
    guard._write(str(shop.db), *known)
    assert guard.unchanged(str(shop.db))


def test_the_full_check_finds_every_decayed_byte(shop: Shop) -> None:
    rng = random.Random(8)
    for _ in range(100):
        shop.restore()
        at = rng.randrange(len(shop.files[shop.db.name]))
        decay(shop, at, bytes([shop.files[shop.db.name][at] ^ 1 << rng.randrange(8)]))
        opened = None
        try:
            opened = cache_file.open_cache(str(shop.mem))
            assert opened and check.check_all(opened), f"byte {at}"
        except (cache_file.Damaged, sqlite3.Error):
            pass
        finally:
            if opened:
                opened.close()


def test_decay_never_shows_changed_text_and_never_raises(shop: Shop) -> None:
    """What only the full check sees may cost a rank or a filter, never a text, a vector or the call."""
    rng = random.Random(9)
    texts = {m[0]: m[:3] for m in shop.right[1]} | {h[0]: h[:3] for f in shop.right[0] for h in f if isinstance(h, tuple)}
    wrong = 0
    for _ in range(150):
        shop.restore()
        at = rng.randrange(len(shop.files[shop.db.name]))
        decay(shop, at, bytes([shop.files[shop.db.name][at] ^ 1 << rng.randrange(8)]))
        found, listed, _ = answer = shop.answers()
        assert all(texts[m[0]] == m[:3] for m in listed)
        assert all(texts[h[0]] == h[:3] for f in found for h in f if isinstance(h, tuple))
        assert len(shop.said) <= 1
        wrong += answer != shop.right
    assert wrong <= 30, f"{wrong} of 150 decayed bytes changed an answer unseen"


TAMPER = {
    "memory type": "UPDATE memory SET type = 'other' WHERE row = 3",
    "memory status": "UPDATE memory SET status = 1 WHERE row = 3",
    "memory at": "UPDATE memory SET at = '1999' WHERE row = 3",
    "memory scope": "UPDATE memory SET scope = 2 WHERE row = 3",
    "memory digest": "UPDATE memory SET digest = x'00' WHERE row = 3",
    "memory gone": "DELETE FROM memory WHERE row = 3",
    "label": "UPDATE label SET value = value || 'x' WHERE row = 3",
    "term": "UPDATE term SET df = df + 1 WHERE word = 'invoic' OR word = 'invoice'",
    "term gone": "DELETE FROM term WHERE word = (SELECT max(word) FROM term)",
    "fts missing": "DELETE FROM fts_docsize WHERE id = 3",
    "fts more": "INSERT INTO fts(rowid, title, body, extra) VALUES(9999, 'a', 'b', 'c')",
    "vector": "UPDATE vector SET v = zeroblob(length(v)), crc = 0 WHERE row = 3",
    "vector gone": "DELETE FROM vector WHERE row = 3",
    "code": "UPDATE code SET codes = zeroblob(length(codes))",
    "cover": "DELETE FROM cover",
    "line": "UPDATE line SET raw = CAST(replace(CAST(raw AS TEXT), 'number', 'bumber') AS BLOB) WHERE n = 3",
    "line of another kind": "UPDATE line SET raw = 'text' WHERE n = 3",
    "line op": "UPDATE line SET op = 'forget' WHERE n = 3",
    "count": "UPDATE meta SET value = '7' WHERE key = 'count'",
}


@pytest.mark.parametrize("what", sorted(TAMPER))
def test_the_full_check_finds_rows_that_differ_from_their_lines(shop: Shop, what: str) -> None:
    """A mistake of ours would be written with right page sums: rows are compared with what the lines give."""
    shop.restore()
    opened = cache_file.open_cache(str(shop.mem))
    assert opened and check.check_all(opened, shop.store.table) == ""
    with opened.writing(1.0):
        assert opened.db.execute(TAMPER[what]).rowcount > 0
    assert check.check_all(opened, shop.store.table) != ""
    opened.close()


def test_vector_with_a_right_checksum_but_of_another_text_is_found_with_the_table(shop: Shop) -> None:
    shop.restore()
    opened = cache_file.open_cache(str(shop.mem))
    assert opened
    with opened.writing(1.0):
        v = opened.vectors([4])[4]
        opened.set_vectors([(3, v)])
        code = opened.codes()[4 * 32 : 5 * 32]
        opened.set_codes({3: code})
    assert "differs from its text" in check.check_all(opened, shop.store.table)
    opened.close()


# Something else at the path


def _foreign(path: pathlib.Path, version: int) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE theirs(x)")
    db.execute(f"PRAGMA user_version={version}")
    db.commit()
    db.close()


@pytest.mark.parametrize("what", ["older", "newer", "foreign", "foreign with our version", "text", "empty", "symlink", "dangling symlink", "another repository's"])
def test_another_file_in_the_place_of_the_cache(shop: Shop, what: str, tmp_path: pathlib.Path) -> None:
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
            store = open_store({}, str(other))
            remember.remember(store, drafts(5, 99))
            store.with_cache(lambda cache: None)
            store.close()
            for p in (other / ".git" / "mem").iterdir():
                shutil.copy(p, shop.mem / p.name)
            # Sound in itself; its tips are unknown here, so all lines are read again. What it holds beside them stays visible.
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
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(where)], capture_output=True).returncode:
            pytest.skip("cannot mount a tmpfs here (not root?)")

    def read_only(self) -> None:
        subprocess.run(["mount", "-o", "remount,ro", str(self.where)], check=True, capture_output=True)

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


def test_read_only_disk_with_a_damaged_cache_answers_from_memory(shop: Shop, disk: Callable[[str], Disk]) -> None:
    d = disk("16m")
    for name, content in shop.files.items():
        (shop.mem / name).write_bytes(content)
    change(shop.db, 3 * 4096, bytes(4096))
    d.read_only()
    assert shop.answers() == shop.right
    assert len(shop.said) == 1


def test_read_only_disk_with_a_log_beside_the_cache_answers_from_memory(shop: Shop, disk: Callable[[str], Disk]) -> None:
    files = left_log(shop)
    d = disk("16m")
    for name, content in files.items():
        (shop.mem / name).write_bytes(content)
    d.read_only()
    assert shop.answers() == shop.right and shop.said == []


def test_read_only_disk_without_a_cache_answers_from_memory_also_hot(shop: Shop, disk: Callable[[str], Disk]) -> None:
    disk("1m").read_only()
    assert shop.answers() == shop.right and shop.said == []
    shop.store.close_cache()
    answer = recall.recall(shop.store, QUERIES[1], Filter(), limit=3, hot=True)
    assert answer["hits"] and not answer["degraded"]


def test_read_only_disk_with_a_stale_cache_answers_degraded(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "invoices are stored in cents")
    lab.mem(repo, "list")
    d = Disk(lab.root / "disk", "16m")
    try:
        for p in (repo / ".git" / "mem").iterdir():
            shutil.copy2(p, d.where / p.name)
        shutil.rmtree(repo / ".git" / "mem")
        (repo / ".git" / "mem").symlink_to(d.where)
        d.read_only()
        lab.mem(repo, "remember", "orders are stored in euros")
        answer = lab.json(repo, "recall", "invoices stored cents", rc=(0, 1))
        assert answer["degraded"] and answer["hits"][0]["body"] == "invoices are stored in cents"
        (repo / ".git" / "mem").unlink()
        answer = lab.json(repo, "recall", "orders stored euros", rc=(0, 1))
        assert not answer["degraded"] and answer["hits"][0]["body"] == "orders are stored in euros"
    finally:
        d.end()


@pytest.mark.parametrize("size", ["0", "8k", "64k", "200k", "300k", "400k"])
def test_full_disk_stores_the_note_and_answers(shop: Shop, disk: Callable[[str], Disk], size: str) -> None:
    disk("512k")
    # The tmpfs is filled up to what the case leaves free.
    free = int(size.rstrip("k")) * 1024
    ballast = shop.mem / "ballast"
    ballast.write_bytes(b"x" * (512 * 1024 - free) if free else b"x" * 512 * 1024)
    assert shop.answers() == shop.right
    assert len(shop.said) <= 5 and all(s.startswith("warning: the memory cache cannot be written") for s in shop.said), shop.said
    before = shop.store.team.tip()
    result = remember.remember(shop.store, [{"body": "stored on a full disk", "source": f"full:{size}"}])[0]
    try:
        assert result.status == remember.STORED
        assert recall.recall(shop.store, "stored on a full disk", Filter(), limit=1)["hits"][0]["id"] == result.id
    finally:
        shop.store.repo.git.run("update-ref", shop.store.team.ref, before)
        reflog = shop.repo / ".git" / "logs" / shop.store.team.ref
        reflog.write_text("".join(line for line in reflog.read_text().splitlines(True)[:1]) if reflog.exists() else "")
        reflog.unlink()
        shop.store.repo.git.close()


def test_file_size_limit_stores_the_note_and_answers(lab: Lab) -> None:
    repo = lab.repo()
    lines = "".join(json.dumps(d) + "\n" for d in drafts(COUNT))
    (lab.root / "in.jsonl").write_text(lines)
    done = lab.run(repo, "sh", "-c", f'ulimit -f 200; exec "{sys.executable}" -m gitmem remember --jsonl ../in.jsonl')
    assert done.returncode == 0 and "Traceback" not in done.stderr and f"{COUNT} stored" in done.stdout, done.stderr
    assert len(lab.lines(repo)) == COUNT
    done = lab.run(repo, "sh", "-c", f'ulimit -f 200; exec "{sys.executable}" -m gitmem recall "invoice payment order" --json')
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


# Several processes


def test_cache_directory_deleted_between_open_and_read(shop: Shop) -> None:
    shop.restore()
    assert shop.answers() == shop.right
    shutil.rmtree(shop.mem)
    assert shop.answers() == shop.right  # same store, its file is gone
    assert shop.said == [] and shop.db.exists()


def test_cache_directory_deleted_within_a_read(shop: Shop) -> None:
    shop.restore()
    calls = 0

    def act(cache: cache_file.Cache) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            shutil.rmtree(shop.mem)
        return len(cache.db.execute("SELECT raw FROM line").fetchall())

    assert shop.store.with_cache(act)[0] > COUNT
    assert shop.answers() == shop.right and len(shop.said) <= 1


def test_cache_deleted_while_an_update_is_written(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.restore()
    shop.store.discard()
    real = update.Update.take

    def take(self: Any, lines: Any) -> int:
        shutil.rmtree(shop.mem, ignore_errors=True)
        return real(self, lines)

    with monkeypatch.context() as patch:
        patch.setattr(update.Update, "take", take)
        shop.answers()
    shop.store.close_cache()
    shop.said.clear()
    assert shop.answers() == shop.right and shop.said == []


def test_a_process_with_the_old_file_sees_the_healed_one(shop: Shop) -> None:
    shop.restore()
    other = shop.open()
    assert shop.answers(other) == shop.right
    change(shop.db, 4096, bytes(4096 * 3))
    assert shop.must_heal("damage")
    assert shop.answers(other) == shop.right
    assert other._cache and not other._cache.moved()
    other.close()


def test_two_who_find_the_same_damage_rebuild_it_once(shop: Shop) -> None:
    shop.restore()
    first = shop.open()
    shop.answers(first)
    inode = os.stat(shop.db).st_ino
    shop.store.close_cache()
    change(shop.db, 4096, bytes(4096))
    cache_file.discard(str(shop.mem), inode)
    shop.answers()
    healed = os.stat(shop.db).st_ino
    if healed != inode:
        cache_file.discard(str(shop.mem), inode)  # the second one, late
        assert os.stat(shop.db).st_ino == healed
    first.close()


def start(shop: Shop, *argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "gitmem", *argv], cwd=shop.repo, env=shop.lab.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def test_processes_that_build_at_once_from_nothing_all_answer(shop: Shop) -> None:
    for _ in range(2):
        shop.restore()
        shutil.rmtree(shop.mem)
        running = [start(shop, "recall", QUERIES[1], "-n", "8", "--json") for _ in range(4)]
        for process in running:
            out, err = process.communicate(timeout=60)
            assert process.returncode == 0 and err == "", err
            assert [h["id"] for h in json.loads(out)["hits"]] == [h[0] for h in shop.right[0][1] if isinstance(h, tuple)]
        opened = cache_file.open_cache(str(shop.mem))
        assert opened and check.check_all(opened, shop.store.table) == ""
        opened.close()


def test_a_killed_builder_leaves_nothing_behind(shop: Shop) -> None:
    rng = random.Random(11)
    for _ in range(12):
        shop.restore()
        shutil.rmtree(shop.mem)
        process = start(shop, "index")
        end = time.monotonic() + 5
        while not shop.db.exists() and time.monotonic() < end:
            time.sleep(0.0005)
        time.sleep(rng.uniform(0, 0.06))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        shop.must_heal("killed builder")
        opened = cache_file.open_cache(str(shop.mem))
        assert opened and check.check_all(opened, shop.store.table) == ""
        opened.close()


@pytest.mark.parametrize("step", ["wal_checkpoint(PASSIVE)", "sums", "wal_checkpoint(TRUNCATE)", "COMMIT"])
def test_a_writer_killed_at_each_step_costs_no_rebuild(lab: Lab, step: str) -> None:
    """The child dies by its own hand right after the step; the log and the sums must fit together at each."""
    repo = lab.repo()
    lab.mem(repo, "remember", "the first memory about invoices")
    lab.mem(repo, "list")
    lab.mem(repo, "remember", "the second memory about invoices")
    code = f"""
import os, signal
from gitmem.engine import guard, cache
from gitmem.store import open_store
step = {step!r}
def die(): os.kill(os.getpid(), signal.SIGKILL)
if step == "sums":
    real = guard._write
    guard._write = lambda *a: (real(*a), die())
store = open_store({{}}, ".")
class Db:
    def __init__(self, db): self.db = db
    def execute(self, sql, *args):
        out = self.db.execute(sql, *args)
        if step in sql:
            out.fetchall(); die()
        return out
    def __getattr__(self, name): return getattr(self.db, name)
opened = store._open()
opened.db = Db(opened.db)
store.with_cache(lambda c: None)
"""
    done = lab.run(repo, sys.executable, "-c", code)
    assert done.returncode == -signal.SIGKILL, done.stderr
    done = lab.run(repo, sys.executable, "-m", "gitmem", "list", "--json")
    assert done.returncode == 0 and done.stderr == "" and len(json.loads(done.stdout)) == 2
    done = lab.run(repo, sys.executable, "-m", "gitmem", "doctor")
    assert "damaged" not in done.stdout


def test_a_new_cache_takes_the_place_of_older_layouts_and_of_no_newer_one(lab: Lab) -> None:
    repo = lab.repo()
    mem = repo / ".git" / "mem"
    mem.mkdir()
    old, newer = (mem / f"index-{n}.db" for n in (cache_file.SCHEMA - 1, cache_file.SCHEMA + 1))
    for path in (old, newer):
        for suffix in ("", "-wal", "-shm", ".sums", ".lock"):
            (mem / (path.name + suffix)).write_text("x")
    lab.mem(repo, "remember", "the clock is monotonic")
    assert sorted(p.name for p in mem.iterdir() if p.name.startswith(old.name)) == []
    assert len([p for p in mem.iterdir() if p.name.startswith(newer.name)]) == 5


def test_a_reader_keeps_its_answer_while_a_writer_updates(shop: Shop) -> None:
    shop.restore()
    reader = shop.open()
    cache = reader._open()
    cache.db.execute("BEGIN")
    (before,) = cache.db.execute("SELECT count(*) FROM line").fetchone()
    with (opened := shop.store._open()).writing(1.0) as held:
        assert held
        opened.db.execute("INSERT INTO move SELECT 'x', 'y', n FROM line")
    assert cache.db.execute("SELECT count(*) FROM line").fetchone() == (before,)
    assert cache.db.execute("SELECT count(*) FROM move WHERE old = 'x'").fetchone() == (0,)
    cache.db.execute("COMMIT")
    assert cache.db.execute("SELECT count(*) FROM move WHERE old = 'x'").fetchone()[0] > 0
    shop.store.close_cache()
    reader.close()
    assert not guard.has_log(str(shop.db)) and guard.wrong_page(str(shop.db)) == "" and guard.unchanged(str(shop.db))


def test_readers_and_writers_together_never_call_the_cache_damaged(lab: Lab) -> None:
    repo = lab.repo()
    store = open_store({}, str(repo))
    remember.remember(store, drafts(10))
    store.close()
    said: list[str] = []
    wrong: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in range(8):
                s = open_store({}, str(repo), said.append)
                if seed % 2:
                    remember.remember(s, [{"body": f"writer {seed} says {i} about invoices", "source": f"{seed}:{i}"}])
                assert recall.recall(s, "invoices", Filter(), limit=3)["hits"]
                s.close()
        except BaseException as e:
            wrong.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == [] and said == []
    store = open_store({}, str(repo))
    assert len(listing.list_memories(store, Filter(), all_branches=True)[0]) == 26
    assert store._cache and check.check_all(store._cache, store.table) == ""
    store.close()


def test_a_busy_cache_answers_as_it_is(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.restore()
    shop.answers()  # other tests moved the ref and back: the reflog is looked at once
    shop.store.close_cache()
    monkeypatch.setattr(index, "_PATIENCE", 0.1)
    opened = cache_file.open_cache(str(shop.mem))
    assert opened
    with opened.writing(1.0):
        opened.set_meta("tip:" + shop.store.team.ref, "")  # not committed yet
        assert shop.answers() == shop.right
    shop.store.close_cache()
    with opened.writing(1.0):
        answer = recall.recall(shop.store, QUERIES[1], Filter(), limit=3)
        assert answer["degraded"] and answer["hits"]
    opened.close()
    assert shop.said == []


def test_reading_the_file_beside_sqlite_keeps_sqlites_locks(lab: Lab) -> None:
    """Closing any descriptor of a file drops the locks a process has on it; another process would then remove the log under us."""
    if not pathlib.Path("/proc/locks").exists():
        pytest.skip("no /proc/locks here")
    repo = lab.repo()
    lab.mem(repo, "remember", "one")
    opened = cache_file.open_cache(str(repo / ".git" / "mem"))
    assert opened is not None
    opened.db.execute("SELECT count(*) FROM line").fetchone()

    def locks() -> list[str]:
        rows = pathlib.Path("/proc/locks").read_text().splitlines()
        return [row for row in rows if f":{opened.inode} " in row and f" {os.getpid()} " in row]

    assert locks()
    assert guard.wrong_page(opened.path) == ""
    assert locks()
    opened.close()
    assert not locks()
