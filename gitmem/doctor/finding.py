"""What a check of `git mem doctor` found."""

from __future__ import annotations

from collections.abc import Callable

OK, OFF, WARN, BAD = "ok", "off", "warn", "bad"
LISTED = 10  # of one kind that are named
REPAIRS = "`git mem doctor --repair` does it"

Repair = Callable[[], str]


class Finding:
    """`repair`: mends it and says in a line what it did; None where the user has to decide."""

    __slots__ = ("hint", "level", "repair", "text")

    def __init__(self, level: str, text: str, hint: str = "", repair: Repair | None = None) -> None:
        self.level = level
        self.text = text
        self.hint = hint
        self.repair = repair


def many(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"
