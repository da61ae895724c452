"""Checks of the installation: versions, settings, files, hooks, agents, models."""

import os
import sqlite3
from collections.abc import Iterator

from .. import __version__, setup
from ..agents import failures, installed, receipts, targets
from ..capture import commitlog
from ..core.errors import MemError, UsageError
from ..core.plural import many
from ..git import config, config_read, memfile
from ..hooks import githooks, worker_log
from ..models import chosen
from ..signing import trust
from ..store import Store
from .finding import BAD, OFF, OK, REPAIRS, WARN, Finding


def repository(store: Store) -> Iterator[Finding]:
    """Versions, and what keeps git mem from working in this repository."""
    git = store.repo.git.text("version").removeprefix("git version ")
    yield Finding(OK, f"git mem {__version__}, git {git}, SQLite {sqlite3.sqlite_version}")
    if not store.settings.flag("enabled"):
        yield Finding(OFF, f"git mem is switched off by {store.settings.origins['enabled']}")
    if not store.repo.own:
        text = (
            "no program is run that this repository's configuration names: "
            "it is another user's, or bare and not named by GIT_DIR"
        )
        yield Finding(OFF, text, "your global git configuration can name one")
    if ref := setup.blocked(store):
        text = f"'{ref}' stands where memories are to be stored"
        yield Finding(BAD, text, setup.OTHER_NAMESPACE)


def settings(store: Store) -> Iterator[Finding]:
    def init() -> str:
        return "; ".join(setup.init(store)) or "nothing was missing any more"

    for key, value, why in setup.missing(store):
        yield Finding(WARN, f"{key} lacks '{value}': {why}", "run `git mem init`", init)


def remarks(store: Store) -> Iterator[Finding]:
    """What other parts have to say: remotes, models, signatures, sessions."""
    for text, hint in setup.threats(store):
        yield Finding(WARN, text, hint)
    for text, hint in chosen.remarks(store.settings, os.environ, store.repo.mem_dir):
        yield Finding(WARN, text, hint)
    for good, text, hint in trust.remarks(store.settings, store.home):
        yield Finding(OK if good else WARN, text, hint)
    for remark in receipts.remarks(store):
        yield Finding(*remark)


def files(store: Store) -> Iterator[Finding]:
    """What others may read or have planted in the directory of the cache."""
    common_dir, mem_dir = store.repo.common_dir, store.repo.mem_dir
    odd = list(memfile.odd(common_dir))
    if not odd:
        return

    def close() -> str:
        memfile.mend(common_dir)
        return f"'{mem_dir}' is ours alone"

    path, why = odd[0]
    rest = f", and {len(odd) - 1} more like it" if len(odd) > 1 else ""
    if mem_dir == memfile.NOWHERE or why == memfile.CLOSED:
        hint = "work in a clone of your own" if why == memfile.CLOSED else "move it away"
        yield Finding(WARN, f"'{path}' {why}: answers come without a cache", hint)
    # A file system without modes has nothing to close.
    elif store.repo.git.text("config", "--type=bool", "core.fileMode", ok=(0, 1)) != "false":
        yield Finding(WARN, f"'{path}' {why}{rest}", f"the next worker mends it; {REPAIRS}", close)


def programs(store: Store) -> Iterator[Finding]:
    """Several git mem on PATH: which one a hook or an agent gets depends on who starts it."""
    found: dict[str, str] = {}
    for directory in os.get_exec_path():
        path = os.path.join(directory, "git-mem")
        if os.access(path, os.X_OK) and os.path.isfile(path):
            found.setdefault(os.path.realpath(path), path)
    if len(found) > 1:
        text = f"{len(found)} git mem are on PATH: {', '.join(found.values())}"
        yield Finding(WARN, text, "keep one; the first is the one that git starts")


def hooks(store: Store) -> Iterator[Finding]:
    found = githooks.survey(store)

    def install() -> str:
        return "; ".join(githooks.install(store)) or "the hooks were as they should be"

    for text, hint in found.problems:
        yield Finding(WARN, text, hint, install if "git mem install git" in hint else None)
    if found.on:
        yield Finding(OK, f"git hooks: {', '.join(found.on)}")
    elif not found.problems:
        text = "git hooks are off: each search looks for what is new itself"
        yield Finding(OFF, text, "`git mem install git` turns them on")
    if githooks.PRE_PUSH not in found.on:
        text = "no warning before a push that would publish private memories"
        yield Finding(OFF, text, "`git mem install git --pre-push` turns it on")


def logs(store: Store) -> Iterator[Finding]:
    mem_dir = store.repo.mem_dir
    count, last = failures.count(mem_dir)
    if count:
        text = f"{many(count, 'call')} of agents' hooks failed, the last: {last}"
        log = f"the log is '{os.path.join(mem_dir, failures.LOG)}'"
        yield Finding(WARN, text, f"the agent was told nothing; {log}; delete it when it is read")
    if lines := worker_log.lines(mem_dir):
        written = f"the worker has written {many(len(lines), 'line')} to its log"
        log = f"the log is '{os.path.join(mem_dir, worker_log.LOG)}'"
        yield Finding(
            WARN, f"{written}, the last: {lines[-1]}", f"{log}; delete it when it is read"
        )
    if commits := commitlog.given_up(mem_dir):
        yield Finding(
            WARN,
            f"capture passes over {many(len(commits), 'commit')}, the first is {commits[0][:12]}:"
            f" keeping what it says failed {commitlog.TRIES} times",
            "the worker's log says why; `git mem remember --commit ID TEXT` keeps it by hand",
        )


def agents(store: Store) -> Iterator[Finding]:
    """Which agents get memories by themselves, and what stands in their way."""
    found = installed.state(os.environ, store.repo)
    for text, hint in installed.problems(os.environ, store.repo, found):
        yield Finding(WARN, text, hint)
    for one in found:
        if not one.problem:
            agent = targets.AGENTS.get(one.target)
            title = agent.title if agent else targets.SECTIONS[one.target]
            yield Finding(OK, f"{title}: {installed.words(one)}")
    names = {one.target for one in found}
    if not names.intersection(targets.AGENTS):
        hint = f"`git mem install claude` turns it on; also {', '.join([*targets.AGENTS][1:])}"
        yield Finding(OFF, "no agent gets memories by itself", hint)
    elif not store.settings.flag("promptContext"):
        text = "prompts get no memories, a session's start alone does"
        yield Finding(OFF, text, "`git mem config promptContext true` turns it on")
    if "claude" in names and not store.settings.flag("readContext"):
        hint = "`git mem config readContext true` turns it on, for Claude Code"
        yield Finding(OFF, "a file that is read or edited brings no memories", hint)
    if store.settings["capture"] == "false":
        hint = (
            "`git mem config capture commits` keeps what commit messages decide and explain,"
            " `all` also what is said in sessions, in private notes"
        )
        yield Finding(OFF, "nothing is kept by itself", hint)


def mcp_servers(store: Store) -> Iterator[Finding]:
    """Which agents that have git mem start its MCP server, and whether they can."""
    servers = installed.servers(os.environ, store.repo)
    for one in servers:
        title = targets.AGENTS[one.target].title
        if one.problem:
            yield Finding(OFF, f"'{one.path}' is not judged: {one.problem}")
        elif one.missing:
            text = f"the MCP server in '{one.path}' cannot start: no '{one.missing}'"
            yield Finding(WARN, f"{title}: {text}", one.hint)
        else:
            yield Finding(OK, f"{title}: MCP server in '{one.path}'")
    found = installed.state(os.environ, store.repo)
    served = {one.target for one in servers}
    served |= {one.target for one in found if one.scope == installed.PLUGIN}  # it brings one
    for name, scope in {one.target: one.scope for one in found}.items():
        if name in targets.AGENTS and name not in served:
            where = " --project" if scope == targets.PROJECT else ""
            hint = f"`git mem install {name}{where} --mcp` enters it"
            yield Finding(OFF, f"{targets.AGENTS[name].title} has no MCP server of git mem", hint)


def packaged(store: Store) -> Iterator[Finding]:
    """Whether table, capture's model and encoder, as packaged, can be used."""
    again = "install git mem again"
    try:
        store.table.verify()
        yield Finding(OK, f"embedding table {store.table.space}")
    except Exception as e:
        yield Finding(BAD, str(e), again)
    try:
        from ..capture import linear

        model = linear.load()
    except Exception as e:
        yield Finding(BAD, f"no turn can be captured: {e!r}", again)
        return
    if not store.settings.flag("encoder"):
        return
    try:
        from ..embedding.encoder import Encoder

        encoder = Encoder()
        encoder.file.verify()
        yield Finding(OK, f"encoder {encoder.space}")
    except Exception as e:
        yield Finding(BAD, f"the encoder cannot be used: {e}", again)
        return
    try:
        if not model.fits(encoder):
            raise ValueError("data/turn_layer.bin is not the one of data/capture.json")
    except Exception as e:
        yield Finding(BAD, f"captured turns are judged without the encoder: {e}", again)


def policy(store: Store) -> Iterator[Finding]:
    try:
        table = config_read.policy_table(store.repo.top)
    except MemError as e:
        text = f"{e.message}, so it counts as absent"
        yield Finding(WARN, text, "a policy file has at most 8 KB and 8 dots a line")
        return
    allowed = {name for name, setting in config.SETTINGS.items() if setting[2]}
    for name in table:
        if name in allowed:
            try:
                config_read.check_policy(name, table[name])
            except UsageError as e:
                yield Finding(WARN, f".gitmem.toml: {e.message}; ignored")
    if ignored := sorted(set(table) - allowed):
        text = f".gitmem.toml may not set {', '.join(ignored)}; ignored"
        yield Finding(WARN, text, "use `git config` for it")
