"""The command that shows how memories are connected."""

from collections.abc import Iterator
from typing import Any

from ..core.plural import many
from ..memory import graph
from ..store import Store
from .options import Answer, argument, command, number, one_of, wants_json


@command("graph")
def graph_command(
    store: Store,
    as_json: bool,
    id: str = argument("[ID]", "Show the neighbours of this memory.", ""),
    format: str = one_of("--format text|dot|json", "`dot`: for Graphviz."),
    kind: list[str] = one_of(
        f"--kind {'|'.join(graph.STRENGTH)}", "Only edges of this kind; repeatable.", several=True
    ),
    limit: int = number(
        "-n --limit", "How many communities at most (default 10), neighbours (20), or nodes (100)."
    ),
) -> int:
    """Show how memories are connected: communities and their central memories, or the neighbours of
    one memory.

    Communities need the extra `graph` (networkx). Exit code 1 where there is none.
    """
    kinds, as_json = kind or list(graph.STRENGTH), wants_json(as_json, format)
    if id:
        found = graph.around(store, id, kinds, limit)
        nodes, lines = [found, *found["neighbours"]], _neighbours(found)
        something = found["neighbours"]
    else:
        found = graph.overview(store, kinds, limit)
        nodes, lines = found["nodes"], _communities(found)
        something = nodes if as_json or format == "dot" else found["communities"]
    if format == "dot":
        lines = iter(graph.dot([node for node in nodes if "title" in node], found["links"]))
    return Answer(found, lines, 0 if something else 1).print(as_json)


def _communities(found: dict[str, Any]) -> Iterator[str]:
    counts = ", ".join(f"{n} {name}" for name, n in found["edges"].items() if n)
    yield f"{many(found['memories'], 'memory')}, edges: {counts or 'none'}"
    for group in found["communities"]:
        about = f": {', '.join(group['paths'])}" if group["paths"] else ""
        yield from ("", f"{group['size']} memories{about}")
        yield from (f"  {_line(node)}" for node in group["central"])
    if found["communities"] and found["single"]:
        yield from ("", f"{found['single']} stand alone")


def _neighbours(found: dict[str, Any]) -> Iterator[str]:
    yield _line(found) if "title" in found else f"{found['id'][:8]} is forgotten"
    for node in found["neighbours"]:
        kinds = ", ".join(f"{kind} {weight:.2f}" for kind, weight in node["kinds"].items())
        yield f"  {_line(node)}  ({kinds})"
    if found["more"]:
        yield f"  … {found['more']} more; -n raises the limit"
    if not found["neighbours"]:
        yield "  no neighbours"


def _line(node: dict[str, Any]) -> str:
    superseded = " (superseded)" if node.get("status") else ""
    return f"{node['id'][:8]} {node['type']}: {node['title']}{superseded}"
