"""Command about language models: `git mem model list|fetch|add|use|remove|path`.

The only one that downloads anything.
"""

import os
import re
from contextlib import closing
from typing import Any

from .. import render
from ..core.errors import MemError, NotARepository, UsageError
from ..git import gitcmd, repository
from ..models import chosen, fetch, llamaproc, registry
from ..models.registry import EMBEDDING, LANGUAGE
from ..store import open_store
from . import typer_app
from .common import values, warn
from .options import Answer, argument, command, flag, text

typer_app.group(
    "model",
    (
        "Optional models for capture and for better vectors. GIT_MEM_MODEL and "
        "GIT_MEM_EMBED_MODEL (a name or a path) go before the settings, GIT_MEM_MODEL_DIR is "
        "where models are kept, GIT_MEM_MODEL_HUB a mirror to fetch from."
    ),
)


@command("list", "model")
def list_command(as_json: bool) -> Answer:
    """Show the models known by name and those that are here."""
    where = chosen.directory(os.environ)
    used = {kind: _choice(kind) for kind in chosen.SETTING}
    problems = {choice.name: choice.problem for choice in used.values() if choice.problem}
    rows = [{**row, "problem": problems.get(name)} for name, row in _rows(where, used).items()]
    lines = [*map(_line, rows)]
    if not as_json:
        for problem in problems.values():
            warn(f"warning: {problem}")
    there = llamaproc.available()
    if not there:
        lines.append(
            f"llama-cpp-python is not installed, so no model is asked; `{llamaproc.INSTALL}`"
            " compiles it: a C++ compiler and some four minutes"
        )
    facts = {"directory": where, "llama": there, "models": rows}
    return Answer({**facts, "problems": list(problems.values())}, lines)


def _line(row: dict[str, Any]) -> str:
    here = "in use" if row["used"] else "here"
    state = "fails" if row["problem"] else here if row["path"] else ""
    facts = f"{row['name']:<20} {row['kind'] or 'any':<9} {_mb(row['size']):>8}"
    return f"{facts}  {row['licence'] or '':<10} {state:<6} {row['about']}"


def _rows(where: str, used: dict[str, chosen.Choice]) -> dict[str, dict[str, Any]]:
    """Models known by name, models of the user's, and chosen files beside the list."""
    rows: dict[str, dict[str, Any]] = {}
    for known in registry.MODELS:
        here = {"path": None, "used": used[known.kind].name == known.name}
        rows[known.name] = {**known._asdict(), **here}
    nothing = {**dict.fromkeys(registry.Known._fields), "path": None}
    for name, model in chosen.installed(where).items():
        if name not in rows:
            named = {"name": name, "kind": model.kind or None, "about": "added by you"}
            rows[name] = {**nothing, **named, "file": os.path.basename(model.path)}
            rows[name]["used"] = name in [choice.name for choice in used.values()]
        row = rows[name]
        row.update(size=model.stamp[0], sha256=row["sha256"] or model.sha256, path=model.path)
    for kind, (path, name, _, _) in used.items():
        if name and name not in rows:
            named = {"name": name, "kind": kind, "about": "chosen, not on the list"}
            rows[name] = {**nothing, **named, "file": os.path.basename(name), "path": path or None}
            rows[name].update(size=os.path.getsize(path) if path else None, used=True)
    return rows


@command("fetch", "model")
def fetch_command(
    name: str = argument(
        "NAME",
        "A name of `git mem model list`, or an https address of a GGUF file.",
        registry.DEFAULT,
    ),
    sha256: str = text("--sha256 HEX", "Its checksum; needed where git mem knows none."),
    as_name: str = text("--name NAME", "For an address: what to call it."),
) -> Answer:
    """Download a model, check it, and put it on the list.

    Broken off, the same command goes on.
    """
    known = registry.find(name)
    wanted = _checksum(name, known, sha256.strip().lower())
    url = known.url(os.environ.get("GIT_MEM_MODEL_HUB", "")) if known else name
    where = chosen.directory(os.environ)
    label = known.name if known else as_name or chosen.stem_of(url).lower()
    facts = {"name": label, "sha256": wanted}
    if known is None:
        fetch.address(url)
    if here := chosen.present(where, label, wanted):
        said = f"{label} is here already: '{here}'"
        return Answer({**facts, "path": here, "fetched": False}, [said])
    target = chosen.place(where, label, url, wanted)
    if not os.path.exists(target) or fetch.digest(target) != wanted:
        _download(url, target, known.size if known else 0, wanted, label)
    if not chosen.is_gguf(target):
        os.unlink(target)
        raise MemError(f"'{url}' is no GGUF file", hint="it was removed")
    chosen.note(where, label, target, wanted, known.kind if known else "", True)
    lines = [f"{label} is here: '{target}' ({_mb(os.path.getsize(target))}, checksum right)"]
    if label != registry.DEFAULT:
        embed = " --embed" if known and known.kind == EMBEDDING else ""
        lines.append(f"  git mem model use {label}{embed}   makes it the one in use")
    return Answer({**facts, "path": target, "fetched": True}, lines)


def _checksum(name: str, known: registry.Known | None, given: str) -> str:
    """What the file must have, given or known. Raises MemError where neither is."""
    if given and not re.fullmatch("[0-9a-f]{64}", given):
        raise UsageError("--sha256 is not a SHA-256 in hexadecimal")
    if known is None and "://" not in name:
        hint = "`git mem model list` names them; an https address works too"
        raise UsageError(f"no model '{name}'", hint=hint)
    if known and given not in ("", known.sha256):
        hint = "an address and --sha256 fetch another file"
        raise UsageError(f"'{known.name}' has the SHA-256 {known.sha256}", hint=hint)
    if not known and not given:
        raise MemError(
            f"git mem knows no checksum of '{name}', so it cannot tell whether what it gets is the"
            " right file",
            hint="look it up on the page of the file and give it with --sha256",
        )
    return known.sha256 if known else given


def _download(url: str, target: str, size: int, sha256: str, label: str) -> None:
    with render.progress(f"fetching {label} (bytes)", total=size or None) as advance:
        before = 0

        def tell(done: int, total: int) -> None:
            nonlocal before
            advance(done - before)
            before = done

        fetch.download(url, target, sha256, size=size, progress=tell)


@command("add", "model")
def add_command(
    path: str = argument("PATH", "A GGUF file; it stays where it is."),
    name: str = text("--name", "What to call it (default: its known name, or the file's)."),
    embed: bool = flag("--embed", "It is an embedding model."),
    sha256: str = text("--sha256 HEX", "The checksum it must have."),
) -> Answer:
    """Put a model file that is on this machine on the list."""
    kind = EMBEDDING if embed else ""
    found = chosen.add(chosen.directory(os.environ), path, name, kind, sha256.strip())
    line = f"{found.name}: '{found.path}', SHA-256 {found.sha256}"
    return Answer(values(found, "name", "path", "sha256"), [line])


@command("use", "model")
def use_command(
    name: str = argument("NAME", "A model that is here, a path, `none`, or `default`."),
    embed: bool = flag("--embed", "For vectors, instead of capture."),
    everywhere: bool = flag("--global", "In all repositories of yours."),
) -> Answer:
    """Choose the model that capture asks, or that makes vectors: a setting of git."""
    here = chosen.installed(chosen.directory(os.environ))
    known = registry.find(name)
    value = "" if name == "default" else name
    if known and name not in here:
        value = known.name
        if value not in here:
            hint = f"`git mem model fetch {value}` downloads {_mb(known.size)}"
            raise MemError(f"the model '{value}' is not here", hint=hint)
    elif value not in ("", "none", *here):
        value = os.path.abspath(os.path.expanduser(name))
        if not chosen.is_gguf(value):
            raise MemError(
                f"'{name}' is neither a model here nor a GGUF file",
                hint="`git mem model list` shows what is here",
            )
    kind = here[value].kind if value in here else ""
    if kind and (kind == EMBEDDING) != embed:
        raise UsageError(
            f"'{value}' is a model for {'vectors' if kind == EMBEDDING else 'language'}",
            hint="--embed chooses the model for vectors",
        )
    key = "mem." + chosen.SETTING[EMBEDDING if embed else LANGUAGE]
    git = gitcmd.Git(os.devnull) if everywhere else _repository()
    change = (key, value) if value else ("--unset-all", key)
    git.run("config", "--global" if everywhere else "--local", *change, ok=(0, 5))
    lines = [f"{key} = {value or '(default)'}"]
    if embed and value not in ("", "none"):
        lines.append("  git mem index --all   makes the vectors of what is stored")
    return Answer({"setting": key, "value": value}, lines)


@command("remove", "model")
def remove_command(name: str = argument("NAME", "A name of `git mem model list`.")) -> Answer:
    """Take a model off the list, and delete its file where `fetch` brought it."""
    found = chosen.remove(chosen.directory(os.environ), name)
    became = "is deleted" if found.ours else "was left alone"
    line = f"{found.name} is off the list; '{found.path}' {became}"
    return Answer({**values(found, "name", "path"), "deleted": found.ours}, [line])


@command("path", "model")
def path_command(
    as_json: bool,
    name: str = argument("NAME", "A model that is here; without it: the one in use.", ""),
    embed: bool = flag("--embed", "The one for vectors."),
) -> Answer:
    """Print where a model lies. Exit code 1 where there is none."""
    if name:
        here = chosen.installed(chosen.directory(os.environ))
        path, reason = here[name].path if name in here else "", f"no model '{name}' here"
    else:
        choice = _choice(EMBEDDING if embed else LANGUAGE)
        path, reason = choice.path, choice.problem or "no model is in use"
    if not path and not as_json:
        raise MemError(reason, hint="`git mem model fetch` downloads one")
    return Answer({"path": path or None, "reason": "" if path else reason}, [path], int(not path))


def _choice(kind: str) -> chosen.Choice:
    """What is in use here; outside of a repository, by the environment and git's settings."""
    key = chosen.SETTING[kind]
    try:
        with closing(open_store(os.environ, warn=lambda line: None, strict=False)) as store:
            return chosen.choice(kind, store.settings[key], os.environ, store.repo.mem_dir)
    except NotARepository:
        raw = gitcmd.Git(os.devnull).run("config", "--get", "mem." + key, ok=(0, 1, 5))
        return chosen.choice(kind, raw.decode("utf-8", "replace").strip(), os.environ)


def _repository() -> gitcmd.Git:
    try:
        return repository.open_repo().git
    except NotARepository as e:
        raise NotARepository(e.message, hint="--global chooses it for all repositories") from None


def _mb(size: int | None) -> str:
    return f"{size / 1e6:.0f} MB" if size else "? MB"
