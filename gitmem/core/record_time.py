"""The time that a record claims, and whether it counts: `docs/format.md`, Times.

Pure, but for the clock of this machine.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

STORED = "%Y-%m-%dT%H:%M:%SZ"
_SHAPE = "0000-00-00T00:00:00Z"
_RANGES = ((5, "01", "12"), (8, "01", "31"), (11, "00", "23"), (14, "00", "59"), (17, "00", "60"))
AHEAD = 24 * 3600  # seconds by which the clock of whoever made a commit may be ahead of this one


def stored(seconds: float) -> str:
    """Seconds since 1970 as records and the cache hold them; "" for a time no calendar has."""
    try:
        return moment(time.strftime(STORED, time.gmtime(seconds)))
    except (OverflowError, ValueError, OSError):
        return ""


def latest(newest: str = "") -> str:
    """The latest time that counts: now, or that of the newest commit of the notes where it is
    later.

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
    """The time that orders memories: "", the oldest, if malformed or after `latest`."""
    at = moment(value)
    return at if at <= latest else ""


def days(stamp: str) -> float | None:
    """Days since 1970 of a stored time or date (UTC), without `datetime`; None for others."""
    try:
        year, month, day = int(stamp[0:4]), int(stamp[5:7]), int(stamp[8:10])
        hour = int(stamp[11:13]) + int(stamp[14:16]) / 60 if len(stamp) >= 16 else 0.0
    except ValueError:
        return None
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    # Howard Hinnant's days_from_civil.
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468 + hour / 24


def freshness(stamps: Iterable[str], newest: str, half: float) -> dict[str, float]:
    """{date: 1 for the day of `newest`, half of it `half` days before}; 0 for what is no date."""
    now = days(newest[:10])
    out: dict[str, float] = {}
    for date in {stamp[:10] for stamp in stamps}:
        day = days(date)
        out[date] = 0.0 if day is None or now is None else 2 ** (-max(0.0, now - day) / half)
    return out
