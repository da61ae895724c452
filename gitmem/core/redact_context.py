"""Finds the secrets that are known only by what stands around them.

Owns the finders for key blocks, URLs, Authorization and Cookie headers, `password = ...` and what
is said of passwords in a sentence; `redact_values` judges the values, `redact_forms` has the
commands and the markup. Loaded only when a text holds a telling word.
"""

from gitmem.core.redact_rules import regex
from gitmem.core.redact_values import (
    _WEAK,
    ABOUT,
    aws_secret,
    chosen,
    encoded,
    given,
    identifier,
    mixing,
    password_like,
    random_looking,
    spoken,
    stand_in,
    weak,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

    Found = list[tuple[str, int, int]]


def read(text: str, low: str, telling: bool, found: "Found") -> None:
    """`telling`: the text holds a word that tells of secrets."""
    if "---BEGIN" in text or "--- BEGIN" in text:
        key_blocks(text, found)
    if "://" in text and "@" in text:
        urls(text, found)
    if telling:
        named(text, low, found)
        if "bearer" in low or "authorization" in low:
            headers(text, low, found)
        if "passphrase" in low or "password" in low or "passcode" in low:
            phrases(text, low, found)
        if "|" in text and "pass" in low:
            tables(text, found)
    if "cookie" in low:
        cookies(text, low, found)
    if "login" in low or "cred" in low or "logon" in low:
        logins(text, found)


_HEADER = r"---- ?-?BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)? ?-?----"


def key_blocks(text: str, found: "Found") -> None:
    """A header alone is prose about keys; with 20 characters of base64 behind it, it is a key.

    Line breaks may be spaces, `\\n` of JSON, or gone.
    """
    at = 0
    header, inside = regex(_HEADER), regex(r"(?:[^-]|-(?!----))*+")
    while begin := header.search(text, at):
        body = inside.match(text, begin.end())
        at = body.end() if body else begin.end()
        runs = list(regex(r"[A-Za-z0-9+/]{20,}={0,2}").finditer(text, begin.end(), at))
        if not runs:
            continue
        close = regex(r"-----END [A-Z0-9 ]{0,60}-----").match(text, at)
        if not close:  # cut off: up to the last line of base64, the shorter one included
            close = regex(r"(?:(?:\s|\\n)*[A-Za-z0-9+/]+={1,2})?").match(text, runs[-1].end())
        found.append(("private-key", begin.start(), close.end() if close else at))


def urls(text: str, found: "Found") -> None:
    pattern = r"://([^\s/:@\"'<>`]{0,255})(?::([^\s/@\"'<>`]{3,255}))?@([\w.-]{0,100})"
    for m in regex(pattern).finditer(text):
        user, password, host = m[1], m[2], m[3].lower()
        if password is None:
            # the user of a Sentry address is public: it stands in every page that reports errors
            if random_looking(user) and not regex(r"(?:.*\.)?sentry\.io$").match(host):
                found.append(("url-credentials", m.start(1), m.end(1)))
        elif user.lower() != password.lower() and (
            password_like(password, quoted=True, tight=True)
            or random_looking(password)
            or identifier(password)
            # a plain word counts where the host is a real one
            or (len(password) > 5 and password.isalpha() and _real(password, host))
        ):
            found.append(("url-credentials", m.start(2), m.end(2)))


def _real(password: str, host: str) -> bool:
    unreal = regex(
        r"localhost\b|127\.|0\.0\.0\.0|"
        r"(?:my)?(?:host|hostname|server|domain|company)\.(?:com|org|net)$|"
        r"(?:.*\.)?example\.|.*\.(?:test|invalid|local|example)$|[^.]*$"
    )
    return not stand_in(password) and password.lower() not in _WEAK and not unreal.match(host)


# ---- values with a telling name ----------------------------------------------------------------

# one group, each alternative opening with a letter: `re` then skips ahead by a set of first
# letters (3 times faster)
_NAME = (
    r"(passw(?:or)?[dt]|passphrase|passcode|pass(?<!compass)(?<!bypass)(?<!surpass)(?<!trespass)"
    r"(?=[\"'`\])]{0,3}[ \t]{0,4}[:=])|pwd|"
    r"pswd|pw(?<![a-z0-9]pw)(?=[\"'`\])]{0,3}[ \t]{0,4}[:=])|token|credential|"
    r"mot de passe|secret|key|_auth\b|auth(?<=[\"']auth)(?=[\"']))"
)
# `key` alone is a dictionary's; tested behind the match: one `key` is found faster than thirty
# words
_KEY_OF = (
    r"(?:api|access|account|private|auth|sign|signing|encrypt|encryption|crypt|master|service|"
    r"shared|license|deploy|storage|client|app|application|subscription|integration|preshared|psk|"
    r"consumer|session|admin|root|publish|webhook|functions|secret|project|server|write|"
    r"ingest|fastly)[ _.-]?$"
)
# the word for it in other languages: as telling as ours, and no prose
FOREIGN = (
    r"(contrase[ñn]a|kennwort|senha|wachtwoord|haslo|heslo|lösenord|hasło|парол[ья]|密码|密碼|"
    r"パスワード|비밀번호|şifre|jelszó)"
)
# quotes and brackets after the name; an annotation (`: str =`); or prose and command lines, held to
# more
_BETWEEN = (
    r"[\w-]{0,24}(?:(?:[ \t](?:for|of|on|at|in|d[aeou]s?|del|für|от|для)"
    r"(?:[ \t][\w.@/-]{1,30}){1,3}?)?"
    r"(?:\\?[\"'`\])]{0,3}[ \t]{0,8}(?::[ \t]{0,4}[a-z][\w.\[\]|,"
    r" ]{0,40}+=(?!=)|:=|=>|={1,3}|:|[→⇒➜]|"
    r"(?<=[ \t])->(?=[ \t]))"
    r"[ \t]{0,8}|[\"'`][ \t]{0,2},[ \t]{0,4}(?=[\"'`])|"
    r"(?P<prose>[\"'`]?[ \t]{1,4}(?:is|was|to|es|ist|lautet|est|è|é)"
    r"(?:[ \t]{1,4}|[ \t]{0,2}:[ \t]{0,4})|[ \t]{0,4}[是为為は는은][ \t]{0,4}(?=[!-~]{6})))|"
    r"(?P<blank>[ \t]{1,4}))"
)
# a bare value ends before `=` and `:`, else a run of `token=token=` would be judged once a link,
# each to its end
_VALUE = (
    r"(?:[>|][-+]?\n["
    r" \t]{1,16})?(?:(?P<quote>\\?(?:'{3}|\"{3}|[\"'`]))(?P<quoted>[^\n\"'`\\]{4,512})(?P=quote)|"
    r"(?P<bare>(?:base64:)?(?:[^\s\"'`,;&=:]|&(?!\w{1,40}=)){6,2048}+={0,2}))"
)
# behind a name, what names something else: `secret_id`, `token_hash`, `key_name`
_OTHER = (
    r"[_.-]?(?:id|ids|hash|sha\d*|name|type|version|ref|fingerprint|digest|path|file|arn|uri|url)"
    r"[\"'`\])]{0,3}\s*[:=]"
)


_SIGNS = tuple(":=>→⇒➜")
# "is", written without a space
_IS = tuple("是为為は는은")
_KEYS = ("token", "credential", "secret", "key", "_auth", "auth")


def named(text: str, low: str, found: "Found", names: str = _NAME) -> None:
    value, name = regex(_VALUE), regex(names + _BETWEEN)
    at = 0
    while m := name.search(low, at):
        # one name may hold another: `keyStorePassword`
        at = m.end(1)
        if m[1] == "key" and not _opens(text, low, m.start()):
            continue
        got = value.match(text, m.end())
        if got and (span := _judge(text, m, got)):
            at = max(at, span[1])
            found.append(("assignment" if m[1] in _KEYS else "password", *span))


def _opens(text: str, low: str, at: int) -> bool:
    """Does `key` name what opens something: `api_key`, `ELASTIC_CLOUD_KEY`, not `cache_key`?"""
    if regex(_KEY_OF).search(low, max(0, at - 16), at):
        return True
    shouted = text[at : at + 3] == "KEY" and text[at - 1 : at] == "_"
    public = regex(r"(?:public|cache|sort|primary|foreign|partition)_$")
    return shouted and not public.search(low, max(0, at - 16), at)


def _judge(text: str, name: "re.Match[str]", got: "re.Match[str]") -> tuple[int, int] | None:  # noqa: C901
    quoted = got["quoted"] is not None
    word = name[1] not in _KEYS
    group = "quoted" if quoted else "bare"
    start, end = got.span(group)
    if not quoted:
        # brackets and full stops that close the sentence around it are not part of the value
        end = start + len(got[group].rstrip(".:)]}>!?&\\" if not word else ".:)]}>&\\"))
        if text[end : end + 1] in ("(", "["):
            return None
    if not name[1].isascii() and (run := regex(r"[!-~]{6,}+(?=[^!-~])").match(text, start, end)):
        end = run.end()  # `密码是X的`: letters of that script go on behind it
    value = text[start:end]
    # `password=x1` of an environment, or `password: x1` and `password = x1` at the end of a
    # line: a literal more likely than a variable
    tight = text[name.end() - 1] == "=" and text[name.end() - 2] not in " =!<>:"
    sign = name[0].rstrip()[-1:]
    tight = tight or (sign in _SIGNS and text[got.end() : got.end() + 1] in ("", "\n"))
    if word and (quoted or tight) and _setting(text, name, value):
        return start, end
    # most names are followed by a plain word: no test below would take one this short
    short = len(value) < 16 and value.rstrip("=").isalpha() and not value.endswith("=")
    if short or (quoted and (" " in value or "\t" in value)):
        return None
    prose = name["prose"] is not None or name["blank"] is not None
    said = name["prose"] is not None or sign in _IS
    if not said and name["blank"] is not None and not quoted and not _flagged(text, name.start()):
        # `the token abc`: only an option (`--token abc`) or netrc has no sign between
        return (start, end) if _unmistakable(name[1], value) else None
    named_so = "secret" in name[0] or "aws" in text[max(0, name.start() - 8) : name.start()].lower()
    if value.startswith("Ag") and "encryptedData" in text:  # a SealedSecret, made to be public
        return None
    if named_so and aws_secret(value):
        return start, end
    said = said or (not prose and _telling(text, name, quoted))
    if identifier(value) and said and not _other(name):
        return start, end
    if name[1] in ("_auth", "auth") and ":" in encoded(value):
        return start, end
    if random_looking(value, hashes=name[1] not in ("token", "credential") and not prose):
        return start, end
    if word:
        if (value.endswith("=") or len(value) >= 12) and given(encoded(value)):
            return start, end
        if prose and not quoted and not any(c in "!@#$%^&*?" for c in value):
            return (start, end) if spoken(value) else None
        if password_like(value, quoted, tight):
            return start, end
    elif (
        "secret" in name[0] and quoted and len(value) >= 10
        and password_like(value, True, True) and mixing(value) >= 0.3
    ):  # fmt: skip
        return start, end
    return None


def _setting(text: str, name: "re.Match[str]", value: str) -> bool:
    """`EMAIL_HOST_PASSWORD="wonderland"`: behind a name in capitals a plain word counts as well."""
    start, end = name.span(1)
    return (
        text[start:end].isupper()
        and regex(r"[\"'`\])]{0,2}[ \t]{0,4}[:=]").match(text, end) is not None
        and chosen(value)
        # `GRAFANA_PASSWORD=grafana`, `DB_USER=odoo DB_PASSWORD=odoo`: everybody's examples
        and value.lower() not in text[max(0, start - 40) : start].lower()
    )


def _other(name: "re.Match[str]") -> bool:
    return regex(_OTHER).search(name[0]) is not None


def _telling(text: str, name: "re.Match[str]", quoted: bool) -> bool:
    """May a UUID or a hash behind this name be its secret? `token: 3f78...` in prose is none."""
    if name[1] not in ("token", "credential"):
        return True
    before = text[max(0, name.start() - 1) : name.start()]
    return quoted or "=" in name[0] or before.isalnum() or before in ("_", "-")


def _unmistakable(name: str, value: str) -> bool:
    """`use token X`, with nothing between: X mixes as only a key does."""
    if name not in _KEYS:  # `and password Tr0ub4dor&3`
        return password_like(value, False, False) and not value.isalnum() and spoken(value)
    if len(value) < 20 or not value.isalnum() or not random_looking(value, False):
        return False
    return mixing(value) >= 0.25 and any(c.isupper() for c in value) and not value.isupper()


def _flagged(text: str, at: int) -> bool:
    before = text[max(0, at - 40) : at]
    return regex(r"(?:--?[\w-]{0,30}|\blogin\s+\S{1,30}\s+)$").search(before) is not None


def logins(text: str, found: "Found") -> None:
    """`login admin / Tr0ub4dor&3`: a name, a slash or colon, and letters, digits and signs."""
    pattern = (
        r"(?i)\b(?:login|logon|creds|credentials)\b[ \t:]{1,4}(?:(?:is|are|with)[ \t]{1,4})?"
        r"[\w.@+-]{2,64}(?: / |[/:])([^\s\"'`/,;()<>\[\]{}]{8,64})"
    )
    for m in regex(pattern).finditer(text):
        value = m[1].rstrip(".:?!") if len(m[1].rstrip(".:?!")) >= 8 else m[1]
        mixed = any(c in "!@#$%^&*+~" for c in value[1:]) and any(c.isdigit() for c in value)
        if mixed and any(c.isalpha() for c in value) and password_like(value, False, False):
            found.append(("password", m.start(1), m.start(1) + len(value)))


def phrases(text: str, low: str, found: "Found") -> None:
    """`the passphrase is "orbit velvet candle harbor"`: four plain words and more, none of which
    makes a sentence, in quotes or joined by hyphens.

    Bare words are prose: `the password is stored hashed using bcrypt` has the same form.
    """
    from gitmem.core.text import STOP_WORDS

    between = (
        r"(?:passwords?|passphrases?|passcodes?)[\"'`]?"
        r"(?:[ \t]{1,4}(?:is|was)[ \t:]{1,4}|[ \t]{0,4}(?::=|[=-]>|[:=→⇒➜])[ \t]{0,4})"
    )
    value = (
        r"(?:\\?([\"'`])(?P<a>(?:[a-z]{3,12}[ -]){3,9}[a-z]{3,12})\\?\1|"
        r"(?P<b>(?:[a-z]{3,12}-){3,9}[a-z]{3,12})(?![\w/:@(\[-]|\.\w))"
    )
    for m in regex(between + value).finditer(low):
        group = "a" if m["a"] else "b"
        words = m[group].replace("-", " ").split()
        if len(set(words)) != len(words) or (STOP_WORDS | ABOUT).intersection(words):
            continue
        # in its own letters: a title is no phrase of this kind
        if text[m.start(group) : m.end(group)] == m[group] and not stand_in(m[group]):
            found.append(("password", *m.span(group)))


def tables(text: str, found: "Found") -> None:
    """The cells of a table that tells of passwords: letters, digits and signs in one word."""
    for table in regex(r"(?m)(?:^[ \t]{0,20}+\|[^\n]*+(?:\n|\Z))++").finditer(text):
        if regex(r"(?i)\|[^|\n]{0,60}(?:passw|passphrase|pwd)").search(table[0]):
            for cell in regex(r"\|[ \t`*]*+([^\s|`*]{6,64})(?=[ \t`*]*+\|)").finditer(table[0]):
                if _unmistakable("password", cell[1]):
                    at = table.start() + cell.start(1)
                    found.append(("password", at, at + len(cell[1])))


# ---- headers -----------------------------------------------------------------------------------

_AUTH = (
    r"(?:authorization|bearer|basic)[\"']?[ \t]{0,4}[:=]?[ \t]{0,4}[\"'`]?"
    r"(?:(?:bearer|basic|token|apikey)[ \t]{1,4})?"
)
# any scheme with its parameters: `AWS4-HMAC-SHA256 Credential=..., Signature=...`
_SCHEME = r"authorization[\"'`]?\]?[ \t]{0,4}[:=,][ \t]{0,4}[\"'`]?(?=\w)"
_COOKIE = r"\bcookie[\"'`]?\]?[ \t]{0,4}[:=][ \t]{0,4}[\"'`]?(?=[\w.%-]{1,64}=)"
_SESSION = r"(?i)(?:sess|sid$|auth|token|jwt|login|remember|csrf|xsrf|ticket|\.sid)"


def headers(text: str, low: str, found: "Found") -> None:
    for m in regex(_AUTH).finditer(low):
        got = regex(r"[A-Za-z0-9._~+/:-]{8,4096}+={0,2}").match(text, m.end())
        if (
            got
            and (
                random_looking(got[0])
                or ("basic" in m[0] and _basic(got[0]))
                # `Authorization: Token abcdef12345`
                or ("authorization" in m[0] and m[0][-1:] in " \t" and _short(got[0]))
            )
        ):
            found.append(("authorization", got.start(), got.end()))
    for m in regex(_SCHEME).finditer(low):
        line = regex(r"[^\n]{0,600}").match(text, m.end())
        for piece in regex(r"[A-Za-z0-9._~+/-]{16,512}+={0,2}").finditer(line[0] if line else ""):
            called = line is not None and line[0][piece.end() : piece.end() + 1] == "("
            if not called and (random_looking(piece[0].lstrip("/")) or identifier(piece[0])):
                found.append(("authorization", m.end() + piece.start(), m.end() + piece.end()))


def _short(value: str) -> bool:
    digits = sum(c.isdigit() for c in value)
    return digits > 2 and value.isalnum() and any(c.isalpha() for c in value) and given(value)


def _basic(value: str) -> bool:
    return not stand_in(value) and ":" in encoded(value + "=" * (-len(value) % 4))


def cookies(text: str, low: str, found: "Found") -> None:
    """The pairs of a `Cookie:` or `Set-Cookie:` that name a session, or whose value is random."""
    for m in regex(_COOKIE).finditer(low):
        line = regex(r"[^\n\"'`]{0,1000}").match(text, m.end())
        for pair in regex(r"([\w.%-]{1,64})=([^\s;,]{8,512})").finditer(line[0] if line else ""):
            session = regex(_SESSION).search(pair[1]) and len(pair[2]) >= 10
            sure = session and any(c.isdigit() for c in pair[2]) and not weak(pair[2])
            if (sure and given(pair[2])) or random_looking(pair[2]):
                found.append(("cookie", m.end() + pair.start(2), m.end() + pair.end(2)))
