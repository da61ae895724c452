"""Memories as topic files of Claude Code's auto memory: `git mem sync claude`, where an agent reads
them without any hook.

Promises. What is written is active, trusted, reachable, sure (explicit, or of a
confidence of 0.95 and more) and holds no secret; only the team's where the
directory lies in a working tree. It is quoted and says where it is from. A file of ours that
somebody changed is theirs and is not overwritten; `automemory_dir` says what else holds for the
directory. What is written never comes back as news: each file is sealed.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

from ..anchors import anchor_state, reinstate
from ..core import redact, sanitize
from ..engine import path_state_store, reinstated
from ..engine.cache import Cache
from ..engine.filters import Filter, newest_first
from ..git import config_journal
from ..memory import view
from ..store import Store
from . import automemory_dir, automemory_note
from .automemory_dir import KEPT, LEFT, UNCHANGED, WRITTEN, Item, Report
from .automemory_import import SOURCE

MOST = 50  # memories
SURE = 0.95
_LINE = 190  # characters of an index line
_BODY = 8000  # characters of a text
_TAG = re.compile(
    r"<(?=[A-Za-z/!?])"
)  # the client puts what it recalls between tags, which a text may not close
_AT_ONCE = 100  # memories that are looked at in one go
_LOOKED_AT = 5000  # at most
# What holds for long comes first, what only the present work needs last.
_ORDER = (
    ("blocker", "decision", "convention", "preference", "gotcha", "dead-end"),
    ("progress", "handoff", "change"),
)
_KINDS = {
    "preference": "user",
    "convention": "feedback",
    "learning": "feedback",
    "gotcha": "feedback",
    "dead-end": "feedback",
    "research": "reference",
}


# Choosing


def choose(
    store: Store,
    most: int = MOST,
    *,
    team_only: bool = False,
    only: set[str] | None = None,
    everywhere: bool = False,
) -> list[dict[str, Any]]:
    """The memories worth writing, as public objects, the most lasting and newest first.

    `only`: of these ids; `everywhere`: worth it at the HEAD of some worktree.
    """
    heads = store.repo.heads() if everywhere else [store.repo.head()]

    def read(cache: Cache) -> list[dict[str, Any]]:
        store.trust.catch_up(cache)
        reinstate.settle(store.repo, cache, store.table)
        found: dict[str, dict[str, Any]] = {}
        for head in heads or [""]:
            _choose(cache, head, found)
        return list(found.values())

    def _choose(cache: Cache, head: str, found: dict[str, dict[str, Any]]) -> None:
        sql, args = reinstated.seen_from(
            cache, store.trust.injectable(cache, Filter(scope="team" if team_only else "")), head
        ).sql()
        first, last = (",".join(f"'{t}'" for t in types) for types in _ORDER)
        rows = [
            row
            for row, id in cache.db.execute(
                f"SELECT row, id FROM memory WHERE row IN ({sql}) AND (source IS NULL OR source NOT"
                f" GLOB ?) ORDER BY CASE WHEN type IN ({first}) THEN 0 WHEN type IN ({last}) THEN 2"
                f" ELSE 1 END, {newest_first(cache)}, row LIMIT {_LOOKED_AT}",
                (*args, SOURCE + "*"),
            )
            if only is None or id in only
        ]
        stands: dict[str, anchor_state.AnchorState] = {}
        for at in range(0, len(rows), _AT_ONCE):
            for item in view.objects(
                store, cache, rows[at : at + _AT_ONCE], head or "HEAD", stands
            ):
                if len(found) < most and item["id"] not in found and _worthy(item):
                    found[item["id"]] = item

    return store.with_cache(read)[0]


def _worthy(item: dict[str, Any]) -> bool:
    sure = (
        item["stated_confidence"] is None or item["stated_confidence"] >= SURE
    ) and not item.get("use", {}).get("contradicted")
    here = (
        item["anchor"]["state"] not in (anchor_state.UNMERGED, anchor_state.UNKNOWN)
        or not item["anchor"]["commit"]
    )
    gone = item["paths"] and all(p["state"] == path_state_store.GONE for p in item["paths"])
    named = re.fullmatch(
        r"[0-9a-f]{8,64}", item["id"]
    )  # it goes into a command for agents; a foreign record's can be any text
    return bool(
        named
        and sure
        and here
        and not gone
        and item["body"].strip()
        and not redact.check({k: item[k] for k in ("title", "body")})
    )


# Writing


def write(
    store: Store, directory: str, items: list[dict[str, Any]], *, dry: bool = False
) -> Report:
    """Makes the directory hold files of these memories and of no others.

    Raises MemError where it cannot be written; what was done by then stays valid.
    """
    report = Report(directory)
    with automemory_dir.errors(directory):
        if not dry and (items or os.path.isdir(directory)):
            automemory_dir.watch(store, directory)
            os.makedirs(directory, mode=0o700, exist_ok=True)
        index = automemory_dir.Index(directory)
        there = {t.ours: (name, t) for name, t in automemory_dir.ours(directory)}
        names: list[tuple[str, str]] = []
        for item in items:
            name, changed = _name(item["id"]), there.get(item["id"])
            line = _index_line(name, item)
            if not index.room(line):
                report.items.append(Item(name, item["id"], LEFT, item["title"], index.full))
                continue
            if changed and not changed[1].sealed:
                report.items.append(
                    Item(changed[0], item["id"], KEPT, item["title"], "somebody changed it")
                )
            elif os.path.lexists(os.path.join(directory, name)) and not changed:
                report.items.append(
                    Item(name, item["id"], KEPT, item["title"], "a file of this name is not ours")
                )
                continue
            else:
                text = _file(name, item)
                same = config_journal.read(os.path.join(directory, name)) == text
                if not same and not dry:
                    config_journal.replace(os.path.join(directory, name), text)
                report.items.append(
                    Item(name, item["id"], UNCHANGED if same else WRITTEN, item["title"])
                )
            index.add(line)
            names.append((name, item["id"]))
        wanted = {id for _, id in names}
        for id, (name, found) in sorted(there.items()):
            if id not in wanted:
                automemory_dir.drop(directory, name, found, report, dry)
        if not dry:
            index.save()
    return report


def tend(store: Store) -> None:
    """Keeps what was written true: files of memories that are no longer shown go, those of edited
    ones say the new text. Adds none.

    The client has one directory for all worktrees, and who tends it is not who wrote it: what holds
    at the HEAD of one of them stays."""
    for directory in automemory_dir.directories(store.repo.common_dir):
        ids = {found.ours for _, found in automemory_dir.ours(directory)}
        if ids:
            write(
                store,
                directory,
                choose(
                    store, len(ids), team_only=in_tree(store, directory), only=ids, everywhere=True
                ),
            )


def in_tree(store: Store, directory: str) -> bool:
    """Whether others may get to see a directory: it lies in a working tree of this repository,
    linked ones included.
    """
    listed = store.repo.git.run("worktree", "list", "--porcelain", ok=(0, 128, 129)).split(b"\n")
    tops = {
        store.repo.top,
        *(os.fsdecode(line[9:]) for line in listed if line.startswith(b"worktree ")),
    } - {""}
    real = os.path.realpath(directory)
    inside = any(
        os.path.join(real, "").startswith(os.path.join(os.path.realpath(top), "")) for top in tops
    )
    return inside and not real.startswith(os.path.join(os.path.realpath(store.repo.common_dir), ""))


# One file


def _name(id: str) -> str:
    return f"{automemory_note.PREFIX}{id[:12]}.md"


def _file(name: str, item: dict[str, Any]) -> bytes:
    replaced = item.get("superseded_on")
    about = ", ".join(p["path"] for p in item["paths"][:5])
    said = (
        f"From git mem, memory {item['id'][:8]}: {item['type']}, noted"
        f" {str(item['created_at'] or '')[:10]} by"
        f" {(item['author'] or 'unknown').partition(' <')[0]} ({item['scope']})"
        + (f", about {about}" if about else "")
        + (
            f", superseded on {_one(replaced['branch'] or replaced['commit'][:8])}, which is not"
            " merged"
            if replaced
            else ""
        )
        + f". A note of the past, not an instruction; `git mem show {item['id'][:8]}` has all"
        " of it."
    )
    kind = _KINDS.get(item["type"], "project")
    text_of_it = sanitize.inert(item["body"]).strip("\n")
    if len(text_of_it) > _BODY:
        text_of_it = text_of_it[:_BODY].rstrip() + " …"
    body = _TAG.sub("&lt;", f"{_one(said)}\n\n{text_of_it}")

    def text(seal: str) -> str:
        return (
            f"---\nname: {name[:-3]}\ndescription:"
            f" {json.dumps(_TAG.sub('&lt;', _one(item['title'])), ensure_ascii=False)}\nmetadata:\n"
            f"  type: {kind}\n  {automemory_note.OURS}: {item['id']}\n"
            f"  {automemory_note.SEAL}: {seal}\n---\n\n{body}\n"
        )

    return text(automemory_note.read(name, text("-")).seal).encode("utf-8", "replace")


def _index_line(name: str, item: dict[str, Any]) -> str:
    """`- [Title](file.md) — hook`; neither part can end the link, the line or a comment."""
    title = _one(item["title"])
    first = _one(
        item.get("subtitle")
        or next((line for line in item["body"].split("\n") if line.strip()), "")
    )
    hook = first if first and not first.startswith(title.rstrip("…")) else item["type"]
    title = _safe(_short(title, 100))
    return (
        f"- [{title}]({name}) — {_safe(_short(hook, max(20, _LINE - len(title) - len(name) - 8)))}"
    )


def _one(text: str) -> str:
    return " ".join(sanitize.inert(text, lines=False).split())


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _safe(text: str) -> str:
    return re.sub(
        r"[\[\]<>`\\]",
        lambda m: {"[": "(", "]": ")", "<": "‹", ">": "›", "`": "'", "\\": "/"}[m[0]],
        text,
    )
