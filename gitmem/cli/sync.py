"""Commands that talk to a remote: sync, push, pull."""

from __future__ import annotations

import typer

from .. import sync
from ..errors import UsageError
from . import app
from .common import opened, write, write_json

_Remote = typer.Option("", "--remote", metavar="NAME", help="The remote to use (default: mem.remote, the branch's own, `origin`, or the only one).")
_DryRun = typer.Option(False, "--dry-run", "-n", help="Show the very texts that would leave; send nothing.")
_Atomic = typer.Option(False, "--atomic", help="Push the branch that is checked out along with the memories: both or none.")
_AllowSecret = typer.Option(False, "--allow-secret", help="Send texts although they look like they hold a secret.")
_Quiet = typer.Option(False, "-q", "--quiet", help="Print nothing but errors.")
_Json = typer.Option(False, "--json", help="Print JSON.")


@app.command("sync")
def sync_command(remote: str = _Remote, dry_run: bool = _DryRun, atomic: bool = _Atomic, allow_secret: bool = _AllowSecret, quiet: bool = _Quiet,
                 as_json: bool = _Json) -> int:
    """Unite with the team: take in what the remote has, give it what is here. Private memories stay."""
    with opened() as store:
        return _say(sync.push(store, remote, dry_run=dry_run, branch=atomic, allow_secret=allow_secret), quiet, as_json)


@app.command("push")
def push_command(remote: str = _Remote, dry_run: bool = _DryRun, atomic: bool = _Atomic, allow_secret: bool = _AllowSecret, quiet: bool = _Quiet,
                 as_json: bool = _Json) -> int:
    """Give the remote the team's memories that are here; takes in what it has only if it is ahead."""
    with opened() as store:
        return _say(sync.push(store, remote, dry_run=dry_run, branch=atomic, allow_secret=allow_secret, take_in=False), quiet, as_json)


@app.command("pull")
def pull_command(remote: str = _Remote, dry_run: bool = typer.Option(False, "--dry-run", hidden=True), quiet: bool = _Quiet, as_json: bool = _Json) -> int:
    """Take in what the remote has; nothing leaves."""
    if dry_run:
        raise UsageError("pull sends nothing", hint="`git fetch` takes the remote's memories into a tracking copy, `git mem status` says that they wait")
    with opened() as store:
        return _say(sync.pull(store, remote), quiet, as_json)


def _say(report: sync.Report, quiet: bool, as_json: bool) -> int:
    if as_json:
        write_json({"remote": report.remote, "dry_run": report.dry, "received": report.received, "sent": len(report.sent), "purged": report.purged, "remarks": report.remarks,
                    "texts": report.sent})
        return 0
    if report.dry:
        for item in report.sent:
            _text(item)
        write(f"{_count(len(report.sent))} would go to '{report.remote}'; nothing was sent")
        return 0
    if quiet:
        return 0
    if report.received or report.sent or report.branch:
        along = f", with {report.branch.removeprefix('refs/heads/')}" if report.branch else ""
        write(f"{report.remote}: {_count(report.received)} received, {len(report.sent)} sent{along}")
    else:
        write(f"{report.remote}: up to date")
    if report.purged:
        write("purged text was taken out")
    for remark in report.remarks:
        write(remark)
    return 0


def _count(n: int) -> str:
    return f"{n} record{'s' * (n != 1)}"


def _text(item: dict[str, object]) -> None:
    """One record that would leave, whole."""
    if item["op"] is None:
        write(f"line of another tool: {item['text']}")
        return
    write(f"{str(item['id'])[:8]} {item['op']} {item['type'] or ''} {item['title'] or ''}".rstrip())
    for line in str(item["body"] or "").splitlines():
        write("    " + line)
