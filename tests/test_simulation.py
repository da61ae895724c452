"""Three clones and a hub, random work, stock git in between: nothing acknowledged is lost, and everyone ends equal.

Seeds are fixed, so a failure can be run again: GIT_MEM_SIM_SEED and
GIT_MEM_SIM_STEPS choose another run.
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest
from conftest import Lab

from gitmem import fold, listing, memories, record, remember
from gitmem.filters import Filter
from gitmem.store import Store, open_store

REF = "refs/notes/mem/team"
TRACK = "refs/notes/remotes/origin/mem/team"
STEPS = int(os.environ.get("GIT_MEM_SIM_STEPS", "60"))
SEEDS = [int(os.environ["GIT_MEM_SIM_SEED"])] if "GIT_MEM_SIM_SEED" in os.environ else [1, 2, 3]


class World:
    """Clones, and what was acknowledged: {id: texts that a visible version may have}."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab = lab
        self.rng = random.Random(seed)
        seed_repo = lab.repo("seed", 2)
        lab.git(lab.root, "clone", "-q", "--bare", str(seed_repo), "hub.git")
        self.clones = []
        for name in "abc":
            lab.git(lab.root, "clone", "-q", str(lab.root / "hub.git"), name)
            self.clones.append(lab.root / name)
        self.stored: set[str] = set()
        self.forgotten: set[str] = set()
        self.superseded: set[str] = set()
        self.number = 0

    def text(self) -> str:
        self.number += 1
        return f"memory number {self.number}: " + " ".join(self.rng.choices(["cache", "index", "retry", "clock", "schema", "ü", "{\"}", "---"], k=6))

    def open(self, clone: pathlib.Path) -> Store:
        return open_store({}, str(clone))

    def step(self) -> None:
        clone = self.rng.choice(self.clones)
        action = self.rng.choices([self.remember, self.edit, self.forget, self.supersede, self.stock_sync, self.amend, self.by_hand, self.kill, self.gc, self.lose_cache],
                                  [30, 10, 8, 5, 20, 6, 4, 3, 2, 3])[0]
        store = self.open(clone)
        try:
            action(clone, store)
        finally:
            store.close()

    def remember(self, clone: pathlib.Path, store: Store) -> None:
        drafts = [{"body": self.text()} for _ in range(self.rng.choice([1, 1, 1, 5]))]
        for result in remember.remember(store, drafts):
            assert result.status == remember.STORED
            self.stored.add(result.id)

    def pick(self, store: Store) -> str | None:
        items, _ = listing.list_memories(store, Filter(), all_branches=True)
        return str(self.rng.choice(items)["id"]) if items else None

    def edit(self, clone: pathlib.Path, store: Store) -> None:
        id = self.pick(store)
        if id:
            memories.edit(store, id, {"body": self.text()})

    def forget(self, clone: pathlib.Path, store: Store) -> None:
        id = self.pick(store)
        if id:
            memories.forget(store, id)
            self.forgotten.add(id)

    def supersede(self, clone: pathlib.Path, store: Store) -> None:
        id = self.pick(store)
        if id:
            self.stored.add(memories.supersede(store, id, {"body": self.text()}))
            self.superseded.add(id)

    def stock_sync(self, clone: pathlib.Path, store: Store) -> None:
        """What a teammate without git mem does: fetch, merge, push; a lost race is left for later."""
        git = self.lab.git
        if git(clone, "ls-remote", "origin", REF):
            git(clone, "fetch", "-q", "origin", f"+{REF}:{TRACK}")
            git(clone, "notes", "--ref=mem/team", "merge", "-q", "-s", self.rng.choice(["cat_sort_uniq", "union"]), TRACK)
        if store.team.tip():
            self.lab.run(clone, "git", "push", "-q", "origin", REF)

    def amend(self, clone: pathlib.Path, store: Store) -> None:
        self.lab.git(clone, "config", "notes.rewriteRef", "refs/notes/mem/*")
        self.lab.git(clone, "commit", "-q", "--amend", "--allow-empty", "-m", f"amended {self.number}")

    def by_hand(self, clone: pathlib.Path, store: Store) -> None:
        self.lab.git(clone, "notes", "--ref=mem/team", "append", "-m", f"a remark {self.number}", "HEAD")

    def kill(self, clone: pathlib.Path, store: Store) -> None:
        """A writer dies at a random moment: its memory is there whole or not at all."""
        process = subprocess.Popen([sys.executable, "-m", "gitmem", "remember", self.text(), "--json"], cwd=clone, env=self.lab.env, stdout=subprocess.PIPE, text=True)
        time.sleep(self.rng.uniform(0.02, 0.25))
        process.send_signal(signal.SIGKILL)
        out, _ = process.communicate()
        time.sleep(0.02)  # its git child may still be finishing
        if out.strip():
            import json

            self.stored.add(json.loads(out)["id"])
        for lock in (clone / ".git" / "refs" / "notes").rglob("*.lock"):
            lock.unlink()
        self.lab.git(clone, "rev-parse", "-q", "--verify", "HEAD")

    def gc(self, clone: pathlib.Path, store: Store) -> None:
        store.close()
        self.lab.git(clone, "gc", "-q", "--prune=now")
        if store.team.tip():
            self.lab.git(clone, "notes", "--ref=mem/team", "prune")

    def lose_cache(self, clone: pathlib.Path, store: Store) -> None:
        store.discard()

    def quiesce(self) -> None:
        for _ in range(2):
            for clone in self.clones:
                store = self.open(clone)
                self.stock_sync(clone, store)
                store.close()


def views(world: World) -> list[dict[str, tuple[str, tuple[str, ...]]]]:
    """{id: (status, visible versions)} of each clone, by the cache, which must equal the fold of all lines."""
    out = []
    for clone in world.clones:
        store = world.open(clone)
        records = [r for r in (record.parse(line) for _, line in store.team.lines(store.team.tip(), deep=True)) if r]
        folded = {id: (m.status, tuple(sorted(v.version for v in m.versions))) for id, m in fold.fold(records).items()}
        shown, _ = listing.list_memories(store, Filter(), all_branches=True)
        assert sorted(m["id"] for m in shown) == sorted(id for id, (status, versions) in folded.items() if status == fold.ACTIVE for _ in versions)
        before = [(m["id"], m["body"]) for m in shown]
        store.discard()
        again, _ = listing.list_memories(store, Filter(), all_branches=True)
        assert [(m["id"], m["body"]) for m in again] == before, "the cache after many updates differs from one built anew"
        store.close()
        out.append(folded)
    return out


@pytest.mark.parametrize("seed", SEEDS)
def test_three_clones_with_stock_merges_lose_nothing(lab: Lab, seed: int) -> None:
    world = World(lab, seed)
    for _ in range(STEPS):
        world.step()
    world.quiesce()
    first, *others = views(world)
    assert all(other == first for other in others)
    missing = world.stored - set(first)
    assert not missing, f"acknowledged and lost: {missing}"
    hidden = {id for id in world.stored if first[id][0] == fold.FORGOTTEN} - world.forgotten
    assert not hidden, f"hidden but never forgotten: {hidden}"
    superseded = {id for id in world.stored if first[id][0] == fold.SUPERSEDED} - world.superseded
    assert not superseded
    for clone in world.clones:
        lab.git(clone, "fsck", "--strict")


def test_the_simulation_notices_a_lost_line(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe: a fold that drops one memory makes the check fail."""
    world = World(lab, 7)
    store = world.open(world.clones[0])
    world.remember(world.clones[0], store)
    store.close()
    world.quiesce()
    real = fold.fold

    def broken(records: list[record.Record]) -> dict[str, fold.Memory]:
        folded = real(records)
        folded.pop(min(folded), None)
        return folded

    monkeypatch.setattr(fold, "fold", broken)
    first, *_ = [set(view) for view in views(world)]
    assert world.stored - first
