"""Seed 002's five functions as they are here: our own work in each, against the budgets of that
design.

    python perf/loop.py                       # 10,000 memories
    python perf/loop.py --sizes 10000,100000 --runs 50

Each call runs in a fork of a process that has loaded everything: what is
measured is reading the input, finding the place, the work and the answer. What
the interpreter and the imports cost is in `perf/agents.py`, with everything
else a whole process costs. `consolidate` is what the worker does after the hook
of a session's end has gone: all of it, and of that the part that is about
feedback (the receipt, the record, the commit, the counting).
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

import agents
import data

from gitmem import worker
from gitmem.agents import (
    automemory,
    context,
    context_render,
    events,
    failures,
    hook,
    hook_cache,
    inject,
    receipts,
    session,
)
from gitmem.engine import search
from gitmem.feedback import usage
from gitmem.git import config_cache, discover
from gitmem.store import open_store

LOADED = (
    automemory,
    context_render,
    context,
    events,
    failures,
    discover,
    hook,
    inject,
    config_cache,
    hook_cache,
    search,
    usage,
)
WORDS = (
    "The orders and the invoices share one transaction, so the importer must not commit between"
    " them. "
)


def forked(action: Callable[[], None]) -> tuple[float, float]:
    """(wall, processor) seconds of an action in a process of its own."""
    out, into = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(out)
        wall, cpu = time.monotonic(), time.process_time()
        try:
            action()
        finally:
            os.write(into, f"{time.monotonic() - wall} {time.process_time() - cpu}".encode())
            os._exit(0)
    os.close(into)
    said = os.read(out, 100).decode().split()
    os.close(out)
    os.waitpid(pid, 0)
    return float(said[0]), float(said[1])


def called(
    repo: pathlib.Path, env: dict[str, str], event: str, name: str, **fields: object
) -> tuple[float, float]:
    payload = json.dumps({"session_id": name, "cwd": str(repo), "hook_event_name": event, **fields})

    def action() -> None:
        given, filling = os.pipe()
        if not os.fork():
            os.close(given)
            os.write(filling, payload.encode())
            os._exit(0)
        os.close(filling)
        # The deadline would end this process before it has said its time.
        hook.run(
            [event],
            {**env, "GIT_MEM_PATIENCE": "1000"},
            time.monotonic(),
            given,
            os.open(os.devnull, os.O_WRONLY),
        )

    return forked(action)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="10000")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--program", default=shutil.which("git-mem") or "git-mem")
    args = parser.parse_args()
    print(
        "| function of the seed | here | memories | wall: median, 90th | processor: median | budget"
        " |\n|---|---|---|---|---|---|"
    )
    for size in map(int, args.sizes.split(",")):
        with tempfile.TemporaryDirectory() as root:
            measure(agents.Bench(args.program, pathlib.Path(root)), size, args.runs)
    return 0


def measure(bench: agents.Bench, size: int, runs: int) -> None:
    repo = bench.store(size)
    mem = str(repo / ".git" / "mem")
    store = open_store(bench.env, str(repo))
    ids = [
        id
        for (id,) in store.with_cache(
            lambda cache: cache.db.execute(
                "SELECT id FROM memory WHERE status = 0 LIMIT 400"
            ).fetchall()
        )[0]
    ]
    store.close()
    found: dict[str, list[tuple[float, float]]] = {}
    answer = WORDS * 200 + f"So it was decided in {ids[7][:8]}. " + WORDS * 10
    for i, question in enumerate(data.questions(runs)):
        name = f"s{i}"
        note = found.setdefault
        note("init", []).append(called(repo, bench.env, "SessionStart", name, source="startup"))
        note("getContext", []).append(
            called(repo, bench.env, "UserPromptSubmit", name, prompt=question)
        )
        note("nothing", []).append(called(repo, bench.env, "SubagentStop", name))
        note("recordEdit", []).append(
            called(
                repo,
                bench.env,
                "PostToolUse",
                name,
                tool_name="Edit",
                tool_input={"file_path": "f0.txt"},
                tool_response={},
            )
        )
        session.Notes(mem, name).add_shown(
            ids[(i % 9) * 40 : (i % 9) * 40 + 40] + ids[:40], "prompt", "claude", "", {}
        )
        note("feedback", []).append(
            called(repo, bench.env, "Stop", name, last_assistant_message=answer)
        )
        session.Notes(mem, name).add("end", ["other"])

        def tend() -> None:
            own = open_store(bench.env, str(repo))
            receipts.tend(own)
            own.with_cache(lambda cache: None)

        if i % 2:
            note("consolidate, feedback alone", []).append(forked(tend))
        else:
            note("consolidate", []).append(
                forked(lambda: worker.run(str(repo / ".git"), bench.env, linger=0.0, wait=60.0))
            )
    known = {
        "nothing": ("SubagentStop without an answer", 2),
        "init": ("SessionStart", 200),
        "getContext": ("UserPromptSubmit", 15),
        "recordEdit": ("PostToolUse", 2),
        "feedback": ("Stop", 10),
        "consolidate": ("worker after SessionEnd", 500),
        "consolidate, feedback alone": ("receipt, record, commit, credit", 500),
    }
    for name, (event, budget) in known.items():
        wall, cpu = sorted(w for w, _ in found[name]), [c for _, c in found[name]]
        print(
            f"| {name} | {event} | {size:,} | {statistics.median(wall) * 1000:.1f},"
            f" {wall[int(len(wall) * 0.9)] * 1000:.1f} ms | {statistics.median(cpu) * 1000:.1f} ms"
            f" | {budget} ms |"
        )


if __name__ == "__main__":
    sys.exit(main())
