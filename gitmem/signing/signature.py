"""Checks the signature of a record, as git checks that of a commit.

Promise: a check never raises. A signature that cannot be checked (no such key, program or file) is
`unknown`, and every signature that is not plainly valid is less than `good`; so a reader that acts
on `good` alone fails closed. Checking asks no network of its own accord (gpgsm may).

A signature counts only on a canonical line: JSON that says a name twice could be read in two ways.
Cost: one process a record, about 6 ms; two more for the first of an SSH key.
"""

from __future__ import annotations

import base64
import binascii
import calendar
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import get_ident
from typing import NamedTuple
from urllib.parse import unquote

from ..core import record
from ..core.digest import sha256
from ..core.record import Record
from .keys import OPENPGP, SSH, X509, Keys, Unusable, last_line
from .sign import NAMESPACE

GOOD = "good"  # valid, and git's keys say whose
UNTRUSTED = "untrusted"  # valid, by a key that nobody here vouches for
UNKNOWN = "unknown"  # cannot be checked here
EXPIRED = "expired"
REVOKED = "revoked"
BAD = "bad"
NONE = "none"  # no signature

_PATIENCE = 10.0  # seconds for one check
_LONGEST = 64 * 1024
_MANY = 20  # records that are worth a process more at the same time
_WORKERS = 8
_TRUST = ("undefined", "never", "marginal", "fully", "ultimate")  # gpg.minTrustLevel, least first
_PGP_STATES = {
    "GOODSIG": GOOD,
    "EXPSIG": EXPIRED,
    "EXPKEYSIG": EXPIRED,
    "REVKEYSIG": REVOKED,
    "BADSIG": BAD,
    "ERRSIG": UNKNOWN,
}


class Verdict(NamedTuple):
    """`signer`: principal or user id, "" for unknown; `key`: fingerprint; `reason`: if not good."""

    state: str
    signer: str = ""
    key: str = ""
    reason: str = ""


def check_all(
    keys: Keys, records: list[Record], tell: Callable[[int], None] = lambda n: None
) -> list[Verdict]:
    """The verdict on each record, in order; many are checked on all processors.

    `tell` takes how many more are done, from any thread.
    """

    def check(r: Record) -> Verdict:
        verdict = checker.of(r)
        tell(1)
        return verdict

    workers = min(os.cpu_count() or 1, _WORKERS, len(records) // _MANY + 1)
    with Checker(keys) as checker, ThreadPoolExecutor(workers) as pool:
        return list(pool.map(check, records))


class Checker:
    """Checks many records, and remembers whose a key is. It has temporary files: close it."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._principals: dict[bytes, list[str]] = {}
        self._files = tempfile.TemporaryDirectory("", "git-mem-", ignore_cleanup_errors=True)

    def __enter__(self) -> Checker:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.cleanup()

    def of(self, r: Record) -> Verdict:
        armor = r.data.get("signature")
        if armor is None:
            return Verdict(NONE)
        if not isinstance(armor, str) or len(armor) > _LONGEST or not armor.isascii():
            return Verdict(BAD, reason="it is no armored text")
        try:
            payload = record.signed_bytes(r.data) if record.dump(r.data) == r.line else None
        except (ValueError, RecursionError):
            payload = None
        if payload is None:
            return Verdict(BAD, reason="the record is not in canonical form")
        try:
            if armor.startswith("-----BEGIN SSH SIGNATURE-----"):
                return self._ssh(payload, armor, r.data.get("signed_at", r.data.get("at")))
            if armor.startswith("-----BEGIN PGP SIGNATURE-----"):
                return self._gpg(OPENPGP, payload, armor)
            if armor.startswith("-----BEGIN SIGNED MESSAGE-----"):
                return self._gpg(X509, payload, armor)
        except (Unusable, OSError) as e:
            return Verdict(UNKNOWN, reason=str(e))
        return Verdict(UNKNOWN, reason="a kind of signature this git mem does not know")

    def _file(self, name: str, content: str) -> str:
        """A file of this thread's: the programs read signatures by a file's name."""
        path = os.path.join(self._files.name, f"{name}-{get_ident()}")
        with open(path, "w", encoding="utf-8") as f:
            f.write(content)
        return path

    def _gpg(self, kind: str, payload: bytes, armor: str) -> Verdict:
        program = self._keys.program(kind)
        # A gpg.conf that fetches keys for mail must not turn a search into a network request.
        extra = ["--no-auto-key-retrieve"] if os.path.basename(program) in ("gpg", "gpg2") else []
        file = self._file("signature", armor + "\n")
        argv = [program, "--status-fd=1", *extra, "--verify", file, "-"]
        _, out, err = self._keys.call(argv, payload, _PATIENCE)
        states: list[tuple[str, str]] = []
        key = trust = ""
        for line in out.decode("utf-8", "replace").splitlines():
            if not line.startswith("[GNUPG:] "):
                continue
            words = line.removeprefix("[GNUPG:] ").split(" ", 2)
            if words[0] in _PGP_STATES:
                named = len(words) > 2 and words[0] != "ERRSIG"
                states.append((_PGP_STATES[words[0]], unquote(words[2]) if named else ""))
                key = key or (words[1] if len(words) > 1 else "")
            elif words[0] == "VALIDSIG":
                key = words[1]
            elif words[0].startswith("TRUST_"):
                trust = words[0].removeprefix("TRUST_").lower()
        if not states:
            return Verdict(UNKNOWN, reason=last_line(err))
        if len(states) > 1:
            return Verdict(BAD, reason="it holds several signatures")
        state, signer = states[0]
        if state != GOOD:
            return Verdict(state, signer, key, "no public key here" if state == UNKNOWN else "")
        least = self._keys.min_trust if self._keys.min_trust in _TRUST else "fully"
        if trust not in _TRUST or _TRUST.index(trust) < _TRUST.index(least):
            why = f"the trust in this key is {trust or 'undefined'}"
            return Verdict(UNTRUSTED, signer, key, why)
        return Verdict(GOOD, signer, key)

    def _ssh(self, payload: bytes, armor: str, at: object) -> Verdict:
        public, namespace = _parse(armor)
        if not public:
            return Verdict(BAD, reason="it cannot be read")
        key = "SHA256:" + base64.b64encode(sha256(public).digest()).decode().rstrip("=")
        if namespace != NAMESPACE.encode():
            why = f"it was made for another purpose ({namespace.decode('utf-8', 'replace')[:40]})"
            return Verdict(BAD, key=key, reason=why)
        revoked = self._keys.revoked
        if revoked and not os.access(revoked, os.R_OK):
            why = f"cannot read '{revoked}', which names the revoked keys"
            return Verdict(UNKNOWN, key=key, reason=why)
        check = _SshCheck(self._keys, payload, self._file("signature", armor + "\n"), at)
        signer, tried, words = self._signer(check, public)
        if signer:
            return Verdict(GOOD, signer, key)
        status, _, err = check.run("check-novalidate", "-n", NAMESPACE)
        if status:
            return Verdict(BAD, key=key, reason=last_line(err))
        first = tried[0] if tried else ""
        if revoked and self._is_revoked(check, public):
            return Verdict(REVOKED, first, key)
        for row in words.splitlines():
            if "has expired" in row or "not yet valid" in row:
                return Verdict(EXPIRED, first, key, row.partition(": ")[2])
        if tried:
            why = f"'{check.allowed}' does not permit this key for the namespace {NAMESPACE}"
        elif check.allowed:
            why = f"'{check.allowed}' does not name this key"
        else:
            why = "there is no gpg.ssh.allowedSignersFile"
        return Verdict(UNTRUSTED, first, key, why)

    def _signer(self, check: _SshCheck, public: bytes) -> tuple[str, list[str], str]:
        """(principal for whom the signature is valid, those tried, the program's words)."""
        if not check.allowed:
            return "", [], ""
        # `verify` alone decides, so a principal found for another time is a guess worth one try.
        tried = self._principals.get(public, [])
        for name in tried:
            if check.verify(name):
                return name, tried, ""
        found, words = check.principals()
        for name in found:
            if name not in tried and check.verify(name):
                self._principals[public] = [name]
                return name, tried, words
        return "", [*tried, *found], words

    def _is_revoked(self, check: _SshCheck, public: bytes) -> bool:
        """Whether only the list of revoked keys makes it fail; the program does not say so."""
        kind = public[4 : 4 + int.from_bytes(public[:4], "big")].decode("ascii", "replace")
        anyone = self._file("anyone", f"anyone {kind} {base64.b64encode(public).decode()}\n")
        return check.verify("anyone", anyone, "") and not check.verify("anyone", anyone)


class _SshCheck:
    """`ssh-keygen -Y` on one signature. `allowed`: the allowed signers file, "" for none."""

    def __init__(self, keys: Keys, payload: bytes, named: str, at: object) -> None:
        self._keys = keys
        self._payload = payload
        self._named = named
        self._when = _verify_time(at)
        self.allowed = keys.allowed if keys.allowed and os.path.isfile(keys.allowed) else ""

    def run(self, *words: str) -> tuple[int, bytes, bytes]:
        argv = [self._keys.program(SSH), "-Y", *words, "-s", self._named]
        return self._keys.call(argv, self._payload, _PATIENCE)

    def principals(self) -> tuple[list[str], str]:
        """(principals that the allowed signers file has for the key, the program's words)."""
        _, out, err = self.run("find-principals", "-f", self.allowed, *self._when)
        rows = out.decode("utf-8", "replace").splitlines()
        return [row.strip() for row in rows if row.strip()], err.decode("utf-8", "replace")

    def verify(self, principal: str, allowed: str = "", revoked: str | None = None) -> bool:
        """Whether the signature is valid and this principal's."""
        revoked = self._keys.revoked if revoked is None else revoked
        words = ["verify", "-n", NAMESPACE, "-f", allowed or self.allowed, "-I", principal]
        status, out, _ = self.run(*words, *self._when, *(["-r", revoked] if revoked else []))
        return status == 0 and out.startswith(b'Good "')


def _parse(armor: str) -> tuple[bytes, bytes]:
    """(public key, namespace) of an SSH signature (PROTOCOL.sshsig), empty where it is none."""
    body = "".join(armor.split("\n")[1:]).partition("-----END")[0]
    try:
        blob = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        return b"", b""
    if not blob.startswith(b"SSHSIG\0\0\0\1"):
        return b"", b""
    parts, at = [], 10
    for _ in range(2):
        size = int.from_bytes(blob[at : at + 4], "big")
        parts.append(blob[at + 4 : at + 4 + size])
        at += 4 + size
    return parts[0], parts[1]


def _verify_time(at: object) -> list[str]:
    """Keys are judged as of the time a record claims, in local time, as git does for commits."""
    try:
        when = time.localtime(calendar.timegm(time.strptime(str(at), record.STORED)))
        return ["-Overify-time=" + time.strftime("%Y%m%d%H%M%S", when)]
    except (ValueError, OverflowError, OSError):
        return []
