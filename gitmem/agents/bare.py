"""A few memories without a usable cache: read from the notes into a cache that lives in memory.

What a session must not begin without: the newest blockers and decisions, then
the newest of the rest. Promise: bounded in commits, objects, memories and time,
whatever the notes hold; two git processes. What was forgotten, edited or
purged by a record among those read is folded as always, and a tombstone in
the notes hides what it names; older edits may be missed, so the answer counts
as degraded.
"""

from __future__ import annotations

from time import monotonic

from ..core import record
from ..engine import cache as cache_file
from ..engine.document import SCOPE_BITS
from ..engine.update import Update
from .briefing import shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..engine.cache import Cache
    from ..engine.embed import StaticTable
    from ..git.gitcmd import Git
    from ..git.here import Here

COMMITS, OBJECTS, BYTES = 50, 1_000, 16_000_000  # of the newest writes to a notes ref: looked at, read
MEMORIES = 60
_FIRST = ("blocker", "decision")
_FIRST_RAW = tuple(f'"type":"{word}"'.encode() for word in _FIRST)
_CREATE = b'"op":"create"'


def memories(here: Here, table: StaticTable, until: float) -> Cache | None:
    """A cache with the newest memories; None where none could be read by `until` (monotonic)."""
    from ..core.errors import MemError
    from ..git.gitcmd import Git

    git = Git(here.git_dir)
    git.common_dir = here.common_dir
    found: list[tuple[str, bytes, int]] = []
    try:
        for scope in ("team", "private"):
            tip = here.refs.get(here.settings.ref(scope), "")
            if tip and monotonic() < until:
                found += [("", line, SCOPE_BITS[scope]) for line in newest(git, tip, until)]
    except MemError:
        return None
    finally:
        git.close()
    if not found:
        return None
    made = cache_file.open_in_memory()
    update = Update(made, table, None)
    update.take(_chosen(found))
    update.finish()
    return made


def newest(git: Git, tip: str, until: float) -> list[bytes]:
    """Lines of the notes that were written last, the newest first, as many as the bounds allow."""
    words = ["log", "--first-parent", "--diff-merges=first-parent", f"-n{COMMITS}", "--format=", "--raw", "--no-abbrev", "--no-renames", "--diff-filter=AM", tip, "--"]
    blobs: dict[str, None] = {}
    for row in git.run(*words).decode("utf-8", "replace").splitlines():
        parts = row.split()
        if len(parts) > 4 and row.startswith(":"):
            blobs[parts[3]] = None
            if len(blobs) >= OBJECTS:
                break
    lines: dict[bytes, None] = {}
    size = 0
    for found in git.objects.get_many(blobs):
        if found is None:
            continue
        size += len(found[2])
        lines.update(dict.fromkeys(reversed([line for line in found[2].split(b"\n") if line.strip()])))
        if size > BYTES or monotonic() > until:
            break
    return list(lines)


def _chosen(found: list[tuple[str, bytes, int]]) -> list[tuple[str, bytes, int]]:
    """The lines to take in: every record that takes something away, blockers and decisions, then others, the newest first."""
    ranked: list[tuple[bool, str, str, tuple[str, bytes, int]]] = []
    away: list[tuple[str, bytes, int]] = []
    others = 0
    for item in found:
        if _CREATE in item[1] and not any(word in item[1] for word in _FIRST_RAW):
            # Reading a line costs more than finding it: of the rest, those that were written last are enough.
            others += 1
            if others > MEMORIES:
                continue
        parsed = record.parse(item[1])
        if parsed and parsed.op in record.CONTENT_OPS:
            data = parsed.data
            ranked.append((data.get("type") in _FIRST, record.when(data.get("at")), str(data.get("author")), item))
        elif parsed and parsed.op in (*record.COVER_OPS, "purge"):
            away.append(item)
    ranked.sort(key=lambda entry: entry[:2], reverse=True)
    return [*away, *[item for *_, item in shared(ranked, lambda entry: entry[2] if entry[1] else None, MEMORIES)]]
