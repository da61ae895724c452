"""The words `git-log` and `adr` of `git mem import`: what a project has said of itself already."""

from __future__ import annotations

import os

from ..capture import commitlog, pipeline, suggestions
from ..capture.pipeline import KEPT, KNOWN, REFUSED, SKIPPED, SUGGESTED
from ..core.errors import GitFailed, UsageError
from ..memory import adr
from ..store import Store
from .common import refused, values, write, write_json

MOST = 5_000  # commits where no range bounds them


def import_log(store: Store, given: str, scope: str, dry_run: bool, as_json: bool) -> int:
    """Keeps what commit messages say for certain, and proposes the surest of the rest: of every
    commit of a range, or of the newest of HEAD.

    Private, unless --team: capture found it, nobody wrote it as a memory. Suggestions are private
    in any case."""
    if given.startswith("-"):
        raise UsageError(f"'{given}' is no range of commits", hint="write it like v1.0..HEAD")
    if not given and not store.repo.head():
        commits = []
    else:
        try:
            commits = commitlog.read(
                store.repo.git, [given or "HEAD"], [], 1_000_000 if ".." in given else MOST
            )
        except GitFailed as e:
            raise UsageError(
                f"git knows no commits '{given}'", hint="write it like v1.0..HEAD"
            ) from e
    candidates = commitlog.candidates(commits)
    outcomes = pipeline.keep(
        store,
        candidates,
        scope=scope,
        most=store.settings.number("suggestions") * suggestions.HELD,
        dry=dry_run,
    )
    statuses = [outcome.status for outcome in outcomes]
    counts = {
        status: statuses.count(status) for status in (KEPT, SUGGESTED, KNOWN, REFUSED, SKIPPED)
    }
    if not dry_run:
        store.with_cache(lambda cache: cache.count())
    rows = [
        (c, o)
        for c, o in zip(candidates, outcomes, strict=True)
        if o.status in (KEPT, SUGGESTED, REFUSED)
    ]
    if as_json:
        write_json(
            {
                "dry_run": dry_run,
                "commits": len(commits),
                **counts,
                "memories": [
                    {
                        "commit": c.commit,
                        "status": o.status,
                        "id": o.id or None,
                        "type": o.type or None,
                        "confidence": round(o.confidence, 4),
                        "stage": o.stage or None,
                        "body": c.text if o.status != REFUSED else None,
                        "paths": c.paths,
                        "supersedes": o.old or None,
                        "reason": o.reason,
                    }
                    for c, o in rows
                ],
            }
        )
        return 0
    for c, o in rows:
        if o.status == REFUSED:
            refused(f"commit {c.commit[:8]}: {o.reason}")
        else:
            id, line = o.id[:8] + " " if o.id else "", c.text.partition("\n")[0][:100]
            write(f"{id}{o.status} {c.commit[:8]} {o.type}: {line}")
    would = "would be " if dry_run else ""
    summary = (
        f"{counts[KEPT]} {would}kept, {counts[SUGGESTED]} {would}suggested, {counts[KNOWN]} known,"
        f" {counts[REFUSED]} refused, of {len(commits)} commits"
    )
    if beyond := sum(o.reason == pipeline.BEYOND for o in outcomes):
        summary += f"; {beyond} less sure ones were left out"
    if counts[SUGGESTED] and not dry_run:
        summary += "; `git mem review` decides about suggestions"
    write(summary)
    return 0


def import_adr(
    store: Store, given: str, scope: str, allow_secret: bool, dry_run: bool, as_json: bool
) -> int:
    """Takes decision records in; exit code 1 where a file was refused."""
    items = adr.take(
        store,
        os.path.abspath(given) if given else "",
        scope=scope,
        allow_secret=allow_secret,
        dry=dry_run,
    )
    if not dry_run:
        store.with_cache(lambda cache: cache.count())
    statuses = [item.status for item in items]
    names = (adr.STORED, adr.EDITED, adr.KNOWN, adr.LEFT, adr.REFUSED)
    counts = {status: statuses.count(status) for status in names}
    for item in items:
        if item.status == adr.REFUSED:
            refused(f"'{item.path}': {item.reason}")
    if as_json:
        write_json(
            {
                "dry_run": dry_run,
                **{k.replace(" ", "_"): n for k, n in counts.items()},
                "files": [values(i, "path", "status", "id", "title", "reason") for i in items],
            }
        )
    else:
        for item in items:
            if item.status in (adr.STORED, adr.EDITED):
                id = item.id[:8] + " " if item.id else ""
                write(f"{id}{item.status} {item.path}: {item.title}")
            elif item.status == adr.LEFT:
                write(f"left out {item.path}: {item.reason}")
        would = "would be " if dry_run else ""
        write(
            f"{counts[adr.STORED]} {would}stored, {counts[adr.EDITED]} {would}edited,"
            f" {counts[adr.KNOWN]} known, {counts[adr.LEFT]} left out, {counts[adr.REFUSED]}"
            " refused"
        )
    return 1 if counts[adr.REFUSED] else 0
