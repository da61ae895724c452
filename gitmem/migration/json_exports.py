"""Exports: ours; in JSON MCP's reference memory server, mcp-memory-service, beads.

Each follows what its tool writes: `saveGraph` of the reference server (a line an entity or a
relation), `MemoryExporter` of mcp-memory-service, `bd export` (a line an issue or a memory).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from ..memory import transfer
from .drafts import Draft, Entry, Skipped, draft, headed, paragraphs, source, typed, when, words


def own(text: str) -> Iterator[Entry]:
    return _sound(transfer.read(text))


def _sound(read: Iterator[Draft | str]) -> Iterator[Entry]:
    """What is no object is named."""
    return (Skipped("", row, True) if isinstance(row, str) else row for row in read)


# ---- MCP's reference memory


def graph(text: str) -> Iterator[Entry]:
    """An entity is a memory: its observations, and its relations to others."""
    entities: list[tuple[int, Draft]] = []
    relations: defaultdict[str, list[str]] = defaultdict(list)
    for number, row in enumerate(_sound(transfer.from_jsonl(text)), 1):
        if isinstance(row, Skipped):
            yield row
        elif row.get("type") == "entity" and _texts(row, "name", "entityType"):
            entities.append((number, row))
        elif row.get("type") == "relation" and _texts(row, "from", "to", "relationType"):
            relations[row["from"]].append(f"- {row['relationType']}: {row['to']}")
        else:
            yield Skipped(f"entry {number}", "is neither an entity nor a relation", True)
    for _, row in entities:
        yield _entity(row, relations.pop(row["name"], []))
    for name in relations:
        yield Skipped(name, "its relations start at an entity that is not there")


def _entity(row: Draft, relations: list[str]) -> Entry:
    told = row.get("observations")
    if not isinstance(told, list) or not all(isinstance(one, str) for one in told):
        return Skipped(row["name"], "its observations are no list of texts", True)
    if not told and not relations:
        return Skipped(row["name"], "it has no observations")
    type, tags = typed(row["entityType"])
    body = "\n".join([f"- {one}" for one in told] + relations)
    name = source("mcp-memory", row["name"])
    return draft(**headed(row["name"], body), type=type, tags=tags, source=name)


def _texts(row: Draft, *names: str) -> bool:
    return all(isinstance(row.get(name), str) and row[name] for name in names)


# ---- mcp-memory-service


def service(text: str) -> Iterator[Entry]:
    """The memories of an export; embeddings and free metadata stay behind."""
    try:
        rows = json.loads(text)["memories"]
    except (ValueError, RecursionError, KeyError, TypeError):
        rows = None
    if not isinstance(rows, list):
        yield Skipped("", "the file is no export of mcp-memory-service", True)
        return
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or not _texts(row, "content", "content_hash"):
            yield Skipped(f"memory {number}", "it has no content or no content_hash", True)
            continue
        type, tags = typed(row.get("memory_type"))
        yield draft(
            body=row["content"],
            type=type,
            tags=[*words(row.get("tags")), *tags],
            created_at=when(row.get("created_at")),
            source=source("mcp-memory-service", row["content_hash"]),
        )


# ---- beads

_WORK = frozenset("bug feature task epic chore decision spike story".split())
_SAYS_NOTHING = frozenset(("", "closed", "done", "completed", "fixed", "implemented"))


def beads(text: str) -> Iterator[Entry]:
    """What was kept with `bd remember`, and closed issues that say more than that they are done."""
    for number, row in enumerate(_sound(transfer.from_jsonl(text)), 1):
        if isinstance(row, Skipped):
            yield row
        elif row.get("_type") == "memory" and _texts(row, "key", "value"):
            name = source("beads", f"memory:{row['key']}")
            yield draft(body=row["value"], type="learning", source=name)
        elif row.get("_type", "issue") == "issue" and _texts(row, "id", "title"):
            yield _issue(row)
        else:
            yield Skipped(f"entry {number}", "is neither an issue nor a memory", True)


def _issue(row: Draft) -> Entry:
    kind = str(row.get("issue_type") or "task")
    if kind not in _WORK or row.get("ephemeral") or row.get("is_template"):
        return Skipped(row["id"], f"a {kind} is no work")
    if row.get("status") != "closed":
        return Skipped(row["id"], f"it is {row.get('status') or 'open'}")
    reason = str(row.get("close_reason") or "")
    told = [
        ("Design", row.get("design")),
        ("Notes", row.get("notes")),
        ("Closed", "" if reason.strip(" .!").lower() in _SAYS_NOTHING else reason),
        *_comments(row.get("comments")),
    ]
    learned = paragraphs(told)
    if not learned and kind != "decision":
        return Skipped(row["id"], "it says nothing beyond its task")
    type, _ = typed(kind)
    return draft(
        **headed(row["title"], paragraphs([("", row.get("description")), ("", learned)])),
        type=type,
        tags=words(row.get("labels")),
        author=str(row.get("created_by") or "")[:200],
        created_at=when(row.get("closed_at")) or when(row.get("created_at")),
        source=source("beads", row["id"]),
    )


def _comments(value: Any) -> Iterable[tuple[str, Any]]:
    for one in value if isinstance(value, list) else ():
        if isinstance(one, dict):
            yield str(one.get("author") or "Comment"), one.get("text")
