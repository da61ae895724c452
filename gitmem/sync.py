"""`sync`, `pull`, `push`: one team's memories in every clone, over a remote the project has.

Promise: what the remote has is united with what is here, line by line, so nobody's memories are
lost whoever was faster; only the team's ref goes out, only to the remote that was named (or the one
default), only when asked; no purged text comes back and no text that looks like a secret leaves.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .anchors import patch_id_marks
from .core import record
from .core.errors import GitFailed, MemError, Refused
from .core.progress import counted
from .git import remote
from .git.remote import Remote
from .notes.note_store import Notes
from .setup import default_remote
from .signing import trust
from .store import Store

ATTEMPTS = 12  # pushes, while others are faster
_PATIENCE = 4  # of them while the remote does not move
PAUSE = 0.05  # seconds, doubled each time, at most two


class Report:
    received = 0  # lines that came in
    dry = False
    ref = ""  # where private notes went or came from
    purged = False  # text was taken out of this clone or of the remote's history
    branch = ""  # that goes along, with `commits`
    secret: MemError | None = None  # why a dry run would have been refused

    def __init__(self, remote: str) -> None:
        self.remote = remote
        self.sent: list[dict[str, Any]] = []  # records that left, or would leave
        self.commits: list[str] = []
        self.remarks: list[str] = []


def known_remote(store: Store, name: str) -> str:
    """The name, if a remote has it. Raises MemError."""
    known = remote.names(remote.settings(store.repo))
    if name in known:
        return name
    hint = f"{'there are' if name else 'name one with --remote'}: {', '.join(known)}"
    if not known:
        hint = "`git remote add` names the place the team shares"
    raise MemError(f"no remote '{name}'" if name else "no remote to sync with", hint=hint)


def _remote(store: Store, name: str) -> Remote:
    """The remote to talk to: `name`, else `setup.default_remote`."""
    there = Remote(store.repo, known_remote(store, name or default_remote(store)), store.team.ref)
    there.progress = store.progress
    return there


def offers(store: Store, name: str) -> bool:
    """Whether a remote has memories and nothing is here; asks it for a few seconds at most."""
    return bool(name) and not store.team.tip() and Remote(store.repo, name, store.team.ref).offers()


def unshared(store: Store, found: Mapping[str, str]) -> int | None:
    """How many of the team's records the default remote lacked when this clone last heard of it;
    None where there is no remote. No network. `found`: `remote.settings`.
    """
    name = default_remote(store, found)
    if name not in remote.names(found):
        return None
    tip, theirs = store.team.tip(), Remote(store.repo, name, store.team.ref).tracked()
    gained = store.team.gained(tip, theirs) if tip and tip != theirs else ()
    return len({line for _, line in gained})


def pull(store: Store, name: str = "") -> Report:
    """Takes in what the remote has; before, as in `push`, our notes are put in order: what stock
    git took out of them would leave with the history, what it merged in may have been purged.
    """
    there = _remote(store, name)
    report = Report(there.name)
    report.purged = store.settle("git mem: sync").replaced
    _finish(store, there, report, _take_in(store, there, report))
    return report


def push(
    store: Store,
    name: str = "",
    *,
    branch: bool = False,
    allow_secret: bool = False,
    take_in: bool = True,
) -> Report:
    """Gives the remote what is here; takes in what it has first (sync), or without `take_in` only
    where it moved. `branch`: the branch that is checked out goes along, both or none.
    """
    there = _remote(store, name)
    report = Report(there.name)
    report.branch = _branch(store) if branch else ""
    report.purged = store.settle("git mem: sync").replaced
    refused = ""
    if take_in or there.tip() != there.tracked():
        refused = _take_in(store, there, report)
    if store.team.tip():
        patch_id_marks.publish(store)
    try:
        refused = _send(store, there, report, refused, allow_secret)
    except MemError:
        with contextlib.suppress(MemError):
            _finish(store, there, report, refused)
        raise
    _finish(store, there, report, refused)
    return report


def preview(
    store: Store, name: str = "", *, branch: bool = False, allow_secret: bool = False
) -> Report:
    """What `push` would send, to the last line. Nothing is united, written to a ref or sent."""
    there = _remote(store, name)
    report = Report(there.name)
    report.dry = True
    report.branch = _branch(store) if branch else ""
    with there.peek() as theirs:
        marks = patch_id_marks.missing(store, "team") if store.team.tip() else []
        report.sent = leaving(store, store.team, theirs, [line for _, line in marks])
        if report.branch:
            report.commits = there.commits_of(report.branch)
        report.secret = secret_in(store, store.team, theirs, report.sent, allow_secret)
    scrub(store, report, sure=True)  # the look at the remote may have brought purged text here
    return report


def _branch(store: Store) -> str:
    name = store.repo.branch()
    if not name:
        raise MemError(
            "HEAD is detached: there is no branch to push along",
            hint="`git switch` to the branch, or leave --atomic out",
        )
    return f"refs/heads/{name}"


def attempts() -> Iterator[int]:
    """The numbers of the attempts to push, with a longer wait before each."""
    pause = PAUSE
    for attempt in range(1, ATTEMPTS + 1):
        yield attempt
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 2, 2.0)


def _send(store: Store, there: Remote, report: Report, refused: str, allow_secret: bool) -> str:
    """Pushes until it goes through; returns the commit whose history the remote still holds
    although it was refused here, "" for none.
    """
    unmoved = 0
    for attempt in attempts():
        tip, theirs = store.team.tip(), refused or there.tracked()
        if not tip or (tip == theirs and not report.branch):
            return refused
        report.sent = leaving(store, store.team, theirs)
        if not report.sent and not refused and not report.branch and _contains(store, theirs, tip):
            return ""  # the remote is ahead of us
        if secret := secret_in(store, store.team, theirs, report.sent, allow_secret):
            raise secret
        pushed = there.push(tip, refused, report.branch)
        if pushed.ok:
            report.purged = report.purged or bool(refused)
            return ""
        if pushed.branch:
            name = report.branch.removeprefix("refs/heads/")
            raise MemError(
                f"'{there.name}' refused the branch '{name}': {pushed.branch}",
                hint="`git pull` first; nothing was pushed",
            )
        # A remote that says it has moved, and has not, is locked or means something else.
        unmoved += there.tip() == theirs
        overtaken = pushed.faster and unmoved <= _PATIENCE
        if not overtaken or attempt == ATTEMPTS:
            hint = (
                "what is here stays; run the command again, or name another remote with --remote if"
                " the hosting takes no notes"
            )
            if "shallow update not allowed" in pushed.reason:
                hint = (
                    "the history of the notes is cut off here: `git fetch --unshallow REMOTE"
                    f" {store.team.ref}`, from the remote they came from, brings it whole"
                )
            others = "; others kept pushing" if overtaken else ""
            message = f"'{there.name}' refused {store.team.ref}: {pushed.reason}{others}"
            raise MemError(message, hint=hint)
        refused = _take_in(store, there, report)
    return refused


def _contains(store: Store, commit: str, other: str) -> bool:
    return bool(commit) and store.repo.git.is_ancestor(other, commit, here=False)


def _take_in(store: Store, there: Remote, report: Report) -> str:
    """Fetches and unites; returns the remote's commit if its history holds purged text, else ""."""
    before, had = store.team.tip(), report.received
    refused = _fetch(store, there, report)
    if report.received > had and store.settings["secrets"] == "refuse":
        came = [line for _, line in store.team.gained(store.team.tip(), before)]
        report.remarks += [
            f"{_named(version, id)} that came in looks like it holds a secret"
            f" ({_where(field, rule)}); `git mem purge` takes it out for good"
            for version, id, field, rule in _secrets(store, came)
        ]
    return refused


def _fetch(store: Store, there: Remote, report: Report) -> str:
    message = f"git mem: sync with {there.name}"
    before = there.tracked()
    refused, seen = False, ""
    if before and not _contains(store, store.team.tip(), before):
        # The fetch may replace it (a remote that was force-pushed): what it holds is taken in
        # first.
        try:
            refused, seen = unite(store, "team", before, message, report), before
        except GitFailed:
            # Objects of it are gone: git would believe that it has them, and not fetch them again.
            there.forget_tracking()
            report.remarks.append(
                f"objects of '{there.tracking}' ({before[:12]}) are not here; it was fetched anew"
            )
    elif not before:
        there.forget_tracking()  # where it names what is not here at all
    theirs = there.fetch()
    if theirs and not (theirs == before == seen):
        if _contains(store, store.team.tip(), theirs):
            return ""
        refused = unite(store, "team", theirs, message, report)
    return theirs if refused else ""


def unite(store: Store, scope: str, theirs: str, message: str, report: Report) -> bool:
    """Takes in a notes commit; whether its history has to be left behind there (purged text)."""
    written = store.unite(theirs, message, scope)
    report.received += written.lines
    report.purged = report.purged or written.replaced
    return written.refused


def _finish(store: Store, there: Remote, report: Report, refused: str) -> None:
    """Leaves no purged text behind, and a cache that knows what came in."""
    if refused:
        there.forget_tracking()
        report.remarks.append(
            f"'{there.name}' still holds text that was purged here; `git mem sync` replaces it"
            " there"
        )
    scrub(store, report, sure=report.purged or bool(refused))
    if store.team.tip():
        store.with_cache(lambda cache: None)


def scrub(store: Store, report: Report, sure: bool) -> None:
    """Removes purged text, also what an earlier call was killed before it could remove. `sure`: it
    has just been here.
    """
    if not sure and not any(notes.purges() for _, notes in store.sources):
        return
    from .erasure import purge

    try:
        done = purge.scrub(store, sure)
    except MemError as e:  # what was sent is sent
        report.remarks.append(f"purged text is still here: {e.message}; the next sync goes on")
        return
    if done and done.held:
        report.remarks.append(f"purged text is still here: {', '.join(done.held)} leads to it")


def leaving(
    store: Store, notes: Notes, theirs: str, more: Iterable[bytes] = ()
) -> list[dict[str, Any]]:
    """What a push would give to a remote that has the notes commit `theirs` ("": none), also what
    stock git took out of our notes; `op` is None in lines of others. `more`: lines to be written.
    """
    gained = (line for _, line in notes.gained(notes.tip(), theirs))
    lines = dict.fromkeys([*gained, *notes.owed(theirs), *more])
    with store.progress("reading records", len(lines)) as advance:
        return [_shown(line) for line in counted(lines, advance)]


def _secrets(store: Store, lines: list[bytes]) -> list[tuple[str, str, str, str]]:
    with store.progress("looking for secrets", len(lines)) as advance:
        return trust.secrets(counted(lines, advance))


def _shown(line: bytes) -> dict[str, Any]:
    parsed = record.parse(line)
    # Others write any shape, also what JSON does not know.
    data = {k: v for k, v in parsed.data.items() if isinstance(v, str)} if parsed else {}
    return {
        "id": parsed.id if parsed else None,
        "version": record.version_of(line),
        "op": parsed.op if parsed else None,
        "title": record.title_of(data),
        **{name: data.get(name) for name in ("body", "type", "author")},
        "text": line.decode("utf-8", "replace"),
    }


def secret_in(
    store: Store, notes: Notes, theirs: str, sent: list[dict[str, Any]], allow: bool
) -> MemError | None:
    """Why nothing may be sent: a text that would leave looks like a credential. One that the notes
    commit `theirs` has already (an amend copied it) leaves with nothing new.
    """
    if allow or store.settings["secrets"] != "refuse":
        return None
    found = _secrets(store, [str(item["text"]).encode() for item in sent])
    there = notes.history.commit(theirs) if found and theirs else None
    known = {record.version_of(line) for _, line in notes.contents(there)} if there else set()
    for version, id, field, rule in found:
        if version in known:
            continue
        what = _named(version, id) + ("" if id else ", which is no memory,")
        return Refused(
            f"{what} looks like it holds a secret ({_where(field, rule)})",
            hint=(
                "`git mem purge` takes it out for good, --allow-secret sends it if it is none;"
                " nothing was sent"
            ),
        )
    return None


def _named(version: str, id: str) -> str:
    return f"memory '{id[:8]}'" if id else f"line '{version[:8]}'"


def _where(field: str, rule: str) -> str:
    return f"{field}: {rule}" if field else rule
