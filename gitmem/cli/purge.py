"""The command that takes a text away for good, asks before, and proves it after."""

import sys
from collections.abc import Iterator
from typing import Any

from .. import private_sync
from ..core import record
from ..core.errors import UsageError
from ..core.plural import many
from ..erasure import purge
from .common import confirmed, interactive, opened, refused, values, warn, write
from .options import Answer, argument, command, flag


@command("purge")
def purge_command(
    id: str = argument(
        "ID",
        "A memory or a suggestion, by a unique prefix of its id; a line that is no memory, by one"
        " of its version (`doctor` and `verify` name it); what was purged before, to finish it.",
    ),
    force: bool = flag("--force", "Do not ask."),
    as_json: bool = flag("--json", "Print JSON, with the id of every deleted object."),
) -> int:
    """Take a memory's text out of this repository for good: notes, history, objects, cache. A
    tombstone without text keeps it out.

    The tombstone of a line names the hash of its text: who can guess the line can tell that it was
    there."""
    if not force and (as_json or not interactive()):
        why = "purge asks before it deletes, and there is no terminal to ask on"
        raise UsageError(why, hint="with --force it does not ask")
    with opened() as store:
        target = purge.find(store, id)
        if not force and not target.gone and not _confirmed(target):
            write("nothing was changed")
            return 1
        try:
            report = purge.purge(store, target)
        except KeyboardInterrupt:
            print(file=sys.stderr)  # behind the ^C
            warn("the text may still be in some objects; run it again: it goes on where it stopped")
            raise
        given_to = private_sync.given(store.repo.common_dir)
        facts = {**_facts(target, report), "private_given_to": given_to}
        Answer(facts, _lines(target, report, given_to)).print(as_json)
        for name in report.held:
            refused(f"the text is still here: {name} leads to it")
        if report.held and not as_json:
            others = "what is not git mem's own was left as it is"
            write(f"{others}; once it is gone, the same purge finishes")
        return 1 if report.held else 0


def _confirmed(target: purge.Target) -> bool:
    if target.line:
        line = f"line {target.version[:8]} [{target.scope}], {len(target.line)} bytes"
        write(f"{line}, which is no memory")
    else:
        write(f"{target.id[:8]} [{target.scope}] {target.title}")
        for line in _coming_back(target):
            write(line)
    write(
        "Its text, every earlier version and the history of the notes it stands in go, here and"
        " wherever git mem syncs. This cannot be undone."
    )
    return confirmed("purge it?")


_TOO = "`git mem purge` with this id takes it too"
_NAMED = 5  # memories with the same text


def _coming_back(target: purge.Target) -> Iterator[str]:
    """Names what is active again without the purged one, and what has the same text."""
    for m in _back(target):
        same = ", which says nearly the same" if m["alike"] else ""
        named = f"comes back: {m['id'][:8]} [{m['scope']}] {m['title']}{same}"
        yield f"{named}; {_TOO}"
    for id in target.also[:_NAMED]:
        yield f"the same text: {id[:8]}; {_TOO}"
    if len(target.also) > _NAMED:
        yield f"the same text: {len(target.also) - _NAMED} more; --json lists them all"


def _back(target: purge.Target) -> list[dict[str, Any]]:
    return [
        {
            "id": m.memory.id,
            "title": record.clean(record.title_of(m.record.data)),
            "scope": m.scope,
            "alike": alike,
        }
        for m, alike in target.back
    ]


def _facts(target: purge.Target, report: purge.Report) -> dict[str, Any]:
    return {
        "id": target.id or None,
        "version": target.version or None,
        "status": "held" if report.held else "purged",
        "comes_back": _back(target),
        "same_text": target.also,
        **values(report, "lines", "tombstones", "files", "cache", "held", "remotes"),
        "deleted": [{"id": id, "type": kind} for id, kind in report.deleted.items()],
        "searched": "partly" if report.partly else "all",
    }


def _lines(target: purge.Target, report: purge.Report, given_to: list[str]) -> Iterator[str]:
    count = len(report.deleted)
    if target.line:
        yield f"purged line {target.version[:8]}: taken out of the notes"
    elif target.records:
        yield f"purged {target.id[:8]}: {many(report.lines, 'record')} taken out of the notes"
    else:
        yield f"purged before: {many(count, 'object')} of it {'was' if count == 1 else 'were'} left"
    for version in report.tombstones:
        yield f"tombstone {version}"
    for id, kind in list(report.deleted.items())[:20]:
        yield f"deleted {kind} {id}"
    if count > 20:
        yield f"deleted {count - 20} more; --json lists them all"
    for path in report.files:
        yield f"cleaned '{path}'"
    if report.cache == "removed":
        yield "the cache could not be rewritten and was removed; the next call makes it anew"
    yield from _coming_back(target)
    if not report.held:
        yield f"git finds none of these objects any more{_searched(target, report)}"
    for commit in target.commits:
        yield f"it was made of commit {commit[:12]}: git mem takes nothing out of its message"
    if report.remotes:
        yield (
            f"{', '.join(report.remotes)} and other clones may have it; `git mem sync` takes it out"
            " of the remote's notes and, as they sync, of clones with git mem"
        )
    yield (
        "out of reach: clones without git mem, a remote's objects until its own clean-up, backups,"
        " logs of terminals, freed blocks of this disk"
    )
    for name in given_to:
        yield (
            f"'{name}' was given your private notes: `git mem push --private-to {name}`"
            " takes the text out of them there"
        )


def _searched(target: purge.Target, report: purge.Report) -> str:
    """How far it is known that the text is gone."""
    gone = ", and no other note holds the text"
    if target.commits:
        gone = ""
    if target.also:
        gone = "; other memories have the same text"
    if any(alike for _, alike in target.back):
        gone = "; what comes back says nearly the same"
    return gone + "; files of branches were not searched" * (report.partly or bool(target.line))
