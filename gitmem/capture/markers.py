"""Words by which an author says: keep this. "Remember this: …", `Decision: …`, "from now on …".

A marked text is stored without asking anybody, so exactness counts before recall: a doubtful marker
is offered at most. A marker is sure where all of this holds: it begins a line or a sentence of the
author's own; the text behind it claims something (a statement, or a rule that lasts; no errand, no
placeholder); no line that ends in a colon leads to it; it stands in no form of `Key: value` lines;
no other sentence of the turn asks or orders something about a text, or takes it back; and the turn
is no diff, no mail, and short enough to be no paste. `marker_patterns` has the patterns of each.

Promise: pure, never raises; linear in the length of the text. English only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from . import marker_patterns as patterns
from . import word_lists
from .marker_patterns import pattern

LONGEST = 2_000  # characters of a turn; a longer one is a paste, whose markers may be others'
_ORDER = pattern(
    r"[\s,:]*(?:please |always |never |do not |don'?t |we (?:always|never)|"
    r"i (?:always|never|prefer|like)|use |avoid |prefer |only )"
)
_ASKS_TO_WORK = pattern(rf"(?:please )?(?:fix|{patterns.ABOUT.pattern})\b")
_ASKS_FOR_A_HABIT = pattern(rf"please (?!{patterns.ONCE}\b)")


class Sentence(NamedTuple):
    """One sentence of a turn, its line, and whether nothing but a nod stands before it there."""

    text: str
    line: int
    first: bool


def own(text: str) -> list[Sentence]:
    """What the author says in their own name: no fenced code, no lines quoted with `>`, what stands
    in backticks or quotation marks as one word.
    """
    found: list[Sentence] = []
    for number, line in _outside_fences(text):
        if line.lstrip().startswith(">"):
            continue
        # A name in backticks is the author's word; what somebody else said claims nothing.
        line = patterns.QUOTED.sub(
            lambda q: " code " if q[0][0] == "`" else " quoted ", line.replace("’", "'")
        )
        nods = True
        for part in patterns.SENTENCE.split(line):
            tag = part.lstrip()[:9].lower() == "#remember"
            said = " ".join(part.strip(" \t*•_-" if tag else " \t*•_#-").split())
            if said:
                found.append(Sentence(said, number, nods))
                nods = nods and word_lists.NODS.issuperset(patterns.WORD.findall(said.lower()))
    return found


def _outside_fences(text: str) -> Iterator[tuple[int, str]]:
    """(number, line) of what is not in a code fence; of a line that has one, each part."""
    number = 0
    for place, part in enumerate(patterns.FENCE.split(text)):
        if place % 2 == 0:  # every second one is a fence
            yield from enumerate(part.split("\n"), number)
        number += part.count("\n")


def find(text: str) -> tuple[str, bool] | None:
    """(type, whether it is sure) of the first sure marker of a person's turn, else of the first
    doubtful one; None without any.
    """
    return among(own(text), text)


def among(sentences: list[Sentence], text: str) -> tuple[str, bool] | None:
    """`find`, where the sentences that are the author's own are at hand."""
    sentences = _led(sentences)
    found = [_marker(sentence) for sentence in sentences]
    marked = [(s.line, m) for s, m in zip(sentences, found, strict=True) if m is not None]
    if not marked:
        return None
    others = [s.text for s, m in zip(sentences, found, strict=True) if m is None]
    pasted = len(text) > LONGEST or patterns.PASTE.search(text)
    if not pasted and not any(map(_discusses, others)):
        lines = text.split("\n")
        for line, (type, sure) in marked:
            if sure and _plain(lines, line):
                return type, True
    return marked[0][1][0], False


def _led(sentences: list[Sentence]) -> list[Sentence]:
    """With the first words that follow a marker alone in its line: "Remember this:", then a list.

    A trailer alone is the heading of a document. Words that claim nothing stay by themselves: they
    may ask for something about a text.
    """
    joined: list[Sentence] = []
    alone = False  # whether the last of them is such a marker
    for s in sentences:
        if alone and s.text.rstrip(".)").isdigit():  # the number of a list's item
            continue
        told = joined[-1]._replace(text=f"{joined[-1].text} {s.text}") if alone else s
        if alone and _marker(told):
            joined[-1] = told
        else:
            joined.append(s)
        alone = _alone(s.text)
    return joined


def _alone(text: str) -> bool:
    """Whether a marker that ends in a colon is all of a sentence."""
    told = f"{text} some rule"
    found = patterns.COLON.match(told) or patterns.LASTING.match(told)
    return text.endswith(":") and found is not None and found.end() > len(text)


def trailer(line: str) -> tuple[str, str, bool] | None:
    """(type, text, whether it is sure) of a line that begins like a trailer."""
    found = patterns.TRAILER.match(line)
    if found is None:
        return None
    word, text = re.sub(r"[ -]+", " ", found[1].lower()), found[2]
    type = word_lists.TRAILERS[word]
    ordered = type in patterns.TOLD and patterns.MAKE.match(text)
    sure = word not in word_lists.WEAK_TRAILERS and claims(text, rule=True) and not ordered
    return type, text.strip(), sure


def _plain(lines: list[str], at: int) -> bool:
    """Whether no line leads to this one, and it is no part of a form, a log, code or a heading."""
    line = lines[at]
    if line.startswith(("    ", "\t")) or re.match(r"\s*#+\s", line):
        return False
    before = next((b for b in reversed(lines[:at]) if b.strip()), "")
    leads = (
        before.rstrip(" *_").endswith((":", "："))
        or patterns.SAYS.search(before)
        or patterns.SUPPOSES.match(before)
    )
    if leads or before.lstrip().startswith(("```", "~~~")):
        return False
    beside = [*_block(lines[:at][::-1]), *_block(lines[at + 1 :])]
    return not any(_form(other) or patterns.LOG.match(other) for other in beside)


def claims(text: str, rule: bool = False) -> bool:
    """Whether what a marker names says something that lasts.

    `rule`: orders may be meant to last ("Decision: move the queue").
    """
    return _may_claim(text, rule) and not patterns.NEEDS.match(text.strip())


def _may_claim(text: str, rule: bool) -> bool:
    said = text.strip().replace("’", "'")
    words = [w for w in patterns.WORD.findall(said) if not w[0].isdigit()]
    if len(words) < (2 if rule else 3) or said.endswith("?"):
        return False
    if {"code", "and", "or"}.issuperset(words):  # names alone: "`a.py` and `b.py`"
        return False
    # A path or an address alone claims nothing. Some scripts write sentences without blanks.
    if " " not in said and said.isascii():
        return False
    if any(p.match(said) for p in patterns.IDLE) or patterns.LOOSE.search(said):
        return False
    passing = patterns.PASSING.search(said)
    if patterns.THEN.search(said) or (patterns.ASK_SOMEBODY.match(said) and (not rule or passing)):
        return False
    if not rule and (passing or said[:7].lower() == "please "):
        return False
    return not (patterns.ORDERED.match(said) and (not rule or patterns.ERRAND.search(said)))


def _marker(sentence: Sentence) -> tuple[str, bool] | None:
    text = sentence.text
    if patterns.LAUGH.search(text):
        return None
    named = trailer(text)
    if named is not None:
        type, said, sure = named
        return (type, sure and sentence.first) if _may_claim(said, rule=True) else None
    if text.endswith("?"):
        return None
    lasting = patterns.LASTING.match(text)
    if lasting:
        lasts = _lasts(lasting["when"].lower(), text[lasting.end() :])
        return ("preference", True) if lasts else None
    found = patterns.COLON.match(text) or patterns.PHRASE.match(text)
    that = None if found else patterns.THAT.match(text)
    start = found or that
    if start is None:
        return None
    rest = text[start.end() :]
    clause = _clause(rest) if that else True
    if clause is None or not _may_claim(rest, rule=False):
        return None
    return "preference" if _ORDER.match(rest) else "learning", clause and claims(rest)


def _clause(rest: str) -> bool | None:
    """Whether the words after "remember that" have a subject and a verb: "that invoices are
    numbered"; None where they do not: "that bug from yesterday". False: "that prices include VAT",
    whose verb is in no list.
    """
    if patterns.PASSING.search(rest):
        return None
    if patterns.SUBJECT.match(rest):
        return len(patterns.WORD.findall(rest)) >= 3 or None
    for place, word in enumerate(patterns.WORD.findall(rest.partition(",")[0].lower())):
        if place and word in word_lists.FINITE_VERBS:
            return True
        if word in word_lists.RELATIVE_WORDS:
            return None
    first, _, more = rest.partition(" ")
    name = first == "code" or any(c.isupper() or c.isdigit() or c in "._/" for c in first)
    return name and bool(re.match(r"\w+s\b", more))  # "that Safari drops the cookie"


def _lasts(when: str, rest: str) -> bool:
    """Whether what follows "from now on" is a rule, not a plan or a description."""
    if len(patterns.WORD.findall(rest)) < 3:
        return False
    if any(p.match(rest) for p in (patterns.PLAN, patterns.ASKS, patterns.SUPPOSES)):
        return False
    passing = patterns.JUST_NOW.search(rest) or patterns.PASSING.search(rest)
    if passing or patterns.THEN.search(rest):
        return False
    if patterns.RULE.match(rest):
        return True
    if any(word in when for word in ("future", "rule", "point", "here")):
        return bool(_ASKS_FOR_A_HABIT.match(rest))
    duty = patterns.DUTY.match(rest)
    if duty:
        return not patterns.ABOUT.match(rest[duty.end() :].lstrip())
    if patterns.HABIT.match(rest):
        return True
    errand = _ASKS_TO_WORK.match(rest) or patterns.ERRAND.search(rest)
    return bool(patterns.GENERAL.search(rest)) and not errand


def _discusses(text: str) -> bool:
    """Whether a sentence works on a text, which a marker beside it may be, or takes it back."""
    if patterns.TAKES_BACK.match(text):
        return True
    asks = (
        text.endswith(("?", "：", ":"))
        or any(p.match(text) for p in (patterns.WORKS_ON, patterns.ASKS, patterns.ORDERED))
        or patterns.SAYS.search(text)
    )
    return bool(asks and patterns.TEXTUAL.search(text))


def _block(lines: list[str]) -> list[str]:
    """The first lines, without a blank line between."""
    end = next((i for i, line in enumerate(lines[:6]) if not line.strip()), 6)
    return lines[:end]


def _form(line: str) -> bool:
    """Whether a line is `Key: value` and no trailer of ours."""
    key = patterns.KEY.match(line)
    if not key or key[1].lower() in patterns.REASONS or "remember" in key[1].lower():
        return False
    return not (patterns.TRAILER.match(line) or patterns.COLON.match(line.strip(" *_-")))
