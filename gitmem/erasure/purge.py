"""`git mem purge`: the text of a memory, or a line that is none, leaves this repository for good,
and the command proves it.

Promise, once it has answered that nothing holds the text: no object, no page
of the cache and no file of ours here has it, and a record without text (the
tombstone) keeps it out of every clone that has git mem. A memory whose place
the purged one had taken comes back by it: it is named before and after, and
whether it says nearly the same. Refs, reflogs and
objects that are not ours stay as they are; what of them still leads to the
text is named, and then the answer is no.

Order: the tombstone is in a ref first, together with the new history of that
ref; all that follows can be done again, by the same call, by `git mem sync`
or by `scrub`, from whatever step it was killed at.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from ..agents import automemory_dir
from ..capture import capture_exclusions
from ..core import fold, record
from ..core.errors import Ambiguous, MemError
from ..core.fold import Tombstones, mortal
from ..core.record import Record
from ..engine.document import ACTIVE, PRIVATE
from ..git import config, reflock
from ..memory import memories, similarity
from ..notes.history import History
from ..notes.notetree import PURGED, is_hex
from ..store import Store
from . import cache_scrub, erase, tombstones

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ..engine.cache import Cache
    from ..memory.memories import Found

_PART = 500  # values in one SQL condition
_LOG = "the reflog of "
_LONG = 16  # bytes of a line that are sought first; shorter ones stand everywhere
MESSAGE = "git mem: purge 1 memory"


class Target:
    """What is to go: the records of a memory, or the one line that no memory has.

    With neither: something purged before, which may not be finished; `id` is then its tombstone's,
    or "". `back`: the memories that are hidden by nothing but this one, each with whether it says
    nearly the same."""

    __slots__ = ("back", "id", "line", "records", "scope", "title")

    def __init__(
        self,
        id: str,
        title: str = "",
        scope: str = "",
        records: Iterable[Record] = (),
        line: bytes = b"",
    ) -> None:
        self.id = id
        self.title = title
        self.scope = scope
        self.records = list(records)
        self.line = line
        self.back: list[tuple[Found, bool]] = []

    @property
    def gone(self) -> bool:
        return not (self.records or self.line)

    @property
    def version(self) -> str:
        """What names the line, "" for a memory."""
        return record.version_of(self.line) if self.line else ""


class Report(erase.Erased):
    """What became of it. `tombstones`: versions of the records that keep it out. `remotes`: who may
    still have it.

    `cache`: "scrubbed", or "removed" where it had to be.
    """

    __slots__ = ("cache", "lines", "remotes", "tombstones")

    def __init__(self) -> None:
        super().__init__()
        self.lines = 0
        self.tombstones: list[str] = []
        self.remotes: list[str] = []
        self.cache = ""


def find(store: Store, prefix: str) -> Target:
    """The memory an id prefix names, whatever its state; else the suggestion; else what was purged
    under it; else the line whose version it names and that no memory has.

    Raises MemError where there is none of them, or several.
    """
    try:
        found = memories.find(store, prefix)
    except Ambiguous:
        raise
    except MemError:
        low = prefix.strip().lower()
        if len(low) < memories.SHORTEST or not is_hex(low):
            raise
        if apart := _apart(store, low):
            return apart
        purges = tombstones.purges(store)
        ids = {
            r.id
            for r in purges
            if r.id.startswith(low)
            or (not r.data.get("all") and any(v.startswith(low) for v in Tombstones([r]).versions))
        }
        if len(ids) == 1:
            return Target(ids.pop())
        lines = _lines_apart(store, low)
        if len(lines) > 1:
            raise Ambiguous(
                f"'{low}' is ambiguous: {', '.join(v[: len(low) + 4] for v in sorted(lines)[:5])}",
                hint="type more digits",
            ) from None
        for line, scope in lines.values():
            return Target("", scope=scope, line=line)
        # A short text's tombstone does not tell its id; but a purge that was cut off can be
        # finished.
        if purges and not tombstones.settled(store, Tombstones(purges)):
            return Target("")
        raise
    records = [*_lines_of(store, found.memory.id), *_merged_into(store, found.memory.id)]
    target = Target(found.memory.id, record.title_of(found.record.data), found.scope, records)
    target.back = _coming_back(store, records)
    return target


def purge(store: Store, target: Target, progress: Callable[[int], None] = lambda n: None) -> Report:
    """Takes a memory or a line out of this repository; with a target that was purged before,
    finishes that, and says in its `back` what came back by it.

    Raises what `Notes.replant` and `erase.erase` raise; the call can be repeated.
    """
    store.repo.git.largest = 0
    if target.gone:
        left: dict[str, Record] = {}
        report = _carry_through(store, target, False, progress, left)
        report.tombstones = [r.version for r in tombstones.purges(store) if target.id in ("", r.id)]
        target.back = _coming_back(
            store, [r for r in left.values() if target.id in ("", r.id)], hidden=False
        )
        return report
    capture_exclusions.close(store.repo.common_dir, target.records)
    settled = tombstones.settled(store, Tombstones(tombstones.purges(store)))
    tombstones.forget(store)
    (line,) = store.lines([tombstone(target, store.author)])
    # A private memory's tombstone stays private: it names its id.
    store.notes(target.scope).replant([(PURGED, line)], MESSAGE, store.identity)
    report = _carry_through(store, target, settled, progress)
    report.lines = len(target.records) or 1
    report.tombstones = [record.version_of(line)]
    if target.scope == "team":
        report.remotes = store.repo.git.text("remote").split()
    return report


def scrub(
    store: Store, sure: bool = False, progress: Callable[[int], None] = lambda n: None
) -> Report | None:
    """Brings this clone in line with every tombstone that it knows; None where there is nothing to
    do, found out without a search.

    `sure`: text that was purged has just been here, so search.
    """
    purges = tombstones.purges(store)
    if not purges or (not sure and tombstones.settled(store, Tombstones(purges))):
        return None
    return _carry_through(store, Target(""), False, progress)


def tombstone(target: Target, author: str) -> dict[str, Any]:
    """The record that keeps a memory or a line out.

    It names the id only where nobody can find the text from it by trying.
    """
    versions = sorted({r.version for r in target.records}) or [target.version]
    if _guessable(target.records):
        return record.envelope(
            "purge", {"id": os.urandom(16).hex(), "lines": versions}, "", {"author": author}
        )
    return record.envelope(
        "purge", {"id": target.id, "lines": versions, "all": True}, "", {"author": author}
    )


def _guessable(records: list[Record]) -> bool:
    creates = [r.data for r in records if r.op == "create"]
    for data in creates:
        text = f"{data.get('title') or ''}{data['body']}".encode("utf-8", "replace")
        if not data.get("salt") and len(text) < record.SALT_BELOW:
            return True
    return not creates  # whose text the id was made of is not known


# Doing it


def _lines_of(store: Store, id: str) -> list[Record]:
    """Every line of a memory that the cache or one of our refs has, or had."""
    found: dict[str, Record] = {}

    def take(lines: Iterable[bytes]) -> None:
        for line in lines:
            parsed = record.parse(line) if id.encode() in line else None
            if parsed and parsed.id == id and parsed.op != "purge":
                found[parsed.version] = parsed

    take(
        store.with_cache(
            lambda cache: [
                raw
                for (raw,) in cache.db.execute(
                    "SELECT raw FROM line WHERE memory = ?", (id.encode(),)
                )
            ]
        )[0]
    )
    # Only a tombstone without the id must know every version.
    deep = _guessable(list(found.values()))
    for notes in tombstones.ours(store).values():
        take(line for _, line in notes.lines(notes.tip(), deep=deep))
    return list(found.values())


def _coming_back(
    store: Store, records: list[Record], hidden: bool = True
) -> list[tuple[Found, bool]]:
    """The memories that only these records hide, as they will be, and whether each says nearly what
    the one that goes says, or said. `hidden` false: hid, before the tombstone was there.
    """
    doomed = {r.version for r in records}
    gone = {r.id for r in records}
    covered = sorted({v for r in records if r.op in record.COVER_OPS for v in r.after} - doomed)

    def read(cache: Cache) -> list[Found]:
        ids: set[str] = set()
        for at in range(0, len(covered), _PART):
            part = [
                bytes.fromhex(v) for v in covered[at : at + _PART] if is_hex(v) and len(v) % 2 == 0
            ]
            ids.update(
                i
                for (i,) in cache.db.execute(
                    "SELECT CAST(memory AS TEXT) FROM line WHERE version IN"
                    f" ({','.join('?' * len(part))})",
                    part,
                )
            )
        here = [
            i
            for i in sorted(ids - gone)
            if cache.db.execute(
                f"SELECT 1 FROM memory WHERE id = ? AND status {'<>' if hidden else '='} {ACTIVE}",
                (i,),
            ).fetchone()
        ]
        back = [memories.load(cache, i, doomed) for i in here]
        return [
            b
            for b in back
            if b.memory.status == fold.ACTIVE
            and (hidden or all(v.version in covered for v in b.memory.versions))
        ]

    found = store.with_cache(read)[0] if covered else []
    said = [str(r.data["body"]) for r in records if r.op in record.CONTENT_OPS]
    return [(f, any(_alike(body, str(f.record.data["body"])) for body in said)) for f in found]


def _alike(gone: str, back: str) -> bool:
    """Whether who wants one gone will hardly want the other to stay: it holds the text, or one says
    what the other says.
    """
    return (
        f" {similarity.normal(gone)} " in f" {similarity.normal(back)} "
        or similarity.repeats(gone, back)
        or similarity.repeats(back, gone)
    )


def _merged_into(store: Store, id: str) -> list[Record]:
    """The suggestions whose text went into a memory with another id, and what was decided about
    them.
    """
    rows = store.with_cache(
        lambda cache: cache.db.execute(
            f"SELECT raw FROM line WHERE op = 'verdict' AND scope & {PRIVATE}"
        ).fetchall()
    )[0]  # what a teammate's notes say takes nothing along
    others = {
        r.id
        for r in (record.parse(raw) for (raw,) in rows)
        if r and r.data.get("memory") == id and r.id != id
    }
    return [
        r for other in sorted(others) for r in _lines_of(store, other) if r.op in record.APART_OPS
    ]


def _apart(store: Store, prefix: str) -> Target | None:
    """The suggestion an id prefix names, which no memory was made of, with what was decided about
    it.
    """
    rows = store.with_cache(
        lambda cache: cache.db.execute("SELECT raw FROM line WHERE op = 'suggest'").fetchall()
    )[0]
    found = {
        r.id: r for r in (record.parse(raw) for (raw,) in rows) if r and r.id.startswith(prefix)
    }
    if len(found) > 1:
        raise Ambiguous(
            f"'{prefix}' is ambiguous:"
            f" {', '.join(i[: len(prefix) + 4] for i in sorted(found)[:5])}",
            hint="type more digits",
        )
    for id, r in found.items():
        return Target(id, record.title_of(r.data), "private", _lines_of(store, id))
    return None


def _lines_apart(store: Store, prefix: str) -> dict[str, tuple[bytes, str]]:
    """{version: (line, scope)} of the lines in our refs, or lost from them, that the prefix names
    and no memory has.
    """
    found: dict[str, tuple[bytes, str]] = {}
    for ref, notes in tombstones.ours(store).items():
        for _, line in notes.lines(notes.tip(), deep=True):
            version = record.version_of(line)
            if version.startswith(prefix) and version not in found:
                parsed = record.parse(line)
                if mortal(line, parsed) and not (parsed and parsed.op in record.MEMORY_OPS):
                    found[version] = line, "private" if ref == store.private.ref else "team"
    return found


def _carry_through(
    store: Store,
    target: Target,
    alone: bool,
    progress: Callable[[int], None],
    left: dict[str, Record] | None = None,
) -> Report:
    """Everything after the tombstone: refs, objects, cache, files.

    `alone`: all else that was purged is known to be gone, so search for the target. `left` takes
    the records that were found.
    """
    store.repo.git.largest = 0  # here no note is too large to be read
    report = Report()
    only = target.id if alone and all(r.id == target.id for r in target.records) else ""
    purges = tombstones.purges(store)
    stones = Tombstones(purges)
    tombstones.forget(store)
    gone = [*target.records, *cache_scrub.doomed_lines(store, stones)]
    with contextlib.suppress(MemError):  # of what another clone purged; the text goes in any case
        capture_exclusions.close(store.repo.common_dir, gone)
    report.cache = cache_scrub.cache(store, cache_scrub.needles(gone))
    ids = {only} if only else stones.ids | {r.id for r in gone}
    # Without the id, only the version tells a line; it may be one of any shape.
    others = not only and any(
        not r.data.get("all") and r.data.get("lines") is not None for r in purges
    )
    hints = [i.encode() for i in ids]
    if others:
        hints = [target.line] if alone and len(target.line) >= _LONG else []

    def doom(line: bytes) -> bool:
        if stones.doom(line):
            found = record.parse(line) if left is not None else None
            if found and left is not None:
                left[found.version] = found
            return True
        parsed = record.parse(line) if only and only.encode() in line else None
        return parsed is not None and parsed.id == only and parsed.op != "purge"

    try:
        done = erase.erase(
            store.repo, doom, hints, progress, lambda names: _let_go(store, names), others
        )
    except OSError as e:
        raise MemError(
            f"cannot delete from '{e.filename or store.repo.common_dir}': {e.strerror}",
            hint=(
                "the memory is hidden, its text is still in some objects; the same call goes on"
                " once the files can be written"
            ),
        ) from e
    for field in erase.Erased.__slots__:
        setattr(report, field, getattr(done, field))
    _drop_broken(store, done.deleted)
    names = {
        name.encode()
        for name in ids | done.ids | {r.version for r in gone} | {target.version}
        if name
    }
    given, held = automemory_dir.wipe(store, ids | done.ids, gone)
    report.files += given
    report.held += held
    report.files += cache_scrub.files(
        store.repo.mem_dir, [*names, *cache_scrub.needles(gone, target.line)], doom
    )
    if not report.held:
        tombstones.remember(store, stones)
    return report


def _let_go(store: Store, names: list[str]) -> bool:
    """Makes our own refs and reflogs let go of doomed objects; whether any did.

    Others' are left alone.
    """
    ours = tombstones.ours(store)
    own = {notes.ref for _, notes in store.sources}
    backups = {config.backup_of(ref): ref for ref in own}
    changed = False
    for name in names:
        if name in backups:
            changed = True
            ours[backups[name]].append([], MESSAGE, store.identity)  # that moves the backup, too
            continue
        ref = name.removeprefix(_LOG)
        if ref not in ours:
            continue
        changed = True
        if name in own:
            notes = ours[name]
            tip = notes.tip()
            doomed = [line for _, line in notes.lines(tip)]
            there = {r.version for r in notes.purges()}
            missing = [
                r
                for r in tombstones.purges(store)
                if r.version not in there and any(map(Tombstones([r]).doom, doomed))
            ]
            notes.replant([(PURGED, r.line) for r in missing], MESSAGE, store.identity)
        elif name == ref:
            # The remote is as it is; its next fetch brings what it has by then.
            reflock.delete(store.repo.git, ref)
        else:
            if ref in own:
                ours[ref].append(
                    [], MESSAGE, store.identity
                )  # what only the reflog knows of, less what is doomed
            History(store.repo.git, ref, store.repo.hex_len).drop_reflog()
    store.repo.git.close()
    return changed


def _drop_broken(store: Store, deleted: dict[str, str]) -> None:
    """A fetch that found the objects still here may have pointed its tracking ref to one
    meanwhile."""
    own = {notes.ref for _, notes in store.sources}
    for row in store.repo.git.text(
        "for-each-ref", "--format=%(objectname) %(refname)", "refs/notes/remotes/"
    ).splitlines():
        id, _, ref = row.partition(" ")
        if id in deleted and ref not in own:
            reflock.delete(store.repo.git, ref)
