"""One remote of the project: what it holds of the team's memories, taken in and given away through
`git`.

Promise: the user's own credentials and transport work, because git does the
talking. A fetch writes the tracking copy `refs/notes/remotes/NAME/<ref>/team`
and nothing else; a push sends the one ref it is told to, and never more than
git's own checks let through.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator

from ..core.errors import GitFailed, MemError
from . import reflock
from .gitcmd import Git
from .repository import Repo

SYNCING = "GIT_MEM_SYNCING"  # set for git below us: a hook of ours must not sync again
LS_TIMEOUT = 5.0  # seconds `init` waits for a remote that does not answer

# What the remote says when another push was faster: take theirs in and try again.
_FULL = ("No space left on device", "Disk quota exceeded")  # the words of ENOSPC and EDQUOT
_FASTER = (
    "fetch first",
    "non-fast-forward",
    "stale info",
    "failed to update ref",
    "cannot lock ref",
    "incorrect old value",
    "reference already exists",
    "remote ref updated since checkout",
    "failed to lock",
    "unable to create",
)
_ASIDE = "refs/git-mem/peek"
_QUIET = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")  # no one asked for a gc


class Pushed:
    """What became of a push: `ok`, or `faster` (somebody else was), or a `reason` in the remote's
    words.
    """

    def __init__(self, ok: bool, faster: bool = False, reason: str = "", branch: str = "") -> None:
        self.ok = ok
        self.faster = faster
        self.reason = reason
        self.branch = branch  # why the branch that was to go along did not


class Remote:
    """A remote by its name in `git remote`."""

    def __init__(self, repo: Repo, name: str, team_ref: str, tracked: bool = True) -> None:
        self.name = name
        self.ref = team_ref
        # Of private notes no copy stays here that a push of `refs/notes/*` could take along.
        self.tracking = (
            team_ref.replace("refs/notes/", f"refs/notes/remotes/{name}/", 1) if tracked else ""
        )
        self._local = repo.git
        self._hex_len = repo.hex_len
        # A relative address is meant from the top of the working tree.
        self._git = Git(repo.git_dir, cwd=repo.top or repo.git_dir)

    def tracked(self) -> str:
        """The commit of the tracking copy, "" for none."""
        return self._local.text(
            "rev-parse", "-q", "--verify", self.tracking + "^{commit}", ok=(0, 1, 128)
        )

    def fetch(self) -> str:
        """Updates the tracking copy; returns its commit, "" where the remote has no memories.

        Raises MemError where its ref holds something else.
        """
        self._fetch(self.tracking)
        return self._fetched(self.tracking)

    @contextlib.contextmanager
    def peek(self) -> Iterator[str]:
        """The commit the remote has, "" for none, brought here for a look; the tracking copy stays
        as it is.
        """
        aside = f"{_ASIDE}-{os.getpid()}/team"
        try:
            self._fetch(aside)
            yield self._fetched(aside)
        finally:
            for name in self._local.text(
                "for-each-ref", "--format=%(refname)", aside.rpartition("/")[0]
            ).split():
                reflock.delete(self._local, name)

    def _fetched(self, to: str) -> str:
        """The commit that a fetch wrote to a ref.

        What is none is no copy of memories: it does not stay.
        """
        commit = self._local.text("rev-parse", "-q", "--verify", to + "^{commit}", ok=(0, 1, 128))
        kind = (
            ""
            if commit
            else self._local.text(
                "for-each-ref",
                "--format=%(objecttype)%(if)%(*objecttype)%(then) of a %(*objecttype)%(end)",
                to,
                ok=(0, 128),
            )
        )
        if kind:
            reflock.delete(self._local, to)
            raise MemError(
                f"'{self.ref}' of '{self.name}' is a {kind}, not a commit with memories",
                hint=(
                    "nothing was taken in or sent, and what is here stays; that ref has to be put"
                    " right at the remote, or name another one with --remote"
                ),
            )
        return commit

    def _fetch(self, to: str) -> None:
        # A pattern: a literal ref that the remote lacks is an error to git. A partial clone needs
        # the notes whole.
        argv = [
            *_QUIET,
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--no-filter",
            "--refmap=",
            "--prune",
            self.name,
            f"+{self.ref}*:{to}*",
        ]
        begun = time.monotonic()
        while True:
            status, _, err, _ = reflock.run(
                self._git, self._local.common_dir, to, argv, env={SYNCING: "1"}
            )
            if status == 0:
                return
            if not reflock.waited(self._local, to, err.decode("utf-8", "replace"), begun):
                raise self._failed("fetch", err)

    def tip(self) -> str:
        """The commit the remote's notes are at now, "" for none; nothing is fetched."""
        process = self._git.start(
            ["ls-remote", "--quiet", self.name, self.ref],
            {SYNCING: "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = process.communicate()
        if process.returncode:
            raise self._failed("ls-remote", err)
        rows = out.decode("utf-8", "replace").splitlines()
        return next((row.split("\t")[0] for row in rows if row.endswith("\t" + self.ref)), "")

    def commits_of(self, branch: str) -> list[str]:
        """`git log --oneline` of what the remote lacks of a branch, as far as is known here."""
        return self._local.text(
            "log",
            "--oneline",
            "--no-decorate",
            "-n",
            "1000",
            branch,
            "--not",
            f"--remotes={self.name}",
            "--",
        ).splitlines()

    def offers(self) -> bool:
        """Whether the remote has memories; False also where it does not answer at once or would ask
        for a password.
        """
        env = {
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "true",
            "SSH_ASKPASS": "true",
            SYNCING: "1",
        }
        process = self._git.start(
            ["ls-remote", "--quiet", self.name, self.ref],
            env,
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
        to be left behind (after a purge).

        `branch`: a full branch name that goes along, all or nothing; then the
        user's pre-push hook runs as for their own push.
        """
        argv = ["push", "--porcelain", "--no-follow-tags", "--recurse-submodules=no"]
        argv += ["--atomic"] if branch else ["--no-verify"]
        argv += [f"--force-with-lease={self.ref}:{replaces}"] if replaces else []
        argv += [self.name, f"{tip}:{self.ref}", *([f"{branch}:{branch}"] if branch else [])]
        # A mirror remote refuses single refs; a configured push of everything is not what was asked
        # for. A push also moves the tracking copy, where a fetch is configured for it.
        argv = [*_QUIET, "-c", f"remote.{self.name}.mirror=false", *argv]
        if self.tracking:
            status, raw, err, _ = reflock.run(
                self._git,
                self._local.common_dir,
                self.tracking,
                argv,
                env={SYNCING: "1"},
            )
        else:
            process = self._git.start(
                argv,
                {SYNCING: "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            raw, err = process.communicate()
            status = process.returncode
        rows = [row.split("\t") for row in raw.decode("utf-8", "replace").split("\n")]
        said = {
            row[1].rpartition(":")[2]: (row[0].strip(), row[2]) for row in rows if len(row) >= 3
        }
        flag, summary = said.get(self.ref, ("", ""))
        if status == 0 and flag != "!":
            if self.tracking:
                reflock.run(
                    self._local,
                    self._local.common_dir,
                    self.tracking,
                    ["update-ref", self.tracking, tip],
                )
            return Pushed(True)
        if not flag:
            raise self._failed("push", err)
        branch_flag, branch_said = said.get(branch, ("", ""))
        reason = summary.partition("(")[2].rpartition(")")[0] or summary
        if branch_flag == "!" and "atomic" not in branch_said:
            return Pushed(
                False, branch=branch_said.partition("(")[2].rpartition(")")[0] or branch_said
            )
        text = (
            f"{reason}\n{err.decode('utf-8', 'replace')}"
            if "remote rejected" in summary
            else reason
        )
        return Pushed(
            False, faster=any(word in text for word in _FASTER), reason=_hosts_words(err) or reason
        )

    def forget_tracking(self) -> None:
        """Drops the tracking copy: it holds what may not be here."""
        reflock.delete(self._local, self.tracking)

    def _failed(self, what: str, err: bytes) -> MemError:
        text = err.decode("utf-8", "replace").strip()
        lock = reflock.met(self._local.common_dir, text) if what == "fetch" else ""
        if lock:
            message = f"cannot note what '{self.name}' has: it is locked by '{lock}'"
            return GitFailed(message, hint=reflock.LEFT, stderr=text)
        rows = (
            [row for row in text.splitlines() if row.startswith(("fatal:", "error:"))]
            or text.splitlines()
            or ["git said nothing"]
        )
        first = rows[0].partition(": ")[2] or rows[0]
        hint = (
            "nothing was sent"
            if what == "push"
            else "`git fetch` with the same remote shows whether it is the network or the address"
        )
        if _no_room(text):
            return GitFailed(
                f"the disk is full: {_no_room(text)}",
                hint="make room here, or where the remote is if it says so; no memory is lost",
                stderr=text,
            )
        return GitFailed(
            f"cannot {'push to' if what == 'push' else 'reach'} '{self.name}': {first}",
            hint=hint,
            stderr=text,
        )


def _no_room(text: str) -> str:
    """The line in which git says that a disk or a quota is full, "" for none."""
    return next(
        (row.strip() for row in text.splitlines() if any(word in row for word in _FULL)), ""
    )


def _hosts_words(err: bytes) -> str:
    """What the hosting says of its own accord: the first `remote:` line with words."""
    for row in err.decode("utf-8", "replace").splitlines():
        words = row.removeprefix("remote:").strip()
        if row.startswith("remote:") and words:
            return words.removeprefix("error: ").removeprefix("fatal: ")
    return ""


def names(repo: Repo) -> list[str]:
    """The remotes of a repository."""
    return (
        repo.git.text("remote").split("\n")
        if os.path.exists(os.path.join(repo.common_dir, "config"))
        else []
    )
