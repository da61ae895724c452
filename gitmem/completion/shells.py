"""Puts completion of `git mem` into bash, zsh and fish, and takes it out again.

Promise: the scripts are files of their own where the shells, or git's completion in them, look by
themselves; only zsh has no such place below a home, so `.zshrc` gets a section. Uninstalling gives
back the bytes that were there (`install_log`). A script of somebody else's is left alone.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping

from ..agents import install_log
from ..core.errors import MemError

TARGET = "completion"
_SOURCE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "completion")
_OURS = "written by `git mem install completion`"  # in each script
_BEGIN, _END = "# git mem completion: begin\n", "# git mem completion: end\n"


def install(environ: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """(what was done, hints), for those of the shells that are on this machine."""
    scripts, zshrc = _places(environ)
    with install_log.opened(environ) as log:
        done, hints = [], []
        for shell, (source, path) in scripts.items():
            if not shutil.which(shell, path=environ.get("PATH", "")):
                continue
            before = install_log.read(path)
            if before is not None and _OURS not in before:
                raise MemError(f"'{path}' is not of git mem", hint="nothing was changed")
            with open(os.path.join(_SOURCE, source), encoding="utf-8") as f:
                text = f.read()
            if log.write(path, TARGET, before, text, [[0, len(text)]]):
                done.append(f"{shell}: '{path}'")
            if shell == "bash":
                hints.append(f"bash without bash-completion: source '{path}' in your ~/.bashrc")
            if shell == "zsh" and (rc := install_log.read(zshrc)) is None:
                hints.append(f"there is no '{zshrc}'; put into it: {_zsh_lines(path)}".rstrip())
            elif shell == "zsh" and rc is not None and _BEGIN not in rc:
                section = "\n" * (not rc.endswith("\n")) + _BEGIN + _zsh_lines(path) + _END
                log.write(zshrc, TARGET, rc, rc + section, [[len(rc), len(rc) + len(section)]])
                done.append(f"zsh: a section in '{zshrc}'")
        return done, [*hints, "a shell that runs already has to be started anew"] if done else []


def uninstall(environ: Mapping[str, str]) -> list[str]:
    """One line for each thing done."""
    scripts, zshrc = _places(environ)
    with install_log.opened(environ) as log:
        done = []
        for _, path in reversed(scripts.values()):  # the last one out removes the directories
            text = install_log.read(path)
            if text is not None and _OURS in text and log.write(path, TARGET, text, None):
                done.append(f"removed '{path}'")
            log.forget(path)
        rc = install_log.read(zshrc)
        if rc is not None and _BEGIN in rc and _END in rc:
            original = log.original(zshrc, rc)
            if original is None:  # others have written since
                head, _, rest = rc.partition(_BEGIN)
                original = head + rest.partition(_END)[2]
            log.write(zshrc, TARGET, rc, original)
            done.append(f"removed from '{zshrc}'")
        log.forget(zshrc)
        return done


def _places(environ: Mapping[str, str]) -> tuple[dict[str, tuple[str, str]], str]:
    """({shell: (our file, where it looks for it)}, the user's `.zshrc`)."""
    home = environ.get("HOME", "")
    data = environ.get("XDG_DATA_HOME", "") or os.path.join(home, ".local", "share")
    config = environ.get("XDG_CONFIG_HOME", "") or os.path.join(home, ".config")
    bash = os.path.join(data, "bash-completion", "completions", "git-mem")
    zsh = os.path.join(data, "git-mem", "zsh", "_git-mem")
    fish = os.path.join(config, "fish", "conf.d", "git-mem.fish")
    scripts = {
        "bash": ("git-mem.bash", bash),
        "zsh": ("_git-mem", zsh),
        "fish": ("git-mem.fish", fish),
    }
    return scripts, os.path.join(environ.get("ZDOTDIR", "") or home, ".zshrc")


def _zsh_lines(path: str) -> str:
    """At the end of a `.zshrc`, where `compinit` has run, if it does."""
    return (
        f"fpath+=({shlex.quote(os.path.dirname(path))}); autoload -Uz _git-mem;"
        " (( $+functions[compdef] )) && compdef _git-mem git-mem\n"
    )
