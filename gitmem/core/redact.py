"""Finds secrets in text before it is stored: the one gate of every write path.

Promise: a text for which `find` returns nothing holds no secret in a format that the vendors
document, no private key block, no password in a URL, a header or an option of a known command, and
no `password = ...` whose value looks like one. `check` promises it for a whole record, also where a
secret was cut in two between title and body.

Git notes are pushed, and what was pushed cannot be called back, so storing fails closed. But a gate
that refuses commit ids and prose is switched off, so a name followed by `=` is not enough: its
value must look random, or like a password a person would choose (`redact_values`).

Not promised: secrets that are encoded, encrypted, split by spaces or spelled out; formats without
a mark of their own (a hash, a UUID) unless a telling name stands before them; passwords that are
plain words where something else may stand; look-alike letters of other scripts.

Every write waits for it: clean text pays some thirty `in` tests, one `split`, and one `findall` in
its long words. Patterns are compiled when first needed; all of them are linear in the text.
"""

import re
from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from gitmem.core import redact_places
from gitmem.core.redact_rules import regex, tokens

from .record_fields import FLOW

# a random token holds a digit or two capitals side by side; most long words of prose do not
_MIXED = re.compile("[0-9]|[A-Z][A-Z]")
# the shortest documented token (an AWS access key id) has 20 characters
_LONG = 19
_IDS, _HEX = (40, 64), "0123456789abcdef"
# the fields in which one text flows into the next
_FLOW = {name: place for place, name in enumerate(FLOW)}
_RUN = "[0-9A-Za-z]{32}"
_HEAD = "(?<![A-Za-z0-9])[A-Za-z0-9][!-~]"
# the secret half of an AWS key has no mark of its own; it stands beside the id
_AWS_SECRET = r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=])"


# `text[start:end]` is the secret, without the name before it
Finding = namedtuple("Finding", "rule start end")
Found = list[tuple[str, int, int]]


def find(text: str) -> list[Finding]:
    """Every secret in `text`, in order, none overlapping; an empty list for a clean text."""
    found = _scan(text)
    if not text.isascii() or any(mark in text for mark in ("\\\n", "\\\r\n", "**")):
        plain, origin = _see_through(text)
        if origin:
            # both are read: dropping a character can also glue a token to the word before it
            found += [(rule, origin[s], origin[e - 1] + 1) for rule, s, e in _scan(plain)]
    return _merge(found) if found else []


def holds(*texts: str) -> bool:
    """Whether one of them holds a secret: for names that nobody is to be asked about."""
    return any(text and find(text) for text in texts)


def mask(text: str, findings: Iterable[tuple[str, int, int]]) -> str:
    """`text` with each finding replaced by `[redacted: RULE]`."""
    pieces, done = [], 0
    for rule, start, end in _merge(list(findings)):
        pieces += [text[done:start], f"[redacted: {rule}]"]
        done = end
    return "".join(pieces) + text[done:]


def check(fields: Mapping[str, object]) -> list[tuple[str, Finding]]:
    """(field, finding) for every secret in a record; empty means that it may be stored.

    Walks strings, lists and mappings of any depth, so fields that this version does not know are
    read too. A secret cut in two is reported under both names (`title+body`), its span counted
    in their joined text, and only where neither has a finding of its own.
    """
    parts = [(name, text) for name, value in fields.items() for text in _strings(value) if text]
    parts.sort(key=lambda part: _FLOW.get(part[0], len(_FLOW)))
    # one pass over everything decides the common case
    together = find("\n".join([text for _, text in parts]))
    found = [(name, f) for name, text in parts for f in find(text)] if together else []
    for (name, text), (after, rest) in pairwise(parts):
        if (name != after and after not in _FLOW) or any(
            field in (name, after) for field, _ in found
        ):
            continue
        # the word cut by the seam, as when a title takes the first 60 characters of a body
        left, right = text.rsplit(None, 1)[-1:], rest.split(None, 1)[:1]
        if left and right and len(left[0]) + len(right[0]) > _LONG:
            seam = len(left[0])
            label = name if name == after else f"{name}+{after}"
            found += [(label, Finding(*f)) for f in _scan(left[0] + right[0]) if f[1] < seam < f[2]]
    if together and not found:
        # it takes two fields to see it: a key block's header in one, its body in the next
        found = [("+".join(dict.fromkeys(name for name, _ in parts)), f) for f in together]
    return found


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from (f"{key}: {text}" for text in _strings(item))
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _strings(item)


def _merge(found: Found) -> list[Finding]:
    merged: list[Finding] = []
    for rule, start, end in sorted(found, key=lambda f: (f[1], -f[2])):
        if merged and start < merged[-1].end:
            last = merged[-1]
            merged[-1] = Finding(last.rule, last.start, max(last.end, end))
        else:
            merged.append(Finding(rule, start, end))
    return merged


def _scan(text: str) -> Found:
    found: Found = []
    words = text.split()
    # The id of a commit is no token of any rule.
    long = [w for w in words if len(w) > _LONG and (len(w) not in _IDS or w.strip(_HEX))]
    if long:
        joined = " ".join(long)
        # letters only, or short: one in a thousand, or in fifty, lacks both
        if _MIXED.search(joined) or "hf_" in joined or "rzp_" in joined:
            _tokens(text, joined, found)
    low = text.lower()
    # U+0130 is the only character that grows in lower case; positions must stay
    if len(low) != len(text):
        low = text.replace("\u0130", "i").lower()
    telling = any(word in low for word in redact_places.TELLING)
    if telling:
        from gitmem.core import redact_named

        redact_named.named(text, low, found)
        if "data" in low:
            redact_named.manifest(text, low, found)
    found += redact_places.read(text, low, words, telling)
    foreign = redact_places.FOREIGN + (() if text.isascii() else redact_places.SCRIPTS)
    if any(word in low for word in foreign):
        from gitmem.core import redact_named

        redact_named.named(text, low, found, f"({'|'.join(foreign)})")
    return found


def _tokens(text: str, joined: str, found: Found) -> None:
    heads, anchored, bare = tokens()
    rows = [row for head in set(regex(_HEAD).findall(joined)) for row in heads.get(head, ())]
    rows += anchored
    if regex(_RUN).search(joined):
        rows += bare
    # tokens hold no space, so the long words alone say whether the whole text is worth reading
    for rule, literal, pattern in [row for row in rows if row[1] in joined]:
        if regex(pattern, re.ASCII).search(joined):
            found += [
                (rule, m.start(), m.end())
                for m in regex(pattern, re.ASCII).finditer(text)
                if _genuine(m[0].removeprefix(literal))
            ]
    if any(rule == "aws-access-key" for rule, _, _ in found):
        from gitmem.core.redact_values import aws_secret

        for m in regex(_AWS_SECRET).finditer(text):
            if aws_secret(m[0]):
                found.append(("aws-secret-key", m.start(), m.end()))


def _genuine(tail: str) -> bool:
    from gitmem.core.redact_values import stand_in, wordy

    return not stand_in(tail) and not wordy(tail)


_FORMAT = "\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef"  # noqa: E501
# a word that goes on in the next line, as shells and YAML read it
_BREAK = r"\\(?<=[\w-]\\)\r?\n[ \t]{0,40}(?=[\w-])"
# Markdown's bold type, as in `**Password:** X`
_BOLD = r"(?<![*\w])\*\*(?=[\w`])|(?<=[\w`:\uff1a])\*\*(?![*\w])"
_LETTERS = "\uff01-\uff5e\u2460-\u24ff\U0001d400-\U0001d7ff"


def _see_through(text: str) -> tuple[str, list[int]]:
    """The text without format characters, bold type and continued lines, wide letters made plain,
    and where each character stood; no places where nothing had to change.
    """
    hidden = f"{_BREAK}|{_BOLD}" + ("" if text.isascii() else f"|[{_FORMAT}{_LETTERS}]")
    if not regex(hidden).search(text):
        return text, []
    from unicodedata import normalize

    pieces: list[str] = []
    origin: list[int] = []
    done = 0
    for m in regex(f"(?:{_BREAK}|{_BOLD}|[{_FORMAT}])+|([{_LETTERS}]+)").finditer(text):
        pieces.append(text[done : m.start()])
        origin += range(done, m.start())
        if m[1]:  # one for one, so that places stay
            plain = [normalize("NFKC", c) for c in m[1]]
            pieces += [p if len(p) == 1 else " " for p in plain]
            origin += range(*m.span())
        done = m.end()
    origin += range(done, len(text))
    return "".join(pieces) + text[done:], origin
