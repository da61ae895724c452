"""The worker: handles the events that hooks noted, after the hooks have ended.

Short-lived and never a daemon: started by a hook, it drains the spool, brings the cache up to date,
stays a moment for what follows at once (a rebase is one worker, not one a commit), and ends. One at
a time in a repository, at low priority, with an end in any case (`LIMIT`).

Promise: no event is lost while a worker is asked for. Whoever wants something done appends a line
and then looks for a living worker (`spool.asleep`); the worker looks at the spool again after it
has given up its lock. A handler that fails is logged, without any text of the event, and stops no
other. Its events are tried once more, each alone; those that fail then wait for the next worker,
`spool.TRIES` times and a day at most. Handlers must bear a repeat.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from typing import Any

from . import sync
from .agents import automemory_export, automemory_import, failures, head_facts, receipts
from .anchors import anchor_state_update, patch_id_marks, reanchor
from .capture import sources, worker_tasks
from .engine import cache_check, cache_lock, encoding, model_vectors
from .engine.cache import Cache
from .git import config_read, memfile
from .hooks import githooks, spool, worker_log
from .memory import commit_hits, proposals
from .models import chosen, llamavec, registry
from .store import Store, open_store

Event = dict[str, Any]

LIMIT = 600  # seconds after which the kernel ends a worker
# bytes of data it may have: three times the budget of the largest thing it does, an index of
# 100,000 memories from nothing
MEMORY = 3 << 30
_BUSY = 300.0  # seconds after which it takes no more events in
_LINGER = 1.0  # seconds it waits for another event
_ALONE = 30.0  # seconds for events of a kind that failed together and are tried one by one
_EVERY = 24 * 3600.0  # seconds between two full checks of the cache


def run(
    common_dir: str, environ: Mapping[str, str], linger: float = _LINGER, wait: float = 0.0
) -> None:
    """Works off the spool of a repository; returns where another worker is at it for `wait`
    seconds, or where the cache directory is gone. Raises nothing.
    """
    mem_dir = memfile.directory(common_dir)
    end = time.monotonic() + _BUSY + wait
    try:
        while os.path.isdir(mem_dir):
            with cache_lock.locked(spool.lock(mem_dir), wait) as held:
                if not held:
                    return
                memfile.mend(common_dir)
                _work(common_dir, environ, end, linger)
            # Whoever came while we still had the lock has gone away again.
            if not spool.waiting(mem_dir):
                return
            if time.monotonic() > end:
                spool.wake(common_dir)  # one after us, with limits of its own
                return
    except Exception as e:
        worker_log.append(mem_dir, f"worker: {failures.where(e)}")


def home(common_dir: str) -> str:
    """The main working tree, for relative remotes and `.gitmem.toml`; else the repository."""
    top = os.path.dirname(common_dir)
    return top if os.path.basename(common_dir) == ".git" else common_dir


def _work(common_dir: str, environ: Mapping[str, str], end: float, linger: float) -> None:
    mem_dir, place = memfile.directory(common_dir), home(common_dir)
    git_dir = common_dir if place == common_dir else ""

    def log(line: str) -> None:
        worker_log.append(mem_dir, line)

    spool.claim(mem_dir, os.getpid())
    try:
        with closing(open_store(environ, place, log, strict=False, git_dir=git_dir)) as store:
            if store.settings.flag("enabled"):
                with worker_tasks.run(store):
                    _rounds(store, environ, end, linger)
            else:
                spool.drain(mem_dir, lambda lines: None)
    finally:
        spool.claim(mem_dir, 0)


def _rounds(store: Store, environ: Mapping[str, str], end: float, linger: float) -> None:
    mem_dir = store.repo.mem_dir

    def log(text: str) -> None:
        _log(store, text)

    first = True
    while (spool.waiting(mem_dir) or first) and time.monotonic() < end:
        if not first:  # whoever turned capture on a moment ago means the events that wait now
            store.settings = config_read.load(store.repo, environ, store.warn, strict=False)
            if not store.settings.flag("enabled"):
                return
        spool.drain(mem_dir, lambda lines: _handle(store, lines), first, log)
        first = False
        for name, step in _AFTER.items():
            if e := _attempt(step, store):
                _log(store, f"{name}: {failures.where(e)}")
        quiet = time.monotonic() + linger
        while not spool.waiting(mem_dir) and time.monotonic() < quiet:
            time.sleep(0.05)


def _log(store: Store, text: str) -> None:
    worker_log.append(store.repo.mem_dir, text)


def _attempt(action: Callable[..., object], *args: Any) -> Exception | None:
    """Runs an action; returns why it failed."""
    try:
        action(*args)
    except Exception as e:
        return e
    return None


def _handle(store: Store, lines: list[bytes]) -> list[bytes]:
    """Gives each handler its events, in their order; returns those to be tried again."""
    events: dict[str, list[Event]] = {}
    for line in lines:
        try:
            event = json.loads(line.decode("utf-8", "surrogateescape"))  # it may name any path
        except (ValueError, RecursionError):
            continue  # a torn line
        kind = event.get("event") if isinstance(event, dict) else None
        if isinstance(kind, str) and kind in HANDLERS:
            events.setdefault(kind, []).append(event)
    return _retried(store, [e for kind in events for e in _failed(store, kind, events[kind])])


def _failed(store: Store, kind: str, events: list[Event]) -> list[Event]:
    """Runs the handler of these events, for each alone where it fails; returns the failed ones."""
    reason = _attempt(HANDLERS[kind], store, events)
    if not reason:
        return []
    failed: list[Event] = []
    reasons: dict[str, None] = {}
    end = time.monotonic() + _ALONE
    for event in events:
        # A handler that fails slowly, as where nobody gives a lock back, fails for all.
        alone = len(events) > 1 and kind not in _TOGETHER and time.monotonic() < end
        if e := _attempt(HANDLERS[kind], store, [event]) if alone else reason:
            failed.append(event)
            reasons[f"{kind}: {failures.where(e)}"] = None
    for text in reasons:
        _log(store, text)
    return failed


def _retried(store: Store, failed: list[Event]) -> list[bytes]:
    """Lines for the next worker: failed events, each with its tries, but for those given up."""
    now = int(time.time())
    lines = []
    for event in failed:
        tried, since = _counted(event, "tried", 0) + 1, _counted(event, "since", now)
        if tried < spool.TRIES and now - since < spool.OLDEST:
            line = json.dumps({**event, "tried": tried, "since": since})
            lines.append(line.encode("ascii", "replace"))
    if len(lines) < len(failed):
        _log(store, f"{len(failed) - len(lines)} events given up")
    return lines


def _counted(event: Event, name: str, default: int) -> int:
    value = event.get(name)
    return value if isinstance(value, int) and value > 0 else default


# --- events -----------------------------------------------------------------


def _rewritten(store: Store, events: list[Event]) -> None:
    """After an amend or a rebase: moves what `notes.rewriteRef` did not take along."""
    successors = {
        old: new
        for event in events
        if isinstance(old := event.get("old"), str) and isinstance(new := event.get("new"), str)
    }
    pairs = []
    for old, new in successors.items():
        seen = {old}
        while new in successors and new not in seen:  # amended twice since the last worker
            seen.add(new)
            new = successors[new]
        pairs.append((old, new))
    reanchor.reanchor(store, pairs)


def _pushed(store: Store, events: list[Event]) -> None:
    """The user is pushing: memories go along, to the same remote, where `mem.autoSync` says so."""
    if store.settings.flag("autoSync"):
        for remote in {event.get("remote") for event in events}:
            if isinstance(remote, str) and remote:
                sync.push(store, remote)


def _behind(store: Store, events: list[Event]) -> None:
    """A hook found the cache behind; a file it could not read is made anew."""
    for inode in {event.get("damaged") for event in events}:
        if type(inode) is int and inode > 0:
            _log(store, "a hook found the cache damaged; it is made anew")
            store.discard(inode)


def _ended(store: Store, events: list[Event]) -> None:
    """Sessions ended: what was said in them, then what of all memories could become one."""
    worker_tasks.from_sessions(store, events)
    proposals.tend(store)


# What is done about an event. Kinds that are not here only wake us: what they mean is seen in the
# repository itself.
HANDLERS: dict[str, Callable[[Store, list[Event]], object]] = {
    "post-rewrite": _rewritten,
    "pre-push": _pushed,
    "behind": _behind,
    "auto-memory": automemory_import.from_events,
    sources.EVENT: worker_tasks.from_events,
    "session-end": _ended,
    "post-commit": worker_tasks.from_hooks,
}
_TOGETHER = ("pre-push",)  # a remote that cannot be reached is not asked once more for each event


# --- after the events -------------------------------------------------------


def _back_up(store: Store) -> None:
    """Where others took a notes ref is noted where a deletion of the ref does not reach."""
    for _, notes in store.sources:
        notes.back_up()


def _refresh(store: Store) -> None:
    if any(notes.tip() for _, notes in store.sources):
        store.with_cache(lambda cache: None)


def _check_signatures(store: Store) -> None:
    """Where the policy asks for checks, so that no prompt waits for one."""
    if store.trust.strict:
        store.with_cache(lambda cache: store.trust.catch_up(cache, None))


def _update_anchors(store: Store) -> None:
    """Where memories stand is known for the present HEAD before anybody asks."""
    anchor_state_update.update(store)
    if os.path.isdir(store.repo.mem_dir):
        patch_id_marks.write_found(store)


def _learn_facts(store: Store) -> None:
    """What git knows of the work at HEAD, for the context of the next session."""
    if any(notes.tip() for _, notes in store.sources):
        head_facts.learn(store)


def _take_in_commits(store: Store) -> None:
    """The messages of new commits become searchable, a portion of time at once."""
    if os.path.isdir(store.repo.mem_dir):
        commit_hits.take_in(store, encoding.PORTION)  # asks for another worker where some wait


def _encode(store: Store) -> None:
    """Makes a portion of the vectors; the next workers make the rest."""
    if not store.settings.encodes or not os.path.isdir(store.repo.mem_dir):
        return
    choice = chosen.choice(registry.EMBEDDING, store.settings["embedModel"], os.environ)
    if choice.problem:
        return  # `git mem doctor` says it
    with llamavec.of(choice) if choice.path else nullcontext() as model:

        def fill(cache: Cache) -> int:
            made = llamavec.made(cache, choice) if model else ""
            if made and not model_vectors.missing(cache, made):  # it would be loaded for nothing
                from .engine import hubness

                model_vectors.drop_others(cache, made)
                hubness.refresh(cache, made)
                return 0
            if not encoding.fill(cache, model=model):
                return 0
            return model_vectors.missing(cache, model.space) if model else encoding.missing(cache)

        if store.with_cache(fill, refresh=False)[0]:
            spool.append(store.repo.mem_dir, spool.BEHIND)


def _check(store: Store) -> None:
    """Once a day everything in the cache is made again from its lines and compared."""
    stamp = os.path.join(store.repo.mem_dir, "checked")
    if os.path.exists(stamp) and time.time() - os.stat(stamp).st_mtime < _EVERY:
        return
    # Before the check: one that is killed is not repeated with every commit.
    os.close(memfile.opened(stamp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    os.utime(stamp)

    def wrong(cache: Cache) -> str:
        try:
            return cache_check.check_all(cache, store.table) if cache.how == "file" else ""
        except cache_check.NotChecked:
            return ""  # writers check what they write; `doctor` has more memory than a worker

    damage, _ = store.with_cache(wrong)
    if damage:
        _log(store, f"the cache was damaged ({damage}) and was made anew")
        store.discard()
        _refresh(store)


_AFTER: dict[str, Callable[[Store], object]] = {
    "backups": _back_up,
    # Of sessions that ended, also by a crash of the client: their files say what there is to do.
    "sessions": receipts.tend,
    "commits": worker_tasks.from_commits,
    "refresh": _refresh,
    "signatures": _check_signatures,
    "anchors": _update_anchors,
    "facts": _learn_facts,
    "hooks": githooks.tend,
    # Files that an agent reads instead of asking.
    "export": automemory_export.tend,
    "history": _take_in_commits,
    "encode": _encode,
    "check": _check,
}
