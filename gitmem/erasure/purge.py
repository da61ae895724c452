"""`git mem purge`: a memory's text or another line leaves this repository; proves it afterwards.

Promise, once it has answered that no other note holds the text: no object has a line of it, no page
of the cache and no file of ours its text, and a record without text (the tombstone) keeps it out of
every clone that has git mem. A memory that the purged one had superseded comes back; it, and others
with the same text, are named before and after.
Refs, reflogs and objects that are not ours stay; one that leads to the text is named.

The tombstone is in a ref first, together with the new history of that ref. Every later step can be
repeated, by the same call, by `git mem sync` or by `scrub`, after a kill at any point.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import Any

from ..agents import automemory_dir
from ..capture import capture_exclusions
from ..core import record
from ..core.errors import MemError
from ..core.fold import Tombstones
from ..core.record import Record
from ..git import config, reflock
from ..notes.history import History
from ..notes.notetree import PURGED
from ..store import Store
from . import cache_scrub, doomed_objects, erase, purge_target, tombstones
from .erase import Report as Report
from .purge_target import Target as Target
from .purge_target import find as find

_LOG = "the reflog of "
MESSAGE = "git mem: purge 1 memory"


def purge(store: Store, target: Target) -> Report:
    """Removes a memory or a line from this repository; finishes an earlier purge, and then
    puts the memories that came back into `target.back`.

    Raises as `Notes.replant` and `erase.erase` do; the call can be repeated.
    """
    store.repo.git.largest = 0  # here no note is too large to be read
    if target.gone:
        report, left = _carry_through(store, target, False)
        report.tombstones = [r.version for r in tombstones.purges(store) if target.id in ("", r.id)]
        left = [r for r in left if target.id in ("", r.id)]
        target.back = purge_target.coming_back(store, left, hidden=False)
        return report
    settled = tombstones.settled(store, Tombstones(tombstones.purges(store)))
    tombstones.forget(store)  # before anything is written
    capture_exclusions.close(store.repo.common_dir, target.records)
    (line,) = store.lines([tombstone(target, store.author)])
    # A private memory's tombstone stays private: it names its id.
    store.replant(target.scope, [(PURGED, line)], MESSAGE)
    report, _ = _carry_through(store, target, settled)
    report.lines = len(target.records) or 1
    report.tombstones = [record.version_of(line)]
    if target.scope == "team":
        report.remotes = store.repo.git.text("remote").split()
    return report


def scrub(store: Store, sure: bool = False) -> Report | None:
    """Removes what tombstones name; None if nothing is here. `sure`: it was, so search."""
    purges = tombstones.purges(store)
    if not purges or (not sure and tombstones.settled(store, Tombstones(purges))):
        return None
    return _carry_through(store, Target(""), False)[0]


def tombstone(target: Target, author: str) -> dict[str, Any]:
    """The record that keeps a text out; it names the id only where that tells no short text."""
    versions = sorted({r.version for r in target.records}) or [target.version]
    named: dict[str, Any] = {"id": target.id, "lines": versions, "all": True}
    if purge_target.guessable(target.records):
        named = {"id": os.urandom(16).hex(), "lines": versions}
    return record.envelope("purge", named, "", {"author": author})


# Doing it


def _carry_through(store: Store, target: Target, alone: bool) -> tuple[Report, list[Record]]:
    """Everything after the tombstone: refs, objects, cache, files; and the records that were found.

    `alone`: all earlier purges are known to be finished, so search for the target only.
    """
    store.repo.git.largest = 0
    only = target.id if alone and all(r.id == target.id for r in target.records) else ""
    purges = tombstones.purges(store)
    stones = Tombstones(purges)
    tombstones.forget(store)
    gone = [*target.records, *cache_scrub.doomed_lines(store, stones)]
    with contextlib.suppress(MemError):  # of what another clone purged; the text goes in any case
        capture_exclusions.close(store.repo.common_dir, gone)
    cache = cache_scrub.cache(store, cache_scrub.needles(gone))
    ids = {only} if only else stones.ids | {r.id for r in gone}
    # Without the id, only the version tells a line; it may be one of any shape.
    by_version = [r for r in purges if not r.data.get("all") and r.data.get("lines") is not None]
    others = bool(by_version) and not only
    hints = [i.encode() for i in ids]
    if others:
        hints = [target.line] if alone and len(target.line) >= doomed_objects.TELLING else []
    found: dict[str, Record] = {}

    def doom(line: bytes) -> bool:
        doomed = stones.doom(line)
        parsed = record.parse(line) if doomed or (only and only.encode() in line) else None
        if doomed and parsed:
            found[parsed.version] = parsed
        return doomed or bool(parsed and parsed.id == only and parsed.op != "purge")

    let_go = partial(_let_go, store)
    try:
        report = erase.erase(store.repo, doom, hints, store.progress, let_go, others)
    except OSError as e:
        raise MemError(
            f"cannot delete from '{e.filename or store.repo.common_dir}': {e.strerror}",
            hint=(
                "the memory is hidden, its text is still in some objects; the same call goes on"
                " once the files can be written"
            ),
        ) from e
    report.cache = cache
    ids |= report.ids
    given, held = automemory_dir.wipe(store, ids, gone)
    names = filter(None, {*ids, *(r.version for r in gone), target.version})
    words = [*map(str.encode, names), *cache_scrub.needles(gone, target.line)]
    report.files += given + cache_scrub.files(store.repo.mem_dir, words, doom)
    report.held += held
    if not report.held:
        tombstones.remember(store, stones)
    return report, list(found.values())


def _let_go(store: Store, names: list[str]) -> bool:
    """Makes our own refs and reflogs let go of doomed objects, and no others; whether any did."""
    ours = tombstones.ours(store)
    own = {notes.ref for _, notes in store.sources}
    backups = {config.backup_of(ref): ref for ref in own}
    changed = False
    for name in names:
        if name in backups:
            changed = True
            ours[backups[name]].append([], MESSAGE, store.identity)  # that moves the backup, too
            continue
        ref = name.removeprefix(_LOG)
        if ref not in ours:
            continue
        changed = True
        notes = ours[ref]
        if name in own:
            lines = [line for _, line in notes.lines(notes.tip())]
            there = {r.version for r in notes.purges()}
            missing = [r for r in tombstones.purges(store) if r.version not in there]
            missing = [r for r in missing if any(map(Tombstones([r]).doom, lines))]
            notes.replant([(PURGED, r.line) for r in missing], MESSAGE, store.identity)
        elif name == ref:
            # The remote is as it is; its next fetch brings what it has by then.
            reflock.delete(store.repo.git, ref)
        else:
            if ref in own:  # brings back lines that only the reflog has, without doomed ones
                notes.append([], MESSAGE, store.identity)
            History(store.repo.git, ref, store.repo.hex_len).drop_reflog()
    store.repo.git.close()
    return changed
