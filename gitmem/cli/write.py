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
    not_empty,
    opened,
    refused,
    text_from,
    warn,
    write,
    write_json,
)

_Message = typer.Option([], "-m", "--message", help="The text; several become paragraphs.")
_Type = typer.Option("", "--type", help=f"One of {', '.join(record.TYPES)}, or a word of your own.")
_Tag = typer.Option([], "--tag", "--tags", help="A tag; may be repeated.")
_Path = typer.Option(
    [],
    "--path",
    "--paths",
    help="A file, a directory or lines (FILE:10-20) the memory is about; may be repeated.",
)
_AllowSecret = typer.Option(
    False, "--allow-secret", help="Store it although it looks like it holds a secret."
)
_Json = typer.Option(False, "--json", help="Print JSON.")


@app.command("remember")
def remember_command(  # noqa: C901
    text: list[str] = typer.Argument(None, metavar="[TEXT]...", help="What to remember."),
    message: list[str] = _Message,
    stdin: bool = typer.Option(False, "--stdin", help="Read the text from standard input."),
    jsonl: str = typer.Option(
        "",
        "--jsonl",
        metavar="FILE",
        help="Store many: one JSON object a line (`-`: standard input).",
    ),
    title: str = typer.Option(
        "", "--title", help="A title; the first line of the text serves otherwise."
    ),
    type: str = _Type,
    tag: list[str] = _Tag,
    path: list[str] = _Path,
    commit: str = typer.Option(
        "",
        "--commit",
        metavar="REV",
        callback=not_empty,
        help="The commit it is about (default HEAD).",
    ),
    phase: str = typer.Option("", "--phase", help="A phase or milestone of the project."),
    provenance: str = typer.Option("", "--provenance", help="VERIFIED, CITED, ASSUMED or CACHED."),
    source: str = typer.Option(
        "", "--source", help="Where it comes from; a source seen before adds nothing."
    ),
    private: bool = typer.Option(
        False, "--private", help="Keep it in private notes, which git mem never pushes."
    ),
    team: bool = typer.Option(False, "--team", help="Store it in the shared notes."),
    allow_secret: bool = _AllowSecret,
    as_json: bool = _Json,
) -> int:
    """Store a memory, anchored to a commit."""
    if private and team:
        raise UsageError("--private and --team exclude each other")
    scope = "private" if private else "team" if team else ""
    with opened() as store:
        body = None if jsonl else text_from(" ".join(text) if text else None, message, stdin)
        given = {
            "body": body, "title": title, "type": type, "tags": tag, "paths": path,
            "commit": commit, "phase": phase, "source": source, "provenance": provenance,
        }  # fmt: skip
        words = write_gate.admit(store, given, allow_secret)
        if words != given:
            warn(f"note: {write_gate.LEFT_OUT}")
        if provenance and provenance.upper() not in record.PROVENANCE:
            known = ", ".join(record.PROVENANCE)
            raise UsageError(f"--provenance is one of {known}, not '{provenance}'")
        if jsonl:
            if text or message or stdin or title or path or source:
                raise UsageError("--jsonl takes text, title, path and source from the file")
            defaults = {k: v for k, v in {"scope": scope, **words}.items() if v}
            return _many(store, jsonl, defaults, allow_secret, as_json)
        if body is None:
            raise UsageError("nothing to remember", hint="give the text, -m TEXT or --stdin")
        paths = [store.repo.path_in_tree(p) for p in words["paths"]]
        draft = {**words, "scope": scope, "paths": paths, **remember.session_facts(os.environ)}
        result = remember.remember(store, [draft], allow_secret=allow_secret)[0]
        if result.status == remember.REFUSED:
            if as_json:
                write_json({"id": None, "status": result.status, "reason": result.reason})
            raise (UsageError if result.usage else Refused)(result.reason, hint=result.hint)
        if type and type.lower() not in record.TYPES:
            warn(
                f"note: '{type}' is none of the usual types ({', '.join(record.TYPES)}); stored as"
                " it is"
            )
        if result.status == remember.DUPLICATE and scope == "team" and result.scope == "private":
            warn(
                f"note: it is in your private notes; `git mem share {result.id[:8]}` gives it to"
                " the team"
            )
        elif result.status == remember.DUPLICATE and (tag or path or type or title):
            warn(f"note: nothing was changed; `git mem edit {result.id[:8]}` changes what is known")
        if as_json:
            write_json(
                {
                    "id": result.id,
                    "status": result.status,
                    "reason": result.reason,
                    "title": result.title,
                    "scope": result.scope,
                }
            )
        elif result.status == remember.DUPLICATE:
            write(f"known as {result.id[:8]} ({result.reason})")
        else:
            write(f"remembered {result.id[:8]} [{result.scope}] {result.title}")
        return 0


_BLOCK = 10_000  # drafts a commit: bounds memory, and a crash loses at most the last block


def _many(
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
        counts[result.status] += 1
        if as_json:
            write_json(
                {
                    "line": number,
                    "id": result.id or None,
                    "status": result.status,
                    "reason": result.reason,
                }
            )
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
        words["paths"] = [{"path": store.repo.path_in_tree(p)} for p in words["paths"]]
    return words


@app.command("edit")
def edit_command(
    id: str = typer.Argument(..., help="The memory, by a unique prefix of its id."),
    message: list[str] = _Message,
    stdin: bool = typer.Option(False, "--stdin", help="Read the new text from standard input."),
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
    allow_secret: bool = _AllowSecret,
    as_json: bool = _Json,
) -> int:
    """Change a memory; without options, in the editor."""
    with opened() as store:
        changes: dict[str, Any] = {
            k: v
            for k, v in (
                ("title", title),
                ("type", type),
                ("provenance", provenance),
                ("phase", phase),
            )
            if v is not None
        }
        if tag:
            changes["tags"] = [t for t in tag if t]
        if path:
            changes["paths"] = [p for p in path if p]
        if message or stdin:
            changes["body"] = text_from(None, message, stdin)
        if not changes:
            if not (sys.stdin.isatty() and sys.stdout.isatty()):
                raise UsageError("nothing to change", hint="give -m TEXT, --title, --type or --tag")
            changes["body"] = from_editor(str(memories.find(store, id).record.data["body"]))
        changes = _admitted(store, changes, allow_secret)
        found = memories.edit(store, id, changes, allow_secret=allow_secret)
        settled = [
            {
                "version": r.version,
                "title": record.clean(record.title_of(r.data)),
                "body": record.clean(r.data["body"]),
            }
            for r in found.settled
        ]
        if as_json:
            write_json(
                {
                    "id": found.memory.id,
                    "status": "edited",
                    "title": record.title_of(found.record.data),
                    **({"settled": settled} if settled else {}),
                }
            )
        else:
            write(f"edited {found.memory.id[:8]} {record.title_of(found.record.data)}")
        if settled:
            titles = ", ".join(f"'{r['title']}'" for r in settled)
            warn(
                f"note: settled: {1 + len(settled)} versions stood beside each other,"
                f" and this one takes the place of {titles}"
            )
        return 0


@app.command("supersede")
def supersede_command(
    id: str = typer.Argument(..., help="The memory that no longer holds."),
    text: str = typer.Argument(None, help="What holds instead."),
    message: list[str] = _Message,
    stdin: bool = typer.Option(False, "--stdin", help="Read the text from standard input."),
    title: str = typer.Option("", "--title", help="A title for the new memory."),
    type: str = _Type,
    tag: list[str] = _Tag,
    path: list[str] = _Path,
    allow_secret: bool = _AllowSecret,
    as_json: bool = _Json,
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
            write_json(
                {"id": new, "status": "stored", "supersedes": memories.find(store, id).memory.id}
            )
        else:
            write(f"remembered {new[:8]}, which supersedes {id[:8]}")
        return 0


@app.command("forget")
def forget_command(
    ids: list[str] = typer.Argument(
        ..., metavar="ID...", help="The memories, by unique prefixes of their ids."
    ),
    reason: str = typer.Option("", "--reason", help="Why, for whoever looks at it later."),
    allow_secret: bool = _AllowSecret,
    as_json: bool = _Json,
) -> int:
    """Hide memories, here and wherever the notes arrive.

    The text stays in the history of the notes.
    """
    from ..agents import automemory_export

    # Where an agent was given it as a file, that goes, too.
    return each(
        ids,
        lambda store, id: memories.forget(store, id, reason, allow_secret=allow_secret),
        "forgotten",
        "forgot",
        as_json,
        automemory_export.tend,
    )


@app.command("share")
def share_command(
    ids: list[str] = typer.Argument(
        ..., metavar="ID...", help="Private memories to give to the team."
    ),
    allow_secret: bool = _AllowSecret,
    as_json: bool = _Json,
) -> int:
    """Copy private memories into the shared notes."""
    return each(
        ids,
        lambda store, id: memories.share(store, id, allow_secret=allow_secret),
        "shared",
        "shared",
        as_json,
    )
