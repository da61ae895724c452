"""Words by which an author says: keep this. "Remember this: …", `Decision: …`, "from now on …".

Owns the words of trailers, for turns and commits alike, and what makes such a
word a marker and not part of an order, a question, a hypothesis, a quotation,
a template or a log. What a marker names is stored without asking anybody, so
exactness counts before recall: a doubtful one is offered at most.

A marker is sure where all of this holds: it begins a line or a sentence of the
author's own; what follows claims something (a statement, or a rule that lasts;
no errand, no placeholder); no line ending in a colon leads to it; it stands in
no form of `Key: value` lines; no other sentence of the turn asks or orders
something about a text, or takes it back; and the turn is short enough to be no paste.

Promise: pure, never raises; linear in the length of the text. English only.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Sentence(NamedTuple):
    """One sentence of a turn: its words, its line, and whether nothing but an acknowledgement
    stands before it there.
    """

    text: str
    line: int
    first: bool


# Word at the start of a line -> type. The types of a trailer may be ones that the model never
# gives.
TRAILERS = {
    "decision": "decision",
    "decided": "decision",
    "adr": "decision",
    "learned": "learning",
    "learning": "learning",
    "learnt": "learning",
    "lesson": "learning",
    "lesson learned": "learning",
    "til": "learning",
    "gotcha": "gotcha",
    "pitfall": "gotcha",
    "caveat": "gotcha",
    "convention": "convention",
    "rule": "convention",
    "preference": "preference",
    "blocker": "blocker",
    "blocked": "blocker",
    "blocked by": "blocker",
    "root cause": "bugfix",
    "bugfix": "bugfix",
    "progress": "progress",
    "milestone": "progress",
    "dead end": "dead-end",
    "note to self": "learning",
    "finding": "finding",
}
# Reports, logs and linters begin lines with these too: what they mark is offered.
WEAK = frozenset(
    (
        "caveat",
        "lesson",
        "rule",
        "blocked",
        "blocked by",
        "bugfix",
        "progress",
        "milestone",
        "finding",
    )
)
LONGEST = 2_000  # characters of a turn; a longer one is a paste, whose markers may be others'

_TRAILER = re.compile(
    r"[\s*_-]*("
    + "|".join(sorted((w.replace(" ", "[ -]") for w in TRAILERS), key=len, reverse=True))
    + r")s?\s?(?:\*\*|__)?\s?[:：]\s?(?:\*\*|__)?\s?(?=\S)(.*)",
    re.IGNORECASE | re.DOTALL,
)
_LEAD = (
    r"(?:(?:one more thing|by the way|btw|fyi)[,:. ]+|also[, ]+|and |so |ok(?:ay)?[, ]+|please |pls"
    r" |now[, ]+|but |yes[, ]+|no[, ]+|just |thanks[, ]+)*"
)
_COLON = re.compile(
    _LEAD
    + r"(?:remember[ \-]?(?:this|that|the following|it)?|(?:make|take) a note of this|memo|store"
    r" this (?:as|in) (?:a )?memory|for future reference|note (?:to self|for later|for the"
    r" future))\s?[:：]\s?",
    re.IGNORECASE,
)
_PHRASE = re.compile(
    _LEAD
    + r"(?:[#/]remember\b[:,]?|for future reference,|note (?:to self|for later|for the future|for"
    r" future reference)\s?[,–—-])\s*",
    re.IGNORECASE,
)
_THAT = re.compile(
    _LEAD
    + r"(?:(?:always )?remember that|remember the fact that|we (?:must|should|need to) remember"
    r" that|(?:make|take) a note that|don'?t (?:ever )?forget that)\s+",
    re.IGNORECASE,
)
_LASTING = re.compile(
    _LEAD
    + r"(?P<when>from (?:now|here|this point|today) on(?:wards?)?|going forward|henceforth|as a"
    r" (?:general )?rule|in (?:the )?future)\b[, ]+(?=\S+ \S+)",
    re.IGNORECASE,
)

# One thing to do now, not a rule. Only as orders: at the start of a clause.
_ONCE = (
    r"(?:add|adjust|analy[sz]e|append|apply|bring|build|change|check|clean|close|commit|continue|convert|copy|create|debug|delete|describe|edit|explain|extract|find|fix|generate|give|go|help|implement|"
    r"improve|insert|install|investigate|look|make|merge|migrate|modify|move|open|paste|print|proceed|push|put|read|redo|refactor|remove|rename|replace|rerun|restart|retry|revert|review|rewrite|run|"
    r"save|search|see|send|set|show|start|stop|summari[sz]e|take|tell|test|translate|try|undo|update|upload|verify|work|write)"
)
_ORDERED = re.compile(
    r"(?:please |now |then |also |just |first |so |and |ok(?:ay)?[, ]+)*"
    + _ONCE
    + r"\b(?! (?:up|is|are|was|were)\b)",
    re.IGNORECASE,
)
_THEN = re.compile(
    r"(?:[,;.–—]|\s-)\s{0,3}(?:and |then |so |but ){0,3}(?:please |now |just |then ){0,3}"
    + _ONCE
    + r"\s+(?:it|this|that|them|these|those|the|me|to|there|back|again|a|an)\b"
    r"|\b(?:and|then|so)\s{1,3}(?:please |now |just |then ){0,3}"
    + _ONCE
    + r"\s+(?:it|this|that|them|me|there|back|again|the)\b"
    r"|,\s{0,3}\w{1,30} one\s{0,3}$|[,;]\s{0,3}(?:then |and ){0,3}do"
    r" (?:it|this|that|the)\b|[,;]\s{0,3}(?:and |so |but ){0,3}(?:can|could|would|will)"
    r" you\b|\b(?:now|right away|asap) please\b|,\s{0,3}please\b",
    re.IGNORECASE,
)
_ERRAND = re.compile(
    r"\b(?:first|now|today|tomorrow|asap|next|please|immediately|right away|this morning|this"
    r" afternoon)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"(?:and |so |but )?(?:(?:what|why|how|when|where|who|which)(?:'s| \w+)?"
    r" (?:is|are|was|were|do|does|did|can|could|should|would|will|has|have|the|we|you|i)\b|(?:what|why|how|who|which)(?:'s)?\b(?=.*"  # noqa: E501
    r" (?:is|are|do|does|did|was|were)\b)|"
    r"(?:where|when)"
    r" (?:is|are|do|does|did|was|were|can|should)\b|(?:can|could|would|should|shall|does|did|is|are|was|were|will|have|has|am|do"  # noqa: E501
    r" (?:we|you|i|they)|any)\b)",
    re.IGNORECASE,
)
_SUPPOSES = re.compile(
    r"(?:what if|suppos\w+|imagine|assum\w+|maybe|perhaps|let'?s say|hypothetically|would it|we"
    r" (?:could|might)|i (?:think|guess) we"
    r" (?:could|might)|possibly)\b|if\b.*\b(?:would|could|might)\b",
    re.IGNORECASE,
)
_BLANK = re.compile(
    r"[\W_]*(?:(?:tbd|todo|n/a|lorem ipsum|true|false|null|undefined|xxx+|quoted|fill in|to be"
    r" (?:done|decided|defined|filled))\b|(?:none|nothing|pending|no|yes|your|describe|insert)\b(?!(?:"  # noqa: E501
    r" \w+,| \w+ \w+ \w+))"
    r"|(?:(?:one|an?|two|three|\d+|\d+-\d+) (?:short |brief |full"
    r" )?(?:sentences?|paragraphs?|words?|lines?|lists?|bullets?|bullet"
    r" points?)\b))|<[^>]*>?|\[[^\]]*\]|\$?\{|\.{2,}|…|%\w",
    re.IGNORECASE,
)
# Points at something else, and says nothing of its own: "see above", "go with B", "set it to dark".
_POINTS = re.compile(
    r"(?:see|as|i see)\b (?:above|below|ticket|issue|pr|the|what|discussed|\W*\d)|go with"
    r" (?:[a-d]|\d+|option.*|it|that|this|the \w+ one)\W*$|(?:still |just )?(?:the"
    r" )?same\b|(?:still |yet )?(?:unknown|unclear|unsure|not (?:yet"
    r" )?(?:known|clear|sure|decided))\b|"
    r"(?:approved|accepted|confirmed) (?:by|on)\b|(?!know\b|found\b|\w+ing\b)\w+"
    r" (?:one|it|them|this|these|those)\b|\w+ [\d.]+%?[,;]|\d+ ?[-–:] \w",
    re.IGNORECASE,
)
_LOOSE = re.compile(r"\$\{|<[a-z][^>]{2,200}>|\bto be filled in\b", re.IGNORECASE)
_COMPLAINT = re.compile(
    r"(?:i'?ll\b|thanks\b|(?:looks|sounds) (?:good|fine|great)|let'?s"
    r" (?:discuss|talk|see|wait|decide|think|do|try)\b|your"
    r" (?:last|previous|answer|code|change)|you \w+(?:ed|oke|ent|ade|ot)\b|this \w+ for\b|i"
    r" (?:already |also )?(?:asked|told|said|want|wanted|need|have to|was|mentioned|gave)\b|you"
    r" (?:still |also |already )*(?:need|have|must|should|were|are|said|promised|did|forgot|can)\b|"
    r"we (?:still |also |really )*(?:need|have) to\b|there (?:is|are)"
    r" still\b|(?:this|that|it|these|those) (?:is|are|was|were) (?:just |only )?(?:an?"
    r" )?(?:example|draft|test|demo|wip|mock|placeholder|temporary))",
    re.IGNORECASE,
)
_NOT_YET = re.compile(r"(?:please )?(?:do not|don't)\b.*\b(?:yet|now|today)\b", re.IGNORECASE)
_ASK_SOMEBODY = re.compile(r"(?:ask|call|e-?mail|remind|tell|write to) \w+", re.IGNORECASE)
_JUST_NOW = re.compile(
    r"\b(?:(?:task|step|item|question) \d+|i (?:just |have |already"
    r" )*(?:uploaded|sent|gave|pasted|attached|say|mentioned)|(?:my|the|your) next"
    r" (?:message|prompt|question|turn|request|answer|reply)s?|attached|above|below)\b",
    re.IGNORECASE,
)
_PASSING = re.compile(
    r"\b(?:yesterday|earlier today|just now|last (?:time|week|night)|a moment ago|this"
    r" time|tomorrow|tonight|today|in a hurry|right now|at the"
    r" moment|(?:meeting|call|lunch|appointment|stand-?up) .{0,30}\bin (?:an?|\w+)"
    r" (?:minutes?|hours?)|for this (?:one|task|step|session|branch|page)|(?:one|thing) i mean|on"
    r" (?:mon|tues|wednes|thurs|fri|satur|sun)day,)\b",
    re.IGNORECASE,
)
# What follows "remember that" where it opens a clause: "that the …" can be no "that bug".
_SUBJECT = re.compile(
    r"(?:the|our|your|my|his|her|their|its|this|these|those|we|i|you|they|it|he|she|there|an?|all|every|each|no|any|both|some|most|nobody|everyone|everybody|only|in|on|at|for|when|whenever|after|before|during|"
    r"once|since|while|with|without|never|always|by|as|one|two|three|even|if)\b",
    re.IGNORECASE,
)
_FINITE = frozenset(
    [
        "is",
        "are",
        "was",
        "were",
        "has",
        "have",
        "had",
        "can",
        "cannot",
        "can't",
        "must",
        "should",
        "will",
        "won't",
        "may",
        "needs",
        "need",
        "does",
        "doesn't",
        "do",
        "don't",
        "isn't",
        "aren't",
        "use",
        "uses",
        "run",
        "runs",
        "take",
        "takes",
        "go",
        "goes",
        "get",
        "gets",
        "live",
        "lives",
        "come",
        "comes",
        "return",
        "returns",
        "expect",
        "expects",
        "reject",
        "rejects",
        "require",
        "requires",
        "mean",
        "means",
        "lack",
        "lacks",
        "make",
        "makes",
        "give",
        "gives",
        "keep",
        "keeps",
        "lag",
        "lags",
        "see",
        "sees",
        "write",
        "writes",
        "read",
        "reads",
        "drop",
        "drops",
        "work",
        "works",
        "fail",
        "fails",
        "wipe",
        "wipes",
        "lock",
        "locks",
        "start",
        "starts",
        "stop",
        "stops",
    ]
)
_NAMED = frozenset("which who that where we i you they he she from with".split())  # noqa: SIM905

_RULE = re.compile(
    r"(?:please |you (?:must |should )?|we (?:must |should |will )?)?(?:always|never|only|don'?t|do"
    r" not|no(?: more)?|use|avoid|prefer|make sure|ensure|keep|treat|stick to|follow|nobody|no"
    r" one|everyone|everybody|all|every|each|any)\b"
    r"(?! (?:it|this|that|these|those|them|option|variant|number|\w+ing)\b)",
    re.IGNORECASE,
)
_HABIT = re.compile(
    r"(?:please"
    r" )?(?:answer|ask|call|cite|commit|deploy|document|explain|format|include|indent|label|leave|log|name|quote|reply|respond|return|sign|skip|speak|squash|store|tag|talk|wrap|write)\b(?!"  # noqa: E501
    r" (?:it|this|that|these|those|them)\b)",
    re.IGNORECASE,
)
_DUTY = re.compile(
    r"(?:we|you|the team) (?:must|should|shall|may only|may not|has to|have to|needs?"
    r" to|cannot|can't|always|never|only|use|uses|prefer|avoid|require|requires|don'?t|do"
    r" not|doesn'?t|won't|will (?:not|always|never|only|use))\b",
    re.IGNORECASE,
)
_GENERAL = re.compile(
    r"\b(?:every|each|all|any|always|never|whenever|before|instead|only|by default|per|without)\b",
    re.IGNORECASE,
)
_PLAN = re.compile(
    r"(?:please )?(?:let'?s|let us|i'?ll|i'?m|i|it|it'?s|this|that|that'?s|we'?ll|we'?re|we are|we"
    r" can|what|there)\b",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"\b(?:look|looking|focus|focusing|work|working|continue|start|starting|go|going|move|moving|try)\b(?:"
    r" (?:at|on|with|to|into))?",
    re.IGNORECASE,
)

# Another sentence that asks or orders something about a text: then the marker may be that text.
_TEXTUAL = re.compile(
    r"\b(?:this|these|that|those|below|above|following|it|them|templates?|formats?|headings?|sections?|examples?|says?|said|reads?|wrote|prints?|printed|output|logs?|pasted?|lines?|texts?|typos?|sentences?|paragraphs?|messages?|"
    r"notes?|entr(?:y|ies)|readme|changelog|adrs?|comments?|tables?|files?|docs?|documents?|translat\w+|like|parts|tickets?|issues?|words|marker|trailers?|stor(?:y|ies)|poems?|songs?|novels?|chapters?|essays?|jokes?|tales?|fiction|dialogues?|lyrics)\b",
    re.IGNORECASE,
)
_WORKS_ON = re.compile(
    r"(?:please |now |and |then"
    r" )*(?:answer|compare|condense|count|draft|draw|expand|format|implement|list|polish|proofread|quote|rephrase|reply|reword|shorten|simplify|sort|split|turn|use)\b",  # noqa: E501
    re.IGNORECASE,
)
_SAYS = re.compile(
    r"\b(?:says?|reads?|prints?|printed|wrote|writes|shows?|outputs?|looks? like|told"
    r" me|replied|answered)[\s:,.]*$",
    re.IGNORECASE,
)
# Takes back, in another sentence, what the marker says.
_TAKES_BACK = re.compile(
    r"(?:just |only )?(?:kidding|joking)\b|jk\b|scratch (?:that|this)\b|never ?mind\b|(?:please"
    r" )?(?:ignore|disregard|forget) (?:it|this|that|the above|what i (?:just )?said)\b|i(?:'m| am|"
    r" was) (?:just|only) (?:testing|joking|kidding)\b|"
    r"(?:this|that|it) (?:is|was) (?:just |only )?a (?:test|joke)\b",
    re.IGNORECASE,
)
# What "learned" and "root cause" name is told, not ordered; an order with a reason may be what was
# learned.
_TOLD = frozenset(("learning", "bugfix"))
_MAKE = re.compile(
    r"(?:please )?(?:write|create|implement|generate|build|add|make|fix|explain|describe)\b (?:me"
    r" )?(?:a|an|the|some)\b(?!.*\b(?:or|otherwise|else|before|after|because|since|when|whenever|if|unless|until|so"  # noqa: E501
    r" that|always|never)\b)",
    re.IGNORECASE | re.DOTALL,
)
_LOG = re.compile(
    r"\s*(?:(?:fatal |compile |build )?(?:error|warning|fatal|exception)(?: [A-Z]+\d+\b|\[|:"
    r" |\()|Caused by: |Traceback |Exception in |at [\w.$]+\(|npm ERR!)"
)
_KEY = re.compile(r"[\s*_#>-]*([A-Za-z][\w /-]{0,30}?)(?:\*\*|__)?\s?:(?:\*\*|__)?\s+\S")
_REASONS = frozenset(("why", "reason", "reasons", "because", "rationale", "alternatives", "note"))
_FENCE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_QUOTED = re.compile(
    r"`[^`\n]*`|\"[^\"\n]{2,400}\"|“[^”\n]{2,400}”|«[^»\n]{2,400}»|(?<!\w)'[^'\n]{8,400}'(?!\w)"
)
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|;\s+")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_NOD = frozenset(
    [
        "yes",
        "yeah",
        "yep",
        "no",
        "ok",
        "okay",
        "sure",
        "thanks",
        "thank",
        "you",
        "ty",
        "thx",
        "great",
        "good",
        "nice",
        "perfect",
        "cool",
        "looks",
        "lgtm",
        "agreed",
        "catch",
        "fine",
    ]
)


def own(text: str) -> list[Sentence]:
    """What the author says in their own name: no code, no lines quoted with `>`, what stands in
    quotation marks as one word.
    """
    plain = _QUOTED.sub(
        " quoted ", _FENCE.sub(lambda f: "\n" * (1 + f[0].count("\n")), text).replace("’", "'")
    )
    found: list[Sentence] = []
    for number, line in enumerate(plain.split("\n")):
        if line.lstrip().startswith(">"):
            continue
        nods = True
        for part in _SENTENCE.split(line):
            said = (
                part.strip(" \t*•_-")
                if part.lstrip()[:9].lower() == "#remember"
                else part.strip(" \t*•_#-")
            )
            if said:
                found.append(Sentence(said, number, nods))
                nods = nods and all(w in _NOD for w in _WORD.findall(said.lower()))
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
    found = _TRAILER.match(line)
    if found is None:
        return None
    word = re.sub(r"[ -]+", " ", found[1].lower())
    return (
        TRAILERS[word],
        found[2].strip(),
        word not in WEAK
        and claims(found[2], rule=True)
        and not (TRAILERS[word] in _TOLD and _MAKE.match(found[2])),
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
        or _SAYS.search(before)
        or before.lstrip().startswith(("```", "~~~"))
    ):
        return False
    return not any(
        _form(lines[i]) or _LOG.match(lines[i])
        for way in (range(at - 1, -1, -1), range(at + 1, len(lines)))
        for i in _block(lines, way)
    )


def claims(text: str, rule: bool = False) -> bool:
    """Whether what a marker names says something that lasts.

    `rule`: orders may be meant to last ("Decision: move the queue").
    """
    said = text.strip().replace("’", "'")
    words = _WORD.findall(said)
    if len([w for w in words if not w[0].isdigit()]) < (2 if rule else 3) or said.endswith("?"):
        return False
    if (
        _BLANK.match(said)
        or _LOOSE.search(said)
        or _ASKS.match(said)
        or _SUPPOSES.match(said)
        or _COMPLAINT.match(said)
        or _POINTS.match(said)
        or _THEN.search(said)
    ):
        return False
    if (
        (not rule and (said[:7].lower() == "please " or _PASSING.search(said)))
        or _NOT_YET.match(said)
        or (_ASK_SOMEBODY.match(said) and (not rule or _PASSING.search(said)))
    ):
        return False
    return not (_ORDERED.match(said) and (not rule or _ERRAND.search(said)))


def _marker(sentence: Sentence) -> tuple[str, bool] | None:
    text = sentence.text
    named = trailer(text)
    if named is not None:
        if not claims(named[1], rule=True):
            return None
        return named[0], named[2] and sentence.first
    if text.endswith("?"):
        return None
    lasting = _LASTING.match(text)
    if lasting:
        return (
            ("preference", True) if _lasts(lasting["when"].lower(), text[lasting.end() :]) else None
        )
    found = _COLON.match(text) or _PHRASE.match(text)
    if found is None:
        found = _THAT.match(text)
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
    if _PASSING.search(rest):
        return False
    if _SUBJECT.match(rest):
        return len(_WORD.findall(rest)) >= 3
    for place, word in enumerate(_WORD.findall(rest.partition(",")[0].lower())):
        if place and word in _FINITE:
            return True
        if word in _NAMED:
            return False
    first, _, more = rest.partition(" ")
    return first[:1].isupper() and bool(re.match(r"\w+s\b", more))  # "that Safari drops the cookie"


def _lasts(when: str, rest: str) -> bool:
    """Whether what follows "from now on" is a rule, not a plan or a description."""
    if (
        len(_WORD.findall(rest)) < 3
        or _PLAN.match(rest)
        or _ASKS.match(rest)
        or _THEN.search(rest)
        or _SUPPOSES.match(rest)
        or _JUST_NOW.search(rest)
    ):
        return False
    if _RULE.match(rest):
        return True
    if "future" in when or "rule" in when or "point" in when or "here" in when:
        return bool(re.match(r"please (?!" + _ONCE + r"\b)", rest, re.IGNORECASE))
    duty = _DUTY.match(rest)
    if duty:
        return not _ABOUT.match(rest[duty.end() :].lstrip())
    if _HABIT.match(rest):
        return True
    return (
        bool(_GENERAL.search(rest))
        and not re.match(r"(?:please )?(?:fix|" + _ABOUT.pattern + r")\b", rest, re.IGNORECASE)
        and not _ERRAND.search(rest)
    )


def _discusses(text: str) -> bool:
    """Whether a sentence asks or orders something about a text, for a marker beside it may be that
    text, or takes back what is said.
    """
    if _TAKES_BACK.match(text):
        return True
    asks = (
        text.endswith(("?", "：", ":"))
        or _WORKS_ON.match(text)
        or _ASKS.match(text)
        or _ORDERED.match(text)
        or _SAYS.search(text)
    )
    return bool(asks and _TEXTUAL.search(text))


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
    key = _KEY.match(line)
    return bool(
        key
        and key[1].lower() not in _REASONS
        and not _TRAILER.match(line)
        and not _COLON.match(line.strip(" *_-"))
        and "remember" not in key[1].lower()
    )
