"""What git does with many memories in one notes ref: sizes, fetches, one more memory.

    python perf/notes_scale.py 100000 1000000

Writes generated memories (texts of `data.py`), ten at a commit, as `git mem` does, into a bare
repository on this disk; then fetches them as other clones would, by git's protocol over a pipe.
The commits that the memories are about are empty ones.
"""

from __future__ import annotations

import itertools
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from typing import Any

import data

from gitmem.core import record
from gitmem.store import Store, open_store

REF, EACH, AT_ONCE = "refs/notes/mem/team", 10, 20_000
ENV = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(where: pathlib.Path, *argv: str) -> bytes:
    return subprocess.run(
        ["git", *argv], cwd=where, env=ENV, check=True, stdout=subprocess.PIPE
    ).stdout


def line(draft: dict[str, Any], rng: random.Random) -> bytes:
    fields = {"v": 1, "id": f"{rng.getrandbits(128):032x}", "op": "create", "branch": "main"}
    known = {name: draft[name] for name in ("body", "title", "type", "source") if draft[name]}
    return record.dump(
        {**fields, "at": "2026-01-02T03:04:05Z", "author": "Ada <ada@example.org>", **known}
    )


def kib(where: pathlib.Path) -> int:
    counted = dict(row.split(b": ") for row in git(where, "count-objects", "-v").splitlines())
    return int(counted[b"size"]) + int(counted[b"size-pack"])


def commits(where: pathlib.Path, count: int) -> list[str]:
    """Ids of a line of empty commits, made here."""
    one = "commit refs/heads/main\ncommitter a <a@b> {} +0000\ndata 0\n"
    asked = "".join([one.format(1_700_000_000 + n) for n in range(count)])
    words = ["git", "fast-import", "--quiet"]
    subprocess.run(words, cwd=where, env=ENV, check=True, input=asked.encode())
    return git(where, "rev-list", "main").decode().split()


def timed(what: str, where: pathlib.Path, *argv: str) -> None:
    before, begun = kib(where), time.monotonic()
    git(where, *argv)
    print(f"| {what} | {time.monotonic() - begun:.1f} s | {(kib(where) - before) / 1024:.1f} MiB |")


def write(store: Store, where: pathlib.Path, count: int, rng: random.Random) -> int:
    """Puts so many memories into a repository without commits; returns the bytes of the lines."""
    about = iter(commits(where, -(-count // EACH)))
    drafts, size = data.memories(count), 0
    while part := list(itertools.islice(drafts, AT_ONCE)):
        anchors = list(itertools.islice(about, -(-len(part) // EACH)))
        items = [(anchors[i // EACH], line(draft, rng)) for i, draft in enumerate(part)]
        size += sum(len(text) + 1 for _, text in items)
        store.append("team", items, "perf")
    return size


def measure(top: pathlib.Path, count: int) -> None:
    hub, rng = top / "hub", random.Random(1)
    git(top, "init", "-q", "--bare", "hub")
    for key in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        git(hub, "config", key, "true")
    store, begun = open_store(ENV, str(hub)), time.monotonic()
    size = write(store, hub, count, rng)
    print(
        f"\n{count:,} memories, {size / 2**20:.0f} MiB of lines, {time.monotonic() - begun:.0f} s"
    )
    paths = git(hub, "ls-tree", "-r", "--name-only", REF).splitlines()
    trees = git(hub, "ls-tree", "-r", "-t", "-d", "--name-only", REF).splitlines()
    depth = max(path.count(b"/") for path in paths)
    print(f"{len(paths):,} notes in {len(trees) + 1:,} trees, {depth} levels of fan-out")
    git(hub, "repack", "-q", "-a", "-d", "--window=10", "--threads=1")
    print(f"packed, with the empty commits: {kib(hub) / 1024:.0f} MiB")
    print("| what | time | grows by |\n|---|---|---|")
    url = f"file://{hub}"
    for what, name, options in (
        ("fetch of all", "whole", []),
        ("fetch of the newest commit (--depth=1)", "shallow", ["--depth=1"]),
        ("fetch without texts (--filter=blob:none)", "bare", ["--filter=blob:none"]),
        ("the same of one commit", "both", ["--filter=blob:none", "--depth=1"]),
    ):
        git(top, "init", "-q", name)
        git(top / name, "remote", "add", "origin", url)
        timed(what, top / name, "fetch", "-q", *options, "origin", f"{REF}:{REF}")
    timed("fetch, nothing new", top / "whole", "fetch", "-q", "origin", f"{REF}:{REF}")
    one = (git(hub, "rev-parse", "main~5").decode().strip(), line(next(data.memories(1)), rng))
    before, begun = kib(hub), time.monotonic()
    store.append("team", [one], "one")
    took, grown = time.monotonic() - begun, (kib(hub) - before) / 1024
    print(f"| one more memory | {took:.2f} s | {grown:.2f} MiB |")
    timed("fetch of one more memory", top / "whole", "fetch", "-q", "origin", f"{REF}:{REF}")
    begun = time.monotonic()
    told = git(top, "ls-remote", url, REF)
    print(f"| ls-remote of the ref | {time.monotonic() - begun:.2f} s | {len(told)} bytes |")
    store.close()


if __name__ == "__main__":
    for wanted in map(int, sys.argv[1:] or ["10000"]):
        with tempfile.TemporaryDirectory(prefix="git-mem-scale-") as root:
            measure(pathlib.Path(root), wanted)
    print(f"load {os.getloadavg()[0]:.0f}, {os.cpu_count()} processors")
