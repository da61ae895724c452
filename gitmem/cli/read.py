"""Commands that read memories: recall, list, show."""

from contextlib import nullcontext
from typing import Any

from .. import render
from ..core.errors import MemError, UsageError
from ..embedding import reader
from ..memory import listing
from ..opening import chosen_vectors
from ..store import Store
from .common import json_lines, tell_elsewhere, write, write_json
from .options import Filters, argument, command, flag, number, only, text

_MANY = 4  # questions that make up for the time that `reader.pack` takes


@command("recall", pager=True, elsewhere="source", alias="search")
def recall_command(
    store: Store | None,
    as_json: bool,
    filters: Filters,
    query: list[str] = argument("QUERY...", "What you want to know, in your own words.", None),
    limit: int = number("-n -k --limit", "How many hits at most (default: mem.limit, 8)."),
    all: bool = flag("--all", "All branches count alike."),
    hot: bool = flag("--hot", "As a prompt's hook: take in at most 200 new memories now."),
    explain: bool = flag("--explain", "Show how each score came about."),
    all_hits: bool = flag("--all-hits", "Also the nearest hits where none fits (MISS)."),
    only: str = only("Only `memories`, or only `history`: commits."),
    batch: str = text("--batch FILE", 'Many: one {"_id","text"} object a line (`-`: stdin).'),
    source: str = text("--from URL", "Ask an organisation's index (`git mem index --to URL`)."),
) -> int:
    """Find memories by words and by meaning. Exit code 0: found, 1: nothing that fits."""
    question = " ".join(query or [])
    if not question.strip() and not batch:
        hint = "give the question, for example `git mem recall which database and why`"
        raise UsageError("nothing to look for", hint=hint)
    if batch and (question or explain or all_hits):
        raise UsageError("--batch goes without QUERY, --explain and --all-hits")
    if store is None:
        from . import organisation

        unlike = {"--all": all, "--hot": hot, "--explain": explain, "--batch": batch}
        organisation.refuse({**unlike, "--only history": only == "history"}, filters)
        answer = organisation.recall(source, question, filters, limit or 8)
        return _say(answer, as_json, explain, all_hits, any(filters))
    from ..memory import recall  # `list` does without it

    conditions = filters.conditions(store)
    how: dict[str, Any] = {"limit": limit or store.settings.number("limit"), "at": filters.at}
    how |= {"all_branches": all, "hot": hot, "only": only}
    model = nullcontext() if hot else chosen_vectors(store)
    if batch:
        questions = _questions(batch)
        encodes = store.settings.flag("encoder") and (hot or not store.settings.replaced)
        if encodes and len(questions) >= _MANY:
            reader.pack()
        with model as vectors:
            answers = recall.batch(store, questions, conditions, vectors=vectors, **how)
        for id, hits in answers:
            write_json({"_id": id, "hits": hits})
        return 0
    with model as vectors:
        answer = recall.recall(store, question, conditions, vectors=vectors, **how)
    status = _say(answer, as_json, explain, all_hits, any(filters))
    tell_elsewhere(store)
    return status


def _say(
    answer: dict[str, Any], as_json: bool, explain: bool, all_hits: bool, narrowed: bool
) -> int:
    """Prints an answer; returns the exit code."""
    if not as_json:
        render.hits(answer, explain, nearest=all_hits or explain, narrowed=narrowed)
    else:
        for hit in answer["hits"] if not explain else []:
            hit.pop("explain", None)
        write_json(answer)
    return 1 if answer["verdict"] == "MISS" else 0


def _questions(name: str) -> list[tuple[str, str]]:
    """(id, text) of each line of a batch file; all of them, or MemError."""
    questions = []
    for n, value in json_lines(name):
        if isinstance(value, str) or not {"_id", "text"}.issubset(value):
            hint = 'each line is an object like {"_id": "1", "text": "..."}'
            raise MemError(f"line {n} of '{name}' is no query", hint=hint)
        questions.append((str(value["_id"]), str(value["text"])))
    return questions


@command("list", pager=True)
def list_command(
    store: Store,
    as_json: bool,
    filters: Filters,
    limit: int = number("-n --limit", "How many at most (default all)."),
    all: bool = flag("--all", "Also memories of unmerged branches."),
    stale: bool = flag("--stale", "Only memories with a path that changed or went."),
    superseded: bool = flag("--include-superseded", "Also memories that were superseded."),
    forgotten: bool = flag("--forgotten", "Those that were forgotten, by whom, when and why."),
) -> int:
    """List memories, newest first."""
    if forgotten and (stale or superseded or filters.at):
        raise UsageError("--forgotten excludes --stale, --include-superseded and --at")
    conditions = filters.conditions(store, superseded)
    if forgotten:
        found = listing.list_forgotten(store, conditions, limit)
    else:
        found = listing.list_memories(
            store, conditions, limit=limit, all_branches=all, stale=stale, at=filters.at
        )
    if as_json:
        write_json(found.items)
    else:
        render.listing(found.items)
        if not found.items:
            narrowed = "" if conditions.empty else " pass this filter"
            kind = "forgotten " if forgotten else "stale " if stale else ""
            at = f" at {filters.at}" if filters.at else ""
            write(f"no {kind}memories{at}{narrowed}")
        render.left_out(_left_out(found))
    tell_elsewhere(store)
    return 0


def _left_out(found: listing.Listed) -> list[str]:
    """What else there is, each with the option that shows it."""
    counts = (
        (found.more, "more (-n, --json)"),
        (found.unmerged, "on unmerged branches (--all)"),
        (found.superseded, "superseded (--include-superseded)"),
    )
    return [f"{n} {what}" for n, what in counts if n]


@command("show", pager=True)
def show_command(
    store: Store,
    as_json: bool,
    ids: list[str] = argument("ID...", "Memories, by unique prefixes of their ids."),
) -> int:
    """Show memories whole, with their history; also commits, as git names them."""
    for i, id in enumerate(ids):
        item, history = listing.show_any(store, id)
        commit = item["kind"] == "commit"
        if as_json:
            write_json(item if commit else {**item, "history": history})
            continue
        if i:
            write()
        if commit:
            render.whole_commit(item)
        else:
            render.memory(item, history)
    return 0
