"""What `git mem consolidate` proposes about real memories: instructions that projects wrote for
their agents, and rewrote.

    python tools/eval_consolidate.py [--part test] [--sample 50] [--seed 7] CLONES

CLONES is a directory of clones or bare repositories. Every bullet of 40 to 400
characters that was ever added to an instruction file that HEAD has (CLAUDE.md,
AGENTS.md, .cursor/rules, memory-bank ...) becomes one memory of type convention,
at the time when it was added, with the paths it quotes. All of one repository
go into one store, also those that were taken out later: a memory has nobody who
takes it out. So history knows of many pairs which of them replaced the other.

A repository is in the part `tune` or `test` by the hash of its name. Rules were
chosen on `tune` alone. Prints counts, how many pairs history knows to have
replaced each other, and a sample for reading. The texts belong to their authors.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
from typing import Any

from gitmem.memory import consolidate, remember
from gitmem.store import open_store

FILES = re.compile(
    r"(^|/)(CLAUDE|AGENTS|DECISIONS|LESSONS|GEMINI|CONVENTIONS|learnings|gotchas)(-learned)?\.md$|\.cursor/rules/|\.cursorrules$|memory-bank/.*\.md$|copilot-instructions.md$",
    re.IGNORECASE,
)
BULLET = re.compile(r"^([+-])\s*(?:[-*]|\d+\.)\s+(.*)")
QUOTED = re.compile(r"`([\w./-]+\.\w{1,5}|[\w.-]+/[\w./-]*)`")


def git(directory: str, *argv: str) -> str:
    return subprocess.run(
        ["git", f"--git-dir={directory}", *argv], capture_output=True, check=True
    ).stdout.decode("utf-8", "replace")


def part_of(name: str) -> str:
    return "tune" if hashlib.sha1(name.encode()).digest()[0] % 2 == 0 else "test"


def bullets(directory: str) -> list[dict[str, Any]]:
    """Each bullet once, with the number of the commit that added it and of the one that first took
    it out (0 for none).
    """
    names = [
        n
        for n in git(directory, "ls-tree", "-r", "-z", "--name-only", "HEAD").split("\0")
        if FILES.search(n)
    ][:80]
    if not names:
        return []
    found: dict[str, dict[str, Any]] = {}
    gone: dict[str, int] = {}
    number, at = 0, ""
    for line in git(
        directory,
        "log",
        "--reverse",
        "--no-merges",
        "-p",
        "-U0",
        "--no-color",
        "--format=%x00%cI",
        "HEAD",
        "--",
        *names,
    ).split("\n"):
        if line.startswith("\0"):
            number, at = number + 1, line[1:]
        elif match := BULLET.match(line):
            text = match[2].strip()
            if match[1] == "-":
                gone.setdefault(text, number)
            elif 40 <= len(text) <= 400:
                found.setdefault(
                    text,
                    {
                        "body": text,
                        "type": "convention",
                        "created_at": at,
                        "paths": sorted(set(QUOTED.findall(text)))[:5],
                        "number": number,
                    },
                )
    return [{**d, "gone": gone.get(text, 0)} for text, d in found.items()]


def look(memories: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], float]:
    """(what is found, seconds)."""
    with tempfile.TemporaryDirectory() as top:
        subprocess.run(["git", "init", "-q", top], check=True)
        store = open_store({**os.environ, "GIT_MEM_SECRETS": "allow"}, top)
        try:
            results = remember.remember(
                store,
                [
                    {
                        **{k: d[k] for k in ("body", "type", "created_at", "paths")},
                        "source": f"bullet:{n}",
                    }
                    for n, d in enumerate(memories)
                ],
            )
            of = {
                r.id: d
                for r, d in zip(results, memories, strict=True)
                if r.status == remember.STORED
            }
            store.with_cache(lambda cache: None)
            began = time.monotonic()
            found = store.with_cache(
                lambda cache: consolidate.find(cache, most=10**9, seconds=600)
            )[0].found
            took = time.monotonic() - began
        finally:
            store.close()
    out = []
    for f in found:
        old, new = (of[i] for i in f.ids)
        out.append(
            {
                "kind": f.kind,
                "why": f.why,
                "near": round(f.near, 3),
                "old": old["body"],
                "new": new["body"],
                "keep": {f.ids[0]: "old", f.ids[1]: "new"}.get(f.keep, "?"),
                "replaced": bool(old["gone"]) and old["number"] < old["gone"] <= new["number"],
            }
        )
    return out, took


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("clones", type=pathlib.Path)
    options.add_argument("--part", choices=("tune", "test"), default="test")
    options.add_argument("--sample", type=int, default=50)
    options.add_argument("--seed", type=int, default=7)
    options.add_argument("--out", type=pathlib.Path)
    given = options.parse_args()
    found: list[dict[str, Any]] = []
    memories = repositories = 0
    for path in sorted(given.clones.iterdir()):
        directory = next(
            (d for d in (path / ".git", path / "repo", path) if (d / "HEAD").is_file()), None
        )
        if directory is None or part_of(path.name) != given.part:
            continue
        texts = bullets(str(directory))
        if not texts:
            continue
        pairs, took = look(texts)
        memories, repositories = memories + len(texts), repositories + 1
        found += [{"repo": path.name, **p} for p in pairs]
        print(
            f"{path.name}: {len(texts)} memories, {len(pairs)} found, {took:.2f} s", file=sys.stderr
        )
    print(f"{repositories} repositories, {memories} memories, {len(found)} proposals")
    counts = collections.Counter((p["kind"], p["why"]) for p in found)
    for (kind, why), n in counts.most_common():
        replaced = sum(p["replaced"] for p in found if (p["kind"], p["why"]) == (kind, why))
        print(f"{kind:14} {why:14} {n:5}, of which history replaced {replaced}")
    if given.out:
        random.Random(given.seed).shuffle(found)
        given.out.write_text(
            "".join(json.dumps(p, ensure_ascii=False) + "\n" for p in found[: given.sample]),
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
