"""Makes text of others harmless to look at: for terminals, for JSON, for a model's context.

Owns the list of characters that show nothing, reorder what stands beside them or steer a terminal:
controls (so every escape sequence loses its first byte), bidirectional overrides and marks (Trojan
Source), zero-width characters, tag characters and variation selectors (text that a model reads and
a person does not see), fillers, separators. Not look-alike letters, stacked accents, private use.

Promises. What comes out holds none of them, but for a joiner or an emoji selector where the script
or the emoji needs it. Any string is accepted; the work is linear. What is stored is never changed.

No `re` and no `unicodedata`: every prompt waits for the import.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# The first and the last of each range, in order.
_RANGES = (
    "00-1F 7F-9F AD-AD 34F-34F 61C-61C 115F-1160 17B4-17B5 180B-180F 200B-200F "
    "2028-202E 2060-206F 3164-3164 D800-DFFF FE00-FE0F FEFF-FEFF FFA0-FFA0 FFF0-FFFB "
    "FFFE-FFFF 1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"
)
_HIDDEN = [[int(code, 16) for code in span.split("-")] for span in _RANGES.split()]
_STARTS = [first for first, _ in _HIDDEN]
_PICTOGRAPHS = frozenset(
    [0xA9, 0xAE, 0x203C, 0x2049, 0x2122, 0x2139, 0x3030, 0x303D, 0x3297, 0x3299]
)
_NAMED = 4  # characters of one run that people are shown; the others are counted


def hidden(char: str) -> bool:
    """Whether a character is one of those above, wherever it stands; line feed and tab are."""
    from bisect import bisect_right  # takes half a millisecond, and ASCII does without

    code = ord(char)
    return code <= _HIDDEN[bisect_right(_STARTS, code) - 1][1]


def shown(text: str, *, lines: bool = False) -> str:
    """For people: hidden characters as `<1b>` or `<U+202E>`; newlines become spaces, or stay."""
    if not text or (text.isascii() and text.isprintable()):
        return text
    return "".join([_marks(part) if odd else part for part, odd in _parts(text, lines)])


def inert(text: str, *, lines: bool = True) -> str:
    """For a model: each run of hidden characters as one U+FFFD; newlines as in `shown`."""
    if not text or (text.isascii() and text.isprintable()):
        return text
    return "".join(["\ufffd" if odd else part for part, odd in _parts(text, lines)])


def quoted(text: str) -> str:
    """`content` that is an attribute's value too: it can close neither."""
    text = content(text).replace(">", "&gt;")
    return text.replace('"', "&quot;").replace("'", "&apos;")


def content(text: str) -> str:
    """`inert` text in one line as XML content: it opens and closes nothing; quotes stay."""
    text = inert(text, lines=False).replace("&", "&amp;").replace("<", "&lt;")
    return text.replace("]]>", "]]&gt;")  # which XML keeps for itself


def json_text(encoded: str) -> str:
    """JSON of one line with hidden characters as \\u escapes: it says the same."""
    if encoded.isascii() and encoded.isprintable():
        return encoded
    odd = [c for c in set(encoded) if hidden(c)]
    for char in odd:
        units = char.encode("utf-16-be", "surrogatepass").hex()
        encoded = encoded.replace(
            char, "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
        )
    return encoded


def _parts(text: str, lines: bool) -> Iterator[tuple[str, bool]]:
    """(stretch of the text, whether it is hidden characters), with white space made plain."""
    for space in "\t\r" if lines else "\t\r\n":
        text = text.replace(space, " ")
    odd = {c for c in set(text) if hidden(c)} - {"\n"}
    if not odd:
        yield text, False
        return
    done = at = 0
    while at < len(text):
        if text[at] not in odd:
            at += 1
            continue
        end = at + 1
        while end < len(text) and text[end] in odd:
            end += 1
        if not _wanted(text, at, end):
            yield text[done:at], False
            yield text[at:end], True
            done = end
        at = end
    yield text[done:], False


def _marks(run: str) -> str:
    named = "".join(
        [f"<{ord(c):02x}>" if ord(c) < 0x100 else f"<U+{ord(c):04X}>" for c in run[:_NAMED]]
    )
    return named + (f"<{len(run) - _NAMED} more hidden>" if len(run) > _NAMED else "")


def _wanted(text: str, at: int, end: int) -> bool:
    """Whether a script or an emoji needs this run to look right."""
    run = text[at:end]
    if run not in ("\u200c", "\u200d", "\ufe0e", "\ufe0f", "\ufe0f\u200d") or at == 0:
        return False
    before, after = text[at - 1], text[end : end + 1]
    if run in ("\ufe0e", "\ufe0f"):
        return _pictograph(before) or (before in "0123456789#*" and after == "\u20e3")
    if not after:
        return False
    return (_pictograph(before) and _pictograph(after) and run != "\u200c") or (
        len(run) == 1 and _joining(before) and _joining(after)
    )


def _pictograph(char: str) -> bool:
    code = ord(char)
    return 0x2190 <= code <= 0x2BFF or 0x1F000 <= code <= 0x1FAFF or code in _PICTOGRAPHS


def _joining(char: str) -> bool:
    """A letter of the scripts from Arabic to Myanmar, Khmer or Mongolian, whose letters join."""
    code = ord(char)
    return 0x620 <= code <= 0x109F or 0x1780 <= code <= 0x18AF
