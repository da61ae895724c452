"""`init` and `uninstall`: the few settings git needs, added and taken away.

Promise: nothing in the working tree, no push setting, a second `init` changes
nothing. `uninstall` restores the config file byte for byte if nobody changed
it since, and otherwise removes only our own entries. Memories stay.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from typing import Any

from .errors import GitFailed, MemError
from .layout import Repo
from .store import Store

_STATE = "install.json"


def entries(store: Store, remote: str) -> list[tuple[str, str, str]]:
    """(key, value, why) of every config entry `init` adds."""
    namespace = store.settings["ref"]
    found = [
        ("notes.rewriteRef", f"refs/notes/{namespace}/*", "memories follow `git commit --amend` and `git rebase`"),
        (f"notes.{namespace}/team.mergeStrategy", "cat_sort_uniq", "`git notes merge` unites memories without conflicts"),
    ]
    if remote:
        # A pattern: a literal ref would make `git fetch` fail while the remote has none. Forced only onto the tracking copy.
        spec = f"+refs/notes/{namespace}/team*:refs/notes/remotes/{remote}/{namespace}/team*"
        found.append((f"remote.{remote}.fetch", spec, f"`git fetch` brings the team's memories from '{remote}'"))
    return found


def default_remote(repo: Repo) -> str:
    """The remote to use: the branch's own, `origin`, or the only one; "" where there is none."""
    remotes = repo.git.text("remote").split()
    branch = repo.branch()
    if branch:
        own = repo.git.text("config", f"branch.{branch}.remote", ok=(0, 1))
        if own in remotes:
            return own
    if "origin" in remotes:
        return "origin"
    return remotes[0] if len(remotes) == 1 else ""


def blocked(store: Store) -> str:
    """A ref that makes refs/notes/<mem.ref>/... impossible, "" for none."""
    parts = store.settings["ref"].split("/")
    names = ["refs/notes/" + "/".join(parts[: i + 1]) for i in range(len(parts))]
    return next((name for name, id in zip(names, store.repo.git.ids(names), strict=True) if id), "")


def missing(store: Store) -> list[tuple[str, str, str]]:
    """Entries that are not in the repository's configuration."""
    git = store.repo.git
    return [(k, v, why) for k, v, why in entries(store, default_remote(store.repo)) if v not in git.text("config", "--get-all", k, ok=(0, 1)).split("\n")]


def init(store: Store) -> list[str]:
    """Adds what is missing; returns one line for each thing done."""
    repo = store.repo
    if blocked(store):
        raise MemError(f"a ref '{blocked(store)}' stands where memories are to be stored", hint="choose another namespace, for example `git config mem.ref memory`")
    path = os.path.join(repo.common_dir, "config")
    before = _read(path)
    done = []
    added = []
    for key, value, why in missing(store):
        repo.git.run("config", "--local", "--add", key, value)
        added.append([key, value])
        done.append(f"{key} = {value}  ({why})")
    os.makedirs(repo.mem_dir, mode=0o700, exist_ok=True)
    if added:
        state = _state(repo)
        if not state:
            state = {"before": base64.b64encode(before).decode(), "after": _digest(before), "entries": []}
        # Whoever changed the file since the first init keeps the changes: then only our entries can be taken away.
        known = state.get("before") if state.get("after") == _digest(before) else None
        _write_state(repo, {"before": known, "after": _digest(_read(path)), "entries": [*state.get("entries", []), *added]})
    return done


def uninstall(store: Store) -> list[str]:
    """Takes our entries and the cache away; returns one line for each thing done. Memories stay in the notes refs."""
    repo = store.repo
    path = os.path.join(repo.common_dir, "config")
    state = _state(repo)
    done = []
    if state.get("before") is not None and state.get("after") == _digest(_read(path)):
        _replace(path, base64.b64decode(state["before"]))
        done.append("git configuration restored as it was before init")
    else:
        # Without our own list (the cache was deleted) what init would add is what it added.
        ours = [(str(k), str(v)) for k, v in state["entries"]] if "entries" in state else [(k, v) for k, v, _ in entries(store, default_remote(repo))]
        for key, value in ours:
            if value in repo.git.text("config", "--local", "--get-all", key, ok=(0, 1)).split("\n"):
                try:
                    repo.git.run("config", "--local", "--fixed-value", "--unset-all", key, value)
                    done.append(f"removed {key} = {value}")
                except GitFailed as e:
                    done.append(f"could not remove {key} = {value}: {e.message}")
    store.close_cache()
    if os.path.isdir(repo.mem_dir):
        shutil.rmtree(repo.mem_dir, ignore_errors=True)
        done.append("removed the cache")
    return done


def waiting(store: Store) -> list[str]:
    """Tracking refs that hold memories the team ref does not."""
    refs = store.repo.git.text("for-each-ref", "--format=%(refname) %(objectname)", "refs/notes/remotes/").split("\n")
    suffix = f"/{store.settings['ref']}/team"
    tip = store.team.tip()
    out = []
    for row in refs:
        name, _, id = row.partition(" ")
        if name.endswith(suffix) and id != tip:
            _, status = store.repo.git.run_status("merge-base", "--is-ancestor", id, tip, ok=(0, 1, 128)) if tip else (b"", 1)
            if status:
                out.append(name)
    return out


def _state(repo: Repo) -> dict[str, Any]:
    try:
        with open(os.path.join(repo.mem_dir, _STATE), encoding="utf-8") as f:
            state = json.load(f)
        return state if isinstance(state, dict) else {}
    except (OSError, ValueError):
        return {}


def _write_state(repo: Repo, state: dict[str, Any]) -> None:
    path = os.path.join(repo.mem_dir, _STATE)
    _replace(path, json.dumps(state).encode())


def _replace(path: str, content: bytes) -> None:
    """Writes a file so that it is either the old or the new one, with the old one's mode."""
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o600
    real = os.path.realpath(path)
    temporary = f"{real}.git-mem-{os.getpid()}"
    with open(temporary, "wb") as f:
        f.write(content)
        f.flush()
        os.fsync(f.fileno())
    os.chmod(temporary, mode)
    os.replace(temporary, real)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
