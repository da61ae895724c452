"""N clones share a new memory through one bare repository at the same moment.

    python perf/clones.py 2 4 8 16 32 64
    python perf/clones.py --simulate 100 1000

Each calls `git mem sync` until it goes through. Everything runs on this machine: its processors
are shared by all clones, and a network would add its round trips to each push.

Simulated clones keep `sync`'s number of attempts and its pauses. A fetch takes half of EXCHANGE, a
push the other half, however many there are at once; a push is refused where another one has landed
since its fetch.
"""

from __future__ import annotations

import argparse
import heapq
import os
import pathlib
import random
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from gitmem import sync

EXCHANGE = 1.0  # seconds of a fetch and a push
ENV = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
ENV |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_MEM_ENCODER": "false"}
ENV |= {f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")}
ENV |= {f"GIT_{who}_EMAIL": "ada@example.org" for who in ("AUTHOR", "COMMITTER")}


def git(where: pathlib.Path, *argv: str, ok: bool = True) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *argv], cwd=where, env=ENV, capture_output=True, check=ok)


def share(clone: pathlib.Path, start: float) -> tuple[int, float]:
    """(calls, seconds) until the memory of this clone is in the hub."""
    time.sleep(max(0.0, start - time.time()))
    calls = 1
    while git(clone, "mem", "sync", ok=False).returncode:
        calls += 1
    return calls, time.time() - start


def race(top: pathlib.Path, clones: int) -> str:
    git(top, "init", "-q", "--bare", "-b", "main", "hub")
    git(top, "clone", "-q", "hub", "seed")
    git(top / "seed", "commit", "-q", "--allow-empty", "-m", "seed")
    git(top / "seed", "push", "-q", "origin", "HEAD:refs/heads/main")
    git(top / "seed", "mem", "remember", "the seed of all of them")
    git(top / "seed", "mem", "sync")
    names = [top / f"c{n}" for n in range(clones)]
    for n, clone in enumerate(names):
        git(top, "clone", "-q", "-b", "main", "hub", clone.name)
        git(clone, "mem", "sync")
        git(clone, "mem", "remember", f"the memory of clone {n}")
    start = time.time() + 0.2
    with ThreadPoolExecutor(clones) as pool:
        done = list(pool.map(lambda clone: share(clone, start), names))
    notes = git(top / "hub", "notes", "--ref=mem/team", "show", "main").stdout
    calls, seconds = zip(*done, strict=True)
    return (
        f"| {clones} | {notes.count(b'the memory of clone')} | {calls.count(1)} | {max(calls)} |"
        f" {statistics.median(seconds):.1f} s | {max(seconds):.1f} s |"
    )


def simulated(clones: int, numbers: random.Random) -> str:
    landed, calls, through = 0, [1] * clones, [0.0] * clones
    # (when, clone, attempt, pushes that its fetch has seen; None: it fetches now)
    queue: list[tuple[float, int, int, int | None]] = []
    for clone in range(clones):
        heapq.heappush(queue, (numbers.uniform(0, EXCHANGE / 10), clone, 1, None))
    while queue:
        now, clone, attempt, seen = heapq.heappop(queue)
        takes = EXCHANGE / 2 * numbers.uniform(0.8, 1.2)
        if seen is None:
            heapq.heappush(queue, (now + takes, clone, attempt, landed))
        elif seen == landed:
            landed += 1
            through[clone] = now
        else:
            if attempt == sync.ATTEMPTS:
                calls[clone], attempt = calls[clone] + 1, 0
            pause = min(sync.PAUSE * 2**attempt, 2.0) * numbers.uniform(0.5, 1.5)
            heapq.heappush(queue, (now + pause, clone, attempt + 1, None))
    return (
        f"| {clones} | {landed} | {calls.count(1)} | {max(calls)} |"
        f" {statistics.median(through):.1f} s | {max(through):.1f} s |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("clones", nargs="*", type=int, default=[2, 4, 8, 16])
    parser.add_argument("--simulate", action="store_true")
    given = parser.parse_args()
    print("| clones | memories kept | through with one call | most calls | median | all through |")
    print("|---|---|---|---|---|---|")
    if given.simulate:
        for clones in given.clones:
            print(simulated(clones, random.Random(1)))
        return
    for clones in given.clones:
        with tempfile.TemporaryDirectory(prefix="git-mem-clones-") as root:
            print(race(pathlib.Path(root), clones), flush=True)
    print(f"load {os.getloadavg()[0]:.0f}, {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
