"""`push --private-to`, `pull --private-from`: one person's private notes in another clone of
theirs, over one remote they name.

Everything private goes along: memories, suggestions and verdicts, receipts and
feedback, calibration, tombstones. It is the only way that git mem ever takes
private notes anywhere.

Promise: nothing of it happens but on that word, and never to a default remote.
What leaves is shown before (`--dry-run`), and stays where it looks like a
secret. The ref there is no notes ref and none that a plain fetch, or one of
`refs/notes/*`, takes; it has the person's name in it (a digest of the address
git commits with), so that two who use one remote never unite. What is there is
united with what is here, line by line; purged text does not come back.
"""

from __future__ import annotations

import os
import random
import time

from . import sync
from .core.digest import sha256
from .core.errors import MemError
from .git import remote
from .git.remote import Remote
from .store import Store
from .sync import Report


def ref_of(store: Store) -> str:
    """The ref of this person's private notes in a remote."""
    address = store.settings.author.rpartition("<")[2].rstrip(">").strip().lower()
    if "@" not in address:
        raise MemError(
            "git does not know your address, so nobody could tell whose private notes these are",
            hint="`git config user.email` sets it",
        )
    digest = sha256(address.encode("utf-8", "surrogateescape")).hexdigest()
    return f"refs/git-mem/private/{digest[:16]}"


_GIVEN = "git-mem-given"  # in the common directory: not in `mem/`, which may be deleted


def given(common_dir: str) -> list[str]:
    """Names of the remotes that were given private notes from here: a purge has to be told to them,
    too.
    """
    try:
        with open(os.path.join(common_dir, _GIVEN), encoding="utf-8", errors="replace") as f:
            return sorted({row for row in f.read().splitlines() if row.strip()})
    except OSError:
        return []


def _remember(common_dir: str, name: str) -> None:
    if name not in given(common_dir):
        with open(
            os.open(
                os.path.join(common_dir, _GIVEN), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
            ),
            "a",
            encoding="utf-8",
        ) as f:
            f.write(name + "\n")


def _remote(store: Store, name: str) -> Remote:
    known = [n for n in remote.names(store.repo) if n]
    if name not in known:
        raise MemError(
            f"no remote '{name}'",
            hint=(
                "`git remote add` gives an address a name; private notes go only to a remote that"
                " you name"
                if not known
                else f"there are: {', '.join(known)}"
            ),
        )
    return Remote(store.repo, name, ref_of(store), tracked=False)


def take(store: Store, name: str) -> Report:
    """Unites with what the remote has of this person."""
    there = _remote(store, name)
    report = Report(there.name)
    report.ref = there.ref
    with there.peek() as theirs:
        if theirs:
            _unite(store, theirs, report)
        else:
            report.remarks.append(
                f"'{name}' has no private notes of"
                f" {store.settings.author.rpartition('<')[2].rstrip('>')}"
            )
    _settle(store, report)
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
    pause = 0.05
    for attempt in range(sync.ATTEMPTS):
        with there.peek() as theirs:
            refused = _unite(store, theirs, report) if theirs and not dry else ""
            tip = store.private.tip()
            report.sent = sync.leaving(store.private, theirs)
            if dry:
                try:
                    sync.refuse_secrets(store, report.sent, allow_secret)
                except MemError as e:
                    report.secret = e
                break
            if not tip or tip == theirs or (not report.sent and not refused):
                break
            sync.refuse_secrets(store, report.sent, allow_secret)
            _remember(
                store.repo.common_dir, name
            )  # before: a push whose answer is lost may have arrived
            pushed = there.push(tip, refused)
        if pushed.ok:
            break
        if not pushed.faster or attempt + 1 == sync.ATTEMPTS:
            raise MemError(
                f"'{name}' refused {there.ref}: {pushed.reason}",
                hint="what is here stays; another remote may take such a ref",
            )
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 2, 2.0)
    _settle(store, report)
    return report


def _unite(store: Store, theirs: str, report: Report) -> str:
    """Takes in a commit of theirs; returns it where its history holds what was purged here, and
    must be left behind there.
    """
    written = store.unite(theirs, f"git mem: private notes from {report.remote}", "private")
    report.received += written.lines
    report.purged = report.purged or written.replaced
    return theirs if written.refused else ""


def _settle(store: Store, report: Report) -> None:
    """Leaves no purged text behind, and a cache that knows what came in."""
    if report.purged or any(notes.purges() for _, notes in store.sources):
        from .erasure import purge

        try:
            purge.scrub(store, sure=report.purged)
        except MemError as e:  # what was sent is sent
            report.remarks.append(
                f"purged text is still here: {e.message}; the next pull or sync goes on"
            )
    if store.private.tip() and not report.dry:
        store.with_cache(lambda cache: None)
