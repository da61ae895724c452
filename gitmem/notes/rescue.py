"""Lines that a notes ref lost when it was mended (`ref_repair`), for the next write to bring back.

Promise: every line that can be read comes back, except purged ones. A missing object may be away
for a moment only (a disk that is not mounted): the ref's debt stays until all of it was read.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from ..core import record
from ..core.errors import GitFailed
from . import notetree, ref_repair
from .note_reader import Item, NoteReader
from .treeedit import TreeEdit

_NAMED = 1000  # missing objects that each write looks for


class Lost(NamedTuple):
    """`lines` to write again; then `paid` debts are replaced by `left` ones (`settle`)."""

    lines: list[Item]
    paid: list[str]
    left: list[str]


def lost_lines(notes: NoteReader) -> Lost:
    """The lines that a ref lost when it was mended and has not got back, without purged ones."""
    git = notes.git
    found: list[Item] = []
    paid, left = [], []
    for row in ref_repair.debts(git, notes.ref):
        held, *away = row.split(" ")
        if away and not all(git.ids(away)):
            continue  # still away; everything else of it was read before
        paid.append(row)
        gone: dict[str, None] = {}
        for id in away or [held]:  # the commit itself may be gone, by a purge
            found += _readable(notes, id)
            gone.update(dict.fromkeys(ref_repair.missing(git, id)))
        if gone:
            left.append(" ".join([held, *list(gone)[:_NAMED]]))
    if not paid:
        return Lost([], [], [])
    tip = notes.tip()
    found = [*ref_repair.recent_lines(git, notes.ref), *found]
    there = {line for _, line in _readable(notes, tip)} if tip else set()
    doom = notes.tombstones(notes.history.tip()).doom
    lines = [i for i in dict.fromkeys(found) if i[1] not in there and not doom(i[1])]
    return Lost(lines, paid, left)


def settle(notes: NoteReader, items: list[Item], lost: Lost) -> None:
    """After a write: keeps its lines for a while, and strikes the debts that it paid."""
    ref_repair.keep_lines(notes.git, notes.ref, items)
    if lost.paid != lost.left:
        others = [r for r in ref_repair.debts(notes.git, notes.ref) if r not in lost.paid]
        ref_repair.write_debts(notes.git, notes.ref, [*others, *lost.left])


def _readable(notes: NoteReader, id: str) -> list[Item]:
    """(anchor, line) of a notes commit, tree or note, and moves that copies state, if readable."""
    out = []
    edit = TreeEdit(notes.git, None, notes.hex_len)
    with contextlib.suppress(GitFailed):
        for key, line in notetree.contents(notes.git, _notes_below(notes, id)):
            parsed = record.parse(line)
            if parsed and parsed.op == "purge":  # anywhere else it would keep no text out
                out.append((notetree.PURGED, line))
                continue
            anchor = parsed.data.get("commit", "") if parsed else key
            whole = isinstance(anchor, str) and len(anchor) == notes.hex_len
            about = anchor == "" or (whole and notetree.is_hex(anchor))
            out.append((anchor if about else key, line))
            place = edit.anchor_of(key) if key else ""
            if stated := record.copied_to(line, place):
                out.append((place, stated))
    return out


def _notes_below(notes: NoteReader, id: str) -> list[tuple[str, str]]:
    """(key, blob id) of the notes in a commit; the key is "" where only a tree or note is left."""
    git = notes.git
    found = git.objects.get(id)
    if found and found[1] == "commit":
        return list(notetree.all_notes(git, id))
    below = [id]
    if found and found[1] == "tree":
        entries = notetree.entries(git, id)
        below = [blob.decode() for mode, blob, _ in entries if mode != notetree.GITLINK]
    read = [got for got in git.objects.get_many(below, git.largest) if got and got[1] == "blob"]
    return [("", got[0]) for got in read if notetree.continued(got[2], notes.hex_len) is None]
