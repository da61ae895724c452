"""How far a long job is: use cases say it, a door shows it to whoever waits.

No `contextlib`: prompts import the cache's update, which says it, too.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from typing import TypeVar

    T = TypeVar("T")

    # (what is done, how much in all or None) -> a function that takes how much more is done
    Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]


def counted(items: Iterable[T], advance: Callable[[int], None]) -> Iterator[T]:
    """The items; each counts as done when the next one is asked for."""
    for item in items:
        yield item
        advance(1)


class Unseen:
    """A progress that nobody watches."""

    def __init__(self, what: str, total: int | None) -> None:
        pass

    def __enter__(self) -> Callable[[int], None]:
        return lambda more: None

    def __exit__(self, *error: object) -> None:
        pass
