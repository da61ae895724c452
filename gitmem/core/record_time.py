"""The time that a record claims, and whether it counts: `docs/format.md`, Times. Pure, but for the clock of this machine."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STORED = "%Y-%m-%dT%H:%M:%SZ"
_SHAPE = "0000-00-00T00:00:00Z"
_RANGES = ((5, "01", "12"), (8, "01", "31"), (11, "00", "23"), (14, "00", "59"), (17, "00", "60"))
AHEAD = 24 * 3600  # seconds by which the clock of whoever made a commit may be ahead of this one


def stored(seconds: float) -> str:
    """A moment (seconds since 1970) as records and the cache hold it; "" for one that no calendar has."""
    try:
        return moment(time.strftime(STORED, time.gmtime(seconds)))
    except (OverflowError, ValueError, OSError):
        return ""


def latest(newest: str = "") -> str:
    """The latest time that counts: now, or that of the newest commit of the notes where it is later.

    A record is written before the commit that brings it, so a true one is
    never later than both. Who forges a record also writes that commit's time:
    no commit is taken to be more than AHEAD later than now.
    """
    now = time.time()
    return min(max(stored(now), newest), stored(now + AHEAD))


def moment(value: Any) -> str:
    """A time in its stored form; "" for anything else, which sorts before every time."""
    if type(value) is not str or len(value) != len(_SHAPE) or not value.isascii():
        return ""
    digits = value[:4] + value[5:7] + value[8:10] + value[11:13] + value[14:16] + value[17:19]
    if not digits.isdigit() or value[4::3] != _SHAPE[4::3]:
        return ""
    return value if all(low <= value[at : at + 2] <= high for at, low, high in _RANGES) else ""


def when(value: Any, latest: str) -> str:
    """The time by which memories are put in order: "", the oldest, for a malformed one and one after `latest`."""
    at = moment(value)
    return at if at <= latest else ""
