"""The word `claude` of `git mem import` and `git mem sync`: Claude Code's auto memory, read and
written.
"""

from __future__ import annotations

import os

from ..agents import automemory, automemory_dir, automemory_export, automemory_import
from ..core.errors import MemError
from ..store import Store
from .common import refused, write, write_json


def import_claude(
    store: Store, directory: str, scope: str, allow_secret: bool, dry_run: bool, as_json: bool
) -> int:
    """Takes the project's auto memory in, or the directory given; exit code 1 where a file was
    refused.
    """
    sight = (
        _look(store)
        if not directory
        else automemory.look(store.repo.git_dir, store.repo.common_dir, store.repo.top, os.environ)
    )
    if sight.refused and not directory:
        raise MemError(
            f"'.claude/settings.json' names the directory '{sight.refused}', which is outside the"
            " repository",
            hint=(
                "a committed file may not say what is read here; if you trust it, name the"
                " directory with --from"
            ),
        )
    report = automemory_import.take(
        store,
        os.path.abspath(directory) if directory else sight.path,
        scope=scope,
        allow_secret=allow_secret,
        dry=dry_run,
    )
    if not dry_run:
        store.with_cache(lambda cache: cache.count())
        if not directory:
            automemory.keep(store.repo.mem_dir, sight)
    for item in report.items:
        if item.status == automemory_import.REFUSED:
            refused(f"'{item.file}': {item.reason}", item.hint)
    counts = {
        status: report.count(status)
        for status in (
            automemory_import.STORED,
            automemory_import.EDITED,
            automemory_import.KNOWN,
            automemory_import.OURS,
            automemory_import.REFUSED,
        )
    }
    if as_json:
        write_json(
            {
                "directory": report.directory,
                "dry_run": dry_run,
                **counts,
                "missing": report.missing,
                "topics": [
                    {
                        "file": i.file,
                        "status": i.status,
                        "id": i.id or None,
                        "title": i.title,
                        "reason": i.reason,
                    }
                    for i in report.items
                ],
            }
        )
    else:
        for item in report.items:
            if item.status in (automemory_import.STORED, automemory_import.EDITED):
                write(
                    f"{item.id[:8] + ' ' if item.id else ''}{item.status} {item.file}: {item.title}"
                )
        would = "would be " if dry_run else ""
        write(
            f"{counts[automemory_import.STORED]} {would}stored,"
            f" {counts[automemory_import.EDITED]} {would}edited,"
            f" {counts[automemory_import.KNOWN] + counts[automemory_import.OURS]} known,"
            f" {counts[automemory_import.REFUSED]} refused, from '{report.directory}'"
        )
        for name in report.missing:
            write(f"MEMORY.md names '{name}', which is not there")
    return 1 if counts[automemory_import.REFUSED] else 0


def sync_claude(
    store: Store, limit: int, remove: bool, dry_run: bool, quiet: bool, as_json: bool
) -> int:
    """Writes memories where the client loads them, or removes them from there."""
    directory = _target(store)
    if remove:
        report = automemory_dir.remove(store, directory, dry=dry_run)
    else:
        team_only = automemory_export.in_tree(store, directory)
        most = limit or automemory_export.MOST
        chosen = automemory_export.choose(store, most, team_only=team_only)
        report = automemory_export.write(store, directory, chosen, dry=dry_run)
    counts = {
        status: report.count(status)
        for status in (
            automemory_dir.WRITTEN,
            automemory_dir.UNCHANGED,
            automemory_dir.REMOVED,
            automemory_dir.KEPT,
            automemory_dir.LEFT,
        )
    }
    if as_json:
        write_json(
            {
                "directory": directory,
                "dry_run": dry_run,
                **{k.replace(" ", "_"): n for k, n in counts.items()},
                "files": [
                    {
                        "file": i.file,
                        "id": i.id,
                        "status": i.status,
                        "title": i.title,
                        "reason": i.reason,
                    }
                    for i in report.items
                ],
            }
        )
    elif not quiet:
        for item in report.items:
            if item.status != automemory_dir.UNCHANGED:
                write(
                    f"{item.status} {item.file}: {item.title}"
                    + (f" ({item.reason})" if item.reason else "")
                )
        would = "would be " if dry_run else ""
        write(
            f"{counts[automemory_dir.WRITTEN]} {would}written, {counts[automemory_dir.UNCHANGED]}"
            f" unchanged, {counts[automemory_dir.REMOVED]} {would}removed, in '{directory}'"
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
