"""Checks the signature of a record, as git checks that of a commit.

Promise: a check never raises. What cannot be checked (no such key, program or
file) is `unknown`, and everything that is not plainly valid is less than
`good`; so a reader that acts on `good` alone fails closed. Checking asks no
network of its own accord (gpgsm may look for revocation lists, as its own
configuration says).

A signature counts only on a canonical line: JSON that says a name twice could
be read in two ways, one of them signed.

Cost: one process a record, about 6 ms of one processor; two more the first time an SSH key is seen.
"""

from __future__ import annotations

import base64
import binascii
import calendar
import contextlib
import os
import tempfile
import time
from collections.abc import Callable

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
_TRUST = (
    "undefined",
    "never",
    "marginal",
    "fully",
    "ultimate",
)  # of gpg.minTrustLevel, from the least
_PGP_STATES = {
    "GOODSIG": GOOD,
    "EXPSIG": EXPIRED,
    "EXPKEYSIG": EXPIRED,
    "REVKEYSIG": REVOKED,
    "BADSIG": BAD,
    "ERRSIG": UNKNOWN,
}


class Verdict:
    """`signer`: the principal or user id, "" where it is not known; `key`: a fingerprint; `reason`:
    why it is no better.
    """

    __slots__ = ("key", "reason", "signer", "state")

    def __init__(self, state: str, signer: str = "", key: str = "", reason: str = "") -> None:
        self.state = state
        self.signer = signer
        self.key = key
        self.reason = reason


def check_all(
    keys: Keys, records: list[Record], tell: Callable[[int], None] = lambda n: None
) -> list[Verdict]:
    """The verdict on each record, in order; many are checked on all processors.

    `tell` takes how many more are done, from any thread.
    """
    workers = min(os.cpu_count() or 1, _WORKERS, len(records) // _MANY + 1)
    if workers == 1:
        return _check_part(keys, records, tell)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(workers) as pool:
        parts = [records[i::workers] for i in range(workers)]
        found = list(pool.map(lambda part: _check_part(keys, part, tell), parts))
    return [found[i % workers][i // workers] for i in range(len(records))]


def _check_part(keys: Keys, records: list[Record], tell: Callable[[int], None]) -> list[Verdict]:
    out = []
    with Checker(keys) as checker:
        for r in records:
            out.append(checker.of(r))
            tell(1)
    return out


class Checker:
    """Checks many records; what it learnt of a key is kept.

    To be closed: it has a temporary file.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._principals: dict[bytes, list[str]] = {}
        self._files: list[str] = []

    def __enter__(self) -> Checker:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._files:
            with contextlib.suppress(OSError):
                os.unlink(name)
        self._files = []

    def of(self, r: Record) -> Verdict:
        """What the signature of a record is worth."""
        armor = r.data.get("signature")
        if armor is None:
            return Verdict(NONE)
        if not isinstance(armor, str) or len(armor) > _LONGEST or not armor.isascii():
            return Verdict(BAD, reason="it is no armored text")
        try:
            if record.dump(r.data) != r.line:
                return Verdict(BAD, reason="the record is not in canonical form")
            payload = record.signed_bytes(r.data)
        except (ValueError, RecursionError):
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

    def _file(self, number: int, content: str) -> str:
        """One of our temporary files with new content: the programs want to read it by its name."""
        while len(self._files) <= number:
            handle, name = tempfile.mkstemp(prefix="git-mem-sig-")
            os.close(handle)
            self._files.append(name)
        with open(self._files[number], "w", encoding="utf-8") as f:
            f.write(content)
        return self._files[number]

    # OpenPGP and X.509

    def _gpg(self, kind: str, payload: bytes, armor: str) -> Verdict:
        program = self._keys.program(kind)
        # What a user's gpg.conf allows for mail must not turn a search into a network request.
        extra = ["--no-auto-key-retrieve"] if os.path.basename(program) in ("gpg", "gpg2") else []
        argv = [program, "--status-fd=1", *extra, "--verify", self._file(0, armor + "\n"), "-"]
        _, out, err = self._keys.call(argv, payload, _PATIENCE)
        states: list[tuple[str, str]] = []
        key = trust = ""
        for line in out.decode("utf-8", "replace").splitlines():
            words = (
                line.removeprefix("[GNUPG:] ").split(" ", 2)
                if line.startswith("[GNUPG:] ")
                else [""]
            )
            if words[0] in _PGP_STATES:
                states.append(
                    (
                        _PGP_STATES[words[0]],
                        _unescaped(words[2]) if len(words) > 2 and words[0] != "ERRSIG" else "",
                    )
                )
                key = key or (words[1] if len(words) > 1 else "")
            elif words[0] == "VALIDSIG":
                key = words[1]
            elif words[0].startswith("TRUST_"):
                trust = words[0].removeprefix("TRUST_").lower()
        if len(states) != 1:
            return Verdict(
                BAD if states else UNKNOWN,
                reason="it holds several signatures" if states else last_line(err),
            )
        state, signer = states[0]
        if state != GOOD:
            return Verdict(state, signer, key, "no public key here" if state == UNKNOWN else "")
        least = self._keys.min_trust if self._keys.min_trust in _TRUST else "fully"
        if trust not in _TRUST or _TRUST.index(trust) < _TRUST.index(least):
            return Verdict(
                UNTRUSTED, signer, key, f"the trust in this key is {trust or 'undefined'}"
            )
        return Verdict(GOOD, signer, key)

    # SSH

    def _ssh(self, payload: bytes, armor: str, at: object) -> Verdict:  # noqa: C901
        public, namespace = _parse(armor)
        if not public:
            return Verdict(BAD, reason="it cannot be read")
        key = "SHA256:" + base64.b64encode(sha256(public).digest()).decode().rstrip("=")
        if namespace != NAMESPACE.encode():
            return Verdict(
                BAD,
                key=key,
                reason=(
                    f"it was made for another purpose ({namespace.decode('utf-8', 'replace')[:40]})"
                ),
            )
        revoked = self._keys.revoked
        if revoked and not os.access(revoked, os.R_OK):
            return Verdict(
                UNKNOWN, key=key, reason=f"cannot read '{revoked}', which names the revoked keys"
            )
        named = self._file(0, armor + "\n")
        when = _verify_time(at)
        allowed = (
            self._keys.allowed if self._keys.allowed and os.path.isfile(self._keys.allowed) else ""
        )
        tried: list[str] = []
        why = ""
        if allowed:
            # Whose key it is hardly ever changes; `verify` alone decides, so what was found for
            # another time is a guess worth one try.
            tried = self._principals.get(public, [])
            for name in tried:
                if self._verify(name, allowed, named, when, payload, revoked):
                    return Verdict(GOOD, name, key)
            found, why = self._find(allowed, named, when)
            for name in found:
                if name not in tried and self._verify(name, allowed, named, when, payload, revoked):
                    self._principals[public] = [name]
                    return Verdict(GOOD, name, key)
            tried = [*tried, *found]
        status, _, err = self._run(["check-novalidate", "-n", NAMESPACE, "-s", named], payload)
        if status:
            return Verdict(BAD, key=key, reason=last_line(err))
        signer = tried[0] if tried else ""
        if revoked and self._is_revoked(public, signer, allowed, named, when, payload, revoked):
            return Verdict(REVOKED, signer, key)
        bounds = [
            row.partition(": ")[2]
            for row in why.splitlines()
            if "has expired" in row or "not yet valid" in row
        ]
        if bounds:
            return Verdict(EXPIRED, signer, key, bounds[0])
        if tried:
            return Verdict(
                UNTRUSTED,
                signer,
                key,
                f"'{allowed}' does not permit this key for the namespace {NAMESPACE}",
            )
        return Verdict(
            UNTRUSTED,
            "",
            key,
            (
                f"'{allowed}' does not name this key"
                if allowed
                else "there is no gpg.ssh.allowedSignersFile"
            ),
        )

    def _run(self, argv: list[str], stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        return self._keys.call([self._keys.program(SSH), "-Y", *argv], stdin, _PATIENCE)

    def _find(self, allowed: str, named: str, when: list[str]) -> tuple[list[str], str]:
        """(principals the allowed signers file has for the key, the program's words)."""
        _, out, err = self._run(["find-principals", "-f", allowed, "-s", named, *when])
        return [
            row.strip() for row in out.decode("utf-8", "replace").splitlines() if row.strip()
        ], err.decode("utf-8", "replace")

    def _verify(
        self,
        principal: str,
        allowed: str,
        named: str,
        when: list[str],
        payload: bytes,
        revoked: str,
    ) -> bool:
        argv = [
            "verify",
            "-n",
            NAMESPACE,
            "-f",
            allowed,
            "-I",
            principal,
            "-s",
            named,
            *when,
            *(["-r", revoked] if revoked else []),
        ]
        status, out, _ = self._run(argv, payload)
        return status == 0 and out.startswith(b'Good "')

    def _is_revoked(
        self,
        public: bytes,
        signer: str,
        allowed: str,
        named: str,
        when: list[str],
        payload: bytes,
        revoked: str,
    ) -> bool:
        """Whether the list of revoked keys alone stands against a valid signature; the program does
        not say so itself.
        """
        if signer and self._verify(signer, allowed, named, when, payload, ""):
            return True
        kind = public[4 : 4 + int.from_bytes(public[:4], "big")].decode("ascii", "replace")
        anyone = self._file(1, f"anyone {kind} {base64.b64encode(public).decode()}\n")
        return self._verify("anyone", anyone, named, when, payload, "") and not self._verify(
            "anyone", anyone, named, when, payload, revoked
        )


def _parse(armor: str) -> tuple[bytes, bytes]:
    """(public key, namespace) of an SSH signature, empty where it is none (OpenSSH's
    PROTOCOL.sshsig).
    """
    try:
        blob = base64.b64decode(
            "".join(armor.split("\n")[1:]).partition("-----END")[0], validate=True
        )
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
        when = time.localtime(calendar.timegm(time.strptime(str(at), "%Y-%m-%dT%H:%M:%SZ")))
        return ["-Overify-time=" + time.strftime("%Y%m%d%H%M%S", when)]
    except (ValueError, OverflowError, OSError):
        return []


def _unescaped(uid: str) -> str:
    from urllib.parse import unquote

    return unquote(uid)
