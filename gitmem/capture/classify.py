"""Judges one turn: rules, then the linear model, then a language model for what is left unsure.

Owns the order of the stages, what each may decide, and the tiers. A rule that
sees an explicit marker ("remember this", `Decision:`) is sure; one that sees
that a turn can be no memory (a question, an order, an acknowledgement) ends it.
Everything else has the calibrated confidence of the linear model. `ask` is
called only for what will be kept, for its type: that is where the measurements in
docs/evaluation.md found it to help.

Promise: never raises on any text; without `ask` under a millisecond a turn; an
answer of `ask` that is None (no model, deadline, crash) leaves the judgement of
the linear model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log
from typing import NamedTuple

from . import linear, signals, strip

AUTO, SUGGEST, SKIP = "AUTO", "SUGGEST", "SKIP"
# How much a language model's shares of the types count beside those of the linear model. Types
# right of 189 turns whose repositories the linear model had not seen, with Qwen2.5-Coder-0.5B:
# 0.476 alone, 0.519 with it (10 became right, 2 wrong). Chosen on the first 158: 0.3 gave 0.532,
# 0.5 0.551, 0.7 0.538.
SAYS = 0.5


class Opinion(NamedTuple):
    """What a language model says of a turn: the probability that it is worth keeping, its type, a
    title ("" for none), and the share of each type.
    """

    keep: float
    type: str = ""
    title: str = ""
    types: Mapping[str, float] | None = None


class Judgement(NamedTuple):
    """`keep` is `tier != SKIP`; `type` is the likeliest also where it is skipped; `stage` is what
    decided last: rules, linear or llm. `title` may be "".
    """

    keep: bool
    type: str
    confidence: float
    tier: str
    stage: str
    title: str = ""


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

    `text` may be raw: `strip.cleaned` is applied here too. `auto` and `suggest`
    are the settings `mem.captureAuto` and `mem.captureSuggest`; `model` is
    `linear.load()` unless it is adjusted to a user. An explicit marker is kept
    whatever the thresholds are.
    """
    text = strip.cleaned(text)
    if not text:
        return Judgement(False, "", 0.0, SKIP, "rules")
    model = model or linear.load()
    signal = signals.read(role, text)
    if signal is not None and signal.kind == "empty":
        return Judgement(False, _likeliest(model, role, text), signal.confidence, SKIP, "rules")
    if signal is not None and signal.kind == "explicit":
        confidence = max(signal.confidence, auto)
        return Judgement(True, signal.type, confidence, AUTO, "rules")
    confidence = model.confidence(model.score(role, text), role)
    stage, type, title = "linear", "", ""
    if signal is not None and signal.confidence > confidence:
        confidence, stage, type = signal.confidence, "rules", signal.type
    ruled, type = type, type or _likeliest(model, role, text)
    if (
        ask is not None and confidence >= suggest
    ):  # its answer changes the type, not whether the turn is kept: docs/evaluation.md
        opinion = ask(role, text)
        if opinion is not None:
            before, title = (confidence, type), opinion.title
            confidence = model.united(confidence, opinion.keep)
            type = model.united_type(type, opinion.type)
            if opinion.types and not ruled:
                type = _named(model.types(role, text), opinion.types)
            if title or (confidence, type) != before:
                stage = "llm"
    tier = AUTO if confidence >= auto else SUGGEST if confidence >= suggest else SKIP
    return Judgement(tier != SKIP, type, confidence, tier, stage, title)


def _named(own: Mapping[str, float], said: Mapping[str, float]) -> str:
    """The likeliest type by both models."""
    return max(own, key=lambda t: log(own[t] + 1e-4) + SAYS * log(said.get(t, 0.0) + 1e-4))


def _likeliest(model: linear.Model, role: str, text: str) -> str:
    shares = model.types(role, text)
    return max(shares, key=lambda name: shares[name])
