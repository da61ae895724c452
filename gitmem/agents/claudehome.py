"""Claude Code's settings files, and the plugins that they switch on.

Promise: names and reads, never writes; what cannot be read counts as absent.
Where the client keeps its own notes is `automemory`'s.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from typing import Any

_MOST = 1_000_000  # characters of a settings file


def config_dir(environ: Mapping[str, str]) -> str:
    """The client's directory, `~/.claude` unless CLAUDE_CONFIG_DIR names another; "" without a
    home.
    """
    own = environ.get("CLAUDE_CONFIG_DIR", "")
    if own:
        return own
    home = environ.get("HOME", "")
    return os.path.join(home, ".claude") if home else ""


def user_settings(environ: Mapping[str, str]) -> str:
    return os.path.join(config_dir(environ), "settings.json")


def project_settings(top: str) -> list[str]:
    """The files of a project, shared and local; read only by a client that starts in this very
    directory.
    """
    return (
        [os.path.join(top, ".claude", name) for name in ("settings.json", "settings.local.json")]
        if top
        else []
    )


def read_json(path: str) -> dict[str, Any]:
    """An object from a file; empty where there is none that can be read."""
    try:
        with open(
            os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)),
            encoding="utf-8-sig",
        ) as f:
            found = json.loads(f.read(_MOST)) if stat.S_ISREG(os.fstat(f.fileno()).st_mode) else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def plugins(environ: Mapping[str, str], top: str, name: str) -> list[tuple[str, str]]:
    """(plugin@marketplace, settings file) of every enabled plugin called `name`; the nearer file
    decides.
    """
    on: dict[str, str] = {}
    for path in (user_settings(environ), *project_settings(top)):
        enabled = read_json(path).get("enabledPlugins")
        for key, value in enabled.items() if isinstance(enabled, dict) else ():
            if key.partition("@")[0] == name:
                on.pop(key, None)
                if value:
                    on[key] = path
    return list(on.items())
