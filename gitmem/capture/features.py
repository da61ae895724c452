"""Turns a turn into numbers for the linear model, in plain Python.

The model sees hashed n-grams of words and letters of the prose, where in the turn they stand, the
forms of its sentences, and how much of the turn is code, list or paste. Code itself is not read: it
says little about whether the words around it are worth keeping.

Promise: pure; the same text gives the same numbers on every machine and in every version of Python
(crc32, no `hash`); work is bounded by MAX_CHARS. A model's weights belong to one VERSION of this
file and of `word_lists`.
"""

from __future__ import annotations

import re
from binascii import crc32
from itertools import pairwise
from math import log2, sqrt

from . import word_lists

VERSION = 2
HASHED = 16384  # buckets of n-grams; the numbers below come after them
MAX_CHARS = 4000  # of a turn, half from its beginning and half from its end
MAX_WORDS = 300  # of the prose that become n-grams, likewise
MEANT = 1500  # characters of the prose whose meaning counts, from its beginning
ENCODED = 1300  # characters of the prose that the encoder reads: mostly more than its 256 tokens

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_INLINE = re.compile(r"`[^`\n]{1,200}`")
_URL = re.compile(r"https?://\S+|\bwww\.\S+")
_PATH = re.compile(
    r"[@#]?(?:[\w.\-]+/)+[\w.\-]+|[@#]?\b[\w\-]+\.(?:py|ts|tsx|js|jsx|md|mdc|json|ya?ml|go|rs|kt|"
    r"java|vue|css|html|sh|toml|sql|txt|mjs|log)\b"
)
_NARRATION = re.compile(
    r"^(?:-{3,}|Tool use:.*|Read file:.*|Searched .*|Listed .*|Edited .*|_.{0,30}_)$", re.MULTILINE
)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?|\d+|[?!]|[^\x00-\x7f]")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+|(?<=[。！？])")
_TRACE = re.compile(
    r"^\s+at |Traceback|^\s*File \"|Error:|^\s*[\w.]+(?:Error|Exception)\b|npm"
    r" ERR|^\[?\d{4}-\d\d-\d\d[T ]|^\s*\d+ \|",
    re.MULTILINE,
)

_MARKS = (word_lists.LASTING, word_lists.DUTY, word_lists.REASON)
_GROUPS = (*_MARKS, word_lists.CHOICE, word_lists.FINDING)
LENGTHS = (4, 8, 14, 22, 34, 50, 75, 110, 160, 240)
NUMBERS = 107


def non_ascii(text: str) -> bool:
    """Whether more than a tenth of the letters are not among ASCII's."""
    letters = [c for c in text[:MAX_CHARS] if c.isalpha()]
    return sum(not c.isascii() for c in letters) * 10 > len(letters)


def prose(text: str) -> tuple[str, list[float]]:
    """The words around the code, and shares of what was taken out: fences, inline code, paths,
    error output.
    """
    if len(text) > MAX_CHARS:
        text = text[: MAX_CHARS // 2] + "\n" + text[-MAX_CHARS // 2 :]
    total = len(text) or 1
    plain = _FENCE.sub(" \n", text)
    fenced = (total - len(plain)) / total
    plain = _NARRATION.sub("", plain)
    narrated = (total - len(plain)) / total - fenced
    traces = len(_TRACE.findall(plain))
    plain, links = _URL.subn(" urlx ", plain)
    plain, ticks = _INLINE.subn(" codex ", plain)
    plain, paths = _PATH.subn(" pathx ", plain)
    counts = ((traces, 8), (links, 4), (ticks, 12), (paths, 8))
    return plain, [fenced, max(0.0, narrated), *[min(n, most) / most for n, most in counts]]


def features(role: str, text: str) -> tuple[list[int], list[float], str]:
    """(hashed buckets, each once and in order, all of the same worth; NUMBERS dense numbers, most
    of them 0 to 1; the prose they are of).
    """
    plain, shares = prose(text)
    who = "u" if role == "user" else "a"
    sentences = [s.strip(" \t-*•>#_") for s in _SENTENCE.split(plain)]
    sentences = [s for s in sentences if s]
    tokens = [_WORD.findall(s.lower().replace("’", "'")) for s in sentences]
    tokens = [["0" if t.isdigit() else t for t in words] for words in tokens if words]
    flat = [t for words in tokens for t in words]
    count = len(flat)
    if count > MAX_WORDS:
        flat = flat[: MAX_WORDS // 2] + flat[-MAX_WORDS // 2 :]
    seen = set(flat)
    padded = [f" {word} " for word in seen if len(word) > 3]
    grams = {
        *seen,
        *[f"{who}:{word}" for word in seen],
        *[f"{a} {b}" for a, b in pairwise(flat)],
        *[f"{a} {b} {c}" for a, b, c in zip(flat, flat[1:], flat[2:], strict=False)],
        *["4" + word[i : i + 4] for word in padded for i in range(len(word) - 3)],
        *[f"^{' '.join(words[:n])}" for words in tokens for n in (1, 2)],
        *["$" + word for words in tokens[-1:] for word in words[-8:]],
    }
    for i, words in enumerate(tokens[:3]):
        grams.update([f"{who}^{i}{' '.join(words[:n])}" for n in (1, 2, 3)])
    hashed = sorted({crc32(g.encode("utf-8", "replace")) % HASHED for g in grams})
    return hashed, _numbers(role, text, sentences, tokens, count, shares), plain


def _numbers(
    role: str,
    text: str,
    sentences: list[str],
    tokens: list[list[str]],
    count: int,
    shares: list[float],
) -> list[float]:
    user = role == "user"
    n = len(tokens) or 1
    asked = [i for i, words in enumerate(tokens) if _asks(words)]
    orders = [i for i, words in enumerate(tokens) if _orders(words)]
    said = [
        i for i in range(len(tokens)) if i not in asked and i not in orders and len(tokens[i]) > 3
    ]
    past = sum(any(len(w) > 4 and w.endswith("ed") for w in words) for words in tokens)
    held = [sum(not group.isdisjoint(words) for words in tokens) for group in _GROUPS]
    mine = sum(not word_lists.FIRST_PERSON.isdisjoint(words[:3]) for words in tokens)
    lines = text.split("\n")
    starts = [line.lstrip()[:2] for line in lines]
    listed = sum(s in ("- ", "* ", "• ") or s.rstrip(".)").isdigit() for s in starts)
    read = text[:MAX_CHARS]
    size = len(read) or 1
    letters = sum(c.isalpha() for c in read)
    upper = sum(c.isupper() for c in read)
    wide = sum(ord(c) > 0x2E80 for c in read)
    kinds = (asked, orders, said)
    base = [
        log2(1 + count) / 10,
        sqrt(count) / 20,
        min(n, 20) / 20,
        log2(1 + len(text)) / 12,
        *[len(found) / n for found in kinds],
        *[min(len(found), most) / most for found, most in zip(kinds, (4, 4, 6), strict=True)],
        *map(float, (0 in asked, 0 in orders, len(tokens) - 1 in asked)),
        *map(float, (len(asked) == len(tokens) > 0, not said)),
        past / n,
        min(past, 4) / 4,
        mine / n,
        min(mine, 4) / 4,
        *[min(h, 3) / 3 for h in held],
        *[h / n for h in held],
        min(listed, 10) / 10,
        listed / (len(lines) or 1),
        letters / size,
        upper / (letters or 1),
        wide / size,
        *shares,
        float(sum(map(len, sentences)) > 1200),
        min(max(map(len, tokens), default=0), 120) / 60,
        min(count / n, 60) / 30,
    ]
    both = [*base, *[float(count >= edge) for edge in LENGTHS]]
    # What a form says of a user's turn it need not say of an assistant's.
    return [float(user), *both, *(both if user else [0.0] * len(both))]


def _asks(words: list[str]) -> bool:
    opens = words[0] in word_lists.QUESTION_OPENERS and words[-1] != "!"
    return opens or "?" in words[-2:]


def _orders(words: list[str]) -> bool:
    request = words[0] in word_lists.REQUEST_OPENERS and words[1:2] == ["you"]
    return request or words[0] in word_lists.ORDER_VERBS or words[0] == "please"
