"""Commands that take memories elsewhere and bring them in: export, import."""

from __future__ import annotations

import sys

import typer

from .. import render
from ..core.errors import MemError, UsageError
from ..engine.filters import Filter
from ..memory import listing, transfer
from ..store import Store
from . import app
from .common import opened, read_file, refused, scope_of, write, write_json
from .options import Json, flag, text


@app.command("export")
def export_command(
    output: str = typer.Option(
        "-", "-o", "--output", metavar="FILE", help="Where to write (default: standard output)."
    ),
    format: str = typer.Option("jsonl", "--format", help="jsonl or md."),
    scope: str = typer.Option("team", "--scope", help="team, private, or all."),
) -> int:
    """Write memories as JSON Lines or Markdown; `git mem import` reads both."""
    if format not in ("jsonl", "md"):
        raise UsageError(f"--format is jsonl or md, not '{format}'")
    if scope not in ("team", "private", "all"):
        raise UsageError(f"--scope is team, private or all, not '{scope}'")
    with opened() as store:
        which = Filter(scope="" if scope == "all" else scope)
        items, _ = listing.list_memories(store, which, all_branches=True)
        several = sum("alternatives" in item for item in items)
        if several:
            have = "memory has" if several == 1 else "memories have"
            store.warn(
                f"warning: {several} {have} alternatives: the newest text of each is written"
            )
        items.reverse()  # oldest first, so that an import keeps the order
        lines = transfer.to_jsonl(items) if format == "jsonl" else transfer.to_markdown(items)
        if output == "-":
            if render.is_terminal():
                lines = (render.safe(text, lines=True) for text in lines)
            sys.stdout.writelines(lines)
            return 0
        try:
            with open(output, "w", encoding="utf-8", newline="\n") as f:
                f.writelines(lines)
        except OSError as e:
            raise MemError(f"cannot write '{output}': {e.strerror}") from e
        write(f"{len(items)} memories written to '{output}'")
        return 0


@app.command("import")
def import_command(
    file: str = typer.Argument(
        ...,
        help=(
            "A file that `git mem export` wrote (`-`: standard input); `claude`: what Claude Code"
            " noted on this project; `git-log`: what commit messages say; `adr`: decision records"
            " in the tree."
        ),
    ),
    where: str = typer.Argument(
        "",
        help=(
            "git-log: a range of commits (default: the newest 5000); adr: a directory (default:"
            " docs/adr and the like)."
        ),
    ),
    *,
    private: bool = flag(
        "--private",
        help="Keep them in private notes (`claude` and `git-log`: always, unless --team).",
    ),
    team: bool = flag("--team", help="Store them in the shared notes."),
    directory: str = text(
        "--from", metavar="DIR", help="claude: read this directory of topic files."
    ),
    dry_run: bool = flag("--dry-run", "-n", help="claude, git-log, adr: say what would be stored."),
    allow_secret: bool = flag(
        "--allow-secret", help="Store texts although they look like they hold secrets."
    ),
    as_json: Json,
) -> int:
    """Read memories that `git mem export` wrote, Claude Code's auto memory, commit messages or
    decision records; what is known adds nothing.
    """
    scope = scope_of(private, team)
    if directory and file != "claude":
        raise UsageError("--from goes with `git mem import claude`")
    if (dry_run and file not in ("claude", "git-log", "adr")) or (
        where and file not in ("git-log", "adr")
    ):
        raise UsageError(
            "--dry-run goes with claude, git-log and adr, a range with git-log, a directory"
            " with adr"
        )
    captured = "team" if team else "private"  # nobody wrote it as a memory
    with opened() as store:
        if file == "claude":  # a file of that name is './claude'
            from . import claude

            return claude.import_claude(store, directory, captured, allow_secret, dry_run, as_json)
        if file not in ("git-log", "adr"):
            return _import_file(store, file, scope, allow_secret, as_json)
        from . import imports

        if file == "git-log":
            return imports.import_log(store, where, captured, dry_run, as_json)
        return imports.import_adr(store, where, scope, allow_secret, dry_run, as_json)


def _import_file(store: Store, file: str, scope: str, allow_secret: bool, as_json: bool) -> int:
    results, broken, moved = transfer.import_text(store, read_file(file), scope, allow_secret)
    for line in broken:
        refused(line)
    for i, result in enumerate(results, 1):
        if result.status == "refused":
            refused(f"memory {i}: {result.reason}")
    statuses = [result.status for result in results]
    counts = {name: statuses.count(name) for name in ("stored", "duplicate", "refused")}
    failed = counts["refused"] + len(broken)
    if as_json:
        write_json({**counts, "broken": len(broken), "moved_to_head": moved})
    else:
        write(f"{counts['stored']} stored, {counts['duplicate']} known, {failed} refused")
        if moved:
            write(f"{moved} name a commit that is not here; they were attached to HEAD")
    store.with_cache(lambda cache: cache.count())
    return 1 if failed else 0
