"""One decision about a suggestion or a proposal, and its effect, as JSON and as a line.
Which of two memories stays is a person's word.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ..agents import automemory_export
from ..capture import review
from ..capture.suggestions import Suggestion
from ..core import record
from ..core.errors import MemError, UsageError
from ..memory import memories, proposals, review_records
from ..memory.proposals import Proposal
from ..store import Store
from .common import from_editor, interactive
from .options import Answer

Item = Suggestion | Proposal


class Decision(NamedTuple):
    """What a person wants done. `keep`: the memory that stays; `into`: the one to merge into."""

    text: str = ""
    title: str = ""
    type: str = ""
    keep: str = ""
    into: str = ""
    team: bool = False
    allow_secret: bool = False


def accept(store: Store, item: Item, given: Decision) -> Answer:
    """Makes a memory of a suggestion, or does what a proposal says."""
    return _accept(store, item, given._replace(text="", title="", type=""))


def edit(store: Store, item: Item, given: Decision) -> Answer:
    """Accepts it with another text: the one given, or what the editor makes of it."""
    proposed = isinstance(item, Proposal)
    if proposed and (given.title or given.type):
        hint = "`git mem edit` changes title and type"
        raise UsageError("a proposal takes the text of -m alone", hint=hint)
    if not (given.text or given.title or given.type):
        text = both_texts(item) if isinstance(item, Proposal) else item.body
        hint = "give the text with -m" + ("" if proposed else ", --title or --type")
        given = given._replace(text=edited(store, text, hint))
    return _accept(store, item, given)


def _accept(store: Store, item: Item, given: Decision) -> Answer:
    allowed = {"allow_secret": given.allow_secret}
    if isinstance(item, Proposal):
        proposals.accept(store, item, given.keep, given.text, team=given.team, **allowed)
        automemory_export.tend(store)  # an agent's file of a memory that is shown no more goes, too
        stays = memories.find(store, item.memory)
        title = record.clean(record.title_of(stays.record.data))
        named = f"{item.memory[:8]} [{stays.scope}] {title}"
        return _answer(item, f"kept {named}", stays.scope, title)
    if given.keep:
        raise UsageError(
            f"'{item.id[:8]}' is a suggestion, not a proposal about memories",
            hint="--accept alone makes a memory of it",
        )
    changes = {"body": given.text, "title": given.title, "type": given.type}
    said = {name: text for name, text in changes.items() if text}
    scope = "team" if given.team else "private"
    return _accepted(review.accept(store, item, said, scope=scope, **allowed))


def accept_new(store: Store, items: Iterable[Suggestion], given: Decision) -> dict[str, Answer]:
    """`review.accept_new`: {id of a suggestion: the answer}."""
    scope = "team" if given.team else "private"
    done = review.accept_new(store, items, scope=scope, allow_secret=given.allow_secret)
    return {outcome.suggestion.id: _accepted(outcome) for outcome in done}


def _accepted(done: review.Outcome) -> Answer:
    item = done.suggestion
    instead = f", in the place of {done.replaced[0][:8]}" if done.replaced else ""
    named = f"{item.memory[:8]} [{done.scope}]"
    line = f"known as {named}" if done.known else f"remembered {named} {done.title}{instead}"
    return _answer(item, line, done.scope, done.title)


def merge(store: Store, item: Item, given: Decision) -> Answer:
    if isinstance(item, Proposal):
        raise UsageError(
            f"'{item.id[:8]}' is a proposal about memories",
            hint="--accept PROPOSAL --keep MEMORY, or --edit PROPOSAL -m TEXT",
        )
    allowed = {"team": given.team, "allow_secret": given.allow_secret}
    done = review.merge(store, item, given.into, given.text, **allowed)
    line = f"merged into {item.memory[:8]} [{done.scope}] {done.title}"
    return _answer(item, line, done.scope, done.title)


def reject(store: Store, item: Item, given: Decision) -> Answer:
    review_records.decide(store, [rejection(item)])
    return rejected(item)


def rejection(item: Item) -> review_records.Decision:
    return proposals.rejection(item) if isinstance(item, Proposal) else review.rejection(item)


def rejected(item: Item) -> Answer:
    if isinstance(item, Proposal):
        line = f"rejected {item.id[:8]}: both stay as they are, and it is not proposed again"
        return _answer(item, line)
    return _answer(item, f"rejected {item.id[:8]}: it is not proposed again", title=item.title)


def _answer(item: Item, line: str, scope: str = "", title: str = "") -> Answer:
    facts = {
        "id": item.id,
        "status": item.state,
        "memory": item.memory or None,
        "scope": scope or None,
        "title": title or None,
        "reason": "",
    }
    return Answer({**facts, "kind": item.kind} if isinstance(item, Proposal) else facts, [line])


def edited(store: Store, initial: str, hint: str = "") -> str:
    """What the editor makes of a text. Raises MemError where that is nothing."""
    if not interactive():
        raise UsageError("--edit changes nothing", hint=hint)
    text = from_editor(store, initial)
    if not text.strip():
        raise MemError("the text is empty, so nothing was changed")
    return text


def both_texts(p: Proposal) -> str:
    """The texts of a proposal, for the editor: the one that would stay first."""
    order = sorted(p.ids, key=lambda id: id != p.keep)
    return "\n\n".join(str(p.found[id].record.data["body"]) for id in order)
