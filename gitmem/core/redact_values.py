"""Tells a secret's value from a placeholder: the tests that rows of `redact_places` name.

They prefer to miss a password that is a plain word over refusing prose and code: a gate that
refuses those is switched off. `given` is for places where only a password can stand (`mysql -pX`):
there a plain word counts. Loaded only when a row has found something, so its patterns compile on
import.
"""

import binascii
import re
from math import log2

_STAND_IN = re.compile(
    r"example|placeholder|change.?me(?!\d)|^my[-_ .]|(?:^|[^a-z])your[-_ .]|"
    r"your.?(?:token|key|secret|pass|api|uuid)|redacted|dummy|(?:^|[^a-z])fake|sample|"
    r"(?-i:xxxx|XXXX)|\*\*\*|\.\.\.|…|replace.?(?:me|with)|insert.?|not.?(?:a|the).?real|"
    # the UUIDs that everybody's documentation has
    r"550e8400-e29b|123e4567-e89b|01234567-?89ab|12345678-?1234|"
    r"\$\{|\$\(|\{\{|<[\w .:-]+>|%\(|0{12}|1{12}|a{12}",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"[$%]\w+%?$|[$%&<{\[(@*#\\|]|"
    r"(?:os|process|self|this|cls|config|settings|env|cfg|ctx|opts?|args|kwargs|options|req|"
    r"request|params|data|std|user|conf|vars?|secrets|local|module|each|node|ev?|event|props|"
    r"response|res|"
    r"result)(?:\.|\[|->|::)|!(?:Ref|Sub|GetAtt|vault)|"
    r"(?:sha|md|utf|aes|rsa|hmac|ed|base|latin|iso|ascii|hs|rs|es|oauth|str|int|uint|float|arg|"
    r"param|value|val|foo|bar|baz|qux)[-_]?\d*$",
    re.IGNORECASE,
)
_WEAK = frozenset(
    "password passwd passw pass passwort secret token key apikey test tests testing tester admin "
    "administrator root user username guest postgres mysql redis mongo rabbitmq tiger demo foo bar "
    "baz foobar abc abcdef abcd qwerty letmein none null nil true false undefined empty string pwd "
    "pw changeit default value hidden private public unknown p x xxx s e welcome login hello world "
    "mysecret mypassword minioadmin supersecret topsecret verysecret minio neo elastic sa dev prod "
    "local".split()
)
# What a password may be said to be that is none: how it is kept, encoded or asked for.
_FORMATS = re.compile(
    r"(?:argon|b?crypt|scrypt|pbkdf|blake|whirlpool|ripemd|crc|kdf|rot|gpg|x|ssl|tls|ldap|ntlm|krb|"
    r"kerberos|radius|smtp|imap|http|oauth|saml|otp|totp|hotp|fido|unicode|ucs|ebcdic|win|windows|"
    r"mac|rfc|step|page|line|field|item|option|column|level|version|ver|phase|type|part|section|"
    r"chapter|issue|ticket|bug|case|user|node|host|server|python|java|php|postgres|mysql|"
    r"\w+ed|\w+ing|must|min|max|minimum|maximum|exactly|only|about|over|under|reset|set|sent)"
    r"\d+$",
    re.IGNORECASE,
)
_PIECE = re.compile(r"[a-z]+|[A-Z][a-z]+|[A-Z]+|v?\d{1,4}")
_HEX = re.compile(r"(?:0x)?[0-9a-fA-F]+")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_DIGESTED = re.compile(r"(?:sha\d{1,3}|md5|blake\w{1,3})[-:]", re.IGNORECASE)
# the name of a secret, where its value is meant to stand: `-pMY_PASSWORD`, `-p yourPass`; not
# `secret` or `monkey`, which people choose, and nothing with a digit behind it
_PASS = "pass|password|passwd|passphrase|passcode|passwort|pwd|pw|token|apikey|user|username|name"
_NAMED = re.compile(
    rf"[A-Z][A-Z_]*|(?i:(?:my|your|the|new|old|db|user|admin|root|some)?(?:{_PASS})|"
    rf"(?=[a-z]*[_.-])(?:[a-z]*[_.-]+)*(?:{_PASS}|secret|key)(?:[_.-][a-z]*)*)|"
    r"[A-Za-z]?[a-z]+(?:[A-Z][a-z]+)*(?:Pass(?:word|wd|phrase)?|Pwd|Secret|Token|Key|User|Name)|"
    r"(?i:string|text|value|null|none|true|false|undefined|empty|required|optional|hidden)"
)


def stand_in(value: str) -> bool:
    """Is this a placeholder, a reference to a value, or a run of the same few characters?"""
    # a real token longer than 12 with fewer than 6 different characters is a one in a million
    return len(set(value)) < min(6, len(value) // 2 + 1) or _STAND_IN.search(value) is not None


def wordy(value: str) -> bool:
    """Words joined by separators, as in `sk-fading-circle-spinner`: an identifier, not a token."""
    pieces = re.split(r"[-_./:]+", value.strip("-_./:"))
    return (len(pieces) > 1 or value.islower()) and all(_PIECE.fullmatch(p) for p in pieces)


def mixing(value: str) -> float:
    """Changes between digits, small and capital letters for each neighbouring pair of them.

    Humps of camelCase do not count. Random base 62 gives about 0.5, hex 0.47, base 36 0.4,
    base 32 0.3; `gpt-4-turbo-2024` 0, `getUserTokenById2` 0.06.
    """
    kinds = "".join(
        "d" if c.isdigit() else "u" if c.isupper() else "l" if c.isalpha() else "-" for c in value
    )
    pairs = changes = 0
    for i in range(1, len(kinds)):
        a, b = kinds[i - 1], kinds[i]
        if a == "-" or b == "-":
            continue
        pairs += 1
        if a != b and a + b != "ul" and not (a + b == "lu" and kinds[i + 1 : i + 2] == "l"):
            changes += 1
    return changes / pairs if pairs else 0.0


def identifier(value: str) -> bool:
    """A UUID, or hex as long as a git object id or a digest: a secret only by its name."""
    if _UUID.fullmatch(value):
        return not stand_in(value)
    bare = value[2:] if value.startswith("0x") else value
    return len(bare) in (40, 64) and bool(_HEX.fullmatch(bare)) and not stand_in(bare)


def random_looking(value: str, hashes: bool = True) -> bool:
    """Long enough and mixed enough to be a key; `hashes=False` lets git object ids through."""
    if len(value) < 16 or stand_in(value) or _UUID.fullmatch(value):
        return False
    if _DIGESTED.match(value) or _CODE.match(value):
        return False
    if _HEX.fullmatch(value):
        listed = hashes or len(value) not in (40, 64)
        return listed and len(value) >= 24 and any(c.isalpha() for c in value[2:])
    if value.count("/") > 2 or value.startswith(("/", "./", "../", "~/")):
        return False
    head = value[:200]  # bounds the cost; a key shows its nature in its first 200 characters
    digits = sum(c.isdigit() for c in head)
    if digits < 2 and len(value) < 24:
        return False
    shares = [head.count(c) / len(head) for c in set(head)]
    entropy = -sum(share * log2(share) for share in shares)  # bits a character
    return mixing(head) >= (0.15 if digits >= 2 else 0.1) and entropy >= 3.0


def password_like(value: str, quoted: bool, tight: bool) -> bool:
    """Would a person have chosen this as a password, rather than named a variable?

    `tight` says that the value stood as `key=value` without spaces, or ended its line: there a
    bare word is a literal more often.
    """
    if len(value) < 6 or stand_in(value) or _CODE.match(value) or value.lower() in _WEAK:
        return False
    digits = sum(c.isdigit() for c in value)
    special = sum(c in "!@#$%^&*?+~" for c in value[1:])
    if not any(c.isalpha() for c in value) or _UUID.fullmatch(value):
        return False
    if re.fullmatch(r"[\w.+-]+@[\w-]+\.[\w.]+", value) or _DIGESTED.match(value):
        return False
    if wordy(value) and (digits == 0 or re.search(r"[-_./:]", value)):
        return joined(value)
    if quoted:
        return digits > 0 or special > 0
    if re.search(r"[()\[\]{}<>|]|::|->|//|^\.?/", value):
        return False
    if special and (digits or not value.islower()) and len(value) >= 8:
        return True
    if re.fullmatch(r"\w+", value):
        mixed = tight or mixing(value) >= 0.3
        return "_" not in value and digits > 0 and mixed
    return digits >= 2 and len(value) >= 10 and mixing(value) >= 0.2


def joined(value: str) -> bool:
    """`blaubeere-kuchen-77`: words and a number, none of which is about passwords."""
    return bool(re.fullmatch(r"[A-Za-z]{3,}(?:-[A-Za-z]{3,})+-\d{2,4}", value)) and chosen(value)


def given(value: str) -> bool:
    """Is this more than a placeholder, where only a secret can stand? Plain words count."""
    if len(value) < 4 or stand_in(value) or _CODE.match(value):
        return False
    if _NAMED.fullmatch(value) or value.startswith(("-", "/", "./", "../", "~/")):
        return False
    if value.isdigit():  # a port, a count; `123456` protects nothing
        return len(value) > 5 and value not in "01234567890123456789"
    return any(c.isalnum() for c in value)


def chosen(value: str) -> bool:
    """As `given`, where a word about passwords may stand as well: `setPassword("invalid")`."""
    words = re.findall(r"[a-z]{3,}", value.lower())
    return given(value) and "pass" not in value.lower() and ABOUT.isdisjoint(words)


def encoded(value: str) -> str:
    """What base64 holds, where that is printable ASCII of six characters and more; else ""."""
    if len(value) % 4 or len(value) < 8:
        return ""
    try:
        text = binascii.a2b_base64(value, strict_mode=True).decode("ascii").strip()
    except (binascii.Error, ValueError):
        return ""
    return text if len(text) >= 6 and text.isprintable() else ""


def key(value: str) -> bool:
    """A key by its shape alone: for places where nothing else is random."""
    return random_looking(value) or identifier(value) or ":" in encoded(value)


def likely(value: str) -> bool:
    """A key, or a password that a person would choose."""
    return password_like(value, True, True) or key(value)


def aws_secret(value: str) -> bool:
    """Forty characters of base64 that no hash and no path has."""
    if len(value) != 40 or stand_in(value) or _HEX.fullmatch(value):
        return False
    return (
        any(c.isupper() for c in value)
        and any(c.islower() for c in value)
        and any(not c.isalpha() for c in value)
    )


def spoken(value: str) -> bool:
    """Said to be a password (`it is hunter2`), and no algorithm, version or place in a list."""
    if stand_in(value) or _CODE.match(value) or _FORMATS.match(value):
        return False
    if not re.fullmatch(r"(?=[A-Za-z0-9])[\w.!@#$%^&*+~?-]{6,64}", value):
        return False
    first = re.split(r"[-_.]", value, maxsplit=1)[0]
    if first != value and (first.isdigit() or _CODE.match(first) or _FORMATS.match(first)):
        return False
    letters = any(c.isalpha() for c in value)
    named = wordy(value.replace(".", "-")) and not joined(value)
    return letters and any(c.isdigit() for c in value) and not named


def real(value: str) -> bool:
    return not stand_in(value)


def key_block(text: str) -> bool:
    """A header with a line of base64 behind it; alone it is prose about keys."""
    return re.search("[A-Za-z0-9+/]{20}", text) is not None


def line(value: str) -> bool:
    return password_like(value, False, True)


def hashed(value: str) -> bool:
    return random_looking(value) or identifier(value)


def plain_word(value: str) -> bool:
    return len(value) > 5 and value.isalpha() and not stand_in(value) and value.lower() not in _WEAK


def basic(value: str) -> bool:
    """`name:password` in base64."""
    return not stand_in(value) and ":" in encoded(value + "=" * (-len(value) % 4))


def short(value: str) -> bool:
    """`Authorization: Token abcdef12345`."""
    digits = sum(c.isdigit() for c in value)
    plain = len(value) > 7 and value.isalnum() and any(c.isalpha() for c in value)
    return plain and digits > 2 and given(value)


def session(value: str) -> bool:
    """A cookie's value behind a name that tells of a session."""
    weak = value.rstrip("0123456789!").lower() in _WEAK
    return any(c.isdigit() for c in value) and not weak and given(value)


def mixed(value: str) -> bool:
    """Letters, digits and signs: what a person writes behind `login NAME /`."""
    inside = value.rstrip(".:?!")[1:]  # an exclamation mark may be the sentence's
    kinds = any(c in "!@#$%^&*+~" for c in inside), any(c.isdigit() for c in value)
    return all(kinds) and any(c.isalpha() for c in value) and password_like(value, False, False)


def signed(value: str) -> bool:
    """A password by its signs, where any word may stand."""
    return password_like(value, False, False) and not value.isalnum() and spoken(value)


def phrase(value: str) -> bool:
    """`orbit velvet candle harbor`: words of which none makes a sentence or is about passwords."""
    words = value.replace("-", " ").split()
    return len(set(words)) == len(words) and letters(value) and not stand_in(value)


def letters(value: str) -> bool:
    from gitmem.core.text import STOP_WORDS

    return (STOP_WORDS | ABOUT).isdisjoint(value.replace("-", " ").split())


def mnemonic(value: str) -> bool:
    from gitmem.core.text import STOP_WORDS

    words = value.replace(",", " ").split()
    return len(set(words)) > 9 and len(STOP_WORDS.intersection(words)) < 3


ABOUT = _WEAK.union(
    """
    account api app argument array auth authentication bad base blank bytes cannot case change char
    character characters check click client cluster code config confirm confirmation connection
    contain contains create credential credentials creds current data database decrypt default
    different digits email empty encrypted encryption enter env error expected expired failed field
    fields file forgot form format hash hashed hint incorrect input invalid key keys label last
    least length less letters limit link long longer longest match matches max maximum min minimum
    missing mode must name need needed needs never new number object old option optional pass
    passphrase password passwords path phrase plain please policy print prompt provided reading
    recovery reenter repeat require required requires reset retype rotation rule same save secrets
    security sensitive server service set short shorter show shown simple something special
    specified stored strength strong text too type unknown unset update upper uppercase use used
    user username users using valid validation value values variable vault verify want weak word
    words write wrong
    """.split()
)
