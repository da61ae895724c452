"""Objects of a repository through one open `git cat-file --batch`, some 30 microseconds each.

Promise: a damaged object, or one that a partial clone cannot fetch, counts as missing and stops
nobody. An object longer than its caller wants is never read: the header before it has its size.
"""

from __future__ import annotations

import time

from ..core.errors import GitFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .gitcmd import Git

# Makes a partial clone ask its remote for nothing: git listens to the first since 2.39.4 and 2.44,
# in an older one its `git fetch` is refused by the second.
NO_FETCH = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
# Bytes of requests sent before answers are read: git echoes names, so both pipes must hold them.
REQUESTS = 16 * 1024
# Bytes of a note that is read: our own ones have 32 KiB and one line, of 1 MiB at most.
LARGEST = 4 << 20
_TOGETHER = 8 << 20  # bytes of answers that are held at a time where the caller bounds one
_ENDED = 32  # objects that may end `git cat-file` before we give up
_HEX = frozenset("0123456789abcdef")
_NOTHING = "no such object"
TREE = b"40000"  # the mode of a tree in a tree

Found = tuple[str, str, bytes]  # (object id, type, content)


class TooLarge(bytes):
    """The content of an object that was not read: empty; `size` is that of the object."""

    size = 0


class Objects:
    """Reads objects by any revision expression through one `git cat-file --batch`."""

    def __init__(self, git: Git, mode: str = "--batch", env: dict[str, str] | None = None) -> None:
        self._git, self._env = git, env
        # Of a larger object git reads only as much as it prints, where it can.
        self._args = ["-c", f"core.bigFileThreshold={LARGEST}", "cat-file", mode]
        self._content = mode == "--batch"
        self._ended = 0  # how many names have ended git
        # In a partial clone where one did: whether an id is here, so that it does not end git.
        self._here: dict[str, bool] | None = None
        self._start()

    def _start(self) -> None:
        pipes = {"stdin": -1, "stdout": -1, "stderr": -3}
        self._process = self._git.start(self._args, self._env, **pipes)

    def get(self, name: str, most: int = 0) -> Found | None:
        """What a revision expression names, None where there is no such object."""
        return next(iter(self.get_many([name], most)))

    def get_many(self, names: Iterable[str], most: int = 0) -> Iterator[Found | None]:
        """The same for many names, in order; requests go out in blocks so that no pipe fills up.

        `most`: bytes of the longest content that is read, if not 0; of others it is `TooLarge`.
        """
        block: list[str] = []
        size = 0
        for name in names:
            # An empty or torn request line would shift every answer after it.
            block.append(name if 0 < len(name) < REQUESTS and "\n" not in name else _NOTHING)
            size += len(block[-1]) * 4
            if size >= REQUESTS:
                yield from self._ask(block, most)
                block, size = [], 0
        yield from self._ask(block, most)

    def _ask(self, names: list[str], most: int) -> Iterator[Found | None]:
        """The answers of one block, in parts that are read whole, so that their reader may ask for
        other objects meanwhile. An object that ends git is asked for once more.
        """
        again = ""
        while names:
            asked = names if self._here is None else self._served(names, self._here)
            answers, stopped = self._round(asked, most)
            names = names[len(answers) :]
            if stopped:
                self._process.kill()  # else it prints on what nobody wants
                if self._git.until is not None and time.monotonic() > self._git.until:
                    raise GitFailed("git cat-file took too long")
            if stopped or names:
                self.close()
                self._start()
            if names and not stopped and names[0] != again:
                again = names[0]
            elif names and not stopped:
                if self._here is None and self._git.partial:
                    self._here = {}
                self._ended += self._here is None
                if self._ended > _ENDED:
                    hint = "`git fsck` shows whether the repository is damaged"
                    raise GitFailed("git cat-file ended early", hint)
                answers.append(None)
                names = names[1:]
            yield from answers

    def _served(self, names: list[str], here: dict[str, bool]) -> list[str]:
        """The names, with one that nothing has for those of objects that are not here."""
        roots = {name: name.partition(":")[0].partition("^")[0] for name in names}
        ids = {id for id in roots.values() if len(id) >= 40 and _HEX.issuperset(id)}
        # What was not here may have come since. This lists ids and fetches nothing.
        if unsure := {id for id in ids if not here.get(id)}:
            found = self._git.text("rev-parse", *(f"--disambiguate={id}" for id in unsure)).split()
            here.update((id, id in found) for id in unsure)
        return [name if here.get(roots[name], True) else _NOTHING for name in names]

    def _round(self, names: list[str], most: int) -> tuple[list[Found | None], bool]:
        """(the answers up to a name that ends git, or after which we do; whether it was us)."""
        answers: list[Found | None] = []
        together = 0
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(b"".join(n.encode("utf-8", "surrogateescape") + b"\n" for n in names))
            stdin.flush()
        except BrokenPipeError:
            pass  # what was answered before is still in the other pipe
        for _ in names:
            head = stdout.readline()
            if not head.endswith(b"\n"):
                break
            parts = head.rsplit(b" ", 2)
            if len(parts) != 3 or not parts[2].strip().isdigit():
                answers.append(None)  # "<name> missing" or "<name> ambiguous"
                continue
            size = int(parts[2])
            large = 0 < most < size
            content = b""
            if large:
                content = TooLarge()
                content.size = size
            elif self._content:
                content = stdout.read(size)
                if stdout.read(1) != b"\n":
                    break
            answers.append((parts[0].decode(), parts[1].decode(), content))
            together += len(content)
            full = most and together > _TOGETHER and len(answers) < len(names)
            if self._content and (large or full):
                return answers, True
        return answers, False

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass
        self._process.wait()


def parse_tree(content: bytes, width: int) -> dict[bytes, tuple[bytes, str]]:
    """{name: (mode, object id)} of a tree's content; `width`: bytes of an id."""
    out = {}
    at = 0
    while at < len(content):
        space = content.index(b" ", at)
        end = content.index(b"\0", space)
        mode, at = content[at:space], end + 1 + width
        out[content[space + 1 : end]] = mode, content[end + 1 : at].hex()
    return out
