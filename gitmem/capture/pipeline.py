"""Decides what becomes of a candidate: kept as a private memory, suggested, or nothing.

Promise (P4, P5, P6): what is kept by itself lies in the private notes, body verbatim, with its
source, agent, session, confidence and tags that say where it came from; a text with a secret
becomes nothing. Nothing is kept twice: not the same source, not the same text in other clothes, not
what a stored memory says already, and not what was forgotten or rejected, nor a commit's line or a
long text whose memory was purged (a short one is not known any more: `capture_exclusions`). A
decision that changes an older one leaves that as it is and proposes to supersede it.

Nothing is signed: a worker can ask nobody for a passphrase.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from ..core import record, redact
from ..engine.cache import Cache
from ..engine.document import FORGOTTEN, content_digest
from ..memory import remember, similarity
from ..store import Store
from . import capture_exclusions, classify, linear, suggestions
from .classify import Ask, Judgement
from .sources import ASSISTANT, COMMIT, TOOL, USER, Candidate

TAG = "captured"  # on every memory that capture kept or suggested; beside it where it came from
ORIGINS = {USER: "from-prompt", ASSISTANT: "from-answer", COMMIT: "from-commit", TOOL: "from-tool"}
TITLED = "title-by-model"
KEPT, SUGGESTED, KNOWN, REFUSED, SKIPPED = "kept", "suggested", "known", "refused", "skipped"
BEYOND = "others are surer"  # why a suggestion was left out
EXPLICIT = 0.97  # confidence of what its author marked
# more confidence that a message must have to be suggested: judged by what was measured on turns, it
# is too sure of itself (docs/evaluation.md)
_COMMIT = 0.2
# confidence of any other that is suggested: 40 of 60 that were read, whatever more the model says
_READ = 0.67
# confidence of a revert that says why: of 34 that were read 20 were worth keeping; the linear model
# alone offers 2
_REVERT = 0.6
_TOOL = 0.9  # probability by a language model from which an edit is worth a suggestion
_PROPOSED = 300  # suggestions among which the same is looked for
_FORGOTTEN = 5_000  # forgotten texts among which the same is looked for, the last ones
_FORGOTTEN_WORDS = 500  # ... and the same in other words
_NEAR_BY = 50  # candidates of one run among which a repeat in other words is looked for
_LONG = 120  # characters of a text that needs a title
_TITLE = 120  # characters of one
_NAMING = 60.0  # seconds in which one run may ask for titles
# seconds in which one run may ask a language model; what is left then has the judgement of the
# stages before it
_ASKING = 240.0


Titler = Callable[[str, str, str], str]


class Outcome(NamedTuple):
    """What became of one candidate; `id` of the memory or the suggestion, `old` of the memory that
    it proposes to supersede.
    """

    status: str
    id: str = ""
    reason: str = ""
    old: str = ""
    type: str = ""
    confidence: float = 0.0
    stage: str = ""


class _Wanted:
    """A candidate worth keeping."""

    __slots__ = ("candidate", "judgement", "old", "place", "title")

    def __init__(self, place: int, candidate: Candidate, judgement: Judgement) -> None:
        self.place = place
        self.candidate = candidate
        self.judgement = judgement
        self.old = ""
        self.title = ""  # in the words of a model


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
    """Judges candidates, stores what is AUTO, proposes what is SUGGEST (`suggestions.propose`); one
    outcome each, in order.

    `title` words a title for (role, text, type), "" for none. `most`: how many suggestions at most,
    the surest; the others are skipped. `dry` judges and compares, and writes nothing."""
    given = list(candidates)
    out = [Outcome(SKIPPED)] * len(given)
    wanted = _judged(store, given, out, _bounded(ask), model)
    while wanted:
        new, wanted = _new(store, wanted, out)
        if title and not dry:
            _name(new, title)
        sure = [w for w in new if not w.old and w.judgement.tier == classify.AUTO]
        rest = sorted((w for w in new if w not in sure), key=lambda w: -w.judgement.confidence)
        if most is not None:
            for w in rest[most:]:
                out[w.place] = _outcome(w, SKIPPED, "", BEYOND)
            rest = rest[:most]
            most -= len(rest)
        if dry:
            out_of = [
                (w, _outcome(w, KEPT if w in sure else SUGGESTED, "")) for w in [*sure, *rest]
            ]
        else:
            out_of = [*_store(store, sure, scope), *_propose(store, rest)]
        for w, outcome in out_of:
            out[w.place] = outcome
    return out


def _store(store: Store, sure: list[_Wanted], scope: str) -> list[tuple[_Wanted, Outcome]]:
    drafts = [
        {**_draft(store, w), "scope": scope, "provenance": _provenance(w.candidate)} for w in sure
    ]
    results = remember.remember(store, drafts, sign=False) if drafts else []
    return [
        (
            w,
            _outcome(
                w,
                {remember.STORED: KEPT, remember.DUPLICATE: KNOWN}.get(r.status, REFUSED),
                r.id,
                r.reason,
            ),
        )
        for w, r in zip(sure, results, strict=True)
    ]


def _propose(store: Store, rest: list[_Wanted]) -> list[tuple[_Wanted, Outcome]]:
    drafts = [
        {
            **_draft(store, w, full=True),
            "stage": w.judgement.stage,
            "role": w.candidate.role,
            "supersedes": [w.old] if w.old else [],
        }
        for w in rest
    ]
    results = suggestions.propose(store, drafts) if drafts else []
    return [
        (
            w,
            _outcome(
                w,
                {remember.STORED: SUGGESTED, remember.DUPLICATE: KNOWN}.get(r.status, REFUSED),
                r.id,
                r.reason,
            ),
        )
        for w, r in zip(rest, results, strict=True)
    ]


def _outcome(w: _Wanted, status: str, id: str, reason: str = "") -> Outcome:
    return Outcome(
        status,
        id,
        reason,
        w.old if status == SUGGESTED else "",
        w.judgement.type,
        w.judgement.confidence,
        w.judgement.stage,
    )


# --- judging ----------------------------------------------------------------


def _judged(
    store: Store,
    given: list[Candidate],
    out: list[Outcome],
    ask: Ask | None,
    model: linear.Model | None,
) -> list[_Wanted]:
    """Those worth keeping. What has a secret, and what was looked at before, costs no judgement."""
    known = _sources(store, [c.source for c in given if c.source])
    shut = capture_exclusions.Closed(store.repo.common_dir)
    auto, suggest = thresholds(store)
    wanted: list[_Wanted] = []
    for place, c in enumerate(given):
        if c.source and c.source in known:
            out[place] = Outcome(KNOWN, known[c.source], "this source is known")
        elif c.role == COMMIT and shut.has(capture_exclusions.origin(c.source)):
            out[place] = Outcome(KNOWN, reason="what it said was purged")
        elif redact.check({"body": c.text, "paths": c.paths}) or _named_by_a_secret(
            c.session, c.author, c.agent
        ):
            out[place] = Outcome(REFUSED, reason="it looks like it holds a secret")
        else:
            judgement = _judge(c, ask, model, auto, suggest)
            out[place] = Outcome(
                SKIPPED, "", "", "", judgement.type, judgement.confidence, judgement.stage
            )
            if judgement.keep:
                wanted.append(_Wanted(place, c, judgement))
        if c.source:
            known.setdefault(c.source, "")  # told twice in one batch
    return wanted


@lru_cache(1024)
def _named_by_a_secret(session: str, author: str, agent: str) -> bool:
    """Whether what names its speaker does: the session is part of the source."""
    return bool(redact.check({"session": session, "author": author, "agent": agent}))


def _judge(
    c: Candidate, ask: Ask | None, model: linear.Model | None, auto: float, suggest: float
) -> Judgement:
    if c.explicit:
        return Judgement(
            True,
            c.type,
            EXPLICIT,
            classify.AUTO if auto <= EXPLICIT else classify.SUGGEST,
            "rules",
            c.title,
        )
    if c.role == TOOL:
        return _judge_tool(ask(c.role, c.text) if ask else None, auto)
    found = classify.judge(
        c.role,
        c.text,
        ask=ask,
        auto=auto,
        suggest=suggest + _COMMIT if c.role == COMMIT else suggest,
        model=model,
    )
    if c.role == COMMIT and c.type == "dead-end" and suggest <= _REVERT > found.confidence:
        return found._replace(
            keep=True, type=c.type, confidence=_REVERT, tier=classify.SUGGEST, stage="rules"
        )
    if c.role == COMMIT and found.keep and found.stage != "rules":
        return found._replace(
            type=c.type or found.type,
            confidence=min(found.confidence, max(_READ, suggest)),
            tier=classify.SUGGEST,
        )
    return found._replace(type=c.type) if c.type and found.keep else found


def _judge_tool(opinion: classify.Opinion | None, auto: float) -> Judgement:
    """The linear model knows what people and models say, not what an edit was for: a language model
    alone decides, and only to suggest.
    """
    keep = opinion is not None and opinion.keep >= _TOOL
    return Judgement(
        keep,
        (opinion.type if opinion else "") or "change",
        min(opinion.keep, auto - 0.01) if opinion else 0.0,
        classify.SUGGEST if keep else classify.SKIP,
        "llm" if opinion else "rules",
    )


def _name(wanted: list[_Wanted], title: Titler) -> None:
    """Titles for long texts; the first line of a short one says as much."""
    end = time.monotonic() + _NAMING
    for w in wanted:
        if (
            len(w.candidate.text) > _LONG
            and not w.candidate.title
            and not w.judgement.title
            and time.monotonic() < end
        ):
            found = " ".join(title(w.candidate.role, w.candidate.text, w.judgement.type).split())[
                :_TITLE
            ]
            w.title = "" if redact.find(found) else found


def _bounded(ask: Ask | None) -> Ask | None:
    """`ask` for as long as a worker may take."""
    if ask is None:
        return None
    end = time.monotonic() + _ASKING
    return lambda role, text: ask(role, text) if time.monotonic() < end else None


def thresholds(store: Store) -> tuple[float, float]:
    """`mem.captureAuto` and `mem.captureSuggest`."""
    return store.settings.share("captureAuto"), store.settings.share("captureSuggest")


# --- knowing ----------------------------------------------------------------


def _sources(store: Store, wanted: list[str]) -> dict[str, str]:
    """{source: id} of what is stored or proposed already, whatever became of it since."""
    asked = sorted(set(wanted))

    def read(cache: Cache) -> dict[str, str]:
        found: dict[str, str] = {}
        for at in range(0, len(asked), 500):
            part = asked[at : at + 500]
            found.update(
                cache.db.execute(
                    f"SELECT source, id FROM memory WHERE source IN ({','.join('?' * len(part))})",
                    part,
                )
            )
        everything = set(asked)
        found.update(
            (s.text("source"), s.id)
            for s in suggestions.stored(cache).values()
            if s.text("source") in everything
        )
        return found

    return store.with_cache(read)[0] if asked else {}


def _new(
    store: Store, wanted: list[_Wanted], out: list[Outcome]
) -> tuple[list[_Wanted], list[_Wanted]]:
    """(those that say something that nothing stored or proposed says, those to look at again after
    these are stored: they change one of them).

    `old` is set where one takes the place of a memory.
    """
    texts = [w.candidate.text for w in wanted]

    def read(
        cache: Cache,
    ) -> tuple[list[list[tuple[float, dict[str, Any]]]], list[str], list[suggestions.Suggestion]]:
        # By the text alone: the title may have been a model's.
        hidden = cache.db.execute(
            f"SELECT l.raw FROM memory m JOIN line l ON l.n = m.line WHERE m.status = {FORGOTTEN}"
            f" ORDER BY m.row DESC LIMIT {_FORGOTTEN}"
        )
        gone = [
            r.data["body"]
            for (raw,) in hidden
            if (r := record.parse(raw)) and isinstance(r.data.get("body"), str)
        ]
        proposed = sorted(suggestions.stored(cache).values(), key=lambda s: s.text("at"))[
            -_PROPOSED:
        ]
        return similarity.Neighbours(cache, store.table).of(texts), gone, proposed

    nearest, gone, proposed = store.with_cache(read)[0]
    forgotten = {content_digest("", text) for text in gone}
    left: list[_Wanted] = []
    later: list[_Wanted] = []
    said: dict[str, _Wanted] = {}
    for w, found in zip(wanted, nearest, strict=True):
        text = w.candidate.text
        if content_digest("", text) in forgotten or any(
            similarity.repeats(text, old) for old in gone[:_FORGOTTEN_WORDS]
        ):
            out[w.place] = Outcome(KNOWN, "", "it was forgotten")
            continue
        same = next(
            (
                str(data["id"])
                for near, data in found
                if near >= similarity.NEAR and similarity.repeats(text, str(data["body"]))
            ),
            "",
        )
        waits = next((s for s in proposed if similarity.repeats(text, s.body)), None)
        twin = said.get(similarity.normal(text)) or next(
            (other for other in left[-_NEAR_BY:] if similarity.repeats(text, other.candidate.text)),
            None,
        )
        if same or waits or twin:
            out[w.place] = Outcome(
                KNOWN,
                same or (waits.id if waits else ""),
                (
                    "a memory says it already"
                    if same
                    else f"it was proposed, and is {waits.state}"
                    if waits
                    else "it was said twice"
                ),
            )
            continue
        if w.judgement.type in similarity.STANDING:
            w.old = next(
                (
                    str(data["id"])
                    for near, data in found
                    if data.get("type") in similarity.STANDING
                    and similarity.changes(text, str(data["body"]), near)
                ),
                "",
            )
            if not w.old and any(_revises(store, text, other) for other in left[-_NEAR_BY:]):
                later.append(w)
                continue
        left.append(w)
        said[similarity.normal(text)] = w
    return left, later


def _revises(store: Store, text: str, other: _Wanted) -> bool:
    """Whether a text changes what was said before it in the same run."""
    if other.judgement.type not in similarity.STANDING or not similarity.changes(
        text, other.candidate.text, 1.0
    ):
        return False
    return similarity.changes(
        text, other.candidate.text, similarity.near(store.table, text, other.candidate.text)
    )


# --- drafts -----------------------------------------------------------------


def _draft(store: Store, w: _Wanted, full: bool = False) -> dict[str, Any]:
    """The fields of a memory or, `full`, of a suggestion, which has no other time than its own."""
    c, j = w.candidate, w.judgement
    title = w.title or (j.title if j.stage == "llm" else "")
    tags = [TAG, ORIGINS[c.role], *([TITLED] if title and not c.title else [])]
    draft: dict[str, Any] = {
        "body": c.text,
        "title": (c.title or title or j.title)[:300],
        "type": j.type,
        "tags": tags,
        "paths": c.paths,
        "source": c.source,
        "agent": c.agent,
        "session": c.session,
        "author": c.author,
        "confidence": j.confidence,
    }
    # The worker stands in the main worktree, and later: today's branch there says nothing of where
    # this was said.
    draft["commit"] = (store.repo.commit(c.commit) if c.commit else None) or store.repo.head() or ""
    draft["branch"] = c.branch if not redact.check({"branch": c.branch}) else ""
    if not full and c.at:
        draft["created_at"] = c.at
    return {k: v for k, v in draft.items() if k == "branch" or v not in ("", [], None)}


def _provenance(c: Candidate) -> str:
    """What a person said or wrote can be cited; what a model says of its own work nobody has
    checked.
    """
    return "CITED" if c.role in (USER, COMMIT) else "ASSUMED"
