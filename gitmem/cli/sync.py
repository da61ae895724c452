"""Commands that talk to a remote: sync, push, pull."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

from .. import private_sync, sync
from ..core.errors import UsageError
from ..core.plural import many
from ..store import Store
from .common import values
from .options import Answer, command, flag, text

_REMOTE = "The remote (default: mem.remote, where git pushes to, `origin`, or the only one)."
_ATOMIC = "Push the checked out branch and the memories: both or none."
_SECRET = "Send texts although they look like they hold a secret."
_Remote = Annotated[str, text("--remote NAME", _REMOTE, filled=True)]
_Quiet = Annotated[bool, flag("-q --quiet", "Print nothing but errors.")]


class Sending(NamedTuple):
    """The options of commands that send."""

    remote: _Remote
    dry_run: Annotated[bool, flag("--dry-run -n", "Show the texts that would leave; send nothing.")]
    atomic: Annotated[bool, flag("--atomic", _ATOMIC)]
    allow_secret: Annotated[bool, flag("--allow-secret", _SECRET)]
    quiet: _Quiet

    def to_remote(self, store: Store, take_in: bool) -> sync.Report:
        how: Any = {"branch": self.atomic, "allow_secret": self.allow_secret}
        if self.dry_run:
            return sync.preview(store, self.remote, **how)
        return sync.push(store, self.remote, take_in=take_in, **how)


@command("sync")
def sync_command(
    store: Store,
    sending: Sending,
) -> Answer:
    """Unite with the team: take in what the remote has, then give it what is here. `pull` and
    `push` are its two halves. Private memories stay.
    """
    return _answer(sending.to_remote(store, take_in=True), sending.quiet)


@command("push")
def push_command(
    store: Store,
    sending: Sending,
    private_to: str = text(
        "--private-to REMOTE",
        "Instead of the team's memories give this one remote all your private notes, for"
        " another clone of yours.",
        filled=True,
    ),
) -> Answer:
    """Only give: the second half of `sync`. Takes in what the remote has only if it is ahead.

    Private notes go nowhere without --private-to.
    """
    if private_to and (sending.remote or sending.atomic):
        raise UsageError("--private-to names its remote itself, and no branch goes along")
    if private_to:
        how: Any = {"dry": sending.dry_run, "allow_secret": sending.allow_secret}
        return _answer(private_sync.give(store, private_to, **how), sending.quiet)
    return _answer(sending.to_remote(store, take_in=False), sending.quiet)


@command("pull")
def pull_command(
    store: Store,
    remote: _Remote,
    quiet: _Quiet,
    private_from: str = text(
        "--private-from REMOTE",
        "Instead of the team's memories take in the private notes you gave that remote.",
        filled=True,
    ),
) -> Answer:
    """Only take in what the remote has, the first half of `sync`; nothing leaves."""
    if private_from and remote:
        raise UsageError("--private-from names its remote itself")
    take = private_sync.take if private_from else sync.pull
    return _answer(take(store, private_from or remote), quiet)


def _answer(report: sync.Report, quiet: bool) -> Answer:
    facts = {
        **values(report, "remote", "received", "purged", "remarks", "commits"),
        "dry_run": report.dry,
        "sent": len(report.sent),
        "texts": report.sent,
        "branch": report.branch or None,
        **({"ref": report.ref} if report.ref else {}),
    }
    if report.dry:
        return Answer(facts, _preview(report), error=report.secret)
    return Answer(facts, [] if quiet else _done(report))


def _preview(report: sync.Report) -> Iterator[str]:
    for item in report.sent:
        yield from _text(item)
    if report.branch:
        commits = many(len(report.commits), "commit")
        yield f"branch {report.branch.removeprefix('refs/heads/')}: {commits}"
        for row in report.commits:
            yield "    " + row
    what, where = many(len(report.sent), "record"), f"'{report.remote}'"
    if report.ref:
        what, where = _kinds(report.sent), f"'{report.remote}' as {report.ref}"
    yield f"{what} would go to {where}; nothing was sent"
    if report.ref:
        yield from report.remarks


def _done(report: sync.Report) -> Iterator[str]:
    if report.received or report.sent or report.branch:
        along = f", with {report.branch.removeprefix('refs/heads/')}" if report.branch else ""
        received = many(report.received, "record")
        yield f"{report.remote}: {received} received, {len(report.sent):,} sent{along}"
        if report.ref and report.sent:
            yield f"private: {_kinds(report.sent)}, as {report.ref}"
    else:
        yield f"{report.remote}: up to date"
    if report.purged:
        yield "purged text was taken out"
    yield from report.remarks


def _kinds(sent: list[dict[str, Any]]) -> str:
    count = Counter(str(item["op"] or "line of another tool") for item in sent)
    kinds = ", ".join(f"{n} {op}" for op, n in count.most_common())
    return many(len(sent), "record") + (f" ({kinds})" if kinds else "")


def _text(item: dict[str, Any]) -> Iterator[str]:
    """One record that would leave, whole: every field that is not empty."""
    if item["op"] is None:
        yield f"line {item['version'][:8]} of another tool: {item['text']}"
        return
    yield f"{str(item['id'])[:8]} {item['op']} {item['type'] or ''} {item['title'] or ''}".rstrip()
    body = str(item["body"] or "")
    for line in body.splitlines() if body != item["title"] else ():
        yield "    " + line
    for name, value in sorted(json.loads(item["text"]).items()):
        if name not in ("id", "op", "type", "title", "body", "v"):
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield f"    {name}: {shown}"
