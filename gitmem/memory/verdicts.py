"""A person's decision about a proposal, and what is done then.

Promises. Accepting writes one record, or first the memory's and then the verdict, so a crash in
between leaves a proposal that waits. The team's notes are touched only where the caller says so.

Of two memories that become one, the one that stays keeps its id, and its new version says that the
other one is superseded by it. Two clones that choose differently lose neither: each choice is a
version the other had not seen.
"""

from __future__ import annotations

from typing import Any

from ..core import id_mentions
from ..core.errors import MemError, Refused
from ..feedback import usage_records
from ..store import Store
from . import consolidate, memories, proposals, review_records, write_gate
from .consolidate import CITES, CONTRADICTION, MERGE, SHARE, VERSIONS
from .memories import Found
from .proposals import Proposal
from .review_records import ACCEPTED, DECLINED, REJECTED


def _decide(
    store: Store, proposal: Proposal, state: str, memory: str = "", reason: str = ""
) -> Proposal:
    word = DECLINED if state == REJECTED else state
    about = {"kind": proposal.kind}
    verdict = review_records.verdict(store, proposal, word, memory, reason, about)
    review_records.write(store, "verdict", [verdict])
    proposal.state, proposal.memory = state, memory
    return proposal


def reject(store: Store, proposal: Proposal, reason: str = "") -> Proposal:
    """All memories stay as they are, and the pair is not proposed again; also where the finding
    does not hold any more.
    """
    reason = str(write_gate.admit(store, {"reason": reason})["reason"])
    review_records.check_undecided(proposal, "proposal")
    return _decide(store, proposal, REJECTED, "", review_records.one_line(reason))


def accept(
    store: Store,
    proposal: Proposal,
    keep: str = "",
    text: str = "",
    *,
    team: bool = False,
    allow_secret: bool = False,
) -> Proposal:
    """Does what is proposed. `keep`: a prefix of the id of the memory that stays; `text`: its new
    text, "" for the old one; `team`: the team's notes may change.

    Raises Refused where it cannot be done, and MemError where the proposal is decided or does not
    hold; then nothing has changed.
    """
    text = str(write_gate.admit(store, {"body": text}, allow_secret)["body"])
    _check_in_force(proposal)
    if proposal.kind == SHARE:
        stay = _share(store, proposal, text, team, allow_secret)
    elif proposal.kind in (VERSIONS, CITES):
        stay = _edit(store, proposal, text, team, allow_secret)
    else:
        stay = _one_of_two(store, proposal, _chosen(proposal, keep, text), text, team, allow_secret)
        if proposal.kind == CONTRADICTION and not text:
            # The other one is called wrong, also if it comes back.
            usage_records.contradict(store, [i for i in proposal.ids if i != stay])
    return _decide(store, proposal, ACCEPTED, stay)


def _share(store: Store, proposal: Proposal, text: str, team: bool, allow_secret: bool) -> str:
    """Shares the private memory in the place of the team's; returns its id."""
    if not team:
        raise Refused(
            f"memory '{proposal.ids[1][:8]}' is private",
            hint="--team gives it to the team, in the place of theirs",
        )
    stay = memories.share(store, proposal.ids[1], allow_secret=allow_secret).memory.id
    if text:
        memories.edit(store, stay, {"body": text}, allow_secret=allow_secret)
    return stay


def _edit(store: Store, proposal: Proposal, text: str, team: bool, allow_secret: bool) -> str:
    """Makes one version of several, or names the memory in the place of a superseded one; returns
    the id of the memory.
    """
    stay = proposal.ids[0]
    found = proposal.found[stay]
    _check_scope(found, team)
    body = str(found.record.data["body"])
    changes: dict[str, Any] = {}
    if proposal.kind == VERSIONS:
        changes = proposals.both(found.memory.versions)
    else:
        body = id_mentions.renamed(body, *proposal.ids[1:])
    changes["body"] = text or body
    memories.edit(store, stay, changes, allow_secret=allow_secret, same=True)
    return stay


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
        # With a new text: the team's memory, else the older one, which others may have named.
        teams = (i for i in proposal.ids if proposal.found[i].scope == "team")
        return proposal.keep or next(teams, proposal.ids[0])
    raise Refused(
        f"which of the two holds only you can say: {proposal.ids[0][:8]} or {proposal.ids[1][:8]}",
        hint="--keep ID says which stays; rejecting the proposal keeps both",
    )


def _one_of_two(
    store: Store, proposal: Proposal, chosen: str, text: str, team: bool, allow_secret: bool
) -> str:
    """The chosen memory stays, the other one is superseded by it; returns the id of the chosen."""
    stay, (gone,) = proposal.found[chosen], [f for i, f in proposal.found.items() if i != chosen]
    changes: dict[str, Any] = {"body": text} if text else {}
    if stay.scope == "team" and gone.scope != "team":
        if text:
            _check_scope(stay, team)
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
    _check_scope(stay, team)
    if proposal.kind == MERGE or proposal.why == consolidate.WORDING:
        changes.update(proposals.both([stay.record, gone.record]))
    memories.replace(store, stay, [gone], changes, allow_secret=allow_secret)
    return chosen


def _check_scope(found: Found, team: bool) -> None:
    if found.scope == "team" and not team:
        raise Refused(
            f"memory '{found.memory.id[:8]}' is the team's",
            hint="--team changes the team's notes, for everybody to see",
        )


def _check_in_force(proposal: Proposal) -> None:
    review_records.check_undecided(proposal, "proposal")
    if not proposal.found:
        raise MemError(
            f"proposal '{proposal.id[:8]}' does not hold any more: its memories have changed since",
            hint="`git mem consolidate` looks again; --reject lets it rest",
        )
