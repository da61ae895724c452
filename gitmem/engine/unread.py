"""Notes that were too large to be read (`object_reader.LARGEST`), as the cache knows them.

Promise: such a note is named wherever memories are shown, until an update finds it gone or small
enough. Standard library only: every session waits for it.
"""

from __future__ import annotations

from ..core import fastjson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .cache import Cache

_KEY = "unread:"
_MOST = 100  # of one ref that are kept: the largest


def keep(cache: Cache, ref: str, sizes: Mapping[str, int], *, all: bool = True) -> None:
    """Takes over the sizes of a ref's notes that were not read, 0 for one that is so no more; the
    caller owns the transaction. `all`: there are no others; else those that were known stay.
    """
    known = {**({} if all else of(cache, ref)), **sizes}
    left = sorted(((size, key) for key, size in known.items() if size), reverse=True)[:_MOST]
    cache.set_meta(_KEY + ref, fastjson.dumps({key: size for size, key in left}) if left else "")


def of(cache: Cache, ref: str) -> dict[str, int]:
    """{the commit a note is about, or the key of a continuation: its bytes}."""
    text = cache.meta(_KEY + ref)
    found = fastjson.loads(text.encode()) if text else {}
    return {str(key): size for key, size in found.items()} if isinstance(found, dict) else {}


def remark(cache: Cache) -> str:
    """One line for whoever is shown memories, "" where all notes were read."""
    rows = cache.db.execute(
        "SELECT key FROM meta WHERE key > ? AND key < ? AND value <> '' ORDER BY key DESC",
        (_KEY, _KEY + "~"),
    ).fetchall()
    refs = [str(name).removeprefix(_KEY) for (name,) in rows]
    found = [(size, key) for ref in refs for key, size in of(cache, ref).items()]
    if not found:
        return ""
    size, key = max(found)
    least = "at least " if len(found) >= _MOST else ""
    more = f", and {least}{len(found) - 1} more" if len(found) > 1 else ""
    return (
        f"the note of {key[:12]} has {megabytes(size)}{more}: too large to be read; git mem doctor"
        " names it"
    )


def megabytes(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"
