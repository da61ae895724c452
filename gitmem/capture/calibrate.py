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
from ..engine.cache import Cache
from ..engine.memory_rows import FORGOTTEN
from ..memory import review_records
from ..memory.review_records import REJECTED
from ..store import Store
from . import linear, suggestions
from .linear import PACKAGED, Calibration
from .reliability_diagram import Pair

FEWEST = 20  # verdicts of both kinds together; also with P(skip), before that gets a weight
# Stages whose confidence comes from the linear model; a rule's confidence is not calibrated.
STAGES = ("linear", "llm")
_FOLDS = 5
# The packaged calibration counts as so many verdicts at each of these scores, so that a few
# verdicts move the numbers a little.
_PRIOR_SCORES, _PRIOR_VERDICTS = (0.5, 0.7, 0.9), 4.0
_SMALLEST_SLOPE = 0.05


class Label(NamedTuple):
    """A decided suggestion. `score` is its packaged confidence, `p_skip` as in `Judgement`."""

    score: float
    kept: bool
    session: str
    p_skip: float | None = None


class InForce(NamedTuple):
    """The calibration in force and the versions of the records that it replaces when it changes."""

    calibration: Calibration
    versions: list[str]


class Report(NamedTuple):
    """`before` and `after`: (confidence, kept) of each verdict by the old numbers, and by a fit to
    verdicts of other sessions. `stored`: memories that capture stored unasked; `forgotten`: how
    many of these the user forgot since.
    """

    old: Calibration
    new: Calibration
    before: list[Pair]
    after: list[Pair]
    better: bool
    reason: str
    stored: int = 0
    forgotten: int = 0


# --- the record -------------------------------------------------------------


def load(store: Store) -> InForce:
    return store.with_cache(read)[0]


def model(store: Store) -> linear.Model:
    """The packaged linear model with the calibration in force."""
    return linear.load(store.settings.flag("encoder")).adjusted(load(store).calibration)


def read(cache: Cache) -> InForce:
    """Of records that do not know of each other, the one made of the most verdicts counts.

    Numbers for another packaged model are ignored.
    """
    records = review_records.records(cache, "calibration")
    replaced = {version for r in records for version in r.after}
    current = [r for r in records if r.version not in replaced]
    usable = [r.data for r in current if r.data.get("base") == linear.fingerprint()]
    best = max(usable, key=_verdicts, default={})
    return InForce(_calibration(best), [r.version for r in current])


def _verdicts(data: dict[str, Any]) -> int:
    count = data.get("verdicts")
    return count if type(count) is int else 0


def _calibration(data: dict[str, Any]) -> Calibration:
    """The numbers of a record; PACKAGED where one of them is none, or out of bounds."""
    given: dict[str, Any] = {**PACKAGED._asdict(), **data}
    given = {name: given[name] for name in PACKAGED._fields}
    if any(type(n) not in (int, float) or abs(n) >= 100 for n in given.values()):
        return PACKAGED
    found = Calibration(**{name: float(n) for name, n in given.items()})
    return found if found.slope > 0 and found.llm >= 0 else PACKAGED


def keep(store: Store, calibration: Calibration, verdicts: int, after: list[str]) -> None:
    """Writes the record that is in force from now on; `after`: versions that it replaces."""
    data = {
        "id": os.urandom(16).hex(),
        **{name: round(value, 6) for name, value in calibration._asdict().items()},
        "verdicts": verdicts,
        "base": linear.fingerprint(),
        "author": store.author,
    }
    line = record.dump(record.envelope("calibration", data, "", {"after": sorted(after)}))
    store.append("private", [("", line)], "git mem: 1 calibration")


def reset(store: Store) -> bool:
    """Back to the packaged calibration; whether another one was in force."""
    now = load(store)
    if now.calibration == PACKAGED:
        return False
    keep(store, PACKAGED, 0, now.versions)
    return True


# --- learning ---------------------------------------------------------------


def calibrate(store: Store, *, write: bool = True) -> Report:
    """Fits to the user's verdicts; writes a record if the fit is better than what is in force."""
    (now, decided, (stored, forgotten)), _ = store.with_cache(
        lambda cache: (read(cache), labels(cache), _stored_unasked(cache))
    )
    report = judge(decided, now.calibration)._replace(stored=stored, forgotten=forgotten)
    if report.better and write:
        keep(store, report.new, len(decided), now.versions)
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
    unchanged = Report(old, old, before, before, False, "")
    if len(decided) < FEWEST:
        plural = "s" * (len(decided) != 1)
        return unchanged._replace(reason=f"{len(decided)} verdict{plural}, {FEWEST} are needed")
    after = _cross_validated(decided)
    gains = [loss([b]) - loss([a]) for b, a in zip(before, after, strict=True)]
    gain = sum(gains) / len(gains)
    standard_error = math.sqrt(sum((g - gain) ** 2 for g in gains)) / len(gains)
    if gain <= standard_error:
        reason = "new numbers predict verdicts of other sessions no better"
        return unchanged._replace(after=after, reason=reason)
    reason = (
        f"log loss {loss(before):.3f} before, {loss(after):.3f} after,"
        " on sessions they were not fitted to"
    )
    return Report(old, fit(decided), before, after, True, reason)


def fit(decided: Sequence[Label]) -> Calibration:
    """The numbers that fit these verdicts.

    A language model's weight is only fitted to FEWEST of its answers, and is never below 0.
    """
    answers = [label.p_skip for label in decided if label.p_skip is not None]
    if len(answers) >= FEWEST:
        zero = sum(PACKAGED._replace(llm_zero=0.0).opinion(p) for p in answers) / len(answers)
        at = PACKAGED._replace(llm_zero=zero)
        rows = [
            [linear.logit(d.score), 0.0 if d.p_skip is None else at.opinion(d.p_skip)]
            for d in decided
        ]
        (slope, weight), offset = _logistic(rows, decided)
        if weight > 0 and slope >= _SMALLEST_SLOPE:
            return Calibration(slope, offset, weight / slope, zero)
        packaged = PACKAGED._replace(llm=0.0)
    else:
        packaged = PACKAGED
    rows = [[linear.logit(packaged.apply(d.score, d.p_skip))] for d in decided]
    (slope,), offset = _logistic(rows, decided)
    return packaged._replace(slope=max(slope, _SMALLEST_SLOPE), offset=offset)


def _logistic(rows: list[list[float]], decided: Sequence[Label]) -> tuple[list[float], float]:
    """(a weight for each column, offset)."""
    kept, weights = [label.kept for label in decided], [1.0] * len(rows)
    for p in _PRIOR_SCORES:
        prior = [linear.logit(p), *[0.0] * (len(rows[0]) - 1)]
        rows = [*rows, prior, prior]
        kept += [True, False]
        weights += [p * _PRIOR_VERDICTS, (1 - p) * _PRIOR_VERDICTS]
    regression = _sklearn().linear_model.LogisticRegression(C=10.0)  # the prior is in the rows
    fitted = regression.fit(rows, kept, sample_weight=weights)
    return [float(w) for w in fitted.coef_[0]], float(fitted.intercept_[0])


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
    """For each verdict the confidence by a fit to the verdicts of other sessions."""
    out: list[Pair] = [(0.0, False)] * len(decided)
    for fold in _folds(decided):
        fitted = fit([label for i, label in enumerate(decided) if i not in fold])
        for i in fold:
            out[i] = fitted.apply(decided[i].score, decided[i].p_skip), decided[i].kept
    return out


def _folds(decided: Sequence[Label]) -> list[set[int]]:
    """Places of the verdicts in folds of about the same size, a session in one of them; by verdict
    where there are fewer sessions than folds.
    """
    groups: list[Any] = [label.session for label in decided]
    if len(set(groups)) < _FOLDS:
        groups = [*range(len(decided))]
    folds = _sklearn().model_selection.GroupKFold(_FOLDS)
    return [set(map(int, fold)) for _, fold in folds.split(groups, groups=groups)]


def loss(pairs: Sequence[Pair]) -> float:
    """The mean log loss, 0 for no pairs."""
    total = 0.0
    for confidence, right in pairs:
        p = min(max(confidence, 1e-4), 1 - 1e-4)
        total -= math.log(p if right else 1 - p)
    return total / len(pairs) if pairs else 0.0


def _stored_unasked(cache: Cache) -> tuple[int, int]:
    """(memories that capture stored unasked, how many of them were forgotten since)."""
    rows = cache.db.execute(
        "SELECT m.id, min(m.status) FROM memory m JOIN line l ON l.n = m.line"
        " WHERE instr(l.raw, CAST('\"captured\"' AS BLOB)) > 0 GROUP BY m.id"
    ).fetchall()
    suggested = suggestions.stored(cache)
    unasked = [status for id, status in rows if id not in suggested]
    return len(unasked), unasked.count(FORGOTTEN)
