"""Decides about each candidate: a private memory, a suggestion, or nothing.

Promise: a text that is kept without a person lies in the private notes, body verbatim, with its
source, agent, session, confidence and tags that say where it came from. A text with a secret
becomes nothing. Nothing is kept twice (`duplicates`), nor a line of a commit whose memory was
purged (`capture_exclusions`). A decision that changes an older one leaves the older as it is and
proposes to supersede it. Nothing is signed: a worker can ask nobody for a passphrase.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from ..core import record, redact
from ..core.errors import Refused
from ..core.progress import counted
from ..memory import remember
from ..memory.remember import Result
from ..models.promptform import Opinion
from ..store import Store
from . import capture_exclusions, classify, duplicates, linear, signals, suggestions
from .candidates import Candidate
from .classify import Ask, Judgement
from .sources import ASSISTANT, COMMIT, TOOL, USER

TAG = "captured"  # on every memory that capture kept or suggested; beside it where it came from
ORIGINS = {USER: "from-prompt", ASSISTANT: "from-answer", COMMIT: "from-commit", TOOL: "from-tool"}
KEPT, SUGGESTED, KNOWN, REFUSED, SKIPPED = "kept", "suggested", "known", "refused", "skipped"
BEYOND = "others are surer"  # reason of a suggestion that was left out
# Added to `mem.captureSuggest` for commits: judged by what was measured on turns, the model is too
# sure of them (docs/evaluation.md).
_COMMIT_MARGIN = 0.2
# Highest confidence of a commit that is suggested: 40 of 60 that were read were worth keeping.
_COMMIT_MOST = 0.67
# Confidence of a revert that says why: of 34 that were read 20 were worth keeping; the linear model
# alone offers 2.
_REVERT = 0.6
_TOOL = 0.9  # a language model's probability from which an edit is worth a suggestion


class Outcome(NamedTuple):
    """What became of a candidate. `old`: the memory that the suggestion `id` would supersede."""

    status: str
    id: str = ""
    reason: str = ""
    old: str = ""
    type: str = ""
    confidence: float = 0.0
    stage: str = ""


class _Selected(NamedTuple):
    """A candidate worth keeping. `changes`: the place of an earlier one that it takes the place of,
    -1 for none. `proposes`: it takes the place of a memory, `old`, which a dry run has not stored.
    """

    place: int
    candidate: Candidate
    judgement: Judgement
    changes: int = -1
    proposes: bool = False
    old: str = ""


def keep(
    store: Store,
    candidates: Iterable[Candidate],
    *,
    ask: Ask | None = None,
    model: linear.Model | None = None,
    scope: str = "private",
    most: int | None = None,
    ask_first: bool = False,
    dry: bool = False,
) -> list[Outcome]:
    """Judges candidates, stores the AUTO ones, suggests the SUGGEST ones; one outcome each, in
    order.

    `most`: how many suggestions at most, the surest; the others are skipped. `ask_first`: AUTO ones
    are suggestions, too. `dry` judges and compares, and writes nothing.
    """
    given = list(candidates)
    outcomes = [Outcome(SKIPPED)] * len(given)
    auto = () if ask_first else (classify.AUTO,)
    left = _new(store, _judged(store, given, outcomes, ask, model), outcomes, auto)
    while left:
        undecided = {s.place for s in left}
        new = [_resolved(s, outcomes) for s in left if s.changes not in undecided]
        left = [s for s in left if s.changes in undecided]
        sure = [s for s in new if not s.proposes and s.judgement.tier in auto]
        unsure = [s for s in new if s.proposes or s.judgement.tier not in auto]
        unsure.sort(key=lambda s: -s.judgement.confidence)
        if most is not None:
            for s in unsure[most:]:
                outcomes[s.place] = _outcome(s, SKIPPED, reason=BEYOND)
            unsure = unsure[:most]
            most -= len(unsure)
        for chosen, status, write in ((sure, KEPT, _store), (unsure, SUGGESTED, _propose)):
            results = [Result(remember.STORED)] * len(chosen)
            if chosen and not dry:
                results = write(store, chosen, scope)
            became = {remember.STORED: status, remember.DUPLICATE: KNOWN}
            for s, r in zip(chosen, results, strict=True):
                outcomes[s.place] = _outcome(s, became.get(r.status, REFUSED), r.id, r.reason)
    return outcomes


def _store(store: Store, sure: list[_Selected], scope: str) -> list[Result]:
    drafts = []
    for s in sure:
        # A person's words can be cited; a model's words about its own work nobody has checked.
        provenance = "CITED" if s.candidate.role in (USER, COMMIT) else "ASSUMED"
        drafts.append({**_draft(store, s), "scope": scope, "provenance": provenance})
    return remember.remember(store, drafts, sign=False)


def _propose(store: Store, unsure: list[_Selected], scope: str) -> list[Result]:
    """Suggestions are private, whatever the scope of memories."""
    drafts = []
    for s in unsure:
        numbers = {"score": s.judgement.score, "p_skip": s.judgement.p_skip}
        about = {"stage": s.judgement.stage, "role": s.candidate.role}
        draft = {**_draft(store, s), **about, "supersedes": [s.old] if s.old else []}
        if not s.candidate.session:  # those of one import share its day
            draft.pop("created_at", None)
        drafts.append({**draft, **{name: n for name, n in numbers.items() if n is not None}})
    return suggestions.propose(store, drafts)


def _outcome(s: _Selected, status: str, id: str = "", reason: str = "") -> Outcome:
    j = s.judgement
    old = s.old if status == SUGGESTED else ""
    return Outcome(status, id, reason, old, j.type, j.confidence, j.stage)


def _draft(store: Store, s: _Selected) -> dict[str, Any]:
    """The fields that a memory and a suggestion have in common."""
    c = s.candidate
    draft: dict[str, Any] = {
        "body": c.text,
        "type": s.judgement.type,
        "tags": [TAG, ORIGINS[c.role]],
        "paths": [*c.paths],
        "source": c.source,
        "agent": c.agent,
        "session": c.session,
        "author": c.author,
        "confidence": s.judgement.confidence,
        "commit": (store.repo.commit(c.commit) if c.commit else None) or store.repo.head(),
    }
    with suppress(Refused):  # a commit or a client's file may have any time
        draft["created_at"] = record.timestamp(c.at) if c.at else ""
    draft = {name: value for name, value in draft.items() if value not in ("", [], None)}
    # Also where it is "": the worker stands in the main worktree, and later, so today's branch
    # there does not say where this was said.
    draft["branch"] = "" if redact.holds(c.branch) else c.branch
    return draft


# --- judging ----------------------------------------------------------------


def _judged(
    store: Store,
    given: list[Candidate],
    outcomes: list[Outcome],
    ask: Ask | None,
    model: linear.Model | None,
) -> list[_Selected]:
    """The candidates worth keeping. One with a secret, or a known source, costs no judgement."""
    known = duplicates.known_sources(store, [c.source for c in given if c.source])
    excluded = capture_exclusions.Closed(store.repo.common_dir)
    auto, suggest = thresholds(store)
    selected: list[_Selected] = []
    with store.progress("judging", len(given)) as advance:
        for place, c in enumerate(counted(given, advance)):
            if c.source and c.source in known:
                outcomes[place] = Outcome(KNOWN, known[c.source], "this source is known")
            elif c.role == COMMIT and excluded.has(capture_exclusions.origin(c.source)):
                outcomes[place] = Outcome(KNOWN, reason="what it said was purged")
            elif redact.check({"body": c.text, "paths": [*c.paths]}) or redact.holds(
                c.session, c.author, c.agent
            ):
                outcomes[place] = Outcome(REFUSED, reason="it looks like it holds a secret")
            else:
                found = _Selected(place, c, _judge(c, ask, model, auto, suggest))
                outcomes[place] = _outcome(found, SKIPPED)
                if found.judgement.keep:
                    selected.append(found)
            if c.source:
                known.setdefault(c.source, "")  # told twice in one batch
    return selected


def _judge(
    c: Candidate, ask: Ask | None, model: linear.Model | None, auto: float, suggest: float
) -> Judgement:
    if c.explicit:
        tier = classify.AUTO if auto <= signals.EXPLICIT else classify.SUGGEST
        return Judgement(c.type, signals.EXPLICIT, tier, "rules")
    if c.role == TOOL:
        return _judge_tool(ask(c.role, c.text) if ask else None, auto)
    commit = c.role == COMMIT
    from_here = suggest + _COMMIT_MARGIN if commit else suggest
    judged = classify.judge(c.role, c.text, ask=ask, auto=auto, suggest=from_here, model=model)
    if commit and c.type == "dead-end" and suggest <= _REVERT > judged.confidence:
        return Judgement(c.type, _REVERT, classify.SUGGEST, "rules")
    if not judged.keep:
        return judged
    if commit and judged.stage != "rules":  # one without a marker is at most suggested
        most = max(_COMMIT_MOST, suggest)
        judged = judged._replace(
            confidence=min(judged.confidence, most),
            score=min(judged.score or 0.0, most),
            tier=classify.SUGGEST,
        )
    return judged._replace(type=c.type or judged.type)


def _judge_tool(opinion: Opinion | None, auto: float) -> Judgement:
    """The linear model knows words of people and models, not the purpose of an edit: a language
    model alone decides, and only to suggest.
    """
    if opinion is None:
        return Judgement("change", 0.0, classify.SKIP, "rules")
    tier = classify.SUGGEST if opinion.keep >= _TOOL else classify.SKIP
    confidence = min(opinion.keep, auto - 0.01)
    return Judgement(opinion.type or "change", confidence, tier, "llm")


def thresholds(store: Store) -> tuple[float, float]:
    """`mem.captureAuto` and `mem.captureSuggest`."""
    return store.settings.share("captureAuto"), store.settings.share("captureSuggest")


def _new(
    store: Store, selected: list[_Selected], outcomes: list[Outcome], auto: Collection[str]
) -> list[_Selected]:
    """The candidates that say something new, with what they change. `auto`: the tiers that are
    stored.
    """
    answers = [s.candidate.text for s in selected if s.candidate.role == ASSISTANT]
    retold = duplicates.retold(store, answers)
    known = duplicates.Known(store, [s.candidate.text for s in selected])
    new: list[_Selected] = []
    with store.progress("comparing", len(selected)) as advance:
        for s in counted(selected, advance):
            if s.candidate.role == ASSISTANT and s.candidate.text in retold:
                s = s._replace(judgement=s.judgement._replace(tier=classify.SUGGEST))
            j = s.judgement
            found = known.compare(s.candidate.text, j.type, s.place, sure=j.tier in auto)
            if found.reason:
                outcomes[s.place] = Outcome(KNOWN, found.known, found.reason)
            else:
                old = found.replaces
                new.append(s._replace(changes=found.changes, proposes=bool(old), old=old))
    return new


def _resolved(s: _Selected, outcomes: list[Outcome]) -> _Selected:
    """With the memory that came of the candidate which it changes, if one did."""
    if s.changes < 0 or outcomes[s.changes].status != KEPT:
        return s
    return s._replace(proposes=True, old=outcomes[s.changes].id)
