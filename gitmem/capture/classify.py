"""Judges one turn: rules first, then the linear model, then a language model if there is one.

A rule that sees an explicit marker ("remember this", `Decision:`) keeps the turn; a rule that sees
a form which is never a memory (a question, an order, an acknowledgement) ends it. Every other turn
has the calibrated confidence of the linear model. A language model is asked where its answer can
change something: its P(skip) moves the confidence by a weight that `git mem calibrate` fits to the
user's verdicts, and its types are added to those of the linear model.

Promise: never raises on any text; without a language model under a millisecond a turn. Only a turn
for which the packaged model is sure is AUTO: neither verdicts nor a language model add to these. A
blocker that nobody marked as one is a suggestion at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log
from typing import NamedTuple

from ..models.promptform import Opinion
from . import linear, signals, strip

AUTO, SUGGEST, SKIP = "AUTO", "SUGGEST", "SKIP"
# From this confidence on a language model's P(skip) may decide; a turn below is skipped.
UNSURE_FROM = 0.2
# Weight of a language model's types beside those of the linear model. Types right of 189 turns
# whose repositories the linear model had not seen, with Qwen2.5-Coder-0.5B: 0.476 without it, 0.519
# with it. Chosen on the first 158: 0.3 gave 0.532, 0.5 0.551, 0.7 0.538.
LLM_TYPES_WEIGHT = 0.5
_BELOW_AUTO = 0.001

Ask = Callable[[str, str], Opinion | None]


class Judgement(NamedTuple):
    """`type` is the likeliest type also of a skipped turn; `stage` is the stage that decided last:
    rules, linear or llm.

    `score`: the packaged model's confidence, None where a rule decided; `p_skip`: the language
    model's P(skip), None where it was not asked. `calibrate` learns from both.
    """

    type: str
    confidence: float
    tier: str
    stage: str
    score: float | None = None
    p_skip: float | None = None

    @property
    def keep(self) -> bool:
        return self.tier != SKIP


def judge(
    role: str,
    text: str,
    *,
    ask: Ask | None = None,
    auto: float = 0.9,
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
        return Judgement("", 0.0, SKIP, "rules")
    model = model or linear.load()
    signal = signals.read(role, text)
    if signal and signal.kind == "explicit":
        return Judgement(signal.type, max(signal.confidence, auto), AUTO, "rules")
    if signal and signal.kind == "empty":
        types = model.types(role, text)
        type = max(types, key=types.__getitem__)
        return Judgement(type, signal.confidence, SKIP, "rules")
    score = model.confidence(model.score(role, text), role, text)
    confidence = model.calibrated(score)
    if signal and signal.confidence > confidence:
        return _tiered(signal.type, signal.confidence, "rules", auto, suggest)
    types = model.types(role, text)  # after `score`, whose vector of the turn it uses
    type = max(types, key=types.__getitem__)
    p_skip = None
    stage = "linear"
    if ask and confidence >= (UNSURE_FROM if model.calibration.llm else suggest):
        before = confidence, type
        if opinion := ask(role, text):
            p_skip = 1 - opinion.keep
            confidence = model.calibrated(score, p_skip)
            if opinion.types:
                type = _likeliest_by_both(types, opinion.types)
            stage = "linear" if before == (confidence, type) else "llm"
    if score < auto <= confidence:
        confidence = max(score, auto - _BELOW_AUTO)
    return _tiered(type, confidence, stage, auto, suggest)._replace(score=score, p_skip=p_skip)


def _tiered(type: str, confidence: float, stage: str, auto: float, suggest: float) -> Judgement:
    tier = AUTO if confidence >= auto else SUGGEST if confidence >= suggest else SKIP
    if tier == AUTO and type == "blocker":
        # Sessions begin with blockers, and the next turn often ends one.
        tier = SUGGEST
    return Judgement(type, confidence, tier, stage)


def _likeliest_by_both(linear_types: Mapping[str, float], llm_types: Mapping[str, float]) -> str:
    def strength(type: str) -> float:
        llm = log(llm_types.get(type, 0.0) + 1e-4)
        return log(linear_types[type] + 1e-4) + LLM_TYPES_WEIGHT * llm

    return max(linear_types, key=strength)
