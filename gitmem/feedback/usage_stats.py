"""Counts for `git mem stats`: memories told, used and ignored, by type, route and confidence.
Confidence is what a memory's writer stated.

Counted from records, never estimated. One thing told is one memory in one session, however often it
was shown there. It was used if `usage` says so, and ignored otherwise, be it read or not. If two
routes told it, it counts once in the sum and once with each route.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ..core import confidence, short
from ..engine import usage_store
from ..engine.cache import Cache

GONE = "gone"  # the type of a memory that is not here any more
BANDS = {"90 to 100 %": 0.9, "70 to 89 %": 0.7, "50 to 69 %": 0.5, "below 50 %": 0.0}
NONE = "none stated"


def band(stated: float | None) -> str:
    """One of BANDS for a confidence, NONE for none."""
    return NONE if stated is None else next(name for name, p in BANDS.items() if stated >= p)


def counts(cache: Cache, receipted: int = 0) -> dict[str, Any]:
    """`receipted`: sessions with a receipt; those not looked at are in no other number."""
    told: dict[tuple[str, str], set[str]] = defaultdict(set)
    used: dict[tuple[str, str], set[str]] = defaultdict(set)
    accepted = rejected = 0
    against: set[str] = set()
    for id, session, how in cache.db.execute("SELECT id, session, how FROM usage_record"):
        if how in confidence.NEGLECT:
            told[session, id].add(how)
        elif how in (confidence.CITED, confidence.TOUCHED):
            used[session, id].add(how)
        elif how == confidence.AGAINST:
            against.add(id)
        else:
            accepted += how == confidence.ACCEPTED
            rejected += how == confidence.REJECTED
    named = (
        "SELECT substr(id, 1, ?), max(type), max(confidence) FROM memory"
        " GROUP BY 1 HAVING min(id) = max(id)"
    )
    stored = cache.db.execute(named, (short.DIGITS,))
    known = {id: (type or GONE, band(p)) for id, type, p in stored}
    by_type: dict[str, list[bool]] = defaultdict(list)
    by_band: dict[str, list[bool]] = defaultdict(list)
    by_route: dict[str, list[bool]] = defaultdict(list)
    for (session, id), routes in told.items():
        good = (session, id) in used
        type, sure = known.get(id, (GONE, GONE))
        by_type[type].append(good)
        by_band[sure].append(good)
        for route in routes:
            by_route[route].append(good)
    sessions = {session for session, _ in (*told, *used)}
    return {
        "sessions": len(sessions),
        "sessions_not_measured": max(0, receipted - len(sessions)),
        **_row([pair in used for pair in told]),
        "cited": sum(confidence.CITED in how for how in used.values()),
        "edited": sum(confidence.TOUCHED in how for how in used.values()),
        "answers_from_memory": _answers(cache),
        "accepted": accepted,
        "rejected": rejected,
        "contradicted": len(against),
        "by_type": _sorted(by_type),
        "by_route": _sorted(by_route),
        "by_confidence": _banded(
            by_band, [known.get(short.of(id), (GONE, GONE))[1] for id in against]
        ),
    }


def _row(used: list[bool]) -> dict[str, int]:
    return {"injected": len(used), "used": sum(used), "ignored": used.count(False)}


def _sorted(rows: dict[str, list[bool]]) -> dict[str, dict[str, int]]:
    order = sorted(rows, key=lambda name: (-len(rows[name]), name))
    return {name: _row(rows[name]) for name in order}


def _banded(told: dict[str, list[bool]], against: list[str]) -> dict[str, dict[str, int]]:
    """The surest first. `against`: a band for each memory that was contradicted."""
    order = [name for name in (*BANDS, NONE, GONE) if told.get(name) or name in against]
    return {
        name: {**_row(told.get(name, [])), "contradicted": against.count(name)} for name in order
    }


def _answers(cache: Cache) -> int:
    """Answers that named a memory they were shown; of one part of a session the fullest record."""
    found: dict[str, int] = {}
    for r in usage_store.stored(cache.db):
        number = r.data.get("answers")
        if r.op != "verdict" and type(number) is int and 0 < number < 1_000_000:
            found[r.id] = max(found.get(r.id, 0), number)
    return sum(found.values())


_COUNTED = {
    "answers_from_memory": "answers that named one",
    "accepted": "suggestions accepted",
    "rejected": "suggestions rejected",
    "contradicted": "contradicted",
    "sessions_not_measured": "sessions not looked at for use",
}


def lines(numbers: dict[str, Any]) -> list[tuple[str, str]]:
    out = []
    if numbers["injected"]:
        out.append(("told to agents", f"{_of(numbers)}, in {numbers['sessions']} sessions"))
    out += [(f"told by {route}", _of(row)) for route, row in numbers["by_route"].items()]
    out += [(f"told of {type}", _of(row)) for type, row in numbers["by_type"].items()]
    out += [
        (f"told with confidence {name}", f"{_of(row)}, {row['contradicted']} contradicted")
        for name, row in numbers["by_confidence"].items()
        if name in BANDS  # where nobody stated one, the sum says the same
    ]
    if numbers["used"]:
        why = (
            f"an answer named it {numbers['cited']}, a file it names was changed afterwards"
            f" {numbers['edited']}"
        )
        out.append(("used because", why))
    out += [(words, str(numbers[name])) for name, words in _COUNTED.items() if numbers[name]]
    return out


def _of(row: dict[str, int]) -> str:
    return f"{row['injected']} ({row['used']} used, {row['ignored']} not)"
