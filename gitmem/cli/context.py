"""`git mem context`: what a session is told at its start, for eyes and for other programs."""

from __future__ import annotations

import os
import sys

import typer

from ..agents import context, context_render, head_facts
from ..anchors import anchor_state, anchor_state_update, path_state, snapshot_view
from ..core import fastjson
from ..core.errors import UsageError
from ..engine.cache import Cache
from ..engine.filters import Filter
from ..git import discover
from . import app
from .common import opened, warn, write, write_json
from .options import flag, text


@app.command("context")
def context_command(
    *,
    budget: int = typer.Option(
        None,
        "--budget",
        min=1,
        metavar="TOKENS",
        help="About how many tokens; default: mem.contextBudget, or by the project.",
        show_default=False,
    ),
    format: str = text("--format", help="xml, md or json; default: md on a terminal, else xml."),
    agent_view: bool = flag(
        "--agent-view", help="Exactly what an agent is told when a session starts."
    ),
    at: str = text(
        "--at",
        "--as-of",
        metavar="REV",
        filled=True,
        help="What it would have been told at this revision, as far as git can tell.",
    ),
    as_json: bool = flag("--json", help="The same as --format json."),
) -> int:
    """Show what an agent is told when a session starts: blockers, decisions, what has to do with
    the work at hand.
    """
    chosen = (
        "json" if as_json else format or ("md" if sys.stdout.isatty() and not agent_view else "xml")
    )
    if chosen not in context_render.FORMATS:
        raise UsageError(f"--format is one of {', '.join(context_render.FORMATS)}, not '{format}'")
    if agent_view and (chosen != "xml" or budget is not None or at):
        raise UsageError(
            "--agent-view is the XML that hooks give now, with the budget they use",
            hint="leave out --format, --budget and --at",
        )
    with opened() as store:
        place = discover.find(os.getcwd(), os.environ) or discover.of(store.repo, os.environ)
        if store.repo.head() and not at:
            store.with_cache(lambda cache: None)  # there may be none yet
            anchor_state_update.update(store, anchor_state.ON_THE_SPOT)
            head_facts.learn(store)

        def build(cache: Cache) -> context_render.Block:
            if not at:
                return context.build(
                    cache, place, budget=budget, purpose="start" if agent_view else "cli"
                )
            with snapshot_view.opened(store, cache, at) as past:
                if past.reason:
                    warn(f"warning: {past.reason}")
                place.head, place.branch = (
                    past.head,
                    at if store.repo.commit(f"refs/heads/{at}") else "",
                )
                past.serve(
                    head_facts.key_of(past.head),
                    fastjson.dumps(head_facts.of(store.repo, past.head)),
                )
                return context.build(
                    past,
                    place,
                    budget=budget,
                    purpose="cli",
                    only=past.filter(Filter()),
                    aged=lambda cache, rows, head: {
                        row: dict(enumerate(found))
                        for row, found in path_state.of_rows(store.repo, cache, rows, head).items()
                    },
                )

        found = store.with_cache(build)[0]
    if chosen == "json":
        write_json(found.value())
    else:
        for line in found.render(chosen).removesuffix("\n").split("\n"):
            write(line)
    return 0 if found.items else 1
