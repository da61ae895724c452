"""Memories by their ids: find by a prefix, edit, supersede, forget, restore, share, sign.

Promise: each change is one appended record that names the versions it saw, so a concurrent change
elsewhere stays visible. What was superseded on a branch that HEAD has not can be changed at HEAD:
the record names the text that counts here, and takes nothing from that branch.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, NamedTuple

from ..anchors import anchor_state, patch_id, reinstate
from ..core import fold, record, record_content
from ..core.errors import Ambiguous, MemError, Refused, UsageError
from ..core.plural import many
from ..core.record_fields import CONTENT, FIELDS
from ..engine import memory_rows
from ..engine.cache import Cache
from ..engine.document import scope_name, versions_shown
from ..hooks import announce
from ..notes.notetree import is_hex
from ..store import Store
from . import pathnotes, write_gate
from .remember import branch_to_note

# What an edit keeps of the version it replaces beside the content.
_CARRIED = (
    *("commit", "branch", "patch", "base", "branch_patch"),
    *("agent", "session", "created", "supersedes"),
)
# What names objects and records in a line: hexadecimal digits of git and ours.
_IDS = ("id", "n", "salt", "commit", "after", "patch", "base", "branch_patch")
SHORTEST = 4  # characters of an id prefix


class Found:
    def __init__(self, memory: fold.Memory, scope: str) -> None:
        self.memory = memory
        self.short = memory.id[:8]
        self.scope = scope
        # It is active, or was superseded where HEAD is not (`reinstate`).
        self.counts = memory.status == fold.ACTIVE
        self.record = memory.versions[0]  # the version to show
        # The versions that a change names: those that nothing covers, and its last texts.
        self.seen = sorted({*memory.heads, *(r.version for r in memory.apart)})
        # The versions that stood beside it until the edit that this is the answer to.
        self.settled: list[record.Record] = []

    def refuse(self, hint: str) -> MemError:
        """Why a memory that does not count is not changed."""
        return MemError(f"memory '{self.short}' is {self.memory.status}", hint=hint)


class Change(NamedTuple):
    """A change of a memory that is not written yet. `data`: its record, signed as it is written;
    `beside`: (anchor, line) of lines that go along as they are.
    """

    found: Found
    scope: str
    data: dict[str, Any]
    beside: Sequence[tuple[str, bytes]] = ()


def full_id(cache: Cache, prefix: str) -> str:
    """The one id that starts with `prefix`. Raises MemError where none or several do."""
    # Another tool's record may have any id; typed whole it is found.
    if cache.db.execute("SELECT 1 FROM memory WHERE id = ?", (prefix,)).fetchone():
        return prefix
    given, prefix = prefix, prefix.strip().lower()
    if not is_prefix(prefix):
        hint = f"ids are shown by `git mem list`; {SHORTEST} digits are the least"
        raise MemError(f"'{given[:40]}' is no memory id", hint=hint)
    sql = "SELECT DISTINCT id FROM memory WHERE id >= ? AND id < ? LIMIT 5"
    ids = [id for (id,) in cache.db.execute(sql, (prefix, prefix + "g"))]
    if not ids:
        hint = "`git mem list --all` shows every memory; `git mem promote` makes a commit one"
        raise MemError(f"no memory '{prefix}'", hint=hint)
    if len(ids) > 1:
        raise ambiguous(prefix, ids)
    return str(ids[0])


def is_prefix(text: str) -> bool:
    """Whether a text in lower case may be the beginning of an id."""
    return len(text) >= SHORTEST and is_hex(text)


def ambiguous(prefix: str, ids: Iterable[str]) -> Ambiguous:
    named = ", ".join(id[: len(prefix) + 4] for id in sorted(ids)[:5])
    return Ambiguous(f"'{prefix}' is ambiguous: {named}", hint="type more digits")


def find(store: Store, prefix: str) -> Found:
    """The memory an id prefix names, forgotten ones included."""
    return store.with_cache(lambda cache: _at_head(store, cache, full_id(cache, prefix)))[0]


def find_many(store: Store, ids: Iterable[str]) -> dict[str, Found]:
    """The memories with these ids, each of which must be there."""
    names = set(ids)
    return store.with_cache(lambda cache: {id: _at_head(store, cache, id) for id in names})[0]


def _at_head(store: Store, cache: Cache, id: str) -> Found:
    found = load(cache, id)
    if found.memory.status == fold.SUPERSEDED:
        found.counts = reinstate.counts(store.repo, cache, id, store.repo.head())
    return found


def load_many(cache: Cache, ids: Iterable[str]) -> dict[str, Found]:
    """Those that are there, from an open cache, by the records alone: `counts` knows no HEAD."""
    sql = "SELECT 1 FROM memory WHERE id = ?"
    return {id: load(cache, id) for id in ids if cache.db.execute(sql, (id,)).fetchone()}


def load(cache: Cache, id: str, without: Container[str] = ()) -> Found:
    """One memory that is there, as if the records with versions in `without` were not."""
    lines = cache.db.execute("SELECT scope, raw FROM line WHERE memory = ?", (id.encode(),))
    own = [(r, scope) for scope, raw in lines.fetchall() if (r := record.parse(raw))]
    covers = cache.db.execute(
        "SELECT raw FROM line WHERE n IN (SELECT v.by FROM line l JOIN cover v"
        " ON v.version = l.version WHERE l.memory = ?)",
        (id.encode(),),
    )
    records = [r for r, _ in own] + [r for (raw,) in covers if (r := record.parse(raw))]
    scopes = {r.version: scope for r, scope in own if r.op in record.CONTENT_OPS}
    memory = fold.fold([r for r in records if r.version not in without])[id]
    memory.versions = versions_shown(memory, scopes)
    bits = 0
    for scope in scopes.values():
        bits |= scope
    return Found(memory, scope_name(bits))


def _admitted(store: Store, given: dict[str, Any], allow_secret: bool) -> dict[str, Any]:
    """The fields as given and their author, past the gate."""
    return write_gate.admit(store, {"author": store.settings.author, **given}, allow_secret)


def each(
    store: Store, prefixes: Iterable[str], plan: Callable[[Store, str], Change]
) -> list[Found | MemError]:
    """Changes many memories in one commit a scope. The answer says of each, in order, what it was
    before or why it is not changed; one that is refused does not stop the others.
    """
    answers: list[Found | MemError] = []
    planned: dict[str, tuple[int, Change]] = {}

    def write() -> None:
        for scope in ("team", "private"):
            some = [one for one in planned.values() if one[1].scope == scope]
            refusals = _refusals(store, [change for _, change in some])
            for (place, _), refusal in zip(some, refusals, strict=True):
                answers[place] = refusal or answers[place]
        planned.clear()

    for prefix in prefixes:
        try:
            change = plan(store, prefix)
            if change.found.memory.id in planned:  # named twice: it is not what it was
                write()
                change = plan(store, prefix)
        except MemError as e:
            answers.append(e)
        else:
            planned[change.found.memory.id] = len(answers), change
            answers.append(change.found)
    write()
    return answers


def _refusals(store: Store, changes: list[Change]) -> list[MemError | None]:
    """Writes changes of one scope; why each one was not written, None where it was."""
    try:
        if changes:
            _write(store, changes)
    except Refused as e:  # for the text of one of them
        if len(changes) == 1:
            return [e]
        return [_refusals(store, [change])[0] for change in changes]
    except MemError as e:
        return [e] * len(changes)
    return [None] * len(changes)


def edit(
    store: Store, prefix: str, changes: dict[str, Any], *, allow_secret: bool = False
) -> Found:
    """A new version with `changes` to the content; an empty value clears a field."""
    found = find(store, prefix)
    _write(store, [Change(found, found.scope, _edited(store, found, changes, allow_secret))])
    done = find(store, found.memory.id)
    done.settled = found.memory.versions[1:]
    return done


def _edited(
    store: Store, found: Found, changes: dict[str, Any], allow_secret: bool, same: bool = False
) -> dict[str, Any]:
    """The record of a new version; `same`: also of one that says what the old one says."""
    changes = _admitted(store, changes, allow_secret)
    if not found.counts:
        raise found.refuse("`git mem restore` brings it back")
    old = found.record.data
    merged = record_content.sound({k: old[k] for k in CONTENT if k in old and k != "supersedes"})
    merged.update({k: v for k, v in changes.items() if k != "author"})
    fields = write_gate.checked(store, changes, merged, allow_secret)
    if not same and all(fields.get(k) == old.get(k) for k in CONTENT if k != "supersedes"):
        raise MemError("nothing to change", hint="the memory already says that")
    head = store.repo.head()
    _note_paths(store, head, fields, old.get("paths"))
    carried = {k: old[k] for k in _CARRIED if k in old}
    carried.setdefault("created", old.get("at"))
    carried["head"] = head  # since when it says so: the anchor stays where it was
    fields["author"] = store.settings.author
    return record.edit(found.memory.id, fields, found.seen, **carried)


def _note_paths(store: Store, head: str, fields: dict[str, Any], old: Any = None) -> None:
    """Notes what the paths hold at HEAD; what is wrong with an `old` path stays as it was."""
    given = [dict(path) for path in fields.get("paths", [])]
    problems = pathnotes.note(store.repo, [(head, path) for path in fields.get("paths", [])])
    for i, problem in enumerate(problems):
        if problem and not (isinstance(old, list) and given[i] in old):
            raise UsageError(problem, hint="lines are FILE:10 or FILE:10-20, counted at HEAD")
        if problem:
            fields["paths"][i] = given[i]


def signing(store: Store, prefix: str) -> Change:
    """A new version that says the same, signed by whoever runs this."""
    if not store.settings.signing:
        hint = "`git config mem.sign true` signs with the key git signs commits with"
        raise MemError("signing is off", hint=hint)
    found = find(store, prefix)
    versions = len(found.memory.versions)
    if versions > 1:
        hint = "`git mem edit` makes one of them"
        raise MemError(f"memory '{found.short}' has {versions} versions", hint=hint)
    ((_, _, verdict),) = store.trust.check([(0, found.record.line)])
    if verdict.state == "good":
        raise MemError(f"memory '{found.short}' is signed already, by {verdict.signer}")
    return Change(found, found.scope, _edited(store, found, {}, False, same=True))


def supersede(
    store: Store,
    prefix: str,
    fields: dict[str, Any],
    *,
    scope: str = "",
    allow_secret: bool = False,
) -> str:
    """Stores a new memory in the place of an old one, in one line; returns the new id."""
    fields = _admitted(store, fields, allow_secret)
    found = find(store, prefix)
    if not found.counts:
        raise found.refuse("`git mem show` says what became of it")
    old = found.record.data
    inherited = record_content.sound(
        {f.name: old[f.name] for f in FIELDS if f.inherited and f.name in old}
    )
    head = store.repo.head()
    if "paths" in inherited:  # with what the files hold at HEAD
        inherited["paths"] = store.with_cache(
            lambda cache: pathnotes.inherited(store.repo, cache, {**old, **inherited}, head)
        )[0]
    given = {k: v for k, v in fields.items() if v}
    checked = write_gate.checked(store, fields, {**inherited, **given}, allow_secret)
    if all((checked.get(f) or "") == (old.get(f) or "") for f in ("title", "body")):
        raise Refused("the new text is the old one", hint="`git mem edit` changes the rest")
    _note_paths(store, head, checked)
    facts, _ = store.with_cache(
        lambda cache: patch_id.fields(store.repo, cache, [head] if head else []), refresh=False
    )
    data = record.create(
        checked,
        commit=head,
        branch=branch_to_note(store) if head else "",
        supersedes=[found.memory.id],
        after=found.seen,
        **facts.get(head, {}),
    )
    if data["id"] == found.memory.id:  # it was edited since: the edit would be gone
        raise Refused("the new text is its first one", hint="`git mem edit` brings that back")
    _append(store, scope or found.scope, data, "supersede")
    return str(data["id"])


def replace(
    store: Store, stay: Found, gone: Found, changes: dict[str, Any], *, allow_secret: bool = False
) -> None:
    """Lets one memory take the place of another in its scope, under its own id, in one line."""
    data = _edited(store, stay, changes, allow_secret, same=True)
    data["after"] = sorted({*data["after"], *gone.seen})
    before = memory_rows.words(stay.record.data.get("supersedes"))
    data["supersedes"] = sorted({*before, gone.memory.id})
    _append(store, stay.scope, data, "merge")


def forget(store: Store, prefix: str, reason: str = "") -> None:
    _write(store, [forgetting(store, prefix, reason)])


def forgetting(
    store: Store, prefix: str, reason: str = "", *, allow_secret: bool = False
) -> Change:
    """Hides a memory everywhere the record arrives; its text stays in the history."""
    said = _admitted(store, {"reason": reason}, allow_secret)
    found = find(store, prefix)
    if found.memory.status == fold.FORGOTTEN:
        raise MemError(f"memory '{found.short}' is already forgotten")
    said["reason"] = record.clean(said["reason"])[: record.MAX_TITLE]
    return _said(store, found, "forget", found.seen, said)


def _said(store: Store, found: Found, op: str, seen: list[str], said: dict[str, Any]) -> Change:
    """A record without a text about some versions of a memory."""
    commit, head = found.record.data.get("commit"), store.repo.head()
    data = record.about(op, found.memory.id, seen, commit=commit, head=head, **said)
    return Change(found, found.scope, data)


def left_superseded(store: Store, gone: Found) -> list[Found]:
    """The memories whose place a forgotten one alone had taken: nothing stands there now."""
    named = memory_rows.words(gone.record.data.get("supersedes"))
    known, _ = store.with_cache(lambda cache: load_many(cache, named))
    return [f for f in known.values() if f.memory.superseded_by == [gone.memory.id]]


def restore(store: Store, prefix: str) -> None:
    _write(store, [restoring(store, prefix)])


def restoring(store: Store, prefix: str) -> Change:
    """Takes back what hides a memory: forgets, or else what took its place. The memory is what it
    was before. A purge took the text away, and nothing brings that back.
    """
    found = find(store, prefix)
    if found.counts:
        raise MemError(f"memory '{found.short}' is not forgotten")
    hidden_by = [r.version for r in found.memory.hidden_by]
    return _said(store, found, "restore", hidden_by, _admitted(store, {}, False))


def share(store: Store, prefix: str, *, allow_secret: bool = False) -> None:
    _write(store, [sharing(store, prefix, allow_secret=allow_secret)])


def sharing(store: Store, prefix: str, *, allow_secret: bool = False) -> Change:
    """Gives a private memory to the team: its own lines, byte for byte, and who did it."""
    found = find(store, prefix)
    if found.scope == "team":
        raise MemError(f"memory '{found.short}' is the team's already")
    if not found.counts:  # what hides it is private: for the team it would hold
        raise found.refuse("`git mem show` says what became of it")
    write_gate.stored(store, {}, {"author": store.settings.author}, allow_secret)
    own = [r for r in found.memory.records if r.op in record.FOLD_OPS]
    for r in own:
        words = {k: v for k, v in r.data.items() if k not in _IDS}
        write_gate.stored(store, {}, words, allow_secret)
    said = record.about("share", found.memory.id, author=store.settings.author)
    items = [(record.anchor_of(r.data, store.repo.hex_len), r.line) for r in own]
    anchors = {anchor for anchor, _ in items} - {""}

    def moves(cache: Cache) -> list[tuple[str, bytes]]:
        """Where rewrites took these commits: a copy in the private notes says so to nobody else."""
        ways = anchor_state.moves(cache, anchors)
        steps = anchor_state.steps(cache, {commit for way in ways.values() for commit in way})
        return [(new, record.dump(record.move(old, new))) for old, new in steps]

    items += store.with_cache(moves)[0]
    return Change(found, "team", said, items)


def _write(store: Store, changes: Sequence[Change]) -> None:
    """Writes changes of one operation and one scope in one commit, beside their memories."""
    items = [item for change in changes for item in change.beside]
    lines = store.lines([change.data for change in changes])
    for change, line in zip(changes, lines, strict=True):
        items.append((record.anchor_of(change.found.record.data, store.repo.hex_len), line))
    op = changes[0].data["op"]
    store.append(changes[0].scope, items, f"git mem: {op} {many(len(changes), 'memory')}")
    if op == "forget":
        announce.decided(store.repo.mem_dir, [change.found.memory.id for change in changes])


def _append(store: Store, scope: str, data: dict[str, Any], verb: str) -> None:
    items = [(record.anchor_of(data, store.repo.hex_len), line) for line in store.lines([data])]
    store.append(scope, items, f"git mem: {verb} 1 memory")
