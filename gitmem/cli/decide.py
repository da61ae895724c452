"""One decision about a suggestion or a proposal, and its effect, as JSON and as a line.
Which of two memories stays is a person's word.
"""

from typing import Any, NamedTuple

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
    if given.keep and isinstance(item, Suggestion):
        raise UsageError(
            f"'{item.id[:8]}' is a suggestion, not a proposal about memories",
            hint="--accept alone makes a memory of it",
        )
    return _accept(store, item, given._replace(text="", title="", type=""))


def edit(store: Store, item: Item, given: Decision) -> Answer:
    """Accepts it with another text: the one given, or what the editor makes of it."""
    if isinstance(item, Proposal):
        if given.title or given.type:
            hint = "`git mem edit` changes title and type"
            raise UsageError("a proposal takes the text of -m alone", hint=hint)
        text = given.text or edited(store, both_texts(item), "give the text with -m")
        return _accept(store, item, given._replace(text=text))
    if not (given.text or given.title or given.type):
        text = edited(store, item.body, "give the text with -m, --title or --type")
        return _accept(store, item, given._replace(text=text))
    return _accept(store, item, given)


def _accept(store: Store, item: Item, given: Decision) -> Answer:
    secret = given.allow_secret
    if isinstance(item, Suggestion):
        scope = "team" if given.team else "private"
        changes = {"body": given.text, "title": given.title, "type": given.type}
        said = {name: text for name, text in changes.items() if text}
        return _stored(review.accept(store, item, said, scope=scope, allow_secret=secret))
    item = proposals.accept(
        store, item, given.keep, given.text, team=given.team, allow_secret=secret
    )
    automemory_export.tend(store)  # an agent's file of a memory that is no longer shown goes, too
    stays = memories.find(store, item.memory)
    title = record.clean(record.title_of(stays.record.data))
    facts = {"memory": item.memory, "scope": stays.scope, "title": title}
    return _settled(item, facts, f"kept {item.memory[:8]} [{stays.scope}] {title}")


def merge(store: Store, item: Item, given: Decision) -> Answer:
    if isinstance(item, Proposal):
        raise UsageError(
            f"'{item.id[:8]}' is a proposal about memories",
            hint="--accept PROPOSAL --keep MEMORY, or --edit PROPOSAL -m TEXT",
        )
    allowed = {"team": given.team, "allow_secret": given.allow_secret}
    return _stored(review.merge(store, item, given.into, given.text, **allowed))


def reject(store: Store, item: Item, given: Decision) -> Answer:
    if isinstance(item, Suggestion):
        return _stored(review.reject(store, item))
    line = f"rejected {item.id[:8]}: both stay as they are, and it is not proposed again"
    nothing = {"memory": None, "scope": None, "title": None}
    return _settled(proposals.reject(store, item), nothing, line)


def edited(store: Store, initial: str, hint: str = "") -> str:
    """What the editor makes of a text. Raises MemError where that is nothing."""
    if not interactive():
        raise UsageError("--edit changes nothing", hint=hint)
    text = from_editor(store, initial)
    if not text.strip():
        raise MemError("the text is empty, so nothing was changed")
    return text


def _stored(done: review.Outcome) -> Answer:
    id, memory = done.suggestion.id, done.suggestion.memory
    facts = {
        "id": id,
        "status": done.status,
        "memory": memory or None,
        "scope": done.scope or None,
        "title": done.title,
        "reason": "",
    }
    named = f"{memory[:8]} [{done.scope}] {done.title}"
    if done.status == review_records.REJECTED:
        return Answer(facts, [f"rejected {id[:8]}: it is not proposed again"])
    if done.status == review_records.MERGED:
        return Answer(facts, [f"merged into {named}"])
    if done.known:
        return Answer(facts, [f"known as {memory[:8]}"])
    instead = f", in the place of {done.replaced[0][:8]}" if done.replaced else ""
    return Answer(facts, [f"remembered {named}{instead}"])


def _settled(p: Proposal, memory: dict[str, Any], line: str) -> Answer:
    facts = {"id": p.id, "status": p.state, "kind": p.kind, "reason": "", **memory}
    return Answer(facts, [line])


def both_texts(p: Proposal) -> str:
    """The texts of a proposal, for the editor: the one that would stay first."""
    order = sorted(p.ids, key=lambda id: id != p.keep)
    return "\n\n".join(str(p.found[id].record.data["body"]) for id in order)
