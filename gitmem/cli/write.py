"""Commands that write memories: remember, edit, supersede, forget, share."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import typer

from ..core import record
from ..core.errors import MemError, Refused, UsageError
from ..memory import memories, remember, write_gate
from ..store import Store
from . import app
from .common import (
    each,
    from_editor,
    opened,
    refused,
    scope_of,
    text_from,
    values,
    warn,
    write,
    write_json,
)
from .options import (
    AllowSecret,
    Id,
    Ids,
    Json,
    Message,
    Paths,
    Stdin,
    Tags,
    Type,
    flag,
    text,
)


@app.command("remember")
def remember_command(
    text: list[str] = typer.Argument(None, metavar="[TEXT]...", help="What to remember."),
    *,
    message: Message,
    stdin: Stdin,
    jsonl: str = text(
        "--jsonl", metavar="FILE", help="Store many: one JSON object a line (`-`: standard input)."
    ),
    title: str = text("--title", help="A title; the first line of the text serves otherwise."),
    type: Type,
    tag: Tags,
    path: Paths,
    commit: str = text(
        "--commit", metavar="REV", filled=True, help="The commit it is about (default HEAD)."
    ),
    phase: str = text("--phase", help="A phase or milestone of the project."),
    provenance: str = text("--provenance", help="VERIFIED, CITED, ASSUMED or CACHED."),
    source: str = text("--source", help="Where it comes from; a source seen before adds nothing."),
    private: bool = flag("--private", help="Keep it in private notes, which git mem never pushes."),
    team: bool = flag("--team", help="Store it in the shared notes."),
    allow_secret: AllowSecret,
    as_json: Json,
) -> int:
    """Store a memory, anchored to a commit."""
    scope = scope_of(private, team)
    with opened() as store:
        body = None if jsonl else text_from(" ".join(text) if text else None, message, stdin)
        given = {
            "body": body, "title": title, "type": type, "tags": tag, "paths": path,
            "commit": commit, "phase": phase, "source": source, "provenance": provenance,
        }  # fmt: skip
        draft = {**_admitted(store, given, allow_secret), "scope": scope}
        if provenance and provenance.upper() not in record.PROVENANCE:
            known = ", ".join(record.PROVENANCE)
            raise UsageError(f"--provenance is one of {known}, not '{provenance}'")
        if jsonl:
            if text or message or stdin or title or path or source:
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
    """`remember --jsonl`: every good line is stored, every bad one named.

    `defaults` serve lines that lack the field; a given scope wins.
    """
    from ..render import progress

    known = remember.Known(store)
    counts = {remember.STORED: 0, remember.DUPLICATE: 0, remember.REFUSED: 0}
    try:
        with progress("remembering", total=None) as advance:
            block: list[tuple[int, dict[str, Any] | str]] = []
            for numbered in _json_lines(name):
                block.append(numbered)
                if len(block) == _BLOCK:
                    _store_block(store, block, defaults, allow_secret, as_json, counts, known)
                    advance(len(block))
                    block = []
            _store_block(store, block, defaults, allow_secret, as_json, counts, known)
            advance(len(block))
        store.with_cache(lambda cache: None, ahead=known.ahead)
    finally:
        known.ahead.cancel()
    if not as_json:
        write(
            f"{counts['stored']} stored, {counts['duplicate']} known, {counts['refused']} refused"
        )
    return 1 if counts[remember.REFUSED] else 0


def _json_lines(name: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """(line number, object or what is wrong with the line); blank lines are skipped."""
    try:
        stream = sys.stdin.buffer if name == "-" else open(name, "rb")  # noqa: SIM115
    except OSError as e:
        raise MemError(f"cannot read '{name}': {e.strerror}") from e
    with stream:
        for number, raw in enumerate(stream, 1):
            if not raw.strip():
                continue
            if why := record.no_text(raw):
                yield number, why
                continue
            try:
                value = json.loads(raw.decode("utf-8-sig" if number == 1 else "utf-8"))
            except (ValueError, RecursionError) as e:
                yield number, f"is no JSON ({getattr(e, 'msg', 'too deep')})"
            else:
                yield number, value if isinstance(value, dict) else "is no JSON object"


def _store_block(
    store: Store,
    block: list[tuple[int, dict[str, Any] | str]],
    defaults: dict[str, Any],
    allow_secret: bool,
    as_json: bool,
    counts: dict[str, int],
    known: remember.Known,
) -> None:
    """Stores the objects of a block in one commit, and says what became of each line."""
    forced = {"scope": defaults["scope"]} if "scope" in defaults else {}
    drafts = [{**defaults, **value, **forced} for _, value in block if not isinstance(value, str)]
    results = iter(
        remember.remember(store, drafts, allow_secret=allow_secret, known=known) if drafts else []
    )
    for number, value in block:
        if isinstance(value, str):
            result = remember.Result(remember.REFUSED, reason=value)
        else:
            result = next(results)
        status, reason = result.status, result.reason
        counts[status] += 1
        if as_json:
            write_json({"line": number, **values(result, "id", "status", "reason")})
        if status == remember.REFUSED:
            refused(f"line {number}: {reason}")
        elif status == remember.STORED and reason:
            warn(f"note: line {number}: {reason}")


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
    id: Id,
    *,
    message: Message,
    stdin: bool = flag("--stdin", help="Read the new text from standard input."),
    title: str = typer.Option(None, "--title", help="A new title ('' removes it)."),
    type: str = typer.Option(None, "--type", help="A new type."),
    tag: list[str] = typer.Option(
        None, "--tag", "--tags", help="The new tags, all of them ('' removes them)."
    ),
    path: list[str] = typer.Option(
        None, "--path", "--paths", help="The new paths, all of them ('' removes them)."
    ),
    provenance: str = typer.Option(
        None, "--provenance", help="VERIFIED, CITED, ASSUMED or CACHED."
    ),
    phase: str = typer.Option(None, "--phase", help="A new phase."),
    allow_secret: AllowSecret,
    as_json: Json,
) -> int:
    """Change a memory; without options, in the editor."""
    with opened() as store:
        given = {
            "title": title, "type": type, "provenance": provenance, "phase": phase,
            "tags": [word for word in tag if word] if tag else None,
            "paths": [name for name in path if name] if path else None,
            "body": text_from(None, message, stdin) if message or stdin else None,
        }  # fmt: skip
        changes = {name: value for name, value in given.items() if value is not None}
        if not changes:
            if not (sys.stdin.isatty() and sys.stdout.isatty()):
                raise UsageError("nothing to change", hint="give -m TEXT, --title, --type or --tag")
            changes["body"] = from_editor(str(memories.find(store, id).record.data["body"]))
        changes = _admitted(store, changes, allow_secret)
        found = memories.edit(store, id, changes, allow_secret=allow_secret)
        new, replaced = found.record.data, [(r.version, r.data) for r in found.settled]
        if as_json:
            versions = [
                {
                    "version": version,
                    "title": record.clean(record.title_of(data)),
                    "body": record.clean(data["body"]),
                }
                for version, data in replaced
            ]
            said = {"id": found.memory.id, "status": "edited", "title": record.title_of(new)}
            write_json({**said, **({"settled": versions} if versions else {})})
        else:
            write(f"edited {found.memory.id[:8]} {record.title_of(new)}")
        if replaced:
            titles = [f"'{record.clean(record.title_of(data))}'" for _, data in replaced]
            warn(
                f"note: settled: {1 + len(replaced)} versions stood beside each other,"
                f" and this one takes the place of {', '.join(titles)}"
            )
        return 0


@app.command("supersede")
def supersede_command(
    id: str = typer.Argument(..., help="The memory that no longer holds."),
    text: str = typer.Argument(None, help="What holds instead."),
    *,
    message: Message,
    stdin: Stdin,
    title: str = text("--title", help="A title for the new memory."),
    type: Type,
    tag: Tags,
    path: Paths,
    allow_secret: AllowSecret,
    as_json: Json,
) -> int:
    """Store a new memory in the place of an old one; the old one stays readable with `show`."""
    with opened() as store:
        body = text_from(text, message, stdin)
        if body is None:
            raise UsageError(
                "nothing takes its place", hint="give the new text, -m TEXT or --stdin"
            )
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
    ids: Ids,
    *,
    reason: str = text("--reason", help="Why, for whoever looks at it later."),
    allow_secret: AllowSecret,
    as_json: Json,
) -> int:
    """Hide memories, here and wherever the notes arrive.

    The text stays in the history of the notes.
    """
    from ..agents import automemory_export

    def forget(store: Store, id: str) -> memories.Found:
        return memories.forget(store, id, reason, allow_secret=allow_secret)

    # A memory that an agent was given as a file goes from there, too.
    return each(ids, forget, "forgotten", "forgot", as_json, automemory_export.tend)


@app.command("share")
def share_command(
    ids: list[str] = typer.Argument(
        ..., metavar="ID...", help="Private memories to give to the team."
    ),
    *,
    allow_secret: AllowSecret,
    as_json: Json,
) -> int:
    """Copy private memories into the shared notes."""

    def share(store: Store, id: str) -> memories.Found:
        return memories.share(store, id, allow_secret=allow_secret)

    return each(ids, share, "shared", "shared", as_json)
