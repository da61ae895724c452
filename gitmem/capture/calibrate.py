"""What a person accepted and rejected makes capture's confidences fit this repository. Plain
Python; asks no library, and nobody outside.

A confidence of the packaged model passes through sigmoid(slope * logit + offset).
The two numbers are fitted to the verdicts, and held to (1, 0), which is the
packaged calibration, as firmly as a few verdicts deserve. From `retrain.LEAST`
verdicts on, n-grams of what is turned down may get weights of their own, if that
does better still. All of it lives in one private record of op `calibration`.

Promises. Nothing changes with fewer than LEAST verdicts, nor where
numbers fitted to some of the verdicts do not do better on the others than those
in force (`judge`): what is in force then stays so, and the report says why.
Verdicts are only given on suggestions, so nothing that was one becomes AUTO by
them: only what the packaged model is sure of is stored unasked.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from ..core import record
from ..core.digest import sha256
from ..engine.cache import Cache
from ..engine.document import PRIVATE
from ..store import Store
from . import features, linear, reliability_diagram, retrain, suggestions
from .suggestions import REJECTED

LEAST = 20  # verdicts
# a language model's opinion is added to the linear model's; what a rule is sure of, no verdict
# changes
STAGES = ("linear", "llm")
_FOLDS = 5
_NEWEST = 300  # verdicts whose words are looked at
_HOLD = (4.0, 1.0)  # how firmly slope and offset are held to (1, 0), in verdicts
# by which the log loss must fall, and by no less than the spread that its mean has by chance
_BETTER = 0.002
_FLAT = 0.05  # the least slope
_EDGE = 1e-4  # confidences are kept away from 0 and 1


class Fit(NamedTuple):
    """From a packaged confidence to the one in force. Never falls as the first rises."""

    slope: float = 1.0
    offset: float = 0.0

    def apply(self, p: float) -> float:
        return p if self == PLAIN else _sigmoid(self.slope * _logit(p) + self.offset)

    def undo(self, p: float) -> float:
        """The packaged confidence that became `p`."""
        return p if self == PLAIN else _sigmoid((_logit(p) - self.offset) / self.slope)


PLAIN = Fit()


class Label(NamedTuple):
    """One decided suggestion: the packaged confidence of it, whether it was worth keeping, the
    session, whose other labels may resemble it, and its n-grams, if its text is here.
    """

    score: float
    kept: bool
    group: str
    grams: Sequence[int] = ()


class Learned(NamedTuple):
    """What verdicts say: the fit, and weights of n-grams, which are added to the log odds."""

    fit: Fit = PLAIN
    weights: Mapping[int, float] = MappingProxyType({})

    def apply(self, label: Label) -> float:
        """The confidence of a suggestion like this one."""
        p = self.fit.apply(label.score)
        return (
            _sigmoid(retrain.odds(retrain.Sample(_logit(p), label.grams, label.kept), self.weights))
            if self.weights and label.grams
            else p
        )


class Calibration(NamedTuple):
    """What is in force, the versions of its records, how many verdicts it is made of."""

    learned: Learned
    versions: list[str]
    verdicts: int = 0

    @property
    def fit(self) -> Fit:
        return self.learned.fit

    def packaged(self, stage: str, confidence: float, role: str, text: str) -> float:
        """The packaged confidence that became this one."""
        if stage not in STAGES or self.learned == PACKAGED:
            return confidence
        own = (
            retrain.odds(retrain.Sample(0.0, grams(role, text), True), self.learned.weights)
            if self.learned.weights
            else 0.0
        )
        return self.fit.undo(_sigmoid(_logit(confidence) - own))


PACKAGED = Learned()


class Judged(NamedTuple):
    """What is in force and what would be, and their pairs (confidence, kept) on verdicts that the
    new numbers were not fitted to.
    """

    old: Learned
    new: Learned
    before: list[reliability_diagram.Pair]
    after: list[reliability_diagram.Pair]
    better: bool
    why: str


class Report(NamedTuple):
    """`changed`: whether a record was written.

    `stored`, `taken_back`: memories that capture stored unasked, and how many of them were
    forgotten.
    """

    judged: Judged
    changed: bool
    verdicts: int
    stored: int
    taken_back: int


# --- in force ---------------------------------------------------------------


def load(store: Store) -> Calibration:
    """What is in force here.

    Of records that do not know of each other, the one made of the most verdicts counts.
    """
    return store.with_cache(read)[0]


def read(cache: Cache) -> Calibration:
    found = [
        r
        for (raw,) in cache.db.execute(
            f"SELECT raw FROM line WHERE op = 'calibration' AND scope & {PRIVATE}"
        )
        if (r := record.parse(raw))
    ]
    covered = {v for r in found for v in r.after}
    heads = sorted(
        (r for r in found if r.version not in covered), key=lambda r: (_count(r.data), r.version)
    )
    versions = [r.version for r in heads]
    # Numbers for another packaged model say nothing about this one.
    ours = [r for r in heads if r.data.get("base") == base()]
    return (
        Calibration(_learned(ours[-1].data), versions, _count(ours[-1].data))
        if ours
        else Calibration(PACKAGED, versions)
    )


def _count(data: dict[str, Any]) -> int:
    count = data.get("verdicts")
    return count if type(count) is int else 0


def _learned(data: dict[str, Any]) -> Learned:
    slope, offset, weights = data.get("slope"), data.get("offset"), data.get("weights")
    fit = (
        Fit(float(slope), float(offset)) if _sane(slope) and _sane(offset) and slope > 0 else PLAIN  # type: ignore[arg-type, operator]
    )
    found = weights.items() if isinstance(weights, dict) else ()
    return Learned(
        fit,
        {
            int(g): float(w)
            for g, w in found
            if g.isascii() and g.isdecimal() and _sane(w) and w <= 0
        },
    )


def _sane(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 100


def model(store: Store) -> linear.Model:
    """The packaged linear model as adjusted to this repository; `pipeline.keep` asks it."""
    fit, weights = load(store).learned
    packaged = linear.load(store.settings.flag("encoder"))
    return (
        packaged
        if (fit, weights) == PACKAGED
        else packaged.adjusted(fit.slope, fit.offset, weights)
    )


def grams(role: str, text: str) -> list[int]:
    """The n-grams that weights are about."""
    return features.features(role, text)[0]


_base = ""


def base() -> str:
    """Names the packaged model."""
    global _base
    if not _base:
        path = os.path.join(
            os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "capture.json"
        )
        try:
            with open(path, "rb") as f:
                _base = sha256(f.read()).hexdigest()[:16]
        except OSError:
            _base = "none"
    return _base


# --- learning ---------------------------------------------------------------


def labels(cache: Cache) -> list[Label]:
    """Every decided suggestion with a confidence, also one whose text was purged since: the verdict
    has what is needed.
    """
    seen: dict[str, Label] = {}
    known = suggestions.stored(cache)
    for r in suggestions.verdicts(cache):
        decided = known.get(r.id) or suggestions.Suggestion(r.data)
        score, stage = decided.number("score"), decided.text("stage")
        state = decided.state if r.id in known else r.data["verdict"]
        if score is not None and stage in STAGES and (r.id not in seen or state != REJECTED):
            text = decided.body if r.id in known else ""
            seen[r.id] = Label(
                score,
                state != REJECTED,
                decided.text("session") or r.id,
                grams(decided.text("role"), text) if text else (),
            )
    return [seen[id] for id in sorted(seen)]


def calibrate(store: Store, auto: float = 0.95, *, write: bool = True) -> Report:
    """Fits to the verdicts; writes one private record if that is better than what is in force.

    `auto`: the setting `mem.captureAuto`.
    """
    (now, found, unasked), _ = store.with_cache(
        lambda cache: (read(cache), labels(cache), _unasked(cache))
    )
    judged = judge(found, now.learned, auto)
    if judged.better and write:
        keep(store, judged.new, len(found), now.versions)
    return Report(judged, judged.better and write, len(found), *unasked)


def reset(store: Store) -> bool:
    """Back to the packaged calibration; whether there was another."""
    now = load(store)
    if now.learned != PACKAGED:
        keep(store, PACKAGED, 0, now.versions)
    return now.learned != PACKAGED


def keep(store: Store, learned: Learned, verdicts: int, after: list[str]) -> None:
    """Writes the record that is in force from now on."""
    fit, weights = learned
    data = {
        "id": os.urandom(16).hex(),
        "slope": round(fit.slope, 6),
        "offset": round(fit.offset, 6),
        "verdicts": verdicts,
        "base": base(),
        "author": store.author,
    }
    extra = {"after": sorted(after), "weights": {str(g): w for g, w in weights.items()}}
    store.append(
        "private",
        [("", record.dump(record.envelope("calibration", data, "", extra)))],
        "git mem: 1 calibration",
    )


def _unasked(cache: Cache) -> tuple[int, int]:
    """(memories that capture stored unasked, how many of them were forgotten since)."""
    suggested = set(suggestions.stored(cache))
    rows = cache.db.execute(
        "SELECT DISTINCT m.id, m.status FROM memory m LEFT JOIN label l ON l.row = m.row AND l.kind"
        " = 'tag' AND l.value = 'captured' WHERE m.status = 2 OR l.row IS NOT NULL"
    ).fetchall()
    own = {id: status for id, status in rows if id not in suggested}
    gone = {id for id, status in own.items() if status == 2}
    captured = {id for id, status in own.items() if status != 2}
    forgotten = 0
    for id in sorted(gone - captured):
        raws = cache.db.execute(
            "SELECT raw FROM line WHERE memory = CAST(? AS BLOB) AND op = 'create'", (id,)
        ).fetchall()
        parsed = [r for (raw,) in raws if (r := record.parse(raw))]
        forgotten += any(
            isinstance(r.data.get("tags"), list) and "captured" in r.data["tags"] for r in parsed
        )
    return len(captured) + forgotten, forgotten


def judge(found: Sequence[Label], old: Learned, auto: float = 0.95) -> Judged:
    """Whether what can be learned does better than the old on verdicts it did not see: in folds, a
    session in one fold.
    """
    before = [(old.apply(label), label.kept) for label in found]
    if len(found) < LEAST:
        return Judged(
            old,
            old,
            before,
            before,
            False,
            f"{len(found)} verdict{'s' * (len(found) != 1)}, {LEAST} are needed",
        )
    words, after = False, _unseen(found, auto, False)
    if sum(bool(label.grams) for label in found) >= retrain.LEAST:
        with_words = _unseen(found, auto, True)
        if _clear(after, with_words):
            words, after = True, with_words
    new = learn(found, auto, words)
    if not _clear(before, after):
        return Judged(
            old,
            new,
            before,
            after,
            False,
            "new numbers do no better on verdicts they have not seen",
        )
    if reliability_diagram.error(after) > reliability_diagram.error(before) + 0.01:
        return Judged(
            old, new, before, after, False, "the new confidences would be further from the truth"
        )
    return Judged(
        old,
        new,
        before,
        after,
        True,
        f"log loss {loss(before):.3f} before, {loss(after):.3f} after, on verdicts they have not"
        " seen",
    )


def _unseen(found: Sequence[Label], auto: float, words: bool) -> list[reliability_diagram.Pair]:
    """For each verdict what is learned from those of other folds says."""
    out: list[reliability_diagram.Pair] = [(0.0, False)] * len(found)
    for part in _parts(found):
        inside = set(part)
        learned = learn([label for i, label in enumerate(found) if i not in inside], auto, words)
        for i in part:
            out[i] = learned.apply(found[i]), found[i].kept
    return out


def learn(found: Sequence[Label], auto: float = 0.95, words: bool = False) -> Learned:
    """The fit; with `words` weights of n-grams too, each fitted to what the other leaves."""
    if not words:
        return Learned(fitted(found, auto))
    fit, weights = PLAIN, dict[int, float]()
    for _ in range(2):
        samples = [
            retrain.Sample(_logit(fit.apply(label.score)), label.grams, label.kept)
            for label in found[-_NEWEST:]
        ]
        weights = retrain.trained([s for s in samples if s.grams])
        fit = fitted(
            found,
            auto,
            [
                retrain.odds(retrain.Sample(0.0, label.grams, label.kept), weights)
                for label in found
            ],
        )
    return Learned(fit, weights)


def _clear(
    before: Sequence[reliability_diagram.Pair], after: Sequence[reliability_diagram.Pair]
) -> bool:
    gains = [loss([a]) - loss([b]) for a, b in zip(before, after, strict=True)]
    mean = sum(gains) / len(gains)
    spread = math.sqrt(sum((g - mean) ** 2 for g in gains)) / len(gains)
    return mean >= max(_BETTER, spread)


def _parts(found: Sequence[Label]) -> list[list[int]]:
    """Folds of about the same size, by session; by verdict where there are too few sessions."""
    groups: dict[str, list[int]] = {}
    for i, label in enumerate(found):
        groups.setdefault(label.group, []).append(i)
    if len(groups) < _FOLDS:
        groups = {str(i): [i] for i in range(len(found))}
    parts: list[list[int]] = [[] for _ in range(_FOLDS)]
    for group in sorted(
        groups, key=lambda g: (-len(groups[g]), sha256(g.encode("utf-8", "replace")).hexdigest())
    ):
        min(parts, key=len).extend(groups[group])
    return [part for part in parts if part]


def fitted(found: Sequence[Label], auto: float = 0.95, own: Sequence[float] = ()) -> Fit:
    """Slope and offset of the least log loss, held to (1, 0); nothing below `auto` comes to lie
    above it. `own`: log odds that each verdict has beside them.
    """
    points = [
        (_logit(label.score), float(label.kept), o)
        for label, o in zip(found, own or [0.0] * len(found), strict=True)
    ]
    a, b = 1.0, 0.0
    for _ in range(50):
        # Newton's step; the hold makes the matrix regular, also for one score or one kind of
        # verdict.
        ga, gb, haa, hab, hbb = _HOLD[0] * (a - 1), _HOLD[1] * b, _HOLD[0], 0.0, _HOLD[1]
        for x, y, o in points:
            p = _sigmoid(a * x + b + o)
            w = p * (1 - p)
            ga += (p - y) * x
            gb += p - y
            haa += w * x * x
            hab += w * x
            hbb += w
        det = haa * hbb - hab * hab
        da, db = (ga * hbb - gb * hab) / det, (gb * haa - ga * hab) / det
        longest = max(abs(da), abs(db), 1.0)
        a, b = a - da / longest, b - db / longest
        if abs(da) + abs(db) < 1e-9:
            break
    fit = Fit(round(max(a, _FLAT), 6), round(b, 6))
    return _below(points, _logit(auto)) if fit.apply(auto) > auto else fit


def _below(points: Sequence[tuple[float, float, float]], edge: float) -> Fit:
    """The best fit that leaves `edge` where it is: the slope alone decides."""
    a = 1.0
    for _ in range(50):
        g, h = (
            _HOLD[0] * (a - 1) + _HOLD[1] * (a - 1) * edge * edge,
            _HOLD[0] + _HOLD[1] * edge * edge,
        )
        for x, y, o in points:
            p = _sigmoid(a * (x - edge) + edge + o)
            g += (p - y) * (x - edge)
            h += p * (1 - p) * (x - edge) ** 2
        step = max(-1.0, min(1.0, g / h))
        a -= step
        if abs(step) < 1e-9:
            break
    a = round(max(a, _FLAT), 6)
    return Fit(a, round((1 - a) * edge, 6))


def loss(pairs: Sequence[reliability_diagram.Pair]) -> float:
    """The mean log loss."""
    return (
        -sum(
            math.log(p if right else 1 - p)
            for p, right in ((min(max(p, _EDGE), 1 - _EDGE), right) for p, right in pairs)
        )
        / len(pairs)
        if pairs
        else 0.0
    )


def _logit(p: float) -> float:
    p = min(max(p, _EDGE), 1 - _EDGE)
    return math.log(p / (1 - p))


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))
