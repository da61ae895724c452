"""Puts git mem into an agent's settings, or a section into AGENTS.md, and takes it out again.

Promise: only the target's file is changed, only by our own characters, and `uninstall` gives back
the bytes that were there; where others have changed the file since, our own entries go and the rest
stays. A file that cannot be understood is left as it is. A second installation that would hand over
every memory twice is refused. Decision 18 says why settings are chosen so.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from ..core.errors import MemError, UsageError
from ..git import config, config_journal, worktree_file
from ..git.gitcmd import Git
from ..git.repository import Repo
from ..hooks.githooks import PACKAGE
from . import install_log, installed, mcp_entry, targets
from .install_log import Ledger
from .jsonedit import Broken, Doc
from .targets import PERMISSION, PROJECT, USER, Agent

_KEY = "mem.promptContext"
_STEP = "agents"  # of `config_journal`
_CONFIG = "git-config"  # target of the user's git configuration in the log
_SETTING = "[mem]\n\tpromptContext = true\n"
_ALLOW = ("permissions", "allow")
_SERVERS = ("mcpServers",)


def install(
    environ: Mapping[str, str],
    repo: Repo | None,
    target: str,
    scope: str = "",
    allow: bool | None = None,
    mcp: bool = False,
    dry: bool = False,
) -> tuple[list[str], list[str], dict[str, str]]:
    """(what was done, hints, {}). `scope`: user (the default) or project; `allow`: whether the
    agent may run git mem without asking, None: as it is. `mcp`: also our server, among those it
    starts. `dry`: nothing is written; the third value has the text that each file would get.
    """
    with install_log.opened(environ, dry) as log:
        if target in targets.SECTIONS:
            return _install_section(log, _top(repo, target), target), [], log.would
        if not dry:  # of two files none changes where the other one is refused
            tried = Ledger(install_log.place(environ), dry=True)
            _install(tried, environ, repo, targets.AGENTS[target], scope or USER, allow, mcp)
        return _install(log, environ, repo, targets.AGENTS[target], scope or USER, allow, mcp)


def _install(
    log: Ledger,
    environ: Mapping[str, str],
    repo: Repo | None,
    agent: Agent,
    scope: str,
    allow: bool | None,
    mcp: bool,
) -> tuple[list[str], list[str], dict[str, str]]:
    if allow and agent.name != "claude":
        reason = f"{agent.title} keeps no such permission in its settings"
        raise UsageError(reason, hint="leave --allow out")
    path = _settings_file(environ, repo, agent, scope)
    on_path = bool(shutil.which("git-mem", path=environ.get("PATH", "")))
    # A file that others get always uses the name.
    named = scope == PROJECT or on_path
    program = () if named else (sys.executable, PACKAGE)
    commands = {event: targets.command(agent.name, event, *program) for event in agent.events}
    _refuse_double(environ, repo, agent, path, commands)
    done, server = [], mcp_entry.entry(agent, *program[:1]) if mcp else None
    place = mcp_entry.file(environ, repo.top if repo else "", agent, scope)
    hints = [agent.needs] if agent.needs else []
    if server and (other := installed.other_server(place)):
        hints.append(other)
    if server and place != path:
        done = _install_server(log, agent, repo if scope == PROJECT else None, place, server)
        server = None
    done += _enter(log, agent, path, commands, allow, server)
    if reason := installed.unread(agent, path):
        silent = "so it runs no hook of it until that is mended"
        hints.append(f"{agent.title} cannot read '{path}' ({reason}), {silent}")
    if scope == PROJECT and not on_path:
        hints.append("git-mem is not on PATH: the hooks do nothing until it is")
    more, hint = _set_prompt_context(log, environ, repo, scope)
    return done + more, hints + hint, log.would


def uninstall(
    environ: Mapping[str, str],
    repo: Repo | None,
    target: str,
    scope: str = "",
    leaving: bool = False,
) -> list[str]:
    """One line for each thing done. `scope`: only there. `leaving`: git mem leaves the repository;
    only what was installed from here goes, not what a colleague committed, and the caller takes the
    repository's settings back."""
    with install_log.opened(environ) as log:
        done = []
        for place, path in _files(log, environ, repo, target):
            if scope and (USER if place == USER else PROJECT) != scope:
                continue
            noted = log.known(path).get("target", "")
            ours = noted in ("", target)
            if leaving and noted != target:
                continue
            changed = _restore(log, target, path)
            if ours:
                log.forget(path)
            if changed:
                removed = "removed from" if os.path.exists(path) else "removed"
                done.append(f"{removed} '{path}'")
        if leaving or target not in targets.AGENTS:
            return done
        everything = installed.state(environ, repo)
        left = {one.scope for one in everything if one.target in targets.AGENTS}
        left.discard(installed.PLUGIN)
        if repo and not left - {USER}:
            done += config_journal.undo(repo, {_STEP}, [])
        if USER not in left:
            done += _unset_prompt_context(log)
        return done


def _files(
    log: Ledger, environ: Mapping[str, str], repo: Repo | None, target: str
) -> list[tuple[str, str]]:
    """(scope, file) of all that `install` may have written: servers only where it noted so. Those
    whose directory was made come last, so that it is empty then.
    """
    found, top = installed.places(environ, repo, target), repo.top if repo else ""
    if target in targets.AGENTS:
        agent = targets.AGENTS[target]
        servers = [(s, mcp_entry.file(environ, top, agent, s)) for s in (USER, PROJECT)]
        found += [one for one in servers if log.known(one[1]) and one not in found]
    return sorted(found, key=lambda one: len(log.known(one[1]).get("dirs", ())))


def everything_here(environ: Mapping[str, str], repo: Repo) -> list[str]:
    """Takes out what this user installed into this working tree, not the user's settings."""
    everything = (*targets.AGENTS, *targets.SECTIONS)
    return [done for t in everything for done in uninstall(environ, repo, t, PROJECT, leaving=True)]


def _settings_file(environ: Mapping[str, str], repo: Repo | None, agent: Agent, scope: str) -> str:
    if scope == PROJECT:
        top = _top(repo, agent.name)
        _refuse_outside(top, agent.project)
        return agent.file(environ, top, PROJECT)
    if not (path := agent.file(environ, "", USER)):
        hint = "set HOME to an absolute path; nothing was changed"
        raise MemError(f"no home directory where {agent.title} would have settings", hint=hint)
    return path


def _top(repo: Repo | None, target: str) -> str:
    if repo is None or not repo.top:
        raise MemError(f"no working tree to install '{target}' into", hint="run it inside one")
    return repo.top


def _refuse_outside(top: str, name: str) -> None:
    """A commit can make a link of the file: we must not write outside of the working tree."""
    if not worktree_file.inside(top, os.path.join(top, name)):
        raise MemError(f"'{name}' leads out of the working tree", hint="nothing was changed")


def _restore(log: Ledger, target: str, path: str) -> bool:
    """Makes a file what it was, or takes our text out where others wrote; whether it changed."""
    text = install_log.read(path)
    if text is None:
        return False
    agent = targets.AGENTS.get(target)
    created = log.known(path).get("created")
    left = log.original(path, text, target if agent else "")
    if left is None:
        try:
            if agent:
                left = _without(log.known(path), path, text)
            else:
                left = (
                    text.replace(_SETTING, "", 1)
                    if target == _CONFIG
                    else targets.without_section(text)
                )
        except (ValueError, targets.Unclear) as e:
            raise _unclear(path, e) from e
    return log.write(path, target, text, left if left or not created else None)


def _without(note: dict[str, Any], path: str, text: str) -> str:
    """The text without our hooks and our server; "" where we made the file and nothing is left."""
    if path.endswith(".toml"):
        return mcp_entry.without_table(text) if note.get("server") else text
    left = _without_ours(note, text)
    return "" if left != text and note.get("created") and not Doc(left).value() else left


def _unclear(path: str, e: ValueError) -> MemError:
    hint = "mend the file by hand; nothing was changed"
    return MemError(f"cannot understand '{path}': {e}", hint=hint)


def _refuse_double(
    environ: Mapping[str, str], repo: Repo | None, agent: Agent, path: str, commands: dict[str, str]
) -> None:
    """Raises MemError where another installation would hand over each memory a second time."""
    others = [
        one
        for one in installed.state(environ, repo)
        if one.target == agent.name
        and not one.problem
        and (one.scope == installed.PLUGIN or os.path.realpath(one.path) != os.path.realpath(path))
    ]
    new = installed.Found(agent.name, USER, path, {e: [c] for e, c in commands.items()})
    if not installed.double([*others, new]):
        return
    removal = f"`git mem uninstall {agent.name}` takes away what is there"
    if any(one.scope == installed.PLUGIN for one in others):
        removal = "the client's `/plugin` command removes a plugin"
    raise MemError(
        f"{agent.title} already has git mem: {', '.join(map(installed.words, others))}",
        hint=f"both would hand over each memory; {removal}",
    )


def _install_server(
    log: Ledger, agent: Agent, repo: Repo | None, path: str, server: dict[str, Any]
) -> list[str]:
    """Our server in a file beside the agent's settings; `repo`: whose file it is."""
    if repo:
        _refuse_outside(repo.top, os.path.relpath(path, repo.top))
    if not path.endswith(".toml"):
        return _enter(log, agent, path, {}, None, server)
    text = install_log.read(path)
    try:
        if mcp_entry.same(mcp_entry.found(path, text or "", ""), server):
            return []
        before = log.original(path, text, agent.name)
        before = _without(log.known(path), path, text or "") if before is None else before
        new, spans = mcp_entry.with_table(before, server)
    except ValueError as e:
        raise _unclear(path, e) from e
    if not log.write(path, agent.name, text, new, spans, server=server):
        return []
    return [f"{agent.title}: MCP server in '{path}'"]


def _enter(
    log: Ledger,
    agent: Agent,
    path: str,
    commands: dict[str, str],
    allow: bool | None,
    server: dict[str, Any] | None,
) -> list[str]:
    """Hooks, a permission and our server into a file of JSON; None: as it is."""
    text = install_log.read(path)
    try:
        if _complete(Doc(text or ""), commands, allow, server):
            return []
        before = log.original(path, text, agent.name)
        doc = Doc(_without_ours(log.known(path), text or "") if before is None else before)
        allowed = bool(log.known(path).get("allow")) if allow is None else allow
        server = server or log.known(path).get("server")
        needed = [("hooks",), *(("hooks", event) for event in commands), _ALLOW[:1], _ALLOW]
        made = [list(keys) for keys in [*needed, _SERVERS] if doc.at(*keys) is None]
        if agent.versioned and commands:
            doc.put(("version",), 1)
        for event, command in commands.items():
            doc.append(("hooks", event), agent.entry(event, command))
        adds = allowed and PERMISSION not in (doc.value(*_ALLOW) or [])
        if adds:
            doc.append(_ALLOW, PERMISSION)
        if server and doc.at(*_SERVERS, mcp_entry.NAME) is None:
            doc.put((*_SERVERS, mcp_entry.NAME), server)
        else:
            server = None  # somebody's own stays
    except Broken as e:
        raise _unclear(path, e) from e
    note = {"allow": adds, "made": made, "server": server}
    if not log.write(path, agent.name, text, doc.text, doc.spans, **note):
        return []
    what = [f"hooks in '{path}': {', '.join(commands)}"] if commands else []
    what += [f"permission {PERMISSION} in '{path}'"] if adds else []
    what += [f"MCP server in '{path}'"] if server else []
    return [f"{agent.title}: {one}" for one in what]


def _complete(
    doc: Doc, commands: dict[str, str], allow: bool | None, server: dict[str, Any] | None
) -> bool:
    """Whether the file has everything already, perhaps in other words of the user's."""
    entries = sorted((event, command) for _, event, command in targets.entries(doc.value("hooks")))
    permitted = PERMISSION in _list(doc.value(*_ALLOW))
    serves = server is None or mcp_entry.same(doc.value(*_SERVERS, mcp_entry.NAME), server)
    return entries == sorted(commands.items()) and allow in (None, permitted) and serves


def _without_ours(note: dict[str, Any], text: str) -> str:
    """The text without our entries and the noted server, and without containers that we made and
    that are empty then.
    """
    try:
        doc = Doc(text)
    except Broken:
        if "git-mem" in text or "gitmem" in text:
            raise
        return text
    emptied: list[tuple[str, ...]] = []
    while entries := targets.entries(doc.value("hooks")):
        place, event, _ = entries[0]
        doc.remove("hooks", *place)
        emptied.append(("hooks", event))
    if emptied:
        emptied.append(("hooks",))
    allowed = _list(doc.value(*_ALLOW))
    if note.get("allow") and PERMISSION in allowed:
        doc.remove(*_ALLOW, allowed.index(PERMISSION))
        emptied += [_ALLOW, _ALLOW[:1]]
    if note.get("server") and mcp_entry.ours(doc.value(*_SERVERS, mcp_entry.NAME)):
        doc.remove(*_SERVERS, mcp_entry.NAME)
        emptied.append(_SERVERS)
    for keys in emptied:
        if doc.blank(*keys) and list(keys) in note.get("made", [list(keys)]):
            doc.remove(*keys)
    if note.get("created") and list(doc.value() or ()) == ["version"]:
        doc.remove("version")
    return doc.text


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _install_section(log: Ledger, top: str, target: str) -> list[str]:
    _refuse_outside(top, targets.SECTIONS[target])
    path = os.path.join(top, targets.SECTIONS[target])
    text = install_log.read(path)
    before = log.original(path, text)
    try:
        new, spans = targets.with_section(before if before is not None else text or "")
    except targets.Unclear as e:
        raise _unclear(path, e) from e
    if not log.write(path, target, text, new, spans):
        return []
    return [f"a section between markers in '{path}'"]


def _set_prompt_context(
    log: Ledger, environ: Mapping[str, str], repo: Repo | None, scope: str
) -> tuple[list[str], list[str]]:
    """(what was done, hints): prompts get memories, unless somebody chose a value."""
    git = repo.git if repo else Git()
    path = config.global_file(environ) if scope == USER else ""
    if scope == USER and not path:
        none = "for there is no global git configuration: prompts get no memories"
        return [], [f"{_KEY} is not set, {none}"]
    try:
        where = ["--global", "--includes"] if scope == USER else []
        chosen = git.text("config", *where, "--type=bool", "--get", _KEY, ok=(0, 1))
        if chosen:
            return [], [] if chosen == "true" else [f"{_KEY} is {chosen}: prompts get no memories"]
        if scope == PROJECT:
            assert repo is not None
            if not log.dry:
                config_journal.add(repo, _STEP, [(_KEY, "true")])
            return [f"{_KEY} = true  (prompts get memories, in this repository)"], []
        text = install_log.read(path)
        new, spans = _with_setting(text or "")
        log.write(path, _CONFIG, text, new, spans)
    except MemError as e:  # the hooks are in place, and work without it
        hint = f"{_KEY} could not be set: {e.message}; prompts get no memories until it is true"
        return [], [hint]
    return [f"{_KEY} = true in '{path}'  (prompts get memories)"], []


def _with_setting(text: str) -> tuple[str, list[list[int]]]:
    line = text.rstrip("\r\n")
    # A backslash at the end would continue into our first line.
    continued = line.endswith("\\") and text.count("\n", len(line)) < 2
    unended = bool(text) and not text.endswith("\n")
    piece = "\n" * (continued + unended) + _SETTING
    return text + piece, [[len(text), len(text) + len(piece)]]


def _unset_prompt_context(log: Ledger) -> list[str]:
    """Takes the user's setting back, if it was we who made it."""
    done = []
    for path in [path for path, note in log.files.items() if note["target"] == _CONFIG]:
        if _restore(log, _CONFIG, path):
            done.append(f"{_KEY} removed from '{path}'")
        log.forget(path)
    return done
