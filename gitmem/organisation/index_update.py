"""`git mem index --to`: memories of repositories go into the organisation's index.

Promises. Only the team's notes are read, so no private memory, edit or use can leave; a text with a
secret stays out, and what stands in `<private>` is cut, also where another tool wrote it. What was
forgotten, superseded or purged leaves with the next run. A repository whose notes are where they
were costs one question; a broken one is reported and stops none of the others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from .. import __version__, opening
from ..core import fold, record, redact
from ..core.digest import sha256
from ..core.errors import MemError, Refused
from ..core.progress import counted
from ..engine.ahead import Ahead
from ..memory import view, write_gate
from ..setup import default_remote
from ..store import Store
from .postgres import Index, Row

if TYPE_CHECKING:
    from ..core.progress import Progress

_PORTION = 1000  # memories whose vectors are made together


class Report(NamedTuple):
    """What one run did with one repository. `status`: indexed, unchanged or failed; `secrets`: the
    ids of memories that were left out.
    """

    repository: str
    status: str
    memories: int = 0
    written: int = 0
    removed: int = 0
    secrets: Sequence[str] = ()
    error: str = ""
    hint: str = ""


def update(
    index: Index,
    places: Sequence[str],
    environ: Mapping[str, str],
    *,
    name: str = "",
    dry_run: bool = False,
    warn: Callable[[str], None],
    progress: Progress,
) -> Iterator[Report]:
    """A report for each directory, as soon as it is done. `name`: what the only one is called."""
    for place in places:
        called = name or place
        try:
            with opening.opened(environ, place, warn) as store:
                called = name or name_of(store)
                yield _one(index, store, called, dry_run, progress)
        except (MemError, OSError) as e:
            told = e if isinstance(e, MemError) else MemError(e.strerror or str(e))
            yield Report(called, "failed", error=told.message, hint=told.hint)


def name_of(store: Store) -> str:
    """HOST/PATH of the remote that memories are shared through, else the directory's path."""
    remote = default_remote(store)
    url = store.repo.git.text("remote", "get-url", remote, ok=(0, 2, 128)) if remote else ""
    name = plain_name(url) if url else store.repo.common_dir.removesuffix("/.git")
    if url and "://" not in url and ":" not in url.partition("/")[0]:
        # a path from the repository on: of several it may be the same
        name = os.path.normpath(os.path.join(store.repo.top or store.repo.common_dir, name))
    return record.clean(name)  # a path need not be UTF-8


def plain_name(url: str) -> str:
    """An address of a remote without scheme, credentials, port and `.git`: one name, however a
    clone reaches it.
    """
    if "://" in url:
        try:
            parts = urlsplit(url)
            host, path = parts.hostname or "", parts.path
        except ValueError:
            host, path = "", url.partition("://")[2].rpartition("@")[2]
    else:
        host, colon, path = url.partition(":")
        if not colon or "/" in host:
            host, path = "", url
        host = host.rpartition("@")[2]
    path = path.rstrip("/").removesuffix(".git")
    return f"{host}/{path.lstrip('/')}" if host else path


def _one(index: Index, store: Store, name: str, dry_run: bool, progress: Progress) -> Report:
    tip, space = store.team.tip(), "" if index.meaning else store.table.space
    if not tip:
        hint = "`git mem pull` takes in what the remote has; the index stays as it is"
        raise MemError("no team memories here", hint=hint)
    stamp = f"{tip} {__version__}"  # a newer git mem may know more secrets
    if index.indexed(name) == (stamp, space):
        return Report(name, "unchanged")
    entries = dict(_entries(store, tip, space))
    # of two runs the later one has to see what the other wrote, else it would not remove it
    with nullcontext() if dry_run else index.writing(name):
        known = index.digests(name)
        changed = [id for id, (digest, _) in entries.items() if known.get(id) != digest]
        admitted, secrets = {}, []
        for id in changed:
            if (words := _admitted(store, entries[id][1])) is None:
                secrets.append(id)
            else:
                admitted[id] = words
        gone = [id for id in known if id not in entries]
        if not dry_run:
            with progress(f"indexing {name}", len(admitted)) as advance:
                rows = counted(_rows(store, entries, admitted), advance)
                index.write(name, stamp, space, rows, [*gone, *changed])
    return Report(name, "indexed", len(entries) - len(secrets), len(admitted), len(gone), secrets)


def _entries(store: Store, tip: str, space: str) -> Iterator[tuple[str, tuple[bytes, Any]]]:
    """(id, (digest, object)) of each memory that holds now, by the team's notes alone."""
    notes = store.team
    records = [found for _, line in notes.lines(tip) if (found := record.parse(line))]
    if notes.missing:
        message = f"{len(notes.missing)} objects of the notes cannot be read"
        raise MemError(message, hint="`git fsck` names them; the index stays as it is")
    for id, memory in fold.fold(records).items():
        if memory.status == fold.ACTIVE and memory.versions:
            item = view.of_record(memory.versions[0].data)
            made = json.dumps([__version__, space, item], sort_keys=True)
            yield record.clean(id), (sha256(made.encode()).digest()[:16], item)


def _admitted(store: Store, item: dict[str, Any]) -> dict[str, Any] | None:
    """The memory as everybody may read it, None where nobody may."""
    try:
        words = write_gate.admit(store, item, allow_secret=True)
    except Refused:
        return None
    return None if redact.check(words) else words


def _rows(
    store: Store, entries: Mapping[str, tuple[bytes, Any]], admitted: Mapping[str, dict[str, Any]]
) -> Iterator[Row]:
    items: list[tuple[str, dict[str, Any]]] = list(admitted.items())
    with Ahead(store.table) as ahead:
        for start in range(0, len(items), _PORTION):
            part = items[start : start + _PORTION]
            ahead.begin(part, 0.5)
            ahead.collect()
            made = ahead.documents(part)
            for (id, item), (fields, vector) in zip(part, made, strict=True):
                words = chain.from_iterable(field.split() for field in fields)
                yield Row(id, entries[id][0], json.dumps(item), words, vector)
