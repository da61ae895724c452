"""The user's signing keys as git knows them, and the one place that starts a signing program.
Settings `gpg.*` and `user.signingKey`.

Promise: a program that is missing, hangs or asks in vain ends in `Unusable`, with words for the
user, never in a wait without end.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess

from ..git.config import Config

OPENPGP, SSH, X509 = "openpgp", "ssh", "x509"
_DEFAULT = {OPENPGP: "gpg", SSH: "ssh-keygen", X509: "gpgsm"}
_GRACE = 2.0  # seconds to restore a terminal in which a passphrase was asked


class Unusable(Exception):
    """A program could not be run, or gave no answer in time."""


class Keys:
    """git's signing settings in one repository. `home`: where relative names start."""

    def __init__(self, settings: Config, home: str) -> None:
        self._git = settings.git
        self.home = home
        self.format = self._git.get("gpg.format", OPENPGP).lower()
        self.signing_key = self._git.get("user.signingkey", "")
        self.identity = settings.committer
        self.min_trust = self._git.get("gpg.mintrustlevel", "").lower()
        self.allowed = self._file("gpg.ssh.allowedsignersfile")
        self.revoked = self._file("gpg.ssh.revocationfile")

    def program(self, kind: str) -> str:
        named = self._git.get(f"gpg.{kind}.program")
        if not named and kind == OPENPGP:
            named = self._git.get("gpg.program")
        return os.path.expanduser(named) if named else _DEFAULT[kind]

    def default_ssh_key(self) -> str:
        """The first line that `gpg.ssh.defaultKeyCommand` prints, "" where there is none."""
        command = self._git.get("gpg.ssh.defaultkeycommand", "")
        if not command:
            return ""
        try:
            argv = shlex.split(command)
        except ValueError as e:
            raise Unusable(f"gpg.ssh.defaultKeyCommand cannot be read: {e}") from e
        status, out, err = self.call(argv, b"", 10.0)
        if status:
            raise Unusable(f"gpg.ssh.defaultKeyCommand failed: {last_line(err)}")
        return out.decode("utf-8", "replace").partition("\n")[0].strip()

    def _file(self, name: str) -> str:
        value = self._git.get(name, "")
        return os.path.join(self.home, os.path.expanduser(value)) if value else ""

    def call(self, argv: list[str], stdin: bytes, patience: float) -> tuple[int, bytes, bytes]:
        """(exit status, stdout, stderr) of a program, which may ask for a passphrase."""
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(argv, cwd=self.home, stdin=pipe, stdout=pipe, stderr=pipe)
        except OSError as e:
            raise Unusable(f"cannot run '{argv[0]}': {e.strerror}") from e
        with process:
            try:
                out, err = process.communicate(stdin, timeout=patience)
            except subprocess.TimeoutExpired as e:
                raise Unusable(f"'{argv[0]}' gave no answer in {patience:g} seconds") from e
            finally:
                if process.poll() is None:
                    process.terminate()  # killed at once it would leave the terminal without echo
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(_GRACE)
                    process.kill()
        return process.returncode, out, err


def last_line(err: bytes) -> str:
    """What a program said last, without the lines that are for machines."""
    rows = [row.strip() for row in err.decode("utf-8", "replace").splitlines()]
    rows = [row for row in rows if row and not row.startswith("[GNUPG:]")]
    return rows[-1] if rows else "it gave no reason"
