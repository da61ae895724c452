"""Commands about open decisions: consolidate makes proposals, review decides.
Proposals are about memories that repeat or contradict each other; review also decides about
suggestions of capture.

On a terminal review asks, one at a time (`review_terminal`); else it lists, or does what its
options say.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import typer

from .. import render
from ..capture import review, suggestions
from ..core.errors import Ambiguous, MemError, UsageError
from ..engine.cache import Cache
from ..memory import proposals, review_records
from ..memory.review_records import REJECTED, WAITING, AnyItem
from ..store import Store
from . import decide, review_terminal
from .common import interactive, opened, refused, write, write_json
from .decide import Decision, Item
from .options import AllowSecret, Answer, command, flag, number, text, texts

_Job = Callable[[Store, Item, Decision], Answer]


@command("review")
def review_command(
    as_json: bool,
    allow_secret: AllowSecret,
    listing: bool = flag("--list", "List what waits, also on a terminal."),
    accept: list[str] = texts(
        "--accept ID", "Make the suggestion a memory, do what the proposal says; repeatable."
    ),
    reject: list[str] = texts(
        "--reject ID", "Drop the suggestion, or the proposal, for good; repeatable."
    ),
    keep: str = text("--keep MEMORY", "With --accept of a proposal: the memory that stays."),
    edit: str = text(
        "--edit ID",
        "Accept it with another text (-m, or the editor), --title or --type; a proposal: with one"
        " text for both.",
    ),
    merge: tuple[str, str] = typer.Option(
        ("", ""), metavar="ID INTO", help="Add it to the memory INTO, or give INTO the text of -m."
    ),
    message: list[str] = texts(
        "-m --message TEXT", "For --edit or --merge; several become paragraphs."
    ),
    title: str = text("--title TEXT", "Title of the memory that --edit makes."),
    type: str = text("--type", "Type of the memory that --edit makes."),
    team: bool = flag(
        "--team",
        "Store what is accepted in the shared notes; let --merge, or a proposal, change the"
        " team's memories.",
    ),
    everything: bool = flag("--all", "Also those beyond each session's share (`mem.suggestions`)."),
    decided: bool = flag("--decided", "List also what was decided already."),
) -> int:
    """Decide about what capture was not sure of, and what `git mem consolidate` proposes.

    An accepted suggestion becomes a private memory, unless --team is given. Of the two memories of
    a proposal one stays and supersedes the other. Exit code 1 where nothing waits, or something was
    refused.
    """
    if not edit and (title or type or (message and not merge[0])):
        hint = "name the suggestion: --edit ID -m TEXT"
        raise UsageError("--title and --type go with --edit, -m also with --merge", hint=hint)
    if edit and merge[0]:
        hint = "do one after the other"
        raise UsageError("--edit and --merge both take the text of -m", hint=hint)
    if keep and len(accept) != 1:
        hint = "--accept PROPOSAL --keep MEMORY"
        raise UsageError("--keep names the memory that one proposal keeps", hint=hint)
    jobs: list[tuple[str, _Job]] = [(id, decide.accept) for id in accept]
    jobs += [(edit, decide.edit)] * bool(edit) + [(merge[0], decide.merge)] * bool(merge[0])
    body = "\n\n".join(message)
    given = Decision(body, title, type, keep, merge[1], team, allow_secret)
    with opened() as store:
        if jobs or reject:
            return _do(store, jobs, reject, given, as_json)
        if interactive() and not (listing or decided or as_json):
            return review_terminal.ask(store, everything)
        return _list(store, everything, decided, as_json)


def find_item(store: Store, prefix: str) -> Item:
    proposal = proposals.find(store, prefix)
    if proposal is None:
        return review.find(store, prefix)
    if store.with_cache(lambda cache: suggestions.stored(cache, prefix))[0]:
        why = f"'{prefix}' is ambiguous: a proposal and a suggestion begin so"
        raise Ambiguous(why, hint="type more digits")
    return proposal


def _do(
    store: Store, jobs: list[tuple[str, _Job]], reject: list[str], given: Decision, as_json: bool
) -> int:
    """Does one job after the other, then rejects; a refused one stops none."""
    answers: list[dict[str, Any]] = []

    def say(id: str, done: Answer | MemError) -> None:
        if isinstance(done, MemError):
            nothing = {"memory": None, "scope": None, "title": None}
            answers.append({"id": id, **nothing, "status": "refused", "reason": done.message})
            refused(done.message, done.hint)
        else:
            answers.append(done.value)
            if not as_json:
                done.print(as_json)

    stored = _accept_new(store, [id for id, job in jobs if job is decide.accept], given)
    for id, job in jobs:
        try:
            say(id, stored.pop(id) if id in stored else job(store, find_item(store, id), given))
        except UsageError:
            for other, _ in jobs:
                if other in stored:
                    say(other, stored.pop(other))
            if as_json and answers:
                write_json(answers)  # what was done before
            raise
        except MemError as e:
            say(id, e)
    for id, done in zip(reject, _reject(store, reject), strict=True):
        say(id, done)
    if as_json:
        write_json(answers)
    return 1 if any(answer["status"] == "refused" for answer in answers) else 0


def _accept_new(store: Store, ids: list[str], given: Decision) -> dict[str, Answer]:
    """{id as given: the answer} of the suggestions that were accepted together, with one commit;
    the others are left to be accepted, or refused, one by one.
    """
    if len(ids) < 2:
        return {}
    items: dict[str, suggestions.Suggestion] = {}
    for id in ids:
        with suppress(MemError):
            if isinstance(item := find_item(store, id), suggestions.Suggestion):
                items[id] = item
    try:
        done = decide.accept_new(store, items.values(), given)
    except MemError:
        return {}
    return {id: done.pop(item.id) for id, item in items.items() if item.id in done}


def _reject(store: Store, ids: list[str]) -> list[Answer | MemError]:
    """Rejects many, in one commit."""
    found: list[Item | MemError] = []
    decisions: dict[str, review_records.Decision] = {}
    for id in ids:
        try:
            item = find_item(store, id)
            if item.id in decisions:  # named twice: the second one is refused
                item.decide(REJECTED, "")
            decisions[item.id] = decide.rejection(item)
            found.append(item)
        except MemError as e:
            found.append(e)
    try:
        review_records.decide(store, [*decisions.values()])
    except MemError as e:
        return [one if isinstance(one, MemError) else e for one in found]
    return [one if isinstance(one, MemError) else decide.rejected(one) for one in found]


def _list(store: Store, everything: bool, decided: bool, as_json: bool) -> int:
    found = suggestions.waiting(store)
    shown = [s for s in found if everything or decided or not s.queued]
    more = len(found) - len(shown)
    about = proposals.waiting(store)
    if decided:
        shown += _decided(store, suggestions.stored)
        about += _decided(store, proposals.stored)
    if as_json:
        near = {s.id: review.near(store, s) for s in shown if s.state == WAITING}
        listed = [review.public(s, near.get(s.id, [])) for s in shown]
        write_json(listed + [proposals.public(p) for p in about])
    else:
        render.suggestions([review.public(s) for s in shown], more)
        render.proposals([proposals.public(p) for p in about])
        if not (found or shown or about):
            nothing = "nothing waits for a decision"
            write("nothing waits, nothing was decided" if decided else nothing)
    return 0 if shown or about else 1


def _decided(store: Store, stored: Callable[[Cache], dict[str, AnyItem]]) -> list[AnyItem]:
    items = [item for item in store.with_cache(stored)[0].values() if item.state != WAITING]
    return sorted(items, key=lambda item: item.text("at"), reverse=True)


@command("consolidate")
def consolidate_command(
    store: Store,
    limit: int = number("-n --limit", "How many new proposals at most (default 20)."),
    dry_run: bool = flag("--dry-run", "Look and print; propose nothing."),
) -> Answer:
    """Look for memories that say the same, replace or contradict each other, and propose what to
    do; `git mem review` asks about each.

    A rejected pair is not proposed again. Exit code 1 where nothing was found.
    """
    found = proposals.look(store, most=limit or 20, write=not dry_run)
    items = [*found.made, *found.before]
    facts = {
        "found": [{"new": p in found.made, **proposals.public(p)} for p in items],
        "proposed": 0 if dry_run else len(found.made),
        "compared": found.compared,
        "complete": found.whole,
    }
    return Answer(facts, _proposed(found, dry_run), 0 if items else 1)


def _proposed(found: proposals.Looked, dry_run: bool) -> Iterator[str]:
    new, before = len(found.made), len(found.before)
    render.proposals([proposals.public(p) for p in (*found.made, *found.before)])
    if not found.whole:
        so_far = f"looked at {found.compared} memories so far"
        yield f"{so_far}; `git mem consolidate` goes on with the rest"
    if not new and not before:
        yield "found nothing that repeats, replaces or contradicts something else"
    elif dry_run:
        yield f"{new} new, {before} waiting already; nothing was written"
    else:
        yield f"{new} proposed now, {before} waited already: `git mem review` decides"
