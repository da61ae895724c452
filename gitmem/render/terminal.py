"""Lines and tables on a terminal, or as plain text in a pipe. Owns rich, which is loaded only when
a terminal is there.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..core import sanitize

# What somebody else wrote, as a terminal may show it.
safe = sanitize.shown

Span = tuple[str, str]  # a text that is safe to show, and its style


def is_terminal() -> bool:
    return sys.stdout.isatty()


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def show(*spans: Span, fold: bool = False) -> None:
    """One line. `fold`: the terminal's width may break it, between words."""
    if not is_terminal():
        sys.stdout.write("".join([text for text, _ in spans]) + "\n")
        return
    from rich.text import Text

    _console().print(Text.assemble(*spans), soft_wrap=not fold)


def rule(text: str) -> None:
    """A line across the terminal; nothing in a pipe."""
    if is_terminal():
        from rich.rule import Rule
        from rich.text import Text

        _console().print(Rule(Text(text), style="dim", align="left"))


def columns(heads: Sequence[str], *rows: Sequence[Span]) -> None:
    """Texts side by side, for a terminal."""
    from rich.text import Text

    shown = _table(expand=True)
    for head in heads:
        shown.add_column(Text(head, style="cyan"), ratio=1, overflow="fold")
    for row in rows:
        shown.add_row(*[Text(text, style=style) for text, style in row])
    _console().print(shown)


def grid(heads: Sequence[Span], rows: Sequence[Sequence[str]], *, folded: Sequence[str]) -> None:
    """Rows below styled heads, for a terminal; columns that are not `folded` keep their width."""
    from rich.text import Text

    shown = _table()
    for head, style in heads:
        overflow: Any = "ellipsis" if head == folded[0] else "fold"
        shown.add_column(head, style=style, no_wrap=head not in folded, overflow=overflow)
    for row in rows:
        shown.add_row(*map(Text, row))
    _console().print(shown)


def _table(**options: Any) -> Any:
    from rich.table import Table

    return Table(box=None, pad_edge=False, **options)


def pairs(rows: Sequence[tuple[str, Any]]) -> None:
    for name, value in rows:
        show((f"{name + ':':<17}", "dim"), (safe(str(value)), ""))


def keys(choices: Sequence[tuple[str, str]]) -> None:
    """The keys that a question takes, on one line without its end."""
    from rich.text import Text

    texts = [Text.assemble((key, "bold"), " ", (action, "dim")) for key, action in choices]
    _console().print(Text("  ").join(texts), end=" ", soft_wrap=True)
    sys.stdout.flush()


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, only on a terminal; yields a function that takes how many more are done."""
    if not sys.stderr.isatty():
        yield lambda n: None
        return
    from rich import progress as rich
    from rich.console import Console

    parts = (
        rich.SpinnerColumn(),
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn() if total else rich.TextColumn("{task.completed}"),
        rich.TimeElapsedColumn(),
    )
    # No refreshing thread: the second process of an import is a fork.
    console = Console(stderr=True)
    with rich.Progress(*parts, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task(what, total=total)

        def advance(n: int) -> None:
            bar.advance(task, n)
            bar.refresh()

        yield advance
