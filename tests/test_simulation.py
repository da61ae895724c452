"""A search for loss: random work in three clones and a hub, stock git, rewrites, damage and kills
in between.

Short here, long with GIT_MEM_SIM=long (10,000 steps; GIT_MEM_SIM_EXAMPLES and
GIT_MEM_SIM_STEPS choose another length, GIT_MEM_SIM_SEED another run). The walks
come in parts with a seed each, so that several processors can share them.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterable

import pytest
from conftest import Lab, sampled
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from team_checks import check, quiesce
from team_world import World

from gitmem.core import fold, record

LONG = os.environ.get("GIT_MEM_SIM") == "long"
EXAMPLES = int(os.environ.get("GIT_MEM_SIM_EXAMPLES", "100" if LONG else "10"))
STEPS = int(os.environ.get("GIT_MEM_SIM_STEPS", "100" if LONG else "50"))
SEED = int(os.environ.get("GIT_MEM_SIM_SEED", "20261122"))
PARTS = min(5, EXAMPLES)

# Its directories are its own, not pytest's; `make quick` is to know that it has some.
pytestmark = pytest.mark.usefixtures("tmp_path")

clones = st.integers(0, 2)
picks = st.integers(0, 50)


class Simulation(RuleBasedStateMachine):
    """Every rule is one step of one clone; the check comes at the end of a run."""

    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="team-"))
        self.world = World(Lab(self.root))
        # hypothesis leaves some rules out of a run, remember too: there is always something to
        # lose.
        for clone in self.world.clones:
            self.world.remember(clone, 2, 1, 0, False, False, False)
            self.world.remember(clone, 1, 1, 0, True, False, True)

    def did(self, *what: object) -> None:
        type(self).steps += 1
        self.world.trace.append(" ".join(map(str, what)))

    # Twice in the list where it should be twice as frequent.
    @rule(
        c=clones,
        count=st.sampled_from([1, 1, 1, 6]),
        size=st.sampled_from([0, 1, 30]),
        at=st.integers(0, 5),
        private=st.booleans(),
        old=st.booleans(),
        source=st.booleans(),
    )
    def remember(
        self, c: int, count: int, size: int, at: int, private: bool, old: bool, source: bool
    ) -> None:
        self.did("remember", c, count)
        self.world.remember(
            self.world.clones[c], count, size, at, private and count == 1, old, source
        )

    @rule(c=clones)
    def remember_one(self, c: int) -> None:
        self.did("remember_one", c)
        self.world.remember(self.world.clones[c], 1, 1, 0, False, False, False)

    @rule(c=clones, pick=picks)
    def edit(self, c: int, pick: int) -> None:
        self.did("edit", c, pick)
        self.world.edit(self.world.clones[c], pick)

    @rule(c=clones, pick=picks)
    def forget(self, c: int, pick: int) -> None:
        self.did("forget", c, pick)
        self.world.forget(self.world.clones[c], pick)

    @rule(c=clones, pick=picks)
    def restore(self, c: int, pick: int) -> None:
        self.did("restore", c, pick)
        self.world.restore(self.world.clones[c], pick)

    @rule(c=clones, pick=picks)
    def supersede(self, c: int, pick: int) -> None:
        self.did("supersede", c, pick)
        self.world.supersede(self.world.clones[c], pick)

    @rule(c=clones, pick=picks)
    def share(self, c: int, pick: int) -> None:
        self.did("share", c, pick)
        self.world.share(self.world.clones[c], pick)

    @rule(c=clones, pick=picks)
    def purge(self, c: int, pick: int) -> None:
        self.did("purge", c, pick)
        self.world.purge(self.world.clones[c], pick)

    @rule(c=clones)
    def sync(self, c: int) -> None:
        self.did("sync", c)
        self.world.sync(self.world.clones[c])

    @rule(c=clones)
    def sync_again(self, c: int) -> None:
        self.did("sync_again", c)
        self.world.sync(self.world.clones[c])

    @rule(c=clones)
    def pull(self, c: int) -> None:
        self.did("pull", c)
        self.world.pull(self.world.clones[c])

    @rule(c=clones, strategy=st.sampled_from(["cat_sort_uniq", "union"]))
    def stock_sync(self, c: int, strategy: str) -> None:
        self.did("stock_sync", c, strategy)
        self.world.stock_sync(self.world.clones[c], strategy)

    @rule(c=clones, kind=st.integers(0, 3))
    def stock_damage(self, c: int, kind: int) -> None:
        self.did("stock_damage", c, kind)
        self.world.stock_damage(self.world.clones[c], kind)

    @rule(c=clones, kind=st.integers(0, 3), private=st.booleans())
    def ref_damage(self, c: int, kind: int, private: bool) -> None:
        self.did("ref_damage", c, kind, private)
        self.world.ref_damage(self.world.clones[c], kind, private)

    @rule(c=clones)
    def look(self, c: int) -> None:
        self.did("look", c)
        self.world.look(self.world.clones[c])

    @rule(c=clones)
    def lose_mem(self, c: int) -> None:
        self.did("lose_mem", c)
        self.world.lose_mem(self.world.clones[c])

    @rule(kind=st.integers(0, 2))
    def hub_damage(self, kind: int) -> None:
        self.did("hub_damage", kind)
        self.world.hub_damage(kind)

    @rule(c=clones, kind=st.integers(0, 4))
    def rewrite(self, c: int, kind: int) -> None:
        self.did("rewrite", c, kind)
        self.world.rewrite(self.world.clones[c], kind)

    @rule(c=clones, pick=picks, merged=st.booleans())
    def aside(self, c: int, pick: int, merged: bool) -> None:
        self.did("aside", c, pick, merged)
        self.world.aside(self.world.clones[c], pick, merged)

    @rule(c=clones, hard=st.booleans())
    def gc(self, c: int, hard: bool) -> None:
        self.did("gc", c, hard)
        self.world.gc(self.world.clones[c], hard)

    @rule(c=clones)
    def lose_cache(self, c: int) -> None:
        self.did("lose_cache", c)
        self.world.lose_cache(self.world.clones[c])

    @rule(
        c=clones,
        what=st.sampled_from(["remember", "sync", "forget", "purge"]),
        pick=picks,
        after=st.integers(1, 80),
    )
    def kill(self, c: int, what: str, pick: int, after: int) -> None:
        self.did("kill", c, what, pick, after)
        self.world.kill(self.world.clones[c], what, pick, after / 1000)

    def teardown(self) -> None:
        try:
            quiesce(self.world)
            check(self.world)
        finally:
            shutil.rmtree(self.root, ignore_errors=True)


def run(
    machine: type[RuleBasedStateMachine],
    examples: int,
    steps: int,
    start: int = SEED,
    *,
    shrink: bool,
) -> None:
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=phases,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(seed(start)(machine), settings=chosen)


@pytest.mark.parametrize("part", sampled(range(PARTS), 1 if LONG else 5))
def test_nothing_acknowledged_is_lost_and_nothing_purged_is_anywhere(part: int) -> None:
    walks = EXAMPLES // PARTS + (part < EXAMPLES % PARTS)
    Simulation.steps = 0
    run(Simulation, walks, STEPS, SEED + part, shrink=False)
    print(f"{Simulation.steps} steps, seed {SEED + part}")
    assert Simulation.steps > 0.8 * walks * STEPS


def test_the_simulation_notices_a_broken_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe: the walk of the test above fails when the fold loses every other memory."""
    real = fold.fold

    def broken(records: Iterable[record.Record]) -> dict[str, fold.Memory]:
        return {id: memory for id, memory in real(records).items() if id[0] not in "01234567"}

    monkeypatch.setattr(fold, "fold", broken)
    with pytest.raises(Exception, match=r"lost|differ|no memory|KeyError|'[0-9a-f]{32}'"):
        run(Simulation, 2, 20, shrink=False)
