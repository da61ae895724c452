"""The command that serves agents over the Model Context Protocol."""

import os

from .. import opening, prefork_server
from ..embedding import reader
from .common import needs_mcp, warn
from .options import command


@command("mcp", json=False)
def mcp_command() -> int:
    """Serve this repository's memories to an agent over the Model Context Protocol, on stdin and
    stdout, until the agent ends; its prompts are answered faster meanwhile. Needs the extra `mcp`.
    """
    needs_mcp()
    place = os.environ.get("CLAUDE_PROJECT_DIR") or "."
    with opening.opened(os.environ, place, warn) as store:
        common_dir, home, settings = store.repo.common_dir, store.home, store.settings
    encodes = settings.flag("encoder") and not settings.replaced
    if encodes:
        reader.pack()  # before the forks: all share the weights
    with prefork_server.beside(common_dir):
        if encodes:
            reader.begin()
        from .. import mcp_server  # its threads come after the fork

        mcp_server.serve(place, home)
    return 0
