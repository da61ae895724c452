"""Patch-ids: what lets a memory find its commit again after a squash or cherry-pick.

A fresh clone lacks the branch a memory was made on, so the record itself carries the patch-id of
its commit and, on a branch, of the branch's combined change since it left the main line. Diffs have
no context: it would let neighbouring changes on the main line hide a clean squash.

Promise: the same change gives the same id whatever the user's diff settings; what cannot be
computed in time, or lacks an object, is left out. A partial clone is asked for nothing: its missing
files would come over the network.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from ..git import commit_reader
from ..git.gitcmd import NO_FETCH, feed
from ..git.repository import Repo

LIMIT = 2.0  # seconds; a commit of a million lines is not worth the wait
MANY = 50  # commits in one import from which marks are left to a later repair

_DIFF = (
    "diff-tree -p --root -U0 --no-renames --diff-algorithm=myers --no-indent-heuristic"
    " --no-textconv --no-ext-diff --no-color --full-index --src-prefix=a/ --dst-prefix=b/"
)
# A patch-id says what a commit changed when it was made: what `git replace` puts in its place is
# this clone's own, and may be gone tomorrow.
_AS_MADE = {**NO_FETCH, "GIT_NO_REPLACE_OBJECTS": "1"}


def patch_id(repo: Repo, commit: str, base: str = "") -> str:
    """git's stable patch-id of a commit, or of what changed since `base`; "" for none."""
    return patch_ids(repo, [f"{commit} {base}".rstrip()], LIMIT)[0].get(commit, "")


def patch_ids(repo: Repo, wanted: Sequence[str], seconds: float) -> tuple[dict[str, str], int]:
    """({commit: patch-id}, how many of `wanted` were looked at) in one pipeline.

    A line of `wanted` is `COMMIT`, or `COMMIT BASE` for all that changed since
    the base; no commit may begin two lines. What was looked at and is absent
    has no patch. Fewer are looked at where time runs out or an object is missing.
    """
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    diff = [*_DIFF.split(), "--stdin"]
    first = repo.git.start(diff, _AS_MADE, stdin=pipe, stdout=pipe, stderr=null)
    make = repo.git.start(["patch-id", "--stable"], stdin=first.stdout, stdout=pipe, stderr=null)
    assert first.stdin is not None and first.stdout is not None
    first.stdout.close()
    lines = "".join(f"{line}\n" for line in wanted).encode()
    feed(first.stdin, lines)
    try:
        out, _ = make.communicate(timeout=seconds)
        ended, late = first.wait() == 0 and make.returncode == 0, False
    except subprocess.TimeoutExpired:
        # before the other: at the end of its input it would print the id of half a diff
        make.kill()
        first.kill()
        out, _ = make.communicate()
        first.wait()
        ended, late = False, True
    rows = [line.split() for line in out.decode().split("\n")[:-1]]
    found = {commit: id for id, commit in rows}
    if ended:
        return found, len(wanted)
    if rows and not late:
        del found[rows.pop()[1]]  # git ended early: its last diff may lack its end
    places = {line.split(" ", 1)[0]: i for i, line in enumerate(wanted)}
    return found, places[rows[-1][1]] + 1 if rows else 0


def main_lines(repo: Repo) -> list[str]:
    """The branches that others start from and are merged into. All that exist: a branch begun on
    a `main` that is not pushed yet left that, not the remote's.
    """
    names = ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master")
    return list(dict.fromkeys(c for c in map(repo.commit, names) if c))


def base_of(repo: Repo, commit: str) -> str:
    """Where a commit's branch left the nearest main line; "" where all of them contain it."""
    lines = [line for line in main_lines(repo) if line != commit]

    def fork(*others: str) -> str:
        return repo.git.text("merge-base", commit, *others, ok=(0, 1)) if others else ""

    base = fork(*lines)
    if base != commit:
        return base
    # Some contain it.
    return fork(*(line for line in lines if len(lines) > 1 and fork(line) != commit))


def of_commit(repo: Repo, commit: str) -> dict[str, str]:
    """The record fields `patch`, and on an unmerged branch `base` and `branch_patch`."""
    out: dict[str, str] = {}
    if repo.git.promised:
        return out
    cut = commit_reader.ends(repo.git)
    # Where history ends a commit seems to add every file.
    if own := patch_id(repo, commit) if commit not in cut else "":
        out["patch"] = own
    base = base_of(repo, commit) if not cut else ""
    if combined := patch_id(repo, commit, base) if base else "":
        out.update(base=base, branch_patch=combined)
    return out
