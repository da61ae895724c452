"""`push --private-to`, `pull --private-from`: one person's private notes in another clone.
They go over one remote that the person names. Everything private goes along.

Promise: it is the only way that private notes leave, on that word alone, and never to a default
remote. What leaves is shown before (`--dry-run`), and stays where it looks like a secret. The ref
there is none that a plain fetch, or one of `refs/notes/*`, takes; its name has a digest of the
address git commits with, so that two who use one remote never unite. What is there is united with
what is here, line by line; purged text does not come back.
"""

from __future__ import annotations

import contextlib
import os

from . import sync
from .core.digest import sha256
from .core.errors import MemError
from .git.remote import Remote
from .store import Store
from .sync import Report


def _address(store: Store) -> str:
    return store.settings.author.rpartition("<")[2].rstrip(">")


def _ref_of(store: Store) -> str:
    """The ref of this person's private notes in a remote."""
    address = _address(store).strip().lower()
    if "@" not in address:
        raise MemError(
            "git does not know your address, so nobody could tell whose private notes these are",
            hint="`git config user.email` sets it",
        )
    digest = sha256(address.encode("utf-8", "surrogateescape")).hexdigest()
    return f"refs/git-mem/private/{digest[:16]}"


def _given_file(common_dir: str) -> str:
    return os.path.join(common_dir, "git-mem-given")  # not in `mem/`, which may be deleted


def given(common_dir: str) -> list[str]:
    """Names of the remotes that were given private notes: a purge has to be told to them."""
    try:
        with open(_given_file(common_dir), encoding="utf-8", errors="replace") as f:
            return sorted({row for row in f.read().splitlines() if row.strip()})
    except OSError:
        return []


def _remember(common_dir: str, name: str) -> None:
    if name not in given(common_dir):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with open(os.open(_given_file(common_dir), flags, 0o600), "a", encoding="utf-8") as f:
            f.write(name + "\n")


def _remote(store: Store, name: str) -> Remote:
    there = Remote(store.repo, sync.known_remote(store, name), _ref_of(store), tracked=False)
    there.progress = store.progress
    return there


def take(store: Store, name: str) -> Report:
    there = _remote(store, name)
    report = Report(there.name)
    report.ref = there.ref
    with there.peek() as theirs:
        refused = bool(theirs) and _unite(store, theirs, report)
    if not theirs:
        report.remarks.append(f"'{name}' has no private notes of {_address(store)}")
    if refused:
        report.remarks.append(
            f"'{name}' still holds text that was purged here; `git mem push --private-to {name}`"
            " replaces it there"
        )
    _finish(store, report, refused)
    return report


def give(store: Store, name: str, *, dry: bool = False, allow_secret: bool = False) -> Report:
    """Unites with what the remote has of this person, and gives it what is here.

    `dry`: only says what would leave; nothing is united, written or sent.
    """
    there = _remote(store, name)
    report = Report(there.name)
    report.ref, report.dry = there.ref, dry
    if Remote(store.repo, name, store.team.ref).tracked():
        report.remarks.append(
            f"'{name}' is where the team's memories are: whoever may fetch any ref there can read"
            " these, too"
        )
    if not dry:  # as the team's push begins: what only the cache has goes, too
        report.purged = store.settle("git mem: push", "private").replaced
    brought = False  # whether the look may have left purged text here
    try:
        for attempt in sync.attempts():
            with there.peek() as theirs:
                refused = theirs if theirs and not dry and _unite(store, theirs, report) else ""
                brought = brought or bool(theirs if dry else refused)
                tip = store.private.tip()
                report.sent = sync.leaving(store, store.private, theirs)
                sent = report.sent
                secret = sync.secret_in(store, store.private, theirs, sent, allow_secret)
                if dry:
                    report.secret = secret
                if dry or not tip or tip == theirs or (not report.sent and not refused):
                    break
                if secret:
                    raise secret
                # Before: a push whose answer is lost may have arrived.
                _remember(store.repo.common_dir, name)
                pushed = there.push(tip, refused)
            if pushed.ok:
                report.purged = report.purged or bool(refused)
                break
            if not pushed.faster or attempt == sync.ATTEMPTS:
                raise MemError(
                    f"'{name}' refused {there.ref}: {pushed.reason}",
                    hint="what is here stays; another remote may take such a ref",
                )
    except BaseException:  # it is what is said, whatever else fails
        with contextlib.suppress(MemError):
            _finish(store, report, brought)
        raise
    _finish(store, report, brought)
    return report


def _unite(store: Store, theirs: str, report: Report) -> bool:
    message = f"git mem: private notes from {report.remote}"
    return sync.unite(store, "private", theirs, message, report)


def _finish(store: Store, report: Report, brought: bool) -> None:
    """Leaves no purged text behind (`brought`: the remote had some), and a cache that knows what
    came in.
    """
    sync.scrub(store, report, sure=report.purged or brought)
    if store.private.tip() and not report.dry:
        store.with_cache(lambda cache: None)
