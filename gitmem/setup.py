"""`init` and `uninstall`: the few settings git needs, added and taken away.

Promise: nothing in the working tree, no push setting, a second `init` changes
nothing. `uninstall` takes everything of ours away, hooks and cache too: byte
for byte where nobody changed it since (`config_journal`). Memories stay.
"""

import os
import shutil
from collections.abc import Iterator, Mapping

from .agents import unfetched
from .core.errors import MemError
from .engine import cache_lock
from .git import config, config_journal, memfile, reflock, remote
from .hooks import githooks, spool
from .store import Store

PATIENCE = 30.0  # seconds that `uninstall` waits for a worker
_QUIETLY = 1.0  # seconds before, of which nothing is said
OTHER_NAMESPACE = "choose another namespace, for example `git config mem.ref memory`"


def entries(store: Store, remote: str) -> list[tuple[str, str, str]]:
    """(key, value, why) of every config entry `init` adds."""
    name = store.settings["ref"]
    rewrites = "memories follow `git commit --amend` and `git rebase`"
    merges = "`git notes merge` unites memories without conflicts"
    found = [
        ("notes.rewriteRef", f"refs/notes/{name}/*", rewrites),
        (f"notes.{name}/team.mergeStrategy", "cat_sort_uniq", merges),
    ]
    if remote:
        # A pattern: a literal ref would make `git fetch` fail while the remote has none. Forced
        # only onto the tracking copy.
        spec = f"+refs/notes/{name}/team*:refs/notes/remotes/{remote}/{name}/team*"
        fetches = f"`git fetch` brings the team's memories from '{remote}'"
        found.append((f"remote.{remote}.fetch", spec, fetches))
    return found


def default_remote(store: Store, found: Mapping[str, str] | None = None) -> str:
    """The remote to use: `mem.remote`, where the branch is pushed to (in a fork that may be
    `remote.pushDefault`), `origin`, or the only one; else "". `found`: what git was asked before.
    """
    if store.settings["remote"]:
        return store.settings["remote"]
    found = remote.settings(store.repo) if found is None else found
    remotes = remote.names(found)
    branch = f"branch.{store.repo.branch()}."
    for key in (f"{branch}pushremote", "remote.pushdefault", f"{branch}remote"):
        if found.get(key) in remotes:
            return found[key]
    if "origin" in remotes:
        return "origin"
    return remotes[0] if len(remotes) == 1 else ""


def blocked(store: Store) -> str:
    """A ref that makes refs/notes/<mem.ref>/... impossible, "" for none."""
    parts = store.settings["ref"].split("/")
    names = ["refs/notes/" + "/".join(parts[: i + 1]) for i in range(len(parts))]
    return next((name for name, id in zip(names, store.repo.git.ids(names), strict=True) if id), "")


def missing(store: Store, found: Mapping[str, str] | None = None) -> list[tuple[str, str, str]]:
    """Entries that are not in the repository's configuration; `found` as in `default_remote`."""
    wanted = entries(store, default_remote(store, found))
    return [entry for entry in wanted if config_journal.lacks(store.repo, entry[0], entry[1])]


def threats(store: Store) -> list[tuple[str, str]]:
    """(what, hint) of each remote whose fetch writes over our notes refs or deletes them."""
    found = remote.threats(store.repo.git, [store.team.ref, store.private.ref])
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
    if ref := blocked(store):
        text = f"a ref '{ref}' stands where memories are to be stored"
        raise MemError(text, hint=OTHER_NAMESPACE)
    added = missing(store)
    config_journal.add(repo, "init", [(key, value) for key, value, _ in added])
    memfile.make(repo.common_dir)
    for _, notes in store.sources:
        notes.back_up()
    return [f"{key} = {value}  ({why})" for key, value, why in added]


def uninstall(store: Store) -> list[str]:
    """Takes our entries, our hooks and the cache away; one line for each thing done."""
    repo = store.repo
    # Without our own list (the cache was deleted) what init would add is what it added.
    ours = [(key, value) for key, value, _ in entries(store, default_remote(store))]
    done = config_journal.undo(repo, {"init", "git", "agents"}, ours)
    done += githooks.uninstall(store)
    store.close_cache()
    for _, notes in store.sources:
        if notes.tip() and notes.history.backed_up():  # the first puts back what is gone
            reflock.delete(repo.git, config.backup_of(notes.ref))
            done.append(f"removed {config.backup_of(notes.ref)}, the backup of {notes.ref}")
    if os.path.isdir(repo.mem_dir):
        for patience in (_QUIETLY, PATIENCE):
            if patience == PATIENCE:
                store.warn(f"note: waiting for a busy worker, {PATIENCE:g} seconds at most")
            with cache_lock.locked(spool.lock(repo.mem_dir), patience) as alone:
                if alone:  # a worker would make it anew
                    shutil.rmtree(repo.mem_dir, ignore_errors=True)
                    break
        busy = "the cache stays: a worker is busy with it; the same command removes it later"
        done.append("removed the cache" if alone else busy)
    return done


def takeable(store: Store, environ: Mapping[str, str]) -> Iterator[tuple[int, str, str]]:
    """(how many, of what, the command that takes them in) of what could become memories. Looks at
    the first lines of some hundred files.
    """
    from .agents import past_sessions  # all of capture: no `status` waits for these
    from .memory import adr

    if records := adr.waiting(store):
        yield records, "decision record", "git mem import adr"
    if sessions := len(past_sessions.find(store, environ, 300).new):
        yield sessions, "past session", "git mem import sessions"


def waiting(store: Store) -> list[str]:
    """Tracking refs that hold memories the team ref does not."""
    git, tip = store.repo.git, store.team.tip()
    form = "--format=%(refname) %(objectname)"
    out = []
    for row in git.text("for-each-ref", form, "refs/notes/remotes/").split("\n"):
        name, _, id = row.partition(" ")
        if not name.endswith(f"/{store.settings['ref']}/team") or id == tip:
            continue
        if not tip or not git.is_ancestor(id, tip, here=False):
            out.append(name)
    return out


def elsewhere(store: Store) -> str:
    """What brings the team's memories into a clone that has none, as far as that is known without
    network; "" where memories are here, or no remote could have some.
    """
    if store.team.tip():
        return ""
    if waiting(store):
        return unfetched.NOT_UNITED
    remote = default_remote(store)
    if not remote or store.private.tip():
        return ""
    fetch = f"remote.{remote}.fetch"
    if any(key == fetch for key, _, _ in missing(store)):
        return unfetched.NEVER
    if unfetched.offered(store.repo.mem_dir):
        return unfetched.OFFERED
    return f"no memories of '{remote}' are in this clone: `git mem pull` looks for some"
