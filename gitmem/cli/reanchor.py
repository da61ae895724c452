"""The command about commits that were replaced: reanchor."""

from __future__ import annotations

import typer

from ..anchors import reanchor
from ..core.errors import MemError, UsageError
from ..notes import notetree
from . import app
from .common import opened, read_file, refused, write, write_json
from .options import Json, text


@app.command("reanchor")
def reanchor_command(
    old: str = typer.Argument(
        None,
        metavar="[OLD]",
        help="The commit that memories are about; also the begin of an id that is gone.",
    ),
    new: str = typer.Argument(None, metavar="[NEW]", help="The commit that took its place."),
    *,
    map: str = text(
        "--map",
        metavar="FILE",
        help=(
            "Many: a commit-map as filter-repo writes it, one `OLD NEW` a line (`-`: standard"
            " input)."
        ),
    ),
    as_json: Json,
) -> int:
    """Say which commit took the place of another one, so that its memories stand there.

    Nothing is rewritten; other clones learn it too.
    """
    if bool(map) == bool(old) or bool(old) != bool(new):
        raise UsageError("give OLD and NEW, or --map FILE")
    with opened() as store:
        bad: list[str] = []
        if map:
            pairs, bad = _pairs(map, store.repo.hex_len)
        else:
            there = store.repo.commit(new)
            pairs = [(reanchor.commit_of(store, old), there or new)]
            if pairs[0][0] == there:
                raise MemError(
                    f"'{old[:80]}' and '{new[:80]}' are the same commit", hint="nothing was written"
                )
        done = reanchor.reanchor(store, pairs)
        reason = "no such commit in this repository"
        for line in bad:
            refused(line)
        for to, was in done.refused:
            refused(
                f"cannot move {was[:12]} to '{to[:80]}': {reason}",
                "" if map else "name a commit that is here; `git fetch` may bring it",
            )
        if as_json:
            write_json(
                {
                    "moved": [{"old": o, "new": n, "memories": m} for o, n, m in done.moved],
                    "known": done.known,
                    "dropped": done.dropped,
                    "refused": [{"old": o, "new": n, "reason": reason} for n, o in done.refused],
                    "bad_lines": len(bad),
                }
            )
        else:
            for o, n, m in done.moved:
                write(f"{o[:12]} is now {n[:12]} ({m} {'memory' if m == 1 else 'memories'})")
            if done.known:
                write(f"{done.known} known already")
            if done.dropped:
                listed = ", ".join(c[:12] for c in done.dropped[:10])
                write(
                    f"{len(done.dropped)} were dropped by the rewrite: {listed};"
                    " their memories stay"
                )
            if not (done.moved or done.known or done.dropped or done.refused):
                write("no memory is about any of these commits")
        return 1 if done.refused or bad or not (done.moved or done.known or done.dropped) else 0


def _pairs(name: str, digits: int) -> tuple[list[tuple[str, str]], list[str]]:
    """([(old, new)] of a commit map, what is wrong with its other lines); its heading is
    skipped."""
    pairs: list[tuple[str, str]] = []
    bad: list[str] = []
    for number, line in enumerate(read_file(name).splitlines(), 1):
        words = line.split()
        if len(words) == 2 and all(len(w) == digits and notetree.is_hex(w) for w in words):
            pairs.append((words[0], words[1]))
        elif words and not (number == 1 and words == ["old", "new"]):
            bad.append(f"line {number} of '{name}' is not two full commit ids")
    return pairs, bad
