"""Rules: the form of a turn that alone says whether it is a memory.

Three kinds. Explicit markers (`markers`: "remember this", `Decision:`, "from now on"): the author
says so, the confidence is EXPLICIT; a doubtful marker counts as a statement. Statements ("we
decided to", "turns out"): the confidence is raised to the share of such turns that were worth
keeping. Empty turns (a yes, a shell command, a bare question, an announcement of the next step): no
memory, whatever the words.

Markers of assistants are not explicit: their "Remember:" is advice.

Promise: pure, never raises; linear in the length of the text; docs/evaluation.md has figures for
each kind.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from . import markers, word_lists


class Signal(NamedTuple):
    """What the rules say: `kind` is explicit, stated or empty; `type` is "" only for an empty
    turn."""

    kind: str
    type: str
    confidence: float


EXPLICIT, STATED, EMPTY = 0.97, 0.75, 0.02
_STATED = (
    (
        "decision",
        re.compile(
            r"(?:so |ok(?:ay)?[, ]+|and |yes[, ]+)?(?:(?:after [^,]{3,60}, )?(?:we|i|the"
            r" team)(?:'ve| have)? (?:finally |now |just |all"
            r" )?(?:decided|agreed|chose|opted|settled|ruled out)\b|the decision"
            r" (?:is|was)\b|decided (?:to|on|against|that)\b)",
            re.IGNORECASE,
        ),
    ),
    (
        "decision",
        re.compile(
            r"(?:so |ok(?:ay)?[, ]+|and |yes[, ]+|no[, ]+|yeah[, ]+|yep[, ]+)?(?:let'?s"
            r" (?:go|stick|stay) with|we(?:'ll| will| are going to|'re going to) (?:use|go"
            r" with|stick with|keep|drop))\s+(?!option\b|that\b|it\b|this\b|your\b|the"
            r" (?:first|second|third|last|recommended)\b|[a-d0-9]\b)(?=\S+ \S+)",
            re.IGNORECASE,
        ),
    ),
    (
        "learning",
        re.compile(
            r"(?:so |ok(?:ay)?[, ]+|and |ah[, ]+|hm+[, ]+|interesting[:,. ]+)?(?:(?:it"
            r" )?turn(?:s|ed) out\b|(?:i|we)(?:'ve| have)? (?:just )?(?:learn(?:ed|t)|found"
            r" out|discovered|realised|realized) that\b|(?:lesson|key takeaway)\b)",
            re.IGNORECASE,
        ),
    ),
    (
        "bugfix",
        re.compile(
            r"(?:so |ok(?:ay)?[, ]+|and )?the (?:root cause|(?:\w+"
            r" ){0,3}(?:bug|crash|issue|problem|error|failure|leak|hang|deadlock|regression))"
            r" (?:(?:was|is) (?:caused by|due to|because|that)|came from|comes from|was(?!"
            r" (?:fixed|still|not|there)))\b",
            re.IGNORECASE,
        ),
    ),
    (
        "preference",
        re.compile(
            r"(?:please )?(?:always|never|do not ever|don't ever)"
            r" (?!mind\b|seen\b|had\b|been\b)\w+ \S+",
            re.IGNORECASE,
        ),
    ),
)
_QUESTION = re.compile(
    r"(?:what|why|how|when|where|who|which|can|could|would|should|shall|do|does|did|is|are|was|were|will|am|have|has|any|isn't|aren't|don't"
    r" you|doesn't)\b",
    re.IGNORECASE,
)
_HYPOTHESIS = re.compile(
    r"(?:what if|suppose|imagine|assuming|if (?:we|i|you|they|it)|maybe|perhaps|let's"
    r" say|hypothetically|would it)\b",
    re.IGNORECASE,
)
_ERRAND = re.compile(
    r"(?:please |also |and )*(?:don'?t|do not|never|always) (?:forget|remember)?"
    r" ?(?:to)\b|(?:please |also |and )*remember to\b",
    re.IGNORECASE,
)
_SHELL = re.compile(
    r"\$?\s*(?:sudo"
    r" )?(?:ls|cd|cat|pwd|git|npm|npx|pnpm|yarn|bun|uv|pip3?|python3?|node|make|docker|kubectl|cargo|go|grep|rg|find|rm|mv|cp|mkdir|touch|chmod|curl|echo|head|tail|which|source|export|ssh|brew|apt|pytest)\b[^.!?]*$"  # noqa: E501
)
_NARRATION = re.compile(
    r"(?:ok(?:ay)?[,.! ]+|sure[,.! ]+|great[,.! ]+|now,? |first,? |next,? )*(?:i'll|i will|i'm"
    r" going to|i am going to|let me|now i'll|i need to)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_MOST = 20_000


def read(role: str, text: str) -> Signal | None:
    """What the rules say of a stripped turn, or None where they say nothing."""
    sentences = [sentence.text for sentence in markers.own(text[:_MOST])]
    marked = markers.find(text[:_MOST]) if role in ("user", "commit") else None
    if marked is not None and marked[1]:
        return Signal("explicit", marked[0], EXPLICIT)
    if role == "user" and _empty(text, sentences):
        return Signal("empty", "", EMPTY)
    if (
        role == "assistant"
        and len(sentences) <= 2
        and sentences
        and all(_NARRATION.match(s) for s in sentences)
    ):
        return Signal("empty", "", EMPTY)
    if marked is not None:
        return Signal("stated", marked[0], STATED)
    if role != "assistant":
        for sentence in sentences:
            if not _doubtful(sentence):
                for type, pattern in _STATED:
                    if pattern.match(sentence) and _words(sentence) > 4:
                        return Signal("stated", type, STATED)
    return None


def _doubtful(sentence: str) -> bool:
    return sentence.endswith("?") or bool(
        _HYPOTHESIS.match(sentence) or _ERRAND.match(sentence) or _QUESTION.match(sentence)
    )


def _empty(text: str, sentences: list[str]) -> bool:
    words = _WORD.findall(text.lower())
    if len(words) <= 2 and not any(ord(c) > 0x2E80 for c in text):
        return True
    if (
        "\n" not in text.strip()
        and len(words) <= 12
        and _SHELL.match(text.strip())
        and not word_lists.SMALL_ENGLISH.intersection(words)
    ):
        return True
    if len(words) <= 8 and all(w in word_lists.ACKNOWLEDGEMENTS for w in words):
        return True
    if len(sentences) == 1 and len(words) <= 25:
        only = sentences[0]
        return (
            (only.endswith("?") and bool(_QUESTION.match(only) or _HYPOTHESIS.match(only)))
            or bool(_ERRAND.match(only))
            or (bool(_NARRATION.match(only)) and " because " not in only)
        )
    return False


def _words(text: str) -> int:
    return len(_WORD.findall(text))
