"""Commands that write memories: remember, edit, supersede, forget, share, sign."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import typer

from ..core import record
from ..core.errors import MemError, Refused, UsageError
from ..memory import memories, remember, write_gate
from ..memory.memories import Found
from ..render import progress
from ..store import Store
from . import app, common, options
from .common import opened, refused, values, warn, write, write_json


@app.command("remember")
def remember_command(
    words: list[str] = options.argument("[TEXT]...", "What to remember.", None),
    *,
    message: options.Message,
    stdin: options.Stdin,
    jsonl: str = options.text(
        "--jsonl FILE", "Store many: one JSON object a line (`-`: standard input)."
    ),
    title: str = options.text("--title", "A title; the first line of the text serves otherwise."),
    type: options.Type,
    tag: options.Tags,
    path: options.Paths,
    commit: str = options.text(
        "--commit REV", "The commit it is about (default HEAD).", filled=True
    ),
    phase: str = options.text("--phase", "A phase or milestone of the project."),
    provenance: str = options.text("--provenance", "VERIFIED, CITED, ASSUMED or CACHED."),
    source: str = options.text(
        "--source", "Where it comes from; a source seen before adds nothing."
    ),
    private: bool = options.flag(
        "--private", "Keep it in private notes, which git mem never pushes."
    ),
    team: bool = options.flag("--team", "Store it in the shared notes."),
    allow_secret: options.AllowSecret,
    as_json: options.Json,
) -> int:
    """Store a memory, anchored to a commit."""
    scope = common.scope_of(private, team)
    with opened() as store:
        body = (
            None if jsonl else common.text_from(" ".join(words) if words else None, message, stdin)
        )
        given = {
            "body": body, "title": title, "type": type, "tags": tag, "paths": path,
            "commit": commit, "phase": phase, "source": source, "provenance": provenance,
        }  # fmt: skip
        draft = {**_admitted(store, given, allow_secret), "scope": scope}
        if provenance and provenance.upper() not in record.PROVENANCE:
            known = ", ".join(record.PROVENANCE)
            raise UsageError(f"--provenance is one of {known}, not '{provenance}'")
        if jsonl:
            if words or message or stdin or title or path or source:
                raise UsageError("--jsonl takes text, title, path and source from the file")
            defaults = {name: value for name, value in draft.items() if value}
            return _store_lines(store, jsonl, defaults, allow_secret, as_json)
        if body is None:
            raise UsageError("nothing to remember", hint="give the text, -m TEXT or --stdin")
        draft.update(remember.session_facts(os.environ))
        result = remember.remember(store, [draft], allow_secret=allow_secret)[0]
        if result.status == remember.REFUSED:
            if as_json:
                write_json({"id": None, "status": result.status, "reason": result.reason})
            raise (UsageError if result.usage else Refused)(result.reason, hint=result.hint)
        if type and type.lower() not in record.TYPES:
            known = ", ".join(record.TYPES)
            warn(f"note: '{type}' is none of the usual types ({known}); stored as it is")
        if result.status == remember.DUPLICATE:
            _say_what_else(result, scope, bool(tag or path or type or title))
        if as_json:
            write_json(values(result, "id", "status", "reason", "title", "scope"))
        elif result.status == remember.DUPLICATE:
            write(f"known as {result.id[:8]} ({result.reason})")
        else:
            write(f"remembered {result.id[:8]} [{result.scope}] {result.title}")
        return 0


def _say_what_else(known: remember.Result, scope: str, described: bool) -> None:
    """Names the command that does what was asked with a memory that is stored already."""
    if scope == "team" and known.scope == "private":
        share = f"`git mem share {known.id[:8]}`"
        warn(f"note: it is in your private notes; {share} gives it to the team")
    elif described:
        warn(f"note: nothing was changed; `git mem edit {known.id[:8]}` changes what is known")


_BLOCK = 10_000  # drafts a commit: bounds memory, and a crash loses at most the last block


def _store_lines(
    store: Store, name: str, defaults: dict[str, Any], allow_secret: bool, as_json: bool
) -> int:
    """Stores every good line, names every bad one; `defaults` serve lines without a field."""
    known = remember.Known(store)
    counts: Counter[str] = Counter()
    lines = common.json_lines(name)
    try:
        with progress("remembering", total=None) as advance:
            while block := list(islice(lines, _BLOCK)):
                for number, result in _store_block(store, block, defaults, allow_secret, known):
                    counts[result.status] += 1
                    _say_line(number, result, as_json)
                advance(len(block))
        store.with_cache(lambda cache: None, ahead=known.ahead)
    finally:
        known.ahead.cancel()
    stored, known_before = counts[remember.STORED], counts[remember.DUPLICATE]
    if not as_json:
        write(f"{stored} stored, {known_before} known, {counts[remember.REFUSED]} refused")
    return 1 if counts[remember.REFUSED] else 0


def _store_block(
    store: Store,
    block: list[common.JsonLine],
    defaults: dict[str, Any],
    allow_secret: bool,
    known: remember.Known,
) -> Iterator[tuple[int, remember.Result]]:
    """Stores the objects of a block in one commit; (number, result) of each line."""
    forced = {"scope": defaults["scope"]} if "scope" in defaults else {}
    drafts = [{**defaults, **value, **forced} for _, value in block if not isinstance(value, str)]
    results: list[remember.Result] = []
    if drafts:
        results = remember.remember(store, drafts, allow_secret=allow_secret, known=known)
    following = iter(results)
    for number, value in block:
        if isinstance(value, str):
            yield number, remember.Result(remember.REFUSED, reason=value)
        else:
            yield number, next(following)


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
    return words


@app.command("edit")
def edit_command(
    id: options.Id,
    *,
    message: options.Message,
    stdin: bool = options.flag("--stdin", "Read the new text from standard input."),
    title: str = typer.Option(None, help="A new title ('' removes it)."),
    type: str = typer.Option(None, help="A new type."),
    tag: list[str] = typer.Option(
        None, *options.TAG.split(), help="The new tags, all of them ('' removes them)."
    ),
    path: list[str] = typer.Option(
        None, *options.PATH.split(), help="The new paths, all of them ('' removes them)."
    ),
    provenance: str = typer.Option(None, help="VERIFIED, CITED, ASSUMED or CACHED."),
    phase: str = typer.Option(None, help="A new phase."),
    allow_secret: options.AllowSecret,
    as_json: options.Json,
) -> int:
    """Change a memory; without options, in the editor."""
    with opened() as store:
        given = {
            "title": title, "type": type, "provenance": provenance, "phase": phase,
            "tags": [word for word in tag if word] if tag else None,
            "paths": [name for name in path if name] if path else None,
            "body": common.text_from(None, message, stdin) if message or stdin else None,
        }  # fmt: skip
        changes = {name: value for name, value in given.items() if value is not None}
        if not changes:
            if not common.interactive():
                raise UsageError("nothing to change", hint="give -m TEXT, --title, --type or --tag")
            changes["body"] = common.from_editor(str(memories.find(store, id).record.data["body"]))
        changes = _admitted(store, changes, allow_secret)
        found = memories.edit(store, id, changes, allow_secret=allow_secret)
        id, title = found.memory.id, record.title_of(found.record.data)
        replaced = [
            {
                "version": r.version,
                "title": record.clean(record.title_of(r.data)),
                "body": record.clean(r.data["body"]),
            }
            for r in found.settled
        ]
        if as_json:
            settled = {"settled": replaced} if replaced else {}
            write_json({"id": id, "status": "edited", "title": title, **settled})
        else:
            write(f"edited {id[:8]} {title}")
        if replaced:
            titles = ", ".join(f"'{other['title']}'" for other in replaced)
            warn(
                f"note: settled: {1 + len(replaced)} versions stood beside each other,"
                f" and this one takes the place of {titles}"
            )
        return 0


@app.command("supersede")
def supersede_command(
    id: str = options.argument("", "The memory that no longer holds."),
    words: str = options.argument("[TEXT]", "What holds instead.", None),
    *,
    message: options.Message,
    stdin: options.Stdin,
    title: str = options.text("--title", "A title for the new memory."),
    type: options.Type,
    tag: options.Tags,
    path: options.Paths,
    allow_secret: options.AllowSecret,
    as_json: options.Json,
) -> int:
    """Store a new memory in the place of an old one; the old one stays readable with `show`."""
    with opened() as store:
        body = common.text_from(words, message, stdin)
        if body is None:
            hint = "give the new text, -m TEXT or --stdin"
            raise UsageError("nothing takes its place", hint=hint)
        given = {"body": body, "title": title, "type": type, "tags": tag, "paths": path}
        fields = _admitted(store, given, allow_secret)
        new = memories.supersede(store, id, fields, allow_secret=allow_secret)
        if as_json:
            old = memories.find(store, id).memory.id
            write_json({"id": new, "status": "stored", "supersedes": old})
        else:
            write(f"remembered {new[:8]}, which supersedes {id[:8]}")
        return 0


@app.command("forget")
def forget_command(
    ids: options.Ids,
    *,
    reason: str = options.text("--reason", "Why, for whoever looks at it later."),
    allow_secret: options.AllowSecret,
    as_json: options.Json,
) -> int:
    """Hide memories, here and wherever the notes arrive.

    The text stays in the history of the notes.
    """
    from ..agents import automemory_export

    def forget(store: Store, id: str) -> Found:
        return memories.forget(store, id, reason, allow_secret=allow_secret)

    # A memory that an agent was given as a file goes from there, too.
    return _each(ids, forget, "forgotten", "forgot", as_json, automemory_export.tend)


@app.command("share")
def share_command(
    ids: list[str] = options.argument("ID...", "Private memories to give to the team."),
    *,
    allow_secret: options.AllowSecret,
    as_json: options.Json,
) -> int:
    """Copy private memories into the shared notes."""

    def share(store: Store, id: str) -> Found:
        return memories.share(store, id, allow_secret=allow_secret)

    return _each(ids, share, "shared", "shared", as_json)


@app.command("sign")
def sign_command(ids: options.Ids, *, as_json: options.Json) -> int:
    """Vouch for memories: a new version with the same text, signed with your key."""
    return _each(ids, memories.sign, "signed", "signed", as_json)


def _each(
    ids: list[str],
    change: Callable[[Store, str], Found],
    status: str,
    verb: str,
    as_json: bool,
    after: Callable[[Store], object] | None = None,
) -> int:
    """Applies a change to each memory; one that is refused is named and does not stop the rest."""
    failed = 0
    with opened() as store:
        for id in ids:
            try:
                found = change(store, id)
            except MemError as e:
                refused(e.message, e.hint)
                failed = 1
                continue
            if as_json:
                write_json({"id": found.memory.id, "status": status})
            else:
                write(f"{verb} {found.memory.id[:8]} {record.title_of(found.record.data)}")
        if after:
            after(store)
    return failed
