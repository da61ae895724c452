"""One remote of the project: what it has of the team's memories, taken in and given away by git.

Promise: the user's own credentials and transport work. A fetch writes the tracking copy
`refs/notes/remotes/NAME/<ref>/team` and nothing else; a push sends the one ref it is told to, and
never more than git's own checks let through.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from ..core.errors import GitFailed, MemError
from ..core.progress import Unseen
from . import reflock
from .config import is_true
from .gitcmd import Git
from .repository import Repo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.progress import Progress

SYNCING = "GIT_MEM_SYNCING"  # set for git below us: a hook of ours must not sync again
LS_TIMEOUT = 5.0  # seconds `init` waits for a remote that does not answer

_FULL = ("No space left on device", "Disk quota exceeded")  # the words of ENOSPC and EDQUOT
# What the remote says when another push was faster: take theirs in and try again.
_FASTER = (
    "fetch first|non-fast-forward|stale info|failed to update ref|cannot lock ref"
    "|incorrect old value|reference already exists|remote ref updated since checkout"
    "|failed to lock|unable to create"
)
# `Receiving objects:  45% (450/1000), 1.20 MiB | 2.00 MiB/s`, or a count without a total.
_LINE = re.compile(rb"(?:remote: )?([A-Z][a-z -]+): +(?:\d+% \((\d+)/(\d+)\)|(\d+)(?:, done)?)")
_ASIDE = "refs/git-mem/peek"
_QUIET = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")  # no one asked for a gc


class Pushed(NamedTuple):
    """A push went through (`ok`), or somebody else's did (`faster`), or why not, in git's words."""

    ok: bool
    faster: bool = False
    reason: str = ""
    branch: str = ""  # why the branch that was to go along did not


class Remote:
    def __init__(self, repo: Repo, name: str, team_ref: str, tracked: bool = True) -> None:
        self.name = name
        self.ref = team_ref
        # Of private notes no copy stays here that a push of `refs/notes/*` could take along.
        self.tracking = (
            team_ref.replace("refs/notes/", f"refs/notes/remotes/{name}/", 1) if tracked else ""
        )
        self.progress: Progress = Unseen
        self._local = repo.git
        # A relative address is meant from the top of the working tree.
        self._git = Git(repo.git_dir, cwd=repo.top or repo.git_dir)
        self._git.common_dir = repo.common_dir

    def tracked(self) -> str:
        """The commit of the tracking copy, "" for none."""
        return self._commit(self.tracking)

    def _run(self, ref: str, verb: str, words: list[str]) -> reflock.Done:
        """A fetch or push that moves a ref here; where somebody watches, git says how far it is."""
        watched = self.progress is not Unseen
        # A mirror remote refuses to be pushed single refs; a configured push of everything is not
        # what was asked for.
        argv = [*_QUIET, "-c", f"remote.{self.name}.mirror=false", verb, *words]
        argv += ["--progress"] * watched
        listen = partial(communicate, progress=self.progress) if watched else None
        return reflock.run(self._git, ref, argv, env={SYNCING: "1"}, listen=listen)

    def _commit(self, ref: str) -> str:
        return self._local.resolve(ref + "^{commit}")

    @contextlib.contextmanager
    def peek(self) -> Iterator[str]:
        """The commit the remote has, "" for none, brought here without a tracking copy."""
        aside = f"{_ASIDE}-{os.getpid()}"
        try:
            yield self.fetch(f"{aside}/team")
        finally:
            for name in self._local.text("for-each-ref", "--format=%(refname)", aside).split():
                reflock.delete(self._local, name)

    def fetch(self, to: str = "") -> str:
        """Fetches into a ref, the tracking copy where none is named; returns its commit, "" for
        none. Raises MemError where it is something else.
        """
        to = to or self.tracking
        # A partial clone needs the notes whole. A pattern: git takes a literal ref that the remote
        # lacks for an error.
        options = (
            "--quiet --no-tags --no-write-fetch-head --no-recurse-submodules --no-filter --refmap="
            " --prune"
        )
        asked = [*options.split(), self.name, f"+{self.ref}*:{to}*"]
        done = reflock.patiently(self._local, to, lambda: self._run(to, "fetch", asked))
        if done[0]:
            raise self._failed(
                "fetch", done[2].decode("utf-8", "replace"), reflock.met(self._local, done)
            )
        commit = self._commit(to)
        words = "%(objecttype)%(if)%(*objecttype)%(then) of a %(*objecttype)%(end)"
        kind = self._local.text("for-each-ref", f"--format={words}", to, ok=(0, 128))
        if kind and not commit:
            reflock.delete(self._local, to)
            raise MemError(
                f"'{self.ref}' of '{self.name}' is a {kind}, not a commit with memories",
                hint=(
                    "nothing was taken in or sent, and what is here stays; that ref has to be put"
                    " right at the remote, or name another one with --remote"
                ),
            )
        return commit

    def tip(self) -> str:
        """The commit the remote's notes are at now, "" for none; nothing is fetched."""
        asked = ("ls-remote", "--quiet", self.name, self.ref)
        try:
            out = self._git.run(*asked, env={SYNCING: "1"})
        except GitFailed as e:
            raise self._failed("ls-remote", e.stderr) from e
        rows = out.decode("utf-8", "replace").splitlines()
        return next((row.split("\t")[0] for row in rows if row.endswith("\t" + self.ref)), "")

    def commits_of(self, branch: str) -> list[str]:
        """`git log --oneline` of what the remote lacks of a branch, as far as is known here."""
        lacks = (branch, "--not", f"--remotes={self.name}", "--")
        words = ("log", "--oneline", "--no-decorate", "-n", "1000", *lacks)
        return self._local.text(*words).splitlines()

    def offers(self) -> bool:
        """Whether the remote has memories and says so at once, without a password."""
        env = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "SSH_ASKPASS": "true"}
        process = self._git.start(
            ["ls-remote", "--quiet", self.name, self.ref],
            {**env, SYNCING: "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            out, _ = process.communicate(timeout=LS_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return False
        return process.returncode == 0 and bool(out.strip())

    def push(self, tip: str, replaces: str = "", branch: str = "") -> Pushed:
        """Sends a notes commit. `replaces`: the commit the remote must still have for its history
        to be left behind. `branch`: a full branch name that goes along, all or nothing; then the
        user's pre-push hook runs.
        """
        argv = ["--porcelain", "--no-follow-tags", "--recurse-submodules=no"]
        argv += ["--atomic"] if branch else ["--no-verify"]
        argv += [f"--force-with-lease={self.ref}:{replaces}"] if replaces else []
        argv += [self.name, f"{tip}:{self.ref}", *([f"{branch}:{branch}"] if branch else [])]
        # It also moves the tracking copy, where a fetch is configured for it.
        status, raw, err = self._run(self.tracking, "push", argv)
        words = err.decode("utf-8", "replace")
        rows = [row.split("\t") for row in raw.decode("utf-8", "replace").split("\n")]
        said = {row[1].rpartition(":")[2]: (row[0].strip(), row[2]) for row in rows if row[2:]}
        flag, summary = said.get(self.ref, ("", ""))
        if status == 0 and flag != "!":
            if self.tracking:
                reflock.run(self._local, self.tracking, ["update-ref", self.tracking, tip])
            return Pushed(True)
        if not flag:
            raise self._failed("push", words)
        branch_flag, branch_said = said.get(branch, ("", ""))
        if branch_flag == "!" and "atomic" not in branch_said:
            return Pushed(False, branch=_in_brackets(branch_said))
        reason = _in_brackets(summary)
        text = f"{reason}\n{words}" if "remote rejected" in summary else reason
        faster = any(word in text for word in _FASTER.split("|"))
        return Pushed(False, faster=faster, reason=_hosts_words(words) or reason)

    def forget_tracking(self) -> None:
        """Drops the tracking copy: it holds what may not be here."""
        reflock.delete(self._local, self.tracking)

    def _failed(self, what: str, err: str, lock: str = "") -> MemError:
        text = err.strip()
        if lock:
            message = f"cannot note what '{self.name}' has: it is locked by '{lock}'"
            return GitFailed(message, hint=reflock.LEFT, stderr=text)
        rows = text.splitlines() or ["git said nothing"]
        if full := next((row for row in rows if any(word in row for word in _FULL)), ""):
            hint = "make room here, or where the remote is if it says so; no memory is lost"
            return GitFailed(f"the disk is full: {full.strip()}", hint, stderr=text)
        first = next((row for row in rows if row.startswith(("fatal:", "error:"))), rows[0])
        first = first.partition(": ")[2] or first
        if what == "push":
            message, hint = f"cannot push to '{self.name}': {first}", "nothing was sent"
        else:
            message = f"cannot reach '{self.name}': {first}"
            hint = "`git fetch` with the same remote shows whether it is the network or the address"
        return GitFailed(message, hint, stderr=text)


def _in_brackets(summary: str) -> str:
    return summary.partition("(")[2].rpartition(")")[0] or summary


def _hosts_words(err: str) -> str:
    """What the hosting says of its own accord: the first `remote:` line with words."""
    for row in err.splitlines():
        words = row.removeprefix("remote:").strip()
        if row.startswith("remote:") and words:
            return words.removeprefix("error: ").removeprefix("fatal: ")
    return ""


def settings(repo: Repo) -> dict[str, str]:
    """git's settings of remotes and branches: {key: value}."""
    raw = repo.git.run("config", "-z", "--get-regexp", r"^(remote|branch)\.", ok=(0, 1))
    rows = raw.decode("utf-8", "surrogateescape").split("\0")
    return {key: value for key, _, value in (row.partition("\n") for row in rows)}


def names(found: Mapping[str, str]) -> list[str]:
    """The remotes of `settings`."""
    named = {key[7:].rpartition(".")[0] for key in found if key.startswith("remote.")}
    return sorted(named - {""})


def threats(git: Git, refs: list[str]) -> list[tuple[str, str, str, list[str]]]:
    """Which configured fetches write over or delete refs of ours, by git's own rules: [(remote,
    refspec, "overwrites", "deletes" or both, the refs of ours it reaches)]. A `+` forces, pruning
    deletes what the remote lacks, a `^` takes refs of the remote out.
    """
    specs: dict[str, list[str]] = {}
    prune: dict[str, bool] = {}
    keys = r"^(remote\..*\.(fetch|prune)|fetch\.prune)$"
    rows = git.run("config", "-z", "--get-regexp", keys, ok=(0, 1))
    for row in rows.decode("utf-8", "surrogateescape").split("\0"):
        key, newline, value = row.partition("\n")
        name, _, last = key.partition(".")[2].rpartition(".")
        if last == "fetch":
            specs.setdefault(name, []).append(value)
        elif key:
            prune[name] = not newline or is_true(value)
    out = []
    for name, given in specs.items():
        kept = [spec[1:] for spec in given if spec.startswith("^")]
        for spec in given:
            source, colon, target = spec.removeprefix("+").partition(":")
            there = {ref: _mapped(target, ref, source) for ref in refs if colon}
            reached = [
                ref for ref, of in there.items() if of and not any(_mapped(k, of, k) for k in kept)
            ]
            verbs = ["overwrites"] if spec.startswith("+") else []
            verbs += ["deletes"] if prune.get(name, prune.get("", False)) else []
            if reached and verbs:
                out.append((name, spec, " and ".join(verbs), reached))
    return out


def _mapped(pattern: str, ref: str, to: str) -> str:
    """What a ref is called by the pattern `to`; "" where `pattern` (at most one `*`) lacks it."""
    head, star, tail = pattern.partition("*")
    if not star:
        return to if ref == pattern else ""
    if len(ref) < len(head) + len(tail) or not (ref.startswith(head) and ref.endswith(tail)):
        return ""
    return to.replace("*", ref[len(head) : len(ref) - len(tail)], 1)


def communicate(process: Any, progress: Progress) -> tuple[bytes, bytes]:
    """(stdout, stderr without its lines of progress) of a running git, a `Popen` that was started
    with `--progress` and reads nothing.
    """
    process.stdin.close()
    said: list[bytes] = []
    stdout = process.stdout
    reader = threading.Thread(target=lambda: said.append(stdout.read()), daemon=True)
    reader.start()
    kept: list[bytes] = []
    shown, before, part = b"", 0, b""
    with contextlib.ExitStack() as line:
        advance: Callable[[int], None] = lambda more: None  # noqa: E731
        while block := process.stderr.read1(4096):
            *whole, part = (part + block).replace(b"\r", b"\n").split(b"\n")
            for text in whole:
                if not (found := _LINE.match(text)):
                    kept.append(text + b"\n")
                    continue
                if found[1] != shown:
                    line.close()
                    total = int(found[3]) if found[3] else None
                    shown, before = found[1], 0
                    advance = line.enter_context(progress(shown.decode().lower(), total))
                done = int(found[2] or found[4])
                advance(done - before)
                before = done
    kept.append(part)
    reader.join()
    process.stdout.close()
    process.stderr.close()
    process.wait()
    return said[0], b"".join(kept)
