"""The command that shows how memories are connected."""

from __future__ import annotations

from typing import Any

import typer

from ..core.errors import UsageError
from ..memory import graph, graphview
from . import app
from .common import opened, write, write_json


@app.command("graph")
def graph_command(
    id: str = typer.Argument("", metavar="[ID]", help="Show the neighbours of this memory."),
    format: str = typer.Option(
        "text", "--format", metavar="FORMAT", help="text, dot (for Graphviz) or json."
    ),
    kind: list[str] = typer.Option(
        [],
        "--kind",
        metavar="KIND",
        help=f"Only edges of this kind ({', '.join(graph.STRENGTH)}); may be repeated.",
    ),
    limit: int = typer.Option(
        None,
        "-n",
        "--limit",
        min=1,
        help=(
            "How many at most: communities (default 10), neighbours (20), or memories drawn (100)."
        ),
        show_default=False,
    ),
    as_json: bool = typer.Option(False, "--json", help="The same as --format json."),
) -> int:
    """Show how memories are connected: communities and their central memories, or the neighbours of
    one memory. Exit code 1 where there is none.

    Memories are connected by common files, one session, one author within half an hour, like
    texts, like meaning, an id that a text names, and by superseding. Communities need the extra
    `graph` (networkx)."""
    format = "json" if as_json else format
    if format not in ("text", "dot", "json"):
        raise UsageError(f"--format is text, dot or json, not '{format[:40]}'")
    kinds = graphview.kinds_of(kind)
    with opened() as store:
        if id:
            found = graphview.around(store, id, kinds, limit)
            nodes = (
                [{k: found.get(k) for k in ("id", "title", "type")}, *found["neighbours"]]
                if "title" in found
                else []
            )
            something = bool(found["neighbours"])
        else:
            found = graphview.overview(store, kinds, limit, format != "text")
            nodes = found.get("nodes", [])
            something = bool(nodes or found.get("communities"))
    if format == "json":
        write_json(found)
        return 0 if something else 1
    if format == "dot":
        lines = graphview.dot(nodes, found["links"])
    else:
        lines = _neighbours(found) if id else _communities(found)
    for line in lines:
        write(line)
    return 0 if something else 1


def _communities(found: dict[str, Any]) -> list[str]:
    counts = ", ".join(f"{n} {name}" for name, n in found["edges"].items() if n)
    out = [f"{found['memories']} memories, edges: {counts or 'none'}"]
    for group in found["communities"]:
        about = f": {', '.join(group['paths'])}" if group["paths"] else ""
        out += [
            "",
            f"{group['size']} memories{about}",
            *(f"  {_line(node)}" for node in group["central"]),
        ]
    if found["communities"] and found["single"]:
        out += ["", f"{found['single']} stand alone"]
    return out


def _neighbours(found: dict[str, Any]) -> list[str]:
    out = [_line(found)] if "title" in found else [f"{found['id'][:8]} is forgotten"]
    for node in found["neighbours"]:
        kinds = ", ".join(f"{kind} {weight:.2f}" for kind, weight in node["kinds"].items())
        out.append(f"  {_line(node)}  ({kinds})")
    if found["more"]:
        out.append(f"  … {found['more']} more; -n raises the limit")
    if not found["neighbours"]:
        out.append("  no neighbours")
    return out


def _line(node: dict[str, Any]) -> str:
    return f"{node['id'][:8]} {node['type']}: {node['title']}" + (
        " (superseded)" if node.get("status") else ""
    )
