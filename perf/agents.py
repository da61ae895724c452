"""What hooks of agents cost: whole cold processes against the floor F, and where their time goes.

    python perf/agents.py                                  # 10,000 and 100,000 memories, 50 prompts
    python perf/agents.py --sizes 10000 --runs 100
    python perf/agents.py --write docs/performance.md
    python perf/agents.py --sizes 10000 --commits 50000 --history prompts
    python perf/agents.py --sizes 10000 --events UserPromptSubmit --mcp

F is a cold `python3 -c "import sqlite3"`, taken in turn in the same run. Each
prompt is a different real question (`data.py`) in a session of its own, so
none is silent because it was answered before. Every memory has a vector of
the encoder: a generated one, near no question, or with --real the encoder's
own, which takes minutes for 10,000. Processor time, in that of F, is
what other load on the machine changes least. The parts are those of one
process, by the clock that it shares with this one: the interpreter's start,
our imports (all of them first, which changes their place and not their sum),
what is read (stdin, the place, the settings, opening the cache), the query,
the answer (writing it and noting it), and the end. The peer's figures are
quoted as they were measured once, on two processors, with 1,000 memories.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import data
import vectors

BUDGETS = {
    "UserPromptSubmit": {10_000: 3.0, 100_000: 6.0},
    "SessionStart": {10_000: 3.0, 100_000: 4.0},
    "PostToolUse": 2.0,
    "Stop": 2.0,
}
# git-notes-memory 0.12.0: git notes, sqlite-vec, sentence-transformers. Seconds.
PEER = {
    "SessionStart": "4.6-5.3",
    "UserPromptSubmit": "0.09-0.20",
    "Stop": "0.62",
    "PostToolUse": "4.42",
}
EVENTS: dict[str, dict[str, Any]] = {
    "UserPromptSubmit": {},
    "SessionStart": {"source": "startup"},
    "SubagentStart": {"agent_id": "a1", "agent_type": "general-purpose"},
    "PreCompact": {"trigger": "auto", "custom_instructions": ""},
    "PreToolUse": {"tool_name": "Read", "tool_input": {"file_path": "f0.txt"}, "tool_use_id": "t"},
    "PostToolUse": {
        "tool_name": "Edit",
        "tool_input": {"file_path": "f0.txt", "old_string": "a", "new_string": "b"},
        "tool_response": {"filePath": "f0.txt"},
        "tool_use_id": "t",
    },
    "PostToolUseFailure": {
        "tool_name": "Bash",
        "tool_input": {"command": "make"},
        "error": "Exit code 2",
        "tool_use_id": "t",
    },
    "Stop": {"stop_hook_active": False, "last_assistant_message": "Done."},
    "SessionEnd": {"reason": "other"},
}
# What each event loads, so that the probe can load it first.
_ALWAYS = "agents.hook agents.events git.discover"
_SEARCH = (
    f"{_ALWAYS} agents.inject agents.hook_cache engine.anchor_state_store engine.filters"
    " engine.memory_rows signing.trust"
)
MODULES = {
    "UserPromptSubmit": f"{_SEARCH} engine.search",
    "PreToolUse": _SEARCH,
    "SessionStart": f"{_ALWAYS} agents.context agents.hook_cache agents.automemory",
    "SubagentStart": f"{_ALWAYS} agents.context agents.hook_cache",
    "PreCompact": f"{_ALWAYS} agents.context agents.hook_cache",
}
PARTS = ("interpreter", "imports", "reading", "query", "answer", "end")

# One hook in a process that says on a file how long each part took. Times are CLOCK_MONOTONIC,
# which the parent shares.
PROBE = """
import os, sys, time
born, log = float(sys.argv[1]), sys.argv[2]
sys.argv[1:] = sys.argv[3:]
first = time.monotonic()
sys.path[:] = sys.path[next(i for i, p in enumerate(sys.path) if p == os.path.dirname(os.__file__)):]
from importlib import import_module
for name in os.environ["PROBE_MODULES"].split():
    import_module("gitmem." + name)
from gitmem.agents import call, hook
imported = time.monotonic()
spent = {"query": 0.0, "answer": 0.0}
def timed(name, f):
    def run(*args, **kw):
        begin = time.monotonic()
        try:
            return f(*args, **kw)
        finally:
            spent[name] += time.monotonic() - begin
    return run
ready = sys.modules.get("gitmem.agents.hook_cache")
if ready:
    inner = ready.with_memories
    ready.with_memories = lambda here, action, until: inner(here, timed("query", action), until)
call.Call.say = timed("answer", call.Call.say)
leave, first_of_both = os._exit, __import__("_thread").allocate_lock()
def end(status):
    if not first_of_both.acquire(False):  # the watchdog, while the hook itself is ending
        time.sleep(1)
    done = time.monotonic()
    words = [first - born, imported - first, done - imported - spent["query"] - spent["answer"], spent["query"], spent["answer"], done]
    with open(log, "w") as f:
        f.write(" ".join(map(str, words)))
    leave(status)
os._exit = end
hook.main(sys.argv[2:], os.environ)
"""  # noqa: E501


class Bench:
    def __init__(
        self,
        program: str,
        root: pathlib.Path,
        commits: int = 1000,
        history: str = "recall",
        real: bool = False,
    ) -> None:
        self.program = program
        self.root = root
        self.commits = commits
        self.history = history
        self.real = real
        self.env = {
            k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "PYTHON", "CLAUDE"))
        }
        self.env.update(
            HOME=str(root),
            GIT_CONFIG_NOSYSTEM="1",
            GIT_AUTHOR_NAME="Ada",
            GIT_AUTHOR_EMAIL="ada@example.org",
            GIT_COMMITTER_NAME="Ada",
            GIT_COMMITTER_EMAIL="ada@example.org",
            LANG="C.UTF-8",
        )
        with open(program, encoding="utf-8") as f:
            self.python = f.readline().removeprefix("#!").strip() or sys.executable
        self.floors: list[float] = []

    def git(self, cwd: pathlib.Path, *argv: str, stdin: str | None = None) -> str:
        return subprocess.run(
            ["git", *argv],
            cwd=cwd,
            env=self.env,
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def once(self, argv: list[str], cwd: pathlib.Path, stdin: str = "") -> tuple[float, str]:
        start = time.perf_counter()
        done = subprocess.run(
            argv, cwd=cwd, env=self.env, input=stdin, text=True, capture_output=True, check=False
        )
        taken = time.perf_counter() - start
        if done.returncode not in (0, 1):
            raise SystemExit(f"{argv[:3]} failed: {done.stderr[-300:]}")
        return taken, done.stdout

    def floor(self, cwd: pathlib.Path) -> tuple[float, float]:
        """(wall, processor) seconds of F."""
        before = processor()
        taken, _ = self.once([self.python, "-c", "import sqlite3"], cwd)
        self.floors.append(taken)
        return taken, processor() - before

    def store(self, size: int) -> pathlib.Path:
        """A repository with so many memories about its commits, indexed, its states known."""
        path = self.root / f"store-{size}"
        self.git(self.root, "init", "-q", "-b", "main", str(path))
        stream = "".join(
            f"commit refs/heads/main\ncommitter Ada <ada@example.org> {1700000000 + i} +0000\n"
            f"data {len(message.encode())}\n{message}\n"
            f"M 100644 inline f{i % 7}.txt\ndata {len(str(i))}\n{i}\n"
            for i, message in enumerate(_messages(self.commits))
        )
        self.git(path, "fast-import", "--quiet", stdin=stream)
        self.git(path, "reset", "-q", "--hard")
        commits = self.git(path, "rev-list", "main").split()
        self.env.update(vectors.OFF)
        self.once([self.program, "init", "--offline"], path)
        self.git(path, "config", "mem.promptContext", "true")
        self.git(path, "config", "mem.history", self.history)
        self.git(path, "config", "mem.readContext", "true")
        self.once(
            [self.program, "remember", "--jsonl", "-"],
            path,
            "".join(json.dumps(m) + "\n" for m in data.memories(size, commits=commits)),
        )
        self.once([self.program, "index"], path)
        self.once([self.program, "worker", str(path / ".git")], path)
        del self.env["GIT_MEM_ENCODER"]
        if self.real:
            self.once([self.program, "index", "--all"], path)
        else:
            vectors.generate(path, self.env)
        self.hook(path, "SessionStart", "warm")  # settings are kept from here on
        return path

    def payload(self, path: pathlib.Path, event: str, session: str, prompt: str) -> str:
        fields = {
            "session_id": session,
            "transcript_path": "/nonexistent.jsonl",
            "cwd": str(path),
            "hook_event_name": event,
            **EVENTS[event],
        }
        return json.dumps({**fields, "prompt": prompt} if event == "UserPromptSubmit" else fields)

    def hook(
        self, path: pathlib.Path, event: str, session: str, prompt: str = ""
    ) -> tuple[float, float, bool]:
        """(wall, processor) seconds, and whether it gave context."""
        before = processor()
        taken, out = self.once(
            [self.program, "hook", event], path, self.payload(path, event, session, prompt)
        )
        return taken, processor() - before, bool(out)

    def parts(self, path: pathlib.Path, event: str, session: str, prompt: str) -> list[float]:
        """Seconds of each of PARTS."""
        log = self.root / "parts"
        start = time.monotonic()
        self.env["PROBE_MODULES"] = MODULES.get(event, _ALWAYS)
        self.once(
            [self.python, "-P", "-c", PROBE, str(start), str(log), "hook", event],
            path,
            self.payload(path, event, session, prompt),
        )
        ended = time.monotonic()
        *parts, done = map(float, log.read_text().split())
        return [*parts, ended - done]

    pause = 0.0  # seconds before each call: a session's server is ready again 0.1 s after the last

    @contextlib.contextmanager
    def served(self, path: pathlib.Path, wanted: bool) -> Iterator[None]:
        """While `git mem mcp` runs in the repository, where that is wanted."""
        if not wanted:
            yield
            return
        with subprocess.Popen(
            [self.program, "mcp"], cwd=path, env=self.env, stdin=subprocess.PIPE
        ) as process:
            while not any((path / ".git" / "mem").glob("prefork.sock.*")):
                time.sleep(0.1)
            self.pause = 0.5
            yield
            self.pause = 0.0
            process.communicate()

    def quiet(self, path: pathlib.Path) -> None:
        """Waits until no worker is beside what is measured."""
        end = time.monotonic() + 60
        while (path / ".git" / "mem" / "worker.pid").exists() and time.monotonic() < end:
            time.sleep(0.1)


def _messages(n: int) -> Iterator[str]:
    """Of n commits: texts like those of the memories, some the same."""
    for draft in data.memories(n, seed=2):
        yield f"{draft['title'] or 'Of two texts'}\n\n{draft['body']}"


def processor() -> float:
    """Processor seconds of all processes that were waited for; a detached worker is none of
    them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(
    bench: Bench, path: pathlib.Path, size: int, prompts: list[str], events: list[str]
) -> tuple[list[str], list[str]]:
    rows: list[str] = []
    shares: list[str] = []
    for event in events:
        bench.quiet(path)
        taken: list[list[float]] = []
        floors: list[tuple[float, float]] = []
        answered = 0
        split: list[list[float]] = []
        for i, prompt in enumerate(prompts):
            time.sleep(bench.pause)  # before both: what begins after idling takes longer
            floors.append(bench.floor(path))
            time.sleep(bench.pause)
            *times, said = bench.hook(path, event, f"{event}-{i}", prompt)
            taken.append(times)
            answered += said
            if event == "SessionEnd":
                bench.quiet(path)
        for i, prompt in enumerate(prompts):
            split.append(bench.parts(path, event, f"parts-{event}-{i}", prompt))
            if event == "SessionEnd":
                bench.quiet(path)
        floor, middle, high = (
            statistics.median(w for w, _ in floors),
            statistics.median(w for w, _ in taken),
            statistics.quantiles([w for w, _ in taken], n=10)[-1],
        )
        busy = statistics.median(c for _, c in taken) / statistics.median(c for _, c in floors)
        found = BUDGETS.get(event, "")
        budget = found.get(size, "") if isinstance(found, dict) else found
        peer = f"{PEER[event]} s" if event in PEER else ""
        rows.append(
            f"| {event} | {size:,} | {middle * 1e3:.0f} ms = {middle / floor:.1f} F |"
            f" {high * 1e3:.0f} ms = {high / floor:.1f} F | {busy:.1f} F |"
            f" {f'{budget:g} F' if budget else ''} | {answered} of {len(prompts)} | {peer} |"
        )
        whole = [statistics.median(column) for column in zip(*split, strict=True)]
        shares.append(
            f"| {event} | {size:,} | "
            + " | ".join(f"{part * 1e3:.1f}" for part in whole)
            + f" | {sum(whole) * 1e3:.1f} |"
        )
        print(rows[-1], shares[-1], sep="\n", flush=True)
    return rows, shares


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument(
        "--runs", type=int, default=50, help="different prompts, and calls of each other event"
    )
    parser.add_argument("--commits", type=int, default=1000, help="of the repository's history")
    parser.add_argument("--history", default="recall", help="mem.history: recall, prompts or false")
    parser.add_argument("--everyday", action="store_true", help="every other prompt is no question")
    parser.add_argument("--mcp", action="store_true", help="while a session's server runs")
    parser.add_argument("--real", action="store_true", help="vectors are made by the encoder")
    parser.add_argument("--events", default=",".join(EVENTS))
    parser.add_argument("--program", default=shutil.which("git-mem"))
    parser.add_argument(
        "--write", metavar="FILE", help="replace what is between the agents markers of a document"
    )
    args = parser.parse_args()
    if not data.ROOT.is_dir():
        raise SystemExit(
            f"skipped: no evaluation texts at '{data.ROOT}' (GIT_MEM_EVAL_ROOT names the folder)"
        )
    if not args.program:
        raise SystemExit("no git-mem on PATH")
    events = [event for event in EVENTS if event in args.events.split(",")]
    prompts = data.questions(args.runs)
    if args.everyday:
        prompts[::2] = data.everyday(len(prompts[::2]))
    rows: list[str] = []
    shares: list[str] = []
    failed = []
    with tempfile.TemporaryDirectory(prefix="git-mem-perf-", ignore_cleanup_errors=True) as name:
        bench = Bench(args.program, pathlib.Path(name), args.commits, args.history, args.real)
        for size in map(int, args.sizes.split(",")):
            path = bench.store(size)
            with bench.served(path, args.mcp):
                more, parts = measure(bench, path, size, prompts, events)
            rows += more
            shares += parts
            log = path / ".git" / "mem" / "hooks.log"
            failed.append(
                f"{len(log.read_text().splitlines()) if log.exists() else 0} of"
                f" {2 * args.runs * len(events)} calls failed or were silent at the deadline with"
                f" {size:,} memories"
            )
        floor = statistics.median(bench.floors)
    revision = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    text = (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, Python"
        f" {platform.python_version()}, commit {revision}, F = {floor * 1e3:.1f} ms,"
        f" {time.strftime('%Y-%m-%d')}; {args.commits:,} commits (mem.history = {args.history});"
        f" {args.runs} calls of each event, prompts all different"
        f"{', every other one an everyday prompt' * args.everyday}."
        f" {'; '.join(failed)}.\n\n| event | memories | median | 90th percentile | processor time |"
        " budget | gave context | git-notes-memory 0.12.0 |\n|---|---|---|---|---|---|---|---|\n"
        + "\n".join(rows)
        + "\n"
    )
    division = (
        "\nWhere the time of one process goes, milliseconds, medians of each part:\n\n| event |"
        " memories | "
        + " | ".join(PARTS)
        + " | sum |\n|---|---|"
        + "---|" * (len(PARTS) + 1)
        + "\n"
        + "\n".join(shares)
        + "\n"
    )
    if args.write:
        page = pathlib.Path(args.write).read_text(encoding="utf-8")
        begin, end = "<!-- agents:begin -->", "<!-- agents:end -->"
        head, _, rest = page.partition(begin)
        pathlib.Path(args.write).write_text(
            f"{head}{begin}\n{text}{end}{rest.partition(end)[2]}", encoding="utf-8"
        )
    print("\n" + text + division)


if __name__ == "__main__":
    main()
