"""What `eval_where.py` asks about: squash merges, revisions, and memories about random commits."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Collection
from typing import Any

from where_reference import (
    Reference,
)

PLACES = 2  # paths of one memory that are compared


def squashed(reference: Reference, rng: random.Random, most: int) -> list[tuple[str, str]]:
    """[(squash commit, tip of the branch)]: open branches of two commits or more, squashed onto one
    of the newest commits of the main line where git merges them without a conflict.
    """
    tips = sorted(
        set(
            reference.git(
                "for-each-ref",
                "--format=%(objectname)",
                "refs/remotes/origin/pull",
                "--no-merged=HEAD",
            ).split()
        )
    )
    newest = reference.git("rev-list", "--first-parent", "--max-count=300", "HEAD").split()
    rng.shuffle(tips)
    out: list[tuple[str, str]] = []
    for tip in tips:
        if len(out) == most:
            break
        first = rng.choice(newest)
        if not 2 <= int(
            reference.git("rev-list", "--count", "--no-merges", tip, "^" + first, "^HEAD")
        ) <= 60 or reference.inside(tip, first):
            continue
        tree = reference.git("merge-tree", "--write-tree", first, tip, ok=(0, 1)).split("\n")
        if len(tree) != 1 or reference.git("rev-parse", f"{first}^{{tree}}") == tree[0]:
            continue
        made = reference.git("commit-tree", "-p", first, "-m", f"squash of {tip}", tree[0])
        reference.git("update-ref", f"refs/heads/eval/squash{len(out)}", made)
        out.append((made, tip))
    return out


def revisions(
    reference: Reference, rng: random.Random, count: int, squashes: list[tuple[str, str]]
) -> list[str]:
    main = reference.git("rev-list", "HEAD").split()
    other = reference.git("rev-list", "--exclude=refs/notes/*", "--all", "--not", "HEAD").split()
    out = rng.sample(main, min(len(main), count // 2)) + [s for s, _ in squashes[: count // 5]]
    out += rng.sample(other, min(len(other), count - len(out)))
    out += rng.sample(main, min(len(main), count - len(out)))
    rng.shuffle(out)
    return out


def imported(reference: Reference, most: int) -> int:
    """Takes in what commit messages say, by the command; how many memories that made."""
    mem = [sys.executable, "-m", "gitmem"]
    made = 0
    while made < most:
        subprocess.run(
            [*mem, "import", "git-log", "--team"],
            cwd=reference.repo,
            env=reference.env,
            check=True,
            capture_output=True,
        )
        waiting = json.loads(
            subprocess.run(
                [*mem, "review", "--all", "--json"],
                cwd=reference.repo,
                env=reference.env,
                check=False,
                capture_output=True,
            ).stdout
            or b"[]"
        )
        ids = [item["id"] for item in waiting][: most - made]
        if not ids:
            break
        subprocess.run(
            [*mem, "review", "--team", *(word for id in ids for word in ("--accept", id))],
            cwd=reference.repo,
            env=reference.env,
            check=True,
            capture_output=True,
        )
        made += len(ids)
    return made


def drafts(
    reference: Reference, rng: random.Random, commits: list[str], renamed: Collection[str]
) -> list[dict[str, Any]]:
    """Memories about commits: a file that each changed, and a few lines of another one.

    Of a file that git says was `renamed` some day rather than of others: few are.
    """
    out = []
    for commit in commits:
        paths = [
            p
            for p in reference.git(
                "diff-tree",
                "-r",
                "--root",
                "--no-commit-id",
                "--name-only",
                "--diff-filter=AM",
                "-z",
                commit,
            ).split("\0")
            if p and p.isprintable()
        ]
        chosen = sorted(rng.sample(paths, len(paths)), key=lambda p: p not in renamed)[:2]
        rng.shuffle(chosen)
        if chosen:
            rows = reference.raw("cat-file", "blob", f"{commit}:{chosen[-1]}", ok=(0, 128)).split(
                b"\n"
            )
            full = [n for n, row in enumerate(rows[:3000], 1) if row.strip()]
            first = rng.choice(full) if full else 0
            last = max(
                (n for n in full if first <= n < first + rng.choice((1, 3, 8, 20))), default=0
            )
            if first and len(rows) < 3000 and b"\0" not in b"".join(rows):
                chosen[-1] += f":{first}-{last}"
        out.append({"body": f"about {commit}", "commit": commit, "paths": chosen})
    return out
