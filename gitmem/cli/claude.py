"""The word `claude` of `git mem import` and `git mem sync`: Claude Code's auto memory, read and
written.
"""

from __future__ import annotations

import os

from ..agents import automemory, automemory_dir, automemory_export, automemory_import
from ..agents.automemory_dir import KEPT, LEFT, REMOVED, UNCHANGED, WRITTEN
from ..agents.automemory_import import EDITED, KNOWN, OURS, REFUSED, STORED
from ..core.errors import MemError
from ..store import Store
from .common import refused, values, write, write_json


def import_claude(
    store: Store, directory: str, scope: str, allow_secret: bool, dry_run: bool, as_json: bool
) -> int:
    """Takes the project's auto memory in, or the directory given; exit code 1 where a file was
    refused.
    """
    sight = None if directory else _look(store)
    if sight and sight.refused:
        raise MemError(
            f"'.claude/settings.json' names the directory '{sight.refused}', which is outside the"
            " repository",
            hint=(
                "a committed file may not say what is read here; if you trust it, name the"
                " directory with --from"
            ),
        )
    path = sight.path if sight else os.path.abspath(directory)
    report = automemory_import.take(
        store, path, scope=scope, allow_secret=allow_secret, dry=dry_run
    )
    if not dry_run:
        store.with_cache(lambda cache: cache.count())
        if sight:
            automemory.keep(store.repo.mem_dir, sight)
    for item in report.items:
        if item.status == REFUSED:
            refused(f"'{item.file}': {item.reason}", item.hint)
    names = (STORED, EDITED, KNOWN, OURS, REFUSED)
    counts = {status: report.count(status) for status in names}
    if as_json:
        write_json(
            {
                "directory": report.directory,
                "dry_run": dry_run,
                **counts,
                "missing": report.missing,
                "topics": [
                    values(item, "file", "status", "id", "title", "reason") for item in report.items
                ],
            }
        )
    else:
        for item in report.items:
            if item.status in (STORED, EDITED):
                id = item.id[:8] + " " if item.id else ""
                write(f"{id}{item.status} {item.file}: {item.title}")
        would = "would be " if dry_run else ""
        write(
            f"{counts[STORED]} {would}stored, {counts[EDITED]} {would}edited,"
            f" {counts[KNOWN] + counts[OURS]} known, {counts[REFUSED]} refused,"
            f" from '{report.directory}'"
        )
        for name in report.missing:
            write(f"MEMORY.md names '{name}', which is not there")
    return 1 if counts[REFUSED] else 0


def sync_claude(
    store: Store, limit: int, remove: bool, dry_run: bool, quiet: bool, as_json: bool
) -> int:
    """Writes memories where the client loads them, or removes them from there."""
    directory = _target(store)
    if remove:
        report = automemory_dir.remove(store, directory, dry=dry_run)
    else:
        team_only = automemory_export.in_tree(store, directory)
        memories = automemory_export.choose(
            store, limit or automemory_export.MOST, team_only=team_only
        )
        report = automemory_export.write(store, directory, memories, dry=dry_run)
    names = (WRITTEN, UNCHANGED, REMOVED, KEPT, LEFT)
    counts = {status: report.count(status) for status in names}
    if as_json:
        write_json(
            {
                "directory": directory,
                "dry_run": dry_run,
                **{k.replace(" ", "_"): n for k, n in counts.items()},
                "files": [
                    {**values(item, "file", "status", "title", "reason"), "id": item.id}
                    for item in report.items
                ],
            }
        )
    elif not quiet:
        for item in report.items:
            if item.status != UNCHANGED:
                reason = f" ({item.reason})" if item.reason else ""
                write(f"{item.status} {item.file}: {item.title}{reason}")
        would = "would be " if dry_run else ""
        write(
            f"{counts[WRITTEN]} {would}written, {counts[UNCHANGED]} unchanged,"
            f" {counts[REMOVED]} {would}removed, in '{directory}'"
        )
    return 0


def _target(store: Store) -> str:
    """The directory that the client uses, where a person named it or nobody did."""
    sight = _look(store)
    if sight.origin == "project":
        raise MemError(
            f"'.claude/settings.json' names the directory '{sight.path or sight.refused}'",
            hint=(
                "a committed file may not say where git mem writes; `autoMemoryDirectory` in"
                " .claude/settings.local.json goes before it"
            ),
        )
    return sight.path


def _look(store: Store) -> automemory.Sight:
    """What the client would use. Raises MemError where no home says where that is."""
    sight = automemory.look(store.repo.git_dir, store.repo.common_dir, store.repo.top, os.environ)
    if not sight.path and not sight.refused:
        raise MemError(
            "no directory of Claude Code's that could be named",
            hint=(
                "HOME, or CLAUDE_CONFIG_DIR where it is set, has to be an absolute path; --from"
                " names a directory to read"
            ),
        )
    return sight
