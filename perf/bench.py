"""Whole cold processes against the floor F, a cold `python3 -c "import sqlite3"` taken in turn in
the same run.

    python perf/bench.py                          # 1,000, 10,000 and 100,000 memories
    python perf/bench.py --sizes 10000             # one size
    python perf/bench.py --against v0.1.0         # two revisions, in turn
    python perf/bench.py --write docs/performance.md

Figures are medians and 90th percentiles over different real questions; the
machine is named beside them. Data is seeded (`data.py`). Nothing here is a
test: a noisy machine must not turn a test red.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import data

BUDGETS = {
    "recall": "8 F at 10,000, 20 F where the encoder is asked",
    "remember": "10 F, flat within 20 %",
    "remember, one commit": "10 F, flat within 20 %",
    "bulk": "5,000 a second at 10,000",
    "index from nothing": "30 s, 1 GiB at 100,000",
    "index after 100 new": "20 F at 100,000",
}


class Bench:
    def __init__(self, programs: dict[str, str], root: pathlib.Path) -> None:
        self.programs = programs
        self.root = root
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "PYTHON"))}
        self.env.update(
            HOME=str(root),
            GIT_CONFIG_NOSYSTEM="1",
            GIT_AUTHOR_NAME="Ada",
            GIT_AUTHOR_EMAIL="ada@example.org",
            GIT_COMMITTER_NAME="Ada",
            GIT_COMMITTER_EMAIL="ada@example.org",
            LANG="C.UTF-8",
        )
        self.rows: list[tuple[str, ...]] = []

    def repo(self, name: str, commits: int = 3) -> pathlib.Path:
        path = self.root / name
        subprocess.run(["git", "init", "-q", "-b", "main", str(path)], env=self.env, check=True)
        stream = "".join(
            f"commit refs/heads/main\ncommitter Ada <ada@example.org> {1700000000 + i} +0000\ndata"
            f" 1\n{i % 10}\nM 100644 inline f{i % 7}.txt\ndata 4\n{i:04d}\n"
            for i in range(commits)
        )
        subprocess.run(
            ["git", "fast-import", "--quiet"],
            cwd=path,
            env=self.env,
            input=stream,
            text=True,
            check=True,
        )
        return path

    def commits(self, path: pathlib.Path) -> list[str]:
        return subprocess.run(
            ["git", "rev-list", "main"],
            cwd=path,
            env=self.env,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()

    def once(
        self,
        argv: list[str],
        cwd: pathlib.Path,
        stdin: str | None = None,
        ok: tuple[int, ...] = (0, 1),
    ) -> float:
        start = time.perf_counter()
        done = subprocess.run(
            argv,
            cwd=cwd,
            env=self.env,
            input=stdin,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        taken = time.perf_counter() - start
        if done.returncode not in ok:
            raise SystemExit(f"{argv[:3]} failed: {done.stderr[-300:]}")
        return taken

    def cold(
        self, what: str, size: int, cwd: pathlib.Path, calls: list[Callable[[str], list[str]]]
    ) -> None:
        """Each call once for every program and F, in turn."""
        taken: dict[str, list[float]] = {name: [] for name in ["F", *self.programs]}
        for call in calls:
            taken["F"].append(self.once([sys.executable, "-c", "import sqlite3"], cwd))
            for name, program in self.programs.items():
                taken[name].append(self.once(call(program), cwd))
        floor = statistics.median(taken["F"])
        for name in self.programs:
            middle, high = (
                statistics.median(taken[name]),
                statistics.quantiles(taken[name], n=10)[-1],
            )
            self.add(
                what,
                size,
                name,
                f"{middle * 1e3:.0f} ms = {middle / floor:.1f} F",
                f"{high * 1e3:.0f} ms = {high / floor:.1f} F",
            )

    def add(self, what: str, size: int, name: str, *figures: str, budget: str = "") -> None:
        row = (
            what,
            f"{size:,}",
            name,
            *figures,
            *[""] * (2 - len(figures)),
            budget or BUDGETS.get(what, ""),
        )
        self.rows.append(row)
        print("  ".join(row), flush=True)


def peak(argv: list[str], cwd: pathlib.Path, env: dict[str, str]) -> float:
    """Peak memory of one process, MiB."""
    code = (
        "import resource,subprocess,sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL);"
        " print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *argv],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout) / 1024


def measure(bench: Bench, size: int, questions: list[str]) -> None:
    import vectors  # which needs this module

    first = next(iter(bench.programs.values()))
    path = bench.repo(f"store-{size}", 1000)
    commits = bench.commits(path)
    lines = "".join(json.dumps(m) + "\n" for m in data.memories(size, commits=commits))
    bulk(bench, size, path, lines)
    bench.once([first, "remember", "--jsonl", "-"], path, lines)
    for name, program in bench.programs.items():
        shutil.rmtree(path / ".git" / "mem")
        taken = bench.once([program, "index"], path)
        bench.add(
            "index from nothing",
            size,
            name,
            f"{taken:.1f} s",
            f"{peak([program, 'index', '--rebuild'], path, bench.env):.0f} MiB",
        )
    vectors.generate(path, bench.env)
    del bench.env["GIT_MEM_ENCODER"]
    bench.cold("recall", size, path, [lambda p, q=q: [p, "recall", "--", q] for q in questions])  # type: ignore[misc]
    batch = bench.root / "questions.jsonl"
    batch.write_text(
        "".join(json.dumps({"_id": str(i), "text": q}) + "\n" for i, q in enumerate(questions))
    )
    for name, program in bench.programs.items():
        taken = bench.once([program, "recall", "--batch", str(batch)], path)
        bench.add(
            "recall --batch, a question", size, name, f"{taken / len(questions) * 1e3:.1f} ms"
        )
    bench.env["GIT_MEM_ENCODER"] = "false"
    bench.cold("list -n 20", size, path, [lambda p: [p, "list", "--all", "-n", "20"]] * 11)
    bench.cold(
        "remember",
        size,
        path,
        [
            lambda p, i=i: [p, "remember", f"a memory {i} of its own, {time.time_ns()}"]
            for i in range(21)
        ],
    )  # type: ignore[misc]
    behind(bench, path, size, commits)
    share(bench, path, size, commits)


def bulk(bench: Bench, size: int, source: pathlib.Path, lines: str) -> None:
    """`remember --jsonl` into fresh clones, F taken before each."""
    for name, program in bench.programs.items():
        times, floors = [], []
        for round_ in range(5 if size <= 10_000 else 1):
            path = bench.root / f"bulk-{size}-{name or 'here'}-{round_}"
            subprocess.run(
                ["git", "clone", "-q", str(source), str(path)], env=bench.env, check=True
            )
            floors += [bench.once([sys.executable, "-c", "import sqlite3"], path) for _ in range(5)]
            times.append(bench.once([program, "remember", "--jsonl", "-"], path, lines))
            shutil.rmtree(path)
        middle, floor = statistics.median(times), statistics.median(floors)
        bench.add(
            "bulk",
            size,
            name,
            f"{middle:.1f} s = {size / middle:,.0f} a second = {middle / floor:,.0f} F",
            f"best {min(times):.1f} s, F = {floor * 1e3:.0f} ms",
        )


def behind(bench: Bench, path: pathlib.Path, size: int, commits: list[str]) -> None:
    """`index` after 100 memories that another clone wrote and plain git fetched."""
    ref = "refs/notes/mem/team"

    def git(cwd: pathlib.Path, *argv: str) -> None:
        subprocess.run(
            ["git", *argv],
            cwd=cwd,
            env=bench.env,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    other = bench.root / f"other-{size}"
    git(bench.root, "clone", "-q", str(path), str(other))
    git(other, "fetch", "-q", "origin", f"{ref}:{ref}")
    shutil.copytree(path / ".git" / "mem", other / ".git" / "mem")
    for name, program in bench.programs.items():
        times, floors = [], []
        for round_ in range(9):
            rows = "".join(
                json.dumps(m) + "\n"
                for m in data.memories(100, seed=1000 + round_ + 100 * len(name), commits=commits)
            )
            git(other, "fetch", "-q", "origin", f"{ref}:{ref}")
            bench.once([program, "remember", "--jsonl", "-"], other, rows)
            git(path, "fetch", "-q", str(other), f"{ref}:{ref}")
            floors.append(bench.once([sys.executable, "-c", "import sqlite3"], path))
            times.append(bench.once([program, "index"], path))
        middle, floor = statistics.median(times), statistics.median(floors)
        bench.add(
            "index after 100 new", size, name, f"{middle * 1e3:.0f} ms = {middle / floor:.1f} F"
        )


def share(bench: Bench, path: pathlib.Path, size: int, commits: list[str]) -> None:
    """`sync` beside the bare git commands that move the same refs."""
    ref, hub, other = (
        "refs/notes/mem/team",
        bench.root / f"hub-{size}.git",
        bench.root / f"sharing-{size}",
    )

    def git(cwd: pathlib.Path, *argv: str) -> float:
        return bench.once(["git", *argv], cwd, ok=(0,))

    git(bench.root, "clone", "-q", "--bare", str(path), str(hub))
    git(bench.root, "clone", "-q", str(hub), str(other))
    git(path, "remote", "add", "hub", str(hub))
    for name, program in bench.programs.items():
        for cwd in (path, other):
            bench.once([program, "sync"], cwd, ok=(0,))
        times: dict[str, list[float]] = {what: [] for what in ("F", "out", "in", "nothing", "bare")}
        for round_ in range(9):
            rows = "".join(
                json.dumps(m) + "\n"
                for m in data.memories(100, seed=5000 + round_ + 100 * len(name), commits=commits)
            )
            bench.once([program, "remember", "--jsonl", "-"], path, rows)
            times["F"].append(bench.once([sys.executable, "-c", "import sqlite3"], path))
            times["out"].append(bench.once([program, "sync"], path, ok=(0,)))
            fetched = git(other, "fetch", "-q", "origin", f"+{ref}:refs/bare/team")
            git(hub, "update-ref", "refs/bare/back", f"{ref}~1")
            pushed = git(path, "push", "-q", "-f", "hub", f"{ref}:refs/bare/back")
            times["bare"].append(fetched + pushed)
            times["in"].append(bench.once([program, "sync"], other, ok=(0,)))
            times["nothing"].append(bench.once([program, "sync"], other, ok=(0,)))
        floor, bare = statistics.median(times["F"]), statistics.median(times["bare"])
        for what, key, budget in (
            ("sync, 100 to give", "out", "bare + 1 s at 100,000"),
            ("sync, 100 to take", "in", "bare + 1 s at 100,000"),
            ("sync, nothing new", "nothing", "bare + 10 F at 100,000"),
        ):
            middle = statistics.median(times[key])
            bench.add(
                what,
                size,
                name,
                f"{middle * 1e3:.0f} ms = {middle / floor:.1f} F",
                f"bare fetch and push of the same {bare * 1e3:.0f} ms",
                budget=budget,
            )


def one_commit(bench: Bench, count: int) -> None:
    """`count` single `remember` calls on one commit: time must stay flat, the repository small."""
    for name, program in bench.programs.items():
        path = bench.repo(f"one-commit-{name or 'here'}")
        bench.once([program, "init"], path)
        before = apparent(path)
        times = [
            bench.once([program, "remember", f"memory number {i}: {q}"], path)
            for i, q in zip(range(count), data.questions(count) * 9, strict=False)
        ]
        floor = statistics.median(
            bench.once([sys.executable, "-c", "import sqlite3"], path) for _ in range(21)
        )
        part = max(1, count // 10)
        first, last = statistics.median(times[:part]), statistics.median(times[-part:])
        bench.add(
            "remember, one commit",
            count,
            name,
            f"first tenth {first / floor:.1f} F, last tenth {last / floor:.1f} F"
            f" ({last / first - 1:+.0%})",
            f".git grew {(apparent(path) - before) / 1e6:.1f} MB, of it notes"
            f" {(apparent(path, cache=False) - before) / 1e6:.1f} MB",
        )


def apparent(path: pathlib.Path, cache: bool = True) -> int:
    return sum(
        f.stat().st_size
        for f in (path / ".git").rglob("*")
        if f.is_file() and (cache or "mem" not in f.relative_to(path / ".git").parts[:1])
    )


def build(revision: str, root: pathlib.Path) -> str:
    """The executable of another revision, installed into an environment of its own."""
    tree = root / "against"
    subprocess.run(["git", "worktree", "add", "-q", "--detach", str(tree), revision], check=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(root / "env")], check=True)
        subprocess.run([str(root / "env" / "bin" / "pip"), "install", "-q", str(tree)], check=True)
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(tree)], check=True)
    return str(root / "env" / "bin" / "git-mem")


def table(rows: list[tuple[str, ...]], machine: str) -> str:
    head = ("what", "memories", "revision", "median", "90th percentile, or other", "budget")
    all_rows = [head, ("---",) * len(head), *rows]
    if not any(row[2] for row in rows):  # one revision was measured
        all_rows = [row[:2] + row[3:] for row in all_rows]
    return f"{machine}\n\n" + "".join("| " + " | ".join(row) + " |\n" for row in all_rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument(
        "--program",
        default=shutil.which("git-mem"),
        help="the git-mem to measure (default: the one on PATH)",
    )
    parser.add_argument("--against", help="a revision to measure beside it")
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument(
        "--one-commit",
        type=int,
        default=1000,
        metavar="N",
        help="single calls on one commit; 0 leaves it out",
    )
    parser.add_argument(
        "--write", metavar="FILE", help="replace the table between the perf markers of a document"
    )
    args = parser.parse_args()
    if not data.ROOT.is_dir():
        raise SystemExit(
            f"skipped: no evaluation texts at '{data.ROOT}' (GIT_MEM_EVAL_ROOT names the folder)"
        )
    with tempfile.TemporaryDirectory(prefix="git-mem-perf-") as name:
        root = pathlib.Path(name)
        programs = (
            {"": args.program}
            if not args.against
            else {"here": args.program, args.against: build(args.against, root)}
        )
        bench = Bench(programs, root)
        bench.env["GIT_MEM_ENCODER"] = "false"  # no worker that makes vectors beside
        if args.one_commit:
            one_commit(bench, args.one_commit)
        for size in map(int, args.sizes.split(",")):
            measure(bench, size, data.questions(args.questions))
        floor = statistics.median(
            bench.once([sys.executable, "-c", "import sqlite3"], root) for _ in range(21)
        )
        revision = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip()
        machine = (
            f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, Python"
            f" {platform.python_version()}, commit {revision}, F = {floor * 1e3:.1f} ms,"
            f" {time.strftime('%Y-%m-%d')}."
        )
        text = table(bench.rows, machine)
        if args.write:
            page = pathlib.Path(args.write).read_text(encoding="utf-8")
            begin, end = "<!-- perf:begin -->", "<!-- perf:end -->"
            head, _, rest = page.partition(begin)
            pathlib.Path(args.write).write_text(
                f"{head}{begin}\n{text}{end}{rest.partition(end)[2]}", encoding="utf-8"
            )
        print("\n" + text)


if __name__ == "__main__":
    main()
