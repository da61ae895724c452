"""Reads the settings: git's configuration in one call, and team policy in `.gitmem.toml`.

Promise: a file in the tree can never set a remote, a path or a command: only settings marked
`policy` are read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..core.errors import MemError, UsageError
from . import config, worktree_file
from .repository import Repo

_IDENTITY = [
    f"{who}.{what}" for who in ("user", "author", "committer") for what in ("name", "email")
]
_WANTED = {"color.ui", "commit.gpgsign", "user.signingkey", *_IDENTITY}
_PROGRAMS = "program openpgp.program ssh.program x509.program ssh.defaultkeycommand"


def load(
    repo: Repo,
    environ: Mapping[str, str],
    warn: Callable[[str], None] = lambda line: None,
    strict: bool = True,
) -> config.Config:
    """The settings in force. Raises UsageError as `config.build` does."""
    found = {key: value for _, _, key, value in rows(repo) if wanted(key)}
    return config.build(found, policy(repo.top), environ, warn, strict)


def rows(repo: Repo) -> Iterator[tuple[str, str, str, str]]:
    """(scope, origin, key in lower case, value) of git's configuration, asked in one call, without
    the programs that a repository of another user names.
    """
    raw = repo.git.run("config", "--list", "-z", "--show-scope", "--show-origin")
    words = raw.decode("utf-8", "surrogateescape").split("\0")
    for scope, origin, entry in zip(words[0::3], words[1::3], words[2::3], strict=False):
        key, newline, value = entry.partition("\n")
        program = key.lower().startswith("gpg.") and key.lower()[4:] in _PROGRAMS.split()
        if repo.own or not program or scope not in ("local", "worktree"):
            yield scope, origin, key.lower(), value if newline else "true"


def wanted(key: str) -> bool:
    """Whether `config.build` looks at a key of git's configuration, in lower case."""
    return key.startswith(("mem.", "gpg.")) or key in _WANTED


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
    """The content of `.gitmem.toml`, empty without one. Raises MemError where it cannot be used:
    `tomllib` takes time by the square of the parts of a dotted key, half a minute for 64 KB.
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
