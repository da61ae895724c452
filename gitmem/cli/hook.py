"""`hook`, as its help has it.

A real call is answered by `agents.hook` before any of this is loaded.
"""

from __future__ import annotations

import os

import typer

from ..agents import hook, protocol
from . import app


@app.command("hook")
def hook_command(
    event: str = typer.Argument(
        "",
        metavar="EVENT",
        help=f"In the agent's own words or in Claude Code's: {', '.join(protocol.EVENTS)}.",
    ),
    agent: str = typer.Option(
        "claude", "--agent", metavar="AGENT", help=f"Who asks: {', '.join(protocol.AGENTS)}."
    ),
) -> int:
    """Answer an agent's hook; `git mem install` enters it in the agent's settings.

    Reads the event as JSON from standard input, prints one JSON object or nothing, and always exits
    0, within a second. GIT_MEM_PATIENCE=N gives it N times the time.
    """
    hook.main([event, "--agent", agent], os.environ)
