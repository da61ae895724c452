"""Versions of one memory that stand beside each other, made one where nothing contradicts. Pure.

Two clones that edit a memory at the same time leave two versions that neither covers.
Field by field they are compared with what both had seen: a value that one side changed
counts, a value that the other side still has from before does not. Of tags, paths, facts,
concepts and superseded ids each entry is such a field, there or not; where nothing that
both had seen is known, an entry is there. Fields with more than one value that counts are
disputed: then as many versions stay as there are values of them, alternatives of one
memory, equal in all other fields.

Promise: the result depends on the set of records alone. Time orders what is shown, and
says whose note of a path is taken where two noted the same one; it decides no text.
"""

from __future__ import annotations

from .record import CONTENT_OPS, COVER_OPS, MAX_ITEMS, MAX_LINE, Record, dump
from .record_fields import CONTENT, ENTRIES, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    Bases = list[tuple[Record, int]]

SETS = names(*ENTRIES)
MOST = 16  # versions beside each other; more are no work of people, and are shown as they are


class United(Record):
    """A version that no line has: the content of several. `version` is that of the line it
    begins with, `parts` are those of all of them; `line` is what it would be as a record."""

    __slots__ = ("parts",)

    def __init__(self, data: dict[str, Any], version: str, parts: tuple[str, ...]) -> None:
        super().__init__(dump(data), data, version)
        self.parts = parts


def same_content(record: Record) -> tuple[object, ...]:
    """What makes two versions look alike to a reader; they are shown once."""
    # Another tool may have written any shape, also one that cannot be hashed.
    return tuple([repr(record.data.get(k)) for k in CONTENT])


def united(versions: Sequence[Record], records: Iterable[Record]) -> list[Record]:
    """The versions to show, in the order of `versions`; `records` are all of this memory."""
    if len(versions) < 2 or len(versions) > MOST:
        return list(versions)
    if any(len(_list(v.data.get(name))) > MAX_ITEMS for v in versions for name in SETS):
        return list(versions)
    bases = _bases(versions, {r.version: r for r in records if r.op in COVER_OPS})
    fields: dict[str, Any] = {}
    disputed: dict[str, set[int]] = {}  # {field: places of the versions whose value counts}
    for name in CONTENT:
        values = [v.data.get(name) for v in versions]
        if name in SETS and all(v is None or isinstance(v, list) for v in values):
            fields[name] = _entries(name, values, bases)
            continue
        counting = _counting(name, [repr(v) for v in values], bases)
        if len({repr(values[i]) for i in counting}) > 1:
            disputed[name] = counting
        else:
            fields[name] = values[min(counting)]
    if any(len(_list(fields.get(name))) > MAX_ITEMS for name in SETS):
        return list(versions)
    parts = tuple(sorted(v.version for v in versions))
    sides = set().union(*disputed.values()) if disputed else {0}
    shown: dict[tuple[object, ...], Record] = {}
    for i in sorted(sides):
        content = {**fields, **{name: versions[i].data.get(name) for name in disputed}}
        made = _made(versions[i], content, parts)
        if len(made.line) > MAX_LINE:
            return list(versions)
        shown.setdefault(same_content(made), made)
    # A line that says all of it needs no other beside it.
    whole = {same_content(v): v for v in reversed(versions)}
    return [whole.get(key, made) for key, made in shown.items()]


def _made(first: Record, content: dict[str, Any], parts: tuple[str, ...]) -> United:
    data = {k: v for k, v in first.data.items() if k not in (*CONTENT, "signature", "signed_at")}
    data.update({k: v for k, v in content.items() if v is not None and v != []})
    return United(data, first.version, parts)


def _seen(version: Record, known: dict[str, Record]) -> set[str]:
    """The versions that lie before one, as far as they are here."""
    out: set[str] = set()
    level = {v for v in version.after if v in known}
    while level:
        out |= level
        level = {v for here in level for v in known[here].after if v in known} - out
    return out


def _bases(versions: Sequence[Record], known: dict[str, Record]) -> Bases:
    """What two of n versions had seen: [(text, pairs)]. Bit `i * n + j` of `pairs`: of the versions
    i and j the text is a base, that is, both had seen it and no other text that replaced it.

    Bits, since 16 versions are 120 pairs, and a history can be as long as a writer likes:
    the work is that of reading each record a few times, whatever pairs it is a base of.
    """
    n = len(versions)
    seers: dict[str, int] = {}  # {version: bits of the versions that had seen it}
    for i, one in enumerate(versions):
        for v in _seen(one, known):
            seers[v] = seers.get(v, 0) | 1 << i
    pairs = {
        of: sum((of & ~(1 << i)) << i * n for i in range(n) if of >> i & 1)
        for of in set(seers.values())
    }
    texts = [(known[v], pairs[of]) for v, of in seers.items() if known[v].op in CONTENT_OPS]
    replaced: dict[str, int] = {}
    for r, both in texts:
        for v in r.after:
            replaced[v] = replaced.get(v, 0) | both
    return [(r, left) for r, both in texts if (left := both & ~replaced.get(r.version, 0))]


def _counting(name: str, values: list[str], bases: Bases) -> set[int]:
    """Places of the values that count: no other version changed them. All, where none does."""
    n = len(values)
    before = dict.fromkeys(values, 0)  # {value: pairs that have a base with it}
    for base, pairs in bases:
        value = repr(base.data.get(name))
        if value in before:
            before[value] |= pairs
    others = {value: sum(1 << j for j in range(n) if values[j] != value) for value in before}
    changed = {i for i, value in enumerate(values) if before[value] >> i * n & others[value]}
    return set(range(n)) - changed or set(range(n))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _key(name: str, entry: Any) -> str:
    if name == "paths" and isinstance(entry, dict):
        return repr((entry.get("path"), entry.get("lines", "")))
    return repr(entry)


def _keyed(name: str, value: Any) -> dict[str, Any]:
    return {_key(name, e): e for e in _list(value)}


def _entries(name: str, values: list[Any], bases: Bases) -> list[Any]:
    """The entries of a set that stay: one version has it, and none that lacks it took it out."""
    n = len(values)
    held = [_keyed(name, v) for v in values]
    lack = {
        key: sum(1 << j for j in range(n) if key not in held[j]) for some in held for key in some
    }
    before = dict.fromkeys(lack, 0)  # {entry: pairs that have a base with it}
    noted: dict[tuple[str, str], int] = {}  # the same of each note of a path
    for base, pairs in bases:
        for key, entry in _keyed(name, base.data.get(name)).items():
            if key in before:
                before[key] |= pairs
                note = key, repr(entry)
                noted[note] = noted.get(note, 0) | pairs
    out: dict[str, Any] = {}
    for i in range(n):
        for key, entry in held[i].items():
            if before[key] >> i * n & lack[key]:
                continue
            # Of a path that was noted again the new note counts.
            said = repr(entry)
            old = bool(noted.get((key, said), 0) >> i * n & (1 << n) - 1)
            if key not in out or (repr(out[key][0]) != said and out[key][1] and not old):
                out[key] = entry, old
    entries = [entry for entry, _ in out.values()]
    plain = name == "tags" and all(isinstance(e, str) for e in entries)
    return sorted(entries) if plain else entries
