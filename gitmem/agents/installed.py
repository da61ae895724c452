"""Which agents have git mem, where, and what is wrong with it. Reads only.

Promise: says what the files say, not what we remember having written: a plugin, an entry made by
hand and one that a colleague committed count alike.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..core.errors import MemError
from ..git.repository import Repo
from ..hooks.githooks import PACKAGE
from . import automemory, install_log, mcp_entry, targets
from .jsonedit import Broken, Doc

LOCAL, PLUGIN = "local", "plugin"  # beside targets.USER and targets.PROJECT


class Found(NamedTuple):
    """git mem in one file: the commands at each event, or why it cannot be read."""

    target: str
    scope: str
    path: str
    commands: Mapping[str, list[str]] = {}
    problem: str = ""


class Server(NamedTuple):
    """Our entry among an agent's MCP servers. `missing`: the program that it names and that is not
    there; `problem`: why the file cannot be read.
    """

    target: str
    path: str
    missing: str = ""
    hint: str = ""
    problem: str = ""


def places(environ: Mapping[str, str], repo: Repo | None, target: str) -> list[tuple[str, str]]:
    """(scope, file) of every place where a target may stand; linked files once."""
    top = repo.top if repo else ""
    if target in targets.SECTIONS:
        found = [(targets.PROJECT, os.path.join(top, targets.SECTIONS[target]) if top else "")]
    else:
        agent, scopes = targets.AGENTS[target], (targets.USER, targets.PROJECT)
        found = [(scope, agent.file(environ, top, scope)) for scope in scopes]
        if target == "claude" and top:
            found.append((LOCAL, claude_settings(environ, top)[2]))
    once: dict[str, tuple[str, str]] = {}
    for scope, path in found:
        if path:
            once.setdefault(os.path.realpath(path), (scope, path))
    return list(once.values())


def claude_settings(environ: Mapping[str, str], top: str) -> list[str]:
    """Claude Code's settings files, the nearest last; it reads a project's at its top alone."""
    names = ("settings.json", "settings.local.json") if top else ()
    user = os.path.join(automemory.config_dir(environ), "settings.json")
    return [user, *[os.path.join(top, ".claude", name) for name in names]]


def plugins(environ: Mapping[str, str], top: str) -> list[tuple[str, str]]:
    """(plugin@marketplace, file) of every enabled plugin of ours; the nearer file decides."""
    on: dict[str, str] = {}
    for path in claude_settings(environ, top):
        enabled = _json(path).get("enabledPlugins")
        for key, value in enabled.items() if isinstance(enabled, dict) else ():
            if key.partition("@")[0] == targets.PLUGIN:
                on.pop(key, None)
                if value:
                    on[key] = path
    return list(on.items())


def _json(path: str) -> dict[str, Any]:
    try:
        found = json.loads((install_log.read(path) or "").removeprefix("\ufeff"))
    except (MemError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def state(environ: Mapping[str, str], repo: Repo | None) -> list[Found]:
    """Everything that is installed for this user and this working tree."""
    everywhere = [
        _look(target, scope, path)
        for target in (*targets.AGENTS, *targets.SECTIONS)
        for scope, path in places(environ, repo, target)
    ]
    plugged = plugins(environ, repo.top if repo else "")
    return [*filter(None, everywhere), *(Found("claude", PLUGIN, path) for _, path in plugged)]


def _look(target: str, scope: str, path: str) -> Found | None:
    try:
        text = install_log.read(path)
        if text is None or ("git-mem" not in text and "gitmem" not in text):
            return None
        if target in targets.SECTIONS:
            return Found(target, scope, path) if targets.section_in(text) else None
        found = targets.entries(Doc(text).value("hooks"))
    except (Broken, targets.Unclear, MemError) as e:
        return Found(target, scope, path, problem=str(e))
    events = dict.fromkeys(event for _, event, _ in found)
    commands = {event: [c for _, at, c in found if at == event] for event in events}
    return Found(target, scope, path, commands) if commands else None


def elsewhere(environ: Mapping[str, str], target: str) -> list[str]:
    """Files with hooks of ours that are noted for an agent: after `uninstall` those of other
    working trees, or of a directory that a variable named.
    """
    noted = install_log.Ledger(install_log.place(environ)).files.items()
    looked = (_look(target, targets.USER, path) for path, n in noted if n["target"] == target)
    return [found.path for found in looked if found and found.commands]


def servers(environ: Mapping[str, str], repo: Repo | None) -> list[Server]:
    """The entries of our server that agents find for this user and this working tree."""
    top, out = repo.top if repo else "", []
    for agent in targets.AGENTS.values():
        for scope in (targets.USER, targets.PROJECT):
            path = mcp_entry.file(environ, top, agent, scope)
            try:
                text = (install_log.read(path) or "") if path else ""
                entry = mcp_entry.found(path, text, top) if mcp_entry.NAME in text else None
            except (ValueError, MemError) as e:
                out.append(Server(agent.name, path, problem=str(e)))
                continue
            if entry is not None:
                lacks = _missing(environ, top, entry)
                hint = _mending(environ, agent, scope, path) if lacks else ""
                out.append(Server(agent.name, path, lacks, hint))
    return out


def _missing(environ: Mapping[str, str], top: str, entry: Any) -> str:
    """The program that an entry starts, where it is not there; "" also where nobody can tell."""
    program = entry.get("command") if isinstance(entry, dict) else None
    if not isinstance(program, str) or "$" in program:
        return ""
    path = os.path.join(top, program) if os.sep in program else program
    return "" if shutil.which(path, path=environ.get("PATH", "")) else program


def _mending(environ: Mapping[str, str], agent: targets.Agent, scope: str, path: str) -> str:
    if not install_log.Ledger(install_log.place(environ)).known(path).get("server"):
        return "mend 'command' there by hand: git mem leaves an entry that it did not make"
    on_path = "with git-mem on PATH " if scope == targets.PROJECT else ""
    return f"{on_path}run `git mem install {agent.name} --{scope} --mcp`"


def other_server(path: str) -> str:
    """Says that another program's server has our name in a file; "" where none has."""
    try:
        entry = mcp_entry.found(path, install_log.read(path) or "", "")
    except ValueError:  # whoever writes there says so
        return ""
    if entry is None or mcp_entry.ours(entry):
        return ""
    return f"'{path}' has another program's server named '{mcp_entry.NAME}': ours is not entered"


def unread(agent: targets.Agent, path: str) -> str:
    """Why an agent cannot read its settings file; "" where it can, or nobody knows.

    Claude Code (2.1.197, 2.1.330) takes no settings at all from a file that has a comment, a comma
    too many or a control character in a string, and says nothing.
    """
    if agent.name != "claude":
        return ""
    try:
        text = (install_log.read(path) or "").removeprefix("\ufeff")
        if text.strip():
            json.loads(text)
    except (MemError, ValueError, RecursionError) as e:
        return str(e)
    return ""


def problems(
    environ: Mapping[str, str], repo: Repo | None, found: list[Found]
) -> Iterator[tuple[str, str]]:
    """(problem, hint) of everything that keeps an installation from working once."""
    for one in found:
        if one.problem:
            hint = "mend the file; git mem leaves it as it is"
            yield f"'{one.path}' cannot be judged: {one.problem}", hint
    for agent in targets.AGENTS.values():
        files = [one for one in found if one.target == agent.name and not one.problem]
        if twice := double(files):
            hint = f"keep one; `git mem uninstall {agent.name}` takes away what stands in settings"
            yield twice, hint
        for one in files:
            if one.scope != PLUGIN:
                yield from _problems_of(environ, agent, one)
    if any(one.target == "claude" for one in found):
        hint = "the agent gets no memories until it is taken out there"
        for path in claude_settings(environ, repo.top if repo else ""):
            if _json(path).get("disableAllHooks") is True:
                off = "all hooks are switched off by 'disableAllHooks'"
                yield f"Claude Code: {off} in '{path}'", hint


def _problems_of(
    environ: Mapping[str, str], agent: targets.Agent, one: Found
) -> Iterator[tuple[str, str]]:
    title, file, hooks = agent.title, f"in '{one.path}'", f"the hooks in '{one.path}'"
    if reason := unread(agent, one.path):
        hint = "mend the file by hand: it has to be JSON, without comments"
        yield f"{title} cannot read '{one.path}', so it runs no hook of it: {reason}", hint
    scope = targets.PROJECT if one.scope == targets.PROJECT else targets.USER
    again = f"run `git mem install {agent.name} --{scope}`"
    if more := [event for event, commands in one.commands.items() if len(commands) > 1]:
        yield f"{title}: git mem stands more than once at {', '.join(more)} {file}", again
    if lacking := [event for event in agent.events if event not in one.commands]:
        yield f"{title}: no hook of git mem at {', '.join(lacking)} {file}", again
    packages = {targets.program(c) for commands in one.commands.values() for c in commands}
    if "" in packages and not shutil.which("git-mem", path=environ.get("PATH", "")):
        hint = "put the directory of git-mem on PATH"
        yield f"{title}: {hooks} do nothing: no git-mem on PATH", hint
    for package in sorted(packages - {""}):
        if not os.path.exists(os.path.join(package, "__main__.py")):
            yield f"{title}: {hooks} do nothing: git mem is gone from '{package}'", again
        elif os.path.realpath(package) != os.path.realpath(PACKAGE):
            yield (
                f"{title}: {hooks} start the git mem in '{package}', this one is in '{PACKAGE}'",
                again,
            )


def words(one: Found) -> str:
    """Where an installation is, in a message."""
    return f"{'plugin, by' if one.scope == PLUGIN else 'in'} '{one.path}'"


def double(files: list[Found]) -> str:
    """Says that several installations would each hand over every memory; "" if not so."""
    kinds = set()
    for one in files:
        # Claude Code runs equal commands of several settings files once; no other agent does.
        once = one.target == "claude" and one.scope != PLUGIN
        commands = frozenset(c for found in one.commands.values() for c in found)
        kinds.add(commands if once else (one.scope, one.path))
    if len(kinds) < 2:
        return ""
    title = targets.AGENTS[files[0].target].title
    places = " and ".join(map(words, files)).replace("plugin, by", "as a plugin by")
    twice = f"git mem is installed {len(files)} times, {places}"
    return f"{title}: {twice}: each memory is handed over twice"
