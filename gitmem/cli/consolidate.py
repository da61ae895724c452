"""The command that proposes what to do with memories that repeat or contradict each other."""

from collections.abc import Iterator

import typer

from .. import render
from ..memory import proposals
from ..store import Store
from .options import Answer, command, flag


@command("consolidate")
def consolidate_command(
    store: Store,
    limit: int = typer.Option(20, "-n", "--limit", min=1, help="How many new proposals at most."),
    dry_run: bool = flag("--dry-run", "Look and print; propose nothing."),
) -> Answer:
    """Look for memories that say the same, replace or contradict each other, and propose what to
    do. Exit code 1 where nothing was found.

    Nothing is merged: `git mem review` asks about each proposal. A pair that was rejected is not
    proposed again."""
    with render.progress("comparing", None) as progress:
        found = proposals.look(store, most=limit, write=not dry_run, progress=progress)
    items = [*found.made, *found.before]
    facts = {
        "found": [{"new": p in found.made, **proposals.public(p)} for p in items],
        "proposed": 0 if dry_run else len(found.made),
        "compared": found.compared,
        "complete": found.whole,
    }
    return Answer(facts, _text(found, dry_run), 0 if items else 1)


def _text(found: proposals.Looked, dry_run: bool) -> Iterator[str]:
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
