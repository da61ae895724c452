"""Where Claude Code keeps what is the user's: settings, plugins, transcripts, auto memory.

Promise: names and reads, never writes; what cannot be read counts as absent.
The layout is the client's own and may change with a release, so it is named
here and nowhere else.
"""

from __future__ import annotations

import glob
import json
import os
import re
import stat
from collections.abc import Mapping
from typing import Any

_MOST = 1_000_000  # characters of a settings file
_LONGEST = 200  # of a project's directory name; the client cuts there and adds a hash


def config_dir(environ: Mapping[str, str]) -> str:
    """The client's directory, `~/.claude` unless CLAUDE_CONFIG_DIR names another; "" without a home."""
    own = environ.get("CLAUDE_CONFIG_DIR", "")
    if own:
        return own
    home = environ.get("HOME", "")
    return os.path.join(home, ".claude") if home else ""


def user_settings(environ: Mapping[str, str]) -> str:
    return os.path.join(config_dir(environ), "settings.json")


def project_settings(top: str) -> list[str]:
    """The files of a project, shared and local; read only by a client that starts in this very directory."""
    return [os.path.join(top, ".claude", name) for name in ("settings.json", "settings.local.json")] if top else []


def slug(directory: str) -> str:
    """A directory's name below `projects/`, before the cut."""
    return re.sub(r"[^0-9A-Za-z]", "-", directory)


def project_dir(environ: Mapping[str, str], directory: str) -> str:
    """Where transcripts and auto memory of sessions in `directory` lie; for auto memory, the root of the main working tree counts."""
    projects = os.path.join(config_dir(environ), "projects")
    name = slug(directory)
    if len(name) <= _LONGEST:
        return os.path.join(projects, name)
    found = sorted(glob.glob(os.path.join(glob.escape(projects), glob.escape(name[:_LONGEST]) + "*")))
    return found[0] if len(found) == 1 else ""


def memory_dir(environ: Mapping[str, str], root: str) -> str:
    """The auto memory of the project whose main working tree is `root`; "" where it has none that can be named.

    A directory that the user's own settings or the local ones name goes before;
    a committed file is not asked where memory lies.
    """
    named = ""
    for path in (user_settings(environ), *project_settings(root)[1:]):
        value = read_json(path).get("autoMemoryDirectory")
        if isinstance(value, str) and value.startswith(("/", "~/")):
            named = value
    if named:
        return os.path.join(environ.get("HOME", ""), named[2:]) if named.startswith("~/") else named
    place = project_dir(environ, root)
    return os.path.join(place, "memory") if place else ""


def read_json(path: str) -> dict[str, Any]:
    """An object from a file; empty where there is none that can be read."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)), encoding="utf-8-sig") as f:
            found = json.loads(f.read(_MOST)) if stat.S_ISREG(os.fstat(f.fileno()).st_mode) else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def plugins(environ: Mapping[str, str], top: str, name: str) -> list[tuple[str, str]]:
    """(plugin@marketplace, settings file) of every enabled plugin called `name`; the nearer file decides."""
    on: dict[str, str] = {}
    for path in (user_settings(environ), *project_settings(top)):
        enabled = read_json(path).get("enabledPlugins")
        for key, value in (enabled.items() if isinstance(enabled, dict) else ()):
            if key.partition("@")[0] == name:
                on.pop(key, None)
                if value:
                    on[key] = path
    return list(on.items())
