"""Commands that read memories: recall, list, show."""

from __future__ import annotations

import json
from contextlib import nullcontext

import typer

from .. import render
from ..core.errors import MemError, UsageError
from ..engine.filters import Filter
from ..memory import listing, recall
from ..store import Store
from . import app
from .common import chosen_vectors, not_empty, opened, when, write, write_json

_Json = typer.Option(False, "--json", help="Print JSON.")
_Type = typer.Option([], "--type", help="Only this type; may be repeated.")
_Tag = typer.Option(
    [], "--tag", "--tags", help="Only with this tag; may be repeated (any of them)."
)
_Path = typer.Option(
    [], "--path", "--paths", help="Only about this file or directory; may be repeated."
)
_Phase = typer.Option("", "--phase", help="Only of this phase.")
_Since = typer.Option(
    "", "--since", "--after", callback=not_empty, help="Only newer, as for `git log`."
)
_Until = typer.Option(
    "", "--until", "--before", callback=not_empty, help="Only older, as for `git log`."
)
_Author = typer.Option(
    "", "--author", help="Only by an author whose name or address contains this."
)
_At = typer.Option(
    "",
    "--at",
    "--as-of",
    metavar="REV",
    callback=not_empty,
    help=(
        "As of this revision: what was known there, with text, status and paths of then as far as"
        " git can tell."
    ),
)
_Scope = typer.Option("", "--scope", help="Only `team` or `private`.")


def _filter(
    store: Store,
    type: list[str],
    tag: list[str],
    path: list[str],
    phase: str,
    since: str,
    until: str,
    author: str,
    scope: str,
    superseded: bool = False,
) -> Filter:
    if scope not in ("", "team", "private"):
        raise UsageError(f"--scope is team or private, not '{scope}'")
    return Filter(
        types=type,
        tags=tag,
        paths=[p.rstrip("/") for p in map(store.repo.path_in_tree, path) if p != "."],
        phase=phase,
        since=when(store, since, "--since"),
        until=when(store, until, "--until"),
        author=author,
        scope=scope,
        superseded=superseded,
    )


@app.command("recall")
def recall_command(
    query: list[str] = typer.Argument(
        None, metavar="QUERY...", help="What you want to know, in your own words."
    ),
    limit: int = typer.Option(
        None,
        "-n",
        "-k",
        "--limit",
        min=1,
        help="How many hits at most (default 8, or mem.limit).",
        show_default=False,
    ),
    type: list[str] = _Type,
    tag: list[str] = _Tag,
    path: list[str] = _Path,
    phase: str = _Phase,
    since: str = _Since,
    until: str = _Until,
    author: str = _Author,
    scope: str = _Scope,
    at: str = _At,
    all: bool = typer.Option(False, "--all", help="All branches count alike."),
    hot: bool = typer.Option(
        False,
        "--hot",
        help=(
            "Take in at most 200 new memories before answering; more are indexed in the background."
        ),
    ),
    explain: bool = typer.Option(False, "--explain", help="Show how each score came about."),
    all_hits: bool = typer.Option(
        False, "--all-hits", help="Also the nearest hits of an answer that none fits (MISS)."
    ),
    batch: str = typer.Option(
        "",
        "--batch",
        metavar="FILE",
        help='Answer many: one {"_id","text"} object a line (`-`: standard input).',
    ),
    as_json: bool = _Json,
) -> int:
    """Find memories by words and by meaning. Exit code 0: found, 1: nothing that fits."""
    with opened() as store:
        most = limit or store.settings.number("limit")
        wanted = _filter(store, type, tag, path, phase, since, until, author, scope)
        if batch:
            with chosen_vectors(store) as vectors:
                answers = recall.batch(
                    store,
                    _queries(batch),
                    wanted,
                    limit=most,
                    at=at,
                    all_branches=all,
                    vectors=vectors,
                )
            for id, found in answers:
                write_json({"_id": id, "hits": found})
            return 0
        text = " ".join(query or [])
        if not text.strip():
            raise UsageError(
                "nothing to look for",
                hint="give the question, for example `git mem recall which database and why`",
            )
        with nullcontext() if hot else chosen_vectors(store) as vectors:
            answer = recall.recall(
                store, text, wanted, limit=most, at=at, all_branches=all, hot=hot, vectors=vectors
            )
        if as_json:
            if not explain:
                for hit in answer["hits"]:
                    del hit["explain"]
            write_json(answer)
        else:
            render.hits(
                answer,
                explain,
                nearest=all_hits or explain,
                narrowed=bool(
                    type or tag or path or phase or since or until or author or scope or at
                ),
            )
        return 1 if answer["verdict"] == "MISS" else 0


app.command("search", hidden=True, help="The same as recall.")(recall_command)


def _queries(name: str) -> list[tuple[str, str]]:
    """(id, text) of a batch file.

    Raises MemError at the first line that is none: a benchmark must not lose questions.
    """
    from .common import read_file

    out = []
    for number, line in enumerate(read_file(name).split("\n"), 1):
        if line.strip():
            try:
                value = json.loads(line)
                out.append((str(value["_id"]), str(value["text"])))
            except (ValueError, KeyError, TypeError, RecursionError) as e:
                raise MemError(
                    f"line {number} of '{name}' is no query",
                    hint='each line is an object like {"_id": "1", "text": "..."}',
                ) from e
    return out


@app.command("list")
def list_command(
    limit: int = typer.Option(
        None,
        "-n",
        "--limit",
        min=1,
        help="How many at most (default 50 on a terminal, all otherwise).",
        show_default=False,
    ),
    all: bool = typer.Option(False, "--all", help="Also memories of unmerged branches."),
    stale: bool = typer.Option(
        False, "--stale", help="Only memories with a path that changed or went."
    ),
    superseded: bool = typer.Option(
        False, "--include-superseded", help="Also memories that were superseded."
    ),
    type: list[str] = _Type,
    tag: list[str] = _Tag,
    path: list[str] = _Path,
    phase: str = _Phase,
    since: str = _Since,
    until: str = _Until,
    author: str = _Author,
    scope: str = _Scope,
    at: str = _At,
    as_json: bool = _Json,
) -> int:
    """List memories, newest first."""
    with opened() as store:
        wanted = _filter(store, type, tag, path, phase, since, until, author, scope, superseded)
        most = limit or (50 if render.is_terminal() and not as_json and not all else None)
        items, more = listing.list_memories(
            store, wanted, limit=most, all_branches=all, stale=stale, at=at
        )
        if as_json:
            write_json(items)
        else:
            render.listing(items, more)
            if not items:
                write(
                    "no memories"
                    + ("" if wanted.empty else " pass this filter")
                    + ("" if all else "; --all also looks on branches that are not merged")
                )
        return 0


@app.command("show")
def show_command(
    ids: list[str] = typer.Argument(
        ..., metavar="ID...", help="Memories, by unique prefixes of their ids."
    ),
    as_json: bool = _Json,
) -> int:
    """Show memories whole, with their history."""
    with opened() as store:
        for i, id in enumerate(ids):
            item, history = listing.show(store, id)
            if as_json:
                write_json({**item, "history": history})
            else:
                if i:
                    write()
                render.memory(item, history)
    return 0
