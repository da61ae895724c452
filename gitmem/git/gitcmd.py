"""Plumbing through the `git` executable: the one place that starts git.

Promise: every repository git itself can open works (SHA-1, SHA-256, files, reftable, worktrees,
bare), because git reads and writes. A failed call raises `GitFailed` with git's own words. Nothing
here touches the working tree or the index. A process costs about 1.5 ms.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import IO, Any

from ..core.errors import GitFailed, MemError
from .object_reader import LARGEST, REQUESTS, Objects
from .object_reader import NO_FETCH as NO_FETCH

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

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
_PIPE, _DEVNULL = -1, -3  # as `subprocess` has them: loading it takes 4 ms, for one that starts
_PIPES: dict[str, Any] = {"stdin": _PIPE, "stdout": _PIPE}
_NAMES = 500_000  # bytes of a command's names: the kernel takes 2 MB
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
        self.largest = LARGEST  # bytes of a note that is read (`note_reader`); 0: all of them
        # Monotonic time after which a call is ended and counts as failed; None: git takes its time.
        self.until: float | None = None
        self._readers: dict[tuple[str, bool], Objects] = {}
        self.present: set[str] = set()  # commits that refs named and git has: asked for often

    def start(
        self, args: Iterable[str], env: dict[str, str] | None = None, **pipes: object
    ) -> subprocess.Popen[bytes]:
        """A running git process; the caller closes it. `env` is added to the environment."""
        import subprocess

        try:
            return subprocess.Popen(  # type: ignore[no-any-return, call-overload]
                [*self._prefix, *args],
                cwd=self.cwd,
                env={**self.env, **env} if env else self.env,
                **pipes,
            )
        except (FileNotFoundError, NotADirectoryError) as e:
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
        from subprocess import TimeoutExpired

        process = _wide(self.start(args, env, stderr=_PIPE, **_PIPES))
        left = None if self.until is None else max(0.0, self.until - time.monotonic())
        try:
            out, err = process.communicate(stdin, timeout=left)
        except TimeoutExpired as e:
            process.kill()
            process.communicate()
            raise GitFailed(f"git {args[0]} took too long", status=124) from e
        if process.returncode not in ok:
            raise _failed(args, process.returncode, err)
        return out

    def resolve(self, name: str) -> str:
        """The object id of a revision expression as it stands now, "" for none."""
        return self.text("rev-parse", "-q", "--verify", name, ok=(0, 1, 128))

    def is_ancestor(self, commit: str, other: str, here: bool = True) -> bool:
        """Whether `other` contains `commit`. `here`: GitFailed is raised where one is missing."""
        try:
            self.run("merge-base", "--is-ancestor", commit, other)
        except GitFailed as e:
            if here and e.status != 1:
                raise
            return False
        return True

    def stream(
        self, *args: str, stdin: bytes = b"", cut: bytes = b"\0", ok: tuple[int, ...] = (0,)
    ) -> Iterator[bytes]:
        """What a call prints, cut at NULs (or `cut`), while it prints."""
        from threading import Thread

        process = self.start(args, stderr=_PIPE, **_PIPES)
        assert process.stdin and process.stdout and process.stderr
        err: list[bytes] = []
        # Each in a thread of its own: else git, it and we could wait for each other.
        feed(process.stdin, stdin)
        reader = Thread(target=_read, args=(process.stderr, err), daemon=True)
        reader.start()
        try:
            open_end: list[bytes] = []  # of a name that goes on: joined once, however long it is
            while block := process.stdout.read(REQUESTS):
                first, *more = block.split(cut)
                open_end.append(first)
                if more:
                    yield b"".join(open_end)
                    yield from more[:-1]
                    open_end = [more[-1]]
            reader.join()
            process.wait()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        if process.returncode not in ok:
            raise _failed(args, process.returncode, b"".join(err))
        if rest := b"".join(open_end):
            yield rest

    def limited(self, seconds: float | None, *args: str, stdin: bytes = b"") -> tuple[bytes, bool]:
        """(stdout, whether it is whole): of a call that is ended after `seconds` (None: it takes
        the time it needs), or that fails, what came until then. Nothing is fetched for it.
        """
        from subprocess import TimeoutExpired

        process = _wide(self.start(args, NO_FETCH, stderr=_DEVNULL, **_PIPES))
        try:
            return process.communicate(stdin, timeout=seconds)[0], process.returncode == 0
        except TimeoutExpired:
            process.kill()
            return process.communicate()[0], False

    def text(self, *args: str, ok: tuple[int, ...] = (0,)) -> str:
        """stdout as text without the final newline; empty where a call in `ok` failed."""
        return self.run(*args, ok=ok).decode("utf-8", "surrogateescape").rstrip("\n")

    @property
    def partial(self) -> bool:
        """Whether this is a partial clone: what is not here, git asks of its remote."""
        keys = r"^(extensions\.partialclone|remote\..*\.promisor)$"
        return bool(self.text("config", "--get-regexp", keys, ok=(0, 1)))

    @functools.cached_property
    def promised(self) -> bool:
        """The same without a process, by files: whether a pack came from such a remote."""
        packs = os.path.join(self.common_dir, "objects", "pack")
        try:
            return any(name.endswith(".promisor") for name in os.listdir(packs))
        except OSError:
            return False

    def has_commit(self, id: str) -> bool:
        """Whether a commit is here, whole, in a file of its own, or is `present`; told without a
        process. False says nothing: it may be in a pack.
        """
        import zlib

        if id in self.present:
            return True
        if "GIT_OBJECT_DIRECTORY" in self.env:
            return False
        try:
            with open(os.path.join(self.common_dir, "objects", id[:2], id[2:]), "rb") as f:
                stored = f.read(LARGEST)
            stream = zlib.decompressobj()
            content = stream.decompress(stored, LARGEST)
        except (OSError, zlib.error):
            return False
        # At its end stands a checksum, and behind that nothing.
        return stream.eof and not stream.unused_data and content.startswith(b"commit ")

    @property
    def objects(self) -> Objects:
        return self._reader("--batch", None)

    @property
    def local(self) -> Objects:
        """An object reader that fetches nothing: to it, what a partial clone lacks is not there."""
        return self._reader("--batch", NO_FETCH if self.promised else None)

    def _reader(self, mode: str, env: dict[str, str] | None) -> Objects:
        if (mode, env is None) not in self._readers:
            self._readers[mode, env is None] = Objects(self, mode, env)
        return self._readers[mode, env is None]

    def ids(self, names: list[str]) -> list[str]:
        """The object id of each revision expression, "" where there is none; no content is read."""
        if not names:
            return []  # starts no process
        reader = self._reader("--batch-check", NO_FETCH)
        return [found[0] if found else "" for found in reader.get_many(names)]

    def entries(self, asked: Sequence[tuple[str, str]]) -> list[str]:
        """The object id of what lies under each (revision, name), "" for nothing. "." is the top;
        of a submodule it is the commit.

        Of submodules, of names with line breaks, and in a partial clone, git lists each revision in
        a process of its own: their paths have no object here, or cannot be asked for.
        """
        if self.promised:
            listed = self._listed(asked)
            return [listed.get(one, "") for one in asked]
        revisions = list(dict.fromkeys(rev for rev, _ in asked))
        names = [f"{rev}:{name}" if name != "." else f"{rev}^{{tree}}" for rev, name in asked]
        ids = self.ids([*names, *(f"{rev}:.gitmodules" for rev in revisions)])
        found = dict(zip(asked, ids[: len(asked)], strict=True))
        linked = {rev for rev, id in zip(revisions, ids[len(asked) :], strict=True) if id}
        left = [one for one, id in found.items() if not id and (one[0] in linked or "\n" in one[1])]
        found.update(self._listed(left))
        return [found[one] for one in asked]

    def _listed(self, asked: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """{(revision, name): object id} of those that are there."""
        names: dict[str, list[str]] = {}
        for rev, name in asked:
            names.setdefault(rev, []).append(name)
        tops = self.ids([f"{rev}^{{tree}}" for rev in names])
        out = {(rev, "."): id for rev, id in zip(names, tops, strict=True)}
        for rev, some in names.items():
            literal = [f":(top,literal){name}" for name in some if name and name != "."]
            # -t: also a directory above another name
            words = ("ls-tree", "-t", "-z", "--full-tree", "--end-of-options", rev, "--")
            sizes = accumulate(len(os.fsencode(name)) + 1 for name in literal)
            for _, part in groupby(zip(sizes, literal, strict=True), lambda of: of[0] // _NAMES):
                rows = self.limited(None, *words, *(name for _, name in part))[0].split(b"\0")
                for row in rows[:-1]:
                    head, _, path = row.partition(b"\t")
                    out[rev, path.decode("utf-8", "surrogateescape")] = head.split()[2].decode()
        return out

    def close(self) -> None:
        """End the object readers; a later read opens new ones."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()


def feed(pipe: IO[bytes], stdin: bytes) -> None:
    """Writes to a process beside us: a pipe can be full while nobody reads the other end."""
    from threading import Thread

    def write() -> None:
        with contextlib.suppress(BrokenPipeError), pipe:
            pipe.write(stdin)

    Thread(target=write, daemon=True).start()


def _read(pipe: IO[bytes], into: list[bytes]) -> None:
    with pipe:
        into.append(pipe.read())


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
