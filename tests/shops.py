"""A repository with memories, its cache as bytes, and the answers of the sound cache: what every
test of damage compares with.
"""

from __future__ import annotations

import os
import pathlib
import random
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Lab

from gitmem.engine import cache as cache_file
from gitmem.engine import cache_check, cache_lock
from gitmem.engine.filters import Filter
from gitmem.memory import listing, memories, recall, remember
from gitmem.store import Store, open_store

COUNT = 24
WORDS = (
    "cache",
    "index",
    "retry",
    "clock",
    "schema",
    "token",
    "socket",
    "parser",
    "branch",
    "worker",
    "invoice",
    "order",
    "payment",
    "shard",
    "queue",
    "lock",
    "merge",
)
TYPES = ("decision", "bugfix", "gotcha")
QUERIES = ("which clock does the retry worker use", "invoice payment order", "memory number 17")


def drafts(count: int, seed: int = 1) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {
            "body": f"memory number {i}: " + " ".join(rng.choices(WORDS, k=12)),
            "title": " ".join(rng.choices(WORDS, k=3)),
            "type": rng.choice(TYPES),
            "tags": rng.sample(WORDS, 2),
            "paths": [f"src/{rng.choice(WORDS)}.py"],
            "source": f"test:{seed}:{i}",
        }
        for i in range(count)
    ]


class Shop:
    """One repository with memories, its cache as bytes, and the answers of the sound cache."""

    def __init__(self, lab: Lab, repo: pathlib.Path) -> None:
        self.lab = lab
        self.repo = repo
        self.mem = repo / ".git" / "mem"
        self.db = pathlib.Path(cache_file.path_of(str(self.mem)))
        self.said: list[str] = []
        self.store = self.open()
        self.right = found, listed, _ = self.answers()
        self.texts = {m[0]: m[:3] for m in listed}
        self.texts.update(
            {hit[0]: hit[:3] for part in found for hit in part if isinstance(hit, tuple)}
        )
        self.store.close_cache()
        assert not self.said
        self.files = {p.name: p.read_bytes() for p in self.mem.iterdir()}

    def open(self) -> Store:
        return open_store(
            {"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"},
            str(self.repo),
            self.said.append,
        )

    def answers(self, store: Store | None = None) -> Any:
        store = store or self.store
        found = [recall.recall(store, q, Filter(), limit=8) for q in QUERIES]
        found.append(
            recall.recall(store, QUERIES[1], Filter(types=["decision"], tags=WORDS[:8]), limit=8)
        )
        listed, more, *_ = listing.list_memories(store, Filter(paths=["src/"]), all_branches=True)
        parts = ("id", "title", "body", "score", "retrieval", "explain")
        shown = [
            [tuple(h[k] for k in parts) for h in f["hits"]]
            + [f["verdict"], f["degraded"], f["searched"]]
            for f in found
        ]
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
        assert len(said) <= 1 and not any("Traceback" in s or "\n" in s for s in said), (
            f"{what}: {said}"
        )
        self.store.close_cache()
        self.said.clear()
        assert self.answers() == self.right, f"{what}: wrong answer after healing"
        assert self.said == [], f"{what}: not healed: {self.said}"
        self.store.close_cache()
        return bool(said)

    def must_survive(self, what: str) -> str:
        """Damage never shows a changed text and never fails a call; what a call does not see,
        the full check does, as far as it touches an answer. Returns who saw it: "call", "check" or
        "" for nobody.
        """
        found, listed, _ = self.answers()
        shown = [hit for part in found for hit in part if isinstance(hit, tuple)]
        assert all(self.texts[m[0]] == m[:3] for m in [*shown, *listed]), f"{what}: changed text"
        assert len(self.said) <= 1 and not any("\n" in s for s in self.said), f"{what}: {self.said}"
        if self.said:
            assert self.answers() == self.right, f"{what}: said, and not healed"
            self.store.close_cache()
            return "call"
        self.store.close_cache()
        cache = cache_file.open_cache(str(self.mem))
        assert cache
        wrong = cache_check.check_all(cache, self.store.table)
        cache.close()
        if wrong:
            self.store.discard()
        assert self.answers() == self.right, f"{what}: nobody saw it"
        self.store.close_cache()
        return "check" if wrong else ""


def pages(shop: Shop) -> int:
    return len(shop.files[shop.db.name]) // 4096


def change(path: pathlib.Path, at: int, new: bytes) -> None:
    with open(path, "r+b") as f:
        f.seek(at)
        f.write(new)


def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A shop for the tests of one file; each restores its cache first."""
    lab = Lab(tmp_path_factory.mktemp("shop"))
    patch = pytest.MonkeyPatch()
    for name in [n for n in os.environ if n.startswith("GIT_")]:
        patch.delenv(name)
    for name in ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_NOSYSTEM"):
        patch.setenv(name, lab.env[name])
    repo = lab.repo()
    store = open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo))
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


def left_log(shop: Shop) -> dict[str, bytes]:
    """The files that a writer leaves who is killed after his commit: the newest records are in the
    log only.
    """
    shop.restore()
    shop.store.close_cache()
    cache = shop.store._open()
    tip = shop.store.team.tip()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache_lock, "take_log", lambda *_: None)
        with cache.writing(1.0) as held:
            assert held
            cache.set_meta(
                "filler", "x" * 40_000
            )  # several pages, so that damage has something to hit
            cache.set_meta("tip:" + shop.store.team.ref, tip)
    files = {p.name: p.read_bytes() for p in shop.mem.iterdir() if not p.name.endswith("-shm")}
    shop.store.close_cache()
    return files
