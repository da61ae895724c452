"""Fits capture's confidences to what a user accepted and rejected, by logistic regression.

Two numbers (Platt's slope and offset) map the packaged confidence to the one in force; where enough
decided suggestions have a language model's P(skip), its weight is fitted with them. The numbers are
one private record of op `calibration`, so they survive the cache and other clones can have them.

A fit is taken if it predicts the user's own verdicts better than the numbers in force, by
cross-validation over whole sessions. scikit-learn (in the extra `llm`) is loaded by `calibrate`
alone; reading the numbers needs nothing.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core import record
from ..core.errors import MemError
from ..core.plural import many
from ..engine.cache import Cache
from ..memory import review_records
from ..memory.review_records import REJECTED
from ..store import Store
from . import linear, suggestions
from .linear import PACKAGED, Calibration

FEWEST = 20  # verdicts of both kinds together; also with P(skip), before that gets a weight
# Stages whose confidence comes from the linear model; a rule's confidence is not calibrated.
STAGES = ("linear", "llm")
_FOLDS = 5
# The packaged calibration counts as so many verdicts at each of these scores, so that a few
# verdicts move the numbers a little.
_PRIOR_SCORES, _PRIOR_VERDICTS = (0.5, 0.7, 0.9), 4.0
_SMALLEST_SLOPE = 0.05
_BINS, _WIDTH = 10, 40  # of the reliability diagram: bins of confidence, characters of a bar

Pair = tuple[float, bool]  # confidence, whether it was right


class Label(NamedTuple):
    """A decided suggestion. `score` is its packaged confidence, `p_skip` as in `Judgement`."""

    score: float
    kept: bool
    session: str
    p_skip: float | None = None


class Report(NamedTuple):
    """`before` and `after`: (confidence, kept) of each verdict by the old numbers, and by a fit to
    verdicts of other sessions.
    """

    old: Calibration
    new: Calibration
    before: list[Pair]
    after: list[Pair]
    better: bool
    reason: str


# --- the record -------------------------------------------------------------


def load(store: Store) -> Calibration:
    return store.with_cache(_read)[0][0]


def model(store: Store) -> linear.Model:
    """The packaged linear model with the calibration in force."""
    return linear.load(store.settings.flag("encoder")).adjusted(load(store))


def _read(cache: Cache) -> tuple[Calibration, list[str]]:
    """(the calibration in force, versions of the records that the next one replaces).

    Of records that do not know of each other, the one made of the most verdicts counts. Numbers for
    another packaged model are ignored.
    """
    records = review_records.records(cache, "calibration")
    replaced = {version for r in records for version in r.after}
    current = [r for r in records if r.version not in replaced]
    usable = [r.data for r in current if r.data.get("base") == linear.fingerprint()]
    best = max(usable, key=lambda data: _number(data.get("verdicts", 0)) or 0.0, default={})
    return _calibration(best), [r.version for r in current]


def _calibration(data: dict[str, Any]) -> Calibration:
    """The numbers of a record; PACKAGED where one of them is none, or out of bounds."""
    given = {name: _number(data.get(name, value)) for name, value in PACKAGED._asdict().items()}
    sound = {name: n for name, n in given.items() if n is not None and abs(n) < 100}
    if sound.keys() < given.keys() or sound["slope"] <= 0 or sound["llm"] < 0:
        return PACKAGED
    return Calibration(**sound)


def _number(value: object) -> float | None:
    return float(value) if type(value) in (int, float) else None  # type: ignore[arg-type]


def keep(store: Store, calibration: Calibration, verdicts: int) -> None:
    """Writes the record that is in force from now on."""
    data = {
        "id": os.urandom(16).hex(),
        **{name: round(value, 6) for name, value in calibration._asdict().items()},
        "verdicts": verdicts,
        "base": linear.fingerprint(),
        "author": store.author,
    }
    after = {"after": sorted(store.with_cache(_read)[0][1])}
    line = record.envelope("calibration", data, "", after)
    review_records.write(store, "calibration", [line])


def reset(store: Store, *, write: bool = True) -> bool:
    """Back to the packaged calibration; whether another one was in force."""
    changes = load(store) != PACKAGED
    if changes and write:
        keep(store, PACKAGED, 0)
    return changes


# --- learning ---------------------------------------------------------------


def calibrate(store: Store, *, write: bool = True) -> Report:
    """Fits to the user's verdicts; writes a record if the fit is better than what is in force."""
    decided = store.with_cache(labels)[0]
    report = judge(decided, load(store))
    if report.better and write:
        keep(store, report.new, len(decided))
    return report


def labels(cache: Cache) -> list[Label]:
    """Decided suggestions with a packaged confidence; the verdict of a purged one has it, too."""
    stored = suggestions.stored(cache)
    out: dict[str, Label] = {}
    for r in review_records.records(cache, "verdict"):
        if r.data.get("verdict") not in suggestions.VERDICTS:
            continue
        item = stored.get(r.id) or suggestions.Suggestion(r.data)
        kept = (item.state if r.id in stored else r.data["verdict"]) != REJECTED
        score = item.number("score")
        if score is not None and item.text("stage") in STAGES and (r.id not in out or kept):
            session = item.text("session") or r.id
            out[r.id] = Label(score, kept, session, item.number("p_skip"))
    return [out[id] for id in sorted(out)]


def judge(decided: Sequence[Label], old: Calibration) -> Report:
    """Whether a fit predicts the verdicts better than `old`: the mean log loss on sessions that the
    fit has not seen must fall by more than its standard error.
    """
    before = [(old.apply(d.score, d.p_skip), d.kept) for d in decided]
    if len(decided) < FEWEST:
        reason = f"{many(len(decided), 'verdict')}, {FEWEST} are needed"
        return Report(old, old, before, before, False, reason)
    after = _cross_validated(decided)
    gains = [loss([b]) - loss([a]) for b, a in zip(before, after, strict=True)]
    gain = sum(gains) / len(gains)
    standard_error = math.sqrt(sum((g - gain) ** 2 for g in gains)) / len(gains)
    if gain <= standard_error:
        reason = "new numbers predict verdicts of other sessions no better"
        return Report(old, old, before, after, False, reason)
    reason = (
        f"log loss {loss(before):.3f} before, {loss(after):.3f} after,"
        " on sessions they were not fitted to"
    )
    return Report(old, fit(decided), before, after, True, reason)


def fit(decided: Sequence[Label]) -> Calibration:
    """The numbers that fit these verdicts.

    A language model gets a weight from FEWEST of its answers on, and never one below 0.
    """
    answers = [d.p_skip for d in decided if d.p_skip is not None]
    asked = len(answers) >= FEWEST
    zero = sum(map(PACKAGED.opinion, answers)) / len(answers) if asked else 0.0
    opinion = PACKAGED._replace(llm_zero=zero).opinion
    rows: list[list[float]] = []
    kept, weights = [d.kept for d in decided], [1.0] * len(decided)
    for d in decided:
        told = asked and d.p_skip is not None
        rows.append([linear.logit(d.score), opinion(d.p_skip or 0.0) if told else 0.0])
    for p in _PRIOR_SCORES:
        rows += [[linear.logit(p), 0.0]] * 2
        kept += [True, False]
        weights += [p * _PRIOR_VERDICTS, (1 - p) * _PRIOR_VERDICTS]
    regression = _sklearn().linear_model.LogisticRegression(C=10.0)  # the prior is in the rows
    fitted = regression.fit(rows, kept, sample_weight=weights)
    slope = max(float(fitted.coef_[0][0]), _SMALLEST_SLOPE)
    llm = max(float(fitted.coef_[0][1]), 0.0) / slope
    return Calibration(slope, float(fitted.intercept_[0]), llm, zero)


def _sklearn() -> Any:
    try:
        import sklearn.linear_model
        import sklearn.model_selection
    except ImportError:
        raise MemError(
            "cannot calibrate: scikit-learn is not installed",
            hint=f"`{sys.executable} -m pip install scikit-learn` adds it",
        ) from None
    return sklearn


def _cross_validated(decided: Sequence[Label]) -> list[Pair]:
    """For each verdict the confidence by a fit to the verdicts of other sessions; of other verdicts
    where there are fewer sessions than folds.
    """
    groups: list[Any] = [d.session for d in decided]
    if len(set(groups)) < _FOLDS:
        groups = [*range(len(decided))]
    out: dict[int, Pair] = {}
    folds = _sklearn().model_selection.GroupKFold(_FOLDS).split(groups, groups=groups)
    for others, these in folds:
        fitted = fit([decided[i] for i in others])
        for d, i in ((decided[i], int(i)) for i in these):
            out[i] = fitted.apply(d.score, d.p_skip), d.kept
    return [out[i] for i in range(len(decided))]


def loss(pairs: Sequence[Pair]) -> float:
    """The mean log loss, 0 for no pairs."""
    total = 0.0
    for confidence, right in pairs:
        p = min(max(confidence, 1e-4), 1 - 1e-4)
        total -= math.log(p if right else 1 - p)
    return total / len(pairs) if pairs else 0.0


# --- how far confidences can be believed ------------------------------------


def bins(pairs: Sequence[Pair]) -> list[tuple[float, int, float, float]]:
    """(lower bound, how many, mean confidence, share right) of each bin with something in it, in
    order; 1.0 belongs to the last.
    """
    out = []
    for i in range(_BINS):
        inside = [(p, right) for p, right in pairs if min(int(p * _BINS), _BINS - 1) == i]
        if n := len(inside):
            mean, share = (sum(values) / n for values in zip(*inside, strict=True))
            out.append((i / _BINS, n, mean, share))
    return out


def calibration_error(pairs: Sequence[Pair]) -> float:
    """The expected calibration error (ECE): the mean distance of a bin's share right from its mean
    confidence, weighted by how many fell into it; 0 for no pairs.
    """
    distances = sum(n * abs(mean - share) for _, n, mean, share in bins(pairs))
    return distances / len(pairs) if pairs else 0.0


def diagram(pairs: Sequence[Pair]) -> list[str]:
    """Lines, one a bin: a bar for the share that was right, `|` where it should end."""
    out = ["confidence   n  right"]
    for low, n, mean, share in bins(pairs):
        bar = list(("#" * round(share * _WIDTH)).ljust(_WIDTH + 1))
        bar[round(mean * _WIDTH)] = "|"
        out.append(f"{low:.2f}-{low + 1 / _BINS:.2f} {n:4d}   {share:.2f} {''.join(bar).rstrip()}")
    return out
