"""Rules: forms of a turn that decide alone whether it is worth keeping.

Three kinds. Explicit markers (`markers`: "remember this", `Decision:`, "from now on"): the author
says so; a doubtful marker counts as a statement, and an assistant's "Remember:" is advice.
Statements ("we decided to", "turns out"): the confidence is raised to the share of such turns that
were worth keeping. Empty turns (a yes, a shell command, a bare question, an announcement of the
next step): no memory, whatever the words.

Promise: pure, never raises; linear in the length of the text; docs/evaluation.md has figures.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from . import markers, word_lists
from .marker_patterns import WORD, pattern


class Signal(NamedTuple):
    """`kind` is explicit, stated or empty; `type` is "" only for an empty turn."""

    kind: str
    type: str
    confidence: float


EXPLICIT, STATED, EMPTY = 0.97, 0.75, 0.02
_NOTHING = Signal("empty", "", EMPTY)
_DECIDED = pattern(
    r"(?:so |ok(?:ay)?[, ]+|and |yes[, ]+)?"
    r"(?:(?:after [^,]{3,60}, )?(?:we|i|the team)(?:'ve| have)?"
    r" (?:finally |now |just |all )?(?:decided|agreed|chose|opted|settled|ruled out)\b|"
    r"the decision (?:is|was)\b|decided (?:to|on|against|that)\b)"
)
_CHOSEN = pattern(
    r"(?:so |ok(?:ay)?[, ]+|and |yes[, ]+|no[, ]+|yeah[, ]+|yep[, ]+)?"
    r"(?:let'?s (?:go|stick|stay) with|we(?:'ll| will| are going to|'re going to) (?:use|go with|"
    r"stick with|keep|drop))\s+(?!option\b|that\b|it\b|this\b|your\b|"
    r"the (?:first|second|third|last|recommended)\b|[a-d0-9]\b)(?=\S+ \S+)"
)
_LEARNED = pattern(
    r"(?:so |ok(?:ay)?[, ]+|and |ah[, ]+|hm+[, ]+|interesting[:,. ]+)?"
    r"(?:(?:it )?turn(?:s|ed) out\b|(?:i|we)(?:'ve| have)? (?:just )?(?:learn(?:ed|t)|"
    r"found out|discovered|realised|realized) that\b|(?:lesson|key takeaway)\b)"
)
_CAUSE = pattern(
    r"(?:so |ok(?:ay)?[, ]+|and )?the (?:root cause|(?:\w+ ){0,3}(?:bug|crash|issue|problem|error|"
    r"failure|leak|hang|deadlock|regression)) (?:(?:was|is) (?:caused by|due to|because|that)|"
    r"came from|comes from|was(?! (?:fixed|still|not|there)))\b"
)
_PREFERRED = pattern(
    r"(?:please )?(?:always|never|do not ever|don't ever) (?!mind\b|seen\b|had\b|been\b)\w+ \S+"
)
_STATED = (
    ("decision", _DECIDED),
    ("decision", _CHOSEN),
    ("learning", _LEARNED),
    ("bugfix", _CAUSE),
    ("preference", _PREFERRED),
)
_QUESTION = pattern(
    r"(?:what|why|how|when|where|who|which|can|could|would|should|shall|do|does|did|is|are|was|"
    r"were|will|am|have|has|any|isn't|aren't|don't you|doesn't|if|suppose|imagine|assuming|maybe|"
    r"perhaps|let's say|hypothetically)\b"
)
_ERRAND = pattern(
    r"(?:please |also |and )*(?:don'?t|do not|never|always) (?:forget|remember)? ?(?:to)\b|"
    r"(?:please |also |and )*remember to\b"
)
_SHELL = re.compile(
    r"\$?\s*(?:sudo )?(?:ls|cd|cat|pwd|git|npm|npx|pnpm|yarn|bun|uv|pip3?|python3?|node|make|"
    r"docker|kubectl|cargo|go|grep|rg|find|rm|mv|cp|mkdir|touch|chmod|curl|echo|head|tail|which|"
    r"source|export|ssh|brew|apt|pytest)\b[^.!?]*$"
)
_NARRATION = pattern(
    r"(?:ok(?:ay)?[,.! ]+|sure[,.! ]+|great[,.! ]+|now,? |first,? |next,? )*(?:i'll|i will|"
    r"i'm going to|i am going to|let me|now i'll|i need to)\b"
)
_MOST = 20_000


def read(role: str, text: str) -> Signal | None:
    """What the rules say of a stripped turn, or None where they say nothing."""
    own = markers.own(text[:_MOST])
    sentences = [sentence.text for sentence in own]
    if role == "assistant":
        told = 0 < len(sentences) <= 2 and all(_NARRATION.match(s) for s in sentences)
        return _NOTHING if told else None
    marked = markers.among(own, text[:_MOST]) if role in ("user", "commit") else None
    if marked and marked[1]:
        return Signal("explicit", marked[0], EXPLICIT)
    if role == "user" and _empty(text, sentences):
        return _NOTHING
    if marked:
        return Signal("stated", marked[0], STATED)
    for sentence in sentences:
        if sentence.endswith("?") or _ERRAND.match(sentence):
            continue
        for type, stated in _STATED:
            if stated.match(sentence) and len(WORD.findall(sentence)) > 4:
                return Signal("stated", type, STATED)
    return None


def _empty(text: str, sentences: list[str]) -> bool:
    words = WORD.findall(text.lower())
    line = text.strip()
    if len(words) <= 2 and not any(ord(c) > 0x2E80 for c in text):
        return True
    command = "\n" not in line and len(words) <= 12 and _SHELL.match(line)
    if command and not word_lists.SMALL_ENGLISH.intersection(words):
        return True
    if len(words) <= 8 and word_lists.ACKNOWLEDGEMENTS.issuperset(words):
        return True
    if len(sentences) != 1 or len(words) > 25:
        return False
    only = sentences[0]
    if _ERRAND.match(only) or (_NARRATION.match(only) and " because " not in only):
        return True
    return only.endswith("?") and bool(_QUESTION.match(only))
