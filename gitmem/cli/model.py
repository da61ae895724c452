"""Command about language models: `git mem model list|fetch|add|use|remove|path`.

The only one that downloads anything.
"""

import os
import re
import sys
from contextlib import closing
from typing import Any

import typer

from .. import render
from ..core.errors import MemError, NotARepository, UsageError
from ..git import gitcmd, repository
from ..models import chosen, fetch, llamaproc, registry, usable
from ..store import open_store
from . import app
from .common import answer, values, warn
from .options import Json, argument, flag, text

_model = typer.Typer(
    name="model",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Models for capture and for better vectors: what there is, download, choose. Nothing here"
    " is needed; `git mem` works without. GIT_MEM_MODEL and GIT_MEM_EMBED_MODEL (a name or a"
    " path) go before the settings, GIT_MEM_MODEL_DIR is where models are kept,"
    " GIT_MEM_MODEL_HUB a mirror to fetch from.",
)
app.add_typer(_model, name="model")

_Name = argument("", "A name of `git mem model list`.")
_SETTING = usable.SETTING


@_model.command("list")
def list_command(*, as_json: Json) -> int:
    """Show the models known by name and those that are here."""
    where = chosen.directory(os.environ)
    used = {kind: _state(kind) for kind in _SETTING}
    problems = {state.choice.name: state.problem for state in used.values() if state.problem}
    rows = [{**row, "problem": problems.get(row["name"])} for row in _rows(where, used)]
    facts = {"directory": where, "llama": llamaproc.available(), "models": rows}
    lines = [_line(row) for row in rows]
    if not as_json:
        for problem in problems.values():
            warn(f"warning: {problem}")
    if not facts["llama"]:
        lines.append(
            "llama-cpp-python is not installed, so no model is asked; `pip install 'git-mem[llm]'`"
            " compiles it: a C++ compiler and some four minutes"
        )
    return answer({**facts, "problems": list(problems.values())}, lines, as_json)


def _line(row: dict[str, Any]) -> str:
    state = "in use" if row["used"] else "here"
    if row["problem"]:
        state = "fails"
    elif not row["path"]:
        state = ""
    facts = f"{row['name']:<20} {row['kind'] or 'any':<9} {_mb(row['size']):>8}"
    return f"{facts}  {row['licence'] or '':<10} {state:<6} {row['about']}"


def _rows(where: str, used: dict[str, usable.State]) -> list[dict[str, Any]]:
    """Models known by name, models of the user's, and chosen files beside the list."""
    here = {model.name: model for model in chosen.installed(where)}
    names = {state.choice.name for state in used.values()}
    nothing = dict.fromkeys(registry.Known._fields)
    rows: list[dict[str, Any]] = []
    for known in registry.MODELS:
        found = here.pop(known.name, None)
        row = {**known._asdict(), "path": found.path if found else None}
        row["size"] = found.size if found else known.size or None
        row["sha256"] = known.sha256 or (found.sha256 if found else "") or None
        rows.append({**row, "used": used[known.kind].choice.name == known.name})
    for model in here.values():
        row = {**nothing, "name": model.name, "kind": model.kind or None, "about": "added by you"}
        row.update(size=model.size, sha256=model.sha256, file=os.path.basename(model.path))
        rows.append({**row, "path": model.path, "used": model.name in names})
    listed = {row["name"] for row in rows}
    for kind, state in used.items():
        name, path = state.choice.name, state.choice.path
        if name and name not in listed:
            row = {**nothing, "name": name, "kind": kind, "about": "chosen, not on the list"}
            row.update(size=os.path.getsize(path) if path else None, file=os.path.basename(name))
            rows.append({**row, "path": path or None, "used": True})
    return rows


@_model.command("fetch")
def fetch_command(
    name: str = argument(
        "", "A name of `git mem model list`, or an https address of a GGUF file.", registry.DEFAULT
    ),
    *,
    sha256: str = text(
        "--sha256 HEX", "The checksum the file must have; needed where git mem knows none."
    ),
    as_name: str = text("--name NAME", "For an address: what to call it."),
    as_json: Json,
) -> int:
    """Download a model, check it, and put it on the list.

    Broken off, the same command goes on where it ended.
    """
    sha256 = sha256.strip().lower()
    if sha256 and not re.fullmatch("[0-9a-f]{64}", sha256):
        raise UsageError("--sha256 is not a SHA-256 in hexadecimal")
    known = registry.find(name)
    if known is None and "://" not in name:
        raise UsageError(
            f"no model '{name}'", hint="`git mem model list` names them; an https address works too"
        )
    url = known.url(os.environ.get("GIT_MEM_MODEL_HUB", "")) if known else name
    if known and known.sha256 and sha256 and sha256 != known.sha256:
        raise UsageError(
            f"'{known.name}' has the SHA-256 {known.sha256}",
            hint="an address and --sha256 fetch another file",
        )
    wanted = sha256 or (known.sha256 if known else "")
    if not wanted:
        raise MemError(
            f"git mem knows no checksum of '{name}', so it cannot tell whether what it gets is the"
            " right file",
            hint=f"look it up on the page of {known.repository if known else 'the file'} and give"
            " it with --sha256",
        )
    where = chosen.directory(os.environ)
    label = known.name if known else as_name or chosen.stem_of(url).lower()
    facts = {"name": label, "sha256": wanted}
    if known is None:
        fetch.address(url)
    if here := chosen.present(where, label, wanted):
        said = f"{label} is here already: '{here}'"
        return answer({**facts, "path": here, "fetched": False}, [said], as_json)
    target = chosen.place(where, label, url, wanted)
    if not os.path.exists(target) or fetch.digest(target) != wanted:
        _download(url, target, known.size if known else 0, wanted, label)
    if not chosen.is_gguf(target):
        os.unlink(target)
        raise MemError(f"'{url}' is no GGUF file", hint="it was removed")
    chosen.note(where, label, target, wanted, known.kind if known else "", True)
    lines = [f"{label} is here: '{target}' ({_mb(os.path.getsize(target))}, checksum right)"]
    if label != registry.DEFAULT:
        embed = " --embed" if known and known.kind == registry.EMBEDDING else ""
        lines.append(f"  git mem model use {label}{embed}   makes it the one in use")
    return answer({**facts, "path": target, "fetched": True}, lines, as_json)


def _download(url: str, target: str, size: int, sha256: str, label: str) -> None:
    """A bar on a terminal; in a pipe a line for each tenth, on stderr."""
    with render.progress(f"fetching {label} (bytes)", total=size or None) as advance:
        before = tenth = 0

        def tell(done: int, total: int) -> None:
            nonlocal before, tenth
            advance(done - before)
            before = done
            if total and not sys.stderr.isatty() and 10 * done // total > tenth:
                tenth = 10 * done // total
                warn(f"{label}: {10 * tenth} % of {_mb(total)}")

        fetch.download(url, target, sha256, size=size, progress=tell)


@_model.command("add")
def add_command(
    path: str = argument("", "A GGUF file; it stays where it is."),
    *,
    name: str = text("--name", "What to call it (default: its known name, or the file's)."),
    embed: bool = flag("--embed", "It is an embedding model."),
    sha256: str = text("--sha256 HEX", "The checksum it must have."),
    as_json: Json,
) -> int:
    """Put a model file that is on this machine on the list."""
    kind = registry.EMBEDDING if embed else ""
    found = chosen.add(chosen.directory(os.environ), path, name, kind, sha256.strip())
    line = f"{found.name}: '{found.path}', SHA-256 {found.sha256}"
    return answer(values(found, "name", "path", "sha256"), [line], as_json)


@_model.command("use")
def use_command(
    name: str = argument("", "A model that is here, a path, `none`, or `default`."),
    *,
    embed: bool = flag("--embed", "For vectors, instead of capture."),
    everywhere: bool = flag("--global", "In all repositories of yours."),
    as_json: Json,
) -> int:
    """Choose the model that capture asks (or, with --embed, that makes vectors); it is a setting of
    git.
    """
    where = chosen.directory(os.environ)
    here = {m.name: m for m in chosen.installed(where)}
    known = registry.find(name)
    if name == "default":
        value = ""
    elif name == "none" or name in here:
        value = name
    elif known is not None:
        if known.name not in here:
            raise MemError(
                f"the model '{known.name}' is not here",
                hint=f"`git mem model fetch {known.name}` downloads {_mb(known.size)}",
            )
        value = known.name
    else:
        value = os.path.abspath(os.path.expanduser(name))
        if not chosen.is_gguf(value):
            raise MemError(
                f"'{name}' is neither a model here nor a GGUF file",
                hint="`git mem model list` shows what is here",
            )
    kind = here[value].kind if value in here else ""
    if kind and (kind == registry.EMBEDDING) != embed:
        raise UsageError(
            f"'{value}' is a model for {'vectors' if kind == registry.EMBEDDING else 'language'}",
            hint="--embed chooses the model for vectors",
        )
    key = "mem." + _SETTING[registry.EMBEDDING if embed else registry.LANGUAGE]
    git = gitcmd.Git(os.devnull) if everywhere else _repository()
    change = (key, value) if value else ("--unset-all", key)
    git.run("config", "--global" if everywhere else "--local", *change, ok=(0, 5))
    lines = [f"{key} = {value or '(default)'}"]
    if embed and value not in ("", "none"):
        lines.append("  git mem index --all   makes the vectors of what is stored")
    return answer({"setting": key, "value": value}, lines, as_json)


@_model.command("remove")
def remove_command(name: str = _Name, *, as_json: Json) -> int:
    """Take a model off the list, and delete its file where `fetch` brought it."""
    found = chosen.remove(chosen.directory(os.environ), name)
    became = "is deleted" if found.ours else "was left alone"
    line = f"{found.name} is off the list; '{found.path}' {became}"
    facts = {"name": found.name, "path": found.path, "deleted": found.ours}
    return answer(facts, [line], as_json)


@_model.command("path")
def path_command(
    name: str = argument("", "A model that is here; without it: the one in use.", ""),
    *,
    embed: bool = flag("--embed", "The one for vectors."),
    as_json: Json,
) -> int:
    """Print where a model lies. Exit code 1 where there is none."""
    if name:
        here = {model.name: model.path for model in chosen.installed(chosen.directory(os.environ))}
        path, reason = here.get(name, ""), f"no model '{name}' here"
    else:
        choice = _state(registry.EMBEDDING if embed else registry.LANGUAGE).choice
        path, reason = choice.path, choice.reason or "no model is in use"
    if not path and not as_json:
        raise MemError(reason, hint="`git mem model fetch` downloads one")
    facts = {"path": path or None, "reason": "" if path else reason}
    return answer(facts, [path], as_json, 0 if path else 1)


def _state(kind: str) -> usable.State:
    """What is in use here; outside of a repository, by the environment and git's settings."""
    key = _SETTING[kind]
    try:
        with closing(open_store(os.environ, warn=lambda line: None, strict=False)) as store:
            return usable.state(kind, store.settings[key], os.environ, store.repo.mem_dir)
    except NotARepository:
        raw = gitcmd.Git(os.devnull).run("config", "--get", "mem." + key, ok=(0, 1, 5))
        return usable.state(kind, raw.decode("utf-8", "replace").strip(), os.environ, "")


def _repository() -> gitcmd.Git:
    try:
        return repository.open_repo().git
    except NotARepository as e:
        raise NotARepository(e.message, hint="--global chooses it for all repositories") from None


def _mb(size: int | None) -> str:
    return f"{size / 1e6:.0f} MB" if size else "? MB"
