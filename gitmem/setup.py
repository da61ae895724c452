"""`init` and `uninstall`: the few settings git needs, added and taken away.

Promise: nothing in the working tree, no push setting, a second `init` changes
nothing. `uninstall` takes everything of ours away, hooks and cache too: byte
for byte where nobody changed it since (`changes`). Memories stay.
"""

from __future__ import annotations

import os
import shutil

from .core.errors import MemError
from .engine import cache_lock
from .git import config, config_journal, memfile, reflock, refspec
from .hooks import githooks, spool
from .store import Store


def entries(store: Store, remote: str) -> list[tuple[str, str, str]]:
    """(key, value, why) of every config entry `init` adds."""
    namespace = store.settings["ref"]
    found = [
        (
            "notes.rewriteRef",
            f"refs/notes/{namespace}/*",
            "memories follow `git commit --amend` and `git rebase`",
        ),
        (
            f"notes.{namespace}/team.mergeStrategy",
            "cat_sort_uniq",
            "`git notes merge` unites memories without conflicts",
        ),
    ]
    if remote:
        # A pattern: a literal ref would make `git fetch` fail while the remote has none. Forced
        # only onto the tracking copy.
        spec = f"+refs/notes/{namespace}/team*:refs/notes/remotes/{remote}/{namespace}/team*"
        found.append(
            (
                f"remote.{remote}.fetch",
                spec,
                f"`git fetch` brings the team's memories from '{remote}'",
            )
        )
    return found


def default_remote(store: Store) -> str:
    """The remote to use: `mem.remote`, where the branch is pushed to, `origin`, or the only one; ""
    where there is none.

    In a fork whose branch follows `upstream`, git pushes to `remote.pushDefault`: so do memories.
    """
    if store.settings["remote"]:
        return store.settings["remote"]
    repo = store.repo
    remotes = repo.git.text("remote").split("\n")
    branch = repo.branch()
    names = (
        [f"branch.{branch}.pushRemote", "remote.pushDefault", f"branch.{branch}.remote"]
        if branch
        else ["remote.pushDefault"]
    )
    for name in names:
        own = repo.git.text("config", name, ok=(0, 1))
        if own and own in remotes:
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
    repo = store.repo
    return [
        (k, v, why)
        for k, v, why in entries(store, default_remote(store))
        if config_journal.lacks(repo, k, v)
    ]


def threats(store: Store) -> list[tuple[str, str]]:
    """(what, hint) of each remote whose configured fetch writes over our notes refs or deletes
    them.
    """
    found = refspec.threats(store.repo.git, [store.team.ref, store.private.ref])
    hint = (
        f"`git config --add remote.NAME.fetch '^refs/notes/{store.settings['ref']}/*'` keeps a"
        " plain fetch away from them; `git mem sync` goes on"
    )
    return [
        (f"`git fetch {name}` {verb} {' and '.join(refs)}, by '{spec}'", hint.replace("NAME", name))
        for name, spec, verb, refs in found
    ]


def init(store: Store) -> list[str]:
    """Adds what is missing; returns one line for each thing done."""
    repo = store.repo
    if blocked(store):
        raise MemError(
            f"a ref '{blocked(store)}' stands where memories are to be stored",
            hint="choose another namespace, for example `git config mem.ref memory`",
        )
    added = missing(store)
    config_journal.add(repo, "init", [(key, value) for key, value, _ in added])
    memfile.make(repo.common_dir)
    for _, notes in store.sources:
        notes.back_up()
    return [f"{key} = {value}  ({why})" for key, value, why in added]


def uninstall(store: Store) -> list[str]:
    """Takes our entries, our hooks and the cache away; returns one line for each thing done.

    Memories stay in the notes refs.
    """
    repo = store.repo
    # Without our own list (the cache was deleted) what init would add is what it added.
    done = config_journal.undo(
        repo,
        {"init", "git", "agents"},
        [(k, v) for k, v, _ in entries(store, default_remote(store))],
    )
    done += githooks.uninstall(store)
    store.close_cache()
    for _, notes in store.sources:
        if notes.tip() and notes.history.backed_up():  # the first puts back what is gone
            reflock.delete(repo.git, config.backup_of(notes.ref))
            done.append(f"removed {config.backup_of(notes.ref)}, the backup of {notes.ref}")
    if os.path.isdir(repo.mem_dir):
        with cache_lock.locked(spool.lock(repo.mem_dir), 5.0):  # a worker would make it anew
            shutil.rmtree(repo.mem_dir, ignore_errors=True)
        done.append("removed the cache")
    return done


def waiting(store: Store) -> list[str]:
    """Tracking refs that hold memories the team ref does not."""
    refs = store.repo.git.text(
        "for-each-ref", "--format=%(refname) %(objectname)", "refs/notes/remotes/"
    ).split("\n")
    suffix = f"/{store.settings['ref']}/team"
    tip = store.team.tip()
    out = []
    for row in refs:
        name, _, id = row.partition(" ")
        if name.endswith(suffix) and id != tip:
            _, status = (
                store.repo.git.run_status("merge-base", "--is-ancestor", id, tip, ok=(0, 1, 128))
                if tip
                else (b"", 1)
            )
            if status:
                out.append(name)
    return out
