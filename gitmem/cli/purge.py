"""The command that takes a text away for good, asks before, and proves it after."""

from __future__ import annotations

import sys
from typing import Any

import typer

from .. import private_sync
from ..core import record
from ..core.errors import UsageError
from ..erasure import purge
from ..render import progress
from . import app
from .common import interactive, many, opened, refused, write, write_json
from .options import flag

_SHOWN = 20  # deleted objects that are listed without --json


@app.command("purge")
def purge_command(
    id: str = typer.Argument(
        ...,
        help=(
            "The memory, by a unique prefix of its id; or a suggestion, likewise; or a line of a"
            " note that is no memory, by a prefix of its version (`git mem doctor` and `git mem"
            " verify` name them); or what was purged before, to finish it."
        ),
    ),
    *,
    force: bool = flag("--force", help="Do not ask."),
    as_json: bool = flag("--json", help="Print JSON, with the id of every deleted object."),
) -> int:
    """Take a memory's text out of this repository for good: notes, history, objects, cache. A
    tombstone without text keeps it out.

    The tombstone of a line names the hash of its text: who can guess the line can tell that it was
    there."""
    if not force and (as_json or not interactive()):
        raise UsageError(
            "purge asks before it deletes, and there is no terminal to ask on",
            hint="with --force it does not ask",
        )
    with opened() as store:
        target = purge.find(store, id)
        if not force and not target.gone and not _confirmed(target):
            write("nothing was changed")
            return 1
        with progress("searching objects", total=None) as advance:
            report = purge.purge(store, target, advance)
        given_to = private_sync.given(store.repo.common_dir)
        if as_json:
            write_json({**_as_json(target, report), "private_given_to": given_to})
        else:
            _say(target, report)
            for name in given_to:
                write(
                    f"'{name}' was given your private notes: `git mem push --private-to {name}`"
                    " takes the text out of them there"
                )
        for name in report.held:
            refused(f"the text is still here: {name} leads to it")
        if report.held and not as_json:
            write(
                "what is not git mem's own was left as it is; once it is gone, the same purge"
                " finishes"
            )
        return 1 if report.held else 0


def _confirmed(target: purge.Target) -> bool:
    if target.line:
        line = f"line {target.version[:8]} [{target.scope}], {len(target.line)} bytes"
        write(f"{line}, which is no memory")
    else:
        write(f"{target.id[:8]} [{target.scope}] {target.title}")
        _comes_back(target)
    write(
        "Its text, every earlier version and the history of the notes it stands in go, here and"
        " wherever git mem syncs. This cannot be undone."
    )
    typer.echo("purge it? [y/N] ", nl=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _comes_back(target: purge.Target) -> None:
    """Names what is active again without the purged one."""
    for m, alike in target.back:
        title = record.clean(record.title_of(m.record.data))
        if alike:
            title += ", which says nearly the same"
        write(
            f"comes back: {m.memory.id[:8]} [{m.scope}] {title};"
            " `git mem purge` with this id takes it too"
        )


def _as_json(target: purge.Target, report: purge.Report) -> dict[str, Any]:
    return {
        "id": target.id or None,
        "version": target.version or None,
        "status": "held" if report.held else "purged",
        "comes_back": [
            {
                "id": m.memory.id,
                "title": record.clean(record.title_of(m.record.data)),
                "scope": m.scope,
                "alike": alike,
            }
            for m, alike in target.back
        ],
        "lines": report.lines,
        "tombstones": report.tombstones,
        "deleted": [{"id": id, "type": kind} for id, kind in report.deleted.items()],
        "files": report.files,
        "cache": report.cache,
        "held": report.held,
        "searched": "partly" if report.partly else "all",
        "remotes": report.remotes,
    }


def _say(target: purge.Target, report: purge.Report) -> None:
    count = len(report.deleted)
    if target.line:
        write(f"purged line {target.version[:8]}: taken out of the notes")
    elif target.records:
        write(f"purged {target.id[:8]}: {many(report.lines, 'record')} taken out of the notes")
    else:
        were = "was" if count == 1 else "were"
        write(f"purged before: {many(count, 'object')} of it {were} left")
    for version in report.tombstones:
        write(f"tombstone {version}")
    for id, kind in list(report.deleted.items())[:_SHOWN]:
        write(f"deleted {kind} {id}")
    if count > _SHOWN:
        write(f"deleted {count - _SHOWN} more; --json lists them all")
    for path in report.files:
        write(f"cleaned '{path}'")
    if report.cache == "removed":
        write("the cache could not be rewritten and was removed; the next call makes it anew")
    _comes_back(target)
    if not report.held:
        rest = f", and no other {'note ' if target.line else ''}holds the text"
        if any(alike for _, alike in target.back):
            rest = "; what comes back says nearly the same"
        if report.partly or target.line:
            rest += "; files of branches were not searched"
        write(f"git finds none of these objects any more{rest}")
    if report.remotes:
        write(
            f"{', '.join(report.remotes)} and other clones may have it; `git mem sync` takes it out"
            " of the remote's notes and, as they sync, of clones with git mem"
        )
    write(
        "out of reach: clones without git mem, a remote's objects until its own clean-up, backups,"
        " logs of terminals, freed blocks of this disk"
    )
