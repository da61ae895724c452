"""Lines of a turn that are another's words: quoted with `>`, or output of our own commands.

Owns the shapes of what `recall`, `list`, `show` and `context --format md` print. A recalled memory
must never come back as a new one, nor what somebody else wrote as a word of the author's. In a code
fence that is closed a `>` is code.

Promise: pure, never raises, work grows with the length of the text alone. Standard library only and
without `re`: a hook calls it before it appends a prompt to the spool.
"""

from __future__ import annotations

_HEX = frozenset("0123456789abcdef")
_WAYS = ("hybrid", "bm25", "vector")
_DETAIL = "    "  # recall's second lines, and the body that show prints
_WROTE = ("wrote:", "writes:", "said:")


def own(text: str) -> str:
    """The text without quoted lines and without our own output."""
    lines = text.split("\n")
    fenced = _fenced(lines)
    kept: list[str] = []
    details = showing = False
    for number, line in enumerate(lines):
        word = line.lstrip()
        if not fenced[number] and _quotes(line):
            while kept and not kept[-1].strip():
                kept.pop()
            if kept and kept[-1].rstrip().endswith(_WROTE):
                kept.pop()
        elif _hit(word):
            details = True
        elif _shows(word):
            showing = True
        else:
            indented = line.startswith(_DETAIL)
            of_hits = details and (indented or word.startswith(("HIT: ", "WEAK: ")))
            of_memory = showing and (indented or not word or _field(word))
            if not (of_hits or of_memory):
                details = showing = False
                kept.append(line)
    return "\n".join(kept).strip() if len(kept) < len(lines) else text


def _fenced(lines: list[str]) -> list[bool]:
    """For each line, whether it lies in a code fence that is closed."""
    inside = [False] * len(lines)
    mark, start = "", 0
    for number, line in enumerate(lines):
        fence = line.lstrip(" ")[:3]
        if fence not in ("```", "~~~") or (mark and fence != mark):
            continue
        if mark:
            inside[start:number] = [True] * (number - start)
            mark = ""
        else:
            mark, start = fence, number
    return inside


def _quotes(line: str) -> bool:
    """Whether a line is quoted as in mail; `>= 5`, `>5` and a prompt `>>> x` are not."""
    rest = line.strip(" \t\r")
    after = rest.lstrip("> ")
    marks = rest[: len(rest) - len(after)]
    return rest[:1] == ">" and rest[:4] != ">>> " and (not after or " " in marks)


def _id(word: str) -> bool:
    return 8 <= len(word) <= 32 and _HEX.issuperset(word)


def _hit(line: str) -> bool:
    """`d4ff89a4 1.00 hybrid Title` of `recall`, `d4ff89a4 2026-11-22 decision: Title` of `list`,
    `- [d4ff89a4] (2026-11-22) Title` of a context as Markdown.
    """
    if line[:3] == "- [":
        id, _, rest = line[3:45].partition("] (")
        return _id(id) and bool(rest)
    words = line[:60].split(None, 3)
    if len(words) < 3 or not _id(words[0]):
        return False
    number, kind = words[1:3]
    scored = len(number) == 4 and number[1] == "." and kind in _WAYS
    dated = len(number) == 10 and number[4] == number[7] == "-" and number[:4].isdigit()
    return scored or (dated and kind.endswith(":"))


def _shows(line: str) -> bool:
    """`memory:          d4ff89a4…`, the first line of `show`."""
    return line.startswith("memory: ") and _id(line[8:60].strip())


def _field(line: str) -> bool:
    name, colon, _ = line[:24].partition(":  ")
    return bool(colon) and name.isalpha()
