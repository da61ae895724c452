"""N clones share a new memory through one bare repository at the same moment.

    python perf/clones.py 2 4 8 16 32 64

Each calls `git mem sync` until it goes through. Everything runs on this machine: its processors
are shared by all clones, and a network would add its round trips to each push.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

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


def main() -> None:
    print("| clones | memories kept | through with one call | most calls | median | all through |")
    print("|---|---|---|---|---|---|")
    for clones in map(int, sys.argv[1:] or ["2", "4", "8", "16"]):
        with tempfile.TemporaryDirectory(prefix="git-mem-clones-") as root:
            print(race(pathlib.Path(root), clones), flush=True)
    print(f"load {os.getloadavg()[0]:.0f}, {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
