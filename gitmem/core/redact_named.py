"""Finds values by the name before them: `password = ...`, `token: ...`, the data of a manifest.

`redact_values` judges the values. Loaded only when a text holds a telling word.
"""

from gitmem.core import redact_values as values
from gitmem.core.redact_places import NAME
from gitmem.core.redact_rules import regex

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

    from gitmem.core.redact_places import Found

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
    if named_so and values.aws_secret(value):
        return start, end
    said = said or (not prose and _telling(text, name, quoted))
    if values.identifier(value) and said and not regex(_OTHER).search(name[0]):
        return start, end
    if name[1] in ("_auth", "auth") and ":" in values.encoded(value):
        return start, end
    if values.random_looking(value, hashes=name[1] not in ("token", "credential") and not prose):
        return start, end
    if word:
        if (value.endswith("=") or len(value) >= 12) and values.given(values.encoded(value)):
            return start, end
        if prose and not quoted and not any(c in "!@#$%^&*?" for c in value):
            return (start, end) if values.spoken(value) else None
        if values.password_like(value, quoted, tight):
            return start, end
    elif (
        "secret" in name[0] and quoted and len(value) >= 10
        and values.password_like(value, True, True) and values.mixing(value) >= 0.3
    ):  # fmt: skip
        return start, end
    return None


def _setting(text: str, name: "re.Match[str]", value: str) -> bool:
    """`EMAIL_HOST_PASSWORD="wonderland"`: behind a name in capitals a plain word counts as well."""
    start, end = name.span(1)
    return (
        text[start:end].isupper()
        and regex(r"[\"'`\])]{0,2}[ \t]{0,4}[:=]").match(text, end) is not None
        and values.chosen(value)
        # `GRAFANA_PASSWORD=grafana`, `DB_USER=odoo DB_PASSWORD=odoo`: everybody's examples
        and value.lower() not in text[max(0, start - 40) : start].lower()
    )


def _telling(text: str, name: "re.Match[str]", quoted: bool) -> bool:
    """May a UUID or a hash behind this name be its secret? `token: 3f78...` in prose is none."""
    if name[1] not in ("token", "credential"):
        return True
    before = text[max(0, name.start() - 1) : name.start()]
    return quoted or "=" in name[0] or before.isalnum() or before in ("_", "-")


def _unmistakable(name: str, value: str) -> bool:
    """`use token X`, with nothing between: X mixes as only a key does."""
    if name not in _KEYS:  # `and password Tr0ub4dor&3`
        return values.signed(value)
    if len(value) < 20 or not value.isalnum() or not values.random_looking(value, False):
        return False
    return values.mixing(value) >= 0.25 and any(c.isupper() for c in value) and not value.isupper()


def _flagged(text: str, at: int) -> bool:
    before = text[max(0, at - 40) : at]
    return regex(r"(?:--?[\w-]{0,30}|\blogin\s+\S{1,30}\s+)$").search(before) is not None


def manifest(text: str, low: str, found: "Found") -> None:
    """The values of a Kubernetes Secret: all where its kind is in the text, else by their keys."""
    secret = "kind" in low and "secret" in low
    block = (
        r"(?m)^[ \t\"']{0,40}+(stringD|d)ata[\"']?:[ \t]*\{?[ \t]*\n"
        r"((?:[ \t]++[^\n]{1,4096}+(?:\n|$)){1,99}+)"
    )
    pair = r"(?m)^[ \t]++[\"']?([\w.-]{1,128})[\"']?:[ \t]*[\"']?([^\s\"',]{4,4096})[\"']?,?[ \t]*$"
    for m in regex(block).finditer(text):
        for got in regex(pair).finditer(m[2]):
            if not secret and not regex(f"(?i){NAME}").search(got[1]):
                continue
            value = got[2]
            if m[1] == "d":
                value, kept = values.encoded(value), values.key(value)
            else:
                kept = values.likely(value)
            if kept or (m[1] == "d" and values.given(value)):
                found.append(("password", m.start(2) + got.start(2), m.start(2) + got.end(2)))
