"""Judges one turn: rules first, then the linear model, then a language model if there is one.

A rule that sees an explicit marker ("remember this", `Decision:`) keeps the turn; a rule that sees
a form which is never a memory (a question, an order, an acknowledgement) ends it. Every other turn
has the calibrated confidence of the linear model. A language model is asked where its answer can
change something: its P(skip) moves the confidence by a weight that `git mem calibrate` fits to the
user's verdicts, and its types are added to those of the linear model.

Promise: never raises on any text; without a language model under a millisecond a turn; no answer of
the language model (none installed, deadline, crash) leaves the judgement of the linear model. Only
a turn for which the packaged model is sure is AUTO: neither verdicts nor a language model add to
these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log
from typing import NamedTuple

from . import linear, signals, strip

AUTO, SUGGEST, SKIP = "AUTO", "SUGGEST", "SKIP"
# From this confidence on a language model's P(skip) may decide; a turn below is skipped.
UNSURE_FROM = 0.2
# Weight of a language model's types beside those of the linear model. Types right of 189 turns
# whose repositories the linear model had not seen, with Qwen2.5-Coder-0.5B: 0.476 without it, 0.519
# with it. Chosen on the first 158: 0.3 gave 0.532, 0.5 0.551, 0.7 0.538.
LLM_TYPES_WEIGHT = 0.5
_BELOW_AUTO = 0.001


class Opinion(NamedTuple):
    """A language model's answer: the probability that the turn is worth keeping (1 - P(skip)), its
    type, a title ("" for none), and the share of each type.
    """

    keep: float
    type: str = ""
    title: str = ""
    types: Mapping[str, float] | None = None


class Judgement(NamedTuple):
    """`keep` is `tier != SKIP`; `type` is the likeliest type also of a skipped turn; `stage` is the
    stage that decided last: rules, linear or llm.

    `score`: the packaged model's confidence, None where a rule decided; `p_skip`: the language
    model's P(skip), None where it was not asked. `calibrate` learns from both.
    """

    keep: bool
    type: str
    confidence: float
    tier: str
    stage: str
    title: str = ""
    score: float | None = None
    p_skip: float | None = None


Ask = Callable[[str, str], Opinion | None]


def judge(
    role: str,
    text: str,
    *,
    ask: Ask | None = None,
    auto: float = 0.95,
    suggest: float = 0.5,
    model: linear.Model | None = None,
) -> Judgement:
    """Whether to keep a turn of `role` ("user", "assistant", "commit", "tool").

    `text` may be raw: `strip.cleaned` is applied here too. `auto` and `suggest` are the settings
    `mem.captureAuto` and `mem.captureSuggest`. An explicit marker is kept whatever the thresholds
    are.
    """
    text = strip.cleaned(text)
    if not text:
        return Judgement(False, "", 0.0, SKIP, "rules")
    model = model or linear.load()
    signal = signals.read(role, text)
    if signal and signal.kind == "empty":
        return Judgement(False, _likeliest(model, role, text), signal.confidence, SKIP, "rules")
    if signal and signal.kind == "explicit":
        return Judgement(True, signal.type, max(signal.confidence, auto), AUTO, "rules")
    score = model.confidence(model.score(role, text), role)
    confidence = model.calibrated(score)
    if signal and signal.confidence > confidence:
        judged = Judgement(True, signal.type, signal.confidence, "", "rules")
    else:
        type = _likeliest(model, role, text)
        judged = Judgement(True, type, confidence, "", "linear", score=score)
    if ask and judged.confidence >= (UNSURE_FROM if model.calibration.llm else suggest):
        judged = _with_opinion(judged, ask(role, text), model, role, text)
    if judged.score is not None and judged.score < auto <= judged.confidence:
        judged = judged._replace(confidence=max(judged.score, auto - _BELOW_AUTO))
    confidence = judged.confidence
    tier = AUTO if confidence >= auto else SUGGEST if confidence >= suggest else SKIP
    return judged._replace(tier=tier, keep=tier != SKIP)


def _with_opinion(
    judged: Judgement, opinion: Opinion | None, model: linear.Model, role: str, text: str
) -> Judgement:
    """The judgement after the language model's answer, None for no answer."""
    if opinion is None:
        return judged
    changed = judged._replace(title=opinion.title)
    if judged.score is not None:
        p_skip = 1 - opinion.keep
        confidence = model.calibrated(judged.score, p_skip)
        type = judged.type
        if opinion.types:
            type = _likeliest_by_both(model.types(role, text), opinion.types)
        changed = changed._replace(confidence=confidence, type=type)
        judged, changed = (j._replace(p_skip=p_skip) for j in (judged, changed))
    return changed._replace(stage="llm") if changed != judged else judged


def _likeliest_by_both(linear_types: Mapping[str, float], llm_types: Mapping[str, float]) -> str:
    return max(
        linear_types,
        key=lambda t: (
            log(linear_types[t] + 1e-4) + LLM_TYPES_WEIGHT * log(llm_types.get(t, 0.0) + 1e-4)
        ),
    )


def _likeliest(model: linear.Model, role: str, text: str) -> str:
    shares = model.types(role, text)
    return max(shares, key=lambda name: shares[name])
