"""Commands that talk to a remote: sync, push, pull."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import typer

from .. import private_sync, sync
from ..core.errors import UsageError
from ..core.plural import many
from ..store import Store
from . import app
from .common import answer, opened, values
from .options import Json, argument, flag, text

_Remote = text(
    "--remote NAME",
    "The remote to use (default: mem.remote, where git pushes the branch to, `origin`, or the"
    " only one).",
    filled=True,
)
_DryRun = flag("--dry-run -n", "Show the very texts that would leave; send nothing.")
_Atomic = flag(
    "--atomic", "Push the branch that is checked out along with the memories: both or none."
)
_AllowSecret = flag("--allow-secret", "Send texts although they look like they hold a secret.")
_PrivateTo = text(
    "--private-to REMOTE",
    "Instead of the team's memories give this one remote your private notes, all of them, under"
    " a ref of your own.",
    filled=True,
)
_PrivateFrom = text(
    "--private-from REMOTE",
    "Instead of the team's memories take in the private notes you gave that remote.",
    filled=True,
)
_Quiet = flag("-q --quiet", "Print nothing but errors.")
_SHOWN = ("id", "op", "type", "title", "body", "v")  # in the first line and the text


@app.command("sync")
def sync_command(
    what: str = argument(
        "[claude]",
        "claude: not with a remote, but memories as files that Claude Code loads by itself"
        " (its auto memory).",
        "",
    ),
    *,
    remote: str = _Remote,
    dry_run: bool = _DryRun,
    atomic: bool = _Atomic,
    allow_secret: bool = _AllowSecret,
    quiet: bool = _Quiet,
    as_json: Json,
    limit: int = typer.Option(
        0,
        "--limit",
        min=0,
        max=150,
        metavar="N",
        help="claude: at most so many memories (default 50).",
    ),
    remove: bool = flag("--remove", "claude: take those files out again."),
) -> int:
    """Unite with the team: take in what the remote has, give it what is here.

    Private memories stay.
    """
    if what not in ("", "claude"):
        word = what.isprintable() and " " not in what
        hint = f"`git mem sync --remote {what}` names a remote" if word else ""
        raise UsageError(f"git mem cannot sync with '{what}'", hint=hint)
    if (remove or limit) and not what:
        raise UsageError("--limit and --remove go with `git mem sync claude`")
    if what:
        if remote or atomic or allow_secret:
            raise UsageError("`git mem sync claude` writes files here; it takes no remote")
        from .claude import sync_claude

        with opened() as store:
            return sync_claude(store, limit, remove, dry_run, quiet, as_json)
    with opened() as store:
        return _say(_push(store, remote, dry_run, atomic, allow_secret, True), quiet, as_json)


@app.command("push")
def push_command(
    *,
    remote: str = _Remote,
    dry_run: bool = _DryRun,
    atomic: bool = _Atomic,
    allow_secret: bool = _AllowSecret,
    private_to: str = _PrivateTo,
    quiet: bool = _Quiet,
    as_json: Json,
) -> int:
    """Give the remote the team's memories that are here; takes in what it has only if it is ahead.

    Private notes go nowhere, unless --private-to names where.
    """
    if private_to and (remote or atomic):
        raise UsageError("--private-to names its remote itself, and no branch goes along")
    with opened() as store:
        if private_to:
            report = private_sync.give(store, private_to, dry=dry_run, allow_secret=allow_secret)
        else:
            report = _push(store, remote, dry_run, atomic, allow_secret, False)
        return _say(report, quiet, as_json)


@app.command("pull")
def pull_command(
    *,
    remote: str = _Remote,
    private_from: str = _PrivateFrom,
    quiet: bool = _Quiet,
    as_json: Json,
) -> int:
    """Take in what the remote has; nothing leaves."""
    if private_from and remote:
        raise UsageError("--private-from names its remote itself")
    with opened() as store:
        if private_from:
            report = private_sync.take(store, private_from)
        else:
            report = sync.pull(store, remote)
        return _say(report, quiet, as_json)


def _push(
    store: Store, remote: str, dry_run: bool, atomic: bool, allow_secret: bool, take_in: bool
) -> sync.Report:
    if dry_run:
        return sync.preview(store, remote, branch=atomic, allow_secret=allow_secret)
    return sync.push(store, remote, branch=atomic, allow_secret=allow_secret, take_in=take_in)


def _say(report: sync.Report, quiet: bool, as_json: bool) -> int:
    """Says what was sent and received. Raises what a dry run would have been refused for."""
    facts = {
        **values(report, "remote", "received", "purged", "remarks", "commits"),
        "dry_run": report.dry,
        "sent": len(report.sent),
        "texts": report.sent,
        "branch": report.branch or None,
        **({"ref": report.ref} if report.ref else {}),
    }
    if report.dry:
        answer(facts, _preview(report), as_json)
    else:
        answer(facts, [] if quiet else _done(report), as_json)
    if report.secret:
        raise report.secret
    return 0


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
        yield f"{report.remote}: {received} received, {len(report.sent)} sent{along}"
        if report.ref and report.sent:
            yield f"private: {_kinds(report.sent)}, as {report.ref}"
    else:
        yield f"{report.remote}: up to date"
    if report.purged:
        yield "purged text was taken out"
    yield from report.remarks


def _kinds(sent: list[dict[str, Any]]) -> str:
    """How many records of which kind."""
    count = Counter(str(item["op"] or "line of another tool") for item in sent)
    kinds = ", ".join(f"{n} {op}" for op, n in count.most_common())
    return many(len(sent), "record") + (f" ({kinds})" if kinds else "")


def _text(item: dict[str, Any]) -> Iterator[str]:
    """One record that would leave, whole: every field that is not empty."""
    if item["op"] is None:
        yield f"line {item['version'][:8]} of another tool: {item['text']}"
        return
    yield f"{str(item['id'])[:8]} {item['op']} {item['type'] or ''} {item['title'] or ''}".rstrip()
    for line in str(item["body"] or "").splitlines():
        yield "    " + line
    for name, value in sorted(json.loads(item["text"]).items()):
        if name not in _SHOWN:
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield f"    {name}: {shown}"
