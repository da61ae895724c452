"""Reads the settings: git's configuration in one call, and team policy in `.gitmem.toml`.

Promise: a file in the tree can never set a remote, a path or a command: only settings marked
`policy` are read from it.
"""

from __future__ import annotations

from ..core.errors import MemError, UsageError
from . import config, worktree_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .repository import Repo

_LOADED = (
    r"^(mem\.|gpg\.|commit\.gpgsign$|user\.signingkey$" r"|(user|author|committer)\.(name|email)$)"
)


def load(
    repo: Repo,
    environ: Mapping[str, str],
    warn: Callable[[str], None] = lambda line: None,
    strict: bool = True,
) -> config.Config:
    """The settings in force, read in one git call. Raises UsageError as `config.build` does."""
    raw = repo.git.run("config", "-z", "--show-scope", "--get-regexp", _LOADED, ok=(0, 1))
    words = raw.decode("utf-8", "surrogateescape").split("\0")
    found: dict[str, str] = {}
    for scope, item in zip(words[0::2], words[1::2], strict=False):
        key, newline, value = item.partition("\n")
        if counts(repo, scope, key.lower()):
            found[key.lower()] = value if newline else "true"
    return config.build(found, policy(repo.top), environ, warn, strict)


_PROGRAMS = ("program", "openpgp.program", "ssh.program", "x509.program", "ssh.defaultkeycommand")


def counts(repo: Repo, scope: str, key: str) -> bool:
    """Whether a setting of this scope is used: a repository of another user names no programs."""
    return (
        repo.own
        or scope not in ("local", "worktree")
        or key not in [f"gpg.{name}" for name in _PROGRAMS]
    )


def wanted(key: str) -> bool:
    """Whether `config.build` looks at a key of git's configuration, in lower case."""
    return (
        key.startswith(("mem.", "gpg."))
        or key in ("commit.gpgsign", "user.signingkey")
        or key in _IDENTITY
    )


_IDENTITY = tuple(
    f"{who}.{what}" for who in ("user", "author", "committer") for what in ("name", "email")
)


# The policy file

POLICY = ".gitmem.toml"
_POLICY_MOST, _DOTS = 8192, 8  # bytes of the file, dots in one line
# Anybody's pull request may bring the file: it must not switch git mem off by tiny limits.
_POLICY_LEAST = {"contextBudget": 500, "maxBody": 4096, "limit": 3}


def policy(top: str) -> dict[str, str]:
    """Allowed settings of `.gitmem.toml`; an unusable file counts as absent (doctor names it)."""
    try:
        table = policy_table(top)
    except MemError:
        return {}
    out = {}
    for name, value in table.items():
        if name in config.SETTINGS and config.SETTINGS[name][2]:
            try:
                out[name] = check_policy(name, value)
            except UsageError:
                continue
    return out


def check_policy(name: str, value: Any) -> str:
    """The normal form of a value in `.gitmem.toml`. Raises UsageError where it is not allowed."""
    word = config.check(name, config.SETTINGS[name][0], str(value))
    least = _POLICY_LEAST.get(name, 0)
    if word.isdigit() and int(word) < least:
        raise UsageError(f"setting 'mem.{name}' is {word}, a policy file may not go below {least}")
    return word


def policy_table(top: str) -> dict[str, Any]:
    """The content of `.gitmem.toml`, empty without one. Raises MemError where it cannot be used.

    Anybody's pull request may bring the file, and `tomllib` takes time by the square of the
    parts of a dotted key: a key of 64 KB took half a minute.
    """
    content = worktree_file.read(top, POLICY, _POLICY_MOST) if top else None
    if content is None:
        return {}
    if any(line.count(b".") > _DOTS for line in content.splitlines()):
        raise MemError(f"'{POLICY}' has a line with more than {_DOTS} dots")
    import tomllib

    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as e:
        raise MemError(f"'{POLICY}' cannot be read: {e}") from e
