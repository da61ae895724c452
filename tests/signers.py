"""SSH keys and repositories that sign with them, for the tests of signatures and trust."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest
from conftest import Lab

import gitmem
from gitmem.core import record
from gitmem.git.config import Config
from gitmem.signing.keys import Keys
from gitmem.signing.signature import Checker, Verdict

PACKAGE = pathlib.Path(gitmem.__file__).parent


def fail(
    lab: Lab,
    where: pathlib.Path,
    *argv: str,
    stdin: str | None = None,
    env: dict[str, str] | None = None,
) -> tuple[int, str]:
    done = lab.run(where, sys.executable, "-m", "gitmem", *argv, stdin=stdin, env=env)
    assert "Traceback" not in done.stderr and "bug:" not in done.stderr, done.stderr
    return done.returncode, done.stderr


class Ring:
    """SSH keys in a directory, and a repository that signs with one of them."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.home = lab.root / "keys"
        self.home.mkdir()
        self.allowed = self.home / "allowed"
        self.allowed.write_text("")
        lab.git(lab.root, "config", "--global", "gpg.format", "ssh")
        lab.git(lab.root, "config", "--global", "gpg.ssh.allowedSignersFile", str(self.allowed))

    def key(self, name: str, *options: str, passphrase: str = "") -> pathlib.Path:
        path = self.home / name
        subprocess.run(
            [
                "ssh-keygen",
                "-q",
                "-t",
                "ed25519",
                "-N",
                passphrase,
                "-C",
                name,
                "-f",
                str(path),
                *options,
            ],
            check=True,
        )
        return path

    def allow(self, *rows: tuple[str, str, str]) -> None:
        """(principals, options, key name) of each row of the allowed signers file."""
        self.allowed.write_text(
            "".join(
                f"{who} {options} {(self.home / (name + '.pub')).read_text()}"
                for who, options, name in rows
            )
        )

    def repo(self, name: str = "repo", key: str = "ada") -> pathlib.Path:
        path = self.lab.repo(name)
        self.lab.git(path, "config", "user.signingKey", str(self.home / key))
        self.lab.git(path, "config", "mem.sign", "true")
        return path

    def verify(
        self, path: pathlib.Path, *argv: str, rc: tuple[int, ...] = (0,)
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.lab.json(path, "verify", *argv, rc=rc)
        return found


def made(lab: Lab) -> Ring:
    """A ring with the key of Ada, who may sign."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("no ssh-keygen here")
    ring = Ring(lab)
    ring.key("ada")
    ring.allow(("ada@example.org", "", "ada"))
    return ring


def rewrite(lab: Lab, path: pathlib.Path, lines: list[str], ref: str = "mem/team") -> None:
    """Puts other lines in the note of HEAD, with stock git."""
    (path / ".git" / "note").write_text("\n".join(lines) + "\n", encoding="utf-8")
    lab.git(
        path,
        "notes",
        f"--ref={ref}",
        "add",
        "-f",
        "-C",
        lab.git(path, "hash-object", "-w", ".git/note").strip(),
        "HEAD",
    )


def counted(lab: Lab, *programs: str) -> pathlib.Path:
    """A directory for the front of PATH, whose programs note each call in `log` and do the real
    thing.
    """
    where = lab.root / "counted"
    where.mkdir(exist_ok=True)
    for name in programs:
        real = shutil.which(name)
        assert real
        (where / name).write_text(
            f'#!/bin/sh\necho {name} "$@" >> "{where}/log"\nexec {real} "$@"\n'
        )
        (where / name).chmod(0o755)
    lab.env["PATH"] = f"{where}{os.pathsep}{os.environ['PATH']}"
    return where


def calls(where: pathlib.Path) -> list[str]:
    log = where / "log"
    rows = log.read_text().splitlines() if log.exists() else []
    log.write_text("")
    return rows


def keys_of(settings: dict[str, str], home: pathlib.Path) -> Keys:
    return Keys(
        Config({"sign": "true", "trust": "all"}, "Ada", "ada@example.org", {}, settings), str(home)
    )


def check(checker: Checker, data: dict[str, Any]) -> Verdict:
    parsed = record.parse(record.dump(data))
    assert parsed
    return checker.of(parsed)
