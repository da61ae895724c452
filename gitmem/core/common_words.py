"""What a prompt says of its own: what is not said to an agent in many projects.

"Thanks, looks good! Can you add retries to the upload step? Let me know what you think." asks about
retries and an upload step. `asked` leaves out the rest, `specificity` says how much is left.

The counts come from prompts of public projects, most in English (`tools/build_common_words.py`):
words of other languages count as a project's own. Pure functions; every prompt waits for the
import.
"""

from __future__ import annotations

from . import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PROJECTS = 26
# In the prompts of how many projects a term (`text.terms`) stands, if in six or more.
_COUNTED = """
    24 chang
    23 file
    22 add test us
    21 code make need
    20 run updat work
    19 error on
    18 fix function get new option start still think ye
    17 check creat first go log look move remov see set want
    16 better data document exampl find folder format git id implement instead like md number
    project type up wai
    15 ad content github keep kei list miss name next ok requir script show time try two user
    14 after alreadi app back base call complet continu current default exist line main much
    plan sai select someth sure version
    13 abl anoth api ask befor come commit config configur doc e follow found good help home
    http issu let made match open return right someon take tell text valid valu well write
    12 alwai anyth case comment context correct date differ done even everyth featur gener give
    import improv includ json last mani must part path point process provid push read repo
    result save seem specif specifi thing top under
    11 appear around bit clean com command edit end etc except fail field full got handl histori
    info inform know local locat mayb method model modul org pass per put readm refer remain
    renam replac search state statu stop suggest support
    10 account appli debug delet detail directori down either els empti everi expect explain
    final futur happen input link max messag might modifi n output page place possibl present
    properli propos relat resolv review root rule setup similar space tabl termin variabl wrong
    9 access actual allow attach auto avail between block button click column custom depend
    descript design displai dont enabl ensur extract fulli further great index instal integr
    load logic long lot min multipl normal old oper packag proce progress prompt queri shown
    simpl sinc sort sourc src step structur summari task templat token true understand url util
    without
    8 abov activ adjust ai basic bug c class color consol contain correctli cursor defin execut
    exit extens figur filter form given increas invalid item later librari mai manag mark mode
    noth object order other over pattern problem public py question realli recent record report
    repositori request respons second sens separ server simplifi size small solut string stuff
    sync tag three todo tool txt via visual weird whole yet
    7 action analysi analyz approach area attempt attribut avoid b backend begin behavior below
    break build cach calcul cli combin compar compon concis confirm control core cover dir
    discuss doesn duplic dure enter entir export focu head header host howev idea insid layout
    limit map markdown mean meant mention merg never non none note notic origin phase placehold
    real refactor rememb revert said servic share singl style successfulli summar
    syntax system titl total track ui view visibl wait workflow
    6 accordingli across adapt addit agent answer assign automat background bad best big bin
    chat choos codebas common compil connect consid const coverag dai db describ develop direct
    directli disabl distribut download easi entri env environ extend f fals feel
    fetch fine finish flow gitignor global goe hard hub icon ident ignor imag indic init initi
    instruct interact isn iter learn left length manual maximum necessari nice okai pars past
    persist pick pipelin posit pre prefer previou print proper publish purpos python quit readi
    readmemd reason reduc releas relev row screen section standard suppos thought togeth turn
    verifi vertic vs warn web what whether window within won workspac www yaml
"""
SMALL_TALK = frozenset(
    "again ahead alright cool continu get go good great hello hi k let move n next nice now ok okai"
    " perfect please proce start sure thank try y ye yea yeah yep yup".split()
)
# Written as names are, though any project may have them.
_ANYWHERE = frozenset(
    "127.0.0.1 aes-256 cargo.toml ci.yml docker-compose.yml iso-8601 macos next.js node.js"
    " node_modules package-lock.json pyproject.toml sha-1 sha-256 sha-512 tsconfig.json utf-16"
    " utf-8 vue.js x86_64".split()
)
# What may stand before what is asked for; "can we" is part of a question.
_POLITE = (
    "also", "and", "can you", "could you", "i need to", "i need you to", "i want to",
    "i want you to", "i would like to", "i'd like to", "i'd like you to", "let's", "now",
    "ok", "okay", "please", "so", "then", "we need to", "we should", "will you", "would you",
)  # fmt: skip
_THANKS = ("cool", "great", "nice", "perfect", "thanks", "thank you", "yeah", "yes", *_POLITE)
_BEGINS = [words + " " for words in _POLITE] + [words + ", " for words in _THANKS]
_NO_END = ("e.g.", "i.e.", "vs.")
_WRAPPED = 50  # characters of a line from which on its sentence may go on in the next
# Of a word's rarity, on average: "make sure that all tests still pass before you commit" has 0.31,
# "add input validation to the form" 0.47.
_SMALL = 0.4
_FEW = 4  # lines of code or of a log that are part of the question: an error, a call
# Of a line's characters, signs and digits: few lines of prose have so many, most of a log have.
_PROSE = 0.12
_CODE_ENDS = tuple("{};([")
_ITEM = tuple("-*•0123456789")  # begins an item of a list, and a semicolon may end that
_LOOKED_AT = 20_000  # characters in which pasted lines are looked for


def _shares() -> dict[str, float]:
    shares, share = {}, 0.0
    for word in _COUNTED.split():
        if word.isdigit():
            share = int(word) / PROJECTS
        else:
            shares[word] = share
    return {**dict.fromkeys(text.STOP_WORDS, 1.0), **shares, **dict.fromkeys(SMALL_TALK, 1.0)}


_SHARE = _shares()


def said(terms: Iterable[str]) -> list[str]:
    """The terms without small talk and the numbers of steps, as in "let's move on to 3.2"."""
    found = []
    for term in terms:
        digits = term.replace("·", "")
        if term not in SMALL_TALK and not (digits.isdigit() and len(digits) < 4):
            found.append(term)
    return found


def own(names: Mapping[str, str]) -> list[str]:
    """The terms of names (`text.names`) that few projects' prompts hold, without the numbers of
    steps, and without a common word or a number that has one ending: `package.json`, 99.99.
    """
    return [term for term in said(names) if term not in _SHARE and not _anywhere(names[term])]


def _anywhere(name: str) -> bool:
    name = name.lower()
    if name in _ANYWHERE:
        return True
    first, dot, ending = name.partition(".")
    if not dot or "." in ending:
        return False
    return first.isdigit() or _SHARE.keys() >= set(text.terms(first))


def specificity(terms: Iterable[str]) -> float:
    """How much is said of one's own: each term counts 1, less the share of projects that use it."""
    return sum([1 - _SHARE.get(term, 0.0) for term in terms])


def asked(prompt: str) -> str:
    """The sentences that say something of their own, a line each, without polite beginnings; all
    where none does. Longer pieces of code and of logs are left out: with ten lines of code beside
    them 4 instead of 65 of 100 questions were told the right memory. Of a long prompt begin and end
    are read (`text.ends`).
    """
    for given in (_typed(text.ends(prompt, _LOOKED_AT)), prompt):
        if own := "\n".join(map(_plain, filter(_own, _sentences(text.ends(given))))):
            return own
    return text.ends(prompt)


def _typed(prompt: str) -> str:
    """The prompt without runs of more than _FEW lines of code or of a log. Blank lines end none."""
    kept: list[str] = []
    start = pasted = 0  # of a run: where it begins in `kept`, how many lines it has
    fenced = False
    for line in prompt.split("\n"):
        mark = line.strip()
        fence = mark.startswith("```") and "`" not in mark.lstrip("`")  # "```ls``` fails" is none
        if fence or fenced or _pasted(line):
            fenced ^= fence
            start = start if pasted else len(kept)
            pasted += 1
        elif mark:
            if pasted > _FEW:
                del kept[start:]
            pasted = 0
        kept.append(line)
    return "\n".join(kept[:start] if pasted > _FEW else kept)


def _pasted(line: str) -> bool:
    """Whether a line is indented or ends as code does, or has as many signs and digits as prose has
    not. Of ASCII: other alphabets have marks that are no letters. A list's items have one or two.
    """
    line = line.rstrip()
    signs = sum([c.isascii() and not c.isalpha() for c in line]) - line.count(" ")
    coded = line.endswith(_CODE_ENDS) and not line.lstrip().startswith(_ITEM)
    return coded or line.startswith(("    ", "\t")) or signs > max(2, _PROSE * len(line))


def _sentences(prompt: str) -> list[str]:
    lines: list[str] = []
    for line in [" ".join(line.split()) for line in prompt.splitlines()]:
        if line and lines and len(lines[-1]) >= _WRAPPED and lines[-1][-1] not in ".!?:":
            lines[-1] += f" {line}"
        else:
            lines.append(line)
    found = "\n".join(lines)
    for end in ".!?":
        found = found.replace(f"{end} ", f"{end}\n")
    for short in _NO_END:
        found = found.replace(f"{short}\n", f"{short} ")
    return found.split("\n")


def _own(sentence: str) -> bool:
    """Whether it has a word that is not common, or a number beyond that of a step; a question, two
    words beside small talk. Else its words must not be too common on average.
    """
    terms = {t for t in text.query_terms(sentence) if not (t.isdigit() and len(t) < 3)}
    if sentence.rstrip("\"')]*_`!").endswith("?") and len(terms - SMALL_TALK) > 1:
        return True
    return not _SHARE.keys() >= terms or specificity(terms) > _SMALL * len(terms)


def _plain(sentence: str) -> str:
    low, start = sentence.lower(), 0
    while found := [begin for begin in _BEGINS if low.startswith(begin, start)]:
        start += len(max(found, key=len))
    return sentence[start:]
