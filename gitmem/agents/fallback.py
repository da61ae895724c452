"""A few memories without a usable cache: read from the notes into a cache that lives in memory.

What a session must not begin without: the newest blockers and decisions, then the newest of the
rest, of small notes before those of notes longer than SMALL, as ours are not. Promises. Bounded in
commits, objects, memories and time, whatever the notes hold; two git processes for each notes ref,
two more where a note is long. Of the lines that are read, those that take a memory away all count,
or nothing is told. The team's and the private notes have half of the lines each, and neither waits
for the other.

Left out: what was written before the newest COMMITS writes or OBJECTS notes, or after BYTES;
contents after LINES; and what takes a memory away there. So the answer counts as degraded.
"""

from __future__ import annotations

from itertools import zip_longest
from time import monotonic

from ..core import fold, record
from ..engine import cache as cache_file
from ..engine import unread
from ..engine.memory_rows import SCOPE_BITS
from ..engine.update import Update, batch_of
from .context_select import shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..core.record import Record
    from ..engine.cache import Cache
    from ..engine.embed import StaticTable
    from ..git.discover import Here
    from ..git.gitcmd import Git

    Line = tuple[bytes, int, bool]  # the line, bits of its scope, whether its note is long

# Of a notes ref: newest writes looked at, notes looked at, bytes read.
COMMITS, OBJECTS, BYTES = 50, 1_000, 16_000_000
SMALL = 64 * 1024  # bytes of a note that is read before longer ones: ours end at 32 KiB and a line
LINES = 2_000  # contents that are parsed: 20 ms
MEMORIES = 60
_FIRST = ("blocker", "decision")
_FIRST_RAW = tuple(f'"type":"{word}"'.encode() for word in _FIRST)
_CREATE, _AFTER = b'"op":"create"', b'"after"'
_LOOKS = 256  # lines parsed between two looks at the clock


def memories(here: Here, table: StaticTable, until: float) -> Cache | None:
    """A cache with the newest memories; None where none could be read by `until` (monotonic)."""
    from ..core.errors import MemError

    lines: list[list[Line]] = []
    large: dict[str, dict[str, int]] = {}
    refs = [(scope, here.settings.ref(scope)) for scope in ("team", "private")]
    tips = [(scope, ref, tip) for scope, ref in refs if (tip := here.refs.get(ref, ""))]
    for left, (scope, ref, tip) in zip(range(len(tips), 0, -1), tips, strict=True):
        if (now := monotonic()) > until:
            break
        share = now + (until - now) / left
        git = here.git(share)
        try:
            read = newest(git, tip, share, large.setdefault(ref, {}))
            lines.append([(line, SCOPE_BITS[scope], long) for line, long in read])
        except MemError:
            pass  # what was read until then is better than nothing
        finally:
            git.close()
    in_turn = [line for row in zip_longest(*lines) for line in row if line]
    chosen = _chosen(in_turn, until) if in_turn or any(large.values()) else None
    if chosen is None:
        return None
    made = cache_file.open_in_memory()
    update = Update(made, table, None)
    update.take(batch_of(("", line, bits) for line, bits, _ in chosen))
    update.finish()
    for ref, sizes in large.items():
        unread.keep(made, ref, sizes)
    return made


def newest(git: Git, tip: str, until: float, large: dict[str, int]) -> list[tuple[bytes, bool]]:
    """(line, whether its note is long) of the notes that were written last, each line once, as many
    as the bounds allow. `large` gets the sizes of notes that are too large to be read, by key.
    """
    found: dict[bytes, bool] = {}
    size = 0
    for note, long in _notes(git, _written(git, tip), large):
        for line in reversed(note.split(b"\n")):
            if line.startswith(b"{") and len(line) <= record.MAX_LINE:
                found.setdefault(line, long)
        size += len(note)
        if size > BYTES or monotonic() > until:
            break
    return list(found.items())


def _notes(git: Git, paths: dict[str, str], large: dict[str, int]) -> Iterator[tuple[bytes, bool]]:
    """(content, whether it is long) of notes: the small ones as given, then the shortest first."""
    from ..git.object_reader import TooLarge

    sizes: dict[str, int] = {}  # of long notes
    for blob, found in zip(paths, git.objects.get_many(paths, SMALL), strict=False):
        if found and isinstance(found[2], TooLarge):
            sizes[blob] = found[2].size
        elif found:
            yield found[2], False
    large.update((paths[b].replace("/", ""), n) for b, n in sizes.items() if n > git.largest)
    rest = [blob for blob in sorted(sizes, key=sizes.__getitem__) if sizes[blob] <= git.largest]
    for found in git.objects.get_many(rest, git.largest) if rest else ():
        if found:
            yield found[2], True


def _written(git: Git, tip: str) -> dict[str, str]:
    """{blob: path} of the notes that the newest commits wrote, the newest first."""
    words = (
        f"-z --first-parent --diff-merges=first-parent -n{COMMITS} --format= --raw --no-abbrev"
        " --no-renames --diff-filter=AM"
    )
    paths: dict[str, str] = {}
    change = b""  # a change is "\n:... blob M", then its path
    for field in git.stream("log", *words.split(), tip, "--"):
        if change:
            paths.setdefault(change.split()[3].decode(), field.decode("utf-8", "replace"))
            change = b""
            if len(paths) >= OBJECTS:
                break
        elif field.lstrip(b"\n").startswith(b":"):
            change = field
    return paths


def _chosen(lines: list[Line], until: float) -> list[Line] | None:
    """The lines to take in; None where what takes memories away could not be read by `until`.

    All those of small notes before any of longer ones, blockers and decisions before others, the
    newest first. Not one that a line takes away, wherever that line stands.
    """
    away: list[Record] = []
    for n, (line, _, _) in enumerate(lines):
        if not n % _LOOKS and monotonic() > until:
            return None
        # Not a create alone: it may take the place of another memory.
        if (_CREATE not in line or _AFTER in line) and (found := record.parse(line)):
            away.append(found)
    (ids, gone), covers = fold.purged(away), fold.Covers(away)
    contents: list[tuple[bool, bool, str, str, Line]] = []
    latest = record.latest()
    for item, found in _contents(lines):
        if found.version not in gone and found.id not in ids and not covers.of(found):
            data = found.data
            first = data.get("type") in _FIRST
            at = record.when(data.get("at"), latest)
            contents.append((not item[2], first, at, str(data.get("author")), item))
    contents.sort(key=lambda entry: entry[:3], reverse=True)
    ranked = [(author if at else None, item) for _, _, at, author, item in contents]
    return [item for _, item in shared(ranked, lambda entry: entry[0], MEMORIES)]


def _contents(lines: Iterable[Line]) -> Iterator[tuple[Line, Record]]:
    """Lines with contents, to LINES; of those neither blocker nor decision the first alone."""
    others = read = 0
    for item in lines:
        first = any(word in item[0] for word in _FIRST_RAW)
        others += not first
        if first or others <= MEMORIES:
            read += 1
            if read > LINES:
                break
            found = record.parse(item[0])
            if found and found.op in record.CONTENT_OPS:
                yield item, found
