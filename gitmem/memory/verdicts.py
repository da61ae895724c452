"""What a person decides about a proposal, and what is done then.

Promises. What is accepted is one record, or first the memory's and then the
verdict, so a crash in between leaves a proposal that waits. The team's notes are
touched only where the caller says so.

Of two memories that become one, the one that stays keeps its id and says in its
new version that the other one is superseded by it. Two clones that choose
differently lose neither: each choice is a version the other had not seen.
"""

from __future__ import annotations

from typing import Any

from ..core import id_mentions, record
from ..core.errors import MemError, Refused
from ..feedback import usage_records
from ..store import Store
from . import consolidate, memories, proposals, write_gate
from .consolidate import CITES, CONTRADICTION, MERGE, SHARE, VERSIONS
from .memories import Found
from .proposals import ACCEPTED, DECLINED, REJECTED, WAITING, Proposal


def _decide(
    store: Store, proposal: Proposal, word: str, memory: str = "", reason: str = ""
) -> Proposal:
    data = {
        "id": proposal.id,
        "kind": proposal.kind,
        "verdict": DECLINED if word == REJECTED else word,
        "memory": memory,
        "reason": reason,
        "author": store.author,
    }
    store.append(
        "private",
        [
            (
                "",
                record.dump(
                    record.envelope("verdict", {k: v for k, v in data.items() if v}, "", {})
                ),
            )
        ],
        "git mem: 1 verdict",
    )
    proposal.state, proposal.memory = word, memory
    return proposal


def reject(store: Store, proposal: Proposal, reason: str = "") -> Proposal:
    """All stays as it is, and the pair is not proposed again; also where the finding does not hold
    any more.
    """
    reason = str(write_gate.admit(store, {"reason": reason})["reason"])
    _open(proposal, must_hold=False)
    return _decide(
        store, proposal, REJECTED, "", " ".join(record.clean(reason).split())[: record.MAX_TITLE]
    )


def accept(
    store: Store,
    proposal: Proposal,
    keep: str = "",
    text: str = "",
    *,
    team: bool = False,
    allow_secret: bool = False,
) -> Proposal:
    """Does what is proposed. `keep`: a prefix of the id of the memory that stays; `text`: what it
    says from now on; `team`: the team's notes may change.

    Raises Refused where it cannot be done, and MemError where it is decided or not in force; then
    nothing has changed."""
    text = str(write_gate.admit(store, {"body": text}, allow_secret)["body"])
    _open(proposal)
    found = proposal.found
    if proposal.kind == SHARE:
        if not team:
            raise Refused(
                f"memory '{proposal.ids[1][:8]}' is private",
                hint="--team gives it to the team, in the place of theirs",
            )
        stay = memories.share(store, proposal.ids[1], allow_secret=allow_secret).memory.id
        if text:
            memories.edit(store, stay, {"body": text}, allow_secret=allow_secret)
    elif proposal.kind in (VERSIONS, CITES):
        stay = proposal.ids[0]
        _ours(found[stay], team)
        body = str(found[stay].record.data["body"])
        changes: dict[str, Any] = {
            "body": text
            or (id_mentions.renamed(body, *proposal.ids[1:]) if proposal.kind == CITES else body)
        }
        if proposal.kind == VERSIONS:
            changes.update(proposals.both(found[stay].memory.versions))
        memories.edit(store, stay, changes, allow_secret=allow_secret, same=True)
    else:
        stay = _one_of_two(store, proposal, _chosen(proposal, keep, text), text, team, allow_secret)
        if (
            proposal.kind == CONTRADICTION and not text
        ):  # the other one is called wrong, also if it comes back
            usage_records.contradict(store, [i for i in proposal.ids if i != stay])
    return _decide(store, proposal, ACCEPTED, stay)


def _chosen(proposal: Proposal, keep: str, text: str) -> str:
    if keep:
        ids = [i for i in proposal.ids if i.startswith(keep.strip().lower())]
        if len(ids) != 1:
            raise Refused(
                f"'{keep[:40]}' is {'both' if ids else 'neither'} of its memories",
                hint=f"--keep {proposal.ids[0][:8]} or --keep {proposal.ids[1][:8]}",
            )
        return ids[0]
    if proposal.keep or text:
        # With a new text it matters little which: the team's, else the older one, which others may
        # have named.
        return proposal.keep or next(
            (i for i in proposal.ids if proposal.found[i].scope == "team"), proposal.ids[0]
        )
    raise Refused(
        f"which of the two holds only you can say: {proposal.ids[0][:8]} or {proposal.ids[1][:8]}",
        hint="--keep ID says which stays; rejecting the proposal keeps both",
    )


def _one_of_two(
    store: Store, proposal: Proposal, chosen: str, text: str, team: bool, allow_secret: bool
) -> str:
    """Lets one of two memories stay; returns its id."""
    stay, (gone,) = proposal.found[chosen], [f for i, f in proposal.found.items() if i != chosen]
    changes: dict[str, Any] = {"body": text} if text else {}
    if stay.scope == "team" and gone.scope != "team":
        if text:
            _ours(stay, team)
            memories.edit(store, chosen, changes, allow_secret=allow_secret)
        memories.forget(store, gone.memory.id, f"memory {chosen} says it")
        return chosen
    if stay.scope != "team" and gone.scope == "team":
        if not team:
            raise Refused(
                f"memory '{gone.memory.id[:8]}' is the team's, and '{chosen[:8]}' is private",
                hint="--team shares it, in the place of the team's",
            )
        memories.share(store, chosen, allow_secret=allow_secret)
        stay = memories.find(store, chosen)
    _ours(stay, team)
    if proposal.kind == MERGE or proposal.why == consolidate.WORDING:
        changes.update(proposals.both([stay.record, gone.record]))
    memories.replace(store, stay, [gone], changes, allow_secret=allow_secret)
    return chosen


def _ours(found: Found, team: bool) -> None:
    if found.scope == "team" and not team:
        raise Refused(
            f"memory '{found.memory.id[:8]}' is the team's",
            hint="--team changes the team's notes, for everybody to see",
        )


def _open(proposal: Proposal, must_hold: bool = True) -> None:
    if proposal.state != WAITING:
        raise MemError(
            f"proposal '{proposal.id[:8]}' was {proposal.state} already",
            hint="`git mem review --list` shows what waits",
        )
    if must_hold and not proposal.found:
        raise MemError(
            f"proposal '{proposal.id[:8]}' does not hold any more: its memories have changed since",
            hint="`git mem consolidate` looks again; --reject lets it rest",
        )
