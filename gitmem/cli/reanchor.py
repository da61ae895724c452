"""The command about commits that were replaced: reanchor."""

from ..anchors import reanchor
from ..core.errors import MemError, UsageError
from ..core.plural import many
from ..notes import notetree
from ..store import Store
from .common import read_file, refused
from .options import Answer, argument, command, text

_REASON = "no such commit in this repository"


@command("reanchor")
def reanchor_command(
    store: Store,
    old: str = argument("[OLD]", "The commit, or the beginning of an id that is gone.", None),
    new: str = argument("[NEW]", "The commit that took its place.", None),
    map: str = text("--map FILE", "filter-repo's commit-map: `OLD NEW` a line (`-`: stdin)."),
) -> Answer:
    """Say which commit took the place of another one, so that its memories stand there, in other
    clones too.

    Nothing is rewritten.
    """
    if bool(map) == bool(old) or bool(old) != bool(new):
        raise UsageError("give OLD and NEW, or --map FILE")
    bad: list[str] = []
    if map:
        pairs, bad = _pairs(map, store.repo.hex_len)
    else:
        there = store.repo.commit(new)
        pairs = [(reanchor.commit_of(store, old), there or new)]
        if pairs[0][0] == there:
            same = f"'{old[:80]}' and '{new[:80]}' are the same commit"
            raise MemError(same, hint="nothing was written")
    done = reanchor.reanchor(store, pairs)
    for line in bad:
        refused(line)
    hint = "" if map else "name a commit that is here; `git fetch` may bring it"
    for to, was in done.refused:
        refused(f"cannot move {was[:12]} to '{to[:80]}': {_REASON}", hint)
    found = {
        "moved": [{"old": o, "new": n, "memories": m} for o, n, m in done.moved],
        "known": done.known,
        "dropped": done.dropped,
        "refused": [{"old": o, "new": n, "reason": _REASON} for n, o in done.refused],
        "bad_lines": len(bad),
    }
    lines = [f"{o[:12]} is now {n[:12]} ({many(m, 'memory')})" for o, n, m in done.moved]
    if done.known:
        lines.append(f"{done.known} known already")
    if done.dropped:
        listed = ", ".join(commit[:12] for commit in done.dropped[:10])
        dropped = f"{len(done.dropped)} were dropped by the rewrite: {listed}"
        lines.append(f"{dropped}; their memories stay")
    if not lines and not done.refused:
        lines.append("no memory is about any of these commits")
    settled = done.moved or done.known or done.dropped
    return Answer(found, lines, 1 if done.refused or bad or not settled else 0)


def _pairs(name: str, digits: int) -> tuple[list[tuple[str, str]], list[str]]:
    """([(old, new)] of a commit map, what is wrong with its other lines), without its heading."""
    pairs: list[tuple[str, str]] = []
    bad: list[str] = []
    for number, line in enumerate(read_file(name).splitlines(), 1):
        words = line.split()
        if len(words) == 2 and all(len(w) == digits and notetree.is_hex(w) for w in words):
            pairs.append((words[0], words[1]))
        elif words and not (number == 1 and words == ["old", "new"]):
            bad.append(f"line {number} of '{name}' is not two full commit ids")
    return pairs, bad
