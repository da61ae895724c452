"""One decision about a suggestion of capture or a proposal about stored memories, and what became
of it, for JSON and as a line. Which of two memories stays is a person's word.
"""

from typing import Any, NamedTuple

from ..agents import automemory_export
from ..capture import review
from ..capture.suggestions import Suggestion
from ..core import record
from ..core.errors import MemError, UsageError
from ..memory import memories, review_records, verdicts
from ..memory.consolidate import PAIRS, SHARE, VERSIONS
from ..memory.proposals import Proposal
from ..store import Store
from .common import from_editor, interactive

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


class Done(NamedTuple):
    facts: dict[str, Any]
    line: str


def accept(store: Store, item: Item, given: Decision) -> Done:
    """Makes a memory of a suggestion, or does what a proposal says."""
    if isinstance(item, Proposal):
        return _accepted(store, item, given)
    if given.keep:
        raise UsageError(
            f"'{item.id[:8]}' is a suggestion, not a proposal about memories",
            hint="--accept alone makes a memory of it",
        )
    return _stored(store, item, given, {})


def edit(store: Store, item: Item, given: Decision) -> Done:
    """Accepts it with another text: the one given, or what the editor makes of it."""
    if isinstance(item, Proposal):
        if given.title or given.type:
            raise UsageError(
                "a proposal takes the text of -m alone",
                hint="`git mem edit` changes title and type",
            )
        text = given.text or edited(both_texts(item), "give the text with -m")
        return _accepted(store, item, given._replace(text=text))
    changes = {"body": given.text, "title": given.title, "type": given.type}
    if not any(changes.values()):
        changes["body"] = edited(item.body, "give the text with -m, --title or --type")
    return _stored(store, item, given, {k: v for k, v in changes.items() if v})


def merge(store: Store, item: Item, given: Decision) -> Done:
    if isinstance(item, Proposal):
        raise UsageError(
            f"'{item.id[:8]}' is a proposal about memories",
            hint="--accept PROPOSAL --keep MEMORY, or --edit PROPOSAL -m TEXT",
        )
    allowed = {"team": given.team, "allow_secret": given.allow_secret}
    return _of_suggestion(review.merge(store, item, given.into, given.text, **allowed))


def reject(store: Store, item: Item, given: Decision) -> Done:
    if isinstance(item, Proposal):
        return _of_proposal(store, verdicts.reject(store, item))
    return _of_suggestion(review.reject(store, item))


def edited(initial: str, hint: str = "") -> str:
    """What the editor makes of a text. Raises MemError where that is nothing."""
    if not interactive():
        raise UsageError("--edit changes nothing", hint=hint)
    text = from_editor(initial)
    if not text.strip():
        raise MemError("the text is empty, so nothing was changed")
    return text


def _accepted(store: Store, p: Proposal, given: Decision) -> Done:
    allowed = {"team": given.team, "allow_secret": given.allow_secret}
    accepted = verdicts.accept(store, p, given.keep, given.text, **allowed)
    automemory_export.tend(store)  # an agent's file of a memory that is no longer shown goes, too
    return _of_proposal(store, accepted)


def _stored(store: Store, item: Suggestion, given: Decision, changes: dict[str, Any]) -> Done:
    scope = "team" if given.team else "private"
    outcome = review.accept(store, item, changes, scope=scope, allow_secret=given.allow_secret)
    return _of_suggestion(outcome)


def _of_suggestion(done: review.Outcome) -> Done:
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
        line = f"rejected {id[:8]}: it is not proposed again"
    elif done.status == review_records.MERGED:
        line = f"merged into {named}"
    elif done.known:
        line = f"known as {memory[:8]}"
    else:
        instead = f", in the place of {done.replaced[0][:8]}" if done.replaced else ""
        line = f"remembered {named}{instead}"
    return Done(facts, line)


def _of_proposal(store: Store, p: Proposal) -> Done:
    facts: dict[str, Any] = {"id": p.id, "status": p.state, "kind": p.kind, "reason": ""}
    if not p.memory:
        line = f"rejected {p.id[:8]}: all of it stays as it is, and it is not proposed again"
        return Done({**facts, "memory": None, "scope": None, "title": None}, line)
    stays = memories.find(store, p.memory)
    title = record.clean(record.title_of(stays.record.data))
    verb = "shared" if p.kind == SHARE else "kept"
    line = f"{verb} {p.memory[:8]} [{stays.scope}] {title}"
    return Done({**facts, "memory": p.memory, "scope": stays.scope, "title": title}, line)


def both_texts(p: Proposal) -> str:
    """All texts of a proposal, for the editor: the one that would stay first."""
    first = p.found[p.ids[0]]
    if p.kind == VERSIONS:
        return "\n\n".join(str(r.data["body"]) for r in first.memory.versions)
    if p.kind in PAIRS:
        order = sorted(p.ids, key=lambda id: id != p.keep)
    else:
        order = [p.ids[1 if p.kind == SHARE else 0]]
    return "\n\n".join(str(p.found[id].record.data["body"]) for id in order)
