"""`git mem export claude`: memories as files of Claude Code's auto memory; where that lies."""

import os

from ..agents import automemory, automemory_dir, automemory_export
from ..core.errors import MemError
from ..store import Store
from .common import values
from .options import Answer


def export_claude(
    store: Store, limit: int | None, remove: bool, dry_run: bool, quiet: bool
) -> Answer:
    """Writes memories where the client loads them, or removes them from there."""
    sight = look(store)
    if sight.origin == "project":
        raise MemError(
            f"'.claude/settings.json' names the directory '{sight.path or sight.refused}'",
            hint="a committed file may not say where git mem writes; `autoMemoryDirectory` in"
            " .claude/settings.local.json goes before it",
        )
    directory = sight.path
    if remove:
        report = automemory_dir.remove(store, directory, dry=dry_run)
    else:
        team_only = automemory_export.in_tree(store, directory)
        most = limit or automemory_export.MOST
        memories = automemory_export.choose(store, most, team_only=team_only)
        report = automemory_export.write(store, directory, memories, dry=dry_run)
    statuses = ("written", "unchanged", "removed", "kept", "left out")
    counts = {status.replace(" ", "_"): report.count(status) for status in statuses}
    files, lines, would = [], [], "would be " if dry_run else ""
    for item in report.items:
        files.append({**values(item, "file", "status", "title", "reason"), "id": item.id})
        if item.status != automemory_dir.UNCHANGED:
            reason = f" ({item.reason})" if item.reason else ""
            done = would if item.status in ("written", "removed") else ""
            lines.append(f"{done}{item.status} {item.file}: {item.title}{reason}")
    lines.append(
        f"{counts['written']} {would}written, {counts['unchanged']} unchanged,"
        f" {counts['removed']} {would}removed, in '{directory}'"
    )
    found = {"directory": directory, "dry_run": dry_run, **counts, "files": files}
    return Answer(found, [] if quiet else lines)


def look(store: Store) -> automemory.Sight:
    """What the client would use. Raises MemError where no home says where that is."""
    sight = automemory.Sight(store.repo.git_dir, store.repo.common_dir, store.repo.top, os.environ)
    if not sight.path and not sight.refused:
        raise MemError(
            "no directory of Claude Code's that could be named",
            hint="HOME, or CLAUDE_CONFIG_DIR where it is set, has to be an absolute path; --from"
            " names a directory to read",
        )
    return sight
