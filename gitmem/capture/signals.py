"""Rules: what a sentence's form alone says about whether a turn is a memory.

Owns three lists. Explicit markers ("remember this", `Decision:`, "from now
on"): the author says so, the confidence is EXPLICIT. Statements ("we decided
to", "turns out"): likely, so the model's confidence is raised to the share of
such turns that were worth keeping. Empty turns (a yes, a shell command, a bare
question, an announcement of what will be done next): no memory, whatever the
words.

A marker counts where a sentence begins, in what its author says in their own
name: not in a question, a hypothesis, a quotation, code, or an order to
remember an errand ("remember to run the tests"). Markers of assistants are not
explicit: their "Remember:" is advice.

Promise: pure, never raises; linear in the length of the text; figures for each
list are in docs/evaluation.md.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Signal(NamedTuple):
    """What the rules say: `kind` is explicit, stated or empty; `type` is "" only for an empty turn."""

    kind: str
    type: str
    confidence: float


EXPLICIT, STATED, EMPTY = 0.97, 0.75, 0.02
# Word at the start of a line -> type. The types of a trailer may be ones that the model never gives.
TRAILERS = {
    "decision": "decision", "decided": "decision", "adr": "decision", "learned": "learning", "learning": "learning", "learnt": "learning", "lesson": "learning",
    "lesson learned": "learning", "til": "learning", "gotcha": "gotcha", "pitfall": "gotcha", "caveat": "gotcha", "convention": "convention", "rule": "convention",
    "preference": "preference", "blocker": "blocker", "blocked": "blocker", "blocked by": "blocker", "root cause": "bugfix", "bugfix": "bugfix",
    "progress": "progress", "milestone": "progress", "dead end": "dead-end", "note to self": "learning", "finding": "finding",
}
_TRAILER = re.compile(r"^[\s>*_#-]*(" + "|".join(sorted((w.replace(" ", "[ -]") for w in TRAILERS), key=len, reverse=True)) + r")s?\s?(?:\*\*|__)?\s?[:：]\s?(?:\*\*|__)?\s?(?=\S)(.*)", re.IGNORECASE)
_MARKER = re.compile(
    r"(?:also[, ]+|and |so |ok(?:ay)?[, ]+|please |pls |now[, ]+|but |yes[, ]+|no[, ]+|just )*(?:"
    r"[#/]remember\b|remember[ \-]?(?:this|that|the following|it)?\s?:|(?:always )?remember (?:that|this|the fact)\b|(?:we|you|i) (?:must|should|need to) remember (?:that|this)\b"
    r"|(?:make|take) a note (?:of this|that)?\b[:, ]|note (?:to self|for later|for the future|for future reference)\b|for (?:future|the) (?:reference|record)\b|memo:|save this\b|store this (?:as|in) (?:a )?memory\b"
    r"|don'?t (?:ever )?forget (?:that|this)\b)", re.IGNORECASE)
_LASTING = re.compile(r"(?:also[, ]+|and |so |ok(?:ay)?[, ]+|please |but |yes[, ]+|no[, ]+)*(?:from (?:now|here|this point|today) on(?:wards?)?|going forward|henceforth|as a (?:general )?rule|in (?:the )?future)\b[, ]+(?=\S+ \S+)", re.IGNORECASE)
_STATED = (
    ("decision", re.compile(r"(?:so |ok(?:ay)?[, ]+|and |yes[, ]+)?(?:(?:after [^,]{3,60}, )?(?:we|i|the team)(?:'ve| have)? (?:finally |now |just |all )?(?:decided|agreed|chose|opted|settled|ruled out)\b|the decision (?:is|was)\b|decided (?:to|on|against|that)\b)", re.IGNORECASE)),
    ("decision", re.compile(r"(?:so |ok(?:ay)?[, ]+|and |yes[, ]+|no[, ]+|yeah[, ]+|yep[, ]+)?(?:let'?s (?:go|stick|stay) with|we(?:'ll| will| are going to|'re going to) (?:use|go with|stick with|keep|drop))\s+(?!option\b|that\b|it\b|this\b|your\b|the (?:first|second|third|last|recommended)\b|[a-d0-9]\b)(?=\S+ \S+)", re.IGNORECASE)),
    ("learning", re.compile(r"(?:so |ok(?:ay)?[, ]+|and |ah[, ]+|hm+[, ]+|interesting[:,. ]+)?(?:(?:it )?turn(?:s|ed) out\b|(?:i|we)(?:'ve| have)? (?:just )?(?:learn(?:ed|t)|found out|discovered|realised|realized) that\b|(?:lesson|key takeaway)\b)", re.IGNORECASE)),
    ("bugfix", re.compile(r"(?:so |ok(?:ay)?[, ]+|and )?the (?:root cause|(?:\w+ ){0,3}(?:bug|crash|issue|problem|error|failure|leak|hang|deadlock|regression)) (?:(?:was|is) (?:caused by|due to|because|that)|came from|comes from|was(?! (?:fixed|still|not|there)))\b", re.IGNORECASE)),
    ("preference", re.compile(r"(?:please )?(?:always|never|do not ever|don't ever) (?!mind\b|seen\b|had\b|been\b)\w+ \S+", re.IGNORECASE)),
)
_QUESTION = re.compile(r"(?:what|why|how|when|where|who|which|can|could|would|should|shall|do|does|did|is|are|was|were|will|am|have|has|any|isn't|aren't|don't you|doesn't)\b", re.IGNORECASE)
_HYPOTHESIS = re.compile(r"(?:what if|suppose|imagine|assuming|if (?:we|i|you|they|it)|maybe|perhaps|let's say|hypothetically|would it)\b", re.IGNORECASE)
_ERRAND = re.compile(r"(?:please |also |and )*(?:don'?t|do not|never|always) (?:forget|remember)? ?(?:to)\b|(?:please |also |and )*remember to\b", re.IGNORECASE)
_ORDER = re.compile(r"[\s,:]*(?:please |always |never |do not |don'?t |we (?:always|never)|i (?:always|never|prefer|want|like)|use |avoid |prefer |only )", re.IGNORECASE)
_SHELL = re.compile(r"\$?\s*(?:sudo )?(?:ls|cd|cat|pwd|git|npm|npx|pnpm|yarn|bun|uv|pip3?|python3?|node|make|docker|kubectl|cargo|go|grep|rg|find|rm|mv|cp|mkdir|touch|chmod|curl|echo|head|tail|which|source|export|ssh|brew|apt|pytest)\b[^.!?]*$")
_ENGLISH = frozenset("a an the is are was be to of and we i you it that this not should must can for on in with from our my supports only always never".split())  # noqa: SIM905
_NARRATION = re.compile(r"(?:ok(?:ay)?[,.! ]+|sure[,.! ]+|great[,.! ]+|now,? |first,? |next,? )*(?:i'll|i will|i'm going to|i am going to|let me|now i'll|i need to)\b", re.IGNORECASE)
_ACK = frozenset("""yes yeah yep yup y no nope nah n ok okay k sure thanks thank you ty thx great good nice perfect cool awesome looks fine lgtm works it that's that correct right exactly done continue
go ahead proceed next please do again try retry stop wait hello hi hey sounds lets let's agreed all so very much for now on and a option 1 2 3 4 b c d first second third one the with both fix run commit push merge""".split())  # noqa: SIM905
_FENCE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_QUOTED = re.compile(r"`[^`\n]*`|\"[^\"\n]{2,400}\"|“[^”\n]{2,400}”|«[^»\n]{2,400}»|(?<!\w)'[^'\n]{8,400}'(?!\w)")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+|;\s+")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_MOST = 20_000


def read(role: str, text: str) -> Signal | None:
    """What the rules say of a stripped turn, or None where they say nothing."""
    sentences = _own(text[:_MOST])
    if role in ("user", "commit"):
        for sentence in sentences:
            found = _explicit(sentence)
            if found is not None:
                return Signal("explicit", found, EXPLICIT)
    if role == "user" and _empty(text, sentences):
        return Signal("empty", "", EMPTY)
    if role == "assistant" and len(sentences) <= 2 and sentences and all(_NARRATION.match(s) for s in sentences):
        return Signal("empty", "", EMPTY)
    if role != "assistant":
        for sentence in sentences:
            if not _doubtful(sentence):
                for type, pattern in _STATED:
                    if pattern.match(sentence) and _words(sentence) > 4:
                        return Signal("stated", type, STATED)
    return None


def _own(text: str) -> list[str]:
    """The sentences said in the author's own name: no code, no lines quoted with `>`, what stands in quotation marks as one word."""
    plain = _QUOTED.sub(" quoted ", _FENCE.sub("\n", text).replace("’", "'"))
    parts = [part.strip(" \t*-•_#") if not part.lstrip().startswith("#remember") else part.strip() for part in _SENTENCE.split(plain) if not part.lstrip().startswith(">")]
    return [part for part in parts if part]


def _explicit(sentence: str) -> str | None:
    """The type that an explicit marker gives, or None."""
    trailer = _TRAILER.match(sentence)
    if trailer and _words(trailer[2]) >= 2 and not sentence.endswith("?"):
        return TRAILERS[re.sub(r"[ -]+", " ", trailer[1].lower())]
    if sentence.endswith("?") or _ERRAND.match(sentence) or _HYPOTHESIS.match(sentence):
        return None
    lasting = _LASTING.match(sentence)
    if lasting:
        rest = sentence[lasting.end() :]
        # "in future" alone also opens a plan; with an order it is a rule
        if not lasting[0].lower().rstrip(" ,").endswith("future") or re.match(r"(?:please|always|never|don'?t|do not|use|only|make sure|avoid|prefer|you (?:must|should))\b", rest, re.IGNORECASE):
            return "preference"
    marker = _MARKER.match(sentence)
    if marker is None or _words(sentence[marker.end() :]) < 2:
        return None
    return "preference" if _ORDER.match(sentence[marker.end() :]) else "learning"


def _doubtful(sentence: str) -> bool:
    return sentence.endswith("?") or bool(_HYPOTHESIS.match(sentence) or _ERRAND.match(sentence) or _QUESTION.match(sentence))


def _empty(text: str, sentences: list[str]) -> bool:
    words = _WORD.findall(text.lower())
    if len(words) <= 2 and not any(ord(c) > 0x2E80 for c in text):
        return True
    if "\n" not in text.strip() and len(words) <= 12 and _SHELL.match(text.strip()) and not _ENGLISH.intersection(words):
        return True
    if len(words) <= 8 and all(w in _ACK for w in words):
        return True
    if len(sentences) == 1 and len(words) <= 25:
        only = sentences[0]
        return (only.endswith("?") and bool(_QUESTION.match(only) or _HYPOTHESIS.match(only))) or bool(_ERRAND.match(only)) or (bool(_NARRATION.match(only)) and " because " not in only)
    return False


def _words(text: str) -> int:
    return len(_WORD.findall(text))
