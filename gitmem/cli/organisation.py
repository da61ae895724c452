"""`index --to` and `recall --from`: one index over the memories of many repositories."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..core.errors import MemError, UsageError
from ..core.plural import many
from ..core.progress import Unseen
from ..engine.embed import StaticTable
from ..render import progress
from .common import warn
from .options import Answer, Filters

if TYPE_CHECKING:
    from ..organisation.index_update import Report
    from ..organisation.postgres import Index

_TAKES = ("type", "tag", "author")


def refuse(given: Mapping[str, Any], filters: Filters | None = None) -> None:
    """Raises UsageError for an option that means nothing without a clone."""
    named = {f"--{name}": value for name, value in (filters._asdict() if filters else {}).items()}
    wrong = [o for o, value in (*given.items(), *named.items()) if value and o[2:] not in _TAKES]
    if wrong:
        raise UsageError(f"{wrong[0]} does not go with the organisation's index")


@contextmanager
def _opened(url: str) -> Iterator[tuple["Index", StaticTable]]:
    try:
        from ..organisation import postgres
    except ImportError as e:
        hint = f"`{sys.executable} -m pip install 'psycopg[binary]>=3.2'` adds it"
        raise MemError("the organisation's index needs the package 'psycopg'", hint=hint) from e
    table = StaticTable()
    with postgres.opened(url, table.space) as index:
        yield index, table


def recall(url: str, question: str, filters: Filters, limit: int) -> dict[str, Any]:
    with _opened(url) as (index, table):
        from ..organisation import index_answer

        if not index.there:
            hint = "`git mem index --to URL` in a repository makes it"
            raise MemError("no memories are indexed in this database", hint=hint)
        conditions = {name: getattr(filters, name) for name in _TAKES}
        conditions["type"] = [type.lower() for type in filters.type]  # as records have it
        return index_answer.recall(index, table, question, conditions, limit)


def index(url: str, places: list[str], name: str, dry_run: bool) -> Answer:
    if name and len(places) > 1:
        raise UsageError("--name is for one repository")
    with _opened(url) as (opened, _):
        from ..organisation import index_update

        if not dry_run:
            opened.prepare()
        reports: list[Report] = []
        try:
            for report in index_update.update(
                opened,
                [os.path.abspath(place) for place in places or ["."]],
                os.environ,
                name=name,
                dry_run=dry_run,
                warn=warn,
                progress=progress if sys.stderr.isatty() else Unseen,
            ):
                reports.append(report)
                if report.status == "failed":
                    warn(f"error: {report.repository}: {report.error}")
                    warn(f"hint: {report.hint}") if report.hint else None
        except KeyboardInterrupt:
            print(file=sys.stderr)  # behind the ^C
            warn(f"{many(len(reports), 'repository')} done; the others are as they were before")
            raise
        if any(report.written or report.removed for report in reports) and not dry_run:
            opened.finish()
        return _answer(reports, opened.meaning, dry_run)


def _answer(reports: list["Report"], meaning: str, dry_run: bool) -> Answer:
    lines = []
    for r in reports:
        if r.status == "unchanged":
            lines.append(f"{r.repository}: up to date")
        elif r.status == "indexed":
            would = "would be " if dry_run else ""
            lines.append(
                f"{r.repository}: {many(r.memories, 'memory')}, {r.written} {would}written,"
                f" {r.removed} {would}removed"
            )
            if r.secrets:
                named = ", ".join(id[:8] for id in r.secrets[:5])
                lines.append(f"  left out, since they look like they hold a secret: {named}")
    if meaning:
        lines.append(meaning)
    value = {"repositories": [r._asdict() for r in reports], "meaning": not meaning}
    return Answer(value, lines, int(any(r.status == "failed" for r in reports)))
