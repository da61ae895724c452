"""The patterns by which `markers` reads a turn: what a marker is, and what makes one doubtful.

Each has its reason above it. Most are matched at the start of a sentence or of the text behind a
marker, without regard to case. A change here is measured by `tests/test_signals_exact.py` and
`tools/eval_capture.py`.
"""

from __future__ import annotations

import re

# Word at the start of a line -> type, which may be one that the model never gives.
TRAILERS = {
    word: type
    for type, words in (
        ("decision", ("decision", "decided", "adr")),
        (
            "learning",
            (
                *("learned", "learning", "learnt", "lesson", "lesson learned", "til"),
                "note to self",
            ),
        ),
        ("gotcha", ("gotcha", "pitfall", "caveat")),
        ("convention", ("convention", "rule")),
        ("preference", ("preference",)),
        ("blocker", ("blocker", "blocked", "blocked by")),
        ("bugfix", ("root cause", "bugfix")),
        ("progress", ("progress", "milestone")),
        ("dead-end", ("dead end",)),
        ("finding", ("finding",)),
    )
    for word in words
}
# `Decision: …`, also as **Decision**: …
TRAILER = re.compile(
    r"[\s*_-]*("
    + "|".join(sorted((w.replace(" ", "[ -]") for w in TRAILERS), key=len, reverse=True))
    + r")s?\s?(?:\*\*|__)?\s?[:：]\s?(?:\*\*|__)?\s?(?=\S)(.*)",
    re.IGNORECASE | re.DOTALL,
)
# Words that may stand before a marker.
LEAD = (
    r"(?:(?:one more thing|by the way|btw|fyi)[,:. ]+|also[, ]+|and |so |ok(?:ay)?[, ]+|please |pls"
    r" |now[, ]+|but |yes[, ]+|no[, ]+|just |thanks[, ]+)*"
)
# `Remember this: …` and the like.
COLON = re.compile(
    LEAD
    + r"(?:remember[ \-]?(?:this|that|the following|it)?|(?:make|take) a note of this|memo|store"
    r" this (?:as|in) (?:a )?memory|for future reference|note (?:to self|for later|for the"
    r" future))\s?[:：]\s?",
    re.IGNORECASE,
)
# `#remember …`, `note to self, …`.
PHRASE = re.compile(
    LEAD
    + r"(?:[#/]remember\b[:,]?|for future reference,|note (?:to self|for later|for the future|for"
    r" future reference)\s?[,–—-])\s*",
    re.IGNORECASE,
)
# `Remember that …`: what follows has to be a clause.
THAT = re.compile(
    LEAD
    + r"(?:(?:always )?remember that|remember the fact that|we (?:must|should|need to) remember"
    r" that|(?:make|take) a note that|don'?t (?:ever )?forget that)\s+",
    re.IGNORECASE,
)
# `From now on …`: what follows has to be a rule.
LASTING = re.compile(
    LEAD
    + r"(?P<when>from (?:now|here|this point|today) on(?:wards?)?|going forward|henceforth|as a"
    r" (?:general )?rule|in (?:the )?future)\b[, ]+(?=\S+ \S+)",
    re.IGNORECASE,
)

# One thing to do now, not a rule. Only as orders: at the start of a clause.
ONCE = (
    r"(?:add|adjust|analy[sz]e|append|apply|bring|build|change|check|clean|close|commit|continue|convert|copy|create|debug|delete|describe|edit|explain|extract|find|fix|generate|give|go|help|implement|"
    r"improve|insert|install|investigate|look|make|merge|migrate|modify|move|open|paste|print|proceed|push|put|read|redo|refactor|remove|rename|replace|rerun|restart|retry|revert|review|rewrite|run|"
    r"save|search|see|send|set|show|start|stop|summari[sz]e|take|tell|test|translate|try|undo|update|upload|verify|work|write)"
)
# The text is an order: begins with a verb of ONCE.
ORDERED = re.compile(
    r"(?:please |now |then |also |just |first |so |and |ok(?:ay)?[, ]+)*"
    + ONCE
    + r"\b(?! (?:up|is|are|was|were)\b)",
    re.IGNORECASE,
)
# Ends in an order about something near: `…, then fix it`.
THEN = re.compile(
    r"(?:[,;.–—]|\s-)\s{0,3}(?:and |then |so |but ){0,3}(?:please |now |just |then ){0,3}"
    + ONCE
    + r"\s+(?:it|this|that|them|these|those|the|me|to|there|back|again|a|an)\b"
    r"|\b(?:and|then|so)\s{1,3}(?:please |now |just |then ){0,3}"
    + ONCE
    + r"\s+(?:it|this|that|them|me|there|back|again|the)\b"
    r"|,\s{0,3}\w{1,30} one\s{0,3}$|[,;]\s{0,3}(?:then |and ){0,3}do"
    r" (?:it|this|that|the)\b|[,;]\s{0,3}(?:and |so |but ){0,3}(?:can|could|would|will)"
    r" you\b|\b(?:now|right away|asap) please\b|,\s{0,3}please\b",
    re.IGNORECASE,
)
# Says when to do it: an errand, not a rule.
ERRAND = re.compile(
    r"\b(?:first|now|today|tomorrow|asap|next|please|immediately|right away|this morning|this"
    r" afternoon)\b",
    re.IGNORECASE,
)
# A question, also without a question mark.
ASKS = re.compile(
    r"(?:and |so |but )?(?:(?:what|why|how|when|where|who|which)(?:'s| \w+)?"
    r" (?:is|are|was|were|do|does|did|can|could|should|would|will|has|have|the|we|you|i)\b|(?:what|why|how|who|which)(?:'s)?\b(?=.*"  # noqa: E501
    r" (?:is|are|do|does|did|was|were)\b)|"
    r"(?:where|when)"
    r" (?:is|are|do|does|did|was|were|can|should)\b|(?:can|could|would|should|shall|does|did|is|are|was|were|will|have|has|am|do"  # noqa: E501
    r" (?:we|you|i|they)|any)\b)",
    re.IGNORECASE,
)
# A hypothesis.
SUPPOSES = re.compile(
    r"(?:what if|suppos\w+|imagine|assum\w+|maybe|perhaps|let'?s say|hypothetically|would it|we"
    r" (?:could|might)|i (?:think|guess) we"
    r" (?:could|might)|possibly)\b|if\b.*\b(?:would|could|might)\b",
    re.IGNORECASE,
)
# A placeholder of a template.
BLANK = re.compile(
    r"[\W_]*(?:(?:tbd|todo|n/a|lorem ipsum|true|false|null|undefined|xxx+|quoted|fill in|to be"
    r" (?:done|decided|defined|filled))\b|(?:none|nothing|pending|no|yes|your|describe|insert)\b(?!(?:"  # noqa: E501
    r" \w+,| \w+ \w+ \w+))"
    r"|(?:(?:one|an?|two|three|\d+|\d+-\d+) (?:short |brief |full"
    r" )?(?:sentences?|paragraphs?|words?|lines?|lists?|bullets?|bullet"
    r" points?)\b))|<[^>]*>?|\[[^\]]*\]|\$?\{|\.{2,}|…|%\w",
    re.IGNORECASE,
)
# Points at something else, and says nothing of its own: "see above", "go with B", "set it to dark".
POINTS = re.compile(
    r"(?:see|as|i see)\b (?:above|below|ticket|issue|pr|the|what|discussed|\W*\d)|go with"
    r" (?:[a-d]|\d+|option.*|it|that|this|the \w+ one)\W*$|(?:still |just )?(?:the"
    r" )?same\b|(?:still |yet )?(?:unknown|unclear|unsure|not (?:yet"
    r" )?(?:known|clear|sure|decided))\b|"
    r"(?:approved|accepted|confirmed) (?:by|on)\b|(?!know\b|found\b|\w+ing\b)\w+"
    r" (?:one|it|them|this|these|those)\b|\w+ [\d.]+%?[,;]|\d+ ?[-–:] \w",
    re.IGNORECASE,
)
# A placeholder anywhere in the text.
LOOSE = re.compile(r"\$\{|<[a-z][^>]{2,200}>|\bto be filled in\b", re.IGNORECASE)
# Talk about the work at hand: thanks, reproach, drafts.
COMPLAINT = re.compile(
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
# `Don't … yet`: holds for now only.
NOT_YET = re.compile(r"(?:please )?(?:do not|don't)\b.*\b(?:yet|now|today)\b", re.IGNORECASE)
# `Ask Anna …`: an errand.
ASK_SOMEBODY = re.compile(r"(?:ask|call|e-?mail|remind|tell|write to) \w+", re.IGNORECASE)
# Refers to this conversation: an attachment, the next message.
JUST_NOW = re.compile(
    r"\b(?:(?:task|step|item|question) \d+|i (?:just |have |already"
    r" )*(?:uploaded|sent|gave|pasted|attached|say|mentioned)|(?:my|the|your) next"
    r" (?:message|prompt|question|turn|request|answer|reply)s?|attached|above|below)\b",
    re.IGNORECASE,
)
# Something of the day: a meeting, `right now`.
PASSING = re.compile(
    r"\b(?:yesterday|earlier today|just now|last (?:time|week|night)|a moment ago|this"
    r" time|tomorrow|tonight|today|in a hurry|right now|at the"
    r" moment|(?:meeting|call|lunch|appointment|stand-?up) .{0,30}\bin (?:an?|\w+)"
    r" (?:minutes?|hours?)|for this (?:one|task|step|session|branch|page)|(?:one|thing) i mean|on"
    r" (?:mon|tues|wednes|thurs|fri|satur|sun)day,)\b",
    re.IGNORECASE,
)
# What follows "remember that" where it opens a clause: "that the …" can be no "that bug".
SUBJECT = re.compile(
    r"(?:the|our|your|my|his|her|their|its|this|these|those|we|i|you|they|it|he|she|there|an?|all|every|each|no|any|both|some|most|nobody|everyone|everybody|only|in|on|at|for|when|whenever|after|before|during|"
    r"once|since|while|with|without|never|always|by|as|one|two|three|even|if)\b",
    re.IGNORECASE,
)

# `Always …`, `use …`: a rule.
RULE = re.compile(
    r"(?:please |you (?:must |should )?|we (?:must |should |will )?)?(?:always|never|only|don'?t|do"
    r" not|no(?: more)?|use|avoid|prefer|make sure|ensure|keep|treat|stick to|follow|nobody|no"
    r" one|everyone|everybody|all|every|each|any)\b"
    r"(?! (?:it|this|that|these|those|them|option|variant|number|\w+ing)\b)",
    re.IGNORECASE,
)
# How to do something each time: `answer …`, `commit …`.
HABIT = re.compile(
    r"(?:please"
    r" )?(?:answer|ask|call|cite|commit|deploy|document|explain|format|include|indent|label|leave|log|name|quote|reply|respond|return|sign|skip|speak|squash|store|tag|talk|wrap|write)\b(?!"  # noqa: E501
    r" (?:it|this|that|these|those|them)\b)",
    re.IGNORECASE,
)
# `We must …`: a rule where it goes on to say what.
DUTY = re.compile(
    r"(?:we|you|the team) (?:must|should|shall|may only|may not|has to|have to|needs?"
    r" to|cannot|can't|always|never|only|use|uses|prefer|avoid|require|requires|don'?t|do"
    r" not|doesn'?t|won't|will (?:not|always|never|only|use))\b",
    re.IGNORECASE,
)
# Holds for every case.
GENERAL = re.compile(
    r"\b(?:every|each|all|any|always|never|whenever|before|instead|only|by default|per|without)\b",
    re.IGNORECASE,
)
# `Let's …`, `I'll …`: a plan, not a rule.
PLAN = re.compile(
    r"(?:please )?(?:let'?s|let us|i'?ll|i'?m|i|it|it'?s|this|that|that'?s|we'?ll|we'?re|we are|we"
    r" can|what|there)\b",
    re.IGNORECASE,
)
# `Look at`, `focus on`: where to work next.
ABOUT = re.compile(
    r"\b(?:look|looking|focus|focusing|work|working|continue|start|starting|go|going|move|moving|try)\b(?:"
    r" (?:at|on|with|to|into))?",
    re.IGNORECASE,
)

# Another sentence that asks or orders something about a text: then the marker may be that text.
TEXTUAL = re.compile(
    r"\b(?:this|these|that|those|below|above|following|it|them|templates?|formats?|headings?|sections?|examples?|says?|said|reads?|wrote|prints?|printed|output|logs?|pasted?|lines?|texts?|typos?|sentences?|paragraphs?|messages?|"
    r"notes?|entr(?:y|ies)|readme|changelog|adrs?|comments?|tables?|files?|docs?|documents?|translat\w+|like|parts|tickets?|issues?|words|marker|trailers?|stor(?:y|ies)|poems?|songs?|novels?|chapters?|essays?|jokes?|tales?|fiction|dialogues?|lyrics)\b",
    re.IGNORECASE,
)
# Orders something about a text: `shorten`, `translate`.
WORKS_ON = re.compile(
    r"(?:please |now |and |then"
    r" )*(?:answer|compare|condense|count|draft|draw|expand|format|implement|list|polish|proofread|quote|rephrase|reply|reword|shorten|simplify|sort|split|turn|use)\b",  # noqa: E501
    re.IGNORECASE,
)
# Leads to somebody's words: `the log says`.
SAYS = re.compile(
    r"\b(?:says?|reads?|prints?|printed|wrote|writes|shows?|outputs?|looks? like|told"
    r" me|replied|answered)[\s:,.]*$",
    re.IGNORECASE,
)
# Takes back, in another sentence, what the marker says.
TAKES_BACK = re.compile(
    r"(?:just |only )?(?:kidding|joking)\b|jk\b|scratch (?:that|this)\b|never ?mind\b|(?:please"
    r" )?(?:ignore|disregard|forget) (?:it|this|that|the above|what i (?:just )?said)\b|i(?:'m| am|"
    r" was) (?:just|only) (?:testing|joking|kidding)\b|"
    r"(?:this|that|it) (?:is|was) (?:just |only )?a (?:test|joke)\b",
    re.IGNORECASE,
)
# What "learned" and "root cause" name is told, not ordered; an order with a reason may be what was
# learned.
TOLD = frozenset(("learning", "bugfix"))
# An order to make a thing, without a reason.
MAKE = re.compile(
    r"(?:please )?(?:write|create|implement|generate|build|add|make|fix|explain|describe)\b (?:me"
    r" )?(?:a|an|the|some)\b(?!.*\b(?:or|otherwise|else|before|after|because|since|when|whenever|if|unless|until|so"  # noqa: E501
    r" that|always|never)\b)",
    re.IGNORECASE | re.DOTALL,
)
# The beginning of an error message.
LOG = re.compile(
    r"\s*(?:(?:fatal |compile |build )?(?:error|warning|fatal|exception)(?: [A-Z]+\d+\b|\[|:"
    r" |\()|Caused by: |Traceback |Exception in |at [\w.$]+\(|npm ERR!)"
)
# `Key: value`, as in a form.
KEY = re.compile(r"[\s*_#>-]*([A-Za-z][\w /-]{0,30}?)(?:\*\*|__)?\s?:(?:\*\*|__)?\s+\S")
# Keys that stand beside a trailer of ours and make no form.
REASONS = frozenset(("why", "reason", "reasons", "because", "rationale", "alternatives", "note"))
# A Markdown code fence.
FENCE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
# Code in backticks, words in quotation marks.
QUOTED = re.compile(
    r"`[^`\n]*`|\"[^\"\n]{2,400}\"|“[^”\n]{2,400}”|«[^»\n]{2,400}»|(?<!\w)'[^'\n]{8,400}'(?!\w)"
)
# Where a sentence ends.
SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|;\s+")
# A word, with its apostrophe.
WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
