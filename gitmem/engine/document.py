"""What the cache stores of one record: terms, vector text, digest. Pure, no database.

Promise: the same record gives the same documents in every process. Any record that `record.parse`
accepts is accepted here, whatever shapes its fields have.
"""

from __future__ import annotations

from ..core import fold, record, text
from ..core.digest import sha256
from ..core.record import Record, version_of
from ..core.record_fields import ENTRIES, FIELDS
from .memory_rows import ACTIVE, FORGOTTEN, SUPERSEDED, TEAM, paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .embed import StaticTable

    Prepared = tuple[tuple[str, ...], bytes]

_SEARCHED = [f.name for f in FIELDS if f.searched]
_LABELLED = [(f.name, f.label, f.kind in ENTRIES) for f in FIELDS if f.label]
_STATUS = {fold.ACTIVE: ACTIVE, fold.SUPERSEDED: SUPERSEDED, fold.FORGOTTEN: FORGOTTEN}
_NUMPY_PAYS = 150  # texts from which importing numpy is cheaper than plain Python


def scope_name(bits: int) -> str:
    return "team" if bits & TEAM else "private"


def lexical_fields(data: dict[str, object]) -> tuple[str, str, str]:
    """(title, body, extra) as written into the full-text table."""
    extra: list[str] = []
    for value in filter(None, map(data.get, _SEARCHED)):
        extra.extend([value] if isinstance(value, str) else [str(v) for v in items(value)])
    extra.extend(paths(data))
    return str(data.get("title") or ""), str(data.get("body") or ""), " ".join(extra)


def vector_text(data: dict[str, object]) -> str:
    title, body = str(data.get("title") or ""), str(data.get("body") or "")
    return f"{title}\n{body}" if title and not body.startswith(title) else body


def fts_fields(data: dict[str, object]) -> tuple[str, ...]:
    """The terms of each lexical field, joined by spaces."""
    return tuple([" ".join(text.terms(field)) for field in lexical_fields(data)])


def prepare(table: StaticTable, documents: list[dict[str, object]]) -> list[Prepared]:
    """[(lexical fields, vector)] of records. A text without a known word gets zeros, which match
    nothing.
    """
    texts = [vector_text(d) for d in documents]
    if len(texts) >= _NUMPY_PAYS:
        from . import vectors

        made = vectors.embed_many(table, texts)
    else:
        made = table.embed(texts)
    return [(fts_fields(d), v) for d, v in zip(documents, made, strict=True)]


def versions_shown(memory: fold.Memory, scopes: Mapping[str, int]) -> list[Record]:
    """The versions to show; `scopes`: {version: bits}. Of versions that look alike the team's
    stands for a private one, and none is united with one of the other scope."""
    private = [not scopes.get(r.version, 0) & TEAM for r in memory.apart]
    if all(private) or not any(private):
        return memory.versions
    found = fold.once(sorted(memory.apart, key=lambda r: not scopes.get(r.version, 0) & TEAM))
    if any(not scopes.get(r.version, 0) & TEAM for r in found):
        return found
    from ..core.unite import united

    return united(found, memory.records)


def union_of(r: Record) -> tuple[tuple[str, ...], bytes]:
    """(versions that a text is united from, its digest); both empty for the text of one line."""
    parts: tuple[str, ...] = getattr(r, "parts", ())
    return parts, bytes.fromhex(version_of(r.line)) if parts else b""


def shown_rows(memory: fold.Memory, scopes: Mapping[str, int]) -> list[tuple[Record, int]]:
    """The (record, status) pairs that have a row: each version shown, the first one to show first,
    or the last one of a forgotten memory. `scopes`: of its versions, {version: bits}."""
    status = _STATUS[memory.status]
    if memory.status == fold.FORGOTTEN:
        newest = memory.apart[::-1]
        best = sorted(newest, key=lambda r: -(scopes.get(r.version, 0) & TEAM))
        return [(r, status) for r in best[:1]]
    return [(r, status) for r in versions_shown(memory, scopes)]


def columns(data: dict[str, object]) -> tuple[object, ...]:
    """What filters and priors look at: type, at, author, source, anchor, digest, confidence.

    `at` is the time that the record claims, "" for a malformed one: no clock is in the cache.
    """
    return (
        field(data, "type"),
        record.moment(data.get("at")),
        field(data, "author"),
        field(data, "source") or None,
        field(data, "commit"),
        content_digest(field(data, "title"), field(data, "body")),
        confidence_of(data),
    )


def confidence_of(data: dict[str, object]) -> float | None:
    """A stated confidence from 0 to 1; None for none, and for other shapes."""
    value = data.get("confidence")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value <= 1 else None


def labels(data: dict[str, object]) -> set[tuple[str, str]]:
    """(label, value) pairs: the paths, and the values of fields that have a label."""
    found = {("path", path) for path in paths(data)}
    for name, label, several in _LABELLED:
        values = items(data.get(name)) if several else [field(data, name)]
        found |= {(label, record.clean(str(value))) for value in values if value != ""}
    return found


def items(value: object) -> list[object]:
    return value[: record.MAX_ITEMS] if isinstance(value, list) else []


def field(data: dict[str, object], name: str) -> str:
    """A text field as SQLite can hold it and readers are shown it, "" for other shapes."""
    value = data.get(name)
    return record.clean(value) if isinstance(value, str) else ""


def content_digest(title: str, body: str) -> bytes:
    """Names a text for finding duplicates, whatever its salt: 16 bytes."""
    return sha256(" ".join(f"{title}\n{body}".split()).encode("utf-8", "replace")).digest()[:16]
