"""What a move of HEAD costs the worker, and what it costs a hook: nothing.

    python perf/where.py [--commits 100000] [--memories 100000] [--anchors 20000] [--keep DIR]
    [--write]

The history comes from a seed through one `git fast-import`: a main line with a merged side branch
in every ten commits, open branches with memories on each commit, branches that were squashed, and a
release branch that left the main line long ago. In every 300 commits a file is renamed, in every
500 one is deleted and another one begun. Memories are made with `remember --jsonl`, each about the
file its commit changed. Without --graph the repository has no commit-graph, as a clone that was
never packed again.

Each row is one move made with git, then one worker as a hook would start it,
without its pause at the end: the step that looks where memories stand
(`anchor_state_update.update`: anchors, and the paths of memories), and the whole process
with the git processes it starts. Processor time, which other load changes
least; wall time beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import data
from where_history import history

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs" / "performance.md"
BEGIN, END = "<!-- where:begin -->", "<!-- where:end -->"

# What `spool` starts, with the clock of each step read.
_WORKER = """
import gc, json, os, sys, time
gc.disable()  # as `__main__` does
sys.path[:0] = [a for a in sys.argv[2:] if a[0] != "-"]
from gitmem import worker
def clock():
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system
spent = {}
def timed(name, step):
    def run(store):
        from_, wall = clock(), time.perf_counter()
        try:
            step(store)
        except Exception as e:
            print(name, repr(e), file=sys.stderr)
        old = spent.get(name, (0, 0))
        spent[name] = (old[0] + clock() - from_, old[1] + time.perf_counter() - wall)
    return run
worker._AFTER = {name: timed(name, step) for name, step in worker._AFTER.items()}
from gitmem.anchors import anchor_state_update  # a part of the step
rows = anchor_state_update.path_rows
def paths(*args):
    from_ = clock()
    try:
        return rows(*args)
    finally:
        spent["paths"] = (clock() - from_, 0)
anchor_state_update.path_rows = paths
worker.run(sys.argv[1], os.environ, 0.0)
print(json.dumps(spent))
"""


class World:
    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.repo = root / "repo"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "PYTHON"))} | {
            "GIT_MEM_EVAL_ROOT": os.environ.get("GIT_MEM_EVAL_ROOT", "")
        }
        self.env.update(
            HOME=str(root),
            GIT_CONFIG_NOSYSTEM="1",
            GIT_AUTHOR_NAME="Ada",
            GIT_AUTHOR_EMAIL="ada@example.org",
            GIT_COMMITTER_NAME="Ada",
            GIT_COMMITTER_EMAIL="ada@example.org",
            LANG="C.UTF-8",
            GIT_EDITOR="true",
            GIT_MEM_ENCODER="false",  # else `remember` starts a worker that is not measured
        )
        self.options: list[str] = []
        self.package: list[str] = []  # of another checkout, to be measured instead

    def git(self, *argv: str, stdin: bytes = b"", cwd: pathlib.Path | None = None) -> str:
        done = subprocess.run(
            ["git", *argv],
            cwd=cwd or self.repo,
            env=self.env,
            input=stdin,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"git {argv}: {done.stderr.decode()}")
        return done.stdout.decode()

    def cache(self) -> None:
        """The cache is made, and nobody has looked where memories stand."""
        (self.repo / ".git" / "mem").mkdir()
        (self.repo / ".git" / "mem" / "checked").touch()
        code = (
            "import os, sys; sys.path[:0] = sys.argv[1:]; from gitmem.store import open_store;"
            " open_store(os.environ).with_cache(lambda cache: None)"
        )
        subprocess.run(
            [sys.executable, "-I", "-c", code, *self.package],
            cwd=self.repo,
            env=self.env,
            check=True,
        )

    def worker(self) -> dict[str, float]:
        """Seconds of one worker: the step and the whole, of processors and of the clock."""
        start = time.perf_counter()
        process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-c",
                _WORKER,
                str(self.repo / ".git"),
                *self.package,
                *self.options,
            ],
            cwd=self.repo,
            env=self.env,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = status
        spent = json.loads(said)
        return {
            "step": spent["anchors"][0],
            "paths": spent.get("paths", (0, 0))[0],
            "step_wall": spent["anchors"][1],
            "whole": used.ru_utime + used.ru_stime,
            "whole_wall": time.perf_counter() - start,
            "others": sum(
                cpu for name, (cpu, _) in spent.items() if name not in ("anchors", "paths")
            ),
        }


def build(world: World, commits: int, memories: int, anchors: int) -> None:
    """The repository with its memories, as one worker has left it."""
    world.repo.mkdir(parents=True)
    world.git("init", "-q", "-b", "main")
    for name, value in (("gc.auto", "0"), ("maintenance.auto", "false")):
        world.git("config", name, value)
    stream = subprocess.Popen(
        ["git", "fast-import", "--quiet", "--done"],
        cwd=world.repo,
        env=world.env,
        stdin=subprocess.PIPE,
    )
    assert stream.stdin is not None
    for part in history(commits):
        stream.stdin.write(part)
    stream.stdin.close()
    if stream.wait():
        raise SystemExit("fast-import failed")
    world.git("reset", "-q", "--hard")
    world.git("branch", "-q", "-D", "side")
    world.git("config", "notes.rewriteRef", "refs/notes/mem/*")
    (world.repo / ".git" / "mem").mkdir()
    rng = random.Random(2)
    open_ = world.git("rev-list", "--branches=topic*", "--not", "main").split()
    main = world.git("rev-list", "main").split()
    chosen = open_ + rng.sample(main, anchors - len(open_))
    changed: dict[str, str] = {}
    for row in world.git(
        "diff-tree", "-r", "--root", "--name-only", "--stdin", stdin="\n".join(chosen).encode()
    ).splitlines():
        if len(row) == 40:
            at = row
        else:
            changed[at] = row  # of a rename the new name, or the old one
    rng.shuffle(chosen)
    lines = []
    for i, draft in enumerate(data.memories(memories)):
        commit = chosen[i % len(chosen)]
        draft["commit"] = commit
        draft["paths"] = [changed[commit]] if commit in changed else []
        lines.append(json.dumps(draft))
    done = subprocess.run(
        [sys.executable, "-m", "gitmem", "remember", "--jsonl", "-"],
        cwd=world.repo,
        env=world.env,
        input="\n".join(lines),
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)


def moves(world: World) -> Iterator[tuple[str, str]]:
    """(group, what is done next); each is done when the generator goes on."""
    git = world.git
    (world.repo / "README").write_text("begin\n")
    git("add", "-A")
    git("commit", "-q", "-m", "a first commit")
    yield "warm", "the first commit"
    for n in range(5):
        (world.repo / "README").write_text(f"{n}\n")
        git("commit", "-qam", f"commit {n}")
        yield "commit on the main line", ""
    topics = git(
        "for-each-ref",
        "--format=%(refname:short)",
        "--no-merged=main",
        "--sort=-committerdate",
        "refs/heads/topic*",
    ).split()
    for name in topics[:3]:
        git("checkout", "-q", name)
        yield "switch to a branch begun lately", ""
        git("checkout", "-q", "main")
        yield "and back", ""
    git("checkout", "-q", "release")
    yield "switch to a release branch, 20 % of the history back, for the first time", ""
    for _ in range(3):
        git("checkout", "-q", "main")
        yield "back to the main line", ""
        git("checkout", "-q", "release")
        yield "to the release branch again", ""
    git("checkout", "-q", "main")
    yield "back to the main line", ""
    for _ in range(3):
        was = git("rev-parse", "HEAD").strip()
        git("reset", "-q", "--hard", "HEAD~1000")
        yield "reset --hard HEAD~1000", ""
        git("reset", "-q", "--hard", was)
        yield "and forth", ""
    for name in topics[3:6]:
        git("checkout", "-q", name)
        yield "switch to a branch begun lately", ""
        git("rebase", "-q", "main")
        yield "rebase of a branch with memories", ""
        git("checkout", "-q", "main")
        yield "and back", ""
    git("merge", "-q", "--no-ff", "-m", "merge", topics[6])
    yield "merge of a branch", ""
    git("merge", "-q", "--squash", topics[7])
    git("commit", "-q", "-m", "squash")
    yield "squash merge of a branch", ""
    git("bisect", "start", "main", git("rev-list", "--first-parent", "main").split()[-2])
    yield "bisect, first step", ""
    for n in range(8):
        git("bisect", "good" if n % 2 else "bad")
        yield "bisect, second step" if not n else "bisect, later steps", ""
    git("bisect", "reset")
    yield "bisect reset", ""
    tree = world.root / "tree"
    git("worktree", "add", "-q", str(tree), topics[8])
    yield "worktree add", ""
    for name in topics[9:12]:
        git("checkout", "-q", name, cwd=tree)
        yield "switch in the worktree", ""
    git("worktree", "remove", "--force", str(tree))
    yield "worktree remove", ""


def hooks(world: World) -> list[tuple[str, float, float]]:
    """(what, median of seconds of processors, of the clock) of a prompt's hook: HEAD known to the
    cache, and moved since.
    """
    pid = world.repo / ".git" / "mem" / "worker.pid"
    world.git("config", "mem.promptContext", "true")
    questions = data.questions(60)
    out = []
    for what in (
        "HEAD as the worker saw it",
        "HEAD moved since by a commit",
        "HEAD moved since by 1000 commits",
    ):
        if what.endswith("a commit"):
            world.git("commit", "-q", "--allow-empty", "-m", "moved")
        elif what.endswith("1000 commits"):
            world.git("reset", "-q", "--hard", "HEAD~1000")
        pid.write_text(str(os.getpid()))  # a worker is there, as far as hooks can see
        took = []
        for n, question in enumerate(questions[:20]):
            event = json.dumps(
                {
                    "hook_event_name": "UserPromptSubmit",
                    "session_id": f"s{n}",
                    "cwd": str(world.repo),
                    "prompt": question,
                }
            ).encode()
            start = time.perf_counter()
            process = subprocess.Popen(
                [sys.executable, "-I", "-m", "gitmem", "hook", "UserPromptSubmit"],
                cwd=world.repo,
                env=world.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
            )
            assert process.stdin is not None
            process.stdin.write(event)
            process.stdin.close()
            _, _, used = os.wait4(process.pid, 0)
            process.returncode = 0
            took.append((used.ru_utime + used.ru_stime, time.perf_counter() - start))
        out.append(
            (what, statistics.median(c for c, _ in took), statistics.median(w for _, w in took))
        )
        pid.unlink(missing_ok=True)
    return out


def table(rows: dict[str, list[dict[str, float]]], prompts: list[tuple[str, float, float]]) -> str:
    out = [
        "| move of HEAD | the step | whole worker | whole worker, clock |",
        "|---|---|---|---|",
    ]
    for name, found in rows.items():
        middle = {key: statistics.median(row[key] for row in found) for key in found[0]}
        out.append(
            f"| {name} | {middle['step']:.2f} s | {middle['whole']:.2f} s |"
            f" {middle['whole_wall']:.2f} s |"
        )
    told = ", ".join(f"{cpu * 1000:.0f} ms with {what}" for what, cpu, _ in prompts)
    return "\n".join([*out, "", f"Processor time of a hook at a prompt: {told}."])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commits", type=int, default=100_000)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--anchors", type=int, default=20_000)
    parser.add_argument(
        "--keep",
        type=pathlib.Path,
        help=(
            "a directory in which the repository stays for the next run, as it was before the moves"
        ),
    )
    parser.add_argument("--build", action="store_true", help="only make what --keep keeps")
    parser.add_argument(
        "--graph", action="store_true", help="with a commit-graph, as `git gc` writes it"
    )
    parser.add_argument("--package", help="another checkout of git mem, whose worker is measured")
    parser.add_argument(
        "--write", action="store_true", help="put the tables into docs/performance.md"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        world = World(pathlib.Path(directory))
        kept = args.keep / f"{args.commits}-{args.memories}-{args.anchors}" if args.keep else None
        if kept and kept.exists():
            subprocess.run(
                ["cp", "-r", "--preserve=timestamps", str(kept), str(world.repo)], check=True
            )
            world.git("reset", "-q", "--hard")
        else:
            build(world, args.commits, args.memories, args.anchors)
            if kept:
                kept.parent.mkdir(parents=True, exist_ok=True)
                subprocess.run(
                    ["cp", "-r", "--preserve=timestamps", str(world.repo), str(kept)], check=True
                )
        if args.build:
            return
        if args.graph:
            world.git("commit-graph", "write", "--reachable")
        shutil.rmtree(world.repo / ".git" / "mem")  # perhaps of another layout
        world.cache()
        rows = {"nothing known, the first time": [world.worker()]}
        print(rows, flush=True)
        rows["nothing moved"] = [world.worker()]
        for name, _ in moves(world):
            rows.setdefault(name, []).append(world.worker())
            print(
                f"{name}: "
                + " ".join(f"{key} {value:.3f}" for key, value in rows[name][-1].items()),
                flush=True,
            )
        rows.pop("warm")
        text = table(rows, hooks(world))
        revision = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=DOCS.parent,
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip()
        print(text)
        if args.write:
            about = (
                f"{args.memories:,} memories on {args.anchors:,} anchors in {args.commits:,}"
                f" commits; {os.uname().sysname} {os.uname().machine}, {os.cpu_count()} processors,"
                f" Python {sys.version.split()[0]}, commit {revision}, {time.strftime('%Y-%m-%d')}."
            )
            before, rest = DOCS.read_text(encoding="utf-8").split(BEGIN)
            DOCS.write_text(
                before + f"{BEGIN}\n{about}\n\n{text}\n{END}" + rest.split(END)[1], encoding="utf-8"
            )


if __name__ == "__main__":
    main()
