#!/usr/bin/env python3
"""How well the context block is chosen, on the histories of real projects.

The messages of a project's commits are the memories (with their files and
times). At many points of the history a session begins: HEAD is there, what
came later is unknown. What the session then needs to know is taken from the
commits that were really made next: the memories about the commits that wrote
the lines which those change or delete (`git blame`), each with the logarithm
of its lines as gain. A point is either a step on the main line (the next
commits are the session) or the fork of a pull request (its commits are the
session, and the branch has its name).

Figures: nDCG@20 of the order of all candidates, beside newest-first, and the
share of the gains that lie in the block of 500 to 3000 tokens. `--fit` seeks
weights on the projects given; decision 21 says which were used for that and
which only for the report.

    python tools/eval_context.py GITDIR... [--points 60] [--fit] [--keep DIR]

Needs bare or plain repositories of others, which are not part of this one.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gitmem.agents import context, context_select, head_facts  # noqa: E402
from gitmem.agents.context_render import Block  # noqa: E402
from gitmem.core import record  # noqa: E402
from gitmem.engine import path_state_store  # noqa: E402
from gitmem.engine.filters import Filter  # noqa: E402
from gitmem.store import Store, open_store  # noqa: E402

WORDS = 8  # of a commit's text beside its subject, from which it is a memory
NEXT = 5  # commits of a session on the main line
TOP = 20
BUDGETS = (500, 1000, 3000)
Weights = tuple[float, ...]
TRAILERS = (
    "signed-off-by",
    "co-authored-by",
    "change-id",
    "reviewed-by",
    "acked-by",
    "tested-by",
    "fixes:",
    "closes:",
    "git-svn-id",
)
WEIGHTS = ("PATHS", "HAND", "BRANCH", "RECENT", "AGE")


def git(repo: str, *args: str) -> str:
    return subprocess.run(
        ["git", "-C", repo, *args], capture_output=True, check=True
    ).stdout.decode("utf-8", "replace")


class Commit:
    def __init__(
        self, id: str, parents: list[str], time: int, author: str, message: str, paths: list[str]
    ) -> None:
        self.id, self.parents, self.time, self.author, self.message, self.paths = (
            id,
            parents,
            time,
            author,
            message,
            paths,
        )

    @property
    def memory(self) -> dict[str, Any] | None:
        """The commit as a draft of a memory, None where it says too little."""
        subject, _, rest = self.message.partition("\n")
        body = "\n".join(
            line for line in rest.strip().split("\n") if not line.lower().startswith(TRAILERS)
        ).strip()
        if len(body.split()) < WORDS or len(self.parents) > 1:
            return None
        return {
            "title": subject[:200],
            "body": body[:4000],
            "type": "change",
            "commit": self.id,
            "paths": self.paths[:40],
            "author": self.author,
            "source": self.id,
            "created_at": subprocess_time(self.time),
        }


def subprocess_time(seconds: int) -> str:
    import datetime

    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def history(repo: str) -> dict[str, Commit]:
    raw = git(
        repo,
        "log",
        "--topo-order",
        "--reverse",
        "-z",
        "--name-only",
        "--no-renames",
        "--format=%x01%H%x02%P%x02%ct%x02%an%x02%B%x03",
        "HEAD",
    )
    out: dict[str, Commit] = {}
    for part in raw.split("\x01")[1:]:
        head, _, names = part.partition("\x03")
        id, parents, time, author, message = head.split("\x02", 4)
        paths = [n.strip("\n") for n in names.split("\0") if n.strip("\n")]
        out[id] = Commit(id, parents.split(), int(time), author, message.strip(), paths)
    return out


class Point:
    """A session: begun at `head`, on `branch`; `next` are the commits it will make."""

    def __init__(self, head: str, branch: str, next: list[str]) -> None:
        self.head, self.branch, self.next = head, branch, next


def points(repo: str, commits: dict[str, Commit], most: int) -> list[Point]:
    """Points in the later two thirds of the history, evenly taken; main line and pull requests
    alike.
    """
    line = git(repo, "rev-list", "--first-parent", "--reverse", "HEAD").split()
    start = len(line) // 3
    found: list[Point] = []
    for i in range(start, len(line)):
        commit = commits[line[i]]
        if len(commit.parents) == 2:
            subject = commit.message.split("\n")[0]
            name = (
                subject.rpartition(" from ")[2].partition("/")[2]
                if subject.startswith("Merge pull request")
                else ""
            )
            own = [
                c
                for c in git(
                    repo,
                    "rev-list",
                    "--reverse",
                    "--no-merges",
                    f"{commit.parents[0]}..{commit.parents[1]}",
                ).split()
                if c in commits
            ]
            fork = git(repo, "merge-base", *commit.parents).strip()
            if name and fork and 0 < len(own) <= 30:
                found.append(Point(fork, name, own))
        elif i + NEXT < len(line) and all(
            len(commits[c].parents) == 1 for c in line[i + 1 : i + 1 + NEXT]
        ):
            found.append(Point(line[i], "main", line[i + 1 : i + 1 + NEXT]))
    step = max(1, len(found) // (most * 2))
    return found[::step]


def written_by(repo: str, commit: Commit) -> dict[str, int]:
    """{commit: lines of it that this one changes or deletes}."""
    out: dict[str, int] = {}
    if len(commit.parents) != 1:
        return out
    parent = commit.parents[0]
    diff = git(repo, "diff-tree", "-p", "-U0", "--no-renames", "--diff-filter=M", parent, commit.id)
    ranges: dict[str, list[str]] = {}
    name = ""
    for line in diff.split("\n"):
        if line.startswith("--- a/"):
            name = line[6:].rstrip("\t")
        elif line.startswith("@@ ") and name:
            first, _, count = line.split(" ")[1][1:].partition(",")
            if count != "0":
                ranges.setdefault(name, []).append(f"{first},+{count or 1}")
    for path, hunks in sorted(ranges.items())[:8]:
        where = [word for hunk in hunks[:20] for word in ("-L", hunk)]
        done = subprocess.run(
            ["git", "-C", repo, "blame", "-s", "-l", *where, parent, "--", path],
            capture_output=True,
            check=False,
        )
        for row in done.stdout.decode("utf-8", "replace").split("\n"):
            id = row.split(" ")[0].lstrip("^")
            if len(id) in (39, 40):
                out[id] = out.get(id, 0) + 1
    return out


class Project:
    """One history with its memories in a git mem of its own."""

    def __init__(self, source: str, root: str, most: int) -> None:
        self.name = next(
            p for p in reversed(Path(source).resolve().parts) if p not in ("repo", ".git")
        )
        self.repo = os.path.join(root, self.name)
        self.commits = history(source)
        fresh = not os.path.isdir(self.repo)
        if fresh:
            subprocess.run(
                ["git", "clone", "-q", "--shared", "--no-checkout", source, self.repo], check=True
            )
        self.drafts = [m for c in self.commits.values() for m in [c.memory] if m]
        if fresh:
            lines = "".join(json.dumps(m) + "\n" for m in self.drafts)
            subprocess.run(
                [sys.executable, "-m", "gitmem", "remember", "--jsonl", "-"],
                cwd=self.repo,
                input=lines.encode(),
                check=False,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": str(ROOT), "GIT_MEM_SECRETS": "allow"},
            )
        self.store: Store = open_store(os.environ, self.repo)
        self.store.with_cache(lambda cache: None)  # the cache is up to date from here on
        self.points = self._points(source, most)

    def _points(self, source: str, most: int) -> list[tuple[Point, dict[str, float]]]:
        """(point, {source id of a memory: gain}), those without any gain left out; kept in a file
        beside the clone.
        """
        kept = Path(self.repo + f".{most}.json")
        if kept.exists():
            return [(Point(*p), gains) for p, gains in json.loads(kept.read_text())]
        known = {m["source"] for m in self.drafts}
        out = []
        for point in points(source, self.commits, most):
            lines: dict[str, int] = {}
            own = set(point.next)
            for id in point.next[:NEXT]:
                for writer, n in written_by(source, self.commits[id]).items():
                    if (
                        writer not in own
                        and writer in known
                        and self.commits[writer].time <= self.commits[point.head].time
                    ):
                        lines[writer] = lines.get(writer, 0) + n
            if lines:
                out.append((point, {id: math.log2(1 + n) for id, n in lines.items()}))
            if len(out) >= most:
                break
        random.Random(7).shuffle(out)
        out = out[:most]
        kept.write_text(json.dumps([((p.head, p.branch, p.next), g) for p, g in out]))
        return out


def ndcg(order: list[str], gains: dict[str, float]) -> float:
    got = sum(gains.get(id, 0.0) / math.log2(i + 2) for i, id in enumerate(order[:TOP]))
    best = sum(
        g / math.log2(i + 2) for i, g in enumerate(sorted(gains.values(), reverse=True)[:TOP])
    )
    return got / best


class Session:
    """The candidates of one point, with what speaks for each."""

    def __init__(self, project: Project, point: Point, gains: dict[str, float]) -> None:
        self.point, self.gains = point, gains
        head = project.commits[point.head]
        until = subprocess_time(head.time)
        cache = project.store._open()
        known = head_facts.Facts(head_facts.of(project.store.repo, point.head), True)
        self.known = known
        found = context._Candidates(cache, Filter(until=until))
        self.newest = found.newest_time()
        found.gather(known, context._branch_terms(point.branch), (), ())
        rows = list(found.at)
        ids = dict(
            cache.db.execute(
                f"SELECT row, source FROM memory WHERE row IN ({','.join(map(str, rows))})"
            )
        )
        self.parts = {
            ids[row]: (
                found.paths.get(row, 0.0),
                found.hand.get(row, 0.0),
                found.branch.get(row, 0.0),
                found.recent.get(row, 0.0),
                record.days(at) or 0.0,
            )
            for row, at in found.at.items()
        }
        self.newest_first = [
            ids[r] for r in sorted(rows, key=lambda r: (found.at[r], ids[r]), reverse=True)
        ]
        place: Any = types.SimpleNamespace(head=point.head)
        frame = Block(timestamp=self.newest)
        items = found.items(place, frame, set(), path_state_store.read, None)
        sources = dict(
            cache.db.execute(
                f"SELECT id, source FROM memory WHERE row IN ({','.join(map(str, rows))})"
            )
        )
        self.told = {budget: self._told(items, sources, budget) for budget in BUDGETS}
        plain = context._Candidates(cache, Filter(until=until))
        plain._rows("", context.NEWEST)
        newest = [
            (record.days(item.at) or 0.0, item)
            for _, item in plain.items(place, frame, set(), path_state_store.read, None)
        ]
        self.told_newest = {budget: self._told(newest, sources, budget) for budget in BUDGETS}
        self.reachable = sum(gains.get(i, 0.0) for i in ids.values()) / sum(gains.values())

    def _told(self, items: list[tuple[float, Any]], sources: dict[str, str], budget: int) -> float:
        """The share of the gains that a block of this budget tells."""
        frame = Block(
            project="project",
            branch=self.point.branch,
            budget=budget,
            total=len(items),
            timestamp=self.newest,
        )
        context_select.choose(frame, items)
        return sum(self.gains.get(sources[id], 0.0) for id in frame.ids) / sum(self.gains.values())

    def order(self, weights: Weights, half: float) -> list[str]:
        now = record.days(self.newest) or 0.0
        scored = []
        for id, (*parts, day) in self.parts.items():
            age = math.exp(-0.6931 * max(0.0, now - day) / half)
            scored.append(
                (-sum(w * p for w, p in zip(weights, [*parts, age], strict=True)), -day, id)
            )
        return [id for _, _, id in sorted(scored)]


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def quality(sessions: list[Session], weights: Weights, half: float) -> float:
    return mean([ndcg(s.order(weights, half), s.gains) for s in sessions])


def fit(groups: list[list[Session]]) -> None:
    """Weights by coordinate search, best mean over the projects."""

    def total(w: Weights, half: float) -> float:
        return mean([quality(g, w, half) for g in groups])

    best = tuple(getattr(context_select, name) for name in WEIGHTS)
    half = context_select.HALF
    value = total(best, half)
    for _ in range(3):
        before = value
        for i in range(len(WEIGHTS)):
            for factor in (0.0, 0.3, 0.5, 0.7, 1.4, 2.0, 3.0):
                tried = (*best[:i], best[i] * factor if best[i] else factor, *best[i + 1 :])
                got = total(tried, half)
                if got > value + 1e-5:
                    best, value = tried, got
        for h in (3, 7, 14, 30, 60, 120, 240):
            got = total(best, float(h))
            if got > value + 1e-5:
                half, value = float(h), got
        print("fit", [round(b, 3) for b in best], half, round(value, 4))
        if value - before < 1e-4:
            break


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("repos", nargs="*")
    parser.add_argument("--points", type=int, default=60)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--keep", help="directory in which clones and points stay for the next run")
    args = parser.parse_args()
    if not args.repos:
        print("no repositories given: nothing to measure")
        return 0
    root = args.keep or tempfile.mkdtemp()
    os.makedirs(root, exist_ok=True)
    weights = tuple(getattr(context_select, name) for name in WEIGHTS)
    groups = []
    try:
        for source in args.repos:
            project = Project(os.path.abspath(source), root, args.points)
            sessions = [Session(project, p, g) for p, g in project.points]
            groups.append(sessions)
            for kind, some in (
                ("main line", [s for s in sessions if s.point.branch == "main"]),
                ("branch", [s for s in sessions if s.point.branch != "main"]),
            ):
                if some:
                    shares = " ".join(
                        f"{mean([s.told_newest[b] for s in some]):.2f}/{mean([s.told[b] for s in some]):.2f}"  # noqa: E501
                        for b in BUDGETS
                    )
                    print(
                        f"{project.name:26} {kind:9} {len(some):3} sessions, {len(project.drafts)}"
                        f" memories: nDCG@{TOP} newest first"
                        f" {mean([ndcg(s.newest_first, s.gains) for s in some]):.3f}, chosen"
                        f" {quality(some, weights, context_select.HALF):.3f}; told in"
                        f" {BUDGETS} tokens"
                        f" {shares}; among candidates {mean([s.reachable for s in some]):.2f}",
                        flush=True,
                    )
        if args.fit:
            fit(groups)
            for i, name in enumerate(WEIGHTS):
                without = (*weights[:i], 0.0, *weights[i + 1 :])
                print(
                    f"without {name}:"
                    f" {mean([quality(g, without, context_select.HALF) for g in groups]):.4f}"
                )
    finally:
        if not args.keep:
            shutil.rmtree(root, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
