"""Puts git mem into an agent's settings, or a section into AGENTS.md, and takes it out again.

Promise: only the file that was asked for is changed, only by our own characters,
and `uninstall` gives back the bytes that were there; where others have changed
the file since, our own entries go and the rest stays. A file that cannot be
understood is left as it is. Nothing is installed twice: a second way that would
hand every memory over twice is refused. docs/decisions/0018-agents-settings.md
says why settings are chosen so.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from ..core.errors import MemError, UsageError
from ..git import config_journal, worktree_file
from ..git.gitcmd import Git
from ..git.repository import Repo
from . import install_log, installed, section, targets
from .install_log import Change, Ledger
from .jsonedit import Broken, Doc
from .targets import PERMISSION, PROJECT, USER, Agent

_KEY = "mem.promptContext"
_STEP = "agents"  # of `changes`
_CONFIG = "git-config"  # of the ledger


def install(
    environ: Mapping[str, str],
    repo: Repo | None,
    target: str,
    scope: str = "",
    allow: bool | None = None,
) -> tuple[list[str], list[str]]:
    """(what was done, hints).

    `scope`: user or project, "" for the target's own choice; `allow`: whether the agent may run git
    mem unasked, None: as it is.
    """
    with install_log.opened(environ) as book:
        if target in targets.SECTIONS:
            return _install_section(book, _top(repo, target), target), []
        agent = targets.AGENTS[target]
        scope = scope or _default(agent)
        if allow and target != "claude":
            raise UsageError(
                f"{agent.title} keeps no such permission in its settings", hint="leave --allow out"
            )
        if scope == PROJECT:
            _refuse_outside(_top(repo, target), agent.project)
        path = agent.file(environ, repo.top if repo else "", scope)
        if not path:
            if agent.personal:
                raise MemError(
                    f"no home directory where {agent.title} would have settings",
                    hint="set HOME to an absolute path; nothing was changed",
                )
            raise UsageError(
                f"{agent.title} reads no hooks of a user",
                hint=(
                    f"`git mem install {target} --project` writes '{agent.project}' into the"
                    " working tree"
                ),
            )
        commands = {
            event: targets.command(target, event, *_program(environ, scope))
            for event in agent.events
        }
        _refuse_double(environ, repo, agent, scope, path, commands)
        done = _install_hooks(book, agent, path, commands, allow)
        hints = [agent.needs] if agent.needs else []
        unread = installed.unread(agent, path)
        hints += (
            [
                f"{agent.title} cannot read '{path}' ({unread}), so it runs no hook of it until"
                " that is mended"
            ]
            if unread
            else []
        )
        if scope == PROJECT and not shutil.which("git-mem", path=environ.get("PATH", "")):
            hints.append("git-mem is not on PATH: the hooks do nothing until it is")
        more, hint = _prompt_context(book, environ, repo, scope)
        return done + more, hints + hint


def uninstall(
    environ: Mapping[str, str], repo: Repo | None, target: str, scope: str = "", whole: bool = False
) -> list[str]:
    """One line for each thing done. `scope`: only there. `whole`: git mem leaves the repository;
    only what was installed from here goes, not what a colleague committed, and the caller takes the
    repository's settings back."""
    with install_log.opened(environ) as book:
        done = []
        for where, path in installed.places(environ, repo, target):
            if scope and (where if where == USER else PROJECT) != scope:
                continue
            others = book.known(path).get("target", target) != target
            if whole and (others or not book.known(path)):
                continue
            if target in targets.SECTIONS:
                changed = book.edit(
                    path,
                    target,
                    lambda text, path=path: _without_section(book, path, text),  # type: ignore[misc]
                )
            else:
                agent = targets.AGENTS[target]
                changed = book.edit(
                    path,
                    target,
                    lambda text, path=path, agent=agent: _without(book, agent, path, text),  # type: ignore[misc]
                )
            if not others:
                book.forget(path)
            if changed:
                done.append(
                    f"removed from '{path}'" if os.path.exists(path) else f"removed '{path}'"
                )
        if whole:
            return done
        left = {
            one.scope
            for one in installed.state(environ, repo)
            if one.target in targets.AGENTS and one.scope != installed.PLUGIN
        }
        if target in targets.AGENTS and not left - {USER} and repo:
            done += config_journal.undo(repo, {_STEP}, [])
        if target in targets.AGENTS and USER not in left:
            done += _config_back(book)
        return done


def everything_here(environ: Mapping[str, str], repo: Repo) -> list[str]:
    """Takes out what was installed into this working tree, by this user.

    What stands in the user's own settings serves other repositories too.
    """
    done = []
    for target in (*targets.AGENTS, *targets.SECTIONS):
        done += uninstall(environ, repo, target, PROJECT, whole=True)
    return done


def _default(agent: Agent) -> str:
    if agent.name == "copilot":
        raise UsageError(
            f"{agent.title} reads hooks from the working tree alone",
            hint=f"`git mem install {agent.name} --project` writes '{agent.project}' there",
        )
    return USER


def _top(repo: Repo | None, target: str) -> str:
    if repo is None or not repo.top:
        raise MemError(f"no working tree to install '{target}' into", hint="run it inside one")
    return repo.top


def _refuse_outside(top: str, name: str) -> None:
    """A commit can make a link of the file: what we write must not go out of the working tree."""
    if not worktree_file.inside(top, os.path.join(top, name)):
        raise MemError(f"'{name}' leads out of the working tree", hint="nothing was changed")


def _program(environ: Mapping[str, str], scope: str) -> tuple[str, str]:
    """(interpreter, package) for commands that cannot go by the name; a file that others get goes
    by it always.
    """
    if scope == PROJECT or shutil.which("git-mem", path=environ.get("PATH", "")):
        return "", ""
    return sys.executable, installed.own_package()


def _refuse_double(
    environ: Mapping[str, str],
    repo: Repo | None,
    agent: Agent,
    scope: str,
    path: str,
    commands: dict[str, str],
) -> None:
    here = [
        one
        for one in installed.state(environ, repo)
        if one.target == agent.name
        and not one.problem
        and os.path.realpath(one.path) != os.path.realpath(path)
    ]
    here += [
        one
        for one in installed.state(environ, repo)
        if one.target == agent.name and one.scope == installed.PLUGIN and one not in here
    ]
    plugin = any(one.scope == installed.PLUGIN for one in here)
    twice = installed.double(
        [
            *{(o.scope, o.path): o for o in here}.values(),
            installed.Found(agent.name, scope, path, {e: [c] for e, c in commands.items()}),
        ]
    )
    if twice:
        way = (
            "the client's `/plugin` command removes a plugin"
            if plugin
            else f"`git mem uninstall {agent.name}` takes away what is there"
        )
        raise MemError(
            f"{agent.title} already has git mem: "
            + ", ".join(
                f"{'plugin, by' if o.scope == installed.PLUGIN else 'in'} '{o.path}'" for o in here
            ),
            hint=f"both would hand over each memory; {way}",
        )


# --- hooks in JSON ----------------------------------------------------------


def _install_hooks(
    book: Ledger, agent: Agent, path: str, commands: dict[str, str], allow: bool | None
) -> list[str]:
    def change(text: str | None) -> Change | None:
        base = _base(book, agent, path, text)
        try:
            wanted = bool(book.known(path).get("allow")) if allow is None else allow
            doc = Doc(base)
            made = [*_lacking(doc, agent, wanted)]
            if agent.version:
                doc.put(("version",), 1)
            for event, command in commands.items():
                doc.append(("hooks", event), agent.entry(event, command))
            own = wanted and PERMISSION not in (doc.value("permissions", "allow") or [])
            if own:
                doc.append(("permissions", "allow"), PERMISSION)
        except Broken as e:
            raise _unreadable(path, e) from e
        return Change(doc.text, doc.spans, {"made": made, "allow": own})

    if book.edit(
        path,
        agent.name,
        lambda text: None if _complete(agent, path, text, commands, allow) else change(text),
    ):
        return [f"{agent.title}: hooks in '{path}': {', '.join(commands)}"]
    return []


def _complete(
    agent: Agent, path: str, text: str | None, commands: dict[str, str], allow: bool | None
) -> bool:
    """Whether the file says already, perhaps in other words of the user's, what would be
    written."""
    try:
        doc = Doc(text or "")
        there = sorted(
            (event, command) for _, event, command in targets.entries(doc.value("hooks"))
        )
        permitted = PERMISSION in _list(doc.value("permissions", "allow"))
    except Broken as e:
        raise _unreadable(path, e) from e
    return there == sorted(commands.items()) and (allow is None or allow == permitted)


def _base(book: Ledger, agent: Agent, path: str, text: str | None) -> str:
    """The text without anything of this installation's."""
    before = _original(book, agent, path, text)
    return _cleared(book, agent, path, text or "") if before is None else before


def _without(book: Ledger, agent: Agent, path: str, text: str | None) -> Change | None:
    if text is None:
        return None
    before = _original(book, agent, path, text)
    if before is not None:
        return Change(None if book.known(path).get("created") and not before else before)
    left = _cleared(book, agent, path, text)
    empty = left != text and book.known(path).get("created") and not Doc(left).value()
    return Change(None if empty else left)


def _original(book: Ledger, agent: Agent, path: str, text: str | None) -> str | None:
    """`Ledger.original`, where an installation of this agent wrote the file last."""
    return book.original(path, text) if book.known(path).get("target") == agent.name else None


def _cleared(book: Ledger, agent: Agent, path: str, text: str) -> str:
    """The text without our entries and what would be left empty of the containers that we made; all
    else as it is.
    """
    note = book.known(path)
    try:
        doc = Doc(text)
        found = targets.entries(doc.value("hooks"))
        events = [event for _, event, _ in found]
        while found:
            doc.remove("hooks", *found[0][0])
            found = targets.entries(doc.value("hooks"))
        if note.get("allow"):
            allowed = _list(doc.value("permissions", "allow"))
            if PERMISSION in allowed:
                doc.remove("permissions", "allow", allowed.index(PERMISSION))
        made = note.get(
            "made", [["hooks"], *(["hooks", event] for event in events)] if events else []
        )
        for keys in sorted(made, key=len, reverse=True):
            if keys == ["version"]:
                if note.get("created") and list(doc.value() or {}) == ["version"]:
                    doc.remove("version")
            elif doc.blank(*keys):
                doc.remove(*keys)
        return doc.text
    except Broken as e:
        if "git-mem" in text or "gitmem" in text:
            raise _unreadable(path, e) from e
        return text


def _lacking(doc: Doc, agent: Agent, allow: bool) -> list[list[str]]:
    """The containers that an installation has to make."""
    wanted = [["hooks"], *(["hooks", event] for event in agent.events)]
    wanted += [["permissions"], ["permissions", "allow"]] if allow else []
    wanted += [["version"]] if agent.version else []
    return [keys for keys in wanted if doc.at(*keys) is None]


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _unreadable(path: str, e: Broken) -> MemError:
    return MemError(
        f"cannot understand '{path}': {e}", hint="mend the file by hand; nothing was changed"
    )


# --- sections ---------------------------------------------------------------


def _install_section(book: Ledger, top: str, target: str) -> list[str]:
    _refuse_outside(top, targets.SECTIONS[target])
    path = os.path.join(top, targets.SECTIONS[target])

    def change(text: str | None) -> Change | None:
        try:
            before = book.original(path, text)
            wanted, spans = section.put(before if before is not None else text or "")
        except section.Unclear as e:
            raise MemError(
                f"'{path}': {e}", hint="take them out by hand; nothing was changed"
            ) from e
        return None if wanted == text else Change(wanted, spans)

    return [f"a section between markers in '{path}'"] if book.edit(path, target, change) else []


def _without_section(book: Ledger, path: str, text: str | None) -> Change | None:
    if text is None:
        return None
    before = book.original(path, text)
    try:
        left = section.take(text) if before is None else before
    except section.Unclear as e:
        raise MemError(
            f"'{path}': {e}", hint="take the section out by hand; nothing was changed"
        ) from e
    return Change(None if not left and book.known(path).get("created") else left)


# --- the setting ------------------------------------------------------------


def _prompt_context(
    book: Ledger, environ: Mapping[str, str], repo: Repo | None, scope: str
) -> tuple[list[str], list[str]]:
    """Switches on what a prompt gets, for as far as the hooks reach; a value that somebody chose
    stays.
    """
    git = repo.git if repo else Git()
    path = _global_config(environ) if scope == USER else ""
    if scope == USER and not path:
        return [], [
            f"{_KEY} is not set, for there is no global git configuration: prompts get no memories"
        ]
    try:
        chosen = git.text(
            "config",
            *(["--global", "--includes"] if scope == USER else []),
            "--type=bool",
            "--get",
            _KEY,
            ok=(0, 1),
        )
        if chosen:
            return [], [] if chosen == "true" else [f"{_KEY} is {chosen}: prompts get no memories"]
        if scope == PROJECT:
            assert repo is not None
            config_journal.add(repo, _STEP, [(_KEY, "true")])
            return [f"{_KEY} = true  (prompts get memories, in this repository)"], []
        book.edit(path, _CONFIG, lambda text: _with_setting(text or ""))
    except MemError as e:  # the hooks are in place, and work without it
        return [], [
            f"{_KEY} could not be set: {e.message}; prompts get no memories until it is true"
        ]
    return [f"{_KEY} = true in '{path}'  (prompts get memories)"], []


_SETTING = "[mem]\n\tpromptContext = true\n"


def _with_setting(text: str) -> Change:
    line = text.rstrip("\r\n")
    open_ended = (
        "\n" if line.endswith("\\") and text.count("\n", len(line)) < 2 else ""
    )  # a backslash would take our first line to its own
    piece = open_ended + ("\n" if text and not text.endswith("\n") else "") + _SETTING
    return Change(text + piece, [[len(text), len(text) + len(piece)]])


def _config_back(book: Ledger) -> list[str]:
    """Takes the user's setting back, if it was we who made it."""
    done = []
    for path in [path for path, note in book.files.items() if note["target"] == _CONFIG]:

        def change(text: str | None, path: str = path) -> Change | None:
            if text is None:
                return None
            before = book.original(path, text)
            left = text.replace(_SETTING, "", 1) if before is None else before
            return Change(None if not left and book.known(path).get("created") else left)

        if book.edit(path, _CONFIG, change):
            done.append(f"{_KEY} removed from '{path}'")
        book.forget(path)
    return done


def _global_config(environ: Mapping[str, str]) -> str:
    """The file that `git config --global` writes, "" for none."""
    named = environ.get("GIT_CONFIG_GLOBAL", "")
    if named or not environ.get("HOME"):
        return named if os.path.isfile(named) or not os.path.exists(named) else ""
    own = os.path.join(environ["HOME"], ".gitconfig")
    xdg = os.path.join(
        environ.get("XDG_CONFIG_HOME", "") or os.path.join(environ["HOME"], ".config"),
        "git",
        "config",
    )
    return xdg if os.path.exists(xdg) and not os.path.exists(own) else own
