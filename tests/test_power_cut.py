"""The power fails at calls that change a file: nothing acknowledged is lost."""

from __future__ import annotations

import json
import random
import shutil
import sys

from crash_world import BULK, NEW, OLD, SECRET, THEIRS, records, sound
from faults.harness import ALL, MEM, SEED, Bench, Run, cut

pytest_plugins = ["crash_world"]


def power(
    bench: Bench, argv: list[str], kept: list[str], new: list[str], share: int, stdin: str = ""
) -> None:
    """Power cuts at calls of a command, and after its end; how much is lost is chosen by the seed
    and the call.
    """
    template = bench.root / "template"

    def one(run: Run, at: int) -> None:
        said = bool(run.answer)
        for variant in range(2 if ALL else 1):
            root = bench.root / f"{run.root.name}-{variant}"
            shutil.copytree(run.root, root, symlinks=True)
            rng = random.Random(f"{SEED} {at} {variant}")
            moved = Run(
                root,
                run.status,
                run.answer,
                run.error,
                run.calls,
                run.processes,
                [
                    e._replace(
                        path=e.path.replace(str(run.root), str(root)),
                        more=e.more.replace(str(run.root), str(root)),
                    )
                    for e in run.events
                ],
            )
            lost = cut(
                moved,
                template,
                rng,
                lose=rng.choice([1.0, 0.5]),
                fill=rng.choice(["empty", "zeros"]),
                undo=rng.random() < 0.5,
            )
            try:
                sound(bench.lab, moved, kept, new, acknowledged=said, quiet=False)
            except BaseException as e:
                e.add_note(f"power cut, variant {variant}; lost: {lost}")
                raise
            shutil.rmtree(root)

    bench.each(argv, one, share=share, stdin=stdin)


def test_a_power_cut_at_any_call_of_a_remember(bench: Bench) -> None:
    power(bench, [*MEM, "remember", NEW], [*OLD, SECRET], [NEW], 6)


def test_a_power_cut_at_any_call_of_the_first_remember(empty: Bench) -> None:
    power(empty, [*MEM, "remember", NEW], [], [NEW], 4)


def test_a_power_cut_at_any_call_of_a_sync(shared: Bench) -> None:
    power(shared, [*MEM, "sync"], [*OLD, SECRET], [THEIRS], 4)


def test_a_power_cut_in_an_import_keeps_the_blocks_that_were_answered(bench: Bench) -> None:
    bench.lab.git(bench.template, "config", "fastimport.unpackLimit", "2")
    texts = [f"invoice number {i} of the import" for i in range(18)]
    lines = "".join(json.dumps({"body": t}) + "\n" for t in texts)

    def one(run: Run, at: int) -> None:
        rng = random.Random(f"{SEED} {at}")
        answered = {json.loads(row)["id"] for row in run.answer.splitlines() if row.endswith("}")}
        lost = cut(
            run,
            bench.root / "template",
            rng,
            lose=rng.choice([1.0, 0.5]),
            fill=rng.choice(["empty", "zeros"]),
            undo=rng.random() < 0.5,
        )
        there = sound(bench.lab, run, [*OLD, SECRET], texts, quiet=False)
        assert there == set(texts[: len(there)]) and len(there) % 6 == 0
        assert answered <= {r.id for r in records(bench.lab, run.repo)}, lost

    bench.each(
        [sys.executable, "-uc", BULK, "remember", "--jsonl", "-", "--json"],
        one,
        share=4,
        stdin=lines,
    )
