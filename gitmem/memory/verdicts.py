"""A person's decision about a proposal, and its effect on the memories.

Promises. Accepting writes one record, or first the memory's and then the verdict, so a crash in
between leaves a proposal that waits. Of two memories that become one, the one that stays keeps its
id, and its new version says that it supersedes the other. Two clones that choose differently lose
neither: each choice is a version the other had not seen.
"""

from __future__ import annotations

from typing import Any

from ..core import id_mentions
from ..core.errors import MemError, Refused
from ..feedback import usage_records
from ..store import Store
from . import consolidate, memories, proposals, review_records, write_gate
from .consolidate import CONTRADICTION, MERGE, PAIRS, SHARE, VERSIONS
from .memories import Found
from .proposals import Proposal
from .review_records import ACCEPTED, DECLINED


def reject(store: Store, proposal: Proposal) -> Proposal:
    """All memories stay as they are, and the pair is not proposed again."""
    review_records.check_undecided(proposal, "proposal")
    return _decide(store, proposal, DECLINED, "")


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
    text; `team`: the team's notes may change. Where it raises, nothing has changed.
    """
    text = str(write_gate.admit(store, {"body": text}, allow_secret)["body"])
    changes: dict[str, Any] = {"body": text} if text else {}
    review_records.check_undecided(proposal, "proposal")
    if not proposal.found:
        raise MemError(
            f"proposal '{proposal.id[:8]}' does not hold any more: its memories have changed since",
            hint="`git mem consolidate` looks again; --reject lets it rest",
        )
    if proposal.kind in PAIRS:
        stay = _chosen(proposal, keep, text)
        (other,) = (i for i in proposal.ids if i != stay)
        _unite(store, proposal, stay, other, changes, team, allow_secret)
        if proposal.kind == CONTRADICTION and not text:
            # The other one is called wrong, also if it comes back.
            usage_records.contradict(store, [other])
    elif proposal.kind == SHARE:
        stay = proposal.ids[1]
        _share(store, stay, team, allow_secret)
        if changes:
            memories.edit(store, stay, changes, allow_secret=allow_secret)
    else:
        stay = proposal.ids[0]
        found = proposal.found[stay]
        _check_scope(found, team)
        if proposal.kind == VERSIONS:
            changes = {**proposals.both(found.memory.versions), **changes}
        else:
            body = id_mentions.renamed(str(found.record.data["body"]), *proposal.ids[1:])
            changes = {"body": body, **changes}
        memories.edit(store, stay, changes, allow_secret=allow_secret, same=True)
    return _decide(store, proposal, ACCEPTED, stay)


def _decide(store: Store, proposal: Proposal, said: str, memory: str) -> Proposal:
    review_records.decide(store, [(proposal, said, memory, {"kind": proposal.kind})])
    return proposal


def _chosen(proposal: Proposal, keep: str, text: str) -> str:
    one, other = proposal.ids
    if keep:
        ids = [i for i in proposal.ids if i.startswith(keep.strip().lower())]
        if len(ids) != 1:
            raise Refused(
                f"'{keep[:40]}' is {'both' if ids else 'neither'} of its memories",
                hint=f"--keep {one[:8]} or --keep {other[:8]}",
            )
        return ids[0]
    if proposal.keep:
        return proposal.keep
    if text:  # the team's memory, else the older one, which others may have named
        return next((i for i in proposal.ids if proposal.found[i].scope == "team"), one)
    raise Refused(
        f"which of the two holds only you can say: {one[:8]} or {other[:8]}",
        hint="--keep ID says which stays; rejecting the proposal keeps both",
    )


def _check_scope(found: Found, team: bool) -> None:
    if found.scope == "team" and not team:
        raise Refused(
            f"memory '{found.short}' is the team's",
            hint="--team changes the team's notes, for everybody to see",
        )


def _share(store: Store, id: str, team: bool, allow_secret: bool) -> None:
    if not team:
        raise Refused(
            f"memory '{id[:8]}' is private, and the other one the team's",
            hint="--team shares it, in the place of the team's",
        )
    memories.share(store, id, allow_secret=allow_secret)


def _unite(
    store: Store,
    proposal: Proposal,
    id: str,
    other: str,
    changes: dict[str, Any],
    team: bool,
    allow_secret: bool,
) -> None:
    stay, gone = proposal.found[id], proposal.found[other]
    if stay.scope == "team" and gone.scope != "team":
        if changes:
            _check_scope(stay, team)
            memories.edit(store, id, changes, allow_secret=allow_secret)
        memories.forget(store, other, f"memory {id} says it")
        return
    if stay.scope != "team" and gone.scope == "team":
        _share(store, id, team, allow_secret)
        stay = memories.find(store, id)
    _check_scope(stay, team)
    if proposal.kind == MERGE or proposal.why == consolidate.WORDING:
        changes.update(proposals.both([stay.record, gone.record]))
    memories.replace(store, stay, gone, changes, allow_secret=allow_secret)
