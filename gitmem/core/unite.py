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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

SETS = ("tags", "paths", "facts", "concepts", "supersedes")
FIELDS = ("title", "subtitle", "body", "type", "source", "phase", "provenance", "confidence", *SETS)
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
    return tuple([repr(record.data.get(k)) for k in FIELDS])


def united(versions: Sequence[Record], records: Iterable[Record]) -> list[Record]:
    """The versions to show, in the order of `versions`; `records` are all of this memory."""
    if len(versions) < 2 or len(versions) > MOST:
        return list(versions)
    known = {r.version: r for r in records if r.op in COVER_OPS}
    seen = [_seen(v, known) for v in versions]
    bases = [[_newest(a & b, known) for b in seen] for a in seen]
    fields: dict[str, Any] = {}
    disputed: dict[str, set[int]] = {}  # {field: places of the versions whose value counts}
    for name in FIELDS:
        values = [v.data.get(name) for v in versions]
        if name in SETS and all(v is None or isinstance(v, list) for v in values):
            fields[name] = _entries(name, values, bases)
            continue
        counting = _counting(name, [repr(v) for v in values], bases)
        if len({repr(values[i]) for i in counting}) > 1:
            disputed[name] = counting
        else:
            fields[name] = values[min(counting)]
    if any(len(fields.get(name) or ()) > MAX_ITEMS for name in SETS):
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
    data = {k: v for k, v in first.data.items() if k not in (*FIELDS, "signature", "signed_at")}
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


def _newest(both: set[str], known: dict[str, Record]) -> list[Record]:
    """Of what two versions had seen the texts that no other of them replaced."""
    texts = [known[v] for v in both if known[v].op in CONTENT_OPS]
    replaced = {v for r in texts for v in r.after}
    return [r for r in texts if r.version not in replaced]


def _counting(name: str, values: list[str], bases: list[list[list[Record]]]) -> set[int]:
    """Places of the values that count: no other version changed them. All, where none does."""
    def changed(i: int) -> bool:
        return any(value != values[i] and values[i] in [repr(b.data.get(name)) for b in bases[i][j]]
                   for j, value in enumerate(values))

    return {i for i in range(len(values)) if not changed(i)} or set(range(len(values)))


def _key(name: str, entry: Any) -> str:
    if name == "paths" and isinstance(entry, dict):
        return repr((entry.get("path"), entry.get("lines", "")))
    return repr(entry)


def _keyed(name: str, value: Any) -> dict[str, Any]:
    return {_key(name, e): e for e in value} if isinstance(value, list) else {}


def _entries(name: str, values: list[Any], bases: list[list[list[Record]]]) -> list[Any]:
    """The entries of a set that stay: one version has it, and none that lacks it took it out."""
    held = [_keyed(name, v) for v in values]
    before = [[[_keyed(name, b.data.get(name)) for b in some] for some in row] for row in bases]
    places = range(len(held))
    out: dict[str, Any] = {}
    for i in places:
        for key, entry in held[i].items():
            if any(key not in held[j] and any(key in b for b in before[i][j]) for j in places):
                continue
            # Of a path that was noted again the new note counts.
            old = any(repr(b.get(key)) == repr(entry) for row in before[i] for b in row)
            if key not in out or (repr(out[key][0]) != repr(entry) and out[key][1] and not old):
                out[key] = entry, old
    entries = [entry for entry, _ in out.values()]
    plain = name == "tags" and all(isinstance(e, str) for e in entries)
    return sorted(entries) if plain else entries
