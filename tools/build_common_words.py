#!/usr/bin/env python3
"""Counts in how many projects' prompts a word stands: prints the table of
`gitmem/core/common_words.py`.

    python tools/build_common_words.py TURNS [--seed 3]

TURNS is what `tools/build_capture_data.py --all` writes from clones of `data/SOURCES.md`. The
projects of one owner count as one, and one with fewer than LEAST prompts, or with many in another
script than Latin, not at all. Of each at most MOST prompts are read, drawn at random; a prompt of
more than LONGEST characters is mostly pasted.
"""

from __future__ import annotations

import argparse
import json
import random
import textwrap
from collections import Counter, defaultdict
from pathlib import Path

from gitmem.core import text

LEAST, MOST, LONGEST = 12, 300, 600
PROJECTS_LEAST = 6  # in fewer a word is not common
LATIN = 0.7  # of all letters
# what `build_capture_data.py` puts in place of a name, and the mark of a log
NO_WORDS = frozenset(["exampleorg", "owner", "specstori"])


def latin(prompts: list[str]) -> bool:
    letters = [c for prompt in prompts for c in prompt if c.isalpha()]
    return sum(c.isascii() for c in letters) >= LATIN * len(letters)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("turns", type=Path)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    prompts = defaultdict(list)
    for line in args.turns.read_text(encoding="utf-8").splitlines():
        turn = json.loads(line)
        if turn["role"] == "user" and len(turn["text"]) < LONGEST:
            prompts[turn["repo"].split("/")[0]].append(turn["text"])
    rnd = random.Random(args.seed)
    found: Counter[str] = Counter()
    projects = 0
    for _, all_of_them in sorted(prompts.items()):
        some = rnd.sample(all_of_them, min(len(all_of_them), MOST))
        if len(some) >= LEAST and latin(some):
            projects += 1
            found.update({term for prompt in some for term in text.query_terms(prompt)})
    print(f"PROJECTS = {projects}")
    groups = defaultdict(list)
    for term, count in found.items():
        if count >= PROJECTS_LEAST and term not in NO_WORDS and not term.isdigit():
            groups[count].append(term)
    for count in sorted(groups, reverse=True):
        print(textwrap.fill(f"{count} {' '.join(sorted(groups[count]))}", 98))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
