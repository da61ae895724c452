"""What a person accepted and rejected makes capture's confidences fit this repository. Plain Python; asks no library, and nobody outside.

A confidence of the packaged model passes through sigmoid(slope * logit + offset).
The two numbers are fitted to the verdicts, and held to (1, 0), which is the
packaged calibration, as firmly as a few verdicts deserve. They live in one
private record of op `calibration`; the newest one counts.

Promises. Nothing changes with fewer than LEAST verdicts, nor where
numbers fitted to some of the verdicts do not do better on the others than those
in force (`judge`): what is in force then stays so, and the report says why.
Verdicts are only given on suggestions, so nothing that was one becomes AUTO by
them: only what the packaged model is sure of is stored unasked.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core import record
from ..core.digest import sha256
from ..engine.cache import Cache
from ..store import Store
from . import linear, plot, suggestions
from .suggestions import REJECTED

LEAST = 20  # verdicts
STAGES = ("linear", "llm")  # a language model's opinion is added to the linear model's; what a rule is sure of, no verdict changes
_FOLDS = 5
_HOLD = (4.0, 1.0)  # how firmly slope and offset are held to (1, 0), in verdicts
_BETTER = 0.002  # by which the log loss must fall, and by no less than the spread that its mean has by chance
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


class Calibration(NamedTuple):
    """What is in force, the versions of its records, how many verdicts it is made of."""

    fit: Fit
    versions: list[str]
    verdicts: int = 0

    def of(self, stage: str) -> Fit:
        """What a confidence of this stage went through."""
        return self.fit if stage in STAGES else PLAIN


class Label(NamedTuple):
    """One decided suggestion: the packaged confidence of it, whether it was worth keeping, and the session, whose other labels may resemble it."""

    score: float
    kept: bool
    group: str


class Judged(NamedTuple):
    """What is in force and what would be, and their pairs (confidence, kept) on verdicts that the new numbers were not fitted to."""

    old: Fit
    new: Fit
    before: list[plot.Pair]
    after: list[plot.Pair]
    better: bool
    why: str


class Report(NamedTuple):
    """`changed`: whether a record was written. `stored`, `taken_back`: memories that capture stored unasked, and how many of them were forgotten."""

    judged: Judged
    changed: bool
    verdicts: int
    stored: int
    taken_back: int


# --- in force ---------------------------------------------------------------


def load(store: Store) -> Calibration:
    """What is in force here. Of records that do not know of each other, the one made of the most verdicts counts."""
    return store.with_cache(read)[0]


def read(cache: Cache) -> Calibration:
    found = [r for (raw,) in cache.db.execute("SELECT raw FROM line WHERE op = 'calibration'") if (r := record.parse(raw))]
    covered = {v for r in found for v in r.after}
    heads = sorted((r for r in found if r.version not in covered), key=lambda r: (_count(r.data), r.version))
    versions = [r.version for r in heads]
    # Numbers for another packaged model say nothing about this one.
    ours = [r for r in heads if r.data.get("base") == base()]
    return Calibration(_fit(ours[-1].data), versions, _count(ours[-1].data)) if ours else Calibration(PLAIN, versions)


def _count(data: dict[str, Any]) -> int:
    count = data.get("verdicts")
    return count if type(count) is int else 0


def _fit(data: dict[str, Any]) -> Fit:
    slope, offset = data.get("slope"), data.get("offset")
    return Fit(float(slope), float(offset)) if _sane(slope) and _sane(offset) and slope > 0 else PLAIN  # type: ignore[arg-type,operator]


def _sane(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 100


def model(store: Store) -> linear.Model:
    """The packaged linear model as adjusted to this repository: what `keeper.keep` judges with."""
    fit = load(store).fit
    packaged = linear.load()
    return packaged if fit == PLAIN else packaged.adjusted(fit.slope, fit.offset)


_base = ""


def base() -> str:
    """Names the packaged model."""
    global _base
    if not _base:
        path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "capture.json")
        try:
            with open(path, "rb") as f:
                _base = sha256(f.read()).hexdigest()[:16]
        except OSError:
            _base = "none"
    return _base


# --- learning ---------------------------------------------------------------


def labels(cache: Cache) -> list[Label]:
    """Every decided suggestion with a confidence, also one whose text was purged since: the verdict has what is needed."""
    seen: dict[str, Label] = {}
    known = suggestions.stored(cache)
    for r in suggestions.verdicts(cache):
        decided = known.get(r.id) or suggestions.Suggestion(r.data)
        score, stage = decided.number("score"), decided.text("stage")
        state = decided.state if r.id in known else r.data["verdict"]
        if score is not None and stage in STAGES and (r.id not in seen or state != REJECTED):
            seen[r.id] = Label(score, state != REJECTED, decided.text("session") or r.id)
    return [seen[id] for id in sorted(seen)]


def calibrate(store: Store, auto: float = 0.95, *, write: bool = True) -> Report:
    """Fits to the verdicts; writes one private record if that is better than what is in force. `auto`: the setting `mem.captureAuto`."""
    (now, found, unasked), _ = store.with_cache(lambda cache: (read(cache), labels(cache), _unasked(cache)))
    judged = judge(found, now.fit, auto)
    if judged.better and write:
        keep(store, judged.new, len(found), now.versions)
    return Report(judged, judged.better and write, len(found), *unasked)


def reset(store: Store) -> bool:
    """Back to the packaged calibration; whether there was another."""
    now = load(store)
    if now.fit != PLAIN:
        keep(store, PLAIN, 0, now.versions)
    return now.fit != PLAIN


def keep(store: Store, fit: Fit, verdicts: int, after: list[str]) -> None:
    """Writes the record that is in force from now on."""
    data = {"id": os.urandom(16).hex(), "slope": round(fit.slope, 6), "offset": round(fit.offset, 6), "verdicts": verdicts, "base": base(), "author": store.settings.author}
    line = record.dump(record.envelope("calibration", data, "", {"after": sorted(after)}))
    store.append("private", [("", line)], "git mem: 1 calibration")


def _unasked(cache: Cache) -> tuple[int, int]:
    """(memories that capture stored unasked, how many of them were forgotten since)."""
    suggested = set(suggestions.stored(cache))
    rows = cache.db.execute("SELECT DISTINCT m.id, m.status FROM memory m LEFT JOIN label l ON l.row = m.row AND l.kind = 'tag' AND l.value = 'captured' WHERE m.status = 2 OR l.row IS NOT NULL").fetchall()
    own = {id: status for id, status in rows if id not in suggested}
    gone = {id for id, status in own.items() if status == 2}
    captured = {id for id, status in own.items() if status != 2}
    forgotten = 0
    for id in sorted(gone - captured):
        raws = cache.db.execute("SELECT raw FROM line WHERE memory = CAST(? AS BLOB) AND op = 'create'", (id,)).fetchall()
        parsed = [r for (raw,) in raws if (r := record.parse(raw))]
        forgotten += any(isinstance(r.data.get("tags"), list) and "captured" in r.data["tags"] for r in parsed)
    return len(captured) + forgotten, forgotten


def judge(found: Sequence[Label], old: Fit, auto: float = 0.95) -> Judged:
    """Whether new numbers do better than the old ones on verdicts they were not fitted to: in folds, a session in one fold."""
    before = [(old.apply(label.score), label.kept) for label in found]
    if len(found) < LEAST:
        return Judged(old, old, before, before, False, f"{len(found)} verdicts, {LEAST} are needed")
    after: list[plot.Pair] = [(0.0, False)] * len(found)
    for part in _parts(found):
        inside = set(part)
        fit = fitted([label for i, label in enumerate(found) if i not in inside], auto)
        for i in part:
            after[i] = fit.apply(found[i].score), found[i].kept
    new = fitted(found, auto)
    if not _clear(before, after):
        return Judged(old, new, before, after, False, "the new numbers do no better on verdicts they have not seen")
    if plot.error(after) > plot.error(before) + 0.01:
        return Judged(old, new, before, after, False, "the new confidences would be further from the truth")
    return Judged(old, new, before, after, True, f"log loss {loss(before):.3f} before, {loss(after):.3f} after, on verdicts they have not seen")


def _clear(before: Sequence[plot.Pair], after: Sequence[plot.Pair]) -> bool:
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
    for group in sorted(groups, key=lambda g: (-len(groups[g]), sha256(g.encode("utf-8", "replace")).hexdigest())):
        min(parts, key=len).extend(groups[group])
    return [part for part in parts if part]


def fitted(found: Sequence[Label], auto: float = 0.95) -> Fit:
    """Slope and offset of the least log loss, held to (1, 0); nothing below `auto` comes to lie above it."""
    xs = [_logit(label.score) for label in found]
    ys = [float(label.kept) for label in found]
    a, b = 1.0, 0.0
    for _ in range(50):
        # Newton's step; the hold makes the matrix regular, also for one score or one kind of verdict.
        ga, gb, haa, hab, hbb = _HOLD[0] * (a - 1), _HOLD[1] * b, _HOLD[0], 0.0, _HOLD[1]
        for x, y in zip(xs, ys, strict=True):
            p = _sigmoid(a * x + b)
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
    fit = Fit(max(a, _FLAT), b)
    return _below(xs, ys, _logit(auto)) if fit.apply(auto) > auto else fit


def _below(xs: Sequence[float], ys: Sequence[float], edge: float) -> Fit:
    """The best fit that leaves `edge` where it is: the slope alone decides."""
    a = 1.0
    for _ in range(50):
        g, h = _HOLD[0] * (a - 1) + _HOLD[1] * (a - 1) * edge * edge, _HOLD[0] + _HOLD[1] * edge * edge
        for x, y in zip(xs, ys, strict=True):
            p = _sigmoid(a * (x - edge) + edge)
            g += (p - y) * (x - edge)
            h += p * (1 - p) * (x - edge) ** 2
        step = max(-1.0, min(1.0, g / h))
        a -= step
        if abs(step) < 1e-9:
            break
    a = max(a, _FLAT)
    return Fit(a, (1 - a) * edge)


def loss(pairs: Sequence[plot.Pair]) -> float:
    """The mean log loss."""
    return -sum(math.log(p if right else 1 - p) for p, right in ((min(max(p, _EDGE), 1 - _EDGE), right) for p, right in pairs)) / len(pairs) if pairs else 0.0


def _logit(p: float) -> float:
    p = min(max(p, _EDGE), 1 - _EDGE)
    return math.log(p / (1 - p))


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))
