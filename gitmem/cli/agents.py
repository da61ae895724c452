"""Commands about what agents are told: context, hook, receipts."""

import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from ..agents import context, context_render, head_facts, hook, protocol, receipts
from ..anchors import anchor_state, anchor_state_update, path_state, snapshot_view
from ..core import fastjson, fold, record
from ..core.errors import UsageError
from ..engine.cache import Cache
from ..engine.filters import Filter
from ..git import discover
from ..memory import memories
from ..store import Store
from .common import opened, warn
from .options import Answer, At, argument, command, flag, number, one_of, text, wants_json


@command("context")
def context_command(
    at: At,
    budget: int = number("--budget TOKENS", "Default: mem.contextBudget, or by the project."),
    format: str = one_of(
        "--format " + "|".join(context_render.FORMATS), "Default: md on a terminal, else xml."
    ),
    agent_view: bool = flag("--agent-view", "Exactly as hooks give it now."),
    as_json: bool = flag("--json", "The same as --format json."),
) -> int:
    """Show what an agent is told when a session starts: blockers, decisions, what concerns the work
    at hand. Exit code 1: nothing.
    """
    chosen = format or ("md" if sys.stdout.isatty() and not agent_view else "xml")
    if wants_json(as_json, format):
        chosen = "json"
    if agent_view and (chosen != "xml" or budget is not None or at):
        view = "--agent-view is the XML that hooks give now, with the budget they use"
        raise UsageError(view, hint="leave out --format, --budget and --at")
    with opened() as store:
        place = discover.find(os.getcwd(), os.environ) or discover.of(store.repo, os.environ)
        if store.repo.head() and not at:
            store.with_cache(lambda cache: None)  # there may be none yet
            anchor_state_update.update(store, anchor_state.ON_THE_SPOT)
            head_facts.learn(store)

        def build(cache: Cache) -> context_render.Block:
            if at:
                return _then(store, cache, place, at, budget)
            purpose = "start" if agent_view else "cli"
            return context.build(cache, place, budget=budget, purpose=purpose)

        found = store.with_cache(build)[0]
    lines = found.render(chosen).removesuffix("\n").split("\n")
    return Answer(found.value(), lines, 0 if found.items else 1).print(chosen == "json")


def _then(
    store: Store, cache: Cache, place: discover.Here, at: str, budget: int | None
) -> context_render.Block:
    """What a session would have been told at the revision `at`."""

    def aged(cache: Cache, rows: Iterable[int], head: str) -> dict[int, dict[int, Any]]:
        states = path_state.of_rows(store.repo, cache, rows, head)
        return {row: dict(enumerate(found)) for row, found in states.items()}

    with snapshot_view.opened(store, cache, at) as past:
        if past.reason:
            warn(f"warning: {past.reason}")
        place.head = past.head
        place.branch = at if store.repo.commit(f"refs/heads/{at}") else ""
        facts = fastjson.dumps(head_facts.of(store.repo, past.head))
        past.serve(head_facts.key_of(past.head), facts)
        only = past.filter(Filter())
        return context.build(past, place, budget=budget, purpose="cli", only=only, aged=aged)


@command("hook", json=False)
def hook_command(
    event: str = argument(
        "EVENT", f"In the agent's own words or in Claude Code's: {', '.join(protocol.EVENTS)}.", ""
    ),
    agent: str = text("--agent", f"Who asks: {', '.join(protocol.AGENTS)} (default: claude)."),
) -> int:
    """Answer an agent's hook; `git mem install` enters it in the agent's settings.

    Reads the event as JSON from standard input, prints one JSON object or nothing, and always exits
    0, within a second. GIT_MEM_PATIENCE=N gives it N times the time.
    """
    hook.main([event, "--agent", agent or "claude"], os.environ)
    return 0  # a real call never comes here: `__main__`


@command("receipts")
def receipts_command(
    store: Store,
    session: str = text("--session ID", "Only this session (id or first digits), with memories."),
    limit: int = number("-n --limit", "How many at most (default 20)."),
) -> Answer:
    """Show which memories agents' sessions were given, at which state of the notes.

    What a session knew when it was forked, or resumed under another id, is not known here. Exit
    code 1 where there are none.
    """
    found = receipts.listed(store, session, limit or 20)
    return Answer(found, _receipts(store, found, session), 0 if found else 1)


def _receipts(store: Store, found: list[dict[str, Any]], session: str) -> Iterator[str]:
    states = {"open": "not ended", "waiting": "receipt not written yet"}
    for receipt in found:
        by = ", ".join(f"{len(ids)} by {route}" for route, ids in receipt["shown"].items())
        state = states.get(receipt["state"]) or f"ended: {receipt['end']}"
        head = f", HEAD {receipt['head'][:8]}" if receipt["head"] else ""
        used = f", {len(receipt['used'])} of use" if receipt["used"] else ""
        yield (
            f"{receipt['started'][:16].replace('T', ' ')}  {receipt['agent'] or 'agent'}"
            f" {receipt['session'][:8]}: {by or 'nothing new'}{used}{head} ({state})"
        )
        if session:
            yield from _memories(store, receipt)
    if not found:
        yield "no receipts yet; `git mem install` sets agents up"


def _memories(store: Store, receipt: dict[str, Any]) -> Iterator[str]:
    """The state of the notes that a session saw, and its memories, by title where still here."""
    shown = [(id, route) for route, ids in receipt["shown"].items() for id in ids]
    found = store.with_cache(lambda cache: memories.load_many(cache, [id for id, _ in shown]))[0]
    for ref, tip in receipt["tips"].items():
        yield f"  {ref} at {tip[:12]}"
    for id, route in shown:
        there = id in found and found[id].memory.status != fold.FORGOTTEN
        title = record.title_of(found[id].record.data) if there else "(no longer here)"
        files = receipt["used"].get(id, 0)
        touched = f", {files} of its files touched" if files else ""
        yield f"  {id[:8]}  {title}  [{route}{touched}]"
