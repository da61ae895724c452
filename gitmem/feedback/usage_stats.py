"""What became of what was told, for `git mem stats`: told, used, ignored, by type and by route.
Counted from records, never estimated; changes nothing.

One thing told is one memory in one session, however often it was shown there.
It was used if `usage` says so of that session, and ignored otherwise: that
says nothing of whether it was read. A memory that two routes told in a session
counts once in the sum and once with each route.
"""

from __future__ import annotations

from typing import Any

from ..core import confidence, short
from ..engine import usage_store
from ..engine.cache import Cache

GONE = "gone"  # the type of a memory that is not here any more


class _Row:
    __slots__ = ("ignored", "told", "used")

    def __init__(self) -> None:
        self.told = self.used = self.ignored = 0

    def add(self, used: bool) -> None:
        self.told += 1
        self.used += used
        self.ignored += not used

    def public(self) -> dict[str, int]:
        return {"injected": self.told, "used": self.used, "ignored": self.ignored}


def counts(cache: Cache, receipted: int = 0) -> dict[str, Any]:
    """The numbers.

    `receipted`: sessions that have a receipt; those of which no record speaks of use were never
    looked at for use, and are in no other number here.
    """
    told: dict[tuple[str, str], set[str]] = {}
    used: dict[tuple[str, str], set[str]] = {}
    accepted = rejected = 0
    against: set[str] = set()
    for id, session, how in cache.db.execute("SELECT id, session, how FROM heed"):
        if how in confidence.NEGLECT:
            told.setdefault((session, id), set()).add(how)
        elif how in (confidence.CITED, confidence.TOUCHED):
            used.setdefault((session, id), set()).add(how)
        elif how == confidence.AGAINST:
            against.add(id)
        else:
            accepted += how == confidence.ACCEPTED
            rejected += how == confidence.REJECTED
    named = "SELECT substr(id, 1, ?), max(type) FROM memory GROUP BY 1 HAVING min(id) = max(id)"
    types = dict(cache.db.execute(named, (short.DIGITS,)))
    whole = _Row()
    by_type: dict[str, _Row] = {}
    by_route: dict[str, _Row] = {}
    for pair, routes in told.items():
        good = pair in used
        whole.add(good)
        by_type.setdefault(types.get(pair[1]) or GONE, _Row()).add(good)
        for route in routes:
            by_route.setdefault(route, _Row()).add(good)
    sessions = {session for session, _ in (*told, *used)}
    return {
        "sessions": len(sessions),
        "sessions_not_measured": max(0, receipted - len(sessions)),
        **whole.public(),
        "cited": sum(1 for how in used.values() if confidence.CITED in how),
        "edited": sum(1 for how in used.values() if confidence.TOUCHED in how),
        "answers_from_memory": _answers(cache),
        "accepted": accepted,
        "rejected": rejected,
        "contradicted": len(against),
        "by_type": _sorted(by_type),
        "by_route": _sorted(by_route),
    }


def _sorted(rows: dict[str, _Row]) -> dict[str, dict[str, int]]:
    return {
        name: rows[name].public()
        for name in sorted(rows, key=lambda name: (-rows[name].told, name))
    }


def _answers(cache: Cache) -> int:
    """Answers that named a memory which their session was shown.

    Of one part of a session the fullest record counts.
    """
    found: dict[str, int] = {}
    for r in usage_store.stored(cache.db):
        number = r.data.get("answers")
        if r.op != "verdict" and type(number) is int and 0 < number < 1_000_000:
            found[r.id] = max(found.get(r.id, 0), number)
    return sum(found.values())


def lines(numbers: dict[str, Any]) -> list[tuple[str, str]]:
    """The same as (name, text) rows."""
    out = (
        [("told to agents", f"{_of(numbers)}, in {numbers['sessions']} sessions")]
        if numbers["injected"]
        else []
    )
    out += [(f"told by {route}", _of(row)) for route, row in numbers["by_route"].items()]
    out += [(f"told of {type}", _of(row)) for type, row in numbers["by_type"].items()]
    if numbers["used"]:
        out.append(
            (
                "used because",
                (
                    f"an answer named it {numbers['cited']}, a file it names was changed afterwards"
                    f" {numbers['edited']}"
                ),
            )
        )
    out += [
        (words, str(numbers[name]))
        for name, words in (
            ("answers_from_memory", "answers that named one"),
            ("accepted", "suggestions accepted"),
            ("rejected", "suggestions rejected"),
            ("contradicted", "contradicted"),
            ("sessions_not_measured", "sessions not looked at for use"),
        )
        if numbers[name]
    ]
    return out


def _of(row: dict[str, int]) -> str:
    return f"{row['injected']} ({row['used']} used, {row['ignored']} not)"
