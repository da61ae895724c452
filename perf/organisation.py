"""How long the organisation's index takes to answer.

    python perf/organisation.py 'postgresql://git@/postgres?host=/tmp/cluster'

Fills the index with generated memories (texts of `data.py`, terms and vectors made as for any
other, written by the same statements; only the repositories are names), then asks real questions:
the statements alone, the answer in a warm process, and `git mem recall --from` as a cold process.
`--keep` leaves the rows there, `--filled` expects them. With pgvector the index of the vectors is
made after the rows, as pgvector's manual advises for a first fill.

`--mirrors 10000`: instead, so many small repositories, of ten memories each, are taken in by one
`git mem index --to`, and looked at once more when nothing is new.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import data
from bench import Bench

from gitmem.core.digest import sha256
from gitmem.engine.document import prepare
from gitmem.engine.embed import StaticTable
from gitmem.organisation import index_answer, postgres
from gitmem.organisation.postgres import Row

NAME = "example.org/perf/"
_VECTORS = (
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = %s AND indexdef LIKE '%%hnsw%%'"
)


def rows(drafts: list[dict[str, Any]], table: StaticTable) -> Iterator[Row]:
    for draft, (fields, vector) in zip(drafts, prepare(table, drafts), strict=True):
        item = {
            "kind": "memory",
            "author": "Ada <ada@example.org>",
            "tags": [],
            "scope": "team",
            "provenance": None,
            "created_at": "2026-01-02T03:04:05Z",
            "status": "active",
            **draft,
            "title": draft["title"] or str(draft["body"])[:80],
            "id": sha256(str(draft["source"]).encode()).hexdigest()[:32],
            "paths": [{"path": p, "state": "unknown"} for p in draft.get("paths", ())],
            "anchor": {"commit": "0" * 40, "branch": "main", "state": "unknown"},
        }
        words = " ".join(fields).split()
        yield Row(
            item["id"], sha256(item["id"].encode()).digest()[:16], json.dumps(item), words, vector
        )


def fill(url: str, repositories: int, each: int) -> None:
    table, begun = StaticTable(), time.monotonic()
    with postgres.opened(url, table.space) as index:
        index.prepare()
        vectors = index._db.execute(_VECTORS, (postgres.SCHEMA,)).fetchall()
        for name, _ in vectors:
            index._db.execute(f'DROP INDEX {postgres.SCHEMA}."{name}"')
        try:
            drafts = data.memories(repositories * each)
            for n in range(repositories):
                part = list(itertools.islice(drafts, each))
                index.write(f"{NAME}{n:05}", "0" * 40, table.space, rows(part, table), [])
                told = f"\r{n + 1} repositories, {time.monotonic() - begun:.0f} s"
                print(told, end="", file=sys.stderr)
        finally:
            for _, statement in vectors:
                print(f"\nrows written in {time.monotonic() - begun:.0f} s", file=sys.stderr)
                index._db.execute("SET maintenance_work_mem = '2GB'")
                index._db.execute(statement)
        index.finish()
    print(f"\nfilled in {time.monotonic() - begun:.0f} s; {index.meaning or 'with vectors'}")


def mirrors(url: str, count: int) -> None:
    """Bare repositories of one team's memories, each with a remote of its own."""
    with tempfile.TemporaryDirectory() as temporary:
        bench = Bench({}, pathlib.Path(temporary))
        work, one = bench.repo("work", 10), pathlib.Path(temporary, "one.git")
        with tempfile.TemporaryFile("w+") as lines:
            lines.writelines(json.dumps(draft) + "\n" for draft in data.memories(10))
            lines.seek(0)
            argv = [sys.executable, "-m", "gitmem", "remember", "--jsonl", "-"]
            subprocess.run(
                argv, cwd=work, env=bench.env, stdin=lines, stdout=subprocess.DEVNULL, check=True
            )
        git = ["git", "clone", "--quiet", "--mirror", "--template=", str(work), str(one)]
        subprocess.run(git, env=bench.env, check=True)
        config = (one / "config").read_text()
        places = []
        for n in range(count):
            place = pathlib.Path(temporary, "mirrors", f"{n:05}.git")
            shutil.copytree(one, place, copy_function=os.link)
            (place / "config").unlink()
            named = f"https://{NAME}mirror-{n:05}.git"
            (place / "config").write_text(config.replace(str(work), named))
            places.append(str(place))
        for what in ("taken in", "looked at again"):
            argv = [sys.executable, "-m", "gitmem", "index", "--to", url, "--json", *places]
            begun = time.monotonic()
            told = subprocess.run(argv, env=bench.env, capture_output=True, check=True).stdout
            took = time.monotonic() - begun
            print(f"{count} mirrors {what}: {took:.0f} s, {1000 * took / count:.0f} ms each")
            print(f"  {told[:200].decode()}", file=sys.stderr)


class Timed:
    """A connection that adds up the time of its statements, answers and transfers included."""

    def __init__(self, db: Any) -> None:
        self.db, self.seconds = db, 0.0

    def execute(self, *args: Any) -> Any:
        begun = time.perf_counter()
        cursor = self.db.execute(*args)
        self.seconds += time.perf_counter() - begun
        return cursor


def told(what: str, seconds: list[float]) -> None:
    ms = sorted(1000 * s for s in seconds)
    print(
        f"{what}: median {statistics.median(ms):.0f} ms, 90th percentile"
        f" {ms[len(ms) * 9 // 10]:.0f} ms, longest {ms[-1]:.0f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--repositories", type=int, default=100)
    parser.add_argument("--memories", type=int, default=10_000, help="in each")
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--filled", action="store_true")
    parser.add_argument("--mirrors", type=int, default=0)
    given = parser.parse_args()
    if given.mirrors:
        mirrors(given.url, given.mirrors)
        return
    if not given.filled:
        fill(given.url, given.repositories, given.memories)
    asked, table = data.questions(given.questions), StaticTable()
    statements, warm, verdicts = [], [], []
    with postgres.opened(given.url, table.space) as index:
        timed = index._db = Timed(index._db)
        for question in (asked[0], *asked):  # the first one warms
            timed.seconds, begun = 0.0, time.perf_counter()
            verdicts.append(index_answer.recall(index, table, question, {}, 8)["verdict"])
            warm.append(time.perf_counter() - begun)
            statements.append(timed.seconds)
        size = timed.db.execute(
            f"SELECT pg_size_pretty(pg_total_relation_size('{postgres.SCHEMA}.memory'))"
        ).fetchone()[0]
        print(f"{index.count():,} memories, {size}; {index.meaning or 'with vectors'}")
    told("statements", statements[1:])
    told("answer in a warm process", warm[1:])
    cold, bare = [], []
    for question in asked[: max(10, given.questions // 3)]:
        for argv, into in (
            (["git-mem", "recall", "--from", given.url, question], cold),
            ([sys.executable, "-c", "import sqlite3"], bare),
        ):
            begun = time.perf_counter()
            subprocess.run(argv, stdout=subprocess.DEVNULL, check=False)
            into.append(time.perf_counter() - begun)
    told("whole cold process", cold)
    told("F", bare)
    print(f"load {os.getloadavg()[0]:.1f};", {v: verdicts.count(v) for v in sorted(set(verdicts))})
    if not given.keep:
        with postgres.opened(given.url, table.space) as index:
            index._db.execute(f"DROP SCHEMA {postgres.SCHEMA} CASCADE")


if __name__ == "__main__":
    main()
