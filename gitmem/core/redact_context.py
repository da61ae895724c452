"""Tells a secret's value from a placeholder, and finds the secrets known only by what stands around them.

Owns the shape tests (`stand_in`, `random_looking`, `password_like`) and the finders for key blocks,
URLs, Authorization headers and `password = ...`. They prefer to miss a password that is a plain
word over refusing prose and code: a gate that refuses those is switched off. Loaded only when a
text holds a telling word, so its patterns may compile on import.
"""

import binascii
import re
from math import log2

from gitmem.core.redact_rules import regex

# ---- a value, or a stand-in for one ------------------------------------------------------------

_STAND_IN = re.compile(
    r"example|placeholder|change.?me|^my[-_ .]|(?:^|[^a-z])your[-_ .]|your.?(?:token|key|secret|pass|api)|redacted|dummy|(?:^|[^a-z])fake|sample|"
    r"(?-i:xxxx|XXXX)|\*\*\*|\.\.\.|…|replace.?(?:me|with)|insert.?|not.?(?:a|the).?real|"
    r"\$\{|\$\(|\{\{|<[\w .:-]+>|%\(|0{12}|1{12}|a{12}",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"[$%]\w+%?$|[$%&<{\[(@*#\\|]|(?:os|process|self|this|cls|config|settings|env|cfg|ctx|opts?|args|kwargs|options|req|request|params|"
    r"data|std|user|conf|vars?|secrets|local|module|each|node|ev?|event|props|response|res|result)(?:\.|\[|->|::)|!(?:Ref|Sub|GetAtt|vault)|"
    r"(?:sha|md|utf|aes|rsa|hmac|ed|base|latin|iso|ascii|hs|rs|es|oauth|str|int|uint|float|arg|param|value|val|foo|bar|baz|qux)[-_]?\d*$",
    re.IGNORECASE,
)
_WEAK = frozenset(
    "password passwd passw pass passwort secret token key apikey test tests testing tester admin administrator root user username guest "  # noqa: SIM905
    "postgres mysql redis mongo rabbitmq tiger demo foo bar baz foobar abc abcdef abcd qwerty letmein none null nil true false undefined "
    "empty string pwd pw changeit default value hidden private public unknown p x xxx s e welcome login hello world mysecret mypassword "
    "minioadmin supersecret topsecret verysecret minio neo elastic sa dev prod local".split()
)
# What a password may be said to be that is none: how it is kept, encoded or asked for.
_FORMATS = re.compile(
    r"(?:argon|b?crypt|scrypt|pbkdf|blake|whirlpool|ripemd|crc|kdf|rot|gpg|x|ssl|tls|ldap|ntlm|krb|kerberos|radius|smtp|imap|http|oauth|saml|otp|totp|hotp|fido|unicode|ucs|ebcdic|win|windows|mac|rfc|"
    r"step|page|line|field|item|option|column|level|version|ver|phase|type|part|section|chapter|issue|ticket|bug|case|user|admin|node|host|server|python|java|php|postgres|mysql|"
    r"\w+ed|\w+ing|must|min|max|minimum|maximum|exactly|only|about|over|under|pwd|pass|passwd|password)\d+$",
    re.IGNORECASE,
)
_PIECE = re.compile(r"[a-z]+|[A-Z][a-z]+|[A-Z]+|v?\d{1,4}")
_HEX = re.compile(r"[0-9a-fA-F]+")
_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_DIGESTED = re.compile(r"(?:sha\d{1,3}|md5|blake\w{1,3})[-:]", re.IGNORECASE)


def stand_in(value: str) -> bool:
    """Is this a placeholder, a reference to a value, or a run of the same few characters?"""
    # a real token longer than 12 with fewer than 6 different characters is a one in a million
    return len(set(value)) < min(6, len(value) // 2 + 1) or _STAND_IN.search(value) is not None


def wordy(value: str) -> bool:
    """Words joined by separators, as in `sk-fading-circle-spinner`: an identifier, not a token."""
    pieces = re.split(r"[-_./:]+", value.strip("-_./:"))
    return (len(pieces) > 1 or value.islower()) and all(_PIECE.fullmatch(p) for p in pieces)


def mixing(value: str) -> float:
    """Changes between digits, small and capital letters for each neighbouring pair of letters or digits.

    Humps of camelCase do not count. Random base 62 gives about 0.5, hex 0.47, base 36 0.4,
    base 32 0.3; `gpt-4-turbo-2024` 0, `getUserTokenById2` 0.06.
    """
    kinds = "".join("d" if c.isdigit() else "u" if c.isupper() else "l" if c.isalpha() else "-" for c in value)
    pairs = changes = 0
    for i in range(1, len(kinds)):
        a, b = kinds[i - 1], kinds[i]
        if a == "-" or b == "-":
            continue
        pairs += 1
        if a != b and a + b != "ul" and not (a + b == "lu" and kinds[i + 1 : i + 2] == "l"):
            changes += 1
    return changes / pairs if pairs else 0.0


def entropy(value: str) -> float:
    """Bits a character, from the counts in the value itself."""
    n = len(value)
    return -sum(k / n * log2(k / n) for k in (value.count(c) for c in set(value)))


def random_looking(value: str, hashes: bool = True) -> bool:
    """Long enough and mixed enough to be a key; `hashes=False` lets git object ids through."""
    if len(value) < 16 or stand_in(value) or _UUID.fullmatch(value) or _DIGESTED.match(value) or _CODE.match(value):
        return False
    if _HEX.fullmatch(value):
        return (hashes or len(value) not in (40, 64)) and len(value) >= 24 and any(c.isalpha() for c in value)
    if value.count("/") > 2 or value.startswith(("/", "./", "../", "~/")):
        return False
    head = value[:200]  # bounds the cost; a key shows its nature in its first 200 characters
    digits = sum(c.isdigit() for c in head)
    if digits < 2 and len(value) < 24:
        return False
    return mixing(head) >= (0.15 if digits >= 2 else 0.1) and entropy(head) >= 3.0


def password_like(value: str, quoted: bool, tight: bool) -> bool:
    """Would a person have chosen this as a password, rather than named a variable?

    `tight` says that it stood as `key=value` without spaces, where a bare word is a literal more often.
    """
    if len(value) < 6 or stand_in(value) or _CODE.match(value) or value.rstrip("0123456789!").lower() in _WEAK:
        return False
    digits = sum(c.isdigit() for c in value)
    special = sum(c in "!@#$%^&*?+~" for c in value[1:])
    if not any(c.isalpha() for c in value) or re.fullmatch(r"[\w.+-]+@[\w-]+\.[\w.]+", value) or _UUID.fullmatch(value):
        return False
    if _DIGESTED.match(value) or (wordy(value) and (digits == 0 or re.search(r"[-_./:]", value))):
        return False
    if quoted:
        return digits > 0 or special > 0
    if re.search(r"[()\[\]{}<>|]|::|->|//|^\.?/", value):
        return False
    if special and (digits or not value.islower()) and len(value) >= 8:
        return True
    if re.fullmatch(r"\w+", value):
        return "_" not in value and digits > 0 and len(value) >= 7 and (tight or mixing(value) >= 0.3)
    return digits >= 2 and len(value) >= 10 and mixing(value) >= 0.2


# ---- secrets known by what stands around them ---------------------------------------------------


def aws_secret(value: str) -> bool:
    kinds = any(c.isupper() for c in value), any(c.islower() for c in value), any(not c.isalpha() for c in value)
    return len(value) == 40 and all(kinds) and not stand_in(value) and not set(value) <= set("0123456789abcdefABCDEF")


_HEADER = r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----"


def key_blocks(text: str, found: list[tuple[str, int, int]]) -> None:
    """A header alone is prose about keys; with 20 characters of base64 behind it, it is a key.

    Line breaks may be spaces, `\\n` of JSON, or gone.
    """
    at = 0
    header, inside = regex(_HEADER), regex(r"(?:[^-]|-(?!----))*+")
    while begin := header.search(text, at):
        body = inside.match(text, begin.end())
        at = body.end() if body else begin.end()
        runs = list(regex(r"[A-Za-z0-9+/]{20,}={0,2}").finditer(text, begin.end(), at))
        if runs:
            close = regex(r"-----END [A-Z0-9 ]{0,60}-----").match(text, at)
            # cut off without its end: up to the last line of base64, the shorter one included
            stop = close.end() if close else regex(r"(?:(?:\s|\\n)*[A-Za-z0-9+/]+={1,2})?").match(text, runs[-1].end())
            found.append(("private-key", begin.start(), stop if isinstance(stop, int) else stop.end() if stop else at))


def urls(text: str, found: list[tuple[str, int, int]]) -> None:
    for m in regex(r"://([^\s/:@\"'<>`]{0,255})(?::([^\s/@\"'<>`]{3,255}))?@([\w.-]{0,100})").finditer(text):
        user, password, host = m[1], m[2], m[3].lower()
        if password is None:
            if random_looking(user):
                found.append(("url-credentials", m.start(1), m.end(1)))
        elif user.lower() != password.lower() and (
            password_like(password, quoted=True, tight=True)
            # a plain word counts where the host is a real one
            or (len(password) > 5 and regex(r"[A-Za-z]+").fullmatch(password) and _real(password, host))
        ):
            found.append(("url-credentials", m.start(2), m.end(2)))


def curl(text: str, found: list[tuple[str, int, int]]) -> None:
    for m in regex(r"curl[^\n]{0,120}?[ \t](?:-u|--user)[ \t=]{0,2}[\"']?[^\s:\"']{1,64}:([^\s\"']{4,128})", re.IGNORECASE).finditer(text):
        if password_like(m[1], quoted=True, tight=True):
            found.append(("curl-user", m.start(1), m.end(1)))


def _real(password: str, host: str) -> bool:
    unreal = regex(
        r"localhost\b|127\.|0\.0\.0\.0|(?:my)?(?:host|hostname|server|domain|company)\.(?:com|org|net)$|(?:.*\.)?example\.|.*\.(?:test|invalid|local|example)$|[^.]*$"
    )
    return not stand_in(password) and password.lower() not in _WEAK and not unreal.match(host)


# ---- values with a telling name ----------------------------------------------------------------

# one group, each alternative opening with a letter: `re` then skips ahead by a set of first letters (3 times faster)
_NAME = (
    r"(passw(?:or)?d|passphrase|passcode|pass(?<![a-z]pass)(?=[\"'`\])]{0,3}[ \t]{0,4}[:=])|pwd|token|credential|"
    r"secret|key|_auth\b|auth(?<=[\"']auth)(?=[\"']))"
)
# `key` alone is a dictionary's; tested behind the match, since one `key` is found faster than thirty words
_KEY_OF = (
    r"(?:api|access|account|private|auth|sign|signing|encrypt|encryption|crypt|master|service|shared|license|deploy|"
    r"storage|client|app|consumer|session|admin|root|publish|webhook|functions)[ _.-]?$"
)
# quotes and brackets after the name; an annotation (`: str =`); or prose and command lines, held to more
_BETWEEN = (
    r"[\w-]{0,24}(?:[\"'`\])]{0,3}[ \t]{0,8}(?::[ \t]{0,4}[a-z][\w.\[\]|, ]{0,40}+=(?!=)|:=|=>|={1,3}|:)[ \t]{0,8}|[\"'`][ \t]{0,2},[ \t]{0,4}(?=[\"'`])|"
    r"(?P<prose>[\"'`]?[ \t]{1,4}(?:is|was|to)[ \t:]{1,4}|[ \t]{1,4}))"
)
# a bare value ends before `=` and `:`, else a run of `token=token=` would be judged once a link, each to its end
_VALUE = r"(?P<quote>\\?[\"'`])(?P<quoted>[^\n\"'`\\]{4,512})(?P=quote)|(?P<bare>(?:[^\s\"'`,;&=:]|&(?!\w{1,40}=)){6,2048}+={0,2})"
_AUTH = r"(?:authorization|bearer|basic)[\"']?[ \t]{0,4}[:=]?[ \t]{0,4}[\"'`]?(?:(?:bearer|basic|token|apikey)[ \t]{1,4})?"


def named(text: str, low: str, found: list[tuple[str, int, int]]) -> None:
    value = regex(_VALUE)
    for m in regex(_NAME + _BETWEEN).finditer(low):
        if m[1] == "key" and not regex(_KEY_OF).search(low, max(0, m.start() - 16), m.start()):
            continue
        got = value.match(text, m.end())
        if got and (span := _judge(text, m, got)):
            found.append(("assignment" if m[1][0] != "p" else "password", *span))
    if "bearer" in low or "authorization" in low:
        for m in regex(_AUTH).finditer(low):
            got = regex(r"[A-Za-z0-9._~+/:-]{8,4096}+={0,2}").match(text, m.end())
            if got and _credential(got[0], basic="basic" in m[0]):
                found.append(("authorization", got.start(), got.end()))


def _judge(text: str, name: "re.Match[str]", got: "re.Match[str]") -> tuple[int, int] | None:
    quoted, word = got["quoted"] is not None, name[1].startswith("p")
    group = "quoted" if quoted else "bare"
    start, end = got.span(group)
    if not quoted:
        # brackets and full stops that close the sentence around it are not part of the value
        end = start + len(got[group].rstrip(".:)]}>!?&\\" if not word else ".:)]}>&\\"))
        if text[end : end + 1] in ("(", "["):
            return None
    value = text[start:end]
    # most names are followed by a plain word: no test below would take one this short
    if (len(value) < 16 and value.rstrip("=").isalpha()) or (quoted and (" " in value or "\t" in value)):
        return None
    prose = name["prose"] is not None
    if prose and not quoted and name["prose"].strip(" \t\"'`") == "" and not _flagged(text, name.start()):
        return None  # `the token abc`: only an option (`--token abc`) or netrc has no sign between
    named_so = "secret" in name[0] or "aws" in text[max(0, name.start() - 8) : name.start()].lower()
    if named_so and aws_secret(value):
        return start, end
    if random_looking(value, hashes=name[1] not in ("token", "credential") and not prose):
        return start, end
    if word:
        if prose and not quoted and not any(c in "!@#$%^&*?" for c in value):
            return (start, end) if _spoken(name, value) else None
        # `password=x1` of an environment, or `password: x1` at the end of a line: a literal more likely than a variable
        tight = text[name.end() - 1] == "=" and text[name.end() - 2] not in " =!<>:"
        tight = tight or (":" in name[0] and text[got.end() : got.end() + 1] in ("", "\n"))
        if password_like(value, quoted, tight):
            return start, end
    elif "secret" in name[0] and quoted and len(value) >= 10 and password_like(value, True, True) and mixing(value) >= 0.3:
        return start, end
    return None


def _spoken(name: "re.Match[str]", value: str) -> bool:
    """`the password is hunter2`: a word that ends in digits and names no algorithm, version or place in a list."""
    said = regex(r"(?:passw(?:or)?d|passphrase|passcode)[ \t]{1,4}is[ \t:]{1,4}").fullmatch(name[0])
    if said is None or not regex(r"[A-Za-z]{3,24}\d{1,8}").fullmatch(value) or stand_in(value):
        return False
    return not _CODE.match(value) and not _FORMATS.match(value) and value.rstrip("0123456789").lower() not in _WEAK


def logins(text: str, found: list[tuple[str, int, int]]) -> None:
    """`login admin / Tr0ub4dor&3`: a name, a slash between blanks, and what mixes letters, digits and signs."""
    for m in regex(r"\b(?:login|logon|creds|credentials)\b[ \t:]{1,4}(?:(?:is|are)[ \t]{1,4})?[\w.@+-]{2,64} / ([^\s\"'`/,;()<>\[\]{}]{8,64})", re.IGNORECASE).finditer(text):
        value = m[1].rstrip(".:?!") if len(m[1].rstrip(".:?!")) >= 8 else m[1]
        if any(c in "!@#$%^&*+~" for c in value[1:]) and any(c.isdigit() for c in value) and any(c.isalpha() for c in value) and password_like(value, False, False):
            found.append(("password", m.start(1), m.start(1) + len(value)))


# What is said about passwords, not in one: a label, a rule, the name of a field or of a secret.
_ABOUT = frozenset(
    "account api app argument array auth authentication bad base blank bytes cannot case change char character characters check click client cluster code config confirm confirmation "  # noqa: SIM905
    "connection contain contains create creds credential credentials current data database decrypt default different digits email empty encrypted encryption enter env error expected "
    "expired failed field file fields forgot format form hash hashed hint incorrect input invalid key keys label last least length less letters limit link longer long longest match matches "
    "max maximum min minimum missing mode must name need needed needs never new number object old optional option pass passphrase password passwords path phrase please plain policy "
    "print prompt provided reading recovery reenter repeat require required requires reset retype rotation rule same save secrets security sensitive server service set short shorter show "
    "shown simple something special specified stored strength strong text too type unknown unset update upper uppercase use used user username users using valid validation value values variable "
    "vault verify want weak word words write wrong".split()
)


def phrases(text: str, low: str, found: list[tuple[str, int, int]]) -> None:
    """`the passphrase is "orbit velvet candle harbor"`: four plain words and more, without any that make a sentence, in quotes or joined by hyphens.

    Bare words are prose: `the password is stored hashed using bcrypt` has the same form.
    """
    from gitmem.core.text import STOP_WORDS

    between = r"(?:passwords?|passphrases?|passcodes?)[\"'`]?(?:[ \t]{1,4}(?:is|was)[ \t:]{1,4}|[ \t]{0,4}(?::=|=>|[:=])[ \t]{0,4})"
    value = r"(?:\\?([\"'`])(?P<a>(?:[a-z]{3,12}[ -]){3,9}[a-z]{3,12})\\?\1|(?P<b>(?:[a-z]{3,12}-){3,9}[a-z]{3,12})(?![\w/:@(\[-]|\.\w))"
    for m in regex(between + value).finditer(low):
        group = "a" if m["a"] else "b"
        words = m[group].replace("-", " ").split()
        # in its own letters: a title is no phrase of this kind
        if len(set(words)) == len(words) and text[m.start(group) : m.end(group)] == m[group] and not (STOP_WORDS | _ABOUT | _WEAK).intersection(words) and not stand_in(m[group]):
            found.append(("password", *m.span(group)))


def _flagged(text: str, at: int) -> bool:
    before = text[max(0, at - 40) : at]
    return regex(r"(?:--?[\w-]{0,30}|\blogin\s+\S{1,30}\s+)$").search(before) is not None


def _credential(value: str, basic: bool) -> bool:
    if basic and not stand_in(value):
        try:
            return b":" in binascii.a2b_base64(value + "=" * (-len(value) % 4), strict_mode=True)
        except (binascii.Error, ValueError):
            pass
    return random_looking(value)
