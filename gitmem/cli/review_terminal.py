"""`git mem review` on a terminal: one suggestion or proposal after the other, one key each."""

from __future__ import annotations

import os
import sys
from typing import Any

from .. import render
from ..capture import review, suggestions
from ..capture.review import Outcome
from ..capture.suggestions import Suggestion
from ..core.errors import MemError, UsageError
from ..memory import memories, proposals, review_records
from ..memory.proposals import Proposal
from ..memory.review_records import WAITING
from ..store import Store
from . import consolidate
from .common import from_editor, line, refused, write

_KEYS = [
    ("a", "accept"),
    ("t", "accept for the team"),
    ("e", "edit"),
    ("r", "reject"),
    ("m", "merge"),
    ("s", "skip"),
    ("q", "quit"),
]


def is_terminal() -> bool:
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout.isatty())


def say(done: Outcome) -> None:
    memory = done.suggestion.memory[:8]
    if done.status == review_records.REJECTED:
        write(f"rejected {done.suggestion.id[:8]}: it is not proposed again")
    elif done.status == review_records.MERGED:
        write(f"merged into {memory} [{done.scope}] {done.title}")
    elif done.known:
        write(f"known as {memory}")
    else:
        instead = f", in the place of {done.replaced[0][:8]}" if done.replaced else ""
        write(f"remembered {memory} [{done.scope}] {done.title}{instead}")


def changes(
    suggestion: Suggestion, text: str = "", title: str = "", type: str = ""
) -> dict[str, Any]:
    """The changes that options name, or else the text that the editor gives."""
    given = {"body": text, "title": title, "type": type}
    if not any(given.values()):
        if not is_terminal():
            raise UsageError(
                "--edit changes nothing", hint="give the text with -m, --title or --type"
            )
        given["body"] = from_editor(suggestion.body)
        if not given["body"].strip():
            raise MemError("the text is empty, so nothing was stored")
    return {k: v for k, v in given.items() if v}


def ask(store: Store, everything: bool) -> int:
    """One after the other, the memories to be first.

    Whatever was decided stays so, also if the rest is broken off.
    """
    found = suggestions.waiting(store)
    about = proposals.waiting(store)
    todo: list[Suggestion | Proposal] = [*(s for s in found if everything or not s.queued), *about]
    if not found and not about:
        write("nothing waits for a decision")
        return 1
    counts = {review_records.ACCEPTED: 0, review_records.MERGED: 0, review_records.REJECTED: 0}
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
                say(review.accept(store, suggestion, scope="team" if key == "t" else "private"))
                return True
            if key == "r":
                say(review.reject(store, suggestion))
                return True
            if key == "e":
                say(review.accept(store, suggestion, changes(suggestion)))
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
    say(review.merge(store, suggestion, into.memory.id, text, team=team))
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
