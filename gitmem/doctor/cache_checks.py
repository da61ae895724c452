"""Checks of the cache against the notes it is made from, and of commits that memories are about."""

import os
import sqlite3
from collections.abc import Iterator

from ..anchors import patch_id_marks, reanchor
from ..core.plural import many
from ..engine import cache, cache_check, cache_lock, index
from ..engine.filters import Filter
from ..store import Store
from . import note_checks
from .finding import BAD, LISTED, OK, WARN, Finding

_LONG_HISTORY = 20_000  # commits from which a commit-graph is worth a word


def notes_and_cache(store: Store) -> Iterator[Finding]:
    """The notes of each scope; where git can read them all, the cache made from them, too."""
    unreadable: list[Finding] = []
    for name, _ in store.sources:
        findings, failed = note_checks.scope(store, name)
        yield from findings
        unreadable += [failed] if failed else []
    if unreadable:
        yield from unreadable
        return
    yield from note_checks.purged(store)
    of_cache = cached(store)
    yield from of_cache
    damaged = any(finding.level == BAD for finding in of_cache)
    if os.path.exists(cache.path_of(store.repo.mem_dir)) and not damaged:
        yield from _commits(store)


def cached(store: Store) -> list[Finding]:
    """The cache, compared with its lines as far as nobody is writing it."""
    path = cache.path_of(store.repo.mem_dir)
    opened = None
    try:
        if os.path.exists(path):
            opened = cache.open_cache(store.repo.mem_dir, create=False)
        if opened is None:
            return [Finding(OK, "no cache yet; the first recall builds it")]
        damage = cache_check.check_all(opened, store.table)
        if not damage:
            size = cache_lock.size(path) / 1e6
            found = [Finding(OK, f"cache: {Filter().count(opened)} memories, {size:.1f} MB")]
            if index.pending(opened, store.sources):
                found.append(Finding(OK, "the notes moved since; the next recall catches up"))
            return found
    except (cache_check.Busy, cache.Moved):
        return [Finding(OK, "the cache is being written at this moment, so it was not compared")]
    except (cache.Damaged, sqlite3.DatabaseError) as e:
        damage = str(e)
    finally:
        if opened is not None:
            opened.close()

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
