"""Commands that write memories: remember, edit, supersede, forget, restore, share, sign."""

import os
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, NamedTuple

from ..core import record
from ..core.errors import MemError, Refused, UsageError
from ..memory import commit_hits, memories, misnamed, remember, write_gate
from ..memory.memories import Change, Found
from ..store import Store
from . import common
from .common import refused, values, warn, write, write_json
from .options import (
    PATH,
    AllowSecret,
    Answer,
    Id,
    Ids,
    argument,
    change,
    command,
    flag,
    text,
    texts,
)

Message = Annotated[list[str], texts("-m --message TEXT", "The text; several become paragraphs.")]
_More = tuple[dict[str, Any], list[str]]  # what else is said of a memory, as JSON and as lines
_TYPE = f"One of {', '.join(record.TYPES)}, or a word of your own."
_PATHS = "A file, a directory or lines (FILE:10-20) it is about; repeatable."


class Draft(NamedTuple):
    """The options that say what a new memory holds."""

    message: Message
    stdin: Annotated[bool, flag("--stdin", "Read the text from standard input.")]
    title: Annotated[str, text("--title TEXT", "A title (default: the first line of the text).")]
    type: Annotated[str, text("--type", _TYPE)]
    tag: Annotated[list[str], texts("--tag --tags", "A tag; repeatable.")]
    path: Annotated[list[str], texts(PATH, _PATHS)]
    allow_secret: AllowSecret

    def text(self, store: Store, words: str | None) -> str | None:
        return common.text_from(store, words, self.message, self.stdin)

    def fields(self, body: str | None) -> dict[str, Any]:
        named = {"title": self.title, "type": self.type, "tags": self.tag, "paths": self.path}
        return {"body": body, **named}


@command("remember")
def remember_command(
    draft: Draft,
    as_json: bool,
    words: list[str] = argument("[TEXT]...", "What to remember.", None),
    jsonl: str = text("--jsonl FILE", "Store many: one JSON object a line (`-`: standard input)."),
    commit: str = text("--commit REV", "The commit it is about (default HEAD).", filled=True),
    phase: str = text("--phase", "A phase or milestone of the project."),
    provenance: str = text("--provenance", "VERIFIED, CITED, ASSUMED or CACHED."),
    source: str = text("--source", "Where it comes from; a source seen before adds nothing."),
    private: bool = flag("--private", "Keep it in private notes, which git mem never pushes."),
    team: bool = flag("--team", "Store it in the shared notes."),
) -> Answer | int:
    """Store a memory, anchored to a commit."""
    scope = common.scope_of(private, team)
    with common.opened() as store:
        body = None if jsonl else draft.text(store, " ".join(words) if words else None)
        given = {**draft.fields(body), "commit": commit, "phase": phase, "source": source}
        given["provenance"] = provenance
        fields = {**_admitted(store, given, draft.allow_secret), "scope": scope}
        if provenance and provenance.upper() not in record.PROVENANCE:
            known = ", ".join(record.PROVENANCE)
            raise UsageError(f"--provenance is one of {known}, not '{provenance}'")
        if jsonl:
            if words or draft.message or draft.stdin or draft.title or draft.path or source:
                raise UsageError("--jsonl takes text, title, path and source from the file")
            defaults = {name: value for name, value in fields.items() if value}
            return _store_lines(store, jsonl, defaults, draft.allow_secret, as_json)
        if body is None:
            raise UsageError("nothing to remember", hint="give the text, -m TEXT or --stdin")
        fields.update(remember.session_facts(os.environ))
        return _stored(store, fields, draft.allow_secret, named=any(draft[2:6]))


def _stored(
    store: Store, fields: dict[str, Any], allow_secret: bool = False, named: bool = False
) -> Answer:
    """Stores one memory and says so. `named`: whether title, type, tags or paths were given."""
    result = remember.remember(store, [fields], allow_secret=allow_secret)[0]
    if result.status == remember.REFUSED:
        error = (UsageError if result.usage else Refused)(result.reason, hint=result.hint)
        facts = {"id": None, "status": result.status, "reason": result.reason}
        return Answer(facts, error=error)
    line = f"remembered {result.id[:8]} [{result.scope}] {result.title}"
    if result.status == remember.DUPLICATE:
        line = f"known as {result.id[:8]} ({result.reason})"
        _say_what_else(store, result, fields.get("scope", ""), named)
    return Answer(values(result, "id", "status", "reason", "title", "scope"), [line])


@command("promote")
def promote_command(
    store: Store,
    as_json: bool,
    allow_secret: AllowSecret,
    commit: str = argument("COMMIT", "The commit, as git takes it."),
    type: str = text("--type", "As for `remember`. A terminal asks for it, and for tags."),
    tag: list[str] = texts("--tag --tags", "A tag; repeatable."),
    private: bool = flag("--private", "Keep it in private notes, which git mem never pushes."),
    team: bool = flag("--team", "Store it in the shared notes."),
) -> Answer:
    """Make a commit's message a memory about its files, which the team keeps."""
    fields = commit_hits.draft(store, commit)
    if not type and common.interactive() and not as_json:
        type = common.asked("type", fields["type"] or "decision")
        tag = tag or common.asked("tags").replace(",", " ").split()
    for line in misnamed.notes(store, [], [type], "HEAD"):
        warn(f"note: {line}")
    given = {"type": type or fields["type"], "tags": tag, "scope": common.scope_of(private, team)}
    draft = {name: value for name, value in {**fields, **given}.items() if value}
    return _stored(store, draft, allow_secret, named=bool(type or tag))


def _say_what_else(store: Store, known: remember.Result, scope: str, named: bool) -> None:
    """Names the command that does what was asked with a memory that is stored already."""
    found = memories.find(store, known.id)
    if not found.counts:  # known by its source
        back = f"`git mem restore {found.short}` brings it back"
        warn(f"note: it is {found.memory.status}; {back}")
    elif scope == "team" and known.scope == "private":
        share = f"`git mem share {known.id[:8]}`"
        warn(f"note: it is in your private notes; {share} gives it to the team")
    elif named:
        warn(f"note: nothing was changed; `git mem edit {known.id[:8]}` changes what is known")


def _store_lines(
    store: Store, name: str, defaults: dict[str, Any], allow_secret: bool, as_json: bool
) -> int:
    """Stores every good line, names every bad one; `defaults` serve lines without a field."""
    forced = {"scope": defaults["scope"]} if "scope" in defaults else {}
    numbers: deque[int] = deque()
    counts: Counter[str] = Counter()

    def drafts() -> Iterator[dict[str, Any] | str]:
        for number, value in common.json_lines(name):
            numbers.append(number)
            yield {**defaults, **value, **forced} if isinstance(value, dict) else value

    total = common.count_lines(name)
    found = remember.remember_many(store, drafts(), total=total, allow_secret=allow_secret)
    for result in found:
        counts[result.status] += 1
        _say_line(numbers.popleft(), result, as_json)
    stored, known_before = counts[remember.STORED], counts[remember.DUPLICATE]
    if not as_json:
        write(f"{stored:,} stored, {known_before:,} known, {counts[remember.REFUSED]:,} refused")
    return 1 if counts[remember.REFUSED] else 0


def _say_line(number: int, result: remember.Result, as_json: bool) -> None:
    if as_json:
        write_json({"line": number, **values(result, "id", "status", "reason")})
    if result.status == remember.REFUSED:
        refused(f"line {number}: {result.reason}")
    elif result.status == remember.STORED and result.reason:
        warn(f"note: line {number}: {result.reason}")


def _admitted(store: Store, given: dict[str, Any], allow_secret: bool) -> dict[str, Any]:
    """The words of a command, past the gate as they were typed; then paths as the tree has them."""
    words = write_gate.admit(store, given, allow_secret)
    if words != given:
        warn(f"note: {write_gate.LEFT_OUT}")
    if "paths" in words:
        words["paths"] = [store.repo.path_in_tree(path) for path in words["paths"]]
    named = (words.get("paths") or [], [words.get("type") or ""])
    for line in misnamed.notes(store, *named, words.get("commit") or "HEAD"):
        warn(f"note: {line}")
    return words


@command("edit")
def edit_command(
    store: Store,
    id: Id,
    message: Message,
    allow_secret: AllowSecret,
    words: str = argument("[TEXT]", "The new text.", None),
    stdin: bool = flag("--stdin", "Read the text from standard input."),
    title: str = change("--title TEXT", "A new title ('' removes it)."),
    type: str = change("--type", "A new type."),
    tag: list[str] = change("--tag --tags", "The new tags, all of them ('' removes them)."),
    path: list[str] = change(PATH, "The new paths, all of them ('' removes them)."),
    provenance: str = change("--provenance", "VERIFIED, CITED, ASSUMED or CACHED."),
    phase: str = change("--phase", "A new phase."),
) -> Answer:
    """Change a memory; without a text or options, in the editor."""
    given = {
        "title": title, "type": type, "provenance": provenance, "phase": phase,
        "tags": [word for word in tag if word] if tag else None,
        "paths": [name for name in path if name] if path else None,
    }  # fmt: skip
    if words is not None or message or stdin:
        given["body"] = common.text_from(store, words, message, stdin)
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        if not common.interactive():
            raise UsageError("nothing to change", hint="`git mem edit -h` shows its options")
        changes["body"] = common.from_editor(
            store, str(memories.find(store, id).record.data["body"])
        )
    changes = _admitted(store, changes, allow_secret)
    found = memories.edit(store, id, changes, allow_secret=allow_secret)
    id, title = found.memory.id, record.title_of(found.record.data)
    facts = {"id": id, "status": "edited", "title": title}
    replaced = [(r, record.clean(record.title_of(r.data))) for r in found.settled]
    if not replaced:
        return Answer(facts, [f"edited {id[:8]} {title}"])
    titles = ", ".join(f"'{other}'" for _, other in replaced)
    warn(
        f"note: settled: {1 + len(replaced)} versions stood beside each other,"
        f" and this one takes the place of {titles}"
    )
    settled = [
        {"version": r.version, "title": other, "body": record.clean(r.data["body"])}
        for r, other in replaced
    ]
    return Answer({**facts, "settled": settled}, [f"edited {id[:8]} {title}"])


@command("supersede")
def supersede_command(
    store: Store,
    draft: Draft,
    as_json: bool,
    id: str = argument("ID", "The memory that no longer holds."),
    words: str = argument("[TEXT]", "What holds instead.", None),
) -> Answer:
    """Store a new memory in the place of an old one, which `show` still prints."""
    body = draft.text(store, words)
    if body is None:
        raise UsageError("nothing takes its place", hint="give the new text, -m TEXT or --stdin")
    fields = _admitted(store, draft.fields(body), draft.allow_secret)
    new = memories.supersede(store, id, fields, allow_secret=draft.allow_secret)
    old = memories.find(store, id).memory.id if as_json else id
    facts = {"id": new, "status": "stored", "supersedes": old}
    return Answer(facts, [f"remembered {new[:8]}, which supersedes {id[:8]}"])


@command("forget")
def forget_command(
    store: Store,
    ids: Ids,
    allow_secret: AllowSecret,
    as_json: bool,
    reason: str = text("--reason TEXT", "Why, for whoever looks at it later."),
) -> int:
    """Hide memories, here and wherever the notes arrive; `git mem restore` undoes it.

    The text stays in the history of the notes.
    """
    from ..agents import automemory_export

    def more(found: Found) -> _More:
        undo = f"git mem restore {found.short}"
        left = memories.left_superseded(store, found)
        for old in left:
            warn(
                f"note: '{_title(old)}', whose place it had taken, stays superseded;"
                f" `git mem restore {old.short}` brings it back"
            )
        facts = {"undo": undo, "left_superseded": [old.memory.id for old in left]}
        return {name: value for name, value in facts.items() if value}, [f"undo: {undo}"]

    forget = partial(memories.forgetting, reason=reason, allow_secret=allow_secret)
    failed = _each(store, ids, forget, "forgotten", as_json, more)
    automemory_export.tend(store)  # an agent's file of a forgotten memory goes, too
    return failed


@command("restore")
def restore_command(store: Store, ids: Ids, as_json: bool) -> int:
    """Bring back memories that were forgotten (`git mem list --forgotten` names them) or
    superseded; the newer one stays.

    What was purged is gone for good.
    """

    def more(found: Found) -> _More:
        now = memories.find(store, found.memory.id)
        if now.memory.superseded_by and not now.counts:
            by = ", ".join(other[:8] for other in now.memory.superseded_by)
            warn(f"note: {by} took its place, and `git mem restore {now.short}` undoes that, too")
        return {}, []

    return _each(store, ids, memories.restoring, "restored", as_json, more)


@command("share")
def share_command(
    store: Store,
    allow_secret: AllowSecret,
    as_json: bool,
    ids: list[str] = argument("ID...", "Private memories to give to the team."),
) -> int:
    """Copy private memories into the shared notes, earlier texts too."""
    share = partial(memories.sharing, allow_secret=allow_secret)
    return _each(store, ids, share, "shared", as_json)


@command("sign")
def sign_command(store: Store, ids: Ids, as_json: bool) -> int:
    """Vouch for memories: a new version with the same text, signed with your key.
    `mem.sign` signs new ones as they are stored.
    """
    return _each(store, ids, memories.signing, "signed", as_json)


def _each(
    store: Store,
    ids: list[str],
    plan: Callable[[Store, str], Change],
    status: str,
    as_json: bool,
    more: Callable[[Found], _More] = lambda found: ({}, []),
) -> int:
    """Changes each memory; one that is refused is named and does not stop the rest."""
    failed, verb = 0, "forgot" if status == "forgotten" else status
    for done in memories.each(store, ids, plan):
        if isinstance(done, MemError):
            refused(done.message, done.hint)
            failed = 1
            continue
        facts, lines = more(done)
        line = f"{verb} {done.short} {_title(done)}"
        Answer({"id": done.memory.id, "status": status, **facts}, [line, *lines]).print(as_json)
    return failed


def _title(found: Found) -> str:
    return record.title_of(found.record.data)
