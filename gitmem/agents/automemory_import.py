"""Claude Code's auto memory becomes memories: on command, when a session starts, by the worker.

Promises. What is known adds nothing: a memory's `source` names the topic and what it said. A topic
that was edited becomes a new version of its memory, one that was removed leaves it as it is, one
whose memory was forgotten or purged stays away. A version that a person edited in git mem is not
covered: the changed topic becomes a memory of its own. Nothing of the directory is changed, nothing
outside of it is read, and what git mem wrote there is no news. One file that cannot be read, is too
large or holds a secret is named and stops no other.

Private unless asked otherwise: what the client noted about its user is the user's. Anchored where
HEAD left the main branch, since the directory serves every branch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from ..anchors import patch_id
from ..core import fold, record
from ..core.errors import MemError, Refused
from ..engine.cache import Cache
from ..engine.document import content_digest
from ..engine.sql import select_in
from ..git import worktree_file
from ..memory import memories, remember
from ..store import Store, open_store
from . import automemory, automemory_note
from .automemory import Sight
from .automemory_dir import Item, Report
from .automemory_note import LARGEST, Topic

SOURCE = "claude-memory:"
_UP_TO = SOURCE[:-1] + ";"  # the next character: every source of ours lies before it
STORED, EDITED, KNOWN, REFUSED, OURS = "stored", "edited", "known", "refused", "ours"
MOST = 1000  # topics
_NAMES = 800  # characters of a file's name in a source


def take(
    store: Store,
    directory: str,
    *,
    scope: str = "private",
    allow_secret: bool = False,
    dry: bool = False,
    head: str = "",
) -> Report:
    """Takes a directory in; `dry`: says what it would do. `head`: the commit that was checked out
    where the client works, "" for the one of `store`. Raises MemError where the directory cannot be
    read or the notes cannot be written.
    """
    report = Report(directory)
    topics = read(directory, report)
    known = _Known(store, topics)
    new: list[tuple[Item, dict[str, Any]]] = []
    changed: list[tuple[Item, dict[str, Any]]] = []
    for topic, written in topics:
        item = Item(topic.file, "", KNOWN, topic.title)
        report.items.append(item)
        if topic.sealed:
            item.status, item.id, item.reason = OURS, topic.ours, "git mem wrote it"
            continue
        item.id, item.reason = known.says(topic)
        if item.id:
            continue
        if former := known.former(topic):
            item.status, item.id = EDITED, former.memory.id
            changed.append((item, _changes(topic, former.record.data)))
        else:
            item.status = STORED
            when = _time(topic.modified) or written
            about = {"created_at": when, "agent": "claude", "session": topic.session}
            new.append((item, {**fields(topic), **about}))
    if dry:
        new, changed = new + changed, []
    for item, draft in changed:
        try:
            memories.edit(store, item.id, draft, allow_secret=allow_secret)
        except MemError as e:
            _refuse(item, e.message, e.hint)
    head = (head or store.repo.head()) if new else ""
    anchor = head and (patch_id.base_of(store.repo, head) or head)
    drafts = [{**draft, "commit": anchor, "scope": scope} for _, draft in new]
    results = remember.remember_many(
        store, drafts, total=len(drafts), allow_secret=allow_secret, dry=dry
    )
    for (item, _), result in zip(new, results, strict=True):
        item.id = item.id or result.id
        if result.status == remember.DUPLICATE:
            item.status, item.reason = KNOWN, result.reason
        elif result.status == remember.REFUSED:
            _refuse(item, result.reason, result.hint)
    return report


def at_start(cwd: str, environ: Mapping[str, str], sight: Sight) -> None:
    """A session start's reading."""
    with closing(open_store(environ, cwd, strict=False)) as store:
        take(store, sight.path)
        automemory.keep(store.repo.mem_dir, sight)


def from_events(store: Store, events: list[dict[str, Any]]) -> None:
    """The worker's reading, for session starts that had no time for it."""
    for event in events if store.settings.flag("autoMemory") else ():
        env, git_dir, top = event.get("env"), event.get("git_dir"), event.get("top")
        if not (isinstance(env, dict) and isinstance(git_dir, str) and isinstance(top, str)):
            continue
        environ = {k: v for k, v in env.items() if isinstance(v, str)}
        sight = automemory.Sight(git_dir, store.repo.common_dir, top, environ)
        if sight.changed:
            if sight.path and sight.count:  # else they went away meanwhile
                # The worker stands in the main worktree, the session perhaps in another.
                head = record.object_id(event.get("head"))
                take(store, sight.path, head=head if store.repo.commits([head]) else "")
            automemory.keep(store.repo.mem_dir, sight)


def read(directory: str, report: Report) -> list[tuple[Topic, str]]:
    """(topic, time its file was written) of every file that can be read; the report names the
    others. Raises MemError where there is no directory.
    """
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".md"))
    except OSError as e:
        hint = "Claude Code makes it when it first notes something; --from names another directory"
        raise MemError(f"no auto memory in '{directory}': {e.strerror}", hint=hint) from e
    entries: dict[str, tuple[str, str]] = {}
    topics: list[tuple[Topic, str]] = []
    # The index first: it has titles of the others.
    names.sort(key=lambda name: name != automemory_note.INDEX)
    most = MOST + (names[:1] == [automemory_note.INDEX])
    for at, name in enumerate(names):
        try:
            if at >= most:
                raise MemError(f"the directory has more than {MOST} topics")
            text, written = _open(directory, name)
            if name == automemory_note.INDEX:
                entries, passages = automemory_note.read_index(text)
                topics += [(passage, written) for passage in passages]
                continue
            topic = automemory_note.read(_shown(name), text, entries.get(name, ("", "")))
            if not topic.body.strip():
                raise MemError("it says nothing")
            topics.append((topic, written))
        except MemError as e:
            report.items.append(Item(_shown(name), "", REFUSED, reason=e.message))
    there = [name for name in entries if os.path.lexists(os.path.join(directory, name))]
    missing = [_shown(name) for name in entries if "/" not in name and name not in there]
    report.missing = sorted(missing)
    return topics


def _open(directory: str, name: str) -> tuple[str, str]:
    """(text, time written) of a plain file up to LARGEST. Raises MemError."""
    try:
        raw = worktree_file.read(directory, name, LARGEST)
        facts = os.lstat(os.path.join(directory, name))
    except MemError as e:
        raise MemError(e.message.replace(f"'{name}'", "it", 1)) from e
    except OSError:
        raw = None
    if raw is None:
        raise MemError("it is gone")
    if reason := record.no_text(raw):
        raise MemError(reason)
    written = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(facts.st_mtime))
    return raw.decode("utf-8-sig"), written


def source_of(topic: Topic) -> str:
    return prefix_of(topic) + topic.digest


def prefix_of(topic: Topic) -> str:
    """What the sources of all versions of a topic have in common."""
    return f"{SOURCE}{topic.file[:_NAMES]}@"


def fields(topic: Topic) -> dict[str, Any]:
    """The content of a topic's memory. What the client noted was not checked again: CACHED."""
    return {
        "title": topic.title,
        "subtitle": topic.subtitle,
        "body": topic.body,
        "type": topic.type,
        "tags": [automemory_note.TAG, *([topic.kind] if topic.kind else [])],
        "concepts": topic.links,
        "source": source_of(topic),
        "provenance": "CACHED",
    }


def _changes(topic: Topic, old: dict[str, Any]) -> dict[str, Any]:
    """What a new version changes; type and tags only where the client gave it another type."""
    changes = fields(topic)
    tags = [t for t in old.get("tags") or [] if isinstance(t, str)]
    if not topic.kind or topic.kind in tags:
        del changes["type"], changes["tags"]
    else:
        changes["tags"] = [*(t for t in tags if t not in automemory_note.KINDS), topic.kind]
    return changes


class _Known:
    """The memories that topics of one directory have become, in any version."""

    def __init__(self, store: Store, topics: list[tuple[Topic, str]]) -> None:
        self._author = store.settings.author
        digests = sorted({d for topic, _ in topics for d in _digests(topic)})

        def select(cache: Cache) -> tuple[list[tuple[str, str]], dict[bytes, str]]:
            named = "SELECT id, source FROM memory WHERE source BETWEEN ? AND ? ORDER BY at, row"
            own = cache.db.execute(named, (SOURCE, _UP_TO)).fetchall()
            same = "SELECT digest, id FROM memory WHERE status = 0 AND digest IN {}"
            return own, dict(select_in(cache.db, same, digests))

        own, self._by_text = store.with_cache(select)[0]
        self._by_source = {source: id for id, source in own}
        # Only memories of topics that say something new are read whole.
        new = {prefix_of(t) for t, _ in topics if source_of(t) not in self._by_source}
        files = [(source[: source.rfind("@") + 1], id) for id, source in own]
        loaded = memories.find_many(store, [id for prefix, id in files if prefix in new])
        self._by_file: dict[str, list[memories.Found]] = {}
        for prefix, id in dict.fromkeys(files):
            if id in loaded:
                self._by_file.setdefault(prefix, []).append(loaded[id])

    def says(self, topic: Topic) -> tuple[str, str]:
        """(id of the memory that says this, or did before it was taken away; how); "" for none."""
        source = source_of(topic)
        if source in self._by_source:
            return self._by_source[source], "as it was"
        for one in self._by_file.get(prefix_of(topic), ()):
            # A team's memory may be another machine's by now; what this one said before is no news.
            past = one.memory.status != fold.ACTIVE or one.scope == "team"
            if past and any(r.data.get("source") == source for r in one.memory.records):
                return one.memory.id, "said before"
        same = next((id for d in _digests(topic) if (id := self._by_text.get(d, ""))), "")
        return same, "the same text is known" if same else ""

    def former(self, topic: Topic) -> memories.Found | None:
        """The memory that a changed topic is a version of: not one edited, nor a colleague's."""
        for one in reversed(self._by_file.get(prefix_of(topic), [])):
            own = one.scope == "private" or one.record.data.get("author") == self._author
            single = one.memory.status == fold.ACTIVE and len(one.memory.versions) == 1
            if own and single and _as_taken(one.record.data):
                return one
        return None


def _digests(topic: Topic) -> list[bytes]:
    """The texts that say the same: with the title, and without."""
    return [content_digest(title, topic.body) for title in (topic.title, "")]


def _as_taken(data: dict[str, Any]) -> bool:
    """Whether a memory says what was taken in, so that a new version of the topic may cover it."""
    digest = str(data.get("source")).rpartition("@")[2]
    words = [str(data.get(name) or "") for name in ("title", "subtitle", "body")]
    kinds = ("", *automemory_note.KINDS)
    return any(automemory_note.digest_of(*words, kind) == digest for kind in kinds)


def _refuse(item: Item, reason: str, hint: str) -> None:
    item.status, item.reason, item.hint = REFUSED, reason, hint.replace("; nothing was stored", "")


def _time(text: str) -> str:
    """A time that the client noted, "" where it is none."""
    try:
        return record.timestamp(text) if text else ""
    except Refused:
        return ""


def _shown(name: str) -> str:
    """A file's name as text: one that is no UTF-8 gets marks."""
    return record.clean(" ".join(name.split()))
