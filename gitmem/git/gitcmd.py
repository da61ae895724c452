"""Plumbing through the `git` executable: the one place that starts git.

Promise: every repository git itself can open works (SHA-1, SHA-256, files, reftable, worktrees,
bare), because git reads and writes. A failed call raises `GitFailed` with git's own words. Nothing
here touches the working tree or the index. A process costs about 1.5 ms.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..core.errors import GitFailed, MemError
from .object_reader import LARGEST, REQUESTS, Found, Objects
from .object_reader import NO_FETCH as NO_FETCH

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

# Of an outer git (a hook, an alias): they name its index and its pushed refs, not our work.
_FOREIGN = (
    "GIT_INDEX_FILE GIT_PREFIX GIT_NOTES_REF GIT_NOTES_DISPLAY_REF GIT_NOTES_REWRITE_REF"
    " GIT_NOTES_REWRITE_MODE GIT_EXTERNAL_DIFF GIT_DIFF_OPTS GIT_LITERAL_PATHSPECS"
    " GIT_GLOB_PATHSPECS GIT_NOGLOB_PATHSPECS GIT_ICASE_PATHSPECS"
)
_PIPES: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
_PORTION = 1 << 20  # bytes in a pipe, the most that Linux gives without asking


def clean_env() -> dict[str, str]:
    """The environment for our git processes: the user's, less what would bend their answers."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_TRACE")}
    for name in _FOREIGN.split():
        env.pop(name, None)
    env["GIT_OPTIONAL_LOCKS"] = "0"
    env["LC_ALL"] = "C"  # messages are matched below
    return env


class Git:
    """git in one repository, named by its git directory (the worktree's own, for linked ones)."""

    def __init__(self, git_dir: str | None = None, cwd: str | None = None) -> None:
        self.cwd = cwd
        self.git_dir = git_dir or ""
        self.common_dir = self.git_dir  # of a linked worktree: set by whoever opened it
        self._prefix = ["git"] if git_dir is None else ["git", f"--git-dir={git_dir}"]
        self.env = clean_env()
        self.largest = LARGEST  # bytes of a note that is read (`truth`); 0: all of them
        # Monotonic time after which a call is ended and counts as failed; None: git takes its time.
        self.until: float | None = None
        self._readers: dict[str, Objects] = {}

    def start(
        self, args: Iterable[str], env: dict[str, str] | None = None, **pipes: object
    ) -> subprocess.Popen[bytes]:
        """A running git process; the caller closes it. `env` is added to the environment."""
        try:
            return subprocess.Popen(  # type: ignore[no-any-return, call-overload]
                [*self._prefix, *args],
                cwd=self.cwd,
                env={**self.env, **env} if env else self.env,
                **pipes,
            )
        except FileNotFoundError as e:
            if self.cwd is not None and not os.path.isdir(self.cwd):
                raise MemError(f"no directory '{self.cwd}'") from e
            raise MemError(
                "git is not installed or not on PATH", hint="install git 2.31 or newer"
            ) from e

    def run(
        self,
        *args: str,
        stdin: bytes = b"",
        ok: tuple[int, ...] = (0,),
        env: dict[str, str] | None = None,
    ) -> bytes:
        """stdout of one git call. Raises GitFailed unless the exit status is in `ok`."""
        return self.run_status(*args, stdin=stdin, ok=ok, env=env)[0]

    def run_status(
        self,
        *args: str,
        stdin: bytes = b"",
        ok: tuple[int, ...] = (0,),
        env: dict[str, str] | None = None,
    ) -> tuple[bytes, int]:
        """The same, and the exit status."""
        process = _wide(self.start(args, env, stderr=subprocess.PIPE, **_PIPES))
        left = None if self.until is None else max(0.0, self.until - time.monotonic())
        try:
            out, err = process.communicate(stdin, timeout=left)
        except subprocess.TimeoutExpired as e:
            process.kill()
            process.communicate()
            raise GitFailed(f"git {args[0]} took too long") from e
        if process.returncode not in ok:
            raise _failed(args, process.returncode, err)
        return out, process.returncode

    def stream(self, *args: str, stdin: bytes = b"") -> Iterator[bytes]:
        """What a call prints, cut at NULs, while it prints. `stdin`: at most what a pipe holds."""
        process = self.start(args, stderr=subprocess.PIPE, **_PIPES)
        assert process.stdin and process.stdout and process.stderr
        err = b""
        try:
            try:
                process.stdin.write(stdin)
                process.stdin.close()
            except BrokenPipeError:
                pass  # its own words follow
            open_end: list[bytes] = []  # of a name that goes on: joined once, however long it is
            while block := process.stdout.read(REQUESTS):
                first, *more = block.split(b"\0")
                open_end.append(first)
                if more:
                    yield b"".join(open_end)
                    yield from more[:-1]
                    open_end = [more[-1]]
            err = process.stderr.read()
            process.wait()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()
        if process.returncode:
            raise _failed(args, process.returncode, err)
        if rest := b"".join(open_end):
            yield rest

    def limited(self, seconds: float | None, *args: str, stdin: bytes = b"") -> tuple[bytes, bool]:
        """(stdout, whether it is whole): of a call that is ended after `seconds` (None: it takes
        the time it needs), or that fails, what came until then. Nothing is fetched for it.
        """
        process = _wide(self.start(args, NO_FETCH, stderr=subprocess.DEVNULL, **_PIPES))
        try:
            return process.communicate(stdin, timeout=seconds)[0], process.returncode == 0
        except subprocess.TimeoutExpired:
            process.kill()
            return process.communicate()[0], False

    def contains(self, commit: str, other: str, ok: tuple[int, ...] = (0, 1)) -> bool:
        """Whether `other` is an ancestor of `commit`, or the same. `ok` with 128: no where one of
        them is not here, else GitFailed.
        """
        return self.run_status("merge-base", "--is-ancestor", other, commit, ok=ok)[1] == 0

    def text(self, *args: str, ok: tuple[int, ...] = (0,)) -> str:
        """stdout as text without the final newline; empty where a call in `ok` failed."""
        return self.run(*args, ok=ok).decode("utf-8", "surrogateescape").rstrip("\n")

    @property
    def partial(self) -> bool:
        """Whether this is a partial clone: what is not here, git asks of its remote."""
        keys = r"^(extensions\.partialclone|remote\..*\.promisor)$"
        return bool(self.text("config", "--get-regexp", keys, ok=(0, 1)))

    @property
    def promised(self) -> bool:
        """The same without a process, by files: whether a pack came from such a remote."""
        packs = os.path.join(self.common_dir, "objects", "pack")
        try:
            return any(name.endswith(".promisor") for name in os.listdir(packs))
        except OSError:
            return False

    @property
    def objects(self) -> Objects:
        """The open object reader of this repository."""
        if "objects" not in self._readers:
            self._readers["objects"] = Objects(self)
        return self._readers["objects"]

    @property
    def local(self) -> Objects:
        """An object reader that fetches nothing: to it, what a partial clone lacks is not there."""
        if "local" not in self._readers:
            reader = Objects(self, env=NO_FETCH) if self.promised else self.objects
            self._readers["local"] = reader
        return self._readers["local"]

    @property
    def names(self) -> Objects:
        """A reader of ids, types and sizes, which fetches nothing."""
        if "names" not in self._readers:
            self._readers["names"] = Objects(self, "--batch-check", NO_FETCH)
        return self._readers["names"]

    def ids(self, names: list[str]) -> list[str]:
        """The object id of each revision expression, "" where there is none; no content is read."""
        return [found[0] if found else "" for found in self.names.get_many(names)]

    def entries(self, asked: Sequence[tuple[str, str]]) -> list[str]:
        """The object id of what lies under each (revision, name), "" for nothing. "." is the top;
        of a submodule it is the commit.

        Of submodules, of names with line breaks, and in a partial clone, trees are read: their
        paths have no object here, or cannot be asked for.
        """
        if self.promised:
            listed = self._listed(set(asked))
            return [listed.get(one, "") for one in asked]
        revisions = list(dict.fromkeys(rev for rev, _ in asked))
        names = [f"{rev}:{name}" if name != "." else f"{rev}^{{tree}}" for rev, name in asked]
        ids = self.ids([*names, *(f"{rev}:.gitmodules" for rev in revisions)]) if asked else []
        found = dict(zip(asked, ids[: len(asked)], strict=True))
        linked = {rev for rev, id in zip(revisions, ids[len(asked) :], strict=True) if id}
        left = {
            (rev, n) for (rev, n), id in found.items() if not id and (rev in linked or "\n" in n)
        }
        found.update(self._listed(left))
        return [found[one] for one in asked]

    def _listed(self, asked: set[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """{(revision, name): object id}, by reading the trees above each name."""
        out: dict[tuple[str, str], str] = {}
        level = {one: f"{one[0]}^{{tree}}" for one in sorted(asked) if one[1]}
        depth = 0
        while level:
            trees = list(dict.fromkeys(level.values()))
            found = map(_rows, self.local.get_many(trees))
            rows = dict(zip(trees, found, strict=True))
            below: dict[tuple[str, str], str] = {}
            for one, tree in level.items():
                parts = one[1].encode("utf-8", "surrogateescape").split(b"/")
                last = depth + 1 == len(parts)
                if id := rows[tree].get(parts[depth]):
                    (out if last else below)[one] = id
            level = below
            depth += 1
        return out

    def close(self) -> None:
        """End the object readers; a later read opens new ones."""
        for reader in set(self._readers.values()):
            reader.close()
        self._readers.clear()


def _failed(args: Sequence[str], status: int, err: bytes) -> GitFailed:
    text = err.decode("utf-8", "replace").strip()
    last = text.splitlines()[-1].removeprefix("fatal: ") if text else f"exit status {status}"
    return GitFailed(f"git {args[0]} failed: {last}", status=status, stderr=text)


def _wide(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """The process with a larger pipe: 100,000 commits are 4 MB, each portion wakes both sides."""
    try:
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PORTION)  # type: ignore[arg-type]
    except (AttributeError, OSError):
        pass  # not Linux, or the user has too many
    return process


def _rows(found: Found | None) -> dict[bytes, str]:
    """{name: object id} of a tree that was read, its own as "."; empty for anything else."""
    if found is None or found[1] != "tree":
        return {}
    id, _, tree = found
    out = {b".": id}
    at = 0
    while at < len(tree):
        begin, end = tree.index(b" ", at) + 1, tree.index(b"\0", at)
        at = end + 1 + len(id) // 2
        out[tree[begin:end]] = tree[end + 1 : at].hex()
    return out
