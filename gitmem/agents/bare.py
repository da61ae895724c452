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
from ..engine import unread
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
LINES = 2_000  # that are parsed: 20 ms
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
    git.until = until
    found: list[tuple[str, bytes, int]] = []
    large: dict[str, dict[str, int]] = {}
    try:
        for scope in ("team", "private"):
            ref = here.settings.ref(scope)
            tip = here.refs.get(ref, "")
            if tip and monotonic() < until:
                lines = newest(git, tip, until, large.setdefault(ref, {}))
                found += [("", line, SCOPE_BITS[scope]) for line in lines]
    except MemError:
        pass  # what was read until then is better than nothing
    finally:
        git.close()
    if not found and not any(large.values()):
        return None
    made = cache_file.open_in_memory()
    update = Update(made, table, None)
    update.take(_chosen(found))
    update.finish()
    for ref, sizes in large.items():
        unread.keep(made, ref, sizes)
    return made


def newest(git: Git, tip: str, until: float, large: dict[str, int]) -> list[bytes]:
    """Lines of the notes that were written last, the newest first, as many as the bounds allow.

    `large` gets the sizes of notes that are too large to be read, by key.
    """
    from ..git.object_reader import TooLarge

    words = ["log", "--first-parent", "--diff-merges=first-parent", f"-n{COMMITS}", "--format=", "--raw", "--no-abbrev", "--no-renames", "--diff-filter=AM", tip, "--"]
    blobs: dict[str, str] = {}  # {blob: path}
    # With -z a change is "\n:... blob M", then its path.
    change = b""
    for field in git.stream(*words[:1], "-z", *words[1:]):
        if change:
            blobs.setdefault(change.split()[3].decode(), field.decode("utf-8", "replace"))
            change = b""
            if len(blobs) >= OBJECTS:
                break
        elif field.lstrip(b"\n").startswith(b":"):
            change = field
    lines: dict[bytes, None] = {}
    size = 0
    for (_, path), found in zip(blobs.items(), git.objects.get_many(blobs, git.largest), strict=False):
        if found is None:
            continue
        if isinstance(found[2], TooLarge):
            large[path.replace("/", "")] = found[2].size
            continue
        size += len(found[2])
        for line in reversed(found[2].split(b"\n")):
            if line.startswith(b"{") and len(line) <= record.MAX_LINE:
                lines[line] = None
        if size > BYTES or monotonic() > until:
            break
    return list(lines)


def _chosen(found: list[tuple[str, bytes, int]]) -> list[tuple[str, bytes, int]]:
    """The lines to take in: every record that takes something away, blockers and decisions, then others, the newest first."""
    ranked: list[tuple[bool, str, str, tuple[str, bytes, int]]] = []
    away: list[tuple[str, bytes, int]] = []
    others = parsed_lines = 0
    for item in found:
        if _CREATE in item[1] and not any(word in item[1] for word in _FIRST_RAW):
            # Reading a line costs more than finding it: of the rest, those that were written last are enough.
            others += 1
            if others > MEMORIES:
                continue
        parsed_lines += 1
        if parsed_lines > LINES:
            break
        parsed = record.parse(item[1])
        if parsed and parsed.op in record.CONTENT_OPS:
            data = parsed.data
            ranked.append((data.get("type") in _FIRST, record.when(data.get("at")), str(data.get("author")), item))
        elif parsed and parsed.op in (*record.COVER_OPS, "purge"):
            away.append(item)
    ranked.sort(key=lambda entry: entry[:2], reverse=True)
    return [*away, *[item for *_, item in shared(ranked, lambda entry: entry[2] if entry[1] else None, MEMORIES)]]
