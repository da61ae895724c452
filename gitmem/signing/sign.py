"""Signs records: the one place through which every writer's lines go where signing is on.

What is signed is `record.signed_bytes`: the canonical line without its `signature`. The signature
is the armored text that git's own programs make; an SSH one is made for the namespace `git-mem`, so
that it can never pass for the signature of a commit, nor a commit's for one of a memory.

Promise: all records of a call are signed, or `CannotSign` is raised and nothing has been stored.

Cost: one process a record, about 5 ms. ssh-keygen signs many files in one process: 10,000 in 5.5 s,
and a passphrase is asked for once.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import tempfile
import time
from typing import Any

from ..core import record
from ..core.errors import CannotSign
from .keys import OPENPGP, SSH, X509, Keys, Unusable, last_line

NAMESPACE = "git-mem"
PATIENCE = 60.0  # seconds; a person may have to type a passphrase or touch a key
_BATCH_FROM = 8  # records from which files are cheaper than processes
_BATCH = 1000  # files of one ssh-keygen
_SCRATCH = "sign-"
_ABANDONED = 3600.0  # seconds after which a batch directory belongs to nobody
_CLOCK = datetime.timedelta(minutes=1)
_HINT = (
    "nothing was stored; `git config user.signingKey` names the key, and `git config mem.sign"
    " false` stores without signatures"
)


def lines(keys: Keys, records: list[dict[str, Any]], scratch: str) -> list[bytes]:
    """The signed lines of records, in order.

    `scratch`: the directory under which many are laid out for one process. Raises CannotSign.
    """
    dated = [_dated(data) for data in records]
    try:
        made = signatures(keys, [record.signed_bytes(data) for data in dated], scratch)
    except Unusable as e:
        raise CannotSign(f"cannot sign: {e}", hint=_HINT) from e
    return [
        record.dump({**data, "signature": signature})
        for data, signature in zip(dated, made, strict=True)
    ]


def _dated(data: dict[str, Any]) -> dict[str, Any]:
    """Where a record claims another time than now (an import), says when it was signed."""
    now, parse = record.now(), datetime.datetime.fromisoformat
    try:
        if abs(parse(str(data.get("at"))) - parse(now)) <= _CLOCK:
            return data
    except (ValueError, TypeError):
        pass
    return {**data, "signed_at": now}


def signatures(keys: Keys, payloads: list[bytes], scratch: str) -> list[str]:
    """An armored signature of each payload. Raises Unusable."""
    if keys.format in (OPENPGP, X509):
        program, key = keys.program(keys.format), keys.signing_key or keys.identity
        argv, mark = [program, "--status-fd=2", "-bsau", key], b"\n[GNUPG:] SIG_CREATED "
        return [_one(keys, argv, payload, mark) for payload in payloads]
    if keys.format != SSH:
        raise Unusable(f"gpg.format is '{keys.format}', not openpgp, ssh or x509")
    key = keys.signing_key or keys.default_ssh_key()
    if not key:
        raise Unusable(
            "no signing key: with gpg.format ssh, user.signingKey or gpg.ssh.defaultKeyCommand has"
            " to name one"
        )
    with contextlib.ExitStack() as stack:
        argv = [keys.program(SSH), "-Y", "sign", "-n", NAMESPACE, "-f"]
        if key.startswith(("key::", "ssh-")):
            # A public key whose private half is in the agent; the program wants a file.
            named = stack.enter_context(
                tempfile.NamedTemporaryFile("w", prefix="git-mem-key-", encoding="utf-8")
            )
            named.write(key.removeprefix("key::") + "\n")
            named.flush()
            argv += [named.name, "-U"]
        else:
            argv.append(os.path.join(keys.home, os.path.expanduser(key)))
        # A program of the user's own is called as for one commit: what else it can do is not known.
        if len(payloads) >= _BATCH_FROM and os.path.basename(argv[0]) == "ssh-keygen":
            try:
                return _ssh_many(keys, argv, payloads, scratch)
            except OSError as e:
                raise Unusable(f"cannot lay out the records: {e.strerror}") from e
        mark = b"-----BEGIN SSH SIGNATURE-----"
        return [_one(keys, argv, payload, mark) for payload in payloads]


def _one(keys: Keys, argv: list[str], payload: bytes, mark: bytes) -> str:
    """One signature. `mark`: what the program prints where it made one."""
    status, out, err = keys.call(argv, payload, PATIENCE)
    if status or mark not in out + b"\n" + err:
        raise Unusable(f"{os.path.basename(argv[0])}: {last_line(err)}")
    return _armor(out)


def _ssh_many(keys: Keys, argv: list[str], payloads: list[bytes], scratch: str) -> list[str]:
    made: list[str] = []
    sweep(scratch)
    os.makedirs(scratch, mode=0o700, exist_ok=True)
    # Mode 0700: it holds the texts until they are signed.
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=scratch) as where:
        for first in range(0, len(payloads), _BATCH):
            names = []
            for i, payload in enumerate(payloads[first : first + _BATCH], first):
                names.append(os.path.join(where, str(i)))
                with open(names[-1], "wb") as f:
                    f.write(payload)
            status, _, err = keys.call([*argv, *names], b"", PATIENCE)
            if status:
                raise Unusable(f"{os.path.basename(argv[0])}: {last_line(err)}")
            for name in names:
                with open(name + ".sig", "rb") as f:
                    made.append(_armor(f.read()))
                os.unlink(name)
                os.unlink(name + ".sig")
    return made


def sweep(scratch: str) -> None:
    """Removes batch directories, which hold texts, that a killed process left."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(scratch):
            made = entry.stat(follow_symlinks=False).st_mtime
            if entry.name.startswith(_SCRATCH) and time.time() - made >= _ABANDONED:
                shutil.rmtree(entry.path, ignore_errors=True)


def _armor(out: bytes) -> str:
    return out.decode("ascii", "replace").replace("\r\n", "\n").strip("\n")
