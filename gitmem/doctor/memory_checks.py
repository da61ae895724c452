"""Checks of the notes, of the cache made from them, and of the commits that memories are about."""

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial

from ..anchors import patch_id_marks, reanchor
from ..core import record
from ..core.errors import GitFailed, MemError
from ..core.fold import Tombstones
from ..core.plural import many
from ..core.progress import counted
from ..engine import cache, cache_check, cache_lock, index, unread
from ..engine.filters import Filter
from ..erasure import purge, tombstones
from ..git import reflock
from ..notes import notetree, ref_repair
from ..signing import trust
from ..store import Store
from .finding import BAD, LISTED, OK, REPAIRS, WARN, Finding

_LONG_HISTORY = 20_000  # commits from which a commit-graph is worth a word


def locks(store: Store) -> Iterator[Finding]:
    """Locks that stop every write to the refs of memories."""
    refs = [notes.ref for _, notes in store.sources]

    def remove() -> str:
        for ref in refs:
            reflock.recover(store.repo.git, ref)
        left = reflock.standing(store.repo.common_dir, refs)
        if left:
            raise MemError(f"'{left[0]}' may be the lock of another program")
        return "removed the lock that a dead writer left"

    for path in reflock.standing(store.repo.common_dir, refs):
        yield Finding(BAD, f"'{path}' stops every write", reflock.LEFT, remove)


def _scope(store: Store, scope: str) -> Iterator[Finding]:
    """The notes of a scope. Raises GitFailed where git cannot read them."""
    ref = store.notes(scope).ref
    tip = store.notes(scope).tip(index.known_tip(store.repo.mem_dir, ref))
    yield from _put_back(store, scope)
    if tip:
        yield from _lines(store, scope, tip)
    elif memories := index.known_count(store.repo.mem_dir, scope):
        gone = f"{scope}: '{ref}' is gone, and its commits are not here"
        text = f"{gone}; the cache still has {memories} of its memories"
        hint = f"the next write to it puts them back; {REPAIRS}"
        yield Finding(BAD, text, hint, partial(_mend, store, scope))
    elif store.notes(scope).waiting():
        text = f"{scope}: '{ref}' could not be read; its lines come back with the next write"
        yield Finding(BAD, text, REPAIRS, partial(_mend, store, scope))
    else:
        yield Finding(OK, f"{scope}: no memories yet")


def _put_back(store: Store, scope: str) -> Iterator[Finding]:
    """Says once that the ref was put back, by this reader or one before."""
    history = store.notes(scope).history
    commit, history.mended = history.mended[:12], ""
    if commit:
        yield Finding(
            WARN,
            f"{scope}: '{history.ref}' was gone or could not be read; it is at {commit} again",
            "something deleted it (`git fetch --prune`?), or a power cut emptied it; what came"
            f" after {commit} and can be read comes back with the next write; {REPAIRS}",
            partial(_mend, store, scope),
        )


def _mend(store: Store, scope: str) -> str:
    """Puts together what of the ref can be read, and what the cache has where it is gone."""
    notes = store.notes(scope)
    before = notes.git.resolve(notes.ref)
    ref_repair.mend(notes.git, notes.ref, asked=True)
    notes.git.close()  # it has read the ref as it was
    store.settle("git mem: mend", scope)
    tip = notes.tip()
    if tip and (gone := ref_repair.missing(notes.git, tip)):
        raise MemError(
            f"{scope}: {many(len(gone), 'object')} of '{notes.ref}' cannot be read, the first"
            f" is {gone[0][:12]}; nothing was written"
        )
    if tip == before:
        return f"{scope}: the ref is whole; nothing was written"
    return f"{scope}: the ref is whole again, at {tip[:12] or 'nothing'}"


def _return_lines(store: Store, scope: str) -> str:
    """Puts lines back that another tool took out."""
    notes = store.notes(scope)
    before = notes.tip()
    written = notes.settle("git mem: mend", store.identity, deep=True)
    if notes.tip() == before:
        return f"{scope}: nothing was left to mend; nothing was written"
    return f"{scope}: {many(written.lines, 'line')} put back"


def _lines(store: Store, scope: str, tip: str) -> Iterator[Finding]:
    """Every line of a ref, read through git."""
    notes = store.notes(scope)
    ref = f"`git notes --ref={store.settings['ref']}/{scope}"
    lines: dict[bytes, str] = {}
    for key, line in notes.lines(tip, deep=True):
        lines.setdefault(line, key)
    kinds = {line: record.kind_of(line) for line in lines}
    count = Counter(kinds.values())
    records = many(count["record"] + count["forged"], "record")
    keys = sum(1 for _ in notetree.all_notes(store.repo.git, tip))
    yield Finding(OK, f"{scope}: {records} in {many(keys, 'note')}")
    yield from _objects(store, scope, ref)
    if broken := [line for line, kind in kinds.items() if kind == "broken"]:
        places = [f"{lines[b][:12]} (line {record.version_of(b)[:8]})" for b in broken[:LISTED]]
        yield Finding(
            WARN,
            f"{scope}: {many(len(broken), 'line')} that began as a record and cannot be read,"
            f" at {', '.join(places)}",
            f"they are kept; {ref} show COMMIT` prints them",
        )
    if count["newer"]:
        newer = f"{scope}: {many(count['newer'], 'record')} of a newer format kept, not shown"
        yield Finding(WARN, newer, "update git mem")
    if count["forged"]:
        forged = f"{scope}: {many(count['forged'], 'record')} without the id of the text"
        hint = "`git mem edit` makes a proper new version"
        yield Finding(WARN, f"{forged} (a note edited by hand?)", hint)
    if count["foreign"]:
        foreign = many(count["foreign"], "line")
        yield Finding(OK, f"{scope}: {foreign} of others kept, not shown")
    if lost := notes.taken_out(deep=True):
        taken = f"{scope}: {many(len(lost), 'line')} taken out of the notes by another tool"
        hint = f"the next write puts them back; {REPAIRS}"
        repair = partial(_return_lines, store, scope)
        yield Finding(WARN, f"{taken}; recall still finds them", hint, repair)
    with store.progress("looking for secrets", len(lines)) as advance:
        secrets = trust.secrets(counted(lines, advance))
    if secrets:
        named = [f"{id[:8] or 'line ' + version[:8]} ({rule})" for version, id, _, rule in secrets]
        may = f"{scope}: {many(len(secrets), 'text')} that may hold a secret"
        hint = (
            "`git mem show` shows a memory; `git mem purge` takes a memory or a line out for good"
        )
        yield Finding(WARN, f"{may}: {', '.join(named[:LISTED])}", hint)


def _objects(store: Store, scope: str, ref: str) -> Iterator[Finding]:
    """Notes that could not be read when the lines were."""
    notes = store.notes(scope)
    for key, size in notes.unread.items():
        if size:
            most = unread.megabytes(store.repo.git.largest)
            yield Finding(
                WARN,
                f"{scope}: the note of {key} has {unread.megabytes(size)}, more than {most}:"
                " it is not read",
                f"its lines are kept, and shown to nobody; {ref} list {key[:12]}` names its object",
            )
    if gone := list(dict.fromkeys(notes.missing)):
        text = f"{scope}: {many(len(gone), 'note')} of the ref cannot be read"
        hint = "`git fsck` names what is missing; where a disk is away, that comes first"
        mend = partial(_mend, store, scope)
        yield Finding(BAD, f"{text}, the first is {gone[0][:12]}", hint, mend)


def _purged(store: Store) -> Iterator[Finding]:
    """What a call that was killed, a fetch or stock git may have left of purged text."""

    def finish() -> str:
        done = purge.scrub(store, sure=True)
        if done and done.held:
            raise MemError(f"purged text is still here: {', '.join(done.held)} leads to it")
        return f"deleted {len(done.deleted) if done else 0} objects that held purged text"

    if not tombstones.settled(store, Tombstones(tombstones.purges(store)), note=False):
        text = "text that was purged may still be in objects here"
        yield Finding(WARN, text, "`git mem sync` looks, and takes it out", finish)


# The cache


def notes_and_cache(store: Store) -> Iterator[Finding]:
    """The notes of each scope; where git can read them all, the cache made from them, too."""
    unreadable: list[Finding] = []
    for scope, _ in store.sources:
        try:
            yield from list(_scope(store, scope))
        except GitFailed as e:
            mend = partial(_mend, store, scope)
            unreadable.append(Finding(BAD, f"{scope}: {e.message}", e.hint, mend))
    if unreadable:
        yield from unreadable
        return
    yield from _purged(store)
    of_cache = cached(store)
    yield from of_cache
    damaged = any(finding.level == BAD for finding in of_cache)
    if os.path.exists(cache.path_of(store.repo.mem_dir)) and not damaged:
        yield from _commits(store)


def cached(store: Store) -> list[Finding]:
    """The cache, compared with its lines as far as nobody is writing it."""
    path = cache.path_of(store.repo.mem_dir)
    try:
        there = os.path.exists(path)
        opened = cache.open_cache(store.repo.mem_dir, create=False) if there else None
        if opened is None:
            return [Finding(OK, "no cache yet; the first recall builds it")]
        with closing(opened):
            damage = cache_check.check_all(opened, store.table, store.progress)
            if not damage:
                held, size = many(Filter().count(opened), "memory"), cache_lock.size(path) / 1e6
                found = [Finding(OK, f"cache: {held}, {size:.1f} MB")]
                if index.pending(opened, store.sources):
                    found.append(Finding(OK, "the notes moved since; the next recall catches up"))
                return found
    except (cache_check.NotChecked, cache.Moved) as e:
        return [Finding(OK, f"the cache was not compared with its lines: {e}")]
    except (cache.Damaged, sqlite3.DatabaseError) as e:
        damage = str(e)

    def rebuild() -> str:
        store.discard()
        count, _ = store.with_cache(lambda opened: opened.count())
        return f"the cache was built anew: {many(count, 'text')}"

    hint = "run `git mem index --rebuild`; nothing is lost"
    return [Finding(BAD, f"the cache is damaged: {damage}", hint, rebuild)]


def _commit_graph(store: Store) -> Iterator[Finding]:
    """Advises git's commit-graph where walks over the history take long without it."""
    info = os.path.join(store.repo.common_dir, "objects", "info")
    if any(os.path.exists(os.path.join(info, name)) for name in ("commit-graph", "commit-graphs")):
        return
    commits = store.repo.git.text("rev-list", "--count", f"-n{_LONG_HISTORY}", "HEAD", "--")
    if int(commits) >= _LONG_HISTORY:
        text = "`git commit-graph write --reachable` makes walks over the history faster"
        yield Finding(OK, text)


def _commits(store: Store) -> Iterator[Finding]:
    """Commits with memories that no branch holds, and marks that other clones do not have yet."""
    if store.repo.head():
        yield from _commit_graph(store)
    lost = reanchor.lost(store)
    if lost:
        n = sum(item.memories for item in lost)
        listed = [
            f"{item.commit[:12]}{'' if item.here else ' (not here)'}: {item.memories}"
            + "".join(f", same change as {c[:12]}" for c in item.same[:3])
            for item in lost[:LISTED]
        ]
        more = f"; and {len(lost) - LISTED} more" if len(lost) > LISTED else ""
        yield Finding(
            WARN,
            f"{many(n, 'memory')} {'is' if n == 1 else 'are'} about"
            f" {many(len(lost), 'commit')} that no branch holds: {'; '.join(listed)}{more}",
            "`git mem list --all` shows them; `git mem reanchor OLD NEW` says which commit took"
            " the place of one",
        )

    def publish() -> str:
        return f"{many(patch_id_marks.publish(store), 'mark')} written"

    tips = [scope for scope, notes in store.sources if notes.tip()]
    waiting = sum(len(patch_id_marks.missing(store, scope)) for scope in tips)
    if waiting:
        marks = f"{many(waiting, 'mark')} of commits {'is' if waiting == 1 else 'are'}"
        text = f"{marks} not in the notes yet; `git mem sync` writes them"
        yield Finding(OK, text, repair=publish)
