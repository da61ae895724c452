"""A few memories without a usable cache: read from the notes into a cache that lives in memory.

What a session must not begin without: the newest blockers and decisions, then
the newest of the rest, of small notes before those of notes longer than SMALL, as ours are not.
Promises. Bounded in commits, objects, memories and time, whatever the notes
hold; two git processes for each notes ref, two more where a note is long. Of the lines
that are read, those that take a memory away all count, or nothing is told. The team's and
the private notes have half of the lines each, and neither waits for the other.

Left out: what was written before the newest COMMITS writes or OBJECTS notes, or after BYTES;
contents after LINES; and what takes a memory away there. So the answer counts as degraded.
"""

from __future__ import annotations

from itertools import zip_longest
from time import monotonic

from ..core import fold, record
from ..engine import cache as cache_file
from ..engine import unread
from ..engine.document import SCOPE_BITS
from ..engine.update import Update
from .context_select import shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.record import Record
    from ..engine.cache import Cache
    from ..engine.embed import StaticTable
    from ..git.discover import Here
    from ..git.gitcmd import Git

    Lines = list[tuple[str, bytes, int]]  # key, line, bits of its scope

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
    from ..git.gitcmd import Git

    small: list[Lines] = []
    long: list[Lines] = []
    large: dict[str, dict[str, int]] = {}
    refs = [(scope, here.settings.ref(scope)) for scope in ("team", "private")]
    tips = [(scope, ref, tip) for scope, ref in refs if (tip := here.refs.get(ref, ""))]
    for left, (scope, ref, tip) in zip(range(len(tips), 0, -1), tips, strict=True):
        if monotonic() > until:
            break
        git = Git(here.git_dir)
        git.common_dir = here.common_dir
        git.until = monotonic() + (until - monotonic()) / left
        bits = SCOPE_BITS[scope]
        try:
            read = newest(git, tip, git.until, large.setdefault(ref, {}))
            for lines, into in zip(read, (small, long), strict=True):
                into.append([("", line, bits) for line in lines])
        except MemError:
            pass  # what was read until then is better than nothing
        finally:
            git.close()
    if not any(small) and not any(long) and not any(large.values()):
        return None
    chosen = _chosen(_in_turn(small), _in_turn(long), until)
    if chosen is None:
        return None
    made = cache_file.open_in_memory()
    update = Update(made, table, None)
    update.take(chosen)
    update.finish()
    for ref, sizes in large.items():
        unread.keep(made, ref, sizes)
    return made


def newest(
    git: Git, tip: str, until: float, large: dict[str, int]
) -> tuple[list[bytes], list[bytes]]:
    """Lines of the notes that were written last, the newest first, as many as the bounds allow:
    of small notes, and of longer ones, the shortest of these first.

    `large` gets the sizes of notes that are too large to be read, by key.
    """
    from ..git.object_reader import TooLarge

    paths = _written(git, tip)
    small, long = _Lines(), _Lines()
    sizes: dict[str, int] = {}  # of longer notes

    def enough() -> bool:
        return small.size + long.size > BYTES or monotonic() > until

    for blob, found in zip(paths, git.objects.get_many(paths, SMALL), strict=False):
        if found and isinstance(found[2], TooLarge):
            sizes[blob] = found[2].size
        elif found:
            small.add(found[2])
            if enough():
                break
    large.update((paths[b].replace("/", ""), n) for b, n in sizes.items() if n > git.largest)
    rest = sorted((b for b, n in sizes.items() if n <= git.largest), key=sizes.__getitem__)
    if rest and not enough():
        for found in git.objects.get_many(rest, git.largest):
            if found:
                long.add(found[2])
                if enough():
                    break
    return list(small.lines), list(long.lines)


def _written(git: Git, tip: str) -> dict[str, str]:
    """{blob: path} of the notes that the newest commits wrote, the newest first."""
    words = [
        "-z",
        "--first-parent",
        "--diff-merges=first-parent",
        f"-n{COMMITS}",
        "--format=",
        "--raw",
        "--no-abbrev",
        "--no-renames",
        "--diff-filter=AM",
        tip,
        "--",
    ]
    paths: dict[str, str] = {}
    change = b""  # a change is "\n:... blob M", then its path
    for field in git.stream("log", *words):
        if change:
            paths.setdefault(change.split()[3].decode(), field.decode("utf-8", "replace"))
            change = b""
            if len(paths) >= OBJECTS:
                break
        elif field.lstrip(b"\n").startswith(b":"):
            change = field
    return paths


class _Lines:
    """Lines of notes, each once; `size`: bytes of these notes."""

    def __init__(self) -> None:
        self.lines: dict[bytes, None] = {}
        self.size = 0

    def add(self, note: bytes) -> None:
        self.size += len(note)
        for line in reversed(note.split(b"\n")):
            if line.startswith(b"{") and len(line) <= record.MAX_LINE:
                self.lines[line] = None


def _in_turn(parts: list[Lines]) -> Lines:
    """One line of each in turn."""
    return [line for row in zip_longest(*parts) for line in row if line is not None]


def _chosen(small: Lines, long: Lines, until: float) -> Lines | None:
    """The lines to take in; None where what takes memories away could not be read by `until`.

    Blockers and decisions, then others, the newest first, all those of small notes before any of
    longer ones. Not one that a line takes away, wherever that line stands.
    """
    parsed: dict[bytes, Record | None] = {}
    for line in (item[1] for item in (*small, *long)):
        # Not a create alone: it may take the place of another memory.
        if _CREATE not in line or _AFTER in line:
            if not len(parsed) % _LOOKS and monotonic() > until:
                return None
            parsed[line] = record.parse(line)
    away = [found for found in parsed.values() if found]
    ids, gone = fold.purged(away)
    gone.update(v for found in away if found.op in record.COVER_OPS for v in found.after)
    ranked: list[tuple[str | None, tuple[str, bytes, int]]] = []
    count = others = 0
    latest = record.latest()
    for part in small, long:
        contents: list[tuple[bool, str, str, tuple[str, bytes, int]]] = []
        for item in part:
            line = item[1]
            if line not in parsed:
                if not any(word in line for word in _FIRST_RAW):
                    # Reading a line costs more than finding it: of the rest, those that were
                    # written last are enough.
                    others += 1
                    if others > MEMORIES:
                        continue
                count += 1
                if count > LINES:
                    break
                parsed[line] = record.parse(line)
            found = parsed[line]
            if not found or found.op not in record.CONTENT_OPS:
                continue
            if found.version not in gone and found.id not in ids:
                data = found.data
                contents.append(
                    (
                        data.get("type") in _FIRST,
                        record.when(data.get("at"), latest),
                        str(data.get("author")),
                        item,
                    )
                )
        contents.sort(key=lambda entry: entry[:2], reverse=True)
        ranked += [(author if at else None, item) for _, at, author, item in contents]
    return [item for _, item in shared(ranked, lambda entry: entry[0], MEMORIES)]
