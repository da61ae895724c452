"""What git hooks cost a commit: `git commit` with and without them, in turn.

    python perf/hooks.py [--runs 200]

Each round commits once in every repository, in an order that changes; what is printed is the
difference to a repository without hooks: of medians, of minima, and of the processor time of all
processes that the commit waits for, which other load on the machine changes least. "starts the
worker" is the first commit of a series, "worker is there" each one that follows; through a pipe is
`git commit | cat`, which ends when nobody has the pipe open any more. The worker itself runs
beside, niced."""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time


class Bench:
    def __init__(self, root: pathlib.Path) -> None:
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

    def run(self, cwd: pathlib.Path, *argv: str) -> None:
        subprocess.run(
            argv,
            cwd=cwd,
            env=self.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )

    def repo(self, name: str, hooks: str) -> pathlib.Path:
        path = self.root / name
        subprocess.run(["git", "init", "-q", "-b", "main", str(path)], env=self.env, check=True)
        self.run(path, "git", "commit", "--allow-empty", "-m", "first")
        (path / ".git/mem").mkdir()
        if hooks == "theirs":
            hook = path / ".git/hooks/post-commit"
            hook.write_text("#!/bin/sh\n:\n")
            hook.chmod(0o755)
        if hooks == "forwarded":
            self.run(path, "git", "config", "core.hooksPath", ".husky/_")
        if hooks in ("ours", "forwarded"):
            self.run(path, sys.executable, "-m", "gitmem", "install", "git")
        return path

    def end_worker(self, repo: pathlib.Path) -> None:
        """What a worker does later is not to slow the next commit down."""
        pid = repo / ".git/mem/worker.pid"
        try:
            os.kill(int(pid.read_text()), signal.SIGTERM)
        except (OSError, ValueError):
            pass
        pid.unlink(missing_ok=True)

    def commit(self, repo: pathlib.Path, pipe: bool, options: str = "") -> tuple[float, float]:
        """(wall, processor) milliseconds."""
        line = f"git commit -q --allow-empty -m x {options}" + (" | cat" if pipe else "")
        start = time.perf_counter()
        process = subprocess.Popen(
            ["sh", "-c", line], cwd=repo, env=self.env, stdout=subprocess.DEVNULL
        )
        _, status, used = os.wait4(process.pid, 0)
        taken = time.perf_counter() - start
        if status:
            raise SystemExit(f"{line}: {status}")
        process.returncode = 0
        return taken * 1000, (used.ru_utime + used.ru_stime) * 1000


def figures(values: list[tuple[float, float]]) -> tuple[float, float, float]:
    """(median, minimum) of the wall time and the median of the processor time."""
    return (
        statistics.median(w for w, _ in values),
        min(w for w, _ in values),
        statistics.median(c for _, c in values),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(pathlib.Path(directory))
        # label: (what is installed, whether a worker is there)
        cases = {
            "no hook": ("none", True),
            "an empty hook in sh": ("theirs", True),
            "ours, worker is there": ("ours", True),
            "ours, starts the worker": ("ours", False),
            "forwarded, worker is there": ("forwarded", True),
            "forwarded, starts the worker": ("forwarded", False),
        }
        repos = {label: bench.repo(label, hooks) for label, (hooks, _) in cases.items()}
        for label, (_, there) in cases.items():
            if there:  # a living process, as far as hooks can see
                (repos[label] / ".git/mem/worker.pid").write_text(str(os.getpid()))
        print(
            "| `git commit` | | median | more than without: median | minimum | processor"
            " |\n|---|---|---|---|---|---|"
        )
        for how, pipe, options in (
            ("", False, ""),
            ("through a pipe", True, ""),
            ("--amend", False, "--amend"),
        ):
            taken: dict[str, list[tuple[float, float]]] = {label: [] for label in cases}
            for _ in range(runs):
                for label in random.sample(list(cases), len(cases)):
                    taken[label].append(bench.commit(repos[label], pipe, options))
                    if not cases[label][1]:
                        bench.end_worker(repos[label])
            floor = figures(taken["no hook"])
            for label, values in taken.items():
                found = figures(values)
                print(
                    f"| {how} | {label} | {found[0]:.2f} ms | "
                    + " | ".join(f"{a - b:+.2f} ms" for a, b in zip(found, floor, strict=True))
                    + " |"
                )


if __name__ == "__main__":
    main()
