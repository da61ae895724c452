"""Finds secrets in text before it is stored: the one gate of every write path.

Promise: a text for which `find` returns nothing holds no secret in a format that the vendors
document, no private key block, no password in a URL, a header or an option of a known command, and
no `password = ...` whose value looks like one. `check` promises it for a whole record, also where a
secret was cut in two between title and body. `mask` leaves nothing of what was found.

Why so: git notes are pushed, and what was pushed cannot be called back, so storing fails closed.
But a gate that refuses commit ids and prose is switched off, so a name followed by `=` is not
enough: its value must look random, or like a password a person would choose (`redact_values`).

Not promised: secrets that are encoded, encrypted, split by spaces or spelled out; formats without
a mark of their own (a hash, a UUID) unless a telling name stands before them; passwords that are
plain words where something else may stand; look-alike letters of other scripts. Zero-width
characters, soft hyphens and full-width letters inside a token are seen through.

Cost: every write waits for it, so the clean text pays some thirty `in` tests, one `split`, and one
`findall` in its long words. Patterns are compiled when first needed. All of it is linear in the
text. Imports `re` and two tables.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from gitmem.core import redact_commands
from gitmem.core.redact_commands import NAMES
from gitmem.core.redact_rules import BARE, anchored, prefixed, regex

from .record_fields import FLOW

# a random token holds a digit or two capitals side by side; most long words of prose do not
_MIXED = re.compile("[0-9]|[A-Z][A-Z]")
# passwords by their names in other languages; `contraseña` and `mot de passe` are seen by `pass`
_FOREIGN = ("kennwort", "senha", "wachtwoord", "heslo", "haslo", "contrasena")
_SCRIPTS = (
    *_FOREIGN, "contraseñ", "lösenord", "hasł", "парол", "密码", "密碼", "パスワード", "비밀번호", "şifre",  # noqa: E501
    "jelszó",
)  # fmt: skip
# the shortest documented token (an AWS access key id) has 20 characters
_LONG = 19
# the fields in which one text flows into the next
_FLOW = {name: place for place, name in enumerate(FLOW)}
# the rules by the two characters with which their token begins, and the others by a mark in it
_heads: dict[str, list[tuple[str, str, str]]] = {}
_marks: dict[str, list[tuple[str, str, str]]] = {}
_RUN = "[0-9A-Za-z]{32}"
_HEAD = "(?<![A-Za-z0-9])[A-Za-z0-9][!-~]"


class Finding(tuple[str, int, int]):
    """(rule, start, end): `text[start:end]` is the secret, without the name before it."""

    __slots__ = ()

    @property
    def rule(self) -> str:
        return self[0]

    @property
    def start(self) -> int:
        return self[1]

    @property
    def end(self) -> int:
        return self[2]


def find(text: str) -> list[Finding]:
    """Every secret in `text`, in order, none overlapping; an empty list for a clean text."""
    found = _scan(text)
    if not text.isascii() or "\\\n" in text or "\\\r\n" in text:
        plain, origin = _see_through(text)
        if origin:
            # both are read: dropping a character can also glue a token to the word before it
            found += [
                (rule, _back(origin, s), _back(origin, e - 1) + 1) for rule, s, e in _scan(plain)
            ]
    return _merge(found) if found else []


def first(text: str) -> Finding | None:
    """The first secret, or None."""
    found = find(text)
    return found[0] if found else None


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
            found += [(label, Finding(f)) for f in _scan(left[0] + right[0]) if f[1] < seam < f[2]]
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


def _merge(found: list[tuple[str, int, int]]) -> list[Finding]:
    merged: list[Finding] = []
    for rule, start, end in sorted(found, key=lambda f: (f[1], -f[2])):
        if merged and start < merged[-1].end:
            last = merged[-1]
            merged[-1] = Finding((last.rule, last.start, max(last.end, end)))
        else:
            merged.append(Finding((rule, start, end)))
    return merged


# ---- where to look -----------------------------------------------------------------------------


def _scan(text: str) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = []
    words = text.split()
    long = [w for w in words if len(w) > _LONG]
    if long:
        joined = " ".join(long)
        # letters only, or short: one in a thousand, or in fifty, lacks both
        if _MIXED.search(joined) or "hf_" in joined or "rzp_" in joined:
            _tokens(text, joined, found)
    low = text.lower()
    # U+0130 is the only character that grows in lower case; positions must stay
    if len(low) != len(text):
        low = text.replace("\u0130", "i").lower()
    # spelled out: a generator over a tuple costs twice as much
    telling = (
        "pass" in low or "secret" in low or "token" in low or "key" in low or "pw" in low
        or "auth" in low or "cred" in low or "bearer" in low
    )  # fmt: skip
    login = "login" in low
    if telling or login or "cookie" in low or "://" in text or "---" in text:
        from gitmem.core import redact_context

        redact_context.read(text, low, telling, found)
    if "`" in text or " -" in text or " /" in text or ".py " in text or not NAMES.isdisjoint(words):
        redact_commands.read(text, low, found)
    if (
        telling or login or "<<<" in text or ":5432:" in text or ":*:" in text or "psk" in low
        or "phrase" in low or "mnemonic" in low or "\"kty\"" in text or "identified by" in low
        or ("|" in text and ("echo " in low or "printf " in low)) or "securestring" in low
        or "private-lines" in low or ")/" in text
        or "assword" in low or ("send " in low and "\\" in text)
    ):  # fmt: skip
        from gitmem.core import redact_forms

        redact_forms.read(text, low, found)
    if any(word in low for word in (_SCRIPTS if not text.isascii() else _FOREIGN)):
        from gitmem.core import redact_context

        redact_context.named(text, low, found, redact_context.FOREIGN)
    return found


def _tokens(text: str, joined: str, found: list[tuple[str, int, int]]) -> None:  # noqa: C901
    if not _heads:
        _heads.update(prefixed())
        _marks.update(anchored())
    rows = [row for head in set(regex(_HEAD).findall(joined)) for row in _heads.get(head, ())]
    for mark, more in _marks.items():
        if mark in joined:
            rows += more
    aws = False
    for literal, rule, pattern in rows:
        # tokens hold no space, so the long words alone say whether the whole text is worth reading
        if literal in joined and regex(pattern, re.ASCII).search(joined):
            for m in regex(pattern, re.ASCII).finditer(text):
                if _genuine(m[0], literal):
                    found.append((rule, m.start(), m.end()))
                    aws = aws or rule == "aws-access-key"
    for rule, pattern in BARE if regex(_RUN).search(joined) else ():
        if regex(pattern).search(joined):
            for m in regex(pattern).finditer(text):
                if _genuine(m[0], ""):
                    found.append((rule, m.start(), m.end()))
    if aws:
        from gitmem.core import redact_values

        # the secret half has no mark of its own; it stands beside the id
        for m in regex(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=])").finditer(text):
            if redact_values.aws_secret(m[0]):
                found.append(("aws-secret-key", m.start(), m.end()))


def _genuine(token: str, literal: str) -> bool:
    from gitmem.core.redact_values import stand_in, wordy

    tail = token.removeprefix(literal)
    return not stand_in(tail) and not wordy(tail)


# ---- what hides a token from the eye, not from a reader ------------------------------------------

_FORMAT = "\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef"  # noqa: E501
# a word that goes on in the next line, as shells and YAML read it
_BREAK = r"\\(?<=[\w-]\\)\r?\n[ \t]{0,40}(?=[\w-])"
_LETTERS = "\uff01-\uff5e\u2460-\u24ff\U0001d400-\U0001d7ff"


def _see_through(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without format characters and continued lines, wide letters made plain, and where
    each stretch came from.

    The second value is empty where nothing had to change.
    """
    pieces: list[str] = []
    origin: list[tuple[int, int]] = []
    done = length = 0
    hidden = _BREAK if text.isascii() else f"{_BREAK}|[{_FORMAT}{_LETTERS}]"
    if not regex(hidden).search(text):
        return text, origin
    origin.append((0, 0))
    for m in regex(f"(?:{_BREAK}|[{_FORMAT}])+|[{_LETTERS}]+").finditer(text):
        plain = "" if m[0][0] == "\\" or regex(f"[{_FORMAT}]").match(m[0]) else _plain(m[0])
        pieces += [text[done : m.start()], plain]
        length += m.start() - done + len(plain)
        done = m.end()
        origin.append((length, done))
        # one for one, so a position inside a wide stretch is its own distance from the start
        if plain:
            origin.insert(-1, (length - len(plain), m.start()))
    pieces.append(text[done:])
    return "".join(pieces), origin


def _plain(letters: str) -> str:
    from unicodedata import normalize

    plain = (normalize("NFKC", c) for c in letters)
    return "".join(p if len(p) == 1 else " " for p in plain)


def _back(origin: list[tuple[int, int]], at: int) -> int:
    from bisect import bisect_right

    length, done = origin[bisect_right(origin, (at, len(origin) << 40)) - 1]
    return done + at - length
