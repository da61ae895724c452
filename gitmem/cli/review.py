"""The command that goes through what waits for a person: what capture suggests, and what
consolidation proposes about stored memories.

On a terminal it asks, one at a time; else it lists, or does what its options say.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import typer

from .. import render
from ..capture import review, suggestions
from ..capture.review import Outcome
from ..capture.suggestions import WAITING, Suggestion
from ..core.errors import Ambiguous, MemError, UsageError
from ..memory import memories, proposals, verdicts
from ..memory.proposals import Proposal
from ..store import Store
from . import app, consolidate
from .common import from_editor, line, opened, refused, write, write_json

_KEYS = [
    ("a", "accept"),
    ("t", "accept for the team"),
    ("e", "edit"),
    ("r", "reject"),
    ("m", "merge"),
    ("s", "skip"),
    ("q", "quit"),
]


@app.command("review")
def review_command(  # noqa: C901
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
    wanted = bool(accept or reject or edit or merge[0])
    if (message or title or type) and not (edit or merge[0]):
        raise UsageError(
            "-m, --title and --type say what --edit or --merge stores",
            hint="name the suggestion: --edit ID -m TEXT",
        )
    if edit and merge[0]:
        raise UsageError(
            "--edit and --merge both take the text of -m", hint="do one after the other"
        )
    asks = not (wanted or listing or decided or as_json) and bool(
        sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()
    )
    with opened() as store:
        if not wanted:
            return _ask(store, everything) if asks else _list(store, everything, decided, as_json)
        scope = "team" if team else "private"
        text = "\n\n".join(message)
        if keep and len(accept) != 1:
            raise UsageError(
                "--keep names the memory that one proposal keeps",
                hint="--accept PROPOSAL --keep MEMORY",
            )

        def accepted(s: Suggestion | Proposal) -> Any:
            if isinstance(s, Proposal):
                return consolidate.accept(store, s, keep, "", team, allow_secret)
            if keep:
                raise UsageError(
                    f"'{s.id[:8]}' is a suggestion, not a proposal about memories",
                    hint="--accept alone makes a memory of it",
                )
            return review.accept(store, s, scope=scope, allow_secret=allow_secret)

        def edited(s: Suggestion | Proposal) -> Any:
            if isinstance(s, Proposal):
                if title or type:
                    raise UsageError(
                        "a proposal takes the text of -m alone",
                        hint="`git mem edit` changes title and type",
                    )
                return consolidate.accept(store, s, "", _text(s, text), team, allow_secret)
            return review.accept(
                store, s, _changes(s, text, title, type), scope=scope, allow_secret=allow_secret
            )

        def joined(s: Suggestion | Proposal) -> Any:
            if isinstance(s, Proposal):
                raise UsageError(
                    f"'{s.id[:8]}' is a proposal about memories",
                    hint="--accept PROPOSAL --keep MEMORY, or --edit PROPOSAL -m TEXT",
                )
            return review.merge(store, s, merge[1], text, team=team, allow_secret=allow_secret)

        def rejected(s: Suggestion | Proposal) -> Any:
            return (
                consolidate.done(store, verdicts.reject(store, s))
                if isinstance(s, Proposal)
                else review.reject(store, [s])[0]
            )

        jobs: list[tuple[str, Any]] = [(id, accepted) for id in accept]
        jobs += (
            [(edit, edited)] * bool(edit)
            + [(merge[0], joined)] * bool(merge[0])
            + [(id, rejected) for id in reject]
        )
        return _do(store, jobs, as_json)


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
    if not given and not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("--edit changes nothing", hint="give the text with -m")
    text = given or from_editor(consolidate.initial(p))
    if not text.strip():
        raise MemError("the text is empty, so nothing was changed")
    return text


def _changes(suggestion: Suggestion, text: str, title: str, type: str) -> dict[str, Any]:
    given = {"body": text, "title": title, "type": type}
    if not any(given.values()):
        if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError(
                "--edit changes nothing", hint="give the text with -m, --title or --type"
            )
        given["body"] = from_editor(suggestion.body)
        if not given["body"].strip():
            raise MemError("the text is empty, so nothing was stored")
    return {k: v for k, v in given.items() if v}


def _do(store: Store, jobs: list[tuple[str, Any]], as_json: bool) -> int:
    """Does one job after the other; one that is refused stops none."""
    status = 0
    answers = []
    for id, job in jobs:
        try:
            done: Outcome | dict[str, Any] = job(_find(store, id))
        except UsageError:
            raise
        except MemError as e:
            status = 1
            answers.append(
                {
                    "id": id,
                    "status": "refused",
                    "memory": None,
                    "scope": None,
                    "title": None,
                    "reason": e.message,
                }
            )
            refused(e.message, e.hint)
            continue
        if isinstance(done, dict):
            answers.append(done)
            if not as_json:
                consolidate.say(done)
            continue
        answers.append(
            {
                "id": done.suggestion.id,
                "status": done.status,
                "memory": done.suggestion.memory or None,
                "scope": done.scope or None,
                "title": done.title,
                "reason": "",
            }
        )
        if not as_json:
            _say(done)
    if as_json:
        write_json(answers)
    return status


def _say(done: Outcome) -> None:
    memory = done.suggestion.memory[:8]
    if done.status == suggestions.REJECTED:
        write(f"rejected {done.suggestion.id[:8]}: it is not proposed again")
    elif done.status == suggestions.MERGED:
        write(f"merged into {memory} [{done.scope}] {done.title}")
    elif done.known:
        write(f"known as {memory}")
    else:
        instead = f", in the place of {done.replaced[0][:8]}" if done.replaced else ""
        write(f"remembered {memory} [{done.scope}] {done.title}{instead}")


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


# --- on a terminal ----------------------------------------------------------


def _ask(store: Store, everything: bool) -> int:
    """One after the other, the memories to be first.

    Whatever was decided stays so, also if the rest is broken off.
    """
    found = suggestions.waiting(store)
    about = proposals.waiting(store)
    todo: list[Suggestion | Proposal] = [*(s for s in found if everything or not s.queued), *about]
    if not found and not about:
        write("nothing waits for a decision")
        return 1
    counts = {suggestions.ACCEPTED: 0, suggestions.MERGED: 0, suggestions.REJECTED: 0}
    try:
        for i, one in enumerate(todo, 1):
            place = f"{i} of {len(todo)}"
            if not (
                _proposed(store, one, place)
                if isinstance(one, Proposal)
                else _one(store, one, place)
            ):
                break
            if one.state in counts:
                counts[one.state] += 1
    except (KeyboardInterrupt, EOFError):
        write()
    left = sum(s.state == WAITING for s in found) + sum(p.state == WAITING for p in about)
    write(
        ", ".join(f"{n} {word}" for word, n in counts.items() if n)
        + (", " if any(counts.values()) else "")
        + (f"{left} still wait{'s' * (left == 1)}" if left else "nothing waits any more")
    )
    return 0


def _proposed(store: Store, p: Proposal, place: str) -> bool:
    """Asks until one proposal is decided or skipped; False to end.

    One that a decision before it has settled is passed over.
    """
    again = proposals.find(store, p.id)
    if again is None or not again.found:
        write(f"{p.id[:8]} is settled with that")
        return True
    p.found = again.found
    render.proposal(proposals.public(p), place)
    while True:
        render.keys(consolidate.keys(p))
        key = _key()
        write(key)
        try:
            if key in ("q", "\x04"):
                return False
            if key in ("s", " ") or consolidate.ask(store, p, key):
                return True
        except MemError as e:
            refused(e.message, e.hint)


def _one(store: Store, suggestion: Suggestion, place: str) -> bool:
    """Asks until one suggestion is decided or skipped; False to end."""
    like = review.near(store, suggestion)
    render.suggestion(review.public(suggestion, like), place)
    while True:
        render.keys(_KEYS)
        key = _key()
        write(key)
        try:
            if key in ("q", "\x04"):
                return False
            if key in ("s", " "):
                return True
            if key in ("a", "t"):
                _say(review.accept(store, suggestion, scope="team" if key == "t" else "private"))
                return True
            if key == "r":
                _say(review.reject(store, [suggestion])[0])
                return True
            if key == "e":
                _say(review.accept(store, suggestion, _changes(suggestion, "", "", "")))
                return True
            if key == "m" and _merge(store, suggestion, [str(h["id"]) for h in like]):
                return True
        except MemError as e:
            refused(e.message, e.hint)


def _merge(store: Store, suggestion: Suggestion, near: list[str]) -> bool:
    answer = line(
        f"into which memory ({'a number above, or ' if near else ''}an id; empty: none)? "
    ).strip()
    if not answer:
        return False
    into = memories.find(
        store,
        near[int(answer) - 1] if answer.isdecimal() and 0 < int(answer) <= len(near) else answer,
    )
    team = into.scope == "team"
    if team and line("it is the team's: change it for everybody? [y/N] ").strip().lower() not in (
        "y",
        "yes",
    ):
        return False
    text = from_editor(review.merged(str(into.record.data["body"]), suggestion.body))
    if not text.strip():
        write("the text is empty, so nothing was merged")
        return False
    _say(review.merge(store, suggestion, into.memory.id, text, team=team))
    return True


def _key() -> str:
    """One key, without waiting for the end of a line; what was typed ahead is dropped: nobody
    decides on what they have not seen.
    """
    try:
        import termios
        import tty
    except ImportError:  # Windows
        return line("").strip()[:1].lower()
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd, termios.TCSAFLUSH)
        data = os.read(fd, 64)
    finally:
        termios.tcsetattr(fd, termios.TCSAFLUSH, before)
    if not data:
        raise EOFError
    return data.decode("utf-8", "replace").lower() if len(data) == 1 else ""
