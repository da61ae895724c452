"""Decides about each candidate: a private memory, a suggestion, or nothing.

Promise: a text that is kept without a person lies in the private notes, body verbatim,
with its source, agent, session, confidence and tags that say where it came from; a text with a
secret becomes nothing. Nothing is kept twice: not the same source, not a text that a memory, a
suggestion, a forgotten memory or another text of the run says already (`duplicates`), nor a line of
a commit whose memory was purged (`capture_exclusions`). A decision that changes an older one leaves
the older as it is and proposes to supersede it.

Nothing is signed: a worker can ask nobody for a passphrase.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from ..core import redact
from ..memory import remember
from ..memory.remember import Result
from ..store import Store
from . import capture_exclusions, classify, duplicates, linear, suggestions
from .classify import Ask, Judgement
from .sources import ASSISTANT, COMMIT, TOOL, USER, Candidate

TAG = "captured"  # on every memory that capture kept or suggested; beside it where it came from
ORIGINS = {USER: "from-prompt", ASSISTANT: "from-answer", COMMIT: "from-commit", TOOL: "from-tool"}
TITLED = "title-by-model"
KEPT, SUGGESTED, KNOWN, REFUSED, SKIPPED = "kept", "suggested", "known", "refused", "skipped"
BEYOND = "others are surer"  # reason of a suggestion that was left out
EXPLICIT = 0.97  # confidence of a text that its author marked
# Added to `mem.captureSuggest` for commits: judged by what was measured on turns, the model is too
# sure of them (docs/evaluation.md).
_COMMIT_MARGIN = 0.2
# Highest confidence of a commit that is suggested: 40 of 60 that were read were worth keeping.
_COMMIT_MOST = 0.67
# Confidence of a revert that says why: of 34 that were read 20 were worth keeping; the linear model
# alone offers 2.
_REVERT = 0.6
_TOOL = 0.9  # a language model's probability from which an edit is worth a suggestion
_LONG = 120  # characters of a text that needs a title
_TITLE = 120  # characters of one
_NAMING_SECONDS = 60.0  # in which one run may ask for titles
# In which one run may ask a language model; the other texts have the judgement of the stages
# before.
_ASKING_SECONDS = 240.0


Titler = Callable[[str, str, str], str]


class Outcome(NamedTuple):
    """What became of one candidate. `id`: of the memory or suggestion; `old`: of the memory that it
    proposes to supersede.
    """

    status: str
    id: str = ""
    reason: str = ""
    old: str = ""
    type: str = ""
    confidence: float = 0.0
    stage: str = ""


class _Selected:
    """A candidate worth keeping. `old`: the memory whose place it takes; `title`: a model's."""

    __slots__ = ("candidate", "judgement", "old", "place", "title")

    def __init__(self, place: int, candidate: Candidate, judgement: Judgement) -> None:
        self.place = place
        self.candidate = candidate
        self.judgement = judgement
        self.old = ""
        self.title = ""


def keep(
    store: Store,
    candidates: Iterable[Candidate],
    *,
    ask: Ask | None = None,
    title: Titler | None = None,
    model: linear.Model | None = None,
    scope: str = "private",
    most: int | None = None,
    dry: bool = False,
) -> list[Outcome]:
    """Judges candidates, stores the AUTO ones, suggests the SUGGEST ones; one outcome each, in
    order.

    `title` words a title for (role, text, type), "" for none. `most`: how many suggestions at most,
    the surest; the others are skipped. `dry` judges and compares, and writes nothing.
    """
    given = list(candidates)
    outcomes = [Outcome(SKIPPED)] * len(given)
    selected = _judged(store, given, outcomes, _bounded(ask), model)
    while selected:
        new, selected = _new(store, selected, outcomes)
        if title and not dry:
            _name(new, title)
        sure = [s for s in new if not s.old and s.judgement.tier == classify.AUTO]
        unsure = sorted((s for s in new if s not in sure), key=lambda s: -s.judgement.confidence)
        if most is not None:
            for s in unsure[most:]:
                outcomes[s.place] = _outcome(s, SKIPPED, "", BEYOND)
            unsure = unsure[:most]
            most -= len(unsure)
        if dry:
            done = [(s, _outcome(s, KEPT if s in sure else SUGGESTED, "")) for s in sure + unsure]
        else:
            done = [*_store(store, sure, scope), *_propose(store, unsure)]
        for s, outcome in done:
            outcomes[s.place] = outcome
    return outcomes


def _store(store: Store, sure: list[_Selected], scope: str) -> list[tuple[_Selected, Outcome]]:
    drafts = []
    for s in sure:
        # A person's words can be cited; a model's words about its own work nobody has checked.
        provenance = "CITED" if s.candidate.role in (USER, COMMIT) else "ASSUMED"
        draft = {**_draft(store, s), "scope": scope, "provenance": provenance}
        if s.candidate.at:
            draft["created_at"] = s.candidate.at
        drafts.append(draft)
    results = remember.remember(store, drafts, sign=False) if drafts else []
    return _outcomes(sure, results, KEPT)


def _propose(store: Store, unsure: list[_Selected]) -> list[tuple[_Selected, Outcome]]:
    drafts = []
    for s in unsure:
        learning = {"score": s.judgement.score, "p_skip": s.judgement.p_skip}
        drafts.append(
            {
                **_draft(store, s),
                **{name: value for name, value in learning.items() if value is not None},
                "stage": s.judgement.stage,
                "role": s.candidate.role,
                "supersedes": [s.old] if s.old else [],
            }
        )
    results = suggestions.propose(store, drafts) if drafts else []
    return _outcomes(unsure, results, SUGGESTED)


def _outcomes(
    selected: list[_Selected], results: list[Result], stored: str
) -> list[tuple[_Selected, Outcome]]:
    status = {remember.STORED: stored, remember.DUPLICATE: KNOWN}
    return [
        (s, _outcome(s, status.get(r.status, REFUSED), r.id, r.reason))
        for s, r in zip(selected, results, strict=True)
    ]


def _outcome(s: _Selected, status: str, id: str, reason: str = "") -> Outcome:
    old = s.old if status == SUGGESTED else ""
    return Outcome(
        status, id, reason, old, s.judgement.type, s.judgement.confidence, s.judgement.stage
    )


# --- judging ----------------------------------------------------------------


def _judged(
    store: Store,
    given: list[Candidate],
    outcomes: list[Outcome],
    ask: Ask | None,
    model: linear.Model | None,
) -> list[_Selected]:
    """The candidates worth keeping. One with a secret, or from a known source, costs no
    judgement.
    """
    known = duplicates.known_sources(store, [c.source for c in given if c.source])
    excluded = capture_exclusions.Closed(store.repo.common_dir)
    auto, suggest = thresholds(store)
    selected: list[_Selected] = []
    for place, c in enumerate(given):
        if c.source and c.source in known:
            outcomes[place] = Outcome(KNOWN, known[c.source], "this source is known")
        elif c.role == COMMIT and excluded.has(capture_exclusions.origin(c.source)):
            outcomes[place] = Outcome(KNOWN, reason="what it said was purged")
        elif redact.check({"body": c.text, "paths": c.paths}) or _secret_in_names(
            c.session, c.author, c.agent
        ):
            outcomes[place] = Outcome(REFUSED, reason="it looks like it holds a secret")
        else:
            judgement = _judge(c, ask, model, auto, suggest)
            outcomes[place] = Outcome(
                SKIPPED, "", "", "", judgement.type, judgement.confidence, judgement.stage
            )
            if judgement.keep:
                selected.append(_Selected(place, c, judgement))
        if c.source:
            known.setdefault(c.source, "")  # told twice in one batch
    return selected


@lru_cache(1024)
def _secret_in_names(session: str, author: str, agent: str) -> bool:
    """Whether the names beside a text look like a secret: the session is part of the source."""
    return bool(redact.check({"session": session, "author": author, "agent": agent}))


def _judge(
    c: Candidate, ask: Ask | None, model: linear.Model | None, auto: float, suggest: float
) -> Judgement:
    if c.explicit:
        tier = classify.AUTO if auto <= EXPLICIT else classify.SUGGEST
        return Judgement(True, c.type, EXPLICIT, tier, "rules", c.title)
    if c.role == TOOL:
        return _judge_tool(ask(c.role, c.text) if ask else None, auto)
    if c.role == COMMIT:
        return _judge_commit(c, ask, model, auto, suggest)
    judged = classify.judge(c.role, c.text, ask=ask, auto=auto, suggest=suggest, model=model)
    return judged._replace(type=c.type) if c.type and judged.keep else judged


def _judge_commit(
    c: Candidate, ask: Ask | None, model: linear.Model | None, auto: float, suggest: float
) -> Judgement:
    """A commit without a marker is at most suggested."""
    judged = classify.judge(
        c.role, c.text, ask=ask, auto=auto, suggest=suggest + _COMMIT_MARGIN, model=model
    )
    if c.type == "dead-end" and suggest <= _REVERT > judged.confidence:
        return Judgement(True, c.type, _REVERT, classify.SUGGEST, "rules", judged.title)
    if not judged.keep:
        return judged
    if judged.stage == "rules":
        return judged._replace(type=c.type or judged.type)
    most = max(_COMMIT_MOST, suggest)
    return judged._replace(
        type=c.type or judged.type,
        confidence=min(judged.confidence, most),
        score=min(judged.score or 0.0, most),
        tier=classify.SUGGEST,
    )


def _judge_tool(opinion: classify.Opinion | None, auto: float) -> Judgement:
    """The linear model knows words of people and models, not the purpose of an edit: a language
    model alone decides, and only to suggest.
    """
    if opinion is None:
        return Judgement(False, "change", 0.0, classify.SKIP, "rules")
    keep = opinion.keep >= _TOOL
    tier = classify.SUGGEST if keep else classify.SKIP
    confidence = min(opinion.keep, auto - 0.01)
    return Judgement(keep, opinion.type or "change", confidence, tier, "llm")


def _name(selected: list[_Selected], title: Titler) -> None:
    """Titles for long texts; the first line of a short one says as much."""
    end = time.monotonic() + _NAMING_SECONDS
    for s in selected:
        titled = s.candidate.title or s.judgement.title
        if len(s.candidate.text) > _LONG and not titled and time.monotonic() < end:
            words = title(s.candidate.role, s.candidate.text, s.judgement.type).split()
            found = " ".join(words)[:_TITLE]
            s.title = "" if redact.find(found) else found


def _bounded(ask: Ask | None) -> Ask | None:
    """`ask` for as long as a worker may take."""
    if ask is None:
        return None
    end = time.monotonic() + _ASKING_SECONDS
    return lambda role, text: ask(role, text) if time.monotonic() < end else None


def thresholds(store: Store) -> tuple[float, float]:
    """`mem.captureAuto` and `mem.captureSuggest`."""
    return store.settings.share("captureAuto"), store.settings.share("captureSuggest")


def _new(
    store: Store, selected: list[_Selected], outcomes: list[Outcome]
) -> tuple[list[_Selected], list[_Selected]]:
    """(the candidates that say something new, those to compare again after these are stored: they
    change one of them).
    """
    known = duplicates.Known(store, [s.candidate.text for s in selected])
    new: list[_Selected] = []
    later: list[_Selected] = []
    for s in selected:
        found = known.compare(s.candidate.text, s.judgement.type)
        if found.reason:
            outcomes[s.place] = Outcome(KNOWN, found.known, found.reason)
        elif found.waits:
            later.append(s)
        else:
            s.old = found.replaces
            new.append(s)
    return new, later


def _draft(store: Store, s: _Selected) -> dict[str, Any]:
    """The fields that a memory and a suggestion have in common."""
    c, j = s.candidate, s.judgement
    title = s.title or (j.title if j.stage == "llm" else "")
    draft: dict[str, Any] = {
        "body": c.text,
        "title": (c.title or title or j.title)[:300],
        "type": j.type,
        "tags": [TAG, ORIGINS[c.role], *([TITLED] if title and not c.title else [])],
        "paths": c.paths,
        "source": c.source,
        "agent": c.agent,
        "session": c.session,
        "author": c.author,
        "confidence": j.confidence,
        "commit": (store.repo.commit(c.commit) if c.commit else None) or store.repo.head(),
    }
    draft = {name: value for name, value in draft.items() if value not in ("", [], None)}
    # Also where it is "": the worker stands in the main worktree, and later, so today's branch
    # there does not say where this was said.
    draft["branch"] = c.branch if not redact.check({"branch": c.branch}) else ""
    return draft
