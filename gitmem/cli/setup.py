"""Commands that set git mem up in a repository and take it away: init, install, uninstall."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

import typer

from .. import setup, sync
from ..agents import automemory_dir, install, installed, targets, unfetched
from ..capture import commitlog
from ..completion import shells
from ..core.errors import NotARepository, UsageError
from ..core.plural import many
from ..engine.filters import Filter
from ..git import config_journal, repository
from ..hooks import announce, githooks
from ..memory import commit_hits
from ..store import Store
from .common import confirmed, interactive, needs_mcp, opened
from .options import Answer, argument, command, flag

_SECONDS = 10.0  # in which `init` makes commits searchable; the worker does the rest
_SAME, _NOTHING = "nothing had to change", "nothing was installed"


@command("init")
def init_command(
    store: Store,
    offline: bool = flag("--offline", "Do not ask the remote whether it has memories."),
) -> Answer:
    """Set git up so that memories follow rewrites and arrive with a fetch.

    Nothing in the working tree changes.
    """
    store.resumes = True
    done = setup.init(store)
    threats = setup.threats(store)
    remote = setup.default_remote(store)
    count, _ = store.with_cache(Filter().count)
    takeable = list(setup.takeable(store, os.environ))
    history = commit_hits.take_in(store, _SECONDS)
    offered = bool(setup.waiting(store)) or (not offline and sync.offers(store, remote))
    if offered:
        unfetched.note_offered(store.repo.mem_dir)

    def lines() -> Iterator[str]:
        yield f"git mem is ready in '{store.repo.top or store.repo.git_dir}'"
        yield from [f"  set {line}" for line in done] or [f"  {_SAME}"]
        yield f"  {many(count, 'memory')} here" if count else "  no memories here yet"
        if history["commits"]:
            later = " so far; the others follow in the background" if history["waiting"] else ""
            yield f"  searchable: {many(history['commits'], 'commit')}{later}"
        if told := _at_hand(takeable):
            yield f"  {told}"
        for what, hint in threats:
            yield from (f"warning: {what}", f"hint: {hint}")
        if interactive():
            yield from _offer(store)
        if offered or not count:
            yield "next:"
        if not count:
            yield '  git mem remember "why something is as it is" --type decision'
            yield '  git mem recall "a question in your own words"'
            yield "  git mem tour   shows how it works, in a repository of its own"
        if offered:
            yield f"  git mem sync   '{remote}' has memories of the team"

    facts = {
        "changed": done,
        "memories": count,
        "history": history,
        "remote": remote or None,
        "remote_has_memories": offered,
        "takeable": {command: n for n, _, command in takeable},
        "threats": [what for what, _ in threats],
    }
    return Answer(facts, lines())


def _at_hand(takeable: list[tuple[int, str, str]]) -> str:
    """What there is beside memories, as one sentence, "" for nothing."""
    named = [f"{many(n, what)} (`{command}`)" for n, what, command in takeable]
    return f"{' and '.join(named)} can be taken in" if named else ""


def _offer(store: Store) -> Iterator[str]:
    """Asks for each thing that may be set up and is not: nothing is installed unasked."""
    question = "Add git hooks that keep the search index up to date after each commit?"
    if not githooks.survey(store).on and confirmed(question):
        yield from [f"  {line}" for line in githooks.install(store)]
    there = {one.target for one in installed.state(os.environ, store.repo)}
    for name, agent in targets.AGENTS.items():
        file = agent.file(os.environ, "", targets.USER)
        if name in there or not file or not os.path.isdir(os.path.dirname(file)):
            continue  # this user has no such agent, or it has git mem
        question = f"Give {agent.title} memories at a session's start and with each prompt?"
        if confirmed(question):
            done, hints, _ = install.install(os.environ, store.repo, name)
            yield from [f"  {line}" for line in done + hints]
    question = "Keep what commit messages decide and explain as private memories?"
    unset = store.settings.origins["capture"] == "default"  # else somebody has decided it
    if unset and confirmed(question):
        config_journal.add(store.repo, "init", [("mem.capture", "commits")])
        commitlog.begin(store.repo)
        yield "  mem.capture = commits  (`git mem config capture all`: also what sessions say)"
    announce.capture_off(store.repo.mem_dir)  # told by the question


@command("install")
def install_command(
    as_json: bool,
    target: str = argument(
        "TARGET",
        f"git (its hooks), {', '.join(targets.AGENTS)} (their hooks), agents-md or"
        " claude-md (a section in AGENTS.md or CLAUDE.md), completion (of `git mem` in bash, zsh"
        " and fish).",
    ),
    user: bool = flag("--user", "An agent: into your own settings, for all repositories; default."),
    project: bool = flag("--project", "An agent: into a file that can be committed for the team."),
    allow: bool | None = typer.Option(
        None,
        "--allow/--no-allow",
        help=f"claude: whether it may run `git mem` unasked (permission `{targets.PERMISSION}`).",
    ),
    mcp: bool = flag("--mcp", "An agent: also the MCP server, where it looks for such servers."),
    pre_push: bool = flag(
        "--pre-push",
        "git: also a hook that warns before a push would publish private memories, and shares"
        " memories if mem.autoSync is true.",
    ),
    dry_run: bool = flag("--dry-run -n", "An agent: only say what would be written."),
) -> Answer:
    """Put git mem into git's hooks, an agent's settings, or the shells.

    What is there is kept; `git mem uninstall TARGET` restores it.
    """
    scope = _scope(target, user, project)
    if pre_push and target != "git":
        raise UsageError("--pre-push goes with `git mem install git`")
    if allow is not None and target in ("git", shells.TARGET):
        raise UsageError("--allow goes with `git mem install claude`")
    if mcp and target not in targets.AGENTS:
        raise UsageError("--mcp goes with the name of an agent")
    if dry_run and target in ("git", shells.TARGET):
        raise UsageError("--dry-run goes with the name of an agent, agents-md or claude-md")
    if mcp:
        needs_mcp()
    if target == shells.TARGET:
        done, hints = shells.install(os.environ)
        return _installed(done, hints)
    if target != "git":
        with _maybe_repo() as repo:
            asks = target == "claude" and allow is None and not (as_json or dry_run)
            if asks and interactive():
                question = "May Claude Code run `git mem` commands without asking each time?"
                allow = confirmed(question) or None
            done, hints, texts = install.install(
                os.environ, repo, target, scope, allow, mcp, dry_run
            )
        if dry_run:
            facts = {"changed": done, "hints": hints, "dry_run": True, "texts": texts}
            return Answer(facts, _preview(done, hints, texts))
        shown = "`git mem context` shows what a session is told; " * (target in targets.AGENTS)
        return _installed(done, hints, f"{shown}`git mem uninstall {target}` takes this back")
    with opened() as store:
        done = githooks.install(store, pre_push)
        found = githooks.survey(store)
    problems = [what for what, _ in found.problems]
    facts = {"changed": done, "hooks": found.on, "directory": found.directory}
    lines = [*(done or [_SAME]), *(f"warning: {what}" for what in problems)]
    lines.append(f"hooks: {', '.join(found.on) or 'none'}")
    return Answer({**facts, "problems": problems}, lines, 1 if problems else 0)


def _installed(done: list[str], hints: list[str], after: str = "") -> Answer:
    lines = [*(done or [_SAME]), *(f"note: {hint}" for hint in hints)]
    lines += [after] if after and done else []
    return Answer({"changed": done, "hints": hints}, lines)


def _preview(done: list[str], hints: list[str], texts: dict[str, str]) -> Iterator[str]:
    """What `install` would do, and the text that each file would get."""
    yield from [*(done or [_SAME]), *(f"note: {hint}" for hint in hints)]
    for file, text in texts.items():
        yield f"'{file}' would get"
        yield from [f"  {line}" for line in text.strip("\r\n").splitlines()]
    yield "nothing was written"


@contextmanager
def _maybe_repo() -> Iterator[repository.Repo | None]:
    try:
        repo = repository.open_repo()
    except NotARepository:
        yield None
        return
    with closing(repo.git):
        yield repo


@command("uninstall")
def uninstall_command(
    target: str = argument(
        "[TARGET]", "What `install` takes; without it, all that init and install did here.", ""
    ),
    user: bool = flag("--user", "An agent: only out of your own settings."),
    project: bool = flag("--project", "An agent: only out of the working tree."),
) -> Answer:
    """Take back what init and install set up. Memories stay in the notes refs."""
    scope = _scope(target or None, user, project)
    if target == shells.TARGET:
        done = shells.uninstall(os.environ)
        return Answer({"changed": done, "kept": []}, done or [_NOTHING])
    if target and target != "git":
        with _maybe_repo() as repo:
            done = install.uninstall(os.environ, repo, target, scope)
            servers = installed.servers(os.environ, repo)
        kept = [one.path for one in servers if one.target == target and not one.problem]
        lines = [f"kept: MCP server in '{path}'" for path in kept]
        if target in targets.AGENTS and not scope:
            elsewhere = installed.elsewhere(os.environ, target)
            variable = targets.AGENTS[target].variable
            how = "the same command there" + (variable and f", or with {variable} as it was,")
            lines += [f"kept: hooks in '{path}'; {how} takes them out" for path in elsewhere]
            kept += elsewhere
        return Answer({"changed": done, "kept": kept}, done + lines or [_NOTHING])
    with opened(needs_enabled=False) as store:
        if target:
            done = githooks.uninstall(store)
        else:
            done = [*install.everything_here(os.environ, store.repo), *automemory_dir.leave(store)]
            done += setup.uninstall(store)
        kept = [notes.ref for _, notes in store.sources if notes.tip()]
        lines = [*(done or [_NOTHING]), *(() if target else _kept(store, kept))]
        return Answer({"changed": done, "kept": kept}, lines)


def _kept(store: Store, refs: list[str]) -> Iterator[str]:
    """What stays after everything of this repository was taken back."""
    if refs:
        yield f"kept: {', '.join(refs)}, which hold the memories"
    for one in installed.state(os.environ, store.repo):
        removable = one.scope != installed.PLUGIN
        hint = f"; `git mem uninstall {one.target}` takes it out" if removable else ""
        yield f"kept: {one.target} in '{one.path}'{hint}"


def _scope(target: str | None, user: bool, project: bool) -> str:
    """What --user and --project say of a target. Raises UsageError where they do not fit."""
    all_targets = (*targets.TARGETS, shells.TARGET)
    if target is not None and target not in all_targets:
        known = ", ".join(all_targets)
        raise UsageError(f"git mem cannot be installed into '{target}'", hint=f"targets: {known}")
    if user and project:
        raise UsageError("--user and --project are two places", hint="run it once for each")
    places = {**targets.AGENTS, **(targets.SECTIONS if project else {})}
    if (user or project) and not target:
        raise UsageError("--user and --project go with the name of an agent")
    if (user or project) and target not in places:
        raise UsageError(f"--{'user' if user else 'project'} does not go with '{target}'")
    return targets.USER if user else targets.PROJECT if project else ""
