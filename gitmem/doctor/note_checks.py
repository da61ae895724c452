"""Checks of the notes: refs, locks, every line, and what purges may have left."""

from collections import Counter
from collections.abc import Iterator

from ..core import record
from ..core.errors import GitFailed, MemError
from ..core.fold import Tombstones
from ..core.plural import many
from ..engine import index, unread
from ..erasure import purge, tombstones
from ..git import reflock
from ..notes import notetree, ref_repair
from ..signing import trust
from ..store import Store
from .finding import BAD, LISTED, OK, REPAIRS, WARN, Finding, Repair


def locks(store: Store) -> Iterator[Finding]:
    """Locks that stop every write to the refs of memories."""
    refs = [notes.ref for _, notes in store.sources]

    def remove() -> str:
        for ref in refs:
            reflock.recover(store.repo.git, ref)
        left = reflock.standing(store.repo.common_dir, refs)
        if left:
            raise MemError(f"'{left[0]}' may be the lock of another program")
        return "removed the lock that a dead writer left"

    for path in reflock.standing(store.repo.common_dir, refs):
        yield Finding(BAD, f"'{path}' stops every write", reflock.LEFT, remove)


def scope(store: Store, scope: str) -> tuple[list[Finding], Finding | None]:
    """(findings on the notes of a scope, the one that says that git cannot read them)."""
    ref = store.notes(scope).ref
    try:
        known, memories = index.known(store.repo.mem_dir, scope, ref)
        tip = store.notes(scope).tip(known)
        findings = list(_put_back(store, scope))
        if tip:
            findings += _lines(store, scope, tip)
        elif memories:
            gone = f"{scope}: '{ref}' is gone, and its commits are not here"
            text = f"{gone}; the cache still has {memories} of its memories"
            hint = "`git mem export` prints them, before the cache is lost, too"
            findings.append(Finding(BAD, text, hint))
        else:
            findings.append(Finding(OK, f"{scope}: no memories yet"))
    except GitFailed as e:
        return [], Finding(BAD, f"{scope}: {e.message}", e.hint, _mend(store, scope))
    return findings, None


def _put_back(store: Store, scope: str) -> Iterator[Finding]:
    """Says once that the ref was put back, by this reader or one before."""
    history = store.notes(scope).history
    commit, history.mended = history.mended[:12], ""
    if commit:
        yield Finding(
            WARN,
            f"{scope}: '{history.ref}' was gone or could not be read; it is at {commit} again",
            "something deleted it (`git fetch --prune`?), or a power cut emptied it; what came"
            f" after {commit} and can be read comes back with the next write; {REPAIRS}",
            _mend(store, scope),
        )


def _mend(store: Store, scope: str) -> Repair:
    """Puts together what of the ref can be read."""

    def mend() -> str:
        notes = store.notes(scope)
        before = notes.git.text("rev-parse", "-q", "--verify", notes.ref, ok=(0, 1, 128))
        ref_repair.mend(notes.git, notes.ref, asked=True)
        notes.git.close()  # it has read the ref as it was
        notes.settle("git mem: mend", store.identity)
        tip = notes.tip()
        if tip and (gone := ref_repair.missing(notes.git, tip)):
            raise MemError(
                f"{scope}: {many(len(gone), 'object')} of '{notes.ref}' cannot be read, the first"
                f" is {gone[0][:12]}; nothing was written"
            )
        if tip == before:
            return f"{scope}: the ref is whole; nothing was written"
        return f"{scope}: the ref is whole again, at {tip[:12] or 'nothing'}"

    return mend


def _tidy(store: Store, scope: str) -> Repair:
    """Gives each note one path, and puts lines back that another tool took out."""

    def tidy() -> str:
        notes = store.notes(scope)
        before = notes.tip()
        written = notes.tidy("git mem: tidy notes", store.identity)
        if notes.tip() == before:
            return f"{scope}: nothing was left to mend; nothing was written"
        return f"{scope}: each note has one path, {many(written.lines, 'line')} put back"

    return tidy


def _lines(store: Store, scope: str, tip: str) -> Iterator[Finding]:
    """Every line of a ref, read through git."""
    notes = store.notes(scope)
    ref = f"`git notes --ref={store.settings['ref']}/{scope}"
    lines: dict[bytes, str] = {}
    for key, line in notes.lines(tip, deep=True):
        lines.setdefault(line, key)
    kinds = {line: _kind(line) for line in lines}
    count = Counter(kinds.values())
    records = many(count["record"] + count["forged"], "record")
    keys = sum(1 for _ in notetree.all_notes(store.repo.git, tip))
    yield Finding(OK, f"{scope}: {records} in {many(keys, 'note')}")
    yield from _objects(store, scope, tip, ref)
    if broken := [line for line, kind in kinds.items() if kind == "broken"]:
        places = [f"{lines[b][:12]} (line {record.version_of(b)[:8]})" for b in broken[:LISTED]]
        yield Finding(
            WARN,
            f"{scope}: {many(len(broken), 'line')} that began as a record and cannot be read,"
            f" at {', '.join(places)}",
            f"they are kept; {ref} show COMMIT` prints them",
        )
    if count["newer"]:
        newer = f"{scope}: {many(count['newer'], 'record')} of a newer format kept, not shown"
        yield Finding(WARN, newer, "update git mem")
    if count["forged"]:
        forged = f"{scope}: {many(count['forged'], 'record')} without the id of the text"
        hint = "`git mem edit` makes a proper new version"
        yield Finding(WARN, f"{forged} (a note edited by hand?)", hint)
    if count["foreign"]:
        foreign = many(count["foreign"], "line")
        yield Finding(OK, f"{scope}: {foreign} of others kept, not shown")
    if lost := notes.lost_lines(deep=True):
        taken = f"{scope}: {many(lost, 'line')} taken out of the notes by another tool"
        hint = f"the next write puts them back; {REPAIRS}"
        yield Finding(WARN, f"{taken}; recall still finds them", hint, _tidy(store, scope))
    if secrets := trust.secrets(set(lines)):
        named = [f"{id[:8] or 'line ' + version[:8]} ({rule})" for version, id, _, rule in secrets]
        may = f"{scope}: {many(len(secrets), 'text')} that may hold a secret"
        hint = (
            "`git mem show` shows a memory; `git mem purge` takes a memory or a line out for good"
        )
        yield Finding(WARN, f"{may}: {', '.join(named[:LISTED])}", hint)


def _kind(line: bytes) -> str:
    """What a line of a note is."""
    parsed = record.parse(line)
    if parsed:
        forged = parsed.op == "create" and not record.id_holds(parsed.data)
        return "forged" if forged else "record"
    if record.newer(line):
        return "newer"
    return "broken" if line.startswith(b'{"') else "foreign"


def _objects(store: Store, scope: str, tip: str, ref: str) -> Iterator[Finding]:
    """Notes that could not be read when the lines were, and notes with two paths."""
    notes = store.notes(scope)
    for key, size in notes.unread.items():
        if size:
            most = unread.megabytes(store.repo.git.largest)
            yield Finding(
                WARN,
                f"{scope}: the note of {key} has {unread.megabytes(size)}, more than {most}:"
                " it is not read",
                f"its lines are kept, and shown to nobody; {ref} list {key[:12]}` names its object",
            )
    if gone := list(dict.fromkeys(notes.missing)):
        text = f"{scope}: {many(len(gone), 'note')} of the ref cannot be read"
        hint = "`git fsck` names what is missing; where a disk is away, that comes first"
        mend = _mend(store, scope)
        yield Finding(BAD, f"{text}, the first is {gone[0][:12]}", hint, mend)
    if doubled := len(notes.doubled(tip)):
        text = f"{scope}: {many(doubled, 'commit')} annotated twice, under two paths of the tree"
        hint = f"nothing is lost: git mem reads both; {REPAIRS}"
        yield Finding(WARN, f"{text} (mixed fan-out)", hint, _tidy(store, scope))


def purged(store: Store) -> Iterator[Finding]:
    """What a call that was killed, a fetch or stock git may have left of purged text."""

    def finish() -> str:
        done = purge.scrub(store, sure=True)
        if done and done.held:
            raise MemError(f"purged text is still here: {', '.join(done.held)} leads to it")
        return f"deleted {len(done.deleted) if done else 0} objects that held purged text"

    if not tombstones.settled(store, Tombstones(tombstones.purges(store)), note=False):
        text = "text that was purged may still be in objects here"
        yield Finding(WARN, text, "`git mem sync` looks, and takes it out", finish)
