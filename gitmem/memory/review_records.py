"""The records of a review: a private `suggest` that waits, and `verdict` records about it.

Two things live it: texts that capture suggests (`capture/suggestions`), and proposals about stored
memories (`proposals`), whose records have a `kind`. `docs/format.md` has their fields.

Which verdict counts depends neither on order nor on clock: the strongest word, then the smallest
version. Records in the team's notes count nowhere: whoever can push could otherwise ask for a
decision, or make one in another's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ..core import record
from ..core.errors import MemError
from ..engine.cache import Cache
from ..engine.memory_rows import PRIVATE, word, words
from ..hooks import announce
from ..store import Store
from . import memories

WAITING, ACCEPTED, MERGED, REJECTED = "waiting", "accepted", "merged", "rejected"
# The word in the record of a rejected proposal: unlike a rejected suggestion it says nothing
# against either memory, so `feedback` does not read it.
DECLINED = "declined"


class Item:
    """One `suggest` record and what became of it."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.state = WAITING
        self.memory = ""  # the id of the memory that has the text now, or that stayed

    @property
    def id(self) -> str:
        return str(self.data["id"])

    def decide(self, said: str, memory: str) -> None:
        self.state = REJECTED if said == DECLINED else said
        self.memory = memory

    def text(self, name: str) -> str:
        """A field that is a text, "" where it is none."""
        return word(self.data.get(name)) or ""

    def number(self, name: str) -> float | None:
        """A field that is a number from 0 to 1, None where it is none."""
        value = self.data.get(name)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return None
        return float(value) if 0 <= value <= 1 else None

    def words(self, name: str) -> list[str]:
        return words(self.data.get(name))


AnyItem = TypeVar("AnyItem", bound=Item)
# (item, verdict, id of the memory or "", fields of the item that the record repeats; never a text)
Decision = tuple[Item, str, str, Mapping[str, Any]]


def records(
    cache: Cache, op: str, with_kind: bool = False, prefix: str = ""
) -> list[record.Record]:
    """The records of an operation, by version; `with_kind`: only those about stored memories;
    `prefix`: of their ids.
    """
    assert op in record.APART_OPS
    # The word stands in the statement, so that the partial index serves.
    sql = f"SELECT raw FROM line WHERE op = '{op}' AND scope & {PRIVATE}"
    if with_kind:
        sql += " AND instr(raw, CAST('\"kind\":' AS BLOB)) > 0"
    low = prefix.strip().lower().encode("utf-8", "surrogateescape")
    if low:
        sql += " AND memory >= ? AND memory < ?"
    rows = cache.db.execute(sql, (low, low + b"\xff") if low else ())
    found = [r for (raw,) in rows if (r := record.parse(raw))]
    return sorted(found, key=lambda r: r.version)


def stored(
    cache: Cache,
    make: Callable[[dict[str, Any]], AnyItem | None],
    ranked: Sequence[str],
    with_kind: bool = False,
    prefix: str = "",
) -> dict[str, AnyItem]:
    """{id: item}, decided ones included; with a `prefix` of an id those that it may name.

    `make`: the item of a record, None for one of the other kind. `ranked`: the verdicts that count,
    the strongest first. Of several records with one id the one with the smallest version counts.
    """
    items: dict[str, AnyItem] = {}
    for r in records(cache, "suggest", with_kind, prefix):
        if r.id not in items and (item := make(r.data)):
            items[r.id] = item
    verdicts = records(cache, "verdict", with_kind, prefix)
    counting = [r for r in verdicts if r.id in items and r.data.get("verdict") in ranked]
    counting.sort(key=lambda r: ranked.index(r.data["verdict"]))
    for r in reversed(counting):
        items[r.id].decide(r.data["verdict"], word(r.data.get("memory")) or "")
    return items


def find(items: Iterable[AnyItem], prefix: str) -> AnyItem | None:
    """The one item whose id starts with `prefix`, None for none. Raises Ambiguous for several."""
    low = prefix.strip().lower()
    found = [item for item in items if item.id.startswith(low)] if memories.is_prefix(low) else []
    if len(found) > 1:
        raise memories.ambiguous(low, [item.id for item in found])
    return found[0] if found else None


def check_undecided(item: Item, noun: str, states: Sequence[str] = (WAITING,)) -> None:
    """Raises MemError where an item is not in one of `states`."""
    if item.state in states:
        return
    hint = "`git mem review --list` shows what waits"
    if item.memory:
        hint = f"`git mem show {item.memory[:8]}` shows the memory"
    raise MemError(f"{noun} '{item.id[:8]}' was {item.state} already", hint=hint)


def write(store: Store, noun: str, lines: Sequence[Mapping[str, Any]]) -> None:
    """Appends private records in one commit; unsigned, since the worker can ask nobody."""
    if lines:
        message = f"git mem: {len(lines)} {noun}{'s' * (len(lines) != 1)}"
        store.append("private", [("", record.dump(dict(line))) for line in lines], message)


def decide(store: Store, decisions: Sequence[Decision]) -> None:
    """Writes verdicts in one commit."""
    lines = []
    for item, said, memory, about in decisions:
        data = {"id": item.id, "verdict": said, "memory": memory, "author": store.author, **about}
        named = {k: v for k, v in data.items() if v != ""}
        lines.append(record.envelope("verdict", named, "", {}))
    write(store, "verdict", lines)
    for item, said, memory, _ in decisions:
        item.decide(said, memory)
    announce.decided(store.repo.mem_dir, [item.id for item, *_ in decisions])
