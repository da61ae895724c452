"""What can go wrong, as classes the doors turn into a line of text and an exit code.

Promise: every message says first what failed, quotes its subject and never
holds a command that destroys data; the hint is a safe next step. Exit codes:
0 done or found, 1 refused or nothing found, 2 wrong usage, 3 a bug of ours,
128 not a repository (git's own).
"""

from __future__ import annotations


class MemError(Exception):
    """A refusal with a reason; nothing was written unless the message says so."""

    code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(MemError):
    """The words of the call do not fit together."""

    code = 2


class Ambiguous(MemError):
    """A prefix names several things."""


class NotARepository(MemError):
    """There is no usable git repository here."""

    code = 128


class GitFailed(MemError):
    """A git process ended with an error we did not expect."""

    def __init__(self, message: str, hint: str = "", status: int = 1, stderr: str = "") -> None:
        super().__init__(message, hint)
        self.status = status
        self.stderr = stderr


class RefMoved(MemError):
    """Other writers kept moving the notes ref; nothing was written."""


class Refused(MemError):
    """The text itself is not acceptable: too large, empty, a secret."""


class CannotSign(MemError):
    """Signing is on and a signature could not be made; nothing was stored."""
