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


def keep(cache: Cache, ref: str, sizes: Mapping[str, int], *, all: bool = True) -> None:
    """Takes over the sizes of a ref's notes that were not read, by the commit that a note is about
    or the key of a continuation; 0 for one that is so no more. The caller owns the transaction.
    `all`: there are no others; else those that were known stay.
    """
    known = {**({} if all else _of(cache, ref)), **sizes}
    left = {key: size for key, size in known.items() if size}
    cache.set_meta(_KEY + ref, fastjson.dumps(left) if left else "")


def _of(cache: Cache, ref: str) -> dict[str, int]:
    text = cache.meta(_KEY + ref)
    found = fastjson.loads(text.encode()) if text else {}
    return found if isinstance(found, dict) else {}


def remark(cache: Cache) -> str:
    """One line for whoever is shown memories, "" where all notes were read."""
    sql = "SELECT key FROM meta WHERE key > ? AND key < ? AND value <> '' ORDER BY key DESC"
    refs = [str(key).removeprefix(_KEY) for (key,) in cache.db.execute(sql, (_KEY, _KEY + "~"))]
    found = [(size, key) for ref in refs for key, size in _of(cache, ref).items()]
    if not found:
        return ""
    size, key = max(found)
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return (
        f"the note of {key[:12]} has {megabytes(size)}{more}: too large to be read; git mem doctor"
        " names it"
    )


def megabytes(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"
