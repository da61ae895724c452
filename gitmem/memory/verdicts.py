"""A person's decision about a proposal, and what is done then.

Promises. Accepting writes one record, or first the memory's and then the verdict, so a crash in
between leaves a proposal that waits. Of two memories that become one, the one that stays keeps its
id, and its new version says that it supersedes the other. Two clones that choose differently lose
neither: each choice is a version the other had not seen.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core import id_mentions
from ..core.errors import MemError, Refused
from ..feedback import usage_records
from ..store import Store
from . import consolidate, memories, proposals, review_records, write_gate
from .consolidate import CITES, CONTRADICTION, MERGE, SHARE, VERSIONS
from .memories import Found
from .proposals import Proposal
from .review_records import ACCEPTED, DECLINED, REJECTED


def reject(store: Store, proposal: Proposal, reason: str = "") -> Proposal:
    """All memories stay as they are, and the pair is not proposed again."""
    reason = str(write_gate.admit(store, {"reason": reason})["reason"])
    review_records.check_undecided(proposal, "proposal")
    return _decide(store, proposal, REJECTED, reason=review_records.one_line(reason))


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
    review_records.check_undecided(proposal, "proposal")
    if not proposal.found:
        raise MemError(
            f"proposal '{proposal.id[:8]}' does not hold any more: its memories have changed since",
            hint="`git mem consolidate` looks again; --reject lets it rest",
        )
    accepting = _Accepting(store, proposal, text, team, allow_secret)
    if proposal.kind == SHARE:
        stay = proposal.ids[1]
        accepting.share(stay)
        if text:
            accepting.edit(stay, {"body": text})
    elif proposal.kind in (VERSIONS, CITES):
        stay = proposal.ids[0]
        accepting.settle(proposal.found[stay])
    else:
        stay = _chosen(proposal, keep, text)
        (other,) = (i for i in proposal.ids if i != stay)
        accepting.unite(proposal.found[stay], proposal.found[other])
        if proposal.kind == CONTRADICTION and not text:
            # The other one is called wrong, also if it comes back.
            usage_records.contradict(store, [other])
    return _decide(store, proposal, ACCEPTED, stay)


def _decide(
    store: Store, proposal: Proposal, state: str, memory: str = "", reason: str = ""
) -> Proposal:
    word = DECLINED if state == REJECTED else state
    about = {"kind": proposal.kind}
    verdict = review_records.verdict(store, proposal, word, memory, reason, about)
    review_records.write(store, "verdict", [verdict])
    proposal.state, proposal.memory = state, memory
    return proposal


def _chosen(proposal: Proposal, keep: str, text: str) -> str:
    """The id of the memory that stays."""
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


class _Accepting(NamedTuple):
    """What a person allowed when they accepted a proposal."""

    store: Store
    proposal: Proposal
    text: str
    team: bool
    allow_secret: bool

    def check_scope(self, found: Found) -> None:
        if found.scope == "team" and not self.team:
            raise Refused(
                f"memory '{found.short}' is the team's",
                hint="--team changes the team's notes, for everybody to see",
            )

    def edit(self, id: str, changes: dict[str, Any], same: bool = False) -> None:
        memories.edit(self.store, id, changes, allow_secret=self.allow_secret, same=same)

    def share(self, id: str) -> None:
        if not self.team:
            raise Refused(
                f"memory '{id[:8]}' is private, and the other one the team's",
                hint="--team shares it, in the place of the team's",
            )
        memories.share(self.store, id, allow_secret=self.allow_secret)

    def settle(self, found: Found) -> None:
        """Makes one version of several, or names the memory in the place of a superseded one."""
        self.check_scope(found)
        body = str(found.record.data["body"])
        changes: dict[str, Any] = {}
        if self.proposal.kind == VERSIONS:
            changes = proposals.both(found.memory.versions)
        else:
            body = id_mentions.renamed(body, *self.proposal.ids[1:])
        self.edit(found.memory.id, {**changes, "body": self.text or body}, same=True)

    def unite(self, stay: Found, gone: Found) -> None:
        """One memory stays, the other one is superseded by it."""
        id = stay.memory.id
        changes: dict[str, Any] = {"body": self.text} if self.text else {}
        if stay.scope == "team" and gone.scope != "team":
            if changes:
                self.check_scope(stay)
                self.edit(id, changes)
            memories.forget(self.store, gone.memory.id, f"memory {id} says it")
            return
        if stay.scope != "team" and gone.scope == "team":
            self.share(id)
            stay = memories.find(self.store, id)
        self.check_scope(stay)
        if self.proposal.kind == MERGE or self.proposal.why == consolidate.WORDING:
            changes.update(proposals.both([stay.record, gone.record]))
        memories.replace(self.store, stay, gone, changes, allow_secret=self.allow_secret)
