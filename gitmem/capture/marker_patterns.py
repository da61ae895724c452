"""The patterns by which `markers` reads a turn: what a marker is, and what makes one doubtful.

Most are matched at the start of a sentence or of the text behind a marker, without regard to case.
A change here is measured by `tests/test_signals_exact.py` and `tools/eval_capture.py`.
"""

from __future__ import annotations

import re

from .word_lists import TRAILERS


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | flags)


# `Decision: …`, also as **Decision**: …
_LONGEST_FIRST = sorted((w.replace(" ", "[ -]") for w in TRAILERS), key=len, reverse=True)
TRAILER = pattern(
    rf"[\s*_-]*({'|'.join(_LONGEST_FIRST)})"
    r"s?\s?(?:\*\*|__)?\s?[:：]\s?(?:(?:\*\*|__)(?=\s))?\s?(?=\S)(.*)",
    re.DOTALL,
)
# Words that may stand before a marker.
LEAD = (
    r"(?:(?:one more thing|by the way|btw|fyi)[,:. ]+|also[, ]+|and |so |ok(?:ay)?[, ]+|please |pls"
    r" |now[, ]+|but |yes[, ]+|no[, ]+|just |thanks[, ]+)*"
)
# `Remember this: …` and the like.
COLON = pattern(
    LEAD + r"(?:remember[ \-]?(?:this|that|the following|it)?|(?:make|take) a note of this|memo|"
    r"store this (?:as|in) (?:a )?memory|for future reference|note (?:to self|for later|"
    r"for the future))\s?[:：]\s?"
)
# `#remember …`, `note to self, …`.
PHRASE = pattern(
    LEAD + r"(?:[#/]remember\b[:,]?|for future reference,|note (?:to self|for later|for the future|"
    r"for future reference)\s?[,–—-])\s*"
)
# `Remember that …`: what follows has to be a clause.
THAT = pattern(
    LEAD + r"(?:(?:always )?remember that|remember the fact that|we (?:must|should|"
    r"need to) remember that|(?:make|take) a note that|don'?t (?:ever )?forget that)\s+"
)
# `From now on …`: what follows has to be a rule.
LASTING = pattern(
    LEAD + r"(?P<when>from (?:now|here|this point|today) on(?:wards?)?|going forward|henceforth|"
    r"as a (?:general )?rule|in (?:the )?future)\b[,: ]++(?=\S+ \S+)"
)

# One thing to do now, not a rule. Only as orders: at the start of a clause.
_ORDERS = """
add adjust analy[sz]e append apply bring build change check clean close commit continue convert copy
create debug delete describe edit explain extract find fix generate give go help implement improve
insert install investigate look make merge migrate modify move open paste print proceed push put
read redo refactor remove rename replace rerun restart retry revert review rewrite run save search
see send set show start stop summari[sz]e take tell test translate try undo update upload verify
work write
"""
ONCE = f"(?:{'|'.join(_ORDERS.split())})"
# The text is an order: begins with a verb of ONCE.
ORDERED = pattern(
    r"(?:please |now |then |also |just |first |so |and |ok(?:ay)?[, ]+)*"
    + ONCE
    + r"\b(?! (?:up|is|are|was|were)\b)"
)
# Ends in an order about something near: `…, then fix it`.
THEN = pattern(
    r"(?:[,;.–—]|\s-)\s{0,3}(?:and |then |so |but ){0,3}(?:please |now |just |then ){0,3}"
    + ONCE
    + r"\s+(?:it|this|that|them|these|those|the|me|to|there|back|again|a|an)\b|\b(?:and|then|"
    r"so)\s{1,3}(?:please |now |just |then ){0,3}"
    + ONCE
    + r"\s+(?:it|this|that|them|me|there|back|again|the)\b|,\s{0,3}\w{1,30} one\s{0,3}$|"
    r"[,;]\s{0,3}(?:then |and ){0,3}do (?:it|this|that|the)\b|[,;]\s{0,3}(?:and |so |"
    r"but ){0,3}(?:can|could|would|will) you\b|\b(?:now|right away|asap) please\b|"
    r",\s{0,3}please\b"
)
# Says when to do it: an errand, not a rule.
ERRAND = pattern(
    r"\b(?:first|now|today|tomorrow|asap|next|please|immediately|right away|this morning|"
    r"this afternoon)\b"
)
# A question, also without a question mark.
ASKS = pattern(
    r"(?:and |so |but )?(?:(?:what|why|how|when|where|who|which)(?:'s| \w+)? (?:is|are|was|"
    r"were|do|does|did|can|could|should|would|will|has|have|the|we|you|i)\b|(?:what|why|how|"
    r"who|which)(?:'s)?\b(?=.* (?:is|are|do|does|did|was|were)\b)|(?:where|when) (?:is|are|do|"
    r"does|did|was|were|can|should)\b|(?:can|could|would|should|shall|does|did|is|are|was|were|"
    r"will|have|has|am|do (?:we|you|i|they)|any)\b)"
)
# A hypothesis.
SUPPOSES = pattern(
    r"(?:what if|suppos\w+|imagine|assum\w+|maybe|perhaps|let'?s say|hypothetically|would it|"
    r"we (?:could|might)(?! not\b)|i (?:think|guess) we (?:could|might)|possibly|probably|"
    r"(?:most |very )?likely)\b|if\b.*\b(?:would|could|might)\b"
)
# A placeholder of a template.
BLANK = pattern(
    r"[\W_]*(?:(?:tbd|todo|n/a|lorem ipsum|true|false|null|undefined|xxx+|quoted|fill in|"
    r"to be (?:done|decided|defined|filled|made|discussed|confirmed))\b|(?:none|nothing|"
    r"pending|no|yes|your|describe|insert)\b(?!(?: \w+,| \w+ \w+ \w+))|(?:(?:one|an?|two|"
    r"three|\d+|\d+-\d+) (?:short |brief |full )?(?:sentences?|paragraphs?|words?|"
    r"lines?|lists?|bullets?|bullet points?)\b))|<[^>]*>?|\[[^\]]*\]|\$?\{|\.{2,}|…|%\w"
)
# Points at something else, and says nothing of its own: "see above", "go with B", "set it to dark".
POINTS = pattern(
    r"(?:see|as|i see)\b (?:above|below|ticket|issue|pr|the|what|discussed|\W*\d|\S+\W*$)|"
    r"go with (?:[a-d]|\d+|option.*|it|that|this|the \w+ one)\W*$|(?:still |"
    r"just )?(?:the )?same(?: (?:again|as|for|goes|here|one|thing|way|with)\b|\W*$)|"
    r"(?:approved|accepted|confirmed) (?:by|on)\b|(?!know\b|found\b|\w+ing\b)\w+ (?:one|it|"
    r"them|this|these|those)\b|\w+ [\d.]+%?[,;]|\d+ ?[-–:] \w"
)
# Decides or names nothing so far: "postponed until May", "not found yet", "up to you".
OPEN = pattern(
    r"(?:still |yet )?(?:unknown|unclear|unsure|not (?:yet )?(?:known|clear|sure|decided)|"
    r"not (?:yet found|found (?:yet|so far)))\b|still (?:open|pending|undecided)\b|postponed\b|"
    r"deferred (?:until|till|to the next)\b|(?:it )?depends on (?:what|who|which|whether)\b|"
    r"(?:we|i|the team) (?:still )?(?:have|has|do|did|can|could|wo|will) ?(?:not|n't) (?:yet )?"
    r"(?:decided?|agreed? on|know (?:yet|why|whether|which))\b|no decision\b|"
    r"(?:(?:we|i) (?:still )?have )?no (?:idea|preference)\b|(?:it'?s )?(?:up to you\b|"
    r"your (?:call|choice|decision)(?:,|\W*$))|whatever you (?:choose|decide|like|prefer|say|think|"
    r"want)\b"
)
# Anywhere in the text: a placeholder, what the agent just did.
LOOSE = pattern(
    r"\$\{|<[a-z][^>]{2,200}>|\bto be filled in\b|\byou (?:just )?(?:did|listed|made|proposed|"
    r"showed|suggested|wrote)\b"
)
LAUGH = pattern(r"\b(?:haha+|lol)\b")
# Talk about the work at hand: thanks, reproach, drafts.
COMPLAINT = pattern(
    r"(?:i'?ll\b|thanks\b|(?:looks|sounds) (?:good|fine|great)|let'?s (?:discuss|talk|see|wait|"
    r"decide|think|do|try|vote)\b|your (?:last|previous|answer|code|change\b)|"
    r"you (?!need)\w+(?:ed|oke|ent|ade|ot)\b|this \w+ for\b|i (?:already |also )?(?:asked|told|"
    r"said|wanted|was|mentioned|gave)\b|you (?:(?:still |also |already )+(?:need|have|must|"
    r"should|can)|were|are|said|promised|did|forgot)\b|we (?:still |also |really )+(?:need|"
    r"have) to\b|there (?:is|are) still\b|(?:this|that|it|these|those) (?:is|are|was|were) "
    r"(?:just |only )?(?:an? )?(?:example|draft|test|demo|wip|mock|placeholder|temporary))"
)
# A duty: the agent's now, or anybody's for ever.
NEEDS = pattern(
    r"(?:you (?:need|have|must|should|can)|(?:we|i) (?:need|have) to|i (?:want|need))\b"
)
# `Don't … yet`: holds for now only.
NOT_YET = pattern(r"(?:please )?(?:do not|don't)\b.*\b(?:yet|now|today)\b")
# Claims nothing.
IDLE = (BLANK, ASKS, SUPPOSES, COMPLAINT, POINTS, OPEN, NOT_YET)
# `Ask Anna …`: an errand.
ASK_SOMEBODY = pattern(r"(?:ask|call|e-?mail|remind|tell|write to) \w+")
# Refers to this conversation: an attachment, the next message.
JUST_NOW = pattern(
    r"\b(?:(?:task|step|item|question) \d+|i (?:just |have |already )*(?:uploaded|sent|gave|"
    r"pasted|attached|say|mentioned)|(?:my|the|your) next (?:message|prompt|question|turn|"
    r"request|answer|reply)s?|attached|above|below)\b"
)
# Something of the day: a meeting, `right now`.
PASSING = pattern(
    r"\b(?:yesterday|earlier today|just now|last (?:time|week|night)|a moment ago|this time|"
    r"tomorrow|tonight|today(?!')|in a hurry|right now|at the moment|(?:meeting|call|lunch|"
    r"appointment|stand-?up) .{0,30}\bin (?:an?|\w+) (?:minutes?|hours?)|for this (?:one|task|"
    r"step|session|branch|page)|(?:one|thing) i mean|on (?:mon|tues|wednes|thurs|fri|satur|"
    r"sun)day,)\b"
)
# What follows "remember that" where it opens a clause: "that the …" can be no "that bug".
SUBJECT = pattern(
    r"(?:the|our|your|my|his|her|their|its|this|these|those|we|i|you|they|it|he|she|there|an?|"
    r"all|every|each|no|any|both|some|most|nobody|everyone|everybody|only|in|on|at|for|when|"
    r"whenever|after|before|during|once|since|while|with|without|never|always|by|as|one|two|"
    r"three|even|if)\b"
)

# `Always …`, `use …`: a rule.
RULE = pattern(
    r"(?:please |you (?:must |should )?|we (?:must |should |will )?)?(?:always|never|only|"
    r"don'?t|do not|no(?: more)?|use|avoid|prefer|make sure|ensure|keep|treat|stick to|follow|"
    r"nobody|no one|everyone|everybody|all|every|each|any)\b(?! (?:it|this|that|these|those|"
    r"them|option|variant|number|\w+ing)\b)"
)
# How to do something each time: `answer …`, `commit …`.
HABIT = pattern(
    r"(?:please )?(?:answer|ask|call|cite|commit|deploy|document|explain|format|include|indent|"
    r"label|leave|log|name|quote|reply|respond|return|sign|skip|speak|squash|store|tag|talk|"
    r"wrap|write)\b(?! (?:it|this|that|these|those|them)\b)"
)
# `We must …`: a rule where it goes on to say what.
DUTY = pattern(
    r"(?:we|you|the team) (?:must|should|shall|may only|may not|has to|have to|needs? to|"
    r"cannot|can't|always|never|only|use|uses|prefer|avoid|require|requires|don'?t|do not|"
    r"doesn'?t|won't|will (?:not|always|never|only|use))\b"
)
# Holds for every case.
GENERAL = pattern(
    r"\b(?:every|each|all|any|always|never|whenever|before|instead|only|by default|per|"
    r"without)\b"
)
# `Let's …`, `I'll …`: a plan, not a rule.
PLAN = pattern(
    r"(?:please )?(?:let'?s|let us|i'?ll|i'?m|i|it|it'?s|this|that|that'?s|we'?ll|we'?re|"
    r"we are|we can|what|there)\b"
)
# `Look at`, `focus on`: where to work next.
ABOUT = pattern(
    r"\b(?:look|looking|focus|focusing|work|working|continue|start|starting|go|going|move|"
    r"moving|try)\b(?: (?:at|on|with|to|into))?"
)

# Another sentence that asks or orders something about a text: then the marker may be that text.
TEXTUAL = pattern(
    r"\b(?:this|these|that|those|below|above|following|it|them|templates?|formats?|headings?|"
    r"sections?|examples?|says?|said|reads?|wrote|prints?|printed|output|logs?|pasted?|lines?|"
    r"texts?|typos?|sentences?|paragraphs?|messages?|notes?|entr(?:y|ies)|readme|changelog|"
    r"adrs?|comments?|tables?|files?|docs?|documents?|translat\w+|like|parts|tickets?|issues?|"
    r"words|marker|trailers?|stor(?:y|ies)|poems?|songs?|novels?|chapters?|essays?|jokes?|"
    r"tales?|fiction|dialogues?|lyrics)\b"
)
# Orders something about a text: `shorten`, `translate`.
WORKS_ON = pattern(
    r"(?:please |now |and |then )*(?:answer|compare|condense|count|draft|draw|expand|format|"
    r"implement|list|polish|proofread|quote|rephrase|reply|reword|shorten|simplify|sort|split|"
    r"post|publish|turn|use)\b"
)
# Leads to somebody's words: `the log says`, `the label is`, `for example`.
SAYS = pattern(
    r"\b(?:says?|reads?|prints?|printed|wrote|writes|shows?|outputs?|looks? like|told me|"
    r"replied|answered)[\s:,.]*$|\b(?:is|are|be|was|like|as|with|from|to)\s*$|"
    r"\b(?:for example|for instance|e\.g\.?)[\s:,.]*$"
)
# Takes back, in another sentence, what the marker says.
TAKES_BACK = pattern(
    r"(?:just |only )?(?:kidding|joking)\b|jk\b|scratch (?:that|this)\b|never ?mind\b|"
    r"(?:please )?(?:ignore|disregard|forget) (?:it|this|that|the above|"
    r"what i (?:just )?said)\b|i(?:'m| am| was) (?:just|only) (?:testing|joking|kidding)\b|"
    r"(?:this|that|it) (?:is|was) (?:just |only )?a (?:test|joke)\b|"
    r"(?:just|only) (?:testing|an? (?:test|joke|example))\b|test(?: test)*\W*$|"
    r"i (?:disagree|don't agree|do not agree)\b|not true\b|"
    r"(?:this|that|it)(?:'s| is) (?:the )?(?:old|outdated|obsolete|not true|no longer true)\b"
)
# What "learned" and "root cause" name is told, not ordered; an order with a reason may be what was
# learned.
TOLD = frozenset(("learning", "bugfix"))
# An order to make a thing, without a reason.
MAKE = pattern(
    r"(?:please )?(?:write|create|implement|generate|build|add|make|fix|explain|"
    r"describe)\b (?:me )?(?:a|an|the|some)\b(?!.*\b(?:or|otherwise|else|before|after|because|"
    r"since|when|whenever|if|unless|until|so that|always|never)\b)",
    re.DOTALL,
)
# The beginning of an error message.
LOG = re.compile(
    r"\s*(?:(?:fatal |compile |build )?(?:error|warning|fatal|exception)(?: [A-Z]+\d+\b|\[|:"
    r" |\()|Caused by: |Traceback |Exception in |at [\w.$]+\(|npm ERR!)"
)
# A diff or a mail, whose lines are others'.
PASTE = re.compile(r"^(?:diff --git |@@ -\d|(?:From|Sent|Subject): )", re.MULTILINE)
# `Key: value`, as in a form.
KEY = re.compile(r"[\s*_#>-]*([A-Za-z][\w /-]{0,30}?)(?:\*\*|__)?\s?:(?:\*\*|__)?\s+\S")
# Keys that stand beside a trailer of ours and make no form.
REASONS = frozenset(("why", "reason", "reasons", "because", "rationale", "alternatives", "note"))
# A Markdown code fence.
FENCE = re.compile(r"(```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z))", re.DOTALL)
# Code in backticks, words in quotation marks.
QUOTED = re.compile(
    r"`[^`\n]*`|\"[^\"\n]{2,400}\"|“[^”\n]{2,400}”|«[^»\n]{2,400}»|"
    r"(?<!\w)'[^'\n]{8,400}'(?!\w)"
)
# Where a sentence ends.
SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|;\s+")
# A word, with its apostrophe.
WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
