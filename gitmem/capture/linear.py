"""A linear model in plain numbers: is a turn worth keeping, how sure, and of which type.

Owns `data/capture.json`, which `tools/train_capture.py` writes; nothing is
trained here. Two logistic models over the numbers of `features` and the vector
of the packaged table (keep or not; which type) and the calibration of the
first: from its score to the share of turns with such a score that were worth
keeping, in repositories it was not trained on. What a user accepted and
rejected may shift that (`adjusted`).

What is worth keeping of a chat is judged by a third model where the caller allows the
packaged encoder and the encoder can be used: the encoder's vector takes the place of the
table's, with weights for users and others apart and a calibration of its own. Commits
and tools stay with the table: the third model was measured on turns of chats alone.

Promise: without the encoder pure, no library, about a millisecond a turn; the same text
gives the same numbers on every machine (with it but for the encoder's rounding). The
encoder reads ENCODED characters of a turn. A broken file is a bug, not a guess.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Mapping
from functools import cache
from math import exp, log, sqrt
from operator import mul
from typing import TYPE_CHECKING, Any

from ..engine import embed
from . import features

if TYPE_CHECKING:
    from ..embedding.encoder import Encoder

TURNS = ("user", "assistant")  # roles that the encoder is asked about
TYPES = ("decision", "preference", "learning", "bugfix", "blocker", "progress")
PATH = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "capture.json"
)
_MOST, _LEAST = 0.99, 0.002  # nothing that was measured on some hundred turns is surer than this


class Seen:
    """A turn as numbers: hashed n-grams, forms of its sentences, meaning."""

    __slots__ = ("_folded", "encoded", "hashed", "length", "numbers", "prose", "vector")

    def __init__(self, role: str, text: str, table: embed.StaticTable) -> None:
        self.hashed, self.numbers, self.prose = features.features(role, text)
        self.length = sqrt(len(self.hashed) or 1)
        vector = table.vector(self.prose[: features.MEANT])
        size = sqrt(embed.square(vector)) or 1.0
        self.vector = [v / size for v in memoryview(vector).cast("b")]
        self.encoded: list[float] = []  # the encoder's vector, after `read`
        self._folded: tuple[int, list[int]] | None = None

    def read(self, encoder: Encoder) -> list[float]:
        """The encoder's vector; it is made once."""
        if not self.encoded:
            self.encoded = encoder.vector(self.prose.strip()[: features.ENCODED]).tolist()
        return self.encoded

    def folded(self, size: int) -> list[int]:
        """The n-grams' places in a shorter row."""
        if self._folded is None or self._folded[0] != size:
            self._folded = size, [i % size for i in self.hashed]
        return self._folded[1]


class _Weights:
    """One row of a logistic model: three blocks of small integers with a scale each."""

    __slots__ = ("bias", "hashed", "hashed_scale", "numbers", "vector")

    def __init__(self, data: dict[str, Any]) -> None:
        self.bias = float(data["bias"])
        self.hashed = memoryview(b64decode(data["hashed"])).cast("b")
        self.hashed_scale = float(data["hashed_scale"])
        self.numbers = [float(v) for v in data["numbers"]]
        self.vector = [
            v * float(data["vector_scale"]) for v in memoryview(b64decode(data["vector"])).cast("b")
        ]

    def score(self, seen: Seen, vector: list[float]) -> float:
        weights, size = self.hashed, len(self.hashed)
        found = (
            sum(
                [
                    weights[i]
                    for i in (seen.hashed if size == features.HASHED else seen.folded(size))
                ]
            )
            * self.hashed_scale
            / seen.length
        )
        return self.bias + found + _dot(self.numbers, seen.numbers) + _dot(self.vector, vector)


class Model:
    """The packaged model, or one adjusted to a user. `encoder`: whether it may read turns."""

    def __init__(self, data: dict[str, Any], encoder: bool = False) -> None:
        if data["features"] != features.VERSION:
            raise ValueError(
                f"'{PATH}' is for version {data['features']} of the features, this is"
                f" {features.VERSION}"
            )
        self._keep = _Weights(data["keep"])
        self._types = {name: _Weights(data["types"][name]) for name in TYPES}
        self._knots = _knots(data["calibration"])
        encoded = data["encoded"]
        # The n-grams are those of `keep`: the file has them once.
        whole = {**data["keep"], **encoded["keep"]}
        self._encoded = {
            who: _Weights({**whole, **encoded["vectors"][who]}) for who in ("user", "other")
        }
        self._encoded_knots = _knots(encoded["calibration"])
        self._encoder, self._space = encoder, str(encoded["space"])
        self._llm = data.get("llm") or {}
        self._slope, self._offset = 1.0, 0.0
        self._own: Mapping[int, float] = {}
        self._table = embed.StaticTable()
        self._last: tuple[str, str, Seen] | None = None

    def score(self, role: str, text: str) -> float:
        """The log odds that the turn is worth keeping, before calibration; with weights of a user's
        own, after it.
        """
        seen = self._see(role, text)
        encoder = self._reader(role)
        if encoder:
            score = self._encoded[_who(role)].score(seen, seen.read(encoder))
        else:
            score = self._keep.score(seen, seen.vector)
        if not self._own:
            return score
        # After it, because a calibration that is flat somewhere would not let them be felt.
        return (
            logit(self._calibrated(score, role))
            + sum(self._own[i] for i in seen.hashed if i in self._own) / seen.length
        )

    def confidence(self, score: float, role: str = "user") -> float:
        """The share of turns of such a role with this score that are worth keeping: 0 to 1, never
        falling as the score rises.
        """
        return min(
            _MOST, max(_LEAST, sigmoid(score) if self._own else self._calibrated(score, role))
        )

    def _calibrated(self, score: float, role: str) -> float:
        knots = (self._encoded_knots if self._reader(role) else self._knots)[_who(role)]
        at = bisect_right(knots, (score, 2.0))
        if at == 0 or at == len(knots):
            share = knots[0 if at == 0 else -1][1]
        else:
            (a, low), (b, high) = knots[at - 1], knots[at]
            share = low + (high - low) * (score - a) / (b - a or 1.0)
        if (self._slope, self._offset) != (1.0, 0.0):
            share = sigmoid(self._slope * logit(share) + self._offset)
        return share

    def types(self, role: str, text: str) -> dict[str, float]:
        """{type: share}, sums to 1, if the turn is worth keeping."""
        seen = self._see(role, text)
        scores = {name: weights.score(seen, seen.vector) for name, weights in self._types.items()}
        top = max(scores.values())
        powers = {name: exp(score - top) for name, score in scores.items()}
        whole = sum(powers.values())
        return {name: power / whole for name, power in powers.items()}

    def united(self, confidence: float, opinion: float) -> float:
        """The confidence after a language model's own probability, which counts as much as was
        measured; by default nothing.
        """
        weight = float(self._llm.get("keep", 0.0))
        return (
            confidence
            if not weight
            else min(
                _MOST,
                max(
                    _LEAST,
                    sigmoid(
                        logit(confidence)
                        + weight * (logit(opinion) - float(self._llm.get("zero", 0.0)))
                    ),
                ),
            )
        )

    def united_type(self, type: str, opinion: str) -> str:
        """The type after a language model's own, which counts only where that was measured to be
        the better one.
        """
        return opinion if opinion in TYPES and self._llm.get("type") else type

    def adjusted(
        self, slope: float = 1.0, offset: float = 0.0, weights: Mapping[int, float] | None = None
    ) -> Model:
        """The same model for one user: calibrated confidences pass through sigmoid(slope * logit +
        offset), then `weights` are added to their log odds, by bucket of `features`.
        """
        other = Model.__new__(Model)
        other.__dict__.update(self.__dict__)
        other._slope, other._offset, other._own, other._last = (
            slope,
            offset,
            dict(weights or {}),
            None,
        )
        return other

    def _reader(self, role: str) -> Encoder | None:
        """The encoder that reads a turn of this role, opened for the first one; None for the
        table."""
        if not self._encoder or role not in TURNS:
            return None
        from ..engine import encoding

        found = encoding.encoder()
        # Weights for another encoder say nothing.
        return found if found and found.space == self._space else None

    def _see(self, role: str, text: str) -> Seen:
        if self._last is None or self._last[:2] != (role, text):
            self._last = role, text, Seen(role, text, self._table)
        return self._last[2]


@cache
def load(encoder: bool = False) -> Model:
    """The packaged model, read once a process.

    `encoder`: whether that may read turns (`mem.encoder`).
    """
    with open(PATH, encoding="utf-8") as f:
        return Model(json.load(f), encoder)


def _who(role: str) -> str:
    return "user" if role == "user" else "other"


def _knots(data: dict[str, Any]) -> dict[str, list[tuple[float, float]]]:
    return {who: [(float(a), float(b)) for a, b in knots] for who, knots in data.items()}


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x)) if x >= 0 else exp(x) / (1 + exp(x))


def logit(p: float) -> float:
    p = min(1 - 1e-6, max(1e-6, p))
    return log(p / (1 - p))


def _dot(a: list[float], b: list[float]) -> float:
    return float(sum(map(mul, a, b)))
