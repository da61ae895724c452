"""Lists of English words that tell the form of a sentence, for `features`, `markers` and `signals`.

`features` counts them, so a change of a list there needs another training of the packaged model.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A sentence that begins with one of these asks.
QUESTION_OPENERS = _words("""
    am any are aren't can can't could did do does doesn't don't has have how is isn't should
    shouldn't was were what when where which who why will would
""")

# "Could you …": an order in the form of a question.
REQUEST_OPENERS = _words("can could will would")

# A sentence that begins with one of these is an order.
ORDER_VERBS = _words("""
    add address analyze apply ask build change check clean commit complete continue convert copy
    create debug delete describe do document draft edit ensure examine expand explain explore
    extract finish fix generate get give go help identify implement improve include install
    integrate investigate keep let list look make merge migrate modify move note open organize parse
    plan please prepare proceed proofread provide pull push put read redo refactor remove rename
    replace reset restart resume review revise rewrite run save search see send set show simplify
    skip split start stop suggest summarize take tell test think try undo update use validate verify
    walk work write
""")

# Says that something holds from now on.
LASTING = _words("""
    always anymore avoid convention every forever future instead must never policy prefer rather
    rule rules standard whenever
""")

# Says what has to be.
DUTY = _words("has have must need needs ought shall should supposed")

# Gives a reason.
REASON = _words("because cause caused causes due otherwise reason since so therefore")

# Chooses, agrees or refuses.
CHOICE = _words("""
    agree agreed choose chose chosen decided decision going like love no nope ok okay prefer sure
    want wanted wish yeah yep yes
""")

# Tells what was found, broke or works.
FINDING = _words("""
    actually apparently blocked broken bug caused discovered failing fails fixed found issue learned
    noticed problem realised realized resolved root stuck turns working works
""")

# The author speaks of themselves or the team.
FIRST_PERSON = _words("i i'd i'll i'm i've let's lets my our we we'll we're we've")

# After "remember that" a clause has one of these: "that invoices are numbered".
FINITE_VERBS = _words("""
    are aren't can can't cannot come comes do does doesn't don't drop drops expect expects fail
    fails get gets give gives go goes had has have is isn't keep keeps lack lacks lag lags live
    lives lock locks make makes may mean means must need needs read reads reject rejects require
    requires return returns run runs see sees should start starts stop stops take takes use uses was
    were will wipe wipes won't work works write writes
""")

# After "remember that" these continue a noun: "that bug which …".
RELATIVE_WORDS = _words("from he i she that they we where which who with you")

# A sentence of these alone is an acknowledgement before what is meant.
NODS = _words("""
    agreed catch cool fine good great lgtm looks nice no ok okay perfect sure thank thanks thx ty
    yeah yep yes you
""")

# Words of `Decision: …`, at the start of a line -> type, which may be one that the model never
# gives.
_TRAILERS = {
    "decision, decided, adr": "decision",
    "learned, learning, learnt, lesson, lesson learned, til, note to self": "learning",
    "gotcha, pitfall, caveat": "gotcha",
    "convention, rule": "convention",
    "preference": "preference",
    "blocker, blocked, blocked by": "blocker",
    "root cause, bugfix": "bugfix",
    "progress, milestone": "progress",
    "dead end": "dead-end",
    "finding": "finding",
}
TRAILERS = {word: type for words, type in _TRAILERS.items() for word in words.split(", ")}

# Reports, logs and linters begin lines with these, too: the marker is at most offered.
_WEAK = "blocked, blocked by, bugfix, caveat, finding, lesson, milestone, progress, rule"
WEAK_TRAILERS = frozenset(_WEAK.split(", "))

# A line with one of these is prose, also where it begins like a shell command.
SMALL_ENGLISH = _words("""
    a always an and are be can for from i in is it must my never not of on only our should supports
    that the this to was we with you
""")

# A turn of these alone answers or waves through.
ACKNOWLEDGEMENTS = _words("""
    1 2 3 4 a again agreed ahead all and awesome b both c commit continue cool correct d do done
    exactly fine first fix for go good great hello hey hi it k let's lets lgtm looks merge much n
    nah next nice no nope now ok okay on one option perfect please proceed push retry right run
    second so sounds stop sure thank thanks that that's the third thx try ty very wait with works y
    yeah yep yes you yup
""")
