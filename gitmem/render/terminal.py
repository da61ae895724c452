"""Lines on a terminal: coloured by git's rules, no wider than it is; in a pipe the same, whole.

No library: importing rich would cost 34 ms of every call.
"""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO
from unicodedata import category, east_asian_width

from ..core import sanitize
from ..git.config import is_true

# What somebody else wrote, as a terminal may show it.
safe = sanitize.shown

NARROW = 40  # cells, below which only what matters most has room

Span = tuple[str, str]  # a text that is safe to show, and its style

_OWN_LINE = re.compile(r"\s|[-+*>#|`]|\d+[.)] ")
_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}
_ui = ""  # `color.ui` of the opened repository


def use_colours(ui: str) -> None:
    """Takes the value of `color.ui`, "" where it is not set."""
    global _ui
    _ui = ui.lower()


def is_terminal() -> bool:
    """Whether a person reads stdout: on a terminal, or through the pager that git has started."""
    return sys.stdout.isatty() or is_true(os.environ.get("GIT_PAGER_IN_USE", ""))


def say(text: str, to: TextIO) -> None:
    """One line; a terminal's width breaks it between words, and what follows is indented."""
    most = width() if to is sys.stdout or to.isatty() else None
    to.write("\n".join(hanging(safe(text), most)) + "\n")


def hanging(text: str, most: int | None) -> list[str]:
    """A line as lines of at most `most` cells, those after the first indented."""
    if not most or cells(text) <= most:
        return [text]
    first = folded(text, most)[0]
    indent = " " * min(len(text) - len(text.lstrip(" ")) + 4, most // 2)
    rest = folded(text[len(first) :].strip(" "), most - len(indent))
    return [first, *(indent + line for line in rest)]


def coloured() -> bool:
    """As git decides: `color.ui`, then whether a terminal is there; NO_COLOR counts below it."""
    if _ui == "always":
        return True
    wanted = _ui in ("", "auto") or is_true(_ui)
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return wanted and is_terminal() and not plain


def width() -> int | None:
    """The cells of a line on the terminal; None in a pipe, where lines are whole."""
    if not is_terminal():
        return None
    from shutil import get_terminal_size  # brings bz2 and lzma

    return max(get_terminal_size().columns, 20)


def painted(*spans: Span) -> str:
    if not coloured():
        return "".join([text for text, _ in spans])
    return "".join(
        [f"\x1b[{_CODES[style]}m{text}\x1b[m" if style and text else text for text, style in spans]
    )


def show(*spans: Span) -> None:
    """One line."""
    sys.stdout.write(painted(*spans) + "\n")


def cells(text: str) -> int:
    """How many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def _cells(char: str) -> int:
    if category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def cut(text: str, most: int) -> str:
    """A text in at most `most` cells; one that is cut ends with an ellipsis."""
    if cells(text) <= most:
        return text
    return _first(text, most - 1).rstrip() + "…" if most > 1 else "…"[:most]


def folded(text: str, most: int) -> list[str]:
    """Lines of at most `most` cells, broken between words, or in a word that is longer. What is
    indented stays so.
    """
    lines: list[str] = []
    for paragraph in text.splitlines():
        words = paragraph.lstrip(" ").split(" ")
        line = " " * min(len(paragraph) - len(paragraph.lstrip(" ")), most // 2)
        gap = ""
        for word in words:
            left = cells(word)  # counted once: Chinese has no spaces, a word may be the whole text
            if gap and cells(line) + 1 + left > most:
                lines.append(line)
                line = gap = ""
            while cells(line) + len(gap) + left > most:
                head = _first(word, most - cells(line))
                lines.append(line + head)
                line, word, left = "", word[len(head) :], left - cells(head)
            line, gap = line + gap + word, " "
        lines.append(line)
    return lines


def flowing(text: str) -> str:
    """A text whose paragraphs are one line each, however they were broken; entries of lists,
    quotations, headings and what is indented stay lines.
    """
    out: list[str] = []
    for line in text.splitlines():
        if out and out[-1].strip() and line.strip() and not _OWN_LINE.match(line):
            out[-1] += " " + line
        else:
            out.append(line)
    return "\n".join(out)


def _first(text: str, most: int) -> str:
    """The first characters of a text that fit, at least one."""
    end, taken = 1, _cells(text[0])
    while end < len(text) and (taken := taken + _cells(text[end])) <= most:
        end += 1
    return text[:end]


def block(text: str, style: str = "") -> None:
    """What somebody wrote, indented; a terminal's width breaks its lines between words."""
    most = width()
    text = safe(text, lines=True)
    for line in folded(text, most - 4) if most else text.splitlines():
        show(("    " + line if line else "", style))


def rule(text: str) -> None:
    """A line across the terminal; nothing in a pipe."""
    if most := width():
        show((f"{text} {'─' * (most - cells(text) - 1)}" if text else "─" * most, "dim"))


def pairs(rows: Iterable[tuple[str, Any]]) -> None:
    most = width()
    for name, value in rows:
        head, text = f"{name}:", safe(str(value))
        head = head + " " if most and most < NARROW else f"{head:<16} "
        lines = folded(text, max(most - len(head), 8)) if most else [text]
        for line in lines or [""]:
            show((head, "dim"), (line, ""))
            head = " " * len(head)


def keys(choices: Sequence[tuple[str, str]]) -> None:
    """The keys that a question takes, on one line without its end."""
    texts = [painted((key, "bold"), (" " + action, "dim")) for key, action in choices]
    sys.stdout.write("  ".join(texts) + " ")
    sys.stdout.flush()
