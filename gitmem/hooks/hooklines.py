"""Our three lines in a hook, in shell scripts of others or a file of our own: put in, taken out.

Promise: taking them out gives back the bytes that were there, whatever else was written into the
file meanwhile. The rest of a hook gets its arguments and standard input, and its status decides.
"""

from __future__ import annotations

import os
import re
import stat

from ..git import config_journal

_BEGIN = b"# >>> git mem >>> `git mem uninstall git` takes these lines away\n"
_END = b"# <<< git mem <<<\n"
_MINE = b"#!/bin/sh\n# git mem made this file\n"  # all that such a file has beside our lines
# In a subshell: not even a broken script can end the hook. stdin.sh has to, once it has started the
# hook again.
_EVENT = (
    b'if [ -r "${0%/*}/../git-mem-hooks/event.sh" ]; then (. "${0%/*}/../git-mem-hooks/event.sh")'
    b" || :; fi\n"
)
_FEED = (
    b'if [ -r "${0%/*}/../git-mem-hooks/stdin.sh" ]; then . "${0%/*}/../git-mem-hooks/stdin.sh";'
    b" fi\n"
)
_STDIN = ("post-rewrite", "pre-push")
_OURS = re.compile(re.escape(_BEGIN) + rb"(?:.*\n)*?" + re.escape(_END))
_SHELL = re.compile(
    rb"#![ \t]*(?:/\S*/|/\S*/env[ \t]+)(?:sh|bash|dash|ash|ksh|mksh)(?:[ \t]+-[a-z]+)*[ \t]*\n"
)


def fit(path: str) -> bool:
    """Whether a hook can take our lines: a shell script, or none there yet."""
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        return True
    # Not executable: git does not run it, and must not begin to. Linked: the other name may be a
    # tracked file.
    if not stat.S_ISREG(info.st_mode) or info.st_nlink > 1 or not info.st_mode & stat.S_IXUSR:
        return False
    content = config_journal.read(path)
    return bool(_SHELL.match(content)) and b"\0" not in content


def add(hooks: str, name: str) -> bool:
    """Puts our lines after the first line of a hook; False where they are there, once."""
    found = holders(hooks, name)
    if len(found) == 1:
        placed = config_journal.read(found[0])
        if any(_lines(name, alone) in placed for alone in (True, False)):
            return False
    for path in found:
        _without(path)
    path = os.path.join(hooks, name)
    if not os.path.exists(path):
        return config_journal.write(path, _MINE + _lines(name, True), 0o777)
    first, newline, rest = config_journal.read(path).partition(b"\n")
    return config_journal.write(path, first + newline + _lines(name, False) + rest)


def take_out(hooks: str) -> list[str]:
    """Takes our lines out of every hook, also renamed ones, and removes our own; says which."""
    done = []
    for name in sorted(os.listdir(hooks)) if os.path.isdir(hooks) else []:
        path = os.path.join(hooks, name)
        plain = os.path.isfile(path) and not os.path.islink(path)
        if plain and _OURS.search(config_journal.read(path)):
            gone = _without(path)
            done.append(f"removed '{path}'" if gone else f"took our lines out of '{path}'")
    return done


def holders(hooks: str, name: str) -> list[str]:
    """The files with our lines that run for a hook: git's own, and what pre-commit runs too."""
    path = os.path.join(hooks, name)
    content = config_journal.read(path)
    found = [path] if _BEGIN in content else []
    if b"pre-commit.com" in content and _BEGIN in config_journal.read(path + ".legacy"):
        found.append(path + ".legacy")
    return found


def _lines(name: str, alone: bool) -> bytes:
    """Our lines for one hook. What follows in a hook of others wants its standard input too."""
    return _BEGIN + (_FEED if name in _STDIN and not alone else _EVENT) + _END


def _without(path: str) -> bool:
    """Takes our lines out of a hook; True where it held nothing else and is gone."""
    rest = _OURS.sub(b"", config_journal.read(path))
    if rest == _MINE:
        os.unlink(path)
        return True
    config_journal.replace(path, rest)
    return False
