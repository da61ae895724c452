"""The packaged model in plain numbers: is a turn worth keeping, how sure, and of which type.

Reads `data/capture.json`, which `tools/train_capture.py` writes; nothing is trained here. The file
has two logistic models over the numbers of `features` and the vector of the packaged table (keep or
not; which type), and for the first curves from its score to a confidence: the share of turns with
this score that were worth keeping, in repositories that took no part in the training; table and
encoder know English best, so turns with many letters outside ASCII have curves of their own. A
`Calibration` maps that packaged confidence to the one in force for a user.

Turns of chats are judged otherwise where the caller allows the packaged encoder and the encoder can
be used. A layer that was trained for this reads them (`Encoder.turn_vector`); its vector takes the
place of the table's, with weights for users and others apart and curves of its own. Commits and
tools stay with the table: that layer was measured on turns of chats alone.

Promise: without the encoder pure, no library, about a millisecond a turn; the same text gives the
same numbers on every machine (with it but for the encoder's rounding). The encoder reads ENCODED
characters of a turn. A broken `capture.json` raises an error.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode
from bisect import bisect_right
from copy import copy
from functools import cache
from math import exp, log, sqrt
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.digest import sha256
from ..engine import int8_vectors
from ..engine.embed import StaticTable
from . import features

if TYPE_CHECKING:
    from ..embedding.encoder import Encoder

TURNS = ("user", "assistant")  # roles that the encoder is asked about
TYPES = ("decision", "preference", "learning", "bugfix", "blocker", "progress")
PATH = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "capture.json"
)
_LOWEST, _HIGHEST = 0.002, 0.99  # some hundred measured turns allow no surer confidence


class Calibration(NamedTuple):
    """From a packaged confidence, and a language model's opinion, to the confidence in force.

    The log odds are slope * (logit(p) + llm * (logit(P(keep)) - llm_zero)) + offset; the term with
    `llm` counts where a language model was asked. `llm_zero` is its usual answer, in log odds.
    """

    slope: float = 1.0
    offset: float = 0.0
    llm: float = 0.0  # until `calibrate` has fitted one
    llm_zero: float = 0.0

    def apply(self, p: float, p_skip: float | None = None) -> float:
        """Never falls as `p` rises. `p_skip`: the language model's P(skip), None if not asked."""
        asked = self.llm if p_skip is not None else 0.0
        if (self.slope, self.offset, asked) == (1.0, 0.0, 0.0):
            return p
        odds = logit(p) + (asked * self.opinion(p_skip) if p_skip is not None else 0.0)
        return sigmoid(self.slope * odds + self.offset)

    def opinion(self, p_skip: float) -> float:
        """A language model's P(skip) as log odds of keeping, 0 for its usual answer."""
        return logit(min(0.99, max(0.01, 1 - p_skip))) - self.llm_zero


PACKAGED = Calibration()


class TurnFeatures:
    """A turn as numbers: hashed n-grams, forms of its sentences, vector of its prose."""

    def __init__(self, role: str, text: str, table: StaticTable) -> None:
        self.hashed, self.numbers, self.prose = features.features(role, text)
        self.length = sqrt(len(self.hashed) or 1)
        vector = table.vector(self.prose[: features.MEANT])
        size = sqrt(int8_vectors.square(vector)) or 1.0
        self.vector = [v / size for v in memoryview(vector).cast("b")]
        self.read: list[float] = []  # the encoder's vector of the turn, once it has read it

    def encoded(self, encoder: Encoder) -> list[float]:
        if not self.read:
            self.read = encoder.turn_vector(self.prose.strip()[: features.ENCODED]).tolist()
        return self.read


class _Weights:
    """One row of a logistic model: three blocks of small integers with a scale each."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.bias = float(data["bias"])
        self.hashed, self.hashed_scale = _block(data, "hashed")
        self.numbers, self.vector = (
            [v * scale for v in weights]
            for weights, scale in (_block(data, "numbers"), _block(data, "vector"))
        )

    def score(self, turn: TurnFeatures, vector: list[float]) -> float:
        weights, size = self.hashed, len(self.hashed)
        grams = sum([weights[i % size] for i in turn.hashed]) * self.hashed_scale / turn.length
        return self.bias + grams + _dot(self.numbers, turn.numbers) + _dot(self.vector, vector)


class _Judge:
    """What judges turns with one kind of vector: whether to keep, by who speaks; types; curves."""

    def __init__(self, keep: dict[str, dict[str, Any]], data: dict[str, Any]) -> None:
        self.keep = {who: _Weights(weights) for who, weights in keep.items()}
        self.types = {name: _Weights(data["types"][name]) for name in TYPES}
        curves = data["calibration"].items()
        self.curves = {who: [(float(a), float(b)) for a, b in knots] for who, knots in curves}


class Model:
    """The packaged model with a calibration. `encoder`: whether the encoder may read turns."""

    def __init__(self, data: dict[str, Any], encoder: bool = False) -> None:
        assert data["features"] == features.VERSION, "tools/train_capture.py makes the model anew"
        self.calibration = PACKAGED
        self._by_table = _Judge(dict.fromkeys(("user", "other"), data["keep"]), data)
        encoded = data["encoded"]
        # The n-grams are those of `keep`: the file has them once.
        keep = {who: {**data["keep"], **weights} for who, weights in encoded["keep"].items()}
        self._by_encoder = _Judge(keep, encoded)
        self._encoder, self._made_for = encoder, (encoded["space"], encoded["layer"])
        self._table = StaticTable()
        self._last: tuple[str, str, TurnFeatures] | None = None

    def score(self, role: str, text: str) -> float:
        """The log odds that the turn is worth keeping, before any calibration."""
        turn = self._features(role, text)
        if encoder := self._usable_encoder(role):
            return self._by_encoder.keep[_who(role)].score(turn, turn.encoded(encoder))
        return self._by_table.keep[_who(role)].score(turn, turn.vector)

    def confidence(self, score: float, role: str = "user", text: str = "") -> float:
        """The packaged confidence: the share of turns of such a role, in such letters as `text`,
        with this score that were worth keeping. Never falls as the score rises.
        """
        judge = self._by_encoder if self._usable_encoder(role) else self._by_table
        knots = judge.curves[_who(role) + ", non-ASCII" * features.non_ascii(text)]
        at = bisect_right(knots, (score, 2.0))
        if at == 0 or at == len(knots):
            share = knots[0 if at == 0 else -1][1]
        else:
            (a, low), (b, high) = knots[at - 1], knots[at]
            share = low + (high - low) * (score - a) / (b - a or 1.0)
        return _bounded(share)

    def calibrated(self, confidence: float, p_skip: float | None = None) -> float:
        """The confidence in force for a packaged one (see `Calibration`)."""
        return _bounded(self.calibration.apply(confidence, p_skip))

    def types(self, role: str, text: str) -> dict[str, float]:
        """{type: share}, sums to 1, if the turn is worth keeping.

        The encoder's vector takes the place of the table's where the turn's score asked for it:
        what a rule ends is not read for its type.
        """
        turn = self._features(role, text)
        judge, vector = self._by_table, turn.vector
        if turn.read and self._usable_encoder(role):
            judge, vector = self._by_encoder, turn.read
        scores = {name: weights.score(turn, vector) for name, weights in judge.types.items()}
        top = max(scores.values())
        powers = {name: exp(score - top) for name, score in scores.items()}
        total = sum(powers.values())
        return {name: power / total for name, power in powers.items()}

    def adjusted(self, calibration: Calibration) -> Model:
        """The same model with another calibration."""
        other = copy(self)
        other.calibration = calibration
        return other

    def _usable_encoder(self, role: str) -> Encoder | None:
        """The encoder, opened for the first turn of a chat; None: the table's vector counts."""
        if not self._encoder or role not in TURNS:
            return None
        from ..embedding import EncoderDamaged, reader

        encoder = reader.encoder()
        try:
            return encoder if encoder and self.fits(encoder) else None
        except EncoderDamaged:
            return None

    def fits(self, encoder: Encoder) -> bool:
        """Adds the layer that reads turns; whether the weights are for it and this encoder.
        Raises `EncoderDamaged` where the layer's file is not whole.
        """
        return (encoder.space, encoder.add_turn_layer()) == self._made_for

    def _features(self, role: str, text: str) -> TurnFeatures:
        if self._last is None or self._last[:2] != (role, text):
            self._last = role, text, TurnFeatures(role, text, self._table)
        return self._last[2]


@cache
def load(encoder: bool = False) -> Model:
    """The packaged model, read once a process.

    `encoder`: whether the encoder may read turns (`mem.encoder`).
    """
    with open(PATH, encoding="utf-8") as f:
        return Model(json.load(f), encoder)


@cache
def fingerprint() -> str:
    """Names the packaged model: 16 hex digits of SHA-256 over its file."""
    with open(PATH, "rb") as f:
        return sha256(f.read()).hexdigest()[:16]


def _block(data: dict[str, Any], name: str) -> tuple[memoryview[int], float]:
    return memoryview(b64decode(data[name])).cast("b"), float(data[name + "_scale"])


def _who(role: str) -> str:
    return "user" if role == "user" else "other"


def _bounded(share: float) -> float:
    return min(_HIGHEST, max(_LOWEST, share))


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x)) if x >= 0 else exp(x) / (1 + exp(x))


def logit(p: float) -> float:
    p = min(1 - 1e-6, max(1e-6, p))
    return log(p / (1 - p))


def _dot(a: list[float], b: list[float]) -> float:
    return float(sum(map(mul, a, b)))
