"""The command that takes memories elsewhere: export."""

import sys

from .. import render
from ..core.errors import UsageError
from ..core.plural import many
from ..engine.filters import Filter
from ..memory import listing, transfer
from ..migration import vault
from ..store import Store
from .claude import export_claude
from .common import write, write_as_file, write_file
from .options import Answer, argument, command, flag, number, one_of, text


@command("export")
def export_command(
    store: Store,
    what: str = argument(
        "[claude|DIR]",
        "claude: as files of Claude Code's auto memory, which it loads by itself; DIR: where"
        " --format markdown writes a file a memory.",
        "",
    ),
    output: str = text("-o --output FILE", "Where to write (default: standard output)."),
    format: str = one_of(
        "--format jsonl|md|markdown", "`md`: a page; `markdown`: a directory; default: jsonl."
    ),
    scope: str = one_of("--scope team|private|all", "Default: team."),
    limit: int = number("--limit", "claude: how many memories at most (default 50).", most=150),
    remove: bool = flag("--remove", "claude: take those files out again."),
    dry_run: bool = flag("--dry-run -n", "claude: only say what would be written."),
    quiet: bool = flag("-q --quiet", "claude: print nothing but errors."),
    as_json: bool = flag("--json", "claude: print JSON; else the same as --format jsonl."),
) -> Answer | int:
    """Write memories as JSON Lines or Markdown, for `git mem import`, or for Claude Code."""
    claude = what == "claude" and format != "markdown"
    if not claude and (limit or remove or dry_run or quiet):
        raise UsageError("--limit, --remove, --dry-run and --quiet go with `git mem export claude`")
    if claude:
        if output or format or scope:
            raise UsageError("`git mem export claude` takes no --output, --format or --scope")
        return export_claude(store, limit, remove, dry_run, quiet)
    output, format = output or "-", format or "jsonl"
    _check(what, output, format, as_json)
    which = Filter(scope="" if scope == "all" else scope or "team")
    items = listing.list_memories(store, which, all_branches=True).items
    if not scope:
        first = listing.list_memories(store, Filter(), limit=1, all_branches=True)
        if left := len(first.items) + first.more - len(items):
            store.warn(f"{left} private left out (--scope all)")
    several = sum("alternatives" in item for item in items)
    if several:
        have = f"{many(several, 'memory')} {'has' if several == 1 else 'have'}"
        store.warn(f"warning: {have} alternatives: the newest text of each is written")
    items.reverse()  # oldest first, so that an import keeps the order
    if format == "markdown":
        vault.write(what, items)
        write(f"{many(len(items), 'memory')} written to '{what}'")
        return 0
    lines = transfer.to_jsonl(items) if format == "jsonl" else transfer.to_markdown(items)
    if output != "-":
        write_file(output, lines)
        write(f"{many(len(items), 'memory')} written to '{output}'")
        return 0
    if render.is_terminal():
        sys.stdout.writelines(render.safe(text, lines=True) for text in lines)
    else:
        write_as_file(lines)
    return 0


def _check(what: str, output: str, format: str, as_json: bool) -> None:
    if format == "markdown" and (not what or output != "-"):
        raise UsageError("--format markdown takes a directory, no --output")
    if what and format != "markdown":
        raise UsageError(
            f"git mem cannot export to '{what}'",
            hint="-o FILE writes a file, --format markdown a directory",
        )
    if as_json and format != "jsonl":
        raise UsageError(f"--json and --format {format} are two formats")
