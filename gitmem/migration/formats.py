"""The one table of formats of other tools: content, place, how each is recognised and read.

Help, documents and completion are made from `FORMATS`. Every format was read in the source of its
tool. Nothing that is read is changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..core import record
from ..core.errors import MemError
from ..core.record_fields import MAX_TITLE as _LINE
from ..git import worktree_file
from ..notes import notetree
from ..store import Store
from . import claude_mem, json_exports, note_blocks, rule_files, vault
from .drafts import Entry, Skipped

_LARGEST = 1024 * 1024 * 1024  # bytes of an export
_NOTE = 1024 * 1024  # bytes of a file of Markdown
_MOST = 20_000  # files of a directory


class Place(NamedTuple):
    """Where to read: `path` is "" for the format's own place."""

    store: Store
    path: str
    project: str  # claude-mem: another name of this project
    piped: str = ""  # what came through a pipe, where `path` is "-"


Reader = Callable[[Place], Iterator[Entry]]


class Format(NamedTuple):
    what: str  # for people: what is read
    place: str  # its own place, for people; "" where a path must be given
    private: bool  # its memories are one person's unless said otherwise
    read: Reader


def _text(place: Place, path: str) -> str:
    path = place.path or path
    if path == "-":
        return place.piped.removeprefix("\ufeff")
    if not path:
        raise MemError("no file is named", hint="name the file to read")
    try:
        with open(path, "rb") as f:
            data = f.read(_LARGEST + 1)
    except OSError as e:
        raise MemError(f"cannot read '{path}': {e.strerror}") from e
    why = "is larger than 1 GiB" if len(data) > _LARGEST else record.no_text(data)
    if why:
        raise MemError(f"'{path}' {why}", hint="nothing was stored")
    return data.decode("utf-8-sig")


def _exported(parse: Callable[[str], Iterator[Entry]], own: str = "") -> Reader:
    def read(place: Place) -> Iterator[Entry]:
        return parse(_text(place, _in_tree(place, own)))

    return read


def _in_tree(place: Place, name: str) -> str:
    return os.path.join(place.store.repo.top, name) if name and place.store.repo.top else ""


def _claude_mem(place: Place) -> Iterator[Entry]:
    repo = place.store.repo
    tops = [repo.top, os.path.dirname(repo.common_dir)]
    named = [place.project] if place.project else [os.path.basename(top) for top in tops if top]
    path = place.path or claude_mem.place(os.environ)
    return claude_mem.parse(claude_mem.tables(path), named, repo.top)


def _markdown(place: Place) -> Iterator[Entry]:
    if not place.path:
        raise MemError("no directory is named", hint="name the directory of Markdown files")
    return _files(place.path, _below, vault.parse)


def _agentlore(place: Place) -> Iterator[Entry]:
    top = place.path or _in_tree(place, ".memory")
    return _files(top, lambda _: rule_files.LORE_FILES, rule_files.lore)


def _rules(place: Place) -> Iterator[Entry]:
    top = place.path or place.store.repo.top
    return _files(top, lambda _: rule_files.RULE_FILES, rule_files.rules)


def _files(
    top: str,
    names: Callable[[str], Iterator[str] | tuple[str, ...]],
    parse: Callable[[str, str], Iterator[Entry]],
) -> Iterator[Entry]:
    """The entries of files below a directory, or of one file; no link is followed."""
    if os.path.isfile(top):
        top, name = os.path.split(os.path.abspath(top))
        return _of_file(top, name, parse)
    if not os.path.isdir(top):
        raise MemError(f"no file or directory '{top}'")
    return (entry for name in names(top) for entry in _of_file(top, name, parse))


def _below(top: str) -> Iterator[str]:
    count = 0
    for directory, below, files in os.walk(top):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(files):
            if name.lower().endswith((".md", ".markdown")):
                count += 1
                if count > _MOST:
                    raise MemError(f"'{top}' has more than {_MOST} files of Markdown")
                yield os.path.relpath(os.path.join(directory, name), top).replace(os.sep, "/")


def _of_file(top: str, name: str, parse: Callable[[str, str], Iterator[Entry]]) -> Iterator[Entry]:
    shown = record.clean(name)[:_LINE]
    try:
        data = worktree_file.read(top, name, _NOTE)
    except MemError as e:
        yield Skipped(shown, e.message.replace(f"'{name}' ", "it ", 1), True)
        return
    if data is None:
        return
    if why := record.no_text(data):
        yield Skipped(shown, f"it {why}", True)
        return
    yield from parse(data.decode("utf-8-sig"), shown)


def _note_blocks(place: Place) -> Iterator[Entry]:
    """Local notes refs by their names, never ours."""
    git = place.store.repo.git
    for kind in note_blocks.KINDS:
        tip = git.resolve(f"refs/notes/mem/{kind}")
        notes = list(notetree.all_notes(git, tip)) if tip else []
        blobs = git.objects.get_many([blob for _, blob in notes], _NOTE)
        for (commit, _), found in zip(notes, blobs, strict=True):
            where = f"{kind}, note of {commit[:8]}"
            if found is None or len(found[2]) == 0:
                yield Skipped(where, "it cannot be read, or is too large", True)
            elif why := record.no_text(found[2]):
                yield Skipped(where, f"it {why}", True)
            else:
                yield from note_blocks.parse(found[2].decode(), kind, commit)


OWN = Format("what `git mem export` writes", "", False, _exported(json_exports.own))
FORMATS = {
    "claude-mem": Format(
        "claude-mem's SQLite database: observations and session summaries of this project",
        "~/.claude-mem/claude-mem.db",
        True,
        _claude_mem,
    ),
    "markdown": Format(
        "Markdown with front matter: basic-memory, Obsidian, `export --format markdown`",
        "",
        True,
        _markdown,
    ),
    "mcp-memory": Format(
        "the JSON Lines of MCP's reference memory server: entities and relations",
        "",
        True,
        _exported(json_exports.graph),
    ),
    "mcp-memory-service": Format(
        "a JSON export of mcp-memory-service", "", True, _exported(json_exports.service)
    ),
    "git-notes-memory": Format(
        "the notes of git-notes-memory, in place",
        "refs/notes/mem/decisions, …",
        False,
        _note_blocks,
    ),
    "beads": Format(
        "beads: closed issues that say what was learned, and what `bd remember` kept",
        ".beads/issues.jsonl",
        False,
        _exported(json_exports.beads, ".beads/issues.jsonl"),
    ),
    "agentlore": Format("agentlore's files", ".memory/", False, _agentlore),
    "rules": Format(
        "list items below the headings of CLAUDE.md and AGENTS.md, as conventions",
        "CLAUDE.md, AGENTS.md, GEMINI.md",
        False,
        _rules,
    ),
}


def recognise(path: str) -> str:
    """The format of a file or directory by what is in it, "" where that is not certain."""
    if os.path.isdir(path):
        lore = any(os.path.isfile(os.path.join(path, name)) for name in rule_files.LORE_FILES)
        return "agentlore" if lore else "markdown"
    if not os.path.isfile(path):
        return ""  # a pipe: what is looked at here is gone
    try:
        with open(path, "rb") as f:
            head = f.read(64 * 1024)
    except OSError:
        return ""
    if head.startswith(claude_mem.MAGIC):
        return "claude-mem"
    text = head.decode("utf-8", "replace").lstrip("\ufeff \r\n\t")
    name = os.path.basename(path)
    if name in rule_files.RULE_FILES:
        return "rules"
    if text.startswith("---\n") and name.lower().endswith((".md", ".markdown")):
        return "markdown"
    if rule_files.LORE.search(text):
        return "agentlore"
    return _of_json(text)


def _of_json(text: str) -> str:
    if not text.startswith("{"):
        return ""
    if '"export_metadata"' in text[:200]:
        return "mcp-memory-service"
    try:
        row = json.loads(text.partition("\n")[0])
    except (ValueError, RecursionError):
        return ""
    if row.get("type") in ("entity", "relation") and {"entityType", "relationType"} & row.keys():
        return "mcp-memory"
    if row.get("_type") in ("issue", "memory") or {"issue_type", "status"} <= row.keys():
        return "beads"
    return ""
