"""Where memories stand against a revision: their anchors and their paths.

Promise: git decides (ancestry, blob ids), in a bounded number of processes
however many memories are asked about. What cannot be known (a shallow clone,
a commit that is not here) is `unknown`, never guessed.
"""

from __future__ import annotations

import os

from .layout import Repo

REACHABLE, UNMERGED, UNKNOWN = "reachable", "unmerged", "unknown"
SAME, CHANGED, GONE = "same", "changed", "gone"


def anchors(repo: Repo, commits: set[str], head: str) -> dict[str, str]:
    """{commit: reachable | unmerged | unknown} as seen from `head`."""
    out = dict.fromkeys(commits, UNKNOWN)
    if not head:
        return out
    if head in out:
        out[head] = REACHABLE
    names = sorted(commits - {head})
    here = [c for c, found in zip(names, repo.git.ids([f"{c}^{{commit}}" for c in names]), strict=True) if found]
    out.update(dict.fromkeys(here, REACHABLE))
    if here:
        beyond = set(repo.git.run("rev-list", "--stdin", stdin="".join(f"{c}\n" for c in [*here, "^" + head]).encode()).decode().split())
        shallow = os.path.exists(os.path.join(repo.common_dir, "shallow"))
        # Behind a shallow boundary ancestry is cut off, so "not reachable" proves nothing.
        out.update({c: UNKNOWN if shallow else UNMERGED for c in here if c in beyond})
    return out


def paths(repo: Repo, wanted: list[tuple[str, str]], revision: str) -> list[str]:
    """The state of each (path, blob id seen then) at a revision: same, changed, gone, or unknown where no blob was recorded."""
    if not revision:
        return [UNKNOWN] * len(wanted)
    now = repo.git.ids([f"{revision}:{path.rstrip('/')}" for path, _ in wanted])
    return [GONE if not id and blob else UNKNOWN if not blob else SAME if id == blob else CHANGED for (_, blob), id in zip(wanted, now, strict=True)]
