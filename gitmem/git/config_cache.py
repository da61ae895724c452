"""What git's configuration says, kept in `mem/settings-*.json`, so that nobody needs git for it.

Promise: what `load` gives is what `git config` would say now, or None. Kept with it are the stamps
of all files that it came from or would come from if they were there (also the targets of
`include`), and HEAD where an `includeIf.onbranch` looks at it. A day later git is asked again.
"""

from __future__ import annotations

import os

from ..core import fastjson
from ..core.digest import sha256
from . import config, memfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .repository import Repo

    Stamp = list[str | int]

# They name the configuration files: part of the name of the kept settings.
_NAMING = "HOME XDG_CONFIG_HOME GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_NOSYSTEM"
_SYSTEM = ("/etc/gitconfig", "/usr/local/etc/gitconfig", "/opt/homebrew/etc/gitconfig")
_FORM = 2  # of the kept settings
_KEPT = 32  # files of kept settings in one repository
_OLDEST = 86400  # seconds; a configuration file nobody can know of may have come
_TICK = 50_000_000  # nanoseconds in which two writes may leave one time


def path(mem_dir: str, git_dir: str, top: str, environ: Mapping[str, str]) -> str:
    """The file for one place and one user's configuration."""
    named = "\0".join(
        [git_dir, top, str(os.geteuid()), *(environ.get(name, "\1") for name in _NAMING.split())]
    ).encode("utf-8", "surrogateescape")
    return os.path.join(mem_dir, f"settings-{sha256(named).hexdigest()[:24]}.json")


def _stamp(file: str) -> Stamp:
    try:
        found = os.stat(file)
    except OSError:
        return [file, 0, 0, 0, 0]
    # The last one for those who put a file's time back after a change.
    return [file, found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns]


def load(name: str, head: str) -> dict[str, Any] | None:
    """What `read` kept under a name; None where that is missing, damaged or no longer true."""
    try:
        known: dict[str, Any] = fastjson.loads(memfile.read(name))
        since = os.stat(name).st_mtime
        if (
            known["form"] != _FORM
            or known["head"] not in ("", head.strip())
            or not all(isinstance(known[k], dict) for k in ("core", "git", "policy"))
            or not isinstance(known["own"], list)
            or any(_stamp(stamp[0]) != stamp for stamp in known["files"])
        ):
            return None
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None
    from time import time

    return known if abs(time() - since) < _OLDEST else None


def read(repo: Repo, environ: Mapping[str, str], keep: bool = True) -> dict[str, Any]:
    """What git's configuration says, by one call; kept for `load` where that is sound."""
    from time import time_ns

    from . import config_read  # hooks that only `load` do without it

    home = environ.get("HOME", "")
    user = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    files = {
        os.path.join(repo.common_dir, "config"),
        os.path.join(repo.git_dir, "config.worktree"),
        os.path.join(home, ".gitconfig"),
        os.path.join(user, "git", "config"),
        os.path.join(repo.top or repo.git_dir, ".gitmem.toml"),
        *filter(None, map(environ.get, ("GIT_CONFIG_SYSTEM", "GIT_CONFIG_GLOBAL"))),
        *_SYSTEM,
    }
    began = time_ns()
    named, before = set(files), list(map(_stamp, files))
    policy = config_read.policy(repo.top)
    out: dict[str, Any] = {"form": _FORM, "head": "", "core": {}, "git": {}, "policy": policy}
    out["own"] = []
    steady = True
    for scope, origin, key, value in config_read.rows(repo):
        own = scope in ("local", "worktree")
        if config_read.wanted(key):
            out["git"][key] = value
        if key in ("core.worktree", "core.bare") or (key.startswith("extensions.") and own):
            out["core"][key] = value
        if own and (key.startswith("mem.") or key.endswith("/team.mergestrategy")):
            out["own"].append(key)
        if not origin.startswith("file:"):
            steady = False
            continue
        files.add(origin[5:])
        if key == "include.path" or (key.startswith("includeif.") and key.endswith(".path")):
            files.add(os.path.join(os.path.dirname(origin[5:]), os.path.expanduser(value)))
        if key.startswith("includeif.onbranch:"):
            with open(os.path.join(repo.git_dir, "HEAD"), "rb") as f:
                out["head"] = os.fsdecode(f.read()).strip()
    if "core.bare" in out["core"]:
        out["core"]["core.bare"] = "true" if config.is_true(out["core"]["core.bare"]) else "false"
    out["files"] = list(map(_stamp, sorted(files)))
    quiet = all(int(stamp[1]) < began - _TICK for stamp in out["files"])
    # One that an include names was not looked at before: it may have been renamed since.
    quiet &= all(int(s[4]) < began - _TICK for s in out["files"] if s[0] not in named)
    fresh = quiet and all(stamp in out["files"] for stamp in before)
    known = steady and all(map(os.path.isabs, files))
    if keep and known and fresh and os.path.isdir(repo.mem_dir):
        _keep(path(repo.mem_dir, repo.git_dir, repo.top, environ), out)
    return out


def _keep(name: str, known: dict[str, Any]) -> None:
    try:
        memfile.write(name, fastjson.encoder(ensure_ascii=True)(known).encode("ascii"))
        mem_dir = os.path.dirname(name)
        kept = [os.path.join(mem_dir, n) for n in os.listdir(mem_dir) if n.startswith("settings-")]
        for old in sorted(kept, key=os.path.getmtime)[:-_KEPT]:
            os.unlink(old)
    except (OSError, ValueError):
        pass  # nobody can write here: git is asked again
