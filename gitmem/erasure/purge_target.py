"""What a purge removes: the memory, suggestion or line that a prefix names, with all its lines.
Also the memories that come back when it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..core import fold, record
from ..core.errors import Ambiguous, MemError
from ..core.fold import Tombstones, mortal
from ..core.record import Record
from ..engine.cache import Cache
from ..engine.memory_rows import ACTIVE, PRIVATE
from ..memory import memories, similarity
from ..memory.memories import Found
from ..notes.notetree import is_hex
from ..store import Store
from . import cache_scrub, tombstones


@dataclass
class Target:
    """The records of a memory, or the one line that no memory has.

    With neither: an earlier purge, which may not be finished; `id` is then that of its tombstone,
    or "". `back`: the memories that only this one hides, each with whether it says nearly the same.
    `also`: ids of others, forgotten ones and suggestions among them, that have the same text.
    """

    id: str
    title: str = ""
    scope: str = ""
    records: list[Record] = field(default_factory=list)
    line: bytes = b""
    back: list[tuple[Found, bool]] = field(default_factory=list)
    also: list[str] = field(default_factory=list)

    @property
    def gone(self) -> bool:
        return not (self.records or self.line)

    @property
    def commits(self) -> list[str]:
        """The commits whose messages it was made of (`promote`, capture)."""
        sources = {str(r.data.get("source")) for r in self.records}
        return sorted({s.split(":")[1].split("#")[0] for s in sources if s.startswith("commit:")})

    @property
    def version(self) -> str:
        return record.version_of(self.line) if self.line else ""


def find(store: Store, prefix: str) -> Target:
    """The memory that an id prefix names, in any state; else the suggestion; else an earlier purge;
    else the line that no memory has and whose version it names. Raises MemError for none, or
    several.
    """
    try:
        found = memories.find(store, prefix)
    except Ambiguous:
        raise
    except MemError:
        low = prefix.strip().lower()
        other = (
            _apart(store, low) or _purged_before(store, low) if memories.is_prefix(low) else None
        )
        if other is None:
            raise
        return other
    id = found.memory.id
    records = [*lines_of(store, id), *_merged_into(store, id)]
    title = record.title_of(found.record.data)
    back = coming_back(store, records)
    named = {f.memory.id for f, _ in back}
    also = [other for other in _also_in(store, records) if other not in named]
    return Target(id, title, found.scope, records, back=back, also=also)


def _purged_before(store: Store, prefix: str) -> Target | None:
    """An earlier purge that the prefix names, else a line that no memory has."""
    purges = tombstones.purges(store)
    named = {r.id for r in purges if r.id.startswith(prefix)}
    for r in purges:
        versions = () if r.data.get("all") else Tombstones([r]).versions
        named.update(r.id for version in versions if version.startswith(prefix))
    if len(named) == 1:
        return Target(named.pop())
    lines = _lines_apart(store, prefix)
    if len(lines) > 1:
        raise memories.ambiguous(prefix, lines)
    for line, scope in lines.values():
        return Target("", scope=scope, line=line)
    # A short text's tombstone does not tell its id; but a purge that was cut off can be finished.
    unfinished = purges and not tombstones.settled(store, Tombstones(purges))
    return Target("") if unfinished else None


def guessable(records: list[Record]) -> bool:
    """Whether somebody could find the text from the id by trying."""
    creates = [r.data for r in records if r.op == "create"]
    for data in creates:
        text = f"{data.get('title') or ''}{data['body']}".encode("utf-8", "replace")
        if not data.get("salt") and len(text) < record.SALT_BELOW:
            return True
    return not creates  # the text that the id was made of is not known


def lines_of(store: Store, id: str) -> list[Record]:
    """Every line of a memory that the cache or one of our refs has, or had."""
    found: dict[str, Record] = {}

    def take(lines: Iterable[bytes]) -> None:
        for line in lines:
            parsed = record.parse(line) if id.encode() in line else None
            if parsed and parsed.id == id and parsed.op != "purge":
                found[parsed.version] = parsed

    take(_cached(store, "memory = ?", id.encode()))
    # Only a tombstone without the id must know every version.
    deep = guessable(list(found.values()))
    for notes in tombstones.ours(store).values():
        take(line for _, line in notes.lines(notes.tip(), deep=deep))
    return list(found.values())


def _cached(store: Store, condition: str, *values: object) -> list[bytes]:
    sql = f"SELECT raw FROM line WHERE {condition}"
    return store.with_cache(lambda cache: [raw for (raw,) in cache.db.execute(sql, values)])[0]


def coming_back(
    store: Store, records: list[Record], hidden: bool = True
) -> list[tuple[Found, bool]]:
    """The memories that only these records hide, as they will be, and whether each says nearly what
    the purged one says. `hidden` false: hid, before the tombstone was there.
    """
    doomed = {r.version for r in records}
    gone = {r.id for r in records}
    covered = sorted({v for r in records if r.op in record.COVER_OPS for v in r.after} - doomed)
    versions = [bytes.fromhex(v) for v in covered if is_hex(v) and len(v) % 2 == 0]

    def read(cache: Cache) -> list[Found]:
        sql = (
            "SELECT m.id, m.status FROM line l JOIN memory m ON m.id = CAST(l.memory AS TEXT)"
            " WHERE l.version = ?"
        )
        rows = {row for version in versions for row in cache.db.execute(sql, (version,))}
        asked = sorted({id for id, status in rows if (status != ACTIVE) == hidden})
        found = [memories.load(cache, id, doomed) for id in asked if id not in gone]
        found = [f for f in found if f.memory.status == fold.ACTIVE]
        return [f for f in found if hidden or all(v.version in covered for v in f.memory.versions)]

    said = [str(r.data["body"]) for r in records if r.op in record.CONTENT_OPS]

    def alike(text: str) -> bool:
        """Whether a text holds a purged one, or one says what the other says."""
        return any(
            f" {similarity.normal(gone)} " in f" {similarity.normal(text)} "
            or similarity.repeats(gone, text)
            or similarity.repeats(text, gone)
            for gone in said
        )

    back = store.with_cache(read)[0] if covered else []
    return [(f, alike(str(f.record.data["body"]))) for f in back]


def _also_in(store: Store, records: list[Record]) -> list[str]:
    """The ids of records of others that hold a text of these."""
    own = {r.id for r in records}
    texts = [r.data["body"] for r in records if isinstance(r.data.get("body"), str)]
    forms = {form for text in texts for form in cache_scrub.as_json(text)}
    sql = (
        "SELECT DISTINCT CAST(memory AS TEXT) FROM line WHERE op <> 'purge' AND memory <> x''"
        " AND instr(raw, ?)"
    )

    def read(cache: Cache) -> set[str]:
        return {id for form in forms for (id,) in cache.db.execute(sql, (form,))}

    return sorted(store.with_cache(read)[0] - own)


def _merged_into(store: Store, id: str) -> list[Record]:
    """The records of suggestions whose text went into this memory under another id."""
    # What a teammate's notes say takes nothing along.
    verdicts = map(record.parse, _cached(store, f"op = 'verdict' AND scope & {PRIVATE}"))
    others = {r.id for r in verdicts if r and r.data.get("memory") == id and r.id != id}
    lines = [r for other in sorted(others) for r in lines_of(store, other)]
    return [r for r in lines if r.op in record.APART_OPS]


def _apart(store: Store, prefix: str) -> Target | None:
    """The suggestion that an id prefix names and that became no memory, with its verdicts."""
    suggested = map(record.parse, _cached(store, "op = 'suggest'"))
    found = {r.id: r for r in suggested if r and r.id.startswith(prefix)}
    if len(found) > 1:
        raise memories.ambiguous(prefix, found)
    for id, r in found.items():
        return Target(id, record.title_of(r.data), "private", lines_of(store, id))
    return None


def _lines_apart(store: Store, prefix: str) -> dict[str, tuple[bytes, str]]:
    """{version: (line, scope)} of our refs' lines that the prefix names and no memory has."""
    found: dict[str, tuple[bytes, str]] = {}
    for ref, notes in tombstones.ours(store).items():
        for _, line in notes.lines(notes.tip(), deep=True):
            version = record.version_of(line)
            if version.startswith(prefix) and version not in found:
                parsed = record.parse(line)
                if mortal(line, parsed) and not (parsed and parsed.op in record.MEMORY_OPS):
                    found[version] = line, "private" if ref == store.private.ref else "team"
    return found
