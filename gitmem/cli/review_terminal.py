"""`git mem review` on a terminal: one suggestion or proposal after the other, one key each."""

import typer

from .. import render
from ..capture import review, suggestions
from ..capture.suggestions import Suggestion
from ..core.errors import MemError
from ..memory import memories, proposals
from ..memory.proposals import Proposal
from ..memory.review_records import ACCEPTED, MERGED, REJECTED, WAITING
from ..store import Store
from . import decide
from .common import confirmed, line, refused, write
from .decide import Decision, Item
from .options import Answer

_Keys = list[tuple[str, str]]
_LAST: _Keys = [("s", "skip"), ("q", "quit")]
_OF_SUGGESTION: _Keys = [
    *(("a", "accept"), ("t", "accept for the team"), ("e", "edit")),
    *(("r", "reject"), ("m", "merge"), *_LAST),
]


def ask(store: Store, everything: bool) -> int:
    """One after the other, the memories to be first.

    Whatever was decided stays so, also if the rest is broken off.
    """
    found = suggestions.waiting(store)
    about = proposals.waiting(store)
    todo: list[Item] = [*(s for s in found if everything or not s.queued), *about]
    if not found and not about:
        write("nothing waits for a decision")
        return 1
    counts = {ACCEPTED: 0, MERGED: 0, REJECTED: 0}
    try:
        for i, item in enumerate(todo, 1):
            if not _one(store, item, f"{i} of {len(todo)}"):
                break
            if item.state in counts:
                counts[item.state] += 1
    except (KeyboardInterrupt, EOFError):
        write()
    told = [f"{n} {word}" for word, n in counts.items() if n]
    left = sum(item.state == WAITING for item in (*found, *about))
    waiting = f"{left} still wait{'s' * (left == 1)}" if left else "nothing waits any more"
    write(", ".join([*told, waiting]))
    return 0


def _one(store: Store, item: Item, place: str) -> bool:
    """Asks until one item is decided, skipped or settled by the one before; False to end."""
    near: list[str] = []
    if isinstance(item, Proposal):
        again = proposals.find(store, item.id)
        if again is None or not again.found:
            write(f"{item.id[:8]} is settled with that")
            return True
        item.found = again.found
        render.proposal(proposals.public(item), place)
        keys = _of_proposal(item)
    else:
        like = review.near(store, item)
        near = [str(hit["id"]) for hit in like]
        render.suggestion(review.public(item, like), place)
        keys = _OF_SUGGESTION
    while True:
        render.keys(keys)
        key = _key()
        write(key)
        if key == "q":
            return False
        if key in ("s", " "):
            return True
        try:
            if isinstance(item, Proposal):
                done = _decide_proposal(store, item, key)
            else:
                done = _decide_suggestion(store, item, key, near)
        except MemError as e:
            refused(e.message, e.hint)
            continue
        if done:
            done.print(as_json=False)
            return True


def _of_proposal(p: Proposal) -> _Keys:
    first = [("a", f"keep {p.ids.index(p.keep) + 1}")] if p.keep else []
    one = [("1", "keep the first"), ("2", "keep the second")]
    return [*first, *one, ("e", "one text for both"), ("r", "keep both"), *_LAST]


def _decide_proposal(store: Store, p: Proposal, key: str) -> Answer | None:
    """Does what a key says; None where nothing was decided."""
    if key == "r":
        return decide.reject(store, p, Decision())
    keep = p.ids[int(key) - 1] if key in ("1", "2") else ""
    if not keep and key != "e" and not (key == "a" and p.keep):
        return None
    text = decide.edited(store, decide.both_texts(p)) if key == "e" else ""
    team = p.team("" if text else keep or p.keep)
    if team and not confirmed("this changes the team's notes, for everybody to see. Go on?"):
        return None
    do = decide.edit if text else decide.accept
    return do(store, p, Decision(text=text, keep=keep, team=team))


def _decide_suggestion(store: Store, s: Suggestion, key: str, near: list[str]) -> Answer | None:
    """The same; `near`: the memories that are shown with it."""
    if key in ("a", "t"):
        return decide.accept(store, s, Decision(team=key == "t"))
    if key == "r":
        return decide.reject(store, s, Decision())
    if key == "e":
        return decide.edit(store, s, Decision())
    if key != "m":
        return None
    number = "a number above, or " if near else ""
    named = line(f"into which memory ({number}an id; empty: none)? ").strip()
    if not named:
        return None
    if named.isdecimal() and 0 < int(named) <= len(near):
        named = near[int(named) - 1]
    into = memories.find(store, named)
    team = into.scope == "team"
    if team and not confirmed("it is the team's: change it for everybody?"):
        return None
    text = decide.edited(store, review.merged(str(into.record.data["body"]), s.body))
    return decide.merge(store, s, Decision(text=text, into=into.memory.id, team=team))


def _key() -> str:
    """One key; what was typed ahead is dropped: nobody decides on what they have not seen."""
    key = typer.getchar().lower()
    if not key:
        raise EOFError
    return key if len(key) == 1 else ""
