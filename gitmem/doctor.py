"""`git mem doctor`: what is wrong or off, each with a safe next step.

Promise: it reads everything it judges (every note line, the whole cache), and
changes nothing.
"""

from __future__ import annotations

import os
import sqlite3

from . import __version__, cache, check, githooks, index, notetree, reanchor, record, setup, worker
from .store import Store

OK, OFF, WARN, BAD = "ok", "off", "warn", "bad"


class Finding:
    __slots__ = ("hint", "level", "text")

    def __init__(self, level: str, text: str, hint: str = "") -> None:
        self.level = level
        self.text = text
        self.hint = hint


def examine(store: Store) -> list[Finding]:
    """Every finding, good ones included."""
    out: list[Finding] = []
    version = store.repo.git.text("version").removeprefix("git version ")
    out.append(Finding(OK, f"git mem {__version__}, git {version}, SQLite {sqlite3.sqlite_version}"))
    if not store.settings.flag("enabled"):
        out.append(Finding(OFF, f"git mem is switched off by {store.settings.origins['enabled']}"))
    blocked = setup.blocked(store)
    if blocked:
        out.append(Finding(BAD, f"'{blocked}' stands where memories are to be stored", "choose another namespace, for example `git config mem.ref memory`"))
    for key, value, why in setup.missing(store):
        out.append(Finding(WARN, f"{key} lacks '{value}': {why}", "run `git mem init`"))
    out += _hooks(store)
    for scope, notes in store.sources:
        tip = notes.tip()
        if tip:
            out += _notes(store, scope, tip)
        else:
            out.append(Finding(OK, f"{scope}: no memories yet"))
    of_cache = _cache(store)
    out += of_cache
    if os.path.exists(cache.path_of(store.repo.mem_dir)) and not any(f.level == BAD for f in of_cache):
        out += _anchors(store)
    try:
        store.table.verify()
        out.append(Finding(OK, f"embedding table {store.table.space}"))
    except Exception as e:
        out.append(Finding(BAD, str(e), "install git mem again"))
    policy = os.path.join(store.repo.top, ".gitmem.toml") if store.repo.top else ""
    if policy and os.path.exists(policy):
        out += _policy(policy)
    return out


def _hooks(store: Store) -> list[Finding]:
    found = githooks.survey(store)
    out = [Finding(WARN, what, hint) for what, hint in found.problems]
    if found.on:
        out.append(Finding(OK, f"git hooks: {', '.join(found.on)}"))
    elif not found.problems:
        out.append(Finding(OFF, "git hooks are off: each search looks for what is new itself", "`git mem install git` turns them on"))
    if githooks.PRE_PUSH not in found.on:
        out.append(Finding(OFF, "no warning before a push that would publish private memories", "`git mem install git --pre-push` turns it on"))
    failed = worker.failures(store.repo.mem_dir)
    if failed:
        out.append(Finding(WARN, f"the worker has written {len(failed)} line{'s' * (len(failed) != 1)} to its log, the last: {failed[-1]}",
                           f"the log is '{os.path.join(store.repo.mem_dir, worker.LOG)}'; delete it when it is read"))
    return out


def _notes(store: Store, scope: str, tip: str) -> list[Finding]:
    """Every line of a ref, read through git."""
    notes = store.notes(scope)
    records = foreign = newer = forged = 0
    keys: dict[str, int] = {}
    for key, _ in notetree.all_notes(store.repo.git, tip, store.repo.hex_len):
        keys[key] = keys.get(key, 0) + 1
    seen: set[bytes] = set()
    for _, line in notes.lines(tip, deep=True):
        if line in seen:
            continue
        seen.add(line)
        parsed = record.parse(line)
        if parsed:
            records += 1
            forged += parsed.op == "create" and not record.id_holds(parsed.data)
        elif record.newer(line):
            newer += 1
        else:
            foreign += 1
    out = [Finding(OK, f"{scope}: {records} record{'s' * (records != 1)} in {len(keys)} note{'s' * (len(keys) != 1)}")]
    doubled = sum(n > 1 for n in keys.values())
    if doubled:
        out.append(Finding(WARN, f"{scope}: {doubled} notes lie under two paths (mixed fan-out)", "nothing is lost: git mem reads both and unites them at the next write"))
    if newer:
        out.append(Finding(WARN, f"{scope}: {newer} records of a newer format are kept, not shown", "update git mem"))
    if forged:
        out.append(Finding(WARN, f"{scope}: {forged} records do not carry the id of their text (a note edited by hand?)", "`git mem edit` makes a proper new version"))
    if foreign:
        out.append(Finding(OK, f"{scope}: {foreign} lines of others are kept, not shown"))
    lost = notes.lost_lines(deep=True)
    if lost:
        out.append(Finding(WARN, f"{scope}: {lost} lines were taken out of the notes by another tool; recall still finds them", "the next write puts them back"))
    return out


def _cache(store: Store) -> list[Finding]:
    path = cache.path_of(store.repo.mem_dir)
    if not os.path.exists(path):
        return [Finding(OK, "no cache yet; the first recall builds it")]
    try:
        opened = cache.open_cache(store.repo.mem_dir, create=False)
        assert opened is not None
        wrong = check.check_all(opened, store.table)
        waiting = len(index.pending(opened, store.sources)) if not wrong else 0
        count = opened.count() if not wrong else 0
        opened.close()
    except (cache.Damaged, sqlite3.DatabaseError) as e:
        wrong, waiting, count = str(e), 0, 0
    if wrong:
        return [Finding(BAD, f"the cache is damaged: {wrong}", "run `git mem index --rebuild`; nothing is lost")]
    size = os.path.getsize(path) / 1e6
    out = [Finding(OK, f"cache: {count} memories, {size:.1f} MB")]
    if waiting:
        out.append(Finding(OK, "the notes moved since; the next recall catches up"))
    return out


_LISTED = 10  # lost commits shown


def _anchors(store: Store) -> list[Finding]:
    """Commits with memories that nothing holds any more, and what other clones are not told of yet."""
    found = reanchor.lost(store)
    out = []
    if found:
        memories = sum(item.memories for item in found)
        listed = [f"{item.commit[:12]}{'' if item.here else ' (not here)'}: {item.memories}" + "".join(f", same change as {c[:12]}" for c in item.same[:3])
                  for item in found[:_LISTED]]
        more = f"; and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        out.append(Finding(WARN, f"{memories} {'memory is' if memories == 1 else 'memories are'} about {len(found)} commit{'s' * (len(found) != 1)} that no branch holds: {'; '.join(listed)}{more}",
                           "`git mem list --all` shows them; `git mem reanchor OLD NEW` says which commit took the place of one"))
    waiting = sum(len(reanchor.missing(store, scope)) for scope, notes in store.sources if notes.tip())
    if waiting:
        out.append(Finding(OK, f"{waiting} mark{'s' * (waiting != 1)} of commits {'are' if waiting != 1 else 'is'} not in the notes yet; `git mem sync` writes them"))
    return out


def _policy(path: str) -> list[Finding]:
    import tomllib

    from .config import SETTINGS, check
    from .errors import UsageError

    try:
        with open(path, "rb") as f:
            table = tomllib.load(f)
    except (OSError, ValueError, RecursionError) as e:
        return [Finding(WARN, f".gitmem.toml cannot be read and counts as absent: {e}")]
    out = []
    for name, value in table.items():
        if name in SETTINGS and SETTINGS[name][2]:
            try:
                check(name, SETTINGS[name][0], str(value))
            except UsageError as e:
                out.append(Finding(WARN, f".gitmem.toml: {e.message}; ignored"))
    ignored = [k for k in table if k not in SETTINGS or not SETTINGS[k][2]]
    if ignored:
        out.append(Finding(WARN, f".gitmem.toml may not set {', '.join(sorted(ignored))}; ignored", "use `git config` for it"))
    return out
