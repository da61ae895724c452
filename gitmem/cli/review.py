"""The command with which a person decides about suggestions of capture and proposals about stored
memories.

On a terminal it asks, one at a time (`review_terminal`); else it lists, or does what its options
say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import typer

from .. import render
from ..capture import review, suggestions
from ..capture.review import Outcome
from ..capture.suggestions import Suggestion
from ..core.errors import Ambiguous, MemError, UsageError
from ..memory import proposals, verdicts
from ..memory.proposals import Proposal
from ..memory.review_records import WAITING
from ..store import Store
from . import app, consolidate, review_terminal
from .common import from_editor, opened, refused, write, write_json


@app.command("review")
def review_command(
    listing: bool = typer.Option(False, "--list", help="List what waits, also on a terminal."),
    accept: list[str] = typer.Option(
        [],
        "--accept",
        metavar="ID",
        help="Make a memory of this suggestion, or do what this proposal says; may be repeated.",
    ),
    reject: list[str] = typer.Option(
        [],
        "--reject",
        metavar="ID",
        help=(
            "Not worth keeping, or, of a proposal: all stays as it is. It does not come again; may"
            " be repeated."
        ),
    ),
    keep: str = typer.Option(
        "", "--keep", metavar="MEMORY", help="With --accept of a proposal: the memory that stays."
    ),
    edit: str = typer.Option(
        "",
        "--edit",
        metavar="ID",
        help=(
            "Accept it with another text (-m, or the editor), --title or --type; of a proposal, the"
            " one text of both."
        ),
    ),
    merge: tuple[str, str] = typer.Option(
        ("", ""),
        "--merge",
        metavar="ID INTO",
        help="Add it to the memory INTO, or give INTO the text of -m.",
    ),
    message: list[str] = typer.Option(
        [], "-m", "--message", help="The text for --edit or --merge; several become paragraphs."
    ),
    title: str = typer.Option("", "--title", help="Title of the memory that --edit makes."),
    type: str = typer.Option("", "--type", help="Type of the memory that --edit makes."),
    team: bool = typer.Option(
        False,
        "--team",
        help=(
            "Store what is accepted in the shared notes; let --merge, or a proposal, change the"
            " team's memories."
        ),
    ),
    everything: bool = typer.Option(
        False,
        "--all",
        help="Also what waits in the queue, beyond each session's share (`mem.suggestions`).",
    ),
    decided: bool = typer.Option(False, "--decided", help="List also what was decided already."),
    allow_secret: bool = typer.Option(
        False, "--allow-secret", help="Store it although it looks like it holds a secret."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> int:
    """Decide about what capture found and was not sure of, and what `git mem consolidate` proposes.
    Exit code 1 where nothing waits, or something was refused.

    A suggestion that is accepted becomes a private memory, unless --team is given; such decisions
    are what `git mem calibrate` learns from. A proposal is about memories that are stored: two that
    say the same or contradict each other, for example. One stays, the other is superseded by it.
    """
    _check_usage(edit, merge[0], bool(message or title or type), keep, len(accept))
    if not (accept or reject or edit or merge[0]):
        asks = not (listing or decided or as_json) and review_terminal.is_terminal()
        with opened() as store:
            return (
                review_terminal.ask(store, everything)
                if asks
                else _list(store, everything, decided, as_json)
            )
    text = "\n\n".join(message)
    given = _Given(text, title, type, keep, merge[1], team, allow_secret)
    jobs: list[tuple[str, _Job]] = [(id, _accept) for id in accept]
    jobs += [(edit, _edit)] * bool(edit) + [(merge[0], _merge_into)] * bool(merge[0])
    jobs += [(id, _reject) for id in reject]
    with opened() as store:
        return _do(store, jobs, given, as_json)


class _Given(NamedTuple):
    """The options of one call that say how to decide. `into`: the memory to merge into."""

    text: str
    title: str
    type: str
    keep: str
    into: str
    team: bool
    allow_secret: bool

    @property
    def scope(self) -> str:
        return "team" if self.team else "private"


_Item = Suggestion | Proposal
_Done = Outcome | dict[str, Any]  # of a suggestion, of a proposal
_Job = Callable[[Store, _Item, _Given], _Done]


def _check_usage(edit: str, merge: str, changes: bool, keep: str, accepted: int) -> None:
    if changes and not (edit or merge):
        raise UsageError(
            "-m, --title and --type say what --edit or --merge stores",
            hint="name the suggestion: --edit ID -m TEXT",
        )
    if edit and merge:
        raise UsageError(
            "--edit and --merge both take the text of -m", hint="do one after the other"
        )
    if keep and accepted != 1:
        raise UsageError(
            "--keep names the memory that one proposal keeps",
            hint="--accept PROPOSAL --keep MEMORY",
        )


def _accept(store: Store, item: _Item, given: _Given) -> _Done:
    if isinstance(item, Proposal):
        return consolidate.accept(store, item, given.keep, "", given.team, given.allow_secret)
    if given.keep:
        raise UsageError(
            f"'{item.id[:8]}' is a suggestion, not a proposal about memories",
            hint="--accept alone makes a memory of it",
        )
    return review.accept(store, item, scope=given.scope, allow_secret=given.allow_secret)


def _edit(store: Store, item: _Item, given: _Given) -> _Done:
    if isinstance(item, Suggestion):
        changes = review_terminal.changes(item, given.text, given.title, given.type)
        return review.accept(
            store, item, changes, scope=given.scope, allow_secret=given.allow_secret
        )
    if given.title or given.type:
        raise UsageError(
            "a proposal takes the text of -m alone",
            hint="`git mem edit` changes title and type",
        )
    text = _text(item, given.text)
    return consolidate.accept(store, item, "", text, given.team, given.allow_secret)


def _merge_into(store: Store, item: _Item, given: _Given) -> _Done:
    if isinstance(item, Proposal):
        raise UsageError(
            f"'{item.id[:8]}' is a proposal about memories",
            hint="--accept PROPOSAL --keep MEMORY, or --edit PROPOSAL -m TEXT",
        )
    return review.merge(
        store, item, given.into, given.text, team=given.team, allow_secret=given.allow_secret
    )


def _reject(store: Store, item: _Item, given: _Given) -> _Done:
    if isinstance(item, Proposal):
        return consolidate.done(store, verdicts.reject(store, item))
    return review.reject(store, item)


def _find(store: Store, prefix: str) -> Suggestion | Proposal:
    """What an id prefix names."""
    proposal = proposals.find(store, prefix)
    if proposal is None:
        return review.find(store, prefix)
    if any(id.startswith(prefix.strip().lower()) for id in store.with_cache(suggestions.stored)[0]):
        raise Ambiguous(
            f"'{prefix}' is ambiguous: a proposal and a suggestion begin so",
            hint="type more digits",
        )
    return proposal


def _text(p: Proposal, given: str) -> str:
    if not given and not review_terminal.is_terminal():
        raise UsageError("--edit changes nothing", hint="give the text with -m")
    text = given or from_editor(consolidate.initial(p))
    if not text.strip():
        raise MemError("the text is empty, so nothing was changed")
    return text


def _do(store: Store, jobs: list[tuple[str, _Job]], given: _Given, as_json: bool) -> int:
    """Does one job after the other; a refused one stops none."""
    status = 0
    answers = []
    for id, job in jobs:
        answer: dict[str, Any] = {"id": id, "memory": None, "scope": None, "title": None}
        try:
            done = job(store, _find(store, id), given)
        except UsageError:
            raise
        except MemError as e:
            status = 1
            answers.append({**answer, "status": "refused", "reason": e.message})
            refused(e.message, e.hint)
            continue
        if isinstance(done, dict):
            answers.append(done)
            say: Callable[[Any], None] = consolidate.say
        else:
            answers.append(_answer(done))
            say = review_terminal.say
        if not as_json:
            say(done)
    if as_json:
        write_json(answers)
    return status


def _answer(done: Outcome) -> dict[str, Any]:
    return {
        "id": done.suggestion.id,
        "status": done.status,
        "memory": done.suggestion.memory or None,
        "scope": done.scope or None,
        "title": done.title,
        "reason": "",
    }


def _list(store: Store, everything: bool, decided: bool, as_json: bool) -> int:
    found = suggestions.waiting(store)
    shown = [s for s in found if everything or decided or not s.queued]
    if decided:
        shown += sorted(
            (s for s in store.with_cache(suggestions.stored)[0].values() if s.state != WAITING),
            key=lambda s: s.text("at"),
            reverse=True,
        )
    about = proposals.waiting(store)
    if decided:
        about += sorted(
            (p for p in store.with_cache(proposals.stored)[0].values() if p.state != WAITING),
            key=lambda p: str(p.data.get("at", "")),
            reverse=True,
        )
    if as_json:
        write_json(
            [review.public(s, review.near(store, s) if s.state == WAITING else []) for s in shown]
            + [proposals.public(p) for p in about]
        )
    else:
        render.suggestions(
            [review.public(s) for s in shown],
            0 if everything or decided else len(found) - len(shown),
        )
        render.proposals([proposals.public(p) for p in about])
        if not found and not about and not decided:
            write("nothing waits for a decision")
    return 0 if shown or about else 1
