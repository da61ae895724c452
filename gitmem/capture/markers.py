"""Words by which an author says: keep this. "Remember this: …", `Decision: …`, "from now on …".

A marked text is stored without asking anybody, so exactness counts before recall: a doubtful marker
is offered at most. A marker is sure where all of this holds: it begins a line or a sentence of the
author's own; the text behind it claims something (a statement, or a rule that lasts; no errand, no
placeholder); no line that ends in a colon leads to it; it stands in no form of `Key: value` lines;
no other sentence of the turn asks or orders something about a text, or takes it back; and the turn
is short enough to be no paste. `marker_patterns` has the patterns of each.

Promise: pure, never raises; linear in the length of the text. English only.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from . import marker_patterns as patterns
from . import word_lists

LONGEST = 2_000  # characters of a turn; a longer one is a paste, whose markers may be others'


class Sentence(NamedTuple):
    """One sentence of a turn: its words, its line, and whether nothing but an acknowledgement
    stands before it there.
    """

    text: str
    line: int
    first: bool


def own(text: str) -> list[Sentence]:
    """What the author says in their own name: no code, no lines quoted with `>`, what stands in
    quotation marks as one word.
    """
    plain = patterns.QUOTED.sub(
        " quoted ",
        patterns.FENCE.sub(lambda f: "\n" * (1 + f[0].count("\n")), text).replace("’", "'"),
    )
    found: list[Sentence] = []
    for number, line in enumerate(plain.split("\n")):
        if line.lstrip().startswith(">"):
            continue
        nods = True
        for part in patterns.SENTENCE.split(line):
            said = (
                part.strip(" \t*•_-")
                if part.lstrip()[:9].lower() == "#remember"
                else part.strip(" \t*•_#-")
            )
            if said:
                found.append(Sentence(said, number, nods))
                nods = nods and all(
                    w in word_lists.NODS for w in patterns.WORD.findall(said.lower())
                )
    return found


def find(text: str) -> tuple[str, bool] | None:
    """(type, whether it is sure) of the first sure marker of a person's turn, else of the first
    doubtful one; None without any.
    """
    sentences = own(text)
    found = [_marker(sentence) for sentence in sentences]
    marked = [(sentence, m) for sentence, m in zip(sentences, found, strict=True) if m is not None]
    if not marked:
        return None
    if len(text) <= LONGEST and not any(
        _discusses(sentence.text) for sentence, m in zip(sentences, found, strict=True) if m is None
    ):
        lines = text.split("\n")
        for sentence, m in marked:
            if m[1] and plain(lines, sentence.line):
                return m
    return marked[0][1][0], False


def trailer(line: str) -> tuple[str, str, bool] | None:
    """(type, text, whether its word is sure and its text claims something) of a line that begins
    like a trailer.
    """
    found = patterns.TRAILER.match(line)
    if found is None:
        return None
    word = re.sub(r"[ -]+", " ", found[1].lower())
    return (
        patterns.TRAILERS[word],
        found[2].strip(),
        word not in word_lists.WEAK_TRAILERS
        and claims(found[2], rule=True)
        and not (patterns.TRAILERS[word] in patterns.TOLD and patterns.MAKE.match(found[2])),
    )


def plain(lines: list[str], at: int) -> bool:
    """Whether the line `at` is neither led to by another, nor part of a form or a log, nor code,
    nor a heading.
    """
    line = lines[at]
    if line.startswith(("    ", "\t")) or re.match(r"\s*#+\s", line):
        return False
    before = next((b for b in reversed(lines[:at]) if b.strip()), "")
    if (
        before.rstrip(" *_").endswith((":", "："))
        or patterns.SAYS.search(before)
        or before.lstrip().startswith(("```", "~~~"))
    ):
        return False
    return not any(
        _form(lines[i]) or patterns.LOG.match(lines[i])
        for way in (range(at - 1, -1, -1), range(at + 1, len(lines)))
        for i in _block(lines, way)
    )


def claims(text: str, rule: bool = False) -> bool:
    """Whether what a marker names says something that lasts.

    `rule`: orders may be meant to last ("Decision: move the queue").
    """
    said = text.strip().replace("’", "'")
    words = patterns.WORD.findall(said)
    if len([w for w in words if not w[0].isdigit()]) < (2 if rule else 3) or said.endswith("?"):
        return False
    if (
        patterns.BLANK.match(said)
        or patterns.LOOSE.search(said)
        or patterns.ASKS.match(said)
        or patterns.SUPPOSES.match(said)
        or patterns.COMPLAINT.match(said)
        or patterns.POINTS.match(said)
        or patterns.THEN.search(said)
    ):
        return False
    if (
        (not rule and (said[:7].lower() == "please " or patterns.PASSING.search(said)))
        or patterns.NOT_YET.match(said)
        or (patterns.ASK_SOMEBODY.match(said) and (not rule or patterns.PASSING.search(said)))
    ):
        return False
    return not (patterns.ORDERED.match(said) and (not rule or patterns.ERRAND.search(said)))


def _marker(sentence: Sentence) -> tuple[str, bool] | None:
    text = sentence.text
    named = trailer(text)
    if named is not None:
        if not claims(named[1], rule=True):
            return None
        return named[0], named[2] and sentence.first
    if text.endswith("?"):
        return None
    lasting = patterns.LASTING.match(text)
    if lasting:
        return (
            ("preference", True) if _lasts(lasting["when"].lower(), text[lasting.end() :]) else None
        )
    found = patterns.COLON.match(text) or patterns.PHRASE.match(text)
    if found is None:
        found = patterns.THAT.match(text)
        if found is None or not _clause(text[found.end() :]):
            return None
    rest = text[found.end() :]
    return (("preference" if _order(rest) else "learning"), True) if claims(rest) else None


def _order(rest: str) -> bool:
    return bool(
        re.match(
            r"[\s,:]*(?:please |always |never |do not |don'?t |we (?:always|never)|i"
            r" (?:always|never|prefer|like)|use |avoid |prefer |only )",
            rest,
            re.IGNORECASE,
        )
    )


def _clause(rest: str) -> bool:
    """Whether the words after "remember that" have a subject and a verb: "that invoices are
    numbered", not "that bug from yesterday".
    """
    if patterns.PASSING.search(rest):
        return False
    if patterns.SUBJECT.match(rest):
        return len(patterns.WORD.findall(rest)) >= 3
    for place, word in enumerate(patterns.WORD.findall(rest.partition(",")[0].lower())):
        if place and word in word_lists.FINITE_VERBS:
            return True
        if word in word_lists.RELATIVE_WORDS:
            return False
    first, _, more = rest.partition(" ")
    return first[:1].isupper() and bool(re.match(r"\w+s\b", more))  # "that Safari drops the cookie"


def _lasts(when: str, rest: str) -> bool:
    """Whether what follows "from now on" is a rule, not a plan or a description."""
    if (
        len(patterns.WORD.findall(rest)) < 3
        or patterns.PLAN.match(rest)
        or patterns.ASKS.match(rest)
        or patterns.THEN.search(rest)
        or patterns.SUPPOSES.match(rest)
        or patterns.JUST_NOW.search(rest)
    ):
        return False
    if patterns.RULE.match(rest):
        return True
    if "future" in when or "rule" in when or "point" in when or "here" in when:
        return bool(re.match(r"please (?!" + patterns.ONCE + r"\b)", rest, re.IGNORECASE))
    duty = patterns.DUTY.match(rest)
    if duty:
        return not patterns.ABOUT.match(rest[duty.end() :].lstrip())
    if patterns.HABIT.match(rest):
        return True
    return (
        bool(patterns.GENERAL.search(rest))
        and not re.match(
            r"(?:please )?(?:fix|" + patterns.ABOUT.pattern + r")\b", rest, re.IGNORECASE
        )
        and not patterns.ERRAND.search(rest)
    )


def _discusses(text: str) -> bool:
    """Whether a sentence asks or orders something about a text, for a marker beside it may be that
    text, or takes back what is said.
    """
    if patterns.TAKES_BACK.match(text):
        return True
    asks = (
        text.endswith(("?", "：", ":"))
        or patterns.WORKS_ON.match(text)
        or patterns.ASKS.match(text)
        or patterns.ORDERED.match(text)
        or patterns.SAYS.search(text)
    )
    return bool(asks and patterns.TEXTUAL.search(text))


def _block(lines: list[str], way: range) -> list[int]:
    """The lines that stand next to one without a blank line between."""
    found: list[int] = []
    for i in way:
        if not lines[i].strip() or len(found) == 6:
            break
        found.append(i)
    return found


def _form(line: str) -> bool:
    """Whether a line is `Key: value` and no trailer of ours."""
    key = patterns.KEY.match(line)
    return bool(
        key
        and key[1].lower() not in patterns.REASONS
        and not patterns.TRAILER.match(line)
        and not patterns.COLON.match(line.strip(" *_-"))
        and "remember" not in key[1].lower()
    )
