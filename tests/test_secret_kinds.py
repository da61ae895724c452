"""Kinds of secrets that are known by what stands around them, and the innocent texts beside each.

A template has marks where the values go: `{P}` a password that a person chose, `{W}` a plain word
as a password, `{U}` a UUID, `{K}` a random key, `{H32}` and so on hexadecimal digits. The values
are made at run time: a scanner that reads this file finds none.
"""

import base64
import pathlib
import random
import time

import pytest

from gitmem.core import redact

DATA = pathlib.Path(__file__).parent / "data" / "secrets"
PASSWORDS = ["Tr0ub" + "4dor&3", "hunt" + "er2hunt" + "er2", "S0mm" + "er-2024!", "kX9m" + "Q2vLp8"]
WORD = "wonder" + "land"
ALNUM = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
BASE58 = ALNUM.translate({ord(c): None for c in "0OIl"})


def fill(template: str, seed: int) -> str:
    rng = random.Random(f"{template}{seed}")

    def pick(letters: str, size: int) -> str:
        return "".join(rng.choices(letters, k=size))

    hexed = "0123456789abcdef"
    password = PASSWORDS[seed % len(PASSWORDS)]
    marks = {
        "{P}": password,
        "{W}": WORD,
        "{B}": base64.b64encode(password.encode()).decode(),
        "{BASIC}": base64.b64encode(f"deploy:{password}".encode()).decode(),
        "{U}": "-".join(pick(hexed, n) for n in (8, 4, 4, 4, 12)),
        "{K}": pick(ALNUM, 24),
        "{K40}": pick(ALNUM, 20) + "7" + pick(ALNUM, 19),
        "{K64}": pick(ALNUM, 64),
        "{H32}": pick(hexed, 31) + "a",
        "{H40}": pick(hexed, 39) + "b",
        "{H64}": pick(hexed, 63) + "c",
        "{PEM}": (
            base64.b64encode(b"-----BEGIN RSA " + b"PRIVATE KEY-----" + rng.randbytes(90)).decode()
        ),
        "{B58_49}": pick(BASE58, 49),
        "{B58_51}": pick(BASE58, 51),
        "{B64_44}": base64.b64encode(rng.randbytes(32)).decode(),
        "{S53}": pick("./" + ALNUM, 53),
        "{S86}": pick("./" + ALNUM, 86),
        "{S22}": pick("./" + ALNUM, 22),
        "{B32}": pick("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 32),
    }
    for mark, value in marks.items():
        template = template.replace(mark, value)
    return template


def kinds(name: str) -> list[str]:
    """The templates of a file in `data/secrets`, one a line; a line that begins with a blank goes
    on.
    """
    lines: list[str] = []
    for line in (DATA / f"{name}.txt").read_text(encoding="utf-8").strip("\n").split("\n"):
        if line.startswith((" ", "</password")) or (lines and lines[-1] == "<password>"):
            lines[-1] += "\n" + line
        else:
            lines.append(line)
    return [line.replace("⏎", "\n").replace("{{", "{").replace("}}", "}") for line in lines]


# words that people choose where only a password can stand (`only`)
CHOSEN = [
    "password" + "1",
    "let" + "mein",
    "changeme" + "123",
    "sec" + "ret",
    "qwe" + "rty",
    "mon" + "key",
]


KINDS = [k for name in ("commands", "named", "markup", "more") for k in kinds(name)]


def places(text: str) -> list[str]:
    """The same in a note: alone, in a sentence, in a fence, in a list."""
    return [
        text,
        f"Staging was down again, this helped:\n\n{text}\n\nAsk Ann before the next one.",
        f"```sh\n{text}\n```",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_kind_is_refused_wherever_it_stands(kind: str) -> None:
    for seed in range(4):
        for text in places(fill(kind, seed)):
            found = redact.find(text)
            assert found, text
            assert redact.find(redact.mask(text, found)) == [], text


@pytest.mark.parametrize("word", CHOSEN)
def test_a_common_word_is_refused_where_only_a_password_can_stand(word: str) -> None:
    for kind in kinds("only"):
        for text in places(kind.replace("{X}", word)):
            found = redact.find(text)
            assert found, text
            assert redact.find(redact.mask(text, found)) == [], text


@pytest.mark.parametrize("name", ["<password>", "$X", "${X}", "***", "xxxx", "password", "pass", "PASSWORD", "your-password",  # noqa: E501
                                  "yourpassword", "my_secret_key", "dbPassword", "MY_PASS", "changeme", "{{ pw }}"])  # fmt: skip  # noqa: E501
def test_a_placeholder_passes_where_only_a_password_can_stand(name: str) -> None:
    for kind in kinds("only"):
        assert redact.find(kind.replace("{X}", name)) == [], kind


@pytest.mark.parametrize(
    "form",
    ["password = {X}", "password={X}", "password: {X}", 'password = "{X}"', "PGPASSWORD={X} psql"],
)
def test_a_word_with_digits_is_a_password_by_its_name(form: str) -> None:
    for word in (
        "password" + "1",
        "letmein" + "1",
        "changeme" + "123",
        "admin" + "123",
        "secret" + "12",
    ):
        assert redact.find(form.replace("{X}", word)), word
    for word in ("password", "changeme", "letmein", "secret"):
        assert redact.find(form.replace("{X}", word)) == [], word


@pytest.mark.parametrize("text", kinds("innocent"))
def test_what_stands_where_a_secret_might_is_let_through(text: str) -> None:
    for seed in range(3):
        assert redact.find(fill(text, seed)) == [], fill(text, seed)


# one unit of what each new pattern opens with, and of what it repeats
BAITS = [
    "mysql ", "mysql -p", "mysql -u a -p'", "docker login -p ", "sshpass -p", "7z -p", "curl -u a:", "net use /user:a ",  # noqa: E501
    "sqlplus a/", "aws configure set secret ", "kubectl secret --from-literal=a=", "echo a | ", "echo '", "printf \"%s",  # noqa: E501
    "echo a | sudo ", "sudo <<< ", "sudo <<<", "convertto-securestring -force ", "networkcredential('a', '", "password send \"",  # noqa: E501
    "password('", " --a-pass ", "env A_PASS ", "<password>", "<password ", "<a:password a", "<a.password.a ", "name=password value=",  # noqa: E501
    "name: a_password\n", "key='password' ", "<key>password</key> ", "client-key-data: A", "private-lines: 1 ", "\"kty\" \"d\":\"",  # noqa: E501
    "a:5432:a:a:", ":5432:", "machine a login a password ", "default login a ", "password \n", "identified by '", "psk='",  # noqa: E501
    "server=a;", "server=a;b=c;password=", "otpauth://secret=", "otpauth://", "private key ", "privatekey 0", "phrase abc ",  # noqa: E501
    "mnemonic ", "abcd ", "authorization: a ", "authorization: ", "cookie: a=", "cookie: a=b;", "set-cookie: session=A1",  # noqa: E501
    "kind secret\ndata:\n", "kind: secret\ndata:\n a: b\n", " a: YWJj\n", "password for a b c ", "password of ", "token for a at b ",  # noqa: E501
    "keykeykey", "apikeytoken=", "contraseña: ", "密码:", "парол", "creds a/", "login a:", "00D" + "a" * 14 + "!", "$6$a$", "$argon2id$m=1,t=1,p=1$",  # noqa: E501
    ":1:" + "a" * 32 + ":", "a" * 32 + "-", "a" * 32 + ".", "5K" + "a" * 30, "eyJ", "_secret_", "pi_" + "a" * 24 + "_secret_", "<private>", "AKIA",  # noqa: E501
    "runas /user:a ", "impacket-psexec a/a:", "data:\n password: ", "0x" + "a" * 64 + " ", "sudo chpasswd <<< a:", "mysql -pyour_",  # noqa: E501
    "set_password('", "setset_", "a:b@tcp(", "enable secret 0 ", "username a privilege 1 ",
    "snmp-server community ", "send \"", "expect assword: send ", "app password ",
    "abcd efgh ijkl ", "uokb xrtz wmod atfe app password ", "|password|", "| a | b |\n",
    "|password\n|", "\\\n", "a\\\n ", "A_PASSWORD=", "PASSWORD → ",
    "senha do ", "密码是", "密码是a", "password=ab-cd-",
]  # fmt: skip


RUNS = (" ", "a", "A1", "\n", '"', "-", "a ", ".", "/", ":", "=", "a.", "A_", "<")


def seconds(unit: str, run: str, size: int) -> float:
    text = unit + (run * size)[:size] if run else (unit * (size // len(unit) + 1))[:size]
    began = time.process_time()
    redact.find(text)
    return time.process_time() - began


def linear(unit: str, run: str) -> bool:
    """Eight times the text: linear 8, quadratic 64; the floor keeps noise of the clock out."""
    return seconds(unit, run, 32_000) < 30 * max(seconds(unit, run, 4_000), 0.002)


@pytest.mark.parametrize("unit", BAITS)
def test_patterns_are_read_in_time_that_grows_with_the_text(unit: str) -> None:
    for run in ("", *RUNS):
        assert linear(unit, run) or linear(unit, run), run  # the second time it is warm
