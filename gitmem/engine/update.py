"""One cache update: what a batch of lines changes in the tables.

Promise: rows depend on the set of lines taken so far, not on their order or portions, up to row
numbers. The caller owns the transaction. Lines are in `line_tables`, the memories folded from them
in `memory_tables`.
"""

from __future__ import annotations

from ..core import fold, record
from ..core.record import Record
from . import line_tables, usage_store
from .document import shown_rows, union_of
from .memory_rows import PRIVATE
from .memory_tables import MemoryTables
from .sql import select_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..notes.note_store import Notes
    from .ahead import Ahead
    from .cache import Cache
    from .embed import StaticTable

    # By version: the records, their scope bits, and the keys of notes other than their anchor.
    Batch = tuple[dict[str, Record], dict[str, int], dict[str, set[str]]]

BATCH = 2_000  # lines folded and written at a time: bounds memory, and what progress counts


class Update:
    """One transaction's worth of changes."""

    def __init__(
        self, cache: Cache, table: StaticTable, notes: Notes | None, ahead: Ahead | None = None
    ) -> None:
        self.cache, self.db, self.notes = cache, cache.db, notes
        self.memories = MemoryTables(cache, table, ahead)
        self._erased = False
        self._places: dict[str, str] = {}  # of the keys of notes: `_place`

    def finish(self) -> bool:
        """Writes the totals; returns whether purged text must still be scrubbed from the file."""
        self.memories.finish()
        if self._erased:
            # A removed row's words stay in its full-text block until blocks are merged; the file
            # itself can only be rewritten outside of the transaction.
            self.db.execute("INSERT INTO fts(fts) VALUES('optimize')")
            self.cache.set_meta("scrub", "1")
        return self._erased

    def begin(self, batch: Batch, share: float = 1.0) -> None:
        """Begins to prepare the documents of a batch that will be taken soon, if it is a large one:
        the last `share` of them in a second process, the rest in this one when it collects.
        """
        ahead, records, wanted = self.memories.ahead, batch[0], []
        if ahead.pays(len(records)):
            known = line_tables.known(self.db, records)
            wanted = [
                (v, r.data)
                for v, r in records.items()
                if r.op in record.CONTENT_OPS and v not in known
            ]
        ahead.begin(wanted, share)

    def collect(self) -> None:
        """Waits for the documents that were begun."""
        self.memories.ahead.collect()

    def take(self, batch: Batch) -> int:
        """Folds a batch into the tables; returns how many records were new.

        No row is ever patched. The batch says which memories it is about (`affected`); for these
        all lines are read, folded, and the rows that came out otherwise made anew. So an edit that
        came before its memory, or comes twice, ends in the same rows; and a purge record brings
        back what the purged lines covered, since those memories are affected too.
        """
        records, scopes, keys = batch
        known = line_tables.known(self.db, records)
        ids, versions = fold.purged([r for v, r in records.items() if v not in known])
        old_ids, old_versions = fold.purged(line_tables.purges(self.db))
        gone, gone_versions = ids | old_ids, versions | old_versions
        fresh = [
            r
            for v, r in records.items()
            if v not in known and (r.op == "purge" or (r.id not in gone and v not in gone_versions))
        ]
        shared = {v for v, (_, scope, _) in known.items() if scope | scopes[v] != scope}
        affected = {known[v][2] for v in shared} | self._about(fresh)
        self.db.executemany(
            "UPDATE line SET scope = scope | ? WHERE n = ?",
            [(scopes[v], known[v][0]) for v in shared],
        )
        doomed = line_tables.doomed(self.db, ids, versions) if ids or versions else []
        if doomed:
            # What a purged record covered comes back.
            covered = line_tables.covered_by(self.db, doomed)
            affected |= ids | line_tables.memories_of(self.db, [*versions, *covered])
        present = line_tables.having_lines(self.db, affected)
        line_tables.store(self.db, fresh, scopes)
        self._moves(records, keys)
        self._fold(affected, present, fresh, scopes)
        if doomed:
            line_tables.erase(self.db, doomed)
            self._erased = True
        if doomed or ids:
            usage_store.again(self.db, gone)
        else:
            # A line that was the team's alone and is private now speaks from now on.
            private = [records[v] for v in shared if not known[v][1] & PRIVATE]
            spoken = [r for r in [*private, *fresh] if scopes[r.version] & PRIVATE]
            usage_store.take(self.db, spoken, affected, gone)
        return len(fresh)

    def take_out(self, ids: set[str], lines: list[int]) -> None:
        """Takes lines away, and folds the memories that they changed (`snapshot_view`)."""
        rows = select_in(self.db, "SELECT row FROM memory WHERE id IN {}", ids)
        self.memories.remove([row for (row,) in rows])
        for table, column in (("line", "n"), ("cover", "by")):
            select_in(self.db, f"DELETE FROM {table} WHERE {column} IN {{}}", lines)
        self._fold(ids, ids, [], {})

    def _about(self, fresh: list[Record]) -> set[str]:
        """The memories that new records change."""
        apart = record.COMMIT_OPS + record.APART_OPS
        covered = [v for r in fresh if r.op in record.COVER_OPS for v in r.after]
        return {r.id for r in fresh if r.op != "purge" and r.op not in apart} | (
            line_tables.memories_of(self.db, covered)
        )

    def _moves(self, records: dict[str, Record], keys: dict[str, set[str]]) -> None:
        """Remembers the other commits at whose notes, or their continuations, a line was found."""
        moves = []
        for v, found in keys.items():
            old = record.object_id(records[v].data.get("commit"))
            places = {self._place(key) for key in found} if old else set()
            moves += [(old, place, bytes.fromhex(v)) for place in sorted(places - {"", old})]
        line_tables.add_moves(self.db, moves)

    def _place(self, key: str) -> str:
        """The commit that a note's key stands for, "" for none."""
        if key not in self._places and self.notes:
            from ..notes import notetree  # hooks ask without notes, and it loads `subprocess`

            git = self.notes.git
            # A commit that a partial clone does not have is not fetched for its name; what the
            # notes keep alive is.
            found = git.local.get(key, git.largest)
            if not found and git.promised and self.notes.keeps(key):
                found = git.objects.get(key, git.largest)
            blob = found[2] if found and found[1] == "blob" else None
            self._places[key] = (
                key if blob is None else record.object_id(notetree.continued(blob, len(key)))
            )
        return self._places.get(key, key)

    def _fold(
        self, affected: set[str], present: set[str], fresh: list[Record], scopes: dict[str, int]
    ) -> None:
        """Folds the affected memories from all their lines and replaces their rows where they
        changed. `present`: those of them that had lines before.
        """
        bits = dict(scopes)
        subset = {r.version: r for r in fresh if r.id in affected and r.op != "purge"}
        for r, scope in line_tables.of_memories(self.db, present):
            subset[r.version], bits[r.version] = r, scope
        for r in line_tables.covering(self.db, list(subset)):
            subset.setdefault(r.version, r)
        memories = fold.fold([*subset.values(), *(r for r in fresh if r.op == "purge")])
        stored = self._stored(affected)
        removed: list[int] = []
        wanted: list[tuple[Record, int, int]] = []
        for id in sorted(affected):
            memory = memories.get(id)
            rows = shown_rows(memory, bits) if memory else []
            # All rows of a changed memory are made anew, so that their order never tells what came
            # first.
            new = [(r.version, status, union_of(r)[1]) for r, status in rows]
            old = sorted(stored.get(id, []))
            if new != [found[1:] for found in old]:
                removed += [row for row, *_ in old]
                wanted += [(r, status, nth) for nth, (r, status) in enumerate(rows)]
        self.memories.remove(removed)
        self.memories.add(wanted)
        self.memories.rescope(affected & present)

    def _stored(self, ids: Iterable[str]) -> dict[str, list[tuple[int, str, int, bytes]]]:
        """{id: [(row, version, status, digest)]}.

        A row that came back at some HEAD says active without its records, and is hidden at others:
        its status is -1, so that it is made anew as they say it.
        """
        sql = (
            "SELECT m.id, m.row, coalesce(lower(hex(l.version)), ''), iif(m.row IN (SELECT row"
            " FROM reinstated), -1, m.status), coalesce(u.digest, x'') FROM memory m LEFT JOIN line"
            " l ON l.n = m.line LEFT JOIN united u ON u.row = m.row WHERE m.id IN {}"
        )
        found: dict[str, list[tuple[int, str, int, bytes]]] = {}
        for id, row, version, status, digest in select_in(self.db, sql, ids):
            found.setdefault(id, []).append((row, version, status, digest))
        return found


def batch_of(lines: Iterable[tuple[str, bytes, int]]) -> Batch:
    """(key of the note, line, scope bits) as `Update` takes them."""
    records: dict[str, Record] = {}
    scopes: dict[str, int] = {}
    keys: dict[str, set[str]] = {}
    for key, line, scope in lines:
        r = record.parse(line)
        if r is None or r.id.encode("utf-8", "ignore").decode() != r.id:
            continue  # an id that is no proper text; no tool of ours writes one
        records[r.version] = r
        scopes[r.version] = scopes.get(r.version, 0) | scope
        if key != r.data.get("commit"):
            keys.setdefault(r.version, set()).add(key)
    return records, scopes, keys
