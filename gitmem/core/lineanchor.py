"""The content of some lines, told apart from how they are laid out. Pure.

Promise: the same words find themselves again in another version of the text, moved, indented or
wrapped anew; other words never do. White space does not count, nor do the marks with which a
wrapped comment begins its later lines, nor a comma before a bracket that closes on the next line.
"""

from __future__ import annotations

from bisect import bisect_right

from .digest import sha256

MAX_TEXT = 1_000_000  # bytes of a file that is looked at
MAX_LINES = 2_000  # lines of one range
_LEADERS = frozenset(("#", "##", "//", "///", "//!", "*", "--", ";", ";;", "%", ">"))
_CLOSERS = (")", "]", "}")


def parse(lines: str) -> tuple[int, int] | None:
    """(first, last) of "10-20" or "10", counted from 1; None for anything else."""
    first, dash, last = lines.partition("-")
    last = last if dash else first
    if not all(text.isascii() and text.isdigit() and len(text) < 8 for text in (first, last)):
        return None
    begin, end = int(first), int(last)
    return (begin, end) if 0 < begin <= end < begin + MAX_LINES else None


def split(path: str) -> tuple[str, str]:
    """(path, lines) of "FILE:10-20" or "FILE:10"; lines "" where the end names none."""
    name, colon, lines = path.rpartition(":")
    return (name, lines) if colon and name and parse(lines) else (path, "")


def wrong(lines: str) -> str:
    """What is wrong with text meant as lines, in words that follow its name; "" for nothing."""
    digits = lines.replace("-", "", 1)
    if parse(lines) or not (digits.isascii() and digits.isdigit()):
        return ""
    return f"names no lines: they count from 1, and a range has at most {MAX_LINES:,}"


class Layout:
    """A text as one string of what counts (`flat`), and where its lines lie in it.

    A comment's leader is the state of its line. Where the state changes, a line break and the new
    state stand between the lines, so code that becomes a comment is other text.
    """

    def __init__(self, raw: bytes) -> None:
        self.flat = ""
        self._lines: list[str] = []
        self._states: list[str] = []
        self.starts: list[int] = []
        self._ends: list[int] = []
        if len(raw) > MAX_TEXT or b"\0" in raw:
            return
        rows = raw.decode("utf-8", "surrogateescape").split("\n")
        parts = []
        at = 0
        for number, row in enumerate(rows):
            words = row.split()
            state = self._states[-1] if self._states else ""
            if words:
                was, state = state, words[0] if words[0] in _LEADERS else ""
                if state != was:
                    parts.append(f"\n{state}\n")
                    at += len(parts[-1])
            kept = " ".join(words[1:] if state and words else words)
            if kept.endswith(",") and _next(rows, number).startswith(_CLOSERS):
                kept = kept[:-1]
            flat = kept.replace(" ", "")
            parts.append(flat)
            self._lines.append(kept)
            self._states.append(state)
            self.starts.append(at)
            at += len(flat)
            self._ends.append(at)
        self.flat = "".join(parts)

    def range(self, first: int, last: int) -> tuple[str, str]:
        """(state, what counts) of some lines; "" where the text has none of them."""
        while first <= min(last, len(self._lines)) and not self._lines[first - 1]:
            first += 1
        if first > min(last, len(self._lines)):
            return "", ""
        end = self._ends[min(last, len(self._lines)) - 1]
        return self._states[first - 1], self.flat[self.starts[first - 1] : end]

    def state_at(self, place: int) -> str:
        return self._states[self.line_of(place) - 1]

    def line_of(self, place: int) -> int:
        """The line in which a character of `flat` stands; between lines, the one before."""
        return bisect_right(self.starts, place)

    def _beside(self, place: int) -> str:
        """The character before one of `flat`, white space too; "\\n" where a line begins."""
        number = self.line_of(place)
        left = place - self.starts[number - 1]
        before = "\n"
        for c in self._lines[number - 1]:
            if c != " ":
                if not left:
                    return before
                left -= 1
            before = c
        return "\n"

    def _joined(self, place: int) -> bool:
        """Whether a word goes on over this place, so that neither begins nor ends there."""
        inside = 0 < place < len(self.flat)
        return inside and _wordly(self.flat[place]) and _wordly(self._beside(place))

    def places(self, state: str, part: str) -> list[tuple[int, int]]:
        """[(first, last line)] of each place where `part`, a `range`, stands on its own."""
        out = []
        # A comma at its end is none here where a bracket closes on the next line.
        core = part.removesuffix(",") or part
        at = self.flat.find(core) if core else -1
        while at >= 0:
            end = at + len(core)
            last = self.line_of(end - 1)
            closed = self.flat.startswith(_CLOSERS, end) and self.line_of(end) > last
            whole = core == part or self.flat.startswith(",", end) or closed
            joined = self._joined(at) or self._joined(end)
            if whole and self.state_at(at) == state and not joined:
                out.append((self.line_of(at), last))
            at = self.flat.find(core, at + 1)
        return out


def _wordly(c: str) -> bool:
    return c.isalnum() or c == "_"


def _next(rows: list[str], number: int) -> str:
    for row in rows[number + 1 : number + 20]:
        if row.strip():
            return row.strip()
    return ""


def anchor(raw: bytes, lines: str) -> str:
    """The content anchor of lines of a file: length and digest of what counts; "" for nothing."""
    found = parse(lines)
    state, part = Layout(raw).range(*found) if found else ("", "")
    return digest(state, part) if part else ""


def digest(state: str, part: str) -> str:
    hashed = sha256(f"{state}\n{part}".encode("utf-8", "surrogateescape"))
    return f"{len(part)}.{hashed.hexdigest()[:32]}"


class TooLong(Exception):
    """The lines may be there: not every part of so long a text was looked at."""


# characters that are hashed in looking for lines whose text is not at hand: some 50 ms
HASHED = 8_000_000


def find(
    raw: bytes | Layout, lines: str, content: str, before: bytes | Layout | None = None
) -> tuple[int, int] | None:
    """(first, last line) where lines stand in another text, the nearest to where they were; None
    where nowhere. Raises TooLong.

    `content`: their content anchor; `before`: the text they were taken from, if it is at hand. One
    of them is enough: without the text parts of that length are hashed, those first that begin a
    line."""
    was = parse(lines)
    if was is None:
        return None
    there = raw if isinstance(raw, Layout) else Layout(raw)
    old = before if before is None or isinstance(before, Layout) else Layout(before)
    state, part = old.range(*was) if old is not None else ("", "")
    if not part or (content and digest(state, part) != content):
        state, part = _hashed(there, content)
    if part and there.range(*was) == (state, part):  # blank lines at its ends, too
        return was
    return min(
        there.places(state, part),
        key=lambda found: (abs(found[0] - was[0]), found),
        default=None,
    )


def _hashed(there: Layout, content: str) -> tuple[str, str]:
    """The part of a text that has a content anchor, "" where none has. Raises TooLong."""
    size, dot, _ = content.partition(".")
    n = int(size) if dot and size.isascii() and size.isdigit() and len(size) < 8 else 0
    left = HASHED // n if n else 0
    begins = [at for at in dict.fromkeys(there.starts) if at + n <= len(there.flat)] if n else []
    for at in (*begins, *(range(len(there.flat) - n + 1) if n else ())):
        left -= 1
        if left < 0:
            raise TooLong
        state, part = there.state_at(at), there.flat[at : at + n]
        if digest(state, part) == content:
            return state, part
        if part.endswith(_CLOSERS) and digest(state, part[:-1] + ",") == content:
            return state, part[:-1] + ","
    return "", ""
