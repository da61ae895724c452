"""At a session's start: takes in the notes of Claude Code that changed since they were last read.

Promise: where nothing changed this costs a few `stat` calls and starts nothing. A few changed
notes are memories before the first prompt; more of them are left to the worker. Standard library
only; the reader is loaded when there is something to read.
"""

from __future__ import annotations

import time

from . import automemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..git.discover import Here

KIND = "auto-memory"  # of the event
ON_THE_SPOT = 200  # notes that a session start takes in itself
_LEAST, _EACH = 0.2, 0.002  # seconds that must be left for it: to begin with, and for each note


def step(here: Here, environ: Mapping[str, str], until: float) -> bytes | None:
    """Takes in the changed notes; returns the event to spool (and then to wake the worker) where
    `until` (monotonic) leaves no time for that, or reading failed.
    """
    disabled = environ.get("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "") not in ("", "0", "false")
    if disabled or not here.settings.flag("autoMemory"):
        return None
    sight = automemory.look(here.git_dir, here.common_dir, here.top, environ)
    if not sight.changed:
        return None
    if not sight.path or not sight.count:
        automemory.keep(here.mem_dir, sight)
        return None
    # A key may ask for its passphrase: nobody waits for that here.
    if (
        sight.count <= ON_THE_SPOT
        and not here.settings.signing
        and until - time.monotonic() > _LEAST + sight.count * _EACH
    ):
        try:
            from . import automemory_import

            automemory_import.at_start(here.top or here.common_dir, environ, sight)
            return None
        except Exception:  # the worker's attempt is logged
            pass
    return event(here.git_dir, here.top, environ)


def event(git_dir: str, top: str, environ: Mapping[str, str]) -> bytes:
    """The line that makes the worker read the directory; it names places only, no text."""
    from ..core import fastjson

    names = ("HOME", "CLAUDE_CONFIG_DIR", "CLAUDE_PROJECT_DIR")
    env = {name: environ[name] for name in names if environ.get(name)}
    facts = {"event": KIND, "git_dir": git_dir, "top": top, "env": env}
    return fastjson.encoder(ensure_ascii=True)(facts).encode()
