"""A linear model in plain numbers: is a turn worth keeping, how sure, and of which type.

Owns `data/capture.json`, which `tools/train_capture.py` writes; nothing is
trained here. Two logistic models over the numbers of `features` (keep or not;
which type) and the calibration of the first: from its score to the share of
turns with such a score that were worth keeping, in repositories it was not
trained on. What a user accepted and rejected may shift that (`adjusted`).

Promise: pure, no library, well under a millisecond a turn; the same text gives
the same numbers on every machine. A broken file is a bug, not a guess.
"""

from __future__ import annotations

from collections.abc import Mapping

TYPES = ("decision", "preference", "learning", "bugfix", "blocker", "progress")


class Model:
    """The packaged model, or one adjusted to a user."""

    def score(self, role: str, text: str) -> float:
        """The log odds that the turn is worth keeping, before calibration."""
        return 0.0

    def confidence(self, score: float) -> float:
        """The share of turns with this score that are worth keeping: 0 to 1, never falling as the score rises."""
        return 0.0

    def types(self, role: str, text: str) -> dict[str, float]:
        """{type: share}, sums to 1, if the turn is worth keeping."""
        return dict.fromkeys(TYPES, 1 / len(TYPES))

    def adjusted(self, slope: float = 1.0, offset: float = 0.0, weights: Mapping[int, float] | None = None) -> Model:
        """The same model for one user: calibrated confidences pass through sigmoid(slope * logit + offset), `weights` are added, by bucket."""
        return self


def load() -> Model:
    """The packaged model, read once a process."""
    return Model()
