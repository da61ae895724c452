#!/usr/bin/env python3
"""What a prompt is told, unasked, in a large store of real texts, through the real hook.

Memories are bodies of commit messages of clones (80 characters or more, no two alike), questions
are the subjects of some, everyday prompts the lines {"text"} of a file, of other projects. Prints
how many are told anything, how many of the questions the commit's own body, and how long the
processes took.

    python tools/eval_silence.py --repos CLONE ... --everyday FILE [--memories 100000]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gitmem.core import commit_message  # noqa: E402

SHORTEST, LONGEST = 80, 4_000  # characters of a body
MARK = 25  # characters from which a line says which body was told
MEM = [sys.executable, "-m", "gitmem"]
ENVIRONMENT = {
    **{
        f"GIT_{who}_{what}": "a@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    },
    "GIT_MEM_PROMPTCONTEXT": "true",
    "GIT_MEM_HISTORY": "false",
}


def bodies(repos: list[Path]) -> dict[str, str]:
    """{body: subject} of all commits that are no merges; of bodies that begin alike the first."""
    out: dict[str, tuple[str, str]] = {}
    for repo in repos:
        argv = ["git", "-C", str(repo), "log", "--all", "--no-merges", "--format=%B%x01"]
        read = subprocess.run(argv, check=True, capture_output=True).stdout
        for message in read.decode("utf-8", "replace").split("\x01"):
            subject, body = commit_message.split(message)
            body = body.replace("\0", "")[:LONGEST]
            if len(body) >= SHORTEST and not subject.startswith(commit_message.SQUASHED):
                out.setdefault(re.sub(r"\W+", "", body.lower())[:120], (body, subject))
    return dict(out.values())


def mark(body: str) -> str:
    lines = [line.strip() for line in body.splitlines()]
    return next((line for line in lines if len(line) > MARK), body)[: MARK - 1]


def told(repo: Path, env: dict[str, str], prompts: list[str], name: str) -> list[str]:
    """What each prompt is told, each in a session of its own."""
    out, taken = [], []
    for n, prompt in enumerate(prompts):
        event = {"session_id": f"{name}{n}", "cwd": str(repo), "prompt": prompt}
        given = json.dumps({**event, "hook_event_name": "UserPromptSubmit"})
        begun = time.perf_counter()
        argv = [*MEM, "hook", "UserPromptSubmit"]
        done = subprocess.run(argv, cwd=repo, env=env, input=given, capture_output=True, text=True)
        taken.append(time.perf_counter() - begun)
        said = json.loads(done.stdout) if done.stdout.strip() else {}
        out.append(said.get("hookSpecificOutput", {}).get("additionalContext", ""))
    print(f"{name}: median {statistics.median(taken) * 1e3:.0f} ms, longest {max(taken):.2f} s")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repos", nargs="+", type=Path, required=True)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=150)
    parser.add_argument("--everyday", type=Path, required=True)
    given = parser.parse_args()
    found = bodies(given.repos)
    chosen = random.Random(7).sample(list(found), given.memories)
    everyday = given.everyday.read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory() as name:
        repo = Path(name, "repo")
        env = {**os.environ, **ENVIRONMENT, "HOME": name, "PYTHONPATH": str(ROOT)}

        def run(*argv: str, stdin: str = "") -> str:
            done = subprocess.run(argv, cwd=repo, env=env, input=stdin, text=True, stdout=-1)
            return done.stdout if done.returncode in (0, 1) else sys.exit(done.returncode)

        repo.mkdir()
        run("git", "init", "-q")
        run("git", "commit", "-q", "--allow-empty", "-m", "first")
        lines = "".join(json.dumps({"body": body}) + "\n" for body in chosen)
        run(*MEM, "remember", "--jsonl", "-", "--allow-secret", stdin=lines)
        begun = time.perf_counter()
        print(run(*MEM, "index", "--all").strip())
        print(f"all vectors after {time.perf_counter() - begun:.0f} s")
        noise = told(repo, env, [json.loads(line)["text"] for line in everyday], "everyday")
        print(f"{sum(map(bool, noise))} of {len(everyday)} everyday prompts are told anything")
        own = chosen[: given.questions]
        answers = told(repo, env, [found[body] for body in own], "questions")
        right = sum(mark(body) in answer for body, answer in zip(own, answers, strict=True))
        some = sum(map(bool, answers))
        print(f"{some} of {len(own)} questions are told anything, {right} the commit's own body")


if __name__ == "__main__":
    main()
