"""Which agents have git mem, where, and what is wrong with it. Reads only.

Promise: says what the files say, not what we remember having written: a plugin,
an entry made by hand and one that a colleague committed count alike.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..core.errors import MemError
from . import claudehome, install_log, section, targets
from .jsonedit import Broken, Doc

if TYPE_CHECKING:
    from ..git.repository import Repo

LOCAL, PLUGIN = "local", "plugin"  # beside targets.USER and targets.PROJECT


class Found:
    """git mem in one file.

    `commands`: what stands at each event; `problem`: why the file cannot be read.
    """

    __slots__ = ("commands", "path", "problem", "scope", "target")

    def __init__(
        self,
        target: str,
        scope: str,
        path: str,
        commands: dict[str, list[str]] | None = None,
        problem: str = "",
    ) -> None:
        self.target = target
        self.scope = scope
        self.path = path
        self.commands = commands or {}
        self.problem = problem


def places(environ: Mapping[str, str], repo: Repo | None, target: str) -> list[tuple[str, str]]:
    """(scope, file) of every place where a target may stand, whether there or not; linked files
    once.
    """
    top = repo.top if repo else ""
    if target in targets.SECTIONS:
        found = [(targets.PROJECT, os.path.join(top, targets.SECTIONS[target]) if top else "")]
    else:
        agent = targets.AGENTS[target]
        found = [
            (scope, agent.file(environ, top, scope)) for scope in (targets.USER, targets.PROJECT)
        ]
        if target == "claude" and top:
            found.append((LOCAL, claudehome.project_settings(top)[1]))
    once: dict[str, tuple[str, str]] = {}
    for scope, path in found:
        if path:
            once.setdefault(os.path.realpath(path), (scope, path))
    return list(once.values())


def state(environ: Mapping[str, str], repo: Repo | None) -> list[Found]:
    """Everything that is installed for this user and this working tree."""
    found = []
    for target in (*targets.AGENTS, *targets.SECTIONS):
        for scope, path in places(environ, repo, target):
            one = _look(target, scope, path)
            if one:
                found.append(one)
    found += [
        Found("claude", PLUGIN, path)
        for _, path in claudehome.plugins(environ, repo.top if repo else "", targets.PLUGIN)
    ]
    return found


def _look(target: str, scope: str, path: str) -> Found | None:
    try:
        text = install_log.read(path)
        if text is None or ("git-mem" not in text and "gitmem" not in text):
            return None
        if target in targets.SECTIONS:
            return Found(target, scope, path) if section.find(text) else None
        found = targets.entries(Doc(text).value("hooks"))
    except (Broken, section.Unclear, MemError) as e:
        return Found(target, scope, path, problem=str(e))
    commands: dict[str, list[str]] = {}
    for _, event, command in found:
        commands.setdefault(event, []).append(command)
    return Found(target, scope, path, commands) if commands else None


def unread(agent: targets.Agent, path: str) -> str:
    """Why an agent cannot read its settings file; "" where it can, or where we do not know how
    strict it is.

    Claude Code (2.1.197, 2.1.330) takes no settings at all from a file that has a comment, a comma
    too many or a control character in a string, and says nothing."""
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
) -> list[tuple[str, str]]:
    """(what, hint) of everything that keeps what is installed from working once."""
    out = [
        (
            f"'{one.path}' cannot be judged: {one.problem}",
            "mend the file; git mem leaves it as it is",
        )
        for one in found
        if one.problem
    ]
    for name, agent in targets.AGENTS.items():
        here = [one for one in found if one.target == name and not one.problem]
        out += [
            (twice, "keep one; `git mem uninstall " + name + "` takes away what stands in settings")
            for twice in [double(here)]
            if twice
        ]
        for one in here:
            if one.scope == PLUGIN:
                continue
            reason = unread(agent, one.path)
            if reason:
                out.append(
                    (
                        (
                            f"{agent.title} cannot read '{one.path}', so it runs no hook of it:"
                            f" {reason}"
                        ),
                        "mend the file by hand: it has to be JSON, without comments",
                    )
                )
            again = (
                f"run `git mem install {name}"
                f" --{targets.PROJECT if one.scope == targets.PROJECT else targets.USER}`"
            )
            more = [event for event, commands in one.commands.items() if len(commands) > 1]
            lacking = [event for event in agent.events if event not in one.commands]
            if more:
                out.append(
                    (
                        (
                            f"{agent.title}: git mem stands more than once at {', '.join(more)} in"
                            f" '{one.path}'"
                        ),
                        again,
                    )
                )
            if lacking:
                out.append(
                    (
                        (
                            f"{agent.title}: no hook of git mem at {', '.join(lacking)} in"
                            f" '{one.path}'"
                        ),
                        again,
                    )
                )
            out += [
                (f"{agent.title}: {what}", hint or again) for what, hint in _stale(environ, one)
            ]
    for path in (
        claudehome.user_settings(environ),
        *claudehome.project_settings(repo.top if repo else ""),
    ):
        if (
            any(one.target == "claude" for one in found)
            and claudehome.read_json(path).get("disableAllHooks") is True
        ):
            out.append(
                (
                    f"Claude Code: all hooks are switched off by 'disableAllHooks' in '{path}'",
                    "the agent gets no memories until it is taken out there",
                )
            )
    return out


def double(here: list[Found]) -> str:
    """What is said where several installations for one agent would each hand over the same; ""
    where they would not.
    """
    kinds: dict[frozenset[str], list[Found]] = {}
    for one in here:
        key = frozenset(c for commands in one.commands.values() for c in commands)
        # Equal commands in several settings files are run once by Claude Code, and by no other.
        kinds.setdefault(
            (
                key
                if one.target == "claude" and one.scope != PLUGIN
                else frozenset([one.scope, one.path])
            ),
            [],
        ).append(one)
    if len(kinds) < 2:
        return ""
    said = [("as a plugin by" if one.scope == PLUGIN else "in") + f" '{one.path}'" for one in here]
    return (
        f"{targets.AGENTS[here[0].target].title}: git mem is installed {len(said)} times,"
        f" {' and '.join(said)}: each memory is handed over twice"
    )


def _stale(environ: Mapping[str, str], one: Found) -> list[tuple[str, str]]:
    """What is wrong with the program that the commands start."""
    commands = {c for found in one.commands.values() for c in found}
    packages = {targets.program(c) for c in commands}
    out = []
    if "" in packages and not shutil.which("git-mem", path=environ.get("PATH", "")):
        out.append(
            (
                f"the hooks in '{one.path}' do nothing: no git-mem on PATH",
                "put the directory of git-mem on PATH",
            )
        )
    for package in sorted(packages - {""}):
        if not os.path.exists(os.path.join(package, "__main__.py")):
            out.append(
                (f"the hooks in '{one.path}' do nothing: git mem is gone from '{package}'", "")
            )
        elif os.path.realpath(package) != os.path.realpath(own_package()):
            out.append(
                (
                    (
                        f"the hooks in '{one.path}' start the git mem in '{package}', this one is"
                        f" in '{own_package()}'"
                    ),
                    "",
                )
            )
    return out


def own_package() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
