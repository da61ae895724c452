"""The command that serves agents over the Model Context Protocol."""

from ..core.errors import MemError
from . import app


@app.command("mcp")
def mcp_command() -> int:
    """Serve this repository's memories to an agent over the Model Context Protocol, on stdin and
    stdout, until the agent ends. Needs the extra `mcp`.
    """
    try:
        from .. import mcp_server
    except ModuleNotFoundError as e:
        if (e.name or "").startswith("gitmem"):
            raise
        raise MemError(
            f"the MCP server needs the package 'mcp' ({e.name} is not installed)",
            hint="install git mem with its extra: pip install 'git-mem[mcp]'",
        ) from e
    mcp_server.main()
    return 0
