"""Records signed with OpenPGP and X.509 keys, made and judged as git does it."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest
from conftest import Lab
from signers import check, fail, keys_of, rewrite

from gitmem.core import record
from gitmem.signing import sign
from gitmem.signing.signature import BAD, EXPIRED, GOOD, REVOKED, UNKNOWN, UNTRUSTED, Checker

# --- OpenPGP -----------------------------------------------------------------


class Pgp:
    """A GnuPG home with keys; its agent ends with the test."""

    def __init__(self, home: pathlib.Path) -> None:
        self.home = home
        home.mkdir(mode=0o700, exist_ok=True)

    def gpg(self, *argv: str, stdin: str = "") -> str:
        done = subprocess.run(
            [
                "gpg",
                "--batch",
                "--quiet",
                "--pinentry-mode",
                "loopback",
                "--passphrase",
                "",
                "--homedir",
                str(self.home),
                *argv,
            ],
            input=stdin,
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def key(self, uid: str, expire: str = "never") -> str:
        self.gpg("--quick-generate-key", uid, "ed25519", "sign", expire)
        return next(
            row.split(":")[9]
            for row in self.gpg("--with-colons", "--list-secret-keys", uid).splitlines()
            if row.startswith("fpr")
        )


@pytest.fixture
def pgp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pgp]:
    if shutil.which("gpg") is None or shutil.which("gpgconf") is None:
        pytest.skip("no gpg here")
    import tempfile

    with tempfile.TemporaryDirectory(
        prefix="g", dir="/tmp"
    ) as short:  # the agent's socket has a short name
        homes = [Pgp(pathlib.Path(short) / name) for name in "ab"]
        yield homes[0]
        for made in homes:
            subprocess.run(
                ["gpgconf", "--homedir", str(made.home), "--kill", "gpg-agent"],
                check=False,
                capture_output=True,
            )


def test_openpgp_signs_and_verifies_by_the_committers_own_key(pgp: Pgp, lab: Lab) -> None:
    lab.env["GNUPGHOME"] = str(pgp.home)
    fingerprint = pgp.key("Ada <ada@example.org>")
    path = lab.repo()
    lab.git(path, "config", "commit.gpgSign", "true")
    lab.mem(path, "remember", "signed as git signs its commits")
    (line,) = lab.lines(path)
    assert json.loads(line)["signature"].startswith("-----BEGIN PGP SIGNATURE-----\n")
    (item,) = lab.json(path, "verify")
    assert (item["state"], item["signer"], item["key"], item["author_matches"]) == (
        GOOD,
        "Ada <ada@example.org>",
        fingerprint,
        True,
    )
    rewrite(lab, path, [line.replace("as git signs", "as git never signed")])
    assert sorted(i["state"] for i in lab.json(path, "verify", rc=(1,))) == [BAD, GOOD], (
        "the true line comes back from the history"
    )


def test_openpgp_keys_that_are_unknown_untrusted_revoked_or_expired_are_told_apart(
    pgp: Pgp, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNUPGHOME", str(pgp.home))
    fingerprint = pgp.key("Ada <ada@example.org>")
    data = record.about("share", "0" * 32)
    armor = sign.signatures(
        keys_of({"user.signingkey": fingerprint}, lab.root),
        [record.signed_bytes(data)],
        str(lab.root),
    )[0]
    other = Pgp(pgp.home.parent / "b")

    def verdict(home: Pgp, **more: str) -> str:
        monkeypatch.setenv("GNUPGHOME", str(home.home))
        with Checker(keys_of(more, lab.root)) as checker:
            return check(checker, {**data, "signature": armor}).state

    assert verdict(pgp) == GOOD
    assert verdict(other) == UNKNOWN
    other.gpg("--import", stdin=pgp.gpg("--armor", "--export", fingerprint))
    assert verdict(other) == UNTRUSTED
    assert verdict(other, **{"gpg.mintrustlevel": "undefined"}) == GOOD
    assert verdict(other, **{"gpg.program": "/no/such/place/gpg"}) == UNKNOWN
    pgp.gpg("--quick-set-expire", fingerprint, "2y")
    other.gpg("--import", stdin=pgp.gpg("--armor", "--export", fingerprint))
    later = (
        lab.root / "gpg-in-three-years"
    )  # no waiting for a clock: how soon gpg sees an expiry depends on the machine
    later.write_text(
        f'#!/bin/sh\nexec gpg --faked-system-time {int(time.time()) + 3 * 366 * 86400}! "$@"\n'
    )
    later.chmod(0o755)
    assert verdict(other) == UNTRUSTED
    assert verdict(other, **{"gpg.program": str(later)}) == EXPIRED
    pgp.gpg("--quick-set-expire", fingerprint, "0")
    pgp.gpg(
        "--import",
        stdin=(pgp.home / "openpgp-revocs.d" / f"{fingerprint}.rev")
        .read_text()
        .replace(":-----BEGIN", "-----BEGIN"),
    )
    assert verdict(pgp) == REVOKED


def test_a_missing_openpgp_key_refuses_the_write(pgp: Pgp, lab: Lab) -> None:
    lab.env["GNUPGHOME"] = str(pgp.home)
    path = lab.repo()
    lab.git(path, "config", "mem.sign", "true")
    code, message = fail(lab, path, "remember", "x")
    assert (
        code == 1
        and "cannot sign: gpg:" in message
        and "secret key" in message.lower()
        and lab.lines(path) == []
    )


def test_x509_is_called_as_git_calls_it(lab: Lab) -> None:
    """A stand-in for gpgsm that speaks its status lines: what is asked of it, and what its answer
    means.
    """
    stand_in = lab.root / "gpgsm"
    stand_in.write_text("""#!/bin/sh
case "$*" in
*-bsau*) cat >/dev/null; echo '[GNUPG:] SIG_CREATED D 1 8 00 1 ABCD' >&2; printf -- '-----BEGIN SIGNED MESSAGE-----\\nMIAG\\n-----END SIGNED MESSAGE-----\\n' ;;
*--verify*) cat >/dev/null; echo '[GNUPG:] GOODSIG ABCD /CN=Ada%20Example'; echo '[GNUPG:] VALIDSIG ABCD 2026-01-01'; echo "[GNUPG:] TRUST_$WORTH" ;;
esac
""")  # noqa: E501
    stand_in.chmod(0o755)
    path = lab.repo()
    for name, value in (
        ("gpg.format", "x509"),
        ("gpg.x509.program", str(stand_in)),
        ("mem.sign", "true"),
    ):
        lab.git(path, "config", name, value)
    lab.mem(path, "remember", "signed by a certificate")
    for worth, state in (("FULLY", "good"), ("UNDEFINED", "untrusted"), ("NEVER", "untrusted")):
        (item,) = json.loads(lab.mem(path, "verify", "--json", env={"WORTH": worth}))
        assert (item["state"], item["signer"]) == (state, "/CN=Ada Example")


@pytest.fixture
def certificate(lab: Lab) -> Iterator[str]:
    """A self-signed X.509 certificate in a GnuPG home; yields its fingerprint."""
    if shutil.which("gpgsm") is None or shutil.which("gpgconf") is None:
        pytest.skip("no gpgsm here")
    import tempfile

    with tempfile.TemporaryDirectory(prefix="x", dir="/tmp") as home:
        where = pathlib.Path(home)
        pinentry = where / "pinentry"
        pinentry.write_text(
            '#!/bin/sh\necho OK\nwhile read word rest; do case $word in GETPIN) echo "S'
            ' PIN_REPEATED"; echo "D x"; echo OK;; BYE) echo OK; exit;; *) echo OK;; esac; done\n'
        )
        pinentry.chmod(0o755)
        (where / "gpg-agent.conf").write_text(f"pinentry-program {pinentry}\n")
        (where / "gpgsm.conf").write_text("disable-crl-checks\n")
        (where / "wanted").write_text(
            "Key-Type: RSA\nKey-Length: 2048\nKey-Usage: sign\nSerial: random\nName-DN: CN=Ada"
            " Example\nName-Email: ada@example.org\n"
        )
        lab.env["GNUPGHOME"] = home
        lab.run(
            where,
            "gpgsm",
            "--batch",
            "--armor",
            "--output",
            "certificate",
            "--generate-key",
            "wanted",
        )
        lab.run(where, "gpgsm", "--batch", "--import", "certificate")
        rows = lab.run(where, "gpgsm", "--with-colons", "--list-secret-keys").stdout.splitlines()
        fingerprint = next((row.split(":")[9] for row in rows if row.startswith("fpr")), "")
        try:
            if not fingerprint:
                pytest.skip("this gpgsm makes no certificate")
            (where / "trustlist.txt").write_text(f"{fingerprint} S relax\n")
            lab.run(where, "gpgconf", "--kill", "gpg-agent")
            yield fingerprint
        finally:
            lab.run(where, "gpgconf", "--kill", "gpg-agent")


def test_a_certificate_signs_and_verifies(certificate: str, lab: Lab) -> None:
    path = lab.repo()
    for name, value in (
        ("gpg.format", "x509"),
        ("user.signingKey", certificate),
        ("mem.sign", "true"),
    ):
        lab.git(path, "config", name, value)
    lab.mem(path, "remember", "signed by a certificate")
    (line,) = lab.lines(path)
    (item,) = lab.json(path, "verify")
    assert (item["state"], item["signer"], item["key"]) == (GOOD, "/CN=Ada Example", certificate)
    rewrite(lab, path, [line.replace("signed by", "forged with")])
    assert sorted(i["state"] for i in lab.json(path, "verify", rc=(1,))) == [BAD, GOOD]
