"""Commands that set git mem up in a repository and take it away: init, install, uninstall."""

from __future__ import annotations

import sys

import typer

from .. import setup, sync
from ..core.errors import UsageError
from ..hooks import githooks
from ..store import Store
from . import app
from .common import opened, write, write_json

_TARGETS = ("git",)  # what git mem can be installed into
_Json = typer.Option(False, "--json", help="Print JSON.")


@app.command("init")
def init_command(offline: bool = typer.Option(False, "--offline", help="Do not ask the remote whether it has memories."), as_json: bool = _Json) -> int:
    """Set git up so that memories follow rewrites and arrive with a fetch. Nothing in the working tree changes."""
    with opened() as store:
        done = setup.init(store)
        remote = setup.default_remote(store)
        (count, _) = store.with_cache(lambda cache: cache.count())
        offered = bool(setup.waiting(store)) or (not offline and sync.offers(store, remote))
        if as_json:
            write_json({"changed": done, "memories": count, "remote": remote or None, "remote_has_memories": offered})
            return 0
        write(f"git mem is ready in '{store.repo.top or store.repo.git_dir}'")
        for line in done:
            write(f"  set {line}")
        if not done:
            write("  nothing had to change")
        write(f"  {count} memories here" if count else "  no memories here yet")
        _offer_hooks(store)
        write("next:")
        if not count:
            write('  git mem remember "why something is as it is" --type decision')
            write('  git mem recall "a question in your own words"')
        if offered:
            write(f"  git mem sync   '{remote}' has memories of the team")
        return 0


def _offer_hooks(store: Store) -> None:
    """Asks on a terminal, once: hooks are never installed unasked."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()) or githooks.survey(store).on:
        return
    if typer.confirm("Add git hooks that keep the search index up to date after each commit?", default=False):
        for line in githooks.install(store):
            write(f"  {line}")


@app.command("install")
def install_command(
    target: str = typer.Argument(..., metavar="TARGET", help="What to install into: git (its hooks)."),
    pre_push: bool = typer.Option(False, "--pre-push", help="git: also a hook that warns before a push would publish private memories, and shares memories then if mem.autoSync is true."),
    as_json: bool = _Json,
) -> int:
    """Add git hooks that keep the search index up to date. Hooks that exist are kept and run; `git mem uninstall git` restores all."""
    _check(target)
    with opened() as store:
        done = githooks.install(store, pre_push)
        found = githooks.survey(store)
        if as_json:
            write_json({"changed": done, "hooks": found.on, "directory": found.directory, "problems": [what for what, _ in found.problems]})
            return 1 if found.problems else 0
        for line in done or ["nothing had to change"]:
            write(line)
        for what, _ in found.problems:
            write(f"warning: {what}")
        write(f"hooks: {', '.join(found.on) or 'none'}")
        return 1 if found.problems else 0


@app.command("uninstall")
def uninstall_command(
    target: str = typer.Argument("", metavar="[TARGET]", help="git: the hooks alone. Without it: everything that init and install set up."),
    as_json: bool = _Json,
) -> int:
    """Take back what init and install set up. Memories stay in the notes refs."""
    if target:
        _check(target)
    with opened(needs_enabled=False) as store:
        done = githooks.uninstall(store) if target else setup.uninstall(store)
        kept = [n.ref for _, n in store.sources if n.tip()]
        if as_json:
            write_json({"changed": done, "kept": kept})
            return 0
        for line in done or ["nothing was installed"]:
            write(line)
        if kept and not target:
            write(f"kept: {', '.join(kept)}, which hold the memories")
        return 0


def _check(target: str) -> None:
    if target not in _TARGETS:
        raise UsageError(f"git mem cannot be installed into '{target}'", hint=f"targets: {', '.join(_TARGETS)}")
