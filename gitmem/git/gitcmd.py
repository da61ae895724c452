"""Plumbing through the `git` executable: the one place that starts git.

Promise: every repository git itself can open works (SHA-1, SHA-256, files,
reftable, worktrees, bare), because git does the reading and writing. A failed
call raises `GitFailed` with git's own words. Nothing here touches the working
tree or the index.

Cost: about 1.5 ms a process; `Objects` keeps one `cat-file --batch` open and
answers in about 30 microseconds an object.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence

from ..core.errors import GitFailed, MemError
from .object_reader import LARGEST, REQUESTS, Objects
from .object_reader import NO_FETCH as NO_FETCH

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

# Of an outer git (a hook, an alias): they name its index and its pushed refs, not our work.
_FOREIGN = (
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_NOTES_REF",
    "GIT_NOTES_DISPLAY_REF",
    "GIT_NOTES_REWRITE_REF",
    "GIT_NOTES_REWRITE_MODE",
    "GIT_EXTERNAL_DIFF",
    "GIT_DIFF_OPTS",
    "GIT_LITERAL_PATHSPECS",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
)


def clean_env() -> dict[str, str]:
    """The environment for our git processes: the user's, less what would bend their answers."""
    env = {
        k: v for k, v in os.environ.items() if k not in _FOREIGN and not k.startswith("GIT_TRACE")
    }
    env["GIT_OPTIONAL_LOCKS"] = "0"
    env["LC_ALL"] = "C"  # messages are matched below
    return env


_PORTION = 1 << 20  # bytes in a pipe, the most that Linux gives without asking
_AT_ONCE = 500  # ids on one command line


class Git:
    """git in one repository, named by its git directory (the worktree's own, for linked ones)."""

    def __init__(self, git_dir: str | None = None, cwd: str | None = None) -> None:
        self.cwd = cwd
        self.git_dir = git_dir or ""
        self.common_dir = self.git_dir  # of a linked worktree: set by whoever opened it
        self._prefix = ["git"] if git_dir is None else ["git", f"--git-dir={git_dir}"]
        self.env = clean_env()
        self.largest = LARGEST  # bytes of a note that is read (`truth`); 0: all of them
        self.until: float | None = (
            # monotonic time after which a call is ended and counts as failed; None: git takes the
            # time it needs
            None
        )
        self._objects: Objects | None = None
        self._names: Objects | None = None
        self._local: Objects | None = None
        self._withheld: set[tuple[str, str]] = set()

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

    def dialog(
        self, args: Iterable[str], env: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """A git process that answers what it is asked on its stdin."""
        return self.start(
            args, env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def run(
        self,
        *args: str,
        stdin: bytes = b"",
        ok: tuple[int, ...] = (0,),
        env: dict[str, str] | None = None,
    ) -> bytes:
        """stdout of one git call; `env` is added to its environment.

        Raises GitFailed unless the exit status is in `ok`.
        """
        out, _ = self.run_status(*args, stdin=stdin, ok=ok, env=env)
        return out

    def run_status(
        self,
        *args: str,
        stdin: bytes = b"",
        ok: tuple[int, ...] = (0,),
        env: dict[str, str] | None = None,
    ) -> tuple[bytes, int]:
        process = _wide(
            self.start(
                args, env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        )
        try:
            out, err = process.communicate(
                stdin,
                timeout=None if self.until is None else max(0.0, self.until - time.monotonic()),
            )
        except subprocess.TimeoutExpired as e:
            process.kill()
            process.communicate()
            raise GitFailed(f"git {args[0]} took too long") from e
        if process.returncode not in ok:
            text = err.decode("utf-8", "replace").strip()
            last = text.splitlines()[-1] if text else f"exit status {process.returncode}"
            raise GitFailed(
                f"git {args[0]} failed: {last.removeprefix('fatal: ')}",
                status=process.returncode,
                stderr=text,
            )
        return out, process.returncode

    def stream(self, *args: str, stdin: bytes = b"") -> Iterator[bytes]:
        """What a call prints, cut at NULs, while it prints; whoever stops asking ends it.

        `stdin`: at most what a pipe holds.
        """
        process = self.start(
            args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdin and process.stdout and process.stderr
        text = b""
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
            rest = b"".join(open_end)
            text = process.stderr.read()
            process.wait()
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                pipe.close()
        if process.returncode:
            said = text.decode("utf-8", "replace").strip() or f"exit status {process.returncode}"
            last = said.splitlines()[-1].removeprefix("fatal: ")
            raise GitFailed(f"git {args[0]} failed: {last}", status=process.returncode, stderr=said)
        if rest:
            yield rest

    def limited(self, seconds: float | None, *args: str, stdin: bytes = b"") -> tuple[bytes, bool]:
        """(stdout, whether it is whole): of a call that is ended after `seconds` (None: it takes
        the time it needs), or that fails, what came until then. Nothing is fetched for it.
        """
        process = _wide(
            self.start(
                args,
                NO_FETCH,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        )
        try:
            out, _ = process.communicate(stdin, timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
            return out, False
        return out, process.returncode == 0

    def text(self, *args: str, ok: tuple[int, ...] = (0,)) -> str:
        """stdout as text without the final newline; empty where the call failed with a status in
        `ok`.
        """
        return self.run(*args, ok=ok).decode("utf-8", "surrogateescape").rstrip("\n")

    @property
    def partial(self) -> bool:
        """Whether this is a partial clone: what is not here, git asks of its remote."""
        return bool(
            self.text(
                "config",
                "--get-regexp",
                r"^(extensions\.partialclone|remote\..*\.promisor)$",
                ok=(0, 1),
            )
        )

    @property
    def promised(self) -> bool:
        """The same, as far as files tell: whether a pack came from such a remote.

        Costs no process.
        """
        try:
            return any(
                name.endswith(".promisor")
                for name in os.listdir(os.path.join(self.common_dir, "objects", "pack"))
            )
        except OSError:
            return False

    @property
    def local(self) -> Objects:
        """An object reader that fetches nothing: to it, what a partial clone lacks is not there."""
        if self._local is None:
            self._local = Objects(self, env=NO_FETCH) if self.promised else self.objects
        return self._local

    @property
    def objects(self) -> Objects:
        """The open object reader of this repository."""
        if self._objects is None:
            self._objects = Objects(self)
        return self._objects

    def ids(self, names: list[str]) -> list[str]:
        """The object id of each revision expression, "" where there is none; no content is read."""
        return [found[0] if found else "" for found in self.names.get_many(names)]

    @property
    def names(self) -> Objects:
        """A reader of ids, types and sizes; a partial clone must not ask its remote whether an
        object exists.
        """
        if self._names is None:
            self._names = Objects(self, "--batch-check", NO_FETCH)
        return self._names

    def withheld(self, revision: str, name: str) -> bool:
        """Whether `entries`, asked about it, could not tell what lies there: a partial clone has
        the commit and not its directories.
        """
        return (revision, name) in self._withheld

    def here(self, ids: Iterable[str]) -> set[str]:
        """Those of these full object ids that are in this repository; nothing is fetched."""
        wanted = sorted(ids)
        found: set[str] = set()
        for i in range(0, len(wanted), _AT_ONCE):
            found.update(
                self.text(
                    "rev-parse", *(f"--disambiguate={id}" for id in wanted[i : i + _AT_ONCE])
                ).split()
            )
        return found

    def entries(self, asked: Sequence[tuple[str, str]]) -> list[str]:
        """The object id of what lies under each (revision, name), "" for nothing. "." is the top;
        of a submodule it is the commit.

        Of submodules, of names with line breaks, and in a partial clone, trees are read: their
        paths have no object here, or cannot be asked for."""
        if self.promised:
            listed = self._listed(set(asked))
            return [listed.get(one, "") for one in asked]
        revisions = list(dict.fromkeys(revision for revision, _ in asked))
        names = [
            f"{revision}:{name}" if name != "." else f"{revision}^{{tree}}"
            for revision, name in asked
        ]
        found = (
            self.ids([*names, *(f"{revision}:.gitmodules" for revision in revisions)])
            if asked
            else []
        )
        linked = {
            revision for revision, id in zip(revisions, found[len(asked) :], strict=True) if id
        }
        open_ = {
            (revision, name)
            for (revision, name), id in zip(asked, found[: len(asked)], strict=True)
            if not id and name and (revision in linked or "\n" in name)
        }
        listed = self._listed(open_) if open_ else {}
        return [id or listed.get(one, "") for one, id in zip(asked, found, strict=False)]

    def _listed(self, asked: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """{(revision, name): object id}, by reading the trees above each name, those of one depth
        together.
        """
        out: dict[tuple[str, str], str] = {}
        level = {one: f"{one[0]}^{{tree}}" for one in sorted(asked) if one[1]}
        depth = 0
        while level:
            trees = list(dict.fromkeys(level.values()))
            found = dict(zip(trees, self.local.get_many(trees), strict=True))
            if self.promised:
                self._withheld.update(one for one, tree in level.items() if found[tree] is None)
            rows = {
                tree: _rows(got[2], len(got[0]) // 2) if got and got[1] == "tree" else {}
                for tree, got in found.items()
            }
            parts = {one: one[1].encode("utf-8", "surrogateescape").split(b"/") for one in level}
            ids = {one: rows[tree].get(parts[one][depth], "") for one, tree in level.items()}
            out.update(
                (one, got[0])
                for one, tree in level.items()
                if one[1] == "." and (got := found[tree])
            )
            out.update(
                (one, id)
                for one, id in ids.items()
                if depth + 1 == len(parts[one]) and one[1] != "."
            )
            level = {one: id for one, id in ids.items() if id and depth + 1 < len(parts[one])}
            depth += 1
        return out

    def close(self) -> None:
        """End the object readers; a later read opens new ones."""
        for reader in {r for r in (self._objects, self._names, self._local) if r is not None}:
            reader.close()
        self._objects = self._names = self._local = None


def _wide(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """The same process, its answer in larger portions: 100,000 commits come in 4 MB, and each
    portion wakes both sides.
    """
    try:
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PORTION)  # type: ignore[arg-type]
    except (AttributeError, OSError):
        pass  # not Linux, or the user has too many
    return process


def _rows(tree: bytes, size: int) -> dict[bytes, str]:
    """{name: object id} of a raw tree; `size`: bytes of an id."""
    out = {}
    at = 0
    while at < len(tree):
        begin, end = tree.index(b" ", at) + 1, tree.index(b"\0", at)
        at = end + 1 + size
        out[tree[begin:end]] = tree[end + 1 : at].hex()
    return out
