"""Text to WordPiece tokens, as BERT's uncased tokenizer makes them.

Promises:

* The tokens of Hugging Face's `tokenizers` for bert-base-uncased, with three differences: "[SEP]"
  and the like in a text are ordinary characters, a lone surrogate is dropped, and classes of
  characters are those of this Python's `unicodedata`.
* Any `str` is accepted; a text counts up to `MAX_CHARS` characters.
* Standard library only, and without `re` and `unicodedata` as long as texts are ASCII.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# 256 tokens of prose are some 1,200 characters, of indented code 3,000.
MAX_CHARS = 8192
# A longer word is one [UNK], as BERT has it.
MAX_WORD_CHARS = 100

# BERT makes each of these characters a word of its own.
_CJK = (
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0x2F800, 0x2FA1F),
)  # fmt: skip


class _Folding(dict[int, str]):
    """What stands for a character in the folded text, where spaces part words."""

    def __missing__(self, code: int) -> str:
        from unicodedata import category, normalize

        char = chr(code)
        kind = category(char)
        if char.isspace() and (kind[0] == "Z" or char in "\t\n\r"):
            folded = " "
        elif kind in ("Cc", "Cf", "Co", "Cs") or char == "\ufffd":
            folded = ""
        else:
            parts = [c.lower() for c in normalize("NFD", char) if category(c) != "Mn"]
            folded = "".join([f" {c} " if _alone(c, category) else c for c in parts])
            if any(low <= code <= high for low, high in _CJK):
                folded = f" {folded} "
        self[code] = folded
        return folded


def _alone(char: str, category: Callable[[str], str]) -> bool:
    """Whether a character is punctuation for BERT: all ASCII signs, and Unicode's."""
    if len(char) != 1:
        return False
    if char.isascii():
        return char.isprintable() and not char.isalnum() and char != " "
    return category(char)[0] == "P"


_folding = _Folding()
_folding.update({c: chr(c).lower() if chr(c).isalnum() else f" {chr(c)} " for c in range(33, 127)})
_folding.update(dict.fromkeys((*range(32), 127), ""))
_folding.update(dict.fromkeys((9, 10, 13, 32), " "))


def words(text: str) -> list[str]:
    """The words and punctuation marks of a text, folded, in order."""
    return text.lstrip()[:MAX_CHARS].translate(_folding).split()


class WordPiece:
    """The split into pieces of a vocabulary. Safe to share between threads.

    `find` gives a token's number, or -1; `longest`: the letters of its longest token. Pieces inside
    a word begin with "##".
    """

    def __init__(self, find: Callable[[str], int], longest: int = MAX_WORD_CHARS) -> None:
        self._find, self._longest = find, longest
        self._cache: dict[str, tuple[int, ...]] = {}
        self._cls, self._sep, self._unknown = map(find, ("[CLS]", "[SEP]", "[UNK]"))
        self.without_meaning = frozenset((self._cls, self._sep, self._unknown))

    def tokens(self, text: str, most: int) -> list[int]:
        """Numbers of [CLS], the text's pieces, and [SEP]; at most `most` (2 or more) in all."""
        out = [self._cls]
        for word in words(text):
            out += self._cache.get(word) or self._remember(word)
            if len(out) >= most:
                break
        del out[most - 1 :]
        out.append(self._sep)
        return out

    def _remember(self, word: str) -> tuple[int, ...]:
        if len(self._cache) >= 100_000:  # about 20 MB
            self._cache.clear()
        pieces = self._cache[word] = self._split(word)
        return pieces

    def _split(self, word: str) -> tuple[int, ...]:
        """The longest token from the start, then the longest from there; [UNK] if that fails."""
        length = len(word)
        if length > MAX_WORD_CHARS:
            return (self._unknown,)
        pieces: list[int] = []
        start = 0
        while start < length:
            prefix = "##" if start else ""
            for end in range(min(length, start + self._longest), start, -1):
                number = self._find(prefix + word[start:end])
                if number >= 0:
                    pieces.append(number)
                    start = end
                    break
            else:
                return (self._unknown,)
        return tuple(pieces)
