"""Markup, manifests, pipes and files of one line that have a place for a secret: `<password>X<`.

Owns one table: substrings of which a text must hold one, a pattern whose last group that took part
is the value, and the test of that value. Loaded only when a text holds such a substring. The
substrings of PLAIN are looked for in every text, the others only in texts with a telling word.
"""

from gitmem.core.redact_commands import V, collect
from gitmem.core.redact_rules import regex
from gitmem.core.redact_values import (
    ABOUT,
    chosen,
    encoded,
    given,
    key,
    likely,
    password_like,
    stand_in,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitmem.core.redact_commands import Found, Test


def _any(value: str) -> bool:
    return not stand_in(value)


def _line(value: str) -> bool:
    return password_like(value, False, True)


def _words(value: str) -> bool:
    from gitmem.core.text import STOP_WORDS

    words = value.replace(",", " ").split()
    return len(set(words)) > 9 and len(STOP_WORDS.intersection(words)) < 3


def _letters(value: str) -> bool:
    from gitmem.core.text import STOP_WORDS

    return (STOP_WORDS | ABOUT).isdisjoint(value.replace("-", " ").split())


_NAME = (
    r"(?:password|passwd|passphrase|pwd|secret|token|api[_.-]?key|access[_.-]?key|private[_.-]?key)"
)
_FOURS = r"(?<![\w-])((?:[a-z]{4}[ \xa0-]){3}[a-z]{4})(?![\w-])"
_TAG = r"(?:\s[^<>]{0,120})?>\s{0,40}"
_Q = r"[\"']?"
# behind a pipe, what reads a password from it
_READER = (
    r"(?:sudo\b[^\n|]{0,60}?\s-\w{0,4}S|(?:sudo\s+)?(?:chpasswd|vncpasswd|kinit|cryptsetup|"
    r"smbpasswd|passwd|su)\b|\w+\s[^\n|]{0,120}?--(?:password-stdin|with-token|passphrase-fd))"
)

FORMS: tuple[tuple[tuple[str, ...], str, "Test"], ...] = (
    (("|",),
     rf"\b(?:echo|printf)\s+(?:-\w+\s+){{0,2}}(?:{_Q}%s\S{{0,8}}\s+)?{V}\s*\|\s*{_READER}", given),
    (("<<<",), rf"\b(?:sudo|cryptsetup|docker|gpg|kinit|(?:ch|smb|vnc)?passwd)\b[^\n|<]{{0,120}}<<<\s*{V}", given),  # noqa: E501
    (("securestring",),
     rf"(?i)convertto-securestring\s+(?:-(?:string|asplaintext|force)\s+){{0,3}}{V}", given),
    (("credential", "basicauth", ".login(", "auth=(", "auth = (", ".auth("),
     r"(?i)(?:networkcredential|pscredential|basicauth|\.login|\.auth|auth ?= ?)(?:\]::new)?\(\s*"
     r"[\"'][^\"'\n]{1,64}[\"']\s*,\s*[\"']([^\"'\n]{4,128})[\"']", likely),
    (("assword",),
     r"assword[^\n]{0,60}\n?[^\n]{0,20}send(?:line\(|\s+(?:--\s+)?)"
     r"[\"']([^\"'\n]{4,64}?)(?:\\[rn])?[\"']", given),
    (("send ",), r"\bsend\s+(?:--\s+)?\"([^\"\s]{4,64})\\[rn]\"", likely),
    (("password(",), r"(?i)\bpassword\(\s*['\"]([^'\"\n]{4,64})['\"]", likely),
    (("password(", "passphrase("),
     r"(?i)\bset_?\w{0,30}pass(?:word|phrase)\(\s*\\?['\"]([^'\"\s\\]{4,64})\\?['\"]", chosen),
    (("@tcp(", "@unix("),
     r"(?<![\w.-])[\w.-]{1,64}+:([^\s:@\"'`]{3,128})@(?:tcp|unix)\(", chosen),
    # the configuration of a Cisco router: 0 stands before plain text, 7 before what can be undone
    (("secret 0 ", "secret 7 ", "password 0 ", "password 7 "),
     r"(?i)\b(?:enable|username\s+\S{1,64}(?:\s+privilege\s+\d+)?)\s+"
     rf"(?:secret|password)\s+[07]\s+{V}", given),
    # what Google makes, four times four letters
    (("app password", "app-password", "specific password"),
     rf"\b(?i:app(?:-specific)?[ -]password)s?\b[\s\S]{{0,40}}?{_FOURS}", _letters),
    (("app password", "app-password"), rf"{_FOURS}[\s\S]{{0,20}}?\b(?i:app[ -]password)", _letters),
    (("-pass", "pass "), rf"\s--?[\w.-]{{0,30}}pass[= ]{V}", likely),
    (("env ", "arg "),
     r"(?mi)^[ \t]{0,40}+(?:env|arg)[ \t]{1,8}\w{0,40}(?:pass|password|pwd|secret|token|key)\s+"
     rf"{V}", likely),
    (("sonar.login",), rf"sonar\.login{_Q}\s*[:=]\s*{_Q}(\w{{40,50}})", _any),
    # markup and manifests
    (("</",), r"(?i)<(?:[\w-]{1,30}:)?[\w.-]{0,40}(?:passw(?:or)?d|passphrase|pwd)[\w.-]{0,20}"
     rf"{_TAG}([^<>\s]{{4,256}})\s{{0,40}}</", given),
    (("</",), rf"(?i)<(?:[\w-]{{1,30}}:)?[\w.-]{{0,40}}{_NAME}[\w.-]{{0,20}}"
     rf"{_TAG}([^<>\s]{{8,2048}})\s{{0,40}}</", likely),
    (("<string>", "\">", "'>"), rf"(?i){_NAME}[\w.-]{{0,20}}(?:</key>\s{{0,40}}<string>|[\"']>)"
     r"([^<>\s]{4,256})<", likely),
    (("value",),
     rf"(?i)(?:name|key){_Q}\s{{0,4}}[:=]\s{{0,4}}{_Q}[\w.:-]{{0,40}}{_NAME}[\w.-]{{0,20}}{_Q}"
     rf"\s{{0,4}},?\s{{0,40}}(?<=[\s,]){_Q}value{_Q}\s{{0,4}}[:=]\s{{0,4}}"
     r"(?:\"([^\"\n]{4,256})\"|'([^'\n]{4,256})'|([^\s\"'`,}<>]{4,256}))", likely),
    (("client-key-data",), rf"client-key-data{_Q}\s*:\s*{_Q}([A-Za-z0-9+/]{{40,}}={{0,2}})", _any),
    (("private-lines",), r"(?i)private-lines:\s*\d+\s+([A-Za-z0-9+/]{12,}={0,2})", _any),
    (("\"kty\"",), r"\"[dk]\"\s*:\s*\"([\w-]{22,})\"", _any),
    # files of one line each
    (("pgpass", ":5432:", ":*:"),
     r"(?m)(?:^|[\s\"'`])[\w.*-]{1,100}:(?:\d{4,5}|\*):[\w*-]{1,63}:[A-Za-z*][\w.@-]{0,63}:"
     r"([^\s:\"'`]{4,128})(?=[\"'`]?(?:\s|$))", given),
    (("machine", "default login"), r"\b(?:machine\s+\S{1,200}|default)\s+login\s+\S{1,80}\s+"
     r"(?:account\s+\S{1,80}\s+)?password\s+([^\s\"'`]{4,128})", given),
    (("password ", "passwd ", "requirepass", "masterauth"),
     r"(?mi)^[ \t]{0,40}+(?:password|passwd|requirepass|masterauth)[ \t]+(?:[07][ \t]+)?"
     r"[\"']?([^\s\"'=:]{6,128})[\"']?[ \t]*$", _line),
    (("identified by", "psk"), r"(?i)(?:identified\s+by|\bpsk\s?=)\s*(?:password\s*)?"
     r"(?:'([^'\n]{3,64})'|\"([^\"\n]{3,64})\")", given),
    (("pwd", "password"), r"(?i)\b(?:user ?id|uid|username|user|server|data source|host|database)"
     r"\s{0,3}=[^;\n\"']{1,100};(?:[^;\n\"'=]{1,40}=[^;\n\"'=]{0,100};){0,8}\s{0,3}"
     r"(?:pwd|password)\s{0,3}=\s{0,3}([^;\"'\s]{4,128})", given),
    (("otpauth://",), r"otpauth://[^\s]{0,200}[?&]secret=([A-Z2-7a-z]{16,})", _any),
    # keys of wallets
    (("priv",), r"(?i)priv(?:ate)?[ _-]?key\b[^\n]{0,24}?(?<![0-9a-f])((?:0x)?[0-9a-f]{64})"
     r"(?![0-9a-f])", _any),
    (("priv",), r"(?i)\b(0x[0-9a-f]{64})(?![0-9a-f])[^\n]{0,24}?\bpriv(?:ate)?[ _-]?key\b", _any),
    (("mnemonic", "phrase"),
     r"(?:mnemonic|phrase|seed|words)\b[\"'`]?(?:\s+(?:is|was))?\s{0,4}[:=]?\s{0,4}[\"'`]?"
     r"((?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})\b", _words),
)  # fmt: skip

# by their marks; those with `pass` in the mark are looked for where the text has it
_passing: dict[str, list[int]] = {}
_others: dict[str, list[int]] = {}
for _row, _form in enumerate(FORMS):
    for _mark in _form[0]:
        (_passing if "pass" in _mark else _others).setdefault(_mark, []).append(_row)


def read(text: str, low: str, found: "Found") -> None:
    rows = [row for mark, rows in _others.items() if mark in low for row in rows]
    if "pass" in low:
        rows += [row for mark, rows in _passing.items() if mark in low for row in rows]
    for row in set(rows):
        collect(FORMS[row][1], text, 0, FORMS[row][2], found)
    if "data:" in low or 'data":' in low or "data':" in low:
        _manifest(text, "kind" in low and "secret" in low, found)


def _manifest(text: str, secret: bool, found: "Found") -> None:
    """The values of a Kubernetes Secret: all where its kind is in the text, else by their keys."""
    block = (
        r"(?m)^[ \t\"']{0,40}+(stringD|d)ata[\"']?:[ \t]*\{?[ \t]*\n"
        r"((?:[ \t]++[^\n]{1,4096}+(?:\n|$)){1,99}+)"
    )
    pair = r"(?m)^[ \t]++[\"']?([\w.-]{1,128})[\"']?:[ \t]*[\"']?([^\s\"',]{4,4096})[\"']?,?[ \t]*$"
    for m in regex(block).finditer(text):
        for got in regex(pair).finditer(m[2]):
            if not secret and not regex(f"(?i){_NAME}").search(got[1]):
                continue
            value = got[2]
            if m[1] == "d":
                value, kept = encoded(value), key(value)
            else:
                kept = likely(value)
            if kept or (m[1] == "d" and given(value)):
                found.append(("password", m.start(2) + got.start(2), m.start(2) + got.end(2)))
