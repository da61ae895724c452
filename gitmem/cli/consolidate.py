"""`git mem consolidate`, and what `git mem review` does with proposals: which of two memories stays
is a person's word.
"""

from __future__ import annotations

from typing import Any

import typer

from .. import render
from ..core.errors import MemError
from ..memory import memories, proposals, verdicts
from ..memory.consolidate import SHARE, VERSIONS
from ..memory.proposals import Proposal
from ..store import Store
from . import app
from .common import from_editor, line, opened, write, write_json


@app.command("consolidate")
def consolidate_command(
    limit: int = typer.Option(20, "-n", "--limit", min=1, help="How many new proposals at most."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Look and print; propose nothing."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> int:
    """Look for memories that say the same, replace or contradict each other, and propose what to
    do. Exit code 1 where nothing was found.

    Nothing is merged: `git mem review` asks about each proposal. A pair that was rejected is not
    proposed again."""
    with opened() as store:
        with render.progress("comparing", None) as progress:
            found = proposals.look(store, most=limit, write=not dry_run, progress=progress)
        items = [*found.made, *found.before]
        if as_json:
            write_json(
                {
                    "found": [{"new": p in found.made, **proposals.public(p)} for p in items],
                    "proposed": 0 if dry_run else len(found.made),
                    "compared": found.compared,
                    "complete": found.whole,
                }
            )
        else:
            render.proposals([proposals.public(p) for p in items])
            _sum(found, dry_run)
        return 0 if items else 1


def _sum(found: proposals.Looked, dry_run: bool) -> None:
    new, before = len(found.made), len(found.before)
    if not found.whole:
        write(
            f"looked at {found.compared} memories so far; `git mem consolidate` goes on with the"
            " rest"
        )
    if not new and not before:
        write("found nothing that repeats, replaces or contradicts something else")
    elif dry_run:
        write(f"{new} new, {before} waiting already; nothing was written")
    else:
        write(f"{new} proposed now, {before} waited already: `git mem review` decides")


# --- for `git mem review` ---------------------------------------------------


def accept(
    store: Store, p: Proposal, keep: str, text: str, team: bool, allow_secret: bool
) -> dict[str, Any]:
    from ..agents import automemory_export

    accepted = verdicts.accept(store, p, keep, text, team=team, allow_secret=allow_secret)
    automemory_export.tend(
        store
    )  # where an agent was given a memory as a file that is no longer shown, that goes, too
    return done(store, accepted)


def done(store: Store, p: Proposal) -> dict[str, Any]:
    """What became of a proposal, as the answers of `git mem review` say it."""
    answer: dict[str, Any] = {
        "id": p.id,
        "status": p.state,
        "kind": p.kind,
        "memory": p.memory or None,
        "scope": None,
        "title": None,
        "reason": "",
    }
    if p.memory:
        stays = memories.find(store, p.memory)
        answer.update(scope=stays.scope, title=proposals.title(stays))
    return answer


def say(answer: dict[str, Any]) -> None:
    if answer["memory"]:
        write(
            f"{'shared' if answer['kind'] == SHARE else 'kept'} {answer['memory'][:8]}"
            f" [{answer['scope']}] {answer['title']}"
        )
    else:
        write(
            f"rejected {answer['id'][:8]}: all of it stays as it is, and it is not proposed again"
        )


def keys(p: Proposal) -> list[tuple[str, str]]:
    if p.kind not in proposals.PAIRS:
        return [
            (
                "a",
                {SHARE: "share it with the team", VERSIONS: "keep the first version"}.get(
                    p.kind, "name the new one instead"
                ),
            ),
            ("e", "edit"),
            ("r", "reject"),
            ("s", "skip"),
            ("q", "quit"),
        ]
    first = [("a", f"keep {p.ids.index(p.keep) + 1}")] if p.keep else []
    return [
        *first,
        ("1", "keep the first"),
        ("2", "keep the second"),
        ("e", "one text for both"),
        ("r", "keep both"),
        ("s", "skip"),
        ("q", "quit"),
    ]


def ask(store: Store, p: Proposal, key: str) -> bool:
    """Does what a key of `keys` says; False where nothing was decided."""
    if key == "r":
        say(done(store, verdicts.reject(store, p)))
        return True
    keep = p.ids[int(key) - 1] if key in ("1", "2") and p.kind in proposals.PAIRS else ""
    if key == "e":
        text = from_editor(initial(p))
        if not text.strip():
            raise MemError("the text is empty, so nothing was changed")
    elif key == "a" or keep:
        text = ""
    else:
        return False
    team = (
        p.team
        if p.kind not in proposals.PAIRS
        else any(f.scope == "team" for i, f in p.found.items() if text or i != (keep or p.keep))
    )
    if team and line(
        "this changes the team's notes, for everybody to see. Go on? [y/N] "
    ).strip().lower() not in ("y", "yes"):
        return False
    say(accept(store, p, keep, text, team, False))
    return True


def initial(p: Proposal) -> str:
    """Both texts, for the editor: the one that would stay first."""
    if p.kind == VERSIONS:
        return "\n\n".join(str(r.data["body"]) for r in p.found[p.ids[0]].memory.versions)
    if p.kind not in proposals.PAIRS:
        return str(p.found[p.ids[1 if p.kind == SHARE else 0]].record.data["body"])
    order = sorted(p.ids, key=lambda i: i != p.keep)
    return "\n\n".join(str(p.found[i].record.data["body"]) for i in order)
