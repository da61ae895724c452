"""Patch-ids: what lets a memory find its commit again after a squash or cherry-pick.

A fresh clone lacks the branch a memory was made on, so the record itself
carries the patch-id of its commit and, on a branch, of the branch's combined
change since it left the main line. Diffs are made with `-U0`: context lines
would let neighbouring changes on the main line hide a clean squash.

Promise: the same change gives the same id whatever the user's diff settings;
what cannot be computed in time is left out, never guessed.
"""

from __future__ import annotations

import subprocess

from .layout import Repo

LIMIT = 2.0  # seconds; a commit of a million lines is not worth the wait
MANY = 50  # commits in one import from which marks are left to a later repair

_DIFF = ("diff-tree", "-p", "--root", "-U0", "--no-renames", "--diff-algorithm=myers", "--no-indent-heuristic", "--no-textconv",
         "--no-ext-diff", "--no-color", "--full-index", "--src-prefix=a/", "--dst-prefix=b/")


def patch_id(repo: Repo, *revisions: str) -> str:
    """git's stable patch-id of one commit, or of the difference of two; "" for none (merges, empty commits) or too slow."""
    diff = repo.git.start([*_DIFF, *revisions], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    make = repo.git.start(["patch-id", "--stable"], stdin=diff.stdout, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # type: ignore[arg-type]
    assert diff.stdout is not None
    diff.stdout.close()
    try:
        out, _ = make.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        out = b""
    for process in (diff, make):
        if process.poll() is None:
            process.kill()
        process.wait()
    return out.split(b" ", 1)[0].decode() if out else ""


def main_line(repo: Repo) -> str:
    """The commit of the branch that others start from: the remote's HEAD, else `main` or `master`; "" if none."""
    for name in ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master"):
        found = repo.commit(name)
        if found:
            return found
    return ""


def of_commit(repo: Repo, commit: str) -> dict[str, str]:
    """The record fields `patch`, and on an unmerged branch `base` and `branch_patch`."""
    out: dict[str, str] = {}
    own = patch_id(repo, commit)
    if own:
        out["patch"] = own
    main = main_line(repo)
    if main and main != commit:
        base = repo.git.text("merge-base", main, commit, ok=(0, 1))
        if base and base != commit:
            combined = patch_id(repo, base, commit)
            if combined:
                out.update(base=base, branch_patch=combined)
    return out
