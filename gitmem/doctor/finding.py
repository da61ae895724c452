"""What a check of `git mem doctor` found."""

from collections.abc import Callable
from typing import NamedTuple

OK, OFF, WARN, BAD = "ok", "off", "warn", "bad"
LISTED = 10  # of one kind that are named
REPAIRS = "`git mem doctor --repair` does it"

Repair = Callable[[], str]


class Finding(NamedTuple):
    """`repair`: mends it and says in a line what it did; None where the user has to decide."""

    level: str
    text: str
    hint: str = ""
    repair: Repair | None = None
