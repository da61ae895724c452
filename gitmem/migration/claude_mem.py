"""claude-mem: observations and session summaries of this project, from its SQLite database.

Its schema is that of `SessionStore`, from the first version with titles on; columns that an older
database lacks count as empty. The database is opened read-only, and may be in use.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

from ..core.errors import MemError
from ..core.record import MAX_ITEMS
from ..engine.cache import quoted
from .drafts import Draft, Entry, Skipped, draft, headed, paragraphs, source, typed, when

MAGIC = b"SQLite format 3\0"
_TABLES = {"observations", "session_summaries"}
_NEEDED = {"id", "project", "memory_session_id", "created_at_epoch"}
_FACT = 1000  # characters of a fact; longer ones stand in the body
Row = Mapping[str, Any]


def place(environ: Mapping[str, str]) -> str:
    """Where the database is unless a path is given."""
    home = environ.get("CLAUDE_MEM_DATA_DIR") or os.path.join("~", ".claude-mem")
    return os.path.join(os.path.expanduser(home), "claude-mem.db")


def tables(path: str) -> dict[str, list[Row]]:
    """{table: rows, oldest first}. Raises MemError for anything but such a database."""
    try:
        if not os.path.isfile(path):
            raise MemError(f"no claude-mem database '{path}'", hint="name its file")
        with closing(sqlite3.connect(f"file:{quoted(path)}?mode=ro", uri=True)) as db:
            db.row_factory = sqlite3.Row
            db.text_factory = lambda raw: raw.decode("utf-8", "replace")  # one bad row stops none
            there = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
            if not there >= _TABLES:
                raise MemError(f"'{path}' is no database of claude-mem")
            found: dict[str, list[Row]] = {
                name: [dict(row) for row in db.execute(f"SELECT * FROM {name} ORDER BY id")]
                for name in sorted(_TABLES)
            }
    except sqlite3.Error as e:
        raise MemError(f"cannot read '{path}': {e}") from e
    if any(not rows[0].keys() >= _NEEDED for rows in found.values() if rows):
        hint = "a newer claude-mem brings it up to date when it starts"
        raise MemError(f"'{path}' is of a claude-mem from before 2026", hint=hint)
    return found


def parse(found: Mapping[str, Iterable[Row]], projects: list[str], top: str) -> Iterator[Entry]:
    """Drafts of the rows of these projects; one entry says how many rows each other one has.
    Raises MemError where no row is of them.
    """
    others: Counter[str] = Counter()
    ours = 0
    for name, read in (("observations", _observation), ("session_summaries", _summary)):
        for row in found[name]:
            if not _is_of(row, projects):
                others[str(row["project"])] += 1
                continue
            ours += 1
            yield read(row, top)
    if others and not ours:
        there = ", ".join(f"'{project}'" for project, _ in others.most_common(10))
        raise MemError(
            f"claude-mem knows nothing of the project '{projects[0]}'",
            hint=f"it has {there}; choose one with --project",
        )
    for project, count in others.items():
        yield Skipped(f"project {project}", f"{count} of another project")


def _is_of(row: Row, projects: list[str]) -> bool:
    """A worktree's rows are named 'project/worktree'."""
    names = (str(row["project"]), str(row.get("merged_into_project") or ""))
    return any(name == own or name.startswith(own + "/") for own in projects for name in names)


def _observation(row: Row, top: str) -> Entry:
    facts = _list(row.get("facts"))
    told = str(row.get("narrative") or row.get("text") or "")
    if not told.strip() or len(facts) > MAX_ITEMS or any(len(fact) > _FACT for fact in facts):
        told = "\n\n".join(filter(None, (told.strip(), "\n".join(f"- {f}" for f in facts))))
        facts = []
    head = headed(str(row.get("title") or ""), told)
    if not head["body"].strip():
        return Skipped(f"observation {row['id']}", "it says nothing")
    type, tags = typed(row.get("type"))
    return draft(
        **head,
        subtitle=str(row.get("subtitle") or "")[:300],
        type=type,
        tags=tags,
        facts=facts,
        concepts=_list(row.get("concepts"))[:MAX_ITEMS],
        paths=_paths(_list(row.get("files_modified")) + _list(row.get("files_read")), top),
        **_origin(row, "observation"),
    )


def _summary(row: Row, top: str) -> Entry:
    names = ("investigated", "learned", "completed", "next_steps", "notes")
    told = paragraphs((name.capitalize().replace("_", " "), row.get(name)) for name in names)
    if not told:
        return Skipped(f"summary {row['id']}", "it says nothing")
    return draft(
        **headed(str(row.get("request") or ""), told),
        type="progress",
        paths=_paths(_list(row.get("files_edited")), top),
        **_origin(row, "summary"),
    )


def _origin(row: Row, kind: str) -> Draft:
    """A row's number is its database's own: the session and the time name it anywhere."""
    session, at = str(row["memory_session_id"]), row["created_at_epoch"]
    name = f"{kind}:{session}:{at}:{row['id']}"
    return {
        "source": source("claude-mem", name),
        "session": session[:200],
        "agent": "claude",
        "created_at": when(at),
    }


def _list(value: Any) -> list[str]:
    """A column with a JSON list of texts, or with one text."""
    if not isinstance(value, str) or not value.strip():
        return []
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        read = value
    items = read if isinstance(read, list) else [read]
    return [str(item).strip() for item in items if str(item).strip()]


def _paths(names: Iterable[str], top: str) -> list[str]:
    """The files of the repository, by their names in it."""
    inside = (os.path.relpath(os.path.join(top, name), top) for name in names if top)
    return list(dict.fromkeys(p for p in inside if not p.startswith("..") and p != "."))[:MAX_ITEMS]
